//! Potentially failed paths: how a path enters this state, is probed, and leaves it (RFC 7829 §3.2).

use super::multihoming::{addresses, confirmed, cut, paths, states};
use super::*;
use crate::config::Multipath;
use crate::ids::PathId;
use crate::stats::PathState;

/// The first path is cut and potentially failed, and the chunks lost there were retransmitted on the second.
fn t3_unanswered(config: Config) -> Pair {
    let mut pair = confirmed(config);
    cut(&mut pair, 0);
    pair.send(Client, 0, "by the other");
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 1));
    pair.run(Duration::from_millis(100));
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# SHOULD NOT move a destination address in PF state back to active
    //# state, since a sender cannot disambiguate whether the ACK was for the
    //# original transmission or the retransmission(s).
    assert_eq!(states(&mut pair, Client), [PathState::PotentiallyFailed, PathState::Active]);
    pair.clear_log();
    pair
}

/// When the client sent HEARTBEATs by the first path.
fn heartbeats(pair: &Pair) -> Vec<Time> {
    let first = addresses()[0][0];
    let sent = pair.log.iter().zip(&pair.routes).filter(|((_, side, packet), route)| {
        *side == Client && route.0 == first && has(packet, Chunk::HEARTBEAT)
    });
    sent.map(|((at, _, _), _)| *at).collect()
}

#[test]
fn a_potentially_failed_path_gets_a_heartbeat_every_rto_if_heartbeats_are_enabled() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# The HB.Interval of the Path Heartbeat function of [RFC4960] MUST be
    //# ignored for destination addresses in PF state.
    let mut pair = t3_unanswered(modern());
    pair.run(Duration::from_secs(2));
    let beats_sent = heartbeats(&pair);
    assert!(beats_sent.len() >= 2, "{beats_sent:?}");
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# if the Path Heartbeat function is disabled for the destination
    //# address in question, HEARTBEATs MUST NOT be sent.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# the sending of HEARTBEATs MUST honor whether or not the Path
    //# Heartbeat function (Section 8.3 of [RFC4960]) is enabled for the
    //# destination address.
    let mut pair = t3_unanswered(modern().with(|c| c.timers.heartbeat_interval = None));
    pair.run(Duration::from_secs(100));
    assert_eq!(heartbeats(&pair), []);
    assert_eq!(states(&mut pair, Client)[0], PathState::PotentiallyFailed);
}

#[test]
fn heartbeats_count_until_the_path_is_inactive_and_an_answer_clears_the_count() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# As described in [RFC4960], the sender SHOULD (i) notify the Upper
    //# Layer Protocol (ULP) about this state transition,
    //= specs/rfc9260.txt#section-8.1
    //= type=test
    //# Unacknowledged HEARTBEAT chunks observed on paths different from the
    //# path currently used for data transfer SHOULD NOT increment the
    //# association error counter,
    //= specs/rfc9260.txt#section-8.2
    //= type=test
    //# When its peer endpoint is multi-homed, an endpoint SHOULD keep an
    //# error counter for each of the destination transport addresses of the
    //# peer endpoint.
    //= specs/rfc9260.txt#section-8.2
    //= type=test
    //# When the value in the error counter exceeds the protocol parameter
    //# 'Path.Max.Retrans' of that destination address, the endpoint SHOULD
    //# mark the destination transport address as inactive, and a notification
    //# SHOULD be sent to the upper layer.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# When the value of this counter exceeds the protocol parameter
    //# 'Path.Max.Retrans', the endpoint SHOULD mark the corresponding
    //# destination address as inactive if it is not so marked and SHOULD also
    //# report to the upper layer the change in reachability of this
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# After this, the endpoint SHOULD continue sending HEARTBEAT chunks on
    //# this destination address but SHOULD stop increasing the counter.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# Whenever a HEARTBEAT ACK chunk arrives, the sender SHOULD clear the
    //# error counter of the destination that the HEARTBEAT chunk was sent to.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# Upon the receipt of the HEARTBEAT ACK chunk, the sender of the
    //# HEARTBEAT chunk SHOULD clear the error counter of the destination
    //# transport address to which the HEARTBEAT chunk was sent and mark the
    //# destination transport address as active if it is not so marked.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# The endpoint SHOULD report to the upper layer when an inactive
    //# destination address is marked as active due to the reception of the
    //# latest HEARTBEAT ACK chunk.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# The receiver of the HEARTBEAT ACK chunk SHOULD also perform an RTT
    //# measurement for that destination transport address using the time
    //# value carried in the HEARTBEAT ACK chunk.
    let mut pair = confirmed(rfc());
    cut(&mut pair, 1);
    let errors = |pair: &mut Pair| {
        let association = pair.association(Client);
        (association.paths[1].errors, association.state.up().unwrap().errors)
    };
    assert!(pair.run_until(|pair| states(pair, Client)[1] == PathState::Inactive));
    assert_eq!(errors(&mut pair), (6, 0), "one more than Path.Max.Retrans; data does not go by this path");
    assert_eq!(pair.events(Client).last(), Some(&Event::Path(PathId(1), PathState::Inactive)));
    pair.clear_log();
    pair.run(Duration::from_secs(600));
    assert_eq!(errors(&mut pair), (6, 0));
    let by_second = |pair: &Pair| {
        let sent = pair.log.iter().zip(&pair.routes);
        sent.filter(|((_, side, _), route)| *side == Client && route.0 == addresses()[0][1]).count()
    };
    assert!((5..=20).contains(&by_second(&pair)), "it is asked after all the same: {}", by_second(&pair));
    pair.cut.clear();
    pair.latency = Duration::from_millis(200);
    assert!(pair.run_until(|pair| states(pair, Client)[1] == PathState::Active));
    assert_eq!(errors(&mut pair), (0, 0));
    assert_eq!(pair.events(Client).last(), Some(&Event::Path(PathId(1), PathState::Active)));
    assert!(
        paths(&mut pair, Client)[1].srtt.unwrap() > Duration::from_millis(90),
        "and the answer was measured"
    );
}

