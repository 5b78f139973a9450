//! Restart of a peer that has only its restart keys (draft-ietf-tsvwg-sctp-dtls-chunk §5.4).

use super::*;

fn restart(epoch: u64) -> KeysId {
    KeysId { purpose: Purpose::Restart, epoch }
}

/// Both sides have restart keys too.
fn with_restart_keys() -> Pair {
    let mut pair = protected(strict());
    for (side, send, receive) in [(Client, 201, 202), (Server, 202, 201)] {
        pair.association(side).add_receive_keys(restart(3), keys(receive)).unwrap();
        pair.association(side).set_send_keys(restart(3), keys(send)).unwrap();
    }
    pair.send(Client, 1, pattern(5_000));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 1), [pattern(5_000)]);
    pair
}

/// The client loses its memory and asks again.
fn crash(pair: &mut Pair) {
    let port = pair.association(Client).ports().0;
    pair.client = Endpoint::new([9; 32]);
    let connect = Connect {
        local: vec![client_address()],
        peer: vec![server_address()],
        source_port: Some(port),
        destination_port: PORT,
        config: Arc::new(strict()),
    };
    pair.client_id = pair.client.connect(pair.now, connect).unwrap();
    pair.under_way.clear();
    pair.clear_log();
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
//= type=test
//# A restarted SCTP association MUST continue to use the restart DTLS key context
//# and MUST remove all primary DTLS key contexts.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
//= type=test
//# After restart, the next primary DTLS key context MUST use epoch 3,
//# i.e. the epoch value is reset.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
//= type=test
//# A DTLS chunk using the restart DTLS key context is identified by
//# having the R bit (Restart Indicator) set in the DTLS chunk (see
//# {{sctp-DTLS-chunk-newchunk-crypt-struct}}).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
//= type=test
//# The SCTP restart
//# DTLS key MUST NOT be used for any purpose other than SCTP association restart.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
//= type=test
//# The
//# endpoints MUST include the DTLS Key Management Parameter in the INIT
//# and INIT ACK, using the same method list, but with a new random Tie Breaker.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
//= type=test
//# This key context MUST be maintained in a well-defined
//# state such that both endpoints have a consistent view of the DTLS sequence
//# numbers and replay window (i.e., initialized but never used).
#[test]
fn a_peer_with_restart_keys_can_restart() {
    let mut pair = with_restart_keys();
    let offers = |pair: &mut Pair| {
        let agreement = agreement(pair, Client).unwrap();
        [agreement.local, agreement.peer].map(|raw| KeyManagement::of_raw(&raw).unwrap())
    };
    let before = offers(&mut pair);
    for side in [Client, Server] {
        assert_eq!(
            pair.association(side).keys_stats(restart(3)),
            crate::KeysStats::default(),
            "until then they wait"
        );
    }
    crash(&mut pair);
    pair.association(Client).add_receive_keys(restart(3), keys(202)).unwrap();
    pair.association(Client).set_send_keys(restart(3), keys(201)).unwrap();
    pair.send(Client, 2, pattern(3_000));
    pair.run(Duration::from_secs(2));
    assert!(pair.events(Server).contains(&Event::Restarted));
    for (before, after) in before.iter().zip(&offers(&mut pair)) {
        assert_eq!((&before.methods, before.flags), (&after.methods, after.flags));
        assert_ne!(before.tie_breaker, after.tie_breaker);
    }
    assert!(pair.association(Client).is_up() && pair.association(Server).is_up());
    assert_eq!(pair.read(Server, 2), [pattern(3_000)]);
    assert!(pair.association(Client).requires_protection() && pair.association(Server).requires_protection());
    for (_, _, packet) in &pair.log {
        match &chunks(packet)[..] {
            [Chunk::Init(_) | Chunk::InitAck(_)] => {}
            [Chunk::Dtls(dtls)] => assert!(dtls.is_restart, "{packet}"),
            _ => panic!("{packet}"),
        }
    }
    // Primary keys again, from the first epoch on.
    pair.clear_log();
    protect(&mut pair, 3);
    pair.send(Server, 2, pattern(3_000));
    pair.run(Duration::from_secs(2));
    assert_eq!(pair.read(Client, 2), [pattern(3_000)]);
    assert!(
        pair.packets(Server)
            .iter()
            .flatten()
            .all(|chunk| matches!(chunk, Chunk::Dtls(dtls) if !dtls.is_restart))
    );
}

#[test]
fn without_keys_nothing_can_be_opened() {
    for wrong in [None, Some(77)] {
        let mut pair = with_restart_keys();
        crash(&mut pair);
        if let Some(seed) = wrong {
            pair.association(Client).add_receive_keys(restart(3), keys(202)).unwrap();
            pair.association(Client).set_send_keys(restart(3), keys(seed)).unwrap();
        }
        pair.run(Duration::from_secs(5));
        assert!(!pair.events(Server).contains(&Event::Restarted));
        assert!(!pair.association(Client).is_up());
        assert_eq!(pair.closed(Server), None);
    }
}

#[test]
fn restart_keys_require_negotiated_restarts() {
    let mut pair = protected(dtls(DtlsConfig::default()));
    let client = pair.association(Client);
    assert_eq!(client.set_send_keys(restart(3), keys(1)), Err(DtlsError::NotAgreed));
    assert_eq!(client.add_receive_keys(restart(3), keys(1)), Err(DtlsError::NotAgreed));
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.4
//= type=test
//# An SCTP endpoint supporting only legacy SCTP restart and involved in
//# an SCTP association using DTLS chunks, when receiving what is expected
//# to be an COOKIE ECHO chunk protected by DTLS chunk as described above,
//# in other words if it receives a SCTP packet with a DTLS chunk having
//# the R bit (Restart Indicator) set in the DTLS chunk (see
//# {{sctp-DTLS-chunk-newchunk-crypt-struct}}), MUST silently discard it.
#[test]
fn without_restart_keys_a_record_of_a_restart_is_discarded() {
    let mut pair = protected(dtls(DtlsConfig::default()));
    pair.run(Duration::from_secs(1));
    let header = pair.last_header.unwrap();
    let record = [&[0b0010_1011][..], &pattern(40)].concat();
    let chunk = Chunk::Dtls(Dtls { is_restart: true, record: record.into() });
    pair.clear_log();
    // With the tag of the association, and with one that an INIT ACK may have given.
    for tag in [header.tag, crate::VerificationTag(header.tag.0 ^ 1)] {
        let mut builder = PacketBuilder::new();
        builder.begin(Header { tag, ..header }, 1_452);
        builder.push(&chunk);
        builder.seal();
        pair.forge_bytes(builder.finish().unwrap().payload);
    }
    pair.run(Duration::from_millis(1));
    assert!(pair.packets(Server).is_empty());
    let stats = pair.association(Server).dtls_stats();
    assert_eq!((pair.closed(Server), stats.unreadable, stats.forged), (None, 2, 0), "{stats:?}");
}
