//! Datagrams from people who mean no good: the endpoint keeps nothing of them, and goes on serving the others.

use std::sync::Arc;

use crate::common::{PORT, endpoint, receive_all, send_all, soon, to};
use braidftp_net::sctp::packet_builder::PacketBuilder;
use braidftp_net::sctp::wire::{Chunk, Header, Init};
use braidftp_net::sctp::{Tsn, VerificationTag};
use braidftp_net::{Message, Ppid, Profile, Reason, StreamId};
use tokio::net::UdpSocket;

/// Bytes that look like chance and are not.
fn noise(seed: u32, len: usize) -> Vec<u8> {
    let mut state = seed.wrapping_mul(2_654_435_761).wrapping_add(1);
    let next = |_| {
        state ^= state << 13;
        state ^= state >> 17;
        state ^= state << 5;
        state as u8
    };
    (0..len).map(next).collect()
}

fn init(number: u32) -> Vec<u8> {
    let header =
        Header { source_port: 1 + (number % 65_535) as u16, destination_port: PORT, tag: VerificationTag(0) };
    let mut builder = PacketBuilder::new();
    builder.begin(header, 1_452);
    builder.push(&Chunk::Init(Init {
        initiate_tag: VerificationTag(number + 1),
        a_rwnd: 100_000,
        outbound_streams: 10,
        inbound_streams: 10,
        initial_tsn: Tsn(number),
        parameters: Vec::new(),
    }));
    builder.seal();
    builder.finish().expect("a packet was sealed").payload.to_vec()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_flood_of_inits_and_noise_leaves_no_state_and_a_real_client_is_served() {
    const EACH: u32 = 20_000;
    let (client_end, server_end) = (endpoint(), endpoint());
    let config = Arc::new(Profile::Modern.config());
    let listener = server_end.listen(PORT, config.clone()).unwrap();
    let addr = server_end.local_addrs()[0];
    let flood = tokio::spawn(async move {
        let socket = UdpSocket::bind("127.0.0.1:0").await.unwrap();
        for number in 0..EACH {
            let whole = init(number);
            let mut bent = whole.clone();
            let at = number as usize % bent.len();
            bent[at] ^= 1 << (number % 8);
            for datagram in [&whole, &bent, &whole[..at].to_vec(), &noise(number, at * 40)] {
                socket.send_to(datagram, addr).await.unwrap();
            }
        }
    });
    let client = client_end.connect(to(&server_end, &config)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    while !flood.is_finished() {
        client.send(StreamId(1), Message::new(Ppid(1), "still there?")).await.unwrap();
        let heard = soon(server.recv(StreamId(1))).await.unwrap().unwrap();
        assert_eq!(heard.payload.concat(), b"still there?");
    }
    flood.await.unwrap();
    let sender = tokio::spawn(send_all(client.clone(), 0, 1_000_000, 50_000));
    soon(receive_all(server.clone(), 0, 1_000_000)).await;
    sender.await.unwrap();
    assert_eq!(server_end.associations(), 1);
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
}
