//! What the figures of `utilisation` and `fairness` share: flows that send without end over one bottleneck, and what each of
//! them gets of it, tick by tick.
//!
//! ```text
//! senders ----- router ===== bottleneck ===== router ----- readers
//!               (loss, queue, rate, delay)           (each flow's own delay, if it has one)
//! ```
//! A link loses packets before it queues them, as Dummynet does: what is lost took no time on the wire.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Bulk, Protocol, Span};
use braidftp_sim::link::{Bandwidth, Counters, LinkConfig, Queue};
use braidftp_sim::{Host, HostId, LinkId, World, topology};
use braidftp_tcp as tcp;

use super::ftp;
use crate::figure::{Axis, Value};

/// Bytes of a full packet on the wire, IPv4's header included: those of the papers.
pub const PACKET: usize = 1_500;
/// Of a full packet of SCTP, what is user data: 1500 bytes less IPv4 (20), the common header (12) and that of DATA (16).
pub const SCTP_SHARE: f64 = 1_452.0 / 1_500.0;
/// Of a full segment of TCP: 1500 bytes less IPv4 (20), TCP (20) and timestamps (12).
pub const TCP_SHARE: f64 = 1_448.0 / 1_500.0;
/// How often a run is looked at.
pub const TICK: Duration = Duration::from_millis(20);

/// One flow over the bottleneck.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Over what, with which controller.
    pub protocol: Protocol,
    /// From when to when.
    pub span: Span,
    /// What its packets travel beyond the bottleneck's delay, each way.
    pub delay: Duration,
}

/// Every controller there is, as the values of an axis: one more of them is one more line.
pub const CONTROLLERS: &[Value] = &controllers();

const fn controllers() -> [Value; cc::Kind::ALL.len()] {
    let mut values = [Value::Number(0.0); cc::Kind::ALL.len()];
    let mut index = 0;
    while index < values.len() {
        values[index] = Value::Name(cc::Kind::ALL[index].name());
        index += 1;
    }
    values
}

/// The controllers as lines of a picture.
pub const CONTROLLER: Axis =
    Axis { name: "controller", label: "congestion control", values: CONTROLLERS, show: controller };

/// A controller's name; the one that the profile `modern` has is marked.
pub fn controller(value: &Value) -> String {
    let name = value.to_string();
    if name == default_controller().name() { format!("{name} (default)") } else { name }
}

/// What an association has that nobody told otherwise.
pub fn default_controller() -> cc::Kind {
    sctp::Profile::Modern.config().congestion_control
}

/// The controller of a name.
///
/// # Panics
/// If there is none.
pub fn kind(name: &str) -> cc::Kind {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// An association of today in packets of 1500 bytes, with this controller and buffers that hold it back nowhere.
pub fn sctp(kind: cc::Kind, buffer_bytes: usize) -> sctp::Config {
    let modern = ftp::modern_sctp();
    sctp::Config {
        congestion_control: kind,
        receive_buffer_bytes: modern.receive_buffer_bytes.max(buffer_bytes),
        send_buffer_bytes: modern.send_buffer_bytes.max(buffer_bytes),
        ..modern
    }
}

/// A TCP connection of today, with this controller and buffers that hold it back nowhere.
pub fn tcp(kind: cc::Kind, buffer_bytes: usize) -> tcp::Config {
    let modern = tcp::Profile::Modern.config();
    tcp::Config {
        congestion_control: kind,
        receive_buffer_bytes: modern.receive_buffer_bytes.max(buffer_bytes),
        send_buffer_bytes: modern.send_buffer_bytes.max(buffer_bytes),
        ..modern
    }
}

/// As a flow takes them.
pub fn over_sctp(config: sctp::Config) -> Protocol {
    Protocol::Sctp(Arc::new(config))
}

/// As a flow takes them.
pub fn over_tcp(config: tcp::Config) -> Protocol {
    Protocol::Tcp(Arc::new(config))
}

/// A bottleneck, one way.
pub fn link(bits_per_second: u64, delay: Duration, queue: Queue) -> LinkConfig {
    LinkConfig {
        rate: Bandwidth::Fixed(Rate::from_bits_per_second(bits_per_second)),
        delay,
        queue,
        overhead_bytes: 20,
        ..LinkConfig::default()
    }
}

/// What a path holds in flight: rate times round trip, in bytes.
pub fn bdp_bytes(bits_per_second: u64, round_trip: Duration) -> f64 {
    bits_per_second as f64 * round_trip.as_secs_f64() / 8.0
}

/// Links one way, in the order in which packets take them; the first of the way there is the bottleneck that is watched.
#[derive(Debug, Clone)]
pub struct Ways {
    /// To the readers.
    pub there: Vec<LinkConfig>,
    /// To the senders.
    pub back: Vec<LinkConfig>,
}

impl Ways {
    /// One link each way.
    pub fn of(there: LinkConfig, back: LinkConfig) -> Self {
        Self { there: vec![there], back: vec![back] }
    }
}

/// What was seen of a run.
#[derive(Debug, Clone)]
pub struct Seen {
    /// Bytes that each flow has brought, at each tick, from 0 on.
    read: Vec<Vec<u64>>,
    /// What waits at the bottleneck at each tick, in seconds of its wire.
    waits: Vec<f64>,
    /// What the bottleneck has counted, at each tick.
    counters: Vec<Counters>,
    /// What senders have sent again, at the end, flow by flow.
    pub resent: Vec<Resent>,
}

/// What a sender has sent again.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resent {
    /// Chunks or segments.
    pub pieces: u64,
    /// Times that its retransmission timer ran out.
    pub timeouts: u64,
}

