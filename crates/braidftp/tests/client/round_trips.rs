//! The number of round trips at the start and the end of a job.
//!
//! The servers here answer nothing before all lines of a flight have arrived, and nothing at the end: a
//! client that waits for a reply within a flight would wait for ever. So the number of flights is the number
//! of round trips, independent of the clock. Whether the first flight is sent with COOKIE ECHO depends on
//! timing: it is if it is available when INIT ACK arrives.

use std::fs;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;

use crate::client_support::{Room, cli};
use braidftp::identity::{Files, ServerIdentity};
use braidftp::packed::{Follows, Packer};
use braidftp_ftp::mapping::frame::{Header, truncated};
use braidftp_ftp::mapping::sender::{Sender, Then};
use braidftp_ftp::mapping::{CONTROL_PORT, CONTROL_STREAM, FIRST_FILES, TransferNumber, ppid};
use braidftp_net::sctp::{GOODBYE, wire::Cause};
use braidftp_net::{Association, Bind, Endpoint, Message, Ppid, Profile, Reason, StreamId, keys};
use bytes::Bytes;

const LOGIN: &[&str] = &["USER anonymous", "PASS braidftp@"];
/// The commands sent with or after the login over TCP, for everything that must be known before RETR.
const QUESTIONS: &[&str] = &["TYPE I", "OPTS UTF8 ON", "MLST f", "SIZE f", "MDTM f", "EPSV"];
const ANSWERS: &str = "200 ok\r\n200 ok\r\n250-facts\r\n type=file;size=5;modify=20200101000000; f\r\n250 End\r\n213 5\r\n\
                       213 20200101000000\r\n";

/// The server's end of a control connection.
struct Control {
    stream: TcpStream,
    lines: BufReader<TcpStream>,
}

impl Control {
    fn accept(listener: &TcpListener, greeting: &str) -> Self {
        let (stream, _) = listener.accept().unwrap();
        let lines = BufReader::new(stream.try_clone().unwrap());
        let mut control = Self { stream, lines };
        control.say(greeting);
        control
    }

    fn say(&mut self, text: &str) {
        self.stream.write_all(text.as_bytes()).unwrap();
    }

    /// Waits for these lines, without answering any.
    fn flight(&mut self, expected: &[&str]) {
        for line in expected {
            let mut heard = String::new();
            self.lines.read_line(&mut heard).unwrap();
            assert_eq!(heard.trim_end(), *line, "of {expected:?}");
        }
    }

    fn passive(&mut self) -> TcpListener {
        let data = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = data.local_addr().unwrap().port();
        self.say(&format!("229 here (|||{port}|)\r\n"));
        data
    }

    fn send_file(&mut self, mut data: TcpStream) {
        self.say("150 here it comes\r\n");
        data.write_all(b"hello").unwrap();
        drop(data);
        self.say("226 done\r\n");
    }

    /// The client sends QUIT and closes, without a reply.
    fn end(&mut self) {
        self.flight(&["QUIT"]);
        let mut rest = String::new();
        assert_eq!(self.lines.read_line(&mut rest).unwrap(), 0, "{rest}");
    }
}

fn get(listener: TcpListener, session: impl FnOnce(TcpListener) + Send + 'static) {
    get_by("ftp", "--plain", listener, session);
}

fn get_by(
    scheme: &str,
    how: &str,
    listener: TcpListener,
    session: impl FnOnce(TcpListener) + Send + 'static,
) {
    let room = Room::new();
    let url = format!("{scheme}://{}/f", listener.local_addr().unwrap());
    let server = std::thread::spawn(move || session(listener));
    let out = room.folder("out");
    let (code, _, err) = cli(&room.home(), &["get", how, &url, "-o", out.to_str().unwrap()]);
    server.join().unwrap();
    assert_eq!(code, 0, "{err}");
    assert_eq!(fs::read(out.join("f")).unwrap(), b"hello");
}

#[test]
fn a_file_of_our_server_over_tcp_takes_one_flight_before_its_data_connection() {
    get(TcpListener::bind("127.0.0.1:0").unwrap(), |listener| {
        let mut control = Control::accept(&listener, "220 braidftp ready\r\n");
        control.flight(&[LOGIN, QUESTIONS].concat());
        control.say("331 password\r\n230 in\r\n");
        control.say(ANSWERS);
        let data = control.passive();
        // RETR does not wait for the data connection.
        control.flight(&["RETR f"]);
        let (data, _) = data.accept().unwrap();
        control.send_file(data);
        control.end();
    });
}

