//! P4, FAST TCP against SCTP over one long, fast link: M. J. Arshad, M. S. Mian, "Building Multihoming
//! Awareness into FAST TCP: A Simulation Analysis", Journal of American Science 5(2), 2009.
//!
//! ```text
//! X1 --1 Gbit/s--+                                                              +-- Y1
//! X2 --1 Gbit/s--+ router -- 800 Mbit/s, 100 ms, drop-tail, 3000 packets -- router +-- Y2
//! X3 --1 Gbit/s--+                                                              +-- Y3
//! X4 --1 Gbit/s--+                                                              +-- Y4
//! ```
//! Packets of 1500 bytes, α = 200 packets, no random loss, 1000 s; either two flows that begin and end
//! together, or four that begin at 0, 50, 100 and 150 s (§2.1, Figure 1). "A common propagation delay of
//! 100ms" may be that of the round trip or of one direction: both are run. Two parameters are not in the
//! paper and are chosen here: the access rate of the senders (1 Gbit/s, so that a doubling window creates a
//! queue), and the end of the four flows (each 50 s before the flow that began before it).
//!
//! FAST is `cc::fast` with the rules of its ns-2 module, version 1.1, over TCP with SACK and a sink that
//! acknowledges every segment, as in that module's examples. SCTP is the profile `ns2` with a receive window
//! that limits nothing and without the module's `initialSsthresh` of 65,536 bytes. The paper must have raised
//! the window or both: with the default window no flow could exceed 5 Mbit/s. Neither protocol computes
//! checksums: ns-2 has none, and these links damage nothing. The folder `cmt` has the paper's concurrent
//! multipath transfer (§3).

pub mod claims;
mod fig2;
mod fig3;
mod fig4;
mod fig5;
mod film;
mod late;
mod printed;
mod rate;
mod recovered;
mod run;
mod start;
mod threshold;

use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc::fast::Params;
use braidftp_sctp::LossRecovery;
use braidftp_sim::apps::bulk::Span;
use braidftp_sim::link::Bandwidth;

use self::run::{Setup, Stack};
use crate::claim::Paper;
use crate::figure::{Axis, Figure, Point, Quick, Runs, Value};

/// The paper.
pub static PAPER: Paper = Paper {
    name: "fast",
    key: "P4",
    citation: "M. J. Arshad, M. S. Mian: Building Multihoming Awareness into FAST TCP: A Simulation Analysis",
    figures: || FIGURES,
    claims: claims::ALL,
    printed: printed::PRINTED,
    threats: printed::THREATS,
};

static FIGURES: &[Figure] = &[
    fig2::FIGURE,
    fig3::FIGURE,
    fig4::FIGURE,
    fig5::FIGURE,
    recovered::TWO,
    recovered::FOUR,
    threshold::FIGURE,
    threshold::PART,
    start::FIGURE,
    late::FIGURE,
    rate::FIGURE,
];

/// The rate of the bottleneck in bits per second.
const RATE: u64 = 800_000_000;
/// The access rate of a sender in bits per second.
const ACCESS: u64 = 1_000_000_000;
/// The queue of the bottleneck in packets.
const QUEUE: usize = 3_000;
/// The α of a FAST source, in packets.
const ALPHA: u32 = 200;
/// The initial slow-start threshold of ns-2's SCTP (`initialSsthresh`), in bytes.
const THRESHOLD: u32 = 65_536;
/// Another threshold, as a part of what the way holds without its queue.
const THRESHOLD_PART: f64 = 0.4;
/// The duration of a run.
const LASTS: Duration = Duration::from_secs(1_000);
/// The sampling interval of the paper's monitor.
const EVERY: Duration = Duration::from_millis(200);
/// The times when the flows of Figure 1 (b) begin and, here, end, in seconds.
const STAGGERED: [(u64, u64); 4] = [(0, 1_000), (50, 950), (100, 900), (150, 850)];

/// The readings of "a common propagation delay of 100ms": name, one-way delay, label.
const READINGS: [(&str, Duration, &str); 2] = [
    ("round-trip", Duration::from_millis(50), "100 ms there and back"),
    ("one-way", Duration::from_millis(100), "100 ms each way"),
];

/// The readings as an axis.
const DELAY: Axis = Axis {
    name: "delay",
    label: "delay",
    values: &[Value::Name(READINGS[0].0), Value::Name(READINGS[1].0)],
    show: &|value| {
        let reading = READINGS.iter().find(|(name, ..)| Value::Name(name) == *value);
        reading.map_or_else(|| value.to_string(), |(.., spoken)| (*spoken).to_owned())
    },
};

/// The factor by which `--quick` reduces the rate, the queue and α; and the times.
const SMALLER: u64 = 40;
const SHORTER: u32 = 25;

/// The protocol of the flows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Protocol {
    Fast,
    Sctp,
    /// SCTP, but a time-out ends fast recovery, as in RFC 9260.
    SctpRecovered,
    /// SCTP, but with the initial slow-start threshold of its module.
    SctpThreshold,
    /// SCTP, but with a threshold of [`THRESHOLD_PART`].
    SctpPart,
}

/// Flows that begin and end together.
fn together(flows: usize) -> Vec<Span> {
    vec![Span::ALWAYS; flows]
}

/// The flows of Figure 1 (b).
fn staggered() -> Vec<Span> {
    let at = |seconds| Time::ZERO + Duration::from_secs(seconds);
    let span = |(begins, ends): (u64, u64)| Span {
        begins: at(begins),
        ends: Some(at(ends)).filter(|ends| *ends < Time::ZERO + LASTS),
    };
    STAGGERED.map(span).into()
}

