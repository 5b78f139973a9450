//! The budget under attack: each row of `braidftp::budget` has an attack, and its limit holds.
//!
//! A row without an attack does not compile. If a setting changes a limit, the attack sets a low one; if a
//! limit is a constant, the constant is reached.

mod associations;
mod check;
#[path = "../client_support/mod.rs"]
mod client_support;
mod clients;
mod commands;
#[path = "../endless/mod.rs"]
mod endless;
mod files;
mod logs;
mod passwords;
#[path = "../server_support/mod.rs"]
mod server_support;
mod service;
mod sessions;
mod tls;
mod transfers;

use std::io::{Read, Write};
use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::process::{Command, Stdio};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use braidftp::budget::{Amount, Effective, Row};
use braidftp::identity::{Files, ServerIdentity};
use braidftp::server::{Listen, Protection, Server, Settings, log};
use braidftp::users::{Access, LoginError, Users};
use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_ftp::mapping::frame::Header as Frame;
use braidftp_ftp::mapping::{CONTROL_PORT, TransferNumber, ppid};
use braidftp_ftp::server as machine;
use braidftp_net::sctp::packet_builder::PacketBuilder;
use braidftp_net::sctp::wire::{Chunk, Data, Header, Packet, Parameter};
use braidftp_net::sctp::{self, Config, Profile, Ssn, Tsn, VerificationTag};
use braidftp_net::{Association, Bind, Connect, Endpoint, Limits, Message, Ppid, StreamId};
use braidftp_sim::attack::victim::Trial;
use braidftp_sim::attack::{ATTACKS, Attack};
use bytes::Bytes;
use client_support::{Room, cli};
use endless::{File, Says, Tree};
use server_support::{Control, Folder, connect_from, pattern, quick, serve_with, session};

/// The attack on each row.
fn attack(row: Row) -> fn(Row) {
    match row {
        Row::Sessions | Row::SessionsPerAddress => sessions::sessions,
        Row::IdleMayClose => sessions::idle_sessions,
        Row::ProbeAnswer | Row::ProbesWaiting => sessions::stopped_clients,
        Row::LoginTime | Row::LoginWithin | Row::IdleTime => sessions::silence,
        Row::LoginAttempts => passwords::wrong_passwords,
        Row::AddressGuesses | Row::UserGuesses | Row::GuessesRemembered => passwords::guesses,
        Row::PasswordBytes | Row::PasswordMemory => passwords::passwords,
        Row::CommandLine | Row::PathBytes | Row::NameBytes => commands::long_words,
        Row::CommandsAhead => commands::short_commands,
        Row::CommandBytesAhead | Row::Replies => commands::commands_without_end,
        Row::HeldLines | Row::HeldLinesInAll => commands::lines_without_end,
        Row::Transfers => transfers::uploads,
        Row::Downloads | Row::Streams => transfers::downloads,
        Row::TransferBytes => transfers::slow_readers,
        Row::TransfersInAll | Row::FileBytesInAll | Row::FileBytesOfSession | Row::SctpSendQueue => {
            transfers::many_slow_readers
        }
        Row::Digests | Row::DigestsOfSession => files::digests,
        Row::PassiveSockets => transfers::passive_sockets,
        Row::DataOpen => transfers::no_data_connection,
        Row::Stall => transfers::standstill,
        Row::AwaitedUpload => transfers::upload_without_frames,
        Row::SilentTransfer => transfers::vanished_uploader,
        Row::TreeDepth => files::deep_tree,
        Row::OpenFolders | Row::DiskThreads => transfers::deep_listings,
        Row::UploadSize => files::giant_upload,
        Row::BucketUploads | Row::BucketFile => files::dead_store,
        Row::DiskReserve => files::full_disk,
        Row::PartsBytes | Row::PartsCount => files::broken_uploads,
        Row::PartsAge => files::old_uploads,
        Row::PeerAddresses => associations::many_addresses,
        Row::SctpAssociations => associations::full_endpoint,
        Row::SctpAssociationsPerAddress | Row::SctpHalfOpen => associations::silent_associations,
        Row::SctpWindowBeforeLogin => associations::window_before_login,
        Row::SctpMemory | Row::SctpReceiveBuffer | Row::SctpSendBuffer | Row::SctpShutdown => {
            associations::raw_peers
        }
        Row::SctpInitAcks | Row::SctpOutOfTheBlue | Row::SctpAnswers => associations::strangers,
        Row::SctpHandshakes | Row::SctpHandshakesWaiting => associations::handshakes,
        Row::SctpHandshakeTime => associations::silent_handshake,
        Row::TcpConnections | Row::TlsHandshakeTime => tls::handshakes,
        Row::TcpWaiting => sessions::connections_without_end,
        Row::TlsMessage | Row::TlsClientCertificates => tls::large_messages,
        Row::TlsSessions | Row::TlsSessionBytes => tls::many_sessions,
        Row::TlsUnsent | Row::TlsEnding => tls::unread,
        Row::LogLines | Row::LogLinesInAll | Row::LogAddresses => logs::log_flood,
        Row::HookEvents => service::full_hook_queue,
        Row::Scrapers | Row::ScraperTime => service::silent_scrapers,
        Row::PageReaders | Row::PageTime => service::stalled_readers,
        Row::PageSessions => service::many_sessions_on_the_page,
        Row::AnnouncedSize | Row::UnknownSize | Row::Discarded => clients::endless_files,
        Row::ListingBytes | Row::ListingMessage | Row::ListingQueue | Row::Entries => {
            clients::endless_listings
        }
        Row::Depth | Row::HeldPaths => clients::endless_trees,
        Row::ReplyLine | Row::Reply => clients::endless_replies,
        Row::ErrorLines => clients::endless_errors,
    }
}

