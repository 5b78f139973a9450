//! Cookies that were not sealed here, or were changed on their way, never open.
#![no_main]

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::cookie::{Contents, Keys};
use braidftp_sctp::wire::Header;
use braidftp_sctp::{Extensions, Tsn, VerificationTag};
use libfuzzer_sys::fuzz_target;

fuzz_target!(|bytes: &[u8]| {
    let keys = Keys::new([7; 32]);
    let header = Header { source_port: 40_000, destination_port: 21, tag: VerificationTag(1) };
    assert!(keys.open(Time::ZERO, &header, bytes).is_err(), "128 bits were guessed");
    let Some((&at, changes)) = bytes.split_first() else { return };
    let contents = Contents {
        created: Time::ZERO,
        lifespan: Duration::from_secs(60),
        local_port: 21,
        peer_port: 40_000,
        local: ([127, 0, 0, 1], 9_899).into(),
        peer: ([127, 0, 0, 1], 5_000).into(),
        peer_addresses: Vec::new(),
        local_tag: VerificationTag(1),
        peer_tag: VerificationTag(2),
        local_initial_tsn: Tsn(3),
        peer_initial_tsn: Tsn(4),
        peer_a_rwnd: 5,
        outbound_streams: 6,
        inbound_streams: 7,
        extensions: Extensions { interleaving: true },
        tie_tags: None,
    };
    let sealed = keys.seal(&contents);
    assert_eq!(*keys.open(Time::ZERO, &header, &sealed).expect("our own cookie"), contents);
    let mut changed = sealed.to_vec();
    for (index, change) in changes.iter().enumerate() {
        let len = changed.len();
        changed[(usize::from(at) + index) % len] ^= change;
    }
    assert_eq!(keys.open(Time::ZERO, &header, &changed).is_ok(), changed == sealed);
});
