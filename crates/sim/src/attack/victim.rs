//! A server under attack in the simulator, and an honest client of it.
//!
//! The server uses an association as `braidftp serve` does: before a login it reads only the control
//! stream, with a small window and a time limit; after it, it reads an upload or sends endless data, as
//! requested.

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{
    AssociationId, Config, Connect, Counters, Endpoint, Event, Limits, Message, Ppid, Profile, StreamId,
};
use bytes::Bytes;

use super::{Attack, Attacker, Target, Words};
use crate::host::{App, Endpoints, Host};
use crate::link::LinkConfig;
use crate::protection::Identity;
use crate::random::Random;
use crate::world::{Actor, HostId, World};

/// The server's SCTP port.
const PORT: u16 = 21;
/// The stream of commands.
const CONTROL: StreamId = StreamId(0);
/// The stream of data.
const DATA: StreamId = StreamId(1);
/// The length of the client's writes in bytes.
const WRITE: usize = 16 << 10;
/// The time limit of a login.
const LOGIN: Duration = Duration::from_secs(15);

/// The commands of this server.
const LOG_IN: &[u8] = b"log in";
const LOGGED_IN: &[u8] = b"logged in";
const SEND: &[u8] = b"send";
const TAKE: &[u8] = b"take";
const QUIT: &[u8] = b"quit";

/// The messages of an attacker for this server.
pub fn words() -> Words {
    let words = |word: &'static [u8]| vec![Bytes::from_static(word)];
    Words {
        log_in: words(LOG_IN),
        ask: words(SEND),
        list: words(SEND),
        digest: words(LOG_IN),
        store: None,
        quit: words(QUIT),
    }
}

/// An attack in the simulator.
#[derive(Debug, Clone)]
pub struct Trial {
    /// The attack, if there is one.
    pub attack: Option<Attack>,
    /// The limits of the server's endpoint.
    pub limits: Limits,
    /// The server's associations.
    pub config: Config,
    /// The duration of the attack; the honest client connects in the middle of it.
    pub lasts: Duration,
    /// The time that the server then has to free memory.
    pub gives_back: Duration,
    /// The seed.
    pub seed: u64,
}

/// The result of an attack.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Outcome {
    /// The maximum memory of the server's associations in bytes.
    pub memory_most: usize,
    /// Their memory at the end, without the honest client's.
    pub memory_after: usize,
    /// The maximum number of associations.
    pub associations_most: usize,
    /// The number of associations at the end, including the honest client's.
    pub associations_after: usize,
    /// The time that the honest client took to log in, if it could.
    pub login: Option<Duration>,
    /// Bytes of the honest client that the server read during the attack.
    pub taken: u64,
    /// The number of the attack's associations that were able to attack.
    pub active: usize,
    /// The counters of the server's endpoint.
    pub counters: Counters,
}

impl Trial {
    /// This attack on a server with a configuration derived from the profile `modern`: a window of 16
    /// KiB and 15 s before login, 50 associations per address, 200 half-open ones, and this memory
    /// limit.
    pub fn of(attack: Option<Attack>, memory_bytes: usize) -> Self {
        let config = Profile::Modern.config().with(|c| {
            c.streams.inbound = 65;
            c.streams.outbound = 65;
            c.memory.unadmitted_receive_buffer_bytes = Some(16 << 10);
            c.timers.shutdown_guard = Duration::from_secs(15);
        });
        let limits =
            Limits { memory_bytes, associations_per_address: 50, half_open: 200, ..Limits::default() };
        let (lasts, gives_back) = (Duration::from_secs(10), Duration::from_secs(30));
        Self { attack, limits, config, lasts, gives_back, seed: 1 }
    }

    /// Whether the server only accepts protected associations.
    fn is_protected(&self) -> bool {
        self.attack.is_some_and(|attack| attack.says.is_hellos())
    }

    /// Adds the attacker's host with its own link.
    fn add_attacker(&self, world: &mut World<Node>, attack: Attack, server: SocketAddr) -> HostId {
        let from: Vec<_> = (0..attack.addresses())
            .map(|nth| SocketAddr::new(ip(2 + (nth / 250) as u8, 1 + (nth % 250) as u8), server.port()))
            .collect();
        let ips: Vec<_> = from.iter().map(SocketAddr::ip).collect();
        let target = Target { server, port: PORT, from };
        let attacker = Attacker::new(attack, target, &words(), self.seed);
        let id = world.add_host(Node::Attacker(Box::new(attacker)), ips.iter().copied());
        let [up, down] = [(), ()].map(|()| world.add_link(link("rate=10gbit,delay=1ms,queue=4MB")));
        for attacker_ip in ips {
            world.route(attacker_ip, server.ip(), up);
            world.route(server.ip(), attacker_ip, down);
        }
        id
    }

