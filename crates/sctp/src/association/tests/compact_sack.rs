//! COMPACT-SACK (`specs/compact-sack.md`): more gaps than fit in a SACK.

use super::*;
use crate::config::Fragments;
use crate::ids::Tsn;
use crate::wire::{CompactSack, Parameter};

/// More gaps than a SACK can report.
const GAPS: usize = 380;
/// Messages after which the window is large enough for twice as many packets.
const WARM: usize = 1_500;

fn compact_sacks(pair: &Pair, side: Side) -> Vec<CompactSack> {
    let chunks = pair.packets(side).into_iter().flatten();
    chunks.filter_map(|chunk| if let Chunk::CompactSack(sack) = chunk { Some(sack) } else { None }).collect()
}

fn longest_sack(pair: &Pair) -> usize {
    pair.sacks(Server).iter().map(|(_, sack)| sack.gaps.len()).max().unwrap_or(0)
}

/// Whether a side has listed COMPACT-SACK.
fn lists(pair: &Pair, side: Side) -> bool {
    let lists = |parameter: &Parameter| match parameter {
        Parameter::SupportedExtensions(kinds) => kinds.contains(&CompactSack::KIND),
        _ => false,
    };
    pair.packets(side).into_iter().flatten().any(|chunk| match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => init.parameters.iter().any(lists),
        _ => false,
    })
}

/// An upload with a large window in which every second packet is lost once, and the server's acknowledgements.
fn every_second_lost(client: Config, server: Config) -> Pair {
    let large = |config: Config| {
        config.with(|c| {
            c.congestion.control = braidftp_cc::Kind::Sctp;
            c.memory.send_buffer_bytes = 16 << 20;
            c.memory.receive_buffer_bytes = 16 << 20;
        })
    };
    let mut pair = Pair::with(large(client), large(server));
    pair.latency = Duration::from_millis(20);
    for _ in 0..WARM {
        pair.send(Client, 0, pattern(1_300));
    }
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == WARM));
    let mut packets = 0;
    pair.drop = Some(Box::new(move |side, _, packet| {
        packets += usize::from(side == Client && has(packet, Data::KIND));
        side == Client && packets % 2 == 1 && packets < 2 * GAPS
    }));
    for _ in 0..2 * GAPS {
        pair.send(Client, 0, pattern(1_300));
    }
    assert!(pair.run_until(|pair| pair.read(Server, 0).len() == WARM + 2 * GAPS));
    pair
}

//= specs/compact-sack.md#section-4
//= type=test
//# If the extension is negotiated, a SACK MUST report all TSNs that have arrived. If it has no room for them, this
//# chunk MUST be sent instead.
#[test]
fn compact_sack_reports_more_gaps_than_fit_in_a_sack() {
    let pair = every_second_lost(modern(), modern());
    assert!(lists(&pair, Client) && lists(&pair, Server));
    let compact = compact_sacks(&pair, Server);
    let most = compact.iter().map(|sack| sack.gaps.len()).max();
    assert!(most >= Some(GAPS - 10), "{most:?}");
    assert!(compact.iter().all(|sack| !sack.is_cut));
    // A report that fits is an ordinary SACK.
    assert!(longest_sack(&pair) > 300);
}

//= specs/compact-sack.md#section-2
//= type=test
//# A host MUST NOT send the chunk if the extension is not negotiated.
//= specs/compact-sack.md#section-2
//= type=test
//# In an
//# INIT ACK it SHOULD be listed only if the INIT has listed it.
#[test]
fn without_support_a_sack_is_truncated_and_the_chunk_is_skipped() {
    let without = || modern().with(|c| c.sack.compact_sack = false);
    for (client, server) in [(modern(), without()), (without(), modern())] {
        let knows = client.sack.compact_sack;
        let mut pair = every_second_lost(client, server);
        assert_eq!((lists(&pair, Client), lists(&pair, Server)), (knows, false));
        assert!(compact_sacks(&pair, Server).is_empty() && longest_sack(&pair) > 300);
        pair.clear_log();
        let never_sent =
            CompactSack { cum_tsn_ack: Tsn(1), gaps: vec![(900, 900)], ..CompactSack::default() };
        pair.forge(&[Chunk::CompactSack(never_sent), Chunk::Heartbeat(Bytes::from_static(b"hello"))]);
        assert!(
            matches!(pair.packets(Server)[..], [ref chunks] if matches!(chunks[..], [Chunk::HeartbeatAck(_)]))
        );
    }
}

