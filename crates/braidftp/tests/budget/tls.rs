//! Attacks by TLS over TCP: handshakes, their messages, sessions, and unread connections.

use std::sync::atomic::{AtomicUsize, Ordering};

use rcgen::{CertificateParams, KeyPair};
use rustls::pki_types::PrivateKeyDer;
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, ClientConnection, StreamOwned};

use super::server_support::tls::{Bench, Session, tls};
use super::*;

/// Many clients of one network that begin TLS, and one of another network; and handshakes that never end.
pub(super) fn handshakes(row: Row) {
    let settings = Settings { tcp_connections: 4, ..quick() };
    let rate = limit(Row::TcpConnections, &settings);
    let bench = Bench::with(|settings| settings.tcp_connections = rate as u32);
    let (crowd, done) = (20, AtomicUsize::new(0));
    let begin = Instant::now();
    let joined = |from: [u8; 4]| {
        Session::open_from(&bench, from.into()).command("NOOP", "200");
        done.fetch_add(1, Ordering::SeqCst)
    };
    std::thread::scope(|scope| {
        let joined = &joined;
        let crowd: Vec<_> = (0..crowd).map(|_| scope.spawn(move || joined([127, 0, 0, 1]))).collect();
        let others: Vec<_> =
            (1..=3).map(|network| scope.spawn(move || joined([127, 0, network, 1]))).collect();
        let first = others.into_iter().map(|other| other.join().unwrap()).min().unwrap();
        assert!(first < crowd.len(), "{row:?}: the crowd of {} went first", crowd.len());
        for one in crowd {
            one.join().unwrap();
        }
    });
    // The allowance of a second is granted at once, and the rest at the rate.
    let least = Duration::from_secs_f64((crowd + 3 - rate) as f64 / rate as f64);
    assert!(begin.elapsed() >= least, "{row:?}: {crowd} handshakes in {:?}", begin.elapsed());

    // Both the wait and the handshake have a time limit.
    for waits in [true, false] {
        let bench = Bench::with(|settings| {
            Arc::make_mut(&mut settings.session).idle_before_login = Duration::from_millis(700);
            if waits {
                settings.tcp_connections = 0;
            }
        });
        if waits {
            let mut said = String::new();
            connect_from(bench.served.address, None).read_to_string(&mut said).unwrap();
            assert!(said.starts_with("421 Too many connections at once"), "{row:?}: {said}");
        } else {
            let mut explicit = Control::open(&bench.served);
            explicit.command("AUTH TLS", "234");
            let said = explicit.rest();
            assert!(said.is_empty() || said.starts_with("421"), "{row:?}: {said}");
        }
        let mut implicit = connect_from(bench.implicit(), None);
        implicit.set_read_timeout(Some(server_support::PATIENCE)).unwrap();
        let ended = implicit.read_to_end(&mut Vec::new());
        assert!(ended.is_ok(), "{row:?}: {ended:?}");
    }
}

/// A message longer than TLS permits, and certificates longer than the server accepts.
pub(super) fn large_messages(_: Row) {
    let settings = quick();
    let bench = Bench::build(
        |_| {},
        |builder| {
            let key = format!("SHA256:{}A", "B".repeat(42));
            let text = format!("[[user]]\nname = 'anonymous'\n[[user]]\nname = 'anna'\nkeys = ['{key}']\n");
            builder.users(Users::parse(&text, Access::ReadOnly).unwrap())
        },
    );
    let length = (limit(Row::TlsMessage, &settings) as u32 + 1).to_be_bytes();
    let mut control = Control::open(&bench.served);
    control.command("AUTH TLS", "234");
    // The head of a ClientHello is enough; the rest need not arrive.
    let [_, length @ ..] = length;
    control.send_bytes(&[&[22, 3, 1, 0, 4, 1][..], &length].concat());
    assert!(control.is_closed() || control.rest().len() < 16, "an alert, and the end");

    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::default().self_signed(&key).unwrap();
    let most = limit(Row::TlsClientCertificates, &settings) / certificate.der().len();
    for (count, is_taken) in [(most, true), (most + 1, false)] {
        let mut config = ClientConfig::clone(&bench.client(&[b"ftp"]));
        let key = PrivateKeyDer::try_from(key.serialize_der()).unwrap();
        let chain = vec![certificate.der().clone(); count];
        let shown = CertifiedKey::from_der(chain, key, config.crypto_provider()).unwrap();
        config.client_auth_cert_resolver = Arc::new(SingleCertAndKey::from(shown));
        let mut control = Control::open(&bench.served);
        control.command("AUTH TLS", "234");
        let connection = ClientConnection::new(Arc::new(config), "localhost".try_into().unwrap()).unwrap();
        let mut stream = StreamOwned::new(connection, control.stream.try_clone().unwrap());
        let said = stream.write_all(b"NOOP\r\n").and_then(|()| {
            let mut line = [0; 3];
            stream.read_exact(&mut line).map(|()| line)
        });
        assert_eq!(said.is_ok_and(|line| line == *b"200"), is_taken, "{count} certificates");
    }
}

/// More data connections than stored TLS sessions: the client has a session for each, and the first are not
/// lost.
pub(super) fn many_sessions(row: Row) {
    let bench = Bench::new();
    bench.folder.put("f", pattern(1_000));
    let mut session = Session::open(&bench).log_in();
    let config = session.config.clone();
    for nth in 0..limit(Row::TlsSessions, &quick()) + 10 {
        let (bytes, reply) = session.fetch("f", &config);
        assert!(bytes.len() == 1_000 && reply.starts_with("226"), "{row:?}: {nth}: {reply}");
    }
}

/// Data connections that are not read, and others that are read and left open.
pub(super) fn unread(row: Row) {
    let bench = Bench::with(|settings| {
        settings.stall = Duration::from_millis(500);
        settings.data_open = server_support::PATIENCE;
    });
    bench.folder.put("big", pattern(64 << 20));
    bench.folder.put("f", pattern(1_000));
    let mut session = Session::open(&bench).log_in();
    let config = session.config.clone();
    let mut data = tls(&config, session.passive());
    session.command("RETR big", "150");
    data.read_exact(&mut [0; 100]).unwrap();
    session.expect("426");
    drop(data);

    let ending = limit(Row::TlsEnding, &quick());
    let mut open = Vec::new();
    for _ in 0..ending {
        let mut data = tls(&config, session.passive());
        session.command("RETR f", "150");
        data.read_to_end(&mut Vec::new()).unwrap();
        session.expect("226");
        open.push(data);
    }
    let mut data = tls(&config, session.passive());
    session.command("RETR f", "150");
    // The end may only arrive when there is a place.
    data.read_exact(&mut [0; 1_000]).unwrap();
    session.tls.get_ref().sock.set_read_timeout(Some(Duration::from_secs(2))).unwrap();
    let mut line = String::new();
    let early = std::io::BufRead::read_line(&mut session.tls, &mut line);
    assert!(early.is_err(), "{row:?}: {line} while {ending} are open");
    session.tls.get_ref().sock.set_read_timeout(Some(server_support::PATIENCE)).unwrap();
    drop(open);
    session.expect("226");
}
