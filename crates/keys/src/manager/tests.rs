//! Two key managers that exchange messages.

use std::collections::VecDeque;

use braidftp_sctp::dtls::CipherSuite;
use proptest::prelude::*;
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use rustls::server::ServerSessionMemoryCache;
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use super::*;

/// Extensions of a ClientHello (RFC 8446 §4.2).
const PRE_SHARED_KEY: u16 = 41;
const EARLY_DATA: u16 = 42;

fn provider(suite: CipherSuite) -> Arc<CryptoProvider> {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.retain(|it| u16::from(it.suite()) == suite.code());
    Arc::new(provider)
}

/// The settings of a client and a server that support this suite only.
fn settings(suite: CipherSuite) -> [Arc<Settings>; 2] {
    let made = rcgen::generate_simple_self_signed(vec!["server.example".into()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let client = ClientConfig::builder_with_provider(provider(suite))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider(suite))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let name = ServerName::try_from("server.example").unwrap();
    [Arc::new(Settings::client(Arc::new(client), name)), Arc::new(Settings::server(Arc::new(server)))]
}

fn agreements(method: u8) -> [Agreement; 2] {
    let (client, server) = (Bytes::from_static(b"client's"), Bytes::from_static(b"server's"));
    let of = |role, local: &Bytes, peer: &Bytes| Agreement {
        role,
        method,
        restart: false,
        local: local.clone(),
        peer: peer.clone(),
    };
    [of(Role::Client, &client, &server), of(Role::Server, &server, &client)]
}

/// A message or an event of one side, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Did {
    Said,
    Receives(u64),
    Protects(u64),
    Forgets(u64),
    Requires,
    IsProtected,
}

struct Two {
    managers: [KeyManager; 2],
    did: [Vec<Did>; 2],
    keys: [Vec<(Did, Keys)>; 2],
    failed: [Option<KeyError>; 2],
    flying: VecDeque<(usize, Bytes)>,
}

impl Two {
    fn new(suite: CipherSuite, method: u8) -> Self {
        Self::between(settings(suite), method)
    }

    fn between([client, server]: [Arc<Settings>; 2], method: u8) -> Self {
        let [of_client, of_server] = agreements(method);
        Self {
            managers: [
                KeyManager::new(Time::ZERO, client, of_client),
                KeyManager::new(Time::ZERO, server, of_server),
            ],
            did: Default::default(),
            keys: Default::default(),
            failed: Default::default(),
            flying: VecDeque::new(),
        }
    }

    fn drain(&mut self, now: Time, side: usize) {
        loop {
            let did = match self.managers[side].poll(now) {
                Output::Send(Action::Send(message)) => {
                    self.flying.push_back((1 - side, message));
                    Did::Said
                }
                Output::Send(Action::Receive(id, keys)) => {
                    self.keys[side].push((Did::Receives(id.epoch), keys));
                    Did::Receives(id.epoch)
                }
                Output::Send(Action::Protect(id, keys)) => {
                    self.keys[side].push((Did::Protects(id.epoch), keys));
                    Did::Protects(id.epoch)
                }
                Output::Send(Action::Forget(id)) => Did::Forgets(id.epoch),
                Output::Send(Action::Require) => Did::Requires,
                Output::Event(KeyEvent::Protected) => Did::IsProtected,
                Output::Event(KeyEvent::Rekeyed(_) | KeyEvent::Retried(_)) => continue,
                Output::Event(KeyEvent::Failed(error)) => {
                    self.failed[side] = Some(error);
                    continue;
                }
                Output::Wait(_) => return,
            };
            self.did[side].push(did);
        }
    }

    fn run(&mut self, now: Time) {
        loop {
            self.drain(now, 0);
            self.drain(now, 1);
            let Some((to, message)) = self.flying.pop_front() else { return };
            self.managers[to].handle(now, &message);
        }
    }
}

