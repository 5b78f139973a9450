//! Paths that the user disables and enables, and the negotiation of concurrent multipath transfer.

use super::multihoming::{addresses, confirmed, cut, paths, states};
use super::*;
use crate::association::{PathUse, PathUseError};
use crate::config::{Multipath, MultipathWith};
use crate::ids::PathId;
use crate::route::Route;
use crate::stats::PathState;
use crate::wire::{NrSack, Parameter};

fn several() -> Config {
    one().with(|c| {
        c.paths.multipath = Some(Multipath::default());
        c.paths.multipath_with = MultipathWith::WhereAgreed;
    })
}

fn one() -> Config {
    modern().with(|c| c.sack.compact_sack = false)
}

fn set(pair: &mut Pair, side: Side, path: u8, path_use: PathUse) -> Result<(), PathUseError> {
    let now = pair.now;
    let done = pair.association(side).set_path_use(now, PathId(path), path_use);
    pair.drain(side);
    done
}

/// The number of packets sent on each network since the log was cleared.
fn packets_by(pair: &Pair, side: Side) -> [usize; 2] {
    let from = addresses()[side as usize].clone();
    let of = |network: usize| {
        let sent = pair.log.iter().zip(&pair.routes);
        sent.filter(|((_, by, _), route)| *by == side && route.0 == from[network]).count()
    };
    [of(0), of(1)]
}

fn upload(pair: &mut Pair, messages: usize) {
    for _ in 0..messages {
        pair.send(Client, 0, pattern(1_000));
    }
}

#[test]
fn a_path_set_aside_carries_nothing_in_either_direction_until_it_is_put_back() {
    for (config, at_once) in [(modern(), false), (several(), true)] {
        let mut pair = confirmed(config);
        upload(&mut pair, 100);
        pair.run(Duration::from_millis(60));
        assert_eq!(set(&mut pair, Client, 0, PathUse::SetAside), Ok(()));
        assert_eq!(set(&mut pair, Client, 0, PathUse::SetAside), Ok(()), "twice is once");
        pair.clear_log();
        upload(&mut pair, 100);
        assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 200));
        pair.send(Server, 0, "and back");
        assert!(pair.run_until(|pair| pair.read(Client, 0).len() == 1));
        assert_eq!(packets_by(&pair, Client)[0], 0);
        assert_eq!(states(&mut pair, Client), [PathState::SetAside, PathState::Active]);
        let heard = paths(&mut pair, Client)[0].packets_received;
        pair.run(Duration::from_secs(100));
        assert_eq!(packets_by(&pair, Client)[0], 0, "not even a HEARTBEAT");
        assert_eq!(paths(&mut pair, Client)[0].packets_received, heard);
        assert_eq!(states(&mut pair, Server), [PathState::Inactive, PathState::Active]);

        assert_eq!(set(&mut pair, Client, 0, PathUse::InUse), Ok(()));
        // The server does not wait for its HB.interval either: an incoming HEARTBEAT triggers one of its own, at most once a
        // second.
        pair.run(Duration::from_millis(1_500));
        for side in [Client, Server] {
            assert_eq!(states(&mut pair, side), [PathState::Active; 2], "{side:?}");
        }
        pair.clear_log();
        upload(&mut pair, 400);
        assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 600));
        // With one path in use at a time, another path has become the primary one.
        let by = packets_by(&pair, Client);
        assert_eq!(by[0] > 10, at_once, "{by:?}");
    }
}

#[test]
fn neither_the_last_path_nor_a_nonexistent_one_can_be_set_aside() {
    let mut pair = Pair::up(modern());
    assert_eq!(set(&mut pair, Client, 0, PathUse::SetAside), Err(PathUseError::TheLast));
    assert_eq!(set(&mut pair, Client, 1, PathUse::SetAside), Err(PathUseError::NoSuchPath));
    let mut pair = confirmed(several());
    assert_eq!(set(&mut pair, Client, 1, PathUse::SetAside), Ok(()));
    assert_eq!(set(&mut pair, Client, 0, PathUse::SetAside), Err(PathUseError::TheLast));
    assert_eq!(set(&mut pair, Client, 7, PathUse::InUse), Err(PathUseError::NoSuchPath));
    upload(&mut pair, 10);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 10));
}

