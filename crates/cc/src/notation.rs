//! Parsing of the values of controller parameters.

use std::time::Duration;

/// A duration with its unit, s or ms.
pub(crate) fn duration(text: &str) -> Option<Duration> {
    let (number, nanos) = match text.strip_suffix("ms") {
        Some(number) => (number, 1e6),
        None => (text.strip_suffix('s')?, 1e9),
    };
    let number = number.parse::<f64>().ok().filter(|number| (0.0..=1e9).contains(number))?;
    Some(Duration::from_nanos((number * nanos).round() as u64))
}