#[test]
fn unanswered_heartbeats_on_the_data_path_count_for_the_association_until_one_is_acknowledged() {
    //= specs/rfc9260.txt#section-8.1
    //= type=test
    //# When a HEARTBEAT ACK chunk is received from the peer endpoint, the
    //# counter SHOULD also be reset.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# The endpoint SHOULD increment the respective error counter of the
    //# destination transport address each time a HEARTBEAT chunk is sent to
    //# that address and not acknowledged within one RTO.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# The receiver of the HEARTBEAT ACK chunk SHOULD also clear the
    //# association overall error count (as defined in Section 8.1).
    let mut pair = Pair::up(rfc());
    let mut lost = 0;
    pair.drop = Some(Box::new(move |_, _, packet| {
        let answer = has(packet, Chunk::HEARTBEAT_ACK) && lost < 4;
        lost += u32::from(answer);
        answer
    }));
    let errors = |pair: &mut Pair| pair.association(Client).state.up().unwrap().errors;
    assert!(pair.run_until(|pair| errors(pair) == 2));
    assert!(pair.run_until(|pair| errors(pair) == 0));
    assert_eq!(pair.association(Client).paths[0].errors, 0);
}

#[test]
fn rto_backs_off_separately_for_each_path() {
    //= specs/rfc9260.txt#section-6.3.3
    //= type=test
    //# The RTO to be used for starting T3-rtx SHOULD be the one for the
    //# destination address to which the retransmission is sent, which, when
    //# the receiver is multi-homed, might be different from the destination
    //# address for which the timer expired (see Section 6.4 below).
    let mut pair = confirmed(rfc().with(|c| c.timers.heartbeat_interval = None));
    cut(&mut pair, 0);
    cut(&mut pair, 1);
    let start = pair.now;
    pair.send(Client, 0, "anybody there?");
    pair.run(Duration::from_secs(29));
    let sent: Vec<_> =
        pair.log.iter().zip(&pair.routes).filter(|((_, side, _), _)| *side == Client).collect();
    let times: Vec<_> = sent.iter().map(|((at, _, _), _)| at.since(start).as_secs()).collect();
    assert_eq!(times, [0, 1, 2, 4, 6, 10, 14, 22], "twice after 1 s, twice after 2 s, ...");
    let first: Vec<_> = sent.iter().map(|(_, route)| route.0 == addresses()[0][0]).collect();
    assert_eq!(first, [true, false, true, false, true, false, true, false]);
}

#[test]
fn a_missing_chunk_is_retransmitted_on_its_path_and_only_that_window_is_reduced() {
    //= specs/rfc9260.txt#section-6.4
    //= type=test
    //# When its peer is multi-homed, an endpoint SHOULD send fast
    //# retransmissions to the same destination transport address to which the
    //# original data was sent.
    //= specs/rfc9260.txt#section-7.2.1
    //= type=test
    //# In instances where its peer endpoint is multi-homed, if an endpoint
    //# receives a SACK chunk that results in updating the cwnd, then it
    //# SHOULD update its cwnd (or cwnds) apportioned to the destination
    //# addresses to which it transmitted the acknowledged data.
    let mut pair = confirmed(rfc());
    let mut missing = true;
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client && has(packet, 0) && std::mem::replace(&mut missing, false)
    }));
    let before = paths(&mut pair, Client);
    pair.send(Client, 0, pattern(60_000));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
    let after = paths(&mut pair, Client);
    assert_eq!((after[0].fast_retransmits, after[0].timeouts), (1, 0));
    assert_eq!(after[1].cwnd, before[1].cwnd);
    assert_ne!(after[0].cwnd, before[0].cwnd);
    let data =
        pair.log.iter().zip(&pair.routes).filter(|((_, side, packet), _)| *side == Client && has(packet, 0));
    assert!(data.map(|(_, route)| route.0).all(|from| from == addresses()[0][0]));
}

