//! Rate limit for control connections over TCP, and the queue of those above it.
//!
//! Each connection takes a turn before its session begins. A session costs the server some memory and, as each may begin TLS
//! once, a signature and a key exchange: the rate bounds the CPU time of both. Connections above the rate wait without a session,
//! and networks are served in turn ([`FairQueue`]), so that a flood of networks
//! that have had turns delays a client of another network by two turns. A data
//! connection takes no turn, so that a client may open many of them; one that was refused does, and its session waits.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_net::sctp;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

use super::fair_queue::FairQueue;

/// Connections that wait for their turn.
pub(crate) const ADMISSIONS_WAITING_MAX: usize = 128;
/// After a pause, the turns of this period may be taken at once.
const BURST: Duration = Duration::from_secs(1);

/// The turns of all control connections over TCP.
#[derive(Debug)]
pub(super) struct Admission {
    now: Mutex<State>,
    /// Held by the waiter that gives the turns to all.
    giver: tokio::sync::Mutex<()>,
}

#[derive(Debug)]
struct State {
    /// The time between two turns, unless there are none.
    interval: Option<Duration>,
    /// Until when the turns that were given suffice at that rate.
    given_until: Instant,
    waiting: FairQueue<oneshot::Sender<()>>,
}

/// So many wait that there is no room for this one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

impl Admission {
    /// So many turns in a second.
    pub(super) fn new(a_second: u32) -> Self {
        let interval = Duration::from_secs(1).checked_div(a_second);
        let waiting = FairQueue::new(ADMISSIONS_WAITING_MAX);
        let state = State { interval, given_until: Instant::now(), waiting };
        Self { now: Mutex::new(state), giver: tokio::sync::Mutex::default() }
    }

    /// Waits for a turn of a client at this address, and takes it.
    ///
    /// # Errors
    /// [`Crowded`]: too many wait, and no network has more of them than this one.
    ///
    /// # Cancel safety
    /// Safe: at worst a turn is lost.
    pub(super) async fn turn(&self, from: IpAddr) -> Result<(), Crowded> {
        let Some(turn) = self.lock().enter(from) else { return Ok(()) };
        tracing::info!(%from, "too many connections at once; this one waits");
        tokio::select! {
            biased;
            turn = turn => turn.map_err(|_| Crowded),
            () = self.give() => Err(Crowded),
        }
    }

    /// Gives turns to those who wait, as the rate allows, once nobody else does. Does not end.
    async fn give(&self) {
        let _giver = self.giver.lock().await;
        loop {
            // A guard must not live across an await.
            let next = self.lock().give();
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        }
    }

    /// The state is whole after every statement under its lock, so that a panic elsewhere spoils nothing.
    fn lock(&self) -> MutexGuard<'_, State> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    /// Takes a turn, or a place among those who wait for one, which tells when it is there.
    fn enter(&mut self, from: IpAddr) -> Option<oneshot::Receiver<()>> {
        if self.waiting.is_empty() && self.take() {
            return None;
        }
        let (waiter, turn) = oneshot::channel();
        // Whoever has no room learns of it when this is dropped.
        drop(self.waiting.push(sctp::Admission::network(from), waiter));
        Some(turn)
    }

    /// Takes a turn if the rate allows one now.
    fn take(&mut self) -> bool {
        let now = Instant::now();
        let Some(interval) = self.interval else { return false };
        let next = self.given_until.max(now) + interval;
        let is_allowed = next <= now + BURST;
        if is_allowed {
            self.given_until = next;
        }
        is_allowed
    }

