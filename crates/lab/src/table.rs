//! The results of a figure's runs, with the queries that claims and pictures use.

use std::fmt;

use crate::figure::{Figure, Point, Sweep};
use crate::stats::{self, Estimate};

/// One run of one point.
#[derive(Debug, Clone, PartialEq)]
pub struct Record {
    /// The index of the point.
    pub point: usize,
    /// The number of the run at this point, from 0.
    pub run: u32,
    /// Its seed.
    pub seed: u64,
    /// Its results, by column.
    pub numbers: Vec<f64>,
}

/// All runs of a figure.
#[derive(Debug, Clone)]
pub struct Table {
    sweep: &'static Sweep,
    id: &'static str,
    points: Vec<Point>,
    /// Sorted by point, then by run.
    records: Vec<Record>,
}

impl Table {
    /// Creates a table of these runs, which must be distinct.
    pub fn new(figure: &'static Figure, sweep: &'static Sweep, mut records: Vec<Record>) -> Self {
        records.sort_by_key(|record| (record.point, record.run));
        Self { sweep, id: figure.id, points: sweep.points(), records }
    }

    /// All runs, by point and run.
    pub fn records(&self) -> &[Record] {
        &self.records
    }

    /// The points of the figure, including those not run.
    pub fn points(&self) -> &[Point] {
        &self.points
    }

    /// The definition of the figure's sweep.
    pub fn sweep(&self) -> &'static Sweep {
        self.sweep
    }

    /// Returns the runs of the point that a selector like `size=10000 loss=0.1 variant=tcp` names.
    ///
    /// # Panics
    /// If it does not name exactly one point that was run.
    pub fn at(&self, selector: &str) -> Cell<'_> {
        let cells = self.all(selector);
        assert_eq!(cells.len(), 1, "{}: `{selector}` selects {} points that were run", self.id, cells.len());
        cells.into_iter().next().expect("there is one")
    }

    /// Returns the runs of all points that a selector like `loss=0.1` names and that were run.
    pub fn all(&self, selector: &str) -> Vec<Cell<'_>> {
        let matching = |index: &usize| matches(&self.points[*index], selector);
        let cells = (0..self.points.len()).filter(matching).map(|index| self.cell(index));
        cells.filter(|cell| !cell.records.is_empty()).collect()
    }

    /// Returns the runs of a point, by index.
    pub fn cell(&self, point: usize) -> Cell<'_> {
        let start = self.records.partition_point(|record| record.point < point);
        let end = self.records.partition_point(|record| record.point <= point);
        Cell { table: self, point: &self.points[point], records: &self.records[start..end] }
    }
}

/// Whether a point has all the values of a selector; an unknown axis never matches.
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
    /// The point.
    pub fn point(&self) -> &'a Point {
        self.point
    }

    /// The definition of its figure's sweep.
    pub fn sweep(&self) -> &'static Sweep {
        self.table.sweep
    }

    /// The number of runs.
    pub fn runs(&self) -> usize {
        self.records.len()
    }

    /// Returns the seed of the first run.
    ///
    /// # Panics
    /// If there are no runs.
    pub fn first_seed(&self) -> u64 {
        self.records.first().expect("it was run").seed
    }

    /// Returns a column of all runs.
    ///
    /// # Panics
    /// If the figure has no such column.
    pub fn values(&self, column: &str) -> Vec<f64> {
        let columns = self.table.sweep.columns;
        let place = columns.iter().position(|its| its.name == column);
        let place = place.unwrap_or_else(|| panic!("{}: no column `{column}`", self.table.id));
        self.records.iter().map(|record| record.numbers[place]).collect()
    }

    /// The mean of a column.
    pub fn mean(&self, column: &str) -> Estimate {
        stats::mean(&self.values(column))
    }

    /// A quantile of a column; 0.5 is the median.
    pub fn quantile(&self, column: &str, part: f64) -> f64 {
        stats::quantile(&self.values(column), part)
    }

    /// The smallest value of the column that a fraction `part` of all runs does not exceed; always the
    /// value of a run.
    pub fn reached_by(&self, column: &str, part: f64) -> f64 {
        let mut values = self.values(column);
        values.sort_by(f64::total_cmp);
        stats::reached_by(&values, part)
    }

    /// The distribution of a column.
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

    /// The ratio of the means here and there. Runs that both have are compared in pairs; if one side has
    /// more than twice as many runs, all runs are compared as independent samples.
    pub fn ratio(&self, to: &Self, column: &str) -> Estimate {
        let (few, many) = (self.runs().min(to.runs()), self.runs().max(to.runs()));
        if many > 2 * few && few > 1 {
            return stats::quotient(self.mean(column), to.mean(column));
        }
        let (of, to) = self.pairs(to, column);
        stats::ratio(&of, &to)
    }

    /// The difference of the means here and there, over the runs that both have.
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

/// The distribution of a column over all runs of a point. Each quantile is the smallest value that this
/// fraction of the runs does not exceed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Tail {
    /// The number of runs.
    pub runs: usize,
    /// The median.
    pub p50: f64,
    /// The 75 % quantile.
    pub p75: f64,
    /// The 90 % quantile.
    pub p90: f64,
    /// The 95 % quantile.
    pub p95: f64,
    /// The 99 % quantile.
    pub p99: f64,
    /// The maximum; infinite if a run failed.
    pub worst: f64,
    /// The seed of the run with the maximum.
    pub worst_seed: u64,
    /// The number of failed runs.
    pub failures: usize,
}

impl fmt::Display for Tail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { runs, p50, p75, p90, p95, p99, worst, worst_seed, failures } = self;
        write!(
            f,
            "{}, p50 {p50:.3}, p75 {p75:.3}, p90 {p90:.3}, p95 {p95:.3}, p99 {p99:.3}, worst {worst:.3} (seed {worst_seed}), \
             {failures} failed",
            stats::count(*runs, "run")
        )
    }
}

/// The columns and rows of a figure that is not a sweep.
#[derive(Debug, Clone, Default)]
pub struct Rows {
    /// The names of the columns.
    pub columns: Vec<String>,
    /// The rows.
    pub rows: Vec<Vec<String>>,
}

impl Rows {
    /// Returns a column as text.
    ///
    /// # Panics
    /// If there is no such column.
    pub fn texts(&self, column: &str) -> Vec<&str> {
        let place = self.columns.iter().position(|its| its == column);
        let place = place.unwrap_or_else(|| panic!("no column `{column}`"));
        self.rows.iter().map(|row| row[place].as_str()).collect()
    }

    /// Returns a column as numbers; other texts become NaN.
    pub fn numbers(&self, column: &str) -> Vec<f64> {
        self.texts(column).iter().map(|text| text.parse().unwrap_or(f64::NAN)).collect()
    }
}
