//! What a path is like: how much arrives in a time, how short its round trip can be, and what part of it is lost.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::{Rate, Time};

use super::SHORTEST;
use crate::delivery::{Delivery, RateSample};
use crate::{Ack, Lost, Sent};

/// The rate is the largest of so many round trips.
const RATE_ROUNDS: u64 = 10;
/// The shortest round trip is of the last one or two of these.
const RTT_SPAN: Duration = Duration::from_secs(5);
/// A round trip that is longer by no more than such a part of it is about as short.
const ABOUT: u32 = 16;
/// A part of losses is known when so many packets left, or a round trip is over, whichever is later.
const LOSS_PACKETS: usize = 250;

/// What is measured of a path.
#[derive(Debug, Clone, Default)]
pub(super) struct Model {
    delivery: Delivery,
    /// The largest of each round trip, in bytes a second.
    rates: VecDeque<(u64, u64)>,
    /// The shortest round trip of this span, and of the one before.
    min_rtt: Option<Duration>,
    min_rtt_before: Option<Duration>,
    span_began: Time,
    /// The shortest time that an answer took by another path's way, of this span and of the one before.
    by_others: Option<Duration>,
    by_others_before: Option<Duration>,
    /// How long answers take, smoothed; `None` when none has come by another path's way for a whole span.
    took: Option<Duration>,
    burst: Burst,
    /// When a sample was about as short, or was looked for.
    shortest_at: Time,
    /// Of this round trip: the shortest sample, the sum of all, and how many they are.
    round: Option<(Duration, Duration, u32)>,
    /// By how much samples exceed the shortest of their round trip, in the mean: not what a queue that stands adds.
    spread: Duration,
    pub(super) losses: Losses,
}

/// By how much the acknowledgements that come at once exceed what the rate brings meanwhile, where other paths' answers tell of this
/// path's packets: each of those tells of all since the last one (`BBRUpdateACKAggregation`, §5.5.9 of draft-ietf-ccwg-bbr).
#[derive(Debug, Clone, Copy, Default)]
struct Burst {
    began: Time,
    bytes: usize,
    /// The most of this round trip, and what that is in the mean.
    most: usize,
    usual: usize,
}

/// What part of what leaves is lost.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Losses {
    lost: usize,
    all: usize,
    /// Thousandths, of the last [`LOSS_PACKETS`].
    pub(super) last: u64,
    /// The same of the last spans, so many of which are known.
    parts: [u64; 8],
    known: usize,
}

impl Model {
    pub(super) fn on_sent(&mut self, sent: Sent) {
        self.delivery.on_sent(sent.now, sent.bytes, sent.flight_before);
    }

    /// Gives whether a round trip begins.
    pub(super) fn on_ack(&mut self, ack: &Ack<'_>) -> bool {
        let sample = self.delivery.on_ack(ack.now, ack.bytes, ack.by_another_way.or(ack.rtt));
        if let Some(rtt) = ack.rtt {
            if ack.now.since(self.span_began) >= RTT_SPAN {
                self.min_rtt_before = self.min_rtt.take();
                self.by_others_before = self.by_others.take();
                self.took = self.took.filter(|_| self.by_others_before.is_some());
                self.span_began = ack.now;
            }
            let (shortest, sum, count) = self.round.unwrap_or((rtt, Duration::ZERO, 0));
            self.round = Some((shortest.min(rtt), sum.saturating_add(rtt), count.saturating_add(1)));
            self.min_rtt = Some(self.min_rtt.map_or(rtt, |min| min.min(rtt)));
            if self.min_rtt().is_some_and(|min| rtt <= min + (min / ABOUT).max(SHORTEST)) {
                self.shortest_at = ack.now;
            }
        }
        if ack.by_another_way.is_some() || self.took.is_some() {
            self.burst.on_ack(ack, self.rate());
            let took = ack.by_another_way.or(ack.rtt).or(self.took);
            self.took = took.map(|took| self.took.map_or(took, |smoothed| (smoothed * 7 + took) / 8));
        }
        if let Some(took) = ack.by_another_way {
            self.by_others = Some(self.by_others.map_or(took, |shortest| shortest.min(took)));
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
        if begins && self.losses.all >= LOSS_PACKETS * ack.mtu {
            self.losses.settle();
        }
        begins
    }

    fn on_rate(&mut self, sample: &RateSample) {
        let rate = sample.rate.bits_per_second() / 8;
        let round = self.delivery.rounds();
        while self.rates.front().is_some_and(|(of, _)| of + RATE_ROUNDS <= round) && self.rates.len() > 1 {
            self.rates.pop_front();
        }
        // What is told late, for want of room in the reports of many losses, seems to come all at once.
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
        // All that was in flight at a time-out: how much of it was lost, nobody knows.
        if lost.flight_bytes > 0 {
            self.losses.lost += lost.bytes;
            self.losses.all += lost.bytes;
        }
    }

    pub(super) fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        self.delivery.on_app_limited(now, flight_bytes);
    }

