//! INIT collisions (RFC 9260 §5.2.1, §5.2.4 B to D): the bench has sent an INIT as well.

use super::*;
use crate::Message;

fn init_ack() -> Chunk {
    let parameters = vec![Parameter::StateCookie(Bytes::from_static(b"the peer's cookie"))];
    Chunk::InitAck(Init { parameters, ..init() })
}

/// The fields that two INITs or INIT ACKs of one side must share.
fn identity(init: &Init) -> (VerificationTag, Tsn, u16, u16, u32) {
    (init.initiate_tag, init.initial_tsn, init.outbound_streams, init.inbound_streams, init.a_rwnd)
}

//= specs/rfc9260.txt#section-5.2.1
//= type=test
//# Upon receipt of an INIT chunk in the COOKIE-WAIT state, an endpoint
//# MUST respond with an INIT ACK chunk using the same parameters it sent
//# in its original INIT chunk (including its Initiate Tag, unchanged).
#[test]
fn in_cookie_wait_an_init_is_answered_with_the_own_parameters_and_its_cookie_is_case_b() {
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# If such an INIT ACK chunk is received in any state other than CLOSED
    //# or COOKIE-WAIT, it SHOULD be discarded silently (see Section 5.2.3).
    //= specs/rfc9260.txt#section-5.2.3
    //= type=test
    //# If an INIT ACK chunk is received by an endpoint in any state other
    //# than the COOKIE-WAIT or CLOSED state, the endpoint SHOULD discard the
    //# INIT ACK chunk.
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# The packet containing the INIT ACK chunk SHOULD be sent to the source
    //# address of the received packet containing the INIT chunk.
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# When responding, the following rules MUST be applied:
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# The endpoint MUST also generate a State Cookie with the INIT ACK
    //# chunk.
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# After that, the endpoint MUST NOT change its state, the T1-init timer
    //# MUST be left running, and the corresponding TCB MUST NOT be destroyed.
    let mut bench = Bench::new();
    let own = bench.connect();
    let ack = bench.shake(Init { inbound_streams: 20, ..init() });
    assert_eq!(identity(&ack), identity(&own));
    assert_eq!(bench.tie_tags(&ack), None, "0 in COOKIE-WAIT");
    assert_eq!(bench.phase(), Phase::CookieWait, "nothing changed");
    bench.pass(Duration::from_secs(1));
    assert!(bench.drain()[0].text().starts_with("INIT["), "T1-init runs on");
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack), data(PEER_TSN)]);
    assert!(answer.text().starts_with("COOKIE_ACK[flgs=0]; SACK[flgs=0, cum_tsn=1000,"), "{}", answer.text());
    assert_eq!((answer.header.tag, bench.phase()), (PEER_TAG, Phase::Established));
    assert!(
        bench.tell(own.initiate_tag, &[init_ack()]).is_empty(),
        "the answer to the own INIT comes too late"
    );
    assert_eq!((bench.phase(), bench.endpoint.len()), (Phase::Established, 1));
    bench.tell(ack.initiate_tag, &[Chunk::Abort { reflected: false, causes: Vec::new() }]);
    assert!(bench.tell(ack.initiate_tag, &[echo(&ack)]).is_empty(), "the cookie had its time");
}

//= specs/rfc9260.txt#section-5.2.1
//= type=test
//# The packet containing the INIT ACK chunk MUST only be sent to an
//# address passed by the upper layer in the request to initialize
//# the association.
//= specs/rfc9260.txt#section-5.2.1
//= type=test
//# The packet containing the INIT ACK chunk MUST only be sent to an
//# address reported in the incoming INIT chunk.
#[test]
fn in_cookie_wait_an_init_from_another_address_is_answered_to_the_destination_of_the_init() {
    let mut bench = Bench::new();
    bench.connect();
    let parameters = vec![Parameter::Address(stranger().ip()), Parameter::Address(peer().ip())];
    let header = to_bench(VerificationTag(0));
    let sent = bench.tell_raw(datagram(stranger(), header, &[Chunk::Init(Init { parameters, ..init() })]));
    assert_eq!((sent.len(), sent[0].to), (1, peer()));
    assert!(matches!(sent[0].chunks[..], [Chunk::InitAck(_)]), "{}", sent[0].text());
    let from_another = datagram(stranger(), header, &[Chunk::Init(init())]);
    assert_eq!(bench.tell_raw(from_another)[0].to, stranger(), "an association of its own");
}

