//! One connection (RFC 9293 §3.3): the user calls, the state, the processing of segments, and output.

mod receiver;
mod rto;
mod send_queue;
mod sender;
pub(crate) mod state;

use std::fmt;
use std::ops::Range;
use std::sync::Arc;

use braidftp_base::{Datagram, Ecn, Time};
use bytes::{Bytes, BytesMut};

use crate::config::{Checksum, Config, SynBackoff};
use crate::segment::{
    Ends, Flags, HEADER_BYTES, Options, SACK_BLOCKS_MAX, SackBlocks, Segment, Seq, Timestamps,
    WINDOW_SHIFT_MAX, seal,
};
use crate::stats::{Counters, Stats};
use receiver::{Arrival, Receiver};
use sender::{Acknowledgement, Agreed, Outgoing, Sender, Verdict};
pub use state::State;

/// The peer's MSS if its SYN has no MSS option (RFC 9293 §3.7.1).
const MSS_DEFAULT: u16 = 536;
/// How many congestion windows a growing send buffer holds, and the part of it that must be free before the user may write again.
const SEND_BUFFER_WINDOWS: usize = 2;
const FREE_PART: usize = 3;
/// What Linux counts for a segment beyond its bytes: headers, and two structures.
const SEGMENT_HEADERS: usize = 256;
const SHARED_INFO: usize = 320;
const SK_BUFF: usize = 256;

/// An event for the user of a connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Event {
    /// On the passive side: a connection to this port was opened. [`Event::Up`] follows.
    Accepted {
        /// The local port.
        port: u16,
    },
    /// The connection is established.
    Up,
    /// Data can be read.
    Readable,
    /// A send buffer that was full has room again.
    Writable,
    /// The peer has closed: no data follows what can be read now.
    PeerClosed,
    /// The connection is closed. Its state can be read until it is removed.
    Closed(Reason),
}

/// Why a connection was closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Reason {
    /// Both sides closed, and all data was delivered.
    Finished,
    /// The peer sent a reset.
    Reset,
    /// The peer did not answer.
    TimedOut,
    /// This side aborted the connection.
    Aborted,
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Finished => "both sides closed",
            Self::Reset => "the peer reset the connection",
            Self::TimedOut => "the peer does not answer",
            Self::Aborted => "this side aborted",
        })
    }
}

/// The next output of a connection.
#[derive(Debug)]
pub(crate) enum Next {
    Send(Datagram),
    Event(Event),
    Wait(Option<Time>),
}

/// Events not yet returned to the user, except the last.
#[derive(Debug, Clone, Copy, Default)]
struct Pending {
    accepted: Option<u16>,
    up: bool,
    readable: bool,
    writable: bool,
    peer_closed: bool,
    closed: Option<Reason>,
}

/// A connection.
#[derive(Debug)]
pub struct Connection {
    config: Arc<Config>,
    ends: Ends,
    state: State,
    /// The listening port, for a connection that the peer opened.
    accepted_on: Option<u16>,
    /// Whether the user knows of the connection; for a passive open this begins once it is established.
    is_known: bool,
    iss: Seq,
    irs: Seq,
    /// The shifts of this side's and the peer's window scale.
    shift: u8,
    peer_shift: u8,
    scaling: bool,
    sack: bool,
    timestamps: bool,
    /// TS.Recent, and the offset that the last acknowledgement sent covered.
    ts_recent: u32,
    last_ack_sent: u64,
    /// The sequence and acknowledgement number of the segment that last updated the window (SND.WL1,
    /// SND.WL2).
    window_from: (u64, u64),
    sender: Sender,
    receiver: Receiver,
    /// The SYN: whether it is to be sent, its last time-out before giving up, and how many were sent.
    syn_due: bool,
    syn_timer: Option<Time>,
    syn_sent: u32,
    syn_left_at: Option<Time>,
    /// A reset to send, and the sequence number of one that answers an unacceptable ACK.
    reset_due: bool,
    refusal: Option<Seq>,
    time_wait_until: Option<Time>,
    pending: Pending,
    /// Whether the send buffer was full when the user wrote.
    was_full: bool,
    /// The current size of the send buffer.
    send_buffer_bytes: usize,
    /// Whether the user was notified of readable data and has not read all of it.
    readable_notified: bool,
    counters: Counters,
}

