//! Tests of the coupled rules beside siblings, and with arbitrary input from the transport.

use std::time::Duration;

use braidftp_base::Time;
use proptest::prelude::*;

use super::*;
use crate::frame::testing::{MSS, framed};
use crate::{Cause, Congestion};

const RTT: Duration = Duration::from_millis(100);

fn view(segments: usize, rtt: Duration) -> PathView {
    PathView {
        window: segments * MSS,
        ssthresh: segments * MSS,
        srtt: Some(rtt),
        between_losses: (segments * segments * MSS) as u64,
    }
}

fn ack(siblings: &[PathView]) -> Ack<'_> {
    Ack {
        now: Time::ZERO,
        bytes: MSS,
        gap_bytes: 0,
        regained_bytes: 0,
        flight_before: usize::MAX / 2,
        mtu: MSS,
        rtt: Some(RTT),
        cross_path_age: None,
        srtt: Some(RTT),
        cum_advanced: true,
        in_recovery: false,
        siblings,
    }
}

/// The growth of a window in congestion avoidance during a round trip, in bytes; negative if it shrinks.
fn opens<R: Rule>(segments: usize, siblings: &[PathView]) -> isize {
    let mut controller = framed::<R>(Options::default(), segments, 2);
    (0..segments).for_each(|_| controller.on_ack(ack(siblings)));
    controller.window() as isize - (segments * MSS) as isize
}

/// The segments of a window left after a loss.
fn leaves<R: Rule>(segments: usize, siblings: &[PathView]) -> usize {
    let mut controller = framed::<R>(Options::default(), segments, 2);
    controller.on_ack(ack(siblings));
    let flight_bytes = segments * MSS;
    controller.on_congestion(Congestion { cause: Cause::Loss, now: Time::ZERO, flight_bytes, mtu: MSS });
    controller.window() / MSS
}

#[test]
fn without_siblings_each_rule_is_reno() {
    let alone = [opens::<Lia>, opens::<Olia>, opens::<Balia>, opens::<RpV1>, opens::<RpV2>];
    for (nth, opens) in alone.into_iter().enumerate() {
        assert!((960..=1_000).contains(&opens(20, &[])), "{nth}: {}", opens(20, &[]));
    }
    for leaves in [leaves::<Lia>, leaves::<Olia>, leaves::<Balia>, leaves::<RpV1>, leaves::<RpV2>] {
        assert!((9..=10).contains(&leaves(20, &[])));
    }
}

#[test]
fn beside_an_equal_path_each_rule_follows_its_formula() {
    let twin = [view(20, RTT)];
    // α/W: (1/w)/4. OLIA: the same, because no path is better. BALIA: the same with a = 1. Resource pooling:
    // half.
    for opens in [opens::<Lia>, opens::<Balia>] {
        assert!((230..=255).contains(&opens(20, &twin)), "{}", opens(20, &twin));
    }
    let twin_that_loses = [PathView { between_losses: 0, ..twin[0] }];
    let opened = opens::<Olia>(20, &twin_that_loses);
    assert!((230..=255).contains(&opened), "{opened}");
    for opens in [opens::<RpV1>, opens::<RpV2>] {
        assert!((470..=505).contains(&opens(20, &twin)), "{}", opens(20, &twin));
    }
}

#[test]
fn the_worse_path_grows_less_than_the_better() {
    let better = [view(60, RTT)];
    // w/rtt² of the better path: 60/80² segments.
    assert!((175..=195).contains(&opens::<Lia>(20, &better)), "{}", opens::<Lia>(20, &better));
    // a = 3: (1 + 3)(4 + 3)/10 · 20/80² of a segment for each of 20.
    assert!((165..=180).contains(&opens::<Balia>(20, &better)), "{}", opens::<Balia>(20, &better));
    assert!((235..=260).contains(&opens::<RpV2>(20, &better)), "{}", opens::<RpV2>(20, &better));
    assert_eq!(leaves::<Lia>(20, &better), 10);
    assert_eq!(leaves::<Balia>(20, &better), 5, "three quarters are taken, as a exceeds 1.5");
    assert_eq!(leaves::<RpV1>(60, &[view(20, RTT)]), 20, "half of 80 is taken");
    assert_eq!(leaves::<RpV1>(20, &better), 2, "the minimum");
    assert_eq!(leaves::<RpV2>(20, &better), 2);
}

