//! Beyond the paper: a single file, for which it reports "some minor improvement" (P2-C45).
//!
//! Published: "some minor improvement". Ours, seconds at 0, 1, 3, 6, 10 %: 10 KB: tcp 0.04 0.24 0.76 1.47
//! 2.92; naive 0.05 0.59 2.01 3.55 9.44; ms 0.03 0.13 0.46 0.83 2.46; ms-cp 0.03 0.03 0.45 0.85 2.32; braid
//! 0.03 0.03 0.03 0.04 0.03. 200 KB: tcp 0.56 0.92 2.19 6.81 23.6; naive 0.57 1.15 2.31 4.92 17.2; ms 0.56
//! 0.56 1.08 2.62 10.7; ms-cp 0.56 0.56 1.06 2.93 10.3; braid 0.55 0.55 0.56 0.60 0.62. 1 MB: tcp 2.77 3.51
//! 9.97 38.5 134; naive 2.78 3.36 5.17 13.3 48.8; ms 2.77 2.95 3.96 10.2 43.7; ms-cp 2.77 2.99 3.98 10.6
//! 43.4; braid 2.76 2.76 2.78 2.82 2.91.

use super::{QUEUE, SIZES, VARIANTS};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/single",
    shows: "One file by FTP, LAN",
    caption: "As Figure 6, with one file in place of a hundred.",
    settings: &|| super::settings(LAN),
    kind: Kind::Sweep(Sweep {
        axes: &[Axis { show: &ftp::size, ..SIZES }, ftp::LOSS, VARIANTS],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") <= 200_000.0,
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: Runs::PAPER,
        run: &|point, seed| {
            let loss = ftp::bernoulli(point.number("loss"));
            let files = vec![point.number("size") as u64];
            ftp::run(
                &ftp::session(point.name("variant"), files, vec![LAN.both(QUEUE, loss)], seed),
                Clock::Opened,
            )
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of one file").facet("size").log_y(),
    }),
};
