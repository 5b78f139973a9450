//! One association (RFC 9260 §1.3): the user's operations, its state, and `poll`.
//!
//! `handle` and the user's operations only change state; packets are built in `poll`. Addresses and ports,
//! the verification tag, and the creation of associations belong to the endpoint.
//!
//! - `state`: the states, with the data that only one state has
//! - `handshake`, `shutdown`: beginning and end
//! - `receive`: processing of chunks; `received`: which TSNs have arrived; `reassembly` and `interleaved`:
//!   their messages; `receive_buffer`: the size of the buffer
//! - `auth`: authenticated chunks and keys; `asconf`: dynamic addresses
//! - `transmit`: filling packets; `send_queue`: queued messages; `scheduler`: selection of streams; `sent`:
//!   outstanding chunks
//! - `partial`: abandoned messages (RFC 3758)
//! - `settings`: what a user may change later
//! - `check`: invariants
//! - `dtls`: protected packets and their keys
//! - `ecn`: explicit congestion notification
//! - `reset`: stream re-configuration (RFC 6525)
//! - `multipath`: concurrent multipath transfer
//! - `pairing`: which addresses form a path; `path`: the state of a route, and path selection; `timers`,
//!   `expiry`: time-outs; `loss`: loss detection beyond RFC 9260

mod asconf;
mod auth;
mod check;
mod dtls;
mod ecn;
mod expiry;
mod handshake;
mod interleaved;
mod loss;
mod multipath;
mod pacing;
mod pairing;
mod partial;
mod path;
mod pmtu;
mod reassembly;
mod receive;
mod receive_buffer;
mod received;
mod reduction;
mod refused;
mod reset;
mod scheduler;
mod send_queue;
mod sent;
mod settings;
mod shutdown;
mod state;
#[cfg(test)]
mod tests;
mod timers;
mod transmit;
mod undo;
mod violation;

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use braidftp_base::{Ecn, Output, Time};
use bytes::Bytes;
use rand_chacha::ChaCha12Rng;

pub use self::asconf::{AddressChange, AddressError};
pub use self::auth::{AuthEvent, KeyError, KeyVectors};
pub(crate) use self::auth::{Authentication, BadParameters, RANDOM_LEN, Verdict, key_vector, parameters};
use self::dtls::Dtls;
pub use self::dtls::{DtlsError, DtlsEvent, DtlsStats, KeysStats};
pub(crate) use self::handshake::Passive;
use self::handshake::Renewal;
pub use self::multipath::{
    Multipath, MultipathError, PathScheduler, Remedy, RetransmitBy, UnknownPathScheduler, UnknownRemedy,
    UnknownRetransmitBy,
};
pub(crate) use self::pairing::{in_scope, pair_up, reaches, to_list};
pub use self::partial::{Abandoned, Reliability};
use self::path::Path;
pub(crate) use self::reassembly::CHUNK_OVERHEAD_BYTES;
use self::reassembly::Reassembly;
use self::receive_buffer::ReceiveBuffer;
pub use self::reset::{Direction, Outcome, ReconfigError, StreamReset, Streams};
pub use self::scheduler::{NoSuchStream, Scheduler};
use self::send_queue::SendQueue;
pub use self::settings::{PathParams, PathUse, PathUseError, SackTiming};
use self::shutdown::Farewell;
pub use self::shutdown::GOODBYE;
use self::state::{Shutdown, State, Up};
use self::timers::Timers;
pub use self::violation::Violation;
use crate::config::{Config, WindowUpdates};
use crate::ids::{AssociationId, PathId, Ppid, StreamId, Tsn, VerificationTag};
use crate::stats::{PathState, Phase, Stats};
use crate::wire::{Cause, PacketBuilder};

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// What the payload is, to the applications.
    pub ppid: Ppid,
    /// At least one byte.
    pub payload: Bytes,
    /// Whether it waits for the messages before it on its stream.
    pub order: Order,
    /// How long it is tried for. Ordinarily until it arrives.
    pub reliability: Reliability,
    /// Names the message in [`Event::Abandoned`] (snd_context, RFC 6458 §5.3.4).
    pub context: u32,
}

