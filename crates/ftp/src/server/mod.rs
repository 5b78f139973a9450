//! The server's side of one FTP session.
//!
//! [`Session`] is told what arrives on the control connection and what became of the jobs it gave out
//! ([`Session::handle`]); drained, it gives bytes for the control connection and [`Do`]s ([`Session::poll`]). Whoever drives
//! it, with sockets and a disk or in a simulation, does each `Do` by itself and answers with the [`Input`] named there.
//! File bytes never come here.

mod answer;
mod execute;
mod session;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_tls;

use std::fmt;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use bytes::Bytes;

use crate::command::{Secret, Type};
use crate::listing::FactSet;
use crate::mapping::DataPath;
use crate::path::SafePath;
use crate::reply::Code;
use crate::stamp::Timestamp;
use crate::store::{Metadata, StoreError};

pub use session::Session;

/// What carries a session: how its transfers travel.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Carrier {
    /// A TCP connection.
    Tcp {
        /// This end of the control connection.
        local: SocketAddr,
        /// The other end: active data connections go to its address or nowhere.
        peer: SocketAddr,
    },
    /// naive: an SCTP association with one stream each way.
    Naive,
    /// ms and ms-cp: an SCTP association with two streams each way.
    Ms,
    /// braid: an SCTP association with 1 + `data_streams` streams each way.
    Braid {
        /// Streams for data, each way.
        data_streams: u16,
    },
}

/// What an operator may choose.
#[derive(Debug, Clone)]
pub struct Config {
    /// The text of the greeting. Default `braidftp ready`.
    pub greeting: String,
    /// The HOST that is served (RFC 7151); `None`, the default, takes any.
    pub host: Option<String>,
    /// Commands read ahead of the one that runs. Default 256.
    pub window_commands: usize,
    /// Bytes of the commands read ahead. Default 64 KiB.
    pub window_bytes: usize,
    /// Bytes of memory that replies not yet polled may take before no further command is begun. Default 64 KiB.
    pub replies_bytes: usize,
    /// Transfers that run at once in braid. Default 8; at least the number of data streams is used.
    pub concurrent_transfers: usize,
    /// How long a session may be silent while nothing runs. Default 5 min (RFC 1123 §4.1.3.2).
    pub idle: Duration,
    /// How long a session may be silent before its login, if that is less than `idle`. Default 15 s: sessions of nobody
    /// must not keep users out.
    pub idle_before_login: Duration,
    /// How long a session may last without a login, whatever it says meanwhile. Default 60 s.
    pub login_within: Duration,
    /// Wrong passwords until 421. Default 3.
    pub login_attempts: u32,
    /// Whether PORT and EPRT are served over TCP. Default: no.
    pub active: Active,
    /// Whether AUTH TLS is served over TCP. Default: no.
    pub tls: Tls,
    /// Who may log in over TCP without TLS. Default: everybody.
    pub unprotected: Unprotected,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            greeting: "braidftp ready".into(),
            host: None,
            window_commands: 256,
            window_bytes: 64 << 10,
            replies_bytes: 64 << 10,
            concurrent_transfers: 8,
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

/// Whether a TCP server connects to its client for data.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Active {
    /// PORT and EPRT get 502.
    #[default]
    Refused,
    /// To the address of the control connection's peer, at ports from 1024 (RFC 2577 §3).
    ToPeer,
}

/// Whether a session over TCP may be protected by TLS (RFC 4217).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Tls {
    /// AUTH gets 502: there is no key.
    #[default]
    Refused,
    /// AUTH TLS gets 234, and FEAT says so.
    Offered,
}

/// Who may log in over TCP without TLS, where everything can be read on the way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Unprotected {
    /// Everybody who may log in at all.
    #[default]
    Everybody,
    /// `anonymous` and `ftp`, whose passwords are no secrets. All others get 530 to USER.
    Anonymous,
    /// Nobody: USER gets 530.
    Nobody,
}

impl Unprotected {
    /// Whether a user of that name may log in.
    pub(crate) fn allows(self, user: &[u8]) -> bool {
        let is_anonymous = || user.eq_ignore_ascii_case(b"anonymous") || user.eq_ignore_ascii_case(b"ftp");
        match self {
            Self::Everybody => true,
            Self::Anonymous => is_anonymous(),
            Self::Nobody => false,
        }
    }
}

/// A job that the session gave out. Its number is never used again in the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct JobId(pub u64);

