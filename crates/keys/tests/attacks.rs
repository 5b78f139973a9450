//! Attackers on the path can prevent a handshake, and nothing else.

mod common;

use std::time::Duration;

use braidftp_keys::{KeyEvent, Settings};
use common::{CLIENT, Identity, Pair, SERVER, config, pattern, with_checksum};

const SECOND: Duration = Duration::from_secs(1);
const INIT: u8 = 1;
const INIT_ACK: u8 = 2;
const COOKIE_ECHO: u8 = 10;

/// Where the DTLS Key Management parameter of an INIT or INIT ACK is, without padding.
fn parameter(packet: &[u8]) -> Option<std::ops::Range<usize>> {
    if ![INIT, INIT_ACK].contains(&packet[12]) {
        return None;
    }
    let mut at = 32;
    while at + 4 <= packet.len() {
        let len = usize::from(u16::from_be_bytes([packet[at + 2], packet[at + 3]]));
        if packet[at..at + 2] == [0x80, 0x06] {
            return Some(at..at + len);
        }
        at += len.next_multiple_of(4);
    }
    None
}

/// Two sides with queued messages, and an attacker between them who edits packets.
fn attacked(
    identity: &Identity,
    edit: impl FnMut(usize, usize, Vec<u8>) -> Option<Vec<u8>> + 'static,
) -> Pair {
    let mut pair = Pair::protected(identity);
    pair.edit = Some(Box::new(edit));
    pair.send(CLIENT, 1, pattern(1, 3_000));
    pair.send(SERVER, 1, pattern(2, 3_000));
    pair.run(60 * SECOND);
    pair
}

/// Nothing was delivered, nothing was sent in the clear, and both sides have no association.
fn assert_refused(pair: &Pair, what: &str) {
    for node in [CLIENT, SERVER] {
        assert!(pair.nodes[node].read.is_empty(), "{what}");
    }
    for secret in [pattern(1, 100), pattern(2, 100)] {
        assert!(
            !pair.log.iter().any(|(_, _, packet)| packet.windows(100).any(|it| it == &secret[..])),
            "{what}"
        );
    }
    assert!(pair.nodes[CLIENT].closed().is_some(), "{what}");
}