impl Message {
    /// An ordered, reliable message.
    pub fn new(ppid: Ppid, payload: impl Into<Bytes>) -> Self {
        let (order, reliability) = (Order::Ordered, Reliability::Full);
        Self { ppid, payload: payload.into(), order, reliability, context: 0 }
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
    /// The TSN of its first chunk; 0 if there is none.
    pub tsn: Tsn,
    /// The message's number in its stream: the SSN of DATA (RFC 9260 §3.3.1), the MID of I-DATA (RFC 8260 §2.1).
    pub number: u32,
    /// The bytes, as slices of the packets that brought them.
    pub payload: Vec<Bytes>,
    /// Whether the message begins here.
    pub begin: bool,
    /// Whether the message ends here.
    pub end: bool,
    /// Whether the message ends here without its rest, which the peer has given up (RFC 3758 §3.6). Then `end` is set as
    /// well, and there may be no byte in this piece.
    pub aborted: bool,
    /// How it was sent.
    pub order: Order,
}

impl Piece {
    /// The end of a message that was given up.
    fn aborted(ppid: Ppid, number: u32, order: Order) -> Self {
        let (payload, tsn) = (Vec::new(), Tsn(0));
        Self { ppid, tsn, number, payload, begin: false, end: true, aborted: true, order }
    }

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
    /// Packets are not protected yet: but for the messages that agree on keys, none is to be sent.
    NotProtected,
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
            Self::NotProtected => "packets are not protected yet; send once there are keys",
        })
    }
}

impl std::error::Error for SendError {}

/// The association is not up, or has no path of this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchPath;

impl std::fmt::Display for NoSuchPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the association has no such path; ask for its paths once it is up")
    }
}

impl std::error::Error for NoSuchPath {}

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
    /// This side needed the memory that the association held: see `Limits::memory_bytes` and `Limits::half_open`.
    OutOfMemory,
    /// The peer broke the protocol; it was told so.
    PeerViolation(Violation),
    /// Messages wait for a stream that the peer does not allow.
    TooFewStreams {
        /// How many streams there are to send on.
        outbound_streams: u16,
    },
}

impl Reason {
    /// The words that the peer's user gave with its abort, if it gave any.
    //= specs/rfc9260.txt#section-9.1
    //# If a "User-Initiated Abort" error cause is present in the ABORT chunk,
    //# the Upper Layer Abort Reason SHOULD be made available to the upper
    //# layer.
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
            Self::OutOfMemory => f.write_str("aborted here to free memory for other associations"),
            Self::PeerViolation(violation) => write!(f, "the peer broke the protocol: {violation}"),
            Self::TooFewStreams { outbound_streams } => {
                write!(f, "the peer allows only {outbound_streams} streams, and messages wait for others")
            }
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
        /// What the peer's user says of itself (RFC 5061 §4.2.6).
        adaptation: Option<u32>,
    },
    /// The peer lost its memory and began again: what was under way in either direction is gone, a shutdown that was asked
    /// for among it, and streams start from the beginning (RFC 9260 §5.2.4 A).
    Restarted,
    /// The stream had nothing to [`recv`](Association::recv) and now has.
    Readable(StreamId),
    /// There is room to send again.
    Writable,
    /// A message was given up, as its [`Reliability`] allows. Or the association ends, and the peer is not known to have
    /// all of the message: [`Event::Closed`] follows.
    Abandoned(Abandoned),
    /// A path changed its state.
    Path(PathId, PathState),
    /// The peer's addresses changed (RFC 5061).
    PeerAddress(SocketAddr, AddressChange),
    /// What became of a change of this side's addresses that was asked for (RFC 5061).
    LocalAddress(SocketAddr, AddressChange),
    /// Something about the keys that protect packets (draft-ietf-tsvwg-sctp-dtls-chunk).
    Dtls(DtlsEvent),
    /// Something about authentication changed (RFC 6458 §6.1.8).
    Authentication(AuthEvent),
    /// Streams began anew, or did not though it was asked for (RFC 6525 §6.1.1). What can still be read of incoming ones
    /// was sent before, but for what came since.
    StreamReset {
        /// Whose streams they are.
        direction: Direction,
        /// Which ones.
        streams: Streams,
        /// What came of the request.
        outcome: Outcome,
    },
    /// All streams and TSNs began anew, or did not though it was asked for (RFC 6525 §6.1.2).
    AssociationReset {
        /// What came of the request.
        outcome: Outcome,
        /// The TSN that this side uses next.
        local_tsn: Tsn,
        /// The TSN that the peer uses next.
        peer_tsn: Tsn,
    },
    /// There are more streams, or are not though it was asked for (RFC 6525 §6.1.3).
    StreamChange {
        /// Streams to send on: 0 up to this, exclusive.
        outbound_streams: u16,
        /// Streams to receive on.
        inbound_streams: u16,
        /// What came of the request.
        outcome: Outcome,
    },
    /// The peer sends no more than what is under way; this side cannot send any more.
    PeerShutdown,
    /// The peer reported an error that does not end the association (an ERROR chunk, RFC 9260 §3.3.10).
    PeerError(Vec<Cause>),
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
    /// Whether IP may cut it in pieces.
    pub split: Split,
}

