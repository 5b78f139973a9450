//! Whole gets, by every variant: that they end well, what they say, and what is counted of them.

use super::*;
use crate::dice::Probability;
use crate::link::Loss;

fn lan(loss: f64) -> Vec<[LinkConfig; 2]> {
    let mut link: LinkConfig = "rate=3mbit,delay=1ms,queue=500kB,overhead=20".parse().unwrap();
    if loss > 0.0 {
        link.loss = Loss::Bernoulli(Probability::new(loss).unwrap());
    }
    vec![[link.clone(), link]]
}

fn get(variant: Variant, loss: f64) -> Session {
    Session { variant, paths: lan(loss), files: vec![10_000; 10], ..Session::default() }
}

fn whole(outcome: &Outcome) {
    assert_eq!(outcome.failed, None);
    assert!(outcome.files.iter().all(|file| file.whole && file.done.is_some()));
}

#[test]
fn every_variant_brings_every_file_whole() {
    for variant in Variant::ALL {
        for loss in [0.0, 0.03, 0.1] {
            for seed in 0..5 {
                let outcome =
                    Session { seed, files: vec![0, 1, 10_000, 50_000, 200_001], ..get(*variant, loss) }.run();
                assert_eq!(outcome.failed, None, "{variant} {loss} {seed}");
                whole(&outcome);
            }
        }
    }
}
