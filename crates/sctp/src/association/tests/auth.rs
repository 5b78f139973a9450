//! Authenticated chunks between two endpoints, and forged ones (RFC 4895).

use super::*;
use crate::association::reset::{Outcome, StreamReset, Streams};
use crate::association::{AuthEvent, KeyError, auth};
use crate::config::{AuthConfig, PeerMay, SharedKey};
use crate::ids::{RequestNumber, Tsn};
use crate::wire::{Auth, Cause, HmacId, Init, Parameter, Reconfig, Signer};

fn key(id: u16, secret: &'static str) -> SharedKey {
    SharedKey { id, secret: Bytes::from_static(secret.as_bytes()) }
}

/// A configuration that requires authentication of these chunk types.
fn wanting(chunks: &[u8]) -> Config {
    with(AuthConfig { chunks: chunks.to_vec(), ..AuthConfig::default() })
}

fn with(auth: AuthConfig) -> Config {
    modern().with(|c| c.security.auth = Some(auth))
}

fn auth_events(pair: &Pair, side: Side) -> Vec<AuthEvent> {
    let events = pair.events(side).iter();
    events.filter_map(|event| if let Event::Authentication(it) = event { Some(*it) } else { None }).collect()
}

/// The chunk types before and after the AUTH chunk in the packets of one side.
fn arrangement(chunks: &[Chunk]) -> (Vec<u8>, Vec<u8>) {
    let kinds: Vec<u8> = chunks.iter().map(Chunk::kind).collect();
    match kinds.iter().position(|kind| *kind == Auth::KIND) {
        Some(at) => (kinds[..at].to_vec(), kinds[at + 1..].to_vec()),
        None => (kinds, Vec::new()),
    }
}

#[test]
fn nothing_is_announced_unless_configured() {
    let mut pair = Pair::new(rfc());
    pair.run(Duration::from_secs(1));
    let init = pair.packets(Client).into_iter().flatten().next();
    assert!(matches!(init, Some(Chunk::Init(init)) if init.parameters.is_empty()));
}

//= specs/rfc4895.txt#section-6.2
//= type=test
//# Endpoints MUST send all requested chunks that have been authenticated
//# where this has been requested by the peer.
//= specs/rfc4895.txt#section-3.1
//= type=test
//# The RANDOM parameter MUST be included once in the INIT or INIT-ACK
//# chunk, if the sender wants to send or receive authenticated chunks,
//# to provide a 32-byte Random Number.
//= specs/rfc4895.txt#section-3.2
//= type=test
//# The CHUNKS parameter MUST be included once in the INIT or INIT-ACK
//# chunk if the sender wants to receive authenticated chunks.
//= specs/rfc4895.txt#section-3.3
//= type=test
//# The HMAC-ALGO parameter MUST be included once in the INIT or
//# INIT-ACK chunk if the sender wants to send or receive authenticated
//# chunks.
//= specs/rfc4895.txt#section-6.1
//= type=test
//# An SCTP endpoint willing to receive or send authenticated chunks
//# MUST send one RANDOM parameter in its INIT or INIT-ACK chunk.  The
//# RANDOM parameter MUST contain a 32-byte Random Number.
//= specs/rfc4895.txt#section-6.1
//= type=test
//# Each SCTP endpoint MUST include in the INIT and INIT-ACK a HMAC-ALGO
//# parameter containing a list of HMAC Identifiers it requests the peer
//# to use.
//= specs/rfc4895.txt#section-6.2
//= type=test
//# To send chunks in an authenticated way, the sender MUST include
//# these chunks after an AUTH chunk.
//= specs/rfc4895.txt#section-6.2
//= type=test
//# This means that a sender MUST bundle chunks in order to authenticate
//# them.
#[test]
fn chunks_the_peer_wants_authenticated_follow_an_auth_chunk_and_fill_packets() {
    let mut pair = Pair::with(wanting(&[Sack::KIND]), wanting(&[Data::KIND]));
    pair.run(Duration::from_secs(1));
    pair.loss = 30;
    pair.send(Client, 0, pattern(300_000));
    pair.send(Server, 1, pattern(100_000));
    assert!(pair.run_until(|pair| !pair.read(Server, 0).is_empty() && !pair.read(Client, 1).is_empty()));
    assert_eq!(pair.read(Server, 0), [pattern(300_000)]);
    assert_eq!(pair.read(Client, 1), [pattern(100_000)]);
    let inits = [Client, Server].map(|side| match &pair.packets(side)[0][..] {
        [Chunk::Init(init) | Chunk::InitAck(init)] => init.clone(),
        other => panic!("{other:?}"),
    });
    for init in &inits {
        let randoms = init.parameters.iter().filter(|p| matches!(p, Parameter::Random(it) if it.len() == 32));
        assert_eq!(randoms.count(), 1);
        for kind in [Parameter::RANDOM, Parameter::CHUNK_LIST, Parameter::HMAC_ALGO] {
            assert_eq!(init.parameters.iter().filter(|it| it.kind() == kind).count(), 1);
        }
    }
    let full = pair.association(Client).config.path_mtu.packet_bytes;
    for (_, side, packet) in &pair.log {
        let (before, behind) = arrangement(&chunks(packet));
        let (asked, other) =
            if *side == Client { (Data::KIND, Sack::KIND) } else { (Sack::KIND, Data::KIND) };
        assert!(!before.contains(&asked), "{packet}");
        assert!(behind.is_empty() || behind.contains(&asked), "{other} alone needs none: {packet}");
        assert!(packet.len() <= full);
    }
    let fullest = pair.log.iter().filter(|entry| entry.1 == Client).map(|entry| entry.2.len()).max();
    assert_eq!(fullest, Some(full), "room is left for AUTH, and no more");
    let client = pair.association(Client);
    assert_eq!((client.peer_auth_chunks(), client.local_auth_chunks()), (vec![Data::KIND], vec![Sack::KIND]));
}

