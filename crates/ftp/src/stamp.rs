//! UTC timestamps in FTP's format: `YYYYMMDDHHMMSS[.fraction]` (RFC 3659 §2.3). Calendar arithmetic only,
//! without a clock.

use std::fmt;

/// A time in UTC: seconds since 1970-01-01 00:00:00 without leap seconds, and nanoseconds.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Timestamp {
    /// Seconds since the epoch, negative before it.
    pub seconds: i64,
    /// Nanoseconds after `seconds`, less than 1,000,000,000.
    pub nanos: u32,
}

impl Timestamp {
    /// A time without a fraction.
    pub const fn from_seconds(seconds: i64) -> Self {
        Self { seconds, nanos: 0 }
    }

    /// Parses `YYYYMMDDHHMMSS`, optionally with `.` and a fraction, of which 9 digits are used. A leap
    /// second `60` becomes the second after `59`.
    pub fn parse(text: &[u8]) -> Option<Self> {
        let (whole, fraction) = match text.iter().position(|byte| *byte == b'.') {
            Some(at) => (&text[..at], &text[at + 1..]),
            None => (text, &b"0"[..]),
        };
        if whole.len() != 14 || fraction.is_empty() || fraction.len() > 32 {
            return None;
        }
        if !whole.iter().chain(fraction).all(u8::is_ascii_digit) {
            return None;
        }
        let number = |range: std::ops::Range<usize>| {
            whole[range].iter().fold(0_i64, |sum, digit| sum * 10 + i64::from(digit - b'0'))
        };
        let civil = Civil {
            year: number(0..4),
            month: number(4..6),
            day: number(6..8),
            hour: number(8..10),
            minute: number(10..12),
            second: number(12..14),
        };
        let nanos =
            (0..9).fold(0, |sum, at| sum * 10 + fraction.get(at).map_or(0, |digit| u32::from(digit - b'0')));
        Some(Self { seconds: civil.to_seconds()?, nanos })
    }

    /// Adds the form of [`fmt::Display`] to a text: faster, for the lines of long listings.
    pub(crate) fn put(self, text: &mut Vec<u8>) {
        let Civil { year, month, day, hour, minute, second } = self.civil();
        match year {
            0..=9999 => put_digits(text, year.unsigned_abs(), 4),
            _ => text.extend_from_slice(year.to_string().as_bytes()),
        }
        for (number, digits) in [(month, 2), (day, 2), (hour, 2), (minute, 2), (second, 2)] {
            put_digits(text, number.unsigned_abs(), digits);
        }
        if self.nanos != 0 {
            text.push(b'.');
            put_digits(text, self.nanos.into(), 9);
            while text.last() == Some(&b'0') {
                text.pop();
            }
        }
    }

    /// The calendar fields.
    pub fn civil(self) -> Civil {
        Civil::from_seconds(self.seconds)
    }
}

impl fmt::Display for Timestamp {
    /// As in `MDTM` and the fact `modify`; a fraction only if there is one, without trailing zeros.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut text = Vec::with_capacity(24);
        self.put(&mut text);
        f.write_str(&String::from_utf8_lossy(&text))
    }
}

/// Adds the last digits of a number.
fn put_digits(text: &mut Vec<u8>, number: u64, digits: u32) {
    text.extend((0..digits).rev().map(|place| b'0' + (number / 10_u64.pow(place) % 10) as u8));
}

/// A calendar time, UTC.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Civil {
    /// The year, 0 to 9999.
    pub year: i64,
    /// 1 to 12.
    pub month: i64,
    /// 1 to 31.
    pub day: i64,
    /// 0 to 23.
    pub hour: i64,
    /// 0 to 59.
    pub minute: i64,
    /// 0 to 60.
    pub second: i64,
}

impl Civil {
    /// Seconds since the epoch; `None` if the date is invalid.
    pub fn to_seconds(self) -> Option<i64> {
        let Self { year, month, day, hour, minute, second } = self;
        let valid = (0..=9999).contains(&year)
            && (1..=12).contains(&month)
            && (1..=days_in(year, month)).contains(&day)
            && (0..24).contains(&hour)
            && (0..60).contains(&minute)
            && (0..=60).contains(&second);
        valid.then(|| days_from_civil(year, month, day) * 86_400 + hour * 3_600 + minute * 60 + second)
    }

    fn from_seconds(seconds: i64) -> Self {
        let days = seconds.div_euclid(86_400);
        let rest = seconds.rem_euclid(86_400);
        // The calendar in eras of 400 years that begin on 1 March, so that the leap day is the last day of
        // a year.
        let shifted = days + 719_468;
        let era = shifted.div_euclid(146_097);
        let day_of_era = shifted.rem_euclid(146_097);
        let year_of_era =
            (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
        let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
        let month_shifted = (5 * day_of_year + 2) / 153;
        let day = day_of_year - (153 * month_shifted + 2) / 5 + 1;
        let month = if month_shifted < 10 { month_shifted + 3 } else { month_shifted - 9 };
        let year = year_of_era + era * 400 + i64::from(month <= 2);
        Self { year, month, day, hour: rest / 3_600, minute: rest / 60 % 60, second: rest % 60 }
    }
}

fn days_from_civil(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let era = year.div_euclid(400);
    let year_of_era = year.rem_euclid(400);
    let month_shifted = if month > 2 { month - 3 } else { month + 9 };
    let day_of_year = (153 * month_shifted + 2) / 5 + day - 1;
    era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year - 719_468
}

fn days_in(year: i64, month: i64) -> i64 {
    match month {
        4 | 6 | 9 | 11 => 30,
        2 if year % 4 == 0 && (year % 100 != 0 || year % 400 == 0) => 29,
        2 => 28,
        _ => 31,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn known_timestamps_are_parsed_and_printed() {
        for (text, seconds, nanos) in [
            ("19700101000000", 0, 0),
            ("20000229235959", 951_868_799, 0),
            ("20261120110900.25", 1_795_172_940, 250_000_000),
            ("19691231235959.5", -1, 500_000_000),
        ] {
            let stamp = Timestamp { seconds, nanos };
            assert_eq!(Timestamp::parse(text.as_bytes()), Some(stamp), "{text}");
            assert_eq!(stamp.to_string(), text);
        }
    }

    #[test]
    fn invalid_timestamps_are_rejected() {
        for text in [
            "",
            "2026",
            "20261320000000",
            "20260229000000",
            "2026112011090x",
            "20261120110900.",
            "202611201109000",
        ] {
            assert_eq!(Timestamp::parse(text.as_bytes()), None, "{text}");
        }
    }

    proptest! {
        #[test]
        fn writing_and_reading_agree(seconds in -62_000_000_000_i64..253_402_300_799, nanos in 0_u32..1_000_000_000) {
            let stamp = Timestamp { seconds, nanos };
            prop_assert_eq!(Timestamp::parse(stamp.to_string().as_bytes()), Some(stamp));
        }

        #[test]
        fn no_bytes_panic(text in proptest::collection::vec(any::<u8>(), 0..24)) {
            let _ = Timestamp::parse(&text);
        }
    }
}
