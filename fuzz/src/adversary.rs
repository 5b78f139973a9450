//! Two endpoints and an attacker on the path between them. The attacker sees every packet, and can delay, drop, replay,
//! reorder, alter, splice and forge packets, with valid tags and checksums.
//!
//! Under every attack: no panic; bounded memory; both endpoints become idle after every move; the core's counters are
//! consistent ([`Association::check`]). If the attacker only delays, drops, replays and reorders, all messages are delivered
//! once and in order after it leaves. If it alters packets, but neither DATA nor chunks that open an association or reset its
//! numbers, no delivered message is forged, duplicated or out of order.

mod handshake;

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{
    Announce, Association, AssociationId, AuthConfig, Config, Connect, Endpoint, Event, Message, Order, PathId, PeerMay,
    Piece, Ppid, Profile, Reliability, Scheduler, StreamId, StreamReset, Streams,
};
use bytes::Bytes;

use self::handshake::Trick;
use crate::{HEADER_LEN, datagram, fix_checksum, sealed};

/// The SCTP ports of client and server.
const PORTS: [u16; 2] = [40_000, 21];
/// Maximum number of delayed packets; beyond it the oldest is dropped.
const HELD_MAX: usize = 256;
/// Maximum number of recorded packets.
const SEEN_MAX: usize = 512;
/// Maximum number of moves of a game.
const MOVES_MAX: usize = 300;
/// Maximum number of associations that the client opens.
const LIVES_MAX: u8 = 4;
/// Maximum number of messages of one side.
const MESSAGES_MAX: usize = 200;
/// Maximum number of outputs of the endpoints after one move.
const OUTPUTS_MAX: usize = 20_000;
/// Time limit for both sides to finish without the attacker.
const PATIENCE: Duration = Duration::from_secs(3_600);
/// The number of packets in a row that both sides discard until they are told that the peer has another association.
const DISCARDED_MAX: u32 = 20;
/// The type of the ABORT chunk.
const ABORT: u8 = 6;

/// The input of a run.
#[derive(Debug, Arbitrary)]
pub struct Game {
    setups: [Setup; 2],
    /// Whether each side has a second address.
    addresses: [bool; 2],
    moves: Vec<Move>,
}

/// The configuration of one side.
#[derive(Debug, Arbitrary)]
struct Setup {
    modern: bool,
    small: bool,
    scheduler: u8,
    /// Bit mask of extensions.
    extensions: u8,
    /// The chunk types that must be authenticated.
    authenticated: Option<Vec<u8>>,
}

/// The client or the server.
#[derive(Debug, Clone, Copy, Arbitrary, PartialEq, Eq, PartialOrd, Ord)]
enum Side {
    Client,
    Server,
}

use Side::{Client, Server};

impl Side {
    fn other(self) -> Self {
        if self == Client { Server } else { Client }
    }
}

/// A step of the game.
#[derive(Debug, Arbitrary)]
enum Move {
    /// The oldest delayed packets are delivered, this many.
    Pass(u8),
    /// One delayed packet is delivered before the others.
    Prefer(u8),
    /// One delayed packet is dropped.
    Lose(u8),
    /// A recorded packet is delivered again.
    Replay(u16),
    /// A delayed packet is delivered with changed bytes, from the ports on.
    Alter { which: u8, changes: Vec<(u16, u8)> },
    /// The chunks of one packet are appended to another packet of the same direction.
    Splice { first: u16, second: u16 },
    /// A packet of arbitrary chunks, with the right ports and a tag.
    Forge { to: Side, tag: Tag, chunks: Vec<u8> },
    /// Time passes, in milliseconds.
    Wait(u16),
    /// A side sends a message.
    Send { side: Side, stream: u8, bytes: u16, unordered: bool, reliability: u8 },
    /// A side reads this many pieces.
    Read { side: Side, pieces: u8 },
    Shutdown(Side),
    Abort(Side),
    Primary { side: Side, path: u8 },
    /// A side requests a reset or addition of streams, or a reset of all numbers.
    Reconfigure { side: Side, what: Reconfigure },
    /// A side adds or removes an address, or sets the peer's primary one.
    Address { side: Side, nth: u8, what: Address },
    /// The client connects again, if its association has ended.
    Connect,
    /// An attack on the handshake.
    Trick(Trick),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Reconfigure {
    Outgoing(Option<u8>),
    Incoming(Option<u8>),
    Both,
    All,
    Add(u8, u8),
}

#[derive(Debug, Clone, Copy, Arbitrary)]
enum Address {
    Add,
    Remove,
    Prefer,
}

/// The verification tag of a forged packet.
#[derive(Debug, Clone, Copy, Arbitrary)]
enum Tag {
    /// The tag of the last packet to this side.
    Right,
    /// The tag of the last packet from this side.
    Reflected,
    Zero,
    Any(u32),
}

/// What the attacker has changed so far.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Tampering {
    /// Nothing: packets were delayed, dropped, replayed or reordered.
    No,
    /// Control chunks, but neither DATA nor chunks that set its numbers.
    Control,
    Data,
}