impl Seen {
    /// Bits of user data a second that a flow brought between two times.
    pub fn rate(&self, flow: usize, from: Duration, to: Duration) -> f64 {
        let read = &self.read[flow];
        (read[tick(to)] - read[tick(from)]) as f64 * 8.0 / (to - from).as_secs_f64()
    }

    /// The same of each flow.
    pub fn rates(&self, from: Duration, to: Duration) -> Vec<f64> {
        (0..self.read.len()).map(|flow| self.rate(flow, from, to)).collect()
    }

    /// How long a packet waits at the bottleneck, in the mean of the ticks between two times, in seconds.
    pub fn queue_seconds(&self, from: Duration, to: Duration) -> f64 {
        let waits = &self.waits[tick(from)..=tick(to)];
        waits.iter().sum::<f64>() / waits.len() as f64
    }

    /// Which part of the packets that reached the queue it dropped between two times, early or for want of room.
    pub fn dropped(&self, from: Duration, to: Duration) -> f64 {
        let at = |time| {
            let Counters { packets_in, dropped_loss, dropped_queue, dropped_early, .. } =
                self.counters[tick(time)];
            ((packets_in - dropped_loss) as f64, (dropped_queue + dropped_early) as f64)
        };
        let (from, to) = (at(from), at(to));
        (to.1 - from.1) / (to.0 - from.0).max(1.0)
    }

    /// Which part of the packets that reached the bottleneck it marked between two times.
    pub fn marked(&self, from: Duration, to: Duration) -> f64 {
        let (from, to) = (self.counters[tick(from)], self.counters[tick(to)]);
        (to.marked - from.marked) as f64 / (to.packets_in - from.packets_in).max(1) as f64
    }
}

fn tick(time: Duration) -> usize {
    (time.as_nanos() / TICK.as_nanos()) as usize
}

/// Lets flows send up to then, and watches.
pub fn watch(flows: &[Flow], ways: &Ways, until: Duration, seed: u64) -> Seen {
    let mut world = World::new(seed);
    let [left, right] = topology::dumbbell_addresses(flows.len());
    let [there, back] = [&ways.there, &ways.back]
        .map(|links| links.iter().map(|link| world.add_link(link.clone())).collect::<Vec<LinkId>>());
    let mut ends: Vec<[HostId; 2]> = Vec::new();
    for (number, flow) in flows.iter().enumerate() {
        let (here, beyond) = (left[number], right[number]);
        let mut own = |links: &[LinkId], is_last: bool| {
            let mut links = links.to_vec();
            if !flow.delay.is_zero() {
                let far = LinkConfig { delay: flow.delay, overhead_bytes: 20, ..LinkConfig::default() };
                let at = if is_last { links.len() } else { 0 };
                links.insert(at, world.add_link(far));
            }
            links
        };
        let (there, back) = (own(&there, true), own(&back, false));
        world.route_via(here, beyond, &there);
        world.route_via(beyond, here, &back);
        let [from, to] = [here, beyond].map(|ip| SocketAddr::new(ip, 0));
        let [mut sender, reader] =
            bulk::flow_during(flow.span, &flow.protocol, from, to, seed ^ number as u64);
        sender.parts_mut().1.write_at_a_time(write_bytes(&ways.there[0]));
        ends.push([world.add_host(sender, [here]), world.add_host(reader, [beyond])]);
    }
    let mut seen = Seen {
        read: vec![Vec::new(); flows.len()],
        waits: Vec::new(),
        counters: Vec::new(),
        resent: Vec::new(),
    };
    for number in 0..=tick(until) {
        let now = Time::ZERO + TICK * number as u32;
        world.run_until(now);
        world.settle();
        for (read, [_, reader]) in seen.read.iter_mut().zip(&ends) {
            read.push(world.host(*reader).app().bytes_read());
        }
        let bottleneck = world.link(there[0]);
        let rate = rate_at(&ways.there[0], now);
        seen.waits.push(bottleneck.waiting_bytes() as f64 * 8.0 / rate);
        seen.counters.push(bottleneck.counters());
    }
    world.check();
    seen.resent = ends.iter().map(|[sender, _]| resent(world.host(*sender))).collect();
    seen
}

