//! All connections of one host: which segment belongs to which, ports, and the drain.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use braidftp_base::{Datagram, Ecn, Output, Time};

use crate::config::{Checksum, Config};
use crate::connection::{Connection, Event, Next};
use crate::segment::{Ends, Flags, Segment, Seq, has_zero_checksum};

/// The first of the ports that are given to those who ask for none (RFC 6335 §6).
const EPHEMERAL_FIRST: u16 = 49_152;
/// Connections that a SYN has begun and no acknowledgement has confirmed, at most: beyond, SYNs are dropped.
pub const HALF_OPEN_MAX: usize = 1_024;
/// Answers to segments of no connection that wait to be sent, at most.
const ANSWERS_MAX: usize = 64;

/// Names a connection of an [`Endpoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    slot: u32,
    generation: u32,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
    /// Whether it stands in the queue of those that may have something to say.
    is_ready: bool,
    /// The earliest time in the heap at which it is polled.
    wakes_at: Option<Time>,
    /// Whether the user forgot it: it goes when it is over.
    removed: bool,
    /// Whether its ends are still in the table.
    listed: bool,
}

/// All connections of one host.
#[derive(Debug)]
pub struct Endpoint {
    seed: u64,
    isn: u64,
    slots: Vec<Slot>,
    free: Vec<u32>,
    table: BTreeMap<Ends, u32>,
    /// The connection of the last segment: the next is often for the same.
    last: Option<(Ends, u32)>,
    listeners: BTreeMap<u16, Arc<Config>>,
    ready: VecDeque<u32>,
    wakes: BinaryHeap<Reverse<(Time, u32)>>,
    answers: VecDeque<Datagram>,
    next_port: u16,
    half_open: usize,
    bad_segments: u64,
    /// Whether some configuration leaves checksums to what lies below ([`Checksum::Below`]).
    checked_below: bool,
}

impl Endpoint {
    /// An endpoint without connections. The seed steers initial sequence numbers.
    pub fn new(seed: u64) -> Self {
        Self {
            seed,
            isn: 0,
            slots: Vec::new(),
            free: Vec::new(),
            table: BTreeMap::new(),
            last: None,
            listeners: BTreeMap::new(),
            ready: VecDeque::new(),
            wakes: BinaryHeap::new(),
            answers: VecDeque::new(),
            next_port: EPHEMERAL_FIRST,
            half_open: 0,
            bad_segments: 0,
            checked_below: false,
        }
    }

    /// From now on connections to this port are accepted, on any address.
    pub fn listen(&mut self, port: u16, config: Arc<Config>) -> Result<(), ListenError> {
        match self.listeners.contains_key(&port) {
            _ if port == 0 => Err(ListenError::PortZero),
            true => Err(ListenError::InUse(port)),
            false => {
                self.checked_below |= config.checksum == Checksum::Below;
                self.listeners.insert(port, config);
                Ok(())
            }
        }
    }