/// The TLS configuration of a server that, like ours, sends data before the client's Finished.
fn tls_server() -> Arc<rustls::ServerConfig> {
    let keys = Room::new();
    let files = braidftp::identity::Files::one(keys.path("key.pem"));
    let identity = braidftp::identity::ServerIdentity::load_or_make(files, &[]).unwrap();
    let mut config = identity.config(&[b"ftp"]).unwrap();
    config.send_half_rtt_data = true;
    config.send_tls13_tickets = 6;
    Arc::new(config)
}

type Tls = rustls::StreamOwned<rustls::ServerConnection, TcpStream>;

fn tls(config: &Arc<rustls::ServerConfig>, stream: TcpStream) -> Tls {
    rustls::StreamOwned::new(rustls::ServerConnection::new(config.clone()).unwrap(), stream)
}

/// The server's end of a control connection inside TLS.
struct Inside(BufReader<Tls>);

impl Inside {
    fn say(&mut self, text: &str) {
        self.0.get_mut().write_all(text.as_bytes()).unwrap();
        self.0.get_mut().flush().unwrap();
    }

    /// Waits for these lines, without answering any.
    fn flight(&mut self, expected: &[&str]) {
        for line in expected {
            let mut heard = String::new();
            self.0.read_line(&mut heard).unwrap();
            assert_eq!(heard.trim_end(), *line, "of {expected:?}");
        }
    }

    /// Serves what follows the handshake: as many flights as without TLS. The client starts the data
    /// connection while RETR is in transit, and the first flight of this side contains the file.
    fn serve(mut self, config: &Arc<rustls::ServerConfig>) {
        self.flight(&[&["PBSZ 0", "PROT P"], LOGIN, QUESTIONS].concat());
        self.say("200 ok\r\n200 ok\r\n331 password\r\n230 in\r\n");
        self.say(ANSWERS);
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        self.say(&format!("229 here (|||{port}|)\r\n"));
        self.flight(&["RETR f"]);
        let (mut stream, _) = listener.accept().unwrap();
        let mut data = rustls::ServerConnection::new(config.clone()).unwrap();
        // One flight of the client, before anything is sent to it.
        while data.handshake_kind().is_none() {
            data.read_tls(&mut stream).unwrap();
            data.process_new_packets().unwrap();
        }
        assert_eq!(data.handshake_kind(), Some(rustls::HandshakeKind::Resumed));
        data.writer().write_all(b"hello").unwrap();
        data.send_close_notify();
        while data.wants_write() {
            data.write_tls(&mut stream).unwrap();
        }
        stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.say("150 here it comes\r\n226 done\r\n");
        self.flight(&["QUIT"]);
        // Its Finished and its last message, which nothing has waited for.
        let _ = stream.read_to_end(&mut Vec::new());
    }
}

#[test]
fn tls_by_auth_costs_two_round_trips_and_none_with_the_data_connection() {
    let config = tls_server();
    get_by("ftpes", "--accept-new", TcpListener::bind("127.0.0.1:0").unwrap(), move |listener| {
        let mut control = Control::accept(&listener, "220 braidftp ready\r\n");
        control.flight(&["AUTH TLS"]);
        control.say("234 go on\r\n");
        Inside(BufReader::new(tls(&config, control.stream))).serve(&config);
    });
}

#[test]
fn tls_from_the_first_byte_costs_one_round_trip() {
    let config = tls_server();
    get_by("ftps", "--accept-new", TcpListener::bind("127.0.0.1:0").unwrap(), move |listener| {
        let (stream, _) = listener.accept().unwrap();
        let mut control = Inside(BufReader::new(tls(&config, stream)));
        // In the first flight of the handshake.
        control.say("220 braidftp ready\r\n");
        control.serve(&config);
    });
}

