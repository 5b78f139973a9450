//! Scenarios: read from TOML; run here, or point by point by the program.

use std::collections::BTreeMap;
use std::path::PathBuf;

use braidftp_lab::bench::{Bench, Fresh, Made, Open, Opened, Options, Quick, Silent};
use braidftp_lab::figure::{Point, Row, RunFailed, Runs, Sweep as Grid, Value};
use braidftp_lab::scenario::{self, ScenarioError as Wrong, Source, templates as given};
use braidftp_lab::store::{Store, Variety};
use braidftp_lab::sweep::{self, Chance};
use braidftp_lab::table::{Record, Table};
use pyo3::exceptions::{PyIndexError, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::{PyDict, PyList};

use crate::agent::Agent;
use crate::error::{ScenarioError, of_bench};
use crate::supervise::supervised;
use crate::{Object, controller};

/// A run in Python: the index of its point, its number at that point, its seed, its results.
type Run = (usize, u32, u64, Vec<f64>);

/// An axis: its name, its label, and its values with their labels.
type Axis = (String, String, Vec<(Object, String)>);
/// The index of a point, a mean, the ends of its 90 % interval, and the number of runs.
type Mean = (usize, f64, f64, f64, usize);

/// The identity of this build, which the head of results has.
#[pyfunction]
pub(crate) fn build() -> &'static str {
    braidftp_lab::build()
}

/// The JSON Schema of scenario files.
#[pyfunction]
pub(crate) fn schema() -> String {
    scenario::schema::json()
}

/// The names of scenarios to begin with.
#[pyfunction]
pub(crate) fn templates() -> Vec<&'static str> {
    given::names().collect()
}

/// The text of one.
#[pyfunction]
pub(crate) fn template(name: &str) -> PyResult<&'static str> {
    given::text(name).ok_or_else(|| {
        let names: Vec<&str> = given::names().collect();
        PyValueError::new_err(format!("no template `{name}`; there are {}", names.join(", ")))
    })
}

/// The text of a scenario that is given as JSON.
#[pyfunction]
pub(crate) fn from_json(json: &str) -> PyResult<String> {
    let value: toml::Value =
        serde_json::from_str(json).map_err(|error| PyValueError::new_err(error.to_string()))?;
    toml::to_string(&value).map_err(|error| PyValueError::new_err(error.to_string()))
}

/// A scenario that was read and checked.
#[pyclass(frozen, module = "braidftp._braidftp")]
pub(crate) struct Scenario {
    pub(crate) scenario: scenario::Scenario,
    agent: Option<Agent>,
    sweep: &'static Grid,
}

/// How a sweep is run.
#[derive(FromPyObject)]
struct How {
    out: PathBuf,
    quick: bool,
    fresh: bool,
    runs: Option<u32>,
    threads: Option<usize>,
    seed: u64,
}

impl Scenario {
    pub(crate) fn agent(&self) -> Option<&Agent> {
        self.agent.as_ref()
    }

    pub(crate) fn sweep(&self) -> &'static Grid {
        self.sweep
    }

    pub(crate) fn point(&self, index: usize) -> PyResult<Point> {
        let points = self.sweep.points();
        points.get(index).cloned().ok_or_else(|| {
            let count = braidftp_lab::stats::count(points.len(), "point");
            PyIndexError::new_err(format!("the scenario has {count}, and none has number {index}"))
        })
    }

    fn bench(&self, how: &How) -> Bench {
        let defaults = Options::default();
        let options = Options {
            quick: if how.quick { Quick::Yes } else { Quick::No },
            fresh: if how.fresh { Fresh::Yes } else { Fresh::No },
            threads: how.threads.unwrap_or(defaults.threads),
            seed: how.seed,
            runs_max: how.runs,
            // Independent of the caller, so that the files are the same.
            command: format!("braidftp.lab: {}", self.scenario.figure.id),
            ..defaults
        };
        Bench { store: Store::new(&how.out), options }
    }

    fn records(&self, runs: Vec<Run>) -> PyResult<Vec<Record>> {
        let points = self.sweep.points().len();
        let columns = self.sweep.columns.len();
        let record = |(point, run, seed, numbers): Run| match point < points && numbers.len() == columns {
            true => Ok(Record { point, run, seed, numbers }),
            false => Err(PyValueError::new_err("a run is not one of this scenario")),
        };
        runs.into_iter().map(record).collect()
    }

    fn runs_of(table: &Table) -> Vec<Run> {
        table.records().iter().map(of_record).collect()
    }
}

