//! One association over sctp-proto, a stack for WebRTC in Rust, in UDP: the peer of crates/net/tests/sctp_proto.rs.
//!
//! `proto_peer listen|connect OWN_UDP PEER_UDP PORT BYTES`: sends BYTES on stream 0 and takes as many, compared with what
//! every test sends: byte o of stream s is (o * 7 + o / 251 + s * 13) mod 256. Says `listening` or `connecting`, then `up`,
//! then `ok` once both are done; then it serves until it is ended.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use sctp_proto::{
    Association, AssociationHandle, ClientConfig, DatagramEvent, Endpoint, EndpointConfig, Event, Payload,
    PayloadProtocolIdentifier, ServerConfig, TransportConfig,
};

const MESSAGE: usize = 10_000;

fn content(from: usize, len: usize) -> Vec<u8> {
    (from..from + len).map(|at| (at * 7 + at / 251) as u8).collect()
}

fn main() {
    let words: Vec<String> = std::env::args().skip(1).collect();
    let [role, own, peer, port, bytes] = &words[..] else {
        eprintln!("usage: proto_peer listen|connect OWN_UDP PEER_UDP PORT BYTES");
        std::process::exit(2);
    };
    let at = |udp: &String| SocketAddr::from(([127, 0, 0, 1], udp.parse().expect("a UDP port")));
    let (own, peer) = (at(own), at(peer));
    let port: u16 = port.parse().expect("an SCTP port");
    let total: usize = bytes.parse().expect("a number of bytes");
    let socket = UdpSocket::bind(own).expect("the UDP port is free");
    let transport = Arc::new(TransportConfig::default().with_local_port(port).with_remote_port(port));
    let mut server = ServerConfig::new();
    server.transport = transport.clone();
    let mut endpoint = Endpoint::new(Arc::new(EndpointConfig::new()), Some(Arc::new(server)));
    let mut open: Option<(AssociationHandle, Association)> = None;
    if role == "connect" {
        let mut client = ClientConfig::new();
        client.transport = transport;
        open = Some(endpoint.connect(client, peer).expect("an association"));
        println!("connecting");
    } else {
        println!("listening");
    }

    let mut buffer = vec![0; 65_536];
    let (mut sent, mut received, mut is_up, mut done) = (0, 0, false, false);
    loop {
        let now = Instant::now();
        while let Some(transmit) = endpoint.poll_transmit() {
            send(&socket, transmit.remote, transmit.payload);
        }
        let mut wait = Duration::from_millis(5);
        if let Some((handle, association)) = &mut open {
            if association.poll_timeout().is_some_and(|when| when <= now) {
                association.handle_timeout(now);
            }
            while let Some(event) = association.poll() {
                match event {
                    Event::Connected => {
                        is_up = true;
                        println!("up");
                        association.open_stream(0, PayloadProtocolIdentifier::Binary).expect("stream 0");
                    }
                    Event::AssociationLost { reason } => println!("lost {reason}"),
                    Event::HandshakeFailed { reason } => println!("failed {reason}"),
                    _ => {}
                }
            }
            if is_up && let Ok(mut stream) = association.stream(0) {
                while sent < total && stream.buffered_amount().unwrap_or(0) < 1 << 20 {
                    let part = Bytes::from(content(sent, MESSAGE.min(total - sent)));
                    match stream.write_sctp(&part, PayloadProtocolIdentifier::Binary) {
                        Ok(len) if len > 0 => sent += len,
                        _ => break,
                    }
                }
                while let Ok(Some(chunks)) = stream.read_sctp() {
                    let len = chunks.read(&mut buffer).expect("it fits");
                    assert!(buffer[..len] == content(received, len), "other bytes near {received}");
                    received += len;
                }
            }
            while let Some(event) = association.poll_endpoint_event() {
                if let Some(event) = endpoint.handle_event(*handle, event) {
                    association.handle_event(event);
                }
            }
            while let Some(transmit) = association.poll_transmit(now) {
                send(&socket, transmit.remote, transmit.payload);
            }
            if sent == total && received == total && !done {
                done = true;
                println!("ok");
            }
            if let Some(when) = association.poll_timeout() {
                wait = wait.min(when.saturating_duration_since(Instant::now()));
            }
        }
        socket.set_read_timeout(Some(wait.max(Duration::from_micros(100)))).expect("a time-out");
        // A batch, so that what it sends answers more than one packet.
        for _ in 0..64 {
            let Ok((len, from)) = socket.recv_from(&mut buffer) else { break };
            let data = Bytes::copy_from_slice(&buffer[..len]);
            match endpoint.handle(Instant::now(), from, None, None, data) {
                Some((handle, DatagramEvent::NewAssociation(association))) => {
                    open = Some((handle, association))
                }
                Some((_, DatagramEvent::AssociationEvent(event))) => {
                    if let Some((_, association)) = &mut open {
                        association.handle_event(event);
                    }
                }
                None => {}
            }
            socket.set_read_timeout(Some(Duration::from_micros(1))).expect("a time-out");
        }
    }
}

fn send(socket: &UdpSocket, to: SocketAddr, payload: Payload) {
    if let Payload::RawEncode(packets) = payload {
        for packet in packets {
            // What cannot be sent is lost.
            let _ = socket.send_to(&packet, to);
        }
    }
}
