//! Tests of the link, packet by packet.

use std::net::SocketAddr;
use std::sync::Arc;

use braidftp_base::{Ecn, Rate};
use proptest::prelude::*;

use super::*;
use crate::random::Probability;

const A: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1);

/// A packet of `wire_bytes` on the wire of a default link, with its number in the first bytes.
fn datagram(number: u16, wire_bytes: usize) -> Datagram {
    let mut payload = vec![0; wire_bytes - 28];
    payload[..2].copy_from_slice(&number.to_be_bytes());
    Datagram { from: A, to: A, ecn: Ecn::Ect0, payload: payload.into() }
}

fn link(config: &str) -> Link {
    Link::new(config.parse().unwrap(), 1, 0)
}

/// Drains the link; returns the numbers and the times in microseconds.
fn drain(link: &mut Link) -> Vec<(u64, u16)> {
    let mut now = Time::ZERO;
    let mut out = Vec::new();
    loop {
        match link.poll(now) {
            Output::Send(datagram) => {
                let number = u16::from_be_bytes([datagram.payload[0], datagram.payload[1]]);
                out.push((now.as_nanos() / 1_000, number));
            }
            Output::Event(never) => match never {},
            Output::Wait(Some(next)) => {
                assert!(next > now, "a wait that has passed");
                now = next;
            }
            Output::Wait(None) => return out,
        }
    }
}

