//! The sockets of an endpoint, one per local address, for either lower layer: [`Carrier::Udp`] in `udp`, or
//! [`Carrier::Ip`] in `raw`; with [`Carrier::InProcess`] there are none, but functions of the caller. The endpoint's task
//! uses this module only.
//!
//! A path's source address is that of its own socket, so a multihomed endpoint sends from the intended
//! address. Packets that wait for the kernel are queued here, with a limit; received ones are read in
//! batches, with ECN field and destination address. System errors (unreachable, too big, no route) count as
//! lost datagrams, and SCTP's timers and HEARTBEATs judge the path; no error ends the endpoint. ICMP
//! messages that the kernel kept are passed to the core.

use std::collections::VecDeque;
use std::future::{Future, poll_fn};
use std::io::{self, IoSliceMut};
use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::task::{Context, Poll};

use braidftp_base::{Datagram, Ecn};
use braidftp_sctp::{Split, Transmit};
use bytes::Buf;
use quinn_udp::{EcnCodepoint, RecvMeta, UdpSocketState};
use socket2::{Domain, Protocol, Type};
use tokio::io::Interest;
use tokio::net::UdpSocket;
use tracing::debug;

use crate::carrier::Carrier;
use crate::icmp::Notice;
use crate::in_process::InProcess;
use crate::pool::{Buffer, Pool};
#[cfg(target_os = "linux")]
use crate::several::{self, Common};
use crate::{icmp, raw, udp};

/// The requested kernel receive buffer in bytes; the system may grant less (`net.core.rmem_max`).
const RECEIVE_BUFFER_BYTES: usize = 8 << 20;

/// The requested kernel send buffer in bytes. Smaller than the receive buffer: over loopback, where the
/// kernel charges a datagram to its sender until it is read, the sender then blocks before the receiver
/// overflows.
const SEND_BUFFER_BYTES: usize = 2 << 20;

/// The maximum number of bytes queued for a blocked socket; newer packets are dropped, as a router
/// would.
const MAX_QUEUED_BYTES: usize = 2 << 20;

/// The maximum number of datagrams of a system call.
const DATAGRAMS_A_CALL: usize = 32;

/// The number of queued bytes from which a system call is worth it; fewer wait for further ones of the same turn of the task.
const CALL_BYTES: usize = 32 << 10;

/// The number of coalesced batches per receive call.
const BATCHES: usize = 8;

/// The same over protocol 132, where nothing is coalesced and each is a packet; the most that quinn-udp reads in a call.
const PACKETS: usize = 32;

/// A bound socket and its queue of packets to send.
#[derive(Debug)]
pub(crate) struct Socket {
    carrier: Carrier,
    io: UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    queue: VecDeque<Transmit>,
    queued_bytes: usize,
    /// Whether IP may fragment packets with [`Split::Unspecified`].
    usual: Split,
    /// The current setting of the socket.
    split: Split,
    /// Whether the kernel did not accept the first datagram of the queue.
    is_blocked: bool,
    /// Whether a call failed, so that the kernel may have kept an ICMP message.
    failed: bool,
}

/// A bound socket that is not registered with a runtime yet.
#[derive(Debug)]
pub(crate) struct BoundSocket {
    carrier: Carrier,
    socket: std::net::UdpSocket,
    state: UdpSocketState,
    local: SocketAddr,
    split: Split,
}

impl BoundSocket {
    /// Binds `addr`; with UDP port 0 the system chooses one.
    pub(crate) fn bind(carrier: Carrier, addr: SocketAddr) -> io::Result<Self> {
        let socket = match carrier {
            Carrier::Udp => udp::open(addr)?,
            Carrier::Ip => raw::open(addr)?,
            Carrier::InProcess => return Err(io::Error::other("no socket: use Endpoint::over")),
        };
        socket.bind(&carrier.address(addr).into())?;
        Self::set_up(carrier, socket, addr)
    }

    /// Uses a UDP socket that is already bound.
    pub(crate) fn adopt(socket: std::net::UdpSocket) -> io::Result<Self> {
        let addr = socket.local_addr()?;
        Self::set_up(Carrier::Udp, socket.into(), addr)
    }

