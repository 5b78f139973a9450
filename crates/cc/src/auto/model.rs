//! The model of a path: its delivery rate, shortest RTT and loss rate.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::{Rate, Time};

use super::{Constants, Drain};
use crate::delivery::{Delivery, RateSample};
use crate::{Ack, Lost, Sent};

/// The measurements of a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    constants: &'static Constants,
    delivery: Delivery,
    /// The highest rate of each round trip, in bytes per second.
    rates: VecDeque<(u64, u64)>,
    /// The shortest RTT of this span and of the previous one.
    min_rtt: Option<Duration>,
    min_rtt_before: Option<Duration>,
    span_began: Time,
    /// The shortest delay of feedback on another path, of this span and of the previous one.
    cross_path_min: Option<Duration>,
    cross_path_min_before: Option<Duration>,
    /// The smoothed feedback delay; `None` if no feedback returned on another path for a whole span.
    took: Option<Duration>,
    burst: Burst,
    /// When a sample was last close to the shortest RTT, or half of the path was drained to see it.
    shortest_at: Time,
    /// Whether this flow's own queue was drained for that since then.
    own_queue_drained: bool,
    /// The shortest sample, the sum and the number of samples of this round trip.
    round: Option<(Duration, Duration, u32)>,
    /// The mean excess of samples over the shortest of their round trip, which excludes a standing queue.
    spread: Duration,
    pub(super) losses: Losses,
}

/// By how much acknowledgements exceed what the rate delivers meanwhile, where feedback returns on other
/// paths: each SACK covers all data since the last (`BBRUpdateACKAggregation`, §5.5.9 of
/// draft-ietf-ccwg-bbr).
#[derive(Debug, Clone, Copy, Default)]
struct Burst {
    began: Time,
    bytes: usize,
    /// The largest excess of this round trip, and its mean.
    most: usize,
    usual: usize,
}

/// The loss rate of a path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    lost: usize,
    all: usize,
    /// The loss rate of the last [`Constants::loss_packets`], in thousandths.
    pub(super) last: u64,
    /// The rates of the last spans; `known` of them are valid.
    parts: [u64; 8],
    known: usize,
}

impl Model {
    pub(super) fn new(constants: &'static Constants) -> Self {
        Self { constants, ..Self::default() }
    }

    /// Nothing is in flight: frees the memory of past packets.
    pub(super) fn trim(&mut self) {
        self.delivery.trim();
    }

    pub(super) fn on_sent(&mut self, sent: Sent) {
        self.delivery.on_sent(sent.now, sent.bytes, sent.flight_before);
    }

