//! Progress of a job: bars at a terminal, a line every ten seconds otherwise, JSON events, or nothing.
//!
//! The job reports events to [`Reporter`]; a task of the reporter reads the counters ten times per second and
//! draws. Nothing here slows or stops a job: what cannot be drawn is dropped.

use std::collections::BTreeMap;
use std::io::{self, IsTerminal};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use indicatif::{HumanBytes, MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};

use crate::dashboard::TRANSFERS_MAX;
use crate::exit::{Error, escape};
use crate::report::{Action, Event, PathProgress, PathSummary, Summary};
use crate::stderr;

/// The interval at which the counters are read.
const TICK: Duration = Duration::from_millis(100);
/// The interval of lines without a terminal.
const LINE_EVERY: Duration = Duration::from_secs(10);
/// The maximum number of files with their own bars.
const MAX_FILE_BARS: usize = 4;
/// The age at which a file in progress gets a bar: the bars of many small files would flicker.
const BAR_AFTER: Duration = Duration::from_millis(500);
/// The maximum number of errors in the list at the end; further ones are counted.
const MAX_ERRORS_LISTED: usize = 20;
/// The maximum number of lines of errors and warnings, each caused by the server; further ones are counted.
/// Events of `--json` are always written: they are the program's output.
pub const LINES_MAX: u64 = 1_000;

/// The output style.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Style {
    /// For people: bars at a terminal, lines otherwise.
    Human {
        /// Whether each completed file is printed.
        verbose: bool,
    },
    /// Events as JSON lines on standard output.
    Json,
    /// Errors only.
    Quiet,
    /// Nothing: the caller of the job queries the errors ([`Reporter::errors`]).
    Nothing,
}

/// What limited the throughput at one moment.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Limit {
    /// The local congestion window was full.
    Cwnd,
    /// The peer's receive window was full.
    Rwnd,
    /// The local disk was the bottleneck.
    Disk,
    /// `--limit`.
    Asked,
    /// There was nothing to send or to wait for.
    Application,
    /// The network path, or the server, was the bottleneck.
    Path,
}

impl Limit {
    const fn says(self) -> &'static str {
        match self {
            Self::Cwnd => "the congestion window: the network path took no more (loss, or a full queue)",
            Self::Rwnd => "the server's receive window: it did not take the bytes any faster",
            Self::Disk => "this side's disk",
            Self::Asked => "--limit",
            Self::Application => "the application: there was nothing in flight to wait for",
            Self::Path => "the network path, or the server's side of it: this side waited for bytes",
        }
    }
}

/// The state of the transport at one moment.
#[derive(Debug, Clone, Default)]
pub struct Probe {
    /// The network paths.
    pub paths: Vec<PathSummary>,
    /// What limits the throughput, if a transfer is in progress.
    pub limit: Option<Limit>,
}

/// Receives the events of a job. Cheap to clone; every clone is the same reporter.
#[derive(Debug, Clone)]
pub struct Reporter(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    style: Style,
    mode: String,
    started: Instant,
    files: AtomicU64,
    failed: AtomicU64,
    /// The number of lines of errors and warnings, printed or not.
    lines: AtomicU64,
    bytes: AtomicU64,
    bytes_total: AtomicU64,
    total_is_known: AtomicBool,
    state: Mutex<State>,
    bars: Option<Bars>,
}

#[derive(Default)]
struct State {
    meters: BTreeMap<u64, Arc<MeterState>>,
    next_meter: u64,
    errors: Vec<String>,
    limits: BTreeMap<Limit, u64>,
    probe: Option<Box<dyn Fn() -> Probe + Send>>,
    last_paths: Vec<PathSummary>,
    /// The completion time of each file, if recorded.
    finished: Option<Vec<Duration>>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("meters", &self.meters.len()).finish_non_exhaustive()
    }
}

#[derive(Debug)]
struct Bars {
    multi: MultiProgress,
    whole: ProgressBar,
    files: Vec<ProgressBar>,
    paths: Mutex<Vec<ProgressBar>>,
}

#[derive(Debug)]
struct MeterState {
    path: String,
    size: Option<u64>,
    started: Instant,
    done: AtomicU64,
}

