//! Paths with very short delays (P4-C18: there is more blocking there, too).
//!
//! Published: an argument after Iyengar et al. (GLOBECOM 2005). A time-out of a second lasts a hundred round
//! trips of 10 ms; meanwhile the other path fills the buffer. Ours, 64 KB, 10 % loss on path 2: 4.69 Mbit/s
//! at 1 ms where path 1 alone reaches 8.76, and 1.54 at 45 ms where path 1 alone reaches 1.53.

use std::time::Duration;

use super::{BETTER_LOSS, LOSS, PATHS, classical, link, paths, run, settings};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/short",
    shows: "Paths with little delay, and with more",
    caption: "User data over both paths and over each alone, by the delay of both paths (path 1 loses 1 %, path 2 4 % or 10 %), with receive \
              buffers of 16 and 64 KB.",
    settings: &|| settings(&["paths: as above but for the delay, which both share"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis { values: &[Value::Number(16.0), Value::Number(64.0)], ..super::BUFFER },
            Axis { values: &[Value::Number(0.04), Value::Number(0.1)], ..LOSS },
            Axis {
                name: "delay",
                label: "delay of both paths each way, ms",
                values: &[
                    Value::Number(1.0),
                    Value::Number(5.0),
                    Value::Number(15.0),
                    Value::Number(45.0),
                    Value::Number(90.0),
                ],
                show: &|value| format!("{value} ms"),
            },
            PATHS,
        ],
        quick: &|point| point.number("buffer") == 64.0 && point.number("loss") == 0.04,
        run: &|point, seed| {
            let delay = Duration::from_secs_f64(point.number("delay") / 1e3);
            let ways = [link(delay, BETTER_LOSS), link(delay, point.number("loss"))];
            run(&ways, classical(point.number("buffer")), paths(point.name("paths")), seed)
        },
        ..super::delay::SWEEP
    }),
};
