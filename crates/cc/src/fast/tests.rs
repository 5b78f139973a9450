//! Tests of FAST's rules; tests over a queue are in `tests/fast.rs`.

use super::*;
use crate::InitialWindow;

const MTU: usize = 1_000;
const BASE: Duration = Duration::from_millis(100);

fn options(params: Params) -> Options {
    Options { fast: params, growth: Growth::Always, ..Options::default() }
}

/// A controller with this window in packets, base RTT `BASE` and average RTT `average`.
fn fast(params: Params, packets: u64, average: Duration) -> Fast {
    let mut fast = Fast::new(options(params), MTU);
    fast.cwnd = packets * MTU as u64;
    fast.base = Some(BASE.as_nanos() as u64);
    fast.average = average.as_nanos() << AVERAGE_SHIFT;
    fast.round_began = Time::from_millis(1_000);
    fast.remember(Time::ZERO);
    fast
}

fn ack(at_ms: u64, rtt: Duration) -> Ack<'static> {
    Ack {
        now: Time::from_millis(at_ms),
        bytes: MTU,
        gap_bytes: 0,
        regained_bytes: 0,
        flight_before: 1 << 30,
        mtu: MTU,
        rtt: Some(rtt),
        cross_path_age: None,
        srtt: None,
        cum_advanced: true,
        in_recovery: false,
        siblings: &[],
    }
}

fn congestion(cause: Cause) -> Congestion {
    Congestion { cause, now: Time::from_millis(2_000), flight_bytes: 0, mtu: MTU }
}

/// The equation alone: every update, applied at once, without MI.
fn bare() -> Params {
    Params {
        alpha_packets: 10,
        mi_threshold: Duration::ZERO,
        update_period: Duration::ZERO,
        updates: Updates::EachRoundTrip,
        increases: Increases::AtOnce,
        ..Params::default()
    }
}

#[test]
fn the_equation_is_the_papers() {
    let average = BASE * 5 / 4;
    for (gamma_thousandths, window) in [(1_000, 100 * 4 / 5 + 10), (500, (100 + 100 * 4 / 5 + 10) / 2)] {
        let mut fast = fast(Params { gamma_thousandths, ..bare() }, 100, average);
        fast.on_ack(ack(1_000, average));
        assert_eq!(fast.window(), window * MTU);
    }
    // An empty queue and a large α: at most twice the window.
    let mut fast = fast(Params { alpha_packets: 1_000, ..bare() }, 100, BASE);
    fast.on_ack(ack(1_000, BASE));
    assert_eq!(fast.window(), 200 * MTU);
}

#[test]
fn with_alpha_packets_in_the_queue_the_window_is_stable() {
    // 50 packets in transit and α in the queue: RTT / baseRTT = 60 / 50.
    let average = BASE * 6 / 5;
    let mut fast = fast(bare(), 60, average);
    for at in 0..1_000 {
        fast.on_ack(ack(1_000 + at, average));
    }
    assert_eq!(fast.window().div_ceil(MTU), 60);
}

#[test]
fn between_alpha_and_beta_the_window_is_unchanged() {
    let average = BASE * 6 / 5;
    for (packets, moves) in [(40, true), (80, false), (110, false), (140, true)] {
        let mut fast = fast(Params { beta_packets: Some(20), ..bare() }, packets, average);
        fast.on_ack(ack(1_000, average));
        assert_eq!(fast.window() != packets as usize * MTU, moves, "{packets} packets");
    }
}

#[test]
fn w_old_is_the_window_one_round_trip_ago() {
    let average = BASE * 6 / 5;
    let mut fast = fast(Params { gamma_thousandths: 1_000, ..bare() }, 60, average);
    fast.cwnd = 90 * MTU as u64;
    fast.remember(Time::from_millis(950));
    // Sent at 880 ms, when the window was 60 packets; then at 960 ms, when it was 90.
    fast.on_ack(ack(1_000, average));
    assert_eq!(fast.window(), 60 * MTU);
    fast.on_ack(ack(1_080, average));
    assert_eq!(fast.window(), 85 * MTU);
}

#[test]
fn below_the_threshold_each_acknowledgement_adds_a_packet() {
    let params = Params { mi_threshold: Duration::from_micros(750), ..bare() };
    let mut fast = fast(params, 50, BASE);
    fast.on_ack(ack(1_000, BASE + Duration::from_millis(10)));
    assert_eq!(fast.window(), 51 * MTU, "one sample moves the average by 1/256");
    fast.average = (BASE + Duration::from_millis(1)).as_nanos() << AVERAGE_SHIFT;
    fast.on_ack(ack(1_000, BASE));
    assert!(fast.window() > 51 * MTU && fast.window() < 102 * MTU, "{}", fast.window());
}

