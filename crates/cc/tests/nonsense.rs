//! Properties for arbitrary input: no window is ever zero or exceeds 32 bits, and no arithmetic overflows.
//! The input includes RTTs of zero and without bound, empty acknowledgements, MTUs larger than any packet,
//! clocks that jump and go back, and parameters in and out of their ranges.

use std::num::NonZeroU8;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::{
    Ack, Cause, Congestion, Controller, Counting, GrowsOn, Growth, Idle, IdleRule, InitialWindow, Kind, Lost,
    Options, PartialBytes, Recovered, Sent, SlowStart, SlowStartEnd, Spurious, adalr, auto, bbr, cubic, fast,
    hybla,
};
use proptest::prelude::*;

/// An input from the transport.
#[derive(Debug, Clone)]
enum Input {
    Sent { bytes: usize, flight: usize },
    Ack { bytes: usize, flight: usize, mtu: usize, rtt: Option<Duration>, flags: u8 },
    Lost { bytes: usize, sent_before: u64, flight: usize, mtu: usize },
    AppLimited(usize),
    Congestion { cause: Cause, flight: usize, mtu: usize },
    Spurious { flight: usize, mtu: usize },
    Recovered { flight: usize, mtu: usize },
    Idle { idle_for: Duration, rto: Duration, mtu: usize, ssthresh_min: usize },
    Mtu(usize),
    Limit(usize),
    Again(usize),
}

/// A plausible quantity, or an extreme one.
fn size(sensible: std::ops::Range<usize>) -> impl Strategy<Value = usize> {
    prop_oneof![6 => sensible, 1 => Just(0), 1 => Just(1), 1 => Just(usize::MAX), 1 => any::<usize>()]
}

fn duration() -> impl Strategy<Value = Duration> {
    prop_oneof![
        6 => (1_u64..2_000).prop_map(Duration::from_millis),
        1 => Just(Duration::ZERO),
        1 => Just(Duration::from_nanos(1)),
        1 => Just(Duration::MAX),
        1 => any::<u64>().prop_map(Duration::from_nanos),
    ]
}

fn input() -> impl Strategy<Value = Input> {
    let flight = || size(0..200_000);
    let mtu = || size(500..9_000);
    let cause = prop_oneof![Just(Cause::Loss), Just(Cause::Timeout), Just(Cause::Ecn)];
    prop_oneof![
        4 => (size(1..1_500), flight()).prop_map(|(bytes, flight)| Input::Sent { bytes, flight }),
        12 => (size(1..30_000), flight(), mtu(), prop::option::of(duration()), any::<u8>())
            .prop_map(|(bytes, flight, mtu, rtt, flags)| Input::Ack { bytes, flight, mtu, rtt, flags }),
        2 => (size(1..30_000), time(), flight(), mtu()).prop_map(|(bytes, sent_before, flight, mtu)| {
            Input::Lost { bytes, sent_before, flight, mtu }
        }),
        1 => flight().prop_map(Input::AppLimited),
        2 => (cause, flight(), mtu()).prop_map(|(cause, flight, mtu)| Input::Congestion { cause, flight, mtu }),
        1 => (flight(), mtu()).prop_map(|(flight, mtu)| Input::Spurious { flight, mtu }),
        1 => (flight(), mtu()).prop_map(|(flight, mtu)| Input::Recovered { flight, mtu }),
        1 => (duration(), duration(), mtu(), size(0..200_000)).prop_map(|(idle_for, rto, mtu, ssthresh_min)| {
            Input::Idle { idle_for, rto, mtu, ssthresh_min }
        }),
        1 => mtu().prop_map(Input::Mtu),
        1 => size(1..200_000).prop_map(Input::Limit),
        1 => size(1..200_000).prop_map(Input::Again),
    ]
}

/// The time between inputs: mostly small, sometimes large or negative.
fn time() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 0_u64..50_000_000, 1 => Just(u64::MAX), 1 => any::<u64>()]
}