    fn set_up(carrier: Carrier, socket: socket2::Socket, addr: SocketAddr) -> io::Result<Self> {
        socket.set_nonblocking(true)?;
        // Best effort: the kernel limits the size.
        let _ = socket.set_recv_buffer_size(RECEIVE_BUFFER_BYTES);
        let _ = socket.set_send_buffer_size(SEND_BUFFER_BYTES);
        let state = UdpSocketState::new((&socket).into())?;
        without_timestamps(&socket);
        icmp::keep(&socket, addr);
        let split = match carrier {
            Carrier::Udp | Carrier::InProcess => Split::Forbidden,
            Carrier::Ip => {
                allow(&socket, addr, Split::Allowed)?;
                Split::Allowed
            }
        };
        // The standard library and tokio treat a datagram socket of any protocol like a UDP socket.
        let socket = std::net::UdpSocket::from(socket);
        let local = carrier.address(socket.local_addr()?);
        Ok(Self { carrier, socket, state, local, split })
    }

    /// Returns the bound address; its IP may be a wildcard.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// Registers the socket with the runtime. Must be called within a tokio runtime.
    pub(crate) fn register(self) -> io::Result<Socket> {
        let Self { carrier, socket, state, local, split } = self;
        Ok(Socket {
            carrier,
            io: UdpSocket::from_std(socket)?,
            state,
            local,
            queue: VecDeque::new(),
            queued_bytes: 0,
            usual: split,
            split,
            is_blocked: false,
            failed: false,
        })
    }
}

impl Socket {
    /// Binds `addr`; with UDP port 0 the system chooses one. Must be called within a tokio runtime.
    pub(crate) fn bind(carrier: Carrier, addr: SocketAddr) -> io::Result<Self> {
        BoundSocket::bind(carrier, addr)?.register()
    }

    /// Returns the bound address; its IP may be a wildcard.
    pub(crate) fn local(&self) -> SocketAddr {
        self.local
    }

    /// How well the socket fits the source address `from`: 2 exactly, 1 as a wildcard, 0 not.
    fn fit(&self, from: SocketAddr) -> u8 {
        if self.local.port() != from.port() || self.local.is_ipv4() != from.is_ipv4() {
            0
        } else if self.local.ip() == from.ip() {
            2
        } else {
            u8::from(self.local.ip().is_unspecified())
        }
    }

    /// Whether the kernel did not accept the last datagram.
    pub(crate) fn is_blocked(&self) -> bool {
        self.is_blocked
    }

    /// Resets the runtime's readiness state of the socket: a socket with an error stays writable there
    /// forever, so that waiting for it would not wait.
    fn register_anew(&mut self) {
        let anew = self.io.as_fd().try_clone_to_owned().map(std::net::UdpSocket::from);
        match anew.and_then(UdpSocket::from_std) {
            Ok(io) => self.io = io,
            Err(error) => {
                debug!(local = %self.local, %error, "cannot register the socket again");
                let _ = self
                    .io
                    .try_io(Interest::ERROR, || io::Result::<()>::Err(io::ErrorKind::WouldBlock.into()));
            }
        }
    }

    /// How many buffers a receive call fills.
    fn buffers(&self) -> usize {
        match self.carrier {
            Carrier::Ip => PACKETS,
            Carrier::Udp | Carrier::InProcess => BATCHES,
        }
    }

