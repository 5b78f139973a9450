//! Adds and removes local addresses of a running endpoint and its associations (RFC 5061).
//!
//! A socket is opened before anything is sent from its address, and closed once no association has the
//! address. The core decides what happens to each association.

use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{AddressError, Phase};

use crate::association::Association;
use crate::core::{Core, Leaving};
use crate::endpoint::{BindError, Endpoint, reachable_at};
use crate::sockets::{Socket, Sockets};

/// How long a socket stays open after the last association removed its address, for packets that are
/// still in flight. Less than two RTOs (RFC 5061 §5.3); the shortest RTO of any profile is 100 ms.
const GRACE: Duration = Duration::from_millis(200);

/// The endpoint has no such address, or no other one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct NoSuchAddress;

impl std::fmt::Display for NoSuchAddress {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("the endpoint is not bound to this address, or to no other; see what it is bound to")
    }
}

impl std::error::Error for NoSuchAddress {}

impl Endpoint {
    /// Binds another address, at the port of the first one if its own port is 0; returns the address
    /// with its port. Peers of existing associations are informed if they support it
    /// ([`paths.asconf`](crate::Config::paths)).
    pub fn add_address(&self, addr: SocketAddr) -> Result<SocketAddr, BindError> {
        let carrier = self.carrier();
        let mut addr = addr;
        let mut core = self.shared.lock();
        if addr.port() == 0 {
            addr.set_port(core.local_addrs.first().map_or(0, SocketAddr::port));
        }
        // A wildcard address covers this address as well.
        let covers = |bound: &SocketAddr| {
            bound.ip().is_unspecified() && bound.is_ipv4() == addr.is_ipv4() && bound.port() == addr.port()
        };
        if !core.local_addrs.iter().any(covers) {
            let socket =
                Socket::bind(carrier, addr).map_err(|error| BindError::Address { carrier, addr, error })?;
            addr = socket.local();
            core.arriving.push(socket);
            core.local_addrs.push(addr);
        }
        core.announce();
        let ids: Vec<_> = core.seats.keys().copied().collect();
        for id in ids {
            if let Some(association) = core.machine.association_mut(id) {
                // Errors are ignored: such associations continue with their existing addresses.
                let _ = association.add_address(addr);
            }
        }
        drop(core);
        self.shared.task.notify_one();
        Ok(addr)
    }

    /// Removes a local address: nothing is sent from it any more on associations whose peers support
    /// that. On others, and if it is the only address, it is used until the association ends; its socket
    /// is closed with the last of them.
    pub fn remove_address(&self, addr: SocketAddr) -> Result<(), NoSuchAddress> {
        let mut core = self.shared.lock();
        let is_bound = core.local_addrs.contains(&addr);
        if !is_bound || core.local_addrs.len() == 1 {
            return Err(NoSuchAddress);
        }
        core.local_addrs.retain(|bound| *bound != addr);
        core.leaving.push(Leaving { addr, until: None });
        core.announce();
        let ids: Vec<_> = core.seats.keys().copied().collect();
        for id in ids {
            if let Some(association) = core.machine.association_mut(id) {
                let _ = association.remove_address(addr);
            }
        }
        drop(core);
        self.shared.task.notify_one();
        Ok(())
    }
}

impl Core {
    /// Tells the endpoint the addresses of new associations.
    fn announce(&mut self) {
        let (addresses, announce) = reachable_at(&self.local_addrs);
        self.machine.set_addresses(addresses, announce);
    }

    /// Adds the new sockets and removes those no longer needed; returns when to call again.
    pub(crate) fn settle(&mut self, now: Time, sockets: &mut Sockets) -> Option<Time> {
        self.arriving.drain(..).for_each(|socket| sockets.add(socket));
        let Self { machine, seats, leaving, .. } = self;
        let in_use = |addr: &SocketAddr| {
            let mut associations = seats.keys().filter_map(|id| machine.association(*id));
            associations.any(|it| it.phase() != Phase::Closed && it.local_addresses().contains(addr))
        };
        leaving.retain_mut(|Leaving { addr, until }| {
            *until = if in_use(addr) { None } else { until.or(Some(now + GRACE)) };
            let over = until.is_some_and(|until| until <= now);
            if over {
                sockets.remove(*addr);
            }
            !over
        });
        leaving.iter().filter_map(|it| it.until).min()
    }
}

impl Association {
    /// Requests that the peer add an address of the endpoint to this association: see
    /// [`add_address`](braidftp_sctp::Association::add_address).
    pub fn add_address(&self, local: SocketAddr) -> Result<(), AddressError> {
        self.with(|association, _| association.add_address(local))
    }

    /// Requests that the peer delete an address of this association: see
    /// [`remove_address`](braidftp_sctp::Association::remove_address).
    pub fn remove_address(&self, local: SocketAddr) -> Result<(), AddressError> {
        self.with(|association, _| association.remove_address(local))
    }

    /// Requests that the peer send to this address first: see
    /// [`set_peer_primary`](braidftp_sctp::Association::set_peer_primary).
    pub fn set_peer_primary(&self, local: SocketAddr) -> Result<(), AddressError> {
        self.with(|association, _| association.set_peer_primary(local))
    }
}