/// Counts the bytes of one file in progress. Dropping it removes its bar.
#[derive(Debug)]
pub struct Meter {
    reporter: Reporter,
    id: u64,
    state: Arc<MeterState>,
}

impl Meter {
    /// Adds transferred bytes.
    pub fn add(&self, bytes: u64) {
        self.state.done.fetch_add(bytes, Ordering::Relaxed);
        self.reporter.passed(bytes);
    }

    /// The number of bytes transferred in this attempt.
    pub fn done(&self) -> u64 {
        self.state.done.load(Ordering::Relaxed)
    }
}

impl Drop for Meter {
    fn drop(&mut self) {
        self.reporter.lock().meters.remove(&self.id);
    }
}

impl Reporter {
    /// A reporter for a job in `mode`. Bars are drawn on standard error, so that standard output only
    /// contains the command's output.
    pub fn new(style: Style, mode: impl ToString) -> Self {
        let bars = matches!(style, Style::Human { .. }) && io::stderr().is_terminal();
        Self(Arc::new(Inner {
            style,
            mode: mode.to_string(),
            started: Instant::now(),
            files: AtomicU64::new(0),
            failed: AtomicU64::new(0),
            lines: AtomicU64::new(0),
            bytes: AtomicU64::new(0),
            bytes_total: AtomicU64::new(0),
            total_is_known: AtomicBool::new(false),
            state: Mutex::default(),
            bars: bars.then(Bars::new),
        }))
    }

    /// Begins to draw; ends with the last clone of the reporter, or with [`Self::finish`]. Needs a tokio
    /// runtime.
    pub fn start(&self, command: &'static str, url: impl ToString) {
        self.event(&Event::Start { command, mode: self.0.mode.clone(), url: url.to_string() });
        let weak = Arc::downgrade(&self.0);
        tokio::spawn(async move {
            let mut tick = tokio::time::interval(TICK);
            let mut shown = Shown { at: Instant::now(), bytes: 0, rate: 0.0, paths: Vec::new() };
            loop {
                tick.tick().await;
                match weak.upgrade() {
                    Some(inner) => Self(inner).tick(&mut shown),
                    None => return,
                }
            }
        });
    }

    /// Records from now on when each file was complete, for [`Self::finished`].
    pub fn remember_finished(&self) {
        self.lock().finished.get_or_insert_default();
    }

    /// The completion time of each file, since the reporter was created.
    pub fn finished(&self) -> Vec<Duration> {
        self.lock().finished.clone().unwrap_or_default()
    }

    /// Sets the source of the state of the network paths.
    pub fn watch(&self, probe: impl Fn() -> Probe + Send + 'static) {
        self.lock().probe = Some(Box::new(probe));
    }

    /// Adds bytes to the expected size of the job.
    pub fn expect(&self, bytes: u64) {
        self.0.bytes_total.fetch_add(bytes, Ordering::Relaxed);
    }

    /// The expected size is final: from now on the end can be displayed.
    pub fn expect_no_more(&self) {
        self.0.total_is_known.store(true, Ordering::Relaxed);
    }

    /// Begins a file.
    pub fn file(&self, path: &[u8], size: Option<u64>) -> Meter {
        let state = Arc::new(MeterState {
            path: escape(path),
            size,
            started: Instant::now(),
            done: AtomicU64::new(0),
        });
        let mut inner = self.lock();
        let id = inner.next_meter;
        inner.next_meter += 1;
        inner.meters.insert(id, state.clone());
        drop(inner);
        Meter { reporter: self.clone(), id, state }
    }

    /// Adds bytes of a file that has no meter: it has arrived whole.
    pub(crate) fn passed(&self, bytes: u64) {
        self.0.bytes.fetch_add(bytes, Ordering::Relaxed);
    }

