//! `cargo xtask ci`: every check that a change must pass. `.ci/run` runs exactly this.
//!
//! Cheap steps come first, so that a simple mistake fails within seconds. A failed step ends the run.

use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell::{capture, cargo, check};
use crate::{cites, deny, guide, suite, tidy, typos};

/// The scenarios of the soak: always these, as many as take about a minute on two processors. CI thus stays
/// deterministic; `soak` without `--from` tries new seeds.
const SOAK_FROM: u64 = 1;
const SOAK_SEEDS: u64 = 50_000;

/// One check.
type Step = fn() -> Result<()>;

/// Runs every step.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("ci takes no arguments, and got `{arg}`");
    }
    let steps: [(&str, Step); 12] = [
        ("toolchain", components),
        ("fmt", || check(cargo().args(["fmt", "--all", "--check"]))),
        ("tidy", || tidy::run(&[])),
        ("typos", || typos::run(&[])),
        ("cites", || cites::run(&[])),
        ("deny", || deny::run(&[])),
        ("clippy", || {
            check(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
        }),
        ("doc", || {
            check(
                cargo()
                    .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )
        }),
        ("fuzz", fuzz_targets),
        ("soak", soak),
        ("test", || suite::run(&[])),
        // Its programs are those that the tests use.
        ("guide", || guide::test(&[])),
    ];
    let start = Instant::now();
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for (name, step) in steps {
        eprintln!("ci: {name}");
        let step_start = Instant::now();
        step().with_context(|| format!("ci: {name} failed"))?;
        times.push((name, step_start.elapsed()));
    }
    for (name, time) in &times {
        println!("ci: {name:<10} ok {:>7.1} s", time.as_secs_f64());
    }
    println!(
        "ci: ok. {} steps passed; 0 failed; finished in {:.1} s",
        times.len(),
        start.elapsed().as_secs_f64()
    );
    Ok(())
}

/// rustfmt and clippy are not part of a minimal toolchain: installs them with rustup if they are missing.
fn components() -> Result<()> {
    for (name, probe) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if capture(cargo().args([probe, "--version"])).is_ok() {
            continue;
        }
        check(std::process::Command::new("rustup").args(["component", "add", name]))
            .with_context(|| format!("{name} is missing, and rustup could not add it"))?;
    }
    Ok(())
}

/// Checks that the fuzz targets, which are not part of the workspace, still compile. Nothing is linked, so
/// libFuzzer is not built.
fn fuzz_targets() -> Result<()> {
    let manifest = ["check", "--locked", "--manifest-path", "fuzz/Cargo.toml", "--target-dir", "target"];
    check(cargo().args(manifest).env("CUSTOM_LIBFUZZER_PATH", "none/libnone.a"))
}

/// Runs about a minute of the simulator's soak.
fn soak() -> Result<()> {
    if !std::path::Path::new("crates/sim/src/bin/soak.rs").exists() {
        eprintln!("NOTICE: this tree has no soak (crates/sim/src/bin/soak.rs); left out");
        return Ok(());
    }
    check(cargo().args(["run", "--release", "--package", "braidftp-sim", "--bin", "soak", "--"]).args([
        "--from",
        &SOAK_FROM.to_string(),
        "--seeds",
        &SOAK_SEEDS.to_string(),
    ]))
}