/// Whether IP may cut a packet in pieces, on this host or on its way.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// As the carrier has it: packets are as large as the configuration says, and nobody finds out whether they pass.
    Unspecified,
    /// Not: it is no larger than what the path carries, or it is to find out what that is. DF is set.
    Forbidden,
    /// It holds a chunk from before the path was found to carry less, and a chunk cannot be cut again (RFC 9260 §6.9).
    Allowed,
}

/// One association.
#[derive(Debug)]
pub struct Association {
    id: AssociationId,
    config: Arc<Config>,
    local_port: u16,
    peer_port: u16,
    /// The local addresses.
    local: Vec<SocketAddr>,
    /// What the peer puts in its packets.
    //= specs/rfc9260.txt#section-5.3.1
    //# Moreover, the Verification Tag value used by either endpoint in a
    //# given association MUST NOT change during the life time of an
    //# association.
    tag: VerificationTag,
    initial_tsn: Tsn,
    rng: ChaCha12Rng,
    state: State,
    shutdown: Shutdown,
    paths: Vec<Path>,
    timers: Timers,
    queue: SendQueue,
    /// What arrived. It outlives the state in which it did.
    inbound: Reassembly,
    /// How much of it may be held.
    buffer: ReceiveBuffer,
    /// Streams to send on; before the handshake is done, those wanted.
    outbound_streams: u16,
    /// Streams to receive on; before the handshake is done, those allowed.
    inbound_streams: u16,
    events: VecDeque<Event>,
    /// Said aside: when it is over, or to an INIT ACK that is none.
    farewell: Option<Farewell>,
    /// Whether the next packet is its last.
    leaving: bool,
    renewal: Renewal,
    builder: PacketBuilder,
    auth: Authentication,
    /// If packets are to be protected.
    dtls: Option<Box<Dtls>>,
    /// Whether paths came or went since the endpoint asked.
    moved: bool,
    /// Whether the peer may use all of the receive buffer.
    admitted: bool,
    /// How much memory the endpoint lets this association take, in bytes, at present.
    memory_limit: usize,
    /// How much more that is at least, so that it need not be counted out for each chunk.
    memory_room: usize,
    /// What this side's INIT has in its RANDOM parameter.
    auth_random: [u8; RANDOM_LEN],
    /// Packets with new data that Max.Burst still lets out in this drain.
    //= specs/rfc9260.txt#section-6.1
    //# When calculating the number of packets to transmit, and particularly
    //# when using the formula above, cwnd SHOULD NOT be changed permanently.
    burst: u32,
    /// Whether the packet being filled has new data, and none that was sent before or that probes a closed window.
    new_data_alone: bool,
    /// Whether something was told since the last drain ended.
    stirred: bool,
    /// What was to be acknowledged before SHUTDOWN when T5-shutdown-guard was last set.
    draining_bytes: usize,
    /// From which free room on the user hears that it can write again.
    writable_at: Option<usize>,
    messages_sent: u64,
    messages_received: u64,
    abandoned_unsent: u64,
    abandoned_sent: u64,
    duplicates: u64,
    overruns: u64,
}

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

/// What a path is counted as, in bytes of memory: itself, its congestion control and what it logs.
const PATH_BYTES: usize = size_of::<Path>() + 2_048;

/// What an association may have taken since it was counted, besides messages: of sent chunks, runs of TSNs and streams. With less
/// room than this it is counted anew for each chunk.
const UNCOUNTED_BYTES_MAX: usize = 1 << 20;

/// Bytes of memory that an association is counted as at least, with one path.
pub(crate) const ASSOCIATION_BYTES_MIN: usize = size_of::<Association>() + size_of::<Up>() + PATH_BYTES;

