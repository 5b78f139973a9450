//! Packets without a checksum over a protecting lower layer (RFC 9653): accepted by agreement only.

use super::*;
use crate::config::ErrorDetection;
use crate::packet_builder::Checksum;
use crate::wire::{Init, Parameter, WireError};

fn with(guarded: bool) -> Config {
    modern().with(|c| c.security.zero_checksum = guarded.then_some(ErrorDetection::Dtls))
}

/// The log, and the checksum field of each of its packets, of a transfer each way and a shutdown.
fn transfer(client: bool, server: bool) -> (Pair, Vec<bool>) {
    let mut pair = Pair::with(with(client), with(server));
    pair.send(Client, 0, pattern(5_000));
    pair.run(Duration::from_secs(1));
    pair.send(Server, 1, pattern(5_000));
    pair.run(Duration::from_secs(1));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(1));
    assert_eq!((pair.read(Server, 0).len(), pair.read(Client, 1).len()), (1, 1));
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
    let bare = pair.log.iter().map(|(_, _, packet)| !packet.has_checksum()).collect();
    (pair, bare)
}

#[test]
fn the_checksum_is_left_out_if_both_sides_are_guarded_and_only_then() {
    for (client, server) in [(true, true), (true, false), (false, true), (false, false)] {
        let (pair, bare) = transfer(client, server);
        assert_eq!(bare.iter().any(|bare| *bare), client && server);
        let says = |side| {
            pair.packets(side).into_iter().flatten().any(|chunk| match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => {
                    init.parameters.contains(&Parameter::ZeroChecksum(1))
                }
                _ => false,
            })
        };
        assert_eq!((says(Client), says(Server)), (client, server));
    }
}

#[test]
fn packets_that_start_or_end_an_association_have_a_checksum() {
    let (pair, bare) = transfer(true, true);
    let mut seen = BTreeSet::new();
    for ((_, _, packet), bare) in pair.log.iter().zip(bare) {
        for kind in [Init::KIND, Init::ACK_KIND, Chunk::COOKIE_ECHO, Chunk::SHUTDOWN_COMPLETE] {
            if has(packet, kind) {
                assert!(!bare, "{packet}");
                seen.insert(kind);
            }
        }
    }
    assert_eq!(seen.len(), 4);
}

/// A peer that has forgotten the association takes no packet without a checksum, and so could not say so.
#[test]
fn probes_of_a_silent_peer_have_a_checksum() {
    let config = with(true).with(|c| c.timers.heartbeat_interval = Some(Duration::from_secs(5)));
    let mut pair = Pair::up(config);
    pair.drop = Some(Box::new(|side, _, packet| side == Client && has(packet, Chunk::SHUTDOWN_COMPLETE)));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(5));
    assert!(pair.closed(Client).is_some());
    let asks = |pair: &Pair, kind| {
        let of_kind = pair.log.iter().filter(|entry| has(&entry.2, kind));
        of_kind.map(|entry| entry.2.has_checksum()).collect::<BTreeSet<_>>()
    };
    assert_eq!(asks(&pair, Chunk::SHUTDOWN_ACK), BTreeSet::from([true]));
    let mut pair = Pair::up(with(true).with(|c| c.timers.heartbeat_interval = Some(Duration::from_secs(5))));
    pair.run(Duration::from_secs(20));
    assert_eq!(asks(&pair, Chunk::HEARTBEAT), BTreeSet::from([true]));
    pair.clear_log();
    pair.drop = Some(Box::new(|side, _, _| side == Client));
    pair.send(Client, 0, pattern(10));
    pair.run(Duration::from_secs(3));
    let sent: Vec<_> = pair.log.iter().filter(|entry| has(&entry.2, Data::KIND)).collect();
    assert!(!sent[0].2.has_checksum() && sent.last().unwrap().2.has_checksum());
}

