//! Requests and answers over SCTP or TCP: a client sends requests at given times, or each some time after the previous answer,
//! and a server answers; with a connection for each request or one for all.
//!
//! The first 16 bytes of a request state its length and that of the answer, so the server needs no configuration. Downloads are
//! short requests with long answers, uploads the reverse; web traffic is many of them.

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_tcp as tcp;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::bulk::{Protocol, protected};
use crate::host::{App, Endpoints, Host};
use crate::random::Random;

/// The port of the server.
const PORT: u16 = 5_002;
/// The stream of draws of endpoints' seeds.
const RANDOM_STREAM: u64 = 1 << 47;
/// The first bytes of a request: the lengths of request and answer.
const HEAD: usize = 16;
/// The most bytes written at a time.
const WRITE: usize = 16 << 10;

/// A requested transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Transfer {
    /// When it begins.
    pub due: Due,
    /// Bytes of the request; at least 16 are sent.
    pub request_bytes: u64,
    /// Bytes of the answer; at least 1 is sent.
    pub answer_bytes: u64,
}

/// When a transfer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Due {
    /// At this time after the start of the world.
    At(Duration),
    /// This long after the end of the previous transfer; the first one after the start of the world.
    After(Duration),
}

/// How transfers share connections.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Connections {
    /// Each has its own, opened when it is due.
    OneEach,
    /// All share one, opened with the first; answers come in the order of requests.
    Shared,
}

/// The result of a transfer.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Fate {
    /// When it was due.
    pub due: Option<Time>,
    /// When the answer was complete.
    pub done: Option<Time>,
    /// Whether its connection failed before.
    pub failed: bool,
}

/// One side: the client, or the server.
#[derive(Debug)]
pub struct Transfers {
    client: Option<Client>,
    conns: Vec<Conn>,
    /// Bytes of answers read by the client.
    read: u64,
}

#[derive(Debug)]
struct Client {
    protocol: Protocol,
    from: Vec<IpAddr>,
    to: Vec<IpAddr>,
    connections: Connections,
    plan: Vec<Transfer>,
    fates: Vec<Fate>,
    /// The next transfer to begin.
    next: usize,
    /// When a transfer that follows another begins, as soon as that is known.
    follows: Option<Time>,
}

/// A connection of either side.
#[derive(Debug)]
struct Conn {
    id: Id,
    /// Data to be written: parts of requests or answers.
    out: VecDeque<Part>,
    /// Expected data: answers on the client, the rest of a request on the server.
    expects: VecDeque<Expected>,
    /// The first bytes of a request.
    head: BytesMut,
    /// Whether it is closed after its last answer.
    closes: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Id {
    Sctp(sctp::AssociationId),
    Tcp(tcp::ConnectionId),
}

#[derive(Debug)]
enum Part {
    Head(Bytes),
    Filler(u64),
}

#[derive(Debug)]
struct Expected {
    /// The bytes still missing.
    left: u64,
    /// On the client: the transfer.
    transfer: usize,
    /// On the server: the length of the answer.
    answer_bytes: u64,
}

/// The two hosts: the client and the server, with one address on each path. TCP uses the first.
///
/// # Panics
/// If there is no address.
pub fn hosts(
    protocol: &Protocol,
    plan: Vec<Transfer>,
    connections: Connections,
    clients: &[IpAddr],
    servers: &[IpAddr],
    seed: u64,
) -> [Host<Transfers>; 2] {
    assert!(!clients.is_empty() && !servers.is_empty(), "both sides have an address");
    let mut random = Random::new(seed, RANDOM_STREAM);
    let mut endpoints = || {
        let seed = random.seed();
        let tcp = tcp::Endpoint::new(u64::from_le_bytes([seed[0]; 8]));
        Endpoints { sctp: sctp::Endpoint::new(seed), tcp }
    };
    let (asks, mut answers) = (endpoints(), endpoints());
    let fresh = "a fresh endpoint listens nowhere";
    let ([connects, accepts], settings) = protocol.sides();
    match &accepts {
        Protocol::Sctp(config) => answers.sctp.listen(PORT, config.clone()).expect(fresh),
        Protocol::Tcp(config) => answers.tcp.listen(PORT, config.clone()).expect(fresh),
    }
    if servers.len() > 1 {
        let addresses = servers.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        answers.sctp.set_addresses(addresses, sctp::Announce::Always);
    }
    let fates = vec![Fate::default(); plan.len()];
    let client = Client {
        protocol: connects,
        from: clients.to_vec(),
        to: servers.to_vec(),
        connections,
        follows: Some(Time::ZERO),
        next: 0,
        plan,
        fates,
    };
    let side = |client| Transfers { client, conns: Vec::new(), read: 0 };
    protected([Host::new(asks, side(Some(client))), Host::new(answers, side(None))], settings)
}

impl Transfers {
    /// The results of the transfers; empty on the server.
    pub fn fates(&self) -> &[Fate] {
        self.client.as_ref().map_or(&[], |client| &client.fates)
    }

