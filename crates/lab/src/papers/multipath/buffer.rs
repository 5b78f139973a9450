//! Both paths against the better one alone at every size of the receive buffer: never less, however small it is and however
//! unlike they are.
//!
//! Published: "sometimes": with large differences the better path alone beats both (Iyengar et al., GLOBECOM 2005). To be reached:
//! 0.97 of the better path alone, everywhere. Ours, three runs a point: in 39 of 42 cells, 0.940 to 1.97. Not with 32 KB where one of
//! two paths alike loses ten times as much (0.940, interval 0.887 to 0.992: the worse one is still used, 570 to 690 chunks come twice,
//! for what is rescued from it is not counted as lost by it), nor with 16 KB for satellite beside terrestrial (0.959, to 0.995) and low
//! beside geostationary orbit (0.955, 0.942 to 0.968, without a duplicate or a time-out).

use super::{BUFFER, COLUMNS, PAIR, PATHS, RUNS, modern, pair_settings, paths, run, settings, wires};
use crate::figure::{Figure, Kind, Sweep};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/buffer",
    shows: "Both paths and the better one alone, by the receive buffer",
    caption: "User data over both paths of a pair, and over each alone, with receive buffers from 16 KB to a megabyte and one that tunes itself.",
    settings: || {
        let mut lines = settings(&["auto: as the profile has it"]);
        lines.extend(pair_settings());
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[PAIR, BUFFER, PATHS],
        only: |_| true,
        fixed: |point| wires(point).iter().all(|wire| wire.loss == 0.0),
        quick: |point| point.name("pair") == "near-far" && point.name("buffer") == "64",
        paired: &["paths", "buffer"],
        columns: COLUMNS,
        runs: RUNS,
        run: |point, seed| {
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
