//! Data connections over TCP (RFC 959, RFC 2428): one for each transfer, opened by the client (EPSV, PASV) or, if
//! the operator allows it, by us (EPRT, PORT). Where the control connection has TLS, they have it too (RFC 4217): this side is the
//! server of the handshake, and the session must be one of the control connection's.
//!
//! RFC 2577 and common sense: a passive socket has a random port, takes one connection, from the control peer's
//! address alone, and waits a short time; an active connection goes to the control peer's address alone (which the
//! session has seen to).

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

/// Ports of the range that are tried before the client is told that there is none.
const PORT_TRIES: u64 = 64;
/// How often, and for how long each time, the control connection is watched before a file of unknown size is taken for
/// whole. The system closes both connections of a process that was killed within a few milliseconds.
const ALIVE_LOOKS: u32 = 25;
const ALIVE_LOOK: Duration = Duration::from_millis(10);
/// After so much silence a client is probed, at which interval, and after how many probes without an answer its session ends:
/// well before a transfer that stands still does, behind which commands may wait.
const KEEPALIVE: (Duration, Duration, u32) = (Duration::from_secs(30), Duration::from_secs(10), 3);
/// The wait of a client whose data connection was refused where too many wait for a turn.
const CROWDED: Duration = Duration::from_secs(1);
/// Room that a read must find.
const READ_BYTES: usize = 64 << 10;

/// Data connections of a session that are over but for the end of their TLS, at most.
pub(crate) const ENDING_MAX: usize = 4;

/// Has the system end a control connection whose client is gone.
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
    /// What data connections are protected with, if they are.
    tls: Option<Arc<Binding>>,
    admission: Arc<Admission>,
    ending: Arc<Semaphore>,
}

/// The socket for the next transfer. It is taken when the connection is about to open, not before: a client that
/// sent its command ahead may be about to connect, and is to find a socket even if the command was refused.
type Passive = Arc<Mutex<Option<TcpListener>>>;

/// How one transfer gets its connection.
pub(super) struct Way {
    control: Arc<Wire>,
    peer: SocketAddr,
    to: To,
    tls: Option<Arc<Binding>>,
    admission: Arc<Admission>,
    ending: Arc<Semaphore>,
}

/// What is left of a data connection when all bytes are with the transport.
pub(super) struct Rest {
    wire: Wire,
    /// Whether TLS has said that it ends.
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

    /// Begins TLS on the control connection; data connections have it from now on.
    ///
    /// # Errors
    /// The connection is broken.
    pub(super) fn begin_tls(&mut self, binding: Binding) -> std::io::Result<()> {
        binding.begin(&self.control)?;
        self.tls = Some(Arc::new(binding));
        Ok(())
    }

    /// The control connection.
    pub(super) fn control(&self) -> &Wire {
        &self.control
    }

    /// Opens the socket for the next transfer; the address to tell the client.
    pub(super) fn listen(&mut self, settings: &Settings) -> Result<SocketAddr, Failure> {
        // The one before goes first: it may hold the last port of the range.
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
    let Some(ports) = ports else { return bind(SocketAddr::new(ip, 0), 1) };
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

/// A listening socket. Must be called within a tokio runtime.
fn bind(address: SocketAddr, backlog: i32) -> std::io::Result<TcpListener> {
    TcpListener::from_std(open(address, backlog)?)
}

/// The socket that was passed for this address, if one was, or a new one.
pub(super) fn take_or_open(
    passed: Option<std::net::TcpListener>,
    address: SocketAddr,
) -> std::io::Result<std::net::TcpListener> {
    let Some(passed) = passed else { return open(address, 1024) };
    passed.set_nonblocking(true)?;
    Ok(passed)
}

/// A listening socket; created here and now, in the network namespace of this thread.
pub(super) fn open(address: SocketAddr, backlog: i32) -> std::io::Result<std::net::TcpListener> {
    let socket = Socket::new(Domain::for_address(address), Type::STREAM, Some(Protocol::TCP))?;
    // For the well-known port; a random one with it could steal from a socket in TIME-WAIT, and needs none.
    if backlog > 1 {
        socket.set_reuse_address(true)?;
    }
    if address.is_ipv6() {
        socket.set_only_v6(true)?;
    }
    socket.set_nonblocking(true)?;
    socket.bind(&address.into())?;
    socket.listen(backlog)?;
    Ok(socket.into())
}

impl Way {
    /// The data connection, open, and protected if it is to be.
    async fn open(&self, sender: Sender, settings: &Settings) -> Result<Wire, Failure> {
        let wire = Wire::data(self.connect(settings).await?);
        if let Some(tls) = &self.tls {
            let why = match timeout(settings.data_open, tls.accept(&wire, sender)).await {
                Ok(Ok(())) => return Ok(wire),
                Ok(Err(error)) => failed(&error),
                Err(_) => "the TLS handshake took too long".into(),
            };
            tracing::info!(peer = %self.peer, why, "data connection refused");
            // It cost as much as one that is of use. The client hears of it when there is a turn.
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
                // Closed at the end of this: one connection is all it is for.
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

    /// Sends all of it, and closes, but for what [`Rest::end`] does.
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
        // Waits only for a client that leaves data connections open.
        let place = self.ending.acquire_owned().await.map_err(|_| Failure::DataLost)?;
        Ok((sent, Some(Rest { wire, said, within: settings.data_open, _place: place })))
    }

    /// Takes all that comes, to the end of the connection, and says whether that is the end of the file.
    ///
    /// # Errors
    /// [`Failure::DataLost`] also if fewer bytes came than ALLO told, or the control connection has ended.
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
            // A client that was killed sends no close_notify; nor does somebody in between who ends the connection. There are
            // clients that never send one: theirs is a file if it has the size that was told.
            return match (end, told) {
                (_, Some(Ordering::Greater)) => Err(Failure::DataLost),
                (Got::Cut, None | Some(Ordering::Less)) => Err(Failure::DataLost),
                _ => {
                    // The file is here, whatever becomes of a last word.
                    let _ = timeout(settings.data_open, wire.finish()).await;
                    Ok(())
                }
            };
        }
        // A client that was killed ends both connections in good order, as far as TCP can tell, and in any order. Its
        // file is not whole. Where the size was told, the size decides; else the control connection must outlive the
        // data connection.
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

/// From now on dropping it, for whatever reason, is a reset: the other side must not take what it has for all.
fn reset_when_dropped(stream: &TcpStream) {
    let _ = SockRef::from(stream).set_linger(Some(Duration::ZERO));
}

/// From now on dropping it is the end of the file.
fn end_well(wire: &Wire) {
    let _ = SockRef::from(wire.stream()).set_linger(None);
}

impl Rest {
    /// Ends the TLS of a connection by which all was sent: lets the client have new tickets, if it is short of them, says
    /// close_notify, and waits for the client to close.
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

/// Whether the other side has ended this connection, and all it sent before was read.
fn is_over(stream: &TcpStream) -> bool {
    let mut one = [std::mem::MaybeUninit::uninit()];
    match SockRef::from(stream).peek(&mut one) {
        Ok(count) => count == 0,
        Err(e) => e.kind() != std::io::ErrorKind::WouldBlock,
    }
}

/// The first connection from that address; others are closed.
async fn accept_from(listener: &TcpListener, peer: IpAddr) -> std::io::Result<TcpStream> {
    loop {
        let (stream, from) = listener.accept().await?;
        if from.ip().to_canonical() == peer.to_canonical() {
            return Ok(stream);
        }
        tracing::warn!(%from, %peer, "a stranger at a data port; closed");
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
