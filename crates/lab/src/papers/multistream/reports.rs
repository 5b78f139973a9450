//! Beyond the paper: four and three missing reports before a fast retransmission, with everything else equal
//! (P2-C22, C23).
//!
//! Published: no numbers. Ours, seconds at 1, 3, 6, 10 %: 10 KB four 29.3 95.5 220 489; three 28.4 85.7 207
//! 469; 200 KB four 89.0 164 376 1164; three 83.6 149 374 1139.

use std::num::NonZeroU8;

use super::{SIZES, session};
use crate::figure::{Axis, Figure, Kind, Point, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/reports",
    shows: "Four missing reports before a fast retransmit, or three, LAN",
    caption: "SCTP-naive of Figure 6, which retransmits after the fourth report that a chunk is missing, and the same after the \
              third (RFC 9260 section 7.2.4).",
    settings: &|| super::settings(LAN),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis { values: &[Value::Number(10_000.0), Value::Number(200_000.0)], ..SIZES },
            ftp::LOSS,
            Axis {
                name: "variant",
                label: "reports",
                values: &[Value::Name("four"), Value::Name("three")],
                show: &|value| format!("{value} reports"),
            },
        ],
        only: &|point| point.number("loss") > 0.0,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") < 200_000.0,
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: Runs::PAPER,
        run: &|point, seed| {
            let naive = Point::new(vec![
                ("size", point.value("size")),
                ("loss", point.value("loss")),
                ("variant", Value::Name("naive")),
            ]);
            let mut session = session(LAN, &naive, seed);
            if point.name("variant") == "three" {
                session.sctp.legacy.missing_reports = NonZeroU8::new(3).expect("3 is not 0");
            }
            ftp::run(&session, Clock::Opened)
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 100 files").facet("size"),
    }),
};
