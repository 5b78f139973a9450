//! TCP Hybla (Caini, Firrincieli: "TCP Hybla: a TCP enhancement for heterogeneous networks", International
//! Journal of Satellite Communications and Networking 22, 2004): over a long path the window grows, in time,
//! as fast as Reno's over a short one.
//!
//! With ρ = RTT / RTT₀ and RTT₀ = 25 ms, an acknowledged segment adds 2^ρ − 1 segments in slow start and
//! ρ²/cwnd in congestion avoidance. A loss halves the window, as in RFC 5681. RTT is the minimum, so that a
//! queue does not speed up growth. ρ is counted in eighths and limited to `rho-max`, because 2^ρ soon exceeds
//! any window.
//!
//! Of the other parts of the paper, SACK belongs to the transport. The estimate of the initial ssthresh and
//! the spacing of packets are not implemented: over a long path slow start overshoots the path at once,
//! unless ssthresh is set.

use std::time::Duration;

use crate::frame::{Rule, Step, Window};
use crate::notation::duration;
use crate::{Ack, Congestion, Options, ParameterError};

/// 2^(n/8) in 256ths, for n below 8.
const EIGHTH_POWERS: [u128; 8] = [256, 279, 304, 332, 362, 395, 431, 470];

const RTT0_MIN: Duration = Duration::from_millis(1);
const RTT0_MAX: Duration = Duration::from_secs(10);
const RHO_MAX: u8 = 32;

/// The parameters of Hybla. Values out of range are clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// RTT₀: the RTT up to which the algorithm is Reno. 1 ms to 10 s. Default: 25 ms, as in the paper.
    pub rtt0: Duration,
    /// The largest ρ. 1 to 32. Default: 16.
    pub rho_max: u8,
}

impl Default for Params {
    fn default() -> Self {
        Self { rtt0: Duration::from_millis(25), rho_max: 16 }
    }
}

impl Params {
    /// The names of the parameters, in the order of [`Params`].
    pub const NAMES: &[&str] = &["rtt0", "rho-max"];

    /// Sets a parameter by its name, as `rtt0` to `50ms`.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the value is out of range: the error lists the names or the range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ParameterError> {
        let wrong = |range: &'static str| ParameterError::out_of_range("hybla", name, value, range);
        match name {
            "rtt0" => {
                let rtt0 = duration(value).filter(|rtt0| (RTT0_MIN..=RTT0_MAX).contains(rtt0));
                self.rtt0 = rtt0.ok_or_else(|| wrong("1ms to 10s"))?;
            }
            "rho-max" => {
                let rho_max = value.parse().ok().filter(|rho| (1..=RHO_MAX).contains(rho));
                self.rho_max = rho_max.ok_or_else(|| wrong("1 to 32"))?;
            }
            _ => return Err(ParameterError::unknown("hybla", name, Self::NAMES)),
        }
        Ok(())
    }

    /// Clamps all values to their ranges.
    fn within_ranges(self) -> Self {
        Self { rtt0: self.rtt0.clamp(RTT0_MIN, RTT0_MAX), rho_max: self.rho_max.clamp(1, RHO_MAX) }
    }
}

/// The window rule of Hybla.
#[derive(Debug, Clone)]
pub struct Hybla {
    params: Params,
    /// The minimum RTT so far.
    rtt: Option<Duration>,
}

impl Hybla {
    /// ρ in eighths: at least 8.
    fn rho(&self) -> u32 {
        let most = 8 * u128::from(self.params.rho_max);
        let rtt = self.rtt.unwrap_or(self.params.rtt0).as_nanos();
        (8 * rtt / self.params.rtt0.as_nanos()).clamp(8, most) as u32
    }
}

impl Rule for Hybla {
    fn new(options: &Options) -> Self {
        Self { params: options.hybla.within_ranges(), rtt: None }
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        if let Some(rtt) = ack.rtt {
            self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
        }
    }

    fn slow_start(&self, _window: Window, bytes: usize) -> Step {
        let (whole, eighths) = (self.rho() / 8, self.rho() % 8);
        let power = EIGHTH_POWERS[eighths as usize] << whole;
        Step { numerator: (power - 256) * bytes as u128, denominator: 256 }
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        let rho = u128::from(self.rho());
        Step::segments_a_window(rho * rho * 1_000 / 64, window, bytes)
    }

    fn after_loss(&mut self, _window: Window, congestion: &Congestion) -> usize {
        congestion.flight_bytes / 2
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::frame::testing::{MSS, ack, framed, lose, round};
    use crate::{Cause, Controller};

    const MS: Duration = Duration::from_millis(1);

    #[test]
    fn below_rtt0_the_window_equals_reno() {
        for rtt in [MS, 25 * MS] {
            let mut hybla = framed::<Hybla>(Options::default(), 10, 2);
            assert!((MSS - 50..=MSS).contains(&round(&mut hybla, rtt)));
            let mut hybla = framed::<Hybla>(Options::default(), 10, 100);
            assert_eq!(round(&mut hybla, rtt), 10 * MSS);
        }
    }

    #[test]
    fn at_three_times_rtt0_the_window_grows_nine_times_as_much_per_round_trip() {
        let mut hybla = framed::<Hybla>(Options::default(), 100, 2);
        let grown = round(&mut hybla, 75 * MS);
        assert!((8_500..=9_000).contains(&grown), "{grown}");
        let mut hybla = framed::<Hybla>(Options::default(), 10, 10_000);
        hybla.on_ack(ack(MSS, 75 * MS));
        assert_eq!(hybla.window(), 10 * MSS + 7 * MSS, "2^3 - 1");
    }

    #[test]
    fn a_queue_does_not_speed_up_growth() {
        let mut hybla = framed::<Hybla>(Options::default(), 10, 10_000);
        hybla.on_ack(ack(MSS, 25 * MS));
        hybla.on_ack(ack(MSS, 500 * MS));
        assert_eq!(hybla.window(), 12 * MSS);
    }

    #[test]
    fn the_longest_rtt_does_not_overflow_the_window() {
        let mut options = Options::default();
        options.hybla.rho_max = 32;
        let mut hybla = framed::<Hybla>(options, 10, 4_000_000);
        (0..10).for_each(|_| hybla.on_ack(ack(MSS, 3_600_000 * MS)));
        assert_eq!(hybla.window(), u32::MAX as usize);
    }

    #[test]
    fn a_loss_halves_the_window() {
        for (cause, window) in [(Cause::Loss, 5 * MSS), (Cause::Timeout, MSS)] {
            let mut hybla = framed::<Hybla>(Options::default(), 10, 2);
            lose(&mut hybla, cause);
            assert_eq!((hybla.window(), hybla.ssthresh()), (window, 5 * MSS));
        }
    }
}
