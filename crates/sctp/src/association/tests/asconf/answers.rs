//! ASCONF requests of a peer, forged and unusual ones included, and their results.

use super::*;

//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# If this chunk is received unauthenticated it
//# MUST be silently discarded as described in [RFC4895].
//= specs/rfc5061.txt#section-5.2
//= type=test
//# If either authentication fails, or the AUTH chunk is missing,
//# the receiver MUST silently discard this chunk and the rest of
//# the packet.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# Prior to finding the ASCONF chunk, the receiver MUST encounter an
//# AUTH chunk as described in [RFC4895].
#[test]
fn an_unauthenticated_asconf_has_no_effect() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"1"));
    let auth = Chunk::Auth(Auth { key_id: 0, hmac_id: 3, hmac: vec![0; 32].into() });
    for (from, before) in
        [(at("10.1.1.2"), vec![]), (at("10.1.1.2"), vec![auth.clone()]), (at("10.1.2.2"), vec![auth])]
    {
        let packet = [&before[..], &[add.clone(), heartbeat.clone()]].concat();
        tell(&mut pair, from, PacketBuilder::new(), &packet);
        assert!(pair.log.is_empty() && pair.association(Server).paths().count() == 1, "{from}");
    }
    tell_signed(&mut pair, at("10.1.1.2"), &[add]);
    assert_eq!(answers(&mut pair).len(), 1);
    assert_eq!(pair.association(Server).paths().count(), 2);
}

//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# As defined in [RFC4960], Section 3.2, when setting these upper bits
//# in this manner the receiver that does not understand this chunk MUST
//# skip the chunk and continue processing, and report in an Operation
//# Error Chunk using the 'Unrecognized Chunk Type' cause of error.
#[test]
fn an_asconf_that_was_not_negotiated_is_reported_as_unknown() {
    let mut pair = pair_of(modern(), modern());
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    tell(&mut pair, at("10.1.1.2"), PacketBuilder::new(), std::slice::from_ref(&add));
    let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
    assert_eq!(said, [Chunk::Error(vec![Cause::UnrecognizedChunkType(add.quoted())])]);
    pair.clear_log();
    tell(
        &mut pair,
        at("10.1.1.2"),
        PacketBuilder::new(),
        &[Chunk::AsconfAck(AsconfAck { serial, responses: vec![] })],
    );
    assert!(pair.log.is_empty(), "the high bits of ASCONF-ACK are 10");
    tell(&mut pair, at("10.1.2.2"), PacketBuilder::new(), &[add]);
    assert!(pair.log.is_empty(), "from a stranger it is nothing");
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F7)  If a request is received to delete the last remaining IP address
//# of a peer endpoint, the receiver MUST send an Error Cause TLV
//# with the Error Cause set to the new error code 'Request to
//# Delete Last Remaining IP Address'.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F8)  If a request is received to delete an IP address that is also
//# the source address of the IP packet that contained the ASCONF
//# chunk, the receiver MUST reject this request.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# To reject the request, the receiver MUST send an Error Cause TLV set
//# to the new error code 'Request to Delete Source IP Address' (unless
//# Rule F5 has also been violated, in which case the error code
//# 'Request to Delete Last Remaining IP Address' is sent).
//= specs/rfc5061.txt#section-5.3
//= type=test
//# The requested delete MUST NOT be performed or acted upon, other than
//# to send the ASCONF- ACK.
#[test]
fn the_last_address_and_the_source_are_not_deleted() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let delete = |serial, ip: &str| asking(serial, "10.1.1.2", vec![Change::Delete(self::ip(ip))]);
    let quoted = |chunk: &Chunk| match chunk {
        Chunk::Asconf(asconf) => asconf.requests[0].quoted(),
        other => panic!("{other}"),
    };
    let last = delete(serial, "10.1.1.2");
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&last));
    assert_eq!(refusal(&mut pair), Cause::DeleteLastAddress(quoted(&last)));
    let add = asking(serial.plus(1), "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    tell_signed(&mut pair, at("10.1.1.2"), &[add]);
    answers(&mut pair);
    let source = delete(serial.plus(2), "10.1.1.2");
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&source));
    assert_eq!(refusal(&mut pair), Cause::DeleteSourceAddress(quoted(&source)));
    assert_eq!(pair.association(Server).paths().count(), 2);
    // An address that does not exist counts as deleted.
    tell_signed(&mut pair, at("10.1.1.2"), &[delete(serial.plus(3), "10.9.9.9")]);
    assert_eq!(answers(&mut pair)[0].1.responses, []);
    tell_signed(&mut pair, at("10.1.2.2"), &[delete(serial.plus(4), "10.1.1.2")]);
    assert_eq!(
        answers(&mut pair),
        [(at("10.1.2.2"), AsconfAck { serial: serial.plus(4), responses: vec![] })]
    );
    assert_eq!(ways(&mut pair, Server), [way("10.1.1.1", "10.1.2.2", PathState::Unconfirmed)]);
}

