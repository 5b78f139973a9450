//! A server with TLS over TCP (RFC 4217) with manual commands: what it accepts and refuses, and with which
//! replies.

use std::collections::VecDeque;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{IpAddr, Shutdown, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use crate::server_support::tls::{Bench, Session, Tls, tls};
use crate::server_support::{Control, PATIENCE, eventually, pattern};
use braidftp::server::Resumption;
use braidftp_ftp::server::Active;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;
use rustls::{ClientConnection, NamedGroup};

fn close_notify(data: &mut Tls) {
    data.conn.send_close_notify();
    data.flush().unwrap();
    data.sock.shutdown(Shutdown::Write).unwrap();
}

/// Closes a connection as the system does for a killed program, or as an attacker could.
fn cut(data: &mut Tls) {
    data.sock.shutdown(Shutdown::Write).unwrap();
}

#[test]
fn files_go_both_ways_by_auth_and_from_the_first_byte() {
    let bench = Bench::new();
    let content = pattern(5_000_000);
    bench.folder.put("down", &content);
    for begins_with_tls in [false, true] {
        let mut session = match begins_with_tls {
            false => Session::open(&bench),
            true => {
                let stream = TcpStream::connect(bench.implicit()).unwrap();
                let mut session = Session::inside(bench.client(&[b"ftp"]), stream);
                session.expect("220");
                session
            }
        }
        .log_in();
        let config = session.config.clone();
        for _ in 0..12 {
            let (bytes, reply) = session.fetch("down", &config);
            assert!(bytes == content && reply.starts_with("226"), "{} bytes, {reply}", bytes.len());
        }
        assert!(session.store("up", &content, close_notify).starts_with("226"));
        assert!(bench.folder.read("up") == content);
    }
}

#[test]
fn input_before_the_handshake_is_discarded() {
    let bench = Bench::new();
    for late in [false, true] {
        let mut control = Control::open(&bench.served);
        control.send_bytes(b"AUTH TLS\r\nUSER anonymous\r\nPASS x@\r\nMKD injected\r\nSTA");
        control.expect("234");
        let mut session = Session::inside(bench.client(&[b"ftp"]), control.stream.try_clone().unwrap());
        if late {
            // More than the server reads at once: it is not TLS, and the handshake fails.
            drop(session);
            let mut control = Control::open(&bench.served);
            control.send_bytes(&[&b"AUTH TLS\r\n"[..], &b"MKD injected\r\n".repeat(20_000)].concat());
            control.expect("234");
            control.rest();
        } else {
            session.command("PWD", "530");
            session.command("PASS x@", "503");
        }
    }
    assert_eq!(bench.folder.names(), Vec::<String>::new());
}

#[test]
fn a_data_connection_of_another_client_gets_522_and_no_byte() {
    let bench = Bench::new();
    bench.folder.put("f", pattern(1000));
    let mut session = Session::open(&bench).log_in();
    let other = Session::open(&bench).log_in();
    for stranger in [bench.client(&[b"ftp"]), other.config.clone(), bench.client(&[b"http/1.1"])] {
        let (bytes, reply) = session.fetch("f", &stranger);
        assert!(bytes.is_empty() && reply.starts_with("522"), "{} bytes, {reply}", bytes.len());
    }
    // A client without TLS.
    let mut data = session.passive();
    session.command("STOR g", "150");
    data.write_all(b"in the clear").unwrap();
    session.expect("522");
    assert_eq!(bench.folder.names(), ["f"]);
    let config = session.config.clone();
    assert_eq!(session.fetch("f", &config).0.len(), 1000);

    let lenient = Bench::with(|settings| settings.tls_resumption = Resumption::Optional);
    lenient.folder.put("f", pattern(300_000));
    let mut session = Session::open(&lenient).log_in();
    assert_eq!(session.fetch("f", &lenient.client(&[b"ftp-data"])).0.len(), 300_000);
}

/// Tickets of a client that uses each once, the oldest first, as braidftp does.
#[derive(Debug, Default)]
struct OldestFirst(Mutex<VecDeque<Tls13ClientSessionValue>>);

impl ClientSessionStore for OldestFirst {
    fn set_kx_hint(&self, _: ServerName<'static>, _: NamedGroup) {}

    fn kx_hint(&self, _: &ServerName<'_>) -> Option<NamedGroup> {
        None
    }

    fn set_tls12_session(&self, _: ServerName<'static>, _: Tls12ClientSessionValue) {}

    fn tls12_session(&self, _: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        None
    }

    fn remove_tls12_session(&self, _: &ServerName<'static>) {}

    fn insert_tls13_ticket(&self, _: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.0.lock().unwrap().push_back(value);
    }

    fn take_tls13_ticket(&self, _: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.0.lock().unwrap().pop_front()
    }
}

#[test]
fn a_client_that_is_slow_to_read_its_new_tickets_is_never_left_without_one() {
    let bench = Bench::new();
    let content = pattern(1000);
    bench.folder.put("f", &content);
    let mut config = (*bench.client(&[b"ftp"])).clone();
    config.resumption = rustls::client::Resumption::store(Arc::new(OldestFirst::default()));
    let config = Arc::new(config);
    let mut session = Session::inside(config.clone(), TcpStream::connect(bench.implicit()).unwrap());
    session.expect("220");
    let mut session = session.log_in();
    let read = |data: &mut Tls| {
        let mut bytes = Vec::new();
        // A refused connection is reset; the reply says so.
        let whole = data.read_to_end(&mut bytes).is_ok();
        assert!(!whole || bytes == content);
    };
    let mut unread = Vec::new();
    for turn in 0..12 {
        let mut data = tls(&config, session.passive());
        data.conn.write_tls(&mut data.sock).unwrap();
        session.command("RETR f", "150");
        unread.push(data);
        // A connection without tickets is read at once, one with tickets as late as the server permits.
        if turn % 6 < 3 {
            unread.drain(..).for_each(|mut data| read(&mut data));
        }
        let control = &session.tls.get_ref().sock;
        control.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
        let mut reply = String::new();
        if session.tls.read_line(&mut reply).is_err() {
            unread.drain(..).for_each(|mut data| read(&mut data));
        }
        session.tls.get_ref().sock.set_read_timeout(Some(PATIENCE)).unwrap();
        if reply.is_empty() {
            reply = session.line();
        }
        assert!(reply.starts_with("226"), "data connection {turn}: {reply}");
    }
}

#[test]
fn an_upload_is_complete_if_its_end_or_its_size_was_announced() {
    let bench = Bench::new();
    let mut session = Session::open(&bench).log_in();
    let content = pattern(100_000);
    assert!(session.store("a", &content, cut).starts_with("426"));
    session.command("ALLO 100001", "200");
    assert!(session.store("b", &content, close_notify).starts_with("426"));
    session.command("ALLO 100001", "200");
    assert!(session.store("c", &content, cut).starts_with("426"));
    let whole = |bench: &Bench| {
        bench.folder.names().into_iter().filter(|name| !name.starts_with('.')).collect::<Vec<_>>()
    };
    assert_eq!(whole(&bench), Vec::<String>::new());
    // A client that sends no close_notify, but announced the size.
    session.command("ALLO 100000", "200");
    assert!(session.store("d", &content, cut).starts_with("226"));
    assert!(session.store("e", &content, close_notify).starts_with("226"));
    assert_eq!(whole(&bench), ["d", "e"]);
}

#[test]
fn a_client_of_another_protocol_or_without_support_is_refused() {
    let bench = Bench::new();
    let mut control = Control::open(&bench.served);
    control.command("AUTH TLS", "234");
    let mut wrong = tls(&bench.client(&[b"http/1.1"]), control.stream.try_clone().unwrap());
    let error = wrong.read(&mut [0]).unwrap_err().to_string();
    assert!(error.contains("NoApplicationProtocol"), "{error}");
    let mut session = Session::open(&bench).log_in();
    session.command("CCC", "534");
    session.command("PROT C", "534");
    session.command("AUTH TLS", "503");
    session.command("REIN", "502");
}

//= specs/rfc4217.txt#section-7
//= type=test
//# For i) and ii), the FTP client MUST be the TLS client and the FTP server MUST be the TLS server.
#[test]
fn the_client_begins_tls_on_a_data_connection_that_the_server_opens_too() {
    let bench = Bench::with(|settings| Arc::make_mut(&mut settings.session).active = Active::ToPeer);
    let content = pattern(300_000);
    bench.folder.put("f", &content);
    let mut session = Session::open(&bench).log_in();
    for turn in 0..3 {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        session.command(&format!("EPRT |1|127.0.0.1|{port}|"), "200");
        session.command("RETR f", "150");
        let mut data = tls(&session.config, listener.accept().unwrap().0);
        let mut bytes = Vec::new();
        data.read_to_end(&mut bytes).unwrap();
        assert!(bytes == content, "{turn}: {} bytes", bytes.len());
        session.expect("226");
    }
}

//= specs/rfc4217.txt#section-14
//= type=test
//# When TLS is implemented as a security method in FTP, the server SHOULD NOT rely on the use of SIGURG to process input on
//# the control channel during data transfers.
#[test]
fn abor_and_stat_inside_tls_are_processed_during_a_transfer() {
    let bench = Bench::new();
    // More than the buffers of both sides hold: the transfer is in progress until it is read or ends.
    bench.folder.put("big", vec![7; 64 << 20]);
    let mut session = Session::open(&bench).log_in();
    let mut data = tls(&session.config.clone(), session.passive());
    session.command("RETR big", "150");
    data.read_exact(&mut [0; 1000]).unwrap();
    session.command("STAT", "21");
    // The lines of STAT, up to the last.
    while !session.line().starts_with("211 ") {}
    // After TELNET's signals, as RFC 959 requires.
    session.tls.get_mut().write_all(b"\xff\xf4\xff\xf2ABOR\r\n").unwrap();
    session.expect("426");
    session.expect("226");
    drop(data);
    session.command("NOOP", "200");
}

//= specs/rfc4217.txt#section-10.1
//= type=test
//# In this case, the control connection should still be in an unprotected mode and the server SHOULD issue an unprotected
//# '421' reply to end the session.
#[test]
fn a_client_at_the_wrong_port_gets_an_explanation() {
    let bench = Bench::with(|settings| {
        let session = Arc::make_mut(&mut settings.session);
        session.idle_before_login = Duration::from_secs(2);
    });
    // A plain client at the port of implicit TLS: one that sends, and one that waits for a greeting.
    for says in [&b"USER anonymous\r\n"[..], b""] {
        let mut stream = TcpStream::connect(bench.implicit()).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(says).unwrap();
        let mut heard = String::new();
        let _ = BufReader::new(&mut stream).read_line(&mut heard);
        assert!(heard.starts_with("421 the TLS handshake had to come"), "{heard}");
    }
    // TLS at the port that begins without it.
    let mut stream = TcpStream::connect(bench.served.address).unwrap();
    let mut connection =
        ClientConnection::new(bench.client(&[b"ftp"]), "localhost".try_into().unwrap()).unwrap();
    connection.write_tls(&mut stream).unwrap();
    let mut heard = String::new();
    let _ = BufReader::new(&mut stream).read_to_string(&mut heard);
    assert!(heard.contains("421 this port begins in the clear"), "{heard}");
}

//= specs/rfc4217.txt#section-10.1
//= type=test
//# In this case, the control connection is in an unknown state and the server SHOULD simply drop the control connection.
#[test]
fn a_handshake_has_an_end_and_bounds() {
    let bench = Bench::with(|settings| {
        let session = Arc::make_mut(&mut settings.session);
        session.idle_before_login = Duration::from_secs(2);
    });
    let begun = |says: &[u8]| {
        let mut control = Control::open(&bench.served);
        control.command("AUTH TLS", "234");
        // The server may have closed already.
        let _ = control.stream.write_all(says);
        control
    };
    // Nothing; half a message; a message of 16 MiB, of which more is sent than a server should hold; endless
    // records.
    assert!(begun(b"").rest().starts_with("421 the TLS handshake had to come"));
    assert!(!begun(&[22, 3, 1, 2, 0, 1, 0, 1, 252, 3, 3]).rest().contains("421"));
    let large: Vec<u8> = (0..64).flat_map(|_| [&[22, 3, 3, 64, 0][..], &[1; 16384]].concat()).collect();
    begun(&large).rest();
    let empty: Vec<u8> = [22, 3, 3, 0, 0].repeat(100_000);
    begun(&empty).rest();
    // The server is alive.
    Session::open(&bench).log_in();
}

/// ClientHellos without further messages, from several addresses and then from one: their sessions make room
/// for each other, and for a client that logs in.
#[test]
fn handshakes_that_fall_silent_are_bounded_in_number_and_by_address() {
    const ALL: usize = 4;
    const EACH: usize = 2;
    let bench = Bench::with(|settings| {
        (settings.max_sessions, settings.max_sessions_per_address) = (ALL, EACH);
        // No session ends because of its silence here.
        let session = Arc::make_mut(&mut settings.session);
        (session.idle_before_login, session.login_within) = (10 * PATIENCE, 10 * PATIENCE);
    });
    let silent = |last: u8| {
        let mut stream = Control::open_from(&bench.served, Some(IpAddr::from([127, 0, 0, last]))).stream;
        stream.write_all(b"AUTH TLS\r\n").unwrap();
        let mut reply = String::new();
        BufReader::new(&mut stream).read_line(&mut reply).unwrap();
        assert!(reply.starts_with("234"), "{reply}");
        let name = "localhost".try_into().unwrap();
        ClientConnection::new(bench.client(&[b"ftp"]), name).unwrap().write_tls(&mut stream).unwrap();
        let mut answer = [0];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(answer, [22], "a handshake message");
        stream.set_nonblocking(true).unwrap();
        stream
    };
    let is_open = |mut stream: &TcpStream| loop {
        match stream.read(&mut [0; 4096]) {
            Ok(0) => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == std::io::ErrorKind::WouldBlock,
        }
    };
    for (addresses, most) in [(8, ALL), (1, EACH)] {
        let crowd: Vec<_> = (0..12).map(|nth| silent(10 + nth % addresses)).collect();
        eventually("the others are closed", || crowd.iter().filter(|stream| is_open(stream)).count() <= most);
        let mut client = Session::open_from(&bench, [127, 0, 0, 5].into()).log_in();
        client.command("NOOP", "200");
    }
}
