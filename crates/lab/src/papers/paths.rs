//! Shared by the figures of `cmt` and `multipath`: one association over several paths, competing flows, and
//! observations of both per tick.
//!
//! ```text
//!            +-- loss, queue, rate, delay --+
//! sender ----+                              +---- reader
//!            +-- loss, queue, rate, delay --+
//! ```
//! The k-th path joins the k-th addresses of sender and reader. An association with a single path has the
//! same losses there as one with all paths.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sctp::wire::{Chunk, Packet};
use braidftp_sim::apps::bulk::{self, Bulk, Protocol, Span};
use braidftp_sim::link::{Counters, LinkConfig};
use braidftp_sim::world::{Seen as Sighting, Sight};
use braidftp_sim::{Host, HostId, LinkId, World};

use super::bottleneck::Resent;
use crate::figure::{Axis, Value};

/// The sampling interval.
pub const TICK: Duration = Duration::from_millis(5);
/// The user data in a full packet of 1500 bytes, which is one message.
pub const PAYLOAD: usize = 1_452;

/// The paths of an association.
pub const PATHS: Axis = Axis {
    name: "paths",
    label: "paths",
    values: &[Value::Name("both"), Value::Name("first"), Value::Name("second")],
    show: &|value| match value {
        Value::Name("both") => "both paths".to_owned(),
        Value::Name("first") => "path 1 alone".to_owned(),
        _ => "path 2 alone".to_owned(),
    },
};

/// The paths of a name on [`PATHS`].
pub fn paths(name: &str) -> &'static [usize] {
    match name {
        "both" => &[0, 1],
        "first" => &[0],
        _ => &[1],
    }
}

/// A route through the network, as indices of links.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Route {
    /// To the reader.
    pub there: Vec<usize>,
    /// To the sender.
    pub back: Vec<usize>,
}

/// A flow and its routes; TCP uses the first.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The protocol, with its controller.
    pub protocol: Protocol,
    /// Start and end.
    pub span: Span,
    /// One path each.
    pub routes: Vec<Route>,
}

impl Flow {
    fn receive_buffer_bytes(&self) -> usize {
        match &self.protocol {
            Protocol::Sctp(config) => config.memory.receive_buffer_bytes,
            Protocol::Tcp(config) => config.receive_buffer_bytes,
        }
    }
}

/// Links, and the flows over them.
#[derive(Debug, Clone, Default)]
pub struct Network {
    /// Unidirectional links.
    pub links: Vec<LinkConfig>,
    /// The first flow is observed in detail.
    pub flows: Vec<Flow>,
}

/// Optional observations.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Look {
    /// None.
    Numbers,
    /// The arrival order of the first flow's data.
    Order,
}

impl Network {
    /// Disjoint paths, equal in both directions except for loss: SACKs are not lost.
    pub fn paths(ways: &[LinkConfig]) -> Self {
        let lossless = |way: &LinkConfig| LinkConfig { loss: braidftp_sim::link::Loss::None, ..way.clone() };
        let links = ways.iter().flat_map(|way| [way.clone(), lossless(way)]).collect();
        Self { links, flows: Vec::new() }
    }

    /// The route of the k-th path of [`Network::paths`].
    pub fn route(path: usize) -> Route {
        Route { there: vec![2 * path], back: vec![2 * path + 1] }
    }

    /// Adds an unlimited association over these paths of [`Network::paths`].
    #[must_use]
    pub fn with(mut self, config: sctp::Config, paths: &[usize]) -> Self {
        let routes = paths.iter().map(|path| Self::route(*path)).collect();
        self.flows.push(Flow { protocol: Protocol::Sctp(Arc::new(config)), span: Span::ALWAYS, routes });
        self
    }

