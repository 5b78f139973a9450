//! Paths that reorder packets: the reordering window (RFC 8985 §6.2).

use super::*;

/// A client that sends 5 MB over 20 Mbit/s and 80 ms of RTT, on which a third of the packets is late by up to 20 ms.
fn reordered() -> Pair {
    let mut pair = Pair::up(modern().with(|c| c.memory.send_buffer_bytes = 16 << 20));
    pair.latency = Duration::from_millis(40);
    pair.rate = Some(Rate::from_bits_per_second(20_000_000));
    pair.queue = Duration::from_millis(200);
    pair.reordering = 333;
    (0..50).for_each(|_| pair.send(Client, 0, pattern(100_000)));
    pair
}

fn path(pair: &mut Pair) -> crate::stats::PathStats {
    pair.association(Client).stats().paths[0].clone()
}

#[test]
fn after_the_first_round_trips_hardly_any_late_packet_is_retransmitted() {
    let mut pair = reordered();
    pair.run(Duration::from_millis(800));
    let learnt = path(&mut pair);
    assert!(learnt.retransmitted_chunks > 0 && learnt.undone > 0, "{learnt:?}");
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.read(Server, 0).len(), 50);
    let after = path(&mut pair);
    // Of 3,500 packets, a third of them late; a tail loss probe retransmits as well.
    assert!(after.retransmitted_chunks <= learnt.retransmitted_chunks + 5, "{after:?}");
    assert_eq!((after.undone, after.timeouts), (after.fast_retransmits, 0), "{after:?}");
}

#[test]
fn losses_on_a_path_that_reorders_packets_are_repaired_without_time_outs() {
    let mut pair = reordered();
    pair.loss = 20;
    pair.run(Duration::from_secs(6));
    assert_eq!(pair.read(Server, 0).len(), 50);
    let after = path(&mut pair);
    let duplicates = pair.association(Server).stats().duplicates;
    assert!(duplicates * 5 < after.retransmitted_chunks, "{duplicates} of {after:?}");
    assert_eq!(after.timeouts, 0, "{after:?}");
}

#[test]
fn a_path_that_loses_more_than_it_delays_waits_for_three_packets_only() {
    let threshold = |loss, reordering| {
        let mut pair = reordered();
        (pair.loss, pair.reordering) = (loss, reordering);
        pair.run(Duration::from_secs(2));
        let window = pair.association(Client).paths[0].send_order.as_ref().unwrap().window;
        window.threshold(Duration::from_millis(80))
    };
    let losses_lead = threshold(30, 10);
    assert_eq!(losses_lead.packets, Some(3));
    assert!(losses_lead.time > Duration::from_millis(90), "{losses_lead:?}");
    assert_eq!(threshold(10, 200).packets, None);
}