/// usrsctp lists DATA alone and expects I-DATA to be authenticated as well.
#[test]
fn a_list_with_data_applies_to_i_data_as_well() {
    let interleaving = wanting(&[Data::KIND]).with(|c| c.messages.interleaving = true);
    let both = [Data::KIND, Data::INTERLEAVED_KIND];
    let mut pair = Pair::new(interleaving.clone());
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.association(Client).local_auth_chunks(), both, "it is listed for peers that look for it");
    assert_eq!(pair.association(Client).peer_auth_chunks(), both);

    let vector =
        |config: &Config| auth::key_vector(&auth::parameters(config, &[7; auth::RANDOM_LEN])).unwrap();
    let (local, peer) = (vector(&interleaving).unwrap(), vector(&wanting(&[Data::KIND])).unwrap());
    let mut authentication = auth::Authentication::new(&interleaving);
    authentication.agree(Some(&crate::wire::KeyVectors { local, peer }));
    let authentic = authentication.authentic().unwrap();
    assert!(both.iter().all(|kind| authentic.chunks.contains(*kind)));
}

//= specs/rfc4895.txt#section-6.3
//= type=test
//# The receiver has a list of chunk types that it expects to be received
//# only after an AUTH-chunk.  This list has been sent to the peer during
//# the association setup.  It MUST silently discard these chunks if they
//# are not placed after an AUTH chunk in the packet.
#[test]
fn unauthenticated_chunks_are_silently_discarded() {
    let mut pair = Pair::up(wanting(&[Data::KIND, Chunk::ABORT, Chunk::SHUTDOWN]));
    let tsn = pair.association(Client).initial_tsn;
    let data = Data { immediate: true, ..Data::whole(tsn, b"forged") };
    let auth = Chunk::Auth(Auth { key_id: 0, hmac_id: 3, hmac: vec![0; 32].into() });
    let abort = Chunk::Abort { reflected: false, causes: Vec::new() };
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"are you there"));
    pair.forge(&[Chunk::Data(data.clone())]);
    pair.forge(std::slice::from_ref(&abort));
    pair.forge(&[Chunk::Shutdown { cum_tsn_ack: tsn.minus(1) }]);
    pair.forge(&[auth.clone(), Chunk::Data(data), abort]);
    assert!(pair.packets(Server).is_empty());
    assert!(pair.association(Server).is_up() && pair.association(Server).readable().is_none());
    // Unauthenticated chunks of other types are processed, also behind discarded ones; everything behind a forged AUTH chunk is
    // discarded.
    pair.forge(&[Chunk::Shutdown { cum_tsn_ack: tsn.minus(1) }, heartbeat.clone()]);
    assert!(matches!(&pair.packets(Server)[..], [only] if only[0].kind() == Chunk::HEARTBEAT_ACK));
    pair.clear_log();
    pair.forge(&[auth, heartbeat]);
    assert!(pair.packets(Server).is_empty());
    // The genuine chunk is accepted.
    pair.send(Client, 0, "genuine");
    pair.association(Client).shutdown();
    assert!(pair.run_until(|pair| pair.closed(Client).is_some()));
    assert_eq!(pair.read(Server, 0), [b"genuine"]);
    assert_eq!(pair.closed(Client), Some(&Reason::Shutdown));
}

