//! The windows that limit a sender, of SCTP and TCP alike.

use braidftp_sctp as sctp;
use braidftp_tcp as tcp;

/// What limits a sender on a path, in bytes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct SendWindows {
    /// The congestion window.
    pub cwnd_bytes: usize,
    /// The bytes in flight.
    pub flight_bytes: usize,
    /// The peer's receive window, the bytes in flight included. Paths of an association share it.
    pub peer_window_bytes: usize,
}

impl SendWindows {
    /// The windows of an association, one for each path.
    pub fn of_association(stats: &sctp::Stats) -> Vec<Self> {
        let flight: usize = stats.paths.iter().map(|path| path.flight_bytes).sum();
        let path = |path: &sctp::PathStats| Self {
            cwnd_bytes: path.cwnd,
            flight_bytes: path.flight_bytes,
            peer_window_bytes: stats.peer_rwnd + flight,
        };
        stats.paths.iter().map(path).collect()
    }

    /// The windows of a TCP connection, which has one path.
    pub fn of_connection(stats: &tcp::Stats) -> Vec<Self> {
        vec![Self {
            cwnd_bytes: stats.cwnd,
            flight_bytes: stats.flight_bytes,
            peer_window_bytes: stats.peer_window,
        }]
    }

    /// Adds the windows of another sender, path by path.
    pub fn add(sum: &mut Vec<Self>, other: &[Self]) {
        sum.resize_with(sum.len().max(other.len()), Self::default);
        for (sum, other) in sum.iter_mut().zip(other) {
            sum.cwnd_bytes += other.cwnd_bytes;
            sum.flight_bytes += other.flight_bytes;
            sum.peer_window_bytes += other.peer_window_bytes;
        }
    }
}
