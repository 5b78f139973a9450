//! Streams that begin anew and streams that are added, between two endpoints and against a forged peer (RFC 6525).

mod everything;

use super::*;
use crate::association::SendError;
use crate::association::reset::{Direction, Outcome, ReconfigError, StreamReset, Streams};
use crate::config::PeerMay;
use crate::ids::{PathId, RequestNumber, Ssn, Tsn};
use crate::wire::{Cause, NextTsns, Reconfig, ReconfigResult};

const ALL: PeerMay = PeerMay { reset_streams: true, reset_association: true, add_streams: true };

fn with(may: PeerMay) -> Config {
    Config { reconfiguration: true, peer_may: may, outbound_streams: 5, ..modern() }
}

fn listed(streams: &[u16]) -> Streams {
    Streams::These(streams.iter().copied().map(StreamId).collect())
}

fn outgoing(streams: Streams) -> StreamReset {
    StreamReset { outgoing: Some(streams), incoming: None }
}

fn incoming(streams: Streams) -> StreamReset {
    StreamReset { outgoing: None, incoming: Some(streams) }
}

fn reset(direction: Direction, streams: Streams, outcome: Outcome) -> Event {
    Event::StreamReset { direction, streams, outcome }
}

fn change(outbound_streams: u16, inbound_streams: u16, outcome: Outcome) -> Event {
    Event::StreamChange { outbound_streams, inbound_streams, outcome }
}

/// What happened to a side's streams.
fn told(pair: &Pair, side: Side) -> Vec<Event> {
    let of_interest = |event: &&Event| {
        matches!(
            event,
            Event::StreamReset { .. } | Event::AssociationReset { .. } | Event::StreamChange { .. }
        )
    };
    pair.events(side).iter().filter(of_interest).cloned().collect()
}

/// The parameters of the RE-CONFIG chunks that a side sent.
fn reconfigs(pair: &Pair, side: Side) -> Vec<Vec<Reconfig>> {
    let chunks = pair.packets(side).into_iter().flatten();
    chunks
        .filter_map(|chunk| if let Chunk::Reconfig(parameters) = chunk { Some(parameters) } else { None })
        .collect()
}

/// The stream sequence numbers of what a side sent on a stream, by chunk.
fn ssns(pair: &Pair, side: Side, stream: u16) -> Vec<u32> {
    let on_stream = pair.data(side).into_iter().filter(|data| data.stream.0 == stream);
    on_stream.map(|data| data.interleaved.map_or(u32::from(data.ssn.0), |place| place.mid)).collect()
}

/// The number that the client's next request should have, and the last TSN that it used.
fn numbers_of_client(pair: &mut Pair) -> (RequestNumber, Tsn) {
    let client = pair.association(Client);
    let last_tsn = client.state.up().expect("it is up").sent.next_tsn().minus(1);
    (RequestNumber(client.initial_tsn.0), last_tsn)
}

//= specs/rfc6525.txt#section-5.1.1
//= type=test
//# An SCTP endpoint supporting this extension MUST include the chunk
//# type of the RE-CONFIG chunk in the Supported Extensions Parameter in
//# either the INIT or INIT-ACK.  Before sending a RE-CONFIG chunk, the
//# sender MUST ensure that the peer advertised support for the
//# re-configuration extension.  If the chunk type of the RE-CONFIG chunk
//# does not appear in the supported extension's list of chunks, then the
//# sender MUST NOT send any re-configuration request to the peer, and
//# any request by the application for such service SHOULD be responded
//# to with an appropriate error indicating that the peer SCTP stack does
//# not support the re-configuration extension.
#[test]
fn re_config_is_used_if_both_sides_list_it_and_only_then() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let config = |listed| Config { reconfiguration: listed, peer_may: ALL, ..modern() };
        let mut pair = Pair::with(config(client), config(server));
        assert_eq!(pair.association(Client).reset_streams(outgoing(Streams::All)), Err(ReconfigError::NotUp));
        pair.run(Duration::from_secs(1));
        let asked = pair.association(Client).reset_streams(outgoing(Streams::All));
        assert_eq!(asked, if client && server { Ok(()) } else { Err(ReconfigError::NotSupported) });
        let may = pair.association(Server).set_peer_may(ALL);
        assert_eq!(may.is_ok(), client && server);
        pair.run(Duration::from_secs(1));
        assert_eq!(reconfigs(&pair, Client).is_empty(), !(client && server));
    }
}

