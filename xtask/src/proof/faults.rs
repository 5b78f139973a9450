//! Failures from outside and what the user sees: exit codes, messages, and no incomplete file under a final
//! name.

use std::fs;
use std::os::unix::ffi::OsStrExt;
use std::path::Path;
use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::actors::{Link, LinkOptions, Running, Server, mirror};
use super::compare::{Times, differences};
use super::{Bench, remove};
use crate::shell::check;
use crate::tree::{Kind, Shape, make};

/// A link over which the tree of these proofs takes some ten seconds.
const LINK: LinkOptions =
    LinkOptions { rate: "200mbit", delay: "1ms", loss: 0.0, queue: "500kB", more: Vec::new(), seed: 1 };

/// The time before a job is disturbed.
const UNDISTURBED: Duration = Duration::from_secs(3);

/// The client's time-out, and how long it may then take to end.
const TIMEOUT: &str = "5";
const TIMEOUT_LIMIT: Duration = Duration::from_secs(60);

const JOB_LIMIT: Duration = Duration::from_secs(600);

fn shape() -> Shape {
    Shape { files: 300, seed: 1, big: 250_000_000, kind: Kind::Nasty }
}

/// SIGINT in the middle.
pub(super) fn interrupt(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    make(&tree, &shape())?;
    for mode in bench.modes(&["braid", "ms-cp", "ms", "naive"]) {
        let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
        let link = Link::start(&bench.programs, server.udp, &LINK, &bench.dir)?;
        let copy = bench.dir.join(format!("copy-{mode}"));
        let mut command = mirror(&bench.programs, &server.url(mode, Some(&link)), &copy, mode);
        let mut client = Running::start(&mut command, &bench.dir, "client")?;
        sleep(UNDISTURBED);
        client.interrupt()?;
        let start = Instant::now();
        let finished = client.finish(TIMEOUT_LIMIT)?;
        bench.verdict(
            finished.code() == 130,
            &format!(
                "{mode}: exit code {}, {:.1} s after Ctrl-C",
                finished.code(),
                start.elapsed().as_secs_f64()
            ),
        );
        no_half_files(bench, mode, &tree, &copy)?;
        goes_on(bench, mode, &server, &link, &copy)?;
    }
    Ok(())
}

/// The link dies during the job.
pub(super) fn vanish(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    make(&tree, &shape())?;
    for mode in bench.modes(&["braid", "ms-cp", "ms", "naive"]) {
        let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
        let link = Link::start(&bench.programs, server.udp, &LINK, &bench.dir)?;
        let copy = bench.dir.join(format!("copy-{mode}"));
        let mut command = mirror(&bench.programs, &server.url(mode, Some(&link)), &copy, mode);
        let mut client =
            Running::start(command.args(["--timeout", TIMEOUT, "--retries", "0"]), &bench.dir, "client")?;
        sleep(UNDISTURBED);
        link.kill()?;
        let start = Instant::now();
        let finished = client.finish(TIMEOUT_LIMIT)?;
        bench.verdict(
            matches!(finished.code(), 8 | 11) && !finished.stderr.is_empty(),
            &format!(
                "{mode}: exit code {} (8 or 11), {:.1} s after the link died, with a time-out of {TIMEOUT} s: {}",
                finished.code(),
                start.elapsed().as_secs_f64(),
                finished.stderr
            ),
        );
        no_half_files(bench, mode, &tree, &copy)?;
        let link = Link::start(&bench.programs, server.udp, &LINK, &bench.dir)?;
        goes_on(bench, mode, &server, &link, &copy)?;
    }
    Ok(())
}

/// Checks that every file under a final name is complete.
fn no_half_files(bench: &mut Bench, mode: &str, tree: &Path, copy: &Path) -> Result<()> {
    let mut half = Vec::new();
    let mut whole = 0;
    let mut folders = vec![tree.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder)? {
            let here = entry?.path();
            let there = copy.join(here.strip_prefix(tree)?);
            let kind = fs::symlink_metadata(&here)?.file_type();
            if kind.is_dir() {
                folders.push(here);
            } else if kind.is_file() && there.exists() {
                whole += 1;
                if fs::read(&here)? != fs::read(&there)? {
                    half.push(format!(
                        "{:?}",
                        there.file_name().map(OsStrExt::as_bytes).map(<[u8]>::escape_ascii)
                    ));
                }
            }
        }
    }
    bench.verdict(
        half.is_empty() && whole > 0,
        &format!("{mode}: {whole} files have their names, {} of them half: {}", half.len(), half.join(", ")),
    );
    Ok(())
}

