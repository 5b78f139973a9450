//! The rules of RFC 9260 §8.4, without an association and after its end.

use super::*;

const TAG: VerificationTag = VerificationTag(0xaaaa);

//= specs/rfc9260.txt#section-8.4
//= type=test
//# When sending the ABORT chunk, the receiver of
//# the OOTB packet MUST fill in the Verification Tag field of the
//# outbound packet with the value found in the Verification Tag
//# field of the OOTB packet and set the T bit in the Chunk Flags to
//# indicate that the Verification Tag is reflected.
#[test]
fn rule_8_any_other_packet_is_aborted_with_its_own_tag() {
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# A DATA chunk received in CLOSED is out of the blue and SHOULD be
    //# handled per Section 8.4.
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# A SACK chunk in the CLOSED state is out of the blue and SHOULD be
    //# processed according to the rules in Section 8.4.
    //= specs/rfc9260.txt#section-3.3.7
    //= type=test
    //# If the Verification Tag is reflected, the T bit MUST be set to 1.
    //= specs/rfc9260.txt#section-8.4
    //= type=test
    //# After sending this ABORT chunk, the receiver of the OOTB packet MUST
    //# discard the OOTB packet and MUST NOT take any further action.
    //= specs/rfc9260.txt#section-8.5.1
    //= type=test
    //# If the ABORT chunk is sent in response to an OOTB packet, the endpoint
    //# MUST follow the procedure described in Section 8.4.
    let mut bench = Bench::new();
    for chunk in [
        data(PEER_TSN),
        Chunk::Sack(crate::wire::Sack::default()),
        Chunk::Heartbeat(Bytes::new()),
        Chunk::Shutdown { cum_tsn_ack: Tsn(1) },
        Chunk::Error(vec![Cause::OutOfResource]),
        Chunk::InitAck(init()),
    ] {
        let answer = bench.ask(TAG, std::slice::from_ref(&chunk));
        assert_eq!(answer.text(), "ABORT[flgs=T]", "{chunk}");
        assert_eq!((answer.to, answer.header.tag), (peer(), TAG));
        assert_eq!((answer.header.source_port, answer.header.destination_port), (LOCAL_PORT, PEER_PORT));
        assert!(bench.endpoint.is_empty() && bench.events.is_empty());
    }
}

#[test]
fn rule_1_packets_with_non_unicast_addresses_are_ignored() {
    //= specs/rfc9260.txt#section-8.4
    //= type=test
    //# If the OOTB packet is to or from a non-unicast address, a receiver
    //# SHOULD silently discard the packet.
    let mut bench = Bench::new();
    let good = datagram(peer(), to_bench(TAG), &[data(PEER_TSN)]);
    let first = datagram(peer(), to_bench(VerificationTag(0)), &[Chunk::Init(init())]);
    for good in [good, first] {
        for from in ["224.0.0.1:5000", "255.255.255.255:5000", "0.0.0.0:5000", "[ff02::1]:5000", "[::]:5000"]
        {
            let bad = Datagram { from: from.parse().unwrap(), ..good.clone() };
            assert!(bench.tell_raw(bad).is_empty(), "from {from}");
        }
        let bad = Datagram { to: "224.0.0.1:9899".parse().unwrap(), ..good };
        assert!(bench.tell_raw(bad).is_empty());
    }
}

//= specs/rfc9260.txt#section-8.4
//= type=test
//# 2)  If the OOTB packet contains an ABORT chunk, the receiver MUST
//# silently discard the OOTB packet and take no further action.
//# Otherwise,
#[test]
fn rule_2_an_abort_is_never_answered() {
    let mut bench = Bench::new();
    for reflected in [false, true] {
        let abort = Chunk::Abort { reflected, causes: Vec::new() };
        assert!(bench.tell(TAG, std::slice::from_ref(&abort)).is_empty());
        assert!(bench.tell(TAG, &[Chunk::ShutdownAck, abort]).is_empty(), "not even behind a SHUTDOWN ACK");
    }
}

//= specs/rfc9260.txt#section-8.4
//= type=test
//# 3)  If the packet contains an INIT chunk with a Verification Tag set
//# to 0, it SHOULD be processed as described in Section 5.1.  If,
//# for whatever reason, the INIT chunk cannot be processed normally
//# and an ABORT chunk has to be sent in response, the Verification
//# Tag of the packet containing the ABORT chunk MUST be the Initiate
//# Tag of the received INIT chunk, and the T bit of the ABORT chunk
//# has to be set to 0, indicating that the Verification Tag is not
//# reflected.
#[test]
fn rule_3_an_init_to_a_port_where_nobody_listens_is_aborted_with_its_initiate_tag() {
    let mut bench = Bench::new();
    let header = Header { destination_port: LOCAL_PORT + 1, ..to_bench(VerificationTag(0)) };
    let sent = bench.tell_raw(datagram(peer(), header, &[Chunk::Init(init())]));
    assert_eq!(sent.len(), 1);
    assert_eq!((sent[0].text().as_str(), sent[0].header.tag), ("ABORT[flgs=0]", PEER_TAG));
}

