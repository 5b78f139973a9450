//! RE-CONFIG requests are sent one at a time; what they wait for (RFC 6525 §5.1).

use super::*;
use crate::association::timers::Timer;

//= specs/rfc6525.txt#section-5.1.1
//= type=test
//# If the
//# timer expires, besides doubling the value, the sender MUST retransmit
//# the RE-CONFIG chunk, increment the appropriate error counts (for both
//# the association and the destination), and perform threshold
//# management, possibly destroying the association if SCTP
//# retransmission thresholds are exceeded.
//= specs/rfc6525.txt#section-5.1.1
//= type=test
//# This
//# timer MUST use the same value as SCTP's data transmission timer
//# (i.e., the retransmission timeout (RTO) timer) and MUST use
//# exponential backoff, doubling the value at every expiration.
#[test]
fn a_request_is_repeated_at_doubled_times_until_the_peer_is_given_up() {
    let config = with(ALL).with(|c| {
        c.failover.association_max_retrans = 4;
        c.timers.heartbeat_interval = None;
    });
    let config = config.with(|c| c.timers.rto = Config::default().timers.rto);
    let mut pair = Pair::up(config);
    pair.drop = Some(Box::new(|_, _, packet| has(packet, Chunk::RECONFIG)));
    pair.association(Client).add_streams(1, 0).unwrap();
    pair.run(Duration::from_secs(300));
    let times: Vec<_> = pair.log.iter().filter(|entry| has(&entry.2, Chunk::RECONFIG)).collect();
    let gaps: Vec<_> = times.windows(2).map(|two| two[1].0.since(two[0].0).as_secs()).collect();
    assert_eq!(gaps, [1, 2, 4, 8]);
    assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
    let asked = reconfigs(&pair, Client);
    assert!(asked.iter().all(|again| *again == asked[0]), "the same request");
}

//= specs/rfc6525.txt#section-5.2.1
//= type=test
//# If the received RE-CONFIG chunk contains at least
//# one request and based on the analysis of the Re-configuration Request
//# Sequence Numbers this is the last received RE-CONFIG chunk (i.e., a
//# retransmission), the same RE-CONFIG chunk MUST to be sent back in
//# response, as it was earlier.
#[test]
fn whichever_packet_of_a_re_configuration_is_lost_it_is_done_once() {
    for lost in 0..6 {
        for ask in 0..5 {
            let mut pair = Pair::up(with(ALL));
            for side in [Client, Server] {
                pair.send(side, 1, pattern(10));
            }
            pair.run(Duration::from_secs(1));
            let first = pair.sent;
            pair.drop = Some(Box::new(move |side, nth, _| {
                let nth = nth - first[side as usize];
                nth == lost / 2 && (side == Client) == (lost % 2 == 0)
            }));
            let now = pair.now;
            let client = pair.association(Client);
            match ask {
                0 => client.reset_streams(outgoing(listed(&[1]))),
                1 => client.reset_streams(incoming(listed(&[1]))),
                2 => client.reset_streams(StreamReset {
                    outgoing: Some(Streams::All),
                    incoming: Some(Streams::All),
                }),
                3 => client.reset_association(now),
                _ => client.add_streams(1, 1),
            }
            .unwrap();
            for side in [Client, Server] {
                pair.send(side, 1, pattern(20));
            }
            pair.run(Duration::from_secs(10));
            for side in [Client, Server] {
                let count = if matches!(ask, 2 | 4) { 2 } else { 1 };
                assert_eq!(told(&pair, side).len(), count, "{lost}, {ask}: {:?}", told(&pair, side));
                let done = |event: &Event| match event {
                    Event::StreamReset { outcome, .. }
                    | Event::AssociationReset { outcome, .. }
                    | Event::StreamChange { outcome, .. } => *outcome == Outcome::Done,
                    _ => false,
                };
                assert!(told(&pair, side).iter().all(done));
                assert_eq!(pair.read(side, 1).len(), 2, "{lost}, {ask}");
            }
            let stats = pair.association(Client).stats();
            let streams = if ask == 4 { 6 } else { 5 };
            assert_eq!((stats.outbound_streams, stats.inbound_streams), (streams, streams));
        }
    }
}

