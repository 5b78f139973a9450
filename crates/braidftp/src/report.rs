//! Events of a job: the lines of `--json`, and the input of [`crate::progress`].
//!
//! One JSON object a line on standard output; the last is the summary. Paths are shown as text: bytes that are
//! not UTF-8, and control characters, appear as `\xNN`.

use std::io::{self, Write};
use std::time::Duration;

use braidftp_net::sctp::PathState;
use serde::{Serialize, Serializer};

use crate::exit::{Error, escape};

/// One event: a line of `--json`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The job begins.
    Start {
        /// The command: `get`, `put`, `mirror`, …
        command: &'static str,
        /// The mode: `tcp`, `naive`, `ms`, `ms-cp`, `braid`.
        mode: String,
        /// The server, without the login.
        url: String,
    },
    /// An action was completed.
    File {
        /// The path, relative to the folder of the job.
        path: String,
        /// The action.
        action: Action,
        /// The size in bytes.
        bytes: u64,
        /// The bytes of it that existed from an earlier, interrupted run.
        #[serde(skip_serializing_if = "is_zero")]
        resumed: u64,
    },
    /// An action of a dry run.
    Plan {
        /// The path, relative to the folder of the job.
        path: String,
        /// The action.
        action: Action,
        /// The size in bytes.
        bytes: u64,
    },
    /// One entry of `ls`.
    Entry {
        /// The name.
        path: String,
        /// `file`, `dir`, `link` or `other`.
        kind: &'static str,
        /// The size in bytes, if the server reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// The modification time in seconds since 1970, if the server reports it.
        #[serde(skip_serializing_if = "Option::is_none")]
        mtime: Option<i64>,
        /// The permission bits in octal, if the server reports them.
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// The target of a symbolic link.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// The total size of the files in and below a folder: `du`.
    Usage {
        /// The folder; `.` is the given one.
        path: String,
        /// The size in bytes.
        bytes: u64,
    },
    /// A difference between both sides: `verify`.
    Difference {
        /// The path, relative to the folder of the job.
        path: String,
        /// The difference.
        what: Difference,
    },
    /// The number of equal and different entries: `verify`, at its end.
    Verified {
        /// Files, folders and links that are equal.
        same: u64,
        /// Files, folders and links that differ.
        differ: u64,
        /// The hash function with which contents were compared.
        digest: String,
    },
    /// The connection was lost and is opened again.
    Retry {
        /// The number of the attempt that begins, from 1.
        attempt: u32,
        /// The maximum number of attempts.
        of: u32,
        /// Why the previous attempt ended.
        why: String,
        /// Seconds until the attempt begins.
        #[serde(serialize_with = "seconds")]
        wait: Duration,
    },
    /// The progress of the job, about once per second.
    Progress {
        /// Completed files.
        files: u64,
        /// Bytes transferred.
        bytes: u64,
        /// Bytes known to be part of the job so far.
        bytes_total: u64,
        /// The network paths.
        paths: Vec<PathProgress>,
    },
    /// A warning; the job continues.
    Warning {
        /// The text.
        message: String,
    },
    /// An error.
    Error {
        /// The path, if the error concerns one.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The exit code of this error.
        code: u8,
        /// What failed, why, and what to try.
        message: String,
    },
    /// The end of the job.
    Summary(Summary),
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Microseconds are precise enough, and keep the lines short.
    serializer.serialize_f64((duration.as_secs_f64() * 1e6).round() / 1e6)
}

/// An action on a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Its permission bits were set to those of the source.
    SetMode,
    /// Its time was set to that of the source; the contents were equal.
    SetTime,
    /// It was received completely.
    Received,
    /// It was sent completely.
    Sent,
    /// It was complete already.
    Skipped,
    /// It is a symbolic link, and was created.
    Linked,
    /// It is another name of a file, and was made.
    HardLinked,
    /// It is a folder, and was created.
    MadeFolder,
    /// It was deleted at the destination.
    Deleted,
    /// It was renamed.
    Renamed,
}

/// A difference between two sides.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// Only the server has it.
    MissingHere,
    /// Only this side has it.
    MissingThere,
    /// The kinds differ: a file on one side only.
    Kind,
    /// The sizes differ.
    Size,
    /// The contents differ, with equal sizes.
    Contents,
    /// The targets of the link differ.
    Target,
    /// It is another name of a file on the server, and a file of its own here.
    Links,
}

impl Difference {
    /// The description that follows the path.
    pub fn says(self) -> &'static str {
        match self {
            Self::MissingHere => "is missing here",
            Self::MissingThere => "is missing on the server",
            Self::Kind => "is of another kind",
            Self::Size => "differs in size",
            Self::Contents => "differs in contents",
            Self::Target => "leads elsewhere",
            Self::Links => "is not linked",
        }
    }
}

