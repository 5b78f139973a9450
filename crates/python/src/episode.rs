//! Stepwise control of a run: at each step a program reads counters and sets the congestion window.
//!
//! The run has a thread of its own, which waits for the next action at each step.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::mpsc::{self, Receiver, Sender};
use std::sync::{Mutex, PoisonError};
use std::thread::JoinHandle;
use std::time::Duration;

use braidftp_base::Rate;
use braidftp_lab::figure::{Row, RunFailed};
use braidftp_lab::scenario::{Look, Watcher};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::agent::{Agent, Counts};
use crate::scenario::Scenario;

/// Messages from the thread of a run.
enum Said {
    /// The run waits for an action.
    Step(Look),
    /// The run has ended: its numbers, or an error.
    Ended(Result<Row, String>),
}

/// Stops the run at each step until the program has acted.
struct Rendezvous {
    every: Duration,
    said: Sender<Said>,
    go: Receiver<()>,
}

impl Watcher for Rendezvous {
    fn every(&self) -> Duration {
        self.every
    }

    fn look(&mut self, look: &Look) {
        // The program dropped the episode: end the run.
        if self.said.send(Said::Step(look.clone())).is_err() || self.go.recv().is_err() {
            RunFailed::end("the episode was closed".to_owned());
        }
    }
}

/// One run of a scenario, step by step. `braidftp.lab.Environment` is its interface of Gymnasium.
#[pyclass(module = "braidftp._braidftp")]
pub(crate) struct Episode {
    agent: Agent,
    columns: Vec<&'static str>,
    go: Option<Sender<()>>,
    // A receiver cannot be shared by threads; the lock gives it to one thread at a time.
    said: Mutex<Receiver<Said>>,
    thread: Option<JoinHandle<()>>,
    ended: Option<Result<Row, String>>,
    before: Counts,
    then: Duration,
}

#[pymethods]
impl Episode {
    /// Begins a run of a scenario that was read with an agent.
    #[new]
    fn new(py: Python<'_>, scenario: Py<Scenario>, point: usize, seed: u64, every: f64) -> PyResult<Self> {
        if !(1e-5..=1e6).contains(&every) {
            return Err(PyValueError::new_err(format!("a step lasts 0.00001 s to 1000000 s, not {every} s")));
        }
        let reference = scenario.get();
        let agent = reference
            .agent()
            .ok_or_else(|| PyValueError::new_err("the scenario was read without an agent"))?;
        let agent = agent.clone();
        let (place, sweep) = (reference.point(point)?, reference.sweep());
        *agent.lock() = Counts::default();
        let (tell, said) = mpsc::channel();
        let (go, wait) = mpsc::channel();
        let scenario = scenario.clone_ref(py);
        let thread = std::thread::spawn(move || {
            let every = Duration::from_secs_f64(every);
            let mut rendezvous = Rendezvous { every, said: tell.clone(), go: wait };
            let run = || scenario.get().scenario.watch(&place, seed, &mut rendezvous);
            let row = catch_unwind(AssertUnwindSafe(run)).map_err(|panic| {
                let failed = panic.downcast_ref::<RunFailed>().map(|failed| failed.message.clone());
                failed
                    .or_else(|| panic.downcast_ref::<String>().cloned())
                    .or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()))
                    .unwrap_or_else(|| "the run panicked".to_owned())
            });
            let _ = tell.send(Said::Ended(row));
        });
        Ok(Self {
            agent,
            columns: sweep.columns.iter().map(|column| column.name).collect(),
            go: Some(go),
            said: Mutex::new(said),
            thread: Some(thread),
            ended: None,
            before: Counts::default(),
            then: Duration::ZERO,
        })
    }

    /// Runs until the next step or the end, with this window in bytes (0: the initial one) and pacing rate in bit/s. Returns what
    /// was counted in the step.
    #[pyo3(signature = (window = None, pacing_rate = None))]
    fn step<'py>(
        &mut self,
        py: Python<'py>,
        window: Option<u64>,
        pacing_rate: Option<f64>,
    ) -> PyResult<Bound<'py, PyDict>> {
        if self.ended.is_some() || self.go.is_none() {
            return Err(PyRuntimeError::new_err("this run has ended; begin another"));
        }
        if let Some(window) = window {
            self.agent.lock().window = window.min(u64::from(u32::MAX)) as usize;
        }
        if let Some(rate) = pacing_rate {
            if !(1.0..=1e15).contains(&rate) {
                return Err(PyValueError::new_err(format!("a pacing rate is 1 to 1e15 bit/s, not {rate}")));
            }
            self.agent.lock().rate = Some(Rate::from_bits_per_second(rate as u64));
        }
        // The run has not stopped before the first step.
        if self.then > Duration::ZERO
            && let Some(go) = &self.go
        {
            let _ = go.send(());
        }
        let said = py.detach(|| self.said.lock().unwrap_or_else(PoisonError::into_inner).recv());
        let look = match said {
            Ok(Said::Step(look)) => Some(look),
            Ok(Said::Ended(row)) => {
                self.ended = Some(row);
                None
            }
            Err(_) => return Err(PyRuntimeError::new_err("the thread of the run is gone")),
        };
        self.told(py, look)
    }

    /// The numbers of a run that has ended, by column.
    fn numbers<'py>(&self, py: Python<'py>) -> PyResult<Option<Bound<'py, PyDict>>> {
        match &self.ended {
            None => Ok(None),
            Some(Err(message)) => Err(crate::error::ControllerError::new_err(message.clone())),
            Some(Ok(row)) => {
                let numbers = PyDict::new(py);
                for (column, number) in self.columns.iter().zip(&row.0) {
                    numbers.set_item(column, number)?;
                }
                Ok(Some(numbers))
            }
        }
    }

    /// Ends the run at the present time.
    fn close(&mut self, py: Python<'_>) {
        self.go = None;
        if let Some(thread) = self.thread.take() {
            py.detach(|| {
                // Discard the last messages.
                while let Ok(Said::Step(_)) = self.said.lock().unwrap_or_else(PoisonError::into_inner).recv()
                {
                }
                let _ = thread.join();
            });
        }
    }
}

