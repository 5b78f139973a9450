//! Two hosts with two paths between them, of which the one in use is cut while data flows, and later comes back: how much
//! reaches the receiver's user in every tenth of a second.
//!
//! What is not the same bytes in the same order, once, ends the run with a panic. There is one bulk flow, one way.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_sctp::{
    AssociationId, Config, Connect, Endpoint, Event, Message, PathState, PathStats, Ppid, SendError, StreamId,
};
use bytes::{BufMut, Bytes, BytesMut};

use crate::dice::{Dice, Probability};
use crate::host::{App, Endpoints, Host};
use crate::link::{Bandwidth, LinkConfig, Loss, Queue};
use crate::world::World;

/// How long the windows are in which bytes are counted.
pub const WINDOW: Duration = Duration::from_millis(100);

/// Half a second, in windows.
const HALF_SECOND: usize = 5;
/// The SCTP port of the server.
const PORT: u16 = 21;
/// Bytes of a message.
const MESSAGE: usize = 8_192;
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
        let index = |at: Duration| (at.as_nanos() / WINDOW.as_nanos()) as usize;
        let windows = &self.windows[index(from)..index(to)];
        let bytes: u64 = windows.iter().sum();
        bytes as f64 * 8.0 / (WINDOW.as_secs_f64() * windows.len() as f64)
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
        let mut endpoint = || {
            let mut seed = [0; 32];
            dice.fill(&mut seed);
            Endpoint::new(seed)
        };
        let (mut client, mut server) = (endpoint(), endpoint());
        let [here, there] = [1, 2].map(|host| [1, 2].map(|net| address(net, host)).to_vec());
        let config = Arc::new(self.config.clone());
        server.set_addresses(there.clone(), braidftp_sctp::Announce::Always);
        server.listen(PORT, config.clone()).expect("a fresh endpoint listens nowhere");
        let connect = Connect {
            local: here.clone(),
            peer: there.clone(),
            source_port: None,
            destination_port: PORT,
            config,
        };
        client.connect(Time::ZERO, connect).expect("there are free ports");
        let mut world = World::new(self.seed);
        let (client_sends, server_sends) = (self.flow == Flow::FromClient, self.flow == Flow::FromServer);
        let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
        let client = world.add_host(Host::new(client, Bulk::new(client_sends)), ips(&here));
        let server = world.add_host(Host::new(server, Bulk::new(server_sends)), ips(&there));
        let mut links = Vec::new();
        for (net, rate) in self.rates.into_iter().enumerate() {
            let forth = world.add_link(self.link(rate));
            let back = world.add_link(self.link(rate));
            world.route(here[net].ip(), there[net].ip(), forth);
            world.route(there[net].ip(), here[net].ip(), back);
            links.push(if client_sends { [forth, back] } else { [back, forth] });
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
        let (sender, receiver) = if client_sends { (client, server) } else { (server, client) };
        let stats = |host| {
            let host: &Host<Bulk> = world.host(host);
            let id = host.app().id.expect("the association came about");
            host.endpoint().association(id).expect("nothing removes it").stats()
        };
        let mut windows = world.host(receiver).app().windows.clone();
        windows.resize((self.end.as_nanos() / WINDOW.as_nanos()) as usize, 0);
        Outcome {
            windows,
            paths: stats(sender).paths,
            duplicates: stats(receiver).duplicates,
            primary_back: world.host(sender).app().primary_back.map(|at| at.since(Time::ZERO)),
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

/// One side of the flow: sends without end, or reads and checks.
#[derive(Debug)]
struct Bulk {
    sends: bool,
    id: Option<AssociationId>,
    /// Messages sent, or read whole.
    messages: u64,
    /// Of a message that came in part.
    partial: VecDeque<Bytes>,
    windows: Vec<u64>,
    primary_back: Option<Time>,
}

impl Bulk {
    fn new(sends: bool) -> Self {
        Self {
            sends,
            id: None,
            messages: 0,
            partial: VecDeque::new(),
            windows: Vec::new(),
            primary_back: None,
        }
    }

    fn read(&mut self, now: Time, endpoint: &mut Endpoint, id: AssociationId) {
        let Some(association) = endpoint.association_mut(id) else { return };
        while let Some(piece) = association.recv(StreamId(0)) {
            let window = (now.as_nanos() / WINDOW.as_nanos() as u64) as usize;
            if self.windows.len() <= window {
                self.windows.resize(window + 1, 0);
            }
            self.windows[window] += piece.len() as u64;
            assert_eq!(piece.begin, self.partial.is_empty(), "pieces of one message follow each other");
            self.partial.extend(piece.payload);
            if piece.end {
                let message: Vec<u8> = self.partial.drain(..).flatten().collect();
                assert!(message == numbered(self.messages)[..], "message {} is another", self.messages);
                self.messages += 1;
            }
        }
    }

    fn write(&mut self, endpoint: &mut Endpoint, id: AssociationId) {
        let Some(association) = endpoint.association_mut(id) else { return };
        loop {
            match association.send(StreamId(0), Message::new(Ppid(0), numbered(self.messages))) {
                Ok(()) => self.messages += 1,
                Err(SendError::Full) => return,
                Err(error) => panic!("message {} was refused: {error}", self.messages),
            }
        }
    }
}

impl App for Bulk {
    fn on_event(&mut self, now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        let endpoint = &mut endpoints.sctp;
        self.id = Some(id);
        match event {
            Event::Up { .. } | Event::Writable if self.sends => self.write(endpoint, id),
            Event::Readable(_) => self.read(now, endpoint, id),
            Event::Path(path, PathState::Active) if path.0 == 0 => self.primary_back = Some(now),
            Event::Closed(reason) => panic!("closed: {reason}"),
            _ => {}
        }
    }

    fn wake(&mut self, _now: Time, _endpoints: &mut Endpoints) -> Option<Time> {
        None
    }
}

fn numbered(number: u64) -> Bytes {
    let mut message = BytesMut::with_capacity(MESSAGE);
    message.put_u64(number);
    message.resize(MESSAGE, number as u8);
    message.freeze()
}
