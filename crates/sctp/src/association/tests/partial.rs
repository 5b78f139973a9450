//! Partial reliability (RFC 3758; RFC 8260 §2.3.1): when messages are abandoned, the peer's reaction, and
//! the user's notifications.

mod forged;

use super::*;
use crate::association::{Abandoned, Order, Reliability, Violation};
use crate::ids::{Ssn, Tsn};
use crate::wire::{ForwardTsn, IForwardTsn, Parameter, SkippedMid};

fn partial() -> Config {
    rfc().with(|c| c.messages.partial_reliability = true)
}

fn interleaved() -> Config {
    partial().with(|c| c.messages.interleaving = true)
}

/// A FORWARD TSN to a TSN `ahead` of those that the server has.
fn forward(pair: &mut Pair, ahead: u32, streams: &[(u16, u16)]) -> Chunk {
    let new_cum_tsn = cum_tsn(pair, Server).plus(ahead);
    let streams = streams.iter().map(|(stream, ssn)| (StreamId(*stream), Ssn(*ssn))).collect();
    Chunk::ForwardTsn(ForwardTsn { new_cum_tsn, streams })
}

fn cum_tsn(pair: &mut Pair, side: Side) -> Tsn {
    pair.association(side).state.up().unwrap().received.cum_tsn()
}

fn init_parameters(pair: &Pair, kind: u8) -> Vec<Parameter> {
    let chunks = pair.log.iter().flat_map(|entry| chunks(&entry.2));
    let mut inits = chunks.filter_map(|chunk| match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) if kind == 1 || init.state_cookie().is_some() => Some(init),
        _ => None,
    });
    inits.next().unwrap().parameters
}

//= specs/rfc3758.txt#section-3.3.1
//= type=test
//# Note that if the endpoint chooses NOT to include the parameter, then
//# at no time during the life of the association can it send or process
//# a FORWARD TSN.  It MUST instead act as if it does NOT support the
//# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
//# FORWARD TSN.
//= specs/rfc3758.txt#section-3.3.2
//= type=test
//# Note that if the endpoint chooses NOT to include the parameter, then
//# at no time during the life of the association can it send or process
//# a FORWARD TSN.  It MUST instead act as if it does NOT support the
//# FORWARD TSN chunk, returning an ERROR to the peer upon receipt of any
//# FORWARD TSN.
//= specs/rfc3758.txt#section-3.3.3
//= type=test
//# When an SCTP endpoint that desires to use the FORWARD TSN chunk
//# feature for partially reliable data transfer receives an operational
//# error from the remote endpoint (either bundled with the COOKIE or as
//# an unrecognized parameter in the INIT-ACK), indicating that the
//# remote endpoint does not recognize the Forward-TSN-Supported
//# parameter, the local endpoint SHOULD inform its upper layer of the
//# remote endpoint's inability to support partially reliable data
//# transfer.
#[test]
fn forward_tsn_is_unknown_if_not_negotiated() {
    for (client, server) in [(partial(), rfc()), (rfc(), partial()), (rfc(), rfc())] {
        let mut pair = Pair::with(client, server);
        pair.run(Duration::from_millis(100));
        assert!(!pair.association(Server).extensions().unwrap().partial_reliability());
        pair.send(Client, 0, "a");
        pair.run(Duration::from_secs(1));
        pair.clear_log();
        let before = cum_tsn(&mut pair, Server);
        let chunk = forward(&mut pair, 5, &[(0, 1)]);
        pair.forge(std::slice::from_ref(&chunk));
        let error = Chunk::Error(vec![crate::wire::Cause::UnrecognizedChunkType(chunk.to_bytes())]);
        assert_eq!(pair.packets(Server), [vec![error]]);
        assert_eq!(cum_tsn(&mut pair, Server), before);
    }
}

//= specs/rfc3758.txt#section-3.3.2
//= type=test
//# When a receiver of an INIT detects a Forward-TSN-Supported parameter
//# and does not support the Forward-TSN chunk type, the receiver MUST
//# follow the rules defined in Section 3.3.3 of RFC 2960 [2].
//= specs/rfc3758.txt#section-3.3.2
//= type=test
//# When a receiver of an INIT-ACK detects a Forward-TSN-Supported
//# parameter and it does not support the Forward-TSN chunk type, the
//# receiver MUST follow the rules defined in Section 3.3.3 of RFC 2960
//# [2].
#[test]
fn the_parameter_is_reported_by_a_peer_without_support() {
    let mut pair = Pair::with(partial(), rfc());
    pair.run(Duration::from_millis(100));
    let report = Parameter::Unrecognized(Parameter::ForwardTsnSupported.to_report().unwrap());
    assert!(init_parameters(&pair, 2).contains(&report));
    let mut pair = Pair::with(rfc(), partial());
    pair.run(Duration::from_millis(100));
    assert_eq!(init_parameters(&pair, 1), []);
    let report = Parameter::ForwardTsnSupported.to_report().unwrap();
    let error = Chunk::Error(vec![crate::wire::Cause::UnrecognizedParameters(report)]);
    assert!(pair.packets(Client)[1].contains(&error));
    assert!(pair.association(Client).is_up());
}

