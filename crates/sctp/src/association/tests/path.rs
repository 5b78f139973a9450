//! Path selection (RFC 7829 §3.2 and §4.1), which does not change the paths.

use super::*;
use crate::config::{Config, MeasureEach, RetransmitTo};

/// Paths in these states, with so many errors each, all between different addresses.
fn paths(states: &[(PathState, u32)]) -> Vec<Path> {
    let address = |side: usize, index: usize| format!("10.0.{index}.{side}:9899").parse().unwrap();
    let path = |(index, &(state, errors)): (usize, &(PathState, u32))| {
        let route = Route { local: address(1, index), peer: address(2, index) };
        Path { errors, ..Path::new(route, state, &Config::default()) }
    };
    states.iter().enumerate().map(path).collect()
}

fn chosen(states: &[(PathState, u32)], purpose: Purpose) -> u8 {
    let paths = paths(states);
    let before = format!("{paths:?}");
    let id = choose(&paths, PathId(0), purpose);
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# In all cases, the sender MUST NOT change the state of the chosen
    //# destination address, whether this state be active or PF, and it MUST
    //# NOT clear the error counter
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# The sender MUST NOT change the state and the error counter of any
    //# destination addresses as the result of the selection.
    //= specs/rfc7829.txt#section-4.1
    //= type=test
    //# The sender MUST NOT change the state of the chosen destination
    //# address (it remains in inactive state) and MUST NOT clear the error
    //# counter of the destination address as a result of choosing
    assert_eq!(format!("{paths:?}"), before);
    id.0
}

use PathState::{Active, Inactive, PotentiallyFailed};

#[test]
fn an_active_path_is_preferred_to_a_potentially_failed_one() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# In this case, the sender SHOULD choose an alternate destination
    //# transport address in active state, if one exists.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# When there is outbound data to send and the SCTP user explicitly
    //# requests to send data to a destination address in PF state, the sender
    //# SHOULD send the data to an alternate destination address in active
    //# state if one exists.
    //= specs/rfc9260.txt#section-8.2
    //= type=test
    //# If more than one alternate address is active when the primary path is
    //# marked inactive, only ONE transport address SHOULD be chosen and used
    //# as the new destination transport address.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# An SCTP-PF sender SHOULD NOT send data to destination addresses in PF
    //# state when alternative destination addresses in active state are
    //# available.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# When there is outbound data to send and the destination address
    //# presently used for data transmission is in PF state, the sender SHOULD
    //# choose a destination address in active state, if one exists, and use
    //# this destination address for data transmission.
    let states = [(PotentiallyFailed, 1), (Inactive, 9), (Active, 0)];
    assert_eq!(chosen(&states, Purpose::New), 2);
    assert_eq!(chosen(&states, Purpose::Retransmission(Found::Missing(PathId(0)), RetransmitTo::ByCause)), 2);
    assert_eq!(chosen(&[(Active, 3), (Active, 0)], Purpose::New), 0, "the primary, as long as it is active");
}

#[test]
fn the_most_divergent_path_is_tried_next() {
    //= specs/rfc9260.txt#section-6.4.1
    //= type=test
    //# When retransmitting timed-out data, the endpoint SHOULD attempt to
    //# pick the most divergent source-destination pair from the original
    //# source-destination pair to which the packet was transmitted.
    let mut paths = paths(&[(Active, 1), (Active, 0), (Active, 0)]);
    paths[0].timeouts_unanswered = 1;
    // The second shares an address with the first, the third none.
    paths[1].local = paths[0].local;
    assert_eq!(
        choose(&paths, PathId(0), Purpose::Retransmission(Found::Missing(PathId(0)), RetransmitTo::ByCause)),
        PathId(2)
    );
    paths[2].peer = paths[0].peer;
    paths[1].peer = "10.9.9.9:1".parse().unwrap();
    assert_eq!(
        choose(&paths, PathId(0), Purpose::Retransmission(Found::Missing(PathId(0)), RetransmitTo::ByCause)),
        PathId(1),
        "alike: the first of them"
    );
}

#[test]
fn timed_out_data_uses_another_path_although_its_own_recovered() {
    //= specs/rfc9260.txt#section-6.4
    //= type=test
    //# Furthermore, when its peer is multi-homed, an endpoint SHOULD try to
    //# retransmit a chunk that timed out to an active destination transport
    //# address that is different from the last destination address to which
    //# the chunk was sent.
    let again =
        |found| chosen(&[(Active, 0), (Active, 0)], Purpose::Retransmission(found, RetransmitTo::ByCause));
    assert_eq!(again(Found::TimedOut(PathId(0))), 1);
    assert_eq!(again(Found::TimedOut(PathId(1))), 0);
    assert_eq!(again(Found::Missing(PathId(0))), 0);
    assert_eq!(again(Found::Missing(PathId(1))), 1);
}