/// What a sender writes at a time: whole packets, about 10 ms of the wire, so that what is on its way within a message is little
/// of what is counted.
fn write_bytes(bottleneck: &LinkConfig) -> usize {
    let packet = SCTP_SHARE * PACKET as f64;
    let packets = rate_at(bottleneck, Time::ZERO) / 8.0 * 0.01 / packet;
    packets.clamp(1.0, 45.0).floor() as usize * packet as usize
}

/// Bits a second of a link at a time.
fn rate_at(link: &LinkConfig, at: Time) -> f64 {
    match &link.rate {
        Bandwidth::Fixed(rate) => rate.bits_per_second() as f64,
        Bandwidth::Steps(steps) => steps.at(at).bits_per_second() as f64,
        Bandwidth::Unlimited | Bandwidth::Trace(_) => f64::INFINITY,
    }
}

fn resent(host: &Host<Bulk>) -> Resent {
    let association = host.app().association().and_then(|id| host.endpoint().association(id));
    if let Some(association) = association {
        let paths = association.stats().paths;
        return Resent {
            pieces: paths.iter().map(|path| path.retransmitted_chunks).sum(),
            timeouts: paths.iter().map(|path| path.timeouts).sum(),
        };
    }
    let connection = host.app().connection().and_then(|id| host.tcp().connection(id));
    connection.map_or(Resent::default(), |connection| {
        let counters = connection.stats().counters;
        Resent { pieces: counters.retransmissions, timeouts: counters.timeouts }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn flow(begins_ms: u64, delay_ms: u64) -> Flow {
        let config = sctp(cc::Kind::Sctp, 1 << 20);
        let span = Span { begins: Time::from_millis(begins_ms), ends: None };
        Flow { protocol: over_sctp(config), span, delay: Duration::from_millis(delay_ms) }
    }

    #[test]
    fn one_flow_has_the_wire_less_its_headers_and_a_queue_that_is_full_adds_what_it_holds() {
        let link = link(10_000_000, Duration::from_millis(5), Queue::Packets(20));
        let seen = watch(&[flow(0, 0)], &Ways::of(link.clone(), link), Duration::from_secs(10), 1);
        let (from, to) = (Duration::from_secs(2), Duration::from_secs(10));
        let utilisation = seen.rate(0, from, to) / (10e6 * SCTP_SHARE);
        assert!((0.9..1.01).contains(&utilisation), "{utilisation}");
        let queue = seen.queue_seconds(from, to);
        // 20 packets of 1.2 ms are the most.
        assert!((0.002..0.024).contains(&queue), "{queue}");
        assert!(seen.dropped(from, to) > 0.0 && seen.marked(from, to) == 0.0);
    }

    #[test]
    fn a_delay_of_its_own_is_in_a_flows_round_trip() {
        let link = link(10_000_000, Duration::from_millis(5), Queue::Packets(1_000));
        let seen = watch(&[flow(0, 45)], &Ways::of(link.clone(), link), Duration::from_millis(400), 1);
        // INIT and COOKIE ECHO take a round trip of 100 ms each, and data half of one more.
        assert_eq!(seen.read[0][tick(Duration::from_millis(240))], 0);
        assert!(seen.read[0][tick(Duration::from_millis(280))] > 0);
    }
}
