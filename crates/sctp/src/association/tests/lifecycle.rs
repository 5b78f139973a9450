//! The beginning and end of associations.

use super::*;
use crate::association::{Abandoned, Order, SendError};
use crate::ids::{PathId, VerificationTag};
use crate::stats::{PathState, Phase};
use crate::wire::{Cause, Init};

/// Whether a packet of the handshake is lost, once.
fn lose_first(kind: u8) -> Option<Drop> {
    let mut done = false;
    Some(Box::new(move |_, _, packet| !done && has(packet, kind) && !std::mem::replace(&mut done, true)))
}

#[test]
fn four_packets_make_an_association() {
    //= specs/rfc9260.txt#section-12.3
    //= type=test
    //# Accordingly, we stress the requirements, as stated in Section 3.1,
    //# that (1) an INIT chunk MUST NOT be bundled with any other chunk in a
    //# packet and (2) a packet containing an INIT chunk MUST have a zero
    //# Verification Tag.
    //= specs/rfc9260.txt#section-3
    //= type=test
    //# INIT, INIT ACK, and SHUTDOWN COMPLETE chunks MUST NOT be bundled with
    //# any other chunk into an SCTP packet.
    //= specs/rfc9260.txt#section-3.1
    //= type=test
    //# A packet containing an INIT chunk MUST have a zero Verification Tag.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# They MUST be the only chunks present in the SCTP packets that carry
    //# them.
    //= specs/rfc9260.txt#section-6.10
    //= type=test
    //# An endpoint MUST NOT bundle INIT, INIT ACK, or SHUTDOWN COMPLETE
    //# chunks with any other chunks.
    //= specs/rfc9260.txt#section-8.5.1
    //= type=test
    //# Rules for packets carrying an INIT chunk: * The sender MUST set the
    //# Verification Tag of the packet to 0.
    let mut pair = Pair::new(rfc());
    pair.run(Duration::from_millis(100));
    let kinds: Vec<_> = pair.log.iter().map(|(_, _, packet)| chunks(packet)[0].kind()).collect();
    assert_eq!(kinds, [1, 2, 10, 11], "INIT, INIT ACK, COOKIE ECHO, COOKIE ACK");
    assert!(pair.log.iter().all(|(_, _, packet)| chunks(packet).len() == 1));
    assert_eq!(pair.log[0].2.header.tag, VerificationTag(0), "an INIT has no tag");
    assert_eq!(
        pair.events(Client),
        [Event::Up { outbound_streams: 10, inbound_streams: 10, adaptation: None }]
    );
    assert_eq!(pair.events(Server)[0], Event::Accepted);
    assert_eq!(pair.association(Client).stats().paths[0].srtt, Some(2 * LATENCY));
}

#[test]
fn messages_are_bundled_with_cookie_echo_and_arrive_with_it() {
    //= specs/rfc9260.txt#section-3.2.2
    //= type=test
    //# Any time a COOKIE ECHO chunk is sent in a packet, it MUST be the first
    //# chunk.
    //= specs/rfc9260.txt#section-3.3.11
    //= type=test
    //# This chunk MUST precede any DATA chunk sent within the association but
    //# MAY be bundled with one or more DATA chunks in the same packet.
    let mut pair = Pair::new(rfc());
    pair.send(Client, 0, "first words");
    pair.run(LATENCY * 3);
    assert_eq!(pair.read(Server, 0), [b"first words"], "one round trip and a half after INIT");
    let third = &pair.packets(Client)[1];
    assert!(matches!(third[..], [Chunk::CookieEcho(_), Chunk::Data(_)]), "{third:?}");
}

#[test]
fn nothing_else_is_sent_before_cookie_ack() {
    //= specs/rfc9260.txt#section-5
    //= type=test
    //# Before the first data transmission can take place from one SCTP
    //# endpoint ("A") to another SCTP endpoint ("Z"), the two endpoints MUST
    //# complete an initialization process in order to set up an SCTP
    //# association between them.
    //= specs/rfc9260.txt#section-5.1
    //= type=test
    //# until the COOKIE ACK chunk is returned, the sender MUST NOT send
    //# any other packets to the peer.
    let mut pair = Pair::new(modern());
    pair.send(Client, 0, pattern(100_000));
    pair.run(LATENCY * 3);
    // And the copy of each, which says nothing new.
    let packets = pair.packets(Client);
    let begins = |kind| packets.iter().filter(|packet| packet[0].kind() == kind).collect::<Vec<_>>();
    let (inits, echoes) = (begins(Init::KIND), begins(Chunk::COOKIE_ECHO));
    assert_eq!((packets.len(), inits.len(), echoes.len()), (4, 2, 2));
    let tsn = |echo: &[Chunk]| match echo {
        [Chunk::CookieEcho(_), Chunk::Data(data)] => data.tsn,
        others => panic!("{others:?}"),
    };
    assert_eq!(tsn(echoes[0]), tsn(echoes[1]));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
}

