//! Classifies losses as congestion or random, by the rank of the round-trip time measured next to each lost
//! packet among recent samples.
//!
//! A drop-tail queue drops packets when it is full, so packets sent next to a lost one waited longer than
//! most: their RTT has a rank near 1. Losses of a radio link or a bad cable are independent of the queue, so
//! their ranks are uniform. A rank needs no base RTT, which a late flow never sees, and no threshold in
//! milliseconds. The ranks are combined as in a sequential test (Wald 1945): each loss adds the logarithm of
//! the likelihood of its rank under queue drops over its likelihood under random loss.
//!
//! Where most RTTs are alike, ranks say little: over a path with an empty queue, random losses are recognized
//! only after several reductions of the window. However, a queue that is less than half as long as one that
//! stood for a whole round trip is not full, nor was it a moment ago: a queue drains by at most the time that
//! passes. The longest standing queue is remembered for longer than the samples, and a loss followed by a
//! packet that met at most half of that queue weighs as much as the lowest rank.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::Time;

use super::Constants;

/// Ten times ln(4 u³): the density 4 u³ of rank u at a queue that drops, over the density 1 of random loss.
/// Indexed by sixteenths of u; clamped to −30.
const WEIGHTS: [i32; 16] = [-30, -30, -30, -30, -24, -18, -13, -9, -5, -2, 1, 4, 6, 9, 11, 13];

/// The largest weight of a loss, on either side.
pub(super) const WEIGHT_MAX: i32 = -WEIGHTS[0];

/// The evidence on the losses of a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
    constants: &'static Constants,
    /// The send time and the RTT of recent packets.
    samples: VecDeque<(Time, Duration)>,
    /// The shortest RTT ever.
    shortest: Option<Duration>,
    /// The shortest sample of this round trip.
    of_round: Option<Duration>,
    /// The longest `of_round` of this span and of the previous one: the RTT with the longest standing queue.
    stood: [Option<Duration>; 2],
    span_began: Time,
    /// The score in tenths of nats: positive for congestion.
    score: i32,
    /// The sum of the weights and the number of the losses of this round trip.
    sum: i32,
    count: i32,
}

impl Evidence {
    pub(super) fn new(constants: &'static Constants) -> Self {
        Self { constants, ..Self::default() }
    }

    /// Frees unused memory.
    pub(super) fn trim(&mut self) {
        self.samples.shrink_to_fit();
    }

    /// Takes an RTT sample.
    pub(super) fn on_sample(&mut self, now: Time, rtt: Duration) {
        let sent_at = now - rtt;
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        self.of_round = Some(self.of_round.map_or(rtt, |shortest| shortest.min(rtt)));
        let Constants { samples_a_round, rounds, span_min, .. } = *self.constants;
        let apart = (rtt / samples_a_round).max(span_min / (samples_a_round * rounds));
        if self.samples.back().is_none_or(|(last, _)| sent_at >= *last + apart) {
            self.samples.push_back((sent_at, rtt));
        }
        let span = (rtt * rounds).max(span_min);
        while self.samples.len() > (samples_a_round * rounds) as usize
            || self.samples.front().is_some_and(|(at, _)| sent_at.since(*at) > span)
        {
            self.samples.pop_front();
        }
    }

    /// Takes the loss of a packet sent at `sent_at`.
    pub(super) fn on_lost(&mut self, sent_at: Time) {
        if let Some(weight) = self.weight(sent_at) {
            self.sum += weight;
            self.count += 1;
        }
    }

    /// Takes an ECN mark, which is certain congestion.
    pub(super) fn on_mark(&mut self) {
        self.score = self.bound();
    }

    /// Ends a round trip. Returns its shortest RTT sample, if it has any.
    pub(super) fn on_round(&mut self, now: Time) -> Option<Duration> {
        if now.since(self.span_began) >= 2 * self.constants.rtt_span {
            (self.stood, self.span_began) = ([None, self.stood[0]], now);
        }
        let shortest = self.of_round.take();
        self.stood[0] = self.stood[0].max(shortest);
        self.score = self.score();
        (self.sum, self.count) = (0, 0);
        shortest
    }

    /// The score in tenths of nats: positive for congestion.
    pub(super) fn score(&self) -> i32 {
        let counted = self.count.min(self.constants.losses_a_round);
        let round = if self.count == 0 { 0 } else { self.sum * counted / self.count };
        let most = self.bound();
        (self.score + round).clamp(-most, most)
    }

    /// The bound of the score in both directions: a loss of the largest weight beyond the farthest decision.
    fn bound(&self) -> i32 {
        self.constants.congestion_in_model_at + WEIGHT_MAX
    }

    /// The score without the losses of this round trip.
    pub(super) fn settled(&self) -> i32 {
        self.score
    }

    /// Ends the evidence of congestion: a positive score becomes zero. Where losses are answered as congestion already, only a change
    /// to random losses matters, and the sum that detects a change soonest starts again whenever it is on the other side (Page 1954).
    pub(super) fn expect_congestion(&mut self) {
        self.score = self.score.min(0);
    }

    /// Resets the score to an earlier value, without the evidence found since.
    pub(super) fn settle_at(&mut self, score: i32) {
        self.score = score;
        (self.sum, self.count) = (0, 0);
    }

