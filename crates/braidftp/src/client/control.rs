//! Control of a running job by commands: `path`, `path off 2` and `path on 2` take paths out of use and put
//! them back; `limit`, `limit 3mbit` and `limit off` show and change the rate of file bytes.
//!
//! Commands are accepted from everybody who may write to the Unix socket that `--control SOCKET` creates. The
//! input is one line; the output is lines, the last of them `ok` or `error: why`. `braidftp path SOCKET off
//! 2`, `braidftp limit SOCKET 3mbit` and `nc -U` are clients. The socket is accessible to its owner only, and
//! is removed when the job ends. A path that was taken out of use stays out in connections that are opened
//! later.

use std::fmt::Write as _;
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::Duration;

use braidftp_net::PathUse;
use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{UnixListener, UnixStream};
use tokio::sync::Semaphore;

use super::carrier::{Ends, Gauge};
use crate::exit::{Error, Exit, Result};
use crate::limiter::Limiter;

/// The maximum length of an input line.
const LINE_MAX: u64 = 256;
/// The maximum number of concurrent connections to the socket; others wait.
const CALLERS_MAX: usize = 8;
/// The interval at which the paths of the job are checked.
const LOOK_EVERY: Duration = Duration::from_millis(200);
/// How long a connection may be silent.
const PATIENCE: Duration = Duration::from_secs(60);

/// The accepted commands, for the error about other input.
const WORDS: &str =
    "there are `path`, `path off NUMBER`, `path on NUMBER`, `limit`, `limit RATE` and `limit off`";

/// Controls the paths of a job's sessions. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct PathControl(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// The gauge of the current session.
    gauge: Mutex<Option<Gauge>>,
    /// The limiter of the job's rate.
    limiter: Mutex<Option<Arc<Limiter>>>,
    /// The paths out of use.
    aside: Mutex<Vec<Ends>>,
    /// The socket, which is removed when the last clone is dropped.
    socket: Mutex<Option<Socket>>,
}

/// The name of a socket in the file system.
#[derive(Debug)]
struct Socket(PathBuf);

impl Drop for Socket {
    fn drop(&mut self) {
        // Another process may have removed it.
        let _ = std::fs::remove_file(&self.0);
    }
}

impl PathControl {
    /// Uses this session from now on.
    pub(super) fn attach(&self, gauge: Gauge) {
        *lock(&self.0.gauge) = Some(gauge);
    }

    /// Lets `limit` control this limiter.
    pub fn steer(&self, limiter: Arc<Limiter>) {
        *lock(&self.0.limiter) = Some(limiter);
    }

    /// Accepts commands on a Unix socket of this name until the last clone is dropped. Needs a tokio runtime.
    ///
    /// # Errors
    ///
    /// The socket cannot be created.
    pub fn listen(&self, at: &Path) -> Result<()> {
        let wrong = |why: &dyn std::fmt::Display| {
            Error::new(Exit::Usage, format_args!("open the control socket {}", at.display()), why)
                .hint("--control takes a name for a new socket, in a folder that you may write to")
        };
        if std::os::unix::net::UnixStream::connect(at).is_ok() {
            return Err(wrong(&"another job listens there"));
        }
        // A socket without a listener was left by a job that was killed.
        let left = std::fs::symlink_metadata(at).is_ok_and(|is| {
            use std::os::unix::fs::FileTypeExt;
            is.file_type().is_socket()
        });
        if left {
            std::fs::remove_file(at).map_err(|error| wrong(&error))?;
        }
        let listener = UnixListener::bind(at).map_err(|error| wrong(&error))?;
        let socket = Socket(at.to_owned());
        std::fs::set_permissions(at, std::fs::Permissions::from_mode(0o600))
            .map_err(|error| wrong(&error))?;
        *lock(&self.0.socket) = Some(socket);
        tokio::spawn(accept(listener, Arc::downgrade(&self.0)));
        Ok(())
    }
}

impl Shared {
    /// Executes a line and returns the answer, or the reason why it was not executed.
    fn run(&self, line: &str) -> std::result::Result<String, String> {
        let words: Vec<&str> = line.split_whitespace().collect();
        if let ["limit", rate @ ..] = words.as_slice() {
            return self.limit(rate);
        }
        let gauge = lock(&self.gauge);
        let gauge = gauge.as_ref().ok_or("there is no connection yet")?;
        let number = |text: &str| {
            text.parse().map_err(|_| format!("`{}` is not the number of a path", text.escape_debug()))
        };
        match words.as_slice() {
            ["path" | "paths"] | ["path", "list"] => Ok(list(gauge)),
            ["path", "off", which] => {
                let ends = gauge.set_path_use(number(which)?, PathUse::SetAside)?;
                let mut aside = lock(&self.aside);
                if !aside.contains(&ends) {
                    aside.push(ends);
                }
                Ok(list(gauge))
            }
            ["path", "on", which] => {
                let ends = gauge.set_path_use(number(which)?, PathUse::InUse)?;
                lock(&self.aside).retain(|aside| *aside != ends);
                Ok(list(gauge))
            }
            _ => Err(format!("`{}` is not understood; {WORDS}", line.trim().escape_debug())),
        }
    }
}