/// The summary of a job.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// The mode.
    pub mode: String,
    /// Files that were transferred completely.
    pub files: u64,
    /// Files that failed.
    pub failed: u64,
    /// Bytes of transferred files, without those that existed before.
    pub bytes: u64,
    /// The duration.
    #[serde(serialize_with = "seconds")]
    pub seconds: Duration,
    /// The network paths that were used.
    pub paths: Vec<PathSummary>,
}

/// One network path. Values that a transport does not know are `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathSummary {
    /// The local address.
    pub local: String,
    /// The peer's address.
    pub peer: String,
    /// Bytes sent in packets of this path, including transport headers.
    pub bytes_sent: Option<u64>,
    /// Bytes received, counted likewise.
    pub bytes_received: Option<u64>,
    /// Packets sent.
    #[serde(skip)]
    pub packets_sent: Option<u64>,
    /// Chunks (SCTP) or segments (TCP) retransmitted by this side.
    pub retransmitted: Option<u64>,
    /// Retransmission time-outs.
    pub timeouts: Option<u64>,
    /// Smoothed RTT in milliseconds.
    pub srtt_ms: Option<f64>,
    /// The shortest RTT measured, in milliseconds.
    #[serde(skip)]
    pub min_rtt_ms: Option<f64>,
    /// The size of the largest packet, in bytes, without headers below SCTP.
    #[serde(skip)]
    pub mtu: Option<u64>,
    /// The congestion window at the end, in bytes.
    pub cwnd: Option<u64>,
    /// The state, as in [`PathProgress::state`].
    #[serde(skip)]
    pub state: Option<&'static str>,
}

/// One network path while the job runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathProgress {
    /// The counters so far.
    #[serde(flatten)]
    pub path: PathSummary,
    /// The state in SCTP: `active`, `unconfirmed`, `potentially-failed`, `inactive`, or `set-aside` by `path
    /// off`.
    pub state: Option<&'static str>,
    /// Bits per second sent since the last event.
    pub bits_sent_a_second: u64,
    /// Bits per second received since the last event.
    pub bits_received_a_second: u64,
}

/// The state of an SCTP path, as in [`PathProgress::state`].
pub(crate) const fn path_state(state: PathState) -> &'static str {
    match state {
        PathState::Unconfirmed => "unconfirmed",
        PathState::Active => "active",
        PathState::PotentiallyFailed => "potentially-failed",
        PathState::Inactive => "inactive",
        PathState::SetAside => "set-aside",
        PathState::Removed => "removed",
    }
}

impl Event {
    /// An event about a completed file.
    pub fn file(path: &[u8], action: Action, bytes: u64, resumed: u64) -> Self {
        Self::File { path: escape(path), action, bytes, resumed }
    }

    /// The event of an error, with its path if there is one.
    pub fn error(path: Option<&[u8]>, error: &Error) -> Self {
        Self::Error { path: path.map(escape), code: error.exit as u8, message: error.to_string() }
    }

    /// Writes the line.
    ///
    /// # Errors
    ///
    /// The writer's error, except for a closed pipe, after which the job continues.
    pub fn write(&self, mut to: impl Write) -> io::Result<()> {
        let mut line = serde_json::to_vec(self).map_err(io::Error::other)?;
        line.push(b'\n');
        match to.write_all(&line).and_then(|()| to.flush()) {
            Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
            result => result,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_summary_has_the_documented_form() {
        let summary = Summary {
            mode: "braid".into(),
            files: 2,
            failed: 1,
            bytes: 300,
            seconds: Duration::from_millis(1500),
            paths: vec![PathSummary {
                local: "127.0.0.1:1".into(),
                peer: "127.0.0.1:2".into(),
                bytes_sent: Some(10),
                bytes_received: Some(20),
                packets_sent: Some(1),
                retransmitted: Some(0),
                timeouts: Some(0),
                srtt_ms: Some(1.5),
                min_rtt_ms: Some(1.2),
                mtu: Some(1452),
                cwnd: Some(4380),
                state: Some("active"),
            }],
        };
        let mut line = Vec::new();
        Event::Summary(summary).write(&mut line).unwrap();
        assert_eq!(
            String::from_utf8(line).unwrap(),
            concat!(
                r#"{"event":"summary","mode":"braid","files":2,"failed":1,"bytes":300,"seconds":1.5,"#,
                r#""paths":[{"local":"127.0.0.1:1","peer":"127.0.0.1:2","bytes_sent":10,"bytes_received":20,"#,
                r#""retransmitted":0,"timeouts":0,"srtt_ms":1.5,"cwnd":4380}]}"#,
                "\n"
            )
        );
    }

    #[test]
    fn a_name_that_is_not_utf_8_stays_one_line_of_json() {
        let mut line = Vec::new();
        Event::file(b"a\n\xff\"", Action::Received, 1, 0).write(&mut line).unwrap();
        let text = String::from_utf8(line).unwrap();
        assert_eq!(text.matches('\n').count(), 1, "{text}");
        assert_eq!(
            text,
            "{\"event\":\"file\",\"path\":\"a\\\\x0a\\\\xff\\\"\",\"action\":\"received\",\"bytes\":1}\n"
        );
    }
}
