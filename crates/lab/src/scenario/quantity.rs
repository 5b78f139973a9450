//! Quantities with units, as in `10 Mbit/s`, `35 ms`, `500 kB` and `3 %`.
//!
//! Prefixes are decimal, as in the papers: `kB` is 1000 bytes. `KiB`, `MiB` and `GiB` are binary.

use std::fmt;

use super::tree::nearest;

/// The dimension of a quantity.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dimension {
    /// Bits per second.
    Rate,
    /// Seconds.
    Time,
    /// Bytes.
    Bytes,
    /// Packets.
    Packets,
    /// A fraction from 0 to 1: a number, or per cent.
    Fraction,
}

/// A number in the base unit of its dimension.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Quantity {
    /// The number.
    pub number: f64,
    /// The dimension.
    pub dimension: Dimension,
}

/// The units: name, dimension, and size in the base unit.
const UNITS: &[(&str, Dimension, f64)] = &[
    ("bit/s", Dimension::Rate, 1.0),
    ("kbit/s", Dimension::Rate, 1e3),
    ("Mbit/s", Dimension::Rate, 1e6),
    ("Gbit/s", Dimension::Rate, 1e9),
    ("B/s", Dimension::Rate, 8.0),
    ("kB/s", Dimension::Rate, 8e3),
    ("MB/s", Dimension::Rate, 8e6),
    ("GB/s", Dimension::Rate, 8e9),
    ("ns", Dimension::Time, 1e-9),
    ("us", Dimension::Time, 1e-6),
    ("µs", Dimension::Time, 1e-6),
    ("ms", Dimension::Time, 1e-3),
    ("s", Dimension::Time, 1.0),
    ("min", Dimension::Time, 60.0),
    ("h", Dimension::Time, 3_600.0),
    ("B", Dimension::Bytes, 1.0),
    ("kB", Dimension::Bytes, 1e3),
    ("MB", Dimension::Bytes, 1e6),
    ("GB", Dimension::Bytes, 1e9),
    ("KiB", Dimension::Bytes, 1_024.0),
    ("MiB", Dimension::Bytes, 1_048_576.0),
    ("GiB", Dimension::Bytes, 1_073_741_824.0),
    ("packets", Dimension::Packets, 1.0),
    ("packet", Dimension::Packets, 1.0),
    ("%", Dimension::Fraction, 0.01),
];

/// Other spellings of units, which are answered with ours: a nearest word would be another unit.
const SPELLINGS: &[(&str, &str)] = &[
    ("bps", "bit/s"),
    ("kbps", "kbit/s"),
    ("mbps", "Mbit/s"),
    ("gbps", "Gbit/s"),
    ("sec", "s"),
    ("minutes", "min"),
    ("hours", "h"),
];

impl Dimension {
    /// The dimension of a column, by the words that explain its unit, as in `s, smoothed`; `None`: it counts something.
    pub fn of_column(unit: &str) -> Option<Self> {
        let first = unit.split([',', ' ']).next().unwrap_or("");
        [Self::Rate, Self::Time, Self::Bytes].into_iter().find(|dimension| dimension.base() == first)
    }

    /// The unit with a size in the base unit, as in `Mbit/s` for 1e6.
    pub fn unit_of(self, scale: f64) -> &'static str {
        let unit = UNITS.iter().find(|(_, its, size)| *its == self && (size - scale).abs() <= 1e-9 * scale);
        unit.filter(|_| self != Self::Fraction).map_or("", |(unit, ..)| unit)
    }

    /// The decimal unit in which a number of the base unit is best read, and the unit's size.
    pub fn readable(self, number: f64) -> (&'static str, f64) {
        let units: &[(&'static str, f64)] = match self {
            Self::Rate => &[("Gbit/s", 1e9), ("Mbit/s", 1e6), ("kbit/s", 1e3)],
            Self::Bytes => &[("GB", 1e9), ("MB", 1e6), ("kB", 1e3)],
            Self::Time => &[("s", 1.0), ("ms", 1e-3), ("us", 1e-6)],
            Self::Packets | Self::Fraction => &[],
        };
        let fitting = units.iter().find(|(_, size)| *size <= number.abs());
        fitting.copied().unwrap_or((self.base(), 1.0))
    }

    /// The units of the dimension.
    pub fn units(self) -> impl Iterator<Item = &'static str> {
        UNITS.iter().filter(move |(_, its, _)| *its == self).map(|(unit, ..)| *unit)
    }

    /// An example.
    pub const fn example(self) -> &'static str {
        match self {
            Self::Rate => "10 Mbit/s",
            Self::Time => "35 ms",
            Self::Bytes => "500 kB",
            Self::Packets => "50 packets",
            Self::Fraction => "3 %",
        }
    }

    /// The unit of the dimension in tables.
    pub const fn base(self) -> &'static str {
        match self {
            Self::Rate => "bit/s",
            Self::Time => "s",
            Self::Bytes => "B",
            Self::Packets => "packets",
            Self::Fraction => "",
        }
    }
}

