//! Live sessions and transfers, for operators: users, transfers under way, byte counts. `braidftp ctl`, metrics, the transfer
//! log and hooks read them; no decision depends on them, except that the limit of sessions reads [`Progress`].

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use braidftp_ftp::SafePath;
use braidftp_ftp::command::Type;
use braidftp_ftp::server::{Failure, JobId, Outcome};
use braidftp_net::Association;
use serde::Serialize;
use tokio::sync::Notify;

use super::metrics::{Metrics, PathCounts};
use crate::report::path_state;

/// All sessions, and totals since the server started.
#[derive(Debug)]
pub(super) struct Activity {
    sessions: Mutex<BTreeMap<u64, Arc<SessionRecord>>>,
    pub(super) metrics: Metrics,
    since: Instant,
    sent: AtomicU64,
    received: AtomicU64,
}

impl Default for Activity {
    fn default() -> Self {
        Self {
            sessions: Mutex::default(),
            metrics: Metrics::default(),
            since: Instant::now(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
        }
    }
}

/// The record of one session.
#[derive(Debug)]
pub(super) struct SessionRecord {
    activity: Arc<Activity>,
    id: u64,
    peer: IpAddr,
    mode: String,
    since: Instant,
    user: Mutex<Option<String>>,
    transfers: Mutex<BTreeMap<JobId, Arc<Transfer>>>,
    association: Option<Association>,
    /// The counters of the session's paths when they were last read.
    counted: Mutex<BTreeMap<(String, String), PathCounts>>,
    sent: AtomicU64,
    received: AtomicU64,
    progress: Arc<Progress>,
    kicked: Notify,
}

/// Keeps a session listed in [`Activity`]; dropping it removes the session.
#[derive(Debug)]
pub(super) struct SessionGuard(Arc<SessionRecord>);

/// The period over which the pace of a session is measured.
const PACE_OVER: Duration = Duration::from_secs(10);

/// When the transfers of a session made progress last, and their pace.
#[derive(Debug)]
pub(super) struct Progress(Mutex<Moved>);

#[derive(Debug)]
struct Moved {
    /// When a transfer began, or bytes of one passed.
    at: tokio::time::Instant,
    /// When this period began.
    since: tokio::time::Instant,
    /// Bytes of this period.
    bytes: u64,
    /// Bytes of the period before, if there was one.
    bytes_before: Option<u64>,
}

impl Default for Progress {
    fn default() -> Self {
        let now = tokio::time::Instant::now();
        Self(Mutex::new(Moved { at: now, since: now, bytes: 0, bytes_before: None }))
    }
}

impl Progress {
    /// A transfer has begun.
    pub(super) fn made(&self) {
        lock(&self.0).at = tokio::time::Instant::now();
    }

    /// Bytes of a transfer have passed.
    pub(super) fn moved(&self, bytes: u64) {
        let mut moved = lock(&self.0);
        let now = tokio::time::Instant::now();
        moved.turn_over(now);
        (moved.at, moved.bytes) = (now, moved.bytes + bytes);
    }

    /// Returns the time since the last progress.
    pub(super) fn standstill(&self) -> Duration {
        lock(&self.0).at.elapsed()
    }

    /// Bytes of the last [`PACE_OVER`] to twice that; `None` for a session that is not as old.
    pub(super) fn pace(&self) -> Option<u64> {
        let mut moved = lock(&self.0);
        moved.turn_over(tokio::time::Instant::now());
        Some(moved.bytes + moved.bytes_before?)
    }
}

impl Moved {
    /// Begins the next period if this one is over.
    fn turn_over(&mut self, now: tokio::time::Instant) {
        let periods = now.duration_since(self.since).as_secs() / PACE_OVER.as_secs();
        if periods > 0 {
            self.bytes_before = Some(if periods == 1 { self.bytes } else { 0 });
            (self.since, self.bytes) = (now, 0);
        }
    }
}

/// The direction of a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Direction {
    /// A file to the client.
    Download,
    /// A listing to the client.
    Listing,
    /// A file from the client.
    Upload,
}

impl Direction {
    pub(super) const fn word(self) -> &'static str {
        match self {
            Self::Download => "download",
            Self::Listing => "listing",
            Self::Upload => "upload",
        }
    }
}

/// A transfer under way.
#[derive(Debug)]
pub(super) struct Transfer {
    session: Arc<SessionRecord>,
    pub(super) path: SafePath,
    pub(super) direction: Direction,
    pub(super) representation: Type,
    began: Instant,
    first_byte: OnceLock<Duration>,
    bytes: AtomicU64,
}

/// A finished transfer.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) path: SafePath,
    pub(super) direction: Direction,
    pub(super) representation: Type,
    pub(super) took: Duration,
    pub(super) bytes: u64,
    pub(super) failure: Option<Failure>,
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

