//! The handles of an endpoint and of its listening ports.

use std::fmt;
use std::io;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
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
use crate::in_process::{InProcess, PacketOutput};
use crate::packet_input::PacketInput;
use crate::packet_log::PacketLog;
use crate::qlog::Qlog;
use crate::sockets::{self, BoundSocket, Socket, Sockets};
use crate::task::{Logs, Task};

/// The addresses and settings of an endpoint.
#[derive(Debug, Clone)]
pub struct Bind {
    /// Local addresses. Each has its own socket, so the source address of a path is its own. With UDP
    /// port 0 the system chooses a port, the same for all addresses if possible; RFC 6951's port is
    /// 9899. Several addresses are announced to every peer. A wildcard stands for all current addresses
    /// of the host, which are announced to peers that announce several themselves.
    pub addrs: Vec<SocketAddr>,
    /// UDP sockets that are already bound, such as those passed by systemd: each is used instead of a
    /// new one if its address is in `addrs`.
    pub sockets: Vec<Arc<std::net::UdpSocket>>,
    /// The layer below SCTP. Default UDP; with [`Carrier::Ip`] the ports of `addrs` are ignored.
    pub carrier: Carrier,
    /// The seed of the core's random numbers. `None`, the default: from the operating system, as
    /// required except in tests.
    pub seed: Option<[u8; 32]>,
    /// How long associations may take to shut down after the endpoint was closed or its last handle
    /// dropped, before they are aborted. Default 10 s.
    pub linger: Duration,
    /// The limits of the endpoint. Default: those of the core, and [`default_memory_bytes`] for all
    /// associations.
    pub limits: Limits,
    /// A pcapng file for all datagrams.
    pub pcap: Option<PathBuf>,
    /// A text file for all packets, one per line in packetdrill's notation, which the program `pkt` of
    /// `braidftp-pkt` reads.
    pub packet_log: Option<PathBuf>,
    /// A qlog file (JSON-SEQ) of all packets, and of how the associations' statistics change.
    pub qlog: Option<PathBuf>,
}

impl Bind {
    /// Defaults at these addresses.
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
            qlog: None,
        }
    }
}

/// Why an endpoint could not be bound.
#[derive(Debug)]
pub enum BindError {
    /// No address was given.
    NoAddress,
    /// An address could not be bound.
    Address {
        /// The lower layer.
        carrier: Carrier,
        /// The address.
        addr: SocketAddr,
        /// The system error.
        error: io::Error,
    },
    /// The system provided no random numbers.
    NoRandomness(io::Error),
    /// The capture file could not be written.
    Pcap {
        /// The path.
        path: PathBuf,
        /// The system error.
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
            Self::Address { carrier, addr, error } => {
                write!(f, "cannot bind {carrier} {addr}: {error}")?;
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
    /// No socket of the endpoint has the family of a peer address.
    NoLocalAddress,
    /// The system has no route to the peer.
    NoRoute {
        /// The peer's address.
        peer: SocketAddr,
        /// The system error.
        error: io::Error,
    },
    /// The core rejected the call.
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

/// Local addresses with an SCTP endpoint, driven by a task. Clones share it.
///
/// The task ends once there is no handle (of the endpoint, of listeners, of associations) and every
/// association has shut down, within [`Bind::linger`].
pub struct Endpoint {
    pub(crate) shared: Arc<Shared>,
    linger: Duration,
}

/// The open sockets and files of an endpoint that is not running yet. Packets wait in the kernel.
#[derive(Debug)]
pub struct Opened {
    bind: Bind,
    seed: [u8; 32],
    sockets: Vec<BoundSocket>,
    /// The addresses at which peers can reach the host, and to whom they are announced.
    reachable: (Vec<SocketAddr>, Announce),
    logs: Logs,
}

impl Opened {
    /// Returns the layer below SCTP.
    pub fn carrier(&self) -> Carrier {
        self.bind.carrier
    }

    /// Returns the bound addresses in the order of [`Bind::addrs`], with the ports chosen by the system.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.sockets.iter().map(BoundSocket::local).collect()
    }

    /// Spawns the task that drives the endpoint. Must be called within a tokio runtime with I/O and time
    /// enabled.
    ///
    /// # Errors
    ///
    /// The runtime cannot register a socket.
    pub fn start(self) -> Result<Endpoint, BindError> {
        Ok(self.start_with(|_| ())?.0)
    }

    /// The same; calls `prepare` before the task reads its first packet, and also returns its result. An INIT that finds no listener
    /// is refused (RFC 9260 §8.4), and peers can send one as soon as the sockets are bound, so a server opens its listeners here.
    ///
    /// # Errors
    ///
    /// As [`Self::start`]; then `prepare` is not called.
    pub fn start_with<T>(self, prepare: impl FnOnce(&Endpoint) -> T) -> Result<(Endpoint, T), BindError> {
        let (endpoint, task) = self.into_task()?;
        let prepared = prepare(&endpoint);
        tokio::spawn(task.run());
        Ok((endpoint, prepared))
    }

    /// Registers the sockets with the current runtime, and returns the task for the caller to run there.
    pub(crate) fn into_task(self) -> Result<(Endpoint, Task), BindError> {
        let Self { bind, seed, sockets, reachable, logs } = self;
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
            Carrier::Udp | Carrier::InProcess => Sharing::Alone,
            Carrier::Ip => Sharing::WithOthers,
        });
        let shared = Arc::new(Shared::new(machine, carrier, local_addrs));
        Ok(Endpoint::with_task(shared, Sockets::new(sockets), logs, bind.linger))
    }
}