#[test]
fn it_is_negotiated_by_a_parameter_and_listed() {
    let listed = |kinds: &'static [u8]| Parameter::SupportedExtensions(Bytes::from_static(kinds));
    for (config, kinds) in [(partial(), &[192][..]), (interleaved(), &[192, 64, 194])] {
        let mut pair = Pair::new(config);
        pair.run(Duration::from_millis(100));
        for kind in [1, 2] {
            let parameters = init_parameters(&pair, kind);
            assert_eq!(parameters[..2], [Parameter::ForwardTsnSupported, listed(kinds)]);
        }
        for side in [Client, Server] {
            assert!(pair.association(side).extensions().unwrap().partial_reliability());
        }
    }
}

//= specs/rfc8260.txt#section-2.3.1
//= type=test
//# If I-FORWARD-TSN support has been negotiated for an association, the
//# reception of a FORWARD-TSN chunk is a violation of the above rules
//# and therefore the receiver of the FORWARD-TSN chunk MUST abort the
//# association by sending an ABORT chunk.  The ABORT chunk MAY include
//# the 'Protocol Violation' error cause.
//= specs/rfc8260.txt#section-2.3.1
//= type=test
//# The FORWARD-TSN chunk MUST be used in combination with the DATA chunk
//# and MUST NOT be used in combination with the I-DATA chunk.  The
//# I-FORWARD-TSN chunk MUST be used in combination with the I-DATA chunk
//# and MUST NOT be used in combination with the DATA chunk.
#[test]
fn a_forward_tsn_of_the_wrong_form_ends_the_association() {
    let mut pair = Pair::up(interleaved());
    let chunk = forward(&mut pair, 1, &[]);
    pair.forge(&[chunk]);
    assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::WrongForwardTsn)));
    // Also if only one side supports interleaving.
    let mut pair = Pair::with(partial(), interleaved());
    pair.run(Duration::from_millis(100));
    let new_cum_tsn = cum_tsn(&mut pair, Server).next();
    pair.forge(&[Chunk::IForwardTsn(IForwardTsn { new_cum_tsn, streams: vec![] })]);
    assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::WrongForwardTsn)));
    // A chunk type that a side without I-DATA does not know.
    let mut pair = Pair::up(partial());
    let new_cum_tsn = cum_tsn(&mut pair, Server).next();
    let chunk = Chunk::IForwardTsn(IForwardTsn { new_cum_tsn, streams: vec![] });
    pair.forge(std::slice::from_ref(&chunk));
    let error = Chunk::Error(vec![crate::wire::Cause::UnrecognizedChunkType(chunk.to_bytes())]);
    assert_eq!(pair.packets(Server), [vec![error]]);
}

#[test]
fn forward_tsn_advances_by_a_window_at_most() {
    let window = rfc().memory.receive_buffer_bytes as u32;
    for (ahead, is_taken) in [(window, true), (window + 1, false), (i32::MAX as u32, false)] {
        let mut pair = Pair::up(partial());
        let before = cum_tsn(&mut pair, Server);
        let chunk = forward(&mut pair, ahead, &[]);
        pair.forge(&[chunk]);
        if is_taken {
            assert_eq!(cum_tsn(&mut pair, Server), before.plus(ahead));
            assert_eq!(pair.sacks(Server).len(), 1, "the first of all is answered at once");
        } else {
            let violation = Violation::ForwardTsnTooFar(before.plus(ahead));
            assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(violation)));
        }
    }
}

#[test]
fn forward_tsn_may_arrive_first_and_name_streams_that_do_not_exist() {
    let config = partial().with(|c| c.streams.inbound = 4);
    let mut pair = Pair::up(config);
    let chunk = forward(&mut pair, 2, &[(4, 0), (3, 1), (65_535, 9)]);
    pair.forge(&[chunk]);
    let tsn = cum_tsn(&mut pair, Server).next();
    let data = |flags: u8, ssn| Data {
        begin: flags & 2 != 0,
        end: flags & 1 != 0,
        stream: StreamId(3),
        ssn: Ssn(ssn),
        ..Data::whole(tsn, b"x")
    };
    pair.forge(&[Chunk::Data(data(3, 2))]);
    assert_eq!(pair.read(Server, 3), [b"x"]);
    assert!(pair.closed(Server).is_none());
}

