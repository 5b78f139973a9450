//! Hooks: run a program, or send a request to a URL, after an upload, a download or a login.
//!
//! Events wait in a folder, a file for each event and hook, so that they survive a restart. A confined server
//! cannot execute programs, so a process that is started before, [`runner`], runs the hooks. A byte on its
//! standard input makes it read the folder; the end of standard input signals the end of the server. An event
//! is delivered at least once. It is lost only if the process ends between the end of the transfer and the
//! writing of the file.

pub mod runner;

use std::io::{self, Write};
use std::path::{Path, PathBuf};
use std::process::{ChildStdin, Command, Stdio};
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{SystemTime, UNIX_EPOCH};

use serde::{Deserialize, Serialize};

/// The maximum number of events waiting in the folder, for all hooks together.
pub(crate) const QUEUE_MAX: usize = 10_000;
/// The maximum number of events waiting to be written to the folder.
const UNWRITTEN_MAX: usize = 1_000;
/// The suffix of the files of events.
const SUFFIX: &str = ".json";

/// The trigger of a hook.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum On {
    /// A file was received, and is under its final name.
    Upload,
    /// A file was sent completely.
    Download,
    /// A user has logged in.
    Login,
}

/// A hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hook {
    /// The name in the log and in the queue.
    pub name: String,
    /// The triggers.
    pub on: Vec<On>,
    /// The action.
    pub action: Action,
    /// The time limit in seconds, after which the hook is killed.
    pub timeout_seconds: u64,
    /// The maximum number of attempts.
    pub attempts: u32,
}

/// The action of a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum Action {
    /// Runs a program with these arguments; the event is on its standard input, as JSON.
    Run(Vec<String>),
    /// Sends the event to a URL by POST, as JSON; a status of 200 to 299 is success.
    Post(String),
}

impl Hook {
    /// The problem of the hook, if any.
    pub(super) fn complaint(&self) -> Option<String> {
        let is_word = |text: &str| {
            !text.is_empty()
                && text.len() <= 40
                && text.bytes().all(|b| b.is_ascii_alphanumeric() || b"_-".contains(&b))
        };
        if !is_word(&self.name) {
            return Some(format!(
                "hook `{}`: a name is of letters, digits, - and _",
                self.name.escape_debug()
            ));
        }
        let name = &self.name;
        if self.on.is_empty() {
            return Some(format!("hook {name}: `on` names upload, download or login, or several"));
        }
        match &self.action {
            Action::Run(words) => match words.first() {
                None => Some(format!("hook {name}: give `run`, a program and its arguments, or `url`")),
                Some(program) if !program.starts_with('/') => {
                    Some(format!("hook {name}: the program of `run` has an absolute path, not `{program}`"))
                }
                Some(program) => rustix::fs::access(program, rustix::fs::Access::EXEC_OK)
                    .err()
                    .map(|error| format!("hook {name}: cannot run {program}: {error}")),
            },
            Action::Post(url) => match url::Url::parse(url) {
                Ok(url) if matches!(url.scheme(), "http" | "https") => None,
                _ => Some(format!("hook {name}: `url` is an http:// or https:// URL, not `{url}`")),
            },
        }
    }
}

/// The data passed to a hook.
#[derive(Debug, Clone, Serialize)]
pub(super) struct Event {
    pub(super) event: On,
    /// Microseconds since 1970.
    pub(super) time_us: u64,
    pub(super) session: u64,
    pub(super) peer: String,
    pub(super) user: String,
    /// The path relative to the user's root. Invalid UTF-8 is replaced.
    pub(super) path: Option<String>,
    /// The path on this machine; likewise.
    pub(super) file: Option<String>,
    pub(super) bytes: Option<u64>,
    pub(super) seconds: Option<f64>,
}

/// The configuration of the runner process.
#[derive(Debug, Serialize, Deserialize)]
struct Start {
    folder: PathBuf,
    hooks: Vec<Hook>,
    /// The user to become, as UID:GID.
    run_as: Option<String>,
    json: bool,
}

/// The queue of events.
#[derive(Debug)]
pub struct Queue {
    folder: PathBuf,
    hooks: Vec<Hook>,
    /// The served folder.
    pub(super) root: PathBuf,
    bell: Mutex<ChildStdin>,
    waiting: AtomicUsize,
    unwritten: AtomicUsize,
    next: AtomicU64,
}

/// The parameters of a queue.
#[derive(Debug, Clone)]
pub(super) struct QueueSettings<'a> {
    pub(super) folder: &'a Path,
    pub(super) root: &'a Path,
    pub(super) hooks: &'a [Hook],
    pub(super) run_as: Option<String>,
    pub(super) json: bool,
}

