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
//! - `memory`: the memory of the association and its limit
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
mod inbox;
mod interleaved;
mod loss;
mod memory;
mod mtu_probes;
mod multipath;
mod pacing;
mod pairing;
mod partial;
mod path;
mod permit;
mod pmtu;
mod port_unreachable;
mod reassembly;
mod receive;
mod receive_buffer;
mod received;
mod reduction;
mod refused;
mod reordering;
mod reset;
mod scheduler;
mod send_order;
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

use braidftp_base::{Datagram, Ecn, Output, Time};
use bytes::Bytes;
use rand_chacha::ChaCha12Rng;

pub use self::asconf::{AddressChange, AddressError};
pub use self::auth::{AuthEvent, KeyError};
pub(crate) use self::auth::{Authentication, BadParameters, RANDOM_LEN, Verdict, key_vector, parameters};
use self::dtls::Dtls;
pub use self::dtls::{DtlsError, DtlsEvent, DtlsStats, KeysStats};
use self::handshake::Renewal;
pub(crate) use self::handshake::{Passive, Setup};
pub(crate) use self::memory::ASSOCIATION_BYTES_MIN;
pub(crate) use self::pairing::{in_scope, pair_up, reaches, to_list};
pub use self::partial::{Abandoned, Reliability};
use self::path::Path;
use self::reassembly::Reassembly;
use self::receive_buffer::ReceiveBuffer;
pub use self::reset::{Direction, Outcome, ReconfigError, StreamReset, Streams};
pub use self::scheduler::NoSuchStream;
use self::send_queue::SendQueue;
pub use self::settings::{PathParams, PathUse, PathUseError, SackTiming};
use self::shutdown::FinalPacket;
pub use self::shutdown::GOODBYE;
use self::state::{Shutdown, State, Window};
use self::timers::Timers;
use self::transmit::Carried;
pub use self::violation::Violation;
use crate::config::{Config, WindowUpdates};
use crate::ids::{AssociationId, PathId, Ppid, StreamId, Tsn, VerificationTag};
use crate::packet_builder::PacketBuilder;
use crate::stats::{PathState, Phase, Stall, Stats};
use crate::wire::Cause;

/// A message to send.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// The payload protocol identifier.
    pub ppid: Ppid,
    /// At least one byte.
    pub payload: Bytes,
    /// Whether the message is delivered in the order of its stream.
    pub order: Order,
    /// Partial reliability. Default: fully reliable.
    pub reliability: Reliability,
    /// Identifies the message in [`Event::Abandoned`] (snd_context, RFC 6458 §5.3.4).
    pub context: u32,
}

impl Message {
    /// An ordered, reliable message.
    pub fn new(ppid: Ppid, payload: impl Into<Bytes>) -> Self {
        let (order, reliability) = (Order::Ordered, Reliability::Full);
        Self { ppid, payload: payload.into(), order, reliability, context: 0 }
    }
}

/// The order of a message within its stream (RFC 9260 §6.6).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Order {
    /// Delivered after the ordered messages sent before it on the same stream.
    #[default]
    Ordered,
    /// Delivered as soon as it is complete.
    Unordered,
}

/// A received message, or the next part of one that is too large to be buffered completely (RFC 9260 §6.9).
///
/// The pieces of a message are consecutive: no other message of the stream comes between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Piece {
    /// The payload protocol identifier.
    pub ppid: Ppid,
    /// The TSN of the first chunk; 0 if the piece has none.
    pub tsn: Tsn,
    /// The message's number in its stream: the SSN of DATA (RFC 9260 §3.3.1), the MID of I-DATA (RFC 8260
    /// §2.1).
    pub number: u32,
    /// The bytes, as slices of the received packets.
    pub payload: Vec<Bytes>,
    /// Whether the message begins here.
    pub begin: bool,
    /// Whether the message ends here.
    pub end: bool,
    /// Whether the message ends here incomplete, because the peer abandoned it (RFC 3758 §3.6). Then `end`
    /// is set as well, and the piece may be empty.
    pub aborted: bool,
    /// How the message was sent.
    pub order: Order,
}

impl Piece {
    /// The end of an abandoned message.
    fn aborted(ppid: Ppid, number: u32, order: Order) -> Self {
        let (payload, tsn) = (Vec::new(), Tsn(0));
        Self { ppid, tsn, number, payload, begin: false, end: true, aborted: true, order }
    }

    /// The length of the payload in bytes.
    pub fn len(&self) -> usize {
        self.payload.iter().map(Bytes::len).sum()
    }

