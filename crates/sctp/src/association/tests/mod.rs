//! Two endpoints, a clock, and links with configurable faults.

mod asconf;
mod auth;
mod compact_sack;
mod data;
mod dtls;
mod early;
mod ecn;
mod everything;
mod failover;
mod interleaving;
mod liar;
mod lifecycle;
mod lossy;
mod multihoming;
mod nr_sack;
mod pacing;
mod partial;
mod path_use;
mod peers;
mod pmtu;
mod reordering;
mod reset;
mod settings;
mod traps;
mod undo;
mod zero_checksum;

use std::collections::{BTreeMap, BTreeSet};
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Rate, Time};
use bytes::Bytes;

use crate::association::{Association, Event, Message, Reason, Split};
use crate::config::Config;
use crate::endpoint::{Announce, Connect, Endpoint};
use crate::ids::{AssociationId, Ppid, StreamId};
use crate::packet_builder::PacketBuilder;
use crate::profile::Profile;
use crate::wire::{Chunk, Data, Header, Packet, Sack};

/// The port that the server listens on.
const PORT: u16 = 5_000;
/// The propagation delay of a packet.
const LATENCY: Duration = Duration::from_millis(10);
/// Bytes that UDP and IPv4 add to a packet.
const CARRIER_BYTES: usize = 28;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Side {
    Client,
    Server,
}

use Side::{Client, Server};

/// A deterministic pseudo-random number generator.
#[derive(Debug, Clone)]
struct Dice(u64);

impl Dice {
    fn roll(&mut self, sides: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % sides
    }

    /// Returns true with a probability of `per_mille` in a thousand.
    fn falls(&mut self, per_mille: u64) -> bool {
        self.roll(1_000) < per_mille
    }
}

/// Decides whether a packet is lost, given its sender, its number at that sender, and the packet.
type Drop = Box<dyn FnMut(Side, usize, &Packet) -> bool>;

/// Two endpoints and the packets in flight between them.
struct Pair {
    now: Time,
    client: Endpoint,
    server: Endpoint,
    client_id: AssociationId,
    server_id: Option<AssociationId>,
    under_way: BTreeMap<(Time, u64), Datagram>,
    client_addresses: Vec<SocketAddr>,
    server_addresses: Vec<SocketAddr>,
    /// Addresses from and to which all packets are lost.
    cut: BTreeSet<IpAddr>,
    /// The source address of a side's packets, if it differs from that of their path.
    disguise: [Option<SocketAddr>; 2],
    sent: [usize; 2],
    total: u64,
    dice: Dice,
    /// The MTU of the link.
    carries: Option<usize>,
    /// The MTU of the links from and to an address.
    narrow: BTreeMap<IpAddr, usize>,
    /// The numbers of packets that were too large: dropped, and fragmented by IP.
    whole_only: usize,
    cut_by_ip: usize,
    /// The ways in which packets permitted fragmentation.
    splits: BTreeSet<u8>,
    /// Random loss, in packets per thousand.
    loss: u64,
    duplication: u64,
    reordering: u64,
    drop: Option<Drop>,
    latency: Duration,
    /// The rate of the link, each way.
    rate: Option<Rate>,
    /// The longest time that a packet waits for the link; a longer wait drops it.
    queue: Duration,
    /// The wait from which ECN-capable packets are marked.
    mark_at: Duration,
    /// The numbers of packets that were marked, and that the queue dropped.
    marked: usize,
    overflowed: usize,
    /// When the link becomes idle, each way.
    busy: [Time; 2],
    client_events: Vec<Event>,
    server_events: Vec<Event>,
    /// The header of the client's last packet.
    last_header: Option<Header>,
    /// All sent packets, lost ones included.
    log: Vec<(Time, Side, Packet)>,
    /// The ECN field of each packet of the log.
    ecns: Vec<Ecn>,
    /// The source and destination of each packet of the log.
    routes: Vec<(SocketAddr, SocketAddr)>,
    /// Whether readable data is read at once.
    reads: bool,
    /// The messages that were read, by reader and stream.
    client_read: BTreeMap<u16, Vec<Vec<u8>>>,
    server_read: BTreeMap<u16, Vec<Vec<u8>>>,
    partial: BTreeMap<(bool, u16), Vec<u8>>,
}

