//! Estimates whether competing flows grow like Reno or like CUBIC. The window grows like Reno's beside the
//! former and like CUBIC's beside the latter.
//!
//! Over a path with a large bandwidth-delay product CUBIC regains its window in seconds and Reno in minutes.
//! CUBIC thus takes nearly everything beside Reno, and a window that grows like Reno's gets little beside
//! CUBIC. What a slowly growing window regains before the queue overflows again shows which flows compete:
//! more than a third of what it gave up beside slow flows, hardly anything beside CUBIC, unless its share is
//! below a fifth. The controller therefore makes trials: it grows slowly at first and again after some losses
//! with fast growth; more losses pass between trials the more trials fail in a row. A share so small that the
//! regained part says nothing grows fast until it has caught up, and the next loss is not evaluated.
//!
//! Among flows that grow alike over one queue, the rates of flows with less than their share rise while the
//! queue grows, and those of flows with more fall. A flow whose rate rises grows fast until the next loss,
//! and so does one that shrinks in favour of others without effect.

use std::time::Duration;

use super::Constants;

/// The estimate of how competing flows grow.
#[derive(Debug, Clone, Copy)]
pub(super) struct CompetingFlows {
    constants: &'static Constants,
    /// Reductions until the next trial; 0 during slow growth.
    fast_losses: u32,
    /// The value of `fast_losses` after the next failed trial.
    next: u32,
    /// The window before and after the last reduction.
    last: Option<(usize, usize)>,
    /// The RTT and the window since which the queue has not become shorter during slow growth; for a
    /// shrinking window the longest RTT and the window where shrinking began.
    since: Option<(Duration, usize)>,
    /// The share since the last reduction.
    share: Share,
}

/// The share of the window in all data in flight since the last reduction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Enough,
    /// So small that no competing flow can need a part of it.
    Behind,
    CaughtUp,
}

impl CompetingFlows {
    pub(super) fn new(constants: &'static Constants) -> Self {
        let next = constants.fast_losses;
        Self { constants, fast_losses: 0, next, last: None, since: None, share: Share::Enough }
    }

    /// Whether competing flows are taken to be slow, so that the window grows slowly.
    pub(super) fn are_slow(&self) -> bool {
        self.fast_losses == 0 && self.share != Share::Behind
    }

    /// Restarts the estimate for a window that grew by other rules before.
    pub(super) fn reset(&mut self) {
        (self.last, self.since, self.share) = (None, None, Share::Enough);
    }

    /// The share is so small that it may grow fast until it has caught up.
    pub(super) fn fall_behind(&mut self) {
        self.share = Share::Behind;
    }

    /// The share has become as large as that of one competing flow.
    pub(super) fn catch_up(&mut self) {
        if self.share == Share::Behind {
            self.share = Share::CaughtUp;
        }
    }

    /// Ends a round trip of slow growth with this RTT and window in bytes.
    pub(super) fn on_round(&mut self, rtt: Duration, window: usize) {
        let (rtt_then, window_then) = *self.since.get_or_insert((rtt, window));
        if rtt < rtt_then {
            self.since = Some((rtt, window));
        } else if window as u128 * rtt_then.as_nanos() * 8 > window_then as u128 * rtt.as_nanos() * 9 {
            self.fast_losses = 1;
        }
    }

    /// Ends a round trip of shrinking with this RTT and window in bytes. The window shrinks twice as fast as
    /// Reno's grows. Of an eighth of the window, one slow flow gains half, so the flight falls by 1/32. If
    /// the RTT has not fallen by half as much, there is no queue, or other flows take the room.
    pub(super) fn on_shrinking(&mut self, rtt: Duration, window: usize) {
        let (longest, from) = self.since.map_or((rtt, window), |(longest, from)| (longest.max(rtt), from));
        let over = window < from - from / 8;
        if over && rtt > longest * 63 / 64 {
            self.fast_losses = 1;
        }
        self.since = Some(if over { (rtt, window) } else { (longest, from) });
    }

    /// Pauses the estimate: the window grows by other rules.
    pub(super) fn pause(&mut self) {
        self.since = None;
    }

    /// Reduces the window, in bytes. Returns the window before the trial if the trial failed.
    pub(super) fn on_reduction(&mut self, before: usize, after: usize) -> Option<usize> {
        self.since = None;
        let share = std::mem::replace(&mut self.share, Share::Enough);
        let (given_up_from, to) = self.last.replace((before, after))?;
        if self.fast_losses > 0 {
            self.fast_losses -= 1;
            return None;
        }
        if share != Share::Enough {
            return None;
        }
        if self.constants.little * before.saturating_sub(to) >= given_up_from.saturating_sub(to) {
            self.next = self.constants.fast_losses;
            return None;
        }
        self.fast_losses = self.next;
        self.next = (2 * self.next).min(4 * self.constants.fast_losses);
        Some(given_up_from)
    }
}
