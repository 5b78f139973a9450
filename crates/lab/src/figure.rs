//! Definition of figures: a [`Figure`] says what is varied ([`Axis`]), what one run does, and how the result is drawn.
//!
//! A run is a pure function of a [`Point`] and a seed. The number of runs, cores, execution order and storage
//! are handled by `sweep`, `store` and `plot`, in the same way for all figures.

use std::fmt;

/// Runs one point with a seed. A constant figure has a function here, a scenario file a closure that is never dropped.
pub type Run = &'static (dyn Fn(&Point, u64) -> Row + Sync);
/// Selects points.
pub type Which = &'static (dyn Fn(&Point) -> bool + Sync);
/// Formats a value of an axis for pictures.
pub type Show = &'static (dyn Fn(&Value) -> String + Sync);
/// Returns what does not vary, one line each.
pub type Settings = &'static (dyn Fn() -> Vec<String> + Sync);

/// A figure of a paper, or an additional one.
#[derive(Clone, Copy)]
pub struct Figure {
    /// The names of paper and figure, as in `multistream/fig6`.
    pub id: &'static str,
    /// The heading of its picture.
    pub shows: &'static str,
    /// The caption: what was varied and measured, and on which network.
    pub caption: &'static str,
    /// What does not vary, one line each: links, profiles, workload. Written to the head of its table.
    pub settings: Settings,
    /// How its data is created.
    pub kind: Kind,
}

impl fmt::Debug for Figure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Figure").field("id", &self.id).field("kind", &self.kind).finish_non_exhaustive()
    }
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
#[derive(Clone, Copy)]
pub struct Sweep {
    /// The axes; the last one varies fastest.
    pub axes: &'static [Axis],
    /// Selects the points of the full grid that exist.
    pub only: Which,
    /// Selects the points that `--quick` runs.
    pub quick: Which,
    /// Selects the deterministic points: two identical runs are enough.
    pub fixed: Which,
    /// Axes that do not enter the seed: runs that differ only in them have the same losses and are compared
    /// in pairs.
    pub paired: &'static [&'static str],
    /// The columns of a run's results, with units.
    pub columns: &'static [Column],
    /// How many runs there are, decided by the mean of the first column.
    pub runs: Runs,
    /// Runs one point. All randomness comes from the seed.
    pub run: Run,
    /// How it is drawn.
    pub plot: Plot,
}

impl fmt::Debug for Sweep {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { axes, columns, runs, .. } = self;
        let mut it = f.debug_struct("Sweep");
        it.field("axes", axes).field("columns", columns).field("runs", runs).finish_non_exhaustive()
    }
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
    /// A fixed number of runs, for figures of distributions. `--quick` runs a hundredth of them, and two at least.
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

/// How a sweep is drawn.
#[derive(Debug, Clone, Copy)]
pub struct Plot {
    /// The horizontal axis.
    pub x: &'static str,
    /// The column whose means are drawn.
    pub y: &'static str,
    /// Its label, with unit.
    pub y_label: &'static str,
    /// The axis with a line for each value.
    pub by: &'static str,
    /// The axis with a panel for each value.
    pub facet: Option<&'static str>,
    /// A second axis of panels, with a row for each value.
    pub rows: Option<&'static str>,
    /// The scale of x.
    pub x_scale: Scale,
    /// The scale of y.
    pub y_scale: Scale,
    /// How means are drawn.
    pub marks: Marks,
    /// A column whose means are printed beside the drawn ones in tables.
    pub beside: Option<&'static str>,
    /// An axis whose first value is drawn as `marks` says, and whose others are marks over it: live runs over simulated
    /// ones.
    pub over: Option<&'static str>,
}

/// The scale of an axis.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scale {
    /// Linear. The vertical axis begins at 0.
    Linear,
    /// Logarithmic.
    Log,
}

/// How means are drawn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Marks {
    /// As marks joined by lines, with a band for the intervals.
    Lines,
    /// As bars from 0, with whiskers for the intervals.
    Bars,
    /// No means: the distribution of the column over all runs. The horizontal axis is the column, and a
    /// panel has a curve for each value of `by`, which is also `x`.
    Tail,
}

impl Plot {
    /// Lines of the means of a column along an axis, one for each variant.
    pub const fn lines(x: &'static str, y: &'static str, y_label: &'static str) -> Self {
        Self {
            x,
            y,
            y_label,
            by: "variant",
            facet: None,
            rows: None,
            x_scale: Scale::Linear,
            y_scale: Scale::Linear,
            marks: Marks::Lines,
            beside: None,
            over: None,
        }
    }

    /// Bars of the means of a column, a group for each value of an axis.
    pub const fn bars(x: &'static str, y: &'static str, y_label: &'static str) -> Self {
        Self { marks: Marks::Bars, ..Self::lines(x, y, y_label) }
    }

    /// The distribution of a column, a curve for each value of an axis.
    pub const fn tail(by: &'static str, column: &'static str, label: &'static str) -> Self {
        Self { marks: Marks::Tail, by, ..Self::lines(by, column, label) }
    }

    /// A line for each value of this axis.
    pub const fn by(self, axis: &'static str) -> Self {
        Self { by: axis, ..self }
    }

    /// A panel for each value of this axis.
    pub const fn facet(self, axis: &'static str) -> Self {
        Self { facet: Some(axis), ..self }
    }

    /// A row of panels for each value of this axis.
    pub const fn rows(self, axis: &'static str) -> Self {
        Self { rows: Some(axis), ..self }
    }

    /// Also prints the means of this column in tables.
    pub const fn beside(self, column: &'static str) -> Self {
        Self { beside: Some(column), ..self }
    }

    /// Makes the vertical axis logarithmic.
    pub const fn log_y(self) -> Self {
        Self { y_scale: Scale::Log, ..self }
    }

    /// Makes the horizontal axis logarithmic.
    pub const fn log_x(self) -> Self {
        Self { x_scale: Scale::Log, ..self }
    }
}

/// A varied parameter.
#[derive(Clone, Copy)]
pub struct Axis {
    /// Its name in tables and selectors.
    pub name: &'static str,
    /// Its label in pictures, with unit.
    pub label: &'static str,
    /// Its values.
    pub values: &'static [Value],
    /// Formats a value for pictures.
    pub show: Show,
}

impl fmt::Debug for Axis {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { name, values, .. } = self;
        f.debug_struct("Axis").field("name", name).field("values", values).finish_non_exhaustive()
    }
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

/// Ends a single run with an error: the payload of the run's unwinding. The other runs of the sweep continue.
#[derive(Debug, Clone)]
pub struct RunFailed {
    /// The reason, with the simulated time.
    pub message: String,
}

impl RunFailed {
    /// Ends the calling run with this error.
    pub fn end(message: String) -> ! {
        // Not a panic: nothing is printed, because the program itself has no error.
        std::panic::resume_unwind(Box::new(Self { message }))
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

/// The axis and the value of a scenario that varies too little for a picture. No text names them.
pub const ALONE: (&str, Value) = ("scenario", Value::Name("all"));

impl fmt::Display for Point {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let varied = || self.places.iter().filter(|place| **place != ALONE);
        if !self.places.is_empty() && varied().next().is_none() {
            return f.write_str("the only point");
        }
        for (index, (name, value)) in varied().enumerate() {
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
