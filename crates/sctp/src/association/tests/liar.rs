//! Peers that acknowledge data they do not have (optimistic acknowledgement), and the effect of the check
//! on honest ones.

use crate::config::Multipath;
use std::num::NonZeroU16;

use super::multihoming::{addresses, confirmed, paths};
use super::*;
use crate::association::Violation;
use crate::ids::Tsn;
use crate::wire::{NrSack, Sack};

fn several() -> Config {
    modern().with(|c| c.paths.multipath = Some(Multipath::default()))
}

/// Delivers a packet of the server to the client.
fn answer(pair: &mut Pair, chunk: &Chunk) {
    let header = pair.log.iter().rev().find(|entry| entry.1 == Server).unwrap().2.header;
    let mut builder = PacketBuilder::new();
    builder.begin(header, 1_452);
    builder.push(chunk);
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    let [to, from] = addresses().map(|of| of[0]);
    pair.client.handle(pair.now, Datagram { from, to, ecn: Ecn::NotEct, payload });
    pair.drain(Client);
}

/// Sends messages of one packet each, a few at a time; calls `told` after each few with the last sent TSN. Returns whether the
/// upload completed.
fn upload(pair: &mut Pair, messages: usize, mut told: impl FnMut(&mut Pair, Tsn)) -> bool {
    let mut last: Option<Tsn> = None;
    for _ in 0..messages / 10 {
        for _ in 0..10 {
            pair.send(Client, 0, pattern(1_400));
        }
        pair.clear_log();
        pair.run(Duration::from_millis(10));
        for data in pair.data(Client) {
            last = Some(last.filter(|last| !data.tsn.after(*last)).unwrap_or(data.tsn));
        }
        told(pair, last.expect("something has left"));
        if pair.closed(Client).is_some() {
            return false;
        }
    }
    true
}

#[test]
fn a_peer_that_acknowledges_a_skipped_tsn_is_detected() {
    for cumulative in [true, false] {
        let mut pair = confirmed(several());
        pair.drop = Some(Box::new(|side, _, packet| {
            side == Server && (has(packet, Sack::KIND) || has(packet, NrSack::KIND))
        }));
        // It acknowledges all sent TSNs, whether or not they arrived; or all but one.
        let finished = upload(&mut pair, 20_000, |pair, last| {
            if pair.packets(Server).is_empty() {
                return;
            }
            let (cum_tsn_ack, gaps) = if cumulative { (last, vec![]) } else { (last.minus(3), vec![(2, 3)]) };
            answer(pair, &Chunk::Sack(Sack { cum_tsn_ack, gaps, a_rwnd: 1 << 20, ..Sack::default() }));
        });
        assert!(!finished, "cumulative: {cumulative}");
        assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(Violation::AckOfNothing)));
    }
}

#[test]
fn an_honest_peer_receives_everything_in_order_and_no_loss_is_counted() {
    let mut pair = confirmed(several().with(|c| c.security.skip_tsn_every = NonZeroU16::new(1)));
    let (mut skipped_tsn, mut highest) = (0, None);
    let finished = upload(&mut pair, 40_000, |pair, _| {
        for data in pair.data(Client) {
            if highest.is_some_and(|highest| data.tsn.after(highest)) {
                skipped_tsn += u32::from(data.tsn != highest.expect("there is one").next());
            }
            highest = Some(highest.filter(|highest| !data.tsn.after(*highest)).unwrap_or(data.tsn));
        }
    });
    assert!(finished);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 40_000));
    assert!((3..40).contains(&skipped_tsn), "{skipped_tsn}: once in a hundred windows or so");
    for path in paths(&mut pair, Client) {
        let counted = (path.retransmitted_chunks, path.fast_retransmits, path.timeouts);
        assert_eq!(counted, (0, 0, 0));
    }
}

#[test]
fn with_one_path_no_tsn_is_skipped() {
    let mut pair = Pair::up(several().with(|c| c.security.skip_tsn_every = NonZeroU16::new(1)));
    pair.run(Duration::from_secs(1));
    let mut highest: Option<Tsn> = None;
    assert!(upload(&mut pair, 5_000, |pair, _| {
        for data in pair.data(Client) {
            assert!(highest.is_none_or(|highest| data.tsn == highest.next()));
            highest = Some(data.tsn);
        }
    }));
}
