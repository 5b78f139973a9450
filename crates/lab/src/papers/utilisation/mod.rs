//! Beyond the papers: what one association makes of a path that loses packets, by each congestion control
//! there is.
//!
//! ```text
//! sender ---- loss, queue, rate, delay (the same both ways) ---- reader: what one flow without end brings in 60 s
//! ```
//! The limit is user data at `C·(1−p)`: the wire's rate, less what is lost of it, less headers (1452 of the 1500 bytes of a
//! packet are user data). A link here loses packets before they take time on the wire, as Dummynet does, so that a sender whom
//! losses do not slow down can bring up to `C`: 1/(1−p) of that limit. `utilisation/behind` loses them behind the wire, where
//! the limit is one.
//!
//! What is to be reached: 95 % by the default, everywhere (claims U-C01 to U-C06). The whole 60 s count,
//! slow start and all; U-C07 to U-C12 are the last 50 of them.

mod behind;
mod buffers;
mod claims;
mod live;
mod paths;
mod sensitivity;

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::Span;
use braidftp_sim::link::{LinkConfig, Queue};

use super::bottleneck::{self as shared, Flow, PACKET, Ways};
use super::ftp;
use crate::claim::Paper;
use crate::figure::{Column, Figure, Row, Runs};

/// It is no paper, but is kept as one.
pub static PAPER: Paper = Paper {
    name: "utilisation",
    key: "U",
    citation: "Beyond the papers: what one association makes of a path that loses packets",
    figures: || FIGURES,
    claims: &[claims::CLAIMS],
};

static FIGURES: &[Figure] = &[
    paths::figure::<0>(),
    paths::figure::<1>(),
    paths::figure::<2>(),
    paths::figure::<3>(),
    paths::figure::<4>(),
    paths::figure::<5>(),
    buffers::FIGURE,
    behind::FIGURE,
    live::FIGURE,
    sensitivity::FIGURE,
];

/// A path, the same both ways.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// Its name on an axis.
    pub(crate) name: &'static str,
    /// The figure that it has.
    id: &'static str,
    shows: &'static str,
    caption: &'static str,
    pub(crate) bits_per_second: u64,
    /// One way.
    pub(crate) delay: Duration,
}

/// The paths, slow ones first.
pub(crate) const PATHS: [Path; 6] = [
    Path {
        name: "lan",
        id: "utilisation/lan",
        shows: "What one association makes of 3 Mbit/s, 1 ms",
        caption: CAPTION,
        bits_per_second: 3_000_000,
        delay: Duration::from_millis(1),
    },
    Path {
        name: "wan",
        id: "utilisation/wan",
        shows: "What one association makes of 1 Mbit/s, 35 ms",
        caption: CAPTION,
        bits_per_second: 1_000_000,
        delay: Duration::from_millis(35),
    },
    Path {
        name: "sat",
        id: "utilisation/sat",
        shows: "What one association makes of 256 kbit/s, 125 ms",
        caption: CAPTION,
        bits_per_second: 256_000,
        delay: Duration::from_millis(125),
    },
    Path {
        name: "geo",
        id: "utilisation/geo",
        shows: "What one association makes of 50 Mbit/s, 300 ms: a geostationary satellite",
        caption: CAPTION,
        bits_per_second: 50_000_000,
        delay: Duration::from_millis(300),
    },
    Path {
        name: "leo",
        id: "utilisation/leo",
        shows: "What one association makes of 200 Mbit/s, 25 ms: satellites in low orbits",
        caption: CAPTION,
        bits_per_second: 200_000_000,
        delay: Duration::from_millis(25),
    },
    Path {
        name: "fat",
        id: "utilisation/fat",
        shows: "What one association makes of 1 Gbit/s, 50 ms",
        caption: CAPTION,
        bits_per_second: 1_000_000_000,
        delay: Duration::from_millis(50),
    },
];

const CAPTION: &str = "User data that one association brought in 60 s, through C·(1−p)·1452/1500, with each congestion control. Both ways lose \
                       the same part of all packets, before they take time on the wire: above 1 is what a sender brings that losses do not \
                       slow down.";

