//! Estimates of one path that the schedulers compare: round trip, load, rate, and time until a chunk is acknowledged.

use crate::config::MultipathConstants;
use std::time::Duration;

use crate::association::multipath::delivery_rate::{Load, per_second, time_for};
use crate::association::path::Path;

impl Path {
    /// The current RTT of the path: the last sample or SRTT, whichever is shorter, if data is in flight,
    /// since SRTT decays slowly; otherwise the minimum; RTO.Initial before the first sample.
    pub(super) fn round_trip(&self) -> Duration {
        let lately = self.rtt.srtt().map(|srtt| srtt.min(self.latest_rtt)).filter(|_| self.flight_bytes > 0);
        lately.or(self.min_rtt).unwrap_or(self.rtt.rto())
    }

    /// Whether there is a queue.
    pub(in crate::association) fn load(&self, constants: &MultipathConstants) -> Load {
        let is_longer =
            self.min_rtt.is_some_and(|least| self.latest_rtt > least * constants.queued_rtt / 100);
        if is_longer && self.flight_bytes >= constants.queued_packets * self.pmdcs() {
            Load::Queued
        } else {
            Load::Light
        }
    }

    /// The delivery rate in bytes per second; before the first measurement, a window per RTT.
    pub(super) fn rate(&self) -> u64 {
        let measured = self.delivery_rate.spans.into_iter().max().unwrap_or(0);
        let guessed = || per_second(self.controller.window() as u64, self.round_trip());
        if measured > 0 { measured } else { guessed().max(1) }
    }

    /// The time until a chunk of this many bytes sent now is acknowledged: one RTT, or the time to deliver
    /// the flight before it, whichever is longer, but at most two RTTs, since the rate of a path that is
    /// limited by the peer's window underestimates its capacity.
    pub(super) fn takes(&self, bytes: usize) -> Duration {
        let ahead = time_for(self.flight_bytes + bytes, self.rate());
        ahead.clamp(self.round_trip(), self.round_trip() * 2)
    }

    /// The time until a SACK on any path reports a chunk of this many bytes sent now: [`takes`](Self::takes), less
    /// what the return of SACKs on another path saves. The minimum RTT and the minimum time until a SACK on another
    /// path both include the way to the peer, so that they differ by the return paths alone.
    pub(super) fn reported_in(&self, bytes: usize) -> Duration {
        let saves = self.min_rtt.zip(self.min_cross_path_age).map(|(own, other)| own.saturating_sub(other));
        self.takes(bytes).saturating_sub(saves.unwrap_or_default())
    }

    /// The time of [`takes`](Self::takes) including the mean time for retransmissions: 9/8 of it for each.
    pub(super) fn mean_delivery_time(&self, bytes: usize, constants: &MultipathConstants) -> Duration {
        let lost = self.delivery_rate.lost_thousandths(constants).min(999) as u32;
        let takes = self.takes(bytes);
        takes + (takes + takes / 8) * lost / (1_000 - lost)
    }

    /// A chunk was sent on another path after this wait: whether it arrives here will remain unknown, but
    /// it is overdue.
    pub(in crate::association) fn on_retransmitted_elsewhere(&mut self, bytes: usize, waited: Duration) {
        if waited > self.takes(bytes) {
            self.delivery_rate.on_lost(bytes);
        }
    }
}
