//! The controller over a wire with a queue, packet by packet, and each of its guards.

use std::collections::VecDeque;

use super::*;

const MTU: usize = 1_000;

/// A wire that takes a millisecond a packet, its queue, and a fate for each packet.
struct Wire {
    /// Before and after the queue.
    delay: Duration,
    queue_packets: usize,
    /// Of so many packets one is lost at random; 0 for none.
    one_in: u64,
    packet_time: Duration,
    free_at: Time,
    dice: u64,
}

struct Flow {
    auto: Auto,
    wire: Wire,
    now: Time,
    /// When each packet left and when it is acknowledged, if it is not lost.
    flight: VecDeque<(Time, Option<Time>)>,
    next_at: Time,
    recovery: Option<Time>,
    delivered: usize,
    /// Whether all that leaves was sent before, so that nobody knows its round trips.
    again: bool,
}

fn ms(millis: u64) -> Duration {
    Duration::from_millis(millis)
}

impl Wire {
    fn new(delay: Duration, queue_packets: usize, one_in: u64) -> Self {
        Self { delay, queue_packets, one_in, packet_time: ms(1), free_at: Time::ZERO, dice: 7 }
    }

    fn carries(&mut self, now: Time) -> Option<Time> {
        self.dice = self.dice.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        let waits = self.free_at.since(now);
        let full = waits >= self.packet_time * self.queue_packets as u32;
        if full || (self.one_in > 0 && (self.dice >> 33).is_multiple_of(self.one_in)) {
            return None;
        }
        self.free_at = self.free_at.max(now) + self.packet_time;
        Some(self.free_at + self.delay)
    }
}

impl Flow {
    fn new(wire: Wire) -> Self {
        let options = Options {
            initial_window: crate::InitialWindow::Mtus(10.try_into().unwrap()),
            ..Options::default()
        };
        let auto = Auto::new(options, MTU);
        let now = Time::from_millis(1);
        Self {
            auto,
            wire,
            now,
            flight: VecDeque::new(),
            next_at: now,
            recovery: None,
            delivered: 0,
            again: false,
        }
    }

    fn flight_bytes(&self) -> usize {
        self.flight.len() * MTU
    }

    fn send(&mut self) {
        while self.flight_bytes() < self.auto.window() && self.next_at <= self.now {
            self.auto.on_sent(Sent { now: self.now, bytes: MTU, flight_before: self.flight_bytes() });
            self.flight.push_back((self.now, self.wire.carries(self.now)));
            let takes = self.auto.pacing_rate().map_or(Duration::ZERO, |rate| rate.transmit_time(MTU));
            self.next_at = self.next_at.max(self.now - ms(1)) + takes;
        }
    }

    /// Runs for so long; gives the part of the wire's rate that was delivered.
    fn run(&mut self, time: Duration) -> f64 {
        let (until, before) = (self.now + time, self.delivered);
        while self.now < until {
            self.send();
            let acks = self.flight.iter().position(|(_, ack)| ack.is_some());
            let acked_at = acks.and_then(|at| self.flight[at].1);
            let room = self.flight_bytes() < self.auto.window();
            let next = acked_at.into_iter().chain(room.then_some(self.next_at)).min();
            let Some(next) = next else {
                let flight_bytes = self.flight_bytes();
                self.flight.clear();
                self.now += ms(1_000);
                self.lost(flight_bytes, self.now - ms(1_000));
                self.congestion(Cause::Timeout, flight_bytes);
                continue;
            };
            self.now = self.now.max(next);
            let Some(at) = acks.filter(|_| acked_at.is_some_and(|at| at <= self.now)) else { continue };
            let (sent_at, _) = self.flight[at];
            let flight_before = self.flight_bytes();
            // What left before has not come: it is lost.
            let lost: Vec<_> = self.flight.drain(..=at).take(at).collect();
            self.delivered += MTU;
            if self.recovery.is_some_and(|until| sent_at >= until) {
                self.recovery = None;
            }
            let rtt = (!self.again).then(|| self.now.since(sent_at));
            self.auto.on_ack(Ack {
                now: self.now,
                bytes: MTU,
                gap_bytes: 0,
                regained_bytes: 0,
                flight_before,
                mtu: MTU,
                rtt,
                by_another_way: None,
                srtt: rtt,
                cum_advanced: true,
                in_recovery: self.recovery.is_some(),
                siblings: &[],
            });
            for (sent_at, _) in &lost {
                self.lost(MTU, *sent_at);
            }
            if !lost.is_empty() && self.recovery.is_none() {
                self.recovery = Some(self.now);
                self.congestion(Cause::Loss, flight_before);
            }
        }
        let could = time.as_secs_f64() / self.wire.packet_time.as_secs_f64() * MTU as f64;
        (self.delivered - before) as f64 / could
    }

