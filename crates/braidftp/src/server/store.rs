//! The user's tree for the FTP session: translates between [`Tree`] and `braidftp_ftp::store`.

use std::ffi::OsStr;
use std::ops::Deref;
use std::os::unix::ffi::OsStrExt;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, SystemTime};

use braidftp_ftp::server::{Change, Failure, Outcome, Part, Query};
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::{FileKind, Metadata, StoreError};
use braidftp_ftp::{HashName, SafePath};
use bytes::Bytes;
use tokio::sync::OwnedSemaphorePermit;

use super::activity::Transfer;
use super::audit::Subject;
use super::logins::Login;
use crate::store::fs::{self, Allowance, Blocks, Kind, Removal, Why};
use crate::store::{Edit, Tree};
use crate::user_limits::{Right, Rights, Share};

/// The view of a session's user, for one transfer or command. Cheap to clone.
#[derive(Debug, Clone)]
pub(super) struct Store {
    view: Arc<View>,
    /// The transfer that this clone belongs to.
    pub transfer: Option<Arc<Transfer>>,
}

impl From<View> for Store {
    fn from(view: View) -> Self {
        Self { view: Arc::new(view), transfer: None }
    }
}

impl Deref for Store {
    type Target = View;

    fn deref(&self) -> &View {
        &self.view
    }
}

/// What a session's user sees: a root and rights.
#[derive(Debug)]
pub(super) struct View {
    pub root: Tree,
    pub rights: Rights,
    /// The name of the user.
    pub user: String,
    /// The owner of written files.
    pub login: Login,
    /// The source of memory for the blocks of transfers.
    pub blocks: Blocks,
    /// The limits on disk usage by uploads.
    pub allowance: Allowance,
    /// The limits over all sessions of the user.
    pub share: Arc<Share>,
    /// The session's place among them, as long as any of its work runs.
    pub _place: Option<Arc<OwnedSemaphorePermit>>,
    /// The subject of audit lines.
    pub subject: Subject,
}

/// The maximum number of unfinished uploads that one command lists or removes.
const PARTS_LISTED: usize = 1000;

impl Store {
    /// Checks that the user has this right.
    pub(super) fn may(&self, right: Right) -> Result<(), Failure> {
        match (self.rights.has(right), self.rights.may_change()) {
            (true, _) => Ok(()),
            (false, false) if matches!(right, Right::Write | Right::Delete) => {
                Err(Failure::Store(StoreError::ReadOnly))
            }
            (false, _) => Err(Failure::Store(StoreError::Denied)),
        }
    }

    /// Answers a query.
    pub(super) async fn query(&self, path: &SafePath, query: Query) -> Result<Outcome, Failure> {
        let place = native(path)?;
        let outcome = match query {
            Query::Facts => {
                self.root.link_metadata(&place).await.map(|found| Outcome::Facts(metadata(&found)))
            }
            Query::Followed => self.root.metadata(&place).await.map(|found| Outcome::Facts(metadata(&found))),
            Query::Parts => self.root.parts(place, PARTS_LISTED).await.map(|found| parts(&found)),
            // Read elsewhere, because it takes long.
            Query::Digest(_) => return Err(Failure::Store(StoreError::Denied)),
            Query::Partial => {
                self.root.unfinished_bytes(place).await.map(|bytes| Outcome::Partial(bytes.unwrap_or(0)))
            }
        };
        outcome.map_err(|e| failure(&e))
    }

    /// Computes the digest of a file.
    pub(super) async fn digest(
        &self,
        path: &SafePath,
        hash: HashName,
        stop: Arc<AtomicBool>,
    ) -> Result<Outcome, Failure> {
        self.may(Right::Read)?;
        let digested = self.root.digest(&native(path)?, hash, stop).await.map_err(|e| failure(&e))?;
        Ok(Outcome::Digest { digest: digested.digest.into(), bytes: digested.bytes })
    }

    /// Makes a change.
    pub(super) async fn change(&self, change: &Change) -> Result<Outcome, Failure> {
        let outcome = self.try_change(change).await;
        self.subject.changed(change, &outcome);
        outcome
    }

    async fn try_change(&self, change: &Change) -> Result<Outcome, Failure> {
        self.may(match change {
            Change::Remove(_) | Change::RemoveDirectory(_) | Change::Rename { .. } => Right::Delete,
            Change::RemoveParts(_)
            | Change::MakeDirectory(_)
            | Change::SetModified(..)
            | Change::SetUnixMode(..)
            | Change::Symlink { .. }
            | Change::HardLink { .. } => Right::Write,
        })?;
        let edit = match change {
            Change::RemoveParts(path) => {
                let claimant = Some(self.login.claimant());
                let removal = Removal { unchanged_since: None, most: PARTS_LISTED, claimant };
                let removed = self.root.remove_parts(native(path)?, removal).await;
                return removed.map(|removed| parts(&removed)).map_err(|e| failure(&e));
            }
            Change::MakeDirectory(path) => Edit::MakeFolder(native(path)?),
            Change::RemoveDirectory(path) => Edit::RemoveFolder(native(path)?),
            Change::Remove(path) => Edit::Remove(native(path)?),
            Change::Rename { from, to } => Edit::Rename { from: native(from)?, to: native(to)? },
            Change::SetModified(path, stamp) => Edit::SetModified(native(path)?, system_time(*stamp)),
            Change::SetUnixMode(path, mode) => Edit::SetMode(native(path)?, *mode),
            Change::Symlink { path, target } => {
                Edit::Link { target: PathBuf::from(OsStr::from_bytes(target)), path: native(path)? }
            }
            Change::HardLink { existing, path } => {
                Edit::HardLink { existing: native(existing)?, path: native(path)? }
            }
        };
        self.root.edit(edit).await.map(|()| Outcome::Changed).map_err(|e| failure(&e))
    }
}

