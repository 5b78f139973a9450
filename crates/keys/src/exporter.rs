//! Derives keys from a TLS session (draft-porfiri-tsvwg-sctp-dtls-handshake §5) with the TLS exporter (RFC
//! 8446 §7.5), with both sides' DTLS Key Management parameters as context.
//!
//! The exporter secret is taken from rustls' key log, as soon as the server has sent its Finished. The
//! exporter of rustls waits for the client's Finished, which costs the server a round trip; both derive the
//! same keys from the secret.

use std::sync::{Arc, Mutex, PoisonError};

use braidftp_sctp::dtls::{Agreement, CipherSuite, Keys, NONCE_LEN, Purpose};
use rustls::crypto::tls13::OkmBlock;
use rustls::{KeyLog, SupportedCipherSuite, Tls13CipherSuite};
use zeroize::Zeroizing;

use crate::aead::{key_len, record_keys};

const LABEL: &[u8] = b"EXPORTER_TLS_FOR_DTLS_IN_SCTP";
const TLS_EXPORTER_SECRET: &str = "EXPORTER_SECRET";

/// The sender that uses a key, by its role in the TLS handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Sender {
    Client,
    Server,
}

/// Receives the exporter secret of a connection from rustls.
#[derive(Default)]
pub(crate) struct Secret(Mutex<Option<OkmBlock>>);

impl std::fmt::Debug for Secret {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secret")
    }
}

impl KeyLog for Secret {
    fn log(&self, label: &str, _: &[u8], secret: &[u8]) {
        if label == TLS_EXPORTER_SECRET {
            *self.0.lock().unwrap_or_else(PoisonError::into_inner) = Some(OkmBlock::new(secret));
        }
    }

    fn will_log(&self, label: &str) -> bool {
        label == TLS_EXPORTER_SECRET
    }
}

/// Exports keys, once the server has sent its Finished.
pub(crate) struct Exporter {
    suite: &'static Tls13CipherSuite,
    cipher: CipherSuite,
    /// The secret derived for the label, from which all exports are made.
    secret: OkmBlock,
}

impl Exporter {
    /// Returns the exporter of a connection with TLS 1.3, if its secret is known.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.1
    //# Earlier versions of TLS MUST NOT be used.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.2
    //# The cipher suites negotiated in the key-management TLS connection
    //# MUST only include those supported by the DTLS Chunk Protection
    //# Operator.
    pub(crate) fn of(secret: &Arc<Secret>, suite: SupportedCipherSuite) -> Option<Self> {
        let SupportedCipherSuite::Tls13(suite) = suite else { return None };
        let cipher = CipherSuite::from_code(suite.common.suite.into())?;
        let secret = secret.0.lock().unwrap_or_else(PoisonError::into_inner).take()?;
        let nothing = suite.common.hash_provider.hash(&[]);
        let mut derived = Zeroizing::new([0; OkmBlock::MAX_LEN]);
        let derived = &mut derived[..suite.common.hash_provider.output_len()];
        expand_label(suite, &secret, LABEL, nothing.as_ref(), derived);
        Some(Self { suite, cipher, secret: OkmBlock::new(derived) })
    }

    /// Returns the keys with which one side sends.
    pub(crate) fn keys(&self, sender: Sender, purpose: Purpose, agreement: &Agreement) -> Keys {
        let (mut key, mut number_key) = (Zeroizing::new([0; 32]), Zeroizing::new([0; 32]));
        let len = key_len(self.cipher);
        let mut iv = [0; NONCE_LEN];
        for (kind, out) in [(0, &mut key[..len]), (1, &mut number_key[..len]), (2, &mut iv[..])] {
            self.export(&context(sender, purpose, kind, agreement), out);
        }
        record_keys(self.cipher, &key[..len], &number_key[..len], iv)
    }

    /// Fills `out` with exported bytes (RFC 8446 §7.5).
    fn export(&self, context: &[u8], out: &mut [u8]) {
        let hash = self.suite.common.hash_provider.hash(context);
        expand_label(self.suite, &self.secret, b"exporter", hash.as_ref(), out);
    }
}

impl std::fmt::Debug for Exporter {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Exporter").field("cipher", &self.cipher).finish_non_exhaustive()
    }
}