#[test]
fn both_sides_may_set_paths_aside_and_the_association_continues_while_one_is_left() {
    let mut pair = confirmed(several());
    assert_eq!(set(&mut pair, Client, 0, PathUse::SetAside), Ok(()));
    assert_eq!(set(&mut pair, Server, 1, PathUse::SetAside), Ok(()));
    upload(&mut pair, 10);
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.read(Server, 0).len(), 0, "nothing is left");
    assert_eq!(set(&mut pair, Server, 1, PathUse::InUse), Ok(()));
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 10));
}

#[test]
fn if_all_other_paths_failed_a_path_set_aside_carries_sacks_and_an_unconfirmed_one_does_not() {
    let mut pair = confirmed(several());
    assert_eq!(set(&mut pair, Client, 1, PathUse::SetAside), Ok(()));
    let now = pair.now;
    let client = pair.association(Client);
    let route = Route { local: client.paths[0].local, peer: "10.0.9.2:9899".parse().unwrap() };
    client.add_path(route).unwrap();
    client.leave_paths(now, &[PathId(0)], PathState::Removed);
    let up = client.state.up().unwrap();
    assert_eq!((up.primary, up.sack_path), (PathId(1), PathId(1)));
}

#[test]
fn a_path_put_back_while_down_is_used_after_it_recovers() {
    let mut pair = confirmed(several());
    assert_eq!(set(&mut pair, Client, 0, PathUse::SetAside), Ok(()));
    cut(&mut pair, 0);
    assert_eq!(set(&mut pair, Client, 0, PathUse::InUse), Ok(()));
    pair.run(Duration::from_secs(30));
    assert_eq!(states(&mut pair, Client), [PathState::Inactive, PathState::Active]);
    pair.cut.clear();
    pair.run(Duration::from_secs(40));
    assert_eq!(states(&mut pair, Client), [PathState::Active; 2]);
}

/// The chunk types that the first INIT or INIT ACK lists.
fn listed(pair: &Pair, side: Side) -> Vec<u8> {
    let init = pair.packets(side).into_iter().flatten().find_map(|chunk| match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => Some(init),
        _ => None,
    });
    let parameters = init.expect("there was an INIT or INIT ACK").parameters;
    let kinds = parameters.into_iter().find_map(|parameter| match parameter {
        Parameter::SupportedExtensions(kinds) => Some(kinds.to_vec()),
        _ => None,
    });
    kinds.unwrap_or_default()
}

/// Runs an upload over two networks of different delay; returns the packets on each, and the number of packets that acknowledge
/// them.
fn uploaded(client: Config, server: Config) -> (Pair, [usize; 2], usize) {
    let mut pair = Pair::between(addresses(), client, server);
    pair.latency = Duration::from_millis(25);
    pair.run(Duration::from_secs(3));
    // A permanent gap.
    let mut lost = false;
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Client && has(packet, Data::KIND) && !std::mem::replace(&mut lost, true)
    }));
    let before = packets_by(&pair, Client);
    upload(&mut pair, 100);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 100));
    let after = packets_by(&pair, Client);
    let is_answer = |packet: &Packet| has(packet, Sack::KIND) || has(packet, NrSack::KIND);
    let answers = pair.log.iter().filter(|(_, side, packet)| *side == Server && is_answer(packet)).count();
    (pair, [0, 1].map(|path| after[path] - before[path]), answers)
}

