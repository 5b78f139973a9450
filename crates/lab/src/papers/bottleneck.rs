//! Shared by the figures of `utilisation` and `fairness`: unlimited flows over one bottleneck, with the
//! throughput of each flow per tick.
//!
//! ```text
//! senders ----- router ===== bottleneck ===== router ----- readers
//!               (loss, queue, rate, delay)           (each flow's additional delay, if any)
//! ```
//! Like Dummynet, a link drops lost packets before it queues them, so they take no transmission time.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc as cc;
use braidftp_sctp as sctp;
use braidftp_sim::apps::bulk::{self, Bulk, Protocol, Span};
use braidftp_sim::link::{Bandwidth, Counters, LinkConfig, Queue};
use braidftp_sim::{Host, HostId, LinkId, Random, World, topology};
use braidftp_tcp as tcp;

use super::ftp;
use crate::figure::{Axis, Value};

/// The length of a full packet including the IPv4 header in bytes, as in the papers.
pub const PACKET: usize = 1_500;
/// The share of user data in a full packet of SCTP: 1500 bytes less IPv4 (20), common header (12) and DATA
/// header (16).
pub const SCTP_SHARE: f64 = 1_452.0 / 1_500.0;
/// The share in a full TCP segment: 1500 bytes less IPv4 (20), TCP (20) and timestamps (12).
pub const TCP_SHARE: f64 = 1_448.0 / 1_500.0;
/// The sampling interval.
pub const TICK: Duration = Duration::from_millis(20);

/// A flow over the bottleneck.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The protocol, with its controller.
    pub protocol: Protocol,
    /// Start and end.
    pub span: Span,
    /// The one-way delay in addition to the bottleneck's, in both directions.
    pub delay: Duration,
}

/// Every controller, as the values of an axis: a new controller becomes another line.
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

/// The axis of controllers.
pub const CONTROLLER: Axis =
    Axis { name: "controller", label: "congestion control", values: CONTROLLERS, show: &controller };

/// A controller's name; that of the profile `modern` is marked.
pub fn controller(value: &Value) -> String {
    let name = value.to_string();
    if name == default_controller().name() { format!("{name} (default)") } else { name }
}

/// The default controller of an association.
pub fn default_controller() -> cc::Kind {
    sctp::Profile::Modern.config().congestion.control
}

/// Returns the controller of a name.
///
/// # Panics
/// If there is none.
pub fn kind(name: &str) -> cc::Kind {
    name.parse().unwrap_or_else(|error| panic!("{error}"))
}

/// An association of the profile `modern` with packets of 1500 bytes, this controller, and buffers that
/// never limit it.
pub fn sctp(kind: cc::Kind, buffer_bytes: usize) -> sctp::Config {
    ftp::modern_sctp().with(|c| {
        c.congestion.control = kind;
        c.memory.receive_buffer_bytes = c.memory.receive_buffer_bytes.max(buffer_bytes);
        c.memory.send_buffer_bytes = c.memory.send_buffer_bytes.max(buffer_bytes);
    })
}

/// A TCP connection of the profile `modern` with this controller and buffers that never limit it.
pub fn tcp(kind: cc::Kind, buffer_bytes: usize) -> tcp::Config {
    let modern = tcp::Profile::Modern.config();
    tcp::Config {
        congestion_control: kind,
        receive_buffer_bytes: modern.receive_buffer_bytes.max(buffer_bytes),
        send_buffer_bytes: modern.send_buffer_bytes.max(buffer_bytes),
        ..modern
    }
}

/// As the protocol of a flow.
pub fn over_sctp(config: sctp::Config) -> Protocol {
    Protocol::Sctp(Arc::new(config))
}

/// As the protocol of a flow.
pub fn over_tcp(config: tcp::Config) -> Protocol {
    Protocol::Tcp(Arc::new(config))
}

/// A bottleneck in one direction.
pub fn link(bits_per_second: u64, delay: Duration, queue: Queue) -> LinkConfig {
    LinkConfig {
        rate: Bandwidth::Fixed(Rate::from_bits_per_second(bits_per_second)),
        delay,
        queue,
        overhead_bytes: 20,
        ..LinkConfig::default()
    }
}

/// The bandwidth-delay product of a path in bytes.
pub fn bdp_bytes(bits_per_second: u64, round_trip: Duration) -> f64 {
    bits_per_second as f64 * round_trip.as_secs_f64() / 8.0
}

/// The links of each direction, in the order in which packets pass them; the first one to the readers is
/// the observed bottleneck.
#[derive(Debug, Clone)]
pub struct Ways {
    /// To the readers.
    pub there: Vec<LinkConfig>,
    /// To the senders.
    pub back: Vec<LinkConfig>,
}

impl Ways {
    /// One link in each direction.
    pub fn of(there: LinkConfig, back: LinkConfig) -> Self {
        Self { there: vec![there], back: vec![back] }
    }
}