/// A packet in the client's name, signed with its key.
fn forge_signed(pair: &mut Pair, signer: &Signer, behind: &[Chunk]) {
    let mut builder = PacketBuilder::new();
    let kinds = behind.iter().map(Chunk::kind).collect();
    builder.authenticate(crate::wire::Authentic { signer: signer.clone(), chunks: kinds });
    builder.begin(pair.last_header.unwrap(), 1_452);
    behind.iter().for_each(|chunk| builder.push(chunk));
    builder.seal();
    let payload = builder.finish().unwrap().payload;
    pair.forge_bytes(payload);
}

//= specs/rfc4895.txt#section-6.3
//= type=test
//# If this algorithm was not specified by the
//# receiver in the HMAC-ALGO parameter in the INIT or INIT-ACK chunk
//# during association setup, the AUTH chunk and all the chunks after it
//# MUST be discarded and an ERROR chunk SHOULD be sent with the error
//# cause defined in Section 4.1.
#[test]
fn a_hash_function_that_was_not_asked_for_is_reported() {
    let only_sha1 = with(AuthConfig { hmacs: vec![HmacId::Sha1], ..AuthConfig::default() });
    let mut pair = Pair::with(wanting(&[]), only_sha1);
    pair.run(Duration::from_secs(1));
    pair.clear_log();
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"1"));
    for hmac_id in [0, 2, 3, 9] {
        pair.forge(&[Chunk::Auth(Auth { key_id: 0, hmac_id, hmac: vec![0; 32].into() }), heartbeat.clone()]);
        let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
        assert_eq!(said, [Chunk::Error(vec![Cause::UnsupportedHmac(hmac_id)])]);
        pair.clear_log();
    }
}

//= specs/rfc4895.txt#section-5.1
//= type=test
//# The control chunk AUTH MUST NOT appear more than once in an SCTP
//# packet.
#[test]
fn chunks_after_a_second_auth_chunk_are_ignored() {
    let mut pair = Pair::up(wanting(&[]));
    let signer = pair.association(Client).auth.signer(0, HmacId::Sha256).unwrap().clone();
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"1"));
    forge_signed(&mut pair, &signer, std::slice::from_ref(&heartbeat));
    assert_eq!(pair.packets(Server).len(), 1);
    pair.clear_log();
    let second = Chunk::Auth(Auth { key_id: 0, hmac_id: 3, hmac: vec![0; 32].into() });
    forge_signed(&mut pair, &signer, &[Chunk::CookieAck, second, heartbeat]);
    assert!(pair.packets(Server).is_empty());
}

