//! P4 §3, receive-buffer blocking in concurrent multipath transfer: M. J. Arshad, M. S. Mian, "Building
//! Multihoming Awareness into FAST TCP: A Simulation Analysis", Journal of American Science 5(2), 2009.
//!
//! ```text
//!          +-- path 1: 10 Mbit/s, 45 ms each way, 1 % lost ------------+
//! sender --+                                                           +-- reader: one buffer, read in order and at once
//!          +-- path 2: 10 Mbit/s, 45 ms each way, 1 % to 10 % lost ----+
//! ```
//! The paper announces a simulation in §3.2.1 that its text does not contain. Its statements about blocking
//! are from Iyengar, Amer and Stewart ("Receive buffer blocking in concurrent multipath transport", GLOBECOM
//! 2005; "Retransmission policies for concurrent multipath transfer using SCTP multihoming", ICON 2004), so
//! their setting is used: two paths of 10 Mbit/s, one of them worse, one association whose data is always
//! available, and a receive buffer of 16 to 256 KB. The queues are ns-2's, 50 packets.
//!
//! The multipath transfer is theirs, without later inventions: the profile `ns2` with loss-based windows
//! (minimum two packets), round-robin scheduling, retransmission policy RTX-CWND unless a figure says
//! otherwise, no potentially failed paths, no NR-SACK, and no remedy against blocking. The figures of
//! `multipath` show the remedies. Only DATA is lost and no SACK, because lost SACKs would obscure which path
//! is worse.

mod alpha;
mod begins;
mod buffer;
mod claims;
mod complex;
mod congested;
mod delay;
mod loss;
mod order;
mod policies;
mod share;
mod short;
mod timeouts;

use std::time::Duration;

use braidftp_sctp as sctp;
use braidftp_sim::link::{LinkConfig, Queue};

use super::bottleneck as shared;
use super::ftp;
use super::paths::{Look, Network, PATHS, Seen, paths};
use crate::claim::Paper;
use crate::figure::{Axis, Column, Figure, Row, Runs, Value};

/// The paper's second half.
pub static PAPER: Paper = Paper {
    name: "cmt",
    key: "P4",
    citation: "M. J. Arshad, M. S. Mian: Building Multihoming Awareness into FAST TCP: A Simulation Analysis (§3, multipath)",
    figures: || FIGURES,
    claims: &[claims::CLAIMS],
    printed: &[],
    threats: &[
        "The simulation that the paper announces in §3.2.1 is not in its text. The setting is that of the works that it cites: two paths of 10 \
         Mbit/s, buffers of 16 to 256 KB, queues of 50 packets.",
        "Only DATA is lost, and no SACK.",
        "P4-C23 to C25 are arguments and beliefs in the paper. The networks that decide them are chosen here.",
    ],
};

static FIGURES: &[Figure] = &[
    buffer::FIGURE,
    policies::FIGURE,
    loss::FIGURE,
    delay::FIGURE,
    short::FIGURE,
    timeouts::FIGURE,
    congested::FIGURE,
    begins::FIGURE,
    share::FIGURE,
    order::FIGURE,
    complex::FIGURE,
    alpha::FIGURE,
];

/// The rate of a path in bits per second.
const RATE: u64 = 10_000_000;
/// The one-way delay of a path.
const DELAY: Duration = Duration::from_millis(45);
/// ns-2's queue.
const QUEUE: Queue = Queue::Packets(50);
/// The loss ratio of the better path.
const BETTER_LOSS: f64 = 0.01;
/// The duration of the measurement, from the first INIT on.
const WHOLE: Duration = Duration::from_secs(60);
/// A sender that sends nothing for this time waits for a timer.
const PAUSE: Duration = Duration::from_millis(250);
/// A buffer without blocking, in KB.
const AMPLE_KB: f64 = 16_384.0;

