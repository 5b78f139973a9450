//! The layer below SCTP: UDP (RFC 6951) or IP.

use std::fmt;
use std::net::SocketAddr;

/// What carries SCTP packets.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Carrier {
    /// UDP (RFC 6951): for everybody, and through what knows no SCTP.
    #[default]
    Udp,
    /// IP itself, as protocol 132 (RFC 9260 §10): to stacks that have no UDP encapsulation. It needs the right to open
    /// raw sockets (CAP_NET_RAW). An address has no UDP port then: it is written 0.
    Ip,
}

impl Carrier {
    /// An address as this carrier has it.
    pub(crate) fn address(self, addr: SocketAddr) -> SocketAddr {
        match self {
            Self::Udp => addr,
            Self::Ip => SocketAddr::new(addr.ip(), 0),
        }
    }

    /// What a packet to `addr` has before SCTP's header, in bytes.
    pub(crate) fn headers(self, addr: SocketAddr) -> usize {
        let ip = if addr.is_ipv4() { 20 } else { 40 };
        match self {
            Self::Udp => ip + 8,
            Self::Ip => ip,
        }
    }
}

impl fmt::Display for Carrier {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Udp => "UDP",
            Self::Ip => "IP protocol 132",
        })
    }
}