impl Association {
    /// Its name within its endpoint.
    pub fn id(&self) -> AssociationId {
        self.id
    }

    /// Queues a whole message, or nothing. Allowed before the handshake is done: what is queued then rides with
    /// COOKIE ECHO.
    pub fn send(&mut self, stream: StreamId, message: Message) -> Result<(), SendError> {
        if matches!(self.state, State::Closed(_)) {
            return Err(SendError::Closed);
        }
        //= specs/rfc9260.txt#section-9.2
        //# An endpoint SHOULD reject any new data request from its upper layer
        //# if it is in the SHUTDOWN-PENDING, SHUTDOWN-SENT, SHUTDOWN-RECEIVED,
        //# or SHUTDOWN-ACK-SENT state.
        //= specs/rfc9260.txt#section-4
        //# In the SHUTDOWN-RECEIVED state, the endpoint MUST NOT accept any new
        //# send requests from its SCTP user.
        //= specs/rfc9260.txt#section-4
        //# In the SHUTDOWN-ACK-SENT state, the endpoint MUST NOT accept any new
        //# send requests from its SCTP user.
        if self.shutdown != Shutdown::No {
            return Err(SendError::ShuttingDown);
        }
        //= specs/rfc9260.txt#section-6.5
        //# Every DATA chunk MUST carry a valid stream identifier.
        if stream.0 >= self.outbound_streams {
            return Err(SendError::NoSuchStream);
        }
        if !self.may_send_in_clear(stream, &message) {
            return Err(SendError::NotProtected);
        }
        let len = message.payload.len();
        //= specs/rfc9260.txt#section-3.3.1
        //# A DATA chunk with a User Data field of length L will have the Length
        //# field set to (16 + L) (indicating 16 + L bytes) where L MUST be
        //# greater than 0.
        //= specs/rfc9260.txt#section-6.2
        //# An endpoint SHOULD NOT send a DATA chunk with no user data part.
        if len == 0 {
            return Err(SendError::Empty);
        }
        if len > self.config.max_message_bytes {
            return Err(SendError::TooLong);
        }
        // A message longer than the whole buffer still goes out, alone.
        // Keys must be agreed on however much waits for them.
        let is_bounded = !self.is_of_key_management(stream, &message);
        if is_bounded
            && len > self.send_room()
            && self.buffered_to_send() > 0
            && !self.make_room(len, message.reliability)
        {
            let capacity = self.config.send_buffer_bytes;
            self.writable_at = Some(len.min(capacity));
            return Err(SendError::Full);
        }
        self.queue.push(stream, message);
        self.use_memory(send_queue::memory_cost(len));
        self.messages_sent += 1;
        self.stirred = true;
        let half = self.config.send_buffer_bytes / 2;
        if self.writable_at.is_none() && self.send_room() < half {
            self.writable_at = Some(half);
        }
        Ok(())
    }

    /// What [`Config::scheduler`] is to know of a stream to send on: its priority, where 0 comes first, or its weight,
    /// where 0 counts as 1. It is 0 until it is set; other schedulers ignore it.
    pub fn set_stream_value(&mut self, stream: StreamId, value: u16) -> Result<(), NoSuchStream> {
        if stream.0 >= self.outbound_streams {
            return Err(NoSuchStream(stream));
        }
        self.queue.set_value(stream, value);
        Ok(())
    }

    /// The next message of a stream, or the next part of one (see [`Piece`]). What is taken opens the receive window.
    pub fn recv(&mut self, stream: StreamId) -> Option<Piece> {
        self.take(|inbound| inbound.recv(stream))
    }

