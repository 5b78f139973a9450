//! The exceptions of the package.

use braidftp::exit;
use braidftp_lab::bench::BenchError;
use pyo3::create_exception;
use pyo3::exceptions::{PyException, PyKeyboardInterrupt, PyOSError, PyRuntimeError, PyValueError};
use pyo3::prelude::*;

create_exception!(
    _braidftp,
    Error,
    PyOSError,
    "What a client could not do: `what`, `why`, `hint`, and `code`, the exit code of the program."
);
create_exception!(
    _braidftp,
    ScenarioError,
    PyValueError,
    "What is wrong in a scenario, with its line and column."
);
create_exception!(_braidftp, ControllerError, PyException, "A controller raised an exception in a run.");

/// The exception for an error of a client.
pub(crate) fn of_client(error: &exit::Error, details: &[String]) -> PyErr {
    let text = match details.is_empty() {
        true => error.to_string(),
        false => format!("{error}\n  {}", details.join("\n  ")),
    };
    let made = Error::new_err(text);
    Python::attach(|py| {
        let value = made.value(py);
        let set = |name, text: Option<&str>| value.setattr(name, text);
        let named = set("what", Some(&error.what))
            .and_then(|()| set("why", Some(&error.why)))
            .and_then(|()| set("hint", error.hint.as_deref()))
            .and_then(|()| value.setattr("code", error.exit as u8));
        named.err().unwrap_or_else(|| made.clone_ref(py))
    })
}

/// The exception for a sweep that could not be made.
pub(crate) fn of_bench(error: &BenchError) -> PyErr {
    match error {
        BenchError::Store(_) | BenchError::Append { .. } => PyOSError::new_err(error.to_string()),
        BenchError::Cancelled { .. } => PyKeyboardInterrupt::new_err(error.to_string()),
        BenchError::Run { .. } | BenchError::Picture(_) => PyRuntimeError::new_err(error.to_string()),
    }
}
