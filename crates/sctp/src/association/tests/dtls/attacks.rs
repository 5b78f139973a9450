//! An on-path attacker who reads, drops, changes, replays and forges packets, and knows ports and tags:
//! associations survive, and forged data is never delivered.

use super::limits::forged;
use super::*;
use crate::ids::{Ssn, Tsn};
use crate::wire::{Interleaved, Sack};

/// One packet of each kind that would have an effect.
fn forgeries(pair: &mut Pair) -> Vec<Vec<Chunk>> {
    let stats = pair.association(Server).stats();
    assert!(stats.peer_rwnd > 0);
    let far = |tsn: u32| Tsn(tsn);
    let sack = |cum: u32| {
        let dups = Vec::new();
        Chunk::Sack(Sack { flags: 0, cum_tsn_ack: far(cum), a_rwnd: 0, gaps: vec![(2, 9)], dups })
    };
    let data = |tsn: u32| {
        let payload = Bytes::from_static(b"forged");
        let mut data = Data {
            begin: true,
            end: true,
            unordered: true,
            immediate: false,
            tsn: far(tsn),
            stream: StreamId(0),
            ssn: Ssn(0),
            interleaved: None,
            ppid: Ppid(crate::dtls::KEY_MANAGEMENT_PPID),
            payload,
        };
        if stats.extensions.unwrap().interleaving {
            data.interleaved = Some(Interleaved { mid: 0, fsn: 0 });
        }
        Chunk::Data(data)
    };
    let mut packets = vec![
        vec![Chunk::Abort { reflected: false, causes: Vec::new() }],
        vec![Chunk::ShutdownAck],
        vec![Chunk::ShutdownComplete { reflected: false }],
        vec![Chunk::Error(vec![Cause::StaleCookie(1)])],
        vec![Chunk::CookieAck],
        vec![Chunk::Heartbeat(Bytes::from_static(b"who is there"))],
        vec![Chunk::Dtls(Dtls { is_restart: false, record: pattern(40).into() })],
        vec![Chunk::Dtls(Dtls { is_restart: true, record: pattern(40).into() })],
        vec![Chunk::Dtls(Dtls { is_restart: false, record: pattern(40).into() }), Chunk::ShutdownAck],
    ];
    for tsn in [0, 1 << 30, 1 << 31, 3 << 30] {
        packets.push(vec![Chunk::Shutdown { cum_tsn_ack: far(tsn) }]);
        packets.push(vec![sack(tsn)]);
        packets.push(vec![data(tsn)]);
    }
    packets
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# After the application or key managment method has restricted the SCTP packet handling to protected
//# SCTP packets only, an SCTP packet not containing a DTLS chunk MUST be
//# silently discarded unless they contain an INIT or INIT-ACK chunk.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# Upon receipt of an SCTP packet in which a DTLS chunk is bundled with any
//# other chunk, the entire packet MUST be silently discarded.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# If the Chunk Protection Operator experiences a non-critical error,
//# it MUST NOT abort the association.
#[test]
fn unprotected_packets_are_silently_discarded() {
    let mut pair = protected(strict());
    pair.run(Duration::from_secs(1));
    pair.clear_log();
    for chunks in forgeries(&mut pair) {
        pair.forge(&chunks);
        assert!(pair.packets(Server).is_empty(), "{chunks:?} is answered");
        assert_eq!((pair.closed(Server), pair.read(Server, 0).len()), (None, 0), "{chunks:?}");
    }
    let before = pair.association(Server).stats().paths[0].packets_sent;
    pair.send(Client, 1, pattern(20_000));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 1), [pattern(20_000)]);
    assert!(pair.association(Server).stats().paths[0].packets_sent > before);
    let stats = pair.association(Server).dtls_stats();
    assert!(stats.dropped_unprotected >= 15, "{stats:?}");
    assert!(stats.unreadable >= 1, "{stats:?}");
}

