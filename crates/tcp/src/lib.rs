//! TCP (RFC 9293) as a sans-IO machine, for the simulator alone: what SCTP is compared with.
//!
//! An [`Endpoint`] owns the connections of one host. It is told of segments and user calls at a time the caller
//! supplies, and drained by [`Endpoint::poll`]: segments to send, events, and when to be polled again. The verbs are
//! those of the SCTP crate. What a stack of some year does is a [`Profile`]: a value of [`Config`], each number with
//! its source.
//!
//! It does not: urgent data, ECN, simultaneous-open option negotiation beyond RFC 9293, path MTU discovery, keep-alive,
//! TCP Fast Open. There is no clock, socket, thread or global here; randomness comes from a seed.
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
