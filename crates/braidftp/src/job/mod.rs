//! Jobs: each runs a command to its end, over as many sessions as necessary.
//!
//! A job consists of repeatable attempts: an attempt compares both sides and transfers what is missing. After
//! a lost connection the next attempt continues over a new connection where the last one ended; so does the
//! same command on another day. Memory grows by a few bytes per file.

mod bounds;
mod compare;
mod delete;
mod digests;
mod download;
mod facts;
mod files;
mod filter;
mod filter_rules;
mod get;
mod hard_links;
mod journal;
mod listing;
mod local;
mod mirror;
mod mirror_down;
mod mirror_up;
mod plan;
mod read;
mod tasks;
mod trees;
mod upload;
mod verify;

use std::collections::{HashMap, HashSet};
use std::future::Future;
use std::hash::{BuildHasher, BuildHasherDefault, Hasher};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_ftp::PathArg;

pub use compare::Compare;
pub use files::{
    Form, Parents, Parts, Recursion, Shown, cat, entries, ls, make_folders, names, parts, remove, rename,
    stat,
};
pub use filter::Filter;
pub(crate) use filter::is_glob;
pub use get::{get, put};
pub use journal::{Journal, name as journal_name};
pub use mirror::{Delete, Keep, Mirror};
pub use mirror_down::{MirrorDown, mirror_down};
pub use mirror_up::{MirrorUp, mirror_up};
pub use plan::{Applying, Header, Plan, Writing};
pub use read::Reader;
pub use trees::{Find, Reading, read_trees};
pub use verify::{Verify, verify};

use crate::client::Login;
use crate::client::{Bounds, Client, Options, Refusal, Totals};
use crate::exit::{Again, Error, Exit, Result, Told};
use crate::identity::{Stranger, ask};
use crate::progress::Reporter;
use crate::report::Summary;
use crate::url::Url;

/// The delays before the first and the last attempt to reconnect.
const WAIT: (Duration, Duration) = (Duration::from_millis(500), Duration::from_secs(15));
/// The time limit for an attempt to end after a request to stop.
const STOP: Duration = Duration::from_secs(10);

/// The data of every job.
#[derive(Debug, Clone)]
pub struct Job {
    /// The server.
    pub url: Url,
    /// The login.
    pub login: Login,
    /// The options of sessions.
    pub options: Options,
    /// How often a lost connection is opened again without progress in between, and how often a file whose
    /// data connection failed is requested again.
    pub retries: u32,
    /// How long after its start a job reconnects; `None`: without limit.
    pub retry_for: Option<Duration>,
    /// The receiver of events.
    pub reporter: Reporter,
    /// The results of all attempts.
    pub record: Record,
    /// The caller of the job.
    pub caller: Caller,
}

/// The caller of a job.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Caller {
    /// A command: SIGINT and SIGTERM end the job, and the user at the terminal is asked about a new server.
    Command,
    /// A program that uses this library: signals are not handled, and nobody is asked.
    Library,
}

/// Completed and failed paths, over all attempts of a job. Clones share it.
#[derive(Debug, Clone, Default)]
pub struct Record(Arc<Mutex<Recorded>>);

#[derive(Debug, Default)]
struct Recorded {
    /// Hashes of the paths that need no further attempt: a few bytes per file.
    settled: HashSet<u128, BuildHasherDefault<Ready>>,
    /// Those of them that failed.
    bad: HashSet<u128, BuildHasherDefault<Ready>>,
    /// The first error of a file, and the number of errors with each code.
    first_error: Option<Error>,
    errors: u64,
    codes: Vec<Exit>,
    /// The number of completed files.
    good: u64,
    /// An error that ends the job, because it affects every other file.
    fatal: Option<Error>,
    /// The totals of all sessions.
    totals: Totals,
    /// [`Job::retries`].
    retries: u32,
    /// How often each path was left to another attempt.
    tries: HashMap<u128, u32, BuildHasherDefault<Ready>>,
    /// The journal, in which finished files are recorded.
    journal: Option<Journal>,
    /// Whether the journal was read.
    is_resumed: bool,
    /// The last error for which another attempt is needed.
    again: Option<Error>,
}

/// A hasher for keys that are hashes already.
#[derive(Debug, Default, Clone, Copy)]
pub(crate) struct Ready(u64);

impl Hasher for Ready {
    fn finish(&self) -> u64 {
        self.0
    }

