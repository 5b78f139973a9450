//! A multiple get by FTP over simulated hosts: the sessions of real transfers, [`braidftp_ftp::client::Session`] and
//! [`braidftp_ftp::server::Session`], over the transports of the hosts, with files in memory.
//!
//! The client connects and logs in, then it is asked for all files: NLST, and each file in the way of the [`Variant`]. Two
//! clocks run, those of the two papers: [`Outcome::since_asked`] and [`Outcome::since_opened`]. Every received byte is compared
//! with the expected one.
//!
//! The dialogue of each variant, file by file (`C` and `S` are lines on the control connection or stream 0):
//! ```text
//! tcp, naive   C EPRT  S 200  C RETR  S 150  the server connects from port 20, sends, closes  S 226
//! ms           C SIZE  S 213  C RETR  S 150  data on stream 1                                 S 226
//! ms-cp        the same; the SIZEs of all files at once, each RETR when its 213 comes
//! braid        the RETRs of all files at once; data on streams 1 to 4, framed, with a digest
//! ```

mod bundle;
mod client;
mod join;
mod net;
mod node;
mod piece;
mod server;
mod silence;
mod store;
mod tap;
#[cfg(test)]
mod tests;
mod transcript;

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braidftp_base::{Time, named};
use braidftp_ftp::mapping::frame::{DIGEST_LENGTH, Digest};
use braidftp_ftp::mapping::{Mode, TransferNumber};
use braidftp_sctp::{self as sctp, AssociationId, Stats};
use braidftp_tcp as tcp;

use self::client::Carrier;
use self::node::HostApp;
use self::silence::Silence;
use crate::host::Host;
use crate::link::LinkConfig;
use crate::protection::Identity;
use crate::random::Probability;
use crate::topology;
use crate::world::{Actor, Seen, World};

pub use self::node::Node;
pub use self::tap::{Count, Purpose, Traffic};
pub use self::transcript::{End, Over, Pdu};

/// The random stream of the endpoints' seeds.
const RANDOM_STREAM: u64 = 1 << 51;
/// The random stream of lost acknowledgements.
const ACK_DICE: u64 = RANDOM_STREAM + 1;
/// The host numbers in each network.
const CLIENT: u8 = 1;
const SERVER: u8 = 2;
/// After this time without an event nothing relevant is in flight, such as late acknowledgements.
const QUIET: Duration = Duration::from_secs(2);
/// The time that data connections may take to close after the last file.
const EPILOGUE: Duration = Duration::from_secs(60);

/// How files are requested and carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// A TCP connection for control, and one for each file opened by the server (RFC 959's default; P2's
    /// "TCP").
    Tcp,
    /// An association for control, and one for each file (P2 §4.1).
    Naive,
    /// One association of two streams (P2 §4.2).
    Ms,
    /// One association of two streams with pipelined commands (P2 §4.3).
    MsCp,
    /// One association with concurrent, framed files on several streams (specs/ftp-over-sctp.md §6).
    Braid,
    /// ms-cp over one TCP connection (P2 §2.2 A).
    TcpOneCp,
    /// ms over two TCP connections, one for control and one for data (P2 §2.2 B).
    TcpTwo,
    /// ms-cp over two TCP connections (P2 §2.2 C).
    TcpTwoCp,
    /// braid over a TCP connection for control and one for each data stream (P2 §2.2 D). FTP has no such
    /// mode: its clients open several sessions, each with a control connection.
    TcpParallel,
}

impl Variant {
    /// All variants, in the order of tables.
    pub const ALL: &[Self] = &[
        Self::Tcp,
        Self::Naive,
        Self::Ms,
        Self::MsCp,
        Self::Braid,
        Self::TcpOneCp,
        Self::TcpTwo,
        Self::TcpTwoCp,
        Self::TcpParallel,
    ];