fn client_address() -> SocketAddr {
    "127.0.0.1:9001".parse().unwrap()
}

fn server_address() -> SocketAddr {
    "127.0.0.1:9002".parse().unwrap()
}

fn rfc() -> Config {
    Profile::Rfc9260.config()
}

fn modern() -> Config {
    Profile::Modern.config()
}

/// The same with RFC 9260's congestion control, which halves the window at every loss.
fn modern_halving() -> Config {
    modern().with(|c| c.congestion.control = braidftp_cc::Kind::Sctp)
}

/// The same with limits so high that no peer is given up, for tests on bad links.
fn patient(mut config: Config) -> Config {
    config.handshake.max_init_retransmits = 1_000;
    config.failover.association_max_retrans = 1_000;
    config.timers.shutdown_guard = Duration::from_secs(100_000);
    config.timers.rto.max = Duration::from_secs(5);
    config
}

impl Pair {
    /// Creates a pair that has sent nothing.
    fn new(config: Config) -> Self {
        Self::with(config.clone(), config)
    }

    fn with(client_config: Config, server_config: Config) -> Self {
        Self::between([vec![client_address()], vec![server_address()]], client_config, server_config)
    }

    /// Creates a pair that has sent nothing, with these addresses of client and server, which both sides know.
    fn between(addresses: [Vec<SocketAddr>; 2], client_config: Config, server_config: Config) -> Self {
        let [client_addresses, server_addresses] = addresses;
        let mut client = Endpoint::new([1; 32]);
        let mut server = Endpoint::new([2; 32]);
        server.set_addresses(server_addresses.clone(), Announce::Always);
        server.listen(PORT, Arc::new(server_config)).unwrap();
        let connect = Connect {
            local: client_addresses.clone(),
            peer: server_addresses.clone(),
            source_port: None,
            destination_port: PORT,
            config: Arc::new(client_config),
        };
        let client_id = client.connect(Time::ZERO, connect).unwrap();
        Self {
            now: Time::ZERO,
            client,
            server,
            client_id,
            server_id: None,
            under_way: BTreeMap::new(),
            client_addresses,
            server_addresses,
            cut: BTreeSet::new(),
            disguise: [None; 2],
            sent: [0; 2],
            total: 0,
            dice: Dice(0x9E37_79B9_7F4A_7C15),
            carries: None,
            narrow: BTreeMap::new(),
            whole_only: 0,
            cut_by_ip: 0,
            splits: BTreeSet::new(),
            loss: 0,
            duplication: 0,
            reordering: 0,
            drop: None,
            latency: LATENCY,
            rate: None,
            queue: Duration::MAX,
            mark_at: Duration::MAX,
            marked: 0,
            overflowed: 0,
            busy: [Time::ZERO; 2],
            client_events: Vec::new(),
            server_events: Vec::new(),
            last_header: None,
            log: Vec::new(),
            routes: Vec::new(),
            ecns: Vec::new(),
            reads: true,
            client_read: BTreeMap::new(),
            server_read: BTreeMap::new(),
            partial: BTreeMap::new(),
        }
    }

    /// Creates an established association.
    fn up(config: Config) -> Self {
        let mut pair = Self::new(config);
        pair.run(Duration::from_millis(100));
        assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
        pair.clear_log();
        pair
    }

    fn clear_log(&mut self) {
        self.log.clear();
        self.routes.clear();
        self.ecns.clear();
    }

