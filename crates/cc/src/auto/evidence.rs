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

use super::SHORTEST;

/// The number of samples kept per round trip.
const SAMPLES_A_ROUND: u32 = 24;
/// The number of recent round trips.
const ROUNDS: u32 = 10;
/// The minimum span: a few round trips of a short path say little.
const SPAN_MIN: Duration = Duration::from_millis(200);
/// The minimum number of samples for a rank.
const SAMPLES_MIN: usize = 4;
/// RTTs that differ by at most 1/`ALIKE` count as equal: bursts that grow with the rate are no queue.
const ALIKE: u32 = 100;
/// The number of losses counted per round trip: further losses saw the same queue.
const LOSSES_A_ROUND: i32 = 2;
/// The span of the record of the longest standing queue, which covers the last one or two spans.
const STOOD_SPAN: Duration = Duration::from_secs(10);
/// A standing queue adds more than 1/`STOOD_PART` of the shortest RTT.
const STOOD_PART: u32 = 16;
/// The bound of the score in both directions, so that a change of the path is noticed.
const SCORE_MAX: i32 = 110;

/// Ten times ln(4 u³): the density 4 u³ of rank u at a queue that drops, over the density 1 of random loss.
/// Indexed by sixteenths of u; clamped to −30.
const WEIGHTS: [i32; 16] = [-30, -30, -30, -30, -24, -18, -13, -9, -5, -2, 1, 4, 6, 9, 11, 13];

/// The weight where nearly all RTTs are alike and short: a queue that drops is not empty. Where they are
/// alike and long the weight is 0: a queue that is always full drops anything.
const FLAT: i32 = -15;

/// The evidence on the losses of a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Evidence {
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
    /// Takes an RTT sample.
    pub(super) fn on_sample(&mut self, now: Time, rtt: Duration) {
        let sent_at = now - rtt;
        self.shortest = Some(self.shortest.map_or(rtt, |shortest| shortest.min(rtt)));
        self.of_round = Some(self.of_round.map_or(rtt, |shortest| shortest.min(rtt)));
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

    /// Takes the loss of a packet sent at `sent_at`.
    pub(super) fn on_lost(&mut self, sent_at: Time) {
        if let Some(weight) = self.weight(sent_at) {
            self.sum += weight;
            self.count += 1;
        }
    }

    /// Takes an ECN mark, which is certain congestion.
    pub(super) fn on_mark(&mut self) {
        self.score = SCORE_MAX;
    }

    /// Ends a round trip.
    pub(super) fn on_round(&mut self, now: Time) {
        if now.since(self.span_began) >= STOOD_SPAN {
            (self.stood, self.span_began) = ([None, self.stood[0]], now);
        }
        self.stood[0] = self.stood[0].max(self.of_round.take());
        self.score = self.score();
        (self.sum, self.count) = (0, 0);
    }

    /// The score in tenths of nats: positive for congestion.
    pub(super) fn score(&self) -> i32 {
        let round = if self.count == 0 { 0 } else { self.sum * self.count.min(LOSSES_A_ROUND) / self.count };
        (self.score + round).clamp(-SCORE_MAX, SCORE_MAX)
    }

    /// The score without the losses of this round trip.
    pub(super) fn settled(&self) -> i32 {
        self.score
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
        queue > (shortest / STOOD_PART).max(SHORTEST)
            && after.is_some_and(|(at, rtt)| *rtt + at.since(sent_at) < shortest + queue / 2)
    }

    /// The weight of the loss of a packet sent at `sent_at`.
    fn weight(&self, sent_at: Time) -> Option<i32> {
        if self.samples.len() < SAMPLES_MIN {
            return None;
        }
        let after = self.samples.partition_point(|(at, _)| *at < sent_at);
        if self.had_room(sent_at, self.samples.get(after)) {
            return Some(WEIGHTS[0]);
        }
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
        assert_eq!(stood(100, 100), FLAT);
        assert_eq!([stood(200, 100), stood(200, 135)], [WEIGHTS[0]; 2]);
        // More than half as long. A queue of less than 1/16 of the round trip does not count.
        assert_eq!([stood(200, 160) > 0, stood(106, 100) == FLAT], [true; 2]);
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
        assert_eq!(score(41, |sample| if sample % 10 == 3 { 200 } else { 100 }), FLAT);
    }

    #[test]
    fn the_longest_standing_queue_expires() {
        let after = |rounds| score(rounds, |sample| if (50..100).contains(&sample) { 200 } else { 100 });
        assert_eq!([after(90), after(300)], [WEIGHTS[0], FLAT]);
    }
}
