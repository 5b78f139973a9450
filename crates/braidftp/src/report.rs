//! Events of a job: the lines of `--json`, and the input of [`crate::progress`].
//!
//! One JSON object a line on standard output; the last is the summary. Paths are shown as text: bytes that are
//! not UTF-8, and control characters, appear as `\xNN`.

use std::io::{self, Write};
use std::time::Duration;

use braidftp_net::sctp::PathState;
use serde::{Serialize, Serializer};

use crate::exit::{Error, escape};

/// One line of `--json`.
#[derive(Debug, Clone, Serialize)]
#[serde(tag = "event", rename_all = "snake_case")]
pub enum Event {
    /// The job begins.
    Start {
        /// What was asked for: `get`, `put`, `mirror`, …
        command: &'static str,
        /// Mode of the transfer: `tcp`, `naive`, `ms`, `ms-cp`, `braid`.
        mode: String,
        /// The server, without login.
        url: String,
    },
    /// One thing was done (or would be, in a dry run).
    File {
        /// Which, relative to the folder of the job.
        path: String,
        /// What was done with it.
        action: Action,
        /// Its bytes.
        bytes: u64,
        /// Of these, how many were there from an earlier, interrupted run.
        #[serde(skip_serializing_if = "is_zero")]
        resumed: u64,
    },
    /// One thing that a dry run would do.
    Plan {
        /// Which, relative to the folder of the job.
        path: String,
        /// What would be done with it.
        action: Action,
        /// Its bytes.
        bytes: u64,
    },
    /// One entry of `ls`.
    Entry {
        /// Its name.
        path: String,
        /// `file`, `dir`, `link` or `other`.
        kind: &'static str,
        /// Its bytes, where the server says.
        #[serde(skip_serializing_if = "Option::is_none")]
        bytes: Option<u64>,
        /// When it changed, seconds since 1970, where the server says.
        #[serde(skip_serializing_if = "Option::is_none")]
        mtime: Option<i64>,
        /// Permission bits in octal, where the server says.
        #[serde(skip_serializing_if = "Option::is_none")]
        mode: Option<String>,
        /// Where a symbolic link leads.
        #[serde(skip_serializing_if = "Option::is_none")]
        target: Option<String>,
    },
    /// The bytes of all files beneath a folder: `du`.
    Usage {
        /// The folder; `.` is the one that was named.
        path: String,
        /// Its bytes.
        bytes: u64,
    },
    /// Something is not the same on both sides: `verify`.
    Difference {
        /// Which, relative to the folder of the job.
        path: String,
        /// What differs.
        what: Difference,
    },
    /// How many things are the same on both sides: `verify`, at its end.
    Verified {
        /// Files, folders and links that are the same.
        same: u64,
        /// Those that are not.
        differ: u64,
        /// By which function contents were compared.
        digest: String,
    },
    /// The connection was lost and is opened again.
    Retry {
        /// Which attempt begins, from 1.
        attempt: u32,
        /// How many there may be.
        of: u32,
        /// Why the one before ended.
        why: String,
        /// Seconds until it begins.
        #[serde(serialize_with = "seconds")]
        wait: Duration,
    },
    /// How far the job is; about once a second.
    Progress {
        /// Files done.
        files: u64,
        /// Bytes moved.
        bytes: u64,
        /// Bytes known to be part of the job so far.
        bytes_total: u64,
        /// The network paths.
        paths: Vec<PathProgress>,
    },
    /// Something worth knowing that did not stop the job.
    Warning {
        /// What.
        message: String,
    },
    /// Something failed.
    Error {
        /// Which file, if it was one.
        #[serde(skip_serializing_if = "Option::is_none")]
        path: Option<String>,
        /// The exit code of this error alone.
        code: u8,
        /// What failed, why, and what to try.
        message: String,
    },
    /// The end.
    Summary(Summary),
}

fn is_zero(n: &u64) -> bool {
    *n == 0
}

fn seconds<S: Serializer>(duration: &Duration, serializer: S) -> Result<S::Ok, S::Error> {
    // Micros are as fine as a person or a plot needs, and keep the lines short.
    serializer.serialize_f64((duration.as_secs_f64() * 1e6).round() / 1e6)
}

