//! Limits on the number of sessions, in total and per address, and which session is closed for a new one.
//!
//! Sessions are counted per IPv4 address and per IPv6 /64. At a limit, the first of these rules that finds a session closes it:
//!
//! 1. A session without a login: the one with the largest product of its silence and the number of such sessions from its
//!    address. A few addresses with many sessions therefore keep nobody out.
//! 2. An idle session, after a silence of [`MAY_CLOSE_AFTER`].
//! 3. Only at the total limit, and only if the address of the new session has fewer than an equal share (the limit divided by the
//!    number of addresses): a session of the address with the most. Idle ones are first, by silence; then those whose transfers
//!    have made no progress for [`MAY_CLOSE_AFTER`]; then the slowest. Sessions that have just begun, or execute a command other
//!    than a transfer, are last.
//!
//! If none applies, the new session is refused.
//!
//! Sessions over SCTP whose clients were killed or whose hosts have gone count until their associations end, which takes
//! minutes. At a limit, and as soon as an address has half of its sessions, silent clients are therefore probed by HEARTBEATs
//! ([`Association::probe_peer`]): a closed port ends its association at once, and associations of clients that do not answer
//! within [`ANSWER_TIMEOUT`] are aborted.

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::net::IpAddr;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_net::Association;
use tokio::sync::{Notify, Semaphore};
use tokio::time::Instant;

use super::activity::Progress;
use crate::users::subnet;

/// The silence after which an idle session may be closed for a new one, and the time without progress after which a session with
/// transfers is closed before faster ones.
pub(crate) const MAY_CLOSE_AFTER: Duration = Duration::from_secs(60);

/// The silence after which a client is probed at a limit.
const PROBE_AFTER: Duration = Duration::from_millis(250);
/// The time in which a client must answer a probe: several HEARTBEATs over a slow and lossy path.
pub(crate) const ANSWER_TIMEOUT: Duration = Duration::from_secs(5);
/// The time in which a session whose association has ended releases its place.
const RELEASE_TIMEOUT: Duration = Duration::from_secs(1);
/// The first and the longest interval between two checks for an answer.
const CHECK_INTERVAL: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// The number of new sessions that wait for such answers at once; further ones are refused without probes.
pub(crate) const WAITING_MAX: usize = 32;

/// Counts sessions.
#[derive(Debug)]
pub(super) struct Limits {
    now: Mutex<Sessions>,
    waiting: Semaphore,
}

#[derive(Debug, Default)]
struct Sessions {
    max: usize,
    max_per_address: usize,
    next: u64,
    all: BTreeMap<u64, Entry>,
    by_network: BTreeMap<IpAddr, usize>,
}

#[derive(Debug)]
struct Entry {
    network: IpAddr,
    standing: Standing,
    heard: Instant,
    closes: Arc<Notify>,
    /// The association of the control connection, over SCTP.
    association: Option<Association>,
    /// The user who has logged in.
    user: Option<String>,
    /// The progress of its transfers.
    progress: Arc<Progress>,
}

/// The sessions whose clients are probed.
#[derive(Debug, Clone, Copy)]
enum Whose<'a> {
    All,
    Network(IpAddr),
    User(&'a str),
}

/// The state of a session, which decides whether it may be closed for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Without a login.
    BeforeLogin,
    /// Logged in, without a command in progress.
    Idle,
    /// Logged in, with a command in progress.
    Busy,
    /// Logged in, with a transfer in progress.
    Transferring,
}

/// The permit for one session, released on drop.
#[derive(Debug)]
pub(super) struct Place {
    limits: Arc<Limits>,
    id: u64,
    closes: Arc<Notify>,
    standing: Standing,
}

impl Limits {
    pub(super) fn new(max_sessions: usize, max_sessions_per_address: usize) -> Arc<Self> {
        let limits = Self { now: Mutex::default(), waiting: Semaphore::new(WAITING_MAX) };
        limits.set(max_sessions, max_sessions_per_address);
        Arc::new(limits)
    }

    /// Changes the limits. Existing sessions beyond them continue.
    pub(super) fn set(&self, max_sessions: usize, max_sessions_per_address: usize) {
        let mut now = self.lock();
        (now.max, now.max_per_address) = (max_sessions, max_sessions_per_address);
    }

