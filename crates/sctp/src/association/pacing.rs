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
    /// Whether data may leave by this path now, and why: what the window lets out, the pacing clock may hold back. It does
    /// not hold back a probe of the tail, nor what leaves after a time-out: timers let out less than any rate.
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

    /// At the end of a drain: what is measured until those bytes are acknowledged that are in flight on paths with room
    /// for more says nothing of the paths, if nothing is left to be sent (draft-ietf-ccwg-bbr §4.1.2.4).
    pub(super) fn report_app_limited(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        // Of several paths, one with room has nothing to send where nothing may take it: the peer's window or the choice
        // of paths limits it.
        let several = self.config.paths.multipath.is_some() && !uses_cmt_rules(&self.config);
        if !several && (self.queue.peek_len().is_some() || up.sent.next_lost().is_some()) {
            return;
        }
        for (index, path) in self.paths.iter_mut().enumerate() {
            // What is less than a burst is no room.
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
