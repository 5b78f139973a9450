//! The handles of an endpoint and of its listening ports.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use braidftp_keys::Settings;
use braidftp_sctp::{self as sctp, Announce, Config, Connect, Counters, Limits, ListenError, Sharing};

use crate::association::Association;
use crate::budget::default_memory_bytes;
use crate::capture::Capture;
use crate::carrier::Carrier;
use crate::core::{Backlog, Phase, Seat, Shared, Totals};
use crate::packet_log::PacketLog;
use crate::sockets::{self, BoundSocket, Socket, Sockets};
use crate::task::Task;

/// Where an endpoint is bound and how it behaves.
#[derive(Debug, Clone)]
pub struct Bind {
    /// Local addresses; each gets a socket of its own, so that a path's source address is its own. UDP port 0 lets
    /// the system choose, the same port for all if it can; RFC 6951's port is 9899. Several are told to every peer. An
    /// unspecified IP stands for all that the host has now, which are told to peers that have several themselves.
    pub addrs: Vec<SocketAddr>,
    /// UDP sockets that are bound already, such as those that systemd passes: each is used in the place of a new one where its
    /// address is among `addrs`.
    pub sockets: Vec<Arc<std::net::UdpSocket>>,
    /// What carries the packets. UDP; with [`Carrier::Ip`] the ports of `addrs` mean nothing.
    pub carrier: Carrier,
    /// What the core's randomness grows from. `None`: from the operating system, as it must be but in tests.
    pub seed: Option<[u8; 32]>,
    /// How long associations may take to shut down once the endpoint is closed or nobody holds a handle, before they
    /// are aborted. 10 s.
    pub linger: Duration,
    /// What peers can make the endpoint hold. The core's defaults, but for the memory of all associations:
    /// [`default_memory_bytes`].
    pub limits: Limits,
    /// A pcapng file to write every datagram to.
    pub pcap: Option<PathBuf>,
    /// A text file to write every packet to, a line each, in packetdrill's notation: what the program `pkt` of
    /// `braidftp-pkt` reads.
    pub packet_log: Option<PathBuf>,
}

impl Bind {
    /// All defaults, at these addresses.
    pub fn to(addrs: impl IntoIterator<Item = SocketAddr>) -> Self {
        Self {
            addrs: addrs.into_iter().collect(),
            sockets: Vec::new(),
            carrier: Carrier::Udp,
            seed: None,
            linger: Duration::from_secs(10),
            limits: Limits { memory_bytes: default_memory_bytes(), ..Limits::default() },
            pcap: None,
            packet_log: None,
        }
    }
}

/// Why an endpoint could not be bound.
#[derive(Debug)]
pub enum BindError {
    /// There was no address to bind.
    NoAddress,
    /// An address could not be bound.
    Address {
        /// What was to carry packets there.
        carrier: Carrier,
        /// Which.
        addr: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The system gave no randomness.
    NoRandomness(io::Error),
    /// The capture file could not be written.
    Pcap {
        /// Which file.
        path: PathBuf,
        /// What the system said.
        error: io::Error,
    },
}

impl fmt::Display for BindError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoAddress => f.write_str("no local address to bind: give one, such as 0.0.0.0:9899"),
            Self::Address { carrier: Carrier::Ip, addr, error } => {
                write!(f, "cannot open a raw socket for SCTP over IP at {}: {error}", addr.ip())?;
                match error.kind() {
                    io::ErrorKind::PermissionDenied => f.write_str(
                        "; it takes the privilege CAP_NET_RAW: run as root, or `setcap cap_net_raw+ep` the program, \
                         or use SCTP in UDP, which takes none",
                    ),
                    io::ErrorKind::AddrNotAvailable => f.write_str("; this host has no such address: see `ip addr`"),
                    _ => Ok(()),
                }
            }
            Self::Address { carrier: Carrier::Udp, addr, error } => {
                write!(f, "cannot bind UDP {addr}: {error}")?;
                match error.kind() {
                    io::ErrorKind::AddrInUse => {
                        f.write_str("; another program has it: stop that one or choose another port")
                    }
                    io::ErrorKind::AddrNotAvailable => {
                        f.write_str("; this host has no such address: see `ip addr`, or use 0.0.0.0 or [::]")
                    }
                    io::ErrorKind::PermissionDenied => {
                        f.write_str("; ports below 1024 need privileges: choose a higher one")
                    }
                    _ => Ok(()),
                }
            }
            Self::NoRandomness(error) => write!(f, "the system gave no randomness: {error}"),
            Self::Pcap { path, error } => {
                write!(f, "cannot write the capture file {}: {error}", path.display())
            }
        }
    }
}