    /// Runs the attack.
    pub fn run(&self) -> Outcome {
        let server_ip = ip(0, 1);
        let at = |ip| SocketAddr::new(ip, 9_899);
        let mut random = Random::new(self.seed, 1 << 51);
        let mut world = World::new(self.seed);
        let mut endpoint = Endpoint::with_limits(random.seed(), self.limits);
        let identity = self.is_protected().then(Identity::new);
        let dtls = identity.as_ref().map(|identity| identity.server().dtls());
        let config = self.config.clone().with(|c| c.security.dtls = dtls);
        endpoint.listen(PORT, Arc::new(config)).expect("a fresh endpoint listens nowhere");
        let mut host = Host::new(endpoint, Server::default());
        if let Some(identity) = &identity {
            host = host.protected(identity.server());
        }
        let server = world.add_host(Node::Server(host), [server_ip]);
        let begins = Time::ZERO + self.lasts / 2;
        let client_ip = ip(1, 1);
        let dtls = identity.as_ref().map(|identity| identity.client().dtls());
        let connect = Connect {
            local: vec![at(client_ip)],
            peer: vec![at(server_ip)],
            source_port: None,
            destination_port: PORT,
            config: Arc::new(Profile::Modern.config().with(|c| c.security.dtls = dtls)),
        };
        let client = Client { connect: Some((begins, connect)), ..Client::default() };
        let mut host = Host::new(Endpoint::new(random.seed()), client);
        if let Some(identity) = &identity {
            host = host.protected(identity.client());
        }
        let client = world.add_host(Node::Client(host), [client_ip]);
        let [up, down] = [(), ()].map(|()| world.add_link(link("rate=50mbit,delay=10ms,queue=200kB")));
        world.route(client_ip, server_ip, up);
        world.route(server_ip, client_ip, down);
        let attacker = self.attack.map(|attack| self.add_attacker(&mut world, attack, at(server_ip)));
        let mut outcome = Outcome {
            memory_most: 0,
            memory_after: 0,
            associations_most: 0,
            associations_after: 0,
            login: None,
            taken: 0,
            active: 0,
            counters: Counters::default(),
        };
        let look = Duration::from_millis(20);
        let ends = Time::ZERO + self.lasts;
        while world.now() < ends {
            world.run_until(world.now() + look);
            let endpoint = world.host(server).server().endpoint();
            outcome.memory_most = outcome.memory_most.max(endpoint.memory_bytes());
            outcome.associations_most = outcome.associations_most.max(endpoint.len());
        }
        outcome.taken = world.host(server).server().app().taken;
        if let Some(attacker) = attacker
            && let Node::Attacker(attacker) = world.host_mut(attacker)
        {
            outcome.active = attacker.active();
            attacker.stop();
        }
        world.run_until(ends + self.gives_back);
        if let Node::Client(host) = world.host(client) {
            outcome.login = host.app().logged_in.map(|at| at.since(begins));
        }
        let host = world.host(server).server();
        let endpoint = host.endpoint();
        let honest = host.app().honest.and_then(|id| endpoint.association(id));
        outcome.memory_after = endpoint.memory_bytes() - honest.map_or(0, |honest| honest.memory_bytes());
        outcome.associations_after = endpoint.len();
        outcome.counters = endpoint.counters();
        outcome
    }
}

fn link(text: &str) -> LinkConfig {
    text.parse().expect("a link's words")
}

fn ip(net: u8, host: u8) -> IpAddr {
    Ipv4Addr::new(10, 0, net, host).into()
}

/// The hosts.
#[derive(Debug)]
enum Node {
    Server(Host<Server>),
    Client(Host<Client>),
    Attacker(Box<Attacker>),
}

impl Node {
    fn server(&self) -> &Host<Server> {
        match self {
            Self::Server(host) => host,
            _ => panic!("only the server is asked"),
        }
    }
}

impl Actor for Node {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        match self {
            Self::Server(host) => host.handle(now, datagram),
            Self::Client(host) => host.handle(now, datagram),
            Self::Attacker(attacker) => attacker.handle(now, datagram),
        }
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, std::convert::Infallible> {
        match self {
            Self::Server(host) => host.poll(now),
            Self::Client(host) => host.poll(now),
            Self::Attacker(attacker) => attacker.poll(now),
        }
    }
}

