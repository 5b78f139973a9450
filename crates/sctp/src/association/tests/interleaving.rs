//! I-DATA between two endpoints: when it is used, and its benefit (RFC 8260 §2.2).

use super::*;
use crate::association::Violation;
use crate::config::Scheduler;
use crate::wire::{Interleaved, Parameter};

fn with(interleaving: bool) -> Config {
    modern().with(|c| {
        c.messages.interleaving = interleaving;
        c.sack.compact_sack = false;
    })
}

/// The chunk types of the data that both sides sent.
fn data_kinds(pair: &Pair) -> Vec<u8> {
    let mut kinds: Vec<_> =
        [Client, Server].iter().flat_map(|side| pair.data(*side)).map(|data| data.kind()).collect();
    kinds.dedup();
    kinds
}

//= specs/rfc8260.txt#section-2.2.1
//= type=test
//# If user message interleaving support has been negotiated for an
//# association, I-DATA chunks MUST be used for all user messages and
//# DATA chunks MUST NOT be used.  If user message interleaving support
//# has not been negotiated for an association, DATA chunks MUST be used
//# for all user messages and I-DATA chunks MUST NOT be used.
#[test]
fn i_data_is_used_if_both_sides_list_it_and_only_then() {
    //= specs/rfc8260.txt#section-2
    //= type=test
    //# An SCTP implementation supporting user message interleaving is
    //# REQUIRED to support the coexistence of associations using DATA chunks
    //# and associations using I-DATA chunks.
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let mut pair = Pair::with(with(client), with(server));
        pair.send(Client, 0, pattern(5_000));
        pair.run(Duration::from_secs(1));
        pair.send(Server, 1, pattern(5_000));
        pair.run(Duration::from_secs(1));
        assert_eq!(data_kinds(&pair), if client && server { [64] } else { [0] });
        assert_eq!((pair.read(Server, 0).len(), pair.read(Client, 1).len()), (1, 1));
        let lists = |side| {
            pair.packets(side).into_iter().flatten().any(|chunk| match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => {
                    init.parameters.contains(&Parameter::SupportedExtensions(Bytes::from_static(&[64])))
                }
                _ => false,
            })
        };
        assert_eq!((lists(Client), lists(Server)), (client, server));
    }
}

#[test]
fn the_fragments_of_i_data_are_marked_and_numbered_and_a_stream_has_one_message_at_a_time() {
    //= specs/rfc8260.txt#section-2.1
    //= type=test
    //# The last fragment of a message MUST have the E bit set.
    //= specs/rfc8260.txt#section-2.2.2
    //= type=test
    //# The first fragment MUST have the B bit set.
    //= specs/rfc8260.txt#section-2.2.2
    //= type=test
    //# The last fragment MUST have the E bit set.
    //= specs/rfc8260.txt#section-2.2.2
    //= type=test
    //# All other fragments MUST NOT have the B or E bit set.
    //= specs/rfc8260.txt#section-2.2.2
    //= type=test
    //# The sender MUST NOT process (move user data into I-DATA chunks and
    //# assign a TSN to it) more than one user message in any given stream at
    //# any time.
    let mut pair = Pair::up(with(true));
    for _ in 0..3 {
        for stream in 0..2 {
            pair.send(Client, stream, pattern(4_000));
        }
    }
    pair.run(Duration::from_secs(1));
    let data = pair.data(Client);
    assert!(data.windows(2).any(|two| two[0].stream != two[1].stream && !two[0].end), "the streams do mix");
    for stream in 0..2 {
        let chunks = data.iter().filter(|data| data.stream == StreamId(stream));
        let mut next = Interleaved { mid: 0, fsn: 0 };
        for chunk in chunks {
            assert_eq!((chunk.interleaved, chunk.begin), (Some(next), next.fsn == 0));
            next = match chunk.end {
                true => Interleaved { mid: next.mid + 1, fsn: 0 },
                false => Interleaved { fsn: next.fsn + 1, ..next },
            };
        }
        assert_eq!(next, Interleaved { mid: 3, fsn: 0 });
        assert_eq!(pair.read(Server, stream), vec![pattern(4_000); 3]);
    }
}