    /// Takes an acknowledgement; returns whether a round trip begins.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) -> bool {
        let sample = self.delivery.on_ack(ack.now, ack.bytes, ack.cross_path_age.or(ack.rtt));
        if let Some(rtt) = ack.rtt {
            if ack.now.since(self.span_began) >= self.constants.rtt_span {
                self.min_rtt_before = self.min_rtt.take();
                self.cross_path_min_before = self.cross_path_min.take();
                self.took = self.took.filter(|_| self.cross_path_min_before.is_some());
                self.span_began = ack.now;
            }
            let (shortest, sum, count) = self.round.unwrap_or((rtt, Duration::ZERO, 0));
            self.round = Some((shortest.min(rtt), sum.saturating_add(rtt), count.saturating_add(1)));
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            if self.min_rtt().is_some_and(|min| rtt <= min + self.near_shortest(min, ack.mtu)) {
                (self.shortest_at, self.own_queue_drained) = (ack.now, false);
            }
        }
        if ack.cross_path_age.is_some() || self.took.is_some() {
            self.burst.on_ack(ack, self.rate());
            let took = ack.cross_path_age.or(ack.rtt).or(self.took);
            self.took = took.map(|took| self.took.map_or(took, |smoothed| (smoothed * 7 + took) / 8));
        }
        if let Some(took) = ack.cross_path_age {
            self.cross_path_min = Some(self.cross_path_min.map_or(took, |shortest| shortest.min(took)));
        }
        self.losses.all += ack.bytes;
        if let Some(sample) = sample {
            self.on_rate(&sample);
        }
        let begins = sample.is_some_and(|sample| sample.round_begins);
        if begins {
            self.burst.on_round();
        }
        if let Some((shortest, sum, count)) = self.round.take_if(|_| begins) {
            self.spread = (self.spread * 7 + (sum / count).saturating_sub(shortest)) / 8;
        }
        if begins && self.losses.all >= self.constants.loss_packets * ack.mtu {
            self.losses.end_span();
        }
        begins
    }

    fn on_rate(&mut self, sample: &RateSample) {
        let rate = sample.rate.bits_per_second() / 8;
        let round = self.delivery.rounds();
        while self.rates.front().is_some_and(|(of, _)| of + self.constants.rate_rounds <= round)
            && self.rates.len() > 1
        {
            self.rates.pop_front();
        }
        // Acknowledgements delayed for lack of room in SACKs with many gaps seem to arrive all at once.
        let unsure = sample.lost_bytes > sample.delivered_bytes / 4;
        if unsure || (sample.app_limited() && rate < self.rate()) {
            return;
        }
        match self.rates.back_mut() {
            Some((of, largest)) if *of == round => *largest = rate.max(*largest),
            _ => self.rates.push_back((round, rate)),
        }
    }

    pub(super) fn on_lost(&mut self, lost: &Lost) {
        self.delivery.on_lost(lost.bytes);
        // After a time-out the number of lost bytes is unknown.
        if lost.flight_bytes > 0 {
            self.losses.lost += lost.bytes;
            self.losses.all += lost.bytes;
        }
    }

    pub(super) fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        self.delivery.on_app_limited(now, flight_bytes);
    }

    /// Whether the application and not the path limits the measured rate.
    pub(super) fn is_app_limited(&self) -> bool {
        self.delivery.is_app_limited()
    }

    /// The delivery rate in bytes per second: the second highest of the recent round trips, because the
    /// highest may stem from aggregated acknowledgements.
    pub(super) fn rate(&self) -> u64 {
        let (mut largest, mut second) = (0, 0);
        for (_, rate) in &self.rates {
            if *rate > largest {
                (largest, second) = (*rate, largest);
            } else {
                second = second.max(*rate);
            }
        }
        if self.rates.len() > 2 { second } else { largest }
    }

    /// The highest rate of the last `rounds` round trips.
    pub(super) fn recent_rate(&self, rounds: usize) -> u64 {
        self.rates.iter().rev().take(rounds).map(|(_, rate)| *rate).max().unwrap_or(0)
    }

    /// The shortest recent RTT; `None` before the first sample.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.into_iter().chain(self.min_rtt_before).min()
    }

    /// The shortest delay of feedback on any path; `None` before the first sample.
    pub(super) fn feedback_delay(&self) -> Option<Duration> {
        self.min_rtt().into_iter().chain(self.cross_path_min).chain(self.cross_path_min_before).min()
    }

    /// The smoothed feedback delay, where feedback returns sooner on other paths.
    pub(super) fn cross_path_delay(&self) -> Option<Duration> {
        self.took
    }

    /// The bandwidth-delay product, in bytes.
    pub(super) fn product(&self) -> usize {
        let own = self.min_rtt().map_or(0, |rtt| bytes_in(self.rate(), rtt));
        let cross_path_min = self.cross_path_min.into_iter().chain(self.cross_path_min_before).min();
        // Feedback on other paths never comes later than on its own path.
        cross_path_min
            .map_or(own, |took| own.min(bytes_in(self.rate(), took).saturating_add(self.burst.usual)))
    }

    /// By how much a sample may exceed the shortest RTT and count as shortest. Two packets are no queue: the one that the path is
    /// transmitting, and the one that a delayed acknowledgement waits for (RFC 9260 §6.2).
    pub(super) fn near_shortest(&self, min_rtt: Duration, mtu: usize) -> Duration {
        let packet = Rate::from_bits_per_second(self.rate() * 8).transmit_time(mtu);
        (min_rtt / self.constants.about).max(self.constants.shortest).max(packet * 2)
    }

    /// What to drain in order to see the shortest RTT: this flow's own queue, which costs nothing, if no sample was close to it for
    /// a quarter as long as it is remembered, and half of the path if none was for half as long.
    pub(super) fn drain_for_min_rtt(&mut self, now: Time) -> Option<Drain> {
        let unseen = now.since(self.shortest_at);
        if unseen > self.constants.rtt_span {
            (self.shortest_at, self.own_queue_drained) = (now, false);
            Some(Drain::Path)
        } else if unseen > self.constants.rtt_span / 2 && !self.own_queue_drained {
            self.own_queue_drained = true;
            Some(Drain::Own)
        } else {
            None
        }
    }

    /// The flight with which the path is full despite varying RTTs, in hundredths, plus the lost data in it
    /// until the loss is detected, a quarter of a round trip after the data could have arrived.
    pub(super) fn window(&self, hundredths: u64) -> usize {
        let min_rtt = self.min_rtt().unwrap_or_default();
        // Twice the mean excess: RTTs uniformly distributed between the shortest and the longest.
        let jitter = (self.spread.saturating_sub(min_rtt / self.constants.about) * 2).min(min_rtt);
        let needs = u128::from(self.rate()) * jitter.as_nanos() / 1_000_000_000 + self.product() as u128;
        let lost = self.losses.usual() * 5 / 4;
        let window = needs * u128::from(hundredths) * 10 / u128::from(1_000 - lost);
        usize::try_from(window).unwrap_or(usize::MAX)
    }

    /// The sending rate at which `rate` bytes per second are delivered, times a gain in hundredths.
    pub(super) fn pace(&self, gain: u64) -> Option<Rate> {
        let arriving = u128::from(self.rate()) * u128::from(gain) / 100;
        let sending = arriving * 1_000 / u128::from(1_000 - self.losses.usual());
        let bits = u64::try_from(sending * 8).unwrap_or(u64::MAX);
        (bits > 0).then(|| Rate::from_bits_per_second(bits))
    }
}

