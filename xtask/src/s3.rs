//! `cargo xtask test store-s3`: servers before a bucket of moto, an S3 server from PyPI, which is kept in `target/s3`.

use anyhow::Result;

use crate::python::{install, venv};
use crate::shell::{cargo, check, root};

const MOTO: &[&str] = &["moto[server]>=5,<6"];

/// Runs the tests of the object store; `args` are arguments of the test binary.
pub(crate) fn test(args: &[String]) -> Result<()> {
    let folder = root().join("target/s3");
    let program = folder.join("bin/moto_server");
    if !program.is_file() && (venv(&folder).is_err() || install(&folder, MOTO).is_err()) {
        println!(
            "NOTICE: LEFT OUT: the tests of the object store: moto cannot be installed; is there python3-venv, and can PyPI be reached?"
        );
        return Ok(());
    }
    let mut tests = cargo();
    tests.args(["test", "--package", "braidftp", "--test", "server", "--", "bucket::"]).args(args);
    check(tests.env("BRAIDFTP_MOTO", program))
}