#[test]
fn an_init_without_extensions_has_no_parameter() {
    //= specs/rfc8260.txt#section-2.2.1
    //= type=test
    //# An endpoint implementing the socket API specified in [RFC6458] MUST
    //# NOT indicate user message interleaving support unless the user has
    //# requested its use (e.g., via the socket API; see Section 4.3).
    //= specs/rfc8260.txt#section-2.2.1
    //= type=test
    //# This is not the default choice within the socket API (see the
    //# SCTP_FRAGMENT_INTERLEAVE socket option in Section 8.1.20 of
    //# [RFC6458]); thus, the user MUST indicate to the SCTP implementation
    //# its support for receiving completely interleaved messages.
    //= specs/rfc8260.txt#section-2.2.1
    //= type=test
    //# The crucial point is that the SCTP stack MUST know that the
    //# application can handle interleaved messages before indicating the
    //# I-DATA support.
    let mut pair = Pair::new(rfc());
    pair.run(Duration::from_secs(1));
    let Chunk::Init(init) = &pair.packets(Client)[0][0] else { panic!() };
    assert_eq!(init.parameters, []);
}

#[test]
fn a_long_message_holds_up_no_short_one() {
    for (interleaving, scheduler, waits) in [
        (true, Scheduler::RoundRobin, false),
        (true, Scheduler::WeightedFairQueueing, false),
        (true, Scheduler::Priority, false),
        (true, Scheduler::FirstComeFirstServed, true),
        (false, Scheduler::RoundRobin, true),
    ] {
        let mut pair = Pair::up(with(interleaving).with(|c| c.messages.scheduler = scheduler));
        pair.association(Client).set_stream_value(StreamId(0), 1).unwrap();
        pair.rate = Some(Rate::from_bits_per_second(10_000_000));
        pair.send(Client, 0, pattern(1_000_000));
        pair.run(Duration::from_millis(100));
        pair.send(Client, 1, pattern(100));
        assert!(pair.run_until(|pair| !pair.read(Server, 1).is_empty()));
        assert_eq!(pair.read(Server, 0).len(), usize::from(waits), "{interleaving} {scheduler:?}");
        assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty()));
        assert!(pair.read(Server, 0)[0] == pattern(1_000_000));
    }
}

/// The trap of half messages that fill a receive buffer.
#[test]
fn many_long_messages_do_not_block_a_small_buffer() {
    //= specs/rfc8260.txt#section-2.2.2
    //= type=test
    //# All other properties of the existing SCTP DATA chunk also apply to the
    //# I-DATA chunk, i.e., congestion control as well as receiver window
    //# conditions MUST be observed, as defined in [RFC4960].
    //= specs/rfc8260.txt#section-2.2.2
    //= type=test
    //# The sender MUST assign TSNs to I-DATA chunks in a way that the
    //# receiver can make progress.
    for loss in [0, 50] {
        let mut pair = Pair::up(with(true).with(|c| c.memory.receive_buffer_bytes = 20_000)).seeded(3);
        pair.loss = loss;
        for stream in 0..10 {
            pair.send(Client, stream, pattern(100_000));
        }
        let all = |pair: &mut Pair| (0..10).all(|stream| !pair.read(Server, stream).is_empty());
        assert!(
            pair.run_until_within(Duration::from_secs(120), all),
            "{:?}",
            pair.association(Server).stats()
        );
        assert!((0..10).all(|stream| pair.read(Server, stream)[0] == pattern(100_000)));
    }
}

#[test]
fn a_peer_that_withholds_a_message_cannot_fill_the_memory() {
    let mut pair = Pair::up(with(true).with(|c| c.memory.receive_buffer_bytes = 10_000));
    pair.send(Client, 0, pattern(10));
    pair.run(Duration::from_secs(1));
    let mut data = pair.data(Client)[0].clone();
    data.payload = pattern(1_000).into();
    for mid in 2..100 {
        data.tsn = data.tsn.next();
        data.interleaved = Some(Interleaved { mid, fsn: 0 });
        pair.forge(&[Chunk::Data(data.clone())]);
        let held = pair.association(Server).stats().unread_bytes;
        assert!(held <= 21_000, "{held}");
    }
    assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::NoProgress)));
}

//= specs/rfc8260.txt#section-2.2.3
//= type=test
//# If I-DATA support has been negotiated for an association, the
//# reception of a DATA chunk is a violation of the above rules and
//# therefore the receiver of the DATA chunk MUST abort the association
//# by sending an ABORT chunk.
#[test]
fn the_wrong_data_chunk_ends_the_association() {
    for interleaving in [true, false] {
        let mut pair = Pair::up(with(interleaving));
        pair.send(Client, 0, pattern(10));
        pair.run(Duration::from_secs(1));
        let mut data = pair.data(Client)[0].clone();
        data.tsn = data.tsn.next();
        data.interleaved = if interleaving { None } else { Some(Default::default()) };
        pair.forge(&[Chunk::Data(data)]);
        assert_eq!(pair.closed(Server), Some(&Reason::PeerViolation(Violation::WrongDataChunk)));
        pair.run(Duration::from_secs(1));
        assert!(matches!(pair.closed(Client), Some(Reason::PeerAborted(_))));
    }
}
