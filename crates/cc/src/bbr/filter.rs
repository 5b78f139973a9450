//! A windowed maximum filter over a time given by a counter (§5.5.3).

use std::collections::VecDeque;

/// The candidates for the maximum, by time; later ones are smaller.
#[derive(Debug, Clone, Default)]
pub(super) struct MaxFilter {
    values: VecDeque<(u64, u64)>,
}

impl MaxFilter {
    /// Takes a value and returns the maximum over the last `window` times, the current one included.
    pub(super) fn update(&mut self, time: u64, value: u64, window: u64) -> u64 {
        while self.values.front().is_some_and(|(at, _)| at.saturating_add(window) <= time) {
            self.values.pop_front();
        }
        while self.values.back().is_some_and(|(_, smaller)| *smaller <= value) {
            self.values.pop_back();
        }
        if self.values.back().is_none_or(|(at, _)| *at != time) {
            self.values.push_back((time, value));
        }
        self.values.front().map_or(value, |(_, largest)| *largest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn the_filter_returns_the_maximum_of_its_window_and_keeps_one_value_per_time(
            steps in prop::collection::vec((0_u64..4, 0_u64..50), 1..100),
            window in 1_u64..12,
        ) {
            let (mut filter, mut time, mut all) = (MaxFilter::default(), 0, Vec::new());
            for (step, value) in steps {
                time += step;
                all.push((time, value));
                let within = all.iter().filter(|(at, _)| at + window > time);
                let largest = within.map(|(_, value)| *value).max().unwrap();
                prop_assert_eq!(filter.update(time, value, window), largest);
                prop_assert!(filter.values.len() as u64 <= window);
            }
        }
    }
}