#[test]
fn a_re_config_that_was_not_agreed_on_is_skipped_like_an_unknown_chunk() {
    for config in [modern(), with(ALL)] {
        let mut pair = Pair::with(modern(), config);
        pair.run(Duration::from_secs(1));
        let (request, last_tsn) = numbers_of_client(&mut pair);
        pair.clear_log();
        let response = RequestNumber(0);
        let asks = Reconfig::OutgoingReset { request, response, last_tsn, streams: vec![] };
        pair.forge(&[Chunk::Reconfig(vec![asks]), Chunk::Heartbeat(Bytes::from_static(b"beat"))]);
        pair.run(Duration::from_secs(1));
        let sent: Vec<_> = pair.packets(Server).into_iter().flatten().map(|chunk| chunk.kind()).collect();
        assert_eq!(sent, [Chunk::HEARTBEAT_ACK], "what stands behind it is read, and nothing is reported");
    }
}

//= specs/rfc6525.txt#section-5.2.7
//= type=test
//# If the request was an Outgoing SSN Reset Request, the affected
//# streams MUST now be reset and all queued data should now be
//# processed.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# If the sender requests that only some
//# outgoing streams be reset, these stream numbers MUST be placed
//# in the Outgoing SSN Reset Request Parameter.
//= specs/rfc6525.txt#section-5.2.2
//= type=test
//# If specific stream numbers are listed, then only these specific
//# streams MUST be reset to 0, and all other non-listed SSNs remain
//# unchanged.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# The sender MUST stop assigning new SSNs to new user data
//# provided by the upper layer for the affected streams and queue
//# it.
//= specs/rfc8260.txt#section-2.3.2
//= type=test
//# When an association resets the SSN using the SCTP extension defined
//# in [RFC6525], the two counters (one for the ordered messages, one for
//# the unordered messages) used for the MIDs MUST be reset to 0.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# The Sender's Last Assigned TSN MUST be set to the next TSN the
//# sender assigns minus 1.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# The sender MUST assign the next re-configuration request
//# sequence number and MUST put it into the Re-configuration
//# Request Sequence Number field of the Outgoing SSN Reset Request
//# Parameter.
//= specs/rfc6525.txt#section-5.1.7
//= type=test
//# The Re-configuration Request Sequence number of the incoming
//# request MUST be copied to the Re-configuration Response Sequence
//# Number field of the Re-configuration Response Parameter.
//= specs/rfc6525.txt#section-5.1.7
//= type=test
//# The result of the processing of the incoming request according
//# to Table 3 MUST be placed in the Result field of the
//# Re-configuration Response Parameter.
//= specs/rfc6525.txt#section-5.2.2
//= type=test
//# A Re-configuration Response Parameter MUST be put into a
//# RE-CONFIG chunk indicating successful processing.
//= specs/rfc6525.txt#section-5.2.7
//= type=test
//# If the Re-configuration Timer is running for the Re-
//# configuration Request Sequence Number indicated in the Re-
//# configuration Response Sequence Number field, the
//# Re-configuration Request Sequence Number MUST be marked as
//# acknowledged.  If all Re-configuration Request Sequence Numbers
//# for which the Re-configuration Timer is running are
//# acknowledged, the Re-configuration Timer MUST be stopped.
#[test]
fn an_outgoing_reset_waits_for_what_was_sent_and_holds_what_is() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(Config { interleaving, ..with(ALL) });
        for (stream, len) in [(1, 10), (1, 3_000), (2, 10)] {
            pair.send(Client, stream, pattern(len));
        }
        let asked = pair.association(Client).reset_streams(outgoing(listed(&[1, 3])));
        assert_eq!(asked, Ok(()));
        for stream in [1, 2, 3] {
            pair.send(Client, stream, pattern(20));
        }
        pair.run(Duration::from_secs(1));
        assert_eq!(ssns(&pair, Client, 1), [0, 1, 1, 1, 0]);
        assert_eq!((ssns(&pair, Client, 2), ssns(&pair, Client, 3)), (vec![0, 1], vec![0]));
        let lens: Vec<_> = pair.read(Server, 1).iter().map(Vec::len).collect();
        assert_eq!(lens, [10, 3_000, 20]);
        let expected = |direction| [reset(direction, listed(&[1, 3]), Outcome::Done)];
        assert_eq!(told(&pair, Client), expected(Direction::Outgoing));
        assert_eq!(told(&pair, Server), expected(Direction::Incoming));
        let [asked, answered] = [reconfigs(&pair, Client), reconfigs(&pair, Server)];
        assert_eq!((asked.len(), answered.len()), (1, 1));
        let request = RequestNumber(pair.association(Client).initial_tsn.0);
        let last_tsn = Tsn(request.0).plus(5);
        let response = RequestNumber(pair.association(Server).initial_tsn.0).minus(1);
        let streams = vec![StreamId(1), StreamId(3)];
        assert_eq!(asked[0], [Reconfig::OutgoingReset { request, response, last_tsn, streams }]);
        let result = ReconfigResult::Performed;
        assert_eq!(answered[0], [Reconfig::Response { response: request, result, next_tsns: None }]);
        // Until it was answered, nothing of these streams left.
        let at = |side, is: &dyn Fn(&Chunk) -> bool| {
            pair.log.iter().rposition(|(_, from, packet)| *from == side && chunks(packet).iter().any(is))
        };
        let answer = at(Server, &|chunk| matches!(chunk, Chunk::Reconfig(_)));
        let after = at(Client, &|chunk| matches!(chunk, Chunk::Data(data) if data.stream.0 == 3));
        assert!(after > answer);
    }
}

