//! BBR over a simulated path, packet by packet: readable tables kept beside this file, and the response of
//! both versions to losses, queues and an application with little to send. `UPDATE_SNAPSHOTS=1 cargo test -p
//! braidftp-cc` rewrites the tables.
//!
//! The path drops packets at random, then queues them, then transmits them at its rate, then delays them;
//! every arrival is acknowledged at once. A packet is lost when three packets sent after it have arrived, or
//! after a second.

mod kept;

use std::collections::VecDeque;
use std::fmt::Write;
use std::time::Duration;

use braidftp_base::{Rate, Time};
use braidftp_cc::bbr::{Bbr, State};
use braidftp_cc::pacer::Pacer;
use braidftp_cc::{Ack, Cause, Choice, Congestion, Controller, Kind, Lost, Options, Sent};
use kept::compare;

const MTU: usize = 1_250;
const MEGABIT: u64 = 1_000_000;

/// A deterministic pseudo-random number generator.
struct Dice(u64);

impl Dice {
    fn roll(&mut self) -> f64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as f64 / (1_u64 << 53) as f64
    }
}

/// A packet in flight.
#[derive(Clone, Copy)]
struct Packet {
    number: u64,
    sent_at: Time,
}

struct Flow {
    bbr: Bbr,
    pacer: Pacer,
    now: Time,
    // The path.
    rate: Rate,
    rtt: Duration,
    queue_max: usize,
    loss: f64,
    dice: Dice,
    busy_until: Time,
    /// Packets that will arrive, with the arrival time of their acknowledgements.
    arriving: VecDeque<(Time, Packet)>,
    // The sender.
    in_flight: VecDeque<Packet>,
    sent: u64,
    recovery_until: Option<u64>,
    /// The pause of the application between packets, from some time on.
    talks_each: Option<Duration>,
    talks_at: Time,
    delivered: u64,
    /// The queueing delay since the last reading: maximum and sum.
    queue_worst: Duration,
    states: Vec<(Time, State)>,
}

impl Flow {
    fn new(choice: &str, bits_per_second: u64, rtt_ms: u64, loss: f64) -> Self {
        let (mut kind, mut options) = (Kind::Bbr, Options::default());
        choice.parse::<Choice>().unwrap().apply(&mut kind, &mut options);
        options.initial_window = braidftp_cc::InitialWindow::Mtus(std::num::NonZeroU8::new(10).unwrap());
        let rate = Rate::from_bits_per_second(bits_per_second);
        let rtt = Duration::from_millis(rtt_ms);
        let bdp = (bits_per_second as f64 / 8.0 * rtt.as_secs_f64()) as usize;
        Self {
            bbr: Bbr::new(options, MTU),
            pacer: Pacer::default(),
            now: Time::from_millis(1),
            rate,
            rtt,
            queue_max: 2 * bdp + 20 * MTU,
            loss,
            dice: Dice(0x9e37_79b9_7f4a_7c15),
            busy_until: Time::ZERO,
            arriving: VecDeque::new(),
            in_flight: VecDeque::new(),
            sent: 0,
            recovery_until: None,
            talks_each: None,
            talks_at: Time::ZERO,
            delivered: 0,
            queue_worst: Duration::ZERO,
            states: Vec::new(),
        }
    }

    fn flight(&self) -> usize {
        self.in_flight.len() * MTU
    }

