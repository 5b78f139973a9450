//! `cargo xtask test [FILTER] [-- ARGS]`: the whole suite or a part, with the Debian programs of the interoperability tests.
//!
//! Tests find the unpacked servers by the variable `BRAIDFTP_PEERS`, a folder with the layout of `/`, and run
//! them with its `usr/lib/<arch>-linux-gnu` as `LD_LIBRARY_PATH`. If all programs are available,
//! `BRAIDFTP_REQUIRE_PEERS=1` is set, and a test that cannot find its peer fails instead of being skipped.

mod binaries;

use std::process::Command;

use anyhow::{Context, Result, bail};

pub(crate) use self::binaries::Binary;
use crate::shell::{cargo, check, root};
use crate::{guide, package, peers, proof, python, s3};

/// The test files that use third-party programs.
const INTEROP: &[&str] = &[
    "interop",
    INTEROP_TLS,
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

/// The tables of FTP, plain and over TLS, which `cargo xtask test interop-tls` shows.
const INTEROP_TLS: &str = "interop_tls";

/// The test files with third-party FTP clients and servers, which `cargo xtask test interop-ftp` runs.
const INTEROP_FTP: &[&str] = &[INTEROP_TLS, "interop", "server_clients"];

/// The test files with heavy tests, which only `cargo xtask test interop` runs.
const HEAVY: &[&str] = &[
    "usrsctp_features",
    "usrsctp_multihomed",
    "sctp_proto",
    "linux_kernel",
    "linux_features",
    "linux_multihomed",
];

/// Runs the tests that `args` selects: all, those of one crate, or those with a name.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let filter = match args {
        [] => return whole(Vec::new()),
        [filter, rest @ ..] if filter == "python" => return python::tests(rest),
        [filter] if filter == "notebooks" => return python::notebooks(),
        [filter, rest @ ..] if filter == "deb" => return package::test_deb(rest),
        [filter, rest @ ..] if filter == "static" => return package::test_static(rest),
        [filter, rest @ ..] if filter == "publish" => return package::test_publish(rest),
        [filter, rest @ ..] if filter == "store-s3" => return s3::test(rest),
        [filter, rest @ ..] if filter == "guide" => return guide::test(rest),
        [filter, rest @ ..] if filter == "crash" => return proof::run(&crash(rest)),
        [filter] if !filter.starts_with('-') => filter.as_str(),
        _ => bail!("usage: cargo xtask test [FILTER]"),
    };
    let mut command = cargo();
    command.arg("test");
    match (package(filter), filter) {
        (Some(package), _) => command.args(["--package", package]),
        (None, "interop-tls") => tables(&mut command, &[INTEROP_TLS]),
        (None, "interop-ftp") => tables(&mut command, INTEROP_FTP),
        (None, "interop") => {
            command.arg("--workspace").args(INTEROP.iter().flat_map(|name| ["--test", name]))
        }
        (None, name) => command.args(["--workspace", name]),
    };
    if !matches!(filter, "interop" | "interop-tls" | "interop-ftp" | "braidftp" | "net" | "capi") {
        return check(&mut command);
    }
    let state = peers::ensure()?;
    command.envs(state.environment());
    let mut result = check(&mut command);
    if filter == "interop" && result.is_ok() {
        let mut heavy = cargo();
        heavy.args(["test", "--package", "braidftp-net"]);
        heavy.args(HEAVY.iter().flat_map(|name| ["--test", name]));
        heavy.args(["--", "--ignored", "--test-threads", "1"]);
        heavy.envs(state.environment());
        result = check(&mut heavy);
    }
    // Repeated at the end, where it is visible.
    state.tell();
    result
}

/// Runs these test files of `braidftp` one after another, with what they print.
fn tables<'a>(command: &'a mut Command, files: &[&str]) -> &'a mut Command {
    command.args(["--package", "braidftp"]).args(files.iter().flat_map(|name| ["--test", name]));
    command.args(["--", "--nocapture", "--test-threads", "1"])
}

/// The arguments of the proof by crashes, with `args`, which may begin with `--`.
fn crash(args: &[String]) -> Vec<String> {
    let only = ["--only", "crash"].map(str::to_owned);
    let rest = args.iter().enumerate().filter(|&(place, arg)| place > 0 || arg != "--");
    only.into_iter().chain(rest.map(|(_, arg)| arg.clone())).collect()
}

/// Runs every test of the workspace and every page of the guide, and `others` with them.
pub(crate) fn whole(mut others: Vec<Binary>) -> Result<()> {
    let state = peers::ensure()?;
    for page in guide::pages_to_run()? {
        others.push(Binary {
            name: format!("guide {page}"),
            folder: root().join("xtask"),
            executable: std::env::current_exe().context("this program has no path")?,
            args: ["test", "guide", guide::BUILT, &page].map(str::to_owned).into(),
            yields: false,
        });
    }
    let result = binaries::run(&state.environment(), others);
    // Repeated at the end, where it is visible.
    state.tell();
    result
}

/// The package of a crate given by its short name.
pub(crate) fn package(filter: &str) -> Option<&'static str> {
    Some(match filter {
        "base" => "braidftp-base",
        "cc" => "braidftp-cc",
        "sctp" => "braidftp-sctp",
        "pkt" => "braidftp-pkt",
        "tcp" => "braidftp-tcp",
        "pcap" => "braidftp-pcap",
        "ftp" => "braidftp-ftp",
        "keys" => "braidftp-keys",
        "sim" => "braidftp-sim",
        "net" => "braidftp-net",
        "capi" => "braidftp-capi",
        "emu" => "braidftp-emu",
        "lab" => "braidftp-lab",
        "braidftp" => "braidftp",
        "xtask" => "xtask",
        _ => return None,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_of_the_crashes_are_passed_on_behind_two_dashes_or_without() {
        let args = |text: &str| text.split_whitespace().map(str::to_owned).collect::<Vec<_>>();
        assert_eq!(crash(&args("-- --rounds 200")), args("--only crash --rounds 200"));
        assert_eq!(crash(&args("--rounds 200")), args("--only crash --rounds 200"));
        assert_eq!(crash(&[]), args("--only crash"));
    }
}