    /// Returns a place for a new session from `address`, if one is free or can be made free. At a limit, silent clients are probed
    /// first.
    ///
    /// # Cancel safety
    /// Safe: no place is taken.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let network = subnet(address);
        if self.lock().is_half_full(network) {
            // Sessions of killed clients end before the limit is reached.
            self.silent(Whose::Network(network)).iter().for_each(Association::probe_peer);
        }
        if let Some(place) = self.enter_now(network) {
            return Some(place);
        }
        let whose = if self.lock().is_full(network) { Whose::Network(network) } else { Whose::All };
        self.after_probing(whose, || self.enter_now(network)).await
    }

    /// Probes the silent clients of `user` (see [`Place::set_user`]), and returns the first `Some` of `enter`, which is called
    /// again whenever a session may have ended.
    ///
    /// # Cancel safety
    /// Safe as far as `enter` is.
    pub(super) async fn enter_as<T>(&self, user: &str, enter: impl FnMut() -> Option<T>) -> Option<T> {
        self.after_probing(Whose::User(user), enter).await
    }

    fn enter_now(self: &Arc<Self>, network: IpAddr) -> Option<Place> {
        let mut now = self.lock();
        if now.is_full(network) {
            now.make_room(Some(network))?;
        } else if now.all.len() >= now.max {
            now.make_room(None).or_else(|| now.make_fair_room(network))?;
        }
        let (id, closes, standing) = (now.next, Arc::new(Notify::new()), Standing::BeforeLogin);
        now.next += 1;
        *now.by_network.entry(network).or_default() += 1;
        let (heard, association, user, progress) = (Instant::now(), None, None, Arc::default());
        let entry = Entry { network, standing, heard, closes: closes.clone(), association, user, progress };
        now.all.insert(id, entry);
        Some(Place { limits: self.clone(), id, closes, standing })
    }

    /// Returns the associations whose peers have been silent for [`PROBE_AFTER`].
    fn silent(&self, whose: Whose<'_>) -> Vec<Association> {
        let is_one = |entry: &Entry| match whose {
            Whose::All => true,
            Whose::Network(network) => entry.network == network,
            Whose::User(user) => entry.user.as_deref() == Some(user),
        };
        let now = self.lock();
        let associations = now.all.values().filter(|entry| is_one(entry));
        let associations: Vec<_> = associations.filter_map(|entry| entry.association.clone()).collect();
        drop(now);
        associations.into_iter().filter(|association| association.silence() >= PROBE_AFTER).collect()
    }

    /// Probes silent clients until `enter` returns `Some` or all have answered, and aborts the associations of those that do not
    /// answer.
    async fn after_probing<T>(&self, whose: Whose<'_>, mut enter: impl FnMut() -> Option<T>) -> Option<T> {
        let _waiting = self.waiting.try_acquire().ok()?;
        let (mut probed, since) = (self.silent(whose), Instant::now());
        let is_silent = |association: &Association| association.silence() >= since.elapsed();
        while !probed.is_empty() && since.elapsed() < ANSWER_TIMEOUT + RELEASE_TIMEOUT {
            for association in probed.iter().filter(|association| is_silent(association)) {
                match since.elapsed() < ANSWER_TIMEOUT {
                    true => association.probe_peer(),
                    false => {
                        association.abort("no answer to HEARTBEATs, and the limit on sessions is reached")
                    }
                }
            }
            tokio::time::sleep((since.elapsed() / 4).clamp(CHECK_INTERVAL.0, CHECK_INTERVAL.1)).await;
            if let Some(entered) = enter() {
                return Some(entered);
            }
            // The session of an association that has ended is about to end.
            probed.retain(|association| is_silent(association) || association.reason().is_some());
        }
        None
    }

    /// The tables are consistent after every statement under the lock, so a poisoned lock may be used.
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Whether the peer has acknowledged everything: the session counts a transfer as complete when the transport has accepted its
    /// last bytes.
    fn is_drained(&self) -> bool {
        self.association.as_ref().is_none_or(|association| association.stats().buffered_bytes == 0)
    }
}

