//! Flows over several paths: how much each brings to its reader, in every tenth of a second. Paths may share links, with each
//! other and with those of other flows, and links may change while data flows.
//!
//! What is not the same bytes in the same order, once, ends the run with a panic. Each flow is one association that sends
//! one way without end.

use std::collections::VecDeque;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{
    Announce, AssociationId, Config, Connect, Endpoint, Event, Message, Ppid, SendError, Stats, StreamId,
};
use bytes::{BufMut, Bytes, BytesMut};

use crate::dice::Dice;
use crate::host::{App, Endpoints, Host};
use crate::link::LinkConfig;
use crate::world::World;

/// How long the windows are in which bytes are counted.
pub const WINDOW: Duration = Duration::from_millis(100);

/// The SCTP port of those that read.
const PORT: u16 = 21;
/// Bytes of a message.
const MESSAGE: usize = 8_192;
/// The stream of draws of endpoints' seeds.
const DICE: u64 = 1 << 48;

/// What is tried.
#[derive(Debug, Clone)]
pub struct Trial {
    /// Steers everything that is random.
    pub seed: u64,
    /// There, and back.
    pub links: Vec<[LinkConfig; 2]>,
    /// Who sends over them.
    pub flows: Vec<Flow>,
    /// What becomes of links while data flows, in the order of time.
    pub changes: Vec<Change>,
    /// When to stop looking.
    pub end: Duration,
}

/// One association.
#[derive(Debug, Clone)]
pub struct Flow {
    /// Of both sides.
    pub config: Config,
    /// Which link each of its paths takes.
    pub over: Vec<usize>,
}

/// A link becomes another.
#[derive(Debug, Clone)]
pub struct Change {
    /// When, after the start.
    pub at: Duration,
    /// Which.
    pub link: usize,
    /// What it is then.
    pub to: [LinkConfig; 2],
}

/// What came of a flow.
#[derive(Debug, Clone)]
pub struct Outcome {
    /// Bytes of user data that were read, window by window from the start.
    pub windows: Vec<u64>,
    /// Of the side that sends, at the end.
    pub sender: Stats,
    /// Of the side that reads.
    pub reader: Stats,
}

impl Outcome {
    /// Bits a second that the reader got between two instants, in whole windows.
    pub fn goodput(&self, from: Duration, to: Duration) -> f64 {
        let index = |at: Duration| (at.as_nanos() / WINDOW.as_nanos()) as usize;
        let windows = &self.windows[index(from)..index(to)];
        let bytes: u64 = windows.iter().sum();
        bytes as f64 * 8.0 / (WINDOW.as_secs_f64() * windows.len() as f64)
    }
}

impl Trial {
    /// Lets it happen; what came of each flow.
    pub fn run(&self) -> Vec<Outcome> {
        let mut dice = Dice::new(self.seed, DICE);
        let mut endpoint = || {
            let mut seed = [0; 32];
            dice.fill(&mut seed);
            Endpoint::new(seed)
        };
        let mut world = World::new(self.seed);
        let links: Vec<_> =
            self.links.iter().map(|both| both.clone().map(|link| world.add_link(link))).collect();
        let mut hosts = Vec::new();
        for (nth, flow) in self.flows.iter().enumerate() {
            let config = Arc::new(flow.config.clone());
            let [here, there]: [Vec<SocketAddr>; 2] = [1, 2].map(|host| {
                (0..flow.over.len())
                    .map(|path| {
                        let ip = Ipv4Addr::new(10, nth as u8, path as u8, host);
                        SocketAddr::new(IpAddr::V4(ip), 9_899)
                    })
                    .collect()
            });
            let (mut sender, mut reader) = (endpoint(), endpoint());
            reader.set_addresses(there.clone(), Announce::Always);
            reader.listen(PORT, config.clone()).expect("a fresh endpoint listens nowhere");
            let (local, peer) = (here.clone(), there.clone());
            let connect = Connect { local, peer, source_port: None, destination_port: PORT, config };
            sender.connect(Time::ZERO, connect).expect("there are free ports");
            let ips = |addresses: &[SocketAddr]| addresses.iter().map(SocketAddr::ip).collect::<Vec<_>>();
            let sender = world.add_host(Host::new(sender, Bulk::new(true)), ips(&here));
            let reader = world.add_host(Host::new(reader, Bulk::new(false)), ips(&there));
            for (path, link) in flow.over.iter().enumerate() {
                world.route(here[path].ip(), there[path].ip(), links[*link][0]);
                world.route(there[path].ip(), here[path].ip(), links[*link][1]);
            }
            hosts.push([sender, reader]);
        }
        for Change { at, link, to } in &self.changes {
            world.run_until(Time::ZERO + *at);
            for (link, to) in links[*link].iter().zip(to) {
                world.set_link(*link, to.clone());
            }
        }
        world.run_until(Time::ZERO + self.end);
        let outcome = |[sender, reader]: [_; 2]| {
            let stats = |host| {
                let host: &Host<Bulk> = world.host(host);
                let id = host.app().id.expect("the association came about");
                host.endpoint().association(id).expect("nothing removes it").stats()
            };
            let mut windows = world.host(reader).app().windows.clone();
            windows.resize((self.end.as_nanos() / WINDOW.as_nanos()) as usize, 0);
            Outcome { windows, sender: stats(sender), reader: stats(reader) }
        };
        hosts.into_iter().map(outcome).collect()
    }
}

/// One side of a flow: sends without end, or reads and checks.
#[derive(Debug)]
struct Bulk {
    sends: bool,
    id: Option<AssociationId>,
    /// Messages sent, or read whole.
    messages: u64,
    /// Of a message that came in part.
    partial: VecDeque<Bytes>,
    windows: Vec<u64>,
}

impl Bulk {
    fn new(sends: bool) -> Self {
        Self { sends, id: None, messages: 0, partial: VecDeque::new(), windows: Vec::new() }
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