    /// The name that [`FromStr`](std::str::FromStr) parses.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Tcp => "tcp",
            Self::TcpOneCp => "tcp-one-cp",
            Self::TcpTwo => "tcp-two",
            Self::TcpTwoCp => "tcp-two-cp",
            Self::TcpParallel => "tcp-parallel",
            Self::Naive => "naive",
            Self::Ms => "ms",
            Self::MsCp => "ms-cp",
            Self::Braid => "braid",
        }
    }

    const fn mode(self) -> Mode {
        match self {
            Self::Tcp => Mode::Tcp,
            Self::Naive => Mode::Naive,
            Self::Ms | Self::TcpTwo => Mode::Ms,
            Self::MsCp | Self::TcpOneCp | Self::TcpTwoCp => Mode::MsCp,
            Self::Braid | Self::TcpParallel => Mode::Braid,
        }
    }

    fn carrier(self, data_streams: u16) -> Carrier {
        match self {
            Self::Tcp => Carrier::Tcp,
            Self::Naive | Self::Ms | Self::MsCp | Self::Braid => Carrier::Sctp,
            Self::TcpOneCp => Carrier::Bundle(1, 2),
            Self::TcpTwo | Self::TcpTwoCp => Carrier::Bundle(2, 2),
            Self::TcpParallel => {
                let streams = 1 + usize::from(data_streams);
                Carrier::Bundle(streams, streams)
            }
        }
    }
}

named!(Variant, UnknownVariant, "variant");

/// When the data of a new data association is sent (naive). The second paper does not say, and it
/// accounts for half an RTT per file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Handshake {
    /// After COOKIE ACK has arrived, as after a blocking `connect`.
    #[default]
    First,
    /// Together with COOKIE ECHO.
    WithData,
}

/// A router in front of the client that rewrites addresses, but neither ports nor addresses inside
/// packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Nat {
    /// The client's own address.
    pub inside: IpAddr,
    /// The address that the server sees.
    pub outside: IpAddr,
}

/// When the client is asked for the files.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Asks {
    /// When it has logged in and both sides are idle, like a user of an interactive client: the papers'
    /// experiments.
    #[default]
    WhenReady,
    /// At once, like a job with a URL: in mode braid the login and NLST are sent with COOKIE ECHO.
    AtOnce,
}

/// The commands of a client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Dialog {
    /// Those of the papers' clients: no questions about the server; TCP in active mode, one command at a time.
    #[default]
    Papers,
    /// Those of `braidftp get`: FEAT before the listing; TCP in passive mode, with commands ahead of replies.
    Braidftp,
}

/// When a session ends.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ends {
    /// With the last file and its 226.
    #[default]
    WithLastFile,
    /// After QUIT and its reply; over SCTP, when the association is shut down.
    WithQuit,
}

/// What is recorded besides the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watch {
    /// The server's congestion windows: [`Outcome::windows`].
    pub windows: bool,
    /// Every packet: [`Outcome::packets`].
    pub packets: bool,
    /// The server's memory: [`Outcome::memory_bytes_mean`].
    pub memory: bool,
    /// The silences of each side: [`Outcome::silent`]. SCTP only.
    pub silence: bool,
    /// The statistics of the client's associations: [`Outcome::stats`]. SCTP only.
    pub stats: bool,
}

/// The statistics of an association at one time.
#[derive(Debug, Clone, PartialEq)]
pub struct StatsPoint {
    /// When.
    pub at: Time,
    /// The association.
    pub association: AssociationId,
    /// Its statistics.
    pub stats: Stats,
}

