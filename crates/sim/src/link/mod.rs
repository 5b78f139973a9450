//! A one-way link between two hosts: loss, then a queue, then a rate, then a delay, always in this order.
//!
//! [`Link::handle`] takes datagrams and [`Link::poll`] returns them. A packet lost by the loss model never
//! takes room in the queue or time on the wire, as in Dummynet. When and what comes out depends only on the
//! packets, their times and the seed, never on how often or how late the link is polled. Links do not look
//! into packets.
//!
//! A link has one deadline: its next arrival. What the wire did before is computed, with the right times, at
//! the next call.

mod config;
mod config_error;
mod loss;
mod queue;
mod text;
mod wire;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::hint::black_box;
use std::ops::BitXor;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use bytes::{Bytes, BytesMut};

pub use config::{LinkConfig, Reorder};
pub use config_error::ConfigError;
pub use loss::{GilbertElliott, Loss};
pub use queue::red::{Measure, Slope};
pub use queue::{CoDel, Management, Queue, Red, Signal};
pub use wire::{Bandwidth, Down, OPPORTUNITY_BYTES, Reader, Steps, Trace};

use crate::random::Random;
use loss::Losses;
use queue::{Level, codel, red};
use wire::Opportunity;

/// The most bytes a link holds, queued and in transit, whatever its queue allows: it bounds the memory of a
/// link with a large bandwidth-delay product.
pub const HELD_BYTES_MAX: usize = 256 << 20;

/// The content of a link: a datagram, or a type that contains one.
pub trait HasDatagram: Clone {
    /// The datagram.
    fn datagram(&self) -> &Datagram;
    /// The datagram, to mark or damage it.
    fn datagram_mut(&mut self) -> &mut Datagram;

    /// Whether IP may fragment the datagram.
    fn may_be_fragmented(&self) -> bool {
        false
    }
}

impl HasDatagram for Datagram {
    fn datagram(&self) -> &Datagram {
        self
    }

    fn datagram_mut(&mut self) -> &mut Datagram {
        self
    }
}

/// A link for datagrams, one way.
pub type Link = LinkOf<Datagram>;

/// A one-way link for any type that contains a datagram.
#[derive(Debug)]
pub struct LinkOf<P> {
    config: LinkConfig,
    losses: Losses,
    duplication: Random,
    corruption: Random,
    reordering: Random,
    jittering: Random,
    detection: Random,
    queue: Waiting<P>,
    /// The packet on the wire, and when its last bit is sent.
    wire: Option<(Packet<P>, Time)>,
    /// When the wire takes the next packet, if one waits and the wire is free.
    takes: Time,
    opportunity: Opportunity,
    mean: red::Mean,
    codel: codel::State,
    travelling: Travelling<P>,
    /// The last arrival with jitter: the next one is not earlier.
    jittered: Time,
    counters: Counters,
    log: Option<Vec<Sighting>>,
}

/// The counters of a link. Bytes are those on the wire, the overhead of each packet included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets passed to the link.
    pub packets_in: u64,
    /// Packets that left the link.
    pub packets_out: u64,
    /// Bytes passed to the link.
    pub bytes_in: u64,
    /// Bytes that left the link.
    pub bytes_out: u64,
    /// Packets whose last bit the wire sent.
    pub transmitted: u64,
    /// Packets lost by the loss model.
    pub dropped_loss: u64,
    /// Packets passed to the link while it was down.
    pub dropped_down: u64,
    /// Packets dropped by a full queue.
    pub dropped_queue: u64,
    /// Packets that the queue's management dropped before it was full.
    pub dropped_early: u64,
    /// Packets longer than the MTU.
    pub dropped_mtu: u64,
    /// Bytes of all dropped and lost packets.
    pub dropped_bytes: u64,
    /// Packets marked with congestion experienced.
    pub marked: u64,
    /// Duplicates made.
    pub duplicated: u64,
    /// Bytes of the duplicates.
    pub duplicated_bytes: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets held back.
    pub reordered: u64,
    /// Packets in the link now, queued or in transit.
    pub queued: u64,
    /// The peak of the queue in bytes, the packet on the wire included.
    pub queue_peak_bytes: u64,
}