#[test]
fn a_default_link_delivers_at_once_and_in_order() {
    let mut link = link("");
    for number in 0..3 {
        link.handle(Time::ZERO, datagram(number, 1_500));
    }
    assert_eq!(drain(&mut link), [(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn ecn_capable_packets_are_marked_above_the_threshold() {
    let mut link = link("rate=3mbit,ecn=3000B");
    for number in 0..5 {
        let ecn = if number == 3 { Ecn::NotEct } else { Ecn::Ect0 };
        link.handle(Time::ZERO, Datagram { ecn, ..datagram(number, 1_500) });
    }
    let mut seen = Vec::new();
    let mut now = Time::ZERO;
    loop {
        match link.poll(now) {
            Output::Send(datagram) => seen.push(datagram.ecn),
            Output::Wait(Some(next)) => now = next,
            _ => break,
        }
    }
    // The third packet finds 3,000 bytes queued.
    assert_eq!(seen, [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
    assert_eq!((link.counters().marked, link.counters().dropped_queue), (2, 0));
    let mut alone = self::link("rate=3mbit,ecn=1p");
    alone.handle(Time::ZERO, datagram(0, 1_500));
    alone.poll(Time::ZERO);
    assert_eq!(alone.counters().marked, 0, "an empty queue does not mark");
}

#[test]
fn packets_are_serialized_and_then_propagated() {
    let mut link = link("rate=3mbit,delay=1ms");
    for number in 0..3 {
        link.handle(Time::ZERO, datagram(number, 1_500));
    }
    // 1500 bytes at 3 Mbit/s take 4 ms.
    assert_eq!(drain(&mut link), [(5_000, 0), (9_000, 1), (13_000, 2)]);
}

#[test]
fn an_idle_wire_starts_when_a_packet_arrives_even_if_polled_late() {
    let mut link = link("rate=3mbit,delay=1ms");
    link.handle(Time::ZERO, datagram(0, 1_500));
    link.handle(Time::from_millis(50), datagram(1, 1_500));
    link.handle(Time::from_millis(51), datagram(2, 1_500));
    assert_eq!(drain(&mut link), [(5_000, 0), (55_000, 1), (59_000, 2)]);
}

#[test]
fn the_queue_is_limited_in_bytes_or_packets() {
    for config in ["rate=3mbit,queue=3000B", "rate=3mbit,queue=2p"] {
        let mut link = link(config);
        for number in 0..5 {
            link.handle(Time::ZERO, datagram(number, 1_500));
        }
        assert_eq!(link.counters().dropped_queue, 3, "{config}");
        assert_eq!(link.counters().queue_peak_bytes, 3_000);
        assert_eq!(drain(&mut link).len(), 2);
    }
    // One byte less than two packets has room for one.
    let mut link = link("rate=3mbit,queue=2999B");
    link.handle(Time::ZERO, datagram(0, 1_500));
    link.handle(Time::ZERO, datagram(1, 1_500));
    assert_eq!(link.counters().dropped_queue, 1);
}

#[test]
fn packets_longer_than_the_mtu_are_dropped() {
    let mut link = link("mtu=1280");
    for (number, bytes) in [1_279, 1_280, 1_281].into_iter().enumerate() {
        link.handle(Time::ZERO, datagram(number as u16, bytes));
    }
    assert_eq!(link.counters().dropped_mtu, 1);
    assert_eq!(drain(&mut link), [(0, 0), (0, 1)]);
}

/// A datagram that IP may fragment.
#[derive(Clone, Debug)]
struct Fragmentable(Datagram);

impl HasDatagram for Fragmentable {
    fn datagram(&self) -> &Datagram {
        &self.0
    }

    fn datagram_mut(&mut self) -> &mut Datagram {
        &mut self.0
    }

    fn may_be_fragmented(&self) -> bool {
        true
    }
}

//= specs/rfc9260.txt#section-6.9
//= type=test
//# Instead, if
//# the PMTU has been reduced, then IP fragmentation MUST be used.
#[test]
fn a_packet_that_may_be_fragmented_passes_any_mtu_with_a_header_for_each_fragment() {
    for (mtu, bytes, on_the_wire) in
        [(1_500, 1_500, 1_500), (1_480, 1_500, 1_520), (532, 1_472, 1_512), (68, 68, 68), (68, 69, 89)]
    {
        let mut link = LinkOf::new(format!("mtu={mtu}").parse().unwrap(), 1, 0);
        link.handle(Time::ZERO, Fragmentable(datagram(0, bytes)));
        assert!(matches!(link.poll(Time::ZERO), Output::Send(_)), "{mtu}");
        let counters = link.counters();
        assert_eq!((counters.bytes_out, counters.dropped_mtu), (on_the_wire, 0), "{bytes} bytes, MTU {mtu}");
    }
}

#[test]
fn a_packet_larger_than_the_queue_passes_an_idle_wire() {
    let mut link = link("rate=3mbit,queue=100B");
    link.handle(Time::ZERO, datagram(0, 1_500));
    assert_eq!(drain(&mut link).len(), 1);
}

#[test]
fn a_lost_packet_takes_no_time_on_the_wire() {
    let mut link = link("rate=3mbit,lose=0");
    link.handle(Time::ZERO, datagram(0, 1_500));
    link.handle(Time::ZERO, datagram(1, 1_500));
    assert_eq!(drain(&mut link), [(4_000, 1)]);
}

#[test]
fn a_packet_held_back_is_overtaken() {
    let mut link = link("delay=10ms,reorder=1:5ms");
    link.handle(Time::ZERO, datagram(0, 100));
    link.config.reorder = None;
    link.handle(Time::from_millis(1), datagram(1, 100));
    assert_eq!(drain(&mut link), [(11_000, 1), (15_000, 0)]);
    assert_eq!(link.counters().reordered, 1);
}

#[test]
fn jitter_delays_packets_randomly_and_preserves_their_order() {
    let mut link = link("delay=10ms,jitter=5ms");
    for number in 0..1_000 {
        link.handle(Time::from_millis(u64::from(number)), datagram(number, 100));
    }
    let seen = drain(&mut link);
    assert!(seen.iter().map(|(_, number)| *number).eq(0..1_000), "the order is preserved");
    let longer: Vec<u64> =
        seen.iter().map(|(micros, number)| micros - 1_000 * u64::from(*number) - 10_000).collect();
    assert!(longer.iter().all(|micros| *micros <= 5_000));
    assert!(
        [0..500, 2_000..3_000, 4_500..5_001].iter().all(|some| longer.iter().any(|us| some.contains(us)))
    );
}

#[test]
fn a_held_back_packet_does_not_delay_others_with_jitter() {
    let mut link = link("delay=10ms,jitter=1ms,reorder=1:50ms");
    link.handle(Time::ZERO, datagram(0, 100));
    link.config.reorder = None;
    link.handle(Time::from_millis(1), datagram(1, 100));
    let seen = drain(&mut link);
    assert_eq!(seen[1], (60_000, 0));
    assert!((11_000..=12_000).contains(&seen[0].0), "{seen:?}");
}

#[test]
fn a_duplicate_is_delivered_and_takes_time_on_the_wire() {
    let mut link = link("rate=3mbit,duplicate=1");
    link.handle(Time::ZERO, datagram(7, 1_500));
    assert_eq!(drain(&mut link), [(4_000, 7), (8_000, 7)]);
    assert_eq!(link.counters().duplicated, 1);
}

#[test]
fn corruption_flips_one_bit() {
    let mut link = link("corrupt=1");
    let sent = datagram(0, 1_500);
    link.handle(Time::ZERO, sent.clone());
    link.handle(Time::ZERO, Datagram { payload: Bytes::new(), ..sent.clone() });
    let Output::Send(got) = link.poll(Time::ZERO) else { panic!("nothing came out") };
    let flipped: u32 = sent.payload.iter().zip(&got.payload).map(|(a, b)| (a ^ b).count_ones()).sum();
    assert_eq!((got.payload.len(), flipped), (sent.payload.len(), 1));
    assert_eq!(link.counters().corrupted, 1, "an empty packet has no bit to flip");
}

#[test]
fn a_link_holds_at_most_its_limit() {
    let mut link = link("delay=3600s,overhead=65535");
    let packets = HELD_BYTES_MAX / 65_540;
    for _ in 0..packets + 10 {
        link.handle(Time::ZERO, Datagram { payload: Bytes::from_static(b"12345"), ..datagram(0, 30) });
    }
    assert_eq!(link.counters().queued, packets as u64);
    assert_eq!(link.counters().dropped_queue, 10);
}

#[test]
fn a_link_that_goes_down_loses_all_until_it_is_up_again() {
    let mut link = link("");
    link.set_config(Time::ZERO, "loss=1".parse().unwrap());
    link.handle(Time::ZERO, datagram(0, 100));
    link.set_config(Time::ZERO, LinkConfig::default());
    link.handle(Time::ZERO, datagram(1, 100));
    assert_eq!(drain(&mut link), [(0, 1)]);
}

#[test]
fn queued_packets_leave_in_order_at_a_new_rate() {
    for (rate, arrivals) in [
        ("6mbit", [(4_000, 0), (6_000, 1), (8_000, 2), (10_000, 3)]),
        ("unlimited", [(4_000, 0), (4_000, 1), (4_000, 2), (4_000, 3)]),
    ] {
        let mut link = link("rate=3mbit");
        for number in 0..3 {
            link.handle(Time::ZERO, datagram(number, 1_500));
        }
        link.set_config(Time::from_millis(1), format!("rate={rate}").parse().unwrap());
        link.handle(Time::from_millis(1), datagram(3, 1_500));
        assert_eq!(drain(&mut link), arrivals);
    }
}

/// The traffic: gaps in microseconds and sizes.
fn traffic() -> impl Strategy<Value = Vec<(u64, usize)>> {
    prop::collection::vec((0..3_000_u64, 30..1_600_usize), 0..120)
}

fn configs() -> impl Strategy<Value = LinkConfig> {
    let probability =
        || (0..=100_u32).prop_map(|percent| Probability::new(f64::from(percent) / 100.0).unwrap());
    let loss = prop_oneof![
        Just(Loss::None),
        probability().prop_map(Loss::Bernoulli),
        (probability(), probability()).prop_map(|(to_bad, to_good)| Loss::GilbertElliott(GilbertElliott {
            to_bad,
            to_good,
            pass_good: Probability::ALWAYS,
            pass_bad: Probability::NEVER
        })),
        prop::collection::btree_set(0..100_u64, 0..20)
            .prop_map(|set| Loss::Script(set.into_iter().collect())),
    ];
    let queue = prop_oneof![
        (1..20_000_usize).prop_map(Queue::Bytes),
        (1..20_usize).prop_map(Queue::Packets),
        (1..20_usize).prop_map(Queue::Waiting)
    ];
    let rate = prop_oneof![
        Just(Bandwidth::Unlimited),
        Just(word("rate=1mbit:10mbit@5ms:500kbit@11ms").rate),
        prop::collection::btree_set(0..50_u32, 1..10).prop_map(|lines| {
            let lines: Vec<_> = lines.into_iter().chain([51]).map(|ms| ms.to_string()).collect();
            Bandwidth::Trace(Arc::new(Trace::parse("drawn", &lines.join("\n")).unwrap()))
        }),
        (100_000..100_000_000_u64).prop_map(|bits| Bandwidth::Fixed(Rate::from_bits_per_second(bits)))
    ];
    let reorder = prop::option::of((probability(), 0..20_000_u64).prop_map(|(probability, micros)| {
        Reorder { probability, extra_delay: Duration::from_micros(micros) }
    }));
    let mtu = prop::option::of(28..1_600_usize);
    let managed = prop::sample::select(
        [
            "",
            "",
            "red=1p:5p:0.3:0.5",
            "red=2kB:9kB:0.1:0.2:gentle:mark",
            "codel=1ms:5ms",
            "codel=500us:2ms:mark",
        ]
        .map(word)
        .to_vec(),
    );
    let down = prop::sample::select(["", "", "down=1ms-3ms:9ms-12ms", "flap=7ms:2ms"].map(word).to_vec());
    let travel = (0..50_000_u64, prop_oneof![Just(0), 0..20_000_u64]);
    (loss, queue, rate, travel, reorder, probability(), probability(), mtu, managed, down).prop_map(
        |(loss, queue, rate, (delay_us, jitter_us), reorder, duplicate, corrupt, mtu, managed, down)| {
            LinkConfig {
                management: managed.management,
                down: down.down,
                loss,
                queue,
                rate,
                delay: Duration::from_micros(delay_us),
                jitter: Duration::from_micros(jitter_us),
                reorder,
                duplicate,
                corrupt,
                overhead_bytes: 28,
                ecn: Some(Queue::Packets(2)),
                mtu,
            }
        },
    )
}

fn word(text: &str) -> LinkConfig {
    text.parse().unwrap()
}

/// Feeds the traffic, polling at least every `step`; returns everything that came out.
fn run(config: &LinkConfig, seed: u64, traffic: &[(u64, usize)], step: Duration) -> (Vec<Bytes>, Counters) {
    let mut link = Link::new(config.clone(), seed, 3);
    let mut out = Vec::new();
    let mut now = Time::ZERO;
    for (number, (gap, size)) in traffic.iter().enumerate() {
        let next = now + Duration::from_micros(*gap);
        while !step.is_zero() && now + step < next {
            now += step;
            while let Output::Send(datagram) = link.poll(now) {
                out.push(datagram.payload);
            }
        }
        now = next;
        link.handle(now, datagram(number as u16, *size));
        link.check(3);
    }
    loop {
        match link.poll(now) {
            Output::Send(datagram) => out.push(datagram.payload),
            Output::Event(never) => match never {},
            Output::Wait(Some(next)) => now = next,
            Output::Wait(None) => break,
        }
        link.check(3);
    }
    (out, link.counters())
}

/// Sends `count` packets of 1,500 bytes every `gap_us`, each drained in time; returns what came out, in
/// microseconds.
fn stream(link: &mut Link, gap_us: u64, count: u16) -> Vec<(u64, u16)> {
    let mut out = Vec::new();
    let mut now = Time::ZERO;
    let mut next = 0;
    loop {
        let wait = match link.poll(now) {
            Output::Send(datagram) => {
                let number = u16::from_be_bytes([datagram.payload[0], datagram.payload[1]]);
                out.push((now.as_nanos() / 1_000, number));
                continue;
            }
            Output::Event(never) => match never {},
            Output::Wait(wait) => wait,
        };
        let sends = (next < count).then(|| Time::from_micros(u64::from(next) * gap_us));
        match sends.into_iter().chain(wait).min() {
            None => return out,
            Some(at) if sends == Some(at) => {
                now = at;
                link.handle(now, datagram(next, 1_500));
                next += 1;
            }
            Some(at) => now = at,
        }
    }
}

#[test]
fn a_waiting_limit_does_not_count_the_packet_on_the_wire() {
    for (config, taken) in [("queue=2p", 2), ("queue=2w", 3)] {
        let mut link = link(&format!("rate=3mbit,{config}"));
        for number in 0..5 {
            link.handle(Time::ZERO, datagram(number, 1_500));
        }
        assert_eq!(drain(&mut link).len(), taken, "{config}");
    }
    // ns-2 drops when waiting + 1 >= limit.
    assert_eq!(Queue::ns2(50), "49w".parse().unwrap());
}

#[test]
fn a_trace_link_delivers_at_its_recorded_opportunities() {
    let mut config = LinkConfig { delay: Duration::from_millis(10), ..LinkConfig::default() };
    config.rate = Bandwidth::Trace(Arc::new(Trace::parse("t", "2\n3\n7\n").unwrap()));
    let mut link = Link::new(config, 1, 0);
    // 1,504 bytes carry one packet of 1,500, or three of 500, or one of 1,000 and half of the next.
    for (number, bytes) in [1_500, 500, 500, 500, 1_000, 1_000].into_iter().enumerate() {
        link.handle(Time::ZERO, datagram(number as u16, bytes));
    }
    let opportunities = [(2, 0), (3, 1), (3, 2), (3, 3), (7, 4), (9, 5)];
    assert_eq!(drain(&mut link), opportunities.map(|(ms, number)| ((ms + 10) * 1_000, number)));
    // An opportunity at the instant of arrival is too early, and unused opportunities are lost.
    link.handle(Time::from_millis(30), datagram(9, 1_500));
    assert_eq!(drain(&mut link), [(41_000, 9)]); // 30 is 4 × 7 + 2: the next is 31
}

#[test]
fn a_rate_schedule_changes_the_rate_at_its_times() {
    let mut link = link("rate=3mbit:6mbit@6ms");
    for number in 0..4 {
        link.handle(Time::ZERO, datagram(number, 1_500));
    }
    // At 6 ms half of the bits of the second packet are sent.
    assert_eq!(drain(&mut link), [(4_000, 0), (7_000, 1), (9_000, 2), (11_000, 3)]);
}

#[test]
fn packets_sent_while_a_link_is_down_are_lost_and_earlier_ones_arrive() {
    let mut link = link("rate=12mbit,delay=5ms,down=2ms-4ms");
    let came = stream(&mut link, 1_000, 6);
    assert_eq!(came, [(6_000, 0), (7_000, 1), (10_000, 4), (11_000, 5)]);
    assert_eq!(link.counters().dropped_down, 2);
}

#[test]
fn codel_ends_a_standing_queue_and_drop_tail_keeps_it() {
    // A tenth more arrives than the wire transmits: 1,500 bytes in 1 ms.
    let longest = |config: &str| {
        let mut link = link(&format!("rate=12mbit,queue=1000p{config}"));
        let came = stream(&mut link, 909, 10_000);
        let waits: Vec<_> = came.iter().map(|(at, number)| at - u64::from(*number) * 909).collect();
        (waits[waits.len() / 2..].iter().copied().max().unwrap_or(0), link.counters())
    };
    let (wait, counters) = longest(",codel=default");
    assert!(wait < 60_000, "{wait} us");
    assert!(counters.dropped_early > 500 && counters.dropped_queue == 0, "{counters:?}");
    let (wait, counters) = longest("");
    // 909 of 10,000 packets are queued at the end, each delayed by the time the queue took to grow.
    assert!((890_000..920_000).contains(&wait), "{wait} us");
    assert_eq!((counters.dropped_early, counters.dropped_queue), (0, 0));
    let (_, counters) = longest(",codel=default:mark");
    assert!(counters.marked > 100 && counters.dropped_early == 0, "{counters:?}");
}

#[test]
fn codel_drops_after_an_interval_above_the_target() {
    let mut link = link("rate=12mbit,queue=1000p,codel=default");
    link.record();
    // Twice the rate of the wire: the n-th packet waits n/2 ms, so the delay is 5 ms for the one sent at 10
    // ms.
    stream(&mut link, 500, 400);
    let record = link.take_record();
    let drops = record.iter().filter(|seen| seen.what == Fate::Dropped(Drop::Early));
    let first: Vec<_> = drops.take(3).map(|seen| seen.at.as_nanos() / 1_000_000).collect();
    // 10 ms and the interval; then 100 ms later, then 100/sqrt(2).
    assert_eq!(first, [110, 210, 281]);
}

#[test]
fn red_keeps_the_mean_queue_between_its_thresholds() {
    let mut link = link("rate=12mbit,queue=1000p,red=20p:60p:0.1:0.02");
    stream(&mut link, 800, 20_000);
    let counters = link.counters();
    // A quarter more arrives than leaves: all excess is dropped, mostly early and never for lack of room.
    let dropped = counters.dropped_early;
    assert!((3_900..4_100).contains(&dropped), "{counters:?}");
    assert_eq!(counters.dropped_queue, 0);
    assert!(counters.queue_peak_bytes < 120 * 1_500, "{counters:?}");
    let mut marking = self::link("rate=12mbit,queue=1000p,red=20p:60p:0.5:0.02:mark");
    stream(&mut marking, 990, 20_000);
    assert!(marking.counters().marked > 50, "{:?}", marking.counters());
}

#[test]
fn a_record_holds_all_events_of_each_packet() {
    let mut link = link("rate=3mbit,delay=1ms,queue=1w,lose=3");
    link.record();
    for number in 0..4 {
        link.handle(Time::ZERO, datagram(number, 1_500));
    }
    drain(&mut link);
    let record: Vec<_> = link
        .take_record()
        .iter()
        .map(|seen| (seen.at.as_nanos() / 1_000_000, seen.what.sign(), seen.datagram.payload[1]))
        .collect();
    let expected = [
        (0, '+', 0),
        (0, '-', 0),
        (0, '+', 1),
        (0, 'd', 2),
        (0, 'd', 3),
        (4, '-', 1),
        (5, 'r', 0),
        (9, 'r', 1),
    ];
    assert_eq!(record, expected);
    assert!(link.take_record().is_empty());
}

proptest! {
    #[test]
    fn every_packet_is_accounted_for(config in configs(), traffic in traffic(), seed in any::<u64>()) {
        let (out, counters) = run(&config, seed, &traffic, Duration::ZERO);
        prop_assert_eq!(counters.packets_in, traffic.len() as u64);
        prop_assert_eq!(counters.packets_out, out.len() as u64);
        prop_assert_eq!(counters.queued, 0);
        let bytes: usize = out.iter().map(|payload| payload.len() + 28).sum();
        prop_assert_eq!(counters.bytes_out, bytes as u64);
    }

    #[test]
    fn the_same_seed_gives_the_same_bytes_however_it_is_polled(
        config in configs(),
        traffic in traffic(),
        seed in any::<u64>(),
        step_us in 1..5_000_u64,
    ) {
        let coarse = run(&config, seed, &traffic, Duration::ZERO);
        let fine = run(&config, seed, &traffic, Duration::from_micros(step_us));
        prop_assert_eq!(coarse, fine);
    }

    #[test]
    fn a_wire_is_never_faster_than_its_rate(traffic in traffic(), rate in 100_000..50_000_000_u64) {
        let rate = Rate::from_bits_per_second(rate);
        let config = LinkConfig { rate: Bandwidth::Fixed(rate), queue: Queue::Packets(1_000), ..LinkConfig::default() };
        let mut link = Link::new(config, 0, 0);
        for (_, size) in &traffic {
            link.handle(Time::ZERO, datagram(0, *size));
        }
        let total: Duration = traffic.iter().map(|(_, size)| rate.transmit_time(*size)).sum();
        let last = drain(&mut link).last().map_or(0, |(micros, _)| *micros);
        prop_assert_eq!(last, total.as_micros() as u64);
    }

    #[test]
    fn other_properties_do_not_change_which_packets_are_lost(traffic in traffic(), seed in any::<u64>()) {
        let lost = |text: &str| {
            let mut link = Link::new(text.parse().unwrap(), seed, 0);
            let mut lost = Vec::new();
            for (_, size) in &traffic {
                let before = link.counters().dropped_loss;
                link.handle(Time::ZERO, datagram(0, *size));
                lost.push(link.counters().dropped_loss > before);
            }
            lost
        };
        prop_assert_eq!(
            lost("loss=0.3"),
            lost("loss=0.3,rate=1mbit,queue=2p,reorder=0.5,duplicate=0.5,corrupt=0.5,delay=9ms,jitter=3ms")
        );
    }
}