/// What a client of the server requested.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum Wish {
    #[default]
    Nothing,
    /// The server sends.
    Send,
    /// The server reads.
    Take,
}

#[derive(Debug)]
struct Session {
    since: Time,
    logged_in: bool,
    wish: Wish,
}

/// The server's application.
#[derive(Debug, Default)]
struct Server {
    sessions: BTreeMap<AssociationId, Session>,
    /// Bytes of uploads read.
    taken: u64,
    /// The association of the honest client.
    honest: Option<AssociationId>,
}

impl Server {
    fn send(endpoints: &mut Endpoints, id: AssociationId) {
        let message = || Message::new(Ppid(0), Bytes::from_static(&[0x5a; WRITE]));
        if let Some(association) = endpoints.sctp.association_mut(id) {
            while association.send(DATA, message()).is_ok() {}
        }
    }

    fn obey(&mut self, endpoints: &mut Endpoints, id: AssociationId, word: &[u8]) {
        let Some(session) = self.sessions.get_mut(&id) else { return };
        let Some(association) = endpoints.sctp.association_mut(id) else { return };
        match word {
            LOG_IN => {
                session.logged_in = true;
                association.admit();
                // If it is full or shutting down, its peer gets no response.
                let _ = association.send(CONTROL, Message::new(Ppid(0), Bytes::from_static(LOGGED_IN)));
            }
            SEND if session.logged_in => {
                session.wish = Wish::Send;
                Self::send(endpoints, id);
            }
            TAKE if session.logged_in => {
                session.wish = Wish::Take;
                self.honest = Some(id);
            }
            QUIT => association.shutdown(),
            _ => {}
        }
    }
}

impl App for Server {
    fn on_event(&mut self, now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        match event {
            Event::Accepted => {
                self.sessions.insert(id, Session { since: now, logged_in: false, wish: Wish::Nothing });
            }
            Event::Readable(CONTROL) => {
                while let Some(piece) =
                    endpoints.sctp.association_mut(id).and_then(|association| association.recv(CONTROL))
                {
                    let word: Vec<u8> = piece.payload.iter().flatten().copied().collect();
                    self.obey(endpoints, id, &word);
                }
            }
            Event::Readable(stream) if self.sessions.get(&id).is_some_and(|one| one.wish == Wish::Take) => {
                let Some(association) = endpoints.sctp.association_mut(id) else { return };
                while let Some(piece) = association.recv(stream) {
                    self.taken += piece.len() as u64;
                }
            }
            Event::Writable if self.sessions.get(&id).is_some_and(|one| one.wish == Wish::Send) => {
                Self::send(endpoints, id);
            }
            Event::Closed(_) => {
                self.sessions.remove(&id);
                endpoints.sctp.remove(id);
            }
            _ => {}
        }
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        let late = |session: &Session| !session.logged_in && now.since(session.since) >= LOGIN;
        let late: Vec<_> =
            self.sessions.iter().filter(|(_, session)| late(session)).map(|(id, _)| *id).collect();
        for id in late {
            self.sessions.remove(&id);
            endpoints.sctp.remove(id);
        }
        self.sessions.values().filter(|session| !session.logged_in).map(|session| session.since + LOGIN).min()
    }
}

/// An honest client: logs in and uploads endlessly.
#[derive(Debug, Default)]
struct Client {
    connect: Option<(Time, Connect)>,
    logged_in: Option<Time>,
}

impl Client {
    fn send(endpoints: &mut Endpoints, id: AssociationId) {
        let message = || Message::new(Ppid(0), Bytes::from_static(&[0xa5; WRITE]));
        if let Some(association) = endpoints.sctp.association_mut(id) {
            while association.send(DATA, message()).is_ok() {}
        }
    }
}

impl App for Client {
    fn on_event(&mut self, now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        match event {
            Event::Up { .. } => {
                if let Some(association) = endpoints.sctp.association_mut(id) {
                    for word in [LOG_IN, TAKE] {
                        let sent = association.send(CONTROL, Message::new(Ppid(0), Bytes::from_static(word)));
                        sent.expect("the send buffer is empty");
                    }
                }
            }
            Event::Readable(stream) => {
                if let Some(association) = endpoints.sctp.association_mut(id) {
                    while association.recv(stream).is_some() {}
                }
                self.logged_in.get_or_insert(now);
                Self::send(endpoints, id);
            }
            Event::Writable if self.logged_in.is_some() => Self::send(endpoints, id),
            _ => {}
        }
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        if let Some((_, connect)) = self.connect.take_if(|(at, _)| *at <= now) {
            endpoints.sctp.connect(now, connect).expect("there are free ports");
        }
        self.connect.as_ref().map(|(at, _)| *at)
    }
}