impl std::error::Error for BindError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::NoAddress => None,
            Self::Address { error, .. } | Self::NoRandomness(error) | Self::Pcap { error, .. } => Some(error),
        }
    }
}

/// Why [`Endpoint::connect`] failed at once.
#[derive(Debug)]
pub enum ConnectError {
    /// The endpoint is closed or closing.
    Closed,
    /// No socket of the endpoint is of the family of any of the peer's addresses.
    NoLocalAddress,
    /// The system knows no route to the peer.
    NoRoute {
        /// The peer's address.
        peer: SocketAddr,
        /// What the system said.
        error: io::Error,
    },
    /// The core refused.
    Refused(sctp::ConnectError),
}

impl fmt::Display for ConnectError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Closed => f.write_str("the endpoint is closed; bind a new one"),
            Self::NoLocalAddress => f.write_str(
                "no local address of the peer's family (IPv4 or IPv6): bind one of that family too",
            ),
            Self::NoRoute { peer, error } => write!(f, "no route to {peer}: {error}"),
            Self::Refused(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for ConnectError {}

/// Local addresses with SCTP behind them, driven by a task. Clones share it.
///
/// The task ends once no handle is left (of the endpoint, of listeners, of associations) and every association has
/// shut down; [`Bind::linger`] bounds that.
pub struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    linger: Duration,
}

/// The open sockets and files of an endpoint that does not run yet. Packets wait in the kernel.
#[derive(Debug)]
pub struct Opened {
    bind: Bind,
    seed: [u8; 32],
    sockets: Vec<BoundSocket>,
    /// The addresses of the host at which peers reach it, and to whom they are told.
    reachable: (Vec<SocketAddr>, Announce),
    capture: Option<Capture>,
    log: Option<PacketLog>,
}

impl Opened {
    /// What will carry its packets.
    pub fn carrier(&self) -> Carrier {
        self.bind.carrier
    }

    /// The addresses bound, in the order of [`Bind::addrs`], with the ports that the system chose.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(BoundSocket::local).collect()
    }

    /// Spawns the task that drives the endpoint. Must be called within a tokio runtime with I/O and time enabled.
    ///
    /// # Errors
    /// The runtime does not take a socket.
    pub fn start(self) -> Result<Endpoint, BindError> {
        let Self { bind, seed, sockets, reachable, capture, log } = self;
        let carrier = bind.carrier;
        let local_addrs: Vec<SocketAddr> = sockets.iter().map(BoundSocket::local).collect();
        let registered = sockets.into_iter().map(|socket| {
            let addr = socket.local();
            socket.register().map_err(|error| BindError::Address { carrier, addr, error })
        });
        let sockets: Vec<Socket> = registered.collect::<Result<_, _>>()?;
        let mut machine = sctp::Endpoint::with_limits(seed, bind.limits);
        machine.set_addresses(reachable.0, reachable.1);
        machine.set_sharing(match carrier {
            Carrier::Udp => Sharing::Alone,
            Carrier::Ip => Sharing::WithOthers,
        });
        let shared = Arc::new(Shared::new(machine, carrier, local_addrs));
        shared.lock().endpoints = 1;
        tokio::spawn(Task::new(shared.clone(), Sockets::new(sockets), (capture, log), bind.linger).run());
        Ok(Endpoint { shared, linger: bind.linger })
    }
}

impl Endpoint {
    /// Binds the addresses and spawns the task that drives them. Must be called within a tokio runtime with I/O and
    /// time enabled.
    pub fn bind(bind: Bind) -> Result<Self, BindError> {
        Self::open(bind)?.start()
    }

