//! The numbers of a figure's runs, as claims and pictures ask for them.

use std::collections::BTreeMap;
use std::fmt;

use crate::compare::{self, judge::Judged};
use crate::figure::{Figure, Point, Sweep};
use crate::stats::{self, Estimate};

/// One run of one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// Which point, by its place in the figure's list.
    pub point: usize,
    /// Which run of it, from 0.
    pub run: u32,
    /// What it started from.
    pub seed: u64,
    /// Its numbers, by column.
    pub numbers: Vec<f64>,
}

/// All runs of a figure.
#[derive(Debug, Clone)]
pub struct Table {
    sweep: &'static Sweep,
    id: &'static str,
    points: Vec<Point>,
    /// By point, and by run within a point.
    records: Vec<Record>,
}

impl Table {
    /// These runs, of which none may be there twice.
    pub fn new(figure: &'static Figure, sweep: &'static Sweep, mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| (record.point, record.run));
        Self { sweep, id: figure.id, points: sweep.points(), records }
    }

    /// All runs, by point and run.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The figure's points, whether they were run or not.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// What the figure varies.
    pub fn sweep(&self) -> &'static Sweep {
        self.sweep
    }

    /// The runs of the one point that a text like `size=10000 loss=0.1 variant=tcp` names.
    ///
    /// # Panics
    /// If it names none or several, or one that was not run: a claim asks for what its figure does not have.
    pub fn at(&self, selector: &str) -> Cell<'_> {
        let cells = self.all(selector);
        assert_eq!(cells.len(), 1, "{}: `{selector}` names {} points that were run", self.id, cells.len());
        cells.into_iter().next().expect("there is one")
    }

    /// The runs of all points that a text like `loss=0.1` names, those that were run.
    pub fn all(&self, selector: &str) -> Vec<Cell<'_>> {
        let matching = |index: &usize| matches(&self.points[*index], selector);
        let cells = (0..self.points.len()).filter(matching).map(|index| self.cell(index));
        cells.filter(|cell| !cell.records.is_empty()).collect()
    }

    /// The runs of a point, by its place.
    pub fn cell(&self, point: usize) -> Cell<'_> {
        let start = self.records.partition_point(|record| record.point < point);
        let end = self.records.partition_point(|record| record.point <= point);
        Cell { table: self, point: &self.points[point], records: &self.records[start..end] }
    }
}

/// Whether a point has all the values that a text names; an axis that it does not know matches nothing.
pub fn matches(point: &Point, selector: &str) -> bool {
    let mut wanted = selector.split([' ', ',']).filter(|part| !part.is_empty());
    wanted.all(|part| {
        let (axis, value) = part.split_once('=').unwrap_or((part, ""));
        point.places().iter().any(|(name, place)| *name == axis && place.to_string() == value)
    })
}

/// The runs of one point.
#[derive(Debug, Clone, Copy)]
pub struct Cell<'a> {
    table: &'a Table,
    point: &'a Point,
    records: &'a [Record],
}

impl<'a> Cell<'a> {
    /// Where it is.
    pub fn point(&self) -> &'a Point {
        self.point
    }

    /// How many runs there are.
    pub fn runs(&self) -> usize {
        self.records.len()
    }

    /// What its first run started from.
    ///
    /// # Panics
    /// If it was not run.
    pub fn first_seed(&self) -> u64 {
        self.records.first().expect("it was run").seed
    }

    /// One number of all runs.
    ///
    /// # Panics
    /// If the figure has no such column.
    pub fn values(&self, column: &str) -> Vec<f64> {
        let columns = self.table.sweep.columns;
        let place = columns.iter().position(|its| its.name == column);
        let place = place.unwrap_or_else(|| panic!("{}: there is no column `{column}`", self.table.id));
        self.records.iter().map(|record| record.numbers[place]).collect()
    }

    /// The mean of a number.
    pub fn mean(&self, column: &str) -> Estimate {
        stats::mean(&self.values(column))
    }

    /// A quantile of a number, as in 0.5 for the median.
    pub fn quantile(&self, column: &str, part: f64) -> f64 {
        stats::quantile(&self.values(column), part)
    }

    /// The least value that this part of all runs does not exceed: one that a run has.
    pub fn reached_by(&self, column: &str, part: f64) -> f64 {
        let mut values = self.values(column);
        values.sort_by(f64::total_cmp);
        stats::reached_by(&values, part)
    }

    /// How the values of a column are distributed.
    pub fn tail(&self, column: &str) -> Tail {
        let mut values = self.values(column);
        let worst = values.iter().enumerate().max_by(|a, b| a.1.total_cmp(b.1)).map_or(0, |(place, _)| place);
        let worst_seed = self.records[worst].seed;
        values.sort_by(f64::total_cmp);
        let [p50, p75, p90, p95, p99] =
            [0.5, 0.75, 0.9, 0.95, 0.99].map(|part| stats::reached_by(&values, part));
        let failures = values.iter().filter(|value| !value.is_finite()).count();
        let worst = values.last().copied().unwrap_or(f64::NAN);
        Tail { runs: values.len(), p50, p75, p90, p95, p99, worst, worst_seed, failures }
    }

    /// How many times as large a number is here as there: by the runs that both have, which are pairs; or by all runs, as
    /// if they were none, where one side has more than twice as many.
    pub fn ratio(&self, to: &Self, column: &str) -> Estimate {
        let (few, many) = (self.runs().min(to.runs()), self.runs().max(to.runs()));
        if many > 2 * few && few > 1 {
            return stats::quotient(self.mean(column), to.mean(column));
        }
        let (of, to) = self.pairs(to, column);
        stats::ratio(&of, &to)
    }

    /// By how much a number is larger here than there, by the runs that both have.
    pub fn minus(&self, other: &Self, column: &str) -> Estimate {
        let (of, minus) = self.pairs(other, column);
        stats::difference(&of, &minus)
    }

    fn pairs(&self, other: &Self, column: &str) -> (Vec<f64>, Vec<f64>) {
        let (mut of, mut to) = (self.values(column), other.values(column));
        let count = of.len().min(to.len());
        of.truncate(count);
        to.truncate(count);
        (of, to)
    }
}

