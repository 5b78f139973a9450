//! Loss recovery.

use super::*;
use crate::config::LossDetection;
use crate::stats::Counters;

/// A segment size that makes the log easy to read.
const MSS: u64 = 1_460;

/// The numbers of the client's data segments, from 1, in the order they were sent, and when.
fn send_times(pair: &Pair) -> Vec<(u64, u64)> {
    let of_client = pair.data_of(Client);
    let first = of_client[0].2.seq;
    let row = |(at, _, segment): &&(Time, Side, Segment)| {
        let number = u64::from(segment.seq.since(first) as u32) / MSS + 1;
        (number, at.since(Time::from_millis(100)).as_millis() as u64)
    };
    of_client.iter().map(row).collect()
}

/// The times in milliseconds at which a segment was sent.
fn times_of(pair: &Pair, number: u64) -> Vec<u64> {
    send_times(pair).into_iter().filter(|(of, _)| *of == number).map(|(_, at)| at).collect()
}

/// Every segment is acknowledged at once, so that duplicates are not delayed; the round trip is 20 ms.
fn config(sack: bool) -> Config {
    Config { sack, ack_every: std::num::NonZeroU8::MIN, ..Config::default() }
}

/// Sends `segments` segments, of which those in `lost` are dropped (by order of sending, from 1), and closes.
fn play(config: Config, segments: u64, lost: &[usize]) -> (Pair, Counters) {
    let mut pair = Pair::up(config).losing(Client, lost);
    pair.write_and_close(Client, (segments * MSS) as usize);
    pair.finish(Duration::from_secs(100));
    assert!(pair.read[1] == numbered((segments * MSS) as usize)[..]);
    let counters = pair.connection(Client).stats().counters;
    (pair, counters)
}

#[test]
fn the_third_duplicate_triggers_a_fast_retransmit() {
    for sack in [false, true] {
        let (pair, counters) = play(config(sack), 27, &[8]);
        assert_eq!((counters.retransmissions, counters.timeouts, counters.fast_retransmits), (1, 0, 1));
        // The segment was sent in the second flight of 3 and 6; only one segment follows in that flight, so
        // two duplicates come from the third.
        assert_eq!(times_of(&pair, 8), [20, 60]);
    }
}

#[test]
fn without_sack_each_partial_acknowledgement_repairs_one_hole_per_round_trip() {
    // The third flight is 10 to 21; of it 11, 13 and 15 are lost.
    let (mut pair, counters) = play(config(false), 40, &[11, 13, 15]);
    assert_eq!((counters.retransmissions, counters.timeouts, counters.fast_retransmits), (3, 0, 1));
    // A retransmitted segment gives no round-trip sample (Karn's algorithm).
    assert_eq!(pair.connection(Client).stats().srtt, Some(Duration::from_millis(20)));
    let [first, second, third] = [11, 13, 15].map(|number| times_of(&pair, number)[1]);
    assert_eq!((second - first, third - second), (20, 20));
}

#[test]
fn without_sack_each_further_duplicate_inflates_the_window() {
    // In the third flight, 10 to 21, the second segment is lost: 10 opens the window for 22 and 23, and the
    // ten others are duplicates. With 13 segments in flight ssthresh is 6.5; three plus seven more make room
    // for 24, 25 and 26 before the hole is filled.
    let (pair, counters) = play(config(false), 60, &[11]);
    assert_eq!((counters.retransmissions, counters.timeouts), (1, 0));
    let again = times_of(&pair, 11)[1];
    let at_once: Vec<_> =
        send_times(&pair).into_iter().filter(|(_, at)| *at == again).map(|(of, _)| of).collect();
    assert_eq!(at_once, [22, 23, 11, 24, 25, 26]);
}

#[test]
fn proportional_rate_reduction_recovers_from_heavy_loss_without_a_timeout() {
    let config = Config { proportional_reduction: true, ..config(true) };
    let (pair, counters) = play(config, 60, &[11, 12, 13, 14, 15, 16, 17, 18]);
    assert_eq!((counters.retransmissions, counters.timeouts), (8, 0));
    // Each round trip allows the delivered amount plus one segment.
    let of = |number| times_of(&pair, number)[1];
    assert_eq!(of(11), 60);
    assert!((12..=18).all(|number| of(number) <= 120), "{:?}", send_times(&pair));
}