    /// Whether each transfer is done or has failed.
    pub fn is_over(&self) -> bool {
        self.fates().iter().all(|fate| fate.done.is_some() || fate.failed)
    }

    /// Bytes of answers that the client has read.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// The number of connections that are open here.
    pub fn open(&self) -> usize {
        self.conns.len()
    }

    /// The associations that are open here.
    pub fn associations(&self) -> impl Iterator<Item = sctp::AssociationId> + '_ {
        self.conns.iter().filter_map(|conn| match conn.id {
            Id::Sctp(id) => Some(id),
            Id::Tcp(_) => None,
        })
    }

    fn at(&mut self, id: Id) -> usize {
        self.conns.iter().position(|conn| conn.id == id).unwrap_or_else(|| {
            self.conns.push(Conn::new(id));
            self.conns.len() - 1
        })
    }

    fn on_bytes(&mut self, now: Time, endpoints: &mut Endpoints, id: Id, bytes: Bytes) {
        let at = self.at(id);
        let conn = &mut self.conns[at];
        match &mut self.client {
            Some(client) => {
                self.read += bytes.len() as u64;
                conn.on_answer(bytes.len() as u64, |transfer| client.done(now, transfer));
                if conn.closes && conn.expects.is_empty() {
                    id.close(endpoints);
                }
            }
            None => conn.on_request(bytes),
        }
        self.conns[at].write(endpoints);
    }

    fn on_end(&mut self, now: Time, id: Id) {
        let Some(at) = self.conns.iter().position(|conn| conn.id == id) else { return };
        let conn = self.conns.swap_remove(at);
        if let Some(client) = &mut self.client {
            for expected in conn.expects {
                client.fates[expected.transfer].failed = true;
                client.follow(now, expected.transfer);
            }
        }
    }

    /// Begins the transfers that are due.
    fn begin(&mut self, now: Time, endpoints: &mut Endpoints) {
        let Some(mut client) = self.client.take() else { return };
        while client.due().is_some_and(|due| due <= now) {
            let transfer = client.next;
            client.fates[transfer].due = client.due();
            client.next += 1;
            client.follows = None;
            let existing = match client.connections {
                Connections::Shared => self.conns.first().map(|conn| conn.id),
                Connections::OneEach => None,
            };
            let id = existing.unwrap_or_else(|| client.connect(now, endpoints));
            let at = self.at(id);
            let conn = &mut self.conns[at];
            conn.closes = client.connections == Connections::OneEach;
            conn.ask(transfer, client.plan[transfer]);
            conn.write(endpoints);
        }
        self.client = Some(client);
    }
}

impl Client {
    /// When the next transfer begins, as far as it is known.
    fn due(&self) -> Option<Time> {
        match self.plan.get(self.next)?.due {
            Due::At(at) => Some(Time::ZERO + at),
            Due::After(pause) => self.follows.map(|since| since + pause),
        }
    }

    fn done(&mut self, now: Time, transfer: usize) {
        self.fates[transfer].done = Some(now);
        self.follow(now, transfer);
    }

    fn follow(&mut self, now: Time, transfer: usize) {
        if transfer + 1 == self.next {
            self.follows = Some(now);
        }
    }

    fn connect(&self, now: Time, endpoints: &mut Endpoints) -> Id {
        match &self.protocol {
            Protocol::Sctp(config) => {
                let [local, peer] = [&self.from, &self.to]
                    .map(|ends| ends.iter().map(|ip| SocketAddr::new(*ip, 0)).collect::<Vec<_>>());
                let config = config.clone();
                let connect =
                    sctp::Connect { local, peer, source_port: None, destination_port: PORT, config };
                Id::Sctp(endpoints.sctp.connect(now, connect).expect("there are free ports"))
            }
            Protocol::Tcp(config) => {
                let (from, to) = (SocketAddr::new(self.from[0], 0), SocketAddr::new(self.to[0], PORT));
                let config = Arc::clone(config);
                Id::Tcp(endpoints.tcp.connect(now, from, to, config).expect("there are free ports"))
            }
        }
    }
}

