//! Flow control, silly window avoidance, and delayed acknowledgements.

use super::*;
use crate::config::AckClock;

/// The times in milliseconds since the start of the log at which the server sent pure acknowledgements.
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
        // On the free-running clock: sent at 100 ms, received at 110 ms, with a tick each 200 ms.
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
fn quick_acks_are_sent_for_the_configured_number_of_segments() {
    let mut pair = Pair::up(Config { quick_acks: 2, ..Config::default() });
    for _ in 0..3 {
        pair.write(Client, numbered(10));
        pair.run(Duration::from_millis(300));
    }
    assert_eq!(acks(&pair), [10, 310, 810]);
}

#[test]
fn nagle_delays_a_small_segment_while_data_is_outstanding() {
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
fn a_closed_window_is_probed_with_back_off_and_reopens_when_data_is_read() {
    let server = Config { receive_buffer_bytes: 4_000, ..Config::default() };
    let mut pair = Pair::with(Config::default(), server);
    pair.reads = false;
    pair.write(Client, numbered(20_000));
    pair.run(Duration::from_secs(60));
    let stats = pair.connection(Client).stats();
    // The window is not closed to the last byte: the rest is less than a segment.
    assert!(stats.peer_window < 1_460 && stats.queued_bytes > 15_000, "{stats:?}");
    // After 5, 10 and 20 s; no further probe within a minute.
    assert_eq!(stats.counters.window_probes, 3, "{stats:?}");
    assert_eq!(stats.counters.timeouts, 0);
    pair.reads = true;
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read[1], numbered(20_000)[..]);
}

#[test]
fn a_window_that_opens_in_small_steps_is_not_advertised() {
    let server = Config { receive_buffer_bytes: 8 * 1_460, ..Config::default() };
    let mut pair = Pair::with(Config { send_buffer_bytes: 1 << 20, ..Config::default() }, server);
    pair.write(Client, numbered(100_000));
    pair.finish(Duration::from_secs(10));
    let lengths: Vec<_> = pair.data_of(Client).iter().map(|(.., segment)| segment.payload.len()).collect();
    let small = lengths[..lengths.len() - 1].iter().filter(|length| **length < 1_460).count();
    assert_eq!((small, pair.read[1].len()), (0, 100_000));
}

#[test]
fn a_growing_send_buffer_follows_the_congestion_window() {
    let config = Config {
        send_buffer_first_bytes: Some(20_000),
        send_buffer_bytes: 1 << 20,
        receive_buffer_bytes: 1 << 20,
        window_scaling: true,
        ..Config::default()
    };
    let mut pair = Pair::up(config.clone());
    let data = numbered(400_000);
    assert_eq!(pair.connection(Client).send(data.clone()), 20_000, "the window is below");
    let (mut written, mut most) = (20_000, 0);
    for _ in 0..200 {
        pair.run(Duration::from_millis(10));
        let room = pair.connection(Client).send_room();
        let window = pair.connection(Client).stats().cwnd;
        let taken = pair.connection(Client).send(data.slice(written..));
        assert_eq!(taken, room.min(data.len() - written));
        written += taken;
        let queued = pair.connection(Client).stats().queued_bytes;
        most = most.max(queued);
        // Linux counts 2304 bytes for a segment of 1460.
        assert!(queued <= 20_000.max(2 * window / 1_460 * 2_304), "{queued} with a window of {window}");
    }
    assert!(most > 100_000, "{most}");
    assert_eq!((written, pair.read[1].len()), (400_000, 400_000));
    let mut pair = Pair::up(Config { send_buffer_first_bytes: None, ..config });
    assert_eq!(pair.connection(Client).send(data), 400_000, "without it there is room at once");
}

#[test]
fn a_growing_send_buffer_is_writable_once_a_third_of_it_is_free() {
    let config = Config {
        send_buffer_first_bytes: Some(60_000),
        send_buffer_bytes: 60_000,
        receive_buffer_bytes: 1 << 20,
        window_scaling: true,
        ..Config::default()
    };
    let rooms = |config: Config| {
        let mut pair = Pair::up(config);
        pair.rate = Some(Rate::from_bits_per_second(10_000_000));
        let (data, mut rooms) = (numbered(400_000), Vec::new());
        let mut written = pair.connection(Client).send(data.clone());
        while written < data.len() {
            pair.run(Duration::from_millis(1));
            if std::mem::take(&mut pair.events[0]).contains(&Event::Writable) {
                rooms.push(pair.connection(Client).send_room());
                written += pair.connection(Client).send(data.slice(written..));
            }
        }
        rooms
    };
    let grows = rooms(config.clone());
    assert!(grows.iter().all(|room| *room >= 20_000), "{grows:?}");
    let fixed = rooms(Config { send_buffer_first_bytes: None, ..config });
    assert!(fixed.iter().any(|room| *room < 20_000), "{fixed:?}");
}

#[test]
fn scaled_windows_exceed_64_kb_only_if_both_sides_offer_scaling() {
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
    // 44 whole segments of 1460 bytes in 65,535 bytes (P3): at an RTT of 200 ms, 321,200 bytes per second.
    let mut pair = Pair::new(Profile::Opnet11.config());
    pair.latency = Duration::from_millis(100);
    pair.write(Client, numbered(6_000_000));
    pair.run(Duration::from_secs(6));
    let before = pair.read[1].len();
    pair.run(Duration::from_secs(10));
    assert_eq!(pair.read[1].len() - before, 10 * 5 * 44 * 1_460);
}

#[test]
fn the_window_is_reset_after_an_idle_rto() {
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
fn out_of_order_segments_are_limited() {
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
fn a_sack_reports_the_latest_range_first_and_three_ranges_with_timestamps() {
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
fn idle_raises_ssthresh_keeps_the_former_window_as_ssthresh() {
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

/// Transfers over an RTT of 600 ms with one lost segment. Returns the most bytes outstanding, the bytes
/// retransmitted, and the bytes delivered.
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
fn only_the_model_sends_and_accepts_data_beyond_the_window() {
    let (most, again, without) = beyond(0, 0);
    assert!(most <= 65_535 && again == 1, "{most} {again}");
    // ρ is 2 over twice 300 ms: up to two windows, limited by what both sides configure.
    let (most, again, with) = beyond(1 << 20, 1 << 20);
    assert!((120_000..=131_070).contains(&most) && again == 1, "{most} {again}");
    assert!(with * 2 > without * 3, "{with} {without}");
    let (most, again, _) = beyond(20_000, 1 << 20);
    assert!((80_000..=85_535).contains(&most) && again == 1, "{most} {again}");
    // A receiver that conforms to the RFC drops data beyond its window, which shows once a segment is
    // missing.
    let (most, again, cut) = beyond(1 << 20, 0);
    assert!(most > 120_000 && again > 20 && cut < with, "{most} {again} {cut}");
}