impl Counters {
    /// Whether every packet is accounted for: `in + duplicated = out + dropped + queued`.
    pub fn is_conserved(&self) -> bool {
        self.packets_in + self.duplicated == self.packets_out + self.dropped() + self.queued
    }

    /// Packets that were passed in and will not come out, for any reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_loss + self.dropped_down + self.dropped_queue + self.dropped_early + self.dropped_mtu
    }

    /// The number of packet events: a packet was passed to the link, its last bit was sent, or it left the
    /// link.
    pub fn packet_events(&self) -> u64 {
        self.packets_in + self.transmitted + self.packets_out
    }
}

/// An event of a packet on a link, as recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sighting {
    /// When.
    pub at: Time,
    /// The event.
    pub what: Fate,
    /// The packet at that time.
    pub datagram: Datagram,
}

/// The events of packets on a link, with the signs of ns-2's traces.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fate {
    /// `+`: the packet was queued, or passed to an idle wire.
    Queued,
    /// `-`: its transmission begins.
    Leaves,
    /// `r`: it leaves the link.
    Arrives,
    /// `d`: it is dropped.
    Dropped(Drop),
}

/// Why a packet is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Drop {
    /// By the loss model.
    Loss,
    /// The link was down.
    Down,
    /// The queue was full.
    Full,
    /// By the queue's management.
    Early,
    /// It was longer than the MTU.
    Mtu,
}

impl Fate {
    /// The sign of ns-2's traces.
    pub fn sign(self) -> char {
        match self {
            Self::Queued => '+',
            Self::Leaves => '-',
            Self::Arrives => 'r',
            Self::Dropped(_) => 'd',
        }
    }
}

/// A packet on the link.
#[derive(Debug)]
struct Packet<P> {
    cargo: P,
    wire_bytes: usize,
    /// The delay in addition to the link's.
    extra_delay: Duration,
    queued_at: Time,
}

/// The queue, first in, first out.
#[derive(Debug)]
struct Waiting<P> {
    packets: VecDeque<Packet<P>>,
    bytes: usize,
    /// The largest packet so far, in bytes.
    largest_bytes: usize,
}

/// Packets in transit.
#[derive(Debug)]
struct Travelling<P> {
    /// Those that arrive in the order in which they were sent: nearly all.
    orderly: VecDeque<Arrival<P>>,
    /// The others, earliest first.
    odd: BinaryHeap<Reverse<Arrival<P>>>,
    bytes: usize,
    /// A sequence number that keeps the order of packets due at the same time.
    sequence: u64,
    /// The number of `orderly` packets already prefetched.
    warmed: usize,
}

/// The number of packets prefetched at once.
const WARMED_AT_ONCE: usize = 16;

#[derive(Debug)]
struct Arrival<P> {
    at: Time,
    sequence: u64,
    wire_bytes: usize,
    cargo: P,
}

impl<P> Arrival<P> {
    fn key(&self) -> (Time, u64) {
        (self.at, self.sequence)
    }
}

impl<P> PartialEq for Arrival<P> {
    fn eq(&self, other: &Self) -> bool {
        self.key() == other.key()
    }
}

impl<P> Eq for Arrival<P> {}

impl<P> PartialOrd for Arrival<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Arrival<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        self.key().cmp(&other.key())
    }
}

impl<P> Travelling<P> {
    fn insert(&mut self, at: Time, wire_bytes: usize, cargo: P) {
        self.bytes += wire_bytes;
        self.sequence += 1;
        let arrival = Arrival { at, sequence: self.sequence, wire_bytes, cargo };
        match self.orderly.back() {
            Some(last) if last.at > at => self.odd.push(Reverse(arrival)),
            _ => self.orderly.push_back(arrival),
        }
    }

    /// The next packet, if it has arrived by now.
    fn take(&mut self, now: Time) -> Option<Arrival<P>> {
        let orderly = self.orderly.front().map(Arrival::key);
        let odd = self.odd.peek().map(|Reverse(arrival)| arrival.key());
        let (first, is_odd) = match (orderly, odd) {
            (None, None) => return None,
            (Some(orderly), Some(odd)) => (orderly.min(odd), odd < orderly),
            (Some(orderly), None) => (orderly, false),
            (None, Some(odd)) => (odd, true),
        };
        if first.0 > now {
            return None;
        }
        let arrival = if is_odd {
            self.odd.pop().map(|Reverse(odd)| odd)
        } else {
            self.warmed = self.warmed.saturating_sub(1);
            self.orderly.pop_front()
        };
        self.bytes -= arrival.as_ref().map_or(0, |arrival| arrival.wire_bytes);
        arrival
    }

