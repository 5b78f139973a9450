//! What a user of a host sees of its transports: connections with numbered streams of messages, and little else.
//!
//! An SCTP association is one as it is.

use std::net::SocketAddr;
use std::sync::Arc;

use braidftp_base::Time;
use braidftp_ftp::mapping::ppid;
use braidftp_sctp::{
    Association, AssociationId, Config, Connect, ConnectError, Endpoint, Event, ListenError, Message, Order,
    Ppid, Reason, SendError, StreamId,
};
use bytes::{Bytes, BytesMut};

/// Bytes of a message that is short: the frames of braid are.
const SHORT_BYTES: usize = 64;

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Conn {
    /// An association.
    Sctp(AssociationId),
}

/// Something that happened to a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Happened {
    /// A peer opened it, to this port.
    Accepted { port: u16 },
    /// It is open, with so many streams in.
    Up { inbound_streams: u16 },
    /// The peer sends no more.
    PeerDone,
    /// It is over.
    Closed(Closed),
    /// There is something to read, or room to write.
    Stirred,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Closed {
    /// All that was sent either way arrived.
    InOrder,
    /// For this reason.
    Broken(String),
}

/// What came of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it is taken.
    All,
    /// There is no room: there will be word.
    Full,
    /// The connection takes no more.
    Gone,
}

/// Some of a message.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) ppid: u32,
    pub(super) payload: Vec<Bytes>,
    /// Whether the message ends here.
    pub(super) end: bool,
}

impl Piece {
    /// The payload in one.
    pub(super) fn joined(mut self) -> Bytes {
        if self.payload.len() == 1 {
            return self.payload.remove(0);
        }
        let mut whole = BytesMut::new();
        self.payload.iter().for_each(|part| whole.extend_from_slice(part));
        whole.freeze()
    }
}

/// What a host's transports did, of connections that are over.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    /// Connections that this side opened.
    pub(super) opened: u64,
    /// Connections that are not forgotten.
    live: Vec<Conn>,
    /// Retransmission time-outs.
    pub(super) timeouts: u64,
    /// Losses found by duplicate reports.
    pub(super) fast_retransmits: u64,
    /// Chunks or segments with data sent again.
    pub(super) retransmissions: u64,
}

impl Ledger {
    /// The same, with what the connections did that are not over.
    pub(super) fn with_living(&self, sctp: &Endpoint) -> Self {
        let mut sum = self.clone();
        for conn in &self.live {
            match conn {
                Conn::Sctp(id) => sctp.association(*id).into_iter().for_each(|living| sum.add(living)),
            }
        }
        sum
    }

    /// The connections that are not forgotten.
    pub(super) fn live(&self) -> &[Conn] {
        &self.live
    }

    fn add(&mut self, association: &Association) {
        for path in association.stats().paths {
            self.timeouts += path.timeouts;
            self.fast_retransmits += path.fast_retransmits;
            self.retransmissions += path.retransmitted_chunks;
        }
    }
}

/// A host's transports.
pub(super) struct Net<'a> {
    pub(super) now: Time,
    pub(super) sctp: &'a mut Endpoint,
    pub(super) ledger: &'a mut Ledger,
}