    /// Reports a completed action on a file.
    pub fn done(&self, path: &[u8], action: Action, bytes: u64, resumed: u64) {
        if matches!(action, Action::Received | Action::Sent) {
            self.0.files.fetch_add(1, Ordering::Relaxed);
            let at = self.0.started.elapsed();
            if let Some(finished) = &mut self.lock().finished {
                finished.push(at);
            }
        }
        match self.0.style {
            Style::Json => self.event(&Event::file(path, action, bytes, resumed)),
            Style::Human { verbose: true } => {
                let verb = match action {
                    Action::Received => "received",
                    Action::Sent => "sent",
                    Action::Skipped => "is whole already:",
                    Action::Linked => "linked",
                    Action::HardLinked => "hard-linked",
                    Action::MadeFolder => "made folder",
                    Action::Deleted => "deleted",
                    Action::Renamed => "renamed",
                    Action::SetMode => "set the mode of",
                    Action::SetTime => "set the time of",
                };
                self.line(&format!("{verb} {}", escape(path)));
            }
            _ => {}
        }
    }

    /// Reports an action of a dry run. Printed to standard output, because it is the command's result.
    pub fn plan(&self, path: &[u8], action: Action, bytes: u64) {
        let verb = match action {
            Action::Received => "receive",
            Action::Sent => "send",
            Action::Skipped => "skip",
            Action::Linked => "link",
            Action::HardLinked => "hard-link",
            Action::MadeFolder => "make folder",
            Action::Deleted => "delete",
            Action::Renamed => "rename",
            Action::SetMode => "set mode",
            Action::SetTime => "set time",
        };
        match self.0.style {
            Style::Json => self.event(&Event::Plan { path: escape(path), action, bytes }),
            _ => println!("{verb} {}", escape(path)),
        }
    }

    /// Reports a failed file; the job continues.
    pub fn failed(&self, path: &[u8], error: &Error) {
        self.0.failed.fetch_add(1, Ordering::Relaxed);
        let mut state = self.lock();
        if state.errors.len() < MAX_ERRORS_LISTED {
            state.errors.push(format!("{}: {}", escape(path), error.why));
        }
        drop(state);
        self.event(&Event::error(Some(path), error));
        if self.0.style != Style::Nothing {
            self.bounded_line(format_args!("braidftp: {error}"));
        }
    }

    /// The first errors of files, each with its path.
    pub fn errors(&self) -> Vec<String> {
        self.lock().errors.clone()
    }

    /// Reports a warning.
    pub fn warn(&self, message: impl ToString) {
        match self.0.style {
            Style::Json => self.event(&Event::Warning { message: message.to_string() }),
            Style::Human { .. } => self.bounded_line(format_args!("braidftp: {}", message.to_string())),
            Style::Quiet | Style::Nothing => {}
        }
    }

    /// Reports a warning that is printed even with `--quiet`.
    pub fn caution(&self, message: impl ToString) {
        match self.0.style {
            Style::Json => self.event(&Event::Warning { message: message.to_string() }),
            Style::Human { .. } | Style::Quiet => {
                self.bounded_line(format_args!("braidftp: {}", message.to_string()));
            }
            Style::Nothing => {}
        }
    }

    /// Reports that the connection was lost and will be opened again after `wait`.
    pub fn retry(&self, attempt: u32, of: u32, why: &Error, wait: Duration) {
        match self.0.style {
            Style::Json => self.event(&Event::Retry { attempt, of, why: why.to_string(), wait }),
            Style::Human { .. } => self.line(&format!(
                "braidftp: {}; connecting again in {:.0} s ({attempt} of {of})",
                why.why,
                wait.as_secs_f64()
            )),
            Style::Quiet | Style::Nothing => {}
        }
    }

    /// Writes an event, if events are enabled.
    pub fn event(&self, event: &Event) {
        if self.0.style == Style::Json {
            // Standard output may be a full disk; the job's result is still reported by the exit code.
            let _ = event.write(io::stdout().lock());
        }
    }