#[test]
fn i_forward_tsn_skips_messages_of_either_order() {
    //= specs/rfc8260.txt#section-2
    //= type=test
    //# If an SCTP implementation supports user message interleaving and the
    //# Partial Reliability extension described in [RFC3758] or the Stream
    //# Reconfiguration Extension described in [RFC6525], it is REQUIRED to
    //# implement the corresponding changes specified in Section 2.3.
    let mut pair = Pair::up(interleaved());
    let tsn = cum_tsn(&mut pair, Server);
    let data = |ahead: u32, unordered: bool, mid: u32, flags: u8| {
        Chunk::Data(Data {
            begin: flags & 2 != 0,
            end: flags & 1 != 0,
            unordered,
            stream: StreamId(1),
            interleaved: Some(crate::wire::Interleaved { mid, fsn: u32::from(flags & 2 == 0) }),
            ..Data::whole(tsn.plus(ahead), b"x")
        })
    };
    pair.forge(&[data(2, false, 0, 1), data(4, true, 0, 2), data(5, false, 1, 3)]);
    assert_eq!(pair.read(Server, 1).len(), 0);
    let skipped = |unordered, mid| SkippedMid { stream: StreamId(1), unordered, mid };
    let streams = vec![skipped(false, 0), skipped(true, 0)];
    pair.forge(&[Chunk::IForwardTsn(IForwardTsn { new_cum_tsn: tsn.plus(4), streams })]);
    assert_eq!(pair.read(Server, 1).len(), 1);
    assert_eq!(cum_tsn(&mut pair, Server), tsn.plus(5));
    assert_eq!(pair.association(Server).inbound.charged_bytes(), 0);
}

/// Linux 6.1 lists I-DATA and FORWARD TSN, and then sends the unlisted I-FORWARD-TSN.
#[test]
fn an_unlisted_i_forward_tsn_is_processed() {
    for (lists_forward_tsn, is_heard) in [(true, true), (false, false)] {
        let mut pair = Pair::up(interleaved());
        let crate::association::State::Up(up) = &mut pair.association(Server).state else {
            panic!("it is up")
        };
        up.extensions.i_forward_tsn = false;
        up.extensions.forward_tsn = lists_forward_tsn;
        let before = cum_tsn(&mut pair, Server);
        pair.forge(&[Chunk::IForwardTsn(IForwardTsn { new_cum_tsn: before.plus(3), streams: vec![] })]);
        let after = if is_heard { before.plus(3) } else { before };
        assert_eq!(cum_tsn(&mut pair, Server), after, "FORWARD TSN listed: {lists_forward_tsn}");
        assert!(pair.closed(Server).is_none());
    }
}

//= specs/rfc3758.txt#section-3.6
//= type=test
//# Note that after receiving a FORWARD TSN and updating the cumulative
//# acknowledgement point, if a TSN that was skipped does arrive (i.e.,
//# due to network reordering), then the receiver will follow the normal
//# rules defined in RFC 2960 [2] for handling duplicate data.
//= specs/rfc3758.txt#section-3.6
//= type=test
//# DATA chunk arrival at a PR-SCTP receiver proceeds exactly as for DATA
//# chunk arrival at a base protocol SCTP receiver---that is, the
//# receiver MUST perform the same TSN handling, including duplicate
//# detection, gap detection, SACK generation, cumulative TSN
//# advancement, etc. as defined in RFC 2960 [2]---with the following
//# exceptions and additions.
#[test]
fn a_skipped_tsn_that_arrives_later_is_a_duplicate() {
    let mut pair = Pair::up(partial());
    let chunk = forward(&mut pair, 2, &[(0, 1)]);
    pair.forge(&[chunk]);
    pair.clear_log();
    pair.send(Client, 0, "late");
    pair.run(Duration::from_millis(20));
    let (_, sack) = &pair.sacks(Server)[0];
    assert_eq!(sack.dups, [sack.cum_tsn_ack.minus(1)]);
    assert_eq!(pair.association(Server).stats().duplicates, 1);
    assert_eq!(pair.read(Server, 0).len(), 0);
}

// The sender.

fn send_with(pair: &mut Pair, stream: u16, len: usize, reliability: Reliability) {
    let message = Message { reliability, context: 7, ..Message::new(Ppid(9), pattern(len)) };
    pair.association(Client).send(StreamId(stream), message).unwrap();
}

/// The FORWARD TSNs or I-FORWARD-TSNs that the client sent since the log was cleared.
fn forwards(pair: &Pair) -> Vec<Chunk> {
    let forward = |chunk: &Chunk| matches!(chunk, Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_));
    pair.packets(Client).into_iter().flatten().filter(forward).collect()
}

fn abandoned(pair: &Pair) -> Vec<Abandoned> {
    let events = pair.events(Client).iter();
    events.filter_map(|event| if let Event::Abandoned(it) = event { Some(*it) } else { None }).collect()
}

/// Loses the client's packets that contain messages of this size.
fn lose(pair: &mut Pair, len: usize) {
    pair.drop = Some(Box::new(move |side, _, packet| {
        let hit = |chunk: &Chunk| matches!(chunk, Chunk::Data(data) if data.payload.len() == len);
        side == Client && chunks(packet).iter().any(hit)
    }));
}

