//! The commands of `braidlab`, one module each, and their common options.

pub(crate) mod check;
pub(crate) mod compare;
pub(crate) mod film;
pub(crate) mod link;
pub(crate) mod list;
pub(crate) mod merge;
pub(crate) mod net;
pub(crate) mod new;
mod one_run;
pub(crate) mod profiles;
pub(crate) mod qlog;
pub(crate) mod replay;
pub(crate) mod report;
pub(crate) mod run;
pub(crate) mod schema;
pub(crate) mod view;

use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::Duration;

use braidftp_lab::bench::{Bench, BenchError, Fresh, Options, Quick, Reporter};
use braidftp_lab::figure::Figure;
use braidftp_lab::scenario::worlds::Worlds;
use braidftp_lab::scenario::{self, Cost, LoadError, Scenario};
use braidftp_lab::store::Store;
use braidftp_lab::table::Table;
use braidftp_lab::{papers, stats};
use clap::Args as ClapArgs;
use indicatif::{ProgressBar, ProgressStyle};

use crate::Failure;

/// Topics without a published paper, whose claims are checked on the cells that were run.
const JUDGED_AT_ONCE: [&str; 4] = ["utilisation", "fairness", "multipath", "early"];

/// Options for running figures.
#[derive(Debug, Clone, ClapArgs)]
pub(crate) struct Running {
    /// The folder of results: OUT/PAPER/FIGURE.csv and related files
    #[arg(long, value_name = "DIR", default_value = "results")]
    pub(crate) out: PathBuf,
    /// Run few points, few times, as a smoke test; stored separately
    #[arg(long)]
    pub(crate) quick: bool,
    /// Replace stored results
    #[arg(long)]
    pub(crate) fresh: bool,
    /// The number of threads [default: the number of cores]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=4_096))]
    pub(crate) threads: Option<u16>,
    /// The base of all seeds
    #[arg(long, default_value_t = 1)]
    pub(crate) seed: u64,
    /// The maximum number of runs of a point [default: as the figure says]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) runs: Option<u32>,
}

impl Running {
    pub(crate) fn bench(&self) -> Bench {
        let defaults = Options::default();
        let options = Options {
            quick: if self.quick { Quick::Yes } else { Quick::No },
            fresh: if self.fresh { Fresh::Yes } else { Fresh::No },
            threads: self.threads.map_or(defaults.threads, usize::from),
            seed: self.seed,
            runs_max: self.runs,
            command: command(),
            ..defaults
        };
        Bench { store: Store::new(&self.out), options }
    }
}

/// The command line.
fn command() -> String {
    let words: Vec<String> = std::env::args().skip(1).collect();
    format!("braidlab {}", words.join(" "))
}

impl From<BenchError> for Failure {
    fn from(error: BenchError) -> Self {
        match error {
            BenchError::Store(_) | BenchError::Append { .. } => Self::File(error.to_string()),
            BenchError::Run { .. } | BenchError::Cancelled { .. } | BenchError::Picture(_) => {
                Self::Usage(error.to_string())
            }
        }
    }
}

/// Whether an id is a scenario file.
pub(crate) fn is_scenario(id: &str) -> bool {
    Path::new(id).extension().is_some_and(|ending| ending.eq_ignore_ascii_case("toml"))
}

/// Reads a scenario file.
pub(crate) fn load(id: &str) -> Result<Scenario, Failure> {
    scenario::load(Path::new(id)).map_err(refused)
}

/// The figures that a command names.
#[derive(Debug, Default)]
pub(crate) struct Chosen {
    /// The figures of papers, figures and scenario files, each once.
    pub(crate) figures: Vec<&'static Figure>,
    /// The scenarios among them.
    pub(crate) scenarios: Vec<Scenario>,
}

impl Chosen {
    /// The scenario of a figure, if it is one.
    pub(crate) fn scenario(&self, figure: &Figure) -> Option<&Scenario> {
        self.scenarios.iter().find(|scenario| scenario.figure.id == figure.id)
    }
}

