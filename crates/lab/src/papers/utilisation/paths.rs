//! Every controller and every loss ratio, one figure per path.
//!
//! Published: nothing. Ours is in the tables; cells below 95 % are in the claims.

use super::{COLUMNS, PATHS, RUNS, run, settings};
use crate::figure::{Figure, Kind, Point, Row, Runs, Sweep};
use crate::papers::bottleneck::{self as shared, CONTROLLER, Ways};
use crate::papers::ftp;
use crate::plot::Plot;

/// The figure of a path, by its number in [`PATHS`].
pub(super) const fn figure<const N: usize>() -> Figure {
    let path = &PATHS[N];
    Figure {
        id: path.id,
        shows: path.shows,
        caption: path.caption,
        settings: &|| settings(&PATHS[N], &format!("{} bytes or more", PATHS[N].buffer_bytes())),
        kind: Kind::Sweep(Sweep {
            axes: &[CONTROLLER, ftp::LOSS],
            only: &|_| true,
            fixed: &|point| point.number("loss") == 0.0,
            quick: &quick::<N>,
            paired: &["controller"],
            columns: COLUMNS,
            runs: match N {
                3 => GEO,
                5 => FAT,
                _ => RUNS,
            },
            run: &one::<N>,
            plot: Plot::lines("loss", "utilisation", "utilisation of C·(1−p), whole 60 s")
                .beside("later")
                .by("controller"),
        }),
    }
}

/// Five runs do not decide U-C04: at 1 % single runs are .946 to .957, since a loss in the first flights costs a round trip of 600 ms.
const GEO: Runs = Runs { min: 20, max: 20, ..RUNS };

/// A minute at a gigabit per second has 5 million packets, and runs hardly differ.
const FAT: Runs = Runs { min: 1, max: 1, within: 0.05 };

fn one<const N: usize>(point: &Point, seed: u64) -> Row {
    let (path, loss) = (&PATHS[N], point.number("loss"));
    let config = shared::sctp(shared::kind(point.name("controller")), path.buffer_bytes());
    run(path, config, &Ways::of(path.link(loss), path.link(loss)), loss, seed)
}

/// The points of `--quick`: all of a slow path; one loss ratio of the others, at which all controllers but
/// the default are slow; for the fastest path only the default.
fn quick<const N: usize>(point: &Point) -> bool {
    let loss = point.number("loss");
    let is_default = point.name("controller") == shared::default_controller().name();
    match N {
        0..3 => true,
        3 | 4 => loss == 0.01 || is_default && loss == 0.1,
        _ => is_default && loss == 0.01,
    }
}
