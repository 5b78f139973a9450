//! The data of the page at one time: plain numbers, copied from the getters of a server or a job.

use serde::Serialize;

/// Sessions, transfers and paths at one time.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now {
    /// Totals.
    pub(crate) totals: Totals,
    /// The sessions; a job has one.
    pub(crate) sessions: Vec<Session>,
    /// The transfers in progress.
    pub(crate) transfers: Vec<Transfer>,
    /// The network paths, with their counters since they exist.
    pub(crate) paths: Vec<Path>,
}

/// Totals over all sessions. Fields that do not apply are omitted.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Totals {
    /// Seconds since the start.
    pub(crate) seconds: u64,
    /// The number of sessions, listed or not.
    pub(crate) sessions: usize,
    /// The number of transfers, listed or not.
    pub(crate) transfers: usize,
    /// Bytes of files and listings sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent_bytes: Option<u64>,
    /// Bytes of files received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) received_bytes: Option<u64>,
    /// Completed files of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<u64>,
    /// Failed files of a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<u64>,
    /// Bytes transferred by a job.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved_bytes: Option<u64>,
    /// Bytes of a job that are known so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_bytes: Option<u64>,
}

/// A session.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Session {
    /// The number of the session.
    pub(crate) id: u64,
    /// The address of the peer.
    pub(crate) peer: String,
    /// The user; `None` before the login.
    pub(crate) user: Option<String>,
    /// The mode.
    pub(crate) mode: String,
    /// Seconds since the beginning.
    pub(crate) seconds: u64,
    /// Bytes sent.
    pub(crate) sent_bytes: u64,
    /// Bytes received.
    pub(crate) received_bytes: u64,
}

/// A transfer in progress.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Transfer {
    /// The number of its session.
    pub(crate) session: u64,
    /// `download`, `upload` or `listing`.
    pub(crate) direction: &'static str,
    /// The path of the file or folder.
    pub(crate) path: String,
    /// The number of bytes transferred.
    pub(crate) bytes: u64,
    /// The total number of bytes, if known.
    pub(crate) size: Option<u64>,
    /// Seconds since the beginning.
    pub(crate) seconds: u64,
}

/// A network path.
#[derive(Debug, Clone, Default)]
pub(crate) struct Path {
    /// The number of its session.
    pub(crate) session: u64,
    /// The local address.
    pub(crate) local: String,
    /// The peer's address.
    pub(crate) peer: String,
    /// The state of the path.
    pub(crate) state: String,
    /// Smoothed round-trip time, milliseconds.
    pub(crate) rtt_ms: Option<f64>,
    /// Congestion window, bytes.
    pub(crate) cwnd: Option<u64>,
    /// Bytes sent so far.
    pub(crate) sent_bytes: u64,
    /// Bytes received so far.
    pub(crate) received_bytes: u64,
    /// Packets sent so far.
    pub(crate) sent_packets: Option<u64>,
    /// Chunks retransmitted so far.
    pub(crate) retransmitted: Option<u64>,
}
