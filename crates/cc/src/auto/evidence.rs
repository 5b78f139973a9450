//! Whether losses have to do with delay: the rank of the round trip measured next to each lost packet among those measured
//! lately.
//!
//! A drop-tail queue drops when it is full, so what left beside a lost packet waited longer than most: its round trip has a
//! rank near 1. What a radio or a bad cable loses is drawn from all packets alike, so that its ranks are uniform, whatever
//! the queue does meanwhile. A rank needs no base round trip, which a late flow never sees, and no threshold in
//! milliseconds. The ranks are weighed as a sequential test weighs them (Wald 1945): a loss adds the logarithm of how likely its
//! rank is if queues drop, by how likely it is if chance does.
//!
//! Where most round trips are alike, ranks say little: over a path with an empty queue, random losses are told from congestion
//! after several reductions of the window. But a queue that is less than half as long as one through which packets went for a whole
//! round trip is not full, nor was it a moment ago: it drains by no more than the time that passes. The longest standing queue is
//! remembered for longer than the samples, and a loss followed by a packet that met half of it weighs as much as the lowest rank.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::Time;

use super::SHORTEST;

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
/// The longest standing queue is that of the last one or two of these.
const STOOD_SPAN: Duration = Duration::from_secs(10);
/// A standing queue adds more than such a part of the shortest round trip.
const STOOD_PART: u32 = 16;
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
    /// The shortest sample of this round trip.
    of_round: Option<Duration>,
    /// The longest `of_round` of this span, and of the one before: with the longest standing queue.
    stood: [Option<Duration>; 2],
    span_began: Time,
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
    pub(super) fn on_round(&mut self, now: Time) {
        if now.since(self.span_began) >= STOOD_SPAN {
            (self.stood, self.span_began) = ([None, self.stood[0]], now);
        }
        self.stood[0] = self.stood[0].max(self.of_round.take());
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

    /// Whether the queue was not full when a packet left. A full queue holds at least what the longest standing one did, and
    /// drains by no more than the time that passes: what leaves a little later has still to wait for the rest.
    fn had_room(&self, sent_at: Time, after: Option<&(Time, Duration)>) -> bool {
        let shortest = self.shortest.unwrap_or_default();
        let stood = self.stood.into_iter().flatten().max().unwrap_or_default();
        let queue = stood.saturating_sub(shortest);
        queue > (shortest / STOOD_PART).max(SHORTEST)
            && after.is_some_and(|(at, rtt)| *rtt + at.since(sent_at) < shortest + queue / 2)
    }

    /// Of the loss of a packet that left then.
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

    /// The score after so many round trips of ten samples each, of a loss in the middle of the last one.
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
    fn a_loss_beside_a_queue_that_stood_twice_as_long_is_random() {
        let stood = |longest: u64, at_loss: u64| {
            score(41, |sample| match sample {
                50..100 => longest,
                400.. => at_loss,
                _ => 100,
            })
        };
        // Nothing is known of a queue.
        assert_eq!(stood(100, 100), FLAT);
        assert_eq!([stood(200, 100), stood(200, 135)], [WEIGHTS[0]; 2]);
        // More than half as long; and what is shorter than a 16th of the round trip is no queue.
        assert_eq!([stood(200, 160) > 0, stood(106, 100) == FLAT], [true; 2]);
    }

    #[test]
    fn a_short_queue_tells_nothing_of_a_loss_that_it_had_time_to_drain_after() {
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
    fn single_long_round_trips_are_no_standing_queue() {
        assert_eq!(score(41, |sample| if sample % 10 == 3 { 200 } else { 100 }), FLAT);
    }

    #[test]
    fn how_long_a_queue_stood_is_forgotten() {
        let after = |rounds| score(rounds, |sample| if (50..100).contains(&sample) { 200 } else { 100 });
        assert_eq!([after(90), after(300)], [WEIGHTS[0], FLAT]);
    }
}
