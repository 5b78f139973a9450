//! INIT and COOKIE ECHO: new, late, restarted, forged and replayed.

use super::*;
use crate::cookie::KEY_LIFE;

#[test]
fn an_init_is_answered_with_a_cookie_without_state() {
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# The valid range is from 0 to 4294967295 and the Initial TSN SHOULD be
    //# set to a random value in that range.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# The valid range is from 0 to 4294967295 and the Initial TSN SHOULD be
    //# set to a random value in that range.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# Tag_A SHOULD be a random number in the range of 1 to 4294967295 (see
    //# Section 5.3.1 for Tag value selection).
    //= specs/rfc9260.txt#section-5.3.1
    //= type=test
    //# Initiate Tag values SHOULD be selected from the range of 1 to 2^32 -
    //# 1.
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# For a normal association INIT chunk (i.e., the endpoint is in the
    //# CLOSED state), the Tie-Tags MUST be set to 0 (indicating that no
    //# previous TCB existed).
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# This value MUST be placed into the Verification Tag field of every
    //# SCTP packet that the receiver of the INIT chunk transmits within this
    //# association.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# The Initiate Tag MUST NOT take the value 0.
    //= specs/rfc9260.txt#section-3.3.3
    //= type=test
    //# The value of 0 MUST NOT be used, and the value MUST NOT be greater
    //# than the MIS value sent in the INIT chunk.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# The destination IP address of the INIT ACK chunk MUST be set to the
    //# source IP address of the INIT chunk to which this INIT ACK chunk is
    //# responding.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# In the response, besides filling in other parameters, "Z" MUST set the
    //# Verification Tag field to Tag_A and also provide its own Verification
    //# Tag (Tag_Z) in the Initiate Tag field.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# Moreover, "Z" MUST generate and send along with the INIT ACK chunk a
    //# State Cookie.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# An endpoint MUST send the INIT ACK chunk to the IP address from which
    //# it received the INIT chunk.
    //= specs/rfc9260.txt#section-5.1.2
    //= type=test
    //# The packet containing the INIT ACK chunk MUST be sent to the source
    //# address of the packet containing the INIT chunk.
    //= specs/rfc9260.txt#section-5.3.1
    //= type=test
    //# A new Verification Tag value MUST be used each time the endpoint tears
    //# down and then reestablishes an association to the same peer.
    let mut bench = Bench::new();
    let answer = bench.ask(VerificationTag(0), &[Chunk::Init(init())]);
    assert_eq!(answer.header, Header { source_port: LOCAL_PORT, destination_port: PEER_PORT, tag: PEER_TAG });
    let [Chunk::InitAck(ack)] = &answer.chunks[..] else { panic!("{answer:?}") };
    assert_ne!(ack.initiate_tag, VerificationTag(0));
    assert_eq!((ack.outbound_streams, ack.inbound_streams), (6, 10), "OS no more than the peer's MIS");
    assert_eq!(ack.a_rwnd, 1 << 20);
    assert_eq!((answer.to, bench.tie_tags(ack)), (peer(), None));
    assert!(bench.endpoint.is_empty() && bench.events.is_empty());
    let other = bench.shake(init());
    assert_ne!(other.initiate_tag, ack.initiate_tag, "a tag for each, since none is kept");
    assert_ne!(other.initial_tsn, ack.initial_tsn);
}

