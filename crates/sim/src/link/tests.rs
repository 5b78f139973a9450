//! What the link does, and what it never does, packet by packet.

use std::net::SocketAddr;

use braidftp_base::{Ecn, Rate};
use proptest::prelude::*;

use super::*;
use crate::dice::Probability;

const A: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1)), 1);

/// A packet of `wire_bytes` on the wire of a default link, with its number in front.
fn datagram(number: u16, wire_bytes: usize) -> Datagram {
    let mut payload = vec![0; wire_bytes - 28];
    payload[..2].copy_from_slice(&number.to_be_bytes());
    Datagram { from: A, to: A, ecn: Ecn::Ect0, payload: payload.into() }
}

fn link(config: &str) -> Link {
    Link::new(config.parse().unwrap(), 1, 0)
}

/// What comes out, by number, in microseconds, until nothing is left.
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
fn without_any_property_packets_come_out_at_once_and_in_order() {
    let mut link = link("");
    for number in 0..3 {
        link.handle(Time::ZERO, datagram(number, 1_500));
    }
    assert_eq!(drain(&mut link), [(0, 0), (0, 1), (0, 2)]);
}

#[test]
fn packets_that_would_wait_long_are_marked_if_they_can_be() {
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
    // The third finds 3,000 bytes before it.
    assert_eq!(seen, [Ecn::Ect0, Ecn::Ect0, Ecn::Ce, Ecn::NotEct, Ecn::Ce]);
    assert_eq!((link.counters().marked, link.counters().dropped_queue), (2, 0));
    let mut alone = self::link("rate=3mbit,ecn=1p");
    alone.handle(Time::ZERO, datagram(0, 1_500));
    alone.poll(Time::ZERO);
    assert_eq!(alone.counters().marked, 0, "an empty queue is none");
}

#[test]
fn packets_take_turns_on_the_wire_and_then_travel() {
    let mut link = link("rate=3mbit,delay=1ms");
    for number in 0..3 {
        link.handle(Time::ZERO, datagram(number, 1_500));
    }
    // 1500 bytes at 3 Mbit/s take 4 ms.
    assert_eq!(drain(&mut link), [(5_000, 0), (9_000, 1), (13_000, 2)]);
}

#[test]
fn an_idle_wire_starts_when_a_packet_comes_however_late_it_is_polled() {
    let mut link = link("rate=3mbit,delay=1ms");
    link.handle(Time::ZERO, datagram(0, 1_500));
    link.handle(Time::from_millis(50), datagram(1, 1_500));
    link.handle(Time::from_millis(51), datagram(2, 1_500));
    assert_eq!(drain(&mut link), [(5_000, 0), (55_000, 1), (59_000, 2)]);
}

#[test]
fn the_queue_takes_what_fits_in_bytes_or_packets() {
    for config in ["rate=3mbit,queue=3000B", "rate=3mbit,queue=2p"] {
        let mut link = link(config);
        for number in 0..5 {
            link.handle(Time::ZERO, datagram(number, 1_500));
        }
        assert_eq!(link.counters().dropped_queue, 3, "{config}");
        assert_eq!(link.counters().queue_peak_bytes, 3_000);
        assert_eq!(drain(&mut link).len(), 2);
    }
    // One byte less than two packets is room for one.
    let mut link = link("rate=3mbit,queue=2999B");
    link.handle(Time::ZERO, datagram(0, 1_500));
    link.handle(Time::ZERO, datagram(1, 1_500));
    assert_eq!(link.counters().dropped_queue, 1);
}

#[test]
fn packets_up_to_the_mtu_pass_and_longer_ones_vanish() {
    let mut link = link("mtu=1280");
    for (number, bytes) in [1_279, 1_280, 1_281].into_iter().enumerate() {
        link.handle(Time::ZERO, datagram(number as u16, bytes));
    }
    assert_eq!(link.counters().dropped_mtu, 1);
    assert_eq!(drain(&mut link), [(0, 0), (0, 1)]);
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
fn a_duplicate_comes_too_and_takes_its_own_time() {
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
fn a_link_holds_no_more_than_its_limit_however_fast_and_long() {
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
fn what_waits_when_the_rate_changes_leaves_in_order_at_the_new_one() {
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

/// What goes in: gaps in microseconds and sizes.
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
    let queue = prop_oneof![(1..20_000_usize).prop_map(Queue::Bytes), (1..20_usize).prop_map(Queue::Packets)];
    let rate = prop_oneof![
        Just(Bandwidth::Unlimited),
        (100_000..100_000_000_u64).prop_map(|bits| Bandwidth::Fixed(Rate::from_bits_per_second(bits)))
    ];
    let reorder = prop::option::of((probability(), 0..20_000_u64).prop_map(|(probability, micros)| {
        Reorder { probability, extra_delay: Duration::from_micros(micros) }
    }));
    let mtu = prop::option::of(28..1_600_usize);
    (loss, queue, rate, 0..50_000_u64, reorder, probability(), probability(), mtu).prop_map(
        |(loss, queue, rate, delay_us, reorder, duplicate, corrupt, mtu)| LinkConfig {
            loss,
            queue,
            rate,
            delay: Duration::from_micros(delay_us),
            reorder,
            duplicate,
            corrupt,
            overhead_bytes: 28,
            ecn: Some(Queue::Packets(2)),
            mtu,
        },
    )
}

/// Feeds the traffic, polling at least every `step`, and gives all that came out.
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
        assert!(link.counters().is_conserved(), "{:?}", link.counters());
    }
    loop {
        match link.poll(now) {
            Output::Send(datagram) => out.push(datagram.payload),
            Output::Event(never) => match never {},
            Output::Wait(Some(next)) => now = next,
            Output::Wait(None) => break,
        }
        assert!(link.counters().is_conserved(), "{:?}", link.counters());
    }
    (out, link.counters())
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
            lost("loss=0.3,rate=1mbit,queue=2p,reorder=0.5,duplicate=0.5,corrupt=0.5,delay=9ms")
        );
    }
}
