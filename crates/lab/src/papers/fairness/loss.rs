//! Losses without congestion: at random, in bursts, and in the return direction only.
//!
//! Published: nothing. Ours, utilisation and Jain's index: with 1 % at random sctp .646 1.00, reno .562 .999,
//! cubic .674 1.00, fast .997 .996, bbr .973 .991, the default .994 1.00; in bursts .894 .999, .827 .998,
//! .929 .999, .998 .996, .974 .999, .996 1.00; with 10 % loss in the return direction all have at least 97.7
//! % and .989. Controllers that fill a lossy path do so by a model of the path. When two flows of the default
//! had windows of two BDPs, as BBR has, they filled the queue, and one of them took the drops caused by the
//! other for congestion (Jain's index .778; F-C09).

use std::time::Duration;

use braidftp_sim::link::{LinkConfig, Loss};

use super::{FROM, Path, RUNS, TO, flows, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::{self as shared, CONTROLLER, Ways};
use crate::papers::ftp;
use crate::plot::Plot;
use crate::stats;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/loss",
    shows: "Losses that are not congestion, where flows share",
    caption: "Two associations with the same congestion control at 10 Mbit/s with a round trip of 50 ms and a queue of one BDP. 1 % of the \
              packets lost at random, or in bursts of 3 in the mean; or 10 % of what goes back, which are acknowledgements. What both bring \
              through the wire's rate.",
    settings: &|| settings(&["path: 10 Mbit/s, 25 ms each way, queue of 1 BDP; two flows"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            CONTROLLER,
            Axis {
                name: "loss",
                label: "losses",
                values: &[
                    Value::Name("none"),
                    Value::Name("random"),
                    Value::Name("burst"),
                    Value::Name("return"),
                ],
                show: &|value| match value {
                    Value::Name("random") => "1 % at random".to_owned(),
                    Value::Name("burst") => "1 % in bursts".to_owned(),
                    Value::Name("return") => "10 % of the way back".to_owned(),
                    other => other.to_string(),
                },
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|_| true,
        paired: &["controller"],
        columns: &[
            Column { name: "utilisation", unit: "of the wire less headers" },
            Column { name: "jain", unit: "Jain's index" },
            Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
            Column { name: "dropped", unit: "part of the packets that the queue dropped" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let path = Path { megabits: 10.0, round_trip: Duration::from_millis(50), queue: 1.0 };
            let [there, back] = match point.name("loss") {
                "random" => [ftp::bernoulli(0.01), Loss::None],
                "burst" => [ftp::bursts(0.01, 3.0), Loss::None],
                "return" => [Loss::None, ftp::bernoulli(0.1)],
                _ => [Loss::None, Loss::None],
            };
            let ways =
                Ways::of(LinkConfig { loss: there, ..path.link() }, LinkConfig { loss: back, ..path.link() });
            let flows = flows(vec![path.sctp(point.name("controller")); 2], seed);
            let seen = shared::watch(&flows, &ways, TO, seed);
            let rates = seen.rates(FROM, TO);
            Row(vec![
                rates.iter().sum::<f64>() / path.carries(),
                stats::jain(&rates),
                seen.queue_seconds(FROM, TO) * 1e3,
                seen.dropped(FROM, TO),
            ])
        },
        plot: Plot::bars("loss", "utilisation", "of the wire less headers").beside("jain").by("controller"),
    }),
};