    /// Files moved, files failed, bytes moved.
    pub fn counts(&self) -> (u64, u64, u64) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        (count(&self.0.files), count(&self.0.failed), count(&self.0.bytes))
    }

    /// The current state of the job, for the page of `--dashboard`.
    pub(crate) fn look(&self) -> Look {
        let (files, failed, bytes) = self.counts();
        let mut state = self.lock();
        let probed = state.probe.as_ref().map(|probe| probe().paths).unwrap_or_default();
        if !probed.is_empty() {
            state.last_paths = probed;
        }
        let transfer = |meter: &Arc<MeterState>| LookedTransfer {
            path: meter.path.clone(),
            size: meter.size,
            bytes: meter.done.load(Ordering::Relaxed),
            seconds: meter.started.elapsed().as_secs(),
        };
        Look {
            mode: self.0.mode.clone(),
            seconds: self.0.started.elapsed().as_secs(),
            files,
            failed,
            bytes,
            expected: self.0.bytes_total.load(Ordering::Relaxed).max(bytes),
            under_way: state.meters.len(),
            transfers: state.meters.values().take(TRANSFERS_MAX).map(transfer).collect(),
            paths: state.last_paths.clone(),
        }
    }

    /// Ends the report: reads the paths a last time, prints what limited the throughput, and the summary.
    pub fn finish(&self) -> Summary {
        let (files, failed, bytes) = self.counts();
        let mut state = self.lock();
        if let Some(probe) = state.probe.take() {
            let paths = probe().paths;
            if !paths.is_empty() {
                state.last_paths = paths;
            }
        }
        let summary = Summary {
            mode: self.0.mode.clone(),
            files,
            failed,
            bytes,
            seconds: self.0.started.elapsed(),
            paths: state.last_paths.clone(),
        };
        let limit = state.limits.iter().max_by_key(|(_, ticks)| **ticks).map(|(limit, _)| *limit);
        let errors = state.errors.clone();
        drop(state);
        if let Some(bars) = &self.0.bars {
            bars.clear();
        }
        match self.0.style {
            Style::Json => self.event(&Event::Summary(summary.clone())),
            Style::Human { .. } => {
                let seconds = summary.seconds.as_secs_f64().max(1e-6);
                stderr::line(format_args!(
                    "{files} {}, {} in {seconds:.1} s ({}), mode {}{}",
                    if files == 1 { "file" } else { "files" },
                    HumanBytes(bytes),
                    bits_a_second(bytes as f64 * 8.0 / seconds),
                    summary.mode,
                    match failed {
                        0 => String::new(),
                        1 => "; 1 failed".to_owned(),
                        n => format!("; {n} failed:"),
                    },
                ));
                for error in errors.iter().filter(|_| failed > 1) {
                    stderr::line(format_args!("  {error}"));
                }
                if failed > errors.len() as u64 {
                    stderr::line(format_args!("  and {} more", failed - errors.len() as u64));
                }
                if let Some(limit) = limit.filter(|_| seconds > 1.0) {
                    stderr::line(format_args!("what limited the speed: {}", limit.says()));
                }
            }
            Style::Quiet | Style::Nothing => {}
        }
        summary
    }

    /// Prints a line of a kind that a server can cause without limit.
    fn bounded_line(&self, line: std::fmt::Arguments<'_>) {
        match self.0.lines.fetch_add(1, Ordering::Relaxed) {
            LINES_MAX => self.line(&format!("braidftp: {LINES_MAX} lines are enough; the rest is counted")),
            before if before < LINES_MAX => self.line(&line.to_string()),
            _ => {}
        }
    }

    fn line(&self, line: &str) {
        match &self.0.bars {
            Some(bars) => bars.multi.suspend(|| stderr::line(line)),
            None => stderr::line(line),
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        // A panic elsewhere must not cause one here: the counters are only displayed.
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn tick(&self, shown: &mut Shown) {
        let (files, _, bytes) = self.counts();
        let mut state = self.lock();
        let probe = state.probe.as_ref().map(|probe| probe()).unwrap_or_default();
        if let Some(limit) = probe.limit {
            *state.limits.entry(limit).or_default() += 1;
        }
        let meters: Vec<_> = state
            .meters
            .values()
            .filter(|m| m.started.elapsed() > BAR_AFTER)
            .take(MAX_FILE_BARS)
            .cloned()
            .collect();
        if !probe.paths.is_empty() {
            state.last_paths = probe.paths;
        }
        let paths = state.last_paths.clone();
        drop(state);

        let total = self.0.bytes_total.load(Ordering::Relaxed).max(bytes);
        if let Some(bars) = &self.0.bars {
            shown.update(bytes, &paths, TICK * 5);
            bars.draw(&Drawing {
                files,
                bytes,
                total,
                total_is_known: self.0.total_is_known.load(Ordering::Relaxed),
                rate: shown.rate,
                meters: &meters,
                paths: &shown.paths,
            });
            return;
        }
        let due = shown.at.elapsed();
        match self.0.style {
            Style::Json if due >= Duration::from_secs(1) => {
                shown.update(bytes, &paths, Duration::ZERO);
                self.event(&Event::Progress { files, bytes, bytes_total: total, paths: shown.paths.clone() });
            }
            Style::Human { .. } if due >= LINE_EVERY => {
                shown.update(bytes, &paths, Duration::ZERO);
                let paths: String = shown.paths.iter().map(|path| format!("; {}", path_line(path))).collect();
                stderr::line(format_args!(
                    "{files} files, {} of {}{}, {}{paths}",
                    HumanBytes(bytes),
                    HumanBytes(total),
                    if self.0.total_is_known.load(Ordering::Relaxed) { "" } else { " or more" },
                    bits_a_second(shown.rate),
                ));
            }
            _ => {}
        }
    }
}

/// The state of a job at one moment.
#[derive(Debug)]
pub(crate) struct Look {
    /// The mode.
    pub(crate) mode: String,
    /// Seconds since the start.
    pub(crate) seconds: u64,
    /// Completed files.
    pub(crate) files: u64,
    /// Files that failed.
    pub(crate) failed: u64,
    /// Bytes transferred.
    pub(crate) bytes: u64,
    /// Bytes known to be part of the job so far.
    pub(crate) expected: u64,
    /// Files in progress, listed or not.
    pub(crate) under_way: usize,
    /// Files in progress, at most as many as a page lists.
    pub(crate) transfers: Vec<LookedTransfer>,
    /// The network paths.
    pub(crate) paths: Vec<PathSummary>,
}

/// The state of a file in progress.
#[derive(Debug)]
pub(crate) struct LookedTransfer {
    /// The path, relative to the folder of the job.
    pub(crate) path: String,
    /// The size, if known.
    pub(crate) size: Option<u64>,
    /// Bytes transferred.
    pub(crate) bytes: u64,
    /// Seconds since the beginning.
    pub(crate) seconds: u64,
}

struct Shown {
    at: Instant,
    bytes: u64,
    rate: f64,
    paths: Vec<PathProgress>,
}

impl Shown {
    /// Updates the rate, if at least `every` has passed since the last update; returns it in bits per second.
    fn update(&mut self, bytes: u64, paths: &[PathSummary], every: Duration) {
        let since = self.at.elapsed();
        if since >= every || self.paths.len() != paths.len() {
            self.paths = paths.iter().map(|path| self.progress(path, since)).collect();
            self.rate = bytes.saturating_sub(self.bytes) as f64 * 8.0 / since.as_secs_f64().max(1e-6);
            self.at = Instant::now();
            self.bytes = bytes;
        }
    }

    fn progress(&self, path: &PathSummary, since: Duration) -> PathProgress {
        let is_it = |old: &&PathSummary| old.local == path.local && old.peer == path.peer;
        let before = self.paths.iter().map(|shown| &shown.path).rfind(is_it);
        let rate = |now: Option<u64>, before: Option<Option<u64>>| {
            let moved = now.unwrap_or(0).saturating_sub(before.flatten().unwrap_or(0));
            (moved as f64 * 8.0 / since.as_secs_f64().max(1e-6)) as u64
        };
        PathProgress {
            path: path.clone(),
            state: path.state,
            bits_sent_a_second: rate(path.bytes_sent, before.map(|old| old.bytes_sent)),
            bits_received_a_second: rate(path.bytes_received, before.map(|old| old.bytes_received)),
        }
    }
}

struct Drawing<'a> {
    files: u64,
    bytes: u64,
    total: u64,
    total_is_known: bool,
    rate: f64,
    meters: &'a [Arc<MeterState>],
    paths: &'a [PathProgress],
}