    /// Prefetches the next arrivals into the cache: of ten thousand packets in transit none is in a cache.
    /// Several at once, so that the processor waits for all of them together; one by one this was a fifth of
    /// a run's time.
    fn warm(&mut self)
    where
        P: HasDatagram,
    {
        if self.warmed > 0 {
            return;
        }
        let read = |arrival: &Arrival<P>| {
            let Datagram { to, ecn, payload, .. } = arrival.cargo.datagram();
            payload.first().copied().unwrap_or(0) ^ u8::from(to.is_ipv4()) ^ u8::from(*ecn == Ecn::Ce)
        };
        black_box(self.orderly.iter().take(WARMED_AT_ONCE).map(read).fold(0, BitXor::bitxor));
        self.warmed = self.orderly.len().min(WARMED_AT_ONCE);
    }

    fn next(&self) -> Option<Time> {
        let orderly = self.orderly.front().map(|arrival| arrival.at);
        let odd = self.odd.peek().map(|Reverse(arrival)| arrival.at);
        orderly.into_iter().chain(odd).min()
    }

    fn len(&self) -> usize {
        self.orderly.len() + self.odd.len()
    }
}

impl<P: HasDatagram> LinkOf<P> {
    /// Link number `id` of a world with this seed. Its draws depend on these numbers only.
    pub fn new(config: LinkConfig, seed: u64, id: u32) -> Self {
        let random = |purpose: u64| Random::new(seed, u64::from(id) << 8 | purpose);
        Self {
            losses: Losses::new(config.loss.clone(), random(0)),
            duplication: random(1),
            corruption: random(2),
            reordering: random(3),
            detection: random(4),
            jittering: random(5),
            jittered: Time::ZERO,
            config,
            queue: Waiting { packets: VecDeque::new(), bytes: 0, largest_bytes: 0 },
            wire: None,
            takes: Time::ZERO,
            opportunity: Opportunity::default(),
            mean: red::Mean::new(),
            codel: codel::State::default(),
            travelling: Travelling {
                orderly: VecDeque::new(),
                odd: BinaryHeap::new(),
                bytes: 0,
                sequence: 0,
                warmed: 0,
            },
            counters: Counters::default(),
            log: None,
        }
    }

    /// Takes a datagram.
    pub fn handle(&mut self, now: Time, mut cargo: P) {
        self.advance(now);
        let payload_bytes = cargo.datagram().payload.len();
        let whole_bytes = payload_bytes + self.config.overhead_bytes;
        let wire_bytes = match self.config.mtu {
            Some(mtu) if whole_bytes > mtu && cargo.may_be_fragmented() => fragmented(whole_bytes, mtu),
            _ => whole_bytes,
        };
        self.counters.packets_in += 1;
        self.counters.bytes_in += wire_bytes as u64;

        // All draws before any decision, so that each stream advances alike for every packet.
        let lost = self.losses.next_is_lost();
        let duplicate = self.duplication.hits(self.config.duplicate);
        let corrupt = self.corruption.hits(self.config.corrupt);
        let corrupted_bit = self.corruption.below((payload_bytes as u64 * 8).max(1));
        let held_back = self.config.reorder.filter(|reorder| self.reordering.hits(reorder.probability));

        if lost {
            return self.drop(now, Drop::Loss, wire_bytes, cargo);
        }
        if self.config.down.at(now) {
            return self.drop(now, Drop::Down, wire_bytes, cargo);
        }
        if self.config.mtu.is_some_and(|mtu| whole_bytes > mtu) && !cargo.may_be_fragmented() {
            return self.drop(now, Drop::Mtu, wire_bytes, cargo);
        }
        if corrupt && payload_bytes > 0 {
            let payload = &mut cargo.datagram_mut().payload;
            *payload = flipped(payload, corrupted_bit);
            self.counters.corrupted += 1;
        }
        let copy = duplicate.then(|| cargo.clone());
        let extra_delay = held_back.map_or(Duration::ZERO, |reorder| reorder.extra_delay);
        if held_back.is_some() {
            self.counters.reordered += 1;
        }
        self.enqueue(Packet { cargo, wire_bytes, extra_delay, queued_at: now });
        if let Some(cargo) = copy {
            self.counters.duplicated += 1;
            self.counters.duplicated_bytes += wire_bytes as u64;
            self.enqueue(Packet { cargo, wire_bytes, extra_delay: Duration::ZERO, queued_at: now });
        }
    }

