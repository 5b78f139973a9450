//! Congestion controllers that are written in Python.
//!
//! An object has the methods of [`cc::Controller`], as in `python/src/braidftp/lab.py`; omitted ones do nothing. The window is
//! read from the object after each event and cached, since a transport reads it far more often than it changes. An exception
//! ends the run that raised it, and is reported with the simulated time.

use std::sync::Arc;

use braidftp_base::{Rate, Time};
use braidftp_cc as cc;
use braidftp_lab::figure::RunFailed;
use pyo3::exceptions::{PyTypeError, PyValueError};
use pyo3::intern;
use pyo3::prelude::*;
use pyo3::types::PyTraceback;

use crate::Object;

/// The largest window, in bytes: 32 bits hold it.
const WINDOW_MAX: f64 = u32::MAX as f64;

/// Data that was sent on a path.
#[pyclass(frozen, get_all, module = "braidftp.lab")]
pub(crate) struct Sent {
    now: f64,
    bytes: usize,
    flight_before: usize,
}

/// Data that was declared lost.
#[pyclass(frozen, get_all, module = "braidftp.lab")]
pub(crate) struct Lost {
    now: f64,
    bytes: usize,
    sent_at: f64,
    flight_bytes: usize,
    mtu: usize,
}

/// Data that an acknowledgement newly covers.
#[pyclass(frozen, get_all, module = "braidftp.lab")]
pub(crate) struct Ack {
    now: f64,
    bytes: usize,
    gap_bytes: usize,
    regained_bytes: usize,
    flight_before: usize,
    mtu: usize,
    rtt: Option<f64>,
    cross_path_age: Option<f64>,
    srtt: Option<f64>,
    cum_advanced: bool,
    in_recovery: bool,
    siblings: Vec<PathView>,
}

/// What a coupled controller may know of a sibling path.
#[pyclass(frozen, get_all, skip_from_py_object, module = "braidftp.lab")]
#[derive(Clone)]
pub(crate) struct PathView {
    window: usize,
    ssthresh: usize,
    srtt: Option<f64>,
    between_losses: u64,
}

/// A congestion event: its cause is "loss", "timeout" or "ecn".
#[pyclass(frozen, get_all, module = "braidftp.lab")]
pub(crate) struct Congestion {
    cause: &'static str,
    now: f64,
    flight_bytes: usize,
    mtu: usize,
}

/// A congestion event that was spurious.
#[pyclass(frozen, get_all, module = "braidftp.lab")]
pub(crate) struct Spurious {
    now: f64,
    flight_bytes: usize,
    mtu: usize,
}

/// The end of a recovery.
#[pyclass(frozen, get_all, module = "braidftp.lab")]
pub(crate) struct Recovered {
    now: f64,
    flight_bytes: usize,
    mtu: usize,
}

/// A path on which nothing was sent for some time.
#[pyclass(frozen, get_all, module = "braidftp.lab")]
pub(crate) struct Idle {
    now: f64,
    idle_for: f64,
    rto: f64,
    mtu: usize,
    ssthresh_min: usize,
}

/// The methods that a controller defines.
#[derive(Debug, Default)]
struct Has {
    ssthresh: bool,
    pacing_rate: bool,
    on_sent: bool,
    on_lost: bool,
    on_app_limited: bool,
    on_ack: bool,
    on_congestion: bool,
    on_spurious: bool,
    on_idle: bool,
    on_recovered: bool,
    on_mtu: bool,
    limit_window: bool,
    restart_window: bool,
}

