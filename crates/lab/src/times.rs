//! How long figures take: recorded processor times of earlier runs (`times.csv`), and estimates from them.
//!
//! `braidlab run … --times FILE` records: a line for each figure that was run from its beginning to its end.

use std::collections::BTreeMap;
use std::fmt;
use std::path::Path;
use std::time::{Duration, Instant};

use crate::bench::{Bench, Quick};
use crate::figure::{Figure, Kind};
use crate::papers::live::AT_ONCE;
use crate::{stats, text};

/// The times in the tree.
const RECORDED: &str = include_str!("times.csv");
/// The titles of a file of times.
const TITLES: &str = "figure,form,runs,thread_seconds";

/// How much of a figure was run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Form {
    Whole,
    Quick,
}

impl Form {
    fn of(quick: Quick) -> Self {
        if quick == Quick::Yes { Self::Quick } else { Self::Whole }
    }

    fn name(self) -> &'static str {
        match self {
            Self::Whole => "whole",
            Self::Quick => "quick",
        }
    }
}

/// What a figure took.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Took {
    /// Its runs.
    runs: u64,
    /// Its processor time in seconds; for live runs their time, multiplied by the number of those that ran at once.
    thread_seconds: f64,
}

/// Measures what a figure takes, from its creation on.
#[derive(Debug, Clone, Copy)]
pub struct Stopwatch {
    began: Instant,
    processor: Option<f64>,
}

impl Default for Stopwatch {
    fn default() -> Self {
        Self { began: Instant::now(), processor: processor_seconds() }
    }
}

impl Stopwatch {
    /// The seconds of one thread. Other programs on the machine do not change processor time.
    fn thread_seconds(&self, figure: &Figure, threads: usize) -> f64 {
        let waits = matches!(figure.kind, Kind::Live(_));
        match (self.processor, processor_seconds()) {
            (Some(before), Some(now)) if !waits => now - before,
            _ => self.began.elapsed().as_secs_f64() * self::threads(figure, threads) as f64,
        }
    }
}

/// The processor time of this process in seconds (proc_pid_stat(5): `utime` and `stime`, in hundredths on Linux).
fn processor_seconds() -> Option<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").ok()?;
    // The name of the program, in brackets, may contain blanks.
    let mut fields = stat.rsplit_once(')')?.1.split_whitespace().skip(11);
    let ticks: [u64; 2] = [fields.next()?.parse().ok()?, fields.next()?.parse().ok()?];
    Some((ticks[0] + ticks[1]) as f64 / 100.0)
}

/// Recorded times, by figure and form.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Times(BTreeMap<(String, Form), Took>);

/// An estimate for several figures.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Estimate {
    /// The number of figures.
    pub figures: usize,
    /// The number of figures without a recorded time.
    pub unknown: usize,
    /// The number of threads.
    pub threads: usize,
    /// The time of the figures with a recorded time.
    pub lasts: Duration,
    /// Whether some of them were recorded by `--quick` only, so that a longer time is likely.
    pub at_least: bool,
}

impl fmt::Display for Estimate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { figures, unknown, threads, lasts, at_least } = self;
        if *unknown > 0 && unknown == figures {
            return write!(f, "{figures} figures: their times are not recorded");
        }
        let (about, time) = (if *at_least { "at least" } else { "about" }, text::time(*lasts));
        let threads = stats::count(*threads, "thread");
        write!(f, "{figures} figures: {about} {time} on {threads}, by recorded times of another machine")?;
        if *unknown > 0 {
            write!(f, "; the times of {unknown} of them are not recorded")?;
        }
        Ok(())
    }
}

impl Times {
    /// The times in the tree.
    pub fn recorded() -> Self {
        Self::read(RECORDED).unwrap_or_default()
    }

    /// Reads a file of times; one that does not exist is empty.
    ///
    /// # Errors
    ///
    /// The file cannot be read, or has a line that is none.
    pub fn load(path: &Path) -> Result<Self, String> {
        match std::fs::read_to_string(path) {
            Ok(text) => Self::read(&text).map_err(|what| format!("{}: {what}", path.display())),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(Self::default()),
            Err(error) => Err(format!("cannot read {}: {error}", path.display())),
        }
    }

    /// Writes a file of times.
    ///
    /// # Errors
    ///
    /// The file cannot be written.
    pub fn store(&self, path: &Path) -> Result<(), String> {
        std::fs::write(path, self.to_string())
            .map_err(|error| format!("cannot write {}: {error}", path.display()))
    }

    fn read(text: &str) -> Result<Self, String> {
        let mut times = Self::default();
        for (number, line) in text.lines().enumerate().filter(|(_, line)| !line.is_empty()) {
            if line == TITLES {
                continue;
            }
            let parsed = parse(line).ok_or_else(|| format!("line {}: not as `{TITLES}`", number + 1))?;
            times.0.insert(parsed.0, parsed.1);
        }
        Ok(times)
    }

    /// Records what a figure took.
    pub fn add(&mut self, bench: &Bench, figure: &Figure, runs: u64, stopwatch: &Stopwatch) {
        let took = Took { runs, thread_seconds: stopwatch.thread_seconds(figure, bench.options.threads) };
        self.0.insert((figure.id.to_owned(), Form::of(bench.options.quick)), took);
    }

