//! Beyond the paper: only the loss ratio varies, to test whether the gain of SCTP is "directly proportional"
//! to it (P1-C11).
//!
//! Published: "directly proportional". Ours, seconds at 0, 2, 4, 6, 8, 10 %: tcp 5.61 12.9 31.0 69.0 131 237;
//! sctp 5.66 12.5 22.0 38.9 72.6 135; braid 5.53 5.56 5.62 5.64 5.75 5.78. Reason for the difference: TCP's
//! time grows far faster than the loss, since time-outs back off.

use super::{RUNS, THREE, session};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/loss",
    shows: "10 files of 200 KB, 3 Mbit/s, 1 ms",
    caption: "Nothing but the loss ratio is varied, in even steps.",
    settings: &|| super::settings(LAN, "10 files of 200 KB"),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[
                    Value::Number(0.0),
                    Value::Number(0.02),
                    Value::Number(0.04),
                    Value::Number(0.06),
                    Value::Number(0.08),
                    Value::Number(0.1),
                ],
                ..ftp::LOSS
            },
            THREE,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|_| true,
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let loss = ftp::bernoulli(point.number("loss"));
            let losses = [loss.clone(), loss];
            let files = vec![200_000; 10];
            ftp::run(&session(LAN, files, point.name("variant"), losses, seed), Clock::Asked)
        },
        plot: Plot::lines("loss", "seconds", "seconds"),
    }),
};