    /// Binds the addresses and opens the files of `bind`, for a program that gives up privileges before it starts a runtime.
    pub fn open(bind: Bind) -> Result<Opened, BindError> {
        if bind.addrs.is_empty() {
            return Err(BindError::NoAddress);
        }
        let seed = match bind.seed {
            Some(seed) => seed,
            None => system_seed().map_err(BindError::NoRandomness)?,
        };
        let mut sockets: Vec<BoundSocket> = Vec::with_capacity(bind.addrs.len());
        for &addr in &bind.addrs {
            // Peers hear of the other addresses without their ports, so that one port for all is what they expect.
            let carrier = bind.carrier;
            let is_there =
                |socket: &&Arc<std::net::UdpSocket>| socket.local_addr().is_ok_and(|at| at == addr);
            if let Some(there) = bind.sockets.iter().find(is_there).filter(|_| carrier == Carrier::Udp) {
                let socket = there.try_clone().and_then(BoundSocket::adopt);
                sockets.push(socket.map_err(|error| BindError::Address { carrier, addr, error })?);
                continue;
            }
            let port = sockets.first().map_or(0, |first| first.local().port());
            let alike = Some(port).filter(|_| addr.port() == 0 && port != 0);
            let socket =
                alike.and_then(|port| BoundSocket::bind(carrier, SocketAddr::new(addr.ip(), port)).ok());
            let socket = socket.map_or_else(|| BoundSocket::bind(carrier, addr), Ok);
            sockets.push(socket.map_err(|error| BindError::Address { carrier, addr, error })?);
        }
        let capture = bind.pcap.as_deref().map(|path| {
            Capture::create(path, bind.carrier)
                .map_err(|error| BindError::Pcap { path: path.to_owned(), error })
        });
        let capture = capture.transpose()?;
        let log = bind.packet_log.as_deref().map(|path| {
            PacketLog::create(path, bind.carrier)
                .map_err(|error| BindError::Pcap { path: path.to_owned(), error })
        });
        let log = log.transpose()?;
        let local_addrs: Vec<SocketAddr> = sockets.iter().map(BoundSocket::local).collect();
        let reachable = reachable_at(&local_addrs);
        Ok(Opened { bind, seed, sockets, reachable, capture, log })
    }

    /// What carries its packets.
    pub fn carrier(&self) -> Carrier {
        self.shared.carrier
    }

