//! `cargo xtask test [FILTER]`: the whole suite, with the Debian programs that the interoperation tests talk to.
//!
//! Tests find the unpacked servers by the variable `BRAIDFTP_PEERS`, a folder laid out like `/`; they run with its
//! `usr/lib/<arch>-linux-gnu` as `LD_LIBRARY_PATH`. With
//! `BRAIDFTP_REQUIRE_PEERS=1`, which is set when everything is there, a test that cannot find its peer fails instead
//! of leaving itself out.

use anyhow::{Result, bail};

use crate::peers;
use crate::shell::{cargo, check};

/// The files of tests against other people's programs.
const INTEROP: &[&str] = &[
    "interop",
    "server_clients",
    "tshark",
    "usrsctp",
    "usrsctp_addresses",
    "usrsctp_features",
    "usrsctp_multihomed",
    "sctp_proto",
    "linux_kernel",
    "linux_features",
    "linux_multihomed",
];

/// Those of them with heavy tests, which only `cargo xtask test interop` runs.
const HEAVY: &[&str] = &[
    "usrsctp_features",
    "usrsctp_multihomed",
    "sctp_proto",
    "linux_kernel",
    "linux_features",
    "linux_multihomed",
];

/// Run the tests that `args` asks for: all, those of one crate, or those with a name.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let filter = match args {
        [] => None,
        [filter] if !filter.starts_with('-') => Some(filter.as_str()),
        _ => bail!("usage: cargo xtask test [FILTER]"),
    };
    let mut command = cargo();
    command.arg("test");
    let package = filter.and_then(package);
    match (package, filter) {
        (Some(package), _) => command.args(["--package", package]),
        (None, _) => command.arg("--workspace"),
    };
    match (package, filter) {
        (None, Some("interop")) => command.args(INTEROP.iter().flat_map(|name| ["--test", name])),
        (None, Some(name)) => command.arg(name),
        _ => &mut command,
    };
    if matches!(filter, None | Some("interop" | "braidftp" | "net")) {
        let state = peers::ensure()?;
        command.env("BRAIDFTP_PEERS", &state.root);
        if state.missing.is_empty() {
            command.env("BRAIDFTP_REQUIRE_PEERS", "1");
        }
        let mut result = check(&mut command);
        if filter == Some("interop") && result.is_ok() {
            let mut heavy = cargo();
            heavy.args(["test", "--package", "braidftp-net"]);
            heavy.args(HEAVY.iter().flat_map(|name| ["--test", name]));
            heavy.args(["--", "--ignored", "--test-threads", "1"]);
            heavy.envs(command.get_envs().filter_map(|(name, value)| Some((name, value?))));
            result = check(&mut heavy);
        }
        // Again at the end, where it is seen.
        state.tell();
        return result;
    }
    check(&mut command)
}

/// The package of a crate named as in ARCHITECTURE.md.
fn package(filter: &str) -> Option<&'static str> {
    Some(match filter {
        "base" => "braidftp-base",
        "cc" => "braidftp-cc",
        "sctp" => "braidftp-sctp",
        "ftp" => "braidftp-ftp",
        "sim" => "braidftp-sim",
        "net" => "braidftp-net",
        "emu" => "braidftp-emu",
        "lab" => "braidftp-lab",
        "braidftp" => "braidftp",
        "xtask" => "xtask",
        _ => return None,
    })
}
