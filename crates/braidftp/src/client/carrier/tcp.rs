//! Classic FTP: a TCP connection for control, another for each transfer (RFC 959 §3.2, RFC 2428); both with
//! TLS, if the session is protected (RFC 4217).
//!
//! Data connections go to the address of the control connection's peer, whatever address the server sent
//! (CVE-2020-8284), and from the address of `--path`, if one is given.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;
use std::time::Duration;

use braidftp_ftp::client::{Protection, Tag};
use bytes::{Bytes, BytesMut};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::tls::Plan;
use super::{Gauge, Note};
use crate::client::Options;
use crate::client::PathRule;
use crate::client::body::{Body, DataEnd, Pump, Sink, Source};
use crate::client::errors::lost;
use crate::exit::{Again, Error, Exit, Result};
use crate::identity::Fingerprint;
use crate::tls::client::Binding;
use crate::tls::{Got, Wire, tls_error};
use crate::url::{Scheme, Url};

/// The time limit for opening a data connection.
const OPEN: Duration = Duration::from_secs(15);
/// The time limit for the system to accept the last lines.
const GOODBYE: Duration = Duration::from_secs(1);
/// The time limit for a server to close a data connection whose bytes it has received.
const DATA_GOODBYE: Duration = Duration::from_secs(15);

/// A control connection and its data connections.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(super) pump: Pump,
    pub(super) control: mpsc::UnboundedSender<Out>,
    notes: mpsc::Sender<Note>,
    gauge: Gauge,
    /// Writes to the control connection, and closes it when all senders are dropped.
    writer: JoinHandle<()>,
    local: SocketAddr,
    /// The local address of `--path`. Without it no address is bound: choosing a port for an address before
    /// the peer is known makes the kernel search among all ports in TIME-WAIT.
    bound: Option<IpAddr>,
    peer: SocketAddr,
    plan: Plan,
    /// The server's key, once TLS is active.
    key: Option<Fingerprint>,
    /// Open and unused data connections.
    open: BTreeMap<Tag, Wire>,
    /// Data connections in use, and how to end each.
    busy: BTreeMap<Tag, oneshot::Sender<()>>,
}

/// Operations on the control connection, executed in order.
#[derive(Debug)]
pub(super) enum Out {
    Lines(Bytes),
    StartTls,
}

/// TLS of a data connection.
#[derive(Debug, Clone)]
struct Protected {
    binding: Binding,
    key: Fingerprint,
}

impl Tcp {
    pub(super) async fn connect(
        url: &Url,
        plan: Plan,
        options: &Options,
        pump: Pump,
        notes: mpsc::Sender<Note>,
        gauge: Gauge,
    ) -> Result<Self> {
        let (stream, bound) = dial(url, &options.paths).await?;
        let io = |error: std::io::Error| Error::new(Exit::Connect, format_args!("connect to {url}"), error);
        let (local, peer) = (stream.local_addr().map_err(io)?, stream.peer_addr().map_err(io)?);
        stream.set_nodelay(true).map_err(io)?;
        gauge.tcp_opened(local, peer);
        let wire = Arc::new(Wire::control(stream));
        let mut key = None;
        if let (Scheme::Ftps, Some(binding)) = (url.scheme, &plan.binding) {
            let secured = match binding.begin(&wire) {
                Ok(()) => wire.secured().await,
                Err(error) => Err(error),
            };
            secured.map_err(|error| binding.explain(&error))?;
            key = Some(binding.settle(&wire)?);
        }
        let (control, lines) = mpsc::unbounded_channel();
        let writer = tokio::spawn(write_control(wire.clone(), lines, plan.binding.clone()));
        tokio::spawn(read_control(wire, notes.clone(), pump.clone(), plan.binding.clone()));
        Ok(Self {
            pump,
            control,
            notes,
            gauge,
            writer,
            local,
            bound,
            peer,
            plan,
            key,
            open: BTreeMap::new(),
            busy: BTreeMap::new(),
        })
    }

    /// How the session is protected.
    pub(super) fn protection(&self) -> Protection {
        self.plan.wanted
    }