#[test]
fn a_window_that_is_not_full_does_not_grow() {
    for (average, packets) in [(BASE, 50), (BASE * 2, 50)] {
        let mut fast = fast(Params { mi_threshold: Duration::from_micros(750), ..bare() }, packets, average);
        fast.params.alpha_packets = 100;
        fast.options.growth = Growth::WhenFull;
        fast.on_ack(Ack { flight_before: 2 * MTU, ..ack(1_000, average) });
        assert_eq!(fast.window(), packets as usize * MTU);
    }
}

#[test]
fn updates_wait_for_the_period_and_for_every_other_round_trip() {
    let average = BASE * 2;
    let period = Params { update_period: Duration::from_millis(10), alpha_packets: 1, ..bare() };
    let mut windows = Vec::new();
    let mut fast = fast(period, 100, average);
    for at in [1_005, 1_009, 1_010, 1_014, 1_015, 1_016] {
        fast.on_ack(ack(at, average));
        windows.push(fast.window() / MTU);
    }
    assert_eq!(windows[0], windows[2], "{windows:?}");
    assert!(windows[3] == windows[2] && windows[4] < windows[3] && windows[5] == windows[4], "{windows:?}");

    let mut fast =
        self::fast(Params { updates: Updates::EveryOther, alpha_packets: 1, ..bare() }, 100, average);
    let mut moved = Vec::new();
    for round in 0..6 {
        let before = fast.window();
        for part in 0..4 {
            fast.on_ack(ack(1_000 + round * 201 + part * 50, average));
        }
        moved.push(fast.window() < before);
    }
    assert_eq!(moved, [true, false, true, false, true, false]);
}

#[test]
fn an_increase_is_spread_over_acknowledgements() {
    let average = BASE * 3 / 2;
    let params = Params {
        alpha_packets: 200,
        increases: Increases::Spread,
        update_period: Duration::from_secs(5),
        ..bare()
    };
    let mut fast = fast(params, 100, average);
    fast.round_began = Time::from_millis(5_000);
    fast.acks_before = 12;
    let mut grown = Vec::new();
    for at in 0..20 {
        let before = fast.window();
        fast.on_ack(ack(5_000 + at, average));
        grown.push((fast.window() - before) / MTU);
    }
    // 400 acknowledgements in 5 s, and an increase of 83 packets: one for every fourth.
    assert_eq!(grown.iter().sum::<usize>(), 5, "{grown:?}");
    assert!(grown.iter().all(|packets| *packets <= 1));
}

#[test]
fn losses_halve_and_time_outs_leave_two_packets() {
    let mut fast = fast(Params::p4(), 100, BASE * 2);
    fast.on_congestion(congestion(Cause::Loss));
    assert_eq!((fast.window(), fast.ssthresh()), (50 * MTU, 50 * MTU));
    fast.on_ack(Ack { in_recovery: true, ..ack(2_100, BASE) });
    assert_eq!(fast.window(), 50 * MTU, "the window is constant in a recovery");
    // w_old of before the loss was halved too.
    assert_eq!(fast.history.at(Time::from_millis(1_900)), Some(50 * MTU as u64));
    fast.on_recovered(Recovered { now: Time::from_millis(2_200), flight_bytes: 9 * MTU, mtu: MTU });
    assert_eq!(fast.window(), 10 * MTU);
    fast.on_congestion(congestion(Cause::Timeout));
    assert_eq!(fast.window(), 2 * MTU);
}

#[test]
fn idle_time_restores_the_initial_window() {
    let params = Params::default();
    let mut fast = Fast {
        options: Options { initial_window: InitialWindow::Tcp, ..options(params) },
        ..fast(params, 100, BASE)
    };
    let rto = Duration::from_secs(1);
    let idle = |idle_for| Idle { now: Time::from_millis(5_000), idle_for, rto, mtu: MTU, ssthresh_min: 0 };
    fast.on_idle(idle(rto / 2));
    assert_eq!(fast.window(), 100 * MTU);
    fast.on_idle(idle(rto));
    assert_eq!(fast.window(), 4 * MTU);
}

#[test]
fn an_unconfirmed_base_is_measured_again() {
    let refresh = Some(Duration::from_secs(10));
    let (late, truth) = (BASE, BASE * 9 / 10);
    let mut fast = fast(Params { refresh, alpha_packets: 10, ..bare() }, 120, BASE * 6 / 5);
    fast.refresh.confirmed_at = Some(Time::from_millis(1_000));
    let mut at = 10_990;
    fast.on_ack(ack(at, BASE * 6 / 5));
    let full = fast.window();
    assert!(full > 100 * MTU);
    // Ten seconds without a confirming sample: the window falls to three quarters of the product.
    while at < 11_240 {
        at += 10;
        fast.on_ack(ack(at, BASE * 6 / 5));
        assert!(fast.window() < 80 * MTU, "{}", fast.window());
    }
    fast.on_ack(ack(at, truth));
    assert_eq!(fast.base_rtt(), Some(truth));
    // Then step by step back to the former value, where it stays until the average has settled.
    let mut before = fast.window();
    while fast.refresh.step != Step::No {
        at += 10;
        fast.on_ack(ack(at, BASE * 6 / 5));
        assert!(fast.window() <= before + MTU && fast.window() <= full);
        before = fast.window();
        assert!(at < 20_000);
    }
    assert_eq!(before, full);
    assert!(late > truth);
}

