//! One flow that never ends: a host sends as much as it may, another reads as fast as it can. Over SCTP or over TCP.
//!
//! It does not look at the bytes: `apps::messages` does. Here only how many they are counts.

use std::net::SocketAddr;
use std::sync::Arc;

use braidftp_base::Time;
use braidftp_sctp as sctp;
use braidftp_tcp as tcp;
use bytes::Bytes;

use crate::dice::Dice;
use crate::host::{App, Endpoints, Host};

/// The port of the side that reads.
const PORT: u16 = 5_001;
/// How much a sender writes at a time, in bytes.
const WRITE: usize = 64 << 10;

/// Over which protocol, and how it is configured.
#[derive(Debug, Clone)]
pub enum Protocol {
    /// SCTP over IP.
    Sctp(Arc<sctp::Config>),
    /// TCP.
    Tcp(Arc<tcp::Config>),
}

/// One side of the flow.
#[derive(Debug)]
pub struct Bulk {
    sends: bool,
    /// What is sent, again and again.
    bytes: Bytes,
    association: Option<sctp::AssociationId>,
    connection: Option<tcp::ConnectionId>,
    read: u64,
}

/// The two hosts of a flow, which begins at the start of the world: the one that sends, and the one that reads.
pub fn flow(protocol: &Protocol, sender: SocketAddr, reader: SocketAddr, seed: u64) -> [Host<Bulk>; 2] {
    let mut dice = Dice::new(seed, 1 << 49);
    let mut endpoints = || {
        let mut seed = [0; 32];
        dice.fill(&mut seed);
        let tcp = tcp::Endpoint::new(u64::from_le_bytes([seed[0]; 8]));
        Endpoints { sctp: sctp::Endpoint::new(seed), tcp }
    };
    let (mut sends, mut reads) = (endpoints(), endpoints());
    let mut bulk = Bulk::new(true);
    match protocol {
        Protocol::Sctp(config) => {
            reads.sctp.listen(PORT, config.clone()).expect("a fresh endpoint listens nowhere");
            let [local, peer] = [sender, reader].map(|end| vec![SocketAddr::new(end.ip(), 0)]);
            let config = config.clone();
            let connect = sctp::Connect { local, peer, source_port: None, destination_port: PORT, config };
            let id = sends.sctp.connect(Time::ZERO, connect).expect("there are free ports");
            bulk.association = Some(id);
        }
        Protocol::Tcp(config) => {
            reads.tcp.listen(PORT, config.clone()).expect("a fresh endpoint listens nowhere");
            let (from, to) = (SocketAddr::new(sender.ip(), 0), SocketAddr::new(reader.ip(), PORT));
            let id = sends.tcp.connect(Time::ZERO, from, to, config.clone()).expect("there are free ports");
            bulk.connection = Some(id);
        }
    }
    [Host::new(sends, bulk), Host::new(reads, Bulk::new(false))]
}

impl Bulk {
    fn new(sends: bool) -> Self {
        let bytes = if sends { Bytes::from(vec![0x5a; WRITE]) } else { Bytes::new() };
        Self { sends, bytes, association: None, connection: None, read: 0 }
    }

    /// Bytes of user data that were read.
    pub fn bytes_read(&self) -> u64 {
        self.read
    }

    /// The flow's association, if it is one and is known here.
    pub fn association(&self) -> Option<sctp::AssociationId> {
        self.association
    }

    /// The flow's TCP connection, if it is one and is known here.
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
            sctp::Event::Up { .. } | sctp::Event::Writable if self.sends => {
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
            tcp::Event::Up | tcp::Event::Writable if self.sends => {
                while connection.send(self.bytes.clone()) == self.bytes.len() {}
            }
            tcp::Event::Readable => {
                while let Some(bytes) = connection.recv() {
                    self.read += bytes.len() as u64;
                }
            }
            _ => {}
        }
    }

    fn wake(&mut self, _now: Time, _endpoints: &mut Endpoints) -> Option<Time> {
        None
    }
}
