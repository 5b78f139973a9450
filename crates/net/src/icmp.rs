//! ICMP and ICMPv6 messages about sent packets, from the kernel's error queue (Linux). On other systems
//! they are unknown, and the packets count as lost.
//!
//! While the queue is in use, the next call on the socket fails after a message: callers report such a
//! failure and retry. The core decides which messages matter, with one exception: "protocol unreachable" is
//! passed on for an INIT only. A kernel also sends it for an address whose raw socket the program has
//! closed while the association continues on other addresses; the abort required by RFC 9260 §10 (ICMP8)
//! would then end a working association.

use std::net::SocketAddr;

use braidftp_sctp::Icmp;
use tokio::net::UdpSocket;

use crate::carrier::Carrier;

/// The maximum number of messages taken from a socket at a time.
#[cfg(target_os = "linux")]
const MESSAGES_A_TURN: usize = 16;

/// The length kept of a quoted packet in bytes: more than RFC 9260 §10 needs.
const QUOTED_BYTES: usize = 64;

/// A message and the packet that it quotes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Notice {
    local: SocketAddr,
    peer: SocketAddr,
    kind: u8,
    code: u8,
    size: usize,
    quoted: [u8; QUOTED_BYTES],
    quoted_len: usize,
}

impl Notice {
    /// Converts the message for the core.
    pub(crate) fn message(&self) -> Icmp<'_> {
        let &Self { local, peer, kind, code, size, .. } = self;
        Icmp { local, peer, kind, code, size, quoted: &self.quoted[..self.quoted_len] }
    }
}

/// Makes the kernel keep messages.
pub(crate) fn keep(_socket: &socket2::Socket, _addr: SocketAddr) {
    #[cfg(target_os = "linux")]
    {
        use nix::sys::socket::{setsockopt, sockopt};
        let kept = if _addr.is_ipv4() {
            setsockopt(_socket, sockopt::Ipv4RecvErr, &true)
        } else {
            setsockopt(_socket, sockopt::Ipv6RecvErr, &true)
        };
        if let Err(error) = kept {
            tracing::debug!(%error, "the kernel queues no ICMP errors: the packets that they report count as lost");
        }
    }
}

/// Takes the messages that the kernel kept for a socket bound to `local`.
#[cfg(not(target_os = "linux"))]
pub(crate) fn take(_io: &UdpSocket, _carrier: Carrier, _local: SocketAddr, _into: &mut Vec<Notice>) {}

/// Takes messages that the kernel kept for a socket bound to `local`, up to the maximum.
#[cfg(target_os = "linux")]
pub(crate) fn take(io: &UdpSocket, carrier: Carrier, local: SocketAddr, into: &mut Vec<Notice>) {
    use std::io::IoSliceMut;
    use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};
    use std::os::fd::AsRawFd;

    use nix::sys::socket::{ControlMessageOwned, MsgFlags, SockaddrStorage, recvmsg};

    /// `SO_EE_ORIGIN_ICMP` and `SO_EE_ORIGIN_ICMP6` of Linux: messages of routers or hosts, not of this
    /// kernel.
    const ORIGINS: [u8; 2] = [2, 3];

    for _ in 0..MESSAGES_A_TURN {
        let mut quoted = [0; QUOTED_BYTES];
        let mut control = [0; 512];
        let mut slices = [IoSliceMut::new(&mut quoted)];
        let flags = MsgFlags::MSG_ERRQUEUE | MsgFlags::MSG_DONTWAIT;
        let Ok(message) =
            recvmsg::<SockaddrStorage>(io.as_raw_fd(), &mut slices, Some(&mut control[..]), flags)
        else {
            return;
        };
        // The destination of the packet.
        let peer = message.address.as_ref().and_then(|peer| {
            let v4 = peer.as_sockaddr_in().map(|v4| SocketAddr::from((v4.ip(), v4.port())));
            v4.or_else(|| peer.as_sockaddr_in6().map(|v6| SocketAddr::from((v6.ip(), v6.port()))))
        });
        let quoted_len = message.bytes;
        let (mut said, mut here) = (None, local.ip());
        for control in message.cmsgs().into_iter().flatten() {
            match control {
                ControlMessageOwned::Ipv4RecvErr(error, _) | ControlMessageOwned::Ipv6RecvErr(error, _) => {
                    said = Some(error).filter(|error| ORIGINS.contains(&error.ee_origin));
                }
                // The message arrived at the source address of the packet.
                ControlMessageOwned::Ipv4PacketInfo(info) if local.ip().is_unspecified() => {
                    here = IpAddr::V4(Ipv4Addr::from(info.ipi_addr.s_addr.to_ne_bytes()));
                }
                ControlMessageOwned::Ipv6PacketInfo(info) if local.ip().is_unspecified() => {
                    here = IpAddr::V6(Ipv6Addr::from(info.ipi6_addr.s6_addr));
                }
                _ => {}
            }
        }
        let (Some(peer), Some(said)) = (peer, said) else { continue };
        let is_protocol =
            matches!((peer.is_ipv4(), said.ee_type, said.ee_code), (true, 3, 2) | (false, 4, 1));
        if is_protocol && quoted.get(4..8) != Some(&[0; 4]) {
            continue;
        }
        into.push(Notice {
            local: SocketAddr::new(here, local.port()),
            peer: carrier.address(peer),
            kind: said.ee_type,
            code: said.ee_code,
            size: (said.ee_info as usize).saturating_sub(carrier.headers(peer)),
            quoted,
            quoted_len: quoted_len.min(QUOTED_BYTES),
        });
    }
}
