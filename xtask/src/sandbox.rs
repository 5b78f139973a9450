//! Runs programs in mount, network and process namespaces of their own; leftover ports, mounts and processes end with the
//! program.

use std::process::Command;

use anyhow::Result;

use crate::shell::{capture, on_path};

/// Whether namespaces can be created here. If not, prints that `what` is skipped.
pub(crate) fn is_available(what: &str) -> Result<bool> {
    let user = capture(Command::new("id").arg("-u"))?;
    let available = user.trim_ascii() == b"0" && on_path("unshare");
    if !available {
        println!(
            "NOTICE: LEFT OUT: {what}: they need root and unshare (util-linux), for namespaces of their own"
        );
    }
    Ok(available)
}

/// Returns a command in new namespaces: mounts are invisible outside, the only interface is loopback, which is down, and all
/// processes end with the first one.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", program]);
    command
}
