//! The peer's RE-CONFIG requests and their results (RFC 6525 §5.1.7, §5.2).

use super::*;

//= specs/rfc6525.txt#section-5.2.1
//= type=test
//# If for whatever reason the endpoint does not wish to process
//# a received request parameter, it MUST send a corresponding response
//# parameter as described in Section 5.1.7, with an appropriate Result
//# field.
#[test]
fn requests_without_permission_are_denied() {
    let now = Time::from_millis(2_000);
    type Ask = Box<dyn Fn(&mut Association) -> Result<(), ReconfigError>>;
    let asks: [(Ask, Event); 5] = [
        (
            Box::new(|client| client.reset_streams(outgoing(Streams::All))),
            reset(Direction::Outgoing, Streams::All, Outcome::Denied),
        ),
        (
            Box::new(|client| client.reset_streams(incoming(listed(&[0])))),
            reset(Direction::Incoming, listed(&[0]), Outcome::Denied),
        ),
        (
            Box::new(move |client| client.reset_association(now)),
            Event::AssociationReset { outcome: Outcome::Denied, local_tsn: Tsn(0), peer_tsn: Tsn(0) },
        ),
        (Box::new(|client| client.add_streams(1, 0)), change(5, 5, Outcome::Denied)),
        (Box::new(|client| client.add_streams(0, 1)), change(5, 5, Outcome::Denied)),
    ];
    for (ask, expected) in asks {
        let mut pair = Pair::with(with(ALL), with(PeerMay::default()));
        pair.run(Duration::from_secs(2));
        for side in [Client, Server] {
            pair.send(side, 0, pattern(10));
        }
        pair.run(Duration::from_secs(1));
        ask(pair.association(Client)).unwrap();
        for side in [Client, Server] {
            pair.send(side, 0, pattern(20));
        }
        pair.run(Duration::from_secs(1));
        let told = match &told(&pair, Client)[..] {
            [Event::AssociationReset { outcome, .. }] => {
                Event::AssociationReset { outcome: *outcome, local_tsn: Tsn(0), peer_tsn: Tsn(0) }
            }
            [event] => event.clone(),
            other => panic!("{other:?}"),
        };
        assert_eq!(told, expected);
        assert_eq!(self::told(&pair, Server), []);
        for (from, to) in [(Client, Server), (Server, Client)] {
            assert_eq!(ssns(&pair, from, 0), [0, 1]);
            assert_eq!(pair.read(to, 0).len(), 2);
        }
        // Once permitted, it is performed.
        pair.association(Server).set_peer_may(ALL).unwrap();
        pair.association(Client).reset_streams(outgoing(Streams::All)).unwrap();
        pair.run(Duration::from_secs(1));
        let last = self::told(&pair, Client).pop();
        assert_eq!(last, Some(reset(Direction::Outgoing, Streams::All, Outcome::Done)));
    }
}

//= specs/rfc6525.txt#section-5.2.2
//= type=test
//# If the Sender's Last Assigned TSN is greater than the cumulative
//# acknowledgment point, then the endpoint MUST enter "deferred
//# reset processing".  In this mode, any data arriving with a TSN
//# larger than the Sender's Last Assigned TSN for the affected
//# stream(s) MUST be queued locally and held until the cumulative
//# acknowledgment point reaches the Sender's Last Assigned TSN.
//# When the cumulative acknowledgment point reaches the last
//# assigned TSN, then proceed to the next step.  If the endpoint
//# enters "deferred reset processing", it MUST put a Re-
//# configuration Response Parameter into a RE-CONFIG chunk
//# indicating "In progress" and MUST send the RE-CONFIG chunk.
//= specs/rfc6525.txt#section-5.2.2
//= type=test
//# Any queued TSNs (queued at step E2) MUST now be released and
//# processed normally.
#[test]
fn a_stream_reset_waits_for_earlier_data_and_later_data_waits_for_the_reset() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(with(ALL).with(|c| c.messages.interleaving = interleaving));
        let (request, last) = numbers_of_client(&mut pair);
        let data = |ahead: u32, stream: u16, number: u16| {
            let interleaved = interleaving.then_some(crate::wire::Interleaved { mid: number.into(), fsn: 0 });
            Chunk::Data(Data {
                stream: StreamId(stream),
                ssn: Ssn(if interleaving { 0 } else { number }),
                interleaved,
                payload: vec![ahead as u8; 4].into(),
                ..Data::whole(last.plus(ahead), b"")
            })
        };
        pair.forge(&[data(1, 1, 0)]);
        let last_tsn = last.plus(3);
        let response = RequestNumber(0);
        let asked = vec![Reconfig::OutgoingReset { request, response, last_tsn, streams: vec![StreamId(1)] }];
        let in_progress = vec![vec![said(request, ReconfigResult::InProgress)]];
        assert_eq!(answers(&mut pair, asked.clone()), in_progress);
        // 2 and 3 are missing; 4 and 5 are on the reset stream and 6 is not.
        pair.forge(&[data(4, 1, 0), data(6, 2, 0), data(5, 1, 1)]);
        assert_eq!((pair.read(Server, 1).len(), pair.read(Server, 2).len()), (1, 1));
        pair.forge(&[data(3, 1, 2)]);
        assert_eq!(answers(&mut pair, asked.clone()), in_progress, "asked again");
        pair.clear_log();
        pair.forge(&[data(2, 1, 1)]);
        assert_eq!(reconfigs(&pair, Server), [vec![said(request, ReconfigResult::Performed)]]);
        let read: Vec<_> = pair.read(Server, 1).iter().map(|message| message[0]).collect();
        assert_eq!(read, [1, 2, 3, 4, 5]);
        assert_eq!(answers(&mut pair, asked), [vec![said(request, ReconfigResult::Performed)]]);
        assert_eq!(told(&pair, Server).len(), 1);
        pair.forge(&[data(7, 1, 2)]);
        assert_eq!(pair.read(Server, 1).len(), 6);
    }
}

