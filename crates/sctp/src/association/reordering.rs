//! The reordering window of a path: how late a chunk may be before it counts as lost (RFC 9002 §6.1, RFC 8985
//! §6.2).
//!
//! Before reordering was seen, a chunk is lost if it was sent [`PACKETS_LATER`] packets or more than 9/8 RTT
//! before one that has arrived. A chunk that arrives although it counts as lost, or would with the next SACK,
//! shows by how much more than an RTT packets are late on this path. That time is then added to 9/8 RTT, and
//! the number of packets no longer counts, unless more chunks are lost than late: then waiting for late chunks
//! delays more retransmissions than it saves. RFC 8985 widens its window by steps of a quarter of an RTT; here,
//! only a chunk whose delay is unknown does that.

use std::time::Duration;

use braidftp_base::Time;

/// The reordering threshold in packets (RFC 9002 §6.1.1).
const PACKETS_LATER: u64 = 3;
/// The part of an RTT by which a chunk may always be late (RFC 9002 §6.1.2: kTimeThreshold is 9/8).
const TIME_THRESHOLD_PART: u32 = 8;
/// The part of an RTT by which the window widens if the delay of a chunk is unknown (RFC 8985 §6.2 step 4).
const STEP_PART: u32 = 4;
/// The number of recoveries for which a window is kept after reordering was last seen (RFC 8985 §6.2 step 4:
/// RACK.reo_wnd_persist).
const KEPT_FOR_RECOVERIES: u32 = 16;

/// The reordering window of a path.
#[derive(Debug, Default, Clone, Copy)]
pub(super) struct ReorderingWindow {
    /// The longest time by which a chunk's round trip was longer than that of others.
    late_by: Duration,
    /// The number of recoveries for which it is kept; 0: no reordering was seen.
    kept_for: u32,
    /// By how many more SACKs reported late chunks than showed losses, at most [`KEPT_FOR_RECOVERIES`] either way.
    late_balance: i32,
    /// When a chunk with an unknown delay last widened the window.
    stepped_at: Option<Time>,
}

/// How much later a packet that arrived was sent than one that is lost.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Threshold {
    /// The number of packets later; `None`: no number suffices.
    pub(super) packets: Option<u64>,
    /// The time since the chunk was sent.
    pub(super) time: Duration,
}

impl ReorderingWindow {
    /// When an unacknowledged chunk is lost, with this round trip.
    pub(super) fn threshold(&self, round_trip: Duration) -> Threshold {
        // RFC 8985 §6.2 step 4 limits the window to SRTT.
        let late_by = self.late_by.min(round_trip);
        Threshold {
            packets: (self.kept_for == 0 || self.late_balance < 0).then_some(PACKETS_LATER),
            time: round_trip + round_trip / TIME_THRESHOLD_PART + late_by,
        }
    }

    /// A chunk arrived `age` after it was sent, and after one that was sent `packets_later`.
    pub(super) fn on_late(&mut self, packets_later: u64, age: Duration, round_trip: Duration) {
        if packets_later >= PACKETS_LATER || age > round_trip + round_trip / TIME_THRESHOLD_PART {
            self.widen(age, round_trip);
            self.count(1);
        }
    }

    /// Chunks were marked lost when a SACK arrived.
    pub(super) fn on_lost(&mut self) {
        self.count(-1);
    }

    /// A SACK reports chunks that were marked lost and not retransmitted: the loss does not count.
    pub(super) fn on_lost_arrived(&mut self) {
        self.count(1);
    }

    /// A chunk that was retransmitted had arrived `age` after it was first sent.
    pub(super) fn on_spurious(&mut self, age: Duration, round_trip: Duration) {
        self.widen(age, round_trip);
        self.count(2);
    }

    fn widen(&mut self, age: Duration, round_trip: Duration) {
        self.late_by = self.late_by.max(age.saturating_sub(round_trip));
        self.kept_for = KEPT_FOR_RECOVERIES;
    }

    fn count(&mut self, late: i32) {
        let most = KEPT_FOR_RECOVERIES as i32;
        self.late_balance = (self.late_balance + late).clamp(-most, most);
    }

    /// A chunk that was retransmitted arrived twice, at unknown times. Widens the window, once in a round
    /// trip.
    pub(super) fn on_duplicate(&mut self, now: Time, round_trip: Duration) {
        self.kept_for = KEPT_FOR_RECOVERIES;
        self.count(2);
        if self.stepped_at.is_none_or(|at| now.since(at) >= round_trip) {
            self.late_by = (self.late_by + round_trip / STEP_PART).min(round_trip);
            self.stepped_at = Some(now);
        }
    }