/// Observations of a run.
#[derive(Debug, Clone)]
pub struct Seen {
    /// The bytes received by each flow at each tick, from 0 on.
    read: Vec<Vec<u64>>,
    /// The queueing delay of the bottleneck at each tick, in seconds.
    waits: Vec<f64>,
    /// The counters of the bottleneck at each tick.
    counters: Vec<Counters>,
    /// The retransmissions of each sender at the end.
    pub resent: Vec<Resent>,
}

/// The retransmissions of a sender.
#[derive(Debug, Clone, Copy, Default)]
pub struct Resent {
    /// Chunks or segments.
    pub pieces: u64,
    /// The number of retransmission time-outs.
    pub timeouts: u64,
}

impl Seen {
    /// The rate of user data of a flow between two times, in bits per second.
    pub fn rate(&self, flow: usize, from: Duration, to: Duration) -> f64 {
        let read = &self.read[flow];
        (read[tick(to)] - read[tick(from)]) as f64 * 8.0 / (to - from).as_secs_f64()
    }

    /// The rates of all flows.
    pub fn rates(&self, from: Duration, to: Duration) -> Vec<f64> {
        (0..self.read.len()).map(|flow| self.rate(flow, from, to)).collect()
    }

    /// The mean queueing delay at the bottleneck between two times, in seconds.
    pub fn queue_seconds(&self, from: Duration, to: Duration) -> f64 {
        let waits = &self.waits[tick(from)..=tick(to)];
        waits.iter().sum::<f64>() / waits.len() as f64
    }

    /// The fraction of the packets reaching the queue that it dropped between two times, by AQM or
    /// overflow.
    pub fn dropped(&self, from: Duration, to: Duration) -> f64 {
        let at = |time| {
            let Counters { packets_in, dropped_loss, dropped_queue, dropped_early, .. } =
                self.counters[tick(time)];
            ((packets_in - dropped_loss) as f64, (dropped_queue + dropped_early) as f64)
        };
        let (from, to) = (at(from), at(to));
        (to.1 - from.1) / (to.0 - from.0).max(1.0)
    }

    /// The fraction of the packets reaching the bottleneck that it marked between two times.
    pub fn marked(&self, from: Duration, to: Duration) -> f64 {
        let (from, to) = (self.counters[tick(from)], self.counters[tick(to)]);
        (to.marked - from.marked) as f64 / (to.packets_in - from.packets_in).max(1) as f64
    }
}

fn tick(time: Duration) -> usize {
    (time.as_nanos() / TICK.as_nanos()) as usize
}

/// Flows with these protocols, each with its own starting time in the first second.
pub fn flows(protocols: Vec<Protocol>, seed: u64) -> Vec<Flow> {
    let flow = |(number, protocol)| {
        let micros = Random::new(seed, 1 << 50 | number as u64).below(1_000_000);
        let begins = Time::ZERO + Duration::from_micros(micros);
        Flow { protocol, span: Span { begins, ends: None }, delay: Duration::ZERO }
    };
    protocols.into_iter().enumerate().map(flow).collect()
}

/// Runs flows until a time, and records them.
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

/// The length of one write: whole packets of about 10 ms, so that an incomplete message is small compared
/// with the measured bytes.
fn write_bytes(bottleneck: &LinkConfig) -> usize {
    let packet = SCTP_SHARE * PACKET as f64;
    let packets = rate_at(bottleneck, Time::ZERO) / 8.0 * 0.01 / packet;
    packets.clamp(1.0, 45.0).floor() as usize * packet as usize
}

/// The rate of a link at a time, in bits per second.
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
    fn one_flow_fills_the_link_and_a_full_queue_adds_its_delay() {
        let link = link(10_000_000, Duration::from_millis(5), Queue::Packets(20));
        let seen = watch(&[flow(0, 0)], &Ways::of(link.clone(), link), Duration::from_secs(10), 1);
        let (from, to) = (Duration::from_secs(2), Duration::from_secs(10));
        let utilisation = seen.rate(0, from, to) / (10e6 * SCTP_SHARE);
        assert!((0.9..1.01).contains(&utilisation), "{utilisation}");
        let queue = seen.queue_seconds(from, to);
        // At most 20 packets of 1.2 ms.
        assert!((0.002..0.024).contains(&queue), "{queue}");
        assert!(seen.dropped(from, to) > 0.0 && seen.marked(from, to) == 0.0);
    }

    #[test]
    fn an_additional_delay_is_part_of_a_flows_rtt() {
        let link = link(10_000_000, Duration::from_millis(5), Queue::Packets(1_000));
        let seen = watch(&[flow(0, 45)], &Ways::of(link.clone(), link), Duration::from_millis(400), 1);
        // INIT and COOKIE ECHO take an RTT of 100 ms each, and data another half.
        assert_eq!(seen.read[0][tick(Duration::from_millis(240))], 0);
        assert!(seen.read[0][tick(Duration::from_millis(280))] > 0);
    }
}