//= specs/rfc6525.txt#section-5.2.3
//= type=test
//# An Outgoing SSN Reset Request Parameter MUST be put into a
//# RE-CONFIG chunk according to Section 5.1.2.
//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# If this Outgoing SSN Reset Request Parameter is sent in response
//# to an Incoming SSN Reset Request Parameter, the stream numbers
//# MUST be copied from the Incoming SSN Reset Request Parameter to
//# the Outgoing SSN Reset Request Parameter.  The Re-configuration
//# Response Sequence Number of the Outgoing SSN Reset Request
//# Parameter MUST be the Re-configuration Request Sequence Number
//# of the Incoming SSN Reset Request Parameter.
//= specs/rfc6525.txt#section-5.1.3
//= type=test
//# If the sender wants only some incoming streams to be
//# reset, these stream numbers MUST be filled in the Incoming SSN
//# Reset Request Parameter.
//= specs/rfc6525.txt#section-5.2.2
//= type=test
//# If the Re-configuration Timer is running for the
//# Re-configuration Request Sequence Number indicated in the
//# Re-configuration Response Sequence Number field, the
//# Re-configuration Request Sequence Number MUST be marked as
//# acknowledged.  If all Re-configuration Request Sequence Numbers
//# for which the Re-configuration Timer is running are
//# acknowledged, the Re-configuration Timer MUST be stopped.
#[test]
fn the_peers_streams_are_reset_by_the_peer() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(Config { interleaving, ..with(ALL) });
        for stream in [1, 2] {
            pair.send(Server, stream, pattern(3_000));
        }
        pair.run(Duration::from_secs(1));
        pair.clear_log();
        assert_eq!(pair.association(Client).reset_streams(incoming(listed(&[1]))), Ok(()));
        pair.run(Duration::from_secs(1));
        for stream in [1, 2] {
            pair.send(Server, stream, pattern(30));
        }
        pair.run(Duration::from_secs(1));
        assert_eq!((ssns(&pair, Server, 1), ssns(&pair, Server, 2)), (vec![0], vec![1]));
        assert_eq!((pair.read(Client, 1).len(), pair.read(Client, 2).len()), (2, 2));
        assert_eq!(told(&pair, Client), [reset(Direction::Incoming, listed(&[1]), Outcome::Done)]);
        assert_eq!(told(&pair, Server), [reset(Direction::Outgoing, listed(&[1]), Outcome::Done)]);
        // RFC 6525 Appendix A: the request in the other direction is the answer.
        let [asked, answered] = [reconfigs(&pair, Client), reconfigs(&pair, Server)];
        let Reconfig::IncomingReset { request, .. } = asked[0][0] else { panic!("{asked:?}") };
        let [Reconfig::OutgoingReset { response, streams, .. }] = &answered[0][..] else {
            panic!("{answered:?}")
        };
        assert_eq!((*response, &streams[..]), (request, &[StreamId(1)][..]));
        assert_eq!((asked.len(), answered.len()), (2, 1));
    }
}

