//! Simulated links run by the wall clock, between UDP ports or network namespaces.
//!
#![doc = include_str!("../README.md")]
#![deny(unsafe_code)]

mod clock;
mod links;
pub mod mesh;
pub mod named;
pub mod relay;
mod running;
mod sys;
mod trace;
pub mod tun;
pub mod wires;

pub use braidftp_sim::link::{self, LinkConfig};
pub use relay::{Relay, RelayConfig, RelayError, RelayHandle};
pub use sys::{TcpInfo, release_free_memory, tcp_info};
pub use trace::read_trace;