fn of_record(record: &Record) -> Run {
    (record.point, record.run, record.seed, record.numbers.clone())
}

#[pymethods]
impl Scenario {
    /// Reads a scenario. `controllers` are names, each with what makes a controller; `agent` is the name of the controller of
    /// an `Episode`; `notes` are further lines for the head of results.
    #[new]
    #[pyo3(signature = (id, text, shown, folder = None, controllers = Vec::new(), agent = None, notes = Vec::new()))]
    fn new(
        id: &str,
        text: &str,
        shown: &str,
        folder: Option<PathBuf>,
        controllers: Vec<(String, Object)>,
        agent: Option<&str>,
        notes: Vec<String>,
    ) -> PyResult<Self> {
        let mut externals: Vec<_> =
            controllers.into_iter().map(|(name, make)| controller::external(&name, make)).collect();
        let agent = agent.map(|name| {
            let agent = Agent::default();
            externals.push(agent.external(name));
            agent
        });
        let source = Source { id, text, shown, folder, controllers: externals, notes };
        let scenario = source.read().map_err(|wrong: Wrong| ScenarioError::new_err(wrong.to_string()))?;
        let sweep =
            scenario.figure.sweep().ok_or_else(|| PyRuntimeError::new_err("a scenario is a sweep"))?;
        Ok(Self { scenario, agent, sweep })
    }