    /// Receives into the first `N` buffers, as many as there are; returns how many were filled.
    fn read<const N: usize>(&mut self, buffers: &mut [Buffer], meta: &mut [RecvMeta]) -> io::Result<usize> {
        let (io, state, local) = (&self.io, &self.state, self.local);
        let mut failed = false;
        let mut slices = buffers.iter_mut().map(|buffer| IoSliceMut::new(buffer));
        let mut slices: [IoSliceMut<'_>; N] =
            std::array::from_fn(|_| slices.next().expect("as many buffers as a call fills"));
        let received = io.try_io(Interest::READABLE, || {
            state.recv(io.into(), &mut slices, meta).map_err(|error| {
                if error.kind() != io::ErrorKind::WouldBlock {
                    debug!(%local, %error, "receive failed");
                    failed = true;
                }
                // Any other error is ignored likewise: the next datagram makes the socket ready
                // again, and nothing polls it in a loop until then.
                io::ErrorKind::WouldBlock.into()
            })
        });
        self.failed |= failed;
        received
    }

    fn push(&mut self, transmit: Transmit) {
        if self.queued_bytes + transmit.payload.len() > MAX_QUEUED_BYTES {
            debug!(local = %self.local, "send queue full: datagrams dropped");
            return;
        }
        self.queued_bytes += transmit.payload.len();
        self.queue.push_back(transmit);
    }

    /// Passes queued packets to the kernel, as many as it accepts.
    fn flush(&mut self) {
        self.is_blocked = false;
        while let Some(first) = self.queue.front() {
            let split = self.split_of(first);
            if split != self.split {
                match allow(&socket2::SockRef::from(&self.io), self.local, split) {
                    Ok(()) => self.split = split,
                    Err(error) => debug!(from = %self.local, %error, "cannot set or clear DF"),
                }
            }
            let sent = match self.send_several() {
                Some(Ok(sent)) => Ok(sent),
                Some(Err(error)) if error.kind() == io::ErrorKind::WouldBlock => Err(error),
                // An error is one of the first datagram, or the kernel's report of an ICMP message about an earlier packet.
                Some(Err(_)) => {
                    self.failed = true;
                    self.send_first()
                }
                None => self.send_first(),
            };
            let Ok(sent) = sent else {
                self.is_blocked = true;
                return;
            };
            self.advance(sent);
        }
    }

    /// Removes bytes that were sent or are lost from the queue.
    fn advance(&mut self, mut bytes: usize) {
        self.queued_bytes -= bytes;
        while let Some(first) = self.queue.front_mut()
            && (bytes > 0 || first.payload.is_empty())
        {
            let part = bytes.min(first.payload.len());
            first.payload.advance(part);
            bytes -= part;
            if first.payload.is_empty() {
                self.queue.pop_front();
            }
        }
    }

    fn split_of(&self, transmit: &Transmit) -> Split {
        if transmit.split == Split::Unspecified { self.usual } else { transmit.split }
    }

    /// The source address of a packet, if the socket does not determine it.
    fn source(&self, transmit: &Transmit) -> Option<IpAddr> {
        Some(transmit.from.ip()).filter(|ip| self.local.ip().is_unspecified() && !ip.is_unspecified())
    }

    /// The maximum size of a datagram of packets of `segment` bytes.
    fn datagram_bytes(&self, segment: usize) -> usize {
        match self.carrier {
            Carrier::Udp => udp::batch(segment, self.state.max_gso_segments()),
            Carrier::Ip | Carrier::InProcess => segment,
        }
    }

    /// Sends the datagrams at the head of the queue that one system call takes, if these are several. Returns the number of bytes
    /// that the kernel accepted.
    #[cfg(target_os = "linux")]
    fn send_several(&self) -> Option<io::Result<usize>> {
        let first = self.queue.front()?;
        let segment = first.segment_size.filter(|segment| first.payload.len() > *segment);
        let offloaded = segment.filter(|segment| self.datagram_bytes(*segment) > *segment);
        let is_alike = |other: &&Transmit| {
            let is_one_packet = other.segment_size.is_none_or(|segment| other.payload.len() <= segment);
            let fits = match offloaded {
                // A datagram shorter than a segment is sent as it is.
                Some(segment) => {
                    other.segment_size == Some(segment) || is_one_packet && other.payload.len() <= segment
                }
                None => {
                    is_one_packet || other.segment_size.is_some_and(|size| self.datagram_bytes(size) == size)
                }
            };
            fits && self.source(other) == self.source(first)
                && other.ecn == first.ecn
                && self.split_of(other) == self.split_of(first)
        };
        let datagrams: Vec<_> = self
            .queue
            .iter()
            .take_while(is_alike)
            .flat_map(|transmit| {
                let size = transmit.segment_size.map_or(usize::MAX, |segment| self.datagram_bytes(segment));
                transmit.payload.chunks(size).map(|part| (transmit.to, part))
            })
            .take(DATAGRAMS_A_CALL)
            .collect();
        if datagrams.len() < 2 {
            return None;
        }
        let common = Common {
            from: self.source(first),
            ecn: to_codepoint(first.ecn),
            segment: offloaded.and_then(|segment| u16::try_from(segment).ok()),
        };
        let sent = self.io.try_io(Interest::WRITABLE, || several::send(&self.io, &common, &datagrams));
        Some(sent.map(|sent| datagrams[..sent].iter().map(|(_, part)| part.len()).sum()))
    }

    /// Other systems take one datagram a system call.
    #[cfg(not(target_os = "linux"))]
    fn send_several(&self) -> Option<io::Result<usize>> {
        None
    }

    /// Sends the first datagram of the queue. Returns the number of bytes that were sent or are lost; an error means that the
    /// kernel accepts none now.
    fn send_first(&mut self) -> io::Result<usize> {
        let Some(first) = self.queue.front().cloned() else { return Ok(0) };
        loop {
            let segment = first.segment_size.filter(|segment| first.payload.len() > *segment);
            let part = segment
                .map_or(first.payload.len(), |segment| first.payload.len().min(self.datagram_bytes(segment)));
            //= specs/rfc6951.txt#section-5.8
            //# If the implementation supports the sending and receiving of the ECN
            //# bits for the IP protocols being used by an SCTP association, the ECN
            //# bits MUST NOT be changed during sending and receiving.
            let datagram = quinn_udp::Transmit {
                destination: first.to,
                ecn: to_codepoint(first.ecn),
                contents: &first.payload[..part],
                segment_size: segment.filter(|segment| part > *segment),
                src_ip: self.source(&first),
            };
            let mut failed = false;
            let send = || self.state.try_send((&self.io).into(), &datagram);
            let outcome = self.io.try_io(Interest::WRITABLE, || match send() {
                Err(error) if error.kind() != io::ErrorKind::WouldBlock => {
                    // The kernel may report an ICMP message about an earlier packet.
                    failed = true;
                    send()
                }
                outcome => outcome,
            });
            self.failed |= failed;
            match outcome {
                Err(error) if error.kind() == io::ErrorKind::WouldBlock => return Err(error),
                // The device does not support segmentation: the state now says so, and the batch is sent packet by packet.
                Err(_)
                    if segment
                        .is_some_and(|segment| part > segment && self.datagram_bytes(segment) == segment) => {
                }
                Err(error) => {
                    debug!(from = %self.local, to = %first.to, %error, "datagram lost on sending");
                    return Ok(part);
                }
                Ok(()) => return Ok(part),
            }
        }
    }
}

/// Sets whether the kernel and routers may fragment packets larger than the path MTU.
//= specs/rfc8899.txt#section-3
//# In IPv4, a probe packet MUST be sent with the Don't
//# Fragment (DF) bit set in the IP header and without network layer
//# endpoint fragmentation.
//= specs/rfc8899.txt#section-4.5
//# A PL implementing this specification MUST suspend network layer
//# processing of outgoing packets that enforces a PMTU
//# [RFC1191][RFC8201] for each flow utilizing DPLPMTUD and instead use
//# DPLPMTUD to control the size of packets that are sent by a flow.
fn allow(_socket: &socket2::Socket, _addr: SocketAddr, _split: Split) -> io::Result<()> {
    #[cfg(target_os = "linux")]
    {
        use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
        let cut = _split == Split::Allowed;
        if _addr.is_ipv4() {
            let how = if cut { Ipv4PathMtuDiscovery::DONT } else { Ipv4PathMtuDiscovery::PROBE };
            sockopt::set_ip_mtu_discover(_socket, how)?;
        } else {
            let how = if cut { Ipv6PathMtuDiscovery::DONT } else { Ipv6PathMtuDiscovery::PROBE };
            sockopt::set_ipv6_mtu_discover(_socket, how)?;
            nix::sys::socket::setsockopt(_socket, nix::sys::socket::sockopt::Ipv6DontFrag, &!cut)?;
        }
    }
    Ok(())
}

/// The sockets of an endpoint.
#[derive(Debug)]
pub(crate) struct Sockets {
    all: Vec<Socket>,
    pool: Pool,
    buffers: Vec<Buffer>,
    /// The functions of the caller, if they carry the packets.
    in_process: Option<InProcess>,
}

impl Sockets {
    /// Creates the set of these sockets.
    pub(crate) fn new(all: Vec<Socket>) -> Self {
        let pool = Pool::default();
        let mut sockets = Self { all: Vec::new(), pool, buffers: Vec::new(), in_process: None };
        all.into_iter().for_each(|socket| sockets.add(socket));
        sockets
    }

