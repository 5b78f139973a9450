//! The transports of a host, reduced to what an FTP session needs: connections with numbered streams of
//! messages.
//!
//! An SCTP association is such a connection. A TCP connection has one stream without message boundaries;
//! a [`Bundle`] of them has several.

use std::net::SocketAddr;
use std::sync::Arc;

use braidftp_base::Time;
use braidftp_ftp::mapping::{DATA_PRIORITY, ppid};
use braidftp_sctp::{
    Association, AssociationId, Config, Connect, Endpoint, Event, Message, Order, Ppid, Reason, SendError,
    StreamId,
};
use braidftp_tcp as tcp;
use bytes::{Buf, Bytes};

use super::bundle::{self, Bundle};
use super::piece::{Piece, Sent};
use crate::host::Endpoints;

/// A connection.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Conn {
    /// An association.
    Sctp(AssociationId),
    /// A TCP connection.
    Tcp(tcp::ConnectionId),
    /// Several TCP connections that act as one.
    Bundle(usize),
}

/// An event of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum ConnEvent {
    /// A peer opened it on this port.
    Accepted { port: u16 },
    /// It is established, with this many inbound streams.
    Up { inbound_streams: u16 },
    /// The peer sends nothing more.
    PeerDone,
    /// It has ended.
    Closed(Closed),
    /// It may be readable or writable.
    Changed,
}

/// How a connection ended.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Closed {
    /// Gracefully: everything sent in either direction arrived.
    InOrder,
    /// With an error.
    Broken(String),
}

/// Totals over the closed connections of a host.
#[derive(Debug, Clone, Default)]
pub(super) struct Ledger {
    /// Connections that this side opened.
    pub(super) opened: u64,
    /// Connections that were not removed.
    live: Vec<Conn>,
    /// Retransmission time-outs.
    pub(super) timeouts: u64,
    /// Losses detected by duplicate reports.
    pub(super) fast_retransmits: u64,
    /// Chunks or segments with data that were retransmitted.
    pub(super) retransmissions: u64,
}

impl Ledger {
    /// Returns the totals including open connections.
    pub(super) fn with_living(&self, endpoints: &Endpoints) -> Self {
        let mut sum = self.clone();
        self.live.iter().for_each(|conn| sum.add(endpoints, *conn));
        sum
    }

    /// The number of open connections, without those in TIME-WAIT.
    pub(super) fn open(&self, tcp: &tcp::Endpoint) -> usize {
        let is_open = |conn: &&Conn| match conn {
            Conn::Tcp(id) => {
                tcp.connection(*id).is_some_and(|connection| connection.state() != tcp::State::TimeWait)
            }
            Conn::Sctp(_) | Conn::Bundle(_) => true,
        };
        self.live.iter().filter(is_open).count()
    }

    /// The associations that were not removed.
    pub(super) fn associations(&self) -> impl Iterator<Item = AssociationId> + '_ {
        self.live.iter().filter_map(|conn| match conn {
            Conn::Sctp(id) => Some(*id),
            Conn::Tcp(_) | Conn::Bundle(_) => None,
        })
    }

    fn add(&mut self, endpoints: &Endpoints, conn: Conn) {
        match conn {
            Conn::Sctp(id) => {
                for path in endpoints.sctp.association(id).into_iter().flat_map(|it| it.stats().paths) {
                    self.timeouts += path.timeouts;
                    self.fast_retransmits += path.fast_retransmits;
                    self.retransmissions += path.retransmitted_chunks;
                }
            }
            Conn::Tcp(id) => {
                if let Some(connection) = endpoints.tcp.connection(id) {
                    let counters = connection.stats().counters;
                    // Time-outs of SYN count with the packets that open connections.
                    self.timeouts += counters.timeouts - counters.syn_timeouts;
                    self.fast_retransmits += counters.fast_retransmits;
                    self.retransmissions += counters.retransmissions - counters.syn_timeouts;
                }
            }
            // Its connections are counted individually.
            Conn::Bundle(_) => {}
        }
    }
}