/// What was done with a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Action {
    /// Its permission bits became those of the source.
    SetMode,
    /// Its time became that of the source, whose contents it has.
    SetTime,
    /// It came from the server and is whole.
    Received,
    /// It went to the server and is whole there.
    Sent,
    /// It was whole already.
    Skipped,
    /// It is a symbolic link and was made anew.
    Linked,
    /// It is a folder and was made.
    MadeFolder,
    /// It is not on the other side any more.
    Deleted,
    /// It was given another name.
    Renamed,
}

/// How two sides differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Difference {
    /// The server has it, and this side does not.
    MissingHere,
    /// This side has it, and the server does not.
    MissingThere,
    /// It is a file on one side and something else on the other.
    Kind,
    /// Its size.
    Size,
    /// Its contents; the size is the same.
    Contents,
    /// Where the link leads.
    Target,
}

impl Difference {
    /// In words, behind the path.
    pub fn says(self) -> &'static str {
        match self {
            Self::MissingHere => "is missing here",
            Self::MissingThere => "is missing on the server",
            Self::Kind => "is of another kind",
            Self::Size => "differs in size",
            Self::Contents => "differs in contents",
            Self::Target => "leads elsewhere",
        }
    }
}

/// How the job went.
#[derive(Debug, Clone, Default, Serialize)]
pub struct Summary {
    /// Mode of the transfer.
    pub mode: String,
    /// Files that were moved and are whole.
    pub files: u64,
    /// Files that failed.
    pub failed: u64,
    /// Bytes of files that were moved; not those that were there already.
    pub bytes: u64,
    /// How long it took.
    #[serde(serialize_with = "seconds")]
    pub seconds: Duration,
    /// The network paths that were used.
    pub paths: Vec<PathSummary>,
}

/// One network path. What a transport cannot tell is `null`.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathSummary {
    /// Our address.
    pub local: String,
    /// Theirs.
    pub peer: String,
    /// Bytes sent in packets of this path, headers of the transport included.
    pub bytes_sent: Option<u64>,
    /// Bytes received likewise.
    pub bytes_received: Option<u64>,
    /// Packets sent.
    #[serde(skip)]
    pub packets_sent: Option<u64>,
    /// Chunks (SCTP) or segments (TCP) that this side sent again.
    pub retransmitted: Option<u64>,
    /// Retransmission timeouts.
    pub timeouts: Option<u64>,
    /// Smoothed round trip time, milliseconds.
    pub srtt_ms: Option<f64>,
    /// Congestion window at the end, bytes.
    pub cwnd: Option<u64>,
    /// Whether it is in use, as in [`PathProgress::state`].
    #[serde(skip)]
    pub state: Option<&'static str>,
}

/// One network path while the job runs.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub struct PathProgress {
    /// So far.
    #[serde(flatten)]
    pub path: PathSummary,
    /// Whether it is in use, in SCTP: `active`, `unconfirmed`, `potentially-failed`, `inactive`, or `set-aside` by
    /// `path off`.
    pub state: Option<&'static str>,
    /// Bits a second sent since the last look.
    pub bits_sent_a_second: u64,
    /// Bits a second received since the last look.
    pub bits_received_a_second: u64,
}

/// The state of a path of SCTP, as in [`PathProgress::state`].
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
    /// A file, in the words of this module.
    pub fn file(path: &[u8], action: Action, bytes: u64, resumed: u64) -> Self {
        Self::File { path: escape(path), action, bytes, resumed }
    }

    /// An error, about `path` if there is one.
    pub fn error(path: Option<&[u8]>, error: &Error) -> Self {
        Self::Error { path: path.map(escape), code: error.exit as u8, message: error.to_string() }
    }

    /// Writes the line.
    ///
    /// # Errors
    /// What the writer says, except that a reader who went away is no error: the job goes on.
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
    fn the_summary_is_the_promised_line() {
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
    fn a_name_that_is_not_text_stays_one_line_of_json() {
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
