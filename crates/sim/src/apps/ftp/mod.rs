//! A multiple get by FTP over simulated hosts: the sessions of real transfers, [`braidftp_ftp::client::Session`] and
//! [`braidftp_ftp::server::Session`], over the transports of the hosts, with files in memory.
//!
//! The client connects and logs in; then it is asked for all files: NLST, and each file in the way of the [`Variant`]. Two
//! clocks run, those of the two papers: [`Outcome::since_asked`] and [`Outcome::since_opened`]. Every byte that comes is
//! compared with what must come.
//!
//! What the variants say to each other, file by file (`C` and `S` are lines, over the control connection or stream 0):
//! ```text
//! tcp, naive   C EPRT  S 200  C RETR  S 150  the server connects from port 20, sends, closes  S 226
//! ms           C SIZE  S 213  C RETR  S 150  data on stream 1                                 S 226
//! ms-cp        the same; the SIZEs of all files at once, each RETR when its 213 comes
//! braid        the RETRs of all files at once; data on streams 1 to 4, framed, with a digest
//! ```

mod bundle;
mod client;
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

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Time, named};
use braidftp_ftp::mapping::frame::{DIGEST_LENGTH, Digest};
use braidftp_ftp::mapping::{CONTROL_PORT, Mode, TransferNumber};
use braidftp_sctp::{self as sctp, AllowedPath, Endpoint};
use braidftp_tcp as tcp;

use self::bundle::Bundle;
use self::client::{Carrier, Client};
use self::node::{Party, Side};
use self::server::Server;
use self::silence::Silence;
use self::store::Store;
use crate::dice::{Dice, Probability};
use crate::host::{Endpoints, Host};
use crate::link::LinkConfig;
use crate::protection::Identity;
use crate::topology;
use crate::world::{Actor, Seen, World};

use self::tap::Shared;

pub use self::node::Node;
pub use self::tap::{Count, Purpose, Traffic};
pub use self::transcript::{End, Over, Pdu};

/// The stream of draws of endpoints' seeds.
const DICE: u64 = 1 << 51;
/// That of the acknowledgements that are lost.
const ACK_DICE: u64 = DICE + 1;
/// The hosts, in each network.
const CLIENT: u8 = 1;
const SERVER: u8 = 2;
/// After so long nothing is on its way that nobody waits for: late acknowledgements.
const QUIET: Duration = Duration::from_secs(2);
/// How long what is left of data connections may take to close when the last file is there.
const EPILOGUE: Duration = Duration::from_secs(60);

/// How files are asked for and carried.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Variant {
    /// A TCP connection for control and one for each file, that the server opens (RFC 959's default; P2's "TCP").
    Tcp,
    /// An association for control and one for each file (P2 §4.1).
    Naive,
    /// One association of two streams (P2 §4.2).
    Ms,
    /// The same, commands pipelined (P2 §4.3).
    MsCp,
    /// One association, files at the same time on several streams, framed (specs/ftp-over-sctp.md §6).
    Braid,
    /// ms-cp over one TCP connection (P2 §2.2 A).
    TcpOneCp,
    /// ms over two TCP connections, one for control and one for data (P2 §2.2 B).
    TcpTwo,
    /// ms-cp over two TCP connections (P2 §2.2 C).
    TcpTwoCp,
    /// braid over a TCP connection for control and one for each data stream (P2 §2.2 D). FTP itself has no such thing: its
    /// clients open as many sessions, with a control connection each.
    TcpParallel,
}

impl Variant {
    /// All of them, in the order of tables.
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

    /// The name by which [`FromStr`](std::str::FromStr) knows it.
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

/// When the data of a new data association leaves (naive): the second paper does not say, and half a round trip of each
/// file hangs on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Handshake {
    /// When COOKIE ACK has come, as after a `connect` that blocks.
    #[default]
    First,
    /// Together with COOKIE ECHO.
    WithData,
}

/// A router in front of the client that rewrites addresses, and neither ports nor what is said inside.
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
    /// When it has logged in and both sides are quiet, as the user of an interactive client does: the papers' experiments.
    #[default]
    WhenReady,
    /// At once, as a job does that is given its URL: in braid the login and NLST are sent with COOKIE ECHO.
    AtOnce,
}

