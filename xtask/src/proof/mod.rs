//! `cargo xtask proof`: the requirements of the main job, tested end to end with the released programs.
//!
//! Each proof prints its figures, the required values, and PASS or FAIL. Proofs are not part of CI: moving
//! the large files alone takes minutes, and the figures depend on the machine. Their files are in
//! `target/proof`, and are kept if a proof fails.

mod actors;
mod attack;
mod clients;
mod compare;
mod controllers;
mod crash;
mod failover;
mod faults;
mod hellos;
mod inits;
mod memory;
mod passwords;
mod path_cut;
mod speed;
mod trees;

use std::path::{Path, PathBuf};
use std::time::Instant;

use anyhow::{Context, Result, bail};

use self::actors::Programs;
use crate::tree;

/// The proofs, in order.
const PROOFS: &[(&str, &str, Proof)] = &[
    ("trees", "identical trees in every mode, over loopback", trees::loopback),
    ("trees-link", "the same through a link that loses 10 %, reorders and duplicates", trees::link),
    (
        "small-files",
        "100 files of 10 kB at 3 Mbit/s, 1 ms, 3 % loss, against the limit and naive",
        speed::small_files,
    ),
    ("memory-files", "memory of client and server while 100,000 files move", memory::many_files),
    ("memory-big", "memory of client and server while a file of 4 GB moves", memory::big_file),
    (
        MILLION,
        "memory of client and server while 1,000,000 files move (only if named; 10 GB)",
        memory::million_files,
    ),
    ("inits", "100,000 INITs from as many ports: memory flat, a client served", inits::flood),
    (
        "hellos",
        "100,000 ClientHellos that go silent, over SCTP and over TCP: bounds, a client served within twice its time",
        hellos::flood,
    ),
    (
        "attack",
        "attacks over SCTP: the server's memory, the service of an honest client meanwhile; password guessing",
        attack::run,
    ),
    ("interrupt", "Ctrl-C during a job: no incomplete file, and the same command resumes", faults::interrupt),
    (
        "crash",
        "kill -9 of client and server, and power losses, at random moments: no wrong file, and the same command resumes",
        crash::run,
    ),
    ("vanish", "the peer vanishes: a clear exit code in time, and the same command resumes", faults::vanish),
    (
        "path-cut",
        "one of two paths is cut and restored, then the other is cut: the job continues (root)",
        path_cut::run,
    ),
    (
        "refusals",
        "a port in use, no server, no such path, an unreadable folder: exit codes and messages",
        faults::refusals,
    ),
    (
        "failover",
        "one path of two is cut, at 50 ms: the other's goodput within a second, simulated",
        failover::cut,
    ),
    ("cc-link", "a tree with every congestion controller, through a link that loses 1 %", controllers::link),
    ("cc-net", "the same between two hosts of a net (root)", controllers::net),
    ("clients", "lftp and curl fetch the tree over TCP", clients::run),
    ("demo", "the demo: exit code 0, a table, a picture", clients::demo),
];

/// The proof that runs only if it is named.
const MILLION: &str = "memory-million";

/// Runs one proof.
type Proof = fn(&mut Bench) -> Result<()>;

/// The environment of a proof, and its results.
#[derive(Debug)]
pub(crate) struct Bench {
    /// The programs under proof.
    programs: Programs,
    /// The name of the running proof.
    name: &'static str,
    /// The folder of the proof.
    dir: PathBuf,
    /// What was asked for on the command line.
    options: Options,
    /// Every figure that misses its required value.
    failures: Vec<String>,
}

