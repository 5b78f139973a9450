//! Notifications (RFC 6458 §6.1, RFC 6525 §6.1): the events of an association as the bytes of C's structures.

use braidftp_net::sctp::{Abandoned, Direction, Outcome};
use braidftp_net::{
    AddressChange, Association, Event, Order, PathName, PathState, Piece, Reason, StreamId, Streams, Up,
};

use crate::abi::*;
use crate::address::Address;
use crate::socket::{Item, Socket};

/// The types of notifications that a program may subscribe to.
pub(crate) const OFFERED: &[u16] = &[
    SCTP_ASSOC_CHANGE,
    SCTP_PEER_ADDR_CHANGE,
    SCTP_REMOTE_ERROR,
    SCTP_SEND_FAILED_EVENT,
    SCTP_SHUTDOWN_EVENT,
    SCTP_ADAPTATION_INDICATION,
    SCTP_PARTIAL_DELIVERY_EVENT,
    SCTP_STREAM_RESET_EVENT,
    SCTP_ASSOC_RESET_EVENT,
    SCTP_STREAM_CHANGE_EVENT,
];

/// Makes the notifications of one association.
pub(crate) struct Notices<'a> {
    pub(crate) socket: &'a Socket,
    pub(crate) association: &'a Association,
    pub(crate) id: sctp_assoc_t,
}

/// The bytes of a notification.
struct Writer(Vec<u8>);

impl Writer {
    fn new(kind: u16, flags: u16) -> Self {
        Self(Vec::new()).u16(kind).u16(flags).u32(0)
    }

    fn bytes(mut self, bytes: &[u8]) -> Self {
        self.0.extend_from_slice(bytes);
        self
    }

    fn u16(self, value: u16) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    fn u32(self, value: u32) -> Self {
        self.bytes(&value.to_ne_bytes())
    }

    fn address(self, address: Address, mapped: bool) -> Self {
        let mut storage = address.to_bytes(mapped);
        storage.resize(size_of::<libc::sockaddr_storage>(), 0);
        self.bytes(&storage)
    }

    /// Fills in the length.
    fn finish(mut self) -> Vec<u8> {
        let length = (self.0.len() as u32).to_ne_bytes();
        self.0[4..8].copy_from_slice(&length);
        self.0
    }
}