#[test]
fn with_sack_all_holes_are_filled_in_one_round_trip() {
    let (pair, counters) = play(config(true), 40, &[11, 13, 15]);
    assert_eq!((counters.retransmissions, counters.timeouts, counters.fast_retransmits), (3, 0, 1));
    let [first, second, third] = [11, 13, 15].map(|number| times_of(&pair, number)[1]);
    assert!(first <= second && second <= third && third - first < 20, "{first} {second} {third}");
}

#[test]
fn limited_transmit_avoids_a_timeout() {
    for sack in [false, true] {
        // The first flight has three segments and so yields two duplicates.
        let without = play(config(sack), 8, &[1]).1;
        assert_eq!((without.timeouts, without.fast_retransmits), (1, 0), "SACK {sack}");
        let with = play(Config { limited_transmit: true, ..config(sack) }, 8, &[1]).1;
        assert_eq!((with.timeouts, with.fast_retransmits), (0, 1), "SACK {sack}");
    }
}

#[test]
fn early_retransmit_lowers_the_duplicate_threshold_for_small_flights() {
    for sack in [false, true] {
        for (segments, lost) in [(2, 1), (3, 1)] {
            let without = play(config(sack), segments, &[lost]).1;
            assert_eq!((without.timeouts, without.fast_retransmits), (1, 0));
            let early = Config { early_retransmit: true, ..config(sack) };
            let with = play(early, segments, &[lost]).1;
            assert_eq!((with.timeouts, with.fast_retransmits), (0, 1), "{segments} segments, SACK {sack}");
        }
        // A single segment yields no duplicates.
        let early = Config { early_retransmit: true, ..config(sack) };
        assert_eq!(play(early, 1, &[1]).1.timeouts, 1);
    }
}

#[test]
fn a_lost_tail_is_repaired_by_timeout_and_slow_start() {
    for sack in [false, true] {
        // The third flight is 10 to 21; its last three segments are lost, and nothing follows.
        let (pair, counters) = play(config(sack), 21, &[19, 20, 21]);
        assert_eq!((counters.timeouts, counters.fast_retransmits), (1, 0));
        // RTO.min after the last acknowledgement, at 60 ms; then one segment, then two.
        assert_eq!(times_of(&pair, 19)[1], 1_060);
        assert_eq!(times_of(&pair, 20)[1..], [1_080]);
        assert_eq!(times_of(&pair, 21)[1..], [1_080]);
    }
}

#[test]
fn timeouts_double_and_retransmitted_segments_give_no_sample() {
    // The segment and its first two retransmissions are lost.
    let mut pair = Pair::up(config(false)).losing(Client, &[1, 2, 3]);
    pair.write(Client, numbered(100));
    pair.run(Duration::from_secs(20));
    assert_eq!(times_of(&pair, 1), [0, 1_000, 3_000, 7_000]);
    let stats = pair.connection(Client).stats();
    assert_eq!(stats.rto, Duration::from_secs(8), "backed off until the next valid sample (Karn)");
    assert_eq!(stats.srtt, Some(Duration::from_millis(20)), "the sample of the handshake");
    pair.write(Client, numbered(100));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.connection(Client).stats().rto, Duration::from_secs(1));
}

#[test]
fn a_connection_fails_after_data_retries_timeouts() {
    let mut pair = Pair::up(Config { data_retries: 3, ..config(true) });
    pair.drop = Some(Box::new(|from, _, _| from == Client));
    pair.write(Client, numbered(100));
    pair.run(Duration::from_secs(100));
    assert_eq!(pair.closed(Client), Some(Reason::TimedOut));
    assert_eq!(times_of(&pair, 1), [0, 1_000, 3_000, 7_000]);
}

#[test]
fn rack_detects_a_lost_retransmission() {
    let by_time = Config { loss_detection: LossDetection::Time, ..config(true) };
    for (config, timeouts) in [(config(true), 1), (by_time, 0)] {
        let (pair, _) = play(config.clone(), 60, &[12]);
        let again = send_times(&pair).iter().rposition(|(number, _)| *number == 12).unwrap();
        let (_, counters) = play(config, 60, &[12, again + 1]);
        assert_eq!(counters.timeouts, timeouts);
    }
}

