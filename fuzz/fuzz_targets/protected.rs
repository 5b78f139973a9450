//! The DTLS chunk and its parameter (draft-ietf-tsvwg-sctp-dtls-chunk): altered offers, forged records, and authentic records
//! with arbitrary content.
//!
//! If an offer is altered, the sides never agree on different values with the same bytes. A forged record only changes a
//! counter. The contents of authentic records are processed within bounds, and both endpoints become idle.
#![no_main]

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use arbitrary::Arbitrary;
use braidftp_base::{Output, Time};
use braidftp_fuzz::{HEADER_LEN, datagram, fix_checksum, sealed};
use braidftp_keys::record_keys;
use braidftp_sctp::dtls::{CipherSuite, DtlsConfig, Keys, KeysId, NONCE_LEN, Purpose};
use braidftp_sctp::{
    Announce, Association, AssociationId, Connect, Endpoint, Event, Message, Ppid, Profile, StreamId,
};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

const PORTS: [u16; 2] = [40_000, 21];
const OUTPUTS_MAX: usize = 2_000;
const RECORDS_MAX: usize = 64;
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const DTLS: u8 = 0x41;
const KEY_MANAGEMENT: [u8; 2] = [0x80, 0x06];
const EPOCH: u64 = 3;

#[derive(Debug, Arbitrary)]
enum Input {
    /// The value of the parameter in the client's or the server's offer is replaced by these bytes.
    Offer { of_server: bool, value: Vec<u8> },
    /// Chunks of this kind with these bytes are sent to the server of a protected association.
    Forged(Vec<(u8, Vec<u8>)>),
    /// Authentic records with these bytes as their content.
    Authentic(Vec<Vec<u8>>),
}

struct Pair {
    now: Time,
    /// Client and server.
    endpoints: [Endpoint; 2],
    ids: [Option<AssociationId>; 2],
    is_closed: [bool; 2],
    /// The verification tag of the client's packets.
    tag: u32,
}

fn address(side: usize) -> SocketAddr {
    ([127, 0, 0, 1 + side as u8], 9_899).into()
}

impl Pair {
    fn new() -> Self {
        let dtls = DtlsConfig { unpadded_with: Some(DtlsConfig::PRE_SHARED), ..DtlsConfig::default() };
        let config = Arc::new(Profile::Modern.config().with(|c| c.security.dtls = Some(dtls)));
        let mut endpoints = [[1; 32], [2; 32]].map(Endpoint::new);
        endpoints[1].set_addresses(vec![address(1)], Announce::Always);
        endpoints[1].listen(PORTS[1], config.clone()).expect("a free port");
        let connect = Connect {
            local: vec![address(0)],
            source_port: Some(PORTS[0]),
            config,
            ..Connect::to([address(1)], PORTS[1])
        };
        let id = endpoints[0].connect(Time::ZERO, connect).expect("a free port");
        Self { now: Time::ZERO, endpoints, ids: [Some(id), None], is_closed: [false; 2], tag: 0 }
    }

    fn association(&mut self, side: usize) -> Option<&mut Association> {
        self.endpoints[side].association_mut(self.ids[side]?)
    }

    /// Delivers packets until neither side has any; `edit` may change each.
    fn settle(&mut self, mut edit: impl FnMut(usize, Vec<u8>) -> Vec<u8>) {
        let mut outputs = 0;
        let mut said = true;
        while std::mem::take(&mut said) {
            for side in [0, 1] {
                loop {
                    outputs += 1;
                    assert!(outputs < OUTPUTS_MAX, "the two sides do not come to rest");
                    match self.endpoints[side].poll(self.now) {
                        Output::Send(transmit) => {
                            said = true;
                            let size = transmit.segment_size.unwrap_or(transmit.payload.len());
                            for packet in transmit.payload.chunks(size.max(1)) {
                                if side == 0 {
                                    self.tag = u32::from_be_bytes([packet[4], packet[5], packet[6], packet[7]]);
                                }
                                let packet = edit(side, packet.to_vec());
                                let carried = datagram(transmit.from, transmit.to, packet);
                                self.endpoints[1 - side].handle(self.now, carried);
                            }
                        }
                        Output::Event((id, event)) => {
                            self.ids[side] = Some(id);
                            self.is_closed[side] |= matches!(event, Event::Closed(_));
                        }
                        Output::Wait(_) => break,
                    }
                }
            }
            self.now += Duration::from_millis(1);
        }
    }

    fn protect(&mut self) {
        let id = KeysId { purpose: Purpose::Primary, epoch: EPOCH };
        for side in [0, 1] {
            let association = self.association(side).expect("it is up");
            association.add_receive_keys(id, keys(1 - side)).expect("they are the first");
        }
        for side in [0, 1] {
            let association = self.association(side).expect("it is up");
            association.set_send_keys(id, keys(side)).expect("they are the first");
            association.require_protection().expect("there are keys");
        }
        self.settle(|_, packet| packet);
    }

