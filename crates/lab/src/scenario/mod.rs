//! Scenarios: experiments that a TOML file describes. A scenario is read into a [`Figure`], and then runs, is stored and
//! drawn like any other.
//!
//! ```text
//! text -> tree (places) -> check (by shape, the reference) -> axes, names
//!      -> for each point: view -> plan (network, workloads) -> run -> numbers
//! ```
//! What is wrong in a file is found before the first run: every point is read when the file is.

mod axes;
mod check;
mod cost;
mod decide;
mod distribution;
mod effects;
pub mod expression;
mod figure;
mod files;
pub mod live;
mod measure;
mod names;
mod network;
mod plan;
pub mod quantity;
mod resident;
mod run;
pub mod schema;
mod shape;
pub mod templates;
mod traced;
mod transports;
pub mod tree;
mod unended;
mod view;
mod words;
mod workloads;
pub mod worlds;

use std::path::{Path, PathBuf};

use braidftp_cc as cc;
pub use cost::{Cost, Part};
pub use run::{Look, Shot, ShotOfLink, Watcher};
pub use traced::{Traceable, Traced, TracedEnd};
pub use tree::ScenarioError;

use crate::claim::Finding;
use crate::figure::{Figure, Point, Row};
use crate::table::Table;

/// The maximum length of a scenario file in bytes.
const BYTES_MAX: u64 = 4 << 20;

/// Runs a point with a seed, observed by a watcher.
type Watched = &'static (dyn Fn(&Point, u64, &mut dyn Watcher) -> Row + Sync);

/// A scenario that was read and checked.
pub struct Scenario {
    /// Its figure.
    pub figure: &'static Figure,
    /// Its claims.
    pub expects: Vec<Expectation>,
    watched: Watched,
    document: &'static figure::Document,
    /// The name and the text of the file, for errors.
    file: String,
    text: String,
}

impl std::fmt::Debug for Scenario {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { figure, expects, .. } = self;
        f.debug_struct("Scenario").field("figure", figure).field("expects", expects).finish_non_exhaustive()
    }
}

impl Scenario {
    /// The same scenario as a figure that is run in the simulator and live.
    ///
    /// # Errors
    ///
    /// Something in the file exists only simulated.
    pub fn in_both_worlds(&self, tools: &live::Tools) -> Result<worlds::Worlds, LoadError> {
        let wrong = |wrong| LoadError::Wrong(ScenarioError::new(&self.file, &self.text, wrong));
        worlds::worlds(self.figure, self.document, tools).map_err(wrong)
    }

    /// Estimates how long a part of it takes, simulated.
    pub fn cost(&self, part: &Part) -> Cost {
        cost::simulated(self.document, self.figure, part)
    }

    /// Estimates how many seconds a simulated run of each point takes on one thread of this machine.
    pub fn seconds_of_runs(&self) -> Vec<f64> {
        cost::seconds_of_runs(self.document, self.figure)
    }

    /// Estimates how long a part of it takes in both worlds.
    pub fn cost_of_worlds(&self, part: &Part, both: &worlds::Worlds) -> Cost {
        let at_once = |plan: &plan::Plan| live::at_once(plan).min(worlds::RUNS_PER_THREAD * part.threads);
        cost::in_both_worlds(self.document, both.figure, part, &at_once, worlds::is_live)
    }

    /// Runs one point of the sweep once with a watcher. The numbers are those of a run without a watcher.
    pub fn watch(&self, point: &Point, seed: u64, watcher: &mut dyn Watcher) -> Row {
        (self.watched)(point, seed, watcher)
    }

    /// The workloads of a point, in the order of [`Traced::workload`].
    pub fn traceable(&self, point: &Point) -> Vec<Traceable> {
        self.document.plan(point).workloads.iter().map(workloads::Workload::traceable).collect()
    }
}

/// A claim of a scenario.
#[derive(Debug)]
pub struct Expectation {
    /// The text of the claim.
    pub text: String,
    claim: expression::Claim,
    axes: &'static [axes::Axis],
}

impl Expectation {
    /// Decides the claim from the runs of the scenario.
    pub fn decide(&self, table: &Table) -> Finding {
        decide::decide(&self.claim, self.axes, table)
    }
}