/// One association from the view of its user.
#[derive(Debug, Default)]
struct Talk {
    life: u8,
    peer_life: Option<u8>,
    sent: u32,
    /// The sent messages that must be delivered.
    reliable: BTreeSet<u32>,
    seen: BTreeSet<u32>,
    /// The last ordered message received on each stream.
    last: BTreeMap<u16, u32>,
    partial: BTreeMap<u16, Vec<u8>>,
    /// The messages of either order.
    over: bool,
}

/// A sent message.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Sent {
    stream: u16,
    order: Order,
    payload: Bytes,
}

struct Host {
    side: Side,
    endpoint: Endpoint,
    talks: BTreeMap<AssociationId, Talk>,
    /// The current association.
    id: Option<AssociationId>,
    lives: u8,
    buffer_bytes: usize,
    /// Whether an ABORT is ignored without AUTH.
    authenticates_aborts: bool,
    wake: Option<Time>,
    /// The number of packets that the endpoint has discarded since it last accepted one.
    discarded_in_a_row: u32,
    /// Whether the endpoint had no association when it last became idle.
    was_empty: bool,
}

/// The game: both hosts and the attacker.
struct Table {
    now: Time,
    hosts: [Host; 2],
    held: VecDeque<(Side, Datagram)>,
    seen: VecDeque<(Side, Datagram)>,
    /// The DATA chunks that each side sent, as bytes.
    data: [BTreeSet<Vec<u8>>; 2],
    /// The last tag that each side used.
    tags: [u32; 2],
    /// Bytes of the DATA chunks that each side sent.
    data_bytes: [usize; 2],
    /// Packets delivered to the server since it was last idle.
    delivered: usize,
    sent: BTreeMap<(Side, u8), Vec<Sent>>,
    tampering: Tampering,
    connect: Connect,
}

/// Plays a game, and panics if a property does not hold.
pub fn play(game: &Game) {
    let mut table = Table::new(game);
    table.connect();
    table.settle();
    for one in game.moves.iter().take(MOVES_MAX) {
        table.perform(one);
        table.settle();
    }
    if table.tampering == Tampering::No {
        table.finish();
    }
}

fn config(setup: &Setup) -> Config {
    let base = if setup.modern { Profile::Modern } else { Profile::Rfc9260 }.config();
    let schedulers = [
        Scheduler::RoundRobin,
        Scheduler::FirstComeFirstServed,
        Scheduler::RoundRobinByPacket,
        Scheduler::Priority,
        Scheduler::FairCapacity,
        Scheduler::WeightedFairQueueing,
    ];
    let on = |bit: u8, usual: bool| usual ^ (setup.extensions & bit != 0);
    base.with(|c| {
        c.recovery.early_repair = on(32, c.recovery.early_repair);
        c.recovery.tail_loss_probe = on(64, c.recovery.tail_loss_probe);
        c.handshake.init_interval = c.handshake.init_interval.filter(|_| setup.extensions & 128 == 0);
        c.failover.association_max_retrans = 100_000;
        c.handshake.valid_cookie_life = Duration::from_secs(36_000);
        c.timers.shutdown_guard = Duration::from_secs(36_000);
        c.memory.receive_buffer_bytes = if setup.small { 8_000 } else { 100_000 };
        c.memory.receive_buffer_max_bytes = c.memory.receive_buffer_max_bytes.map(|_| if setup.small { 16_000 } else { 400_000 });
        c.memory.send_buffer_bytes = if setup.small { 8_000 } else { 100_000 };
        c.memory.send_buffer_max_bytes = c.memory.send_buffer_max_bytes.map(|_| if setup.small { 16_000 } else { 400_000 });
        c.messages.interleaving = setup.extensions & 1 != 0;
        c.messages.partial_reliability = setup.extensions & 2 != 0;
        c.streams.reconfiguration = setup.extensions & 4 != 0;
        c.streams.peer_may = PeerMay { reset_streams: true, reset_association: true, add_streams: true };
        c.paths.asconf = setup.extensions & 8 != 0;
        c.congestion.ecn = setup.extensions & 16 != 0;
        c.security.auth = setup.authenticated.as_ref().map(|chunks| AuthConfig {
            chunks: chunks.iter().copied().take(16).collect(),
            ..AuthConfig::default()
        });
        c.messages.scheduler = schedulers[usize::from(setup.scheduler) % schedulers.len()];
    })
}

