//! What the hot path of `wire` costs for one packet: `cargo bench -p braidftp-sctp --bench wire`.
//!
//! Full packets of 1,452 bytes, as bulk data has them, and SACKs. No harness: a loop of a fixed number of packets, the
//! best of five runs, in nanoseconds a packet.

use std::hint::black_box;

use braidftp_sctp::packet_builder::PacketBuilder;
use braidftp_sctp::wire::{Chunk, Data, Header, Packet, Sack};
use braidftp_sctp::{Ppid, Ssn, StreamId, Tsn, VerificationTag};
use bytes::Bytes;

const HEADER: Header = Header { source_port: 21, destination_port: 40_000, tag: VerificationTag(7) };

fn data(len: usize) -> Data {
    Data {
        begin: true,
        end: true,
        unordered: false,
        immediate: false,
        tsn: Tsn(1),
        stream: StreamId(0),
        ssn: Ssn(0),
        interleaved: None,
        ppid: Ppid(0),
        payload: vec![7; len].into(),
    }
}

#[expect(clippy::disallowed_types, reason = "a benchmark reads the clock")]
fn best(name: &str, packets: u32, mut run: impl FnMut()) {
    let best = (0..5)
        .map(|_| {
            let start = std::time::Instant::now();
            run();
            start.elapsed()
        })
        .min()
        .expect("five runs");
    println!("{name:<44} {:>8.1} ns a packet", best.as_nanos() as f64 / f64::from(packets));
}

fn main() {
    let full = data(1_424);
    let mut builder = PacketBuilder::new();
    best("encode and seal, batches of 45 of 1,452 bytes", 45 * 2_000, || {
        for _ in 0..2_000 {
            while !builder.is_full() {
                builder.begin(HEADER, 1_452);
                builder.push_data(&full);
                builder.seal();
            }
            black_box(builder.finish());
        }
    });
    builder.begin(HEADER, 1_452);
    builder.push_data(&full);
    builder.seal();
    let packet = builder.finish().expect("a packet").payload;
    best("decode, one DATA chunk of 1,440 bytes", 100_000, || {
        for _ in 0..100_000 {
            let packet = Packet::decode(black_box(packet.clone())).expect("a packet");
            black_box(packet.kinds());
            for chunk in packet.chunks() {
                black_box(chunk.expect("a chunk"));
            }
        }
    });
    let sack = Chunk::Sack(Sack { gaps: vec![(2, 3); 10], ..Sack::default() });
    best("encode and seal, a SACK of 10 blocks", 100_000, || {
        for _ in 0..100_000 {
            builder.begin(HEADER, 1_452);
            builder.push(black_box(&sack));
            builder.seal();
            black_box(builder.finish());
        }
    });
    builder.begin(HEADER, 1_452);
    builder.push(&sack);
    builder.seal();
    let packet: Bytes = builder.finish().expect("a packet").payload;
    best("decode, a SACK of 10 blocks", 100_000, || {
        for _ in 0..100_000 {
            let packet = Packet::decode(black_box(packet.clone())).expect("a packet");
            for chunk in packet.chunks() {
                black_box(chunk.expect("a chunk"));
            }
        }
    });
}