/// The transports of a host.
pub(super) struct Net<'a> {
    pub(super) now: Time,
    pub(super) endpoints: &'a mut Endpoints,
    pub(super) bundles: &'a mut Vec<Bundle>,
    pub(super) ledger: &'a mut Ledger,
}

/// The port is in use, or the connection cannot be opened.
#[derive(Debug)]
pub(super) struct Refused(pub(super) String);

impl Net<'_> {
    /// Sends a message on a stream. TCP may accept a part, which is removed from `payload`.
    pub(super) fn send(&mut self, conn: Conn, stream: u16, kind: u32, payload: &mut Bytes) -> Sent {
        let order = if kind == ppid::CREDIT { Order::Unordered } else { Order::Ordered };
        match conn {
            Conn::Sctp(id) => {
                let Some(association) = self.endpoints.sctp.association_mut(id) else { return Sent::Gone };
                let message = Message { order, ..Message::new(Ppid(kind), payload.clone()) };
                match association.send(StreamId(stream), message) {
                    Ok(()) => {
                        payload.clear();
                        Sent::All
                    }
                    Err(SendError::Full | SendError::NotProtected) => Sent::Full,
                    Err(_) => Sent::Gone,
                }
            }
            Conn::Tcp(id) => {
                let Some(connection) = self.endpoints.tcp.connection_mut(id) else { return Sent::Gone };
                let taken = connection.send(payload.clone());
                payload.advance(taken);
                match (payload.is_empty(), connection.state()) {
                    (true, _) => Sent::All,
                    (false, tcp::State::Closed | tcp::State::TimeWait) => Sent::Gone,
                    (false, _) => Sent::Full,
                }
            }
            Conn::Bundle(at) => self.bundles[at].send(&mut self.endpoints.tcp, stream, kind, payload),
        }
    }

    /// Returns the next piece received on a stream.
    pub(super) fn recv(&mut self, conn: Conn, stream: u16) -> Option<Piece> {
        match conn {
            Conn::Sctp(id) => {
                let piece = self.endpoints.sctp.association_mut(id)?.recv(StreamId(stream))?;
                Some(Piece { ppid: piece.ppid.0, payload: piece.payload, end: piece.end })
            }
            Conn::Tcp(id) => {
                let bytes = self.endpoints.tcp.connection_mut(id)?.recv()?;
                Some(Piece { ppid: ppid::PLAIN, payload: vec![bytes], end: false })
            }
            Conn::Bundle(at) => self.bundles[at].recv(&mut self.endpoints.tcp, stream),
        }
    }

    /// Whether data sent on another stream may still overtake data sent on this one.
    pub(super) fn waits(&self, conn: Conn, stream: u16) -> bool {
        match conn {
            Conn::Sctp(id) => {
                let association = self.endpoints.sctp.association(id);
                association.is_some_and(|association| association.queued_bytes(StreamId(stream)) > 0)
            }
            // Data that overtakes it there uses its own window.
            Conn::Tcp(_) | Conn::Bundle(_) => false,
        }
    }

    /// The receive buffer in bytes that data streams and the control stream share.
    pub(super) fn receive_buffer_bytes(&self, conn: Conn) -> usize {
        match conn {
            Conn::Sctp(id) => {
                self.endpoints.sctp.association(id).map_or(0, Association::receive_buffer_bytes)
            }
            Conn::Tcp(_) => 0,
            Conn::Bundle(at) => self.bundles[at].receive_buffer_bytes(),
        }
    }

    /// The local port.
    pub(super) fn port(&self, conn: Conn) -> Option<u16> {
        match conn {
            Conn::Sctp(id) => self.endpoints.sctp.association(id).map(|it| it.ports().0),
            Conn::Tcp(id) => self.endpoints.tcp.connection(id).map(|it| it.local().port()),
            Conn::Bundle(_) => Some(bundle::PORT),
        }
    }

    /// The addresses of the peer.
    pub(super) fn peers(&self, conn: Conn) -> Vec<SocketAddr> {
        let Conn::Sctp(id) = conn else { return Vec::new() };
        let mut peers = Vec::new();
        for path in self.endpoints.sctp.association(id).into_iter().flat_map(Association::paths) {
            if !peers.contains(&path.peer) {
                peers.push(path.peer);
            }
        }
        peers
    }

    /// The addresses of both ends of a TCP connection.
    pub(super) fn ends(&self, conn: Conn) -> Option<(SocketAddr, SocketAddr)> {
        let Conn::Tcp(id) = conn else { return None };
        self.endpoints.tcp.connection(id).map(|connection| (connection.local(), connection.peer()))
    }

    /// Closes a connection once everything sent has arrived.
    pub(super) fn close(&mut self, conn: Conn) {
        match conn {
            Conn::Sctp(id) => {
                if let Some(association) = self.endpoints.sctp.association_mut(id) {
                    association.shutdown();
                }
            }
            Conn::Tcp(id) => {
                if let Some(connection) = self.endpoints.tcp.connection_mut(id) {
                    connection.close();
                }
            }
            Conn::Bundle(at) => {
                let ids: Vec<_> = self.bundles[at].ids().collect();
                ids.into_iter().for_each(|id| self.close(Conn::Tcp(id)));
            }
        }
    }

    /// Aborts a connection.
    pub(super) fn abort(&mut self, conn: Conn) {
        match conn {
            Conn::Sctp(id) => {
                if let Some(association) = self.endpoints.sctp.association_mut(id) {
                    association.abort(Bytes::from_static(b"given up"));
                }
            }
            Conn::Tcp(id) => {
                if let Some(connection) = self.endpoints.tcp.connection_mut(id) {
                    connection.abort();
                }
            }
            Conn::Bundle(at) => {
                let ids: Vec<_> = self.bundles[at].ids().collect();
                ids.into_iter().for_each(|id| self.abort(Conn::Tcp(id)));
            }
        }
    }

    /// Accepts associations on a port.
    pub(super) fn listen(&mut self, port: u16, config: &Arc<Config>) -> Result<(), Refused> {
        self.endpoints.sctp.listen(port, config.clone()).map_err(|error| Refused(error.to_string()))
    }

    /// Accepts TCP connections on a port.
    pub(super) fn listen_tcp(&mut self, port: u16, config: &Arc<tcp::Config>) -> Result<(), Refused> {
        self.endpoints.tcp.listen(port, config.clone()).map_err(|error| Refused(error.to_string()))
    }

    /// Stops accepting connections.
    pub(super) fn unlisten(&mut self, port: u16) {
        self.endpoints.sctp.unlisten(port);
        self.endpoints.tcp.unlisten(port);
    }

    /// Opens an association.
    pub(super) fn associate(&mut self, connect: Connect) -> Result<Conn, Refused> {
        let id =
            self.endpoints.sctp.connect(self.now, connect).map_err(|error| Refused(error.to_string()))?;
        Ok(self.opened(Conn::Sctp(id)))
    }

    /// Opens a TCP connection.
    pub(super) fn connect(
        &mut self,
        from: SocketAddr,
        to: SocketAddr,
        config: &Arc<tcp::Config>,
    ) -> Result<Conn, Refused> {
        let id = self.endpoints.tcp.connect(self.now, from, to, config.clone());
        Ok(self.opened(Conn::Tcp(id.map_err(|error| Refused(error.to_string()))?)))
    }

    /// Opens the connections of a bundle.
    pub(super) fn open_bundle(
        &mut self,
        (connections, streams): (usize, usize),
        from: SocketAddr,
        to: SocketAddr,
        config: &Arc<tcp::Config>,
    ) -> Result<Conn, Refused> {
        let mut bundle = Bundle::new(connections, streams);
        for line in 0..connections {
            let to = SocketAddr::new(to.ip(), bundle::PORT + line as u16);
            if let Conn::Tcp(id) = self.connect(from, to, config)? {
                bundle.join(line, id);
            }
        }
        self.bundles.push(bundle);
        Ok(Conn::Bundle(self.bundles.len() - 1))
    }

    fn opened(&mut self, conn: Conn) -> Conn {
        self.ledger.opened += 1;
        self.ledger.live.push(conn);
        conn
    }

    /// A connection was accepted.
    pub(super) fn accepted(&mut self, conn: Conn) {
        if !self.ledger.live.contains(&conn) {
            self.ledger.live.push(conn);
        }
    }

    /// Removes a closed connection.
    pub(super) fn forget(&mut self, conn: Conn) {
        self.ledger.live.retain(|live| *live != conn);
        self.ledger.add(self.endpoints, conn);
        match conn {
            Conn::Sctp(id) => self.endpoints.sctp.remove(id),
            Conn::Tcp(id) => self.endpoints.tcp.remove(id),
            Conn::Bundle(at) => {
                let ids: Vec<_> = self.bundles[at].ids().collect();
                ids.into_iter().for_each(|id| self.forget(Conn::Tcp(id)));
            }
        }
    }

    /// Translates an event of a TCP connection into one of it, or of its bundle.
    pub(super) fn conn_event(&mut self, id: tcp::ConnectionId, event: tcp::Event) -> (Conn, ConnEvent) {
        let conn = Conn::Tcp(id);
        let conn_event = match event {
            tcp::Event::Accepted { port } => ConnEvent::Accepted { port },
            tcp::Event::Up => ConnEvent::Up { inbound_streams: 0 },
            tcp::Event::PeerClosed => ConnEvent::PeerDone,
            tcp::Event::Closed(tcp::Reason::Finished) => ConnEvent::Closed(Closed::InOrder),
            tcp::Event::Closed(reason) => ConnEvent::Closed(Closed::Broken(reason.to_string())),
            tcp::Event::Readable | tcp::Event::Writable => ConnEvent::Changed,
        };
        if let ConnEvent::Accepted { port } = conn_event
            && port >= bundle::PORT
            && let Some(at) = self.bundles.iter().position(|bundle| !bundle.told_up)
        {
            self.bundles[at].join(usize::from(port - bundle::PORT), id);
            self.accepted(conn);
            return (Conn::Bundle(at), ConnEvent::Changed);
        }
        let Some(at) = self.bundles.iter().position(|bundle| bundle.has(id)) else {
            return (conn, conn_event);
        };
        let bundle = &mut self.bundles[at];
        bundle.flush(&mut self.endpoints.tcp);
        let conn_event = match conn_event {
            ConnEvent::Up { .. } if bundle.up(id) && !bundle.told_up => {
                bundle.told_up = true;
                ConnEvent::Up { inbound_streams: bundle.streams() as u16 }
            }
            ConnEvent::Up { .. } => ConnEvent::Changed,
            other => other,
        };
        (Conn::Bundle(at), conn_event)
    }
}

/// Lets the lines and the credit of a braid association be sent before data; the profiles of the papers have no priorities.
pub(super) fn send_lines_first(association: &mut Association, outbound_streams: u16) {
    for stream in 1..outbound_streams {
        let _ = association.set_stream_value(StreamId(stream), DATA_PRIORITY);
    }
}

/// Translates an event of an association.
pub(super) fn conn_event(endpoint: &Endpoint, id: AssociationId, event: &Event) -> ConnEvent {
    match event {
        Event::Accepted => {
            let port = endpoint.association(id).map_or(0, |association| association.ports().0);
            ConnEvent::Accepted { port }
        }
        Event::Up { inbound_streams, .. } => ConnEvent::Up { inbound_streams: *inbound_streams },
        Event::PeerShutdown => ConnEvent::PeerDone,
        Event::Closed(Reason::Shutdown) => ConnEvent::Closed(Closed::InOrder),
        Event::Closed(reason) => ConnEvent::Closed(Closed::Broken(reason.to_string())),
        _ => ConnEvent::Changed,
    }
}
