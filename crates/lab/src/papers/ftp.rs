//! Shared by the figures of both FTP-over-SCTP papers: axes, networks, stacks, a run and its results.

use std::time::Duration;

use braidftp_base::Rate;
use braidftp_sctp as sctp;
use braidftp_sim::apps::ftp::{Outcome, Session, Variant};
use braidftp_sim::link::{Bandwidth, GilbertElliott, LinkConfig, Loss, Queue};
use braidftp_sim::random::Probability;
use braidftp_tcp as tcp;

use crate::figure::{Axis, Column, Row, Value};

/// A network between client and server, equal in both directions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Path {
    /// Its name on an axis.
    pub name: &'static str,
    /// The rate in bits per second.
    pub bits_per_second: u64,
    /// The one-way delay.
    pub delay: Duration,
}

/// The papers' LAN, and the first paper's unmanned aircraft: 3 Mbit/s, 1 ms.
pub const LAN: Path = Path { name: "lan", bits_per_second: 3_000_000, delay: Duration::from_millis(1) };
/// The second paper's WAN, coast to coast: 1 Mbit/s, 35 ms.
pub const WAN: Path = Path { name: "wan", bits_per_second: 1_000_000, delay: Duration::from_millis(35) };
/// The papers' satellite link: 256 kbit/s, 125 ms.
pub const SATELLITE: Path = Path { name: "sat", bits_per_second: 256_000, delay: Duration::from_millis(125) };

/// The papers' loss ratios.
pub const LOSS: Axis = Axis {
    name: "loss",
    label: "packets lost, each way",
    values: &[
        Value::Number(0.0),
        Value::Number(0.01),
        Value::Number(0.03),
        Value::Number(0.06),
        Value::Number(0.1),
    ],
    show: &percent,
};

/// The papers' paths, for figures with several.
pub const PATHS: Axis = Axis {
    name: "path",
    label: "path",
    values: &[Value::Name("lan"), Value::Name("wan"), Value::Name("sat")],
    show: &path_name,
};

/// A fraction in per cent.
pub fn percent(value: &Value) -> String {
    match value {
        Value::Number(part) => format!("{} %", (part * 1e4).round() / 1e2),
        Value::Name(name) => (*name).to_owned(),
    }
}

/// A size as in the papers: K is 1000.
pub fn size(value: &Value) -> String {
    match value {
        Value::Number(bytes) if *bytes >= 1e6 => format!("{} MB", bytes / 1e6),
        Value::Number(bytes) => format!("{} KB", bytes / 1e3),
        Value::Name(name) => (*name).to_owned(),
    }
}

fn path_name(value: &Value) -> String {
    match value {
        Value::Name("lan") => "3 Mbit/s, 1 ms".to_owned(),
        Value::Name("wan") => "1 Mbit/s, 35 ms".to_owned(),
        Value::Name("sat") => "256 kbit/s, 125 ms".to_owned(),
        other => other.to_string(),
    }
}

/// Returns the path of a name.
///
/// # Panics
/// If there is none.
pub fn path(name: &str) -> Path {
    [LAN, WAN, SATELLITE]
        .into_iter()
        .find(|path| path.name == name)
        .unwrap_or_else(|| panic!("no path `{name}`"))
}

impl Path {
    /// One direction of the path with this queue and loss. Packets are IPv4.
    pub fn link(&self, queue: Queue, loss: Loss) -> LinkConfig {
        LinkConfig {
            rate: Bandwidth::Fixed(Rate::from_bits_per_second(self.bits_per_second)),
            delay: self.delay,
            queue,
            loss,
            overhead_bytes: 20,
            ..LinkConfig::default()
        }
    }

    /// Both directions, with the same loss.
    pub fn both(&self, queue: Queue, loss: Loss) -> [LinkConfig; 2] {
        [self.link(queue, loss.clone()), self.link(queue, loss)]
    }
}

/// Independent losses.
pub fn bernoulli(part: f64) -> Loss {
    if part == 0.0 { Loss::None } else { Loss::Bernoulli(probability(part)) }
}