//= specs/rfc5061.txt#section-4.2.1
//= type=test
//# If the address 0.0.0.0 or
//# ::0 is provided, the source address of the packet MUST be added.
//= specs/rfc5061.txt#section-4.2.2
//= type=test
//# If the address 0.0.0.0
//# or ::0 is provided, all addresses of the peer except the source
//# address of the packet MUST be deleted.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# For example, if the sender puts 3 TLVs in one chunk, the first TLV
//# (the one closest to the Chunk Header) in the Chunk MUST be processed
//# first.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# The next TLV in the chunk (the middle one) MUST be processed second
//# and finally, the last TLV in the Chunk MUST be processed last.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# The TLVs MUST be processed in order within the Chunk.
#[test]
fn behind_a_nat_the_source_is_added_and_all_else_deleted() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let from: SocketAddr = "203.0.113.7:40007".parse().unwrap();
    let any = Change::Add(ip("0.0.0.0"));
    let all =
        asking(serial, "0.0.0.0", vec![any, Change::SetPrimary(ip("::")), Change::Delete(ip("0.0.0.0"))]);
    tell_signed(&mut pair, from, &[all]);
    assert_eq!(answers(&mut pair), [(from, AsconfAck { serial, responses: vec![] })]);
    let paths: Vec<_> = pair.association(Server).paths().map(|path| path.peer).collect();
    assert_eq!(paths, [from], "with the port that the NAT gave");
    // A host cannot delete others' addresses from an address that it does not have.
    let stranger = at("10.7.7.7");
    tell_signed(&mut pair, stranger, &[asking(serial.plus(1), "0.0.0.0", vec![Change::Delete(ip("::"))])]);
    assert!(matches!(refusal(&mut pair), Cause::DeleteLastAddress(_)));
}

//= specs/rfc5061.txt#section-4.2.1
//= type=test
//# Note that the receiver MUST NOT change this 32-bit value.
//= specs/rfc5061.txt#section-4.2.2
//= type=test
//# Note that the receiver MUST NOT change this 32-bit value.
//= specs/rfc5061.txt#section-4.2.4
//= type=test
//# Note that the receiver MUST NOT change this 32-bit value.
//= specs/rfc5061.txt#section-4.2.1
//= type=test
//# This parameter MUST NOT contain a broadcast or multicast address.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F11) When an endpoint receives an ASCONF to add an IP address sends
//# an 'Out of Resource' in its response, it MUST also fail any
//# subsequent add or delete requests bundled in the ASCONF.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# V3)  All responses MUST copy the ASCONF-Request Correlation ID field
//# received in the ASCONF parameter from the TLV being responded to,
//# into the ASCONF-Request Correlation ID field in the response
//# parameter.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F9)  If an endpoint receives an ADD IP Address request and does not
//# have the local resources to add this new address to the association,
//# it MUST return an Error Cause TLV set to the new error code
//# 'Operation Refused Due to Resource Shortage'.
#[test]
fn invalid_addresses_are_not_added_and_valid_ones_up_to_a_limit() {
    let mut pair = pair();
    let mut serial = next_serial(&mut pair);
    let mut ask = |pair: &mut Pair, changes: Vec<Change>| {
        let from = at("10.1.1.2");
        tell_signed(pair, from, &[asking(serial, "10.1.1.2", changes)]);
        serial = serial.next();
    };
    for odd in ["255.255.255.255", "224.0.0.1", "127.0.0.1", "169.254.1.1", "ff02::1"] {
        ask(&mut pair, vec![Change::Add(ip(odd))]);
        assert!(matches!(refusal(&mut pair), Cause::NoAuthorization(_)), "{odd}");
    }
    ask(&mut pair, vec![Change::Add(ip("2001:db8::1"))]);
    assert!(matches!(refusal(&mut pair), Cause::ResourceShortage(_)), "there is nothing to reach it from");
    ask(&mut pair, vec![Change::Other { kind: Change::ADD, value: Bytes::from_static(&[0, 5, 0, 8, 1, 2]) }]);
    assert_eq!(refusal(&mut pair), Cause::InvalidMandatoryParameter);
    for host in 1..=15 {
        ask(&mut pair, vec![Change::Add(ip(&format!("10.2.0.{host}")))]);
        assert_eq!(answers(&mut pair)[0].1.responses, []);
    }
    //= specs/rfc5061.txt#section-5.3
    //= type=test
    //# The
    //# receiver MUST NOT reject an ADD and then accept a subsequent
    //# DELETE of an IP address in the same ASCONF Chunk.
    ask(
        &mut pair,
        vec![
            Change::Add(ip("10.2.0.16")),
            Change::Delete(ip("10.2.0.1")),
            Change::SetPrimary(ip("10.1.1.2")),
        ],
    );
    let said = answers(&mut pair).remove(0).1.responses;
    assert!(
        matches!(&said[..], [
            Response { correlation: 100, outcome: Outcome::Error(add) },
            Response { correlation: 101, outcome: Outcome::Error(delete) },
            Response { correlation: 102, outcome: Outcome::Success },
        ] if matches!((&add[0], &delete[0]), (Cause::ResourceShortage(_), Cause::ResourceShortage(_)))),
        "{said:?}"
    );
    assert_eq!(pair.association(Server).paths().count(), 16);
}

