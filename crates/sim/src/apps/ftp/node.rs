//! A host of a session: client or server, a tap, and possibly a NAT in front of it.

use std::collections::BTreeSet;
use std::convert::Infallible;
use std::net::IpAddr;

use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{AssociationId, Event, Stats};
use braidftp_tcp as tcp;
use bytes::{Bytes, BytesMut};

use super::bundle::Bundle;
use super::client::Client;
use super::net::{Conn, ConnEvent, Ledger, Net, conn_event, send_lines_first};
use super::server::Server;
use super::silence;
use super::tap::{Purpose, Shared, Tap, word16};
use super::{Nat, Watch, WindowPoint};
use crate::host::{App, Endpoints, Host};
use crate::random::{Probability, Random};
use crate::windows::SendWindows;
use crate::world::Actor;

/// A host of a session, client or server, with a tap.
#[derive(Debug)]
pub struct Node {
    pub(super) host: Host<HostApp>,
    pub(super) tap: Tap,
    overhead: usize,
    nat: Option<Translator>,
    /// The probability with which its acknowledgements are lost.
    loses: Option<(Random, Probability)>,
}

/// The application of a host.
#[derive(Debug)]
pub(super) struct HostApp {
    pub(super) side: Side,
    pub(super) ledger: Ledger,
    pub(super) bundles: Vec<Bundle>,
    /// Whether there was an event that was not acted upon.
    changed: bool,
    pub(super) blocks: Gauge,
    pub(super) memory: Option<Gauge>,
    pub(super) windows: Option<Windows>,
    /// Whether [`HostApp::waits`] is recorded.
    watches_waits: bool,
    /// If recorded: whether it has data that the peer has not acknowledged.
    pub(super) waits: bool,
}

/// Its role.
#[derive(Debug)]
pub(super) enum Side {
    Client(Box<Client>),
    Server(Server),
}

/// A quantity over time.
#[derive(Debug, Default)]
pub(super) struct Gauge {
    most: usize,
    now: usize,
    since: Time,
    /// The integral over seconds.
    area: f64,
    begun: Time,
}

impl Gauge {
    /// Starts recording.
    pub(super) fn start(&mut self, now: Time) {
        *self = Self { most: self.now, now: self.now, since: now, area: 0.0, begun: now };
    }

    fn note(&mut self, now: Time, held: usize) {
        if held != self.now {
            self.area += self.now as f64 * now.since(self.since).as_secs_f64();
            self.since = now;
            self.now = held;
            self.most = self.most.max(held);
        }
    }

    /// Returns the maximum and the mean.
    pub(super) fn most_and_mean(&self, now: Time) -> (usize, f64) {
        let area = self.area + self.now as f64 * now.since(self.since).as_secs_f64();
        let seconds = now.since(self.begun).as_secs_f64();
        (self.most, if seconds > 0.0 { area / seconds } else { self.now as f64 })
    }
}

/// The congestion windows of the server's data over time.
#[derive(Debug, Default)]
pub(super) struct Windows {
    conns: Vec<Conn>,
    pub(super) points: Vec<WindowPoint>,
}

impl Windows {
    fn look(&mut self, now: Time, endpoints: &Endpoints, bundles: &[Bundle], server: &Server) {
        for conn in server.data_conns() {
            let Some(id) = data_conn(conn, bundles) else { continue };
            let Some([cwnd_bytes, ssthresh_bytes, flight_bytes]) = numbers(endpoints, id) else { continue };
            let known = self.conns.iter().position(|known| *known == conn);
            let connection = known.unwrap_or_else(|| {
                self.conns.push(conn);
                self.conns.len() - 1
            });
            let point = WindowPoint { at: now, connection, cwnd_bytes, ssthresh_bytes, flight_bytes };
            let last = self.points.iter().rev().find(|last| last.connection == connection);
            if last.is_none_or(|last| WindowPoint { at: now, ..*last } != point) {
                self.points.push(point);
            }
        }
    }
}

/// The connection that carries the data: of a bundle, the last one.
fn data_conn(conn: Conn, bundles: &[Bundle]) -> Option<Conn> {
    match conn {
        Conn::Bundle(at) => bundles[at].ids().last().map(Conn::Tcp),
        other => Some(other),
    }
}

/// Window, threshold and bytes in flight of an established connection.
fn numbers(endpoints: &Endpoints, conn: Conn) -> Option<[usize; 3]> {
    match conn {
        Conn::Sctp(id) => {
            let association = endpoints.sctp.association(id).filter(|association| association.is_up())?;
            let stats = association.stats();
            stats.paths.first().map(|path| [path.cwnd, path.ssthresh, path.flight_bytes])
        }
        Conn::Tcp(id) => {
            let connection = endpoints.tcp.connection(id).filter(|connection| connection.is_up())?;
            let stats = connection.stats();
            Some([stats.cwnd, stats.ssthresh, stats.flight_bytes])
        }
        Conn::Bundle(_) => None,
    }
}