//= specs/rfc4895.txt#section-6.3
//= type=test
//# If no endpoint
//# pair shared key has been configured for that Shared Key Identifier,
//# all authenticated chunks MUST be silently discarded.
//= specs/rfc4895.txt#section-6.2
//= type=test
//# If endpoint pair shared keys are used, one of them MUST be selected
//# for authentication.
//= specs/rfc4895.txt#section-6.3
//= type=test
//# If an endpoint with no shared key receives a Shared Key Identifier
//# other than 0, it MUST silently discard all authenticated chunks.
#[test]
fn only_chunks_authenticated_with_the_key_are_accepted() {
    let keyed = |keys: Vec<SharedKey>, active_key| {
        with(AuthConfig { chunks: vec![Data::KIND], keys, active_key, ..AuthConfig::default() })
    };
    let (good, bad) = (key(5, "secret"), key(5, "guess"));
    for (client, heard) in [
        (keyed(vec![good.clone()], 5), true),
        (keyed(vec![bad], 5), false),
        (keyed(vec![key(4, "secret")], 4), false),
        // The null key is not accepted where there is a real one (§9).
        (wanting(&[Data::KIND]), false),
        (keyed(vec![key(0, ""), good.clone()], 0), false),
    ] {
        let mut pair = Pair::with(client.clone(), keyed(vec![good.clone()], 5));
        pair.send(Client, 0, "hello");
        pair.run(Duration::from_secs(2));
        assert!(pair.association(Server).is_up());
        assert_eq!(!pair.read(Server, 0).is_empty(), heard, "{:?}", client.security.auth);
        assert!(heard || pair.sacks(Server).is_empty(), "silently");
    }
    // A side without keys accepts only chunks authenticated with the null key.
    let mut pair = Pair::with(keyed(vec![good], 5), wanting(&[Data::KIND]));
    pair.send(Client, 0, "hello");
    pair.run(Duration::from_secs(2));
    assert!(pair.read(Server, 0).is_empty() && pair.sacks(Server).is_empty());
}

//= specs/rfc4895.txt#section-6.3
//= type=test
//# If the endpoint has at least one endpoint pair shared key for the
//# peer, it MUST use the key specified by the Shared Key Identifier if
//# a key has been configured for that Shared Key Identifier.
#[test]
fn keys_change_while_data_flows() {
    let config =
        with(AuthConfig { chunks: vec![Data::KIND], keys: vec![key(1, "one")], ..AuthConfig::default() });
    let mut pair = Pair::up(config);
    let ids = |pair: &Pair| -> Vec<u16> {
        let all = pair.packets(Client).into_iter().flatten();
        all.filter_map(|chunk| if let Chunk::Auth(auth) = chunk { Some(auth.key_id) } else { None }).collect()
    };
    pair.send(Client, 0, "a");
    pair.run(Duration::from_secs(1));
    for side in [Client, Server] {
        pair.association(side).set_key(key(2, "two")).unwrap();
    }
    pair.association(Client).activate_key(2).unwrap();
    pair.send(Client, 0, "b");
    pair.run(Duration::from_secs(1));
    pair.association(Client).deactivate_key(1).unwrap();
    assert_eq!(pair.association(Client).activate_key(1), Err(KeyError::NoSuchKey), "it is over");
    pair.association(Client).delete_key(1).unwrap();
    pair.association(Server).delete_key(1).unwrap_err();
    pair.send(Client, 0, "c");
    pair.run(Duration::from_secs(1));
    assert_eq!(ids(&pair), [1, 2, 2]);
    assert_eq!(pair.read(Server, 0), [b"a", b"b", b"c"]);
    assert_eq!(auth_events(&pair, Client), [AuthEvent::FreeKey(1)]);
    assert_eq!(auth_events(&pair, Server), [AuthEvent::NewKey(2)]);
}

#[test]
fn keys_are_limited() {
    let mut pair = Pair::up(wanting(&[]));
    let client = pair.association(Client);
    for id in 1..AuthConfig::MAX_KEYS as u16 {
        client.set_key(key(id, "k")).unwrap();
    }
    assert_eq!(client.set_key(key(99, "k")), Err(KeyError::TooMany));
    client.set_key(key(3, "another in its place")).unwrap();
    assert_eq!(client.activate_key(99), Err(KeyError::NoSuchKey));
    assert_eq!(client.delete_key(99), Err(KeyError::NoSuchKey));
    assert_eq!(client.deactivate_key(99), Err(KeyError::NoSuchKey));
    assert_eq!(
        (client.delete_key(0), client.deactivate_key(0)),
        (Err(KeyError::Active), Err(KeyError::Active))
    );
    let long = |len| SharedKey { id: 3, secret: vec![1; len].into() };
    client.set_key(long(AuthConfig::MAX_KEY_BYTES)).unwrap();
    assert_eq!(client.set_key(long(AuthConfig::MAX_KEY_BYTES + 1)), Err(KeyError::TooLong));
    let mut pair = Pair::up(rfc());
    assert_eq!(pair.association(Client).set_key(key(1, "k")), Err(KeyError::NotEnabled));
    assert_eq!(pair.association(Client).delete_key(0), Err(KeyError::NotEnabled));
}

