//! One association over sctp-proto, a stack for WebRTC in Rust, in UDP: the peer of crates/net/tests/sctp_proto.rs.
//!
//! `proto_peer listen|connect OWN_UDP PEER_UDP PORT BYTES`: sends BYTES on stream 0 and receives as many. It compares them with
//! the pattern of all these tests: byte o of stream s is (o * 7 + o / 251 + s * 13) mod 256. Prints `listening` or
//! `connecting`, then `up`, then `ok` once both directions are done; then serves until it is killed.

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

    let mut peer = Peer { socket, endpoint, open, buffer: vec![0; 65_536], progress: Progress::new(total) };
    loop {
        let wait = peer.drive();
        peer.receive(wait);
    }
}

/// The endpoint at its socket, and its one association.
struct Peer {
    socket: UdpSocket,
    endpoint: Endpoint,
    open: Option<(AssociationHandle, Association)>,
    buffer: Vec<u8>,
    progress: Progress,
}

/// The progress of the exchange.
struct Progress {
    /// Bytes that each side sends.
    total: usize,
    sent: usize,
    received: usize,
    is_up: bool,
    is_done: bool,
}

impl Progress {
    fn new(total: usize) -> Self {
        Self { total, sent: 0, received: 0, is_up: false, is_done: false }
    }

    fn on_event(&mut self, event: Event, association: &mut Association) {
        match event {
            Event::Connected => {
                self.is_up = true;
                println!("up");
                association.open_stream(0, PayloadProtocolIdentifier::Binary).expect("stream 0");
            }
            Event::AssociationLost { reason } => println!("lost {reason}"),
            Event::HandshakeFailed { reason } => println!("failed {reason}"),
            _ => {}
        }
    }

    /// Writes what the association accepts; reads and compares received bytes.
    fn exchange(&mut self, association: &mut Association, buffer: &mut [u8]) {
        let total = self.total;
        if self.is_up
            && let Ok(mut stream) = association.stream(0)
        {
            while self.sent < total && stream.buffered_amount().unwrap_or(0) < 1 << 20 {
                let part = Bytes::from(content(self.sent, MESSAGE.min(total - self.sent)));
                match stream.write_sctp(&part, PayloadProtocolIdentifier::Binary) {
                    Ok(len) if len > 0 => self.sent += len,
                    _ => break,
                }
            }
            while let Ok(Some(chunks)) = stream.read_sctp() {
                let len = chunks.read(buffer).expect("it fits");
                assert!(buffer[..len] == content(self.received, len), "other bytes near {}", self.received);
                self.received += len;
            }
        }
    }
}

impl Peer {
    /// Drives the association. Returns how long to wait for a packet.
    fn drive(&mut self) -> Duration {
        let now = Instant::now();
        while let Some(transmit) = self.endpoint.poll_transmit() {
            send(&self.socket, transmit.remote, transmit.payload);
        }
        let wait = Duration::from_millis(5);
        let Some((handle, association)) = &mut self.open else { return wait };
        if association.poll_timeout().is_some_and(|when| when <= now) {
            association.handle_timeout(now);
        }
        while let Some(event) = association.poll() {
            self.progress.on_event(event, association);
        }
        self.progress.exchange(association, &mut self.buffer);
        while let Some(event) = association.poll_endpoint_event() {
            if let Some(event) = self.endpoint.handle_event(*handle, event) {
                association.handle_event(event);
            }
        }
        while let Some(transmit) = association.poll_transmit(now) {
            send(&self.socket, transmit.remote, transmit.payload);
        }
        let progress = &mut self.progress;
        if progress.sent == progress.total && progress.received == progress.total && !progress.is_done {
            progress.is_done = true;
            println!("ok");
        }
        match association.poll_timeout() {
            Some(when) => wait.min(when.saturating_duration_since(Instant::now())),
            None => wait,
        }
    }

    /// Waits for a packet and receives it and those queued behind it, so that one answer covers all.
    fn receive(&mut self, wait: Duration) {
        self.socket.set_read_timeout(Some(wait.max(Duration::from_micros(100)))).expect("a time-out");
        for _ in 0..64 {
            let Ok((len, from)) = self.socket.recv_from(&mut self.buffer) else { break };
            let data = Bytes::copy_from_slice(&self.buffer[..len]);
            match self.endpoint.handle(Instant::now(), from, None, None, data) {
                Some((handle, DatagramEvent::NewAssociation(association))) => {
                    self.open = Some((handle, association))
                }
                Some((_, DatagramEvent::AssociationEvent(event))) => {
                    if let Some((_, association)) = &mut self.open {
                        association.handle_event(event);
                    }
                }
                None => {}
            }
            self.socket.set_read_timeout(Some(Duration::from_micros(1))).expect("a time-out");
        }
    }
}

fn send(socket: &UdpSocket, to: SocketAddr, payload: Payload) {
    if let Payload::RawEncode(packets) = payload {
        for packet in packets {
            // A packet that cannot be sent counts as lost.
            let _ = socket.send_to(&packet, to);
        }
    }
}
