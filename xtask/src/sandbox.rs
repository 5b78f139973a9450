//! Programs in mount, network and process namespaces of their own: ports, mounts and processes that a test leaves behind end with it.

use std::process::Command;

use anyhow::Result;

use crate::shell::{capture, on_path};

/// Whether namespaces can be made here. If not, prints that `what` is left out.
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

/// A program that runs in new namespaces: no mount is seen outside, there is a loopback interface only, which is down, and all
/// processes end when the first one does.
pub(crate) fn command(program: &str) -> Command {
    let mut command = Command::new("unshare");
    command.args(["--mount", "--net", "--pid", "--fork", "--kill-child", "--mount-proc", program]);
    command
}
