//! Several TCP connections that replace an association with streams, for variants that FTP over TCP
//! lacks: pipelining over one connection or two, and parallel connections (P2 §2.2). A message becomes a
//! marker and its bytes, which is the application overhead that the paper attributes to TCP.
//!
//! The k-th connection goes to the k-th of the server's [`PORT`]s and carries stream k; a single one
//! carries all streams.

use std::collections::VecDeque;

use braidftp_ftp::mapping::ppid;
use braidftp_tcp as tcp;
use bytes::{Buf, BufMut, Bytes, BytesMut};

use super::piece::{Piece, Sent};

/// The port of the first connection.
pub(super) const PORT: u16 = 2_100;
/// The length of a marker in bytes: the stream, the kind, and the length of the message.
const MARKER: usize = 10;
/// The maximum number of unread bytes per stream.
const STREAM_BUFFER_BYTES: usize = 1 << 20;
/// The maximum length of a message.
const MESSAGE_MAX: usize = 16 << 20;

/// Several connections that act as one.
#[derive(Debug)]
pub(super) struct Bundle {
    lines: Vec<Line>,
    /// Received pieces by stream.
    arrived: Vec<VecDeque<Piece>>,
    /// Whether its user was notified that it is established.
    pub(super) told_up: bool,
}

/// One connection of a bundle.
#[derive(Debug)]
struct Line {
    id: Option<tcp::ConnectionId>,
    is_up: bool,
    /// Data for which the connection has no room.
    unsent: VecDeque<Bytes>,
    incoming: BytesMut,
    /// The message being received: stream, kind, and the bytes still missing.
    open: Option<(u16, u32, usize)>,
}

impl Bundle {
    /// Creates a bundle of this many connections and streams, with no connection open.
    pub(super) fn new(connections: usize, streams: usize) -> Self {
        let line = || Line {
            id: None,
            is_up: false,
            unsent: VecDeque::new(),
            incoming: BytesMut::new(),
            open: None,
        };
        Self {
            lines: (0..connections).map(|_| line()).collect(),
            arrived: (0..streams).map(|_| VecDeque::new()).collect(),
            told_up: false,
        }
    }

    /// The maximum number of unread bytes of all streams.
    pub(super) fn receive_buffer_bytes(&self) -> usize {
        self.arrived.len() * STREAM_BUFFER_BYTES
    }

    /// One of its connections was opened.
    pub(super) fn join(&mut self, line: usize, id: tcp::ConnectionId) {
        if let Some(line) = self.lines.get_mut(line) {
            line.id = Some(id);
        }
    }

    /// Whether this is one of its connections.
    pub(super) fn has(&self, id: tcp::ConnectionId) -> bool {
        self.lines.iter().any(|line| line.id == Some(id))
    }

    /// One of its connections is established. Returns whether all are.
    pub(super) fn up(&mut self, id: tcp::ConnectionId) -> bool {
        for line in self.lines.iter_mut().filter(|line| line.id == Some(id)) {
            line.is_up = true;
        }
        self.lines.iter().all(|line| line.is_up)
    }

    /// Its connections.
    pub(super) fn ids(&self) -> impl Iterator<Item = tcp::ConnectionId> + '_ {
        self.lines.iter().filter_map(|line| line.id)
    }

    /// The number of streams.
    pub(super) fn streams(&self) -> usize {
        self.arrived.len()
    }

    fn line(&mut self, stream: u16) -> &mut Line {
        let last = self.lines.len() - 1;
        &mut self.lines[usize::from(stream).min(last)]
    }

    /// Sends a complete message, or nothing.
    pub(super) fn send(
        &mut self,
        endpoint: &mut tcp::Endpoint,
        stream: u16,
        kind: u32,
        payload: &mut Bytes,
    ) -> Sent {
        let line = self.line(stream);
        match line.flush(endpoint) {
            Sent::All => {}
            other => return other,
        }
        let mut marker = BytesMut::with_capacity(MARKER);
        marker.put_u16(stream);
        marker.put_u32(kind);
        marker.put_u32(payload.len() as u32);
        line.unsent.push_back(marker.freeze());
        line.unsent.push_back(std::mem::take(payload));
        match line.flush(endpoint) {
            Sent::Gone => Sent::Gone,
            Sent::All | Sent::Full => Sent::All,
        }
    }

    /// Sends data that waited for room.
    pub(super) fn flush(&mut self, endpoint: &mut tcp::Endpoint) {
        for line in &mut self.lines {
            line.flush(endpoint);
        }
    }

    /// Returns the next piece received on a stream. Connections of other streams are not read, so that
    /// they fill up.
    pub(super) fn recv(&mut self, endpoint: &mut tcp::Endpoint, stream: u16) -> Option<Piece> {
        let at = usize::from(stream);
        let line = self.lines.len().min(at + 1) - 1;
        while self.arrived.get(at)?.is_empty() {
            let connection = endpoint.connection_mut(self.lines[line].id?)?;
            let bytes = connection.recv()?;
            self.take(line, bytes);
        }
        self.arrived[at].pop_front()
    }

    fn take(&mut self, line: usize, bytes: Bytes) {
        let line = &mut self.lines[line];
        let mut bytes = bytes;
        while !bytes.is_empty() {
            match &mut line.open {
                // Markers, and messages that are needed complete, are collected.
                None => {
                    let part = bytes.split_to(bytes.len().min(MARKER - line.incoming.len()));
                    line.incoming.extend_from_slice(&part);
                    if line.incoming.len() == MARKER {
                        let (stream, kind) = (line.incoming.get_u16(), line.incoming.get_u32());
                        let length = (line.incoming.get_u32() as usize).min(MESSAGE_MAX);
                        line.open = Some((stream, kind, length));
                    }
                }
                Some((stream, kind, left)) => {
                    let part = bytes.split_to(bytes.len().min(*left));
                    *left -= part.len();
                    let (end, kind) = (*left == 0, *kind);
                    let arrived = self.arrived.get_mut(usize::from(*stream));
                    let piece = match kind {
                        ppid::PLAIN | ppid::BYTES | ppid::WHOLE | ppid::FIRST | ppid::LAST => Some(part),
                        _ => {
                            line.incoming.extend_from_slice(&part);
                            end.then(|| line.incoming.split().freeze())
                        }
                    };
                    if let (Some(arrived), Some(payload)) = (arrived, piece) {
                        arrived.push_back(Piece { ppid: kind, payload: vec![payload], end });
                    }
                    if end {
                        line.open = None;
                    }
                }
            }
        }
    }
}

impl Line {
    fn flush(&mut self, endpoint: &mut tcp::Endpoint) -> Sent {
        let Some(connection) = self.id.and_then(|id| endpoint.connection_mut(id)) else { return Sent::Gone };
        while let Some(first) = self.unsent.front_mut() {
            let taken = connection.send(first.clone());
            first.advance(taken);
            if !first.is_empty() {
                return Sent::Full;
            }
            self.unsent.pop_front();
        }
        Sent::All
    }
}
