//! `cargo xtask bench NAME`: benchmarks against other implementations, in the same run, so that the ratios
//! are meaningful on any machine.

mod core;
mod emulated;
mod files;
mod flow;
mod idle;
mod link;
mod links;
mod loopback;
mod multipath;
mod quantiles;
mod servers;
mod sim;
mod tails;
mod worlds;

use std::f64::consts::LN_2;
use std::path::PathBuf;

use anyhow::{Result, bail};

use crate::shell::{cargo, check, target};

/// Runs the benchmark that `args` names.
pub(crate) fn run(args: &[String]) -> Result<()> {
    match args.split_first() {
        Some((name, rest)) if name == "core" => core::run(rest),
        Some((name, rest)) if name == "files" => files::run(rest),
        Some((name, rest)) if name == "idle" => idle::run(rest),
        Some((name, rest)) if name == "links" => links::run(rest),
        Some((name, rest)) if name == "loopback" => loopback::run(rest),
        Some((name, rest)) if name == "multipath" => multipath::run(rest),
        Some((name, rest)) if name == "sim" => sim::run(rest),
        Some((name, rest)) if name == "tails" => tails::run(rest),
        Some((name, rest)) if name == "worlds" => worlds::run(rest),
        Some((name, _)) => {
            bail!(
                "there is no benchmark `{name}`; there are: core, files, idle, links, loopback, multipath, sim, tails, worlds"
            )
        }
        None => {
            bail!(
                "usage: cargo xtask bench core|files|idle|links|loopback|multipath|sim|tails|worlds [--rounds N] [--quick]"
            )
        }
    }
}

/// A file system in memory, if there is one, so that the disk does not affect the measurement.
fn in_memory() -> Option<PathBuf> {
    Some(PathBuf::from("/dev/shm")).filter(|folder| folder.is_dir())
}

/// The folder of the programs `braidftp` and `braidlab`: the given one, or that of a release build.
fn released(programs: Option<PathBuf>) -> Result<PathBuf> {
    if let Some(folder) = programs {
        return Ok(std::path::absolute(folder)?);
    }
    check(cargo().args(["build", "--release", "--package", "braidftp", "--package", "braidftp-lab"]))?;
    Ok(target().join("release"))
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    let middle = values.len() / 2;
    match values.len() {
        0 => f64::NAN,
        odd if odd % 2 == 1 => values[middle],
        _ => (values[middle - 1] + values[middle]) / 2.0,
    }
}

/// The interval of the median of the distribution that the values are drawn from: the values of a rank from below and from above
/// between which it lies with this probability, whatever the distribution. `None` for too few values.
fn median_interval(mut values: Vec<f64>, confidence: f64) -> Option<[f64; 2]> {
    values.sort_by(f64::total_cmp);
    let count = values.len();
    // The logarithm of the probability that exactly `below` values are below the median, and the sum of those so far.
    let (mut exactly, mut outside, mut rank) = (-(count as f64) * LN_2, 0.0, 0);
    for below in 0..count {
        outside += 2.0 * exactly.exp();
        if outside > 1.0 - confidence {
            break;
        }
        rank = below + 1;
        exactly += ((count - below) as f64 / rank as f64).ln();
    }
    Some([*values.get(rank.checked_sub(1)?)?, values[count - rank]])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_interval_of_a_median_is_that_of_the_sign_test() {
        let of =
            |count: u32, confidence| median_interval((1..=count).rev().map(f64::from).collect(), confidence);
        // Confidences of .9980, .9996, .9978 and .9989.
        assert_eq!([of(0, 0.9975), of(9, 0.9975)], [None; 2]);
        assert_eq!(of(10, 0.9975), Some([1.0, 10.0]));
        assert_eq!(of(20, 0.9975), Some([3.0, 18.0]));
        assert_eq!(of(40, 0.9975), Some([11.0, 30.0]));
        assert_eq!(of(60, 0.9975), Some([18.0, 43.0]));
        // 1,000 ± 36.8 ranks.
        assert_eq!(of(2_000, 0.9), Some([963.0, 1_038.0]));
    }

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