impl fmt::Display for Dimension {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Rate => "a rate",
            Self::Time => "a time",
            Self::Bytes => "a number of bytes",
            Self::Packets => "a number of packets",
            Self::Fraction => "a fraction from 0 to 1",
        })
    }
}

/// Returns the dimension and the size of a unit.
pub fn unit(name: &str) -> Option<(Dimension, f64)> {
    UNITS.iter().find(|(unit, ..)| *unit == name).map(|(_, dimension, scale)| (*dimension, *scale))
}

/// Splits a text into number and unit. `None` if it does not begin with a number.
pub fn split(text: &str) -> Option<(f64, &str)> {
    let text = text.trim();
    let is_number = |c: char| c.is_ascii_digit() || matches!(c, '.' | '_' | '+' | '-');
    let mut end = text.find(|c: char| !is_number(c)).unwrap_or(text.len());
    // An exponent, as in 1e6.
    if let Some(rest) = text[end..].strip_prefix(['e', 'E'])
        && rest.starts_with(|c: char| c.is_ascii_digit() || c == '-')
    {
        let digits = rest.find(|c: char| !is_number(c)).unwrap_or(rest.len());
        end += 1 + digits;
    }
    let number: f64 = text[..end].replace('_', "").parse().ok()?;
    Some((number, text[end..].trim()))
}

/// Parses a text with a unit of any dimension. `None` if it is not a quantity.
pub fn parse(text: &str) -> Option<Quantity> {
    let (number, name) = split(text)?;
    let (dimension, scale) = unit(name)?;
    // The float nearest to the decimal fraction: 0.3 * 1e-3 would differ from 0.0003.
    let number = if scale < 1.0 { number / (1.0 / scale).round() } else { number * scale };
    (number.is_finite() && number >= 0.0).then_some(Quantity { number, dimension })
}

/// Parses a quantity of a dimension.
///
/// # Errors
///
/// A sentence with the error and the right notation.
pub fn of(dimension: Dimension, text: &str) -> Result<f64, String> {
    let units =
        || dimension.units().filter(|unit| !matches!(*unit, "µs" | "packet")).collect::<Vec<_>>().join(", ");
    let shown = text.escape_debug();
    match (parse(text), split(text)) {
        (Some(quantity), _) if quantity.dimension == dimension => match dimension {
            Dimension::Fraction if quantity.number > 1.0 => Err(format!("`{shown}` is more than 100 %")),
            _ => Ok(quantity.number),
        },
        (Some(quantity), _) => Err(format!(
            "`{shown}` is {}, not {dimension}, as in \"{}\"",
            quantity.dimension,
            dimension.example()
        )),
        (None, Some((number, ""))) if dimension == Dimension::Fraction && (0.0..=1.0).contains(&number) => {
            Ok(number)
        }
        (None, Some((_, ""))) if dimension != Dimension::Fraction => {
            Err(format!("`{shown}` has no unit: write one of {}, as in \"{}\"", units(), dimension.example()))
        }
        (None, Some((number, _))) if number < 0.0 => Err(format!("`{shown}` is negative")),
        (None, Some((_, its))) if unit(its).is_some() => Err(format!("`{shown}` is too large")),
        (None, Some((_, wrong))) if !wrong.is_empty() => Err(no_unit(&[dimension], wrong)),
        _ => Err(format!("`{shown}` is not {dimension}, as in \"{}\"", dimension.example())),
    }
}

/// The error for an unknown unit.
fn no_unit(dimensions: &[Dimension], wrong: &str) -> String {
    let units =
        dimensions.iter().flat_map(|its| its.units()).filter(|unit| !matches!(*unit, "µs" | "packet"));
    let named: Vec<String> = dimensions.iter().map(ToString::to_string).collect();
    let (shown, named) = (wrong.escape_debug(), named.join(" or "));
    if wrong.starts_with(',') {
        return format!("a decimal fraction has a point, as in 10.5, and not `{shown}`");
    }
    let ours = SPELLINGS.iter().find(|(spelling, _)| wrong.eq_ignore_ascii_case(spelling));
    let units: Vec<&str> = units.collect();
    let meant = match ours.filter(|(_, unit)| units.contains(unit)) {
        Some((_, unit)) => format!("did you mean `{unit}`?"),
        None => nearest(wrong, units),
    };
    format!("`{shown}` is no unit of {named}: {meant}")
}

