//! Definition of experiments. A [`Figure`] says what is varied ([`Axis`]), what one run does, and how the
//! result is drawn. A [`Claim`] states a finding of a paper, and how the runs of one or more figures decide
//! it.
//!
//! A run is a pure function of a [`Point`] and a seed. The number of runs, cores, execution order and
//! storage are handled by `sweep`, `store` and `plot`, in the same way for all figures.

use std::fmt;

use crate::plot::Plot;
use crate::stats::Estimate;
use crate::table::Data;

/// A figure of a paper, or an additional one.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// The names of paper and figure, as in `multistream/fig6`.
    pub id: &'static str,
    /// The heading of its picture.
    pub shows: &'static str,
    /// The caption: what was varied and measured, and on which network.
    pub caption: &'static str,
    /// What does not vary, one line each: links, profiles, workload. Written to the head of its table.
    pub settings: fn() -> Vec<String>,
    /// How its data is created.
    pub kind: Kind,
}

/// How the data of a figure is created.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "figures are constants, a few dozen of them")]
pub enum Kind {
    /// Many runs over a grid.
    Sweep(Sweep),
    /// One run that returns its numbers and its picture.
    Scene(fn(seed: u64) -> Scene),
    /// Many runs over a grid, in real time.
    Live(LiveSweep),
    /// A scene that takes minutes; with [`Quick::Yes`] a smaller one of the same form.
    Film(fn(seed: u64, quick: Quick) -> Scene),
}

/// A grid of real-time runs on this machine, which are not functions of their seeds. They take as long as
/// they measure, and many run concurrently. Where they are impossible, the figure is left out with a
/// message. `--quick` leaves it out unless the figure is named explicitly. No claim needs it.
#[derive(Debug, Clone, Copy)]
pub struct LiveSweep {
    /// Whether such runs are possible here; if not, the reason.
    pub possible: fn() -> Result<(), String>,
    /// The grid. Its runs wait when too many are in progress.
    pub sweep: Sweep,
}

/// Whether figures are run as a smoke test or for their results.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quick {
    /// As a smoke test.
    Yes,
    /// For their results.
    No,
}

impl Kind {
    /// Runs a scene; `None` for other kinds.
    pub fn scene(&self, seed: u64, quick: Quick) -> Option<Scene> {
        match self {
            Self::Sweep(_) | Self::Live(_) => None,
            Self::Scene(scene) => Some(scene(seed)),
            Self::Film(film) => Some(film(seed, quick)),
        }
    }
}

/// A grid of points, and the run at each point.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// The axes; the last one varies fastest.
    pub axes: &'static [Axis],
    /// Selects the points of the full grid that exist.
    pub only: fn(&Point) -> bool,
    /// Selects the points that `--quick` runs.
    pub quick: fn(&Point) -> bool,
    /// Selects the deterministic points: two identical runs are enough.
    pub fixed: fn(&Point) -> bool,
    /// Axes that do not enter the seed: runs that differ only in them have the same losses and are compared
    /// in pairs.
    pub paired: &'static [&'static str],
    /// The columns of a run's results, with units.
    pub columns: &'static [Column],
    /// How many runs there are, decided by the mean of the first column.
    pub runs: Runs,
    /// Runs one point. All randomness comes from the seed.
    pub run: fn(&Point, u64) -> Row,
    /// How it is drawn.
    pub plot: Plot,
}

/// How often a point is run: until the 90 % confidence interval of the mean of the first column is within ±
/// [`Runs::within`] of the mean.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Runs {
    /// The minimum, if anything is random.
    pub min: u32,
    /// The maximum; points that reach it are reported.
    pub max: u32,
    /// The maximum half-width of the interval, as a fraction of the mean.
    pub within: f64,
}

impl Runs {
    /// As in the papers: at least 10 runs, and an interval of 5 %.
    pub const PAPER: Self = Self { min: 10, max: 400, within: 0.05 };
    /// A fixed number of runs, for figures of distributions. `--quick` runs a hundredth of them.
    pub const fn counted(count: u32) -> Self {
        Self { min: count, max: count, within: f64::INFINITY }
    }

    /// Whether the number of runs is fixed.
    pub fn is_counted(&self) -> bool {
        self.within == f64::INFINITY
    }

    /// `--quick`.
    pub const QUICK: Self = Self { min: 2, max: 3, within: 0.05 };
}

/// A varied parameter.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Its name in tables and selectors.
    pub name: &'static str,
    /// Its label in pictures, with unit.
    pub label: &'static str,
    /// Its values.
    pub values: &'static [Value],
    /// Formats a value for pictures.
    pub show: fn(&Value) -> String,
}

/// A value on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A quantity.
    Number(f64),
    /// A name.
    Name(&'static str),
}

impl fmt::Display for Value {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Number(number) => number.fmt(f),
            Self::Name(name) => f.pad(name),
        }
    }
}

/// A column of results.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name in tables.
    pub name: &'static str,
    /// Its unit, or what it counts.
    pub unit: &'static str,
}

/// A point of a grid: a value on every axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    places: Vec<(&'static str, Value)>,
}