impl Conn {
    fn new(id: Id) -> Self {
        let (out, expects) = (VecDeque::new(), VecDeque::new());
        Self { id, out, expects, head: BytesMut::new(), closes: false }
    }

    fn ask(&mut self, transfer: usize, Transfer { request_bytes, answer_bytes, .. }: Transfer) {
        let (request_bytes, answer_bytes) = (request_bytes.max(HEAD as u64), answer_bytes.max(1));
        let mut head = BytesMut::with_capacity(HEAD);
        head.put_u64(request_bytes);
        head.put_u64(answer_bytes);
        self.out.push_back(Part::Head(head.freeze()));
        self.out.push_back(Part::Filler(request_bytes - HEAD as u64));
        self.expects.push_back(Expected { left: answer_bytes, transfer, answer_bytes: 0 });
    }

    fn on_answer(&mut self, mut bytes: u64, mut done: impl FnMut(usize)) {
        while bytes > 0
            && let Some(first) = self.expects.front_mut()
        {
            let taken = bytes.min(first.left);
            (bytes, first.left) = (bytes - taken, first.left - taken);
            if first.left == 0 {
                done(first.transfer);
                self.expects.pop_front();
            }
        }
    }

    fn on_request(&mut self, mut bytes: Bytes) {
        loop {
            if let Some(rest) = self.expects.front_mut() {
                let taken = rest.left.min(bytes.len() as u64);
                bytes.advance(taken as usize);
                rest.left -= taken;
                if rest.left > 0 {
                    return;
                }
                self.out.push_back(Part::Filler(rest.answer_bytes));
                self.expects.pop_front();
            }
            if bytes.is_empty() {
                return;
            }
            self.head.extend_from_slice(&bytes.split_to(bytes.len().min(HEAD - self.head.len())));
            if self.head.len() == HEAD {
                let mut head = self.head.split();
                let left = head.get_u64() - HEAD as u64;
                self.expects.push_back(Expected { left, transfer: 0, answer_bytes: head.get_u64() });
            }
        }
    }

    /// Writes as much as the send buffer accepts.
    fn write(&mut self, endpoints: &mut Endpoints) {
        static FILLER: [u8; WRITE] = [0x5a; WRITE];
        while let Some(part) = self.out.pop_front() {
            let bytes = match &part {
                Part::Head(bytes) => bytes.clone(),
                Part::Filler(left) => Bytes::from_static(&FILLER[..WRITE.min(*left as usize)]),
            };
            let written = if bytes.is_empty() { 0 } else { self.id.send(endpoints, bytes.clone()) };
            let rest = match part {
                Part::Head(_) if written == bytes.len() => None,
                Part::Head(_) => Some(Part::Head(bytes.slice(written..))),
                Part::Filler(left) if written as u64 == left => None,
                Part::Filler(left) => Some(Part::Filler(left - written as u64)),
            };
            if let Some(rest) = rest {
                self.out.push_front(rest);
                if written < bytes.len() {
                    return;
                }
            }
        }
    }
}

impl Id {
    /// Returns how many bytes were accepted.
    fn send(self, endpoints: &mut Endpoints, bytes: Bytes) -> usize {
        match self {
            Self::Sctp(id) => {
                let Some(association) = endpoints.sctp.association_mut(id) else { return 0 };
                let length = bytes.len();
                let message = sctp::Message::new(sctp::Ppid(0), bytes);
                association.send(sctp::StreamId(0), message).map_or(0, |()| length)
            }
            Self::Tcp(id) => endpoints.tcp.connection_mut(id).map_or(0, |connection| connection.send(bytes)),
        }
    }

    fn close(self, endpoints: &mut Endpoints) {
        match self {
            Self::Sctp(id) => {
                if let Some(association) = endpoints.sctp.association_mut(id) {
                    association.shutdown();
                }
            }
            Self::Tcp(id) => {
                if let Some(connection) = endpoints.tcp.connection_mut(id) {
                    connection.close();
                }
            }
        }
    }
}

impl App for Transfers {
    fn on_event(
        &mut self,
        now: Time,
        endpoints: &mut Endpoints,
        id: sctp::AssociationId,
        event: sctp::Event,
    ) {
        match event {
            sctp::Event::Readable(stream) => {
                while let Some(piece) = endpoints.sctp.association_mut(id).and_then(|it| it.recv(stream)) {
                    for bytes in piece.payload {
                        self.on_bytes(now, endpoints, Id::Sctp(id), bytes);
                    }
                }
            }
            sctp::Event::Closed(_) => self.on_end(now, Id::Sctp(id)),
            sctp::Event::Up { .. } | sctp::Event::Writable => {
                let at = self.at(Id::Sctp(id));
                self.conns[at].write(endpoints);
            }
            _ => {}
        }
    }

