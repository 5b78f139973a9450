//! Limits the memory that transfers use for file contents: a pool for all sessions, a small amount for each
//! session independent of the others, and the smallest block for each transfer, so that no transfer ever
//! waits for another.
//!
//! While the pool has room, blocks have the wanted size; as the pool fills, blocks become smaller. Only
//! memory between the disk and the transport is counted here; the transport counts its own.
//!
//! The pool also counts the folders that walks of trees hold open ([`Folders`]).

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// The size of the pool in bytes: enough for 64 transfers with two blocks each.
pub const POOL_BYTES: usize = 32 << 20;
/// The additional bytes of each session, independent of the pool: a few blocks that are still large enough
/// for an efficient disk access.
pub const SESSION_BYTES: usize = 64 << 10;
/// The size of the smallest block in bytes, which each transfer may hold in addition.
pub const SMALLEST_BYTES: usize = 4 << 10;
/// A request gets at most this fraction (one in `SHARE`) of the remaining bytes.
const SHARE: usize = 8;
/// The same for the bytes of a session.
const SESSION_SHARE: usize = 4;
/// The minimum grant of the pool: smaller blocks are left to transfers that have no other memory.
const POOL_LEAST: usize = 16 << 10;
/// The step by which [`Growing`] grows.
const GROWS_BY: usize = 64 << 10;

/// The number of open folders of all walks together, in addition to [`FOLDERS_ALWAYS`] of each.
pub const FOLDERS_MAX: usize = 512;
/// The number of open folders that each walk may always have: the one that is read, and its parent.
pub const FOLDERS_ALWAYS: usize = 2;
/// A walk gets at most this fraction of the remaining folders.
const FOLDERS_SHARE: usize = 4;

/// The pool shared by all sessions.
#[derive(Debug)]
pub struct Pool {
    bytes: usize,
    held: AtomicUsize,
    folders: AtomicUsize,
}

impl Default for Pool {
    fn default() -> Self {
        Self::new(POOL_BYTES)
    }
}

impl Pool {
    /// Creates a pool of this many bytes.
    pub fn new(bytes: usize) -> Self {
        Self { bytes, held: AtomicUsize::new(0), folders: AtomicUsize::new(0) }
    }

    /// The number of bytes in use.
    pub fn held(&self) -> usize {
        self.held.load(Ordering::Relaxed)
    }
}

/// The source of memory for the blocks of one session's transfers. Without a session there is no limit.
#[derive(Debug, Clone, Default)]
pub struct Blocks(Option<Arc<Session>>);

#[derive(Debug)]
struct Session {
    pool: Arc<Pool>,
    own: AtomicUsize,
}

/// The permission to hold this many bytes; returned on drop.
#[derive(Debug, Default)]
pub(in crate::store) struct Permit {
    from: Option<(Arc<Session>, From)>,
    bytes: usize,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum From {
    Pool,
    Own,
}

impl Blocks {
    /// The blocks of a new session.
    pub fn of_session(pool: &Arc<Pool>) -> Self {
        Self(Some(Arc::new(Session { pool: pool.clone(), own: AtomicUsize::new(0) })))
    }

    /// Takes up to `want` bytes, as many as available; `None` if fewer than [`SMALLEST_BYTES`] are.
    pub(in crate::store) fn take(&self, want: usize) -> Option<Permit> {
        let Some(session) = &self.0 else { return Some(Permit { from: None, bytes: want }) };
        let pool = &session.pool;
        let (from, bytes) = match grant(&pool.held, pool.bytes, want, SHARE, POOL_LEAST) {
            Some(bytes) => (From::Pool, bytes),
            None => {
                let own = grant(&session.own, SESSION_BYTES, want, SESSION_SHARE, SMALLEST_BYTES)?;
                (From::Own, own)
            }
        };
        Some(Permit { from: Some((session.clone(), from)), bytes })
    }

