//! Many SCTP ports over one lower layer: finds the association of a datagram (RFC 9260 §8.5), creates
//! associations (§5.1, §5.2), and answers other packets (§8.4).
//!
//! An INIT is answered without keeping state: until a valid COOKIE ECHO arrives, all state is in the cookie
//! at the peer. Chunks of an association are processed by [`Association`]; the endpoint reads handshake
//! chunks only.

mod admission;
mod answers;
mod cookie_echo;
mod dtls;
mod fair_queue;
mod icmp;
mod init;
mod memory;
mod ootb;
mod table;
#[cfg(test)]
mod tests;
pub(crate) mod turns;
mod waiting;

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use bytes::Bytes;
use rand_chacha::ChaCha12Rng;
use rand_core::{Rng, SeedableRng};

use self::admission::Admission;
use self::answers::Answers;
use self::dtls::{FinalChunks, Pool};
pub use self::icmp::Icmp;
use self::memory::Memory;
use self::ootb::Budget;
use self::table::{Known, Slot, Table};
use self::waiting::{Echo, HandshakeTurn, Waiting};
use crate::association::{Association, Event, Setup, Transmit, in_scope, pair_up};
use crate::config::Config;
use crate::cookie::{Keys, TieTags};
use crate::error::{ConnectError, ListenError};
use crate::ids::{AssociationId, Tsn, VerificationTag};
use crate::route::{Route, is_unicast};
use crate::stats::Phase;
use crate::wire::{Chunk, Init, Kinds, Packet, WireError};

/// Limits on what peers can make an endpoint hold or send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// The maximum number of associations in any state. 65,536. Beyond it, an INIT is rejected with Out
    /// of Resource.
    pub associations: usize,
    /// The maximum number of associations opened from one IPv4 address or one IPv6 /64, in any state,
    /// including closed ones that were not removed with [`Endpoint::remove`]. Unlimited. Beyond it, the
    /// half-open one that was silent longest is aborted; if there is none, an INIT is rejected with Out
    /// of Resource.
    pub associations_per_address: usize,
    /// The maximum number of half-open associations: opened by a peer without a call of
    /// [`Association::admit`], if [`memory.unadmitted_receive_buffer_bytes`](crate::Config::memory) is
    /// set. Unlimited. Beyond it, one is aborted: the one with the largest product of its silence and
    /// the number of half-open ones of its network.
    pub half_open: usize,
    /// The maximum memory of all associations in bytes, by [`Association::memory_bytes`]. Unlimited: the
    /// driver knows how much memory there is. Each association may always use an equal share, and more
    /// while less than three quarters of the total are used; beyond that its receive window closes, it
    /// drops received data, and its send buffer is full. If shares exceed the limit, associations above
    /// their share are aborted, first those that have held the most for the longest time.
    pub memory_bytes: usize,
    /// The maximum number of queued responses to packets without an association. 256. Beyond it, they
    /// are dropped.
    pub answers: usize,
    /// The maximum number of INIT ACKs per second (§5.1). 10,000, and half of that to any single
    /// network; if others use up all of them, a 256th to each group of networks. Beyond it, INITs are
    /// dropped.
    pub init_acks: u32,
    /// The maximum number of associations per second that peers begin with protection, whose handshake costs
    /// about half a millisecond. 400. Beyond it, their COOKIE ECHOs wait, and networks (an IPv4 /24, an
    /// IPv6 /56) are served in turn, and in each of them addresses.
    pub handshakes: u32,
    /// The maximum number of COOKIE ECHOs that wait for that. 128, of 4 KiB at most. Beyond it, the newest
    /// one of the network and the address that have the most is dropped, as if lost.
    pub waiting_handshakes: usize,
    /// The maximum number of responses per second to packets without an association (§8.4). 200. Beyond
    /// it, such packets are dropped.
    pub out_of_the_blue: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            associations: 65_536,
            associations_per_address: usize::MAX,
            half_open: usize::MAX,
            memory_bytes: usize::MAX,
            answers: 256,
            init_acks: 10_000,
            handshakes: 400,
            waiting_handshakes: 128,
            out_of_the_blue: 200,
        }
    }
}

