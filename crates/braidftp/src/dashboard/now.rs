//! What the page shows of one moment: plain numbers, which a server or a job copies from its getters.

use serde::Serialize;

/// Sessions, transfers and paths at one moment.
#[derive(Debug, Clone, Default)]
pub(crate) struct Now {
    /// Numbers of all together.
    pub(crate) totals: Totals,
    /// Sessions; of a job, its own.
    pub(crate) sessions: Vec<Session>,
    /// Transfers under way.
    pub(crate) transfers: Vec<Transfer>,
    /// Network paths, with what they have counted since they are there.
    pub(crate) paths: Vec<Path>,
}

/// Numbers of all sessions together. What one side has not is left out.
#[derive(Debug, Clone, Default, Serialize)]
pub(crate) struct Totals {
    /// Seconds since the start.
    pub(crate) seconds: u64,
    /// Sessions now, listed or not.
    pub(crate) sessions: usize,
    /// Transfers now, listed or not.
    pub(crate) transfers: usize,
    /// Bytes of files and listings sent.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) sent_bytes: Option<u64>,
    /// Bytes of files received.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) received_bytes: Option<u64>,
    /// Files of a job that are done.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) files: Option<u64>,
    /// Files of a job that failed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) failed: Option<u64>,
    /// Bytes that a job has moved.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) moved_bytes: Option<u64>,
    /// Bytes that a job knows of so far.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) expected_bytes: Option<u64>,
}

/// A session.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Session {
    /// Its number.
    pub(crate) id: u64,
    /// The other side.
    pub(crate) peer: String,
    /// `None` before the login.
    pub(crate) user: Option<String>,
    /// How FTP travels.
    pub(crate) mode: String,
    /// Since it began.
    pub(crate) seconds: u64,
    /// Bytes sent.
    pub(crate) sent_bytes: u64,
    /// Bytes received.
    pub(crate) received_bytes: u64,
}

/// A transfer under way.
#[derive(Debug, Clone, Serialize)]
pub(crate) struct Transfer {
    /// The number of its session.
    pub(crate) session: u64,
    /// `download`, `upload` or `listing`.
    pub(crate) direction: &'static str,
    /// Of the file or folder.
    pub(crate) path: String,
    /// Bytes that have passed.
    pub(crate) bytes: u64,
    /// Bytes of all of it, where that is known.
    pub(crate) size: Option<u64>,
    /// Since it began.
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
    /// Whether it is in use.
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
    /// Chunks sent again so far.
    pub(crate) retransmitted: Option<u64>,
}