/// A multiple get.
#[derive(Debug, Clone)]
pub struct Session {
    /// The variant.
    pub variant: Variant,
    /// The sizes of the files, in bytes.
    pub files: Vec<u64>,
    /// The SCTP configuration of both sides. The variant determines the number of streams; the receive
    /// buffer is at least as large as braid requires. With `sctp::Config.security.dtls`, whatever it is,
    /// both sides are protected ([`Host::protected`]).
    pub sctp: sctp::Config,
    /// Who both sides are if they are protected; `None`: a new identity. A second run with the same one of
    /// [`Identity::resuming`] resumes the TLS session of the first.
    pub identity: Option<Identity>,
    /// The TCP configuration of both sides.
    pub tcp: tcp::Config,
    /// The links of each path, from client to server and back. Both sides have an address on each; TCP
    /// uses the first.
    pub paths: Vec<[LinkConfig; 2]>,
    /// Whether a NAT is in front of the client, on the first path.
    pub nat: NatBox,
    /// When the data of naive's associations is sent.
    pub handshake: Handshake,
    /// When the client is asked for the files.
    pub asks: Asks,
    /// The client's commands.
    pub dialog: Dialog,
    /// When the session ends.
    pub ends: Ends,
    /// The probability with which the client's pure acknowledgements are lost before they reach a link:
    /// links cannot distinguish them from other packets.
    pub lost_acks: Option<Probability>,
    /// Bytes of a file per SCTP message. Default 16 KiB, as in `braidftp serve`; equal to the file
    /// system block of FreeBSD, which its ftpd wrote at a time.
    pub message_bytes: usize,
    /// The number of data streams in mode braid.
    pub data_streams: u16,
    /// The maximum number of attempts for each file and for the login.
    pub attempts: u32,
    /// The silence after which the client considers the session lost. Two hours and ten minutes: the
    /// time in which BSD's TCP detects a vanished peer by keep-alive probes (2 h idle, then 8 probes at
    /// 75 s). An association detects it much earlier by HEARTBEATs.
    pub patience: Duration,
    /// The virtual time after which an unfinished run has failed.
    pub at_most: Duration,
    /// What is recorded.
    pub watch: Watch,
    /// The seed of all randomness.
    pub seed: u64,
}

/// Whether there is a NAT.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum NatBox {
    /// There is none.
    #[default]
    None,
    /// There is one.
    InFrontOfClient,
}

impl Default for Session {
    /// Ten files of 10 kB with ms-cp over an unlimited path.
    fn default() -> Self {
        Self {
            variant: Variant::MsCp,
            files: vec![10_000; 10],
            sctp: sctp::Config::default(),
            identity: None,
            tcp: tcp::Profile::NewrenoBsd46.config(),
            paths: vec![[LinkConfig::default(), LinkConfig::default()]],
            nat: NatBox::None,
            handshake: Handshake::First,
            asks: Asks::WhenReady,
            dialog: Dialog::Papers,
            ends: Ends::WithLastFile,
            lost_acks: None,
            message_bytes: 16 << 10,
            data_streams: 4,
            attempts: 5,
            patience: Duration::from_secs(7_800),
            at_most: Duration::from_secs(30 * 86_400),
            watch: Watch::default(),
            seed: 1,
        }
    }
}

