//! Two flows of one kind with different RTTs.
//!
//! Published: nothing. Reno's rate is proportional to 1/RTT, or to a higher power of it with short queues.
//! Ours, share of the flow whose RTT is 1, 2, 4 and 8 times as long: reno .991 .406 .431 .0645; cubic 1.15
//! .476 .857 .119; bbr 1.00 1.40 1.44 1.13; hybla 1.07 1.09 1.40 1.16; the default .986 .606 .696 .164, where
//! F-C05 asks for a fifth.

use std::time::Duration;

use super::{FROM, Path, RUNS, TO, flows, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::{self as shared, CONTROLLER, Ways};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/rtt",
    shows: "What the longer way costs a flow of the same kind",
    caption: "Two associations with the same congestion control at 20 Mbit/s; the round trip of the one is 20 ms, the other's up to 8 times as \
              long; the queue holds 40 ms. What the longer one brings through what the shorter one brings: 1 is fair.",
    settings: &|| {
        settings(&["path: 20 Mbit/s, 10 ms each way and the longer flow's own delay, queue of 40 ms"])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            CONTROLLER,
            Axis {
                name: "times",
                label: "its round trip through the other's",
                values: &[Value::Number(1.0), Value::Number(2.0), Value::Number(4.0), Value::Number(8.0)],
                show: &Value::to_string,
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| [1.0, 4.0].contains(&point.number("times")),
        paired: &["controller"],
        columns: &[
            Column { name: "ratio", unit: "the longer flow's rate through the shorter one's" },
            Column { name: "utilisation", unit: "of the wire less headers" },
            Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let path = Path { megabits: 20.0, round_trip: Duration::from_millis(20), queue: 2.0 };
            let longest = Path { round_trip: path.round_trip * 8, ..path };
            let mut flows = flows(vec![longest.sctp(point.name("controller")); 2], seed);
            flows[1].delay = path.round_trip.mul_f64((point.number("times") - 1.0) / 2.0);
            let seen = shared::watch(&flows, &Ways::of(path.link(), path.link()), TO, seed);
            let rates = seen.rates(FROM, TO);
            Row(vec![
                rates[1] / rates[0],
                (rates[0] + rates[1]) / path.carries(),
                seen.queue_seconds(FROM, TO) * 1e3,
            ])
        },
        plot: Plot::lines("times", "ratio", "rate of the longer through the shorter")
            .by("controller")
            .log_x(),
    }),
};