/// Counters of packets that were not passed to an association.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Datagrams that are not SCTP packets, or have a wrong checksum.
    pub invalid: u64,
    /// Packets with a wrong tag, address or bundling for their association (§8.5).
    pub discarded: u64,
    /// Packets for SCTP ports of other stacks ([`Sharing::WithOthers`]).
    pub of_others: u64,
    /// Packets without an association (§8.4).
    pub out_of_the_blue: u64,
    /// INIT chunks.
    pub inits: u64,
    /// Invalid state cookies, or cookies of an association that has ended.
    pub forged_cookies: u64,
    /// State cookies that had expired.
    pub stale_cookies: u64,
    /// Responses dropped because of [`Limits`].
    pub answers_dropped: u64,
    /// COOKIE ECHOs dropped because of [`Limits::waiting_handshakes`].
    pub handshakes_dropped: u64,
    /// Associations rejected because of [`Limits::associations_per_address`].
    pub refused_by_address: u64,
    /// Half-open associations aborted in favour of others.
    pub half_open_aborted: u64,
    /// Associations rejected or aborted because of [`Limits::memory_bytes`].
    pub out_of_memory: u64,
    /// Records of protected associations that were discarded: malformed, forged, or of an unknown epoch.
    /// Replayed ones do not count: networks duplicate packets.
    pub unopened_records: u64,
}

/// Parameters of [`Endpoint::connect`].
#[derive(Debug, Clone)]
pub struct Connect {
    /// Local addresses with their UDP encapsulation ports; the first one is tried first.
    pub local: Vec<SocketAddr>,
    /// The peer's addresses with their UDP encapsulation ports; the first one is tried first.
    pub peer: Vec<SocketAddr>,
    /// The local SCTP port; `None`: a free port.
    pub source_port: Option<u16>,
    /// The peer's SCTP port.
    pub destination_port: u16,
    /// The configuration.
    pub config: Arc<Config>,
}

impl Connect {
    /// Connects to these addresses of a peer, the first one first, with defaults for everything else:
    /// the driver's local addresses, a free port, and RFC 9260's values.
    pub fn to(peer: impl IntoIterator<Item = SocketAddr>, destination_port: u16) -> Self {
        Self {
            local: Vec::new(),
            peer: peer.into_iter().collect(),
            source_port: None,
            destination_port,
            config: Arc::default(),
        }
    }
}

/// To which peers an endpoint lists its addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Announce {
    /// To every peer.
    Always,
    /// To peers that list several addresses of their own: for addresses that happen to exist, since some
    /// peers reject any list.
    ToMultihomed,
}

/// Whether other SCTP stacks receive packets on an endpoint's addresses.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sharing {
    /// No other stack does, so packets without an association are answered as RFC 9260 §8.4 requires.
    /// Correct over UDP, where a UDP port belongs to one endpoint.
    Alone,
    /// Other stacks do, as with raw sockets. Packets for SCTP ports on which this endpoint neither
    /// listens nor has or recently had an association belong to them, and a response would end their
    /// associations. An INIT to a port without a listener is not answered.
    WithOthers,
}

/// Many SCTP ports over one lower layer, and their associations.
#[derive(Debug)]
pub struct Endpoint {
    limits: Limits,
    sharing: Sharing,
    /// The addresses that INIT ACKs list, if there are several.
    addresses: Vec<SocketAddr>,
    announce: Announce,
    listeners: BTreeMap<u16, Arc<Config>>,
    table: Table,
    memory: Memory,
    answers: Answers,
    budget: Budget,
    admission: Admission,
    waiting: Waiting,
    /// Which of two sources of packets is polled next.
    turn: Turn,
    keys: Keys,
    rng: ChaCha12Rng,
    counters: Counters,
    /// Memory for opened protected packets.
    opened: Pool,
    /// The final chunks of protected associations.
    final_chunks: FinalChunks,
}

/// The dynamic ports (RFC 6335 §6).
const EPHEMERAL_PORTS: std::ops::RangeInclusive<u16> = 49_152..=65_535;

impl Endpoint {
    /// Creates an endpoint without listeners or associations. Tags, TSNs, nonces and the cookie key are
    /// derived from `seed`, which must be random if peers are not trusted.
    pub fn new(seed: [u8; 32]) -> Self {
        Self::with_limits(seed, Limits::default())
    }

