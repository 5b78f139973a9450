//! UDP encapsulation (RFC 6951): SCTP packets are the payloads of UDP datagrams.
//!
//! Datagrams are sent in batches of equal size (GSO) and received coalesced (GRO), many per system call.
//! The core updates the peer's encapsulation port from verified packets (RFC 6951 §5.4).

use std::io;
use std::net::SocketAddr;

use socket2::{Domain, Protocol, Type};

/// The maximum length of a UDP datagram or GSO batch over IPv4 in bytes (IPv6 would permit 20 more).
const MAX_SEND_BYTES: usize = 65_507;

/// Creates an unbound socket for `addr`.
//= specs/rfc6951.txt#section-5.3
//# Within the UDP header, the source port MUST be the local UDP
//# encapsulation port number of the SCTP stack, and the destination port
//# MUST be the remote UDP encapsulation port number maintained for the
//# association and the destination address to which the packet is sent
//# (see Section 5.1).
pub(crate) fn open(addr: SocketAddr) -> io::Result<socket2::Socket> {
    let socket = socket2::Socket::new(Domain::for_address(addr), Type::DGRAM, Some(Protocol::UDP))?;
    if addr.is_ipv6() {
        // An IPv4 address has its own socket; the two may share a port.
        socket.set_only_v6(true)?;
    }
    Ok(socket)
}

/// Returns the maximum size of a datagram that is a batch of packets of `segment` bytes.
pub(crate) fn batch(segment: usize, max_segments: usize) -> usize {
    (MAX_SEND_BYTES / segment).min(max_segments).max(1) * segment
}
