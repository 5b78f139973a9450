//! Two sides that exchange messages known to both beforehand, and check what arrives: ordered messages in
//! order, each exactly once, byte for byte, and no more data held than the configuration allows. A violation
//! panics with a description. The plan also says how an association ends.
//!
//! A message of partial reliability need not arrive; [`Messages::unreliable`] shows whether its abandonment was
//! reported.
//!
//! A host may lose its memory during the run: its user then begins every plan again from the start, in
//! another *life*, whose number is in each message. What is received at any time belongs to one life of the
//! other side, in order and once, and never to an earlier life.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{
    Abandoned, Association, AssociationId, Connect, Endpoint, Event, Message, Order, PathStats, Piece, Ppid,
    Reason, Reliability, SendError, StreamId,
};
use bytes::Bytes;

use crate::host::{App, Endpoints};

/// The largest packet of any configuration in bytes.
const CHUNK_MAX: usize = 9_000;

/// A planned message: its contents follow from the sender, the stream and the number.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Planned {
    /// Its stream.
    pub stream: StreamId,
    /// Its length in bytes. An unordered message has at least four bytes, for its number.
    pub bytes: usize,
    /// Whether it is ordered.
    pub order: Order,
    /// Its number among those of its stream and order.
    pub number: u32,
    /// Its partial reliability.
    pub reliability: Reliability,
}

impl Planned {
    /// Whether it must arrive.
    fn is_reliable(&self) -> bool {
        self.reliability == Reliability::Full
    }

    fn key(&self) -> Key {
        (self.stream, self.order == Order::Unordered, self.number)
    }

    fn payload(self, from: Sender) -> Bytes {
        let salt = (self.number.wrapping_mul(0x9e37_79b9) >> 8) as usize
            + usize::from(self.stream.0) * 7
            + from.side as usize * 101
            + usize::from(from.life) * 43;
        let mut payload: Vec<u8> = (0..self.bytes).map(|at| (at ^ (at >> 8) ^ salt) as u8).collect();
        if self.order == Order::Unordered {
            payload[..4].copy_from_slice(&self.number.to_be_bytes());
        }
        payload.into()
    }

    /// Its payload protocol identifier: the life of its sender, and its number.
    fn ppid(self, from: Sender) -> Ppid {
        Ppid(u32::from(from.life) << 24 | self.number)
    }
}

/// A message of one side: its stream, whether it is unordered, and its number.
pub type Key = (StreamId, bool, u32);

/// The fate of the messages of partial reliability.
#[derive(Debug, Clone, Default)]
pub struct Unreliable {
    /// Messages that the association accepted.
    pub accepted: BTreeSet<Key>,
    /// Those that it abandoned, and whether they had been sent.
    pub abandoned: BTreeMap<Key, bool>,
    /// Messages of the other side that arrived.
    pub received: BTreeSet<Key>,
}

/// The origin of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Sender {
    side: Side,
    life: u8,
}

/// The sender.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Side {
    /// The side that opens the association.
    Client,
    /// The side that accepts it.
    Server,
}

/// How an application reads.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ReadPolicy {
    /// Everything available, at once.
    Eager,
    /// A number of bytes at a time.
    Paced {
        /// At least this many bytes, or all available ones.
        bytes: usize,
        /// The interval.
        every: Duration,
    },
}

/// The messages of one association.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Plan {
    /// What the client sends, in this order.
    pub client_sends: Vec<Planned>,
    /// What the server sends, in this order.
    pub server_sends: Vec<Planned>,
    /// How either reads.
    pub read_policy: ReadPolicy,
    /// How it ends.
    pub ending: Ending,
    /// The receive buffers of client and server, in bytes.
    pub receive_buffers: [usize; 2],
}

/// How an association ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// These sides shut it down, each once it has sent and received everything.
    Complete(&'static [Side]),
    /// This side shuts it down once all its messages are queued. What the other side has queued by then is
    /// still delivered.
    Early(Side),
    /// This side aborts it after it received this many messages, or all.
    Abort(Side, usize),
}

