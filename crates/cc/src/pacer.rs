//! When the next packet may leave at a controller's pacing rate (draft-ietf-ccwg-bbr §5.6.2, §5.6.3): a clock that each
//! packet moves on by what it takes at that rate.
//!
//! What leaves at once is a quantum, so that a driver can hand several packets to the kernel in one call; the next begins
//! when all of it would have left at the rate. A driver whose timer rings late makes up for it, within limits; who had
//! nothing to send does not.

use std::time::Duration;

use braidftp_base::{Rate, Time};

/// A quantum is as much as leaves in this time...
const QUANTUM: Duration = Duration::from_millis(1);
/// ...and no more bytes than this, which is what a driver hands over at once...
const QUANTUM_MAX: usize = 65_536;
/// ...but no fewer packets.
const QUANTUM_MIN_MTUS: usize = 2;
/// How late a driver's timer may ring without a loss of rate: tokio's counts whole milliseconds.
const LATE_MAX: Duration = Duration::from_millis(2);
/// Nothing is held back longer, whatever the rate: a window and timers are there for paths that carry less.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// Bytes that leave at once at this rate, by a path of this MTU in bytes.
pub fn quantum(rate: Rate, mtu: usize) -> usize {
    let bits = u128::from(rate.bits_per_second()) * QUANTUM.as_micros() / 1_000_000;
    let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX).min(QUANTUM_MAX);
    bytes.max(mtu.saturating_mul(QUANTUM_MIN_MTUS))
}

/// The pacing clock of a path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pacer {
    /// When what has left would have left at the rate.
    next_at: Time,
    /// Bytes of the quantum that may still leave.
    left: usize,
    /// A quantum is no less than this, in bytes.
    least: usize,
    /// Whether something waits for the clock.
    held: bool,
}

impl Pacer {
    /// Until when a packet must wait that is to leave now; `None` if it need not.
    pub fn holds(&mut self, now: Time) -> Option<Time> {
        if self.left > 0 || self.next_at <= now {
            return None;
        }
        self.held = true;
        Some(self.next_at)
    }

    /// From now on a quantum is no less than this, in bytes.
    pub fn leave_in_bursts(&mut self, least: usize) {
        self.least = least;
    }

    /// A packet left with so many bytes.
    pub fn on_sent(&mut self, now: Time, bytes: usize, rate: Rate, mtu: usize) {
        if self.left == 0 {
            self.left = quantum(rate, mtu).max(self.least.min(QUANTUM_MAX));
        }
        self.left = self.left.saturating_sub(bytes);
        let from = if self.held { now - LATE_MAX } else { now };
        let until = self.next_at.max(from) + rate.transmit_time(bytes);
        self.next_at = until.min(now + HOLD_MAX);
        self.held &= self.next_at <= now;
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const MTU: usize = 1_250;
    /// 1250 bytes a millisecond.
    const SLOW: Rate = Rate::from_bits_per_second(10_000_000);
    /// 62,500 bytes a millisecond.
    const FAST: Rate = Rate::from_bits_per_second(500_000_000);

    /// All that may leave now.
    fn leaves(pacer: &mut Pacer, now: Time, rate: Rate) -> usize {
        let mut packets = 0;
        while pacer.holds(now).is_none() {
            pacer.on_sent(now, MTU, rate, MTU);
            packets += 1;
        }
        packets
    }

    #[test]
    fn two_packets_leave_at_once_and_the_next_when_both_would_have_left() {
        let mut pacer = Pacer::default();
        for step in 0..5 {
            let now = Time::from_millis(100 + 2 * step);
            assert_eq!(leaves(&mut pacer, now, SLOW), 2);
            assert_eq!(pacer.holds(now), Some(now + Duration::from_millis(2)));
        }
    }

    #[test]
    fn at_high_rates_a_millisecond_leaves_at_once_but_no_more_than_a_batch() {
        assert_eq!(leaves(&mut Pacer::default(), Time::from_millis(1), FAST), 50);
        let faster = Rate::from_bits_per_second(8_000_000_000);
        assert_eq!(leaves(&mut Pacer::default(), Time::from_millis(1), faster), 65_536_usize.div_ceil(MTU));
    }

    #[test]
    fn a_late_timer_costs_no_rate_and_idleness_gains_none() {
        let mut pacer = Pacer::default();
        let mut packets = 0;
        // A timer that rings each 1.7 ms, where a quantum takes 1 ms.
        for ring in 0..1_000 {
            packets += leaves(&mut pacer, Time::from_micros(100_000 + 1_700 * ring), FAST);
        }
        assert!((84_900..=85_100).contains(&packets), "{packets}");
        // Nobody waited, so there is nothing to make up for.
        let mut pacer = Pacer::default();
        pacer.on_sent(Time::from_millis(1), MTU, FAST, MTU);
        pacer.on_sent(Time::from_millis(50), 49 * MTU, FAST, MTU);
        assert_eq!(pacer.holds(Time::from_millis(50)), Some(Time::from_micros(50_980)));
    }

    #[test]
    fn nothing_waits_for_longer_than_a_second() {
        let mut pacer = Pacer::default();
        let now = Time::from_millis(1);
        assert_eq!(leaves(&mut pacer, now, Rate::from_bits_per_second(1)), 2);
        assert_eq!(pacer.holds(now), Some(now + HOLD_MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn no_more_leaves_than_the_rate_and_a_quantum_and_what_a_late_timer_missed(
            waits in prop::collection::vec((0_u64..5_000, any::<bool>()), 1..200),
            kbit in 100_u64..10_000_000,
        ) {
            let rate = Rate::from_bits_per_second(kbit * 1_000);
            let (mut pacer, mut now, mut sent) = (Pacer::default(), Time::from_millis(10), 0);
            let start = now;
            for (micros, tries) in waits {
                now += Duration::from_micros(micros);
                sent += if tries { leaves(&mut pacer, now, rate) * MTU } else { 0 };
                let due = rate.bits_per_second() as f64 / 8.0 * now.since(start).as_secs_f64();
                let more = quantum(rate, MTU) + MTU;
                prop_assert!(sent as f64 <= due + more as f64 + 1.0, "{sent} bytes, {due} due");
            }
        }
    }
}