#[test]
fn one_heartbeat_an_rto_confirms_many_paths() {
    //= specs/rfc9260.txt#section-5.4
    //= type=test
    //# The number of packets containing HEARTBEAT chunks sent at each RTO
    //# SHOULD be limited by the 'HB.Max.Burst' parameter.
    //= specs/rfc9260.txt#section-8.3
    //= type=test
    //# Only one heartbeat SHOULD be sent each time the heartbeat timer
    //# expires (if multiple destinations are idle).
    let many = |side: u8| (0..4).map(|net| format!("10.0.{net}.{side}:9001").parse().unwrap()).collect();
    let mut pair = Pair::between([many(1), many(2)], rfc(), rfc());
    pair.run(Duration::from_secs(5));
    assert_eq!(states(&mut pair, Client), [PathState::Active; 4]);
    let heartbeats =
        pair.log.iter().filter(|(_, side, packet)| *side == Client && has(packet, Chunk::HEARTBEAT));
    let times: Vec<_> = heartbeats.map(|(at, _, _)| *at).collect();
    assert_eq!(times.len(), 3);
    assert!(times.windows(2).all(|two| two[1].since(two[0]) >= Duration::from_secs(1)), "{times:?}");
}

#[test]
fn a_heartbeat_ack_makes_a_path_active_with_a_small_window() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# When the sender receives a HEARTBEAT ACK from a HEARTBEAT sent to a
    //# destination address in PF state, the sender SHOULD clear the error
    //# counter of the destination address and transition the destination
    //# address back to active state.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# When the sender resumes data transmission on a destination address
    //# after a transition of the destination address from PF to active
    //# state, it MUST do this following the prescriptions of Section 7.2 of
    //# [RFC4960].
    let mut pair = t3_unanswered(modern());
    pair.cut.clear();
    assert!(pair.run_until(|pair| states(pair, Client)[0] == PathState::Active));
    assert_eq!(pair.association(Client).paths[0].errors, 0);
    assert_eq!(paths(&mut pair, Client)[0].cwnd, 1_440, "as the time-out left it");
    pair.clear_log();
    pair.send(Client, 0, pattern(20_000));
    pair.drain(Client);
    let first = addresses()[0][0];
    assert!(pair.routes.iter().all(|route| route.0 == first), "the primary path again");
    assert!(pair.data(Client).len() <= 2, "{}", pair.data(Client).len());
}

#[test]
fn acknowledged_data_makes_a_path_active() {
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# The SCTP stack SHOULD expose the PF state of its destination addresses
    //# to the ULP as well as provide the means to notify the ULP of state
    //# transitions of its destination addresses from active to PF, and vice
    //# versa.
    //= specs/rfc7829.txt#section-3.2
    //= type=test
    //# Acknowledgments for data chunks that have been transmitted to one
    //# destination address only MUST clear the error counter for the
    //# destination address and MUST transition a destination address in PF
    //# state back to active state.
    let mut pair = t3_unanswered(modern().with(|c| c.timers.heartbeat_interval = None));
    cut(&mut pair, 1);
    pair.send(Client, 0, "by neither");
    assert!(pair.run_until(|pair| states(pair, Client) == [PathState::PotentiallyFailed; 2]));
    pair.cut.clear();
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 2));
    pair.run(Duration::from_millis(100));
    assert_eq!(states(&mut pair, Client), [PathState::PotentiallyFailed; 2], "it left by both");
    pair.send(Client, 0, "by one of them");
    pair.run(Duration::from_millis(200));
    let active: Vec<_> =
        (0..2).filter(|path| states(&mut pair, Client)[*path] == PathState::Active).collect();
    assert_eq!(active.len(), 1);
    assert_eq!(pair.association(Client).paths[active[0]].errors, 0);
    assert!(pair.events(Client).contains(&Event::Path(PathId(active[0] as u8), PathState::Active)));
}

#[test]
fn a_path_that_lost_only_heartbeats_keeps_its_initial_window_and_one_that_lost_data_gets_two_packets() {
    //= specs/rfc9260.txt#section-7.2.1
    //= type=test
    //# The initial cwnd before data transmission MUST be set to min(4 *
    //# PMDCS, max(2 * PMDCS, 4404)) bytes if the peer address is an IPv4
    //# address
    let config = rfc().with(|c| {
        c.paths.multipath = Some(Multipath::plain());
        c.failover.potentially_failed_max_retrans = Some(0);
    });
    let mut pair = confirmed(config);
    let initial = paths(&mut pair, Client)[0].cwnd;
    let fail = |pair: &mut Pair| {
        assert!(pair.run_until(|pair| states(pair, Client)[0] == PathState::PotentiallyFailed));
        pair.cut.clear();
        assert!(pair.run_until(|pair| states(pair, Client)[0] == PathState::Active));
    };
    cut(&mut pair, 0);
    pair.association(Client).demand_heartbeat(PathId(0)).unwrap();
    fail(&mut pair);
    assert_eq!(paths(&mut pair, Client)[0].cwnd, initial);
    cut(&mut pair, 0);
    for _ in 0..20 {
        pair.send(Client, 0, vec![0; 1_000]);
    }
    fail(&mut pair);
    let mtu = pair.association(Client).paths[0].pmdcs();
    assert_eq!((paths(&mut pair, Client)[0].cwnd, initial > 2 * mtu), (2 * mtu, true));
}
