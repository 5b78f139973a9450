//! Runs long work on a Rust thread, while the Python thread shows progress and handles Ctrl-C.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{self, RecvTimeoutError};
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use braidftp_lab::bench::Reporter;
use braidftp_lab::figure::Figure;
use pyo3::prelude::*;

use crate::Object;

/// Interval at which progress is shown and signals are checked.
const EVERY: Duration = Duration::from_millis(100);

/// Messages from a sweep to its supervisor.
enum Told {
    Capped(String),
    Failed(String),
    Note(String),
}

/// State shared by the supervisor and the work.
#[derive(Default)]
struct Shared {
    is_cancelled: AtomicBool,
    /// The numbers of runs that are done and planned.
    runs: Mutex<(u64, u64)>,
}

struct Speaker<'a> {
    tell: mpsc::Sender<Told>,
    shared: &'a Shared,
}

impl Reporter for Speaker<'_> {
    fn on_figure(&mut self, figure: &'static Figure, known: usize) {
        if known > 0 {
            self.on_note(&format!("{}: continues with {known} stored runs", figure.id));
        }
    }

    fn on_run(&mut self, done: u64, planned: u64) {
        *self.shared.runs.lock().unwrap_or_else(PoisonError::into_inner) = (done, planned);
    }

    fn on_capped(&mut self, what: &str) {
        let _ = self.tell.send(Told::Capped(what.to_owned()));
    }

    fn on_failed(&mut self, what: &str) {
        let _ = self.tell.send(Told::Failed(what.to_owned()));
    }

    fn is_cancelled(&self) -> bool {
        self.shared.is_cancelled.load(Ordering::Relaxed)
    }

    fn on_note(&mut self, note: &str) {
        let _ = self.tell.send(Told::Note(note.to_owned()));
    }
}

/// Runs the work on another thread. `tell` is called on this one: with "run" and the numbers of runs done and planned, or with
/// "capped", "failed" or "note" and a text. If `tell` or a signal raises an exception, the work is cancelled.
pub(crate) fn supervised<T: Send>(
    py: Python<'_>,
    tell: Option<&Object>,
    work: impl FnOnce(&mut dyn Reporter) -> T + Send,
) -> PyResult<T> {
    let shared = Shared::default();
    let (sender, told) = mpsc::channel();
    // `detach` requires `Sync`; this thread alone uses it.
    let told = Mutex::new(told);
    let mut speaker = Speaker { tell: sender, shared: &shared };
    std::thread::scope(|scope| {
        let worker = scope.spawn(move || work(&mut speaker));
        let mut failed = None;
        let mut shown = (0, 0);
        loop {
            let next = py.detach(|| told.lock().unwrap_or_else(PoisonError::into_inner).recv_timeout(EVERY));
            let runs = *shared.runs.lock().unwrap_or_else(PoisonError::into_inner);
            let is_over = matches!(next, Err(RecvTimeoutError::Disconnected));
            let say = || {
                py.check_signals()?;
                let Some(tell) = tell else { return Ok(()) };
                if runs != shown {
                    tell.call1(py, ("run", runs.0, runs.1))?;
                }
                match &next {
                    Ok(Told::Capped(text)) => tell.call1(py, ("capped", text, 0)),
                    Ok(Told::Failed(text)) => tell.call1(py, ("failed", text, 0)),
                    Ok(Told::Note(text)) => tell.call1(py, ("note", text, 0)),
                    Err(_) => return Ok(()),
                }
                .map(drop)
            };
            if failed.is_none()
                && let Err(error) = say()
            {
                shared.is_cancelled.store(true, Ordering::Relaxed);
                failed = Some(error);
            }
            shown = runs;
            if is_over {
                break;
            }
        }
        let done = py.detach(|| worker.join()).unwrap_or_else(|panic| std::panic::resume_unwind(panic));
        failed.map_or(Ok(done), Err)
    })
}