//= specs/rfc9260.txt#section-5.2.4
//= type=test
//# D)  When both local and remote tags match, the endpoint SHOULD enter
//# the ESTABLISHED state if it is in the COOKIE-ECHOED state.  It
//# SHOULD stop any T1-cookie timer that is running and send a COOKIE
//# ACK chunk.
#[test]
fn in_cookie_echoed_the_cookie_of_the_same_tags_is_case_d() {
    let mut bench = Bench::new();
    let own = bench.connect();
    let ack = bench.shake(init());
    assert!(bench.ask(own.initiate_tag, &[init_ack()]).text().starts_with("COOKIE_ECHO["));
    assert_eq!(bench.phase(), Phase::CookieEchoed);
    assert_eq!(bench.ask(ack.initiate_tag, &[echo(&ack)]).text(), "COOKIE_ACK[flgs=0]");
    assert_eq!(bench.phase(), Phase::Established);
    bench.pass(Duration::from_secs(5));
    assert!(bench.drain().is_empty(), "T1-cookie is stopped");
}

//= specs/rfc9260.txt#section-5.2.4
//= type=test
//# The
//# endpoint SHOULD stay in or enter the ESTABLISHED state, but it
//# MUST update its peer's Verification Tag from the State Cookie,
//# stop any T1-init or T1-cookie timers that might be running, and
//# send a COOKIE ACK chunk.
#[test]
fn in_cookie_echoed_the_cookie_of_a_peer_with_a_new_tag_is_case_b() {
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# Upon receipt of an INIT chunk in the COOKIE-ECHOED state, an endpoint
    //# MUST respond with an INIT ACK chunk using the same parameters it sent
    //# in its original INIT chunk (including its Initiate Tag, unchanged),
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# For an endpoint that is in the COOKIE-ECHOED state, it MUST populate
    //# its Tie-Tags within both the association TCB and inside the State
    //# Cookie (see Section 5.2.2 for a description of the Tie-Tags).
    let mut bench = Bench::new();
    let own = bench.connect();
    assert!(bench.ask(own.initiate_tag, &[init_ack()]).text().starts_with("COOKIE_ECHO["));
    let ack = bench.shake(Init { initiate_tag: VerificationTag(0x7777), initial_tsn: Tsn(70), ..init() });
    assert_eq!(identity(&ack), identity(&Init { outbound_streams: 6, ..own }), "the own parameters again");
    assert!(bench.tie_tags(&ack).is_some());
    assert_eq!(bench.tie_tags(&ack), bench.own_tie_tags());
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack), data(Tsn(70))]);
    assert!(answer.text().starts_with("COOKIE_ACK[flgs=0]; SACK[flgs=0, cum_tsn=70,"), "{}", answer.text());
    assert_eq!(answer.header.tag, VerificationTag(0x7777));
    bench.pass(Duration::from_secs(5));
    assert!(bench.drain().is_empty(), "T1-cookie is stopped");
}

/// The peer crashed between its INIT ACK and its own INIT, and the COOKIE ACK of the previous instance arrives in between.
#[test]
fn in_established_the_cookie_of_a_peer_with_a_new_tag_is_case_b_and_starts_with_its_tsns() {
    let mut bench = Bench::new();
    let own = bench.connect();
    assert!(bench.ask(own.initiate_tag, &[init_ack()]).text().starts_with("COOKIE_ECHO["));
    let ack = bench.shake(Init { initiate_tag: VerificationTag(0x7777), initial_tsn: Tsn(70), ..init() });
    bench.tell(own.initiate_tag, &[Chunk::CookieAck]);
    assert_eq!(bench.phase(), Phase::Established);
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack), data(Tsn(70))]);
    assert!(answer.text().starts_with("COOKIE_ACK[flgs=0]; SACK[flgs=0, cum_tsn=70,"), "{}", answer.text());
    assert_eq!(answer.header.tag, VerificationTag(0x7777));
    assert!(bench.events.iter().any(|(_, event)| *event == Event::Restarted), "{:?}", bench.events);
    let id = bench.id();
    let association = bench.endpoint.association_mut(id).unwrap();
    assert!(association.recv(StreamId(0)).is_some());
    association.send(StreamId(0), Message::new(Ppid(0), &b"again"[..])).unwrap();
    let sent = bench.drain();
    assert!(sent[0].text().contains(&format!("tsn={}", own.initial_tsn.0)), "{}", sent[0].text());
    assert_eq!(sent[0].header.tag, VerificationTag(0x7777));
}