#[test]
fn a_cookie_makes_an_association() {
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# If an INIT chunk is received with all mandatory parameters that are
    //# specified for the INIT chunk, then the receiver SHOULD process the
    //# INIT chunk and send back an INIT ACK.
    //= specs/rfc9260.txt#section-3.3.2.1.2
    //= type=test
    //# If the INIT chunk does not contain any IP Address parameters, the
    //# endpoint receiving the INIT chunk MUST use the source address
    //# associated with the received IP datagram as its sole destination
    //# address for the association.
    //= specs/rfc9260.txt#section-3.1
    //= type=test
    //# On transmit, the value of the Verification Tag MUST be set to the
    //# value of the Initiate Tag received from the peer endpoint during the
    //# association initialization, with the following exceptions:
    //= specs/rfc9260.txt#section-5.1.5
    //= type=test
    //# If a COOKIE ECHO chunk is received from an endpoint with which the
    //# receiver of the COOKIE ECHO chunk has an existing association, the
    //# procedures in Section 5.2 SHOULD be followed.
    //= specs/rfc9260.txt#section-8.4
    //= type=test
    //# If the packet contains a COOKIE ECHO chunk as the first chunk, it MUST
    //# be processed as described in Section 5.1.
    //= specs/rfc9260.txt#section-8.5
    //= type=test
    //# When sending an SCTP packet, the endpoint MUST fill in the
    //# Verification Tag field of the outbound packet with the tag value in
    //# the Initiate Tag parameter of the INIT or INIT ACK chunk received from
    //# its peer.
    let mut bench = Bench::new();
    bench.establish();
    assert!(matches!(bench.events[0].1, Event::Accepted));
    let up = Event::Up { outbound_streams: 6, inbound_streams: 5, adaptation: None };
    assert!(bench.events.iter().any(|(_, event)| *event == up), "{:?}", bench.events);
    let association = bench.endpoint.association(bench.id()).unwrap();
    assert_eq!(association.ports(), (LOCAL_PORT, PEER_PORT));
    assert_eq!(association.paths().map(|path| path.peer).collect::<Vec<_>>(), [peer()]);
}

//= specs/rfc9260.txt#section-5.1.5
//= type=test
//# Immediately acknowledge any DATA chunk bundled with the COOKIE
//# ECHO chunk with a SACK chunk
#[test]
fn data_is_bundled_with_cookie_echo() {
    //= specs/rfc9260.txt#section-5.1.5
    //= type=test
    //# Immediately acknowledge any DATA chunk bundled with the COOKIE ECHO
    //# chunk with a SACK chunk (subsequent DATA chunk acknowledgement SHOULD
    //# follow the rules defined in Section 6.2).
    //= specs/rfc9260.txt#section-3.3.12
    //= type=test
    //# This chunk MUST precede any DATA or SACK chunk sent within the
    //# association but MAY be bundled with one or more DATA chunks or SACK
    //# chunk's in the same SCTP packet.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# A COOKIE ACK chunk MAY be bundled with any pending DATA chunks (and/or
    //# SACK chunks), but the COOKIE ACK chunk MUST be the first chunk in the
    //# packet.
    //= specs/rfc9260.txt#section-5.1.5
    //= type=test
    //# The COOKIE ACK chunk MAY be bundled with an outbound DATA chunk or
    //# SACK chunk; however, the COOKIE ACK chunk MUST be the first chunk in
    //# the SCTP packet.
    //= specs/rfc9260.txt#section-5.1.5
    //= type=test
    //# As mentioned in step 6, if the SACK chunk is bundled with the COOKIE
    //# ACK chunk, the COOKIE ACK chunk MUST appear first in the SCTP packet.
    let mut bench = Bench::new();
    let ack = bench.shake(init());
    let Chunk::Data(patient) = data(PEER_TSN) else { unreachable!("data is DATA") };
    let patient = Chunk::Data(Data { immediate: false, ..patient });
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack), patient]);
    assert!(answer.text().starts_with("COOKIE_ACK[flgs=0]; SACK[flgs=0, cum_tsn=1000,"), "{}", answer.text());
    let id = bench.id();
    let piece = bench.endpoint.association_mut(id).unwrap().recv(StreamId(0)).unwrap();
    assert_eq!(piece.payload.concat(), b"data");
}

#[test]
fn an_init_with_impossible_values_is_refused_or_ignored() {
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# If the value of the Initiate Tag in a received INIT chunk is found to
    //# be 0, the receiver MUST silently discard the packet.
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# A receiver of an INIT chunk with the a_rwnd value set to a value
    //# smaller than 1500 MUST discard the packet, SHOULD send a packet in
    //# response containing an ABORT chunk and using the Initiate Tag as the
    //# Verification Tag,
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# A receiver of an INIT chunk with the OS value set to 0 MUST discard
    //# the packet, SHOULD send a packet in response containing an ABORT chunk
    //# and using the Initiate Tag as the Verification Tag, and MUST NOT
    //# change the state of any existing association.
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# A receiver of an INIT chunk with the MIS value set to 0 MUST discard
    //# the packet, SHOULD send a packet in response containing an ABORT chunk
    //# and using the Initiate Tag as the Verification Tag, and MUST NOT
    //# change the state of any existing association.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# The Verification Tag field in the common header of the outbound SCTP
    //# packet containing the ABORT chunk MUST be set to the Initiate Tag
    //# value of the received INIT or INIT ACK chunk this ABORT chunk is
    //# responding to.
    let mut bench = Bench::new();
    assert!(
        bench
            .tell(VerificationTag(0), &[Chunk::Init(Init { initiate_tag: VerificationTag(0), ..init() })])
            .is_empty()
    );
    for bad in [
        Init { a_rwnd: 1_499, ..init() },
        Init { outbound_streams: 0, ..init() },
        Init { inbound_streams: 0, ..init() },
    ] {
        let answer = bench.ask(VerificationTag(0), &[Chunk::Init(bad)]);
        assert_eq!(answer.text(), "ABORT[flgs=0, INVALID_MANDATORY_PARAMETER[]]");
        assert_eq!(answer.header.tag, PEER_TAG);
    }
    bench.shake(Init { a_rwnd: 1_500, outbound_streams: 1, inbound_streams: 1, ..init() });
}

