//! Limit on the concurrent transfers of all sessions: each needs an open file, a task and a block.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of transfers under way in all sessions: sixteen sessions of braid with all of their streams in use.
pub(crate) const TRANSFERS_MAX: usize = 1024;
/// Transfers that each session may have in any case.
pub(super) const TRANSFERS_ALWAYS: usize = 2;
/// A session may use at most a quarter of the free transfers.
const SHARE: usize = 4;

/// The number of transfers under way.
#[derive(Debug, Default)]
pub(super) struct Transfers(AtomicUsize);

/// A transfer under way; ends when dropped.
#[derive(Debug)]
pub(super) struct UnderWay(Arc<Transfers>);

impl Transfers {
    /// Returns how many transfers a session may have that has `own` now.
    pub(super) fn allowed(&self, own: usize) -> usize {
        let left = TRANSFERS_MAX.saturating_sub(self.0.load(Ordering::Relaxed));
        TRANSFERS_ALWAYS.max(own + left / SHARE)
    }

    /// Counts one more.
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