    /// Runs the flows until a time, and records them.
    pub fn watch(&self, until: Duration, look: Look, seed: u64) -> Seen {
        let mut world: World<Host<Bulk>> = World::new(seed);
        let links: Vec<LinkId> = self.links.iter().map(|link| world.add_link(link.clone())).collect();
        let ends: Vec<[HostId; 2]> = self
            .flows
            .iter()
            .enumerate()
            .map(|(at, flow)| join(&mut world, &links, at, flow, seed))
            .collect();
        if look == Look::Order {
            world.record();
        }
        let mut seen =
            Seen { read: vec![Vec::new(); self.flows.len()], counters: Vec::new(), ..Seen::default() };
        for number in 0..=tick(until) {
            world.run_until(Time::ZERO + TICK * number as u32);
            for (read, [_, reader]) in seen.read.iter_mut().zip(&ends) {
                read.push(world.host(*reader).app().bytes_read());
            }
            seen.moments.push(moment(&world, ends[0], self.flows[0].receive_buffer_bytes()));
            seen.order.extend(arrived(&world.take_record(), 0));
        }
        world.settle();
        world.check();
        seen.counters = links.iter().map(|link| world.link(*link).counters()).collect();
        let stats = |host: HostId| {
            let host = world.host(host);
            host.app().association().and_then(|id| host.endpoint().association(id)).map(|it| it.stats())
        };
        seen.sender = stats(ends[0][0]);
        seen.reader = stats(ends[0][1]);
        seen
    }
}

/// Adds the hosts of a flow, and its routes.
fn join(
    world: &mut World<Host<Bulk>>,
    links: &[LinkId],
    number: usize,
    flow: &Flow,
    seed: u64,
) -> [HostId; 2] {
    let address = |path: usize, host: u8| address(number, path, host);
    let [senders, readers] = [SENDER, READER]
        .map(|host| (0..flow.routes.len()).map(|path| address(path, host)).collect::<Vec<_>>());
    for (route, (from, to)) in flow.routes.iter().zip(senders.iter().zip(&readers)) {
        let [there, back] =
            [&route.there, &route.back].map(|way| way.iter().map(|at| links[*at]).collect::<Vec<_>>());
        world.route_via(*from, *to, &there);
        world.route_via(*to, *from, &back);
    }
    let [mut sender, reader] =
        bulk::flow_between(flow.span, &flow.protocol, &senders, &readers, seed ^ number as u64);
    sender.parts_mut().1.write_at_a_time(PAYLOAD);
    [world.add_host(sender, senders), world.add_host(reader, readers)]
}

/// The last address component of senders and readers.
const SENDER: u8 = 1;
const READER: u8 = 2;
/// The maximum number of paths.
const PATHS_MAX: usize = 3;

/// Each path of each flow is a network.
fn address(flow: usize, path: usize, host: u8) -> IpAddr {
    IpAddr::V4(Ipv4Addr::new(10, flow as u8, path as u8, host))
}

/// The state of the first flow's sender at a tick.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
struct Moment {
    /// Packets sent.
    sent: u64,
    /// Whether some path's window has room for a packet, but the receive window has none.
    blocked: bool,
    /// Bytes in the receive buffer that wait for missing data.
    held: usize,
}

fn moment(world: &World<Host<Bulk>>, [sender, reader]: [HostId; 2], buffer_bytes: usize) -> Moment {
    let stats = |host: HostId| {
        let host = world.host(host);
        host.app().association().and_then(|id| host.endpoint().association(id)).map(|it| it.stats())
    };
    let Some(sends) = stats(sender) else { return Moment::default() };
    let has_room = |path: &sctp::PathStats| {
        path.state == sctp::PathState::Active && path.flight_bytes + PAYLOAD <= path.cwnd
    };
    Moment {
        sent: sends.paths.iter().map(|path| path.packets_sent).sum(),
        blocked: sends.queued_bytes > 0 && sends.peer_rwnd < PAYLOAD && sends.paths.iter().any(has_room),
        held: stats(reader).map_or(0, |reads| buffer_bytes.saturating_sub(reads.a_rwnd)),
    }
}

