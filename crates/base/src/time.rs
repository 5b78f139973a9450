//! An instant on the clock of the driver of a state machine.

use std::fmt;
use std::ops::{Add, AddAssign, Sub};
use std::time::Duration;

/// Nanoseconds since the driver's origin. A virtual clock starts at [`Time::ZERO`], so that two runs print
/// the same times; a real clock starts when the driver starts.
#[derive(Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Time(u64);

impl Time {
    /// The origin.
    pub const ZERO: Self = Self(0);

    /// `nanos` after the origin.
    pub const fn from_nanos(nanos: u64) -> Self {
        Self(nanos)
    }

    /// `micros` after the origin.
    pub const fn from_micros(micros: u64) -> Self {
        Self(micros * 1_000)
    }

    /// `millis` after the origin.
    pub const fn from_millis(millis: u64) -> Self {
        Self(millis * 1_000_000)
    }

    /// Nanoseconds since the origin.
    pub const fn as_nanos(self) -> u64 {
        self.0
    }

    /// Seconds since the origin, for output only: rounding makes this value unfit for deciding when an event
    /// happens.
    pub fn as_secs_f64(self) -> f64 {
        self.0 as f64 / 1e9
    }

    /// Returns the time elapsed since `earlier`, or zero if `earlier` is later than `self`.
    pub const fn since(self, earlier: Self) -> Duration {
        Duration::from_nanos(self.0.saturating_sub(earlier.0))
    }
}

impl Add<Duration> for Time {
    type Output = Self;

    fn add(self, rhs: Duration) -> Self {
        Self(self.0.saturating_add(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl AddAssign<Duration> for Time {
    fn add_assign(&mut self, rhs: Duration) {
        *self = *self + rhs;
    }
}

impl Sub<Duration> for Time {
    type Output = Self;

    fn sub(self, rhs: Duration) -> Self {
        Self(self.0.saturating_sub(u64::try_from(rhs.as_nanos()).unwrap_or(u64::MAX)))
    }
}

impl fmt::Display for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}.{:06}", self.0 / 1_000_000_000, self.0 / 1_000 % 1_000_000)
    }
}

impl fmt::Debug for Time {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_prints_seconds_with_micros() {
        assert_eq!(Time::from_micros(1_500_001).to_string(), "1.500001");
    }

    #[test]
    fn since_is_zero_for_a_later_instant() {
        assert_eq!(Time::ZERO.since(Time::from_millis(5)), Duration::ZERO);
        assert_eq!(Time::from_millis(7).since(Time::from_millis(5)), Duration::from_millis(2));
    }
}
