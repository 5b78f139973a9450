//! Runs the test binaries of the workspace, as many concurrently as keep the processors busy, and beside them what
//! else proves something with the same programs: documentation tests, the pages of the guide, the soak.
//!
//! `cargo test` runs one binary after another. Many of ours mostly wait for servers, links and time-outs, so
//! that a processor is idle ([`schedule`]). The longest of the last run start first ([`times`]), so that no
//! long one runs alone at the end. The soak takes what all others leave. The output of a binary is written to
//! `target/test-output/CRATE-TEST.log`, and printed when the binary has ended.

mod schedule;
mod times;

use std::fs::File;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use self::schedule::Schedule;
use self::times::Times;
use crate::shell::{capture, cargo, root};

/// The number of slowest binaries listed at the end.
const SLOWEST: usize = 5;

/// A test binary that cargo built, or another program that tests.
#[derive(Debug, Default, PartialEq)]
pub(crate) struct Binary {
    /// The crate's folder and the target's name, as in `net loopback`.
    pub(crate) name: String,
    /// The folder of the crate, where its tests expect to run.
    pub(crate) folder: PathBuf,
    pub(crate) executable: PathBuf,
    pub(crate) args: Vec<String>,
    /// Whether it runs with the lowest priority.
    pub(crate) yields: bool,
}

/// How a binary ended.
struct Ended {
    name: String,
    passed: bool,
    time: Duration,
}

/// A line of `cargo test --no-run --message-format=json`, with the fields used here.
#[derive(Deserialize)]
struct Message {
    reason: String,
    executable: Option<PathBuf>,
    manifest_path: Option<PathBuf>,
    profile: Option<Profile>,
    target: Option<Target>,
}

#[derive(Deserialize)]
struct Profile {
    test: bool,
}

#[derive(Deserialize)]
struct Target {
    name: String,
}

/// Builds all tests of the workspace and runs them with additional environment variables, together with the
/// documentation tests and `others`. Those of `others` that yield run beside all the rest. The error names every
/// binary that failed.
pub(super) fn run(environment: &[(&str, &Path)], others: Vec<Binary>) -> Result<()> {
    let build = ["test", "--workspace", "--no-run", "--message-format=json-render-diagnostics"];
    let messages = capture(cargo().args(build))?;
    let mut binaries = binaries(&String::from_utf8_lossy(&messages))?;
    binaries.push(documentation());
    let (beside, others): (Vec<Binary>, Vec<Binary>) = others.into_iter().partition(|other| other.yields);
    binaries.extend(others);
    let mut times = Times::load();
    times.sort(&mut binaries);
    let run = |binary: Binary| binary.run(environment);
    let mut ended = std::thread::scope(|scope| {
        let beside: Vec<_> = beside.into_iter().map(|binary| scope.spawn(move || run(binary))).collect();
        let mut ended = Schedule::of(binaries).run(run);
        ended.extend(
            beside.into_iter().map(|thread| thread.join().expect("a binary's thread does not panic")),
        );
        ended
    });
    times.keep(&ended);
    ended.sort_by_key(|binary| std::cmp::Reverse(binary.time));
    for Ended { name, time, .. } in ended.iter().take(SLOWEST) {
        println!("test: {name:<28} {:>7.1} s", time.as_secs_f64());
    }
    let failed: Vec<&str> =
        ended.iter().filter(|binary| !binary.passed).map(|binary| binary.name.as_str()).collect();
    if !failed.is_empty() {
        bail!("{} of {} test binaries failed: {}", failed.len(), ended.len(), failed.join(", "));
    }
    Ok(())
}

/// The documentation tests of all crates, which cargo builds and runs.
fn documentation() -> Binary {
    Binary {
        name: "documentation".to_owned(),
        folder: root(),
        executable: cargo().get_program().into(),
        args: ["test", "--workspace", "--doc"].map(str::to_owned).into(),
        yields: false,
    }
}

