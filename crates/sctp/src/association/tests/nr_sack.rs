//! NR-SACK (draft-natarajan-tsvwg-sctp-nrsack): data acknowledged as non-renegable is released by the
//! sender.

use super::*;
use crate::association::Violation;
use crate::ids::Tsn;
use crate::wire::NrSack;

fn config() -> Config {
    rfc().with(|c| c.sack.nr_sack = true)
}

fn nr_sacks(pair: &Pair, side: Side) -> Vec<NrSack> {
    let chunks = pair.packets(side).into_iter().flatten();
    chunks.filter_map(|chunk| if let Chunk::NrSack(sack) = chunk { Some(sack) } else { None }).collect()
}

/// Loses the client's first DATA.
fn lose_first() -> Option<Drop> {
    let mut lost = false;
    Some(Box::new(move |side, _, packet| {
        side == Client && has(packet, Data::KIND) && !std::mem::replace(&mut lost, true)
    }))
}

/// The TSN of the client's first outstanding chunk.
fn first_kept(pair: &mut Pair) -> Tsn {
    pair.association(Client).state.up().unwrap().sent.cum_tsn_ack_point().next()
}

/// Delivers a packet of the server to the client.
fn answer(pair: &mut Pair, chunk: Chunk) {
    let header = pair.log.iter().rev().find(|entry| entry.1 == Server).unwrap().2.header;
    let mut builder = PacketBuilder::new();
    builder.begin(header, 1_452);
    builder.push(&chunk);
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    let (from, to) = (server_address(), client_address());
    pair.client.handle(pair.now, Datagram { from, to, ecn: Ecn::NotEct, payload });
    pair.drain(Client);
}

#[test]
fn without_nr_sack_the_sender_keeps_chunks_beyond_a_gap() {
    for nr_sack in [true, false] {
        let mut pair = Pair::up(rfc().with(|c| c.sack.nr_sack = nr_sack));
        let room = pair.association(Client).send_room();
        pair.drop = lose_first();
        for _ in 0..3 {
            pair.send(Client, 0, pattern(1_400));
        }
        pair.run(Duration::from_millis(50));
        let kept = room - pair.association(Client).send_room();
        let slots = 3 * crate::association::send_queue::MESSAGE_OVERHEAD_BYTES;
        assert_eq!(kept - slots, if nr_sack { 1_400 } else { 3 * 1_400 });
        assert_eq!(nr_sacks(&pair, Server).is_empty(), !nr_sack);
        assert_eq!(pair.sacks(Server).is_empty(), nr_sack, "one or the other");
        pair.run(Duration::from_secs(3));
        assert_eq!(pair.read(Server, 0).len(), 3);
        assert_eq!(pair.association(Client).send_room(), room);
    }
}

#[test]
fn blocks_are_reported_as_non_renegable() {
    let mut pair = Pair::up(config());
    pair.drop = lose_first();
    for _ in 0..3 {
        pair.send(Client, 0, pattern(1_400));
    }
    pair.run(Duration::from_millis(50));
    let said = nr_sacks(&pair, Server);
    let last = said.last().unwrap();
    assert_eq!((&last.gaps, &last.nr_gaps), (&vec![], &vec![(2, 3)]));
}

#[test]
fn without_support_sacks_are_sent_and_nr_sack_ends_its_packet() {
    for (client, server) in [(config(), rfc()), (rfc(), config())] {
        let mut pair = Pair::with(client, server);
        pair.run(Duration::from_millis(100));
        pair.send(Client, 0, "a");
        pair.run(Duration::from_millis(500));
        assert!(nr_sacks(&pair, Server).is_empty() && !pair.sacks(Server).is_empty());
        pair.clear_log();
        // The chunk type tells receivers to stop processing the packet, without a report.
        let nr_sack = Chunk::NrSack(NrSack { cum_tsn_ack: Tsn(1), ..NrSack::default() });
        pair.forge(&[nr_sack, Chunk::Heartbeat(Bytes::from_static(b"hello"))]);
        assert_eq!(pair.packets(Server).len(), 0);
        assert!(pair.closed(Server).is_none());
    }
}

