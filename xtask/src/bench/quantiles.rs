//! Quantiles by nearest rank of the outcomes of repeated runs, of which some may have failed.

use std::collections::BTreeMap;

/// The result of a run: its time as a multiple of the limit, or why it failed.
pub(super) type Outcome = std::result::Result<f64, String>;

/// The distribution of a program's times in a cell.
#[derive(Debug, PartialEq)]
pub(super) struct Tail {
    /// Each time with its seed, in ascending order; a failed run is infinite.
    pub(super) sorted: Vec<(f64, u64)>,
    /// The causes of failed runs, with their numbers.
    failures: BTreeMap<String, usize>,
}

impl Tail {
    pub(super) fn of<'a>(outcomes: impl Iterator<Item = (u64, &'a Outcome)>) -> Self {
        let (mut sorted, mut failures) = (Vec::new(), BTreeMap::new());
        for (seed, outcome) in outcomes {
            if let Err(why) = outcome {
                *failures.entry(why.clone()).or_default() += 1;
            }
            sorted.push((*outcome.as_ref().unwrap_or(&f64::INFINITY), seed));
        }
        sorted.sort_by(|a, b| a.0.total_cmp(&b.0));
        Self { sorted, failures }
    }

    /// The value at this quantile; infinite without any.
    pub(super) fn at(&self, percent: usize) -> f64 {
        nearest_rank(&self.sorted, percent).map_or(f64::INFINITY, |value| value.0)
    }

    /// The causes of failed runs as text, `0` if there are none.
    pub(super) fn failures(&self) -> String {
        let failures: Vec<_> = self.failures.iter().map(|(why, count)| format!("{count} × {why}")).collect();
        if failures.is_empty() { "0".to_owned() } else { failures.join(", ") }
    }
}

/// The value of a sorted list at this quantile, by nearest rank; `None` if the list is empty.
pub(super) fn nearest_rank<T>(sorted: &[T], percent: usize) -> Option<&T> {
    sorted.get((percent * sorted.len()).div_ceil(100).max(1) - 1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn quantiles_are_by_nearest_rank_and_failures_are_infinite() {
        let mut values: Vec<Outcome> = (1..=59).map(|n| Ok(f64::from(n))).collect();
        values.insert(3, Err("exit code 8".to_owned()));
        let tail = Tail::of((0..).zip(&values));
        assert_eq!([50, 90, 95].map(|percent| tail.at(percent)), [30.0, 54.0, 57.0]);
        assert_eq!(tail.at(100), f64::INFINITY);
        assert_eq!(tail.failures(), "1 × exit code 8");
        let empty = Tail::of(std::iter::empty());
        assert_eq!((empty.at(50), empty.failures()), (f64::INFINITY, "0".to_owned()));
    }
}