#[test]
fn a_file_of_a_third_party_server_takes_two_flights_and_the_password_waits_for_331() {
    get(TcpListener::bind("127.0.0.1:0").unwrap(), |listener| {
        let mut control = Control::accept(&listener, "220 some server\r\n");
        control.flight(&LOGIN[..1]);
        control.say("331 password\r\n");
        control.flight(&[&LOGIN[1..], QUESTIONS].concat());
        control.say("230 in\r\n");
        control.say(ANSWERS);
        let data = control.passive();
        let (data, _) = data.accept().unwrap();
        control.flight(&["RETR f"]);
        control.send_file(data);
        control.end();
    });
}

#[test]
fn a_server_that_loses_commands_receives_one_at_a_time() {
    get(TcpListener::bind("127.0.0.1:0").unwrap(), |listener| {
        let mut control = Control::accept(&listener, "220 Microsoft FTP Service\r\n");
        let mut quick = |line: &str, answer: &str| {
            control.flight(&[line]);
            // Anything sent with it would be lost.
            assert_eq!(control.lines.buffer(), b"");
            control.say(answer);
        };
        quick("USER anonymous", "331 password\r\n");
        quick("PASS braidftp@", "230 in\r\n");
        quick("TYPE I", "200 ok\r\n");
        quick("OPTS UTF8 ON", "500 what?\r\n");
        quick("MLST f", "500 what?\r\n");
        quick("SIZE f", "213 5\r\n");
        quick("MDTM f", "213 20200101000000\r\n");
        control.flight(&["EPSV"]);
        let data = control.passive();
        let (data, _) = data.accept().unwrap();
        control.flight(&["RETR f"]);
        control.send_file(data);
        control.end();
    });
}

/// A scripted server of braid.
struct Braid {
    association: Association,
    lines: String,
}

impl Braid {
    /// Runs `session` with the association of one client, next to the program: unprotected, then protected,
    /// where the flights are the same after one round trip for the key exchange.
    fn with(args: &[&str], session: impl AsyncFn(&mut Self)) -> (i32, String, Room) {
        let (code, said, _) = Self::with_keys(args, None, &session);
        assert_eq!(code, 0, "{said}");
        let folder = tempfile::tempdir().unwrap();
        let identity =
            ServerIdentity::load_or_make(Files::one(folder.path().join("server.pem")), &[]).unwrap();
        Self::with_keys(args, Some(&identity), &session)
    }

    fn with_keys(
        args: &[&str],
        identity: Option<&Arc<ServerIdentity>>,
        session: &impl AsyncFn(&mut Self),
    ) -> (i32, String, Room) {
        let runtime = tokio::runtime::Runtime::new().unwrap();
        let room = Room::new();
        runtime.block_on(async {
            let any: SocketAddr = "127.0.0.1:0".parse().unwrap();
            let mut bind = Bind::to([any]);
            bind.pcap = Some(room.path("packets"));
            let endpoint = Endpoint::bind(bind).unwrap();
            let mut config = Profile::Modern.config();
            (config.streams.inbound, config.streams.outbound) = (65, 65);
            let config = Arc::new(config);
            let listener = match identity {
                None => endpoint.listen(CONTROL_PORT, config),
                Some(identity) => {
                    let keys = keys::Settings::server(Arc::new(identity.config_tls13(&[]).unwrap()));
                    endpoint.listen_protected(CONTROL_PORT, config, Arc::new(keys))
                }
            };
            let listener = listener.unwrap();
            let trust =
                identity.map_or("--plain".to_owned(), |identity| format!("--pin={}", identity.fingerprint()));
            let url = format!("ftp+sctp://{}/f", endpoint.local_addrs()[0]);
            fs::write(room.path("f"), b"hello").unwrap();
            let args: Vec<String> = args
                .iter()
                .chain(&[trust.as_str()])
                .map(|arg| match *arg {
                    "URL" => url.clone(),
                    file => file.replace("ROOM", room.path("").to_str().unwrap()),
                })
                .collect();
            let home = room.home();
            let client = tokio::task::spawn_blocking(move || {
                cli(&home, &args.iter().map(String::as_str).collect::<Vec<_>>())
            });
            let association = listener.accept().await.unwrap();
            assert_eq!(association.is_protected(), identity.is_some());
            let mut server = Self { association, lines: String::new() };
            session(&mut server).await;
            // The server sends nothing more: the client ends the association by itself. Its ABORT follows SHUTDOWN, or comes
            // alone if a SACK of this side had not arrived yet.
            let goodbye = Reason::PeerAborted(vec![Cause::UserInitiatedAbort(GOODBYE.into())]);
            let reason = server.association.closed().await;
            assert!(reason == Reason::Shutdown || reason == goodbye, "{reason}");
            let (code, out, err) = client.await.unwrap();
            // Nor is it asked for a SHUTDOWN ACK (RFC 9260 §3.3.9), which might be lost.
            let packets = fs::read(room.path("packets")).unwrap();
            assert!(!packets.windows(4).any(|four| four == [8, 0, 0, 4]), "a SHUTDOWN ACK was sent");
            (code, out + &err, room)
        })
    }

