//! Two hosts with two paths between them, of which the one in use is cut while data flows, and later comes back: how much
//! reaches the receiver's user in every tenth of a second.
//!
//! What is not the same bytes in the same order, once, ends the run with a panic. There is one bulk flow, one way.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sctp::{Config, PathStats};

use crate::apps::numbered::{self, Numbered, Side};
use crate::dice::{Dice, Probability};
use crate::host::Host;
use crate::link::{Bandwidth, LinkConfig, Loss, Queue};
use crate::world::World;

pub use crate::apps::numbered::WINDOW;

/// Half a second, in windows.
const HALF_SECOND: usize = 5;
/// The stream of draws of endpoints' seeds.
const DICE: u64 = 1 << 49;
/// What UDP and IPv4 add to a packet.
const OVERHEAD: usize = 28;

/// What is tried.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Of both hosts.
    pub config: Config,
    /// Steers everything that is random in the endpoints.
    pub seed: u64,
    /// Of the primary path and of the other, both ways.
    pub rates: [Rate; 2],
    /// One way.
    pub delay: Duration,
    /// How long a packet waits at most for each link.
    pub queue: Duration,
    /// Who sends.
    pub flow: Flow,
    /// What is cut of the primary path.
    pub cut: Cut,
    /// When, after the start.
    pub cut_at: Duration,
    /// When it is whole again, after the start.
    pub whole_at: Option<Duration>,
    /// When to stop looking.
    pub end: Duration,
}

/// Who sends the data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Flow {
    /// The one that opened the association.
    FromClient,
    /// The one that accepted it.
    FromServer,
}

/// What is cut of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cut {
    /// Both ways.
    Both,
    /// The way of the data.
    Data,
    /// The way of the acknowledgements.
    Acknowledgements,
}

/// What came of a trial.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Bytes of user data that the receiver read, window by window from the start.
    pub windows: Vec<u64>,
    /// The sender's paths at the end.
    pub paths: Vec<PathStats>,
    /// DATA chunks that came twice.
    pub duplicates: u64,
    /// When the primary path was found to work again, after the start.
    pub primary_back: Option<Duration>,
    /// The run as a number: the same trial gives the same.
    pub fingerprint: u64,
}

impl Outcome {
    /// Bits a second that the receiver's user got between two instants, in whole windows.
    pub fn goodput(&self, from: Duration, to: Duration) -> f64 {
        numbered::goodput(&self.windows, from, to)
    }

    /// How long after `from` it takes until the user gets `share` of a rate: in the mean of the half second that begins
    /// then, for delivery in order comes in bursts.
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
    /// Lets it happen.
    pub fn run(&self) -> Outcome {
        let mut dice = Dice::new(self.seed, DICE);
        let ends = [1, 2].map(|host| [1, 2].map(|net| address(net, host)).to_vec());
        let [client, server] = numbered::endpoints(&mut dice, &self.config, &ends);
        let [here, there] = ends;
        let mut world = World::new(self.seed);
        let (client_is, server_is) = match self.flow {
            Flow::FromClient => (Side::Sends, Side::Reads),
            Flow::FromServer => (Side::Reads, Side::Sends),
        };
        let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
        let client = world.add_host(Host::new(client, Numbered::new(client_is)), ips(&here));
        let server = world.add_host(Host::new(server, Numbered::new(server_is)), ips(&there));
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
