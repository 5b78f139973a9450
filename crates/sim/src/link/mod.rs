//! What lies between two hosts, one way: loss, then a queue, then a rate, then a delay, always in that order.
//!
//! A [`Link`] is told of datagrams by [`Link::handle`] and drained by [`Link::poll`]. A packet lost here never takes
//! room in the queue or time on the wire, as in Dummynet. When and what comes out depends on the packets, their times and
//! the seed alone, never on how often or how late it is polled. It does not look into packets.

mod config;
mod loss;

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use bytes::{Bytes, BytesMut};

pub use config::{Bandwidth, ConfigError, LinkConfig, Queue, Reorder};
pub use loss::{GilbertElliott, Loss};

use crate::dice::Dice;
use loss::Losses;

/// The most that a link holds, waiting and travelling, whatever its queue allows, in bytes: a long fat one must not
/// eat the memory.
pub const HELD_BYTES_MAX: usize = 256 << 20;

/// What travels over a link: a datagram, or something that has one and knows more.
pub trait Cargo: Clone {
    /// The datagram.
    fn datagram(&self) -> &Datagram;
    /// The datagram, to mark or damage it.
    fn datagram_mut(&mut self) -> &mut Datagram;
}

impl Cargo for Datagram {
    fn datagram(&self) -> &Datagram {
        self
    }

    fn datagram_mut(&mut self) -> &mut Datagram {
        self
    }
}

/// A link for datagrams, one way.
pub type Link = LinkOf<Datagram>;

/// A link, one way, for whatever holds a datagram.
#[derive(Debug)]
pub struct LinkOf<P> {
    config: LinkConfig,
    losses: Losses,
    duplication: Dice,
    corruption: Dice,
    reordering: Dice,
    /// Waiting for the wire; the first one is on it.
    queue: VecDeque<Waiting<P>>,
    queue_bytes: usize,
    /// When the last bit of the first packet in the queue is on its way.
    first_leaves: Option<Time>,
    /// On the way, earliest first.
    travelling: BinaryHeap<Reverse<Travelling<P>>>,
    travelling_bytes: usize,
    /// Numbers packets on the way, so that those due together keep their order.
    sequence: u64,
    counters: Counters,
}

/// What happened on a link so far. Bytes are those on the wire, the overhead of each packet included.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Packets handed to the link.
    pub packets_in: u64,
    /// Packets that came out.
    pub packets_out: u64,
    /// Bytes handed to the link.
    pub bytes_in: u64,
    /// Bytes that came out.
    pub bytes_out: u64,
    /// Packets whose last bit the wire sent.
    pub transmitted: u64,
    /// Packets lost on the way.
    pub dropped_loss: u64,
    /// Packets that the queue had no room for.
    pub dropped_queue: u64,
    /// Packets that got a congestion mark.
    pub marked: u64,
    /// Packets that were too long.
    pub dropped_mtu: u64,
    /// Copies made.
    pub duplicated: u64,
    /// Packets with a flipped bit.
    pub corrupted: u64,
    /// Packets held back so that later ones may overtake them.
    pub reordered: u64,
    /// Packets in the link now, waiting or travelling.
    pub queued: u64,
    /// The most that ever waited, in bytes.
    pub queue_peak_bytes: u64,
}

impl Counters {
    /// Whether every packet is accounted for: `in + duplicated = out + dropped + queued`.
    pub fn is_conserved(&self) -> bool {
        self.packets_in + self.duplicated == self.packets_out + self.dropped() + self.queued
    }

    /// Packets that went in and will not come out, whatever the reason.
    pub fn dropped(&self) -> u64 {
        self.dropped_loss + self.dropped_queue + self.dropped_mtu
    }

    /// Each time that a packet was handed to the link, was on the wire with its last bit, or came out at the far end.
    pub fn packet_events(&self) -> u64 {
        self.packets_in + self.transmitted + self.packets_out
    }
}

#[derive(Debug)]
struct Waiting<P> {
    cargo: P,
    wire_bytes: usize,
    /// Beyond the link's delay.
    extra_delay: Duration,
}

#[derive(Debug)]
struct Travelling<P> {
    arrives: Time,
    sequence: u64,
    wire_bytes: usize,
    cargo: P,
}

impl<P> PartialEq for Travelling<P> {
    fn eq(&self, other: &Self) -> bool {
        self.cmp(other).is_eq()
    }
}

impl<P> Eq for Travelling<P> {}

impl<P> PartialOrd for Travelling<P> {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}

impl<P> Ord for Travelling<P> {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.arrives, self.sequence).cmp(&(other.arrives, other.sequence))
    }
}

impl<P: Cargo> LinkOf<P> {
    /// Link number `id` of a world with this seed. Its draws depend on nothing else.
    pub fn new(config: LinkConfig, seed: u64, id: u32) -> Self {
        let dice = |purpose: u64| Dice::new(seed, u64::from(id) << 8 | purpose);
        Self {
            losses: Losses::new(config.loss.clone(), dice(0)),
            duplication: dice(1),
            corruption: dice(2),
            reordering: dice(3),
            config,
            queue: VecDeque::new(),
            queue_bytes: 0,
            first_leaves: None,
            travelling: BinaryHeap::new(),
            travelling_bytes: 0,
            sequence: 0,
            counters: Counters::default(),
        }
    }

