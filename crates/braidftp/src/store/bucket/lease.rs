//! Quotas that hold over several servers before one bucket, which know nothing of each other.
//!
//! An object in the home ([`LEDGER`]) lists how many bytes each server may still add: its lease. A server that
//! needs more reads this object, counts the files, and replaces the object on the condition that nobody else has. It
//! gets a lease if the files, the leases of the others, its own unfinished uploads and the new bytes fit into the quota.
//! A file that was completed before the count is in it; one that is completed later is in a lease, since a server gives
//! up a lease only by another such replacement. So the quota is never exceeded, as long as
//!
//! - the store has conditional requests ([`Bucket::has_conditions`]) and lists what was written before;
//! - the clocks of the servers differ by less than [`ENDS`] - [`LASTS`] less the time of the last request of an upload.
//!
//! What is not there any more may be counted until the next count: an upload may be refused too early, never too late.

use std::fmt::Write as _;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, SystemTime};

use opendal::ErrorKind;
use tokio::time::Instant;

use super::super::fs::{Error, Why};
use super::{Bucket, failed, is_missing, random};

/// The name of the object in a home. Clients neither see it nor can use the name.
pub(super) const LEDGER: &str = ".quota.braidftp-part";
/// The time for which a server uses a lease.
const LASTS: Duration = Duration::from_secs(60);
/// The time after which other servers take a lease for ended, and with it the unfinished uploads of a server that was killed.
const ENDS: Duration = Duration::from_secs(240);
/// The time without uploads after which a server gives up its lease.
const IDLE: Duration = Duration::from_secs(2);
/// A lease contains, besides the bytes that are needed now, this share of the rest of the quota, so that it is seldom renewed.
const SHARE: u64 = 16;
/// And at most this many bytes.
const MORE_BYTES: u64 = 256 << 20;
/// How often a replacement is tried while other servers come first, and the longest pause before the next attempt.
const TRIES: u32 = 30;
const PAUSE_MS: u64 = 400;
/// The number of servers in the object.
const SERVERS_MAX: usize = 1_000;

const WHAT: &str = "count the quota of";

/// The bytes that this server may still add to a home.
#[derive(Debug)]
pub struct Lease {
    /// The number of this server among those before the bucket.
    server: u64,
    state: Mutex<State>,
    /// Held by the one who changes the object.
    changes: tokio::sync::Mutex<()>,
}

#[derive(Debug, Default)]
struct State {
    /// Bytes of the lease that no upload has.
    left: u64,
    /// Bytes of uploads that are not complete.
    unfinished: u64,
    /// When the lease ends for this server; `None` if there is none.
    until: Option<Instant>,
    /// Whether a task waits to give the lease up.
    is_idle_task: bool,
}

impl State {
    fn is_valid(&self) -> bool {
        self.until.is_some_and(|until| Instant::now() < until)
    }
}

impl Default for Lease {
    fn default() -> Self {
        Self { server: random(), state: Mutex::default(), changes: tokio::sync::Mutex::default() }
    }
}

/// The bytes of one upload, out of a lease.
#[derive(Debug)]
pub struct Charge {
    lease: Arc<Lease>,
    bucket: Bucket,
    bytes: u64,
    is_kept: bool,
}

impl Lease {
    /// The state is consistent after every statement under the lock, so a poisoned lock may be used.
    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Makes the lease valid, with at least `bytes` that no upload has; whether that is within the quota.
    ///
    /// # Errors
    ///
    /// The store does not answer, or too many servers change the object at once ([`Why::Busy`]).
    ///
    /// # Cancel safety
    ///
    /// Safe: the lease in the store may be larger than this one until the next change.
    pub async fn ensure(&self, bucket: &Bucket, quota: u64, bytes: u64) -> Result<bool, Error> {
        let has = |state: &State| state.is_valid() && state.left >= bytes;
        if has(&self.state()) {
            return Ok(true);
        }
        let _changes = self.changes.lock().await;
        let (held, more) = {
            let mut state = self.state();
            if has(&state) {
                return Ok(true);
            }
            if !state.is_valid() {
                state.left = 0;
            }
            (state.left.saturating_add(state.unfinished), bytes.saturating_sub(state.left))
        };
        let began = Instant::now();
        let Some(granted) = bucket.lease(self.server, quota, held, more).await? else { return Ok(false) };
        let mut state = self.state();
        state.left = state.left.saturating_add(granted);
        state.until = Some(began + LASTS);
        Ok(true)
    }

