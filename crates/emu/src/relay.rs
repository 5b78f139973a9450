//! A relay between UDP ports: forwards datagrams between clients and a target through the configured links.
//!
//! Each client address gets its own socket towards the target, so that the target can distinguish clients.
//! All clients share the two links, as they would share a wire. ECN marks are preserved. The relay does not
//! look into packets, and stores only those in the links.

use std::collections::BTreeMap;
use std::io::{self, IoSliceMut, PipeReader};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::path::PathBuf;
use std::time::Duration;

use braidftp_base::{Datagram, Ecn, Output, Time};
use braidftp_pcap::{Carrier, Direction, Packet};
use braidftp_sim::{Link, LinkConfig, link};
use bytes::Bytes;
use quinn_udp::{BATCH_SIZE, EcnCodepoint, RecvMeta, Transmit, UdpSocketState};
use rustix::event::{PollFd, PollFlags};

use crate::clock::{Capture, Clock, Lateness, wake_on_time};
use crate::running::{Running, Shown};

/// The kernel's socket buffer while the relay's thread does not run, in bytes.
const SOCKET_BUFFER_BYTES: usize = 8 << 20;
/// The largest read, in bytes: a GRO batch.
const RECEIVE_BYTES: usize = 65_536;
/// The most reads of one socket before the links are polled.
const READS_IN_A_ROW: usize = 4;

/// The configuration of a relay.
#[derive(Debug, Clone)]
pub struct RelayConfig {
    /// The address that clients send to. Port 0 lets the kernel choose.
    pub listen: SocketAddr,
    /// The target address.
    pub to: SocketAddr,
    /// The link from clients to the target.
    pub forward: LinkConfig,
    /// The link from the target to clients.
    pub back: LinkConfig,
    /// The seed of the links' random draws.
    pub seed: u64,
    /// A pcapng file for the packets that arrive and leave.
    pub pcap: Option<PathBuf>,
    /// The maximum number of clients at a time; packets of further clients are dropped. Default: 64.
    pub clients_max: usize,
    /// The idle time after which a client is removed. Default: 5 minutes.
    pub idle: Duration,
}

impl RelayConfig {
    /// A relay with links without any property, seed 0 and default limits.
    pub fn new(listen: SocketAddr, to: SocketAddr) -> Self {
        Self {
            listen,
            to,
            forward: LinkConfig::default(),
            back: LinkConfig::default(),
            seed: 0,
            pcap: None,
            clients_max: 64,
            idle: Duration::from_secs(300),
        }
    }
}

/// Why a relay did not start.
#[derive(Debug, thiserror::Error)]
pub enum RelayError {
    /// The port is in use.
    #[error(
        "cannot listen on UDP {0}: another program has that port; stop it (`ss -ulpn` shows it) or choose another \
         port, or port 0 for any free one"
    )]
    PortInUse(SocketAddr),
    /// Any other error of the address.
    #[error(
        "cannot listen on UDP {address}: {source}; use an address of this machine, such as 127.0.0.1, and a port above \
         1023"
    )]
    Listen {
        /// The address.
        address: SocketAddr,
        /// The kernel's error.
        source: io::Error,
    },
    /// The capture file cannot be written.
    #[error("cannot write the capture file {}: {source}", path.display())]
    Pcap {
        /// The file.
        path: PathBuf,
        /// The kernel's error.
        source: io::Error,
    },
    /// The kernel refused to create a pipe or a thread.
    #[error("cannot start the relay: {0}")]
    System(#[from] io::Error),
}

/// What happened so far.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Counters {
    /// From clients to the target.
    pub forward: link::Counters,
    /// From the target to clients.
    pub back: link::Counters,
    /// Clients seen.
    pub clients: u64,
    /// Packets dropped because they came from one client too many.
    pub refused: u64,
    /// Packets that left a link and that the kernel did not accept, or whose client was removed.
    pub unsent: u64,
    /// How late packets were sent.
    pub late: Lateness,
    /// Why the capture file is incomplete.
    pub pcap_error: Option<String>,
}

/// A relay; see [`Relay::spawn`].
#[derive(Debug)]
pub struct Relay;