impl Shared {
    /// Returns the rate, after changing it if requested.
    fn limit(&self, rate: &[&str]) -> std::result::Result<String, String> {
        let limiter = lock(&self.limiter);
        let limiter = limiter.as_ref().ok_or("this job has no rate")?;
        match rate {
            [] => {}
            ["off"] => limiter.set(None),
            [rate] => {
                let wrong = |why| format!("`{}` is no rate: {why}", rate.escape_debug());
                limiter.set(Some(rate.parse().map_err(wrong)?));
            }
            _ => return Err(format!("too many words; {WORDS}")),
        }
        Ok(match limiter.rate() {
            Some(rate) => format!("limit {rate}\n"),
            None => "limit off\n".into(),
        })
    }
}

fn lock<T>(shared: &Mutex<T>) -> MutexGuard<'_, T> {
    shared.lock().unwrap_or_else(PoisonError::into_inner)
}

/// One line per path, with its number.
fn list(gauge: &Gauge) -> String {
    let mut lines = String::new();
    for (index, path) in gauge.control_paths().iter().enumerate() {
        let rtt = path.srtt_ms.map(|ms| format!(", RTT {ms:.1} ms")).unwrap_or_default();
        // Writing to a string does not fail.
        let _ = writeln!(
            lines,
            "{} {} {} – {}: {} bytes out, {} in{rtt}",
            index + 1,
            path.state.unwrap_or("active"),
            path.local,
            path.peer,
            path.bytes_sent.unwrap_or(0),
            path.bytes_received.unwrap_or(0),
        );
    }
    lines
}

async fn accept(listener: UnixListener, shared: Weak<Shared>) {
    let callers = Arc::new(Semaphore::new(CALLERS_MAX));
    loop {
        let Ok(place) = callers.clone().acquire_owned().await else { return };
        let stream = tokio::select! {
            accepted = listener.accept() => match accepted {
                Ok((stream, _)) => stream,
                // For example too many open files.
                Err(_) => {
                    tokio::time::sleep(Duration::from_millis(100)).await;
                    continue;
                }
            },
            () = keep_aside(&shared) => return,
        };
        let shared = shared.clone();
        tokio::spawn(async move {
            // A caller that has closed the connection needs no answer.
            let _ = serve(stream, &shared).await;
            drop(place);
        });
    }
}

