//! Beyond the paper: only the number of files varies, to test whether the gain of SCTP is "directly
//! proportional" to it (P1-C09).
//!
//! Published: "directly proportional". Ours, seconds for 1, 5, 10, 20, 30, 40 files: tcp 7.47 33.7 70.7 135
//! 202 277; sctp 5.67 21.3 40.9 77.5 115 151; braid 0.583 2.86 5.66 11.3 16.9 22.5. Ours agree: files are
//! transferred one after another and do not affect each other.

use super::{RUNS, THREE, session};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/count",
    shows: "Files of 200 KB at 6 % loss, 3 Mbit/s, 1 ms",
    caption: "Nothing but the number of files is varied.",
    settings: &|| super::settings(LAN, "1 to 40 files of 200 KB at 6 % loss"),
    kind: Kind::Sweep(SWEEP),
};

/// Files at 6 % loss.
pub(super) const SWEEP: Sweep = Sweep {
    axes: &[
        Axis {
            name: "count",
            label: "files",
            values: &[
                Value::Number(1.0),
                Value::Number(5.0),
                Value::Number(10.0),
                Value::Number(20.0),
                Value::Number(30.0),
                Value::Number(40.0),
            ],
            show: &Value::to_string,
        },
        THREE,
    ],
    only: &|_| true,
    fixed: &|_| false,
    quick: &|_| true,
    paired: &["variant"],
    columns: ftp::COLUMNS,
    runs: RUNS,
    run: &|point, seed| {
        let loss = ftp::bernoulli(0.06);
        let losses = [loss.clone(), loss];
        let files = vec![200_000; point.number("count") as usize];
        ftp::run(&session(LAN, files, point.name("variant"), losses, seed), Clock::Asked)
    },
    plot: Plot::lines("count", "seconds", "seconds"),
};
