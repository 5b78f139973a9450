//! Beyond the paper: a NAT in front of the client that rewrites addresses in headers only (P2-C04, C52).
//!
//! Published: no numbers. Ours, files of 10 that arrive without and with the NAT: tcp 10.0 0; naive 10.0 0;
//! ms 10.0 10.0; ms-cp 10.0 10.0; braid 10.0 10.0.

use braidftp_sim::apps::ftp::NatBox;
use braidftp_sim::link::Loss;

use super::{QUEUE, VARIANTS};
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::ftp::{self, LAN};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multistream/nat",
    shows: "10 files through a NAT that rewrites no payload",
    caption: "Files of 10 KB that arrive whole, LAN without loss. Active mode names the client's inside address in EPRT, so that the \
              server connects to nowhere.",
    settings: &|| super::settings(LAN),
    kind: Kind::Sweep(Sweep {
        axes: &[
            Axis {
                name: "nat",
                label: "",
                values: &[Value::Name("none"), Value::Name("nat")],
                show: &|value| match value {
                    Value::Name("nat") => "through a NAT".to_owned(),
                    _ => "without a NAT".to_owned(),
                },
            },
            VARIANTS,
        ],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|_| true,
        paired: &["variant", "nat"],
        columns: &[
            Column { name: "whole", unit: "files that arrived whole, of 10" },
            Column { name: "turned_away", unit: "packets from outside that the NAT had no entry for" },
            Column { name: "connections", unit: "connections and associations opened" },
        ],
        runs: Runs { max: 10, ..Runs::PAPER },
        run: &|point, seed| {
            let path = LAN.both(QUEUE, Loss::None);
            let mut session = ftp::session(point.name("variant"), vec![10_000; 10], vec![path], seed);
            session.attempts = 1;
            if point.name("nat") == "nat" {
                session.nat = NatBox::InFrontOfClient;
            }
            let outcome = session.run();
            let whole = outcome.files.iter().filter(|file| file.whole).count();
            Row(vec![whole as f64, outcome.turned_away as f64, outcome.connections as f64])
        },
        plot: Plot::bars("nat", "whole", "files that arrived whole, of 10"),
    }),
};
