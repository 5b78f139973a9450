//! `cargo xtask typos`: the spelling of all tracked files, by `typos` with the exceptions in `typos.toml`.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::check;
use crate::tools::TYPOS;

/// Checks the spelling of the whole repository, or of the given files.
pub(crate) fn run(args: &[String]) -> Result<()> {
    // Also of the given files those are left out that `typos.toml` excludes.
    let options = ["--format", "brief", "--force-exclude"];
    if check(Command::new(TYPOS.ensure()?).args(options).args(args)).is_err() {
        bail!(
            "words are misspelt; correct them, or add them to typos.toml with the reason if they are right"
        );
    }
    Ok(())
}
