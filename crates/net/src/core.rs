//! The state shared by an endpoint's task and its handles: the SCTP endpoint, and a slot for the users of
//! each association.
//!
//! Handles lock it, call the endpoint, and wake the task; only the task polls the endpoint. The lock is
//! never held across an await or a system call on a socket.

use std::collections::{BTreeMap, VecDeque};
use std::net::SocketAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_base::Time;
use braidftp_keys::Settings;
use braidftp_sctp::dtls::Mode;
use braidftp_sctp::{self as sctp, AssociationId, Event, Reason, Stall, StreamId};
use bytes::Bytes;
use tokio::sync::Notify;
use tokio::time::Instant;
use tracing::debug;

use crate::carrier::Carrier;
use crate::events::{self, Events, news_of};
use crate::path_name::PathName;
use crate::protection::{Protection, Wakes};
use crate::sockets::Socket;
use crate::up::Up;

/// The maximum number of associations per port that peers opened and no [`Listener`](crate::Listener)
/// accepted yet; more are aborted.
pub(crate) const MAX_BACKLOG: usize = 1024;

/// The clock of an endpoint: time since it was bound.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Clock {
    origin: Instant,
}

impl Clock {
    pub(crate) fn start() -> Self {
        Self { origin: Instant::now() }
    }

    pub(crate) fn now(self) -> Time {
        Time::ZERO + self.origin.elapsed()
    }

    pub(crate) fn instant(self, time: Time) -> Instant {
        self.origin + Duration::from_nanos(time.as_nanos())
    }
}

/// Shared by the task and all handles of one endpoint.
#[derive(Debug)]
pub(crate) struct Shared {
    core: Mutex<Core>,
    /// Wakes the task after a handle called the endpoint.
    pub(crate) task: Notify,
    /// Wakes callers that wait for the end of associations or of the task.
    pub(crate) ends: Notify,
    pub(crate) clock: Clock,
    pub(crate) carrier: Carrier,
}

impl Shared {
    pub(crate) fn new(machine: sctp::Endpoint, carrier: Carrier, local_addrs: Vec<SocketAddr>) -> Self {
        let core = Core {
            machine,
            seats: BTreeMap::new(),
            backlogs: BTreeMap::new(),
            unanswered: Vec::new(),
            open: 0,
            endpoints: 0,
            phase: Phase::Open,
            forgotten: Totals::default(),
            local_addrs,
            arriving: Vec::new(),
            leaving: Vec::new(),
            wakes: Wakes::default(),
        };
        Self {
            core: Mutex::new(core),
            task: Notify::new(),
            ends: Notify::new(),
            clock: Clock::start(),
            carrier,
        }
    }

    /// Locks the core. If the task panicked while holding the lock, its `Drop` has ended every
    /// association, so that no caller waits forever.
    pub(crate) fn lock(&self) -> MutexGuard<'_, Core> {
        self.core.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The endpoint and its users.
#[derive(Debug)]
pub(crate) struct Core {
    pub(crate) machine: sctp::Endpoint,
    pub(crate) seats: BTreeMap<AssociationId, Seat>,
    pub(crate) backlogs: BTreeMap<u16, Backlog>,
    /// Associations to be accepted whose COOKIE ACK was not sent: they must not be accepted before.
    unanswered: Vec<AssociationId>,
    /// The number of associations that are not closed.
    pub(crate) open: usize,
    /// The number of `Endpoint` handles.
    pub(crate) endpoints: usize,
    pub(crate) phase: Phase,
    /// The totals of removed associations.
    pub(crate) forgotten: Totals,
    /// The bound addresses.
    pub(crate) local_addrs: Vec<SocketAddr>,
    /// Sockets that the task has not taken over yet.
    pub(crate) arriving: Vec<Socket>,
    /// Removed addresses whose sockets some association may still need.
    pub(crate) leaving: Vec<Leaving>,
    /// The timers of key management.
    pub(crate) wakes: Wakes,
}

/// A removed address.
#[derive(Debug)]
pub(crate) struct Leaving {
    pub(crate) addr: SocketAddr,
    /// When its socket is closed; `None` while some association needs it.
    pub(crate) until: Option<Time>,
}

/// Totals over all associations of an endpoint, including closed ones.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Totals {
    /// Associations, including those never established.
    pub associations: u64,
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// SCTP packets received.
    pub packets_received: u64,
    /// DATA chunks retransmitted for any reason.
    pub retransmitted_chunks: u64,
}