impl Activity {
    /// Lists a new session.
    pub(super) fn enter(
        self: &Arc<Self>,
        id: u64,
        peer: IpAddr,
        mode: String,
        association: Option<Association>,
    ) -> SessionGuard {
        self.metrics.session_began(&mode);
        let seen = Arc::new(SessionRecord {
            activity: self.clone(),
            id,
            peer,
            mode,
            since: Instant::now(),
            user: Mutex::default(),
            transfers: Mutex::default(),
            association,
            counted: Mutex::default(),
            sent: AtomicU64::new(0),
            received: AtomicU64::new(0),
            progress: Arc::default(),
            kicked: Notify::new(),
        });
        lock(&self.sessions).insert(id, seen.clone());
        SessionGuard(seen)
    }

    fn all(&self) -> Vec<Arc<SessionRecord>> {
        lock(&self.sessions).values().cloned().collect()
    }

    /// Returns all sessions.
    pub(super) fn who(&self) -> Vec<SessionLine> {
        self.all().iter().map(|seen| seen.line()).collect()
    }

    /// Returns at most `max` sessions: those with transfers first, then by number.
    pub(super) fn busiest(&self, max: usize) -> Vec<SessionLine> {
        let mut all = self.all();
        // The sort is stable: equal entries stay in the order of their numbers.
        all.sort_by_key(|seen| lock(&seen.transfers).is_empty());
        let mut lines: Vec<SessionLine> = all.iter().take(max).map(|seen| seen.line()).collect();
        lines.sort_by_key(|line| line.id);
        lines
    }

    /// Ends session `id`; `false` if there is no such session.
    pub(super) fn kick(&self, id: u64) -> bool {
        let seen = lock(&self.sessions).get(&id).cloned();
        seen.inspect(|seen| seen.kicked.notify_one()).is_some()
    }

    /// Returns totals over all sessions.
    pub(super) fn totals(&self) -> Totals {
        let all = self.all();
        Totals {
            uptime_seconds: self.since.elapsed().as_secs(),
            sessions: all.len(),
            transfers: all.iter().map(|seen| lock(&seen.transfers).len()).sum(),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            received_bytes: self.received.load(Ordering::Relaxed),
        }
    }

    /// Returns the current metrics in OpenMetrics' text format.
    pub(super) fn metrics_text(&self) -> String {
        self.all().iter().for_each(|seen| seen.count_paths());
        self.metrics.text()
    }
}

impl SessionGuard {
    pub(super) fn logged_in(&self, user: &str) {
        *lock(&self.0.user) = Some(user.to_owned());
    }

    pub(super) fn logged_out(&self) {
        *lock(&self.0.user) = None;
    }

    /// Returns when an operator has ended the session.
    ///
    /// # Cancel safety
    /// Safe.
    pub(super) async fn kicked(&self) {
        self.0.kicked.notified().await;
    }

    /// The progress of the session's transfers.
    pub(super) fn progress(&self) -> Arc<Progress> {
        self.0.progress.clone()
    }

    /// Records the start of a transfer.
    pub(super) fn begin(
        &self,
        job: JobId,
        path: SafePath,
        direction: Direction,
        representation: Type,
    ) -> Arc<Transfer> {
        self.0.activity.metrics.transfer_began(direction.word());
        let transfer = Arc::new(Transfer {
            session: self.0.clone(),
            path,
            direction,
            representation,
            began: Instant::now(),
            first_byte: OnceLock::new(),
            bytes: AtomicU64::new(0),
        });
        lock(&self.0.transfers).insert(job, transfer.clone());
        self.0.progress.made();
        transfer
    }

    /// Records the end of the transfer of `job`; `None` if the job is no transfer.
    pub(super) fn end(&self, job: JobId, outcome: &Result<Outcome, Failure>) -> Option<Finished> {
        let transfer = lock(&self.0.transfers).remove(&job)?;
        let took = transfer.began.elapsed();
        let result = if outcome.is_ok() { "ok" } else { "failed" };
        self.0.activity.metrics.transfer_ended(transfer.direction.word(), result, took);
        let path = match outcome {
            // STOU: the name that the server chose.
            Ok(Outcome::Received { name: Some(name), .. }) => name.clone(),
            _ => transfer.path.clone(),
        };
        Some(Finished {
            path,
            direction: transfer.direction,
            representation: transfer.representation,
            took,
            bytes: transfer.bytes.load(Ordering::Relaxed),
            failure: outcome.as_ref().err().copied(),
        })
    }
}

impl Drop for SessionGuard {
    fn drop(&mut self) {
        let Self(seen) = self;
        seen.count_paths();
        let cut_off: Vec<JobId> = lock(&seen.transfers).keys().copied().collect();
        cut_off.into_iter().for_each(|job| {
            self.end(job, &Err(Failure::DataLost));
        });
        let Self(seen) = self;
        seen.activity.metrics.session_ended(&seen.mode);
        lock(&seen.activity.sessions).remove(&seen.id);
    }
}