    /// Estimates how long a bench takes for the figures that are not stored.
    pub fn estimate(&self, bench: &Bench, figures: &[&'static Figure]) -> Estimate {
        let threads_here = bench.options.threads;
        let mut estimate = Estimate {
            figures: 0,
            unknown: 0,
            threads: threads_here,
            lasts: Duration::ZERO,
            at_least: false,
        };
        for figure in figures.iter().filter(|figure| !bench.is_stored(figure)) {
            estimate.figures += 1;
            let Some((seconds, is_known)) = self.thread_seconds(bench, figure) else {
                estimate.unknown += 1;
                continue;
            };
            estimate.lasts += Duration::from_secs_f64(seconds / threads(figure, threads_here) as f64);
            estimate.at_least |= !is_known;
        }
        estimate
    }

    /// The seconds of one thread for a figure, and whether they were recorded in this form. Otherwise they follow from the
    /// seconds a run of the other form, and the minimum number of runs.
    fn thread_seconds(&self, bench: &Bench, figure: &Figure) -> Option<(f64, bool)> {
        let took = |form: Form| self.0.get(&(figure.id.to_owned(), form));
        let form = Form::of(bench.options.quick);
        if let Some(took) = took(form) {
            return Some((took.thread_seconds, true));
        }
        let other = took(if form == Form::Quick { Form::Whole } else { Form::Quick })?;
        let runs = figure.sweep().map_or(1, |sweep| {
            let points = sweep.points();
            let points = points.iter().filter(|point| form == Form::Whole || (sweep.quick)(point)).count();
            points as u64 * u64::from(bench.runs(sweep).min)
        });
        Some((other.thread_seconds / other.runs.max(1) as f64 * runs as f64, false))
    }
}

/// The number of threads by which a figure is divided: live runs have a number of their own, and a single run one thread.
fn threads(figure: &Figure, threads: usize) -> usize {
    match figure.kind {
        Kind::Sweep(_) => threads.max(1),
        Kind::Live(_) => AT_ONCE,
        Kind::Scene(_) | Kind::Film(_) => 1,
    }
}

/// A line of a file of times.
fn parse(line: &str) -> Option<((String, Form), Took)> {
    let fields: Vec<&str> = line.split(',').collect();
    let [figure, form, runs, seconds] = fields[..] else { return None };
    let form = [Form::Whole, Form::Quick].into_iter().find(|its| its.name() == form)?;
    let thread_seconds: f64 = seconds.parse().ok()?;
    let is_time = (0.0..1e9).contains(&thread_seconds);
    is_time.then_some(((figure.to_owned(), form), Took { runs: runs.parse().ok()?, thread_seconds }))
}

/// The file of times.
impl fmt::Display for Times {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{TITLES}")?;
        self.0.iter().try_for_each(|((figure, form), Took { runs, thread_seconds })| {
            writeln!(f, "{figure},{},{runs},{thread_seconds:.1}", form.name())
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::bench::Options;
    use crate::papers;
    use crate::store::Store;

    fn bench(threads: usize, quick: Quick) -> Bench {
        let options = Options { threads, quick, ..Options::default() };
        Bench { store: Store::new("/nonexistent"), options }
    }

    impl Times {
        fn put(&mut self, figure: &Figure, form: Form, runs: u64, thread_seconds: f64) {
            self.0.insert((figure.id.to_owned(), form), Took { runs, thread_seconds });
        }
    }

    #[test]
    fn a_stopwatch_reads_processor_time() {
        let before = processor_seconds().unwrap();
        let mut sum = 0_u64;
        while processor_seconds().unwrap() < before + 0.05 {
            sum = std::hint::black_box(sum + 1);
        }
        assert!(sum > 0 && before >= 0.0);
    }

    #[test]
    fn estimates_scale_with_threads_and_name_what_is_not_known() {
        let figures = papers::find_figures(&["multistream/fig6".to_owned(), "fcs/fig2a".to_owned()]).unwrap();
        let mut times = Times::default();
        times.put(figures[0], Form::Whole, 5_000, 4.0 * 3_600.0);
        let one = times.estimate(&bench(1, Quick::No), &figures);
        assert_eq!((one.figures, one.unknown, one.at_least), (2, 1, false));
        assert_eq!(one.lasts, Duration::from_secs(4 * 3_600));
        let text = times.estimate(&bench(2, Quick::No), &figures).to_string();
        assert!(text.starts_with("2 figures: about 2.0 h on 2 threads"), "{text}");
        assert!(text.ends_with("the times of 1 of them are not recorded"), "{text}");
        let unknown = Times::default().estimate(&bench(1, Quick::No), &figures).to_string();
        assert_eq!(unknown, "2 figures: their times are not recorded");
        // From a quick run follows the time of the minimum number of runs, at least.
        let sweep = figures[1].sweep().unwrap();
        times.put(figures[1], Form::Quick, 10, 2.0);
        let both = times.estimate(&bench(1, Quick::No), &figures);
        let runs = sweep.points().len() as f64 * f64::from(sweep.runs.min);
        assert_eq!((both.unknown, both.at_least), (0, true));
        assert_eq!((both.lasts - one.lasts).as_secs_f64().round(), (runs * 0.2).round());
        assert_eq!(Times::read(&times.to_string()), Ok(times));
    }

    #[test]
    fn the_recorded_times_are_of_figures_and_wrong_lines_are_refused() {
        let recorded = Times::read(RECORDED).unwrap();
        for (figure, _) in recorded.0.keys() {
            assert!(papers::figure(figure).is_some(), "{figure}");
        }
        assert_eq!(recorded.to_string(), RECORDED);
        for wrong in
            ["a", "a,whole,1", "a,half,1,2", "a,whole,x,2", "a,whole,1,NaN", "a,whole,1,-1", "a,whole,1,inf"]
        {
            assert!(Times::read(wrong).unwrap_err().starts_with("line 1: "), "{wrong}");
        }
    }
}