    /// Gives the turns that the rate allows now. Returns when the next one is due, if somebody waits for it.
    fn give(&mut self) -> Option<Instant> {
        let interval = self.interval?;
        loop {
            if self.waiting.is_empty() {
                return None;
            }
            if !self.take() {
                return Some(self.given_until + interval - BURST);
            }
            // One that has given up takes no turn.
            while self.waiting.pop().is_some_and(|waiter| waiter.send(()).is_err()) {}
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tokio::task::JoinHandle;

    use super::*;

    const OTHER: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(203, 0, 113, 1));

    fn crowd(network: u8) -> IpAddr {
        IpAddr::from([192, 0, network, 1])
    }

    /// Takes a turn in a task of its own, which has begun to wait.
    async fn begun(admission: &Arc<Admission>, from: IpAddr) -> JoinHandle<Result<(), Crowded>> {
        let admission = admission.clone();
        let waiter = tokio::spawn(async move { admission.turn(from).await });
        tokio::task::yield_now().await;
        waiter
    }

    #[tokio::test(start_paused = true)]
    async fn turns_are_taken_at_the_rate() {
        let admission = Admission::new(10);
        let begin = Instant::now();
        for nth in 0..30 {
            admission.turn(crowd(nth % 3)).await.unwrap();
        }
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_secs(2) && waited < Duration::from_millis(2_100), "{waited:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_crowd_of_several_networks_delays_another_by_two_turns() {
        let admission = Arc::new(Admission::new(10));
        let mut waiting = Vec::new();
        for nth in 0..120 {
            waiting.push(begun(&admission, crowd(nth % 8)).await);
        }
        for _ in 0..5 {
            // Meanwhile each of the networks has had a turn.
            tokio::time::sleep(Duration::from_secs(2)).await;
            assert!(!admission.lock().waiting.is_empty());
            let begin = Instant::now();
            admission.turn(OTHER).await.unwrap();
            // The time between two turns is a tenth of a second.
            assert!(begin.elapsed() <= Duration::from_millis(210), "{:?}", begin.elapsed());
        }
        for waiter in waiting {
            waiter.await.unwrap().unwrap();
        }
    }

    #[tokio::test(start_paused = true)]
    async fn no_more_wait_than_may_and_a_network_with_none_displaces_one() {
        let admission = Arc::new(Admission::new(1));
        admission.turn(crowd(1)).await.unwrap();
        let mut waiting = Vec::new();
        for _ in 0..ADMISSIONS_WAITING_MAX {
            waiting.push(begun(&admission, crowd(1)).await);
        }
        assert_eq!(admission.turn(crowd(1)).await, Err(Crowded));
        let other = begun(&admission, OTHER).await;
        assert_eq!(waiting.pop().unwrap().await.unwrap(), Err(Crowded), "the newest one");
        assert!(waiting.iter().all(|waiter| !waiter.is_finished()));
        other.await.unwrap().unwrap();
    }

    #[tokio::test(start_paused = true)]
    async fn one_that_gives_up_takes_no_turn_and_leaves_the_others_to_be_served() {
        let admission = Arc::new(Admission::new(10));
        for _ in 0..10 {
            admission.turn(crowd(1)).await.unwrap();
        }
        let mut gone = Vec::new();
        for _ in 0..50 {
            gone.push(begun(&admission, crowd(1)).await);
        }
        let stays = begun(&admission, crowd(1)).await;
        // The first of them gives the turns.
        gone.iter().for_each(JoinHandle::abort);
        let begin = Instant::now();
        stays.await.unwrap().unwrap();
        assert!(begin.elapsed() <= Duration::from_millis(210), "{:?}", begin.elapsed());
        assert!(admission.lock().waiting.is_empty());
    }

    #[tokio::test(start_paused = true)]
    async fn none_is_a_rate_too() {
        let turn =
            tokio::time::timeout(Duration::from_secs(3_600), async { Admission::new(0).turn(OTHER).await });
        assert!(turn.await.is_err());
    }

    #[tokio::test]
    async fn an_ipv4_address_is_in_the_same_network_when_it_is_written_as_an_ipv6_one() {
        let network = sctp::Admission::network;
        assert_eq!(network("::ffff:192.0.2.6".parse().unwrap()), network(IpAddr::from([192, 0, 2, 7])));
    }
}
