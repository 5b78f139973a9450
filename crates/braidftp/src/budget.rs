//! The limits on what a peer can make either side hold or do: one row for each resource, with its limit, what
//! is refused beyond the limit, and what is logged.
//!
//! A row reads its limit from the constant or the setting that enforces it, so this file contains no numbers.
//! `braidftp serve --check` prints the table, ARCHITECTURE.md shows it with the defaults, and `tests/budget/`
//! attacks each row. Limits within one association (runs of TSNs, duplicates, requests) are constants of
//! `braidftp-sctp`, with tests there, and their memory counts towards [`Row::SctpMemory`].

use std::fmt::{self, Write};
use std::time::Duration;

use braidftp_ftp::line::LINE_MAX;
use braidftp_ftp::mapping::{DATA_STREAMS_MAX, LISTING_MESSAGE_MAX};
use braidftp_ftp::path::{NAME_MAX, PATH_MAX};
use braidftp_ftp::reply::REPLY_MAX;
use braidftp_net::Limits;
use braidftp_net::sctp::cookie::MAX_ADDRESSES;

use crate::client::{Bounds, DISCARDED_BYTES_MAX, HELD_BYTES_MAX, LISTING_QUEUE_BYTES, UNKNOWN_SIZE_MAX};
use crate::dashboard;
use crate::identity::CLIENT_CHAIN_BYTES_MAX;
use crate::progress::LINES_MAX;
use crate::server::{self, Settings, hooks, log, metrics_http};
use crate::store::bucket;
use crate::store::fs::{BLOCK_BYTES, FOLDERS_MAX, MAX_DEPTH, POOL_BYTES, SESSION_BYTES};
use crate::tls::{self, server as tls_server};
use crate::{users, users_file};

/// A limit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Amount {
    /// A count.
    Count(u64),
    /// Bytes.
    Bytes(u64),
    /// A duration.
    Time(Duration),
    /// A rate per second.
    Rate(u64),
    /// Determined by the machine; described in words.
    Machine(&'static str),
}

impl fmt::Display for Amount {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Count(count) => f.write_str(&grouped(*count)),
            Self::Bytes(bytes) => {
                const UNITS: [(u64, &str); 3] = [(1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB")];
                let whole = UNITS.iter().find(|(unit, _)| bytes >= unit && bytes.is_multiple_of(*unit));
                match whole {
                    Some((unit, name)) if bytes / unit < 10_000 => write!(f, "{} {name}", bytes / unit),
                    None if *bytes < 10_000 => write!(f, "{} bytes", grouped(*bytes)),
                    // The plural, unless the unit stands for exactly one.
                    _ => {
                        let (unit, name) = UNITS.iter().find(|(unit, _)| bytes >= unit).unwrap_or(&UNITS[2]);
                        write!(f, "{:.1} {name}", *bytes as f64 / *unit as f64)
                    }
                }
            }
            Self::Time(time) if time.as_secs() == 0 => write!(f, "{} ms", time.as_millis()),
            Self::Time(time) if time.as_secs() >= 2 * 86_400 && time.as_secs().is_multiple_of(86_400) => {
                write!(f, "{} days", time.as_secs() / 86_400)
            }
            Self::Time(time) => write!(f, "{} s", time.as_secs()),
            Self::Rate(rate) => write!(f, "{} a second", grouped(*rate)),
            Self::Machine(words) => f.write_str(words),
        }
    }
}

/// A number with a comma between groups of three digits.
fn grouped(number: u64) -> String {
    let digits = number.to_string();
    let mut out = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            out.push(',');
        }
        out.push(digit);
    }
    out
}

/// The side that a limit protects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// What clients can make the server hold or do.
    Server,
    /// What a server can make the client hold or do.
    Client,
}

/// The effective limits: settings of a server, bounds of a client.
#[derive(Debug)]
pub struct Effective<'a> {
    /// The settings of the server.
    pub settings: &'a Settings,
    /// The limits of the server's SCTP endpoint.
    pub limits: Limits,
    /// The bounds of the client.
    pub bounds: Bounds,
    /// How numbers that depend on the machine are shown.
    pub machine: Shown,
}

