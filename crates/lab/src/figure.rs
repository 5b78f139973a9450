//! What an experiment is: a [`Figure`] says what is varied ([`Axis`]), what one run does, and how it is drawn; a
//! [`Claim`] says what a paper found, and how that is checked against the runs of one or more figures.
//!
//! A run is a pure function of a [`Point`] and a seed. How many runs there are, on how many cores, in which order and
//! where their numbers go is no affair of a figure: `sweep`, `csv` and `plot` are the same for all of them.

use std::fmt;

use crate::plot::Plot;
use crate::stats::Estimate;
use crate::table::Data;

/// One figure of a paper, or one beyond it.
#[derive(Debug, Clone, Copy)]
pub struct Figure {
    /// Its paper's name and its own, as in `multistream/fig6`.
    pub id: &'static str,
    /// What it shows, in a few words: the heading of its picture.
    pub shows: &'static str,
    /// What is under the picture: what was varied and measured, and on which network.
    pub caption: &'static str,
    /// What does not vary, a line each: links, profiles, workload. The head of its table.
    pub settings: fn() -> Vec<String>,
    /// How it comes to be.
    pub kind: Kind,
}

/// How a figure comes to be.
#[derive(Debug, Clone, Copy)]
#[allow(clippy::large_enum_variant, reason = "figures are constants, a few dozen of them")]
pub enum Kind {
    /// Many runs over a grid.
    Sweep(Sweep),
    /// One run, drawn: it gives its numbers and its picture itself.
    Scene(fn(seed: u64) -> Scene),
    /// Many runs over a grid, by the wall clock.
    Live(LiveSweep),
    /// A scene that takes minutes: a smaller one with [`Quick::Yes`], of the same form.
    Film(fn(seed: u64, quick: Quick) -> Scene),
}

/// A grid whose runs are of this machine, and no functions of their seeds: they take as long as they measure, and many go on
/// at once. Where there can be none the figure is left out, which is said; `--quick` leaves it out unless it is asked for by
/// its own name. No claim needs it.
#[derive(Debug, Clone, Copy)]
pub struct LiveSweep {
    /// Whether there can be such runs here; if not, why.
    pub possible: fn() -> Result<(), String>,
    /// The grid. Its runs wait by themselves where too many go on.
    pub sweep: Sweep,
}

/// Whether figures are run to see that they work, or to know.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Quick {
    /// To see that it works.
    Yes,
    /// To know.
    No,
}

impl Kind {
    /// The scene, if it is one: made now.
    pub fn scene(&self, seed: u64, quick: Quick) -> Option<Scene> {
        match self {
            Self::Sweep(_) | Self::Live(_) => None,
            Self::Scene(scene) => Some(scene(seed)),
            Self::Film(film) => Some(film(seed, quick)),
        }
    }
}

/// A grid of points, and what is done at each of them.
#[derive(Debug, Clone, Copy)]
pub struct Sweep {
    /// What is varied; the last axis varies fastest.
    pub axes: &'static [Axis],
    /// Which points of the full grid there are.
    pub only: fn(&Point) -> bool,
    /// Which of them `--quick` runs.
    pub quick: fn(&Point) -> bool,
    /// At which of them nothing is random: two runs that are alike are enough.
    pub fixed: fn(&Point) -> bool,
    /// The axes that do not enter the seed: runs that differ in nothing else meet the same losses, and are compared in
    /// pairs.
    pub paired: &'static [&'static str],
    /// The names of the numbers that a run gives, in their order, with their units.
    pub columns: &'static [Column],
    /// Of which of them the mean is to be known well: the first, if not another.
    pub runs: Runs,
    /// One run. Whatever is random in it comes from the seed.
    pub run: fn(&Point, u64) -> Row,
    /// How it is drawn.
    pub plot: Plot,
}

/// How often a point is run: until the 90 % confidence interval of the mean of the first column is within
/// [`Runs::within`] of it on either side.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Runs {
    /// At least so often, where anything is random.
    pub min: u32,
    /// At most so often; a point that stops here is named.
    pub max: u32,
    /// How far the interval may reach from the mean, as a part of the mean.
    pub within: f64,
}

impl Runs {
    /// The papers': at least 10 runs, and an interval of 5 %.
    pub const PAPER: Self = Self { min: 10, max: 400, within: 0.05 };
    /// So many, whatever they say: what is to be known is their distribution. `--quick` runs a hundredth of them.
    pub const fn counted(count: u32) -> Self {
        Self { min: count, max: count, within: f64::INFINITY }
    }

    /// Whether their number does not depend on what they say.
    pub fn is_counted(&self) -> bool {
        self.within == f64::INFINITY
    }

    /// `--quick`.
    pub const QUICK: Self = Self { min: 2, max: 3, within: 0.05 };
}

/// Something that is varied.
#[derive(Debug, Clone, Copy)]
pub struct Axis {
    /// Its name in tables and selectors.
    pub name: &'static str,
    /// What it is called beside a picture, with its unit.
    pub label: &'static str,
    /// What it may be.
    pub values: &'static [Value],
    /// How a value is written beside a picture.
    pub show: fn(&Value) -> String,
}

/// A place on an axis.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Value {
    /// A quantity.
    Number(f64),
    /// A thing that has a name.
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