    fn on_tcp_event(
        &mut self,
        now: Time,
        endpoints: &mut Endpoints,
        id: tcp::ConnectionId,
        event: tcp::Event,
    ) {
        match event {
            tcp::Event::Readable => {
                while let Some(bytes) = endpoints.tcp.connection_mut(id).and_then(tcp::Connection::recv) {
                    self.on_bytes(now, endpoints, Id::Tcp(id), bytes);
                }
            }
            tcp::Event::PeerClosed => Id::Tcp(id).close(endpoints),
            tcp::Event::Closed(_) => self.on_end(now, Id::Tcp(id)),
            tcp::Event::Up | tcp::Event::Writable => {
                let at = self.at(Id::Tcp(id));
                self.conns[at].write(endpoints);
            }
            tcp::Event::Accepted { .. } => {}
        }
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        self.begin(now, endpoints);
        self.client.as_ref().and_then(Client::due)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::topology;
    use crate::{LinkConfig, World};

    const SECOND: Duration = Duration::from_secs(1);

    fn protocols() -> [Protocol; 2] {
        let sctp = sctp::Profile::Modern.config();
        [Protocol::Sctp(Arc::new(sctp)), Protocol::Tcp(Arc::new(tcp::Profile::Modern.config()))]
    }

    fn ran(
        protocol: &Protocol,
        plan: Vec<Transfer>,
        connections: Connections,
        link: &str,
    ) -> (Vec<Fate>, [usize; 2]) {
        let [client, server] = [1, 2].map(|host| topology::address(0, host));
        let mut world = World::new(3);
        let [asks, answers] = hosts(protocol, plan, connections, &[client], &[server], 3);
        let asks = world.add_host(asks, [client]);
        let answers = world.add_host(answers, [server]);
        let link: LinkConfig = link.parse().unwrap();
        topology::path(&mut world, client, server, &[link.clone(), link]);
        world.run_while(SECOND * 600, |world| !world.host(asks).app().is_over());
        world.run_until(world.now() + SECOND * 10);
        (world.host(asks).app().fates().to_vec(), [asks, answers].map(|host| world.host(host).app().open()))
    }

    fn transfer(due: Due, request_bytes: u64, answer_bytes: u64) -> Transfer {
        Transfer { due, request_bytes, answer_bytes }
    }

    #[test]
    fn downloads_and_uploads_take_the_transmission_time_of_the_link() {
        for protocol in &protocols() {
            for connections in [Connections::OneEach, Connections::Shared] {
                let plan = vec![
                    transfer(Due::At(SECOND), 100, 1_000_000),
                    transfer(Due::At(SECOND * 5), 1_000_000, 0),
                ];
                let (fates, open) = ran(protocol, plan, connections, "rate=8mbit,delay=5ms,loss=0.01");
                for (fate, due) in fates.iter().zip([1.0, 5.0]) {
                    assert_eq!(fate.due.unwrap().as_nanos() as f64 / 1e9, due);
                    let took = fate.done.unwrap().since(fate.due.unwrap()).as_secs_f64();
                    // A second at 8 Mbit/s, and headers.
                    assert!((1.0..1.6).contains(&took), "{protocol:?} {connections:?}: {took}");
                }
                assert_eq!(open, if connections == Connections::Shared { [1, 1] } else { [0, 0] });
            }
        }
    }

    #[test]
    fn a_transfer_that_follows_another_begins_after_its_end() {
        for protocol in &protocols() {
            let plan = vec![transfer(Due::After(SECOND), 100, 5_000); 3];
            let (fates, _) = ran(protocol, plan, Connections::Shared, "rate=8mbit,delay=5ms");
            assert_eq!(fates[0].due, Some(Time::ZERO + SECOND));
            for pair in fates.windows(2) {
                assert_eq!(pair[1].due.unwrap().since(pair[0].done.unwrap()), SECOND, "{protocol:?}");
            }
        }
    }

    #[test]
    fn a_transfer_over_a_dead_link_fails_and_the_next_is_begun() {
        for protocol in &protocols() {
            let plan = vec![transfer(Due::After(Duration::ZERO), 100, 5_000); 2];
            let (fates, open) = ran(protocol, plan, Connections::OneEach, "loss=1");
            assert!(fates.iter().all(|fate| fate.failed && fate.due.is_some()), "{fates:?}");
            assert!(fates[1].due > fates[0].due);
            assert_eq!(open, [0, 0]);
        }
    }
}
