//! The client side of one FTP session.
//!
//! Give [`Session`] commands and transfers, call [`Session::handle`] with received bytes, and
//! [`Session::poll`] for bytes to send and [`Event`]s. Replies are matched with commands first in, first
//! out, and checked against the replies that a command may have. So a server that loses or swaps replies is
//! detected ([`Violation`]) before a reply is attributed to the wrong command. The mode determines the
//! parts of a transfer; the caller acts on the events.

mod expect;
mod features;
mod session;
mod steps;
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

/// How far commands may run ahead of replies over TCP. SCTP modes have fixed rules.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Pipelining {
    /// One command at a time.
    LockStep,
    /// Several at once, unless one is a transfer. EPSV is included; the transfer command is sent alone.
    #[default]
    Metadata,
    /// All commands, up to the window. Only for servers known to support it.
    Deep,
    /// By the greeting: [`Self::Deep`] for braidftp, [`Self::LockStep`] for servers known to lose commands
    /// that are sent ahead, [`Self::Metadata`] for all others.
    Adaptive,
}

impl Pipelining {
    /// The beginning of the default greeting of braidftp, which supports [`Self::Deep`].
    const SUPPORTS_DEEP: &'static [u8] = b"braidftp";
    /// Parts of greetings of servers that lose commands (the list is lftp's `ftp:auto-sync-mode`).
    const LOSES_COMMANDS: [&'static str; 3] = ["Microsoft FTP Service", "MadGoat", "MikroTik"];

    /// The level for a server with this greeting.
    fn after(self, greeting: &Reply) -> Self {
        let text = String::from_utf8_lossy(greeting.text());
        let stands_all = greeting.text().starts_with(Self::SUPPORTS_DEEP);
        match self {
            Self::Adaptive if stands_all => Self::Deep,
            Self::Adaptive if Self::LOSES_COMMANDS.iter().any(|name| text.contains(name)) => Self::LockStep,
            Self::Adaptive => Self::Metadata,
            chosen => chosen,
        }
    }
}

/// Settings of a session.
#[derive(Debug, Clone)]
pub struct Config {
    /// The mode.
    pub mode: Mode,
    /// TCP only.
    pub pipelining: Pipelining,
    /// The maximum number of commands without a final reply. Default 1024, the window of our server.
    pub window: usize,
    /// TCP: how data connections are opened. Default EPSV, with fallback to PASV.
    pub passive: Passive,
    /// TCP: whether the session uses TLS. Default: no.
    pub protection: Protection,
    /// The host to request with HOST (RFC 7151): a name, in A-labels, without a port. USER follows HOST in
    /// the same flight, except in naive and ms, and towards servers that lose pipelined commands. `None`, the
    /// default: HOST is not sent.
    pub host: Option<String>,
}

impl Config {
    /// The default settings of a mode.
    pub fn new(mode: Mode) -> Self {
        Self {
            mode,
            pipelining: Pipelining::default(),
            window: 1024,
            passive: Passive::Extended,
            protection: Protection::None,
            host: None,
        }
    }
}

/// TCP: whether a session uses TLS (RFC 4217). Data connections are then protected as well.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Protection {
    /// No: AUTH is not sent.
    #[default]
    None,
    /// If the server accepts AUTH TLS; otherwise the session continues unprotected after
    /// [`Event::Unprotected`].
    IfOffered,
    /// Required: user name and password are never sent without TLS.
    Required,
    /// Implicit: the control connection begins with TLS, and AUTH is not sent.
    Implicit,
}

/// TCP: the command that prepares a data connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Passive {
    /// EPSV; falls back to PASV for the rest of the session when refused.
    Extended,
    /// PASV. The address in its reply is ignored: data connections go to the peer of the control
    /// connection.
    Classic,
    /// EPRT: the server opens the data connection to the client.
    Active,
}

/// Identifies a command or transfer of a session, in ascending order.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Tag(pub u64);

/// A transfer to request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Transfer {
    /// RETR from an offset (with REST if it is not 0).
    Retrieve {
        /// The path.
        path: PathArg,
        /// The number of bytes to skip.
        offset: u64,
    },
    /// braid: RETR of the next of the first files of the tree that the last [`ListForm::Tree`] lists, without its path
    /// (specs/ftp-over-sctp.md §8.6).
    RetrieveNext,
    /// STOR from an offset (with REST if it is not 0).
    Store {
        /// The path.
        path: PathArg,
        /// The number of existing bytes that the server keeps.
        offset: u64,
        /// The number of bytes to send. ms and ms-cp announce it by ALLO, and it is binding.
        length: u64,
    },
    /// APPE.
    Append {
        /// The path.
        path: PathArg,
        /// The number of bytes to send.
        length: u64,
    },
    /// A listing.
    List {
        /// The form.
        form: ListForm,
        /// The path; `None` is the current folder.
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

/// The data path of a transfer, from the client's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Data {
    /// The data connection opened for [`Event::Connect`] or [`Event::Listen`], until its end.
    Connection,
    /// naive: the association that the server opens to the port of [`Event::Listen`]; stream 0, until its
    /// shutdown.
    Association,
    /// ms, ms-cp: exactly this number of bytes on stream 1. Such events are in the order of the transfers
    /// on the stream.
    Counted(u64),
    /// ms, ms-cp: one message on stream 1 (a listing).
    Message,
    /// braid: the frames of this number on any data stream.
    Framed(TransferNumber),
}