#[test]
fn a_host_name_is_refused() {
    //= specs/rfc9260.txt#section-3.3.2
    //= type=test
    //# The receiver of an INIT chunk containing a Host Name Address parameter
    //# MUST send an ABORT chunk and MAY include an "Unresolvable Address"
    //# error cause.
    //= specs/rfc9260.txt#section-3.3.2.1.4
    //= type=test
    //# The receiver of an INIT chunk or an INIT ACK containing a Host Name
    //# Address parameter MUST send an ABORT chunk and MAY include an
    //# "Unresolvable Address" error cause.
    //= specs/rfc9260.txt#section-5.1.2
    //= type=test
    //# If there is a Host Name Address parameter present in the received INIT
    //# or INIT ACK chunk, the endpoint MUST immediately send an ABORT chunk
    //# and MAY include an "Unresolvable Address" error cause to its peer.
    //= specs/rfc9260.txt#section-12.2.4.1
    //= type=test
    //# Endpoints receiving INIT or INIT ACK chunks containing the Host Name
    //# Address parameter MUST send an ABORT chunk in response and MAY include
    //# an "Unresolvable Address" error cause.
    let mut bench = Bench::new();
    let parameters = vec![Parameter::HostName(Bytes::from_static(b"ftp.example\0"))];
    let answer = bench.ask(VerificationTag(0), &[Chunk::Init(Init { parameters, ..init() })]);
    let expected = r#"ABORT[flgs=0, UNRESOLVABLE_ADDRESS[param=HOSTNAME_ADDRESS[addr="ftp.example\x00"]]]"#;
    assert_eq!(answer.text(), expected);
}

//= specs/rfc9260.txt#section-3.2.2
//= type=test
//# If the receiver of an INIT chunk detects unrecognized parameters and
//# has to report them according to Section 3.2.1, it MUST put the
//# "Unrecognized Parameter" parameter(s) in the INIT ACK chunk sent in
//# response to the INIT chunk.
#[test]
fn unknown_parameters_are_reported_in_the_init_ack() {
    //= specs/rfc9260.txt#section-3.3.3.1.2
    //= type=test
    //# This parameter is returned to the originator of the INIT chunk when
    //# the INIT chunk contains an unrecognized parameter that has a type that
    //# indicates it SHOULD be reported to the sender.
    let unknown =
        |kind: u16| Parameter::Unknown { kind, raw: [&kind.to_be_bytes()[..], &[0, 4]].concat().into() };
    let mut bench = Bench::new();
    let parameters = [0xc000, 0x8008, 0xc006].map(unknown).to_vec();
    let ack = bench.shake(Init { parameters, ..init() });
    let reports: Vec<_> = ack.parameters[..2].iter().map(ToString::to_string).collect();
    assert_eq!(
        reports,
        [
            "UNRECOGNIZED_PARAMETER[params=[FORWARD_TSN_SUPPORTED[]]]",
            "UNRECOGNIZED_PARAMETER[params=[PARAMETER[type=0xc006, len=4]]]"
        ]
    );
}