impl Relay {
    /// Starts a relay on its own thread. It runs until its handle is stopped or dropped.
    pub fn spawn(config: RelayConfig) -> Result<RelayHandle, RelayError> {
        let listen = Socket::bind(config.listen).map_err(|error| match error.kind() {
            io::ErrorKind::AddrInUse => RelayError::PortInUse(config.listen),
            _ => RelayError::Listen { address: config.listen, source: error },
        })?;
        let local_addr = listen.local;
        let clock = Clock::start();
        let capture = match &config.pcap {
            Some(path) => Capture::create(path, &clock)
                .map_err(|source| RelayError::Pcap { path: path.clone(), source })?,
            None => Capture::none(),
        };
        let engine = Engine {
            forward: Link::new(config.forward.clone(), config.seed, 0),
            back: Link::new(config.back.clone(), config.seed, 1),
            config,
            clock,
            listen,
            clients: BTreeMap::new(),
            counters: Counters::default(),
            capture,
            received: Vec::new(),
            last_forward: Time::ZERO,
            last_back: Time::ZERO,
        };
        let running = Running::start("relay", move |stopped, shown| engine.run(&stopped, &shown))?;
        Ok(RelayHandle { local_addr, running })
    }
}

/// A running relay. Dropping it stops it.
#[derive(Debug)]
pub struct RelayHandle {
    local_addr: SocketAddr,
    running: Running<Counters>,
}

impl RelayHandle {
    /// The address that clients send to.
    pub fn local_addr(&self) -> SocketAddr {
        self.local_addr
    }

    /// The counters so far.
    pub fn counters(&self) -> Counters {
        self.running.counters()
    }

    /// Stops the relay and waits for its thread; packets in the links are lost.
    pub fn stop(self) -> Counters {
        self.running.stop()
    }
}

/// A UDP socket with its quinn-udp state.
#[derive(Debug)]
struct Socket {
    socket: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
}

impl Socket {
    fn bind(address: SocketAddr) -> io::Result<Self> {
        let socket = UdpSocket::bind(address)?;
        let state = UdpSocketState::new((&socket).into())?;
        // Root may exceed the system's limit; others get the limit.
        let _ = rustix::net::sockopt::set_socket_recv_buffer_size_force(&socket, SOCKET_BUFFER_BYTES)
            .or_else(|_| rustix::net::sockopt::set_socket_recv_buffer_size(&socket, SOCKET_BUFFER_BYTES));
        let _ = rustix::net::sockopt::set_socket_send_buffer_size_force(&socket, SOCKET_BUFFER_BYTES)
            .or_else(|_| rustix::net::sockopt::set_socket_send_buffer_size(&socket, SOCKET_BUFFER_BYTES));
        let local = socket.local_addr()?;
        Ok(Self { socket, state, local })
    }
}

#[derive(Debug)]
struct Client {
    /// The socket towards the target.
    upstream: Socket,
    /// The local address that the client sends to.
    ours: Option<IpAddr>,
    heard: Time,
}

/// A datagram that was read and not yet passed to a link.
#[derive(Debug)]
struct Received {
    at: Time,
    from: SocketAddr,
    ours: Option<IpAddr>,
    ecn: Ecn,
    payload: Bytes,
}

#[derive(Debug)]
struct Engine {
    config: RelayConfig,
    clock: Clock,
    listen: Socket,
    clients: BTreeMap<SocketAddr, Client>,
    forward: Link,
    back: Link,
    counters: Counters,
    capture: Capture,
    received: Vec<Received>,
    /// The last input time of the forward link: time must not go back.
    last_forward: Time,
    /// The same for the back link.
    last_back: Time,
}