//= specs/rfc6525.txt#section-3.1
//= type=test
//# If a sender transmits an unsupported combination, the receiver SHOULD
//# send an ERROR chunk with a Protocol Violation cause, as defined in
//# Section 3.3.10.13 of [RFC4960]).
#[test]
fn invalid_parameter_combinations_are_reported() {
    let (mut pair, request, last_tsn) = forging();
    let response = RequestNumber(0);
    let parameters = [
        Reconfig::OutgoingReset { request, response, last_tsn, streams: vec![] },
        Reconfig::IncomingReset { request, streams: vec![] },
        Reconfig::AssociationReset { request },
        said(request, ReconfigResult::Performed),
        Reconfig::AddOutgoing { request, count: 1 },
        Reconfig::AddIncoming { request, count: 1 },
    ];
    let allowed = [(0, 1), (4, 5), (3, 0), (3, 3)];
    for first in 0..6 {
        for second in 0..6 {
            if allowed.contains(&(first, second)) {
                continue;
            }
            let both = vec![parameters[first].clone(), parameters[second].clone()];
            assert_eq!(answers(&mut pair, both), Vec::<Vec<Reconfig>>::new());
            let reported = pair.packets(Server).into_iter().flatten().any(|chunk| {
                matches!(chunk, Chunk::Error(causes) if matches!(causes[..], [Cause::ProtocolViolation(_)]))
            });
            assert!(reported, "{first}, {second}");
        }
    }
    assert_eq!(answers(&mut pair, vec![]), Vec::<Vec<Reconfig>>::new());
    assert!(pair.association(Server).is_up());
    let three = vec![parameters[3].clone(), parameters[3].clone(), parameters[0].clone()];
    assert_eq!(answers(&mut pair, three), Vec::<Vec<Reconfig>>::new());
}

#[test]
fn requests_out_of_turn_and_of_streams_that_do_not_exist_are_refused() {
    use ReconfigResult::{BadSequenceNumber, NothingToDo, RequestInProgress, WrongSsn};
    let (mut pair, request, last_tsn) = forging();
    let response = RequestNumber(0);
    let out = |request, stream: u16| Reconfig::OutgoingReset {
        request,
        response,
        last_tsn,
        streams: vec![StreamId(stream)],
    };
    for wrong in [request.minus(1), request.next(), request.plus(1_000)] {
        assert_eq!(answers(&mut pair, vec![out(wrong, 0)]), [[said(wrong, BadSequenceNumber)]]);
    }
    assert_eq!(answers(&mut pair, vec![out(request, 5)]), [[said(request, WrongSsn)]]);
    let request = request.next();
    let asks = |request, stream: u16| Reconfig::IncomingReset { request, streams: vec![StreamId(stream)] };
    assert_eq!(answers(&mut pair, vec![asks(request, 5)]), [[said(request, WrongSsn)]]);
    let request = request.next();
    assert_eq!(answers(&mut pair, vec![asks(request, 4)]), [[said(request, NothingToDo)]]);
    let request = request.next();
    assert_eq!(
        answers(&mut pair, vec![Reconfig::AddOutgoing { request, count: 0 }]),
        [[said(request, NothingToDo)]]
    );
    // While a request of this side is outstanding, the association is not reset.
    pair.drop = Some(Box::new(|side, _, packet| side == Server && has(packet, Chunk::RECONFIG)));
    pair.association(Server).add_streams(1, 0).unwrap();
    let request = request.next();
    let refused = answers(&mut pair, vec![Reconfig::AssociationReset { request }]);
    let refused: Vec<_> = refused.into_iter().flatten().collect();
    let in_progress = |parameter: &Reconfig| matches!(parameter, Reconfig::Response { response, result: RequestInProgress, next_tsns: Some(_) } if *response == request);
    assert!(refused.iter().any(in_progress), "{refused:?}");
    assert!(pair.association(Server).is_up());
}