fn addresses(side: Side, several: bool) -> Vec<SocketAddr> {
    let host = 1 + side as u8;
    (0..1 + u8::from(several)).map(|net| ([10, 0, net, host], 9_899).into()).collect()
}

impl Table {
    fn new(game: &Game) -> Self {
        let mut configs = game.setups.each_ref().map(config);
        // A side that requires authentication rejects a peer that does not support it.
        if configs.iter().any(|config| config.security.auth.is_none()) {
            for config in &mut configs {
                config.security.auth = None;
            }
        }
        let most = |config: &Config| config.memory.receive_buffer_max_bytes.unwrap_or(config.memory.receive_buffer_bytes);
        let buffers = configs.each_ref().map(most);
        let lists_abort = |config: &Config| config.security.auth.as_ref().is_some_and(|auth| auth.chunks.contains(&ABORT));
        let aborts = configs.each_ref().map(lists_abort);
        let [client, server] = configs.map(Arc::new);
        let mut endpoints = [Endpoint::new([1; 32]), Endpoint::new([2; 32])];
        let local = [addresses(Client, game.addresses[0]), addresses(Server, game.addresses[1])];
        endpoints[1].set_addresses(local[1].clone(), Announce::Always);
        endpoints[1].listen(PORTS[1], server).expect("a free port");
        let [own, its] = local;
        let connect = Connect {
            local: own,
            peer: its,
            source_port: Some(PORTS[0]),
            destination_port: PORTS[1],
            config: client,
        };
        let [one, other] = endpoints;
        let host = |side: Side, endpoint| Host {
            side,
            endpoint,
            talks: BTreeMap::new(),
            id: None,
            lives: 0,
            buffer_bytes: buffers[side as usize],
            authenticates_aborts: aborts[side as usize],
            wake: None,
            discarded_in_a_row: 0,
            was_empty: true,
        };
        Self {
            now: Time::ZERO,
            hosts: [host(Client, one), host(Server, other)],
            held: VecDeque::new(),
            seen: VecDeque::new(),
            data: Default::default(),
            tags: [0; 2],
            data_bytes: [0; 2],
            delivered: 0,
            sent: BTreeMap::new(),
            tampering: Tampering::No,
            connect,
        }
    }

    fn connect(&mut self) {
        let host = &mut self.hosts[0];
        if host.id.is_none() && host.lives < LIVES_MAX {
            // The port may still be in use by the previous association.
            if let Ok(id) = host.endpoint.connect(self.now, self.connect.clone()) {
                host.begin(id);
            }
        }
    }