//= specs/rfc9260.txt#section-5.1.2
//= type=test
//# If an SCTP endpoint lists in the 'Supported Address
//# Types' parameter either IPv4 or IPv6 but uses the other family
//# for sending the packet containing the INIT chunk, or if it also
//# lists addresses of the other family in the INIT chunk, then the
//# address family that is not listed in the 'Supported Address
//# Types' parameter SHOULD also be considered as supported by the
//# receiver of the INIT chunk.
#[test]
fn addresses_of_a_family_that_the_peer_does_not_take_are_not_listed() {
    //= specs/rfc9260.txt#section-5.1.2
    //= type=test
    //# The receiver of the INIT chunk SHOULD NOT respond with any kind of
    //# error indication.
    //= specs/rfc9260.txt#section-3.3.2.1.5
    //= type=test
    //# The value indicating the Host Name Address parameter MUST NOT be used
    //# when sending this parameter and MUST be ignored when receiving this
    //# parameter.
    let own: [SocketAddr; 2] = ["127.0.0.1:9899".parse().unwrap(), "[::1]:9899".parse().unwrap()];
    let kind = |address: &SocketAddr| Parameter::Address(address.ip()).kind();
    let from = "127.0.0.9:5000".parse().unwrap();
    let also = Parameter::Address("::1".parse().unwrap());
    for (types, others, listed) in [
        (None, vec![], 2),
        (Some(own.iter().map(kind).collect()), vec![], 2),
        (Some(vec![Parameter::HOST_NAME, Parameter::IPV4_ADDRESS]), vec![], 0),
        // What it does not name, it uses or lists.
        (Some(vec![Parameter::IPV6_ADDRESS]), vec![], 2),
        (Some(vec![Parameter::IPV4_ADDRESS]), vec![also], 2),
    ] {
        let mut bench = Bench::new();
        bench.endpoint.set_addresses(own.to_vec(), Announce::Always);
        let mut parameters = others;
        parameters.extend(types.map(Parameter::SupportedAddressTypes));
        let init = Chunk::Init(Init { parameters, ..init() });
        let sent = bench.tell_raw(datagram(from, to_bench(VerificationTag(0)), &[init]));
        let [Chunk::InitAck(ack)] = &sent[0].chunks[..] else { panic!("{}", sent[0].text()) };
        assert_eq!(ack.addresses().count(), listed, "{}", sent[0].text());
    }
}

#[test]
fn the_reports_of_an_init_ack_are_bounded() {
    let mut bench = Bench::new();
    let raw: Bytes = [&[0xc0, 0, 0, 204][..], &[0; 200]].concat().into();
    let parameters = vec![Parameter::Unknown { kind: 0xc000, raw }; 100];
    let ack = bench.shake(Init { parameters, ..init() });
    assert_eq!(ack.parameters.len(), 1 + 5);
    assert!(Chunk::InitAck(ack).padded_len() + Header::LEN <= answers::MAX_ANSWER_LEN);
}

//= specs/rfc9260.txt#section-5.1.5
//= type=test
//# If this comparison fails, the SCTP packet,
//# including the COOKIE ECHO chunk and any DATA chunks, MUST be
//# silently discarded.
#[test]
fn a_forged_cookie_is_silently_discarded_with_its_packet() {
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# If the State Cookie in the received COOKIE ECHO chunk is invalid
    //# (i.e., failed to pass the integrity check), the receiver MUST silently
    //# discard the packet.
    let mut bench = Bench::new();
    let ack = bench.shake(init());
    let cookie = ack.state_cookie().unwrap();
    for at in 0..cookie.len() {
        let mut forged = cookie.to_vec();
        forged[at] ^= 1;
        assert!(bench.tell(ack.initiate_tag, &[Chunk::CookieEcho(forged.into()), data(PEER_TSN)]).is_empty());
    }
    for forged in [Bytes::new(), vec![0; 4].into(), vec![0xff; 60_000].into()] {
        assert!(bench.tell(ack.initiate_tag, &[Chunk::CookieEcho(forged)]).is_empty());
    }
    assert!(bench.endpoint.is_empty() && bench.events.is_empty());
    assert_eq!(bench.endpoint.counters().forged_cookies, cookie.len() as u64 + 3);
}

#[test]
fn a_cookie_is_of_no_use_to_others() {
    let mut bench = Bench::new();
    let ack = bench.shake(init());
    let good = datagram(peer(), to_bench(ack.initiate_tag), &[echo(&ack)]);
    assert!(bench.tell_raw(Datagram { from: stranger(), ..good.clone() }).is_empty());
    let wrong_port = Header { source_port: PEER_PORT + 1, ..to_bench(ack.initiate_tag) };
    assert!(bench.tell_raw(datagram(peer(), wrong_port, &[echo(&ack)])).is_empty());
    let wrong_tag = to_bench(VerificationTag(ack.initiate_tag.0 ^ 1));
    assert!(bench.tell_raw(datagram(peer(), wrong_tag, &[echo(&ack)])).is_empty());
    assert!(bench.endpoint.is_empty());
    assert_eq!(bench.tell_raw(good).len(), 1, "but to its owner");
}

