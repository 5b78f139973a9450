//! Attacks on an SCTP server by a peer that violates the protocol, with valid tags and checksums.
//!
//! [`ATTACKS`] is the table. An [`Attacker`] performs one of them: a sans-IO machine like every host of
//! a [`World`](crate::World), so `victim` runs it in virtual time, and `examples/attack.rs` over real
//! UDP. The results are the memory of the server's associations, and the service of an honest client.

pub mod hello;
mod peer;
pub mod victim;

use std::collections::VecDeque;
use std::convert::Infallible;
use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_sctp::packet_builder::PacketBuilder;
use braidftp_sctp::wire::{Chunk, Header, Init, Packet, Sack};
use braidftp_sctp::{StreamId, Tsn, VerificationTag};
use bytes::Bytes;

use self::peer::Peer;
use crate::random::Random;
use crate::world::Actor;

/// The lowest port of an attacker's associations.
const PORT_MIN: u16 = 1_024;
/// Bytes of an upload per packet.
pub const UPLOAD_PACKET_BYTES: usize = 15_000;
/// The poll interval of an attacker with nothing to send.
const IDLE: Duration = Duration::from_millis(10);
/// The maximum time by which an attacker may lag behind its rate and catch up.
const BEHIND_MAX: Duration = Duration::from_millis(20);

/// One attack.
#[derive(Debug, Clone, Copy)]
pub struct Attack {
    /// Its name.
    pub name: &'static str,
    /// What it does.
    pub what: &'static str,
    /// The number of associations that it opens.
    pub associations: u16,
    /// The number of them from one address.
    pub from_one_address: u16,
    /// The number of streams in each direction. An FTP server uses mode braid with more than 2.
    pub streams: u16,
    /// What it first sends on the control stream.
    pub commands: Commands,
    /// The number of files that each association requests or stores at a time, or of rounds of listings or digests.
    pub files: u16,
    /// What each association then sends repeatedly.
    pub says: Behaviour,
    /// How it responds to the server's data.
    pub answers: Answers,
    /// Packets that belong to no association.
    pub flood: Option<Flood>,
    /// Packets per second of all associations together.
    pub packets_a_second: u32,
    /// Whether an association that the server has ended begins again.
    pub persists: bool,
}

/// What an attack sends on the control stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Commands {
    /// Nothing.
    None,
    /// A login.
    LogIn,
    /// A login and requests for endless data.
    LogInAndAsk,
    /// A login and requests for listings.
    LogInAndList,
    /// A login and requests for digests of files.
    LogInAndDigest,
    /// A login and starts of uploads.
    LogInAndStore,
    /// A login and the end of the session.
    LogInAndQuit,
    /// A login, requests for endless data, and the end of the session.
    LogInAskAndQuit,
}

/// What an association of an attack sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Behaviour {
    /// Nothing.
    Nothing,
    /// Messages on a stream that is not read, each in a datagram padded to `datagram_bytes`.
    Unread {
        /// Bytes of a message.
        payload_bytes: usize,
        /// Bytes of a datagram, with a PAD chunk.
        datagram_bytes: usize,
    },
    /// The same after a missing TSN.
    Gap {
        /// Bytes of a message.
        payload_bytes: usize,
        /// Bytes of a datagram, with a PAD chunk.
        datagram_bytes: usize,
    },
    /// Every second TSN.
    Holes,
    /// Fragments of an endless message.
    Fragments {
        /// Bytes of a fragment.
        payload_bytes: usize,
    },
    /// Empty command lines on the control stream, one byte per message and many per packet.
    Lines,
    /// A ClientHello over an association that offers protection, followed by ABORT and the next
    /// association.
    Hellos,
    /// A ClientHello over an association that offers protection, then nothing more from it, and the next
    /// association from another port.
    SilentHellos,
    /// On each data stream a braid upload that stops after this many packets of [`UPLOAD_PACKET_BYTES`].
    Uploads {
        /// Packets on each stream.
        packets: u32,
    },
}

/// How an association of an attack responds to data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answers {
    /// It acknowledges everything.
    All,
    /// It answers every window probe with a window of zero, and accepts nothing.
    ZeroWindow,
    /// It never acknowledges.
    Nothing,
    /// It accepts a packet per second.
    Slowly,
    /// It acknowledges this many bytes, and then accepts nothing, with a window of zero.
    Until(u64),
}

