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
pub mod profile;
pub mod stats;
pub mod wire;

pub use association::{
    Abandoned, AddressChange, AddressError, Association, AuthEvent, Direction, DtlsError, DtlsEvent,
    DtlsStats, Event, GOODBYE, KeyError, KeyVectors, KeysStats, Message, Multipath, MultipathConstants,
    MultipathError, NoSuchPath, NoSuchStream, Order, Outcome, PathParams, PathScheduler, PathUse,
    PathUseError, PathView, Piece, Reason, ReconfigError, Reliability, Remedy, RetransmitBy, SackTiming,
    Scheduler, SendError, Split, StreamReset, Streams, Transmit, Violation,
};
pub use config::{
    AllowedPath, AuthConfig, BurstRule, Config, ErrorDetection, LossDetection, LossRecovery, MeasureEach,
    MtuDiscovery, MultipathWith, PeerMay, RetransmitTo, SharedKey, WindowUpdates,
};
pub use dtls::DtlsConfig;
pub use endpoint::admission::Admission;
pub use endpoint::{Announce, Connect, Counters, Endpoint, Icmp, Limits, Sharing};
pub use error::{ConnectError, ListenError};
pub use extensions::Extensions;

pub use ids::{AssociationId, PathId, Ppid, RequestNumber, Ssn, StreamId, Tsn, VerificationTag};
pub use profile::Profile;
pub use stats::{PathState, PathStats, Phase, Stall, Stats};
pub use wire::HmacId;