    fn write(&mut self, bytes: &[u8]) {
        for chunk in bytes.chunks(8) {
            let mut word = [0; 8];
            word[..chunk.len()].copy_from_slice(chunk);
            self.0 ^= u64::from_ne_bytes(word);
        }
    }
}

/// The hash of a path: sixteen bytes of BLAKE3, without collisions in practice.
pub(crate) fn path_hash(path: &[u8]) -> u128 {
    let mut bytes = [0; 16];
    bytes.copy_from_slice(&blake3::hash(path).as_bytes()[..16]);
    u128::from_le_bytes(bytes)
}

impl Record {
    fn lock(&self) -> MutexGuard<'_, Recorded> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Checks that all attempts together have not settled more paths than a tree may have.
    pub(crate) fn check_entries(&self, bounds: Bounds) -> Result<()> {
        // Otherwise a server that ends each attempt after a new path would make this grow without limit.
        match self.lock().settled.len() as u64 > bounds.max_entries {
            false => Ok(()),
            true => {
                let why = format_args!("it had more than {} paths in all attempts", bounds.max_entries);
                Err(Error::new(Exit::Protocol, "finish the job", why).hint("--max-entries takes more"))
            }
        }
    }

    /// Whether nothing of this attempt needs another one.
    pub(crate) fn is_final(&self) -> bool {
        self.lock().again.is_none()
    }

    /// Whether this path was completed, or failed permanently, before.
    pub(crate) fn is_settled(&self, path: &[u8]) -> bool {
        self.lock().settled.contains(&path_hash(path))
    }

    /// Whether this path failed permanently.
    pub(crate) fn has_failed(&self, path: &[u8]) -> bool {
        self.lock().bad.contains(&path_hash(path))
    }

    /// Records that this path is complete.
    pub(crate) fn done(&self, path: &[u8]) {
        self.settle(path);
    }

    /// Records that this path is complete; returns the journal.
    fn settle(&self, path: &[u8]) -> Option<Journal> {
        let hash = path_hash(path);
        let mut recorded = self.lock();
        recorded.settled.insert(hash);
        recorded.good += 1;
        recorded.journal.clone()
    }

    /// Records that this file or link is complete, also for later runs with the same journal.
    pub(crate) fn finished(&self, path: &[u8]) {
        if let Some(journal) = self.settle(path) {
            journal.done(path);
        }
    }

    /// Uses a journal from now on.
    pub fn keep(&self, journal: Journal) {
        self.lock().journal = Some(journal);
    }

    /// In the first attempt, treats paths as complete that earlier runs with the same journal have finished; see
    /// [`Journal::finished`].
    ///
    /// # Errors
    ///
    /// The journal cannot be read, or the session has ended.
    pub(crate) async fn resume(
        &self,
        bounds: Bounds,
        is_gone: impl Future<Output = Result<bool>>,
    ) -> Result<()> {
        let journal = {
            let recorded = self.lock();
            recorded.journal.clone().filter(|_| !recorded.is_resumed)
        };
        let Some(journal) = journal else { return Ok(()) };
        let finished = journal.finished(bounds.max_entries, is_gone).await?;
        let mut recorded = self.lock();
        recorded.settled.extend(finished);
        recorded.is_resumed = true;
        Ok(())
    }

    /// The journal, if there is one.
    pub(crate) fn journal(&self) -> Option<Journal> {
        self.lock().journal.clone()
    }

    /// Records that this path has failed. A transient error belongs to the attempt. An error that another
    /// attempt may avoid is left to that attempt. Other errors are reported and counted once.
    pub(crate) fn failed(&self, reporter: &Reporter, path: &[u8], error: Error) {
        if error.is_transient() || error.exit == Exit::Sigint {
            return;
        }
        let mut recorded = self.lock();
        if recorded.may_come_yet(path, &error) {
            return;
        }
        if !recorded.settled.insert(path_hash(path)) {
            return;
        }
        recorded.bad.insert(path_hash(path));
        recorded.errors += 1;
        if !recorded.codes.contains(&error.exit) {
            recorded.codes.push(error.exit);
        }
        recorded.first_error.get_or_insert_with(|| error.clone());
        drop(recorded);
        reporter.failed(path, &error);
    }

    /// Records that the job leaves a path out, and why.
    pub(crate) fn left_out(&self, reporter: &Reporter, path: &[u8], why: impl std::fmt::Display) {
        let what = format_args!("mirror {}", crate::exit::escape(path));
        self.failed(reporter, path, Error::new(Exit::SomeFailed, what, format_args!("{why}: left out")));
    }

