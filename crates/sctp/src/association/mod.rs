//! One association (RFC 9260 §1.3): its user's verbs, its state, and the drain.
//!
//! `handle` and the user's verbs only change state; packets are built by `poll` alone. Addresses and ports, the
//! verification tag and what may create an association are the endpoint's part.

use std::net::SocketAddr;

use braidftp_base::Ecn;
use bytes::Bytes;

use crate::ids::{PathId, Ppid, StreamId};
use crate::stats::{PathState, Stats};
use crate::wire::Cause;

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What the payload is, to the applications.
    pub ppid: Ppid,
    /// At least one byte.
    pub payload: Bytes,
    /// Whether it waits for the messages before it on its stream.
    pub order: Order,
}

impl Message {
    /// An ordered message.
    pub fn new(ppid: Ppid, payload: impl Into<Bytes>) -> Self {
        Self { ppid, payload: payload.into(), order: Order::Ordered }
    }
}

/// Whether messages keep their order within a stream (RFC 9260 §6.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Delivered after the ordered messages sent before it on the same stream.
    #[default]
    Ordered,
    /// Delivered as soon as it is whole.
    Unordered,
}

/// A message received, or the next part of one that is too large to be held whole (RFC 9260 §6.9).
///
/// The pieces of one message follow each other: no other message of the stream comes between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// What the payload is, to the applications.
    pub ppid: Ppid,
    /// The bytes, as slices of the packets that brought them.
    pub payload: Vec<Bytes>,
    /// Whether the message begins here.
    pub begin: bool,
    /// Whether the message ends here.
    pub end: bool,
    /// How it was sent.
    pub order: Order,
}

impl Piece {
    /// How many bytes the payload has.
    pub fn len(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }

    /// Whether there is no byte in it.
    pub fn is_empty(&self) -> bool {
        self.payload.iter().all(Bytes::is_empty)
    }
}

/// Why [`Association::send`] took nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The send buffer has no room for all of it: try again after [`Event::Writable`].
    Full,
    /// A shutdown has begun here or at the peer.
    ShuttingDown,
    /// It exceeds `Config::max_message_bytes`.
    TooLong,
    /// SCTP cannot carry a message without a byte (RFC 9260 §3.3.1).
    Empty,
    /// The association has no such outbound stream.
    NoSuchStream,
    /// The association is over.
    Closed,
}

impl std::fmt::Display for SendError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Full => "the send buffer is full; send again once it is writable",
            Self::ShuttingDown => "the association is shutting down; open a new one to send more",
            Self::TooLong => "the message is longer than this association allows; send it in parts",
            Self::Empty => "a message needs at least one byte",
            Self::NoSuchStream => "the association has no such outbound stream; use one that was negotiated",
            Self::Closed => "the association is closed; open a new one",
        })
    }
}

impl std::error::Error for SendError {}

/// Why an association is over.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Both sides were done: all data arrived.
    Shutdown,
    /// This side aborted, with these words to the peer.
    Aborted(Bytes),
    /// The peer aborted or refused, for these causes.
    PeerAborted(Vec<Cause>),
    /// The peer never answered INIT or COOKIE ECHO.
    NoAnswer,
    /// The peer stopped answering.
    PeerUnreachable,
    /// The peer found the cookie too old, so that no association came about.
    StaleCookie,
    /// The shutdown took longer than `Config::shutdown_guard`.
    ShutdownTimeout,
    /// The peer broke the protocol; it was told so.
    PeerViolation(Violation),
}

impl Reason {
    /// The words that the peer's user gave with its abort, if it gave any.
    pub fn peer_words(&self) -> Option<&Bytes> {
        match self {
            Self::PeerAborted(causes) => causes.iter().find_map(|cause| match cause {
                Cause::UserInitiatedAbort(words) => Some(words),
                _ => None,
            }),
            _ => None,
        }
    }
}

