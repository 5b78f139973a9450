//! `cargo xtask bench sim`: packet events per second and core, of this simulator and of ns-3 on the same
//! dumbbell.
//!
//! A packet event is one of: a packet is passed to a link; its last bit is sent; it leaves the link. Both
//! simulators use the same setup (`crates/sim/src/bin/dumbbell.rs`, `bench-peers/ns3_dumbbell.cc`), and time
//! is the CPU time of the process, which excludes other load on the machine. ns-3's events are counted in a
//! separate run, because its traces take time. Rounds are interleaved, ratios are taken within a round, and
//! medians over the rounds.
//!
//! A scenario file must cost no speed: `crates/lab/examples/layer.rs` alternates short runs that a file describes with the same
//! runs in Rust. Other guests of a virtual machine's host take caches and half of a core from a run, which its CPU time does not
//! exclude: single runs take up to twice as long as others. The median of many ratios of neighbours excludes it.

use std::path::PathBuf;
use std::process::Command;

use anyhow::{Context, Result, bail};
use serde::Deserialize;

use super::{median, median_interval};
use crate::peers::{Proof, install};
use crate::shell::{capture, cargo, check, root, target};

const USAGE: &str = "usage: cargo xtask bench sim [--rounds N] [--quick]";

/// The required packet events per second and core.
const TARGET: f64 = 2e6;
/// The required multiple of ns-3's speed.
const TARGET_RATIO: f64 = 5.0;

/// The required speed of a run that a scenario file describes, as a part of the speed of the same run in Rust.
const TARGET_LAYER: f64 = 0.97;
/// The runs in turn that decide it. The error of a ratio is about .1, that of the median of as many is .004.
const LAYER_TURNS: usize = 800;

const RATE: &str = "100mbit";
const DELAY: &str = "10ms";
const QUEUE: &str = "100p";

/// The packages needed to build ns-3's dumbbell.
const NS3_PACKAGES: &[(Proof, &str)] =
    &[(Proof::Program("c++"), "g++"), (Proof::File("/usr/include/ns3/applications-module.h"), "libns3-dev")];
/// Debian's libraries; its pkg-config files name some that are not installed.
const NS3_LIBRARIES: &[&str] = &[
    "-lns3-applications",
    "-lns3-point-to-point",
    "-lns3-internet",
    "-lns3-bridge",
    "-lns3-traffic-control",
    "-lns3-network",
    "-lns3-stats",
    "-lns3-core",
];

/// A row of the table.
#[derive(Debug)]
struct Contestant {
    name: &'static str,
    program: PathBuf,
    words: Vec<String>,
    /// The number of events, if counted before.
    events: Option<f64>,
}

/// The result of one run.
#[derive(Debug, Clone, Copy)]
struct Outcome {
    events: f64,
    seconds: f64,
    mbit_per_second: f64,
}

impl Outcome {
    fn speed(&self) -> f64 {
        self.events / self.seconds
    }
}

/// Runs the benchmark and prints the table.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let (mut rounds, mut seconds) = (5, 20);
    let mut args = args.iter();
    while let Some(arg) = args.next() {
        match arg.as_str() {
            "--rounds" => rounds = args.next().context(USAGE)?.parse().context("--rounds takes a number")?,
            "--quick" => (rounds, seconds) = (1, 10),
            _ => bail!("{USAGE}"),
        }
    }
    layer()?;
    for pairs in [1, 10] {
        let contestants = contestants(pairs, seconds)?;
        let mut results: Vec<Vec<Outcome>> = contestants.iter().map(|_| Vec::new()).collect();
        for round in 1..=rounds {
            for (contestant, results) in contestants.iter().zip(&mut results) {
                let outcome =
                    contestant.run(seconds).with_context(|| format!("{}, round {round}", contestant.name))?;
                eprintln!("round {round}: {:<10} {:>6.2} M events/s", contestant.name, outcome.speed() / 1e6);
                results.push(outcome);
            }
        }
        print_table(&contestants, &results, pairs, seconds, rounds);
        judge(&contestants, &results, pairs)?;
    }
    Ok(())
}

/// What `layer` prints.
#[derive(Debug, Deserialize)]
struct Layer {
    events: f64,
    by_file: Vec<f64>,
    by_hand: Vec<f64>,
}

/// Compares a run that a scenario file describes with the same run in Rust.
fn layer() -> Result<()> {
    let mut command = cargo();
    command.args(["run", "--release", "--quiet", "--package", "braidftp-lab", "--example", "layer", "--"]);
    let said = capture(command.arg(format!("turns={LAYER_TURNS}")))?;
    let said = String::from_utf8_lossy(&said);
    let line = said.lines().last().unwrap_or_default();
    let layer: Layer = serde_json::from_str(line).with_context(|| format!("`{line}` is not a report"))?;
    let ratios: Vec<f64> = layer.by_hand.iter().zip(&layer.by_file).map(|(hand, file)| hand / file).collect();
    let [least, most] = median_interval(ratios.clone(), 0.95).context("there are too few turns")?;
    let ratio = median(ratios);
    println!(
        "by a scenario file: {:.2} million events a second, {ratio:.3} of the same run in Rust (median of {LAYER_TURNS} runs in turn; 95 % \
         interval {least:.3} to {most:.3}); the target is {TARGET_LAYER}",
        layer.events / median(layer.by_file) / 1e6
    );
    if ratio < TARGET_LAYER {
        bail!("the scenario layer costs more speed than it may");
    }
    Ok(())
}

