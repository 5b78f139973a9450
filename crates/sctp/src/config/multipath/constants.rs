//! The constants of multipath transfer. `docs/multipath.md` gives the origin of each and what it trades.

use std::time::Duration;

use braidftp_base::constants;

constants! {
    /// The constants of the default multipath algorithm. Only the figure `multipath/sensitivity` sets other values than the
    /// default ones.
    pub struct MultipathConstants {
        /// The number of bursts into which a path's window is divided, if it has more packets: new data is sent on one path
        /// for at least a burst.
        bursts: usize = 128,
        /// Admission: losses that occur less than once in this many flights are ignored.
        rare_loss_flights: u64 = 32,
        /// Admission: the maximum number of consecutive losses of a chunk that is considered.
        losses_max: u32 = 5,
        /// Admission: by how much a measured rate may grow until a chunk on a slow path has arrived, in hundredths.
        rate_growth: u64 = 25,
        /// Head-of-line rescue: the number of outstanding chunks examined.
        search_chunks: usize = 64,
        /// Head-of-line rescue: a chunk is blocked by its path if its remaining time exceeds that of the other path by this
        /// factor, in quarters. Of two equal paths, one always seems shorter by chance.
        blocked_quarters: u32 = 5,
        /// An RTT above this many hundredths of the minimum shows a queue, if enough packets are in flight.
        queued_rtt: u32 = 150,
        /// The number of packets in flight below which a long RTT does not show a queue.
        queued_packets: usize = 4,
        /// The minimum span of a rate measurement, otherwise one RTT: a few packets give no rate. The two spans of a mean RTT
        /// (shared bottlenecks) are together as long at least.
        rate_span_min: Duration = Duration::from_millis(20),
        /// The loss ratio is measured over this many to twice as many bytes.
        loss_window_bytes: u64 = 2 << 20,
        /// The initial value of bytes arrived: one loss among few packets is chance, and a path that is no longer used would
        /// never improve.
        prior_bytes: u64 = 64 << 10,
        /// The time after which the bytes arrived and lost are halved, so that an unused path is tried again. After twice this
        /// time, the rate measured with a queue is no longer considered the path's capacity.
        loss_half_life: Duration = Duration::from_secs(16),
        /// Shared bottlenecks: the score at which a bottleneck is considered shared; at 0 it no longer is. The maximum for or
        /// against is twice this.
        shared_score: i8 = 2,
        /// Shared bottlenecks: a change of the queueing delay below 1/`delay_change_part` of an RTT or below the granularity of
        /// timers shows nothing.
        delay_change_part: u32 = 32,
        /// Shared bottlenecks: after this many simultaneous window reductions, one path reduces its window as a test.
        simultaneous_max: u32 = 2,
        /// Shared bottlenecks: the number of spans without a reduction before one that counts as alone, and before a test.
        quiet_spans: u32 = 3,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_constant_is_moved_both_ways() {
        for name in MultipathConstants::NAMES {
            for percent in [70, 130] {
                assert_ne!(
                    MultipathConstants::DEFAULT.moved(name, percent).unwrap(),
                    MultipathConstants::DEFAULT,
                    "{name}"
                );
            }
        }
    }
}
