//! Beyond the paper: Figure 7 with losses in bursts, with the same mean. The first paper says that these
//! would be more realistic (P1-C24); the gains of multistreaming and pipelining under burst losses are
//! unpublished.
//!
//! Published: nothing.

use super::{FILES, QUEUE, SIZES, VARIANTS};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock, WAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/burst",
    shows: "100 files by FTP, US coast to coast, losses in bursts",
    caption: "Figure 7 with independent losses, and with bursts (Gilbert-Elliott) that take 3 packets in the mean and the same mean loss.",
    settings: &|| {
        let mut settings = super::settings(WAN);
        settings.push("neither stack gives up: 255 time-outs in a row are allowed, and not 12 and 10, which long bursts bring".to_owned());
        settings
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis { values: &[Value::Number(10_000.0), Value::Number(200_000.0)], ..SIZES },
            ftp::BURST,
            ftp::LOSS,
            VARIANTS,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") < 200_000.0,
        paired: &["variant"],
        columns: ftp::COLUMNS,
        runs: Runs { max: 100, ..Runs::PAPER },
        run: &|point, seed| {
            let path = WAN.both(QUEUE, ftp::in_bursts(point.number("loss"), point.number("burst")));
            let files = vec![point.number("size") as u64; FILES];
            let session = ftp::session(point.name("variant"), files, vec![path], seed);
            ftp::run(&ftp::patient(session), Clock::Opened)
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 100 files")
            .facet("burst")
            .rows("size")
            .log_y(),
    }),
};