    /// The addresses bound, in the order of [`Bind::addrs`], with the ports that the system chose, and those that were
    /// added since.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.lock().local_addrs.clone()
    }

    /// Takes associations on SCTP port `port` from now on.
    pub fn listen(&self, port: u16, config: Arc<Config>) -> Result<Listener, ListenError> {
        self.listen_as(port, config, None)
    }

    /// The same, for associations that are protected (draft-ietf-tsvwg-sctp-dtls-chunk) with these keys: peers that ask for no
    /// protection are refused, or accepted without it if [`Settings::mode`] is loose ([`Association::is_protected`] tells). No
    /// other is accepted before it is authentic.
    pub fn listen_protected(
        &self,
        port: u16,
        config: Arc<Config>,
        settings: Arc<Settings>,
    ) -> Result<Listener, ListenError> {
        self.listen_as(port, protected(&config, &settings), Some(settings))
    }

    fn listen_as(
        &self,
        port: u16,
        config: Arc<Config>,
        protection: Option<Arc<Settings>>,
    ) -> Result<Listener, ListenError> {
        let mut core = self.shared.lock();
        core.machine.listen(port, config)?;
        core.backlogs.insert(port, Backlog { protection, ..Backlog::default() });
        Ok(Listener { shared: self.shared.clone(), port })
    }

    /// Opens an association; returns at once. Wait for [`Association::up`], or just send: the first messages ride
    /// with COOKIE ECHO. With [`Connect::local`] empty, all of the endpoint's addresses of the peer's families serve.
    pub fn connect(&self, connect: Connect) -> Result<Association, ConnectError> {
        self.connect_as(connect, None)
    }

    /// The same, protected (draft-ietf-tsvwg-sctp-dtls-chunk): [`Association::up`] waits until the peer is authentic, and what is
    /// sent waits, too. A peer that cannot protect packets is refused.
    pub fn connect_protected(
        &self,
        connect: Connect,
        settings: Arc<Settings>,
    ) -> Result<Association, ConnectError> {
        let config = protected(&connect.config, &settings);
        self.connect_as(Connect { config, ..connect }, Some(settings))
    }

    fn connect_as(
        &self,
        mut connect: Connect,
        protection: Option<Arc<Settings>>,
    ) -> Result<Association, ConnectError> {
        for addr in connect.local.iter_mut().chain(&mut connect.peer) {
            *addr = self.shared.carrier.address(*addr);
        }
        if connect.local.is_empty() {
            connect.local = self.sources(&connect.peer)?;
        }
        let mut core = self.shared.lock();
        if core.phase != Phase::Open {
            return Err(ConnectError::Closed);
        }
        let id = core.machine.connect(self.shared.clock.now(), connect).map_err(ConnectError::Refused)?;
        let seat = Seat::protected(protection);
        let association = Association::new(self.shared.clone(), id, &seat);
        core.seat(id, seat);
        drop(core);
        self.shared.task.notify_one();
        Ok(association)
    }

    /// Associations that are not closed yet.
    pub fn associations(&self) -> usize {
        self.shared.lock().open
    }

    /// What all its associations did together, those that are over included.
    pub fn totals(&self) -> Totals {
        let core = self.shared.lock();
        let mut totals = core.forgotten;
        for id in core.seats.keys() {
            if let Some(association) = core.machine.association(*id) {
                totals.add(&association.stats());
            }
        }
        totals
    }

    /// What limits it.
    pub fn limits(&self) -> Limits {
        self.shared.lock().machine.limits()
    }

    /// Bytes of memory that its associations take, as [`Limits::memory_bytes`] counts them.
    pub fn memory_bytes(&self) -> usize {
        self.shared.lock().machine.memory_bytes()
    }

    /// Handshakes refused since [`HANDSHAKES_A_SECOND`](crate::HANDSHAKES_A_SECOND) were exceeded.
    pub fn handshakes_refused(&self) -> u64 {
        self.shared.lock().handshakes.refused
    }

    /// Associations that peers opened and [`Association::admit`] was not called for, as [`Limits::half_open`] counts them.
    pub fn half_open(&self) -> usize {
        self.shared.lock().machine.half_open()
    }

    /// What came and belonged to none of its associations.
    pub fn counters(&self) -> Counters {
        self.shared.lock().machine.counters()
    }

    /// Waits until no association is open, without closing anything.
    ///
    /// # Cancel safety
    /// Changes nothing; may be cancelled and called again.
    pub async fn wait_idle(&self) {
        self.reached(|open, phase| open == 0 || is_over(phase)).await;
    }

    /// Stops to listen, shuts down every association (aborting those that take longer than [`Bind::linger`]), and
    /// waits until the task is gone and its ports are free.
    ///
    /// # Cancel safety
    /// The closing goes on if this is cancelled.
    pub async fn close(&self) {
        self.shared.lock().close(self.shared.clock.now() + self.linger);
        self.shared.task.notify_one();
        self.reached(|_, phase| is_over(phase)).await;
    }

    /// Waits until the task is gone, without closing anything, and says whether it failed: it panicked, which is a fault of
    /// this program. Then the endpoint's ports are free, its associations are over, and nobody is told but who waits here.
    ///
    /// # Cancel safety
    /// Changes nothing; may be cancelled and called again.
    pub async fn ended(&self) -> Ended {
        self.reached(|_, phase| is_over(phase)).await;
        if self.shared.lock().phase == Phase::Failed { Ended::Failed } else { Ended::Closed }
    }

    async fn reached(&self, there: impl Fn(usize, Phase) -> bool) {
        loop {
            let mut ended = pin!(self.shared.ends.notified());
            ended.as_mut().enable();
            {
                let core = self.shared.lock();
                if there(core.open, core.phase) {
                    return;
                }
            }
            ended.await;
        }
    }

    /// The local addresses from which any of `peers` can be reached.
    fn sources(&self, peers: &[SocketAddr]) -> Result<Vec<SocketAddr>, ConnectError> {
        let mut sources = Vec::new();
        for peer in peers {
            for local in self.local_addrs().iter().filter(|local| local.is_ipv4() == peer.is_ipv4()) {
                let mut source = *local;
                if source.ip().is_unspecified() {
                    let ip = sockets::route_source(*peer);
                    source.set_ip(ip.map_err(|error| ConnectError::NoRoute { peer: *peer, error })?);
                }
                if !sources.contains(&source) {
                    sources.push(source);
                }
            }
        }
        if sources.is_empty() { Err(ConnectError::NoLocalAddress) } else { Ok(sources) }
    }
}