impl Has {
    /// The methods that the object's class, or one between it and `Controller`, defines. The base class marks its own by
    /// `_is_default`.
    fn of(object: &Bound<'_, PyAny>) -> PyResult<Self> {
        let has = |name: &str| -> PyResult<bool> {
            let Some(method) = object.getattr_opt(name)? else { return Ok(false) };
            Ok(method.getattr_opt("_is_default")?.is_none())
        };
        Ok(Self {
            ssthresh: has("ssthresh")?,
            pacing_rate: has("pacing_rate")?,
            on_sent: has("on_sent")?,
            on_lost: has("on_lost")?,
            on_app_limited: has("on_app_limited")?,
            on_ack: has("on_ack")?,
            on_congestion: has("on_congestion")?,
            on_spurious: has("on_spurious")?,
            on_idle: has("on_idle")?,
            on_recovered: has("on_recovered")?,
            on_mtu: has("on_mtu")?,
            limit_window: has("limit_window")?,
            restart_window: has("restart_window")?,
        })
    }
}

/// A controller whose object is Python's.
struct Controller {
    object: Object,
    name: &'static str,
    has: Arc<Has>,
    counts_arrivals: bool,
    now: Time,
    // The values of the object after the last event.
    window: usize,
    ssthresh: usize,
    rate: Option<Rate>,
}

/// What a program may name in a scenario: a controller that `make(mtu)` makes for each path. The name is kept for good.
pub(crate) fn external(name: &str, make: Object) -> cc::External {
    let name: &'static str = Box::leak(name.to_owned().into_boxed_str());
    let build =
        move |_options: cc::Options, mtu: usize| cc::guarded(mtu, |mtu| Controller::new(name, &make, mtu));
    cc::External { name, build: Box::leak(Box::new(build)) }
}

impl Controller {
    fn new(name: &'static str, make: &Object, mtu: usize) -> Self {
        let made = Python::attach(|py| {
            let object = make.call1(py, (mtu,))?;
            let has = Arc::new(Has::of(object.bind(py))?);
            let counts = object.bind(py).getattr_opt("counts_arrivals")?;
            let counts_arrivals = counts.map_or(Ok(false), |counts| counts.call0()?.is_truthy())?;
            let (now, window, ssthresh, rate) = (Time::ZERO, 0, 0, None);
            let mut controller = Self { object, name, has, counts_arrivals, now, window, ssthresh, rate };
            controller.refresh(py)?;
            Ok(controller)
        });
        made.unwrap_or_else(|error| fail(name, "it is made", Time::ZERO, error))
    }

    /// Reads window, threshold and rate from the object.
    fn refresh(&mut self, py: Python<'_>) -> PyResult<()> {
        let object = self.object.bind(py);
        let window = object.call_method0(intern!(py, "window"))?;
        self.window = bytes("window", &window)?;
        self.ssthresh = match self.has.ssthresh {
            true => bytes("ssthresh", &object.call_method0(intern!(py, "ssthresh"))?)?,
            false => WINDOW_MAX as usize,
        };
        if self.has.pacing_rate {
            let rate = object.call_method0(intern!(py, "pacing_rate"))?;
            self.rate = match rate.is_none() {
                true => None,
                false => Some(Rate::from_bits_per_second(rate_of(&rate)?)),
            };
        }
        Ok(())
    }

    /// Calls a method of the object, if it is defined, then reads the window.
    fn call(
        &mut self,
        now: Option<Time>,
        method: &'static str,
        has: fn(&Has) -> bool,
        call: impl for<'py> FnOnce(&Bound<'py, PyAny>) -> PyResult<Bound<'py, PyAny>>,
    ) {
        self.now = now.unwrap_or(self.now);
        if !has(&self.has) {
            return;
        }
        let called = Python::attach(|py| {
            call(self.object.bind(py))?;
            self.refresh(py)
        });
        // Release the interpreter before the run is ended.
        if let Err(error) = called {
            fail(self.name, method, self.now, error);
        }
    }
}

