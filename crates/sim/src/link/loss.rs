//! Loss models of a link.

use crate::random::{Probability, Random};

/// Which packets a link loses.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Loss {
    /// None.
    #[default]
    None,
    /// Each with this probability, independently.
    Bernoulli(Probability),
    /// In bursts.
    GilbertElliott(GilbertElliott),
    /// The packets with these numbers, counted from 0 in the order of arrival; sorted.
    Script(Vec<u64>),
}

/// The two-state model of Gilbert (1960) and Elliott (1963). It starts in the good state; each packet may
/// first change the state, and is then lost with the probability of the state.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct GilbertElliott {
    /// p: from good to bad.
    pub to_bad: Probability,
    /// r: from bad to good. A burst is 1/r packets long on average.
    pub to_good: Probability,
    /// k: the probability that a packet passes in the good state.
    pub pass_good: Probability,
    /// h: the probability that a packet passes in the bad state.
    pub pass_bad: Probability,
}

/// The state of a loss model.
#[derive(Debug)]
pub(super) struct Losses {
    model: Loss,
    random: Random,
    in_bad_state: bool,
    /// The number of packets so far.
    seen: u64,
}

impl Losses {
    pub(super) fn new(model: Loss, random: Random) -> Self {
        Self { model, random, in_bad_state: false, seen: 0 }
    }

    pub(super) fn set_model(&mut self, model: Loss) {
        self.model = model;
        self.in_bad_state = false;
    }

    /// Whether the next packet is lost.
    pub(super) fn next_is_lost(&mut self) -> bool {
        let number = self.seen;
        self.seen += 1;
        match &self.model {
            Loss::None => false,
            Loss::Bernoulli(probability) => self.random.hits(*probability),
            Loss::GilbertElliott(model) => {
                let change = if self.in_bad_state { model.to_good } else { model.to_bad };
                self.in_bad_state ^= self.random.hits(change);
                let pass = if self.in_bad_state { model.pass_bad } else { model.pass_good };
                self.random.hits(pass.complement())
            }
            Loss::Script(numbers) => numbers.binary_search(&number).is_ok(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fates(model: Loss, count: usize) -> Vec<bool> {
        let mut losses = Losses::new(model, Random::new(5, 0));
        (0..count).map(|_| losses.next_is_lost()).collect()
    }

    fn p(value: f64) -> Probability {
        Probability::new(value).unwrap()
    }

    #[test]
    fn a_script_loses_the_named_packets() {
        assert_eq!(fates(Loss::Script(vec![0, 2]), 4), [true, false, true, false]);
    }

    #[test]
    fn a_higher_rate_loses_all_that_a_lower_one_loses_under_the_same_seed() {
        let (low, high) = (fates(Loss::Bernoulli(p(0.03)), 10_000), fates(Loss::Bernoulli(p(0.1)), 10_000));
        assert!(low.iter().zip(&high).all(|(low, high)| !low || *high));
        assert!(low.iter().filter(|lost| **lost).count() < high.iter().filter(|lost| **lost).count());
    }

    #[test]
    fn bursts_have_the_mean_length_and_rate_of_the_model() {
        let model = GilbertElliott {
            to_bad: p(0.01),
            to_good: p(0.25),
            pass_good: Probability::ALWAYS,
            pass_bad: Probability::NEVER,
        };
        let fates = fates(Loss::GilbertElliott(model), 200_000);
        let lost = fates.iter().filter(|lost| **lost).count();
        let bursts = fates.windows(2).filter(|pair| !pair[0] && pair[1]).count();
        // p/(p+r) = 3.85 % are lost, in bursts of 1/r = 4.
        assert!((7_000..8_400).contains(&lost), "{lost}");
        assert!((38..=42).contains(&(lost * 10 / bursts)), "{lost} in {bursts} bursts");
    }
}
