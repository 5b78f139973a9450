//! The state machine of RFC 8899 §5.2 against a path with a fixed MTU.

use braidftp_base::Time;
use proptest::prelude::*;

use super::*;

/// When a packet was sent.
const LEFT: Time = Time::from_millis(1_000);
/// When the packets of the next burst were sent.
const LATER: Time = Time::from_millis(1_100);

fn settings() -> MtuDiscovery {
    MtuDiscovery { max: 8_952, ..MtuDiscovery::default() }
}

fn pmtu(start: usize) -> Pmtu {
    Pmtu::new(&settings(), start, Family::V4)
}

/// Acknowledges or times out each due probe; returns the probed sizes.
fn run(pmtu: &mut Pmtu, carries: usize) -> Vec<usize> {
    let mut probed = Vec::new();
    while let Some(size) = pmtu.due() {
        probed.push(size);
        assert!(probed.len() < 100, "it comes to an end: {probed:?}");
        pmtu.on_sent(probed.len() as u64);
        assert_eq!((pmtu.due(), pmtu.wait_for()), (None, WaitFor::Answer), "one at a time");
        if size <= carries {
            assert!(pmtu.on_answer(probed.len() as u64));
        } else {
            pmtu.on_timeout();
        }
    }
    probed
}

//= specs/rfc8899.txt#section-3
//= type=test
//# When the transmission of probe packets is not controlled by the
//# congestion controller, the interval between probe packets MUST be at
//# least one RTT.
//= specs/rfc8899.txt#section-8
//= type=test
//# To avoid excessive load, the interval between individual probe packets
//# MUST be at least one RTT, and the interval between rounds of probing is
//# determined by the PMTU_RAISE_TIMER.
//= specs/rfc8899.txt#section-5.3.2
//= type=test
//# Implementations SHOULD select the set of probe packet sizes to
//# maximize the gain in PLPMTU from each search step.
#[test]
fn the_search_goes_up_until_three_probes_of_a_size_are_lost() {
    let mut pmtu = pmtu(1_200);
    pmtu.on_connected();
    let probed = run(&mut pmtu, 1_464);
    assert_eq!(probed, [1_252, 1_352, 1_372, 1_392, 1_412, 1_432, 1_452, 1_464, 1_472, 1_472, 1_472]);
    assert_eq!((pmtu.size(), pmtu.phase()), (1_464, Phase::SearchComplete));
    assert_eq!(pmtu.wait_for(), WaitFor::Raise(settings().raise_after));
    pmtu.on_timeout();
    assert_eq!(run(&mut pmtu, 9_000), [1_472, 4_324, 8_952], "after a while it tries again");
    assert_eq!((pmtu.size(), pmtu.phase(), pmtu.wait_for()), (8_952, Phase::SearchComplete, WaitFor::None));
}

#[test]
fn a_path_that_starts_at_the_maximum_is_not_probed() {
    let mut pmtu = pmtu(8_952);
    pmtu.on_connected();
    assert_eq!((pmtu.due(), pmtu.wait_for()), (None, WaitFor::None));
}

//= specs/rfc8899.txt#section-5.1.2
//= type=test
//# When using IPv4, there is no currently equivalent size specified, and
//# a default BASE_PLPMTU of 1200 bytes is RECOMMENDED.
#[test]
fn lost_large_packets_reduce_the_size_to_the_base_and_the_search_restarts() {
    let mut pmtu = pmtu(1_452);
    pmtu.on_connected();
    run(&mut pmtu, 1_452);
    let sooner = Time::from_millis(999);
    pmtu.on_large_lost(1_100, LEFT);
    pmtu.on_large_lost(1_100, LEFT);
    assert_eq!(pmtu.size(), 1_452, "small ones prove nothing");
    pmtu.on_large_lost(1_452, LEFT);
    pmtu.on_large_arrived(1_452, sooner);
    pmtu.on_large_lost(1_452, LEFT);
    assert_eq!(pmtu.size(), 1_452, "one arrived in between");
    (0..5).for_each(|_| pmtu.on_large_lost(1_452, sooner));
    assert_eq!(pmtu.size(), 1_452, "one that left later has arrived");
    (0..5).for_each(|_| pmtu.on_large_lost(1_452, LEFT));
    assert_eq!(pmtu.size(), 1_452, "packets of one burst count once");
    pmtu.on_large_lost(1_452, LATER);
    assert_eq!((pmtu.size(), pmtu.phase()), (1_200, Phase::Base));
    assert_eq!(run(&mut pmtu, 1_372), [1_200, 1_252, 1_352, 1_372, 1_392, 1_392, 1_392]);
    assert_eq!(pmtu.size(), 1_372);
}

