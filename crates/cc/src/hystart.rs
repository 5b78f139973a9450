//! HyStart++ (RFC 9406): slow start that ends when the round-trip time rises, before the queue overflows.
//!
//! Rounds are counted in bytes: what was in flight when one began has been acknowledged when it ends. It says how fast a
//! window may grow and when slow start is over; the window is its controller's.

use std::time::Duration;

/// The least rise of the round-trip time that counts (RFC 9406 §4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// The rise that always counts.
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// What part of the last round's is a rise that counts.
const MIN_RTT_DIVISOR: u32 = 8;
/// Samples that a round must give before it is judged.
const N_RTT_SAMPLE: u32 = 8;
/// How much slower the window grows in conservative slow start.
pub const CSS_GROWTH_DIVISOR: usize = 4;
/// How many rounds that lasts.
const CSS_ROUNDS: u32 = 5;

/// What slow start does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Grow as ever.
    Grow,
    /// Grow by a part of it.
    Slowly,
    /// Slow start is over.
    Leave,
}

/// Where slow start is.
#[derive(Debug, Clone, Default)]
pub struct HyStart {
    /// Bytes to be acknowledged before the round is over.
    round_left: usize,
    /// The shortest round trip of the last round, and of this one so far.
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Conservative slow start: the round trip rose; perhaps by accident.
#[derive(Debug, Clone, Copy)]
struct Conservative {
    rounds_left: u32,
    /// The round trip that made it so.
    baseline: Duration,
}

impl HyStart {
    /// An acknowledgement came in slow start.
    pub fn on_ack(&mut self, bytes: usize, flight_before: usize, rtt: Option<Duration>) -> Advice {
        self.round_left = self.round_left.saturating_sub(bytes);
        if self.round_left == 0 {
            self.round_left = flight_before.saturating_sub(bytes).max(1);
            self.last_min = self.current_min.take();
            self.samples = 0;
            if let Some(conservative) = &mut self.conservative {
                conservative.rounds_left -= 1;
                if conservative.rounds_left == 0 {
                    *self = Self::default();
                    return Advice::Leave;
                }
            }
        }
        if let Some(rtt) = rtt {
            self.samples += 1;
            self.current_min = Some(self.current_min.map_or(rtt, |min| min.min(rtt)));
        }
        let judged = self.current_min.filter(|_| self.samples >= N_RTT_SAMPLE);
        if let (Some(current), Some(last)) = (judged, self.last_min) {
            match self.conservative {
                None => {
                    let rise = (last / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH);
                    if current >= last + rise {
                        self.conservative = Some(Conservative { rounds_left: CSS_ROUNDS, baseline: current });
                    }
                }
                Some(Conservative { baseline, .. }) if current < baseline => self.conservative = None,
                Some(_) => {}
            }
        }
        if self.conservative.is_some() { Advice::Slowly } else { Advice::Grow }
    }

    /// Slow start was interrupted, or begins anew.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1_000;

    /// A round of so many acknowledgements; the last advice.
    fn round(hystart: &mut HyStart, acks: usize, rtt_ms: u64) -> Advice {
        let mut advice = Advice::Grow;
        for _ in 0..acks {
            advice = hystart.on_ack(BYTES, (acks + 1) * BYTES, Some(Duration::from_millis(rtt_ms)));
            if advice == Advice::Leave {
                break;
            }
        }
        advice
    }

    #[test]
    fn a_round_trip_that_stays_lets_the_window_grow() {
        let mut hystart = HyStart::default();
        for _ in 0..20 {
            assert_eq!(round(&mut hystart, 20, 50), Advice::Grow);
        }
    }

    #[test]
    fn one_that_rises_by_an_eighth_slows_it_and_ends_it_five_rounds_later() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 20, 80);
        round(&mut hystart, 20, 80);
        assert_eq!(round(&mut hystart, 20, 89), Advice::Grow);
        assert_eq!(round(&mut hystart, 20, 101), Advice::Slowly);
        for _ in 0..4 {
            assert_eq!(round(&mut hystart, 20, 105), Advice::Slowly);
        }
        assert_eq!(round(&mut hystart, 20, 105), Advice::Leave);
    }

    #[test]
    fn one_that_rose_by_accident_lets_it_grow_again() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 20, 50);
        round(&mut hystart, 20, 50);
        assert_eq!(round(&mut hystart, 20, 60), Advice::Slowly);
        assert_eq!(round(&mut hystart, 20, 50), Advice::Grow);
    }

    #[test]
    fn a_round_of_few_samples_is_not_judged() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 20, 50);
        round(&mut hystart, 20, 50);
        assert_eq!(round(&mut hystart, 6, 200), Advice::Grow);
    }
}
