//! Pacing: data is sent at the rate that a path's controller requests, delayed by the clock of `cc::pacer`.
//! Also tracks when the sender was limited by the application, for delivery rate samples.
//!
//! Control chunks are never delayed. `transmit` decides whether data may be sent at all.

use braidftp_base::Time;

use crate::association::Association;
use crate::association::multipath::uses_cmt_rules;
use crate::association::permit::SendPermit;
use crate::association::state::State;
use crate::association::timers::Timer;
use crate::ids::PathId;

impl Association {
    /// Whether data may be sent on this path now, and why. The pacing clock may delay what the window
    /// permits; it does not delay tail loss probes, nor data sent after a time-out, which is limited
    /// more than by any rate.
    pub(super) fn permit(&mut self, now: Time, id: PathId) -> Option<SendPermit> {
        let permit = self.permit_unpaced(now, id)?;
        let path = &mut self.paths[usize::from(id.0)];
        if permit != SendPermit::Probe
            && path.timeouts_unanswered == 0
            && let Some(until) = path.holds(now)
        {
            self.timers.arm(Timer::Pacing(id), until);
            return None;
        }
        Some(permit)
    }

    /// At the end of a drain: if nothing is left to be sent, delivery rate samples of paths with room in
    /// the window are application-limited until the bytes in flight are acknowledged
    /// (draft-ietf-ccwg-bbr §4.1.2.4).
    pub(super) fn report_app_limited(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        // With several paths, one with room may have no data because the peer's window or the scheduler
        // limits it.
        let several = self.config.paths.multipath.is_some() && !uses_cmt_rules(&self.config);
        if !several && (self.queue.peek_len().is_some() || up.sent.next_lost().is_some()) {
            return;
        }
        for (index, path) in self.paths.iter_mut().enumerate() {
            // Less room than a burst counts as none.
            if !path.is_usable() || path.flight_bytes + path.burst_bytes >= path.controller.window() {
                continue;
            }
            match path.holds(now) {
                Some(until) => self.timers.arm(Timer::Pacing(PathId(index as u8)), until),
                None => path.controller.on_app_limited(now, path.flight_bytes),
            }
        }
    }
}