//= specs/rfc6525.txt#section-5.2.3
//= type=test
//# If the Outgoing SSN Reset Request Parameter that was just sent
//# completely overlaps the received Incoming SSN Reset Request
//# Parameter, respond to the peer with an acknowledgment indicating
//# that there was "Nothing to do".
//= specs/rfc6525.txt#section-5.2.3
//= type=test
//# In such a case, all of
//# the streams being requested will be already set to 0.  If so, the
//# local endpoint SHOULD send back a Re-configuration Response with the
//# success code "Nothing to do".
//= specs/rfc6525.txt#section-5.2.3
//= type=test
//# Even in such a situation, the Incoming SSN Reset MUST
//# be processed normally, even though this means that (if the
//# endpoint elects to do the stream reset) streams that are already
//# at SSN 0 will be reset a subsequent time.
//= specs/rfc6525.txt#section-5.2.3
//= type=test
//# In such a case, the local endpoint MUST do the following:
#[test]
fn both_sides_ask_for_the_same_streams_at_once() {
    let mut pair = Pair::up(with(ALL));
    pair.send(Server, 1, pattern(10));
    pair.run(Duration::from_secs(1));
    pair.association(Server).reset_streams(outgoing(Streams::All)).unwrap();
    pair.association(Client).reset_streams(incoming(listed(&[1]))).unwrap();
    pair.run(Duration::from_secs(3));
    assert_eq!(told(&pair, Server), [reset(Direction::Outgoing, Streams::All, Outcome::Done)]);
    assert_eq!(
        told(&pair, Client),
        [
            reset(Direction::Incoming, Streams::All, Outcome::Done),
            reset(Direction::Incoming, listed(&[1]), Outcome::Done)
        ]
    );
    // A partly overlapping request is processed in its turn.
    pair.send(Server, 1, pattern(10));
    pair.send(Server, 2, pattern(10));
    pair.run(Duration::from_secs(1));
    pair.association(Server).reset_streams(outgoing(listed(&[1]))).unwrap();
    pair.association(Client).reset_streams(incoming(listed(&[1, 2]))).unwrap();
    pair.run(Duration::from_secs(3));
    assert_eq!(told(&pair, Server).len(), 3);
    pair.send(Server, 2, pattern(10));
    pair.clear_log();
    pair.run(Duration::from_secs(1));
    assert_eq!(ssns(&pair, Server, 2), [0]);
}

#[test]
fn a_response_is_sent_although_neither_its_path_nor_the_primary_is_confirmed() {
    let addresses = |host: u8| (1..3).map(|net| SocketAddr::from(([10, 0, net, host], 9_899))).collect();
    let mut pair = Pair::between([addresses(1), addresses(2)], with(ALL), with(ALL));
    // Only the client confirms no path.
    pair.drop = Some(Box::new(|side, _, packet| side == Server && has(packet, Chunk::HEARTBEAT_ACK)));
    pair.run(Duration::from_secs(1));
    for side in [Client, Server] {
        pair.association(side).set_primary(PathId(1)).unwrap();
    }
    pair.association(Server).add_streams(1, 0).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(told(&pair, Server), [change(6, 5, Outcome::Done)]);
}

//= specs/rfc6525.txt#section-5.2.7
//= type=test
//# If the Result field indicates "In progress", the timer for the
//# Re-configuration Request Sequence Number is started again.  If
//# the timer runs out, the RE-CONFIG chunk MUST be retransmitted
//# but the corresponding error counters MUST NOT be incremented.
#[test]
fn a_request_in_progress_is_repeated_without_counting_errors() {
    let config = with(ALL).with(|c| {
        c.failover.association_max_retrans = 1;
        c.timers.heartbeat_interval = None;
    });
    let mut pair = Pair::up(config);
    pair.drop = Some(Box::new(|_, _, packet| has(packet, Chunk::RECONFIG)));
    pair.association(Server).add_streams(1, 0).unwrap();
    pair.send(Client, 0, pattern(1));
    pair.run(Duration::from_millis(50));
    let request = RequestNumber(pair.association(Server).initial_tsn.0);
    pair.forge(&[Chunk::Reconfig(vec![said(request, ReconfigResult::InProgress)])]);
    pair.run(Duration::from_secs(60));
    assert!(reconfigs(&pair, Server).len() > 10);
    assert!(pair.association(Server).is_up());
    let next_tsns = Some(NextTsns { sender: Tsn(1), receiver: Tsn(2) });
    let denied = Reconfig::Response { response: request, result: ReconfigResult::Denied, next_tsns };
    pair.forge(&[Chunk::Reconfig(vec![denied])]);
    assert_eq!(told(&pair, Server), [change(5, 5, Outcome::Denied)]);
}