/// The command line.
#[derive(Debug, Clone)]
struct Options {
    /// Names of proofs; all if empty.
    only: Vec<String>,
    /// Modes; all applicable ones if empty.
    modes: Vec<String>,
    /// The number of files of the nasty tree.
    files: usize,
    /// Bytes of its big file.
    big: u64,
    /// Bytes of the big file of the tree that goes through the link.
    link_big: u64,
    /// The folder of programs built before; `None`: build them.
    programs: Option<PathBuf>,
    /// The number of seeds over which a median is taken.
    seeds: u64,
    /// The number of crashes of each kind.
    rounds: u64,
    /// The seed of the moments of crashes; `None`: the time of day.
    seed: Option<u64>,
    /// Attacks to run, by name; all if empty.
    attacks: Vec<String>,
    /// Kinds of crashes, by name; all if empty.
    crashes: Vec<String>,
    /// Which files to keep after a proof.
    keep: Keep,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Keep {
    /// Only when it failed.
    Failed,
    /// Always.
    All,
}

const USAGE: &str = "usage: cargo xtask proof [--list] [--only NAME,...] [--modes MODE,...] [--files N] [--big SIZE] \
[--link-big SIZE] [--seeds N] [--rounds N] [--seed N] [--attacks NAME,...] [--crashes KIND,...] \
[--programs DIR] [--keep]";

/// Runs the proofs that `args` asks for.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let mut options = Options {
        only: Vec::new(),
        modes: Vec::new(),
        files: 5_000,
        big: 1_000_000_000,
        link_big: 1_000_000_000,
        programs: None,
        seeds: 5,
        rounds: 40,
        seed: None,
        attacks: Vec::new(),
        crashes: Vec::new(),
        keep: Keep::Failed,
    };
    let mut words = args.iter();
    while let Some(word) = words.next() {
        let mut value = || words.next().context(USAGE);
        let list = |text: &String| text.split(',').map(str::to_owned).collect();
        match word.as_str() {
            "--list" => {
                for (name, what, _) in PROOFS {
                    println!("{name:<14} {what}");
                }
                return Ok(());
            }
            "--only" => options.only = list(value()?),
            "--modes" => options.modes = list(value()?),
            "--files" => options.files = value()?.parse().context(USAGE)?,
            "--big" => options.big = tree::bytes(value()?)?,
            "--link-big" => options.link_big = tree::bytes(value()?)?,
            "--programs" => options.programs = Some(std::path::absolute(value()?)?),
            "--seeds" => options.seeds = value()?.parse().context(USAGE)?,
            "--rounds" => options.rounds = value()?.parse().context(USAGE)?,
            "--seed" => options.seed = Some(value()?.parse().context(USAGE)?),
            "--attacks" => options.attacks = list(value()?),
            "--crashes" => options.crashes = list(value()?),
            "--keep" => options.keep = Keep::All,
            _ => bail!(USAGE),
        }
    }
    if let Some(unknown) = options.only.iter().find(|only| !PROOFS.iter().any(|(name, ..)| name == only)) {
        bail!("there is no proof `{unknown}`; see cargo xtask proof --list");
    }
    let programs = match &options.programs {
        Some(folder) => Programs::in_folder(folder),
        None => Programs::build()?,
    };
    let mut bench = Bench { programs, name: "", dir: PathBuf::new(), options, failures: Vec::new() };
    let mut count = 0;
    for &(name, what, proof) in PROOFS {
        let only = &bench.options.only;
        let is_wanted = only.iter().any(|only| only == name) || (only.is_empty() && name != MILLION);
        if !is_wanted {
            continue;
        }
        println!("proof: {name}: {what}");
        bench.name = name;
        bench.dir = crate::shell::root().join("target/proof").join(name);
        let failures_before = bench.failures.len();
        let start = Instant::now();
        bench.fresh_dir()?;
        if let Err(error) = proof(&mut bench) {
            bench.verdict(Verdict::Fail, &format!("{error:#}"));
        }
        println!("proof: {name}: took {:.1} s", start.elapsed().as_secs_f64());
        if bench.options.keep == Keep::Failed && bench.failures.len() == failures_before {
            remove(&bench.dir)?;
        }
        count += 1;
    }
    println!("proof: {count} proofs, {} figures missed", bench.failures.len());
    if !bench.failures.is_empty() {
        bail!("{}", bench.failures.join("\n"));
    }
    Ok(())
}

/// The verdict on a figure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    Pass,
    Fail,
}

impl From<bool> for Verdict {
    fn from(holds: bool) -> Self {
        if holds { Self::Pass } else { Self::Fail }
    }
}

impl Bench {
    /// Reports a figure and whether it meets its requirement.
    fn verdict(&mut self, verdict: impl Into<Verdict>, what: &str) {
        match verdict.into() {
            Verdict::Pass => println!("proof: PASS {}: {what}", self.name),
            Verdict::Fail => {
                println!("proof: FAIL {}: {what}", self.name);
                self.failures.push(format!("{}: {what}", self.name));
            }
        }
    }

    /// The modes to run, of those that a proof covers.
    fn modes(&self, all: &[&'static str]) -> Vec<&'static str> {
        let asked = &self.options.modes;
        all.iter()
            .copied()
            .filter(|mode| asked.is_empty() || asked.iter().any(|asked| asked == mode))
            .collect()
    }

    /// Creates an empty folder for the proof.
    fn fresh_dir(&self) -> Result<()> {
        remove(&self.dir)?;
        std::fs::create_dir_all(&self.dir).with_context(|| format!("cannot create {}", self.dir.display()))
    }
}

/// Removes a folder with all its contents, if it exists.
fn remove(dir: &Path) -> Result<()> {
    match std::fs::remove_dir_all(dir) {
        Err(error) if error.kind() != std::io::ErrorKind::NotFound => {
            Err(error).with_context(|| format!("cannot remove {}", dir.display()))
        }
        _ => Ok(()),
    }
}

/// Formats bytes in MB.
fn megabytes(bytes: u64) -> String {
    format!("{:.1} MB", bytes as f64 / 1e6)
}

/// The median; of an even number, the larger of the two middle values.
fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
