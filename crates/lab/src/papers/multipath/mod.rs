//! Beyond the papers: the goodput of two and three paths with this project's remedies against the blocking
//! shown in `cmt`, and the effect of each remedy.
//!
//! ```text
//!          +-- path 1 --+
//! sender --+-- path 2 --+-- reader      one association, one ordered stream, one receive buffer
//!          +-- path 3 --+
//! ```
//! The association has the profile `modern` with the default multipath transfer (`Multipath::default()`)
//! unless a figure varies it. Goodput is compared with the sum of the links' rates without losses and
//! headers, `Σ C·(1−p)·1452/1500`, and with the better path alone with the same buffer and the same losses.
//! Only DATA is lost, independently unless stated otherwise.
//!
//! Targets (claims M-C01 to M-C11): with self-tuning buffers nearly the sum; with any buffer at least the
//! better path alone; at most one flow's share of a common bottleneck; and the failure or flapping of a path
//! costs at most a second and that path's own rate.

mod buffer;
mod claims;
mod dissimilar;
mod equal;
mod failover;
mod flapping;
mod protected;
mod remedies;
mod schedulers;
mod sensitivity;
mod shared;
mod traces;

use std::time::Duration;

use braidftp_sctp as sctp;
use braidftp_sim::link::{LinkConfig, Queue};

use super::bottleneck::{self as bottleneck, PACKET, SCTP_SHARE};
use super::ftp;
use super::paths::{Look, Network, PATHS, Seen, paths};
use crate::claim::Paper;
use crate::figure::{Axis, Column, Figure, Point, Row, Runs, Value};

/// Not a paper, but handled as one.
pub static PAPER: Paper = Paper {
    name: "multipath",
    key: "M",
    citation: "Beyond the papers: all paths at once, without receive-buffer blocking",
    figures: || FIGURES,
    claims: &[claims::CLAIMS],
    printed: &[],
    threats: &[],
};

static FIGURES: &[Figure] = &[
    equal::FIGURE,
    dissimilar::FIGURE,
    buffer::FIGURE,
    remedies::FIGURE,
    schedulers::FIGURE,
    shared::FIGURE,
    shared::SLOW,
    failover::FIGURE,
    flapping::FIGURE,
    traces::FIGURE,
    protected::FIGURE,
    sensitivity::FIGURE,
];

/// The duration of a flow.
const WHOLE: Duration = Duration::from_secs(30);
/// The beginning, which is left out where it should not count.
const LATER: Duration = Duration::from_secs(10);

/// A path of a pair, equal in both directions except for loss.
#[derive(Debug, Clone, Copy)]
struct Wire {
    megabits: u64,
    /// The one-way delay.
    delay_ms: u64,
    /// The loss ratio of packets with data.
    loss: f64,
    /// The queue as the delay of the last packet that fits: by default a round trip, and at least 20 ms.
    queue_ms: Option<u64>,
}

impl Wire {
    const fn new(megabits: u64, delay_ms: u64, loss: f64) -> Self {
        Self { megabits, delay_ms, loss, queue_ms: None }
    }

    fn link(self) -> LinkConfig {
        let queue_ms = self.queue_ms.unwrap_or((2 * self.delay_ms).max(20));
        let packets = (self.megabits * 1_000 * queue_ms / 8) as usize / PACKET;
        let link = bottleneck::link(
            self.megabits * 1_000_000,
            Duration::from_millis(self.delay_ms),
            Queue::Packets(packets.max(16)),
        );
        LinkConfig { loss: ftp::bernoulli(self.loss), ..link }
    }

    /// The maximum goodput in bits per second.
    fn limit(self) -> f64 {
        self.megabits as f64 * 1e6 * (1.0 - self.loss) * SCTP_SHARE
    }
}

/// A named pair of paths.
#[derive(Debug)]
struct Pair {
    name: &'static str,
    shows: &'static str,
    wires: [Wire; 2],
}

const PAIRS: [Pair; 6] = [
    Pair {
        name: "equal",
        shows: "twice 10 Mbit/s, 45 ms, 1 % lost",
        wires: [Wire::new(10, 45, 0.01), Wire::new(10, 45, 0.01)],
    },
    Pair {
        name: "lossy",
        shows: "10 Mbit/s, 45 ms, 1 % lost, and the same with 10 %",
        wires: [Wire::new(10, 45, 0.01), Wire::new(10, 45, 0.1)],
    },
    Pair {
        name: "near-far",
        shows: "20 Mbit/s, 10 ms, and 5 Mbit/s, 150 ms",
        wires: [Wire::new(20, 10, 0.0), Wire::new(5, 150, 0.0)],
    },
    Pair {
        name: "sat",
        shows: "50 Mbit/s, 300 ms, and 20 Mbit/s, 30 ms, 1 % lost",
        wires: [Wire::new(50, 300, 0.0), Wire::new(20, 30, 0.01)],
    },
    Pair {
        name: "fibre-adsl",
        shows: "fibre of 50 Mbit/s, 5 ms, and ADSL of 8 Mbit/s, 25 ms, with 250 ms of queue",
        wires: [Wire::new(50, 5, 0.0), Wire { queue_ms: Some(250), ..Wire::new(8, 25, 0.0) }],
    },
    Pair {
        name: "leo-geo",
        shows: "low orbit, 60 Mbit/s, 25 ms, 0.5 % lost, and geostationary, 20 Mbit/s, 280 ms",
        wires: [Wire::new(60, 25, 0.005), Wire::new(20, 280, 0.0)],
    },
];

