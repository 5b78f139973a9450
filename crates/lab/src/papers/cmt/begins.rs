//! The two congested paths of `cmt/congested` with one change: which of the flows begins first (P4-C23).
//!
//! A FAST source that begins late may take the packets that others keep in the queue for a part of the way: its baseRTT is
//! then too long, and it keeps its α packets beyond theirs (`fast/late`). In `cmt/congested` the association begins before the
//! flows beside it. Here it begins before them, with them, and after them; all else is the same. Windows that are steered by
//! losses know no baseRTT. The column `others` tells what an association takes from the flows beside it.
//!
//! Published: nothing. Ours: `braidlab check P4-C23`.

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sim::apps::bulk::{Protocol, Span};

use super::congested::{CONTROLLER, Units, columns, controlled, link, own, row};
use crate::figure::{Axis, Figure, Kind, Runs, Sweep, Value};
use crate::papers::paths::{Flow, Network};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/begins",
    shows: "Two congested paths: which flow begins first",
    caption: "User data over two paths of 40 Mbit/s beside one more flow of the same congestion control on each, by the receive buffer: the association \
              begins before, with and after the flows beside it.",
    settings: &|| {
        vec![
            format!("path, each way: {}", link()),
            "all else as in cmt/congested, one of its own kind on each path".to_owned(),
            format!(
                "before: the others begin {} s after the association; with: all begin together; after: the association begins {} s after the others",
                LATER.as_secs(),
                LATER.as_secs()
            ),
            format!("user data from {} s to {} s", FROM.as_secs(), TO.as_secs()),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[BEGINS, BUFFER, CONTROLLER],
        only: &|point| point.name("controller") != "cubic",
        fixed: &|_| false,
        quick: &|point| point.number("buffer") == 512.0,
        paired: &["buffer", "controller"],
        columns: &columns(Units {
            dropped: "packets that the two queues dropped",
            others: "Mbit/s of user data of the flows beside it",
        }),
        runs: Runs { min: 3, max: 5, within: 0.05 },
        run: &|point, seed| {
            let config = controlled(point.name("controller"), point.number("buffer"));
            let mut network = Network::paths(&[link(), link()]).with(config, &[0, 1]);
            let (association, others) = match point.name("begins") {
                "before" => (Duration::ZERO, LATER),
                "with" => (Duration::ZERO, Duration::ZERO),
                _ => (LATER, Duration::ZERO),
            };
            network.flows[0].span = Span { begins: Time::ZERO + association, ends: None };
            let protocol = Protocol::Sctp(Arc::new(own(point.name("controller"))));
            for path in [0, 1] {
                // The seed moves them by less than a round trip.
                let apart = Duration::from_millis(seed % 50 * (path as u64 + 1));
                let span = Span { begins: Time::ZERO + others + apart, ends: None };
                network.flows.push(Flow {
                    protocol: protocol.clone(),
                    span,
                    routes: vec![Network::route(path)],
                });
            }
            row(&network, FROM..TO, seed)
        },
        plot: Plot::lines("buffer", "mbps", "Mbit/s of user data")
            .by("controller")
            .facet("begins")
            .beside("others")
            .log_x(),
    }),
};

/// The time between the two beginnings: FAST has its share long before.
const LATER: Duration = Duration::from_secs(5);
const FROM: Duration = Duration::from_secs(15);
const TO: Duration = Duration::from_secs(40);

pub(super) const BUFFER: Axis = Axis {
    values: &[Value::Number(256.0), Value::Number(512.0), Value::Number(1_024.0), Value::Number(2_048.0)],
    ..super::BUFFER
};

const BEGINS: Axis = Axis {
    name: "begins",
    label: "the association begins",
    values: &[Value::Name("before"), Value::Name("with"), Value::Name("after")],
    show: &|value| match value {
        Value::Name("before") => "before the others".to_owned(),
        Value::Name("with") => "with the others".to_owned(),
        _ => "after the others".to_owned(),
    },
};
