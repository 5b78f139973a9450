//! What happened to an association (RFC 6458 §6.1): the notifications that are not readiness.

use std::collections::VecDeque;
use std::net::SocketAddr;

use braidftp_sctp::wire::Cause;
use braidftp_sctp::{
    self as sctp, Abandoned, AuthEvent, Direction, Outcome, PathId, PathState, Streams, Tsn,
};

use crate::path_name::PathName;
use crate::up::Up;

/// The maximum number of events kept for an association that nobody reads.
pub(crate) const EVENTS_MAX: usize = 64;

/// The maximum number of bytes of the lists in these events, which the peer may have sent.
pub(crate) const EVENTS_BYTES_MAX: usize = 8 * 1024;

/// An event of an association, as returned by [`Association::event`](crate::Association::event).
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub enum Event {
    /// The association is established, and its peer authenticated if it is protected (SCTP_COMM_UP, RFC 6458
    /// §6.1.1; SCTP_ADAPTATION_INDICATION, §6.1.6).
    Up(Up),
    /// The peer restarted and the association continues (SCTP_RESTART, §6.1.1): messages under way in
    /// either direction may be lost, and all streams start from the beginning. Only if
    /// [`accept_restarts`](crate::Association::accept_restarts) was called; otherwise the association ends.
    Restarted,
    /// The state of a path changed (SCTP_PEER_ADDR_CHANGE, §6.1.2).
    Path {
        /// The path.
        path: PathName,
        /// The new state.
        state: PathState,
    },
    /// The peer's addresses changed (SCTP_PEER_ADDR_CHANGE, §6.1.2; RFC 5061).
    PeerAddress {
        /// The peer's address.
        address: SocketAddr,
        /// What changed.
        change: AddressChange,
    },
    /// The result of a requested change of a local address (RFC 5061).
    LocalAddress {
        /// The local address.
        address: SocketAddr,
        /// What changed, or that the peer refused the change.
        change: AddressChange,
    },
    /// A message was abandoned, as its [`Reliability`](sctp::Reliability) permits, or the association ended
    /// without confirmation that it arrived (SCTP_SEND_FAILED_EVENT, §6.1.11).
    Abandoned(Abandoned),
    /// An event of authentication (SCTP_AUTHENTICATION_EVENT, §6.1.8).
    Authentication(AuthEvent),
    /// The peer reported errors that do not end the association: their cause codes (SCTP_REMOTE_ERROR, §6.1.3;
    /// RFC 9260 §3.3.10).
    PeerError(Vec<u16>),
    /// Streams were reset, or a requested reset failed (SCTP_STREAM_RESET_EVENT, RFC 6525 §6.1.1).
    StreamReset {
        /// The direction of the streams.
        direction: Direction,
        /// The streams.
        streams: Streams,
        /// The result of the request.
        outcome: Outcome,
    },
    /// All streams and TSNs were reset, or a requested reset failed (SCTP_ASSOC_RESET_EVENT, RFC 6525 §6.1.2).
    AssociationReset {
        /// The result of the request.
        outcome: Outcome,
        /// The next TSN of this side.
        local_tsn: Tsn,
        /// The next TSN of the peer.
        peer_tsn: Tsn,
    },
    /// Streams were added, or a requested addition failed (SCTP_STREAM_CHANGE_EVENT, RFC 6525 §6.1.3).
    StreamChange {
        /// The number of outbound streams.
        outbound_streams: u16,
        /// The number of inbound streams.
        inbound_streams: u16,
        /// The result of the request.
        outcome: Outcome,
    },
    /// The peer's receive window has been closed for a retransmission time-out, and data waits: see
    /// [`Stats::stall`](sctp::Stats::stall). Once until data is sent again.
    PeerWindowClosed,
    /// The peer shut down: it sends no new data, and this side cannot send any more (SCTP_SHUTDOWN_EVENT, §6.1.5).
    PeerShutdown,
    /// This many events were dropped, oldest first, because they were not read in time: at most 64 events and
    /// 8 KiB of their lists are kept.
    Missed(u64),
}

/// A change of an address (RFC 5061).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressChange {
    /// The address was added. The state of its path says whether it can be used.
    Added,
    /// The address was removed.
    Removed,
    /// The address became the primary destination of the other side.
    MadePrimary,
    /// The peer refused the requested change of this address.
    Refused {
        /// The peer's cause code, if it sent one.
        cause: Option<u16>,
    },
}

// What the events of the core contain of a packet would keep the buffer of the whole packet.
impl From<&sctp::AddressChange> for AddressChange {
    fn from(change: &sctp::AddressChange) -> Self {
        match change {
            sctp::AddressChange::Added => Self::Added,
            sctp::AddressChange::Removed => Self::Removed,
            sctp::AddressChange::MadePrimary => Self::MadePrimary,
            sctp::AddressChange::Refused(cause) => Self::Refused { cause: cause.as_ref().map(Cause::code) },
        }
    }
}

