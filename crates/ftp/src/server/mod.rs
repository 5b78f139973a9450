//! The server side of one FTP session.
//!
//! Call [`Session::handle`] with bytes of the control connection and with results of jobs, then
//! [`Session::poll`] for bytes to send and for jobs ([`Do`]). The driver, over sockets and a disk or in a
//! simulation, executes each `Do` and answers with the [`Input`] named there. File bytes never pass through
//! the session.

mod answer;
mod begun;
mod execute;
mod first_files;
mod hosts;
mod paths;
mod session;
mod state;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_braid;
#[cfg(test)]
mod tests_tls;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;

use crate::command::{Secret, Type};
use crate::hash::HashName;
use crate::listing::FactSet;
use crate::mapping::DataPath;
use crate::path::SafePath;
use crate::reply::Code;
use crate::stamp::Timestamp;
use crate::store::{Metadata, StoreError};

pub use hosts::{HostId, VirtualHost, find as find_host, is_host_name};
pub use session::{NO_FURTHER_FILE, Session};

/// The transport of a session, which determines how transfers travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A TCP connection.
    Tcp {
        /// The local address of the control connection.
        local: SocketAddr,
        /// The remote address: active data connections only go to it.
        peer: SocketAddr,
    },
    /// naive: an SCTP association with one stream in each direction.
    Naive,
    /// ms and ms-cp: an SCTP association with two streams in each direction.
    Ms,
    /// braid: an SCTP association with 1 + `data_streams` streams in each direction.
    Braid {
        /// The number of data streams in each direction.
        data_streams: u16,
    },
}

/// Settings of an operator.
#[derive(Debug, Clone)]
pub struct Config {
    /// The text of the greeting. Default `braidftp ready`.
    pub greeting: String,
    /// The name of the default host (RFC 7151), which is not in `hosts`. `None`, the default: if `hosts` is
    /// empty, HOST may give any name.
    pub host: Option<String>,
    /// Virtual hosts (RFC 7151). Default: none.
    pub hosts: Vec<VirtualHost>,
    /// The maximum number of commands read ahead of the running one. Default 1024.
    pub window_commands: usize,
    /// The maximum number of bytes of commands read ahead. Default 128 KiB.
    pub window_bytes: usize,
    /// The memory of unsent replies in bytes above which no further command is begun. Default 64 KiB.
    pub replies_bytes: usize,
    /// The number of concurrent transfers in braid. Default 256; at least `concurrent_downloads` is used. An
    /// upload that waits for its frames holds little.
    pub concurrent_transfers: usize,
    /// The number of concurrent downloads in braid. Default 8; at least the number of data streams is used.
    pub concurrent_downloads: usize,
    /// The maximum silence of a session without running commands. Default 5 min (RFC 1123 §4.1.3.2).
    pub idle: Duration,
    /// The maximum silence before the login, if less than `idle`. Default 15 s: sessions without a login
    /// must not keep users out.
    pub idle_before_login: Duration,
    /// The maximum duration of a session without a login, whatever it sends. Default 60 s.
    pub login_within: Duration,
    /// The number of wrong passwords that ends the session with 421. Default 3.
    pub login_attempts: u32,
    /// Whether PORT and EPRT are served over TCP. Default: no.
    pub active: Active,
    /// Whether AUTH TLS is served over TCP. Default: no.
    pub tls: Tls,
    /// The users who are permitted to log in without protection. Default: everybody.
    pub unprotected: Unprotected,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            greeting: "braidftp ready".into(),
            host: None,
            hosts: Vec::new(),
            window_commands: 1024,
            window_bytes: 128 << 10,
            replies_bytes: 64 << 10,
            concurrent_transfers: 256,
            concurrent_downloads: 8,
            idle: Duration::from_secs(300),
            idle_before_login: Duration::from_secs(15),
            login_within: Duration::from_secs(60),
            login_attempts: 3,
            active: Active::Refused,
            tls: Tls::Refused,
            unprotected: Unprotected::Everybody,
        }
    }
}

/// Whether a TCP server opens data connections to its client.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Active {
    /// PORT and EPRT get 502.
    #[default]
    Refused,
    /// To the address of the control connection's peer, at ports from 1024 (RFC 2577 §3).
    ToPeer,
}