/// Keeps paths out of use in connections that are opened later, until the last clone is dropped.
async fn keep_aside(shared: &Weak<Shared>) {
    while let Some(shared) = shared.upgrade() {
        let aside = lock(&shared.aside).clone();
        if let Some(gauge) = &*lock(&shared.gauge) {
            gauge.keep_aside(&aside);
        }
        drop(shared);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

async fn serve(mut stream: UnixStream, shared: &Weak<Shared>) -> std::io::Result<()> {
    let (from, mut to) = stream.split();
    let mut from = BufReader::new(from);
    loop {
        let mut line = Vec::new();
        let mut limited = (&mut from).take(LINE_MAX);
        match tokio::time::timeout(PATIENCE, limited.read_until(b'\n', &mut line)).await {
            Ok(Ok(read)) if read > 0 => {}
            _ => return Ok(()),
        }
        if !line.ends_with(b"\n") && line.len() as u64 == LINE_MAX {
            return to.write_all(format!("error: the line is too long; {WORDS}\n").as_bytes()).await;
        }
        let Some(shared) = shared.upgrade() else { return Ok(()) };
        let answer = match shared.run(&String::from_utf8_lossy(&line)) {
            Ok(lines) => format!("{lines}ok\n"),
            Err(why) => format!("error: {why}\n"),
        };
        drop(shared);
        to.write_all(answer.as_bytes()).await?;
    }
}

/// Sends a line to the socket of a job, and returns the answer.
///
/// # Errors
///
/// Nobody listens there, or the command was refused.
pub async fn say(at: &Path, line: &str) -> Result<String> {
    let failed = |exit: Exit, why: &dyn std::fmt::Display| {
        Error::new(exit, format_args!("send a command to the job at {}", at.display()), why)
    };
    let io = |error: std::io::Error| {
        failed(Exit::Connect, &error).hint("is a job running that was begun with --control and this name?")
    };
    let mut stream = UnixStream::connect(at).await.map_err(io)?;
    stream.write_all(format!("{line}\n").as_bytes()).await.map_err(io)?;
    stream.shutdown().await.map_err(io)?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).await.map_err(io)?;
    match answer.trim_end().rsplit_once('\n').unwrap_or(("", answer.trim_end())) {
        (lines, "ok") => Ok(lines.to_owned()),
        (_, last) => Err(failed(Exit::Refused, &last.strip_prefix("error: ").unwrap_or("it ended"))),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn invalid_and_impossible_commands_are_answered_with_the_reason() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("control");
        let control = PathControl::default();
        control.listen(&at).unwrap();
        let why = |error: Error| error.to_string();
        assert!(why(say(&at, "path").await.unwrap_err()).contains("no connection yet"));
        control.attach(Gauge::default());
        assert_eq!(say(&at, "path").await.unwrap(), "");
        assert!(why(say(&at, "path off 1").await.unwrap_err()).contains("no association"));
        assert!(why(say(&at, "path off x").await.unwrap_err()).contains("not the number"));
        assert!(why(say(&at, "halt").await.unwrap_err()).contains("path on NUMBER"));
        let longest = "x".repeat(LINE_MAX as usize - 1);
        assert!(
            why(say(&at, &longest).await.unwrap_err()).contains("not understood"),
            "with its end it fits"
        );
        assert!(why(say(&at, &format!("{longest}x")).await.unwrap_err()).contains("too long"));
        // Only its owner may open it, and it is removed at the end of the job.
        assert_eq!(std::fs::metadata(&at).unwrap().permissions().mode() & 0o777, 0o600);
        assert!(why(PathControl::default().listen(&at).unwrap_err()).contains("another job"));
        drop(control);
        assert!(!at.exists());
        assert_eq!(say(&at, "path").await.unwrap_err().exit, Exit::Connect);
    }

    #[tokio::test]
    async fn the_rate_is_shown_and_changed_before_and_after_the_connection() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("control");
        let control = PathControl::default();
        control.listen(&at).unwrap();
        assert!(say(&at, "limit").await.unwrap_err().to_string().contains("no rate"));
        let limiter = Arc::new(Limiter::new(None));
        control.steer(limiter.clone());
        assert_eq!(say(&at, "limit").await.unwrap(), "limit off");
        assert_eq!(say(&at, "limit 3mbit").await.unwrap(), "limit 3mbit");
        assert_eq!(limiter.rate(), Some("3mbit".parse().unwrap()));
        for (line, says) in [("limit fast", "`fast` is not a rate"), ("limit 1mbit 2", "too many words")] {
            let why = say(&at, line).await.unwrap_err().to_string();
            assert!(why.contains(says), "{why}");
        }
        assert_eq!(say(&at, "limit off").await.unwrap(), "limit off");
        assert_eq!(limiter.rate(), None);
    }

    #[tokio::test]
    async fn a_caller_beyond_the_limit_waits_until_another_leaves() {
        let folder = tempfile::tempdir().unwrap();
        let at = folder.path().join("control");
        let control = PathControl::default();
        control.listen(&at).unwrap();
        control.attach(Gauge::default());
        let mut callers = Vec::new();
        for _ in 0..CALLERS_MAX {
            let mut caller = BufReader::new(UnixStream::connect(&at).await.unwrap());
            caller.write_all(b"path\n").await.unwrap();
            let mut answer = String::new();
            caller.read_line(&mut answer).await.unwrap();
            assert_eq!(answer, "ok\n");
            callers.push(caller);
        }
        let mut late = UnixStream::connect(&at).await.unwrap();
        late.write_all(b"path\n").await.unwrap();
        for _ in 0..1_000 {
            tokio::task::yield_now().await;
        }
        let mut answer = [0; 3];
        let early = late.try_read(&mut answer);
        assert_eq!(early.unwrap_err().kind(), std::io::ErrorKind::WouldBlock, "there is no place for it");
        callers.pop();
        late.read_exact(&mut answer).await.unwrap();
        assert_eq!(&answer, b"ok\n");
    }

    #[tokio::test]
    async fn a_stale_socket_is_replaced_and_another_file_is_not() {
        let folder = tempfile::tempdir().unwrap();
        let (left, file) = (folder.path().join("left"), folder.path().join("file"));
        drop(std::os::unix::net::UnixListener::bind(&left).unwrap());
        PathControl::default().listen(&left).unwrap();
        std::fs::write(&file, "mine").unwrap();
        assert!(PathControl::default().listen(&file).is_err());
        assert_eq!(std::fs::read(&file).unwrap(), b"mine");
    }
}
