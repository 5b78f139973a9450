//! A bulk flow: one host sends as much as it can, from a start time on and optionally until an end time, and
//! one reads as fast as it can. Over SCTP, on one or several paths, or over TCP.
//!
//! The flow only counts bytes; `apps::messages` checks their contents.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use braidftp_base::Time;
use braidftp_keys::Settings;
use braidftp_sctp as sctp;
use braidftp_tcp as tcp;
use bytes::Bytes;

use crate::host::{App, Endpoints, Host};
use crate::protection::Identity;
use crate::random::Random;

/// The port of the side that reads.
const PORT: u16 = 5_001;
/// How much a sender writes at a time, in bytes.
const WRITE: usize = 64 << 10;

/// The protocol of a flow and its configuration.
#[derive(Debug, Clone)]
pub enum Protocol {
    /// SCTP over IP.
    Sctp(Arc<sctp::Config>),
    /// TCP.
    Tcp(Arc<tcp::Config>),
}

impl Protocol {
    /// The protocols of the side that connects and of the one that accepts, and the key management of both: a new identity's if
    /// associations are protected, whatever their `Config.security.dtls`.
    pub(crate) fn sides(&self) -> ([Self; 2], Option<[Settings; 2]>) {
        let Self::Sctp(config) = self else { return ([self.clone(), self.clone()], None) };
        if config.security.dtls.is_none() {
            return ([self.clone(), self.clone()], None);
        }
        let identity = Identity::new();
        let settings = [identity.client(), identity.server()];
        let side = |settings: &Settings| {
            Self::Sctp(Arc::new((**config).clone().with(|c| c.security.dtls = Some(settings.dtls()))))
        };
        ([side(&settings[0]), side(&settings[1])], Some(settings))
    }
}

/// Both hosts of a flow, with their key management if they are protected.
pub(crate) fn protected<A: App>(hosts: [Host<A>; 2], settings: Option<[Settings; 2]>) -> [Host<A>; 2] {
    let Some([first, second]) = settings else { return hosts };
    let [connects, accepts] = hosts;
    [connects.protected(first), accepts.protected(second)]
}

/// When a flow sends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Span {
    /// When its sender connects.
    pub begins: Time,
    /// When it writes for the last time and closes. What it wrote, at most one send buffer, is still
    /// delivered.
    pub ends: Option<Time>,
}

impl Span {
    /// From the start of the world on, without end.
    pub const ALWAYS: Self = Self { begins: Time::ZERO, ends: None };
}

/// One side of the flow.
#[derive(Debug)]
pub struct Bulk {
    /// What the sender still has to do: connect, and later close.
    connects: Option<Connects>,
    ends: Option<Time>,
    /// The data sent repeatedly; empty on the reading side.
    bytes: Bytes,
    association: Option<sctp::AssociationId>,
    connection: Option<tcp::ConnectionId>,
    read: u64,
}

/// A connection to be opened.
#[derive(Debug)]
struct Connects {
    at: Time,
    from: Vec<IpAddr>,
    to: Vec<IpAddr>,
    protocol: Protocol,
}

/// Returns the two hosts of a flow that begins at the start of the world: the sender and the reader.
pub fn flow(protocol: &Protocol, sender: SocketAddr, reader: SocketAddr, seed: u64) -> [Host<Bulk>; 2] {
    flow_during(Span::ALWAYS, protocol, sender, reader, seed)
}

/// Like [`flow`], for a flow that may begin late and end early.
///
/// # Panics
///
/// If it ends before it begins.
pub fn flow_during(
    span: Span,
    protocol: &Protocol,
    sender: SocketAddr,
    reader: SocketAddr,
    seed: u64,
) -> [Host<Bulk>; 2] {
    flow_between(span, protocol, &[sender.ip()], &[reader.ip()], seed)
}

