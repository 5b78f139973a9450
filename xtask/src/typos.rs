//! `cargo xtask typos`: the spelling of everything that is tracked, by `typos` with the exceptions in `typos.toml`.
//!
//! The program is installed from crates.io into `target/tools` when it is missing there.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{capture, cargo, check};

/// A fixed version: a newer dictionary must not fail a change that did not touch a word.
const VERSION: &str = "1.52.0";
const FOLDER: &str = "target/tools";

/// Check the spelling, of the whole repository or of the files that are named.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let program = Path::new(FOLDER).join("bin/typos");
    if !is_installed(&program) {
        let install = ["install", "typos-cli", "--version", VERSION, "--locked", "--debug", "--root", FOLDER];
        check(cargo().args(install).env("CARGO_TARGET_DIR", "target/tools/build"))
            .context("cannot install typos, the spelling checker, from crates.io")?;
        // Only the program is wanted.
        let _ = std::fs::remove_dir_all("target/tools/build");
    }
    if check(Command::new(&program).args(["--format", "brief"]).args(args)).is_err() {
        bail!(
            "words are misspelt; correct them, or add them to typos.toml with the reason if they are right"
        );
    }
    Ok(())
}

fn is_installed(program: &Path) -> bool {
    program.exists()
        && capture(Command::new(program).arg("--version"))
            .is_ok_and(|said| String::from_utf8_lossy(&said).trim().ends_with(VERSION))
}
