//! The budget under attack: each row of `braidftp::budget` names what attacks it, and holds.
//!
//! A row without an attack does not compile. Where a setting moves a limit, the attack sets it low; where a limit is a constant,
//! it is the constant that is reached.

mod client_support;
mod endless;
mod server_support;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use braidftp::budget::{Amount, Effective, Row};
use braidftp::server::{Listen, Server, Settings, log};
use braidftp::users::{Access, LoginError, Users};
use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_ftp::mapping::frame::Header as Frame;
use braidftp_ftp::mapping::{CONTROL_PORT, TransferNumber, ppid};
use braidftp_net::sctp::wire::{Chunk, Data, Header, Packet, PacketBuilder};
use braidftp_net::sctp::{self, Config, Profile, Ssn, Tsn, VerificationTag};
use braidftp_net::{Association, Bind, Connect, Endpoint, Limits, Message, Ppid, StreamId};
use braidftp_sim::attack::victim::Trial;
use braidftp_sim::attack::{ATTACKS, Attack};
use bytes::Bytes;
use client_support::{Room, cli};
use endless::{File, Says, Tree};
use server_support::{Control, Folder, connect_from, pattern, quick, serve_with, session};

/// What is attacked with it, row by row.
fn attack(row: Row) -> fn(Row) {
    match row {
        Row::Sessions | Row::SessionsPerAddress => sessions,
        Row::IdleMakesRoom => idle_sessions,
        Row::LoginTime | Row::LoginWithin | Row::IdleTime => silence,
        Row::LoginAttempts => wrong_passwords,
        Row::AddressGuesses | Row::UserGuesses | Row::GuessesRemembered => guesses,
        Row::PasswordBytes | Row::PasswordMemory => passwords,
        Row::CommandLine | Row::PathBytes | Row::NameBytes => long_words,
        Row::CommandsAhead | Row::CommandBytesAhead | Row::Replies => commands_without_end,
        Row::HeldLines | Row::HeldLinesInAll => lines_without_end,
        Row::Transfers | Row::Streams => transfers,
        Row::TransferBytes => slow_readers,
        Row::TransfersInAll | Row::FileBytesInAll | Row::FileBytesOfSession => many_slow_readers,
        Row::PassiveSockets => passive_sockets,
        Row::DataOpen => no_data_connection,
        Row::Stall => standstill,
        Row::AwaitedUpload => upload_without_frames,
        Row::SilentUpload => vanished_uploader,
        Row::TreeDepth => deep_tree,
        Row::UploadSize => giant_upload,
        Row::PeerAddresses => many_addresses,
        Row::SctpAssociations => full_endpoint,
        Row::SctpAssociationsPerAddress | Row::SctpHalfOpen => silent_associations,
        Row::SctpWindowBeforeLogin => window_before_login,
        Row::SctpMemory | Row::SctpReceiveBuffer | Row::SctpSendBuffer | Row::SctpShutdown => raw_peers,
        Row::SctpInitAcks | Row::SctpOutOfTheBlue | Row::SctpAnswers => strangers,
        Row::LogLines | Row::LogLinesInAll | Row::LogAddresses => log_flood,
        Row::ToldSize | Row::UntoldSize | Row::Discarded => endless_files,
        Row::ListingBytes | Row::ListingMessage | Row::ListingQueue | Row::Entries => endless_listings,
        Row::Depth | Row::HeldPaths => endless_trees,
        Row::ReplyLine | Row::Reply => endless_replies,
        Row::ErrorLines => endless_errors,
    }
}

#[test]
fn budget_rows_hold_when_they_are_attacked() {
    // An attack that serves several rows is made once.
    let mut made: Vec<fn(Row)> = Vec::new();
    for row in Row::ALL {
        let attack = attack(*row);
        if made.iter().any(|before| std::ptr::fn_addr_eq(*before, attack)) {
            continue;
        }
        let start = Instant::now();
        attack(*row);
        made.push(attack);
        println!("{row:?}: held, {:.1} s", start.elapsed().as_secs_f64());
    }
}

/// What a row allows with these settings.
fn limit(row: Row, settings: &Settings) -> usize {
    let effective = Effective::of(settings);
    match row.limit(&effective) {
        Amount::Count(amount) | Amount::Bytes(amount) | Amount::Rate(amount) => amount as usize,
        Amount::Time(time) => time.as_millis() as usize,
        Amount::Machine(words) => panic!("{row:?}: {words}"),
    }
}

fn with(settings: Settings) -> (Folder, server_support::Served) {
    let folder = Folder::new();
    let served = serve_with(folder.root(), |builder| builder.access(Access::Writable).settings(settings));
    (folder, served)
}

