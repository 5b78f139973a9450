//! Beyond the paper: only the size of the files varies, to test whether the gain of SCTP is "directly
//! proportional" to it (P1-C10).
//!
//! Published: "directly proportional". Ours, seconds for 50, 100, 200, 500 KB, 1, 2 MB: tcp 18.6 33.3 68.6
//! 178 356 730; sctp 27.6 30.2 41.1 64.9 109 200; braid 1.44 2.82 5.64 14.5 28.1 56.0. Reason for the
//! difference: the line is straight and does not pass through the origin, because below 100 KB the longer
//! handshake makes SCTP slower.

use super::{THREE, session};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/size",
    shows: "10 files at 6 % loss, 3 Mbit/s, 1 ms",
    caption: "Nothing but the size of the files is varied.",
    settings: &|| super::settings(LAN, "10 files of 50 KB to 2 MB at 6 % loss"),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "size",
                label: "size of each file",
                values: &[
                    Value::Number(50_000.0),
                    Value::Number(100_000.0),
                    Value::Number(200_000.0),
                    Value::Number(500_000.0),
                    Value::Number(1_000_000.0),
                    Value::Number(2_000_000.0),
                ],
                show: &ftp::size,
            },
            THREE,
        ],
        run: &|point, seed| {
            let loss = ftp::bernoulli(0.06);
            let losses = [loss.clone(), loss];
            let files = vec![point.number("size") as u64; 10];
            ftp::run(&session(LAN, files, point.name("variant"), losses, seed), Clock::Asked)
        },
        plot: Plot::lines("size", "seconds", "seconds"),
        ..super::count::SWEEP
    }),
};
