//! Rights of a user, and limits over all sessions of the user together (bytes on the disk, bytes a second, sessions).

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use braidftp_base::Rate;
use tokio::sync::{Mutex, OwnedSemaphorePermit, Semaphore};
use tokio::time::Instant;

use crate::limiter::Limiter;
use crate::store::Tree;
use crate::store::bucket::{Bucket, Charge, Lease};
use crate::store::fs::{self, BLOCK_BYTES};

/// The age of the count of a home after which it is counted again when an upload begins.
const RECOUNT: Duration = Duration::from_secs(60);
/// The same before an upload is refused by the quota: this multiple of the time that the last count took, so that refused uploads
/// spend at most a tenth of the time on counting, and a file that was deleted makes room at once in all but huge homes.
const RECOUNT_BEFORE_REFUSAL: u32 = 10;
/// The maximum of that age.
const RECOUNT_BEFORE_REFUSAL_MAX: Duration = Duration::from_secs(2);
/// The maximum number of bytes of an upload that are received and not on the disk, so that no count includes them.
const UNWRITTEN_BYTES: u64 = 2 * BLOCK_BYTES as u64;
/// The maximum number of unfinished uploads of a home that are counted.
const PARTS_COUNTED: usize = 100_000;

/// Whether files may be changed.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Access {
    /// They may only be read.
    #[default]
    ReadOnly,
    /// They may be read and changed.
    Writable,
}

/// A single right of a user.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Right {
    /// Fetch files.
    Read,
    /// List folders.
    List,
    /// Send files, also over existing ones, create folders, set times and modes.
    Write,
    /// Delete and rename files and folders.
    Delete,
}

/// The rights of a user, in the order of [`Right`].
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Rights([bool; 4]);

impl Rights {
    const NAMES: [(Right, &'static str); 4] =
        [(Right::Read, "read"), (Right::List, "list"), (Right::Write, "write"), (Right::Delete, "delete")];

    /// Whether the user has this right.
    pub const fn has(self, right: Right) -> bool {
        self.0[right as usize]
    }

    /// Whether the user may change anything.
    pub const fn may_change(self) -> bool {
        self.has(Right::Write) || self.has(Right::Delete)
    }

    /// The rights with these names.
    ///
    /// # Errors
    ///
    /// An unknown name, with the known ones.
    pub fn parse<'a>(names: impl IntoIterator<Item = &'a str>) -> Result<Self, String> {
        let mut rights = Self::default();
        for name in names {
            let found = Self::NAMES.iter().find(|(_, known)| *known == name);
            let (right, _) = found
                .ok_or_else(|| format!("no right is called `{name}`; there are read, list, write, delete"))?;
            rights.0[*right as usize] = true;
        }
        Ok(rights)
    }
}

impl From<Access> for Rights {
    fn from(access: Access) -> Self {
        let may_change = access == Access::Writable;
        Self([true, true, may_change, may_change])
    }
}

impl fmt::Display for Rights {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let names: Vec<&str> =
            Self::NAMES.iter().filter(|(right, _)| self.has(*right)).map(|(_, name)| *name).collect();
        f.write_str(if names.is_empty() { "nothing" } else { "" })?;
        f.write_str(&names.join(", "))
    }
}

/// Limits of one user, from the users file.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Limits {
    /// The maximum size of all files in the home, including unfinished uploads.
    pub quota: Option<u64>,
    /// The maximum rate of file bytes, both directions together.
    pub rate: Option<Rate>,
    /// The maximum number of concurrent sessions.
    pub sessions: Option<usize>,
}

/// State shared by all sessions of a user. The default has no limits.
#[derive(Debug, Default)]
pub struct Share {
    limits: Limits,
    limiter: Option<Limiter>,
    sessions: Option<Arc<Semaphore>>,
    /// The size of the home in bytes: the last count, plus what was received since.
    used: AtomicU64,
    /// The last count.
    counted: Mutex<Option<Counted>>,
    /// Bytes of all uploads in progress that may not be on the disk yet.
    unwritten: AtomicU64,
    /// What this server may add to a home in a bucket, where other servers add files too.
    lease: Arc<Lease>,
}

/// A count of the files of a home.
#[derive(Debug, Clone, Copy)]
struct Counted {
    begun: Instant,
    took: Duration,
}

/// How old a count may be.
#[derive(Debug, Clone, Copy)]
enum Age {
    /// As at the beginning of an upload.
    Usual,
    /// As before a refusal.
    BeforeRefusal,
}

/// The bytes of an upload in progress that may not be on the disk yet.
#[derive(Debug)]
pub(crate) struct Unwritten {
    share: Arc<Share>,
    bytes: u64,
}