    fn perform(&mut self, one: &Move) {
        match *one {
            Move::Pass(count) => {
                for _ in 0..=count % 16 {
                    let Some((from, packet)) = self.held.pop_front() else { break };
                    self.deliver(from, packet);
                }
            }
            Move::Prefer(which) => {
                if let Some((from, packet)) = self.take(which) {
                    self.deliver(from, packet);
                }
            }
            Move::Lose(which) => {
                self.take(which);
            }
            Move::Replay(which) => {
                if let Some((from, packet)) = self.nth_seen(which) {
                    self.deliver(from, packet);
                }
            }
            Move::Alter { which, ref changes } => {
                let Some((from, packet)) = self.take(which) else { return };
                let mut bytes = packet.payload.to_vec();
                for (at, change) in changes {
                    let at = usize::from(*at) % bytes.len();
                    bytes[at] ^= change;
                }
                if bytes != packet.payload {
                    fix_checksum(&mut bytes);
                    self.tampered(from, &bytes, &packet.payload);
                }
                self.deliver(from, Datagram { payload: bytes.into(), ..packet });
            }
            Move::Splice { first, second } => {
                let (Some((from, one)), Some((also, other))) = (self.nth_seen(first), self.nth_seen(second)) else {
                    return;
                };
                if from != also {
                    return;
                }
                let mut bytes = one.payload.to_vec();
                bytes.resize(bytes.len().next_multiple_of(4), 0);
                bytes.extend_from_slice(&other.payload[HEADER_LEN..]);
                bytes.truncate(65_000);
                fix_checksum(&mut bytes);
                self.tampered(from, &bytes, &[]);
                self.deliver(from, Datagram { payload: bytes.into(), ..one });
            }
            Move::Forge { to, tag, ref chunks } => {
                let from = to.other();
                let tag = match tag {
                    Tag::Right => self.tags[from as usize],
                    Tag::Reflected => self.tags[to as usize],
                    Tag::Zero => 0,
                    Tag::Any(tag) => tag,
                };
                let ports = if from == Client { PORTS } else { [PORTS[1], PORTS[0]] };
                let chunks = &chunks[..chunks.len().min(9_000)];
                let bytes = sealed(ports, tag, chunks);
                self.tampered(from, &bytes, &[]);
                let (own, its) = (self.connect.local[0], self.connect.peer[0]);
                let (source, target) = if from == Client { (own, its) } else { (its, own) };
                self.deliver(from, datagram(source, target, bytes));
            }
            Move::Wait(ms) => self.now += Duration::from_millis(ms.into()),
            Move::Send { side, stream, bytes, unordered, reliability } => {
                let order = if unordered { Order::Unordered } else { Order::Ordered };
                let reliability = match reliability {
                    0..=63 => Reliability::Retransmissions((reliability % 4).into()),
                    64..=127 => Reliability::Lifetime(Duration::from_millis(u64::from(reliability) * 20)),
                    128..=159 => Reliability::Priority((reliability % 4).into()),
                    _ => Reliability::Full,
                };
                self.send(side, stream % 5, bytes.into(), order, reliability);
            }
            Move::Read { side, pieces } => self.read(side, pieces.into()),
            Move::Shutdown(side) => {
                if let Some(association) = self.hosts[side as usize].association() {
                    association.shutdown();
                }
            }
            Move::Abort(side) => {
                if let Some(association) = self.hosts[side as usize].association() {
                    association.abort(Bytes::from_static(b"enough"));
                }
            }
            Move::Primary { side, path } => {
                if let Some(association) = self.hosts[side as usize].association() {
                    let _ = association.set_primary(PathId(path % 3));
                }
            }
            Move::Reconfigure { side, what } => {
                let now = self.now;
                let Some(association) = self.hosts[side as usize].association() else { return };
                let streams = |which: Option<u8>| match which {
                    None => Streams::All,
                    Some(stream) => Streams::These(vec![StreamId((stream % 6).into())]),
                };
                let reset = |outgoing, incoming| StreamReset { outgoing, incoming };
                let _ = match what {
                    Reconfigure::Outgoing(which) => association.reset_streams(reset(Some(streams(which)), None)),
                    Reconfigure::Incoming(which) => association.reset_streams(reset(None, Some(streams(which)))),
                    Reconfigure::Both => association.reset_streams(reset(Some(Streams::All), Some(Streams::All))),
                    Reconfigure::All => association.reset_association(now),
                    Reconfigure::Add(outgoing, incoming) => association.add_streams(outgoing.into(), incoming.into()),
                };
            }
            Move::Address { side, nth, what } => {
                let address = addresses(side, true)[usize::from(nth % 2)];
                let Some(association) = self.hosts[side as usize].association() else { return };
                let _ = match what {
                    Address::Add => association.add_address(address),
                    Address::Remove => association.remove_address(address),
                    Address::Prefer => association.set_peer_primary(address),
                };
            }
            Move::Connect => self.connect(),
            Move::Trick(ref trick) => self.play_trick(trick),
        }
    }

