//! One file, requested and sent over its own connection: P3's FTP file download. The client connects and
//! sends a request; the server sends the file and closes; the client closes.
//!
//! FTP's control connection is absent, because the paper's response time includes the set-up and the end of
//! one connection. `sim::apps::ftp` has FTP sessions.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, OnceLock};
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_sim::World;
use braidftp_sim::apps::bulk::Protocol;
use braidftp_sim::host::{App, Endpoints, Host};
use braidftp_sim::link::LinkConfig;
use braidftp_sim::topology::{self, ClientRouterServer};
use braidftp_tcp as tcp;
use bytes::Bytes;

use super::SATELLITE;
use crate::figure::Row;

const PORT: u16 = 21;
/// The length of one write in bytes: a message of SCTP. Every window holds several of them.
const WRITE: usize = 8 << 10;
/// The length of a request in bytes.
const REQUEST: usize = 512;
/// The time limit, five hours (Table 2).
const AT_MOST: Duration = Duration::from_secs(18_000);

/// A file to fetch.
#[derive(Debug)]
pub(super) struct Download {
    /// The protocol.
    pub(super) protocol: Protocol,
    /// The length of the file.
    pub(super) bytes: u64,
    /// The links between the client, on the left, and the server.
    pub(super) links: ClientRouterServer<LinkConfig>,
    /// The seed of the losses.
    pub(super) seed: u64,
}

/// Runs a deterministic download once per `of`, which identifies the run. Figures that show the same runs
/// share the results.
pub(super) fn once(of: String, download: impl FnOnce() -> Download) -> Row {
    static MADE: Mutex<BTreeMap<String, Arc<OnceLock<Row>>>> = Mutex::new(BTreeMap::new());
    let cell = MADE.lock().expect("nobody panics while it is held").entry(of).or_default().clone();
    cell.get_or_init(|| download().run()).clone()
}

impl Download {
    /// Fetches the file; returns [`super::COLUMNS`].
    ///
    /// # Panics
    ///
    /// If the download ended early although no packet is lost.
    pub(super) fn run(self) -> Row {
        self.run_watched(AT_MOST, |_, _| ())
    }

    /// Like [`Download::run`]; `watch` is called after each `step` with the time and the bytes that the satellite link
    /// has delivered, and at the end.
    fn run_watched(self, step: Duration, mut watch: impl FnMut(Duration, u64)) -> Row {
        let [client_ip, server_ip] = [topology::address(0, 1), topology::address(1, 1)];
        let mut server = endpoints(2);
        let fresh = "a fresh endpoint listens nowhere";
        match &self.protocol {
            Protocol::Tcp(config) => server.tcp.listen(PORT, config.clone()).expect(fresh),
            Protocol::Sctp(config) => server.sctp.listen(PORT, config.clone()).expect(fresh),
        }
        let chunk = Bytes::from(vec![0x5a; WRITE]);
        let mut client = endpoints(1);
        let mut asks = Party { chunk: chunk.clone(), to_send: REQUEST as u64, ..Party::default() };
        let answers = Party { chunk, answer: Some(self.bytes), ..Party::default() };
        let free = "there are free ports";
        match &self.protocol {
            Protocol::Tcp(config) => {
                let (from, to) = (SocketAddr::new(client_ip, 0), SocketAddr::new(server_ip, PORT));
                client.tcp.connect(Time::ZERO, from, to, config.clone()).expect(free);
            }
            Protocol::Sctp(config) => {
                let [local, peer] = [client_ip, server_ip].map(|ip| vec![SocketAddr::new(ip, 0)]);
                let config = config.clone();
                let connect =
                    sctp::Connect { local, peer, source_port: None, destination_port: PORT, config };
                let id = client.sctp.connect(Time::ZERO, connect).expect(free);
                // The request is bundled with COOKIE ECHO.
                asks.write_sctp(client.sctp.association_mut(id).expect("it was just made"));
            }
        }
        let mut world = World::new(self.seed);
        let client = world.add_host(Host::new(client, asks), [client_ip]);
        let server = world.add_host(Host::new(server, answers), [server_ip]);
        let links = topology::client_router_server(&mut world, client_ip, server_ip, &self.links);
        let mut until = Duration::ZERO;
        while until < AT_MOST {
            let at_most = step.min(AT_MOST - until);
            until += at_most;
            let ended = world.run_while(at_most, |world| world.host(client).app().closed.is_none());
            world.settle();
            watch(world.now().since(Time::ZERO), world.link(links.near[1]).counters().bytes_out);
            if ended {
                break;
            }
        }
        let read = world.host(client).app().read;
        let ended = world.host(client).app().closed.filter(|_| read == self.bytes);
        let seconds = ended.map_or(AT_MOST, |at| at.since(Time::ZERO)).as_secs_f64();
        let satellite = world.link(links.near[1]).counters();
        let bits = satellite.bytes_out as f64 * 8.0;
        let (resent, timeouts, fast) = world.host(server).app().losses(world.host(server).endpoints());
        Row(vec![
            read as f64 / seconds / 1e3,
            seconds,
            bits / seconds / 1e3,
            100.0 * bits / seconds / SATELLITE as f64,
            read as f64 / 1e6,
            resent as f64,
            timeouts as f64,
            fast as f64,
            satellite.dropped_queue as f64,
        ])
    }
}

