//! The layer below SCTP: UDP (RFC 6951), IP, or functions of the caller.

use std::fmt;
use std::net::SocketAddr;

/// The layer below SCTP.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Carrier {
    /// UDP (RFC 6951), for every user and through middleboxes that do not support SCTP.
    #[default]
    Udp,
    /// IP, as protocol 132 (RFC 9260 §10), for stacks without UDP encapsulation. Requires the privilege
    /// to open raw sockets (CAP_NET_RAW). Addresses have no UDP port, which is written 0.
    Ip,
    /// Functions of the caller, as over DTLS (RFC 8261) or in memory: see
    /// [`Endpoint::over`](crate::Endpoint::over). Addresses mean what the caller makes of them.
    InProcess,
}

impl Carrier {
    /// Returns an address in the form of this carrier.
    pub(crate) fn address(self, addr: SocketAddr) -> SocketAddr {
        match self {
            Self::Udp | Self::InProcess => addr,
            Self::Ip => SocketAddr::new(addr.ip(), 0),
        }
    }

    /// Returns the length of the headers before the SCTP header in a packet to `addr`, in bytes.
    pub(crate) fn headers(self, addr: SocketAddr) -> usize {
        let ip = if addr.is_ipv4() { 20 } else { 40 };
        match self {
            Self::Udp => ip + 8,
            Self::Ip => ip,
            Self::InProcess => 0,
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Ip => "IP protocol 132",
            Self::InProcess => "functions of the caller",
        })
    }
}