    /// Returns the next datagram to leave, or when one may leave.
    pub fn poll(&mut self, now: Time) -> Output<P, Infallible> {
        self.advance(now);
        let Some(arrival) = self.travelling.take(now) else { return Output::Wait(self.next_arrival()) };
        self.counters.queued -= 1;
        self.counters.packets_out += 1;
        self.counters.bytes_out += arrival.wire_bytes as u64;
        self.see(arrival.at, Fate::Arrives, &arrival.cargo);
        self.travelling.warm();
        Output::Send(arrival.cargo)
    }

    /// When a datagram may leave next: none does before.
    pub fn next_arrival(&self) -> Option<Time> {
        let wire = match &self.wire {
            Some((_, leaves)) => Some(*leaves + self.config.delay),
            None if !self.queue.packets.is_empty() => Some(self.takes + self.config.delay),
            None => None,
        };
        self.travelling.next().into_iter().chain(wire).min()
    }

    /// The counters up to the last call.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// The queue length in packets, the packet on the wire included.
    pub fn waiting_packets(&self) -> usize {
        self.queue.packets.len() + usize::from(self.wire.is_some())
    }

    /// The queue length in bytes on the wire, the packet on the wire included.
    pub fn waiting_bytes(&self) -> usize {
        self.queue.bytes + self.wire.as_ref().map_or(0, |(packet, _)| packet.wire_bytes)
    }

    /// RED's mean queue, in the unit of its configuration.
    pub fn mean_queue(&self) -> f64 {
        self.mean.value()
    }

    /// Panics unless every packet is accounted for, by the actual contents and not by the counters.
    pub fn check(&self, number: usize) {
        let counters = self.counters;
        assert!(counters.is_conserved(), "link {number} lost count: {counters:?}");
        let held = (self.waiting_packets() + self.travelling.len()) as u64;
        assert_eq!(counters.queued, held, "link {number} holds other packets than it counted");
        assert_eq!(
            counters.bytes_in + counters.duplicated_bytes,
            counters.bytes_out
                + counters.dropped_bytes
                + (self.waiting_bytes() + self.travelling.bytes) as u64,
            "link {number} lost count of its bytes: {counters:?}"
        );
    }

    /// The properties of the link.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// Changes the properties from now on, as when a link goes down or heals. Packets in the link stay and
    /// leave in order; the packet on the wire leaves when planned.
    pub fn set_config(&mut self, now: Time, config: LinkConfig) {
        self.advance(now);
        self.losses.set_model(config.loss.clone());
        self.config = config;
        if self.wire.is_none() && !self.queue.packets.is_empty() {
            self.takes = self.opportunity.begin(&self.config.rate, now);
        }
    }

    /// Records what happens to each packet from now on, until [`LinkOf::take_record`].
    pub fn record(&mut self) {
        self.log.get_or_insert_default();
    }

    /// The record since the last call, in order of time.
    pub fn take_record(&mut self) -> Vec<Sighting> {
        let mut record = self.log.as_mut().map(std::mem::take).unwrap_or_default();
        record.sort_by_key(|sighting| sighting.at);
        record
    }