/// The result. Counts begin when the client is asked for the files, without connection setup, login and
/// TYPE; they end when the last file is complete and the data connections are closed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Why it failed, if it did. Then the times are those until the failure.
    pub failed: Option<String>,
    /// From the start of the run, when the client sends its first packet, to the end and 226 of the last
    /// file.
    pub since_started: Duration,
    /// From the same start to the end of the session, with [`Ends::WithQuit`].
    pub until_exit: Option<Duration>,
    /// From the client's first packet about the files to the end and 226 of the last file: the first
    /// paper's measurement.
    pub since_asked: Duration,
    /// From the "150" to NLST (braid: the header of the names) to the same end: the second paper's
    /// measurement.
    pub since_opened: Duration,
    /// The result of each file.
    pub files: Vec<FileOutcome>,
    /// What the client sent.
    pub to_server: Traffic,
    /// What the server sent.
    pub to_client: Traffic,
    /// Connections and associations opened, including the control connection.
    pub connections: u64,
    /// Repeated logins.
    pub reconnections: u32,
    /// The maximum number of connections that the server held, including those in TIME-WAIT.
    pub control_blocks_max: usize,
    /// The mean number of connections over `since_asked`.
    pub control_blocks_mean: f64,
    /// If recorded: the maximum memory of the server's transports in bytes, by their own accounting:
    /// control blocks and contents of buffers.
    pub memory_bytes_max: usize,
    /// If recorded: the mean memory over `since_asked`.
    pub memory_bytes_mean: f64,
    /// Retransmission time-outs of both sides, from the start.
    pub timeouts: u64,
    /// Losses detected by duplicate reports of both sides, from the start.
    pub fast_retransmits: u64,
    /// Retransmitted chunks or segments with data, from the start.
    pub retransmissions: u64,
    /// Packets from outside that a NAT discarded.
    pub turned_away: u64,
    /// If recorded: the congestion windows of the server's data.
    pub windows: Vec<WindowPoint>,
    /// If recorded: the packets that hosts sent and received, from the client's first packet about the
    /// files.
    pub packets: Vec<Seen>,
    /// If recorded: the statistics of the client's associations whenever they changed.
    pub stats: Vec<StatsPoint>,
    /// The number of packets in each direction on the first path before the client was asked for the
    /// files.
    pub packets_before: [u64; 2],
    /// If recorded: the longest time that client and server each sent nothing although they had
    /// something to send, while fewer than eight consecutive packets were lost.
    pub silent: [Duration; 2],
    /// The fingerprint of the run, equal for equal sessions.
    pub fingerprint: u64,
    /// Packets that left links.
    pub packets_carried: u64,
}

/// The maximum and mean of what a server held, and the packets carried before counting began.
struct Loads {
    blocks: (usize, f64),
    memory: (usize, f64),
    packets_before: [u64; 2],
    silent: [Duration; 2],
    stats: Vec<StatsPoint>,
}

/// Records the statistics of a host's associations that differ from those recorded before.
fn record_stats<H: Holds>(world: &World<H>, host: crate::HostId, points: &mut Vec<StatsPoint>) {
    for (association, stats) in world.host(host).ftp().association_stats() {
        let last = points.iter().rev().find(|point| point.association == association);
        if last.is_none_or(|last| last.stats != stats) {
            points.push(StatsPoint { at: world.now(), association, stats });
        }
    }
}

/// The result of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileOutcome {
    /// When its transfer was passed to the session. In most variants its turn comes later.
    pub asked: Option<Time>,
    /// When its 150 or its header arrived.
    pub opened: Option<Time>,
    /// When its first byte was read.
    pub first_byte: Option<Time>,
    /// When the last byte so far was read.
    pub last_byte: Option<Time>,
    /// When it was complete and its 226 had arrived.
    pub done: Option<Time>,
    /// Whether all of its bytes arrived, and no others.
    pub whole: bool,
}

/// The congestion window of a data connection of the server, from this time on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPoint {
    /// The time.
    pub at: Time,
    /// The connection, numbered in the order of establishment.
    pub connection: usize,
    /// The window, in bytes.
    pub cwnd_bytes: usize,
    /// The slow-start threshold in bytes.
    pub ssthresh_bytes: usize,
    /// Bytes in flight.
    pub flight_bytes: usize,
}

impl Outcome {
    /// If packets were recorded: a transcript of each, in the order in which they were sent.
    pub fn transcript(&self) -> Vec<Pdu> {
        transcript::transcript(&self.packets, SERVER)
    }
}

impl Session {
    /// Runs the session.
    ///
    /// # Panics
    ///
    /// If there is no path.
    pub fn run(&self) -> Outcome {
        let mut world: World<Node> = World::new(self.seed);
        let ends = self.join(&mut world, |world, clients, servers| {
            topology::paths(world, clients, servers, &self.paths);
        });
        self.run_in(world, ends, &mut Nothing).0
    }