impl Point {
    /// Creates a point with these values.
    pub fn new(places: Vec<(&'static str, Value)>) -> Self {
        Self { places }
    }

    /// The values, by axis.
    pub fn places(&self) -> &[(&'static str, Value)] {
        &self.places
    }

    /// Returns the value on an axis.
    ///
    /// # Panics
    /// If there is no such axis.
    pub fn value(&self, axis: &str) -> Value {
        let place = self.places.iter().find(|(name, _)| *name == axis);
        place.unwrap_or_else(|| panic!("point `{self}` has no axis `{axis}`")).1
    }

    /// Returns the number on an axis.
    ///
    /// # Panics
    /// If the value is a name.
    pub fn number(&self, axis: &str) -> f64 {
        match self.value(axis) {
            Value::Number(number) => number,
            Value::Name(name) => panic!("axis `{axis}`: `{name}` is not a number"),
        }
    }

    /// Returns the name on an axis.
    ///
    /// # Panics
    /// If the value is a number.
    pub fn name(&self, axis: &str) -> &'static str {
        match self.value(axis) {
            Value::Name(name) => name,
            Value::Number(number) => panic!("axis `{axis}`: {number} is not a name"),
        }
    }
}

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, (name, value)) in self.places.iter().enumerate() {
            write!(f, "{}{name}={value}", if index > 0 { " " } else { "" })?;
        }
        Ok(())
    }
}

/// The results of one run, in the order of the figure's columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub Vec<f64>);

/// The data and picture of a figure that is not a sweep.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The names of the columns.
    pub columns: Vec<&'static str>,
    /// The rows, as text; numbers in Rust's notation.
    pub rows: Vec<Vec<String>>,
    /// The picture.
    pub svg: String,
}

impl Sweep {
    /// Returns all points, in order.
    pub fn points(&self) -> Vec<Point> {
        let mut points = vec![Point::new(Vec::new())];
        for axis in self.axes {
            let longer = |point: &Point, value: &Value| {
                let mut places = point.places.clone();
                places.push((axis.name, *value));
                Point::new(places)
            };
            points = points
                .iter()
                .flat_map(|point| axis.values.iter().map(move |value| longer(point, value)))
                .collect();
        }
        points.retain(self.only);
        points
    }

    /// Returns the axis of this name.
    pub fn axis(&self, name: &str) -> Option<&'static Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    /// Returns the seed of a run at a point; points that differ only in paired axes have the same seed.
    pub fn seed(&self, point: &Point, run: u32, base: u64) -> u64 {
        let mut hasher = blake3::Hasher::new();
        hasher.update(&base.to_le_bytes());
        hasher.update(&run.to_le_bytes());
        for (name, value) in point.places.iter().filter(|(name, _)| !self.paired.contains(name)) {
            hasher.update(format!("{name}={value};").as_bytes());
        }
        let hash = hasher.finalize();
        u64::from_le_bytes(*hash.as_bytes().first_chunk().expect("a hash has 32 bytes"))
    }
}

impl Figure {
    /// The name of its paper's folder.
    pub fn paper(&self) -> &'static str {
        self.id.split_once('/').map_or(self.id, |(paper, _)| paper)
    }

    /// Its sweep, if it is one.
    pub fn sweep(&self) -> Option<&Sweep> {
        match &self.kind {
            Kind::Sweep(sweep) | Kind::Live(LiveSweep { sweep, .. }) => Some(sweep),
            Kind::Scene(_) | Kind::Film(_) => None,
        }
    }
}

/// A paper: its figures, additional figures, and its claims.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    /// The first component of its figures' ids.
    pub name: &'static str,
    /// The first component of its claims' ids, as in `P2`.
    pub key: &'static str,
    /// The citation.
    pub citation: &'static str,
    /// Its figures, in order, followed by additional ones.
    pub figures: &'static [Figure],
    /// Its claims, in order.
    pub claims: &'static [&'static [Claim]],
}

impl Paper {
    /// Returns all claims, in order.
    pub fn claims(&self) -> impl Iterator<Item = &'static Claim> + use<> {
        self.claims.iter().flat_map(|claims| claims.iter())
    }
}

/// A claim of a paper.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// As in `P2-C38`.
    pub id: &'static str,
    /// The paper's statement, shortened.
    pub says: &'static str,
    /// The figures whose runs decide it.
    pub needs: &'static [&'static str],
    /// Decides the claim.
    pub check: fn(&Data) -> Finding,
}

/// The result of checking a claim.
#[derive(Debug, Clone)]
pub struct Finding {
    /// The verdict.
    pub verdict: Verdict,
    /// The number that decides, if there is one.
    pub figure: Option<Measured>,
    /// The explanation: all relevant numbers, and the reason for a difference from the paper.
    pub why: String,
}

/// A number that decides a claim.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What it is, as in `TCP : naive, 1 MB, 10 %`.
    pub what: String,
    /// Its unit: `s`, `x` for a ratio, or empty.
    pub unit: &'static str,
    /// The number with its interval.
    pub value: Estimate,
}

/// The verdict on a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Confirmed here.
    Holds,
    /// Not confirmed here.
    DoesNotHold,
    /// Incompatible with another claim of the same paper.
    Contradicts(&'static str),
    /// Not a measurement; the explanation names the evidence.
    NotAMeasurement,
}

impl fmt::Display for Verdict {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Holds => f.pad("holds"),
            Self::DoesNotHold => f.pad("does not hold"),
            Self::Contradicts(other) => f.pad(&format!("contradicts {other}")),
            Self::NotAMeasurement => f.pad("not a measurement"),
        }
    }
}

impl Finding {
    /// A finding that a number decides.
    pub fn decided(holds: Holds, figure: Measured, why: impl Into<String>) -> Self {
        let verdict = match holds {
            Holds::Yes => Verdict::Holds,
            Holds::No => Verdict::DoesNotHold,
        };
        Self { verdict, figure: Some(figure), why: why.into() }
    }

    /// A finding that is not a measurement; a test or code is the evidence.
    pub fn shown_by(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotAMeasurement, figure: None, why: why.into() }
    }
}

/// Whether a claim holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It holds.
    Yes,
    /// It does not hold.
    No,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}
