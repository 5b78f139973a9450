//! Binding, listening, accepting, connecting.

use std::ffi::c_int;
use std::net::IpAddr;
use std::sync::Arc;

use braidftp_net::{Association, Connect};

use crate::abi::sctp_assoc_t;
use crate::address::{Address, conn_local};
use crate::errno::{Errno, INVALID};
use crate::pump::pump;
use crate::socket::{Bound, Member, Socket, Style};
use crate::stack::{Home, Stack, everywhere};

/// The maximum number of associations that wait to be accepted.
const BACKLOG_MAX: usize = 1024;

impl Socket {
    /// Binds the socket to addresses of one port; those of an earlier call stay.
    pub(crate) fn bind(&self, stack: &Stack, addresses: &[Address]) -> Result<(), Errno> {
        let port = addresses.first().ok_or(INVALID)?.port();
        let is_right = |address: &Address| self.domain.takes(address) && address.port() == port;
        if !addresses.iter().all(is_right) {
            return Err(INVALID);
        }
        let conn = addresses.iter().find_map(conn_of);
        if port != 0 && stack.is_taken(self.id, port, conn) {
            return Err(Errno(libc::EADDRINUSE));
        }
        let mut state = self.lock();
        if state.backlog_max.is_some() || !state.members.is_empty() {
            return Err(INVALID);
        }
        let mut bound =
            state.bound.take().unwrap_or(Bound { ips: Vec::new(), conn, port, is_inherited: false });
        bound.port = port;
        bound.ips.extend(addresses.iter().filter_map(|address| match address {
            Address::Ip(addr) => Some(addr.ip()),
            Address::Conn { .. } => None,
        }));
        state.bound = Some(bound);
        Ok(())
    }

    /// Accepts associations; with a backlog of 0 no longer. Over UDP if `usrsctp_init` named a port, and over IP if the process
    /// may open raw sockets.
    pub(crate) fn listen(self: &Arc<Self>, stack: &Arc<Stack>, backlog: c_int) -> Result<(), Errno> {
        let listeners = std::mem::take(&mut self.lock().listeners);
        stack.end(listeners);
        let (bound, config) = {
            let mut state = self.lock();
            state.backlog_max = None;
            if backlog <= 0 {
                return Ok(());
            }
            if self.style == Style::OneToOne && !state.members.is_empty() {
                return Err(INVALID);
            }
            (state.bound.clone().ok_or(INVALID)?, Arc::new(state.options.config.clone()))
        };
        let ips = || ips_of(&bound);
        let homes = match bound.conn {
            Some(at) => vec![Home::Conn(at)],
            None if stack.udp_port == 0 => vec![Home::Ip(ips())],
            None => vec![Home::Udp(ips()), Home::Ip(ips())],
        };
        let mut listeners = Vec::new();
        for (nth, home) in homes.iter().enumerate() {
            match stack.endpoint(home) {
                Ok(endpoint) => listeners.push(endpoint.listen(bound.port, config.clone())?),
                // Without the privilege: over UDP alone.
                Err(_) if nth > 0 => stack.print("no raw sockets: associations are accepted over UDP alone"),
                Err(error) => return Err(error),
            }
        }
        let mut state = self.lock();
        state.backlog_max = usize::try_from(backlog).ok().map(|backlog| backlog.min(BACKLOG_MAX));
        for listener in listeners {
            let (within, socket) = (stack.clone(), self.clone());
            let accept = async move {
                while let Some(association) = listener.accept().await {
                    socket.adopt(&within, association);
                }
            };
            state.listeners.push(stack.runtime.spawn(accept));
        }
        Ok(())
    }

    /// A peer opened an association.
    fn adopt(self: &Arc<Self>, stack: &Arc<Stack>, association: Association) {
        let mut state = self.lock();
        let Some(max) = state.backlog_max else { return association.abort("the socket was closed") };
        if self.style == Style::OneToMany {
            drop(state);
            self.join(stack, association);
            return;
        }
        if state.backlog.len() >= max {
            return association.abort("too many associations wait to be accepted");
        }
        let child = stack.add(|id| self.child(id, &state));
        state.backlog.push_back(child.clone());
        self.wake(&state);
        drop(state);
        child.join(stack, association);
    }