    /// Like [`Endpoint::new`], with other limits.
    pub fn with_limits(seed: [u8; 32], limits: Limits) -> Self {
        let mut rng = ChaCha12Rng::from_seed(seed);
        let keys = Keys::new(next_seed(&mut rng));
        let secret = rng.next_u64().to_be_bytes();
        Self {
            limits,
            sharing: Sharing::Alone,
            addresses: Vec::new(),
            announce: Announce::Always,
            listeners: BTreeMap::new(),
            table: Table::default(),
            memory: Memory::new(limits.memory_bytes),
            answers: Answers::new(limits.answers),
            budget: Budget::new(limits.out_of_the_blue),
            admission: Admission::new(limits.init_acks, secret),
            waiting: Waiting::new(limits.handshakes, limits.waiting_handshakes),
            turn: Turn::Answers,
            keys,
            rng,
            counters: Counters::default(),
            opened: Pool::default(),
            final_chunks: FinalChunks::default(),
        }
    }

    /// Sets the local addresses, with their UDP encapsulation ports, at which peers of accepted
    /// associations can reach this endpoint besides the destination of their INIT. If there are several,
    /// INIT ACKs list them (RFC 9260 §5.1.2).
    pub fn set_addresses(&mut self, addresses: Vec<SocketAddr>, announce: Announce) {
        self.addresses = addresses;
        self.announce = announce;
    }

    /// Sets whether other SCTP stacks receive packets on these addresses. Default: they do not.
    pub fn set_sharing(&mut self, sharing: Sharing) {
        self.sharing = sharing;
    }

    /// Accepts associations on an SCTP port with this configuration.
    pub fn listen(&mut self, port: u16, config: Arc<Config>) -> Result<(), ListenError> {
        if port == 0 {
            return Err(ListenError::PortZero);
        }
        match self.listeners.entry(port) {
            //= specs/rfc9260.txt#section-1.3
            //# A transport address used by an SCTP endpoint MUST NOT be used by
            //# another SCTP endpoint.
            std::collections::btree_map::Entry::Occupied(_) => Err(ListenError::InUse),
            std::collections::btree_map::Entry::Vacant(vacant) => {
                vacant.insert(config.within_bounds());
                Ok(())
            }
        }
    }

