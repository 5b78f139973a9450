//! Types shared by all crates of braidftp: [`Time`], [`Rate`], [`Datagram`], [`Output`].
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod constants;
mod named;
mod rate;
mod time;

use std::net::SocketAddr;

use bytes::Bytes;

pub use constants::Scale;
pub use rate::{ParseRateError, Rate};
pub use time::Time;

/// What a state machine wants next. Call `poll` until it returns [`Output::Wait`], and only then hand in new
/// input.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<S, E> {
    /// Send this packet on the network.
    Send(S),
    /// An event for the machine's user.
    Event(E),
    /// Nothing more now. Call `poll` again at this time at the latest, or after the next input. `None`: only
    /// after the next input.
    Wait(Option<Time>),
}

/// A datagram, as sockets, simulated links and SCTP endpoints exchange it.
///
/// Addresses carry the UDP encapsulation port (RFC 6951); over IP protocol 132 that port is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// The source address.
    pub from: SocketAddr,
    /// The destination address.
    pub to: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The payload of the UDP (or IP) header.
    pub payload: Bytes,
}

/// The ECN field of an IP header (RFC 3168 §5).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Ecn {
    /// Not ECN-capable: 00.
    #[default]
    NotEct,
    /// ECN-capable, codepoint 01.
    Ect1,
    /// ECN-capable, codepoint 10.
    Ect0,
    /// Congestion experienced: 11.
    Ce,
}
