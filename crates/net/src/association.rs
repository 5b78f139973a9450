//! The handle of an association.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_keys::KeyError;
use braidftp_keys::rustls::pki_types::CertificateDer;
use braidftp_sctp::{self as sctp, AssociationId, Message, Piece, Reason, Stats, StreamId};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::core::{Core, Seat, Shared, Signals};
use crate::events::Event;
use crate::protection::Protection;
use crate::up::Up;

/// A handle of an association; clones share it, so every stream can have its own task.
///
/// Dropping the last clone shuts the association down: queued messages are still delivered, received
/// ones are discarded.
#[derive(Clone)]
pub struct Association {
    seated: Arc<Seated>,
}

/// Keeps the association; the last handle releases it when dropped.
struct Seated {
    shared: Arc<Shared>,
    id: AssociationId,
    signals: Arc<Signals>,
}

/// Why [`Association::send`] failed; no part of the message was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SendError {
    /// A shutdown was started by this side or the peer.
    ShuttingDown,
    /// The message exceeds `Config.messages.max_bytes`.
    TooLong,
    /// SCTP cannot carry empty messages (RFC 9260 §3.3.1).
    Empty,
    /// Packets must be protected with keys that the user sets, and there are none yet.
    NotProtected,
    /// The association has no such outbound stream.
    NoSuchStream,
    /// The association has ended.
    Closed(Reason),
}

impl fmt::Display for SendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let plain = match self {
            Self::ShuttingDown => sctp::SendError::ShuttingDown,
            Self::TooLong => sctp::SendError::TooLong,
            Self::Empty => sctp::SendError::Empty,
            Self::NotProtected => sctp::SendError::NotProtected,
            Self::NoSuchStream => sctp::SendError::NoSuchStream,
            Self::Closed(reason) => return write!(f, "the association is over: {reason}"),
        };
        plain.fmt(f)
    }
}

impl std::error::Error for SendError {}

/// Why [`Association::try_send`] failed; no part of the message was sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TrySendError {
    /// The send buffer has no room for the message now, or its keys are not agreed yet.
    Full(Message),
    /// The message cannot be sent.
    Refused(SendError),
}

impl fmt::Display for TrySendError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Full(_) => f.write_str("the send buffer is full; wait for room with `send`"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for TrySendError {}

/// Why [`Association::try_recv`] returned nothing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TryRecvError {
    /// Nothing has arrived.
    Empty,
    /// The association ended, not by a shutdown.
    Closed(Reason),
}

impl fmt::Display for TryRecvError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Empty => f.write_str("nothing has arrived; wait with `recv`"),
            Self::Closed(reason) => write!(f, "the association is over: {reason}"),
        }
    }
}

impl std::error::Error for TryRecvError {}

impl Association {
    /// Creates the only handle of `seat`, which may then be cloned.
    pub(crate) fn new(shared: Arc<Shared>, id: AssociationId, seat: &Seat) -> Self {
        Self { seated: Arc::new(Seated { shared, id, signals: seat.signals.clone() }) }
    }

    /// Waits until the association is established. Sending need not wait: messages sent before are
    /// bundled with COOKIE ECHO.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing; may be cancelled and called again.
    pub async fn up(&self) -> Result<Up, Reason> {
        self.state(|seat| match (seat.up, &seat.closed) {
            (Some(up), _) => Some(Ok(up)),
            (None, Some(reason)) => Some(Err(reason.clone())),
            (None, None) => None,
        })
        .await
    }

    /// Sends a complete message on `stream`, once there is room for it in the send buffer.
    ///
    /// # Cancel safety
    ///
    /// If cancelled, no part of the message was sent. Concurrent calls complete in no particular order.
    pub async fn send(&self, stream: StreamId, message: Message) -> Result<(), SendError> {
        let attempt = |core: &mut Core, id| core.try_send(id, stream, &message);
        self.attempt(&self.seated.signals.writable, attempt).await
    }

    /// Sends a complete message on `stream` if there is room for it now.
    ///
    /// # Errors
    ///
    /// [`TrySendError::Full`] returns the message: [`send`](Self::send) waits for room.
    pub fn try_send(&self, stream: StreamId, message: Message) -> Result<(), TrySendError> {
        match self.told(|core, id| core.try_send(id, stream, &message)) {
            Some(sent) => sent.map_err(TrySendError::Refused),
            None => Err(TrySendError::Full(message)),
        }
    }

