//! Pairs of hosts on one machine, joined by paths over shared links: the network of a scenario, run by the wall clock.
//!
//! Each host is a network namespace of this process with a TUN device for each of its paths, as in [`tun`](crate::tun).
//! A path is a sequence of links; paths with a common link share its queue. All links run on one thread. Everything is
//! removed with the [`Mesh`]. IPv4 only.

use std::net::Ipv4Addr;
use std::os::fd::OwnedFd;
use std::time::Instant;

use crate::LinkConfig;
use crate::clock::{Capture, Clock};
pub use crate::links::{Change, Device, Passed, TunUnavailable};
use crate::links::{Engine, IpLink, Route};
use crate::running::Running;
pub use crate::tun::Host;

/// The most pairs of hosts: their number is a byte of their addresses.
pub const PAIRS_MAX: usize = 250;
/// The most paths of a pair of hosts.
pub const PATHS_MAX: usize = 8;

/// The configuration of a mesh.
#[derive(Debug, Clone)]
pub struct MeshConfig {
    /// The links, each in one direction. Their overhead is added to packets that include their IP headers.
    pub links: Vec<LinkConfig>,
    /// The paths of each pair of hosts.
    pub pairs: Vec<Vec<Path>>,
    /// The changes of links.
    pub changes: Vec<Change>,
    /// The seed of the links' random draws. A link draws as the simulator's link with its index.
    pub seed: u64,
    /// The MTU of all devices, in bytes.
    pub mtu: u16,
}

/// A path between two hosts: the indices of its links, in the order of packets; one each way at least.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Path {
    /// From the first host to the second.
    pub there: Vec<usize>,
    /// From the second host to the first.
    pub back: Vec<usize>,
}

/// Pairs of hosts, whose links start with [`Mesh::start`]. Packets that are sent earlier wait in their devices.
#[derive(Debug)]
pub struct Mesh {
    hosts: Vec<[Host; 2]>,
    /// The first device of each pair.
    offsets: Vec<usize>,
    config: MeshConfig,
    devices: Vec<OwnedFd>,
}

impl Mesh {
    /// Creates the hosts.
    ///
    /// # Errors
    ///
    /// The kernel refuses namespaces or devices.
    ///
    /// # Panics
    ///
    /// If there are too many pairs or paths, or a path has no link in a direction or an unknown one.
    pub fn up(config: MeshConfig) -> Result<Self, TunUnavailable> {
        assert!(config.pairs.len() <= PAIRS_MAX, "{} pairs of hosts are too many", config.pairs.len());
        let is_known =
            |links: &Vec<usize>| !links.is_empty() && links.iter().all(|it| *it < config.links.len());
        let (mut hosts, mut offsets, mut devices) = (Vec::new(), Vec::new(), Vec::new());
        for (pair, paths) in config.pairs.iter().enumerate() {
            assert!(paths.len() <= PATHS_MAX, "{} paths are too many", paths.len());
            assert!(paths.iter().all(|path| is_known(&path.there) && is_known(&path.back)), "unknown links");
            let make = |host: usize| {
                let names: Vec<String> = (0..paths.len()).map(device).collect();
                let devices =
                    names.iter().enumerate().map(|(path, it)| (it.as_str(), address(pair, path, host)));
                Host::new(
                    if host == 0 { "client" } else { "server" },
                    &devices.collect::<Vec<_>>(),
                    config.mtu,
                )
            };
            let (first, its) = make(0)?;
            let (second, others) = make(1)?;
            hosts.push([first, second]);
            offsets.push(devices.len());
            devices.extend(its.into_iter().chain(others));
        }
        Ok(Self { hosts, offsets, config, devices })
    }

    /// A host of a pair: 0 or 1.
    pub fn host(&self, pair: usize, host: usize) -> &Host {
        &self.hosts[pair][host]
    }

    /// The index of a host's device on a path in [`Passed::devices`].
    pub fn device(&self, pair: usize, path: usize, host: usize) -> usize {
        self.offsets[pair] + host * self.config.pairs[pair].len() + path
    }

    /// Starts the links: the time of their rates, cuts and changes begins now.
    ///
    /// # Errors
    ///
    /// The kernel starts no thread.
    ///
    /// # Panics
    ///
    /// If they are started already.
    pub fn start(&mut self) -> Result<Moving, TunUnavailable> {
        assert!(self.hosts.is_empty() || !self.devices.is_empty(), "the links are started already");
        let mut routes = Vec::new();
        for (pair, paths) in self.config.pairs.iter().enumerate() {
            let to = |path, host| self.device(pair, path, host);
            routes.extend(
                paths.iter().enumerate().map(|(at, it)| Route { via: it.there.clone(), to: to(at, 1) }),
            );
            routes.extend(
                paths.iter().enumerate().map(|(at, it)| Route { via: it.back.clone(), to: to(at, 0) }),
            );
        }
        let MeshConfig { links, changes, seed, .. } = &self.config;
        let mut changes = changes.clone();
        changes.sort_by_key(|change| change.at);
        let link = |(id, config): (usize, &LinkConfig)| IpLink::new(config.clone(), *seed, id as u32);
        let clock = Clock::start();
        let engine = Engine {
            clock,
            devices: std::mem::take(&mut self.devices),
            routes,
            links: links.iter().enumerate().map(link).collect(),
            changes: changes.into(),
            passed: Passed::default(),
            capture: Capture::none(),
        };
        Ok(Moving { running: engine.start()?, started: clock.origin() })
    }
}

/// The running links of a mesh. Dropping them stops them and removes the devices.
#[derive(Debug)]
pub struct Moving {
    running: Running<Passed>,
    started: Instant,
}

impl Moving {
    /// When the links were started: the zero of their times.
    pub fn started(&self) -> Instant {
        self.started
    }

    /// What passed so far; up to 10 ms old.
    pub fn passed(&self) -> Passed {
        self.running.counters()
    }

    /// Stops the links.
    pub fn stop(self) -> Passed {
        self.running.stop()
    }
}

/// The address of a host of a pair on a path: on the first path of the first pair 10.1.0.1 and 10.1.0.2.
pub fn address(pair: usize, path: usize, host: usize) -> Ipv4Addr {
    Ipv4Addr::new(10, pair as u8 + 1, path as u8, host as u8 + 1)
}

/// The network of both addresses of a path.
pub fn network(pair: usize, path: usize) -> String {
    format!("10.{}.{path}.0/30", pair + 1)
}

/// The name of a path's device, the same on both hosts.
pub fn device(path: usize) -> String {
    format!("braid{path}")
}
