//! The client's side of one FTP session.
//!
//! [`Session`] is given commands and transfers, told what arrives ([`Session::handle`]) and drained ([`Session::poll`]): bytes
//! for the control connection, and [`Event`]s. Replies are matched strictly first in, first out against what each command
//! may be answered with, so a server that loses or swaps one is found out ([`Violation`]) before anything is misattributed.
//! What mode it speaks decides what a transfer is made of; the caller does as the events say.

mod expect;
mod features;
mod session;
#[cfg(test)]
mod tests;
#[cfg(test)]
mod tests_tls;

use std::fmt;
use std::net::SocketAddr;

use bytes::Bytes;

use crate::command::PathArg;
use crate::mapping::{Mode, TransferNumber};
use crate::reply::{Code, Reply, ReplyError};

pub use features::Features;
pub use session::Session;

/// How far commands may run ahead of replies over TCP. The SCTP modes have each their own fixed way.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipelining {
    /// One command, its final reply, the next.
    LockStep,
    /// Several at once as long as no transfer is among them. EPSV goes with them; the transfer itself goes alone.
    #[default]
    Metadata,
    /// Everything at once, up to the window. Only towards servers known to stand it.
    Deep,
    /// As the greeting says: [`Self::Deep`] towards braidftp, [`Self::LockStep`] towards servers known to lose commands that
    /// are sent ahead, [`Self::Metadata`] towards all others.
    Adaptive,
}

impl Pipelining {
    /// What a greeting's text begins with where [`Self::Deep`] works: our server's, unless its operator chose another text.
    const STANDS_ALL: &'static [u8] = b"braidftp";
    /// What the greetings of servers hold that lose commands (the list is lftp's `ftp:auto-sync-mode`).
    const LOSES_COMMANDS: [&'static str; 3] = ["Microsoft FTP Service", "MadGoat", "MikroTik"];

    /// The level towards the server that greets so.
    fn after(self, greeting: &Reply) -> Self {
        let text = String::from_utf8_lossy(greeting.text());
        let stands_all = greeting.text().starts_with(Self::STANDS_ALL);
        match self {
            Self::Adaptive if stands_all => Self::Deep,
            Self::Adaptive if Self::LOSES_COMMANDS.iter().any(|name| text.contains(name)) => Self::LockStep,
            Self::Adaptive => Self::Metadata,
            chosen => chosen,
        }
    }
}

/// How a session goes about it.
#[derive(Debug, Clone)]
pub struct Config {
    /// What it speaks.
    pub mode: Mode,
    /// TCP only.
    pub pipelining: Pipelining,
    /// Commands without a final reply at most. Default 256, the window of our server.
    pub window: usize,
    /// TCP: how data connections are opened. Default EPSV, then PASV if that is refused.
    pub passive: Passive,
    /// TCP: whether the session is protected by TLS. Default: no.
    pub protection: Protection,
}

impl Config {
    /// The usual for a mode.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            pipelining: Pipelining::default(),
            window: 256,
            passive: Passive::Extended,
            protection: Protection::None,
        }
    }
}

/// TCP: whether a session is protected by TLS (RFC 4217). Where it is, its data connections are too.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protection {
    /// No: AUTH is not said.
    #[default]
    None,
    /// If the server accepts AUTH TLS; else the session goes on without, and [`Event::Unprotected`] says so.
    IfOffered,
    /// Yes, or there is no session: a user's name and password are not sent without it.
    Required,
    /// The control connection began with TLS: AUTH is not said.
    Implicit,
}

/// TCP: which command asks for a data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passive {
    /// EPSV; falls to PASV for good when it is refused.
    Extended,
    /// PASV. The address in its reply is ignored: data connections go to the control peer.
    Classic,
    /// EPRT: the server connects to us.
    Active,
}

/// Names a command or a transfer of one session; ascending in the order they were asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// A transfer to be done.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transfer {
    /// RETR from an offset (REST if it is not 0).
    Retrieve {
        /// What.
        path: PathArg,
        /// Bytes to skip.
        offset: u64,
    },
    /// STOR from an offset (REST if it is not 0).
    Store {
        /// Where to.
        path: PathArg,
        /// Bytes that the server keeps of what it has.
        offset: u64,
        /// Bytes that will be sent. ms and ms-cp announce it by ALLO and it binds.
        length: u64,
    },
    /// APPE.
    Append {
        /// Where to.
        path: PathArg,
        /// Bytes that will be sent.
        length: u64,
    },
    /// A listing.
    List {
        /// In which form.
        form: ListForm,
        /// Of what; `None` is the current folder.
        path: Option<PathArg>,
    },
}

/// The command of a listing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListForm {
    /// MLSD.
    Facts,
    /// LIST.
    List,
    /// NLST.
    Names,
    /// XTREE.
    Tree,
}

/// Where the bytes of a transfer come from or go to, as a client sees it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// The data connection that [`Event::Connect`] or [`Event::Listen`] opened, to its end.
    Connection,
    /// naive: the association that the server opens to the SCTP port that [`Event::Listen`] asked for; stream 0, to its shutdown.
    Association,
    /// ms, ms-cp: stream 1, exactly so many bytes. Such events come in the order in which the transfers lie on the stream.
    Counted(u64),
    /// ms, ms-cp: stream 1, one message (a listing).
    Message,
    /// braid: the frames of this number on whatever data stream.
    Framed(TransferNumber),
}

