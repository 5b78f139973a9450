//! `cargo xtask bench tails`: the tail of transfer times of short jobs over lossy links, for braid, `curl
//! --parallel` over HTTP/2 (nginx) and rsync's daemon, the latter two over the kernel's BBR.
//!
//! Each run has its own net (`braidlab net`: network namespaces and emulated links; root). In a cell the
//! links of all programs have the same seed in the same run. HTTP/2 runs over TLS 1.3, which costs a round
//! trip that braid and rsync do not have (`servers.rs`). Slow links run many at a time, fast ones few, so that the machine stays idle enough to be
//! no part of the times, and files are in memory; all cells with 60 seeds take about an hour. A time is that from the
//! client's start to its exit, divided by `payload × 1480/1424 / (rate (1 − loss)) + 1 RTT`. A failed run counts as
//! infinitely long in the quantiles.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, Result, bail};

use super::emulated::Lab;
use super::quantiles::{Outcome, Tail};
use super::servers::{PACKAGES, Program, Programs, Transfer};
use crate::peers::install;
use crate::tree::{Kind, Shape, make};

const USAGE: &str = "usage: cargo xtask bench tails [--seeds N] [--seed FIRST] [--cells TEXT,...] [--jobs N] [--programs DIR]\n\
    a cell is called like `10kB 10% 3mbit`; TEXT picks those whose name contains it\n\
    --jobs: the most runs at once; without it, as many as a cell's links allow\n\
    --seed: the first seed, which is drawn anew without it";

const FILES: usize = 100;
const SEEDS: u64 = 60;
/// The least and the most concurrent runs.
const JOBS: (usize, usize) = (4, 64);
/// The most bits per second of all concurrent links: a few percent of a core.
const CONCURRENT_BITS_PER_SECOND: f64 = 24e6;
/// The most runs that start per second: each makes network namespaces and starts several programs.
const STARTS_PER_SECOND: f64 = 1.5;
/// The shortest time limit of a run.
const PATIENCE: Duration = Duration::from_secs(120);
/// The time limit of a longer run, as a multiple of its minimum time.
const PATIENCE_FACTOR: f64 = 4.0;
/// The programs, with the names that the tables have for them.
const PROGRAMS: [(Program, &str); 3] =
    [(Program::BraidPlain, "braid"), (Program::Http2, "curl, HTTP/2, BBR"), (Program::Rsync, "rsync, BBR")];
/// The kernel's congestion controller.
const CONTROLLER: &str = "bbr";

#[derive(Debug, Clone, Copy)]
struct Link {
    name: &'static str,
    bits_per_second: f64,
    delay_ms: u32,
}

const LINKS: [Link; 3] = [
    Link { name: "3mbit", bits_per_second: 3e6, delay_ms: 1 },
    Link { name: "1mbit", bits_per_second: 1e6, delay_ms: 35 },
    Link { name: "256kbit", bits_per_second: 256e3, delay_ms: 125 },
];

#[derive(Debug, Clone, Copy)]
struct Cell {
    link: Link,
    file_bytes: u64,
    loss_percent: u32,
}

impl Cell {
    fn all() -> Vec<Self> {
        let mut cells = Vec::new();
        for link in LINKS {
            for file_bytes in [10_000, 50_000] {
                for loss_percent in [3, 10] {
                    cells.push(Self { link, file_bytes, loss_percent });
                }
            }
        }
        cells
    }

    fn name(&self) -> String {
        format!("{}kB {}% {}", self.file_bytes / 1000, self.loss_percent, self.link.name)
    }

    fn path(&self, loss_percent: u32) -> String {
        let Link { name, delay_ms, .. } = self.link;
        format!("rate={name},delay={delay_ms}ms,loss={},queue=500kB", f64::from(loss_percent) / 100.0)
    }

    /// The minimum time of a job at this loss rate, in seconds.
    fn limit(&self, loss_percent: u32) -> f64 {
        let payload = (FILES as u64 * self.file_bytes * 8) as f64;
        let rate = self.link.bits_per_second * (1.0 - f64::from(loss_percent) / 100.0);
        payload * 1480.0 / 1424.0 / rate + 2.0 * f64::from(self.link.delay_ms) / 1000.0
    }

    /// The number of concurrent runs.
    fn jobs(&self, most: usize) -> usize {
        let by_rate = CONCURRENT_BITS_PER_SECOND / self.link.bits_per_second;
        let by_starts = STARTS_PER_SECOND * self.limit(self.loss_percent);
        (by_rate.min(by_starts) as usize).max(JOBS.0).min(most)
    }

    /// The time that a cell takes, in seconds: its runs in rounds of as many as run at once, each 15 % longer than its
    /// limit, and the runs without loss.
    fn expected(&self, seeds: u64, most: usize) -> f64 {
        let rounds = (seeds * PROGRAMS.len() as u64).div_ceil(self.jobs(most) as u64);
        1.15 * (self.limit(self.loss_percent) * rounds as f64 + self.limit(0))
    }

