//! Errors of callers of [`Endpoint`](crate::Endpoint). Errors of the peer are
//! [`Violation`](crate::Violation)s.

use std::fmt;

/// Why [`Endpoint::connect`](crate::Endpoint::connect) began nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ConnectError {
    /// No local address, or no peer address, was given.
    NoAddress,
    /// An address of the peer is not that of one host.
    NotUnicast,
    /// No local address is of the family of one of the peer's, or `Config.paths.allowed` names none of the pairs.
    NoPath,
    /// The destination port is 0, or the source port given is.
    PortZero,
    /// There is an association between these ports and addresses already.
    InUse,
    /// Every source port towards this peer is in use.
    NoPortLeft,
    /// The endpoint holds as many associations as it may.
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

/// Why [`Endpoint::listen`](crate::Endpoint::listen) does not listen.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ListenError {
    /// The port is 0.
    PortZero,
    /// The endpoint listens on the port already.
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
