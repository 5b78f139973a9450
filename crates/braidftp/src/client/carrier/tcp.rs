//! Classic FTP: a TCP connection for control, another for each transfer (RFC 959 §3.2, RFC 2428).
//!
//! Data connections go to the address of the control connection's peer, whatever address the server told
//! (CVE-2020-8284), and from the address that `--path` names, if one is named.

use std::collections::BTreeMap;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use braidftp_ftp::client::Tag;
use bytes::{Bytes, BytesMut};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpSocket, TcpStream};
use tokio::sync::{mpsc, oneshot};
use tokio::task::JoinHandle;

use super::{Gauge, Note};
use crate::cli::PathRule;
use crate::client::Options;
use crate::client::body::{Body, DataEnd, Pump, Sink, Source};
use crate::client::engine::lost;
use crate::exit::{Error, Exit, Result};
use crate::url::Url;

/// How long a data connection may take to open.
const OPEN: Duration = Duration::from_secs(15);
/// How long the system may take to take the last lines.
const GOODBYE: Duration = Duration::from_secs(1);
/// Bytes read at one go.
const READ_BYTES: usize = 256 << 10;

/// A control connection and its data connections.
#[derive(Debug)]
pub(crate) struct Tcp {
    pub(super) pump: Pump,
    pub(super) control: mpsc::UnboundedSender<Bytes>,
    notes: mpsc::Sender<Note>,
    gauge: Gauge,
    /// Writes the control connection, and ends it when all senders are gone.
    writer: JoinHandle<()>,
    local: SocketAddr,
    /// The local address that `--path` asks for. Without it none is bound: to choose a port for an address before the
    /// peer is known costs the kernel a search among all that linger in TIME-WAIT.
    bound: Option<IpAddr>,
    peer: SocketAddr,
    /// Open, and not used yet.
    open: BTreeMap<Tag, TcpStream>,
    /// In use, and how to end that.
    busy: BTreeMap<Tag, oneshot::Sender<()>>,
}

impl Tcp {
    pub(super) async fn connect(
        url: &Url,
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
        let (mut from, mut to) = stream.into_split();
        let (control, mut lines) = mpsc::unbounded_channel::<Bytes>();
        let writer = tokio::spawn(async move {
            while let Some(bytes) = lines.recv().await {
                // What went wrong shows at the reading end.
                if to.write_all(&bytes).await.is_err() {
                    return;
                }
            }
            let _ = to.shutdown().await;
        });
        let reader = notes.clone();
        let mut stop = pump.stop.clone();
        tokio::spawn(async move {
            let mut buffer = BytesMut::new();
            loop {
                buffer.reserve(16 << 10);
                let read = tokio::select! {
                    read = from.read_buf(&mut buffer) => read,
                    _ = stop.wait_for(|stop| *stop) => return,
                };
                let note = match read {
                    Ok(0) | Err(_) => Note::Closed,
                    Ok(_) => Note::Control(buffer.split().freeze()),
                };
                let over = matches!(note, Note::Closed);
                if reader.send(note).await.is_err() || over {
                    return;
                }
            }
        });
        Ok(Self {
            pump,
            control,
            notes,
            gauge,
            writer,
            local,
            bound,
            peer,
            open: BTreeMap::new(),
            busy: BTreeMap::new(),
        })
    }

    pub(super) fn open(&mut self, tag: Tag, port: u16) {
        let (local, bound, mut peer) = (self.local, self.bound, self.peer);
        peer.set_port(port);
        let (notes, gauge) = (self.notes.clone(), self.gauge.clone());
        tokio::spawn(async move {
            let note = match tokio::time::timeout(OPEN, connect_from(bound, peer)).await {
                Ok(Ok(stream)) => {
                    gauge.tcp_opened(local, peer);
                    Note::Connected(tag, stream)
                }
                Ok(Err(error)) => Note::DataFailed(tag, cannot_open(peer, &error)),
                Err(_) => Note::DataFailed(
                    tag,
                    cannot_open(peer, &format_args!("no answer within {} s", OPEN.as_secs())),
                ),
            };
            let _ = notes.send(note).await;
        });
    }

    pub(super) fn connected(&mut self, tag: Tag, stream: TcpStream) {
        self.open.insert(tag, stream);
    }

    pub(super) fn listen(&self) -> Result<SocketAddr> {
        Err(Error::new(Exit::Refused, "open a data connection", "active FTP over TCP is not built")
            .hint("the server must allow EPSV or PASV"))
    }

    pub(super) fn pump_data(&mut self, tag: Tag, body: Body) {
        let Some(stream) = self.open.remove(&tag) else {
            self.hand_back(tag, body, lost("the data connection is gone"));
            return;
        };
        // A few ended ones may lie here; they are small and bounded by the transfers of the session at once.
        self.busy.retain(|_, cancel| !cancel.is_closed());
        let (cancel, mut cancelled) = oneshot::channel();
        self.busy.insert(tag, cancel);
        let (notes, pump, gauge) = (self.notes.clone(), self.pump.clone(), self.gauge.clone());
        tokio::spawn(async move {
            let mut end = DataEnd::default();
            let mut stop = pump.stop.clone();
            let (body, result) = match body {
                Body::Sink(mut sink) => {
                    let result = tokio::select! {
                        result = receive(stream, &mut sink, &pump, &mut end.bytes) => result,
                        _ = &mut cancelled => Err(lost("given up")),
                        _ = stop.wait_for(|stop| *stop) => Err(lost("stopped")),
                    };
                    gauge.tcp_moved(0, end.bytes);
                    (Body::Sink(sink), result)
                }
                Body::Source(mut source) => {
                    let result = tokio::select! {
                        result = send(stream, &mut source, &pump, &mut end.bytes) => result,
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

    /// Ends the control connection when the last lines are with the system, which delivers them.
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
            // It may have ended meanwhile.
            let _ = cancel.send(());
        }
    }
}

async fn receive(mut stream: TcpStream, sink: &mut Sink, pump: &Pump, moved: &mut u64) -> Result<()> {
    let mut buffer = BytesMut::new();
    loop {
        buffer.reserve(READ_BYTES);
        let read = stream
            .read_buf(&mut buffer)
            .await
            .map_err(|error| lost(format_args!("data connection: {error}")))?;
        if read == 0 {
            return Ok(());
        }
        *moved += read as u64;
        sink.write(pump, buffer.split().freeze()).await?;
    }
}

async fn send(mut stream: TcpStream, source: &mut Source, pump: &Pump, moved: &mut u64) -> Result<()> {
    let failed = |error: std::io::Error| lost(format_args!("data connection: {error}"));
    source.open().await?;
    while let Some(block) = source.next(pump).await? {
        // In slices, so that the bar and the watch for silence see it move.
        for slice in block.chunks(64 << 10) {
            stream.write_all(slice).await.map_err(failed)?;
            *moved += slice.len() as u64;
            source.sent(pump, slice.len() as u64);
        }
    }
    stream.shutdown().await.map_err(failed)
}

fn cannot_open(peer: SocketAddr, why: &dyn std::fmt::Display) -> Error {
    Error::new(Exit::Refused, format_args!("open a data connection to {peer}"), why)
        .hint("a firewall or NAT between here and the server must let its passive ports through")
}

/// The control connection, and the local address that it was bound to.
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
