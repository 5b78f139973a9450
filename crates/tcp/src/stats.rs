//! Statistics of a connection. They are read by getters, so that observation cannot change a run.

use std::time::Duration;

use crate::connection::state::State;

/// A snapshot of a connection.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// The state of the connection.
    pub state: State,
    /// The congestion window, in bytes; during recovery without SACK the inflated window.
    pub cwnd: usize,
    /// The slow-start threshold, in bytes.
    pub ssthresh: usize,
    /// Bytes sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Outstanding bytes estimated to be in the network: the pipe of RFC 6675.
    pub flight_bytes: usize,
    /// The window that the peer advertises, in bytes.
    pub peer_window: usize,
    /// The maximum bytes of data in a segment.
    pub mss: usize,
    /// The smoothed round-trip time, after the first measurement.
    pub srtt: Option<Duration>,
    /// The current retransmission time-out, back-off included.
    pub rto: Duration,
    /// Bytes written and not yet acknowledged.
    pub queued_bytes: usize,
    /// The counters.
    pub counters: Counters,
}

/// Counters over the life of a connection.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments sent, of any kind.
    pub segments_sent: u64,
    /// Segments received, of any kind.
    pub segments_received: u64,
    /// Segments with data or FIN sent for the first time.
    pub data_segments_sent: u64,
    /// Segments retransmitted, SYN included.
    pub retransmissions: u64,
    /// Bytes of data sent, retransmissions included.
    pub bytes_sent: u64,
    /// Bytes of data received, duplicates included.
    pub bytes_received: u64,
    /// Bytes of data acknowledged by the peer.
    pub bytes_acked: u64,
    /// Bytes of data received in order: read by the user or ready to be read.
    pub bytes_delivered: u64,
    /// Expiries of the retransmission timer, SYN included.
    pub timeouts: u64,
    /// Those on SYN.
    pub syn_timeouts: u64,
    /// Recoveries that began without a time-out.
    pub fast_retransmits: u64,
    /// Duplicate acknowledgements received.
    pub dup_acks_received: u64,
    /// Pure acknowledgements sent.
    pub acks_sent: u64,
    /// Window probes sent.
    pub window_probes: u64,
    /// Tail loss probes sent (RFC 8985 §7).
    pub tail_probes: u64,
}