impl Burst {
    /// Takes an acknowledgement while the path delivers `rate` bytes per second.
    fn on_ack(&mut self, ack: &Ack<'_>, rate: u64) {
        let mut expected = bytes_in(rate, ack.now.since(self.began));
        if self.bytes <= expected {
            (self.began, self.bytes, expected) = (ack.now, 0, 0);
        }
        self.bytes = self.bytes.saturating_add(ack.bytes);
        self.most = self.most.max(self.bytes - expected);
    }

    /// Ends a round trip.
    fn on_round(&mut self) {
        self.usual = (self.usual.saturating_mul(7).saturating_add(std::mem::take(&mut self.most))) / 8;
    }
}

impl Losses {
    /// Whether all spans are valid: 2,000 packets were sent.
    pub(super) fn is_long(&self) -> bool {
        self.known >= self.parts.len()
    }

    fn end_span(&mut self) {
        self.last = self.so_far();
        self.parts.rotate_right(1);
        self.parts[0] = self.last;
        self.known = (self.known + 1).min(self.parts.len());
        (self.lost, self.all) = (0, 0);
    }

    /// The loss rate without queue overflows in thousandths: the lower quartile of the spans, before the end of the first that of
    /// its packets so far; at most 200.
    fn usual(&self) -> u64 {
        let mut parts = self.parts;
        let parts = &mut parts[..self.known];
        parts.sort_unstable();
        parts.get(self.known / 4).copied().unwrap_or_else(|| self.so_far()).min(200)
    }

    /// The loss rate of the current span, in thousandths.
    fn so_far(&self) -> u64 {
        (self.lost as u64 * 1_000).checked_div(self.all as u64).unwrap_or(0)
    }
}

