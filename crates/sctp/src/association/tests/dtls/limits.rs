//! The limits of an AEAD (draft-ietf-tls-rfc9147bis §4.5.3): new keys are requested before the limits are reached, and the
//! association ends before they are exceeded.

use super::*;
use crate::dtls::CipherSuite;

const SUITE: CipherSuite = CipherSuite::Aes128Gcm;

/// Keys of an epoch with which the client has sealed, and the server opened, this many records.
fn worn(pair: &mut Pair, epoch: u64, records: u64) {
    pair.association(Client).set_sealed_records(records);
    pair.association(Server).set_opened_records(primary(epoch), records, 0);
}

fn wanted(pair: &Pair, side: Side) -> Vec<u64> {
    let epoch = |event: &Event| match event {
        Event::Dtls(DtlsEvent::KeysWanted { epoch }) => Some(*epoch),
        _ => None,
    };
    pair.events(side).iter().filter_map(epoch).collect()
}

/// A forged record of this epoch.
pub(super) fn forged(epoch: u64) -> Chunk {
    let record = [&[0b0010_1000 | epoch as u8 & 0b11][..], &pattern(40)].concat();
    Chunk::Dtls(Dtls { is_restart: false, record: record.into() })
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
//= type=test
//# Implementations SHOULD initiate a key update before reaching this limit.
#[test]
fn keys_wanted_is_reported_once_at_three_quarters_of_the_limit() {
    let mut pair = protected(strict());
    worn(&mut pair, 3, SUITE.records_max() / 4 * 3 - 2);
    pair.send(Client, 1, pattern(100));
    pair.run(Duration::from_millis(200));
    assert_eq!(wanted(&pair, Client), []);
    for _ in 0..5 {
        pair.send(Client, 1, pattern(100_000));
        pair.run(Duration::from_secs(1));
    }
    assert_eq!((wanted(&pair, Client), wanted(&pair, Server)), (vec![3], vec![]));
    // New keys count from 0.
    protect(&mut pair, 4);
    pair.send(Client, 1, pattern(100_000));
    pair.run(Duration::from_secs(1));
    assert_eq!((wanted(&pair, Client), pair.read(Server, 1).len()), (vec![3], 7));
    worn(&mut pair, 4, SUITE.records_max() / 4 * 3);
    pair.send(Client, 1, pattern(100));
    pair.run(Duration::from_secs(1));
    assert_eq!(wanted(&pair, Client), [3, 4]);
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
//= type=test
//# Implementations SHOULD NOT protect more
//# records than allowed by the limit specified for the negotiated AEAD.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.2.1
//= type=test
//# Implementations MUST either abandon an association or rekey prior to
//# allowing the sequence number to wrap.
#[test]
fn an_association_ends_before_its_keys_exceed_their_limit() {
    let mut pair = protected(strict());
    worn(&mut pair, 3, SUITE.records_max() - 1_000);
    for _ in 0..20 {
        if pair.closed(Client).is_none() {
            pair.send(Client, 1, pattern(200_000));
        }
        pair.run(Duration::from_secs(1));
    }
    let words = || Bytes::from_static(b"the keys are used up");
    assert_eq!(pair.closed(Client), Some(&Reason::Aborted(words())));
    assert_eq!(
        pair.closed(Server),
        Some(&Reason::PeerAborted(vec![Cause::UserInitiatedAbort(words())])),
        "the last record says why"
    );
    let sealed =
        pair.log.iter().filter(|(_, side, packet)| *side == Client && packet.kinds().is_dtls_alone());
    let sealed = sealed.count() as u64;
    assert!(sealed > 500 && sealed <= 1_000, "{sealed} of the last 1,000 were sealed");
}

//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
//= type=test
//# Implementations MUST count the number of received packets that fail
//# authentication with each key.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
//= type=test
//# If the number of packets that fail
//# authentication exceeds a limit that is specific to the AEAD in use, an implementation SHOULD
//# immediately close the connection.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
//= type=test
//# Implementations SHOULD initiate a key update with update_requested before reaching
//# this limit.
#[test]
fn too_many_forgeries_end_an_association_and_those_of_old_keys_only_the_keys() {
    let mut pair = protected(strict());
    pair.run(Duration::from_secs(1));
    pair.association(Server).set_opened_records(primary(3), 0, SUITE.forgeries_max() / 4 * 3 - 1);
    assert_eq!(wanted(&pair, Server), []);
    pair.forge(&[forged(3)]);
    assert_eq!(wanted(&pair, Server), [3]);
    // A record that does not open is tried with several numbers.
    pair.association(Server).set_opened_records(primary(3), 0, SUITE.forgeries_max() - 10);
    pair.forge(&[forged(3)]);
    assert_eq!(pair.closed(Server), None);
    protect(&mut pair, 4);
    pair.association(Server).set_opened_records(primary(3), 0, SUITE.forgeries_max());
    pair.forge(&[forged(3)]);
    assert_eq!(pair.closed(Server), None);
    let gone = pair.association(Server).delete_receive_keys(primary(3));
    assert_eq!(gone, Err(DtlsError::NoSuchKeys), "those of before are gone");
    pair.association(Server).set_opened_records(primary(4), 0, SUITE.forgeries_max());
    pair.forge(&[forged(4)]);
    assert!(matches!(pair.closed(Server), Some(Reason::Aborted(_))), "{:?}", pair.closed(Server));
}
