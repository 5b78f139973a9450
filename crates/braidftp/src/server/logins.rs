//! Order of the sessions of a user; protects newer work against an older session whose client has died.
//!
//! A session whose client has died exists for a while, with received commands that have not begun. If the same user has logged
//! in again meanwhile, those commands would undo newer work: replace a newer file by an older one, delete it, or leave a
//! temporary file beside it. So a session that is no longer the newest of its user makes no change until a packet from its
//! client has arrived. Over SCTP a living client answers within a round trip ([`Association::probe_peer`]). Over TCP the
//! connection of a killed client is closed by its system, and that of a dead host by keep-alive.

use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::time::Duration;

use braidftp_ftp::server::{Do, JobId};
use braidftp_net::Association;
use tokio::time::Instant;

use crate::store::fs::Claimant;

/// The first and the longest pause between two checks for a sign of life.
const LOOK: (Duration, Duration) = (Duration::from_millis(2), Duration::from_secs(1));

/// The number of the next login of any user: a task of a session may outlive all logins of its user.
static NEXT_LOGIN: AtomicU64 = AtomicU64::new(0);

/// The owners of logged-in sessions.
#[derive(Debug, Default)]
pub(super) struct Logins {
    owners: Mutex<BTreeMap<Arc<str>, Weak<Owner>>>,
}

/// The sessions of one owner, of which a later one takes over from earlier ones.
#[derive(Debug)]
struct Owner {
    name: Arc<str>,
    newest: Mutex<Newest>,
}

#[derive(Debug, Clone, Copy)]
struct Newest {
    turn: u64,
    since: Instant,
}

/// A logged-in session. Clones are the same session.
#[derive(Debug, Clone)]
pub(super) struct Login {
    owner: Arc<Owner>,
    turn: u64,
}

impl Logins {
    /// A login of `user`. `anonymous` may be anybody, so there the sessions from one address belong together.
    pub(super) fn enter(&self, user: &str, peer: IpAddr) -> Login {
        let name: Arc<str> = match user {
            "anonymous" | "ftp" => format!("{user}@{}", peer.to_canonical()).into(),
            user => user.into(),
        };
        let mut owners = self.owners.lock().unwrap_or_else(PoisonError::into_inner);
        let newest = Newest { turn: NEXT_LOGIN.fetch_add(1, Ordering::Relaxed), since: Instant::now() };
        let owner = match owners.get(&name).and_then(Weak::upgrade) {
            Some(owner) => owner,
            None => {
                // At most as many as there are sessions remain.
                owners.retain(|_, owner| owner.strong_count() > 0);
                let owner = Arc::new(Owner { name: name.clone(), newest: Mutex::new(newest) });
                owners.insert(name, Arc::downgrade(&owner));
                owner
            }
        };
        *owner.newest.lock().unwrap_or_else(PoisonError::into_inner) = newest;
        Login { owner, turn: newest.turn }
    }
}

impl Login {
    /// The owner of written files: a later session of the same owner takes over the files that this one has
    /// open.
    pub(super) fn claimant(&self) -> Claimant {
        Claimant { owner: self.owner.name.clone(), turn: self.turn }
    }

    /// The time of the newest later login of the same owner.
    fn overtaken_since(&self) -> Option<Instant> {
        let newest = *self.owner.newest.lock().unwrap_or_else(PoisonError::into_inner);
        (newest.turn > self.turn).then_some(newest.since)
    }

    /// Whether no packet was received from the client of this session since a newer login of the same owner.
    pub(super) fn may_be_dead(&self, association: &Association) -> bool {
        self.overtaken_since().is_some_and(|since| association.silence() >= since.elapsed())
    }
}

/// Changes that wait for a sign of life from the client.
#[derive(Debug, Default)]
pub(super) struct Withheld {
    tasks: Vec<Do>,
    /// The time of the first of them.
    since: Option<Instant>,
}

impl Withheld {
    pub(super) fn push(&mut self, task: Do) {
        self.since.get_or_insert_with(Instant::now);
        self.tasks.push(task);
    }

    pub(super) fn is_empty(&self) -> bool {
        self.tasks.is_empty()
    }

    /// Returns all of them, in order.
    pub(super) fn take(&mut self) -> Vec<Do> {
        self.since = None;
        std::mem::take(&mut self.tasks)
    }

    /// Removes this job; returns whether it was waiting.
    pub(super) fn forget(&mut self, job: JobId) -> bool {
        let before = self.tasks.len();
        let is_it = |task: &Do| matches!(task, Do::Change { job: its, .. } | Do::Receive { job: its, .. } if *its == job);
        self.tasks.retain(|task| !is_it(task));
        self.tasks.len() < before
    }

    /// When to check again for a sign of life, if changes wait.
    pub(super) fn next_look(&self, now: Instant) -> Option<Instant> {
        let waited = now - self.since?;
        (!self.is_empty()).then(|| now + (waited / 4).clamp(LOOK.0, LOOK.1))
    }
}

#[cfg(test)]
mod tests {
    use std::net::Ipv4Addr;

    use super::*;

    const HERE: IpAddr = IpAddr::V4(Ipv4Addr::LOCALHOST);
    const THERE: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 2));

    #[test]
    fn a_login_is_overtaken_by_a_later_one_of_the_same_owner_alone() {
        let logins = Logins::default();
        let first = logins.enter("anna", HERE);
        assert_eq!(first.overtaken_since(), None);
        let (_other, _elsewhere) = (logins.enter("bert", HERE), logins.enter("anonymous", THERE));
        assert_eq!(first.overtaken_since(), None);
        let second = logins.enter("anna", THERE);
        let since = first.overtaken_since().expect("a newer one");
        assert_eq!(second.overtaken_since(), None);
        assert!(second.claimant().turn > first.claimant().turn);
        assert_eq!(second.claimant().owner, first.claimant().owner);
        let third = logins.enter("anna", HERE);
        assert!(first.overtaken_since() >= Some(since) && second.overtaken_since().is_some());
        // A newer session that has ended counts nevertheless.
        drop((second, third));
        assert!(first.overtaken_since().is_some());
        let anonymous = logins.enter("anonymous", HERE);
        logins.enter("ftp", HERE);
        logins.enter("anonymous", THERE);
        assert_eq!(anonymous.overtaken_since(), None);
    }

    #[test]
    fn owners_are_forgotten_with_their_last_session() {
        let logins = Logins::default();
        for nth in 0..1000 {
            logins.enter(&format!("user{nth}"), HERE);
        }
        let _last = logins.enter("anna", HERE);
        assert!(logins.owners.lock().unwrap().len() <= 2);
    }
}