//= specs/rfc6525.txt#section-5.1.2
//= type=test
//# If this Outgoing
//# SSN Reset Request Parameter is sent at the request of the upper
//# layer and the sender requests that all outgoing streams be
//# reset, stream numbers SHOULD NOT be put into the Outgoing SSN
//# Reset Request Parameter.
//= specs/rfc6525.txt#section-5.1.3
//= type=test
//# If the sender wants all incoming streams to be reset, stream
//# numbers SHOULD NOT be put into the Incoming SSN Reset Request
//# Parameter.
//= specs/rfc6525.txt#section-5.2.1
//= type=test
//# If multiple parameters have to be returned, they MUST
//# be put into one RE_CONFIG chunk.
//= specs/rfc6525.txt#section-5.2.2
//= type=test
//# If no stream numbers are listed in the parameter, then all
//# incoming streams MUST be reset to 0 as the next expected SSN.
//= specs/rfc6525.txt#section-5.2.1
//= type=test
//# Upon reception of a RE-CONFIG chunk, each parameter within it SHOULD
//# be processed.
#[test]
fn all_streams_of_both_directions_in_one_request() {
    let mut pair = Pair::up(with(ALL));
    for side in [Client, Server] {
        pair.send(side, 4, pattern(30));
    }
    pair.run(Duration::from_secs(1));
    pair.clear_log();
    let both = StreamReset { outgoing: Some(Streams::All), incoming: Some(Streams::All) };
    pair.association(Client).reset_streams(both).unwrap();
    pair.run(Duration::from_secs(1));
    for side in [Client, Server] {
        let mut told = told(&pair, side);
        told.sort_by_key(|event| matches!(event, Event::StreamReset { direction: Direction::Incoming, .. }));
        let expected =
            [Direction::Outgoing, Direction::Incoming].map(|way| reset(way, Streams::All, Outcome::Done));
        assert_eq!(told, expected);
        pair.send(side, 4, pattern(30));
    }
    pair.run(Duration::from_secs(1));
    assert_eq!((ssns(&pair, Client, 4), ssns(&pair, Server, 4)), (vec![0], vec![0]));
    // RFC 6525 Appendix A.
    let [asked, answered] = [reconfigs(&pair, Client), reconfigs(&pair, Server)];
    assert!(matches!(asked[0][..], [Reconfig::OutgoingReset { .. }, Reconfig::IncomingReset { .. }]));
    assert!(matches!(answered[0][..], [Reconfig::Response { .. }, Reconfig::OutgoingReset { .. }]));
    assert!(matches!(asked[1][..], [Reconfig::Response { .. }]));
    assert_eq!((asked.len(), answered.len()), (2, 1));
}

//= specs/rfc6525.txt#section-5.2.7
//= type=test
//# If the request was an SSN/TSN Reset Request, new data MUST be
//# sent from the Receiver's Next TSN, beginning with SSN 0 for all
//# outgoing streams.  All incoming streams MUST be reset to 0 as
//# the next expected SSN.
//= specs/rfc6525.txt#section-5.2.4
//= type=test
//# The next expected and outgoing SSNs MUST be reset to 0 for all
//# incoming and outgoing streams.
//= specs/rfc6525.txt#section-5.1.4
//= type=test
//# Only one SSN/TSN Reset Request SHOULD be sent within 30 seconds,
//# which is considered a maximum segment lifetime (the IP MSL).
//= specs/rfc6525.txt#section-5.1.4
//= type=test
//# The sender has either no outstanding TSNs or considers all
//# outstanding TSNs abandoned.  The sender MUST queue any user
//# data, suspending any new transmissions and TSN assignment until
//# the reset procedure is finished by the peer either acknowledging
//# or denying the request.
#[test]
fn an_association_reset_renumbers_everything_and_loses_nothing() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(Config { interleaving, ..with(ALL) });
        for side in [Client, Server] {
            for stream in 0..5 {
                pair.send(side, stream, pattern(20_000));
            }
        }
        let now = pair.now;
        pair.association(Client).reset_association(now).unwrap();
        for side in [Client, Server] {
            for stream in 0..5 {
                pair.send(side, stream, pattern(2_000));
            }
        }
        pair.run(Duration::from_secs(5));
        let first = Tsn(pair.association(Client).initial_tsn.0);
        for side in [Client, Server] {
            let sent = pair.data(side);
            let renumbered =
                sent.iter().position(|data| data.tsn.distance_from(first) >= 1 << 31 || side == Server);
            assert!(renumbered.is_some());
            let [Event::AssociationReset { outcome: Outcome::Done, .. }] = told(&pair, side)[..] else {
                panic!("{:?}", told(&pair, side))
            };
            for stream in 0..5 {
                let read: Vec<_> = pair.read(side, stream).iter().map(Vec::len).collect();
                assert_eq!(read, [20_000, 2_000]);
            }
        }
        // What left before the reset has the numbers of a first message; what left after has them again.
        for stream in 0..5 {
            assert!(ssns(&pair, Client, stream).iter().all(|ssn| *ssn == 0));
        }
        let now = pair.now;
        assert_eq!(pair.association(Client).reset_association(now), Err(ReconfigError::TooSoon));
        pair.run(Duration::from_secs(30));
        let now = pair.now;
        assert_eq!(pair.association(Client).reset_association(now), Ok(()));
        pair.association(Client).shutdown();
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    }
}