    /// The same, with the smallest block if nothing is available.
    pub(in crate::store) fn take_some(&self, want: usize) -> Permit {
        self.take(want).unwrap_or(Permit { from: None, bytes: want.min(SMALLEST_BYTES) })
    }

    /// The counter of folders that a walk holds open.
    pub(super) fn folders(&self) -> Folders {
        let pool = self.0.as_ref().map(|session| session.pool.clone());
        Folders { supply: pool.map_or(Supply::Unbounded, Supply::Pool), held: 0 }
    }
}

/// Memory for data that must be in memory completely, and grows until it is. Returned on drop.
#[derive(Debug, Default)]
pub struct Growing {
    blocks: Blocks,
    permits: Vec<Permit>,
    bytes: usize,
}

impl Growing {
    /// Takes memory from these blocks.
    pub fn new(blocks: Blocks) -> Self {
        Self { blocks, ..Self::default() }
    }

    /// Grows to at least `bytes`; false if there is not enough.
    pub fn grow_to(&mut self, bytes: usize) -> bool {
        while self.bytes < bytes {
            let Some(permit) = self.blocks.take(GROWS_BY) else { return false };
            self.bytes += permit.bytes();
            self.permits.push(permit);
        }
        true
    }
}

/// The folders that one walk holds open in addition to [`FOLDERS_ALWAYS`]. Returned on drop.
#[derive(Debug, Default)]
pub(super) struct Folders {
    supply: Supply,
    held: usize,
}

/// The number of folders that a walk may hold open.
#[derive(Debug, Default)]
enum Supply {
    /// Unlimited.
    #[default]
    Unbounded,
    /// At most [`FOLDERS_ALWAYS`].
    Fewest,
    /// As many as the pool grants.
    Pool(Arc<Pool>),
}

impl Folders {
    /// At most [`FOLDERS_ALWAYS`].
    pub(super) fn fewest() -> Self {
        Self { supply: Supply::Fewest, held: 0 }
    }

    /// Counts another open folder, if other walks keep their share.
    pub(super) fn take(&mut self) -> bool {
        let taken = match &self.supply {
            Supply::Unbounded => true,
            Supply::Fewest => false,
            Supply::Pool(pool) => {
                let may = |all: usize| {
                    let left = FOLDERS_MAX.saturating_sub(all);
                    (self.held < left / FOLDERS_SHARE).then_some(all + 1)
                };
                pool.folders.fetch_update(Ordering::Relaxed, Ordering::Relaxed, may).is_ok()
            }
        };
        self.held += usize::from(taken);
        taken
    }