/// Whether a session over TCP may use TLS (RFC 4217).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tls {
    /// AUTH gets 502: the server has no key.
    #[default]
    Refused,
    /// AUTH TLS gets 234, and FEAT lists it.
    Offered,
}

/// The users who are permitted to log in without protection, although an observer can read everything.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unprotected {
    /// Every user.
    #[default]
    Everybody,
    /// `anonymous` and `ftp`, whose passwords are not secret. All others get 530 to USER.
    Anonymous,
    /// No user: USER gets 530.
    Nobody,
}

impl Unprotected {
    /// Whether this user may log in.
    pub(crate) fn allows(self, user: &[u8]) -> bool {
        let is_anonymous = || user.eq_ignore_ascii_case(b"anonymous") || user.eq_ignore_ascii_case(b"ftp");
        match self {
            Self::Everybody => true,
            Self::Anonymous => is_anonymous(),
            Self::Nobody => false,
        }
    }
}

/// A job of the session. Numbers are not reused within a session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// An action requested by the session. Each one with a `job` is answered by exactly one [`Input::Done`],
/// even when cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Do {
    /// Verify a login. Answer: [`Input::Authenticated`].
    Authenticate {
        /// The argument of USER.
        user: Bytes,
        /// The argument of PASS; empty if there was none.
        password: Secret,
    },
    /// The user was logged out (REIN).
    LogOut,
    /// TCP: open a listening socket for the next data connection, replacing the previous one. Answer:
    /// `Done` with [`Outcome::Listening`].
    Listen {
        /// The job.
        job: JobId,
    },
    /// Look something up, without data transfer. Answer: `Done` with the [`Outcome`] that the [`Query`]
    /// names.
    Query {
        /// The job.
        job: JobId,
        /// The path.
        path: SafePath,
        /// What to look up.
        query: Query,
    },
    /// Change something other than file contents. Answer: `Done` with [`Outcome::Changed`].
    Change {
        /// The job.
        job: JobId,
        /// The change.
        change: Change,
    },
    /// Send data to the client. First check that it is readable; on failure answer `Done` and send nothing.
    /// Then answer [`Input::Started`], open the data path if necessary, send, end the data path, and answer
    /// `Done` with [`Outcome::Sent`] when all bytes have been passed to the transport.
    Send {
        /// The job.
        job: JobId,
        /// The data path.
        data: DataPath,
        /// The data.
        source: Source,
    },
    /// Receive a file from the client. First check that it is writable. Then answer [`Input::Started`],
    /// open the data path if necessary, receive until its end, commit the file under its name, and answer
    /// `Done` with [`Outcome::Received`].
    Receive {
        /// The job.
        job: JobId,
        /// The data path.
        data: DataPath,
        /// The destination.
        sink: Sink,
    },
    /// Cancel a job: it answers `Done` with [`Failure::Cancelled`], or with its result if it ended first.
    Cancel {
        /// The job.
        job: JobId,
    },
    /// Log in this user, of whom the client has proved possession of a key ([`Session::vouch`]). Answer:
    /// [`Input::Authenticated`].
    Admit {
        /// The argument of USER.
        user: Bytes,
    },
    /// This user was refused because the session is not protected ([`Config::unprotected`]). For the log; no
    /// answer.
    NoteUnprotected {
        /// The argument of USER.
        user: Bytes,
    },
    /// TCP: once all replies polled so far are sent, start TLS on the control connection as its server.
    /// Discard bytes received before the first TLS record. Answer: [`Input::Secured`], or [`Input::Closed`]
    /// on failure, without a reply to the client. From then on each data connection begins with TLS as
    /// well.
    StartTls,
    /// The session is over. Once all replies polled so far are sent, close the control connection or shut
    /// the association down. Running jobs have been cancelled.
    Close,
}

/// A lookup of a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// Metadata without following links: [`Outcome::Facts`]. For MLST and RNFR.
    Facts,
    /// Metadata following links within the store: [`Outcome::Facts`]. For SIZE, MDTM, CWD.
    Followed,
    /// The length of the unfinished upload of this path, 0 if there is none: [`Outcome::Partial`].
    Partial,
    /// The unfinished uploads below this folder, or of this file: [`Outcome::Parts`].
    Parts,
    /// The digest of a file: [`Outcome::Digest`]. It reads the whole file, so that [`Do::Cancel`] has to stop it.
    Digest(HashName),
}