//= specs/rfc9260.txt#section-5.1.5
//= type=test
//# If the elapsed time is longer than the lifespan
//# carried in the State Cookie, then the packet, including the
//# COOKIE ECHO chunk and any attached DATA chunks, SHOULD be
//# discarded, and the endpoint MUST transmit an ERROR chunk with a
//# "Stale Cookie" error cause to the peer endpoint.
#[test]
fn a_stale_cookie_is_answered_with_its_staleness_and_its_data_dropped() {
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# Or, if the received State Cookie is expired (see Section 5.1.5), the
    //# receiver MUST send back an ERROR chunk.
    let mut bench = Bench::new();
    let ack = bench.shake(init());
    bench.pass(Duration::from_secs(62));
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack), data(PEER_TSN)]);
    assert_eq!(answer.text(), "ERROR[flgs=0, STALE_COOKIE_ERROR[staleness=2000000]]");
    assert_eq!(answer.header.tag, PEER_TAG);
    assert!(bench.endpoint.is_empty());
    bench.pass(2 * KEY_LIFE);
    assert!(bench.tell(ack.initiate_tag, &[echo(&ack)]).is_empty(), "its key is gone");
}

#[test]
fn a_stale_cookie_of_a_peer_that_restarted_changes_nothing() {
    //= specs/rfc9260.txt#section-5.2.4
    //= type=test
    //# the packet, including the COOKIE ECHO chunk and any DATA chunks,
    //# SHOULD be discarded.
    //= specs/rfc9260.txt#section-5.2.4
    //= type=test
    //# The endpoint also MUST transmit an ERROR chunk with a "Stale Cookie"
    //# error cause to the peer endpoint (this is case C or D in Section 5.2).
    let mut bench = Bench::new();
    let old = bench.establish();
    let ack = bench.shake(Init { initiate_tag: VerificationTag(0x9999), ..init() });
    bench.pass(Duration::from_secs(61));
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack), data(PEER_TSN)]);
    assert_eq!(answer.text(), "ERROR[flgs=0, STALE_COOKIE_ERROR[staleness=1000000]]");
    assert_eq!(answer.header.tag, VerificationTag(0x9999));
    assert!(!bench.tell(old.initiate_tag, &[data(PEER_TSN)]).is_empty(), "the association is what it was");
}

#[test]
fn a_cookie_too_large_for_a_heartbeat_beside_it_goes_where_the_init_ack_came_from() {
    //= specs/rfc9260.txt#section-5.4
    //= type=test
    //# If the implementation does not support bundling or if the bundled
    //# COOKIE ECHO chunk plus HEARTBEAT chunk (including nonce) would result
    //# in an SCTP packet larger than the PMTU, then the implementation MUST
    //# NOT send a COOKIE ECHO chunk to an UNCONFIRMED address.
    let peers: [SocketAddr; 2] = ["127.0.0.2:5000".parse().unwrap(), "127.0.0.3:5000".parse().unwrap()];
    for (len, other_too) in [(1_300, true), (1_400, false)] {
        let mut bench = Bench::new();
        let connect = Connect {
            local: vec![local()],
            peer: peers.to_vec(),
            source_port: Some(LOCAL_PORT),
            destination_port: PEER_PORT,
            config: Arc::new(config()),
        };
        bench.endpoint.connect(bench.now, connect).unwrap();
        let Chunk::Init(own) = bench.drain().remove(0).chunks.remove(0) else { panic!("INIT comes first") };
        let parameters = vec![Parameter::StateCookie(vec![1; len].into()), Parameter::Address(peers[1].ip())];
        let init_ack = Chunk::InitAck(Init { parameters, ..init() });
        let sent = bench.tell_raw(datagram(peers[0], to_bench(own.initiate_tag), &[init_ack]));
        assert_eq!(sent[0].to, peers[0]);
        bench.pass(Duration::from_secs(1));
        let again = bench.drain().remove(0);
        assert_eq!(again.to == peers[1], other_too, "{len}");
        assert_eq!(matches!(again.chunks[..], [_, Chunk::Heartbeat(_)]), other_too);
    }
}