/// Like [`flow_during`], between hosts that may have several addresses each: SCTP has paths between
/// them, as [`paths.allowed`](sctp::Config::paths) permits, and TCP uses the first address.
///
/// # Panics
///
/// If it ends before it begins, or if there is no address.
pub fn flow_between(
    span: Span,
    protocol: &Protocol,
    senders: &[IpAddr],
    readers: &[IpAddr],
    seed: u64,
) -> [Host<Bulk>; 2] {
    assert!(span.ends.is_none_or(|ends| ends >= span.begins), "{span:?} ends before it begins");
    let mut random = Random::new(seed, 1 << 49);
    let mut endpoints = || {
        let seed = random.seed();
        let tcp = tcp::Endpoint::new(u64::from_le_bytes([seed[0]; 8]));
        Endpoints { sctp: sctp::Endpoint::new(seed), tcp }
    };
    let (sends, mut reads) = (endpoints(), endpoints());
    let fresh = "a fresh endpoint listens nowhere";
    let ([connects, accepts], settings) = protocol.sides();
    match &accepts {
        Protocol::Sctp(config) => reads.sctp.listen(PORT, config.clone()).expect(fresh),
        Protocol::Tcp(config) => reads.tcp.listen(PORT, config.clone()).expect(fresh),
    }
    if readers.len() > 1 {
        let addresses = readers.iter().map(|ip| SocketAddr::new(*ip, 0)).collect();
        reads.sctp.set_addresses(addresses, sctp::Announce::Always);
    }
    let (from, to) = (senders.to_vec(), readers.to_vec());
    let connects = Connects { at: span.begins, from, to, protocol: connects };
    let bytes = Bytes::from(vec![0x5a; WRITE]);
    let sender = Bulk { connects: Some(connects), ends: span.ends, bytes, ..Bulk::reader() };
    protected([Host::new(sends, sender), Host::new(reads, Bulk::reader())], settings)
}

impl Bulk {
    fn reader() -> Self {
        let (connects, ends, bytes) = (None, None, Bytes::new());
        Self { connects, ends, bytes, association: None, connection: None, read: 0 }
    }

    /// Sets how many bytes are written at a time, at least one: over SCTP a message, which [`bytes_read`](Self::bytes_read)
    /// counts once it is complete. Default: 64 KiB. No effect on the reading side.
    pub fn write_at_a_time(&mut self, bytes: usize) {
        if self.sends() {
            self.bytes = Bytes::from(vec![0x5a; bytes.max(1)]);
        }
    }

    /// Whether this side sends.
    fn sends(&self) -> bool {
        !self.bytes.is_empty()
    }

    fn connect(&mut self, now: Time, endpoints: &mut Endpoints, connects: &Connects) {
        let Connects { from, to, protocol, .. } = connects;
        match protocol {
            Protocol::Sctp(config) => {
                let [local, peer] =
                    [from, to].map(|end| end.iter().map(|ip| SocketAddr::new(*ip, 0)).collect::<Vec<_>>());
                let config = config.clone();
                let connect =
                    sctp::Connect { local, peer, source_port: None, destination_port: PORT, config };
                let id = endpoints.sctp.connect(now, connect).expect("there are free ports");
                self.association = Some(id);
            }
            Protocol::Tcp(config) => {
                let (from, to) = (SocketAddr::new(from[0], 0), SocketAddr::new(to[0], PORT));
                let id = endpoints.tcp.connect(now, from, to, config.clone()).expect("there are free ports");
                self.connection = Some(id);
            }
        }
    }

    fn close(&mut self, endpoints: &mut Endpoints) {
        if let Some(association) = self.association.and_then(|id| endpoints.sctp.association_mut(id)) {
            association.shutdown();
        }
        if let Some(connection) = self.connection.and_then(|id| endpoints.tcp.connection_mut(id)) {
            connection.close();
        }
    }

    /// Bytes of user data read: over SCTP, of whole messages.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// Bytes of user data that have arrived in order at the reading side: over SCTP also those of a message whose end has not.
    pub fn bytes_arrived(&self, endpoints: &sctp::Endpoint) -> u64 {
        let association = self.association.and_then(|id| endpoints.association(id));
        self.read + association.map_or(0, |association| association.stats().partial_bytes as u64)
    }

    /// The flow's association, if it uses SCTP and the association is known here.
    pub fn association(&self) -> Option<sctp::AssociationId> {
        self.association
    }

    /// The flow's connection, if it uses TCP and the connection is known here.
    pub fn connection(&self) -> Option<tcp::ConnectionId> {
        self.connection
    }
}