impl Connection {
    pub(crate) fn connecting(config: Arc<Config>, ends: Ends, iss: Seq) -> Self {
        Self::new(config, ends, iss, State::SynSent)
    }

    /// A passive open, for a received SYN.
    pub(crate) fn accepting(config: Arc<Config>, ends: Ends, iss: Seq, syn: &Segment) -> Self {
        let mut connection = Self::new(config, ends, iss, State::SynReceived);
        connection.accepted_on = Some(ends.local.port());
        connection.counters.segments_received += 1;
        connection.agree(syn);
        connection
    }

    fn new(config: Arc<Config>, ends: Ends, iss: Seq, state: State) -> Self {
        let shift = match config.window_scaling {
            // The smallest shift with which the window field can hold the whole buffer.
            true => (0..WINDOW_SHIFT_MAX).find(|shift| config.receive_buffer_bytes >> shift <= 65_535),
            false => Some(0),
        };
        Self {
            ends,
            state,
            accepted_on: None,
            is_known: state == State::SynSent,
            iss,
            irs: Seq::default(),
            shift: shift.unwrap_or(WINDOW_SHIFT_MAX),
            peer_shift: 0,
            scaling: config.window_scaling,
            sack: config.sack,
            timestamps: config.timestamps,
            ts_recent: 0,
            last_ack_sent: 0,
            window_from: (0, 0),
            sender: Sender::new(&config),
            receiver: Receiver::new(&config),
            syn_due: true,
            syn_timer: None,
            syn_sent: 0,
            syn_left_at: None,
            reset_due: false,
            refusal: None,
            time_wait_until: None,
            pending: Pending::default(),
            was_full: false,
            send_buffer_bytes: config
                .send_buffer_first_bytes
                .unwrap_or(usize::MAX)
                .min(config.send_buffer_bytes),
            readable_notified: false,
            counters: Counters::default(),
            config,
        }
    }

    // ---- user calls -------------------------------------------------------------------------------------------------

    /// Appends bytes to the send buffer and returns how many it accepted; [`Event::Writable`] follows once a
    /// full buffer has room again. Accepts nothing after [`Connection::close`] or once the connection is
    /// closed. May be called before [`Event::Up`].
    pub fn send(&mut self, mut bytes: Bytes) -> usize {
        if self.sender.is_closed() || matches!(self.state, State::TimeWait | State::Closed) {
            return 0;
        }
        let taken = bytes.len().min(self.send_room());
        self.was_full |= taken < bytes.len();
        if taken > 0 {
            bytes.truncate(taken);
            self.sender.queue.push(bytes);
        }
        taken
    }

    /// Whether the user of a full send buffer may write again. A buffer that grows does so now.
    fn has_room(&mut self) -> bool {
        if self.config.send_buffer_first_bytes.is_none() {
            return self.send_room() > 0;
        }
        let mss = self.sender.mss();
        let segment = (mss + SEGMENT_HEADERS + SHARED_INFO).next_power_of_two() + SK_BUFF;
        let grown = SEND_BUFFER_WINDOWS.saturating_mul(self.sender.window() / mss).saturating_mul(segment);
        self.send_buffer_bytes = self.send_buffer_bytes.max(grown.min(self.config.send_buffer_bytes));
        self.send_room() >= self.send_buffer_bytes / FREE_PART
    }

    /// Returns the number of bytes that [`Connection::send`] would accept.
    pub fn send_room(&self) -> usize {
        self.send_buffer_bytes.saturating_sub(self.sender.queue.len())
    }