    /// Takes in an association.
    fn join(self: &Arc<Self>, stack: &Arc<Stack>, association: Association) -> sctp_assoc_t {
        let id = stack.next_association();
        let mut state = self.lock();
        let task = pump(self.clone(), id, association.clone());
        let pump = stack.runtime.spawn(task).abort_handle();
        state.members.insert(id, Member { association, is_up: false, pump });
        id
    }

    /// Returns the next accepted association.
    pub(crate) fn accept(&self) -> Result<Arc<Socket>, Errno> {
        let mut state = self.lock();
        loop {
            if state.is_closed {
                return Err(Errno(libc::EBADF));
            }
            if state.backlog_max.is_none() || self.style == Style::OneToMany {
                return Err(INVALID);
            }
            if let Some(child) = state.backlog.pop_front() {
                return Ok(child);
            }
            if !state.options.is_blocking {
                return Err(Errno(libc::EWOULDBLOCK));
            }
            state = self.wait(state)?;
        }
    }

    /// Opens an association. A blocking one-to-one socket waits until it is established.
    pub(crate) fn connect(
        self: &Arc<Self>,
        stack: &Arc<Stack>,
        peers: &[Address],
    ) -> Result<sctp_assoc_t, Errno> {
        let first = *peers.first().ok_or(INVALID)?;
        let is_right = |peer: &Address| self.domain.takes(peer) && peer.port() == first.port();
        if !peers.iter().all(is_right) {
            return Err(INVALID);
        }
        let (bound, options) = {
            let state = self.lock();
            match self.style {
                Style::OneToOne if state.backlog_max.is_some() => return Err(Errno(libc::EOPNOTSUPP)),
                Style::OneToOne if !state.members.is_empty() => return Err(Errno(libc::EISCONN)),
                Style::OneToOne if state.ended.is_some() => return Err(INVALID),
                _ => (state.bound.clone(), state.options.clone()),
            }
        };
        let ips = bound.as_ref().map_or_else(everywhere, ips_of);
        let (home, local) = match first {
            Address::Conn { at, .. } => (Home::Conn(at), vec![conn_local(at)]),
            Address::Ip(_) if options.udp_port == 0 => (Home::Ip(ips), Vec::new()),
            Address::Ip(_) => (Home::Udp(ips), Vec::new()),
        };
        let endpoint = stack.endpoint(&home)?;
        let association = endpoint.connect(Connect {
            local,
            peer: peers.iter().map(|peer| peer.on_carrier(options.udp_port)).collect(),
            source_port: bound.as_ref().map(|bound| bound.port).filter(|port| *port != 0),
            destination_port: first.port(),
            config: Arc::new(options.config),
        })?;
        let (port, conn) = (association.ports().0, conn_of(&first));
        let id = self.join(stack, association);
        let mut state = self.lock();
        match &mut state.bound {
            Some(bound) if bound.port == 0 => bound.port = port,
            Some(_) => {}
            None => state.bound = Some(Bound { ips: everywhere(), conn, port, is_inherited: false }),
        }
        if self.style == Style::OneToMany {
            return Ok(id);
        }
        if !options.is_blocking {
            return Err(Errno(libc::EINPROGRESS));
        }
        loop {
            if let Some(reason) = &state.ended {
                return Err(reason.into());
            }
            if state.members.get(&id).is_none_or(|member| member.is_up) {
                return Ok(id);
            }
            state = self.wait(state)?;
        }
    }
}

/// The local addresses of an endpoint for a socket: a wildcard of either family is replaced by both, so that sockets of the
/// process share one endpoint.
fn ips_of(bound: &Bound) -> Vec<IpAddr> {
    if bound.ips.iter().any(IpAddr::is_unspecified) { everywhere() } else { bound.ips.clone() }
}

fn conn_of(address: &Address) -> Option<usize> {
    match address {
        Address::Conn { at, .. } => Some(*at),
        Address::Ip(_) => None,
    }
}