impl App for Bulk {
    fn on_event(
        &mut self,
        _now: Time,
        endpoints: &mut Endpoints,
        id: sctp::AssociationId,
        event: sctp::Event,
    ) {
        self.association = Some(id);
        let Some(association) = endpoints.sctp.association_mut(id) else { return };
        match event {
            sctp::Event::Up { .. } | sctp::Event::Writable if self.sends() => {
                let message = || sctp::Message::new(sctp::Ppid(0), self.bytes.clone());
                while association.send(sctp::StreamId(0), message()).is_ok() {}
            }
            sctp::Event::Readable(stream) => {
                while let Some(piece) = association.recv(stream) {
                    self.read += piece.len() as u64;
                }
            }
            _ => {}
        }
    }

    fn on_tcp_event(
        &mut self,
        _now: Time,
        endpoints: &mut Endpoints,
        id: tcp::ConnectionId,
        event: tcp::Event,
    ) {
        self.connection = Some(id);
        let Some(connection) = endpoints.tcp.connection_mut(id) else { return };
        match event {
            tcp::Event::Up | tcp::Event::Writable if self.sends() => {
                while connection.send(self.bytes.clone()) == self.bytes.len() {}
            }
            tcp::Event::Readable => {
                while let Some(bytes) = connection.recv() {
                    self.read += bytes.len() as u64;
                }
            }
            tcp::Event::PeerClosed => connection.close(),
            _ => {}
        }
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        if let Some(connects) = self.connects.take_if(|connects| connects.at <= now) {
            self.connect(now, endpoints, &connects);
        }
        if self.connects.is_none() && self.ends.take_if(|ends| *ends <= now).is_some() {
            self.close(endpoints);
        }
        self.connects.as_ref().map(|connects| connects.at).or(self.ends)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::topology::{self, Dumbbell};
    use crate::{HostId, LinkConfig, World};

    /// Bytes delivered by each of two flows over 8 Mbit/s after each second: the first one all the time,
    /// the second from 2 s to 4 s.
    fn brought(protocol: &Protocol) -> [Vec<u64>; 2] {
        let mut world = World::new(1);
        let [left, right] = topology::dumbbell_addresses(2);
        let link = |text: &str| -> LinkConfig { format!("overhead=20,{text}").parse().unwrap() };
        let links = Dumbbell::of(2, &link("rate=100mbit"), &link("rate=8mbit,delay=5ms,queue=25p"));
        topology::dumbbell(&mut world, &left, &right, &links);
        let at = |second| Time::ZERO + Duration::from_secs(second);
        let readers = [Span::ALWAYS, Span { begins: at(2), ends: Some(at(4)) }].map(|span| {
            let number = usize::from(span != Span::ALWAYS);
            let ends = [left[number], right[number]].map(|ip| SocketAddr::new(ip, 0));
            let [sender, reader] = flow_during(span, protocol, ends[0], ends[1], number as u64);
            world.add_host(sender, [left[number]]);
            world.add_host(reader, [right[number]])
        });
        let read = |second, reader: HostId, world: &mut World<_>| {
            world.run_until(at(second));
            let host: &Host<Bulk> = world.host(reader);
            host.app().bytes_read()
        };
        let rows: Vec<[u64; 2]> =
            (0..=8).map(|second| readers.map(|reader| read(second, reader, &mut world))).collect();
        world.check();
        [0, 1].map(|flow| rows.iter().map(|row| row[flow]).collect())
    }

    #[test]
    fn a_flow_begins_late_and_ends_early_and_leaves_the_link_to_the_other() {
        let buffer = 100_000;
        let sctp = sctp::Profile::Rfc9260.config().with(|c| c.memory.send_buffer_bytes = buffer);
        let tcp = tcp::Config { send_buffer_bytes: buffer, ..tcp::Profile::Sack.config() };
        for protocol in [Protocol::Sctp(Arc::new(sctp)), Protocol::Tcp(Arc::new(tcp))] {
            let [always, between] = brought(&protocol);
            assert_eq!(between[..3], [0, 0, 0], "{protocol:?}");
            assert!(between[4] > 200_000, "{between:?}");
            // The contents of the buffer at the end take 0.2 s at half of the rate.
            assert!(between[5] <= between[4] + buffer as u64, "{between:?}");
            assert_eq!(between[5..], [between[5]; 4], "{protocol:?}");
            let alone = always[8] - always[6];
            assert!(alone > 1_700_000, "{always:?}");
            assert!(always[4] - always[2] < alone * 4 / 5, "{always:?}");
        }
    }
}