#[test]
fn a_shutdown_cancels_reconfiguration_and_loses_no_message() {
    let mut pair = Pair::up(with(ALL));
    pair.send(Client, 1, pattern(10));
    pair.association(Client).reset_streams(outgoing(Streams::All)).unwrap();
    pair.send(Client, 1, pattern(20));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.read(Server, 1).len(), 2);
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    // Without queued data it does not wait for an acknowledgement.
    let mut pair = Pair::up(with(ALL));
    pair.drop = Some(Box::new(|_, _, packet| has(packet, Chunk::RECONFIG)));
    pair.association(Client).add_streams(1, 1).unwrap();
    pair.run(Duration::from_millis(5));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    assert_eq!(told(&pair, Client), [change(5, 5, Outcome::Failed), change(5, 5, Outcome::Failed)]);
}

//= specs/rfc6525.txt#section-5.2.1
//= type=test
//# If for whatever reason the endpoint does not wish to process
//# a received request parameter, it MUST send a corresponding response
//# parameter as described in Section 5.1.7, with an appropriate Result
//# field.
#[test]
fn a_shutdown_leaves_no_request_of_the_peers_without_an_answer() {
    let both = |server: &mut Association, _| {
        server.reset_streams(StreamReset { outgoing: Some(Streams::All), incoming: Some(Streams::All) })
    };
    let all = |server: &mut Association, now| server.reset_association(now);
    // The client sends its queued data first; or a request of its own is first.
    for (ask, busy) in [(both as Ask, false), (both, true), (all, false)] {
        let mut pair = Pair::up(with(ALL));
        pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Data::KIND)));
        pair.send(Client, 1, pattern(3_000));
        pair.run(Duration::from_millis(1));
        if busy {
            pair.association(Client).add_streams(1, 0).unwrap();
        }
        let now = pair.now;
        ask(pair.association(Server), now).unwrap();
        pair.send(Server, 1, pattern(20));
        // Before the server repeats its request; the repetition would be answered again.
        pair.run(Duration::from_millis(20));
        assert_eq!(pair.read(Client, 1).len(), 0, "held until it is answered");
        pair.association(Client).shutdown();
        pair.drop = None;
        pair.run(Duration::from_secs(60));
        for side in [Client, Server] {
            assert_eq!(pair.closed(side), Some(&Reason::Shutdown));
            assert_eq!(pair.read(side, 1).len(), 1);
        }
        let denied = |parameters: &Vec<Reconfig>| {
            let is = |it: &Reconfig| matches!(it, Reconfig::Response { result: ReconfigResult::Denied, .. });
            parameters.iter().any(is)
        };
        assert_eq!(
            reconfigs(&pair, Client).iter().filter(|said| denied(said)).count(),
            1,
            "at once, and once"
        );
    }
}

type Ask = fn(&mut Association, Time) -> Result<(), ReconfigError>;

/// All kinds of requests, and the parameter types of their chunks.
fn asks() -> Vec<(Ask, &'static [u16])> {
    vec![
        (|it, _| it.reset_streams(outgoing(Streams::All)), &[13]),
        (|it, _| it.reset_streams(outgoing(listed(&[2]))), &[13]),
        (|it, _| it.reset_streams(incoming(listed(&[1]))), &[14]),
        (
            |it, _| {
                it.reset_streams(StreamReset { outgoing: Some(Streams::All), incoming: Some(Streams::All) })
            },
            &[13, 14],
        ),
        (|it, now| it.reset_association(now), &[15]),
        (|it, _| it.add_streams(1, 0), &[17]),
        (|it, _| it.add_streams(1, 1), &[17, 18]),
    ]
}

//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# The next re-configuration request sequence number MUST then be
//# incremented by 1.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# The Outgoing SSN Reset Request Parameter MUST be put into a RE-CONFIG
//# Chunk.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# It MUST NOT be put together with any other parameter, as described in
//# Section 3.1.
//= specs/rfc6525.txt#section-5.1.3
//= type=test
//# The sender MUST assign the next re-configuration request sequence
//# number and MUST put it into the Re-configuration Request Sequence
//# Number field of the Incoming SSN Reset Request Parameter. After
//# assigning it, the next re-configuration request sequence number MUST
//# be incremented by 1.
//= specs/rfc6525.txt#section-5.1.3
//= type=test
//# The Incoming SSN Reset Request Parameter MUST be put into a RE-CONFIG
//# Chunk. It MAY be put together with an Outgoing SSN Reset Request
//# Parameter but MUST NOT be put together with any other parameter.
//= specs/rfc6525.txt#section-5.1.4
//= type=test
//# The sender MUST assign the next re-configuration request sequence
//# number and put it into the Re-configuration Request Sequence Number
//# field of the SSN/TSN Reset Request Parameter. After assigning it, the
//# next re-configuration request sequence number MUST be incremented by
//# 1.
//= specs/rfc6525.txt#section-5.1.4
//= type=test
//# The SSN/TSN Reset Request Parameter MUST be put into a RE-CONFIG
//# chunk. There MUST NOT be any other parameter in this chunk.
#[test]
fn requests_are_numbered_one_after_the_other_and_stand_alone() {
    let mut pair = Pair::up(with(ALL));
    let (mut next, _) = numbers_of_client(&mut pair);
    for (ask, kinds) in asks().into_iter().chain(asks()) {
        for side in [Client, Server] {
            pair.send(side, 1, pattern(10));
        }
        pair.run(Duration::from_secs(1));
        pair.clear_log();
        let now = pair.now;
        ask(pair.association(Client), now).unwrap();
        pair.run(Duration::from_secs(30));
        let asked: Vec<_> = reconfigs(&pair, Client)
            .into_iter()
            .filter(|parameters| parameters.iter().any(|parameter| request_of(parameter).is_some()))
            .collect();
        assert_eq!(asked.len(), 1, "{asked:?}");
        assert_eq!(asked[0].iter().map(Reconfig::kind).collect::<Vec<_>>(), kinds);
        for parameter in &asked[0] {
            assert_eq!(request_of(parameter), Some(next));
            next = next.next();
        }
    }
}