    fn to_server(&mut self, chunk: &[u8]) {
        let packet = sealed(PORTS, self.tag, chunk);
        self.endpoints[1].handle(self.now, datagram(address(0), address(1), packet));
    }
}

/// The sending keys of a side.
fn keys(side: usize) -> Keys {
    record_keys(CipherSuite::Aes128Gcm, &[side as u8; 16], &[7 + side as u8; 16], [9; NONCE_LEN])
}

/// A DTLS chunk of the client, with this content.
fn record(number: u16, content: &[u8]) -> Vec<u8> {
    let keys = keys(0);
    let [high, low] = number.to_be_bytes();
    let header = [0x28 | EPOCH as u8, high, low];
    let mut nonce = keys.iv;
    nonce[NONCE_LEN - 2] ^= high;
    nonce[NONCE_LEN - 1] ^= low;
    // The content, its type, application_data, and the tag.
    let mut body = [content, &[23]].concat();
    let tag = keys.key.seal(&nonce, &header, &mut body);
    body.extend(tag);
    let mask = keys.key.mask(body.first_chunk().expect("a tag is that long"));
    let length = (8 + body.len()) as u16;
    let mut chunk = vec![DTLS, 0];
    chunk.extend(length.to_be_bytes());
    chunk.extend([0, header[0], high ^ mask[0], low ^ mask[1]]);
    chunk.extend(body);
    chunk.resize(chunk.len().next_multiple_of(4), 0);
    chunk
}

fn offer(of_server: bool, value: &[u8]) {
    let mut pair = Pair::new();
    pair.settle(|side, mut packet| {
        let is_offer = [INIT, INIT_ACK].contains(&packet[HEADER_LEN]) && (side == 1) == of_server;
        let Some(at) = packet.windows(2).position(|it| it == KEY_MANAGEMENT).filter(|_| is_offer) else {
            return packet;
        };
        let length = usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]]));
        let end = (at + length.next_multiple_of(4)).min(packet.len());
        let mut parameter = [&KEY_MANAGEMENT[..], &((4 + value.len()) as u16).to_be_bytes(), value].concat();
        parameter.resize(parameter.len().next_multiple_of(4), 0);
        packet.splice(at..end, parameter);
        let length = (packet.len() - HEADER_LEN) as u16;
        packet[HEADER_LEN + 2..HEADER_LEN + 4].copy_from_slice(&length.to_be_bytes());
        fix_checksum(&mut packet);
        packet
    });
    let agreed = [0, 1].map(|side| Some(pair.association(side)?.dtls_agreement()?.clone()));
    if let [Some(client), Some(server)] = agreed
        && client.client_and_server() == server.client_and_server()
    {
        // With the same bytes in both exporters' contexts, both must have agreed on the same roles.
        assert_ne!(client.role, server.role);
        assert_eq!((client.method, client.restart), (server.method, server.restart));
    }
}

fn forged(chunks: &[(u8, Vec<u8>)]) {
    let mut pair = Pair::new();
    pair.settle(|_, packet| packet);
    pair.protect();
    for (kind, value) in chunks.iter().take(RECORDS_MAX) {
        let value = &value[..value.len().min(2_000)];
        let kind = if kind % 2 == 0 { DTLS } else { *kind };
        let mut chunk = vec![kind, 0];
        chunk.extend(((4 + value.len()) as u16).to_be_bytes());
        chunk.extend(value);
        chunk.resize(chunk.len().next_multiple_of(4), 0);
        pair.to_server(&chunk);
        pair.settle(|_, packet| packet);
        assert!(!pair.is_closed[0] && !pair.is_closed[1], "a forged packet ended an association");
    }
    let server = pair.association(1).expect("nothing ended it");
    assert!(server.readable().is_none(), "forged data was delivered");
    // The association works as before.
    let message = Message::new(Ppid(0), Bytes::from_static(b"still there"));
    pair.association(0).expect("nothing ended it").send(StreamId(0), message).expect("there is room");
    pair.settle(|_, packet| packet);
    let read = pair.association(1).expect("nothing ended it").recv(StreamId(0)).expect("it was sent");
    assert_eq!(read.payload.concat(), b"still there");
}

fn authentic(contents: &[Vec<u8>]) {
    let mut pair = Pair::new();
    pair.settle(|_, packet| packet);
    pair.protect();
    for (number, content) in contents.iter().take(RECORDS_MAX).enumerate() {
        // The client itself sent a few.
        pair.to_server(&record(1_000 + number as u16, &content[..content.len().min(2_000)]));
        pair.settle(|_, packet| packet);
    }
    // Its timers expire.
    for _ in 0..20 {
        pair.now += Duration::from_secs(30);
        pair.settle(|_, packet| packet);
    }
}

fuzz_target!(|input: Input| match input {
    Input::Offer { of_server, value } => offer(of_server, &value[..value.len().min(600)]),
    Input::Forged(chunks) => forged(&chunks),
    Input::Authentic(contents) => authentic(&contents),
});