impl Endpoint {
    /// Binds the addresses and spawns the task that drives them. Must be called within a tokio runtime with I/O and
    /// time enabled. Peers whose first packet arrives before [`Self::listen`] is called are refused; [`Opened::start_with`]
    /// refuses none.
    pub fn bind(bind: Bind) -> Result<Self, BindError> {
        Self::open(bind)?.start()
    }

    /// Binds the addresses and opens the files of `bind`, for a program that drops privileges before it
    /// starts a runtime.
    pub fn open(bind: Bind) -> Result<Opened, BindError> {
        if bind.addrs.is_empty() {
            return Err(BindError::NoAddress);
        }
        let seed = seed_of(&bind)?;
        let mut sockets: Vec<BoundSocket> = Vec::with_capacity(bind.addrs.len());
        for &addr in &bind.addrs {
            // Peers learn the other addresses without their ports, so they expect the same port for all.
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
        let logs = open_logs(&bind)?;
        let local_addrs: Vec<SocketAddr> = sockets.iter().map(BoundSocket::local).collect();
        let reachable = reachable_at(&local_addrs);
        Ok(Opened { bind, seed, sockets, reachable, logs })
    }

    /// An endpoint without sockets: `output` sends its packets, and [`PacketInput::receive`] takes in those that arrive.
    /// [`Bind::addrs`] are the local addresses as the caller names them; they are not announced to peers. Must be called
    /// within a tokio runtime with time enabled.
    ///
    /// # Errors
    ///
    /// No address was given, the system gave no randomness, or a log cannot be written.
    pub fn over(bind: Bind, output: PacketOutput) -> Result<(Self, PacketInput), BindError> {
        if bind.addrs.is_empty() {
            return Err(BindError::NoAddress);
        }
        let bind = Bind { carrier: Carrier::InProcess, ..bind };
        let machine = sctp::Endpoint::with_limits(seed_of(&bind)?, bind.limits);
        let logs = open_logs(&bind)?;
        let shared = Arc::new(Shared::new(machine, bind.carrier, bind.addrs));
        let (in_process, waiting) = InProcess::new(output);
        let input = PacketInput::new(shared.clone(), waiting);
        let (endpoint, task) = Self::with_task(shared, Sockets::over(in_process), logs, bind.linger);
        tokio::spawn(task.run());
        Ok((endpoint, input))
    }

    /// The first handle, and the task for the caller to run.
    fn with_task(shared: Arc<Shared>, sockets: Sockets, logs: Logs, linger: Duration) -> (Self, Task) {
        shared.lock().endpoints = 1;
        let task = Task::new(shared.clone(), sockets, logs, linger);
        (Self { shared, linger }, task)
    }

    /// Returns the layer below SCTP.
    pub fn carrier(&self) -> Carrier {
        self.shared.carrier
    }

    /// Returns the bound addresses in the order of [`Bind::addrs`], with the ports chosen by the system,
    /// and those added since.
    pub fn local_addrs(&self) -> Vec<SocketAddr> {
        self.shared.lock().local_addrs.clone()
    }

    /// Accepts associations on SCTP port `port` from now on.
    pub fn listen(&self, port: u16, config: Arc<Config>) -> Result<Listener, ListenError> {
        self.listen_as(port, config, None)
    }

    /// Accepts protected associations (draft-ietf-tsvwg-sctp-dtls-chunk) with these keys. Peers that do
    /// not support protection are rejected, or accepted without it if [`Settings::mode`] is loose
    /// ([`Association::is_protected`] tells). No association is accepted before its peer is
    /// authenticated.
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

    /// Opens an association; returns at once. Wait for [`Association::up`], or send: the first messages
    /// are bundled with COOKIE ECHO. If [`Connect::local`] is empty, all addresses of the endpoint with
    /// a family of the peer are used.
    pub fn connect(&self, connect: Connect) -> Result<Association, ConnectError> {
        self.connect_as(connect, None)
    }

    /// Opens a protected association (draft-ietf-tsvwg-sctp-dtls-chunk): [`Association::up`] waits until
    /// the peer is authenticated, and so do sent messages. A peer that does not support protection is
    /// rejected.
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

    /// Returns the number of associations that are not closed.
    pub fn associations(&self) -> usize {
        self.shared.lock().open
    }

    /// Returns the totals over all associations, including closed ones.
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

    /// Returns the limits.
    pub fn limits(&self) -> Limits {
        self.shared.lock().machine.limits()
    }

    /// Returns the memory of the associations in bytes, as in [`Limits::memory_bytes`].
    pub fn memory_bytes(&self) -> usize {
        self.shared.lock().machine.memory_bytes()
    }

    /// Returns the number of half-open associations, as in [`Limits::half_open`].
    pub fn half_open(&self) -> usize {
        self.shared.lock().machine.half_open()
    }

    /// Returns the counters of packets that were not passed to an association.
    pub fn counters(&self) -> Counters {
        self.shared.lock().machine.counters()
    }

    /// Waits until no association is open, without closing anything.
    ///
    /// # Cancel safety
    ///
    /// Changes nothing; may be cancelled and called again.
    pub async fn wait_idle(&self) {
        self.reached(|open, phase| open == 0 || is_over(phase)).await;
    }

    /// Stops listening, shuts down every association (and aborts those that take longer than
    /// [`Bind::linger`]), and waits until the task has ended and its ports are free.
    ///
    /// # Cancel safety
    ///
    /// The closing continues if this is cancelled.
    pub async fn close(&self) {
        self.shared.lock().close(self.shared.clock.now() + self.linger);
        self.shared.task.notify_one();
        self.reached(|_, phase| is_over(phase)).await;
    }

    /// Waits until the task has ended, without closing anything, and returns whether it panicked, which
    /// is a bug of this program. Then the endpoint's ports are free, its associations have ended, and
    /// only callers of this function are notified.
    ///
    /// # Cancel safety
    ///
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

    /// Returns the local addresses from which any of `peers` can be reached.
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

/// Opens the files that `bind` names.
fn open_logs(bind: &Bind) -> Result<Logs, BindError> {
    let failed = |path: &Path| {
        let path = path.to_owned();
        move |error| BindError::Pcap { path, error }
    };
    let mut logs = Logs::default();
    if let Some(path) = &bind.pcap {
        logs.capture = Some(Capture::create(path, bind.carrier).map_err(failed(path))?);
    }
    if let Some(path) = &bind.packet_log {
        logs.packets = Some(PacketLog::create(path, bind.carrier).map_err(failed(path))?);
    }
    if let Some(path) = &bind.qlog {
        logs.qlog = Some(Qlog::create(path).map_err(failed(path))?);
    }
    Ok(logs)
}

/// Returns the configuration with protection.
fn protected(config: &Config, settings: &Settings) -> Arc<Config> {
    Arc::new(config.clone().with(|c| c.security.dtls = Some(settings.dtls())))
}

fn is_over(phase: Phase) -> bool {
    matches!(phase, Phase::Ended | Phase::Failed)
}

/// How an endpoint's task ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ended {
    /// The endpoint was closed, its last handle was dropped, or its runtime has ended.
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

/// An SCTP port on which an endpoint accepts associations. Dropping it stops that; accepted associations
/// continue.
pub struct Listener {
    pub(crate) shared: Arc<Shared>,
    pub(crate) port: u16,
}

impl Listener {
    /// The SCTP port.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Returns the next association that a peer opened; `None` once the endpoint is closed. Its COOKIE
    /// ACK was sent, so an abort follows after it.
    ///
    /// # Cancel safety
    ///
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

/// Returns the addresses at which peers can reach an endpoint with these sockets, and to whom they are
/// announced.
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

/// The seed that `bind` gives, or one of the system.
fn seed_of(bind: &Bind) -> Result<[u8; 32], BindError> {
    if let Some(seed) = bind.seed {
        return Ok(seed);
    }
    let mut seed = [0; 32];
    getrandom::fill(&mut seed).map_err(|error| BindError::NoRandomness(io::Error::other(error)))?;
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
