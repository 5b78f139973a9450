//! Paths of different delay: the delay and the loss of the second path grow, and the goodput of both is
//! compared with that of each alone (P4-C17, P4-C19).
//!
//! Published: Iyengar et al. (GLOBECOM 2005): with large differences the better path alone is faster than
//! both. Ours confirm this, with 64 KB and 1 % loss on each path: 3.05, 1.93, 1.29 and 0.677 Mbit/s with 45,
//! 90, 180 and 360 ms on path 2, where path 1 alone reaches 1.52.

use std::time::Duration;

use super::{BETTER_LOSS, COLUMNS, DELAY, LOSS, PATHS, RUNS, classical, link, paths, run, settings};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/delay",
    shows: "Paths of different delay, and of different loss",
    caption: "User data over both paths and over each alone, by the delay of path 2 (path 1: 45 ms each way, 1 % lost), with what it loses, and \
              receive buffers of 64 and 256 KB.",
    settings: &|| settings(&["path 2: as path 1 but for delay and loss"]),
    kind: Kind::Sweep(SWEEP),
};

/// The sweep over the delay of path 2, with both paths and each alone.
pub(super) const SWEEP: Sweep = Sweep {
    axes: &[
        Axis { values: &[Value::Number(64.0), Value::Number(256.0)], ..super::BUFFER },
        Axis { values: &[Value::Number(0.01), Value::Number(0.04), Value::Number(0.1)], ..LOSS },
        Axis {
            name: "delay",
            label: "delay of path 2 each way, ms",
            values: &[Value::Number(45.0), Value::Number(90.0), Value::Number(180.0), Value::Number(360.0)],
            show: &|value| format!("{value} ms"),
        },
        PATHS,
    ],
    only: &|_| true,
    fixed: &|_| false,
    quick: &|point| point.number("buffer") == 64.0 && point.number("loss") == 0.01,
    paired: &["buffer", "delay", "paths"],
    columns: COLUMNS,
    runs: RUNS,
    run: &|point, seed| {
        let far = Duration::from_secs_f64(point.number("delay") / 1e3);
        let ways = [link(DELAY, BETTER_LOSS), link(far, point.number("loss"))];
        run(&ways, classical(point.number("buffer")), paths(point.name("paths")), seed)
    },
    plot: Plot::lines("delay", "mbps", "Mbit/s of user data")
        .by("paths")
        .facet("loss")
        .rows("buffer")
        .beside("blocked")
        .log_x(),
};
