//! Beyond the paper: a congested gateway (scenario B of the author's OPNET project; ADaLR-X2).
//!
//! Published, in an abstract: comparable to NewReno and SACK. Ours, kB/s: NewReno 42.2, SACK 42.9, ADaLR-R
//! 40.7, with SACK 41.7, slow 38.5, HighSpeed 42.2, Scalable 41.8; packets that the gateway drops: NewReno
//! 50.0, SACK 51.0, ADaLR-R 452, with SACK 510, slow 572. The goodputs are comparable, with nine times as
//! many drops: a clock of 0.5 s detects few queues, so losses by congestion are taken for bit errors.

use super::{COLUMNS, Network, RUNS, VARIANTS, lossy, settings};
use crate::figure::{Figure, Kind, Sweep};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "adalr/congestion",
    shows: "50 MB through a gateway of little memory",
    caption: "A file of 50 MB through a gateway that forwards 360 kbit/s and has 37,500 bytes of memory (25 packets), 260 ms one way, no errors (ADaLR-X2).",
    settings: &|| settings(&["gateway: forwards 360 kbit/s, memory 37,500 bytes", "workload: 50 MB"]),
    kind: Kind::Sweep(Sweep {
        axes: &[VARIANTS],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|_| true,
        paired: &["variant"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| lossy(Network::congested(), point.name("variant"), seed),
        plot: Plot::bars("variant", "throughput", "kB/s, 50 MB"),
    }),
};
