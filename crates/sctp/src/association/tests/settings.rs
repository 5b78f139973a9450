//! Settings that a user changes on an existing association, and notifications about messages and errors.

use super::*;
use crate::association::{NoSuchPath, PathParams, SackTiming};
use crate::ids::PathId;
use crate::wire::Cause;

const PATH: PathId = PathId(0);

fn set_heartbeats(pair: &mut Pair, interval: Option<Duration>) {
    let params = pair.association(Client).path_params(PATH).unwrap();
    let params = PathParams { heartbeat_interval: interval, ..params };
    pair.association(Client).set_path_params(PATH, params).unwrap();
}

fn heartbeats(pair: &Pair, side: Side) -> usize {
    pair.packets(side).iter().flatten().filter(|chunk| matches!(chunk, Chunk::Heartbeat(_))).count()
}

#[test]
fn heartbeats_can_be_switched_off_and_on_while_it_lives() {
    let mut pair = Pair::up(rfc());
    set_heartbeats(&mut pair, None);
    pair.run(Duration::from_secs(120));
    assert_eq!(heartbeats(&pair, Client), 0);
    assert!(heartbeats(&pair, Server) > 0, "those of the other side go on");
    set_heartbeats(&mut pair, Some(Duration::from_secs(2)));
    pair.run(Duration::from_millis(2_400));
    assert_eq!(heartbeats(&pair, Client), 0, "first the interval");
    pair.run(Duration::from_millis(1_200));
    assert_eq!(heartbeats(&pair, Client), 1);
}

#[test]
fn a_heartbeat_can_be_demanded() {
    let mut pair = Pair::up(rfc());
    set_heartbeats(&mut pair, None);
    pair.association(Client).demand_heartbeat(PATH).unwrap();
    pair.association(Client).demand_heartbeat(PATH).unwrap();
    pair.run(Duration::from_millis(100));
    assert_eq!(heartbeats(&pair, Client), 1, "one at a time");
    pair.run(Duration::from_secs(60));
    assert_eq!(heartbeats(&pair, Client), 1);
    let nowhere = PathId(1);
    let association = pair.association(Client);
    assert_eq!(association.demand_heartbeat(nowhere), Err(NoSuchPath));
    assert_eq!(association.path_params(nowhere), Err(NoSuchPath));
    let params = association.path_params(PATH).unwrap();
    assert_eq!(association.set_path_params(nowhere, params), Err(NoSuchPath));
}

#[test]
fn a_path_has_its_own_limit_of_errors() {
    let mut pair = Pair::up(rfc());
    let params = PathParams { heartbeat_interval: None, path_max_retrans: 1 };
    pair.association(Client).set_path_params(PATH, params).unwrap();
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.send(Client, 0, vec![1]);
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.association(Client).paths().next().unwrap().state, crate::stats::PathState::Inactive);
}

#[test]
fn other_bounds_of_the_rto_apply_to_later_packets() {
    let mut pair = Pair::up(rfc());
    let rto = braidftp_cc::rtt::Bounds { min: Duration::from_millis(200), ..rfc().timers.rto };
    pair.association(Client).set_rto(rto);
    assert_eq!(pair.association(Client).config().timers.rto, rto);
    let mut lost = false;
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client && has(packet, Data::KIND) && !std::mem::replace(&mut lost, true)
    }));
    pair.send(Client, 0, vec![1]);
    pair.run(Duration::from_millis(300));
    assert_eq!(pair.data(Client).len(), 2);
}

#[test]
fn the_association_ends_after_the_configured_number_of_errors() {
    let mut pair = Pair::up(rfc());
    pair.association(Client).set_association_max_retrans(1);
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.send(Client, 0, vec![1]);
    pair.run(Duration::from_secs(4));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerUnreachable));
}

#[test]
fn sacks_follow_the_configured_delay() {
    let mut pair = Pair::up(rfc());
    let timing = SackTiming { delay: Duration::from_millis(50), frequency: 3 };
    pair.association(Server).set_delayed_sack(timing);
    // The first DATA is answered at once; those of the second packet are not.
    for _ in 0..2 {
        pair.send(Client, 0, vec![1]);
        pair.run(Duration::from_millis(500));
    }
    let sent_at = pair.log.iter().filter(|entry| entry.1 == Client).map(|entry| entry.0).nth(1).unwrap();
    let sacks = pair.sacks(Server);
    assert_eq!(sacks[1].0.since(sent_at), pair.latency + timing.delay);
}

#[test]
fn max_burst_limits_the_packets_per_event() {
    let mut pair = Pair::up(rfc().with(|c| c.congestion.options = modern().congestion.options));
    pair.association(Client).set_max_burst(Some(2));
    pair.send(Client, 0, vec![0; 10_000]);
    let now = pair.now;
    pair.drain(Client);
    assert_eq!(pair.log.iter().filter(|entry| entry.0 == now).count(), 2);
}

#[test]
fn a_piece_has_the_position_of_its_message() {
    for interleaving in [false, true] {
        let mut pair = Pair::up(rfc().with(|c| c.messages.interleaving = interleaving));
        let first = pair.association(Server).cum_tsn().unwrap().next();
        pair.reads = false;
        for len in [1, 4_000, 1] {
            pair.send(Client, 2, vec![0; len]);
        }
        pair.run(Duration::from_secs(1));
        let association = pair.association(Server);
        let mut pieces = Vec::new();
        while let Some(piece) = association.recv(StreamId(2)) {
            pieces.push((piece.tsn.distance_from(first), piece.number));
        }
        assert_eq!(pieces, [(0, 0), (1, 1), (4, 2)], "interleaving: {interleaving}");
        assert_eq!(association.cum_tsn().unwrap().distance_from(first), 4);
        assert_eq!(association.extensions().unwrap().interleaving, interleaving);
    }
}

#[test]
fn an_error_reported_by_the_peer_is_an_event() {
    let mut pair = Pair::up(rfc());
    let causes = vec![Cause::InvalidStreamIdentifier(StreamId(7))];
    pair.forge(&[Chunk::Error(causes.clone())]);
    assert_eq!(pair.events(Server).last(), Some(&Event::PeerError(causes)));
    assert!(pair.association(Server).is_up());
}