fn judge(contestants: &[Contestant], results: &[Vec<Outcome>], pairs: u32) -> Result<()> {
    let speed = median(results[0].iter().map(Outcome::speed).collect());
    println!(
        "{pairs} pair(s): ours does {:.2} million a second; the target is {:.0}",
        speed / 1e6,
        TARGET / 1e6
    );
    let mut missed = speed < TARGET;
    if let Some(ns3) = contestants.iter().position(|contestant| contestant.name == "ns-3, TCP") {
        let ratio = median(ratios(&results[0], &results[ns3]));
        println!("{pairs} pair(s): ours is {ratio:.2} times ns-3; the target is {TARGET_RATIO:.0}");
        missed |= ratio < TARGET_RATIO;
    }
    println!();
    if missed {
        bail!("the target is missed");
    }
    Ok(())
}

/// Builds the contestants; those that cannot be built here are left out with a notice.
fn contestants(pairs: u32, seconds: u32) -> Result<Vec<Contestant>> {
    let target = target();
    check(cargo().args(["build", "--release", "--package", "braidftp-sim", "--bin", "dumbbell"]))?;
    let ours = |name, protocol: &str| {
        let mut words = vec![protocol.to_owned()];
        words.extend([format!("seconds={seconds}"), format!("pairs={pairs}")]);
        words.extend([format!("rate={RATE}"), format!("delay={DELAY}"), format!("queue={QUEUE}")]);
        Contestant { name, program: target.join("release/dumbbell"), words, events: None }
    };
    let mut contestants = vec![ours("ours, TCP", "tcp"), ours("ours, SCTP", "sctp")];
    let peers = target.join("bench-peers");
    std::fs::create_dir_all(&peers).with_context(|| format!("cannot create {}", peers.display()))?;
    if let Err(error) = install(NS3_PACKAGES) {
        eprintln!("ns-3 cannot be installed: {error:#}");
    }
    let program = peers.join("ns3_dumbbell");
    let mut cc = Command::new("c++");
    cc.current_dir(root()).args(["-O2", "-std=c++17", "-o"]).arg(&program);
    cc.arg("bench-peers/ns3_dumbbell.cc").args(NS3_LIBRARIES);
    match check(&mut cc) {
        Ok(()) => {
            let words = |mode: &str| {
                let rate = RATE.replace("mbit", "Mbps");
                [mode, &seconds.to_string(), &pairs.to_string(), &rate, DELAY, QUEUE]
                    .map(str::to_owned)
                    .to_vec()
            };
            let name = "ns-3, TCP";
            let counting = Contestant { name, program: program.clone(), words: words("count"), events: None };
            let events = Some(counting.run(seconds)?.events);
            contestants.push(Contestant { name, program, words: words("time"), events });
        }
        Err(error) => {
            eprintln!("LEFT OUT: ns-3 cannot be built here: {error:#}");
        }
    }
    Ok(contestants)
}

impl Contestant {
    fn run(&self, virtual_seconds: u32) -> Result<Outcome> {
        let output = Command::new(&self.program)
            .args(&self.words)
            .output()
            .with_context(|| format!("cannot run {}", self.program.display()))?;
        let text = String::from_utf8_lossy(&output.stdout);
        if !output.status.success() {
            bail!("it failed ({}): {}", output.status, String::from_utf8_lossy(&output.stderr));
        }
        let line = text.lines().last().unwrap_or_default();
        let json: serde_json::Value =
            serde_json::from_str(line).with_context(|| format!("`{line}` is not a report"))?;
        let number = |name: &str| json[name].as_f64().with_context(|| format!("`{line}` has no {name}"));
        Ok(Outcome {
            events: self.events.map_or_else(|| number("events"), Ok)?,
            seconds: number("seconds")?,
            mbit_per_second: number("bytes")? * 8.0 / 1e6 / f64::from(virtual_seconds),
        })
    }
}

fn print_table(
    contestants: &[Contestant],
    results: &[Vec<Outcome>],
    pairs: u32,
    seconds: u32,
    rounds: usize,
) {
    println!();
    println!(
        "Bulk flows over a dumbbell of {pairs} pair(s), {RATE}, {DELAY}, {QUEUE}, {seconds} virtual seconds; median of \
         {rounds} round(s)"
    );
    println!();
    println!("| who | million events/s on a core | events | core s | goodput, Mbit/s | ours, TCP is |");
    println!("|---|---|---|---|---|---|");
    for (contestant, outcomes) in contestants.iter().zip(results) {
        let middle = |value: fn(&Outcome) -> f64| median(outcomes.iter().map(value).collect());
        println!(
            "| {} | {:.2} | {:.0} | {:.2} | {:.1} | {:.2} × |",
            contestant.name,
            middle(Outcome::speed) / 1e6,
            middle(|outcome| outcome.events),
            middle(|outcome| outcome.seconds),
            middle(|outcome| outcome.mbit_per_second),
            median(ratios(&results[0], outcomes)),
        );
    }
    println!();
}

/// Our values divided by theirs, round by round.
fn ratios(ours: &[Outcome], theirs: &[Outcome]) -> Vec<f64> {
    ours.iter().zip(theirs).map(|(ours, theirs)| ours.speed() / theirs.speed()).collect()
}
