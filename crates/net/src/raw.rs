//! SCTP over IP (protocol 132) with raw sockets: IPv4 and IPv6.
//!
//! The kernel writes the IP header, reassembles fragments, and delivers every packet of the protocol at a
//! socket's address to every such socket. So packets for SCTP ports of other programs arrive as well, and
//! the core must ignore them ([`braidftp_sctp::Sharing`]). An open socket also prevents ICMP "protocol
//! unreachable" messages to peers, which some stacks treat as an ABORT.
//!
//! The kernel has no segmentation offload for this protocol, but Linux takes several packets a system call. If the
//! kernel's own SCTP is in use, it answers too, with ABORTs: both cannot share an address.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use bytes::Bytes;
use quinn_udp::EcnCodepoint;
use socket2::{Domain, Protocol, Type};

/// The IP protocol number of SCTP.
const SCTP: u8 = 132;
/// The minimum length of an IPv4 header (RFC 791 §3.1) in bytes.
const IPV4_HEADER_BYTES: usize = 20;

/// The maximum number of packets of one system call.
const PACKETS_A_CALL: usize = 32;

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

/// Packets of one size, of which the last may be shorter, to one destination.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Batch<'a> {
    pub(crate) to: SocketAddr,
    /// The source address, for a socket bound to a wildcard.
    pub(crate) from: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    pub(crate) packets: &'a [u8],
    pub(crate) segment: usize,
}

/// Returns how many of `len` bytes are sent in one call, as packets of `segment` bytes.
pub(crate) fn batch(len: usize, segment: usize) -> usize {
    let packets = if cfg!(target_os = "linux") { PACKETS_A_CALL } else { 1 };
    len.min(packets * segment)
}

/// Sends packets with one system call. Returns the number of bytes, in whole packets, that the kernel accepted; an error is one
/// of the first packet.
#[cfg(target_os = "linux")]
pub(crate) fn send(socket: &impl AsRawFd, batch: &Batch<'_>) -> io::Result<usize> {
    use nix::cmsg_space;
    use nix::libc::{c_int, in_addr, in_pktinfo, in6_addr, in6_pktinfo};
    use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};

    let tos = batch.ecn.map_or(0, |ecn| ecn as u8);
    let class = c_int::from(tos);
    let ecn =
        if batch.to.is_ipv4() { ControlMessage::Ipv4Tos(&tos) } else { ControlMessage::Ipv6TClass(&class) };
    let (v4, v6);
    // The space is exactly that of the control messages: the kernel refuses an empty one behind them.
    let (control, space) = match batch.from {
        None if batch.to.is_ipv4() => (vec![ecn], cmsg_space!(u8)),
        None => (vec![ecn], cmsg_space!(c_int)),
        Some(IpAddr::V4(from)) => {
            let [from, any] = [from.to_bits(), 0].map(|bits| in_addr { s_addr: bits.to_be() });
            v4 = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: from, ipi_addr: any };
            (vec![ControlMessage::Ipv4PacketInfo(&v4), ecn], cmsg_space!(in_pktinfo, u8))
        }
        Some(IpAddr::V6(from)) => {
            v6 = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
            (vec![ControlMessage::Ipv6PacketInfo(&v6), ecn], cmsg_space!(in6_pktinfo, c_int))
        }
    };
    let packets: Vec<_> = batch.packets.chunks(batch.segment).map(|packet| [IoSlice::new(packet)]).collect();
    let to = vec![Some(SockaddrStorage::from(batch.to)); packets.len()];
    let mut headers = MultiHeaders::preallocate(packets.len(), Some(space));
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &packets, to, control, MsgFlags::empty())?;
    let sent = sent.count();
    Ok(packets[..sent].iter().map(|packet| packet[0].len()).sum())
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