/// How the values of all runs of a point are distributed. A part's value is the least that so many do not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// How many runs.
    pub runs: usize,
    /// The median.
    pub p50: f64,
    /// What three quarters do not exceed.
    pub p75: f64,
    /// What nine tenths do not exceed.
    pub p90: f64,
    /// What 95 % do not exceed.
    pub p95: f64,
    /// What 99 % do not exceed.
    pub p99: f64,
    /// The largest; infinite where a run failed.
    pub worst: f64,
    /// What the run with the largest started from.
    pub worst_seed: u64,
    /// Runs that failed.
    pub failures: usize,
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, p50, p75, p90, p95, p99, worst, worst_seed, failures } = self;
        write!(
            f,
            "{runs} runs, p50 {p50:.3}, p75 {p75:.3}, p90 {p90:.3}, p95 {p95:.3}, p99 {p99:.3}, worst {worst:.3} (seed {worst_seed}), \
             {failures} failed"
        )
    }
}

/// The columns and rows of a figure that is no sweep.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The names of its columns.
    pub columns: Vec<String>,
    /// Its rows.
    pub rows: Vec<Vec<String>>,
}

impl Rows {
    /// A column's texts.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn texts(&self, column: &str) -> Vec<&str> {
        let place = self.columns.iter().position(|its| its == column);
        let place = place.unwrap_or_else(|| panic!("there is no column `{column}`"));
        self.rows.iter().map(|row| row[place].as_str()).collect()
    }

    /// A column's numbers; what is no number is none.
    pub fn numbers(&self, column: &str) -> Vec<f64> {
        self.texts(column).iter().map(|text| text.parse().unwrap_or(f64::NAN)).collect()
    }
}

/// What a claim may look at: the figures that it needs.
#[derive(Debug, Default)]
pub struct Data {
    tables: BTreeMap<&'static str, Table>,
    scenes: BTreeMap<&'static str, Rows>,
    compared: Vec<Judged>,
}

impl Data {
    /// Add a sweep's.
    pub fn add_table(&mut self, figure: &'static Figure, table: Table) {
        self.tables.insert(figure.id, table);
    }

    /// Add a scene's.
    pub fn add_scene(&mut self, figure: &'static Figure, rows: Rows) {
        self.scenes.insert(figure.id, rows);
    }

    /// Add what `braidlab compare` found.
    pub fn add_compared(&mut self, rows: &[compare::rows::Row]) {
        self.compared = compare::judge::judge(rows);
    }

    /// The cells that were run in the simulator and live; none if nobody ran them.
    pub fn compared(&self) -> &[Judged] {
        &self.compared
    }

    /// Whether a figure is there.
    pub fn has(&self, id: &str) -> bool {
        self.tables.contains_key(id) || self.scenes.contains_key(id)
    }

    /// The runs of a sweep.
    ///
    /// # Panics
    /// If it is not there: the claim does not say that it needs it.
    pub fn table(&self, id: &str) -> &Table {
        self.tables.get(id).unwrap_or_else(|| panic!("{id} was not asked for, or is no sweep"))
    }

    /// The rows of a scene.
    ///
    /// # Panics
    /// If it is not there: the claim does not say that it needs it.
    pub fn scene(&self, id: &str) -> &Rows {
        self.scenes.get(id).unwrap_or_else(|| panic!("{id} was not asked for, or is no scene"))
    }
}
