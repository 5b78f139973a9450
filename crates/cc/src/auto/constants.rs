//! The constants of `auto`. `docs/auto.md` gives the origin of each and what it trades.

use std::time::Duration;

use braidftp_base::constants;

constants! {
    /// The constants of [`Auto`](super::Auto). Only the figure `utilisation/sensitivity` sets other values than the default
    /// ones.
    pub struct Constants {
        /// The window of the model, in hundredths of what fills the path, except while probing.
        window: u64 = 110,
        /// Added packets, for acknowledgements of two packets each.
        spare_mtus: usize = 4,
        /// The resolution of a driver's clock: what arrives within this time is no queue.
        shortest: Duration = Duration::from_millis(1),
        /// The window does not grow while the queue is longer than this and than seven base RTTs.
        queue_max: Duration = Duration::from_secs(1),
        /// A path is far, so that Reno needs twice as long as CUBIC to regain its window, if packets² · RTT³ (in
        /// ms) exceeds this. With a larger value Reno gets less than half of its share beside this flow over
        /// 1 Mbit/s with 300 ms.
        far: u128 = 33_000_000_000,
        /// A window below this share of all data in flight, in hundredths, is behind.
        behind: usize = 33,
        /// A window at this share of all data in flight, in hundredths, has caught up.
        caught_up: usize = 50,
        /// At this share of the path's rate, in hundredths, which is known to about a tenth, the flow is alone.
        alone: usize = 90,
        /// The largest window after a loss that is congestion, in hundredths of the one before: H-TCP's.
        beta_max: usize = 80,
        /// CUBIC windows of fewer packets are not paced.
        paced_mtus: usize = 32,

        /// The train's rate counts as verified by a flight of 1/`tried` of the window it implies.
        tried: usize = 16,
        /// The largest growth per round trip of a ramp, in hundredths.
        ramp_max: usize = 6_000,

        /// At this score losses are random: odds of 55 to 1. A window of few packets loses few per round trip,
        /// and a transfer of seconds is over before longer odds are reached.
        random_at: i32 = -40,
        /// The same at the end of a ramp: two losses of one round trip suffice.
        random_in_ramp_at: i32 = -25,
        /// At this score losses are congestion; in a ramp whose RTT has not grown by an eighth, at one loss of the largest weight
        /// more. As far below zero random loss is more likely, and a loss reduces the window to `leaning_cut` hundredths.
        congestion_at: i32 = 20,
        /// The same in the model, whose probes raise the RTTs next to lost packets: odds of 3,000 to 1. One loss of the largest
        /// weight beyond it the score has its bound, in both directions, so that a change of the path is noticed.
        congestion_in_model_at: i32 = 80,
        /// The window after a loss that is more likely random, in hundredths.
        leaning_cut: usize = 85,
        /// A loss rate over `loss_packets` that is never taken for random, in thousandths: 10 % plus three
        /// standard deviations. Many flows that share a queue of half a round trip lose more if each keeps its
        /// former rate.
        loss_max: u64 = 170,
        /// The same for the first 2,000 packets: 30 % plus three standard deviations. So short a flow does not
        /// harm others for long, and over a path with 30 % random loss CUBIC takes three times as long.
        loss_max_at_first: u64 = 390,

        /// The excess of a probe over the rate, in hundredths: BBR's.
        probe_max: u64 = 25,
        /// The excess of a probe after probes without gain, in hundredths.
        probe_min: u64 = 10,
        /// The phases of a cycle, a round trip each: a probe, its drain, and the others at the delivery rate.
        phases: usize = 8,

        /// The number of round trips over which the rate is the maximum.
        rate_rounds: u64 = 10,
        /// The shortest RTT is the minimum over the last one or two spans; the longest standing queue is remembered for two or
        /// four.
        rtt_span: Duration = Duration::from_secs(5),
        /// RTTs within 1/`about` of the shortest, or within the time of two packets, count as shortest; a standing queue adds
        /// more than 1/`about`.
        about: u32 = 16,
        /// A loss rate is computed after this many packets or a round trip, whichever is later.
        loss_packets: usize = 250,

        /// The number of RTT samples kept per round trip.
        samples_a_round: u32 = 24,
        /// The number of recent round trips whose samples are ranked.
        rounds: u32 = 10,
        /// The minimum span of samples: a few round trips of a short path say little.
        span_min: Duration = Duration::from_millis(200),
        /// The minimum number of samples for a rank.
        samples_min: usize = 4,
        /// RTTs that differ by at most 1/`alike` count as equal: bursts that grow with the rate are no queue.
        alike: u32 = 100,
        /// The number of losses counted per round trip: further losses saw the same queue.
        losses_a_round: i32 = 2,
        /// The weight of a loss where nearly all RTTs are alike and short: a queue that drops is not empty. Where
        /// they are alike and long the weight is 0: a queue that is always full drops anything.
        flat: i32 = -15,

        /// A trial of slow growth fails if less than 1/`little` of what was given up is regained.
        little: usize = 3,
        /// The number of losses with fast growth before the next trial: the initial value. It doubles with each failed trial, up
        /// to four times this.
        fast_losses: u32 = 4,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_constant_is_moved_by_a_part_of_itself_and_no_other_is() {
        for name in Constants::NAMES {
            let moved = Constants::DEFAULT.moved(name, 130).unwrap();
            assert_ne!(moved, Constants::DEFAULT, "{name}");
            let shown = format!("{moved:?}");
            assert!(
                shown.starts_with(&format!("Constants {{ {name}: ")) && shown.ends_with(", .. }"),
                "{shown}"
            );
        }
        assert_eq!(Constants::DEFAULT.moved("flat", 70).unwrap().flat, -11);
        assert_eq!(Constants::DEFAULT.moved("loss_max", 70).unwrap().loss_max, 119);
        assert_eq!(Constants::DEFAULT.moved("rtt_span", 130).unwrap().rtt_span, Duration::from_millis(6_500));
        assert_eq!(Constants::DEFAULT.moved("none", 130), None);
        assert_eq!(format!("{:?}", Constants::DEFAULT), "Constants { .. }");
    }
}
