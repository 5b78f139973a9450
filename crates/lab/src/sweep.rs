//! Runs the points of a figure on all cores, each as often as its mean needs.
//!
//! The number of runs of a point depends only on its previous runs, in order. So the rows are the same for
//! any number of threads, and for interrupted sweeps. The runs of each finished point are passed on
//! immediately.

use std::any::Any;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::figure::{Figure, Point, Row, RunFailed, Runs, Sweep};
use crate::stats;
use crate::table::Record;

/// The part of a sweep to run, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// The indices of the points.
    pub points: Vec<usize>,
    /// How often each point is run.
    pub runs: Runs,
    /// The number of threads, at least one.
    pub threads: usize,
    /// The base of all seeds.
    pub base_seed: u64,
}

/// A part of a sweep, for distribution over machines: `2/8` is every eighth point, beginning with the
/// second.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// The number of shards.
    pub of: usize,
}

impl std::fmt::Display for Shard {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{}/{}", self.index, self.of)
    }
}

impl std::str::FromStr for Shard {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let parsed =
            text.split_once('/').and_then(|(index, of)| Some((index.parse().ok()?, of.parse().ok()?)));
        match parsed {
            Some((index, of)) if (1..=of).contains(&index) => Ok(Self { index, of }),
            _ => Err(format!(
                "`{}` is not a shard: write i/n with i from 1 to n, as in 1/4",
                text.escape_debug()
            )),
        }
    }
}

impl Shard {
    /// Whether a point belongs to the shard.
    pub fn has(&self, point: usize) -> bool {
        point % self.of == self.index - 1
    }
}

/// Why no more runs of a point are needed.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Enough {
    /// Its mean is known precisely enough.
    Known,
    /// It reached the maximum number of runs; the interval is this wide.
    Capped {
        /// The half-width as a fraction of the mean.
        within: f64,
    },
}

/// Receives the progress of a sweep. Called by one thread at a time.
pub trait Observer: Send {
    /// A run ended: `done` of the runs `planned` so far.
    fn on_run(&mut self, done: u64, planned: u64);

    /// A run failed by itself ([`RunFailed`]); its numbers are NaN.
    fn on_failed(&mut self, _point: &Point, _seed: u64, _message: &str) {}

    /// Whether the sweep should end before its next run.
    fn is_cancelled(&self) -> bool {
        false
    }

    /// A point has all its runs. An error ends the sweep.
    fn on_point(&mut self, point: usize, records: &[Record], enough: Enough) -> std::io::Result<()>;
}

/// Why a sweep ended early.
#[derive(Debug)]
pub enum SweepError {
    /// The runs of a finished point could not be stored.
    Io(std::io::Error),
    /// [`Observer::is_cancelled`] returned true.
    Cancelled,
    /// A run panicked.
    Run {
        /// The point.
        point: Point,
        /// Its seed.
        seed: u64,
        /// The panic message.
        message: String,
    },
}

/// The minimum number of runs of a random point whose runs were all equal so far: a rare loss may still
/// occur.
const SAME_MIN: u32 = 50;

/// Whether a point has randomness.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chance {
    /// It has.
    Some,
    /// It is deterministic.
    None,
}

/// How many runs a point needs in total, given its previous runs, which are all that were planned before.
pub fn plan(rows: &[&Row], runs: Runs, chance: Chance) -> Result<u32, Enough> {
    let done = rows.len() as u32;
    let is_same = rows.windows(2).all(|pair| pair[0] == pair[1]);
    let least = match (chance, is_same) {
        _ if runs.is_counted() => runs.min,
        (Chance::None, true) => 2,
        (Chance::Some, true) if done >= runs.min => runs.min.max(SAME_MIN),
        _ => runs.min,
    };
    let least = least.min(runs.max).max(1);
    if done < least {
        return Ok(least);
    }
    if runs.is_counted() {
        return Err(Enough::Known);
    }
    let is_failed = |row: &Row| row.0.iter().all(|number| number.is_nan());
    let values: Vec<f64> = rows.iter().filter(|row| !is_failed(row)).map(|row| row.0[0]).collect();
    if values.len() < rows.len() {
        // More runs would fail as well, and their mean is meaningless.
        let within = if values.len() < 2 { f64::INFINITY } else { stats::mean(&values).relative() };
        return Err(Enough::Capped { within });
    }
    let within = stats::mean(&values).relative();
    if done >= 2 && within <= runs.within {
        return Err(Enough::Known);
    }
    // A deterministic point may need a single run.
    if done >= runs.max && chance == Chance::None && is_same {
        return Err(Enough::Known);
    }
    if done >= runs.max {
        return Err(Enough::Capped { within });
    }
    let needed = (f64::from(done) * (within / runs.within).powi(2)).ceil();
    Ok((needed as u32).clamp(done + 1, done.saturating_mul(2)).min(runs.max))
}

/// Runs the plan. Runs in `known` are not repeated.
pub fn run(
    figure: &'static Figure,
    sweep: &'static Sweep,
    plan: &Plan,
    known: &[Record],
    observer: &mut dyn Observer,
) -> Result<(), SweepError> {
    let points = sweep.points();
    let mut state = State { planned: 0, done: 0, work: Vec::new(), unfinished: 0, failed: None, observer };
    for index in &plan.points {
        let rows = known.iter().filter(|record| record.point == *index);
        let rows: BTreeMap<u32, Row> = rows.map(|record| (record.run, Row(record.numbers.clone()))).collect();
        state.work.push(Work { point: *index, rows, planned: 0, next: 0, complete: 0, done: false });
    }
    state.unfinished = state.work.len();
    for place in 0..state.work.len() {
        state.advance(place, sweep, &points, plan);
    }
    let state = Mutex::new(state);
    let changed = Condvar::new();
    std::thread::scope(|scope| {
        for _ in 0..plan.threads.max(1) {
            scope.spawn(|| worker(figure, sweep, &points, plan, &state, &changed));
        }
    });
    let state = state.into_inner().expect("no worker panics while it holds the lock");
    match state.failed {
        None => Ok(()),
        Some(error) => Err(error),
    }
}