    fn enqueue(&mut self, mut packet: Packet<P>) {
        let now = packet.queued_at;
        let (waiting, wire) = (self.queue.packets.len(), usize::from(self.wire.is_some()));
        let waiting_bytes = self.waiting_bytes();
        self.counters.queued += 1;
        // An idle wire takes any packet at once: a packet on the wire is not queued.
        let idle = waiting + wire == 0;
        let room = idle
            || match self.config.queue {
                Queue::Bytes(limit) => waiting_bytes + packet.wire_bytes <= limit,
                Queue::Packets(limit) => waiting + wire < limit,
                Queue::Waiting(limit) => waiting < limit,
            };
        if let Management::Red(red) = self.config.management {
            let level = Level { packets: waiting, bytes: self.queue.bytes };
            // A small packet has 500 bytes, as in ns-2 (`mean_pktsize_`).
            let small = self.config.rate.about(now, 500);
            let verdict = self.mean.verdict(&red, now, level, small, &mut self.detection);
            let marked =
                verdict == red::Verdict::Picked && red.signal == Signal::Mark && self.mark(&mut packet);
            if verdict != red::Verdict::Pass && !marked {
                if idle {
                    self.mean.falls_idle(now);
                }
                return self.discard(now, Drop::Early, packet);
            }
        }
        let held = waiting_bytes + self.travelling.bytes + packet.wire_bytes;
        if !room || held > HELD_BYTES_MAX {
            return self.discard(now, Drop::Full, packet);
        }
        let congested = match self.config.ecn {
            Some(Queue::Bytes(threshold)) => waiting_bytes + packet.wire_bytes > threshold,
            Some(Queue::Packets(threshold)) => waiting + wire >= threshold,
            Some(Queue::Waiting(threshold)) => waiting >= threshold,
            None => false,
        };
        // An idle link has no queue.
        if congested && !idle {
            self.mark(&mut packet);
        }
        self.see(now, Fate::Queued, &packet.cargo);
        let peak = (waiting_bytes + packet.wire_bytes) as u64;
        if idle {
            self.takes = self.opportunity.begin(&self.config.rate, now);
        }
        if self.takes > now || self.config.rate != Bandwidth::Unlimited {
            self.counters.queue_peak_bytes = self.counters.queue_peak_bytes.max(peak);
        }
        self.queue.push(packet);
        self.advance(now);
    }

    /// Marks a packet if it is ECN-capable; returns whether it was marked.
    fn mark(&mut self, packet: &mut Packet<P>) -> bool {
        mark(&mut self.counters, packet)
    }

    /// Advances the wire to `now`: computes what it did, with the right times.
    pub fn advance(&mut self, now: Time) {
        loop {
            if let Some((_, leaves)) = self.wire {
                if leaves > now {
                    return;
                }
                if let Some((packet, leaves)) = self.wire.take() {
                    self.depart(packet, leaves);
                    self.takes = self.opportunity.go_on(&self.config.rate, leaves);
                }
                if self.queue.packets.is_empty() {
                    self.falls_idle(self.takes);
                    return;
                }
            }
            if self.queue.packets.is_empty() || self.takes > now {
                return;
            }
            let at = self.takes;
            match self.next_from_queue(at) {
                Some(packet) => {
                    let leaves = self.opportunity.leaves(&self.config.rate, at, packet.wire_bytes);
                    self.see(at, Fate::Leaves, &packet.cargo);
                    self.wire = Some((packet, leaves));
                }
                None => return self.falls_idle(at),
            }
        }
    }

    fn falls_idle(&mut self, at: Time) {
        self.mean.falls_idle(at);
    }

    /// The next packet for the wire.
    fn next_from_queue(&mut self, at: Time) -> Option<Packet<P>> {
        let Management::CoDel(codel) = self.config.management else { return self.queue.pop() };
        let mut source = Picking {
            now: at,
            signal: codel.signal,
            queue: &mut self.queue,
            counters: &mut self.counters,
            log: &mut self.log,
        };
        self.codel.deque(&codel, at, &mut source)
    }

    fn depart(&mut self, packet: Packet<P>, at: Time) {
        self.counters.transmitted += 1;
        let mut arrives = at + self.config.delay + packet.extra_delay;
        if !self.config.jitter.is_zero() && packet.extra_delay.is_zero() {
            let most = u64::try_from(self.config.jitter.as_nanos()).unwrap_or(u64::MAX - 1);
            arrives = (arrives + Duration::from_nanos(self.jittering.below(most + 1))).max(self.jittered);
            self.jittered = arrives;
        }
        self.travelling.insert(arrives, packet.wire_bytes, packet.cargo);
    }