impl Engine {
    fn run(mut self, stopped: &PipeReader, shown: &Shown<Counters>) {
        wake_on_time();
        let mut buffers = vec![0; BATCH_SIZE * RECEIVE_BYTES];
        loop {
            let deadline = self.drain();
            self.publish(shown);
            let (ready, late) = {
                let mut fds = vec![
                    PollFd::new(stopped, PollFlags::IN),
                    PollFd::new(&self.listen.socket, PollFlags::IN),
                ];
                fds.extend(
                    self.clients.values().map(|client| PollFd::new(&client.upstream.socket, PollFlags::IN)),
                );
                let late = self.clock.wait(&mut fds, deadline);
                (fds.iter().map(|fd| !fd.revents().is_empty()).collect::<Vec<_>>(), late)
            };
            match late {
                Ok(Some(late)) => self.counters.late.add(late),
                Ok(None) => {}
                Err(error) => {
                    eprintln!("relay: waiting for packets failed: {error}");
                    break;
                }
            }
            if ready[0] {
                break;
            }
            if ready[1] {
                self.read_clients(&mut buffers);
            }
            if ready[2..].contains(&true) {
                self.read_target(&ready[2..], &mut buffers);
            }
        }
        self.capture.finish();
        self.publish(shown);
    }

    /// Sends the due packets. Returns when to call again.
    fn drain(&mut self) -> Option<Time> {
        let now = self.clock.now().max(self.last_forward).max(self.last_back);
        (self.last_forward, self.last_back) = (now, now);
        let forward = loop {
            match self.forward.poll(now) {
                Output::Send(datagram) => self.send_to_target(now, &datagram),
                Output::Event(never) => match never {},
                Output::Wait(next) => break next,
            }
        };
        let back = loop {
            match self.back.poll(now) {
                Output::Send(datagram) => self.send_to_client(now, &datagram),
                Output::Event(never) => match never {},
                Output::Wait(next) => break next,
            }
        };
        forward.into_iter().chain(back).min()
    }

    fn send_to_target(&mut self, now: Time, datagram: &Datagram) {
        let Some(client) = self.clients.get(&datagram.from) else {
            self.counters.unsent += 1;
            return;
        };
        let Engine { capture, counters, .. } = self;
        send(&client.upstream, datagram, self.config.to, None, counters);
        let from = client.upstream.local;
        capture.write(|writer| writer.write(captured(now, Direction::Out, from, self.config.to, datagram)));
    }

    fn send_to_client(&mut self, now: Time, datagram: &Datagram) {
        let Some(client) = self.clients.get(&datagram.to) else {
            self.counters.unsent += 1;
            return;
        };
        let Engine { capture, counters, .. } = self;
        send(&self.listen, datagram, datagram.to, client.ours, counters);
        let from = SocketAddr::new(client.ours.unwrap_or(self.listen.local.ip()), self.listen.local.port());
        capture.write(|writer| writer.write(captured(now, Direction::Out, from, datagram.to, datagram)));
    }

    fn read_clients(&mut self, buffers: &mut [u8]) {
        let mut received = std::mem::take(&mut self.received);
        read(&self.listen, &self.clock, buffers, &mut received);
        for Received { at, from, ours, ecn, payload } in received.drain(..) {
            let at = at.min(self.clock.now()).max(self.last_forward);
            self.last_forward = at;
            if !self.admit(at, from, ours) {
                self.counters.refused += 1;
                continue;
            }
            let datagram = Datagram { from, to: self.config.to, ecn, payload };
            let to = SocketAddr::new(ours.unwrap_or(self.listen.local.ip()), self.listen.local.port());
            self.capture.write(|writer| writer.write(captured(at, Direction::In, from, to, &datagram)));
            self.forward.handle(at, datagram);
        }
        self.received = received;
    }

    fn read_target(&mut self, ready: &[bool], buffers: &mut [u8]) {
        let mut received = std::mem::take(&mut self.received);
        for (client, _) in self.clients.iter().zip(ready).filter(|(_, ready)| **ready) {
            let (address, client) = client;
            read(&client.upstream, &self.clock, buffers, &mut received);
            for Received { at, from, ecn, payload, .. } in received.drain(..) {
                if !same_address(from, self.config.to) {
                    continue; // not from the target
                }
                let at = at.min(self.clock.now()).max(self.last_back);
                self.last_back = at;
                let datagram = Datagram { from, to: *address, ecn, payload };
                let to = client.upstream.local;
                self.capture.write(|writer| writer.write(captured(at, Direction::In, from, to, &datagram)));
                self.back.handle(at, datagram);
            }
        }
        self.received = received;
    }

