//! Detection of paths that share a bottleneck, whose congestion control must then be that of one flow.
//!
//! The queue of a bottleneck delays all its paths equally. If one path alone reduces its window and its
//! queueing delay falls, the delay of a path with the same bottleneck falls by as much, and that of other
//! paths does not. This comparison is made after each window reduction that is not close to one of another
//! path: the mean RTT of each path before it, with that of the RTT in which the reduction takes effect.
//! Several agreements are required; disagreement revokes the result.
//!
//! If each overflow hits several paths, no path ever reduces its window alone. Then one path does so as a
//! test: halfway to the next overflow, while there is a queue, it halves its window for one RTT.
//!
//! RFC 8382 detects shared bottlenecks at the receiver by statistics of delays, and so must distinguish
//! queues that only look alike: the queues of equal paths with equal controllers that started together
//! evolve in parallel without being shared. Rubenstein, Kurose, Towsley ("Detecting Shared Congestion of
//! Flows Via End-to-End Measurement", ToN 10(3), 2002) compare delays across flows with those within one.
//! Here the sender itself changes the queue.
//!
//! A bottleneck with so many other flows that a third of one window does not show is not detected; coupling
//! would gain little there. If windows are never reduced, because losses are random, nothing is coupled.

use crate::config::MultipathConstants;
use std::time::Duration;

use braidftp_base::Time;

use crate::association::multipath::delivery_rate::Load;
use crate::association::path::{Path, TIMER_GRANULARITY};
use crate::ids::PathId;
use crate::stats::PathState;

/// Which paths are known to share a bottleneck.
#[derive(Debug, Default)]
pub(in crate::association) struct Bottlenecks {
    /// For each path, the current span and the previous one.
    waits: Vec<[Mean; 2]>,
    span_began: Time,
    /// When a window was last reduced, and the time since the previous reduction.
    reduced_at: Option<Time>,
    pause: Duration,
    /// The number of simultaneous reductions, which cannot be judged; at most [`MultipathConstants::simultaneous_max`].
    simultaneous: u32,
    /// When a trial was last started or attempted.
    tried_at: Time,
    trial: Option<Trial>,
    /// For each pair of paths, ordered as in `place`.
    pairs: Vec<Pair>,
}

/// A reduction of one path's window alone.
#[derive(Debug)]
struct Trial {
    path: PathId,
    began: Time,
    span: Duration,
    /// The mean RTT of each path before.
    before: Vec<Option<Duration>>,
    /// Whether the span in which the effect shows has begun.
    shows: TrialEffect,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum TrialEffect {
    NotYet,
    Now,
}

#[derive(Debug, Default, Clone, Copy)]
struct Mean {
    sum: Duration,
    count: u32,
}

#[derive(Debug, Default, Clone, Copy)]
struct Pair {
    score: i8,
    is_common: bool,
}

impl Mean {
    fn add(&mut self, one: Duration) {
        self.sum += one;
        self.count += 1;
    }

    fn with(self, other: Self) -> Self {
        Self { sum: self.sum + other.sum, count: self.count + other.count }
    }

    fn get(self) -> Option<Duration> {
        self.sum.checked_div(self.count)
    }
}

impl Pair {
    fn judge(&mut self, agrees: i8, constants: &MultipathConstants) {
        let max = 2 * constants.shared_score;
        self.score = (self.score + agrees).clamp(-max, max);
        self.is_common = if self.is_common { self.score > 0 } else { self.score >= constants.shared_score };
    }

    /// Whether the pair is undecided.
    fn is_open(self, constants: &MultipathConstants) -> bool {
        !self.is_common && self.score > -constants.shared_score
    }
}

/// The index of a pair, in either order; it does not change when paths are added.
fn place(one: usize, other: usize) -> usize {
    let (low, high) = (one.min(other), one.max(other));
    high * (high.max(1) - 1) / 2 + low
}

impl Bottlenecks {
    /// Whether two paths are known to share a bottleneck.
    pub(in crate::association) fn are_common(&self, one: usize, other: usize) -> bool {
        one != other && self.pairs.get(place(one, other)).is_some_and(|pair| pair.is_common)
    }

