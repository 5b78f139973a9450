//! Limits on the number of sessions, in all and from one address, and which session is closed for a new one.
//!
//! Sessions count by IPv4 address and by IPv6 /64. When there is no room, a session that nobody has logged in to makes room:
//! the one whose silence, times the number of such sessions from its address, is the longest, so that many sessions from few
//! addresses keep nobody out. If there is none, an idle session makes room that has been silent for [`IDLE_MAKES_ROOM`].
//!
//! If there is none of these either, and all sessions are taken, a newcomer from an address with fewer sessions than an equal part
//! of all (the limit, divided by the number of addresses) takes the place of one from the address that has most: the longest idle
//! one, or else the one whose transfers have stood still for the longest time, [`IDLE_MAKES_ROOM`] at least, or else the slowest
//! one, and sessions that have just begun or execute a command last. So a session that moves much makes room only for an address
//! below its part, and only if none of those from its address moves less; its client goes on in another session.
//!
//! Sessions over SCTP whose clients were killed, or whose hosts are gone, count until their associations end, which takes
//! minutes. When a limit is met, and before that when half of an address's sessions are taken, the clients that have been silent
//! are asked by HEARTBEATs ([`Association::probe_peer`]): a closed port ends its association at once, and associations of
//! clients that do not answer within [`ANSWERS_WITHIN`] are aborted.

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

/// After so much silence, a session with a login and no command under way makes room for a new one; after such a standstill of its
/// transfers, one of an address with more than its part does so before faster ones.
pub(crate) const IDLE_MAKES_ROOM: Duration = Duration::from_secs(60);

/// A client that has sent nothing for so long is asked whether it is there when room is wanted.
const SILENT: Duration = Duration::from_millis(250);
/// How long a client may take to answer: several HEARTBEATs over a slow and lossy path.
pub(crate) const ANSWERS_WITHIN: Duration = Duration::from_secs(5);
/// The time in which a session whose association has ended gives up its place.
const GOES_WITHIN: Duration = Duration::from_secs(1);
/// The first and the longest pause between two looks for an answer.
const LOOK: (Duration, Duration) = (Duration::from_millis(2), Duration::from_millis(250));
/// New sessions that wait for such answers at once; further ones are refused without asking.
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
    leaves: Arc<Notify>,
    /// The association of its control connection, over SCTP.
    association: Option<Association>,
    /// Who has logged in.
    user: Option<String>,
    /// Of its transfers.
    progress: Arc<Progress>,
}

/// Whose sessions make room for a new one.
#[derive(Debug, Clone, Copy)]
enum Whose<'a> {
    All,
    Network(IpAddr),
    User(&'a str),
}

/// How far a session is, which decides whether it makes room for others.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Standing {
    /// Nobody has logged in.
    BeforeLogin,
    /// Somebody has, and no command is under way.
    Idle,
    /// Somebody has, and a command is under way.
    Busy,
    /// Somebody has, and a transfer is under way.
    Transferring,
}

/// The right to one session; given back when dropped.
#[derive(Debug)]
pub(super) struct Place {
    limits: Arc<Limits>,
    id: u64,
    leaves: Arc<Notify>,
    standing: Standing,
}

impl Limits {
    pub(super) fn new(max_sessions: usize, max_sessions_per_address: usize) -> Arc<Self> {
        let limits = Self { now: Mutex::default(), waiting: Semaphore::new(WAITING_MAX) };
        limits.set(max_sessions, max_sessions_per_address);
        Arc::new(limits)
    }

    /// Other limits from now on. Sessions beyond them stay.
    pub(super) fn set(&self, max_sessions: usize, max_sessions_per_address: usize) {
        let mut now = self.lock();
        (now.max, now.max_per_address) = (max_sessions, max_sessions_per_address);
    }

    /// A place for one more session from `address`, if there is one or another session makes room; where it takes that, after
    /// silent clients were asked whether they are there.
    ///
    /// # Cancel safety
    /// Safe: no place is taken.
    pub(super) async fn enter(self: &Arc<Self>, address: IpAddr) -> Option<Place> {
        let network = subnet(address);
        if self.lock().is_half_full(network) {
            // So that the dead are gone before the limit is met.
            self.silent(Whose::Network(network)).iter().for_each(Association::probe_peer);
        }
        if let Some(place) = self.enter_now(network) {
            return Some(place);
        }
        let whose = if self.lock().is_full(network) { Whose::Network(network) } else { Whose::All };
        self.after_asking(whose, || self.enter_now(network)).await
    }

    /// What `enter` gives once a session of `user`, as [`Place::belongs_to`] was told, has ended whose client did not answer.
    ///
    /// # Cancel safety
    /// Safe as far as `enter` is.
    pub(super) async fn enter_as<T>(&self, user: &str, enter: impl FnMut() -> Option<T>) -> Option<T> {
        self.after_asking(Whose::User(user), enter).await
    }