    /// Why the session must be protected; appended to errors about a refusal.
    pub(super) fn why_needed(&self) -> &'static str {
        self.plan.why
    }

    pub(super) fn secured(&mut self, key: Fingerprint) {
        self.key = Some(key);
    }

    /// The TLS settings of data connections, if they use TLS.
    fn protected(&self) -> Option<Protected> {
        Some(Protected { binding: self.plan.binding.clone()?, key: self.key? })
    }

    pub(super) fn open(&mut self, tag: Tag, port: u16, begins_at_once: bool) {
        let (local, bound, mut peer) = (self.local, self.bound, self.peer);
        peer.set_port(port);
        let (notes, gauge, protected) =
            (self.notes.clone(), self.gauge.clone(), self.protected().filter(|_| begins_at_once));
        tokio::spawn(async move {
            let open = async {
                let wire = Wire::data(connect_from(bound, peer).await?);
                if let Some(protected) = protected {
                    // The first TLS message is sent now and arrives before the server begins: TLS costs no
                    // round trip.
                    protected.binding.begin_data(&wire).await?;
                }
                std::io::Result::Ok(wire)
            };
            let note = match tokio::time::timeout(OPEN, open).await {
                Ok(Ok(wire)) => {
                    gauge.tcp_opened(local, peer);
                    Note::Connected(tag, wire)
                }
                Ok(Err(error)) => Note::DataFailed(tag, refused_to_open(peer, &error)),
                Err(_) => Note::DataFailed(
                    tag,
                    cannot_open(peer, &format_args!("no answer within {} s", OPEN.as_secs())),
                ),
            };
            let _ = notes.send(note).await;
        });
    }

    pub(super) fn connected(&mut self, tag: Tag, wire: Wire) {
        self.open.insert(tag, wire);
    }

    pub(super) fn listen(&self) -> Result<SocketAddr> {
        Err(Error::new(Exit::Refused, "open a data connection", "active FTP over TCP is not built")
            .hint("the server must allow EPSV or PASV"))
    }

    pub(super) fn pump_data(&mut self, tag: Tag, body: Body) {
        let Some(wire) = self.open.remove(&tag) else {
            self.hand_back(tag, body, lost("the data connection was lost"));
            return;
        };
        // A few ended tasks may remain here; they are small, and bounded by the concurrent transfers of the
        // session.
        self.busy.retain(|_, cancel| !cancel.is_closed());
        let (cancel, mut cancelled) = oneshot::channel();
        self.busy.insert(tag, cancel);
        let (notes, pump, gauge) = (self.notes.clone(), self.pump.clone(), self.gauge.clone());
        let protected = self.protected();
        tokio::spawn(async move {
            let protected = protected.as_ref();
            let mut end = DataEnd::default();
            let mut stop = pump.stop.clone();
            let (body, result) = match body {
                Body::Sink(mut sink) => {
                    let result = tokio::select! {
                        result = receive(wire, protected, &mut sink, &pump, &mut end.bytes) => result,
                        _ = &mut cancelled => Err(lost("given up")),
                        _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
                    };
                    gauge.tcp_moved(0, end.bytes);
                    (Body::Sink(sink), result)
                }
                Body::Source(mut source) => {
                    let result = tokio::select! {
                        result = send(wire, protected, &mut source, &pump, &mut end.bytes) => result,
                        _ = &mut cancelled => Err(lost("given up")),
                        _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
                    };
                    gauge.tcp_moved(end.bytes, 0);
                    source.close();
                    (Body::Source(source), result)
                }
            };
            end.error = result.err();
            let _ = notes.send(Note::DataDone(tag, body, end)).await;
        });
    }

    /// Closes the control connection once the system has accepted the last lines, which it then delivers.
    pub(super) async fn close(self) {
        drop(self.control);
        let _ = tokio::time::timeout(GOODBYE, self.writer).await;
    }

    fn hand_back(&self, tag: Tag, body: Body, error: Error) {
        let notes = self.notes.clone();
        tokio::spawn(async move {
            let end = DataEnd { error: Some(error), ..DataEnd::default() };
            let _ = notes.send(Note::DataDone(tag, body, end)).await;
        });
    }

    pub(super) fn cancel(&mut self, tag: Tag) {
        self.open.remove(&tag);
        if let Some(cancel) = self.busy.remove(&tag) {
            // The task may have ended meanwhile.
            let _ = cancel.send(());
        }
    }
}

/// Writes the engine's output until all senders are dropped; then closes the connection.
async fn write_control(wire: Arc<Wire>, mut lines: mpsc::UnboundedReceiver<Out>, tls: Option<Binding>) {
    while let Some(out) = lines.recv().await {
        let done = match (out, &tls) {
            (Out::Lines(bytes), _) => wire.write_all(&bytes).await,
            (Out::StartTls, Some(tls)) => match tls.begin(&wire) {
                Ok(()) => wire.flush().await,
                Err(error) => Err(error),
            },
            (Out::StartTls, None) => Ok(()),
        };
        // Errors are reported by the reading side.
        if done.is_err() {
            return;
        }
    }
    let _ = wire.finish().await;
}

/// Reports the input of the control connection to the engine.
async fn read_control(wire: Arc<Wire>, notes: mpsc::Sender<Note>, pump: Pump, tls: Option<Binding>) {
    let mut buffer = BytesMut::new();
    let mut stop = pump.stop.clone();
    loop {
        let read = tokio::select! {
            read = wire.read(&mut buffer) => read,
            _ = stop.wait_for(|stop| *stop) => return,
        };
        let note = match (read, &tls) {
            (Ok(Got::Bytes), _) => Note::Control(buffer.split().freeze()),
            (Ok(Got::Secured), Some(tls)) => match tls.settle(&wire) {
                Ok(key) => Note::Secured(key),
                Err(error) => Note::Fatal(error),
            },
            (Ok(Got::Cut), Some(tls)) if wire.is_handshaking() => {
                Note::Fatal(tls.explain(&std::io::ErrorKind::UnexpectedEof.into()))
            }
            (Err(error), Some(tls)) if tls_error(&error).is_some() => Note::Fatal(tls.explain(&error)),
            (Ok(Got::Secured | Got::End | Got::Cut) | Err(_), _) => Note::Closed,
        };
        let over = !matches!(note, Note::Control(_) | Note::Secured(_));
        if notes.send(note).await.is_err() || over {
            return;
        }
    }
}