    /// A recovery has ended.
    pub(super) fn on_recovered(&mut self) {
        self.kept_for = self.kept_for.saturating_sub(1);
        if self.kept_for == 0 {
            *self = Self::default();
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ROUND_TRIP: Duration = Duration::from_millis(80);

    fn time_ms(window: &ReorderingWindow) -> u128 {
        window.threshold(ROUND_TRIP).time.as_millis()
    }

    #[test]
    fn a_late_chunk_replaces_the_number_of_packets_by_its_delay() {
        let mut window = ReorderingWindow::default();
        assert_eq!(window.threshold(ROUND_TRIP).packets, Some(3));
        assert_eq!(time_ms(&window), 90);
        window.on_late(2, ROUND_TRIP + Duration::from_millis(10), ROUND_TRIP);
        assert_eq!(window.threshold(ROUND_TRIP).packets, Some(3), "it did not count as lost");
        window.on_late(3, ROUND_TRIP + Duration::from_millis(7), ROUND_TRIP);
        assert_eq!(window.threshold(ROUND_TRIP).packets, None);
        assert_eq!(time_ms(&window), 97);
        window.on_late(1, ROUND_TRIP + Duration::from_millis(11), ROUND_TRIP);
        window.on_late(9, ROUND_TRIP, ROUND_TRIP);
        assert_eq!(time_ms(&window), 101, "the longest counts");
    }

    #[test]
    fn the_window_is_limited_to_a_round_trip() {
        let mut window = ReorderingWindow::default();
        window.on_late(1, ROUND_TRIP * 10, ROUND_TRIP);
        assert_eq!(time_ms(&window), 170);
        assert_eq!(window.threshold(ROUND_TRIP / 2).time, ROUND_TRIP * 17 / 16, "of the RTT then");
    }

    #[test]
    fn duplicates_widen_the_window_by_a_quarter_of_an_rtt_once_in_a_round_trip() {
        let mut window = ReorderingWindow::default();
        let at = Time::from_millis(1_000);
        window.on_duplicate(at, ROUND_TRIP);
        window.on_duplicate(at + ROUND_TRIP / 2, ROUND_TRIP);
        assert_eq!((window.threshold(ROUND_TRIP).packets, time_ms(&window)), (None, 110));
        (1..=9).for_each(|nth| window.on_duplicate(at + ROUND_TRIP * nth, ROUND_TRIP));
        assert_eq!(time_ms(&window), 170);
    }

    #[test]
    fn while_more_chunks_are_lost_than_late_the_number_of_packets_counts() {
        let mut window = ReorderingWindow::default();
        let packets = |window: &ReorderingWindow| window.threshold(ROUND_TRIP).packets;
        window.on_late(3, ROUND_TRIP * 2, ROUND_TRIP);
        window.on_lost();
        assert_eq!(packets(&window), None, "as many");
        window.on_lost();
        assert_eq!((packets(&window), time_ms(&window)), (Some(3), 170));
        window.on_spurious(ROUND_TRIP, ROUND_TRIP);
        assert_eq!(packets(&window), None, "two of three were late");
        (0..2).for_each(|_| window.on_lost());
        assert_eq!(packets(&window), Some(3));
        window.on_late(3, ROUND_TRIP, ROUND_TRIP);
        window.on_lost_arrived();
        assert_eq!(packets(&window), None);
    }

    #[test]
    fn sixteen_late_chunks_outweigh_any_number_of_losses() {
        let mut window = ReorderingWindow::default();
        (0..1_000).for_each(|_| window.on_lost());
        (0..15).for_each(|_| window.on_late(3, ROUND_TRIP, ROUND_TRIP));
        assert_eq!(window.threshold(ROUND_TRIP).packets, Some(3));
        window.on_late(3, ROUND_TRIP, ROUND_TRIP);
        assert_eq!(window.threshold(ROUND_TRIP).packets, None);
    }

    #[test]
    fn sixteen_recoveries_without_reordering_forget_it() {
        let mut window = ReorderingWindow::default();
        window.on_late(3, ROUND_TRIP * 2, ROUND_TRIP);
        (0..15).for_each(|_| window.on_recovered());
        window.on_late(3, ROUND_TRIP, ROUND_TRIP);
        (0..15).for_each(|_| window.on_recovered());
        assert_eq!((window.threshold(ROUND_TRIP).packets, time_ms(&window)), (None, 170));
        window.on_recovered();
        assert_eq!((window.threshold(ROUND_TRIP).packets, time_ms(&window)), (Some(3), 90));
        window.on_recovered();
        assert_eq!(window.threshold(ROUND_TRIP).packets, Some(3), "more change nothing");
    }
}