//= specs/rfc6525.txt#section-5.1.1
//= type=test
//# At any given time, there MUST NOT be more than one request in flight.
//# So, if the Re-configuration Timer is running and the RE-CONFIG chunk
//# contains at least one request parameter, the chunk MUST be buffered.
//= specs/rfc6525.txt#section-5.1.1
//= type=test
//# After packaging the RE-CONFIG chunk and sending it to the peer, the
//# sender MUST start the Re-configuration Timer if the RE-CONFIG chunk
//# contains at least one request parameter.
//= specs/rfc6525.txt#section-5.1.1
//= type=test
//# If it contains no request parameters, the Re-configuration Timer MUST
//# NOT be started.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# The RE-CONFIG chunk MUST be sent following the rules given in Section
//# 5.1.1.
//= specs/rfc6525.txt#section-5.1.3
//= type=test
//# The RE-CONFIG chunk MUST be sent following the rules given in Section
//# 5.1.1.
//= specs/rfc6525.txt#section-5.1.4
//= type=test
//# The RE-CONFIG chunk MUST be sent following the rules given in Section
//# 5.1.1.
#[test]
fn one_request_is_outstanding_and_the_peers_requests_wait_for_its_result() {
    let armed = |pair: &mut Pair, side| pair.association(side).timers.is_armed(Timer::Reconfig);
    for (ask, kinds) in [1, 2, 4, 5].map(|which| asks()[which]) {
        // Two requests that wait for each other would wait for ever.
        let waits = kinds == [14];
        let mut pair = Pair::up(with(ALL));
        for side in [Client, Server] {
            pair.send(side, 1, pattern(10));
        }
        pair.run(Duration::from_secs(1));
        let (request, _) = numbers_of_client(&mut pair);
        let own = RequestNumber(pair.association(Server).initial_tsn.0);
        pair.clear_log();
        // No answer arrives.
        pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Chunk::RECONFIG)));
        let now = pair.now;
        assert!(!armed(&mut pair, Server));
        ask(pair.association(Server), now).unwrap();
        pair.run(Duration::from_millis(50));
        assert!(armed(&mut pair, Server));
        if !waits {
            pair.forge(&[Chunk::Reconfig(vec![Reconfig::IncomingReset {
                request,
                streams: vec![StreamId(1)],
            }])]);
        }
        assert_eq!(ask(pair.association(Server), now), Err(ReconfigError::InProgress));
        pair.run(Duration::from_secs(20));
        let sent = reconfigs(&pair, Server);
        assert!(sent.len() > 2);
        for parameters in &sent {
            assert_eq!(parameters.iter().map(Reconfig::kind).collect::<Vec<_>>(), kinds);
            assert_eq!(request_of(&parameters[0]), Some(own));
        }
        if waits {
            continue;
        }
        // A chunk with responses only is sent when a request arrives, and is not repeated by a timer.
        assert_eq!(reconfigs(&pair, Client).len(), sent.len());
        assert!(armed(&mut pair, Server) && !armed(&mut pair, Client));
        pair.drop = None;
        pair.run(Duration::from_secs(60));
        let last = reconfigs(&pair, Server).pop().unwrap();
        let [Reconfig::OutgoingReset { request: number, response, streams, .. }] = &last[..] else {
            panic!("{last:?}")
        };
        assert_eq!((*number, *response), (own.plus(kinds.len() as u32), request));
        assert_eq!(streams[..], [StreamId(1)]);
        assert!(!armed(&mut pair, Server) && !armed(&mut pair, Client));
    }
}