/// Numbers messages given as stream, length and order.
pub fn numbered(messages: impl IntoIterator<Item = (StreamId, usize, Order)>) -> Vec<Planned> {
    let mut next: BTreeMap<(StreamId, bool), u32> = BTreeMap::new();
    let number = |(stream, bytes, order): (StreamId, usize, Order)| {
        let unordered = order == Order::Unordered;
        let next = next.entry((stream, unordered)).or_default();
        *next += 1;
        let bytes = bytes.max(if unordered { 4 } else { 1 });
        Planned { stream, bytes, order, number: *next - 1, reliability: Reliability::Full }
    };
    messages.into_iter().map(number).collect()
}

/// One side's user of its endpoint, over any number of associations.
#[derive(Debug)]
pub struct Messages {
    side: Side,
    exchanges: BTreeMap<AssociationId, Exchange>,
    /// The plans of the associations, by the client's port.
    plans: BTreeMap<u16, Plan>,
    /// On the side that opens associations: the parameters.
    dial: Option<Connect>,
    lives: BTreeMap<u16, Lives>,
    /// Whether the other host may have lost its memory.
    restarts: Restarts,
    /// The number of times this host lost its memory.
    forgot: u32,
}

/// Whether one of the hosts may lose its memory.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Restarts {
    /// Both keep their memory.
    Never,
    /// They may lose it: associations may break, and are opened again.
    Perhaps,
}

/// The lives of both sides in the associations of one port of the client.
#[derive(Debug, Default)]
struct Lives {
    /// The number of lives of this side.
    own: u8,
    /// The lives of the other side from which messages arrived.
    peer: BTreeSet<u8>,
}

/// The maximum number of times an association is opened.
const LIVES_MAX: u8 = 50;

/// One association of a plan.
#[derive(Debug)]
struct Exchange {
    client_port: u16,
    /// The life of this side in this association.
    life: u8,
    /// The life of the other side, once a message has arrived.
    peer_life: Option<u8>,
    to_send: VecDeque<Planned>,
    /// The next message to send, once created.
    ready: Option<Message>,
    /// The messages still to come, in order for each stream.
    ordered: BTreeMap<StreamId, VecDeque<Planned>>,
    unordered: BTreeMap<(StreamId, u32), Planned>,
    /// The incomplete message of each stream.
    partial: BTreeMap<StreamId, Vec<u8>>,
    read_policy: ReadPolicy,
    ending: Ending,
    /// Whether this side opened the association although the client opens it too.
    collided: bool,
    receive_buffer: usize,
    next_read: Time,
    closed: Option<Reason>,
    /// Whether this side has done its part of the ending.
    ended: bool,
    /// The number of messages that the association accepted.
    accepted: usize,
    /// The number of messages that arrived.
    received: usize,
    /// Messages that may be abandoned, which neither of these counts.
    unreliable: Unreliable,
    /// Packets sent and received at the last check of the core's invariants.
    looked_at: (u64, u64),
}

/// The results of one side in an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tally {
    /// The association.
    pub id: AssociationId,
    /// The number of messages that the association accepted.
    pub accepted: usize,
    /// The number of messages that arrived, each as planned.
    pub received: usize,
    /// The number of messages not accepted, or not arrived.
    pub left: usize,
    /// Whether it has ended.
    pub is_over: bool,
}

impl Messages {
    /// The side that opens associations with [`Messages::open`], like `dial` except for the port, for
    /// these plans.
    pub fn client(plans: BTreeMap<u16, Plan>, dial: Connect, restarts: Restarts) -> Self {
        Self { dial: Some(dial), ..Self::new(Side::Client, plans, restarts) }
    }

    /// The side that accepts associations, for these plans by the client's port.
    pub fn server(plans: BTreeMap<u16, Plan>, restarts: Restarts) -> Self {
        Self::new(Side::Server, plans, restarts)
    }

    fn new(side: Side, plans: BTreeMap<u16, Plan>, restarts: Restarts) -> Self {
        let (exchanges, lives) = (BTreeMap::new(), BTreeMap::new());
        Self { side, exchanges, plans, dial: None, lives, restarts, forgot: 0 }
    }