#[test]
fn olia_moves_from_the_largest_window_to_the_best_path() {
    let best = PathView { between_losses: u64::from(u32::MAX), ..view(35, RTT) };
    assert!(opens::<Olia>(40, &[best]) < 0, "{}", opens::<Olia>(40, &[best]));
    let largest = PathView { between_losses: 1, ..view(40, RTT) };
    let (with, without) = (opens::<Olia>(10, &[largest]), opens::<Lia>(10, &[largest]));
    assert!(with > 450 && with > without, "{with}, {without}: half a segment plus the coupled part");
}

#[test]
fn the_parts_of_a_group_follow_rfc_6356() {
    let part_of = |segments: usize, siblings: &[PathView]| part(&ack(siblings), segments * MSS);
    assert_eq!(part_of(20, &[]), ALL_OF_IT);
    assert_eq!(part_of(20, &[view(20, RTT)]), 250);
    assert_eq!(part_of(20, &[view(20, RTT), view(20, RTT)]), 111);
    // w·w/W² with the larger w: 60·20/80² and 60·60/80².
    assert_eq!(part_of(20, &[view(60, RTT)]), 187);
    assert_eq!(part_of(60, &[view(20, RTT)]), 562);
    // The formula exceeds the growth of a single flow, which is the bound.
    assert_eq!(part_of(100, &[view(1, RTT / 100)]), ALL_OF_IT);
    assert_eq!(part(&Ack { srtt: None, ..ack(&[view(20, RTT)]) }, 20 * MSS), ALL_OF_IT, "no round trip yet");
}

fn any_view() -> impl Strategy<Value = PathView> {
    (any::<usize>(), any::<usize>(), prop::option::of(any::<u64>()), any::<u64>()).prop_map(
        |(window, ssthresh, rtt, between_losses)| PathView {
            window: window % (u32::MAX as usize + 1),
            ssthresh,
            srtt: rtt.map(Duration::from_nanos),
            between_losses,
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_siblings_keep_the_window_within_bounds(
        coupling in prop::sample::select(Coupling::ALL),
        events in prop::collection::vec((0..4_u8, 0..100_000_usize, prop::collection::vec(any_view(), 0..5)), 0..60),
    ) {
        let mut controller = coupling.build(Kind::Auto, Options::default(), MSS);
        for (nth, (what, bytes, siblings)) in events.into_iter().enumerate() {
            let now = Time::from_millis(10 * nth as u64);
            match what {
                0 | 1 => controller.on_ack(Ack { now, bytes, ..ack(&siblings) }),
                2 => {
                    let cause = Cause::Loss;
                    controller.on_congestion(Congestion { cause, now, flight_bytes: bytes, mtu: MSS });
                }
                _ => {
                    let cause = Cause::Timeout;
                    controller.on_congestion(Congestion { cause, now, flight_bytes: bytes, mtu: MSS });
                }
            }
            prop_assert!(controller.window() > 0 && controller.window() <= u32::MAX as usize);
        }
    }

    #[test]
    fn no_coupled_window_grows_faster_than_its_part_allows(
        segments in 4..200_usize,
        others in prop::collection::vec((4..200_usize, 10..500_u64), 0..4),
    ) {
        let siblings: Vec<_> =
            others.iter().map(|(segments, ms)| view(*segments, Duration::from_millis(*ms))).collect();
        prop_assert!(opens::<Lia>(segments, &siblings) <= MSS as isize);
        prop_assert!(opens::<RpV1>(segments, &siblings) <= MSS as isize);
        prop_assert!(opens::<RpV2>(segments, &siblings) <= MSS as isize);
        prop_assert!(opens::<Balia>(segments, &siblings) >= 0);
    }
}
