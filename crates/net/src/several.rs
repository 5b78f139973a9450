//! Several datagrams in one system call, on Linux (`sendmmsg`): over UDP each may be a batch for segmentation offload, over IP each
//! is a packet.

use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsRawFd;

use nix::cmsg_space;
use nix::libc::{c_int, in_addr, in_pktinfo, in6_addr, in6_pktinfo};
use nix::sys::socket::{ControlMessage, MsgFlags, MultiHeaders, SockaddrStorage, sendmmsg};
use quinn_udp::EcnCodepoint;

/// What the datagrams of a call have in common.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Common {
    /// The source address, for a socket bound to a wildcard.
    pub(crate) from: Option<IpAddr>,
    pub(crate) ecn: Option<EcnCodepoint>,
    /// The size of the packets into which the kernel or the device divides longer datagrams (GSO).
    pub(crate) segment: Option<u16>,
}

/// Sends datagrams with one system call. Returns how many the kernel accepted; an error is one of the first.
pub(crate) fn send(
    socket: &impl AsRawFd,
    common: &Common,
    datagrams: &[(SocketAddr, &[u8])],
) -> io::Result<usize> {
    let Some((first, _)) = datagrams.first() else { return Ok(0) };
    let tos = common.ecn.map_or(0, |ecn| ecn as u8);
    let class = c_int::from(tos);
    let (v4, v6);
    // The space is exactly that of the control messages: the kernel refuses an empty one behind them.
    let mut space = 0;
    let mut control = Vec::with_capacity(3);
    match common.from {
        None => {}
        Some(IpAddr::V4(from)) => {
            let [from, any] = [from.to_bits(), 0].map(|bits| in_addr { s_addr: bits.to_be() });
            v4 = in_pktinfo { ipi_ifindex: 0, ipi_spec_dst: from, ipi_addr: any };
            control.push(ControlMessage::Ipv4PacketInfo(&v4));
            space += cmsg_space!(in_pktinfo).capacity();
        }
        Some(IpAddr::V6(from)) => {
            v6 = in6_pktinfo { ipi6_addr: in6_addr { s6_addr: from.octets() }, ipi6_ifindex: 0 };
            control.push(ControlMessage::Ipv6PacketInfo(&v6));
            space += cmsg_space!(in6_pktinfo).capacity();
        }
    }
    if first.is_ipv4() {
        control.push(ControlMessage::Ipv4Tos(&tos));
        space += cmsg_space!(u8).capacity();
    } else {
        control.push(ControlMessage::Ipv6TClass(&class));
        space += cmsg_space!(c_int).capacity();
    }
    if let Some(segment) = &common.segment {
        control.push(ControlMessage::UdpGsoSegments(segment));
        space += cmsg_space!(u16).capacity();
    }
    let slices: Vec<_> = datagrams.iter().map(|(_, bytes)| [IoSlice::new(bytes)]).collect();
    let to: Vec<_> = datagrams.iter().map(|(to, _)| Some(SockaddrStorage::from(*to))).collect();
    let mut headers = MultiHeaders::preallocate(datagrams.len(), Some(Vec::with_capacity(space)));
    let sent = sendmmsg(socket.as_raw_fd(), &mut headers, &slices, to, control, MsgFlags::empty())?;
    Ok(sent.count())
}
