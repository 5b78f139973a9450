//! The size of the receive buffer, from which `a_rwnd` is computed. It grows automatically if
//! [`memory.receive_buffer_max_bytes`](crate::Config::memory) permits, like Linux's TCP (Fisk, Feng: "Dynamic
//! right-sizing in TCP", LACSI 2001): in one RTT, a sender that is not limited by the receive window
//! delivers what the network carries. Twice that amount leaves room for the next RTT and for the recovery
//! of a loss in this one.
//!
//! With several paths the RTT is that of the slowest path that carries data, since in-order delivery waits
//! for its chunks: `Σ rate · (RTT_max + T_rec)`, where a recovery takes one RTT. Only data that arrived
//! *and* was read counts. A slow reader gets no more buffer; and a reader that takes a full buffer at once
//! after a recovery does not prove that the network carries that much.
//!
//! A side that only receives may have no RTT samples. It then uses the time that a window of data takes to
//! arrive, if that is the shortest so far. If the window is the limit, that time is one RTT, otherwise at
//! least one RTT.
//!
//! The buffer never shrinks: "this buffer space SHOULD NOT be reduced" (RFC 9260 §3.3.2).

use std::time::Duration;

use braidftp_base::Time;

use crate::association::Association;
use crate::association::state::State;
use crate::config::Config;
use crate::ids::PathId;

/// The minimum RTT that is used: shorter samples measure timers rather than the network.
const ROUND_MIN: Duration = Duration::from_millis(1);

/// The size of an association's receive buffer.
#[derive(Debug)]
pub(super) struct ReceiveBuffer {
    bytes: usize,
    /// The maximum size.
    max_bytes: usize,
    /// When the current RTT interval began.
    began: Option<Time>,
    /// The longest RTT of the paths on which data arrived in this interval, and in the previous one.
    longest: Option<Duration>,
    longest_before: Option<Duration>,
    /// When the current window of data began to arrive, and the bytes of it still to come.
    window: Option<(Time, usize)>,
    /// The shortest time in which a window of data arrived.
    shortest_window: Option<Duration>,
    arrived_bytes: usize,
    read_bytes: usize,
    /// Bytes that arrived and were read in the previous interval.
    moved_before: usize,
}

impl ReceiveBuffer {
    pub(super) fn new(config: &Config) -> Self {
        let bytes = config.memory.receive_buffer_bytes;
        Self {
            bytes,
            max_bytes: config.memory.receive_buffer_max_bytes.map_or(bytes, |max| max.max(bytes)),
            began: None,
            longest: None,
            longest_before: None,
            window: None,
            shortest_window: None,
            arrived_bytes: 0,
            read_bytes: 0,
            moved_before: 0,
        }
    }

    /// Creates the receive buffer for a peer that the user has not admitted: smaller, and without
    /// growth.
    pub(super) fn unadmitted(config: &Config) -> Self {
        let bytes = config.passive_receive_buffer_bytes();
        Self { bytes, max_bytes: bytes, ..Self::new(config) }
    }

    /// The peer was admitted: uses the configured size from now on.
    fn admit(&mut self, config: &Config) {
        let admitted = Self::new(config);
        self.bytes = self.bytes.max(admitted.bytes);
        self.max_bytes = self.max_bytes.max(admitted.max_bytes);
    }

    /// The size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.bytes
    }

    /// Whether the buffer may still grow.
    fn is_tuned(&self) -> bool {
        self.bytes < self.max_bytes
    }

    /// Data that occupied this many bytes was read.
    pub(super) fn on_read(&mut self, bytes: usize) {
        self.read_bytes = self.read_bytes.saturating_add(bytes);
    }

    /// Data that occupies this many bytes arrived on a path with this RTT. Returns whether the buffer
    /// grew.
    fn on_arrival(&mut self, now: Time, bytes: usize, rtt: Option<Duration>) -> bool {
        let began = *self.began.get_or_insert(now);
        self.arrived_bytes = self.arrived_bytes.saturating_add(bytes);
        self.longest = self.longest.max(rtt);
        self.time_window(now, bytes);
        let measured = self.longest.max(self.longest_before);
        let Some(round) = measured.or(self.shortest_window) else { return false };
        if now.since(began) < round.max(ROUND_MIN) {
            return false;
        }
        let moved = self.arrived_bytes.min(self.read_bytes);
        // A sender in slow start has doubled its flight, and will double it again in the next RTT.
        let growth = moved.saturating_sub(self.moved_before);
        let wanted = moved.saturating_mul(2).saturating_add(growth.saturating_mul(4));
        let before = self.bytes;
        self.bytes = self.bytes.max(wanted.min(self.max_bytes));
        self.moved_before = moved;
        self.longest_before = self.longest.take();
        (self.arrived_bytes, self.read_bytes, self.began) = (0, 0, Some(now));
        self.bytes > before
    }

    fn time_window(&mut self, now: Time, bytes: usize) {
        let (began, left) = self.window.unwrap_or((now, self.bytes));
        self.window = match left.checked_sub(bytes) {
            Some(left) if left > 0 => Some((began, left)),
            _ => {
                let took = now.since(began);
                self.shortest_window = Some(self.shortest_window.map_or(took, |shortest| shortest.min(took)));
                None
            }
        };
    }
}

impl Association {
    /// Permits the peer to use the whole receive buffer, for a peer that has authenticated itself, if
    /// [`memory.unadmitted_receive_buffer_bytes`](crate::Config::memory) limits others. The larger
    /// window is advertised at once. No effect if the peer is already admitted.
    pub fn admit(&mut self) {
        if std::mem::replace(&mut self.admitted, true) {
            return;
        }
        self.buffer.admit(&self.config);
        self.inbound.admit(self.buffer.bytes());
        if let State::Up(up) = &mut self.state {
            //= specs/rfc9260.txt#section-6.2
            //# The data receiver SHOULD notify the data sender in a timely manner of
            //# changes in its ability to receive data.
            up.received.sack_now();
        }
        self.has_input = true;
    }

