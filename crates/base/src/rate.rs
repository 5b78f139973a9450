//! A data rate in bits per second. Parses texts such as `3mbit`, `256kbit`, `1.5gbit` and `20MB` (bytes per
//! second).

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// Bits per second; never zero.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Rate(u64);

impl Rate {
    /// `bits` per second; 1 if `bits` is 0.
    pub const fn from_bits_per_second(bits: u64) -> Self {
        Self(if bits == 0 { 1 } else { bits })
    }

    /// Bits per second.
    pub const fn bits_per_second(self) -> u64 {
        self.0
    }

    /// Returns the time to transmit `bytes` at this rate, rounded up to whole nanoseconds.
    pub const fn transmit_time(self, bytes: usize) -> Duration {
        let nanos = (bytes as u128 * 8 * 1_000_000_000).div_ceil(self.0 as u128);
        Duration::from_nanos(if nanos > u64::MAX as u128 { u64::MAX } else { nanos as u64 })
    }
}

impl fmt::Display for Rate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.0 {
            b if b % 1_000_000_000 == 0 => write!(f, "{}gbit", b / 1_000_000_000),
            b if b % 1_000_000 == 0 => write!(f, "{}mbit", b / 1_000_000),
            b if b % 1_000 == 0 => write!(f, "{}kbit", b / 1_000),
            b => write!(f, "{b}bit"),
        }
    }
}

/// The text that could not be parsed as a [`Rate`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ParseRateError(String);

impl fmt::Display for ParseRateError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "`{}` is not a rate: write a number and bit, kbit, mbit, gbit, kB, MB or GB, as in 3mbit",
            self.0
        )
    }
}

impl std::error::Error for ParseRateError {}

impl FromStr for Rate {
    type Err = ParseRateError;

    fn from_str(text: &str) -> Result<Self, ParseRateError> {
        let wrong = || ParseRateError(text.to_owned());
        let split = text.find(|c: char| c.is_ascii_alphabetic()).ok_or_else(wrong)?;
        let (number, unit) = text.split_at(split);
        let bits_per_unit = match unit {
            "bit" => 1.0,
            "kbit" => 1e3,
            "mbit" | "Mbit" => 1e6,
            "gbit" | "Gbit" => 1e9,
            "B" => 8.0,
            "kB" => 8e3,
            "MB" => 8e6,
            "GB" => 8e9,
            _ => return Err(wrong()),
        };
        let number: f64 = number.trim().parse().map_err(|_| wrong())?;
        let bits = number * bits_per_unit;
        if !(1.0..=1e15).contains(&bits) {
            return Err(wrong());
        }
        Ok(Self(bits as u64))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parses_rates_with_units_and_rejects_malformed_ones() {
        for (text, bits) in
            [("3mbit", 3_000_000), ("256kbit", 256_000), ("1.5gbit", 1_500_000_000), ("20MB", 160_000_000)]
        {
            assert_eq!(text.parse::<Rate>().unwrap().bits_per_second(), bits);
        }
        for text in ["", "3", "mbit", "-3mbit", "3furlongs", "0mbit", "nanmbit"] {
            assert!(text.parse::<Rate>().is_err(), "{text}");
        }
    }

    #[test]
    fn transmit_time_is_bits_divided_by_rate() {
        assert_eq!(Rate::from_bits_per_second(3_000_000).transmit_time(1500), Duration::from_millis(4));
    }
}
