//! SCTP (RFC 9260) as a sans-IO state machine.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

pub mod association;
pub mod config;
pub mod cookie;
pub mod dtls;
pub mod endpoint;
pub mod error;
pub mod extensions;
pub mod ids;
pub mod packet_builder;
pub mod profile;
mod route;
pub mod stats;
pub mod wire;

pub use association::{
    Abandoned, AddressChange, AddressError, Association, AuthEvent, Direction, DtlsError, DtlsEvent,
    DtlsStats, Event, GOODBYE, KeyError, KeysStats, Message, NoSuchPath, NoSuchStream, Order, Outcome,
    PathParams, PathUse, PathUseError, PathView, Piece, Reason, ReconfigError, Reliability, SackTiming,
    SendError, Split, StreamReset, Streams, Transmit, Violation,
};
pub use config::{
    AllowedPath, AuthConfig, BurstRule, Config, ErrorDetection, Fragments, LossDetection, LossRecovery,
    MeasureEach, MtuDiscovery, Multipath, MultipathConstants, MultipathError, MultipathWith, PathScheduler,
    PeerMay, Remedy, RetransmitBy, RetransmitTo, Scheduler, SharedKey, WindowUpdates,
};
pub use dtls::DtlsConfig;
pub use endpoint::turns::Turns;
pub use endpoint::{Announce, Connect, Counters, Endpoint, Icmp, Limits, Sharing};
pub use error::{ConnectError, ListenError};
pub use extensions::Extensions;

pub use ids::{AssociationId, PathId, Ppid, RequestNumber, Ssn, StreamId, Tsn, VerificationTag};
pub use profile::Profile;
pub use stats::{PathState, PathStats, Phase, Stall, Stats};
pub use wire::{HmacId, KeyVectors};