impl Net<'_> {
    /// Sends a message behind those before it on its stream.
    pub(super) fn send(&mut self, conn: Conn, stream: u16, kind: u32, payload: Bytes) -> Sent {
        let order = if kind == ppid::CREDIT { Order::Unordered } else { Order::Ordered };
        match conn {
            Conn::Sctp(id) => {
                let Some(association) = self.sctp.association_mut(id) else { return Sent::Gone };
                let message = Message { order, ..Message::new(Ppid(kind), payload) };
                match association.send(StreamId(stream), message) {
                    Ok(()) => Sent::All,
                    Err(SendError::Full) => Sent::Full,
                    Err(_) => Sent::Gone,
                }
            }
        }
    }

    /// The next of what a stream brought.
    pub(super) fn recv(&mut self, conn: Conn, stream: u16) -> Option<Piece> {
        match conn {
            Conn::Sctp(id) => {
                let piece = self.sctp.association_mut(id)?.recv(StreamId(stream))?;
                Some(Piece { ppid: piece.ppid.0, payload: piece.payload, end: piece.end })
            }
        }
    }

    /// Bytes of a stream that have not left for the first time.
    pub(super) fn unsent(&self, conn: Conn, stream: u16) -> usize {
        match conn {
            Conn::Sctp(id) => self.sctp.association(id).map_or(0, |it| it.queued_bytes(StreamId(stream))),
        }
    }

    /// The port of this side.
    pub(super) fn port(&self, conn: Conn) -> Option<u16> {
        match conn {
            Conn::Sctp(id) => self.sctp.association(id).map(|it| it.ports().0),
        }
    }

    /// Whether a short message would be taken now.
    pub(super) fn has_room(&mut self, conn: Conn) -> bool {
        match conn {
            Conn::Sctp(id) => self.sctp.association(id).is_some_and(|it| it.send_room() >= SHORT_BYTES),
        }
    }

    /// The addresses of the other side.
    pub(super) fn peers(&self, conn: Conn) -> Vec<SocketAddr> {
        let mut peers: Vec<_> = match conn {
            Conn::Sctp(id) => self
                .sctp
                .association(id)
                .into_iter()
                .flat_map(Association::paths)
                .map(|path| path.peer)
                .collect(),
        };
        let mut seen = Vec::new();
        peers.retain(|peer| {
            !seen.contains(peer) && {
                seen.push(*peer);
                true
            }
        });
        peers
    }

    /// Ends a connection once what was sent has arrived.
    pub(super) fn close(&mut self, conn: Conn) {
        match conn {
            Conn::Sctp(id) => {
                if let Some(association) = self.sctp.association_mut(id) {
                    association.shutdown();
                }
            }
        }
    }

    /// Ends a connection now.
    pub(super) fn abort(&mut self, conn: Conn) {
        match conn {
            Conn::Sctp(id) => {
                if let Some(association) = self.sctp.association_mut(id) {
                    association.abort(Bytes::from_static(b"given up"));
                }
            }
        }
    }

    /// Opens an association.
    pub(super) fn associate(&mut self, connect: Connect) -> Result<Conn, ConnectError> {
        let conn = Conn::Sctp(self.sctp.connect(self.now, connect)?);
        self.ledger.opened += 1;
        self.ledger.live.push(conn);
        Ok(conn)
    }

    /// Accepts associations on a port.
    pub(super) fn listen(&mut self, port: u16, config: &Arc<Config>) -> Result<(), ListenError> {
        self.sctp.listen(port, config.clone())
    }

    /// Accepts no more there.
    pub(super) fn unlisten(&mut self, port: u16) {
        self.sctp.unlisten(port);
    }

    /// A connection was accepted.
    pub(super) fn accepted(&mut self, conn: Conn) {
        self.ledger.live.push(conn);
    }

    /// Forgets a connection that is over.
    pub(super) fn forget(&mut self, conn: Conn) {
        self.ledger.live.retain(|live| *live != conn);
        match conn {
            Conn::Sctp(id) => {
                if let Some(association) = self.sctp.association(id) {
                    self.ledger.add(association);
                }
                self.sctp.remove(id);
            }
        }
    }
}

/// Puts an event of an association in the words used here.
pub(super) fn happened(endpoint: &Endpoint, id: AssociationId, event: &Event) -> Happened {
    match event {
        Event::Accepted => {
            let port = endpoint.association(id).map_or(0, |association| association.ports().0);
            Happened::Accepted { port }
        }
        Event::Up { inbound_streams, .. } => Happened::Up { inbound_streams: *inbound_streams },
        Event::PeerShutdown => Happened::PeerDone,
        Event::Closed(Reason::Shutdown) => Happened::Closed(Closed::InOrder),
        Event::Closed(reason) => Happened::Closed(Closed::Broken(reason.to_string())),
        _ => Happened::Stirred,
    }
}
