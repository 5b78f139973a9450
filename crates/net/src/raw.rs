//! SCTP over IP (protocol 132) with raw sockets: IPv4 and IPv6.
//!
//! The kernel writes the IP header, reassembles fragments, and delivers every packet of the protocol at a
//! socket's address to every such socket. So packets for SCTP ports of other programs arrive as well, and
//! the core must ignore them ([`braidftp_sctp::Sharing`]). An open socket also prevents ICMP "protocol
//! unreachable" messages to peers, which some stacks treat as an ABORT.
//!
//! The kernel has no segmentation offload for this protocol, but Linux takes several packets a system call. If the
//! kernel's own SCTP is in use, it answers too, with ABORTs: both cannot share an address.

use std::io;
use std::net::SocketAddr;

use bytes::Bytes;
use socket2::{Domain, Protocol, Type};

/// The IP protocol number of SCTP.
const SCTP: u8 = 132;
/// The minimum length of an IPv4 header (RFC 791 §3.1) in bytes.
const IPV4_HEADER_BYTES: usize = 20;

/// Creates an unbound socket for `addr`. Requires CAP_NET_RAW.
pub(crate) fn open(addr: SocketAddr) -> io::Result<socket2::Socket> {
    // An IPv6 raw socket receives no IPv4. IPV6_CHECKSUM is off by default (RFC 3542 §3.1) and stays
    // off: SCTP has its own checksum at another offset.
    socket2::Socket::new(Domain::for_address(addr), Type::RAW, Some(Protocol::from(i32::from(SCTP))))
}

/// Returns the SCTP packet in data received on a socket bound to `local`: IPv4 data includes the IP
/// header, IPv6 data does not.
pub(crate) fn payload(local: SocketAddr, received: &Bytes) -> Option<Bytes> {
    if local.is_ipv6() {
        return Some(received.clone());
    }
    let first = *received.first()?;
    let header = usize::from(first & 0x0f) * 4;
    let whole = first >> 4 == 4 && header >= IPV4_HEADER_BYTES && received.len() > header;
    (whole && received[9] == SCTP).then(|| received.slice(header..))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_ipv4_header_goes_with_its_options_and_ipv6_has_none() {
        let v4: SocketAddr = "127.0.0.1:0".parse().unwrap();
        let packet = |first: u8, protocol: u8, len: usize| {
            let mut bytes = vec![0; len];
            bytes[0] = first;
            bytes[9] = protocol;
            Bytes::from(bytes)
        };
        let len = |packet: Bytes| payload(v4, &packet).map(|payload| payload.len());
        assert_eq!(len(packet(0x45, 132, 32)), Some(12));
        assert_eq!(len(packet(0x47, 132, 40)), Some(12), "two words of options");
        assert_eq!(len(packet(0x45, 17, 32)), None, "another protocol");
        assert_eq!(len(packet(0x44, 132, 32)), None, "a header shorter than any");
        assert_eq!(len(packet(0x65, 132, 32)), None, "another version");
        assert_eq!(len(packet(0x4f, 132, 40)), None, "cut within its header");
        assert_eq!(len(packet(0x45, 132, 20)), None, "nothing in it");
        assert_eq!(payload(v4, &Bytes::new()), None);
        let v6 = payload("[::1]:0".parse().unwrap(), &Bytes::from_static(b"abc"));
        assert_eq!(v6.as_deref(), Some(&b"abc"[..]));
    }
}