    /// Whether the peer may use the whole receive buffer.
    pub fn is_admitted(&self) -> bool {
        self.admitted
    }

    /// A packet with DATA that occupies this many bytes of the buffer arrived on a path.
    pub(super) fn tune_receive_buffer(&mut self, now: Time, received_on: PathId, bytes: usize) {
        if !self.buffer.is_tuned() || !matches!(self.state, State::Up(_)) {
            return;
        }
        let rtt = self.paths[usize::from(received_on.0)].rtt.measured_srtt();
        if self.buffer.on_arrival(now, bytes, rtt) {
            self.inbound.set_receive_buffer(self.buffer.bytes());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: Duration = Duration::from_millis(1);

    fn buffer(bytes: usize, max: usize) -> ReceiveBuffer {
        let config = Config::default().with(|c| {
            c.memory.receive_buffer_bytes = bytes;
            c.memory.receive_buffer_max_bytes = Some(max);
        });
        ReceiveBuffer::new(&config)
    }

    /// In each of the following RTTs, this many bytes arrive and this many are read.
    fn rounds(buffer: &mut ReceiveBuffer, from: Time, rtt: Duration, moves: &[(usize, usize)]) -> Time {
        let mut now = from;
        buffer.on_arrival(now, 0, Some(rtt));
        for (arrives, reads) in moves {
            buffer.on_read(*reads);
            now += rtt;
            buffer.on_arrival(now, *arrives, Some(rtt));
        }
        now
    }

    #[test]
    fn it_is_twice_the_data_of_an_rtt() {
        let mut steady = buffer(10_000, 1 << 20);
        rounds(&mut steady, Time::ZERO, 100 * MS, &[(20_000, 20_000); 5]);
        // 2 * 20,000; and 4 * 20,000, since nothing had arrived before.
        assert_eq!(steady.bytes(), 120_000);
        let mut slow_start = buffer(10_000, 1 << 20);
        rounds(&mut slow_start, Time::ZERO, 100 * MS, &[(2_000, 2_000), (4_000, 4_000), (8_000, 8_000)]);
        assert_eq!(slow_start.bytes(), 32_000, "room for what comes two round trips later");
    }

    #[test]
    fn it_grows_up_to_its_limit_and_not_at_all_without_one() {
        let mut limited = buffer(10_000, 50_000);
        rounds(&mut limited, Time::ZERO, 100 * MS, &[(40_000, 40_000); 5]);
        assert_eq!(limited.bytes(), 50_000);
        let mut fixed =
            ReceiveBuffer::new(&Config::default().with(|c| c.memory.receive_buffer_bytes = 10_000));
        assert!(!fixed.is_tuned());
        rounds(&mut fixed, Time::ZERO, 100 * MS, &[(40_000, 40_000); 5]);
        assert_eq!(fixed.bytes(), 10_000);
        let lower = Config::default().with(|c| {
            c.memory.receive_buffer_bytes = 10_000;
            c.memory.receive_buffer_max_bytes = Some(5_000);
        });
        assert_eq!(ReceiveBuffer::new(&lower).bytes(), 10_000, "a limit below its beginning is none");
    }

    #[test]
    fn a_slow_reader_gets_no_larger_buffer() {
        let mut slow = buffer(10_000, 1 << 20);
        rounds(&mut slow, Time::ZERO, 100 * MS, &[(100_000, 1_000); 50]);
        assert_eq!(slow.bytes(), 10_000);
        // Nor does it grow for a reader that takes everything at once after a loss was repaired.
        let mut stalled = buffer(100_000, 1 << 20);
        rounds(&mut stalled, Time::ZERO, 100 * MS, &[(10_000, 0), (10_000, 0), (10_000, 90_000)]);
        assert_eq!(stalled.bytes(), 100_000);
    }

    #[test]
    fn the_rtt_of_the_slowest_path_with_data_determines_the_interval() {
        let mut buffer = buffer(10_000, 1 << 20);
        let mut now = Time::ZERO;
        for step in 0..200 {
            buffer.on_read(1_000);
            let rtt = if step % 20 == 0 { 300 * MS } else { 30 * MS };
            buffer.on_arrival(now, 1_000, Some(rtt));
            now += 3 * MS;
        }
        // A hundred packets in 300 ms; by the RTT of the fast path it would be ten.
        assert!((200_000..=620_000).contains(&buffer.bytes()), "{}", buffer.bytes());
    }

    #[test]
    fn without_rtt_samples_the_time_of_a_window_is_used() {
        // A window every 100 ms, as from a window-limited sender: it grows until the sender is no longer
        // limited.
        let mut held_back = buffer(10_000, 1 << 20);
        let mut now = Time::ZERO;
        for _ in 0..100 {
            let window = held_back.bytes().min(40_000);
            for _ in 0..10 {
                held_back.on_read(window / 10);
                held_back.on_arrival(now, window / 10, None);
                now += 10 * MS;
            }
        }
        assert!((80_000..=240_000).contains(&held_back.bytes()), "{}", held_back.bytes());
        // With a network-limited sender it grows a little, and no more.
        let mut ample = buffer(100_000, 1 << 20);
        for step in 0..10_000u32 {
            ample.on_read(100);
            ample.on_arrival(Time::ZERO + step * MS, 100, None);
        }
        assert!(ample.bytes() <= 600_000, "{}", ample.bytes());
    }
}