/// What the session wants done. Each with a `job` is answered by exactly one [`Input::Done`], even when cancelled.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Do {
    /// Check who this is. Answer: [`Input::Authenticated`].
    Authenticate {
        /// The argument of USER.
        user: Bytes,
        /// The argument of PASS; empty if there was none.
        password: Secret,
    },
    /// Nobody is logged in any more (REIN).
    LogOut,
    /// TCP: open a listening socket for the next data connection, in place of the one before. Answer: `Done` with
    /// [`Outcome::Listening`].
    Listen {
        /// The job.
        job: JobId,
    },
    /// Look something up; no bytes move. Answer: `Done` with the [`Outcome`] that the [`Query`] names.
    Query {
        /// The job.
        job: JobId,
        /// Of this.
        path: SafePath,
        /// What about it.
        query: Query,
    },
    /// Change something other than a file's content. Answer: `Done` with [`Outcome::Changed`].
    Change {
        /// The job.
        job: JobId,
        /// What.
        change: Change,
    },
    /// Send something to the client. First see that it can be read (else `Done` with the failure, and nothing is sent), then
    /// [`Input::Started`], then open the data path if need be, send, end it, and `Done` with [`Outcome::Sent`] when all bytes
    /// are handed to the transport.
    Send {
        /// The job.
        job: JobId,
        /// Where to.
        data: DataPath,
        /// What.
        source: Source,
    },
    /// Take a file from the client. First see that it can be written, then [`Input::Started`], then open the data path if
    /// need be, take bytes to its end, finish the file under its name, and `Done` with [`Outcome::Received`].
    Receive {
        /// The job.
        job: JobId,
        /// Where from.
        data: DataPath,
        /// What to do with it.
        sink: Sink,
    },
    /// Give up a job: `Done` with [`Failure::Cancelled`], or with what it came to if it was faster.
    Cancel {
        /// The job.
        job: JobId,
    },
    /// TCP: when the replies polled before this are sent, begin TLS on the control connection, as its server. Bytes that came
    /// before the first of TLS are thrown away. Answer: [`Input::Secured`], or [`Input::Closed`] if it fails, without a word
    /// to the client. From then on each data connection begins with TLS as well.
    StartTls,
    /// The session is over. When the replies polled before this are sent, close the control connection or shut the
    /// association down; jobs still running have been cancelled.
    Close,
}

/// What may be asked about a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Query {
    /// What it is, links not followed: [`Outcome::Facts`]. For MLST and RNFR.
    Facts,
    /// What it is, links followed (to somewhere in the store or not at all): [`Outcome::Facts`]. For SIZE, MDTM, CWD.
    Followed,
    /// Bytes of a partial upload that is kept for this path, 0 if there is none: [`Outcome::Partial`].
    Partial,
    /// The partial uploads that are kept of everything beneath this folder, or of this file: [`Outcome::Parts`].
    Parts,
}

/// What may be changed.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Change {
    /// A new folder.
    MakeDirectory(SafePath),
    /// An empty folder goes.
    RemoveDirectory(SafePath),
    /// A file or link goes.
    Remove(SafePath),
    /// A new name, in place of what has it.
    Rename {
        /// The old one.
        from: SafePath,
        /// The new one.
        to: SafePath,
    },
    /// When it changed last.
    SetModified(SafePath, Timestamp),
    /// Its permission bits.
    SetUnixMode(SafePath, u32),
    /// A symbolic link.
    Symlink {
        /// The link.
        path: SafePath,
        /// Where it points, raw.
        target: Bytes,
    },
    /// The partial uploads that are kept of everything beneath this folder, or of this file, go: [`Outcome::Parts`] says
    /// which.
    RemoveParts(SafePath),
}

/// A partial upload that is kept.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The file that it was to become.
    pub path: SafePath,
    /// Bytes of it.
    pub size: u64,
    /// When it was changed last.
    pub changed: Timestamp,
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// A file's content.
    File {
        /// The file.
        path: SafePath,
        /// Bytes to skip. Beyond the end: [`StoreError::BadOffset`].
        offset: u64,
        /// Whether its lines are to end with CRLF (never together with an offset or an extent).
        representation: Type,
        /// How much of it.
        extent: Extent,
    },
    /// A listing.
    Listing {
        /// Of this.
        path: SafePath,
        /// In this form.
        form: Form,
        /// A pattern that the names must match (LIST and NLST of `*.txt`): `*`, `?`, `[..]`.
        pattern: Option<Bytes>,
    },
}

/// How many bytes of a file are sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Extent {
    /// What is there, to its end.
    ToEnd,
    /// Exactly so many, because the other side counts (ms, ms-cp): of a longer file no more; if the file turns out shorter or
    /// cannot be read on, zero bytes in its place, and [`Failure::Shrank`] at the end (specs/ftp-over-sctp.md §5.2).
    Exactly(u64),
}

