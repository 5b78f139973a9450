//! Data connections over TCP (RFC 959, RFC 2428), one for each transfer. The client opens them (EPSV, PASV), or the server does
//! if the operator allows it (EPRT, PORT). If the control connection has TLS, so have they (RFC 4217): the server is the TLS
//! server, and the client must resume a session of its control connection.
//!
//! Protection against stolen and bounced connections (RFC 2577): a passive socket has a random port, waits a limited time, and
//! accepts one connection, from the address of the control connection's peer. An active connection goes only to that address;
//! the FTP session verifies this.

use std::cmp::Ordering;
use std::net::{IpAddr, SocketAddr};
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use braidftp_ftp::mapping::DataPath;
use braidftp_ftp::server::{Failure, Outcome};
use bytes::BytesMut;
use socket2::{Domain, Protocol, SockRef, Socket, Type};
use tokio::net::{TcpListener, TcpSocket, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

use super::admission::{Admission, Crowded};
use super::body::Body;
use super::sink::Intake;
use super::{Settings, random};
use crate::store::fs::BLOCK_BYTES;
use crate::tls::server::{Binding, Sender, failed};
use crate::tls::{Got, Wire};

/// Ports of the range that are tried before the transfer is refused.
const PORT_TRIES: u64 = 64;
/// The passive ports if none are configured: dynamic ports (RFC 6335 §6), above those of outgoing connections on Linux. The server
/// picks one itself, since the search of Linux for a free port (port 0) visits every connection in TIME-WAIT: after 20,000
/// transfers it takes 2 ms of CPU time.
pub(super) const DYNAMIC_PORTS: RangeInclusive<u16> = 61_000..=65_535;
/// Number and interval of checks that the control connection still exists, before a file of unknown size counts as complete.
/// When a process is killed, the system closes both its connections within a few milliseconds.
const ALIVE_LOOKS: u32 = 25;
const ALIVE_LOOK: Duration = Duration::from_millis(10);
/// TCP keep-alive: silence before the first probe, interval of probes, and unanswered probes after which the session ends.
/// Shorter than the limit for a stalled transfer, because commands may wait behind the transfer.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);
/// Time limit for the wait of a refused client where too many wait to be admitted.
const CROWDED: Duration = Duration::from_secs(1);
/// Minimum free space of a read buffer, in bytes.
const READ_BYTES: usize = 64 << 10;

/// Maximum number of a session's data connections that are finished except for the end of their TLS.
pub(crate) const ENDING_MAX: usize = 4;
/// The places that one of them takes if it brings new tickets. So at most two bring tickets at once, and the client has two left
/// when the first does: a third would leave it without a ticket for the next data connection, which would be refused.
const ENDING_WITH_TICKETS: u32 = 2;

/// Turns TCP keep-alive on, so that the system ends the connection of a vanished client.
pub(super) fn keep_alive(control: &TcpStream) {
    let (time, interval, retries) = KEEPALIVE;
    let keepalive =
        socket2::TcpKeepalive::new().with_time(time).with_interval(interval).with_retries(retries);
    let _ = SockRef::from(control).set_tcp_keepalive(&keepalive);
}

/// The data side of a session over TCP.
pub(super) struct Data {
    control: Arc<Wire>,
    local: SocketAddr,
    peer: SocketAddr,
    passive: Passive,
    /// The TLS of data connections, if any.
    tls: Option<Arc<Binding>>,
    admission: Arc<Admission>,
    ending: Arc<Semaphore>,
}

/// The socket for the next transfer. It is taken only when the connection is opened: a client that pipelines commands may
/// connect before it reads the reply, and must find a socket even if the command was refused.
type Passive = Arc<Mutex<Option<TcpListener>>>;

/// How the connection of one transfer is opened.
pub(super) struct Way {
    control: Arc<Wire>,
    peer: SocketAddr,
    to: To,
    tls: Option<Arc<Binding>>,
    admission: Arc<Admission>,
    ending: Arc<Semaphore>,
}

/// A data connection after all its bytes were given to the transport.
pub(super) struct Rest {
    wire: Wire,
    /// Whether close_notify was sent.
    said: bool,
    within: Duration,
    _place: OwnedSemaphorePermit,
}

enum To {
    Accept(Passive),
    Connect { from: IpAddr, to: SocketAddr },
    Nowhere,
}

impl Data {
    pub(super) fn new(
        control: Arc<Wire>,
        local: SocketAddr,
        peer: SocketAddr,
        admission: Arc<Admission>,
    ) -> Self {
        let ending = Arc::new(Semaphore::new(ENDING_MAX));
        Self { control, local, peer, passive: Passive::default(), tls: None, admission, ending }
    }

    /// Starts TLS on the control connection; later data connections have it too.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn begin_tls(&mut self, binding: Binding) -> std::io::Result<()> {
        binding.begin(&self.control)?;
        self.tls = Some(Arc::new(binding));
        Ok(())
    }

    /// Returns the control connection.
    pub(super) fn control(&self) -> &Wire {
        &self.control
    }

    /// Opens the socket for the next transfer. Returns the address for the reply.
    pub(super) fn listen(&mut self, settings: &Settings) -> Result<SocketAddr, Failure> {
        // Close the previous one first: it may hold the last port of the range.
        *lock(&self.passive) = None;
        let listener = bind_in(self.local.ip(), settings.passive_ports.clone()).map_err(|error| {
            tracing::warn!(%error, ports = ?settings.passive_ports, "no port for a data connection");
            Failure::CannotOpenData
        })?;
        let mut told = listener.local_addr().map_err(|_| Failure::CannotOpenData)?;
        if let (Some(address @ IpAddr::V4(_)), true) = (settings.passive_address, told.is_ipv4()) {
            told.set_ip(address);
        }
        *lock(&self.passive) = Some(listener);
        Ok(told)
    }

    pub(super) fn way(&self, path: DataPath) -> Way {
        let to = match path {
            DataPath::TcpPassive => To::Accept(self.passive.clone()),
            DataPath::TcpActive(to) => To::Connect { from: self.local.ip(), to },
            DataPath::Association { .. } | DataPath::Stream1 | DataPath::Framed { .. } => To::Nowhere,
        };
        let (control, peer, admission) = (self.control.clone(), self.peer, self.admission.clone());
        Way { control, peer, to, tls: self.tls.clone(), admission, ending: self.ending.clone() }
    }
}

