//! Invalid packets, and packets for no association: no response, no state change, no panic.

use proptest::prelude::*;

use super::*;

/// A bench with an association, and the datagram of its peer that would bring data.
fn established() -> (Bench, Datagram) {
    let mut bench = Bench::new();
    let ack = bench.establish();
    let good = datagram(peer(), to_bench(ack.initiate_tag), &[data(PEER_TSN)]);
    (bench, good)
}

fn resealed(mut bytes: Vec<u8>) -> Bytes {
    bytes[8..12].fill(0);
    let checksum = crc_fast::crc32_iscsi(&bytes);
    bytes[8..12].copy_from_slice(&checksum.to_le_bytes());
    bytes.into()
}

#[test]
fn a_wrong_checksum_is_silently_discarded() {
    //= specs/rfc9260.txt#section-6.8
    //= type=test
    //# When an SCTP packet is received, the receiver MUST first check the
    //# CRC32c checksum as follows:
    //= specs/rfc9260.txt#section-6.8
    //= type=test
    //# If it is not, the receiver MUST treat the packet as an invalid SCTP
    //# packet.
    let (mut bench, good) = established();
    for bit in 0..good.payload.len() * 8 {
        let mut bad = good.payload.to_vec();
        bad[bit / 8] ^= 1 << (bit % 8);
        assert!(bench.tell_raw(Datagram { payload: bad.into(), ..good.clone() }).is_empty(), "bit {bit}");
    }
    assert_eq!(bench.endpoint.counters().invalid, good.payload.len() as u64 * 8);
    let answer = bench.tell_raw(good);
    assert!(answer[0].text().contains("SACK"), "the association took no harm: {answer:?}");
}

#[test]
fn a_packet_cut_short_is_discarded_or_read_as_far_as_it_goes() {
    let (mut bench, good) = established();
    for len in 0..good.payload.len() {
        let cut = good.payload.slice(..len);
        let cut = if len >= 12 { resealed(cut.to_vec()) } else { cut };
        let answer = bench.tell_raw(Datagram { payload: cut, ..good.clone() });
        assert!(!answer.iter().any(|sent| sent.text().contains("SACK")), "{len} bytes: {answer:?}");
        if bench.endpoint.association(bench.id()).unwrap().phase() != Phase::Established {
            // A DATA chunk cut before its payload may be a violation; it must not be anything worse.
            (bench, _) = established();
        }
    }
}

#[test]
fn a_chunk_longer_than_its_packet_is_not_read() {
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# If the receiver detects a partial chunk, it MUST drop the chunk.
    let (mut bench, good) = established();
    for len in [21u16, 24, 1_000, 65_535] {
        let mut bytes = good.payload.to_vec();
        bytes[14..16].copy_from_slice(&len.to_be_bytes());
        let answer = bench.tell_raw(Datagram { payload: resealed(bytes), ..good.clone() });
        assert!(!answer.iter().any(|sent| sent.text().contains("cum_tsn=1000")), "{len}: {answer:?}");
    }
}

#[test]
fn port_0_is_rejected() {
    let mut bench = Bench::new();
    for header in [
        Header { source_port: 0, ..to_bench(VerificationTag(0)) },
        Header { destination_port: 0, ..to_bench(VerificationTag(0)) },
    ] {
        assert!(bench.tell_raw(datagram(peer(), header, &[Chunk::Init(init())])).is_empty());
    }
    assert_eq!(bench.endpoint.counters().invalid, 2);
}