/// The TSNs of the first flow that reached its reader.
fn arrived(record: &[Sighting], flow: usize) -> Vec<u32> {
    let mut tsns = Vec::new();
    for seen in record.iter().filter(|seen| seen.what == Sight::Arrived) {
        if !(0..PATHS_MAX).any(|path| seen.datagram.to.ip() == address(flow, path, READER)) {
            continue;
        }
        let Ok(packet) = Packet::decode_observed(seen.datagram.payload.clone()) else { continue };
        tsns.extend(packet.chunks().filter_map(|chunk| match chunk {
            Ok(Chunk::Data(data)) => Some(data.tsn.0),
            _ => None,
        }));
    }
    tsns
}

/// Observations of a run.
#[derive(Debug, Clone, Default)]
pub struct Seen {
    /// The bytes received by each flow at each tick, from 0 on.
    read: Vec<Vec<u64>>,
    /// The first flow's sender and reader, at each tick.
    moments: Vec<Moment>,
    /// The TSNs of the first flow in arrival order, if observed.
    order: Vec<u32>,
    /// The counters of each link.
    pub counters: Vec<Counters>,
    /// The statistics of the first flow's sender at the end.
    pub sender: Option<sctp::Stats>,
    /// The statistics of its reader.
    pub reader: Option<sctp::Stats>,
}

impl Seen {
    /// The rate of user data of a flow between two times, in bits per second.
    pub fn rate(&self, flow: usize, from: Duration, to: Duration) -> f64 {
        let read = &self.read[flow];
        (read[tick(to)] - read[tick(from)]) as f64 * 8.0 / (to - from).as_secs_f64()
    }

    /// The time at which a flow had received `bytes` bytes, in seconds; none if never.
    pub fn brought(&self, flow: usize, bytes: u64) -> Option<f64> {
        let at = self.read[flow].partition_point(|read| *read < bytes);
        (at < self.read[flow].len()).then(|| at as f64 * TICK.as_secs_f64())
    }

    /// The fraction of the time between two instants in which only the receive window blocked the sender.
    pub fn blocked(&self, from: Duration, to: Duration) -> f64 {
        let moments = &self.moments[tick(from)..tick(to)];
        moments.iter().filter(|moment| moment.blocked).count() as f64 / moments.len() as f64
    }

    /// The mean number of bytes waiting in the receive buffer.
    pub fn held(&self, from: Duration, to: Duration) -> f64 {
        let moments = &self.moments[tick(from)..tick(to)];
        moments.iter().map(|moment| moment.held).sum::<usize>() as f64 / moments.len() as f64
    }

    /// The pauses of the sender between two instants that lasted at least `at_least`.
    pub fn pauses(&self, from: Duration, to: Duration, at_least: Duration) -> Vec<Duration> {
        let mut pauses = Vec::new();
        let mut ticks = 0;
        for at in tick(from) + 1..=tick(to) {
            let is_silent = self.moments[at].sent == self.moments[at - 1].sent;
            ticks += u32::from(is_silent);
            if !is_silent || at == tick(to) {
                pauses.push(TICK * std::mem::take(&mut ticks));
            }
        }
        pauses.retain(|pause| *pause >= at_least);
        pauses
    }

    /// The fraction of the first flow's chunks that arrived after one sent later (RFC 4737 §3), including
    /// retransmissions.
    pub fn reordered(&self) -> f64 {
        let Some(first) = self.order.first() else { return 0.0 };
        let (mut highest, mut late, mut new) = (0, 0_u64, 0_u64);
        let mut missing = std::collections::BTreeSet::new();
        for tsn in &self.order {
            let offset = i64::from(tsn.wrapping_sub(*first) as i32);
            if offset >= highest {
                missing.extend(highest..offset);
                (highest, new) = (offset + 1, new + 1);
            } else if missing.remove(&offset) {
                (late, new) = (late + 1, new + 1);
            }
        }
        late as f64 / new.max(1) as f64
    }