/// When a session is over.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Ends {
    /// With the last file and its 226.
    #[default]
    WithLastFile,
    /// When the client has said QUIT and the server has answered; over SCTP, when the association is shut down.
    WithQuit,
}

/// What is watched beyond the counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Watch {
    /// Whether the server's congestion windows are: [`Outcome::windows`].
    pub windows: bool,
    /// Whether every packet is kept: [`Outcome::packets`].
    pub packets: bool,
    /// Whether the server's memory is: [`Outcome::memory_bytes_mean`].
    pub memory: bool,
    /// Whether it is measured how long each side was silent: [`Outcome::silent`]. SCTP alone.
    pub silence: bool,
}

/// A multiple get.
#[derive(Debug, Clone)]
pub struct Session {
    /// How.
    pub variant: Variant,
    /// The sizes of the files, in bytes.
    pub files: Vec<u64>,
    /// The values of SCTP, of both sides. Numbers of streams are the variant's; the receive buffer is no smaller than braid
    /// needs it. With `sctp::Config.security.dtls`, whatever it is, both sides are protected ([`Host::protected`]).
    pub sctp: sctp::Config,
    /// The values of TCP, of both sides.
    pub tcp: tcp::Config,
    /// Of each path, from client to server and back. Both sides have an address on each; TCP uses the first.
    pub paths: Vec<[LinkConfig; 2]>,
    /// Whether there is a NAT in front of the client, on the first path.
    pub nat: NatBox,
    /// When the data of naive's associations leaves.
    pub handshake: Handshake,
    /// When the client is asked for the files.
    pub asks: Asks,
    /// When it is over.
    pub ends: Ends,
    /// Packets of the client that are nothing but acknowledgements, of which this part is lost before it reaches a link: no
    /// link can tell them from others.
    pub lost_acks: Option<Probability>,
    /// Bytes of a file that share an SCTP message. 16 KiB, as `braidftp serve` has it; a block of FreeBSD's file system,
    /// which its ftpd wrote at a time, was as long.
    pub message_bytes: usize,
    /// Data streams of braid.
    pub data_streams: u16,
    /// How often each file, and the login, is tried.
    pub attempts: u32,
    /// How long the client hears nothing before it takes the session for lost. Two hours and ten minutes: what a TCP of BSD
    /// takes to find by its keep-alive probes that nobody is there (idle for 2 h, then 8 times 75 s). An association finds it
    /// by HEARTBEATs long before.
    pub patience: Duration,
    /// The virtual time after which a run that is not done has failed.
    pub at_most: Duration,
    /// What is watched.
    pub watch: Watch,
    /// Steers everything that is random.
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
    /// Ten files of 10 kB by ms-cp over a path without limits.
    fn default() -> Self {
        Self {
            variant: Variant::MsCp,
            files: vec![10_000; 10],
            sctp: sctp::Config::default(),
            tcp: tcp::Profile::NewrenoBsd46.config(),
            paths: vec![[LinkConfig::default(), LinkConfig::default()]],
            nat: NatBox::None,
            handshake: Handshake::First,
            asks: Asks::WhenReady,
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

/// What came of it. Counts begin when the client is asked for the files: connection, login and TYPE are left out; and end
/// when the last file is there and the connections of data are closed.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Why it failed, if it did. Then the times are those until it did.
    pub failed: Option<String>,
    /// From the beginning of the run, at which the client sends its first packet, to the last file's end and 226.
    pub since_started: Duration,
    /// From the same beginning to the end of the session, with [`Ends::WithQuit`].
    pub until_exit: Option<Duration>,
    /// From the client's first packet about the files to the last file's end and 226: the clock of the first paper.
    pub since_asked: Duration,
    /// From the "150" to NLST (braid: the header of the names) to the same end: the clock of the second paper.
    pub since_opened: Duration,
    /// Each file.
    pub files: Vec<FileOutcome>,
    /// What the client sent.
    pub to_server: Traffic,
    /// What the server sent.
    pub to_client: Traffic,
    /// Connections and associations that were opened, the one of control included.
    pub connections: u64,
    /// Logins beyond the first.
    pub reconnections: u32,
    /// The most connections that the server held at a time, those that wait after their end included.
    pub control_blocks_max: usize,
    /// How many it held in the mean over `since_asked`.
    pub control_blocks_mean: f64,
    /// If watched: the most memory that the server's transports took at a time, in bytes, as they account for it themselves:
    /// control blocks and what their buffers hold.
    pub memory_bytes_max: usize,
    /// And in the mean over `since_asked`.
    pub memory_bytes_mean: f64,
    /// Retransmission time-outs of both sides, from the beginning.
    pub timeouts: u64,
    /// Losses that duplicate reports told, of both sides, from the beginning.
    pub fast_retransmits: u64,
    /// Chunks or segments with data that were sent again, from the beginning.
    pub retransmissions: u64,
    /// Packets from outside that a NAT turned away.
    pub turned_away: u64,
    /// If watched: the congestion windows of the server's data.
    pub windows: Vec<WindowPoint>,
    /// If watched: what left and reached the hosts, from the client's first word about the files.
    pub packets: Vec<Seen>,
    /// How many packets the first path had carried each way before the client was asked for the files.
    pub packets_before: [u64; 2],
    /// If watched: the longest time that client and server each sent nothing although they had something to send, and fewer than
    /// eight packets in a row were lost.
    pub silent: [Duration; 2],
    /// What happened, as a number: the same session gives the same.
    pub fingerprint: u64,
    /// Packets that came out of links.
    pub packets_carried: u64,
}

/// What a server held, at most and in the mean, and what the links had carried before that was counted.
struct Loads {
    blocks: (usize, f64),
    memory: (usize, f64),
    packets_before: [u64; 2],
    silent: [Duration; 2],
}

/// What became of a file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct FileOutcome {
    /// When its transfer was given to the session. In most variants its turn comes later.
    pub asked: Option<Time>,
    /// When its 150 came, or its header.
    pub opened: Option<Time>,
    /// When the first byte of it was read.
    pub first_byte: Option<Time>,
    /// When the last that was read so far was.
    pub last_byte: Option<Time>,
    /// When it was whole and its 226 here.
    pub done: Option<Time>,
    /// Whether all its bytes came, and no other.
    pub whole: bool,
}

/// The congestion window of a connection of the server that carries data, from then on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WindowPoint {
    /// When.
    pub at: Time,
    /// Which connection, in the order in which they came up.
    pub connection: usize,
    /// The window, in bytes.
    pub cwnd_bytes: usize,
    /// Where slow start ends, in bytes.
    pub ssthresh_bytes: usize,
    /// What is in flight, in bytes.
    pub flight_bytes: usize,
}