    /// Counts one open folder less.
    pub(super) fn give_back(&mut self) {
        self.held -= 1;
        if let Supply::Pool(pool) = &self.supply {
            pool.folders.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Drop for Folders {
    fn drop(&mut self) {
        if let Supply::Pool(pool) = &self.supply {
            pool.folders.fetch_sub(self.held, Ordering::Relaxed);
        }
    }
}

/// Grants a part of `want` bytes, if others keep their share.
fn grant(held: &AtomicUsize, all: usize, want: usize, share: usize, least: usize) -> Option<usize> {
    let mut given = 0;
    let taken = held.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |held| {
        let share = all.saturating_sub(held) / share;
        given = want.min(share / SMALLEST_BYTES * SMALLEST_BYTES);
        (given == want || given >= least).then_some(held + given)
    });
    taken.is_ok().then_some(given)
}

impl Permit {
    /// The number of bytes.
    pub(in crate::store) fn bytes(&self) -> usize {
        self.bytes
    }
}

impl Drop for Permit {
    fn drop(&mut self) {
        if let Some((session, from)) = &self.from {
            let held = match from {
                From::Pool => &session.pool.held,
                From::Own => &session.own,
            };
            held.fetch_sub(self.bytes, Ordering::Relaxed);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const BLOCK: usize = 256 << 10;

    #[test]
    fn few_transfers_get_full_blocks_and_many_sessions_stay_below_the_limit() {
        let pool = Arc::new(Pool::default());
        let one = Blocks::of_session(&pool);
        let few: Vec<_> = (0..96).map(|_| one.take(BLOCK).unwrap()).collect();
        assert!(few.iter().all(|permit| permit.bytes() == BLOCK), "48 transfers of two blocks each");
        let sessions: Vec<_> = (0..200).map(|_| Blocks::of_session(&pool)).collect();
        let mut many = Vec::new();
        for session in &sessions {
            for _ in 0..64 {
                many.push(session.take_some(BLOCK));
                many.extend(session.take(BLOCK));
            }
        }
        let held: usize = few.iter().chain(&many).map(Permit::bytes).sum();
        assert!(pool.held() <= POOL_BYTES);
        assert!(held <= POOL_BYTES + 200 * (SESSION_BYTES + 64 * SMALLEST_BYTES), "{held}");
        assert!(many.iter().all(|permit| permit.bytes() >= SMALLEST_BYTES));
        drop((few, many));
        assert_eq!(pool.held(), 0);
        assert!(sessions.iter().all(|session| session.take(BLOCK).unwrap().bytes() == BLOCK));
    }

    #[test]
    fn a_session_with_maximum_demand_leaves_memory_to_another() {
        let pool = Arc::new(Pool::default());
        let hoarder = Blocks::of_session(&pool);
        let _hoard: Vec<_> = (0..10_000).map_while(|_| hoarder.take(BLOCK)).collect();
        let honest = Blocks::of_session(&pool);
        let blocks = [honest.take(BLOCK).unwrap(), honest.take(BLOCK).unwrap()];
        assert!(blocks.iter().all(|permit| permit.bytes() >= 12 << 10), "{blocks:?}");
    }

    #[test]
    fn growing_memory_is_limited_by_the_pool_and_returned() {
        let pool = Arc::new(Pool::new(1 << 20));
        let mut growing = Growing::new(Blocks::of_session(&pool));
        assert!(growing.grow_to(300_000) && pool.held() >= 300_000);
        assert!(growing.grow_to(300_000));
        assert!(!growing.grow_to(2 << 20), "more than there is");
        assert!(pool.held() <= 1 << 20);
        let mut little = Growing::new(Blocks::of_session(&pool));
        assert!(little.grow_to(32 << 10), "what each session has for itself");
        drop((growing, little));
        assert_eq!(pool.held(), 0);
        assert!(Growing::default().grow_to(1 << 30), "without a session there is no bound");
    }

    #[test]
    fn open_folders_of_walks_are_limited_by_the_pool_and_returned() {
        let pool = Arc::new(Pool::default());
        let mut walks: Vec<Folders> = (0..400).map(|_| Blocks::of_session(&pool).folders()).collect();
        let held: Vec<usize> = walks.iter_mut().map(|walk| (0..98).filter(|_| walk.take()).count()).collect();
        assert_eq!(held[0], 98, "one walk has a whole tree open");
        let all: usize = held.iter().sum();
        assert!(all <= FOLDERS_MAX && all > FOLDERS_MAX / 2, "{all}");
        assert_eq!((held[399], walks[399].take()), (0, false));
        walks[0].give_back();
        assert!(walks[399].take(), "what was given back");
        drop(walks);
        assert_eq!(pool.folders.load(Ordering::Relaxed), 0);
        let mut alone = Folders::default();
        assert!((0..10_000).all(|_| alone.take()), "without a pool there is no bound");
        alone.give_back();
    }

    #[test]
    fn without_a_session_there_is_no_limit() {
        let blocks = Blocks::default();
        let all: Vec<_> = (0..1_000).map(|_| blocks.take(BLOCK).unwrap()).collect();
        assert!(all.iter().all(|permit| permit.bytes() == BLOCK));
    }
}
