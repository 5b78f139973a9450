//! Pacing (draft-ietf-ccwg-bbr §5.6.2, §5.6.3): a clock that each sent packet advances by its transmission
//! time at the controller's pacing rate.
//!
//! Packets are sent in quanta, so that a driver can pass several packets to the kernel in one call; the next
//! quantum begins when all of the last one would have been sent at the rate. If a driver's timer fires late,
//! the pacer makes up for it within limits; time with nothing to send is not made up for.

use std::time::Duration;

use braidftp_base::{Rate, Time};

/// A quantum is what is sent in this time at the pacing rate...
const QUANTUM: Duration = Duration::from_millis(1);
/// ...but at most this many bytes, the batch of a driver...
const QUANTUM_MAX: usize = 65_536;
/// ...and at least this many packets.
const QUANTUM_MIN_MTUS: usize = 2;
/// How late a driver's timer may fire without a loss of rate: many count whole milliseconds.
const LATE_MAX: Duration = Duration::from_millis(2);
/// The longest delay, whatever the rate: windows and timers handle slower paths.
const HOLD_MAX: Duration = Duration::from_secs(1);

/// The bytes sent at once at this rate, on a path with this MTU in bytes.
pub fn quantum(rate: Rate, mtu: usize) -> usize {
    let bits = u128::from(rate.bits_per_second()) * QUANTUM.as_micros() / 1_000_000;
    let bytes = usize::try_from(bits / 8).unwrap_or(usize::MAX).min(QUANTUM_MAX);
    bytes.max(mtu.saturating_mul(QUANTUM_MIN_MTUS))
}

/// The pacing clock of a path.
#[derive(Debug, Clone, Copy, Default)]
pub struct Pacer {
    /// When the bytes sent so far would have been sent at the rate.
    next_at: Time,
    /// Bytes of the quantum that may still be sent.
    left: usize,
    /// The minimum quantum, in bytes.
    least: usize,
    /// Whether a packet waits for the clock.
    held: bool,
}

impl Pacer {
    /// Returns until when a packet must be delayed that is to be sent now; `None` if it may be sent.
    pub fn holds(&mut self, now: Time) -> Option<Time> {
        if self.left > 0 || self.next_at <= now {
            return None;
        }
        self.held = true;
        Some(self.next_at)
    }

    /// Sets the minimum quantum, in bytes.
    pub fn leave_in_bursts(&mut self, least: usize) {
        self.least = least;
    }

    /// Takes a sent packet of `bytes` bytes.
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
    /// 1250 bytes per millisecond.
    const SLOW: Rate = Rate::from_bits_per_second(10_000_000);
    /// 62,500 bytes per millisecond.
    const FAST: Rate = Rate::from_bits_per_second(500_000_000);

    /// The bytes that may be sent now.
    fn leaves(pacer: &mut Pacer, now: Time, rate: Rate) -> usize {
        let mut packets = 0;
        while pacer.holds(now).is_none() {
            pacer.on_sent(now, MTU, rate, MTU);
            packets += 1;
        }
        packets
    }

    #[test]
    fn two_packets_are_sent_at_once_and_the_next_after_their_transmission_time() {
        let mut pacer = Pacer::default();
        for step in 0..5 {
            let now = Time::from_millis(100 + 2 * step);
            assert_eq!(leaves(&mut pacer, now, SLOW), 2);
            assert_eq!(pacer.holds(now), Some(now + Duration::from_millis(2)));
        }
    }

    #[test]
    fn at_high_rates_a_quantum_is_a_millisecond_and_at_most_a_batch() {
        assert_eq!(leaves(&mut Pacer::default(), Time::from_millis(1), FAST), 50);
        let faster = Rate::from_bits_per_second(8_000_000_000);
        assert_eq!(leaves(&mut Pacer::default(), Time::from_millis(1), faster), 65_536_usize.div_ceil(MTU));
    }

    #[test]
    fn a_late_timer_is_compensated_and_idle_time_is_not() {
        let mut pacer = Pacer::default();
        let mut packets = 0;
        // The timer fires each 1.7 ms, and a quantum takes 1 ms.
        for ring in 0..1_000 {
            packets += leaves(&mut pacer, Time::from_micros(100_000 + 1_700 * ring), FAST);
        }
        assert!((84_900..=85_100).contains(&packets), "{packets}");
        // No packet was delayed, so there is nothing to make up for.
        let mut pacer = Pacer::default();
        pacer.on_sent(Time::from_millis(1), MTU, FAST, MTU);
        pacer.on_sent(Time::from_millis(50), 49 * MTU, FAST, MTU);
        assert_eq!(pacer.holds(Time::from_millis(50)), Some(Time::from_micros(50_980)));
    }

    #[test]
    fn no_packet_is_delayed_by_more_than_a_second() {
        let mut pacer = Pacer::default();
        let now = Time::from_millis(1);
        assert_eq!(leaves(&mut pacer, now, Rate::from_bits_per_second(1)), 2);
        assert_eq!(pacer.holds(now), Some(now + HOLD_MAX));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_pacer_never_exceeds_the_rate_by_more_than_a_quantum_and_the_late_timer_allowance(
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