#[test]
fn a_tail_loss_probe_avoids_a_timeout() {
    let probing = Config { loss_detection: LossDetection::Time, tail_loss_probe: true, ..config(true) };
    let (pair, counters) = play(probing.clone(), 21, &[20, 21]);
    assert_eq!((counters.timeouts, counters.tail_probes), (0, 1));
    // 2·SRTT after the last acknowledgement, at 60 ms, the last segment is sent again; its SACK reveals the
    // other loss.
    let probed = times_of(&pair, 21)[1];
    assert!((100..110).contains(&probed), "{probed}");
    assert!(times_of(&pair, 20)[1] < probed + 30);
    // Only the probe arrives: the loss still gets a congestion response.
    let (mut pair, counters) = play(probing, 21, &[21]);
    assert_eq!((counters.timeouts, counters.tail_probes, counters.fast_retransmits), (0, 1, 0));
    assert!(pair.connection(Client).stats().counters.retransmissions == 1);
}

/// Loss detection by time with probes; the client's timers run by a wheel of 4 ms with 2 ms on top.
fn on_the_wheel() -> Config {
    Config {
        loss_detection: LossDetection::Time,
        tail_loss_probe: true,
        wheel_tick: Duration::from_millis(4),
        timer_margin: Duration::from_millis(2),
        ..config(true)
    }
}

#[test]
fn on_the_wheel_a_tail_loss_probe_is_sent_at_a_tick_after_two_round_trips_and_a_margin() {
    // The last acknowledgement arrives at 60 ms, SRTT is 20 ms.
    for (margin, probed) in [(2, 104), (10, 112)] {
        let config = Config { timer_margin: Duration::from_millis(margin), ..on_the_wheel() };
        let (pair, counters) = play(config, 21, &[20, 21]);
        assert_eq!((counters.timeouts, counters.tail_probes), (0, 1));
        // The log begins at 100 ms, a tick: 11 ticks for 42 ms and one more, 13 and one more.
        assert_eq!(times_of(&pair, 21)[1], probed + 4, "margin {margin}");
    }
}

#[test]
fn on_the_wheel_the_reordering_timer_waits_for_a_tick() {
    // The last but one segment is lost; the SACK of the last arrives at 60 ms, and a quarter of a round trip later the loss
    // is certain: at 65 ms. On the wheel 7 ms are two ticks, and the third ends them.
    let exact = Config { wheel_tick: Duration::ZERO, timer_margin: Duration::ZERO, ..on_the_wheel() };
    for (config, at) in [(exact, 65), (on_the_wheel(), 72)] {
        let (pair, counters) = play(config, 21, &[20]);
        assert_eq!((counters.timeouts, counters.tail_probes, counters.fast_retransmits), (0, 0, 1));
        assert_eq!(times_of(&pair, 20)[1], at);
    }
}

#[test]
fn on_the_wheel_a_probe_that_waits_until_the_rto_replaces_it() {
    // One segment: its probe allows for a delayed acknowledgement, and so is later than the RTO.
    let rto = crate::RtoBounds { min: Duration::from_millis(200), ..Default::default() };
    let exact = Config { wheel_tick: Duration::ZERO, rto, ..on_the_wheel() };
    let wheel = Config { rto, ..on_the_wheel() };
    for (config, counts) in [(exact, (1, 0)), (wheel, (0, 1))] {
        let counters = play(config, 1, &[1]).1;
        assert_eq!((counters.timeouts, counters.tail_probes), counts);
    }
}