impl Event {
    /// Bytes of lists, which are as long as the peer made them.
    fn list_bytes(&self) -> usize {
        match self {
            Self::PeerError(causes) => size_of_val(causes.as_slice()),
            Self::StreamReset { streams: Streams::These(list), .. } => size_of_val(list.as_slice()),
            _ => 0,
        }
    }
}

/// Events that were not read yet.
#[derive(Debug, Default)]
pub(crate) struct Events {
    queue: VecDeque<Event>,
    list_bytes: usize,
    missed: u64,
}

impl Events {
    /// Adds an event; drops the oldest ones if there are too many.
    pub(crate) fn push(&mut self, event: Event) {
        self.list_bytes += event.list_bytes();
        if self.queue.capacity() == 0 {
            // Often nobody reads the first event, and none follows.
            self.queue.reserve_exact(1);
        }
        self.queue.push_back(event);
        while self.queue.len() > EVENTS_MAX || self.list_bytes > EVENTS_BYTES_MAX {
            let Some(oldest) = self.queue.pop_front() else { return };
            self.list_bytes -= oldest.list_bytes();
            self.missed += 1;
        }
    }

    /// Removes the oldest event.
    pub(crate) fn pop(&mut self) -> Option<Event> {
        if self.missed > 0 {
            return Some(Event::Missed(std::mem::take(&mut self.missed)));
        }
        let event = self.queue.pop_front()?;
        self.list_bytes -= event.list_bytes();
        Some(event)
    }
}

/// What users learn of an event of the core; `None` if they wait for it in another way. `name_of` names a path.
pub(crate) fn news_of(
    event: &sctp::Event,
    name_of: impl FnOnce(PathId) -> Option<PathName>,
) -> Option<Event> {
    Some(match event {
        sctp::Event::Accepted
        | sctp::Event::Dtls(_)
        | sctp::Event::Readable(_)
        | sctp::Event::Writable
        | sctp::Event::Up { .. }
        | sctp::Event::Closed(_) => return None,
        sctp::Event::Restarted => Event::Restarted,
        sctp::Event::Path(path, state) => Event::Path { path: name_of(*path)?, state: *state },
        sctp::Event::PeerAddress(address, change) => {
            Event::PeerAddress { address: *address, change: change.into() }
        }
        sctp::Event::LocalAddress(address, change) => {
            Event::LocalAddress { address: *address, change: change.into() }
        }
        sctp::Event::Abandoned(message) => Event::Abandoned(*message),
        sctp::Event::Authentication(event) => Event::Authentication(*event),
        sctp::Event::PeerError(causes) => Event::PeerError(causes.iter().map(Cause::code).collect()),
        sctp::Event::StreamReset { direction, streams, outcome } => {
            Event::StreamReset { direction: *direction, streams: streams.clone(), outcome: *outcome }
        }
        sctp::Event::AssociationReset { outcome, local_tsn, peer_tsn } => {
            Event::AssociationReset { outcome: *outcome, local_tsn: *local_tsn, peer_tsn: *peer_tsn }
        }
        sctp::Event::StreamChange { outbound_streams, inbound_streams, outcome } => {
            let (outbound_streams, inbound_streams) = (*outbound_streams, *inbound_streams);
            Event::StreamChange { outbound_streams, inbound_streams, outcome: *outcome }
        }
        sctp::Event::PeerWindowClosed => Event::PeerWindowClosed,
        sctp::Event::PeerShutdown => Event::PeerShutdown,
    })
}

#[cfg(test)]
mod tests {
    use braidftp_sctp::StreamId;

    use super::*;

    #[test]
    fn the_oldest_events_are_dropped_and_counted() {
        let mut events = Events::default();
        for tsn in 0..EVENTS_MAX as u32 + 3 {
            let (local_tsn, peer_tsn) = (Tsn(tsn), Tsn(0));
            events.push(Event::AssociationReset { outcome: Outcome::Done, local_tsn, peer_tsn });
        }
        assert_eq!(events.pop(), Some(Event::Missed(3)));
        let Some(Event::AssociationReset { local_tsn, .. }) = events.pop() else {
            panic!("an event is lost")
        };
        assert_eq!(local_tsn, Tsn(3));
        assert_eq!(std::iter::from_fn(|| events.pop()).count(), EVENTS_MAX - 1);
    }

    #[test]
    fn lists_of_the_peer_are_bounded_in_bytes() {
        let reset = |len: usize| Event::StreamReset {
            direction: Direction::Incoming,
            streams: Streams::These(vec![StreamId(1); len]),
            outcome: Outcome::Done,
        };
        let mut events = Events::default();
        (0..10).for_each(|_| events.push(reset(1_000)));
        assert_eq!(events.list_bytes, 8_000);
        assert_eq!(events.pop(), Some(Event::Missed(6)));
        events.push(reset(EVENTS_BYTES_MAX));
        assert_eq!((events.queue.len(), events.list_bytes, events.missed), (0, 0, 5));
        events.push(Event::PeerShutdown);
        assert_eq!(events.pop(), Some(Event::Missed(5)));
        assert_eq!(events.pop(), Some(Event::PeerShutdown));
        assert_eq!(events.pop(), None);
    }
}
