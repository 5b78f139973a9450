//! The order in which packets arrive over paths of different load (P4-C24: with FAST mostly in the order of
//! sending).
//!
//! Published: an expectation, after the paper's experiments with one path. Ours: with FAST 0.244 to 0.333 of
//! the chunks are overtaken, whatever the load of path 2. Most of this is not due to queues, but to bursts of
//! chunks that are sent on both paths at once and arrive alternately.

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sim::apps::bulk::{Protocol, Span};

use super::congested::{CONTROLLER, controlled, link};
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::paths::{Flow, Look, Network};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "cmt/order",
    shows: "In which order data arrives over paths of different load",
    caption: "Which part of the chunks arrived after one that was sent later, over two paths of 40 Mbit/s with none to three more flows of the same \
              congestion control on path 2.",
    settings: &|| {
        vec![
            format!("path, each way: {}", link()),
            "sctp: as in cmt/congested, with an ample receive buffer".to_owned(),
            format!("{} s from the first INIT on; what came again does not count twice", TO.as_secs()),
        ]
    },
    kind: Kind::Sweep(Sweep {
        axes: &[CONTROLLER, OTHERS],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("others") < 2.0,
        paired: &["controller"],
        columns: &[
            Column { name: "late", unit: "part of the chunks that arrive after one that was sent later" },
            Column { name: "held", unit: "KB that wait for what is missing, mean" },
            Column { name: "mbps", unit: "Mbit/s of user data" },
            Column { name: "dropped", unit: "packets that the two queues dropped" },
        ],
        runs: Runs { min: 3, max: 4, within: 0.05 },
        run: &|point, seed| {
            let config = controlled(point.name("controller"), super::AMPLE_KB);
            let single = Arc::new(config.clone().with(|c| c.paths.multipath = None));
            let mut network = Network::paths(&[link(), link()]).with(config, &[0, 1]);
            for other in 0..point.number("others") as u64 {
                let begins = Time::from_millis(300 + 700 * other + seed % 500);
                let span = Span { begins, ends: None };
                let (protocol, routes) = (Protocol::Sctp(single.clone()), vec![Network::route(1)]);
                network.flows.push(Flow { protocol, span, routes });
            }
            let seen = network.watch(TO, Look::Order, seed);
            Row(vec![
                seen.reordered(),
                seen.held(FROM, TO) / 1024.0,
                seen.rate(0, FROM, TO) / 1e6,
                seen.counters.iter().map(|link| link.dropped_queue).sum::<u64>() as f64,
            ])
        },
        plot: Plot::lines("others", "late", "part of the chunks that arrive late")
            .by("controller")
            .beside("held"),
    }),
};

const FROM: Duration = Duration::from_secs(5);
const TO: Duration = Duration::from_secs(20);

const OTHERS: Axis = Axis {
    name: "others",
    label: "flows beside it on path 2",
    values: &[Value::Number(0.0), Value::Number(1.0), Value::Number(2.0), Value::Number(3.0)],
    show: &Value::to_string,
};
