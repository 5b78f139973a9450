//! The two congested paths of `cmt/congested` with one change: what the association shares them with (P4-C23).
//!
//! In `cmt/congested` a flow over each path is beside the association. Windows steered by losses then do not share equally: with a
//! buffer that limits nothing the association takes more than half from the two others, and that excess decides the comparison with FAST,
//! which shares equally. Two changes, each alone: the flows' receivers acknowledge every packet, so that the flows send single packets and
//! not pairs, as the association does, whose SACKs are for packets of both paths; and the other one is a second association with an ample
//! buffer, so that each has half by symmetry where no buffer limits.
//!
//! Published: nothing. Ours, with 2 MB and SCTP's windows: the association has .569 of what all bring, .509 with every packet acknowledged,
//! and .514 beside a second association; with FAST .501 (`braidlab check P4-C23`).

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{Protocol, Span};

use super::begins::BUFFER;
use super::congested::{CONTROLLER, Units, columns, controlled, link, network, own, row};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::paths::{Flow, Network};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/share",
    shows: "Two congested paths: what shares them",
    caption: "User data over two paths of 40 Mbit/s, by the receive buffer: beside one more flow of the same congestion control on each path, beside \
              such flows whose packets are acknowledged one by one, and beside a second association of the same kind over both.",
    settings: &|| {
        vec![
            format!("path, each way: {}", link()),
            "all else as in cmt/congested; the second association has an ample buffer, too".to_owned(),
            format!("user data from {} s to {} s", FROM.as_secs(), TO.as_secs()),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[BESIDE, BUFFER, CONTROLLER],
        only: &|point| point.name("controller") != "cubic",
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 512.0,
        paired: &["buffer", "controller"],
        columns: &columns(Units {
            dropped: "packets that the two queues dropped",
            others: "Mbit/s of user data of the other one, or of both flows",
        }),
        runs: Runs { min: 3, max: 5, within: 0.05 },
        run: &|point, seed| {
            let controller = point.name("controller");
            let config = controlled(controller, point.number("buffer"));
            let network = match point.name("beside") {
                "twin" => twins(config, controlled(controller, super::AMPLE_KB), seed),
                "prompt" => {
                    let prompt = own(controller).with(|c| c.sack.delay = Duration::ZERO);
                    beside(config, prompt, seed)
                }
                _ => beside(config, own(controller), seed),
            };
            row(&network, FROM..TO, seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("controller")
            .facet("beside")
            .beside("others")
            .log_x(),
    }),
};

/// The time until windows that are steered by losses have met several overflows.
const FROM: Duration = Duration::from_secs(10);
const TO: Duration = Duration::from_secs(110);

/// The association, and a flow on each path.
fn beside(config: sctp::Config, flow: sctp::Config, seed: u64) -> Network {
    network(config, Some(&Protocol::Sctp(Arc::new(flow))), seed)
}

/// The association and another one over both paths. By the seed one or the other begins first.
fn twins(config: sctp::Config, other: sctp::Config, seed: u64) -> Network {
    let protocol = Protocol::Sctp(Arc::new(other));
    let mut network = Network::paths(&[link(), link()]).with(config, &[0, 1]);
    let later = Time::from_millis(500 + seed % 1_000);
    let begins = if seed.is_multiple_of(2) { [Time::ZERO, later] } else { [later, Time::ZERO] };
    network.flows[0].span = Span { begins: begins[0], ends: None };
    let routes = vec![Network::route(0), Network::route(1)];
    network.flows.push(Flow { protocol, span: Span { begins: begins[1], ends: None }, routes });
    network
}

const BESIDE: Axis = Axis {
    name: "beside",
    label: "beside it",
    values: &[Value::Name("flows"), Value::Name("prompt"), Value::Name("twin")],
    show: &|value| match value {
        Value::Name("flows") => "one flow on each path".to_owned(),
        Value::Name("prompt") => "one on each, every packet acknowledged".to_owned(),
        _ => "a second association".to_owned(),
    },
};