/// A change.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// Create a folder.
    MakeDirectory(SafePath),
    /// Remove an empty folder.
    RemoveDirectory(SafePath),
    /// Remove a file or link.
    Remove(SafePath),
    /// Rename, replacing the target.
    Rename {
        /// The old path.
        from: SafePath,
        /// The new path.
        to: SafePath,
    },
    /// Set the modification time.
    SetModified(SafePath, Timestamp),
    /// Set the permission bits.
    SetUnixMode(SafePath, u32),
    /// Create a symbolic link.
    Symlink {
        /// The link.
        path: SafePath,
        /// The target, unvalidated.
        target: Bytes,
    },
    /// Give a file another name; a file or link of this name is replaced.
    HardLink {
        /// The file.
        existing: SafePath,
        /// The other name.
        path: SafePath,
    },
    /// Remove the unfinished uploads below this folder, or of this file: [`Outcome::Parts`] lists them.
    RemoveParts(SafePath),
}

/// An unfinished upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The path of the file.
    pub path: SafePath,
    /// Its length in bytes.
    pub size: u64,
    /// When it was last changed.
    pub changed: Timestamp,
}

/// Data to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// The contents of a file.
    File {
        /// The file.
        path: SafePath,
        /// The number of bytes to skip. Beyond the end: [`StoreError::BadOffset`].
        offset: u64,
        /// Whether lines are sent with CRLF (never combined with an offset or an extent).
        representation: Type,
        /// How much of it.
        extent: Extent,
    },
    /// A listing.
    Listing {
        /// The folder or file.
        path: SafePath,
        /// The form.
        form: Form,
        /// A pattern for the names (LIST and NLST of `*.txt`): `*`, `?`, `[..]`.
        pattern: Option<Bytes>,
    },
}

/// How much of a file is sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// To the end of the file.
    ToEnd,
    /// Exactly this number of bytes, because the client counts them (ms, ms-cp). A longer file is
    /// truncated; a file that is shorter or unreadable is padded with zeros, and the job ends with
    /// [`Failure::Shrank`] (specs/ftp-over-sctp.md §5.2).
    Exactly(u64),
}

/// The form of a listing. `crate::listing` encodes the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As in `ls -l`.
    List,
    /// Names.
    Names,
    /// These facts (RFC 3659 §7). A path that is not a folder: [`StoreError::NotADirectory`], which gives
    /// 501.
    Facts(FactSet),
    /// A complete tree (specs/ftp-over-sctp.md §8).
    Tree,
}

/// The destination of an upload.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sink {
    /// The file; with [`Write::Unique`], its folder.
    pub path: SafePath,
    /// How it is written.
    pub write: Write,
    /// Whether CRLF is converted to LF.
    pub representation: Type,
    /// ms, ms-cp: exactly this number of bytes arrives; consume all of them even if the file fails. `None`:
    /// up to the end of the data path.
    pub length: Option<u64>,
    /// TCP: the size of the complete file, announced by ALLO (RFC 959 §4.1.3). A shorter file was
    /// interrupted; a longer one was announced incorrectly. `None`: not announced.
    pub announced_size: Option<u64>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// Replaces an existing file.
    Replace,
    /// Keeps this many bytes of the existing file, or of the unfinished upload, and appends. Fewer bytes:
    /// [`StoreError::BadOffset`].
    From(u64),
    /// Appends to the existing file.
    Append,
    /// A new name in the folder, reported by [`Input::Started`] and [`Outcome::Received`].
    Unique,
}

impl Write {
    /// The offset of the first byte of the upload, after REST; 0 otherwise, also if it has no meaning.
    pub fn offset(self) -> u64 {
        match self {
            Self::From(offset) => offset,
            Self::Replace | Self::Append | Self::Unique => 0,
        }
    }
}