impl Outcome {
    /// If packets were watched: each of them, in the order in which they left, in words.
    pub fn transcript(&self) -> Vec<Pdu> {
        transcript::transcript(&self.packets, SERVER)
    }
}

impl Session {
    /// Lets it happen.
    ///
    /// # Panics
    /// If there is no path.
    pub fn run(&self) -> Outcome {
        let mut world: World<Node> = World::new(self.seed);
        let ends = self.join(&mut world, |world, clients, servers| {
            topology::paths(world, clients, servers, &self.paths);
        });
        self.run_in(world, ends, &mut Nothing).0
    }

    /// Lets it happen between two hosts of a world that [`Session::join`] added, beside whatever else is there: `meanwhile`
    /// is called at the times that it names. Returns the world as it was two seconds or more after the last file.
    pub fn run_in<H: Holds>(
        &self,
        mut world: World<H>,
        [client, server]: [crate::HostId; 2],
        meanwhile: &mut impl Meanwhile<H>,
    ) -> (Outcome, World<H>) {
        let until = Time::ZERO + self.at_most;
        if self.asks == Asks::WhenReady {
            let waits = |world: &World<H>| {
                let it = world.host(client).ftp().host.app().client();
                !it.is_ready() && !it.is_over()
            };
            // The last of the login is left to be quiet.
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
        let mut silence = self.watch.silence.then(|| Silence::new(2 * self.paths.len()));
        while !world.host(client).ftp().host.app().client().is_over() {
            if !world.step(meanwhile.next().unwrap_or(until).min(until)) {
                if world.now() >= until {
                    break;
                }
                meanwhile.happen(&mut world);
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
        };
        let control = match self.variant.carrier(self.data_streams) {
            Carrier::Bundle(connections, _) => connections,
            Carrier::Tcp | Carrier::Sctp => 1,
        };
        let open = |world: &World<H>| {
            let open = |host| {
                let host: &Host<Party> = &world.host(host).ftp().host;
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
            fingerprint,
            packets_carried,
        }
    }

    /// Adds both hosts to a world, client first; `network` adds the links and routes between their addresses, one of each
    /// for each path. The client has begun.
    ///
    /// # Panics
    /// If there is no path.
    pub fn join<H: Holds>(
        &self,
        world: &mut World<H>,
        network: impl FnOnce(&mut World<H>, &[IpAddr], &[IpAddr]),
    ) -> [crate::HostId; 2] {
        assert!(!self.paths.is_empty(), "there is a path");
        let [outside, there] = [CLIENT, SERVER]
            .map(|host| (0..self.paths.len()).map(|path| address(path, host)).collect::<Vec<_>>());
        let mut here = outside.clone();
        let nat = match self.nat {
            NatBox::None => None,
            NatBox::InFrontOfClient => {
                here[0] = SocketAddr::new(IpAddr::V4(Ipv4Addr::new(192, 168, 0, 2)), 0);
                Some(Nat { inside: here[0].ip(), outside: outside[0].ip() })
            }
        };
        let store = Arc::new(Store::new(self.files.clone()));
        let mut dice = Dice::new(self.seed, DICE);
        let mut endpoints = || {
            let seed = dice.seed();
            let tcp = tcp::Endpoint::new(dice.below(u64::MAX));
            Endpoints { sctp: Endpoint::new(seed), tcp }
        };
        let (mut client_ends, mut server_ends) = (endpoints(), endpoints());

        let mode = self.variant.mode();
        let streams = mode.streams(self.data_streams).unwrap_or(1);
        let allowed = |from: &[SocketAddr], to: &[SocketAddr]| {
            let pairs = from.iter().zip(to);
            pairs.map(|(from, to)| AllowedPath { local: from.ip(), peer: Some(to.ip()) }).collect()
        };
        let mut config = self.sctp.clone();
        if mode == Mode::Braid {
            let needed = usize::from(self.data_streams) * (256 << 10) + (128 << 10);
            config.memory.receive_buffer_bytes = config.memory.receive_buffer_bytes.max(needed);
        }
        let several = self.paths.len() > 1;
        let identity = config.security.dtls.take().map(|_| Identity::new());
        let settings = identity.map(|identity| [identity.client(), identity.server()]);
        let [client_dtls, server_dtls] =
            [0, 1].map(|side| settings.as_ref().map(|settings| settings[side].dtls()));
        let client_config = |streams: u16| {
            config.clone().with(|c| {
                c.security.dtls = client_dtls.clone();
                c.streams.outbound = streams;
                c.streams.inbound = streams;
                c.paths.allowed = if several { allowed(&here, &there) } else { Vec::new() };
            })
        };
        let control_config = Arc::new(client_config(streams));
        let data_config = Arc::new(client_config(1));
        let accepting = Arc::new(config.clone().with(|c| {
            c.security.dtls = server_dtls.clone();
            c.streams.outbound = 65;
            c.streams.inbound = 65;
        }));
        let server_data = Arc::new(config.clone().with(|c| {
            c.security.dtls = server_dtls;
            c.streams.outbound = 1;
            c.streams.inbound = 1;
            c.paths.allowed = if several { allowed(&there, &here) } else { Vec::new() };
        }));
        if several {
            server_ends.sctp.set_addresses(there.clone(), sctp::Announce::Always);
            client_ends.sctp.set_addresses(here.clone(), sctp::Announce::Always);
        }
        server_ends.sctp.listen(CONTROL_PORT, accepting).expect("a fresh endpoint listens nowhere");
        let tcp = Arc::new(self.tcp.clone());
        let carrier = self.variant.carrier(self.data_streams);
        let mut server_bundles = Vec::new();
        match carrier {
            Carrier::Sctp => {}
            Carrier::Tcp => {
                // As BSD's ftpd does, so that no reply waits for the acknowledgement of the one before.
                let control = Arc::new(tcp::Config { nagle: false, ..self.tcp.clone() });
                server_ends.tcp.listen(CONTROL_PORT, control).expect("it listens nowhere");
            }
            Carrier::Bundle(connections, streams) => {
                for line in 0..connections as u16 {
                    server_ends
                        .tcp
                        .listen(bundle::PORT + line, tcp.clone())
                        .expect("it does not listen there");
                }
                // One for each login.
                server_bundles.extend((0..self.attempts).map(|_| Bundle::new(connections, streams)));
            }
        }

        let server = Server::new(
            server::Settings {
                local: there.clone(),
                sctp: server_data,
                tcp: tcp.clone(),
                message_bytes: self.message_bytes.clamp(1, store::SLICE_MAX),
                handshake: self.handshake,
            },
            store.clone(),
        );
        let client = Client::new(
            client::Settings {
                mode,
                local: here,
                // The papers' programs connect to one address, and learn of the others when they are connected.
                server: if mode == Mode::Braid { there.clone() } else { vec![there[0]] },
                sctp: control_config,
                data_sctp: data_config,
                tcp,
                carrier,
                data_streams: self.data_streams,
                attempts: self.attempts,
                patience: self.patience,
                asks: self.asks,
                ends: self.ends,
            },
            store,
        );
        let overhead = self.paths[0][0].overhead_bytes;
        let shared = if carrier == Carrier::Bundle(1, 2) { Shared::Yes } else { Shared::No };
        let watched = Watch { silence: self.watch.silence, ..Watch::default() };
        let client = Party::new(Side::Client(Box::new(client)), Vec::new(), watched);
        let mut client = Host::new(client_ends, client);
        let mut server = Host::new(server_ends, Party::new(Side::Server(server), server_bundles, self.watch));
        if let Some([of_client, of_server]) = settings {
            (client, server) = (client.protected(of_client), server.protected(of_server));
        }
        let (endpoints, party) = client.parts_mut();
        party.start(endpoints);

        let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
        let loses = self.lost_acks.map(|part| (Dice::new(self.seed, ACK_DICE), part));
        let client = Node::new(client, overhead, shared, nat, loses);
        let client = world.add_host(client.into(), ips(&outside));
        let server = world.add_host(Node::new(server, overhead, shared, None, None).into(), ips(&there));
        network(world, &ips(&outside), &ips(&there));
        [client, server]
    }
}

/// A host of a world in which a [`Session`] runs, perhaps beside hosts of other kinds.
pub trait Holds: Actor + From<Node> {
    /// The host of the session.
    ///
    /// # Panics
    /// If it is one of another kind.
    fn ftp(&self) -> &Node;

    /// As [`Holds::ftp`], for input.
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

/// What happens in a world while a session runs, by others than its hosts: links change, numbers are read.
pub trait Meanwhile<H> {
    /// When something happens next.
    fn next(&self) -> Option<Time>;

    /// It is time. Afterwards, [`Meanwhile::next`] is later than now.
    fn happen(&mut self, world: &mut World<H>);

    /// The last file is there, or the session failed.
    fn ended(&mut self, _world: &mut World<H>) {}
}

/// Nothing happens.
#[derive(Debug, Clone, Copy)]
pub struct Nothing;

impl<H> Meanwhile<H> for Nothing {
    fn next(&self) -> Option<Time> {
        None
    }

    fn happen(&mut self, _: &mut World<H>) {}
}

/// Runs while `busy`, until a time at most.
fn advance<H: Actor>(
    world: &mut World<H>,
    until: Time,
    meanwhile: &mut impl Meanwhile<H>,
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

/// What stands for the digest of a transfer. The bytes themselves are compared one by one, which costs less than BLAKE3.
fn digest(transfer: TransferNumber, bytes: u64) -> Digest {
    let mut digest = [0; DIGEST_LENGTH];
    digest[..4].copy_from_slice(&transfer.0.to_be_bytes());
    digest[4..12].copy_from_slice(&bytes.to_be_bytes());
    digest
}