/// Converts unfinished uploads to the session's form.
fn parts(found: &[fs::Part]) -> Outcome {
    let part = |part: &fs::Part| {
        let path = SafePath::ROOT.resolve(part.path.as_os_str().as_bytes()).ok()?;
        Some(Part { path, size: part.size, changed: stamp(part.changed) })
    };
    Outcome::Parts(found.iter().filter_map(part).collect())
}

/// Converts a path of the session to one of the store. Temporary names are reserved.
pub(super) fn native(path: &SafePath) -> Result<PathBuf, Failure> {
    fs::relative(path.as_bytes()).map_err(|e| failure(&e))
}

/// Converts an error for the session; the log gets the details.
pub(super) fn failure(error: &fs::Error) -> Failure {
    let store = match &error.why {
        Why::NotFound => StoreError::NotFound,
        Why::Denied | Why::OutsideRoot => StoreError::Denied,
        Why::NotAFolder => StoreError::NotADirectory,
        Why::IsAFolder | Why::NotAFile => StoreError::NotAFile,
        Why::Exists => StoreError::Exists,
        Why::NotEmpty => StoreError::NotEmpty,
        Why::BadName(_) => StoreError::BadName,
        Why::NoSpace => StoreError::NoSpace,
        Why::ReadOnly => StoreError::ReadOnly,
        Why::Busy => StoreError::Busy,
        Why::TakenOver => StoreError::TakenOver,
        Why::Replaced => StoreError::Replaced,
        Why::PastEnd { .. } => StoreError::BadOffset,
        // While a file is being read it can only be too short.
        Why::WrongLength { .. } => return Failure::Shrank,
        Why::WrongDigest => return Failure::Damaged,
        Why::Unsupported(_) => StoreError::Unsupported,
        Why::TooDeep | Why::Io(_) => StoreError::Io,
    };
    tracing::debug!(%error, "the store refused");
    Failure::Store(store)
}

/// Converts metadata to the session's form.
pub(super) fn metadata(found: &fs::Metadata) -> Metadata {
    let (kind, target) = match &found.kind {
        Kind::File => (FileKind::File, None),
        Kind::Folder => (FileKind::Directory, None),
        Kind::Link(target) => {
            (FileKind::Symlink, Some(Bytes::copy_from_slice(target.as_os_str().as_bytes())))
        }
        Kind::Other => (FileKind::Other, None),
    };
    let is_on_disk = found.identity != fs::Metadata::NO_IDENTITY;
    Metadata {
        kind,
        size: if matches!(kind, FileKind::File | FileKind::Symlink) { found.size } else { 0 },
        modified: (is_on_disk || kind == FileKind::File).then(|| stamp(found.modified)),
        unix_mode: is_on_disk.then_some(found.mode),
        target,
        unique: is_on_disk.then_some(found.identity),
        is_linked: found.links > 1,
    }
}

/// Converts a time to the session's form.
pub(super) fn stamp(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timestamp { seconds: after.as_secs() as i64, nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            let borrow = i64::from(before.subsec_nanos() > 0);
            Timestamp {
                seconds: 0_i64.saturating_sub_unsigned(before.as_secs()).saturating_sub(borrow),
                nanos: (1_000_000_000 - before.subsec_nanos()) % 1_000_000_000,
            }
        }
    }
}

/// Converts a time to the store's form; the epoch if the system cannot represent it.
pub(super) fn system_time(stamp: Timestamp) -> SystemTime {
    let whole = Duration::from_secs(stamp.seconds.unsigned_abs());
    let base = if stamp.seconds >= 0 {
        SystemTime::UNIX_EPOCH.checked_add(whole)
    } else {
        SystemTime::UNIX_EPOCH.checked_sub(whole)
    };
    let nanos = Duration::from_nanos(u64::from(stamp.nanos));
    base.and_then(|base| base.checked_add(nanos)).unwrap_or(SystemTime::UNIX_EPOCH)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn moments_go_there_and_back() {
        for (seconds, nanos) in [(0, 0), (1_795_172_940, 250_000_000), (-1, 500_000_000), (-2, 0)] {
            let moment = Timestamp { seconds, nanos };
            assert_eq!(stamp(system_time(moment)), moment);
        }
        for seconds in [i64::MIN, i64::MIN + 1, i64::MAX] {
            // Any result is a valid time.
            stamp(system_time(Timestamp { seconds, nanos: 999_999_999 }));
        }
    }

    #[test]
    fn names_of_unfinished_files_are_refused() {
        let path = SafePath::ROOT.resolve(b"/a/.f.braidftp-part").unwrap();
        assert_eq!(native(&path), Err(Failure::Store(StoreError::BadName)));
    }
}
