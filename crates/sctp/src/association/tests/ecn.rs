//! Explicit congestion notification (RFC 4960 Appendix A, RFC 3168).

use super::*;
use crate::wire::Parameter;

fn with(ecn: bool) -> Config {
    modern().with(|c| c.congestion.ecn = ecn)
}

/// Sends 700 kB over 10 Mbit/s and 20 ms, with a queue of 40 ms that marks from 10 ms on, if it can.
fn transfer(config: Config) -> Pair {
    let mut pair = Pair::up(config);
    pair.rate = Some(Rate::from_bits_per_second(10_000_000));
    pair.queue = Duration::from_millis(40);
    pair.mark_at = Duration::from_millis(10);
    for _ in 0..14 {
        pair.send(Client, 0, pattern(50_000));
    }
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == 14));
    pair.run(Duration::from_secs(1));
    pair
}

fn echoes(pair: &Pair) -> (usize, usize) {
    let count =
        |side, kind| pair.packets(side).into_iter().flatten().filter(|chunk| chunk.kind() == kind).count();
    (count(Server, Chunk::ECNE), count(Client, Chunk::CWR))
}

#[test]
fn packets_are_marked_instead_of_lost_if_both_sides_are_capable() {
    for mut config in [modern_halving(), rfc()] {
        config.memory.send_buffer_bytes = 4 << 20;
        let without = transfer(config.clone().with(|c| c.congestion.ecn = false));
        let mut with = transfer(config.with(|c| c.congestion.ecn = true));
        assert_eq!((without.marked, echoes(&without)), (0, (0, 0)));
        assert!(with.marked > 0 && with.overflowed < without.overflowed);
        let (ecne, cwr) = echoes(&with);
        assert!(ecne > 0 && cwr > 0);
        let client = with.association(Client).stats().paths.remove(0);
        assert!(client.ecn_reductions > 0 && client.ecn_reductions <= cwr as u64);
        assert_eq!(with.association(Server).stats().paths[0].ce_received, with.marked as u64);
        assert!(with.association(Server).state.up().unwrap().ecn.as_ref().unwrap().echo.is_none());
        println!(
            "losses {} and {}, now {:?} and {:?}",
            without.overflowed, with.overflowed, without.now, with.now
        );
    }
}

#[test]
fn ecn_is_used_if_both_sides_say_so_and_only_then() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut pair = Pair::with(with(client), with(server));
        pair.mark_at = Duration::ZERO;
        pair.rate = Some(Rate::from_bits_per_second(1_000_000));
        pair.send(Client, 0, pattern(20_000));
        pair.run(Duration::from_secs(2));
        let says = |side| {
            pair.packets(side).into_iter().flatten().any(|chunk| match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => init.parameters.contains(&Parameter::EcnCapable),
                _ => false,
            })
        };
        assert_eq!((says(Client), says(Server)), (client, server));
        let capable = pair.ecns.contains(&Ecn::Ect0);
        assert_eq!((capable, echoes(&pair) != (0, 0)), (client && server, client && server));
        assert_eq!(pair.read(Server, 0).len(), 1);
    }
}

/// RFC 3168 §6.1.4 to §6.1.6: neither acknowledgements alone, nor what is sent again, nor probes of a closed window.
#[test]
fn only_new_data_may_be_marked() {
    let mut pair = Pair::up(with(true));
    pair.drop = Some(Box::new(|side, nth, _| side == Client && nth == 4));
    pair.send(Client, 0, pattern(30_000));
    pair.run(Duration::from_secs(2));
    let mut seen = BTreeSet::new();
    let mut kinds = [0; 3];
    for ((_, _, packet), ecn) in pair.log.iter().zip(&pair.ecns) {
        let tsns: Vec<_> = chunks(packet)
            .into_iter()
            .filter_map(|chunk| if let Chunk::Data(data) = chunk { Some(data.tsn.0) } else { None })
            .collect();
        if tsns.is_empty() {
            assert_eq!(*ecn, Ecn::NotEct, "{packet}");
            kinds[0] += 1;
        } else if tsns.iter().any(|tsn| !seen.insert(*tsn)) {
            assert_eq!(*ecn, Ecn::NotEct, "{packet}");
            kinds[1] += 1;
        } else {
            kinds[2] += usize::from(*ecn == Ecn::Ect0);
        }
    }
    assert!(kinds.iter().all(|count| *count > 0), "{kinds:?}");
}

#[test]
fn a_window_is_reduced_once_for_many_marks_and_ecne_is_repeated_until_cwr() {
    let mut pair = Pair::up(with(true));
    pair.send(Server, 0, pattern(12_000));
    pair.drain(Server);
    let server = |pair: &mut Pair| pair.association(Server).stats().paths.remove(0);
    let before = server(&mut pair).cwnd;
    let first = pair.data(Server)[0].tsn;
    pair.send(Client, 0, pattern(1));
    pair.run(Duration::from_millis(1));
    pair.clear_log();
    for ahead in [1, 0, 2, 3] {
        pair.forge(&[Chunk::Ecne { lowest_tsn: first.plus(ahead) }]);
    }
    let after = server(&mut pair);
    assert_eq!(after.ecn_reductions, 1);
    assert!(after.cwnd < before);
    let answers: Vec<_> = pair
        .packets(Server)
        .into_iter()
        .flatten()
        .filter_map(|chunk| if let Chunk::Cwr { lowest_tsn } = chunk { Some(lowest_tsn) } else { None })
        .collect();
    assert_eq!(answers, [1, 0, 2, 3].map(|ahead| first.plus(ahead)), "each is answered");
    // One for what was never sent is none.
    pair.forge(&[Chunk::Ecne { lowest_tsn: first.plus(1_000) }]);
    assert_eq!(server(&mut pair).ecn_reductions, 1);
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Client, 0).len(), 1);
}

#[test]
fn ecne_is_repeated_until_cwr_arrives() {
    let mut pair = Pair::up(with(true));
    let mut lost = 0;
    pair.drop = Some(Box::new(move |side, _, packet| {
        let loses = side == Client && has(packet, Chunk::CWR) && lost < 2;
        lost += usize::from(loses);
        loses
    }));
    pair.rate = Some(Rate::from_bits_per_second(1_000_000));
    pair.mark_at = Duration::from_millis(20);
    for _ in 0..30 {
        pair.send(Client, 0, pattern(1_000));
    }
    pair.run(Duration::from_secs(3));
    let (ecne, _) = echoes(&pair);
    assert!(ecne >= 3);
    assert_eq!(pair.read(Server, 0).len(), 30);
}

#[test]
fn without_ecn_its_chunks_are_unknown_and_end_their_packet() {
    let mut pair = Pair::up(with(false));
    pair.send(Client, 0, pattern(1));
    pair.run(Duration::from_secs(1));
    pair.clear_log();
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"beat"));
    for chunk in
        [Chunk::Ecne { lowest_tsn: crate::ids::Tsn(1) }, Chunk::Cwr { lowest_tsn: crate::ids::Tsn(1) }]
    {
        pair.forge(&[chunk, heartbeat.clone()]);
    }
    assert!(pair.log.is_empty());
    pair.forge(&[heartbeat]);
    assert_eq!(pair.log.len(), 1);
}