    /// The name of its results.
    #[getter]
    fn id(&self) -> &'static str {
        self.scenario.figure.id
    }

    /// The heading of its picture.
    #[getter]
    fn title(&self) -> &'static str {
        self.scenario.figure.shows
    }

    /// Its caption.
    #[getter]
    fn caption(&self) -> &'static str {
        self.scenario.figure.caption
    }

    /// Of each axis: the name, the label, and its values with their labels.
    #[getter]
    fn axes(&self, py: Python<'_>) -> PyResult<Vec<Axis>> {
        let axis = |axis: &braidftp_lab::figure::Axis| {
            let value = |value: &Value| Ok((of_value(py, value)?, (axis.show)(value)));
            let values = axis.values.iter().map(value).collect::<PyResult<Vec<_>>>()?;
            Ok((axis.name.to_owned(), axis.label.to_owned(), values))
        };
        self.sweep.axes.iter().map(axis).collect()
    }

    /// Of each column: the name and the unit.
    #[getter]
    fn columns(&self) -> Vec<(&'static str, &'static str)> {
        self.sweep.columns.iter().map(|column| (column.name, column.unit)).collect()
    }

    /// How the first column is drawn.
    #[getter]
    fn plot<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyDict>> {
        let plot = &self.sweep.plot;
        let drawn = PyDict::new(py);
        drawn.set_item("x", plot.x)?;
        drawn.set_item("y", plot.y)?;
        drawn.set_item("y_label", plot.y_label)?;
        drawn.set_item("by", plot.by)?;
        drawn.set_item("facet", plot.facet)?;
        drawn.set_item("rows", plot.rows)?;
        drawn.set_item("x_scale", format!("{:?}", plot.x_scale).to_lowercase())?;
        drawn.set_item("y_scale", format!("{:?}", plot.y_scale).to_lowercase())?;
        drawn.set_item("marks", format!("{:?}", plot.marks).to_lowercase())?;
        Ok(drawn)
    }

    /// The points, each with its value on every axis.
    #[getter]
    fn points<'py>(&self, py: Python<'py>) -> PyResult<Bound<'py, PyList>> {
        let list = PyList::empty(py);
        for point in self.sweep.points() {
            let values = PyDict::new(py);
            for (axis, value) in point.places() {
                values.set_item(axis, of_value(py, value)?)?;
            }
            list.append(values)?;
        }
        Ok(list)
    }

    /// The claims, as written.
    #[getter]
    fn expects(&self) -> Vec<&str> {
        self.scenario.expects.iter().map(|claim| claim.text.as_str()).collect()
    }

    /// Runs all points that lack runs and stores them. Returns all runs.
    #[pyo3(signature = (how, tell = None))]
    fn run(&self, py: Python<'_>, how: How, tell: Option<Object>) -> PyResult<Vec<Run>> {
        let bench = self.bench(&how);
        let figure = self.scenario.figure;
        let made = supervised(py, tell.as_ref(), |reporter| bench.make(figure, reporter))?;
        match made.map_err(|error| of_bench(&error))? {
            Made::Sweep(table) => Ok(Self::runs_of(&table)),
            Made::Scene(_) | Made::LeftOut(_) => Err(PyRuntimeError::new_err("a scenario is a sweep")),
        }
    }

    /// Says how long the runs take that are not stored: lines for the user. Fails if they would take more than 30 days.
    fn says(&self, py: Python<'_>, how: How) -> PyResult<Vec<String>> {
        let bench = self.bench(&how);
        if bench.is_stored(self.scenario.figure) {
            return Ok(Vec::new());
        }
        let said = py.detach(|| self.scenario.cost(&bench.part(self.sweep)).says());
        said.map_err(ScenarioError::new_err)
    }

    /// Runs one point once, and returns its numbers.
    fn run_once(&self, py: Python<'_>, point: usize, seed: u64) -> PyResult<Vec<f64>> {
        let place = self.point(point)?;
        py.detach(|| run_once(self.sweep, &place, seed)).map_err(|ended| match ended {
            Ended::Failed(message) => crate::error::ControllerError::new_err(message),
            Ended::Panicked(message) => PyRuntimeError::new_err(message),
        })
    }

    /// The seed of a run of a point.
    #[pyo3(signature = (point, run, base = 1))]
    fn seed(&self, point: usize, run: u32, base: u64) -> PyResult<u64> {
        Ok(self.sweep.seed(&self.point(point)?, run, base))
    }

    /// About how many seconds a run of each point takes on this machine.
    fn seconds_of_runs(&self, py: Python<'_>) -> Vec<f64> {
        py.detach(|| self.scenario.seconds_of_runs())
    }

    /// Runs one point with each of these seeds. Of each run, in this order: its numbers, and its message if it failed by itself.
    fn run_seeds(
        &self,
        py: Python<'_>,
        point: usize,
        seeds: Vec<u64>,
    ) -> PyResult<Vec<(Vec<f64>, Option<String>)>> {
        let place = self.point(point)?;
        let failed = |seed: u64, message: &str| format!("{place}, seed {seed}: {message}");
        let numbers = |seed: u64| match run_once(self.sweep, &place, seed) {
            Ok(numbers) => Ok((numbers, None)),
            Err(Ended::Failed(message)) => {
                Ok((vec![f64::NAN; self.sweep.columns.len()], Some(failed(seed, &message))))
            }
            Err(Ended::Panicked(message)) => {
                Err(PyRuntimeError::new_err(format!("at {}", failed(seed, &message))))
            }
        };
        py.detach(|| seeds.into_iter().map(numbers).collect())
    }

    /// Begins to store a sweep whose points the program runs. `None` if the sweep is complete.
    fn open(&self, how: How) -> PyResult<Option<Sweep>> {
        let bench = self.bench(&how);
        let opened = bench.open(self.scenario.figure, self.sweep, &mut Silent);
        Ok(match opened.map_err(|error| of_bench(&error))? {
            Opened::Complete(_) => None,
            Opened::Unfinished(open) => Some(Sweep::new(open, self.sweep, &bench)),
        })
    }

    /// The runs that are stored.
    fn stored(&self, how: How) -> PyResult<Option<Vec<Run>>> {
        let bench = self.bench(&how);
        let variety = Variety { quick: how.quick, shard: None };
        let read = bench.store.sweep(self.scenario.figure, self.sweep, variety);
        let read = read.map_err(|error| PyOSError::new_err(error.to_string()))?;
        Ok(read.map(|read| read.records.iter().map(of_record).collect()))
    }

    /// The file of its results with this ending.
    fn path(&self, how: How, ending: &str) -> PathBuf {
        let variety = Variety { quick: how.quick, shard: None };
        self.bench(&how).store.path(self.scenario.figure, variety, ending)
    }

    /// Of each point that was run: its index, the mean of a column, the ends of the 90 % interval, and the number of runs.
    fn means(&self, runs: Vec<Run>, column: usize) -> PyResult<Vec<Mean>> {
        let name =
            self.sweep.columns.get(column).ok_or_else(|| PyIndexError::new_err("no such column"))?.name;
        let table = Table::new(self.scenario.figure, self.sweep, self.records(runs)?);
        let cells = (0..table.points().len()).map(|point| (point, table.cell(point)));
        let mean = |(point, cell): (usize, braidftp_lab::table::Cell<'_>)| {
            let mean = cell.mean(name);
            (point, mean.mean, mean.low, mean.high, cell.runs())
        };
        Ok(cells.filter(|(_, cell)| cell.runs() > 0).map(mean).collect())
    }

    /// Decides the claims: text, verdict, and why.
    fn check(&self, runs: Vec<Run>) -> PyResult<Vec<(String, String, String)>> {
        let table = Table::new(self.scenario.figure, self.sweep, self.records(runs)?);
        let decide = |claim: &scenario::Expectation| {
            let finding = claim.decide(&table);
            (claim.text.clone(), finding.verdict.to_string(), finding.why)
        };
        Ok(self.scenario.expects.iter().map(decide).collect())
    }

    /// How often a point is run: at least, at most, and until its mean is known within which fraction.
    fn runs(&self, how: How) -> (u32, u32, f64) {
        let Runs { min, max, within } = self.bench(&how).runs(self.sweep);
        (min, max, within)
    }
}

