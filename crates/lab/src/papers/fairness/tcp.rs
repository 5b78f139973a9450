//! Beside one TCP connection: Reno's (RFC 5681), or CUBIC's (RFC 9438).
//!
//! Published: nothing. Ours: beside CUBIC the default has .639 to 1.29 of its share in all 27 cells (F-C03);
//! beside Reno .869 to 1.35 in all 27 (F-C02), the most at 100 Mbit/s with 0.5 BDP and 300 ms, where the flow
//! that starts first keeps its rate for minutes: two Reno flows have 1.50 and .50 there. At 10 Mbit/s and 300
//! ms sctp has .042 to .220 of its share beside CUBIC, and cubic 1.82 to 1.95 beside Reno.

use std::time::Duration;

use super::{FROM, Path, QUEUE, RUNS, is_ours, settings};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Run, Sweep, Value};
use crate::papers::bottleneck::{CONTROLLER, SCTP_SHARE, TCP_SHARE};
use crate::plot::Plot;

/// Beside Reno.
pub(super) const RENO: Figure = figure(
    "fairness/reno",
    "What an association takes beside one TCP connection with Reno",
    sweep(&|point, seed| run("reno", point, seed)),
);

/// Beside CUBIC.
pub(super) const CUBIC: Figure = figure(
    "fairness/cubic",
    "What an association takes beside one TCP connection with CUBIC",
    sweep(&|point, seed| run("cubic", point, seed)),
);

const fn figure(id: &'static str, shows: &'static str, sweep: Sweep) -> Figure {
    Figure {
        id,
        shows,
        caption: "What one association brings through half of what both bring: 1 is fair. All congestion controls at 10 Mbit/s; \
                  the default at 1 and 100 Mbit/s too. Drop-tail queues of 0.5, 1 and 4 BDP.",
        settings: &|| {
            settings(&[
                "tcp: the simulator's profile modern, with the same buffers",
                "watched here from 20 s on, or from 200 round trips, for 100 s, or for 600 round trips",
            ])
        },
        kind: Kind::Sweep(sweep),
    }
}

const fn sweep(run: Run) -> Sweep {
    Sweep {
        axes: &[
            CONTROLLER,
            Axis {
                name: "rate",
                label: "rate",
                values: &[Value::Number(1.0), Value::Number(10.0), Value::Number(100.0)],
                show: &|value| format!("{value} Mbit/s"),
            },
            QUEUE,
            Axis {
                name: "rtt",
                label: "round trip without waiting, ms",
                values: &[Value::Number(10.0), Value::Number(50.0), Value::Number(300.0)],
                show: &Value::to_string,
            },
        ],
        only: &|point| point.number("rate") == 10.0 || is_ours(point.name("controller")),
        fixed: &|_| false,
        quick: &|point| point.number("rate") == 10.0 && is_ours(point.name("controller")),
        paired: &["controller"],
        columns: &[
            Column { name: "share", unit: "what the association brings through half of what both bring" },
            Column { name: "sctp_mbit", unit: "Mbit/s of user data, the association" },
            Column { name: "tcp_mbit", unit: "Mbit/s of user data, the TCP connection" },
            Column { name: "utilisation", unit: "of the wire less headers" },
            Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
            Column { name: "dropped", unit: "part of the packets that the queue dropped" },
        ],
        runs: RUNS,
        run,
        plot: Plot::lines("rtt", "share", "share of the association through its fair share")
            .beside("queue_ms")
            .by("controller")
            .facet("queue")
            .rows("rate")
            .log_x(),
    }
}

fn run(tcp: &str, point: &Point, seed: u64) -> Row {
    let path = Path {
        megabits: point.number("rate"),
        round_trip: Duration::from_millis(point.number("rtt") as u64),
        queue: point.number("queue"),
    };
    let protocols = vec![path.sctp(point.name("controller")), path.tcp(tcp)];
    // Windows that grow per round trip need many round trips to find their rates.
    let from = FROM.max(path.round_trip * 200);
    let until = from + Duration::from_secs(100).max(path.round_trip * 600);
    let seen = path.watch(path.link(), protocols, until, seed);
    let (ours, theirs) = (seen.rate(0, from, until), seen.rate(1, from, until));
    // Packets of the same length carry slightly different amounts of user data.
    let (ours_wire, theirs_wire) = (ours / SCTP_SHARE, theirs / TCP_SHARE);
    let all = ours_wire + theirs_wire;
    Row(vec![
        ours_wire / (all / 2.0),
        ours / 1e6,
        theirs / 1e6,
        all / (path.megabits * 1e6),
        seen.queue_seconds(from, until) * 1e3,
        seen.dropped(from, until),
    ])
}
