//! Protected packets between two endpoints, and forged or unprotected ones
//! (draft-ietf-tsvwg-sctp-dtls-chunk).

mod attacks;
mod limits;
mod restart;

use super::*;
use crate::association::{DtlsError, DtlsEvent, SendError, Violation};
use crate::dtls::tests::keys;
use crate::dtls::{Agreement, Disagreement, DtlsConfig, KeysId, Mode, PACKET_OVERHEAD, Purpose, Role, Roles};
use crate::stats::PathState;
use crate::wire::{Cause, Dtls, Init, KeyManagement, Parameter, Record};

pub(super) fn dtls(dtls: DtlsConfig) -> Config {
    modern().with(|c| c.security.dtls = Some(dtls))
}

pub(super) fn strict() -> Config {
    dtls(DtlsConfig { restart: true, ..DtlsConfig::default() })
}

pub(super) fn primary(epoch: u64) -> KeysId {
    KeysId { purpose: Purpose::Primary, epoch }
}

/// Installs the keys of an epoch on both sides, those for receiving first, and requires protection from then on.
pub(super) fn protect(pair: &mut Pair, epoch: u64) {
    let seed = |side| if side == Client { epoch as u8 } else { 100 + epoch as u8 };
    for (side, other) in [(Client, Server), (Server, Client)] {
        pair.association(side).add_receive_keys(primary(epoch), keys(seed(other))).unwrap();
    }
    for side in [Client, Server] {
        pair.association(side).set_send_keys(primary(epoch), keys(seed(side))).unwrap();
        pair.association(side).require_protection().unwrap();
    }
}

/// Creates an established association with keys on both sides.
pub(super) fn protected(config: Config) -> Pair {
    let mut pair = Pair::up(config);
    protect(&mut pair, 3);
    pair
}

fn agreement(pair: &mut Pair, side: Side) -> Option<Agreement> {
    pair.association(side).dtls_agreement().cloned()
}

/// Takes the received messages of key management.
pub(super) fn key_management(pair: &mut Pair, side: Side) -> Vec<Vec<u8>> {
    let association = pair.association(side);
    let mut messages = vec![Vec::new()];
    while let Some(piece) = association.recv_key_management() {
        messages.last_mut().unwrap().extend(piece.payload.concat());
        if piece.end {
            messages.push(Vec::new());
        }
    }
    messages.pop();
    messages
}