    /// Drops a packet before it is queued.
    fn drop(&mut self, now: Time, why: Drop, wire_bytes: usize, cargo: P) {
        self.counters.queued += 1;
        self.discard(now, why, Packet { cargo, wire_bytes, extra_delay: Duration::ZERO, queued_at: now });
    }

    fn discard(&mut self, now: Time, why: Drop, packet: Packet<P>) {
        discard(&mut self.counters, &mut self.log, now, why, &packet);
    }

    fn see(&mut self, at: Time, what: Fate, cargo: &P) {
        see(&mut self.log, at, what, cargo);
    }
}

/// The length of a packet in IPv4 fragments for this MTU: each has a header of 20 bytes, and data in units of 8 bytes. A
/// fragmented packet is otherwise treated as one: it is lost, queued and delayed as a whole.
fn fragmented(whole_bytes: usize, mtu: usize) -> usize {
    const HEADER: usize = 20;
    let data = whole_bytes.saturating_sub(HEADER);
    let fragments = data.div_ceil((mtu.saturating_sub(HEADER) & !7).max(8));
    data + fragments * HEADER
}

fn discard<P: HasDatagram>(
    counters: &mut Counters,
    log: &mut Option<Vec<Sighting>>,
    now: Time,
    why: Drop,
    packet: &Packet<P>,
) {
    counters.queued -= 1;
    counters.dropped_bytes += packet.wire_bytes as u64;
    *match why {
        Drop::Loss => &mut counters.dropped_loss,
        Drop::Down => &mut counters.dropped_down,
        Drop::Full => &mut counters.dropped_queue,
        Drop::Early => &mut counters.dropped_early,
        Drop::Mtu => &mut counters.dropped_mtu,
    } += 1;
    see(log, now, Fate::Dropped(why), &packet.cargo);
}

fn mark<P: HasDatagram>(counters: &mut Counters, packet: &mut Packet<P>) -> bool {
    match packet.cargo.datagram().ecn {
        Ecn::NotEct => return false,
        Ecn::Ce => {}
        Ecn::Ect0 | Ecn::Ect1 => {
            packet.cargo.datagram_mut().ecn = Ecn::Ce;
        }
    }
    counters.marked += 1;
    true
}

fn see<P: HasDatagram>(log: &mut Option<Vec<Sighting>>, at: Time, what: Fate, cargo: &P) {
    if let Some(log) = log {
        log.push(Sighting { at, what, datagram: cargo.datagram().clone() });
    }
}

impl<P> Waiting<P> {
    fn push(&mut self, packet: Packet<P>) {
        self.bytes += packet.wire_bytes;
        self.largest_bytes = self.largest_bytes.max(packet.wire_bytes);
        self.packets.push_back(packet);
    }

    fn pop(&mut self) -> Option<Packet<P>> {
        let packet = self.packets.pop_front()?;
        self.bytes -= packet.wire_bytes;
        Some(packet)
    }
}

/// The queue as CoDel accesses it.
struct Picking<'a, P> {
    now: Time,
    signal: Signal,
    queue: &'a mut Waiting<P>,
    counters: &'a mut Counters,
    log: &'a mut Option<Vec<Sighting>>,
}

impl<P: HasDatagram> codel::Source for Picking<'_, P> {
    type Packet = Packet<P>;

    fn pop(&mut self) -> Option<(Packet<P>, Duration, usize)> {
        let packet = self.queue.pop()?;
        let sojourn = self.now.since(packet.queued_at);
        Some((packet, sojourn, self.queue.bytes))
    }

    fn pick(&mut self, mut packet: Packet<P>) -> Option<Packet<P>> {
        if self.signal == Signal::Mark && mark(self.counters, &mut packet) {
            return Some(packet);
        }
        discard(self.counters, self.log, self.now, Drop::Early, &packet);
        None
    }

    fn largest_bytes(&self) -> usize {
        self.queue.largest_bytes
    }
}

fn flipped(payload: &Bytes, bit: u64) -> Bytes {
    let mut bytes = BytesMut::from(&payload[..]);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    bytes.freeze()
}

#[cfg(test)]
mod tests;