#[test]
fn each_packet_of_the_handshake_may_get_lost() {
    for kind in [1, 2, 10, 11] {
        let mut pair = Pair::new(rfc());
        pair.send(Client, 0, "first words");
        pair.drop = lose_first(kind);
        pair.run(Duration::from_secs(5));
        assert!(pair.association(Client).is_up(), "{kind}");
        assert_eq!(pair.read(Server, 0), [b"first words"], "{kind}");
        assert_eq!(pair.association(Server).stats().messages_received, 1);
    }
}

#[test]
fn data_of_a_lost_cookie_echo_is_bundled_with_the_next() {
    let mut pair = Pair::new(rfc());
    pair.send(Client, 0, "first words");
    pair.drop = lose_first(Chunk::COOKIE_ECHO);
    pair.run(Duration::from_secs(2));
    let with_cookie = pair.packets(Client).into_iter().filter(|p| matches!(p[0], Chunk::CookieEcho(_)));
    let tsns: Vec<_> = with_cookie
        .map(|packet| match &packet[..] {
            [_, Chunk::Data(data)] => data.tsn,
            other => panic!("{other:?}"),
        })
        .collect();
    assert_eq!(tsns.len(), 2);
    assert_eq!(tsns[0], tsns[1]);
    assert_eq!(pair.association(Client).stats().paths[0].timeouts, 0, "T1 was the timer");
}

#[test]
fn init_is_repeated_with_back_off_until_it_is_given_up() {
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# If the T1-init timer expires, the endpoint MUST retransmit the INIT
    //# chunk and restart the T1-init timer.
    //= specs/rfc9260.txt#section-5.1.6
    //= type=test
    //# When retransmitting the INIT chunk, the endpoint MUST follow the rules
    //# defined in Section 6.3 to determine the proper timer value.
    let mut pair = Pair::new(rfc());
    pair.loss = 1_000;
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::NoAnswer));
    let times: Vec<_> = pair.log.iter().map(|entry| entry.0.as_nanos() / 1_000_000_000).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
}

#[test]
fn cookie_echo_is_repeated_with_back_off_until_it_is_given_up() {
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# This MUST be repeated up to 'Max.Init.Retransmits' times.
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# After that, the endpoint MUST abort the initialization process and
    //# report the error to the SCTP user.
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# If the T1-cookie timer expires, the endpoint MUST retransmit COOKIE
    //# ECHO chunk and restart the T1-cookie timer.
    let mut pair = Pair::new(rfc());
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Chunk::COOKIE_ECHO)));
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::NoAnswer));
    let echoes: Vec<_> =
        pair.log.iter().filter(|entry| entry.1 == Client && has(&entry.2, Chunk::COOKIE_ECHO)).collect();
    let first = echoes[0].0;
    let times: Vec<_> = echoes.iter().map(|entry| entry.0.since(first).as_secs()).collect();
    assert_eq!(times, [0, 1, 3, 7, 15, 31, 63, 123, 183]);
    assert!(echoes.iter().all(|entry| chunks(&entry.2) == chunks(&echoes[0].2)), "the very same cookie");
}

#[test]
fn data_of_a_stale_cookie_is_bundled_with_the_next() {
    let impatient = rfc().with(|c| c.handshake.valid_cookie_life = Duration::from_millis(5));
    for messages in [0, 1, 300] {
        let mut pair = Pair::with(rfc(), impatient.clone());
        for number in 0..messages {
            pair.send(Client, number % 10, "first words");
        }
        pair.run(Duration::from_secs(2));
        assert!(pair.association(Client).is_up() && pair.association(Server).is_up(), "{messages}");
        let kinds: Vec<_> = pair.log.iter().take(8).map(|entry| chunks(&entry.2)[0].kind()).collect();
        assert_eq!(kinds, [1, 2, 10, 9, 1, 2, 10, 11], "ERROR is the fourth");
        let read: usize = (0..10).map(|stream| pair.read(Server, stream).len()).sum();
        assert_eq!(read, usize::from(messages), "each once");
        let stats = pair.association(Client).stats();
        assert_eq!((stats.outstanding_bytes, stats.paths[0].timeouts), (0, 0));
    }
}