/// The same command again must transfer the rest, and only the rest.
fn goes_on(bench: &mut Bench, mode: &str, server: &Server, link: &Link, copy: &Path) -> Result<()> {
    let mut command = mirror(&bench.programs, &server.url(mode, Some(link)), copy, mode);
    let finished = Running::start(&mut command, &bench.dir, "client-again")?.finish(JOB_LIMIT)?;
    let found = differences(&bench.dir.join("tree"), copy, Times::Compared)?;
    let moved = finished.summary().ok().and_then(|summary| summary["bytes"].as_u64()).unwrap_or(u64::MAX);
    let all = fs::metadata(bench.dir.join("tree/big"))?.len();
    bench.verdict(
        finished.code() == 0 && found.is_empty(),
        &format!("{mode}: again: exit code {}, {}", finished.code(), found.join("; ")),
    );
    bench.verdict(
        moved < all,
        &format!("{mode}: again: {moved} bytes moved, fewer than the big file's {all}"),
    );
    remove(copy)
}

/// User errors and refusals.
pub(super) fn refusals(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    make(&tree, &Shape { files: 200, seed: 1, big: 30_000_000, kind: Kind::Nasty })?;
    let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
    let (tcp, udp) = (server.tcp, server.udp);
    // The arguments are split at spaces.
    let quick = "--timeout 3 --retries 0";
    let served = bench.dir.join("tree");
    let served = served.display();
    let refused = |what, args: String, codes: &'static [i32]| (what, args, codes);
    let cases = [
        refused("a TCP port in use", format!("serve {served} --plain --listen ftp://{tcp}"), &[1, 2, 6]),
        refused("a UDP port in use", format!("serve {served} --plain --listen ftp+sctp://{udp}"), &[1, 2, 6]),
        refused(
            "a folder that is not there",
            "serve /no/such/folder --plain --listen ftp://127.0.0.1:0".into(),
            &[1, 5, 6],
        ),
        refused("no server on TCP", format!("ls ftp://127.0.0.1:9/ {quick}"), &[2]),
        refused("no server on UDP", format!("ls --plain ftp+sctp://127.0.0.1:9/ {quick}"), &[2, 8]),
        refused("a plain server", format!("ls ftp+sctp://{udp}/ --accept-new"), &[3]),
        refused("no such path over TCP", format!("cat ftp://{tcp}/no-such"), &[5]),
        refused("no such path over SCTP", format!("cat --plain ftp+sctp://{udp}/no-such"), &[5]),
        refused(
            "an upload where none is allowed",
            format!("put --plain Cargo.toml ftp+sctp://{udp}/x"),
            &[4, 7],
        ),
        refused("an invalid URL", "ls gopher://127.0.0.1/x".into(), &[1]),
        refused("an unknown mode", format!("ls ftp+sctp://{udp}/ --mode warp"), &[1]),
        refused("an unknown option", "ls --no-such-option".into(), &[1]),
    ];
    for (what, args, codes) in cases {
        let mut command = bench.programs.braidftp();
        let finished =
            Running::start(command.args(args.split(' ')), &bench.dir, "refused")?.finish(TIMEOUT_LIMIT);
        match finished {
            Ok(finished) => bench.verdict(
                codes.contains(&finished.code())
                    && !finished.stderr.is_empty()
                    && !finished.stderr.contains("panicked"),
                &format!("{what}: exit code {} (of {codes:?}): {}", finished.code(), finished.stderr),
            ),
            Err(error) => bench.verdict(false, &format!("{what}: {error:#}")),
        }
    }
    disk_full(bench, &server)
}

/// A receiver without disk space: exit code 6, and no incomplete file. Requires root for a file system of its
/// own.
fn disk_full(bench: &mut Bench, server: &Server) -> Result<()> {
    let copy = bench.dir.join("small");
    fs::create_dir_all(&copy)?;
    let mounted = check(Command::new("mount").args(["-t", "tmpfs", "-o", "size=10m", "tmpfs"]).arg(&copy));
    if let Err(error) = mounted {
        println!("proof: NOTICE: no small file system without root, the full disk is left out: {error:#}");
        return Ok(());
    }
    let result = disk_full_in(bench, server, &copy);
    check(Command::new("umount").arg(&copy))?;
    result
}

fn disk_full_in(bench: &mut Bench, server: &Server, copy: &Path) -> Result<()> {
    for mode in bench.modes(&["braid", "tcp", "naive", "ms", "ms-cp"]) {
        let copy = copy.join(mode);
        let mut command = mirror(&bench.programs, &server.url(mode, None), &copy, mode);
        let finished = Running::start(&mut command, &bench.dir, "client")?.finish(JOB_LIMIT)?;
        bench.verdict(
            matches!(finished.code(), 6 | 10) && !finished.stderr.is_empty(),
            &format!("{mode}: disk full: exit code {} (6 or 10): {}", finished.code(), finished.stderr),
        );
        if copy.join("big").exists() {
            bail!("{mode}: disk full: the big file has its name");
        }
        remove(&copy)?;
    }
    Ok(())
}
