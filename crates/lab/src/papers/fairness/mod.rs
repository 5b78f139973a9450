//! Beyond the papers: who gets how much of a bottleneck that is shared, what queue that costs, and how soon
//! it changes.
//!
//! ```text
//! senders ----- router ===== bottleneck, drop-tail ===== router ----- readers
//! ```
//! Every flow sends without end, begins at its own instant of the first second, and is watched once all had time to find
//! their rates. The controllers of this project run over SCTP with the profile `modern`; the TCP beside them is the
//! simulator's profile `modern` with Reno or CUBIC. `fairness/live` has the kernel's.
//!
//! What is to be reached by the default (claims F-C01 to F-C09): beside a TCP connection each side has
//! between half and twice its fair share; Jain's index is 0.95 or more among 2 to 16 of its own kind. A
//! fair share is an equal part of what all bring: of two, half; so the one has no more than 1.5 of it where
//! the other has no less than 0.5.
//!
//! What heads say is of commit e708212, where they name no other.

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

/// It is no paper, but is kept as one.
pub static PAPER: Paper = Paper {
    name: "fairness",
    key: "F",
    citation: "Beyond the papers: who gets how much of a bottleneck that is shared",
    figures: || FIGURES,
    claims: &[claims::CLAIMS],
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

/// When watching begins.
const FROM: Duration = Duration::from_secs(20);
/// When it ends.
const TO: Duration = Duration::from_secs(80);
/// No queue is shorter: what a packet more or less makes of it is not of interest.
const QUEUE_MIN_PACKETS: usize = 8;

/// A bottleneck, the same both ways.
#[derive(Debug, Clone, Copy)]
struct Path {
    megabits: f64,
    /// Without waiting.
    round_trip: Duration,
    /// In round trips' worth of packets (BDP).
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

    /// What all of it carries of user data over SCTP, in bits a second.
    fn carries(self) -> f64 {
        self.megabits * 1e6 * SCTP_SHARE
    }

    /// What is seen of as many associations as there are, over these links there and its own back.
    fn watch(self, there: LinkConfig, protocols: Vec<Protocol>, until: Duration, seed: u64) -> Seen {
        shared::watch(&flows(protocols, seed), &Ways::of(there, self.link()), until, seed)
    }

    /// Buffers that hold no flow back, though it had all of the path for itself.
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

/// Whether `--quick` runs a controller, where it cannot run all.
fn is_ours(controller: &str) -> bool {
    controller == shared::default_controller().name()
}

/// A handful of runs, which differ in when flows begin.
const RUNS: Runs = Runs { min: 3, max: 6, within: 0.05 };

/// Lengths of the queue.
const QUEUE: Axis = Axis {
    name: "queue",
    label: "queue",
    values: &[Value::Number(0.5), Value::Number(1.0), Value::Number(4.0)],
    show: &|value| format!("queue of {value} BDP"),
};

/// What does not vary in any figure.
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
