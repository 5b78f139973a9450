//! This side's ASCONF requests: retransmission, order, and results.

use super::*;

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F0)  If an endpoint receives an ASCONF-ACK that is greater than or
//# equal to the next Sequence Number to be used but no ASCONF Chunk
//# is outstanding, the endpoint MUST ABORT the association.
#[test]
fn an_asconf_ack_without_an_asconf_ends_the_association_and_an_old_one_does_not() {
    for (ahead, ends) in
        [(0_u32, true), (5, true), ((1 << 31) - 1, true), (u32::MAX, false), (1 << 31, false)]
    {
        let mut pair = pair();
        let serial = pair.association(Server).initial_tsn.plus(ahead);
        tell_signed(&mut pair, at("10.1.1.2"), &[Chunk::AsconfAck(AsconfAck { serial, responses: vec![] })]);
        let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
        if ends {
            assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::AsconfAckOfNothing)));
            assert_eq!(said, [Chunk::Abort { reflected: false, causes: vec![Cause::IllegalAsconfAck] }]);
        } else {
            assert!(said.is_empty() && pair.closed(Server).is_none(), "{ahead}");
        }
    }
}

/// The client's request is answered with `responses`; the server never receives it.
fn answered(responses: impl Fn(&Asconf) -> Vec<Response>) -> Pair {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Asconf::KIND)));
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    pair.drain(Client);
    let asconf = pair.packets(Client).into_iter().flatten().find_map(|chunk| match chunk {
        Chunk::Asconf(asconf) => Some(asconf),
        _ => None,
    });
    let asconf = asconf.expect("it was sent");
    let ack = Chunk::AsconfAck(AsconfAck { serial: asconf.serial, responses: responses(&asconf) });
    let signer = pair.association(Server).auth.signer(0, HmacId::Sha256).unwrap().clone();
    let mut builder = PacketBuilder::new();
    builder.authenticate(Authentic { signer, chunks: [AsconfAck::KIND].into_iter().collect() });
    let (source_port, destination_port) = (PORT, pair.association(Client).ports().0);
    let tag = pair.association(Client).tag;
    builder.begin(Header { source_port, destination_port, tag }, 1_452);
    builder.push(&ack);
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    let datagram = Datagram { from: at("10.1.1.1"), to: at("10.1.2.2"), ecn: Ecn::NotEct, payload };
    pair.client.handle(pair.now, datagram);
    pair.drain(Client);
    pair
}

//= specs/rfc5061.txt#section-5.1
//= type=test
//# A7)  If an error response is received for a TLV parameter, all TLVs
//# with no response before the failed TLV are considered successful
//# if not reported.  All TLVs after the failed response are
//# considered unsuccessful unless a specific success indication is
//# present for the parameter.
//= specs/rfc5061.txt#section-4.2.3
//= type=test
//# Note that the receiver MUST NOT change this 32-bit value.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# A6) The endpoint MUST process all of the TLVs within the ASCONF-
//# ACK(s) to find out particular status information returned to the
//# various requests that were sent.
#[test]
fn requests_after_a_refused_one_failed_unless_reported_otherwise() {
    let error = |correlation, cause: Cause| Response { correlation, outcome: Outcome::Error(vec![cause]) };
    let refused = |cause: Option<Cause>| AddressChange::Refused(cause);
    let shortage = Cause::ResourceShortage(Bytes::new());
    let named = |changes: Vec<AddressChange>| -> Vec<_> {
        ["10.1.2.2", "10.1.1.2", "10.1.3.2"].map(str::to_owned).into_iter().zip(changes).collect()
    };
    let pair = answered(|_| vec![]);
    assert_eq!(
        local_events(&pair, Client),
        named(vec![AddressChange::Added, AddressChange::Removed, AddressChange::Added])
    );
    let mut pair = answered(|it| vec![error(it.requests[1].correlation, shortage.clone())]);
    assert_eq!(
        local_events(&pair, Client),
        named(vec![AddressChange::Added, refused(Some(shortage.clone())), refused(None)])
    );
    assert_eq!(pair.association(Client).local_addresses(), [at("10.1.1.2"), at("10.1.2.2")]);
    let locals: BTreeSet<_> = ways(&mut pair, Client).into_iter().map(|way| way.0).collect();
    assert_eq!(locals, ["10.1.1.2", "10.1.2.2"].map(str::to_owned).into());
    let mut pair = answered(|it| {
        let success = Response { correlation: it.requests[2].correlation, outcome: Outcome::Success };
        vec![error(it.requests[0].correlation, shortage.clone()), success]
    });
    assert_eq!(
        local_events(&pair, Client),
        named(vec![refused(Some(shortage.clone())), refused(None), AddressChange::Added])
    );
    assert_eq!(pair.association(Client).local_addresses(), [at("10.1.1.2"), at("10.1.3.2")]);
    pair.drop = None;
    pair.send(Client, 0, "still there");
    assert!(pair.run_until_within(Duration::from_secs(60), |pair| !pair.read(Server, 0).is_empty()));
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F3a) If an endpoint receives an Error Cause TLV indicating that the
//# IP address Add or IP address Deletion parameters was not
//# understood, the endpoint MUST consider the operation failed and
//# MUST NOT attempt to send any subsequent Add or Delete requests
//# to the peer.
#[test]
fn a_peer_without_support_is_not_asked_again() {
    let unknown = Cause::UnrecognizedParameters(Bytes::new());
    let mut pair = answered(|it| {
        vec![Response {
            correlation: it.requests[0].correlation,
            outcome: Outcome::Error(vec![unknown.clone()]),
        }]
    });
    let client = pair.association(Client);
    assert_eq!(client.add_address(at("10.1.2.2")), Err(AddressError::NotSupported));
    client.set_peer_primary(at("10.1.1.2")).unwrap();
}