impl Unwritten {
    fn add(&mut self, bytes: u64) {
        let more = bytes.min(UNWRITTEN_BYTES - self.bytes);
        self.bytes += more;
        self.share.unwritten.fetch_add(more, Ordering::Relaxed);
    }
}

impl Drop for Unwritten {
    fn drop(&mut self) {
        self.share.unwritten.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

/// The user's files would exceed the quota.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OverQuota;

impl Share {
    /// Creates the state with these limits.
    pub fn new(limits: Limits) -> Self {
        Self {
            limits,
            limiter: limits.rate.map(Limiter::new),
            sessions: limits.sessions.map(|most| Arc::new(Semaphore::new(most.min(Semaphore::MAX_PERMITS)))),
            ..Self::default()
        }
    }

    /// The limits.
    pub fn limits(&self) -> Limits {
        self.limits
    }

    /// Takes a place for another session; `Err` if there is none. The place is released when the permit is
    /// dropped.
    pub(crate) fn enter(&self) -> Result<Option<OwnedSemaphorePermit>, ()> {
        let place = self.sessions.clone().map(Semaphore::try_acquire_owned);
        place.transpose().map_err(|_| ())
    }

    /// Waits until this many file bytes conform to the rate.
    ///
    /// # Cancel safety
    ///
    /// The bytes count even if this is cancelled.
    pub(crate) async fn pass(&self, bytes: usize) {
        if let Some(limiter) = &self.limiter {
            limiter.pass(bytes).await;
        }
    }

    /// Checks whether an upload of this many bytes may begin.
    ///
    /// # Errors
    ///
    /// [`OverQuota`], or the home cannot be read.
    pub(crate) async fn begin(&self, home: &Tree, bytes: u64) -> Result<Result<(), OverQuota>, fs::Error> {
        let Some(quota) = self.limits.quota else { return Ok(Ok(())) };
        if let Some(bucket) = self.leases(home) {
            return Ok(if self.lease.ensure(bucket, quota, bytes).await? { Ok(()) } else { Err(OverQuota) });
        }
        self.count(home, Age::Usual).await?;
        let fits = || self.used.load(Ordering::Relaxed).saturating_add(bytes) <= quota;
        if !fits() {
            self.count(home, Age::BeforeRefusal).await?;
        }
        Ok(if fits() { Ok(()) } else { Err(OverQuota) })
    }

    /// The bucket, if the quota holds over several servers by leases.
    fn leases<'a>(&self, home: &'a Tree) -> Option<&'a Bucket> {
        match home {
            Tree::Bucket(bucket) if self.limits.quota.is_some() && bucket.has_conditions() => Some(bucket),
            Tree::Bucket(_) | Tree::Folder(_) => None,
        }
    }

    /// The bytes of an upload, for [`Share::charge`], if they are part of a lease.
    pub(crate) fn charged(&self, home: &Tree) -> Option<Charge> {
        self.leases(home).map(|bucket| Charge::new(&self.lease, bucket))
    }

    /// An upload that has received nothing.
    pub(crate) fn upload(self: &Arc<Self>) -> Unwritten {
        Unwritten { share: self.clone(), bytes: 0 }
    }

    /// Counts bytes of an upload that are about to be written, or checks that those before them still count.
    ///
    /// # Errors
    /// [`OverQuota`], or the home cannot be read.
    ///
    /// # Cancel safety
    /// The bytes count until the next recount even if this is cancelled.
    pub(crate) async fn charge(
        &self,
        home: &Tree,
        charge: Option<&mut Charge>,
        upload: &mut Unwritten,
        bytes: u64,
    ) -> Result<Result<(), OverQuota>, fs::Error> {
        let Some(quota) = self.limits.quota else { return Ok(Ok(())) };
        if let Some(charge) = charge {
            return Ok(if charge.take(quota, bytes).await? { Ok(()) } else { Err(OverQuota) });
        }
        upload.add(bytes);
        if self.used.fetch_add(bytes, Ordering::Relaxed).saturating_add(bytes) <= quota {
            return Ok(Ok(()));
        }
        // Files may have been deleted or replaced since the last count.
        self.count(home, Age::BeforeRefusal).await?;
        Ok(if self.used.load(Ordering::Relaxed) <= quota { Ok(()) } else { Err(OverQuota) })
    }

