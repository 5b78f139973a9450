//! What decodes encodes to bytes that decode to the same, and these encode to themselves.
#![no_main]

use braidftp_fuzz::{HEADER_LEN, fix_checksum};
use braidftp_sctp::packet_builder::PacketBuilder;
use braidftp_sctp::wire::{Chunk, Header, Packet};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

/// The packet with these chunks, unless they do not fit one.
fn encoded(header: Header, chunks: &[Chunk]) -> Option<Bytes> {
    let mut builder = PacketBuilder::new();
    builder.begin(header, PacketBuilder::MAX_BYTES);
    for chunk in chunks {
        // Padding that was missing at the end is written, and may not fit.
        if chunk.padded_len() > builder.room() {
            return None;
        }
        builder.push(chunk);
    }
    builder.seal();
    Some(builder.finish().expect("a packet was sealed").payload)
}

fuzz_target!(|bytes: &[u8]| {
    if bytes.len() <= HEADER_LEN || bytes.len() > PacketBuilder::MAX_BYTES {
        return;
    }
    let mut whole = bytes.to_vec();
    fix_checksum(&mut whole);
    let Ok(packet) = Packet::decode(whole.into()) else { return };
    let chunks: Vec<Chunk> = packet.chunks().flatten().collect();
    if chunks.is_empty() {
        return;
    }
    let Some(bytes) = encoded(packet.header, &chunks) else { return };
    let again = Packet::decode(bytes.clone()).expect("our own packet");
    assert_eq!(again.header, packet.header);
    let decoded = again.chunks().collect::<Result<Vec<_>, _>>().expect("our own chunks");
    assert_eq!(decoded, chunks);
    assert_eq!(encoded(again.header, &decoded), Some(bytes));
});
