//! `cargo xtask test python` and `cargo xtask test notebooks`: the Python package, from a wheel in a clean environment.
//!
//! The wheel, the environments and all that comes from PyPI are kept in `python` in the folder of builds (`target`, or
//! `CARGO_TARGET_DIR`). Where there is no Python, or PyPI cannot be reached, the tests are left out with a notice.

use std::path::{Path, PathBuf};
use std::process::Command;

use anyhow::{Context, Result, bail};

use crate::shell::{capture, cargo, check, root, target};

/// The tools that build the wheel.
const TOOLS: &[&str] = &["maturin>=1.9.4,<2"];
/// Packages for the tests in addition to the package's own groups `test` and `notebooks`.
const TYPES: &[&str] = &["pandas-stubs"];

/// Runs the tests of the package, and checks its types.
pub(crate) fn tests(args: &[String]) -> Result<()> {
    let Some(python) = environment("test")? else { return Ok(()) };
    check(cargo().args(["build", "--package", "braidftp", "--bin", "braidftp"]))?;
    // Below `python` pytest would use the settings there, and the sources in place of the wheel.
    let sources = root().join("python");
    let mut mypy = Command::new(&python);
    mypy.args(["-m", "mypy", "--config-file"]).arg(sources.join("pyproject.toml"));
    mypy.arg("--cache-dir").arg(home().join("mypy")).arg(sources.join("src/braidftp"));
    check(&mut mypy)?;
    let mut pytest = Command::new(&python);
    pytest.args(["-m", "pytest", "-p", "no:cacheprovider", "python/tests"]).args(args);
    pytest.env("BRAIDFTP_PROGRAM", program()).current_dir(root());
    pytest.env("PYTHONDONTWRITEBYTECODE", "1");
    check(&mut pytest)
}

/// Runs every notebook, from its first cell to its last.
pub(crate) fn notebooks() -> Result<()> {
    let Some(python) = environment("notebooks")? else { return Ok(()) };
    check(cargo().args(["build", "--package", "braidftp", "--bin", "braidftp"]))?;
    let folder = root().join("docs/notebooks");
    let entries = std::fs::read_dir(&folder).with_context(|| format!("cannot read {}", folder.display()))?;
    let mut paths: Vec<PathBuf> = entries.flatten().map(|entry| entry.path()).collect();
    paths.retain(|path| path.extension().is_some_and(|ending| ending == "ipynb"));
    paths.sort();
    if paths.is_empty() {
        bail!("there is no notebook in {}", folder.display());
    }
    for path in paths {
        let mut run = Command::new(&python);
        run.arg(root().join("python/tests/run_notebook.py")).arg(&path);
        run.env("BRAIDFTP_PROGRAM", program());
        check(&mut run)?;
    }
    Ok(())
}

/// The folder of the wheel and of the environments.
fn home() -> PathBuf {
    target().join("python")
}

/// The program that the tests run as a server.
fn program() -> PathBuf {
    target().join("debug/braidftp")
}

/// Creates an environment with a new wheel of the package and one of its dependency groups; returns its
/// Python, or `None` if that is impossible here.
fn environment(group: &str) -> Result<Option<PathBuf>> {
    let left_out = |why: &str| {
        println!("NOTICE: LEFT OUT: the tests of the Python package: {why}");
        Ok(None)
    };
    let version = "import sys; sys.exit(sys.version_info < (3, 10))";
    if !Command::new("python3").args(["-c", version]).status().is_ok_and(|status| status.success()) {
        return left_out("there is no python3 of version 3.10 or later");
    }
    let home = home();
    let tools = home.join("tools");
    if !has(&tools, "maturin") && (venv(&tools).is_err() || install(&tools, TOOLS).is_err()) {
        return left_out("maturin cannot be installed: is there python3-venv, and can PyPI be reached?");
    }
    let wheels = home.join("wheels");
    let _ = std::fs::remove_dir_all(&wheels);
    let mut build = Command::new(tools.join("bin/maturin"));
    // The profile of all other tests, in which the protocols and the simulator are optimised.
    build.args(["build", "--profile", "dev", "--out"]).arg(&wheels).current_dir(root().join("python"));
    build.env("CARGO_TARGET_DIR", target());
    check(&mut build)?;
    let wheel = std::fs::read_dir(&wheels)?.flatten().map(|entry| entry.path()).next();
    let wheel = wheel.context("maturin built no wheel")?;
    let clean = home.join(group);
    venv(&clean)?;
    let package = format!("braidftp[{group}] @ file://{}", wheel.display());
    let needed: Vec<&str> = std::iter::once(package.as_str()).chain(TYPES.iter().copied()).collect();
    if install(&clean, &needed).is_err() {
        return left_out("the requirements cannot be installed: is PyPI reachable?");
    }
    let python = clean.join("bin/python");
    let place = capture(Command::new(&python).args(["-c", "import braidftp; print(braidftp.__file__)"]))?;
    println!("test: {}", String::from_utf8_lossy(&place).trim_end());
    Ok(Some(python))
}

fn has(environment: &Path, program: &str) -> bool {
    environment.join("bin").join(program).is_file()
}

/// Creates an environment, replacing an existing one.
pub(crate) fn venv(folder: &Path) -> Result<()> {
    check(Command::new("python3").args(["-m", "venv", "--clear"]).arg(folder))
}

/// Installs packages from PyPI into an environment.
pub(crate) fn install(environment: &Path, packages: &[&str]) -> Result<()> {
    let pip = ["-m", "pip", "install", "--quiet", "--disable-pip-version-check"];
    check(Command::new(environment.join("bin/python")).args(pip).args(packages))
}