/// The form of a listing. `crate::listing` writes the lines.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Form {
    /// As `ls -l` has it.
    List,
    /// Names.
    Names,
    /// Facts, these (RFC 3659 §7). A path that is no folder: [`StoreError::NotADirectory`], which gives 501.
    Facts(FactSet),
    /// A whole tree (specs/ftp-over-sctp.md §8).
    Tree,
}

/// What is done with the bytes that come.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Sink {
    /// The file. With [`Write::Unique`] the folder it goes to.
    pub path: SafePath,
    /// How.
    pub write: Write,
    /// Whether CRLF is to become LF.
    pub representation: Type,
    /// ms, ms-cp: exactly so many bytes come; take them all from the stream whatever happens to the file. `None`: to the end
    /// of the data path.
    pub length: Option<u64>,
    /// TCP: the size of the whole file, as ALLO told it (RFC 959 §4.1.3). A file that ends before it broke off; one that
    /// ends elsewhere was told wrongly. `None`: not told.
    pub told_size: Option<u64>,
}

/// How a file is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Write {
    /// From nothing, in place of what has the name.
    Replace,
    /// What is there (or the partial upload kept for the name) stays up to this many bytes, the new ones follow. Fewer
    /// there: [`StoreError::BadOffset`].
    From(u64),
    /// After what is there.
    Append,
    /// Under a new name in the folder, told by [`Input::Started`] and [`Outcome::Received`].
    Unique,
}

/// What the session is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Bytes of the control connection. In any cut; over SCTP the payload of a message of stream 0.
    Received(Bytes),
    /// The client sends no more on the control connection, or it is gone. What runs is cancelled.
    Closed,
    /// The answer to [`Do::StartTls`]: what comes now was protected.
    Secured,
    /// The answer to [`Do::Authenticate`]: whether to let them in. The driver keeps what they may.
    Authenticated(Result<(), LoginError>),
    /// The job's file is open and bytes are about to flow. Optional in braid; elsewhere it makes the 150.
    Started {
        /// The job.
        job: JobId,
        /// Bytes that will flow, if known.
        size: Option<u64>,
        /// The name made up for STOU.
        name: Option<SafePath>,
    },
    /// The job is over.
    Done {
        /// The job.
        job: JobId,
        /// What came of it.
        outcome: Result<Outcome, Failure>,
    },
    /// The server shuts down: 421 and the end, when what runs is done.
    Drain,
}

/// What came of a job that went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// A listening socket: the address to tell the client.
    Listening(SocketAddr),
    /// Facts.
    Facts(Metadata),
    /// Bytes of a partial upload.
    Partial(u64),
    /// Partial uploads: those there are, or those that were removed.
    Parts(Vec<Part>),
    /// Changed.
    Changed,
    /// So many bytes sent.
    Sent {
        /// Bytes on the data path.
        bytes: u64,
    },
    /// So many bytes received, the file complete under its name.
    Received {
        /// Bytes on the data path.
        bytes: u64,
        /// The name made up for STOU.
        name: Option<SafePath>,
    },
}

/// What came of a job that did not.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// The store could not.
    Store(StoreError),
    /// The data path did not open: 425.
    CannotOpenData,
    /// TLS of the data connection failed, or the client did not resume the session of its control connection: 522.
    DataUnprotected,
    /// The data path broke, or was silent for too long: 426.
    DataLost,
    /// The client gave the upload up: its trailer has an error status. 426.
    SenderGaveUp,
    /// The bytes that came are not those that the trailer tells, in number or digest, or the header's offset is not REST's: 451.
    Damaged,
    /// The file was cut, or became unreadable, while it was sent: 451.
    Shrank,
    /// ABOR: 426.
    Cancelled,
}

impl Failure {
    /// The reply for it.
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

/// Why somebody is not let in. The reply never tells which.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum LoginError {
    /// User or password is wrong: 530.
    Refused,
    /// Not now: too many sessions, or too many wrong passwords from there: 421 and the end.
    Unavailable,
}

/// Where an upload of braid stands, for whoever reads the data streams.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Upload {
    /// Its command has not come yet or has not been begun: leave its frames unread.
    Undecided,
    /// It runs: its frames go to this job.
    Open(JobId),
    /// It was refused or is over, or is no upload: throw its frames away.
    Over,
}

/// The protocol number of an address in EPSV and EPRT (RFC 2428 §2).
pub(crate) const fn protocol(address: IpAddr) -> u8 {
    match address {
        IpAddr::V4(_) => 1,
        IpAddr::V6(_) => 2,
    }
}