#[test]
fn a_lifetime_that_is_too_short_again_is_extended_again() {
    // The second COOKIE ECHO is lost: its cookie is stale when T1-cookie expires.
    let impatient = rfc().with(|c| c.handshake.valid_cookie_life = Duration::from_millis(5));
    let mut pair = Pair::with(rfc(), impatient);
    let mut echoes = 0;
    pair.drop = Some(Box::new(move |side, _, packet| {
        echoes += usize::from(side == Client && has(packet, Chunk::COOKIE_ECHO));
        side == Client && has(packet, Chunk::COOKIE_ECHO) && echoes == 2
    }));
    pair.send(Client, 0, "once");
    pair.run(Duration::from_secs(4));
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
    assert_eq!(pair.read(Server, 0).len(), 1);
}

#[test]
fn an_init_ack_from_before_the_cookie_was_stale_is_discarded() {
    let impatient = rfc().with(|c| c.handshake.valid_cookie_life = Duration::from_millis(5));
    let mut pair = Pair::with(rfc(), impatient);
    pair.latency = Duration::from_millis(700);
    pair.run(Duration::from_millis(950));
    // The second INIT takes long: its INIT ACK arrives between the third INIT and the INIT ACK of that.
    pair.latency = Duration::from_millis(600);
    pair.run(Duration::from_millis(100));
    pair.latency = Duration::from_millis(100);
    pair.run(Duration::from_secs(2));
    let kinds: Vec<_> = pair.log.iter().take(10).map(|entry| chunks(&entry.2)[0].kind()).collect();
    assert_eq!(kinds, [1, 2, 1, 10, 9, 2, 1, 2, 10, 11], "the second INIT ACK is answered by nothing");
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
}

#[test]
fn a_cookie_that_is_always_stale_ends_the_handshake() {
    let impatient = rfc().with(|c| c.handshake.valid_cookie_life = Duration::ZERO);
    let mut pair = Pair::with(rfc(), impatient);
    // A round trip is longer than the extension that the server grants.
    pair.latency = Duration::from_secs(12);
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::StaleCookie));
    let tags: BTreeSet<_> = pair
        .log
        .iter()
        .filter_map(|entry| match &chunks(&entry.2)[0] {
            Chunk::Init(init) if entry.1 == Client => Some(init.initiate_tag.0),
            _ => None,
        })
        .collect();
    assert_eq!(
        tags.len(),
        9,
        "Max.Init.Retransmits longer lifetimes are requested, each with a tag of its own"
    );
}

#[test]
fn an_acknowledgement_resets_the_error_count() {
    //= specs/rfc9260.txt#section-8.1
    //= type=test
    //# The counter used for endpoint failure detection MUST be reset each
    //# time a DATA chunk sent to that peer endpoint is acknowledged (by the
    //# reception of a SACK chunk).
    let mut pair = Pair::up(rfc().with(|c| {
        c.failover.association_max_retrans = 2;
        c.failover.path_max_retrans = 2;
    }));
    let mut copies = BTreeMap::new();
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client
            && chunks(packet).iter().any(|chunk| match chunk {
                Chunk::Data(data) => {
                    *copies.entry(data.tsn.0).and_modify(|count| *count += 1).or_insert(1) < 3
                }
                _ => false,
            })
    }));
    for number in 0..5 {
        pair.send(Client, 0, "twice in vain");
        assert!(pair.run_until(|pair| pair.read(Server, 0).len() == number + 1), "{number}");
        pair.run(Duration::from_secs(1));
    }
    assert!(pair.association(Client).is_up());
    assert_eq!(pair.association(Client).stats().paths[0].timeouts, 10);
}

#[test]
fn streams_that_the_peer_does_not_allow_end_the_association_if_messages_wait_for_them() {
    let mut pair = Pair::with(rfc(), rfc().with(|c| c.streams.inbound = 2));
    pair.send(Client, 5, "for a stream that there is not");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Client), Some(&Reason::TooFewStreams { outbound_streams: 2 }));
}

