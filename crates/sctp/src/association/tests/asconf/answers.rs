//! What a peer asks for, a forger and an odd one among them, and what each is told.

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
#[test]
fn an_asconf_that_nobody_vouches_for_does_nothing() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    let beat = Chunk::Heartbeat(Bytes::from_static(b"1"));
    let auth = Chunk::Auth(Auth { key_id: 0, hmac_id: 3, hmac: vec![0; 32].into() });
    for (from, before) in
        [(at("10.1.1.2"), vec![]), (at("10.1.1.2"), vec![auth.clone()]), (at("10.1.2.2"), vec![auth])]
    {
        let packet = [&before[..], &[add.clone(), beat.clone()]].concat();
        tell(&mut pair, from, PacketBuilder::new(), &packet);
        assert!(pair.log.is_empty() && pair.association(Server).paths().count() == 1, "{from}");
    }
    tell_signed(&mut pair, at("10.1.1.2"), &[add]);
    assert_eq!(answers(&mut pair).len(), 1);
    assert_eq!(pair.association(Server).paths().count(), 2);
}

#[test]
fn an_asconf_where_none_was_agreed_on_is_unknown_and_reported() {
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
    // One that is not there is gone already.
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
    // From an address that it does not have, a host deletes no others.
    let stranger = at("10.7.7.7");
    tell_signed(&mut pair, stranger, &[asking(serial.plus(1), "0.0.0.0", vec![Change::Delete(ip("::"))])]);
    assert!(matches!(refusal(&mut pair), Cause::DeleteLastAddress(_)));
}

#[test]
fn addresses_that_no_host_can_have_are_not_added_and_others_up_to_a_limit() {
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

#[test]
fn an_asconf_that_comes_again_gets_the_same_answer_and_an_odd_number_none() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let add = asking(serial, "10.1.1.2", vec![Change::Add(ip("10.1.2.2"))]);
    tell_signed(&mut pair, at("10.1.1.2"), std::slice::from_ref(&add));
    let first = answers(&mut pair);
    let delete = asking(serial.plus(1), "10.1.1.2", vec![Change::Delete(ip("10.1.2.2"))]);
    for again in 0..3 {
        // From elsewhere, too: the answer goes where it is waited for.
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
    // Several in one packet, the first of them for the second time.
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
}

#[test]
fn out_of_the_blue_an_asconf_with_a_wrong_tag_ends_nothing() {
    let mut pair = pair();
    let serial = next_serial(&mut pair);
    let counters = pair.server.counters();
    let last = pair.last_header.unwrap();
    pair.last_header = Some(Header { tag: crate::ids::VerificationTag(last.tag.0 ^ 1), ..last });
    // By its address parameter it is that association's, and its tag is wrong: silence.
    tell_signed(&mut pair, at("10.1.2.2"), &[asking(serial, "10.1.1.2", vec![])]);
    assert!(pair.log.is_empty());
    assert_eq!(pair.server.counters().discarded, counters.discarded + 1);
    // It names nobody: an ABORT that reflects its tag.
    tell_signed(&mut pair, at("10.1.2.2"), &[asking(serial, "10.9.9.9", vec![])]);
    assert!(matches!(&pair.packets(Server)[0][..], [Chunk::Abort { reflected: true, .. }]));
    assert_eq!(pair.association(Server).phase(), Phase::Established);
}
