//! What is there to report: of each figure what is kept of it, and of each claim what that decides.

use std::panic::{AssertUnwindSafe, catch_unwind};

use crate::compare;
use crate::figure::{Claim, Figure, Finding, Kind, LiveSweep, Paper};
use crate::store::csv::Head;
use crate::store::{Store, Variety};
use crate::table::{Data, Rows, Table};

/// All that a page says.
#[derive(Debug)]
pub struct Report {
    /// By paper.
    pub papers: Vec<PaperPart>,
}

/// What it says of a paper.
#[derive(Debug)]
pub struct PaperPart {
    /// Which.
    pub paper: &'static Paper,
    /// Its figures, in order.
    pub figures: Vec<Kept>,
    /// Its claims, in order.
    pub claims: Vec<Judged>,
}

/// A figure, and what is kept of it.
#[derive(Debug)]
pub struct Kept {
    /// Which.
    pub figure: &'static Figure,
    /// Its numbers; or why there are none.
    pub found: Result<Found, String>,
}

/// The numbers of a figure.
#[derive(Debug)]
pub struct Found {
    /// They themselves.
    pub results: Results,
    /// Where they are from.
    pub head: Head,
    /// Whether they are of few points and few runs.
    pub quick: bool,
}

/// The numbers themselves.
#[derive(Debug)]
pub enum Results {
    /// Of a sweep.
    Sweep(Table),
    /// Of a scene, with its picture.
    Scene {
        /// Its rows.
        rows: Rows,
        /// Its picture, if it is kept.
        svg: Option<String>,
    },
}

/// A claim, and what came of it.
#[derive(Debug)]
pub struct Judged {
    /// Which.
    pub claim: &'static Claim,
    /// What came of it.
    pub outcome: Outcome,
}

/// What came of a claim.
#[derive(Debug)]
pub enum Outcome {
    /// It was checked.
    Found(Finding),
    /// Figures that decide it were not run, or not at all of their points, or by `--quick`: few runs decide nothing.
    NotRun(Vec<&'static str>),
    /// What is kept of them does not have what it asks for.
    Undecided(Vec<&'static str>),
}

impl Found {
    /// Whether it is as its figure says: all points, as many runs as it takes. A scene is one run, in any case.
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
    /// What is kept in a folder, of these papers. A figure that was run whole comes before what `--quick` left of it.
    pub fn gather(papers: &[&'static Paper], store: &Store) -> Self {
        let mut data = Data::default();
        let mut parts = Vec::new();
        for paper in papers {
            let figures: Vec<Kept> = paper.figures.iter().map(|figure| Kept::take(figure, store)).collect();
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
        // A claim may ask for another paper's figures, too.
        for part in &mut parts {
            part.claims = part.paper.claims().map(|claim| judge(claim, &data)).collect();
        }
        Self { papers: parts }
    }
}

impl Kept {
    /// What is kept of a figure.
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
    // One that fails is no reason to show nothing of the others.
    let outcome = match catch_unwind(AssertUnwindSafe(|| (claim.check)(data))) {
        Ok(finding) => Outcome::Found(finding),
        Err(_) => Outcome::Undecided(claim.needs.to_vec()),
    };
    Judged { claim, outcome }
}