    fn enter_now(self: &Arc<Self>, network: IpAddr) -> Option<Place> {
        let mut now = self.lock();
        if now.is_full(network) {
            now.make_room(Some(network))?;
        } else if now.all.len() >= now.max {
            now.make_room(None).or_else(|| now.make_fair_room(network))?;
        }
        let (id, leaves, standing) = (now.next, Arc::new(Notify::new()), Standing::BeforeLogin);
        now.next += 1;
        *now.by_network.entry(network).or_default() += 1;
        let (heard, association, user, progress) = (Instant::now(), None, None, Arc::default());
        let entry = Entry { network, standing, heard, leaves: leaves.clone(), association, user, progress };
        now.all.insert(id, entry);
        Some(Place { limits: self.clone(), id, leaves, standing })
    }

    /// The associations of sessions whose clients have been silent.
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
        associations.into_iter().filter(|association| association.silence() >= SILENT).collect()
    }

    /// Asks silent clients whether they are there, until `enter` gives something or all have answered, and ends the associations
    /// of those that do not answer.
    async fn after_asking<T>(&self, whose: Whose<'_>, mut enter: impl FnMut() -> Option<T>) -> Option<T> {
        let _waiting = self.waiting.try_acquire().ok()?;
        let (mut asked, since) = (self.silent(whose), Instant::now());
        let is_unheard = |association: &Association| association.silence() >= since.elapsed();
        while !asked.is_empty() && since.elapsed() < ANSWERS_WITHIN + GOES_WITHIN {
            for association in asked.iter().filter(|association| is_unheard(association)) {
                match since.elapsed() < ANSWERS_WITHIN {
                    true => association.probe_peer(),
                    false => association.abort("it did not answer, and room is wanted for other sessions"),
                }
            }
            tokio::time::sleep((since.elapsed() / 4).clamp(LOOK.0, LOOK.1)).await;
            if let Some(entered) = enter() {
                return Some(entered);
            }
            // The session of one that has ended is about to.
            asked.retain(|association| is_unheard(association) || association.reason().is_some());
        }
        None
    }

    /// The tables are whole after every statement under their lock, so that a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, Sessions> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Entry {
    /// Whether the transport has nothing of what the session has sent. The transfers of a session are over when the transport has
    /// taken their last bytes.
    fn holds_nothing(&self) -> bool {
        self.association.as_ref().is_none_or(|association| association.stats().buffered_bytes == 0)
    }
}

impl Sessions {
    /// Whether a network has as many sessions as it may have.
    fn is_full(&self, network: IpAddr) -> bool {
        self.by_network.get(&network).is_some_and(|here| *here >= self.max_per_address)
    }

    /// Whether it has half of them.
    fn is_half_full(&self, network: IpAddr) -> bool {
        self.by_network.get(&network).is_some_and(|here| *here >= self.max_per_address / 2)
    }