#[test]
fn a_peer_without_authentication_is_reported_and_gets_no_exception() {
    let mut pair = Pair::with(rfc(), wanting(&[Data::KIND]));
    pair.send(Client, 0, "in the clear");
    pair.run(Duration::from_secs(2));
    assert_eq!(auth_events(&pair, Server), [AuthEvent::NoAuth]);
    assert!(pair.read(Server, 0).is_empty());
    pair.send(Server, 0, "the other way");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Client, 0), [b"the other way"]);
}

//= specs/rfc4895.txt#section-6.3
//= type=test
//# In this situation, the receiver MUST authenticate the
//# chunks in the packet by using the RANDOM parameters, CHUNKS
//# parameters and HMAC_ALGO parameters obtained from the COOKIE-ECHO
//# chunk, and possibly a local shared secret as inputs to the
//# authentication procedure specified in Section 6.3.
//= specs/rfc4895.txt#section-6.3
//= type=test
//# If the authentication is successful, the COOKIE-ECHO and all the
//# chunks after the COOKIE-ECHO MUST be processed.
//= specs/rfc4895.txt#section-6.3
//= type=test
//# Furthermore, it is important that the cookie contained in an
//# INIT-ACK chunk and in a COOKIE-ECHO chunk MUST NOT contain any
//# endpoint pair shared keys.
#[test]
fn a_cookie_that_must_be_authentic_makes_an_association_only_if_it_is() {
    let keyed = |secret| {
        let chunks = vec![Chunk::COOKIE_ECHO, Data::KIND];
        with(AuthConfig { chunks, keys: vec![key(1, secret)], active_key: 1, ..AuthConfig::default() })
    };
    for (client, comes_up) in [(keyed("secret"), true), (keyed("guess"), false), (modern(), false)] {
        let mut pair = Pair::with(client, keyed("secret"));
        pair.send(Client, 0, "with the cookie");
        pair.run(Duration::from_secs(1));
        assert_eq!(pair.server_id.is_some(), comes_up);
        if comes_up {
            assert_eq!(pair.read(Server, 0), [b"with the cookie"]);
            let packets = pair.packets(Client);
            let echo = packets.iter().find(|packet| packet.last().unwrap().kind() == Data::KIND).unwrap();
            assert_eq!(arrangement(echo), (vec![], vec![Chunk::COOKIE_ECHO, Data::KIND]));
            let Chunk::CookieEcho(cookie) = &echo[1] else { panic!("{echo:?}") };
            assert!(!cookie.windows(6).any(|bytes| bytes == b"secret"));
        }
    }
}

//= specs/rfc4895.txt#section-6.3
//= type=test
//# If the receiver has an STCB, it MUST process the
//# AUTH chunk as described above using the STCB from the existing
//# association to authenticate the COOKIE-ECHO chunk and all the chunks
//# after it.
#[test]
fn a_repeated_cookie_is_authentic_again() {
    let mut pair = Pair::new(wanting(&[Chunk::COOKIE_ECHO]));
    let mut first = true;
    // The COOKIE ACK is lost.
    pair.drop = Some(Box::new(move |side, _, packet| {
        side == Server && has(packet, Chunk::COOKIE_ACK) && std::mem::take(&mut first)
    }));
    pair.send(Client, 0, "once");
    assert!(pair.run_until(|pair| pair.association(Client).is_up()));
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 0), [b"once"]);
    assert_eq!(pair.server.len(), 1);
}

/// The client has lost its state and connects again from the same port.
fn restarted(pair: &mut Pair, config: Config) {
    let port = pair.association(Client).ports().0;
    pair.client = Endpoint::new([9; 32]);
    let connect = Connect {
        local: vec![client_address()],
        peer: vec![server_address()],
        source_port: Some(port),
        destination_port: PORT,
        config: Arc::new(config),
    };
    pair.client_id = pair.client.connect(pair.now, connect).unwrap();
}