    fn patience(&self) -> Duration {
        PATIENCE.max(Duration::from_secs_f64(PATIENCE_FACTOR * self.limit(self.loss_percent)))
    }
}

struct Options {
    seeds: u64,
    first: u64,
    cells: Vec<Cell>,
    jobs: usize,
    programs: Option<PathBuf>,
}

impl Options {
    fn read(args: &[String]) -> Result<Self> {
        let drawn = SystemTime::now().duration_since(UNIX_EPOCH)?.as_nanos() as u64 % 1_000_000_000;
        let mut options =
            Self { seeds: SEEDS, first: drawn, cells: Cell::all(), jobs: JOBS.1, programs: None };
        let mut args = args.iter();
        while let Some(arg) = args.next() {
            let mut value = || args.next().context(USAGE);
            match arg.as_str() {
                "--seeds" => options.seeds = value()?.parse().context("--seeds takes a number")?,
                "--seed" => options.first = value()?.parse().context("--seed takes a number")?,
                "--jobs" => options.jobs = value()?.parse().context("--jobs takes a number")?,
                "--programs" => options.programs = Some(std::path::absolute(value()?)?),
                "--cells" => {
                    let wanted = value()?;
                    options.cells.retain(|cell| wanted.split(',').any(|text| cell.name().contains(text)));
                }
                _ => bail!("{USAGE}"),
            }
        }
        if options.cells.is_empty() || options.seeds == 0 || options.jobs == 0 {
            bail!("no cell, no seed or no job is left\n{USAGE}");
        }
        Ok(options)
    }
}

/// Runs all cells and prints a table and a verdict for each.
pub(crate) fn run(args: &[String]) -> Result<()> {
    let options = Options::read(args)?;
    install(PACKAGES).context(
        "nginx, curl, rsync and ip are needed: as root, `apt-get install nginx-light curl rsync iproute2`",
    )?;
    let bench = Bench::new(&options)?;
    bench.programs.print_versions(&[
        ("/usr/sbin/nginx", "-v"),
        ("curl", "--version"),
        ("rsync", "--version"),
        ("uname", "-sr"),
    ])?;
    let minutes = |cells: &[Cell]| {
        cells.iter().map(|cell| cell.expected(options.seeds, options.jobs)).sum::<f64>() / 60.0
    };
    println!(
        "first seed {}, {} seeds, HTTP/2 over TLS 1.3; {} cells, expected to take about {:.0} minutes in all (--cells TEXT \
         runs some of them)",
        options.first,
        options.seeds,
        options.cells.len(),
        minutes(&options.cells)
    );
    let mut missed = Vec::new();
    for cell in &options.cells {
        if let Some(verdict) = bench.cell(cell, &options)? {
            missed.push(format!("{}: {verdict}", cell.name()));
        }
    }
    if !missed.is_empty() {
        bail!("braid is slower than the better peer: {}", missed.join("; "));
    }
    Ok(())
}

struct Bench {
    programs: Programs,
    lab: Lab,
}

/// One run: a program and a seed.
#[derive(Debug, Clone, Copy)]
struct Task {
    program: Program,
    seed: u64,
    loss_percent: u32,
}

impl Bench {
    fn new(options: &Options) -> Result<Self> {
        let folder = super::released(options.programs.clone())?;
        let programs = Programs { braidftp: folder.join("braidftp"), http3: None, qcp: None };
        let jobs = options.cells.iter().map(|cell| cell.jobs(options.jobs)).max().unwrap_or(0);
        Ok(Self { programs, lab: Lab::new("tails", folder.join("braidlab"), jobs)? })
    }

    /// Runs one cell. Returns the quantiles at which braid is slower.
    fn cell(&self, cell: &Cell, options: &Options) -> Result<Option<String>> {
        let tree = self.lab.dir.join("tree");
        let _ = fs::remove_dir_all(&tree);
        make(&tree, &Shape { files: FILES, seed: 1, big: 0, kind: Kind::Plain { size: cell.file_bytes } })?;
        let task = |program, seed, loss_percent| Task { program, seed, loss_percent };
        let clean = PROGRAMS.map(|(program, _)| task(program, options.first, 0));
        println!(
            "\n{}: {FILES} files, {} each way; {} runs at once, about {:.0} minutes",
            cell.name(),
            cell.path(cell.loss_percent),
            cell.jobs(options.jobs),
            (cell.expected(options.seeds, options.jobs) / 60.0).max(1.0)
        );
        let outcomes = self.all(cell, &tree, &clean, options.jobs)?;
        for (task, outcome) in clean.iter().zip(&outcomes) {
            match outcome {
                Ok(ratio) => println!("without loss: {} {ratio:.3} of the limit", task.program.name()),
                Err(why) => bail!("{} fails even without loss: {why}", task.program.name()),
            }
        }
        let mut tasks = Vec::new();
        for seed in 0..options.seeds {
            let seed = options.first.wrapping_add(seed);
            tasks.extend(PROGRAMS.map(|(program, _)| task(program, seed, cell.loss_percent)));
        }
        let outcomes = self.all(cell, &tree, &tasks, options.jobs)?;
        println!("| program | median | p90 | p95 | p99 | worst | its seed | failures |");
        println!("|---|---|---|---|---|---|---|---|");
        let tails: Vec<_> = PROGRAMS
            .iter()
            .map(|(program, name)| {
                let own = tasks.iter().zip(&outcomes).filter(|(task, _)| task.program == *program);
                let tail = Tail::of(own.map(|(task, outcome)| (task.seed, outcome)));
                println!("| {name} | {} |", row(&tail));
                tail
            })
            .collect();
        let missed = missed(&tails[0], &tails[1..]);
        println!("verdict: {}", missed.as_deref().unwrap_or("braid is no slower than the better peer"));
        Ok(missed)
    }