impl Totals {
    pub(crate) fn add(&mut self, stats: &sctp::Stats) {
        self.associations += 1;
        for path in &stats.paths {
            self.packets_sent += path.packets_sent;
            self.packets_received += path.packets_received;
            self.retransmitted_chunks += path.retransmitted_chunks;
        }
    }
}

/// The state of an endpoint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Phase {
    /// New associations are accepted.
    Open,
    /// All associations are being shut down; those left at `until` are aborted.
    Closing {
        /// The time limit.
        until: Time,
    },
    /// The task has ended.
    Ended,
    /// The task panicked: a bug of this program.
    Failed,
}

/// The notifications of one association's users.
#[derive(Debug, Default)]
pub(crate) struct Signals {
    /// A stream is readable.
    pub(crate) readable: Notify,
    /// The send buffer has room.
    pub(crate) writable: Notify,
    /// An event happened.
    pub(crate) state: Notify,
}

/// One association from the view of its users.
#[derive(Debug)]
pub(crate) struct Seat {
    pub(crate) signals: Arc<Signals>,
    /// Created when a task first waits for that stream; at most as many as inbound streams.
    pub(crate) streams: BTreeMap<StreamId, Arc<Notify>>,
    pub(crate) up: Option<Up>,
    /// Whether the peer has shut down.
    pub(crate) peer_is_done: bool,
    pub(crate) closed: Option<Reason>,
    /// Events that the user has not read.
    pub(crate) events: Events,
    /// Whether the association goes on if the peer restarts.
    pub(crate) accepts_restarts: bool,
    /// Whether a handle exists or may still be accepted; otherwise received messages are discarded.
    pub(crate) held: bool,
    /// Its protection, if it must be protected.
    pub(crate) protection: Option<Box<Protection>>,
}

impl Seat {
    pub(crate) fn new() -> Self {
        Self {
            signals: Arc::default(),
            streams: BTreeMap::new(),
            up: None,
            peer_is_done: false,
            closed: None,
            events: Events::default(),
            accepts_restarts: false,
            held: true,
            protection: None,
        }
    }

    /// The state of an association that must be protected.
    pub(crate) fn protected(settings: Option<Arc<Settings>>) -> Self {
        let protection = settings.map(|settings| Box::new(Protection::new(settings)));
        Self { protection, ..Self::new() }
    }

    /// The association can be used from now on.
    pub(crate) fn on_up(&mut self, up: Up) {
        self.up = Some(up);
        self.tell(events::Event::Up(up));
    }

    /// Keeps an event for the users, and wakes those who wait for one.
    fn tell(&mut self, event: events::Event) {
        self.events.push(event);
        self.signals.state.notify_waiters();
    }

    fn wake_readers(&self) {
        self.signals.readable.notify_waiters();
        for stream in self.streams.values() {
            stream.notify_waiters();
        }
    }

    fn wake_all(&self) {
        self.wake_readers();
        self.signals.writable.notify_waiters();
        self.signals.state.notify_waiters();
    }
}

/// The port is not, or no longer, listened on.
#[derive(Debug)]
pub(crate) struct NobodyListens;

/// Associations that peers opened on one port, waiting to be accepted.
#[derive(Debug, Default)]
pub(crate) struct Backlog {
    pub(crate) waiting: VecDeque<AssociationId>,
    pub(crate) arrived: Arc<Notify>,
    /// The protection of new associations, if there is any.
    pub(crate) protection: Option<Arc<Settings>>,
}