/// A number that runs give.
#[derive(Debug, Clone, Copy)]
pub struct Column {
    /// Its name in tables.
    pub name: &'static str,
    /// Its unit, or what it counts.
    pub unit: &'static str,
}

/// One place of a grid: a value on every axis.
#[derive(Debug, Clone, PartialEq)]
pub struct Point {
    places: Vec<(&'static str, Value)>,
}

impl Point {
    /// A point with these values.
    pub fn new(places: Vec<(&'static str, Value)>) -> Self {
        Self { places }
    }

    /// Its values, by axis.
    pub fn places(&self) -> &[(&'static str, Value)] {
        &self.places
    }

    /// Where it is on an axis.
    ///
    /// # Panics
    /// If there is no such axis: the figure asks for what it does not vary.
    pub fn value(&self, axis: &str) -> Value {
        let place = self.places.iter().find(|(name, _)| *name == axis);
        place.unwrap_or_else(|| panic!("`{self}` has no axis `{axis}`")).1
    }

    /// The quantity on an axis.
    ///
    /// # Panics
    /// If the axis has names and not quantities.
    pub fn number(&self, axis: &str) -> f64 {
        match self.value(axis) {
            Value::Number(number) => number,
            Value::Name(name) => panic!("`{axis}` is `{name}`, which is no number"),
        }
    }

    /// The name on an axis.
    ///
    /// # Panics
    /// If the axis has quantities and not names.
    pub fn name(&self, axis: &str) -> &'static str {
        match self.value(axis) {
            Value::Name(name) => name,
            Value::Number(number) => panic!("`{axis}` is {number}, which is no name"),
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

/// The numbers of one run, in the order of the figure's columns.
#[derive(Debug, Clone, PartialEq)]
pub struct Row(pub Vec<f64>);

/// The numbers of a figure that is no sweep, and its picture.
#[derive(Debug, Clone)]
pub struct Scene {
    /// The names of its columns.
    pub columns: Vec<&'static str>,
    /// Its rows: texts, of which numbers are written as Rust writes them.
    pub rows: Vec<Vec<String>>,
    /// The picture.
    pub svg: String,
}

impl Sweep {
    /// All points, in order.
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

    /// The axis of a name.
    pub fn axis(&self, name: &str) -> Option<&'static Axis> {
        self.axes.iter().find(|axis| axis.name == name)
    }

    /// What the run of this number starts from, at a point: the same for points that differ in paired axes alone.
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

/// A paper: its figures, ours beside them, and what it claims.
#[derive(Debug, Clone, Copy)]
pub struct Paper {
    /// The first word of its figures' ids.
    pub name: &'static str,
    /// The first word of its claims' ids, as in `P2`.
    pub key: &'static str,
    /// What to cite.
    pub citation: &'static str,
    /// Its figures, in order, and then those beyond it.
    pub figures: &'static [Figure],
    /// What it claims, in order.
    pub claims: &'static [&'static [Claim]],
}

impl Paper {
    /// All that it claims, in order.
    pub fn claims(&self) -> impl Iterator<Item = &'static Claim> + use<> {
        self.claims.iter().flat_map(|claims| claims.iter())
    }
}

/// Something that a paper says.
#[derive(Debug, Clone, Copy)]
pub struct Claim {
    /// As in `P2-C38`.
    pub id: &'static str,
    /// The paper's words, in short.
    pub says: &'static str,
    /// The figures whose runs decide it.
    pub needs: &'static [&'static str],
    /// What they say.
    pub check: fn(&Data) -> Finding,
}

/// What became of a claim, and why.
#[derive(Debug, Clone)]
pub struct Finding {
    /// What became of it.
    pub verdict: Verdict,
    /// The number that decides, if it is one, with what it is.
    pub figure: Option<Measured>,
    /// Where all of it can be seen: the numbers, the reason where they differ from the paper's.
    pub why: String,
}

/// A number that decides, and what it is of.
#[derive(Debug, Clone)]
pub struct Measured {
    /// What it is, as in `TCP : naive, 1 MB, 10 %`.
    pub what: String,
    /// Its unit: `s`, `x` for a ratio, or nothing.
    pub unit: &'static str,
    /// The number with its interval.
    pub value: Estimate,
}

/// What became of a claim.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It is so here too.
    Holds,
    /// It is not so here.
    DoesNotHold,
    /// It cannot be so together with another claim of its own paper.
    Contradicts(&'static str),
    /// It is no measurement: what shows it is named.
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
    /// It holds, or not, by this.
    pub fn decided(holds: Holds, figure: Measured, why: impl Into<String>) -> Self {
        let verdict = match holds {
            Holds::Yes => Verdict::Holds,
            Holds::No => Verdict::DoesNotHold,
        };
        Self { verdict, figure: Some(figure), why: why.into() }
    }

    /// It is no measurement; a test or code shows it.
    pub fn shown_by(why: impl Into<String>) -> Self {
        Self { verdict: Verdict::NotAMeasurement, figure: None, why: why.into() }
    }
}

/// Whether something is so.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Holds {
    /// It is.
    Yes,
    /// It is not.
    No,
}

impl From<bool> for Holds {
    fn from(holds: bool) -> Self {
        if holds { Self::Yes } else { Self::No }
    }
}