/// Parses a quantity that may be of several dimensions.
///
/// # Errors
///
/// As in [`of`].
pub fn of_any(dimensions: &[Dimension], text: &str) -> Result<f64, String> {
    let its = parse(text).map(|quantity| quantity.dimension);
    let fitting = dimensions.iter().find(|dimension| Some(**dimension) == its);
    match (fitting, split(text)) {
        (None, Some((number, wrong)))
            if dimensions.len() > 1 && number >= 0.0 && !wrong.is_empty() && unit(wrong).is_none() =>
        {
            Err(no_unit(dimensions, wrong))
        }
        _ => of(*fitting.unwrap_or(&dimensions[0]), text),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn quantities_are_numbers_in_base_units() {
        for (text, number, dimension) in [
            ("3 Mbit/s", 3e6, Dimension::Rate),
            ("1.5MB/s", 12e6, Dimension::Rate),
            ("35 ms", 0.035, Dimension::Time),
            ("0.3 ms", 0.0003, Dimension::Time),
            ("500 kB", 500_000.0, Dimension::Bytes),
            ("57_344 B", 57_344.0, Dimension::Bytes),
            ("64 KiB", 65_536.0, Dimension::Bytes),
            ("50 packets", 50.0, Dimension::Packets),
            ("3 %", 0.03, Dimension::Fraction),
            ("1e3 B", 1_000.0, Dimension::Bytes),
        ] {
            assert_eq!(parse(text), Some(Quantity { number, dimension }), "{text}");
        }
    }

    #[test]
    fn a_wrong_quantity_is_answered_with_the_right_notation() {
        for (dimension, text, said) in [
            (Dimension::Rate, "3", "has no unit: write one of bit/s, kbit/s, Mbit/s"),
            (Dimension::Rate, "3 furlongs", "`furlongs` is no unit of a rate: there are bit/s"),
            (Dimension::Rate, "3Mbps", "`Mbps` is no unit of a rate: did you mean `Mbit/s`?"),
            (Dimension::Bytes, "4 TB", "`TB` is no unit of a number of bytes: did you mean `GB`?"),
            (Dimension::Time, "10,5 ms", "a decimal fraction has a point, as in 10.5"),
            (Dimension::Rate, "3 Mbits", "`Mbits` is no unit of a rate: did you mean `Mbit/s`?"),
            (Dimension::Rate, "1e300 Gbit/s", "`1e300 Gbit/s` is too large"),
            (Dimension::Rate, "3 ms", "`3 ms` is a time, not a rate, as in \"10 Mbit/s\""),
            (Dimension::Time, "-3 ms", "negative"),
            (Dimension::Time, "soon", "is not a time, as in \"35 ms\""),
            (Dimension::Fraction, "101 %", "more than 100 %"),
            (Dimension::Fraction, "2", "is not a fraction from 0 to 1"),
            (Dimension::Bytes, "1e999 B", "`1e999 B` is too large"),
        ] {
            let error = of(dimension, text).unwrap_err();
            assert!(error.contains(said), "{text}: {error}");
        }
    }

    #[test]
    fn numbers_are_shown_in_the_unit_in_which_they_are_best_read() {
        for (dimension, number, unit, size) in [
            (Dimension::Rate, 19_326_566.0, "Mbit/s", 1e6),
            (Dimension::Rate, -950.0, "bit/s", 1.0),
            (Dimension::Bytes, 42_406.0, "kB", 1e3),
            (Dimension::Time, 0.0876, "ms", 1e-3),
            (Dimension::Time, 7_300.0, "s", 1.0),
            (Dimension::Time, 0.0, "s", 1.0),
        ] {
            assert_eq!(dimension.readable(number), (unit, size), "{number}");
        }
        assert_eq!(Dimension::of_column("bit/s of user data, all flows"), Some(Dimension::Rate));
        assert_eq!(Dimension::of_column("s, smoothed"), Some(Dimension::Time));
        assert_eq!(Dimension::of_column("kB on the wire"), None);
        assert_eq!(Dimension::Rate.unit_of(1e6), "Mbit/s");
        assert_eq!(Dimension::Fraction.unit_of(1.0), "");
    }

    proptest! {
        #[test]
        fn any_text_is_parsed_or_refused(text in ".{0,20}") {
            for dimension in [Dimension::Rate, Dimension::Time, Dimension::Bytes, Dimension::Packets, Dimension::Fraction] {
                if let Ok(number) = of(dimension, &text) {
                    prop_assert!(number.is_finite() && number >= 0.0);
                }
            }
        }

        #[test]
        fn every_unit_is_parsed_back(number in 0.0..1e6_f64, at in 0..UNITS.len()) {
            let (unit, dimension, scale) = UNITS[at];
            let parsed = parse(&format!("{number} {unit}")).unwrap();
            prop_assert_eq!(parsed.dimension, dimension);
            prop_assert!((parsed.number - number * scale).abs() <= 1e-9 * parsed.number.abs());
        }
    }
}
