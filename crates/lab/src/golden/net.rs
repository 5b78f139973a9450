//! The two hosts of a golden scenario, the links between them, and the clock: `sim::Link`s and the real
//! endpoints.
//!
//! Scenarios drop the nth transmission of a chunk, which the links of `sim::World` cannot do, so this
//! module has its own loop.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use braidftp_base::{Datagram, Output, Rate, Time};
use braidftp_sctp::wire::{Chunk, Packet};
use braidftp_sctp::{AssociationId, Endpoint, Event};
use braidftp_sim::link::{Bandwidth, Link, LinkConfig, Queue};

use super::scenario::{Dropped, Scenario, Victim, What, Wire};

/// The scenarios use IPv4 without options.
const IPV4_HEADER: usize = 20;

/// One of the two hosts.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Side {
    Sender,
    Receiver,
}

use Side::{Receiver, Sender};

/// A host.
#[derive(Debug)]
pub(crate) struct Host {
    pub(crate) endpoint: Endpoint,
    interfaces: Vec<u8>,
    pub(crate) id: Option<AssociationId>,
    wakes: Option<Time>,
    /// The host was closed abruptly: it neither sends nor receives.
    pub(crate) is_dead: bool,
}

#[derive(Debug)]
struct OneWay {
    link: Option<Link>,
    offered: u64,
    rate_bps: f64,
    delay_s: f64,
    /// The packets in the link.
    inside: VecDeque<Inside>,
    leaves_at: Time,
    /// When the transmitter becomes free, by the suite's clock.
    free_at: Seconds,
    /// The beginning of the current busy period, and its index among the events of that time.
    busy_since: Seconds,
    turn: u64,
}

/// A time of the suite's clock, a non-negative 64-bit float, stored as bits, which have the same order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Default)]
struct Seconds(u64);

impl Seconds {
    fn new(seconds: f64) -> Self {
        Self(seconds.to_bits())
    }

    fn plus(self, seconds: f64) -> Self {
        Self::new(f64::from_bits(self.0) + seconds)
    }
}

/// A packet in a link. Packets that arrive at the same time are ordered as in the suite's event list: first
/// by its clock, whose last bits may differ; then by the beginning of transmission. Of two links that
/// transmit back to back at the same times, the one that became busy last comes first, since the event that
/// made it busy was scheduled before the end of the other link's packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
struct Inside {
    arrives: Time,
    arrives_by_suite: Seconds,
    begins: Seconds,
    busy_since: Reverse<Seconds>,
    turn: u64,
}

/// Hosts, links and the clock.
#[derive(Debug)]
pub(crate) struct Net {
    pub(crate) now: Time,
    /// The time by the suite's clock.
    clock: Seconds,
    /// The time of the first DATA by the suite's clock.
    first_data: Seconds,
    pub(crate) hosts: [Host; 2],
    router: Option<u8>,
    links: BTreeMap<(u8, u8), OneWay>,
    dropped: Vec<Dropped>,
    turns: u64,
    pub(crate) seen: Seen,
}

/// Observations of DATA chunks.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    initial_tsn: Option<u32>,
    /// The number of transmissions of each TSN, counted from 1.
    departures: BTreeMap<u32, u32>,
    pub(crate) first_data: Option<Time>,
    /// Retransmissions over a link that is up, with their times.
    pub(crate) retransmissions: Vec<(Time, u32, u8)>,
    /// The times of first arrivals at the receiver.
    pub(crate) arrivals: Vec<Time>,
    arrived: BTreeSet<u32>,
    /// The trace, if requested.
    pub(crate) trace: Option<Vec<String>>,
}

/// The address of a node.
pub(crate) fn address(node: u8) -> SocketAddr {
    // Port 0: SCTP over IP.
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, 0, node + 1)), 0)
}

fn node(address: SocketAddr) -> u8 {
    match address.ip() {
        IpAddr::V4(ip) => ip.octets()[3] - 1,
        IpAddr::V6(_) => unreachable!("all nodes have IPv4 addresses"),
    }
}

