//! Packets of arbitrary bytes, unchanged and with the right checksum: decoding terminates, the summary of a packet agrees with
//! its chunks, and a listening endpoint sends a bounded number of answers, keeps no state, and becomes idle.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Output, Time};
use braidftp_fuzz::{HEADER_LEN, datagram, fix_checksum};
use braidftp_sctp::wire::{Chunk, Packet};
use braidftp_sctp::{Config, Endpoint};
use bytes::Bytes;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    // Unchanged: nearly always a wrong checksum.
    let _ = Packet::decode(Bytes::copy_from_slice(bytes));
    if bytes.len() < HEADER_LEN {
        return;
    }
    let mut whole = bytes.to_vec();
    fix_checksum(&mut whole);
    if let Ok(packet) = Packet::decode(whole.clone().into()) {
        let kinds = packet.kinds();
        let chunks: Vec<Chunk> = packet.chunks().flatten().collect();
        for chunk in &chunks {
            assert!(chunk.kind() >= 16 || kinds.contains(chunk.kind()), "{chunk:?} is not among {kinds:?}");
            assert!(chunk.encoded_len() <= chunk.padded_len());
        }
        assert!(!packet.to_string().is_empty());
    }
    let mut endpoint = Endpoint::new([7; 32]);
    endpoint.listen(21, Arc::new(Config::default())).expect("a free port");
    let mut now = Time::ZERO;
    // With the ports of the input, to the listening port, and there with tag 0 (INIT).
    for (ports, tag) in [(None, None), (Some([40_000_u16, 21]), None), (Some([40_000, 21]), Some(0_u32))] {
        if let Some(ports) = ports {
            whole[..2].copy_from_slice(&ports[0].to_be_bytes());
            whole[2..4].copy_from_slice(&ports[1].to_be_bytes());
        }
        if let Some(tag) = tag {
            whole[4..8].copy_from_slice(&tag.to_be_bytes());
        }
        fix_checksum(&mut whole);
        now += Duration::from_millis(10);
        let (from, to) = (([127, 0, 0, 1], 5_000).into(), ([127, 0, 0, 1], 9_899).into());
        endpoint.handle(now, datagram(from, to, whole.clone()));
        let mut outputs = 0;
        while !matches!(endpoint.poll(now), Output::Wait(_)) {
            outputs += 1;
            assert!(outputs < 100, "one packet is answered without end");
        }
    }
    // No state without a valid cookie.
    assert!(endpoint.is_empty());
});
