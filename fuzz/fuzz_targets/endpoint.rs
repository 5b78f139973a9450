//! A listening endpoint that is told any packets by one peer: it answers within bounds, keeps no state for them, and
//! comes to rest.
//!
//! The input is a row of packets: two bytes of length, then the packet from its tag on.
#![no_main]

use std::sync::Arc;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_sctp::{Config, Endpoint};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let mut endpoint = Endpoint::new([7; 32]);
    endpoint.listen(21, Arc::new(Config::default())).expect("a free port");
    let mut now = Time::ZERO;
    let mut rest = bytes;
    while let Some((len, behind)) = rest.split_first_chunk::<2>() {
        let len = usize::from(u16::from_be_bytes(*len)).min(behind.len());
        let (body, behind) = behind.split_at(len);
        rest = behind;
        let mut datagram = vec![0x9c, 0x40, 0, 21];
        datagram.extend_from_slice(body.get(..4).unwrap_or(&[0; 4]));
        datagram.extend_from_slice(&[0; 4]);
        datagram.extend_from_slice(body.get(4..).unwrap_or_default());
        let checksum = crc_fast::crc32_iscsi(&datagram);
        datagram[8..12].copy_from_slice(&checksum.to_le_bytes());
        now += Duration::from_millis(10);
        endpoint.handle(
            now,
            Datagram {
                from: ([127, 0, 0, 1], 5_000).into(),
                to: ([127, 0, 0, 1], 9_899).into(),
                ecn: Ecn::NotEct,
                payload: datagram.into(),
            },
        );
        let mut outputs = 0;
        while !matches!(endpoint.poll(now), Output::Wait(_)) {
            outputs += 1;
            assert!(outputs < 100, "one packet is answered without end");
        }
    }
    // Without the cookie, which is not guessed, nothing became of it all.
    assert!(endpoint.is_empty());
});