    /// Opens the association of one of the client's ports.
    pub fn open(&mut self, now: Time, endpoint: &mut Endpoint, client_port: u16) {
        let dial = self.dial.clone().expect("only a client opens associations");
        let connect = Connect { source_port: Some(client_port), ..dial };
        let id = endpoint.connect(now, connect).expect("the port is free");
        self.begin(id, client_port);
    }

    /// The server opens the association of one of the client's ports as well, unless it has accepted it: an
    /// INIT collision (RFC 9260 §5.2.1).
    pub fn collide(&mut self, now: Time, endpoint: &mut Endpoint, connect: Connect) {
        let client_port = connect.destination_port;
        if !self.lives.contains_key(&client_port)
            && let Ok(id) = endpoint.connect(now, connect)
        {
            self.begin(id, client_port);
            self.exchanges.get_mut(&id).expect("it has begun").collided = true;
        }
    }

    /// The host lost its memory. Returns the client's ports of its associations.
    pub fn forget(&mut self) -> BTreeSet<u16> {
        self.forgot += 1;
        std::mem::take(&mut self.exchanges).into_values().map(|exchange| exchange.client_port).collect()
    }

    /// Returns the results of each association by the client's port; of the last one, if there were
    /// several.
    pub fn tallies(&self) -> BTreeMap<u16, Tally> {
        let mut tallies: BTreeMap<u16, (u8, Tally)> = BTreeMap::new();
        for (id, exchange) in &self.exchanges {
            let Exchange { client_port, life, accepted, received, ref closed, .. } = *exchange;
            let left = exchange.to_send.len() + exchange.missing();
            let tally = Tally { id: *id, accepted, received, left, is_over: closed.is_some() };
            let last = tallies.entry(client_port).or_insert((life, tally));
            if life >= last.0 {
                *last = (life, tally);
            }
        }
        tallies.into_iter().map(|(port, (_, tally))| (port, tally)).collect()
    }

    /// Returns the fate of messages that may be abandoned by the client's port; in the last association,
    /// if there were several.
    pub fn unreliable(&self) -> BTreeMap<u16, Unreliable> {
        let mut exchanges: Vec<_> = self.exchanges.values().collect();
        exchanges.sort_by_key(|exchange| exchange.life);
        exchanges.into_iter().map(|exchange| (exchange.client_port, exchange.unreliable.clone())).collect()
    }

    /// An association was created.
    fn begin(&mut self, id: AssociationId, client_port: u16) {
        let lives = self.lives.entry(client_port).or_default();
        let plan = self.plans.get(&client_port);
        let plan = plan.unwrap_or_else(|| panic!("port {client_port} was accepted and never opened")).clone();
        // Normally a client opens a port once, and its cookie creates one association. A client that is not
        // notified of the end connects again when its cookie is stale.
        let unheard = plan.ending.may_go_unheard();
        let once = self.restarts == Restarts::Never && self.forgot == 0 && !unheard;
        assert!(!once || lives.own == 0, "port {client_port} was accepted twice");
        assert!(lives.own < LIVES_MAX, "port {client_port} was opened again and again");
        lives.own += 1;
        self.exchanges.insert(id, Exchange::new(self.side, client_port, lives.own - 1, plan));
    }

    /// Whether an association may end like this because the other host lost its memory. The side that opened
    /// it opens it again.
    fn is_broken(&self, exchange: &Exchange, reason: &Reason) -> bool {
        let broken = match self.side {
            // The new life answers with ABORT, or does not answer the old cookie at all.
            Side::Client => matches!(reason, Reason::PeerAborted(_) | Reason::NoAnswer | Reason::StaleCookie),
            Side::Server => matches!(reason, Reason::PeerAborted(_)),
        };
        broken && self.restarts == Restarts::Perhaps && !exchange.ending.is_abort()
    }
}