    /// Records an error of a file that affects every other file: the job ends with it.
    pub(crate) fn fatal(&self, reporter: &Reporter, path: &[u8], error: Error) {
        self.failed(reporter, path, error.clone());
        self.lock().fatal.get_or_insert(Error { told: Told::Yes, ..error });
    }

    /// The totals of all sessions that have ended.
    pub fn totals(&self) -> Totals {
        self.lock().totals
    }

    /// Returns the error that ends the job, if there is one.
    pub(crate) fn check(&self) -> Result<()> {
        match &self.lock().fatal {
            Some(error) => Err(error.clone()),
            None => Ok(()),
        }
    }

    /// The result of an attempt that was successful, except for errors that need another attempt.
    fn round_off(&self, result: Result<()>) -> Result<()> {
        let mut recorded = self.lock();
        match result {
            Ok(()) => recorded.again.take().map_or(Ok(()), Err),
            // The error of the whole listing, which belongs to no file.
            Err(error) if recorded.may_come_yet(b"", &error) => recorded.again.take().map_or(Err(error), Err),
            Err(error) => Err(error),
        }
    }

    fn progress(&self) -> u64 {
        let recorded = self.lock();
        recorded.good + recorded.errors
    }

    /// The result over all files. If a single file was requested and failed, its own code; if some of several
    /// failed, 10.
    fn verdict(&self) -> Result<()> {
        let recorded = self.lock();
        match (&recorded.first_error, recorded.codes.as_slice()) {
            (None, _) => Ok(()),
            (Some(error), [_]) if recorded.good == 0 => Err(Error { told: Told::Yes, ..error.clone() }),
            (Some(_), _) => Err(Error::new(
                Exit::SomeFailed,
                "finish the job",
                format_args!(
                    "{} failed; the others are complete",
                    if recorded.errors == 1 { "1 file".into() } else { format!("{} files", recorded.errors) }
                ),
            )
            .hint("see the errors above; the same command tries those files again")),
        }
    }
}

impl Recorded {
    /// Whether this error of a path is left to another attempt: the session continues with the other files.
    fn may_come_yet(&mut self, path: &[u8], error: &Error) -> bool {
        if error.again == Again::Vain {
            return false;
        }
        let tries = self.tries.entry(path_hash(path)).or_default();
        if *tries >= self.retries {
            return false;
        }
        *tries += 1;
        self.again = Some(Error { exit: Exit::Interrupted, ..error.clone() });
        true
    }
}

impl Job {
    /// Makes attempts until one is successful, then prints the summary. `attempt` receives a session and must
    /// return when the session ends.
    ///
    /// # Errors
    ///
    /// Why the job failed; Ctrl-C; or that some files failed.
    pub async fn run<F>(&self, command: &'static str, attempt: impl Fn(Client) -> F) -> (Summary, Result<()>)
    where
        F: Future<Output = Result<()>>,
    {
        self.reporter.start(command, self.url.to_string());
        let result = self.attempts(attempt).await.and_then(|()| self.record.verdict());
        (self.reporter.finish(), result)
    }

    async fn attempts<F>(&self, attempt: impl Fn(Client) -> F) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let mut signals = Signals::of(self.caller)?;
        let begun = std::time::Instant::now();
        let mut made = 0;
        let mut progress = self.record.progress();
        let mut ever_up = false;
        self.record.lock().retries = self.retries;
        loop {
            let mut was_up = false;
            // A server that was reachable before may be restarting.
            let refusal = if ever_up { Refusal::Waits } else { self.options.refusal };
            let options = Options { reporter: Some(self.reporter.clone()), refusal, ..self.options.clone() };
            let error = match self.once(options, &attempt, &mut signals, &mut was_up).await {
                Ok(()) => return Ok(()),
                Err(error) => error,
            };
            // A lost connection proves that there was a server, even without a login.
            ever_up |= was_up || error.exit == Exit::Interrupted;
            if signals.came {
                return Err(error);
            }
            self.record.check()?;
            self.record.check_entries(self.options.bounds)?;
            if let Some(stranger) = &error.stranger
                && self.is_trusted_now(stranger, &mut signals).await?
            {
                continue;
            }
            let worth_another = match error.exit {
                Exit::Connect | Exit::Interrupted => ever_up,
                // A server that had accepted the login and was then silent for --timeout is not retried. A
                // server that does not answer a new connection may be starting.
                Exit::TimedOut => ever_up && !was_up,
                _ => false,
            };
            if !worth_another {
                return Err(error);
            }
            if self.record.progress() > progress {
                progress = self.record.progress();
                made = 0;
            }
            if made >= self.retries {
                return Err(given_up(error));
            }
            made += 1;
            let wait = jittered(WAIT.0.saturating_mul(1 << (made - 1).min(5)).min(WAIT.1));
            if self.retry_for.is_some_and(|limit| begun.elapsed() + wait > limit) {
                return Err(given_up(error));
            }
            self.reporter.retry(made, self.retries, &error, wait);
            tokio::select! {
                () = tokio::time::sleep(wait) => {}
                error = signals.next() => return Err(error),
            }
        }
    }

