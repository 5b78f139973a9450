//! `cargo xtask ci`: every check that a change must pass. `.ci/run` runs exactly this. `cargo xtask ci STEP...` runs some of them.
//!
//! Cheap steps come first, so that a simple mistake fails within seconds. A failed step ends the run. What waits runs beside what
//! computes: the programs of the interoperability tests and cargo-deny are downloaded and installed from the start on, the soak and
//! the guide run beside the tests. The output of each is printed in one piece.

use std::cell::RefCell;
use std::fs::File;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};

use crate::shell::{capture, cargo, check, root, target};
use crate::{cites, suite, tidy, typos};

/// The scenarios of the soak: always these. CI thus stays deterministic; `soak` without `--from` tries new seeds.
const SOAK_FROM: u64 = 1;
const SOAK_SEEDS: u64 = 50_000;

/// One check.
type Step<'a> = &'a dyn Fn() -> Result<()>;

/// Runs every step, or those with the given names.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let asked = |name: &str| args.is_empty() || args.iter().any(|arg| arg == name);
    let begin = |command| Beside::begin(command, asked(command));
    let (deny, peers) = (begin("deny")?, begin("peers")?);
    let steps: [(&str, Step<'_>); 11] = [
        ("toolchain", &components),
        ("fmt", &|| check(cargo().args(["fmt", "--all", "--check"]))),
        ("tidy", &|| tidy::run(&[])),
        ("typos", &|| typos::run(&[])),
        ("cites", &|| cites::run(&[])),
        ("clippy", &|| {
            check(cargo().args(["clippy", "--workspace", "--all-targets", "--", "-D", "warnings"]))
        }),
        ("doc", &|| {
            check(
                // With examples the crates have the features that the other steps check them with.
                cargo()
                    .args(["doc", "--workspace", "--no-deps", "--document-private-items"])
                    .args(["--lib", "--bins", "--examples"])
                    .env("RUSTDOCFLAGS", "-D warnings"),
            )
        }),
        ("fuzz", &fuzz_targets),
        ("deny", &|| deny.end()),
        ("peers", &|| peers.end()),
        // With the guide.
        ("test", &|| suite::whole(vec![soak()])),
    ];
    if let Some(arg) = args.iter().find(|arg| !steps.iter().any(|(name, _)| name == arg)) {
        bail!("there is no step `{arg}`; the steps are {}", steps.map(|(name, _)| name).join(", "));
    }
    let start = Instant::now();
    let mut times: Vec<(&str, Duration)> = Vec::new();
    for (name, step) in steps.into_iter().filter(|(name, _)| asked(name)) {
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

/// A command of this program that runs beside the steps.
struct Beside {
    command: &'static str,
    child: RefCell<Option<Child>>,
}

impl Beside {
    /// Starts the command if it is asked for.
    fn begin(command: &'static str, is_asked: bool) -> Result<Self> {
        let beside = Self { command, child: RefCell::default() };
        if is_asked {
            std::fs::create_dir_all(root().join("target"))?;
            let log = beside.log();
            let log = File::create(&log).with_context(|| format!("cannot create {}", log.display()))?;
            let mut started = Command::new(std::env::current_exe().context("this program has no path")?);
            started.arg(command).stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
            let child = started.spawn().with_context(|| format!("cannot start `cargo xtask {command}`"))?;
            beside.child.replace(Some(child));
        }
        Ok(beside)
    }

    /// The file of its output.
    fn log(&self) -> PathBuf {
        root().join("target").join(format!("{}.log", self.command))
    }

    /// Waits for the end, and prints the output.
    fn end(&self) -> Result<()> {
        let Some(mut child) = self.child.take() else { return Ok(()) };
        let status = child.wait()?;
        eprint!("{}", String::from_utf8_lossy(&std::fs::read(self.log())?));
        if !status.success() {
            bail!("`cargo xtask {}` failed ({status})", self.command);
        }
        Ok(())
    }
}

impl Drop for Beside {
    fn drop(&mut self) {
        // A package manager is not left running, nor interrupted.
        if let Some(child) = self.child.get_mut() {
            let _ = child.wait();
        }
    }
}

/// rustfmt and clippy are not part of a minimal toolchain: installs them with rustup if they are missing.
fn components() -> Result<()> {
    for (name, probe) in [("rustfmt", "fmt"), ("clippy", "clippy")] {
        if capture(cargo().args([probe, "--version"])).is_ok() {
            continue;
        }
        check(Command::new("rustup").args(["component", "add", name]))
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

/// The soak of the simulator. Its program is built with the tests: optimised as the core is, and with every check.
fn soak() -> suite::Binary {
    let args = ["--from", &SOAK_FROM.to_string(), "--seeds", &SOAK_SEEDS.to_string()].map(str::to_owned);
    suite::Binary {
        name: "soak".to_owned(),
        folder: root(),
        executable: target().join("debug/soak"),
        args: args.into(),
        yields: true,
    }
}