    /// No sockets: the caller's functions carry the packets.
    pub(crate) fn over(in_process: InProcess) -> Self {
        let (pool, buffers) = (Pool::default(), Vec::new());
        Self { all: Vec::new(), pool, buffers, in_process: Some(in_process) }
    }

    /// Adds a socket.
    pub(crate) fn add(&mut self, socket: Socket) {
        while self.buffers.len() < socket.buffers() {
            self.buffers.push(self.pool.take());
        }
        self.all.push(socket);
    }

    /// Closes a socket, after what it has queued.
    pub(crate) fn remove(&mut self, local: SocketAddr) {
        self.flush();
        self.all.retain(|socket| socket.local != local);
    }

    /// Receives a batch from each readable socket; returns whether there may be more.
    pub(crate) fn receive(&mut self, into: &mut Vec<Datagram>) -> bool {
        let mut more = false;
        self.in_process.iter_mut().for_each(|carrier| carrier.receive(into));
        for socket in &mut self.all {
            let mut meta = [RecvMeta::default(); PACKETS];
            let received = match socket.carrier {
                Carrier::Ip => socket.read::<PACKETS>(&mut self.buffers, &mut meta),
                Carrier::Udp | Carrier::InProcess => socket.read::<BATCHES>(&mut self.buffers, &mut meta),
            };
            let Ok(count) = received else { continue };
            more |= count == socket.buffers();
            for (meta, buffer) in meta[..count].iter().zip(&mut self.buffers) {
                let len = meta.len.min(buffer.len());
                if len == 0 {
                    continue;
                }
                let stride = if meta.stride == 0 { len } else { meta.stride };
                let datagrams = self.pool.freeze(buffer, len, stride);
                let to = match meta.dst_ip {
                    Some(ip) if socket.local.ip().is_unspecified() => {
                        SocketAddr::new(ip, socket.local.port())
                    }
                    _ => socket.local,
                };
                let from = socket.carrier.address(without_flow(meta.addr));
                let ecn = from_codepoint(meta.ecn);
                for payload in datagrams {
                    let payload = match socket.carrier {
                        Carrier::Udp | Carrier::InProcess => Some(payload),
                        Carrier::Ip => raw::payload(socket.local, &payload),
                    };
                    match payload {
                        Some(payload) => into.push(Datagram { from, to, ecn, payload }),
                        None => debug!(%from, %to, "not a packet of SCTP"),
                    }
                }
            }
        }
        more
    }