/// How long a flow sends.
const WHOLE: Duration = Duration::from_secs(60);
/// What comes before this is left out where the beginning is not to count.
const LATER: Duration = Duration::from_secs(10);

const COLUMNS: &[Column] = &[
    Column { name: "utilisation", unit: "of C(1-p) less headers, whole 60 s" },
    Column { name: "later", unit: "of C(1-p) less headers, last 50 s" },
    Column { name: "of_wire", unit: "of C less headers, whole 60 s" },
    Column { name: "queue_ms", unit: "ms that the queue adds, mean" },
    Column { name: "dropped", unit: "part of the packets that reached the queue and were dropped" },
    Column { name: "resent", unit: "chunks sent again" },
    Column { name: "timeouts", unit: "retransmission time-outs" },
];

impl Path {
    /// The path of a name.
    pub(crate) fn named(name: &str) -> &'static Self {
        PATHS.iter().find(|path| path.name == name).unwrap_or_else(|| panic!("no path `{name}`"))
    }

    /// What is in flight when it is full, in bytes.
    fn bdp_bytes(&self) -> usize {
        shared::bdp_bytes(self.bits_per_second, 2 * self.delay) as usize
    }

    /// The second paper's on its paths; else what is in flight, and no less than 64 packets.
    pub(crate) fn queue(&self) -> Queue {
        match self.name {
            "lan" | "wan" | "sat" => Queue::Bytes(500_000),
            _ => Queue::Bytes(self.bdp_bytes().max(64 * PACKET)),
        }
    }

    /// Its link, one way.
    pub(crate) fn link(&self, loss: f64) -> LinkConfig {
        let link = shared::link(self.bits_per_second, self.delay, self.queue());
        LinkConfig { loss: ftp::bernoulli(loss), ..link }
    }

    /// Buffers that hold nothing back: what is lost can be lost twice while what came after it waits.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let queue = match self.queue() {
            Queue::Bytes(bytes) => bytes,
            Queue::Packets(packets) | Queue::Waiting(packets) => packets * PACKET,
        };
        4 * (self.bdp_bytes() + queue)
    }

    /// What it could bring of user data, in bits a second, with this loss.
    fn limit(&self, loss: f64) -> f64 {
        self.bits_per_second as f64 * (1.0 - loss) * shared::SCTP_SHARE
    }
}

/// What one association brings over a path that loses so much.
fn run(path: &Path, config: sctp::Config, ways: &Ways, loss: f64, seed: u64) -> Row {
    let begins = Time::ZERO;
    let flow = Flow {
        protocol: shared::over_sctp(config),
        span: Span { begins, ends: None },
        delay: Duration::ZERO,
    };
    let seen = shared::watch(&[flow], ways, WHOLE, seed);
    let (whole, later) = (seen.rate(0, Duration::ZERO, WHOLE), seen.rate(0, LATER, WHOLE));
    Row(vec![
        whole / path.limit(loss),
        later / path.limit(loss),
        whole / path.limit(0.0),
        seen.queue_seconds(Duration::ZERO, WHOLE) * 1e3,
        seen.dropped(Duration::ZERO, WHOLE),
        seen.resent[0].pieces as f64,
        seen.resent[0].timeouts as f64,
    ])
}

/// What does not vary.
fn settings(path: &Path, buffers: &str) -> Vec<String> {
    vec![
        format!("path, each way: {}", path.link(0.0)),
        format!(
            "utilisation: user data in 60 s through C(1-p){:.3}, C {} bit/s, p the loss of each way; later: in the last 50 s",
            shared::SCTP_SHARE,
            path.bits_per_second
        ),
        "loss: of either way, before the queue, as in Dummynet".to_owned(),
        format!("sctp: profile modern with an MTU of 1480 and buffers of {buffers}"),
        format!("default: {}", shared::default_controller()),
    ]
}

/// Heavy tails are those of time-outs: a handful of runs tells them, and whether a mean is above a limit.
const RUNS: Runs = Runs { min: 5, max: 10, within: 0.05 };
