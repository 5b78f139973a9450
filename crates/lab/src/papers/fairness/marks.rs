//! Managed queues: CoDel (RFC 8289) that drops, CoDel that marks (RFC 3168), and a queue that marks above a
//! threshold.
//!
//! Published: nothing. Ours, ms of queue and utilisation, drop-tail, CoDel, CoDel that marks, marks above 10
//! ms: reno 158 1.00, 6.07 .986, 7.01 .991, 2.62 .773; cubic 177 1.00, 6.42 .999, 6.93 .997, 2.76 .871; bbr
//! 64.7 .980, 15.0 .984, 32.8 .971, 25.6 .960; the default 165 1.00, 19.9 .998, 6.94 .997, 2.62 .848, with a
//! Jain's index of at least .986 (F-C08). Why the default keeps 20 ms of queue with CoDel was not
//! investigated. Delay-based and model-based controllers fill CoDel's queue, too.

use std::time::Duration;

use braidftp_sim::link::{CoDel, LinkConfig, Management, Queue, Signal};

use super::{FROM, Path, RUNS, TO, is_ours, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::{self as shared, CONTROLLER};
use crate::plot::Plot;
use crate::stats;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/marks",
    shows: "Queues that drop early, or mark",
    caption: "Four associations with the same congestion control at 20 Mbit/s with a round trip of 50 ms and a queue of 4 BDP: drop-tail; CoDel \
              that drops; CoDel that marks; marks from a fifth of a BDP on. How long packets wait, in the mean.",
    settings: &|| {
        settings(&[
            "path: 20 Mbit/s, 25 ms each way, queue of 4 BDP; four flows",
            "codel: target 5 ms, interval 100 ms; codel-ecn: the same, and marks; threshold: marks from 17 packets on",
            "where packets are marked both sides have ECN",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            CONTROLLER,
            Axis {
                name: "queue",
                label: "queue",
                values: &[
                    Value::Name("drop-tail"),
                    Value::Name("codel"),
                    Value::Name("codel-ecn"),
                    Value::Name("threshold"),
                ],
                show: &|value| match value {
                    Value::Name("codel") => "CoDel".to_owned(),
                    Value::Name("codel-ecn") => "CoDel, marks".to_owned(),
                    Value::Name("threshold") => "marks from 10 ms on".to_owned(),
                    other => other.to_string(),
                },
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| is_ours(point.name("controller")) || point.name("controller") == "cubic",
        paired: &["controller"],
        columns: &[
            Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
            Column { name: "jain", unit: "Jain's index" },
            Column { name: "utilisation", unit: "of the wire less headers" },
            Column { name: "dropped", unit: "part of the packets that the queue dropped" },
            Column { name: "marked", unit: "part of the packets that were marked" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let path = Path { megabits: 20.0, round_trip: Duration::from_millis(50), queue: 4.0 };
            let queue = point.name("queue");
            let managed = |signal| Management::CoDel(CoDel { signal, ..CoDel::default() });
            let link = match queue {
                "codel" => LinkConfig { management: managed(Signal::Drop), ..path.link() },
                "codel-ecn" => LinkConfig { management: managed(Signal::Mark), ..path.link() },
                "threshold" => LinkConfig { ecn: Some(Queue::Packets(17)), ..path.link() },
                _ => path.link(),
            };
            let modern = shared::sctp(shared::kind(point.name("controller")), path.buffer_bytes());
            let ecn = ["codel-ecn", "threshold"].contains(&queue);
            let protocol = shared::over_sctp(modern.with(|c| c.congestion.ecn = ecn));
            let seen = path.watch(link, vec![protocol; 4], TO, seed);
            let rates = seen.rates(FROM, TO);
            Row(vec![
                seen.queue_seconds(FROM, TO) * 1e3,
                stats::jain(&rates),
                rates.iter().sum::<f64>() / path.carries(),
                seen.dropped(FROM, TO),
                seen.marked(FROM, TO),
            ])
        },
        plot: Plot::bars("queue", "queue_ms", "ms that the queue adds")
            .beside("utilisation")
            .by("controller"),
    }),
};
