//! A peer that shook hands and then says anything: the endpoint comes to rest after each packet, holds bounded memory
//! for it, and nothing panics.
//!
//! The input is a row of steps: a byte that says what, then for a packet two bytes of length and its chunks.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_sctp::wire::{Chunk, Header, Init, Packet, PacketBuilder};
use braidftp_sctp::{AssociationId, Config, Endpoint, Event, Message, Ppid, StreamId, Tsn, VerificationTag};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

const PEER_TAG: VerificationTag = VerificationTag(0x0101_0101);

struct Bench {
    now: Time,
    endpoint: Endpoint,
    id: Option<AssociationId>,
    /// The last INIT ACK sent.
    ack: Option<Init>,
}

impl Bench {
    fn tell(&mut self, packet: Bytes) {
        let datagram = Datagram {
            from: ([127, 0, 0, 1], 5_000).into(),
            to: ([127, 0, 0, 1], 9_899).into(),
            ecn: Ecn::NotEct,
            payload: packet,
        };
        self.endpoint.handle(self.now, datagram);
        self.drain();
    }

    fn drain(&mut self) {
        for _ in 0..10_000 {
            match self.endpoint.poll(self.now) {
                Output::Send(sent) => {
                    let size = sent.segment_size.unwrap_or(sent.payload.len());
                    for packet in sent.payload.chunks(size) {
                        let packet = Packet::decode(sent.payload.slice_ref(packet)).expect("our own packet");
                        for chunk in packet.chunks() {
                            if let Chunk::InitAck(ack) = chunk.expect("our own chunk") {
                                self.ack = Some(ack);
                            }
                        }
                    }
                }
                Output::Event((id, Event::Accepted)) => self.id = Some(id),
                Output::Event(_) => {}
                Output::Wait(_) => return,
            }
        }
        panic!("it never comes to rest");
    }
}

fn built(tag: VerificationTag, chunk: &Chunk) -> Bytes {
    let mut builder = PacketBuilder::new();
    builder.begin(Header { source_port: 40_000, destination_port: 21, tag }, PacketBuilder::MAX_BYTES);
    builder.push(chunk);
    builder.seal();
    builder.finish().expect("a packet was sealed").payload
}

fn sealed(tag: VerificationTag, body: &[u8]) -> Bytes {
    let mut datagram = vec![0x9c, 0x40, 0, 21];
    datagram.extend_from_slice(&tag.0.to_be_bytes());
    datagram.extend_from_slice(&[0; 4]);
    datagram.extend_from_slice(body);
    let checksum = crc_fast::crc32_iscsi(&datagram);
    datagram[8..12].copy_from_slice(&checksum.to_le_bytes());
    datagram.into()
}

fuzz_target!(|bytes: &[u8]| {
    let config = Config { receive_buffer_bytes: 20_000, heartbeat_interval: None, ..Config::default() };
    let mut endpoint = Endpoint::new([7; 32]);
    endpoint.listen(21, Arc::new(config)).expect("a free port");
    let mut bench = Bench { now: Time::ZERO, endpoint, id: None, ack: None };
    // A TSN whose bytes are easy to hit.
    let init = Init {
        initiate_tag: PEER_TAG,
        a_rwnd: 100_000,
        outbound_streams: 3,
        inbound_streams: 3,
        initial_tsn: Tsn(1),
        parameters: Vec::new(),
    };
    bench.tell(built(VerificationTag(0), &Chunk::Init(init)));
    let ack = bench.ack.take().expect("an INIT is answered");
    let cookie = ack.state_cookie().expect("with a cookie").clone();
    bench.tell(built(ack.initiate_tag, &Chunk::CookieEcho(cookie)));
    let id = bench.id.expect("a cookie makes an association");

    let mut rest = bytes;
    while let Some((&step, behind)) = rest.split_first() {
        rest = behind;
        match step % 8 {
            0 => bench.now += Duration::from_millis(300),
            1 => {
                if let Some(association) = bench.endpoint.association_mut(id) {
                    while let Some(stream) = association.readable() {
                        if association.recv(stream).is_none() {
                            break;
                        }
                    }
                }
            }
            2 => {
                if let Some(association) = bench.endpoint.association_mut(id) {
                    let stream = StreamId(u16::from(step >> 3) % 3);
                    let payload = vec![b'x'; 1 + usize::from(step) * 20];
                    let _ = association.send(stream, Message::new(Ppid(0), payload));
                }
            }
            3 if step == 3 => {
                if let Some(association) = bench.endpoint.association_mut(id) {
                    association.shutdown();
                }
            }
            _ => {
                let Some((len, behind)) = rest.split_first_chunk::<2>() else { break };
                let len = usize::from(u16::from_be_bytes(*len)).min(behind.len()).min(9_000);
                let (body, behind) = behind.split_at(len);
                rest = behind;
                let tag = if step == 7 { PEER_TAG } else { ack.initiate_tag };
                bench.tell(sealed(tag, body));
            }
        }
        bench.drain();
        if let Some(association) = bench.endpoint.association(id) {
            let stats = association.stats();
            assert!(stats.unread_bytes <= 40_000, "{} bytes unread", stats.unread_bytes);
        }
    }
});