#[cfg(test)]
mod tests {
    use super::super::ATTACKS;
    use super::*;

    const MB: usize = 1 << 20;

    /// A quarter of the default limit, which leaves an honest client more than its path's bandwidth-delay product.
    const BOUND: usize = 32 * MB;

    fn trial(attack: Option<Attack>) -> Outcome {
        Trial { lasts: Duration::from_secs(6), ..Trial::of(attack, BOUND) }.run()
    }

    #[test]
    fn every_attack_of_the_table_stays_within_the_limits_and_an_honest_client_is_served() {
        let alone = trial(None);
        assert!(alone.taken > 10_000_000, "{alone:?}");
        for &attack in ATTACKS {
            // Each handshake takes milliseconds without optimization.
            let packets_a_second = if attack.says.is_hellos() { 100 } else { attack.packets_a_second };
            let attack = Attack { packets_a_second, ..attack };
            let outcome = trial(Some(attack));
            let name = attack.name;
            println!("{name}: {outcome:?}");
            assert!(outcome.memory_most <= BOUND, "{name}: {outcome:?}");
            assert!(outcome.memory_after <= BOUND / 4, "{name} gives back: {outcome:?}");
            assert!(outcome.login.is_some_and(|took| took <= Duration::from_secs(1)), "{name}: {outcome:?}");
            assert!(outcome.taken >= alone.taken / 10 * 8, "{name}: {} {outcome:?}", alone.taken);
            let addresses = usize::from(attack.addresses());
            assert!(outcome.associations_most <= 1 + 50 * addresses, "{name}: {outcome:?}");
        }
    }

    /// Peers that begin handshakes and never complete them, from few addresses and from many: the endpoint holds at most as
    /// many as its limits permit, and an honest client logs in as fast as without them.
    #[test]
    fn silent_handshakes_are_bounded_in_number_by_address_and_in_memory() {
        const HALF_OPEN: usize = 8;
        const BY_ADDRESS: usize = 3;
        let attack =
            ATTACKS.iter().find(|attack| attack.name == "hellos-silent").expect("it is in the table");
        let run = |from_one_address, packets_a_second| {
            let attack = Attack { from_one_address, packets_a_second, ..*attack };
            let mut trial = Trial { lasts: Duration::from_secs(6), ..Trial::of(Some(attack), BOUND) };
            (trial.limits.half_open, trial.limits.associations_per_address) = (HALF_OPEN, BY_ADDRESS);
            trial.run()
        };
        let quiet = run(2, 1);
        let usual = quiet.login.expect("it is served");
        for (from_one_address, most) in [(2, HALF_OPEN), (attack.associations, BY_ADDRESS)] {
            let outcome = run(from_one_address, 400);
            println!("{from_one_address} from each address: {outcome:?}; usual login {usual:?}");
            // And the honest client, which has logged in.
            assert!((most..=most + 1).contains(&outcome.associations_most), "{outcome:?}");
            assert!(outcome.counters.half_open_aborted > 100, "{outcome:?}");
            assert!(outcome.memory_most <= quiet.memory_most + most * (64 << 10), "{outcome:?}, {quiet:?}");
            assert!(outcome.login.is_some_and(|took| took <= 2 * usual), "{outcome:?}, usual {usual:?}");
        }
    }

    #[test]
    fn without_limits_the_attacks_take_more() {
        let unlimited = Limits::default();
        let config = Trial::of(None, 0).config.with(|c| c.memory.unadmitted_receive_buffer_bytes = None);
        let mut taken = Vec::new();
        for name in ["hoard", "zero-window", "outlive-data"] {
            let attack = ATTACKS.iter().find(|attack| attack.name == name).copied();
            let trial = Trial { limits: unlimited, config: config.clone(), ..Trial::of(attack, 0) };
            taken.push((name, trial.run().memory_most));
        }
        assert!(taken.iter().all(|(_, bytes)| *bytes > BOUND), "{taken:?}");
    }

    #[test]
    fn the_same_seed_is_the_same_attack() {
        let attack = ATTACKS.iter().find(|attack| attack.name == "gap-tiny").copied();
        assert_eq!(trial(attack), trial(attack));
    }
}