    /// Gives the lease up when no upload has run for a while.
    fn end_when_idle(self: Arc<Self>, bucket: Bucket) {
        let Ok(runtime) = tokio::runtime::Handle::try_current() else { return };
        {
            let mut state = self.state();
            if state.unfinished > 0 || state.is_idle_task || state.until.is_none() {
                return;
            }
            state.is_idle_task = true;
        }
        runtime.spawn(async move {
            tokio::time::sleep(IDLE).await;
            let _changes = self.changes.lock().await;
            {
                let mut state = self.state();
                state.is_idle_task = false;
                if state.unfinished > 0 {
                    return;
                }
                (state.left, state.until) = (0, None);
            }
            // If that fails, the lease ends by its time.
            let _ = bucket.end_lease(self.server).await;
        });
    }
}

impl Charge {
    /// An upload to `bucket` that has nothing yet.
    pub fn new(lease: &Arc<Lease>, bucket: &Bucket) -> Self {
        Self { lease: lease.clone(), bucket: bucket.clone(), bytes: 0, is_kept: false }
    }

    /// Takes bytes for the upload; whether they are within the quota.
    ///
    /// # Errors
    ///
    /// As [`Lease::ensure`].
    ///
    /// # Cancel safety
    ///
    /// Safe: the bytes were taken or not.
    pub async fn take(&mut self, quota: u64, bytes: u64) -> Result<bool, Error> {
        loop {
            if !self.lease.ensure(&self.bucket, quota, bytes).await? {
                return Ok(false);
            }
            let mut state = self.lease.state();
            // Another upload may have been faster.
            if let Some(left) = state.left.checked_sub(bytes) {
                state.left = left;
                state.unfinished = state.unfinished.saturating_add(bytes);
                self.bytes = self.bytes.saturating_add(bytes);
                return Ok(true);
            }
        }
    }

    /// The upload is about to be completed: its bytes stay in the store.
    pub fn keep(&mut self) {
        self.is_kept = true;
    }
}

impl Drop for Charge {
    fn drop(&mut self) {
        {
            let mut state = self.lease.state();
            state.unfinished = state.unfinished.saturating_sub(self.bytes);
            if !self.is_kept {
                state.left = state.left.saturating_add(self.bytes);
            }
        }
        self.lease.clone().end_when_idle(self.bucket.clone());
    }
}

/// The object, and the version that a replacement of it names, if there is one.
type Ledger = (Vec<Line>, Option<String>);

/// What the object says of one server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Line {
    server: u64,
    bytes: u64,
    /// Seconds since 1970.
    ends: u64,
}

/// Reads the object. What is not understood is left out: its leases end by themselves.
fn parse(text: &str) -> Vec<Line> {
    let line = |line: &str| {
        let mut words = line.strip_prefix("lease ")?.split(' ');
        let server = u64::from_str_radix(words.next()?, 16).ok()?;
        Some(Line { server, bytes: words.next()?.parse().ok()?, ends: words.next()?.parse().ok()? })
    };
    text.lines().filter_map(line).collect()
}

/// Writes the object. A random number makes each version a different one, so that its ETag is one of a kind.
fn print(lines: &[Line]) -> String {
    let mut text = format!("braidftp: bytes that servers may add here\nversion {:016x}\n", random());
    for Line { server, bytes, ends } in lines {
        let _ = writeln!(text, "lease {server:016x} {bytes} {ends}");
    }
    text
}

/// Seconds since 1970.
fn now() -> u64 {
    SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs()
}

impl Bucket {
    fn ledger(&self) -> String {
        format!("{}{LEDGER}", self.prefix)
    }