    fn lost(&mut self, bytes: usize, sent_at: Time) {
        let flight_bytes = self.flight_bytes();
        self.auto.on_lost(Lost { now: self.now, bytes, sent_at, flight_bytes, mtu: MTU });
    }

    fn congestion(&mut self, cause: Cause, flight_bytes: usize) {
        self.auto.on_congestion(Congestion { cause, now: self.now, flight_bytes, mtu: MTU });
    }

    fn mode(&self) -> &'static str {
        match self.auto.mode {
            Mode::Ramp(_) => "ramp",
            Mode::Shared => "shared",
            Mode::Lossy(_) => "lossy",
        }
    }
}

#[test]
fn random_losses_do_not_keep_it_from_what_the_path_carries() {
    for one_in in [100, 30, 10] {
        let mut flow = Flow::new(Wire::new(ms(100), 100, one_in));
        flow.run(ms(5_000));
        let part = flow.run(ms(20_000));
        assert!(part > 0.95, "one in {one_in}: {part}");
        assert_eq!(flow.mode(), "lossy");
        // A window of Reno's at that loss.
        assert!(flow.auto.window() > 100 * MTU);
    }
}

#[test]
fn the_model_does_not_fill_the_queue() {
    let mut flow = Flow::new(Wire::new(ms(100), 1_000, 10));
    flow.run(ms(20_000));
    assert_eq!(flow.mode(), "lossy");
    let mut waits = Vec::new();
    for _ in 0..100 {
        flow.run(ms(100));
        waits.push(flow.wire.free_at.since(flow.now));
    }
    let mean = waits.iter().sum::<Duration>() / waits.len() as u32;
    assert!(mean < ms(30), "{mean:?}");
}

#[test]
fn the_models_window_is_little_more_than_fills_the_path_and_more_where_round_trips_differ() {
    // 100 packets fill the path; of what leaves, a part of 1/p does not come, which is known a quarter of a round trip late.
    for (one_in, most) in [(100, 120), (10, 140)] {
        let mut flow = Flow::new(Wire::new(ms(100), 1_000, one_in));
        flow.run(ms(20_000));
        assert_eq!(flow.mode(), "lossy");
        flow.auto.mode = Mode::Lossy(Cycle { phase: 2, ..Cycle::new(flow.now, 0) });
        let packets = flow.auto.target() / MTU;
        assert!((110..most).contains(&packets), "{packets} with one in {one_in}");
    }
    // 100 packets a second; of two round trips one takes so long.
    let packets_with = |second: u64| {
        let mut model = Model::default();
        for step in 0..2_000 {
            let (now, rtt) = (Time::from_millis(10 * step), ms([100, second][step as usize % 2]));
            model.on_sent(Sent { now, bytes: MTU, flight_before: 10 * MTU });
            model.on_ack(&Ack {
                now,
                bytes: MTU,
                gap_bytes: 0,
                regained_bytes: 0,
                flight_before: 10 * MTU,
                mtu: MTU,
                rtt: (step > 20).then_some(rtt),
                by_another_way: None,
                srtt: None,
                cum_advanced: true,
                in_recovery: false,
                siblings: &[],
            });
        }
        model.window(WINDOW) / MTU
    };
    // By no more than as much again.
    assert_eq!([100, 180, 1_000].map(packets_with), [11, 18, 22]);
}