#[test]
fn both_kinds_of_blocks_acknowledge_and_only_gap_blocks_can_be_reneged_on() {
    let mut pair = Pair::up(config());
    pair.send(Client, 0, "x");
    pair.run(Duration::from_millis(500));
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Data::KIND)));
    for _ in 0..4 {
        pair.send(Client, 0, pattern(1_400));
    }
    pair.run(Duration::from_millis(1));
    let first = first_kept(&mut pair);
    let sack = |gaps: &[(u16, u16)], nr_gaps: &[(u16, u16)]| {
        Chunk::NrSack(NrSack {
            flags: 0,
            cum_tsn_ack: first.minus(1),
            a_rwnd: 100_000,
            gaps: gaps.to_vec(),
            nr_gaps: nr_gaps.to_vec(),
            dups: vec![],
        })
    };
    let outstanding = |pair: &mut Pair| pair.association(Client).stats().outstanding_bytes / 1_416;
    // The blocks overlap, and are not in order.
    answer(&mut pair, sack(&[(4, 4), (2, 3)], &[(3, 3)]));
    assert_eq!(outstanding(&mut pair), 1);
    answer(&mut pair, sack(&[(4, 4)], &[]));
    assert_eq!(outstanding(&mut pair), 2, "the second is taken back, the third cannot be");
    assert!(pair.closed(Client).is_none());
    // All TSNs up to the second have arrived, and the third has not, although it was non-renegable.
    let NrSack { cum_tsn_ack, a_rwnd, .. } = NrSack { cum_tsn_ack: first.next(), ..NrSack::default() };
    answer(&mut pair, Chunk::Sack(Sack { flags: 0, cum_tsn_ack, a_rwnd, gaps: vec![], dups: vec![] }));
    assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(Violation::AckTakenBack)));
}

#[test]
fn invalid_blocks_and_blocks_of_unsent_tsns_release_nothing() {
    let kinds: [[&[(u16, u16)]; 2]; 4] =
        [[&[], &[(0, 0), (0, 0)]], [&[], &[(3, 2)]], [&[(0, 0)], &[(2, 60_000)]], [&[(5, 1)], &[(2, 2)]]];
    for [gaps, nr_gaps] in kinds {
        let mut pair = Pair::up(config());
        pair.send(Client, 0, "x");
        pair.run(Duration::from_millis(500));
        pair.drop = Some(Box::new(|side, _, _| side == Client));
        for _ in 0..3 {
            pair.send(Client, 0, pattern(1_400));
        }
        pair.run(Duration::from_millis(1));
        let before = pair.association(Client).send_room();
        let cum_tsn_ack = first_kept(&mut pair).minus(1);
        let (gaps, nr_gaps) = (gaps.to_vec(), nr_gaps.to_vec());
        let sack = NrSack { flags: 0, cum_tsn_ack, a_rwnd: 100_000, gaps, nr_gaps, dups: vec![] };
        answer(&mut pair, Chunk::NrSack(sack));
        assert_eq!(pair.association(Client).send_room(), before);
        assert!(pair.closed(Client).is_none());
    }
}

#[test]
fn a_long_list_of_blocks_is_truncated_to_the_packet() {
    let mut pair = Pair::up(config().with(|c| c.path_mtu.packet_bytes = 512));
    pair.association(Server).state.up().unwrap();
    let tsn = pair.association(Server).cum_tsn().unwrap();
    for number in 0..300 {
        pair.forge(&[Chunk::Data(Data { unordered: true, ..Data::whole(tsn.plus(2 + 2 * number), b"x") })]);
    }
    let said = nr_sacks(&pair, Server);
    let most = (512 - Header::LEN - NrSack::HEADER_LEN) / NrSack::BLOCK_LEN;
    assert_eq!(said.last().unwrap().nr_gaps.len(), most);
}
