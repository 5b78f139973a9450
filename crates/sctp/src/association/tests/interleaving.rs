//! I-DATA between two endpoints: when it is used, and what it is good for (RFC 8260 §2.2).

use super::*;
use crate::association::{Scheduler, Violation};
use crate::wire::{Interleaved, Parameter};

fn with(interleaving: bool) -> Config {
    Config { interleaving, ..modern() }
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
fn an_init_without_extensions_has_no_parameter() {
    let pair = Pair::up(rfc());
    assert!(pair.log.is_empty());
    let mut pair = Pair::new(modern());
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
        let mut pair = Pair::up(Config { scheduler, ..with(interleaving) });
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
fn many_long_messages_at_once_do_not_fill_a_small_buffer_for_good() {
    for loss in [0, 50] {
        let mut pair = Pair::up(Config { receive_buffer_bytes: 20_000, ..with(true) }).seeded(3);
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
    let mut pair = Pair::up(Config { receive_buffer_bytes: 10_000, ..with(true) });
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
