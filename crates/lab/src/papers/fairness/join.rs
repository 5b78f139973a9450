//! One flow uses a link, another joins and leaves: the times until both have equal rates, and until the first
//! has the whole rate again.
//!
//! Published: nothing. Ours, seconds until a new flow has its half at 10 Mbit/s, and at 50 Mbit/s with twice
//! the RTT: sctp 3.47 55.4; reno 5.03 60; cubic 5.23 34.0; bbr 7.60 49.8; hybla 2.37 8.80; the default 8.77
//! 9.13 (F-C06 asks for 30). All but adalr use the freed rate within 5 s.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sim::Random;
use braidftp_sim::apps::bulk::Span;

use super::{Path, RUNS, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::{self as shared, CONTROLLER, Flow, Seen, Ways};
use crate::plot::Plot;
use crate::stats;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/join",
    shows: "How long a newcomer takes to have its half",
    caption: "One association has a link for 30 s, then another with the same congestion control joins, and leaves a minute later. Seconds from \
              joining until Jain's index of what both brought in two seconds is 0.95 and stays so for five; 60 if it never is.",
    settings: &|| {
        settings(&[
            "rate: 10 Mbit/s with 25 ms each way, or 50 Mbit/s with 50 ms; queue of 1 BDP; one from 0 s to 130 s, one from 30 s to 90 s",
            "leave: seconds until the first has 90 % of the wire for two seconds, once the other has brought its last; 40 if never",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            CONTROLLER,
            Axis {
                name: "rate",
                label: "rate, Mbit/s",
                values: &[Value::Number(10.0), Value::Number(50.0)],
                show: &|value| match value {
                    Value::Number(10.0) => "10 Mbit/s, 50 ms".to_owned(),
                    _ => "50 Mbit/s, 100 ms".to_owned(),
                },
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("rate") == 10.0,
        paired: &["controller"],
        columns: &[
            Column { name: "join", unit: "s from joining until both have the same; 60 is never" },
            Column {
                name: "leave",
                unit: "s from leaving until the first has 90 % of the wire; 40 is never",
            },
            Column { name: "jain", unit: "Jain's index from 20 s after joining" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let megabits = point.number("rate");
            let round_trip = Duration::from_millis(if megabits == 10.0 { 50 } else { 100 });
            let path = Path { megabits, round_trip, queue: 1.0 };
            let protocol = path.sctp(point.name("controller"));
            let joins = JOINS + Duration::from_micros(Random::new(seed, 1 << 50).below(500_000));
            let at = |time: Duration| Time::ZERO + time;
            let flow = |begins, ends| {
                let span = Span { begins: at(begins), ends };
                Flow { protocol: protocol.clone(), span, delay: Duration::ZERO }
            };
            let both = [flow(Duration::ZERO, None), flow(joins, Some(at(LEAVES)))];
            let seen = shared::watch(&both, &Ways::of(path.link(), path.link()), ENDS, seed);
            let rates = seen.rates(joins + Duration::from_secs(20), LEAVES);
            Row(vec![shared_after(&seen, joins), alone_after(&seen, path.carries()), stats::jain(&rates)])
        },
        plot: Plot::bars("controller", "join", "s until both have the same")
            .beside("leave")
            .by("controller")
            .facet("rate"),
    }),
};

const JOINS: Duration = Duration::from_secs(30);
const LEAVES: Duration = Duration::from_secs(90);
const ENDS: Duration = Duration::from_secs(130);
/// The window over which rates are measured.
const WINDOW: Duration = Duration::from_secs(2);
/// How long the rates must stay equal.
const STAYS: Duration = Duration::from_secs(5);
/// The resolution of the times.
const STEP: Duration = Duration::from_millis(200);

/// The time from joining to the end of the first window from which on both flows have equal rates for
/// [`STAYS`], in seconds.
fn shared_after(seen: &Seen, joins: Duration) -> f64 {
    let is_even = |from: Duration| stats::jain(&seen.rates(from, from + WINDOW)) >= 0.95;
    let mut since: Option<Duration> = None;
    let mut from = joins;
    while from + WINDOW <= LEAVES {
        since = if is_even(from) { since.or(Some(from)) } else { None };
        if let Some(since) = since.filter(|since| from - *since >= STAYS) {
            return (since + WINDOW - joins).as_secs_f64();
        }
        from += STEP;
    }
    (LEAVES - JOINS).as_secs_f64()
}

/// The time from the last byte of the other flow to the end of the first window in which the first flow has
/// nearly the whole rate, in seconds.
fn alone_after(seen: &Seen, whole: f64) -> f64 {
    let mut last = LEAVES;
    while last + STEP <= ENDS && seen.rate(1, last, ENDS) > 0.0 {
        last += STEP;
    }
    let mut from = last;
    while from + WINDOW <= ENDS {
        if seen.rate(0, from, from + WINDOW) >= 0.9 * whole {
            return (from + WINDOW - last).as_secs_f64();
        }
        from += STEP;
    }
    (ENDS - LEAVES).as_secs_f64()
}
