//! Beyond the paper: what it says of loads and does not measure: packets, connections, control blocks alive, server memory
//! for a client (P2-C03, C14, C46, C49, C51).
//!
//! Published: expectations alone: two control blocks a session by TCP, more with TIME-WAIT, half as many by MS and CP.
//! Ours, mean control blocks without loss, LAN, coast to coast, satellite: 10 KB tcp 52.3 51.9 38.2; naive 1.93 1.87
//! 1.87; ms 1.00 1.00 1.00; ms-cp 1.00 1.00 1.00; braid 1.00 1.00 1.00; 200 KB tcp 52.5 28.2 9.75; naive 2.00 1.97 1.97;
//! ms 1.00 1.00 1.00; ms-cp 1.00 1.00 1.00; braid 1.00 1.00 1.00.

use super::{VARIANTS, session};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/counts",
    shows: "Control blocks that a server keeps for one client, in the mean",
    caption: "100 files by each variant: connections, associations and what waits in TIME-WAIT, counted at the server over the \
              transfer. Its table has packets, bytes and connections too.",
    settings: || {
        ["lan", "wan", "sat"]
            .iter()
            .flat_map(|name| super::settings(ftp::path(name)).into_iter().take(1))
            .collect()
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            ftp::PATHS,
            Axis { values: &[Value::Number(10_000.0), Value::Number(200_000.0)], ..super::SIZES },
            Axis { values: &[Value::Number(0.0), Value::Number(0.03)], ..ftp::LOSS },
            VARIANTS,
        ],
        only: |_| true,
        fixed: |point| point.number("loss") == 0.0,
        quick: |point| point.number("size") < 200_000.0,
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: Runs::PAPER,
        run: |point, seed| ftp::run(&session(ftp::path(point.name("path")), point, seed), Clock::Opened),
        plot: Plot::bars("path", "blocks_mean", "control blocks at the server, mean")
            .facet("loss")
            .rows("size"),
    }),
};