//= specs/rfc5061.txt#section-5.1
//= type=test
//# A9)  If the peer responds to an ASCONF with an ERROR Chunk reporting
//# that it did not recognize the ASCONF Chunk Type, the sender of
//# the ASCONF MUST NOT send any further ASCONF Chunks and MUST stop
//# its T-4 timer.
//= specs/rfc5061.txt#section-4.1.1
//= type=test
//# This will NOT abort the association but indicates to the sender that
//# it MUST not send any further ASCONF chunks.
//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# If the sender of an ASCONF Chunk receives an Operational Error
//# indicating that the ASCONF Chunk Type is not understood, then the
//# sender MUST NOT send subsequent ASCONF Chunks to the peer.
#[test]
fn a_peer_that_reports_asconf_unknown_gets_no_more_asconf() {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Asconf::KIND)));
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.drain(Client);
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    let raw = pair.packets(Client)[0][1].quoted();
    if let State::Up(up) = &mut pair.association(Server).state {
        up.control.add_error(Cause::UnrecognizedChunkType(raw));
    }
    pair.association(Server).has_input = true;
    pair.run(Duration::from_millis(50));
    pair.clear_log();
    pair.run(Duration::from_secs(60));
    assert!(!pair.log.iter().any(|entry| has(&entry.2, Asconf::KIND)));
    let refused = AddressChange::Refused(None);
    let expected = ["10.1.2.2", "10.1.3.2"].map(|ip| (ip.to_owned(), refused.clone()));
    assert_eq!(local_events(&pair, Client), expected);
    assert_eq!(pair.association(Client).set_peer_primary(at("10.1.1.2")), Err(AddressError::NotSupported));
    assert_eq!(pair.association(Client).paths().count(), 1);
}

//= specs/rfc5061.txt#section-5.1
//= type=test
//# An endpoint MUST NOT add new parameters to this
//# chunk; it MUST be the same (including its Sequence Number) as
//# the last ASCONF sent.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# B3)  Backoff the destination address RTO value to which the ASCONF
//# chunk was sent by doubling the RTO timer value.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# If the T-4 RTO timer expires the endpoint MUST do the following:
//= specs/rfc5061.txt#section-5.1
//= type=test
//# A4)  The sender MUST Start a T-4 Retransmission Timeout (RTO) timer,
//# using the RTO value of the selected destination address
#[test]
fn an_asconf_is_retransmitted_unchanged_with_back_off_until_the_peer_is_given_up() {
    let rfc = rfc().with(|c| {
        c.paths.asconf = true;
        c.timers.heartbeat_interval = None;
    });
    let mut pair = pair_of(rfc.clone(), rfc);
    pair.drop = Some(Box::new(|side, _, _| side == Client));
    pair.association(Client).set_peer_primary(at("10.1.1.2")).unwrap();
    pair.drain(Client);
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
    let sent = pair.log.iter().filter(|(_, side, packet)| *side == Client && has(packet, Asconf::KIND));
    let sent: Vec<_> = sent.map(|(at, _, packet)| (*at, chunks(packet))).collect();
    assert_eq!(sent.len(), 11, "Association.Max.Retrans and once more");
    assert!(sent.iter().all(|(_, chunks)| *chunks == sent[0].1));
    let waits: Vec<_> = sent.windows(2).map(|pair| pair[1].0.since(pair[0].0).as_secs()).collect();
    assert_eq!(waits[..6], [1, 2, 4, 8, 16, 32]);
}