    /// The retransmissions of the first flow's sender.
    pub fn resent(&self) -> Resent {
        let paths = self.sender.iter().flat_map(|stats| &stats.paths);
        paths.fold(Resent::default(), |all, path| Resent {
            pieces: all.pieces + path.retransmitted_chunks,
            timeouts: all.timeouts + path.timeouts,
        })
    }
}

fn tick(time: Duration) -> usize {
    (time.as_nanos() / TICK.as_nanos()) as usize
}

#[cfg(test)]
mod tests {
    use braidftp_sim::link::Queue;

    use super::*;
    use crate::papers::bottleneck;

    fn config(buffer_bytes: usize) -> sctp::Config {
        sctp::Profile::Ns2.config().with(|c| {
            c.paths.multipath = Some(sctp::Multipath::plain());
            c.memory.receive_buffer_bytes = buffer_bytes;
            c.memory.send_buffer_bytes = 4 << 20;
        })
    }

    fn seen(buffer_bytes: usize, paths: &[usize], look: Look) -> Seen {
        let link = bottleneck::link(10_000_000, Duration::from_millis(45), Queue::Packets(100));
        let network = Network::paths(&[link.clone(), link]).with(config(buffer_bytes), paths);
        network.watch(Duration::from_secs(20), look, 1)
    }

    const FROM: Duration = Duration::from_secs(5);
    const TO: Duration = Duration::from_secs(20);

    #[test]
    fn two_paths_carry_the_sum_of_both_without_buffer_limits() {
        let (both, one) = (seen(4 << 20, &[0, 1], Look::Numbers), seen(4 << 20, &[1], Look::Numbers));
        let ratio = both.rate(0, FROM, TO) / one.rate(0, FROM, TO);
        assert!((1.8..2.05).contains(&ratio), "{ratio}");
        assert!(both.blocked(FROM, TO) < 0.05 && one.blocked(FROM, TO) < 0.05);
        assert_eq!(one.sender.unwrap().paths.len(), 1);
        let carried: Vec<u64> = both.counters.iter().map(|link| link.packets_out).collect();
        assert!(carried[0] > 5_000 && carried[2] > 5_000, "{carried:?}");
    }

    #[test]
    fn a_small_buffer_limits_both_to_one_buffer_per_rtt() {
        let seen = seen(16 << 10, &[0, 1], Look::Numbers);
        let rate = seen.rate(0, FROM, TO);
        assert!((0.8..1.01).contains(&(rate / (16384.0 * 8.0 / 0.09))), "{rate}");
        assert!(seen.blocked(FROM, TO) > 0.9, "{}", seen.blocked(FROM, TO));
        assert!(seen.pauses(FROM, TO, Duration::from_millis(250)).is_empty());
    }

    #[test]
    fn reordering_is_counted_once_and_duplicates_are_not() {
        let order = |tsns: &[u32]| Seen { order: tsns.to_vec(), ..Seen::default() }.reordered();
        assert_eq!(order(&[u32::MAX, 0, 1, 2]), 0.0);
        assert_eq!(order(&[5, 7, 6, 6, 8]), 0.25);
        assert_eq!(order(&[5, 8, 6, 7, 9]), 0.4);
        // On one path only retransmissions arrive late; on two paths other chunks do, too.
        let [one, both] = [&[0][..], &[0, 1]].map(|paths| seen(4 << 20, paths, Look::Order).reordered());
        assert!(one < 0.001 && both > 0.05, "{one} {both}");
    }

    #[test]
    fn a_pause_lasts_as_long_as_nothing_is_sent() {
        let moment = |sent| Moment { sent, ..Moment::default() };
        // Sent in the first tick and the fifth, and not after.
        let moments = [0, 3, 3, 3, 3, 4, 4, 4, 4].map(moment).to_vec();
        let seen = Seen { moments, ..Seen::default() };
        let pauses = |at_least: u32| seen.pauses(Duration::ZERO, TICK * 8, TICK * at_least);
        assert_eq!(pauses(2), [TICK * 3, TICK * 3]);
        assert!(pauses(4).is_empty());
    }
}