/// Returns the unit in which a number of a base unit is best read, and its size: 19,326,566 bit/s are 19.3 Mbit/s.
pub fn readable(unit: &'static str, number: f64) -> (&'static str, f64) {
    match quantity::unit(unit) {
        Some((dimension, 1.0)) => dimension.readable(number),
        _ => (unit, 1.0),
    }
}

/// Why a scenario cannot be used.
#[derive(Debug)]
pub enum LoadError {
    /// It cannot be read.
    Read(String),
    /// It is invalid.
    Wrong(ScenarioError),
}

impl std::fmt::Display for LoadError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Read(what) => f.write_str(what),
            Self::Wrong(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for LoadError {}

/// Reads a scenario file. Results of `DIR/NAME.toml` are called `NAME`; files that it names are in the same
/// folder.
///
/// # Errors
///
/// The file cannot be read or is invalid.
pub fn load(path: &Path) -> Result<Scenario, LoadError> {
    let shown = path.display().to_string();
    let failed = |what: String| LoadError::Read(format!("cannot read the scenario {shown}: {what}"));
    let length = std::fs::metadata(path).map_err(|error| failed(error.to_string()))?.len();
    if length > BYTES_MAX {
        return Err(failed(format!("it is longer than {} MiB", BYTES_MAX >> 20)));
    }
    let text = std::fs::read_to_string(path).map_err(|error| failed(error.to_string()))?;
    let id = path.file_stem().and_then(|name| name.to_str()).unwrap_or("scenario");
    let folder = Some(path.parent().unwrap_or(Path::new("")).to_owned());
    Source { id, text: &text, shown: &shown, folder, controllers: Vec::new(), notes: Vec::new() }
        .read()
        .map_err(LoadError::Wrong)
}

/// A scenario's text, and the additions of a program.
#[derive(Debug)]
pub struct Source<'a> {
    /// The name of its results.
    pub id: &'a str,
    /// The text of the file.
    pub text: &'a str,
    /// The name of the file in errors.
    pub shown: &'a str,
    /// The folder of the files that it names; `None`: it must not name any.
    pub folder: Option<PathBuf>,
    /// Controllers in addition to those of `cc`.
    pub controllers: Vec<cc::External>,
    /// Additional lines for the head of its results: results with other lines are not reused.
    pub notes: Vec<String>,
}

impl Source<'_> {
    /// Reads the scenario. The result is never dropped: a program reads each text once.
    ///
    /// # Errors
    ///
    /// It is invalid.
    pub fn read(self) -> Result<Scenario, ScenarioError> {
        let Self { id, text, shown, folder, controllers, notes } = self;
        let digest = format!("scenario: BLAKE3 {}", &blake3::hash(text.as_bytes()).to_hex()[..16]);
        let added = Added { controllers, notes: [vec![digest], notes].concat(), ..Added::default() };
        read(id, text, shown, files::Files::new(folder), added)
    }
}

/// The additions of a program to the text of a scenario.
#[derive(Debug, Default)]
struct Added {
    /// The name and the text of the file.
    file: String,
    text: String,
    controllers: Vec<cc::External>,
    notes: Vec<String>,
}

/// Reads a scenario from a text, which must not name files. Results are called `id`.
///
/// # Errors
///
/// It is invalid.
pub fn parse(id: &str, text: &str) -> Result<Scenario, ScenarioError> {
    read(id, text, &format!("{id}.toml"), files::Files::new(None), Added::default())
}

/// Reads a scenario that is part of the program.
///
/// # Panics
///
/// If it is invalid.
pub fn built_in(id: &str, text: &str) -> Figure {
    *parse(id, text).unwrap_or_else(|error| panic!("{error}")).figure
}

fn read(
    id: &str,
    text: &str,
    shown: &str,
    files: files::Files,
    added: Added,
) -> Result<Scenario, ScenarioError> {
    let added = Added { file: shown.to_owned(), text: text.to_owned(), ..added };
    let root = tree::parse(text);
    let read = root.and_then(|root| figure::read(id, root, files, added));
    read.map_err(|wrong| ScenarioError::new(shown, text, wrong))
}