/// A path of 100 packets a second and 100 ms, of which an answer tells every 50 ms that comes by another way, half as long.
#[test]
fn where_others_tell_sooner_the_models_window_is_what_is_under_way_until_then() {
    let mut model = Model::default();
    for step in 0..400 {
        let now = Time::from_millis(50 * step);
        for _ in 0..5 {
            model.on_sent(Sent { now, bytes: MTU, flight_before: 10 * MTU });
        }
        model.on_ack(&Ack {
            now,
            bytes: 5 * MTU,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: 10 * MTU,
            mtu: MTU,
            rtt: (step > 10).then_some(ms(100)),
            by_another_way: (step > 10 && step < 200).then_some(ms(50)),
            srtt: None,
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        });
        if step == 199 {
            assert_eq!(model.is_told_after(), Some(ms(50)));
            // As much as five packets come after 50 ms, and five at once.
            assert_eq!((model.product() / MTU, model.told_after()), (9, Some(ms(50))));
        }
    }
    assert_eq!((model.product() / MTU, model.told_after()), (10, Some(ms(100))), "that was long ago");
    assert_eq!(model.is_told_after(), None);
}

#[test]
fn a_shortest_round_trip_that_others_hide_for_five_seconds_is_looked_for() {
    for (others, looks) in [(0, 0), (20, 1)] {
        let mut flow = Flow::new(Wire::new(ms(100), 1_000, 100));
        flow.run(ms(20_000));
        flow.wire.delay += ms(others);
        let mut drained = Vec::new();
        for _ in 0..1_200 {
            flow.run(ms(10));
            let Mode::Lossy(Cycle { drain, began, .. }) = flow.auto.mode else { panic!("{}", flow.mode()) };
            drained.extend((drain == Some(Drain::Path)).then_some(began));
        }
        drained.dedup();
        assert_eq!(drained.len(), looks, "{drained:?}");
    }
}

#[test]
fn what_a_ramp_lost_costs_nothing_more_when_it_is_told_after_the_end() {
    let mut flow = Flow::new(Wire::new(ms(100), 1_000, 0));
    while flow.mode() == "ramp" {
        flow.run(ms(1));
    }
    assert_eq!(flow.mode(), "shared");
    let window = flow.auto.window();
    flow.lost(MTU, flow.now - ms(100));
    flow.congestion(Cause::Loss, flow.flight_bytes());
    assert_eq!(flow.auto.window(), window, "that was beyond what fills the path");
    flow.run(ms(200));
    let window = flow.auto.window();
    flow.lost(MTU, flow.now - ms(100));
    flow.congestion(Cause::Loss, window);
    // The queue was longer before, so that it takes this for random rather: 85 % are left.
    assert!(flow.auto.window() < window / 10 * 9, "{} of {window}", flow.auto.window());
}

#[test]
fn a_mean_of_longer_round_trips_holds_back_no_window() {
    let mut auto = Flow::new(Wire::new(ms(100), 100, 0)).auto;
    (auto.mode, auto.cubic) = (Mode::Shared, Cubic::halfway(auto.options, MTU, 100 * MTU));
    let mut pace = |mean, latest| {
        (auto.srtt, auto.latest_rtt) = (ms(mean), ms(latest));
        auto.pacing_rate().unwrap().bits_per_second() / 1_000
    };
    // 1.2 times 100 packets in a round trip.
    assert_eq!([pace(200, 100), pace(100, 200)], [9_600, 9_600]);
}

#[test]
fn what_a_full_queue_drops_is_congestion_whether_it_is_long_or_short() {
    for queue_packets in [400, 100, 50, 10] {
        let mut flow = Flow::new(Wire::new(ms(100), queue_packets, 0));
        for second in 0..60 {
            flow.run(ms(1_000));
            assert_ne!(flow.mode(), "lossy", "a queue of {queue_packets}, after {second} s");
        }
        // The longest takes minutes to overflow.
        let score = flow.auto.evidence.score();
        assert!(score > 0 || queue_packets == 400 && score == 0, "{score} at {queue_packets}");
    }
}