#[test]
fn a_cookie_lives_longer_on_request_but_not_much() {
    for (wanted, lives) in [(0, 60), (5_000, 65), (u32::MAX, 70)] {
        let mut bench = Bench::new();
        let parameters = vec![Parameter::CookiePreservative(wanted)];
        let ack = bench.shake(Init { parameters, ..init() });
        bench.pass(Duration::from_secs(lives) + Duration::from_nanos(1));
        assert!(bench.ask(ack.initiate_tag, &[echo(&ack)]).text().contains("STALE_COOKIE"));
        bench.now = Time::from_millis(lives * 1_000);
        assert_eq!(bench.ask(ack.initiate_tag, &[echo(&ack)]).text(), "COOKIE_ACK[flgs=0]");
    }
}

#[test]
fn a_replayed_cookie_is_acknowledged_again_and_changes_nothing() {
    //= specs/rfc9260.txt#section-5.3.1
    //= type=test
    //# Moreover, the Verification Tag value used by either endpoint in a
    //# given association MUST NOT change during the life time of an
    //# association.
    let mut bench = Bench::new();
    let ack = bench.establish();
    bench.tell(ack.initiate_tag, &[data(PEER_TSN)]);
    let events = bench.events.len();
    // Case D, within the cookie's life and, since the tags match, after it.
    for _ in 0..2 {
        assert!(bench.ask(ack.initiate_tag, &[echo(&ack)]).text().starts_with("COOKIE_ACK[flgs=0]"));
        bench.pass(Duration::from_secs(100));
    }
    assert_eq!(bench.endpoint.len(), 1);
    assert_eq!(bench.events.len(), events, "{:?}", bench.events);
    let id = bench.id();
    assert!(bench.endpoint.association_mut(id).unwrap().recv(StreamId(0)).is_some(), "nothing was reset");
}

#[test]
fn a_cookie_makes_no_second_association_after_the_first() {
    let mut bench = Bench::new();
    let ack = bench.establish();
    bench.tell(ack.initiate_tag, &[Chunk::Abort { reflected: false, causes: Vec::new() }]);
    assert!(
        bench.tell(ack.initiate_tag, &[echo(&ack), data(PEER_TSN)]).is_empty(),
        "replayed while it lives"
    );
    let id = bench.id();
    bench.endpoint.remove(id);
    assert!(bench.drain().is_empty());
    assert!(bench.endpoint.is_empty());
    assert!(bench.tell(ack.initiate_tag, &[echo(&ack), data(PEER_TSN)]).is_empty(), "and once it is gone");
    assert_eq!(bench.endpoint.counters().forged_cookies, 2);
    bench.pass(Duration::from_secs(61));
    assert!(bench.ask(ack.initiate_tag, &[echo(&ack)]).text().contains("STALE_COOKIE"));
    assert!(bench.endpoint.is_empty());
}

#[test]
fn two_cookies_of_one_peer_make_one_association() {
    //= specs/rfc9260.txt#section-1.3
    //= type=test
    //# Two SCTP endpoints MUST NOT have more than one SCTP association
    //# between them at any given time.
    let mut bench = Bench::new();
    let first = bench.shake(init());
    let second = bench.shake(init());
    assert!(bench.ask(first.initiate_tag, &[echo(&first)]).text().contains("COOKIE_ACK"));
    // X M 0 0: case C.
    assert!(bench.tell(second.initiate_tag, &[echo(&second), data(PEER_TSN)]).is_empty());
    assert_eq!(bench.endpoint.len(), 1);
}