    /// The current object and the condition of its replacement; `None` if it changed meanwhile.
    async fn read_ledger(&self) -> Result<Option<Ledger>, opendal::Error> {
        let key = self.ledger();
        let found = match self.operator.stat(&key).await {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Ok(Some((Vec::new(), None))),
            Err(error) => return Err(error),
        };
        let version = match self.operator.info().capability().write_with_if_match {
            true => found.etag(),
            false => found.version(),
        };
        let version = version.unwrap_or_default().to_owned();
        let mut reading = self.operator.read_with(&key);
        if let Some(tag) = found.etag().filter(|_| self.operator.info().capability().read_with_if_match) {
            reading = reading.if_match(tag);
        }
        let lines = match reading.await {
            // A newer one than the version says cannot be replaced with it.
            Ok(text) => parse(&String::from_utf8_lossy(&text.to_vec())),
            // It was replaced meanwhile.
            Err(error) if error.kind() == ErrorKind::ConditionNotMatch || is_missing(&error) => {
                return Ok(None);
            }
            Err(error) => return Err(error),
        };
        Ok(Some((lines, Some(version))))
    }

    /// Replaces the object, unless another server has; whether it did.
    async fn write_ledger(&self, lines: &[Line], version: Option<String>) -> Result<bool, opendal::Error> {
        let key = self.ledger();
        let writing = self.operator.write_with(&key, print(lines));
        let written = match version {
            None => writing.if_not_exists(true).await,
            Some(version) if self.operator.info().capability().write_with_if_match => {
                writing.if_match(&version).await
            }
            Some(version) => writing.if_version_match(&version).await,
        };
        match written {
            Ok(_) => Ok(true),
            Err(error) if matches!(error.kind(), ErrorKind::ConditionNotMatch | ErrorKind::Conflict) => {
                Ok(false)
            }
            Err(error) => Err(error),
        }
    }

    /// Sets the lease of a server to the bytes that it has, `more`, and some beyond them. Returns what was added, or `None` if that
    /// exceeds the quota.
    async fn lease(&self, server: u64, quota: u64, held: u64, more: u64) -> Result<Option<u64>, Error> {
        let error = |error: opendal::Error| failed(WHAT, Path::new(""), &error);
        for _ in 0..TRIES {
            let Some((mut lines, version)) = self.read_ledger().await.map_err(error)? else { continue };
            lines.retain(|line| line.server != server && line.ends >= now());
            // After the object was read: what others complete later is in their leases.
            let used = self.used_bytes().await?;
            let others = lines.iter().fold(0_u64, |sum, line| sum.saturating_add(line.bytes));
            let taken = used.saturating_add(others).saturating_add(held);
            let Some(room) = quota.checked_sub(taken).filter(|room| *room >= more) else { return Ok(None) };
            if lines.len() >= SERVERS_MAX {
                break;
            }
            let granted = more + ((room - more) / SHARE).min(MORE_BYTES);
            let bytes = held.saturating_add(granted);
            lines.push(Line { server, bytes, ends: now() + ENDS.as_secs() });
            if self.write_ledger(&lines, version).await.map_err(error)? {
                return Ok(Some(granted));
            }
            tokio::time::sleep(Duration::from_millis(random() % PAUSE_MS)).await;
        }
        Err(Error::new(WHAT, Path::new(""), Why::Busy))
    }

    /// Ends the lease of a server that has no unfinished upload.
    async fn end_lease(&self, server: u64) -> Result<(), opendal::Error> {
        for _ in 0..TRIES {
            let Some((mut lines, version)) = self.read_ledger().await? else { continue };
            if !lines.iter().any(|line| line.server == server) {
                return Ok(());
            }
            lines.retain(|line| line.server != server && line.ends >= now());
            if self.write_ledger(&lines, version).await? {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_millis(random() % PAUSE_MS)).await;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn the_object_is_read_as_it_was_written_and_no_version_is_like_another() {
        let lines =
            [Line { server: 1, bytes: 2, ends: 3 }, Line { server: u64::MAX, bytes: 0, ends: u64::MAX }];
        assert_eq!(parse(&print(&lines)), lines);
        assert_ne!(print(&lines), print(&lines));
        assert_eq!(parse("lease 1 2\nlease x 1 1\nlease 1 -1 1\nfoo\n"), []);
    }

    proptest! {
        #[test]
        fn no_object_panics(text in "(lease [0-9a-fx -]{0,40}\n|.{0,20}\n){0,5}") {
            parse(&text);
        }
    }
}