    /// Counts the home again if the last count is too old.
    async fn count(&self, home: &Tree, age: Age) -> Result<(), fs::Error> {
        let mut counted = self.counted.lock().await;
        let valid = |last: Counted| match age {
            Age::Usual => RECOUNT,
            Age::BeforeRefusal => {
                last.took.saturating_mul(RECOUNT_BEFORE_REFUSAL).min(RECOUNT_BEFORE_REFUSAL_MAX)
            }
        };
        if counted.is_some_and(|last| last.begun.elapsed() < valid(last)) {
            return Ok(());
        }
        let begun = Instant::now();
        let bytes = home.used_bytes(PARTS_COUNTED).await?;
        self.used.store(bytes.saturating_add(self.unwritten.load(Ordering::Relaxed)), Ordering::Relaxed);
        *counted = Some(Counted { begun, took: begun.elapsed() });
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rights_are_parsed_by_name_and_access_implies_some() {
        let rights = Rights::parse(["list", "write"]).unwrap();
        assert!(rights.has(Right::List) && rights.has(Right::Write));
        assert!(!rights.has(Right::Read) && !rights.has(Right::Delete));
        assert_eq!(rights.to_string(), "list, write");
        assert!(Rights::parse(["exec"]).unwrap_err().contains("read, list, write, delete"));
        assert_eq!(Rights::from(Access::ReadOnly), Rights::parse(["read", "list"]).unwrap());
        assert_eq!(Rights::from(Access::Writable).to_string(), "read, list, write, delete");
        assert_eq!(Rights::default().to_string(), "nothing");
    }

    #[tokio::test(start_paused = true)]
    async fn a_quota_counts_existing_and_new_bytes_and_releases_deleted_ones() {
        let folder = tempfile::tempdir().unwrap();
        let write =
            |name: &str, bytes: usize| std::fs::write(folder.path().join(name), vec![0; bytes]).unwrap();
        std::fs::create_dir(folder.path().join("sub")).unwrap();
        write("sub/a", 600);
        write(".b.braidftp-part", 300);
        let home = Tree::open(folder.path()).unwrap();
        let share = Arc::new(Share::new(Limits { quota: Some(1000), ..Limits::default() }));
        assert_eq!(share.begin(&home, 100).await.unwrap(), Ok(()));
        assert_eq!(share.begin(&home, 101).await.unwrap(), Err(OverQuota));
        let (mut first, mut second) = (share.upload(), share.upload());
        assert_eq!(share.charge(&home, None, &mut first, 100).await.unwrap(), Ok(()));
        assert_eq!(share.charge(&home, None, &mut second, 1).await.unwrap(), Err(OverQuota));
        drop((first, second));
        // What was refused, and what was deleted, makes room at once.
        assert_eq!(share.begin(&home, 100).await.unwrap(), Ok(()));
        std::fs::remove_file(folder.path().join("sub/a")).unwrap();
        assert_eq!(share.begin(&home, 700).await.unwrap(), Ok(()));
        assert_eq!(share.begin(&home, 701).await.unwrap(), Err(OverQuota));
        let mut third = share.upload();
        for _ in 0..7 {
            assert_eq!(share.charge(&home, None, &mut third, 100).await.unwrap(), Ok(()));
        }
        assert_eq!(share.charge(&home, None, &mut third, 1).await.unwrap(), Err(OverQuota));
        let free = Share::default();
        assert_eq!(free.begin(&home, u64::MAX).await.unwrap(), Ok(()));
    }

    #[tokio::test]
    async fn a_quota_counts_a_file_once_whatever_number_of_names_it_has() {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::write(at("a"), vec![0; 600]).unwrap();
        std::fs::create_dir(at("sub")).unwrap();
        for name in ["b", "sub/c"] {
            std::fs::hard_link(at("a"), at(name)).unwrap();
        }
        std::fs::write(at("other"), vec![0; 100]).unwrap();
        let home = Tree::open(folder.path()).unwrap();
        assert_eq!(home.used_bytes(PARTS_COUNTED).await.unwrap(), 700);
        std::fs::remove_file(at("a")).unwrap();
        assert_eq!(home.used_bytes(PARTS_COUNTED).await.unwrap(), 700);
        for name in ["b", "sub/c"] {
            std::fs::remove_file(at(name)).unwrap();
        }
        assert_eq!(home.used_bytes(PARTS_COUNTED).await.unwrap(), 100);
    }

    #[test]
    fn places_of_sessions_are_counted_and_released() {
        let share = Share::new(Limits { sessions: Some(2), ..Limits::default() });
        let (first, _second) = (share.enter().unwrap(), share.enter().unwrap());
        assert!(share.enter().is_err());
        drop(first);
        assert!(share.enter().is_ok());
        assert!(Share::default().enter().unwrap().is_none());
    }
}
