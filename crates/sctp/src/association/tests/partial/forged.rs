//! A peer that forges plausible FORWARD TSNs, NR-SACKs and data; invariants are checked at each drain.

use proptest::prelude::*;

use super::*;

/// An action of a peer that violates the rules.
#[derive(Debug, Clone)]
enum Deed {
    /// A valid message of either side.
    Send(bool, u16, usize, Reliability),
    Wait(u64),
    /// FORWARD TSN or I-FORWARD-TSN, at this distance from the server's cumulative TSN.
    Forward(bool, i32, Vec<(u16, bool, u32)>),
    /// An NR-SACK at this distance.
    NrSack(i32, Vec<(u16, u16)>, Vec<(u16, u16)>),
    /// A data chunk this far ahead.
    Data(u32, u8, u16, u32),
}

fn deed() -> impl Strategy<Value = Deed> {
    let reliability = prop_oneof![
        Just(Reliability::Full),
        (0u64..200).prop_map(|millis| Reliability::Lifetime(Duration::from_millis(millis))),
        (0u32..2).prop_map(Reliability::Retransmissions),
        (0u32..3).prop_map(Reliability::Priority),
    ];
    let blocks = || prop::collection::vec((0u16..12, 0u16..12), 0..4);
    let near = || prop_oneof![8 => -3i32..20, 1 => any::<i32>()];
    let skipped =
        prop::collection::vec((0u16..12, any::<bool>(), prop_oneof![4 => 0u32..6, 1 => any::<u32>()]), 0..4);
    prop_oneof![
        4 => (any::<bool>(), 0u16..4, 1usize..5_000, reliability)
            .prop_map(|(side, stream, len, reliability)| Deed::Send(side, stream, len, reliability)),
        3 => (0u64..3_000).prop_map(Deed::Wait),
        3 => (any::<bool>(), near(), skipped).prop_map(|(kind, ahead, list)| Deed::Forward(kind, ahead, list)),
        2 => (near(), blocks(), blocks()).prop_map(|(ahead, gaps, kept)| Deed::NrSack(ahead, gaps, kept)),
        3 => (1u32..20, 0u8..8, 0u16..4, 0u32..4).prop_map(|(ahead, flags, sid, number)| Deed::Data(ahead, flags, sid, number)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, ..ProptestConfig::default() })]
    /// Each drain recomputes all sums; a forgery ends the association at most.
    #[test]
    fn no_forgery_breaks_more_than_the_association(
        extensions in any::<[bool; 3]>(),
        seed in any::<u64>(),
        deeds in prop::collection::vec(deed(), 1..60),
    ) {
        let [partial_reliability, interleaving, nr_sack] = extensions;
        let buffers = modern().with(|c| {
c.memory.receive_buffer_bytes = 8_000;
c.memory.send_buffer_bytes = 8_000;
});
        let config = buffers.with(|c| {
c.messages.partial_reliability = partial_reliability;
c.messages.interleaving = interleaving;
c.sack.nr_sack = nr_sack;
});
        let mut pair = Pair::up(config).seeded(seed);
        pair.loss = 200;
        pair.send(Client, 0, "so that there is a header to copy");
        for deed in deeds {
            if pair.closed(Client).is_some() || pair.closed(Server).is_some() {
                break;
            }
            let number = interleaving.then_some(());
            match deed {
                Deed::Send(from_client, stream, len, reliability) => {
                    let message = Message { reliability, ..Message::new(Ppid(0), pattern(len)) };
                    let side = if from_client { Client } else { Server };
                    let _full = pair.association(side).send(StreamId(stream), message);
                    pair.run(Duration::from_millis(1));
                }
                Deed::Wait(millis) => pair.run(Duration::from_millis(millis)),
                Deed::Forward(plain, ahead, list) => {
                    let new_cum_tsn = Tsn(cum_tsn(&mut pair, Server).0.wrapping_add_signed(ahead));
                    pair.forge(&[if plain != interleaving {
                        let streams = list.iter().map(|(sid, _, ssn)| (StreamId(*sid), Ssn(*ssn as u16))).collect();
                        Chunk::ForwardTsn(ForwardTsn { new_cum_tsn, streams })
                    } else {
                        let skipped = |(sid, unordered, mid)| SkippedMid { stream: StreamId(sid), unordered, mid };
                        Chunk::IForwardTsn(IForwardTsn { new_cum_tsn, streams: list.into_iter().map(skipped).collect() })
                    }]);
                }
                Deed::NrSack(ahead, gaps, nr_gaps) => {
                    let up = pair.association(Server).state.up().unwrap();
                    let cum_tsn_ack = Tsn(up.sent.cum_tsn_ack_point().0.wrapping_add_signed(ahead));
                    let sack = crate::wire::NrSack { flags: 0, cum_tsn_ack, a_rwnd: 9_000, gaps, nr_gaps, dups: vec![] };
                    pair.forge(&[Chunk::NrSack(sack)]);
                }
                Deed::Data(ahead, flags, sid, mid) => {
                    let tsn = cum_tsn(&mut pair, Server).plus(ahead);
                    pair.forge(&[Chunk::Data(Data {
                        begin: flags & 2 != 0,
                        end: flags & 1 != 0,
                        unordered: flags & 4 != 0,
                        immediate: false,
                        tsn,
                        stream: StreamId(sid),
                        ssn: Ssn(mid as u16),
                        interleaved: number.map(|()| crate::wire::Interleaved { mid, fsn: ahead % 3 * u32::from(flags & 2 == 0) }),
                        ppid: Ppid(0),
                        payload: Bytes::from_static(b"forged"),
                    })]);
                }
            }
        }
        pair.run(Duration::from_secs(30));
    }
}
