//! Losses on both paths, from none to 10 %: less loss blocks the receive buffer less (P4-C22).
//!
//! Published: an argument. Ours: `braidlab check P4-C22`. Without random loss an ample buffer still holds
//! data that waits for packets dropped by queue overflows.

use super::{COLUMNS, DELAY, RUNS, classical, link, run, settings};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/loss",
    shows: "The fewer losses, the less is blocked",
    caption: "Which part of the time nothing but the receive buffer holds data back, by what each of the two paths loses, for buffers of 64 and \
              256 KB and one that is ample.",
    settings: &|| settings(&["ample: 16 MB"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[Value::Number(64.0), Value::Number(256.0), Value::Number(super::AMPLE_KB)],
                ..super::BUFFER
            },
            Axis {
                name: "loss",
                label: "packets lost on either path",
                values: &[
                    Value::Number(0.0),
                    Value::Number(0.001),
                    Value::Number(0.003),
                    Value::Number(0.01),
                    Value::Number(0.03),
                    Value::Number(0.1),
                ],
                show: &ftp::percent,
            },
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("buffer") == 64.0,
        paired: &["buffer"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let ways = [(); 2].map(|()| link(DELAY, point.number("loss")));
            run(&ways, classical(point.number("buffer")), &[0, 1], seed)
        },
        plot: Plot::lines("loss", "held", "KB that wait for what is missing").by("buffer").beside("mbps"),
    }),
};