//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# C1)  One and only one SCTP packet-holding ASCONF Chunk(s) MAY be in
//# transit and unacknowledged at any one time.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# When an endpoint has an ASCONF signaled change to be sent to the
//# remote endpoint, it MUST do the following:
//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# In defining the ASCONF Chunk transfer procedures, it is essential
//# that these transfers MUST NOT cause congestion within the network.
//= specs/rfc5061.txt#section-6
//= type=test
//# Endpoints that believe they face a threat from on-path attackers
//# SHOULD NOT use wildcard addresses in ASCONF Add IP, Delete IP, or
//# Set Primary IP parameters.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# The chunk MUST contain all of the TLV(s) of information necessary to
//# be sent to the remote endpoint, and unique correlation identities
//# for each request.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# A2)  A Sequence Number MUST be assigned to the Chunk.  The Sequence
//# Number MUST be larger by one.
//= specs/rfc5061.txt#section-5.1
//= type=test
//# The Sequence Number MUST be initialized at the start of the
//# association to the same value as the Initial Transmission Sequence
//# Number (TSN) and every time a new ASCONF Chunk is created, it MUST
//# be incremented by one after assigning the Sequence Number to the
//# newly created chunk.
//= specs/rfc5061.txt#section-5.1.1
//= type=test
//# If a sender, after sending an ASCONF chunk, decides it needs to
//# transfer another ASCONF Chunk, it MUST wait until the ASCONF-ACK
//# Chunk returns from the previous ASCONF Chunk before sending a
//# subsequent ASCONF.
#[test]
fn one_asconf_is_outstanding_and_the_next_has_all_changes_requested_meanwhile() {
    let mut pair = pair();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.drain(Client);
    pair.association(Client).add_address(at("10.1.3.2")).unwrap();
    pair.association(Client).set_peer_primary(at("10.1.3.2")).unwrap();
    pair.run(Duration::from_millis(15));
    let sent = |pair: &Pair| -> Vec<Asconf> {
        let all = pair.packets(Client).into_iter().flatten();
        all.filter_map(|chunk| if let Chunk::Asconf(asconf) = chunk { Some(asconf) } else { None }).collect()
    };
    assert_eq!(sent(&pair).len(), 1);
    pair.run(Duration::from_secs(1));
    let sent = sent(&pair);
    assert_eq!(sent.iter().map(|asconf| asconf.requests.len()).collect::<Vec<_>>(), [1, 2]);
    assert_eq!(sent[0].serial, pair.association(Client).initial_tsn);
    assert_eq!(sent[1].serial, sent[0].serial.next());
    let requests: Vec<_> = sent.iter().flat_map(|asconf| &asconf.requests).collect();
    let correlations: BTreeSet<_> = requests.iter().map(|request| request.correlation).collect();
    assert_eq!(correlations.len(), 3);
    assert!(requests.iter().all(|request| match request.change {
        Change::Add(ip) | Change::Delete(ip) | Change::SetPrimary(ip) => !ip.is_unspecified(),
        Change::Other { .. } => false,
    }));
    assert_eq!(pair.association(Client).local_addresses().len(), 3);
}

/// Otherwise it would have to be sent from an address that it deletes, and an ABORT to the remaining address would be ignored.
#[test]
fn deleting_and_adding_an_address_again_takes_two_asconfs() {
    let mut pair = pair();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(1));
    pair.clear_log();
    pair.association(Client).remove_address(at("10.1.2.2")).unwrap();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
    pair.association(Client).set_peer_primary(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(1));
    let asked = pair.packets(Client).into_iter().flatten().filter_map(|chunk| match chunk {
        Chunk::Asconf(asconf) => Some(asconf.requests.into_iter().map(|request| request.change).collect()),
        _ => None,
    });
    let second = ip("10.1.2.2");
    assert_eq!(
        asked.collect::<Vec<Vec<_>>>(),
        [
            vec![Change::Delete(second)],
            vec![Change::Add(second), Change::Delete(ip("10.1.1.2")), Change::SetPrimary(second)],
        ]
    );
    assert_eq!(pair.association(Client).local_addresses(), [at("10.1.2.2")]);
    pair.association(Server).abort(Bytes::from_static(b"enough"));
    pair.run(Duration::from_secs(1));
    assert!(pair.closed(Client).is_some());
}

