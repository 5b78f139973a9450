//! Runs a figure's points, each as often as it takes to know its mean, on all cores.
//!
//! How often a point is run is decided by its runs so far, all of them together and in their order, so the rows are the
//! same whatever the number of threads, and whether a sweep was interrupted or not. What came of each finished point is
//! handed on at once.

use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::{Condvar, Mutex, MutexGuard};

use crate::figure::{Figure, Point, Row, Runs, Sweep};
use crate::stats;
use crate::table::Record;

/// What part of a sweep is run, and how.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Which points, by their place.
    pub points: Vec<usize>,
    /// How often each is run.
    pub runs: Runs,
    /// On how many threads, at least one.
    pub threads: usize,
    /// What all seeds come from.
    pub base_seed: u64,
}

/// A part of a sweep, so that many machines can share it: `2/8` is every eighth point, from the second one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Shard {
    /// From 1.
    pub index: usize,
    /// Of so many.
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
            _ => {
                Err(format!("`{}` is no shard: write i/n with i from 1 to n, as in 1/4", text.escape_debug()))
            }
        }
    }
}

impl Shard {
    /// Whether a point is in it.
    pub fn has(&self, point: usize) -> bool {
        point % self.of == self.index - 1
    }
}

/// Why a point was run no more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Enough {
    /// Its mean is known as well as asked for.
    Known,
    /// It was run as often as allowed; the interval reaches this part of the mean.
    Capped {
        /// As a part of the mean.
        within: f64,
    },
}

/// What a sweep tells while it runs. Called by one thread at a time.
pub trait Observer: Send {
    /// A run ended; so many are done, of so many that are planned by now.
    fn on_run(&mut self, done: u64, planned: u64);

    /// A point has all its runs. What this gives back ends the sweep.
    fn on_point(&mut self, point: usize, records: &[Record], enough: Enough) -> std::io::Result<()>;
}

/// Why a sweep ended early.
#[derive(Debug)]
pub enum SweepError {
    /// What a finished point gave could not be kept.
    Io(std::io::Error),
    /// A run panicked.
    Run {
        /// Where.
        point: Point,
        /// Its seed.
        seed: u64,
        /// What it said.
        said: String,
    },
}

/// What is random, but was the same in every run so far, is run so often at least: a loss that is rare is not none.
const SAME_MIN: u32 = 50;

/// Whether anything is random at a point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Chance {
    /// Something.
    Some,
    /// Nothing.
    None,
}

/// How often a point is to be run in all, by the runs that it has, which are all of those asked for before.
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
    let values: Vec<f64> = rows.iter().map(|row| row.0[0]).collect();
    let within = stats::mean(&values).relative();
    if done >= 2 && within <= runs.within {
        return Err(Enough::Known);
    }
    // Where nothing is random one run may be all that is asked for.
    if done >= runs.max && chance == Chance::None && is_same {
        return Err(Enough::Known);
    }
    if done >= runs.max {
        return Err(Enough::Capped { within });
    }
    let needed = (f64::from(done) * (within / runs.within).powi(2)).ceil();
    Ok((needed as u32).clamp(done + 1, done.saturating_mul(2)).min(runs.max))
}

/// Run what is planned. Runs that `known` has are not run again.
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

/// A point at work.
struct Work {
    point: usize,
    rows: BTreeMap<u32, Row>,
    /// How many runs are asked for by now.
    planned: u32,
    /// All runs before this one are done or taken: with ten thousand runs a point, none is looked at again.
    next: u32,
    /// How many runs of those that are planned are done.
    complete: u32,
    done: bool,
}

impl State<'_> {
    /// The next run to do, if there is one now.
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

    /// A point's runs may be all that it asked for: ask for more, or hand on what it has.
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
        if held.failed.is_some() || held.unfinished == 0 {
            changed.notify_all();
            return;
        }
        let Some((place, run)) = held.take() else {
            // All that is planned is being done by others; what they find may ask for more.
            held = changed.wait(held).unwrap_or_else(std::sync::PoisonError::into_inner);
            continue;
        };
        let point = &points[held.work[place].point];
        drop(held);
        let seed = sweep.seed(point, run, plan.base_seed);
        let row = catch_unwind(AssertUnwindSafe(|| (sweep.run)(point, seed)));
        held = lock(state);
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
            Err(panic) => {
                let said = panic.downcast_ref::<String>().map(String::as_str);
                let said = said.or_else(|| panic.downcast_ref::<&str>().copied()).unwrap_or("it panicked");
                let error = SweepError::Run { point: point.clone(), seed, said: said.to_owned() };
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
    fn counted_runs_are_as_many_as_were_asked_for_whatever_they_say() {
        let rows: Vec<Row> = [1.0, f64::INFINITY, 7.0].map(|value| Row(vec![value])).to_vec();
        let rows: Vec<&Row> = rows.iter().collect();
        assert_eq!(plan(&rows[..2], Runs::counted(3), Chance::Some), Ok(3));
        assert_eq!(plan(&rows, Runs::counted(3), Chance::Some), Err(Enough::Known));
        let other = Runs { min: 3, max: 3, within: 0.05 };
        assert!(matches!(plan(&rows, other, Chance::Some), Err(Enough::Capped { .. })));
    }
}
