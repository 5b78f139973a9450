//! The simulation loop: hosts, links between them, and a clock that jumps to the next event.
//!
//! Two runs of the same hosts with the same seeds are equal, packet by packet ([`World::fingerprint`]):
//! events at one time happen in the order in which they became due, and a host is drained before its next
//! input. The world knows addresses but not the contents of packets. A packet keeps the
//! [`route`](World::route_via) on which it was sent: a chain of links, with a router between any two.
//!
//! The path of a packet through the loop is short: it stays in one reused allocation from host to host, its
//! route is looked up once when it is sent, and each host and link has at most one valid entry in the heap.

mod routes;
#[cfg(test)]
mod tests;

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use bytes::Bytes;

use self::routes::{Route, RouteId, Routes};
use crate::link::{self, HasDatagram, LinkConfig, LinkOf};

/// The limit of outputs of a host at one instant: beyond, it would never stop.
const WORDS_AT_ONCE_MAX: u32 = 10_000_000;

/// Something that sends and receives datagrams.
pub trait Actor {
    /// A datagram arrives.
    fn handle(&mut self, now: Time, datagram: Datagram);

    /// The next datagram to send, or when to ask again.
    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible>;

    /// Whether IP may fragment the datagram that the last poll returned. A link drops other datagrams that are longer than
    /// its MTU.
    fn may_be_fragmented(&self) -> bool {
        false
    }
}

/// Identifies a host of a [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(usize);

/// Identifies a link of a [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(usize);

impl LinkId {
    /// The number of the link: links are numbered from 0 in the order of addition.
    pub fn number(self) -> usize {
        self.0
    }
}

/// Hosts, links, and one clock.
#[derive(Debug)]
pub struct World<H> {
    now: Time,
    seed: u64,
    hosts: Vec<Place<H>>,
    links: Vec<Place<LinkOf<InTransit>>>,
    addresses: BTreeMap<IpAddr, HostId>,
    routes: Routes,
    /// Nodes with input from outside, to be drained first.
    ready: VecDeque<Node>,
    due: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    /// Parcels whose packets have arrived, for reuse.
    #[allow(clippy::vec_box, reason = "the boxes are what is kept: they travel through the links")]
    spare_boxes: Vec<InTransit>,
    traffic: Traffic,
    fingerprint: u64,
    last_event: Time,
    record: Option<Vec<Seen>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Node {
    Host(usize),
    Link(usize),
}

/// A host or a link, and when to poll it.
#[derive(Debug)]
struct Place<T> {
    what: T,
    alarm: Alarm,
    /// The last route used from here.
    last_route: Option<(IpAddr, IpAddr, RouteId)>,
}

/// When to poll a host or link.
#[derive(Debug, Clone, Copy)]
struct Alarm {
    /// The next time to poll, or [`NEVER`] if only after an input.
    due: Time,
    /// The time of its valid entry in the heap; other entries are stale. Not after `due`.
    armed: Time,
}

const NEVER: Time = Time::from_nanos(u64::MAX);

impl<T> Place<T> {
    fn new(what: T) -> Self {
        Self { what, alarm: Alarm { due: NEVER, armed: NEVER }, last_route: None }
    }
}

/// Time, sequence number and node in one number that sorts as the three do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    /// Entries of a run, and hosts and links of a world, are limited by their bits: 2⁴⁰ and 2²³.
    fn new(at: Time, sequence: u64, node: Node) -> Self {
        let node = match node {
            Node::Host(index) => index << 1,
            Node::Link(index) => index << 1 | 1,
        };
        Self(u128::from(at.as_nanos()) << 64 | u128::from(sequence) << 24 | node as u128)
    }

    fn at(self) -> Time {
        Time::from_nanos((self.0 >> 64) as u64)
    }

    fn node(self) -> Node {
        let node = self.0 as usize & 0xff_ffff;
        if node & 1 == 0 { Node::Host(node >> 1) } else { Node::Link(node >> 1) }
    }
}

/// A datagram on its route.
type InTransit = Box<Routed>;

#[derive(Debug, Clone)]
struct Routed {
    datagram: Datagram,
    may_be_fragmented: bool,
    route: RouteId,
    /// The number of links of the route already passed.
    hops: u32,
}

