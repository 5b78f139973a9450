//! Pairs of dissimilar paths, with self-tuning buffers: both together, and each alone.
//!
//! Published: Dreibholz, Becke and others: over fibre and ADSL plain multipath transfer is slower than the
//! better path; with split buffers and NR-SACK nearly the sum. Target: 90 % of the sum. Ours: 0.998 to 1.04
//! of it after the beginning, 0.891 to 1.02 from the first INIT on.

use super::{COLUMNS, PAIR, PATHS, RUNS, modern, pair_settings, paths, run, settings, wires};
use crate::figure::{Figure, Kind, Sweep};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/dissimilar",
    shows: "Paths that are not alike",
    caption: "User data over both paths of a pair, and over each alone, through what the two wires could bring together; buffers tune themselves.",
    settings: &|| {
        let mut lines = settings(&[]);
        lines.extend(pair_settings());
        lines
    },
    kind: Kind::Sweep(Sweep {
        axes: &[PAIR, PATHS],
        only: &|_| true,
        fixed: &|point| wires(point).iter().all(|wire| wire.loss == 0.0),
        quick: &|_| true,
        paired: &["paths"],
        columns: COLUMNS,
        runs: RUNS,
        run: &|point, seed| run(&wires(point), modern("default", "auto"), paths(point.name("paths")), seed),
        plot: Plot::bars("pair", "share", "of the sum of the paths").by("paths").beside("whole"),
    }),
};