fn of_value(py: Python<'_>, value: &Value) -> PyResult<Object> {
    Ok(match value {
        Value::Number(number) => number.into_pyobject(py)?.into_any().unbind(),
        Value::Name(name) => name.into_pyobject(py)?.into_any().unbind(),
    })
}

/// Why a run has no numbers.
enum Ended {
    /// It failed by itself, as by an exception in a controller.
    Failed(String),
    /// A bug.
    Panicked(String),
}

/// A single run.
fn run_once(sweep: &Grid, place: &Point, seed: u64) -> Result<Vec<f64>, Ended> {
    let ran = std::panic::catch_unwind(std::panic::AssertUnwindSafe(|| (sweep.run)(place, seed)));
    ran.map(|row| row.0).map_err(|panic| {
        if let Some(failed) = panic.downcast_ref::<RunFailed>() {
            return Ended::Failed(failed.message.clone());
        }
        let text = panic.downcast_ref::<String>().map(String::as_str);
        let text = text.or_else(|| panic.downcast_ref::<&str>().copied());
        Ended::Panicked(text.unwrap_or("panic without a message").to_owned())
    })
}

/// A sweep whose runs the program makes, and whose finished points are stored one by one.
#[pyclass(module = "braidftp._braidftp")]
pub(crate) struct Sweep {
    open: Option<Box<Open>>,
    grid: &'static Grid,
    points: Vec<Point>,
    runs: Runs,
    base_seed: u64,
    /// The points that are not stored yet, by index.
    work: BTreeMap<usize, Work>,
}

