//! Beyond the paper: Figure 7 with loss in one direction only. The paper's figures have equal losses in both
//! directions, so the effects of lost commands (P2-C02), handshakes (P2-C20) and data cannot be
//! distinguished.
//!
//! Published: nothing.

use braidftp_sim::link::Loss;

use super::{FILES, QUEUE, SIZES, VARIANTS};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::ftp::{self, Clock, WAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/reverse",
    shows: "100 files by FTP, US coast to coast, loss on one way alone",
    caption: "Figure 7 with loss only to the client, where the files go; and only to the server, where acknowledgements, commands and half of \
              every handshake go.",
    settings: &|| super::settings(WAN),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis { values: &[Value::Number(10_000.0), Value::Number(200_000.0)], ..SIZES },
            Axis {
                name: "way",
                label: "loss",
                values: &[Value::Name("data"), Value::Name("back")],
                show: &|value| match value {
                    Value::Name("data") => "loss on the files' way".to_owned(),
                    _ => "loss on the way back".to_owned(),
                },
            },
            ftp::LOSS,
            VARIANTS,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.number("size") < 200_000.0,
        paired: &["variant", "way"],
        columns: ftp::COLUMNS,
        runs: Runs { max: 100, ..Runs::PAPER },
        run: &|point, seed| {
            let loss = ftp::bernoulli(point.number("loss"));
            let losses = if point.name("way") == "data" { [Loss::None, loss] } else { [loss, Loss::None] };
            let links = losses.map(|loss| WAN.link(QUEUE, loss));
            let files = vec![point.number("size") as u64; FILES];
            ftp::run(&ftp::session(point.name("variant"), files, vec![links], seed), Clock::Opened)
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 100 files")
            .facet("way")
            .rows("size")
            .log_y(),
    }),
};
