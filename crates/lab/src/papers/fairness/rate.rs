//! A link whose rate falls to a tenth and returns.
//!
//! Published: nothing. Ours, with queues of 1 and 4 BDP: all controllers use 90 % of the rate within 1.00 to
//! 2.02 s of its return. The default, which used all of the tenth, does so within 1.00 s (F-C07 asks for 10
//! s).

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sim::link::{Bandwidth, LinkConfig, Steps};

use super::{Path, RUNS, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::bottleneck::{self as shared, CONTROLLER, Seen};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "fairness/rate",
    shows: "A rate that falls to a tenth for half a minute, and comes back",
    caption: "One association alone at 20 Mbit/s with a round trip of 50 ms; from 30 s to 60 s it has 2 Mbit/s. Seconds from 60 s on until it \
              brings 90 % of the wire in a second; 30 if it never does. The queue is one of the full rate, and of the tenth ten times as long.",
    settings: &|| {
        settings(&[
            "path: 25 ms each way, drop-tail queue of 1 or 4 BDP of 20 Mbit/s",
            "low: what it brings of the tenth, from 35 s to 60 s; stalled: the longest time without anything delivered from 30 s to 60 s",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[
            CONTROLLER,
            Axis {
                name: "queue",
                label: "queue",
                values: &[Value::Number(1.0), Value::Number(4.0)],
                show: &|value| format!("queue of {value} BDP"),
            },
        ],
        only: &|_| true,
        fixed: &|_| false,
        quick: &|point| point.number("queue") == 1.0,
        paired: &["controller"],
        columns: &[
            Column { name: "back", unit: "s from the rate's return until 90 % of it is used; 30 is never" },
            Column { name: "low", unit: "of the tenth less headers" },
            Column { name: "stalled", unit: "s without anything delivered at the tenth, longest" },
            Column { name: "low_queue_ms", unit: "ms that the queue adds at the tenth, mean from 35 s on" },
            Column { name: "whole", unit: "of the full rate less headers, from 10 s to 30 s" },
            Column { name: "timeouts", unit: "retransmission time-outs" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let path =
                Path { megabits: 20.0, round_trip: Duration::from_millis(50), queue: point.number("queue") };
            let rate = |part: u64| Rate::from_bits_per_second(path.bits_per_second() / part);
            let later = vec![(Time::ZERO + FALLS, rate(10)), (Time::ZERO + RISES, rate(1))];
            let steps = Steps::new(rate(1), later).expect("the times rise");
            let link = LinkConfig { rate: Bandwidth::Steps(Arc::new(steps)), ..path.link() };
            let seen = path.watch(link, vec![path.sctp(point.name("controller"))], ENDS, seed);
            let whole = path.carries();
            let settled = FALLS + Duration::from_secs(5);
            Row(vec![
                back(&seen, whole),
                seen.rate(0, settled, RISES) / (whole / 10.0),
                stalled(&seen),
                seen.queue_seconds(settled, RISES) * 1e3,
                seen.rate(0, Duration::from_secs(10), FALLS) / whole,
                seen.resent[0].timeouts as f64,
            ])
        },
        plot: Plot::bars("controller", "back", "s until the rate is used again")
            .beside("low")
            .by("controller")
            .facet("queue"),
    }),
};

const FALLS: Duration = Duration::from_secs(30);
const RISES: Duration = Duration::from_secs(60);
const ENDS: Duration = Duration::from_secs(90);

/// The time from the rate's return to the end of the first second with nine tenths of it, in seconds.
fn back(seen: &Seen, whole: f64) -> f64 {
    let window = Duration::from_secs(1);
    let mut from = RISES;
    while from + window <= ENDS {
        if seen.rate(0, from, from + window) >= 0.9 * whole {
            return (from + window - RISES).as_secs_f64();
        }
        from += shared::TICK * 5;
    }
    (ENDS - RISES).as_secs_f64()
}

/// The longest time without received data while the rate is low, in seconds.
fn stalled(seen: &Seen) -> f64 {
    let (mut longest, mut since, mut now) = (Duration::ZERO, FALLS, FALLS);
    while now + shared::TICK <= RISES {
        now += shared::TICK;
        if seen.rate(0, now - shared::TICK, now) > 0.0 {
            since = now;
        }
        longest = longest.max(now - since);
    }
    longest.as_secs_f64()
}