    /// Runs the session between two hosts of a world that [`Session::join`] added, besides others;
    /// `meanwhile` is called at its times. Returns the world two seconds or more after the last file.
    pub fn run_in<H: Holds>(
        &self,
        mut world: World<H>,
        [client, server]: [crate::HostId; 2],
        meanwhile: &mut impl DuringRun<H>,
    ) -> (Outcome, World<H>) {
        let until = Time::ZERO + self.at_most;
        if self.asks == Asks::WhenReady {
            let waits = |world: &World<H>| {
                let it = world.host(client).ftp().host.app().client();
                !it.is_ready() && !it.is_over()
            };
            // Packets of the login may still be in flight.
            advance(&mut world, until, meanwhile, waits);
            let quiet = (world.now() + QUIET).min(until);
            advance(&mut world, quiet, meanwhile, |_| true);
        }
        let now = world.now();
        for host in [client, server] {
            let node = world.host_mut(host).ftp_mut();
            node.tap.start();
            let (_, party) = node.host.parts_mut();
            party.blocks.start(now);
            party.memory.iter_mut().for_each(|memory| memory.start(now));
            if party.is_ready() {
                party.ask(now);
            }
        }
        if self.watch.packets {
            world.record();
        }
        let mut links = world.links().map(|link| link.counters().packets_in);
        let packets_before = [links.next().unwrap_or(0), links.next().unwrap_or(0)];
        drop(links);
        let mut stats = Vec::new();
        let mut silence = self.watch.silence.then(|| Silence::new(2 * self.paths.len()));
        while !world.host(client).ftp().host.app().client().is_over() {
            if !world.step(meanwhile.next().unwrap_or(until).min(until)) {
                if world.now() >= until {
                    break;
                }
                meanwhile.happen(&mut world);
            }
            if self.watch.stats {
                record_stats(&world, client, &mut stats);
            }
            if let Some(silence) = &mut silence {
                let waits = [client, server].map(|host| world.host(host).ftp().host.app().waits);
                silence.look(world.now(), waits, world.links().map(|link| link.counters()));
            }
        }

        let end = world.now();
        meanwhile.ended(&mut world);
        let silent = silence.map_or([Duration::ZERO; 2], |silence| silence.longest(end));
        let party = world.host(server).ftp().host.app();
        let loads = Loads {
            blocks: party.blocks.most_and_mean(end),
            memory: party.memory.as_ref().map_or((0, 0.0), |memory| memory.most_and_mean(end)),
            packets_before,
            silent,
            stats,
        };
        let control = match self.variant.carrier(self.data_streams) {
            Carrier::Bundle(connections, _) => connections,
            Carrier::Tcp | Carrier::Sctp => 1,
        };
        let open = |world: &World<H>| {
            let open = |host| {
                let host: &Host<HostApp> = &world.host(host).ftp().host;
                host.app().ledger.open(host.tcp())
            };
            open(client) > control || open(server) > control
        };
        world.run_until(world.now() + QUIET);
        world.run_while(EPILOGUE, open);
        let outcome = self.outcome(&mut world, [client, server], end, loads);
        (outcome, world)
    }