#[test]
fn a_restarted_peer_is_accepted() {
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# Other parameters for the endpoint SHOULD be copied from the existing
    //# parameters of the association (e.g., number of outbound streams) into
    //# the INIT ACK chunk and cookie.
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# Unless otherwise stated, upon receipt of an unexpected INIT chunk for
    //# this association, the endpoint MUST generate an INIT ACK chunk with a
    //# State Cookie.
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# If no new addresses are added, when responding to the INIT chunk in
    //# the outbound INIT ACK chunk, the endpoint MUST copy its current
    //# Tie-Tags to a reserved place within the State Cookie and the
    //# association's TCB.
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# The outbound SCTP packet containing this INIT ACK chunk MUST carry a
    //# Verification Tag value equal to the Initiate Tag found in the
    //# unexpected INIT chunk.
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# And the INIT ACK chunk MUST contain a new Initiate Tag (randomly
    //# generated; see Section 5.3.1).
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# After sending the INIT ACK or ABORT chunk, the endpoint MUST take no
    //# further actions, i.e., the existing association, including its current
    //# state, and the corresponding TCB MUST NOT be changed.
    let mut bench = Bench::new();
    let old = bench.establish();
    let reborn = Init { initiate_tag: VerificationTag(0x9999), initial_tsn: Tsn(5), ..init() };
    let ack = bench.shake(reborn);
    assert_ne!(ack.initiate_tag, old.initiate_tag, "a new tag (§5.2.2)");
    let same = |init: &Init| (init.outbound_streams, init.inbound_streams, init.a_rwnd);
    assert_eq!(same(&ack), same(&old));
    assert!(bench.tie_tags(&ack).is_some());
    assert_eq!(bench.tie_tags(&ack), bench.own_tie_tags());
    assert!(
        !bench.tell(old.initiate_tag, &[data(PEER_TSN)]).is_empty(),
        "the old association lives on until then"
    );
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack), data(Tsn(5))]);
    assert!(answer.text().starts_with("COOKIE_ACK[flgs=0]; SACK[flgs=0, cum_tsn=5,"), "{}", answer.text());
    assert_eq!(answer.header.tag, VerificationTag(0x9999));
    assert_eq!(bench.endpoint.len(), 1, "the same association");
    assert!(bench.tell(old.initiate_tag, &[data(PEER_TSN.next())]).is_empty(), "the old tag leads nowhere");
    assert!(bench.tell(old.initiate_tag, &[echo(&old)]).is_empty(), "nor does the old cookie");
    assert!(!bench.tell(ack.initiate_tag, &[data(Tsn(6))]).is_empty());
    bench.tell(ack.initiate_tag, &[Chunk::Abort { reflected: false, causes: Vec::new() }]);
    for over in [old, ack] {
        assert!(bench.tell(over.initiate_tag, &[echo(&over)]).is_empty(), "both cookies had their time");
    }
    assert_eq!(bench.endpoint.counters().forged_cookies, 2);
}

//= specs/rfc9260.txt#section-5.2.2
//= type=test
//# If
//# new addresses are added to the association, the endpoint MUST respond
//# with an ABORT chunk, copying the 'Initiate Tag' of the unexpected
//# INIT chunk into the 'Verification Tag' of the outbound packet
//# carrying the ABORT chunk.
#[test]
fn a_restart_with_new_addresses_is_rejected() {
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# The error SHOULD list the addresses that were added to the restarting
    //# association.
    //= specs/rfc9260.txt#section-5.2.2
    //= type=test
    //# Before responding, the endpoint MUST check to see if the unexpected
    //# INIT chunk adds new addresses to the association.
    let mut bench = Bench::new();
    let old = bench.establish();
    let parameters = vec![Parameter::Address(stranger().ip())];
    let thief = Init { initiate_tag: VerificationTag(0x9999), parameters, ..init() };
    let answer = bench.ask(VerificationTag(0), &[Chunk::Init(thief)]);
    assert_eq!(answer.text(), "ABORT[flgs=0, RESTART_WITH_NEW_ADDRESSES[IPV4_ADDRESS[addr=192.0.2.99]]]");
    assert_eq!(answer.header.tag, VerificationTag(0x9999));
    assert!(!bench.tell(old.initiate_tag, &[data(PEER_TSN)]).is_empty(), "nothing changed");
}

#[test]
fn a_restart_may_list_an_unreachable_address_again() {
    let mut bench = Bench::new();
    let parameters =
        vec![Parameter::Address(peer().ip()), Parameter::Address("2001:db8::1".parse().unwrap())];
    let ack = bench.shake(Init { parameters: parameters.clone(), ..init() });
    bench.ask(ack.initiate_tag, &[echo(&ack)]);
    let reborn = Init { initiate_tag: VerificationTag(0x9999), parameters, ..init() };
    let again = bench.shake(reborn);
    let answer = bench.ask(again.initiate_tag, &[echo(&again)]);
    assert!(answer.text().starts_with("COOKIE_ACK"), "{}", answer.text());
}