    /// Takes a piece of what arrived.
    fn take(&mut self, from: impl FnOnce(&mut Reassembly) -> Option<Piece>) -> Option<Piece> {
        let held = self.inbound.charged_bytes();
        let piece = from(&mut self.inbound)?;
        self.buffer.on_read(held - self.inbound.charged_bytes());
        self.messages_received += u64::from(piece.end && !piece.aborted);
        //= specs/rfc9260.txt#section-6.2
        //# When the window opens up,
        //# an SCTP receiver SHOULD send additional SACK chunks to update the
        //# window even if no new data is received.  The receiver MUST avoid
        //# sending a large number of window updates -- in particular, large
        //# bursts of them.  One way to achieve this is to send a window update
        //# only if the window can be increased by at least a quarter of the
        //# receive buffer size of the association.
        let a_rwnd = self.a_rwnd();
        let capacity = self.buffer.bytes();
        if let State::Up(up) = &mut self.state {
            let narrow =
                up.offered_bytes < capacity / 2 && self.config.window_updates == WindowUpdates::AvoidSilly;
            if narrow && a_rwnd >= up.offered_bytes + capacity / 4 {
                //= specs/rfc9260.txt#section-6.2
                //# The data receiver SHOULD notify the data sender in a timely manner of
                //# changes in its ability to receive data.
                up.received.sack_now();
                self.stirred = true;
            }
        }
        Some(piece)
    }

