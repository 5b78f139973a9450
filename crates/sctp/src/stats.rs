//! Statistics of an association: a copy of plain numbers. Reading them changes nothing.

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use crate::extensions::Extensions;

/// The state of an association at one time, and its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// The state of the association.
    pub phase: Phase,
    /// The extensions that both sides use, once the peer is known.
    pub extensions: Option<Extensions>,
    /// Outbound streams; before the end of the handshake, the number requested.
    pub outbound_streams: u16,
    /// Inbound streams; before the end of the handshake, the number permitted.
    pub inbound_streams: u16,
    /// The current size of the receive buffer in bytes.
    pub receive_buffer_bytes: usize,
    /// The window that the next SACK would advertise, in bytes.
    pub a_rwnd: usize,
    /// The peer's window beyond the bytes in flight, in bytes.
    pub peer_rwnd: usize,
    /// Bytes of messages not yet sent.
    pub queued_bytes: usize,
    /// Bytes of messages held to be sent or retransmitted.
    pub buffered_bytes: usize,
    /// Bytes sent and not yet acknowledged, lost ones included, chunk headers included.
    pub outstanding_bytes: usize,
    /// Bytes received and not yet taken by `recv`.
    pub unread_bytes: usize,
    /// Of these, bytes of messages that are next in their streams and whose end has not arrived, up to the first gap.
    pub partial_bytes: usize,
    /// Whole messages accepted by `send`.
    pub messages_sent: u64,
    /// Whole messages taken by `recv`.
    pub messages_received: u64,
    /// Messages abandoned before any part was sent.
    pub abandoned_unsent: u64,
    /// Messages abandoned after a part was sent.
    pub abandoned_sent: u64,
    /// Duplicate DATA chunks.
    pub duplicates: u64,
    /// DATA chunks dropped because of a receive limit.
    pub overruns: u64,
    /// Why data waits, if that is known and no congestion window is the reason.
    pub stall: Option<Stall>,
    /// The paths, by [`PathId`](crate::PathId).
    pub paths: Vec<PathStats>,
}

/// A known reason why data waits that losses and congestion windows do not explain.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Stall {
    /// The peer's receive window has no room for the next chunk, and nothing is in flight.
    PeerWindow,
    /// No path is verified and in use.
    NoPath,
    /// Messages wait to be read, and the receive buffer has no room for another packet.
    Unread,
}

impl fmt::Display for Stall {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::PeerWindow => {
                "the peer's receive window is closed: it does not read, or it cannot reassemble what it has \
                 (Linux numbers the fragments of I-DATA from 0 twice: do without interleaving)"
            }
            Self::NoPath => "no path to the peer is verified and in use",
            Self::Unread => "the receive buffer is full: read the streams that have messages",
        })
    }
}

/// The state of a path at one time, and its counters.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PathStats {
    /// The local address.
    pub local: SocketAddr,
    /// The peer's address.
    pub peer: SocketAddr,
    /// The state of the path.
    pub state: PathState,
    /// The smoothed round-trip time, once measured.
    pub srtt: Option<Duration>,
    /// The shortest round-trip time measured so far.
    pub min_rtt: Option<Duration>,
    /// The retransmission time-out including back-off.
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
    /// DATA chunks retransmitted for any reason.
    pub retransmitted_chunks: u64,
    /// Times that fast recovery began.
    pub fast_retransmits: u64,
    /// Expiries of T3-rtx.
    pub timeouts: u64,
    /// Losses and time-outs that were spurious, so that the window was restored.
    pub undone: u64,
    /// Tail loss probes sent.
    pub probes: u64,
    /// Packets with data received that carried a congestion mark (ECN), duplicates included.
    pub ce_received: u64,
    /// Window reductions because of a congestion mark (ECN).
    pub ecn_reductions: u64,
}

/// The states of an association in RFC 9260 §4.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Phase {
    /// INIT was sent.
    CookieWait,
    /// COOKIE ECHO was sent.
    CookieEchoed,
    /// Data is transferred in both directions.
    Established,
    /// A shutdown waits until all data is acknowledged.
    ShutdownPending,
    /// SHUTDOWN was sent.
    ShutdownSent,
    /// The peer sent SHUTDOWN; queued data is still sent.
    ShutdownReceived,
    /// SHUTDOWN ACK was sent.
    ShutdownAckSent,
    /// The association has ended.
    Closed,
}

/// The states of a path (RFC 9260 §5.4, §8.2; RFC 7829 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum PathState {
    /// No HEARTBEAT was acknowledged yet.
    Unconfirmed,
    /// In use, or available.
    Active,
    /// A packet was not acknowledged in time: another path is used if one is active, and HEARTBEATs
    /// probe this one (RFC 7829).
    PotentiallyFailed,
    /// More than Path.Max.Retrans consecutive time-outs.
    Inactive,
    /// Taken out of use by the user: nothing is sent on it, and packets that arrive on it are discarded.
    SetAside,
    /// One of its addresses was removed from the association (RFC 5061). Its number may be reused.
    Removed,
}
