//! The words every crate of braidftp speaks: [`Time`], [`Rate`], [`Datagram`], [`Output`].
//!
//! Everything that talks in this project is a machine with two verbs: it is *told* something at a time
//! (`handle…(now, …)`, which only changes state), and then *drained* (`poll(now)`, which only says what comes
//! next, as an [`Output`]). A driver is a loop around one machine with a real clock; a simulation is a loop
//! around many with a virtual one. There is no clock here and no logic.
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