#[test]
fn a_shutdown_waits_for_all_data_and_both_sides_are_notified() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# If the endpoint is in the SHUTDOWN-ACK-SENT state, the endpoint SHOULD
    //# stop the T2-shutdown timer and remove all knowledge of the association
    //# (and thus the association enters the CLOSED state).
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# An endpoint SHOULD ensure that all its outstanding DATA chunks have
    //# been acknowledged before initiating the shutdown procedure.
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# An endpoint SHOULD reject any new data request from its upper layer if
    //# it is in the SHUTDOWN-PENDING, SHUTDOWN-SENT, SHUTDOWN-RECEIVED, or
    //# SHUTDOWN-ACK-SENT state.
    //= specs/rfc9260.txt#section-3.3.8
    //= type=test
    //# An endpoint in an association MUST use this chunk to initiate a
    //# graceful close of the association with its peer.
    //= specs/rfc9260.txt#section-3.3.9
    //= type=test
    //# This chunk MUST be used to acknowledge the receipt of the SHUTDOWN
    //# chunk at the completion of the shutdown process; see Section 9.2 for
    //# details.
    //= specs/rfc9260.txt#section-3.3.13
    //= type=test
    //# This chunk MUST be used to acknowledge the receipt of the SHUTDOWN ACK
    //# chunk at the completion of the shutdown process; see Section 9.2 for
    //# details.
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# Upon the receipt of the SHUTDOWN ACK chunk, the sender of the SHUTDOWN
    //# chunk MUST stop the T2-shutdown timer, send a SHUTDOWN COMPLETE chunk
    //# to its peer, and remove all record of the association.
    for config in [rfc(), modern()] {
        let mut pair = Pair::up(config);
        pair.send(Client, 0, pattern(100_000));
        pair.association(Client).shutdown();
        let refused = pair.association(Client).send(StreamId(0), Message::new(Ppid(0), "late"));
        assert_eq!(refused, Err(SendError::ShuttingDown));
        assert_eq!(pair.association(Client).phase(), Phase::ShutdownPending);
        assert!(pair.run_until(|pair| pair.closed(Client).is_some() && pair.closed(Server).is_some()));
        assert_eq!(
            (pair.closed(Client), pair.closed(Server)),
            (Some(&Reason::Shutdown), Some(&Reason::Shutdown))
        );
        assert_eq!(pair.read(Server, 0), [pattern(100_000)]);
        assert!(pair.events(Server).contains(&Event::PeerShutdown));
        let last = pair.packets(Client).pop();
        assert_eq!(last, Some(vec![Chunk::ShutdownComplete { reflected: false }]), "alone");
    }
}

#[test]
fn a_side_that_received_shutdown_still_sends_queued_data() {
    //= specs/rfc9260.txt#section-4
    //= type=test
    //# In the SHUTDOWN-RECEIVED state, the endpoint MUST transmit or
    //# retransmit data and leave this state when all data in queue is
    //# transmitted.
    //= specs/rfc9260.txt#section-6
    //= type=test
    //# A SACK chunk MUST be processed in ESTABLISHED, SHUTDOWN-PENDING, and
    //# SHUTDOWN-RECEIVED states.
    let mut pair = Pair::up(rfc());
    pair.send(Server, 0, pattern(200_000));
    pair.run(Duration::from_millis(1));
    pair.association(Client).shutdown();
    pair.run(LATENCY * 2);
    let refused = pair.association(Server).send(StreamId(0), Message::new(Ppid(0), "late"));
    assert_eq!(refused, Err(SendError::ShuttingDown));
    assert!(pair.run_until(|pair| pair.closed(Client).is_some() && pair.closed(Server).is_some()));
    assert_eq!(pair.read(Client, 0), [pattern(200_000)]);
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
}