    /// Stops accepting associations on an SCTP port. Existing associations continue.
    pub fn unlisten(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Starts an association. [`Endpoint::poll`] returns its INIT; messages may be sent at once.
    pub fn connect(&mut self, now: Time, connect: Connect) -> Result<AssociationId, ConnectError> {
        let Connect { local, peer, source_port, destination_port, config } = connect;
        let config = config.within_bounds();
        if local.is_empty() || peer.is_empty() {
            return Err(ConnectError::NoAddress);
        }
        if !peer.iter().all(|peer| is_unicast(peer.ip())) {
            return Err(ConnectError::NotUnicast);
        }
        //= specs/rfc9260.txt#section-3.1
        //# The Source Port Number 0 MUST NOT be used.
        //= specs/rfc9260.txt#section-3.1
        //# The Destination Port Number 0 MUST NOT be used.
        if destination_port == 0 || source_port == Some(0) {
            return Err(ConnectError::PortZero);
        }
        if self.table.len() >= self.limits.associations {
            return Err(ConnectError::TooMany);
        }
        if pair_up(&local, &peer, None, &config).is_empty() {
            return Err(ConnectError::NoPath);
        }
        //= specs/rfc9260.txt#section-1.3
        //# Two SCTP endpoints MUST NOT have more than one SCTP association
        //# between them at any given time.
        let free = |table: &Table, port: u16| {
            peer.iter().all(|peer| table.by_address(port, destination_port, *peer).is_none())
        };
        let local_port = match source_port {
            Some(port) if free(&self.table, port) => port,
            Some(_) => return Err(ConnectError::InUse),
            None => {
                let count = u32::from(EPHEMERAL_PORTS.end() - EPHEMERAL_PORTS.start()) + 1;
                let first = self.rng.next_u32() % count;
                (0..count)
                    .map(|step| EPHEMERAL_PORTS.start() + ((first + step) % count) as u16)
                    .find(|port| !self.listeners.contains_key(port) && free(&self.table, *port))
                    .ok_or(ConnectError::NoPortLeft)?
            }
        };
        let setup = Setup {
            config: Arc::clone(&config),
            local_port,
            peer_port: destination_port,
            local,
            peer: peer.clone(),
            tag: self.new_tag(),
            //= specs/rfc9260.txt#section-3.3.2
            //# The valid range is from 0 to 4294967295 and the Initial TSN SHOULD be
            //# set to a random value in that range.
            initial_tsn: Tsn(self.rng.next_u32()),
            seed: next_seed(&mut self.rng),
        };
        let known = Known {
            config,
            local_port,
            peer_port: destination_port,
            tag: setup.tag,
            initial_tsn: setup.initial_tsn,
            tie_tags: self.new_tie_tags(),
            cookie_until: None,
        };
        let id = self.table.insert(known, |id| Association::connect(now, id, setup));
        self.map_paths(id);
        if let Some(slot) = self.table.get_mut(id) {
            (slot.progress_at, slot.heard_at) = (now, now);
        }
        self.count_memory(now, id);
        Ok(id)
    }

    /// Processes a datagram that arrived at `now`. Drain [`Endpoint::poll`] afterwards.
    pub fn handle(&mut self, now: Time, datagram: Datagram) {
        let Datagram { from, to, ecn, payload } = datagram;
        let route = Route { local: to, peer: from };
        let packet = match self.decode(from, payload) {
            // An SCTP port is never 0 (§3.1).
            Ok(packet) if packet.header.source_port != 0 && packet.header.destination_port != 0 => packet,
            _ => {
                self.counters.invalid += 1;
                return;
            }
        };
        let (header, mut kinds) = (packet.header, packet.kinds());
        if self.sharing == Sharing::WithOthers && !self.owns(now, header.destination_port) {
            self.counters.of_others += 1;
            return;
        }
        let mut packet = packet;
        if kinds.has_dtls() {
            match self.unprotect(route, packet, kinds) {
                Some(opened) => packet = opened,
                None => {
                    self.counters.discarded += 1;
                    return;
                }
            }
            kinds = packet.kinds();
        }
        //= specs/rfc9260.txt#section-5.1
        //# An INIT or INIT ACK chunk MUST NOT be bundled with any other chunk.
        //# They MUST be the only chunks present in the SCTP packets that carry
        //# them.
        //= specs/rfc9260.txt#section-12.3
        //# Accordingly, we stress the requirements, as stated in Section 3.1,
        //# that (1) an INIT chunk MUST NOT be bundled with any other chunk in a
        //# packet and (2) a packet containing an INIT chunk MUST have a zero
        //# Verification Tag.
        if kinds.bundles_init() {
            self.counters.discarded += 1;
        } else if kinds.contains(Init::KIND) && header.tag != VerificationTag(0) {
            //= specs/rfc9260.txt#section-12.3
            //# The receiver of an INIT chunk MUST silently discard the INIT chunk and
            //# all further chunks if the INIT chunk is bundled with other chunks or
            //# the packet has a non-zero Verification Tag.
            self.counters.discarded += 1;
        } else if header.tag == VerificationTag(0) {
            //= specs/rfc9260.txt#section-8.5.1
            //# When an endpoint receives an SCTP packet with the Verification
            //# Tag set to 0, it SHOULD verify that the packet contains only an
            //# INIT chunk.  Otherwise, the receiver MUST silently discard the
            //# packet.
            if kinds.is_only(Init::KIND) {
                //= specs/rfc9260.txt#section-8.4
                //# If the packet contains an INIT chunk with a Verification Tag set to 0,
                //# it SHOULD be processed as described in Section 5.1.
                self.on_init(now, route, &packet);
            } else {
                self.counters.discarded += 1;
            }
        } else if kinds.begins_with(Chunk::COOKIE_ECHO) {
            //= specs/rfc9260.txt#section-8.4
            //# If the packet contains a COOKIE ECHO chunk as the first chunk, it MUST
            //# be processed as described in Section 5.1.
            self.on_cookie_echo(now, Echo { route, ecn, packet }, HandshakeTurn::Needed);
        } else {
            match self.destination(&packet, kinds, from) {
                Destination::Association(id) => self.deliver(now, id, route, ecn, packet),
                Destination::OutOfTheBlue => self.on_out_of_the_blue(now, route, &header, kinds, &packet),
                Destination::Discard => self.counters.discarded += 1,
            }
        }
    }

    /// Decodes a packet. It needs a correct checksum, unless [`Self::is_guarded`] holds.
    fn decode(&self, from: SocketAddr, payload: Bytes) -> Result<Packet, WireError> {
        if !Packet::has_zero_checksum(&payload) {
            return Packet::decode(payload);
        }
        let packet = Packet::decode_without_checksum(payload)?;
        if self.is_guarded(from, &packet) { Ok(packet) } else { packet.checked() }
    }

    /// Whether errors in a packet are detected without its checksum: its tag is that of an association that accepts such
    /// packets and announced it in INIT or INIT ACK (RFC 9653 §5.3), or agreed on it for records. Packets that may start an
    /// association, or have none, need a checksum.
    fn is_guarded(&self, from: SocketAddr, packet: &Packet) -> bool {
        let kinds = packet.kinds();
        if kinds.contains(Init::KIND) || kinds.contains(Chunk::COOKIE_ECHO) {
            return false;
        }
        // The source address of a record does not matter.
        if kinds.is_dtls_alone() {
            return self
                .table
                .by_tag(&packet.header)
                .is_some_and(|slot| slot.association.takes_zero_checksum(kinds));
        }
        let Destination::Association(id) = self.destination(packet, kinds, from) else { return false };
        let slot = self.table.get(id).filter(|slot| slot.known.tag == packet.header.tag);
        slot.is_some_and(|slot| slot.association.takes_zero_checksum(kinds))
    }

    /// Returns a packet to send, an event, or the latest time of the next poll.
    pub fn poll(&mut self, now: Time) -> Output<Transmit, (AssociationId, Event)> {
        self.table.wake(now);
        while let Some(echo) = self.waiting.next(now) {
            self.on_cookie_echo(now, echo, HandshakeTurn::Taken);
        }
        self.settle_memory(now);
        self.sweep_memory(now);
        // Responses and transmissions of associations alternate, so that a flood of requests does not
        // delay associations.
        if self.turn == Turn::Answers
            && let Some(transmit) = self.answers.next()
        {
            self.turn = Turn::Associations;
            return Output::Send(transmit);
        }
        self.turn = Turn::Answers;
        while let Some(slot) = self.table.next_ready() {
            let id = slot.id;
            match slot.association.poll(now) {
                // Sent data stays in memory, and is counted once everything permitted is sent.
                Output::Send(transmit) => {
                    if slot.association.has_shut_down_protected() {
                        self.final_chunks.keep(now, slot.known.tag, &transmit.payload);
                    }
                    self.table.ready(id);
                    return Output::Send(transmit);
                }
                Output::Event(event) => {
                    self.count_memory(now, id);
                    let forgotten = self.table.get(id).is_none_or(Slot::is_forgotten);
                    self.settle(now, id);
                    self.table.ready(id);
                    if !forgotten {
                        return Output::Event((id, event));
                    }
                }
                Output::Wait(when) => {
                    self.count_memory(now, id);
                    self.settle(now, id);
                    if let Some(gone) = self.table.wait(now, id, when) {
                        self.memory.forget(gone.memory_bytes);
                    }
                }
            }
        }
        match self.answers.next() {
            Some(transmit) => Output::Send(transmit),
            None => {
                let wakes = [self.table.next_wake(), self.memory.next_sweep(), self.waiting.due()];
                Output::Wait(wakes.into_iter().flatten().min())
            }
        }
    }

    /// Returns how long the peer of an association has sent nothing that belongs to it.
    pub fn silence(&self, now: Time, id: AssociationId) -> Option<Duration> {
        self.table.get(id).map(|slot| now.since(slot.heard_at))
    }

    /// Returns an association until it is removed.
    pub fn association(&self, id: AssociationId) -> Option<&Association> {
        self.table.get(id).filter(|slot| !slot.is_forgotten()).map(|slot| &slot.association)
    }

    /// Returns an association to send, receive, shut down or abort. Drain [`Endpoint::poll`] afterwards.
    pub fn association_mut(&mut self, id: AssociationId) -> Option<&mut Association> {
        self.table.ready(id);
        // The memory that the user's operations take is counted at the next input.
        self.memory.touch(id, &mut self.table);
        self.table.get_mut(id).filter(|slot| !slot.is_forgotten()).map(|slot| &mut slot.association)
    }

    /// Removes an association, aborting it if it has not ended. A closed association stays readable
    /// until then.
    //= specs/rfc9260.txt#section-9
    //# An endpoint SHOULD terminate its association when it exits from
    //# service.
    pub fn remove(&mut self, id: AssociationId) {
        let Some(slot) = self.table.get_mut(id) else { return };
        if slot.association.phase() != Phase::Closed {
            slot.association.abort(bytes::Bytes::new());
        }
        // Its pending ABORT or SHUTDOWN COMPLETE is sent first.
        slot.forget();
        self.table.ready(id);
    }

    /// Returns the counters of packets that were not passed to an association.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The number of associations, including closed ones that were not removed.
    pub fn len(&self) -> usize {
        self.table.len()
    }

    /// The memory of all associations in bytes; see [`Association::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.table.memory_bytes()
    }

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// The number of half-open associations, as in [`Limits::half_open`].
    pub fn half_open(&self) -> usize {
        self.table.half_open().count()
    }