    /// Asks the user at the terminal about a new server. A confirmed server is added to `known_hosts`.
    async fn is_trusted_now(&self, stranger: &Stranger, signals: &mut Signals) -> Result<bool> {
        let Some(trust) = self.options.protection.trust() else { return Ok(false) };
        if self.caller == Caller::Library {
            return Ok(false);
        }
        let asked = stranger.clone();
        let answer = tokio::select! {
            answer = tokio::task::spawn_blocking(move || ask(&asked)) => answer.unwrap_or(false),
            error = signals.next() => return Err(error),
        };
        if answer {
            trust.remember(stranger)?;
        }
        Ok(answer)
    }

    /// Runs one attempt over one session; `was_up` becomes true if the login succeeded.
    async fn once<F>(
        &self,
        options: Options,
        attempt: &impl Fn(Client) -> F,
        signals: &mut Signals,
        was_up: &mut bool,
    ) -> Result<()>
    where
        F: Future<Output = Result<()>>,
    {
        let client = tokio::select! {
            client = Client::connect(&self.url, self.login.clone(), options) => client?,
            error = signals.next() => return Err(error),
        };
        self.reporter.watch(client.probe());
        let mut work = std::pin::pin!(attempt(client.clone()));
        let result = tokio::select! {
            result = &mut work => result,
            error = signals.next() => {
                client.stop(error.clone()).await;
                // Data in progress is stored for the next run; a second Ctrl-C exits immediately.
                tokio::select! {
                    _ = tokio::time::timeout(STOP, &mut work) => {}
                    _ = signals.next() => {}
                }
                return Err(error);
            }
        };
        let result = self.record.round_off(result);
        *was_up = client.was_up();
        let totals = client.watch_totals();
        match &result {
            Ok(()) => client.close().await,
            Err(error) => client.stop(error.clone()).await,
        }
        self.record.lock().totals += totals();
        result
    }
}

/// A random time between half of `wait` and `wait`, so that clients that lost the same server do not
/// reconnect at the same time.
fn jittered(wait: Duration) -> Duration {
    let random = std::hash::RandomState::new().hash_one(());
    wait.div_f64(2.0) + wait.mul_f64(random as f64 / u64::MAX as f64 / 2.0)
}

/// The error after all attempts: transferred data is kept, so that the job can be resumed.
fn given_up(error: Error) -> Error {
    match error.exit {
        Exit::Connect => Error { exit: Exit::Interrupted, ..error }
            .hint("run the same command again to resume when the server can be reached"),
        _ => error,
    }
}

/// SIGINT and SIGTERM, if the job handles them.
struct Signals {
    signals: Option<[tokio::signal::unix::Signal; 2]>,
    /// Whether a signal arrived, after which there are no more attempts.
    came: bool,
}

impl Signals {
    fn of(caller: Caller) -> Result<Self> {
        use tokio::signal::unix::{SignalKind, signal};
        if caller == Caller::Library {
            return Ok(Self { signals: None, came: false });
        }
        let failed = |e: std::io::Error| Error::local("wait for signals", &e);
        let [interrupt, terminate] = [SignalKind::interrupt(), SignalKind::terminate()].map(signal);
        let signals = [interrupt.map_err(failed)?, terminate.map_err(failed)?];
        Ok(Self { signals: Some(signals), came: false })
    }

    /// Waits for a signal.
    async fn next(&mut self) -> Error {
        let hint = "run the same command again to resume";
        let Some([interrupt, terminate]) = &mut self.signals else { return std::future::pending().await };
        let (exit, why) = tokio::select! {
            _ = interrupt.recv() => (Exit::Sigint, "interrupted"),
            _ = terminate.recv() => (Exit::Interrupted, "terminated"),
        };
        self.came = true;
        Error::new(exit, "finish the job", why).hint(hint)
    }
}

