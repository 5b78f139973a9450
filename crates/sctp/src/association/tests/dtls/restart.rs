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
#[test]
fn who_has_the_restart_keys_begins_anew() {
    let mut pair = with_restart_keys();
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
fn who_has_not_cannot() {
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
fn restart_keys_need_a_side_that_offers_a_restart() {
    let mut pair = protected(dtls(DtlsConfig::default()));
    let client = pair.association(Client);
    assert_eq!(client.set_send_keys(restart(3), keys(1)), Err(DtlsError::NotAgreed));
    assert_eq!(client.add_receive_keys(restart(3), keys(1)), Err(DtlsError::NotAgreed));
}
