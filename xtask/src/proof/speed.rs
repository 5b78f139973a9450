//! Many small files over a slow, lossy link, compared with the physical limit and with one association per
//! file.

use std::time::{Duration, Instant};

use anyhow::{Result, bail};

use super::actors::{Link, LinkOptions, Running, Server, mirror};
use super::compare::{Times, differences};
use super::{Bench, median, remove};
use crate::tree::{Kind, Shape, make};

const FILES: usize = 100;
const FILE_BYTES: u64 = 10_000;
const RATE_BITS_PER_SECOND: f64 = 3e6;
const LOSS: f64 = 0.03;

/// The largest allowed multiple of the limit.
const MOST_OF_LIMIT: f64 = 1.25;

/// The required speedup over `naive`.
const LEAST_OF_NAIVE: f64 = 3.0;

/// The time of the whole command, from start to exit, in `braid` and in `naive`; medians over several seeds.
pub(super) fn small_files(bench: &mut Bench) -> Result<()> {
    let tree = bench.dir.join("tree");
    let made = make(&tree, &Shape { files: FILES, seed: 1, big: 0, kind: Kind::Plain { size: FILE_BYTES } })?;
    let limit = made.bytes as f64 * 8.0 / (RATE_BITS_PER_SECOND * (1.0 - LOSS));
    println!("proof: the limit is {limit:.3} s");
    let mut medians = Vec::new();
    for mode in bench.modes(&["braid", "naive", "ms", "ms-cp"]) {
        let mut times = Vec::new();
        for seed in 1..=bench.options.seeds {
            let copy = bench.dir.join("copy");
            let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
            let options = LinkOptions {
                rate: "3mbit",
                delay: "1ms",
                loss: LOSS,
                queue: "500kB",
                more: Vec::new(),
                seed,
            };
            let link = Link::start(&bench.programs, server.udp, &options, &bench.dir)?;
            let mut command = mirror(&bench.programs, &server.url(mode, Some(&link)), &copy, mode);
            let start = Instant::now();
            let finished =
                Running::start(&mut command, &bench.dir, "client")?.finish(Duration::from_secs(600))?;
            times.push(start.elapsed().as_secs_f64());
            let found = differences(&tree, &copy, Times::Compared)?;
            if finished.code() != 0 || !found.is_empty() {
                bail!(
                    "{mode}, seed {seed}: exit code {}, {}; {}",
                    finished.code(),
                    found.join("; "),
                    finished.stderr
                );
            }
            remove(&copy)?;
        }
        let shown: Vec<String> = times.iter().map(|time| format!("{time:.2}")).collect();
        let median = median(times);
        println!(
            "proof: {mode:<6} median {median:.3} s = {:.3} of the limit   ({} s)",
            median / limit,
            shown.join(" ")
        );
        medians.push((mode, median));
    }
    let of = |wanted| medians.iter().find(|(mode, _)| *mode == wanted).map(|(_, median)| *median);
    if let Some(braid) = of("braid") {
        let ratio = braid / limit;
        bench.verdict(
            ratio <= MOST_OF_LIMIT,
            &format!("braid: {ratio:.3} of the limit, at most {MOST_OF_LIMIT}"),
        );
        if let Some(naive) = of("naive") {
            let ratio = naive / braid;
            bench.verdict(
                ratio >= LEAST_OF_NAIVE,
                &format!("braid is {ratio:.2} times as fast as naive, at least {LEAST_OF_NAIVE}"),
            );
        }
    }
    Ok(())
}
