//! Windows, what is worth sending in them, and when to acknowledge.

use super::*;
use crate::config::AckClock;

/// When, in milliseconds since the start of the log, the server acknowledged without data.
fn acks(pair: &Pair) -> Vec<u64> {
    let of_server = pair.log.iter().filter(|(_, side, _)| *side == Server);
    of_server.map(|(at, ..)| at.since(Time::from_millis(100)).as_millis() as u64).collect()
}

#[test]
fn the_second_segment_is_acknowledged_at_once_and_a_single_one_after_the_delay() {
    for (config, single) in [
        (Config::default(), 210),
        (Profile::NewrenoBsd46.config(), 110),
        (Config { ack_delay: Duration::ZERO, ..Config::default() }, 10),
        // On the free-running clock: it left at 100 ms, came at 110, and the clock ticks each 200 ms.
        (Config { ack_clock: AckClock::Free, ..Config::default() }, 100),
    ] {
        let mut pair = Pair::up(config);
        pair.write(Client, numbered(10));
        pair.run(Duration::from_secs(1));
        assert_eq!(acks(&pair), [single]);
    }
    let mut pair = Pair::up(Config { nagle: false, ..Config::default() });
    pair.write(Client, numbered(10));
    pair.drain(Client);
    pair.write(Client, numbered(10));
    pair.run(Duration::from_secs(1));
    assert_eq!(acks(&pair), [10]);
}

#[test]
fn quick_acknowledgements_last_for_as_many_segments_as_they_are() {
    let mut pair = Pair::up(Config { quick_acks: 2, ..Config::default() });
    for _ in 0..3 {
        pair.write(Client, numbered(10));
        pair.run(Duration::from_millis(300));
    }
    assert_eq!(acks(&pair), [10, 310, 810]);
}

#[test]
fn nagle_holds_a_small_segment_while_something_is_not_acknowledged() {
    for (nagle, second) in [(true, 210 + 10), (false, 5)] {
        let mut pair = Pair::up(Config { nagle, ..Config::default() });
        pair.write(Client, numbered(10));
        pair.run(Duration::from_millis(5));
        pair.write(Client, numbered(10));
        pair.run(Duration::from_secs(1));
        let left: Vec<_> =
            pair.data_of(Client).iter().map(|(at, ..)| at.since(Time::from_millis(100))).collect();
        assert_eq!(left, [0, second].map(Duration::from_millis));
    }
}

#[test]
fn a_closed_window_is_probed_less_and_less_often_and_opens_by_what_is_read() {
    let server = Config { receive_buffer_bytes: 4_000, ..Config::default() };
    let mut pair = Pair::with(Config::default(), server);
    pair.reads = false;
    pair.write(Client, numbered(20_000));
    pair.run(Duration::from_secs(60));
    let stats = pair.connection(Client).stats();
    // It is not closed to the last byte: less than a segment is not worth being sent.
    assert!(stats.peer_window < 1_460 && stats.queued_bytes > 15_000, "{stats:?}");
    // After 5, 10, 20 s and no more in a minute.
    assert_eq!(stats.counters.window_probes, 3, "{stats:?}");
    assert_eq!(stats.counters.timeouts, 0);
    pair.reads = true;
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read[1], numbered(20_000)[..]);
}

#[test]
fn a_window_that_opens_bit_by_bit_is_not_told_of_and_no_small_segments_follow() {
    let server = Config { receive_buffer_bytes: 8 * 1_460, ..Config::default() };
    let mut pair = Pair::with(Config { send_buffer_bytes: 1 << 20, ..Config::default() }, server);
    pair.write(Client, numbered(100_000));
    pair.finish(Duration::from_secs(10));
    let lengths: Vec<_> = pair.data_of(Client).iter().map(|(.., segment)| segment.payload.len()).collect();
    let small = lengths[..lengths.len() - 1].iter().filter(|length| **length < 1_460).count();
    assert_eq!((small, pair.read[1].len()), (0, 100_000));
}

#[test]
fn scaled_windows_are_larger_than_64_kb_and_only_where_both_ask() {
    let scaling = Config {
        window_scaling: true,
        receive_buffer_bytes: 1 << 20,
        send_buffer_bytes: 1 << 20,
        ..Config::default()
    };
    let plain = Config { window_scaling: false, ..scaling.clone() };
    for (client, server, window) in
        [(&scaling, &scaling, 1 << 20), (&scaling, &plain, 65_535), (&plain, &scaling, 65_535)]
    {
        let mut pair = Pair::with(client.clone(), server.clone());
        pair.write(Client, numbered(584_000));
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.connection(Client).stats().peer_window, window);
        assert_eq!(pair.read[1].len(), 584_000);
    }
}

#[test]
fn without_scaling_44_segments_a_round_trip_is_the_limit() {
    // 44 whole segments of 1460 in 65,535 bytes (P3): at 200 ms that is 321,200 bytes a second.
    let mut pair = Pair::new(Profile::Opnet11.config());
    pair.latency = Duration::from_millis(100);
    pair.write(Client, numbered(6_000_000));
    pair.run(Duration::from_secs(6));
    let before = pair.read[1].len();
    pair.run(Duration::from_secs(10));
    assert_eq!(pair.read[1].len() - before, 10 * 5 * 44 * 1_460);
}

