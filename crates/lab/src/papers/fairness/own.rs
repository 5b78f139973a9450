//! Jain's index among flows of one kind: 1 if all have the same rate, 1/n if one has everything.
//!
//! Published: nothing. Ours, of ten to twenty runs each, of commit 537cf06: the default .933 to .999 at 20 Mbit/s, and at 100 Mbit/s
//! 1.000 .994 .983 .957 with 2, 4, 8 and 16 flows (F-C01), with full utilisation in all cases. With queues of
//! 0.5 and 1 BDP at 20 Mbit/s all controllers have at least .920; with 4 BDP the lowest are scalable .682,
//! hybla .765 and highspeed .841, and at 100 Mbit/s with 16 flows scalable .792, bbr .838 and highspeed .907.

use std::time::Duration;

use super::{FROM, Path, QUEUE, RUNS, TO, is_ours, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Runs, Sweep, Value};
use crate::papers::bottleneck::CONTROLLER;
use crate::plot::Plot;
use crate::stats;

/// Three runs do not decide F-C01: at 20 Mbit/s and 1 BDP twenty such means of 16 flows were .947 to .982. Nor do twenty at 4 BDP, where single
/// runs are .8 to .99.
const MORE_RUNS: Runs = Runs { min: 10, max: 20, ..RUNS };

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/own",
    shows: "How equally flows of one kind share",
    caption: "Jain's index of 2 to 16 associations with the same congestion control, which begin within a second, over a minute; at 20 Mbit/s \
              with a round trip of 50 ms and three queues, and at 100 Mbit/s with 100 ms and a queue of one BDP, where only the default is run with 4 \
              and 8, too.",
    settings: &|| settings(&["path 20: 20 Mbit/s, 25 ms each way; path 100: 100 Mbit/s, 50 ms each way"]),
    kind: Kind::Sweep(Sweep {
        axes: &[
            CONTROLLER,
            Axis {
                name: "rate",
                label: "rate",
                values: &[Value::Number(20.0), Value::Number(100.0)],
                show: &|value| match value {
                    Value::Number(20.0) => "20 Mbit/s, 50 ms".to_owned(),
                    _ => "100 Mbit/s, 100 ms".to_owned(),
                },
            },
            QUEUE,
            Axis {
                name: "flows",
                label: "flows",
                values: &[Value::Number(2.0), Value::Number(4.0), Value::Number(8.0), Value::Number(16.0)],
                show: &Value::to_string,
            },
        ],
        only: &|point| {
            let is_end = [2.0, 16.0].contains(&point.number("flows"));
            let is_fast = point.number("queue") == 1.0 && (is_end || is_ours(point.name("controller")));
            point.number("rate") == 20.0 || is_fast
        },
        fixed: &|_| false,
        quick: &|point| {
            let is_slow = point.number("rate") == 20.0 && point.number("flows") <= 4.0;
            is_slow && (point.number("queue") == 1.0 || is_ours(point.name("controller")))
        },
        paired: &["controller"],
        columns: &[
            Column { name: "jain", unit: "Jain's index" },
            Column { name: "least", unit: "the least flow's rate through the mean" },
            Column { name: "utilisation", unit: "of the wire less headers" },
            Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
            Column { name: "dropped", unit: "part of the packets that the queue dropped" },
        ],
        runs: MORE_RUNS,
        run: &|point, seed| {
            let megabits = point.number("rate");
            let millis = if megabits == 20.0 { 50 } else { 100 };
            let round_trip = Duration::from_millis(millis);
            let path = Path { megabits, round_trip, queue: point.number("queue") };
            let protocol = path.sctp(point.name("controller"));
            let protocols = vec![protocol; point.number("flows") as usize];
            let seen = path.watch(path.link(), protocols, TO, seed);
            let rates = seen.rates(FROM, TO);
            let all: f64 = rates.iter().sum();
            Row(vec![
                stats::jain(&rates),
                rates.iter().copied().fold(f64::INFINITY, f64::min) * rates.len() as f64 / all,
                all / path.carries(),
                seen.queue_seconds(FROM, TO) * 1e3,
                seen.dropped(FROM, TO),
            ])
        },
        plot: Plot::lines("flows", "jain", "Jain's index")
            .beside("utilisation")
            .by("controller")
            .facet("queue")
            .rows("rate")
            .log_x(),
    }),
};