/// Packets that belong to no association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flood {
    /// INIT chunks.
    Inits,
    /// Forged COOKIE ECHO chunks.
    Cookies,
    /// DATA, SACK and SHUTDOWN ACK chunks with arbitrary tags.
    Strays,
}

const QUIET: Attack = Attack {
    name: "",
    what: "",
    associations: 1,
    from_one_address: 20,
    streams: 2,
    commands: Commands::LogIn,
    files: 1,
    says: Behaviour::Nothing,
    answers: Answers::All,
    flood: None,
    packets_a_second: 10_000,
    persists: false,
};

/// All attacks.
pub const ATTACKS: &[Attack] = &[
    Attack {
        name: "pad-1400",
        what: "one byte of DATA and a PAD in datagrams of 1,400 bytes, on a stream nobody reads",
        says: Behaviour::Unread { payload_bytes: 1, datagram_bytes: 1_400 },
        ..QUIET
    },
    Attack {
        name: "pad-16000",
        what: "the same in datagrams of 16,000 bytes",
        says: Behaviour::Unread { payload_bytes: 1, datagram_bytes: 16_000 },
        ..QUIET
    },
    Attack {
        name: "pad-before-login",
        what: "40 associations do so without a login",
        associations: 40,
        commands: Commands::None,
        says: Behaviour::Unread { payload_bytes: 1, datagram_bytes: 1_400 },
        ..QUIET
    },
    Attack {
        name: "hoard",
        what: "40 associations fill their receive windows with full packets that nobody reads",
        associations: 40,
        says: Behaviour::Unread { payload_bytes: 1_400, datagram_bytes: 0 },
        ..QUIET
    },
    Attack {
        name: "gap-tiny",
        what: "one TSN is missing, and messages of a byte follow",
        says: Behaviour::Gap { payload_bytes: 1, datagram_bytes: 0 },
        ..QUIET
    },
    Attack {
        name: "gap-full",
        what: "20 associations with one TSN missing, and full packets follow",
        associations: 20,
        says: Behaviour::Gap { payload_bytes: 1_400, datagram_bytes: 0 },
        ..QUIET
    },
    Attack {
        name: "holes",
        what: "10 associations send every second TSN",
        associations: 10,
        says: Behaviour::Holes,
        ..QUIET
    },
    Attack {
        name: "fragments",
        what: "10 associations send a message that never ends",
        associations: 10,
        says: Behaviour::Fragments { payload_bytes: 1_400 },
        ..QUIET
    },
    Attack {
        name: "lines",
        what: "40 associations send empty command lines, a byte a message, and take no reply",
        associations: 40,
        streams: 3,
        says: Behaviour::Lines,
        answers: Answers::Nothing,
        packets_a_second: 2_000,
        ..QUIET
    },
    Attack {
        name: "lines-before-login",
        what: "40 associations do so without a login",
        associations: 40,
        streams: 3,
        commands: Commands::None,
        says: Behaviour::Lines,
        answers: Answers::Nothing,
        packets_a_second: 2_000,
        ..QUIET
    },
    Attack {
        name: "zero-window",
        what: "40 associations ask for data and answer probes with a window of zero",
        associations: 40,
        commands: Commands::LogInAndAsk,
        answers: Answers::ZeroWindow,
        ..QUIET
    },
    Attack {
        name: "no-sack",
        what: "40 associations ask for data and acknowledge none",
        associations: 40,
        commands: Commands::LogInAndAsk,
        answers: Answers::Nothing,
        ..QUIET
    },
    Attack {
        name: "slow-reader",
        what: "40 associations ask for data and take a packet a second",
        associations: 40,
        commands: Commands::LogInAndAsk,
        answers: Answers::Slowly,
        ..QUIET
    },
    Attack {
        name: "transfers",
        what: "50 associations ask for 64 files each at once and never open their window",
        associations: 50,
        from_one_address: 50,
        streams: 65,
        commands: Commands::LogInAndAsk,
        files: 64,
        answers: Answers::ZeroWindow,
        ..QUIET
    },
    Attack {
        name: "transfers-of-all",
        what: "196 associations from four addresses do so: nearly all sessions that there may be",
        associations: 196,
        from_one_address: 49,
        streams: 65,
        commands: Commands::LogInAndAsk,
        files: 64,
        answers: Answers::ZeroWindow,
        // No more than half of them may be before their login at once.
        packets_a_second: 500,
        persists: true,
        ..QUIET
    },
    Attack {
        name: "trickle",
        what: "200 associations from four addresses, all sessions that there may be, take a packet of a file a second each",
        associations: 200,
        from_one_address: 50,
        streams: 3,
        commands: Commands::LogInAndAsk,
        answers: Answers::Slowly,
        // No more than half of them may be before their login at once.
        packets_a_second: 500,
        persists: true,
        ..QUIET
    },
    Attack {
        name: "listings",
        what: "50 associations ask for listings on all of their streams and never open their window",
        associations: 50,
        from_one_address: 50,
        streams: 65,
        commands: Commands::LogInAndList,
        files: 22,
        answers: Answers::ZeroWindow,
        ..QUIET
    },
    Attack {
        name: "digests",
        what: "50 associations ask for 128 digests each of a large file",
        associations: 50,
        from_one_address: 50,
        streams: 65,
        commands: Commands::LogInAndDigest,
        files: 64,
        ..QUIET
    },
    Attack {
        name: "tails",
        what: "20 associations do so when they have taken nearly all of the first 256 KiB of each file",
        associations: 20,
        streams: 65,
        commands: Commands::LogInAndAsk,
        files: 64,
        answers: Answers::Until(64 * (240 << 10)),
        ..QUIET
    },
    Attack {
        name: "uploads",
        what: "50 associations begin 64 uploads each and stop shortly before 256 KiB of each",
        associations: 50,
        from_one_address: 50,
        streams: 65,
        commands: Commands::LogInAndStore,
        files: 64,
        says: Behaviour::Uploads { packets: 17 },
        ..QUIET
    },
    Attack {
        name: "outlive",
        what: "600 associations from one address log in, say good-bye, and never open their window",
        associations: 600,
        from_one_address: 600,
        commands: Commands::LogInAndQuit,
        answers: Answers::ZeroWindow,
        ..QUIET
    },
    Attack {
        name: "outlive-data",
        what: "150 associations ask for data before they do so",
        associations: 150,
        from_one_address: 50,
        commands: Commands::LogInAskAndQuit,
        answers: Answers::ZeroWindow,
        ..QUIET
    },
    Attack {
        name: "vanish",
        what: "1,000 associations are established and then silent",
        associations: 1_000,
        commands: Commands::None,
        packets_a_second: 1_000,
        ..QUIET
    },
    Attack {
        name: "hellos",
        what: "a ClientHello a millisecond, each over a new association that ends when the server has answered",
        associations: 40,
        commands: Commands::None,
        says: Behaviour::Hellos,
        packets_a_second: 4_000,
        persists: true,
        ..QUIET
    },
    Attack {
        name: "hellos-silent",
        what: "the same, each over a new association that is silent afterwards",
        associations: 40,
        from_one_address: 2,
        commands: Commands::None,
        says: Behaviour::SilentHellos,
        packets_a_second: 4_000,
        ..QUIET
    },
    Attack {
        name: "inits",
        what: "20,000 INITs a second",
        associations: 0,
        flood: Some(Flood::Inits),
        packets_a_second: 20_000,
        ..QUIET
    },
    Attack {
        name: "cookies",
        what: "20,000 forged cookies a second",
        associations: 0,
        flood: Some(Flood::Cookies),
        packets_a_second: 20_000,
        ..QUIET
    },
    Attack {
        name: "strays",
        what: "20,000 packets a second that belong to no association",
        associations: 0,
        flood: Some(Flood::Strays),
        packets_a_second: 20_000,
        ..QUIET
    },
];

