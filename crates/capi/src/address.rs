//! Socket addresses of C: `sockaddr_in`, `sockaddr_in6` and `sockaddr_conn`.

use std::ffi::{c_int, c_void};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, SocketAddrV6};

use libc::sockaddr;

use crate::abi::{AF_CONN, sctp_sockstore, sockaddr_conn};
use crate::errno::{Errno, INVALID};
use crate::memory;

/// The maximum number of addresses in one call.
const ADDRESSES_MAX: usize = 1024;

/// The offset of `sconn_addr`.
const CONN_AT: usize = std::mem::offset_of!(sockaddr_conn, sconn_addr);

/// An address with the SCTP port.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Address {
    /// An address of IP.
    Ip(SocketAddr),
    /// A pointer that the program gives a meaning.
    Conn {
        /// The pointer's value.
        at: usize,
        /// The SCTP port.
        port: u16,
    },
}

/// The family of a socket.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Domain {
    /// AF_INET.
    Inet,
    /// AF_INET6, also for IPv4.
    Inet6,
    /// AF_CONN.
    Conn,
}

impl Domain {
    /// Whether a socket of this family can use `address`.
    pub(crate) fn takes(self, address: &Address) -> bool {
        match address {
            Address::Ip(addr) => match self {
                Self::Inet => addr.is_ipv4(),
                Self::Inet6 => true,
                Self::Conn => false,
            },
            Address::Conn { .. } => self == Self::Conn,
        }
    }
}

impl Address {
    /// The SCTP port.
    pub(crate) fn port(&self) -> u16 {
        match self {
            Self::Ip(addr) => addr.port(),
            Self::Conn { port, .. } => *port,
        }
    }

    /// Reads the address at the beginning of `bytes`.
    pub(crate) fn parse(bytes: &[u8]) -> Result<Self, Errno> {
        let family = c_int::from(memory::read::<u16>(bytes)?);
        let size = size_of_family(family)?;
        let bytes = bytes.get(..size).ok_or(INVALID)?;
        let port = u16::from_be_bytes([bytes[2], bytes[3]]);
        Ok(match family {
            libc::AF_INET => {
                let ip: [u8; 4] = bytes[4..8].try_into().map_err(|_| INVALID)?;
                Self::Ip(SocketAddr::new(Ipv4Addr::from(ip).into(), port))
            }
            libc::AF_INET6 => {
                let ip: [u8; 16] = bytes[8..24].try_into().map_err(|_| INVALID)?;
                let (ip, scope) = (Ipv6Addr::from(ip), memory::read::<u32>(&bytes[24..])?);
                match ip.to_ipv4_mapped() {
                    Some(v4) => Self::Ip(SocketAddr::new(v4.into(), port)),
                    None => Self::Ip(SocketAddrV6::new(ip, port, 0, scope).into()),
                }
            }
            _ => {
                let at: [u8; size_of::<usize>()] = bytes[CONN_AT..].try_into().map_err(|_| INVALID)?;
                Self::Conn { at: usize::from_ne_bytes(at), port }
            }
        })
    }

    /// Writes the address as its family's structure; IPv4 as a mapped IPv6 address if `mapped`.
    pub(crate) fn to_bytes(self, mapped: bool) -> Vec<u8> {
        let mut bytes = Vec::with_capacity(size_of::<libc::sockaddr_storage>());
        let mut head = |family: c_int, port: u16| {
            bytes.extend_from_slice(&(family as u16).to_ne_bytes());
            bytes.extend_from_slice(&port.to_be_bytes());
        };
        match self {
            Self::Ip(SocketAddr::V4(v4)) if !mapped => {
                head(libc::AF_INET, v4.port());
                bytes.extend_from_slice(&v4.ip().octets());
                bytes.resize(size_of::<libc::sockaddr_in>(), 0);
            }
            Self::Ip(addr) => {
                let (ip, scope) = match addr {
                    SocketAddr::V4(v4) => (v4.ip().to_ipv6_mapped(), 0),
                    SocketAddr::V6(v6) => (*v6.ip(), v6.scope_id()),
                };
                head(libc::AF_INET6, addr.port());
                bytes.extend_from_slice(&[0; 4]);
                bytes.extend_from_slice(&ip.octets());
                bytes.extend_from_slice(&scope.to_ne_bytes());
            }
            Self::Conn { at, port } => {
                head(AF_CONN, port);
                bytes.resize(CONN_AT, 0);
                bytes.extend_from_slice(&at.to_ne_bytes());
            }
        }
        bytes
    }

    /// The address as `sockaddr_storage`.
    pub(crate) fn to_storage(self, mapped: bool) -> libc::sockaddr_storage {
        // SAFETY: a structure of integers, for which zero is a value.
        let mut storage: libc::sockaddr_storage = unsafe { std::mem::zeroed() };
        // SAFETY: the place is that structure, which is longer than every address.
        unsafe { memory::Place::new((&raw mut storage).cast(), size_of_val(&storage)) }
            .fill(&self.to_bytes(mapped));
        storage
    }

    /// The address as the union that callbacks receive.
    pub(crate) fn to_sockstore(self) -> sctp_sockstore {
        // SAFETY: a union of integers and a pointer, for which zero is a value.
        let mut store: sctp_sockstore = unsafe { std::mem::zeroed() };
        // SAFETY: the place is that union, which has room for every address.
        unsafe { memory::Place::new((&raw mut store).cast(), size_of_val(&store)) }
            .fill(&self.to_bytes(false));
        store
    }

