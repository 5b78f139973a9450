//! Identical trees in every mode.

use std::time::{Duration, Instant};

use anyhow::Result;

use super::actors::{Link, LinkOptions, Server, mirror};
use super::compare::{Times, differences};
use super::{Bench, remove};
use crate::tree::{Kind, Shape, make};

/// The time limit of one mirror. The papers' variants wait for many time-outs at 10 % loss.
const MIRROR_LIMIT: Duration = Duration::from_secs(4 * 3600);

/// Over loopback, in five modes.
pub(super) fn loopback(bench: &mut Bench) -> Result<()> {
    let big = bench.options.big;
    run(bench, big, &["tcp", "naive", "ms", "ms-cp", "braid"], None)
}

/// Through a lossy link, in the modes that use UDP.
pub(super) fn link(bench: &mut Bench) -> Result<()> {
    let options = LinkOptions {
        rate: "1gbit",
        delay: "1ms",
        loss: 0.1,
        queue: "500kB",
        more: vec!["--reorder", "0.05", "--duplicate", "0.02"],
        seed: 7,
    };
    let big = bench.options.link_big;
    run(bench, big, &["naive", "ms", "ms-cp", "braid"], Some(&options))
}

fn run(bench: &mut Bench, big: u64, modes: &[&'static str], options: Option<&LinkOptions>) -> Result<()> {
    let tree = bench.dir.join("tree");
    let made = make(&tree, &Shape { files: bench.options.files, seed: 1, big, kind: Kind::Nasty })?;
    println!("proof: {} files, {} bytes", made.files, made.bytes);
    for mode in bench.modes(modes) {
        let copy = bench.dir.join(format!("copy-{mode}"));
        let server = Server::start(&bench.programs, &tree, &bench.dir, &[])?;
        let link = options
            .map(|options| Link::start(&bench.programs, server.udp, options, &bench.dir))
            .transpose()?;
        let mut command = mirror(&bench.programs, &server.url(mode, link.as_ref()), &copy, mode);
        let start = Instant::now();
        let mut client = super::actors::Running::start(&mut command, &bench.dir, &format!("client-{mode}"))?;
        let finished = client.finish(MIRROR_LIMIT)?;
        let seconds = start.elapsed().as_secs_f64();
        let code = finished.code();
        let summary = match finished.summary() {
            Ok(summary) => summary.to_string(),
            Err(error) => format!("{error:#}"),
        };
        let mut found = differences(&tree, &copy, Times::Compared)?;
        if code != 0 {
            found.push(format!("exit code {code}: {}", finished.stderr));
        }
        if let Some(link) = link {
            println!("proof: {mode}: the link says {}", link.counters()?);
        }
        println!("proof: {mode}: {summary}");
        let what = if found.is_empty() { "identical".to_owned() } else { found.join("; ") };
        bench.verdict(
            found.is_empty(),
            &format!("{mode}: {} files, {} bytes in {seconds:.1} s: {what}", made.files, made.bytes),
        );
        if found.is_empty() {
            remove(&copy)?;
        }
    }
    Ok(())
}
