//! The resident memory of client and server under load.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::actors::{Running, Server, mirror};
use super::compare::{Times, differences};
use super::{Bench, megabytes, remove};
use crate::tree::{Kind, Shape, make};

/// The limit of the resident memory of client and server each.
const MOST_BYTES: u64 = 64_000_000;

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
