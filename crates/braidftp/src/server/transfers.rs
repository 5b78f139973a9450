//! Limit on the concurrent transfers of all sessions: each needs an open file, a task and a block.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Transfers at once of all sessions together: sixteen sessions of braid with all of their streams in use.
pub(crate) const TRANSFERS_MAX: usize = 1024;
/// What each session may have under way, whatever the others have.
pub(super) const TRANSFERS_ALWAYS: usize = 2;
/// One session takes no more than one in so many of those that are left.
const SHARE: usize = 4;

/// Counts them.
#[derive(Debug, Default)]
pub(super) struct Transfers(AtomicUsize);

/// One that is under way, until this is dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Transfers>);

impl Transfers {
    /// How many a session may have under way that has so many now.
    pub(super) fn allowed(&self, own: usize) -> usize {
        let left = TRANSFERS_MAX.saturating_sub(self.0.load(Ordering::Relaxed));
        TRANSFERS_ALWAYS.max(own + left / SHARE)
    }

    /// One more.
    pub(super) fn begin(self: &Arc<Self>) -> UnderWay {
        self.0.fetch_add(1, Ordering::Relaxed);
        UnderWay(self.clone())
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_has_all_its_transfers_while_few_do_and_two_when_many_do() {
        let all = Arc::new(Transfers::default());
        let mut sessions: Vec<Vec<UnderWay>> = (0..200).map(|_| Vec::new()).collect();
        for session in &mut sessions {
            while session.len() < 64.min(all.allowed(session.len())) {
                session.push(all.begin());
            }
        }
        assert_eq!(sessions[0].len(), 64);
        assert!(sessions.iter().all(|session| session.len() >= TRANSFERS_ALWAYS));
        let count: usize = sessions.iter().map(Vec::len).sum();
        assert!(count <= TRANSFERS_MAX + 200 * TRANSFERS_ALWAYS, "{count}");
        drop(sessions);
        assert_eq!(all.allowed(0), TRANSFERS_MAX / SHARE);
    }
}