    /// The receive buffer as it is now, in bytes.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.buffer.bytes()
    }

    /// A stream that has something to `recv`, in turn.
    pub fn readable(&self) -> Option<StreamId> {
        self.inbound.readable()
    }

    /// How many bytes of messages `send` would take now; an empty buffer takes one message that is longer, too.
    #[inline]
    pub fn send_room(&self) -> usize {
        // What is under way makes room for as much again to wait behind it, up to the limit.
        let (buffered, under_way) = (self.buffered_to_send(), self.under_way());
        let grown = self.config.send_buffer_bytes.saturating_add(under_way);
        let most = self.config.send_buffer_max_bytes.map_or(0, |max| max.min(grown));
        let free = self.config.send_buffer_bytes.max(most).saturating_sub(buffered);
        self.memory_room(free).saturating_sub(send_queue::MESSAGE_OVERHEAD_BYTES)
    }

    fn buffered_to_send(&self) -> usize {
        self.queue.charged_bytes() + self.under_way()
    }

    /// What of it has left, and is kept until it is acknowledged.
    fn under_way(&self) -> usize {
        self.state.up().map_or(0, |up| up.sent.charged_bytes())
    }

    /// Bytes queued on a stream and not yet sent.
    pub fn queued_bytes(&self, stream: StreamId) -> usize {
        self.queue.stream_queued_bytes(stream)
    }

    /// Whether the handshake is done and the association not over.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Why it is over, if it is.
    pub fn closed(&self) -> Option<&Reason> {
        match &self.state {
            State::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// Where in its life it is.
    pub fn phase(&self) -> Phase {
        match &self.state {
            State::CookieWait { .. } => Phase::CookieWait,
            State::CookieEchoed { .. } => Phase::CookieEchoed,
            State::Up(_) => match self.shutdown {
                Shutdown::No => Phase::Established,
                Shutdown::Pending => Phase::ShutdownPending,
                Shutdown::Sent { .. } => Phase::ShutdownSent,
                Shutdown::Received => Phase::ShutdownReceived,
                Shutdown::AckSent { .. } => Phase::ShutdownAckSent,
            },
            State::Closed(_) => Phase::Closed,
        }
    }

    /// Its numbers.
    pub fn stats(&self) -> Stats {
        let up = self.state.up();
        Stats {
            phase: self.phase(),
            extensions: self.extensions(),
            outbound_streams: self.outbound_streams,
            inbound_streams: self.inbound_streams,
            receive_buffer_bytes: self.buffer.bytes(),
            a_rwnd: self.a_rwnd(),
            peer_rwnd: up.map_or(0, |up| up.peer_a_rwnd.saturating_sub(up.sent.flight_bytes())),
            queued_bytes: self.queue.queued_bytes(),
            buffered_bytes: self.queue.queued_bytes() + up.map_or(0, |up| up.sent.retained_bytes()),
            outstanding_bytes: up.map_or(0, |up| up.sent.outstanding_bytes()),
            unread_bytes: self.inbound.unread_bytes(),
            messages_sent: self.messages_sent,
            messages_received: self.messages_received,
            abandoned_unsent: self.abandoned_unsent,
            abandoned_sent: self.abandoned_sent,
            duplicates: self.duplicates,
            overruns: self.overruns,
            paths: self.paths.iter().map(Path::stats).collect(),
        }
    }

    /// Bytes of memory that it takes: its control block, its paths and their congestion control, and what its buffers hold,
    /// with what is kept of each chunk and message. What an allocator adds is not in it.
    pub fn memory_bytes(&self) -> usize {
        let paths: usize = self.paths.iter().map(Path::memory_bytes).sum();
        let up = self
            .state
            .up()
            .map_or(0, |up| size_of_val(up) + up.sent.memory_bytes() + up.received.memory_bytes());
        size_of::<Self>()
            + up
            + paths
            + self.queue.memory_bytes()
            + self.inbound.memory_bytes()
            + self.keys_bytes()
    }

    /// How much of these bytes the endpoint lets it take.
    #[inline]
    fn memory_room(&self, wanted: usize) -> usize {
        if self.memory_room >= wanted.saturating_add(UNCOUNTED_BYTES_MAX) {
            return wanted;
        }
        self.counted_room().min(wanted)
    }

    /// How much more memory the endpoint lets it take.
    #[cold]
    fn counted_room(&self) -> usize {
        match self.memory_limit {
            usize::MAX => usize::MAX,
            limit => limit.saturating_sub(self.counted_bytes()),
        }
    }

    /// It takes so much more.
    #[inline]
    fn use_memory(&mut self, bytes: usize) {
        self.memory_room = self.memory_room.saturating_sub(bytes);
    }

    /// What the endpoint counts: [`Association::memory_bytes`], but for a path what most take at most, so that it costs a few
    /// additions.
    pub(crate) fn counted_bytes(&self) -> usize {
        let up = self
            .state
            .up()
            .map_or(0, |up| size_of::<Up>() + up.sent.counted_bytes() + up.received.memory_bytes());
        let paths = self.paths.len() * PATH_BYTES;
        size_of::<Self>()
            + up
            + paths
            + self.queue.memory_bytes()
            + self.inbound.memory_bytes()
            + self.keys_bytes()
    }

    /// Sets how much memory it may take from now on, in bytes, and that it was counted as taking `counted` of them. What it holds
    /// beyond stays.
    pub(crate) fn limit_memory(&mut self, bytes: usize, counted: usize) {
        self.memory_limit = bytes;
        self.memory_room = bytes.saturating_sub(counted);
    }

    /// Ends the association since this side's memory is wanted elsewhere, and lets go what nobody has read.
    pub(crate) fn give_up_memory(&mut self) {
        self.abort_with(Cause::OutOfResource, Reason::OutOfMemory);
        self.inbound = Reassembly::new(Tsn(0), 0);
    }

    /// The local SCTP port and the peer's.
    pub fn ports(&self) -> (u16, u16) {
        (self.local_port, self.peer_port)
    }

    /// Its paths.
    pub fn paths(&self) -> impl Iterator<Item = PathView> {
        let there = self.paths.iter().enumerate().filter(|(_, path)| path.state != PathState::Removed);
        there.map(|(index, path)| PathView {
            id: PathId(index as u8),
            local: path.local,
            peer: path.peer,
            state: path.state,
        })
    }

    /// Makes a path the primary one, by which data leaves whenever it is active (RFC 9260 §11.1). Only once the
    /// association is up.
    pub fn set_primary(&mut self, path: PathId) -> Result<(), NoSuchPath> {
        match &mut self.state {
            State::Up(up) if self.paths.get(usize::from(path.0)).is_some_and(Path::is_there) => {
                up.primary = path;
                self.stirred = true;
                Ok(())
            }
            _ => Err(NoSuchPath),
        }
    }

    /// Whether some local address can make a path with this one of the peer.
    pub(crate) fn can_reach(&self, peer: IpAddr) -> bool {
        let own = self.local.iter().copied().chain(self.paths.iter().map(|path| path.local));
        own.map(|own| own.ip()).any(|own| own.is_ipv4() == peer.is_ipv4() && self.config.allows(own, peer))
    }

    /// Whether packets without a checksum are taken: this side has said so with its INIT or INIT ACK.
    pub(crate) fn takes_zero_checksum(&self) -> bool {
        self.config.zero_checksum.is_some()
    }

    /// The tag that the peer gave, once it did.
    pub(crate) fn peer_tag(&self) -> Option<VerificationTag> {
        self.state.up().map(|up| up.peer_tag)
    }

    /// What comes next: packets to send, an event, or when to poll again at the latest.
    pub(crate) fn poll(&mut self, now: Time) -> Output<Transmit, Event> {
        self.queue.begin_lifetimes(now);
        while let Some(timer) = self.timers.take_due(now) {
            self.on_timer(now, timer);
            self.stirred = true;
        }
        if self.stirred {
            self.advance_reconfiguration();
        }
        if std::mem::take(&mut self.stirred) {
            // A pacing clock keeps bursts small by itself.
            let paced = self.paths.iter().any(Path::is_paced);
            let packets = self.config.max_burst.filter(|_| !paced).unwrap_or(u32::MAX);
            self.burst = self.burst.saturating_add(packets);
            for path in &mut self.paths {
                path.burst = path.burst.saturating_add(packets);
            }
        }
        if self.paths.iter().any(|path| path.heartbeat_moved) {
            self.settle_heartbeats(now);
        }
        if self.shutdown != Shutdown::No {
            self.advance_shutdown(now);
        }
        if self.dtls.is_some() {
            self.watch_keys();
        }
        if let Some(event) = self.events.pop_front() {
            return Output::Event(event);
        }
        if let Some(transmit) = self.transmit(now) {
            return Output::Send(transmit);
        }
        self.burst = 0;
        for path in &mut self.paths {
            path.burst = 0;
        }
        if let State::Up(up) = &mut self.state
            && std::mem::take(&mut up.turn_taken)
        {
            up.turn = (up.turn + 1) % self.paths.len();
        }
        // Building packets may have ended something.
        match self.events.pop_front() {
            Some(event) => Output::Event(event),
            None => {
                self.await_window(now);
                self.tell_of_idleness(now);
                self.guard_forward(now);
                if cfg!(debug_assertions) {
                    self.check();
                }
                Output::Wait(self.timers.next())
            }
        }
    }

    /// How much of the receive buffer is free.
    //= specs/rfc9260.txt#section-3.3.2
    //# During the life of the association, this buffer space SHOULD NOT be
    //# reduced (i.e., dedicated buffers ought not to be taken away from this
    //# association); however, an endpoint MAY change the value of a_rwnd it
    //# sends in SACK chunks.
    //= specs/rfc9260.txt#section-3.3.3
    //# During the life of the association, this buffer space SHOULD NOT be
    //# reduced (i.e., dedicated buffers ought not to be taken away from this
    //# association); however, an endpoint MAY change the value of a_rwnd it
    //# sends in SACK chunks.
    #[inline]
    fn a_rwnd(&self) -> usize {
        //= specs/rfc9260.txt#section-6.2
        //# The data receiver SHOULD NOT increment a_rwnd unless it has released
        //# bytes from its receive buffer.
        //= specs/rfc9260.txt#section-6.2
        //# For example, if the receiver is holding fragmented DATA chunks in a
        //# reassembly queue, it SHOULD NOT increment a_rwnd.
        //= specs/rfc9260.txt#section-6.2
        //# In addition, the endpoint SHOULD take into account the dropped data
        //# when calculating its a_rwnd.
        let free = self.buffer.bytes().saturating_sub(self.inbound.window_cost());
        self.memory_room(free)
    }

    /// The receive window to advertise.
    fn a_rwnd_to_offer(&self, offered_bytes: usize) -> usize {
        //= specs/rfc9260.txt#section-6.2
        //# The receiver MUST also
        //# have an algorithm for advertising its receive window to avoid
        //# receiver silly window syndrome (SWS), as described in [RFC1122].
        // What was offered grows by no less than a full chunk or half the buffer (RFC 1122 §4.2.3.3).
        let step = self.paths[0].payload_max(self.queue.header_len()).min(self.buffer.bytes() / 2);
        let a_rwnd = self.a_rwnd();
        if self.config.window_updates == WindowUpdates::AsItIs {
            return a_rwnd;
        }
        if a_rwnd >= offered_bytes + step { a_rwnd } else { a_rwnd.min(offered_bytes) }
    }

    fn report_writable(&mut self) {
        if self.writable_at.is_some_and(|room| self.send_room() >= room || self.buffered_to_send() == 0) {
            self.writable_at = None;
            self.events.push_back(Event::Writable);
        }
    }

    fn report_readable(&mut self) {
        while let Some(stream) = self.inbound.take_fresh() {
            self.events.push_back(Event::Readable(stream));
        }
        if self.inbound.take_fresh_aside() {
            self.events.push_back(Event::Dtls(DtlsEvent::Message));
        }
    }
}