/// The messages that an attacker sends to the server's application.
#[derive(Debug, Clone, Default)]
pub struct Words {
    /// Logs in.
    pub log_in: Vec<Bytes>,
    /// Requests endless data.
    pub ask: Vec<Bytes>,
    /// Requests listings.
    pub list: Vec<Bytes>,
    /// Requests digests of a file.
    pub digest: Vec<Bytes>,
    /// Starts the upload with this number.
    pub store: Option<fn(u32) -> Bytes>,
    /// To end the session.
    pub quit: Vec<Bytes>,
}

/// The target of an attack, and the attacker's addresses.
#[derive(Debug, Clone)]
pub struct Target {
    /// The server's address.
    pub server: SocketAddr,
    /// Its SCTP port.
    pub port: u16,
    /// The attacker's addresses.
    pub from: Vec<SocketAddr>,
}

impl Behaviour {
    /// Whether associations offer protection, and begin a TLS handshake.
    pub(crate) fn is_hellos(self) -> bool {
        matches!(self, Self::Hellos | Self::SilentHellos)
    }
}

impl Attack {
    /// The number of addresses that it needs.
    pub fn addresses(&self) -> u16 {
        self.associations.div_ceil(self.from_one_address).max(1)
    }
}

/// A running attack.
#[derive(Debug)]
pub struct Attacker {
    attack: Attack,
    target: Target,
    peers: Vec<Peer>,
    turn: usize,
    outbox: VecDeque<Datagram>,
    next_at: Time,
    stopped: bool,
    random: Random,
    /// Packets sent.
    sent: u64,
}