//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# This chunk is used to communicate to the remote endpoint one of the
//# configuration change requests that MUST be acknowledged.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# The destination address of the SCTP packet containing the ASCONF-ACK
//# Chunks MUST be the source address of the SCTP packet that held the
//# ASCONF Chunks.
//= specs/rfc5061.txt#section-5.3.2
//= type=test
//# The receiver of such a chunk MUST always first use the source
//# address found in the IP header in looking up the association.
#[test]
fn a_repeated_asconf_gets_the_same_response_and_an_unexpected_serial_none() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&add));
    let first = answers(&mut pair);
    let delete = asking(serial.plus(1), "10.1.1.2", vec![Change::Delete(ip("10.1.2.2"))]);
    for again in 0..3 {
        // Also from another address: the answer goes to the source of the request.
        let from = if again == 2 { at("10.1.2.2") } else { at("10.1.1.2") };
        tell_signed(&mut pair, from, std::slice::from_ref(&add));
        assert_eq!(answers(&mut pair), [(from, first[0].1.clone())]);
    }
    assert_eq!(pair.association(Server).paths().count(), 2);
    for odd in [serial.minus(1), serial.plus(2), serial.plus(1 << 31)] {
        tell_signed(
            &mut pair,
            at("10.1.1.2"),
            &[asking(odd, "10.1.1.2", vec![Change::Delete(ip("10.1.2.2"))])],
        );
        assert!(answers(&mut pair).is_empty(), "{odd}");
    }
    // Several requests in one packet, the first of them a retransmission.
    tell_signed(&mut pair, at("10.1.1.2"), &[add.clone(), delete]);
    let both = answers(&mut pair);
    assert_eq!(both.iter().map(|(_, ack)| ack.serial).collect::<Vec<_>>(), [serial, serial.plus(1)]);
    assert_eq!(pair.association(Server).paths().count(), 1);
    assert_eq!(
        peer_events(&pair, Server).iter().filter(|(_, change)| *change == AddressChange::Added).count(),
        1
    );
}