/// Inputs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Input {
    /// Bytes of the control connection, divided in any way.
    Received(Bytes),
    /// The server closed the control connection, or it was lost.
    Closed,
    /// The answer to [`Event::StartTls`]: further input is protected.
    Secured,
    /// The answer to [`Event::Connect`]: the connection is open.
    Connected(Tag),
    /// The answer to [`Event::Listen`]: the local address. naive only sends the port.
    Listening(Tag, SocketAddr),
    /// The answer to [`Event::Connect`] or [`Event::Listen`] on failure. The transfer ends with
    /// [`TransferError::Data`].
    DataFailed(Tag),
    /// The data transfer of [`Event::Receive`] or [`Event::Send`] ended.
    DataDone(Tag, DataResult),
}

/// How a data transfer ended on this side.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum DataResult {
    /// Complete: all bytes were received or handed to the transport.
    Complete(u64),
    /// Incomplete or damaged, or an error with the local file.
    Failed,
}

/// Outputs of a session.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The server replied 504 to HOST: it has no such virtual host. The session continues at the server's
    /// default host.
    UnknownHost(Reply),
    /// The greeting, 220. Over TCP, naive, ms and ms-cp nothing is sent before it.
    Greeting(Reply),
    /// TCP: start TLS on the control connection as its client. From now on each data connection begins with
    /// TLS. Answer: [`Input::Secured`], or [`Input::Closed`] on failure.
    StartTls,
    /// TCP: the server refused AUTH TLS with this reply, and the session continues unprotected
    /// ([`Protection::IfOffered`]).
    Unprotected(Reply),
    /// A command's final reply (2yz, 3yz, 4yz, 5yz).
    Reply(Tag, Reply),
    /// TCP: connect to this port of the control peer's address, whatever address the server named. Answer:
    /// [`Input::Connected`] or [`Input::DataFailed`].
    Connect(Tag, u16),
    /// TCP active: open a listening socket. naive: listen on an SCTP port. Answer: [`Input::Listening`] or
    /// [`Input::DataFailed`].
    Listen(Tag),
    /// Receive the bytes of this transfer on this data path. Answer: [`Input::DataDone`].
    Receive(Tag, Data),
    /// Send the bytes of this transfer on this data path. Answer: [`Input::DataDone`].
    Send(Tag, Data),
    /// A transfer ended: its final reply arrived and its data is complete, or it failed. If
    /// [`Event::Receive`] or [`Event::Send`] is in progress, stop it; no `DataDone` is needed. In braid an
    /// upload in progress is aborted by a BREAK with status 426, and further frames of a download are
    /// discarded.
    Finished(Tag, Result<Finished, TransferError>),
    /// The session ended. Pending commands and transfers get no result.
    Ended(Ended),
}

/// A successful transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Finished {
    /// The final reply.
    pub reply: Reply,
    /// The number of bytes transferred.
    pub bytes: u64,
    /// The size from the preceding SIZE (ms, ms-cp).
    pub size: Option<u64>,
}

/// A failed transfer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TransferError {
    /// The server refused it, before or after bytes were transferred.
    Refused(Reply),
    /// The data path could not be opened on this side, was lost or damaged; with the server's final reply,
    /// if there was one.
    Data(Option<Reply>),
}

/// Why a session ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ended {
    /// After QUIT.
    Quit,
    /// The server sent 421.
    ByServer(Reply),
    /// The server refused AUTH TLS, or protected data connections, which [`Config::protection`] requires.
    /// No login was sent.
    Unprotected {
        /// The refused command.
        verb: &'static str,
        /// The reply.
        reply: Reply,
    },
    /// The control connection ended unexpectedly.
    Lost,
    /// The server violated the protocol.
    Violation(Violation),
}

/// A protocol violation of a server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Violation {
    /// Not a reply.
    Reply(ReplyError),
    /// A reply that its command cannot have.
    Mismatch {
        /// The command's verb.
        verb: &'static str,
        /// The reply.
        reply: Reply,
    },
    /// A reply without a command.
    Unasked(Reply),
    /// Unprotected data after the reply 234 to AUTH, which may come from an attacker.
    BeforeTls,
    /// A reply whose text lacks required information, such as a 229 without port.
    Text {
        /// The command's verb.
        verb: &'static str,
        /// The reply.
        reply: Reply,
    },
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Reply(error) => error.fmt(f),
            Self::Mismatch { verb, reply } => write!(f, "unexpected reply to {verb}: \"{reply}\""),
            Self::BeforeTls => f.write_str("unprotected data after the reply to AUTH"),
            Self::Unasked(reply) => write!(f, "a reply without a command: \"{reply}\""),
            Self::Text { verb, reply } => {
                write!(f, "the reply to {verb} lacks required information: \"{reply}\"")
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
    /// The server's reply code, if there is one.
    pub fn code(&self) -> Option<Code> {
        match self {
            Self::Refused(reply) | Self::Data(Some(reply)) => Some(reply.code),
            Self::Data(None) => None,
        }
    }
}