    /// Whether the queue had room when a packet was sent. A full queue holds at least as much as the longest
    /// standing queue did, and drains by at most the time that passes: a packet sent shortly after waits for
    /// the rest.
    fn had_room(&self, sent_at: Time, after: Option<&(Time, Duration)>) -> bool {
        let shortest = self.shortest.unwrap_or_default();
        let stood = self.stood.into_iter().flatten().max().unwrap_or_default();
        let queue = stood.saturating_sub(shortest);
        queue > (shortest / self.constants.about).max(self.constants.shortest)
            && after.is_some_and(|(at, rtt)| *rtt + at.since(sent_at) < shortest + queue / 2)
    }

    /// The weight of the loss of a packet sent at `sent_at`.
    fn weight(&self, sent_at: Time) -> Option<i32> {
        if self.samples.len() < self.constants.samples_min {
            return None;
        }
        let after = self.samples.partition_point(|(at, _)| *at < sent_at);
        if self.had_room(sent_at, self.samples.get(after)) {
            return Some(WEIGHTS[0]);
        }
        let near = [after.checked_sub(1), Some(after)];
        let near = near.into_iter().flatten().filter_map(|index| self.samples.get(index));
        let (_, rtt) = near.min_by_key(|(at, _)| at.since(sent_at).max(sent_at.since(*at)))?;
        let alike = *rtt / self.constants.alike;
        let (low, high) = (*rtt - alike, *rtt + alike);
        let below = self.samples.iter().filter(|(_, other)| *other < low).count();
        let equal = self.samples.iter().filter(|(_, other)| (low..=high).contains(other)).count();
        if 4 * equal > 3 * self.samples.len() {
            let is_short = self.shortest.is_none_or(|shortest| *rtt <= shortest * 5 / 4);
            return Some(if is_short { self.constants.flat } else { 0 });
        }
        let sixteenths = 16 * (2 * below + equal) / (2 * self.samples.len());
        Some(WEIGHTS[sixteenths.min(15)])
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND: Duration = Duration::from_millis(100);

    /// The score after `rounds` round trips of ten samples each, for a loss in the middle of the last one.
    fn score(rounds: u32, rtt: impl Fn(u32) -> u64) -> i32 {
        let mut evidence = Evidence::default();
        for sample in 0..rounds * 10 {
            let sent_at = Time::ZERO + ROUND / 10 * sample;
            let rtt = Duration::from_millis(rtt(sample));
            evidence.on_sample(sent_at + rtt, rtt);
            if sample % 10 == 9 {
                evidence.on_round(sent_at);
            }
        }
        evidence.on_lost(Time::ZERO + ROUND * rounds - ROUND / 2);
        evidence.score()
    }

    #[test]
    fn a_loss_at_half_of_the_longest_standing_queue_is_random() {
        let stood = |longest: u64, at_loss: u64| {
            score(41, |sample| match sample {
                50..100 => longest,
                400.. => at_loss,
                _ => 100,
            })
        };
        // No standing queue was seen.
        assert_eq!(stood(100, 100), Constants::DEFAULT.flat);
        assert_eq!([stood(200, 100), stood(200, 135)], [WEIGHTS[0]; 2]);
        // More than half as long. A queue of less than 1/16 of the round trip does not count.
        assert_eq!([stood(200, 160) > 0, stood(106, 100) == Constants::DEFAULT.flat], [true; 2]);
    }

    #[test]
    fn a_short_queue_is_no_evidence_if_it_had_time_to_drain_since_the_loss() {
        let told = |apart: u64| {
            let mut evidence = Evidence { shortest: Some(ROUND), ..Evidence::default() };
            evidence.stood[0] = Some(ROUND * 2);
            for (at, rtt) in [(0, 190), (10, 195), (20, 200), (30, 200), (30 + apart, 100)] {
                evidence.on_sample(Time::from_millis(at + rtt), Duration::from_millis(rtt));
            }
            evidence.on_lost(Time::from_millis(31));
            evidence.score()
        };
        assert_eq!(told(40), WEIGHTS[0]);
        assert!(told(60) > 0);
    }

    #[test]
    fn single_long_samples_are_no_standing_queue() {
        assert_eq!(score(41, |sample| if sample % 10 == 3 { 200 } else { 100 }), Constants::DEFAULT.flat);
    }

    #[test]
    fn the_score_has_a_bound_on_either_side() {
        let mut evidence = Evidence::default();
        evidence.on_mark();
        assert_eq!(evidence.settled(), 110);
        (0..50).for_each(|step| evidence.on_sample(Time::from_millis(1_000 + 10 * step), ROUND));
        for round in 0..20 {
            evidence.on_lost(Time::from_millis(1_200));
            evidence.on_round(Time::from_millis(2_000 + 100 * round));
        }
        assert_eq!(evidence.settled(), -110);
    }

    #[test]
    fn the_longest_standing_queue_expires() {
        let after = |rounds| score(rounds, |sample| if (50..100).contains(&sample) { 200 } else { 100 });
        assert_eq!([after(90), after(300)], [WEIGHTS[0], Constants::DEFAULT.flat]);
    }
}