fn offered(pair: &Pair, side: Side) -> Option<KeyManagement> {
    pair.packets(side).into_iter().flatten().find_map(|chunk| match chunk {
        Chunk::Init(init) | Chunk::InitAck(init) => {
            init.parameters.into_iter().find_map(|parameter| match parameter {
                Parameter::KeyManagement(keys) => Some(keys),
                _ => None,
            })
        }
        _ => None,
    })
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
//= type=test
//# To initiate an SCTP association, an SCTP endpoint wanting to use the DTLS chunk
//# MUST send an SCTP packet with an INIT chunk containing the DTLS Key Management
//# Parameter (see {{protectedassoc-parameter}}).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
//= type=test
//# If an SCTP endpoint operating in strict DTLS mode receives an SCTP packet
//# containing an INIT chunk with a compatible DTLS Key Management Parameter,
//# it MUST reply with a packet containing an INIT ACK containing its own DTLS Key
//# Management Parameters.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
//= type=test
//# To ensure that each endpoint's Key Management Method knows which role it has and
//# both endpoints agree on which method that was chosen the below procedure MUST be
//# executed by both endpoints before entering the ESTABLISHED state.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
//= type=test
//# The DTLS Key Management Parameter MAY be included in the INIT and INIT ACK chunk
//# and MUST NOT be included in any other chunk.
#[test]
fn both_sides_know_what_they_agreed_on() {
    let offer = |roles, methods: &[u8]| {
        dtls(DtlsConfig { roles, methods: methods.to_vec(), ..DtlsConfig::default() })
    };
    let mut pair = Pair::with(offer(Roles::Client, &[7, 8]), offer(Roles::Both, &[8, 7]));
    pair.run(Duration::from_millis(100));
    let (client, server) = (agreement(&mut pair, Client).unwrap(), agreement(&mut pair, Server).unwrap());
    assert_eq!((client.role, client.method, client.restart), (Role::Client, 8, false));
    assert_eq!((server.role, server.method, server.restart), (Role::Server, 8, false));
    assert_eq!(client.client_and_server(), server.client_and_server());
    let ours = offered(&pair, Client).unwrap();
    assert_eq!((ours.flags, &ours.methods[..]), (KeyManagement::CLIENT, &[7, 8][..]));
    let theirs = offered(&pair, Server).unwrap();
    assert_ne!(ours.tie_breaker, theirs.tie_breaker);
    // A cookie holds both parameters, sealed.
    let begins = |kind| [Init::KIND, Init::ACK_KIND, Chunk::COOKIE_ECHO].contains(&kind);
    let said = [Client, Server].map(|side| pair.packets(side)).concat();
    for chunk in said.iter().flatten().filter(|chunk| !begins(chunk.kind())) {
        assert!(!chunk.quoted().windows(2).any(|two| two == [0x80, 0x06]), "{chunk}");
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
//= type=test
//# If an SCTP endpoint operates in strict DTLS mode and receives an SCTP packet
//# with an INIT or INIT ACK chunk does not contain any DTLS Key Management Parameter
//# or only an incompatible one, the endpoint MUST send an SCTP packet with an
//# ABORT chunk.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.1
//= type=test
//# It MUST NOT be included in any other chunk.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.2
//= type=test
//# It MUST NOT be included in any other chunk.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.3
//= type=test
//# It MUST NOT be included in any other chunk.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.4
//= type=test
//# It MUST NOT be included in any other chunk.
#[test]
fn strict_mode_rejects_peers_without_protection() {
    let one = |roles, methods: &[u8]| {
        dtls(DtlsConfig { roles, methods: methods.to_vec(), ..DtlsConfig::default() })
    };
    for (client, server, cause) in [
        (modern(), strict(), Cause::MissingDtlsSupport),
        (one(Roles::Both, &[1]), one(Roles::Both, &[2]), Cause::NoCommonKeyManagement),
        (one(Roles::Client, &[1]), one(Roles::Client, &[1]), Cause::IncompatibleKeyManagementRoles),
    ] {
        let mut pair = Pair::with(client, server);
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.closed(Client), Some(&Reason::PeerAborted(vec![cause])));
        assert!(pair.server.is_empty());
        assert!(pair.packets(Server).iter().flatten().all(|chunk| chunk.kind() == Chunk::ABORT));
    }
    // The INIT ACK of a peer without support.
    let mut pair = Pair::with(strict(), modern());
    pair.run(Duration::from_secs(1));
    let violation = Violation::Dtls(Disagreement::NotOffered);
    assert_eq!(pair.closed(Client), Some(&Reason::PeerViolation(violation)));
    let said = pair.packets(Client).into_iter().flatten().find(|chunk| chunk.kind() == Chunk::ABORT).unwrap();
    assert_eq!(said, Chunk::Abort { reflected: false, causes: vec![Cause::MissingDtlsSupport] });
    assert!(pair.server.is_empty());
}

#[test]
fn loose_mode_continues_without_protection() {
    let loose = || dtls(DtlsConfig { mode: Mode::Loose, ..DtlsConfig::default() });
    for (client, server) in [(modern(), loose()), (loose(), modern())] {
        let mut pair = Pair::with(client, server);
        pair.run(Duration::from_millis(100));
        assert_eq!((agreement(&mut pair, Client), agreement(&mut pair, Server)), (None, None));
        pair.send(Client, 1, pattern(10_000));
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.read(Server, 1), [pattern(10_000)]);
        let id = primary(3);
        for side in [Client, Server] {
            assert_eq!(pair.association(side).set_send_keys(id, keys(1)), Err(DtlsError::NotAgreed));
            assert_eq!(pair.association(side).require_protection(), Err(DtlsError::NotAgreed));
        }
    }
    let mut pair = Pair::up(loose());
    assert!(agreement(&mut pair, Client).is_some() && agreement(&mut pair, Server).is_some());
}

/// Both are initiators: the tie breakers of both INITs make one the client.
#[test]
fn two_sides_that_start_simultaneously_agree_and_are_protected() {
    let said = |side| format!("{side:?}'s hello").into_bytes();
    for drops in 0..16_u32 {
        let mut pair = Pair::new(strict());
        let port = pair.association(Client).ports().0;
        let connect = Connect {
            local: vec![server_address()],
            peer: vec![client_address()],
            source_port: Some(PORT),
            destination_port: port,
            config: Arc::new(strict()),
        };
        pair.server_id = Some(pair.server.connect(pair.now, connect).unwrap());
        // Each of the first two packets of either side may be lost.
        pair.drop =
            Some(Box::new(move |side, nth, _| nth < 2 && drops >> (2 * side as usize + nth) & 1 == 1));
        for side in [Client, Server] {
            let hello = Message::new(Ppid(crate::dtls::KEY_MANAGEMENT_PPID), said(side));
            pair.association(side).send(StreamId(0), hello).unwrap();
        }
        pair.run(Duration::from_secs(20));
        assert_eq!((pair.client.len(), pair.server.len()), (1, 1));
        let (client, server) = (agreement(&mut pair, Client).unwrap(), agreement(&mut pair, Server).unwrap());
        assert_ne!(client.role, server.role, "{drops:04b}");
        assert_eq!(client.method, server.method);
        assert_eq!(client.client_and_server(), server.client_and_server());
        assert_eq!(key_management(&mut pair, Client), [said(Server)]);
        assert_eq!(key_management(&mut pair, Server), [said(Client)]);
        protect(&mut pair, 3);
        for (side, other) in [(Client, Server), (Server, Client)] {
            pair.send(side, 1, pattern(5_000));
            pair.run(Duration::from_secs(1));
            assert_eq!(pair.read(other, 1), [pattern(5_000)]);
        }
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
//= type=test
//# Therefore, its support MUST NOT
//# be negotiated in combination with the support of the DTLS chunk.
#[test]
fn authentication_is_never_offered_beside_it() {
    let auth = crate::config::AuthConfig::default();
    let mut pair = Pair::new(strict().with(|c| {
        c.security.auth = Some(auth);
        c.paths.asconf = true;
    }));
    pair.run(Duration::from_millis(100));
    for side in [Client, Server] {
        let kinds: Vec<u16> = pair
            .packets(side)
            .into_iter()
            .flatten()
            .filter_map(|chunk| match chunk {
                Chunk::Init(init) | Chunk::InitAck(init) => Some(init.parameters),
                _ => None,
            })
            .flatten()
            .map(|parameter| parameter.kind())
            .collect();
        assert!(kinds.contains(&Parameter::KEY_MANAGEMENT));
        for kind in [Parameter::RANDOM, Parameter::CHUNK_LIST, Parameter::HMAC_ALGO] {
            assert!(!kinds.contains(&kind), "{kind:#x}");
        }
        assert!(!pair.association(side).stats().extensions.unwrap().auth);
    }
    // A side that offers both is not required to use one.
    let mut pair = Pair::with(
        modern().with(|c| c.security.auth = Some(crate::config::AuthConfig::default())),
        dtls(DtlsConfig { mode: Mode::Loose, ..DtlsConfig::default() }),
    );
    pair.run(Duration::from_millis(100));
    assert!(!pair.association(Server).stats().extensions.unwrap().auth);
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# Once the part of the DTLS key context responsible for sending DTLS chunks
//# has been configured by the application, all SCTP packets SHALL be sent using a DTLS chunk.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# The DTLS chunk MUST NOT be bundled with any other chunk.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# Specifically,
//# it MUST appear as the first and only chunk in the packet.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
//= type=test
//# When the DTLS chunk is used, the endpoint MUST consider the DTLS chunk header
//# and the overhead of DTLS to ensure that the final SCTP packet does not exceed
//# the PMTU.
#[test]
fn with_keys_only_dtls_chunks_are_sent_and_they_fit() {
    let mut pair = protected(strict());
    pair.send(Client, 1, pattern(300_000));
    pair.send(Server, 2, pattern(100_000));
    pair.run(Duration::from_secs(120));
    pair.association(Client).shutdown();
    pair.run(Duration::from_secs(10));
    assert_eq!(pair.read(Server, 1), [pattern(300_000)]);
    assert_eq!(pair.read(Client, 2), [pattern(100_000)]);
    assert_eq!(
        (pair.closed(Client), pair.closed(Server)),
        (Some(&Reason::Shutdown), Some(&Reason::Shutdown))
    );
    let mtu = modern().path_mtu.packet_bytes;
    for (_, _, packet) in &pair.log {
        assert!(packet.kinds().is_dtls_alone(), "{packet}");
        assert!(packet.len() <= mtu);
    }
    let full = pair.log.iter().filter(|(_, _, packet)| packet.len() == mtu & !3).count();
    assert!(full > 200, "{full} packets are full");
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-4.3
//= type=test
//# Each DTLS record MUST fit within a single datagram.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.3
//= type=test
//# In order to avoid IP fragmentation, clients of the DTLS record layer SHOULD attempt
//# to size records so that they fit within any Path MTU (PMTU) estimates obtained from
//# the record layer.
#[test]
fn chunks_are_sized_to_fit_with_the_protection_overhead() {
    let discovery = crate::MtuDiscovery::default();
    let mut pair = protected(rfc().with(|c| {
        c.path_mtu.discovery = Some(discovery);
        c.security.dtls = strict().security.dtls;
    }));
    let pmdcs = pair.association(Client).paths[0].pmdcs();
    assert_eq!(pmdcs, (rfc().path_mtu.packet_bytes - 12 - 28) & !3);
    pair.send(Client, 1, pattern(100_000));
    assert!(pair.run_until(|pair| !pair.read(Server, 1).is_empty()));
    // No packet exceeded the MTU.
    assert!(pair.log.iter().all(|(_, _, packet)| packet.len() <= rfc().path_mtu.packet_bytes));
    assert!(!pair.splits.contains(&(Split::Allowed as u8)));
}

/// If both methods permit it, the last chunk of a record has no padding: a full packet has user data up to its last byte.
#[test]
fn a_full_packet_has_user_data_in_place_of_padding() {
    const PACKETS: usize = 100;
    let full = modern().path_mtu.packet_bytes & !3;
    for (unpadded_with, saved) in [(None, 0), (Some(7), 0), (Some(DtlsConfig::PRE_SHARED), 3)] {
        let mut pair = protected(dtls(DtlsConfig { unpadded_with, ..DtlsConfig::default() }));
        let pmdcs = full - Header::LEN - PACKET_OVERHEAD + saved;
        assert_eq!(pair.association(Client).paths[0].pmdcs(), pmdcs);
        pair.clear_log();
        let message = pattern(PACKETS * (pmdcs - Data::HEADER_LEN));
        pair.send(Client, 1, message.clone());
        assert!(pair.run_until(|pair| !pair.read(Server, 1).is_empty()));
        assert_eq!(pair.read(Server, 1), [message]);
        let sizes: Vec<_> =
            pair.log.iter().filter(|(_, side, _)| *side == Client).map(|(.., packet)| packet.len()).collect();
        assert_eq!(sizes, [full; PACKETS], "{unpadded_with:?}");
    }
}

/// One side omits padding; chunks of all lengths are lost and retransmitted, alone and bundled.
#[test]
fn chunks_without_padding_are_retransmitted() {
    let unpadded = dtls(DtlsConfig { unpadded_with: Some(DtlsConfig::PRE_SHARED), ..DtlsConfig::default() });
    for seed in 0..10 {
        let mut pair = Pair::with(unpadded.clone(), strict()).seeded(seed);
        pair.run(Duration::from_secs(1));
        protect(&mut pair, 3);
        (pair.loss, pair.reordering) = (100, 100);
        let messages: Vec<_> = (0..60).map(|nth| pattern(1 + nth * 997 % 5_000)).collect();
        for message in &messages {
            pair.send(Client, 1, message.clone());
            pair.send(Server, 1, message.clone());
        }
        assert!(pair.run_until(|pair| pair.read(Server, 1).len() == 60 && pair.read(Client, 1).len() == 60));
        assert_eq!((pair.read(Server, 1), pair.read(Client, 1)), (messages.clone(), messages));
        let mtu = modern().path_mtu.packet_bytes;
        assert!(pair.log.iter().all(|(.., packet)| packet.len() <= mtu && packet.len() % 4 == 0));
    }
}

#[test]
fn the_same_data_takes_no_more_packets_than_the_overhead_costs() {
    let count = |mut pair: Pair| {
        pair.clear_log();
        pair.send(Client, 1, pattern(1_000_000));
        assert!(pair.run_until(|pair| !pair.read(Server, 1).is_empty()));
        pair.log.iter().filter(|(_, side, _)| *side == Client).count()
    };
    let (plain, secret) = (count(Pair::up(modern())), count(protected(strict())));
    assert!(secret <= plain + plain / 40 + 10, "{secret} packets, plain {plain}");
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
//= type=test
//# However, the padding MUST be applied within the encryption envelope to ensure
//# the padding itself is protected.
/// A packet shorter than the previous ones ends a batch of segmentation offload. The space after each message is less than a
/// fragment, and is padded while more data is queued.
#[test]
fn the_end_of_a_message_does_not_end_a_batch() {
    const FULL: usize = 1_452;
    for room in [4, 12, 20] {
        let mut pair = protected(strict());
        let len = 2 * (FULL - Header::LEN - PACKET_OVERHEAD - Data::HEADER_LEN) - room;
        (0..4).for_each(|_| pair.send(Client, 1, pattern(len)));
        let output = pair.client.poll(pair.now);
        let Output::Send(transmit) = output else { panic!("{output:?}") };
        assert_eq!((transmit.segment_size, transmit.payload.len()), (Some(FULL), 8 * FULL - room), "{room}");
        for packet in transmit.payload.chunks(FULL) {
            let packet = Bytes::copy_from_slice(packet);
            let datagram =
                Datagram { from: transmit.from, to: transmit.to, ecn: transmit.ecn, payload: packet };
            pair.carry(Client, datagram, transmit.split);
        }
        assert!(pair.run_until(|pair| pair.read(Server, 1).len() == 4));
        assert!(pair.read(Server, 1).iter().all(|read| *read == pattern(len)));
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.1
//= type=test
//# The first DTLS key context established for any SCTP association MUST
//# use epoch 3.
#[test]
fn keys_are_set_in_order() {
    let mut pair = Pair::up(strict());
    let client = pair.association(Client);
    let restart = KeysId { purpose: Purpose::Restart, epoch: 3 };
    assert_eq!(client.set_send_keys(primary(4), keys(1)), Err(DtlsError::Epoch { expected: 3 }));
    assert_eq!(client.add_receive_keys(primary(2), keys(1)), Err(DtlsError::Epoch { expected: 3 }));
    assert_eq!(client.set_send_keys(restart, keys(1)), Err(DtlsError::PrimaryFirst));
    assert_eq!(client.set_send_keys(primary(3), keys(1)), Ok(()));
    assert_eq!(client.set_send_keys(primary(3), keys(1)), Err(DtlsError::Epoch { expected: 4 }));
    assert_eq!(client.set_send_keys(restart, keys(1)), Ok(()));
    for epoch in 3..7 {
        assert_eq!(client.add_receive_keys(primary(epoch), keys(1)), Ok(()));
    }
    assert_eq!(client.add_receive_keys(primary(7), keys(1)), Err(DtlsError::Ambiguous));
    assert_eq!(client.delete_receive_keys(primary(3)), Ok(()));
    assert_eq!(client.delete_receive_keys(primary(3)), Err(DtlsError::NoSuchKeys));
    assert_eq!(client.add_receive_keys(primary(7), keys(1)), Ok(()));
    assert_eq!(client.delete_restart_send_keys(9), Err(DtlsError::NoSuchKeys));
    assert_eq!(client.delete_restart_send_keys(3), Ok(()));
}

#[test]
fn send_fails_before_keys_are_set() {
    let mut pair = Pair::new(strict());
    let secret = || Message::new(Ppid(0), pattern(10));
    let exchange = || Message::new(Ppid(crate::dtls::KEY_MANAGEMENT_PPID), pattern(3_000));
    for _ in 0..2 {
        let client = pair.association(Client);
        assert_eq!(client.send(StreamId(0), secret()), Err(SendError::NotProtected));
        assert_eq!(client.send(StreamId(1), exchange()), Err(SendError::NotProtected));
        assert_eq!(client.send(StreamId(0), exchange()), Ok(()));
        pair.run(Duration::from_secs(1));
    }
    // Messages of key management are bundled with COOKIE ECHO, as data is.
    let bundled = pair.packets(Client).iter().any(|packet| {
        packet[0].kind() == Chunk::COOKIE_ECHO && packet.iter().any(|chunk| matches!(chunk, Chunk::Data(_)))
    });
    assert!(bundled);
    // Readers of streams do not receive them.
    assert_eq!(key_management(&mut pair, Server), [pattern(3_000), pattern(3_000)]);
    assert!(pair.read(Server, 0).is_empty());
    assert!(pair.events(Server).contains(&Event::Dtls(DtlsEvent::Message)));
    protect(&mut pair, 3);
    pair.send(Client, 1, pattern(10));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 1), [pattern(10)]);
}

/// A ClientHello with a post-quantum key share is longer than a packet.
#[test]
fn key_management_is_sent_with_cookie_echo_even_in_several_packets() {
    let hello = || Message::new(Ppid(crate::dtls::KEY_MANAGEMENT_PPID), pattern(3_000));
    let echoes = |packet: &Vec<Chunk>| packet[0].kind() == Chunk::COOKIE_ECHO;
    // In any order, and with any one lost.
    for (lost, latency) in [(None, 0), (Some(1), 0), (Some(2), 0), (Some(3), 0), (None, 1)] {
        let mut pair = Pair::new(strict());
        pair.reordering = 1_000 * latency;
        pair.drop = lost
            .map(|lost| -> super::Drop { Box::new(move |side, before, _| side == Client && before == lost) });
        pair.association(Client).send(StreamId(0), hello()).unwrap();
        pair.run(Duration::from_secs(5));
        assert_eq!(key_management(&mut pair, Server), [pattern(3_000)], "{lost:?}");
        let first =
            pair.log.iter().filter(|(_, side, _)| *side == Client).map(|(at, ..)| *at).collect::<Vec<_>>();
        if lost.is_none() && latency == 0 {
            let packets = pair.packets(Client);
            assert_eq!(packets.iter().filter(|packet| echoes(packet)).count(), 3);
            // After INIT and its copy.
            assert!(first[2..5].iter().all(|at| *at == first[2]), "they leave at once");
        }
        // Without a message of key management there is one, and its copy later.
        let mut plain = Pair::new(modern());
        plain.send(Client, 0, pattern(3_000));
        plain.run(Duration::from_secs(1));
        let echoed = plain.log.iter().filter(|(.., packet)| has(packet, Chunk::COOKIE_ECHO));
        let at: Vec<_> = echoed.map(|(at, ..)| *at).collect();
        assert_eq!(at.len(), 2, "{at:?}");
        assert_eq!(at[1].since(at[0]), Duration::from_millis(10));
    }
}

#[test]
fn a_lost_shutdown_complete_is_repeated_although_the_keys_are_deleted() {
    let ended = |lost: Option<usize>| {
        let mut pair = protected(strict());
        let before = pair.sent[0];
        pair.drop = lost
            .map(|lost| -> super::Drop { Box::new(move |side, count, _| side == Client && count == lost) });
        pair.send(Client, 1, pattern(500));
        pair.association(Client).shutdown();
        pair.run(Duration::from_secs(5));
        assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
        assert!(pair.sent[0] > before);
        pair
    };
    fn said(pair: &Pair) -> Vec<Option<Record<'_>>> {
        pair.log.iter().filter(|(_, side, _)| *side == Client).map(|(.., packet)| packet.dtls()).collect()
    }
    // SHUTDOWN COMPLETE is the client's last packet.
    let without_loss = ended(None);
    let pair = ended(Some(without_loss.sent[0] - 1));
    assert_eq!(pair.closed(Server), Some(&Reason::Shutdown));
    let (once, twice) = (said(&without_loss), said(&pair));
    assert_eq!(twice.len(), once.len() + 1);
    assert_eq!(twice[twice.len() - 2..], [twice[once.len()], twice[once.len()]], "the same record");
}

#[test]
fn unused_receive_keys_may_be_replaced() {
    let mut pair = protected(strict());
    let server = pair.association(Server);
    server.add_receive_keys(primary(4), keys(1)).unwrap();
    server.delete_receive_keys(primary(4)).unwrap();
    server.add_receive_keys(primary(4), keys(2)).unwrap();
    pair.association(Client).set_send_keys(primary(4), keys(2)).unwrap();
    pair.send(Client, 1, pattern(10));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 1), [pattern(10)]);
    // Each record that delivered a chunk is followed by one of another epoch.
    let server = pair.association(Server);
    server.delete_receive_keys(primary(4)).unwrap();
    let again = server.add_receive_keys(primary(4), keys(1));
    assert_eq!(again, Err(DtlsError::Epoch { expected: 5 }));
}

#[test]
fn key_management_is_sent_although_the_send_buffer_is_full() {
    let mut pair = protected(strict());
    while pair.association(Client).send(StreamId(1), Message::new(Ppid(0), pattern(60_000))).is_ok() {}
    let exchange = Message::new(Ppid(crate::dtls::KEY_MANAGEMENT_PPID), pattern(3_000));
    assert_eq!(pair.association(Client).send(StreamId(0), exchange), Ok(()));
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-4.2.2
//= type=test
//# After the handshake is complete, if the epoch bits do not match those from the
//# current epoch, implementations SHOULD use the most recent past epoch which has
//# matching bits, and then reconstruct the sequence number for that epoch as described
//# above.
#[test]
fn two_epochs_coexist_while_data_is_transferred() {
    let mut pair = protected(strict());
    pair.loss = 20;
    pair.reordering = 200;
    for epoch in 4..20 {
        pair.send(Client, 1, pattern(50_000));
        pair.run(Duration::from_millis(30));
        if epoch > 6 {
            for side in [Client, Server] {
                pair.association(side).delete_receive_keys(primary(epoch - 4)).unwrap();
            }
        }
        protect(&mut pair, epoch);
    }
    assert!(pair.run_until(|pair| pair.read(Server, 1).len() == 16));
    let stats = pair.association(Server).dtls_stats();
    assert_eq!(stats.forged, 0, "{stats:?}");
    assert!(stats.opened > 500, "{stats:?}");
    let uses = |event: &&Event| matches!(event, Event::Dtls(DtlsEvent::PeerUses(_)));
    assert!(pair.events(Server).iter().filter(uses).count() > 8);
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
//= type=test
//# The receiver SHOULD pick a window large enough to handle any plausible reordering,
//# which depends on the data rate.
#[test]
fn several_paths_share_one_window() {
    let addresses =
        |last: [u8; 2]| last.map(|n| SocketAddr::from(([10, 0, n, 1], 9_000 + u16::from(n)))).to_vec();
    let several = strict().with(|c| c.paths.multipath = Some(crate::Multipath::default()));
    let mut pair = Pair::between([addresses([1, 2]), addresses([3, 4])], several.clone(), several);
    pair.run(Duration::from_secs(5));
    protect(&mut pair, 3);
    pair.reordering = 500;
    pair.loss = 10;
    for _ in 0..20 {
        pair.send(Client, 1, pattern(100_000));
        pair.run(Duration::from_secs(1));
    }
    assert!(pair.run_until(|pair| pair.read(Server, 1).len() == 20));
    let stats = pair.association(Server).dtls_stats();
    assert_eq!((stats.forged, stats.replayed), (0, 0), "{stats:?}");
}

/// HEARTBEATs that confirm other paths are sent as soon as the association is up, and may arrive when only protected packets
/// are accepted.
#[test]
fn other_paths_are_confirmed_a_round_trip_after_there_are_keys() {
    let addresses =
        |last: [u8; 2]| last.map(|n| SocketAddr::from(([10, 0, n, 1], 9_000 + u16::from(n)))).to_vec();
    let several = strict().with(|c| c.paths.multipath = Some(crate::Multipath::default()));
    let mut pair = Pair::between([addresses([1, 2]), addresses([3, 4])], several.clone(), several);
    pair.latency = Duration::from_millis(20);
    while !pair.association(Client).is_up() {
        pair.run(Duration::from_millis(1));
    }
    protect(&mut pair, 3);
    assert!(pair.association(Client).paths().any(|path| path.state == PathState::Unconfirmed));
    pair.run(Duration::from_millis(41));
    assert!(pair.association(Client).paths().all(|path| path.state == PathState::Active));
}

#[test]
fn the_path_mtu_is_found_with_protection_too() {
    let discovery = crate::MtuDiscovery::default();
    let mut pair = protected(strict().with(|c| {
        c.path_mtu.discovery = Some(discovery);
        c.path_mtu.packet_bytes = 1_200;
    }));
    pair.carries = Some(1_400);
    pair.run(Duration::from_secs(60));
    pair.clear_log();
    pair.send(Client, 1, pattern(100_000));
    assert!(pair.run_until(|pair| !pair.read(Server, 1).is_empty()));
    let largest = pair.log.iter().map(|(_, _, packet)| packet.len()).max().unwrap();
    assert!((1_300..=1_400).contains(&largest), "{largest}");
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-1.1
//= type=test
//# Specifically, the lookup address feature of {{RFC5061}} MUST NOT be used,
//# and the dynamic address reconfiguration extension MUST NOT be used unless
//# DTLS chunk handling is enabled in both directions.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
//= type=test
//# The dynamic address reconfiguration extension MUST NOT be used unless
//# DTLS chunk handling is enabled in both directions.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.2
//= type=test
//# * The lookup address MUST NOT be used.
#[test]
fn addresses_come_by_protected_asconf() {
    let mut pair = Pair::up(strict().with(|c| c.paths.asconf = true));
    let new: SocketAddr = "127.0.0.5:9001".parse().unwrap();
    assert!(pair.association(Client).add_address(new).is_err(), "not before both directions are protected");
    protect(&mut pair, 3);
    pair.client_addresses.push(new);
    pair.association(Client).add_address(new).unwrap();
    pair.run(Duration::from_secs(60));
    assert!(pair.association(Server).paths().any(|path| path.peer == new));
    assert!(
        pair.log.iter().all(|(_, _, packet)| packet.kinds().is_dtls_alone() || packet.kinds().is_empty())
    );
}

#[test]
fn keys_wanted_is_reported_once() {
    let mut pair = protected(strict());
    pair.send(Client, 1, pattern(10_000));
    pair.run(Duration::from_secs(1));
    let wanted = |event: &&Event| matches!(event, Event::Dtls(DtlsEvent::KeysWanted { .. }));
    assert_eq!(pair.events(Client).iter().filter(wanted).count(), 0);
    assert!(pair.association(Client).keys_stats(primary(3)).sealed > 5);
    assert!(pair.association(Server).keys_stats(primary(3)).opened > 5);
}

#[test]
fn without_it_a_dtls_chunk_is_an_unknown_one() {
    let mut pair = Pair::up(modern());
    let chunk = Chunk::Dtls(Dtls { is_restart: false, record: pattern(40).into() });
    pair.forge(std::slice::from_ref(&chunk));
    pair.run(Duration::from_millis(1));
    let said = pair.packets(Server).into_iter().flatten().next();
    assert_eq!(said, Some(Chunk::Error(vec![Cause::UnrecognizedChunkType(chunk.quoted())])));
}