impl Queue {
    /// Starts the process that runs hooks. Must be called before this process is confined.
    ///
    /// # Errors
    ///
    /// The folder cannot be used, or the process cannot be started: a sentence.
    pub(super) fn start(settings: QueueSettings<'_>) -> Result<Self, String> {
        let QueueSettings { folder, root, hooks, run_as, json } = settings;
        let cannot =
            |what: &str, error: io::Error| format!("hooks: cannot {what} {}: {error}", folder.display());
        std::fs::create_dir_all(folder).map_err(|error| cannot("make the folder", error))?;
        if let Some((uid, gid)) = run_as.as_deref().and_then(|ids| ids.split_once(':')) {
            let owner = (uid.parse().ok(), gid.parse().ok());
            std::os::unix::fs::chown(folder, owner.0, owner.1).map_err(|error| cannot("give away", error))?;
        }
        let folder = folder.canonicalize().map_err(|error| cannot("find", error))?;
        let start = Start { folder: folder.clone(), hooks: hooks.to_vec(), run_as, json };
        // Its own process group, so that it receives no signals from the server's terminal.
        use std::os::unix::process::CommandExt;
        let child = Command::new("/proc/self/exe")
            .arg("run-hooks")
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .process_group(0)
            .spawn();
        let mut child = child.map_err(|error| cannot("start the process for", error))?;
        let mut bell = child.stdin.take().ok_or("hooks: the process has no standard input")?;
        let mut line = serde_json::to_vec(&start).map_err(|error| error.to_string())?;
        line.push(b'\n');
        bell.write_all(&line).map_err(|error| cannot("tell the process of", error))?;
        let waiting = AtomicUsize::new(count(&folder));
        Ok(Self {
            folder,
            hooks: hooks.to_vec(),
            root: root.to_owned(),
            bell: Mutex::new(bell),
            waiting,
            unwritten: AtomicUsize::new(0),
            next: AtomicU64::new(0),
        })
    }

    /// Puts an event into the queue for each hook with this trigger. `told` is called with the result for
    /// each: `queued` or `dropped`. Must be called within a tokio runtime.
    pub(super) fn push(self: &Arc<Self>, event: Event, told: impl Fn(&'static str) + Send + 'static) {
        if !self.hooks.iter().any(|hook| hook.on.contains(&event.event)) {
            return;
        }
        if self.unwritten.fetch_add(1, Ordering::Relaxed) >= UNWRITTEN_MAX {
            self.unwritten.fetch_sub(1, Ordering::Relaxed);
            tracing::warn!("an event for hooks was dropped: the disk of the queue is too slow");
            return told("dropped");
        }
        let queue = self.clone();
        tokio::task::spawn_blocking(move || {
            for hook in queue.hooks.iter().filter(|hook| hook.on.contains(&event.event)) {
                match queue.write(&event, hook) {
                    Ok(()) => told("queued"),
                    Err(error) => {
                        tracing::error!(hook = hook.name, %error, "an event for a hook was dropped");
                        told("dropped");
                    }
                }
            }
            queue.unwritten.fetch_sub(1, Ordering::Relaxed);
            let mut bell = queue.bell.lock().unwrap_or_else(PoisonError::into_inner);
            if let Err(error) = bell.write_all(b"\n") {
                tracing::error!(%error, "the process that runs hooks has ended; events wait until the server is started again");
            }
        });
    }

    fn write(&self, event: &Event, hook: &Hook) -> io::Result<()> {
        if self.waiting.fetch_add(1, Ordering::Relaxed) >= QUEUE_MAX {
            // Completed events were removed since.
            let now = count(&self.folder);
            self.waiting.store(now + 1, Ordering::Relaxed);
            if now >= QUEUE_MAX {
                self.waiting.store(now, Ordering::Relaxed);
                return Err(io::Error::other(format!("{QUEUE_MAX} events wait already")));
            }
        }
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let name = format!("{:020}-{number:010}-{}{SUFFIX}", event.time_us, hook.name);
        let unfinished = self.folder.join(format!(".{name}"));
        std::fs::write(&unfinished, serde_json::to_vec(event)?)?;
        std::fs::rename(&unfinished, self.folder.join(name))
    }
}

/// The number of events waiting in a folder.
fn count(folder: &Path) -> usize {
    names(folder).len()
}

/// The names of the events waiting in a folder, the oldest first.
fn names(folder: &Path) -> Vec<String> {
    let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> = entries
        .filter_map(|entry| entry.file_name().into_string().ok())
        .filter(|name| !name.starts_with('.') && name.ends_with(SUFFIX))
        .collect();
    names.sort();
    names
}

/// The current time in microseconds since 1970.
pub(super) fn now_us() -> u64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_micros() as u64)
}