//= specs/rfc9260.txt#section-8.5
//= type=test
//# If the received Verification Tag value does not
//# match the receiver's own tag value, the receiver MUST silently
//# discard the packet and MUST NOT process it any further, except for
//# those cases listed in Section 8.5.1 below.
#[test]
fn a_wrong_tag_is_silently_discarded_for_every_chunk_type() {
    //= specs/rfc9260.txt#section-8.5
    //= type=test
    //# When receiving an SCTP packet, the endpoint MUST ensure that the value
    //# in the Verification Tag field of the received SCTP packet matches its
    //# own tag.
    //= specs/rfc9260.txt#section-8.5.1
    //= type=test
    //# Otherwise, the receiver MUST silently discard the packet and take no
    //# further action.
    let (mut bench, _) = established();
    for tag in [PEER_TAG, VerificationTag(1), VerificationTag(u32::MAX)] {
        for chunk in [
            data(PEER_TSN),
            Chunk::Sack(crate::wire::Sack::default()),
            Chunk::Heartbeat(Bytes::new()),
            Chunk::Abort { reflected: false, causes: Vec::new() },
            Chunk::Abort { reflected: tag != PEER_TAG, causes: Vec::new() },
            Chunk::Shutdown { cum_tsn_ack: Tsn(0) },
            Chunk::ShutdownAck,
            Chunk::ShutdownComplete { reflected: false },
            Chunk::Error(vec![Cause::StaleCookie(1)]),
            Chunk::CookieAck,
            Chunk::Init(init()),
            Chunk::InitAck(init()),
            Chunk::Unknown { kind: 0xff, raw: Bytes::from_static(&[0xff, 0, 0, 4]) },
        ] {
            let answer = bench.tell(tag, std::slice::from_ref(&chunk));
            assert!(answer.is_empty(), "{chunk} with tag {tag:?}: {answer:?}");
        }
    }
    assert_eq!(bench.endpoint.association(bench.id()).unwrap().phase(), Phase::Established);
}

#[test]
fn a_malformed_chunk_with_a_wrong_tag_is_discarded() {
    // CVE-2021-3772: an association was ended by packets that bore no tag of it, if only their chunks were bad.
    let (mut bench, good) = established();
    for chunk in [
        &[0, 3, 0, 16, 0, 0, 3, 232, 0, 0, 0, 0, 0, 0, 0, 0][..],
        &[3, 0, 0, 5, 0, 0, 0, 0],
        &[6, 0, 0, 3],
        &[1, 0, 0, 4],
        &[2, 0, 0, 20, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0x7f, 0, 0, 4],
    ] {
        let mut bytes = good.payload[..12].to_vec();
        bytes[7] ^= 1;
        bytes.extend_from_slice(chunk);
        assert!(
            bench.tell_raw(Datagram { payload: resealed(bytes), ..good.clone() }).is_empty(),
            "{chunk:?}"
        );
        assert_eq!(bench.endpoint.association(bench.id()).unwrap().phase(), Phase::Established);
    }
}

#[test]
fn a_zero_checksum_is_invalid_unless_negotiated() {
    // pion took every packet without a checksum, whatever had been agreed on.
    let (mut bench, good) = established();
    let mut bytes = good.payload.to_vec();
    bytes[8..12].fill(0);
    assert!(bench.tell_raw(Datagram { payload: bytes.into(), ..good.clone() }).is_empty());
    assert_eq!(bench.endpoint.counters().invalid, 1);
    assert!(!bench.tell_raw(good).is_empty());
}

//= specs/rfc9260.txt#section-8.5.1
//= type=test
//# The receiver of an ABORT chunk MUST accept the packet if the
//# Verification Tag field of the packet matches its own tag and
//# the T bit is not set OR if it is set to its Peer's Tag and the
//# T bit is set in the Chunk Flags.  Otherwise, the receiver MUST
//# silently discard the packet and take no further action.
#[test]
fn an_abort_is_accepted_with_the_local_tag_or_the_reflected_peer_tag_only() {
    //= specs/rfc9260.txt#section-9.1
    //= type=test
    //# An endpoint receiving an ABORT chunk MUST apply the special
    //# Verification Tag check rules described in Section 8.5.1.
    for (own, reflected, counts) in
        [(true, false, true), (false, true, true), (true, true, false), (false, false, false)]
    {
        let mut bench = Bench::new();
        let ack = bench.establish();
        let tag = if own { ack.initiate_tag } else { PEER_TAG };
        assert!(bench.tell(tag, &[Chunk::Abort { reflected, causes: Vec::new() }]).is_empty());
        let over = bench.endpoint.association(bench.id()).unwrap().phase() == Phase::Closed;
        assert_eq!(over, counts, "own tag: {own}, T bit: {reflected}");
    }
}

#[test]
fn a_reflected_tag_admits_no_other_chunk() {
    let (mut bench, _) = established();
    let abort = Chunk::Abort { reflected: true, causes: Vec::new() };
    assert!(bench.tell(PEER_TAG, &[data(PEER_TSN), abort]).is_empty());
    assert_eq!(bench.endpoint.association(bench.id()).unwrap().phase(), Phase::Established);
}

