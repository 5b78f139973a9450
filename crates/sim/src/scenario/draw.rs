//! Random draws for scenarios, from independent streams; see [`Random`].

use std::time::Duration;

use crate::random::{Probability, Random};

/// The base of the stream numbers of scenarios; those of links are numbered from 0.
const RANDOM_STREAM: u64 = 1 << 48;

/// A stream of draws.
pub(super) struct Draw(Random);

impl Draw {
    /// The draws of this name, independent of those of other names.
    pub(super) fn new(seed: u64, name: &str) -> Self {
        // FNV-1a
        let step = |hash: u64, byte: u8| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        let hash = name.bytes().fold(0xcbf2_9ce4_8422_2325, step);
        Self(Random::new(seed, RANDOM_STREAM | hash >> 16))
    }

    pub(super) fn up_to(&mut self, most: u64) -> u64 {
        self.0.below(most + 1)
    }

    pub(super) fn between(&mut self, least: u64, most: u64) -> u64 {
        least + self.up_to(most - least)
    }

    /// Draws so that each order of magnitude is equally likely.
    pub(super) fn scale(&mut self, least: u64, most: u64) -> u64 {
        let doublings = (most / least).ilog2();
        let low = least << self.up_to(doublings.into());
        self.between(low, (low * 2).min(most))
    }

    pub(super) fn one_in(&mut self, count: u64) -> bool {
        self.0.below(count) == 0
    }

    pub(super) fn pick<T: Clone>(&mut self, from: &[T]) -> T {
        from[self.0.below(from.len() as u64) as usize].clone()
    }

    pub(super) fn duration(&mut self, least_ms: u64, most_ms: u64) -> Duration {
        Duration::from_millis(self.between(least_ms, most_ms))
    }

    pub(super) fn percent(&mut self, most: u64) -> Probability {
        Probability::new(self.up_to(most * 10) as f64 / 1_000.0).expect("at most 100 %")
    }

    pub(super) fn seed(&mut self) -> [u8; 32] {
        self.0.seed()
    }
}