impl Episode {
    /// The counters since the last step.
    fn told<'py>(&mut self, py: Python<'py>, look: Option<Look>) -> PyResult<Bound<'py, PyDict>> {
        let now = self.agent.lock().clone();
        let before = std::mem::replace(&mut self.before, now.clone());
        let told = PyDict::new(py);
        let at = look.as_ref().map_or(self.then, |look| look.now);
        let lasted = (at - self.then).as_secs_f64();
        self.then = at;
        let rtts = now.rtts - before.rtts;
        let rtt = (rtts > 0).then(|| (now.rtt_sum - before.rtt_sum).as_secs_f64() / f64::from(rtts));
        told.set_item("ended", look.is_none())?;
        told.set_item("now", at.as_secs_f64())?;
        told.set_item("lasted", lasted)?;
        told.set_item("window", now.window)?;
        told.set_item("flight_bytes", now.flight_bytes)?;
        told.set_item("mtu", now.mtu)?;
        told.set_item("rtt", rtt)?;
        told.set_item("rtt_min", now.rtt_min.map(|rtt| rtt.as_secs_f64()))?;
        for (name, of) in [
            ("sent_bytes", (|counts: &Counts| counts.sent_bytes) as fn(&Counts) -> u64),
            ("acked_bytes", |counts| counts.acked_bytes),
            ("lost_bytes", |counts| counts.lost_bytes),
            ("acks", |counts| counts.acks),
            ("losses", |counts| counts.losses),
            ("timeouts", |counts| counts.timeouts),
            ("marks", |counts| counts.marks),
        ] {
            told.set_item(name, of(&now) - of(&before))?;
        }
        if let Some(look) = look {
            told.set_item("flows", look.flows)?;
            let queues = look.queues.iter().map(|(link, [there, back])| (link, *there, *back));
            told.set_item("queues", queues.collect::<Vec<_>>())?;
        }
        Ok(told)
    }
}

impl Drop for Episode {
    fn drop(&mut self) {
        Python::attach(|py| self.close(py));
    }
}