impl App for Messages {
    fn on_event(&mut self, now: Time, endpoints: &mut Endpoints, id: AssociationId, event: Event) {
        let endpoint = &mut endpoints.sctp;
        let Some(association) = endpoint.association_mut(id) else {
            panic!("{event:?} of an unknown association")
        };
        if matches!(event, Event::Accepted | Event::Restarted) {
            let (_, peer_port) = association.ports();
            self.begin(id, peer_port);
        }
        let Some(exchange) = self.exchanges.get(&id) else { panic!("{event:?} before Accepted") };
        assert_eq!(exchange.closed, None, "{event:?} after Closed");
        if let Event::Closed(reason) = event {
            let (client_port, is_broken) = (exchange.client_port, self.is_broken(exchange, &reason));
            self.with(id, |exchange, side, lives| match is_broken {
                true => exchange.closed = Some(reason),
                false => exchange.close(side, lives, association, reason),
            });
            endpoint.remove(id);
            if is_broken && self.side == Side::Client {
                self.open(now, endpoint, client_port);
            }
            return;
        }
        self.with(id, |exchange, side, lives| {
            // An association that ends may abandon any message.
            if let Event::Abandoned(abandoned) = event
                && association.closed().is_none()
            {
                exchange.on_abandoned(side, abandoned);
            }
            exchange.go_on(now, side, lives, association);
        });
    }

    fn wake(&mut self, now: Time, endpoints: &mut Endpoints) -> Option<Time> {
        let endpoint = &mut endpoints.sctp;
        let mut next = None;
        for (id, exchange) in &mut self.exchanges {
            if exchange.closed.is_none()
                && let Some(association) = endpoint.association_mut(*id)
            {
                // Debug builds check at each drain.
                if !cfg!(debug_assertions) && exchange.has_exchanged_packets(association) {
                    association.check();
                }
                let lives = self.lives.entry(exchange.client_port).or_default();
                if let Some(sip) = exchange.go_on(now, self.side, lives, association) {
                    next = Some(next.map_or(sip, |next: Time| next.min(sip)));
                }
            }
        }
        next
    }
}

impl Messages {
    fn with(&mut self, id: AssociationId, then: impl FnOnce(&mut Exchange, Side, &mut Lives)) {
        let exchange = self.exchanges.get_mut(&id).expect("the caller has looked");
        let lives = self.lives.entry(exchange.client_port).or_default();
        then(exchange, self.side, lives);
    }
}

impl Ending {
    fn is_abort(self) -> bool {
        matches!(self, Self::Abort(..))
    }

    /// Whether the server may be done while the client considers its handshake unfinished.
    fn may_go_unheard(self) -> bool {
        matches!(self, Self::Abort(Side::Server, _))
    }
}

impl Exchange {
    fn new(side: Side, client_port: u16, life: u8, plan: Plan) -> Self {
        let (to_send, missing) = match side {
            Side::Client => (plan.client_sends, plan.server_sends),
            Side::Server => (plan.server_sends, plan.client_sends),
        };
        let mut ordered: BTreeMap<_, VecDeque<_>> = BTreeMap::new();
        let mut unordered = BTreeMap::new();
        for planned in missing {
            match planned.order {
                Order::Ordered => ordered.entry(planned.stream).or_default().push_back(planned),
                Order::Unordered => {
                    unordered.insert((planned.stream, planned.number), planned);
                }
            }
        }
        Self {
            client_port,
            life,
            peer_life: None,
            to_send: to_send.into(),
            ready: None,
            ordered,
            unordered,
            partial: BTreeMap::new(),
            read_policy: plan.read_policy,
            ending: plan.ending,
            collided: false,
            receive_buffer: plan.receive_buffers[side as usize],
            next_read: Time::ZERO,
            closed: None,
            ended: false,
            accepted: 0,
            received: 0,
            unreliable: Unreliable::default(),
            looked_at: (0, 0),
        }
    }

    /// The number of messages that must still arrive.
    fn missing(&self) -> usize {
        self.awaited().filter(|planned| planned.is_reliable()).count()
    }

    /// Whether packets were sent or received since the last call.
    fn has_exchanged_packets(&mut self, association: &Association) -> bool {
        let stats = association.stats();
        let sum = |of: fn(&PathStats) -> u64| stats.paths.iter().map(of).sum::<u64>();
        let so_far = (sum(|path| path.packets_sent), sum(|path| path.packets_received));
        std::mem::replace(&mut self.looked_at, so_far) != so_far
    }