impl Core {
    /// Processes an event of an association.
    pub(crate) fn on_event(&mut self, now: Time, id: AssociationId, event: Event) {
        match event {
            Event::Accepted => return self.on_accepted(id),
            Event::Dtls(event) => return self.on_keys(now, id, Some(event)),
            _ => {}
        }
        let name_of = |path| Some(PathName::of_view(&self.machine.association(id)?.path(path)?));
        let news = news_of(&event, name_of);
        let Some(seat) = self.seats.get_mut(&id) else { return };
        if let Some(news) = news {
            debug!(association = id.0, ?news);
            seat.tell(news);
        }
        match event {
            Event::Up { outbound_streams, inbound_streams, adaptation } => {
                let up = Up { outbound_streams, inbound_streams, adaptation };
                match &mut seat.protection {
                    Some(protection) if !protection.is_up() => protection.up = Some(up),
                    _ => seat.on_up(up),
                }
            }
            // By default the users must connect again: they communicated with the peer that lost its state.
            // Keys are not agreed anew on an association that goes on.
            Event::Restarted if seat.accepts_restarts && seat.protection.is_none() => {}
            Event::Restarted => {
                if let Some(association) = self.machine.association_mut(id) {
                    association
                        .abort(Bytes::from_static(b"the association before the restart is still held"));
                }
            }
            Event::Readable(stream) if seat.held => {
                seat.signals.readable.notify_waiters();
                if let Some(stream) = seat.streams.get(&stream) {
                    stream.notify_waiters();
                }
            }
            Event::Readable(_) => self.discard(id),
            Event::Writable => seat.signals.writable.notify_waiters(),
            Event::StreamChange { outbound_streams, inbound_streams, .. } => {
                seat.up = seat.up.map(|up| Up { outbound_streams, inbound_streams, ..up });
            }
            Event::PeerShutdown => {
                seat.peer_is_done = true;
                seat.wake_readers();
            }
            Event::PeerWindowClosed => debug!(association = id.0, "data waits: {}", Stall::PeerWindow),
            Event::Closed(reason) => self.on_closed(id, reason),
            _ => {}
        }
    }

    fn on_closed(&mut self, id: AssociationId, reason: Reason) {
        debug!(association = id.0, ?reason, "closed");
        let Some(seat) = self.seats.get_mut(&id) else { return };
        self.open -= usize::from(seat.closed.is_none());
        seat.closed = Some(reason);
        seat.wake_all();
        let held = seat.held;
        // An association that ended before its peer was authenticated is never accepted.
        let is_wanted = seat.protection.as_deref().is_none_or(Protection::is_up) || !self.withdraw(id);
        self.stop_keys(id);
        if !held || !is_wanted {
            self.forget(id);
        }
    }

    fn on_accepted(&mut self, id: AssociationId) {
        let Some(association) = self.machine.association_mut(id) else { return };
        let backlog = self.backlogs.get_mut(&association.ports().0);
        let settings = backlog.as_ref().and_then(|backlog| backlog.protection.clone());
        // In loose mode, a peer without support is not protected. In strict mode there is no such
        // association.
        let agreed = association.dtls_agreement().is_some();
        let settings = settings.filter(|settings| agreed || settings.mode == Mode::Strict);
        let mut seat = Seat::protected(settings);
        match backlog.filter(|backlog| backlog.waiting.len() < MAX_BACKLOG) {
            Some(backlog) if self.phase == Phase::Open => {
                backlog.waiting.push_back(id);
                self.unanswered.push(id);
            }
            _ => {
                seat.held = false;
                association.abort(Bytes::from_static(b"nobody takes associations here now"));
            }
        }
        self.seat(id, seat);
    }

    /// Returns the next association on `port` that can be accepted: its COOKIE ACK was sent, and it is
    /// protected if required.
    pub(crate) fn accept(&mut self, port: u16) -> Result<Option<AssociationId>, NobodyListens> {
        let waiting = &mut self.backlogs.get_mut(&port).ok_or(NobodyListens)?.waiting;
        let is_ready = |id: &AssociationId| {
            let protection = self.seats.get(id).and_then(|seat| seat.protection.as_deref());
            !self.unanswered.contains(id) && protection.is_none_or(Protection::is_up)
        };
        let ready = waiting.iter().position(is_ready);
        Ok(ready.and_then(|ready| waiting.remove(ready)))
    }