    /// Whether there is room for this client; removes idle clients if necessary.
    fn admit(&mut self, now: Time, from: SocketAddr, ours: Option<IpAddr>) -> bool {
        if let Some(client) = self.clients.get_mut(&from) {
            client.heard = now;
            client.ours = ours;
            return true;
        }
        if self.clients.len() >= self.config.clients_max {
            let idle = self.config.idle;
            self.clients.retain(|_, client| now.since(client.heard) < idle);
            if self.clients.len() >= self.config.clients_max {
                return false;
            }
        }
        let Ok(upstream) = Socket::bind(SocketAddr::new(address_towards(self.config.to), 0)) else {
            return false;
        };
        self.clients.insert(from, Client { upstream, ours, heard: now });
        self.counters.clients += 1;
        true
    }

    fn publish(&mut self, shown: &Shown<Counters>) {
        self.counters.forward = self.forward.counters();
        self.counters.back = self.back.counters();
        self.counters.pcap_error.clone_from(&self.capture.error);
        shown.show(&self.counters);
    }
}

fn read(socket: &Socket, clock: &Clock, buffers: &mut [u8], received: &mut Vec<Received>) {
    let mut slices: Vec<_> = buffers.chunks_mut(RECEIVE_BYTES).map(IoSliceMut::new).collect();
    let mut metas = [RecvMeta::default(); BATCH_SIZE];
    for _ in 0..READS_IN_A_ROW {
        // The error means either that no data is available, or that the target's port is closed, which the
        // next packet shows too.
        let Ok(count) = socket.state.recv((&socket.socket).into(), &mut slices, &mut metas) else { return };
        for (meta, slice) in metas[..count].iter().zip(&slices) {
            let at = meta.timestamp.map_or_else(|| clock.now(), |since_1970| clock.at(since_1970));
            for payload in slice[..meta.len].chunks(meta.stride.max(1)) {
                received.push(Received {
                    at,
                    from: meta.addr,
                    ours: meta.dst_ip,
                    ecn: ecn(meta.ecn),
                    payload: Bytes::copy_from_slice(payload),
                });
            }
        }
    }
}

fn send(
    socket: &Socket,
    datagram: &Datagram,
    destination: SocketAddr,
    src_ip: Option<IpAddr>,
    counters: &mut Counters,
) {
    let ecn = match datagram.ecn {
        Ecn::NotEct => None,
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    };
    let transmit = Transmit { destination, ecn, contents: &datagram.payload, segment_size: None, src_ip };
    // The error of an earlier packet (port unreachable) is reported by a later send, which then sends
    // nothing: retry once.
    let attempt = || socket.state.try_send((&socket.socket).into(), &transmit);
    if attempt().or_else(|_| attempt()).is_err() {
        counters.unsent += 1;
    }
}

fn ecn(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

fn captured(
    at: Time,
    direction: Direction,
    from: SocketAddr,
    to: SocketAddr,
    datagram: &Datagram,
) -> Packet<'_> {
    Packet {
        at,
        direction,
        carrier: Carrier::Udp,
        from,
        to,
        ecn: datagram.ecn,
        payload: &datagram.payload,
        segment_size: None,
        comment: "",
    }
}

/// The local address from which packets to `to` are sent.
fn address_towards(to: SocketAddr) -> IpAddr {
    let any: IpAddr = match to {
        SocketAddr::V4(_) => Ipv4Addr::UNSPECIFIED.into(),
        SocketAddr::V6(_) => Ipv6Addr::UNSPECIFIED.into(),
    };
    // Connecting a UDP socket sends nothing; it only looks up the route.
    let route =
        UdpSocket::bind((any, 0)).and_then(|socket| socket.connect(to).and_then(|()| socket.local_addr()));
    route.map_or(any, |local| local.ip())
}

fn same_address(a: SocketAddr, b: SocketAddr) -> bool {
    a.port() == b.port() && a.ip().to_canonical() == b.ip().to_canonical()
}