impl Bars {
    fn new() -> Self {
        let multi = MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(10));
        let whole = multi.add(ProgressBar::new(0));
        let template = if std::env::var_os("NO_COLOR").is_some_and(|v| !v.is_empty()) {
            "{bar:30} {msg}"
        } else {
            "{bar:30.cyan/dim} {msg}"
        };
        whole.set_style(style(template));
        Self {
            multi,
            whole,
            files: (0..MAX_FILE_BARS).map(|_| ProgressBar::hidden()).collect(),
            paths: Mutex::default(),
        }
    }

    fn draw(&self, now: &Drawing<'_>) {
        self.whole.set_length(now.total.max(1));
        self.whole.set_position(now.bytes);
        let eta = match now.total_is_known && now.rate > 0.0 {
            true => {
                let seconds = (now.total - now.bytes) as f64 * 8.0 / now.rate;
                format!(", {} left", indicatif::HumanDuration(Duration::from_secs_f64(seconds.min(1e7))))
            }
            false => String::new(),
        };
        self.whole.set_message(format!(
            "{} files, {} of {}{}, {}{eta}",
            now.files,
            HumanBytes(now.bytes),
            HumanBytes(now.total),
            if now.total_is_known { "" } else { "+" },
            bits_a_second(now.rate),
        ));
        for (slot, bar) in self.files.iter().enumerate() {
            match now.meters.get(slot) {
                Some(meter) => {
                    if bar.is_hidden() {
                        bar.set_style(style("  {bar:20} {msg}"));
                        self.multi.insert_after(
                            self.files.get(slot.wrapping_sub(1)).unwrap_or(&self.whole),
                            bar.clone(),
                        );
                    }
                    let done = meter.done.load(Ordering::Relaxed);
                    bar.set_length(meter.size.unwrap_or(done).max(1));
                    bar.set_position(done);
                    bar.set_message(format!("{} {}", HumanBytes(done), shorten(&meter.path)));
                }
                None if !bar.is_hidden() => {
                    self.multi.remove(bar);
                    bar.set_draw_target(ProgressDrawTarget::hidden());
                }
                None => {}
            }
        }
        let mut lines = self.paths.lock().unwrap_or_else(PoisonError::into_inner);
        while lines.len() < now.paths.len() {
            let line = self.multi.add(ProgressBar::new_spinner());
            line.set_style(style("  {msg}"));
            lines.push(line);
        }
        for (line, path) in lines.iter().zip(now.paths) {
            line.set_message(path_line(path));
        }
    }

    fn clear(&self) {
        self.whole.finish_and_clear();
        for bar in &self.files {
            bar.finish_and_clear();
        }
        for line in self.paths.lock().unwrap_or_else(PoisonError::into_inner).iter() {
            line.finish_and_clear();
        }
        // Terminals that are closed cannot be cleared, and need not be.
        let _ = self.multi.clear();
    }
}

