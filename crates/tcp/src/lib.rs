//! TCP (RFC 9293) as a sans-IO state machine, for the simulator alone.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod config;
mod connection;
pub mod endpoint;
pub mod profile;
pub mod segment;
pub mod stats;

#[cfg(test)]
mod tests;

pub use config::{
    AckClock, Checksum, Config, Halve, LossDetection, PartialAckTimer, RecoverRule, RtoBounds, SynBackoff,
    Timing,
};
pub use connection::{Connection, Event, Reason, State};
pub use endpoint::{ConnectError, ConnectionId, Endpoint, ListenError};
pub use profile::{Profile, Row};
pub use segment::{BadSegment, Flags, Segment, Seq};
pub use stats::{Counters, Stats};