#[test]
fn several_paths_carry_data_at_once_where_both_have_said_so() {
    let (pair, by, answers) = uploaded(several(), several());
    assert_eq!([listed(&pair, Client), listed(&pair, Server)], [[NrSack::KIND]; 2]);
    assert!(by[0] > 10 && by[1] > 10, "{by:?}");
    // A sender that did not ask gets no offer, and a SACK for each packet beyond a gap at once.
    let (pair, _, to_one_path) = uploaded(one(), several());
    assert_eq!([listed(&pair, Client), listed(&pair, Server)], [vec![], vec![]]);
    assert!(answers < to_one_path, "{answers} and {to_one_path}");
    // A receiver without support gets data on one path.
    let (pair, by, _) = uploaded(several(), one());
    assert_eq!([listed(&pair, Client), listed(&pair, Server)], [vec![NrSack::KIND], vec![]]);
    assert!(by[1] <= 2, "{by:?}");
    // Unless the sender is configured for any receiver: it needs no support.
    let (pair, by, _) = uploaded(several().with(|c| c.paths.multipath_with = MultipathWith::Anyone), one());
    assert_eq!([listed(&pair, Client), listed(&pair, Server)], [vec![], vec![]]);
    assert!(by[0] > 10 && by[1] > 10, "{by:?}");
}

#[test]
fn data_is_acknowledged_on_its_own_path_although_others_send_sooner() {
    // Without the I bit each message's SACK waits until data is sent or the delay is over.
    let mut pair = confirmed(several().with(|c| c.sack.immediate_at_end = false));
    pair.clear_log();
    for round in 0..40 {
        pair.send(Server, 0, "a word");
        pair.run(Duration::from_millis(11));
        upload(&mut pair, 10 + 7 * round);
        pair.run(Duration::from_millis(25));
    }
    assert!(packets_by(&pair, Client).into_iter().min() > Some(100), "the upload takes both");
    let network =
        |(from, to): (SocketAddr, SocketAddr)| addresses()[0].iter().position(|at| *at == from || *at == to);
    let mut ways = Vec::new();
    for ((at, side, packet), route) in pair.log.iter().zip(&pair.routes) {
        if *side == Client && (has(packet, Sack::KIND) || has(packet, NrSack::KIND)) {
            let words = pair.log.iter().zip(&pair.routes).filter(|((sent_at, by, packet), _)| {
                *by == Server && has(packet, Data::KIND) && *sent_at + pair.latency <= *at
            });
            let (_, word) = words.last().expect("there is something to answer");
            ways.push((network(*route), network(*word)));
        }
    }
    assert!(ways.len() >= 20, "{ways:?}");
    assert!(ways.iter().all(|(answer, word)| answer == word), "{ways:?}");
}

#[test]
fn with_one_path_multipath_changes_nothing() {
    let run = |config: Config| {
        let mut pair = Pair::new(config);
        upload(&mut pair, 50);
        pair.drop = Some(Box::new(|side, number, _| side == Client && number % 7 == 6));
        pair.run(Duration::from_secs(20));
        assert_eq!(pair.read(Server, 0).len(), 50);
        pair.log.iter().map(|(at, side, packet)| (*at, *side, format!("{packet:?}"))).collect::<Vec<_>>()
    };
    assert_eq!(run(several()), run(one()));
}

#[test]
fn a_path_whose_rate_falls_still_carries_that_rate_and_the_other_is_unaffected() {
    let mut pair = confirmed(several());
    upload(&mut pair, 200);
    pair.run(Duration::from_millis(60));
    pair.narrow.insert(addresses()[0][0].ip(), 1_300);
    upload(&mut pair, 300);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 500));
    // Two silent HEARTBEATs disable the path; the other path completes the first upload, and the path is tried again with the
    // next.
    pair.run(Duration::from_secs(10));
    upload(&mut pair, 100);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 600));
    pair.run(Duration::from_secs(20));
    let mtus: Vec<_> = paths(&mut pair, Client).iter().map(|path| path.mtu).collect();
    assert!(mtus[0] < 1_300 && mtus[1] == modern().path_mtu.packet_bytes, "{mtus:?}");
    assert_eq!(states(&mut pair, Client), [PathState::Active; 2]);
    pair.clear_log();
    upload(&mut pair, 500);
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 1_100));
    let by = packets_by(&pair, Client);
    assert!(by[0] > 25 && by[1] > 50, "{by:?}");
}
