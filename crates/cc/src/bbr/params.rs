//! The parameters of BBR.

use std::time::Duration;

use crate::ParameterError;
use crate::notation::duration;

/// The parameters of BBR. Values out of range are clamped.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// The version. Default: 3.
    pub version: Version,
    /// BBR.LossThresh, in thousandths: the tolerated loss rate of a round trip while probing, in version 3. 1
    /// to 500. Default: 20.
    pub loss_threshold_thousandths: u16,
    /// BBR.Beta, in thousandths: the largest reduction of the short-term limits per round trip with losses,
    /// in version 3. 100 to 990. Default: 700.
    pub beta_thousandths: u16,
    /// BBR.MinRTTFilterLen: how long the minimum RTT is valid. 1 s to 600 s. Default: 10 s.
    /// BBR.ProbeRTTInterval is half of it.
    pub min_rtt_window: Duration,
    /// BBR.ProbeRTTDuration: how long the flight is kept small to measure the minimum RTT. 10 ms to 10 s.
    /// Default: 200 ms.
    pub probe_rtt: Duration,
}

/// The version of BBR.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// draft-cardwell-iccrg-bbr-congestion-control-00: does not respond to loss.
    V1,
    /// draft-ietf-ccwg-bbr-06.
    V3,
}

const THRESHOLD: std::ops::RangeInclusive<u16> = 1..=500;
const BETA: std::ops::RangeInclusive<u16> = 100..=990;
const WINDOW: std::ops::RangeInclusive<Duration> = Duration::from_secs(1)..=Duration::from_secs(600);
const PROBE: std::ops::RangeInclusive<Duration> = Duration::from_millis(10)..=Duration::from_secs(10);

impl Default for Params {
    fn default() -> Self {
        Self {
            version: Version::V3,
            loss_threshold_thousandths: 20,
            beta_thousandths: 700,
            min_rtt_window: Duration::from_secs(10),
            probe_rtt: Duration::from_millis(200),
        }
    }
}

impl Params {
    /// The names of the parameters, in the order of [`Params`].
    pub const NAMES: &[&str] = &["version", "loss-threshold", "beta", "min-rtt-window", "probe-rtt"];

    /// Sets a parameter by its name, as `version` to `1`; durations have a unit, as in `10s`.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the value is out of range: the error lists the names or the range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ParameterError> {
        let wrong = |range: &'static str| ParameterError::out_of_range("bbr", name, value, range);
        let thousandths = |within: std::ops::RangeInclusive<u16>, range: &'static str| {
            let number = value.parse::<f64>().ok().map(|number| (number * 1e3).round());
            let number = number.filter(|number| (0.0..=1e3).contains(number)).map(|number| number as u16);
            number.filter(|number| within.contains(number)).ok_or_else(|| wrong(range))
        };
        let lasts = |within: std::ops::RangeInclusive<Duration>, range: &'static str| {
            duration(value).filter(|lasts| within.contains(lasts)).ok_or_else(|| wrong(range))
        };
        match name {
            "version" => {
                self.version = match value {
                    "1" => Version::V1,
                    "3" => Version::V3,
                    _ => return Err(wrong("1 or 3")),
                }
            }
            "loss-threshold" => {
                self.loss_threshold_thousandths = thousandths(THRESHOLD, "0.001 to 0.5")?;
            }
            "beta" => self.beta_thousandths = thousandths(BETA, "0.1 to 0.99")?,
            "min-rtt-window" => self.min_rtt_window = lasts(WINDOW, "1s to 600s")?,
            "probe-rtt" => self.probe_rtt = lasts(PROBE, "10ms to 10s")?,
            _ => return Err(ParameterError::unknown("bbr", name, Self::NAMES)),
        }
        Ok(())
    }

    /// Clamps all values to their ranges.
    pub(super) fn within_ranges(self) -> Self {
        let clamp =
            |value: u16, range: &std::ops::RangeInclusive<u16>| value.clamp(*range.start(), *range.end());
        Self {
            loss_threshold_thousandths: clamp(self.loss_threshold_thousandths, &THRESHOLD),
            beta_thousandths: clamp(self.beta_thousandths, &BETA),
            min_rtt_window: self.min_rtt_window.clamp(*WINDOW.start(), *WINDOW.end()),
            probe_rtt: self.probe_rtt.clamp(*PROBE.start(), *PROBE.end()),
            ..self
        }
    }
}
