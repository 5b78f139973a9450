//! The ramp: how the start of a flow finds the rate of the path.

use super::*;
use crate::auto::tests::{Flow, MTU, Wire, ms};
use crate::frame::testing::ack;
use crate::{Cause, Congestion, Controller, Sent};

/// Small messages before the first flight, such as those of a handshake or a login, measure the RTT. The flight is nevertheless
/// sent in one burst: acknowledgements of a paced flight would show its pacing, and not the rate of the path.
#[test]
fn small_messages_before_the_first_flight_do_not_slow_the_start() {
    let begun = |messages| {
        let rtt = ms(101);
        let mut flow = Flow::new(Wire::new(ms(100), 200, 0));
        for _ in 0..messages {
            flow.auto.on_sent(Sent { now: flow.now, bytes: 100, flight_before: 0 });
            flow.auto.on_app_limited(flow.now, 100);
            flow.now += rtt;
            flow.auto.on_ack(Ack { now: flow.now, flight_before: 100, ..ack(100, rtt) });
        }
        flow.next_at = flow.now;
        flow.run(ms(600))
    };
    let (at_once, later) = (begun(0), begun(3));
    assert!(later > 0.95 * at_once, "{later:.3} of what the path carries, without messages {at_once:.3}");
}

/// Replies to commands that arrived one by one are still in flight when the first flight leaves, and their acknowledgements do not show
/// how the path spreads it.
#[test]
fn acknowledgements_of_small_messages_are_not_those_of_the_first_flight() {
    let begun = |messages: usize| {
        let rtt = ms(101);
        let mut flow = Flow::new(Wire::new(ms(100), 200, 0));
        for number in 0..messages {
            flow.auto.on_sent(Sent { now: flow.now, bytes: 100, flight_before: number * 100 });
        }
        flow.auto.on_app_limited(flow.now, messages * 100);
        let answered_at = flow.now + rtt;
        flow.now = answered_at - ms(2);
        flow.next_at = flow.now;
        flow.send();
        flow.now = answered_at;
        for left in (1..=messages).rev() {
            let flight_before = flow.flight_bytes() + left * 100;
            flow.auto.on_ack(Ack { now: flow.now, flight_before, ..ack(100, rtt) });
        }
        flow.run(ms(600))
    };
    let (alone, behind) = (begun(0), begun(3));
    assert!(behind > 0.95 * alone, "{behind:.3} of what the path carries, without messages {alone:.3}");
}

/// For three rounds acknowledgements return sooner on another path, then on the path itself.
#[test]
fn reports_by_a_shorter_path_in_some_rounds_do_not_end_the_ramp() {
    let mut flow = Flow::new(Wire::new(ms(200), 1_000, 0));
    for round in 0..6 {
        let packets = flow.auto.window() / MTU;
        for at in 0..packets {
            flow.auto.on_sent(Sent { now: flow.now, bytes: MTU, flight_before: at * MTU });
        }
        let rtt = (round > 2).then_some(ms(200));
        let cross_path_age = rtt.is_none().then_some(ms(106));
        flow.now += rtt.or(cross_path_age).expect("it is one of both");
        for at in 0..packets {
            flow.auto.on_ack(Ack {
                now: flow.now,
                bytes: MTU,
                gap_bytes: 0,
                regained_bytes: 0,
                flight_before: (packets - at) * MTU,
                mtu: MTU,
                rtt,
                cross_path_age,
                srtt: Some(ms(200)),
                cum_advanced: true,
                in_recovery: false,
                siblings: &[],
            });
        }
    }
    assert_eq!(flow.mode(), "ramp");
    assert!(flow.auto.window() > 200 * MTU, "{} packets", flow.auto.window() / MTU);
}

#[test]
fn a_ramp_whose_first_flight_is_lost_restarts_with_one_packet() {
    let mut flow = Flow::new(Wire::new(ms(100), 0, 0));
    flow.run(ms(500));
    assert_eq!((flow.mode(), flow.auto.window()), ("ramp", MTU), "all queues are full");
    flow.wire.queue_packets = 1_000;
    flow.run(ms(2_000));
    assert!(flow.auto.window() > 50 * MTU, "{}", flow.auto.window());
}

#[test]
fn a_ramp_over_an_empty_path_takes_few_round_trips() {
    // 1000 packets per round trip: ten doublings, seven starting from ten packets.
    let mut flow = Flow::new(Wire::new(ms(999), 1_000, 0));
    flow.run(ms(5_000));
    assert!(flow.run(ms(1_000)) > 0.9, "five round trips of a second");
}

#[test]
fn the_trains_rate_is_reached_in_the_third_round_trip() {
    let mut flow = Flow::new(Wire::new(ms(999), 1_000, 0));
    flow.run(ms(1_010));
    // The first flight is acknowledged, and with its last packet all of it counts.
    assert!((245..=255).contains(&(flow.auto.window() / MTU)), "{}", flow.auto.window());
    let mut longest = 0;
    for _ in 0..19 {
        flow.run(ms(100));
        longest = longest.max(flow.wire.free_at.since(flow.now).as_millis());
    }
    assert!(longest <= 12, "a queue of {longest} ms: faster than the train");
    let part = flow.run(ms(1_090));
    assert!(part > 0.95, "{part} of what the path carries, from the third round trip on");
}