    fn outcome<H: Holds>(
        &self,
        world: &mut World<H>,
        [client, server]: [crate::HostId; 2],
        end: Time,
        loads: Loads,
    ) -> Outcome {
        let (control_blocks_max, control_blocks_mean) = loads.blocks;
        let (memory_bytes_max, memory_bytes_mean) = loads.memory;
        let packets = if self.watch.packets { world.take_record() } else { Vec::new() };
        let fingerprint = world.fingerprint();
        let packets_carried = world.links().map(|link| link.counters().packets_out).sum();
        assert!(
            world.links().all(|link| link.counters().is_conserved()),
            "packets do not vanish without a word"
        );
        let ledgers = [client, server].map(|host| {
            let node = world.host(host).ftp();
            node.host.app().ledger.with_living(node.host.endpoints())
        });
        let sum = |of: fn(&net::Ledger) -> u64| ledgers.iter().map(of).sum();
        let windows =
            world.host_mut(server).ftp_mut().host.parts_mut().1.windows.take().map(|windows| windows.points);
        let node = world.host(client).ftp();
        let it = node.host.app().client();
        let report = it.report();
        let failed = report.failed.clone().or_else(|| {
            report
                .done
                .is_none()
                .then(|| format!("not done after {} s of virtual time", self.at_most.as_secs()))
        });
        let end = report.done.unwrap_or(end);
        let since = |begin: Option<Time>| begin.map_or(Duration::ZERO, |begin| end.since(begin));
        Outcome {
            failed,
            since_started: end.since(Time::ZERO),
            until_exit: report.left.map(|left| left.since(Time::ZERO)),
            since_asked: since(report.asked),
            since_opened: since(report.opened),
            files: report.files.clone(),
            to_server: node.tap.traffic(),
            to_client: world.host(server).ftp().tap.traffic(),
            connections: sum(|ledger| ledger.opened),
            reconnections: it.reconnections(),
            control_blocks_max,
            control_blocks_mean,
            memory_bytes_max,
            memory_bytes_mean,
            timeouts: sum(|ledger| ledger.timeouts),
            fast_retransmits: sum(|ledger| ledger.fast_retransmits),
            retransmissions: sum(|ledger| ledger.retransmissions),
            turned_away: node.turned_away(),
            windows: windows.unwrap_or_default(),
            packets,
            packets_before: loads.packets_before,
            silent: loads.silent,
            stats: loads.stats,
            fingerprint,
            packets_carried,
        }
    }
}

/// A host of a world in which a [`Session`] runs, possibly besides hosts of other kinds.
pub trait Holds: Actor + From<Node> {
    /// The host of the session.
    ///
    /// # Panics
    ///
    /// If the host is of another kind.
    fn ftp(&self) -> &Node;

    /// Like [`Holds::ftp`], for input.
    fn ftp_mut(&mut self) -> &mut Node;
}

impl Holds for Node {
    fn ftp(&self) -> &Node {
        self
    }

    fn ftp_mut(&mut self) -> &mut Node {
        self
    }
}

/// Actions in a world while a session runs: links change, values are recorded.
pub trait DuringRun<H> {
    /// When the next action is due.
    fn next(&self) -> Option<Time>;

    /// Performs the due action. Afterwards, [`DuringRun::next`] is later than now.
    fn happen(&mut self, world: &mut World<H>);

    /// The last file is complete, or the session failed.
    fn ended(&mut self, _world: &mut World<H>) {}
}

/// No action.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

impl<H> DuringRun<H> for Nothing {
    fn next(&self) -> Option<Time> {
        None
    }

    fn happen(&mut self, _: &mut World<H>) {}
}

/// Runs while `busy`, at most until a time.
fn advance<H: Actor>(
    world: &mut World<H>,
    until: Time,
    meanwhile: &mut impl DuringRun<H>,
    mut busy: impl FnMut(&World<H>) -> bool,
) {
    loop {
        let stop = meanwhile.next().unwrap_or(until).min(until);
        let at_most = stop.since(world.now());
        if world.run_while(at_most, &mut busy) || stop >= until {
            return;
        }
        meanwhile.happen(world);
    }
}

fn address(path: usize, host: u8) -> SocketAddr {
    SocketAddr::new(topology::address(path as u8, host), 0)
}

/// A substitute for the digest of a transfer. The bytes themselves are compared, which costs less than
/// BLAKE3.
fn digest(transfer: TransferNumber, bytes: u64) -> Digest {
    let mut digest = [0; DIGEST_LENGTH];
    digest[..4].copy_from_slice(&transfer.0.to_be_bytes());
    digest[4..12].copy_from_slice(&bytes.to_be_bytes());
    digest
}