    fn awaited(&self) -> impl Iterator<Item = &Planned> {
        self.ordered.values().flatten().chain(self.unordered.values())
    }

    fn on_abandoned(&mut self, side: Side, abandoned: Abandoned) {
        let key = (abandoned.stream, abandoned.order == Order::Unordered, abandoned.context);
        assert!(
            self.unreliable.accepted.contains(&key),
            "{side:?}: {abandoned:?} was abandoned although it is reliable"
        );
        let before = self.unreliable.abandoned.insert(key, abandoned.was_sent);
        assert_eq!(before, None, "{side:?}: {abandoned:?} was reported twice");
    }

    /// Checks that neither side holds more than its limits.
    fn check_limits(&self, side: Side, association: &Association) {
        let stats = association.stats();
        // Beyond its buffer a receiver accepts at most one chunk, the next in sequence, which can then be
        // read; with interleaving that chunk may belong to a message that waits for another of its stream.
        let interleaved = stats.extensions.is_some_and(|agreed| agreed.interleaving);
        let most = if interleaved { 2 * self.receive_buffer } else { self.receive_buffer } + CHUNK_MAX;
        assert!(stats.unread_bytes <= most, "{side:?} holds {} bytes, may hold {most}", stats.unread_bytes);
        assert!(stats.a_rwnd <= self.receive_buffer, "{side:?} offers {} bytes", stats.a_rwnd);
        let flight: usize = stats.paths.iter().map(|path| path.flight_bytes).sum();
        assert!(
            flight <= stats.outstanding_bytes,
            "{side:?}: {flight} in flight of {}",
            stats.outstanding_bytes
        );
    }

    /// Sends and reads what it can. Returns when it reads again.
    fn go_on(
        &mut self,
        now: Time,
        side: Side,
        lives: &mut Lives,
        association: &mut Association,
    ) -> Option<Time> {
        let sender = Sender { side, life: self.life };
        self.check_limits(side, association);
        while let Some(planned) = self.to_send.front() {
            let message = self.ready.get_or_insert_with(|| {
                let (ppid, payload) = (planned.ppid(sender), planned.payload(sender));
                let Planned { order, reliability, number: context, .. } = *planned;
                Message { ppid, payload, order, reliability, context }
            });
            match association.send(planned.stream, message.clone()) {
                Ok(()) => {
                    if planned.is_reliable() {
                        self.accepted += 1;
                    } else {
                        self.unreliable.accepted.insert(planned.key());
                    }
                    self.to_send.pop_front();
                    self.ready = None;
                }
                Err(SendError::Full) => break,
                Err(SendError::ShuttingDown) if self.may_be_cut_short() => break,
                // The other side has received everything it waits for.
                Err(SendError::ShuttingDown) if !self.to_send.iter().any(Planned::is_reliable) => {
                    self.to_send.clear();
                }
                // Earlier events are returned before the one that reports the end.
                Err(SendError::Closed) if association.closed().is_some() => break,
                Err(error) => panic!("{side:?}: {planned:?} was refused: {error}"),
            }
        }
        let again = match self.read_policy {
            ReadPolicy::Eager => {
                self.read(side, lives, association, usize::MAX);
                None
            }
            ReadPolicy::Paced { bytes, every } => {
                if now >= self.next_read {
                    self.read(side, lives, association, bytes);
                    self.next_read = now + every;
                }
                self.awaited().next().is_some().then_some(self.next_read)
            }
        };
        self.end(side, association);
        again
    }

    /// Performs this side's part of the ending when it is due.
    fn end(&mut self, side: Side, association: &mut Association) {
        let has_sent = self.to_send.is_empty();
        let (is_time, abort) = match self.ending {
            Ending::Complete(sides) => (sides.contains(&side) && has_sent && self.missing() == 0, false),
            Ending::Early(by) => (by == side && has_sent, false),
            Ending::Abort(by, after) => (by == side && (self.received >= after || self.missing() == 0), true),
        };
        if is_time && !self.ended {
            self.ended = true;
            if abort {
                association.abort(Bytes::from_static(b"enough"));
            } else {
                association.shutdown();
            }
        }
    }