//= specs/rfc5061.txt#section-5.2
//= type=test
//# V2)  In processing the chunk, the receiver should build a
//# response message with the appropriate error TLVs, as
//# specified in the Parameter type bits, for any ASCONF
//# Parameter it does not understand.
//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# C5) An ASCONF Chunk and an ASCONF-ACK Chunk SHOULD not be larger
//# than the PMTU.
#[test]
fn unknown_requests_are_skipped_and_reported_by_their_high_bits() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let other = |kind| Change::Other { kind, value: Bytes::from_static(b"what") };
    let add = Change::Add(ip("10.1.2.2"));
    tell_signed(
        &mut pair,
        at("10.1.1.2"),
        &[asking(serial, "10.1.1.2", vec![other(0x8123), other(0xc123), add.clone()])],
    );
    let said = answers(&mut pair).remove(0).1.responses;
    assert!(
        matches!(&said[..], [
        Response { correlation: 101, outcome: Outcome::Error(causes) },
        Response { correlation: 102, outcome: Outcome::Success },
    ] if matches!(&causes[0], Cause::UnrecognizedParameters(_))),
        "{said:?}"
    );
    let delete = Change::Delete(ip("10.1.2.2"));
    tell_signed(
        &mut pair,
        at("10.1.1.2"),
        &[asking(serial.plus(1), "10.1.1.2", vec![other(0x0123), delete.clone()])],
    );
    assert!(answers(&mut pair)[0].1.responses.is_empty(), "00: it ends there");
    assert_eq!(pair.association(Server).paths().count(), 2);
    let many = vec![other(0xc123); 80];
    tell_signed(&mut pair, at("10.1.1.2"), &[asking(serial.plus(2), "10.1.1.2", many)]);
    let said = answers(&mut pair);
    assert_eq!(said[0].1.responses.len(), 80, "the quotations end, the answers do not");
    assert!((900..=1_108).contains(&said[0].1.encoded_len()), "{}", said[0].1.encoded_len());
    // As many as fit in a packet: the answer is no longer than the request.
    let many = vec![Change::Other { kind: 0xc123, value: Bytes::new() }; 165];
    tell_signed(&mut pair, at("10.1.1.2"), &[asking(serial.plus(3), "10.1.1.2", many)]);
    let said = answers(&mut pair);
    assert_eq!((said[0].1.responses.len(), said[0].1.encoded_len()), (165, 8 + 165 * 8));
}

//= specs/rfc4895.txt#section-6.3
//= type=test
//# If the receiver does not find an STCB for a packet containing an
//# AUTH chunk as the first chunk and does not find a COOKIE-ECHO chunk
//# as the second chunk, it MUST use the chunks after the AUTH chunk to
//# look up an existing association.
//= specs/rfc4895.txt#section-6.3
//= type=test
//# If no association is found, the packet MUST be considered as out of
//# the blue.
//= specs/rfc4895.txt#section-6.3
//= type=test
//# The out of the blue handling MUST be based on the packet without
//# taking the AUTH chunk into account.
#[test]
fn an_out_of_the_blue_asconf_with_a_wrong_tag_ends_nothing() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let counters = pair.server.counters();
    let last = pair.last_header.unwrap();
    pair.last_header = Some(Header { tag: crate::ids::VerificationTag(last.tag.0 ^ 1), ..last });
    // Its address parameter names that association, and the tag is wrong: no answer.
    tell_signed(&mut pair, at("10.1.2.2"), &[asking(serial, "10.1.1.2", vec![])]);
    assert!(pair.log.is_empty());
    assert_eq!(pair.server.counters().discarded, counters.discarded + 1);
    // It names no association: an ABORT that reflects its tag.
    tell_signed(&mut pair, at("10.1.2.2"), &[asking(serial, "10.9.9.9", vec![])]);
    assert!(matches!(&pair.packets(Server)[0][..], [Chunk::Abort { reflected: true, .. }]));
    assert_eq!(pair.association(Server).phase(), Phase::Established);
}

//= specs/rfc5061.txt#section-4.2
//= type=test
//# If the receiver chooses NOT to abort, the parameter MUST be ignored.
//= specs/rfc5061.txt#section-4.2
//= type=test
//# A robust implementation SHOULD ignore the parameter and leave the
//# association intact.
//= specs/rfc5061.txt#section-4.2.6
//= type=test
//# This parameter MUST NOT be sent in any other chunks, and if it is
//# received in another chunk, it MUST be ignored.
#[test]
fn unexpected_asconf_parameters_are_skipped() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    // Error Cause Indication, Success Indication, Adaptation Layer Indication.
    let odd = [0xc003, 0xc005, 0xc006].map(|kind| Change::Other { kind, value: Bytes::new() });
    let changes = odd.into_iter().chain([Change::Add(ip("10.1.2.2"))]).collect();
    tell_signed(&mut pair, at("10.1.1.2"), &[asking(serial, "10.1.1.2", changes)]);
    assert_eq!(answers(&mut pair).len(), 1);
    assert!(pair.association(Server).is_up());
    assert_eq!(peer_events(&pair, Server), [("10.1.2.2".to_owned(), AddressChange::Added)]);
}

//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# Note: The host name address MUST NOT be sent and MUST be ignored if
//# received in any ASCONF message.
#[test]
fn an_asconf_with_a_host_name_does_not_identify_its_sender() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let named = Chunk::Asconf(Asconf { serial, address: None, requests: vec![] });
    tell_signed(&mut pair, at("10.1.2.2"), std::slice::from_ref(&named));
    assert!(answers(&mut pair).is_empty(), "nobody knows that address");
    tell_signed(&mut pair, at("10.1.1.2"), &[named]);
    assert_eq!(answers(&mut pair).len(), 1);
}