    /// Waits for these lines, without answering any. CREDIT among them is ignored.
    async fn flight(&mut self, expected: &[&str]) {
        let expected = expected.iter().map(|line| format!("{line}\r\n")).collect::<String>();
        while self.lines.len() < expected.len() {
            let piece = self.association.recv(StreamId(CONTROL_STREAM)).await.unwrap().unwrap();
            if piece.ppid == Ppid(ppid::CREDIT) {
                continue;
            }
            assert_eq!(piece.ppid, Ppid(ppid::LINES));
            for part in piece.payload {
                self.lines.push_str(std::str::from_utf8(&part).unwrap());
            }
        }
        assert_eq!(std::mem::take(&mut self.lines), expected);
    }

    async fn put(&self, stream: u16, kind: u32, payload: impl Into<Bytes>) {
        self.association.send(StreamId(stream), Message::new(Ppid(kind), payload)).await.unwrap();
    }

    async fn say(&self, text: &'static str) {
        self.put(CONTROL_STREAM, ppid::LINES, text).await;
    }

    async fn send_transfer(&self, content: &[u8]) {
        self.send_numbered(1, 1, content).await;
    }

    async fn send_numbered(&self, stream: u16, number: u32, content: &[u8]) {
        let mut sender = Sender::new(stream);
        let header = Header {
            transfer: TransferNumber(number),
            offset: 0,
            size: Some(content.len() as u64),
            modified: None,
        };
        sender.begin(header);
        let digest = truncated(blake3::hash(content).as_bytes());
        let frame = sender.frame(Bytes::copy_from_slice(content), Then::Complete(digest)).unwrap();
        self.put(stream, frame.ppid, frame.payload).await;
    }
}

#[test]
fn a_file_over_braid_takes_one_flight_and_none_to_end() {
    let args = ["get", "URL", "-o", "ROOM/out"];
    let (code, said, room) = Braid::with(&args, async |server| {
        server.flight(&[LOGIN, &["TYPE I", "MLST f", "RETR f"]].concat()).await;
        server
            .say(
                "220 hi\r\n331 password\r\n230 in\r\n200 ok\r\n250-facts\r\n type=file;size=5; f\r\n250 End\r\n226 done\r\n",
            )
            .await;
        server.send_transfer(b"hello").await;
    });
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read(room.path("out/f")).unwrap(), b"hello");
}

#[test]
fn a_listing_over_braid_takes_one_flight() {
    let (code, said, _) = Braid::with(&["ls", "URL"], async |server| {
        server.flight(&[LOGIN, &["TYPE I", "MLST f", "MLSD f"]].concat()).await;
        server
            .say("220 hi\r\n331 password\r\n230 in\r\n200 ok\r\n250-facts\r\n type=dir; f\r\n250 End\r\n226 done\r\n")
            .await;
        let listing = Packer::default().pack(b"type=file;size=7; seven\r\n", Follows::Nothing);
        server.send_transfer(&listing).await;
    });
    assert_eq!(code, 0, "{said}");
    assert!(said.contains("seven"), "{said}");
}

#[test]
fn an_upload_over_braid_takes_one_flight_and_sends_data_with_its_command() {
    let (code, said, _) = Braid::with(&["put", "ROOM/f", "URL"], async |server| {
        server.flight(&[LOGIN, &["TYPE I", "MLST f"]].concat()).await;
        server.say("220 hi\r\n331 password\r\n230 in\r\n200 ok\r\n550 no\r\n").await;
        server.flight(&["STOR f"]).await;
        // The file arrives without a reply to STOR, on any stream.
        let (_, piece) = server.association.recv_any().await.unwrap().unwrap();
        assert_eq!((piece.ppid, piece.end), (Ppid(ppid::WHOLE), true));
        server.say("226 done\r\n").await;
    });
    assert_eq!(code, 0, "{said}");
}

