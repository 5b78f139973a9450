//! Beyond the paper: loss in one direction only. The paper says that losing an acknowledgement "often has
//! minimal effect since ACKs are cumulative" (P1-C15).
//!
//! Published: no numbers. Ours, seconds at 0, 1, 3, 6, 10 %: both directions tcp 27.7 33.2 101 358 1292; sctp
//! 27.7 31.2 44.3 114 458; the direction of the files tcp 27.7 31.5 82.9 255 617; sctp 27.7 29.5 38.4 69.3
//! 181; the return direction tcp 27.7 28.6 29.7 31.0 34.1; sctp 27.7 28.8 30.2 37.9 42.0; acknowledgements
//! only tcp 27.7 everywhere; sctp 27.7 27.9 28.1 28.3 31.6; braid 27.6, and 28.4 at 10 % in both directions,
//! 28.2 in the direction of the files. Ours agree. The other packets of the return direction are commands,
//! and in the handshake INIT ACK and COOKIE ACK, each of which costs three seconds if it is lost.

use braidftp_sim::link::Loss;
use braidftp_sim::random::Probability;

use super::{FILES, MEGABYTE, RUNS, session};
use crate::figure::{Axis, Figure, Kind, Sweep, Value};
use crate::papers::ftp::{self, Clock, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fcs/reverse",
    shows: "10 files of 1 MB, loss on one way alone, 3 Mbit/s, 1 ms",
    caption: "Figure 2(a) again, with loss both ways; only to the client, where the files go; only to the server, where \
              acknowledgements, commands and half of every handshake go; and of the client's acknowledgements alone, packets \
              that say nothing else.",
    settings: &|| super::settings(LAN, "10 files of 1 MB"),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "way",
                label: "loss",
                values: &[Value::Name("both"), Value::Name("data"), Value::Name("back"), Value::Name("acks")],
                show: &|value| match value {
                    Value::Name("both") => "loss both ways".to_owned(),
                    Value::Name("data") => "loss on the files' way".to_owned(),
                    Value::Name("back") => "loss on the way back".to_owned(),
                    _ => "loss of acknowledgements alone".to_owned(),
                },
            },
            ftp::LOSS,
            super::THREE,
        ],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|_| true,
        paired: &["variant", "way"],
        columns: ftp::COLUMNS,
        runs: RUNS,
        run: &|point, seed| {
            let loss = ftp::bernoulli(point.number("loss"));
            let losses = match point.name("way") {
                "both" => [loss.clone(), loss],
                "data" => [Loss::None, loss],
                "back" => [loss, Loss::None],
                _ => [Loss::None, Loss::None],
            };
            let files = vec![MEGABYTE; FILES];
            let mut session = session(LAN, files, point.name("variant"), losses, seed);
            if point.name("way") == "acks" {
                session.lost_acks = Probability::new(point.number("loss"));
            }
            ftp::run(&session, Clock::Asked)
        },
        plot: Plot::lines("loss", "seconds", "seconds, transfer of 10 files").facet("way"),
    }),
};