#[test]
fn after_an_idle_rto_the_window_is_small_again() {
    for (idle_restart, in_flight) in [(true, 3), (false, 12)] {
        let mut pair =
            Pair::up(Config { idle_restart, ack_every: std::num::NonZeroU8::MIN, ..Config::default() });
        pair.write(Client, numbered(9 * 1_460));
        pair.run(Duration::from_secs(3));
        pair.write(Client, numbered(30 * 1_460));
        pair.drain(Client);
        assert_eq!(pair.connection(Client).stats().flight_bytes, in_flight * 1_460);
    }
}

#[test]
fn segments_kept_out_of_order_have_a_limit() {
    let server = Config { out_of_order_max: 2, ..Config::default() };
    let client = Config { ack_every: std::num::NonZeroU8::MIN, ..Config::default() };
    let mut pair = Pair::with(client, server);
    pair.run(Duration::from_millis(100));
    let mut pair = pair.losing(Client, &[4]);
    pair.write_and_close(Client, 30 * 1_460);
    pair.finish(Duration::from_secs(60));
    assert_eq!(pair.read[1], numbered(30 * 1_460)[..]);
    let most = pair.log.iter().flat_map(|(.., segment)| segment.options.sack.as_slice());
    assert!(most.map(|(left, right)| right.since(*left)).max().unwrap() <= 2 * 1_460);
}

#[test]
fn a_sack_tells_of_the_latest_first_and_of_three_ranges_beside_timestamps() {
    for (timestamps, blocks) in [(false, 4), (true, 3)] {
        let config =
            Config { timestamps, nagle: false, ack_every: std::num::NonZeroU8::MIN, ..Config::default() };
        let options = braidftp_cc::Options {
            initial_window: braidftp_cc::InitialWindow::Mtus(20.try_into().unwrap()),
            ..config.congestion_options
        };
        let mut pair =
            Pair::up(Config { congestion_options: options, ..config }).losing(Client, &[1, 3, 5, 7, 9, 11]);
        pair.write(Client, numbered(12 * 1_400));
        pair.run(Duration::from_millis(15));
        let last = pair.log.iter().rev().find(|(_, side, _)| *side == Server).unwrap().2.clone();
        let told = last.options.sack.as_slice().to_vec();
        assert_eq!(told.len(), blocks, "{last}");
        assert!(told.windows(2).all(|two| two[0].0.after(two[1].0)), "{last}");
    }
}

#[test]
fn idleness_raises_ssthresh_to_the_window_that_it_takes_where_a_stack_has_it_so() {
    for idle_raises_ssthresh in [false, true] {
        let mut options = Config::default().congestion_options;
        options.initial_ssthresh = Some(6 * 1_460);
        let config = Config { idle_raises_ssthresh, congestion_options: options, ..Config::default() };
        let mut pair = Pair::up(Config { ack_every: std::num::NonZeroU8::MIN, ..config });
        pair.write(Client, numbered(60 * 1_460));
        while pair.connection(Client).stats().cwnd < 12 * 1_460 {
            pair.run(Duration::from_millis(1));
        }
        pair.run(Duration::from_secs(20));
        pair.write(Client, numbered(1_460));
        pair.run(Duration::from_millis(1));
        let stats = pair.connection(Client).stats();
        assert_eq!(stats.cwnd, 3 * 1_460);
        match idle_raises_ssthresh {
            false => assert_eq!(stats.ssthresh, 6 * 1_460),
            true => assert!(stats.ssthresh >= 12 * 1_460, "{stats:?}"),
        }
    }
}

/// What of a transfer over a round trip of 600 ms, where one segment is lost on its way, was outstanding at most, how much was
/// sent again, and how much arrived.
fn beyond(client: usize, server: usize) -> (usize, u64, usize) {
    let with = |beyond_window_bytes| Config {
        congestion_control: braidftp_cc::Kind::Adalr,
        beyond_window_bytes,
        ack_delay: Duration::ZERO,
        send_buffer_bytes: 1 << 20,
        ..Config::default()
    };
    let mut pair = Pair::with(with(client), with(server)).losing(Client, &[3_000]);
    pair.latency = Duration::from_millis(300);
    pair.write(Client, numbered(20_000_000));
    let mut most = 0;
    for _ in 0..600 {
        pair.run(Duration::from_millis(100));
        let stats = pair.connection(Client).stats();
        most = most.max(stats.outstanding_bytes);
        assert!(stats.peer_window <= 65_535);
    }
    let again = pair.connection(Client).stats().counters.retransmissions;
    (most, again, pair.read[1].len())
}

#[test]
fn what_lies_beyond_the_window_is_sent_and_taken_by_the_model_alone() {
    let (most, again, without) = beyond(0, 0);
    assert!(most <= 65_535 && again == 1, "{most} {again}");
    // ρ is 2 over twice 300 ms: up to two windows, and no further than both sides have it.
    let (most, again, with) = beyond(1 << 20, 1 << 20);
    assert!((120_000..=131_070).contains(&most) && again == 1, "{most} {again}");
    assert!(with * 2 > without * 3, "{with} {without}");
    let (most, again, _) = beyond(20_000, 1 << 20);
    assert!((80_000..=85_535).contains(&most) && again == 1, "{most} {again}");
    // A receiver as the RFC has it cuts off what it did not ask for, which shows once something is missing before it.
    let (most, again, cut) = beyond(1 << 20, 0);
    assert!(most > 120_000 && again > 20 && cut < with, "{most} {again} {cut}");
}