    /// The number of associations opened from an address, as in [`Limits::associations_per_address`].
    pub fn associations_of(&self, address: IpAddr) -> usize {
        self.table.opened_from(address)
    }

    /// Whether there is no association.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The number of entries in each table, for tests of their limits.
    #[cfg(test)]
    fn footprint(&self) -> table::Footprint {
        table::Footprint { answers: self.answers.len(), ..self.table.footprint() }
    }

    /// Whether packets for this SCTP port are for this endpoint, if other stacks share the addresses.
    fn owns(&self, now: Time, port: u16) -> bool {
        self.listeners.contains_key(&port) || self.table.has_port(now, port)
    }

    /// Finds the destination of a packet by ports, tag and address; not for INIT and COOKIE ECHO.
    fn destination(&self, packet: &Packet, kinds: Kinds, from: SocketAddr) -> Destination {
        let header = &packet.header;
        let handshaking =
            |slot: &Slot| matches!(slot.association.phase(), Phase::CookieWait | Phase::CookieEchoed);
        //= specs/rfc9260.txt#section-8.5
        //# When receiving an SCTP packet, the endpoint MUST ensure that the value
        //# in the Verification Tag field of the received SCTP packet matches its
        //# own tag.
        //= specs/rfc9260.txt#section-9.1
        //# An endpoint receiving an ABORT chunk MUST apply the special
        //# Verification Tag check rules described in Section 8.5.1.
        if let Some(slot) = self.table.by_tag(header) {
            // With the T bit the tag is not the receiver's. A source that is not an address of the
            // association means a stolen tag, a changed NAT mapping, or a packet sent before its address
            // was deleted: an ABORT would end a live association.
            if kinds.reflected() || !(slot.knows(from.ip()) || may_add_address(packet, kinds, slot)) {
                //= specs/rfc5061.txt#section-5.3
                //# It MAY drop the data silently or it MAY consider it part of the
                //# association, but it MUST NOT respond with an ABORT.
                return Destination::Discard;
            }
            //= specs/rfc9260.txt#section-8.5.1
            //# If the receiver is in COOKIE-ECHOED or COOKIE-WAIT state, the
            //# procedures in Section 8.4 SHOULD be followed; in other words,
            //# it is treated as an OOTB packet.
            //= specs/rfc9260.txt#section-9.2
            //# The sender of the INIT or COOKIE ECHO chunk SHOULD respond to the
            //# receipt of a SHUTDOWN ACK chunk with a stand-alone SHUTDOWN COMPLETE
            //# chunk in an SCTP packet with the Verification Tag field of its common
            //# header set to the same tag that was received in the packet containing
            if kinds.contains(Chunk::SHUTDOWN_ACK) && handshaking(slot) {
                return Destination::OutOfTheBlue;
            }
            //= specs/rfc5061.txt#section-5.3
            //# This means that any datagrams that arrive before the ASCONF-ACK
            //# destined to the IP address being deleted MUST be considered part of
            //# the current association.
            //= specs/rfc5061.txt#section-5.3
            //# The endpoint MUST NOT source data from this new address until the
            //# ASCONF-ACK arrives, but it may receive out-of- order data as
            //# illustrated and MUST NOT treat this data as an OOTB datagram (please
            //# see [RFC4960] section 8.4).
            return Destination::Association(slot.id);
        }
        match self.table.by_address(header.destination_port, header.source_port, from) {
            //= specs/rfc5061.txt#section-5.2
            //# D3)  If neither D1, D2, nor D2-ext locates the association, treat the
            //# chunk as an Out Of The Blue packet as defined in [RFC4960].
            // If the addresses match, the tag is wrong (D4).
            None if self.is_of_known_address(packet, kinds, from) => Destination::Discard,
            None => Destination::OutOfTheBlue,
            //= specs/rfc9260.txt#section-8.5.1
            //# The receiver of an ABORT chunk MUST accept the packet if the
            //# Verification Tag field of the packet matches its own tag and
            //# the T bit is not set OR if it is set to its Peer's Tag and the
            //# T bit is set in the Chunk Flags.  Otherwise, the receiver MUST
            //# silently discard the packet and take no further action.
            Some(slot)
                if kinds.reflected()
                    && (kinds.is_only(Chunk::ABORT) || kinds.is_only(Chunk::SHUTDOWN_COMPLETE))
                    && slot.association.peer_tag() == Some(header.tag) =>
            {
                Destination::Association(slot.id)
            }
            Some(slot) if kinds.contains(Chunk::SHUTDOWN_ACK) && handshaking(slot) => {
                Destination::OutOfTheBlue
            }
            //= specs/rfc9260.txt#section-8.5
            //# If the received Verification Tag value does not
            //# match the receiver's own tag value, the receiver MUST silently
            //# discard the packet and MUST NOT process it any further, except for
            //# those cases listed in Section 8.5.1 below.
            //= specs/rfc9260.txt#section-8.5.1
            //# Otherwise, the receiver MUST silently discard the packet and take no
            //# further action.
            Some(_) => Destination::Discard,
        }
    }

