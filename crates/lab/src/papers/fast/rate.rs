//! Beyond the paper: FAST against SCTP from 1 Mbit/s to 1 Gbit/s (P4-C13: the advantage of delay is "small at
//! low speed, but significant at high speed").
//!
//! The figure has the paper's queue of 3000 packets and α of 200 at every rate, and also both in proportion
//! to the rate, with the same delay as the paper's at 800 Mbit/s.
//!
//! Published: an argument. Ours, % of the bottleneck used in the first 150 s at 1, 3, 10, 30, 100, 300, 1000
//! Mbit/s: with 3000 packets FAST 99.9 99.8 99.7 99.6 99.5 99.3 98.4, SCTP 99.8 99.7 99.5 99.3 99.1 98.9
//! 31.8; with 45 ms FAST 99.5 99.6 99.6 99.3 99.0 98.8 98.6, SCTP 92.4 93.6 92.7 95.0 91.4 93.5 59.9. Up to
//! 300 Mbit/s 3000 packets are at least a bandwidth-delay product, and the cost of SCTP is delay: a queue of
//! 23 s at 1 Mbit/s where FAST has 4.7 s. At 1 Gbit/s they are less than a bandwidth-delay product: slow
//! start loses 6000 packets, and growth by a packet per round trip takes longer than 150 s.

use std::time::Duration;

use braidftp_cc::fast::Params;

use super::run::{Setup, Stack};
use super::{ACCESS, ALPHA, ONCE, Protocol, QUEUE, RATE, READINGS, fixed, settings_for, setup, together};
use crate::figure::{Axis, Column, Figure, Kind, Point, Row, Sweep, Value};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fast/rate",
    shows: "FAST and SCTP, from 1 Mbit/s to 1 Gbit/s",
    caption: "Two flows that begin together, 100 ms there and back, their first 150 s. Left the paper's queue of 3000 packets and α \
              of 200 at every rate; right both in proportion to the rate, as deep in time as at 800 Mbit/s.",
    settings: &|| {
        let how = "packets of 1500 bytes; 150 s from the beginning";
        let mut settings = settings_for(Protocol::Fast, how.to_owned());
        settings[0] = "bottleneck: 50 ms each way; senders reach it at 1.25 times its rate".to_owned();
        settings[1] = super::settings(Protocol::Sctp)[2].clone();
        settings
    },
    kind: Kind::Sweep(Sweep {
        axes: &[RATES, QUEUES, VARIANTS],
        only: &|_| true,
        fixed: &|_| true,
        quick: &|point| point.number("rate") <= 30.0,
        paired: &["variant"],
        columns: &[
            Column { name: "utilisation", unit: "of the bottleneck, headers and all" },
            Column { name: "drops", unit: "packets dropped" },
            Column { name: "queue", unit: "packets waiting, mean" },
            Column { name: "queue_ms", unit: "ms that they wait, mean" },
        ],
        runs: ONCE,
        run: &run,
        plot: Plot::lines("rate", "utilisation", "part of the bottleneck that is used")
            .facet("queue")
            .log_x(),
    }),
};

const RATES: Axis = Axis {
    name: "rate",
    label: "Mbit/s",
    values: &[
        Value::Number(1.0),
        Value::Number(3.0),
        Value::Number(10.0),
        Value::Number(30.0),
        Value::Number(100.0),
        Value::Number(300.0),
        Value::Number(1_000.0),
    ],
    show: &|value| value.to_string(),
};

const QUEUES: Axis = Axis {
    name: "queue",
    label: "queue",
    values: &[Value::Name("packets"), Value::Name("time")],
    show: &|value| match value {
        Value::Name("packets") => "3000 packets, α = 200".to_owned(),
        _ => "45 ms, α = 3 ms".to_owned(),
    },
};

const VARIANTS: Axis = Axis {
    name: "variant",
    label: "variant",
    values: &[Value::Name("fast"), Value::Name("sctp")],
    show: &|value| match value {
        Value::Name("fast") => "FAST TCP".to_owned(),
        _ => "SCTP".to_owned(),
    },
};

const LASTS: Duration = Duration::from_secs(150);

fn run(point: &Point, seed: u64) -> Row {
    let rate = (point.number("rate") * 1e6) as u64;
    let part = match point.name("queue") {
        "packets" => 1.0,
        _ => rate as f64 / RATE as f64,
    };
    // The queue holds at least one packet, and α is at least one.
    let scaled = |packets: f64, least: f64| (packets * part).round().max(least);
    let protocol = if point.name("variant") == "fast" { Protocol::Fast } else { Protocol::Sctp };
    let papers = setup(protocol, together(2), READINGS[0].1);
    let stack = match papers.stack {
        Stack::Fast(params) => {
            Stack::Fast(Params { alpha_packets: scaled(f64::from(ALPHA), 1.0) as u32, ..params })
        }
        sctp @ Stack::Sctp { .. } => sctp,
    };
    let access = fixed((rate as f64 * ACCESS as f64 / RATE as f64) as u64);
    let queue = scaled(QUEUE as f64, 4.0) as usize;
    let trace = Setup { stack, rate, access, queue, lasts: LASTS, ..papers }.run(seed);
    let all = 0.0..LASTS.as_secs_f64();
    let waiting = trace.queue(all.clone());
    Row(vec![
        trace.throughput(all) / rate as f64,
        trace.drops() as f64,
        waiting,
        waiting * f64::from(super::run::PACKET) * 8.0 / rate as f64 * 1e3,
    ])
}