//= specs/rfc6525.txt#section-5.2.7
//= type=test
//# If the request was to add outgoing streams, the endpoint MUST
//# add the additional streams to the association.  Note that an
//# implementation may allocate the memory at the time of the
//# request, but it MUST NOT use the streams until the peer has
//# responded with a positive acknowledgment.
//= specs/rfc6525.txt#section-5.1.5
//= type=test
//# A new stream MUST use
//# SSN 0 for its first ordered message.
//= specs/rfc6525.txt#section-5.1.5
//= type=test
//# Upon sending the request,
//# the sender MUST await a positive acknowledgment (Success) before
//# using any additional stream added by this request.
//= specs/rfc6525.txt#section-5.1.6
//= type=test
//# A new stream MUST use SSN 0 for its first ordered
//# message.
//= specs/rfc6525.txt#section-5.2.5
//= type=test
//# If the response is successful,
//# the receiver MUST add the requested number of inbound streams to the
//# association, initializing the next expected SSN to 0.
//= specs/rfc6525.txt#section-5.2.6
//= type=test
//# When an SCTP endpoint receives a re-configuration request adding
//# additional incoming streams, it MUST either send a response parameter
//# denying the request or send a corresponding Add Outgoing Streams
//# Request Parameter, following the rules given in Section 5.1.5.
#[test]
fn streams_are_added_and_used_once_the_peer_agrees() {
    let mut pair = Pair::up(with(ALL));
    pair.association(Client).add_streams(2, 3).unwrap();
    let message = || Message::new(Ppid(0), pattern(10));
    assert_eq!(pair.association(Client).send(StreamId(6), message()), Err(SendError::NoSuchStream));
    pair.run(Duration::from_secs(1));
    assert_eq!(told(&pair, Client).last(), Some(&change(7, 8, Outcome::Done)));
    assert_eq!(told(&pair, Server).last(), Some(&change(8, 7, Outcome::Done)));
    pair.send(Client, 6, pattern(10));
    pair.send(Server, 7, pattern(10));
    assert_eq!(pair.association(Client).send(StreamId(7), message()), Err(SendError::NoSuchStream));
    pair.run(Duration::from_secs(1));
    assert_eq!((pair.read(Server, 6).len(), pair.read(Client, 7).len()), (1, 1));
    assert_eq!((ssns(&pair, Client, 6), ssns(&pair, Server, 7)), (vec![0], vec![0]));
}