    /// The address on the carrier: with the UDP port `port`.
    pub(crate) fn on_carrier(self, udp_port: u16) -> SocketAddr {
        match self {
            Self::Ip(addr) => with_port(addr, udp_port),
            Self::Conn { at, .. } => conn_peer(at),
        }
    }

    /// The address that the carrier names `addr`, with the SCTP port `port`.
    pub(crate) fn of_carrier(domain: Domain, addr: SocketAddr, port: u16) -> Self {
        match addr.ip() {
            IpAddr::V6(ip) if domain == Domain::Conn => {
                Self::Conn { at: u128::from(ip) as u64 as usize, port }
            }
            _ => Self::Ip(with_port(addr, port)),
        }
    }
}

/// The name of the local end `at` within an endpoint that sends through functions of the program. Inside the endpoint every
/// address is an IP address; these never reach the program.
pub(crate) fn conn_local(at: usize) -> SocketAddr {
    conn_name(0xfd00 << 112, at)
}

/// The name of the other end of `at`.
pub(crate) fn conn_peer(at: usize) -> SocketAddr {
    conn_name(0xfd01 << 112, at)
}

fn conn_name(network: u128, at: usize) -> SocketAddr {
    SocketAddr::new(Ipv6Addr::from(network | at as u128).into(), 0)
}

/// The address with another port; the scope of a link-local address stays.
fn with_port(mut addr: SocketAddr, port: u16) -> SocketAddr {
    addr.set_port(port);
    addr
}

fn size_of_family(family: c_int) -> Result<usize, Errno> {
    Ok(match family {
        libc::AF_INET => size_of::<libc::sockaddr_in>(),
        libc::AF_INET6 => size_of::<libc::sockaddr_in6>(),
        AF_CONN => size_of::<sockaddr_conn>(),
        _ => return Err(Errno(libc::EAFNOSUPPORT)),
    })
}

/// Reads one address of `len` bytes.
///
/// # Safety
///
/// `at` is null, or `len` bytes can be read there.
pub(crate) unsafe fn one(at: *const sockaddr, len: usize) -> Result<Address, Errno> {
    // SAFETY: passed on.
    Address::parse(unsafe { memory::bytes(at.cast(), len) }?)
}

/// Reads `count` addresses, one behind the other, each as long as its family's structure.
///
/// # Safety
///
/// `at` is null, or as many addresses can be read there.
pub(crate) unsafe fn list(at: *const sockaddr, count: c_int) -> Result<Vec<Address>, Errno> {
    let count = usize::try_from(count).ok().filter(|count| *count <= ADDRESSES_MAX).ok_or(INVALID)?;
    let mut at: *const c_void = at.cast();
    let mut addresses = Vec::with_capacity(count);
    for _ in 0..count {
        // SAFETY: an address is there, which begins with its family.
        let family = memory::read::<u16>(unsafe { memory::bytes(at, size_of::<u16>()) }?)?;
        let size = size_of_family(c_int::from(family))?;
        // SAFETY: an address of this family is there.
        addresses.push(Address::parse(unsafe { memory::bytes(at, size) }?)?);
        at = at.wrapping_byte_add(size);
    }
    Ok(addresses)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_of_every_family_survive_the_way_to_c_and_back() {
        let addresses = [
            Address::Ip("192.0.2.1:7".parse().unwrap()),
            Address::Ip("[2001:db8::1]:9".parse().unwrap()),
            Address::Ip(SocketAddrV6::new("fe80::1".parse().unwrap(), 1, 0, 3).into()),
            Address::Conn { at: usize::MAX - 5, port: 5001 },
        ];
        for address in addresses {
            assert_eq!(Address::parse(&address.to_bytes(false)), Ok(address));
        }
        let mapped = addresses[0].to_bytes(true);
        assert_eq!(mapped.len(), size_of::<libc::sockaddr_in6>());
        assert_eq!(Address::parse(&mapped), Ok(addresses[0]));
        let all: Vec<u8> = addresses.iter().flat_map(|address| address.to_bytes(false)).collect();
        // SAFETY: four addresses are there.
        assert_eq!(unsafe { list(all.as_ptr().cast(), 4) }, Ok(addresses.to_vec()));
    }

    #[test]
    fn short_unknown_and_missing_addresses_are_refused() {
        let address = Address::Ip("192.0.2.1:7".parse().unwrap()).to_bytes(false);
        for len in 0..address.len() {
            assert_eq!(Address::parse(&address[..len]), Err(INVALID), "{len}");
        }
        assert_eq!(Address::parse(&[77; 40]), Err(Errno(libc::EAFNOSUPPORT)));
        // SAFETY: null is allowed.
        assert_eq!(unsafe { list(std::ptr::null(), 1) }, Err(Errno(libc::EFAULT)));
        // SAFETY: a negative number of addresses is refused before any is read.
        assert_eq!(unsafe { list(address.as_ptr().cast(), -1) }, Err(INVALID));
    }

    #[test]
    fn the_stack_finds_pointers_and_scopes_again_that_it_gave_to_the_carrier() {
        let at = 0x7fff_1234_5678;
        let found = Address::of_carrier(Domain::Conn, conn_peer(at), 5001);
        assert_eq!(found, Address::Conn { at, port: 5001 });
        assert_ne!(conn_local(at), conn_peer(at));
        let scoped = SocketAddrV6::new("fe80::1".parse().unwrap(), 7, 0, 3);
        let on_carrier = SocketAddrV6::new(*scoped.ip(), 9_899, 0, 3);
        assert_eq!(Address::Ip(scoped.into()).on_carrier(9_899), on_carrier.into());
        assert_eq!(Address::of_carrier(Domain::Inet6, on_carrier.into(), 7), Address::Ip(scoped.into()));
    }
}
