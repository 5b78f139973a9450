//! `cargo xtask test store-s3`: servers before a bucket of moto, an S3 server from PyPI, which is kept in `target/s3` and started by
//! `s3_server.py`; one test is before WsgiDAV, a WebDAV server (`webdav_server.py`).

use std::path::PathBuf;

use anyhow::{Context, Result};

use crate::python::{install, venv};
use crate::shell::{cargo, check, root};

const PACKAGES: &[&str] = &["moto[server]>=5,<6", "wsgidav>=4.3,<5", "cheroot>=11,<12"];

/// The program that starts moto, beside this file, and the Python that runs it, below `target/s3`.
pub(crate) const SERVER: &str = "xtask/src/s3_server.py";
/// The variable by which tests find that Python.
pub(crate) const VARIABLE: &str = "BRAIDFTP_MOTO";

/// The Python with moto and WsgiDAV, which are installed if they are missing.
///
/// # Errors
///
/// There is no python3-venv, or PyPI cannot be reached.
pub(crate) fn moto() -> Result<PathBuf> {
    let folder = root().join("target/s3");
    if !["bin/moto_server", "bin/wsgidav"].iter().all(|program| folder.join(program).is_file()) {
        venv(&folder)
            .and_then(|()| install(&folder, PACKAGES))
            .context("moto and WsgiDAV cannot be installed from PyPI")?;
    }
    Ok(folder.join("bin/python"))
}

/// Runs the tests of the object store; `args` are arguments of the test binary.
pub(crate) fn test(args: &[String]) -> Result<()> {
    let mut tests = cargo();
    tests.args(["test", "--package", "braidftp", "--test", "server", "--", "bucket::"]).args(args);
    check(tests.env(VARIABLE, moto()?))
}