#[test]
fn leave_acknowledges_and_ends_both_sides_with_one_packet() {
    for config in [rfc(), modern()] {
        let mut pair = Pair::up(config);
        pair.send(Server, 0, pattern(5_000));
        assert!(pair.run_until(|pair| pair.read(Client, 0).len() == 1));
        let before = pair.packets(Client).len();
        pair.association(Client).leave();
        pair.run(LATENCY * 3);
        assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
        assert_eq!(pair.closed(Server), Some(&Reason::Shutdown), "all that it sent is acknowledged");
        assert!(pair.events(Server).contains(&Event::PeerShutdown));
        let last = pair.packets(Client).split_off(before);
        let words = Cause::UserInitiatedAbort(Bytes::from_static(b"goodbye"));
        let abort = Chunk::Abort { reflected: false, causes: vec![words] };
        assert!(
            matches!(&last[0][..], [Chunk::Sack(_), Chunk::Shutdown { .. }, last] if *last == abort),
            "{last:?}"
        );
        assert_eq!(last[1..], [vec![abort]], "in case the first is lost");
    }
}

#[test]
fn leave_with_outstanding_data_sends_no_shutdown() {
    let mut pair = Pair::up(rfc());
    pair.send(Client, 0, pattern(5_000));
    pair.run(Duration::from_millis(1));
    pair.association(Client).leave();
    pair.run(LATENCY * 3);
    assert!(matches!(pair.closed(Client), Some(Reason::Aborted(_))));
    assert!(matches!(pair.closed(Server), Some(Reason::PeerAborted(_))));
    assert!(!pair.packets(Client).iter().flatten().any(|chunk| matches!(chunk, Chunk::Shutdown { .. })));
}

#[test]
fn the_first_packet_of_leave_may_be_lost() {
    let mut pair = Pair::up(rfc());
    pair.drop = lose_first(7);
    pair.association(Client).leave();
    pair.run(LATENCY * 3);
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    assert!(matches!(pair.closed(Server), Some(Reason::PeerAborted(_))));
}

#[test]
fn both_sides_may_shut_down_at_once() {
    let mut pair = Pair::up(rfc());
    pair.association(Client).shutdown();
    pair.association(Server).shutdown();
    pair.run(Duration::from_secs(1));
    assert_eq!(
        (pair.closed(Client), pair.closed(Server)),
        (Some(&Reason::Shutdown), Some(&Reason::Shutdown))
    );
}

#[test]
fn each_packet_of_a_shutdown_may_get_lost() {
    for kind in [7, 8, 14] {
        let mut pair = Pair::up(rfc());
        pair.drop = lose_first(kind);
        pair.association(Client).shutdown();
        assert!(pair.run_until(|pair| pair.closed(Client).is_some() && pair.closed(Server).is_some()));
        assert_eq!(pair.closed(Client), Some(&Reason::Shutdown), "{kind}");
        assert_eq!(pair.closed(Server), Some(&Reason::Shutdown), "{kind}");
    }
}

#[test]
fn heartbeats_of_the_peer_do_not_delay_a_shutdown() {
    let mut chatty = rfc().with(|c| c.timers.heartbeat_interval = Some(Duration::from_millis(100)));
    chatty.timers.rto.min = Duration::from_millis(10);
    let mut pair = Pair::with(rfc(), chatty);
    pair.run(Duration::from_millis(100));
    pair.drop = lose_first(7);
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(3));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
}

#[test]
fn a_shutdown_asked_for_before_the_handshake_is_done_still_delivers() {
    let mut pair = Pair::new(rfc());
    pair.send(Client, 0, "all I have to say");
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.read(Server, 0), [b"all I have to say"]);
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
}

#[test]
fn an_unanswered_shutdown_ends() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# An endpoint SHOULD limit the number of retransmissions of the SHUTDOWN
    //# chunk to the protocol parameter 'Association.Max.Retrans'.
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# If this threshold is exceeded, the endpoint SHOULD destroy the TCB and
    //# SHOULD report the peer endpoint unreachable to the upper layer (and
    //# thus the association enters the CLOSED state).
    let mut pair = Pair::up(rfc());
    pair.loss = 1_000;
    pair.association(Client).shutdown();
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert!(matches!(pair.closed(Client), Some(Reason::PeerUnreachable | Reason::ShutdownTimeout)));
}

