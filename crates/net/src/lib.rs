//! SCTP on tokio, over UDP (RFC 6951) or IP protocol 132: a thin driver around `sctp::Endpoint`.
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod addresses;
mod alarm;
mod association;
pub mod blocking;
mod budget;
mod capture;
mod carrier;
mod control;
mod core;
mod endpoint;
mod events;
mod icmp;
mod in_process;
mod key_driver;
mod packet_input;
mod packet_log;
mod path_name;
mod pool;
mod protection;
mod qlog;
mod raw;
#[cfg(target_os = "linux")]
mod several;
mod sockets;
mod streams;
mod task;
mod udp;
mod up;

pub use addresses::NoSuchAddress;
pub use association::{Association, SendError, TryRecvError, TrySendError};
pub use braidftp_base::Datagram;
pub use braidftp_cc as cc;
pub use braidftp_keys as keys;
pub use braidftp_sctp::{
    self as sctp, AddressError, AllowedPath, AssociationId, Config, Connect, Counters, Limits, ListenError,
    Message, NoSuchPath, Order, PathId, PathParams, PathState, PathStats, PathUse, PathUseError, PathView,
    Piece, Ppid, Profile, Reason, ReconfigError, SackTiming, SharedKey, Stall, Stats, StreamId, StreamReset,
    Streams,
};
pub use budget::{default_memory_bytes, machine_memory_bytes};
pub use carrier::Carrier;
pub use core::Totals;
pub use endpoint::{Bind, BindError, ConnectError, Ended, Endpoint, Listener, Opened};
pub use events::{AddressChange, Event};
pub use in_process::PacketOutput;
pub use packet_input::PacketInput;
pub use path_name::PathName;
pub use streams::{RecvStream, SendStream};
pub use up::Up;
