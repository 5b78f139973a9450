//! What a connection and an endpoint have counted: getters, so that watching cannot change a run.

use std::time::Duration;

use crate::connection::State;

/// A connection as it stands.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Stats {
    /// Where it is in its life.
    pub state: State,
    /// The congestion window, in bytes; in a recovery without SACK what it is inflated to.
    pub cwnd: usize,
    /// The slow-start threshold, in bytes.
    pub ssthresh: usize,
    /// Bytes sent and not acknowledged.
    pub outstanding_bytes: usize,
    /// Bytes of them taken to be in the network: RFC 6675's pipe.
    pub flight_bytes: usize,
    /// The window that the peer advertises, in bytes.
    pub peer_window: usize,
    /// Bytes of data in a full segment.
    pub mss: usize,
    /// The smoothed round-trip time, once something was measured.
    pub srtt: Option<Duration>,
    /// The retransmission time-out, backed off as it is.
    pub rto: Duration,
    /// Bytes written and not acknowledged.
    pub queued_bytes: usize,
    /// What was counted.
    pub counters: Counters,
}

/// What was counted over a connection's life.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counters {
    /// Segments sent, of any kind.
    pub segments_sent: u64,
    /// Segments that came, of any kind.
    pub segments_received: u64,
    /// Segments with data or FIN sent for the first time.
    pub data_segments_sent: u64,
    /// Segments sent again, SYN among them.
    pub retransmissions: u64,
    /// Bytes of data sent, again or for the first time.
    pub bytes_sent: u64,
    /// Bytes of data that came, again or for the first time.
    pub bytes_received: u64,
    /// Bytes of data acknowledged by the peer.
    pub bytes_acked: u64,
    /// Bytes of data that came in order and were given to the user, or are ready for it.
    pub bytes_delivered: u64,
    /// Times that the retransmission timer ran out, on SYN too.
    pub timeouts: u64,
    /// Of them, those on SYN.
    pub syn_timeouts: u64,
    /// Times that a recovery began without a time-out.
    pub fast_retransmits: u64,
    /// Duplicate acknowledgements that came.
    pub dup_acks_received: u64,
    /// Acknowledgements without data sent.
    pub acks_sent: u64,
    /// Probes of a closed window sent.
    pub window_probes: u64,
    /// Probes of the tail sent (RFC 8985 §7).
    pub tail_probes: u64,
}