    /// Takes the ICMP messages that the kernel kept about packets of these sockets.
    pub(crate) fn notices(&mut self, into: &mut Vec<Notice>) {
        for socket in &mut self.all {
            // The runtime reported an error, or a call failed. Otherwise this takes no system call.
            let told = std::mem::take(&mut socket.failed);
            if told || socket.io.try_io(Interest::ERROR, || Ok(())).is_ok() {
                icmp::take(&socket.io, socket.carrier, socket.local, into);
                socket.register_anew();
            }
        }
    }

    /// Waits until the kernel reports an error on a socket.
    pub(crate) async fn error(&self) {
        let mut waits: Vec<_> =
            self.all.iter().map(|socket| Box::pin(socket.io.ready(Interest::ERROR))).collect();
        poll_fn(|cx| {
            let ready = waits.iter_mut().any(|wait| wait.as_mut().poll(cx).is_ready());
            if ready { Poll::Ready(()) } else { Poll::Pending }
        })
        .await;
    }

    /// Queues a packet, or several of equal size, on the socket of its source address. They are passed to the kernel at once if
    /// a system call is worth it, otherwise by [`Self::flush`].
    pub(crate) fn send(&mut self, transmit: Transmit) {
        if let Some(carrier) = &mut self.in_process {
            carrier.send(transmit);
            return;
        }
        let best = self.all.iter_mut().max_by_key(|socket| socket.fit(transmit.from));
        match best.filter(|socket| socket.fit(transmit.from) > 0) {
            Some(socket) => {
                socket.push(transmit);
                if socket.is_blocked
                    || socket.queued_bytes >= CALL_BYTES
                    || socket.queue.len() >= DATAGRAMS_A_CALL
                {
                    socket.flush();
                }
            }
            None => {
                debug!(from = %transmit.from, to = %transmit.to, "no socket has this source address: dropped")
            }
        }
    }

    /// Passes queued packets to the kernel.
    pub(crate) fn flush(&mut self) {
        for socket in &mut self.all {
            socket.flush();
        }
    }

    /// Closes all sockets.
    pub(crate) fn close(&mut self) {
        self.all.clear();
        self.in_process = None;
    }

    /// Whether all sockets are blocked.
    pub(crate) fn all_blocked(&self) -> bool {
        !self.all.is_empty() && self.all.iter().all(Socket::is_blocked)
    }