    /// A datagram enters.
    pub fn handle(&mut self, now: Time, mut cargo: P) {
        self.advance(now);
        let payload_bytes = cargo.datagram().payload.len();
        let wire_bytes = payload_bytes + self.config.overhead_bytes;
        self.counters.packets_in += 1;
        self.counters.bytes_in += wire_bytes as u64;

        // All draws before any verdict, so that each stream advances alike for every packet.
        let lost = self.losses.next_is_lost();
        let duplicate = self.duplication.hits(self.config.duplicate);
        let corrupt = self.corruption.hits(self.config.corrupt);
        let corrupted_bit = self.corruption.below((payload_bytes as u64 * 8).max(1));
        let held_back = self.config.reorder.filter(|reorder| self.reordering.hits(reorder.probability));

        if lost {
            self.counters.dropped_loss += 1;
            return;
        }
        if self.config.mtu.is_some_and(|mtu| wire_bytes > mtu) {
            self.counters.dropped_mtu += 1;
            return;
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
        self.enqueue(now, Waiting { cargo, wire_bytes, extra_delay });
        if let Some(cargo) = copy {
            self.counters.duplicated += 1;
            self.enqueue(now, Waiting { cargo, wire_bytes, extra_delay: Duration::ZERO });
        }
    }

    /// What comes out next, or when something may.
    pub fn poll(&mut self, now: Time) -> Output<P, Infallible> {
        self.advance(now);
        if let Some(Reverse(first)) = self.travelling.peek()
            && first.arrives <= now
            && let Some(Reverse(first)) = self.travelling.pop()
        {
            self.travelling_bytes -= first.wire_bytes;
            self.counters.queued -= 1;
            self.counters.packets_out += 1;
            self.counters.bytes_out += first.wire_bytes as u64;
            return Output::Send(first.cargo);
        }
        Output::Wait(self.next_arrival())
    }

    /// What happened so far.
    pub fn counters(&self) -> Counters {
        self.counters
    }

    /// Panics unless every packet is accounted for, by what there is and not by what was counted.
    pub fn check(&self, number: usize) {
        let counters = self.counters;
        assert!(counters.is_conserved(), "link {number} lost count: {counters:?}");
        let held = (self.queue.len() + self.travelling.len()) as u64;
        assert_eq!(counters.queued, held, "link {number} holds other packets than it counted");
    }

    /// What the link is like.
    pub fn config(&self) -> &LinkConfig {
        &self.config
    }

    /// From now on the link is like this: one that goes down, or heals. What is in it stays and leaves in order; the
    /// packet on the wire leaves when it was to leave.
    pub fn set_config(&mut self, now: Time, config: LinkConfig) {
        self.advance(now);
        self.losses.set_model(config.loss.clone());
        self.config = config;
    }

    fn enqueue(&mut self, now: Time, mut packet: Waiting<P>) {
        let held = self.queue_bytes + self.travelling_bytes + packet.wire_bytes;
        // An empty queue takes any packet: one that is on the wire does not wait.
        let room = self.queue.is_empty()
            || match self.config.queue {
                Queue::Bytes(limit) => self.queue_bytes + packet.wire_bytes <= limit,
                Queue::Packets(limit) => self.queue.len() < limit,
            };
        if !room || held > HELD_BYTES_MAX {
            self.counters.dropped_queue += 1;
            return;
        }
        let congested = match self.config.ecn {
            Some(Queue::Bytes(threshold)) => self.queue_bytes + packet.wire_bytes > threshold,
            Some(Queue::Packets(threshold)) => self.queue.len() >= threshold,
            None => false,
        };
        // An empty queue is none.
        if congested && !self.queue.is_empty() && packet.cargo.datagram().ecn != Ecn::NotEct {
            packet.cargo.datagram_mut().ecn = Ecn::Ce;
            self.counters.marked += 1;
        }
        self.counters.queued += 1;
        if self.queue.is_empty() {
            match self.config.rate {
                Bandwidth::Fixed(rate) => {
                    self.first_leaves = Some(now + rate.transmit_time(packet.wire_bytes))
                }
                Bandwidth::Unlimited => return self.depart(now, packet),
            }
        }
        self.queue_bytes += packet.wire_bytes;
        self.counters.queue_peak_bytes = self.counters.queue_peak_bytes.max(self.queue_bytes as u64);
        self.queue.push_back(packet);
    }

    /// Does what the wire did up to `now`, at the times at which it did it.
    pub fn advance(&mut self, now: Time) {
        while let Some(leaves) = self.first_leaves
            && leaves <= now
            && let Some(packet) = self.queue.pop_front()
        {
            self.queue_bytes -= packet.wire_bytes;
            self.depart(leaves, packet);
            self.first_leaves = self.queue.front().map(|next| match self.config.rate {
                Bandwidth::Fixed(rate) => leaves + rate.transmit_time(next.wire_bytes),
                Bandwidth::Unlimited => leaves,
            });
        }
    }

    fn depart(&mut self, at: Time, packet: Waiting<P>) {
        self.travelling_bytes += packet.wire_bytes;
        self.counters.transmitted += 1;
        self.sequence += 1;
        self.travelling.push(Reverse(Travelling {
            arrives: at + self.config.delay + packet.extra_delay,
            sequence: self.sequence,
            wire_bytes: packet.wire_bytes,
            cargo: packet.cargo,
        }));
    }

    /// When something may come out next: nothing does before.
    pub fn next_arrival(&self) -> Option<Time> {
        let travelling = self.travelling.peek().map(|Reverse(first)| first.arrives);
        let waiting = self.first_leaves.map(|leaves| leaves + self.config.delay);
        travelling.into_iter().chain(waiting).min()
    }
}

fn flipped(payload: &Bytes, bit: u64) -> Bytes {
    let mut bytes = BytesMut::from(&payload[..]);
    bytes[(bit / 8) as usize] ^= 1 << (bit % 8);
    bytes.freeze()
}

#[cfg(test)]
mod tests;