    /// Sends what may be sent now; returns when the next packet may be sent.
    fn send(&mut self) -> Option<Time> {
        loop {
            if self.flight() + MTU > self.bbr.window() {
                return None;
            }
            let rate = self.bbr.pacing_rate().unwrap();
            if let Some(until) = self.pacer.holds(self.now) {
                return Some(until);
            }
            if let Some(each) = self.talks_each {
                if self.now < self.talks_at {
                    self.bbr.on_app_limited(self.now, self.flight());
                    return Some(self.talks_at);
                }
                self.talks_at = self.now + each;
            }
            let (bytes, flight_before) = (MTU, self.flight());
            self.bbr.on_sent(Sent { now: self.now, bytes, flight_before });
            self.pacer.on_sent(self.now, MTU, rate, MTU);
            self.sent += 1;
            let packet = Packet { number: self.sent, sent_at: self.now };
            self.in_flight.push_back(packet);
            let waits = self.busy_until.since(self.now);
            let queued = (waits.as_secs_f64() * self.rate.bits_per_second() as f64 / 8.0) as usize;
            if self.dice.roll() >= self.loss && queued <= self.queue_max {
                self.queue_worst = self.queue_worst.max(waits);
                self.busy_until = self.busy_until.max(self.now) + self.rate.transmit_time(MTU);
                self.arriving.push_back((self.busy_until + self.rtt, packet));
            }
        }
    }

    fn acknowledge(&mut self, packet: Packet) {
        let flight_before = self.flight();
        let Some(at) = self.in_flight.iter().position(|other| other.number == packet.number) else { return };
        self.in_flight.remove(at);
        self.delivered += MTU as u64;
        if self.recovery_until.is_some_and(|until| packet.number > until) {
            self.recovery_until = None;
        }
        let rtt = self.now.since(packet.sent_at);
        self.bbr.on_ack(Ack {
            now: self.now,
            bytes: MTU,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before,
            mtu: MTU,
            rtt: Some(rtt),
            cross_path_age: None,
            srtt: Some(rtt),
            cum_advanced: true,
            in_recovery: self.recovery_until.is_some(),
            siblings: &[],
        });
        let overtaken = self.in_flight.iter().take_while(|other| other.number + 3 <= packet.number).count();
        self.lose(overtaken, Cause::Loss);
    }

    fn lose(&mut self, packets: usize, cause: Cause) {
        if packets == 0 {
            return;
        }
        let flight_bytes = self.flight();
        let last = self.in_flight.drain(..packets).next_back().expect("there are some");
        let (now, mtu, bytes) = (self.now, MTU, packets * MTU);
        self.bbr.on_lost(Lost { now, bytes, sent_at: last.sent_at, flight_bytes: self.flight(), mtu });
        if self.recovery_until.is_none() || cause == Cause::Timeout {
            self.bbr.on_congestion(Congestion { cause, now, flight_bytes, mtu });
            self.recovery_until = (cause == Cause::Loss).then_some(self.sent);
        }
    }

    fn run(&mut self, how_long: Duration) {
        let end = self.now + how_long;
        loop {
            let may_send = self.send();
            let arrives = self.arriving.front().map(|(at, _)| *at);
            let times_out =
                self.in_flight.front().map(|packet| packet.sent_at + Duration::from_secs(1) + 2 * self.rtt);
            let next = [may_send, arrives, times_out].into_iter().flatten().min();
            let Some(next) = next.filter(|next| *next <= end) else { break };
            self.now = self.now.max(next);
            if arrives.is_some_and(|at| at <= self.now) {
                let (_, packet) = self.arriving.pop_front().expect("it arrives");
                self.acknowledge(packet);
            } else if times_out.is_some_and(|at| at <= self.now) {
                self.lose(self.in_flight.len(), Cause::Timeout);
            }
            if self.states.last().is_none_or(|(_, state)| *state != self.bbr.state()) {
                self.states.push((self.now, self.bbr.state()));
            }
        }
        self.now = end;
    }

    /// The goodput over `seconds` relative to the capacity of the path.
    fn share(&mut self, seconds: u64) -> f64 {
        let before = self.delivered;
        self.run(Duration::from_secs(seconds));
        let bits = (self.delivered - before) as f64 * 8.0;
        bits / (self.rate.bits_per_second() as f64 * seconds as f64 * (1.0 - self.loss))
    }

    fn max_bw(&self) -> f64 {
        self.bbr.max_bw().map_or(0.0, |rate| rate.bits_per_second() as f64)
    }
}