/// A copy of the object as it is: `copy.copy` copies its attributes, and `__copy__` may do more.
impl Clone for Controller {
    fn clone(&self) -> Self {
        let copied = Python::attach(|py| {
            let copy = py.import(intern!(py, "copy"))?.getattr(intern!(py, "copy"))?;
            Ok(copy.call1((&self.object,))?.unbind())
        });
        let object = copied.unwrap_or_else(|error| fail(self.name, "it is copied", self.now, error));
        let Self { name, counts_arrivals, now, window, ssthresh, rate, .. } = *self;
        Self { object, name, has: self.has.clone(), counts_arrivals, now, window, ssthresh, rate }
    }
}

impl std::fmt::Debug for Controller {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { name, window, ssthresh, .. } = self;
        f.debug_struct(name).field("window", window).field("ssthresh", ssthresh).finish_non_exhaustive()
    }
}

/// A number of bytes from Python.
fn bytes(what: &str, number: &Bound<'_, PyAny>) -> PyResult<usize> {
    let wrong = || PyTypeError::new_err(format!("{what}() returned {number:?}, which is no number of bytes"));
    let bytes: f64 = number.extract().map_err(|_| wrong())?;
    match (1.0..=WINDOW_MAX).contains(&bytes) || (what == "ssthresh" && bytes >= 0.0) {
        true => Ok(bytes.min(WINDOW_MAX) as usize),
        false => {
            let range = if what == "window" { "1 byte to 4 GiB" } else { "0 bytes or more" };
            Err(PyValueError::new_err(format!("{what}() returned {bytes}; it is {range}")))
        }
    }
}

/// A rate in bits per second from Python.
fn rate_of(number: &Bound<'_, PyAny>) -> PyResult<u64> {
    let rate: f64 = number.extract()?;
    match (1.0..=1e15).contains(&rate) {
        true => Ok(rate as u64),
        false => Err(PyValueError::new_err(format!(
            "pacing_rate() returned {rate} bit/s; it is 1 to 1e15, or None"
        ))),
    }
}

/// Ends the run because of an exception.
fn fail(name: &str, method: &str, now: Time, error: PyErr) -> ! {
    let message = Python::attach(|py| {
        let place = error.traceback(py).and_then(|traceback| last_place(&traceback));
        let place = place.map_or(String::new(), |place| format!(" ({place})"));
        format!("{name}.{method} at {:.6} s: {error}{place}", seconds(now))
    });
    drop(error);
    RunFailed::end(message)
}

/// The file and line where an exception was raised.
fn last_place(traceback: &Bound<'_, PyTraceback>) -> Option<String> {
    let mut last = traceback.clone().into_any();
    while let Ok(next) = last.getattr("tb_next")
        && !next.is_none()
    {
        last = next;
    }
    let code = last.getattr("tb_frame").ok()?.getattr("f_code").ok()?;
    let (file, line) = (code.getattr("co_filename").ok()?, last.getattr("tb_lineno").ok()?);
    Some(format!("{file}, line {line}"))
}

pub(crate) fn seconds(time: Time) -> f64 {
    time.since(Time::ZERO).as_secs_f64()
}

impl cc::Controller for Controller {
    fn window(&self) -> usize {
        self.window
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.rate
    }

    fn counts_arrivals(&self) -> bool {
        self.counts_arrivals
    }

    fn on_sent(&mut self, sent: cc::Sent) {
        let cc::Sent { now, bytes, flight_before } = sent;
        let event = Sent { now: seconds(now), bytes, flight_before };
        self.call(
            Some(now),
            "on_sent",
            |has| has.on_sent,
            |object| object.call_method1(intern!(object.py(), "on_sent"), (event,)),
        );
    }

    fn on_lost(&mut self, lost: cc::Lost) {
        let cc::Lost { now, bytes, sent_at, flight_bytes, mtu } = lost;
        let event = Lost { now: seconds(now), bytes, sent_at: seconds(sent_at), flight_bytes, mtu };
        self.call(
            Some(now),
            "on_lost",
            |has| has.on_lost,
            |object| object.call_method1(intern!(object.py(), "on_lost"), (event,)),
        );
    }

    fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        self.call(
            Some(now),
            "on_app_limited",
            |has| has.on_app_limited,
            |object| {
                object.call_method1(intern!(object.py(), "on_app_limited"), (seconds(now), flight_bytes))
            },
        );
    }

    fn on_ack(&mut self, ack: cc::Ack<'_>) {
        let view = |view: &cc::PathView| PathView {
            window: view.window,
            ssthresh: view.ssthresh,
            srtt: view.srtt.map(|srtt| srtt.as_secs_f64()),
            between_losses: view.between_losses,
        };
        let event = Ack {
            now: seconds(ack.now),
            bytes: ack.bytes,
            gap_bytes: ack.gap_bytes,
            regained_bytes: ack.regained_bytes,
            flight_before: ack.flight_before,
            mtu: ack.mtu,
            rtt: ack.rtt.map(|rtt| rtt.as_secs_f64()),
            cross_path_age: ack.cross_path_age.map(|age| age.as_secs_f64()),
            srtt: ack.srtt.map(|srtt| srtt.as_secs_f64()),
            cum_advanced: ack.cum_advanced,
            in_recovery: ack.in_recovery,
            siblings: ack.siblings.iter().map(view).collect(),
        };
        self.call(
            Some(ack.now),
            "on_ack",
            |has| has.on_ack,
            |object| object.call_method1(intern!(object.py(), "on_ack"), (event,)),
        );
    }

    fn on_congestion(&mut self, congestion: cc::Congestion) {
        let cc::Congestion { cause, now, flight_bytes, mtu } = congestion;
        let cause = match cause {
            cc::Cause::Loss => "loss",
            cc::Cause::Timeout => "timeout",
            cc::Cause::Ecn => "ecn",
        };
        let event = Congestion { cause, now: seconds(now), flight_bytes, mtu };
        self.call(
            Some(now),
            "on_congestion",
            |has| has.on_congestion,
            |object| object.call_method1(intern!(object.py(), "on_congestion"), (event,)),
        );
    }

    fn on_spurious(&mut self, spurious: cc::Spurious) {
        let cc::Spurious { now, flight_bytes, mtu } = spurious;
        let event = Spurious { now: seconds(now), flight_bytes, mtu };
        self.call(
            Some(now),
            "on_spurious",
            |has| has.on_spurious,
            |object| object.call_method1(intern!(object.py(), "on_spurious"), (event,)),
        );
    }

    fn on_idle(&mut self, idle: cc::Idle) {
        let cc::Idle { now, idle_for, rto, mtu, ssthresh_min } = idle;
        let (idle_for, rto) = (idle_for.as_secs_f64(), rto.as_secs_f64());
        let event = Idle { now: seconds(now), idle_for, rto, mtu, ssthresh_min };
        self.call(
            Some(now),
            "on_idle",
            |has| has.on_idle,
            |object| object.call_method1(intern!(object.py(), "on_idle"), (event,)),
        );
    }

    fn on_recovered(&mut self, recovered: cc::Recovered) {
        let cc::Recovered { now, flight_bytes, mtu } = recovered;
        let event = Recovered { now: seconds(now), flight_bytes, mtu };
        self.call(
            Some(now),
            "on_recovered",
            |has| has.on_recovered,
            |object| object.call_method1(intern!(object.py(), "on_recovered"), (event,)),
        );
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.call(
            None,
            "on_mtu",
            |has| has.on_mtu,
            |object| object.call_method1(intern!(object.py(), "on_mtu"), (mtu,)),
        );
    }

    fn limit_window(&mut self, at_most: usize) {
        self.call(
            None,
            "limit_window",
            |has| has.limit_window,
            |object| object.call_method1(intern!(object.py(), "limit_window"), (at_most,)),
        );
    }

    fn restart_window(&mut self, window: usize) {
        self.call(
            None,
            "restart_window",
            |has| has.restart_window,
            |object| object.call_method1(intern!(object.py(), "restart_window"), (window,)),
        );
    }
}
