//! The cost of a time-out with a small buffer: the sender is idle until the timer expires (P4-C20).
//!
//! Published: an argument. Ours: with 64 KB and RTO.Min of 1 s the sender is idle for 0.101 of the time, with
//! 4 s for 0.236, and with an ample buffer never.

use std::time::Duration;

use super::{BETTER_LOSS, COLUMNS, DELAY, RUNS, classical, link, run, settings};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/timeouts",
    shows: "What time-outs make of a small buffer",
    caption: "Which part of the time the sender sends nothing at all, by the least retransmission time-out (RTO.Min), with receive buffers of 32, \
              64 and 256 KB and an ample one. Path 1 loses 1 %, path 2 8 %.",
    settings: &|| settings(&["path 2 loses 8 %", "ample: 16 MB"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                values: &[
                    Value::Number(32.0),
                    Value::Number(64.0),
                    Value::Number(256.0),
                    Value::Number(super::AMPLE_KB),
                ],
                ..super::BUFFER
            },
            Axis {
                name: "rto",
                label: "RTO.Min, s",
                values: &[
                    Value::Number(0.25),
                    Value::Number(0.5),
                    Value::Number(1.0),
                    Value::Number(2.0),
                    Value::Number(4.0),
                ],
                show: &|value| format!("{value} s"),
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 64.0,
        paired: &["buffer", "rto"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let ways = [link(DELAY, BETTER_LOSS), link(DELAY, 0.08)];
            let mut config = classical(point.number("buffer"));
            config.timers.rto.min = Duration::from_secs_f64(point.number("rto"));
            config.timers.rto.initial = config.timers.rto.initial.max(config.timers.rto.min);
            run(&ways, config, &[0, 1], seed)
        },
        plot: Plot::lines("rto", "idle", "part of the time in pauses").by("buffer").beside("mbps").log_x(),
    }),
};