async fn receive(
    wire: Wire,
    protected: Option<&Protected>,
    sink: &mut Sink,
    pump: &Pump,
    moved: &mut u64,
) -> Result<()> {
    if let Some(Protected { binding, key }) = protected {
        binding.secure(&wire, *key).await?;
    }
    let mut buffer = BytesMut::new();
    loop {
        let read = wire.read(&mut buffer).await;
        match read.map_err(|error| lost(format_args!("data connection: {error}")))? {
            Got::Secured => {}
            Got::Bytes => {
                *moved += buffer.len() as u64;
                sink.write(pump, buffer.split().freeze()).await?;
            }
            Got::End => break,
            // Even if an attacker ended it: data that is known to be complete is complete.
            Got::Cut if sink.has_all() => break,
            Got::Cut => {
                return Err(lost("the data connection ended without TLS's close_notify: it may be cut"));
            }
        }
    }
    if protected.is_some() {
        // All bytes have been received, whether or not the server receives the close.
        let _ = wire.finish().await;
    }
    Ok(())
}

async fn send(
    wire: Wire,
    protected: Option<&Protected>,
    source: &mut Source,
    pump: &Pump,
    moved: &mut u64,
) -> Result<()> {
    let failed = |error: std::io::Error| lost(format_args!("data connection: {error}"));
    source.open().await?;
    if let Some(Protected { binding, key }) = protected {
        binding.secure(&wire, *key).await?;
    }
    while let Some(block) = source.next(pump).await? {
        // In slices, so that the progress bar and the silence check see progress.
        for slice in block.chunks(64 << 10) {
            wire.write_all(slice).await.map_err(failed)?;
            *moved += slice.len() as u64;
            source.sent(pump, slice.len() as u64);
        }
    }
    wire.finish().await.map_err(failed)?;
    if protected.is_some() {
        // The server's session tickets and its close_notify are still to be read.
        let rest = async {
            let mut nowhere = BytesMut::new();
            while let Ok(Got::Bytes | Got::Secured) = wire.read(&mut nowhere).await {
                nowhere.clear();
            }
            wire.read_out().await;
        };
        let _ = tokio::time::timeout(DATA_GOODBYE, rest).await;
    }
    Ok(())
}

/// The error of a refused data port: perhaps the server has ended, and the control connection has not
/// detected it.
fn refused_to_open(peer: SocketAddr, error: &std::io::Error) -> Error {
    Error { again: Again::Worthwhile, ..cannot_open(peer, error) }
}

fn cannot_open(peer: SocketAddr, why: &dyn std::fmt::Display) -> Error {
    Error::new(Exit::Refused, format_args!("open a data connection to {peer}"), why)
        .hint("a firewall or NAT between here and the server must let its passive ports through")
}

/// The control connection, and the local address that it is bound to.
async fn dial(url: &Url, paths: &[PathRule]) -> Result<(TcpStream, Option<IpAddr>)> {
    let addresses = crate::client::resolve(url).await?;
    let mut last = None;
    for peer in addresses {
        let locals: Vec<_> = match paths.is_empty() {
            true => vec![None],
            false => paths
                .iter()
                .filter(|rule| rule.local.is_ipv4() == peer.is_ipv4())
                .filter(|rule| rule.remote.is_none_or(|remote| remote == peer.ip()))
                .map(|rule| Some(rule.local))
                .collect(),
        };
        for local in locals {
            match connect_from(local, peer).await {
                Ok(stream) => return Ok((stream, local)),
                Err(error) => last = Some((peer, error)),
            }
        }
    }
    let what = format!("connect to {url}");
    match last {
        Some((peer, error)) => Err(Error::new(Exit::Connect, what, format_args!("{peer}: {error}"))
            .hint("check that the server runs there, and the port in the URL (braidftp serve opens 2121 by default)")),
        None => Err(Error::new(Exit::Usage, what, "no --path leads to any address of the server")
            .hint("name a LOCAL address of the same family, and a REMOTE that the server has")),
    }
}

async fn connect_from(local: Option<IpAddr>, peer: SocketAddr) -> std::io::Result<TcpStream> {
    let socket = if peer.is_ipv4() { TcpSocket::new_v4()? } else { TcpSocket::new_v6()? };
    if let Some(local) = local {
        socket.bind(SocketAddr::new(local, 0))?;
    }
    socket.connect(peer).await
}