fn fast() -> impl Strategy<Value = fast::Params> {
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

fn bbr() -> impl Strategy<Value = bbr::Params> {
    let version = prop_oneof![Just(bbr::Version::V1), Just(bbr::Version::V3)];
    (version, any::<u16>(), any::<u16>(), duration(), duration()).prop_map(
        |(version, loss_threshold_thousandths, beta_thousandths, min_rtt_window, probe_rtt)| bbr::Params {
            version,
            loss_threshold_thousandths,
            beta_thousandths,
            min_rtt_window,
            probe_rtt,
        },
    )
}

fn hybla() -> impl Strategy<Value = hybla::Params> {
    (duration(), any::<u8>()).prop_map(|(rtt0, rho_max)| hybla::Params { rtt0, rho_max })
}

fn adalr() -> impl Strategy<Value = adalr::Params> {
    (duration(), any::<u32>(), any::<u8>()).prop_map(|(rtt_ref, k_thousandths, rho_max)| adalr::Params {
        rtt_ref,
        k_thousandths,
        rho_max,
    })
}

fn options() -> impl Strategy<Value = Options> {
    let nonzero = || (1..=u8::MAX).prop_map(|value| NonZeroU8::new(value).expect("it is not 0"));
    let window = prop_oneof![
        Just(InitialWindow::Ipv4),
        Just(InitialWindow::Tcp),
        nonzero().prop_map(InitialWindow::Mtus)
    ];
    let ssthresh = prop::option::of(any::<u32>());
    (window, nonzero(), any::<u8>(), ssthresh, nonzero(), (fast(), hybla(), adalr(), bbr())).prop_map(
        |(
            initial_window,
            byte_counting_limit,
            flags,
            initial_ssthresh,
            floor_mtus,
            (fast, hybla, adalr, bbr),
        )| {
            let flag = |bit: u8| flags & 1 << bit != 0;
            Options {
                initial_window,
                byte_counting_limit,
                slow_start: if flag(0) { SlowStart::HyStart } else { SlowStart::UntilLoss },
                counting: if flag(1) { Counting::Acks } else { Counting::Bytes },
                growth: if flag(2) { Growth::Always } else { Growth::WhenFull },
                slow_start_end: if flag(3) { SlowStartEnd::Clamp } else { SlowStartEnd::StepOver },
                initial_ssthresh,
                floor_mtus,
                grows_on: if flag(4) { GrowsOn::CumAdvance } else { GrowsOn::AnyAck },
                idle_rule: if flag(6) { IdleRule::Rfc4960 } else { IdleRule::Rfc9260 },
                partial_bytes: if flag(5) { PartialBytes::WhileUsed } else { PartialBytes::All },
                cubic: if flag(7) { cubic::Version::Linux } else { cubic::Version::Rfc9438 },
                fast,
                hybla,
                adalr,
                bbr,
                auto: &auto::Constants::DEFAULT,
            }
        },
    )
}

fn tell(controller: &mut dyn Controller, now: Time, input: &Input) {
    match *input {
        Input::Sent { bytes, flight } => controller.on_sent(Sent { now, bytes, flight_before: flight }),
        Input::Ack { bytes, flight, mtu, rtt, flags } => controller.on_ack(Ack {
            now,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: flight,
            mtu,
            rtt: rtt.filter(|_| flags & 1 == 0),
            cross_path_age: None,
            srtt: rtt.filter(|_| flags & 2 == 0),
            cum_advanced: flags & 4 == 0,
            in_recovery: flags & 24 == 24,
            siblings: &[],
        }),
        Input::Lost { bytes, sent_before, flight, mtu } => {
            // Wrapping: some send times lie before time zero or in the future.
            let sent_at = Time::from_nanos(now.as_nanos().wrapping_sub(sent_before));
            controller.on_lost(Lost { now, bytes, sent_at, flight_bytes: flight, mtu });
        }
        Input::AppLimited(flight) => controller.on_app_limited(now, flight),
        Input::Congestion { cause, flight, mtu } => {
            controller.on_congestion(Congestion { cause, now, flight_bytes: flight, mtu });
        }
        Input::Spurious { flight, mtu } => {
            controller.on_spurious(Spurious { now, flight_bytes: flight, mtu });
        }
        Input::Recovered { flight, mtu } => {
            controller.on_recovered(Recovered { now, flight_bytes: flight, mtu });
        }
        Input::Idle { idle_for, rto, mtu, ssthresh_min } => {
            controller.on_idle(Idle { now, idle_for, rto, mtu, ssthresh_min });
        }
        Input::Mtu(mtu) => controller.on_mtu(mtu),
        Input::Limit(at_most) => controller.limit_window(at_most),
        Input::Again(window) => controller.restart_window(window),
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn no_window_is_ever_zero_or_overflows(
        options in options(),
        mtu in size(500..9_000),
        story in prop::collection::vec((time(), input()), 1..200),
    ) {
        for kind in Kind::ALL {
            let mut controller = kind.build_with(options, mtu);
            let mut now = Time::ZERO;
            for (step, input) in &story {
                // A step of half of the range or more is the clock going back.
                now = match *step > u64::MAX / 2 {
                    true => Time::from_nanos(step.wrapping_add(now.as_nanos())),
                    false => now + Duration::from_nanos(*step),
                };
                tell(&mut *controller, now, input);
                let window = controller.window();
                prop_assert!((1..=u32::MAX as usize).contains(&window), "{kind} after {input:?}: {window}");
                prop_assert!(controller.ssthresh() > 0, "{kind} after {input:?}");
                if let Some(rate) = controller.pacing_rate() {
                    prop_assert!(rate.bits_per_second() > 0, "{kind} after {input:?}");
                }
            }
        }
    }

    #[test]
    fn the_extension_never_exceeds_rho_windows_or_the_congestion_window(
        params in adalr(),
        told in prop::collection::vec((prop::option::of(duration()), prop::array::uniform5(size(0..200_000))), 1..100),
    ) {
        let mut extension = adalr::Extension::new(params);
        for (srtt, sizes) in told {
            let [acked, flight, cwnd, rwnd, mtu] = sizes.map(|size| size as u64);
            extension.on_ack(adalr::Opening { srtt, acked, flight, cwnd, rwnd, mtu });
            let most = u128::from(rwnd) * 31;
            prop_assert!(extension.bytes() <= cwnd.saturating_sub(rwnd) && u128::from(extension.bytes()) <= most);
        }
    }
}