impl Net {
    pub(crate) fn new(scenario: &Scenario) -> Result<Self, String> {
        let mut links = BTreeMap::new();
        for wire in &scenario.links {
            for (from, to, queue) in [(wire.a, wire.b, wire.queue_ab), (wire.b, wire.a, wire.queue_ba)] {
                let config = LinkConfig {
                    rate: Bandwidth::Fixed(Rate::from_bits_per_second(wire.rate_bps)),
                    delay: Duration::from_nanos((wire.delay_s * 1e9).round() as u64),
                    queue: Queue::Packets(queue),
                    overhead_bytes: IPV4_HEADER,
                    ..LinkConfig::default()
                };
                links.insert(
                    (from, to),
                    OneWay {
                        link: Some(Link::new(config, 0, 0)),
                        offered: 0,
                        rate_bps: wire.rate_bps as f64,
                        delay_s: wire.delay_s,
                        inside: VecDeque::new(),
                        leaves_at: Time::ZERO,
                        free_at: Seconds::default(),
                        busy_since: Seconds::default(),
                        turn: 0,
                    },
                );
            }
        }
        let host = |seed: u8, interfaces: &[u8]| Host {
            endpoint: Endpoint::new([seed; 32]),
            interfaces: interfaces.to_vec(),
            id: None,
            wakes: Some(Time::ZERO),
            is_dead: false,
        };
        Ok(Self {
            now: Time::ZERO,
            clock: Seconds::default(),
            first_data: Seconds::new(first_data(scenario)),
            hosts: [host(1, &scenario.sender.interfaces), host(2, &scenario.receiver.interfaces)],
            router: scenario.router,
            links,
            dropped: scenario.dropped()?,
            turns: 0,
            seen: Seen::default(),
        })
    }

    /// Advances the clock to `at`.
    pub(crate) fn advance(&mut self, at: Time) {
        self.now = at;
        self.clock = match self.seen.first_data {
            Some(first) => self.first_data.plus(at.since(first).as_secs_f64()),
            None => Seconds::new(at.as_nanos() as f64 / 1e9),
        };
    }

    pub(crate) fn host(&mut self, side: Side) -> &mut Host {
        &mut self.hosts[side as usize]
    }

    /// Polls a host up to its next event.
    pub(crate) fn drain(&mut self, side: Side) -> Option<Event> {
        loop {
            let now = self.now;
            let host = self.host(side);
            if host.is_dead {
                host.wakes = None;
                return None;
            }
            match host.endpoint.poll(now) {
                Output::Send(transmit) => {
                    transmit.into_datagrams().for_each(|datagram| self.leave(side, datagram));
                }
                Output::Event((id, event)) => {
                    host.id = Some(id);
                    return Some(event);
                }
                Output::Wait(at) => {
                    host.wakes = at;
                    return None;
                }
            }
        }
    }

    /// Passes a packet from a host to a link.
    fn leave(&mut self, side: Side, datagram: Datagram) {
        let from = match self.router {
            // With a router, every packet is sent on the host's first interface.
            Some(_) => self.hosts[side as usize].interfaces[0],
            None => node(datagram.from),
        };
        let next = self.router.unwrap_or(node(datagram.to));
        self.enter(from, next, datagram);
    }

    /// Passes a packet into a link.
    fn enter(&mut self, from: u8, to: u8, datagram: Datagram) {
        let now = self.now;
        let from_sender = self.hosts[Sender as usize].interfaces.contains(&from);
        let chunks = chunks_of(&datagram);
        // Without a link, the packet is lost.
        let Some(link) = self.links.get_mut(&(from, to)) else { return };
        let up = link.link.is_some();
        let position = link.offered;
        link.offered += 1;
        let (nths, begins_anew) =
            if from_sender { self.note_departures(&chunks, from, up) } else { (Vec::new(), false) };
        let hit = self.dropped.iter().position(|dropped| {
            (dropped.from, dropped.to) == (from, to)
                && match dropped.what {
                    Victim::Any => dropped.position == position,
                    Victim::Data { tsn, nth } => nths.contains(&(tsn, nth)),
                    Victim::Control(letter) => {
                        position >= dropped.position
                            && chunks.iter().any(|chunk| letter_of(chunk) == Some(letter))
                    }
                }
        });
        if let Some(trace) = &mut self.seen.trace {
            let what: Vec<_> = chunks.iter().map(ToString::to_string).collect();
            let verb = if hit.is_some() || !up { "d" } else { "+" };
            let length = datagram.payload.len() + IPV4_HEADER;
            trace.push(format!(
                "{verb} {:.6} {from} {to} {length} {} {nths:?}",
                now.as_nanos() as f64 / 1e9,
                what.join(" ")
            ));
        }
        if let Some(index) = hit {
            self.dropped.remove(index);
            return;
        }
        if begins_anew {
            self.links.values_mut().for_each(|one| one.free_at = Seconds::default());
        }
        self.offer(from, to, datagram);
    }