/// Templates are constants of this file; an invalid one is displayed unformatted.
fn style(template: &str) -> ProgressStyle {
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}

/// Describes a path: rate of both directions, RTT, and the retransmitted part.
fn path_line(now: &PathProgress) -> String {
    let path = &now.path;
    let state =
        now.state.filter(|state| *state != "active").map(|state| format!(" ({state})")).unwrap_or_default();
    let rtt = path.srtt_ms.map(|ms| format!(", RTT {ms:.1} ms")).unwrap_or_default();
    let again =
        path.retransmitted.filter(|n| *n > 0).map(|n| format!(", {n} sent again")).unwrap_or_default();
    let rate = |bits: u64| bits_a_second(bits as f64);
    format!(
        "{} – {}{state}: {} in, {} out{rtt}{again}",
        path.local,
        path.peer,
        rate(now.bits_received_a_second),
        rate(now.bits_sent_a_second)
    )
}

/// A rate in bits, as links are named.
pub fn bits_a_second(bits: f64) -> String {
    match bits {
        b if b >= 1e9 => format!("{:.2} Gbit/s", b / 1e9),
        b if b >= 1e6 => format!("{:.2} Mbit/s", b / 1e6),
        b if b >= 1e3 => format!("{:.1} kbit/s", b / 1e3),
        b => format!("{b:.0} bit/s"),
    }
}