/// The paper's run, with a reading of its delay.
fn setup(protocol: Protocol, flows: Vec<Span>, one_way: Duration) -> Setup {
    let stack = match protocol {
        Protocol::Fast => Stack::Fast(Params { alpha_packets: ALPHA, ..Params::p4() }),
        Protocol::Sctp => sctp_stack(None, LossRecovery::Rfc4960),
        Protocol::SctpRecovered => sctp_stack(None, LossRecovery::Rfc9260),
        Protocol::SctpThreshold => sctp_stack(Some(THRESHOLD), LossRecovery::Rfc4960),
        Protocol::SctpPart => {
            let bytes = THRESHOLD_PART * way(one_way) * f64::from(run::PACKET - 48);
            sctp_stack(Some(bytes as u32), LossRecovery::Rfc4960)
        }
    };
    let (access, queue, lasts) = (fixed(ACCESS), QUEUE, LASTS);
    Setup { stack, rate: RATE, access, one_way, queue, flows, lasts, every: EVERY }
}

/// What the way holds without its queue, in packets.
fn way(one_way: Duration) -> f64 {
    RATE as f64 * 2.0 * one_way.as_secs_f64() / 8.0 / f64::from(run::PACKET)
}

fn sctp_stack(ssthresh: Option<u32>, recovery: LossRecovery) -> Stack {
    Stack::Sctp { ssthresh, recovery }
}

/// The one-way delay at a point.
fn one_way(point: &Point) -> Duration {
    let reading = READINGS.iter().find(|(name, ..)| *name == point.name(DELAY.name));
    reading.expect("it is one of the axis").1
}

/// Jain's index of fairness: 1 if all are equal, 1/n if one has everything.
fn jain(shares: &[f64]) -> f64 {
    let sum: f64 = shares.iter().sum();
    let squares: f64 = shares.iter().map(|share| share * share).sum();
    sum * sum / (shares.len() as f64 * squares)
}

fn fixed(bits_per_second: u64) -> Bandwidth {
    Bandwidth::Fixed(Rate::from_bits_per_second(bits_per_second))
}

/// The same setup, reduced and shortened.
fn shrunk(setup: Setup, quick: Quick) -> Setup {
    if quick == Quick::No {
        return setup;
    }
    let shorter = |at: Time| Time::ZERO + at.since(Time::ZERO) / SHORTER;
    let span = |span: &Span| Span { begins: shorter(span.begins), ends: span.ends.map(shorter) };
    let stack = match setup.stack {
        Stack::Fast(params) => {
            Stack::Fast(Params { alpha_packets: params.alpha_packets / SMALLER as u32, ..params })
        }
        Stack::Sctp { ssthresh: Some(bytes), recovery } if bytes > THRESHOLD => {
            sctp_stack(Some(bytes / SMALLER as u32), recovery)
        }
        sctp @ Stack::Sctp { .. } => sctp,
    };
    Setup {
        stack,
        rate: setup.rate / SMALLER,
        access: fixed(ACCESS / SMALLER),
        queue: setup.queue / SMALLER as usize,
        flows: setup.flows.iter().map(span).collect(),
        lasts: setup.lasts / SHORTER,
        ..setup
    }
}

/// The fixed settings of a figure of the same network with runs of another duration.
fn settings_for(protocol: Protocol, how: String) -> Vec<String> {
    let mut settings = settings(protocol);
    settings.truncate(3);
    settings.push(how);
    settings
}

/// FAST over the paper's network, with other parameters, flows and delay.
fn fast(params: Params, flows: Vec<Span>, one_way: Duration, lasts: Duration) -> Setup {
    Setup { stack: Stack::Fast(params), lasts, ..setup(Protocol::Fast, flows, one_way) }
}

/// The number of flows, as an axis.
const fn flows(values: &'static [Value]) -> Axis {
    let show = &|value: &Value| match value {
        Value::Number(1.0) => "1 flow".to_owned(),
        other => format!("{other} flows"),
    };
    Axis { name: "flows", label: "flows", values, show }
}

/// A single run: nothing is random.
const ONCE: Runs = Runs { min: 1, max: 1, within: 0.05 };

/// The fixed settings of Figures 2 to 5.
fn settings(protocol: Protocol) -> Vec<String> {
    let setup = setup(protocol, together(2), READINGS[0].1);
    let link = Setup { one_way: Duration::ZERO, ..setup.clone() }.link();
    let stack = match setup.stack {
        Stack::Fast(params) => {
            format!("tcp: profile sack, every segment acknowledged and timed, no checksums; cc fast:{params}")
        }
        Stack::Sctp { ssthresh, recovery } => {
            let ssthresh = match ssthresh {
                None => "ssthresh arbitrarily high".to_owned(),
                Some(_) if protocol == Protocol::SctpPart => {
                    format!("ssthresh of {} % of what the way holds", THRESHOLD_PART * 100.0)
                }
                Some(bytes) => format!("ssthresh of {bytes} bytes"),
            };
            let recovery = match recovery {
                LossRecovery::Rfc4960 => "",
                LossRecovery::Rfc9260 => ", a time-out ends fast recovery (RFC 9260)",
            };
            format!("sctp: profile ns2, receive window no limit, {ssthresh}, no checksums{recovery}")
        }
    };
    vec![
        format!("bottleneck, each way: {link}, and a delay of 50ms or 100ms"),
        format!("before it, from each sender: {} Mbit/s", ACCESS / 1_000_000),
        stack,
        "packets of 1500 bytes; 1000 s, looked at every 0.2 s; nothing is random".to_owned(),
        format!("--quick: a {SMALLER}th of rate, queue and alpha, a {SHORTER}th of the times"),
    ]
}