fn sessions(_: Row) {
    let settings = Settings { max_sessions: 5, max_sessions_per_address: 3, ..quick() };
    let (all, each) = (limit(Row::Sessions, &settings), limit(Row::SessionsPerAddress, &settings));
    let (_folder, served) = with(settings);
    let user = |from: u8| Control::open_from(&served, Some(Ipv4Addr::new(127, 0, 0, from).into())).log_in();
    let mut users: Vec<Control> = (0..each).map(|_| user(2)).collect();
    let refused = |from: u8| {
        let mut words = String::new();
        let mut refused = connect_from(served.address, Some(Ipv4Addr::new(127, 0, 0, from).into()));
        let _ = refused.read_to_string(&mut words);
        words
    };
    assert!(refused(2).starts_with("421"), "{each} from one address");
    // Those without a login make room for each other and for users.
    let silent = (0..3 * all).map(|_| {
        let mut silent = connect_from(served.address, None);
        // Its place is given, or refused.
        let _ = silent.read(&mut [0; 3]);
        silent
    });
    let silent: Vec<_> = silent.collect();
    users.extend((each..all).map(|_| user(3)));
    assert!(refused(4).starts_with("421"), "{all} in all");
    users.iter_mut().for_each(|user| drop(user.command("NOOP", "200")));
    drop(silent);
}

/// Sessions that logged in and do nothing: those of an hour ago are no reason to refuse a user. The time is `limits`' own, and
/// its test is there; here they keep nobody out for longer than that.
fn idle_sessions(row: Row) {
    let settings = Settings { max_sessions: 2, ..quick() };
    let silence = limit(row, &settings) as u64;
    assert!(silence < limit(Row::IdleTime, &settings) as u64, "it is told before the session ends by itself");
    let (_folder, served) = with(settings);
    let idle: Vec<Control> = (0..2).map(|_| Control::anonymous(&served)).collect();
    assert!(Control::try_open(&served).is_none(), "they were heard just now");
    drop(idle);
}

fn silence(_: Row) {
    let (_folder, served) = with(session(|config| {
        config.idle = Duration::from_millis(400);
        config.idle_before_login = Duration::from_millis(200);
    }));
    assert!(Control::open(&served).rest().contains("421"));
    // One that speaks all the time and never logs in.
    let (_folder, speaks) = with(session(|config| config.login_within = Duration::from_millis(400)));
    let mut control = Control::open(&speaks);
    let mut words = String::new();
    while !words.contains("421") {
        let _ = control.stream.write_all(b"NOOP\r\n");
        words = control.reply();
        std::thread::sleep(Duration::from_millis(10));
    }
    let mut logged_in = Control::open(&served).log_in();
    assert!(logged_in.rest().contains("421"));
}

/// A hash of `password` that costs next to nothing.
fn cheap_hash(password: &[u8]) -> String {
    use argon2::PasswordHasher;
    let params = argon2::Params::new(8, 1, 1, None).unwrap();
    argon2::Argon2::from(params).hash_password(password).unwrap().to_string()
}

fn users_file(hash: &str) -> String {
    format!("[[user]]\nname = 'anna'\nhash = '{hash}'\n")
}

fn wrong_passwords(row: Row) {
    let attempts = limit(row, &quick());
    let folder = Folder::new();
    let users = Users::parse(&users_file(&cheap_hash(b"right")), Access::ReadOnly).unwrap();
    let served = serve_with(folder.root(), |builder| builder.users(users));
    let mut control = Control::open(&served);
    for nth in 1..=attempts {
        control.command("USER anna", "331");
        control.send("PASS wrong");
        if nth < attempts {
            control.expect("530");
        }
    }
    let words = control.rest();
    assert!(words.contains("421"), "{words}");
}

/// Runs where delays take no time.
fn without_waiting<T>(future: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(true).build().unwrap();
    runtime.block_on(future)
}

fn guesses(_: Row) {
    let address = |nth: u32| IpAddr::from(Ipv4Addr::from_bits(0x0a00_0000 + nth));
    let users = || Users::parse(&users_file(&cheap_hash(b"right")), Access::ReadOnly).unwrap();
    without_waiting(async {
        let users = users();
        let most = limit(Row::AddressGuesses, &quick());
        for _ in 0..most {
            assert_eq!(users.log_in(b"anna", b"wrong", address(1)).await, Err(LoginError::Refused));
        }
        assert_eq!(users.log_in(b"anna", b"right", address(1)).await, Err(LoginError::TooMany));
        assert!(users.log_in(b"anna", b"right", address(2)).await.is_ok());
    });
    without_waiting(async {
        let users = users();
        let most = limit(Row::UserGuesses, &quick()) as u32;
        assert!(users.log_in(b"anna", b"right", address(0)).await.is_ok());
        for nth in 0..most {
            assert_eq!(users.log_in(b"anna", b"wrong", address(1 + nth)).await, Err(LoginError::Refused));
        }
        assert_eq!(users.log_in(b"anna", b"right", address(1 + most)).await, Err(LoginError::TooMany));
        assert!(users.log_in(b"anna", b"right", address(0)).await.is_ok(), "known from before");
    });
    without_waiting(async {
        let users = users();
        let most = limit(Row::GuessesRemembered, &quick());
        for nth in 0..most as u32 + 200 {
            let nobody = format!("nobody {nth}");
            let _ = users.log_in(nobody.as_bytes(), b"wrong", address(nth)).await;
        }
        assert_eq!(users.remembered_addresses(), most);
    });
}