    /// Counts the transmissions of the DATA chunks that the sender passes into a link. Returns their TSNs
    /// with the numbers of their transmissions, and whether the first DATA is among them.
    fn note_departures(&mut self, chunks: &[Chunk], from: u8, up: bool) -> (Vec<(u32, u32)>, bool) {
        let now = self.now;
        let mut nths = Vec::new();
        let mut begins_anew = false;
        for chunk in chunks {
            if let Chunk::Init(init) = chunk {
                self.seen.initial_tsn.get_or_insert(init.initial_tsn.0);
            }
            // The traces have no line for packets sent to a link that is down, so those are not counted.
            if let (Chunk::Data(data), true) = (chunk, up) {
                let tsn = self.seen.number(data.tsn.0);
                let departures = self.seen.departures.entry(tsn).or_default();
                *departures += 1;
                nths.push((tsn, *departures));
                if self.seen.first_data.is_none() {
                    self.seen.first_data = Some(now);
                    // End of the handshake, which takes another time in ns-2.
                    self.clock = self.first_data;
                    begins_anew = true;
                }
                if *departures > 1 {
                    self.seen.retransmissions.push((now, tsn, from));
                }
            }
        }
        (nths, begins_anew)
    }

    /// Puts a packet into a link that is up, and computes its arrival in the order of ns-2's events.
    fn offer(&mut self, from: u8, to: u8, datagram: Datagram) {
        let now = self.now;
        self.turns += 1;
        let clock = self.clock;
        let one = self.links.get_mut(&(from, to)).expect("just looked up");
        let Some(link) = &mut one.link else { return };
        let Bandwidth::Fixed(rate) = link.config().rate else { unreachable!("each link has a rate") };
        let (delay, refused) = (link.config().delay, link.counters().dropped_queue);
        let wire_bytes = datagram.payload.len() + IPV4_HEADER;
        link.handle(now, datagram);
        if link.counters().dropped_queue > refused {
            return;
        }
        // A packet that arrives exactly when the link becomes free finds it busy: its arrival was scheduled
        // earlier.
        if clock > one.free_at {
            one.turn = self.turns;
            one.busy_since = clock;
        }
        let begins = clock.max(one.free_at);
        let (takes, free_at) = (8.0 * wire_bytes as f64 / one.rate_bps, one.leaves_at);
        one.free_at = begins.plus(takes);
        one.leaves_at = now.max(free_at) + rate.transmit_time(wire_bytes);
        let arrives = one.leaves_at + delay;
        let arrives_by_suite = begins.plus(takes + one.delay_s);
        let busy_since = Reverse(one.busy_since);
        one.inside.push_back(Inside { arrives, arrives_by_suite, begins, busy_since, turn: one.turn });
    }

    /// Takes both directions down; all packets in them are lost.
    pub(crate) fn link_down(&mut self, a: u8, b: u8) {
        for ends in [(a, b), (b, a)] {
            if let Some(link) = self.links.get_mut(&ends) {
                link.link = None;
            }
        }
    }