//= specs/rfc5061.txt#section-5.3.1
//= type=test
//# For this case, during the deletion of an IP address, an Abort MUST be
//# ignored if the destination address of the Abort message is that of a
//# destination being deleted.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# This means that any datagrams that arrive before the ASCONF-ACK
//# destined to the IP address being deleted MUST be considered part of
//# the current association.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# One special consideration is that ABORT Chunks arriving destined to
//# the IP address being deleted MUST be ignored (see Section 5.3.1 for
//# further details).
#[test]
fn an_abort_to_an_address_being_deleted_is_ignored() {
    let mut pair = pair();
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_secs(1));
    pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
    pair.drain(Client);
    let header = Header {
        source_port: PORT,
        destination_port: pair.association(Client).ports().0,
        tag: pair.association(Client).tag,
    };
    for (to, ends) in [(at("10.1.1.2"), false), (at("10.1.2.2"), true)] {
        let mut builder = PacketBuilder::new();
        builder.begin(header, 1_452);
        builder.push(&Chunk::Abort { reflected: false, causes: vec![] });
        builder.seal();
        let payload = builder.finish().unwrap().payload;
        pair.client.handle(pair.now, Datagram { from: at("10.1.1.1"), to, ecn: Ecn::NotEct, payload });
        pair.drain(Client);
        assert_eq!(pair.closed(Client).is_some(), ends, "{to}");
        if !ends {
            // Packets of other types are accepted there until the peer has agreed.
            pair.clear_log();
            hand(&mut pair, to, &Chunk::Heartbeat(Bytes::from_static(b"1")));
            let said: Vec<_> = pair.packets(Client).into_iter().flatten().collect();
            assert!(said.iter().any(|chunk| chunk.kind() == Chunk::HEARTBEAT_ACK), "{said:?}");
        }
    }
}

/// A packet sent from the address may reach the peer after the deletion and is then out of the blue. The ABORT that answers it
/// arrives after the ASCONF-ACK. The Linux kernel answers so.
#[test]
fn an_abort_to_a_deleted_address_is_ignored() {
    for reflected in [true, false] {
        let mut pair = pair();
        pair.association(Client).add_address(at("10.1.2.2")).unwrap();
        pair.run(Duration::from_secs(1));
        pair.association(Client).remove_address(at("10.1.1.2")).unwrap();
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.association(Client).local_addresses(), [at("10.1.2.2")]);
        let client = pair.association(Client);
        let tag = if reflected { client.peer_tag().unwrap() } else { client.tag };
        let header = Header { source_port: PORT, destination_port: client.ports().0, tag };
        for (to, ends) in [(at("10.1.1.2"), false), (at("10.1.2.2"), true)] {
            let mut builder = PacketBuilder::new();
            builder.begin(header, 1_452);
            builder.push(&Chunk::Abort { reflected, causes: vec![] });
            builder.seal();
            let payload = builder.finish().unwrap().payload;
            pair.client.handle(pair.now, Datagram { from: at("10.1.1.1"), to, ecn: Ecn::NotEct, payload });
            pair.drain(Client);
            assert_eq!(pair.closed(Client).is_some(), ends, "{to} {reflected}");
        }
    }
}