/// The number of concurrent attacks. Most of them wait: for a time-out, or for a server that stops reading.
const ATTACKS_AT_ONCE: usize = 4;

#[test]
fn budget_limits_hold_under_attack() {
    // The rows in this variable, or all.
    let only = std::env::var("BRAIDFTP_ROWS").unwrap_or_default();
    let is_wanted = |row: &Row| only.is_empty() || only.split(',').any(|name| name == format!("{row:?}"));
    // An attack that covers several rows runs once.
    let mut attacks: Vec<(Row, fn(Row))> = Vec::new();
    for row in Row::ALL.iter().copied().filter(is_wanted) {
        let attack = attack(row);
        if !attacks.iter().any(|(_, before)| std::ptr::fn_addr_eq(*before, attack)) {
            attacks.push((row, attack));
        }
    }
    let (waiting, broken) = (Mutex::new(attacks.into_iter()), Mutex::new(Vec::new()));
    std::thread::scope(|scope| {
        for _ in 0..ATTACKS_AT_ONCE {
            scope.spawn(|| {
                loop {
                    let next = waiting.lock().unwrap().next();
                    let Some((row, attack)) = next else { return };
                    let start = Instant::now();
                    let held = std::panic::catch_unwind(|| attack(row)).is_ok();
                    let verdict = if held { "held" } else { "BROKEN" };
                    println!("{row:?}: {verdict}, {:.1} s", start.elapsed().as_secs_f64());
                    if !held {
                        broken.lock().unwrap().push(row);
                    }
                }
            });
        }
    });
    let broken = broken.into_inner().unwrap();
    assert!(broken.is_empty(), "these rows do not hold: {broken:?}");
}

/// The limit of a row with these settings.
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

/// A hash of `password` with minimum cost.
fn cheap_hash(password: &[u8]) -> String {
    use argon2::PasswordHasher;
    let params = argon2::Params::new(8, 1, 1, None).unwrap();
    argon2::Argon2::from(params).hash_password(password).unwrap().to_string()
}

fn users_file(hash: &str) -> String {
    format!("[[user]]\nname = 'anna'\nhash = '{hash}'\n")
}

/// An SCTP server of a folder, its address, and its endpoint.
struct Sctp {
    address: SocketAddr,
    endpoint: Endpoint,
    _folder: Folder,
}

/// These settings, with a key.
fn protected(settings: Settings) -> (tempfile::TempDir, Settings) {
    let keys = tempfile::tempdir().unwrap();
    let identity = ServerIdentity::load_or_make(Files::one(keys.path().join("key")), &[]).unwrap();
    let protection = Protection { identity: Some(identity), ..Protection::default() };
    (keys, Settings { protection, ..settings })
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
    Profile::Modern.config().with(|c| {
        c.streams.outbound = count;
        c.streams.inbound = count;
    })
}

async fn say(association: &Association, lines: impl Into<Bytes>) {
    association.send(StreamId(0), Message::new(Ppid(ppid::LINES), lines)).await.unwrap();
}

const LOG_IN: &str = "USER anonymous\r\nPASS x@\r\nTYPE I\r\n";

/// Waits for a reply that begins with this code.
async fn hear(association: &Association, code: &str) {
    let mut heard = String::new();
    while !heard.lines().any(|line| line.starts_with(code)) {
        let piece = association.recv(StreamId(0)).await.unwrap().expect("a reply");
        if piece.ppid.0 == ppid::LINES {
            heard.push_str(&String::from_utf8_lossy(&piece.payload.concat()));
        }
    }
}

/// The program as a server of a folder, and its address.
fn program(folder: &Folder, room: &Room, listen: &str) -> (Ended, SocketAddr) {
    let child = client_support::braidftp(&room.home())
        .args(["serve", folder.path("").to_str().unwrap(), "--plain", "--listen", listen])
        .stderr(Stdio::piped())
        .spawn();
    let mut server = Ended(child.unwrap());
    let mut lines = std::io::BufReader::new(server.0.stderr.take().unwrap());
    let mut line = String::new();
    std::io::BufRead::read_line(&mut lines, &mut line).unwrap();
    let address = line.trim().rsplit("://").next().unwrap().parse().unwrap();
    (server, address)
}

/// A program that is killed when this value is dropped.
struct Ended(std::process::Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// The resident memory of a process in bytes.
fn resident(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find_map(|line| line.strip_prefix("VmRSS:")).unwrap();
    line.trim().trim_end_matches(" kB").parse::<u64>().unwrap() << 10
}