impl HasDatagram for InTransit {
    fn datagram(&self) -> &Datagram {
        &self.datagram
    }

    fn datagram_mut(&mut self) -> &mut Datagram {
        &mut self.datagram
    }

    fn may_be_fragmented(&self) -> bool {
        self.may_be_fragmented
    }
}

/// The packets that all hosts sent and received.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that reached a host.
    pub arrived: u64,
    /// Packets without a route or a host.
    pub unroutable: u64,
}

/// A datagram that left or reached a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Time,
    /// Whether it was sent or received.
    pub what: Sight,
    /// The datagram.
    pub datagram: Datagram,
}

/// Whether a datagram was sent or received.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Sent by a host.
    Sent,
    /// Received by a host.
    Arrived,
}

impl<H: Actor> World<H> {
    /// Creates an empty world at [`Time::ZERO`]. The seed determines the links' random draws.
    pub fn new(seed: u64) -> Self {
        Self {
            now: Time::ZERO,
            seed,
            hosts: Vec::new(),
            links: Vec::new(),
            addresses: BTreeMap::new(),
            routes: Routes::new(),
            ready: VecDeque::new(),
            due: BinaryHeap::new(),
            sequence: 0,
            spare_boxes: Vec::new(),
            traffic: Traffic::default(),
            fingerprint: 0xcbf2_9ce4_8422_2325,
            last_event: Time::ZERO,
            record: None,
        }
    }

    /// Adds a host with these addresses.
    pub fn add_host(&mut self, host: H, addresses: impl IntoIterator<Item = IpAddr>) -> HostId {
        let id = HostId(self.hosts.len());
        self.hosts.push(Place::new(host));
        self.addresses.extend(addresses.into_iter().map(|address| (address, id)));
        self.ready.push_back(Node::Host(id.0));
        id
    }