/// Losses in bursts of `packets` packets in the mean, with mean loss `part`. The bad state lasts twice as
/// many packets, of which half are lost; the good state has no loss. State durations are counted in
/// packets: if the bad state lost all packets, a sender with exponential back-off would take hours to leave
/// it.
pub fn bursts(part: f64, packets: f64) -> Loss {
    if part == 0.0 {
        return Loss::None;
    }
    let to_good = 1.0 / (2.0 * packets);
    let bad = 2.0 * part;
    Loss::GilbertElliott(GilbertElliott {
        to_bad: probability(to_good * bad / (1.0 - bad)),
        to_good: probability(to_good),
        pass_good: probability(1.0),
        pass_bad: probability(0.5),
    })
}

/// Losses with mean `part`: independent for 1 packet, else in bursts.
pub fn in_bursts(part: f64, packets: f64) -> Loss {
    if packets == 1.0 { bernoulli(part) } else { bursts(part, packets) }
}

/// The length of bursts.
pub const BURST: Axis = Axis {
    name: "burst",
    label: "packets of a burst, mean",
    values: &[Value::Number(1.0), Value::Number(3.0)],
    show: &|value| match value {
        Value::Number(1.0) => "independent losses".to_owned(),
        other => format!("bursts of {other}"),
    },
};

/// The same session with unlimited retransmissions: long bursts would otherwise end it, and its duration is
/// measured.
pub fn patient(mut session: Session) -> Session {
    session.tcp.data_retries = u8::MAX;
    session.sctp.failover.association_max_retrans = 255;
    session
}

fn probability(part: f64) -> Probability {
    Probability::new(part).unwrap_or_else(|| panic!("{part} is not a probability"))
}

/// The control network of the testbed, 100 Mbit/s, without loss or delay, beside the path under test.
pub fn control_network() -> [LinkConfig; 2] {
    let path = Path { name: "control", bits_per_second: 100_000_000, delay: Duration::ZERO };
    path.both(Queue::Bytes(500_000), Loss::None)
}

/// SCTP of the papers' hosts. Its receive buffer is not given. Here it is that of their TCP, which also
/// keeps the data in flight below both routers' queues, as P2 says (§5.1) and P1's times without loss show.
pub fn papers_sctp() -> sctp::Config {
    sctp::Profile::Rfc2960Kame
        .config()
        .with(|c| c.memory.receive_buffer_bytes = papers_tcp().receive_buffer_bytes)
}

/// Modern SCTP, with packets as long as in the papers.
pub fn modern_sctp() -> sctp::Config {
    sctp::Profile::Modern.config().with(|c| {
        c.path_mtu.packet_bytes = 1_480;
        c.path_mtu.discovery = None;
    })
}

/// TCP of the papers' hosts.
pub fn papers_tcp() -> tcp::Config {
    tcp::Profile::NewrenoBsd46.config()
}

/// A get of these files over a path with a variant: `tcp`, `naive`, `ms`, `ms-cp` with the papers' stacks,
/// `braid` with the modern one.
pub fn session(variant: &str, files: Vec<u64>, paths: Vec<[LinkConfig; 2]>, seed: u64) -> Session {
    let variant: Variant = variant.parse().unwrap_or_else(|error| panic!("{error}"));
    let sctp = if variant == Variant::Braid { modern_sctp() } else { papers_sctp() };
    Session { variant, files, sctp, tcp: papers_tcp(), paths, seed, ..Session::default() }
}

