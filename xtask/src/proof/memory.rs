//! The resident memory of client and server under load.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::actors::{Finished, Running, Server, mirror};
use super::compare::{Times, differences};
use super::{Bench, megabytes, remove};
use crate::tree::{Kind, Shape, make};

/// The limit of the resident memory of client and server each.
const MOST_BYTES: u64 = 64_000_000;

/// The limits of a client and a server that handle a million files.
const MILLION_CLIENT_BYTES: u64 = 150_000_000;
const MILLION_SERVER_BYTES: u64 = 50_000_000;

/// The time limit of one mirror.
const MIRROR_LIMIT: Duration = Duration::from_secs(3600);

/// 100,000 files.
pub(super) fn many_files(bench: &mut Bench) -> Result<()> {
    run(bench, &Shape { files: 100_000, seed: 1, big: 0, kind: Kind::Plain { size: 1_000 } })
}

/// One file of 4 GB.
pub(super) fn big_file(bench: &mut Bench) -> Result<()> {
    run(bench, &Shape { files: 0, seed: 1, big: 4_000_000_000, kind: Kind::Plain { size: 0 } })
}

/// 1,000,000 files of 100 bytes, protected: down, up and both again, and compared by `verify`.
pub(super) fn million_files(bench: &mut Bench) -> Result<()> {
    let served = bench.dir.join("served");
    let tree = served.join("tree");
    let made = make(&tree, &Shape { files: 1_000_000, seed: 1, big: 0, kind: Kind::Plain { size: 100 } })?;
    println!("proof: {} files, {} bytes", made.files, made.bytes);
    for (way, copy) in [("down", bench.dir.join("copy")), ("up", served.join("copy"))] {
        let server = Server::start_protected(&bench.programs, &served, &bench.dir, &["--writable"])?;
        let url = |path: &str| format!("{}{path}", server.url("braid", None));
        for what in [way, "again", "verify"] {
            let mut command = bench.programs.braidftp();
            for of_its_own in ["XDG_CONFIG_HOME", "XDG_DATA_HOME", "XDG_STATE_HOME"] {
                command.env(of_its_own, &bench.dir);
            }
            match (what, way) {
                ("verify", "down") => command.arg("verify").arg(url("tree")).arg(&copy),
                ("verify", _) => command.arg("verify").arg(url("copy")).arg(&tree),
                (_, "down") => command.arg("mirror").arg(url("tree")).arg(&copy),
                _ => command.args(["mirror", "-R"]).arg(&tree).arg(url("copy")),
            };
            command.args(["--quiet", "--accept-new"]);
            let start = Instant::now();
            let finished = Running::start(&mut command, &bench.dir, what)?.finish(MIRROR_LIMIT)?;
            let (Finished { stderr, peak_memory, .. }, code) = (&finished, finished.code());
            let what = if what == way { way.to_owned() } else { format!("{way}, {what}") };
            let seconds = start.elapsed().as_secs_f64();
            bench.verdict(code == 0, &format!("{what}: exit code {code} after {seconds:.1} s {stderr}"));
            let server_peak = server.running.peak_memory().unwrap_or(u64::MAX);
            for (who, peak, most) in [
                ("client", *peak_memory, MILLION_CLIENT_BYTES),
                ("server so far", server_peak, MILLION_SERVER_BYTES),
            ] {
                let (had, most_text) = (megabytes(peak), megabytes(most));
                bench
                    .verdict(peak <= most, &format!("{what}: {who} had {had} resident, at most {most_text}"));
            }
        }
        let found = differences(&tree, &copy, Times::Compared)?;
        bench.verdict(found.is_empty(), &format!("{way}: {} differences {}", found.len(), found.join("; ")));
        drop(server);
        remove(&copy)?;
    }
    Ok(())
}

fn run(bench: &mut Bench, shape: &Shape) -> Result<()> {
    let tree = bench.dir.join("tree");
    let made = make(&tree, shape)?;
    println!("proof: {} files, {} bytes", made.files, made.bytes);
    for mode in bench.modes(&["braid", "tcp", "ms-cp", "ms", "naive"]) {
        let copy = bench.dir.join(format!("copy-{mode}"));
        let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
        let start = Instant::now();
        let mut command = mirror(&bench.programs, &server.url(mode, None), &copy, mode);
        let finished =
            Running::start(&mut command, &bench.dir, &format!("client-{mode}"))?.finish(MIRROR_LIMIT)?;
        let seconds = start.elapsed().as_secs_f64();
        let server_peak = server.running.peak_memory().unwrap_or(u64::MAX);
        let found = differences(&tree, &copy, Times::Compared)?;
        bench.verdict(
            finished.code() == 0 && found.is_empty(),
            &format!("{mode}: exit code {} after {seconds:.1} s {}", finished.code(), found.join("; ")),
        );
        for (who, peak) in [("client", finished.peak_memory), ("server", server_peak)] {
            bench.verdict(
                peak < MOST_BYTES,
                &format!("{mode}: {who} had {} resident, at most {}", megabytes(peak), megabytes(MOST_BYTES)),
            );
        }
        remove(&copy)?;
    }
    Ok(())
}
