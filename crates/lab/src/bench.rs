//! Runs a figure and stores the results, or loads stored ones; shared by `run`, `check` and `report`.

use std::collections::BTreeSet;
use std::fmt;

use crate::compare;
use crate::data::Data;
pub use crate::figure::Quick;
use crate::figure::{Figure, Kind, LiveSweep, Point, Runs, Sweep};
use crate::papers::live::AT_ONCE;
use crate::plot::{self, Marks};
use crate::scenario::{Part, worlds};
use crate::stats;
use crate::store::csv::{self, Head};
use crate::store::{Appending, Store, StoreError, Variety};
use crate::sweep::{self, Enough, Observer, Plan, Shard, SweepError};
use crate::table::{Record, Rows, Table};

/// Options for running figures.
#[derive(Debug, Clone)]
pub struct Options {
    /// Whether to run few points, few times.
    pub quick: Quick,
    /// Whether to replace stored results.
    pub fresh: Fresh,
    /// Runs only a shard of the points.
    pub shard: Option<Shard>,
    /// The number of threads.
    pub threads: usize,
    /// The base of all seeds.
    pub seed: u64,
    /// The maximum number of runs of a point; `None`: the maximum of the figure.
    pub runs_max: Option<u32>,
    /// The command that created the rows, for their head.
    pub command: String,
}

/// Whether stored results are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fresh {
    /// Stored results are replaced.
    Yes,
    /// Results of the same build and settings are reused.
    No,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            quick: Quick::No,
            fresh: Fresh::No,
            shard: None,
            threads: std::thread::available_parallelism().map_or(1, usize::from),
            seed: 1,
            runs_max: None,
            command: String::new(),
        }
    }
}

/// Progress reports.
pub trait Reporter: Send {
    /// A figure begins; `known` of its runs are stored.
    fn on_figure(&mut self, _figure: &'static Figure, _known: usize) {}
    /// A run ended: `done` of the runs `planned` so far.
    fn on_run(&mut self, _done: u64, _planned: u64) {}
    /// A point reached the maximum number of runs.
    fn on_capped(&mut self, _what: &str) {}
    /// A run failed by itself: the point, the seed and the reason.
    fn on_failed(&mut self, _what: &str) {}
    /// Whether the sweep should end; finished points are stored.
    fn is_cancelled(&self) -> bool {
        false
    }
    /// A note for the user.
    fn on_note(&mut self, _note: &str) {}
}

/// Reports nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct Silent;

impl Reporter for Silent {}

/// Why a figure could not be made.
#[derive(Debug)]
pub enum BenchError {
    /// A file error.
    Store(StoreError),
    /// The runs of a finished point could not be stored.
    Append {
        /// The error, with the file.
        error: StoreError,
        /// The number of rows stored.
        kept: usize,
    },
    /// A run panicked.
    Run {
        /// The figure.
        figure: &'static str,
        /// The panic message, with point and seed.
        message: String,
    },
    /// [`Reporter::is_cancelled`] returned true.
    Cancelled {
        /// The figure.
        figure: &'static str,
    },
    /// The picture could not be rendered.
    Picture(String),
}

impl fmt::Display for BenchError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Store(error) => error.fmt(f),
            Self::Append { error, kept } => write!(
                f,
                "{error}; the {kept} rows so far are stored: free some space and run it again to continue"
            ),
            Self::Run { figure, message } => write!(f, "{figure}: {message}"),
            Self::Cancelled { figure } => {
                write!(f, "{figure}: interrupted; finished points are stored, and the same command continues")
            }
            Self::Picture(message) => write!(f, "the picture cannot be drawn: {message}"),
        }
    }
}

impl std::error::Error for BenchError {}

impl From<StoreError> for BenchError {
    fn from(error: StoreError) -> Self {
        Self::Store(error)
    }
}

/// The result of making a figure.
#[derive(Debug, Clone)]
pub enum Made {
    /// The runs of a sweep.
    Sweep(Table),
    /// The rows of a scene.
    Scene(Rows),
    /// Nothing, with the reason: the figure cannot run here, or is left out with `--quick`.
    LeftOut(String),
}

/// A folder of results, and options for what is missing in it.
#[derive(Debug, Clone)]
pub struct Bench {
    /// Where results are stored.
    pub store: Store,
    /// Options for running figures.
    pub options: Options,
}

impl Bench {
    fn variety(&self) -> Variety {
        Variety { quick: self.options.quick == Quick::Yes, shard: self.options.shard }
    }