    fn may_be_cut_short(&self) -> bool {
        !matches!(self.ending, Ending::Complete(_))
    }

    fn read(&mut self, side: Side, lives: &mut Lives, association: &mut Association, at_least: usize) {
        let mut read = 0;
        while let Some(stream) = association.readable() {
            let Some(piece) = association.recv(stream) else {
                panic!("{stream:?} is readable and gives nothing")
            };
            read += piece.len();
            self.take(side, lives, stream, piece);
            if read >= at_least {
                return;
            }
        }
    }

    fn take(&mut self, side: Side, lives: &mut Lives, stream: StreamId, piece: Piece) {
        assert!(piece.aborted || !piece.is_empty(), "an empty piece on {stream:?}");
        assert!(piece.end || !piece.aborted, "an abandoned message ends");
        let bytes = match self.partial.remove(&stream) {
            None => {
                assert!(piece.begin, "{stream:?}: a piece of a message that has not begun");
                piece.payload.concat()
            }
            Some(mut bytes) => {
                assert!(!piece.begin, "{stream:?}: a message begins within another");
                piece.payload.iter().for_each(|part| bytes.extend_from_slice(part));
                bytes
            }
        };
        if piece.aborted {
            return;
        }
        if !piece.end {
            self.partial.insert(stream, bytes);
            return;
        }
        let planned = match piece.order {
            Order::Ordered => {
                let awaited = self.ordered.entry(stream).or_default();
                let came = |planned: &Planned| planned.number == piece.ppid.0 & 0xff_ffff;
                // Messages of partial reliability before this one were abandoned.
                while awaited.front().is_some_and(|planned| !planned.is_reliable() && !came(planned)) {
                    awaited.pop_front();
                }
                awaited.pop_front()
            }
            Order::Unordered => {
                let number = bytes.first_chunk().map_or(u32::MAX, |number| u32::from_be_bytes(*number));
                self.unordered.remove(&(stream, number))
            }
        };
        let length = bytes.len();
        let Some(planned) = planned else {
            panic!(
                "{side:?} got a message of {length} bytes on {stream:?} that was not expected, or arrived before"
            )
        };
        let life = (piece.ppid.0 >> 24) as u8;
        let sender = Sender { side: if side == Side::Client { Side::Server } else { Side::Client }, life };
        let first = self.peer_life.is_none();
        if *self.peer_life.get_or_insert(life) != life {
            panic!("{side:?} got a message of life {life} among those of {:?}", self.peer_life);
        }
        assert_eq!(piece.ppid, planned.ppid(sender), "{side:?} got another message than {planned:?}");
        if first {
            // A side whose association was aborted without notice sends again what it had not sent before it
            // was established.
            assert!(
                lives.peer.insert(life) || self.ending.may_go_unheard(),
                "{side:?} got messages of life {life} before, in another association"
            );
        }
        assert!(
            bytes == planned.payload(sender),
            "{side:?} got {length} bytes for {planned:?}, and they differ"
        );
        if planned.is_reliable() {
            self.received += 1;
        } else {
            self.unreliable.received.insert(planned.key());
        }
    }