//= specs/rfc6525.txt#section-5.2.5
//= type=test
//# The SCTP
//# endpoint SHOULD deny the request if the number of streams exceeds a
//# limit that should be configurable by the application.
//= specs/rfc6525.txt#section-5.2.6
//= type=test
//# The
//# SCTP endpoint SHOULD deny the request if the number of streams
//# exceeds a limit that should be configurable by the application.
#[test]
fn streams_are_added_up_to_the_limits_and_not_beyond() {
    let limits = Config { inbound_streams: 8, outbound_streams_max: 8, ..with(ALL) };
    for (asks, after) in [((3, 0), (8, 5)), ((4, 0), (5, 5)), ((0, 3), (5, 8)), ((0, 4), (5, 5))] {
        let mut pair = Pair::with(with(ALL), limits.clone());
        pair.run(Duration::from_secs(1));
        pair.association(Client).add_streams(asks.0, asks.1).unwrap();
        pair.run(Duration::from_secs(1));
        let stats = pair.association(Client).stats();
        assert_eq!((stats.outbound_streams, stats.inbound_streams), after, "{asks:?}");
        let outcome = if after == (5, 5) { Outcome::Denied } else { Outcome::Done };
        assert_eq!(told(&pair, Client), [change(after.0, after.1, outcome)]);
    }
    let mut pair = Pair::up(with(ALL));
    let client = pair.association(Client);
    assert_eq!(client.add_streams(65_531, 0), Err(ReconfigError::TooManyStreams));
    assert_eq!(client.add_streams(0, 65_531), Err(ReconfigError::TooManyStreams));
    assert_eq!(client.add_streams(0, 0), Err(ReconfigError::Nothing));
    let many: Vec<u16> = (0..1_452).map(|stream| stream % 5).collect();
    assert_eq!(client.reset_streams(outgoing(listed(&many))), Err(ReconfigError::TooManyStreams));
    assert_eq!(
        client.reset_streams(incoming(listed(&[4, 5]))),
        Err(ReconfigError::NoSuchStream(StreamId(5)))
    );
    assert_eq!(client.reset_streams(outgoing(listed(&[]))), Err(ReconfigError::Nothing));
    assert_eq!(client.reset_streams(outgoing(listed(&many[..650]))), Ok(()));
    assert_eq!(client.reset_streams(outgoing(Streams::All)), Err(ReconfigError::InProgress));
    pair.run(Duration::from_secs(1));
    assert_eq!(told(&pair, Client).len(), 1, "a list that fills a packet");
}

//= specs/rfc6525.txt#section-5.2.1
//= type=test
//# If for whatever reason the endpoint does not wish to process
//# a received request parameter, it MUST send a corresponding response
//# parameter as described in Section 5.1.7, with an appropriate Result
//# field.
#[test]
fn what_is_not_allowed_is_denied_and_nothing_changes() {
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
        // Once allowed, it is done.
        pair.association(Server).set_peer_may(ALL).unwrap();
        pair.association(Client).reset_streams(outgoing(Streams::All)).unwrap();
        pair.run(Duration::from_secs(1));
        let last = self::told(&pair, Client).pop();
        assert_eq!(last, Some(reset(Direction::Outgoing, Streams::All, Outcome::Done)));
    }
}

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
    let config = Config { association_max_retrans: 4, heartbeat_interval: None, ..with(ALL) };
    let config = Config { rto: Config::default().rto, ..config };
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

/// A server that is up, and the numbers of a client whose requests are forged.
fn forging() -> (Pair, RequestNumber, Tsn) {
    let mut pair = Pair::up(with(ALL));
    pair.run(Duration::from_secs(1));
    let (request, last_tsn) = numbers_of_client(&mut pair);
    pair.clear_log();
    (pair, request, last_tsn)
}

fn answers(pair: &mut Pair, asked: Vec<Reconfig>) -> Vec<Vec<Reconfig>> {
    pair.clear_log();
    pair.forge(&[Chunk::Reconfig(asked)]);
    reconfigs(pair, Server)
}

