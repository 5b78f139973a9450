//! Beyond the papers: the utilisation of a lossy path by one association, with each congestion controller.
//!
//! ```text
//! sender ---- loss, queue, rate, delay (the same both ways) ---- reader: the goodput of one unlimited flow in 60 s
//! ```
//! The limit is user data at `C·(1−p)`: the link's rate, minus losses, minus headers (1452 of the 1500 bytes
//! of a packet are user data). Like Dummynet, a link here drops lost packets before they take transmission
//! time, so a sender that losses do not slow down can reach `C`: 1/(1−p) of the limit. `utilisation/behind`
//! drops them after the link, where the limit is strict.
//!
//! Target of the default: 95 % on every path (claims U-C01 to U-C06), over the whole 60 s including slow
//! start; claims U-C07 to U-C12 are about the last 50 s.

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

/// Not a paper, but handled as one.
pub static PAPER: Paper = Paper {
    name: "utilisation",
    key: "U",
    citation: "Beyond the papers: what one association makes of a path that loses packets",
    figures: || FIGURES,
    claims: &[claims::CLAIMS],
    printed: &[],
    threats: &[],
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

/// A path, equal in both directions.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Path {
    /// Its name on an axis.
    pub(crate) name: &'static str,
    /// The figure of the path.
    id: &'static str,
    shows: &'static str,
    caption: &'static str,
    pub(crate) bits_per_second: u64,
    /// The one-way delay.
    pub(crate) delay: Duration,
}

/// The paths, ascending by rate.
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

/// The duration of a flow.
const WHOLE: Duration = Duration::from_secs(60);
/// The beginning, which is left out where it should not count.
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

    /// The bandwidth-delay product in bytes.
    fn bdp_bytes(&self) -> usize {
        shared::bdp_bytes(self.bits_per_second, 2 * self.delay) as usize
    }

    /// The queue: that of the second paper on its paths; otherwise a bandwidth-delay product, at least 64
    /// packets.
    pub(crate) fn queue(&self) -> Queue {
        match self.name {
            "lan" | "wan" | "sat" => Queue::Bytes(500_000),
            _ => Queue::Bytes(self.bdp_bytes().max(64 * PACKET)),
        }
    }

    /// The link in one direction.
    pub(crate) fn link(&self, loss: f64) -> LinkConfig {
        let link = shared::link(self.bits_per_second, self.delay, self.queue());
        LinkConfig { loss: ftp::bernoulli(loss), ..link }
    }

    /// Buffers that limit nothing: a packet may be lost twice while later data waits.
    pub(crate) fn buffer_bytes(&self) -> usize {
        let queue = match self.queue() {
            Queue::Bytes(bytes) => bytes,
            Queue::Packets(packets) | Queue::Waiting(packets) => packets * PACKET,
        };
        4 * (self.bdp_bytes() + queue)
    }

    /// The maximum goodput in bits per second, with this loss ratio.
    fn limit(&self, loss: f64) -> f64 {
        self.bits_per_second as f64 * (1.0 - loss) * shared::SCTP_SHARE
    }
}

/// Runs one association over a path with this loss ratio.
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

/// The fixed settings.
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

/// The tails are due to time-outs: a few runs show them, and whether a mean exceeds a limit.
const RUNS: Runs = Runs { min: 5, max: 10, within: 0.05 };