struct State<'a> {
    planned: u64,
    done: u64,
    work: Vec<Work>,
    unfinished: usize,
    failed: Option<SweepError>,
    observer: &'a mut dyn Observer,
}

/// The state of a point.
struct Work {
    point: usize,
    rows: BTreeMap<u32, Row>,
    /// The number of runs planned so far.
    planned: u32,
    /// All runs before this index are done or started, so that they are not scanned again.
    next: u32,
    /// How many of the planned runs are done.
    complete: u32,
    done: bool,
}

impl State<'_> {
    /// The next run to start, if there is one.
    fn take(&mut self) -> Option<(usize, u32)> {
        for (place, work) in self.work.iter_mut().enumerate().filter(|(_, work)| !work.done) {
            while work.next < work.planned {
                let run = work.next;
                work.next += 1;
                if !work.rows.contains_key(&run) {
                    return Some((place, run));
                }
            }
        }
        None
    }

    /// When all planned runs of a point are done: plans more, or passes the point on.
    fn advance(&mut self, place: usize, sweep: &Sweep, points: &[Point], plan: &Plan) {
        let work = &mut self.work[place];
        loop {
            while work.complete < work.planned && work.rows.contains_key(&work.complete) {
                work.complete += 1;
            }
            if work.complete < work.planned {
                return;
            }
            let rows: Vec<&Row> = (0..work.planned).map(|run| &work.rows[&run]).collect();
            let chance = if (sweep.fixed)(&points[work.point]) { Chance::None } else { Chance::Some };
            match self::plan(&rows, plan.runs, chance) {
                Ok(more) => {
                    let new = (work.planned..more).filter(|run| !work.rows.contains_key(run)).count();
                    self.planned += new as u64;
                    work.planned = more;
                }
                Err(enough) => {
                    let point = &points[work.point];
                    let records: Vec<Record> = (0..work.planned)
                        .map(|run| Record {
                            point: work.point,
                            run,
                            seed: sweep.seed(point, run, plan.base_seed),
                            numbers: work.rows[&run].0.clone(),
                        })
                        .collect();
                    work.done = true;
                    self.unfinished -= 1;
                    if let Err(error) = self.observer.on_point(work.point, &records, enough) {
                        self.failed.get_or_insert(SweepError::Io(error));
                    }
                    return;
                }
            }
        }
    }
}

fn worker(
    figure: &Figure,
    sweep: &Sweep,
    points: &[Point],
    plan: &Plan,
    state: &Mutex<State<'_>>,
    changed: &Condvar,
) {
    let mut held = lock(state);
    loop {
        if held.observer.is_cancelled() {
            held.failed.get_or_insert(SweepError::Cancelled);
        }
        if held.failed.is_some() || held.unfinished == 0 {
            changed.notify_all();
            return;
        }
        let Some((place, run)) = held.take() else {
            // Other threads run all planned runs; their results may require more.
            held = changed.wait(held).unwrap_or_else(std::sync::PoisonError::into_inner);
            continue;
        };
        let point = &points[held.work[place].point];
        drop(held);
        let seed = sweep.seed(point, run, plan.base_seed);
        let row = catch_unwind(AssertUnwindSafe(|| (sweep.run)(point, seed)));
        held = lock(state);
        let row = row.or_else(|panic| {
            let failed = panic.downcast::<RunFailed>()?;
            held.observer.on_failed(point, seed, &failed.message);
            Ok(Row(vec![f64::NAN; sweep.columns.len()]))
        });
        match row {
            Ok(row) => {
                assert_eq!(row.0.len(), sweep.columns.len(), "{}: a row is not as its columns", figure.id);
                let work = &mut held.work[place];
                work.rows.insert(run, row);
                held.done += 1;
                held.advance(place, sweep, points, plan);
                let (done, planned) = (held.done, held.planned);
                held.observer.on_run(done, planned);
            }
            Err::<Row, Box<dyn Any + Send>>(panic) => {
                let message = panic.downcast_ref::<String>().map(String::as_str);
                let message = message
                    .or_else(|| panic.downcast_ref::<&str>().copied())
                    .unwrap_or("panic without a message");
                let error = SweepError::Run { point: point.clone(), seed, message: message.to_owned() };
                held.failed.get_or_insert(error);
            }
        }
        changed.notify_all();
    }
}

fn lock<'a, 'b>(state: &'a Mutex<State<'b>>) -> MutexGuard<'a, State<'b>> {
    state.lock().unwrap_or_else(std::sync::PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fixed_number_of_runs_does_not_depend_on_results() {
        let rows: Vec<Row> = [1.0, f64::INFINITY, 7.0].map(|value| Row(vec![value])).to_vec();
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(plan(&rows[..2], Runs::counted(3), Chance::Some), Ok(3));
        assert_eq!(plan(&rows, Runs::counted(3), Chance::Some), Err(Enough::Known));
        let other = Runs { min: 3, max: 3, within: 0.05 };
        assert!(matches!(plan(&rows, other, Chance::Some), Err(Enough::Capped { .. })));
    }
}
