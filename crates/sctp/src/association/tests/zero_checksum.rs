//! Packets without a checksum over a protecting lower layer (RFC 9653), and records without one: accepted by agreement only.

use super::dtls::{dtls, protect};
use super::*;
use crate::config::ErrorDetection;
use crate::dtls::DtlsConfig;
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

/// Protection whose key management method has records without a checksum, or another one has.
fn unchecked(is_unchecked: bool) -> Config {
    let method = if is_unchecked { DtlsConfig::PRE_SHARED } else { 7 };
    dtls(DtlsConfig { unchecked_with: Some(method), ..DtlsConfig::default() })
}

/// An association whose client and server have records without a checksum, with keys on both sides.
fn with_unchecked_records(client: bool, server: bool) -> Pair {
    let mut pair = Pair::with(unchecked(client), unchecked(server));
    pair.run(Duration::from_secs(1));
    protect(&mut pair, 3);
    pair
}

#[test]
fn records_have_no_checksum_where_that_was_agreed_on_and_only_there() {
    for is_unchecked in [true, false] {
        let mut pair = with_unchecked_records(is_unchecked, is_unchecked);
        assert!(pair.log.iter().all(|(.., packet)| packet.has_checksum()), "nothing was protected before");
        pair.clear_log();
        pair.send(Client, 0, pattern(5_000));
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.read(Server, 0).len(), 1);
        assert!(pair.log.iter().all(|(.., packet)| packet.has_checksum() != is_unchecked));
        pair.clear_log();
        pair.association(Client).shutdown();
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
        assert!(pair.log.last().is_some_and(|(.., packet)| packet.has_checksum()), "SHUTDOWN COMPLETE");
    }
}

#[test]
fn a_record_without_a_checksum_is_discarded_if_its_receiver_did_not_agree() {
    let mut pair = with_unchecked_records(true, false);
    let invalid = pair.server.counters().invalid;
    pair.send(Client, 0, pattern(100));
    pair.run(Duration::from_millis(100));
    assert!(pair.server.counters().invalid > invalid && pair.read(Server, 0).is_empty());
    // A retransmission has a checksum.
    pair.run(Duration::from_secs(5));
    assert_eq!(pair.read(Server, 0).len(), 1);
}

#[test]
fn over_ip_itself_records_have_a_checksum() {
    let addresses = ["127.0.0.1:0", "127.0.0.2:0"].map(|address| vec![address.parse().unwrap()]);
    let mut pair = Pair::between(addresses, unchecked(true), unchecked(true));
    pair.run(Duration::from_secs(1));
    protect(&mut pair, 3);
    pair.send(Client, 0, pattern(5_000));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 0).len(), 1);
    assert!(pair.log.iter().all(|(.., packet)| packet.has_checksum()));
}

#[test]
fn no_flipped_bit_of_a_record_without_a_checksum_is_accepted() {
    let mut pair = with_unchecked_records(true, true);
    pair.clear_log();
    pair.drop = Some(Box::new(move |_, _, _| true));
    pair.send(Client, 0, pattern(40));
    pair.run(Duration::from_millis(1));
    let (.., packet) = pair.log.iter().find(|(_, side, _)| *side == Client).unwrap().clone();
    assert!(!packet.has_checksum());
    let Header { source_port, destination_port, tag } = packet.header;
    let header =
        [&source_port.to_be_bytes()[..], &destination_port.to_be_bytes(), &tag.0.to_be_bytes(), &[0; 4]];
    let mut bytes = [&header.concat(), packet.chunks().rest()].concat();
    let readable =
        |pair: &mut Pair| pair.association(Server).stats().unread_bytes + pair.read(Server, 0).len();
    let chunk_len = usize::from(u16::from_be_bytes([bytes[Header::LEN + 2], bytes[Header::LEN + 3]]));
    for bit in 0..8 * (Header::LEN + chunk_len) {
        // The byte before the record is padding, which the receiver ignores, and so is all but the lowest of the flags.
        let ignored = 8 * (Header::LEN + 4)..8 * (Header::LEN + 5);
        let flags = 8 * (Header::LEN + 1)..8 * (Header::LEN + 2);
        if ignored.contains(&bit) || flags.contains(&bit) && bit % 8 != 0 {
            continue;
        }
        bytes[bit / 8] ^= 1 << (bit % 8);
        pair.forge_bytes(bytes.clone().into());
        assert_eq!(readable(&mut pair), 0, "bit {bit}");
        bytes[bit / 8] ^= 1 << (bit % 8);
    }
    pair.forge_bytes(bytes.into());
    assert!(readable(&mut pair) > 0, "the record itself");
}