fn lock(passive: &Passive) -> std::sync::MutexGuard<'_, Option<TcpListener>> {
    passive.lock().unwrap_or_else(PoisonError::into_inner)
}

fn bind_in(ip: IpAddr, ports: Option<RangeInclusive<u16>>) -> std::io::Result<TcpListener> {
    let Some(ports) = ports else {
        // The system finds one if these are taken.
        return bind_in(ip, Some(DYNAMIC_PORTS)).or_else(|_| bind(SocketAddr::new(ip, 0), 1));
    };
    let (first, count) = (*ports.start(), u64::from(*ports.end() - *ports.start()) + 1);
    let begin = random();
    let mut last = std::io::Error::from(std::io::ErrorKind::AddrInUse);
    for step in 0..count.min(PORT_TRIES) {
        let port = first + u16::try_from((begin % count + step) % count).unwrap_or(0);
        match bind(SocketAddr::new(ip, port), 1) {
            Ok(listener) => return Ok(listener),
            Err(error) => last = error,
        }
    }
    Err(last)
}

/// Opens a listening socket. Must be called within a tokio runtime.
fn bind(address: SocketAddr, backlog: i32) -> std::io::Result<TcpListener> {
    TcpListener::from_std(open(address, backlog)?)
}

/// Returns the socket that systemd passed for this address, or opens one.
pub(super) fn take_or_open(
    passed: Option<std::net::TcpListener>,
    address: SocketAddr,
) -> std::io::Result<std::net::TcpListener> {
    let Some(passed) = passed else { return open(address, 1024) };
    passed.set_nonblocking(true)?;
    Ok(passed)
}

/// Opens a listening socket, in the network namespace of the calling thread.
pub(super) fn open(address: SocketAddr, backlog: i32) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // Connections in TIME-WAIT must not block the port: a range of passive ports would be used up by as many transfers in a minute.
    // A segment of an old connection cannot enter a new one, since TIME-WAIT ends only for a larger sequence number or timestamp
    // (RFC 9293 §3.6.1, RFC 6191).
    socket.set_reuse_address(true)?;
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

impl Way {
    /// Opens the data connection, with TLS if it is protected.
    async fn open(&self, sender: Sender, settings: &Settings) -> Result<Wire, Failure> {
        let wire = Wire::data(self.connect(settings).await?);
        if let Some(tls) = &self.tls {
            let why = match timeout(settings.data_open, tls.accept(&wire, sender)).await {
                Ok(Ok(())) => return Ok(wire),
                Ok(Err(error)) => failed(&error),
                Err(_) => "the TLS handshake took too long".into(),
            };
            tracing::info!(peer = %self.peer, why, "data connection refused");
            // The failed handshake cost as much as a good one: the reply waits to be admitted like a handshake.
            let turn = timeout(settings.data_open, self.admission.turn(self.peer.ip())).await;
            if let Ok(Err(Crowded)) = turn {
                tokio::time::sleep(CROWDED).await;
            }
            return Err(Failure::DataUnprotected);
        }
        Ok(wire)
    }

