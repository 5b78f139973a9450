//! How long a megabyte takes over the papers' paths, against the time that its bytes take on the wire.

use braidftp_cc as cc;

use super::*;

/// A path and how much of it is lost.
struct Cell {
    bits_per_second: u64,
    latency: Duration,
    loss_per_mille: u64,
}

/// 3 Mbit/s, 1 ms (the papers' LAN).
const fn lan(loss_per_mille: u64) -> Cell {
    Cell { bits_per_second: 3_000_000, latency: Duration::from_millis(1), loss_per_mille }
}

/// The mean, over some seeds, of the time that a hundred files of 10 kB take over what their bytes alone would. A lost
/// packet costs no link time here, so that the ratio may fall under 1.
fn ratio(config: &Config, cell: &Cell) -> f64 {
    const SEEDS: u64 = 4;
    let mut sum = 0.0;
    for seed in 1..=SEEDS {
        let mut pair = Pair::new(config.clone()).seeded(seed);
        pair.latency = cell.latency;
        pair.rate = Some(Rate::from_bits_per_second(cell.bits_per_second));
        pair.run(Duration::from_secs(1));
        pair.log.clear();
        pair.loss = cell.loss_per_mille;
        let start = pair.now;
        for _ in 0..100 {
            pair.send(Client, 0, pattern(10_000));
        }
        assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 100));
        let kept = 1.0 - cell.loss_per_mille as f64 / 1_000.0;
        let limit = 1_000_000.0 * 8.0 / (cell.bits_per_second as f64 * kept);
        sum += pair.now.since(start).as_secs_f64() / limit;
    }
    sum / SEEDS as f64
}

#[test]
fn without_loss_both_profiles_keep_the_link_busy() {
    for config in [rfc(), modern()] {
        let ratio = ratio(&config, &lan(0));
        assert!(ratio < 1.05, "{ratio}");
    }
}

#[test]
fn a_queue_that_overflows_costs_a_round_trip_and_no_timeouts() {
    let mut config = modern_halving();
    config.congestion_options.slow_start = cc::SlowStart::UntilLoss;
    let mut pair = Pair::up(config);
    pair.latency = Duration::from_millis(1);
    pair.rate = Some(Rate::from_bits_per_second(3_000_000));
    // 500 kB.
    pair.queue = Duration::from_millis(1_333);
    let (start, bytes) = (pair.now, 4_000_000);
    pair.send(Client, 0, pattern(bytes));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    let ratio = pair.now.since(start).as_secs_f64() / (bytes as f64 * 8.0 / 3e6);
    let path = pair.association(Client).stats().paths[0].clone();
    assert!(ratio < 1.10 && path.timeouts == 0, "{ratio} {path:?}");
    assert!(path.fast_retransmits > 0, "it did overflow");
    let duplicates = pair.association(Server).stats().duplicates;
    assert!(duplicates * 20 < path.retransmitted_chunks, "{duplicates} of {path:?}");
}

#[test]
fn the_modern_profile_keeps_a_lossy_lan_busy() {
    for loss_per_mille in [30, 100] {
        let ratio = ratio(&modern(), &lan(loss_per_mille));
        assert!(ratio < 1.10, "{loss_per_mille} in a thousand lost: {ratio}");
    }
}

#[test]
fn while_something_is_heard_a_loss_at_the_end_of_a_long_queue_is_no_time_out() {
    // 300 kB at once, before which no round trip was measured that is as long as their queue becomes: over a second.
    let mut config = modern();
    config.congestion_options.initial_window =
        cc::InitialWindow::Mtus(std::num::NonZeroU8::new(210).expect("it is not 0"));
    let mut pair = Pair::up(config);
    pair.latency = Duration::from_millis(1);
    pair.rate = Some(Rate::from_bits_per_second(2_000_000));
    let already = pair.sent[Client as usize];
    pair.drop = Some(Box::new(move |side, nth, _| side == Client && nth == already + 20));
    pair.send(Client, 0, pattern(500_000));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    let path = pair.association(Client).stats().paths[0].clone();
    assert!(path.srtt > Some(Duration::from_millis(500)), "{path:?}");
    assert_eq!((path.timeouts, path.retransmitted_chunks), (0, 1), "{path:?}");
}
