//! Protected associations over UDP on loopback, with keys from TLS handshakes.

use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use crate::common::{PORT, content, endpoint, receive_all, send_all, soon, to};
use braidftp_net::keys::rustls::crypto::aws_lc_rs;
use braidftp_net::keys::rustls::pki_types::{PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use braidftp_net::keys::rustls::{ClientConfig, RootCertStore, ServerConfig};
use braidftp_net::keys::{KeyError, Settings};
use braidftp_net::sctp::dtls::{FIRST_EPOCH, KEY_MANAGEMENT_PPID, Mode};
use braidftp_net::{
    Association, Bind, Config, Endpoint, Limits, Message, PathState, Ppid, Profile, Reason, StreamId,
};

fn modern() -> Arc<Config> {
    Arc::new(Profile::Modern.config())
}

/// The settings of a client and a server that trust each other.
fn settings() -> [Settings; 2] {
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
        .with_safe_default_protocol_versions()
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(vec![certificate], key)
        .unwrap();
    let name = ServerName::try_from("server.example").unwrap();
    [Settings::client(Arc::new(client), name), Settings::server(Arc::new(server))]
}

struct Pair {
    client: Association,
    server: Association,
    _endpoints: [Endpoint; 2],
}

async fn pair([client, server]: [Settings; 2]) -> Pair {
    let endpoints = [endpoint(), endpoint()];
    let listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    let connect = to(&endpoints[1], &modern());
    let client = endpoints[0].connect_protected(connect, Arc::new(client)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    soon(client.up()).await.unwrap();
    Pair { client, server, _endpoints: endpoints }
}

#[tokio::test]
async fn a_protected_echo_comes_back_and_both_sides_end_in_peace() {
    let pair = pair(settings()).await;
    assert!(pair.client.is_protected() && pair.server.is_protected());
    assert_eq!(pair.client.peer_certificates().unwrap().len(), 1);
    assert_eq!(pair.server.peer_certificates(), None);
    pair.client.send(StreamId(0), Message::new(Ppid(0), "hello")).await.unwrap();
    let piece = soon(pair.server.recv(StreamId(0))).await.unwrap().unwrap();
    pair.server.send(StreamId(0), Message::new(Ppid(0), piece.payload.concat())).await.unwrap();
    let piece = soon(pair.client.recv(StreamId(0))).await.unwrap().unwrap();
    assert_eq!(piece.payload.concat(), b"hello");
    assert_eq!(soon(pair.client.shutdown()).await, Reason::Shutdown);
    assert_eq!(soon(pair.server.closed()).await, Reason::Shutdown);
}

#[tokio::test]
async fn a_loose_listener_accepts_both_and_protects_peers_that_support_it() {
    let [client, server] = settings();
    let server = Settings { mode: Mode::Loose, ..server };
    let endpoints = [endpoint(), endpoint()];
    let listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    let connect = || to(&endpoints[1], &modern());
    for is_protected in [true, false] {
        let near = match is_protected {
            true => endpoints[0].connect_protected(connect(), Arc::new(client.clone())),
            false => endpoints[0].connect(connect()),
        };
        let near = near.unwrap();
        let far = soon(listener.accept()).await.unwrap();
        soon(near.up()).await.unwrap();
        assert_eq!((near.is_protected(), far.is_protected()), (is_protected, is_protected));
        near.send(StreamId(0), Message::new(Ppid(0), "hello")).await.unwrap();
        let piece = soon(far.recv(StreamId(0))).await.unwrap().unwrap();
        assert_eq!(piece.payload.concat(), b"hello");
    }
}

#[tokio::test]
async fn messages_wait_for_keys() {
    let [client, server] = settings();
    let endpoints = [endpoint(), endpoint()];
    let listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    let connect = to(&endpoints[1], &modern());
    let client = endpoints[0].connect_protected(connect, Arc::new(client)).unwrap();
    assert!(!client.is_protected());
    soon(client.send(StreamId(0), Message::new(Ppid(0), "at once"))).await.unwrap();
    assert!(client.is_protected());
    let server = soon(listener.accept()).await.unwrap();
    let piece = soon(server.recv(StreamId(0))).await.unwrap().unwrap();
    assert_eq!(piece.payload.concat(), b"at once");
}

#[tokio::test]
async fn megabytes_go_each_way_while_keys_are_replaced() {
    let settings = settings().map(|settings| Settings {
        rekey_after: Duration::from_millis(20),
        drain: Duration::from_millis(10),
        ..settings
    });
    let pair = pair(settings).await;
    let (client, server) = (&pair.client, &pair.server);
    let mut tasks = Vec::new();
    for stream in 0..4 {
        tasks.push(tokio::spawn(send_all(client.clone(), stream, 2_000_000, 40_000)));
        tasks.push(tokio::spawn(receive_all(server.clone(), stream, 2_000_000)));
        tasks.push(tokio::spawn(send_all(server.clone(), stream, 2_000_000, 40_000)));
        tasks.push(tokio::spawn(receive_all(client.clone(), stream, 2_000_000)));
    }
    for task in tasks {
        soon(task).await.unwrap();
    }
    assert_eq!((client.key_error(), server.key_error()), (None, None));
    // Until the keys were replaced at least once, however fast the transfer is.
    while client.keys_epoch().unwrap() < 5 {
        tokio::time::sleep(Duration::from_millis(10)).await;
    }
    client.send(StreamId(9), Message::new(Ppid(7), content(9, 0, 1_000))).await.unwrap();
    soon(receive_all(server.clone(), 9, 1_000)).await;
}

#[tokio::test]
async fn an_untrusted_server_is_rejected_with_a_reason_on_both_sides() {
    let ([client, _], [_, server]) = (settings(), settings());
    let endpoints = [endpoint(), endpoint()];
    let _listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    let connect = to(&endpoints[1], &modern());
    let client = endpoints[0].connect_protected(connect, Arc::new(client)).unwrap();
    let reason = soon(client.up()).await.unwrap_err();
    assert!(reason.to_string().contains("invalid peer certificate"), "{reason}");
    assert!(matches!(client.key_error(), Some(KeyError::Tls(_))));
    let sent = soon(client.send(StreamId(0), Message::new(Ppid(0), "never"))).await;
    assert!(sent.is_err());
}

#[tokio::test]
async fn plain_and_protected_endpoints_do_not_connect() {
    let [client, server] = settings().map(Arc::new);
    let endpoints = [endpoint(), endpoint()];
    let _protected = endpoints[1].listen_protected(PORT, modern(), server).unwrap();
    let plain = endpoints[0].connect(to(&endpoints[1], &modern())).unwrap();
    let reason = soon(plain.up()).await.unwrap_err();
    assert!(matches!(reason, Reason::PeerAborted(_)), "{reason}");
    let listening = endpoint();
    let _plain = listening.listen(PORT, modern()).unwrap();
    let client = endpoints[0].connect_protected(to(&listening, &modern()), client).unwrap();
    let reason = soon(client.up()).await.unwrap_err();
    assert!(reason.to_string().contains("no offer to protect packets"), "{reason}");
}

/// An unfinished handshake delays no other peer.
#[tokio::test]
async fn an_unfinished_handshake_blocks_no_other_peer() {
    let [client, server] = settings();
    let endpoints = [endpoint(), endpoint()];
    let server = Settings { handshake_timeout: Duration::from_secs(2), ..server };
    let listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    // It agrees to protection, and nobody drives its keys.
    let silent = Arc::new(Profile::Modern.config().with(|c| c.security.dtls = Some(client.dtls())));
    let silent = endpoints[0].connect(to(&endpoints[1], &silent)).unwrap();
    soon(silent.up()).await.unwrap();
    let connect = to(&endpoints[1], &modern());
    let client = endpoints[0].connect_protected(connect, Arc::new(client)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    soon(client.send(StreamId(0), Message::new(Ppid(0), "hello"))).await.unwrap();
    assert!(soon(server.recv(StreamId(0))).await.unwrap().is_some());
    let reason = soon(silent.closed()).await;
    assert!(reason.to_string().contains("the TLS handshake took too long"), "{reason}");
}

/// Opens an association that agrees to protection and sends no messages of key management.
async fn silent(from: &Endpoint, server: &Endpoint, client: &Settings) -> Association {
    let config = Arc::new(Profile::Modern.config().with(|c| c.security.dtls = Some(client.dtls())));
    from.connect(to(server, &config)).unwrap()
}

/// An association that ended before its peer was authenticated does not count in the backlog.
#[tokio::test]
async fn abandoned_handshakes_are_forgotten() {
    let [client, server] = settings();
    let endpoints = [endpoint(), endpoint()];
    let _listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    for _ in 0..20 {
        let silent = silent(&endpoints[0], &endpoints[1], &client).await;
        soon(silent.up()).await.unwrap();
        silent.abort("it goes");
    }
    soon(async {
        while endpoints[1].associations() > 0 || endpoints[1].memory_bytes() > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn handshakes_have_a_rate_and_those_beyond_wait() {
    const AT_ONCE: usize = 20;
    let [client, server] = settings();
    let limits = Limits { handshakes: AT_ONCE as u32, waiting_handshakes: AT_ONCE, ..Limits::default() };
    let bind = Bind { limits, ..Bind::to([SocketAddr::from(([127, 0, 0, 1], 0))]) };
    let endpoints = [endpoint(), Endpoint::bind(bind).unwrap()];
    let _listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    let start = std::time::Instant::now();
    let mut opened = Vec::new();
    for _ in 0..3 * AT_ONCE {
        opened.push(silent(&endpoints[0], &endpoints[1], &client).await);
    }
    // Some have a turn at once, the others wait, or are dropped and sent again.
    for association in &opened {
        soon(association.up()).await.unwrap();
    }
    assert!(start.elapsed() >= Duration::from_millis(1_900), "{:?}", start.elapsed());
}

/// Messages of key management that no TLS stack sends: the server ends each of these associations, and continues.
#[tokio::test]
async fn truncated_and_oversized_key_messages_end_their_association_alone() {
    let [client, server] = settings();
    let server = Settings { handshake_timeout: Duration::from_secs(3), ..server };
    let endpoints = [endpoint(), endpoint()];
    let listener = endpoints[1].listen_protected(PORT, modern(), Arc::new(server)).unwrap();
    let epoch = FIRST_EPOCH as u8;
    // A handshake record of a ClientHello that is longer than any, and its further records.
    let first = [&[epoch, 22, 3, 1, 0x40, 0, 1, 0xff, 0xff, 0xff][..], &[0; (16 << 10) - 4]].concat();
    let further = [&[epoch, 22, 3, 1, 0x40, 0][..], &[0; 16 << 10]].concat();
    let endless = [vec![first], vec![further; 8]].concat();
    let (late, short) =
        ("the TLS handshake took too long", "a message about keys ends before it says anything");
    let (long, endless_says) =
        ("a message about keys is longer than 65536 bytes", "the TLS handshake failed");
    let cases: [(&str, Vec<Vec<u8>>, &str); 7] = [
        ("no record", vec![vec![epoch]], short),
        ("another epoch", vec![vec![epoch + 7, 22, 3, 1, 0, 1, 1]], late),
        ("no TLS", vec![[vec![epoch], vec![0xff; 100]].concat()], late),
        ("half a record header", vec![vec![epoch, 22, 3]], late),
        ("half a ClientHello", vec![vec![epoch, 22, 3, 1, 1, 0, 1, 0, 0, 0xfc, 3, 3]], late),
        (
            "a record that is too long",
            vec![[vec![epoch, 22, 3, 1, 0xff, 0xff], vec![0; 65_535]].concat()],
            long,
        ),
        ("a ClientHello without an end", endless, endless_says),
    ];
    for (name, messages, says) in cases {
        let peer = silent(&endpoints[0], &endpoints[1], &client).await;
        soon(peer.up()).await.unwrap();
        for message in messages {
            // The server may have ended it already.
            let _ = soon(peer.send(StreamId(0), Message::new(Ppid(KEY_MANAGEMENT_PPID), message))).await;
        }
        let reason = soon(peer.closed()).await;
        let is_told = matches!(reason, Reason::PeerAborted(_)) && reason.to_string().contains(says);
        assert!(is_told, "{name}: {reason}");
        assert!(endpoints[1].memory_bytes() < 1 << 20, "{name}: {} bytes", endpoints[1].memory_bytes());
    }
    let connect = to(&endpoints[1], &modern());
    let good = endpoints[0].connect_protected(connect, Arc::new(client)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    soon(good.send(StreamId(0), Message::new(Ppid(0), "hello"))).await.unwrap();
    assert!(soon(server.recv(StreamId(0))).await.unwrap().is_some());
}

/// Sends messages in both directions, and waits until they have arrived.
async fn talk(client: &Association, server: &Association) {
    for (from, to) in [(client, server), (server, client)] {
        from.send(StreamId(0), Message::new(Ppid(0), content(0, 0, 50_000))).await.unwrap();
        let mut length = 0;
        while length < 50_000 {
            length += soon(to.recv(StreamId(0))).await.unwrap().expect("it is not over").len();
        }
    }
}

/// Waits until an association has this many paths, all of them active.
async fn have_paths(association: &Association, count: usize) {
    let there = || {
        let paths = association.stats().paths.into_iter();
        paths.filter(|path| path.state != PathState::Removed).collect::<Vec<_>>()
    };
    soon(async {
        while there().len() != count || there().iter().any(|path| path.state != PathState::Active) {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await;
}

#[tokio::test]
async fn keys_stay_when_an_address_is_added_and_the_first_one_is_removed() {
    let [client, server] = settings();
    let config = Arc::new(Profile::Modern.config().with(|c| c.paths.asconf = true));
    let endpoints = [endpoint(), endpoint()];
    let listener = endpoints[1].listen_protected(PORT, config.clone(), Arc::new(server)).unwrap();
    let connect = to(&endpoints[1], &config);
    let client = endpoints[0].connect_protected(connect, Arc::new(client)).unwrap();
    let server = soon(listener.accept()).await.unwrap();
    soon(client.up()).await.unwrap();
    talk(&client, &server).await;
    let epochs = || [client.keys_epoch(), server.keys_epoch()];
    let before = epochs();
    assert!(before[0].is_some());
    let first = endpoints[0].local_addrs()[0];
    // An address that no other test uses: its port is free.
    endpoints[0].add_address("127.0.14.2:0".parse().unwrap()).unwrap();
    have_paths(&client, 2).await;
    talk(&client, &server).await;
    endpoints[0].remove_address(first).unwrap();
    have_paths(&client, 1).await;
    have_paths(&server, 1).await;
    talk(&client, &server).await;
    assert_eq!(epochs(), before, "no handshake took place");
    assert!(client.is_protected() && server.is_protected());
    assert_eq!(soon(client.shutdown()).await, Reason::Shutdown);
}