//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# If bundled with other ASCONF-ACK Chunks, the chunks MUST appear in
//# sequential order with respect to their Sequence Number.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# V4) After processing the entire Chunk, the receiver of the ASCONF
//# MUST queue the response ASCONF-ACK Chunk for transmission after the
//# rest of the SCTP packet has been processed.
//= specs/rfc5061.txt#section-5.2
//= type=test
//# E7)  While processing the ASCONF Chunks in the SCTP packet, if the
//# response packet will exceed the PMTU of the return path, the
//# receiver MUST stop adding additional ASCONF-ACKs into the response
//# packet but MUST continue to process all of the ASCONF Chunks, saving
//# ASCONF-ACK Chunk responses in its cached copy.
#[test]
fn heartbeat_acks_that_do_not_fit_one_packet_are_kept() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let odd = || vec![Change::Other { kind: 0xc123, value: Bytes::from_static(b"what") }; 40];
    let first = asking(serial, "10.1.1.2", odd());
    let second = asking(serial.plus(1), "10.1.1.2", [odd(), vec![Change::Add(ip("10.1.2.2"))]].concat());
    tell_signed(&mut pair, at("10.1.1.2"), &[first, second.clone()]);
    let said = answers(&mut pair);
    assert_eq!(said.iter().map(|(_, ack)| ack.serial).collect::<Vec<_>>(), [serial]);
    assert_eq!(pair.association(Server).paths().count(), 2, "it was done all the same");
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&second));
    let said = answers(&mut pair);
    assert_eq!((said.len(), said[0].1.serial, said[0].1.responses.len()), (1, serial.plus(1), 41));
    // The requests arrive in the wrong order; the events are in the right one, after the rest of the packet was processed.
    let small = |serial| asking(serial, "10.1.1.2", vec![]);
    tell_signed(&mut pair, at("10.1.1.2"), &[small(serial.plus(2)), small(serial.plus(3))]);
    answers(&mut pair);
    tell_signed(&mut pair, at("10.1.1.2"), &[small(serial.plus(3)), small(serial.plus(2))]);
    let said = answers(&mut pair);
    let serials: Vec<_> = said.iter().map(|(_, ack)| ack.serial).collect();
    assert_eq!(serials, [serial.plus(2), serial.plus(3)]);
}

//= specs/rfc5061.txt#section-5.4
//= type=test
//# If a request arrives that asks the receiver to set an address as
//# primary that does not exist, the receiver SHOULD NOT honor the
//# request, leaving its existing primary address unchanged.
#[test]
fn an_address_that_is_not_there_does_not_become_the_primary_one() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let before = pair.association(Server).primary();
    tell_signed(
        &mut pair,
        at("10.1.1.2"),
        &[asking(serial, "10.1.1.2", vec![Change::SetPrimary(ip("10.1.2.2"))])],
    );
    assert!(matches!(refusal(&mut pair), Cause::UnresolvableAddress(_)));
    assert_eq!(pair.association(Server).primary(), before);
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# It MAY drop the data silently or it MAY consider it part of the
//# association, but it MUST NOT respond with an ABORT.
#[test]
fn packets_from_a_removed_address_are_ignored_without_response() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let both = vec![Change::Add(ip("10.1.2.2"))];
    tell_signed(&mut pair, at("10.1.1.2"), &[asking(serial, "10.1.1.2", both)]);
    let delete = vec![Change::Delete(ip("10.1.1.2"))];
    tell_signed(&mut pair, at("10.1.2.2"), &[asking(serial.plus(1), "10.1.2.2", delete)]);
    answers(&mut pair);
    // A packet in flight during the removal arrives late: an ABORT would reach the peer on its other address, and end the
    // association.
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"1"));
    tell(&mut pair, at("10.1.1.2"), PacketBuilder::new(), &[heartbeat]);
    let said: Vec<_> = pair.log.iter().map(|entry| entry.2.to_string()).collect();
    assert!(said.is_empty() && pair.association(Server).is_up(), "{said:?}");
    let abort = Chunk::Abort { reflected: false, causes: vec![] };
    tell(&mut pair, at("10.1.1.2"), PacketBuilder::new(), &[abort]);
    assert!(pair.association(Server).is_up());
}