#[test]
fn a_removed_parameter_prevents_the_association() {
    let identity = Identity::new();
    for from in [CLIENT, SERVER] {
        let pair = attacked(&identity, move |sender, _, mut packet| {
            if let Some(parameter) = parameter(&packet).filter(|_| sender == from) {
                packet.drain(parameter.start..parameter.end.next_multiple_of(4).min(packet.len()));
                let len = (packet.len() - 12) as u16;
                packet[14..16].copy_from_slice(&len.to_be_bytes());
            }
            Some(with_checksum(packet))
        });
        assert_refused(&pair, &format!("that of {from}"));
    }
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-5.2
//= type=test
//# Each DTLS Key Management Parameter (Section 4.1 of
//# {{I-D.ietf-tsvwg-sctp-dtls-chunk}}) is included as the
//# sequence of bytes sent on the wire, including the parameter header
//# and excluding padding.
#[test]
fn a_modified_parameter_is_detected() {
    let identity = Identity::new();
    for from in [CLIENT, SERVER] {
        // Behind the length: the tie breaker, flags and two methods.
        for (byte, bit) in (4..11).flat_map(|byte| (0..8).map(move |bit| (byte, bit))) {
            let pair = attacked(&identity, move |sender, _, mut packet| {
                if let Some(parameter) = parameter(&packet).filter(|_| sender == from) {
                    assert_eq!(parameter.len(), 11);
                    packet[parameter.start + byte] ^= 1 << bit;
                }
                Some(with_checksum(packet))
            });
            assert_refused(&pair, &format!("byte {byte}, bit {bit} of {from}'s"));
        }
    }
}

#[test]
fn a_modified_client_hello_is_detected() {
    let identity = Identity::new();
    // Where the ClientHello is in the first packet behind INIT: random, session ID, cipher suites, extensions.
    for offset in [1, 7, 20, 50, 90, 100, 300, 700] {
        let pair = attacked(&identity, move |sender, _, mut packet| {
            if sender == CLIENT && packet[12] == COOKIE_ECHO {
                let cookie = usize::from(u16::from_be_bytes([packet[14], packet[15]])).next_multiple_of(4);
                let data = 12 + cookie;
                if packet[data + 3 + 1..data + 8] != [0; 0] && packet.len() > data + 40 + offset {
                    packet[data + 16 + offset] ^= 0x20;
                }
            }
            Some(with_checksum(packet))
        });
        assert_refused(&pair, &format!("byte {offset}"));
    }
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.1
//= type=test
//# If the TLS handshake fails, the SCTP association MUST be aborted.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-7
//= type=test
//# If a TLS handshake fails during initial establishment, the SCTP
//# association MUST be aborted.
#[test]
fn an_untrusted_certificate_is_rejected_with_a_reason() {
    let (identity, another) = (Identity::new(), Identity::new());
    let [client, _] = another.settings();
    let [_, server] = identity.settings();
    let mut pair = Pair::new([Some(client), Some(server)], &config(), 1);
    pair.send(CLIENT, 1, "USER anonymous");
    pair.run(SECOND);
    assert_refused(&pair, "an unknown certificate");
    let (_, event) = &pair.nodes[CLIENT].key_events[0];
    let KeyEvent::Failed(error) = event else { panic!("{event:?}") };
    assert!(error.to_string().starts_with("the TLS handshake failed: invalid peer certificate"), "{error}");
    let told = pair.nodes[SERVER].closed().unwrap().to_string();
    assert!(told.contains("the TLS handshake failed: invalid peer certificate"), "{told}");
}

#[test]
fn another_name_is_refused() {
    let identity = Identity::new();
    let [client, server] = identity.settings();
    let name = braidftp_keys::rustls::pki_types::ServerName::try_from("another.example").unwrap();
    let client = Settings::client(client.client.unwrap().0, name);
    let mut pair = Pair::new([Some(client), Some(server)], &config(), 1);
    pair.run(SECOND);
    assert_refused(&pair, "another name");
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.3
//= type=test
//# Clients and servers MUST NOT accept a change of identity during the
//# setup of a new TLS connection, but MAY accept negotiation of stronger
//# algorithms and security parameters.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-7
//= type=test
//# If a TLS handshake fails during rekeying, and the current DKC has not
//# yet reached its usage limits, the implementation SHOULD retry the
//# handshake.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-7
//= type=test
//# If retry is not possible or the current DKC is aged
//# beyond policy limits, the association MUST be aborted.
#[test]
fn a_client_that_shows_another_certificate_later_is_refused() {
    let (one, another, server) = (Identity::new(), Identity::new(), Identity::new());
    // The server trusts both.
    let trusting = Settings { client: None, ..server.either_trusting(&[&one, &another]) };
    let mut pair = Pair::new([Some(one.either(&server)), Some(trusting)], &config(), 1);
    pair.run(SECOND);
    pair.nodes[CLIENT].change_identity(another.either(&server));
    let now = pair.now;
    pair.nodes[CLIENT].want_keys(now);
    pair.run(5 * SECOND);
    pair.send(CLIENT, 1, "meanwhile the old keys are good");
    pair.run(60 * SECOND);
    assert_eq!(pair.read(SERVER, 1).len(), 1);
    for node in &pair.nodes {
        assert_eq!(node.keys.as_ref().unwrap().epoch(), Some(3));
        let retried = |event: &KeyEvent| matches!(event, KeyEvent::Retried(_));
        assert_eq!(node.key_events.iter().filter(|(_, event)| retried(event)).count(), 3);
    }
    let told = pair.nodes[CLIENT].closed().unwrap().to_string();
    assert!(told.contains("another certificate"), "{told}");
}

/// Forged messages of key management end the handshake, or change nothing.
#[test]
fn a_peer_that_sends_garbage_is_rejected_with_a_reason() {
    use braidftp_sctp::{Message, Ppid, StreamId};
    let identity = Identity::new();
    for (nonsense, sentence) in [
        (vec![4; 70_000], "a message about keys is longer than 65536 bytes"),
        (vec![4], "a message about keys ends before it says anything"),
    ] {
        let mut pair = Pair::protected(&identity);
        pair.run(SECOND);
        let message = Message::new(Ppid(braidftp_sctp::dtls::KEY_MANAGEMENT_PPID), nonsense);
        pair.nodes[CLIENT].association().send(StreamId(0), message).unwrap();
        pair.run(SECOND);
        let told = pair.nodes[CLIENT].closed().unwrap().to_string();
        assert!(told.contains(sentence), "{told}");
    }
}