fn fits(one: &Keys, other: &Keys) -> bool {
    let mut bytes = *b"chunks";
    let tag = one.key.seal(&one.iv, b"", &mut bytes);
    let mut plain = [0; 6];
    let opened = other.key.open(&other.iv, b"", &[&bytes[..], &tag].concat(), &mut plain);
    opened.is_ok() && one.key.mask(&[1; 16]) == other.key.mask(&[1; 16])
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.2
//= type=test
//# The cipher suites negotiated in the key-management TLS connection
//# MUST only include those supported by the DTLS Chunk Protection
//# Operator.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-5.4
//= type=test
//# The first DKC established for any SCTP association MUST use DTLS
//# epoch 3.
#[test]
fn both_sides_derive_the_same_keys_with_each_cipher_suite() {
    for suite in CipherSuite::ALL {
        let mut two = Two::new(suite, 254);
        two.run(Time::ZERO);
        use Did::{IsProtected, Protects, Receives, Requires, Said};
        assert_eq!(two.did[0], [Said, Said, Receives(3), Protects(3), Requires, IsProtected]);
        assert_eq!(two.did[1], [Said, Receives(3), Protects(3), Requires, Said, IsProtected]);
        let [client, server] = &two.keys;
        assert!(client.iter().chain(server).all(|(_, keys)| keys.suite == suite));
        let of = |all: &'_ [(Did, Keys)], did| all.iter().position(|(it, _)| *it == did).unwrap();
        let get = |side: usize, did| &two.keys[side][of(&two.keys[side], did)].1;
        assert!(fits(get(0, Protects(3)), get(1, Receives(3))));
        assert!(fits(get(1, Protects(3)), get(0, Receives(3))));
        assert!(!fits(get(0, Protects(3)), get(0, Receives(3))), "each direction has keys of its own");
    }
}

/// The order of the draft's §6.1.
#[test]
fn with_strict_rfc_959_a_client_waits_for_the_greeting() {
    let mut two = Two::new(CipherSuite::Aes128Gcm, Method::Draft.identifier());
    two.run(Time::ZERO);
    use Did::{IsProtected, Protects, Receives, Requires, Said};
    assert_eq!(two.did[0], [Said, Said, Receives(3), Protects(3), Requires, IsProtected]);
    assert_eq!(two.did[1], [Said, Receives(3), Protects(3), Requires, Said, IsProtected]);
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.1
//= type=test
//# Earlier versions of TLS MUST NOT be used.
#[test]
fn a_peer_that_speaks_tls_1_2_is_refused() {
    let made = rcgen::generate_simple_self_signed(vec!["server.example".into()]).unwrap();
    let certificate = made.cert.der().clone();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(made.signing_key.serialize_der()));
    let mut roots = RootCertStore::empty();
    roots.add(certificate.clone()).unwrap();
    let provider = Arc::new(aws_lc_rs::default_provider());
    let client = ClientConfig::builder_with_provider(provider.clone())
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_root_certificates(roots)
        .with_no_client_auth();
    let server = ServerConfig::builder_with_provider(provider)
        .with_protocol_versions(&[&rustls::version::TLS12])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let name = ServerName::try_from("server.example").unwrap();
    let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
    two.managers[0].set_settings(Arc::new(Settings::client(Arc::new(client), name)));
    two.managers[0].handshake = None;
    two.managers[0].outputs.clear();
    two.managers[0].begin(Time::ZERO);
    two.managers[1].set_settings(Arc::new(Settings::server(Arc::new(server))));
    two.run(Time::ZERO);
    assert_eq!(two.failed, [Some(KeyError::Version), Some(KeyError::Version)]);
    assert!(two.did.iter().flatten().all(|did| *did == Did::Said));
}

#[test]
fn an_unknown_method_is_reported() {
    let mut two = Two::new(CipherSuite::Aes128Gcm, 7);
    two.run(Time::ZERO);
    assert_eq!(two.failed, [Some(KeyError::Method(7)), Some(KeyError::Method(7))]);
}

#[test]
fn a_silent_peer_is_given_up() {
    for silent in [0, 1] {
        let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
        two.drain(Time::ZERO, 1 - silent);
        let almost = Time::ZERO + Duration::from_millis(29_999);
        two.drain(almost, 1 - silent);
        assert_eq!(two.failed[1 - silent], None);
        two.drain(almost + Duration::from_millis(1), 1 - silent);
        assert_eq!(two.failed[1 - silent], Some(KeyError::Timeout));
    }
}

#[test]
fn a_handshake_without_end_is_ended() {
    let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
    two.drain(Time::ZERO, 0);
    let (_, hello) = two.flying.pop_front().unwrap();
    // The same ClientHello with one byte per record and one record per message: each is valid, and there are 1,400.
    for byte in &hello[6..] {
        two.managers[1].handle(Time::ZERO, &[3, 22, 3, 1, 0, 1, *byte]);
    }
    two.drain(Time::ZERO, 1);
    assert_eq!(two.failed[1], Some(KeyError::TooMuch));
}

#[test]
fn the_rate_of_key_requests_is_limited() {
    let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
    two.run(Time::ZERO);
    for round in 0..=PEER_HANDSHAKES_A_MINUTE {
        assert_eq!(two.failed, [None, None], "{round}");
        let epoch = two.managers[0].epoch().unwrap();
        two.managers[0].want_keys(Time::ZERO, epoch);
        two.run(Time::ZERO);
    }
    assert_eq!(two.failed[1], Some(KeyError::TooMany));
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
//= type=test
//# Implementations MUST have policies for how often to set up new TLS
//# connections with ephemeral key exchange.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
//= type=test
//# A value of 120 seconds (one Maximum Segment Lifetime) is
//# RECOMMENDED in this case.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
//= type=test
//# * If delivery has not been confirmed, the drain timer MUST be set to
//# at least the SCTP association failure time (T_fail).
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
//= type=test
//# Implementations SHOULD set the drain timer to at least T_fail when
//# delivery of the final rekeying message has not been confirmed.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
//= type=test
//# Implementations SHOULD
//# rekey at least every hour and every 100 GB of data, which is a common
//# policy for IPsec {{ANSSI-DAT-NT-003}}.
#[test]
fn keys_are_replaced_every_hour_and_old_ones_deleted() {
    let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
    two.run(Time::ZERO);
    two.run(Time::ZERO + Duration::from_secs(3_599));
    assert_eq!(two.managers[0].epoch(), Some(3));
    let hour = Time::ZERO + Duration::from_secs(3_600);
    two.run(hour);
    assert_eq!([0, 1].map(|side| two.managers[side].epoch()), [Some(4), Some(4)]);
    // The client has received records with the new keys, the server has not.
    two.managers[0].on_peer_uses(hour, primary(4));
    let forgets = |two: &Two, side: usize| two.did[side].contains(&Did::Forgets(3));
    two.run(hour + Duration::from_secs(119));
    assert!(!forgets(&two, 0));
    two.run(hour + Duration::from_secs(120));
    assert!(forgets(&two, 0) && !forgets(&two, 1));
    two.run(hour + Duration::from_secs(303));
    assert!(forgets(&two, 1));
}

/// The extensions of the ClientHello in a message (RFC 8446 §4.1.2): their types and contents.
fn extensions(message: &[u8]) -> Vec<(u16, &[u8])> {
    fn take<'a>(bytes: &mut &'a [u8], len: usize) -> &'a [u8] {
        let (taken, rest) = bytes.split_at(len);
        *bytes = rest;
        taken
    }
    fn number(bytes: &mut &[u8], len: usize) -> usize {
        take(bytes, len).iter().fold(0, |number, byte| number << 8 | usize::from(*byte))
    }
    // The message's epoch, the heads of record and handshake message, version, and random number.
    let mut bytes = &message[1 + 5 + 4 + 2 + 32..];
    for len in [1, 2, 1] {
        let of_this = number(&mut bytes, len);
        take(&mut bytes, of_this);
    }
    let len = number(&mut bytes, 2);
    let mut bytes = take(&mut bytes, len);
    let mut found = Vec::new();
    while !bytes.is_empty() {
        let kind = number(&mut bytes, 2) as u16;
        let len = number(&mut bytes, 2);
        found.push((kind, take(&mut bytes, len)));
    }
    found
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
//= type=test
//# The PSK key exchange mode psk_ke MUST NOT be used as it does not
//# provide ephemeral key exchange.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
//= type=test
//# The endpoints MUST limit the number of simultaneous TLS connections
//# to one.
//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.1
//= type=test
//# After key installation, the TLS connection SHOULD be closed promptly.
#[test]
fn each_handshake_is_whole_and_alone_and_then_over() {
    const PSK_KEY_EXCHANGE_MODES: u16 = 45;
    const KEY_SHARE: u16 = 51;
    const PSK_KE: u8 = 0;
    let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
    for epoch in 3..6 {
        if epoch > 3 {
            // Requested twice.
            (0..2).for_each(|_| two.managers[0].want_keys(Time::ZERO, epoch - 1));
        }
        (0..2).for_each(|_| two.drain(Time::ZERO, 0));
        assert_eq!(two.flying.len(), 1, "epoch {epoch}");
        let hello = extensions(&two.flying[0].1);
        let has = |kind| hello.iter().any(|(it, _)| *it == kind);
        assert!(has(KEY_SHARE) && !has(PRE_SHARED_KEY), "epoch {epoch}");
        let modes = hello.iter().find(|(kind, _)| *kind == PSK_KEY_EXCHANGE_MODES);
        assert!(modes.is_none_or(|(_, modes)| !modes[1..].contains(&PSK_KE)));
        two.run(Time::ZERO);
        assert_eq!([0, 1].map(|side| two.managers[side].epoch()), [Some(epoch); 2]);
        assert!(two.managers.iter().all(|manager| manager.handshake.is_none()));
    }
}

/// The settings of sides that resume sessions, and whose TLS configurations have early data, which is not
/// used.
fn resuming() -> [Arc<Settings>; 2] {
    let [client, server] = settings(CipherSuite::Aes128Gcm)
        .map(|settings| Settings { resumption: Resumption::FirstHandshake, ..Settings::clone(&settings) });
    let (tls, name) = client.client.clone().unwrap();
    let mut tls = ClientConfig::clone(&tls);
    tls.enable_early_data = true;
    let client = Settings { client: Some((Arc::new(tls), name)), ..client };
    let mut tls = ServerConfig::clone(server.server.as_ref().unwrap());
    tls.session_storage = ServerSessionMemoryCache::new(8);
    tls.max_early_data_size = 1_000;
    [Arc::new(client), Arc::new(Settings { server: Some(Arc::new(tls)), ..server })]
}

/// Whether the client's first message contains `extension`; leaves the message in `two`.
fn hello_has(two: &mut Two, extension: u16) -> bool {
    two.drain(Time::ZERO, 0);
    extensions(&two.flying[0].1).iter().any(|(kind, _)| *kind == extension)
}

#[test]
fn the_first_handshake_of_an_association_resumes_a_session_and_later_ones_do_not() {
    let settings = resuming();
    let mut shown = Vec::new();
    for resumed in [false, true] {
        let mut two = Two::between(settings.clone(), 254);
        assert_eq!(hello_has(&mut two, PRE_SHARED_KEY), resumed);
        assert!(!hello_has(&mut two, EARLY_DATA));
        two.run(Time::ZERO);
        assert_eq!([0, 1].map(|side| two.managers[side].is_resumed()), [resumed; 2]);
        assert!(two.managers.iter().all(|manager| manager.handshake.is_none()));
        shown.push(two.managers[0].peer_certificates().unwrap().to_vec());
        two.managers[0].want_keys(Time::ZERO, 3);
        assert!(!hello_has(&mut two, PRE_SHARED_KEY));
        two.run(Time::ZERO);
        assert_eq!([0, 1].map(|side| two.managers[side].epoch()), [Some(4); 2]);
        assert_eq!(two.failed, [None, None]);
    }
    assert_eq!(shown[0], shown[1], "the certificate of the session that was resumed");
}

#[test]
fn each_ticket_is_used_once() {
    let settings = resuming();
    Two::between(settings.clone(), 254).run(Time::ZERO);
    let mut at_once = [(); 2].map(|()| Two::between(settings.clone(), 254));
    assert_eq!(at_once.each_mut().map(|two| hello_has(two, PRE_SHARED_KEY)), [true, false]);
}

#[test]
fn a_server_that_resumes_nothing_answers_a_ticket_with_a_full_handshake() {
    let [client, server] = resuming();
    Two::between([client.clone(), server.clone()], 254).run(Time::ZERO);
    let server = Settings { resumption: Resumption::Never, ..Settings::clone(&server) };
    let mut two = Two::between([client, Arc::new(server)], 254);
    assert!(hello_has(&mut two, PRE_SHARED_KEY));
    two.run(Time::ZERO);
    assert!(two.managers.iter().all(|manager| manager.is_protected() && !manager.is_resumed()));
}

//= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
//= type=test
//# Implementations MUST set up a new TLS connection using a full
//# handshake with new certificates before any last used certificates
//# expire.
#[test]
fn a_renewed_certificate_is_shown_in_the_next_handshake() {
    let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
    two.run(Time::ZERO);
    let shown = |two: &Two| two.managers[0].peer_certificates().unwrap().to_vec();
    let before = shown(&two);
    let renewed = settings(CipherSuite::Aes128Gcm);
    two.managers.iter_mut().zip(renewed).for_each(|(manager, settings)| manager.set_settings(settings));
    two.managers[0].want_keys(Time::ZERO, 3);
    two.run(Time::ZERO);
    assert_eq!(two.managers[0].epoch(), Some(4));
    assert_ne!(shown(&two), before);
}

#[test]
fn keys_are_replaced_after_their_bytes() {
    let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
    two.run(Time::ZERO);
    two.managers[0].handle_bytes(Time::ZERO, 89_999_999_999);
    two.run(Time::ZERO);
    assert_eq!(two.managers[1].epoch(), Some(3));
    two.managers[0].handle_bytes(Time::ZERO, 90_000_000_000);
    two.run(Time::ZERO);
    assert_eq!(two.managers[1].epoch(), Some(4));
    // The bytes are counted from 0 again.
    two.managers[0].handle_bytes(Time::ZERO, 179_999_999_999);
    two.run(Time::ZERO);
    assert_eq!(two.managers[1].epoch(), Some(4));
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    /// Arbitrary input at any point of a handshake causes no panic, and a failed side stays failed.
    #[test]
    fn arbitrary_input_is_survived(
        steps in proptest::collection::vec((any::<bool>(), proptest::collection::vec(any::<u8>(), 0..60)), 1..20),
        order in 0..8_usize,
    ) {
        let mut two = Two::new(CipherSuite::Aes128Gcm, 254);
        for _ in 0..order {
            two.drain(Time::ZERO, 0);
            two.drain(Time::ZERO, 1);
            if let Some((to, message)) = two.flying.pop_front() {
                two.managers[to].handle(Time::ZERO, &message);
            }
        }
        for (to_server, mut message) in steps {
            if let Some(first) = message.first_mut() {
                *first = *first & 0x81 | 2;
            }
            two.managers[usize::from(to_server)].handle(Time::ZERO, &message);
            two.drain(Time::ZERO, usize::from(to_server));
        }
        two.run(Time::ZERO);
    }
}