#[test]
fn a_shutdown_ack_is_repeated_association_max_retrans_times() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# The sender of the SHUTDOWN ACK chunk SHOULD limit the number of
    //# retransmissions of the SHUTDOWN ACK chunk to the protocol parameter
    //# 'Association.Max.Retrans'.
    let mut pair = Pair::up(rfc());
    pair.association(Client).shutdown();
    assert!(pair.run_until(|pair| pair.association(Server).phase() == Phase::ShutdownAckSent));
    pair.loss = 1_000;
    pair.under_way.clear();
    pair.clear_log();
    assert!(pair.run_until(|pair| pair.closed(Server).is_some()));
    assert_eq!(pair.closed(Server), Some(&Reason::PeerUnreachable));
    let acks = pair.packets(Server).into_iter().filter(|packet| packet[..] == [Chunk::ShutdownAck]).count();
    assert_eq!(acks, 10);
}

#[test]
fn a_shutdown_that_takes_too_long_is_aborted() {
    //= specs/rfc9260.txt#section-9.2
    //= type=test
    //# At the expiration of this timer, the sender SHOULD abort the
    //# association by sending an ABORT chunk.
    let config = rfc().with(|c| c.timers.shutdown_guard = Duration::from_millis(500));
    let mut pair = Pair::up(config);
    pair.drop = Some(Box::new(|side, _, packet| side == Server && !has(packet, Chunk::ABORT)));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Client), Some(&Reason::ShutdownTimeout));
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown), "behind its SHUTDOWN ACK no data is missing");
}

#[test]
fn an_abort_carries_its_reason_and_no_data() {
    //= specs/rfc9260.txt#section-3.3.7
    //= type=test
    //# DATA chunks MUST NOT be bundled with ABORT chunks.
    //= specs/rfc9260.txt#section-3.3.7
    //= type=test
    //# Control chunks (except for INIT, INIT ACK, and SHUTDOWN COMPLETE) MAY
    //# be bundled with an ABORT chunk, but they MUST be placed before the
    //# ABORT chunk in the SCTP packet; otherwise, they will be ignored by the
    //# receiver.
    //= specs/rfc9260.txt#section-3.3.7
    //= type=test
    //# Moreover, under any circumstances, an endpoint that receives an ABORT
    //# chunk MUST NOT respond to that ABORT chunk by sending an ABORT chunk
    //# of its own.
    //= specs/rfc9260.txt#section-8.5.1
    //= type=test
    //# Rules for packets carrying an ABORT chunk: * The endpoint MUST always
    //# fill in the Verification Tag field of the outbound packet with the
    //# destination endpoint's tag value if it is known.
    //= specs/rfc9260.txt#section-9.1
    //= type=test
    //# When an endpoint decides to abort an existing association, it MUST
    //# send an ABORT chunk to its peer endpoint.
    //= specs/rfc9260.txt#section-9.1
    //= type=test
    //# If the association is aborted on request of the upper layer, a
    //# "User-Initiated Abort" error cause (see Section 3.3.10.12) SHOULD be
    //# present in the ABORT chunk.
    //= specs/rfc9260.txt#section-9.1
    //= type=test
    //# An endpoint MUST NOT respond to any received packet that contains an
    //# ABORT chunk (also see Section 8.4).
    //= specs/rfc9260.txt#section-9.1
    //= type=test
    //# After checking the Verification Tag, the receiving endpoint MUST
    //# remove the association from its record and SHOULD report the
    //# termination to its upper layer.
    //= specs/rfc9260.txt#section-9.1
    //= type=test
    //# If a "User-Initiated Abort" error cause is present in the ABORT chunk,
    //# the Upper Layer Abort Reason SHOULD be made available to the upper
    //# layer.
    //= specs/rfc9260.txt#section-9.1
    //= type=test
    //# The sender MUST fill in
    //# the peer's Verification Tag in the outbound packet and MUST NOT
    //# bundle any DATA chunk with the ABORT chunk.
    let mut pair = Pair::up(rfc());
    pair.send(Client, 0, "never sent");
    pair.association(Client).abort(Bytes::from_static(b"no more"));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Client), Some(&Reason::Aborted(Bytes::from_static(b"no more"))));
    assert_eq!(pair.closed(Server).unwrap().peer_abort_reason(), Some(&Bytes::from_static(b"no more")));
    assert_eq!(pair.packets(Client).len(), 1);
    assert_eq!(pair.packets(Server).len(), 0, "an ABORT is never answered");
}

#[test]
fn received_data_is_readable_after_the_end() {
    let mut pair = Pair::up(rfc());
    pair.reads = false;
    pair.send(Client, 0, "last words");
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
    pair.read_all(Server);
    assert_eq!(pair.read(Server, 0), [b"last words"]);
}

