//! Floods of ClientHellos, over SCTP and over TCP: each connection sends one and falls silent.
//!
//! The server must bound the handshakes under way in number and memory, and serve an honest client within twice
//! its usual time: one of another network, and over SCTP also one of a network of the flood.

use std::process::Command;
use std::thread::sleep;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};

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

/// The network of an honest client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Network {
    /// Not one of the flood.
    Other,
    /// One of the flood, at another address.
    Flooded,
}

impl Network {
    /// Those from which a client of this transport can connect.
    fn all(transport: &str) -> &'static [Self] {
        if transport == "tcp" { &[Self::Other] } else { &[Self::Other, Self::Flooded] }
    }

    /// The address in a network of the example `hellos`.
    fn path(self) -> Option<&'static str> {
        match self {
            Self::Other => None,
            Self::Flooded => Some("127.3.1.2=127.0.0.1"),
        }
    }

    fn words(self) -> &'static str {
        match self {
            Self::Other => "of another network",
            Self::Flooded => "of the flood's network",
        }
    }
}

/// The runs of an honest client.
#[derive(Debug, Default)]
struct Runs {
    took: Vec<f64>,
    failed: usize,
}

impl Runs {
    fn add(&mut self, took: Option<Duration>) {
        match took {
            Some(time) => self.took.push(time.as_secs_f64()),
            None => self.failed += 1,
        }
    }
}

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
    let networks = Network::all(transport);
    let mut usual = Runs::default();
    for _ in 0..USUAL_RUNS {
        for network in networks {
            usual.add(list(bench, server, transport, *network)?);
        }
    }
    ensure!(usual.failed == 0, "the client failed without a flood");
    let usual = median(usual.took);
    let gone = "the server is gone";
    let (memory, files) =
        (server.running.memory().context(gone)?, server.running.open_files().context(gone)?);
    let address = if transport == "tcp" { server.tcp } else { server.udp };
    let mut command = Command::new(bench.programs.example("hellos"));
    command.args([transport, &address.to_string(), &HELLOS.to_string()]);
    let mut flood = Running::start(&mut command, &bench.dir, "flood")?;
    let (start, mut files_most) = (Instant::now(), files);
    let mut runs: Vec<Runs> = networks.iter().map(|_| Runs::default()).collect();
    while flood.ended()?.is_none() && start.elapsed() < PATIENCE {
        for (network, runs) in networks.iter().zip(&mut runs) {
            runs.add(list(bench, server, transport, *network)?);
            files_most = files_most.max(server.running.open_files().context(gone)?);
            sleep(PAUSE);
        }
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
    for (network, runs) in networks.iter().zip(runs) {
        judge(bench, transport, *network, runs, usual);
    }
    Ok(())
}

/// Compares the runs during the flood with the usual time.
fn judge(bench: &mut Bench, transport: &str, network: Network, runs: Runs, usual: f64) {
    let Runs { mut took, failed } = runs;
    took.sort_by(f64::total_cmp);
    let (runs, slowest) = (took.len(), took.last().copied().unwrap_or(f64::INFINITY));
    let tenth = took.get(runs * 9 / 10).copied().unwrap_or(f64::INFINITY);
    let middle = median(took);
    bench.verdict(
        failed == 0 && middle <= 2.0 * usual,
        &format!(
            "{transport}: an honest client {} lists {runs} times: median {middle:.3} s (usual {usual:.3} s, may be twice that), nine in \
             ten within {tenth:.3} s, all within {slowest:.3} s; {failed} times in vain",
            network.words()
        ),
    );
}

/// The time in which an honest client lists the folder, if it succeeds.
fn list(bench: &Bench, server: &Server, transport: &str, network: Network) -> Result<Option<Duration>> {
    let mode = if transport == "tcp" { "tcp" } else { "braid" };
    let mut command = bench.programs.braidftp();
    command.args(["ls", &server.url(mode, None), "--mode", mode]);
    command.args(network.path().iter().flat_map(|path| ["--path", *path]));
    timed(bench, &mut command, Session::Protected)
}
