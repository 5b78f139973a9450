//! Debian packages, by cargo-deb: `braidftp` (client, server, unit, user, settings, man pages, completions)
//! and `braidlab`.
//!
//! Their contents are defined in `[package.metadata.deb]` of `crates/braidftp/Cargo.toml` and
//! `crates/lab/Cargo.toml`, and in `packaging`.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result};

use super::{FOLDER, Profile, empty, programs, strip};
use crate::shell::{capture, check, root};
use crate::tools::DEB;

/// Builds both packages.
pub(super) fn build(profile: Profile) -> Result<[PathBuf; 2]> {
    let folder = programs(&["braidftp", "braidftp-lab"], profile, None)?;
    let parts = empty("deb")?;
    for program in ["braidftp", "braidlab"] {
        strip(&folder.join(program), &parts.join(program))?;
    }
    let braidftp = parts.join("braidftp");
    check(Command::new(&braidftp).arg("man").arg(parts.join("man")))?;
    for shell in ["bash", "zsh", "fish"] {
        let script = capture(Command::new(&braidftp).args(["completions", shell]))?;
        std::fs::write(parts.join(shell), script).context("cannot write completions")?;
    }
    let tool = DEB.ensure()?;
    let package = |krate: &str, name: &str| {
        let output = root().join(FOLDER).join(format!("{name}.deb"));
        let mut deb = Command::new(&tool);
        deb.args(["--quiet", "--no-build", "--no-strip", "--package", krate, "--output"]).arg(&output);
        if profile == Profile::Debug {
            deb.arg("--fast");
        }
        check(&mut deb).map(|()| output)
    };
    Ok([package("braidftp", "braidftp")?, package("braidftp-lab", "braidlab")?])
}