/// One request of each kind that the peer may send.
fn requests(request: RequestNumber, last_tsn: Tsn) -> [Reconfig; 5] {
    [
        Reconfig::OutgoingReset { request, response: RequestNumber(0), last_tsn, streams: vec![] },
        Reconfig::IncomingReset { request, streams: vec![] },
        Reconfig::AssociationReset { request },
        Reconfig::AddOutgoing { request, count: 1 },
        Reconfig::AddIncoming { request, count: 1 },
    ]
}

/// A chunk of a client's message, this far beyond its last TSN.
fn data(tsn: Tsn, ssn: u16, end: bool) -> Chunk {
    Chunk::Data(Data {
        end,
        stream: StreamId(1),
        ssn: Ssn(ssn),
        payload: tsn.0.to_be_bytes().to_vec().into(),
        ..Data::whole(tsn, b"")
    })
}

//= specs/rfc6525.txt#section-5.2.1
//= type=test
//# If the received RE-CONFIG chunk contains at least one request
//# parameter, a selective acknowledgment (SACK) chunk SHOULD be sent back
//# and MAY be bundled with the RE-CONFIG chunk.
//= specs/rfc6525.txt#section-5.2.5
//= type=test
//# When an SCTP endpoint receives a re-configuration request adding
//# additional streams, it MUST send a response parameter either
//# acknowledging or denying the request.
#[test]
fn every_reconfig_response_is_bundled_with_a_sack() {
    for may in [ALL, PeerMay::default()] {
        for kind in 0..5 {
            let (mut pair, request, last_tsn) = forging();
            pair.association(Server).set_peer_may(may).unwrap();
            let asked = requests(request, last_tsn)[kind].clone();
            let answered = answers(&mut pair, vec![asked.clone()]);
            let result = match kind {
                _ if may != ALL => ReconfigResult::Denied,
                1 => ReconfigResult::NothingToDo,
                _ => ReconfigResult::Performed,
            };
            let said = |parameter: &Reconfig| matches!(parameter, Reconfig::Response { response, result: said, .. } if (*response, *said) == (request, result));
            assert!(answered.iter().flatten().any(said), "{asked:?}: {answered:?}");
            let chunks = pair.packets(Server).concat();
            // Once all numbers are reset, a SACK has nothing to report.
            if result == ReconfigResult::Performed && kind == 2 {
                assert!(matches!(chunks[..], [Chunk::Reconfig(_)]), "{chunks:?}");
                continue;
            }
            assert!(matches!(chunks[..], [Chunk::Sack(_), Chunk::Reconfig(_), ..]), "{chunks:?}");
        }
    }
    let (mut pair, request, _) = forging();
    assert_eq!(answers(&mut pair, vec![said(request, ReconfigResult::Performed)]), [[]; 0]);
    assert!(pair.packets(Server).is_empty(), "an answer is not answered");
}

//= specs/rfc6525.txt#section-5.1.7
//= type=test
//# If the incoming request is an SSN/TSN reset request, the Sender's Next
//# TSN field MUST be filled with the next TSN the sender of this
//# Re-configuration Response Parameter will assign.
//= specs/rfc6525.txt#section-5.1.7
//= type=test
//# For other requests, the Sender's Next TSN field, which is optional,
//# MUST NOT be used.
//= specs/rfc6525.txt#section-5.1.7
//= type=test
//# For other requests, the Receiver's Next TSN field, which is optional,
//# MUST NOT be used.
#[test]
fn next_tsns_are_in_the_response_to_an_association_reset_only() {
    for (may, ahead) in [(ALL, 0), (PeerMay::default(), 0), (ALL, 9)] {
        for kind in 0..5 {
            let (mut pair, request, last_tsn) = forging();
            pair.association(Server).set_peer_may(may).unwrap();
            let next = pair.association(Server).state.up().unwrap().sent.next_tsn();
            let asked = requests(request.plus(ahead), last_tsn)[kind].clone();
            let answered = answers(&mut pair, vec![asked.clone()]);
            let response = answered.iter().flatten().find_map(|parameter| match parameter {
                Reconfig::Response { next_tsns, result, .. } => Some((*next_tsns, *result)),
                _ => None,
            });
            let (next_tsns, result) = response.expect("it is answered");
            assert_eq!(next_tsns.is_some(), kind == 2, "{asked:?}: {answered:?}");
            let Some(next_tsns) = next_tsns else { continue };
            pair.send(Server, 1, pattern(10));
            pair.run(Duration::from_millis(1));
            assert_eq!(pair.data(Server)[0].tsn, next_tsns.sender);
            assert_eq!(next_tsns.sender == next, result != ReconfigResult::Performed);
        }
    }
}

