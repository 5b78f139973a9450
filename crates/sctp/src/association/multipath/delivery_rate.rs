//! Delivery rate of each path, and the estimated arrival time of one more chunk.

use std::time::Duration;

use braidftp_base::Time;

use crate::association::path::Path;

/// The rate is the largest of so many spans.
const SPANS: usize = 4;
/// A part that is lost is that of so many bytes, or twice as many.
const MEMORY_BYTES: u64 = 2 << 20;
/// As if so many bytes had arrived before the first: one loss among few packets is chance, and who is no more used for it would
/// never be known better.
const TRUST_BYTES: u64 = 64 << 10;
/// And for so long: who is not used is tried again.
const MEMORY: Duration = Duration::from_secs(16);
/// A span is a round trip, but no shorter than this: a few packets are no rate.
const SPAN_MIN: Duration = Duration::from_millis(20);

/// A path that loses more than this, in thousandths, is as good as none, and no better for it.
const LOST_MAX: u64 = 900;

/// A round trip that is so much longer than the shortest tells of a queue, if so many packets are in flight.
const QUEUED: (u32, u32) = (3, 2);
const QUEUED_PACKETS: usize = 4;
/// For so long it is believed that a path carries no more than it did with a queue.
const BELIEVED: Duration = Duration::from_secs(30);

/// What arrives of what left by a path, in bytes a second.
#[derive(Debug, Default, Clone, Copy)]
pub(in crate::association) struct DeliveryRate {
    began: Option<Time>,
    bytes: u64,
    spans: [u64; SPANS],
    /// When it was last found to have a queue, if that has not gone since; how long it had one, and what arrived then.
    queued_at: Option<Time>,
    queued: (Duration, u64),
    /// The rate while it had a queue last, which is all that it carries; and when that was.
    carries: Option<(u64, Time)>,
    /// Bytes that have arrived, and that were lost: of late, for both are halved now and then, last at that time.
    arrived: u64,
    lost: u64,
    halved_at: Time,
}

impl DeliveryRate {
    /// So many bytes have arrived, by a path of which these are round trip and load.
    pub(in crate::association) fn on_arrived(
        &mut self,
        now: Time,
        bytes: usize,
        round_trip: Duration,
        load: Load,
    ) {
        if self.arrived > MEMORY_BYTES {
            self.halve(now);
        }
        self.arrived += bytes as u64;
        let span = round_trip.max(SPAN_MIN);
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
            // After a pause it is none of the path's.
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

    /// So many bytes were lost.
    pub(in crate::association) fn on_lost(&mut self, bytes: usize) {
        self.lost = self.lost.saturating_add(bytes as u64);
    }

    /// Bytes a second that the path carries, whatever it is given, as far as that is known.
    pub(super) fn carries(&self, now: Time) -> Option<u64> {
        self.carries.filter(|(rate, at)| *rate > 0 && now.since(*at) < BELIEVED).map(|(rate, _)| rate)
    }

    /// What part of what leaves is lost, in thousandths.
    pub(super) fn lost_thousandths(&self) -> u64 {
        let (lost, known) = (self.lost, self.lost.saturating_add(self.arrived));
        lost.saturating_mul(1_000) / known.saturating_add(TRUST_BYTES)
    }

    /// Time goes by, whether or not the path is used.
    pub(in crate::association) fn age(&mut self, now: Time) {
        if now.since(self.halved_at) >= MEMORY {
            self.halve(now);
        }
    }

    fn halve(&mut self, now: Time) {
        (self.arrived, self.lost, self.halved_at) = (self.arrived / 2, self.lost / 2, now);
    }

    /// The path failed: what it delivered says nothing of what it will.
    pub(in crate::association) fn forget(&mut self) {
        *self = Self { arrived: self.arrived, lost: self.lost, halved_at: self.halved_at, ..Self::default() };
    }
}

/// Whether a path could deliver more than it does.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) enum Load {
    /// As far as is known.
    Light,
    /// It has a queue: no.
    Queued,
}