/// The test binaries in cargo's messages.
fn binaries(messages: &str) -> Result<Vec<Binary>> {
    let mut binaries = Vec::new();
    for line in messages.lines().filter(|line| line.starts_with('{')) {
        let message: Message = serde_json::from_str(line)
            .with_context(|| format!("cargo's message is not understood: {line}"))?;
        let Message { reason, executable: Some(executable), manifest_path, profile, target } = message else {
            continue;
        };
        if reason != "compiler-artifact" || !profile.is_some_and(|profile| profile.test) {
            continue;
        }
        let folder =
            manifest_path.as_deref().and_then(Path::parent).context("a test binary without a crate")?;
        let package = folder.file_name().unwrap_or_default().to_string_lossy();
        let name = format!("{package} {}", target.map(|target| target.name).unwrap_or_default());
        binaries.push(Binary { name, folder: folder.to_owned(), executable, ..Binary::default() });
    }
    if binaries.is_empty() {
        bail!("cargo built no test");
    }
    Ok(binaries)
}

impl Binary {
    /// Runs the binary and prints its output.
    fn run(&self, environment: &[(&str, &Path)]) -> Ended {
        eprintln!("test: {}", self.name);
        let start = Instant::now();
        let (passed, output) = match self.output(environment) {
            Ok(result) => result,
            Err(error) => (false, format!("{error:#}\n")),
        };
        print!("     Running {} ({})\n{output}", self.name, self.executable.display());
        Ended { name: self.name.clone(), passed, time: start.elapsed() }
    }

    /// Runs the binary; returns whether the tests passed, and their output.
    fn output(&self, environment: &[(&str, &Path)]) -> Result<(bool, String)> {
        let path = root().join("target/test-output").join(format!("{}.log", self.name.replace(' ', "-")));
        std::fs::create_dir_all(path.parent().context("a path with a folder")?)?;
        // Not a pipe: a server left behind by a failed test would keep it open for ever.
        let log = File::create(&path).with_context(|| format!("cannot create {}", path.display()))?;
        let mut command = match self.yields {
            true => Command::new("nice"),
            false => Command::new(&self.executable),
        };
        if self.yields {
            command.args(["-n", "19"]).arg(&self.executable);
        }
        command.args(&self.args).current_dir(&self.folder).env("CARGO_MANIFEST_DIR", &self.folder);
        command.env("CARGO", cargo().get_program()).envs(environment.iter().copied());
        command.stdin(Stdio::null()).stdout(log.try_clone()?).stderr(log);
        let status = command.status().with_context(|| format!("cannot run {}", self.executable.display()))?;
        Ok((status.success(), String::from_utf8_lossy(&std::fs::read(&path)?).into_owned()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_test_binaries_are_run() {
        let messages = concat!(
            r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/net/Cargo.toml","target":{"name":"loopback"},"#,
            r#""profile":{"test":true},"executable":"/r/target/debug/deps/loopback-1"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/lab/Cargo.toml","target":{"name":"braidlab"},"#,
            r#""profile":{"test":false},"executable":"/r/target/debug/braidlab"}"#,
            "\n",
            r#"{"reason":"compiler-artifact","manifest_path":"/r/crates/base/Cargo.toml","target":{"name":"base"},"#,
            r#""profile":{"test":true},"executable":null}"#,
            "\n",
            r#"{"reason":"build-finished","success":true}"#,
        );
        let found = binaries(messages).expect("the messages are cargo's");
        let expected = Binary {
            name: "net loopback".to_owned(),
            folder: "/r/crates/net".into(),
            executable: "/r/target/debug/deps/loopback-1".into(),
            ..Binary::default()
        };
        assert_eq!(found, [expected]);
    }

    #[test]
    fn no_test_at_all_is_an_error() {
        assert!(binaries("").is_err());
    }

    #[test]
    fn a_binary_that_does_not_run_has_failed() {
        let binary = Binary {
            name: "suite ls".to_owned(),
            folder: "/".into(),
            executable: "/bin/ls".into(),
            ..Binary::default()
        };
        let (passed, output) =
            binary.output(&[("LS_COLORS", Path::new(""))]).expect("ls is on every machine");
        assert!(passed && output.contains("tmp"), "{output}");
        let missing = Binary { executable: "/nowhere/test".into(), ..binary };
        assert!(!missing.run(&[]).passed);
    }
}
