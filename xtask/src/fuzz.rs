//! `cargo xtask fuzz TARGET [--minutes N]`: one fuzz target for a while, by cargo-fuzz, beginning from the corpus in
//! `fuzz/corpus`. No part of CI.
//!
//! On a fresh machine it installs what it needs: the nightly compiler, and cargo-fuzz.

use anyhow::{Context, Result, bail};

use crate::shell::{capture, check, on_path};

const USAGE: &str = "\
usage: cargo xtask fuzz TARGET [--minutes N]   fuzz for so many minutes [default: 1]
       cargo xtask fuzz seeds                  write packets of simulated hosts to the corpora, to begin with
       cargo xtask fuzz shrink                 keep what is needed of the corpora, and small";

/// Seeds of the soak that together have packets of every kind.
const SEEDS: &[&str] = &["3", "17", "29", "31", "43", "57", "77", "90", "101", "116", "169"];
/// The corpora that are packets.
const OF_PACKETS: &[&str] = &["decode", "roundtrip"];

/// Run what `args` names.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let words: Vec<&str> = args.iter().map(String::as_str).collect();
    match words[..] {
        ["seeds"] => seeds(),
        ["shrink"] => {
            targets().iter().try_for_each(|target| cargo_fuzz(&["cmin", "--sanitizer", "none", target]))
        }
        [target] => fuzz(target, 1),
        [target, "--minutes", minutes] => {
            fuzz(target, minutes.parse().with_context(|| format!("`{minutes}` is not a number of minutes"))?)
        }
        _ => bail!("{USAGE}\nthe targets are {}", targets().join(", ")),
    }
}

fn fuzz(target: &str, minutes: u64) -> Result<()> {
    if !targets().iter().any(|known| known == target) {
        bail!("there is no fuzz target `{target}`; the targets are {}", targets().join(", "));
    }
    // There is no unsafe code in these crates for a sanitizer to watch, and without one several times as many inputs
    // are tried; debug assertions and overflow checks are on. How long a try takes is read off the clock on the
    // wall: on a machine with much else to do, tries of a tenth of a second of work have taken 24 s.
    let limit = format!("-max_total_time={}", minutes * 60);
    cargo_fuzz(&[
        "run",
        "--sanitizer",
        "none",
        target,
        "--",
        &limit,
        "-max_len=4096",
        "-timeout=300",
        "-rss_limit_mb=2048",
    ])
}

fn seeds() -> Result<()> {
    for target in OF_PACKETS {
        for seed in SEEDS {
            check(
                crate::shell::cargo()
                    .args(["run", "--release", "--package", "braidftp-sim", "--bin", "soak", "--"])
                    .args(["--seed", seed, "--samples", &format!("fuzz/corpus/{target}")])
                    .stdout(std::process::Stdio::null()),
            )?;
        }
    }
    Ok(())
}

fn cargo_fuzz(args: &[&str]) -> Result<()> {
    install()?;
    // By the name `cargo`, so that rustup's proxy reads `+nightly`.
    check(std::process::Command::new("cargo").args(["+nightly", "fuzz"]).args(args))
}

fn install() -> Result<()> {
    if capture(std::process::Command::new("cargo").args(["+nightly", "--version"])).is_err() {
        check(std::process::Command::new("rustup").args([
            "toolchain",
            "install",
            "nightly",
            "--profile",
            "minimal",
        ]))
        .context("the nightly compiler is missing, and rustup could not install it: see https://rustup.rs")?;
    }
    if !on_path("cargo-fuzz") {
        check(std::process::Command::new("cargo").args(["install", "--locked", "cargo-fuzz"])).context(
            "cargo-fuzz is missing, and could not be installed: it needs a C++ compiler and crates.io",
        )?;
    }
    Ok(())
}

/// The names of the targets.
fn targets() -> Vec<String> {
    let mut names: Vec<String> = std::fs::read_dir("fuzz/fuzz_targets")
        .into_iter()
        .flatten()
        .flatten()
        .filter_map(|entry| Some(entry.path().file_stem()?.to_str()?.to_owned()))
        .collect();
    names.sort();
    names
}
