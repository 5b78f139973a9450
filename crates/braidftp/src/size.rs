//! Sizes in bytes, in the notation of people.

use std::fmt;
use std::str::FromStr;

/// A number of bytes on the command line: `500`, `20kB`, `3MB`, `4GiB`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Size(pub u64);

impl FromStr for Size {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let digits = text.find(|c: char| !c.is_ascii_digit()).unwrap_or(text.len());
        let (number, unit) = text.split_at(digits);
        let unit: u64 = match unit {
            "" | "B" => 1,
            "kB" | "KB" => 1_000,
            "MB" => 1_000_000,
            "GB" => 1_000_000_000,
            "TB" => 1_000_000_000_000,
            "KiB" | "k" | "K" => 1 << 10,
            "MiB" | "M" => 1 << 20,
            "GiB" | "G" => 1 << 30,
            "TiB" | "T" => 1 << 40,
            _ => 0,
        };
        match number.parse::<u64>().ok().and_then(|number| number.checked_mul(unit)) {
            Some(bytes) if unit > 0 => Ok(Self(bytes)),
            _ => Err("write a number of bytes, as in 500000, 20kB, 3MB or 4GiB".into()),
        }
    }
}

impl fmt::Display for Size {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_parsed() {
        for (text, bytes) in [("0", 0), ("500", 500), ("20kB", 20_000), ("3MB", 3_000_000), ("4GiB", 4 << 30)]
        {
            assert_eq!(text.parse(), Ok(Size(bytes)), "{text}");
        }
        for text in ["", "-1", "x", "1 MB", "1.5GB", "1XB", "99999999999999999999", "18446744073709551615kB"]
        {
            assert!(text.parse::<Size>().is_err(), "{text}");
        }
    }
}