/// Sizes of the receive buffer.
const BUFFER: Axis = Axis {
    name: "buffer",
    label: "receive buffer, KB",
    values: &[
        Value::Number(16.0),
        Value::Number(32.0),
        Value::Number(64.0),
        Value::Number(128.0),
        Value::Number(256.0),
        Value::Number(AMPLE_KB),
    ],
    show: &buffer,
};

/// The sizes that can block.
const FINITE: &[Value] = &[
    Value::Number(16.0),
    Value::Number(32.0),
    Value::Number(64.0),
    Value::Number(128.0),
    Value::Number(256.0),
];

fn buffer(value: &Value) -> String {
    if *value == Value::Number(AMPLE_KB) { "ample".to_owned() } else { format!("{value} KB") }
}

/// The loss ratio of the worse path.
const LOSS: Axis = Axis {
    name: "loss",
    label: "packets lost on path 2",
    values: &[
        Value::Number(0.01),
        Value::Number(0.02),
        Value::Number(0.04),
        Value::Number(0.06),
        Value::Number(0.08),
        Value::Number(0.1),
    ],
    show: &ftp::percent,
};

/// A path in one direction.
fn link(delay: Duration, loss: f64) -> LinkConfig {
    LinkConfig { loss: ftp::bernoulli(loss), ..shared::link(RATE, delay, QUEUE) }
}

/// The configuration of multipath transfer in the literature that the paper cites.
fn classical(buffer_kb: f64) -> sctp::Config {
    sctp::Profile::Ns2.config().with(|c| {
        c.paths.multipath = Some(sctp::Multipath::plain());
        c.congestion.options.floor_mtus = std::num::NonZeroU8::new(2).expect("2 is not 0");
        c.memory.receive_buffer_bytes = (buffer_kb * 1024.0) as usize;
        c.memory.send_buffer_bytes = 2 * (AMPLE_KB * 1024.0) as usize;
    })
}

const COLUMNS: &[Column] = &[
    Column { name: "mbps", unit: "Mbit/s of user data" },
    Column { name: "blocked", unit: "part of the time in which only the receive buffer holds data back" },
    Column { name: "idle", unit: "part of the time in pauses of 250 ms or more" },
    Column { name: "longest", unit: "s that nothing was sent, longest" },
    Column { name: "held", unit: "KB that wait for what is missing, mean" },
    Column { name: "resent", unit: "chunks sent again" },
    Column { name: "timeouts", unit: "retransmission time-outs" },
];

/// Runs a single association over these paths.
fn run(ways: &[LinkConfig], config: sctp::Config, paths: &[usize], seed: u64) -> Row {
    let seen = Network::paths(ways).with(config, paths).watch(WHOLE, Look::Numbers, seed);
    Row(numbers(&seen))
}

/// The observations as [`COLUMNS`].
fn numbers(seen: &Seen) -> Vec<f64> {
    let pauses = seen.pauses(Duration::ZERO, WHOLE, PAUSE);
    let idle: Duration = pauses.iter().sum();
    let resent = seen.resent();
    vec![
        seen.rate(0, Duration::ZERO, WHOLE) / 1e6,
        seen.blocked(Duration::ZERO, WHOLE),
        idle.as_secs_f64() / WHOLE.as_secs_f64(),
        pauses.iter().max().map_or(0.0, Duration::as_secs_f64),
        seen.held(Duration::ZERO, WHOLE) / 1024.0,
        resent.pieces as f64,
        resent.timeouts as f64,
    ]
}

/// The fixed settings.
fn settings(more: &[&str]) -> Vec<String> {
    let mut lines = vec![
        format!("path, each way: {}", link(DELAY, 0.0)),
        "sctp: profile ns2, windows of two packets at least, multipath with RTX-CWND; messages of one packet, one stream, ordered"
            .to_owned(),
        format!("user data of {} s, from the first INIT on; only data is lost, at random", WHOLE.as_secs()),
    ];
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    lines
}

/// A few runs: the tails are due to time-outs.
const RUNS: Runs = Runs { min: 4, max: 12, within: 0.05 };