#[test]
fn a_source_joins_a_refresh_if_half_of_its_own_time_is_over() {
    for (at, joins) in [(5_900, false), (6_100, true)] {
        let params = Params { refresh: Some(Duration::from_secs(10)), ..bare() };
        let mut fast = fast(params, 120, BASE * 6 / 5);
        fast.refresh.confirmed_at = Some(Time::from_millis(1_000));
        fast.on_ack(ack(at, BASE * 6 / 5));
        assert_eq!(fast.refresh.step, Step::No, "the queue is unchanged");
        fast.on_ack(ack(at + 10, BASE * 23 / 20));
        assert_eq!(fast.refresh.step != Step::No, joins, "a quarter of the queue is gone");
    }
}

#[test]
fn a_longer_base_is_adopted_after_some_refreshes() {
    let params = Params { refresh: Some(Duration::from_secs(1)), ..bare() };
    let mut fast = fast(params, 100, BASE);
    let mut at = 1_000;
    while at < 120_000 {
        at += 10;
        fast.on_ack(ack(at, BASE * 2));
    }
    assert_eq!(fast.base_rtt(), Some(BASE * 2));
}

#[test]
fn impossible_samples_are_ignored() {
    let mut fast = fast(bare(), 100, BASE);
    for rtt in [Duration::ZERO, Duration::MAX, RTT_MAX + Duration::from_nanos(1)] {
        fast.on_ack(ack(1_000, rtt));
    }
    assert_eq!((fast.base_rtt(), fast.average_rtt()), (Some(BASE), Some(BASE)));
}

#[test]
fn the_error_for_a_value_out_of_range_names_the_range() {
    let said = |name: &str, value: &str| Params::default().set(name, value).unwrap_err().to_string();
    assert_eq!(
        said("alpha", "0"),
        "fast: alpha cannot be `0`: expected 1 to 1000000 packets, and no more than beta"
    );
    assert_eq!(said("beta", "99"), "fast: beta cannot be `99`: expected alpha to 1000000 packets");
    assert_eq!(said("gamma", "1.5"), "fast: gamma cannot be `1.5`: expected 0.001 to 1");
    assert_eq!(said("gamma", "NaN"), "fast: gamma cannot be `NaN`: expected 0.001 to 1");
    assert_eq!(said("refresh", "0.5s"), "fast: refresh cannot be `0.5s`: expected 1s to 600s, or off");
    assert_eq!(said("period", "10"), "fast: period cannot be `10`: expected 0ms to 10s");
    assert!(said("delta", "1").starts_with("fast has no parameter `delta`; there are alpha, beta,"));
    let mut params = Params::default();
    params.set("beta", "150").unwrap();
    assert!(params.set("alpha", "151").is_err());
}

#[test]
fn parameters_are_formatted_as_they_are_parsed() {
    assert_eq!(Params::default().to_string(), "as in the module");
    let mut params = Params::default();
    let text = "alpha=200,beta=300,gamma=0.8,mi-threshold=2.5ms,period=20ms,every=1,increases=at-once,average=paper,refresh=10000ms";
    for part in text.split(',') {
        let (name, value) = part.split_once('=').unwrap();
        params.set(name, value).unwrap();
    }
    assert_eq!(params.to_string(), text);
    params.set("refresh", "off").unwrap();
    assert_eq!(params.refresh, None);
}

#[test]
fn the_paths_of_an_association_divide_alpha_by_their_rates() {
    let mut fast = Fast::new(Options::default(), 1_000);
    let srtt = Some(Duration::from_millis(100));
    let mut share = |others: &[usize]| {
        let own = fast.window();
        let view =
            |times: &usize| crate::PathView { window: own * times, ssthresh: 0, srtt, between_losses: 0 };
        let siblings: Vec<_> = others.iter().map(view).collect();
        fast.on_ack(Ack {
            now: Time::ZERO,
            bytes: 0,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: 0,
            mtu: 1_000,
            rtt: None,
            cross_path_age: None,
            srtt,
            cum_advanced: true,
            in_recovery: false,
            siblings: &siblings,
        });
        fast.share_thousandths
    };
    assert_eq!([share(&[]), share(&[1]), share(&[2]), share(&[1, 2])], [1_000, 500, 333, 250]);
    assert_eq!(share(&[100]), 250, "at least half of an equal share");
}