#[test]
fn a_peer_that_vanishes_is_given_up_after_association_max_retrans() {
    //= specs/rfc9260.txt#section-8.1
    //= type=test
    //# An endpoint SHOULD keep a counter on the total number of consecutive
    //# retransmissions to its peer (this includes data retransmissions to all
    //# the destination transport addresses of the peer if it is multi-homed),
    //= specs/rfc9260.txt#section-8.1
    //= type=test
    //# If the value of this counter exceeds the limit indicated in the
    //# protocol parameter 'Association.Max.Retrans', the endpoint SHOULD
    //# consider the peer endpoint unreachable and SHALL stop transmitting any
    //# more data to it (and thus the association enters the CLOSED state).
    //= specs/rfc9260.txt#section-8.1
    //= type=test
    //# In addition, the endpoint SHOULD report the failure to the upper layer
    //# and optionally report back all outstanding user data remaining in its
    //# outbound queue.
    let mut pair = Pair::up(rfc());
    pair.loss = 1_000;
    pair.send(Client, 0, "anybody there?");
    let start = pair.now;
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
    assert_eq!(pair.data(Client).len(), 11, "once, and Association.Max.Retrans times again");
    assert_eq!(pair.now.since(start).as_secs(), 363, "1 + 2 + 4 + 8 + 16 + 32 and five times 60");
    pair.run(Duration::from_secs(1));
    let abort = Chunk::Abort { reflected: false, causes: vec![] };
    assert_eq!(pair.packets(Client).pop(), Some(vec![abort]), "it may hear what it cannot answer");
    assert!(pair.events(Client).contains(&Event::Path(PathId(0), PathState::Inactive)));
}

#[test]
fn heartbeats_monitor_an_idle_path() {
    //= specs/rfc9260.txt#section-3.3.5
    //= type=test
    //# An endpoint SHOULD send a HEARTBEAT (HB) chunk to its peer endpoint to
    //# probe the reachability of a particular destination transport address
    //# defined in the present association.
    let mut pair = Pair::up(rfc());
    pair.run(Duration::from_secs(100));
    let heartbeats =
        pair.packets(Client).iter().flatten().filter(|c| matches!(c, Chunk::Heartbeat(_))).count();
    assert!((2..=4).contains(&heartbeats), "{heartbeats}");
    assert!(pair.association(Client).is_up());
    pair.loss = 1_000;
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
}

#[test]
fn a_recovered_path_becomes_active() {
    //= specs/rfc9260.txt#section-8.2
    //= type=test
    //# When an outstanding TSN is acknowledged or a HEARTBEAT chunk sent to
    //# that address is acknowledged with a HEARTBEAT ACK chunk, the endpoint
    //# SHOULD clear the error counter of the destination transport address to
    //# which the DATA chunk was last sent (or HEARTBEAT chunk was sent) and
    let mut pair = Pair::up(rfc());
    pair.loss = 1_000;
    pair.send(Client, 0, "anybody there?");
    assert!(pair.run_until(|p| p.events(Client).contains(&Event::Path(PathId(0), PathState::Inactive))));
    pair.loss = 0;
    assert!(pair.run_until(|p| p.events(Client).contains(&Event::Path(PathId(0), PathState::Active))));
    assert_eq!(pair.read(Server, 0), [b"anybody there?"]);
}

#[test]
fn both_sides_may_connect_at_once() {
    // Each listens on the port it connects from, so that their INITs cross.
    let mut pair = Pair::new(rfc());
    let connect = |own: SocketAddr, peer: SocketAddr| Connect {
        local: vec![own],
        peer: vec![peer],
        source_port: Some(PORT),
        destination_port: PORT,
        config: Arc::new(rfc()),
    };
    pair.client = Endpoint::new([3; 32]);
    pair.server = Endpoint::new([4; 32]);
    let to_server = connect(client_address(), server_address());
    pair.client_id = pair.client.connect(Time::ZERO, to_server).unwrap();
    pair.server_id =
        Some(pair.server.connect(Time::ZERO, connect(server_address(), client_address())).unwrap());
    pair.send(Client, 0, "from the client");
    pair.send(Server, 0, "from the server");
    pair.run(Duration::from_secs(5));
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
    assert_eq!(pair.read(Server, 0), [b"from the client"]);
    assert_eq!(pair.read(Client, 0), [b"from the server"]);
}

