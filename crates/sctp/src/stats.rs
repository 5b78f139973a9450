//! Statistics of an association: a copy of plain numbers. Reading them changes nothing.

use std::net::SocketAddr;
use std::time::Duration;

use crate::extensions::Extensions;

/// An association at one moment, and what it did so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Where in its life it is.
    pub phase: Phase,
    /// The extensions that both sides use, once the peer is known.
    pub extensions: Option<Extensions>,
    /// Outbound streams, once negotiated; before, those wanted.
    pub outbound_streams: u16,
    /// Inbound streams, once negotiated; before, those allowed.
    pub inbound_streams: u16,
    /// The receive buffer as it is now, in bytes.
    pub receive_buffer_bytes: usize,
    /// The window that the next SACK would advertise, in bytes.
    pub a_rwnd: usize,
    /// What the peer's window has left beyond what is in flight, in bytes.
    pub peer_rwnd: usize,
    /// Bytes of messages not yet sent.
    pub queued_bytes: usize,
    /// Bytes of messages that are kept here to be sent, or sent again.
    pub buffered_bytes: usize,
    /// Bytes sent and not yet acknowledged, lost ones included, chunk headers included.
    pub outstanding_bytes: usize,
    /// Bytes received and not yet taken by `recv`.
    pub unread_bytes: usize,
    /// Whole messages accepted by `send`.
    pub messages_sent: u64,
    /// Whole messages taken by `recv`.
    pub messages_received: u64,
    /// Messages that were given up before anything of them left.
    pub abandoned_unsent: u64,
    /// Messages that were given up when some of them had left.
    pub abandoned_sent: u64,
    /// DATA chunks that came more than once.
    pub duplicates: u64,
    /// DATA chunks dropped because they did not fit a receive limit.
    pub overruns: u64,
    /// The paths, by [`PathId`](crate::PathId).
    pub paths: Vec<PathStats>,
}

/// One path at one moment, and what went over it so far.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStats {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// Whether it can be used.
    pub state: PathState,
    /// The smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// The retransmission time-out, with its back-off.
    pub rto: Duration,
    /// The congestion window, in bytes.
    pub cwnd: usize,
    /// The slow-start threshold, in bytes.
    pub ssthresh: usize,
    /// Bytes in flight, chunk headers included.
    pub flight_bytes: usize,
    /// The largest SCTP packet, in bytes.
    //= specs/rfc8899.txt#section-4.4
    //# To determine the largest data block that can be sent, a PL SHOULD
    //# provide applications with a primitive that returns the MPS, derived from
    //# the current PLPMTU.
    //= specs/rfc8899.txt#section-3
    //# To assist applications in choosing a suitable data block size, the PL is
    //# RECOMMENDED to provide a primitive that returns the MPS derived from the
    //# PLPMTU to the higher layer using the PL.
    pub mtu: usize,
    /// SCTP packets sent.
    pub packets_sent: u64,
    /// Bytes of SCTP packets sent.
    pub bytes_sent: u64,
    /// SCTP packets received.
    pub packets_received: u64,
    /// Bytes of user data received, duplicates included.
    pub bytes_received: u64,
    /// DATA chunks sent again, for whatever reason.
    pub retransmitted_chunks: u64,
    /// Times that fast recovery began.
    pub fast_retransmits: u64,
    /// Times that T3-rtx ran out.
    pub timeouts: u64,
    /// Times that a loss or a time-out turned out to be none, and the window was put back.
    pub undone: u64,
    /// Tail loss probes sent.
    pub probes: u64,
    /// Packets with data received that carried a congestion mark (ECN), duplicates included.
    pub ce_received: u64,
    /// Times that a congestion mark made the window smaller (ECN).
    pub ecn_reductions: u64,
}

/// The states of RFC 9260 §4 that an association can be in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// INIT is out.
    CookieWait,
    /// COOKIE ECHO is out.
    CookieEchoed,
    /// Data flows both ways.
    Established,
    /// Shutting down once all data is acknowledged.
    ShutdownPending,
    /// SHUTDOWN is out.
    ShutdownSent,
    /// The peer sent SHUTDOWN; what is queued still goes out.
    ShutdownReceived,
    /// SHUTDOWN ACK is out.
    ShutdownAckSent,
    /// Over.
    Closed,
}

/// Whether a path can be used (RFC 9260 §5.4, §8.2; RFC 7829 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathState {
    /// No HEARTBEAT ACK has proved yet that the peer is there.
    Unconfirmed,
    /// In use or ready for it.
    Active,
    /// Something sent by it was not answered in time: another path is used if one is active, and HEARTBEATs ask after
    /// this one (RFC 7829).
    PotentiallyFailed,
    /// More than Path.Max.Retrans time-outs in a row.
    Inactive,
    /// This side's user has taken it out of use: nothing leaves by it, and nothing is taken that comes by it.
    SetAside,
    /// One of its addresses belongs to the association no more (RFC 5061). Its number may be given to another path.
    Removed,
}