    /// Whether an ASCONF from an unknown address names an address of an association.
    fn is_of_known_address(&self, packet: &Packet, kinds: Kinds, from: SocketAddr) -> bool {
        let leads = |ip| {
            let peer = SocketAddr::new(ip, from.port());
            let header = &packet.header;
            self.table.by_address(header.destination_port, header.source_port, peer).is_some()
        };
        kinds.has_asconf() && asconf_addresses(packet).any(leads)
    }

    fn deliver(&mut self, now: Time, id: AssociationId, route: Route, ecn: Ecn, packet: Packet) {
        self.memory.now = now;
        self.memory.touch(id, &mut self.table);
        let Some(slot) = self.table.get_mut(id) else { return };
        slot.heard_at = now;
        // An INIT ACK may list addresses, and any packet may come from another encapsulation port than
        // before.
        let learns = slot.association.phase() == Phase::CookieWait || !slot.is_mapped_from(route.peer);
        slot.association.handle(now, route, ecn, packet);
        if learns {
            self.map_paths(id);
        }
        self.settle(now, id);
        self.table.ready(id);
    }

    /// Maps exactly the addresses of an association's paths to it.
    fn map_paths(&mut self, id: AssociationId) {
        if let Some(slot) = self.table.get(id) {
            let peers: Vec<_> = slot.association.paths().map(|path| path.peer).collect();
            self.table.map(id, &peers);
        }
    }