#[test]
fn a_restarted_peer_continues_under_the_same_association_id() {
    //= specs/rfc9260.txt#section-5.2.4
    //= type=test
    //# A RESTART notification SHOULD be sent to the ULP instead of a
    //# COMMUNICATION LOST notification.
    //= specs/rfc9260.txt#section-5.2.4
    //= type=test
    //# All the congestion control parameters (e.g., cwnd, ssthresh) related
    //# to this peer MUST be reset to their initial values (see Section
    //# 6.2.1).
    let mut pair = Pair::up(rfc());
    pair.send(Server, 0, pattern(100_000));
    pair.run(Duration::from_secs(2));
    let window = |pair: &mut Pair| pair.association(Server).stats().paths[0].cwnd;
    assert!(window(&mut pair) > 4_404);
    pair.client_read.clear();
    let port = pair.association(Client).ports().0;
    pair.client = Endpoint::new([9; 32]);
    let connect = Connect {
        local: vec![client_address()],
        peer: vec![server_address()],
        source_port: Some(port),
        destination_port: PORT,
        config: Arc::new(rfc()),
    };
    pair.client_id = pair.client.connect(pair.now, connect).unwrap();
    pair.send(Client, 0, "I forgot everything");
    pair.run(Duration::from_secs(2));
    assert!(pair.events(Server).contains(&Event::Restarted));
    assert_eq!(window(&mut pair), 4_404);
    assert_eq!(pair.read(Server, 0), [b"I forgot everything"]);
    pair.send(Server, 0, "so did I");
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.read(Client, 0), [b"so did I"]);
}

/// RFC 6458 §6.1.4.
#[test]
fn undelivered_messages_are_reported_before_the_end() {
    #[derive(Debug, Clone, Copy, PartialEq)]
    enum End {
        Abort,
        PeerAborts,
        PeerLost,
        Shutdown,
    }
    for end in [End::Abort, End::PeerAborts, End::PeerLost, End::Shutdown] {
        for interleaving in [false, true] {
            let config = modern().with(|c| {
                c.messages.interleaving = interleaving;
                c.failover.association_max_retrans = 3;
            });
            let mut pair = Pair::up(config);
            let send = |pair: &mut Pair, context: u32, order, len| {
                let message = Message { context, order, ..Message::new(Ppid(9), pattern(len)) };
                pair.association(Client).send(StreamId(context as u16), message).unwrap();
            };
            send(&mut pair, 1, Order::Ordered, 10);
            pair.run(Duration::from_secs(1));
            let deaf = end != End::Shutdown;
            pair.drop =
                Some(Box::new(move |side, _, packet| deaf && side == Client && !has(packet, Chunk::ABORT)));
            send(&mut pair, 2, Order::Unordered, 2_000);
            pair.run(Duration::from_millis(1));
            send(&mut pair, 3, Order::Ordered, 100_000);
            pair.run(Duration::from_millis(1));
            send(&mut pair, 4, Order::Ordered, 10);
            match end {
                End::Abort => pair.association(Client).abort(Bytes::new()),
                End::PeerAborts => pair.association(Server).abort(Bytes::new()),
                End::PeerLost => {}
                End::Shutdown => pair.association(Client).shutdown(),
            }
            pair.run(Duration::from_secs(300));
            let events = pair.events(Client);
            let closed = events.iter().position(|event| matches!(event, Event::Closed(_))).unwrap();
            assert_eq!(closed, events.len() - 1);
            let told: Vec<_> = events
                .iter()
                .filter_map(|event| if let Event::Abandoned(it) = event { Some(*it) } else { None })
                .collect();
            let expected = |context: u32, order, was_sent| {
                let (stream, ppid) = (StreamId(context as u16), Ppid(9));
                Abandoned { stream, ppid, order, context, was_sent }
            };
            if end == End::Shutdown {
                assert_eq!(told, []);
                continue;
            }
            let last = told.iter().find(|it| it.context == 4).is_some_and(|it| it.was_sent);
            assert!(interleaving || !last, "it waits for its turn");
            let mut told = told;
            told.sort_by_key(|it| it.context);
            let all = [
                expected(2, Order::Unordered, true),
                expected(3, Order::Ordered, true),
                expected(4, Order::Ordered, last),
            ];
            assert_eq!(told, all, "{end:?}");
        }
    }
}