/// The end of a path, which distinguishes files.
fn shorten(path: &str) -> String {
    const WIDTH: usize = 40;
    match path.chars().count() {
        n if n > WIDTH => std::iter::once('…').chain(path.chars().skip(n - WIDTH)).collect(),
        _ => path.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exit::Exit;

    #[test]
    fn the_summary_counts_the_reported_events() {
        let reporter = Reporter::new(Style::Quiet, "braid");
        let meter = reporter.file(b"a", Some(10));
        meter.add(4);
        meter.add(6);
        assert_eq!(meter.done(), 10);
        drop(meter);
        assert!(reporter.lock().meters.is_empty());
        reporter.done(b"a", Action::Received, 10, 0);
        reporter.done(b"b", Action::Skipped, 3, 0);
        reporter.failed(b"c", &Error::new(Exit::Refused, "fetch c", "550 no"));
        let summary = reporter.finish();
        assert_eq!((summary.files, summary.failed, summary.bytes), (1, 1, 10));
    }

    #[test]
    fn the_list_of_errors_is_bounded() {
        let reporter = Reporter::new(Style::Quiet, "tcp");
        for _ in 0..MAX_ERRORS_LISTED + 5 {
            reporter.failed(b"c", &Error::new(Exit::Refused, "fetch c", "550 no"));
        }
        assert_eq!(reporter.lock().errors.len(), MAX_ERRORS_LISTED);
    }

    #[test]
    fn a_path_is_displayed_with_its_rates_and_its_state() {
        let path = |bytes_received: u64| PathSummary {
            local: "10.1.1.2:4000".into(),
            peer: "10.1.1.1:9899".into(),
            bytes_sent: Some(1_000),
            bytes_received: Some(bytes_received),
            packets_sent: None,
            retransmitted: Some(3),
            timeouts: Some(0),
            srtt_ms: Some(20.04),
            min_rtt_ms: Some(20.0),
            mtu: Some(1_452),
            cwnd: Some(14_000),
            state: Some("active"),
        };
        let begun = Instant::now().checked_sub(Duration::from_secs(1)).unwrap();
        let mut shown = Shown { at: begun, bytes: 0, rate: 0.0, paths: Vec::new() };
        shown.update(0, &[path(0)], Duration::ZERO);
        shown.at = begun;
        shown.update(0, &[path(250_000)], Duration::ZERO);
        let bits = shown.paths[0].bits_received_a_second;
        assert!((1_000_000..=2_000_000).contains(&bits), "{bits}");
        assert_eq!(shown.paths[0].bits_sent_a_second, 0);
        shown.paths[0].bits_received_a_second = 2_000_000;
        let line = "10.1.1.2:4000 – 10.1.1.1:9899: 2.00 Mbit/s in, 0 bit/s out, RTT 20.0 ms, 3 sent again";
        assert_eq!(path_line(&shown.paths[0]), line);
        let dead = PathProgress { state: Some("set-aside"), ..shown.paths[0].clone() };
        assert!(path_line(&dead).contains("9899 (set-aside): "));
        let mut json = Vec::new();
        Event::Progress { files: 1, bytes: 2, bytes_total: 3, paths: vec![dead] }.write(&mut json).unwrap();
        assert_eq!(
            String::from_utf8(json).unwrap(),
            concat!(
                r#"{"event":"progress","files":1,"bytes":2,"bytes_total":3,"paths":[{"local":"10.1.1.2:4000","#,
                r#""peer":"10.1.1.1:9899","bytes_sent":1000,"bytes_received":250000,"retransmitted":3,"timeouts":0,"#,
                r#""srtt_ms":20.04,"cwnd":14000,"state":"set-aside","bits_sent_a_second":0,"#,
                r#""bits_received_a_second":2000000}]}"#,
                "\n"
            )
        );
    }

    #[test]
    fn rates_are_printed_in_bits_per_second() {
        assert_eq!(bits_a_second(2_910_000.0), "2.91 Mbit/s");
        assert_eq!(bits_a_second(500.0), "500 bit/s");
    }
}