impl Attacker {
    /// Starts an attack.
    ///
    /// # Panics
    ///
    /// If the target has fewer source addresses than the attack needs.
    pub fn new(attack: Attack, target: Target, words: &Words, seed: u64) -> Self {
        assert!(target.from.len() >= usize::from(attack.addresses()), "{} addresses", attack.addresses());
        let mut random = Random::new(seed, 1 << 50);
        let files = u32::from(attack.files);
        let repeated = |words: &[Bytes]| vec![words; usize::from(attack.files)].concat();
        let ask = repeated(&words.ask);
        let store = |nth: u16| -> Vec<Bytes> {
            let number = |at: u32| u32::from(nth) * files + at;
            words.store.map_or_else(Vec::new, |store| (0..files).map(|at| store(number(at))).collect())
        };
        let commands = |nth: u16| match attack.commands {
            Commands::None => Vec::new(),
            Commands::LogIn => words.log_in.clone(),
            Commands::LogInAndAsk => [&words.log_in[..], &ask].concat(),
            Commands::LogInAndList => [words.log_in.clone(), repeated(&words.list)].concat(),
            Commands::LogInAndDigest => [words.log_in.clone(), repeated(&words.digest)].concat(),
            Commands::LogInAndStore => [words.log_in.clone(), store(nth)].concat(),
            Commands::LogInAndQuit => [&words.log_in[..], &words.quit].concat(),
            Commands::LogInAskAndQuit => [&words.log_in[..], &ask, &words.quit].concat(),
        };
        let mut number = || u32::from_le_bytes(random.seed()[..4].try_into().expect("four bytes"));
        let peers = (0..attack.associations).map(|nth| {
            let (tag, tsn) = (number(), number());
            Peer::new(PORT_MIN + nth, target.port, (tag, tsn), commands(nth), &attack)
        });
        let peers = peers.collect();
        let (turn, outbox, next_at, stopped, sent) = (0, VecDeque::new(), Time::ZERO, false, 0);
        Self { attack, target, peers, turn, outbox, next_at, stopped, random, sent }
    }

    /// Sends nothing from now on, not even responses.
    pub fn stop(&mut self) {
        self.stopped = true;
        self.outbox.clear();
    }

    /// The number of its associations that are established and whose commands were acknowledged.
    pub fn active(&self) -> usize {
        self.peers.iter().filter(|peer| peer.is_active()).count()
    }

    /// The number of its associations that the server ended or rejected.
    pub fn over(&self) -> usize {
        self.peers.iter().filter(|peer| peer.is_over()).count()
    }

    /// Bytes of uploads that the server acknowledged, if the attack uploads.
    pub fn uploaded(&self) -> Option<u64> {
        let uploads = matches!(self.attack.says, Behaviour::Uploads { .. });
        uploads.then(|| self.peers.iter().map(Peer::uploaded).sum())
    }