    /// Whether the payload is empty.
    pub fn is_empty(&self) -> bool {
        self.payload.iter().all(Bytes::is_empty)
    }
}

/// Why [`Association::send`] rejected a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SendError {
    /// The send buffer is too full for the message: try again after [`Event::Writable`].
    Full,
    /// A shutdown was started by this side or the peer.
    ShuttingDown,
    /// It exceeds `Config.messages.max_bytes`.
    TooLong,
    /// SCTP cannot carry empty messages (RFC 9260 §3.3.1).
    Empty,
    /// The association has no such outbound stream.
    NoSuchStream,
    /// The association has ended.
    Closed,
    /// Packets are not protected yet: only messages of the key management may be sent.
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

/// The association is not established, or has no path with this number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchPath;

impl std::fmt::Display for NoSuchPath {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the association has no such path; ask for its paths once it is up")
    }
}

impl std::error::Error for NoSuchPath {}

/// Why an association ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Reason {
    /// Graceful shutdown: all data arrived.
    Shutdown,
    /// Aborted by this side, with this text for the peer.
    Aborted(Bytes),
    /// Aborted or rejected by the peer, with these causes.
    PeerAborted(Vec<Cause>),
    /// The peer did not answer INIT or COOKIE ECHO.
    NoAnswer,
    /// ICMP reported for INITs that the UDP port is closed (`Handshake::refused_inits`).
    Refused,
    /// The peer no longer answers.
    PeerUnreachable,
    /// The peer rejected the cookie as stale, so the association was not established.
    StaleCookie,
    /// The shutdown took longer than `Config.timers.shutdown_guard`.
    ShutdownTimeout,
    /// This side needed the association's memory: see `Limits::memory_bytes` and `Limits::half_open`.
    OutOfMemory,
    /// The peer violated the protocol; it was informed by an ABORT.
    PeerViolation(Violation),
    /// Messages are queued for a stream that the peer does not permit.
    TooFewStreams {
        /// The number of outbound streams.
        outbound_streams: u16,
    },
}

impl Reason {
    /// The text in the peer's abort, if there is one.
    //= specs/rfc9260.txt#section-9.1
    //# If a "User-Initiated Abort" error cause is present in the ABORT chunk,
    //# the Upper Layer Abort Reason SHOULD be made available to the upper
    //# layer.
    pub fn peer_abort_reason(&self) -> Option<&Bytes> {
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
            Self::PeerAborted(causes) => match (self.peer_abort_reason(), &causes[..]) {
                (Some(words), _) => write!(f, "aborted by the peer: {}", words.escape_ascii()),
                (None, []) => f.write_str("aborted by the peer, which gave no reason"),
                (None, [first, ..]) => write!(f, "aborted by the peer: {first}"),
            },
            Self::NoAnswer => f.write_str("the peer does not answer"),
            Self::Refused => f.write_str("nobody listens at the UDP port"),
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

/// Notifications for the user of an association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// A peer opened this association: the first event on the passive side.
    Accepted,
    /// The handshake is complete.
    Up {
        /// The number of outbound streams.
        outbound_streams: u16,
        /// The number of inbound streams.
        inbound_streams: u16,
        /// The adaptation code point of the peer's user (RFC 5061 §4.2.6).
        adaptation: Option<u32>,
    },
    /// The peer restarted: data in flight in either direction is lost, a requested shutdown is cancelled,
    /// and streams start from the beginning (RFC 9260 §5.2.4 A).
    Restarted,
    /// The stream became readable ([`recv`](Association::recv)).
    Readable(StreamId),
    /// The send buffer has room again.
    Writable,
    /// A message was abandoned, as its [`Reliability`] permits. Or the association ends without
    /// confirmation that the peer received the whole message: [`Event::Closed`] follows.
    Abandoned(Abandoned),
    /// The state of a path changed.
    Path(PathId, PathState),
    /// The peer's addresses changed (RFC 5061).
    PeerAddress(SocketAddr, AddressChange),
    /// The result of a requested change of this side's addresses (RFC 5061).
    LocalAddress(SocketAddr, AddressChange),
    /// An event of the keys that protect packets (draft-ietf-tsvwg-sctp-dtls-chunk).
    Dtls(DtlsEvent),
    /// An event of authentication (RFC 6458 §6.1.8).
    Authentication(AuthEvent),
    /// Streams were reset, or a requested reset failed (RFC 6525 §6.1.1). Data of incoming streams that can
    /// still be read was sent before the reset, except for what arrived since.
    StreamReset {
        /// The direction of the streams.
        direction: Direction,
        /// The streams.
        streams: Streams,
        /// The result of the request.
        outcome: Outcome,
    },
    /// All streams and TSNs were reset, or a requested reset failed (RFC 6525 §6.1.2).
    AssociationReset {
        /// The result of the request.
        outcome: Outcome,
        /// The next TSN of this side.
        local_tsn: Tsn,
        /// The next TSN of the peer.
        peer_tsn: Tsn,
    },
    /// Streams were added, or a requested addition failed (RFC 6525 §6.1.3).
    StreamChange {
        /// The number of outbound streams.
        outbound_streams: u16,
        /// The number of inbound streams.
        inbound_streams: u16,
        /// The result of the request.
        outcome: Outcome,
    },
    /// The peer's window has been closed for a retransmission time-out, while nothing was in flight and data
    /// waited: [`Stats::stall`]. Once until data is sent again.
    PeerWindowClosed,
    /// The peer shut down: it sends no new data, and this side cannot send any more.
    PeerShutdown,
    /// The peer reported an error that does not end the association (an ERROR chunk, RFC 9260 §3.3.10).
    PeerError(Vec<Cause>),
    /// The association ended. Received data can still be read.
    Closed(Reason),
}

/// A packet to send, or several packets of the same size for the same path.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Transmit {
    /// The local address.
    pub from: SocketAddr,
    /// The destination.
    pub to: SocketAddr,
    /// The ECN field of the packets.
    pub ecn: Ecn,
    /// The concatenated packets, each with its own header and checksum.
    pub payload: Bytes,
    /// The length of each packet except the last, which may be shorter. `None`: a single packet.
    pub segment_size: Option<usize>,
    /// Whether IP may fragment the packets.
    pub split: Split,
}