    /// Waits until a message of `bytes` bytes fits into the send buffer, or half the buffer is free, or the association has
    /// ended: when to call [`try_send`](Self::try_send) again after [`TrySendError::Full`].
    ///
    /// # Cancel safety
    ///
    /// Changes nothing; may be cancelled and called again.
    pub async fn wait_for_room(&self, bytes: usize) {
        let has_room = |core: &mut Core, id| {
            let Some(association) = core.machine.association(id) else { return Some(()) };
            let enough = bytes.min(association.config().memory.send_buffer_bytes / 2);
            let room = association.send_room() >= enough || association.closed().is_some();
            room.then_some(())
        };
        self.attempt(&self.seated.signals.writable, has_room).await;
    }

    /// Returns the next message of `stream`, or the next part of one that is too large to be buffered
    /// completely ([`Piece::end`] tells). `None` once the peer has shut down and everything was read; an
    /// error if the association ended in another way.
    ///
    /// # Cancel safety
    ///
    /// If cancelled, nothing was taken from the stream.
    pub async fn recv(&self, stream: StreamId) -> Result<Option<Piece>, Reason> {
        if let Some(done) = self.told(|core, id| core.try_recv(id, stream)) {
            return done;
        }
        let readable = {
            let mut core = self.seated.shared.lock();
            match core.seats.get_mut(&self.seated.id) {
                Some(seat) => seat.streams.entry(stream).or_default().clone(),
                None => Arc::new(Notify::new()),
            }
        };
        self.attempt(&readable, |core, id| core.try_recv(id, stream)).await
    }

    /// Returns the next message, or part of one, of any readable stream, in turn. `None` and errors as
    /// in [`recv`](Self::recv).
    ///
    /// # Cancel safety
    ///
    /// If cancelled, nothing was taken from any stream.
    pub async fn recv_any(&self) -> Result<Option<(StreamId, Piece)>, Reason> {
        self.attempt(&self.seated.signals.readable, Core::try_recv_any).await
    }

    /// Returns what of `stream` has arrived, without waiting.
    ///
    /// # Errors
    ///
    /// [`TryRecvError::Empty`] if nothing has arrived, or why the association ended.
    pub fn try_recv(&self, stream: StreamId) -> Result<Option<Piece>, TryRecvError> {
        let received = self.told(|core, id| core.try_recv(id, stream));
        received.ok_or(TryRecvError::Empty)?.map_err(TryRecvError::Closed)
    }

    /// Appends to `pieces` what has arrived on any stream, in turn, at most `max` pieces; waits for the
    /// first one. Returns how many; 0 once the peer has shut down and everything was read, or if `max` is 0.
    /// One call takes the endpoint's lock once, so many small messages cost less than with
    /// [`recv_any`](Self::recv_any).
    ///
    /// # Cancel safety
    ///
    /// If cancelled, nothing was taken from any stream.
    pub async fn recv_many(&self, pieces: &mut Vec<(StreamId, Piece)>, max: usize) -> Result<usize, Reason> {
        let attempt = |core: &mut Core, id| core.try_recv_many(id, pieces, max);
        self.attempt(&self.seated.signals.readable, attempt).await
    }

    /// Sends queued messages and ends the association (RFC 9260 §9.2); waits until it has ended and
    /// returns why. Messages that the peer still sends can be read meanwhile.
    ///
    /// # Cancel safety
    ///
    /// The shutdown continues if this is cancelled; [`closed`](Self::closed) waits for its end.
    pub async fn shutdown(&self) -> Reason {
        self.start_shutdown();
        self.closed().await
    }

    /// Starts a shutdown without waiting; see [`shutdown`](Self::shutdown).
    pub fn start_shutdown(&self) {
        self.with(|association, _| association.shutdown());
    }

    /// Ends the association at once, with a reason for the peer (RFC 9260 §9.1). Queued messages are
    /// lost.
    pub fn abort(&self, words: impl Into<Bytes>) {
        self.with(|association, _| association.abort(words.into()));
    }

    /// Ends the association without waiting for the peer: see [`leave`](sctp::Association::leave).
    pub fn leave(&self) {
        self.with(|association, _| association.leave());
    }

    /// Waits until the association has ended, and returns why.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing; may be cancelled and called again.
    pub async fn closed(&self) -> Reason {
        self.state(|seat| seat.closed.clone()).await
    }

    /// Returns why the association ended, if it has.
    pub fn reason(&self) -> Option<Reason> {
        self.seated.shared.lock().seats.get(&self.seated.id)?.closed.clone()
    }

    /// Whether sent packets are protected and the peer is authenticated.
    pub fn is_protected(&self) -> bool {
        let core = self.seated.shared.lock();
        core.protection(self.seated.id).is_some_and(Protection::is_up)
    }