/// The same configuration, with protection.
fn protected(config: &Config, settings: &Settings) -> Arc<Config> {
    Arc::new(config.clone().with(|c| c.security.dtls = Some(settings.dtls())))
}

fn is_over(phase: Phase) -> bool {
    matches!(phase, Phase::Ended | Phase::Failed)
}

/// How an endpoint's task came to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// It was closed, nobody held it any more, or its runtime is gone.
    Closed,
    /// It panicked.
    Failed,
}

impl Clone for Endpoint {
    fn clone(&self) -> Self {
        self.shared.lock().endpoints += 1;
        Self { shared: self.shared.clone(), linger: self.linger }
    }
}

impl Drop for Endpoint {
    fn drop(&mut self) {
        self.shared.lock().endpoints -= 1;
        self.shared.task.notify_one();
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Endpoint").field(&self.local_addrs()).finish()
    }
}

/// One SCTP port on which an endpoint takes associations. Dropping it stops that; associations that were accepted go
/// on.
pub struct Listener {
    pub(crate) shared: Arc<Shared>,
    pub(crate) port: u16,
}

impl Listener {
    /// The SCTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The next association that a peer opened; `None` once the endpoint is closed. The peer has been told that it is
    /// up: what is done with it, an abort too, comes after that.
    ///
    /// # Cancel safety
    /// If cancelled, no association is lost.
    pub async fn accept(&self) -> Option<Association> {
        let arrived = self.shared.lock().backlogs.get(&self.port)?.arrived.clone();
        loop {
            let mut arrival = pin!(arrived.notified());
            arrival.as_mut().enable();
            {
                let mut core = self.shared.lock();
                if let Some(id) = core.accept(self.port).ok()? {
                    let seat = core.seats.get(&id).expect("who waits to be accepted has a seat");
                    return Some(Association::new(self.shared.clone(), id, seat));
                }
            }
            arrival.await;
        }
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.shared.lock().unlisten(self.port);
        self.shared.task.notify_one();
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Listener").field("port", &self.port).finish()
    }
}

/// Where peers can reach an endpoint with these sockets, and whether it was chosen to be there.
pub(crate) fn reachable_at(local_addrs: &[SocketAddr]) -> (Vec<SocketAddr>, Announce) {
    if local_addrs.iter().all(|addr| !addr.ip().is_unspecified()) {
        return (local_addrs.to_vec(), Announce::Always);
    }
    let mut addresses = Vec::new();
    for &addr in local_addrs {
        if addr.ip().is_unspecified() {
            let family = sockets::host_addresses().into_iter().filter(|ip| ip.is_ipv4() == addr.is_ipv4());
            addresses.extend(family.map(|ip| SocketAddr::new(ip, addr.port())));
        } else {
            addresses.push(addr);
        }
    }
    (addresses, Announce::ToMultihomed)
}

fn system_seed() -> io::Result<[u8; 32]> {
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(io::Error::other)?;
    Ok(seed)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_missing_privilege_is_reported_with_a_remedy() {
        let addr = "192.0.2.1:0".parse().unwrap();
        let error = io::ErrorKind::PermissionDenied.into();
        let text = BindError::Address { carrier: Carrier::Ip, addr, error }.to_string();
        for word in ["raw socket", "192.0.2.1:", "CAP_NET_RAW", "root", "setcap", "SCTP in UDP"] {
            assert!(text.contains(word), "{word}: {text}");
        }
    }
}