impl Transmit {
    /// Splits a batch: one datagram per packet.
    pub fn into_datagrams(self) -> impl Iterator<Item = Datagram> {
        let Self { from, to, ecn, mut payload, segment_size, .. } = self;
        let size = segment_size.unwrap_or(payload.len()).max(1);
        std::iter::from_fn(move || {
            let length = payload.len().min(size);
            (length > 0).then(|| Datagram { from, to, ecn, payload: payload.split_to(length) })
        })
    }
}

/// Whether IP may fragment a packet, here or on the path.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Split {
    /// The lower layer's default: packets have the configured size, and the path MTU is not discovered.
    Unspecified,
    /// No: the packet fits the path MTU, or probes it. DF is set.
    Forbidden,
    /// The packet contains a chunk sent before the path MTU decreased, which cannot be fragmented again
    /// (RFC 9260 §6.9).
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
    /// The tag and ports of the peer's packets.
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
    /// The received data, which outlives the established state.
    inbound: Reassembly,
    /// The size of the receive buffer.
    buffer: ReceiveBuffer,
    /// Outbound streams; before the end of the handshake, the number requested.
    outbound_streams: u16,
    /// Inbound streams; before the end of the handshake, the number permitted.
    inbound_streams: u16,
    events: VecDeque<Event>,
    /// A last packet: when the association ends, or in response to an invalid INIT ACK.
    final_packet: Option<Box<FinalPacket>>,
    /// Whether the next packet is the last one.
    leaving: bool,
    renewal: Renewal,
    builder: PacketBuilder,
    /// What the builder carried over to the next batch.
    carried: Option<Carried>,
    auth: Authentication,
    /// The state of packet protection, if it is configured.
    dtls: Option<Box<Dtls>>,
    /// Whether paths were added or removed since the endpoint last asked.
    moved: bool,
    /// Whether the peer may use the whole receive buffer.
    admitted: bool,
    /// The memory that the endpoint currently grants this association, in bytes.
    memory_limit: usize,
    /// A lower bound of the memory left, so that it is not computed for each chunk.
    memory_room: usize,
    /// The RANDOM parameter of this side's INIT.
    auth_random: [u8; RANDOM_LEN],
    /// The number of packets with new data that Max.Burst still permits in this drain.
    //= specs/rfc9260.txt#section-6.1
    //# When calculating the number of packets to transmit, and particularly
    //# when using the formula above, cwnd SHOULD NOT be changed permanently.
    burst: u32,
    /// Whether the packet being filled has new data only: no retransmissions and no window probe.
    new_data_alone: bool,
    /// Whether there was input since the end of the last drain.
    has_input: bool,
    /// The bytes that were unacknowledged before SHUTDOWN when T5-shutdown-guard was last started.
    draining_bytes: usize,
    /// The amount of free send buffer at which the user is notified.
    writable_at: Option<usize>,
    messages_sent: u64,
    messages_received: u64,
    abandoned_unsent: u64,
    abandoned_sent: u64,
    duplicates: u64,
    overruns: u64,
}

