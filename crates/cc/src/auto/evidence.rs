//! Whether losses have to do with delay: the rank of the round trip measured next to each lost packet among those measured
//! lately.
//!
//! A drop-tail queue drops when it is full, so what left beside a lost packet waited longer than most: its round trip has a
//! rank near 1. What a radio or a bad cable loses is drawn from all packets alike, so that its ranks are uniform, whatever
//! the queue does meanwhile. A rank needs no base round trip, which a late flow never sees, and no threshold in
//! milliseconds. The ranks are weighed as a sequential test weighs them (Wald 1945): a loss adds the logarithm of how likely its
//! rank is if queues drop, by how likely it is if chance does.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::Time;

/// A round trip is remembered by so many samples.
const SAMPLES_A_ROUND: u32 = 24;
/// How many round trips are lately.
const ROUNDS: u32 = 10;
/// And no less than this: a few round trips of a short path say little.
const SPAN_MIN: Duration = Duration::from_millis(200);
/// With fewer samples there is no rank.
const SAMPLES_MIN: usize = 4;
/// Round trips that differ by no more than such a part of them are alike: bursts that grow with the rate are no queue.
const ALIKE: u32 = 100;
/// Ranks of so many losses count for a round trip: more of them saw the same queue.
const LOSSES_A_ROUND: i32 = 2;
/// The score stays within this either way, so that what has changed is seen.
const SCORE_MAX: i32 = 110;

/// Ten times ln(4 u³), the density 4 u³ of ranks u at queues that drop by 1, that of ranks at random; by sixteenths of u,
/// and nowhere below -30.
const WEIGHTS: [i32; 16] = [-30, -30, -30, -30, -24, -18, -13, -9, -5, -2, 1, 4, 6, 9, 11, 13];

/// The same where nearly all round trips are alike and short: queues that drop are not empty. Where they are alike and long, it is 0:
/// a queue that is full all the time drops whatever comes.
const FLAT: i32 = -15;

/// What is known of a path's losses.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    /// When a packet left and how long its round trip was.
    samples: VecDeque<(Time, Duration)>,
    /// The shortest ever.
    shortest: Option<Duration>,
    /// Tenths of natural logarithms: above 0 for congestion.
    score: i32,
    /// Of the losses of this round trip: the sum of their weights, and how many they are.
    sum: i32,
    count: i32,
}

impl Evidence {
    /// A round trip was measured.
    pub(super) fn on_sample(&mut self, now: Time, rtt: Duration) {
        let sent_at = now - rtt;
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        let apart = (rtt / SAMPLES_A_ROUND).max(SPAN_MIN / (SAMPLES_A_ROUND * ROUNDS));
        if self.samples.back().is_none_or(|(last, _)| sent_at >= *last + apart) {
            self.samples.push_back((sent_at, rtt));
        }
        let span = (rtt * ROUNDS).max(SPAN_MIN);
        while self.samples.len() > (SAMPLES_A_ROUND * ROUNDS) as usize
            || self.samples.front().is_some_and(|(at, _)| sent_at.since(*at) > span)
        {
            self.samples.pop_front();
        }
    }

    /// A packet that left then was lost.
    pub(super) fn on_lost(&mut self, sent_at: Time) {
        if let Some(weight) = self.weight(sent_at) {
            self.sum += weight;
            self.count += 1;
        }
    }

    /// A mark says that it was congestion.
    pub(super) fn on_mark(&mut self) {
        self.score = SCORE_MAX;
    }

    /// A round trip is over.
    pub(super) fn on_round(&mut self) {
        self.score = self.score();
        (self.sum, self.count) = (0, 0);
    }

    /// Tenths of natural logarithms: above 0 for congestion.
    pub(super) fn score(&self) -> i32 {
        let round = if self.count == 0 { 0 } else { self.sum * self.count.min(LOSSES_A_ROUND) / self.count };
        (self.score + round).clamp(-SCORE_MAX, SCORE_MAX)
    }

    /// The same without the losses of this round trip.
    pub(super) fn settled(&self) -> i32 {
        self.score
    }

    /// What came after this was known is not to count.
    pub(super) fn settle_at(&mut self, score: i32) {
        self.score = score;
        (self.sum, self.count) = (0, 0);
    }

    fn weight(&self, sent_at: Time) -> Option<i32> {
        if self.samples.len() < SAMPLES_MIN {
            return None;
        }
        let after = self.samples.partition_point(|(at, _)| *at < sent_at);
        let near = [after.checked_sub(1), Some(after)];
        let near = near.into_iter().flatten().filter_map(|index| self.samples.get(index));
        let (_, rtt) = near.min_by_key(|(at, _)| at.since(sent_at).max(sent_at.since(*at)))?;
        let alike = *rtt / ALIKE;
        let (low, high) = (*rtt - alike, *rtt + alike);
        let below = self.samples.iter().filter(|(_, other)| *other < low).count();
        let equal = self.samples.iter().filter(|(_, other)| (low..=high).contains(other)).count();
        if 4 * equal > 3 * self.samples.len() {
            let is_short = self.shortest.is_none_or(|shortest| *rtt <= shortest * 5 / 4);
            return Some(if is_short { FLAT } else { 0 });
        }
        let sixteenths = 16 * (2 * below + equal) / (2 * self.samples.len());
        Some(WEIGHTS[sixteenths.min(15)])
    }
}
