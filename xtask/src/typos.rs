//! `cargo xtask typos`: the spelling of everything that is tracked, by `typos` with the exceptions in `typos.toml`.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::check;
use crate::tools::TYPOS;

/// Check the spelling, of the whole repository or of the files that are named.
pub(crate) fn run(args: &[String]) -> Result<()> {
    if check(Command::new(TYPOS.ensure()?).args(["--format", "brief"]).args(args)).is_err() {
        bail!(
            "words are misspelt; correct them, or add them to typos.toml with the reason if they are right"
        );
    }
    Ok(())
}
