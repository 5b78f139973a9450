//! All connections of one host: demultiplexing of segments, port allocation, and output.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BinaryHeap, VecDeque};
use std::fmt;
use std::net::SocketAddr;
use std::sync::Arc;

use braidftp_base::{Datagram, Ecn, Output, Time};

use crate::config::{Checksum, Config};
use crate::connection::{Connection, Event, Next};
use crate::segment::{Ends, Flags, Segment, Seq, has_zero_checksum};

/// The first of the ephemeral ports (RFC 6335 §6).
const EPHEMERAL_FIRST: u16 = 49_152;
/// The maximum number of connections in SYN-RECEIVED; further SYNs are dropped.
pub const HALF_OPEN_MAX: usize = 1_024;
/// The maximum number of queued resets to segments of no connection.
const ANSWERS_MAX: usize = 64;

/// Identifies a connection of an [`Endpoint`].
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionId {
    slot: u32,
    generation: u32,
}

#[derive(Debug, Default)]
struct Slot {
    generation: u32,
    connection: Option<Connection>,
    /// Whether the slot is queued to be polled.
    is_ready: bool,
    /// The earliest time in the heap at which the slot is polled.
    wakes_at: Option<Time>,
    /// Whether the user removed the connection; the slot is freed once the connection is closed.
    removed: bool,
    /// Whether the connection is still in the table of addresses.
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
    /// The connection of the last segment: the next segment is often for the same.
    last: Option<(Ends, u32)>,
    listeners: BTreeMap<u16, Arc<Config>>,
    ready: VecDeque<u32>,
    wakes: BinaryHeap<Reverse<(Time, u32)>>,
    answers: VecDeque<Datagram>,
    next_port: u16,
    half_open: usize,
    bad_segments: u64,
    /// Whether some configuration leaves checksums to the layer below ([`Checksum::Below`]).
    checked_below: bool,
}

impl Endpoint {
    /// Creates an endpoint without connections. The seed determines the initial sequence numbers.
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

    /// Accepts connections to this port, on any address, from now on.
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

    /// Accepts no more connections to this port; existing connections stay.
    pub fn unlisten(&mut self, port: u16) {
        self.listeners.remove(&port);
    }

    /// Opens a connection. Port 0 in `from` means any free port.
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

    /// Chooses an initial sequence number by a 4 µs clock (RFC 9293 §3.4.1) plus, as in 4.4BSD, a step for
    /// each connection, so that the numbers for one pair of ports grow. The start is pseudo-random and the
    /// same for equal seeds (splitmix64).
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

    /// Takes a received segment.
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
        // The ports of the TCP header count; those of the datagram are the same.
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
            let connection =
                self.slots[slot as usize].connection.as_mut().expect("every listed slot holds a connection");
            if !(is_syn
                && connection.may_be_replaced(&segment)
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

    /// Answers a segment of no connection with a reset (RFC 9293 §3.10.7.1).
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

    /// Returns the next output. Call until it returns [`Output::Wait`].
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
                        // The user was never notified of this connection and so does not remove it.
                        entry.removed |= !connection.is_known();
                        self.unlist(slot);
                    }
                }
            }
        }
    }

    /// Removes a connection from the table, and frees it if the user has removed it.
    fn unlist(&mut self, slot: u32) {
        let entry = &mut self.slots[slot as usize];
        let connection = entry.connection.as_ref().expect("the caller has checked that the slot is in use");
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

    /// Returns a connection, for reading.
    pub fn connection(&self, id: ConnectionId) -> Option<&Connection> {
        let slot = self.slots.get(id.slot as usize)?;
        slot.connection.as_ref().filter(|_| slot.generation == id.generation && !slot.removed)
    }

    /// Returns a connection for user calls; the next `poll` polls it.
    pub fn connection_mut(&mut self, id: ConnectionId) -> Option<&mut Connection> {
        self.connection(id)?;
        self.ready(id.slot);
        self.slots[id.slot as usize].connection.as_mut()
    }

    /// Removes a connection. One that was closed here ends normally, and its control block remains until
    /// then; any other is aborted.
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

    /// The number of connections that occupy memory: all that are not CLOSED, those in TIME-WAIT included.
    pub fn control_blocks(&self) -> usize {
        self.table.len()
    }

    /// Bytes of memory of these connections; see [`Connection::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        let alive = self.table.values().filter_map(|slot| self.slots[*slot as usize].connection.as_ref());
        alive.map(Connection::memory_bytes).sum()
    }

    /// Segments dropped as malformed: too short, with a wrong checksum, or with an invalid option.
    pub fn bad_segments(&self) -> u64 {
        self.bad_segments
    }
}

/// Why a port cannot be listened on.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenError {
    /// Another listener uses the port.
    InUse(u16),
    /// Port 0 is not a valid port.
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

/// Why a connection cannot be opened.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// The addresses are of different families.
    Family,
    /// Port 0 is not a valid port.
    PortZero,
    /// All ports are in use.
    NoPort,
    /// A connection between these addresses and ports exists, perhaps in TIME-WAIT.
    InUse,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Family => "an IPv4 address cannot be connected to an IPv6 address",
            Self::PortZero => "TCP port 0 cannot be connected to",
            Self::NoPort => "no local TCP port is free",
            Self::InUse => "there is a connection between these two ports, perhaps in TIME-WAIT",
        })
    }
}

impl std::error::Error for ConnectError {}