    /// Ends a session, of this network or any, if one may be ended.
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
                Standing::Idle if silence >= IDLE_MAKES_ROOM => Some((0, silence)),
                Standing::Idle | Standing::Busy | Standing::Transferring => None,
            }
        };
        self.end_first(|entry| rank(entry).filter(|_| of.is_none_or(|of| entry.network == of)))
    }

    /// Ends a session of the network that has most for one of this network, if this one has fewer than an equal part.
    fn make_fair_room(&mut self, network: IpAddr) -> Option<()> {
        let now = Instant::now();
        let own = self.by_network.get(&network).copied().unwrap_or(0);
        let networks = self.by_network.len() + usize::from(own == 0);
        // All are taken: where this network has less than its part, the one that has most has more.
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
                (Standing::Idle, ..) if entry.holds_nothing() => {
                    (3, now.duration_since(entry.heard), Reverse(0))
                }
                (Standing::Busy, ..) | (.., None) => (0, Duration::ZERO, Reverse(0)),
                (_, still, _) if still >= IDLE_MAKES_ROOM => (2, still, Reverse(0)),
                (.., Some(bytes)) => (1, Duration::ZERO, Reverse(bytes)),
            };
            of_most.contains(&entry.network).then_some(rank)
        };
        self.end_first(rank)
    }

    /// Ends the session that ranks highest, the oldest of equals, if one has a rank.
    fn end_first<R: Ord>(&mut self, rank: impl Fn(&Entry) -> Option<R>) -> Option<()> {
        let ranked = self.all.iter().filter_map(|(id, entry)| Some((rank(entry)?, Reverse(*id))));
        let (_, Reverse(id)) = ranked.max()?;
        self.remove(id)?.leaves.notify_one();
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
    /// The session's control connection is this association.
    pub(super) fn is_carried_by(&self, association: &Association) {
        self.change(|entry| entry.association = Some(association.clone()));
    }

    /// The session's transfers make this progress.
    pub(super) fn progresses(&self, progress: Arc<Progress>) {
        self.change(|entry| entry.progress = progress);
    }

    /// This user of a host has logged in, or nobody any more.
    pub(super) fn belongs_to(&self, user: Option<String>) {
        self.change(|entry| entry.user = user);
    }

    fn change(&self, change: impl FnOnce(&mut Entry)) {
        if let Some(entry) = self.limits.lock().all.get_mut(&self.id) {
            change(entry);
        }
    }

    /// The client said something.
    pub(super) fn heard(&self) {
        self.change(|entry| entry.heard = Instant::now());
    }

    /// The session stands so from now on.
    pub(super) fn stands(&mut self, standing: Standing) {
        if self.standing == standing {
            return;
        }
        self.standing = standing;
        self.change(|entry| (entry.standing, entry.heard) = (standing, Instant::now()));
    }

    /// Waits until the session has to make room for another.
    ///
    /// # Cancel safety
    /// Safe: it is told again.
    pub(super) async fn taken(&self) {
        self.leaves.notified().await;
        self.leaves.notify_one();
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
        place.stands(Standing::Busy);
        place
    }

    /// Whether the session was told to make room.
    async fn is_taken(place: &Place) -> bool {
        tokio::time::timeout(Duration::from_millis(1), place.taken()).await.is_ok()
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
            is_taken(&second).await && is_taken(&second).await,
            "it was silent longer, and is told twice"
        );
        assert!(!is_taken(&first).await && !is_taken(&busy).await);
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
        assert!(!is_taken(&alone).await);
        // Nor do they once they have logged in and do nothing, for long.
        let limits = Limits::new(2, 2);
        let mut idle = [limits.enter_at(A).unwrap(), limits.enter_at(A).unwrap()];
        idle.iter_mut().for_each(|place| place.stands(Standing::Idle));
        assert!(limits.enter_at(A).is_none());
        tokio::time::advance(IDLE_MAKES_ROOM).await;
        idle[1].heard();
        assert!(limits.enter_at(A).is_some());
        assert!(is_taken(&idle[0]).await && !is_taken(&idle[1]).await);
    }

    fn standing(limits: &Arc<Limits>, address: IpAddr, standing: Standing) -> Place {
        let mut place = limits.enter_at(address).unwrap();
        place.stands(standing);
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
        third.stands(Standing::Busy);
        assert!(is_taken(&idle[1]).await, "it was silent longer");
        assert!(!is_taken(&idle[0]).await && !is_taken(&others[0]).await);
        let _fourth = standing(&limits, C, Standing::Busy);
        assert!(is_taken(&idle[2]).await);
        assert!(limits.enter_at(C).is_none(), "it has its part");
        assert!(!is_taken(&idle[0]).await && !is_taken(&others[1]).await);
    }

    /// A session with a transfer under way, and its progress.
    fn transferring(limits: &Arc<Limits>, address: IpAddr) -> (Place, Arc<Progress>) {
        let (place, progress) =
            (standing(limits, address, Standing::Transferring), Arc::<Progress>::default());
        place.progresses(progress.clone());
        (place, progress)
    }

    #[tokio::test(start_paused = true)]
    async fn a_session_whose_transfers_stand_still_makes_room_before_one_of_progress() {
        let limits = Limits::new(4, 4);
        let _busy = standing(&limits, A, Standing::Busy);
        let [(moves, progress), (stands_still, _), (slow, trickle)] =
            [(); 3].map(|()| transferring(&limits, A));
        tokio::time::advance(IDLE_MAKES_ROOM).await;
        progress.moved(100_000);
        trickle.moved(1);
        stands_still.heard();
        let _first = logged_in(&limits, B);
        assert!(is_taken(&stands_still).await, "what it says is no progress");
        assert!(!is_taken(&moves).await && !is_taken(&slow).await);
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
        assert!(is_taken(&of_a[1].0).await);
        let _second_of_d = logged_in(&limits, fourth);
        assert!(is_taken(&of_a[2].0).await);
        assert!(limits.enter_at(fourth).is_none(), "it has its part");
        for spared in [&busy, &of_a[0].0, &first_of_b, &second_of_b, &first_of_c, &second_of_c] {
            assert!(!is_taken(spared).await);
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
        assert!(is_taken(&fast).await, "its pace is known");
        let _second = logged_in(&limits, B);
        assert!(is_taken(&young).await, "the oldest of the others");
        assert!(!is_taken(&busy[0]).await && !is_taken(&busy[1]).await);
    }
}
