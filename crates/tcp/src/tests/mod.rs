//! A test bench: two endpoints, a virtual clock, and links with configurable faults.

mod bulk;
mod everything;
mod lifecycle;
mod recovery;
mod windows;

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Output, Rate, Time};
use bytes::Bytes;

use crate::{Checksum, Config, Connection, ConnectionId, Endpoint, Event, Profile, Reason, Segment};

/// The server's listening port.
const PORT: u16 = 21;
/// The one-way delay of the link.
const LATENCY: Duration = Duration::from_millis(10);
/// The length of an IPv4 header.
const IP_BYTES: usize = 20;

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

/// Decides whether a segment is lost, from its sender and the number of segments that sender sent before.
type Drop = Box<dyn FnMut(Side, usize, &Segment) -> bool>;

/// Two endpoints and the segments in transit between them.
struct Pair {
    now: Time,
    endpoints: [Endpoint; 2],
    ids: [Option<ConnectionId>; 2],
    under_way: BTreeMap<(Time, u64), Datagram>,
    sent: [usize; 2],
    total: u64,
    dice: Dice,
    /// Losses per thousand segments.
    loss: u64,
    duplication: u64,
    reordering: u64,
    drop: Option<Drop>,
    latency: Duration,
    /// The rate of the link in each direction, and until when it is busy.
    rate: Option<Rate>,
    busy: [Time; 2],
    /// The longest queueing delay of the link before it drops a segment.
    queue: Duration,
    events: [Vec<Event>; 2],
    /// All segments sent, lost ones included.
    log: Vec<(Time, Side, Segment)>,
    /// Whether the user reads data as soon as it is readable.
    reads: bool,
    read: [Vec<u8>; 2],
    /// The data still to be written, and whether the user then closes.
    to_write: [Bytes; 2],
    closes: [bool; 2],
    /// Whether a side closes once the peer has closed.
    follows: bool,
}

fn address(side: Side) -> SocketAddr {
    match side {
        Client => "10.0.0.1:1024".parse().unwrap(),
        Server => SocketAddr::new("10.0.0.2".parse().unwrap(), PORT),
    }
}

/// Bytes whose values depend on their offset.
fn numbered(length: usize) -> Bytes {
    (0..length).map(|index| (index % 251) as u8 ^ (index / 251) as u8).collect::<Vec<_>>().into()
}

impl Pair {
    /// A bench with the same configuration on both sides.
    fn new(config: Config) -> Self {
        Self::with(config.clone(), config)
    }

    fn with(client: Config, server: Config) -> Self {
        let mut endpoints = [Endpoint::new(1), Endpoint::new(2)];
        endpoints[1].listen(PORT, Arc::new(server)).unwrap();
        let id =
            endpoints[0].connect(Time::ZERO, address(Client), address(Server), Arc::new(client)).unwrap();
        Self {
            now: Time::ZERO,
            endpoints,
            ids: [Some(id), None],
            under_way: BTreeMap::new(),
            sent: [0; 2],
            total: 0,
            dice: Dice(0x9E37_79B9_7F4A_7C15),
            loss: 0,
            duplication: 0,
            reordering: 0,
            drop: None,
            latency: LATENCY,
            rate: None,
            busy: [Time::ZERO; 2],
            queue: Duration::MAX,
            events: [Vec::new(), Vec::new()],
            log: Vec::new(),
            reads: true,
            read: [Vec::new(), Vec::new()],
            to_write: [Bytes::new(), Bytes::new()],
            closes: [false; 2],
            follows: true,
        }
    }

    /// A bench with an established connection.
    fn up(config: Config) -> Self {
        let mut pair = Self::new(config);
        pair.run(Duration::from_millis(100));
        assert!(pair.connection(Client).is_up() && pair.connection(Server).is_up());
        pair.log.clear();
        pair
    }

    fn seeded(mut self, seed: u64) -> Self {
        self.dice = Dice(seed.wrapping_mul(2).wrapping_add(1).wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1);
        self
    }

    /// Drops data segments of one side by their number, counted from 1.
    fn losing(mut self, side: Side, numbers: &[usize]) -> Self {
        let (numbers, mut seen) = (numbers.to_vec(), 0);
        self.drop = Some(Box::new(move |from, _, segment| {
            seen += usize::from(from == side && !segment.payload.is_empty());
            from == side && !segment.payload.is_empty() && numbers.contains(&seen)
        }));
        self
    }

    fn connection(&mut self, side: Side) -> &mut Connection {
        let id = self.ids[side as usize].expect("accepted");
        self.endpoints[side as usize].connection_mut(id).unwrap()
    }