#[test]
fn a_queue_of_seconds_grows_no_more() {
    let mut flow = Flow::new(Wire::new(ms(100), 100_000, 0));
    flow.run(ms(900_000));
    assert_eq!(flow.mode(), "shared");
    let waits = flow.wire.free_at.since(flow.now);
    assert!((ms(700)..ms(1_300)).contains(&waits), "{waits:?}");
}

#[test]
fn over_a_long_path_the_window_opens_as_renos_until_the_others_turn_out_to_be_fast() {
    let mut flow = Flow::new(Wire::new(ms(300), 300, 0));
    flow.run(ms(75_000));
    // CUBIC has a third of it again in 6 s.
    let lost = flow.auto.window() * 3 / 10 / MTU;
    flow.congestion(Cause::Loss, flow.auto.window());
    let from = flow.auto.window();
    flow.run(ms(6_000));
    let opened = (flow.auto.window() - from) / MTU;
    assert!((5..=30).contains(&opened) && lost > 130, "{opened} of {lost}");
    assert!(flow.auto.neighbours.are_slow());
    flow.congestion(Cause::Loss, flow.auto.window());
    assert!(!flow.auto.neighbours.are_slow(), "it had next to nothing again");
}

#[test]
fn a_path_is_far_where_reno_takes_twice_as_long_as_cubic() {
    let mut auto = Flow::new(Wire::new(ms(50), 100, 0)).auto;
    (auto.base_rtt, auto.carries) = (Some(ms(50)), Some(1_000));
    let mut opens = |millis, packets| {
        auto.srtt = ms(millis);
        auto.cubic = Cubic::halfway(auto.options, MTU, packets * MTU);
        auto.opens()
    };
    assert_eq!([opens(100, 181), opens(100, 182)], [Opens::AsCubic, Opens::AsReno]);
    assert_eq!([opens(200, 64), opens(200, 65)], [Opens::AsCubic, Opens::AsReno]);
    assert_eq!(opens(56, 9_000), Opens::AsCubic, "there is no queue");
    auto.siblings = 100 * MTU;
    let mut opens = |packets| {
        auto.srtt = ms(100);
        auto.cubic = Cubic::halfway(auto.options, MTU, packets * MTU);
        auto.opens()
    };
    assert_eq!([opens(81), opens(82)], [Opens::AsCubic, Opens::AsReno], "to others, all of them are one");
}

#[test]
fn who_has_half_of_what_the_path_carries_is_in_no_hurry_and_who_does_not_know_what_it_carries_is() {
    // 1000 packets in a round trip of a second; the others have turned out to be fast.
    let mut auto = Flow::new(Wire::new(ms(50), 100, 0)).auto;
    (auto.base_rtt, auto.srtt) = (Some(ms(500)), ms(1_000));
    auto.neighbours.on_reduction(100, 70);
    let mut opens = |packets, carries| {
        auto.cubic = Cubic::halfway(auto.options, MTU, packets * MTU);
        auto.carries = carries;
        auto.opens()
    };
    let all = Some(1_000 * MTU as u64);
    assert_eq!([opens(499, None), opens(499, all)], [Opens::AsCubic, Opens::AsReno]);
    auto.neighbours.on_reduction(71, 70);
    let mut opens = |packets| {
        auto.cubic = Cubic::halfway(auto.options, MTU, packets * MTU);
        auto.carries = all;
        auto.opens()
    };
    assert_eq!([opens(499), opens(500)], [Opens::AsCubic, Opens::AsReno]);
}