//= specs/rfc9260.txt#section-8.4
//= type=test
//# When sending the SHUTDOWN COMPLETE chunk, the receiver of
//# the OOTB packet MUST fill in the Verification Tag field of the
//# outbound packet with the Verification Tag received in the
//# SHUTDOWN ACK chunk and set the T bit in the Chunk Flags to
//# indicate that the Verification Tag is reflected.  Otherwise,
#[test]
fn rule_5_a_shutdown_ack_is_completed() {
    //= specs/rfc9260.txt#section-3.1
    //= type=test
    //# A packet containing a SHUTDOWN COMPLETE chunk with the T bit set MUST
    //# have the Verification Tag copied from the packet with the SHUTDOWN ACK
    //# chunk.
    //= specs/rfc9260.txt#section-3.3.13
    //= type=test
    //# If the Verification Tag is reflected, the T bit MUST be set to 1.
    //= specs/rfc9260.txt#section-8.5.1
    //= type=test
    //# Only where no TCB exists SHOULD the sender use the Verification Tag
    //# from the SHUTDOWN ACK chunk and MUST set the T bit.
    let mut bench = Bench::new();
    let answer = bench.ask(TAG, &[Chunk::ShutdownAck]);
    assert_eq!((answer.text().as_str(), answer.header.tag), ("SHUTDOWN_COMPLETE[flgs=T]", TAG));
}

#[test]
fn rules_6_and_7_send_no_response() {
    //= specs/rfc9260.txt#section-8.4
    //= type=test
    //# If the packet contains a SHUTDOWN COMPLETE chunk, the receiver SHOULD
    //# silently discard the packet and take no further action.
    //= specs/rfc9260.txt#section-8.4
    //= type=test
    //# If the packet contains an ERROR chunk with the "Stale Cookie" error
    //# cause or a COOKIE ACK chunk, the SCTP packet SHOULD be silently
    //# discarded.
    let mut bench = Bench::new();
    for chunk in [
        Chunk::ShutdownComplete { reflected: false },
        Chunk::ShutdownComplete { reflected: true },
        Chunk::CookieAck,
        Chunk::Error(vec![Cause::OutOfResource, Cause::StaleCookie(1)]),
    ] {
        assert!(bench.tell(TAG, std::slice::from_ref(&chunk)).is_empty(), "{chunk}");
    }
}

#[test]
fn a_packet_without_a_whole_chunk_is_not_answered() {
    let mut bench = Bench::new();
    for chunk in [&[0x01, 0, 0, 0x60][..], &[0, 3, 0, 17, 0, 0, 0, 0], &[7, 0, 0, 3]] {
        let mut bytes = datagram(peer(), to_bench(TAG), &[]).payload.to_vec();
        bytes.extend_from_slice(chunk);
        bytes[8..12].fill(0);
        let checksum = crc_fast::crc32_iscsi(&bytes).to_le_bytes();
        bytes[8..12].copy_from_slice(&checksum);
        let datagram = Datagram { from: peer(), to: local(), ecn: Ecn::NotEct, payload: bytes.into() };
        assert!(bench.tell_raw(datagram).is_empty(), "{chunk:?}");
    }
    assert_eq!(bench.endpoint.counters().out_of_the_blue, 3);
}

#[test]
fn an_endpoint_does_not_respond_to_its_own_packets() {
    let limits = Limits { out_of_the_blue: 3, ..Limits::default() };
    let mut bench = Bench::with_limits(limits);
    let answers = |bench: &mut Bench, chunk: &Chunk, tag| {
        (0..10).map(|_| bench.tell(tag, std::slice::from_ref(chunk)).len()).sum::<usize>()
    };
    assert_eq!(answers(&mut bench, &data(PEER_TSN), TAG), 3);
    bench.pass(Duration::from_millis(999));
    assert_eq!(answers(&mut bench, &Chunk::ShutdownAck, TAG), 0, "of one budget");
    bench.pass(Duration::from_millis(1));
    let bad = Chunk::Init(Init { a_rwnd: 1, ..init() });
    assert_eq!(answers(&mut bench, &bad, VerificationTag(0)), 3, "ABORTs of bad INITs too");
    assert_eq!(bench.endpoint.counters().answers_dropped, 24);
}

#[test]
fn packets_that_arrive_after_an_abort_are_not_answered_before_it() {
    let mut bench = Bench::new();
    let ack = bench.establish();
    let id = bench.id();
    bench.endpoint.association_mut(id).unwrap().abort(Bytes::from_static(b"enough"));
    // They were under way, and the driver had not yet sent the ABORT.
    for tsn in [PEER_TSN, Tsn(PEER_TSN.0 + 1)] {
        bench.endpoint.handle(bench.now, datagram(peer(), to_bench(ack.initiate_tag), &[data(tsn)]));
    }
    let sent = bench.drain();
    assert_eq!(sent.len(), 1, "{sent:?}");
    let Chunk::Abort { reflected: false, causes } = &sent[0].chunks[0] else { panic!("{sent:?}") };
    assert_eq!(*causes, [Cause::UserInitiatedAbort(Bytes::from_static(b"enough"))]);
    let answer = bench.ask(ack.initiate_tag, &[data(Tsn(PEER_TSN.0 + 2))]);
    assert!(matches!(answer.chunks[..], [Chunk::Abort { reflected: true, .. }]), "{answer:?}");
}