    /// Adds a link. Links are numbered in the order of addition, and only the number and the seed determine a
    /// link's draws.
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        let id = LinkId(self.links.len());
        self.links.push(Place::new(LinkOf::new(config, self.seed, id.0 as u32)));
        id
    }

    /// Routes datagrams from one address to another over a link. Several routes may share a link.
    pub fn route(&mut self, from: IpAddr, to: IpAddr, link: LinkId) {
        self.route_via(from, to, &[link]);
    }

    /// Routes datagrams from one address to another over these links in turn. Packets in transit keep their
    /// old route.
    pub fn route_via(&mut self, from: IpAddr, to: IpAddr, links: &[LinkId]) {
        self.add_route(from, to, links, None);
    }

    /// As [`World::route_via`], to a host that need not have the address: a middlebox such as a NAT, which
    /// rewrites packets and sends them on.
    pub fn route_to(&mut self, from: IpAddr, to: IpAddr, links: &[LinkId], host: HostId) {
        self.add_route(from, to, links, Some(host));
    }

    fn add_route(&mut self, from: IpAddr, to: IpAddr, links: &[LinkId], end: Option<HostId>) {
        assert!(!links.is_empty(), "a route needs at least one link");
        let links = links.iter().map(|link| link.0 as u32).collect();
        self.routes.insert(from, to, Route { links, end: end.map(|host| host.0) });
        self.hosts.iter_mut().for_each(|host| host.last_route = None);
    }

    /// The current time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// Returns a host, for reading.
    pub fn host(&self, id: HostId) -> &H {
        &self.hosts[id.0].what
    }

    /// Returns a host, for input; it is drained next.
    pub fn host_mut(&mut self, id: HostId) -> &mut H {
        self.ready.push_front(Node::Host(id.0));
        &mut self.hosts[id.0].what
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<H> {
        (0..self.hosts.len()).map(HostId)
    }

    /// Returns a link, for reading, in its state at its last call; after [`World::settle`], in its current
    /// state.
    pub fn link(&self, id: LinkId) -> &LinkOf<impl HasDatagram + use<H>> {
        &self.links[id.0].what
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = &LinkOf<impl HasDatagram + use<H>>> {
        self.links.iter().map(|place| &place.what)
    }

    /// Changes the properties of a link from now on.
    pub fn set_link(&mut self, id: LinkId, config: LinkConfig) {
        self.links[id.0].what.set_config(self.now, config);
        self.ready.push_back(Node::Link(id.0));
    }

    /// The time of the last packet received by a host.
    pub fn last_event(&self) -> Time {
        self.last_event
    }

    /// The fingerprint of the run: a hash over every datagram received by a host, with its time.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// The traffic of all hosts.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Datagrams without a route or a host.
    pub fn unroutable(&self) -> u64 {
        self.traffic.unroutable
    }

    /// The number of packet events: a packet was passed to a link, its last bit was sent, or it left the
    /// link.
    pub fn packet_events(&self) -> u64 {
        self.links.iter().map(|place| place.what.counters().packet_events()).sum()
    }

    /// Records every datagram that a host sends or receives from now on, until [`World::take_record`].
    pub fn record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// The record since the last call.
    pub fn take_record(&mut self) -> Vec<Seen> {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Records what happens to each packet on a link from now on, until [`World::take_link_record`].
    pub fn record_link(&mut self, id: LinkId) {
        self.links[id.0].what.record();
    }

    /// The record of a link since the last call, in order of time.
    pub fn take_link_record(&mut self, id: LinkId) -> Vec<link::Sighting> {
        self.settle();
        self.links[id.0].what.take_record()
    }

    /// Advances each link to the current time, so that its state is up to date. This does not change the run.
    pub fn settle(&mut self) {
        let now = self.now;
        self.links.iter_mut().for_each(|place| place.what.advance(now));
    }

    /// Handles the next event, after advancing the time if nothing is left to do now: drains one host or
    /// link. Returns whether there was an event up to `until`; if not, the time is then `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let Some(node) = self.ready.pop_front().or_else(|| self.next_due(until)) else {
            self.now = self.now.max(until);
            return false;
        };
        match node {
            Node::Host(index) => self.drain_host(index),
            Node::Link(index) => self.drain_link(index),
        }
        true
    }

    /// Runs until `until`.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.check();
    }

    /// Runs while `busy` returns true, at most for `at_most`. Returns whether `busy` became false.
    pub fn run_while(&mut self, at_most: Duration, mut busy: impl FnMut(&Self) -> bool) -> bool {
        let until = self.now + at_most;
        let done = loop {
            if self.ready.is_empty() && !busy(self) {
                break true;
            }
            if !self.step(until) {
                break !busy(self);
            }
        };
        self.check();
        done
    }

    /// Panics unless every packet is accounted for: on each link, and between the hosts. Every run ends with
    /// this check.
    pub fn check(&self) {
        let (mut within, mut added, mut dropped) = (0, 0, 0);
        for (number, place) in self.links.iter().enumerate() {
            let link = &place.what;
            link.check(number);
            let counters = link.counters();
            within += counters.queued;
            added += counters.duplicated;
            dropped += counters.dropped();
        }
        let Traffic { sent, arrived, unroutable } = self.traffic;
        assert_eq!(
            sent + added,
            arrived + unroutable + dropped + within,
            "packets sent and duplicated are those that arrived, that had nowhere to go, that were dropped, that are \
             on a link: {:?}, {added} duplicated, {dropped} dropped, {within} on links",
            self.traffic,
        );
    }

    fn next_due(&mut self, until: Time) -> Option<Node> {
        loop {
            let Reverse(entry) = *self.due.peek()?;
            let (at, node) = (entry.at(), entry.node());
            let alarm = self.alarm(node);
            if alarm.armed != at {
                self.due.pop(); // asked again since
                continue;
            }
            if at > until {
                return None;
            }
            alarm.armed = NEVER;
            let due = alarm.due;
            self.due.pop();
            if due > at {
                self.arm(node, due); // put off since
                continue;
            }
            // A passed deadline is due now: time does not go back.
            self.now = self.now.max(at);
            return Some(node);
        }
    }

    fn alarm(&mut self, node: Node) -> &mut Alarm {
        match node {
            Node::Host(index) => &mut self.hosts[index].alarm,
            Node::Link(index) => &mut self.links[index].alarm,
        }
    }

    /// Schedules the node to be polled at `at`.
    fn arm(&mut self, node: Node, at: Time) {
        let alarm = self.alarm(node);
        alarm.due = at;
        if at < alarm.armed {
            alarm.armed = at;
            self.sequence += 1;
            self.due.push(Reverse(Entry::new(at, self.sequence, node)));
        }
    }

    fn drain_link(&mut self, index: usize) {
        loop {
            match self.links[index].what.poll(self.now) {
                Output::Send(parcel) => self.forward(parcel),
                Output::Event(never) => match never {},
                Output::Wait(at) => return self.arm(Node::Link(index), at.unwrap_or(NEVER)),
            }
        }
    }

    fn drain_host(&mut self, index: usize) {
        for _ in 0..WORDS_AT_ONCE_MAX {
            match self.hosts[index].what.poll(self.now) {
                Output::Send(datagram) => self.send(index, datagram),
                Output::Event(never) => match never {},
                Output::Wait(at) => return self.arm(Node::Host(index), at.unwrap_or(NEVER)),
            }
        }
        panic!("at {} host {index} sends packets endlessly", self.now);
    }

    /// A host sends a datagram.
    fn send(&mut self, host: usize, datagram: Datagram) {
        self.traffic.sent += 1;
        self.see(Sight::Sent, &datagram);
        let (from, to) = (datagram.from.ip(), datagram.to.ip());
        let place = &mut self.hosts[host];
        let may_be_fragmented = place.what.may_be_fragmented();
        let route = match place.last_route {
            Some((last_from, last_to, route)) if last_from == from && last_to == to => route,
            _ => {
                let Some(route) = self.routes.find(from, to) else {
                    self.traffic.unroutable += 1;
                    return;
                };
                place.last_route = Some((from, to, route));
                route
            }
        };
        let parcel = match self.spare_boxes.pop() {
            Some(mut parcel) => {
                *parcel = Routed { datagram, may_be_fragmented, route, hops: 0 };
                parcel
            }
            None => Box::new(Routed { datagram, may_be_fragmented, route, hops: 0 }),
        };
        let link = self.routes.get(route).links[0];
        self.enter(link as usize, parcel);
    }

    /// A parcel leaves a link.
    fn forward(&mut self, mut parcel: InTransit) {
        parcel.hops += 1;
        let route = self.routes.get(parcel.route);
        if let Some(link) = route.links.get(parcel.hops as usize) {
            return self.enter(*link as usize, parcel);
        }
        let to = || self.addresses.get(&parcel.datagram.to.ip()).map(|host| host.0);
        let Some(host) = route.end.or_else(to) else {
            self.traffic.unroutable += 1;
            return;
        };
        if route.end.is_none() {
            self.routes.set_end(parcel.route, host);
        }
        let datagram = std::mem::replace(&mut parcel.datagram, nothing());
        self.spare_boxes.push(parcel);
        self.traffic.arrived += 1;
        self.note(&datagram);
        self.last_event = self.now;
        self.see(Sight::Arrived, &datagram);
        self.hosts[host].what.handle(self.now, datagram);
        self.drain_host(host);
    }

    fn enter(&mut self, index: usize, parcel: InTransit) {
        let link = &mut self.links[index].what;
        link.handle(self.now, parcel);
        let next = link.next_arrival();
        self.arm(Node::Link(index), next.unwrap_or(NEVER));
    }

    fn see(&mut self, what: Sight, datagram: &Datagram) {
        if let Some(record) = &mut self.record {
            record.push(Seen { at: self.now, what, datagram: datagram.clone() });
        }
    }

    /// The first bytes suffice: the headers contain a checksum over the rest. FNV-1a, eight bytes at a time.
    fn note(&mut self, datagram: &Datagram) {
        let payload = &datagram.payload;
        let (head, _) = payload.as_chunks::<8>();
        let words = head.iter().take(3).map(|word| u64::from_le_bytes(*word));
        for word in [self.now.as_nanos(), payload.len() as u64].into_iter().chain(words) {
            // The top bits, which the product mixes best, are moved to the bottom.
            let mixed = (self.fingerprint ^ word).wrapping_mul(0x100_0000_01b3);
            self.fingerprint = mixed ^ mixed >> 32;
        }
    }
}

/// The placeholder in an empty parcel.
fn nothing() -> Datagram {
    let nowhere = std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
    Datagram { from: nowhere, to: nowhere, ecn: Ecn::NotEct, payload: Bytes::new() }
}