#[test]
fn the_t_bit_admits_no_other_chunks() {
    let mut pair = protected(strict());
    let server_header = pair.last_header.unwrap();
    let tag = pair.association(Server).peer_tag().unwrap();
    for chunk in
        [Chunk::Abort { reflected: true, causes: Vec::new() }, Chunk::ShutdownComplete { reflected: true }]
    {
        let mut builder = PacketBuilder::new();
        builder.begin(Header { tag, ..server_header }, 1_000);
        builder.push(&chunk);
        builder.seal();
        pair.forge_bytes(builder.finish().unwrap().payload);
        assert_eq!(pair.closed(Server), None, "{chunk:?}");
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-10
//= type=test
//# DTLS replay protection MUST NOT be turned off.
#[test]
fn a_replayed_record_has_no_effect() {
    let mut pair = protected(strict());
    pair.send(Client, 1, pattern(50_000));
    pair.duplication = 1_000;
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.read(Server, 1), [pattern(50_000)]);
    let stats = pair.association(Server).dtls_stats();
    assert!(stats.replayed >= stats.opened - 5, "{stats:?}");
    // No packet was accepted twice.
    assert_eq!(pair.association(Server).stats().duplicates, 0);
}

/// Bytes of a packet with one bit flipped and the right checksum.
fn flipped(packet: &Packet, bit: usize) -> Bytes {
    let Some(Chunk::Dtls(dtls)) = chunks(packet).into_iter().next() else { panic!("{packet}") };
    let mut record = dtls.record.to_vec();
    let bit = bit % (record.len() * 8);
    record[bit / 8] ^= 1 << (bit % 8);
    let mut builder = PacketBuilder::new();
    builder.begin(packet.header, PacketBuilder::MAX_BYTES);
    builder.push(&Chunk::Dtls(Dtls { record: record.into(), ..dtls }));
    builder.seal();
    builder.finish().unwrap().payload
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.2
//= type=test
//# Upon receiving such a record, implementations SHOULD discard it silently, without
//# sending an alert, updating handshake state, ACK state, retransmission state, or
//# replay windows.
//= specs/draft-ietf-tls-rfc9147bis.md#section-11
//= type=test
//# Unlike TLS implementations, DTLS implementations SHOULD NOT respond to invalid
//# records by terminating the connection.
#[test]
fn flipped_bits_cost_packets_and_nothing_else() {
    for seed in 0..30 {
        let mut pair = protected(strict()).seeded(seed);
        pair.send(Client, 1, pattern(60_000));
        let mut dice = Dice(seed * 77 + 1);
        let mut seen = 0;
        while pair.read(Server, 1).is_empty() {
            let now = pair.now;
            pair.run(Duration::from_millis(5));
            assert!(now.since(Time::ZERO) < Duration::from_secs(600));
            let new: Vec<_> = pair.log[seen..]
                .iter()
                .filter(|entry| entry.1 == Client)
                .map(|entry| entry.2.clone())
                .collect();
            seen = pair.log.len();
            for packet in new {
                // Half of the time it arrives before the original.
                pair.forge_bytes(flipped(&packet, dice.roll(1 << 20) as usize));
            }
        }
        assert_eq!(pair.read(Server, 1), [pattern(60_000)]);
        assert_eq!((pair.closed(Client), pair.closed(Server)), (None, None));
        let stats = pair.association(Server).dtls_stats();
        assert!(stats.forged + stats.unreadable > 30, "{stats:?}");
    }
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-6.1
//= type=test
//# Implementations that receive a record with an epoch value for which no corresponding
//# cipher state can be determined SHOULD handle it as a record which fails deprotection.
#[test]
fn records_of_an_unknown_epoch_are_discarded_and_counted() {
    let mut pair = protected(strict());
    pair.run(Duration::from_secs(1));
    // There are keys of epoch 3; a record carries the two low bits of its epoch.
    for epoch in [0, 1, 2, 4, 5, 6] {
        pair.forge(&[forged(epoch)]);
    }
    let stats = pair.association(Server).dtls_stats();
    assert_eq!((stats.unreadable, stats.forged), (6, 0), "{stats:?}");
    assert_eq!(pair.server.counters().unopened_records, 6);
    pair.send(Client, 1, pattern(5_000));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 1), [pattern(5_000)]);
    assert_eq!((pair.closed(Client), pair.closed(Server)), (None, None));
}

#[test]
fn records_of_another_association_open_nothing() {
    let mut other = protected(strict());
    other.send(Client, 1, pattern(5_000));
    let mut pair = Pair::up(strict());
    // The same record numbers with other keys.
    for side in [Client, Server] {
        let (send, receive) = if side == Client { (50, 60) } else { (60, 50) };
        pair.association(side).add_receive_keys(primary(3), keys(receive)).unwrap();
        pair.association(side).set_send_keys(primary(3), keys(send)).unwrap();
        pair.association(side).require_protection().unwrap();
    }
    other.run(Duration::from_secs(1));
    let header = pair.last_header.unwrap();
    let stolen: Vec<_> = other.log.iter().map(|entry| entry.2.clone()).collect();
    for packet in stolen {
        let mut builder = PacketBuilder::new();
        builder.begin(header, PacketBuilder::MAX_BYTES);
        chunks(&packet).iter().for_each(|chunk| builder.push(chunk));
        builder.seal();
        pair.forge_bytes(builder.finish().unwrap().payload);
    }
    // A side's own packets are reflected.
    let stats = pair.association(Server).dtls_stats();
    assert!(stats.opened == 0 && stats.forged > 4, "{stats:?}");
    assert_eq!(pair.closed(Server), None);
}

#[test]
fn an_init_and_its_cookie_do_not_restart_a_protected_association() {
    let mut pair = protected(strict());
    pair.run(Duration::from_millis(100));
    pair.send(Client, 1, pattern(1_000));
    pair.run(Duration::from_millis(500));
    let init = {
        let mut other = Pair::new(strict());
        other.run(Duration::from_millis(1));
        other.packets(Client).into_iter().flatten().next().unwrap()
    };
    // A restarted peer has a new tag; with the old one the cookie would be discarded for that reason.
    let Chunk::Init(init) = init else { panic!("{init:?}") };
    let init = Chunk::Init(Init { initiate_tag: crate::VerificationTag(init.initiate_tag.0 ^ 1), ..init });
    let header = pair.last_header.unwrap();
    let packet = |tag, chunk: &Chunk| {
        let mut builder = PacketBuilder::new();
        builder.begin(Header { tag, ..header }, 1_452);
        builder.push(chunk);
        builder.seal();
        builder.finish().unwrap().payload
    };
    pair.clear_log();
    pair.forge_bytes(packet(crate::VerificationTag(0), &init));
    let answer = pair.packets(Server).into_iter().flatten().next();
    let Some(Chunk::InitAck(ack)) = answer else { panic!("{answer:?}") };
    // An on-path attacker reads the cookie.
    let cookie = ack.state_cookie().unwrap().clone();
    pair.clear_log();
    pair.forge_bytes(packet(ack.initiate_tag, &Chunk::CookieEcho(cookie)));
    assert!(pair.packets(Server).is_empty());
    assert!(!pair.events(Server).contains(&Event::Restarted));
    pair.send(Client, 1, pattern(1_000));
    pair.send(Server, 1, pattern(1_000));
    pair.run(Duration::from_secs(1));
    assert_eq!((pair.read(Server, 1).len(), pair.read(Client, 1).len()), (2, 1));
}

/// A forged INIT in the peer's name that is rejected: without the parameter of protection, and with a window that is too small.
#[test]
fn a_rejected_init_causes_no_abort_with_the_tag_of_a_protected_association() {
    for is_protected in [false, true] {
        let mut pair = Pair::up(strict());
        if is_protected {
            protect(&mut pair, 3);
        }
        pair.run(Duration::from_secs(1));
        let header = Header { tag: crate::VerificationTag(0), ..pair.last_header.unwrap() };
        let peer = pair.association(Server).peer_tag().unwrap();
        let mut answer = |tag: u32, a_rwnd| {
            let init = Init {
                initiate_tag: crate::VerificationTag(tag),
                a_rwnd,
                outbound_streams: 1,
                inbound_streams: 1,
                initial_tsn: crate::Tsn(1),
                parameters: Vec::new(),
            };
            let mut builder = PacketBuilder::new();
            builder.begin(header, 1_452);
            builder.push(&Chunk::Init(init));
            builder.seal();
            pair.clear_log();
            pair.forge_bytes(builder.finish().unwrap().payload);
            pair.packets(Server).into_iter().flatten().next()
        };
        for (a_rwnd, cause) in [(100_000, Cause::MissingDtlsSupport), (1, Cause::InvalidMandatoryParameter)] {
            assert_eq!(answer(peer.0, a_rwnd), None);
            // A restarted peer is informed of the reason.
            let refused = Chunk::Abort { reflected: false, causes: vec![cause] };
            assert_eq!(answer(peer.0 ^ 1, a_rwnd), Some(refused));
        }
    }
}

#[test]
fn before_keys_are_set_forged_user_data_is_discarded() {
    let mut pair = Pair::up(strict());
    let tsn = {
        pair.association(Client)
            .send(StreamId(0), Message::new(Ppid(crate::dtls::KEY_MANAGEMENT_PPID), pattern(10)))
            .unwrap();
        pair.run(Duration::from_secs(1));
        pair.data(Client).last().unwrap().clone()
    };
    for stream in [0, 3] {
        let forged = Data { tsn: tsn.tsn.next(), stream: StreamId(stream), ppid: Ppid(0), ..tsn.clone() };
        pair.forge(&[Chunk::Data(forged)]);
    }
    assert_eq!(key_management(&mut pair, Server).len(), 1);
    assert_eq!((pair.read(Server, 0).len(), pair.read(Server, 3).len()), (0, 0));
    assert_eq!(pair.association(Server).dtls_stats().dropped_unprotected, 2);
    protect(&mut pair, 3);
    pair.send(Client, 3, pattern(500));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 3), [pattern(500)], "its TSN was not taken by the forger's");
}

