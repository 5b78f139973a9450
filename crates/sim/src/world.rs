//! The loop that every simulation is: hosts, links between them, and a clock that jumps to the next thing due.
//!
//! Two runs of the same hosts with the same seeds are the same run, packet by packet ([`World::fingerprint`]): what is
//! due at one time happens in the order in which it became due, and a host is drained before it is told anything
//! new. The world knows addresses and nothing of what packets hold. A packet follows the [`route`](World::route_via)
//! that it began with: a chain of links, with a router wherever two of them meet.
//!
//! The road of a packet is bare: it stays in one allocation, which is used again, from host to host; its route is looked
//! up once, where it leaves; and each host and each link has one entry in the heap at most that counts.

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
use crate::link::{self, Cargo, LinkConfig, LinkOf};

/// A host that says more than that without letting time pass never stops.
const WORDS_AT_ONCE_MAX: u32 = 10_000_000;

/// Something that sends and receives datagrams.
pub trait Actor {
    /// A datagram arrives.
    fn handle(&mut self, now: Time, datagram: Datagram);

    /// The next datagram to send, or when to ask again.
    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible>;
}

/// Names a host of a [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct HostId(usize);

/// Names a link of a [`World`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct LinkId(usize);

impl LinkId {
    /// Its number: links are numbered from 0 as they are added.
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
    links: Vec<Place<LinkOf<Parcel>>>,
    addresses: BTreeMap<IpAddr, HostId>,
    routes: Routes,
    /// Those that were told something from outside, to be drained first.
    ready: VecDeque<Node>,
    due: BinaryHeap<Reverse<Entry>>,
    sequence: u64,
    /// Parcels that arrived, to be used again.
    #[allow(clippy::vec_box, reason = "the boxes are what is kept: they travel through the links")]
    idle_parcels: Vec<Parcel>,
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

/// A host or a link, and when it is to be asked again.
#[derive(Debug)]
struct Place<T> {
    what: T,
    alarm: Alarm,
    /// The route that was taken last from here.
    last_route: Option<(IpAddr, IpAddr, RouteId)>,
}

/// When a host or link is to be asked again.
#[derive(Debug, Clone, Copy)]
struct Alarm {
    /// When: [`NEVER`] if only once it is told something.
    due: Time,
    /// The time of its entry in the heap that counts; others are stale. Not after `due`.
    armed: Time,
}

const NEVER: Time = Time::from_nanos(u64::MAX);

impl<T> Place<T> {
    fn new(what: T) -> Self {
        Self { what, alarm: Alarm { due: NEVER, armed: NEVER }, last_route: None }
    }
}

/// Time, order of coming, and who: in one number, which compares as the three do.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Entry(u128);

impl Entry {
    /// Entries of a run, and hosts and links of a world, are fewer than their bits can count: 2⁴⁰ and 2²³.
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
type Parcel = Box<Routed>;

#[derive(Debug, Clone)]
struct Routed {
    datagram: Datagram,
    route: RouteId,
    /// How many links of the route it has behind it.
    hops: u32,
}

impl Cargo for Parcel {
    fn datagram(&self) -> &Datagram {
        &self.datagram
    }

    fn datagram_mut(&mut self) -> &mut Datagram {
        &mut self.datagram
    }
}

/// What hosts sent and got, all together, in packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Traffic {
    /// Packets that hosts sent.
    pub sent: u64,
    /// Packets that reached a host.
    pub arrived: u64,
    /// Packets for which there was no route or no host.
    pub lost_in_space: u64,
}

/// A datagram that left or reached a host.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Seen {
    /// When.
    pub at: Time,
    /// Whether it left or arrived.
    pub what: Sight,
    /// The datagram.
    pub datagram: Datagram,
}

/// Where a datagram was seen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Sight {
    /// Leaving a host.
    Sent,
    /// Reaching a host.
    Arrived,
}

