//! How fast two endpoints talk in one thread, without a carrier: what the protocol itself costs.
//!
//! `cargo run --release -p braidftp-sctp --example memory [MESSAGE_BYTES [TOTAL_MB [PROFILE]]]`
#![expect(clippy::disallowed_types, reason = "this is a driver, and measures")]

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Instant;

use braidftp_base::{Datagram, Output, Time};
use braidftp_sctp::{Connect, Endpoint, Event, Limits, Message, Ppid, Profile, SendError, StreamId};
use bytes::Bytes;

const PORT: u16 = 21;

fn main() {
    let mut args = std::env::args().skip(1);
    let mut number = |default: usize| args.next().map_or(default, |arg| arg.parse().expect("a number"));
    let (message_bytes, total) = (number(1_400), number(1_000) * 1_000_000);
    let profile = args.next().map_or(Profile::Modern, |arg| arg.parse().expect("a profile"));
    let config = Arc::new(profile.config());
    let (own, peer): (SocketAddr, SocketAddr) =
        ("127.0.0.1:1".parse().expect("an address"), "127.0.0.1:2".parse().expect("an address"));
    // As a driver has it: memory is counted.
    let limits = Limits { memory_bytes: 128 << 20, ..Limits::default() };
    let mut client = Endpoint::with_limits([1; 32], limits);
    let mut server = Endpoint::with_limits([2; 32], limits);
    server.listen(PORT, Arc::clone(&config)).expect("nobody else listens");
    let connect =
        Connect { local: vec![own], peer: vec![peer], source_port: None, destination_port: PORT, config };
    let id = client.connect(Time::ZERO, connect).expect("a free port");
    let payload = Bytes::from(vec![7; message_bytes]);
    let (mut queued, mut received, mut packets) = (0, 0, 0u64);
    let start = Instant::now();
    let now = || Time::from_nanos(start.elapsed().as_nanos() as u64);
    let mut under_way = VecDeque::new();
    while received < total {
        let association = client.association_mut(id).expect("it was just opened");
        while queued < total {
            match association.send(StreamId(0), Message::new(Ppid(0), payload.clone())) {
                Ok(()) => queued += message_bytes,
                Err(SendError::Full) => break,
                Err(error) => panic!("{error}"),
            }
        }
        drain(&mut client, now(), &mut under_way, &mut |_, _| {});
        packets += under_way.len() as u64;
        for datagram in under_way.drain(..) {
            server.handle(now(), datagram);
        }
        let mut readable = Vec::new();
        drain(&mut server, now(), &mut under_way, &mut |id, event| {
            if let Event::Readable(stream) = event {
                readable.push((id, stream));
            }
        });
        for (id, stream) in readable {
            let association = server.association_mut(id).expect("it has just spoken");
            while let Some(piece) = association.recv(stream) {
                received += piece.len();
            }
        }
        for datagram in under_way.drain(..) {
            client.handle(now(), datagram);
        }
    }
    let seconds = start.elapsed().as_secs_f64();
    let stats = client.association(id).expect("it is open").stats();
    println!(
        "{message_bytes}-byte messages, {profile}: {:.2} Gbit/s, {:.0} packets/s, retransmitted {}",
        received as f64 * 8.0 / seconds / 1e9,
        packets as f64 / seconds,
        stats.paths[0].retransmitted_chunks,
    );
}

fn drain(
    endpoint: &mut Endpoint,
    now: Time,
    under_way: &mut VecDeque<Datagram>,
    on_event: &mut dyn FnMut(braidftp_sctp::AssociationId, Event),
) {
    loop {
        match endpoint.poll(now) {
            Output::Send(transmit) => {
                let size = transmit.segment_size.unwrap_or(transmit.payload.len());
                let mut rest = transmit.payload;
                while !rest.is_empty() {
                    let payload = rest.split_to(size.min(rest.len()));
                    under_way.push_back(Datagram {
                        from: transmit.from,
                        to: transmit.to,
                        ecn: transmit.ecn,
                        payload,
                    });
                }
            }
            Output::Event((id, event)) => on_event(id, event),
            Output::Wait(_) => return,
        }
    }
}
