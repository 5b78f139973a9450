//! `cargo xtask fuzz TARGET [--minutes N]`: runs one fuzz target with cargo-fuzz, starting from the corpus in
//! `fuzz/corpus`. Not part of CI.
//!
//! If missing, the nightly compiler and cargo-fuzz are installed.

use anyhow::{Context, Result, bail};

use crate::shell::{capture, check, on_path};

const USAGE: &str = "\
usage: cargo xtask fuzz TARGET [--minutes N]   fuzz for so many minutes [default: 1]
       cargo xtask fuzz seeds                  write packets of simulated hosts to the corpora, to begin with
       cargo xtask fuzz shrink                 keep what is needed of the corpora, and small";

/// Seeds of the soak whose packets together have every chunk type.
const SEEDS: &[&str] = &["3", "17", "29", "31", "43", "57", "77", "90", "101", "116", "169"];
/// The corpora that consist of packets.
const OF_PACKETS: &[&str] = &["decode", "roundtrip"];

/// Runs the command in `args`.
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
    // Without sanitizer: these crates have no unsafe code, and several times as many inputs are tried. Debug
    // assertions and overflow checks are on. libFuzzer measures the time of an input by the wall clock: on a
    // busy machine inputs with a tenth of a second of work have taken 24 s.
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
    // By the name `cargo`, so that rustup's proxy interprets `+nightly`.
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