impl SessionRecord {
    /// Adds what the session's paths counted since the last call to the metrics.
    fn count_paths(&self) {
        let Some(association) = &self.association else { return };
        let mut counted = lock(&self.counted);
        for path in association.stats().paths {
            let now = PathCounts {
                sent_bytes: path.bytes_sent,
                received_bytes: path.bytes_received,
                retransmitted_chunks: path.retransmitted_chunks,
                timeouts: path.timeouts,
            };
            let local = path.local.ip().to_string();
            let before = counted.insert((local.clone(), path.peer.to_string()), now).unwrap_or_default();
            let since = PathCounts {
                sent_bytes: now.sent_bytes.saturating_sub(before.sent_bytes),
                received_bytes: now.received_bytes.saturating_sub(before.received_bytes),
                retransmitted_chunks: now.retransmitted_chunks.saturating_sub(before.retransmitted_chunks),
                timeouts: now.timeouts.saturating_sub(before.timeouts),
            };
            self.activity.metrics.path(&local, since);
        }
    }

    fn line(&self) -> SessionLine {
        let transfers = lock(&self.transfers).values().map(|transfer| transfer.line()).collect();
        let paths =
            self.association.as_ref().map(|association| association.stats().paths).unwrap_or_default();
        SessionLine {
            id: self.id,
            peer: self.peer.to_string(),
            user: lock(&self.user).clone(),
            mode: self.mode.clone(),
            seconds: self.since.elapsed().as_secs(),
            sent_bytes: self.sent.load(Ordering::Relaxed),
            received_bytes: self.received.load(Ordering::Relaxed),
            transfers,
            paths: paths
                .iter()
                .map(|path| PathLine {
                    local: path.local.to_string(),
                    peer: path.peer.to_string(),
                    state: path_state(path.state),
                    srtt_ms: path.srtt.map(|srtt| srtt.as_secs_f64() * 1000.0),
                    cwnd: path.cwnd,
                    sent_packets: path.packets_sent,
                    sent_bytes: path.bytes_sent,
                    received_bytes: path.bytes_received,
                    retransmitted_chunks: path.retransmitted_chunks,
                })
                .collect(),
        }
    }
}

impl Transfer {
    /// Counts bytes that were transferred.
    pub(super) fn passed(&self, bytes: usize) {
        let (Self { session, .. }, bytes, direction) = (self, bytes as u64, self.direction.word());
        let metrics = &session.activity.metrics;
        self.first_byte.get_or_init(|| {
            let after = self.began.elapsed();
            metrics.first_byte(direction, after);
            after
        });
        metrics.passed(direction, bytes);
        session.progress.moved(bytes);
        self.bytes.fetch_add(bytes, Ordering::Relaxed);
        let (of_session, of_all) = match self.direction {
            Direction::Upload => (&session.received, &session.activity.received),
            Direction::Download | Direction::Listing => (&session.sent, &session.activity.sent),
        };
        of_session.fetch_add(bytes, Ordering::Relaxed);
        of_all.fetch_add(bytes, Ordering::Relaxed);
    }

    fn line(&self) -> TransferLine {
        TransferLine {
            direction: self.direction.word(),
            path: format!("/{}", String::from_utf8_lossy(self.path.as_bytes())),
            bytes: self.bytes.load(Ordering::Relaxed),
            seconds: self.began.elapsed().as_secs(),
        }
    }
}

/// A session, as operators see it.
#[derive(Debug, Serialize)]
pub(super) struct SessionLine {
    pub(super) id: u64,
    pub(super) peer: String,
    /// `None` before the login.
    pub(super) user: Option<String>,
    pub(super) mode: String,
    pub(super) seconds: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) transfers: Vec<TransferLine>,
    pub(super) paths: Vec<PathLine>,
}

/// A transfer under way, as operators see it.
#[derive(Debug, Serialize)]
pub(super) struct TransferLine {
    pub(super) direction: &'static str,
    pub(super) path: String,
    pub(super) bytes: u64,
    pub(super) seconds: u64,
}

/// An SCTP path, as operators see it.
#[derive(Debug, Serialize)]
pub(super) struct PathLine {
    pub(super) local: String,
    pub(super) peer: String,
    pub(super) state: &'static str,
    pub(super) srtt_ms: Option<f64>,
    pub(super) cwnd: usize,
    pub(super) sent_packets: u64,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
    pub(super) retransmitted_chunks: u64,
}

/// Totals over all sessions.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub(super) struct Totals {
    pub(super) uptime_seconds: u64,
    pub(super) sessions: usize,
    pub(super) transfers: usize,
    pub(super) sent_bytes: u64,
    pub(super) received_bytes: u64,
}
