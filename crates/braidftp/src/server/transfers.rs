//! Limit on the concurrent transfers of all sessions: each needs an open file, a task and a block.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

/// Maximum number of transfers under way in all sessions: enough for sixteen sessions of braid to use all of their streams.
pub(crate) const TRANSFERS_MAX: usize = 1024;
/// Transfers that each session may have in any case.
pub(super) const TRANSFERS_ALWAYS: usize = 2;
/// A session may use at most a quarter of the transfers that the others leave. So sessions that could use more come to equal parts,
/// as their transfers end, and a new session finds some.
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
        TRANSFERS_ALWAYS.max((own + left) / SHARE)
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

    /// Sessions that begin all transfers that they may, and end their oldest in turn.
    fn settled(sessions: usize, wanted: usize) -> Vec<usize> {
        let all = Arc::new(Transfers::default());
        let mut running: Vec<std::collections::VecDeque<UnderWay>> =
            (0..sessions).map(|_| Default::default()).collect();
        for _ in 0..3_000 {
            for session in &mut running {
                session.pop_front();
                while session.len() < wanted.min(all.allowed(session.len())) {
                    session.push_back(all.begin());
                }
            }
        }
        running.iter().map(std::collections::VecDeque::len).collect()
    }

    #[test]
    fn a_session_has_all_its_transfers_while_few_do_and_two_when_many_do() {
        assert_eq!(settled(1, 256), [256]);
        for (sessions, least) in [(2, 200), (4, 140), (16, 50), (200, TRANSFERS_ALWAYS)] {
            let counts = settled(sessions, 256);
            assert!(counts.iter().all(|count| *count >= least), "{counts:?}");
            assert!(counts.iter().max() <= counts.iter().min().map(|min| min + 8).as_ref(), "{counts:?}");
            assert!(
                counts.iter().sum::<usize>() <= TRANSFERS_MAX + sessions * TRANSFERS_ALWAYS,
                "{counts:?}"
            );
        }
        assert_eq!(Transfers::default().allowed(0), TRANSFERS_MAX / SHARE);
    }
}