/// A path of 10 Mb/s and 100 ms, which is 100 packets: its rate falls to a quarter and returns, then it loses
/// packets.
fn table(choice: &str) -> String {
    let mut flow = Flow::new(choice, 10 * MEGABIT, 100, 0.0);
    let mut out = format!("{choice}: 10 Mb/s, 100 ms: 100 packets on the way, and a queue of 220\n");
    writeln!(
        out,
        "{:>6}  {:<10}{:>8}{:>9}{:>7}{:>8}{:>9}{:>9}",
        "s", "state", "max_bw", "min_rtt", "cwnd", "pacing", "queue ms", "Mb/s"
    )
    .unwrap();
    let mut at = 0;
    for step in 1..=76_u32 {
        // Every round trip at first, then every half second.
        let next = if step <= 16 { 100 * u64::from(step) } else { 1_600 + 500 * u64::from(step - 16) };
        let said = match at {
            12_100 => {
                flow.rate = Rate::from_bits_per_second(2_500_000);
                "  2.5 Mb/s from here on"
            }
            19_100 => {
                flow.rate = Rate::from_bits_per_second(10_000_000);
                "  10 Mb/s again"
            }
            25_100 => {
                flow.loss = 0.01;
                "  1 in 100 is lost"
            }
            28_100 => {
                flow.loss = 0.1;
                "  1 in 10 is lost"
            }
            _ => "",
        };
        let before = flow.delivered;
        flow.queue_worst = Duration::ZERO;
        flow.run(Duration::from_millis(next - at));
        let rate = (flow.delivered - before) as f64 * 8.0 / ((next - at) as f64 * 1e3);
        let state = format!("{:?}", flow.bbr.state());
        let min_rtt = flow.bbr.min_rtt().map_or(0.0, |rtt| rtt.as_secs_f64() * 1e3);
        let pacing = flow.bbr.pacing_rate().unwrap().bits_per_second() as f64 / 1e6;
        let window = flow.bbr.window() as f64 / MTU as f64;
        let queue = flow.queue_worst.as_millis();
        let bw = flow.max_bw() / 1e6;
        let seconds = next as f64 / 1e3;
        writeln!(out, "{seconds:>6.1}  {state:<10}{bw:>8.2}{min_rtt:>9.1}{window:>7.1}{pacing:>8.2}{queue:>9}{rate:>9.2}{said}").unwrap();
        at = next;
    }
    out
}

#[test]
fn both_versions_match_their_tables() {
    for (choice, name) in [("bbr", "bbr-path"), ("bbr:version=1", "bbr-v1-path")] {
        compare(name, &table(choice));
    }
}

#[test]
fn a_path_is_full_within_seconds_and_its_queue_is_short() {
    for choice in ["bbr", "bbr:version=1"] {
        for (rate, rtt) in [(MEGABIT, 35), (10 * MEGABIT, 100), (50 * MEGABIT, 300), (200 * MEGABIT, 25)] {
            let mut flow = Flow::new(choice, rate, rtt, 0.0);
            flow.run(Duration::from_secs(10));
            flow.queue_worst = Duration::ZERO;
            let share = flow.share(20);
            assert!(share > 0.93, "{choice} at {rate} b/s, {rtt} ms: {share}");
            // A probe adds a quarter per round trip until three have brought no gain, limited by the window;
            // version 1's probe lasts one.
            let times = if choice == "bbr" { 1.3 } else { 0.5 };
            let most = flow.rtt.mul_f64(times) + Rate::from_bits_per_second(rate).transmit_time(6 * MTU);
            assert!(flow.queue_worst < most, "{choice} at {rate} b/s, {rtt} ms: {:?}", flow.queue_worst);
        }
    }
}

