//! A failover trial: two hosts with two paths, of which the one in use is cut while data flows and may return
//! later. Measures the goodput in every tenth of a second.
//!
//! There is one bulk flow in one direction. Data that does not arrive unchanged, in order and once ends the
//! run with a panic.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sctp::{Config, PathStats};

use crate::apps::numbered::{self, Numbered, Side};
use crate::link::{Bandwidth, LinkConfig, Loss, Queue};
use crate::random::{Probability, Random};
use crate::world::World;

pub use crate::apps::numbered::WINDOW;

/// Half a second, in windows.
const HALF_SECOND: usize = 5;
/// The stream of draws for the endpoints' seeds.
const RANDOM_STREAM: u64 = 1 << 49;
/// The length of the UDP and IPv4 headers.
const OVERHEAD: usize = 28;

/// The parameters of a trial.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The configuration of both hosts; with `Config.security.dtls`, whatever it is, they are protected.
    pub config: Config,
    /// The seed of the endpoints.
    pub seed: u64,
    /// The rates of the primary and the other path, in both directions.
    pub rates: [Rate; 2],
    /// The one-way delay.
    pub delay: Duration,
    /// The longest queueing delay of each link.
    pub queue: Duration,
    /// The direction of the data.
    pub flow: Flow,
    /// The directions of the primary path that are cut.
    pub cut: Cut,
    /// The time of the cut, after the start.
    pub cut_at: Duration,
    /// When the path is restored, after the start.
    pub whole_at: Option<Duration>,
    /// The end of the trial.
    pub end: Duration,
}

/// The direction of the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// From the side that opened the association.
    FromClient,
    /// From the side that accepted it.
    FromServer,
}

/// The directions of a path that are cut.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Both directions.
    Both,
    /// The direction of the data.
    Data,
    /// The direction of the acknowledgements.
    Acknowledgements,
}

/// The result of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Bytes of user data read per window, from the start.
    pub windows: Vec<u64>,
    /// The sender's paths at the end.
    pub paths: Vec<PathStats>,
    /// DATA chunks received twice.
    pub duplicates: u64,
    /// When the primary path was found to work again, after the start.
    pub primary_back: Option<Duration>,
    /// The fingerprint of the run, equal for equal trials.
    pub fingerprint: u64,
}

impl Outcome {
    /// The goodput between two instants in bits per second, in whole windows.
    pub fn goodput(&self, from: Duration, to: Duration) -> f64 {
        numbered::goodput(&self.windows, from, to)
    }

    /// The time after `from` until the user gets `share` of a rate, averaged over the following half second,
    /// because in-order delivery comes in bursts.
    pub fn back_after(&self, from: Duration, rate: Rate, share: f64) -> Option<Duration> {
        let whole = WINDOW * from.as_nanos().div_ceil(WINDOW.as_nanos()) as u32;
        let last = WINDOW * self.windows.len().saturating_sub(HALF_SECOND) as u32;
        let starts = (0..).map(|nth| whole + WINDOW * nth).take_while(|at| *at <= last);
        let enough = |at: &Duration| {
            self.goodput(*at, *at + WINDOW * HALF_SECOND as u32) >= share * rate.bits_per_second() as f64
        };
        starts.into_iter().find(enough).map(|at| at - from)
    }
}

impl Trial {
    /// Runs the trial.
    pub fn run(&self) -> Outcome {
        let mut random = Random::new(self.seed, RANDOM_STREAM);
        let ends = [1, 2].map(|host| [1, 2].map(|net| address(net, host)).to_vec());
        let mut world = World::new(self.seed);
        let (client_is, server_is) = match self.flow {
            Flow::FromClient => (Side::Sends, Side::Reads),
            Flow::FromServer => (Side::Reads, Side::Sends),
        };
        let [client, server] = numbered::hosts(&mut random, &self.config, &ends, [client_is, server_is]);
        let [here, there] = ends;
        let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
        let client = world.add_host(client, ips(&here));
        let server = world.add_host(server, ips(&there));
        let mut links = Vec::new();
        for (net, rate) in self.rates.into_iter().enumerate() {
            let forth = world.add_link(self.link(rate));
            let back = world.add_link(self.link(rate));
            world.route(here[net].ip(), there[net].ip(), forth);
            world.route(there[net].ip(), here[net].ip(), back);
            links.push(match self.flow {
                Flow::FromClient => [forth, back],
                Flow::FromServer => [back, forth],
            });
        }
        world.run_until(Time::ZERO + self.cut_at);
        let hit = match self.cut {
            Cut::Both => &links[0][..],
            Cut::Data => &links[0][..1],
            Cut::Acknowledgements => &links[0][1..],
        };
        for link in hit {
            let dead = LinkConfig { loss: Loss::Bernoulli(Probability::ALWAYS), ..self.link(self.rates[0]) };
            world.set_link(*link, dead);
        }
        let whole_at = self.whole_at.unwrap_or(self.end).min(self.end);
        world.run_until(Time::ZERO + whole_at);
        for link in hit {
            world.set_link(*link, self.link(self.rates[0]));
        }
        world.run_until(Time::ZERO + self.end);
        let (sender, receiver) = match self.flow {
            Flow::FromClient => (client, server),
            Flow::FromServer => (server, client),
        };
        let [sender, receiver] = [sender, receiver].map(|host| world.host(host));
        Outcome {
            windows: receiver.app().windows(self.end),
            paths: Numbered::stats(sender).paths,
            duplicates: Numbered::stats(receiver).duplicates,
            primary_back: sender.app().primary_back().map(|at| at.since(Time::ZERO)),
            fingerprint: world.fingerprint(),
        }
    }

    fn link(&self, rate: Rate) -> LinkConfig {
        let bits = rate.bits_per_second() as f64 * self.queue.as_secs_f64();
        LinkConfig {
            rate: Bandwidth::Fixed(rate),
            delay: self.delay,
            queue: Queue::Bytes(((bits / 8.0) as usize).max(3_000)),
            overhead_bytes: OVERHEAD,
            ..LinkConfig::default()
        }
    }
}

fn address(net: u8, host: u8) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::new(10, 0, net, host)), 9_899)
}
