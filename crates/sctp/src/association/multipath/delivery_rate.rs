//! Delivery rate of each path, and the estimated arrival time of one more chunk.

use crate::config::MultipathConstants;
use std::time::Duration;

use braidftp_base::Time;

/// The rate is the maximum of this many spans.
const SPANS: usize = 4;

/// The delivery rate of a path in bytes per second.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::association) struct DeliveryRate {
    began: Option<Time>,
    bytes: u64,
    pub(super) spans: [u64; SPANS],
    /// When a queue was last found, unless it has gone since; how long it has lasted, and what arrived
    /// meanwhile.
    queued_at: Option<Time>,
    queued: (Duration, u64),
    /// The rate during the last queue, which is the path's capacity; and when that was.
    carries: Option<(u64, Time)>,
    /// Recent bytes arrived and lost; both are halved from time to time, last at this time.
    arrived: u64,
    lost: u64,
    halved_at: Time,
}

impl DeliveryRate {
    /// Records bytes that arrived on a path with this RTT and load.
    pub(in crate::association) fn on_arrived(
        &mut self,
        now: Time,
        bytes: usize,
        round_trip: Duration,
        load: Load,
        constants: &MultipathConstants,
    ) {
        if self.arrived > constants.loss_window_bytes {
            self.halve(now);
        }
        self.arrived += bytes as u64;
        let span = round_trip.max(constants.rate_span_min);
        let queued = (load == Load::Queued).then_some(now);
        if let (Some(now), Some(since)) = (queued, std::mem::replace(&mut self.queued_at, queued)) {
            self.queued = (self.queued.0 + now.since(since), self.queued.1 + bytes as u64);
            if self.queued.0 >= span {
                let (lasted, bytes) = std::mem::take(&mut self.queued);
                self.carries = Some((per_second(bytes, lasted), now));
            }
        }
        let began = *self.began.get_or_insert(now);
        let lasted = now.since(began);
        if lasted >= span {
            // A rate measured across a pause is not the path's.
            if lasted < span * 2 {
                self.spans.rotate_right(1);
                self.spans[0] = per_second(self.bytes, lasted);
                let rate = self.spans.into_iter().max().unwrap_or(0);
                if self.carries.is_some_and(|(carries, _)| carries < rate) {
                    self.carries = Some((rate, now));
                }
            }
            (self.began, self.bytes) = (Some(now), 0);
        }
        self.bytes = self.bytes.saturating_add(bytes as u64);
    }

    /// Records lost bytes.
    pub(in crate::association) fn on_lost(&mut self, bytes: usize) {
        self.lost = self.lost.saturating_add(bytes as u64);
    }

    /// The capacity of the path in bytes per second, as far as known.
    pub(super) fn carries(&self, now: Time, constants: &MultipathConstants) -> Option<u64> {
        let is_valid = |(rate, at): &(u64, Time)| *rate > 0 && now.since(*at) < constants.loss_half_life * 2;
        self.carries.filter(is_valid).map(|(rate, _)| rate)
    }

    /// The loss ratio, in thousandths: below 1000, since [`MultipathConstants::prior_bytes`] count as arrived.
    pub(super) fn lost_thousandths(&self, constants: &MultipathConstants) -> u64 {
        let (lost, known) = (self.lost, self.lost.saturating_add(self.arrived));
        lost.saturating_mul(1_000) / known.saturating_add(constants.prior_bytes)
    }

    /// Ages the measurements as time passes, whether or not the path is used.
    pub(in crate::association) fn age(&mut self, now: Time, constants: &MultipathConstants) {
        if now.since(self.halved_at) >= constants.loss_half_life {
            self.halve(now);
        }
    }

    fn halve(&mut self, now: Time) {
        (self.arrived, self.lost, self.halved_at) = (self.arrived / 2, self.lost / 2, now);
    }