    /// How often the points of a figure are run.
    pub fn runs(&self, sweep: &Sweep) -> Runs {
        let runs = match self.options.quick {
            Quick::Yes if sweep.runs.is_counted() => {
                Runs::counted(sweep.runs.max.div_ceil(100).max(2).min(sweep.runs.max))
            }
            Quick::Yes => Runs { max: Runs::QUICK.max.min(sweep.runs.max), ..Runs::QUICK },
            Quick::No => sweep.runs,
        };
        let max = self.options.runs_max.unwrap_or(runs.max).max(1);
        Runs { max, min: runs.min.min(max), ..runs }
    }

    /// What it runs of a sweep, for an estimate.
    pub fn part(&self, sweep: &Sweep) -> Part {
        let Options { shard, threads, .. } = self.options;
        Part { is_quick: self.options.quick == Quick::Yes, shard, runs: self.runs(sweep), threads }
    }

    /// Whether a figure is stored, made by this build with the same settings.
    pub fn is_stored(&self, figure: &Figure) -> bool {
        let Some(sweep) = figure.sweep() else { return self.stored_scene(figure).is_some() };
        let head = Head::new(figure, &self.options.command, self.options.seed, Some(self.runs(sweep)));
        self.options.fresh == Fresh::No
            && matches!(self.store.sweep(figure, sweep, self.variety()), Ok(Some(kept)) if kept.head.goes_with(&head))
    }

    /// The rows of a stored scene, made by this build with the same settings.
    fn stored_scene(&self, figure: &Figure) -> Option<Rows> {
        let head = Head::new(figure, &self.options.command, self.options.seed, None);
        let kept = self.store.scene(figure, self.variety()).ok()?;
        let (kept, rows) = kept.filter(|_| self.options.fresh == Fresh::No)?;
        kept.goes_with(&head).then_some(rows)
    }

    /// Whether a figure, or a part of its runs, is stored, and would not be run from its beginning.
    pub fn is_begun(&self, figure: &Figure) -> bool {
        let part = self.store.path(figure, self.variety(), "csv.part");
        self.options.fresh == Fresh::No && (part.exists() || self.is_stored(figure))
    }

    /// Makes a figure, or loads it if this build made it with the same settings.
    pub fn make(&self, figure: &'static Figure, reporter: &mut dyn Reporter) -> Result<Made, BenchError> {
        match &figure.kind {
            Kind::Sweep(sweep) => self.make_sweep(figure, sweep, reporter).map(Made::Sweep),
            Kind::Live(live) => match (live.possible)() {
                Ok(()) => {
                    let options = Options { threads: AT_ONCE, ..self.options.clone() };
                    let bench = Self { store: self.store.clone(), options };
                    bench.make_sweep(figure, &live.sweep, reporter).map(Made::Sweep)
                }
                Err(why) => Ok(Made::LeftOut(why)),
            },
            kind @ (Kind::Scene(_) | Kind::Film(_)) => {
                if let Some(rows) = self.stored_scene(figure) {
                    reporter.on_note(&format!("{}: up to date", figure.id));
                    return Ok(Made::Scene(rows));
                }
                reporter.on_figure(figure, 0);
                let head = Head::new(figure, &self.options.command, self.options.seed, None);
                let scene = kind.scene(self.options.seed, self.options.quick).expect("it is no sweep");
                self.store.keep_scene(figure, self.variety(), &head, &scene)?;
                self.keep_picture(figure, &scene.svg)?;
                let columns = scene.columns.iter().map(|column| (*column).to_owned()).collect();
                Ok(Made::Scene(Rows { columns, rows: scene.rows }))
            }
        }
    }

    /// Loads a figure whatever build made it, or makes it. Results of another build are noted.
    pub fn take(&self, figure: &'static Figure, reporter: &mut dyn Reporter) -> Result<Made, BenchError> {
        let mine = |head: &Head| head.get(csv::BUILD) == Some(crate::build());
        let mut note = |head: &Head| {
            if !mine(head) {
                reporter.on_note(&format!(
                    "{}: made by another build, of commit {}; `braidlab run {}` replaces it",
                    figure.id,
                    head.get(csv::COMMIT).unwrap_or("unknown"),
                    figure.id
                ));
            }
        };
        if self.options.fresh == Fresh::No {
            match &figure.kind {
                Kind::Sweep(sweep) | Kind::Live(LiveSweep { sweep, .. }) => {
                    if let Ok(Some(read)) = self.store.sweep(figure, sweep, self.variety()) {
                        note(&read.head);
                        return Ok(Made::Sweep(Table::new(figure, sweep, read.records)));
                    }
                }
                Kind::Scene(_) | Kind::Film(_) => {
                    if let Ok(Some((head, rows))) = self.store.scene(figure, self.variety()) {
                        note(&head);
                        return Ok(Made::Scene(rows));
                    }
                }
            }
        }
        self.make(figure, reporter)
    }

