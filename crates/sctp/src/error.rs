//! Errors in calls of [`Endpoint`](crate::Endpoint). Violations by peers are
//! [`Violation`](crate::Violation)s.

use std::fmt;

/// Why [`Endpoint::connect`](crate::Endpoint::connect) failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// No local address or no peer address was given.
    NoAddress,
    /// A peer address is not a unicast address.
    NotUnicast,
    /// No local address has the family of a peer address, or `Config.paths.allowed` permits no pair.
    NoPath,
    /// The destination port or the given source port is 0.
    PortZero,
    /// An association between these ports and addresses already exists.
    InUse,
    /// Every source port for this peer is in use.
    NoPortLeft,
    /// The endpoint has the maximum number of associations.
    TooMany,
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NoAddress => "an association needs a local and a peer address; give one of each at least",
            Self::NotUnicast => "the peer's address is not that of one host; give a unicast address",
            Self::NoPath => {
                "no allowed path leads from a local address to one of the peer's; give addresses of one family, or \
                 allow more paths"
            }
            Self::PortZero => "SCTP port 0 cannot be used; give another, or none as source port",
            Self::InUse => "these ports and addresses have an association already; use another source port",
            Self::NoPortLeft => "every source port towards this peer is in use; close an association first",
            Self::TooMany => "the endpoint holds as many associations as it may; close one first",
        })
    }
}

impl std::error::Error for ConnectError {}

/// Why [`Endpoint::listen`](crate::Endpoint::listen) failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenError {
    /// The port is 0.
    PortZero,
    /// The endpoint already listens on the port.
    InUse,
}

impl fmt::Display for ListenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PortZero => "SCTP port 0 cannot be used; listen on another",
            Self::InUse => {
                "the endpoint listens on this SCTP port already; listen on another, or unlisten first"
            }
        })
    }
}

impl std::error::Error for ListenError {}