    async fn connect(&self, settings: &Settings) -> Result<TcpStream, Failure> {
        let opened = match &self.to {
            To::Accept(passive) => {
                // Closed at the end of this function: the socket serves one connection.
                let Some(listener) = lock(passive).take() else { return Err(Failure::CannotOpenData) };
                timeout(settings.data_open, accept_from(&listener, self.peer.ip())).await
            }
            To::Connect { from, to } => {
                let connect = async {
                    let socket = if to.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() }?;
                    socket.bind(SocketAddr::new(*from, 0))?;
                    socket.connect(*to).await
                };
                timeout(settings.data_open, connect).await
            }
            To::Nowhere => return Err(Failure::CannotOpenData),
        };
        match opened {
            Ok(Ok(stream)) => {
                reset_when_dropped(&stream);
                Ok(stream)
            }
            Ok(Err(_)) | Err(_) => Err(Failure::CannotOpenData),
        }
    }

    /// Sends the whole body and closes the connection, except for the end of TLS ([`Rest::end`]).
    pub(super) async fn send(
        self,
        body: &mut Body,
        settings: &Settings,
    ) -> Result<(Outcome, Option<Rest>), Failure> {
        let wire = self.open(Sender::Server, settings).await?;
        let mut bytes = 0;
        while let Some(block) = body.next().await? {
            for part in block.chunks(BLOCK_BYTES) {
                let written = timeout(settings.stall, wire.write_all(part)).await;
                written.map_err(|_| Failure::DataLost)?.map_err(|_| Failure::DataLost)?;
                // A client that reads as fast as this writes never lets a write wait: the replies of other sessions have a
                // turn after each part.
                tokio::task::yield_now().await;
            }
            bytes += block.len() as u64;
        }
        end_well(&wire);
        let sent = Outcome::Sent { bytes };
        let said = match &self.tls {
            Some(tls) if tls.is_short_of_tickets() => false,
            _ => {
                let finished = timeout(settings.stall, wire.finish()).await;
                finished.map_err(|_| Failure::DataLost)?.map_err(|_| Failure::DataLost)?;
                true
            }
        };
        if self.tls.is_none() {
            return Ok((sent, None));
        }
        // Waits only if the client leaves several finished connections open.
        let places = if said { 1 } else { ENDING_WITH_TICKETS };
        let place = self.ending.acquire_many_owned(places).await.map_err(|_| Failure::DataLost)?;
        Ok((sent, Some(Rest { wire, said, within: settings.data_open, _place: place })))
    }

    /// Receives to the end of the connection. Returns an error unless that is the end of the file.
    ///
    /// # Errors
    /// [`Failure::DataLost`] also if fewer bytes came than ALLO announced, or if the control connection has ended.
    pub(super) async fn receive(self, intake: &mut Intake, settings: &Settings) -> Result<(), Failure> {
        let wire = self.open(Sender::Client, settings).await?;
        let mut buffer = BytesMut::new();
        let end = loop {
            if buffer.capacity() < READ_BYTES {
                buffer.reserve(BLOCK_BYTES);
            }
            let read = timeout(settings.stall, wire.read(&mut buffer)).await;
            match read.map_err(|_| Failure::DataLost)?.map_err(|_| Failure::DataLost)? {
                Got::Secured => {}
                Got::Bytes => intake.write(buffer.split().freeze()).await?,
                end @ (Got::End | Got::Cut) => break end,
            }
        };
        end_well(&wire);
        let told = intake.announced_size.map(|told| told.cmp(&intake.size()));
        if self.tls.is_some() {
            // A connection without close_notify may have been cut by an attacker, or its client was killed. Some clients never
            // send close_notify: their file is complete if it has the announced size.
            return match (end, told) {
                (_, Some(Ordering::Greater)) => Err(Failure::DataLost),
                (Got::Cut, None | Some(Ordering::Less)) => Err(Failure::DataLost),
                _ => {
                    // The file is complete, whether or not close_notify can be sent.
                    let _ = timeout(settings.data_open, wire.finish()).await;
                    Ok(())
                }
            };
        }
        // The system closes both connections of a killed client normally, in any order, and its file is incomplete. With an
        // announced size, the size decides; without, the control connection must outlive the data connection.
        let looks = match told {
            Some(Ordering::Greater) => return Err(Failure::DataLost),
            Some(Ordering::Equal) => 0,
            Some(Ordering::Less) | None => ALIVE_LOOKS,
        };
        for _ in 0..looks {
            if is_over(self.control.stream()) {
                return Err(Failure::DataLost);
            }
            tokio::time::sleep(ALIVE_LOOK).await;
        }
        if looks > 0 && is_over(self.control.stream()) { Err(Failure::DataLost) } else { Ok(()) }
    }
}

