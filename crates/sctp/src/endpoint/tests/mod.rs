//! Tests of the endpoint with valid, invalid and absent peers.
//!
//! `Bench` is a listening endpoint; tests construct every packet that it receives.

mod bad_input;
mod collision;
mod handshake;
mod icmp;
mod limits;
mod memory_limits;
mod out_of_the_blue;
mod pair;
mod sharing;
mod unverified;

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use bytes::Bytes;

use super::table::Footprint;
use super::*;
use crate::ids::{Ppid, StreamId};
use crate::packet_builder::PacketBuilder;
use crate::wire::{Cause, Data, Header, Parameter};

/// The port on which the bench listens.
const LOCAL_PORT: u16 = 21;
/// The port of the peer, as which the test acts.
const PEER_PORT: u16 = 40_000;
/// The tag in the peer's INIT.
const PEER_TAG: VerificationTag = VerificationTag(0x1234_5678);
const PEER_TSN: Tsn = Tsn(1_000);

fn local() -> SocketAddr {
    "127.0.0.1:9899".parse().unwrap()
}

fn peer() -> SocketAddr {
    "192.0.2.1:5000".parse().unwrap()
}

fn stranger() -> SocketAddr {
    "192.0.2.99:5000".parse().unwrap()
}

/// A header of the peer.
fn to_bench(tag: VerificationTag) -> Header {
    Header { source_port: PEER_PORT, destination_port: LOCAL_PORT, tag }
}

fn datagram(from: SocketAddr, header: Header, chunks: &[Chunk]) -> Datagram {
    let mut builder = PacketBuilder::new();
    builder.begin(header, PacketBuilder::MAX_BYTES);
    chunks.iter().for_each(|chunk| builder.push(chunk));
    builder.seal();
    Datagram { from, to: local(), ecn: Ecn::NotEct, payload: builder.finish().unwrap().payload }
}

fn init() -> Init {
    Init {
        initiate_tag: PEER_TAG,
        a_rwnd: 100_000,
        outbound_streams: 5,
        inbound_streams: 6,
        initial_tsn: PEER_TSN,
        parameters: Vec::new(),
    }
}

fn data(tsn: Tsn) -> Chunk {
    Chunk::Data(Data { immediate: true, ..Data::whole(tsn, b"data") })
}

fn config() -> Config {
    // No HEARTBEATs, so that only the test causes packets.
    Config::default().with(|c| {
        c.timers.heartbeat_interval = None;
        c.streams.outbound = 10;
        c.streams.inbound = 10;
    })
}

struct Bench {
    now: Time,
    endpoint: Endpoint,
    events: Vec<(AssociationId, Event)>,
}

/// A packet that the bench sent.
#[derive(Debug)]
struct Sent {
    to: SocketAddr,
    header: Header,
    chunks: Vec<Chunk>,
}

impl Sent {
    fn text(&self) -> String {
        self.chunks.iter().map(ToString::to_string).collect::<Vec<_>>().join("; ")
    }
}

impl Bench {
    fn new() -> Self {
        Self::with_limits(Limits::default())
    }

    fn with_limits(limits: Limits) -> Self {
        let mut endpoint = Endpoint::with_limits([1; 32], limits);
        endpoint.listen(LOCAL_PORT, Arc::new(config())).unwrap();
        Self { now: Time::ZERO, endpoint, events: Vec::new() }
    }

    fn drain(&mut self) -> Vec<Sent> {
        let mut sent = Vec::new();
        loop {
            match self.endpoint.poll(self.now) {
                Output::Send(transmit) => {
                    assert_eq!(transmit.from, local());
                    let size = transmit.segment_size.unwrap_or(transmit.payload.len());
                    for packet in transmit.payload.chunks(size) {
                        let packet = Packet::decode(transmit.payload.slice_ref(packet)).unwrap();
                        let chunks = packet.chunks().map(Result::unwrap).collect();
                        sent.push(Sent { to: transmit.to, header: packet.header, chunks });
                    }
                }
                Output::Event(event) => self.events.push(event),
                Output::Wait(_) => return sent,
            }
        }
    }

    fn tell_raw(&mut self, datagram: Datagram) -> Vec<Sent> {
        self.endpoint.handle(self.now, datagram);
        self.drain()
    }

    /// Delivers a packet of the peer; returns the packets that the bench sends.
    fn tell(&mut self, tag: VerificationTag, chunks: &[Chunk]) -> Vec<Sent> {
        self.tell_raw(datagram(peer(), to_bench(tag), chunks))
    }

    /// Delivers a packet of the peer that has exactly one answer.
    fn ask(&mut self, tag: VerificationTag, chunks: &[Chunk]) -> Sent {
        let mut sent = self.tell(tag, chunks);
        assert_eq!(sent.len(), 1, "{sent:?}");
        sent.remove(0)
    }

    /// Delivers an INIT of the peer; returns the INIT ACK.
    fn shake(&mut self, init: Init) -> Init {
        let tag = init.initiate_tag;
        let mut answer = self.ask(VerificationTag(0), &[Chunk::Init(init)]);
        assert_eq!((answer.to, answer.header.tag), (peer(), tag));
        match answer.chunks.pop() {
            Some(Chunk::InitAck(ack)) => ack,
            other => panic!("{other:?}"),
        }
    }

    /// Completes the handshake of the peer; returns the INIT ACK.
    fn establish(&mut self) -> Init {
        let ack = self.shake(init());
        let answer = self.ask(ack.initiate_tag, &[echo(&ack)]);
        assert_eq!(answer.text(), "COOKIE_ACK[flgs=0]");
        assert_eq!(answer.header.tag, PEER_TAG);
        assert_eq!(self.endpoint.len(), 1);
        ack
    }

    /// The bench opens an association with the peer, from its listening port; returns its INIT.
    fn connect(&mut self) -> Init {
        let connect = Connect {
            local: vec![local()],
            peer: vec![peer()],
            source_port: Some(LOCAL_PORT),
            destination_port: PEER_PORT,
            config: Arc::new(config()),
        };
        self.endpoint.connect(self.now, connect).unwrap();
        match self.drain().remove(0).chunks.remove(0) {
            Chunk::Init(init) => init,
            other => panic!("{other}"),
        }
    }

    /// The tie tags in the cookie of an INIT ACK.
    fn tie_tags(&self, ack: &Init) -> Option<TieTags> {
        let cookie = ack.state_cookie().unwrap();
        self.endpoint.keys.open(self.now, &to_bench(ack.initiate_tag), cookie).unwrap().tie_tags
    }

    /// The tie tags of the association with the peer.
    fn own_tie_tags(&self) -> Option<TieTags> {
        self.endpoint.table.by_address(LOCAL_PORT, PEER_PORT, peer()).map(|slot| slot.known.tie_tags)
    }

    fn phase(&self) -> Phase {
        self.endpoint
            .table
            .by_address(LOCAL_PORT, PEER_PORT, peer())
            .map_or(Phase::Closed, |slot| slot.association.phase())
    }

    fn id(&self) -> AssociationId {
        self.events.first().expect("an association was accepted").0
    }

    fn pass(&mut self, time: Duration) {
        self.now += time;
    }
}

/// The COOKIE ECHO that answers an INIT ACK.
fn echo(ack: &Init) -> Chunk {
    Chunk::CookieEcho(ack.state_cookie().expect("an INIT ACK has a cookie").clone())
}