#[test]
fn a_peer_that_restarts_has_new_keys_and_none_if_its_cookie_must_be_authentic() {
    let mut pair = Pair::up(wanting(&[Data::KIND]));
    pair.send(Client, 0, "before");
    pair.run(Duration::from_secs(1));
    restarted(&mut pair, wanting(&[Data::KIND]));
    pair.send(Client, 0, "after");
    pair.run(Duration::from_secs(1));
    assert!(pair.events(Server).contains(&Event::Restarted));
    assert_eq!(pair.read(Server, 0), [&b"before"[..], b"after"]);
    pair.send(Server, 0, "and back");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Client, 0), [b"and back"]);

    let mut pair = Pair::up(wanting(&[Chunk::COOKIE_ECHO]));
    restarted(&mut pair, wanting(&[Chunk::COOKIE_ECHO]));
    pair.run(Duration::from_secs(1));
    assert!(!pair.events(Server).contains(&Event::Restarted) && !pair.association(Client).is_up());
}

//= specs/rfc4895.txt#section-6.1
//= type=test
//# In case
//# of INIT collision, the rules governing the handling of this Random
//# Number follow the same pattern as those for the Verification Tag, as
//# explained in Section 5.2.4 of RFC 2960 [5].
#[test]
fn simultaneous_key_exchanges_derive_the_same_keys() {
    for chunks in [&[Data::KIND][..], &[Data::KIND, Chunk::COOKIE_ECHO]] {
        for drops in 0..16_u32 {
            let mut pair = Pair::new(wanting(chunks));
            let port = pair.association(Client).ports().0;
            let connect = Connect {
                local: vec![server_address()],
                peer: vec![client_address()],
                source_port: Some(PORT),
                destination_port: port,
                config: Arc::new(wanting(chunks)),
            };
            pair.server_id = Some(pair.server.connect(pair.now, connect).unwrap());
            // Each of the first two packets of either side may be lost.
            pair.drop =
                Some(Box::new(move |side, nth, _| nth < 2 && drops >> (2 * side as usize + nth) & 1 == 1));
            pair.send(Client, 0, "from one side");
            pair.send(Server, 0, "from the other");
            pair.run(Duration::from_secs(20));
            assert_eq!(pair.read(Server, 0), [b"from one side"], "{drops:04b}");
            assert_eq!(pair.read(Client, 0), [b"from the other"], "{drops:04b}");
            assert_eq!((pair.client.len(), pair.server.len()), (1, 1));
        }
    }
}

//= specs/rfc4895.txt#section-6.1
//= type=test
//# If the Random
//# Number is not 32 bytes, the association MUST be aborted.  The ABORT
//# chunk SHOULD contain the error cause 'Protocol Violation'.
#[test]
fn a_random_number_of_another_length_ends_it() {
    let parameters =
        |random: usize| vec![Parameter::Random(vec![7; random].into()), Parameter::HmacAlgo(vec![1])];
    for random in [0, 31, 33] {
        let mut pair = Pair::up(wanting(&[]));
        let init = Init { parameters: parameters(random), ..pair.association(Client).init() };
        let init = Init { initiate_tag: crate::ids::VerificationTag(77), ..init };
        let last = pair.last_header.unwrap();
        let header = Header { source_port: 99, tag: crate::ids::VerificationTag(0), ..last };
        pair.last_header = Some(header);
        pair.forge(&[Chunk::Init(init)]);
        let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
        assert!(
            matches!(&said[..], [Chunk::Abort { causes, .. }] if matches!(&causes[..], [Cause::ProtocolViolation(_)])),
            "{said:?}"
        );
    }
}

#[test]
fn an_init_without_authentication_parameters_is_accepted() {
    // A stack without authentication ignores its parameters, whatever they contain.
    let mut pair = Pair::up(rfc());
    let parameters = vec![Parameter::Random(vec![7; 5].into()), Parameter::HmacAlgo(vec![1])];
    let init =
        Init { parameters, initiate_tag: crate::ids::VerificationTag(77), ..pair.association(Client).init() };
    let last = pair.last_header.unwrap();
    pair.last_header = Some(Header { source_port: 99, tag: crate::ids::VerificationTag(0), ..last });
    pair.forge(&[Chunk::Init(init)]);
    let said: Vec<_> = pair.packets(Server).into_iter().flatten().collect();
    assert!(matches!(&said[..], [Chunk::InitAck(ack)] if ack.parameters.len() == 1), "{said:?}");
}