    /// Bytes of data accepted from the server.
    pub fn taken(&self) -> u64 {
        self.peers.iter().map(Peer::taken).sum()
    }

    /// The number of packets sent.
    pub fn packets_sent(&self) -> u64 {
        self.sent
    }

    fn source(&self, index: usize) -> SocketAddr {
        self.target.from[index / usize::from(self.attack.from_one_address)]
    }

    fn datagram(&self, from: SocketAddr, payload: Bytes) -> Datagram {
        Datagram { from, to: self.target.server, ecn: Ecn::NotEct, payload }
    }

    /// Returns the next packet of an association with something to send.
    fn speak(&mut self, now: Time) -> Option<Datagram> {
        if let Some(flood) = self.attack.flood {
            return Some(self.forge(flood));
        }
        for _ in 0..self.peers.len() {
            let index = self.turn;
            self.turn = (self.turn + 1) % self.peers.len();
            if let Some(payload) = self.peers[index].speak(now, self.attack.says) {
                return Some(self.datagram(self.source(index), payload));
            }
        }
        None
    }

    fn forge(&mut self, flood: Flood) -> Datagram {
        let seed = self.random.seed();
        let number = |at: usize| u32::from_le_bytes(seed[at..at + 4].try_into().expect("four bytes"));
        let (chunk, tag) = match flood {
            Flood::Inits => {
                let init = Init {
                    initiate_tag: VerificationTag(number(0).max(1)),
                    a_rwnd: 100_000,
                    outbound_streams: 2,
                    inbound_streams: 2,
                    initial_tsn: Tsn(number(4)),
                    parameters: Vec::new(),
                };
                (Chunk::Init(init), VerificationTag(0))
            }
            Flood::Cookies => {
                (Chunk::CookieEcho(Bytes::from([seed; 6].concat())), VerificationTag(number(0).max(1)))
            }
            Flood::Strays => (stray(number(4)), VerificationTag(number(0).max(1))),
        };
        let source_port = (number(8) as u16).max(1);
        let mut builder = PacketBuilder::new();
        builder
            .begin(Header { source_port, destination_port: self.target.port, tag }, PacketBuilder::MAX_BYTES);
        builder.push(&chunk);
        builder.seal();
        let payload = builder.finish().expect("a packet was sealed").payload;
        self.datagram(self.target.from[0], payload)
    }
}

/// A chunk that its receiver takes for one of an association.
fn stray(number: u32) -> Chunk {
    match number % 3 {
        0 => Chunk::Data(peer::whole(Tsn(number), StreamId(0), Bytes::from_static(&[0x5a; 1_000]))),
        1 => Chunk::Sack(Sack { cum_tsn_ack: Tsn(number), a_rwnd: number, ..Sack::default() }),
        _ => Chunk::ShutdownAck,
    }
}

impl Actor for Attacker {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        if self.stopped {
            return;
        }
        let Ok(packet) = Packet::decode_observed(datagram.payload) else { return };
        let port = packet.header.destination_port;
        let Some(index) = usize::from(port.wrapping_sub(PORT_MIN)).checked_rem(self.peers.len()) else {
            return;
        };
        let peer = &mut self.peers[index];
        if peer.port() != port {
            return;
        }
        if let Some(answer) = peer.handle(now, &packet) {
            let answer = self.datagram(self.source(index), answer);
            self.outbox.push_back(answer);
        }
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        if self.stopped {
            return Output::Wait(None);
        }
        if let Some(answer) = self.outbox.pop_front() {
            self.sent += 1;
            return Output::Send(answer);
        }
        if now < self.next_at {
            return Output::Wait(Some(self.next_at));
        }
        match self.speak(now) {
            Some(datagram) => {
                let between = Duration::from_nanos(1_000_000_000 / u64::from(self.attack.packets_a_second));
                let late = now.since(self.next_at).min(BEHIND_MAX);
                self.next_at = now + between - late.min(between);
                if late > between {
                    self.next_at = now;
                }
                self.sent += 1;
                Output::Send(datagram)
            }
            None => {
                self.next_at = now + IDLE;
                Output::Wait(Some(self.next_at))
            }
        }
    }
}
