//! Runs other programs, with error messages that name them.

use std::path::PathBuf;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};

/// The root of the repository: the folder of the workspace's `Cargo.toml`.
pub(crate) fn root() -> PathBuf {
    // CARGO_MANIFEST_DIR is read at run time, so that an old binary in a moved or copied checkout still finds
    // it.
    let here = std::env::var_os("CARGO_MANIFEST_DIR")
        .map_or_else(|| env!("CARGO_MANIFEST_DIR").into(), PathBuf::from);
    here.parent().map_or(here.clone(), PathBuf::from)
}

/// The folder in which cargo builds: that of `CARGO_TARGET_DIR`, else `target` at the root.
pub(crate) fn target() -> PathBuf {
    target_by(std::env::var_os("CARGO_TARGET_DIR"))
}

fn target_by(set: Option<std::ffi::OsString>) -> PathBuf {
    let set = set.filter(|folder| !folder.is_empty()).map(PathBuf::from);
    let folder = set.unwrap_or_else(|| root().join("target"));
    // The programs in it also run in other folders.
    std::path::absolute(&folder).unwrap_or(folder)
}

/// The `cargo` that runs this program. What it builds keeps no state for incremental compilation: three times the disk space of
/// the rest after some weeks, and a build from nothing is quicker without it.
pub(crate) fn cargo() -> Command {
    let mut cargo = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
    cargo.env("CARGO_INCREMENTAL", "0");
    cargo
}

/// Runs a program with inherited output and empty stdin; an exit code other than 0 is an error.
pub(crate) fn check(command: &mut Command) -> Result<()> {
    let shown = show(command);
    eprintln!("$ {shown}");
    let status = command.stdin(Stdio::null()).status().with_context(|| format!("cannot run `{shown}`"))?;
    if !status.success() {
        bail!("`{shown}` failed ({status})");
    }
    Ok(())
}

/// Runs a program and returns its standard output.
pub(crate) fn capture(command: &mut Command) -> Result<Vec<u8>> {
    let shown = show(command);
    let output = command
        .stdin(Stdio::null())
        .stderr(Stdio::inherit())
        .output()
        .with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({})", output.status);
    }
    Ok(output.stdout)
}

/// Runs a program and discards its output unless it fails.
pub(crate) fn quietly(command: &mut Command) -> Result<()> {
    let shown = show(command);
    let output = command.stdin(Stdio::null()).output().with_context(|| format!("cannot run `{shown}`"))?;
    if !output.status.success() {
        bail!("`{shown}` failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr).trim());
    }
    Ok(())
}

/// Whether a program of this name is on the PATH.
pub(crate) fn on_path(program: &str) -> bool {
    let Some(path) = std::env::var_os("PATH") else { return false };
    std::env::split_paths(&path).any(|dir| dir.join(program).is_file())
}

/// Formats a command as typed in a shell.
fn show(command: &Command) -> String {
    let words = std::iter::once(command.get_program()).chain(command.get_args());
    words.map(|word| word.to_string_lossy().into_owned()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_folder_of_builds_is_the_one_that_cargo_is_given() {
        assert_eq!(target_by(Some("/somewhere/else".into())), PathBuf::from("/somewhere/else"));
        assert!(target_by(Some("beside".into())).is_absolute());
        for unset in [None, Some("".into())] {
            assert_eq!(target_by(unset), root().join("target"));
        }
    }
}