/// Inputs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Bytes of the control connection, divided in any way; over SCTP the payload of a message on stream 0.
    Received(Bytes),
    /// The client closed the control connection, or it was lost. Running jobs are cancelled.
    Closed,
    /// The answer to [`Do::StartTls`]: further input is protected.
    Secured,
    /// The answer to [`Do::Authenticate`] and [`Do::Admit`]. The driver keeps the user's permissions.
    Authenticated(Result<(), LoginError>),
    /// The job's file is open and data transfer begins. Optional in braid; in other modes it produces the
    /// reply 150.
    Started {
        /// The job.
        job: JobId,
        /// The number of bytes that will be transferred, if known.
        size: Option<u64>,
        /// The name chosen for STOU.
        name: Option<SafePath>,
    },
    /// The job, a [`Form::Tree`], has listed these files next: regular files, by their paths in the tree. Further ones than
    /// the first [`FIRST_FILES`](crate::mapping::FIRST_FILES) are ignored.
    Listed {
        /// The job.
        job: JobId,
        /// The files.
        files: Vec<SafePath>,
    },
    /// The job ended.
    Done {
        /// The job.
        job: JobId,
        /// Its result.
        outcome: Result<Outcome, Failure>,
    },
    /// The server shuts down: the session ends with 421 once running jobs are done.
    Drain,
}

/// The result of a successful job.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The address of a listening socket, for the client.
    Listening(SocketAddr),
    /// Metadata.
    Facts(Metadata),
    /// The length of an unfinished upload.
    Partial(u64),
    /// The unfinished uploads that exist or were removed.
    Parts(Vec<Part>),
    /// The digest of a file.
    Digest {
        /// The digest.
        digest: Bytes,
        /// The number of bytes of the file.
        bytes: u64,
    },
    /// The change was made.
    Changed,
    /// Data was sent.
    Sent {
        /// Bytes on the data path.
        bytes: u64,
    },
    /// Data was received, and the file is complete.
    Received {
        /// Bytes on the data path.
        bytes: u64,
        /// The name chosen for STOU.
        name: Option<SafePath>,
    },
}

/// The result of a failed job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// An error of the store.
    Store(StoreError),
    /// The data path did not open: 425.
    CannotOpenData,
    /// TLS of the data connection failed, or the client did not resume the session of its control
    /// connection: 522.
    DataUnprotected,
    /// The data connection was lost, or stalled for too long: 426.
    DataLost,
    /// The client aborted the upload: 426.
    SenderGaveUp,
    /// The received bytes have another digest than those sent, or the header's offset from REST:
    /// 451.
    Damaged,
    /// The file was truncated, or became unreadable, while it was sent: 451.
    Shrank,
    /// ABOR: 426.
    Cancelled,
}

impl Failure {
    /// The reply code.
    pub const fn code(self) -> Code {
        match self {
            Self::Store(error) => error.code(),
            Self::CannotOpenData => Code::CANNOT_OPEN_DATA,
            Self::DataUnprotected => Code::DATA_TLS_FAILED,
            Self::DataLost | Self::SenderGaveUp | Self::Cancelled => Code::TRANSFER_ABORTED,
            Self::Damaged | Self::Shrank => Code::LOCAL_ERROR,
        }
    }
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::CannotOpenData => f.write_str("cannot open the data connection"),
            Self::DataUnprotected => {
                f.write_str("TLS of the data connection must resume the session of the control connection")
            }
            Self::DataLost => f.write_str("data connection lost"),
            Self::SenderGaveUp => f.write_str("the client gave the upload up"),
            Self::Damaged => f.write_str("length or digest does not match"),
            Self::Shrank => f.write_str("the file was cut while it was sent"),
            Self::Cancelled => f.write_str("transfer aborted"),
        }
    }
}

/// Why a login is refused. The reply does not reveal which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginError {
    /// The user has as many sessions as permitted: 530.
    Busy,
    /// Unknown user or wrong password: 530.
    Refused,
    /// Too many sessions, or too many wrong passwords from this address: 421, and the session ends.
    Unavailable,
}

/// The state of an upload of braid, for the reader of data streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upload {
    /// Its command has not arrived or not begun: leave its frames unread.
    Undecided,
    /// In progress: its frames belong to this job.
    Open(JobId),
    /// Refused, ended, or not an upload: discard its frames.
    Over,
}

/// The protocol number of an address in EPSV and EPRT (RFC 2428 §2).
pub(crate) const fn protocol(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 1,
        IpAddr::V6(_) => 2,
    }
}