impl Notices<'_> {
    /// The notifications of an event that the program subscribed to.
    pub(crate) fn of(&self, event: &Event) -> Vec<Item> {
        let bytes = match event {
            Event::Up(up) => return self.up(*up),
            Event::Restarted => self.association_change(SCTP_RESTART, 0, self.extensions()),
            Event::Path { path, state } => self.path(*path, *state),
            Event::PeerAddress { address, change } => self.peer_address(*address, *change),
            Event::Abandoned(message) => self.abandoned(message),
            Event::PeerError(causes) => {
                return causes.iter().filter_map(|cause| self.item(self.peer_error(*cause))).collect();
            }
            Event::StreamReset { direction, streams, outcome } => {
                self.stream_reset(*direction, streams, *outcome)
            }
            Event::AssociationReset { outcome, local_tsn, peer_tsn } => {
                let flags = failure(*outcome, SCTP_ASSOC_RESET_DENIED, SCTP_ASSOC_RESET_FAILED);
                let head = Writer::new(SCTP_ASSOC_RESET_EVENT, flags).u32(self.id);
                head.u32(local_tsn.0).u32(peer_tsn.0).finish()
            }
            Event::StreamChange { outbound_streams, inbound_streams, outcome } => {
                let flags = failure(*outcome, SCTP_STREAM_CHANGE_DENIED, SCTP_STREAM_CHANGE_FAILED);
                let head = Writer::new(SCTP_STREAM_CHANGE_EVENT, flags).u32(self.id);
                head.u16(*inbound_streams).u16(*outbound_streams).finish()
            }
            Event::PeerShutdown => Writer::new(SCTP_SHUTDOWN_EVENT, 0).u32(self.id).finish(),
            _ => return Vec::new(),
        };
        self.item(bytes).into_iter().collect()
    }

    /// The notification that the association has ended.
    pub(crate) fn end(&self, reason: &Reason, was_up: bool) -> Option<Item> {
        let state = match reason {
            Reason::Shutdown => SCTP_SHUTDOWN_COMP,
            _ if was_up => SCTP_COMM_LOST,
            _ => SCTP_CANT_STR_ASSOC,
        };
        let error = match reason {
            Reason::PeerAborted(causes) => causes.first().map_or(0, |cause| cause.code()),
            _ => 0,
        };
        self.item(self.association_change(state, error, Vec::new()))
    }

    /// The notification that the rest of a message will not arrive.
    pub(crate) fn partial_delivery_aborted(&self, stream: StreamId, piece: &Piece) -> Option<Item> {
        let head = Writer::new(SCTP_PARTIAL_DELIVERY_EVENT, 0).u32(SCTP_PARTIAL_DELIVERY_ABORTED);
        self.item(head.u32(stream.0.into()).u32(piece.number).u32(self.id).finish())
    }

    /// The notification, if the program subscribed to its type.
    fn item(&self, bytes: Vec<u8>) -> Option<Item> {
        let kind = u16::from_ne_bytes([bytes[0], bytes[1]]);
        let is_wanted = self.socket.lock().options.wants(kind);
        is_wanted.then(|| Item::notification(bytes, self.socket.peer_of(self.association)))
    }

    fn up(&self, up: Up) -> Vec<Item> {
        let change = self.association_change(SCTP_COMM_UP, 0, self.extensions());
        let adaptation = up
            .adaptation
            .map(|code| Writer::new(SCTP_ADAPTATION_INDICATION, 0).u32(code).u32(self.id).finish());
        [Some(change), adaptation].into_iter().flatten().filter_map(|bytes| self.item(bytes)).collect()
    }

    fn association_change(&self, state: u16, error: u16, info: Vec<u8>) -> Vec<u8> {
        let stats = self.association.stats();
        let head = Writer::new(SCTP_ASSOC_CHANGE, 0).u16(state).u16(error);
        let head = head.u16(stats.outbound_streams).u16(stats.inbound_streams).u32(self.id);
        head.bytes(&info).finish()
    }

    /// The extensions that both sides use.
    fn extensions(&self) -> Vec<u8> {
        let extensions = self.association.stats().extensions.unwrap_or_default();
        let all = [
            (SCTP_ASSOC_SUPPORTS_PR, extensions.forward_tsn || extensions.i_forward_tsn),
            (SCTP_ASSOC_SUPPORTS_AUTH, extensions.auth),
            (SCTP_ASSOC_SUPPORTS_ASCONF, extensions.asconf),
            // Messages of several streams may be sent at once.
            (SCTP_ASSOC_SUPPORTS_MULTIBUF, true),
            (SCTP_ASSOC_SUPPORTS_RE_CONFIG, extensions.reconfiguration),
            (SCTP_ASSOC_SUPPORTS_INTERLEAVING, extensions.interleaving),
        ];
        all.iter().filter(|(_, used)| *used).map(|(extension, _)| *extension).collect()
    }

    fn path(&self, path: PathName, state: PathState) -> Vec<u8> {
        let state = match state {
            PathState::Active => SCTP_ADDR_AVAILABLE,
            PathState::Removed => SCTP_ADDR_REMOVED,
            _ => SCTP_ADDR_UNREACHABLE,
        };
        self.address_change(path.peer, state)
    }

    fn peer_address(&self, address: std::net::SocketAddr, change: AddressChange) -> Vec<u8> {
        let state = match change {
            AddressChange::Added => SCTP_ADDR_ADDED,
            AddressChange::Removed => SCTP_ADDR_REMOVED,
            AddressChange::MadePrimary => SCTP_ADDR_MADE_PRIM,
            AddressChange::Refused { .. } => SCTP_ADDR_UNREACHABLE,
        };
        self.address_change(address, state)
    }

    fn address_change(&self, address: std::net::SocketAddr, state: u32) -> Vec<u8> {
        let address = Address::of_carrier(self.socket.domain, address, self.association.ports().1);
        let mapped = self.socket.lock().options.maps_v4;
        let head = Writer::new(SCTP_PEER_ADDR_CHANGE, 0).address(address, mapped);
        head.u32(state).u32(0).u32(self.id).u32(0).finish()
    }

    fn abandoned(&self, message: &Abandoned) -> Vec<u8> {
        let flags = if message.was_sent { SCTP_DATA_SENT } else { SCTP_DATA_UNSENT };
        let order = if message.order == Order::Unordered { SCTP_UNORDERED } else { 0 };
        let head = Writer::new(SCTP_SEND_FAILED_EVENT, flags).u32(0);
        let head = head.u16(message.stream.0).u16(order).u32(message.ppid.0.to_be()).u32(message.context);
        head.u32(self.id).u32(self.id).finish()
    }

    fn peer_error(&self, cause: u16) -> Vec<u8> {
        Writer::new(SCTP_REMOTE_ERROR, 0).u16(cause).u16(0).u32(self.id).finish()
    }

    fn stream_reset(&self, direction: Direction, streams: &Streams, outcome: Outcome) -> Vec<u8> {
        let direction = match direction {
            Direction::Incoming => SCTP_STREAM_RESET_INCOMING_SSN,
            Direction::Outgoing => SCTP_STREAM_RESET_OUTGOING_SSN,
        };
        let flags = direction | failure(outcome, SCTP_STREAM_RESET_DENIED, SCTP_STREAM_RESET_FAILED);
        let head = Writer::new(SCTP_STREAM_RESET_EVENT, flags).u32(self.id);
        let list: &[StreamId] = match streams {
            Streams::All => &[],
            Streams::These(list) => list,
        };
        list.iter().fold(head, |head, stream| head.u16(stream.0)).finish()
    }
}

/// The flag of a failed request.
fn failure(outcome: Outcome, denied: u16, failed: u16) -> u16 {
    match outcome {
        Outcome::Done => 0,
        Outcome::Denied => denied,
        Outcome::Failed => failed,
    }
}
