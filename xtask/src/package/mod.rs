//! `cargo xtask package`: the distributed packages, in `target/package`: Debian packages, a static program
//! with the contents of a container image, a bill of materials. `cargo xtask test deb|static|publish` tests
//! them.

mod deb;
mod image;
mod publish;
mod sbom;

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::publish::test as test_publish;
use crate::sandbox;
use crate::shell::{cargo, check, root, target};

/// The folder of packages and their parts.
const FOLDER: &str = "target/package";

/// How programs are compiled.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Profile {
    Debug,
    Release,
}

/// Builds what `args` select: `deb`, `static`, `sbom`; by default all of them.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (names, profile) = parse(args, Profile::Release);
    let all = ["deb", "static", "sbom"];
    if let Some(name) = names.iter().find(|name| !all.contains(name)) {
        bail!("there is no package `{name}`: cargo xtask package [deb] [static] [sbom] [--debug]");
    }
    for name in all.iter().filter(|name| names.is_empty() || names.contains(name)) {
        match *name {
            "deb" => deb::build(profile).map(drop),
            "static" => image::build(profile).map(drop),
            _ => sbom::run(),
        }?;
    }
    Ok(())
}

/// Installs, runs, removes and purges the Debian packages in a copy of this machine's file system. They are
/// debug builds unless `--release` is given.
pub(crate) fn test_deb(args: &[String]) -> Result<()> {
    test(args, "deb", |profile| Ok(deb::build(profile)?.to_vec()))
}

/// Runs the static program and the container image in an otherwise empty file system.
pub(crate) fn test_static(args: &[String]) -> Result<()> {
    test(args, "image", |profile| Ok(vec![image::build(profile)?]))
}

/// Builds a package and runs `packaging/test-NAME.sh` with its paths, in new namespaces.
fn test(args: &[String], name: &str, build: fn(Profile) -> Result<Vec<PathBuf>>) -> Result<()> {
    let (names, profile) = parse(args, Profile::Debug);
    if let Some(name) = names.first() {
        bail!("`{name}` is not understood; the only option is --release");
    }
    if !sandbox::is_available("the tests of packages")? {
        return Ok(());
    }
    let built = build(profile)?;
    check(sandbox::command("bash").arg(format!("packaging/test-{name}.sh")).args(built))
}

/// The arguments that are not options, and the profile.
fn parse(args: &[String], usual: Profile) -> (Vec<&str>, Profile) {
    let mut profile = usual;
    let mut names = Vec::new();
    for arg in args {
        match arg.as_str() {
            "--debug" => profile = Profile::Debug,
            "--release" => profile = Profile::Release,
            name => names.push(name),
        }
    }
    (names, profile)
}

/// Builds programs; returns their folder.
///
/// With `RUSTFLAGS` they are compiled for an explicit target, so that the flags do not apply to build scripts
/// and macros.
fn programs(packages: &[&str], profile: Profile, static_for: Option<&str>) -> Result<PathBuf> {
    let mut command = cargo();
    command.args(["build", "--locked", "--bins"]);
    command.args(packages.iter().flat_map(|package| ["--package", package]));
    let mut folder = target();
    if let Some(target) = static_for {
        command.args(["--target", target]).env("RUSTFLAGS", "-C target-feature=+crt-static");
        folder.push(target);
    }
    folder.push(match profile {
        Profile::Debug => "debug",
        Profile::Release => {
            command.arg("--release");
            "release"
        }
    });
    check(&mut command)?;
    Ok(folder)
}

/// Copies a program without debug information; function names, which a backtrace shows, are kept.
fn strip(from: &Path, to: &Path) -> Result<()> {
    std::fs::create_dir_all(to.parent().context("a program has a folder")?)?;
    check(Command::new("strip").arg("--strip-debug").arg("-o").arg(to).arg(from))
}

/// An empty folder below [`FOLDER`].
fn empty(name: &str) -> Result<PathBuf> {
    let folder = root().join(FOLDER).join(name);
    let _ = std::fs::remove_dir_all(&folder);
    std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}
