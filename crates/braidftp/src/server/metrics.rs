//! Metrics for Prometheus: counters and their names.
//!
//! Labels contain nothing chosen by a peer: an SCTP path is labelled by its local address.

use std::time::Duration;

use prometheus_client::encoding::EncodeLabelSet;
use prometheus_client::encoding::text::encode;
use prometheus_client::metrics::counter::Counter;
use prometheus_client::metrics::family::Family;
use prometheus_client::metrics::gauge::Gauge;
use prometheus_client::metrics::histogram::{Histogram, exponential_buckets};
use prometheus_client::metrics::info::Info;
use prometheus_client::registry::{Registry, Unit};

/// The mode of a session.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByMode {
    mode: String,
}

/// The result of an operation.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByResult {
    result: &'static str,
}

/// The direction of the bytes of files.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByDirection {
    direction: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByOutcome {
    direction: &'static str,
    result: &'static str,
}

/// An SCTP path, by its local address.
#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ByLocal {
    local: String,
}

type Times = Family<ByDirection, Histogram, fn() -> Histogram>;

/// From one millisecond to nine hours.
fn durations() -> Histogram {
    Histogram::new(exponential_buckets(0.001, 4.0, 13))
}

/// From a tenth of a millisecond to two minutes.
fn first_bytes() -> Histogram {
    Histogram::new(exponential_buckets(0.0001, 4.0, 11))
}

/// The counters of an SCTP path at the last query.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct PathCounts {
    pub sent_bytes: u64,
    pub received_bytes: u64,
    pub retransmitted_chunks: u64,
    pub timeouts: u64,
}

/// The metrics.
#[derive(Debug)]
pub(super) struct Metrics {
    registry: Registry,
    sessions: Family<ByMode, Gauge>,
    opened: Family<ByMode, Counter>,
    refused: Counter,
    logins: Family<ByResult, Counter>,
    transfers: Family<ByDirection, Gauge>,
    finished: Family<ByOutcome, Counter>,
    bytes: Family<ByDirection, Counter>,
    duration: Times,
    first_byte: Times,
    path_sent: Family<ByLocal, Counter>,
    path_received: Family<ByLocal, Counter>,
    path_retransmitted: Family<ByLocal, Counter>,
    path_timeouts: Family<ByLocal, Counter>,
    hook_events: Family<ByResult, Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        let metrics = Self {
            registry: Registry::with_prefix("braidftp"),
            sessions: Family::default(),
            opened: Family::default(),
            refused: Counter::default(),
            logins: Family::default(),
            transfers: Family::default(),
            finished: Family::default(),
            bytes: Family::default(),
            duration: Times::new_with_constructor(durations),
            first_byte: Times::new_with_constructor(first_bytes),
            path_sent: Family::default(),
            path_received: Family::default(),
            path_retransmitted: Family::default(),
            path_timeouts: Family::default(),
            hook_events: Family::default(),
        };
        metrics.registered()
    }
}

impl Metrics {
    fn registered(mut self) -> Self {
        let r = &mut self.registry;
        r.register("build", "The version of the server", Info::new([("version", env!("CARGO_PKG_VERSION"))]));
        r.register("sessions", "Sessions now", self.sessions.clone());
        r.register("sessions_opened", "Sessions that began", self.opened.clone());
        r.register("sessions_refused", "Sessions for which there was no room", self.refused.clone());
        r.register("logins", "Logins, by result", self.logins.clone());
        r.register("transfers", "Transfers under way", self.transfers.clone());
        r.register("transfers_finished", "Transfers that ended, by result", self.finished.clone());
        r.register_with_unit("transferred", "Bytes of files and listings", Unit::Bytes, self.bytes.clone());
        let what = "Time from the command to the end of a transfer";
        r.register_with_unit("transfer_duration", what, Unit::Seconds, self.duration.clone());
        let what = "Time from the command to the first byte of a transfer";
        r.register_with_unit("time_to_first_byte", what, Unit::Seconds, self.first_byte.clone());
        let what = "Bytes of SCTP packets sent, by local address of the path";
        r.register_with_unit("path_sent", what, Unit::Bytes, self.path_sent.clone());
        let what = "Bytes of user data received over SCTP, by local address of the path";
        r.register_with_unit("path_received", what, Unit::Bytes, self.path_received.clone());
        let what = "DATA chunks sent again, by local address of the path";
        r.register("path_retransmitted_chunks", what, self.path_retransmitted.clone());
        let what = "Times that T3-rtx ran out, by local address of the path";
        r.register("path_timeouts", what, self.path_timeouts.clone());
        let what = "Events for hooks: queued, or dropped because the queue was full or could not be written";
        r.register("hook_events", what, self.hook_events.clone());
        self
    }