//= specs/rfc3758.txt#section-3.4
//= type=test
//# At some point, a sending PR-SCTP implementation MAY determine that a
//# particular data chunk SHOULD NOT be transmitted or retransmitted
//# further, in accordance with the rules governing some particular PR-
//# SCTP service definition (such as the definition of "timed
//# reliability" in Section 4.1.)
//= specs/rfc3758.txt#section-3.5
//= type=test
//# A2) From time to time, as governed by the rules of a particular PR-
//# SCTP service definition (see Section 4), the SCTP data sender may
//# make a determination that a particular data chunk that has
//# already been assigned a TSN SHOULD be "abandoned".
//= specs/rfc3758.txt#section-4.1
//= type=test
//# TR4) Before transmitting or retransmitting a message for which a TSN
//# is already assigned, the SCTP sender MUST evaluate the lifetime
//# of the message.  If the lifetime of the message is expired, the
//# SCTP sender MUST "abandon" the message, as per the rules
//# specified in Section 3.5 marking that TSN as eligible for
//# forward TSN.
//= specs/rfc3758.txt#section-4.1
//= type=test
//# TR2) If the lifetime parameter is not SCTP_LIFETIME_RELIABLE (see
//# Section 5), then the SCTP sender MUST treat the message just as
//# if it were a normal reliable SCTP message, as long as the
//# lifetime has not yet expired.
#[test]
fn an_expired_lifetime_ends_retransmissions() {
    for (lifetime, copies) in [(500, 1), (1_500, 2), (100_000, 9)] {
        let mut pair = Pair::up(partial());
        lose(&mut pair, 50);
        send_with(&mut pair, 3, 50, Reliability::Lifetime(Duration::from_millis(lifetime)));
        pair.send(Client, 3, "next");
        // RTO.Min is one second, the next RTO two.
        pair.run(Duration::from_millis(100));
        assert_eq!(pair.read(Server, 3), [] as [Vec<u8>; 0], "it waits for what is missing");
        pair.run(Duration::from_secs(if copies == 9 { 300 } else { 5 }));
        let sent = pair.data(Client).iter().filter(|data| data.payload.len() == 50).count();
        if copies == 9 {
            assert!(sent > 6 && forwards(&pair).len() == 1, "{sent}");
        } else {
            assert_eq!(sent, copies, "within {lifetime} ms");
        }
        let expected = Abandoned {
            stream: StreamId(3),
            ppid: Ppid(9),
            order: Order::Ordered,
            context: 7,
            was_sent: true,
        };
        assert_eq!(abandoned(&pair), [expected]);
        assert_eq!(pair.read(Server, 3), [b"next"]);
        let stats = pair.association(Client).stats();
        assert_eq!((stats.abandoned_sent, stats.abandoned_unsent, stats.outstanding_bytes), (1, 0, 0));
        assert_eq!(pair.association(Client).send_room(), Pair::up(partial()).association(Client).send_room());
    }
}

//= specs/rfc3758.txt#section-3.5
//= type=test
//# C4) For each "abandoned" TSN, the sender of the FORWARD TSN MUST
//# determine if the chunk has a valid stream and sequence number
//# (i.e., it was ordered).  If the chunk has a valid stream and
//# sequence number, the sender MUST include the stream and
//# sequence number in the FORWARD TSN.
//= specs/rfc3758.txt#section-3.2
//= type=test
//# This field MUST NOT report TSN's corresponding
//# to DATA chunks that are marked as unordered.  For ordered DATA
//# chunks this field MUST be filled in.
#[test]
fn forward_tsn_names_each_stream_once_and_unordered_messages_never() {
    let mut pair = Pair::up(partial());
    lose(&mut pair, 50);
    let tsn = pair.association(Client).state.up().unwrap().sent.next_tsn();
    for stream in [4, 2, 4, 4] {
        send_with(&mut pair, stream, 50, Reliability::Retransmissions(0));
    }
    let message = Message { order: Order::Unordered, ..Message::new(Ppid(0), pattern(50)) };
    let message = Message { reliability: Reliability::Retransmissions(0), ..message };
    pair.association(Client).send(StreamId(5), message).unwrap();
    pair.run(Duration::from_secs(2));
    let streams = vec![(StreamId(4), Ssn(2)), (StreamId(2), Ssn(0))];
    let expected = Chunk::ForwardTsn(ForwardTsn { new_cum_tsn: tsn.plus(4), streams });
    assert_eq!(forwards(&pair), [expected]);
    assert_eq!(pair.data(Client).len(), 5);
}

//= specs/rfc8260.txt#section-2.3.1
//= type=test
//# When the SCTP extension defined in [RFC3758] is used in combination
//# with the user message interleaving extension, the new I-FORWARD-TSN
//# chunk MUST be used instead of the FORWARD-TSN chunk.
#[test]
fn i_forward_tsn_names_streams_by_order() {
    let mut pair = Pair::up(interleaved());
    lose(&mut pair, 50);
    let tsn = pair.association(Client).state.up().unwrap().sent.next_tsn();
    for order in [Order::Ordered, Order::Unordered, Order::Unordered] {
        let message = Message { order, ..Message::new(Ppid(0), pattern(50)) };
        let message = Message { reliability: Reliability::Retransmissions(0), ..message };
        pair.association(Client).send(StreamId(5), message).unwrap();
    }
    pair.run(Duration::from_secs(2));
    let skipped = |unordered, mid| SkippedMid { stream: StreamId(5), unordered, mid };
    let streams = vec![skipped(false, 0), skipped(true, 1)];
    let expected = Chunk::IForwardTsn(IForwardTsn { new_cum_tsn: tsn.plus(2), streams });
    assert_eq!(forwards(&pair), [expected]);
}

