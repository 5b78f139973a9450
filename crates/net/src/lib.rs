//! SCTP on tokio, over UDP (RFC 6951) or IP protocol 132: a thin driver around `sctp::Endpoint`.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod addresses;
mod association;
mod budget;
mod capture;
mod carrier;
mod core;
mod endpoint;
mod icmp;
mod key_driver;
mod packet_log;
mod pool;
mod protection;
mod raw;
mod sockets;
mod task;
mod udp;
mod up;

pub use addresses::NoSuchAddress;
pub use association::{Association, SendError};
pub use braidftp_cc as cc;
pub use braidftp_keys as keys;
pub use braidftp_sctp::{
    self as sctp, AddressError, AllowedPath, AssociationId, Config, Connect, Counters, Limits, ListenError,
    Message, NoSuchPath, Order, PathId, PathState, PathStats, PathUse, PathUseError, Piece, Ppid, Profile,
    Reason, ReconfigError, Stats, StreamId, StreamReset, Streams,
};
pub use budget::{default_memory_bytes, machine_memory_bytes};
pub use carrier::Carrier;
pub use core::Totals;
pub use endpoint::{Bind, BindError, ConnectError, Ended, Endpoint, Listener, Opened};
pub use protection::HANDSHAKES_A_SECOND;
pub use up::Up;