#[test]
fn an_unprotected_protocol_unreachable_is_ignored_by_a_protected_association() {
    let mut pair = protected(strict());
    pair.association(Server).on_protocol_unreachable();
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.closed(Server), None);
}

/// Takes the client's next packet off the link.
fn intercepted(pair: &mut Pair) -> Packet {
    pair.drop = Some(Box::new(|side, _, _| side == Client));
    pair.clear_log();
    pair.send(Client, 1, pattern(100));
    pair.run(Duration::from_millis(1));
    pair.drop = None;
    pair.log.iter().find(|entry| entry.1 == Client).map(|entry| entry.2.clone()).unwrap()
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# Upon receipt of an SCTP packet in which a DTLS chunk is bundled with any
//# other chunk, the entire packet MUST be silently discarded.
#[test]
fn a_good_record_beside_another_chunk_is_not_opened() {
    let mut pair = protected(strict());
    pair.run(Duration::from_secs(1));
    let good = chunks(&intercepted(&mut pair)).remove(0);
    let pad = Chunk::Pad(4);
    let opened = |pair: &mut Pair| pair.association(Server).dtls_stats().opened;
    let before = opened(&mut pair);
    pair.forge(&[good.clone(), pad.clone()]);
    pair.forge(&[pad, good.clone()]);
    pair.forge(&[good.clone(), good.clone()]);
    assert_eq!((opened(&mut pair), pair.read(Server, 1).len()), (before, 0));
    pair.forge(&[good]);
    assert_eq!((opened(&mut pair), pair.read(Server, 1).len()), (before + 1, 1));
}

#[test]
fn after_the_first_record_unprotected_packets_are_discarded() {
    let mut pair = Pair::up(strict());
    for (side, send, receive) in [(Client, 1, 2), (Server, 2, 1)] {
        pair.association(side).add_receive_keys(primary(3), keys(receive)).unwrap();
        pair.association(side).set_send_keys(primary(3), keys(send)).unwrap();
    }
    assert!(!pair.association(Server).requires_protection());
    pair.send(Client, 1, pattern(100));
    pair.run(Duration::from_millis(20));
    assert!(pair.association(Server).requires_protection());
    pair.forge(&[Chunk::Abort { reflected: false, causes: Vec::new() }]);
    assert_eq!((pair.closed(Server), pair.read(Server, 1)), (None, vec![pattern(100)]));
}