//= specs/rfc3758.txt#section-4.1
//= type=test
//# TR3) Before assigning a TSN to any message, the SCTP sender MUST
//# evaluate the lifetime of that message.  If it is expired, the
//# SCTP sender MUST NOT assign a TSN to that message, but instead,
//# SHOULD issue a notification to the upper layer and abandon the
//# message.
//= specs/rfc3758.txt#section-4.1
//= type=test
//# IMPLEMENTATION NOTE: An implementation SHOULD
//# delay TSN assignment as mentioned in RFC 2960 [2] Section 10.1.
#[test]
fn expired_messages_get_no_tsn() {
    // The peer's agreement is not needed: it is not informed.
    for config in [partial(), rfc()] {
        let mut pair = Pair::up(config);
        pair.latency = Duration::from_millis(100);
        // More than the initial window.
        pair.send(Client, 0, pattern(20_000));
        send_with(&mut pair, 1, 50, Reliability::Lifetime(Duration::from_millis(150)));
        pair.send(Client, 1, "last");
        let tsn = pair.association(Client).state.up().unwrap().sent.next_tsn();
        pair.run(Duration::from_secs(5));
        assert_eq!(abandoned(&pair).iter().map(|it| it.was_sent).collect::<Vec<_>>(), [false]);
        let (data, stats) = (pair.data(Client), pair.association(Client).stats());
        assert_eq!(data.last().unwrap().tsn.distance_from(tsn) as usize, data.len() - 1);
        assert_eq!((stats.abandoned_unsent, forwards(&pair).len()), (1, 0));
        assert_eq!(pair.read(Server, 1), [b"last"]);
    }
}

#[test]
fn a_message_abandoned_during_the_handshake_is_not_sent_with_the_cookie() {
    let mut pair = Pair::new(partial());
    send_with(&mut pair, 0, 50, Reliability::Lifetime(Duration::from_millis(15)));
    pair.send(Client, 0, "rides");
    pair.run(Duration::from_millis(200));
    assert_eq!((abandoned(&pair).len(), pair.data(Client).len()), (1, 1));
    assert_eq!(pair.read(Server, 0), [b"rides"]);
}

// Trap: FORWARD TSN must end at an E bit; otherwise the following chunk is taken for the rest of the message.
//= specs/rfc3758.txt#section-3.5
//= type=test
//# A3) When a TSN is "abandoned", if it is part of a fragmented message,
//# all other TSN's within that fragmented message MUST be abandoned
//# at the same time.
#[test]
fn trap_an_abandoned_partly_sent_message_ends_where_a_message_ends() {
    for config in [partial(), interleaved()] {
        let mut pair = Pair::up(config);
        pair.latency = Duration::from_millis(100);
        // All sent chunks arrive and are acknowledged; the others expire before they are sent.
        send_with(&mut pair, 1, 100_000, Reliability::Lifetime(Duration::from_millis(350)));
        pair.run(Duration::from_millis(120));
        pair.send(Client, 1, "next");
        pair.send(Client, 2, "other");
        pair.run(Duration::from_secs(3));
        assert_eq!(abandoned(&pair).iter().map(|it| it.was_sent).collect::<Vec<_>>(), [true]);
        assert!(pair.data(Client).len() > 5 && !forwards(&pair).is_empty());
        assert_eq!(pair.read(Server, 1), [b"next"]);
        assert_eq!(pair.read(Server, 2), [b"other"]);
        assert_eq!(pair.association(Server).inbound.charged_bytes(), 0);
        assert!(pair.closed(Server).is_none());
    }
}