    fn take(&mut self, which: u8) -> Option<(Side, Datagram)> {
        let index = usize::from(which) % self.held.len().max(1);
        self.held.remove(index)
    }

    fn nth_seen(&self, which: u16) -> Option<(Side, Datagram)> {
        self.seen.get(usize::from(which) % self.seen.len().max(1)).cloned()
    }

    /// Records a packet that differs from what `from` sent.
    fn tampered(&mut self, from: Side, bytes: &[u8], original: &[u8]) {
        let own = &self.data[from as usize];
        // Copies of sent DATA and I-DATA are not forged, unless the numbers were reset.
        let harmless = |chunk: &[u8]| match chunk[0] {
            0 | 64 => own.contains(chunk),
            // INIT, INIT ACK, COOKIE ECHO; RE-CONFIG, FORWARD-TSN, ASCONF, I-FORWARD-TSN.
            1 | 2 | 10 | 130 | 192 | 193 | 194 => false,
            _ => true,
        };
        // If the chunks are unchanged, the header may be changed: the packet may have another destination.
        let same_chunks = original.get(HEADER_LEN..) == Some(&bytes[HEADER_LEN..]);
        let only_control = same_chunks || chunks(bytes).all(harmless);
        let level = if only_control { Tampering::Control } else { Tampering::Data };
        self.tampering = self.tampering.max(level);
    }

    fn deliver(&mut self, from: Side, packet: Datagram) {
        self.delivered += usize::from(from == Client);
        let host = &mut self.hosts[from.other() as usize];
        let before = host.endpoint.counters().discarded;
        host.endpoint.handle(self.now, packet);
        let is_discarded = host.endpoint.counters().discarded > before;
        host.discarded_in_a_row = if is_discarded { host.discarded_in_a_row + 1 } else { 0 };
    }

    fn send(&mut self, side: Side, stream: u8, bytes: usize, order: Order, reliability: Reliability) {
        let host = &mut self.hosts[side as usize];
        let Some(id) = host.id else { return };
        let Some(talk) = host.talks.get_mut(&id) else { return };
        let number = talk.sent;
        let mut payload = vec![side as u8, talk.life];
        payload.extend_from_slice(&number.to_be_bytes());
        payload.extend((0..bytes % 20_000).map(|at| (at ^ (at >> 8) ^ number as usize) as u8));
        let payload = Bytes::from(payload);
        let life = talk.life;
        let Some(association) = host.endpoint.association_mut(id) else { return };
        let message =
            Message { payload: payload.clone(), order, reliability, ..Message::new(Ppid(number), Bytes::new()) };
        if number as usize >= MESSAGES_MAX || association.send(StreamId(stream.into()), message).is_err() {
            return;
        }
        talk.sent += 1;
        if reliability == Reliability::Full {
            talk.reliable.insert(number);
        }
        self.sent.entry((side, life)).or_default().push(Sent { stream: stream.into(), order, payload });
    }

    fn read(&mut self, side: Side, pieces: usize) {
        let host = &mut self.hosts[side as usize];
        let Some(id) = host.id else { return };
        host.read(id, pieces, &self.sent, self.tampering);
    }