    /// All metrics, in OpenMetrics' text format.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        // Writing to a string does not fail.
        let _ = encode(&mut text, &self.registry);
        text
    }

    pub(super) fn session_began(&self, mode: &str) {
        let mode = ByMode { mode: mode.to_owned() };
        self.sessions.get_or_create(&mode).inc();
        self.opened.get_or_create(&mode).inc();
    }

    pub(super) fn session_ended(&self, mode: &str) {
        self.sessions.get_or_create(&ByMode { mode: mode.to_owned() }).dec();
    }

    pub(super) fn session_refused(&self) {
        self.refused.inc();
    }

    pub(super) fn login(&self, result: &'static str) {
        self.logins.get_or_create(&ByResult { result }).inc();
    }

    pub(super) fn transfer_began(&self, direction: &'static str) {
        self.transfers.get_or_create(&ByDirection { direction }).inc();
    }

    pub(super) fn passed(&self, direction: &'static str, bytes: u64) {
        self.bytes.get_or_create(&ByDirection { direction }).inc_by(bytes);
    }

    pub(super) fn first_byte(&self, direction: &'static str, after: Duration) {
        self.first_byte.get_or_create(&ByDirection { direction }).observe(after.as_secs_f64());
    }

    pub(super) fn transfer_ended(&self, direction: &'static str, result: &'static str, took: Duration) {
        self.transfers.get_or_create(&ByDirection { direction }).dec();
        self.finished.get_or_create(&ByOutcome { direction, result }).inc();
        self.duration.get_or_create(&ByDirection { direction }).observe(took.as_secs_f64());
    }

    pub(super) fn path(&self, local: &str, counts: PathCounts) {
        let local = ByLocal { local: local.to_owned() };
        self.path_sent.get_or_create(&local).inc_by(counts.sent_bytes);
        self.path_received.get_or_create(&local).inc_by(counts.received_bytes);
        self.path_retransmitted.get_or_create(&local).inc_by(counts.retransmitted_chunks);
        self.path_timeouts.get_or_create(&local).inc_by(counts.timeouts);
    }

    pub(super) fn hook_event(&self, result: &'static str) {
        self.hook_events.get_or_create(&ByResult { result }).inc();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_as_prometheus_wants_them_and_counters_count() {
        let metrics = Metrics::default();
        metrics.session_began("braid");
        metrics.session_began("braid");
        metrics.session_ended("braid");
        metrics.transfer_began("download");
        metrics.passed("download", 7);
        metrics.first_byte("download", Duration::from_millis(2));
        metrics.transfer_ended("download", "ok", Duration::from_secs(2));
        let counts = PathCounts { sent_bytes: 100, retransmitted_chunks: 3, ..PathCounts::default() };
        metrics.path("192.0.2.1", counts);
        let text = metrics.text();
        for line in [
            "# TYPE braidftp_sessions gauge",
            "braidftp_sessions{mode=\"braid\"} 1",
            "braidftp_sessions_opened_total{mode=\"braid\"} 2",
            "braidftp_transfers{direction=\"download\"} 0",
            "braidftp_transfers_finished_total{direction=\"download\",result=\"ok\"} 1",
            "braidftp_transferred_bytes_total{direction=\"download\"} 7",
            "braidftp_transfer_duration_seconds_count{direction=\"download\"} 1",
            "braidftp_time_to_first_byte_seconds_sum{direction=\"download\"} 0.002",
            "braidftp_path_sent_bytes_total{local=\"192.0.2.1\"} 100",
            "braidftp_path_retransmitted_chunks_total{local=\"192.0.2.1\"} 3",
            "# EOF",
        ] {
            assert!(text.lines().any(|other| other == line), "{line} is not in\n{text}");
        }
    }
}