/// From now on, dropping the connection resets it, so that the client does not take the bytes so far for the whole file.
fn reset_when_dropped(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// From now on, dropping the connection marks the end of the file.
fn end_well(wire: &Wire) {
    let _ = SockRef::from(wire.stream()).set_linger(None);
}

impl Rest {
    /// Ends TLS on a connection whose bytes are all sent: gives the client new tickets if it is short of them, sends
    /// close_notify, and waits until the client closes.
    pub(super) async fn end(self) {
        let end = async {
            if !self.said && (self.wire.secured().await.is_err() || self.wire.finish().await.is_err()) {
                return;
            }
            self.wire.read_out().await;
        };
        let _ = timeout(self.within, end).await;
    }
}

/// Whether the peer has ended this connection and everything before was read.
fn is_over(stream: &TcpStream) -> bool {
    let mut one = [std::mem::MaybeUninit::uninit()];
    match SockRef::from(stream).peek(&mut one) {
        Ok(count) => count == 0,
        Err(e) => e.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// Accepts the first connection from the given address; closes all others.
async fn accept_from(listener: &TcpListener, peer: IpAddr) -> std::io::Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept().await?;
        if from.ip().to_canonical() == peer.to_canonical() {
            return Ok(stream);
        }
        tracing::warn!(%from, %peer, "connection to a data port from another address; closed");
        reset_when_dropped(&stream);
    }
}

#[cfg(test)]
mod tests {
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    use super::*;

    #[tokio::test]
    async fn ports_come_from_the_range_and_run_out() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let range = Some(24_090..=24_093);
        let mut open = Vec::new();
        while let Ok(listener) = bind_in(here, range.clone()) {
            open.push(listener);
        }
        let mut ports: Vec<u16> = open.iter().map(|l| l.local_addr().unwrap().port()).collect();
        ports.sort_unstable();
        assert_eq!(ports, [24_090, 24_091, 24_092, 24_093]);
    }

    #[tokio::test]
    async fn a_port_whose_connection_is_in_time_wait_is_used_again() {
        let here = IpAddr::from([127, 0, 0, 1]);
        let listener = bind_in(here, Some(24_094..=24_094)).unwrap();
        let client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        // Whoever closes first keeps TIME-WAIT.
        drop(listener.accept().await.unwrap());
        drop(listener);
        drop(client);
        bind_in(here, Some(24_094..=24_094)).unwrap();
    }

    #[tokio::test]
    async fn a_port_is_a_dynamic_one_if_none_are_configured() {
        let port = bind_in(IpAddr::from([127, 0, 0, 1]), None).unwrap().local_addr().unwrap().port();
        assert!(DYNAMIC_PORTS.contains(&port), "{port}");
    }

    #[tokio::test]
    async fn a_stranger_is_not_taken_for_the_peer() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 8).unwrap();
        let address = listener.local_addr().unwrap();
        let from = |ip: [u8; 4]| async move {
            let socket = TcpSocket::new_v4().unwrap();
            socket.bind(SocketAddr::from((ip, 0))).unwrap();
            socket.connect(address).await.unwrap()
        };
        let mut stranger = from([127, 0, 0, 2]).await;
        let peer = from([127, 0, 0, 1]).await;
        let taken = accept_from(&listener, IpAddr::from([127, 0, 0, 1])).await.unwrap();
        assert_eq!(taken.peer_addr().unwrap(), peer.local_addr().unwrap());
        assert!(stranger.read(&mut [0]).await.is_err(), "reset");
    }

    #[tokio::test]
    async fn an_ended_connection_is_known_as_such() {
        let listener = bind(SocketAddr::from(([127, 0, 0, 1], 0)), 8).unwrap();
        let mut client = TcpStream::connect(listener.local_addr().unwrap()).await.unwrap();
        let (server, _) = listener.accept().await.unwrap();
        assert!(!is_over(&server));
        client.write_all(b"x").await.unwrap();
        server.readable().await.unwrap();
        assert!(!is_over(&server), "there is something to read");
        drop(client);
        server.try_read(&mut [0; 8]).unwrap();
        server.readable().await.unwrap();
        assert!(is_over(&server));
    }
}