#[test]
fn the_first_segment_of_a_delayed_acknowledgement_and_the_first_that_is_sacked_give_samples() {
    use crate::config::Timing;
    // The second segment is written 30 ms after the first, and one acknowledgement covers both.
    let srtt = |timing| {
        let mut pair =
            Pair::up(Config { timing, ack_every: 2.try_into().unwrap(), nagle: false, ..config(true) });
        pair.write(Client, numbered(100));
        pair.run(Duration::from_millis(30));
        pair.write(Client, numbered(100));
        pair.run(Duration::from_millis(100));
        pair.connection(Client).stats().srtt.unwrap().as_micros()
    };
    // 20 ms by the handshake, and an eighth of 20 or of 50 ms.
    assert_eq!((srtt(Timing::EverySegment), srtt(Timing::FirstSegment)), (20_000, 23_750));
    // The first segment is lost: the SACK of the second is a sample before the first is acknowledged.
    let sampled = |timing| {
        let config = Config { timing, nagle: false, tail_loss_probe: false, ..on_the_wheel() };
        let mut pair = Pair::up(config).losing(Client, &[1]);
        pair.latency = Duration::from_millis(30);
        pair.write(Client, numbered(2 * MSS as usize));
        pair.run(Duration::from_millis(61));
        pair.connection(Client).stats().srtt.unwrap().as_millis()
    };
    assert_eq!((sampled(Timing::EverySegment), sampled(Timing::FirstSegment)), (20, 25));
}

#[test]
fn rack_that_takes_any_rtt_detects_a_loss_after_a_delayed_acknowledgement_later() {
    // Two segments, of which the second is lost. The first is acknowledged late, together with the SACK of the third, which
    // was sent 30 ms later and whose RTT is short. By that RTT the second is lost at once.
    let repaired = |rack_takes_any_rtt| {
        let ack_every = 3.try_into().unwrap();
        let config = Config { rack_takes_any_rtt, ack_every, nagle: false, ..on_the_wheel() };
        let mut pair = Pair::up(config).losing(Client, &[2]);
        pair.write(Client, numbered(2 * MSS as usize));
        pair.run(Duration::from_millis(30));
        pair.write(Client, numbered(MSS as usize));
        pair.run(Duration::from_millis(300));
        let counters = pair.connection(Client).stats().counters;
        assert_eq!((counters.timeouts, counters.fast_retransmits, counters.retransmissions), (0, 1, 1));
        times_of(&pair, 2)[1]
    };
    assert_eq!(repaired(false), 50);
    assert!((56..=64).contains(&repaired(true)), "{}", repaired(true));
}

#[test]
fn proportional_rate_reduction_keeps_sending_during_recovery() {
    // With pipe alone nothing is sent for half a window after a loss; with PRR every second acknowledgement
    // allows a segment.
    let silence = |proportional_reduction| {
        let config = Config { proportional_reduction, ..config(true) };
        let mut pair = Pair::up(config).losing(Client, &[30]);
        pair.rate = Some("10mbit".parse().unwrap());
        pair.write_and_close(Client, 100 * MSS as usize);
        pair.finish(Duration::from_secs(20));
        let counters = pair.connection(Client).stats().counters;
        assert_eq!((counters.timeouts, counters.retransmissions), (0, 1));
        let left: Vec<_> = pair.data_of(Client).iter().map(|(at, ..)| *at).collect();
        let again = send_times(&pair).iter().rposition(|(number, _)| *number == 30).unwrap();
        left[again..again + 4].windows(2).map(|two| two[1].since(two[0])).max().unwrap()
    };
    assert!(silence(true) * 2 < silence(false), "{:?} {:?}", silence(true), silence(false));
}

#[test]
fn sack_blocks_for_unsent_data_are_ignored() {
    let mut pair = Pair::up(config(true));
    pair.write(Client, numbered(3 * MSS as usize));
    pair.drain(Client);
    let stats = pair.connection(Client).stats();
    assert_eq!(stats.flight_bytes, 3 * MSS as usize);
    let seq = pair.data_of(Client)[0].2.seq;
    let mut ack = pair.data_of(Client)[0].2.clone();
    std::mem::swap(&mut ack.source_port, &mut ack.destination_port);
    (ack.seq, ack.ack, ack.payload) = (ack.ack, seq, Bytes::new());
    for (left, right) in [(3 * MSS, 5 * MSS), (2 * MSS, MSS), (MSS / 2, MSS / 2 + 10)] {
        ack.options.sack = Default::default();
        ack.options.sack.push(seq.plus(left), seq.plus(right));
        let payload = ack.encode(address(Server).ip(), address(Client).ip());
        let (from, to) = (address(Server), address(Client));
        let now = pair.now;
        pair.endpoints[0].handle(now, Datagram { from, to, ecn: braidftp_base::Ecn::NotEct, payload });
        pair.drain(Client);
        assert_eq!(pair.connection(Client).stats().flight_bytes, 3 * MSS as usize);
    }
}