    /// Whether the application and not the path limits what is measured.
    pub(super) fn is_app_limited(&self) -> bool {
        self.delivery.is_app_limited()
    }

    /// Bytes a second that the path was seen to deliver: the largest of the last round trips but one, which may be that of
    /// acknowledgements that waited for each other.
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

    /// The largest of the last round trips.
    pub(super) fn lately(&self, rounds: usize) -> u64 {
        self.rates.iter().rev().take(rounds).map(|(_, rate)| *rate).max().unwrap_or(0)
    }

    /// The shortest round trip of late; `None` before there is one.
    pub(super) fn min_rtt(&self) -> Option<Duration> {
        self.min_rtt.into_iter().chain(self.min_rtt_before).min()
    }

    /// The shortest time after which a packet is told of, by its path's own way or another; `None` before there is one.
    pub(super) fn told_after(&self) -> Option<Duration> {
        self.min_rtt().into_iter().chain(self.by_others).chain(self.by_others_before).min()
    }

    /// How long it usually takes, if that is not the path's round trip because others tell of it sooner.
    pub(super) fn is_told_after(&self) -> Option<Duration> {
        self.took
    }

    /// Bytes under way that the path needs.
    pub(super) fn product(&self) -> usize {
        let own = self.min_rtt().map_or(0, |rtt| bytes_in(self.rate(), rtt));
        let by_others = self.by_others.into_iter().chain(self.by_others_before).min();
        // Nothing is told later than by its own way.
        by_others.map_or(own, |took| own.min(bytes_in(self.rate(), took).saturating_add(self.burst.usual)))
    }

    /// Whether the shortest round trip was not seen, nor looked for, for half as long as it is remembered.
    pub(super) fn is_stale(&self, now: Time) -> bool {
        now.since(self.shortest_at) > RTT_SPAN
    }

    /// It is looked for, from now on.
    pub(super) fn look_for_shortest(&mut self, now: Time) {
        self.shortest_at = now;
    }

    /// So many hundredths of the bytes under way with which the path is full though round trips differ, and with what is lost
    /// among them until that is known, a quarter of a round trip after it could have arrived.
    pub(super) fn window(&self, hundredths: u64) -> usize {
        let min_rtt = self.min_rtt().unwrap_or_default();
        // Of round trips that are all alike likely, those from the shortest to the longest.
        let differs = (self.spread.saturating_sub(min_rtt / ABOUT) * 2).min(min_rtt);
        let needs = u128::from(self.rate()) * differs.as_nanos() / 1_000_000_000 + self.product() as u128;
        let lost = self.losses.usual() * 5 / 4;
        let window = needs * u128::from(hundredths) * 10 / u128::from(1_000 - lost);
        usize::try_from(window).unwrap_or(usize::MAX)
    }

    /// The rate at which to send that `rate` bytes a second arrive, times a gain in hundredths.
    pub(super) fn pace(&self, gain: u64) -> Option<Rate> {
        let arriving = u128::from(self.rate()) * u128::from(gain) / 100;
        let sending = arriving * 1_000 / u128::from(1_000 - self.losses.usual());
        let bits = u64::try_from(sending * 8).unwrap_or(u64::MAX);
        (bits > 0).then(|| Rate::from_bits_per_second(bits))
    }
}

impl Burst {
    /// An acknowledgement came, while the path delivers at such a rate, in bytes a second.
    fn on_ack(&mut self, ack: &Ack<'_>, rate: u64) {
        let mut expected = bytes_in(rate, ack.now.since(self.began));
        if self.bytes <= expected {
            (self.began, self.bytes, expected) = (ack.now, 0, 0);
        }
        self.bytes = self.bytes.saturating_add(ack.bytes);
        self.most = self.most.max(self.bytes - expected);
    }

    /// A round trip is over.
    fn on_round(&mut self) {
        self.usual = (self.usual.saturating_mul(7).saturating_add(std::mem::take(&mut self.most))) / 8;
    }
}

impl Losses {
    /// Whether all spans are known: 2,000 packets were sent.
    pub(super) fn is_long(&self) -> bool {
        self.known >= self.parts.len()
    }

    fn settle(&mut self) {
        self.last = (self.lost as u64 * 1_000).checked_div(self.all as u64).unwrap_or(0);
        self.parts.rotate_right(1);
        self.parts[0] = self.last;
        self.known = (self.known + 1).min(self.parts.len());
        (self.lost, self.all) = (0, 0);
    }

    /// Thousandths that are lost when the queue loses nothing: what three of four spans exceed; no more than 200.
    fn usual(&self) -> u64 {
        let mut parts = self.parts;
        let parts = &mut parts[..self.known];
        parts.sort_unstable();
        parts.get(self.known / 4).map_or(0, |part| (*part).min(200))
    }
}

/// How many bytes that is in such a time.
pub(super) fn bytes_in(bytes_per_second: u64, time: Duration) -> usize {
    let bytes = u128::from(bytes_per_second) * time.as_nanos() / 1_000_000_000;
    usize::try_from(bytes).unwrap_or(usize::MAX).min(u32::MAX as usize)
}