//= specs/rfc6525.txt#section-5.1.7
//= type=test
//# If the incoming request is an SSN/TSN reset request, the Receiver's
//# Next TSN field MUST be filled with a TSN such that the sender of the
//# Re-configuration Response Parameter can be sure it can discard
//# received DATA chunks with smaller TSNs. The value SHOULD be the
//# smallest TSN not acknowledged by the receiver of the request plus
//# 2^31.
//= specs/rfc6525.txt#section-5.2.4
//= type=test
//# The value SHOULD be the smallest TSN not acknowledged by the receiver
//# of the request plus 2^31.
//= specs/rfc6525.txt#section-5.2.4
//= type=test
//# The same processing as though a FWD-TSN chunk (as defined in
//# [RFC3758]) with all streams affected and a new cumulative TSN ACK of
//# the Receiver's Next TSN minus 1 were received MUST be performed.
//= specs/rfc6525.txt#section-5.2.4
//= type=test
//# A Re-configuration Response Parameter MUST be put into a RE-CONFIG
//# chunk indicating successful processing.
//= specs/rfc6525.txt#section-5.2.4
//= type=test
//# The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG chunk is
//# processed completely.
#[test]
fn abandoned_messages_are_finished_by_an_association_reset() {
    let (mut pair, request, last) = forging();
    // The first message never arrives; the second waits for it, and the third is never complete.
    pair.forge(&[data(last.plus(2), 1, true), data(last.plus(4), 2, false)]);
    assert!(pair.read(Server, 1).is_empty());
    let answered = answers(&mut pair, vec![Reconfig::AssociationReset { request }]);
    let [Reconfig::Response { response, result, next_tsns: Some(NextTsns { receiver, .. }) }] =
        answered[0][..]
    else {
        panic!("{answered:?}")
    };
    assert_eq!((response, result), (request, ReconfigResult::Performed));
    assert_eq!(receiver, last.plus(1).plus(1 << 31), "the first that was not acknowledged, and 2^31");
    let old = |ahead: u32| last.plus(ahead).0.to_be_bytes().to_vec();
    assert_eq!(pair.read(Server, 1), [old(2)]);
    assert!(matches!(told(&pair, Server)[..], [Event::AssociationReset { outcome: Outcome::Done, .. }]));
    // Old data is discarded, and chunks with the new numbers are delivered from the start.
    pair.forge(&[data(last.plus(1), 0, true), data(last.plus(3), 0, true)]);
    assert_eq!(pair.read(Server, 1).len(), 1);
    pair.clear_log();
    pair.forge(&[data(receiver, 0, true)]);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 1), [old(2), receiver.0.to_be_bytes().to_vec()]);
    assert_eq!(pair.sacks(Server).last().unwrap().1.cum_tsn_ack, receiver);
}

//= specs/rfc6525.txt#section-5.2.2
//= type=test
//# The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG chunk is
//# processed completely.
//= specs/rfc6525.txt#section-5.2.3
//= type=test
//# The RE-CONFIG chunk MUST be sent after the incoming RE-CONFIG chunk is
//# processed completely.
#[test]
fn the_answer_is_sent_when_the_whole_chunk_is_processed() {
    let (mut pair, request, last_tsn) = forging();
    pair.send(Server, 1, pattern(10));
    pair.run(Duration::from_secs(1));
    let [ours, theirs, ..] = requests(request, last_tsn);
    let Reconfig::IncomingReset { streams, .. } = theirs else { panic!() };
    let theirs = Reconfig::IncomingReset { request: request.next(), streams };
    let answered = answers(&mut pair, vec![ours, theirs]);
    let [Reconfig::Response { response, .. }, Reconfig::OutgoingReset { response: second, .. }] =
        answered[0][..]
    else {
        panic!("{answered:?}")
    };
    assert_eq!((answered.len(), response, second), (1, request, request.next()));
    assert_eq!(told(&pair, Server), [reset(Direction::Incoming, Streams::All, Outcome::Done)]);
    // An error behind a request is part of it: no answer, and no change.
    let (mut pair, request, last_tsn) = forging();
    let [ours, .., add] = requests(request, last_tsn);
    assert_eq!(answers(&mut pair, vec![ours, add]), [[]; 0]);
    assert_eq!(told(&pair, Server), []);
}
