//! Writers of this process by unfinished file, so that a newer writer of the same owner takes a file over.
//!
//! The writer of a session whose peer has vanished keeps its file open until the session ends, which takes minutes. What is
//! taken over is the open file with its lock: no other process gets in between, and the former writer finds that it has
//! nothing any more.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cap_std::fs::Dir;

/// An unfinished file, open and locked.
#[derive(Debug)]
pub(super) struct Open {
    pub dir: Arc<Dir>,
    pub part: PathBuf,
    pub file: File,
    /// Permission bits that it was found with.
    pub mode: u32,
    /// Bytes in it, with those of a hole at its end.
    pub length: u64,
    /// Whether it ends with a hole that the file system does not know of yet.
    pub ends_with_hole: bool,
}

/// For whom a file is written.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The owner. Only writers of one owner take files over from each other.
    pub owner: Arc<str>,
    /// The greater number takes over from the lesser one.
    pub turn: u64,
}

impl Claimant {
    fn may_take_from(&self, other: &Self) -> bool {
        self.owner == other.owner && self.turn > other.turn
    }
}

/// Device and inode.
type Identity = (u64, u64);

/// The unfinished files that writers of this process have open.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: Mutex<BTreeMap<Identity, Weak<Claim>>>,
}

/// A writer's hold on its file.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    identity: Identity,
    claimant: Option<Claimant>,
    /// `None` once the file is finished, removed or taken over.
    open: Mutex<Option<Open>>,
}

impl Claims {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<Identity, Weak<Claim>>> {
        self.claims.lock().unwrap_or_else(PoisonError::into_inner)
    }

    #[cfg(test)]
    pub(super) fn is_empty(&self) -> bool {
        self.lock().is_empty()
    }

    /// Enters the writer of a file that is locked.
    pub(super) fn enter(
        self: &Arc<Self>,
        identity: Identity,
        claimant: Option<Claimant>,
        open: Open,
    ) -> Arc<Claim> {
        let claim = Claim { claims: self.clone(), identity, claimant, open: Mutex::new(Some(open)) };
        let claim = Arc::new(claim);
        self.lock().insert(identity, Arc::downgrade(&claim));
        claim
    }

    /// Takes a file from the writer that has it, if that may be. Waits for what the writer does to the disk at this moment.
    pub(super) fn take_over(&self, identity: Identity, claimant: &Claimant) -> Option<Open> {
        let claim = self.lock().get(&identity).and_then(Weak::upgrade)?;
        if !claim.claimant.as_ref().is_some_and(|before| claimant.may_take_from(before)) {
            return None;
        }
        claim.lock().take()
    }
}

impl Claim {
    /// The file, if this writer still has it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let mut claims = self.claims.lock();
        // A newer writer of the same file may stand there.
        if claims.get(&self.identity).is_some_and(|claim| claim.strong_count() == 0) {
            claims.remove(&self.identity);
        }
    }
}