    /// No more connections to this port are accepted; those that are stay.
    pub fn unlisten(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Asks for a connection; from port 0 means from one that is free.
    pub fn connect(
        &mut self,
        now: Time,
        from: SocketAddr,
        to: SocketAddr,
        config: Arc<Config>,
    ) -> Result<ConnectionId, ConnectError> {
        if from.is_ipv4() != to.is_ipv4() {
            return Err(ConnectError::Family);
        }
        if to.port() == 0 {
            return Err(ConnectError::PortZero);
        }
        let ends = match from.port() {
            0 => self.free_ends(from, to).ok_or(ConnectError::NoPort)?,
            _ => Ends { local: from, peer: to },
        };
        if self.table.contains_key(&ends) {
            return Err(ConnectError::InUse);
        }
        self.checked_below |= config.checksum == Checksum::Below;
        let iss = self.next_isn(now);
        Ok(self.insert(ends, Connection::connecting(config, ends, iss)))
    }

    fn free_ends(&mut self, from: SocketAddr, to: SocketAddr) -> Option<Ends> {
        for _ in EPHEMERAL_FIRST..=u16::MAX {
            let port = self.next_port;
            self.next_port = port.checked_add(1).unwrap_or(EPHEMERAL_FIRST);
            let ends = Ends { local: SocketAddr::new(from.ip(), port), peer: to };
            if !self.listeners.contains_key(&port) && !self.table.contains_key(&ends) {
                return Some(ends);
            }
        }
        None
    }

    /// Initial sequence numbers by a clock of 4 µs (RFC 9293 §3.4.1) and, as in 4.4BSD, a step for each connection: those of
    /// one pair of ports grow. Where they begin looks random and is the same each time (splitmix64).
    fn next_isn(&mut self, now: Time) -> Seq {
        self.isn += 1;
        let mut z = self.seed.wrapping_add(0x9E37_79B9_7F4A_7C15);
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        Seq((z ^ (z >> 31)) as u32).plus(now.as_nanos() / 4_000).plus(self.isn * 64_000)
    }

    fn insert(&mut self, ends: Ends, connection: Connection) -> ConnectionId {
        self.half_open += usize::from(connection.is_half_open());
        let slot = self.free.pop().unwrap_or_else(|| {
            self.slots.push(Slot::default());
            self.slots.len() as u32 - 1
        });
        let entry = &mut self.slots[slot as usize];
        entry.connection = Some(connection);
        entry.removed = false;
        entry.listed = true;
        self.table.insert(ends, slot);
        self.ready(slot);
        ConnectionId { slot, generation: self.slots[slot as usize].generation }
    }

    fn ready(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        if !std::mem::replace(&mut entry.is_ready, true) {
            self.ready.push_back(slot);
        }
    }

    /// A segment came.
    pub fn handle(&mut self, now: Time, datagram: Datagram) {
        let (from, to) = (datagram.from, datagram.to);
        let decoded = match self.checked_below && has_zero_checksum(&datagram.payload) {
            true => Segment::decode_unchecked(&datagram.payload),
            false => Segment::decode(&datagram.payload, from.ip(), to.ip()),
        };
        let segment = match decoded {
            Ok(segment) => segment,
            Err(_) => {
                self.bad_segments += 1;
                return;
            }
        };
        // The header's ports are what counts; the datagram's say the same.
        let ends = Ends {
            local: SocketAddr::new(to.ip(), segment.destination_port),
            peer: SocketAddr::new(from.ip(), segment.source_port),
        };
        let known = match self.last {
            Some((last, slot)) if last == ends => Some(slot),
            _ => self.table.get(&ends).copied(),
        };
        let is_syn = segment.flags.has(Flags::SYN) && !segment.flags.has(Flags::ACK);
        if let Some(slot) = known {
            self.last = Some((ends, slot));
            let connection = self.slots[slot as usize].connection.as_mut().expect("what is listed is there");
            if !(is_syn
                && connection.may_give_way(&segment)
                && self.listeners.contains_key(&ends.local.port()))
            {
                let was_half_open = connection.is_half_open();
                connection.handle(now, &segment);
                self.half_open -= usize::from(was_half_open && !connection.is_half_open());
                self.ready(slot);
                return;
            }
            self.unlist(slot);
        }
        match self.listeners.get(&ends.local.port()) {
            Some(config) if is_syn && !segment.flags.has(Flags::RST) => {
                if self.half_open < HALF_OPEN_MAX {
                    let (config, iss) = (config.clone(), self.next_isn(now));
                    self.insert(ends, Connection::accepting(config, ends, iss, &segment));
                }
            }
            _ => self.refuse(ends, &segment),
        }
    }

    /// A segment of no connection gets a reset (RFC 9293 §3.10.7.1).
    fn refuse(&mut self, ends: Ends, segment: &Segment) {
        if segment.flags.has(Flags::RST) || self.answers.len() >= ANSWERS_MAX {
            return;
        }
        let (seq, ack, flags) = match segment.flags.has(Flags::ACK) {
            true => (segment.ack, Seq(0), Flags::RST),
            false => (Seq(0), segment.seq.plus(u64::from(segment.seq_length())), Flags::RST | Flags::ACK),
        };
        let reset = Segment {
            source_port: ends.local.port(),
            destination_port: ends.peer.port(),
            seq,
            ack,
            flags,
            ..Segment::default()
        };
        let payload = reset.encode(ends.local.ip(), ends.peer.ip());
        self.answers.push_back(Datagram { from: ends.local, to: ends.peer, ecn: Ecn::NotEct, payload });
    }

    /// What is next: drain until it says to wait.
    pub fn poll(&mut self, now: Time) -> Output<Datagram, (ConnectionId, Event)> {
        if let Some(answer) = self.answers.pop_front() {
            return Output::Send(answer);
        }
        loop {
            while let Some(Reverse((at, slot))) = self.wakes.peek().copied()
                && at <= now
            {
                self.wakes.pop();
                let entry = &mut self.slots[slot as usize];
                if entry.wakes_at == Some(at) {
                    entry.wakes_at = None;
                    self.ready(slot);
                }
            }
            let Some(slot) = self.ready.front().copied() else {
                return Output::Wait(self.wakes.peek().map(|Reverse((at, _))| *at));
            };
            let entry = &mut self.slots[slot as usize];
            let Some(connection) = &mut entry.connection else {
                entry.is_ready = false;
                self.ready.pop_front();
                continue;
            };
            let was_half_open = connection.is_half_open();
            let next = connection.poll(now);
            self.half_open -= usize::from(was_half_open && !connection.is_half_open());
            match next {
                Next::Send(datagram) => return Output::Send(datagram),
                Next::Event(_) if entry.removed => {}
                Next::Event(event) => {
                    return Output::Event((ConnectionId { slot, generation: entry.generation }, event));
                }
                Next::Wait(at) => {
                    if cfg!(debug_assertions) {
                        connection.check();
                    }
                    entry.is_ready = false;
                    self.ready.pop_front();
                    if let Some(at) = at.filter(|at| entry.wakes_at.is_none_or(|earlier| *at < earlier)) {
                        entry.wakes_at = Some(at);
                        self.wakes.push(Reverse((at, slot)));
                    }
                    if !connection.is_alive() {
                        // Its user never heard of it, and will not remove it.
                        entry.removed |= !connection.is_known();
                        self.unlist(slot);
                    }
                }
            }
        }
    }

    /// Takes a connection out of the table, and forgets it if its user has.
    fn unlist(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let connection = entry.connection.as_ref().expect("the caller has looked");
        if std::mem::take(&mut entry.listed) {
            self.half_open -= usize::from(connection.is_half_open());
            self.table.remove(&connection.ends());
            self.last = None;
        }
        if entry.removed {
            entry.connection = None;
            entry.generation = entry.generation.wrapping_add(1);
            entry.wakes_at = None;
            self.free.push(slot);
        }
    }

    /// A connection, to look at.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.connection.as_ref().filter(|_| slot.generation == id.generation && !slot.removed)
    }