/// What the session is told.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Bytes of the control connection, in any cut.
    Received(Bytes),
    /// The server sends no more on the control connection, or it is gone.
    Closed,
    /// The answer to [`Event::StartTls`]: what comes now was protected.
    Secured,
    /// The answer to [`Event::Connect`]: it is open.
    Connected(Tag),
    /// The answer to [`Event::Listen`]: listening here. naive sends only the port.
    Listening(Tag, SocketAddr),
    /// The answer to [`Event::Connect`] or [`Event::Listen`] if it failed. The transfer ends with [`TransferError::Data`].
    DataFailed(Tag),
    /// The bytes that [`Event::Receive`] or [`Event::Send`] spoke of are done, well or not.
    DataDone(Tag, DataResult),
}

/// How the data of a transfer ended for us.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataResult {
    /// All came, or all is handed over: so many bytes.
    Complete(u64),
    /// It broke off, was damaged, or the file on this side failed.
    Failed,
}

/// What the session says.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The server's first word, 220; nothing is sent before it over TCP, naive, ms and ms-cp.
    Greeting(Reply),
    /// TCP: begin TLS on the control connection, as its client; each data connection begins with TLS from now on. Answer:
    /// [`Input::Secured`], or [`Input::Closed`] if it fails.
    StartTls,
    /// TCP: the server refused AUTH TLS with this, and the session goes on without protection ([`Protection::IfOffered`]).
    Unprotected(Reply),
    /// A command's final reply (2yz, 3yz, 4yz, 5yz).
    Reply(Tag, Reply),
    /// TCP: connect to this port of the control peer's address, whatever address the server told. Answer:
    /// [`Input::Connected`] or [`Input::DataFailed`].
    Connect(Tag, u16),
    /// TCP active: open a listening socket. naive: listen on an SCTP port. Answer: [`Input::Listening`] or
    /// [`Input::DataFailed`].
    Listen(Tag),
    /// Take the bytes of this transfer from there. Answer: [`Input::DataDone`].
    Receive(Tag, Data),
    /// Send the bytes of this transfer there. Answer: [`Input::DataDone`].
    Send(Tag, Data),
    /// A transfer is over: its final reply is here and its data done, or it failed. If [`Event::Receive`] or [`Event::Send`] was
    /// under way, stop that; no `DataDone` is needed then. In braid an upload that was begun is broken off with a TRAILER of
    /// status 426, and frames that still come for a download are thrown away.
    Finished(Tag, Result<Finished, TransferError>),
    /// The session is over; commands and transfers that had no answer get none.
    Ended(Ended),
}

/// A transfer that went well.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// Its final reply.
    pub reply: Reply,
    /// Bytes moved.
    pub bytes: u64,
    /// The size that SIZE told before it (ms, ms-cp).
    pub size: Option<u64>,
}

/// A transfer that did not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferError {
    /// The server says so: of this command, before or after bytes flowed.
    Refused(Reply),
    /// The data path could not be opened on this side, broke, or was damaged; the server's final reply if it came.
    Data(Option<Reply>),
}

/// Why a session is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// After QUIT, as wanted.
    Quit,
    /// The server said 421.
    ByServer(Reply),
    /// The server refused AUTH TLS, or data connections with TLS, and [`Config::protection`] asks for them. Nobody has logged
    /// in.
    Unprotected {
        /// Which command it refused.
        verb: &'static str,
        /// With this.
        reply: Reply,
    },
    /// The control connection ended without a word.
    Lost,
    /// The server broke the protocol.
    Violation(Violation),
}

/// How a server broke the protocol.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// No reply at all.
    Reply(ReplyError),
    /// A reply that the command it would belong to cannot have.
    Mismatch {
        /// The command's verb.
        verb: &'static str,
        /// What came.
        reply: Reply,
    },
    /// A reply when nothing was asked.
    Unasked(Reply),
    /// Something behind the 234 to AUTH and before TLS: it was not protected, and may be somebody else's.
    BeforeTls,
    /// A reply whose text does not say what it must, as a 229 without port.
    Text {
        /// The command's verb.
        verb: &'static str,
        /// What came.
        reply: Reply,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(error) => error.fmt(f),
            Self::Mismatch { verb, reply } => write!(f, "{verb} cannot be answered by \"{reply}\""),
            Self::BeforeTls => f.write_str("words behind the answer to AUTH that were not protected"),
            Self::Unasked(reply) => write!(f, "a reply to nothing: \"{reply}\""),
            Self::Text { verb, reply } => {
                write!(f, "the answer to {verb} lacks what it must say: \"{reply}\"")
            }
        }
    }
}

impl std::error::Error for Violation {}

impl fmt::Display for TransferError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Refused(reply) => write!(f, "refused: {reply}"),
            Self::Data(Some(reply)) => write!(f, "data connection failed: {reply}"),
            Self::Data(None) => f.write_str("data connection failed"),
        }
    }
}

impl std::error::Error for TransferError {}

impl TransferError {
    /// The server's code, if it said one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(reply) | Self::Data(Some(reply)) => Some(reply.code),
            Self::Data(None) => None,
        }
    }
}