#[test]
fn with_nr_sack_there_is_none() {
    let both = || modern().with(|c| c.sack.nr_sack = true);
    assert!(compact_sacks(&every_second_lost(both(), both()), Server).is_empty());
}

/// A client with ten packets in flight, and forged acknowledgements of the server.
struct Forger {
    pair: Pair,
    header: Header,
    base: Tsn,
}

impl Forger {
    fn new() -> Self {
        let mut pair = Pair::up(modern_halving().with(|c| c.messages.fragments = Fragments::Full));
        pair.send(Client, 0, "a");
        pair.run(Duration::from_millis(500));
        let header = pair.log.iter().rev().find(|entry| entry.1 == Server).unwrap().2.header;
        pair.drop = Some(Box::new(|_, _, _| true));
        for _ in 0..10 {
            pair.send(Client, 0, pattern(1_300));
        }
        pair.drain(Client);
        let base = pair.association(Client).state.up().unwrap().sent.cum_tsn_ack_point();
        Self { pair, header, base }
    }

    /// The chunks that are marked lost after such an acknowledgement, by their distance from those that had arrived.
    fn answer(&mut self, arrived: u32, gaps: &[(u16, u16)], is_cut: bool) -> Vec<u32> {
        let pair = &mut self.pair;
        let mut builder = PacketBuilder::new();
        builder.begin(self.header, 1_452);
        let cum_tsn_ack = self.base.plus(arrived);
        let sack =
            CompactSack { is_cut, cum_tsn_ack, a_rwnd: 1 << 20, gaps: gaps.to_vec(), dups: Vec::new() };
        builder.push(&Chunk::CompactSack(sack));
        builder.seal();
        let payload = builder.finish().unwrap().payload;
        let (from, to) = (server_address(), client_address());
        // Earlier, it would answer packets sent before; later, those would time out.
        pair.now += pair.latency * 2;
        pair.client.handle(pair.now, Datagram { from, to, ecn: Ecn::NotEct, payload });
        let up = pair.association(Client).state.up();
        let lost = up.map(|up| up.sent.lost().map(|(tsn, _)| tsn.distance_from(self.base)).collect());
        pair.drain(Client);
        lost.unwrap_or_default()
    }
}

//= specs/compact-sack.md#section-4
//= type=test
//# a sender MUST process it like a SACK (RFC 9260 §6.2.1).
//= specs/compact-sack.md#section-4
//= type=test
//# If this chunk has no room for all blocks either, it MUST contain the lowest ones and have the C bit (0x01) set,
//# which means that it reports nothing beyond the last one.
#[test]
fn nothing_beyond_the_last_block_of_a_truncated_sack_is_lost() {
    for (is_cut, lost) in [(true, None), (false, Some(5))] {
        let mut forger = Forger::new();
        assert_eq!(forger.answer(0, &[(2, 4)], false), [1]);
        // It was sent after all others: if no other is reported, those sent three packets before are lost.
        assert_eq!(forger.answer(4, &[], is_cut).first().copied(), lost, "{is_cut}");
    }
}

#[test]
fn a_sack_of_an_unsent_tsn_is_a_violation() {
    let mut forger = Forger::new();
    forger.answer(0, &[(2, 11)], false);
    let closed = forger.pair.closed(Client);
    assert_eq!(closed.map(|closed| format!("{closed:?}").contains("AckOfNothing")), Some(true));
}