#[test]
fn who_has_more_than_half_beside_a_slow_one_closes_by_two_packets_a_round_trip_if_the_queue_is_shorter_for_it()
 {
    // 1000 packets in a round trip of a second.
    let mut auto = Flow::new(Wire::new(ms(50), 100, 0)).auto;
    (auto.base_rtt, auto.srtt, auto.carries) = (Some(ms(500)), ms(1_000), Some(1_000_000));
    auto.latest_rtt = ms(1_000);
    let mut opens = |packets| {
        auto.cubic = Cubic::halfway(auto.options, MTU, packets * MTU);
        auto.opens()
    };
    let of_half = [opens(509), opens(510), opens(899), opens(900)];
    assert_eq!(of_half, [Opens::AsReno, Opens::Closes, Opens::Closes, Opens::AsReno]);
    auto.cubic = Cubic::halfway(auto.options, MTU, 700 * MTU);
    auto.latest_rtt = ms(700);
    assert_eq!(auto.opens(), Opens::AsReno, "it is all, and will be in the mean");
    auto.cubic = Cubic::halfway(auto.options, MTU, 800 * MTU);
    let mut now = Time::from_millis(1_000);
    for _ in 0..800 {
        now += ms(1);
        auto.on_sent(Sent { now, bytes: MTU, flight_before: 799 * MTU });
        let rtt = Some(ms(1_000));
        auto.cubic.on_ack_that(
            Ack {
                now,
                bytes: MTU,
                gap_bytes: 0,
                regained_bytes: 0,
                flight_before: 800 * MTU,
                mtu: MTU,
                rtt,
                by_another_way: None,
                srtt: rtt,
                cum_advanced: true,
                in_recovery: false,
                siblings: &[],
            },
            Opens::Closes,
        );
    }
    assert_eq!(auto.cubic.window().div_ceil(MTU), 798);
    assert_eq!(auto.cubic.ssthresh(), auto.cubic.window(), "or it would be slow start");
    for (rtt, is_slow) in [(968, true), (990, false)] {
        let mut neighbours = Neighbours::default();
        neighbours.on_closing(ms(980), 800);
        neighbours.on_closing(ms(1_000), 750);
        neighbours.on_closing(ms(rtt), 701);
        assert!(neighbours.are_slow(), "an eighth is not over");
        neighbours.on_closing(ms(rtt), 699);
        assert_eq!(neighbours.are_slow(), is_slow, "{rtt} ms");
    }
}

#[test]
fn a_window_is_whole_packets() {
    let mut flow = Flow::new(Wire::new(ms(20), 10, 0));
    flow.run(ms(2_000));
    for _ in 0..100 {
        flow.run(ms(50));
        assert_eq!((flow.mode(), flow.auto.window() % MTU), ("shared", 0));
    }
}

#[test]
fn after_a_failed_trial_there_is_hurry_for_some_losses_and_for_more_if_the_next_one_fails() {
    let mut neighbours = Neighbours::default();
    // From 100 to 70 and a little more; or all of it.
    let mut reduce = |before| (neighbours.on_reduction(before, 70), neighbours.are_slow());
    assert_eq!(reduce(100), (None, true));
    assert_eq!(reduce(80), (None, true), "a third is not little");
    reduce(100);
    for hurried in [4, 8, 16, 16] {
        assert_eq!(reduce(79), (Some(100), false));
        let reductions = (1..).find(|_| reduce(100).1);
        assert_eq!(reductions, Some(hurried));
    }
    assert_eq!(reduce(90), (None, true));
    reduce(100);
    reduce(79);
    assert_eq!((1..).find(|_| reduce(100).1), Some(4), "one that does not fail is the end of it");
}

#[test]
fn whose_rate_rises_while_the_queue_grows_is_in_a_hurry_until_the_next_loss() {
    let mut neighbours = Neighbours::default();
    neighbours.on_round(ms(100), 10_000);
    // The queue grows as the window does, or becomes shorter: somebody gave way.
    for (rtt, window) in [(120, 12_000), (90, 12_000), (100, 14_000)] {
        neighbours.on_round(ms(rtt), window);
        assert!(neighbours.are_slow(), "{rtt} ms");
    }
    neighbours.on_round(ms(100), 16_000);
    assert!(!neighbours.are_slow());
    neighbours.on_reduction(16_000, 11_000);
    neighbours.on_reduction(16_000, 11_000);
    assert!(neighbours.are_slow());
    // Not from what it was before it opened otherwise.
    neighbours.on_round(ms(100), 10_000);
    neighbours.rest();
    neighbours.on_round(ms(100), 20_000);
    assert!(neighbours.are_slow());
}