impl Sessions {
    /// Whether a network has the maximum number of sessions.
    fn is_full(&self, network: IpAddr) -> bool {
        self.by_network.get(&network).is_some_and(|here| *here >= self.max_per_address)
    }

    /// Whether a network has half of that.
    fn is_half_full(&self, network: IpAddr) -> bool {
        self.by_network.get(&network).is_some_and(|here| *here >= self.max_per_address / 2)
    }

    /// Closes a session by rules 1 and 2, of this network or of any.
    fn make_room(&mut self, of: Option<IpAddr>) -> Option<()> {
        let now = Instant::now();
        let mut waiting: BTreeMap<IpAddr, u32> = BTreeMap::new();
        for entry in self.all.values().filter(|entry| entry.standing == Standing::BeforeLogin) {
            *waiting.entry(entry.network).or_default() += 1;
        }
        let rank = |entry: &Entry| {
            let silence = now.duration_since(entry.heard);
            match entry.standing {
                Standing::BeforeLogin => Some((1, silence.saturating_mul(waiting[&entry.network]))),
                Standing::Idle if silence >= MAY_CLOSE_AFTER => Some((0, silence)),
                Standing::Idle | Standing::Busy | Standing::Transferring => None,
            }
        };
        self.close_first(|entry| rank(entry).filter(|_| of.is_none_or(|of| entry.network == of)))
    }

    /// Closes a session of the network with the most by rule 3, if this network has fewer than an equal share.
    fn make_fair_room(&mut self, network: IpAddr) -> Option<()> {
        let now = Instant::now();
        let own = self.by_network.get(&network).copied().unwrap_or(0);
        let networks = self.by_network.len() + usize::from(own == 0);
        // At the limit, some network has more than its share if this one has less.
        if own >= self.max / networks {
            return None;
        }
        let most = self.by_network.values().copied().max()?;
        let of_most: Vec<IpAddr> = self
            .by_network
            .iter()
            .filter(|(_, count)| **count == most)
            .map(|(network, _)| *network)
            .collect();
        let rank = |entry: &Entry| {
            let rank = match (entry.standing, entry.progress.standstill(), entry.progress.pace()) {
                (Standing::BeforeLogin, ..) => return None,
                (Standing::Idle, ..) if entry.is_drained() => {
                    (3, now.duration_since(entry.heard), Reverse(0))
                }
                (Standing::Busy, ..) | (.., None) => (0, Duration::ZERO, Reverse(0)),
                (_, still, _) if still >= MAY_CLOSE_AFTER => (2, still, Reverse(0)),
                (.., Some(bytes)) => (1, Duration::ZERO, Reverse(bytes)),
            };
            of_most.contains(&entry.network).then_some(rank)
        };
        self.close_first(rank)
    }

    /// Closes the session with the highest rank, the oldest of equals.
    fn close_first<R: Ord>(&mut self, rank: impl Fn(&Entry) -> Option<R>) -> Option<()> {
        let ranked = self.all.iter().filter_map(|(id, entry)| Some((rank(entry)?, Reverse(*id))));
        let (_, Reverse(id)) = ranked.max()?;
        self.remove(id)?.closes.notify_one();
        Some(())
    }

    fn remove(&mut self, id: u64) -> Option<Entry> {
        let entry = self.all.remove(&id)?;
        if let Some(count) = self.by_network.get_mut(&entry.network) {
            *count -= 1;
            if *count == 0 {
                self.by_network.remove(&entry.network);
            }
        }
        Some(entry)
    }
}

impl Place {
    /// Sets the association of the control connection.
    pub(super) fn set_association(&self, association: &Association) {
        self.change(|entry| entry.association = Some(association.clone()));
    }

    /// Sets the progress of the transfers.
    pub(super) fn set_progress(&self, progress: Arc<Progress>) {
        self.change(|entry| entry.progress = progress);
    }

    /// Sets the user who has logged in, qualified by host; `None` after a logout.
    pub(super) fn set_user(&self, user: Option<String>) {
        self.change(|entry| entry.user = user);
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.limits.lock().all.get_mut(&self.id) {
            change(entry);
        }
    }

    /// Records that the client has sent something.
    pub(super) fn heard(&self) {
        self.change(|entry| entry.heard = Instant::now());
    }

