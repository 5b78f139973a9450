//! Types shared by all crates of braidftp: [`Time`], [`Rate`], [`Datagram`], [`Output`].
//!
#![doc = include_str!("../README.md")]
#![forbid(unsafe_code)]

mod named;
mod rate;
mod time;

use std::net::SocketAddr;

use bytes::Bytes;

pub use rate::{ParseRateError, Rate};
pub use time::Time;

/// What a machine wants next. Drain until [`Output::Wait`]; then, and only then, tell it something new.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Output<S, E> {
    /// Hand this to whatever carries the machine's words.
    Send(S),
    /// Something the machine's user wants to know.
    Event(E),
    /// Nothing more now. Call `poll` again at this time at the latest, or when something happened before.
    Wait(Option<Time>),
}

/// A datagram on its way: what a socket, a simulated link and an SCTP endpoint hand to each other.
///
/// Addresses carry the UDP encapsulation port (RFC 6951); over IP protocol 132 that port is 0.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Datagram {
    /// Where it comes from.
    pub from: SocketAddr,
    /// Where it goes.
    pub to: SocketAddr,
    /// The ECN field of the IP header.
    pub ecn: Ecn,
    /// The bytes that UDP (or IP) carries.
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