#[test]
fn without_authentication_an_auth_chunk_ends_its_packet() {
    let mut pair = Pair::up(rfc());
    let heartbeat = Chunk::Heartbeat(Bytes::from_static(b"1"));
    pair.forge(&[Chunk::Auth(Auth { key_id: 0, hmac_id: 3, hmac: vec![0; 32].into() }), heartbeat]);
    assert!(pair.packets(Server).is_empty(), "its type's high bits are 00");
}

#[test]
fn only_an_authenticated_abort_ends_the_association() {
    let mut pair = Pair::up(wanting(&[Chunk::ABORT]));
    pair.association(Client).abort(Bytes::from_static(b"enough"));
    pair.run(Duration::from_secs(1));
    assert!(
        matches!(pair.closed(Server), Some(reason) if reason.peer_abort_reason() == Some(&"enough".into()))
    );
}

//= specs/rfc5061.txt#section-4.2.6
//= type=test
//# This parameter SHOULD NOT be examined by the receiving SCTP
//# implementation and should be passed opaquely to the upper-layer
//# protocol.
//= specs/rfc5061.txt#section-4.2.6
//= type=test
//# The Adaptation Layer Indication parameter may appear in INIT or
//# INIT- ACK chunk and SHOULD be passed to the receiver's upper-layer
//# protocol based upon the upper-layer protocol configuration of the
//# SCTP stack.
//= specs/rfc5061.txt#section-6
//= type=test
//# This parameter SHOULD be opaque to the SCTP protocol (see Section
//# 4.2.6), and so changes to the parameter will likely not affect the
//# SCTP protocol.
#[test]
fn the_adaptation_code_point_reaches_the_peer() {
    let says = |adaptation| rfc().with(|c| c.handshake.adaptation = adaptation);
    let mut pair = Pair::with(says(Some(0x1234_5678)), says(Some(7)));
    pair.run(Duration::from_secs(1));
    let told = |pair: &Pair, side| {
        pair.events(side).iter().find_map(|event| match event {
            Event::Up { adaptation, .. } => Some(*adaptation),
            _ => None,
        })
    };
    assert_eq!((told(&pair, Client), told(&pair, Server)), (Some(Some(7)), Some(Some(0x1234_5678))));
    let pending_sample = |chunk: &Chunk| match chunk {
        Chunk::InitAck(ack) => ack.parameters.iter().any(|p| matches!(p, Parameter::Unrecognized(_))),
        chunk => chunk.kind() == Chunk::ERROR,
    };
    assert!(
        !pair.log.iter().any(|entry| chunks(&entry.2).iter().any(pending_sample)),
        "nobody calls it unknown"
    );
    let mut pair = Pair::with(says(None), says(Some(7)));
    pair.run(Duration::from_secs(1));
    assert_eq!((told(&pair, Client), told(&pair, Server)), (Some(Some(7)), Some(None)));
}

/// A key of length 0 was a null pointer in another stack (similar to CVE-2026-23125).
#[test]
fn an_auth_chunk_before_keys_are_agreed_is_harmless() {
    let mut pair = Pair::new(wanting(&[]));
    let auth = Chunk::Auth(Auth { key_id: 0, hmac_id: 3, hmac: vec![0; 32].into() });
    // INIT is sent, and nothing is agreed yet.
    pair.drain(Client);
    let tag = pair.association(Client).tag;
    let port = pair.association(Client).ports().0;
    let mut builder = PacketBuilder::new();
    for behind in
        [Chunk::CookieAck, Chunk::CookieEcho(Bytes::from_static(b"x")), Chunk::Heartbeat(Bytes::new())]
    {
        builder.begin(Header { source_port: PORT, destination_port: port, tag }, 1_452);
        builder.push(&auth);
        builder.push(&behind);
        builder.seal();
        let payload = builder.finish().unwrap().payload;
        let (from, to) = (server_address(), client_address());
        pair.client.handle(pair.now, Datagram { from, to, ecn: Ecn::NotEct, payload });
    }
    pair.run(Duration::from_secs(1));
    assert!(pair.association(Client).is_up());
    assert_ne!(pair.association(Client).initial_tsn, Tsn(0));
}