    /// Records an RTT sample of a path. Returns the path whose window should be halved for one RTT as a
    /// test, if that may decide something.
    pub(in crate::association) fn on_round_trip(
        &mut self,
        now: Time,
        id: PathId,
        round_trip: Duration,
        paths: &[Path],
        constants: &MultipathConstants,
    ) -> Option<PathId> {
        self.waits.resize(paths.len(), <[Mean; 2]>::default());
        self.pairs.resize(place(0, paths.len()), Pair::default());
        let active = || paths.iter().filter(|path| path.state == PathState::Active);
        let span = active()
            .filter_map(|path| path.rtt.srtt())
            .max()
            .unwrap_or_default()
            .max(constants.rate_span_min / 2);
        let reduced_at = paths.iter().filter_map(|path| path.reduced_at).max();
        if reduced_at > self.reduced_at {
            self.on_reduced(now, paths, span, constants);
            self.reduced_at = reduced_at;
        }
        match &mut self.trial {
            Some(trial) if trial.shows == TrialEffect::NotYet && now.since(trial.began) >= trial.span => {
                trial.shows = TrialEffect::Now;
                self.waits.fill(<[Mean; 2]>::default());
            }
            Some(trial) if now.since(trial.began) >= trial.span * 2 => {
                let trial = self.trial.take().expect("just checked");
                self.judge(&trial, constants);
                self.begin_span(now);
            }
            Some(_) => {}
            None if now.since(self.span_began) >= span => self.begin_span(now),
            None => {}
        }
        self.waits[usize::from(id.0)][0].add(round_trip);
        let trial_path = self.choose_trial_path(now, paths, span, constants)?;
        self.begin_trial(now, trial_path, span);
        Some(trial_path)
    }

    fn begin_span(&mut self, now: Time) {
        self.span_began = now;
        self.waits.iter_mut().for_each(|[last, before]| *before = std::mem::take(last));
    }

    /// One or more windows were reduced.
    fn on_reduced(&mut self, now: Time, paths: &[Path], span: Duration, constants: &MultipathConstants) {
        let since = |at: Option<Time>| at > self.reduced_at;
        let mut reduced = (0..paths.len()).filter(|index| since(paths[*index].reduced_at));
        let (first, second) = (reduced.next(), reduced.next());
        let pause = self.reduced_at.map_or(Duration::MAX, |at| now.since(at));
        let is_first = pause > span * constants.quiet_spans;
        if is_first {
            self.pause = pause;
        }
        (self.trial, self.tried_at) = (None, now);
        match first.filter(|_| is_first && second.is_none()) {
            Some(index) => self.begin_trial(now, PathId(index as u8), span),
            None => self.simultaneous = constants.simultaneous_max.min(self.simultaneous + 1),
        }
    }

    fn begin_trial(&mut self, now: Time, path: PathId, span: Duration) {
        let before = self.waits.iter().map(|[last, before]| last.with(*before).get()).collect();
        self.trial = Some(Trial { path, began: now, span, before, shows: TrialEffect::NotYet });
        self.tried_at = now;
    }

    /// The path to test when windows are reduced simultaneously: the largest with a queue and an undecided
    /// pair.
    fn choose_trial_path(
        &self,
        now: Time,
        paths: &[Path],
        span: Duration,
        constants: &MultipathConstants,
    ) -> Option<PathId> {
        let is_halfway = now.since(self.tried_at) > (self.pause / 2).max(span * constants.quiet_spans);
        if self.simultaneous < constants.simultaneous_max || self.trial.is_some() || !is_halfway {
            return None;
        }
        let is_active = |index: &usize| paths[*index].state == PathState::Active;
        let has_open = |own: usize| {
            let mut others = (0..paths.len()).filter(|other| *other != own).filter(is_active);
            others.any(|other| self.pairs[place(own, other)].is_open(constants))
        };
        (0..paths.len())
            .filter(is_active)
            .filter(|own| paths[*own].load(constants) == Load::Queued && has_open(*own))
            .max_by_key(|own| paths[*own].controller.window())
            .map(|own| PathId(own as u8))
    }

    fn judge(&mut self, trial: &Trial, constants: &MultipathConstants) {
        let shorter = |index: usize| {
            let (before, after) = (*trial.before.get(index)?, self.waits[index][0].get());
            Some((before?, before?.saturating_sub(after?)))
        };
        let own = usize::from(trial.path.0);
        let Some((_, by)) =
            shorter(own).filter(|(all, by)| *by >= TIMER_GRANULARITY.max(*all / constants.delay_change_part))
        else {
            // A deliberate reduction would show nothing either.
            self.simultaneous = 0;
            return;
        };
        for other in (0..self.waits.len()).filter(|other| *other != own) {
            let Some((_, theirs)) = shorter(other) else { continue };
            let agrees = theirs >= by / 2 && theirs <= by * 2;
            self.pairs[place(own, other)].judge(if agrees { 1 } else { -1 }, constants);
        }
    }
}