impl std::fmt::Display for Reason {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Shutdown => f.write_str("shut down; all data arrived"),
            Self::Aborted(words) => write!(f, "aborted here: {}", words.escape_ascii()),
            Self::PeerAborted(causes) => match self.peer_words() {
                Some(words) => write!(f, "aborted by the peer: {}", words.escape_ascii()),
                None => write!(f, "aborted by the peer: {causes:?}"),
            },
            Self::NoAnswer => f.write_str("the peer does not answer"),
            Self::PeerUnreachable => f.write_str("the peer stopped answering"),
            Self::StaleCookie => f.write_str("the peer found the handshake too old; connect again"),
            Self::ShutdownTimeout => f.write_str("the shutdown took too long"),
            Self::PeerViolation(violation) => write!(f, "the peer broke the protocol: {violation}"),
        }
    }
}

impl std::error::Error for Reason {}

/// What an association's user may want to know.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A peer set up this association: the first event of the passive side.
    Accepted,
    /// The handshake is done.
    Up {
        /// Streams to send on: 0 up to this, exclusive.
        outbound_streams: u16,
        /// Streams to receive on.
        inbound_streams: u16,
    },
    /// The stream has something to [`recv`](Association::recv). Said once until `recv` has returned `None`.
    Readable(StreamId),
    /// There is room to send again.
    Writable,
    /// A path changed its state.
    Path(PathId, PathState),
    /// The peer sends no more than what is under way; this side cannot send any more.
    PeerShutdown,
    /// Over. What was received can still be read.
    Closed(Reason),
}

/// One packet to send, or several of one size and one path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The local address to send from.
    pub from: SocketAddr,
    /// Where to.
    pub to: SocketAddr,
    /// The ECN field to put on the packets.
    pub ecn: Ecn,
    /// The packets, back to back, each with its own header and checksum.
    pub payload: Bytes,
    /// How long each packet is, but for the last, which may be shorter. `None`: there is one packet.
    pub segment_size: Option<usize>,
}

/// What a peer can do wrong within an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Violation {
    /// An INIT ACK without a state cookie.
    InitAckWithoutCookie,
}

impl std::fmt::Display for Violation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::InitAckWithoutCookie => "INIT ACK without a state cookie",
        })
    }
}

/// One association.
#[derive(Debug)]
pub struct Association {}

/// One of an association's paths.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathView {
    /// Its number.
    pub id: PathId,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Whether it can be used.
    pub state: PathState,
}

impl Association {
    /// Queues a whole message, or nothing. Allowed before the handshake is done: what is queued then rides with
    /// COOKIE ECHO.
    pub fn send(&mut self, _stream: StreamId, _message: Message) -> Result<(), SendError> {
        Err(SendError::Closed)
    }

    /// The next message of a stream, or the next part of one (see [`Piece`]). What is taken opens the receive window.
    pub fn recv(&mut self, _stream: StreamId) -> Option<Piece> {
        None
    }

    /// A stream that has something to `recv`, in turn.
    pub fn readable(&self) -> Option<StreamId> {
        None
    }

    /// How many bytes of messages `send` would take now.
    pub fn send_room(&self) -> usize {
        0
    }

    /// Bytes queued on a stream and not yet sent.
    pub fn queued_bytes(&self, _stream: StreamId) -> usize {
        0
    }

    /// Ends the association once all data is acknowledged (RFC 9260 §9.2). Nothing can be sent any more.
    pub fn shutdown(&mut self) {}

    /// Ends the association at once, with words to the peer (RFC 9260 §9.1).
    pub fn abort(&mut self, _words: Bytes) {}

    /// Whether the handshake is done and the association not over.
    pub fn is_up(&self) -> bool {
        false
    }

    /// Why it is over, if it is.
    pub fn closed(&self) -> Option<&Reason> {
        None
    }

    /// Its numbers.
    pub fn stats(&self) -> Stats {
        unreachable!("nothing builds an association yet")
    }

    /// The local SCTP port and the peer's.
    pub fn ports(&self) -> (u16, u16) {
        (0, 0)
    }

    /// Its paths.
    pub fn paths(&self) -> impl Iterator<Item = PathView> {
        std::iter::empty()
    }
}