    /// Returns the certificates that the peer presented, its own first.
    pub fn peer_certificates(&self) -> Option<Vec<CertificateDer<'static>>> {
        let core = self.seated.shared.lock();
        core.protection(self.seated.id)?.peer_certificates().map(<[_]>::to_vec)
    }

    /// Returns the epoch of the keys for sending: first 3, and one more for each replacement.
    pub fn keys_epoch(&self) -> Option<u64> {
        self.seated.shared.lock().protection(self.seated.id)?.epoch()
    }

    /// Returns why the association could not be protected, if that ended it.
    pub fn key_error(&self) -> Option<KeyError> {
        self.seated.shared.lock().protection(self.seated.id)?.failed().cloned()
    }

    /// Returns how long no packet of the peer has arrived.
    pub fn silence(&self) -> Duration {
        let now = self.seated.shared.clock.now();
        self.seated.shared.lock().machine.silence(now, self.seated.id).unwrap_or_default()
    }

    /// Returns how many bytes of messages would be accepted at once.
    pub fn send_room(&self) -> usize {
        self.look(|association| association.send_room()).unwrap_or(0)
    }

    /// Returns the current size of the receive buffer in bytes; it may grow.
    pub fn receive_buffer_bytes(&self) -> usize {
        self.look(sctp::Association::receive_buffer_bytes).unwrap_or(0)
    }

    /// Returns the bytes queued on `stream` and not yet sent.
    pub fn queued_bytes(&self, stream: StreamId) -> usize {
        self.look(|association| association.queued_bytes(stream)).unwrap_or(0)
    }

    /// Returns the statistics.
    pub fn stats(&self) -> Stats {
        self.look(sctp::Association::stats).expect("an association is kept as long as it has a handle")
    }

    /// Returns the next event, in the order in which they happened; an error once the association has
    /// ended and all events were returned. Each event is returned once, whichever clone asks. Readiness to
    /// send or receive is no event: [`send`](Self::send) and [`recv`](Self::recv) wait for it.
    ///
    /// # Cancel safety
    ///
    /// If cancelled, no event was taken.
    pub async fn event(&self) -> Result<Event, Reason> {
        self.attempt(&self.seated.signals.state, Core::next_event).await
    }

    /// Returns the next event, if there is one.
    pub fn try_event(&self) -> Option<Event> {
        self.told(|core, id| core.seats.get_mut(&id)?.events.pop())
    }

    /// Returns its id within the endpoint.
    pub fn id(&self) -> AssociationId {
        self.seated.id
    }

    /// The local SCTP port and the peer's.
    pub fn ports(&self) -> (u16, u16) {
        self.look(sctp::Association::ports).unwrap_or_default()
    }

    /// The peer's address and encapsulation port, on the first path.
    pub fn peer_addr(&self) -> Option<SocketAddr> {
        self.look(|association| association.paths().next().map(|path| path.peer)).flatten()
    }

    /// Reads the state of the association.
    pub(crate) fn look<T>(&self, ask: impl FnOnce(&sctp::Association) -> T) -> Option<T> {
        self.seated.shared.lock().machine.association(self.seated.id).map(ask)
    }

    /// Calls the association and wakes the task.
    pub(crate) fn told<T>(&self, tell: impl FnOnce(&mut Core, AssociationId) -> T) -> T {
        let told = tell(&mut self.seated.shared.lock(), self.seated.id);
        self.seated.shared.task.notify_one();
        told
    }

    /// Calls the association with the current time and wakes the task. It exists as long as it has a handle.
    pub(crate) fn with<T>(&self, call: impl FnOnce(&mut sctp::Association, Time) -> T) -> T {
        let now = self.seated.shared.clock.now();
        self.told(|core, id| {
            let association = core.machine.association_mut(id);
            call(association.expect("an association is kept as long as it has a handle"), now)
        })
    }

    /// Repeats a call each time that `signal` was given, until it succeeds.
    pub(crate) async fn attempt<T>(
        &self,
        signal: &Notify,
        mut tell: impl FnMut(&mut Core, AssociationId) -> Option<T>,
    ) -> T {
        if let Some(done) = self.told(&mut tell) {
            return done;
        }
        loop {
            let mut signalled = pin!(signal.notified());
            // Registered before the next attempt, so that no signal is missed.
            signalled.as_mut().enable();
            if let Some(done) = self.told(&mut tell) {
                return done;
            }
            signalled.await;
        }
    }

    /// Waits for a state.
    async fn state<T>(&self, reached: impl Fn(&Seat) -> Option<T>) -> T {
        loop {
            let mut changed = pin!(self.seated.signals.state.notified());
            changed.as_mut().enable();
            {
                let core = self.seated.shared.lock();
                let seat =
                    core.seats.get(&self.seated.id).expect("a seat is kept as long as it has a handle");
                if let Some(done) = reached(seat) {
                    return done;
                }
            }
            changed.await;
        }
    }
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Association").field(&self.seated.id.0).finish()
    }
}