/// How a value that depends on the machine is shown.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Shown {
    /// As the number on this machine.
    Number,
    /// In words that are true on every machine.
    Words,
}

impl<'a> Effective<'a> {
    /// The limits of a server with these settings, and of a client with default bounds.
    pub fn of(settings: &'a Settings) -> Self {
        let limits = server::sctp_limits(settings);
        Self { settings, limits, bounds: Bounds::default(), machine: Shown::Number }
    }
}

/// One row as text.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Entry {
    /// The side that the limit protects.
    pub side: Side,
    /// The limited resource.
    pub what: &'static str,
    /// The setting that changes the limit, if there is one.
    pub setting: Option<&'static str>,
    /// What is refused at the limit, and how.
    pub refused: &'static str,
    /// The log message at the limit, with its level.
    pub logged: &'static str,
}

macro_rules! rows {
    ($effective:ident; $($(#[doc = $doc:literal])* $name:ident $side:ident $what:literal $setting:expr, $limit:expr, $refused:literal, $logged:literal;)*) => {
        /// A row of the budget.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
        pub enum Row {
            $(#[doc = $what] $name,)*
        }

        impl Row {
            /// All rows, in the order in which they are shown.
            pub const ALL: &'static [Self] = &[$(Self::$name,)*];

            /// The text of the row.
            pub const fn entry(self) -> Entry {
                match self {
                    $(Self::$name => Entry {
                        side: Side::$side,
                        what: $what,
                        setting: $setting,
                        refused: $refused,
                        logged: $logged,
                    },)*
                }
            }

            /// The limit of the row.
            pub fn limit(self, $effective: &Effective<'_>) -> Amount {
                match self {
                    $(Self::$name => $limit,)*
                }
            }
        }
    };
}

const NONE: Option<&str> = None;

const fn count(count: usize) -> Amount {
    Amount::Count(count as u64)
}

const fn bytes(bytes: usize) -> Amount {
    Amount::Bytes(bytes as u64)
}

rows! { now;
    Sessions Server "sessions at once" Some("max-sessions"), count(now.settings.max_sessions),
        "421 to one session: one without a login, by silence; else an idle one; else, for a client whose address has less than an equal share, the longest idle or the slowest one of the address with the most; else the new one", "info: too many sessions";
    SessionsPerAddress Server "sessions at once from one address (IPv6: one /64)" Some("max-sessions-per-address"),
        count(now.settings.max_sessions_per_address), "421 to one session from that address: the longest silent one without a login, else an idle one, else the new one", "info: too many sessions";
    IdleMayClose Server "silence after which a session with a login may be closed for a new one; for an address with the most sessions, also the time without progress of any transfer" NONE, Amount::Time(server::MAY_CLOSE_AFTER),
        "the session, if a limit on sessions is reached: 421", "info: too many sessions";
    ProbeAnswer Server "time for a silent client over SCTP to answer a HEARTBEAT when a limit on sessions is reached" NONE,
        Amount::Time(server::ANSWER_TIMEOUT), "the session: ABORT", "info: session lost";
    ProbesWaiting Server "new sessions that wait for such answers at once" NONE, count(server::WAITING_MAX),
        "the next one: 421", "info: too many sessions";
    LoginWithin Server "time from the connection to the login" NONE,
        Amount::Time(now.settings.session.login_within), "the session: 421", "info: the reply";
    LoginTime Server "silence before the login" NONE,
        Amount::Time(now.settings.session.idle_before_login.min(now.settings.session.idle)), "the session: 421", "nothing";
    IdleTime Server "silence of a session while nothing runs" Some("idle-seconds"),
        Amount::Time(now.settings.session.idle), "the session: 421", "nothing";
    LoginAttempts Server "wrong passwords in a session" Some("login-attempts"),
        Amount::Count(u64::from(now.settings.session.login_attempts)), "the session: 421", "info: login refused";
    AddressGuesses Server "failed password checks from one address (IPv6: one /64) in 10 minutes" NONE,
        count(users::MAX_ADDRESS_FAILURES), "every login from that address, without a check: 421", "info: login refused";
    UserGuesses Server "failed password checks against one user in 10 minutes" NONE, count(users::MAX_USER_FAILURES),
        "that user, except from addresses known from earlier logins: 421", "info: login refused";
    GuessesRemembered Server "addresses and unknown user names whose failures are remembered" NONE,
        count(users::MAX_REMEMBERED), "nobody; the oldest is forgotten", "nothing";
    PasswordBytes Server "bytes of a password that is checked" NONE, bytes(users::MAX_PASSWORD_BYTES),
        "the login: 530", "info: login refused";
    PasswordMemory Server "memory of a password check, of which one runs at a time" NONE,
        Amount::Bytes((users_file::MAX_HASH_KIB as u64) << 10), "the users file, at the start", "a sentence, and no start";
    CommandLine Server "bytes of a command line" NONE, bytes(LINE_MAX), "the command: 500; the rest of the line is dropped", "nothing";
    CommandsAhead Server "commands read ahead in a session" NONE, count(now.settings.session.window_commands),
        "nobody; the connection is not read", "nothing";
    CommandBytesAhead Server "bytes of commands read ahead in a session" NONE, bytes(now.settings.session.window_bytes),
        "nobody; the connection is not read", "nothing";
    HeldLines Server "bytes of command lines queued beyond these, in braid" NONE, bytes(server::HELD_BYTES),
        "nobody; the stream is not read", "nothing";
    HeldLinesInAll Server "bytes of such command lines, over all sessions" NONE, bytes(server::HELD_ALL_BYTES),
        "nobody; only a small part of each stream is read", "nothing";
    Replies Server "bytes of replies that the transport has not accepted" NONE, bytes(server::OUT_BYTES),
        "nobody; no command is started", "nothing";
    Transfers Server "transfers at once in a session in braid; one in the other modes" NONE,
        count(usize::from(DATA_STREAMS_MAX).max(now.settings.session.concurrent_transfers)), "nobody; the next one waits", "nothing";
    Downloads Server "downloads among them" NONE,
        count(usize::from(DATA_STREAMS_MAX).max(now.settings.session.concurrent_downloads)), "nobody; the next one waits", "nothing";
    TransfersInAll Server "transfers at once over all sessions, in addition to two of each session" NONE, count(server::TRANSFERS_MAX),
        "nobody; the next one waits until one of its session ends", "nothing";
    TransferBytes Server "bytes of a file in memory, for each transfer" NONE, bytes(2 * BLOCK_BYTES),
        "nobody; the transfer waits for the disk or the network", "nothing";
    FileBytesInAll Server "bytes of files, and of listings in ms and ms-cp, in memory over all transfers, in addition to the guaranteed bytes of each session" NONE,
        bytes(POOL_BYTES), "nobody; blocks get smaller and are not read ahead; a listing in ms or ms-cp: 451", "nothing";
    FileBytesOfSession Server "guaranteed bytes of files in memory, for each session" NONE, bytes(SESSION_BYTES),
        "nobody; a transfer uses a block of 4 KiB", "nothing";
    BucketUploads Server "bytes of uploads to object stores in memory, over all sessions" NONE, bytes(bucket::UPLOADS_BYTES),
        "nobody; the upload waits for others to end", "nothing";
    BucketFile Server "bytes of a file in an object store" NONE, Amount::Bytes(bucket::OBJECT_BYTES_MAX),
        "the upload: 452", "debug: the store refused";
    DiskThreads Server "threads for disk operations and password checks" NONE, count(server::DISK_THREADS_MAX),
        "nobody; the operation waits", "nothing";
    Digests Server "files read at once for HASH, XCRC and similar commands" NONE, count(server::DIGESTS_MAX),
        "nobody; the next one waits", "nothing";
    DigestsOfSession Server "files read at once for these commands, for each session" NONE, count(server::DIGESTS_OF_SESSION),
        "nobody; the next one waits", "nothing";
    PassiveSockets Server "listening sockets of a session over TCP" NONE, Amount::Count(1),
        "nobody; the previous one is closed", "nothing";
    DataOpen Server "time until a data connection is open" NONE, Amount::Time(now.settings.data_open),
        "the transfer: 425", "nothing";
    Stall Server "time without progress of a transfer, or of replies that the client does not read" Some("stall-seconds"),
        Amount::Time(now.settings.stall), "the transfer: 426, or the session", "info: session lost";
    AwaitedUpload Server "time until the first frame of an upload in braid, if no other upload of the session receives any" NONE,
        Amount::Time(now.settings.awaited), "the upload: 426", "nothing";
    SilentTransfer Server "silence over SCTP during a transfer, with HEARTBEATs unanswered" NONE,
        Amount::Time(now.settings.silence), "the session: ABORT", "info: session lost";
    PathBytes Server "bytes of a path" NONE, bytes(PATH_MAX), "the command: 553", "nothing";
    NameBytes Server "bytes of a name" NONE, bytes(NAME_MAX), "the command: 553", "nothing";
    TreeDepth Server "depth of folders in a recursive listing" NONE, count(MAX_DEPTH),
        "the folder: listed as incomplete", "nothing";
    OpenFolders Server "open folders over all recursive listings, in addition to two of each" NONE, count(FOLDERS_MAX),
        "nobody; outer folders are closed and opened again later", "nothing";
    UploadSize Server "bytes of an upload of announced size" NONE, Amount::Machine("the free space of the disk, less the reserve"),
        "the upload, at its start: 452", "debug: the store refused";
    DiskReserve Server "bytes of the disk that uploads must leave free" Some("disk-reserve"), match now.settings.disk_reserve {
            Some(bytes) => Amount::Bytes(bytes),
            None => Amount::Machine("1 % of the disk, 1 GiB at most"),
        },
        "the upload: 452; its partial file is removed", "debug: the store refused";
    PartsBytes Server "bytes of partial files of a home directory, without those in progress" Some("parts-quota"),
        match now.settings.parts_quota {
            Some(bytes) => Amount::Bytes(bytes),
            None => Amount::Machine("a tenth of the disk; the newest is always kept"),
        },
        "nobody; the oldest are removed", "info: made room for a newer one";
    PartsCount Server "partial files of a home directory, without those in progress" NONE, count(server::PARTS_MAX),
        "nobody; the oldest are removed", "info: made room for a newer one";
    PartsAge Server "time that a partial file is kept, or the parts of an upload to S3, these at least a day" Some("parts-kept-days"), match now.settings.parts_kept {
            Some(time) => Amount::Time(time),
            None => Amount::Machine("no limit"),
        },
        "nobody; it is removed within an hour", "info: too old";
    Streams Server "data streams of an association, each way" NONE, Amount::Count(DATA_STREAMS_MAX as u64),
        "nobody; the INIT ACK offers no more", "nothing";
    PeerAddresses Server "addresses of a peer" NONE, count(MAX_ADDRESSES), "nobody; further addresses are ignored", "nothing";
    SctpAssociations Server "associations of an endpoint" NONE, count(now.limits.associations),
        "the next INIT: ABORT, out of resource", "warn, every 3 s: how many";
    SctpAssociationsPerAddress Server "associations from one address (IPv6: one /64), including those that shut down"
        Some("max-sessions-per-address"), count(now.limits.associations_per_address),
        "the longest silent one of that address without a login, else the next INIT: ABORT", "warn, every 3 s: how many";
    SctpHalfOpen Server "associations without a login" Some("max-sessions"), count(now.limits.half_open),
        "the one with the longest silence, times their number from its network: ABORT", "info: session lost";
    SctpMemory Server "memory of all associations of an endpoint" NONE,
        match now.machine {
            Shown::Number => bytes(now.limits.memory_bytes),
            Shown::Words => Amount::Machine("a sixteenth of the memory, 88 MiB at most"),
        },
        "the one above its share with the largest product of bytes and time without progress: ABORT", "info: session lost; warn, every 3 s: how many";
    SctpWindowBeforeLogin Server "receive window of an association before the login" NONE, bytes(server::BEFORE_LOGIN_BYTES),
        "nobody; the peer may not send", "nothing";
    SctpReceiveBuffer Server "receive buffer of an association" NONE,
        bytes(now.settings.sctp.memory.receive_buffer_max_bytes.unwrap_or(now.settings.sctp.memory.receive_buffer_bytes)),
        "nobody; data beyond the window is dropped", "nothing";
    SctpSendQueue Server "unsent bytes of an association, in addition to twice the bytes in flight" NONE,
        bytes(now.settings.sctp.memory.send_buffer_bytes.min(server::SEND_QUEUE_BYTES)), "nobody; the transfer waits", "nothing";
    SctpSendBuffer Server "send buffer of an association" NONE,
        bytes(now.settings.sctp.memory.send_buffer_max_bytes.unwrap_or(now.settings.sctp.memory.send_buffer_bytes)),
        "nobody; the transfer waits", "nothing";
    SctpShutdown Server "duration of a shutdown" NONE, Amount::Time(server::CLOSING), "the association: ABORT", "nothing";
    SctpInitAcks Server "INITs that are answered; at most half of them from one network" NONE,
        Amount::Rate(u64::from(now.limits.init_acks)), "the INIT is dropped", "warn, every 3 s: how many";
    SctpHandshakes Server "TLS handshakes that clients begin over SCTP" NONE,
        Amount::Rate(u64::from(now.limits.handshakes)), "nobody; further ones wait, and networks are served in turn", "nothing";
    SctpHandshakesWaiting Server "COOKIE ECHOs that wait for their handshake" NONE, count(now.limits.waiting_handshakes),
        "the newest one of the network with the most is dropped", "warn, every 3 s: how many";
    SctpHandshakeTime Server "duration of the TLS handshake of an association" NONE,
        Amount::Time(server::handshake_time(now.settings)), "the association: ABORT", "nothing";
    TcpConnections Server "new control connections over TCP" NONE,
        Amount::Rate(u64::from(now.settings.tcp_connections)), "nobody; further ones wait, and networks are served in turn",
        "info: it waits";
    TcpWaiting Server "control connections over TCP that wait for their turn" NONE, count(server::ADMISSIONS_WAITING_MAX),
        "the newest one of the network with the most: 421", "info: too many connections";
    TlsHandshakeTime Server "duration of the TLS handshake of a control connection over TCP, including the wait for its turn" NONE,
        Amount::Time(now.settings.session.idle_before_login.min(now.settings.session.idle)),
        "the session; 421 if the client did not begin TLS", "nothing";
    TlsMessage Server "bytes of a TLS handshake message" NONE, bytes(tls::MESSAGE_BYTES),
        "the connection: a TLS alert", "info: session lost, or data connection refused";
    TlsClientCertificates Server "bytes of the certificates of a client" NONE, bytes(CLIENT_CHAIN_BYTES_MAX),
        "the connection: a TLS alert", "info: session lost";
    TlsSessions Server "resumable TLS sessions of a control connection over TCP" NONE, count(tls_server::SESSIONS_MAX),
        "nobody; old ones are removed, except the first", "nothing";
    TlsSessionBytes Server "bytes of these sessions" NONE, bytes(tls_server::SESSIONS_BYTES),
        "nobody; old ones are removed, except the first", "nothing";
    TlsUnsent Server "unsent bytes in TLS, for each connection over TCP" NONE, bytes(tls::UNSENT_BYTES),
        "nobody; the transfer, or the reply, waits", "nothing";
    TlsEnding Server "data connections of a session over TCP that wait for the end of their TLS" NONE,
        count(server::ENDING_MAX), "nobody; the end of the next transfer waits", "nothing";
    SctpOutOfTheBlue Server "answers to packets of unknown associations (out of the blue)" NONE, Amount::Rate(u64::from(now.limits.out_of_the_blue)),
        "the packet is dropped", "warn, every 3 s: how many";
    SctpAnswers Server "queued answers to INITs and out-of-the-blue packets" NONE, count(now.limits.answers),
        "the answer is dropped", "warn, every 3 s: how many";
    LogLines Server "lines of one kind about one address (IPv6: one /64) in the log" NONE,
        Amount::Rate(u64::from(log::ADDRESS_LINES_A_SECOND)), "the line is left out", "warn: how many were left out, every 10 s";
    LogLinesInAll Server "lines in the log" NONE, Amount::Rate(u64::from(log::LINES_A_SECOND)),
        "the line is left out", "warn: how many were left out, every 10 s";
    LogAddresses Server "kinds and addresses of log lines that are counted separately" NONE, count(log::COUNTED_MAX),
        "nobody; they share one count", "nothing";
    HookEvents Server "queued events of hooks" NONE, count(hooks::QUEUE_MAX), "nobody; the event is dropped, and counted",
        "error: an event for a hook was dropped";
    Scrapers Server "connections of scrapers of metrics at once" NONE, count(metrics_http::SCRAPERS_MAX),
        "nobody; the next one waits", "nothing";
    ScraperTime Server "duration of a scraper's connection" NONE, Amount::Time(metrics_http::WITHIN),
        "the connection: closed", "info: a scraper of metrics took too long";
    PageReaders Server "connections of readers of the dashboard at once" NONE, count(dashboard::READERS_MAX),
        "nobody; the next one waits", "nothing";
    PageTime Server "duration of a connection of a reader of the dashboard" NONE, Amount::Time(dashboard::WITHIN),
        "the connection: closed; a browser opens another", "info: a reader of the dashboard took too long";
    PageSessions Server "sessions on the dashboard, each with up to 100 transfers and 64 paths" NONE, count(dashboard::SESSIONS_MAX),
        "nobody; further ones are only counted", "nothing";
    AnnouncedSize Client "bytes of a file of announced size" Some("--max-size"), match now.bounds.max_size {
            Some(max) => Amount::Bytes(max),
            None => Amount::Machine("that size, and the free space of the disk"),
        },
        "the file: failed, and its partial file is removed", "an error";
    UnknownSize Client "bytes of a file of unknown size" Some("--max-size"),
        Amount::Bytes(now.bounds.max_size.unwrap_or(UNKNOWN_SIZE_MAX)), "the file: failed, and its partial file is removed", "an error";
    Discarded Client "bytes discarded after the end of an oversized file, to find the next one" NONE,
        Amount::Bytes(DISCARDED_BYTES_MAX), "the session: exit code 14", "an error";
    ListingBytes Client "bytes of a listing, unpacked" Some("--max-entries"), Amount::Bytes(now.bounds.listing_bytes()), "the listing: failed", "an error";
    ListingMessage Client "bytes of a listing in ms and ms-cp" NONE, bytes(LISTING_MESSAGE_MAX), "the listing: failed", "an error";
    ListingQueue Client "bytes of a listing that are not processed yet; over TCP, of all listings requested ahead" NONE, bytes(LISTING_QUEUE_BYTES),
        "nobody; the data connection is not read", "nothing";
    Entries Client "entries of a tree, or of one listing" Some("--max-entries"), Amount::Count(now.bounds.max_entries),
        "the job: exit code 14", "an error";
    Depth Client "depth of folders" Some("--max-depth"), count(now.bounds.max_depth),
        "the folder: failed, as is a folder that contains itself", "an error";
    HeldPaths Client "memory of queued paths: folders to list, times to set, files to request" NONE,
        bytes(HELD_BYTES_MAX), "the job: exit code 14", "an error";
    ReplyLine Client "bytes of a line of a reply or of a listing" NONE, bytes(LINE_MAX), "the session, or the listing: exit code 14", "an error";
    Reply Client "bytes of a reply" NONE, bytes(REPLY_MAX), "the session: exit code 14", "an error";
    ErrorLines Client "lines of errors and warnings on standard error" NONE, Amount::Count(LINES_MAX),
        "the line is left out", "one line that reports it";
}

impl Side {
    const fn words(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Client => "client",
        }
    }
}

/// The table for a terminal.
pub fn text(effective: &Effective<'_>) -> String {
    let mut out = String::new();
    for side in [Side::Server, Side::Client] {
        let _ = writeln!(out, "limits of the {} on what its peers can make it hold or do:", side.words());
        for row in Row::ALL.iter().filter(|row| row.entry().side == side) {
            let Entry { what, setting, refused, logged, .. } = row.entry();
            let setting = setting.map(|setting| format!(" [{setting}]")).unwrap_or_default();
            let _ = writeln!(out, "  {what}: {}{setting}", row.limit(effective));
            let _ = writeln!(out, "      beyond: {refused}; logged: {logged}");
        }
    }
    out
}

/// The table for ARCHITECTURE.md, with the defaults.
pub fn markdown() -> String {
    let settings = Settings::default();
    let effective = Effective { machine: Shown::Words, ..Effective::of(&settings) };
    let mut out = String::from(
        "| side | what | limit | set by | who is refused | logged |\n|---|---|---|---|---|---|\n",
    );
    for row in Row::ALL {
        let Entry { side, what, setting, refused, logged } = row.entry();
        let setting = setting.map(|setting| format!("`{setting}`")).unwrap_or_default();
        let side = side.words();
        let _ = writeln!(
            out,
            "| {side} | {what} | {} | {setting} | {refused} | {logged} |",
            row.limit(&effective)
        );
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    const BEGIN: &str = "<!-- budget: made by `BRAIDFTP_BUDGET=write cargo test -p braidftp budget` -->\n";
    const END: &str = "<!-- end of the budget -->\n";

    #[test]
    fn architecture_md_contains_the_budget_of_the_program() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../ARCHITECTURE.md");
        let page = std::fs::read_to_string(path).unwrap();
        let (before, rest) = page.split_once(BEGIN).expect("a place for the budget");
        let (_, after) = rest.split_once(END).expect("an end of the budget");
        let fresh = format!("{before}{BEGIN}\n{}\n{END}{after}", markdown());
        if std::env::var_os("BRAIDFTP_BUDGET").is_some_and(|value| value == "write") {
            return std::fs::write(path, fresh).unwrap();
        }
        assert!(page == fresh, "BRAIDFTP_BUDGET=write cargo test -p braidftp budget writes it anew");
    }

    #[test]
    fn amounts_are_printed_with_units() {
        for (amount, text) in [
            (Amount::Count(65_536), "65,536"),
            (Amount::Bytes(1_500), "1,500 bytes"),
            (Amount::Bytes(32 << 10), "32 KiB"),
            (Amount::Bytes(64 << 30), "64 GiB"),
            (Amount::Bytes(5_120_000_000), "4.8 GiB"),
            (Amount::Bytes(123_456), "120.6 KiB"),
            (Amount::Time(Duration::from_secs(300)), "300 s"),
            (Amount::Time(Duration::from_millis(20)), "20 ms"),
            (Amount::Time(Duration::from_secs(7 * 86_400)), "7 days"),
            (Amount::Rate(10_000), "10,000 a second"),
        ] {
            assert_eq!(amount.to_string(), text);
        }
    }

    #[test]
    fn a_setting_changes_its_row() {
        let settings = Settings { max_sessions: 7, ..Settings::default() };
        let effective = Effective::of(&settings);
        assert_eq!(Row::Sessions.limit(&effective), Amount::Count(7));
        assert_eq!(Row::SctpHalfOpen.limit(&effective), Amount::Count(3));
        assert!(text(&effective).contains("sessions at once: 7 [max-sessions]"));
    }
}