fn passwords(_: Row) {
    let long = vec![b'x'; limit(Row::PasswordBytes, &quick()) + 1];
    let users = Users::parse(&users_file(&cheap_hash(&long)), Access::ReadOnly).unwrap();
    let here = IpAddr::from(Ipv4Addr::LOCALHOST);
    let refused = without_waiting(users.log_in(b"anna", &long, here));
    assert_eq!(refused, Err(LoginError::Refused));
    let kib = limit(Row::PasswordMemory, &quick()) >> 10;
    let costly = |kib: usize| users_file(&cheap_hash(b"x").replace("m=8,", &format!("m={kib},")));
    assert!(Users::parse(&costly(kib), Access::ReadOnly).is_ok());
    assert!(Users::parse(&costly(kib + 1), Access::ReadOnly).is_err());
}

fn long_words(_: Row) {
    let (folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    let of = |bytes: usize| "x".repeat(bytes);
    control.command(&format!("CWD {}", of(limit(Row::CommandLine, &quick()))), "500");
    let name = limit(Row::NameBytes, &quick());
    control.command(&format!("MKD {}", of(name)), "257");
    control.command(&format!("MKD {}", of(name + 1)), "553");
    let path = vec![of(200); limit(Row::PathBytes, &quick()) / 200 + 1].join("/");
    control.command(&format!("MKD {path}"), "553");
    control.command("NOOP", "200");
    assert_eq!(folder.names().len(), 1);
}

fn commands_without_end(_: Row) {
    let (_folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    control.stream.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let line = b"NOOP\r\n".repeat(10_000);
    let mut written = 0;
    // Until the server, and the sockets between, take no more.
    while let Ok(bytes) = control.stream.write(&line) {
        written += bytes;
        assert!(written < 64 << 20, "it reads on, though nobody takes its replies");
    }
    let held = limit(Row::CommandBytesAhead, &quick()) + limit(Row::Replies, &quick());
    assert!(limit(Row::CommandsAhead, &quick()) * 6 < held);
    // None is lost: as many replies as commands.
    let whole = written / 6;
    (0..whole).for_each(|_| assert!(control.reply().starts_with("200")));
}

/// An SCTP server of a folder, its address, and its endpoint.
struct Sctp {
    address: SocketAddr,
    endpoint: Endpoint,
    _folder: Folder,
}

fn sctp_server(settings: Settings, fill: impl FnOnce(&Folder)) -> Sctp {
    let folder = Folder::new();
    fill(&folder);
    let server = Server::builder(folder.root())
        .access(Access::Writable)
        .settings(settings)
        .listen(Listen::SctpUdp(vec![SocketAddr::from(([127, 0, 0, 1], 0))]))
        .bind()
        .unwrap();
    let [Listen::SctpUdp(addresses)] = &server.local_addrs()[..] else { panic!("one listener") };
    let (address, endpoint) = (addresses[0], server.endpoints().remove(0));
    tokio::spawn(server.run());
    Sctp { address, endpoint, _folder: folder }
}

fn in_tokio<T>(future: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap()
        .block_on(future)
}

fn connect(to: SocketAddr, config: Config) -> (Endpoint, Association) {
    let endpoint = Endpoint::bind(Bind::to([SocketAddr::from(([127, 0, 0, 1], 0))])).unwrap();
    let config = Arc::new(config);
    let peer = vec![to];
    let connect = Connect { local: vec![], peer, source_port: None, destination_port: CONTROL_PORT, config };
    let association = endpoint.connect(connect).unwrap();
    (endpoint, association)
}

fn streams(count: u16) -> Config {
    Config { outbound_streams: count, inbound_streams: count, ..Profile::Modern.config() }
}

async fn say(association: &Association, lines: impl Into<Bytes>) {
    association.send(StreamId(0), Message::new(Ppid(ppid::LINES), lines)).await.unwrap();
}

const LOG_IN: &str = "USER anonymous\r\nPASS x@\r\nTYPE I\r\n";

/// Waits for the reply that begins so.
async fn hear(association: &Association, code: &str) {
    let mut heard = String::new();
    while !heard.lines().any(|line| line.starts_with(code)) {
        let piece = association.recv(StreamId(0)).await.unwrap().expect("a reply");
        if piece.ppid.0 == ppid::LINES {
            heard.push_str(&String::from_utf8_lossy(&piece.payload.concat()));
        }
    }
}

fn lines_without_end(row: Row) {
    in_tokio(async {
        // Buffers of both stay small, so that replies soon wait in the server.
        let sctp =
            Config { send_buffer_bytes: 64 << 10, send_buffer_max_bytes: None, ..Profile::Modern.config() };
        let served = sctp_server(Settings { sctp, ..quick() }, |_| {});
        let config = Config {
            receive_buffer_bytes: 64 << 10,
            receive_buffer_max_bytes: None,
            send_buffer_bytes: 64 << 10,
            send_buffer_max_bytes: None,
            ..streams(3)
        };
        let (_endpoint, association) = connect(served.address, config);
        say(&association, LOG_IN).await;
        let lines = Bytes::from(b"NOOP\r\n".repeat(2_000));
        let mut sent = 0;
        let patience = Duration::from_secs(2);
        while tokio::time::timeout(patience, say(&association, lines.clone())).await.is_ok() {
            sent += lines.len();
            assert!(sent < 256 << 20, "it reads on, though nobody takes its replies");
        }
        let held = limit(row, &quick()) + limit(Row::SctpMemory, &quick());
        assert!(served.endpoint.memory_bytes() < held);
    });
}

fn transfers(_: Row) {
    in_tokio(async {
        let served = sctp_server(quick(), |folder| folder.put("big", pattern(1 << 20)));
        let most = limit(Row::Streams, &quick());
        let (_endpoint, association) = connect(served.address, streams(most as u16 + 30));
        let up = association.up().await.unwrap();
        assert_eq!(usize::from(up.outbound_streams), 1 + most);
        assert_eq!(usize::from(up.inbound_streams.min(up.outbound_streams)), 1 + most);
        say(&association, LOG_IN).await;
        hear(&association, "230").await;
        let at_once = limit(Row::Transfers, &quick());
        say(&association, "RETR big\r\n".repeat(2 * at_once)).await;
        // No credit is given: each stream brings a HEADER and then nothing but what the first credit lets through.
        let mut headers = 0;
        while headers < at_once {
            let (_, piece) = association.recv_any().await.unwrap().expect("a frame");
            headers += usize::from(piece.ppid.0 == ppid::HEADER);
        }
        let more = async {
            while let Ok(Some((_, piece))) = association.recv_any().await {
                assert_ne!(piece.ppid.0, ppid::HEADER, "more than {at_once} at once");
            }
        };
        let _ = tokio::time::timeout(Duration::from_secs(1), more).await;
    });
}

fn slow_readers(row: Row) {
    const READERS: u64 = 40;
    let (folder, room) = (Folder::new(), Room::new());
    folder.put("big", pattern(64 << 20));
    let (server, address) = program(&folder, &room, "ftp://127.0.0.1:0");
    let before = resident(server.0.id());
    let mut readers: Vec<Control> = (0..READERS).map(|_| Control::at(address, None).log_in()).collect();
    let data: Vec<_> = readers.iter_mut().map(|control| control.begin("RETR big")).collect();
    std::thread::sleep(Duration::from_secs(1));
    let grown = resident(server.0.id()).saturating_sub(before);
    // What a session, a task and its buffers take besides.
    let most = READERS * (limit(row, &quick()) as u64 + (256 << 10)) + (16 << 20);
    assert!(grown < most, "{grown} bytes for {READERS} transfers that nobody reads; may be {most}");
    drop(data);
}

/// The program as a server of a folder, and where it listens.
fn program(folder: &Folder, room: &Room, listen: &str) -> (Ended, SocketAddr) {
    let child = client_support::braidftp(&room.home())
        .args(["serve", folder.path("").to_str().unwrap(), "--listen", listen])
        .stderr(Stdio::piped())
        .spawn();
    let mut server = Ended(child.unwrap());
    let mut lines = std::io::BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    let address = line.trim().rsplit("://").next().unwrap().parse().unwrap();
    (server, address)
}

/// Sessions of braid that ask for more files than all may have at once, and take no more than a first window.
fn many_slow_readers(_: Row) {
    const SESSIONS: usize = 24;
    let (folder, room) = (Folder::new(), Room::new());
    folder.put("big", pattern(2 << 20));
    let (server, address) = program(&folder, &room, "ftp+sctp://127.0.0.1:0");
    let process = server.0.id();
    let open_files = || std::fs::read_dir(format!("/proc/{process}/fd")).unwrap().count();
    let (before, files_before) = (resident(process), open_files());
    in_tokio(async {
        let asks = limit(Row::Transfers, &quick());
        let all = limit(Row::TransfersInAll, &quick());
        assert!(SESSIONS * asks > all);
        let window = 64 << 10;
        let config = Config {
            receive_buffer_bytes: window,
            receive_buffer_max_bytes: None,
            ..streams(1 + asks as u16)
        };
        let mut clients = Vec::new();
        for _ in 0..SESSIONS {
            let (endpoint, association) = connect(address, config.clone());
            say(&association, LOG_IN).await;
            hear(&association, "200").await;
            say(&association, "RETR big\r\n".repeat(asks)).await;
            clients.push((endpoint, association));
        }
        // Until nothing is opened any more.
        let mut most = 0;
        loop {
            tokio::time::sleep(Duration::from_secs(1)).await;
            if open_files() <= most {
                break;
            }
            most = open_files();
        }
        assert!(most > files_before + all / 2, "{most} files are open: the attack was none");
        // One more a session is what else it may have open, and a few are those of threads.
        assert!(most <= files_before + all + 3 * SESSIONS + 32, "{most} files are open");
        let grown = resident(process).saturating_sub(before) as usize;
        let files = limit(Row::FileBytesInAll, &quick())
            + SESSIONS * limit(Row::FileBytesOfSession, &quick())
            + (all + 2 * SESSIONS) * (4 << 10);
        // What associations hold has a row of its own.
        let besides = limit(Row::SctpMemory, &quick());
        assert!(grown < files + besides, "{grown} bytes; may be {files} and {besides}");
    });
}

/// A program that ends with the test.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Bytes of memory that a process has resident.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}

fn passive_sockets(row: Row) {
    assert_eq!(limit(row, &quick()), 1);
    let (_folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    let sockets: Vec<SocketAddr> = (0..20).map(|_| control.passive()).collect();
    let open = sockets.iter().filter(|address| std::net::TcpStream::connect(address).is_ok()).count();
    assert_eq!(open, 1, "of {} that were asked for", sockets.len());
}

fn no_data_connection(_: Row) {
    let (folder, served) = with(Settings { data_open: Duration::from_millis(200), ..quick() });
    folder.put("a", "hello");
    let mut control = Control::anonymous(&served);
    control.passive();
    control.send("RETR a");
    let replies = [control.reply(), control.reply()].concat();
    assert!(replies.contains("425"), "{replies}");
}

fn standstill(_: Row) {
    let (folder, served) = with(Settings { stall: Duration::from_millis(300), ..quick() });
    folder.put("big", pattern(64 << 20));
    let mut control = Control::anonymous(&served);
    let unread = control.begin("RETR big");
    control.expect("426");
    drop(unread);
}

fn upload_without_frames(_: Row) {
    in_tokio(async {
        let served = sctp_server(Settings { awaited: Duration::from_millis(300), ..quick() }, |_| {});
        let (_endpoint, association) = connect(served.address, streams(3));
        say(&association, [LOG_IN, "STOR never\r\n"].concat()).await;
        hear(&association, "426").await;
    });
}

/// A peer that acknowledges nothing any more, in the middle of an upload.
fn vanished_uploader(_: Row) {
    in_tokio(async {
        // Without heartbeats of its own, so that nothing else ends the association.
        let sctp = Config { heartbeat_interval: None, ..Profile::Modern.config() };
        let silent_upload = Duration::from_secs(2);
        let served = sctp_server(Settings { silent_upload, sctp, ..quick() }, |_| {});
        let socket = tokio::net::UdpSocket::bind("127.0.0.1:0").await.unwrap();
        let (through, to) = (socket.local_addr().unwrap(), served.address);
        let relay = tokio::spawn(async move {
            let (mut buffer, mut client) = (vec![0; 65_536], None);
            while let Ok((length, from)) = socket.recv_from(&mut buffer).await {
                client = if from == to { client } else { Some(from) };
                let target = if from == to { client } else { Some(to) };
                if let Some(target) = target {
                    let _ = socket.send_to(&buffer[..length], target).await;
                }
            }
        });
        let (_endpoint, association) = connect(through, streams(3));
        say(&association, [LOG_IN, "STOR half\r\n"].concat()).await;
        hear(&association, "200").await;
        let header = Frame { transfer: TransferNumber(1), offset: 0, size: None, modified: None };
        for (kind, payload) in [(ppid::HEADER, header.encode()), (ppid::BYTES, Bytes::from_static(b"half"))] {
            association.send(StreamId(1), Message::new(Ppid(kind), payload)).await.unwrap();
        }
        // When all of it is acknowledged the wire is cut.
        while association.stats().outstanding_bytes + association.stats().queued_bytes > 0 {
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
        relay.abort();
        while served.endpoint.associations() > 0 {
            tokio::time::sleep(Duration::from_millis(20)).await;
        }
    });
}

fn deep_tree(row: Row) {
    let (folder, served) = with(quick());
    let most = limit(row, &quick());
    std::fs::create_dir_all(folder.path("d/".repeat(most + 5))).unwrap();
    let (listing, done) = Control::anonymous(&served).fetch("XTREE");
    let deepest =
        String::from_utf8(listing).unwrap().lines().map(|line| line.matches("d/").count() + 1).max();
    assert!(deepest.unwrap() <= most + 1 && done.starts_with("226"), "{deepest:?}, {done}");
}

fn giant_upload(_: Row) {
    let (folder, served) = with(quick());
    let mut control = Control::anonymous(&served);
    control.command(&format!("ALLO {}", 1_u64 << 60), "2");
    let reply = control.store("STOR giant", b"x");
    assert!(reply.starts_with("45"), "{reply}");
    assert!(folder.names().iter().all(|name| name != "giant"));
}

fn many_addresses(row: Row) {
    in_tokio(async {
        let most = limit(row, &quick());
        let server = Endpoint::bind(Bind::to([SocketAddr::from(([127, 0, 0, 1], 0))])).unwrap();
        let listener = server.listen(CONTROL_PORT, Arc::new(Profile::Modern.config())).unwrap();
        let addresses = (1..=most as u8 + 5).map(|nth| SocketAddr::from(([127, 0, 7, nth], 0)));
        let client = Endpoint::bind(Bind::to(addresses)).unwrap();
        let mut to = Connect::to([server.local_addrs()[0]], CONTROL_PORT);
        to.config = Arc::new(Profile::Modern.config());
        let association = client.connect(to).unwrap();
        association.up().await.unwrap();
        let accepted = listener.accept().await.unwrap();
        let paths = accepted.stats().paths.len();
        assert!((2..=most + 1).contains(&paths), "{paths} paths");
    });
}

fn full_endpoint(_: Row) {
    in_tokio(async {
        let mut bind = Bind::to([SocketAddr::from(([127, 0, 0, 1], 0))]);
        bind.limits.associations = 4;
        let server = Endpoint::bind(bind).unwrap();
        let _listener = server.listen(CONTROL_PORT, Arc::new(Profile::Modern.config())).unwrap();
        let clients: Vec<_> = (0..7).map(|_| connect(server.local_addrs()[0], streams(2))).collect();
        let mut up = 0;
        for (_, association) in &clients {
            up += usize::from(association.up().await.is_ok());
        }
        assert_eq!((up, server.associations()), (4, 4));
    });
}

fn silent_associations(_: Row) {
    in_tokio(async {
        let settings = Settings { max_sessions: 8, max_sessions_per_address: 40, ..quick() };
        let half_open = limit(Row::SctpHalfOpen, &settings);
        let served = sctp_server(settings, |_| {});
        let mut clients = Vec::new();
        for _ in 0..3 * half_open {
            let client = connect(served.address, streams(3));
            let _ = client.1.up().await;
            clients.push(client);
            assert!(served.endpoint.half_open() <= half_open, "{} half-open", served.endpoint.half_open());
        }
        // Of those that log in, one address may have so many.
        let settings = Settings { max_sessions: 40, max_sessions_per_address: 4, ..quick() };
        let most = limit(Row::SctpAssociationsPerAddress, &settings);
        let served = sctp_server(settings, |_| {});
        for _ in 0..3 * most {
            let client = connect(served.address, streams(3));
            if client.1.up().await.is_ok() {
                let lines = Message::new(Ppid(ppid::LINES), LOG_IN);
                let _ = client.1.send(StreamId(0), lines).await;
            }
            clients.push(client);
            assert!(
                served.endpoint.associations() <= most,
                "{} associations",
                served.endpoint.associations()
            );
        }
    });
}

fn window_before_login(row: Row) {
    in_tokio(async {
        let served = sctp_server(quick(), |_| {});
        let (_endpoint, association) = connect(served.address, streams(3));
        association.up().await.unwrap();
        let window = association.stats().peer_rwnd;
        assert!(window <= limit(row, &quick()), "{window} bytes");
    });
}

/// Attacks of raw peers, in the simulator.
fn raw_peers(_: Row) {
    const MEMORY: usize = 24 << 20;
    for name in ["hoard", "fragments", "zero-window", "outlive"] {
        let attack = ATTACKS.iter().find(|attack| attack.name == name).copied().unwrap();
        let attack = Attack { associations: attack.associations.min(40), packets_a_second: 2_000, ..attack };
        let mut trial = Trial::of(Some(attack), MEMORY);
        trial.lasts = Duration::from_secs(2);
        let outcome = trial.run();
        assert!(outcome.memory_most <= MEMORY + (1 << 20), "{name}: {outcome:?}");
        assert!(outcome.login.is_some(), "{name}: {outcome:?}");
        if name == "outlive" {
            // What closes is over when T5-shutdown-guard has expired.
            assert!(outcome.associations_after <= 1, "{name}: {outcome:?}");
        }
    }
}

/// Packets of those who have no association, at an endpoint that is told of them all at one moment.
fn strangers(_: Row) {
    let now = Time::from_millis(100_000);
    let from = |nth: u32| SocketAddr::from((Ipv4Addr::from_bits(0x0a00_0001 + (nth << 8)), 9_899));
    let to = SocketAddr::from(([10, 255, 0, 1], 9_899));
    let packet = |nth: u32, tag: u32, chunk: Chunk| {
        let source_port = 1_024 + (nth % 60_000) as u16;
        let header = Header { source_port, destination_port: CONTROL_PORT, tag: VerificationTag(tag) };
        let mut builder = PacketBuilder::new();
        builder.begin(header, PacketBuilder::MAX_BYTES);
        builder.push(&chunk);
        builder.seal();
        builder.finish().unwrap().payload
    };
    let limits = Limits { init_acks: 100, out_of_the_blue: 20, answers: 50, ..Limits::default() };
    let settings = quick();
    let effective = Effective { limits, ..Effective::of(&settings) };
    let endpoint = || {
        let mut endpoint = sctp::Endpoint::with_limits([7; 32], limits);
        endpoint.listen(CONTROL_PORT, Arc::new(Profile::Modern.config())).unwrap();
        endpoint
    };
    let answers = |endpoint: &mut sctp::Endpoint| {
        let mut answers = 0_u64;
        while let Output::Send(transmit) = endpoint.poll(now) {
            answers += 1;
            drop(transmit);
        }
        answers
    };
    let init = |nth: u32| {
        let init = sctp::wire::Init {
            initiate_tag: VerificationTag(nth + 1),
            a_rwnd: 100_000,
            outbound_streams: 2,
            inbound_streams: 2,
            initial_tsn: Tsn(nth),
            parameters: Vec::new(),
        };
        packet(nth, 0, Chunk::Init(init))
    };
    let data = |nth: u32| {
        let data = Data {
            begin: true,
            end: true,
            unordered: false,
            immediate: false,
            tsn: Tsn(nth),
            stream: StreamId(0),
            ssn: Ssn(0),
            interleaved: None,
            ppid: Ppid(0),
            payload: Bytes::from_static(b"x"),
        };
        packet(nth, 7, Chunk::Data(data))
    };
    let datagram = |nth: u32, payload| Datagram { from: from(nth), to, ecn: Ecn::NotEct, payload };
    // All at once: as many wait as may.
    let mut flooded = endpoint();
    (0..1_000).for_each(|nth| flooded.handle(now, datagram(nth, init(nth))));
    let at_once = answers(&mut flooded);
    assert_eq!(Amount::Count(at_once), Row::SctpAnswers.limit(&effective));
    // One after the other: as many a second as may.
    let mut flooded = endpoint();
    let one_by_one = |endpoint: &mut sctp::Endpoint, make: &dyn Fn(u32) -> Bytes| {
        let each = (0..1_000).map(|nth| {
            endpoint.handle(now, datagram(nth, make(nth)));
            answers(endpoint)
        });
        each.sum::<u64>()
    };
    let inits = one_by_one(&mut flooded, &init);
    assert_eq!(Amount::Rate(inits), Row::SctpInitAcks.limit(&effective));
    let strays = one_by_one(&mut flooded, &data);
    assert!(
        strays > 0 && Amount::Rate(strays) == Row::SctpOutOfTheBlue.limit(&effective),
        "{strays} answers"
    );
    assert_eq!(flooded.len(), 0, "nothing is kept of them");
    assert!(flooded.counters().answers_dropped > 0);
    let _ = Packet::decode(init(1)).unwrap();
}

/// What was written to the log.
#[derive(Clone, Default)]
struct Written(Arc<Mutex<Vec<u8>>>);

impl Write for Written {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().extend(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

fn log_flood(_: Row) {
    use tracing_subscriber::layer::SubscriberExt;
    const LINES: usize = 20_000;
    let (written, line_limit) = (Written::default(), log::LineLimit::default());
    let to = written.clone();
    let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(move || to.clone());
    let subscriber = tracing_subscriber::registry().with(line_limit.clone()).with(lines);
    let start = Instant::now();
    tracing::subscriber::with_default(subscriber, || {
        for nth in 0..LINES {
            // From one address with many ports, and each time from another one.
            let peer = SocketAddr::from(([192, 0, 2, 1], 1 + nth as u16 % 60_000));
            tracing::info!(%peer, "too many sessions");
            let peer = Ipv4Addr::from_bits(nth as u32);
            tracing::info!(%peer, "login refused");
        }
    });
    let seconds = start.elapsed().as_secs() as usize + 1 + log::BURST.as_secs() as usize;
    let text = String::from_utf8(written.0.lock().unwrap().clone()).unwrap();
    let (one, all) = (text.matches("too many sessions").count(), text.lines().count());
    assert!(one > 0 && one <= seconds * limit(Row::LogLines, &quick()), "{one} lines about one address");
    assert!(all <= seconds * limit(Row::LogLinesInAll, &quick()), "{all} lines");
    assert_eq!(line_limit.take_left_out() as usize, 2 * LINES - all);
    assert!(LINES > limit(Row::LogAddresses, &quick()));
}

/// Runs the program on a server without end. Exit code, standard error, and the server.
fn against(mode: &str, says: Says, command: &[&str]) -> (i32, String, endless::Endless) {
    let room = Room::new();
    let server = endless::serve(mode, says);
    let out = room.folder("out");
    let (verb, more) = command.split_first().unwrap();
    let (url, out_arg) = (server.url(), out.to_str().unwrap().to_owned());
    let mut args = vec![*verb, "--mode", mode, "-q"];
    let named = format!("{url}a");
    match *verb {
        "mirror" => args.extend([url.as_str(), &out_arg]),
        "get" => args.extend([named.as_str(), "-o", &out_arg]),
        "rm" => args.extend(["-r", &named]),
        _ => args.push(&url),
    }
    args.extend(more);
    let (code, _, err) = cli(&room.home(), &args);
    assert_ne!(code, 0, "{command:?} in {mode}");
    assert!(client_support::names(&out).iter().all(|name| name == "d"), "{:?}", client_support::names(&out));
    (code, err, server)
}

/// What sockets and windows hold between a client and a server.
const BETWEEN: u64 = 32 << 20;

fn endless_files(_: Row) {
    let endless = |told| Says { file: File::Endless { told }, ..Says::default() };
    let (_, err, server) = against("tcp", endless(Some(4)), &["get"]);
    assert!(err.contains("more than the 4 bytes that it told"), "{err}");
    assert!(server.sent() < BETWEEN, "{} bytes", server.sent());
    let (_, err, server) = against("tcp", endless(None), &["get", "--max-size", "1MB"]);
    assert!(err.contains("goes on beyond 1000000 bytes"), "{err}");
    assert!(server.sent() < BETWEEN, "{} bytes", server.sent());
    let (code, err, server) = against("braid", endless(Some(4)), &["get"]);
    assert!(code == 14 && err.contains("more than the 4 bytes that it told"), "{code}: {err}");
    let most = limit(Row::Discarded, &quick()) as u64 + 2 * BETWEEN;
    assert!(server.sent() < most, "{} bytes", server.sent());
}

fn endless_listings(_: Row) {
    let endless = Says { tree: Tree::Endless, ..Says::default() };
    let (code, err, _) = against("tcp", endless, &["ls", "--max-entries", "300"]);
    assert!(code == 14 && err.contains("more than 300"), "{code}: {err}");
    let blank = Says { tree: Tree::Blank, ..Says::default() };
    let (code, err, _) = against("tcp", blank, &["ls", "--max-entries", "300"]);
    assert!(code == 14 && err.contains("longer than 1048576 bytes"), "{code}: {err}");
    let (code, err, _) = against("ms", blank, &["ls"]);
    assert!(code == 14 && err.contains("longer than 16 MiB"), "{code}: {err}");
    // A reader who does not read: the listing waits in a queue, and then in the server.
    let (room, server) = (Room::new(), endless::serve("tcp", endless));
    let mut reader = client_support::braidftp(&room.home());
    let child = reader.args(["ls", "-q", &server.url()]).stdout(Stdio::piped()).stderr(Stdio::null()).spawn();
    let reader = Ended(child.unwrap());
    let mut before = u64::MAX;
    while before != server.listed() || before == 0 {
        before = server.listed();
        std::thread::sleep(Duration::from_secs(1));
    }
    assert!(before < limit(Row::ListingQueue, &quick()) as u64 + 2 * BETWEEN, "{before} bytes");
    drop(reader);
}

fn endless_trees(_: Row) {
    let deep = Says { tree: Tree::Deep, ..Says::default() };
    let (_, err, _) = against("tcp", deep, &["mirror"]);
    assert!(err.contains(&format!("deeper than {} levels", limit(Row::Depth, &quick()))), "{err}");
    let long = Says { tree: Tree::LongNames, ..Says::default() };
    let (code, err, _) = against("tcp", long, &["rm"]);
    let most = limit(Row::HeldPaths, &quick()) >> 20;
    assert!(code == 14 && err.contains(&format!("more than {most} MiB")), "{code}: {err}");
}

fn endless_replies(_: Row) {
    for (greeting, row) in
        [("220-hello\r\n", Row::Reply), ("220 hello", Row::ReplyLine), ("220-\r\n\r\n", Row::Reply)]
    {
        let says = Says { greeting_again_and_again: Some(greeting), ..Says::default() };
        let (code, err, _) = against("tcp", says, &["ls"]);
        assert!(code == 14 && err.contains(&limit(row, &quick()).to_string()), "{code}: {err}");
    }
}

fn endless_errors(row: Row) {
    let most = limit(row, &quick());
    let says = Says { tree: Tree::Nonsense(3 * most as u64), ..Says::default() };
    let (_, err, _) = against("tcp", says, &["mirror"]);
    let lines = err.lines().filter(|line| line.starts_with("braidftp:")).count();
    assert!(lines >= most && lines < most + 10, "{lines} lines");
}

#[test]
fn check_says_what_would_hold_and_what_is_wrong() {
    let (folder, room) = (Folder::new(), Room::new());
    let dir = folder.path("");
    let serve = |more: &[&str]| {
        let mut command: Command = client_support::braidftp(&room.home());
        command.args(["serve", dir.to_str().unwrap(), "--check"]).args(more);
        client_support::run(&mut command)
    };
    let here = ["--listen", "ftp://127.0.0.1:0", "--listen", "ftp+sctp://127.0.0.1:0"];
    let (code, out, err) = serve(&here);
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for words in [
        "user anonymous: reads .",
        "can listen: ftp://127.0.0.1:",
        "sessions at once: 200 [max-sessions]",
        "limits of the client",
    ] {
        assert!(out.contains(words), "{words}: {out}");
    }
    // Every row is there.
    assert!(Row::ALL.iter().all(|row| out.contains(row.entry().what)), "{out}");

    let config = room.path("serve.toml");
    let with = |text: &str| {
        std::fs::write(&config, text).unwrap();
        serve(&[&here[..], &["--config", config.to_str().unwrap()]].concat())
    };
    for (text, code, words) in [
        ("max-sessions = 0", 1, "nobody could log in"),
        ("max-sessions = 10", 1, "one address could take all"),
        ("max-sessions = 10000000", 1, "lower max-sessions"),
        ("passive-ports = '50000-50009'", 1, "has 10 ports"),
        ("stall-seconds = 0", 1, "every session would end at once"),
        ("users = '/nowhere'", 1, "/nowhere"),
        ("max-session = 1", 1, "max-session"),
    ] {
        let (found, _, err) = with(text);
        assert!(found == code && err.contains(words), "{text}: {found}: {err}");
    }
    // Two things at once are two sentences.
    let (_, _, err) = with("max-sessions = 10\nstall-seconds = 0\n");
    assert_eq!(err.lines().filter(|line| line.starts_with("braidftp: ")).count(), 2, "{err}");

    let taken = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let (code, _, err) = serve(&["--listen", &format!("ftp://{}", taken.local_addr().unwrap())]);
    assert!(code == 2 && err.contains("another program has TCP port"), "{code}: {err}");

    let users = room.path("users.toml");
    let hash = cheap_hash(b"x");
    std::fs::write(&users, format!("[[user]]\nname = 'anna'\nhash = '{hash}'\nhome = 'gone'\n")).unwrap();
    let (code, _, err) = serve(&[&here[..], &["--users", users.to_str().unwrap()]].concat());
    assert!(code == 6 && err.contains("the home of user anna"), "{code}: {err}");
}