    fn close(&mut self, side: Side, lives: &mut Lives, association: &mut Association, reason: Reason) {
        self.read(side, lives, association, usize::MAX);
        match (self.ending, &reason) {
            (Ending::Complete(_), Reason::Shutdown) => {
                let left = self.to_send.iter().filter(|planned| planned.is_reliable()).count();
                assert_eq!(left, 0, "{side:?}: closed with {left} messages to send");
                assert_eq!(self.missing(), 0, "{side:?}: closed with messages still to come");
            }
            (Ending::Early(_), Reason::Shutdown) => {
                assert!(self.partial.is_empty(), "{side:?}: closed in the middle of a message");
            }
            (Ending::Abort(by, _), Reason::Aborted(_)) => assert_eq!(by, side),
            (Ending::Abort(by, _), Reason::PeerAborted(_)) => assert_ne!(by, side),
            // Its INIT arrived after the client was done, and the refusal ended what was left of it (RFC 9260
            // §8.4).
            (Ending::Complete(_), Reason::PeerAborted(causes)) if self.collided && causes.is_empty() => {
                assert!(self.to_send.is_empty() && self.missing() == 0, "{side:?}: aborted before the end");
            }
            // Aborted before the handshake was done here: the cookie is not accepted twice, and becomes
            // stale.
            (Ending::Abort(Side::Server, _), Reason::StaleCookie) => assert_eq!(side, Side::Client),
            (ending, reason) => panic!("{side:?}: {ending:?} became {reason:?}"),
        }
        self.closed = Some(reason);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const CLIENT: Sender = Sender { side: Side::Client, life: 0 };

    fn receiver(sends: &[(u16, usize, Order)]) -> (Exchange, Vec<Planned>) {
        let planned =
            numbered(sends.iter().map(|(stream, bytes, order)| (StreamId(*stream), *bytes, *order)));
        let plan = Plan {
            client_sends: planned.clone(),
            server_sends: Vec::new(),
            read_policy: ReadPolicy::Eager,
            ending: Ending::Complete(&[Side::Client]),
            receive_buffers: [1_000; 2],
        };
        (Exchange::new(Side::Server, 1, 0, plan), planned)
    }

    fn piece(planned: Planned) -> Piece {
        Piece {
            tsn: braidftp_sctp::Tsn(0),
            number: 0,
            ppid: planned.ppid(CLIENT),
            payload: vec![planned.payload(CLIENT)],
            begin: true,
            end: true,
            aborted: false,
            order: planned.order,
        }
    }

    const SENDS: [(u16, usize, Order); 4] = [
        (1, 10, Order::Ordered),
        (1, 10, Order::Ordered),
        (2, 9, Order::Unordered),
        (2, 9, Order::Unordered),
    ];

    #[test]
    fn planned_messages_are_accepted() {
        let (mut exchange, planned) = receiver(&SENDS);
        for index in [0, 3, 2, 1] {
            exchange.take(Side::Server, &mut Lives::default(), planned[index].stream, piece(planned[index]));
        }
        assert_eq!(exchange.missing(), 0);
    }

    #[test]
    fn a_message_may_arrive_in_pieces() {
        let (mut exchange, planned) = receiver(&SENDS[..1]);
        let mut whole = planned[0].payload(CLIENT);
        let first = Piece { payload: vec![whole.split_to(3)], end: false, ..piece(planned[0]) };
        let last = Piece { payload: vec![whole], begin: false, ..piece(planned[0]) };
        exchange.take(Side::Server, &mut Lives::default(), StreamId(1), first);
        exchange.take(Side::Server, &mut Lives::default(), StreamId(1), last);
        assert_eq!(exchange.missing(), 0);
    }

    #[test]
    #[should_panic(expected = "another message than")]
    fn a_message_out_of_order_is_detected() {
        let (mut exchange, planned) = receiver(&SENDS);
        exchange.take(Side::Server, &mut Lives::default(), StreamId(1), piece(planned[1]));
    }

    #[test]
    #[should_panic(expected = "or arrived before")]
    fn a_duplicate_message_is_detected() {
        let (mut exchange, planned) = receiver(&SENDS);
        exchange.take(Side::Server, &mut Lives::default(), StreamId(2), piece(planned[2]));
        exchange.take(Side::Server, &mut Lives::default(), StreamId(2), piece(planned[2]));
    }

    #[test]
    #[should_panic(expected = "and they differ")]
    fn a_flipped_bit_is_detected() {
        let (mut exchange, planned) = receiver(&SENDS);
        let mut bytes = planned[0].payload(CLIENT).to_vec();
        bytes[5] ^= 1;
        exchange.take(
            Side::Server,
            &mut Lives::default(),
            StreamId(1),
            Piece { payload: vec![bytes.into()], ..piece(planned[0]) },
        );
    }
}