    /// Updates the table after a packet: changed addresses, a new tag, a closed association.
    //= specs/rfc9260.txt#section-14.2
    //# Note: No "CLOSED" state is illustrated, since, if an association is
    //# "CLOSED", its TCB SHOULD be removed.
    fn settle(&mut self, now: Time, id: AssociationId) {
        // The peer's addresses may have changed.
        if self.table.get_mut(id).is_some_and(|slot| slot.association.take_moved()) {
            self.map_paths(id);
        }
        let Some(association) = self.table.get(id).map(|slot| &slot.association) else { return };
        let (needs_tag, has_ended) = (association.needs_tag(), association.has_sent_final_packet());
        if needs_tag {
            let tag = self.new_tag();
            self.table.retag(now, id, tag, None);
            if let Some(slot) = self.table.get_mut(id) {
                slot.association.renew_tag(tag);
            }
        }
        // Until the final packet is sent, packets are still mapped to the association, which ignores
        // them: otherwise an out-of-the-blue response would be sent first, and the peer would receive an
        // ABORT without the cause.
        if has_ended {
            self.table.unmap(now, id);
        }
    }

    /// Returns the local addresses of an association whose INIT arrived on this route and listed these
    /// addresses besides its source.
    fn addresses_for(&self, route: Route, listed: &[IpAddr]) -> Vec<SocketAddr> {
        let others = match self.announce {
            Announce::ToMultihomed if listed.is_empty() => &[],
            Announce::ToMultihomed | Announce::Always => &self.addresses[..],
        };
        in_scope(std::iter::once(route.local).chain(others.iter().copied()), route.peer.ip())
    }