impl Pair {
    fn named(name: &str) -> &'static Self {
        PAIRS.iter().find(|pair| pair.name == name).unwrap_or_else(|| panic!("no pair `{name}`"))
    }
}

/// The pairs as an axis.
const PAIR: Axis = Axis { name: "pair", label: "paths", values: &pairs(), show: &spoken_pair };

const fn pairs() -> [Value; PAIRS.len()] {
    let mut values = [Value::Number(0.0); PAIRS.len()];
    let mut index = 0;
    while index < values.len() {
        values[index] = Value::Name(PAIRS[index].name);
        index += 1;
    }
    values
}

fn spoken_pair(value: &Value) -> String {
    PAIRS
        .iter()
        .find(|pair| Value::Name(pair.name) == *value)
        .map_or_else(|| value.to_string(), |pair| pair.shows.to_owned())
}

/// The receive buffer in KB, or a self-tuning one.
const BUFFER: Axis = Axis {
    name: "buffer",
    label: "receive buffer",
    values: &[
        Value::Name("16"),
        Value::Name("32"),
        Value::Name("64"),
        Value::Name("128"),
        Value::Name("256"),
        Value::Name("1024"),
        Value::Name("auto"),
    ],
    show: &|value| if *value == Value::Name("auto") { "auto".to_owned() } else { format!("{value} KB") },
};

/// The association: the profile `modern` with packets of 1500 bytes, and this multipath transfer.
fn modern(multipath: &str, buffer: &str) -> sctp::Config {
    let multipath = multipath.parse().unwrap_or_else(|error| panic!("{error}"));
    let config = ftp::modern_sctp().with(|c| c.paths.multipath = Some(multipath));
    match buffer.parse::<usize>() {
        Ok(kb) => config.with(|c| {
            c.memory.receive_buffer_bytes = kb * 1024;
            c.memory.receive_buffer_max_bytes = None;
        }),
        Err(_) => config,
    }
}

/// The columns of the results of one association.
const COLUMNS: &[Column] = &[
    Column { name: "mbps", unit: "Mbit/s of user data, last 20 of 30 s" },
    Column { name: "share", unit: "of what the wires could bring together, last 20 s" },
    Column { name: "whole", unit: "of what the wires could bring together, from the first INIT on" },
    Column { name: "blocked", unit: "part of the time in which only the receive buffer holds data back" },
    Column { name: "held", unit: "KB that wait for what is missing, mean" },
    Column { name: "resent", unit: "chunks sent again" },
    Column { name: "duplicates", unit: "chunks that came twice" },
    Column { name: "timeouts", unit: "retransmission time-outs" },
];

/// Runs one association over these paths of the pair.
fn run(wires: &[Wire], config: sctp::Config, paths: &[usize], seed: u64) -> Row {
    let links: Vec<LinkConfig> = wires.iter().map(|wire| wire.link()).collect();
    let seen = Network::paths(&links).with(config, paths).watch(WHOLE, Look::Numbers, seed);
    let limit = wires.iter().map(|wire| wire.limit()).sum();
    Row(numbers(&seen, limit))
}

fn numbers(seen: &Seen, limit: f64) -> Vec<f64> {
    let (whole, later) = (seen.rate(0, Duration::ZERO, WHOLE), seen.rate(0, LATER, WHOLE));
    let resent = seen.resent();
    vec![
        later / 1e6,
        later / limit,
        whole / limit,
        seen.blocked(LATER, WHOLE),
        seen.held(LATER, WHOLE) / 1024.0,
        resent.pieces as f64,
        seen.reader.as_ref().map_or(0, |stats| stats.duplicates) as f64,
        resent.timeouts as f64,
    ]
}

/// The pair at a point.
fn wires(point: &Point) -> [Wire; 2] {
    Pair::named(point.name("pair")).wires
}

/// The fixed settings.
fn settings(more: &[&str]) -> Vec<String> {
    let modern = modern("default", "auto");
    let mut lines = vec![
        "sctp: profile modern with an MTU of 1480; messages of one packet, one stream, ordered".to_owned(),
        format!("multipath: {}", modern.paths.multipath.expect("it has it")),
        format!("congestion control: {}", modern.congestion.control),
        format!(
            "{} s of one flow without end; shares of C(1-p){SCTP_SHARE:.3}, all wires together",
            WHOLE.as_secs()
        ),
    ];
    lines.extend(more.iter().map(|line| (*line).to_owned()));
    lines
}

/// The links of the pairs, one line each.
fn pair_settings() -> Vec<String> {
    let of = |pair: &Pair| {
        let [one, other] = pair.wires.map(|wire| wire.link().to_string());
        format!("{}: {one} and {other}", pair.name)
    };
    PAIRS.iter().map(of).collect()
}

/// A few runs per point: only losses are random, and there are thousands of them.
const RUNS: Runs = Runs { min: 2, max: 4, within: 0.05 };