#[test]
fn what_is_behind_hurries_until_it_has_caught_up_and_the_next_loss_tells_nothing() {
    let mut neighbours = Neighbours::default();
    neighbours.on_reduction(100, 70);
    neighbours.fall_behind();
    assert!(!neighbours.are_slow());
    neighbours.catch_up();
    assert!(neighbours.are_slow());
    assert_eq!((neighbours.on_reduction(79, 70), neighbours.are_slow()), (None, true), "it was behind");
    neighbours.catch_up();
    assert_eq!((neighbours.on_reduction(71, 70), neighbours.are_slow()), (Some(79), false), "it was not");
}

#[test]
fn less_than_a_third_of_what_the_path_carries_opens_as_cubics_until_it_is_half() {
    // 1000 packets in a round trip of a second, 800 of them others'.
    let far = |packets| {
        let mut auto = Flow::new(Wire::new(ms(50), 100, 0)).auto;
        (auto.base_rtt, auto.srtt, auto.carries) = (Some(ms(500)), ms(1_000), Some(1_000_000));
        auto.cwnd = packets * MTU;
        auto.share(packets * MTU);
        auto.look_at_part();
        auto
    };
    assert_eq!([far(329).opens(), far(330).opens()], [Opens::AsCubic, Opens::AsReno]);
    let mut auto = far(350);
    auto.srtt = ms(1_100);
    auto.look_at_part();
    assert_eq!(auto.opens(), Opens::AsCubic, "350 of 1100: others have filled the queue");
    let mut auto = far(700);
    let mut reduce = |packets| {
        auto.cubic = Cubic::halfway(auto.options, MTU, packets * MTU);
        let (now, flight_bytes) = (Time::from_millis(60_000), packets * MTU);
        auto.give_way(Congestion { cause: Cause::Loss, now, flight_bytes, mtu: MTU });
        auto.look_at_part();
        auto.opens()
    };
    assert_eq!([reduce(472), reduce(470)], [Opens::AsReno, Opens::AsCubic]);
    let mut ack = |packets, at| {
        auto.cubic = Cubic::halfway(auto.options, MTU, packets * MTU);
        auto.on_sent(Sent { now: Time::from_millis(at), bytes: MTU, flight_before: packets * MTU });
        let rtt = Some(ms(1_000));
        auto.on_ack(Ack {
            now: Time::from_millis(at + 1_000),
            bytes: MTU,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: packets * MTU,
            mtu: MTU,
            rtt,
            by_another_way: None,
            srtt: rtt,
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        });
        auto.opens()
    };
    assert_eq!([ack(498, 70_000), ack(501, 80_000)], [Opens::AsCubic, Opens::AsReno]);
}

#[test]
fn a_ramp_whose_first_flight_is_lost_begins_again_with_one_packet() {
    let mut flow = Flow::new(Wire::new(ms(100), 0, 0));
    flow.run(ms(500));
    assert_eq!((flow.mode(), flow.auto.window()), ("ramp", MTU), "all queues are full");
    flow.wire.queue_packets = 1_000;
    flow.run(ms(2_000));
    assert!(flow.auto.window() > 50 * MTU, "{}", flow.auto.window());
}

fn lossy() -> Flow {
    let mut flow = Flow::new(Wire::new(ms(100), 50, 20));
    flow.run(ms(10_000));
    assert_eq!(flow.mode(), "lossy");
    flow
}

#[test]
fn when_losses_stop_to_be_random_it_is_cubic_again() {
    let mut flow = lossy();
    // Another takes three quarters of the wire: what this one believes to be there overflows the queue.
    flow.wire.packet_time = ms(4);
    flow.wire.one_in = 0;
    flow.run(ms(20_000));
    assert_eq!(flow.mode(), "shared");
}

#[test]
fn a_mark_is_congestion_whatever_the_losses_were() {
    let mut flow = lossy();
    let window = flow.auto.window();
    flow.congestion(Cause::Ecn, window);
    assert_eq!(flow.mode(), "shared");
    assert!(flow.auto.window() < window * 7 / 10);
    // And the losses after it have to prove much.
    assert!(flow.auto.evidence.score() > 0);
}