    /// Delivers the next packet that has arrived by now; returns its receiver.
    pub(crate) fn arrive(&mut self) -> Option<Side> {
        loop {
            let up = self.links.iter().filter(|(_, one)| one.link.is_some());
            let heads = up.filter_map(|(ends, one)| Some((*one.inside.front()?, *ends)));
            let (head, (from, to)) = heads.min()?;
            if head.arrives > self.now {
                return None;
            }
            let one = self.links.get_mut(&(from, to)).expect("the link exists");
            one.inside.pop_front();
            self.clock = head.arrives_by_suite;
            let link = one.link.as_mut().expect("the link is up");
            let Output::Send(datagram) = link.poll(self.now) else { unreachable!("a packet has arrived") };
            if self.router == Some(to) {
                self.enter(to, node(datagram.to), datagram);
                continue;
            }
            let side = if self.hosts[Sender as usize].interfaces.contains(&to) { Sender } else { Receiver };
            self.note_arrival(side, &datagram);
            let now = self.now;
            let host = self.host(side);
            if !host.is_dead {
                host.endpoint.handle(now, datagram);
            }
            return Some(side);
        }
    }

    fn note_arrival(&mut self, side: Side, datagram: &Datagram) {
        if side == Receiver {
            for chunk in chunks_of(datagram) {
                if let Chunk::Data(data) = chunk
                    && self.seen.arrived.insert(data.tsn.0)
                {
                    self.seen.arrivals.push(self.now);
                }
            }
        }
    }

    /// The time of the next event.
    pub(crate) fn next(&mut self) -> Option<Time> {
        let now = self.now;
        let links = self.links.values_mut().filter_map(|one| one.link.as_mut()).filter_map(|link| match link
            .poll(now)
        {
            Output::Wait(at) => at,
            Output::Send(_) => unreachable!("arrived packets were delivered"),
            Output::Event(never) => match never {},
        });
        let hosts = self.hosts.iter().filter_map(|host| host.wakes);
        links.chain(hosts).min()
    }
}

impl Seen {
    /// A TSN, counted from 1.
    fn number(&self, tsn: u32) -> u32 {
        tsn.wrapping_sub(self.initial_tsn.unwrap_or(tsn)).wrapping_add(1)
    }
}

/// The time of the first DATA by the suite's clock: after the handshake on the primary path and the
/// HEARTBEAT of the slowest path (README §4.2, H1 and H2), if the trace agrees.
fn first_data(scenario: &Scenario) -> f64 {
    let seen = scenario.golden.first_data_us as f64 / 1e6;
    let start = scenario.events.iter().find(|event| matches!(event.what, What::Start | What::Send { .. }));
    let primary = scenario.sender.primary.or_else(|| scenario.receiver.interfaces.last().copied());
    let by = |wire: &Wire, at: f64, bytes: f64| at + (8.0 * bytes / wire.rate_bps as f64 + wire.delay_s);
    let first = scenario.links.iter().find(|wire| Some(wire.b) == primary);
    let (Some(start), Some(first)) = (start, first) else { return seen };
    let up = [56.0, 56.0, 36.0, 36.0].iter().fold(start.time, |at, bytes| by(first, at, *bytes));
    let answered = |wire: &Wire| by(wire, by(wire, up, 56.0), 56.0);
    let all = scenario.links.iter().map(answered).fold(up, f64::max);
    if (all - seen).abs() < 2e-6 { all } else { seen }
}

fn chunks_of(datagram: &Datagram) -> Vec<Chunk> {
    let packet = Packet::decode_observed(datagram.payload.clone());
    packet.map(|packet| packet.chunks().filter_map(Result::ok).collect()).unwrap_or_default()
}

/// The letter of a control chunk in the traces.
fn letter_of(chunk: &Chunk) -> Option<char> {
    match chunk {
        Chunk::Init(_) | Chunk::InitAck(_) | Chunk::CookieEcho(_) | Chunk::CookieAck => Some('I'),
        Chunk::Sack(_) => Some('S'),
        Chunk::NrSack(_) => Some('N'),
        Chunk::Heartbeat(_) => Some('H'),
        Chunk::HeartbeatAck(_) => Some('B'),
        Chunk::ForwardTsn(_) => Some('R'),
        _ => None,
    }
}
