//! Both paths against the better one alone at every size of the receive buffer: never less, however small it is and however
//! unlike they are.
//!
//! Published: "sometimes": with large differences the better path alone beats both (Iyengar et al., GLOBECOM 2005). To be reached:
//! 0.97 of the better path alone, everywhere. Ours, two runs a point: in 36 of 42 cells, 0.945 to 2.00. Not where one of two paths
//! alike loses ten times as much with 16, 32 and 64 KB (0.949, 0.948, 0.952) nor for equal paths with 128 KB (0.945), with intervals
//! from 0.80 to 1.10; and with 16 KB not for satellite beside terrestrial (0.959, 0.922 to 0.995) and low beside geostationary orbit
//! (0.955, 0.942 to 0.968, without a duplicate or a time-out).

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