    /// Returns the next received bytes, if any.
    pub fn recv(&mut self) -> Option<Bytes> {
        let piece = self.receiver.read(&self.config);
        self.readable_notified &= self.receiver.is_readable();
        piece
    }

    /// Closes this side: a FIN follows the queued data. Data from the peer can still be read.
    pub fn close(&mut self) {
        match self.state {
            State::Closed | State::TimeWait => {}
            _ => self.sender.close(),
        }
    }

    /// Aborts the connection; the peer gets a reset.
    pub fn abort(&mut self) {
        if self.state == State::Closed {
            return;
        }
        self.reset_due = !matches!(self.state, State::SynSent | State::TimeWait);
        self.end(Reason::Aborted);
    }

    /// Whether the connection is or was established.
    pub fn is_up(&self) -> bool {
        !matches!(self.state, State::SynSent | State::SynReceived | State::Closed)
    }

    /// The state of the connection.
    pub fn state(&self) -> State {
        self.state
    }

    /// Whether this side has closed.
    pub fn is_closing(&self) -> bool {
        self.sender.is_closed()
    }

    /// This side's address and port.
    pub fn local(&self) -> std::net::SocketAddr {
        self.ends.local
    }

    /// The peer's address and port.
    pub fn peer(&self) -> std::net::SocketAddr {
        self.ends.peer
    }

    /// The configuration of the connection.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// A snapshot of the connection.
    pub fn stats(&self) -> Stats {
        Stats {
            state: self.state,
            cwnd: self.sender.window(),
            ssthresh: self.sender.ssthresh(),
            outstanding_bytes: self.sender.outstanding(),
            flight_bytes: self.sender.pipe(),
            peer_window: self.sender.peer_window(),
            mss: self.sender.mss(),
            srtt: self.sender.rto().srtt(),
            rto: self.sender.rto().current(),
            queued_bytes: self.sender.queue.len(),
            counters: self.counters,
        }
    }