impl<H: Actor> World<H> {
    /// An empty world at [`Time::ZERO`]. The seed steers the links' chances.
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
            idle_parcels: Vec::new(),
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

    /// Adds a link. It is numbered as they are added, and its number and the seed alone steer its chances.
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        let id = LinkId(self.links.len());
        self.links.push(Place::new(LinkOf::new(config, self.seed, id.0 as u32)));
        id
    }

    /// Sends what goes from one address to another over a link. Several routes may share one.
    pub fn route(&mut self, from: IpAddr, to: IpAddr, link: LinkId) {
        self.route_via(from, to, &[link]);
    }

    /// Sends what goes from one address to another over these links, one after the other. What is under way already
    /// keeps to its old route.
    pub fn route_via(&mut self, from: IpAddr, to: IpAddr, links: &[LinkId]) {
        self.add_route(from, to, links, None);
    }

    /// As [`World::route_via`], to a host that need not have the address: one that looks into packets on their way, as a
    /// NAT does, and sends them on as its own.
    pub fn route_to(&mut self, from: IpAddr, to: IpAddr, links: &[LinkId], host: HostId) {
        self.add_route(from, to, links, Some(host));
    }

    fn add_route(&mut self, from: IpAddr, to: IpAddr, links: &[LinkId], end: Option<HostId>) {
        assert!(!links.is_empty(), "a route has a link at least");
        let links = links.iter().map(|link| link.0 as u32).collect();
        self.routes.insert(from, to, Route { links, end: end.map(|host| host.0) });
        self.hosts.iter_mut().for_each(|host| host.last_route = None);
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A host, to look at.
    pub fn host(&self, id: HostId) -> &H {
        &self.hosts[id.0].what
    }

    /// A host, to tell it something; it is drained next.
    pub fn host_mut(&mut self, id: HostId) -> &mut H {
        self.ready.push_front(Node::Host(id.0));
        &mut self.hosts[id.0].what
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<H> {
        (0..self.hosts.len()).map(HostId)
    }

    /// A link, to look at, as it was when it was last told or asked something; after [`World::settle`], as it is.
    pub fn link(&self, id: LinkId) -> &LinkOf<impl Cargo + use<H>> {
        &self.links[id.0].what
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = &LinkOf<impl Cargo + use<H>>> {
        self.links.iter().map(|place| &place.what)
    }

    /// From now on a link is like this.
    pub fn set_link(&mut self, id: LinkId, config: LinkConfig) {
        self.links[id.0].what.set_config(self.now, config);
        self.ready.push_back(Node::Link(id.0));
    }

    /// When something last reached a host.
    pub fn last_event(&self) -> Time {
        self.last_event
    }

    /// What happened so far, as a number: every datagram that reached a host, with its time.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// What hosts sent and got.
    pub fn traffic(&self) -> Traffic {
        self.traffic
    }

    /// Datagrams for which there was no route or no host.
    pub fn lost_in_space(&self) -> u64 {
        self.traffic.lost_in_space
    }

    /// Packet events so far: each time that a packet was handed to a link, was on the wire with its last bit, or came
    /// out at the far end.
    pub fn packet_events(&self) -> u64 {
        self.links.iter().map(|place| place.what.counters().packet_events()).sum()
    }

    /// From now on, keeps every datagram that leaves or reaches a host until [`World::take_record`].
    pub fn record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// What was recorded since the last call.
    pub fn take_record(&mut self) -> Vec<Seen> {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// From now on, keeps what happens to each packet on a link until [`World::take_link_record`].
    pub fn record_link(&mut self, id: LinkId) {
        self.links[id.0].what.record();
    }

    /// What was recorded of a link since the last call, in order of time.
    pub fn take_link_record(&mut self, id: LinkId) -> Vec<link::Sighting> {
        self.settle();
        self.links[id.0].what.take_record()
    }

    /// Each link does what its wire did up to now, so that it looks as it is. This changes nothing about what happens.
    pub fn settle(&mut self) {
        let now = self.now;
        self.links.iter_mut().for_each(|place| place.what.advance(now));
    }

    /// Does the next thing, and first lets time pass if nothing is left to do now: one host or link is drained. Says
    /// whether there was anything to do up to `until`; if not, the time is then `until`.
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

    /// Lets time pass up to then.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
        self.check();
    }

    /// Lets time pass until `busy` no longer says so, for this long at most. Gives whether it came to that.
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

    /// Panics unless every packet is accounted for: on each link, and between the hosts. Every run ends with it.
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
        let Traffic { sent, arrived, lost_in_space } = self.traffic;
        assert_eq!(
            sent + added,
            arrived + lost_in_space + dropped + within,
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
            // A deadline that has passed is due now: time does not go back.
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

    /// The node is to be asked again then.
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
        panic!("at {} host {index} talks without end", self.now);
    }

    /// A datagram leaves a host.
    fn send(&mut self, host: usize, datagram: Datagram) {
        self.traffic.sent += 1;
        self.see(Sight::Sent, &datagram);
        let (from, to) = (datagram.from.ip(), datagram.to.ip());
        let place = &mut self.hosts[host];
        let route = match place.last_route {
            Some((last_from, last_to, route)) if last_from == from && last_to == to => route,
            _ => {
                let Some(route) = self.routes.find(from, to) else {
                    self.traffic.lost_in_space += 1;
                    return;
                };
                place.last_route = Some((from, to, route));
                route
            }
        };
        let parcel = match self.idle_parcels.pop() {
            Some(mut parcel) => {
                *parcel = Routed { datagram, route, hops: 0 };
                parcel
            }
            None => Box::new(Routed { datagram, route, hops: 0 }),
        };
        let link = self.routes.get(route).links[0];
        self.enter(link as usize, parcel);
    }

    /// A parcel comes out of a link.
    fn forward(&mut self, mut parcel: Parcel) {
        parcel.hops += 1;
        let route = self.routes.get(parcel.route);
        if let Some(link) = route.links.get(parcel.hops as usize) {
            return self.enter(*link as usize, parcel);
        }
        let to = || self.addresses.get(&parcel.datagram.to.ip()).map(|host| host.0);
        let Some(host) = route.end.or_else(to) else {
            self.traffic.lost_in_space += 1;
            return;
        };
        if route.end.is_none() {
            self.routes.set_end(parcel.route, host);
        }
        let datagram = std::mem::replace(&mut parcel.datagram, nothing());
        self.idle_parcels.push(parcel);
        self.traffic.arrived += 1;
        self.note(&datagram);
        self.last_event = self.now;
        self.see(Sight::Arrived, &datagram);
        self.hosts[host].what.handle(self.now, datagram);
        self.drain_host(host);
    }

    fn enter(&mut self, index: usize, parcel: Parcel) {
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

    /// Headers are enough: a checksum over the rest is among them. FNV-1a, eight bytes at a time.
    fn note(&mut self, datagram: &Datagram) {
        let payload = &datagram.payload;
        let (head, _) = payload.as_chunks::<8>();
        let words = head.iter().take(3).map(|word| u64::from_le_bytes(*word));
        for word in [self.now.as_nanos(), payload.len() as u64].into_iter().chain(words) {
            // The top bits, which a product mixes best, go back to the bottom.
            let mixed = (self.fingerprint ^ word).wrapping_mul(0x100_0000_01b3);
            self.fingerprint = mixed ^ mixed >> 32;
        }
    }
}

/// What is left in a parcel that was emptied.
fn nothing() -> Datagram {
    let nowhere = std::net::SocketAddr::new(IpAddr::V4(std::net::Ipv4Addr::UNSPECIFIED), 0);
    Datagram { from: nowhere, to: nowhere, ecn: Ecn::NotEct, payload: Bytes::new() }
}
