//! Floods of ClientHellos, over SCTP and over TCP: each connection sends one and falls silent.
//!
//! The server must bound the handshakes under way in number and memory, and serve an honest client within twice
//! its usual time.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result};

use super::actors::{Running, Server};
use super::attack::{Session, timed};
use super::{Bench, median, megabytes};
use crate::tree::{Kind, Shape, make};

const HELLOS: u32 = 100_000;
/// The time limit of a flood.
const PATIENCE: Duration = Duration::from_secs(1_800);
/// The number of runs of the honest client before a flood.
const USUAL_RUNS: usize = 15;
/// The time between two runs of the honest client.
const PAUSE: Duration = Duration::from_millis(500);
/// The limit of the growth of the server's memory.
const MOST_GROWTH_BYTES: u64 = 48_000_000;
/// The limit of the growth of the server's open files: `max-sessions`, 200, and as many again that make room for
/// them; and what the honest client has open.
const MOST_OPEN_FILES: usize = 410;

/// Runs both floods, each against a server of its own.
pub(super) fn flood(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    make(&tree, &Shape { files: 20, seed: 1, big: 0, kind: Kind::Plain { size: 1_000 } })?;
    for transport in ["sctp", "tcp"] {
        let server = Server::start_protected(&bench.programs, &tree, &bench.dir, &[])?;
        over(bench, &server, transport)?;
    }
    Ok(())
}

fn over(bench: &mut Bench, server: &Server, transport: &str) -> Result<()> {
    let mut usual = Vec::new();
    for _ in 0..USUAL_RUNS {
        usual.push(
            list(bench, server, transport)?.context("the client failed without a flood")?.as_secs_f64(),
        );
    }
    let usual = median(usual);
    let gone = "the server is gone";
    let (memory, files) =
        (server.running.memory().context(gone)?, server.running.open_files().context(gone)?);
    let address = if transport == "tcp" { server.tcp } else { server.udp };
    let mut command = Command::new(bench.programs.example("hellos"));
    command.args([transport, &address.to_string(), &HELLOS.to_string()]);
    let mut flood = Running::start(&mut command, &bench.dir, "flood")?;
    let (start, mut took, mut failed, mut files_most) = (Instant::now(), Vec::new(), 0, files);
    while flood.ended()?.is_none() && start.elapsed() < PATIENCE {
        match list(bench, server, transport)? {
            Some(time) => took.push(time.as_secs_f64()),
            None => failed += 1,
        }
        files_most = files_most.max(server.running.open_files().context(gone)?);
        sleep(PAUSE);
    }
    let told = flood.finish(Duration::from_secs(1))?;
    println!("proof: {transport}: {}", String::from_utf8_lossy(&told.stdout).trim());
    let peak = server.running.peak_memory().context(gone)?;
    bench.verdict(
        peak < memory + MOST_GROWTH_BYTES && files_most < files + MOST_OPEN_FILES,
        &format!(
            "{transport}: the server had {} resident and {files} files open before, at most {} and {files_most} (may grow by {} and \
             {MOST_OPEN_FILES})",
            megabytes(memory),
            megabytes(peak),
            megabytes(MOST_GROWTH_BYTES)
        ),
    );
    took.sort_by(f64::total_cmp);
    let (runs, slowest) = (took.len(), took.last().copied().unwrap_or(f64::INFINITY));
    let tenth = took.get(runs * 9 / 10).copied().unwrap_or(f64::INFINITY);
    let middle = median(took);
    bench.verdict(
        failed == 0 && middle <= 2.0 * usual,
        &format!(
            "{transport}: an honest client lists {runs} times: median {middle:.3} s (usual {usual:.3} s, may be twice that), nine in ten \
             within {tenth:.3} s, all within {slowest:.3} s; {failed} times in vain"
        ),
    );
    Ok(())
}

/// The time in which an honest client lists the folder, if it succeeds.
fn list(bench: &Bench, server: &Server, transport: &str) -> Result<Option<Duration>> {
    let mode = if transport == "tcp" { "tcp" } else { "braid" };
    let mut command = bench.programs.braidftp();
    command.args(["ls", &server.url(mode, None), "--mode", mode]);
    timed(bench, &mut command, Session::Protected)
}
