//! The loop that every simulation is: hosts, links between them, and a clock that jumps to the next thing due.
//!
//! Two runs of the same hosts with the same seeds are the same run, packet by packet ([`World::fingerprint`]): what is
//! due at one time happens in the order in which it became due, and a host is drained before it is told anything
//! new. The world knows addresses and nothing of what packets hold.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::convert::Infallible;
use std::net::IpAddr;
use std::time::Duration;

use braidftp_base::{Datagram, Output, Time};

use crate::link::{Link, LinkConfig};

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

/// Hosts, links, and one clock.
#[derive(Debug)]
pub struct World<H> {
    now: Time,
    seed: u64,
    hosts: Vec<H>,
    links: Vec<Link>,
    addresses: BTreeMap<IpAddr, HostId>,
    routes: BTreeMap<(IpAddr, IpAddr), LinkId>,
    /// Those that may have something to say now. A host stands at the front once it was told something.
    ready: VecDeque<Node>,
    /// When each is to be asked again; an entry that is not the node's latest is stale.
    due: BinaryHeap<Reverse<(Time, u64, Node)>>,
    deadlines: BTreeMap<Node, (Time, u64)>,
    sequence: u64,
    fingerprint: u64,
    lost_in_space: u64,
    last_event: Time,
    record: Option<Vec<Seen>>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Node {
    Host(usize),
    Link(usize),
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
            routes: BTreeMap::new(),
            ready: VecDeque::new(),
            due: BinaryHeap::new(),
            deadlines: BTreeMap::new(),
            sequence: 0,
            // FNV-1a
            fingerprint: 0xcbf2_9ce4_8422_2325,
            lost_in_space: 0,
            last_event: Time::ZERO,
            record: None,
        }
    }

    /// Adds a host with these addresses.
    pub fn add_host(&mut self, host: H, addresses: impl IntoIterator<Item = IpAddr>) -> HostId {
        let id = HostId(self.hosts.len());
        self.hosts.push(host);
        self.addresses.extend(addresses.into_iter().map(|address| (address, id)));
        self.ready.push_back(Node::Host(id.0));
        id
    }

    /// Adds a link. It is numbered as they are added, and its number and the seed alone steer its chances.
    pub fn add_link(&mut self, config: LinkConfig) -> LinkId {
        let id = LinkId(self.links.len());
        self.links.push(Link::new(config, self.seed, id.0 as u32));
        id
    }

    /// Sends what goes from one address to another over a link. Several routes may share one.
    pub fn route(&mut self, from: IpAddr, to: IpAddr, link: LinkId) {
        self.routes.insert((from, to), link);
    }

    /// The time.
    pub fn now(&self) -> Time {
        self.now
    }

    /// A host, to look at.
    pub fn host(&self, id: HostId) -> &H {
        &self.hosts[id.0]
    }

    /// A host, to tell it something; it is drained next.
    pub fn host_mut(&mut self, id: HostId) -> &mut H {
        self.ready.push_front(Node::Host(id.0));
        &mut self.hosts[id.0]
    }

    /// A link, to look at.
    pub fn link(&self, id: LinkId) -> &Link {
        &self.links[id.0]
    }

    /// All hosts.
    pub fn hosts(&self) -> impl Iterator<Item = HostId> + use<H> {
        (0..self.hosts.len()).map(HostId)
    }

    /// When something last reached a host.
    pub fn last_event(&self) -> Time {
        self.last_event
    }

    /// All links.
    pub fn links(&self) -> impl Iterator<Item = &Link> {
        self.links.iter()
    }

    /// From now on a link is like this.
    pub fn set_link(&mut self, id: LinkId, config: LinkConfig) {
        self.links[id.0].set_config(self.now, config);
        self.ready.push_back(Node::Link(id.0));
    }

    /// What happened so far, as a number: every datagram that reached a host, with its time.
    pub fn fingerprint(&self) -> u64 {
        self.fingerprint
    }

    /// Datagrams for which there was no route or no host.
    pub fn lost_in_space(&self) -> u64 {
        self.lost_in_space
    }

    /// From now on, keeps every datagram that leaves or reaches a host until [`World::take_record`].
    pub fn record(&mut self) {
        self.record.get_or_insert_default();
    }

    /// What was recorded since the last call.
    pub fn take_record(&mut self) -> Vec<Seen> {
        self.record.as_mut().map(std::mem::take).unwrap_or_default()
    }

    /// Does the next thing, and first lets time pass if nothing is left to do now. Says whether there was anything
    /// to do up to `until`; if not, the time is then `until`.
    pub fn step(&mut self, until: Time) -> bool {
        let Some(node) = self.ready.pop_front().or_else(|| self.next_due(until)) else {
            self.now = self.now.max(until);
            return false;
        };
        let output = match node {
            Node::Host(index) => self.hosts[index].poll(self.now),
            Node::Link(index) => self.links[index].poll(self.now),
        };
        match output {
            Output::Send(datagram) => {
                self.ready.push_front(node);
                self.carry(node, datagram);
            }
            Output::Event(never) => match never {},
            Output::Wait(Some(at)) => {
                self.sequence += 1;
                self.deadlines.insert(node, (at, self.sequence));
                self.due.push(Reverse((at, self.sequence, node)));
            }
            Output::Wait(None) => {
                self.deadlines.remove(&node);
            }
        }
        true
    }

    /// Lets time pass up to then.
    pub fn run_until(&mut self, until: Time) {
        while self.step(until) {}
    }

    /// Lets time pass until `done` says so, for this long at most. Gives whether it did.
    pub fn run_while(&mut self, at_most: Duration, mut busy: impl FnMut(&Self) -> bool) -> bool {
        let until = self.now + at_most;
        loop {
            if self.ready.is_empty() && !busy(self) {
                return true;
            }
            if !self.step(until) {
                return !busy(self);
            }
        }
    }

    fn next_due(&mut self, until: Time) -> Option<Node> {
        loop {
            let Reverse((at, sequence, node)) = *self.due.peek()?;
            if self.deadlines.get(&node) != Some(&(at, sequence)) {
                self.due.pop(); // asked again since
                continue;
            }
            if at > until {
                return None;
            }
            self.due.pop();
            self.deadlines.remove(&node);
            // A deadline that has passed is due now: time does not go back.
            self.now = self.now.max(at);
            return Some(node);
        }
    }

    fn carry(&mut self, from: Node, datagram: Datagram) {
        match from {
            Node::Host(_) => {
                self.see(Sight::Sent, &datagram);
                let Some(link) = self.routes.get(&(datagram.from.ip(), datagram.to.ip())) else {
                    self.lost_in_space += 1;
                    return;
                };
                let index = link.0;
                self.links[index].handle(self.now, datagram);
                if !self.ready.contains(&Node::Link(index)) {
                    self.ready.push_back(Node::Link(index));
                }
            }
            Node::Link(_) => {
                let Some(host) = self.addresses.get(&datagram.to.ip()) else {
                    self.lost_in_space += 1;
                    return;
                };
                let index = host.0;
                self.note(&datagram);
                self.last_event = self.now;
                self.see(Sight::Arrived, &datagram);
                self.hosts[index].handle(self.now, datagram);
                self.ready.push_front(Node::Host(index));
            }
        }
    }

    fn see(&mut self, what: Sight, datagram: &Datagram) {
        if let Some(record) = &mut self.record {
            record.push(Seen { at: self.now, what, datagram: datagram.clone() });
        }
    }

    /// Headers are enough: a checksum over the rest is among them.
    fn note(&mut self, datagram: &Datagram) {
        let payload = &datagram.payload;
        let head = &payload[..payload.len().min(16)];
        let time = self.now.as_nanos().to_le_bytes();
        let length = (payload.len() as u32).to_le_bytes();
        for byte in time.iter().chain(&length).chain(head) {
            self.fingerprint = (self.fingerprint ^ u64::from(*byte)).wrapping_mul(0x100_0000_01b3);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;

    use braidftp_base::Ecn;

    use super::*;

    /// Sends a numbered packet every millisecond, and answers each that comes with half of it.
    #[derive(Debug)]
    struct Chatter {
        here: SocketAddr,
        there: SocketAddr,
        left: u8,
        next: Time,
        answers: VecDeque<Datagram>,
        got: Vec<(Time, usize)>,
        told_twice: bool,
        drained: bool,
    }

    impl Actor for Chatter {
        fn handle(&mut self, now: Time, datagram: Datagram) {
            self.told_twice |= !self.drained;
            self.drained = false;
            self.got.push((now, datagram.payload.len()));
            let half = datagram.payload.len() / 2;
            if half > 0 {
                let payload = datagram.payload.slice(..half);
                self.answers.push_back(Datagram {
                    from: self.here,
                    to: datagram.from,
                    ecn: Ecn::NotEct,
                    payload,
                });
            }
        }

        fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
            if let Some(answer) = self.answers.pop_front() {
                return Output::Send(answer);
            }
            if self.left > 0 && now >= self.next {
                self.left -= 1;
                self.next = now + Duration::from_millis(1);
                let payload = vec![self.left; 100].into();
                return Output::Send(Datagram { from: self.here, to: self.there, ecn: Ecn::NotEct, payload });
            }
            self.drained = true;
            Output::Wait((self.left > 0).then_some(self.next))
        }
    }

    fn world(seed: u64, link: &str) -> (World<Chatter>, [HostId; 2]) {
        let mut world = World::new(seed);
        let addresses: [SocketAddr; 2] = ["10.0.0.1:1".parse().unwrap(), "10.0.0.2:1".parse().unwrap()];
        let hosts = [(0, 1), (1, 0)].map(|(here, there)| {
            let (here, there) = (addresses[here], addresses[there]);
            let chatter = Chatter {
                here,
                there,
                left: 50,
                next: Time::ZERO,
                answers: VecDeque::new(),
                got: Vec::new(),
                told_twice: false,
                drained: false,
            };
            let link = world.add_link(link.parse().unwrap());
            world.route(here.ip(), there.ip(), link);
            world.add_host(chatter, [here.ip()])
        });
        (world, hosts)
    }

    #[test]
    fn packets_take_the_time_of_their_link() {
        let (mut world, hosts) = world(1, "delay=5ms");
        world.run_until(Time::from_millis(5));
        assert_eq!(world.host(hosts[1]).got, [(Time::from_millis(5), 100)]);
        assert_eq!(world.now(), Time::from_millis(5));
        assert!(world.run_while(Duration::from_secs(1), |world| world.host(hosts[0]).left > 0));
        assert_eq!(world.now(), Time::from_millis(49));
    }

    #[test]
    fn a_host_is_drained_before_it_is_told_anything_new() {
        let (mut world, hosts) = world(1, "duplicate=1");
        world.run_until(Time::from_millis(100));
        for host in hosts {
            assert!(!world.host(host).told_twice);
            assert!(world.host(host).got.len() > 100);
        }
    }

    #[test]
    fn one_seed_is_one_run_and_another_is_another() {
        let run = |seed| {
            let (mut world, hosts) =
                world(seed, "rate=1mbit,delay=3ms,loss=0.2,reorder=0.1:4ms,duplicate=0.1,corrupt=0.1");
            world.run_until(Time::from_millis(1_000));
            assert!(world.links().all(|link| link.counters().is_conserved() && link.counters().queued == 0));
            (world.fingerprint(), world.host(hosts[0]).got.clone())
        };
        assert_eq!(run(7), run(7));
        assert_ne!(run(7).0, run(8).0);
    }

    #[test]
    fn where_there_is_no_route_packets_are_counted_as_gone() {
        let (mut world, _) = world(1, "");
        world.routes.clear();
        world.run_until(Time::from_millis(100));
        assert_eq!(world.lost_in_space(), 100);
    }

    #[test]
    fn a_record_holds_what_left_and_what_arrived() {
        let (mut world, _) = world(1, "lose=0");
        world.record();
        world.run_until(Time::ZERO);
        let sights: Vec<_> = world.take_record().iter().map(|seen| seen.what).collect();
        assert_eq!(sights, [Sight::Sent, Sight::Sent]);
        assert!(world.take_record().is_empty());
    }
}
