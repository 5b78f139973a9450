//! The contents of the report: the stored results of each figure, and the verdict on each claim.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::claim::{Claim, Finding, Paper};
use crate::compare;
use crate::data::Data;
use crate::figure::{Figure, Kind, LiveSweep};
use crate::store::csv::Head;
use crate::store::{Store, Variety};
use crate::table::{Rows, Table};

/// All contents of a page.
#[derive(Debug)]
pub struct Report {
    /// By paper.
    pub papers: Vec<PaperPart>,
}

/// The contents for a paper.
#[derive(Debug)]
pub struct PaperPart {
    /// The paper.
    pub paper: &'static Paper,
    /// Its figures, in order.
    pub figures: Vec<Kept>,
    /// Its claims, in order.
    pub claims: Vec<Judged>,
}

/// A figure with its stored results.
#[derive(Debug)]
pub struct Kept {
    /// The figure.
    pub figure: &'static Figure,
    /// Its results, or why there are none.
    pub found: Result<Found, String>,
}

/// The stored results of a figure.
#[derive(Debug)]
pub struct Found {
    /// The data.
    pub results: Results,
    /// Their provenance.
    pub head: Head,
    /// Whether `--quick` made them.
    pub quick: bool,
}

/// The data of a figure.
#[derive(Debug)]
pub enum Results {
    /// Of a sweep.
    Sweep(Table),
    /// Of a scene, with its picture.
    Scene {
        /// Its rows.
        rows: Rows,
        /// Its picture, if it is stored.
        svg: Option<String>,
    },
}

/// A claim with its result.
#[derive(Debug)]
pub struct Judged {
    /// The claim.
    pub claim: &'static Claim,
    /// The result.
    pub outcome: Outcome,
}

/// The result of a claim.
#[derive(Debug)]
pub enum Outcome {
    /// It was checked.
    Found(Finding),
    /// Figures that decide it were not run, are incomplete, or were made by `--quick`, which decides
    /// nothing.
    NotRun(Vec<&'static str>),
    /// The stored results lack data that it needs.
    Undecided(Vec<&'static str>),
}

impl Found {
    /// Whether the figure is complete: all points, with as many runs as needed. A scene is always complete.
    pub fn is_whole(&self) -> bool {
        match &self.results {
            Results::Sweep(table) => {
                !self.quick && (0..table.points().len()).all(|point| table.cell(point).runs() > 0)
            }
            Results::Scene { .. } => !self.quick,
        }
    }
}

impl Report {
    /// Loads the stored results of these papers. A complete figure has priority over one made by `--quick`.
    pub fn gather(papers: &[&'static Paper], store: &Store) -> Self {
        let mut data = Data::default();
        let mut parts = Vec::new();
        for paper in papers {
            let figures: Vec<Kept> =
                (paper.figures)().iter().map(|figure| Kept::take(figure, store)).collect();
            for Kept { figure, found } in &figures {
                match found {
                    Ok(found) if !found.is_whole() => {}
                    Ok(Found { results: Results::Sweep(table), .. }) => data.add_table(figure, table.clone()),
                    Ok(Found { results: Results::Scene { rows, .. }, .. }) => {
                        data.add_scene(figure, rows.clone());
                    }
                    Err(_) => {}
                }
            }
            parts.push(PaperPart { paper, figures, claims: Vec::new() });
        }
        if let Some((_, rows)) = compare::rows::kept(store.folder()) {
            data.add_compared(&rows);
        }
        // A claim may use another paper's figures.
        for part in &mut parts {
            part.claims = part.paper.claims().map(|claim| judge(claim, &data)).collect();
        }
        Self { papers: parts }
    }
}

impl Kept {
    /// Loads the stored results of a figure.
    pub fn take(figure: &'static Figure, store: &Store) -> Self {
        let mut why = None;
        for quick in [false, true] {
            match read(figure, store, Variety { quick, shard: None }) {
                Ok(Some((results, head))) => {
                    return Self { figure, found: Ok(Found { results, head, quick }) };
                }
                Ok(None) => {}
                Err(error) => why = why.or(Some(error)),
            }
        }
        Self { figure, found: Err(why.unwrap_or_else(|| "It was not run yet.".to_owned())) }
    }
}

fn read(figure: &'static Figure, store: &Store, variety: Variety) -> Result<Option<(Results, Head)>, String> {
    match &figure.kind {
        Kind::Sweep(sweep) | Kind::Live(LiveSweep { sweep, .. }) => {
            let read =
                store.sweep(figure, sweep, variety).map_err(|error| format!("Its results: {error}"))?;
            Ok(read.map(|read| (Results::Sweep(Table::new(figure, sweep, read.records)), read.head)))
        }
        Kind::Scene(_) | Kind::Film(_) => {
            let read = store.scene(figure, variety).map_err(|error| format!("Its results: {error}"))?;
            let Some((head, rows)) = read else { return Ok(None) };
            let svg = std::fs::read_to_string(store.path(figure, variety, "svg")).ok();
            Ok(Some((Results::Scene { rows, svg }, head)))
        }
    }
}

fn judge(claim: &'static Claim, data: &Data) -> Judged {
    let missing: Vec<&'static str> = claim.needs.iter().copied().filter(|id| !data.has(id)).collect();
    if !missing.is_empty() {
        return Judged { claim, outcome: Outcome::NotRun(missing) };
    }
    // A check that panics must not hide the others.
    let outcome = match catch_unwind(AssertUnwindSafe(|| (claim.check)(data))) {
        Ok(finding) => Outcome::Found(finding),
        Err(_) => Outcome::Undecided(claim.needs.to_vec()),
    };
    Judged { claim, outcome }
}
