//! `braidftp ctl`: control of a running server over a Unix socket: lists sessions, ends one, or drains the server.
//!
//! A line of JSON in (`{"command":"kick","session":3}`), a line of JSON out, whose `error` says why nothing was done. The socket is
//! its owner's alone (mode 600), and the kernel tells who has connected: root, the user who started the server, and the user
//! that it became are answered, others are not. At most `CALLERS_MAX` are answered at once, each within `WITHIN`.

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

/// Callers that are answered at once.
const CALLERS_MAX: usize = 8;
/// How long a caller may take to ask, and to read the answer.
const WITHIN: Duration = Duration::from_secs(10);
/// Bytes of a question.
const QUESTION_BYTES: u64 = 1024;

/// What can be asked.
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
    /// Take no more sessions, and end when the transfers are over.
    Drain {},
    /// Numbers of all sessions together.
    Stats {},
    /// What the server lets its clients have.
    Limits {},
}

/// What is answered.
#[derive(Debug, Serialize)]
#[serde(untagged)]
pub(super) enum Answer {
    Who { sessions: Vec<SessionLine> },
    Stats(Totals),
    Limits { limits: Vec<Limit> },
    Done { done: bool },
    Error { error: String },
}

/// A limit, in words.
#[derive(Debug, Serialize)]
pub(super) struct Limit {
    pub(super) what: &'static str,
    pub(super) limit: String,
    pub(super) setting: Option<&'static str>,
    pub(super) beyond: &'static str,
}

/// The socket, open, before the process is confined.
#[derive(Debug)]
pub(super) struct Opened {
    listener: StdListener,
    /// Who may ask besides root and the user that the server is by then.
    owner: u32,
}

/// Opens the socket, for its owner alone. One that nobody listens at, of a server that was killed, makes room.
///
/// # Errors
/// It cannot be had: a sentence.
pub(super) fn open(path: &Path) -> Result<Opened, String> {
    let cannot =
        |why: &dyn std::fmt::Display| format!("cannot open the control socket {}: {why}", path.display());
    if std::os::unix::net::UnixStream::connect(path).is_ok() {
        return Err(cannot(&"another server listens there; name another by --control"));
    }
    if std::fs::symlink_metadata(path).is_ok_and(|is| is.file_type().is_socket()) {
        std::fs::remove_file(path).map_err(|error| cannot(&error))?;
    }
    // From its first moment, whatever the mode is changed to afterwards.
    let before = rustix::process::umask(rustix::fs::Mode::from_raw_mode(0o177));
    let bound = StdListener::bind(path);
    rustix::process::umask(before);
    let listener = bound.map_err(|error| cannot(&error))?;
    std::fs::set_permissions(path, Permissions::from_mode(0o600)).map_err(|error| cannot(&error))?;
    listener.set_nonblocking(true).map_err(|error| cannot(&error))?;
    Ok(Opened { listener, owner: getuid().as_raw() })
}

impl Opened {
    /// Answers those who may ask, for ever. `limits` gives the limits with the settings that hold.
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
                // One who says nothing, or does not read, is hung up on.
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
        tracing::warn!(uid = caller, "the control socket: this user may not ask");
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