/// The context of an export: sender, purpose and kind of the key, and both parameters, first that of the
/// client of the key management.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-5.2
//# Each DTLS Key Management Parameter (Section 4.1 of
//# {{I-D.ietf-tsvwg-sctp-dtls-chunk}}) is included as the
//# sequence of bytes sent on the wire, including the parameter header
//# and excluding padding.
fn context(sender: Sender, purpose: Purpose, kind: u8, agreement: &Agreement) -> Vec<u8> {
    let direction = match sender {
        Sender::Client => 0,
        Sender::Server => 1,
    };
    let role = match purpose {
        Purpose::Primary => 0,
        Purpose::Restart => 1,
    };
    let (client, server) = agreement.client_and_server();
    [&[direction, role, kind], &client[..], &server[..]].concat()
}

/// HKDF-Expand-Label (RFC 8446 §7.1).
fn expand_label(suite: &Tls13CipherSuite, secret: &OkmBlock, label: &[u8], context: &[u8], out: &mut [u8]) {
    const PREFIX: &[u8] = b"tls13 ";
    let len = u16::try_from(out.len()).expect("no key is that long").to_be_bytes();
    let info =
        [&len[..], &[(PREFIX.len() + label.len()) as u8], PREFIX, label, &[context.len() as u8], context];
    let expander = suite.hkdf_provider.expander_for_okm(secret);
    expander.expand_slice(&info, out).expect("no key is longer than HKDF makes");
}

#[cfg(test)]
mod tests {
    use rustls::crypto::aws_lc_rs;
    use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
    use rustls::{ClientConfig, ClientConnection, RootCertStore, ServerConfig, ServerConnection};

    use super::*;

    #[test]
    fn exports_are_those_of_rustls_and_the_server_has_them_a_round_trip_sooner() {
        let made = rcgen::generate_simple_self_signed(vec!["server.example".into()]).unwrap();
        let certificate = made.cert.der().clone();
        let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
        let mut roots = RootCertStore::empty();
        roots.add(certificate.clone()).unwrap();
        let secrets: [Arc<Secret>; 2] = Default::default();
        for suite in aws_lc_rs::ALL_CIPHER_SUITES.iter().filter(|suite| suite.tls13().is_some()) {
            let mut provider = aws_lc_rs::default_provider();
            provider.cipher_suites = vec![*suite];
            let provider = Arc::new(provider);
            let mut client = ClientConfig::builder_with_provider(provider.clone())
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_root_certificates(roots.clone())
                .with_no_client_auth();
            let mut server = ServerConfig::builder_with_provider(provider)
                .with_safe_default_protocol_versions()
                .unwrap()
                .with_no_client_auth()
                .with_single_cert(vec![certificate.clone()], key.clone_key())
                .unwrap();
            client.key_log = secrets[0].clone();
            server.key_log = secrets[1].clone();
            let name = ServerName::try_from("server.example").unwrap();
            let mut client = ClientConnection::new(Arc::new(client), name).unwrap();
            let mut server = ServerConnection::new(Arc::new(server)).unwrap();
            let mut flight = Vec::new();
            client.write_tls(&mut flight).unwrap();
            server.read_tls(&mut &flight[..]).unwrap();
            server.process_new_packets().unwrap();
            assert!(server.is_handshaking());
            let of_server = Exporter::of(&secrets[1], *suite).unwrap();
            for _ in 0..2 {
                flight.clear();
                while server.wants_write() {
                    server.write_tls(&mut flight).unwrap();
                }
                client.read_tls(&mut &flight[..]).unwrap();
                client.process_new_packets().unwrap();
                flight.clear();
                while client.wants_write() {
                    client.write_tls(&mut flight).unwrap();
                }
                server.read_tls(&mut &flight[..]).unwrap();
                server.process_new_packets().unwrap();
            }
            let of_client = Exporter::of(&secrets[0], *suite).unwrap();
            for exporter in [of_client, of_server] {
                let mut ours = [0; 48];
                exporter.export(b"a context", &mut ours);
                let theirs = client.export_keying_material([0; 48], LABEL, Some(b"a context")).unwrap();
                assert_eq!(ours, theirs, "{suite:?}");
            }
            assert!(Exporter::of(&secrets[0], *suite).is_none(), "a secret is taken once");
        }
    }
}