    fn write(&mut self, side: Side, bytes: Bytes) {
        assert!(self.to_write[side as usize].is_empty());
        self.to_write[side as usize] = bytes;
    }

    /// Writes `length` bytes and closes.
    fn write_and_close(&mut self, side: Side, length: usize) {
        self.write(side, numbered(length));
        self.closes[side as usize] = true;
    }

    fn closed(&self, side: Side) -> Option<Reason> {
        self.events[side as usize].iter().find_map(|event| match event {
            Event::Closed(reason) => Some(*reason),
            _ => None,
        })
    }

    /// The data segments that one side sent.
    fn data_of(&self, side: Side) -> Vec<&(Time, Side, Segment)> {
        self.log.iter().filter(|(_, from, segment)| *from == side && !segment.payload.is_empty()).collect()
    }

    /// Runs the user of one side: reads, writes and closes as configured.
    fn use_it(&mut self, side: Side) {
        if self.ids[side as usize].is_none() {
            return;
        }
        let mut rest = std::mem::take(&mut self.to_write[side as usize]);
        let (reads, closes) = (self.reads, self.closes[side as usize]);
        let follows = self.follows && self.events[side as usize].contains(&Event::PeerClosed);
        let mut got = Vec::new();
        let connection = self.connection(side);
        let taken = connection.send(rest.clone());
        let rest = rest.split_off(taken);
        if rest.is_empty() && (closes || follows) && !connection.is_closing() {
            connection.close();
        }
        while reads && let Some(piece) = connection.recv() {
            got.extend_from_slice(&piece);
        }
        self.to_write[side as usize] = rest;
        self.read[side as usize].extend(got);
    }

    /// Polls one side until it waits; returns when it wants to be polled again.
    fn drain(&mut self, side: Side) -> Option<Time> {
        self.use_it(side);
        loop {
            match self.endpoints[side as usize].poll(self.now) {
                Output::Send(datagram) => self.carry(side, datagram),
                Output::Event((id, event)) => {
                    self.ids[side as usize].get_or_insert(id);
                    self.events[side as usize].push(event);
                    self.use_it(side);
                }
                Output::Wait(at) => return at,
            }
        }
    }

    /// Puts a datagram on the link.
    fn carry(&mut self, side: Side, datagram: Datagram) {
        let segment = Segment::decode_unchecked(&datagram.payload).unwrap();
        let nth = self.sent[side as usize];
        self.sent[side as usize] += 1;
        self.log.push((self.now, side, segment.clone()));
        let mut lost = self.dice.falls(self.loss);
        lost |= self.drop.as_mut().is_some_and(|drop| drop(side, nth, &segment));
        let copies = 1 + u64::from(self.dice.falls(self.duplication));
        let late = self.dice.falls(self.reordering);
        if lost {
            return;
        }
        let mut leaves = self.now;
        if let Some(rate) = self.rate {
            let busy = &mut self.busy[side as usize];
            if busy.since(self.now) > self.queue {
                return;
            }
            *busy = (*busy).max(self.now) + rate.transmit_time(datagram.payload.len() + IP_BYTES);
            leaves = *busy;
        }
        for copy in 0..copies {
            self.total += 1;
            let extra =
                if late || copy > 0 { Duration::from_micros(self.dice.roll(30_000)) } else { Duration::ZERO };
            self.under_way.insert((leaves + self.latency + extra, self.total), datagram.clone());
        }
    }

    /// Runs the bench for `duration`.
    fn run(&mut self, duration: Duration) {
        let until = self.now + duration;
        loop {
            let wakes = [Client, Server].map(|side| self.drain(side));
            let arrives = self.under_way.first_key_value().map(|((at, _), _)| *at);
            let next = wakes.into_iter().flatten().chain(arrives).min();
            let Some(at) = next.filter(|at| *at <= until) else { break };
            self.now = self.now.max(at);
            while let Some(entry) = self.under_way.first_entry()
                && entry.key().0 <= self.now
            {
                let datagram = entry.remove();
                let side = if datagram.to.port() == PORT { Server } else { Client };
                self.endpoints[side as usize].handle(self.now, datagram);
                self.drain(side);
            }
        }
        self.now = until;
    }

    /// Runs the bench until both sides are closed, at most for `at_most`.
    fn finish(&mut self, at_most: Duration) {
        let until = self.now + at_most;
        while self.now < until && (self.closed(Client).is_none() || self.closed(Server).is_none()) {
            self.run(Duration::from_millis(100));
        }
    }
}