    /// Ready once a socket is readable, or a blocked socket is writable.
    pub(crate) fn poll_ready(&self, cx: &mut Context<'_>) -> Poll<()> {
        for socket in &self.all {
            if socket.io.poll_recv_ready(cx).is_ready() {
                return Poll::Ready(());
            }
            if socket.is_blocked() && socket.io.poll_send_ready(cx).is_ready() {
                return Poll::Ready(());
            }
        }
        Poll::Pending
    }
}

/// Returns the local address from which the system would send to `peer`, if it has a route.
pub(crate) fn route_source(peer: SocketAddr) -> io::Result<IpAddr> {
    let socket = socket2::Socket::new(Domain::for_address(peer), Type::DGRAM, Some(Protocol::UDP))?;
    socket.connect(&peer.into())?; // sends nothing
    let local = socket.local_addr()?.as_socket().ok_or(io::ErrorKind::AddrNotAvailable)?;
    Ok(local.ip())
}

/// Returns the addresses of this host's interfaces, if the system provides them.
pub(crate) fn host_addresses() -> Vec<IpAddr> {
    #[cfg(target_os = "linux")]
    if let Ok(interfaces) = nix::ifaddrs::getifaddrs() {
        let addresses = interfaces.filter_map(|interface| interface.address);
        return addresses
            .filter_map(|address| {
                let v4 = address.as_sockaddr_in().map(|v4| IpAddr::V4(v4.ip()));
                v4.or_else(|| address.as_sockaddr_in6().map(|v6| IpAddr::V6(v6.ip())))
            })
            .collect();
    }
    Vec::new()
}

/// Disables the receive timestamps that quinn-udp (0.6.2, 0.6.3) enables: with them, the control
/// messages of a coalesced receive exceed its buffer, and the last one, the ECN field, is lost.
fn without_timestamps(_socket: &socket2::Socket) {
    #[cfg(target_os = "linux")]
    if let Err(error) =
        nix::sys::socket::setsockopt(_socket, nix::sys::socket::sockopt::ReceiveTimestampns, &false)
    {
        debug!(%error, "receive timestamps stay on: the ECN field of coalesced datagrams is not seen");
    }
}

/// Removes the IPv6 flow label of a packet from `addr`, so that addresses of the same peer are equal.
fn without_flow(mut addr: SocketAddr) -> SocketAddr {
    if let SocketAddr::V6(v6) = &mut addr {
        v6.set_flowinfo(0);
    }
    addr
}

fn to_codepoint(ecn: Ecn) -> Option<EcnCodepoint> {
    match ecn {
        Ecn::NotEct => None,
        Ecn::Ect1 => Some(EcnCodepoint::Ect1),
        Ecn::Ect0 => Some(EcnCodepoint::Ect0),
        Ecn::Ce => Some(EcnCodepoint::Ce),
    }
}

fn from_codepoint(codepoint: Option<EcnCodepoint>) -> Ecn {
    match codepoint {
        None => Ecn::NotEct,
        Some(EcnCodepoint::Ect1) => Ecn::Ect1,
        Some(EcnCodepoint::Ect0) => Ecn::Ect0,
        Some(EcnCodepoint::Ce) => Ecn::Ce,
    }
}

#[cfg(test)]
mod tests {
    use std::future::poll_fn;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(10);

    fn sockets(addr: &str) -> (Sockets, SocketAddr) {
        let socket = Socket::bind(Carrier::Udp, addr.parse().unwrap()).unwrap();
        let local = socket.local();
        (Sockets::new(vec![socket]), local)
    }

    fn transmit(from: SocketAddr, to: SocketAddr, len: usize, segment_size: Option<usize>) -> Transmit {
        let payload: Vec<u8> = (0..len).map(|at| (at / 100) as u8).collect();
        Transmit {
            from,
            to,
            ecn: Ecn::Ect0,
            payload: payload.into(),
            segment_size,
            split: Split::Unspecified,
        }
    }

    /// Sends what is queued and receives until `count` datagrams have arrived.
    async fn exchange(from: &mut Sockets, to: &mut Sockets, count: usize) -> Vec<Datagram> {
        let mut got = Vec::new();
        let all = async {
            while got.len() < count {
                from.flush();
                to.receive(&mut got);
                if got.len() < count {
                    let ready = poll_fn(|cx| {
                        let (one, other) = (from.poll_ready(cx), to.poll_ready(cx));
                        if one.is_ready() || other.is_ready() { Poll::Ready(()) } else { Poll::Pending }
                    });
                    ready.await;
                }
            }
        };
        tokio::time::timeout(PATIENCE, all).await.expect("datagrams are missing");
        got
    }