fn said(response: RequestNumber, result: ReconfigResult) -> Reconfig {
    Reconfig::Response { response, result, next_tsns: None }
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
fn a_reset_waits_for_what_was_sent_before_it_and_what_follows_waits_for_it() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(Config { interleaving, ..with(ALL) });
        let (request, last) = numbers_of_client(&mut pair);
        let data = |ahead: u32, stream: u16, number: u16| {
            let interleaved = interleaving.then_some(crate::wire::Interleaved { mid: number.into(), fsn: 0 });
            Chunk::Data(Data {
                begin: true,
                end: true,
                unordered: false,
                immediate: false,
                tsn: last.plus(ahead),
                stream: StreamId(stream),
                ssn: Ssn(if interleaving { 0 } else { number }),
                interleaved,
                ppid: Ppid(0),
                payload: vec![ahead as u8; 4].into(),
            })
        };
        pair.forge(&[data(1, 1, 0)]);
        let last_tsn = last.plus(3);
        let response = RequestNumber(0);
        let asked = vec![Reconfig::OutgoingReset { request, response, last_tsn, streams: vec![StreamId(1)] }];
        let in_progress = vec![vec![said(request, ReconfigResult::InProgress)]];
        assert_eq!(answers(&mut pair, asked.clone()), in_progress);
        // 2 and 3 are missing; 4 and 5 are of the reset stream and 6 is not.
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
fn parameters_that_cannot_stand_together_are_reported() {
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
    // While a request of ours is under way, the association is not renumbered.
    pair.drop = Some(Box::new(|side, _, packet| side == Server && has(packet, Chunk::RECONFIG)));
    pair.association(Server).add_streams(1, 0).unwrap();
    let request = request.next();
    let refused = answers(&mut pair, vec![Reconfig::AssociationReset { request }]);
    let refused: Vec<_> = refused.into_iter().flatten().collect();
    let in_progress = |parameter: &Reconfig| matches!(parameter, Reconfig::Response { response, result: RequestInProgress, next_tsns: Some(_) } if *response == request);
    assert!(refused.iter().any(in_progress), "{refused:?}");
    assert!(pair.association(Server).is_up());
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
    // A request that overlaps in part is done in its turn.
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
fn both_sides_cannot_renumber_at_once() {
    let mut pair = Pair::up(with(ALL));
    let now = pair.now;
    for side in [Client, Server] {
        pair.association(side).reset_association(now).unwrap();
        pair.send(side, 1, pattern(10));
    }
    pair.run(Duration::from_secs(3));
    for side in [Client, Server] {
        let [Event::AssociationReset { outcome, .. }] = told(&pair, side)[..] else { panic!() };
        assert_eq!(outcome, Outcome::Failed);
        assert_eq!(pair.read(side, 1).len(), 1);
    }
}

/// What is under way when TSNs begin anew may still arrive, and is not what it looks like.
#[test]
fn old_data_and_old_sacks_do_no_harm_after_a_renumbering() {
    for requester in [Client, Server] {
        let mut pair = Pair::up(with(ALL));
        for side in [Client, Server] {
            for _ in 0..20 {
                pair.send(side, 1, pattern(2_000));
            }
        }
        pair.run(Duration::from_secs(2));
        let old: Vec<_> = pair.log.iter().map(|(_, side, packet)| (*side, packet.clone())).collect();
        let now = pair.now;
        pair.association(requester).reset_association(now).unwrap();
        pair.run(Duration::from_secs(2));
        for side in [Client, Server] {
            pair.send(side, 1, pattern(30));
        }
        for (side, packet) in old {
            let mut builder = PacketBuilder::new();
            builder.begin(packet.header, 1_452);
            chunks(&packet).iter().for_each(|chunk| builder.push(chunk));
            builder.seal();
            let payload = builder.finish().unwrap().payload;
            let (client, server) = (client_address(), server_address());
            let (from, to) = if side == Client { (client, server) } else { (server, client) };
            let datagram = Datagram { from, to, ecn: Ecn::NotEct, payload };
            match side {
                Client => pair.server.handle(pair.now, datagram),
                Server => pair.client.handle(pair.now, datagram),
            }
            pair.run(Duration::from_millis(1));
        }
        pair.run(Duration::from_secs(2));
        for side in [Client, Server] {
            assert_eq!(pair.read(side, 1).len(), 21);
            assert!(pair.association(side).is_up());
        }
    }
}

/// The peer has renumbered its TSNs and says so, and its SHUTDOWN overtakes that.
#[test]
fn a_shutdown_that_overtakes_the_answer_to_a_renumbering_does_no_harm() {
    let mut pair = Pair::up(with(ALL));
    let mut dropped = false;
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client && has(packet, Chunk::RECONFIG) && !std::mem::replace(&mut dropped, true)
    }));
    let now = pair.now;
    pair.association(Server).reset_association(now).unwrap();
    pair.run(Duration::from_millis(15));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(10));
    for side in [Client, Server] {
        assert_eq!(pair.closed(side), Some(&Reason::Shutdown));
    }
}