    /// Runs all tasks, as many at once as the cell allows, and at most `most`.
    fn all(&self, cell: &Cell, tree: &Path, tasks: &[Task], most: usize) -> Result<Vec<Outcome>> {
        self.lab.all(tasks, cell.jobs(most), |task, net| self.one(cell, tree, task, net))
    }

    fn one(&self, cell: &Cell, tree: &Path, task: &Task, name: &str) -> Result<Outcome> {
        let net = self.lab.up(name, task.seed, &cell.path(task.loss_percent))?;
        net.set_congestion(CONTROLLER)?;
        let dir = &self.lab.clean_dir(name)?;
        let transfer = Transfer { program: task.program, controller: CONTROLLER, tree, dir };
        let _server = self.programs.serve(&net, &transfer)?;
        let outcome = self.programs.fetch(&net, &transfer, cell.patience())?;
        Ok(outcome.map(|seconds| seconds / cell.limit(task.loss_percent)))
    }
}

/// The columns of a table after the program's name.
fn row(tail: &Tail) -> String {
    let values = [50, 90, 95, 99, 100].map(|percent| format!("{:.3}", tail.at(percent)));
    let seed = tail.sorted.last().map_or(0, |worst| worst.1);
    format!("{} | {seed} | {}", values.join(" | "), tail.failures())
}

/// The quantiles at which braid is slower than the better peer.
fn missed(braid: &Tail, peers: &[Tail]) -> Option<String> {
    let mut missed = Vec::new();
    for (name, percent) in [("median", 50), ("p90", 90), ("p95", 95), ("worst", 100)] {
        let better = peers.iter().map(|peer| peer.at(percent)).fold(f64::INFINITY, f64::min);
        if braid.at(percent) > better {
            missed.push(format!("{name} {:.3}, the better peer's {better:.3}", braid.at(percent)));
        }
    }
    (!missed.is_empty()).then(|| missed.join(", "))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tail(values: &[Outcome]) -> Tail {
        Tail::of((0..).zip(values))
    }

    #[test]
    fn a_row_names_the_worst_run_and_the_failures() {
        let row = row(&tail(&[Ok(1.0), Err("exit code 8".to_owned()), Ok(2.0)]));
        assert_eq!(row, "2.000 | inf | inf | inf | inf | 1 | 1 × exit code 8");
    }

    #[test]
    fn each_quantile_is_compared_with_the_better_peer() {
        let (one, two) = (tail(&[Ok(1.0), Ok(3.0)]), tail(&[Ok(2.0), Ok(2.0)]));
        assert_eq!(missed(&tail(&[Ok(1.0), Ok(2.0)]), &[one, two]), None);
        let (one, two) = (tail(&[Ok(1.0), Ok(3.0)]), tail(&[Ok(2.0), Ok(2.0)]));
        let said = missed(&tail(&[Ok(1.0), Ok(2.5)]), &[one, two]).unwrap();
        assert!(said.contains("worst 2.500") && !said.contains("median"), "{said}");
    }

    #[test]
    fn the_limit_is_payload_over_rate_plus_a_round_trip() {
        let cell = Cell { link: LINKS[0], file_bytes: 10_000, loss_percent: 10 };
        assert!((cell.limit(10) - 3.0815).abs() < 0.001, "{}", cell.limit(10));
        assert_eq!(cell.name(), "10kB 10% 3mbit");
    }

    #[test]
    fn slow_links_run_many_at_a_time_and_all_cells_take_about_an_hour() {
        let cell = |link: usize, file_bytes| Cell { link: LINKS[link], file_bytes, loss_percent: 10 };
        assert_eq!([0, 1, 2].map(|link| cell(link, 50_000).jobs(JOBS.1)), [8, 24, 64]);
        assert_eq!(cell(0, 10_000).jobs(JOBS.1), 4, "runs of three seconds: few start at once");
        assert_eq!(cell(2, 50_000).jobs(2), 2, "--jobs bounds them");
        let minutes = Cell::all().iter().map(|cell| cell.expected(SEEDS, JOBS.1)).sum::<f64>() / 60.0;
        assert!((50.0..75.0).contains(&minutes), "{minutes}");
    }
}