    /// A connection, to do something with; it is drained next.
    pub fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connection(id)?;
        self.ready(id.slot);
        self.slots[id.slot as usize].connection.as_mut()
    }

    /// Forgets a connection. One that was closed here ends as it would have (its control block lives on until then), any
    /// other is aborted.
    pub fn remove(&mut self, id: ConnectionId) {
        let Some(connection) = self.connection_mut(id) else { return };
        if !connection.is_closing() {
            connection.abort();
        }
        let (is_alive, entry) = (connection.is_alive(), &mut self.slots[id.slot as usize]);
        entry.removed = true;
        if !is_alive {
            self.unlist(id.slot);
        }
    }

    /// Connections that take up memory in the host: all that are not CLOSED, in TIME-WAIT too.
    pub fn control_blocks(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory that they take; see [`Connection::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        let alive = self.table.values().filter_map(|slot| self.slots[*slot as usize].connection.as_ref());
        alive.map(Connection::memory_bytes).sum()
    }

    /// Segments that were dropped because they are none: too short, of a wrong checksum, with an option that lies.
    pub fn bad_segments(&self) -> u64 {
        self.bad_segments
    }
}

/// Why a port cannot be listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenError {
    /// Something listens there.
    InUse(u16),
    /// Port 0 is none.
    PortZero,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InUse(port) => write!(f, "something already listens on TCP port {port}"),
            Self::PortZero => f.write_str("TCP port 0 cannot be listened on"),
        }
    }
}

impl std::error::Error for ListenError {}

/// Why a connection cannot be asked for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// The addresses are of different families.
    Family,
    /// Port 0 is none.
    PortZero,
    /// All ports are in use.
    NoPort,
    /// There is such a connection, perhaps in TIME-WAIT.
    InUse,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Family => "an IPv4 address cannot be connected with an IPv6 one",
            Self::PortZero => "TCP port 0 cannot be connected to",
            Self::NoPort => "no local TCP port is free",
            Self::InUse => "there is a connection between these two ports, perhaps in TIME-WAIT",
        })
    }
}

impl std::error::Error for ConnectError {}