/// The figures of papers, figures and scenario files.
pub(crate) fn chosen(ids: &[String]) -> Result<Chosen, Failure> {
    let mut chosen = Chosen::default();
    for id in ids {
        let (found, scenario) = match is_scenario(id) {
            true => load(id).map(|scenario| (vec![scenario.figure], Some(scenario)))?,
            false => papers::find_figures(std::slice::from_ref(id))
                .map(|figures| (figures, None))
                .map_err(|unknown| Failure::Usage(unknown.to_string()))?,
        };
        for figure in found {
            if !chosen.figures.iter().any(|its| its.id == figure.id) {
                chosen.figures.push(figure);
            }
        }
        chosen.scenarios.extend(scenario);
    }
    Ok(chosen)
}

/// Explains the infinite completion times and the failed runs of a scenario.
pub(crate) fn unended(scenario: &Scenario, table: &Table) -> String {
    scenario.unended(table).into_iter().map(|line| format!("  {line}\n")).collect()
}

/// Says how long the runs of a scenario take, before they begin.
pub(crate) fn announce(bench: &Bench, scenario: &Scenario, progress: &Progress) -> Result<(), Failure> {
    let Some(sweep) = scenario.figure.sweep() else { return Ok(()) };
    say(&scenario.cost(&bench.part(sweep)), progress)
}

/// Says how long the runs of a scenario take in both worlds, before they begin.
pub(crate) fn announce_worlds(
    bench: &Bench,
    scenario: &Scenario,
    worlds: &Worlds,
    progress: &Progress,
) -> Result<(), Failure> {
    let Some(sweep) = worlds.figure.sweep() else { return Ok(()) };
    say(&scenario.cost_of_worlds(&bench.part(sweep), worlds), progress)
}

fn say(cost: &Cost, progress: &Progress) -> Result<(), Failure> {
    let lines = cost.says().map_err(Failure::Usage)?;
    lines.iter().for_each(|line| progress.say(line));
    Ok(())
}

/// Why a scenario cannot be used.
pub(crate) fn refused(error: LoadError) -> Failure {
    match error {
        LoadError::Read(_) => Failure::File(error.to_string()),
        LoadError::Wrong(_) => Failure::Usage(error.to_string()),
    }
}

/// Prints to standard output.
pub(crate) fn print(text: &str) -> Result<(), Failure> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes())
        .and_then(|()| out.flush())
        .map_err(|error| Failure::File(format!("cannot write to standard output: {error}")))
}

/// A progress bar on a terminal, else occasional lines.
pub(crate) struct Progress {
    bar: ProgressBar,
}

impl Progress {
    pub(crate) fn new() -> Self {
        let bar = ProgressBar::new(0);
        let style =
            ProgressStyle::with_template("{msg:32} {bar:30} {pos}/{len} runs  {elapsed} ({eta} to go)");
        bar.set_style(style.unwrap_or_else(|_| ProgressStyle::default_bar()));
        bar.enable_steady_tick(Duration::from_millis(200));
        Self { bar }
    }

    /// Prints a line above the bar.
    pub(crate) fn say(&self, line: &str) {
        if self.bar.is_hidden() {
            eprintln!("{line}");
        } else {
            self.bar.println(line);
        }
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

impl Reporter for Progress {
    fn on_figure(&mut self, figure: &'static Figure, known: usize) {
        if known > 0 {
            self.say(&format!("{}: continues with {}", figure.id, stats::count(known, "stored run")));
        }
        self.bar.reset();
        self.bar.set_length(0);
        self.bar.set_message(figure.id);
    }

    fn on_run(&mut self, done: u64, planned: u64) {
        self.bar.set_length(planned);
        self.bar.set_position(done);
    }

    fn on_capped(&mut self, what: &str) {
        self.say(&format!("capped: {what}"));
    }

    fn on_failed(&mut self, what: &str) {
        self.say(&format!("failed: {what}"));
    }

    fn on_note(&mut self, note: &str) {
        self.say(note);
    }
}