//= specs/rfc9260.txt#section-5.1.2
//= type=test
//# D)  An INIT or INIT ACK chunk MUST be treated as belonging to an
//# already established association (or one in the process of being
//# established) if the use of any of the valid address parameters
//# contained within the chunk would identify an existing TCB.
#[test]
fn an_init_that_lists_an_associations_address_belongs_to_it() {
    let mut bench = Bench::new();
    bench.establish();
    let parameters = vec![Parameter::Address(peer().ip())];
    let thief = Init { initiate_tag: VerificationTag(0x9999), parameters, ..init() };
    let header = to_bench(VerificationTag(0));
    let sent = bench.tell_raw(datagram(stranger(), header, &[Chunk::Init(thief)]));
    assert_eq!(sent[0].text(), "ABORT[flgs=0, RESTART_WITH_NEW_ADDRESSES[IPV4_ADDRESS[addr=192.0.2.99]]]");
    assert_eq!(sent[0].to, stranger());
}

#[test]
fn a_cookie_with_outdated_tie_tags_is_discarded() {
    let mut bench = Bench::new();
    bench.establish();
    let reborn = Init { initiate_tag: VerificationTag(0x9999), ..init() };
    let first = bench.shake(reborn.clone());
    let second = bench.shake(Init { initiate_tag: VerificationTag(0x8888), ..reborn });
    assert!(bench.ask(first.initiate_tag, &[echo(&first)]).text().contains("COOKIE_ACK"));
    // The restart changed the tie tags: X X X X.
    assert!(bench.tell(second.initiate_tag, &[echo(&second)]).is_empty());
}

//= specs/rfc9260.txt#section-5.2.4
//= type=test
//# If the endpoint is in the SHUTDOWN-ACK-SENT state and recognizes
//# that the peer has restarted (Action A), it MUST NOT set up a new
//# association but instead resend the SHUTDOWN ACK chunk and send an
//# ERROR chunk with a "Cookie Received While Shutting Down" error
//# cause to its peer.
#[test]
fn a_restart_during_a_shutdown_gets_cookie_received_while_shutting_down() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# if the SHUTDOWN COMPLETE chunk was lost) with source and destination
    //# transport addresses (either in the IP addresses or in the INIT chunk)
    //# that belong to this association, it SHOULD discard the INIT chunk and
    //# retransmit the SHUTDOWN ACK chunk.
    let mut bench = Bench::new();
    let old = bench.establish();
    let reborn = Init { initiate_tag: VerificationTag(0x9999), ..init() };
    let ack = bench.shake(reborn.clone());
    let last = Tsn(old.initial_tsn.0.wrapping_sub(1));
    let answer = bench.ask(old.initiate_tag, &[Chunk::Shutdown { cum_tsn_ack: last }]);
    assert_eq!(answer.text(), "SHUTDOWN_ACK[flgs=0]");
    // An INIT now gets the SHUTDOWN ACK again (§9.2).
    let answer = bench.ask(VerificationTag(0), &[Chunk::Init(reborn)]);
    assert_eq!((answer.text().as_str(), answer.header.tag), ("SHUTDOWN_ACK[flgs=0]", PEER_TAG));
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack)]);
    assert_eq!(answer.text(), "SHUTDOWN_ACK[flgs=0]; ERROR[flgs=0, COOKIE_RECEIVED_WHILE_SHUTDOWN[]]");
    assert_eq!(answer.header.tag, PEER_TAG);
    // The peer, which knows no such association, completes it out of the blue (§8.5.1 E), and may connect again.
    assert!(bench.tell(PEER_TAG, &[Chunk::ShutdownComplete { reflected: true }]).is_empty());
    assert_eq!(bench.endpoint.association(bench.id()).unwrap().phase(), Phase::Closed);
    assert!(bench.ask(ack.initiate_tag, &[echo(&ack)]).text().contains("COOKIE_ACK"));
}

#[test]
fn a_port_that_stopped_listening_rejects_its_cookies() {
    let mut bench = Bench::new();
    let ack = bench.shake(init());
    bench.endpoint.unlisten(LOCAL_PORT);
    let answer = bench.ask(ack.initiate_tag, &[echo(&ack)]);
    assert_eq!((answer.text().as_str(), answer.header.tag), ("ABORT[flgs=0]", PEER_TAG));
}