#[test]
fn version_1_fills_a_path_that_loses_a_tenth() {
    for (rate, rtt, often, seldom) in [(MEGABIT, 35, 0.98, 0.98), (50 * MEGABIT, 300, 0.90, 0.95)] {
        for loss in [0.01, 0.03, 0.1] {
            // Over 300 ms, draining the path and refilling it costs more than half a second.
            let share = Flow::new("bbr:version=1", rate, rtt, loss).share(60);
            assert!(share >= often, "{rate} b/s, {rtt} ms, {loss}: {share}");
            let share = Flow::new("bbr:version=1,min-rtt-window=60s", rate, rtt, loss).share(60);
            assert!(share >= seldom, "{rate} b/s, {rtt} ms, {loss}: {share}");
        }
    }
}

#[test]
fn losses_above_the_threshold_limit_version_3_and_a_higher_threshold_does_not() {
    let share = |choice: &str, loss: f64| {
        let mut flow = Flow::new(choice, 10 * MEGABIT, 40, loss);
        flow.run(Duration::from_secs(5));
        (flow.share(30), flow.bbr.inflight_longterm())
    };
    let (within, _) = share("bbr", 0.005);
    let (beyond, longterm) = share("bbr", 0.1);
    let (told, none) = share("bbr:loss-threshold=0.3", 0.1);
    assert!(within > 0.85, "{within}");
    assert!(beyond < 0.7 && longterm.is_some(), "{beyond}");
    assert!(told > beyond + 0.1 && none.is_none(), "{told}, {none:?}");
}

#[test]
fn the_path_is_drained_periodically_to_measure_the_minimum_rtt() {
    for (choice, every) in
        [("bbr", 5), ("bbr:version=1", 10), ("bbr:version=1,min-rtt-window=20s,probe-rtt=500ms", 20)]
    {
        // The queue of another flow would hide it: here the path becomes shorter by none, and longer.
        let mut flow = Flow::new(choice, 10 * MEGABIT, 40, 0.0);
        flow.run(Duration::from_secs(2));
        flow.rtt = Duration::from_millis(80);
        flow.run(Duration::from_secs(60));
        let rtt = flow.bbr.min_rtt().unwrap();
        assert!((80..90).contains(&rtt.as_millis()), "{choice}: {rtt:?}");
        let probes: Vec<Time> =
            flow.states.iter().filter(|(_, state)| *state == State::ProbeRtt).map(|(at, _)| *at).collect();
        assert!(probes.len() as u64 >= 50 / every - 1, "{choice}: {probes:?}");
        for pair in probes.windows(2) {
            assert!(pair[1].since(pair[0]) >= Duration::from_secs(every), "{choice}: {probes:?}");
        }
    }
}

#[test]
fn an_application_limited_flow_does_not_lower_the_estimate() {
    for choice in ["bbr", "bbr:version=1"] {
        let mut flow = Flow::new(choice, 10 * MEGABIT, 40, 0.0);
        flow.run(Duration::from_secs(4));
        let before = flow.max_bw();
        assert!((9.0e6..10.1e6).contains(&before), "{choice}: {before}");
        // A packet per 10 ms is 1 Mb/s.
        flow.talks_each = Some(Duration::from_millis(10));
        flow.run(Duration::from_secs(8));
        assert_eq!(flow.max_bw(), before, "{choice}");
        flow.talks_each = None;
        flow.run(Duration::from_millis(200));
        let share = flow.share(1);
        assert!(share > 0.9, "{choice}: {share} at once");
    }
}

#[test]
fn after_a_timeout_the_window_recovers_within_a_round_trip() {
    for choice in ["bbr", "bbr:version=1"] {
        let mut flow = Flow::new(choice, 10 * MEGABIT, 40, 0.0);
        flow.run(Duration::from_secs(4));
        let before = flow.bbr.window();
        flow.loss = 1.0;
        flow.run(Duration::from_millis(1_500));
        assert!(flow.bbr.window() <= 4 * MTU, "{choice}: {}", flow.bbr.window());
        flow.loss = 0.0;
        flow.run(Duration::from_secs(3));
        assert!(flow.bbr.window() * 10 >= before * 8, "{choice}: {} of {before}", flow.bbr.window());
        let share = flow.share(4);
        assert!(share > 0.85, "{choice}: {share}");
    }
}
