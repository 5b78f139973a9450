//! Reset of all numbers of an association (RFC 6525 §5.1.4, §5.2.4).

use super::*;
use crate::association::Reliability;

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
        let mut pair = Pair::up(with(ALL).with(|c| c.messages.interleaving = interleaving));
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
        // Before the reset, messages have the numbers of first messages; after it they have them again.
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

#[test]
fn two_simultaneous_association_resets_are_denied() {
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

/// Packets in flight during a reset of TSNs may still arrive, with TSNs that now belong to other chunks.
#[test]
fn old_data_and_sacks_are_harmless_after_a_tsn_reset() {
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

/// The peer has reset its TSNs and sends the response, and its SHUTDOWN overtakes the response.
#[test]
fn a_shutdown_that_overtakes_the_response_to_a_tsn_reset_is_harmless() {
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
fn a_shutdown_waits_for_the_result_of_a_tsn_reset() {
    let mut pair = Pair::up(with(ALL));
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Data::KIND)));
    pair.send(Client, 1, pattern(3_000));
    pair.run(Duration::from_millis(1));
    let now = pair.now;
    pair.association(Server).reset_association(now).unwrap();
    pair.run(Duration::from_millis(50));
    // The client responds once its data has arrived; data that it sends afterwards has new numbers.
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

#[test]
fn received_data_is_acknowledged_before_tsns_are_reset() {
    let mut pair = Pair::up(with(ALL));
    // The last chunk does not request an immediate SACK.
    pair.association(Server).config = Arc::new(with(ALL).with(|c| c.sack.immediate_at_end = false));
    pair.send(Server, 0, "the first is answered at once");
    pair.run(Duration::from_millis(500));
    pair.send(Server, 1, "the second is not");
    while pair.read(Client, 1).is_empty() {
        let next = pair.now + Duration::from_millis(1);
        pair.run(next.since(pair.now));
    }
    assert!(pair.association(Client).state.up().unwrap().received.may_bundle_sack(), "it waits");
    pair.clear_log();
    let now = pair.now;
    pair.association(Client).reset_association(now).unwrap();
    pair.run(Duration::from_millis(1));
    let chunks = pair.packets(Client).concat();
    assert!(matches!(chunks[..], [Chunk::Sack(_), Chunk::Reconfig(_)]), "{chunks:?}");
}

//= specs/rfc3758.txt#section-3.6
//= type=test
//# Any time a FORWARD TSN chunk arrives, for the purposes of sending a
//# SACK, the receiver MUST follow the same rules as if a DATA chunk had
//# been received (i.e., follow the delayed sack rules specified in RFC
//# 2960 [2] section 6.2).
#[test]
fn a_forward_tsn_as_the_first_chunk_after_a_tsn_reset_is_acknowledged() {
    let mut pair = Pair::up(with(ALL).with(|c| c.messages.partial_reliability = true));
    let now = pair.now;
    pair.association(Client).reset_association(now).unwrap();
    pair.run(Duration::from_secs(1));
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Data::KIND)));
    let once = Reliability::Retransmissions(0);
    let message = Message { reliability: once, ..Message::new(Ppid(0), pattern(10)) };
    pair.association(Client).send(StreamId(0), message).unwrap();
    pair.clear_log();
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.sacks(Server).len(), 1);
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
}