    /// Delivers the outputs of both sides until they are idle, and checks them.
    fn settle(&mut self) {
        for side in [Client, Server] {
            let host = &mut self.hosts[side as usize];
            let (mut outputs, mut packets, mut bytes) = (0, 0, 0);
            loop {
                outputs += 1;
                assert!(outputs < OUTPUTS_MAX, "{side:?} talks without end");
                match host.endpoint.poll(self.now) {
                    Output::Send(transmit) => {
                        let size = transmit.segment_size.unwrap_or(transmit.payload.len()).max(1);
                        let mut rest = transmit.payload;
                        while !rest.is_empty() {
                            let payload = rest.split_to(size.min(rest.len()));
                            (packets, bytes) = (packets + 1, bytes + payload.len());
                            let data = || chunks(&payload).filter(|c| matches!(c[0], 0 | 64));
                            self.data[side as usize].extend(data().map(<[u8]>::to_vec));
                            self.data_bytes[side as usize] += data().map(<[u8]>::len).sum::<usize>();
                            self.tags[side as usize] =
                                u32::from_be_bytes(payload[4..8].try_into().expect("a header has a tag"));
                            let packet = Datagram {
                                from: transmit.from,
                                to: transmit.to,
                                ecn: transmit.ecn,
                                payload,
                            };
                            self.seen.push_back((side, packet.clone()));
                            self.held.push_back((side, packet));
                            if self.seen.len() > SEEN_MAX {
                                self.seen.pop_front();
                            }
                            if self.held.len() > HELD_MAX {
                                self.held.pop_front();
                            }
                        }
                    }
                    Output::Event((id, event)) => host.on_event(id, event, &self.sent, self.tampering),
                    Output::Wait(wake) => {
                        host.wake = wake;
                        break;
                    }
                }
            }
            host.check();
            if side == Server {
                self.check_unverified(packets, bytes);
            }
        }
    }

    /// The attacker leaves: delayed packets are delivered, and both sides shut down.
    fn finish(&mut self) {
        let end = self.now + PATIENCE;
        let mut asked = false;
        loop {
            self.settle();
            for side in [Client, Server] {
                self.read(side, usize::MAX);
            }
            self.settle();
            if !self.held.is_empty() {
                self.now += Duration::from_millis(1);
                for (from, packet) in std::mem::take(&mut self.held) {
                    self.deliver(from, packet);
                }
                continue;
            }
            if self.hosts.iter().all(|host| host.id.is_none()) {
                return;
            }
            // A peer that lost the association has no keys (RFC 4895 §6.3): an ABORT that must be authenticated is ignored, and
            // since this test lifts the limits of retransmission, only the user ends the association.
            let alone = |side: &Side| self.is_left_alone(*side) || self.are_strangers();
            if let Some(left) = [Client, Server].into_iter().find(alone)
                && let Some(association) = self.hosts[left as usize].association()
            {
                association.abort(Bytes::from_static(b"nobody is there"));
                continue;
            }
            if !asked && self.all_arrived() {
                asked = true;
                // A side without the association is unknown to the other until a HEARTBEAT or a message is sent.
                for side in [Client, Server] {
                    if let Some(association) = self.hosts[side as usize].association() {
                        association.shutdown();
                    }
                }
                continue;
            }
            let next = self.hosts.iter().filter_map(|host| host.wake).min();
            match next.filter(|next| *next < end) {
                Some(next) => self.now = self.now.max(next),
                None => panic!("it does not end: {:?}", self.hosts.each_ref().map(Host::describe)),
            }
        }
    }

    /// Whether this side has an association that the peer has lost and cannot abort.
    fn is_left_alone(&self, side: Side) -> bool {
        let (own, other) = (&self.hosts[side as usize], &self.hosts[side.other() as usize]);
        own.authenticates_aborts && own.id.is_some() && other.id.is_none()
    }

    /// Whether both sides have an association, but not the same one, so that each discards what the other sends (RFC 9260 §8.5): an
    /// ABORT was lost, and a COOKIE ECHO arrived late that the client had given up.
    fn are_strangers(&self) -> bool {
        self.hosts.iter().all(|host| host.id.is_some() && host.discarded_in_a_row >= DISCARDED_MAX)
    }

    /// Whether all messages were delivered in the associations that both sides have.
    fn all_arrived(&self) -> bool {
        let [one, other] = self.hosts.each_ref().map(|host| host.id.and_then(|id| host.talks.get(&id)));
        let (Some(one), Some(other)) = (one, other) else { return true };
        other.reliable.is_subset(&one.seen) && one.reliable.is_subset(&other.seen)
    }
}

impl Host {
    fn begin(&mut self, id: AssociationId) {
        self.talks.insert(id, Talk { life: self.lives, ..Talk::default() });
        self.lives = self.lives.wrapping_add(1);
        self.id = Some(id);
    }

    fn association(&mut self) -> Option<&mut Association> {
        self.endpoint.association_mut(self.id?)
    }