/// TCP with missing features added one by one, and SCTP and braid for comparison: the axis of figures about
/// the remaining lead of SCTP.
pub const STACKS: Axis = Axis {
    name: "variant",
    label: "stack",
    values: &[
        Value::Name("newreno-bsd46"),
        Value::Name("sack"),
        Value::Name("sack+lt+abc"),
        Value::Name("sack+lt+abc+er"),
        Value::Name("cubic"),
        Value::Name("modern"),
        Value::Name("sctp"),
        Value::Name("braid"),
    ],
    show: &|value| match value {
        Value::Name("newreno-bsd46") => "TCP New-Reno".to_owned(),
        Value::Name("sack") => "TCP, SACK".to_owned(),
        Value::Name("sack+lt+abc") => "TCP, SACK + LT + ABC".to_owned(),
        Value::Name("sack+lt+abc+er") => "the same + ER".to_owned(),
        Value::Name("cubic") => "the same + CUBIC".to_owned(),
        Value::Name("modern") => "TCP of today".to_owned(),
        Value::Name("sctp") => "SCTP-naive".to_owned(),
        other => other.to_string(),
    },
};

/// The same get with a stack of [`STACKS`]. A name that is not a TCP stack is a variant.
///
/// # Panics
/// If there is no such stack.
pub fn by_stack(stack: &str, files: Vec<u64>, paths: Vec<[LinkConfig; 2]>, seed: u64) -> Session {
    let tcp = match stack {
        "sctp" => return session("naive", files, paths, seed),
        "braid" => return session("braid", files, paths, seed),
        "cubic" => {
            tcp::Config { congestion_control: braidftp_cc::Kind::Cubic, ..tcp::Profile::SackLtAbcEr.config() }
        }
        profile => profile.parse::<tcp::Profile>().unwrap_or_else(|error| panic!("{error}")).config(),
    };
    Session { tcp, ..session("tcp", files, paths, seed) }
}

/// The results of a run.
pub const COLUMNS: &[Column] = &[
    Column { name: "seconds", unit: "s" },
    Column { name: "packets", unit: "packets, both ways" },
    Column { name: "kilobytes", unit: "kB on the wire, both ways, IP headers included" },
    Column { name: "setup_packets", unit: "packets that open or close connections, both ways" },
    Column { name: "setup_resent", unit: "of them sent again, both ways" },
    Column { name: "control_packets", unit: "packets of commands and replies, both ways" },
    Column { name: "connections", unit: "connections and associations opened, the control one included" },
    Column { name: "blocks_max", unit: "control blocks at the server, at most" },
    Column { name: "blocks_mean", unit: "control blocks at the server, in the mean" },
    Column { name: "timeouts", unit: "retransmission time-outs, both sides" },
    Column { name: "fast_retransmits", unit: "both sides" },
    Column { name: "retransmissions", unit: "chunks or segments with data, both sides" },
];

/// The papers' definitions of the duration.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Clock {
    /// From the client's first packet after `mget` (P1).
    Asked,
    /// From the reply 150 to NLST (P2).
    Opened,
}

/// Runs a session; returns its results.
///
/// # Panics
/// If not every file arrived unchanged: the duration would be meaningless.
pub fn run(session: &Session, clock: Clock) -> Row {
    row(&session.run(), clock)
}

/// The results of a session.
///
/// # Panics
/// If not every file arrived unchanged: the duration would be meaningless.
pub fn row(outcome: &Outcome, clock: Clock) -> Row {
    assert!(outcome.failed.is_none(), "{}", outcome.failed.as_deref().unwrap_or_default());
    assert!(outcome.files.iter().all(|file| file.whole), "a file was changed by the transfer");
    let seconds = match clock {
        Clock::Asked => outcome.since_asked,
        Clock::Opened => outcome.since_opened,
    };
    let (up, down) = (outcome.to_server, outcome.to_client);
    let total = (up.total(), down.total());
    Row(vec![
        seconds.as_secs_f64(),
        (total.0.packets + total.1.packets) as f64,
        (total.0.bytes + total.1.bytes) as f64 / 1e3,
        (up.setup.packets + down.setup.packets) as f64,
        (up.resent_setup + down.resent_setup) as f64,
        (up.control.packets + down.control.packets) as f64,
        outcome.connections as f64,
        outcome.control_blocks_max as f64,
        outcome.control_blocks_mean,
        outcome.timeouts as f64,
        outcome.fast_retransmits as f64,
        outcome.retransmissions as f64,
    ])
}