    /// Makes associations acceptable whose COOKIE ACK was sent meanwhile, or never will be.
    ///
    /// The endpoint reports an association before it builds that packet, and packets of other
    /// associations may be sent in between, while a user could already access it. An abort would then be
    /// sent instead of COOKIE ACK: the peer would be rejected, and its user would never learn that the
    /// association was established.
    pub(crate) fn accept_answered(&mut self) {
        let Self { unanswered, machine, seats, backlogs, .. } = self;
        let before = unanswered.len();
        unanswered.retain(|&id| {
            let open = seats.get(&id).is_some_and(|seat| seat.held && seat.closed.is_none());
            let association = machine.association(id).filter(|_| open);
            let Some(association) = association else { return false };
            // The path of the handshake comes first.
            association.stats().paths.first().is_some_and(|path| path.packets_sent == 0)
        });
        if unanswered.len() < before {
            backlogs.values().for_each(|backlog| backlog.arrived.notify_waiters());
        }
    }

    /// Adds the user state of a new association.
    pub(crate) fn seat(&mut self, id: AssociationId, seat: Seat) {
        self.open += 1;
        let before = self.seats.insert(id, seat);
        assert!(before.is_none(), "an AssociationId is never used twice");
    }

    /// The last handle of `id` was dropped: finishes sending, and discards received messages.
    pub(crate) fn release(&mut self, id: AssociationId) {
        let Some(seat) = self.seats.get_mut(&id) else { return };
        seat.held = false;
        if seat.closed.is_some() {
            self.forget(id);
            return;
        }
        if let Some(association) = self.machine.association_mut(id) {
            association.shutdown();
        }
        self.discard(id);
    }

    /// Starts closing everything, with the time limit `until`.
    pub(crate) fn close(&mut self, until: Time) {
        match &mut self.phase {
            Phase::Open => self.phase = Phase::Closing { until },
            Phase::Closing { until: before } => *before = until.min(*before),
            Phase::Ended | Phase::Failed => return,
        }
        let ports: Vec<u16> = self.backlogs.keys().copied().collect();
        for port in ports {
            self.unlisten(port);
        }
        for id in self.seats.keys() {
            if let Some(association) = self.machine.association_mut(*id) {
                association.shutdown();
            }
        }
    }

    /// Stops listening; associations that were not accepted are shut down.
    pub(crate) fn unlisten(&mut self, port: u16) {
        self.machine.unlisten(port);
        let Some(backlog) = self.backlogs.remove(&port) else { return };
        backlog.arrived.notify_waiters();
        for id in backlog.waiting {
            self.release(id);
        }
    }

    /// Aborts all associations that are not closed.
    pub(crate) fn abort_all(&mut self, why: &'static [u8]) {
        for (id, seat) in &self.seats {
            if seat.closed.is_none()
                && let Some(association) = self.machine.association_mut(*id)
            {
                association.abort(Bytes::from_static(why));
            }
        }
    }

    /// Whether there is no handle left.
    pub(crate) fn has_no_handles(&self) -> bool {
        self.endpoints == 0 && self.backlogs.is_empty() && !self.seats.values().any(|seat| seat.held)
    }

    /// The task is ending: wakes all waiting callers.
    pub(crate) fn end(&mut self, reason: &Reason) {
        self.phase = if std::thread::panicking() { Phase::Failed } else { Phase::Ended };
        self.open = 0;
        for seat in self.seats.values_mut() {
            seat.closed.get_or_insert_with(|| reason.clone());
            seat.wake_all();
        }
        for backlog in std::mem::take(&mut self.backlogs).into_values() {
            backlog.arrived.notify_waiters();
        }
    }

    /// Removes an association from those waiting to be accepted; returns whether it was one of them.
    fn withdraw(&mut self, id: AssociationId) -> bool {
        let waiting = self.backlogs.values_mut().map(|backlog| &mut backlog.waiting);
        let found = waiting.filter_map(|waiting| {
            let at = waiting.iter().position(|it| *it == id)?;
            waiting.remove(at)
        });
        found.count() > 0
    }

    fn discard(&mut self, id: AssociationId) {
        let Some(association) = self.machine.association_mut(id) else { return };
        while let Some(stream) = association.readable() {
            while association.recv(stream).is_some() {}
        }
    }

    fn forget(&mut self, id: AssociationId) {
        self.stop_keys(id);
        if let Some(association) = self.machine.association(id) {
            self.forgotten.add(&association.stats());
        }
        self.machine.remove(id);
        self.seats.remove(&id);
    }
}