//= specs/rfc9260.txt#section-5.2.4
//= type=test
//# The cookie
//# SHOULD be silently discarded.  The endpoint SHOULD NOT change
//# states and SHOULD leave any timers running.
#[test]
fn a_cookie_from_before_the_own_init_is_case_c() {
    let mut bench = Bench::new();
    let late = bench.shake(init());
    let own = bench.connect();
    assert!(bench.ask(own.initiate_tag, &[init_ack()]).text().starts_with("COOKIE_ECHO["));
    assert!(bench.tell(late.initiate_tag, &[echo(&late), data(PEER_TSN)]).is_empty());
    assert_eq!(bench.phase(), Phase::CookieEchoed);
    bench.pass(Duration::from_secs(5));
    assert!(bench.drain()[0].text().starts_with("COOKIE_ECHO["), "T1-cookie runs on");
}

//= specs/rfc9260.txt#section-5.2.1
//= type=test
//# If the INIT chunk indicates that a new address has been
//# added to the association, then the entire INIT chunk MUST be
//# discarded, and the state of the existing association SHOULD NOT be
//# changed.
#[test]
fn in_cookie_echoed_an_init_with_a_new_address_is_rejected() {
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# An ABORT chunk SHOULD be sent in a response that MAY include the
    //# "Restart of an Association with New Addresses" error cause.
    //= specs/rfc9260.txt#section-5.2.1
    //= type=test
    //# The error SHOULD list the addresses that were added to the restarting
    //# association.
    let mut bench = Bench::new();
    let own = bench.connect();
    bench.tell(own.initiate_tag, &[init_ack()]);
    let parameters = vec![Parameter::Address(stranger().ip())];
    let answer = bench.ask(VerificationTag(0), &[Chunk::Init(Init { parameters, ..init() })]);
    assert_eq!(answer.text(), "ABORT[flgs=0, RESTART_WITH_NEW_ADDRESSES[IPV4_ADDRESS[addr=192.0.2.99]]]");
    assert_eq!(bench.phase(), Phase::CookieEchoed);
    // The receiver of the ABORT may answer anything: it is not of this association.
    assert!(bench.tell(PEER_TAG, &[Chunk::Abort { reflected: false, causes: Vec::new() }]).is_empty());
    assert_eq!(bench.phase(), Phase::CookieEchoed);
}

//= specs/rfc9260.txt#section-8.5.1
//= type=test
//# If the receiver is in COOKIE-ECHOED or COOKIE-WAIT state, the
//# procedures in Section 8.4 SHOULD be followed; in other words,
//# it is treated as an OOTB packet.
#[test]
fn a_shutdown_ack_of_an_association_before_this_one_is_completed_during_the_handshake() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# If a SHUTDOWN chunk is received in the COOKIE-WAIT or COOKIE ECHOED
    //# state, the SHUTDOWN chunk SHOULD be silently discarded.
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# The sender of the INIT or COOKIE ECHO chunk SHOULD respond to the
    //# receipt of a SHUTDOWN ACK chunk with a stand-alone SHUTDOWN COMPLETE
    //# chunk in an SCTP packet with the Verification Tag field of its common
    //# header set to the same tag that was received in the packet containing
    let mut bench = Bench::new();
    let own = bench.connect();
    for phase in [Phase::CookieWait, Phase::CookieEchoed] {
        assert_eq!(bench.phase(), phase);
        for tag in [VerificationTag(0xaaaa), own.initiate_tag] {
            let answer = bench.ask(tag, &[Chunk::ShutdownAck]);
            assert_eq!((answer.text().as_str(), answer.header.tag), ("SHUTDOWN_COMPLETE[flgs=T]", tag));
        }
        assert!(bench.tell(own.initiate_tag, &[Chunk::Shutdown { cum_tsn_ack: Tsn(1) }]).is_empty());
        assert_eq!(bench.phase(), phase);
        bench.tell(own.initiate_tag, &[init_ack()]);
    }
    bench.tell(own.initiate_tag, &[Chunk::CookieAck]);
    assert!(bench.tell(VerificationTag(0xaaaa), &[Chunk::ShutdownAck]).is_empty(), "and discarded after it");
}

/// The handshake of the other direction was completed, and the cookie of this one arrives after the association has ended.
#[test]
fn a_cookie_of_a_collision_creates_no_association_after_that_one_ended() {
    let mut bench = Bench::new();
    let own = bench.connect();
    let ack = bench.shake(init());
    bench.tell(own.initiate_tag, &[init_ack()]);
    bench.tell(own.initiate_tag, &[Chunk::CookieAck]);
    assert_eq!(bench.phase(), Phase::Established);
    bench.tell(own.initiate_tag, &[Chunk::Abort { reflected: false, causes: Vec::new() }]);
    assert!(bench.tell(ack.initiate_tag, &[echo(&ack)]).is_empty(), "the cookie had its time");
    bench.drain();
    assert_eq!(bench.endpoint.len(), 1, "the one that is over");
}