impl HostApp {
    pub(super) fn new(side: Side, bundles: Vec<Bundle>, watch: Watch) -> Self {
        Self {
            side,
            ledger: Ledger::default(),
            bundles,
            changed: false,
            blocks: Gauge::default(),
            memory: watch.memory.then(Gauge::default),
            windows: watch.windows.then(Windows::default),
            watches_waits: watch.silence,
            waits: false,
        }
    }

    /// Starts a client.
    pub(super) fn start(&mut self, endpoints: &mut Endpoints) {
        let Self { side, ledger, bundles, changed, .. } = self;
        if let Side::Client(client) = side {
            client.start(&mut Net { now: Time::ZERO, endpoints, bundles, ledger });
            // Requests made at once are passed to the transport before it is established, and may be
            // sent with the handshake.
            *changed = client.asks_at_once();
        }
    }

    /// Asks a client that is ready for the files.
    pub(super) fn ask(&mut self, now: Time) {
        if let Side::Client(client) = &mut self.side {
            client.ask(now);
            self.changed = true;
        }
    }

    /// Whether it is a client that can be asked for the files.
    pub(super) fn is_ready(&self) -> bool {
        matches!(&self.side, Side::Client(client) if client.is_ready())
    }

    pub(super) fn client(&self) -> &Client {
        match &self.side {
            Side::Client(client) => client,
            Side::Server(_) => panic!("the first host is the client"),
        }
    }
}

impl App for HostApp {
    fn on_event(&mut self, now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        if let Event::Up { outbound_streams: outbound_streams @ 3.., .. } = event
            && let Some(association) = endpoints.sctp.association_mut(id)
        {
            send_lines_first(association, outbound_streams);
        }
        let conn_event = conn_event(&endpoints.sctp, id, &event);
        self.on(now, endpoints, |_| (Conn::Sctp(id), conn_event));
    }

    fn on_tcp_event(
        &mut self,
        now: Time,
        endpoints: &mut Endpoints,
        id: tcp::ConnectionId,
        event: tcp::Event,
    ) {
        self.on(now, endpoints, |net| net.conn_event(id, event));
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        let Self { side, ledger, bundles, changed, blocks, memory, windows, watches_waits, waits } = self;
        let mut net = Net { now, endpoints, bundles, ledger };
        let wakes_at;
        match side {
            Side::Client(client) => {
                if client.has_waited_too_long(now) || *changed {
                    client.pump(&mut net);
                }
                wakes_at = client.looks_at();
            }
            Side::Server(server) => {
                // The sending of the last reply gives no event.
                if *changed || server.waits_for_replies() || server.has_written() {
                    server.pump(&mut net);
                }
                wakes_at = server.has_written().then_some(now);
                if let Some(windows) = windows {
                    windows.look(now, net.endpoints, net.bundles, server);
                }
            }
        }
        *changed = false;
        blocks.note(now, endpoints.sctp.len() + endpoints.tcp.control_blocks());
        if let Some(memory) = memory {
            memory.note(now, endpoints.sctp.memory_bytes() + endpoints.tcp.memory_bytes());
        }
        if *watches_waits {
            *waits = silence::waits(&endpoints.sctp, ledger.associations());
        }
        wakes_at
    }
}

impl HostApp {
    fn on(
        &mut self,
        now: Time,
        endpoints: &mut Endpoints,
        what: impl FnOnce(&mut Net<'_>) -> (Conn, ConnEvent),
    ) {
        let Self { side, ledger, bundles, changed, .. } = self;
        *changed = true;
        let mut net = Net { now, endpoints, bundles, ledger };
        let (conn, conn_event) = what(&mut net);
        match side {
            Side::Client(client) => client.on(&mut net, conn, conn_event),
            Side::Server(server) => server.on(&mut net, conn, conn_event),
        }
    }
}

impl Node {
    pub(super) fn new(
        host: Host<HostApp>,
        overhead: usize,
        shared: Shared,
        nat: Option<Nat>,
        loses: Option<(Random, Probability)>,
    ) -> Self {
        Self { host, tap: Tap::new(shared), overhead, nat: nat.map(Translator::new), loses }
    }

