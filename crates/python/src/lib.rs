//! The Python module `braidftp._braidftp`: the laboratory and the client of braidftp for Python.
//!
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod agent;
mod client;
mod controller;
mod episode;
mod error;
mod scenario;
mod supervise;

use pyo3::prelude::*;

/// What the Python package is made of; `python/src/braidftp` puts its names and types around it.
#[pymodule]
mod _braidftp {
    use pyo3::prelude::*;

    #[pymodule_export]
    use super::client::{Client, Reader};
    #[pymodule_export]
    use super::controller::{Ack, Congestion, Idle, Lost, PathView, Recovered, Sent, Spurious};
    #[pymodule_export]
    use super::episode::Episode;
    #[pymodule_export]
    use super::error::{ControllerError, Error, ScenarioError};
    #[pymodule_export]
    use super::scenario::{Scenario, Sweep, build, from_json, schema, template, templates};

    #[pymodule_init]
    fn init(module: &Bound<'_, PyModule>) -> PyResult<()> {
        module.add("__version__", env!("CARGO_PKG_VERSION"))
    }
}

/// An object of Python that no thread of Rust owns alone.
type Object = Py<PyAny>;
