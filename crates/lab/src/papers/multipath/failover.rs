//! A path that fails while data uses both, and recovers: the time until the other path has its full rate, and
//! until both have theirs again, with each retransmission policy.
//!
//! Published: Natarajan et al. (CMT-PF): if potentially failed paths are not used, a failure costs one
//! time-out. Target: 90 % of the remaining path's rate within a second. Data that was in flight on the failed
//! path is delivered in a burst later, so the missing data is measured, not the time at which the rate is
//! reached first. Ours, mean of four runs: after three seconds 0.22 s of the rate are missing if the faster
//! path fails and 1 % is lost, and nothing elsewhere; 0.33 to 0.70 s after the recovery of the path both have
//! their rates. Ten seconds after the failure a total of 1.64 s is missing in that case.

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sim::link::{Down, LinkConfig};

use super::{RUNS, Wire, modern, settings};
use crate::figure::{Axis, Column, Figure, Kind, Row, Sweep, Value};
use crate::papers::paths::{Look, Network, Seen};
use crate::plot::Plot;

/// The figure.
pub(super) const FIGURE: Figure = Figure {
    id: "multipath/failover",
    shows: "A path that is cut, and comes back",
    caption: "Two paths, of 20 Mbit/s, 10 ms and of 10 Mbit/s, 30 ms each way; one is cut from 10 s to 20 s. Seconds at 90 % of the other's rate that are \
              missing three seconds later, by the retransmission policy; below 0 is more than that.",
    settings: &|| {
        settings(&[
            &format!("path 1, each way: {}", WIRES[0].link()),
            &format!("path 2, each way: {}", WIRES[1].link()),
            "back: 90 % of both are there once the mean of the half second that follows has it; 20 is never",
        ])
    },
    kind: Kind::Sweep(Sweep {
        axes: &[CUT, LOSS, POLICY],
        only: &|_| true,
        fixed: &|point| point.number("loss") == 0.0,
        quick: &|point| point.name("policy") == "default",
        paired: &["policy"],
        columns: &[
            Column { name: "cost", unit: "s at 90 % of the survivor's rate that are missing after 3 s" },
            Column { name: "whole", unit: "s of the survivor's rate that are missing after 10 s" },
            Column { name: "back", unit: "s from the path's return until both bring 90 % of what they can" },
            Column { name: "before", unit: "of what both can, from 5 s to 10 s" },
            Column { name: "resent", unit: "chunks sent again" },
        ],
        runs: RUNS,
        run: &|point, seed| {
            let cut = if point.name("cut") == "first" { 0 } else { 1 };
            let wires = WIRES.map(|wire| Wire { loss: point.number("loss"), ..wire });
            let down = Down::Between(Arc::from([(Time::ZERO + CUT_AT, Time::ZERO + WHOLE_AT)]));
            let mut network = Network::paths(&wires.map(Wire::link));
            for link in [2 * cut, 2 * cut + 1] {
                network.links[link] = LinkConfig { down: down.clone(), ..network.links[link].clone() };
            }
            let multipath = match point.name("policy") {
                "default" => "default".to_owned(),
                policy => format!("default,retransmit={policy}"),
            };
            let seen = network.with(modern(&multipath, "auto"), &[0, 1]).watch(TO, Look::Numbers, seed);
            let (survivor, both) = (wires[1 - cut].limit(), wires[0].limit() + wires[1].limit());
            let missing = |after: Duration, part: f64| {
                let brought = seen.rate(0, CUT_AT, CUT_AT + after) * after.as_secs_f64();
                after.as_secs_f64() - brought / (part * survivor)
            };
            Row(vec![
                missing(Duration::from_secs(3), 0.9),
                missing(WHOLE_AT - CUT_AT, 1.0),
                until(&seen, WHOLE_AT, TO, 0.9 * both),
                seen.rate(0, Duration::from_secs(5), CUT_AT) / both,
                seen.resent().pieces as f64,
            ])
        },
        plot: Plot::bars("policy", "cost", "s that the cut cost at 90 % of the survivor's rate")
            .by("policy")
            .facet("cut")
            .rows("loss")
            .beside("back"),
    }),
};

const WIRES: [Wire; 2] = [Wire::new(20, 10, 0.0), Wire::new(10, 30, 0.0)];
const CUT_AT: Duration = Duration::from_secs(10);
const WHOLE_AT: Duration = Duration::from_secs(20);
const TO: Duration = Duration::from_secs(40);
const WINDOW: Duration = Duration::from_millis(500);

/// The time from `from` until the half second begins in which the rate is reached, in seconds.
fn until(seen: &Seen, from: Duration, to: Duration, rate: f64) -> f64 {
    let step = Duration::from_millis(50);
    let mut at = from;
    while at + WINDOW <= to {
        if seen.rate(0, at, at + WINDOW) >= rate {
            return (at - from).as_secs_f64();
        }
        at += step;
    }
    (to - from).as_secs_f64()
}

const CUT: Axis = Axis {
    name: "cut",
    label: "cut",
    values: &[Value::Name("first"), Value::Name("second")],
    show: &|value| match value {
        Value::Name("first") => "the faster path is cut".to_owned(),
        _ => "the slower path is cut".to_owned(),
    },
};

const LOSS: Axis = Axis {
    name: "loss",
    label: "packets lost on either path",
    values: &[Value::Number(0.0), Value::Number(0.01)],
    show: &crate::papers::ftp::percent,
};

const POLICY: Axis = Axis {
    name: "policy",
    label: "retransmissions by",
    values: &[
        Value::Name("same"),
        Value::Name("asap"),
        Value::Name("cwnd"),
        Value::Name("ssthresh"),
        Value::Name("lossrate"),
        Value::Name("default"),
    ],
    show: &|value| match value {
        Value::Name("default") => "the default".to_owned(),
        name => format!("RTX-{}", name.to_string().to_uppercase()),
    },
};