#[test]
fn one_loss_in_three_may_be_random_among_the_first_two_thousand_packets_alone() {
    let mut flow = lossy();
    flow.wire.one_in = 3;
    while !flow.auto.model.losses.is_long() {
        assert_eq!(flow.mode(), "lossy", "{:?}", flow.auto.model.losses);
        flow.run(ms(20));
    }
    flow.run(ms(3_000));
    assert_eq!(flow.mode(), "shared", "{:?}", flow.auto.model.losses);
}

#[test]
fn more_losses_than_chance_has_are_congestion() {
    let mut flow = lossy();
    flow.wire.one_in = 4;
    flow.run(ms(10_000));
    assert_eq!(flow.mode(), "shared", "{:?}", flow.auto.model.losses);
}

#[test]
fn a_time_out_changes_nothing_of_the_model_but_ends_a_ramp_without_evidence() {
    let mut flow = lossy();
    let window = flow.auto.window();
    flow.congestion(Cause::Timeout, window);
    assert_eq!((flow.mode(), flow.auto.window()), ("lossy", window));
    let mut fresh = Flow::new(Wire::new(ms(100), 50, 0));
    fresh.run(ms(150));
    assert_eq!(fresh.mode(), "ramp");
    fresh.congestion(Cause::Timeout, 10 * MTU);
    assert_eq!((fresh.mode(), fresh.auto.window()), ("shared", MTU));
}

#[test]
fn a_rate_that_falls_to_a_tenth_is_found_and_so_is_its_return() {
    let mut flow = lossy();
    flow.wire.packet_time = ms(10);
    flow.run(ms(20_000));
    let waits = flow.wire.free_at.since(flow.now);
    assert!(waits <= ms(500), "{waits:?}");
    flow.wire.packet_time = ms(1);
    flow.run(ms(20_000));
    assert!(flow.run(ms(10_000)) > 0.9);
}

#[test]
fn a_ramp_over_an_empty_path_takes_few_round_trips() {
    // 1000 packets a round trip: ten doublings, from ten packets seven.
    let mut flow = Flow::new(Wire::new(ms(999), 1_000, 0));
    flow.run(ms(5_000));
    assert!(flow.run(ms(1_000)) > 0.9, "five round trips of a second");
}

