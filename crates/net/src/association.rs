//! The handle of an association.

use std::fmt;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_keys::KeyError;
use braidftp_keys::rustls::pki_types::CertificateDer;
use braidftp_sctp::{
    self as sctp, AssociationId, Message, NoSuchPath, PathId, PathUse, PathUseError, Piece, Reason,
    ReconfigError, Stats, StreamId, StreamReset,
};
use bytes::Bytes;
use tokio::sync::Notify;

use crate::core::{Core, Seat, Shared, Signals};
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
        let attempt = |core: &mut Core, id: AssociationId| {
            let closed = |core: &Core| Some(Err(SendError::Closed(core.why(id))));
            let Some(association) = core.machine.association_mut(id) else { return closed(core) };
            match association.send(stream, message.clone()) {
                Ok(()) => Some(Ok(())),
                Err(sctp::SendError::Full) => None,
                Err(sctp::SendError::ShuttingDown) => Some(Err(SendError::ShuttingDown)),
                Err(sctp::SendError::TooLong) => Some(Err(SendError::TooLong)),
                Err(sctp::SendError::Empty) => Some(Err(SendError::Empty)),
                Err(sctp::SendError::NotProtected) if core.is_to_be_protected(id) => None,
                Err(sctp::SendError::NotProtected) => Some(Err(SendError::NotProtected)),
                Err(sctp::SendError::NoSuchStream) => Some(Err(SendError::NoSuchStream)),
                Err(sctp::SendError::Closed) => closed(core),
            }
        };
        self.attempt(&self.seated.signals.writable, attempt).await
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
        self.told(|core, id| {
            if let Some(association) = core.machine.association_mut(id) {
                association.shutdown();
            }
        });
    }

    /// Ends the association at once, with a reason for the peer (RFC 9260 §9.1). Queued messages are
    /// lost.
    pub fn abort(&self, words: impl Into<Bytes>) {
        self.told(|core, id| {
            if let Some(association) = core.machine.association_mut(id) {
                association.abort(words.into());
            }
        });
    }

    /// Ends the association without waiting for the peer: see [`leave`](sctp::Association::leave).
    pub fn leave(&self) {
        self.told(|core, id| {
            if let Some(association) = core.machine.association_mut(id) {
                association.leave();
            }
        });
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

    /// Permits the peer to use the whole receive buffer: see [`admit`](sctp::Association::admit).
    pub fn admit(&self) {
        self.told(|core, id| {
            if let Some(association) = core.machine.association_mut(id) {
                association.admit();
            }
        });
    }

    /// Returns how long no packet of the peer has arrived.
    pub fn silence(&self) -> Duration {
        let now = self.seated.shared.clock.now();
        self.seated.shared.lock().machine.silence(now, self.seated.id).unwrap_or_default()
    }

    /// Sends a HEARTBEAT at once, unless one is outstanding: see
    /// [`probe_peer`](sctp::Association::probe_peer).
    pub fn probe_peer(&self) {
        self.told(|core, id| {
            if let Some(association) = core.machine.association_mut(id) {
                association.probe_peer();
            }
        });
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

    /// Makes a path the primary one, which carries data whenever it is active; paths are numbered as in
    /// [`Stats::paths`]. Only once the association is established.
    pub fn set_primary(&self, path: PathId) -> Result<(), NoSuchPath> {
        self.told(|core, id| match core.machine.association_mut(id) {
            Some(association) => association.set_primary(path),
            None => Err(NoSuchPath),
        })
    }

    /// Takes a path out of use, or puts it back: see [`set_path_use`](sctp::Association::set_path_use).
    /// Paths are numbered as in [`Stats::paths`].
    pub fn set_path_use(&self, path: PathId, path_use: PathUse) -> Result<(), PathUseError> {
        let now = self.seated.shared.clock.now();
        self.told(|core, id| match core.machine.association_mut(id) {
            Some(association) => association.set_path_use(now, path, path_use),
            None => Err(PathUseError::NoSuchPath),
        })
    }

    /// Sends a HEARTBEAT on each path, unless one is outstanding there (SPP_HB_DEMAND, RFC 6458
    /// §8.1.12).
    pub fn demand_heartbeats(&self) {
        self.told(|core, id| {
            let Some(association) = core.machine.association_mut(id) else { return };
            let mut path = PathId(0);
            while association.demand_heartbeat(path).is_ok() {
                path.0 += 1;
            }
        });
    }

    /// Resets streams (RFC 6525): see [`reset_streams`](sctp::Association::reset_streams).
    /// [`reconfigured`](Self::reconfigured) returns the result.
    pub fn reset_streams(&self, streams: StreamReset) -> Result<(), ReconfigError> {
        self.reconfigure(|association, _| association.reset_streams(streams))
    }

    /// Resets all streams and TSNs (RFC 6525): see
    /// [`reset_association`](sctp::Association::reset_association). [`reconfigured`](Self::reconfigured)
    /// returns the result.
    pub fn reset_association(&self) -> Result<(), ReconfigError> {
        self.reconfigure(|association, now| association.reset_association(now))
    }

    /// Adds outbound and inbound streams (RFC 6525): see
    /// [`add_streams`](sctp::Association::add_streams). [`reconfigured`](Self::reconfigured) returns the
    /// result.
    pub fn add_streams(&self, outgoing: u16, incoming: u16) -> Result<(), ReconfigError> {
        self.reconfigure(|association, _| association.add_streams(outgoing, incoming))
    }

    fn reconfigure(
        &self,
        tell: impl FnOnce(&mut sctp::Association, Time) -> Result<(), ReconfigError>,
    ) -> Result<(), ReconfigError> {
        let now = self.seated.shared.clock.now();
        self.told(|core, id| match core.machine.association_mut(id) {
            Some(association) => tell(association, now),
            None => Err(ReconfigError::NotUp),
        })
    }

    /// Returns the next result of a re-configuration requested by either side: a
    /// [`StreamReset`](sctp::Event::StreamReset), [`AssociationReset`](sctp::Event::AssociationReset) or
    /// [`StreamChange`](sctp::Event::StreamChange). The last 64 are kept; each is returned once.
    ///
    /// # Cancel safety
    ///
    /// If cancelled, nothing was taken.
    pub async fn reconfigured(&self) -> Result<sctp::Event, Reason> {
        let signal = &self.seated.signals.state;
        let taken = |core: &mut Core, id: AssociationId| {
            let seat = core.seats.get_mut(&id)?;
            match seat.reconfigured.pop_front() {
                Some(event) => Some(Ok(event)),
                None => seat.closed.clone().map(Err),
            }
        };
        self.attempt(signal, taken).await
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
    fn look<T>(&self, ask: impl FnOnce(&sctp::Association) -> T) -> Option<T> {
        self.seated.shared.lock().machine.association(self.seated.id).map(ask)
    }

    /// Calls the association and wakes the task.
    pub(crate) fn told<T>(&self, tell: impl FnOnce(&mut Core, AssociationId) -> T) -> T {
        let told = tell(&mut self.seated.shared.lock(), self.seated.id);
        self.seated.shared.task.notify_one();
        told
    }

    /// Repeats a call each time that `signal` was given, until it succeeds.
    async fn attempt<T>(
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
        self.seats.get(&id)?.protection.as_ref()
    }

    /// Whether messages must wait for keys.
    fn is_to_be_protected(&self, id: AssociationId) -> bool {
        self.protection(id).is_some_and(|protection| !protection.is_up())
    }

    fn try_recv(&mut self, id: AssociationId, stream: StreamId) -> Option<Result<Option<Piece>, Reason>> {
        let piece = self.machine.association_mut(id).and_then(|association| association.recv(stream));
        match piece {
            Some(piece) => Some(Ok(Some(piece))),
            None => self.at_end(id),
        }
    }

    fn try_recv_any(&mut self, id: AssociationId) -> Option<Result<Option<(StreamId, Piece)>, Reason>> {
        if let Some(association) = self.machine.association_mut(id) {
            while let Some(stream) = association.readable() {
                if let Some(piece) = association.recv(stream) {
                    return Some(Ok(Some((stream, piece))));
                }
            }
        }
        self.at_end(id)
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