    /// The windows of the server's data by path, all its connections together; of a client nothing.
    pub fn send_windows(&self) -> Vec<SendWindows> {
        let mut sum = Vec::new();
        let Side::Server(server) = &self.host.app().side else { return sum };
        for conn in server.data_conns() {
            let endpoints = self.host.endpoints();
            match data_conn(conn, &self.host.app().bundles) {
                Some(Conn::Sctp(id)) => {
                    let up = endpoints.sctp.association(id).filter(|association| association.is_up());
                    let its = up.map(|association| SendWindows::of_association(&association.stats()));
                    SendWindows::add(&mut sum, &its.unwrap_or_default());
                }
                Some(Conn::Tcp(id)) => {
                    let up = endpoints.tcp.connection(id).filter(|connection| connection.is_up());
                    let its = up.map(|connection| SendWindows::of_connection(&connection.stats()));
                    SendWindows::add(&mut sum, &its.unwrap_or_default());
                }
                Some(Conn::Bundle(_)) | None => {}
            }
        }
        sum
    }

    /// The statistics of its associations.
    pub fn association_stats(&self) -> impl Iterator<Item = (AssociationId, Stats)> + '_ {
        let stats = |id| Some((id, self.host.endpoints().sctp.association(id)?.stats()));
        self.host.app().ledger.associations().filter_map(stats)
    }

    /// Packets that the NAT discarded because they belong to no flow started inside.
    pub(super) fn turned_away(&self) -> u64 {
        self.nat.as_ref().map_or(0, |nat| nat.turned_away)
    }
}

impl Actor for Node {
    fn handle(&mut self, now: Time, datagram: Datagram) {
        let inside = match &mut self.nat {
            Some(nat) => nat.inward(datagram),
            None => Some(datagram),
        };
        if let Some(datagram) = inside {
            self.host.handle(now, datagram);
        }
    }

    fn poll(&mut self, now: Time) -> Output<Datagram, Infallible> {
        let mut datagram = loop {
            let output = self.host.poll(now);
            let Output::Send(datagram) = output else { return output };
            let purpose = self.tap.see(&datagram, self.overhead);
            let is_lost =
                |(random, part): &mut (Random, Probability)| purpose == Purpose::Ack && random.hits(*part);
            if !self.loses.as_mut().is_some_and(is_lost) {
                break datagram;
            }
        };
        if let Some(nat) = &mut self.nat {
            nat.outward(&mut datagram);
        }
        Output::Send(datagram)
    }

    fn may_be_fragmented(&self) -> bool {
        self.host.may_be_fragmented()
    }
}

/// Rewrites addresses, but neither ports nor addresses inside packets.
#[derive(Debug)]
struct Translator {
    nat: Nat,
    /// The flows started inside: the inner port, the peer, and its port.
    flows: BTreeSet<(u16, IpAddr, u16)>,
    turned_away: u64,
}

impl Translator {
    fn new(nat: Nat) -> Self {
        Self { nat, flows: BTreeSet::new(), turned_away: 0 }
    }

    fn outward(&mut self, datagram: &mut Datagram) {
        if let Some((from, to)) = ports(datagram) {
            self.flows.insert((from, datagram.to.ip(), to));
        }
        rewrite(datagram, self.nat.inside, self.nat.outside);
        datagram.from.set_ip(self.nat.outside);
    }

    fn inward(&mut self, mut datagram: Datagram) -> Option<Datagram> {
        let known =
            ports(&datagram).is_some_and(|(from, to)| self.flows.contains(&(to, datagram.from.ip(), from)));
        if !known {
            self.turned_away += 1;
            return None;
        }
        rewrite(&mut datagram, self.nat.outside, self.nat.inside);
        datagram.to.set_ip(self.nat.inside);
        Some(datagram)
    }
}

/// The offset of the checksum in a TCP segment, which covers the addresses (RFC 9293 §3.1); that of SCTP
/// does not.
const CHECKSUM_AT: usize = 16;

/// Updates the checksum for a changed address (RFC 1624 §3).
fn rewrite(datagram: &mut Datagram, before: IpAddr, after: IpAddr) {
    let is_tcp = datagram.from.port() != 0 && datagram.to.port() != 0;
    let (IpAddr::V4(before), IpAddr::V4(after)) = (before, after) else { return };
    if !is_tcp || datagram.payload.len() < CHECKSUM_AT + 2 {
        return;
    }
    let mut sum = u32::from(!word16(&datagram.payload, CHECKSUM_AT));
    for (before, after) in before.octets().chunks(2).zip(after.octets().chunks(2)) {
        sum += u32::from(!word16(before, 0)) + u32::from(word16(after, 0));
    }
    while sum > 0xffff {
        sum = (sum & 0xffff) + (sum >> 16);
    }
    let mut payload = BytesMut::from(&datagram.payload[..]);
    payload[CHECKSUM_AT..CHECKSUM_AT + 2].copy_from_slice(&(!(sum as u16)).to_be_bytes());
    datagram.payload = Bytes::from(payload);
}

/// The ports of a packet, at the same offsets in TCP and SCTP.
fn ports(datagram: &Datagram) -> Option<(u16, u16)> {
    let payload = &datagram.payload;
    (payload.len() >= 4).then(|| (word16(payload, 0), word16(payload, 2)))
}