/// The first flight of a mirror into an empty folder.
fn mirror_flight() -> Vec<&'static str> {
    [LOGIN, &["TYPE I", "XTREE f"], &["RETR"; FIRST_FILES]].concat()
}

const MIRROR: [&str; 3] = ["mirror", "URL", "ROOM/out"];
const TREE: &[u8] = b"type=dir; .\r\ntype=dir; d\r\ntype=file;size=5; d/a\r\ntype=file;size=3; b\r\n";

async fn begin_tree(server: &mut Braid, listing: &[u8]) {
    server.flight(&mirror_flight()).await;
    server.say("220 hi\r\n331 password\r\n230 in\r\n200 ok\r\n226 done\r\n").await;
    server.send_transfer(&Packer::default().pack(listing, Follows::Nothing)).await;
}

#[test]
fn a_tree_over_braid_takes_one_flight() {
    let (code, said, room) = Braid::with(&MIRROR, async |server| {
        server.flight(&mirror_flight()).await;
        // Files before the listing that names them.
        server.send_numbered(2, 3, b"bbb").await;
        server.send_numbered(3, 2, b"aaaaa").await;
        server
            .say("220 hi\r\n331 password\r\n230 in\r\n200 ok\r\n226 done\r\n226 done\r\n226 done\r\n")
            .await;
        server.put(CONTROL_STREAM, ppid::LINES, "550 no further file\r\n".repeat(FIRST_FILES - 2)).await;
        server.send_transfer(&Packer::default().pack(TREE, Follows::Nothing)).await;
    });
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read(room.path("out/d/a")).unwrap(), b"aaaaa");
    assert_eq!(fs::read(room.path("out/b")).unwrap(), b"bbb");
}

#[test]
fn a_server_that_requires_paths_is_asked_with_them() {
    let (code, said, room) = Braid::with(&MIRROR, async |server| {
        begin_tree(server, b"type=dir; .\r\ntype=dir; d\r\ntype=file;size=5; d/a\r\n").await;
        server.put(CONTROL_STREAM, ppid::LINES, "501 which file?\r\n".repeat(FIRST_FILES)).await;
        server.flight(&["RETR f/d/a"]).await;
        server.send_numbered(1, 18, b"aaaaa").await;
        server.say("226 done\r\n").await;
    });
    assert_eq!(code, 0, "{said}");
    assert_eq!(fs::read(room.path("out/d/a")).unwrap(), b"aaaaa");
}

#[test]
fn a_file_that_is_not_wanted_is_aborted_and_others_are_asked_by_their_paths_behind_an_invalid_line() {
    let listing =
        b"type=dir; .\r\ntype=file;size=90000; large\r\ntype=file;size=5; /evil\r\ntype=file;size=3; b\r\n";
    let args = [&MIRROR[..], &["--max-size", "80k"]].concat();
    let (code, said, room) = Braid::with_keys(&args, None, &async |server: &mut Braid| {
        begin_tree(server, listing).await;
        server.flight(&["RETR f/b"]).await;
        // The first two files, as the server counts.
        for number in [2, 3] {
            server.put(1, ppid::FIRST, [&[0, number][..], b"content"].concat()).await;
            let abort = format!("ABOR {number}");
            server.flight(&[&abort]).await;
            server.put(1, ppid::BREAK, 426_u16.to_be_bytes().to_vec()).await;
        }
        server.send_numbered(1, 18, b"bbb").await;
        server.say("426 aborted\r\n426 aborted\r\n").await;
        server.put(CONTROL_STREAM, ppid::LINES, "550 no further file\r\n".repeat(FIRST_FILES - 2)).await;
        server.say("226 done\r\n226 done\r\n226 done\r\n").await;
    });
    assert_eq!(code, 10, "{said}");
    assert_eq!(fs::read(room.path("out/b")).unwrap(), b"bbb");
    assert!(!room.path("out/large").exists() && !said.contains("content"), "{said}");
}