    fn on_event(
        &mut self,
        id: AssociationId,
        event: Event,
        sent: &BTreeMap<(Side, u8), Vec<Sent>>,
        tampering: Tampering,
    ) {
        match event {
            Event::Accepted => self.begin(id),
            Event::Restarted => {
                assert!(tampering == Tampering::Data || self.side == Server, "a client's peer does not restart");
                self.begin(id);
            }
            Event::Closed(_) => {
                self.read(id, usize::MAX, sent, tampering);
                if let Some(talk) = self.talks.get_mut(&id) {
                    talk.over = true;
                }
                self.endpoint.remove(id);
                if self.id == Some(id) {
                    self.id = None;
                }
            }
            _ => {}
        }
    }

    fn read(
        &mut self,
        id: AssociationId,
        pieces: usize,
        sent: &BTreeMap<(Side, u8), Vec<Sent>>,
        tampering: Tampering,
    ) {
        let Some(association) = self.endpoint.association_mut(id) else { return };
        let Some(talk) = self.talks.get_mut(&id) else { return };
        for _ in 0..pieces {
            let Some(stream) = association.readable() else { return };
            let piece = association.recv(stream).expect("what is readable gives something");
            talk.take(self.side, stream, piece, sent, tampering);
        }
    }

    /// Checks the invariants of an idle state.
    fn check(&mut self) {
        assert!(self.endpoint.len() <= MOVES_MAX + 2, "{} associations", self.endpoint.len());
        for id in self.talks.iter().filter(|(_, talk)| !talk.over).map(|(id, _)| *id) {
            let Some(association) = self.endpoint.association(id) else { continue };
            association.check();
            let stats = association.stats();
            let most = 2 * self.buffer_bytes + 65_536;
            assert!(stats.unread_bytes <= most, "{} bytes unread of {most}", stats.unread_bytes);
            assert!(stats.a_rwnd <= self.buffer_bytes);
        }
    }

    fn describe(&self) -> String {
        let stats = self.id.and_then(|id| self.endpoint.association(id)).map(Association::stats);
        format!("{:?}: {:?} {stats:?}", self.side, self.id.and_then(|id| self.talks.get(&id)))
    }
}

impl Talk {
    fn take(
        &mut self,
        side: Side,
        stream: StreamId,
        piece: Piece,
        sent: &BTreeMap<(Side, u8), Vec<Sent>>,
        tampering: Tampering,
    ) {
        if tampering == Tampering::Data {
            return;
        }
        if piece.aborted {
            // The sender has abandoned the rest.
            self.partial.remove(&stream.0);
            return;
        }
        let so_far = self.partial.entry(stream.0).or_default();
        assert_eq!(piece.begin, so_far.is_empty(), "pieces of one message follow each other");
        piece.payload.iter().for_each(|part| so_far.extend_from_slice(part));
        if !piece.end {
            return;
        }
        let message = std::mem::take(so_far);
        let from = side.other();
        assert!(message.len() >= 6 && message[0] == from as u8, "{side:?} got what was never sent: {message:?}");
        let life = message[1];
        assert_eq!(*self.peer_life.get_or_insert(life), life, "messages of two lives in one association");
        let number = u32::from_be_bytes(message[2..6].try_into().expect("four bytes"));
        let original = sent.get(&(from, life)).and_then(|sent| sent.get(number as usize));
        let this = Sent { stream: stream.0, order: piece.order, payload: message.into() };
        assert!(original == Some(&this), "{side:?} got {this:?} for {original:?}");
        assert_eq!(piece.ppid, Ppid(number));
        assert!(self.seen.insert(number), "{side:?} got {number} of stream {} twice", stream.0);
        if piece.order == Order::Ordered {
            let last = self.last.insert(stream.0, number);
            assert!(last.is_none_or(|last| last < number), "{number} came after {last:?} on stream {}", stream.0);
        }
    }
}

/// The chunks of a packet as bytes, without padding. The last one may be truncated.
fn chunks(packet: &[u8]) -> impl Iterator<Item = &[u8]> {
    let mut rest = packet.get(HEADER_LEN..).unwrap_or_default();
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_be_bytes([*rest.get(2)?, *rest.get(3)?])).max(4).min(rest.len());
        let chunk = &rest[..length];
        rest = &rest[length.next_multiple_of(4).min(rest.len())..];
        Some(chunk)
    })
}