#[test]
fn a_path_below_the_base_gets_the_least() {
    let mut pmtu = pmtu(1_200);
    pmtu.on_connected();
    run(&mut pmtu, 1_200);
    pmtu.on_large_lost(1_200, LEFT);
    pmtu.on_large_lost(1_200, LATER);
    assert_eq!((pmtu.size(), pmtu.phase()), (512, Phase::Error));
    run(&mut pmtu, 512);
    assert_eq!((pmtu.size(), pmtu.phase()), (512, Phase::SearchComplete));
    // A path that carries nothing is not probed any more until a packet arrives on it.
    let mut pmtu = self::pmtu(1_452);
    pmtu.on_connected();
    [LEFT, LATER].iter().for_each(|at| pmtu.on_large_lost(1_452, *at));
    run(&mut pmtu, 0);
    assert_eq!((pmtu.size(), pmtu.phase(), pmtu.wait_for()), (512, Phase::Disabled, WaitFor::None));
    pmtu.on_connected();
    assert_eq!((pmtu.phase(), pmtu.due()), (Phase::Base, Some(1_200)));
}

#[test]
fn a_path_between_the_least_and_the_base_gets_within_32_bytes_of_what_it_carries() {
    for carries in (512..1_200).step_by(4) {
        let mut pmtu = pmtu(1_452);
        pmtu.on_connected();
        [LEFT, LATER].iter().for_each(|at| pmtu.on_large_lost(1_452, *at));
        let probed = run(&mut pmtu, carries);
        assert!(pmtu.size() <= carries && carries - pmtu.size() < 32, "{carries}: {}", pmtu.size());
        assert_eq!(pmtu.phase(), Phase::SearchComplete, "{carries}");
        assert!(probed.len() <= 25, "{carries}: {probed:?}");
        pmtu.on_timeout();
        run(&mut pmtu, 9_000);
        assert_eq!(pmtu.size(), 8_952, "{carries}: after a while it tries again");
    }
}

#[test]
fn a_report_below_the_base_is_probed_first_and_a_false_one_limits_nothing() {
    let told = |carries: usize| {
        let mut pmtu = pmtu(1_452);
        pmtu.on_connected();
        pmtu.on_sent(1);
        pmtu.on_too_big(972);
        (run(&mut pmtu, carries), pmtu.size())
    };
    let (probed, size) = told(972);
    assert_eq!((&probed[..5], size), (&[512, 972, 1_200, 1_200, 1_200][..], 972));
    assert_eq!(told(9_000).1, 8_952);
    assert!((940..972).contains(&told(971).1));
}

#[test]
fn over_ipv6_nothing_is_below_1280() {
    let mut pmtu = Pmtu::new(&settings(), 1_452, Family::V6);
    pmtu.on_connected();
    run(&mut pmtu, 1_452);
    [LEFT, LATER].iter().for_each(|at| pmtu.on_large_lost(1_452, *at));
    assert_eq!(pmtu.size(), 1_232);
}

//= specs/rfc8899.txt#section-4.1
//= type=test
//# Probe messages sent by a PL MUST contain enough information to uniquely
//# identify the probe within the Maximum Segment Lifetime (e.g., including
//# a unique identifier from the PL or the DPLPMTUD implementation), while
//# being robust to reordering and replay of probe response and PTB
//# messages.
//= specs/rfc8899.txt#section-3
//= type=test
//# Datagram delay and duplication: The feedback mechanism is REQUIRED to be
//# robust to the possibility that packets could be significantly delayed or
//# duplicated along a network path.
#[test]
fn a_heartbeat_ack_without_a_probe_changes_nothing() {
    let mut pmtu = pmtu(1_452);
    pmtu.on_connected();
    pmtu.on_sent(7);
    assert!(!pmtu.on_answer(8));
    assert!(pmtu.on_answer(7) && !pmtu.on_answer(7));
    assert_eq!(pmtu.size(), 1_464);
}