    /// Returns all figures that claims need, and the stored comparison with live runs, if there is one.
    pub fn gather(
        &self,
        figures: &[&'static Figure],
        reporter: &mut dyn Reporter,
    ) -> Result<Data, BenchError> {
        let mut data = Data::default();
        for figure in figures {
            match self.take(figure, reporter)? {
                Made::Sweep(table) => data.add_table(figure, table),
                Made::Scene(rows) => data.add_scene(figure, rows),
                Made::LeftOut(why) => reporter.on_note(&format!("{}: LEFT OUT: {why}", figure.id)),
            }
        }
        // The comparison takes minutes and root, so it is never made here.
        if let Some((_, rows)) = compare::rows::kept(self.store.folder()) {
            data.add_compared(&rows);
        }
        Ok(data)
    }

    fn make_sweep(
        &self,
        figure: &'static Figure,
        sweep: &'static Sweep,
        reporter: &mut dyn Reporter,
    ) -> Result<Table, BenchError> {
        self.make_in_turns(figure, sweep, &[(&|_: &Point| true, self.options.threads)], reporter)
    }

    /// Makes the figure of a scenario in both worlds: the simulated points, and then the live ones, whose runs mostly wait.
    ///
    /// # Errors
    ///
    /// A run panics, or a file cannot be written. Failed live runs are reported, and their numbers are NaN.
    pub fn make_worlds(
        &self,
        figure: &'static Figure,
        reporter: &mut dyn Reporter,
    ) -> Result<Table, BenchError> {
        let sweep = figure.sweep().expect("a scenario is a sweep");
        let turns: [Turn<'_>; 2] = [
            (&|point: &Point| !worlds::is_live(point), self.options.threads),
            (&worlds::is_live, worlds::RUNS_PER_THREAD * self.options.threads),
        ];
        self.make_in_turns(figure, sweep, &turns, reporter)
    }

    /// Makes a sweep, the points of each turn after those of the previous one.
    fn make_in_turns(
        &self,
        figure: &'static Figure,
        sweep: &'static Sweep,
        turns: &[Turn<'_>],
        reporter: &mut dyn Reporter,
    ) -> Result<Table, BenchError> {
        let mut open = match self.open(figure, sweep, reporter)? {
            Opened::Complete(table) => return Ok(table),
            Opened::Unfinished(open) => *open,
        };
        let points = sweep.points();
        let known = std::mem::take(&mut open.known);
        let mut ran = Ok(());
        for (is_its, threads) in turns {
            let its = open.points.iter().copied().filter(|point| is_its(&points[*point])).collect();
            let plan = Plan { threads: *threads, ..self.plan(sweep, its) };
            let mut keeper = Keeper { open: &mut open, known: &known, reporter: &mut *reporter };
            ran = ran.and_then(|()| sweep::run(figure, sweep, &plan, &known, &mut keeper));
        }
        match ran {
            Ok(()) => open.finish(reporter),
            Err(SweepError::Io(error)) => {
                let path = open.appending.path().to_owned();
                let error = StoreError { path, doing: "append to", error };
                Err(BenchError::Append { error, kept: open.records.len().max(known.len()) })
            }
            Err(SweepError::Cancelled) => Err(BenchError::Cancelled { figure: figure.id }),
            Err(SweepError::Run { point, seed, message }) => Err(BenchError::Run {
                figure: figure.id,
                message: format!("at {point}, seed {seed}: {message}"),
            }),
        }
    }

    /// How these points of a sweep are run.
    pub fn plan(&self, sweep: &Sweep, points: Vec<usize>) -> Plan {
        Plan { points, runs: self.runs(sweep), threads: self.options.threads, base_seed: self.options.seed }
    }

    /// Begins to store a sweep whose points are run by the caller, in any order, on whichever machine; or loads it if this
    /// build made it with the same settings. An unfinished one is continued.
    ///
    /// # Errors
    ///
    /// Its file cannot be written.
    pub fn open(
        &self,
        figure: &'static Figure,
        sweep: &'static Sweep,
        reporter: &mut dyn Reporter,
    ) -> Result<Opened, BenchError> {
        let variety = self.variety();
        let head = Head::new(figure, &self.options.command, self.options.seed, Some(self.runs(sweep)));
        let mut known = Vec::new();
        if self.options.fresh == Fresh::No {
            if let Some(read) = self.store.sweep(figure, sweep, variety).ok().flatten()
                && read.head.goes_with(&head)
            {
                reporter.on_note(&format!("{}: up to date", figure.id));
                return Ok(Opened::Complete(Table::new(figure, sweep, read.records)));
            }
            match self.store.unfinished(figure, sweep, variety) {
                Ok(Some(read)) if read.head.goes_with(&head) => known = read.records,
                Ok(None) => {}
                _ => reporter.on_note(&format!(
                    "{}: discarded an unfinished sweep of another build or with other settings",
                    figure.id
                )),
            }
        }
        let points = sweep.points();
        let chosen = (0..points.len()).filter(|index| {
            let is_asked = self.options.quick == Quick::No || (sweep.quick)(&points[*index]);
            is_asked && self.options.shard.is_none_or(|shard| shard.has(*index))
        });
        reporter.on_figure(figure, known.len());
        let appending = self.store.begin(figure, sweep, variety, &head, &known)?;
        Ok(Opened::Unfinished(Box::new(Open {
            bench: self.clone(),
            figure,
            sweep,
            head,
            points: chosen.collect(),
            known,
            appending,
            records: Vec::new(),
            capped: Vec::new(),
        })))
    }

    /// Combines the parts of a sweep made by shards.
    pub fn merge(
        &self,
        figure: &'static Figure,
        reporter: &mut dyn Reporter,
    ) -> Result<Option<Table>, BenchError> {
        let Some(sweep) = figure.sweep() else { return Ok(None) };
        let variety = Variety { quick: self.options.quick == Quick::Yes, shard: None };
        let mut records: Vec<Record> = Vec::new();
        let mut head: Option<Head> = None;
        for path in self.store.shards(figure, variety.quick) {
            let failed = |error| StoreError { path: path.clone(), doing: "read", error };
            let read = std::fs::File::open(&path).and_then(|file| csv::read(file, sweep)).map_err(failed)?;
            if let Some(head) = &mut head {
                let commit = |head: &Head| head.get(csv::COMMIT).unwrap_or("unknown").to_owned();
                if commit(head) != commit(&read.head) {
                    reporter.on_note(&format!(
                        "{}: made from another commit than the other parts",
                        path.display()
                    ));
                }
                for (_, what) in read.head.lines.iter().filter(|(name, _)| name == csv::CAPPED) {
                    head.push(csv::CAPPED, what.as_str());
                }
            } else {
                head = Some(read.head);
            }
            records.extend(read.records);
        }
        let Some(head) = head else { return Ok(None) };
        let table = Table::new(figure, sweep, records);
        let twice = table
            .records()
            .windows(2)
            .any(|pair| (pair[0].point, pair[0].run) == (pair[1].point, pair[1].run));
        if twice {
            return Err(BenchError::Run { figure: figure.id, message: "two parts have the same run".into() });
        }
        let missing = (0..table.points().len()).filter(|point| table.cell(*point).runs() == 0).count();
        if missing > 0 && !variety.quick {
            reporter.on_note(&format!(
                "{}: {missing} of {} points are missing in all parts",
                figure.id,
                table.points().len()
            ));
        }
        self.store.finish(figure, sweep, variety, &head, table.records())?;
        self.keep_picture(figure, &plot::draw(figure, &table))?;
        Ok(Some(table))
    }

    fn keep_picture(&self, figure: &Figure, svg: &str) -> Result<(), BenchError> {
        let variety = Variety { shard: None, ..self.variety() };
        self.store.keep(figure, variety, "svg", svg.as_bytes())?;
        let png = plot::svg::png(svg, 2.0).map_err(BenchError::Picture)?;
        self.store.keep(figure, variety, "png", &png)?;
        Ok(())
    }
}

/// Points that run in a turn, and the number of threads.
type Turn<'a> = (&'a dyn Fn(&Point) -> bool, usize);

/// The distribution of the drawn column at each point, one line per point.
fn tails(sweep: &Sweep, table: &Table) -> Vec<String> {
    let cells = (0..table.points().len()).map(|point| table.cell(point)).filter(|cell| cell.runs() > 0);
    cells.map(|cell| format!("{}: {}", cell.point(), cell.tail(sweep.plot.y))).collect()
}

/// A sweep that was opened.
#[derive(Debug)]
pub enum Opened {
    /// All its runs are stored.
    Complete(Table),
    /// Some points lack runs.
    Unfinished(Box<Open>),
}

/// A sweep whose finished points are stored one by one.
#[derive(Debug)]
pub struct Open {
    bench: Bench,
    figure: &'static Figure,
    sweep: &'static Sweep,
    head: Head,
    /// The requested points.
    points: Vec<usize>,
    /// The runs that were stored before.
    known: Vec<Record>,
    appending: Appending,
    records: Vec<Record>,
    /// Capped points, by point index.
    capped: Vec<(usize, String)>,
}

impl Open {
    /// The requested points.
    pub fn points(&self) -> &[usize] {
        &self.points
    }