// Trap: an abandoned chunk must not stay in flight, nor be retransmitted without its bytes.
//= specs/rfc3758.txt#section-3.5
//= type=test
//# When a data chunk is "abandoned", the sender MUST treat the data
//# chunk as being finally acked and no longer outstanding.
//= specs/rfc3758.txt#section-3.5
//= type=test
//# The sender MUST NOT credit an "abandoned" data chunk to the
//# partial_bytes_acked as defined in Section 7.2.2 of RFC 2960 [2],
//# and MUST NOT advance the cwnd based on this "abandoned" data
//# chunk.
//= specs/rfc3758.txt#section-4.3
//= type=test
//# (G1) When the sender side implementation gives up on transmitting a
//# message that has been assigned a TSN (i.e., when that message is
//# "abandoned", as defined in Section 3.4), the sender side MUST
//# mark that TSN as eligible for forward TSN, and the rules in
//# Section 3.4 regarding the sending of FORWARD TSN chunks MUST be
//# followed.
//= specs/rfc3758.txt#section-3.5
//= type=test
//# F5) If the decision to "abandon" a chunk is made, no matter how such
//# a decision is made, the appropriate congestion adjustment MUST be
//# made as specified in RFC 2960 if the chunk would have been marked
//# for retransmission later (e.g., either by T3-Timeout or by Fast
//# Retransmit).
#[test]
fn trap_abandoned_chunks_are_removed_from_flight_and_window() {
    let mut pair = Pair::up(partial());
    pair.send(Client, 0, pattern(40_000));
    pair.run(Duration::from_secs(3));
    let before = pair.association(Client).stats().paths[0].cwnd;
    lose(&mut pair, 1_400);
    for _ in 0..4 {
        send_with(&mut pair, 0, 1_400, Reliability::Retransmissions(0));
    }
    pair.run(Duration::from_millis(1_500));
    assert_eq!(abandoned(&pair).len(), 4);
    let path = pair.association(Client).stats().paths[0].clone();
    let mtu = rfc().path_mtu.packet_bytes;
    assert_eq!((path.flight_bytes, path.timeouts), (0, 1));
    assert!(path.cwnd <= mtu, "the time-out counts: {} of {before}", path.cwnd);
    pair.clear_log();
    pair.send(Client, 0, pattern(30_000));
    pair.run(Duration::from_secs(3));
    assert!(pair.data(Client).iter().all(|data| !data.payload.is_empty()));
    assert_eq!(pair.read(Server, 0).last().unwrap().len(), 30_000);
}

//= specs/rfc3758.txt#section-3.5
//= type=test
//# F2) The data sender SHOULD always attempt to bundle an outgoing
//# FORWARD TSN with outbound DATA chunks for efficiency.
//= specs/rfc3758.txt#section-3.5
//= type=test
//# C3) If, after step C1 and C2, the "Advanced.Peer.Ack.Point" is
//# greater than the Cumulative TSN ACK carried in the received
//# SACK, the data sender MUST send the data receiver a FORWARD
//# TSN chunk containing the latest value of the
//# "Advanced.Peer.Ack.Point".
//= specs/rfc3758.txt#section-3.5
//= type=test
//# A4) Whenever the data sender receives a SACK from the data receiver,
//# it MUST first process the SACK using the normal procedures as
//# defined in Section 6.2.1 of RFC 2960 [2].
//= specs/rfc3758.txt#section-3.5
//= type=test
//# The data sender MUST then perform the following additional steps:
//= specs/rfc3758.txt#section-3.5
//= type=test
//# F3) Any delay applied to the sending of FORWARD TSN chunk SHOULD NOT
//# exceed 200ms and MUST NOT exceed 500ms.  In other words, an
//# implementation MAY lower this value below 500ms but MUST NOT
//# raise it above 500ms.
//= specs/rfc3758.txt#section-3.2
//= type=test
//# This chunk shall be used by the data sender to inform the data
//# receiver to adjust its cumulative received TSN point forward because
//# some missing TSNs are associated with data chunks that SHOULD NOT be
//# transmitted or retransmitted by the sender.
#[test]
fn a_loss_detected_by_gap_blocks_is_abandoned_and_forward_tsn_is_bundled_with_data() {
    let mut pair = Pair::up(partial());
    lose(&mut pair, 1_300);
    send_with(&mut pair, 0, 1_300, Reliability::Retransmissions(0));
    for _ in 0..12 {
        pair.send(Client, 1, pattern(1_200));
    }
    pair.run(Duration::from_millis(90));
    assert_eq!(abandoned(&pair).len(), 1, "before any time-out");
    let packets = pair.packets(Client);
    let first = packets.iter().position(|packet| matches!(packet[0], Chunk::ForwardTsn(_))).unwrap();
    assert!(matches!(packets[first][1], Chunk::Data(_)), "{:?}", packets[first]);
    let clients = pair.log.iter().filter(|entry| entry.1 == Client);
    let at = clients.map(|entry| entry.0).nth(first).unwrap();
    let third_miss = pair.sacks(Server)[2].0 + pair.latency;
    assert_eq!(at, third_miss, "at once");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 1).len(), 12);
    let path = pair.association(Client).stats().paths[0].clone();
    assert_eq!((path.timeouts, path.retransmitted_chunks, path.fast_retransmits), (0, 0, 1));
}