    /// Sets the state of the session.
    pub(super) fn set_standing(&mut self, standing: Standing) {
        if self.standing == standing {
            return;
        }
        self.standing = standing;
        self.change(|entry| (entry.standing, entry.heard) = (standing, Instant::now()));
    }

    /// Waits until the session has to close for another.
    ///
    /// # Cancel safety
    /// Safe: the next call returns at once.
    pub(super) async fn closed_for_another(&self) {
        self.closes.notified().await;
        self.closes.notify_one();
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        self.limits.lock().remove(self.id);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 1));
    const B: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 2));
    const C: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(10, 0, 0, 3));

    impl Limits {
        fn enter_at(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
            self.enter_now(subnet(address))
        }
    }

    fn logged_in(limits: &Arc<Limits>, address: IpAddr) -> Place {
        let mut place = limits.enter_at(address).unwrap();
        place.set_standing(Standing::Busy);
        place
    }

    /// Whether the session has to close for another.
    async fn is_closed(place: &Place) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.closed_for_another()).await.is_ok()
    }

    #[test]
    fn places_are_counted_by_address_and_in_all_and_given_back() {
        let limits = Limits::new(3, 2);
        let first = logged_in(&limits, A);
        let second = logged_in(&limits, "::ffff:10.0.0.1".parse().unwrap());
        assert!(limits.enter_at(A).is_none(), "two from one address");
        let _third = logged_in(&limits, B);
        assert!(limits.enter_at(B).is_none(), "three in all");
        drop(first);
        assert!(limits.enter_at(B).is_some());
        drop(second);
        assert!(!limits.lock().by_network.contains_key(&A), "the table shrinks again");
        let _one = logged_in(&limits, "2001:db8::1".parse().unwrap());
        let _two = logged_in(&limits, "2001:db8::2".parse().unwrap());
        assert!(limits.enter_at("2001:db8::3".parse().unwrap()).is_none(), "two from one IPv6 network");
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_silent_session_before_its_login_makes_room() {
        let limits = Limits::new(3, 3);
        let busy = logged_in(&limits, A);
        let first = limits.enter_at(A).unwrap();
        let second = limits.enter_at(A).unwrap();
        tokio::time::advance(Duration::from_secs(1)).await;
        first.heard();
        tokio::time::advance(Duration::from_secs(1)).await;
        let third = limits.enter_at(B).expect("one makes room");
        assert!(
            is_closed(&second).await && is_closed(&second).await,
            "it was silent longer, and is told twice"
        );
        assert!(!is_closed(&first).await && !is_closed(&busy).await);
        drop(second);
        assert_eq!(limits.lock().all.len(), 3, "its place is another's");
        drop((first, third));
        let _places = [logged_in(&limits, A), logged_in(&limits, A)];
        assert!(limits.enter_at(A).is_none(), "all are logged in");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_of_an_address_of_its_own_outlasts_many_of_one_that_speak_all_the_time() {
        let limits = Limits::new(50, 50);
        let mut crowd: Vec<Place> = (0..49).map(|_| limits.enter_at(A).unwrap()).collect();
        let alone = limits.enter_at(B).unwrap();
        for _ in 0..100 {
            tokio::time::advance(Duration::from_millis(10)).await;
            crowd.push(limits.enter_at(A).unwrap());
        }
        assert!(!is_closed(&alone).await);
        // Nor do they once they have logged in and do nothing, for long.
        let limits = Limits::new(2, 2);
        let mut idle = [limits.enter_at(A).unwrap(), limits.enter_at(A).unwrap()];
        idle.iter_mut().for_each(|place| place.set_standing(Standing::Idle));
        assert!(limits.enter_at(A).is_none());
        tokio::time::advance(MAY_CLOSE_AFTER).await;
        idle[1].heard();
        assert!(limits.enter_at(A).is_some());
        assert!(is_closed(&idle[0]).await && !is_closed(&idle[1]).await);
    }

    fn standing(limits: &Arc<Limits>, address: IpAddr, standing: Standing) -> Place {
        let mut place = limits.enter_at(address).unwrap();
        place.set_standing(standing);
        place
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_of_an_address_below_its_part_takes_the_place_of_the_longest_idle_of_the_address_with_most()
     {
        let limits = Limits::new(6, 6);
        let _busy = standing(&limits, A, Standing::Busy);
        let idle: Vec<Place> = (0..3).map(|_| standing(&limits, A, Standing::Idle)).collect();
        let others: Vec<Place> = (0..2).map(|_| standing(&limits, B, Standing::Idle)).collect();
        tokio::time::advance(Duration::from_secs(1)).await;
        idle[0].heard();
        assert!(limits.enter_at(A).is_none(), "it has most");
        let mut third = limits.enter_at(C).expect("an equal part is two");
        third.set_standing(Standing::Busy);
        assert!(is_closed(&idle[1]).await, "it was silent longer");
        assert!(!is_closed(&idle[0]).await && !is_closed(&others[0]).await);
        let _fourth = standing(&limits, C, Standing::Busy);
        assert!(is_closed(&idle[2]).await);
        assert!(limits.enter_at(C).is_none(), "it has its part");
        assert!(!is_closed(&idle[0]).await && !is_closed(&others[1]).await);
    }

    /// A session with a transfer under way, and its progress.
    fn transferring(limits: &Arc<Limits>, address: IpAddr) -> (Place, Arc<Progress>) {
        let (place, progress) =
            (standing(limits, address, Standing::Transferring), Arc::<Progress>::default());
        place.set_progress(progress.clone());
        (place, progress)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_whose_transfers_stand_still_makes_room_before_one_of_progress() {
        let limits = Limits::new(4, 4);
        let _busy = standing(&limits, A, Standing::Busy);
        let [(moves, progress), (stands_still, _), (slow, trickle)] =
            [(); 3].map(|()| transferring(&limits, A));
        tokio::time::advance(MAY_CLOSE_AFTER).await;
        progress.moved(100_000);
        trickle.moved(1);
        stands_still.heard();
        let _first = logged_in(&limits, B);
        assert!(is_closed(&stands_still).await, "what it says is no progress");
        assert!(!is_closed(&moves).await && !is_closed(&slow).await);
    }

    #[tokio::test(start_paused = true)]
    async fn the_slowest_of_the_address_with_most_makes_room_for_one_below_its_part() {
        let limits = Limits::new(8, 4);
        let busy = standing(&limits, A, Standing::Busy);
        let of_a = [(); 3].map(|()| transferring(&limits, A));
        let [(first_of_b, _), (second_of_b, _)] = [(); 2].map(|()| transferring(&limits, B));
        let [(first_of_c, _), (second_of_c, _)] = [(); 2].map(|()| transferring(&limits, C));
        tokio::time::advance(Duration::from_secs(11)).await;
        for ((_, progress), bytes) in of_a.iter().zip([3_000, 1_000, 2_000]) {
            progress.moved(bytes);
        }
        let fourth = IpAddr::from([10, 0, 0, 4]);
        // An equal part is two, and only one address has more.
        let _first_of_d = logged_in(&limits, fourth);
        assert!(is_closed(&of_a[1].0).await);
        let _second_of_d = logged_in(&limits, fourth);
        assert!(is_closed(&of_a[2].0).await);
        assert!(limits.enter_at(fourth).is_none(), "it has its part");
        for spared in [&busy, &of_a[0].0, &first_of_b, &second_of_b, &first_of_c, &second_of_c] {
            assert!(!is_closed(spared).await);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_that_has_just_begun_or_executes_a_command_makes_room_last() {
        let limits = Limits::new(4, 4);
        let (fast, progress) = transferring(&limits, A);
        tokio::time::advance(Duration::from_secs(11)).await;
        progress.moved(1_000_000);
        let (young, _) = transferring(&limits, A);
        let busy = [standing(&limits, A, Standing::Busy), standing(&limits, A, Standing::Busy)];
        let _first = logged_in(&limits, B);
        assert!(is_closed(&fast).await, "its pace is known");
        let _second = logged_in(&limits, B);
        assert!(is_closed(&young).await, "the oldest of the others");
        assert!(!is_closed(&busy[0]).await && !is_closed(&busy[1]).await);
    }
}