    /// The runs that were stored before.
    pub fn known(&self) -> &[Record] {
        &self.known
    }

    /// Stores all runs of a finished point.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn add(&mut self, index: usize, records: &[Record], enough: Enough) -> Result<(), BenchError> {
        let known = std::mem::take(&mut self.known);
        let stored = self.store_point(index, records, enough, &known);
        self.known = known;
        stored.map(drop).map_err(|error| {
            let error = StoreError { path: self.appending.path().to_owned(), doing: "append to", error };
            BenchError::Append { error, kept: self.records.len().max(self.known.len()) }
        })
    }

    /// Stores the runs that are not known yet. Returns the line of a point that is capped.
    fn store_point(
        &mut self,
        index: usize,
        records: &[Record],
        enough: Enough,
        known: &[Record],
    ) -> std::io::Result<Option<String>> {
        let known = known.iter().filter(|known| known.point == index);
        let known: BTreeSet<u32> = known.map(|known| known.run).collect();
        let is_new = |record: &&Record| !known.contains(&record.run);
        let new: Vec<Record> = records.iter().filter(is_new).cloned().collect();
        self.appending.append(&csv::lines(self.sweep, &new))?;
        self.records.extend_from_slice(records);
        let Enough::Capped { within } = enough else { return Ok(None) };
        let point = &self.sweep.points()[index];
        let what = format!("{point}: {}, within {:.1} %", stats::count(records.len(), "run"), within * 100.0);
        self.capped.push((index, what.clone()));
        Ok(Some(what))
    }

