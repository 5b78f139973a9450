//! The goodput of two paths by the size of the receive buffer, compared with each path alone (P4-C15,
//! P4-C16).
//!
//! Published: Iyengar et al. say that with a small buffer the worse path degrades the whole association.
//! Ours: with 10 % loss on path 2 both paths reach 0.443 Mbit/s with 16 KB, and path 1 alone 0.965; with 32
//! KB 0.954 and 1.38, and with 256 KB 1.92 and 1.51.

use super::{BETTER_LOSS, BUFFER, COLUMNS, DELAY, LOSS, PATHS, RUNS, classical, link, paths, run, settings};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/buffer",
    shows: "Two paths and one receive buffer",
    caption: "User data that an association brought over both paths, and over each alone, by the size of its receive buffer. Path 1 loses 1 %, \
              path 2 as much, 4 % or 10 %.",
    settings: &|| settings(&["ample: 16 MB"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            BUFFER,
            Axis { values: &[Value::Number(0.01), Value::Number(0.04), Value::Number(0.1)], ..LOSS },
            PATHS,
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 64.0,
        paired: &["buffer", "paths"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let ways = [link(DELAY, BETTER_LOSS), link(DELAY, point.number("loss"))];
            run(&ways, classical(point.number("buffer")), paths(point.name("paths")), seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("paths")
            .facet("loss")
            .beside("blocked")
            .log_x(),
    }),
};
