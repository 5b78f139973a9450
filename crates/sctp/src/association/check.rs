//! Invariants that hold whenever an association waits: every counter is recomputed, and every pending
//! action has a timer.
//!
//! The check changes nothing. Its cost is proportional to the data held, so it does not run every time if
//! much is held. Debug builds run it at the end of each drain; the soak and the fuzzers also in release
//! builds.

use crate::association::state::{Shutdown, State, Up, Window};
use crate::association::timers::Timer;
use crate::association::{Association, reassembly, sent, state};
use crate::ids::PathId;

impl Association {
    /// Panics with an explanation if an invariant is violated.
    #[doc(hidden)]
    pub fn check(&self) {
        if matches!(self.state, State::Closed(_)) {
            assert_eq!(self.timers.next(), None, "an association that is over has no timer");
            return;
        }
        if !self.is_thorough() {
            return;
        }
        self.queue.check();
        let held = self.inbound.check();
        let capacity = self.buffer.bytes();
        let free = capacity.saturating_sub(self.inbound.window_cost());
        assert_eq!(self.a_rwnd(), self.memory_room(free), "a_rwnd is the capacity less the held bytes");
        // Chunks are accepted while at most twice the buffer is held; beyond that, only the next one in
        // sequence.
        let most = 2 * capacity + reassembly::CHUNK_MAX_BYTES;
        assert!(held <= most, "{held} bytes are held, {most} may be");
        match &self.state {
            State::CookieWait { init_due: due, .. } | State::CookieEchoed { cookie_due: due, .. } => {
                assert!(!due, "INIT or COOKIE ECHO is sent when it is due");
                assert!(self.timers.is_armed(Timer::T1), "the handshake has a timer");
            }
            State::Up(up) => self.check_up(up),
            State::Closed(_) => {}
        }
    }

    /// Whether every counter is recomputed: always if little data is held, otherwise for every n-th
    /// packet.
    fn is_thorough(&self) -> bool {
        let sent_bytes = self.state.up().map_or(0, |up| up.sent.charged_bytes());
        let bytes = self.inbound.charged_bytes() + self.queue.queued_bytes() + sent_bytes;
        let packets: u64 = self.paths.iter().map(|path| path.counters.packets_sent).sum();
        packets.is_multiple_of(1 + bytes as u64 / 20_000)
    }

    fn check_up(&self, up: &Up) {
        let by_path = up.sent.check(self.paths.len());
        for (index, (path, flight)) in self.paths.iter().zip(by_path).enumerate() {
            let id = PathId(index as u8);
            assert_eq!(path.flight_bytes, flight, "a path counts its bytes in flight: {id:?}");
            let armed = self.timers.is_armed(Timer::T3Rtx(id));
            assert!(flight == 0 || armed, "bytes in flight have a timer: {flight} on {id:?}");
        }
        let flight: usize = self.paths.iter().map(|path| path.flight_bytes).sum();
        assert_eq!(flight, up.sent.flight_bytes(), "the sum over the paths is all bytes in flight");
        let usable = self.has_usable_path();
        let forward = up.sent.advanced_peer_ack_point().is_some();
        let paced =
            (0..self.paths.len()).any(|index| self.timers.is_armed(Timer::Pacing(PathId(index as u8))));
        assert!(
            up.sent.is_empty() || flight > 0 || forward || paced || !usable,
            "a lost chunk is retransmitted in the same drain, or when the pacing clock permits"
        );
        let armed = |index: usize| self.timers.is_armed(Timer::T3Rtx(PathId(index as u8)));
        assert!(
            !forward || !usable || (0..self.paths.len()).any(armed),
            "FORWARD TSN has a timer until it is acknowledged"
        );
        // Each stream's partly sent message that was abandoned ends in a TSN of its own.
        let most = sent::OUTSTANDING_MAX + usize::from(self.outbound_streams);
        assert!(up.sent.count() <= most, "{} chunks are outstanding", up.sent.count());
        up.addresses.check();
        assert_eq!(
            up.addresses.is_outstanding(),
            self.timers.is_armed(Timer::T4Asconf),
            "T4 waits for an ASCONF-ACK"
        );
        for path in self.paths.iter().filter(|path| !path.is_usable()) {
            assert_eq!(path.flight_bytes, 0, "an unusable path has no bytes in flight");
        }
        up.received.check();
        assert!(!up.received.sack_is_due() || !usable, "a SACK is sent when it is due");
        up.control.check();
        if usable {
            let held = !self.queue.is_empty() && self.queue.is_idle();
            let asked =
                up.reconfiguration.as_ref().map(|reset| reset.check(self.timers.is_armed(Timer::Reconfig)));
            assert!(!held || asked == Some(true), "a held message waits for a request");
        }
        assert!(
            usize::from(up.primary.0) < self.paths.len() && usize::from(up.sack_path.0) < self.paths.len()
        );
        match self.shutdown {
            Shutdown::Sent { due, .. } | Shutdown::AckSent { due, .. } => {
                assert!(!due || !usable, "SHUTDOWN is sent when it is due");
                assert!(self.timers.is_armed(Timer::T2Shutdown), "a shutdown has a timer");
                assert!(
                    self.queue.is_empty() && up.sent.is_empty(),
                    "SHUTDOWN is sent when all data is acknowledged"
                );
            }
            Shutdown::No | Shutdown::Pending | Shutdown::Received => {
                let waits = !self.queue.is_idle() && up.sent.is_empty();
                let probed = up.window != Window::Open || self.timers.is_armed(Timer::ZeroWindow);
                assert!(
                    !waits || probed || paced || !usable,
                    "the peer's window alone keeps data back, and it is probed, or the pacing clock does"
                );
            }
        }
    }
}

impl state::Control {
    fn check(&self) {
        assert!(
            self.heartbeat_acks.len() <= state::HEARTBEAT_ACKS_MAX && self.errors.len() <= state::ERRORS_MAX
        );
    }
}
