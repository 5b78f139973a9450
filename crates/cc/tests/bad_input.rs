//! Whatever a controller is told, in whatever order: its window is never nothing, and never more than what can be sent.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::{Ack, Cause, Congestion, Controller, Idle, Kind, Options, Recovered, Sent, fast};
use proptest::prelude::*;

/// More than any path holds; what is added to it stays a number.
const WINDOW_MAX: usize = u32::MAX as usize;

/// What a controller is told.
#[derive(Debug, Clone)]
enum Told {
    Sent { bytes: usize, flight: usize },
    Ack { bytes: usize, flight: usize, mtu: usize, rtt: Option<Duration>, in_recovery: bool },
    Congestion(Cause, usize, usize),
    Recovered(usize, usize),
    Idle(Duration, usize),
    Mtu(usize),
}

fn mtu() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 500..9_000_usize, 1 => Just(1), 1 => 1..=usize::MAX, 1 => Just(usize::MAX)]
}

fn bytes() -> impl Strategy<Value = usize> {
    prop_oneof![4 => 0..100_000_usize, 1 => Just(0), 1 => Just(usize::MAX / 4)]
}

fn rtt() -> impl Strategy<Value = Option<Duration>> {
    prop_oneof![
        4 => (1..2_000_u64).prop_map(|ms| Some(Duration::from_millis(ms))),
        1 => Just(Some(Duration::ZERO)),
        1 => Just(Some(Duration::from_nanos(1))),
        1 => Just(Some(Duration::MAX)),
        1 => Just(None),
    ]
}

fn told() -> impl Strategy<Value = Told> {
    let cause = prop_oneof![Just(Cause::Loss), Just(Cause::Timeout), Just(Cause::Ecn)];
    prop_oneof![
        2 => (bytes(), bytes()).prop_map(|(bytes, flight)| Told::Sent { bytes, flight }),
        8 => (bytes(), bytes(), mtu(), rtt(), any::<bool>())
            .prop_map(|(bytes, flight, mtu, rtt, in_recovery)| Told::Ack { bytes, flight, mtu, rtt, in_recovery }),
        2 => (cause, bytes(), mtu()).prop_map(|(cause, flight, mtu)| Told::Congestion(cause, flight, mtu)),
        1 => (bytes(), mtu()).prop_map(|(flight, mtu)| Told::Recovered(flight, mtu)),
        1 => (0..1_000_u64, mtu()).prop_map(|(s, mtu)| Told::Idle(Duration::from_secs(s), mtu)),
        1 => mtu().prop_map(Told::Mtu),
    ]
}

/// Clocks that stand still, run, jump, and go back.
fn clock() -> impl Strategy<Value = Time> {
    prop_oneof![
        4 => (0..100_000_u64).prop_map(Time::from_millis),
        1 => Just(Time::ZERO),
        1 => any::<u64>().prop_map(Time::from_nanos),
        1 => Just(Time::from_nanos(u64::MAX)),
    ]
}

fn params() -> impl Strategy<Value = fast::Params> {
    (any::<u32>(), any::<Option<u32>>(), any::<u16>(), 0..20_u64, any::<bool>()).prop_map(
        |(alpha_packets, beta_packets, gamma_thousandths, period, bare)| fast::Params {
            alpha_packets,
            beta_packets,
            gamma_thousandths,
            mi_threshold: if bare { Duration::ZERO } else { Duration::MAX },
            update_period: Duration::from_secs(period),
            increases: if bare { fast::Increases::AtOnce } else { fast::Increases::Spread },
            averaging: if bare { fast::Averaging::Paper } else { fast::Averaging::Module },
            refresh: (!bare).then_some(Duration::from_secs(period)),
            ..fast::Params::default()
        },
    )
}

fn tell(controller: &mut dyn Controller, now: Time, told: &Told) {
    match *told {
        Told::Sent { bytes, flight } => controller.on_sent(Sent { now, bytes, flight_before: flight }),
        Told::Ack { bytes, flight, mtu, rtt, in_recovery } => controller.on_ack(Ack {
            now,
            bytes,
            flight_before: flight,
            mtu,
            rtt,
            srtt: rtt,
            cum_advanced: bytes > 0,
            in_recovery,
            siblings: &[],
        }),
        Told::Congestion(cause, flight_bytes, mtu) => {
            controller.on_congestion(Congestion { cause, now, flight_bytes, mtu });
        }
        Told::Recovered(flight_bytes, mtu) => {
            controller.on_recovered(Recovered { now, flight_bytes, mtu });
        }
        Told::Idle(idle_for, mtu) => {
            let rto = Duration::from_secs(1);
            controller.on_idle(Idle { now, idle_for, rto, mtu, ssthresh_min: 0 });
        }
        Told::Mtu(mtu) => controller.on_mtu(mtu),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_history_makes_a_window_of_nothing_or_of_too_much(
        kind in prop::sample::select(vec![Kind::Fast]),
        params in params(),
        first in mtu(),
        history in prop::collection::vec((clock(), told()), 0..200),
    ) {
        let mut controller = kind.build_with(Options { fast: params, ..Options::default() }, first);
        for (now, told) in &history {
            tell(&mut *controller, *now, told);
            let window = controller.window();
            prop_assert!((1..=WINDOW_MAX).contains(&window), "{} after {:?}", window, told);
            prop_assert!(controller.ssthresh() > 0);
        }
    }
}