//= specs/rfc3758.txt#section-3.5
//= type=test
//# C5) If a FORWARD TSN is sent, the sender MUST assure that at
//# least one T3-rtx timer is running.
//= specs/rfc3758.txt#section-3.5
//= type=test
//# A5) Any time the T3-rtx timer expires, on any destination, the sender
//# SHOULD try to advance the "Advanced.Peer.Ack.Point" by following
//# the procedures outlined in C2 - C5.
#[test]
fn forward_tsn_is_repeated_until_acknowledged() {
    let mut pair = Pair::up(partial());
    pair.drop = Some(Box::new(|side, nth, packet| {
        side == Client && (nth < 8 || !has(packet, ForwardTsn::KIND)) && !has(packet, Chunk::COOKIE_ECHO)
    }));
    send_with(&mut pair, 0, 50, Reliability::Retransmissions(0));
    pair.run(Duration::from_secs(40));
    assert!(forwards(&pair).len() > 2, "{}", forwards(&pair).len());
    let stats = pair.association(Client).stats();
    assert_eq!((stats.outstanding_bytes, stats.paths[0].flight_bytes), (0, 0));
    let up = pair.association(Client).state.up().unwrap();
    assert!(up.sent.is_empty() && up.errors == 0);
    // To a peer that is gone it is sent for a limited time.
    pair.drop = Some(Box::new(|side, _, _| side == Client));
    send_with(&mut pair, 0, 50, Reliability::Retransmissions(0));
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
}

//= specs/rfc3758.txt#section-3.5
//= type=test
//# Each stream SHOULD only be
//# reported once; this means that if multiple abandoned messages
//# occur in the same stream, then only the highest abandoned
//# stream sequence number is reported.  If the total size of the
//# FORWARD TSN does NOT fit in a single MTU, then the sender of
//# the FORWARD TSN SHOULD lower the Advanced.Peer.Ack.Point to
//# the last TSN that will fit in a single MTU.
#[test]
fn forward_tsn_entries_that_do_not_fit_one_packet_are_sent_in_several() {
    for config in [partial(), interleaved()] {
        let small = config.with(|c| {
            c.path_mtu.packet_bytes = 512;
            c.congestion.max_burst = None;
            c.streams.outbound = 500;
            c.streams.inbound = 500;
        });
        let mut pair = Pair::up(small);
        pair.send(Client, 0, pattern(200_000));
        pair.run(Duration::from_secs(3));
        lose(&mut pair, 5);
        for stream in 0..500 {
            send_with(&mut pair, stream, 5, Reliability::Retransmissions(0));
        }
        pair.send(Client, 499, "last");
        pair.run(Duration::from_secs(3));
        assert_eq!(abandoned(&pair).len(), 500);
        let room = 512 - Header::LEN;
        let forwards = forwards(&pair);
        assert!(forwards.iter().all(|chunk| chunk.padded_len() <= room));
        assert!(forwards.len() >= 500 * 4 / room, "{}", forwards.len());
        assert_eq!(pair.read(Server, 499), [b"last"]);
    }
}

//= specs/rfc3758.txt#section-3.3.2
//= type=test
//# o  MUST NOT send a FORWARD TSN chunk at any time during the
//# associations life,
//= specs/rfc3758.txt#section-3.3.3
//= type=test
//# 2) continue the initiation process (in cases where the initiation
//# process has already completed, the endpoint MUST just mark the
//# association as not supporting partial reliability), but with the
//# understanding that partially reliable data transmission is not
//# supported.
//= specs/rfc3758.txt#section-4.1
//= type=test
//# However, in the base
//# protocol, if SCTP has sent the first transmission before the lifetime
//# expires, then the message MUST be sent as a normal reliable message.
//= specs/rfc3758.txt#section-3.3.3
//= type=test
//# In this case, the endpoint receiving the operational
//# error SHOULD note that the FORWARD TSN chunk is not supported, and
//# MUST NOT transmit a FORWARD TSN chunk at any time during the life
//# of the association.
#[test]
fn without_negotiation_sent_messages_are_reliable() {
    for reliability in [
        Reliability::Lifetime(Duration::from_millis(1)),
        Reliability::Retransmissions(0),
        Reliability::Priority(9),
    ] {
        let mut pair = Pair::with(partial(), rfc());
        pair.run(Duration::from_millis(100));
        pair.clear_log();
        let mut lost = 0;
        pair.drop = Some(Box::new(move |side, _, packet| {
            lost += u32::from(side == Client && has(packet, Data::KIND));
            side == Client && lost <= 2
        }));
        send_with(&mut pair, 0, 50, reliability);
        pair.run(Duration::from_secs(10));
        assert_eq!((pair.read(Server, 0).len(), forwards(&pair).len(), abandoned(&pair).len()), (1, 0, 0));
    }
}

#[test]
fn a_full_buffer_accepts_a_message_of_higher_priority() {
    let mut pair = Pair::up(partial().with(|c| c.memory.send_buffer_bytes = 10_000));
    pair.drop = Some(Box::new(|_, _, _| true));
    for priority in [3, 1, 2] {
        send_with(&mut pair, 0, 3_000, Reliability::Priority(priority));
        pair.run(Duration::from_millis(1));
    }
    let send = |pair: &mut Pair, len: usize, reliability| {
        let message = Message { reliability, ..Message::new(Ppid(0), pattern(len)) };
        let sent = pair.association(Client).send(StreamId(1), message);
        pair.run(Duration::from_millis(1));
        (sent.is_ok(), abandoned(pair).len())
    };
    // The first message is sent, the others are queued.
    assert_eq!(send(&mut pair, 2_500, Reliability::Priority(3)), (false, 0), "nothing is less important");
    assert_eq!(send(&mut pair, 2_500, Reliability::Priority(2)), (true, 1));
    assert_eq!(send(&mut pair, 9_500, Reliability::Priority(1)), (false, 1), "it would not be enough");
    assert_eq!(send(&mut pair, 2_500, Reliability::Full), (true, 2));
    let gone: Vec<_> = abandoned(&pair).iter().map(|it| it.was_sent).collect();
    assert_eq!(gone, [true, false]);
    pair.drop = None;
    pair.run(Duration::from_secs(10));
    assert_eq!((pair.read(Server, 0).len(), pair.read(Server, 1).len()), (1, 2));
}