/// A path of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PathView {
    /// Its number.
    pub id: PathId,
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Its state.
    pub state: PathState,
}

impl Association {
    /// Its id within its endpoint.
    pub fn id(&self) -> AssociationId {
        self.id
    }

    /// Queues a complete message, or nothing. Permitted before the end of the handshake: messages queued
    /// then travel with COOKIE ECHO.
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
        if len > self.config.messages.max_bytes {
            return Err(SendError::TooLong);
        }
        // A message longer than the buffer is accepted by an empty buffer. Messages of the key management
        // are accepted whatever is queued.
        let is_bounded = !self.is_of_key_management(stream, &message);
        if is_bounded
            && len > self.send_room()
            && self.buffered_to_send() > 0
            && !self.make_room(len, message.reliability)
        {
            let capacity = self.config.memory.send_buffer_bytes;
            self.writable_at = Some(len.min(capacity));
            return Err(SendError::Full);
        }
        self.queue.push(stream, message);
        self.use_memory(send_queue::memory_cost(len));
        self.messages_sent += 1;
        self.has_input = true;
        let half = self.config.memory.send_buffer_bytes / 2;
        if self.writable_at.is_none() && self.send_room() < half {
            self.writable_at = Some(half);
        }
        Ok(())
    }

    /// Sets the parameter of an outbound stream for [`messages.scheduler`](crate::Config::messages): its priority, where 0 is the
    /// highest, or its weight, where 0 counts as 1. Default 0; ignored by other schedulers.
    pub fn set_stream_value(&mut self, stream: StreamId, value: u16) -> Result<(), NoSuchStream> {
        if stream.0 >= self.outbound_streams {
            return Err(NoSuchStream(stream));
        }
        self.queue.set_value(stream, value);
        Ok(())
    }

    /// Returns the next message of a stream, or the next part of one (see [`Piece`]). Reading opens the
    /// receive window.
    pub fn recv(&mut self, stream: StreamId) -> Option<Piece> {
        self.take(|inbound| inbound.recv(stream))
    }

    /// Takes a piece of the received data.
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
            let narrow = up.offered_bytes < capacity / 2
                && self.config.legacy.window_updates == WindowUpdates::AvoidSilly;
            if narrow && a_rwnd >= up.offered_bytes + capacity / 4 {
                //= specs/rfc9260.txt#section-6.2
                //# The data receiver SHOULD notify the data sender in a timely manner of
                //# changes in its ability to receive data.
                up.received.sack_now();
                self.has_input = true;
            }
        }
        Some(piece)
    }

    /// Returns the current size of the receive buffer in bytes.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.buffer.bytes()
    }

    /// Returns a readable stream, in turn.
    pub fn readable(&self) -> Option<StreamId> {
        self.inbound.readable()
    }

    /// Returns how many bytes of messages `send` would accept now; an empty buffer accepts one longer
    /// message.
    #[inline]
    pub fn send_room(&self) -> usize {
        // As many bytes as are in flight may wait behind them, up to the limit.
        let (buffered, under_way) = (self.buffered_to_send(), self.under_way());
        let grown = self.config.memory.send_buffer_bytes.saturating_add(under_way);
        let most = self.config.memory.send_buffer_max_bytes.map_or(0, |max| max.min(grown));
        let free = self.config.memory.send_buffer_bytes.max(most).saturating_sub(buffered);
        self.memory_room(free).saturating_sub(send_queue::MESSAGE_OVERHEAD_BYTES)
    }

    fn buffered_to_send(&self) -> usize {
        self.queue.charged_bytes() + self.under_way()
    }

    /// Bytes of messages that were sent and are kept until they are acknowledged.
    fn under_way(&self) -> usize {
        self.state.up().map_or(0, |up| up.sent.charged_bytes())
    }

    /// Bytes queued on a stream and not yet sent.
    pub fn queued_bytes(&self, stream: StreamId) -> usize {
        self.queue.stream_queued_bytes(stream)
    }

    /// Whether the association is established and has not ended.
    pub fn is_up(&self) -> bool {
        matches!(self.state, State::Up(_))
    }

    /// Why the association ended, if it did.
    pub fn closed(&self) -> Option<&Reason> {
        match &self.state {
            State::Closed(reason) => Some(reason),
            _ => None,
        }
    }

    /// The state of the association.
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

    /// Returns the statistics.
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
            partial_bytes: self.inbound.partial_bytes(),
            messages_sent: self.messages_sent,
            messages_received: self.messages_received,
            abandoned_unsent: self.abandoned_unsent,
            abandoned_sent: self.abandoned_sent,
            duplicates: self.duplicates,
            overruns: self.overruns,
            stall: self.stall(),
            paths: self.paths.iter().map(Path::stats).collect(),
        }
    }

    /// Returns why data waits, if that is known and no congestion window is the reason.
    fn stall(&self) -> Option<Stall> {
        let up = self.state.up()?;
        let has_data = self.queue.peek_len().is_some();
        if (has_data || !up.sent.is_empty()) && !self.has_usable_path() {
            Some(Stall::NoPath)
        } else if has_data && up.window != Window::Open {
            Some(Stall::PeerWindow)
        } else {
            let is_full = self.a_rwnd() < self.paths[0].pmdcs();
            (is_full && self.inbound.readable().is_some()).then_some(Stall::Unread)
        }
    }

    /// The local SCTP port and the peer's.
    pub fn ports(&self) -> (u16, u16) {
        (self.local_port, self.peer_port)
    }

    /// Returns the paths.
    pub fn paths(&self) -> impl Iterator<Item = PathView> {
        let all = (0..self.paths.len()).filter_map(|index| self.path(PathId(index as u8)));
        all.filter(|path| path.state != PathState::Removed)
    }

    /// Returns a path, also one that was removed.
    pub fn path(&self, id: PathId) -> Option<PathView> {
        let path = self.paths.get(usize::from(id.0))?;
        Some(PathView { id, local: path.local, peer: path.peer, state: path.state })
    }

    /// Sets the primary path, which carries data whenever it is active (RFC 9260 §11.1). Only once the
    /// association is established.
    pub fn set_primary(&mut self, path: PathId) -> Result<(), NoSuchPath> {
        match &mut self.state {
            State::Up(up) if self.paths.get(usize::from(path.0)).is_some_and(Path::is_present) => {
                up.primary = path;
                self.has_input = true;
                Ok(())
            }
            _ => Err(NoSuchPath),
        }
    }

    /// Whether some local address can form a path with this peer address.
    pub(crate) fn can_reach(&self, peer: IpAddr) -> bool {
        let own = self.local.iter().copied().chain(self.paths.iter().map(|path| path.local));
        own.map(|own| own.ip()).any(|own| own.is_ipv4() == peer.is_ipv4() && self.config.allows(own, peer))
    }

    /// The peer's verification tag, once known.
    pub(crate) fn peer_tag(&self) -> Option<VerificationTag> {
        self.state.up().map(|up| up.peer_tag)
    }

    /// Returns packets to send, an event, or the latest time of the next poll.
    pub(crate) fn poll(&mut self, now: Time) -> Output<Transmit, Event> {
        self.queue.begin_lifetimes(now);
        while let Some(timer) = self.timers.take_due(now) {
            self.on_timer(now, timer);
            self.has_input = true;
        }
        if self.has_input {
            self.advance_reconfiguration();
        }
        if std::mem::take(&mut self.has_input) {
            // Pacing limits bursts by itself.
            let paced = self.paths.iter().any(Path::is_paced);
            let packets = self.config.congestion.max_burst.filter(|_| !paced).unwrap_or(u32::MAX);
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
            self.check_key_limits();
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
        // Building packets may have ended the association.
        match self.events.pop_front() {
            Some(event) => Output::Event(event),
            None => {
                self.arm_window_probe(now);
                self.report_app_limited(now);
                self.guard_forward(now);
                if cfg!(debug_assertions) {
                    self.check();
                }
                Output::Wait(self.timers.next())
            }
        }
    }

    /// The free space in the receive buffer.
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
        // The advertised window grows by at least a full chunk or half the buffer (RFC 1122 §4.2.3.3).
        let step = self.paths[0].payload_max(self.queue.header_len()).min(self.buffer.bytes() / 2);
        let a_rwnd = self.a_rwnd();
        if self.config.legacy.window_updates == WindowUpdates::AsItIs {
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