    /// Bytes of memory that the connection takes by its own accounting: the control block, the contents of
    /// its buffers, and the overhead per segment held. The overhead of the allocator is not included.
    pub fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.sender.held_bytes() + self.receiver.held_bytes()
    }

    pub(crate) fn ends(&self) -> Ends {
        self.ends
    }

    /// Whether the connection still occupies a control block: in every state but CLOSED.
    pub(crate) fn is_alive(&self) -> bool {
        self.state != State::Closed || self.reset_due
    }

    /// Whether the user was or is about to be notified of the connection.
    pub(crate) fn is_known(&self) -> bool {
        self.is_known
    }

    pub(crate) fn is_half_open(&self) -> bool {
        self.state == State::SynReceived && self.accepted_on.is_some()
    }

    /// Whether this SYN may open a new connection in place of this one (RFC 9293 §3.10.7.4, TIME-WAIT).
    pub(crate) fn may_be_replaced(&self, syn: &Segment) -> bool {
        self.state == State::TimeWait && syn.seq.after(self.irs.plus(1 + self.receiver.next()))
    }

    // ---- segments in ------------------------------------------------------------------------------------------------

    pub(crate) fn handle(&mut self, now: Time, segment: &Segment) {
        self.counters.segments_received += 1;
        match self.state {
            State::Closed => {}
            State::SynSent => self.handle_in_syn_sent(now, segment),
            _ => self.handle_synchronized(now, segment),
        }
    }

    /// RFC 9293 §3.10.7.3.
    fn handle_in_syn_sent(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        let acks_syn = segment.ack == self.iss.plus(1);
        if flags.has(Flags::ACK) && !acks_syn {
            // The segment belongs to an old connection; a reset ends that one.
            if !flags.has(Flags::RST) {
                self.refusal = Some(segment.ack);
            }
            return;
        }
        if flags.has(Flags::RST) {
            if flags.has(Flags::ACK) {
                self.end(Reason::Reset);
            }
            return;
        }
        if !flags.has(Flags::SYN) {
            return;
        }
        self.agree(segment);
        if flags.has(Flags::ACK) {
            self.establish(now);
            self.receiver.ack_now();
        } else {
            // Simultaneous open.
            self.state = State::SynReceived;
            self.syn_due = true;
        }
    }

    /// Takes the options of the peer's SYN.
    fn agree(&mut self, syn: &Segment) {
        let Options { mss, window_scale, sack_permitted, timestamps, .. } = syn.options;
        self.irs = syn.seq;
        self.sack &= sack_permitted;
        self.timestamps &= timestamps.is_some();
        self.ts_recent = timestamps.map_or(0, |timestamps| timestamps.value);
        self.scaling &= window_scale.is_some();
        match window_scale.filter(|_| self.scaling) {
            Some(shift) => self.peer_shift = shift.min(WINDOW_SHIFT_MAX),
            None => self.shift = 0,
        }
        let both = mss.unwrap_or(MSS_DEFAULT).min(self.config.mss);
        let options = if self.timestamps { 12 } else { 0 };
        let mss = usize::from(both).saturating_sub(options).max(1);
        self.receiver.agree(self.shift, mss);
        // The window of a SYN is never shifted (RFC 7323 §2.2).
        let agreed = Agreed { mss, sack: self.sack, window: syn.window.into() };
        self.sender.agree(&self.config, agreed);
    }

    fn establish(&mut self, now: Time) {
        // RFC 6298 §3: the handshake gives a sample unless the SYN was retransmitted.
        if let Some(left) = self.syn_left_at.filter(|_| self.syn_sent == 1) {
            let elapsed = self.sender.rto().elapsed(left, now);
            self.sender.rto_mut().on_sample(elapsed);
        }
        self.state = State::Established;
        self.syn_due = false;
        self.syn_timer = None;
        self.pending.accepted = self.accepted_on;
        self.pending.up = true;
        self.is_known = true;
    }

    /// RFC 9293 §3.10.7.4, in the order given there.
    fn handle_synchronized(&mut self, now: Time, segment: &Segment) {
        let flags = segment.flags;
        let start = self.offset_in(segment.seq);
        // First, the sequence number.
        let length = i64::from(segment.seq_length());
        let (next, edge) = (self.receiver.next() as i64, self.receiver.edge(&self.config) as i64);
        let edge = edge.max(next);
        let acceptable = match length {
            0 => start == next || next <= start && start < edge,
            _ => start < edge.max(next + 1) && start + length > next,
        };
        let stale = self.is_stale(segment);
        if self.state == State::SynReceived
            && flags == Flags::SYN | Flags::ACK
            && segment.seq == self.irs
            && segment.ack == self.iss.plus(1)
        {
            // Simultaneous open (RFC 9293 figure 7).
            self.establish(now);
            self.receiver.ack_now();
            return;
        }
        if !acceptable || stale {
            if self.state == State::SynReceived && flags.has(Flags::SYN) && segment.seq == self.irs {
                // Our SYN|ACK was lost.
                self.syn_due = true;
            } else if !flags.has(Flags::RST) {
                self.receiver.ack_now();
                if self.state == State::TimeWait && flags.has(Flags::FIN) {
                    self.enter_time_wait(now);
                }
            }
            // The acknowledgement of an unacceptable segment is still processed if it is not older than the
            // last.
            if stale || !flags.has(Flags::ACK) || flags.has(Flags::RST) || flags.has(Flags::SYN) {
                return;
            }
            if start + length < next || start > edge {
                return;
            }
        } else if let Some(stamps) = segment.options.timestamps.filter(|_| self.timestamps) {
            // RFC 7323 §4.3.
            if start <= self.last_ack_sent as i64 {
                self.ts_recent = stamps.value;
            }
        }
        // Second, RST: RFC 5961 §3.2.
        if flags.has(Flags::RST) {
            if start == next {
                self.end(Reason::Reset);
            } else {
                self.receiver.ack_now();
            }
            return;
        }
        // Fourth, SYN: RFC 5961 §4.2.
        if flags.has(Flags::SYN) {
            if self.state != State::SynReceived {
                self.receiver.ack_now();
            }
            return;
        }
        // Fifth, ACK.
        if !flags.has(Flags::ACK) {
            return;
        }
        if self.state == State::SynReceived {
            if segment.ack.before(self.iss.plus(1))
                || segment.ack.after(self.iss.plus(1 + self.sender.next()))
            {
                return;
            }
            self.establish(now);
        }
        if !self.on_ack(now, segment, start) {
            return;
        }
        if !acceptable {
            return;
        }
        // Seventh, the data. Eighth, FIN.
        if length > 0 {
            self.on_data(now, segment, start);
        }
        self.update_state(now);
    }

    /// Whether the timestamp of a segment is older than the last one (PAWS, RFC 7323 §5.3).
    fn is_stale(&self, segment: &Segment) -> bool {
        let is_older = |value: u32| (value.wrapping_sub(self.ts_recent) as i32) < 0;
        let stamps = segment.options.timestamps.filter(|_| self.timestamps && !segment.flags.has(Flags::RST));
        stamps.is_some_and(|stamps| is_older(stamps.value))
    }

    /// The offset of a sequence number in the peer's stream; negative before its first byte.
    fn offset_in(&self, seq: Seq) -> i64 {
        let next = self.receiver.next();
        next as i64 + i64::from(seq.since(self.irs.plus(1 + next)))
    }

    /// The offset of a sequence number in this side's stream.
    fn offset_out(&self, seq: Seq) -> i64 {
        let una = self.sender.una();
        una as i64 + i64::from(seq.since(self.iss.plus(1 + una)))
    }

    /// Processes the acknowledgement. Returns false if the segment is to be dropped.
    fn on_ack(&mut self, now: Time, segment: &Segment, start: i64) -> bool {
        let ack = self.offset_out(segment.ack);
        let Ok(ack) = u64::try_from(ack) else { return true };
        let mut sacked: [Range<u64>; SACK_BLOCKS_MAX] = [0..0, 0..0, 0..0, 0..0];
        let mut blocks = 0;
        if self.sack {
            for (left, right) in segment.options.sack.as_slice() {
                let (left, right) = (self.offset_out(*left), self.offset_out(*right));
                if let (Ok(left), Ok(right)) = (u64::try_from(left), u64::try_from(right)) {
                    sacked[blocks] = left..right;
                    blocks += 1;
                }
            }
        }
        // RFC 9293 §3.10.7.4: only the latest segment updates the window.
        let from = (start.max(0) as u64, ack);
        let is_latest =
            self.window_from.0 < from.0 || self.window_from.0 == from.0 && self.window_from.1 <= from.1;
        let edge = is_latest.then(|| ack + (u64::from(segment.window) << self.peer_shift));
        let echoed =
            segment.options.timestamps.filter(|stamps| self.timestamps && stamps.echo != 0).map(|stamps| {
                let ticks = self.clock(now).wrapping_sub(stamps.echo);
                self.config.timestamp_tick.saturating_mul(ticks)
            });
        let bare = segment.payload.is_empty() && !segment.flags.has(Flags::FIN);
        let acknowledgement = Acknowledgement { now, ack, sacked: &sacked[..blocks], edge, bare, echoed };
        match self.sender.on_ack(&self.config, &acknowledgement, &mut self.counters) {
            Verdict::Future => {
                self.receiver.ack_now();
                return false;
            }
            Verdict::Old => {}
            Verdict::Taken { bytes } => {
                self.counters.bytes_acked += bytes - u64::from(bytes > 0 && self.sender.fin_acked());
                if is_latest {
                    self.window_from = from;
                }
                if self.was_full && self.has_room() && !self.sender.is_closed() {
                    self.was_full = false;
                    self.pending.writable = true;
                }
            }
        }
        true
    }

    fn on_data(&mut self, now: Time, segment: &Segment, start: i64) {
        let takes = matches!(self.state, State::Established | State::FinWait1 | State::FinWait2);
        if !takes {
            // In this state data can only be a retransmission.
            self.receiver.ack_now();
            return;
        }
        let had_gap = self.receiver.has_gap();
        let known = (-start).clamp(0, segment.payload.len() as i64) as usize;
        let data = segment.payload.slice(known..);
        let from = start.max(0) as u64;
        self.counters.bytes_received += segment.payload.len() as u64;
        let before = self.receiver.next();
        let arrival = match data.is_empty() {
            true => Arrival::Useless,
            false => self.receiver.on_data(&self.config, from, &data),
        };
        self.counters.bytes_delivered += self.receiver.next() - before;
        if arrival == Arrival::InOrder && !self.readable_notified {
            self.readable_notified = true;
            self.pending.readable = true;
        }
        if segment.flags.has(Flags::FIN) {
            self.receiver.on_fin(from + data.len() as u64);
            self.receiver.ack_now();
        }
        self.receiver.on_segment(&self.config, now, arrival, had_gap);
    }

    /// Makes the state transitions that follow from acknowledged data and the peer's FIN.
    fn update_state(&mut self, now: Time) {
        if self.receiver.fin_reached() {
            let next = match self.state {
                State::Established => Some(State::CloseWait),
                State::FinWait1 => Some(State::Closing),
                State::FinWait2 => Some(State::TimeWait),
                _ => None,
            };
            if let Some(next) = next {
                self.pending.peer_closed = true;
                // The FIN occupies a sequence number but is no data.
                self.state = next;
                if next == State::TimeWait {
                    self.enter_time_wait(now);
                }
            }
        }
        if self.sender.fin_acked() {
            match self.state {
                State::FinWait1 => self.state = State::FinWait2,
                State::Closing => {
                    self.state = State::TimeWait;
                    self.enter_time_wait(now);
                }
                State::LastAck => self.end(Reason::Finished),
                _ => {}
            }
        }
    }

    fn enter_time_wait(&mut self, now: Time) {
        self.pending.closed.get_or_insert(Reason::Finished);
        self.time_wait_until = Some(now + self.config.time_wait);
    }

    fn end(&mut self, reason: Reason) {
        if self.is_known && self.state != State::TimeWait && self.state != State::Closed {
            self.pending.closed = Some(reason);
        }
        self.state = State::Closed;
        self.syn_due = false;
        self.syn_timer = None;
        self.time_wait_until = None;
        self.sender.queue.clear();
    }

    // ---- output -----------------------------------------------------------------------------------------------------

    pub(crate) fn poll(&mut self, now: Time) -> Next {
        self.expire(now);
        if let Some(event) = self.next_event() {
            return Next::Event(event);
        }
        if let Some(datagram) = self.next_segment(now) {
            self.counters.segments_sent += 1;
            return Next::Send(datagram);
        }
        // Once the FIN is acknowledged: no user is faster than that.
        if std::mem::take(&mut self.pending.peer_closed) {
            return Next::Event(Event::PeerClosed);
        }
        if let Some(reason) = self.pending.closed.take() {
            return Next::Event(Event::Closed(reason));
        }
        Next::Wait(self.deadline())
    }

    fn next_event(&mut self) -> Option<Event> {
        let pending = &mut self.pending;
        if let Some(port) = pending.accepted.take() {
            return Some(Event::Accepted { port });
        }
        if std::mem::take(&mut pending.up) {
            return Some(Event::Up);
        }
        if std::mem::take(&mut pending.readable) {
            return Some(Event::Readable);
        }
        std::mem::take(&mut pending.writable).then_some(Event::Writable)
    }

    /// The latest time of the next `poll`, unless there is input before.
    pub(crate) fn deadline(&self) -> Option<Time> {
        let of_state = match self.state {
            State::Closed => return None,
            State::TimeWait => return self.time_wait_until,
            State::SynSent | State::SynReceived => return self.syn_timer,
            _ => self.sender.deadline(),
        };
        of_state.into_iter().chain(self.receiver.deadline()).min()
    }

    /// Handles the timers that have expired.
    fn expire(&mut self, now: Time) {
        match self.state {
            State::Closed => {}
            State::TimeWait => {
                if self.time_wait_until.is_some_and(|at| at <= now) {
                    self.end(Reason::Finished);
                }
            }
            State::SynSent | State::SynReceived => {
                if self.syn_timer.is_some_and(|at| at <= now) {
                    self.counters.timeouts += 1;
                    self.counters.syn_timeouts += 1;
                    self.syn_timer = None;
                    self.syn_due = true;
                    if self.syn_sent > u32::from(self.config.syn_retries) {
                        self.end(Reason::TimedOut);
                    }
                }
            }
            _ => {
                if self.sender.is_timed_out(&self.config, now) {
                    self.counters.timeouts += 1;
                    if self.sender.timeouts() >= u32::from(self.config.data_retries) {
                        self.end(Reason::TimedOut);
                        return;
                    }
                    self.sender.on_timeout(&self.config, now);
                }
                self.sender.expire_persist(&self.config, now);
                self.sender.on_reorder_timeout(&self.config, now, &mut self.counters);
                self.sender.expire_probe(now);
            }
        }
    }

    fn next_segment(&mut self, now: Time) -> Option<Datagram> {
        match self.state {
            State::Closed => std::mem::take(&mut self.reset_due).then(|| {
                let segment = self.bare(now, Flags::RST | Flags::ACK, self.sender.next());
                self.datagram(segment.encode(self.ends.local.ip(), self.ends.peer.ip()))
            }),
            State::SynSent | State::SynReceived => self.next_syn(now),
            State::TimeWait => self.next_ack(now),
            State::FinWait2 => self.next_ack(now),
            _ => {
                if let Some(outgoing) = self.sender.poll(&self.config, now, &mut self.counters) {
                    return Some(self.data_segment(now, outgoing));
                }
                self.sender.arm_persist(&self.config, now);
                if self.sender.take_probe() {
                    // An already acknowledged number: the answer carries the window.
                    self.counters.window_probes += 1;
                    let mut segment = self.bare(now, Flags::ACK, self.sender.una());
                    segment.seq = Seq(segment.seq.0.wrapping_sub(1));
                    return Some(self.datagram(segment.encode(self.ends.local.ip(), self.ends.peer.ip())));
                }
                self.next_ack(now)
            }
        }
    }

    fn next_syn(&mut self, now: Time) -> Option<Datagram> {
        if let Some(seq) = self.refusal.take() {
            let segment = Segment { seq, flags: Flags::RST, ..self.empty() };
            return Some(self.datagram(segment.encode(self.ends.local.ip(), self.ends.peer.ip())));
        }
        if !std::mem::take(&mut self.syn_due) {
            return None;
        }
        let config = &*self.config;
        let is_answer = self.state == State::SynReceived;
        self.syn_sent += 1;
        self.counters.retransmissions += u64::from(self.syn_sent > 1);
        self.syn_left_at = Some(now);
        let steps = match config.syn_backoff {
            SynBackoff::Doubling => 1 << (self.syn_sent - 1).min(16),
            SynBackoff::Steps(_) if is_answer => 1 << (self.syn_sent - 1).min(16),
            SynBackoff::Steps(steps) => {
                steps.get(self.syn_sent as usize - 1).or(steps.last()).copied().unwrap_or(1)
            }
        };
        let wait = self.sender.rto().initial_times(steps);
        self.syn_timer = Some(self.sender.rto().deadline(now, wait));
        // The active side offers every option it supports; the passive side answers those offered.
        let window = config.receive_buffer_bytes.min(65_535) as u16;
        let stamps = Timestamps { value: self.clock(now), echo: self.ts_recent };
        let options = Options {
            mss: Some(config.mss),
            window_scale: self.scaling.then_some(self.shift),
            sack_permitted: self.sack,
            timestamps: self.timestamps.then_some(stamps),
            sack: SackBlocks::default(),
        };
        let flags = if is_answer { Flags::SYN | Flags::ACK } else { Flags::SYN };
        let ack = if is_answer { self.irs.plus(1) } else { Seq::default() };
        let segment = Segment { seq: self.iss, ack, flags, window, options, ..self.empty() };
        self.receiver.advertise(&self.config);
        Some(self.datagram(segment.encode(self.ends.local.ip(), self.ends.peer.ip())))
    }

    fn next_ack(&mut self, now: Time) -> Option<Datagram> {
        if !self.receiver.ack_due(now) {
            return None;
        }
        self.counters.acks_sent += 1;
        let segment = self.bare(now, Flags::ACK, self.sender.next());
        Some(self.datagram(segment.encode(self.ends.local.ip(), self.ends.peer.ip())))
    }

    fn empty(&self) -> Segment {
        Segment {
            source_port: self.ends.local.port(),
            destination_port: self.ends.peer.port(),
            ..Segment::default()
        }
    }

    /// A segment without data at this offset; it acknowledges all data received in order.
    fn bare(&mut self, now: Time, flags: Flags, from: u64) -> Segment {
        let window = self.receiver.advertise(&self.config);
        self.receiver.on_acked();
        self.last_ack_sent = self.receiver.next();
        let mut options = Options::default();
        if self.timestamps {
            options.timestamps = Some(Timestamps { value: self.clock(now), echo: self.ts_recent });
        }
        if self.sack && self.receiver.has_gap() {
            let first = self.irs.plus(1);
            let max = if self.timestamps { SACK_BLOCKS_MAX - 1 } else { SACK_BLOCKS_MAX };
            for block in self.receiver.sack_blocks(max) {
                // A FIN received out of order is reported too.
                let end = block.end + u64::from(self.receiver.fin() == Some(block.end));
                options.sack.push(first.plus(block.start), first.plus(end));
            }
        }
        Segment {
            seq: self.iss.plus(1 + from),
            ack: self.irs.plus(1 + self.receiver.next()),
            flags,
            window: (window >> self.shift).min(65_535) as u16,
            options,
            ..self.empty()
        }
    }

    fn data_segment(&mut self, now: Time, outgoing: Outgoing) -> Datagram {
        let fin = self.sender.is_fin(outgoing);
        let data_end = outgoing.end - u64::from(fin);
        let mut flags = Flags::ACK;
        if fin {
            flags |= Flags::FIN;
        }
        if data_end > outgoing.start && data_end == self.sender.queue.end() {
            flags |= Flags::PSH;
        }
        let segment = self.bare(now, flags, outgoing.start);
        let length = (data_end - outgoing.start) as usize;
        self.counters.bytes_sent += length as u64;
        let mut out: BytesMut = segment.encode_header_for(length);
        self.sender.queue.copy(outgoing.start, data_end, &mut out);
        debug_assert_eq!(out.len(), HEADER_BYTES + segment.options.wire_bytes() + length);
        if self.sender.fin_sent() {
            self.state = match self.state {
                State::Established => State::FinWait1,
                State::CloseWait => State::LastAck,
                other => other,
            };
        }
        let whole = match self.config.checksum {
            Checksum::Here => seal(out, self.ends.local.ip(), self.ends.peer.ip()),
            Checksum::Below => out.freeze(),
        };
        self.datagram(whole)
    }

    fn datagram(&self, payload: Bytes) -> Datagram {
        Datagram { from: self.ends.local, to: self.ends.peer, ecn: Ecn::NotEct, payload }
    }

    /// The timestamp clock; never 0.
    fn clock(&self, now: Time) -> u32 {
        let tick = self.config.timestamp_tick.as_nanos().max(1) as u64;
        (now.as_nanos() / tick) as u32 | 1 << 31
    }

    /// Asserts the invariants of a connection that waits for input.
    pub(crate) fn check(&self) {
        self.sender.check();
    }
}