    fn new_tag(&mut self) -> VerificationTag {
        //= specs/rfc9260.txt#section-5.3.1
        //# A new Verification Tag value MUST be used each time the
        //# endpoint tears down and then reestablishes an association to the same
        //# peer.
        loop {
            let tag = VerificationTag(self.rng.next_u32());
            //= specs/rfc9260.txt#section-3.3.3
            //# The Initiate Tag MUST NOT take the value 0.
            //= specs/rfc9260.txt#section-5.1
            //# Tag_A SHOULD be a random number in the range of 1 to 4294967295 (see
            //# Section 5.3.1 for Tag value selection).
            //= specs/rfc9260.txt#section-5.3.1
            //# Initiate Tag values SHOULD be selected from the range of 1 to 2^32 -
            //# 1.
            if tag != VerificationTag(0) && !self.table.is_taken(tag) {
                return tag;
            }
        }
    }

    fn new_tie_tags(&mut self) -> TieTags {
        let mut nonzero = || self.rng.next_u32().max(1);
        TieTags { local: nonzero(), peer: nonzero() }
    }
}

/// Whether a packet with the right tag from an unknown address may add that address to the association.
//= specs/rfc9260.txt#section-5.1.2
//# D)  An INIT or INIT ACK chunk MUST be treated as belonging to an
//# already established association (or one in the process of being
//# established) if the use of any of the valid address parameters
//# contained within the chunk would identify an existing TCB.
//= specs/rfc5061.txt#section-5.2
//# D2)  If the association is not found, use the address found in the
//# Address Parameter TLV combined with the port number found in the
//# SCTP common header.  If found, proceed to rule D4.
//= specs/rfc5061.txt#section-5.3.2
//# The receiver of such a chunk MUST always first use the source address
//# found in the IP header in looking up the association.
//= specs/rfc5061.txt#section-5.2
//# To properly find the association, the following procedures SHOULD be
//# followed:
fn may_add_address(packet: &Packet, kinds: Kinds, slot: &Slot) -> bool {
    // If it does not name one of its addresses, the tag identifies the association (§4.1.1).
    let known = |ip: IpAddr| ip.is_unspecified() || slot.knows(ip);
    let lists_known = || match packet.chunks().next() {
        Some(Ok(Chunk::InitAck(init_ack))) => init_ack.addresses().any(|ip| slot.knows(ip)),
        _ => false,
    };
    kinds.has_asconf() && slot.association.takes_asconf() && asconf_addresses(packet).any(known)
        || slot.association.phase() == Phase::CookieWait && kinds.is_only(Init::ACK_KIND) && lists_known()
}

/// Iterates over the addresses by which the ASCONF chunks of a packet identify their sender.
fn asconf_addresses(packet: &Packet) -> impl Iterator<Item = IpAddr> {
    packet.chunks().filter_map(|chunk| match chunk {
        Ok(Chunk::Asconf(asconf)) => asconf.address,
        _ => None,
    })
}

/// Which source of packets is polled next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Turn {
    Answers,
    Associations,
}

/// The destination of a packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Destination {
    Association(AssociationId),
    /// No association; a response may be sent (§8.4).
    OutOfTheBlue,
    /// No association, and no response (§8.5).
    Discard,
}

fn next_seed(rng: &mut ChaCha12Rng) -> [u8; 32] {
    let mut seed = [0; 32];
    rng.fill_bytes(&mut seed);
    seed
}
