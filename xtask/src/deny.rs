//! `cargo xtask deny`: licences, sources and bans of third-party crates, by cargo-deny with `deny.toml`.
//!
//! Advisories are left out, because their database is a git repository, which machines with access to package
//! registries only cannot fetch.

use std::process::Command;

use anyhow::{Result, bail};

use crate::shell::check;
use crate::tools::DENY;

/// Checks the crates of the workspace; arguments select the checks (`advisories`, if the database can be
/// fetched).
pub(crate) fn run(args: &[String]) -> Result<()> {
    let usual = ["bans".to_owned(), "licenses".to_owned(), "sources".to_owned()];
    let checks = if args.is_empty() { &usual } else { args };
    let mut command = Command::new(DENY.ensure()?);
    if check(command.args(["--locked", "check"]).args(checks)).is_err() {
        bail!("a third-party crate breaks a rule of deny.toml");
    }
    Ok(())
}