    //= specs/rfc6951.txt#section-5.3
    //= type=test
    //# Within the UDP header, the source port MUST be the local UDP
    //# encapsulation port number of the SCTP stack, and the destination port
    //# MUST be the remote UDP encapsulation port number maintained for the
    //# association and the destination address to which the packet is sent
    //# (see Section 5.1).
    //= specs/rfc6951.txt#section-5.8
    //= type=test
    //# If the implementation supports the sending and receiving of the ECN
    //# bits for the IP protocols being used by an SCTP association, the ECN
    //# bits MUST NOT be changed during sending and receiving.
    #[tokio::test]
    async fn a_batch_of_equal_packets_arrives_as_as_many_datagrams() {
        let ((mut one, from), (mut other, to)) = (sockets("127.0.0.1:0"), sockets("127.0.0.1:0"));
        // More than one GSO call can carry, by segments and by bytes.
        for (len, segment) in [(99_950, 1_000), (10_000, 100)] {
            let sent = transmit(from, to, len, Some(segment));
            one.send(sent.clone());
            let got = exchange(&mut one, &mut other, len.div_ceil(segment)).await;
            assert!(got.iter().all(|datagram| datagram.from == from && datagram.to == to));
            assert!(got.iter().all(|datagram| datagram.ecn == Ecn::Ect0));
            let sizes = got[..got.len() - 1].iter().map(|datagram| datagram.payload.len());
            assert!(sizes.eq(std::iter::repeat_n(segment, got.len() - 1)));
            let whole: Vec<u8> = got.iter().flat_map(|datagram| datagram.payload.to_vec()).collect();
            assert_eq!(sent.payload, whole);
        }
        assert!(!one.all_blocked());
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn batches_and_packets_of_several_sizes_leave_with_one_system_call() {
        for (bound, reached) in [("127.0.0.1:0", None), ("0.0.0.0:0", Some("127.0.0.1")), ("[::1]:0", None)] {
            let ((mut one, from), (mut other, to)) = (sockets(bound), sockets(bound));
            let at = |addr: SocketAddr| match reached {
                Some(ip) => SocketAddr::new(ip.parse().unwrap(), addr.port()),
                None => addr,
            };
            let (from, to) = (at(from), at(to));
            let sizes = [
                (3_700, Some(1_200)),
                (2_000, Some(1_200)),
                (700, None),
                (1_200, None),
                (3_600, Some(1_200)),
            ];
            one.all[0].io.writable().await.unwrap();
            let all: Vec<_> = sizes.iter().map(|(len, segment)| transmit(from, to, *len, *segment)).collect();
            all.iter().for_each(|transmit| one.send(transmit.clone()));
            // Packets that the others' call does not divide rightly.
            one.send(transmit(from, to, 2_100, Some(700)));
            let total: usize = sizes.iter().map(|(len, _)| len).sum();
            assert_eq!(one.all[0].send_several().unwrap().unwrap(), total, "{bound}");
            one.all[0].advance(total);
            let got = exchange(&mut one, &mut other, 14).await;
            let sent = all.into_iter().chain([transmit(from, to, 2_100, Some(700))]);
            let sent: Vec<_> =
                sent.flat_map(Transmit::into_datagrams).map(|datagram| datagram.payload).collect();
            assert_eq!(
                got.iter().map(|datagram| datagram.payload.clone()).collect::<Vec<_>>(),
                sent,
                "{bound}"
            );
            assert!(got.iter().all(|datagram| datagram.from == from && datagram.ecn == Ecn::Ect0));
        }
    }

    //= specs/rfc8899.txt#section-3
    //= type=test
    //# In IPv4, a probe packet MUST be sent with the Don't
    //# Fragment (DF) bit set in the IP header and without network layer
    //# endpoint fragmentation.
    //= specs/rfc8899.txt#section-4.5
    //= type=test
    //# A PL implementing this specification MUST suspend network layer
    //# processing of outgoing packets that enforces a PMTU
    //# [RFC1191][RFC8201] for each flow utilizing DPLPMTUD and instead use
    //# DPLPMTUD to control the size of packets that are sent by a flow.
    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn packets_are_sent_with_df_unless_they_may_be_fragmented() {
        use rustix::net::sockopt::{self, Ipv4PathMtuDiscovery, Ipv6PathMtuDiscovery};
        for addr in ["127.0.0.1:0", "[::1]:0"] {
            let ((mut one, from), (mut other, to)) = (sockets(addr), sockets(addr));
            let modes =
                [Split::Unspecified, Split::Allowed, Split::Unspecified, Split::Allowed, Split::Forbidden];
            for split in modes {
                one.send(Transmit { split, ..transmit(from, to, 100, None) });
                exchange(&mut one, &mut other, 1).await;
                let socket = socket2::SockRef::from(&one.all[0].io);
                let cut = split == Split::Allowed;
                if from.is_ipv4() {
                    let wanted = if cut { Ipv4PathMtuDiscovery::DONT } else { Ipv4PathMtuDiscovery::PROBE };
                    assert_eq!(sockopt::ip_mtu_discover(&*socket).unwrap(), wanted, "{split:?}");
                } else {
                    let wanted = if cut { Ipv6PathMtuDiscovery::DONT } else { Ipv6PathMtuDiscovery::PROBE };
                    assert_eq!(sockopt::ipv6_mtu_discover(&*socket).unwrap(), wanted, "{split:?}");
                }
            }
        }
    }

    #[tokio::test]
    async fn a_datagram_that_cannot_be_sent_is_lost_and_the_next_one_is_sent() {
        let ((mut one, from), (mut other, to)) = (sockets("127.0.0.1:0"), sockets("127.0.0.1:0"));
        one.send(transmit(from, to, 70_000, None)); // EMSGSIZE
        one.send(transmit(from, "255.255.255.255:9".parse().unwrap(), 10, None)); // EACCES
        one.send(transmit("127.0.0.1:1".parse().unwrap(), to, 10, None)); // no such socket
        one.send(transmit(from, to, 11, None));
        let got = exchange(&mut one, &mut other, 1).await;
        assert_eq!((got.len(), got[0].payload.len()), (1, 11));
    }

    #[cfg(target_os = "linux")]
    #[tokio::test]
    async fn a_batch_over_ip_that_cannot_be_sent_is_lost() {
        let Ok(socket) = Socket::bind(Carrier::Ip, "127.0.0.1:0".parse().unwrap()) else {
            eprintln!("LEFT OUT: raw sockets need CAP_NET_RAW");
            return;
        };
        let (local, mut one) = (socket.local(), Sockets::new(vec![socket]));
        one.all[0].io.writable().await.unwrap();
        one.send(transmit(local, local, 140_000, Some(70_000))); // EMSGSIZE
        assert!(!one.all_blocked());
    }

    #[tokio::test]
    async fn the_queue_of_a_blocked_socket_is_bounded() {
        let (mut one, from) = sockets("127.0.0.1:0");
        for _ in 0..100 {
            one.send(transmit(from, from, 60_000, None));
        }
        assert!(one.all_blocked());
        let socket = &one.all[0];
        assert!(socket.queued_bytes <= MAX_QUEUED_BYTES && socket.queued_bytes > MAX_QUEUED_BYTES - 60_000);
        assert_eq!(
            socket.queued_bytes,
            socket.queue.iter().map(|waiting| waiting.payload.len()).sum::<usize>()
        );
    }

    #[tokio::test]
    async fn a_packet_is_sent_on_the_socket_of_its_source() {
        let all = ["127.0.0.1:0", "0.0.0.0:0", "127.0.0.2:0"]
            .map(|addr| Socket::bind(Carrier::Udp, addr.parse().unwrap()).unwrap());
        let wildcard = all[1].local().port();
        let second = all[2].local();
        let mut sockets = Sockets::new(all.into());
        let peer: SocketAddr = "127.0.0.1:9".parse().unwrap();
        sockets.send(transmit(second, peer, 5, None));
        sockets.send(transmit(format!("127.0.0.3:{wildcard}").parse().unwrap(), peer, 6, None));
        let waiting: Vec<usize> = sockets.all.iter().map(|socket| socket.queued_bytes).collect();
        assert_eq!(waiting, [0, 6, 5]);
        assert!(!sockets.all_blocked());
    }

    #[tokio::test]
    async fn an_empty_datagram_is_ignored() {
        let (mut other, to) = sockets("127.0.0.1:0");
        let plain = std::net::UdpSocket::bind("127.0.0.1:0").unwrap();
        plain.send_to(&[], to).unwrap();
        plain.send_to(&[1, 2], to).unwrap();
        let (mut one, _) = sockets("127.0.0.1:0");
        let got = exchange(&mut one, &mut other, 1).await;
        assert_eq!(got[0].payload, Bytes::from_static(&[1, 2]));
    }
}