/// A packet of the client's with these chunks and this in its checksum field.
fn forged(pair: &Pair, chunks: &[Chunk], checksum: Option<u32>) -> Bytes {
    let mut builder = PacketBuilder::new();
    builder.begin(pair.last_header.unwrap(), 1_452);
    chunks.iter().for_each(|chunk| builder.push(chunk));
    builder.seal_with(Checksum::Zero);
    let mut bytes = builder.finish().unwrap().payload.to_vec();
    let right = crc_fast::crc32_iscsi(&bytes);
    bytes[8..12].copy_from_slice(&checksum.unwrap_or(right).to_le_bytes());
    bytes.into()
}

#[test]
fn a_zero_checksum_is_accepted_only_where_announced() {
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"beat"));
    for (client, server) in [(true, true), (false, true), (true, false), (false, false)] {
        let mut pair = Pair::with(with(client), with(server));
        pair.run(Duration::from_secs(1));
        let mut answers = |checksum| {
            pair.clear_log();
            let packet = forged(&pair, std::slice::from_ref(&heartbeat), checksum);
            pair.forge_bytes(packet);
            pair.log.len()
        };
        assert_eq!(answers(None), 1, "the right one is always taken");
        assert_eq!(answers(Some(0)), usize::from(server), "what counts is what the receiver said");
        assert_eq!(answers(Some(1)), 0);
        assert_eq!(answers(Some(u32::MAX)), 0);
    }
}

#[test]
fn a_handshake_without_checksums_is_ignored() {
    let mut pair = Pair::with(with(true), with(true));
    pair.run(Duration::from_millis(15));
    let packets: Vec<_> = pair.log.iter().map(|(_, side, packet)| (*side, packet.clone())).collect();
    let mut fresh = Pair::with(with(true), with(true));
    for (_, packet) in packets.iter().filter(|(side, _)| *side == Client) {
        let mut builder = PacketBuilder::new();
        builder.begin(packet.header, 1_452);
        chunks(packet).iter().for_each(|chunk| builder.push(chunk));
        builder.seal_with(Checksum::Zero);
        let payload = builder.finish().unwrap().payload;
        assert!(matches!(Packet::decode(payload.clone()), Err(WireError::Checksum { found: 0, .. })));
        fresh.forge_bytes(payload);
    }
    assert!(fresh.log.is_empty() && fresh.server_id.is_none());
    assert!(fresh.server.counters().invalid > 0);
}

#[test]
fn an_out_of_the_blue_packet_needs_its_checksum() {
    let mut pair = Pair::with(with(true), with(true));
    pair.run(Duration::from_secs(1));
    pair.clear_log();
    let mut header = pair.last_header.unwrap();
    header.tag.0 ^= 1;
    pair.last_header = Some(header);
    // From a port that has no association.
    let answers = |pair: &mut Pair, checksum| {
        let packet = forged(pair, &[Chunk::ShutdownAck], checksum);
        let mut bytes = packet.to_vec();
        bytes[0] ^= 1;
        if checksum.is_none() {
            bytes[8..12].fill(0);
            let crc = crc_fast::crc32_iscsi(&bytes);
            bytes[8..12].copy_from_slice(&crc.to_le_bytes());
        }
        pair.clear_log();
        pair.forge_bytes(bytes.into());
        pair.log.iter().map(|(_, _, packet)| packet.has_checksum()).collect::<Vec<_>>()
    };
    assert_eq!(answers(&mut pair, Some(0)), []);
    assert_eq!(answers(&mut pair, None), [true], "and so does the answer");
}

#[test]
fn another_method_of_the_peers_is_of_no_use() {
    let mut pair = Pair::with(with(true), with(true));
    pair.drop = Some(Box::new(|_, _, _| true));
    pair.run(Duration::from_millis(1));
    let init = |method: u32| {
        let Chunk::Init(mut init) = pair.packets(Client)[0][0].clone() else { panic!() };
        init.parameters = vec![Parameter::ZeroChecksum(method)];
        crate::extensions::Extensions::listed(&init).zero_checksum
    };
    assert!(init(1) && !init(0) && !init(2));
}