/// Delivers a chunk of the server to this address of the client.
fn hand(pair: &mut Pair, to: SocketAddr, chunk: &Chunk) {
    let tag = pair.association(Client).tag;
    let header = Header { source_port: PORT, destination_port: pair.association(Client).ports().0, tag };
    let mut builder = PacketBuilder::new();
    builder.begin(header, 1_452);
    builder.push(chunk);
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    pair.client.handle(pair.now, Datagram { from: at("10.1.1.1"), to, ecn: Ecn::NotEct, payload });
    pair.drain(Client);
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# The endpoint MUST NOT source data from this new address until the
//# ASCONF-ACK arrives, but it may receive out-of- order data as
//# illustrated and MUST NOT treat this data as an OOTB datagram (please
//# see [RFC4960] section 8.4).
#[test]
fn packets_to_an_address_being_added_are_accepted() {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| side == Server && has(packet, AsconfAck::KIND)));
    pair.association(Client).add_address(at("10.1.2.2")).unwrap();
    pair.run(Duration::from_millis(50));
    pair.clear_log();
    pair.routes.clear();
    let data = Data { immediate: true, ..Data::whole(pair.association(Server).initial_tsn, b"early") };
    hand(&mut pair, at("10.1.2.2"), &Chunk::Data(data));
    assert_eq!(pair.read(Client, 0), [b"early"]);
    let said: Vec<_> = pair.packets(Client).into_iter().flatten().collect();
    assert!(said.iter().all(|chunk| chunk.kind() == Sack::KIND), "{said:?}");
    assert!(pair.routes.iter().all(|route| route.0 != at("10.1.2.2")), "it sends nothing yet");
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# In other words, if an endpoint is NOT multi- homed, it MUST NOT use
//# the delete IP address without an Add IP Address preceding the delete
//# parameter in the ASCONF Chunk.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# Or, if an endpoint sends multiple requests to delete IP addresses,
//# it MUST NOT delete all of the IP addresses that the peer has listed
//# for the requester.
//= specs/rfc5061.txt#section-5.3
//= type=test
//# F5)  An endpoint MUST NOT delete its last remaining IP address from
//# an association.
//= specs/rfc5061.txt#section-5.4
//= type=test
//# A sender MUST only send a set primary request to an address that is
//# already considered part of the association.
#[test]
fn changes_made_impossible_by_a_refusal_are_dropped() {
    let mut pair = pair();
    // More data than the server can buffer.
    let mut first = true;
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client && has(packet, Asconf::KIND) && std::mem::take(&mut first)
    }));
    let client = pair.association(Client);
    client.add_address(at("10.1.2.2")).unwrap();
    pair.drain(Client);
    let client = pair.association(Client);
    client.set_peer_primary(at("10.1.2.2")).unwrap();
    client.remove_address(at("10.1.1.2")).unwrap();
    let sent = pair.packets(Client).into_iter().flatten();
    let asked = sent.filter_map(|chunk| if let Chunk::Asconf(it) = chunk { Some(it) } else { None }).next();
    let asked = asked.expect("it was sent");
    let refused = Response {
        correlation: asked.requests[0].correlation,
        outcome: Outcome::Error(vec![Cause::ResourceShortage(Bytes::new())]),
    };
    let ack = AsconfAck { serial: asked.serial, responses: vec![refused] };
    pair.association(Client).on_asconf_ack(Time::ZERO, &ack);
    pair.clear_log();
    pair.run(Duration::from_secs(5));
    assert!(!pair.log.iter().any(|entry| has(&entry.2, Asconf::KIND)));
    let changes: Vec<_> = local_events(&pair, Client).into_iter().map(|(ip, _)| ip).collect();
    assert_eq!(changes, ["10.1.2.2", "10.1.2.2", "10.1.1.2"]);
    assert_eq!(pair.association(Client).local_addresses(), [at("10.1.1.2")]);
    assert!(pair.association(Client).is_up());
}

//= specs/rfc5061.txt#section-5.1
//= type=test
//# A5)  When the ASCONF-ACK that acknowledges the Sequence Number last
//# sent arrives, the sender MUST stop the T-4 RTO timer, and clear the
//# appropriate association and destination error counters as defined in
//# [RFC4960], Sections 8.1 and 8.2.
#[test]
fn a_response_stops_the_timer_and_resets_the_error_count() {
    let mut pair = pair();
    let mut left = 2;
    pair.drop = Some(Box::new(move |side, _, packet| {
        let lost = side == Client && has(packet, Asconf::KIND) && left > 0;
        left -= i32::from(lost);
        lost
    }));
    pair.association(Client).set_peer_primary(at("10.1.1.2")).unwrap();
    let errors = |pair: &mut Pair| {
        let client = pair.association(Client);
        (client.state.up().unwrap().errors, client.paths[0].errors)
    };
    assert!(pair.run_until(|pair| errors(pair).0 > 0));
    assert!(pair.run_until(|pair| !local_events(pair, Client).is_empty()));
    assert_eq!(errors(&mut pair), (0, 0));
    pair.clear_log();
    pair.run(Duration::from_secs(60));
    assert!(!pair.log.iter().any(|entry| has(&entry.2, Asconf::KIND)));
}

//= specs/rfc5061.txt#section-5.3
//= type=test
//# F3b) If an endpoint receives an Error Cause TLV indicating that the
//# IP address Set Primary IP Address parameter was not understood, the
//# endpoint MUST consider the operation failed and MUST NOT attempt to
//# send any subsequent Set Primary IP Address requests to the peer.
#[test]
fn a_peer_that_knows_no_primary_address_is_asked_for_none_again() {
    let mut pair = pair();
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Asconf::KIND)));
    pair.association(Client).set_peer_primary(at("10.1.1.2")).unwrap();
    pair.drain(Client);
    let serial = pair.association(Client).initial_tsn;
    let unknown = Outcome::Error(vec![Cause::UnrecognizedParameters(Bytes::new())]);
    let ack = AsconfAck { serial, responses: vec![Response { correlation: 0, outcome: unknown }] };
    pair.association(Client).on_asconf_ack(Time::ZERO, &ack);
    let client = pair.association(Client);
    assert_eq!(client.set_peer_primary(at("10.1.1.2")), Err(AddressError::NotSupported));
    client.add_address(at("10.1.2.2")).unwrap();
}
