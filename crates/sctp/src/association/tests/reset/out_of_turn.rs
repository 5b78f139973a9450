//! Packets out of order during and after a TSN reset.

use super::*;
use crate::association::Reliability;
use crate::association::reset::state::Reconfiguration;
use crate::wire::ForwardTsn;

fn chunk(tsn: u32) -> Data {
    Data::whole(Tsn(tsn), b"x")
}

/// While the client does not know whether the server has renumbered, it acknowledges nothing out of sequence. If it
/// forgot it too, each chunk would cost a retransmission timeout where paths bring them in another order.
#[test]
fn chunks_of_ambiguous_numbering_wait_while_the_peer_may_have_reset_tsns() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(with(ALL).with(|c| c.messages.interleaving = interleaving));
        let mut dropped = false;
        pair.drop = Some(Box::new(move |side, _, packet| {
            let is_data = has(packet, Data::KIND) || has(packet, Data::INTERLEAVED_KIND);
            side == Server && is_data && !std::mem::replace(&mut dropped, true)
        }));
        let now = pair.now;
        pair.association(Client).reset_association(now).unwrap();
        pair.run(Duration::from_millis(1));
        for _ in 0..6 {
            pair.send(Server, 1, pattern(1_300));
        }
        assert!(pair.run_until(|pair| pair.read(Client, 1).len() == 6));
        assert!(told(&pair, Client).is_empty(), "it is not known yet");
        assert!(
            pair.sacks(Client).iter().all(|(_, sack)| sack.gaps.is_empty()),
            "what is early is not told of"
        );
        let sent = pair.data(Server).len();
        assert!(sent <= 9, "the first is retransmitted; up to two tail probes precede it: {sent}");
        pair.run(Duration::from_secs(10));
        for side in [Client, Server] {
            assert!(matches!(
                told(&pair, side)[..],
                [Event::AssociationReset { outcome: Outcome::Done, .. }]
            ));
        }
    }
}

//= specs/rfc3758.txt#section-3.6
//= type=test
//# When a FORWARD TSN chunk arrives, the data receiver MUST first update
//# its cumulative TSN point to the value carried in the FORWARD TSN
//# chunk, and then MUST further advance its cumulative TSN point locally
//# if possible, as shown by the following example:
#[test]
fn chunks_behind_an_abandoned_tsn_are_delivered_when_it_is_skipped() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(with(ALL).with(|c| {
            c.messages.interleaving = interleaving;
            c.messages.partial_reliability = true;
        }));
        let mut data = 0;
        pair.drop = Some(Box::new(move |side, _, packet| {
            let is_data = has(packet, Data::KIND) || has(packet, Data::INTERLEAVED_KIND);
            data += u32::from(side == Server && is_data);
            // The first and the third packet with data, and the retransmissions.
            side == Server && is_data && (data == 1 || data == 3 || data > 4)
        }));
        let now = pair.now;
        pair.association(Client).reset_association(now).unwrap();
        pair.run(Duration::from_millis(1));
        for nth in 0..4 {
            let reliability = if nth % 2 == 0 { Reliability::Retransmissions(0) } else { Reliability::Full };
            let message = Message { reliability, ..Message::new(Ppid(0), pattern(1_300)) };
            pair.association(Server).send(StreamId(1), message).unwrap();
        }
        let read = pair.run_until_within(Duration::from_secs(20), |pair| pair.read(Client, 1).len() == 2);
        assert!(read && told(&pair, Client).is_empty(), "the answer is not known yet");
    }
}

#[test]
fn early_chunks_are_kept_lowest_first_up_to_a_limit() {
    let first = Tsn(u32::MAX - 10);
    let mut reset = Reconfiguration::new(ALL, Tsn(1), first);
    for ahead in (0..100).rev().chain(0..50) {
        reset.hold_early(chunk(first.plus(ahead).0));
    }
    for ahead in 1..32 {
        let tsn = first.plus(ahead);
        assert_eq!(reset.take_early(tsn).map(|data| data.tsn), Some(tsn));
    }
    assert!(reset.take_early(first.plus(32)).is_none(), "that was one too many");
    assert!(reset.take_early(first).is_none(), "its time is over");
}

/// A FORWARD TSN may be under way for longer than it takes to renumber.
#[test]
fn an_old_forward_tsn_is_harmless_after_a_tsn_reset() {
    for requester in [Client, Server] {
        let mut pair = Pair::up(with(ALL).with(|c| c.messages.partial_reliability = true));
        for _ in 0..20 {
            pair.send(Client, 1, pattern(2_000));
        }
        pair.run(Duration::from_secs(2));
        let (_, last) = numbers_of_client(&mut pair);
        let now = pair.now;
        pair.association(requester).reset_association(now).unwrap();
        pair.run(Duration::from_secs(2));
        for back in [0, 1, 2, 30, 60_000] {
            let streams = vec![(StreamId(1), Ssn(19))];
            let old = ForwardTsn { new_cum_tsn: last.minus(back), streams };
            pair.forge(&[Chunk::ForwardTsn(old)]);
            assert_eq!(pair.closed(Server), None, "{requester:?}, {back} before the last");
        }
        pair.send(Client, 1, pattern(30));
        pair.run(Duration::from_secs(2));
        assert_eq!(pair.read(Server, 1).len(), 21);
    }
}
