//! `cargo xtask check`: format, rules, spelling, lints, and tests of the crates that a change touches. `ci`
//! checks everything.
//!
//! A change is the difference from the upstream branch: commits, the working tree, and untracked files. The spelling of
//! changed files is checked. For a changed crate the unit tests run, and those integration tests whose own files changed.

use std::collections::BTreeSet;
use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::{capture, check, root};
use crate::{shell, suite, tidy, typos};

/// Checks the change.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if let Some(arg) = args.first() {
        bail!("check takes no arguments, and got `{arg}`");
    }
    check(cargo().args(["fmt", "--all", "--check"]))?;
    tidy::run(&[])?;
    let base = base()?;
    let files = changed(&base)?;
    let there: Vec<String> = files.iter().filter(|file| root().join(file).is_file()).cloned().collect();
    if !there.is_empty() {
        typos::run(&there)?;
    }
    let touched = Touched::of(files.iter().map(String::as_str));
    println!("check: {} files differ from {}; crates: {}", files.len(), &base[..12.min(base.len())], touched);
    if touched.packages.is_empty() {
        return Ok(());
    }
    let packages: Vec<&str> = touched.packages.iter().flat_map(|package| ["--package", package]).collect();
    check(cargo().arg("clippy").args(&packages).args(["--all-targets", "--", "-D", "warnings"]))?;
    // `--lib` is an error if no package has a library.
    let libraries = touched.packages.iter().any(|package| !["xtask", "braidftp-pkt"].contains(package));
    let units: &[&str] = if libraries { &["--lib", "--bins"] } else { &["--bins"] };
    check(cargo().arg("test").args(&packages).args(units))?;
    for (package, test) in &touched.tests {
        check(cargo().args(["test", "--package", package, "--test", test]))?;
    }
    Ok(())
}

/// The `cargo` of somebody who edits, and builds the same crates again and again.
fn cargo() -> Command {
    let mut cargo = shell::cargo();
    cargo.env_remove("CARGO_INCREMENTAL");
    cargo
}

/// The commit from which the change starts: its merge base with the upstream branch or `origin/main`, or the
/// previous commit.
fn base() -> Result<String> {
    for upstream in ["@{upstream}", "origin/main"] {
        let mut git = Command::new("git");
        git.args(["merge-base", "HEAD", upstream]).stderr(std::process::Stdio::null());
        if let Ok(output) = git.output()
            && output.status.success()
        {
            return Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned());
        }
    }
    let before = capture(Command::new("git").args(["rev-parse", "HEAD~1"]))?;
    Ok(String::from_utf8_lossy(&before).trim().to_owned())
}

/// The files that differ from a commit, and the untracked ones.
fn changed(base: &str) -> Result<BTreeSet<String>> {
    let tracked = capture(Command::new("git").args(["diff", "--name-only", base]))?;
    let new = capture(Command::new("git").args(["ls-files", "--others", "--exclude-standard"]))?;
    let text = [tracked, new].concat();
    Ok(String::from_utf8_lossy(&text).lines().map(str::to_owned).collect())
}

/// The parts that a change touches.
#[derive(Debug, Default, PartialEq)]
struct Touched {
    packages: BTreeSet<&'static str>,
    /// The integration tests whose files changed, with their packages.
    tests: BTreeSet<(&'static str, String)>,
}

impl Touched {
    fn of<'a>(files: impl Iterator<Item = &'a str>) -> Self {
        let mut touched = Self::default();
        for file in files {
            let mut parts = file.split('/');
            let name = match parts.next() {
                Some("crates") => parts.next().unwrap_or_default(),
                Some(top) => top,
                None => continue,
            };
            let Some(package) = suite::package(name) else { continue };
            touched.packages.insert(package);
            // A test is a file, or a folder with a `main.rs`.
            if parts.next() == Some("tests")
                && let Some(test) = parts.next()
            {
                let (test, main) = match test.strip_suffix(".rs") {
                    Some(test) => (test, file.to_owned()),
                    None => (test, format!("crates/{name}/tests/{test}/main.rs")),
                };
                if root().join(main).exists() {
                    touched.tests.insert((package, test.to_owned()));
                }
            }
        }
        touched
    }
}

impl std::fmt::Display for Touched {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.packages.is_empty() {
            return f.write_str("none");
        }
        f.write_str(&self.packages.iter().copied().collect::<Vec<_>>().join(", "))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_belongs_to_its_crate_and_a_changed_test_file_runs() {
        let files = ["crates/sctp/src/lib.rs", "README.md", "xtask/src/main.rs", "docs/auto.md"];
        assert_eq!(Touched::of(files.into_iter()).to_string(), "braidftp-sctp, xtask");
        assert_eq!(Touched::of(["STYLE.md"].into_iter()).to_string(), "none");
        let tests = ["sctp/tests/gone.rs", "braidftp/tests/client_support/mod.rs"];
        let touched = |tests: &[&str]| {
            let files: Vec<String> = tests.iter().map(|test| format!("crates/{test}")).collect();
            Touched::of(files.iter().map(String::as_str)).tests
        };
        assert_eq!(touched(&tests), BTreeSet::new());
        let tests =
            ["sctp/tests/traps.rs", "braidftp/tests/client/plans.rs", "braidftp/tests/client/trees.rs"];
        let expected = [("braidftp", "client".to_owned()), ("braidftp-sctp", "traps".to_owned())];
        assert_eq!(touched(&tests), expected.into());
    }
}