#[test]
fn a_shutdown_waits_to_hear_whether_the_peer_has_renumbered() {
    let mut pair = Pair::up(with(ALL));
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Data::KIND)));
    pair.send(Client, 1, pattern(3_000));
    pair.run(Duration::from_millis(1));
    let now = pair.now;
    pair.association(Server).reset_association(now).unwrap();
    pair.run(Duration::from_millis(50));
    // The client answers once its data has arrived; what it sends from now on has new numbers.
    pair.send(Client, 1, pattern(20));
    pair.association(Server).shutdown();
    pair.run(Duration::from_millis(50));
    pair.drop = None;
    pair.run(Duration::from_secs(20));
    assert_eq!(pair.read(Server, 1).len(), 2);
    for side in [Client, Server] {
        assert_eq!(pair.closed(side), Some(&Reason::Shutdown));
    }
}

#[test]
fn an_answer_leaves_though_neither_its_path_nor_the_primary_one_is_confirmed() {
    let addresses = |host: u8| (1..3).map(|net| SocketAddr::from(([10, 0, net, host], 9_899))).collect();
    let mut pair = Pair::between([addresses(1), addresses(2)], with(ALL), with(ALL));
    // The client alone confirms no path.
    pair.drop = Some(Box::new(|side, _, packet| side == Server && has(packet, Chunk::HEARTBEAT_ACK)));
    pair.run(Duration::from_secs(1));
    for side in [Client, Server] {
        pair.association(side).set_primary(PathId(1)).unwrap();
    }
    pair.association(Server).add_streams(1, 0).unwrap();
    pair.run(Duration::from_secs(1));
    assert_eq!(told(&pair, Server), [change(6, 5, Outcome::Done)]);
}

#[test]
fn a_performed_renumbering_without_numbers_ends_the_association() {
    let mut pair = Pair::up(with(ALL));
    pair.drop = Some(Box::new(|_, _, packet| has(packet, Chunk::RECONFIG)));
    let now = pair.now;
    pair.association(Server).reset_association(now).unwrap();
    pair.send(Client, 0, pattern(1));
    pair.run(Duration::from_millis(100));
    let request = RequestNumber(pair.association(Server).initial_tsn.0);
    pair.forge(&[Chunk::Reconfig(vec![said(request, ReconfigResult::Performed)])]);
    assert!(matches!(pair.closed(Server), Some(Reason::PeerViolation(_))));
}

//= specs/rfc6525.txt#section-5.2.7
//= type=test
//# If the Result field indicates "In progress", the timer for the
//# Re-configuration Request Sequence Number is started again.  If
//# the timer runs out, the RE-CONFIG chunk MUST be retransmitted
//# but the corresponding error counters MUST NOT be incremented.
#[test]
fn a_peer_that_is_at_it_is_asked_again_and_not_given_up() {
    let config = Config { association_max_retrans: 1, heartbeat_interval: None, ..with(ALL) };
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
fn a_shutdown_ends_what_is_asked_for_and_loses_no_message() {
    let mut pair = Pair::up(with(ALL));
    pair.send(Client, 1, pattern(10));
    pair.association(Client).reset_streams(outgoing(Streams::All)).unwrap();
    pair.send(Client, 1, pattern(20));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.read(Server, 1).len(), 2);
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    // With nothing held back, it does not wait for an answer.
    let mut pair = Pair::up(with(ALL));
    pair.drop = Some(Box::new(|_, _, packet| has(packet, Chunk::RECONFIG)));
    pair.association(Client).add_streams(1, 1).unwrap();
    pair.run(Duration::from_millis(5));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    assert_eq!(told(&pair, Client), [change(5, 5, Outcome::Failed), change(5, 5, Outcome::Failed)]);
}

#[test]
fn what_came_is_acknowledged_before_all_tsns_begin_anew() {
    let mut pair = Pair::up(with(ALL));
    // The last chunk asks for no SACK at once.
    pair.association(Server).config = Arc::new(Config { immediate_at_end: false, ..with(ALL) });
    pair.send(Server, 0, "the first is answered at once");
    pair.run(Duration::from_millis(500));
    pair.send(Server, 1, "the second is not");
    while pair.read(Client, 1).is_empty() {
        let next = pair.now + Duration::from_millis(1);
        pair.run(next.since(pair.now));
    }
    assert!(pair.association(Client).state.up().unwrap().received.sack_may_ride(), "it waits");
    pair.clear_log();
    let now = pair.now;
    pair.association(Client).reset_association(now).unwrap();
    pair.run(Duration::from_millis(1));
    let chunks = pair.packets(Client).concat();
    assert!(matches!(chunks[..], [Chunk::Sack(_), Chunk::Reconfig(_)]), "{chunks:?}");
}
