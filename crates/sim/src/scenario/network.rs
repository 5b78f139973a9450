//! The network of a scenario: the hosts' addresses, the links between them, and their failures.
//!
//! The k-th addresses of the two hosts are in the same network, with a link in each direction. Where a host
//! has no k-th address, its last one is reached from that network too; with full crossing all addresses of
//! one family reach each other.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};
use std::time::Duration;

use crate::apps::messages::Side;
use crate::link::{LinkConfig, Loss, Reorder};
use crate::random::Probability;

/// The UDP encapsulation port of both hosts.
const UDP_PORT: u16 = 9_899;

/// The addresses and links of a scenario.
#[derive(Debug, Clone)]
pub(crate) struct Network {
    /// The addresses of client and server.
    pub(crate) addresses: [Vec<SocketAddr>; 2],
    /// By network: from client to server and back, with their failures.
    pub(crate) links: Vec<[LinkConfig; 2]>,
    /// Whether the networks are interconnected.
    pub(crate) crossing: Crossing,
    pub(crate) faults: Vec<Fault>,
    /// When the links heal for good.
    pub(crate) heal: Duration,
}

/// Whether networks are interconnected.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Crossing {
    None,
    Full,
}

/// An address family.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Family {
    V4,
    V6,
}

/// A temporary failure of links.
#[derive(Debug, Clone)]
pub(crate) struct Fault {
    pub(crate) from: Duration,
    pub(crate) lasts: Duration,
    /// Network and direction: 0 to the server, 1 back.
    pub(crate) hits: Vec<(usize, usize)>,
    pub(crate) what: Impairment,
}

/// A kind of failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Impairment {
    /// All packets are lost.
    Outage,
    /// Packets longer on the wire than this, in bytes, are lost.
    Narrow(usize),
    /// Packets are lost with this probability.
    Lossy(Probability),
    /// Packets are duplicated with this probability, and held back with the same: some arrive at once and
    /// again later.
    Replays(Reorder),
}

impl Network {
    /// One address each, and a link without faults.
    pub(crate) fn plain() -> Self {
        Self {
            addresses: [Side::Client, Side::Server].map(|side| vec![address(side, 0, Family::V4)]),
            links: vec![[LinkConfig::default(), LinkConfig::default()]],
            crossing: Crossing::None,
            faults: Vec::new(),
            heal: Duration::ZERO,
        }
    }

    /// The network used between each pair of addresses of client and server.
    pub(super) fn routes(&self) -> Vec<(IpAddr, IpAddr, usize)> {
        let [client, server] = &self.addresses;
        let mut routes = Vec::new();
        for (c, here) in client.iter().enumerate() {
            for (s, there) in server.iter().enumerate() {
                let alone = (c == client.len() - 1 && s > c) || (s == server.len() - 1 && c > s);
                let connected = c == s || alone || self.crossing == Crossing::Full;
                if connected && here.is_ipv4() == there.is_ipv4() {
                    routes.push((here.ip(), there.ip(), c.max(s)));
                }
            }
        }
        routes
    }

    /// When links change, after the start.
    pub(super) fn changes(&self) -> Vec<Duration> {
        let ends = |fault: &Fault| [fault.from, fault.from + fault.lasts];
        let mut times: Vec<_> = self.faults.iter().flat_map(ends).filter(|at| *at < self.heal).collect();
        times.push(self.heal);
        times.sort_unstable();
        times.dedup();
        times
    }

    /// The properties of a link from a time on.
    pub(super) fn link_at(&self, at: Duration, net: usize, way: usize) -> LinkConfig {
        let config = &self.links[net][way];
        if at >= self.heal {
            return whole(config);
        }
        let mut config = config.clone();
        let lasts = |fault: &&Fault| at >= fault.from && at < fault.from + fault.lasts;
        for fault in self.faults.iter().filter(lasts).filter(|fault| fault.hits.contains(&(net, way))) {
            match fault.what {
                Impairment::Outage => config.loss = Loss::Bernoulli(Probability::ALWAYS),
                Impairment::Lossy(probability) => config.loss = Loss::Bernoulli(probability),
                Impairment::Replays(reorder) => {
                    (config.duplicate, config.reorder) = (reorder.probability, Some(reorder));
                }
                Impairment::Narrow(mtu) => config.mtu = Some(config.mtu.map_or(mtu, |other| other.min(mtu))),
            }
        }
        config
    }
}

/// The n-th address of a host.
pub(crate) fn address(side: Side, nth: usize, family: Family) -> SocketAddr {
    let host = 1 + side as u8;
    let ip = match family {
        Family::V4 => IpAddr::V4(Ipv4Addr::new(10, 0, nth as u8, host)),
        Family::V6 => IpAddr::V6(Ipv6Addr::new(0xfd00, nth as u16, 0, 0, 0, 0, 0, host.into())),
    };
    SocketAddr::new(ip, UDP_PORT)
}

/// The same link without faults.
fn whole(config: &LinkConfig) -> LinkConfig {
    let LinkConfig { queue, rate, delay, overhead_bytes, .. } = config.clone();
    LinkConfig { queue, rate, delay, overhead_bytes, ..LinkConfig::default() }
}