//= specs/rfc4895.txt#section-3.3
//= type=test
//# Every endpoint supporting SCTP chunk authentication MUST support the
//# HMAC based on the SHA-1 algorithm.
//= specs/rfc4895.txt#section-6.1
//= type=test
//# The receiver of an HMAC-ALGO parameter SHOULD use the first listed
//# algorithm it supports.
//= specs/rfc4895.txt#section-6.2
//= type=test
//# If the endpoint has no endpoint pair shared key for the peer, it
//# MUST use Shared Key Identifier zero with an empty endpoint pair
//# shared key.
//= specs/rfc4895.txt#section-6.3
//= type=test
//# The receiver MUST use the HMAC algorithm indicated in the HMAC
//# Identifier field.
#[test]
fn sha_1_alone_and_no_key_are_enough() {
    let hmacs = vec![HmacId::Sha1];
    let only_sha1 = with(AuthConfig { chunks: vec![Data::KIND], hmacs, ..AuthConfig::default() });
    // The server supports SHA-1 only; the client prefers SHA-256 and supports both.
    let mut pair = Pair::with(wanting(&[Data::KIND]), only_sha1);
    pair.send(Client, 0, "there");
    pair.send(Client, 1, "again");
    pair.run(Duration::from_secs(1));
    pair.send(Server, 0, "and back");
    pair.run(Duration::from_secs(1));
    assert_eq!(pair.read(Server, 0), [b"there"]);
    assert_eq!(pair.read(Client, 0), [b"and back"]);
    for (side, hmac_id) in [(Client, 1), (Server, 3)] {
        let auths = pair.packets(side).into_iter().flatten();
        let auths: Vec<_> =
            auths.filter_map(|chunk| if let Chunk::Auth(auth) = chunk { Some(auth) } else { None }).collect();
        assert!(!auths.is_empty());
        assert!(auths.iter().all(|auth| (auth.key_id, auth.hmac_id) == (0, hmac_id)), "{auths:?}");
    }
}

//= specs/rfc4895.txt#section-6.2
//= type=test
//# Endpoints MUST send all requested chunks that have been authenticated
//# where this has been requested by the peer.
#[test]
fn a_re_configuration_is_authenticated_if_the_peer_requires_it() {
    let may = PeerMay { reset_streams: true, reset_association: true, add_streams: true };
    let config = wanting(&[Chunk::RECONFIG]).with(|c| {
        c.streams.reconfiguration = true;
        c.streams.peer_may = may;
    });
    let mut pair = Pair::up(config);
    for side in [Client, Server] {
        let now = pair.now;
        let association = pair.association(side);
        association.add_streams(1, 1).unwrap();
        pair.run(Duration::from_secs(1));
        for each in [Client, Server] {
            pair.send(each, 1, pattern(10));
        }
        pair.run(Duration::from_secs(1));
        let association = pair.association(side);
        let all = || Some(Streams::All);
        association.reset_streams(StreamReset { outgoing: all(), incoming: all() }).unwrap();
        pair.run(Duration::from_secs(1));
        pair.association(side).reset_association(now).unwrap();
        pair.run(Duration::from_secs(1));
    }
    for side in [Client, Server] {
        let done = |event: &&Event| {
            matches!(
                event,
                Event::StreamChange { outcome: Outcome::Done, .. }
                    | Event::StreamReset { outcome: Outcome::Done, .. }
                    | Event::AssociationReset { outcome: Outcome::Done, .. }
            )
        };
        assert_eq!(pair.events(side).iter().filter(done).count(), 10);
    }
    let with_it: Vec<_> = pair.log.iter().filter(|entry| has(&entry.2, Chunk::RECONFIG)).collect();
    assert!(with_it.len() > 10);
    for (_, _, packet) in with_it {
        let (before, behind) = arrangement(&chunks(packet));
        assert!(!before.contains(&Chunk::RECONFIG) && behind.contains(&Chunk::RECONFIG), "{packet}");
    }
    // Unauthenticated chunks are discarded silently.
    pair.clear_log();
    let request = RequestNumber(pair.association(Client).initial_tsn.0).plus(5);
    for ahead in 0..4 {
        let request = request.plus(ahead);
        pair.forge(&[Chunk::Reconfig(vec![Reconfig::AddOutgoing { request, count: 1 }])]);
    }
    assert!(pair.packets(Server).is_empty());
}
