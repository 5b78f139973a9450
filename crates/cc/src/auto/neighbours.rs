//! Whether those beside it are in no hurry: then a window opens as Reno's does, and as CUBIC's otherwise.
//!
//! Over a long fat path CUBIC is back at its window in seconds where Reno takes minutes, so that beside Reno it takes nearly
//! all; and what opens as Reno has as little beside CUBIC. Which of them is there shows in what an unhurried window has
//! regained when the queue overflows again: beside its like more than a third of what it gave up, beside CUBIC hardly anything,
//! until its share is below a fifth. So it is tried: unhurried at first, and again after some losses in a hurry; the more of
//! these, the more often in a row the others turned out to be fast. Where its share is so small that what it regains tells nothing,
//! it is in a hurry until it has caught up, and learns nothing from the next loss.
//!
//! Of flows that open alike over one queue, those with less than their share see their rates rise while the queue grows, and
//! those with more see them fall. Who rises is in a hurry until the next loss, and so is who closes for others in vain.

use std::time::Duration;

/// What is regained is little if it is less than one in so many of what was given up.
const LITTLE: usize = 3;
/// So many losses in a hurry before the next trial, at first and at most.
const HURRIED_MIN: u32 = 4;
const HURRIED_MAX: u32 = 16;

/// What is thought of the others.
#[derive(Debug, Clone, Copy)]
pub(super) struct Neighbours {
    /// Reductions until the next trial; none while there is no hurry.
    hurried: u32,
    /// How many there are to be when a trial fails.
    next: u32,
    /// The window before the last reduction, and after it.
    last: Option<(usize, usize)>,
    /// A round trip and the window then, since when the queue has not become shorter and there was no hurry; or of a window
    /// that closes, the longest one and what it was.
    since: Option<(Duration, usize)>,
    /// Since the last reduction.
    share: Share,
}

/// What part of all that is under way a window was, and has become.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Share {
    Enough,
    /// Nobody else can be in want of so small a part.
    Behind,
    CaughtUp,
}

impl Default for Neighbours {
    fn default() -> Self {
        Self { hurried: 0, next: HURRIED_MIN, last: None, since: None, share: Share::Enough }
    }
}

impl Neighbours {
    /// Whether there is no hurry.
    pub(super) fn are_slow(&self) -> bool {
        self.hurried == 0 && self.share != Share::Behind
    }

    /// A window that opened otherwise is shared from here on.
    pub(super) fn begin(&mut self) {
        (self.last, self.since, self.share) = (None, None, Share::Enough);
    }

    /// It is so small a part that it may hurry until it has caught up.
    pub(super) fn fall_behind(&mut self) {
        self.share = Share::Behind;
    }

    /// It is as large a part as one other's.
    pub(super) fn catch_up(&mut self) {
        if self.share == Share::Behind {
            self.share = Share::CaughtUp;
        }
    }

    /// A round trip of this length is over, in which a window, now of so many bytes, opened without hurry.
    pub(super) fn on_round(&mut self, rtt: Duration, window: usize) {
        let (rtt_then, window_then) = *self.since.get_or_insert((rtt, window));
        if rtt < rtt_then {
            self.since = Some((rtt, window));
        } else if window as u128 * rtt_then.as_nanos() * 8 > window_then as u128 * rtt.as_nanos() * 9 {
            self.hurried = 1;
        }
    }

    /// A round trip of this length is over, in which a window, now of so many bytes, closed twice as fast as Reno's opens. With
    /// an eighth of it, one other who opens so has half of that, and of half of what is under way that is a 32nd. If the
    /// round trip has not become shorter by half as much, there is no queue, or there are others than that one.
    pub(super) fn on_closing(&mut self, rtt: Duration, window: usize) {
        let (longest, from) = self.since.map_or((rtt, window), |(longest, from)| (longest.max(rtt), from));
        let over = window < from - from / 8;
        if over && rtt > longest * 63 / 64 {
            self.hurried = 1;
        }
        self.since = Some(if over { (rtt, window) } else { (longest, from) });
    }

    /// A window opens otherwise.
    pub(super) fn rest(&mut self) {
        self.since = None;
    }

    /// A window is reduced, in bytes. Gives what it was before a trial that has failed.
    pub(super) fn on_reduction(&mut self, before: usize, after: usize) -> Option<usize> {
        self.since = None;
        let share = std::mem::replace(&mut self.share, Share::Enough);
        let (given_up_from, to) = self.last.replace((before, after))?;
        if self.hurried > 0 {
            self.hurried -= 1;
            return None;
        }
        if share != Share::Enough {
            return None;
        }
        if LITTLE * before.saturating_sub(to) >= given_up_from.saturating_sub(to) {
            self.next = HURRIED_MIN;
            return None;
        }
        self.hurried = self.next;
        self.next = (2 * self.next).min(HURRIED_MAX);
        Some(given_up_from)
    }
}
