//! SCTP over UDP (RFC 6951) or over IP itself, on tokio: a thin driver around one `sctp::Endpoint`.
//!
//! [`Endpoint::bind`] opens the sockets and spawns the one task that drives them; [`Endpoint::connect`] and
//! [`Listener::accept`] give [`Association`]s, whose streams any number of tasks may use at once. Everything that is
//! protocol lives in `sctp`; here are sockets, the clock, waiting and back-pressure.
//!
//! ```no_run
//! use braidftp_net::{Bind, Connect, Endpoint, Message, Ppid, StreamId};
//!
//! # async fn example() -> Result<(), Box<dyn std::error::Error>> {
//! let endpoint = Endpoint::bind(Bind::to(["0.0.0.0:0".parse()?]))?;
//! let association = endpoint.connect(Connect::to(["127.0.0.1:9899".parse()?], 21))?;
//! association.send(StreamId(0), Message::new(Ppid(0), "hello")).await?;
//! # Ok(()) }
//! ```
//! `examples/hello.rs` is both ends of that.
#![forbid(unsafe_code)]

mod addresses;
mod association;
mod budget;
mod capture;
mod core;
mod endpoint;
mod icmp;
mod packet_log;
mod pool;
mod raw;
mod sockets;
mod task;
mod udp;

pub use addresses::NoSuchAddress;
pub use association::{Association, SendError};
pub use braidftp_cc as cc;
pub use braidftp_sctp::{
    self as sctp, AddressError, AllowedPath, AssociationId, Config, Connect, Counters, Limits, ListenError,
    Message, NoSuchPath, Order, PathId, PathState, PathStats, PathUse, PathUseError, Piece, Ppid, Profile,
    Reason, ReconfigError, Stats, StreamId, StreamReset, Streams,
};
pub use budget::{default_memory_bytes, machine_memory_bytes};
pub use core::{Totals, Up};
pub use endpoint::{Bind, BindError, ConnectError, Ended, Endpoint, Listener};
pub use sockets::Carrier;
