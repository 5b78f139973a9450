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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_median_is_the_middle() {
        assert_eq!(median(vec![3.0, 1.0, 2.0]), 2.0);
        assert_eq!(median(vec![4.0, 1.0, 2.0, 3.0]), 2.5);
        assert!(median(Vec::new()).is_nan());
    }
}
