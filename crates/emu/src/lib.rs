//! Simulated links run by the wall clock: [`relay`] between UDP ports, [`tun`] between network namespaces of this
//! process, [`named`] between such with names, for any program; and [`wires`] between such, real ones, which can be cut.
//!
//! The links are those of `sim`, so the same configuration and seed give packets the same fate here and there. Each
//! pair of links has a thread of its own that sleeps to the nanosecond: an asynchronous runtime's timers tick in
//! milliseconds, which is a whole round trip of a fast link.
#![deny(unsafe_code)]

mod clock;
mod links;
pub mod named;
pub mod relay;
mod running;
mod sys;
mod trace;
pub mod tun;
pub mod wires;

pub use braidftp_sim::link::{self, LinkConfig};
pub use relay::{Relay, RelayConfig, RelayError, RelayHandle};
pub use sys::release_free_memory;
pub use trace::read_trace;