//= specs/rfc8899.txt#section-3
//= type=test
//# A
//# PTB message MUST NOT be used to increase the PLPMTU [RFC8201] but
//# could trigger a probe to test for a larger PLPMTU.
//= specs/rfc8899.txt#section-4.6.2
//= type=test
//# PTB messages that have been validated MAY be utilized by the DPLPMTUD
//# algorithm but MUST NOT be used directly to set the PLPMTU.
//= specs/rfc8899.txt#section-4.6.2
//= type=test
//# The PLPMTU SHOULD
//# be set to BASE_PLPMTU (the PLPMTU is reduced to the BASE_PLPMTU
//# to avoid unnecessary packet loss when a black hole is
//# encountered).
//= specs/rfc8899.txt#section-3
//= type=test
//# A PL_PTB_SIZE that is greater than that currently probed SHOULD be
//# ignored.
//= specs/rfc8899.txt#section-6.2.1.4
//= type=test
//# When a PTB message has been validated, the PL_PTB_SIZE calculated from
//# the PTB_SIZE reported in the PTB message SHOULD be used with the
//# DPLPMTUD algorithm, provided that the reported PL_PTB_SIZE is less
//# than the current probe size (see Section 4.6).
//= specs/rfc8899.txt#section-6.2.2.4
//= type=test
//# When the validation is completed, the PL_PTB_SIZE calculated from the
//# PTB_SIZE in the PTB message SHOULD be used with the DPLPMTUD providing
//# that the reported PL_PTB_SIZE is less than the current probe size.
#[test]
fn a_reported_mtu_is_probed_and_never_trusted() {
    let searching = || {
        let mut pmtu = pmtu(1_452);
        pmtu.on_connected();
        pmtu.on_sent(1);
        pmtu
    };
    let after = |size: usize| {
        let mut pmtu = searching();
        pmtu.on_too_big(size);
        (pmtu.size(), pmtu.phase(), pmtu.due())
    };
    for ignored in [0, 68, 511, 1_472, 1_476, 9_000, usize::MAX] {
        assert_eq!(after(ignored), (1_452, Phase::Searching, None), "{ignored}");
    }
    assert_eq!(after(600), (512, Phase::Error, Some(512)));
    assert_eq!(after(1_199), (512, Phase::Error, Some(512)));
    assert_eq!(after(1_380), (1_200, Phase::Searching, Some(1_380)));
    assert_eq!(after(1_452), (1_452, Phase::SearchComplete, None));
    assert_eq!(after(1_460), (1_452, Phase::Searching, Some(1_460)));
}

#[derive(Debug, Clone)]
enum Told {
    Connected,
    Leave,
    Answer,
    Timeout,
    Suspect(usize),
    Vindicate(usize),
    TooBig(usize),
}

fn told() -> impl Strategy<Value = Told> {
    prop_oneof![
        Just(Told::Connected),
        Just(Told::Leave),
        Just(Told::Answer),
        Just(Told::Timeout),
        (0..10_000_usize).prop_map(Told::Suspect),
        (0..10_000_usize).prop_map(Told::Vindicate),
        (0..10_000_usize).prop_map(Told::TooBig),
    ]
}

proptest! {
    #[test]
    fn sizes_stay_within_bounds_for_all_inputs(
        start in (128..2_238_usize).prop_map(|words| words * 4),
        all in prop::collection::vec(told(), 0..200),
    ) {
        let mut pmtu = pmtu(start);
        for (nth, told) in all.into_iter().enumerate() {
            let at = Time::from_millis(1_000 + nth as u64 / 2);
            let before = pmtu.size();
            match &told {
                Told::Connected => pmtu.on_connected(),
                Told::Leave if pmtu.due().is_some() => pmtu.on_sent(9),
                Told::Answer => { pmtu.on_answer(9); },
                Told::Timeout => pmtu.on_timeout(),
                Told::Suspect(size) => pmtu.on_large_lost(*size, at),
                Told::Vindicate(size) => pmtu.on_large_arrived(*size, at),
                Told::TooBig(size) => pmtu.on_too_big(*size),
                Told::Leave => {}
            }
            prop_assert!(pmtu.size() >= 512 && pmtu.size() <= 8_952 && pmtu.size().is_multiple_of(4));
            prop_assert!(pmtu.due().is_none_or(|size| (512..=8_952).contains(&size) && size.is_multiple_of(4)));
            prop_assert!(pmtu.due().is_none() || pmtu.wait_for() != WaitFor::Answer, "one at a time");
            prop_assert!(pmtu.size() <= before || matches!(told, Told::Answer), "only an answer raises it");
        }
    }
}