/// A path on the server: that of the URL, followed by a path below.
///
/// # Errors
///
/// It is too long for a command, or contains bytes that no command can contain.
pub(crate) fn remote_path(base: &[u8], below: &[u8]) -> Result<Option<PathArg>> {
    let mut path = Vec::with_capacity(base.len() + 1 + below.len());
    path.extend_from_slice(base);
    if !below.is_empty() {
        if !path.is_empty() && !path.ends_with(b"/") {
            path.push(b'/');
        }
        path.extend_from_slice(below);
    }
    if path.is_empty() {
        return Ok(None);
    }
    let path = bytes::Bytes::from(path);
    PathArg::new(path.clone()).map(Some).ok_or_else(|| {
        let what = format_args!("use the path {}", crate::exit::escape(&path)).to_string();
        Error::new(Exit::Usage, what, "no FTP command can carry it")
    })
}

/// A path on the server that must not be empty.
pub(crate) fn named_path(base: &[u8], below: &[u8]) -> Result<PathArg> {
    remote_path(base, below)?
        .ok_or_else(|| Error::usage("use the URL", "its path is empty, and a file is needed"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::progress::Style;

    fn error(exit: Exit) -> Error {
        Error::new(exit, "x", "y")
    }

    #[test]
    fn a_single_failed_file_determines_the_exit_code() {
        let (record, reporter) = (Record::default(), Reporter::new(Style::Quiet, "tcp"));
        record.failed(&reporter, b"a", error(Exit::NoSuchPath));
        assert_eq!(record.verdict().unwrap_err().exit, Exit::NoSuchPath);
        record.failed(&reporter, b"b", error(Exit::NoSuchPath));
        assert_eq!(record.verdict().unwrap_err().exit, Exit::NoSuchPath);
        record.done(b"c");
        assert_eq!(record.verdict().unwrap_err().exit, Exit::SomeFailed);
    }

    #[test]
    fn a_lost_connection_is_not_counted_as_a_failed_file() {
        let (record, reporter) = (Record::default(), Reporter::new(Style::Quiet, "tcp"));
        record.failed(&reporter, b"a", error(Exit::Interrupted));
        assert!(record.verdict().is_ok() && !record.is_settled(b"a"));
        record.done(b"a");
        assert!(record.is_settled(b"a"));
    }

    #[test]
    fn a_file_whose_data_connection_fails_is_retried_a_few_times() {
        let (record, reporter) = (Record::default(), Reporter::new(Style::Quiet, "tcp"));
        let broken = Error { again: Again::Worthwhile, ..error(Exit::Refused) };
        record.lock().retries = 3;
        for _ in 0..3 {
            record.failed(&reporter, b"a", broken.clone());
            assert_eq!(record.round_off(Ok(())).unwrap_err().exit, Exit::Interrupted);
            assert!(record.round_off(Ok(())).is_ok(), "each is an attempt's");
            assert!(record.verdict().is_ok() && !record.is_settled(b"a"));
        }
        record.failed(&reporter, b"a", broken.clone());
        assert!(record.round_off(Ok(())).is_ok());
        assert_eq!(record.verdict().unwrap_err().exit, Exit::Refused);
        for _ in 0..3 {
            assert_eq!(record.round_off(Err(broken.clone())).unwrap_err().exit, Exit::Interrupted);
        }
        assert_eq!(record.round_off(Err(broken)).unwrap_err().exit, Exit::Refused);
    }

    #[test]
    fn remote_paths_are_joined_to_the_path_of_the_url() {
        let joined = |base: &str, below: &str| {
            remote_path(base.as_bytes(), below.as_bytes())
                .unwrap()
                .map(|path| String::from_utf8(path.as_bytes().to_vec()).unwrap())
        };
        assert_eq!(joined("", ""), None);
        assert_eq!(joined("", "a/b").as_deref(), Some("a/b"));
        assert_eq!(joined("/", "a").as_deref(), Some("/a"));
        assert_eq!(joined("x", "a").as_deref(), Some("x/a"));
        assert_eq!(joined("x/", "a").as_deref(), Some("x/a"));
        assert_eq!(joined("x/", "").as_deref(), Some("x/"));
    }
}
