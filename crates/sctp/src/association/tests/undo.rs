//! Spurious losses and time-outs, and proportional rate reduction (RFC 3708, RFC 9937).

use super::*;

/// Both sides know the RTT, and the client's window is large enough for the test and was not idle.
fn warm(config: Config) -> Pair {
    let mut pair = Pair::up(config);
    pair.send(Client, 0, pattern(60_000));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    pair.run(Duration::from_millis(30));
    pair.clear_log();
    pair
}

/// Delays the datagram that would arrive as number `nth`.
fn delay(pair: &mut Pair, nth: usize, by: Duration) {
    let key = *pair.under_way.keys().nth(nth).unwrap();
    let datagram = pair.under_way.remove(&key).unwrap();
    pair.under_way.insert((key.0 + by, key.1), datagram);
}

fn path(pair: &mut Pair) -> crate::stats::PathStats {
    pair.association(Client).stats().paths[0].clone()
}

#[test]
fn a_reordered_packet_does_not_reduce_the_window() {
    for undo_spurious in [true, false] {
        let mut pair = warm(modern_halving().with(|c| c.recovery.undo_spurious = undo_spurious));
        pair.send(Client, 0, pattern(14_000));
        pair.drain(Client);
        let before = path(&mut pair);
        delay(&mut pair, 2, Duration::from_millis(35));
        pair.run(Duration::from_secs(1));
        let after = path(&mut pair);
        assert_eq!((after.fast_retransmits, after.retransmitted_chunks, after.timeouts), (1, 1, 0));
        assert_eq!(pair.association(Server).stats().duplicates, 1);
        assert_eq!(after.undone, u64::from(undo_spurious));
        assert_eq!(after.cwnd >= before.cwnd, undo_spurious, "{} after {}", after.cwnd, before.cwnd);
    }
}

#[test]
fn a_real_loss_is_not_undone_by_other_duplicates() {
    let mut pair = warm(modern_halving());
    let already = pair.sent[Client as usize];
    pair.drop = Some(Box::new(move |side, nth, _| side == Client && nth == already + 2));
    pair.send(Client, 0, pattern(14_000));
    pair.duplication = 1_000;
    pair.drain(Client);
    let before = path(&mut pair);
    pair.run(Duration::from_secs(1));
    let after = path(&mut pair);
    assert!(pair.association(Server).stats().duplicates > 5);
    assert_eq!((after.fast_retransmits, after.undone), (1, 0));
    assert!(after.cwnd < before.cwnd);
}

#[test]
fn a_spurious_time_out_is_undone() {
    let mut config = modern_halving();
    config.recovery.tail_loss_probe = false;
    let mut pair = warm(config);
    pair.latency = Duration::from_millis(150);
    pair.send(Client, 0, pattern(5_000));
    pair.drain(Client);
    let before = path(&mut pair);
    pair.run(Duration::from_secs(2));
    let after = path(&mut pair);
    assert!(after.timeouts >= 1 && after.undone == 1, "{after:?}");
    assert!(after.cwnd >= before.cwnd, "{} after {}", after.cwnd, before.cwnd);
    assert_eq!(pair.read(Server, 0).len(), 2);
}

#[test]
fn in_recovery_packets_are_sent_as_data_is_delivered_and_not_at_its_end() {
    for proportional_reduction in [true, false] {
        let mut config =
            modern_halving().with(|c| c.congestion.proportional_reduction = proportional_reduction);
        config.congestion.options.initial_window =
            braidftp_cc::InitialWindow::Mtus(std::num::NonZeroU8::new(40).expect("it is not 0"));
        config.sack.frequency = 1;
        let mut pair = Pair::up(config);
        pair.rate = Some(Rate::from_bits_per_second(10_000_000));
        let already = pair.sent[Client as usize];
        pair.drop = Some(Box::new(move |side, nth, _| side == Client && nth == already));
        pair.send(Client, 0, pattern(300_000));
        pair.run(Duration::from_millis(60));
        // The first flight takes 47 ms to arrive, with 10 ms of delay: from the fourth on, one of two of its SACKs permits new
        // data, or none until the halved window has space.
        let left: Vec<Time> = pair
            .log
            .iter()
            .filter(|(at, side, _)| *side == Client && at.since(pair.log[0].0) > Duration::from_millis(20))
            .map(|entry| entry.0)
            .collect();
        let longest = left.windows(2).map(|two| two[1].since(two[0])).max().unwrap();
        assert_eq!(longest < Duration::from_millis(6), proportional_reduction, "{longest:?} in {left:?}");
        assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    }
}
