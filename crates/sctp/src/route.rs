//! The addresses of one received datagram.

use std::net::{IpAddr, SocketAddr};

/// The addresses of a datagram from the receiver's view.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Route {
    /// The destination of a received datagram.
    pub(crate) local: SocketAddr,
    /// The source of a received datagram.
    pub(crate) peer: SocketAddr,
}

/// Whether an address is a unicast address, as far as the address itself shows.
pub(crate) fn is_unicast(ip: IpAddr) -> bool {
    let broadcast = matches!(ip, IpAddr::V4(ip) if ip.is_broadcast());
    !(broadcast || ip.is_multicast() || ip.is_unspecified())
}