#[test]
fn what_a_train_told_and_a_quarter_of_it_tried_is_had_in_the_third_round_trip() {
    let mut flow = Flow::new(Wire::new(ms(999), 1_000, 0));
    flow.run(ms(1_010));
    // The first flight is back, and with its last packet all of it counts.
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

#[test]
fn where_what_a_train_told_is_not_there_half_of_it_is_tried() {
    // Another comes when the first flight is back: now a packet takes four times as long, and those that try the path wait.
    let mut flow = Flow::new(Wire::new(ms(999), 1_000, 0));
    flow.run(ms(1_010));
    flow.wire.packet_time = ms(4);
    flow.run(ms(1_800));
    assert_eq!(flow.mode(), "ramp");
    let packets = flow.auto.window() / MTU;
    assert!((250..600).contains(&packets), "{packets}");
}

/// Over loopback, 12 s instead of 0.2 s for 300 MB: the shortest round trip held three packets.
#[test]
fn over_a_path_shorter_than_a_drivers_clock_the_window_is_what_arrives_in_a_tick() {
    let micros = Duration::from_micros;
    let mut flow = Flow::new(Wire { packet_time: micros(1), ..Wire::new(micros(20), 100_000, 0) });
    flow.run(ms(50));
    assert_eq!(flow.mode(), "shared");
    let window = flow.auto.window();
    assert!((1_000_000..4_000_000).contains(&window), "{window} bytes at 1 GB/s");
}

#[test]
fn ranks_at_random_and_ranks_of_full_queues_are_told_apart() {
    let rtt = |step: u64| ms(100 + step % 50);
    let mut evidence = Evidence::default();
    let sample = |evidence: &mut Evidence, step: u64| {
        evidence.on_sample(Time::from_millis(1_000 + 7 * step) + rtt(step), rtt(step));
    };
    let sent = |step: u64| Time::from_millis(1_000 + 7 * step);
    (0..100).for_each(|step| sample(&mut evidence, step));
    // Wherever in the saw tooth they are.
    for loss in 0..40 {
        evidence.on_lost(sent(loss * 37 % 100));
        evidence.on_round(Time::from_millis(2_000));
    }
    assert!(evidence.score() < RANDOM_AT, "{}", evidence.score());
    for _ in 0..40 {
        evidence.on_lost(sent(99));
        evidence.on_round(Time::from_millis(2_000));
    }
    assert!(evidence.score() > CONGESTION_AT_FLAT, "{}", evidence.score());
}

#[test]
fn many_losses_of_one_round_trip_are_no_more_evidence_than_two() {
    let mut evidence = Evidence::default();
    (0..50).for_each(|step| evidence.on_sample(Time::from_millis(1_000 + 10 * step), ms(100)));
    (0..500).for_each(|_| evidence.on_lost(Time::from_millis(1_200)));
    evidence.on_round(Time::from_millis(2_000));
    assert_eq!(evidence.score(), -30);
}

#[test]
fn round_trips_that_are_alike_and_long_prove_nothing() {
    let mut evidence = Evidence::default();
    evidence.on_sample(Time::from_millis(500), ms(50));
    (0..300).for_each(|step| evidence.on_sample(Time::from_millis(1_000 + 10 * step), ms(100)));
    (0..20).for_each(|_| evidence.on_lost(Time::from_millis(3_500)));
    assert_eq!(evidence.score(), 0);
}

#[test]
fn what_was_given_for_nothing_is_had_again_but_after_a_mark() {
    let mut flow = Flow::new(Wire::new(ms(100), 50, 0));
    flow.run(ms(20_000));
    for (cause, undone) in [(Cause::Loss, true), (Cause::Timeout, true), (Cause::Ecn, false)] {
        let window = flow.auto.window();
        flow.congestion(cause, window);
        assert!(flow.auto.window() < window);
        flow.auto.on_spurious(Spurious { now: flow.now, flight_bytes: window, mtu: MTU });
        assert_eq!(flow.auto.window() == window, undone, "{cause:?}");
    }
}

#[test]
fn what_is_sent_again_opens_a_ramp_as_any_slow_start() {
    let wire = Wire { packet_time: ms(1) / 10, ..Wire::new(ms(100), 1_000, 0) };
    let mut flow = Flow { again: true, ..Flow::new(wire) };
    flow.run(ms(650));
    assert!(flow.auto.window() > 300 * MTU, "{}", flow.auto.window());
}

#[test]
fn a_train_that_told_too_little_is_not_believed_for_long() {
    // The first flight finds others in its way, and the next ones do not: a thousand packets are under way then.
    let mut flow = Flow::new(Wire { packet_time: ms(5), ..Wire::new(ms(100), 1_000, 0) });
    flow.run(ms(160));
    flow.wire.packet_time = ms(1) / 10;
    flow.run(ms(900));
    assert!(flow.auto.window() > 500 * MTU, "{}", flow.auto.window());
}

#[test]
fn a_rate_shows_in_answers_that_took_another_way() {
    // A packet a millisecond. Every 20 ms another path's answer tells of all that left 31 ms ago, and just before it one of this
    // path's own of the little that left since, 49 ms ago.
    let mut model = Model::default();
    let mut told = 0;
    for at in 0..2_000 {
        let now = Time::from_millis(at);
        model.on_sent(Sent { now, bytes: MTU, flight_before: 40 * MTU });
        let (rtt, by_another_way) = match at % 20 {
            0 => (None, Some(ms(31))),
            19 => (Some(ms(49)), None),
            _ => continue,
        };
        let left = at.saturating_sub(if rtt.is_some() { 49 } else { 31 });
        let bytes = (left.saturating_sub(told)) as usize * MTU;
        told = told.max(left);
        model.on_ack(&Ack {
            now,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: 40 * MTU,
            mtu: MTU,
            rtt,
            by_another_way,
            srtt: None,
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        });
    }
    let rate = model.rate();
    let all = 1_000 * MTU as u64;
    assert!((all * 95 / 100..=all * 105 / 100).contains(&rate), "{rate} of {all}");
}
