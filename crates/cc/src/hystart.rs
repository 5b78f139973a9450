//! HyStart++ (RFC 9406): ends slow start when the RTT rises, before the queue overflows.
//!
//! Rounds are counted in bytes: a round ends when the data in flight at its begin is acknowledged.
//! [`HyStart`] advises how fast the window may grow and when slow start ends; the window belongs to the
//! controller.

use std::time::Duration;

/// The smallest rise of the RTT that counts (RFC 9406 §4.3).
const MIN_RTT_THRESH: Duration = Duration::from_millis(4);
/// The rise that always counts.
const MAX_RTT_THRESH: Duration = Duration::from_millis(16);
/// A rise of 1/`MIN_RTT_DIVISOR` of the last round's RTT counts.
const MIN_RTT_DIVISOR: u32 = 8;
/// The minimum number of samples per round.
const N_RTT_SAMPLE: u32 = 8;
/// How much slower the window grows in conservative slow start.
pub const CSS_GROWTH_DIVISOR: usize = 4;
/// The number of rounds in conservative slow start.
const CSS_ROUNDS: u32 = 5;

/// What slow start does next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Advice {
    /// Grow as in slow start.
    Grow,
    /// Grow by 1/[`CSS_GROWTH_DIVISOR`] of that.
    Slowly,
    /// End slow start.
    Leave,
}

/// The state of HyStart++ for one slow start.
#[derive(Debug, Clone, Default)]
pub struct HyStart {
    /// Bytes to be acknowledged before the round ends.
    round_left: usize,
    /// The minimum RTT of the last round, and of this one so far.
    last_min: Option<Duration>,
    current_min: Option<Duration>,
    samples: u32,
    conservative: Option<Conservative>,
}

/// Conservative slow start: the RTT rose, perhaps by accident.
#[derive(Debug, Clone, Copy)]
struct Conservative {
    rounds_left: u32,
    /// The RTT at which conservative slow start began.
    baseline: Duration,
}

/// The rise above this RTT that indicates a queue (RFC 9406 §4.2: RttThresh). Less may be jitter.
pub(crate) fn rtt_threshold(rtt: Duration) -> Duration {
    (rtt / MIN_RTT_DIVISOR).clamp(MIN_RTT_THRESH, MAX_RTT_THRESH)
}

impl HyStart {
    /// Takes an acknowledgement in slow start and returns what to do.
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
                    if current >= last + rtt_threshold(last) {
                        self.conservative = Some(Conservative { rounds_left: CSS_ROUNDS, baseline: current });
                    }
                }
                Some(Conservative { baseline, .. }) if current < baseline => self.conservative = None,
                Some(_) => {}
            }
        }
        if self.conservative.is_some() { Advice::Slowly } else { Advice::Grow }
    }

    /// Resets the state: slow start was interrupted, or begins again.
    pub fn reset(&mut self) {
        *self = Self::default();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BYTES: usize = 1_000;

    /// A round of `acks` acknowledgements; returns the last advice.
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
    fn a_constant_rtt_lets_the_window_grow() {
        let mut hystart = HyStart::default();
        for _ in 0..20 {
            assert_eq!(round(&mut hystart, 20, 50), Advice::Grow);
        }
    }

    #[test]
    fn an_rtt_that_rises_by_an_eighth_slows_growth_and_ends_slow_start_five_rounds_later() {
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
    fn an_rtt_that_falls_again_resumes_slow_start() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 20, 50);
        round(&mut hystart, 20, 50);
        assert_eq!(round(&mut hystart, 20, 60), Advice::Slowly);
        assert_eq!(round(&mut hystart, 20, 50), Advice::Grow);
    }

    #[test]
    fn a_round_with_few_samples_is_not_evaluated() {
        let mut hystart = HyStart::default();
        round(&mut hystart, 20, 50);
        round(&mut hystart, 20, 50);
        assert_eq!(round(&mut hystart, 6, 200), Advice::Grow);
    }
}
