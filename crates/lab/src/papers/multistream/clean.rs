//! Beyond the paper: an error that it reports (§5.1), reproduced. In earlier results SCTP's retransmissions
//! were sent over the testbed's control network, which had no loss and no delay, and so favoured SCTP
//! (P2-C50).
//!
//! Published: only the fact. Ours, naive, LAN, seconds at 0, 1, 3, 6, 10 %: 10 KB: one 4.01 29.3 95.5 220
//! 489; clean-second 4.02 30.2 84.1 179 349. 200 KB: one 56.5 89.0 164 376 1164; clean-second 56.5 82.3 139
//! 261 596. 1 MB at 0, 3, 6, 10 %: one 277 452 1125 4409; clean-second 277 367 624 1749.

use super::{VARIANTS, session};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/clean",
    shows: "A clean second path that catches retransmissions, LAN",
    caption: "The LAN of Figure 6, and the same with a second path beside it, 100 Mbit/s without loss or delay, to which \
              RFC 2960 section 6.4 sends what is retransmitted: the bias of the group's earlier results.",
    settings: &|| {
        let mut settings = super::settings(LAN);
        settings.push(format!("second path, each way: {}", ftp::control_network()[0]));
        settings
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[Value::Number(10_000.0), Value::Number(200_000.0), Value::Number(1_000_000.0)],
                ..super::SIZES
            },
            ftp::LOSS,
            Axis {
                values: &[
                    Value::Name("naive"),
                    Value::Name("ms"),
                    Value::Name("ms-cp"),
                    Value::Name("braid"),
                ],
                ..VARIANTS
            },
            Axis {
                name: "paths",
                label: "paths",
                values: &[Value::Name("one"), Value::Name("clean-second")],
                show: &|value| match value {
                    Value::Name("one") => "the path under test alone".to_owned(),
                    _ => "with a clean second path".to_owned(),
                },
            },
        ],
        only: &|point| point.number("size") < 1_000_000.0 || point.number("loss") != 0.01,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") < 200_000.0,
        paired: &["variant", "paths"],
        columns: ftp::COLUMNS,
        runs: Runs::PAPER,
        run: &|point, seed| {
            let mut session = session(LAN, point, seed);
            if point.name("paths") == "clean-second" {
                session.paths.push(ftp::control_network());
            }
            ftp::run(&session, Clock::Opened)
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 100 files")
            .by("paths")
            .facet("variant")
            .rows("size"),
    }),
};