#[test]
fn a_packet_with_a_stolen_tag_from_another_address_is_discarded_without_abort() {
    let (mut bench, good) = established();
    assert!(bench.tell_raw(Datagram { from: stranger(), ..good.clone() }).is_empty());
    // The same host from another encapsulation port: a NAT changed its mind (RFC 6951 §5.4).
    let moved = SocketAddr::new(peer().ip(), 5_001);
    let answers = bench.tell_raw(Datagram { from: moved, ..good });
    assert!(!answers.is_empty() && answers.iter().all(|answer| answer.to == moved), "it is followed there");
}

#[test]
fn init_and_init_ack_come_alone() {
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# An INIT or INIT ACK chunk MUST NOT be bundled with any other chunk.
    //= specs/rfc9260.txt#section-12.3
    //= type=test
    //# The receiver of an INIT chunk MUST silently discard the INIT chunk and
    //# all further chunks if the INIT chunk is bundled with other chunks or
    //# the packet has a non-zero Verification Tag.
    let mut bench = Bench::new();
    let cookie_ack = Chunk::CookieAck;
    assert!(bench.tell(VerificationTag(0), &[Chunk::Init(init()), cookie_ack.clone()]).is_empty());
    assert!(bench.tell(VerificationTag(0), &[cookie_ack.clone(), Chunk::Init(init())]).is_empty());
    assert!(bench.tell(VerificationTag(9), &[Chunk::InitAck(init()), cookie_ack]).is_empty());
    assert!(bench.tell(VerificationTag(9), &[Chunk::Init(init())]).is_empty(), "an INIT has no tag");
    assert_eq!(bench.endpoint.counters().discarded, 4);
    let own = bench.establish().initiate_tag;
    assert!(bench.tell(own, &[Chunk::Init(init())]).is_empty(), "nor that of an association");
    assert_eq!(bench.endpoint.counters().discarded, 5);
}

//= specs/rfc9260.txt#section-8.5.1
//= type=test
//# When an endpoint receives an SCTP packet with the Verification
//# Tag set to 0, it SHOULD verify that the packet contains only an
//# INIT chunk.  Otherwise, the receiver MUST silently discard the
//# packet.
#[test]
fn the_tag_0_is_for_init_alone() {
    let mut bench = Bench::new();
    for chunk in [data(PEER_TSN), Chunk::ShutdownAck, Chunk::InitAck(init()), Chunk::CookieEcho(Bytes::new())]
    {
        assert!(bench.tell(VerificationTag(0), std::slice::from_ref(&chunk)).is_empty(), "{chunk}");
    }
    assert_eq!(bench.endpoint.counters().discarded, 4);
}

#[test]
fn unknown_chunks_are_skipped_reported_or_end_the_packet_by_their_high_bits() {
    let unknown = |kind: u8| Chunk::Unknown { kind, raw: vec![kind, 0, 0, 5, 0xaa].into() };
    for (kind, acked, reported) in
        [(0x3f, false, false), (0x7f, false, true), (0xbf, true, false), (0xff, true, true)]
    {
        let mut bench = Bench::new();
        let ack = bench.establish();
        let sent = bench.tell(ack.initiate_tag, &[unknown(kind), data(PEER_TSN)]);
        let text: Vec<_> = sent.iter().map(Sent::text).collect();
        let text = text.join("; ");
        assert_eq!(text.contains("SACK["), acked, "{kind:#x}: {text}");
        assert_eq!(text.contains("UNRECOGNIZED_CHUNK_TYPE["), reported, "{kind:#x}: {text}");
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn no_packet_makes_it_panic(
        bodies in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 4..120), 1..8),
        tags in proptest::collection::vec(0u8..3, 8),
    ) {
        let (mut bench, _) = established();
        let own = bench.endpoint.table.by_address(LOCAL_PORT, PEER_PORT, peer()).unwrap().known.tag;
        for (body, tag) in bodies.into_iter().zip(tags) {
            let tag = [VerificationTag(0), own, PEER_TAG][usize::from(tag)];
            let mut bytes = datagram(peer(), to_bench(tag), &[Chunk::CookieAck]).payload[..12].to_vec();
            bytes.extend_from_slice(&body);
            let good = Datagram { from: peer(), to: local(), ecn: Ecn::NotEct, payload: resealed(bytes) };
            let sent = bench.tell_raw(good);
            prop_assert!(sent.len() < 10);
            bench.pass(Duration::from_millis(500));
        }
    }
}
