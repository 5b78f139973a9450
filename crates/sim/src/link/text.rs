//! Parsing and formatting of numbers with units, shared by the properties of links.

use std::fmt;
use std::ops::RangeInclusive;
use std::str::FromStr;
use std::time::Duration;

use braidftp_base::Time;

use super::config_error::ConfigError;
use crate::random::Probability;

/// The longest delay: Mars at its farthest is 22 light minutes away.
const DELAY_MAX: Duration = Duration::from_secs(3_600);
/// The latest time in a schedule.
const INSTANT_MAX: Duration = Duration::from_secs(100 * 365 * 86_400);

pub(super) fn parsed<T: FromStr<Err: fmt::Display>>(text: &str) -> Result<T, ConfigError> {
    text.parse().map_err(|error: T::Err| ConfigError::new(error.to_string()))
}

pub(super) fn bytes(text: &str, range: RangeInclusive<usize>) -> Result<usize, ConfigError> {
    let wrong = || {
        let (least, most) = (range.start(), range.end());
        ConfigError::new(format!("`{}` is not a number of bytes from {least} to {most}", text.escape_debug()))
    };
    text.parse().ok().filter(|bytes| range.contains(bytes)).ok_or_else(wrong)
}

pub(super) fn probability(text: &str) -> Result<Probability, ConfigError> {
    parsed(text)
}

pub(super) fn duration(text: &str) -> Result<Duration, ConfigError> {
    let wrong = || {
        ConfigError::new(format!(
            "`{}` is not a delay of up to an hour: write a number and s, ms, us or ns, as in 1ms",
            text.escape_debug()
        ))
    };
    span(text).filter(|span| *span <= DELAY_MAX).ok_or_else(wrong)
}

/// Parses a time since the start.
pub(super) fn instant(text: &str) -> Result<Time, ConfigError> {
    let wrong = || {
        ConfigError::new(format!(
            "`{}` is not a time after the start: write a number and s, ms, us or ns, as in 2.5s",
            text.escape_debug()
        ))
    };
    span(text).filter(|span| *span <= INSTANT_MAX).map(|span| Time::ZERO + span).ok_or_else(wrong)
}

fn span(text: &str) -> Option<Duration> {
    let split = text.find(|c: char| c.is_ascii_alphabetic() || c == 'µ')?;
    let (number, unit) = text.split_at(split);
    let nanos_a_unit = match unit {
        "s" => 1e9,
        "ms" => 1e6,
        "us" | "µs" => 1e3,
        "ns" => 1.0,
        _ => return None,
    };
    let nanos = number.trim().parse::<f64>().ok()? * nanos_a_unit;
    // Above this an f64 does not represent every nanosecond.
    (0.0..=9e18).contains(&nanos).then(|| Duration::from_nanos(nanos.round() as u64))
}

/// Formats a duration for [`duration`] and [`instant`].
pub(super) struct Text(pub(super) Duration);

impl Text {
    pub(super) fn instant(at: Time) -> Self {
        Self(at.since(Time::ZERO))
    }
}

impl fmt::Display for Text {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0.as_nanos() {
            n if n % 1_000_000_000 == 0 && n > 0 => write!(f, "{}s", n / 1_000_000_000),
            n if n % 1_000_000 == 0 => write!(f, "{}ms", n / 1_000_000),
            n if n % 1_000 == 0 => write!(f, "{}us", n / 1_000),
            n => write!(f, "{n}ns"),
        }
    }
}