/// A point that lacks runs.
#[derive(Default)]
struct Work {
    /// The numbers of the runs that are known.
    rows: BTreeMap<u32, Row>,
    /// The number of runs planned so far.
    planned: u32,
}

impl Sweep {
    fn new(open: Box<Open>, grid: &'static Grid, bench: &Bench) -> Self {
        let mut work: BTreeMap<usize, Work> =
            open.points().iter().map(|point| (*point, Work::default())).collect();
        for record in open.known() {
            if let Some(work) = work.get_mut(&record.point) {
                work.rows.insert(record.run, Row(record.numbers.clone()));
            }
        }
        let (points, runs, base_seed) = (grid.points(), bench.runs(grid), bench.options.seed);
        Self { open: Some(open), grid, points, runs, base_seed, work }
    }

    fn open(&mut self) -> PyResult<&mut Open> {
        self.open.as_deref_mut().ok_or_else(|| PyRuntimeError::new_err("this sweep is finished"))
    }
}

#[pymethods]
impl Sweep {
    /// The requested points that are not stored yet.
    #[getter]
    fn points(&self) -> Vec<usize> {
        self.work.keys().copied().collect()
    }

    /// Takes runs of a point, each a number and results, and returns which further runs the point needs: the number and the seed
    /// of each. They are none while others that it returned before are missing. `None`: the point had all its runs and is stored.
    fn add(&mut self, point: usize, runs: Vec<(u32, Vec<f64>)>) -> PyResult<Option<Vec<(u32, u64)>>> {
        let (grid, base_seed) = (self.grid, self.base_seed);
        let (Some(work), Some(place)) = (self.work.get_mut(&point), self.points.get(point)) else {
            return Err(PyValueError::new_err("the sweep has no such point, or it is stored"));
        };
        if runs.iter().any(|(run, numbers)| *run >= work.planned || numbers.len() != grid.columns.len()) {
            return Err(PyValueError::new_err("a run is not one that the point needs"));
        }
        work.rows.extend(runs.into_iter().map(|(run, numbers)| (run, Row(numbers))));
        let chance = if (grid.fixed)(place) { Chance::None } else { Chance::Some };
        let seed = |run: u32| grid.seed(place, run, base_seed);
        loop {
            let rows: Vec<&Row> = (0..work.planned).map_while(|run| work.rows.get(&run)).collect();
            if rows.len() < work.planned as usize {
                return Ok(Some(Vec::new()));
            }
            match sweep::plan(&rows, self.runs, chance) {
                Ok(more) => {
                    let new = (work.planned..more).filter(|run| !work.rows.contains_key(run));
                    let new: Vec<(u32, u64)> = new.map(|run| (run, seed(run))).collect();
                    work.planned = more;
                    if !new.is_empty() {
                        return Ok(Some(new));
                    }
                }
                Err(enough) => {
                    let record = |(run, row): (u32, &Row)| Record {
                        point,
                        run,
                        seed: seed(run),
                        numbers: row.0.clone(),
                    };
                    let records: Vec<Record> = (0..).zip(rows).map(record).collect();
                    self.open()?.add(point, &records, enough).map_err(|error| of_bench(&error))?;
                    self.work.remove(&point);
                    return Ok(None);
                }
            }
        }
    }

    /// Writes the files of the sweep, and returns all runs.
    fn finish(&mut self, py: Python<'_>) -> PyResult<Vec<Run>> {
        let open = self.open.take().ok_or_else(|| PyRuntimeError::new_err("this sweep is finished"))?;
        let table = py.detach(|| open.finish(&mut Silent)).map_err(|error| of_bench(&error))?;
        Ok(Scenario::runs_of(&table))
    }
}
