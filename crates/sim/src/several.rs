//! Flows over several paths: the goodput of each in every tenth of a second. Paths may share links with each
//! other and with those of other flows, and links may change while data flows.
//!
//! Data that does not arrive unchanged, in order and once ends the run with a panic. Each flow is one
//! association that sends in one direction without end.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{Config, Stats};

use crate::apps::numbered::{self, Numbered, Side};
use crate::link::LinkConfig;
use crate::random::Random;
use crate::world::World;

pub use crate::apps::numbered::{AddressRequest, WINDOW};

/// The stream of draws for the endpoints' seeds.
const RANDOM_STREAM: u64 = 1 << 48;
/// The host numbers in each network.
const SENDER: u8 = 1;
const READER: u8 = 2;

/// The parameters of a trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The seed of all randomness.
    pub seed: u64,
    /// The links, each in both directions.
    pub links: Vec<[LinkConfig; 2]>,
    /// The flows over them.
    pub flows: Vec<Flow>,
    /// The changes of links while data flows, in order of time.
    pub changes: Vec<Change>,
    /// The end of the trial.
    pub end: Duration,
}

/// One association.
#[derive(Debug, Clone)]
pub struct Flow {
    /// The configuration of both sides; with `Config.security.dtls`, whatever it is, they are protected
    /// ([`Host::protected`](crate::Host::protected)).
    pub config: Config,
    /// The link of each of its paths.
    pub over: Vec<usize>,
}

/// A change of a link.
#[derive(Debug, Clone)]
pub struct Change {
    /// The time after the start.
    pub at: Duration,
    /// The link.
    pub link: usize,
    /// Its new properties.
    pub to: [LinkConfig; 2],
}

/// A change of the addresses of a flow's sender while data flows (RFC 5061). Needs `Config.paths.asconf`.
#[derive(Debug, Clone, Copy)]
pub struct AddressChange {
    /// The time after the start.
    pub at: Duration,
    /// The flow.
    pub flow: usize,
    /// The path whose local address is added or removed.
    pub path: usize,
    /// What the sender asks for.
    pub what: AddressRequest,
}

/// The result of a flow.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Bytes of user data read per window, from the start.
    pub windows: Vec<u64>,
    /// The statistics of the sender at the end.
    pub sender: Stats,
    /// The statistics of the reader.
    pub reader: Stats,
    /// The epoch of the keys of the sender at the end, if it is protected. The first is 3.
    pub epoch: Option<u64>,
}

impl Outcome {
    /// The goodput between two instants in bits per second, in whole windows.
    pub fn goodput(&self, from: Duration, to: Duration) -> f64 {
        numbered::goodput(&self.windows, from, to)
    }
}

/// What happens in the course of a trial.
enum Act<'a> {
    Link(&'a Change),
    Address(AddressChange),
}

/// The address of a host of a flow on one of its paths.
fn address(flow: usize, path: usize, host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, flow as u8, path as u8, host)), 9_899)
}

impl Trial {
    /// Runs the trial; returns the result of each flow.
    pub fn run(&self) -> Vec<Outcome> {
        self.run_with(&[])
    }

    /// As [`Trial::run`], while senders change their addresses.
    ///
    /// # Panics
    /// If an association refuses a change: none of a flow may be outstanding.
    pub fn run_with(&self, addresses: &[AddressChange]) -> Vec<Outcome> {
        let mut random = Random::new(self.seed, RANDOM_STREAM);
        let mut world = World::new(self.seed);
        let links: Vec<_> =
            self.links.iter().map(|both| both.clone().map(|link| world.add_link(link))).collect();
        let mut hosts = Vec::new();
        for (nth, flow) in self.flows.iter().enumerate() {
            let ends: [Vec<SocketAddr>; 2] = [SENDER, READER]
                .map(|host| (0..flow.over.len()).map(|path| address(nth, path, host)).collect());
            let sides = [Side::Sends, Side::Reads];
            let [sender, reader] = numbered::hosts(&mut random, &flow.config, &ends, sides);
            let [here, there] = ends;
            let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
            let sender = world.add_host(sender, ips(&here));
            let reader = world.add_host(reader, ips(&there));
            for (path, link) in flow.over.iter().enumerate() {
                world.route(here[path].ip(), there[path].ip(), links[*link][0]);
                world.route(there[path].ip(), here[path].ip(), links[*link][1]);
            }
            hosts.push([sender, reader]);
        }
        let of_links = self.changes.iter().map(|change| (change.at, Act::Link(change)));
        let of_addresses = addresses.iter().map(|change| (change.at, Act::Address(*change)));
        let mut acts: Vec<_> = of_links.chain(of_addresses).collect();
        acts.sort_by_key(|(at, _)| *at);
        for (at, act) in acts {
            world.run_until(Time::ZERO + at);
            match act {
                Act::Link(Change { link, to, .. }) => {
                    for (link, to) in links[*link].iter().zip(to) {
                        world.set_link(*link, to.clone());
                    }
                }
                Act::Address(AddressChange { flow, path, what, .. }) => {
                    let local = address(flow, path, SENDER);
                    Numbered::change_address(world.host_mut(hosts[flow][0]), local, what);
                }
            }
        }
        world.run_until(Time::ZERO + self.end);
        let outcome = |[sender, reader]: [_; 2]| Outcome {
            windows: world.host(reader).app().windows(self.end),
            sender: Numbered::stats(world.host(sender)),
            reader: Numbered::stats(world.host(reader)),
            epoch: Numbered::epoch(world.host(sender)),
        };
        hosts.into_iter().map(outcome).collect()
    }
}