#[test]
fn at_most_one_rtt_sample_is_taken_per_round_trip() {
    //= specs/rfc9260.txt#section-6.3.1
    //= type=test
    //# Furthermore, new RTT measurements SHOULD be made no more than once per
    //# round trip for a given destination transport address.
    let mut path = paths(&[(Active, 0)]).remove(0);
    let ms = Duration::from_millis;
    path.measure(Time::from_millis(1_000), ms(100));
    path.measure(Time::from_millis(1_099), ms(500));
    assert_eq!(path.rtt.srtt(), Some(ms(100)));
    path.measure(Time::from_millis(1_100), ms(500));
    assert_eq!(path.rtt.srtt(), Some(ms(150)));
    path.measure_each = MeasureEach::RoundTrip;
    path.measure(Time::from_millis(1_599), ms(500));
    assert_eq!(path.rtt.srtt(), Some(ms(150)), "it left before the last one was made");
    path.measure(Time::from_millis(1_600), ms(500));
    assert_eq!(path.rtt.srtt(), Some(ms(150) - ms(150) / 8 + ms(500) / 8));
}

#[test]
fn a_drained_queue_of_seconds_soon_has_no_effect() {
    let mut path = paths(&[(Active, 0)]).remove(0);
    let ms = Duration::from_millis;
    path.measure(Time::from_millis(1_000), ms(2_000));
    for passed in 1..=4_000 {
        path.measure(Time::from_millis(1_000 + passed), ms(100));
    }
    let srtt = path.rtt.srtt().unwrap();
    assert!((ms(200)..ms(300)).contains(&srtt), "{srtt:?}: once in 200 ms, and each an eighth");
}

#[test]
fn among_potentially_failed_paths_the_one_with_the_fewest_errors_is_used() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# The sender SHOULD choose the destination in PF state with the lowest
    //# error count (fewest consecutive timeouts) for data transmission and
    //# transmit or retransmit data to this destination.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# When the destination addresses are all in PF state, or some are in PF
    //# state and some in inactive state, the sender MUST choose one
    //# destination address in PF state
    let states = [(PotentiallyFailed, 3), (Inactive, 0), (PotentiallyFailed, 2), (PotentiallyFailed, 2)];
    assert_eq!(chosen(&states, Purpose::New), 2);
    assert_eq!(chosen(&states, Purpose::Retransmission(Found::Missing(PathId(2)), RetransmitTo::ByCause)), 2);
}

#[test]
fn if_all_paths_failed_one_of_them_is_used() {
    //= specs/rfc7829.txt#section-4
    //= type=test
    //# With the design goal that SCTP-PF shall provide the same level of
    //# disruption tolerance as a standard SCTP implementation with the same
    //# PMR and AMR setting, we prescribe that an SCTP-PF implementation
    //# SHOULD operate as described in Section 4.1 during dormant state.
    //= specs/rfc7829.txt#section-4.1
    //= type=test
    //# The sender SHOULD choose the destination in inactive state with the
    //# lowest error count (fewest consecutive timeouts) for data
    //# transmission.
    //= specs/rfc7829.txt#section-4.1
    //= type=test
    //# When the destination addresses are all in inactive state and data is
    //# available for transfer, the sender MUST choose one destination and
    //# transmit data to this destination address.
    //= specs/rfc7829.txt#section-4
    //= type=test
    //# The prescription below for SCTP-PF dormant state handling MUST NOT be
    //# coupled to the value of the PFMR
    assert_eq!(Config::default().failover.potentially_failed_max_retrans, None);
    assert_eq!(chosen(&[(Inactive, 7), (Inactive, 6), (Inactive, 6)], Purpose::New), 1);
    assert_eq!(chosen(&[(Inactive, 6), (Inactive, 6)], Purpose::New), 0);
}

#[test]
fn shutdown_is_retransmitted_on_each_path_in_turn_active_ones_first() {
    let closing = |states: &[(PathState, u32)]| [0, 1, 2, 3].map(|nth| chosen(states, Purpose::Closing(nth)));
    assert_eq!(closing(&[(Active, 0), (Active, 0), (Active, 0)]), [0, 1, 2, 0]);
    assert_eq!(closing(&[(Inactive, 6), (Active, 0), (Active, 0)]), [1, 2, 0, 1]);
    assert_eq!(closing(&[(Active, 0), (Inactive, 6), (PotentiallyFailed, 1)]), [0, 2, 1, 0]);
    assert_eq!(closing(&[(Inactive, 6), (PotentiallyFailed, 1)]), [1, 0, 1, 0]);
    assert_eq!(closing(&[(Active, 0), (PathState::Unconfirmed, 0)]), [0; 4]);
}
