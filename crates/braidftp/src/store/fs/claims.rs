//! Registry of writers of this process by temporary file, so that a newer writer of the same owner can take a
//! file over.
//!
//! The writer of a session whose peer has vanished keeps its file open until the session ends, which takes
//! minutes. A take-over passes the open file with its lock, so that no other process can intervene, and the
//! previous writer fails at its next step.

use std::collections::BTreeMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};

use cap_std::fs::Dir;
use rustix::fs::AtFlags;

/// A temporary file, open and locked.
#[derive(Debug)]
pub(super) struct Open {
    pub dir: Arc<Dir>,
    /// The temporary name; `None` if the file has no name yet, so that nobody else can open it.
    pub part: Option<PathBuf>,
    pub file: File,
    /// The permission bits when it was opened.
    pub mode: u32,
    /// Its length in bytes, including a hole at its end.
    pub length: u64,
    /// Whether it ends with a hole that the file system does not have yet.
    pub ends_with_hole: bool,
}

impl Open {
    /// Removes the temporary name.
    pub(super) fn unlink(&self) -> rustix::io::Result<()> {
        let part = self.part.as_ref();
        part.map_or(Ok(()), |part| rustix::fs::unlinkat(&*self.dir, part, AtFlags::empty()))
    }
}

/// The owner of a writer, and its rank.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Claimant {
    /// The owner. Files are only taken over by writers of the same owner.
    pub owner: Arc<str>,
    /// The rank: a writer takes over from writers with a lower rank.
    pub turn: u64,
}

impl Claimant {
    fn may_take_from(&self, other: &Self) -> bool {
        self.owner == other.owner && self.turn > other.turn
    }
}

/// The outcome of taking a locked file over.
pub(super) enum TakeOver {
    /// The file.
    Open(Open),
    /// Its writer is a newer one, or another owner's.
    Refused,
    /// Its writer is not registered yet, or has lost it to another one.
    Unknown,
}

/// Device and inode.
type Identity = (u64, u64);

/// The temporary files that writers of this process have open.
#[derive(Debug, Default)]
pub(super) struct Claims {
    claims: Mutex<BTreeMap<Identity, Weak<Claim>>>,
}

/// A writer's claim on its file.
#[derive(Debug)]
pub(super) struct Claim {
    claims: Arc<Claims>,
    /// `None` for a file without a name.
    identity: Option<Identity>,
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

    /// Registers the writer of a locked file.
    pub(super) fn enter(
        self: &Arc<Self>,
        identity: Identity,
        claimant: Option<Claimant>,
        open: Open,
    ) -> Arc<Claim> {
        let claim = self.claim(Some(identity), claimant, open);
        self.lock().insert(identity, Arc::downgrade(&claim));
        claim
    }

    /// The claim on a file without a name, which is not registered.
    pub(super) fn unnamed(self: &Arc<Self>, open: Open) -> Arc<Claim> {
        self.claim(None, None, open)
    }

    fn claim(
        self: &Arc<Self>,
        identity: Option<Identity>,
        claimant: Option<Claimant>,
        open: Open,
    ) -> Arc<Claim> {
        Arc::new(Claim { claims: self.clone(), identity, claimant, open: Mutex::new(Some(open)) })
    }

    /// Takes a file over from its writer, if permitted. Waits until the writer's current disk access ends.
    pub(super) fn take_over(&self, identity: Identity, claimant: &Claimant) -> TakeOver {
        let Some(claim) = self.lock().get(&identity).and_then(Weak::upgrade) else {
            return TakeOver::Unknown;
        };
        if !claim.claimant.as_ref().is_some_and(|before| claimant.may_take_from(before)) {
            return TakeOver::Refused;
        }
        claim.lock().take().map_or(TakeOver::Unknown, TakeOver::Open)
    }
}

impl Claim {
    /// Locks the file, if this writer still has it.
    pub(super) fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for Claim {
    fn drop(&mut self) {
        let Some(identity) = &self.identity else { return };
        let mut claims = self.claims.lock();
        // The entry may belong to a newer writer of the same file.
        if claims.get(identity).is_some_and(|claim| claim.strong_count() == 0) {
            claims.remove(identity);
        }
    }
}
