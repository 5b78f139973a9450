//! A packet of any bytes with the right checksum: decoding ends, and what was decoded encodes and decodes to itself.
#![no_main]

use braidftp_sctp::wire::{Chunk, Packet, PacketBuilder};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // As it is: nearly always a wrong checksum.
    let _ = Packet::decode(Bytes::copy_from_slice(bytes));
    let mut datagram = bytes.to_vec();
    if datagram.len() < 16 || datagram.len() > PacketBuilder::MAX_BYTES {
        return;
    }
    datagram[8..12].fill(0);
    let checksum = crc_fast::crc32_iscsi(&datagram);
    datagram[8..12].copy_from_slice(&checksum.to_le_bytes());
    let packet = Packet::decode(datagram.into()).expect("long enough and with the right checksum");
    let (kinds, _) = (packet.kinds(), packet.to_string());
    let chunks: Vec<Chunk> = packet.chunks().flatten().collect();
    for chunk in &chunks {
        assert!(chunk.kind() >= 16 || kinds.contains(chunk.kind()));
    }
    if chunks.is_empty() {
        return;
    }
    let mut builder = PacketBuilder::new();
    builder.begin(packet.header, PacketBuilder::MAX_BYTES);
    for chunk in &chunks {
        // Padding that was missing at the end is written, and may not fit.
        if chunk.padded_len() > builder.room() {
            return;
        }
        builder.push(chunk);
    }
    builder.seal();
    let again =
        Packet::decode(builder.finish().expect("a packet was sealed").payload).expect("our own packet");
    assert_eq!(again.header, packet.header);
    assert_eq!(again.chunks().collect::<Result<Vec<_>, _>>().expect("our own chunks"), chunks);
});