/// The bytes that the satellite link has delivered over the time of a download.
#[derive(Debug)]
pub(super) struct Progress {
    /// The duration of the download.
    pub(super) seconds: Duration,
    /// Times, and the bytes until then.
    points: Vec<(Duration, u64)>,
}

impl Progress {
    /// Runs a deterministic download once per `of`.
    pub(super) fn once(of: String, step: Duration, download: impl FnOnce() -> Download) -> Arc<Self> {
        type Cell = Arc<OnceLock<Arc<Progress>>>;
        static MADE: Mutex<BTreeMap<String, Cell>> = Mutex::new(BTreeMap::new());
        let cell = MADE.lock().expect("nobody panics while it is held").entry(of).or_default().clone();
        let made = cell.get_or_init(|| {
            let mut points = Vec::new();
            download().run_watched(step, |at, bytes| points.push((at, bytes)));
            let seconds = points.last().map_or(Duration::ZERO, |(at, _)| *at);
            Arc::new(Self { seconds, points })
        });
        made.clone()
    }

    /// The bytes until a time, which is rounded down to one at which the link was read.
    pub(super) fn bytes(&self, until: Duration) -> f64 {
        let place = self.points.partition_point(|(at, _)| *at <= until);
        place.checked_sub(1).map_or(0.0, |place| self.points[place].1 as f64)
    }
}

fn endpoints(seed: u8) -> Endpoints {
    Endpoints { sctp: sctp::Endpoint::new([seed; 32]), tcp: tcp::Endpoint::new(u64::from(seed)) }
}

/// Client or server.
#[derive(Debug, Default)]
struct Party {
    /// The bytes that are sent repeatedly.
    chunk: Bytes,
    /// The number of bytes still to be written.
    to_send: u64,
    /// The length of the answer to a complete request, at the server.
    answer: Option<u64>,
    /// Whether this side closes after the last byte is written.
    closes: bool,
    read: u64,
    connection: Option<tcp::ConnectionId>,
    association: Option<sctp::AssociationId>,
    closed: Option<Time>,
}

impl Party {
    /// Processes read bytes: a complete request is answered.
    fn on_read(&mut self) {
        if self.read >= REQUEST as u64
            && let Some(bytes) = self.answer.take()
        {
            self.to_send = bytes;
            self.closes = true;
        }
    }

    fn next_chunk(&self) -> Bytes {
        self.chunk.slice(..self.to_send.min(WRITE as u64) as usize)
    }

    fn write_tcp(&mut self, connection: &mut tcp::Connection) {
        while self.to_send > 0 {
            let taken = connection.send(self.next_chunk());
            self.to_send -= taken as u64;
            if taken == 0 {
                return;
            }
        }
        if std::mem::take(&mut self.closes) {
            connection.close();
        }
    }

    fn write_sctp(&mut self, association: &mut sctp::Association) {
        while self.to_send > 0 {
            let chunk = self.next_chunk();
            let length = chunk.len() as u64;
            if association.send(sctp::StreamId(0), sctp::Message::new(sctp::Ppid(0), chunk)).is_err() {
                return;
            }
            self.to_send -= length;
        }
        if std::mem::take(&mut self.closes) {
            association.shutdown();
        }
    }

    /// The counts of retransmissions, of time-outs, and of recoveries without a time-out.
    fn losses(&self, endpoints: &Endpoints) -> (u64, u64, u64) {
        let counters =
            self.connection.and_then(|id| endpoints.tcp.connection(id)).map(|it| it.stats().counters);
        let tcp = counters.map_or((0, 0, 0), |c| (c.retransmissions, c.timeouts, c.fast_retransmits));
        let association = self.association.and_then(|id| endpoints.sctp.association(id));
        association.into_iter().flat_map(|it| it.stats().paths).fold(tcp, |(resent, timeouts, fast), path| {
            (resent + path.retransmitted_chunks, timeouts + path.timeouts, fast + path.fast_retransmits)
        })
    }
}

impl App for Party {
    fn on_event(
        &mut self,
        now: Time,
        endpoints: &mut Endpoints,
        id: sctp::AssociationId,
        event: sctp::Event,
    ) {
        self.association = Some(id);
        let Some(association) = endpoints.sctp.association_mut(id) else { return };
        while let Some(message) = association.recv(sctp::StreamId(0)) {
            self.read += message.len() as u64;
        }
        self.on_read();
        match event {
            sctp::Event::Closed(_) => self.closed = Some(now),
            _ => self.write_sctp(association),
        }
    }

    fn on_tcp_event(
        &mut self,
        now: Time,
        endpoints: &mut Endpoints,
        id: tcp::ConnectionId,
        event: tcp::Event,
    ) {
        self.connection = Some(id);
        let Some(connection) = endpoints.tcp.connection_mut(id) else { return };
        while let Some(bytes) = connection.recv() {
            self.read += bytes.len() as u64;
        }
        self.on_read();
        match event {
            tcp::Event::Closed(_) => self.closed = Some(now),
            tcp::Event::PeerClosed => connection.close(),
            _ => self.write_tcp(connection),
        }
    }

    fn wake(&mut self, _now: Time, _endpoints: &mut Endpoints) -> Option<Time> {
        None
    }
}