fn per_second(bytes: u64, time: Duration) -> u64 {
    let rate = u128::from(bytes) * 1_000_000_000 / time.as_nanos().max(1);
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// How many bytes that is in such a time.
pub(super) fn bytes_in(bytes_per_second: u64, time: Duration) -> u64 {
    let bytes = u128::from(bytes_per_second) * time.as_nanos() / 1_000_000_000;
    u64::try_from(bytes).unwrap_or(u64::MAX)
}

/// How long so many bytes take at such a rate.
pub(super) fn time_for(bytes: usize, bytes_per_second: u64) -> Duration {
    let nanos = bytes as u128 * 1_000_000_000 / u128::from(bytes_per_second.max(1));
    Duration::from_nanos(u64::try_from(nanos).unwrap_or(u64::MAX))
}

impl Path {
    /// A round trip of it: of late if something is in flight, else the shortest; RTO.Initial before there is one. Of late is
    /// the last one or SRTT, whichever is shorter: SRTT remembers for long what was long once.
    pub(super) fn round_trip(&self) -> Duration {
        let lately = self.rtt.srtt().map(|srtt| srtt.min(self.latest_rtt)).filter(|_| self.flight_bytes > 0);
        lately.or(self.min_rtt).unwrap_or(self.rtt.rto())
    }

    /// Whether there is a queue.
    pub(in crate::association) fn load(&self) -> Load {
        let is_longer = self.min_rtt.is_some_and(|least| self.latest_rtt > least * QUEUED.0 / QUEUED.1);
        if is_longer && self.flight_bytes >= QUEUED_PACKETS * self.pmdcs() {
            Load::Queued
        } else {
            Load::Light
        }
    }

    /// Bytes a second that it delivers, as far as is known: before that, a window in a round trip.
    pub(super) fn rate(&self) -> u64 {
        let measured = self.delivery_rate.spans.into_iter().max().unwrap_or(0);
        let guessed = || per_second(self.controller.window() as u64, self.round_trip());
        if measured > 0 { measured } else { guessed().max(1) }
    }

    /// How long it takes until a chunk of so many bytes is acknowledged that leaves now: a round trip, or what all that is in
    /// flight takes before it, whichever is longer; but no more than two: where the peer's window holds a path back, what it
    /// delivers says little of what it could.
    pub(super) fn takes(&self, bytes: usize) -> Duration {
        let ahead = time_for(self.flight_bytes + bytes, self.rate());
        ahead.clamp(self.round_trip(), self.round_trip() * 2)
    }

    /// The same, and in the mean what it takes longer for what is lost: as much again and an eighth, each time.
    pub(super) fn takes_in_the_mean(&self, bytes: usize) -> Duration {
        let (takes, lost) = (self.takes(bytes), self.delivery_rate.lost_thousandths().min(LOST_MAX) as u32);
        takes + (takes + takes / 8) * lost / (1_000 - lost)
    }

    /// A chunk of so many bytes left again by another path after so long: nobody will know what became of it here, but that it
    /// ought to have come.
    pub(in crate::association) fn on_retransmitted_elsewhere(&mut self, bytes: usize, waited: Duration) {
        if waited > self.takes(bytes) {
            self.delivery_rate.on_lost(bytes);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rate_is_the_largest_of_late_and_a_pause_is_none() {
        let mut rate = DeliveryRate::default();
        let round_trip = Duration::from_millis(100);
        let at = |ms| Time::from_millis(1_000 + ms);
        for ms in (0..=100).step_by(10) {
            rate.on_arrived(at(ms), 1_000, round_trip, Load::Light);
        }
        assert_eq!(rate.spans, [100_000, 0, 0, 0], "10 packets in a tenth of a second");
        rate.on_arrived(at(900), 50, round_trip, Load::Light);
        assert_eq!(rate.spans[0], 100_000, "1000 bytes in 0.8 s");
        for span in 1..=SPANS as u64 {
            rate.on_arrived(at(900 + 100 * span), 50, round_trip, Load::Light);
        }
        assert_eq!(rate.spans, [500; SPANS]);
    }

    #[test]
    fn one_loss_of_few_packets_is_chance_and_what_was_lost_long_ago_is_forgotten() {
        let (mut few, mut many) = (DeliveryRate::default(), DeliveryRate::default());
        let now = Time::ZERO;
        few.on_arrived(now, 23 * 1_468, Duration::from_millis(100), Load::Light);
        few.on_lost(1_468);
        assert!(few.lost_thousandths() < 20, "{}", few.lost_thousandths());
        many.on_arrived(now, 900_000, Duration::from_millis(100), Load::Light);
        many.on_lost(100_000);
        assert!(many.lost_thousandths() > 90, "{}", many.lost_thousandths());
        for age in 1..=8 {
            let before = many.lost_thousandths();
            many.age(now + MEMORY * age - Duration::from_millis(1));
            assert_eq!(many.lost_thousandths(), before, "not yet");
            many.age(now + MEMORY * age);
            assert!(many.lost_thousandths() < before);
        }
        assert!(many.lost_thousandths() < 10, "{}", many.lost_thousandths());
    }

    #[test]
    fn what_a_path_carries_is_its_rate_while_it_has_a_queue_and_no_other() {
        let mut rate = DeliveryRate::default();
        let round_trip = Duration::from_millis(100);
        // Every 200 ms eleven packets at once, a tenth of a megabyte a second; for 20 ms there is a queue.
        for burst in 0..5 {
            assert_eq!(rate.carries(Time::from_millis(200 * burst)), None);
            for nth in 0..=10 {
                let load = if nth < 10 { Load::Queued } else { Load::Light };
                rate.on_arrived(Time::from_millis(200 * burst + 2 * nth), 2_000, round_trip, load);
            }
        }
        // No sooner than after a round trip of it.
        for nth in 0..=10 {
            rate.on_arrived(Time::from_millis(1_000 + 2 * nth), 2_000, round_trip, Load::Queued);
        }
        assert_eq!(rate.carries(Time::from_millis(1_020)), Some(1_000_000));
    }
}
