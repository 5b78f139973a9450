//! Stream resets and additions between two endpoints, and against a forging peer (RFC 6525).

mod answers;
mod everything;
mod out_of_turn;
mod renumbering;
mod requests;

use super::*;
use crate::association::SendError;
use crate::association::reset::{Direction, Outcome, ReconfigError, StreamReset, Streams};
use crate::config::PeerMay;
use crate::ids::{PathId, RequestNumber, Ssn, Tsn};
use crate::wire::{Cause, NextTsns, Reconfig, ReconfigResult};

const ALL: PeerMay = PeerMay { reset_streams: true, reset_association: true, add_streams: true };

fn with(may: PeerMay) -> Config {
    modern().with(|c| {
        c.streams.reconfiguration = true;
        c.streams.peer_may = may;
        c.streams.outbound = 5;
    })
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

/// The number of a request.
fn request_of(parameter: &Reconfig) -> Option<RequestNumber> {
    match parameter {
        Reconfig::OutgoingReset { request, .. }
        | Reconfig::IncomingReset { request, .. }
        | Reconfig::AssociationReset { request }
        | Reconfig::AddOutgoing { request, .. }
        | Reconfig::AddIncoming { request, .. } => Some(*request),
        Reconfig::Response { .. } | Reconfig::Unknown { .. } => None,
    }
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
        let config = |listed| {
            modern().with(|c| {
                c.streams.reconfiguration = listed;
                c.streams.peer_may = ALL;
            })
        };
        let mut pair = Pair::with(config(client), config(server));
        assert_eq!(pair.association(Client).reset_streams(outgoing(Streams::All)), Err(ReconfigError::NotUp));
        pair.run(Duration::from_secs(1));
        let asked = pair.association(Client).reset_streams(outgoing(Streams::All));
        assert_eq!(asked, if client && server { Ok(()) } else { Err(ReconfigError::NotSupported) });
        let may = pair.association(Server).set_peer_may(ALL);
        assert_eq!(may.is_ok(), client && server);
        pair.run(Duration::from_secs(1));
        assert_eq!(reconfigs(&pair, Client).is_empty(), !(client && server));
        // Its parameters stand in no other chunk.
        for chunk in [Client, Server].map(|side| pair.packets(side).concat()).concat() {
            let (Chunk::Init(init) | Chunk::InitAck(init)) = chunk else { continue };
            assert!(init.parameters.iter().all(|parameter| !(13..=18).contains(&parameter.kind())));
        }
    }
}

#[test]
fn a_re_config_that_was_not_negotiated_is_skipped_as_unknown() {
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
fn an_outgoing_reset_waits_for_sent_data_and_holds_back_queued_data() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(with(ALL).with(|c| c.messages.interleaving = interleaving));
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
        let mut pair = Pair::up(with(ALL).with(|c| c.messages.interleaving = interleaving));
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
    let limits = with(ALL).with(|c| {
        c.streams.inbound = 8;
        c.streams.outbound_max = 8;
    });
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