    /// The path failed: earlier measurements are discarded.
    pub(in crate::association) fn forget(&mut self) {
        *self = Self { arrived: self.arrived, lost: self.lost, halved_at: self.halved_at, ..Self::default() };
    }
}

/// Whether a path could deliver more than it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) enum Load {
    /// As far as known, yes.
    Light,
    /// No: it has a queue.
    Queued,
}

pub(super) fn per_second(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// The number of bytes at this rate in this time.
pub(super) fn bytes_in(bytes_per_second: u64, time: Duration) -> u64 {
    let bytes = u128::from(bytes_per_second) * time.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// The time for this number of bytes at this rate.
pub(super) fn time_for(bytes: usize, bytes_per_second: u64) -> Duration {
    let nanos = bytes as u128 * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const C: &MultipathConstants = &MultipathConstants::DEFAULT;

    #[test]
    fn the_rate_is_the_recent_maximum_and_ignores_pauses() {
        let mut rate = DeliveryRate::default();
        let round_trip = Duration::from_millis(100);
        let at = |ms| Time::from_millis(1_000 + ms);
        for ms in (0..=100).step_by(10) {
            rate.on_arrived(at(ms), 1_000, round_trip, Load::Light, C);
        }
        assert_eq!(rate.spans, [100_000, 0, 0, 0], "10 packets in a tenth of a second");
        rate.on_arrived(at(900), 50, round_trip, Load::Light, C);
        assert_eq!(rate.spans[0], 100_000, "1000 bytes in 0.8 s");
        for span in 1..=SPANS as u64 {
            rate.on_arrived(at(900 + 100 * span), 50, round_trip, Load::Light, C);
        }
        assert_eq!(rate.spans, [500; SPANS]);
    }

    #[test]
    fn a_single_loss_weighs_little_and_old_losses_are_forgotten() {
        let (mut few, mut many) = (DeliveryRate::default(), DeliveryRate::default());
        let now = Time::ZERO;
        few.on_arrived(now, 23 * 1_468, Duration::from_millis(100), Load::Light, C);
        few.on_lost(1_468);
        assert!(few.lost_thousandths(C) < 20, "{}", few.lost_thousandths(C));
        many.on_arrived(now, 900_000, Duration::from_millis(100), Load::Light, C);
        many.on_lost(100_000);
        assert!(many.lost_thousandths(C) > 90, "{}", many.lost_thousandths(C));
        for age in 1..=8 {
            let before = many.lost_thousandths(C);
            many.age(now + C.loss_half_life * age - Duration::from_millis(1), C);
            assert_eq!(many.lost_thousandths(C), before, "not yet");
            many.age(now + C.loss_half_life * age, C);
            assert!(many.lost_thousandths(C) < before);
        }
        assert!(many.lost_thousandths(C) < 10, "{}", many.lost_thousandths(C));
    }

    #[test]
    fn the_capacity_is_the_rate_during_a_queue() {
        let mut rate = DeliveryRate::default();
        let round_trip = Duration::from_millis(100);
        // Every 200 ms eleven packets at once, 100 kB/s; a queue for 20 ms.
        for burst in 0..5 {
            assert_eq!(rate.carries(Time::from_millis(200 * burst), C), None);
            for nth in 0..=10 {
                let load = if nth < 10 { Load::Queued } else { Load::Light };
                rate.on_arrived(Time::from_millis(200 * burst + 2 * nth), 2_000, round_trip, load, C);
            }
        }
        // Not before one RTT of it.
        for nth in 0..=10 {
            rate.on_arrived(Time::from_millis(1_000 + 2 * nth), 2_000, round_trip, Load::Queued, C);
        }
        assert_eq!(rate.carries(Time::from_millis(1_020), C), Some(1_000_000));
        let life = C.loss_half_life * 2;
        assert_eq!(rate.carries(Time::from_millis(1_000) + life, C), Some(1_000_000));
        assert_eq!(rate.carries(Time::from_millis(1_020) + life, C), None, "it may be another by now");
    }
}