//= specs/rfc3758.txt#section-3.5
//= type=test
//# F1) An endpoint MUST NOT use the FORWARD TSN for any purposes other
//# than circumstances described in this document.
//= specs/rfc3758.txt#section-4.1
//= type=test
//# TR1) If the lifetime parameter of a message is SCTP_LIFETIME_RELIABLE
//# (or unspecified see Section 5), that message is treated as a
//# normal reliable SCTP message, just as in the base SCTP protocol.
#[test]
fn reliable_messages_are_never_abandoned() {
    let mut pair = Pair::up(partial()).seeded(3);
    pair.loss = 100;
    for _ in 0..50 {
        pair.send(Client, 0, pattern(2_000));
    }
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 50));
    assert!(pair.association(Client).stats().paths[0].retransmitted_chunks > 3);
    assert_eq!((forwards(&pair).len(), abandoned(&pair).len()), (0, 0));
}

#[test]
fn a_shutdown_waits_until_forward_tsn_is_acknowledged() {
    let mut pair = Pair::up(partial());
    lose(&mut pair, 50);
    send_with(&mut pair, 0, 50, Reliability::Retransmissions(0));
    pair.run(Duration::from_millis(5));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
    assert_eq!((forwards(&pair).len(), abandoned(&pair).len()), (1, 1));
}

//= specs/rfc3758.txt#section-3.5
//= type=test
//# F4) The detection criterion for out-of-order SACKs MUST remain the
//# same as stated in RFC 2960, that is, a SACK is only considered
//# out-of-order if the Cumulative TSN ACK carried in the SACK is
//# earlier than that of the previous received SACK (i.e., the
//# comparison MUST NOT be made against "Advanced.Peer.Ack.Point").
#[test]
fn a_sack_below_abandoned_chunks_still_counts() {
    let mut pair = Pair::up(partial());
    pair.drop = Some(Box::new(|side, _, packet| {
        let hit = |chunk: &Chunk| matches!(chunk, Chunk::Data(data) if data.payload.len() == 50);
        let forward = has(packet, ForwardTsn::KIND);
        side == Client && (forward || chunks(packet).iter().any(hit))
    }));
    send_with(&mut pair, 0, 50, Reliability::Retransmissions(0));
    pair.run(Duration::from_millis(1_200));
    let before = pair.association(Client).stats();
    pair.send(Client, 1, "x");
    pair.run(Duration::from_millis(300));
    let after = pair.association(Client).stats();
    assert_eq!(
        (before.outstanding_bytes, after.outstanding_bytes),
        (0, 0),
        "a gap block has acknowledged it"
    );
    assert_eq!(abandoned(&pair).len(), 1);
}

//= specs/rfc3758.txt#section-3.5
//= type=test
//# IMPLEMENTATION NOTE: It is an implementation decision as to
//# which destination address it is to be sent to, the only
//# restriction being that the address MUST be one that is
//# CONFIRMED.
#[test]
fn an_unanswered_forward_tsn_uses_another_path_once_confirmed() {
    let addresses = |hosts: [&str; 2], port: u16| -> Vec<SocketAddr> {
        hosts.iter().map(|host| SocketAddr::new(host.parse().unwrap(), port)).collect()
    };
    let both = [addresses(["10.1.0.1", "10.2.0.1"], 9_001), addresses(["10.1.0.2", "10.2.0.2"], 9_002)];
    for confirmed in [true, false] {
        let mut pair = Pair::between(both.clone(), partial(), partial());
        if !confirmed {
            pair.cut.insert(both[0][1].ip());
            pair.cut.insert(both[1][1].ip());
        }
        pair.run(Duration::from_secs(5));
        pair.clear_log();
        lose(&mut pair, 50);
        pair.cut.insert(both[0][0].ip());
        send_with(&mut pair, 0, 50, Reliability::Retransmissions(0));
        pair.run(Duration::from_secs(6));
        let ways: BTreeSet<_> = pair
            .log
            .iter()
            .zip(&pair.routes)
            .filter(|((_, side, packet), _)| *side == Client && has(packet, ForwardTsn::KIND))
            .map(|(_, (_, to))| to.ip())
            .collect();
        assert!(ways.contains(&both[1][0].ip()));
        assert_eq!(ways.contains(&both[1][1].ip()), confirmed);
        assert_eq!(pair.association(Client).state.up().unwrap().sent.is_empty(), confirmed);
    }
}
