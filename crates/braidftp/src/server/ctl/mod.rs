//! `braidftp ctl`: control of a running server over a Unix socket: lists sessions, ends one, or drains the
//! server.
//!
//! The request is a line of JSON (`{"command":"kick","session":3}`), and so is the answer, whose `error` is
//! the reason for a refusal. Only its owner may access the socket (mode 600). The kernel reports the user of
//! a connection: root, the user who started the server, and the user that the server changed to are accepted.
//! At most `CALLERS_MAX` connections are served concurrently, each within `WITHIN`.

pub mod command;

use std::fs::Permissions;
use std::os::unix::fs::{FileTypeExt, PermissionsExt};
use std::os::unix::net::UnixListener as StdListener;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustix::process::{geteuid, getuid};
use serde::{Deserialize, Serialize};
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;
use tokio::time::timeout;

use super::activity::{SessionLine, Totals};
use super::{Monitor, Settings};

/// The maximum number of concurrent connections.
const CALLERS_MAX: usize = 8;
/// The time limit of a connection.
const WITHIN: Duration = Duration::from_secs(10);
/// The maximum length of a request in bytes.
const QUESTION_BYTES: u64 = 1024;

/// A request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "command", rename_all = "lowercase", deny_unknown_fields)]
pub enum Question {
    /// All sessions, with their transfers and paths.
    Who {},
    /// End a session.
    Kick {
        /// Its number.
        session: u64,
    },
    /// Refuse new sessions, and end when the transfers have ended.
    Drain {},
    /// Totals over all sessions.
    Stats {},
    /// The limits on clients.
    Limits {},
}

/// An answer.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Who { sessions: Vec<SessionLine> },
    Stats(Totals),
    Limits { limits: Vec<Limit> },
    Done { done: bool },
    Error { error: String },
}

/// A limit, as text.
#[derive(Debug, Serialize)]
pub(super) struct Limit {
    pub(super) what: &'static str,
    pub(super) limit: String,
    pub(super) setting: Option<&'static str>,
    pub(super) beyond: &'static str,
}

/// The socket, opened before the process is confined.
#[derive(Debug)]
pub(super) struct Opened {
    listener: StdListener,
    /// The user who may connect besides root and the server's user.
    owner: u32,
}

/// Opens the socket, accessible to its owner only. A stale socket of a killed server is replaced.
///
/// # Errors
///
/// A sentence with the problem.
pub(super) fn open(path: &Path) -> Result<Opened, String> {
    let cannot =
        |why: &dyn std::fmt::Display| format!("cannot open the control socket {}: {why}", path.display());
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(cannot(&"another server listens there; name another by --control"));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(|error| cannot(&error))?;
    }
    // From the beginning, before the mode is changed.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = StdListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|error| cannot(&error))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| cannot(&error))?;
    listener.set_nonblocking(true).map_err(|error| cannot(&error))?;
    Ok(Opened { listener, owner: getuid().as_raw() })
}

impl Opened {
    /// Serves permitted users, for ever. `limits` returns the limits with the current settings.
    pub(super) async fn serve(
        self,
        monitor: Monitor,
        limits: impl Fn(&Settings) -> Vec<Limit> + Send + Sync + 'static,
    ) {
        let Ok(listener) = UnixListener::from_std(self.listener) else { return };
        let may = [0, self.owner, geteuid().as_raw()];
        let (places, limits) = (Arc::new(Semaphore::new(CALLERS_MAX)), Arc::new(limits));
        loop {
            let Ok(place) = places.clone().acquire_owned().await else { return };
            let Ok((stream, _)) = listener.accept().await else {
                tokio::time::sleep(Duration::from_millis(100)).await;
                continue;
            };
            let (monitor, limits) = (monitor.clone(), limits.clone());
            tokio::spawn(async move {
                // A connection that sends nothing, or does not read, is closed.
                let _ = timeout(WITHIN, attend(stream, &may, &monitor, &*limits)).await;
                drop(place);
            });
        }
    }
}

async fn attend(
    stream: UnixStream,
    may: &[u32],
    monitor: &Monitor,
    limits: &(impl Fn(&Settings) -> Vec<Limit> + Sync),
) -> std::io::Result<()> {
    let caller = stream.peer_cred()?.uid();
    if !may.contains(&caller) {
        tracing::warn!(
            uid = caller,
            "refused a connection to the control socket: this user is not permitted"
        );
        return Ok(());
    }
    let (read, mut write) = stream.into_split();
    let mut line = String::new();
    BufReader::new(read.take(QUESTION_BYTES)).read_line(&mut line).await?;
    let answer = match serde_json::from_str(&line) {
        Ok(question) => answer(&question, monitor, limits),
        Err(error) => Answer::Error {
            error: format!(
                "not understood: {error}; there are who, kick (with `session`), drain, stats and limits, as in {{\"command\":\"who\"}}"
            ),
        },
    };
    let mut text = serde_json::to_vec(&answer).unwrap_or_default();
    text.push(b'\n');
    write.write_all(&text).await
}

fn answer(question: &Question, monitor: &Monitor, limits: &impl Fn(&Settings) -> Vec<Limit>) -> Answer {
    match question {
        Question::Who {} => Answer::Who { sessions: monitor.shared.activity.who() },
        Question::Kick { session } => match monitor.shared.activity.kick(*session) {
            true => {
                tracing::info!(session, "an operator ends a session");
                Answer::Done { done: true }
            }
            false => Answer::Error {
                error: format!("there is no session {session}; `braidftp ctl who` lists them"),
            },
        },
        Question::Drain {} => {
            tracing::info!("an operator has the server drain");
            monitor.handle.stop();
            Answer::Done { done: true }
        }
        Question::Stats {} => Answer::Stats(monitor.shared.activity.totals()),
        Question::Limits {} => Answer::Limits { limits: limits(&monitor.shared.settings.now()) },
    }
}