impl Drop for Seated {
    fn drop(&mut self) {
        self.shared.lock().release(self.id);
        self.shared.task.notify_one();
    }
}

impl Core {
    fn protection(&self, id: AssociationId) -> Option<&Protection> {
        self.seats.get(&id)?.protection.as_deref()
    }

    /// Whether messages must wait for keys.
    fn is_to_be_protected(&self, id: AssociationId) -> bool {
        self.protection(id).is_some_and(|protection| !protection.is_up())
    }

    fn next_event(&mut self, id: AssociationId) -> Option<Result<Event, Reason>> {
        let seat = self.seats.get_mut(&id)?;
        match seat.events.pop() {
            Some(event) => Some(Ok(event)),
            None => seat.closed.clone().map(Err),
        }
    }

    /// Sends a message; `None` if it must wait for room or for keys.
    fn try_send(
        &mut self,
        id: AssociationId,
        stream: StreamId,
        message: &Message,
    ) -> Option<Result<(), SendError>> {
        let Some(association) = self.machine.association_mut(id) else {
            return Some(Err(SendError::Closed(self.why(id))));
        };
        Some(Err(match association.send(stream, message.clone()) {
            Ok(()) => return Some(Ok(())),
            Err(sctp::SendError::Full) => return None,
            Err(sctp::SendError::NotProtected) if self.is_to_be_protected(id) => return None,
            Err(sctp::SendError::ShuttingDown) => SendError::ShuttingDown,
            Err(sctp::SendError::TooLong) => SendError::TooLong,
            Err(sctp::SendError::Empty) => SendError::Empty,
            Err(sctp::SendError::NotProtected) => SendError::NotProtected,
            Err(sctp::SendError::NoSuchStream) => SendError::NoSuchStream,
            Err(sctp::SendError::Closed) => SendError::Closed(self.why(id)),
        }))
    }

    fn try_recv(&mut self, id: AssociationId, stream: StreamId) -> Option<Result<Option<Piece>, Reason>> {
        let piece = self.machine.association_mut(id).and_then(|association| association.recv(stream));
        match piece {
            Some(piece) => Some(Ok(Some(piece))),
            None => self.at_end(id),
        }
    }

    fn try_recv_any(&mut self, id: AssociationId) -> Option<Result<Option<(StreamId, Piece)>, Reason>> {
        match self.machine.association_mut(id).and_then(next_piece) {
            Some(piece) => Some(Ok(Some(piece))),
            None => self.at_end(id),
        }
    }

    fn try_recv_many(
        &mut self,
        id: AssociationId,
        pieces: &mut Vec<(StreamId, Piece)>,
        max: usize,
    ) -> Option<Result<usize, Reason>> {
        let before = pieces.len();
        if let Some(association) = self.machine.association_mut(id) {
            pieces.extend(std::iter::from_fn(|| next_piece(association)).take(max));
        }
        match pieces.len() - before {
            0 if max > 0 => Some(self.at_end::<()>(id)?.map(|_| 0)),
            taken => Some(Ok(taken)),
        }
    }

    /// The result for a reader that found nothing, if nothing more can arrive.
    fn at_end<T>(&self, id: AssociationId) -> Option<Result<Option<T>, Reason>> {
        let seat = self.seats.get(&id)?;
        match &seat.closed {
            Some(Reason::Shutdown) => Some(Ok(None)),
            Some(reason) => Some(Err(reason.clone())),
            None => seat.peer_is_done.then_some(Ok(None)),
        }
    }

    fn why(&self, id: AssociationId) -> Reason {
        let seat = self.seats.get(&id);
        seat.and_then(|seat| seat.closed.clone()).unwrap_or(Reason::Shutdown)
    }
}

/// The next piece of any readable stream.
fn next_piece(association: &mut sctp::Association) -> Option<(StreamId, Piece)> {
    while let Some(stream) = association.readable() {
        if let Some(piece) = association.recv(stream) {
            return Some((stream, piece));
        }
    }
    None
}