/// Within a round trip the window grows from ten packets to a quarter of what fills the path and beyond, while the rate that was measured is
/// that of the first flight.
#[test]
fn congestion_in_a_ramp_reduces_the_window_to_what_arrives_and_not_to_the_rate_of_a_round_trip_ago() {
    let mut flow = Flow::new(Wire::new(ms(999), 1_000, 0));
    flow.run(ms(2_250));
    let before = flow.auto.window();
    assert!((400..=1_000).contains(&(before / MTU)), "{} packets", before / MTU);
    let flight_bytes = flow.flight_bytes();
    flow.auto.on_congestion(Congestion { cause: Cause::Ecn, now: flow.now, flight_bytes, mtu: MTU });
    let part = flow.auto.window() as f64 / before as f64;
    assert!((0.65..=0.7).contains(&part), "{part:.2} of {} packets", before / MTU);
}

#[test]
fn a_trains_rate_that_is_no_longer_available_is_tried_at_half() {
    // A competing flow begins when the first flight is acknowledged: a packet now takes four times as long,
    // and the probing packets queue.
    let mut flow = Flow::new(Wire::new(ms(999), 1_000, 0));
    flow.run(ms(1_010));
    flow.wire.packet_time = ms(4);
    flow.run(ms(1_800));
    assert_eq!(flow.mode(), "ramp");
    let packets = flow.auto.window() / MTU;
    assert!((250..600).contains(&packets), "{packets}");
}

#[test]
fn retransmissions_open_a_ramp_like_slow_start() {
    let wire = Wire { packet_time: ms(1) / 10, ..Wire::new(ms(100), 1_000, 0) };
    let mut flow = Flow { again: true, ..Flow::new(wire) };
    flow.run(ms(650));
    assert!(flow.auto.window() > 300 * MTU, "{}", flow.auto.window());
}

/// Packets that jitter delays arrive together with those behind them. The spacing of such a flight shows no rate.
#[test]
fn a_flight_compressed_by_jitter_is_not_taken_for_a_fast_path() {
    let mut worst = 0;
    for seed in 0..200 {
        let mut wire = Wire::new(ms(50), 330, 0);
        (wire.packet_time, wire.jitter, wire.dice) = (Duration::from_micros(150), ms(4), seed);
        let mut flow = Flow::new(wire);
        let mut largest = 0;
        for _ in 0..40 {
            flow.run(ms(10));
            largest = largest.max(flow.auto.window());
        }
        worst = worst.max(largest);
    }
    // The path holds 333 packets, and its queue as many. Without the limit it is 1,913 packets.
    assert!(worst < 1_750 * MTU, "{} packets", worst / MTU);
}

/// An application that refills the send buffer a moment late did not need less than the window.
#[test]
fn pauses_of_the_application_do_not_stop_the_ramp() {
    let packets = |paused: bool| {
        let mut flow = Flow::new(Wire::new(ms(100), 10_000, 0));
        flow.wire.packet_time = Duration::from_micros(100);
        // Nothing of the first flight is spaced: the window doubles.
        flow.auto.mode =
            Mode::Ramp(Ramp { train: Train { over: true, ..Train::default() }, ..Ramp::default() });
        for _ in 0..80 {
            flow.run(ms(5));
            if paused {
                let flight_bytes = flow.flight_bytes();
                flow.auto.on_app_limited(flow.now, flight_bytes);
            }
        }
        flow.auto.window() / MTU
    };
    let (steady, paused) = (packets(false), packets(true));
    assert!(paused * 10 >= steady * 9, "{paused} packets, {steady} without pauses");
}

#[test]
fn a_train_that_underestimates_the_rate_is_corrected() {
    // The first flight meets other packets in the queue, and the next ones do not: a thousand packets are
    // then in flight.
    let mut flow = Flow::new(Wire { packet_time: ms(5), ..Wire::new(ms(100), 1_000, 0) });
    flow.run(ms(160));
    flow.wire.packet_time = ms(1) / 10;
    flow.run(ms(900));
    assert!(flow.auto.window() > 1_400 * MTU, "{}", flow.auto.window());
}

/// Regression: over 600 ms a window that a full send buffer left half empty grew far beyond what the path holds, whose queue then delayed
/// the repair of the last packets.
#[test]
fn where_the_application_pauses_the_window_grows_up_to_the_trains_rate_only() {
    let grows = |window: usize| {
        let mut flow = Flow::new(Wire::new(ms(99), 1_000, 0));
        // The path holds 100 packets, as the train says.
        flow.run(ms(600));
        let train = Train { over: true, rate: 1_000_000, ..Train::default() };
        let round = Round { flight: 60 * MTU, ..Round::default() };
        (flow.auto.mode, flow.auto.cwnd) =
            (Mode::Ramp(Ramp { train, round, ..Ramp::default() }), window * MTU);
        flow.auto.on_app_limited(flow.now, 60 * MTU);
        let now = flow.now + ms(100);
        flow.auto.on_ack(Ack { now, flight_before: 60 * MTU, ..ack(MTU, ms(100)) });
        flow.auto.window() > window * MTU
    };
    assert_eq!([grows(90), grows(110)], [true, false]);
}
