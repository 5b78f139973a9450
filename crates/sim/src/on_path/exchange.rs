//! The application of both hosts: ordered messages on two streams of each association, and a check of what arrives.

use std::collections::BTreeMap;

use braidftp_base::Time;
use braidftp_sctp::{AssociationId, Endpoint, Event, Message, Ppid, Reason, SendError, StreamId};
use bytes::Bytes;

use super::CLIENT_PORTS;
use crate::host::{App, Endpoints};

/// The streams that carry messages in turn. Stream 0 also carries key management messages.
const STREAMS: u64 = 2;

/// The sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Side {
    Client,
    Server,
}

/// One side of both associations.
#[derive(Debug)]
pub(super) struct Exchange {
    side: Side,
    /// The number of messages in each association.
    messages: u64,
    /// Whether to send.
    is_begun: bool,
    associations: BTreeMap<AssociationId, State>,
    fault: Option<String>,
}

#[derive(Debug, Default)]
struct State {
    client_port: u16,
    sent: u64,
    /// By stream: the number of complete messages, and the beginning of the next one.
    received: [u64; STREAMS as usize],
    partial: [Vec<u8>; STREAMS as usize],
    is_up: bool,
    closed: Option<Reason>,
}

impl Exchange {
    pub(super) fn new(side: Side, messages: u64, is_begun: bool) -> Self {
        Self { side, messages, is_begun, associations: BTreeMap::new(), fault: None }
    }

    /// Sends from now on.
    pub(super) fn begin(&mut self) {
        self.is_begun = true;
    }

    pub(super) fn all_up(&self) -> bool {
        self.associations.values().filter(|state| state.is_up).count() == CLIENT_PORTS.len()
    }

    /// Whether the association with this client port is protected.
    pub(super) fn is_protected(&self, client_port: u16) -> bool {
        let mut states = self.associations.values();
        states.any(|state| state.client_port == client_port && state.is_up && state.closed.is_none())
    }

    pub(super) fn has_all(&self) -> bool {
        self.associations.values().all(|state| state.received.iter().sum::<u64>() == self.messages)
    }

    pub(super) fn is_over(&self) -> bool {
        self.associations.values().all(|state| state.closed.is_some())
    }

    pub(super) fn ends(&self) -> impl Iterator<Item = &Reason> {
        self.associations.values().filter_map(|state| state.closed.as_ref())
    }

    /// The number of messages that arrived in all associations.
    pub(super) fn received(&self) -> u64 {
        self.associations.values().flat_map(|state| state.received).sum()
    }

    /// A delivered message that was not sent.
    pub(super) fn fault(&self) -> Option<&str> {
        self.fault.as_deref()
    }

    pub(super) fn shut_down(&mut self, endpoint: &mut Endpoint) {
        for id in self.associations.keys() {
            if let Some(association) = endpoint.association_mut(*id) {
                association.shutdown();
            }
        }
    }

    fn read(&mut self, endpoint: &mut Endpoint, id: AssociationId) {
        let (Some(association), Some(state)) = (endpoint.association_mut(id), self.associations.get_mut(&id))
        else {
            return;
        };
        let peer = if self.side == Side::Client { Side::Server } else { Side::Client };
        while let Some(stream) = association.readable() {
            let Some(piece) = association.recv(stream) else { break };
            let at = usize::from(stream.0);
            if at >= state.partial.len() || piece.ppid != Ppid(0) {
                self.fault = Some(format!("{:?}: a message of {} on {stream:?}", self.side, piece.ppid.0));
                return;
            }
            state.partial[at].extend(piece.payload.concat());
            if piece.end {
                let number = state.received[at] * STREAMS + u64::from(stream.0);
                let message = std::mem::take(&mut state.partial[at]);
                if number >= self.messages || message != message_of(peer, state.client_port, number) {
                    self.fault = Some(format!("{:?}: message {number} on {stream:?} is another", self.side));
                }
                state.received[at] += 1;
            }
        }
    }

    fn write(&mut self, endpoint: &mut Endpoint, id: AssociationId) {
        let (Some(association), Some(state)) = (endpoint.association_mut(id), self.associations.get_mut(&id))
        else {
            return;
        };
        while self.is_begun && state.is_up && state.sent < self.messages {
            let payload = message_of(self.side, state.client_port, state.sent);
            let stream = StreamId((state.sent % STREAMS) as u16);
            match association.send(stream, Message::new(Ppid(0), payload)) {
                Ok(()) => state.sent += 1,
                Err(SendError::Full | SendError::Closed | SendError::ShuttingDown) => return,
                Err(error) => {
                    self.fault = Some(format!("{:?}: a message was refused: {error}", self.side));
                    return;
                }
            }
        }
    }
}

impl App for Exchange {
    fn on_event(&mut self, _now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        let ports = endpoints.sctp.association(id).map(|association| association.ports());
        let state = self.associations.entry(id).or_default();
        if let Some((local, peer)) = ports {
            state.client_port = if self.side == Side::Client { local } else { peer };
        }
        match event {
            Event::Up { .. } => {
                state.is_up = true;
                if !endpoints
                    .sctp
                    .association(id)
                    .is_some_and(|it| it.requires_protection() || self.side == Side::Client)
                {
                    self.fault = Some("an association is up without protection".into());
                }
            }
            Event::Restarted => self.fault = Some("an association was restarted".into()),
            Event::Closed(reason) => state.closed = Some(reason),
            _ => {}
        }
        self.read(&mut endpoints.sctp, id);
    }

    fn wake(&mut self, _now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        let ids: Vec<_> = self.associations.keys().copied().collect();
        ids.into_iter().for_each(|id| self.write(&mut endpoints.sctp, id));
        None
    }
}

/// A message unique to its sender: its length and bytes follow from the sender and the number.
fn message_of(side: Side, client_port: u16, number: u64) -> Bytes {
    let salt = number * 77 + u64::from(client_port) * 13 + side as u64 * 101;
    let length = 200 + (salt * 2_657) % 9_000;
    (0..length).map(|at| ((at * 31) ^ salt ^ (at >> 8)) as u8).collect()
}
