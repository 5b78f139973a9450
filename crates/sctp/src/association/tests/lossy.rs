//! The time for a megabyte over the papers' paths with loss, relative to its transmission time.

use std::num::NonZeroU8;

use braidftp_cc as cc;

use super::*;
use crate::config::LossRecovery;

/// A path and its loss.
struct Cell {
    bits_per_second: u64,
    latency: Duration,
    loss_per_mille: u64,
}

/// 3 Mbit/s, 1 ms (the papers' LAN).
const fn lan(loss_per_mille: u64) -> Cell {
    Cell { bits_per_second: 3_000_000, latency: Duration::from_millis(1), loss_per_mille }
}

/// The mean over some seeds of the time of a hundred files of 10 kB, divided by their transmission time. A lost packet takes no
/// link time here, so the ratio may be below 1.
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
    config.congestion.options.slow_start = cc::SlowStart::UntilLoss;
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
fn with_rfc_4960_a_time_out_does_not_end_fast_recovery_and_no_window_grows_before_its_end() {
    // RFC 4960 §7.2.1 does not increase the window "in Fast Recovery", which §7.2.4 ends only at its exit point. The same holds
    // in ns-2's module, where no time-out resets `uiRecover`.
    for (loss_recovery, round_trips) in [(LossRecovery::Rfc4960, 10), (LossRecovery::Rfc9260, 4)] {
        let mut config = Profile::Ns2.config().with(|c| {
            c.legacy.loss_recovery = loss_recovery;
            c.sack.frequency = 1;
            c.congestion.max_burst = None;
        });
        config.memory.receive_buffer_bytes = 1 << 20;
        config.congestion.options.initial_window = cc::InitialWindow::Mtus(NonZeroU8::new(40).unwrap());
        let mut pair = Pair::up(config);
        pair.clear_log();
        // Ten chunks of the first flight are lost, also when retransmitted, until the first of them is sent for the third time:
        // after the time-out.
        let (mut first, mut departures) = (None, 0);
        pair.drop = Some(Box::new(move |side, _, packet| {
            let Some(tsn) = tsn_of(packet).filter(|_| side == Client) else { return false };
            let first = *first.get_or_insert(tsn);
            departures += u32::from(tsn == first);
            tsn - first < 10 && departures <= 2
        }));
        pair.send(Client, 0, pattern(100_000));
        assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
        let path = pair.association(Client).stats().paths[0].clone();
        assert_eq!((path.fast_retransmits, path.timeouts), (1, 1));
        let mut times: BTreeMap<u32, Vec<Time>> = BTreeMap::new();
        for (at, _, packet) in pair.log.iter().filter(|entry| entry.1 == Client) {
            times.entry(tsn_of(packet).unwrap_or_default()).or_default().push(*at);
        }
        let again = times.values().filter(|times| times.len() > 1);
        let last: BTreeSet<Time> = again.filter_map(|times| times.last().copied()).collect();
        assert_eq!(last.len(), round_trips, "{loss_recovery:?}");
    }
}

fn tsn_of(packet: &Packet) -> Option<u32> {
    let mut data = chunks(packet).into_iter().filter_map(|chunk| match chunk {
        Chunk::Data(data) => Some(data.tsn.0),
        _ => None,
    });
    data.next()
}

#[test]
fn the_modern_profile_keeps_a_lossy_lan_busy() {
    for loss_per_mille in [30, 100] {
        let ratio = ratio(&modern(), &lan(loss_per_mille));
        assert!(ratio < 1.10, "{loss_per_mille} in a thousand lost: {ratio}");
    }
}

#[test]
fn acknowledgements_prevent_a_time_out_for_a_loss_at_the_end_of_a_long_queue() {
    // 300 kB at once, before any round trip as long as their queue of more than a second was measured.
    let mut config = modern();
    config.congestion.options.initial_window =
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