    /// Writes the files of the sweep, all of whose points were added.
    ///
    /// # Errors
    ///
    /// A file cannot be written.
    pub fn finish(self, reporter: &mut dyn Reporter) -> Result<Table, BenchError> {
        let Self { bench, figure, sweep, mut head, mut capped, records, .. } = self;
        let runs = bench.runs(sweep);
        let variety = bench.variety();
        capped.sort();
        if bench.options.quick == Quick::Yes && !capped.is_empty() {
            reporter.on_note(&format!(
                "{}: {} reached the maximum of {} with an interval wider than {} %",
                figure.id,
                stats::count(capped.len(), "point"),
                stats::count(runs.max as usize, "run"),
                runs.within * 100.0
            ));
        }
        for (_, what) in &capped {
            head.push(csv::CAPPED, what);
        }
        let table = Table::new(figure, sweep, records);
        if sweep.plot.marks == Marks::Tail {
            for line in tails(sweep, &table) {
                head.push(csv::TAIL, line);
            }
        }
        bench.store.finish(figure, sweep, variety, &head, table.records())?;
        if variety.shard.is_none() {
            bench.keep_picture(figure, &plot::draw(figure, &table))?;
        }
        Ok(table)
    }
}

/// Stores the points that this process runs, and reports them.
struct Keeper<'a> {
    open: &'a mut Open,
    known: &'a [Record],
    reporter: &'a mut dyn Reporter,
}

impl Observer for Keeper<'_> {
    fn on_run(&mut self, done: u64, planned: u64) {
        self.reporter.on_run(done, planned);
    }

    fn on_failed(&mut self, point: &Point, seed: u64, message: &str) {
        self.reporter.on_failed(&format!("{point}, seed {seed}: {message}"));
    }

    fn is_cancelled(&self) -> bool {
        self.reporter.is_cancelled()
    }

    fn on_point(&mut self, index: usize, records: &[Record], enough: Enough) -> std::io::Result<()> {
        let capped = self.open.store_point(index, records, enough, self.known)?;
        if let Some(what) = capped
            && self.open.bench.options.quick == Quick::No
        {
            self.reporter.on_capped(&what);
        }
        Ok(())
    }
}