/// The bytes delivered in `time` at a rate.
pub(super) fn bytes_in(bytes_per_second: u64, time: Duration) -> usize {
    let bytes = u128::from(bytes_per_second) * time.as_nanos() / 1_000_000_000;
    usize::try_from(bytes).unwrap_or(usize::MAX).min(u32::MAX as usize)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MTU: usize = 1_000;

    fn ms(millis: u64) -> Duration {
        Duration::from_millis(millis)
    }

    /// An acknowledgement without an RTT.
    fn ack(now: Time, bytes: usize, flight_before: usize) -> Ack<'static> {
        Ack {
            now,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before,
            mtu: MTU,
            rtt: None,
            cross_path_age: None,
            srtt: None,
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        }
    }

    #[test]
    fn the_first_losses_raise_the_pacing_rate_of_the_model_before_a_span_of_packets_is_over() {
        let mut model = Model::new(&Constants::DEFAULT);
        let ack = |millis: u64| Ack {
            rtt: Some(ms(10)),
            srtt: Some(ms(10)),
            ..ack(Time::from_millis(millis), MTU, 10 * MTU)
        };
        model.on_sent(Sent { now: Time::from_millis(1), bytes: MTU, flight_before: 0 });
        for packet in 0..18 {
            model.on_ack(&ack(11 + packet));
        }
        let before = model.pace(100).unwrap();
        for _ in 0..2 {
            let lost = Lost {
                now: Time::from_millis(30),
                sent_at: Time::from_millis(20),
                bytes: MTU,
                flight_bytes: MTU,
                mtu: MTU,
            };
            model.on_lost(&lost);
        }
        // Two of 20 packets are lost: a tenth more must be sent for the same rate at the receiver.
        let ratio = model.pace(100).unwrap().bits_per_second() as f64 / before.bits_per_second() as f64;
        assert!((ratio - 10.0 / 9.0).abs() < 1e-3, "{ratio}");
    }

    /// A path of 100 packets per second and 100 ms, with feedback every 50 ms on another path half as long.
    #[test]
    fn feedback_on_a_shorter_path_reduces_the_model_window() {
        let mut model = Model::default();
        for step in 0..400 {
            let now = Time::from_millis(50 * step);
            for _ in 0..5 {
                model.on_sent(Sent { now, bytes: MTU, flight_before: 10 * MTU });
            }
            model.on_ack(&Ack {
                rtt: (step > 10).then_some(ms(100)),
                cross_path_age: (step > 10 && step < 200).then_some(ms(50)),
                ..ack(now, 5 * MTU, 10 * MTU)
            });
            if step == 199 {
                assert_eq!(model.cross_path_delay(), Some(ms(50)));
                // Five packets arrive in 50 ms, and five are acknowledged at once.
                assert_eq!((model.product() / MTU, model.feedback_delay()), (9, Some(ms(50))));
            }
        }
        assert_eq!(
            (model.product() / MTU, model.feedback_delay()),
            (10, Some(ms(100))),
            "the other feedback has expired"
        );
        assert_eq!(model.cross_path_delay(), None);
    }

    #[test]
    fn the_rate_is_measured_from_feedback_on_another_path() {
        // One packet per millisecond. Every 20 ms a SACK on another path covers all data sent up to 31 ms ago;
        // just before, a SACK on this path covers the little data sent since, 49 ms ago.
        let mut model = Model::default();
        let mut told = 0;
        for at in 0..2_000 {
            let now = Time::from_millis(at);
            model.on_sent(Sent { now, bytes: MTU, flight_before: 40 * MTU });
            let (rtt, cross_path_age) = match at % 20 {
                0 => (None, Some(ms(31))),
                19 => (Some(ms(49)), None),
                _ => continue,
            };
            let left = at.saturating_sub(if rtt.is_some() { 49 } else { 31 });
            let bytes = (left.saturating_sub(told)) as usize * MTU;
            told = told.max(left);
            model.on_ack(&Ack { rtt, cross_path_age, ..ack(now, bytes, 40 * MTU) });
        }
        let rate = model.rate();
        let all = 1_000 * MTU as u64;
        assert!((all * 95 / 100..=all * 105 / 100).contains(&rate), "{rate} of {all}");
    }
}
