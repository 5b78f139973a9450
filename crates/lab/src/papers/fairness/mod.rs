//! Beyond the papers: the shares of flows at a common bottleneck, the queueing delay, and the time to adapt.
//!
//! ```text
//! senders ----- router ===== bottleneck, drop-tail ===== router ----- readers
//! ```
//! Every flow is unlimited and begins at its own time in the first second; the measurement begins when all
//! flows have had time to find their rates. The controllers of this project run over SCTP with the profile
//! `modern`; competing TCP connections have the simulator's profile `modern` with Reno or CUBIC.
//! `fairness/live` uses kernel TCP.
//!
//! Targets of the default (claims F-C01 to F-C09): beside a TCP connection each side has between half and
//! twice its fair share; Jain's index is at least 0.95 among 2 to 16 flows of the default. A fair share is an
//! equal part of the total goodput: of two flows, half. So one flow has at most 1.5 of its fair share if the
//! other has at least 0.5.
//!
//! Numbers in the heads of these modules are of commit e708212 unless they name another.

mod claims;
mod each;
mod join;
mod live;
mod loss;
mod marks;
mod own;
mod rate;
mod rtt;
mod tcp;

use std::time::Duration;

use braidftp_sim::apps::bulk::Protocol;
use braidftp_sim::link::{LinkConfig, Queue};

use super::bottleneck::{self as shared, PACKET, SCTP_SHARE, Seen, Ways, flows};
use crate::claim::Paper;
use crate::figure::{Axis, Figure, Runs, Value};

/// Not a paper, but handled as one.
pub static PAPER: Paper = Paper {
    name: "fairness",
    key: "F",
    citation: "Beyond the papers: who gets how much of a bottleneck that is shared",
    figures: || FIGURES,
    claims: &[claims::CLAIMS],
    printed: &[],
    threats: &[],
};

static FIGURES: &[Figure] = &[
    own::FIGURE,
    tcp::RENO,
    tcp::CUBIC,
    each::FIGURE,
    rtt::FIGURE,
    join::FIGURE,
    rate::FIGURE,
    marks::FIGURE,
    loss::FIGURE,
    live::FIGURE,
];

/// The beginning of the measurement.
const FROM: Duration = Duration::from_secs(20);
/// The end of the measurement.
const TO: Duration = Duration::from_secs(80);
/// The minimum queue: shorter ones are not of interest, since single packets would dominate.
const QUEUE_MIN_PACKETS: usize = 8;

/// A bottleneck, equal in both directions.
#[derive(Debug, Clone, Copy)]
struct Path {
    megabits: f64,
    /// The RTT without queueing.
    round_trip: Duration,
    /// The length of the queue in bandwidth-delay products.
    queue: f64,
}

impl Path {
    fn bits_per_second(self) -> u64 {
        (self.megabits * 1e6) as u64
    }

    fn queue_packets(self) -> usize {
        let bdp = shared::bdp_bytes(self.bits_per_second(), self.round_trip);
        ((bdp * self.queue / PACKET as f64).round() as usize).max(QUEUE_MIN_PACKETS)
    }

    fn link(self) -> LinkConfig {
        shared::link(self.bits_per_second(), self.round_trip / 2, Queue::Packets(self.queue_packets()))
    }

    /// The rate of user data over SCTP that the bottleneck carries, in bits per second.
    fn carries(self) -> f64 {
        self.megabits * 1e6 * SCTP_SHARE
    }

    /// Runs associations with these protocols over this link and the path's own return link.
    fn watch(self, there: LinkConfig, protocols: Vec<Protocol>, until: Duration, seed: u64) -> Seen {
        shared::watch(&flows(protocols, seed), &Ways::of(there, self.link()), until, seed)
    }

    /// Buffers that limit no flow, even if it has the whole path.
    fn buffer_bytes(self) -> usize {
        let bdp = shared::bdp_bytes(self.bits_per_second(), self.round_trip) as usize;
        4 * (bdp + self.queue_packets() * PACKET)
    }

    /// An association with this controller.
    fn sctp(self, controller: &str) -> Protocol {
        shared::over_sctp(shared::sctp(shared::kind(controller), self.buffer_bytes()))
    }

    /// A TCP connection with this controller.
    fn tcp(self, controller: &str) -> Protocol {
        shared::over_tcp(shared::tcp(shared::kind(controller), self.buffer_bytes()))
    }
}

/// Whether `--quick`, which does not run all controllers, runs this one.
fn is_ours(controller: &str) -> bool {
    controller == shared::default_controller().name()
}

/// A few runs, which differ in the times when flows begin.
const RUNS: Runs = Runs { min: 3, max: 6, within: 0.05 };

/// Lengths of the queue.
const QUEUE: Axis = Axis {
    name: "queue",
    label: "queue",
    values: &[Value::Number(0.5), Value::Number(1.0), Value::Number(4.0)],
    show: &|value| format!("queue of {value} BDP"),
};

/// The fixed settings of all figures.
fn settings(more: &[&str]) -> Vec<String> {
    let mut lines = vec![
        format!(
            "watched from {} s to {} s; each flow begins within the first second",
            FROM.as_secs(),
            TO.as_secs()
        ),
        format!(
            "queue: drop-tail, in BDP of the round trip without waiting, {QUEUE_MIN_PACKETS} packets at least"
        ),
        "sctp: profile modern with an MTU of 1480 and buffers of 4 times what path and queue hold, or more"
            .to_owned(),
        format!("default: {}", shared::default_controller()),
    ];
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    lines
}
