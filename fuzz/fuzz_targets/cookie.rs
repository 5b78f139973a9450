//! Cookies that were sealed by another key, altered or expired never open; others do, and contain the sealed state.
#![no_main]

use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use arbitrary::Arbitrary;
use braidftp_base::Time;
use braidftp_sctp::cookie::{Contents, CookieError, Keys, MAX_ADDRESSES, TieTags};
use braidftp_sctp::wire::Header;
use braidftp_sctp::{Extensions, Tsn, VerificationTag};
use libfuzzer_sys::fuzz_target;

#[derive(Debug, Arbitrary)]
struct Case {
    forged: Vec<u8>,
    created_ms: u32,
    lifespan_ms: u16,
    local: SocketAddr,
    peer: SocketAddr,
    peer_addresses: Vec<IpAddr>,
    numbers: [u32; 5],
    streams: [u16; 2],
    extensions: [bool; 10],
    adaptation: Option<u32>,
    key_management: Option<[Vec<u8>; 2]>,
    tie_tags: Option<[u32; 2]>,
    later_ms: u32,
    /// The changes of bytes, by position.
    changes: Vec<(u16, u8)>,
    cut: u16,
}

const PORTS: [u16; 2] = [21, 40_000];

fuzz_target!(|case: Case| {
    let keys = Keys::new([7; 32]);
    let created = Time::from_millis(case.created_ms.into());
    let lifespan = Duration::from_millis(case.lifespan_ms.into());
    let header = |tag: u32| Header {
        source_port: PORTS[1],
        destination_port: PORTS[0],
        tag: VerificationTag(tag),
    };
    // Cookies omit scope and flow of IPv6 addresses, and hold IPv4-mapped addresses as IPv4.
    let plain = |address: SocketAddr| SocketAddr::new(address.ip(), address.port());
    let contents = Contents {
        created,
        lifespan,
        local_port: PORTS[0],
        peer_port: PORTS[1],
        local: plain(case.local),
        peer: plain(case.peer),
        peer_addresses: case.peer_addresses.iter().copied().take(MAX_ADDRESSES).collect(),
        local_tag: VerificationTag(case.numbers[0].max(1)),
        peer_tag: VerificationTag(case.numbers[1].max(1)),
        local_initial_tsn: Tsn(case.numbers[2]),
        peer_initial_tsn: Tsn(case.numbers[3]),
        peer_a_rwnd: case.numbers[4],
        outbound_streams: case.streams[0],
        inbound_streams: case.streams[1],
        extensions: Extensions {
            interleaving: case.extensions[0],
            forward_tsn: case.extensions[1],
            i_forward_tsn: case.extensions[2],
            auth: case.extensions[3],
            asconf: case.extensions[4],
            reconfiguration: case.extensions[5],
            ecn: case.extensions[6],
            nr_sack: case.extensions[7],
            zero_checksum: case.extensions[8],
            compact_sack: case.extensions[9],
        },
        adaptation: case.adaptation,
        auth: None,
        // At most as long as fits into a packet.
        key_management: case.key_management.map(|both| both.map(|mut raw| {
            raw.truncate(264);
            raw.into()
        })),
        tie_tags: case.tie_tags.map(|[local, peer]| TieTags { local: local.max(1), peer: peer.max(1) }),
    };
    let header = header(contents.local_tag.0);
    assert!(keys.open(created, &header, &case.forged).is_err(), "128 bits were guessed");
    let sealed = keys.seal(&contents);
    assert_eq!(*keys.open(created, &header, &sealed).expect("our own cookie"), contents);
    let late = Duration::from_millis(case.later_ms.into());
    match keys.open(created + late, &header, &sealed) {
        Ok(opened) => assert!(late <= lifespan && *opened == contents),
        Err(CookieError::Stale(stale)) => assert!(late > lifespan && *stale.contents() == contents),
        // Its key was replaced.
        Err(CookieError::Forged) => assert!(late > Duration::from_secs(3_600)),
    }
    let mut changed = sealed.to_vec();
    changed.truncate(sealed.len() - usize::from(case.cut) % (sealed.len() + 1) * usize::from(case.cut % 3 == 0));
    for (at, change) in case.changes {
        if let Some(byte) = changed.get_mut(usize::from(at)) {
            *byte ^= change;
        }
    }
    assert_eq!(keys.open(created, &header, &changed).is_ok(), changed == sealed);
    for wrong in [
        Header { source_port: PORTS[1] ^ 1, ..header },
        Header { destination_port: PORTS[0] ^ 1, ..header },
        Header { tag: VerificationTag(header.tag.0 ^ 1), ..header },
    ] {
        assert!(keys.open(created, &wrong, &sealed).is_err(), "it is a cookie of {header:?}");
    }
});