    fn seeded(mut self, seed: u64) -> Self {
        self.dice = Dice(seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        self
    }

    fn association(&mut self, side: Side) -> &mut Association {
        match side {
            Client => self.client.association_mut(self.client_id).unwrap(),
            Server => self.server.association_mut(self.server_id.expect("accepted")).unwrap(),
        }
    }

    fn send(&mut self, side: Side, stream: u16, payload: impl Into<Bytes>) {
        let message = Message::new(Ppid(0), payload);
        self.association(side).send(StreamId(stream), message).unwrap();
    }

    fn events(&self, side: Side) -> &[Event] {
        match side {
            Client => &self.client_events,
            Server => &self.server_events,
        }
    }

    fn closed(&self, side: Side) -> Option<&Reason> {
        self.events(side).iter().find_map(|event| match event {
            Event::Closed(reason) => Some(reason),
            _ => None,
        })
    }

    fn read(&self, side: Side, stream: u16) -> Vec<Vec<u8>> {
        let read = if side == Client { &self.client_read } else { &self.server_read };
        read.get(&stream).cloned().unwrap_or_default()
    }

    /// Reads all readable data of a side.
    fn read_all(&mut self, side: Side) {
        let is_client = side == Client;
        if side == Server && self.server_id.is_none() {
            return;
        }
        while let Some(stream) = self.association(side).readable() {
            let piece = self.association(side).recv(stream).unwrap();
            let so_far = self.partial.entry((is_client, stream.0)).or_default();
            assert_eq!(piece.begin, so_far.is_empty(), "pieces of one message follow each other");
            assert!(!piece.aborted || piece.end);
            so_far.extend(piece.payload.concat());
            if piece.aborted {
                so_far.clear();
            } else if piece.end {
                let message = std::mem::take(so_far);
                let read = if is_client { &mut self.client_read } else { &mut self.server_read };
                read.entry(stream.0).or_default().push(message);
            }
        }
    }

    /// Polls one side until it waits; returns when it wants to be polled again.
    fn drain(&mut self, side: Side) -> Option<Time> {
        loop {
            let output = match side {
                Client => self.client.poll(self.now),
                Server => self.server.poll(self.now),
            };
            match output {
                Output::Send(transmit) => {
                    let split = transmit.split;
                    for datagram in transmit.into_datagrams() {
                        self.splits.insert(split as u8);
                        self.carry(side, datagram, split);
                    }
                }
                Output::Event((id, event)) => {
                    if event == Event::Accepted {
                        self.server_id = Some(id);
                    }
                    match side {
                        Client => self.client_events.push(event),
                        Server => self.server_events.push(event),
                    }
                    if self.reads {
                        self.read_all(side);
                    }
                }
                Output::Wait(when) => return when,
            }
        }
    }

    /// Puts a datagram on the link.
    fn carry(&mut self, side: Side, mut datagram: Datagram, split: Split) {
        if let Some(disguise) = self.disguise[side as usize] {
            datagram.from = disguise;
        }
        let packet = Packet::decode_observed(datagram.payload.clone()).expect("what leaves is well-formed");
        let nth = self.sent[side as usize];
        self.sent[side as usize] += 1;
        let dropped = self.drop.as_mut().is_some_and(|drop| drop(side, nth, &packet));
        if side == Client {
            self.last_header = Some(packet.header);
        }
        self.log.push((self.now, side, packet));
        self.ecns.push(datagram.ecn);
        self.routes.push((datagram.from, datagram.to));
        let dropped =
            dropped || self.cut.contains(&datagram.from.ip()) || self.cut.contains(&datagram.to.ip());
        let ends = [datagram.from.ip(), datagram.to.ip()];
        let carries = ends.iter().filter_map(|ip| self.narrow.get(ip)).chain(&self.carries).min();
        let too_large = carries.is_some_and(|carries| datagram.payload.len() > *carries);
        self.whole_only += usize::from(too_large && split != Split::Allowed);
        self.cut_by_ip += usize::from(too_large && split == Split::Allowed);
        let dropped = dropped || (too_large && split != Split::Allowed);
        let copies = if self.dice.falls(self.duplication) { 2 } else { 1 };
        for _ in 0..copies {
            if dropped || self.dice.falls(self.loss) {
                continue;
            }
            let late = if self.dice.falls(self.reordering) {
                Duration::from_micros(self.dice.roll(20_000))
            } else {
                Duration::ZERO
            };
            let busy = &mut self.busy[side as usize];
            *busy = self.now.max(*busy);
            if busy.since(self.now) > self.queue {
                self.overflowed += 1;
                continue;
            }
            if busy.since(self.now) > self.mark_at && datagram.ecn != Ecn::NotEct {
                datagram.ecn = Ecn::Ce;
                self.marked += 1;
            }
            if let Some(rate) = self.rate {
                *busy += rate.transmit_time(datagram.payload.len() + CARRIER_BYTES);
            }
            self.total += 1;
            self.under_way.insert((*busy + self.latency + late, self.total), datagram.clone());
        }
    }

    /// Advances to the next event, if it is before `end`.
    fn step(&mut self, end: Time) -> bool {
        let wakes = [self.drain(Client), self.drain(Server)];
        let arrival = self.under_way.keys().next().map(|key| key.0);
        let next = wakes.into_iter().flatten().chain(arrival).min();
        let Some(next) = next.filter(|next| *next <= end) else {
            self.now = end;
            return false;
        };
        self.now = self.now.max(next);
        while let Some(entry) = self.under_way.first_entry().filter(|entry| entry.key().0 <= self.now) {
            let datagram = entry.remove();
            if self.server_addresses.contains(&datagram.to) {
                self.server.handle(self.now, datagram);
                self.drain(Server);
            } else if self.client_addresses.contains(&datagram.to) {
                self.client.handle(self.now, datagram);
                self.drain(Client);
            }
        }
        // Outputs of a timer must have its time.
        self.drain(Client);
        self.drain(Server);
        true
    }

    fn run(&mut self, how_long: Duration) {
        let end = self.now + how_long;
        while self.step(end) {}
    }

    /// Runs until `done`, for at most an hour; returns whether `done` became true.
    fn run_until(&mut self, done: impl FnMut(&mut Self) -> bool) -> bool {
        self.run_until_within(Duration::from_secs(3_600), done)
    }

    fn run_until_within(&mut self, limit: Duration, mut done: impl FnMut(&mut Self) -> bool) -> bool {
        let end = self.now + limit;
        loop {
            if done(self) {
                return true;
            }
            if !self.step(end) {
                return done(self);
            }
        }
    }

    /// Delivers a packet with these chunks to the server, with the ports and the tag of the client's last packet.
    fn forge(&mut self, chunks: &[Chunk]) {
        let last = self.last_header.expect("the client has sent something");
        let mut builder = PacketBuilder::new();
        builder.begin(last, 1_452);
        chunks.iter().for_each(|chunk| builder.push(chunk));
        builder.seal();
        let payload = builder.finish().expect("a packet was sealed").payload;
        self.forge_bytes(payload);
    }

    fn forge_bytes(&mut self, payload: Bytes) {
        let (from, to) = (client_address(), server_address());
        self.server.handle(self.now, Datagram { from, to, ecn: Ecn::NotEct, payload });
        self.drain(Server);
    }

    /// The packets that one side sent since the log was cleared.
    fn packets(&self, side: Side) -> Vec<Vec<Chunk>> {
        let of_side = self.log.iter().filter(|entry| entry.1 == side);
        of_side.map(|entry| chunks(&entry.2)).collect()
    }

    /// The DATA chunks that one side sent since the log was cleared.
    fn data(&self, side: Side) -> Vec<Data> {
        let chunks = self.packets(side).into_iter().flatten();
        chunks.filter_map(|chunk| if let Chunk::Data(data) = chunk { Some(data) } else { None }).collect()
    }

    /// The SACKs that one side sent since the log was cleared, with their times.
    fn sacks(&self, side: Side) -> Vec<(Time, Sack)> {
        let mut sacks = Vec::new();
        for (at, _, packet) in self.log.iter().filter(|entry| entry.1 == side) {
            for chunk in chunks(packet) {
                if let Chunk::Sack(sack) = chunk {
                    sacks.push((*at, sack));
                }
            }
        }
        sacks
    }
}

fn chunks(packet: &Packet) -> Vec<Chunk> {
    packet.chunks().map(|chunk| chunk.expect("what leaves is well-formed")).collect()
}

fn has(packet: &Packet, kind: u8) -> bool {
    chunks(packet).iter().any(|chunk| chunk.kind() == kind)
}

/// Bytes of a pattern that depends on the position.
fn pattern(len: usize) -> Vec<u8> {
    (0..len).map(|index| (index * 31 + index / 251) as u8).collect()
}
