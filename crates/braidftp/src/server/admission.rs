//! Rate limit for control connections over TCP, and the queue of connections above it.
//!
//! Each connection takes a turn before its session begins. A session costs memory and, since it may begin TLS once, a signature
//! and a key exchange; the rate bounds this CPU time. Connections above the rate wait without a session, and networks are served
//! in turn ([`Turns`]): a flood delays a client of another network by at most two turns. Data
//! connections take no turn, so a client may open many of them; a refused one does, and delays its session.

use std::net::IpAddr;
use std::sync::{Mutex, MutexGuard, PoisonError};

use braidftp_base::Time;
use braidftp_net::sctp::Turns;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

/// Connections that wait for their turn.
pub(crate) const ADMISSIONS_WAITING_MAX: usize = 128;

/// The turns of all control connections over TCP.
#[derive(Debug)]
pub(super) struct Admission {
    now: Mutex<Turns<oneshot::Sender<()>>>,
    /// The origin of the times of the turns.
    start: Instant,
    /// Held by the one waiter that grants turns to all.
    granter: tokio::sync::Mutex<()>,
}

/// The queue is full.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Crowded;

impl Admission {
    /// Creates a rate limit of this many turns a second.
    pub(super) fn new(a_second: u32) -> Self {
        let turns = Mutex::new(Turns::new(a_second, ADMISSIONS_WAITING_MAX));
        Self { now: turns, start: Instant::now(), granter: tokio::sync::Mutex::default() }
    }

    /// Waits for the turn of a client at this address.
    ///
    /// # Errors
    /// [`Crowded`]: the queue is full, and no network has more connections in it than this one.
    ///
    /// # Cancel safety
    /// Safe: at worst a turn is lost.
    pub(super) async fn turn(&self, from: IpAddr) -> Result<(), Crowded> {
        let Some(turn) = self.enter(from) else { return Ok(()) };
        tracing::info!(%from, "too many connections at once; this one waits");
        tokio::select! {
            biased;
            turn = turn => turn.map_err(|_| Crowded),
            () = self.grant() => Err(Crowded),
        }
    }

    /// Takes a turn at once (`None`), or joins the queue and returns the receiver that reports the turn.
    fn enter(&self, from: IpAddr) -> Option<oneshot::Receiver<()>> {
        let mut turns = self.lock();
        if turns.take(self.time(), from) {
            return None;
        }
        let (waiter, turn) = oneshot::channel();
        // Dropping a displaced waiter reports `Crowded` to it.
        drop(turns.wait(from, waiter));
        Some(turn)
    }

    /// Grants turns to all waiters at the rate, unless another waiter does so already. Never returns.
    async fn grant(&self) {
        let _granter = self.granter.lock().await;
        loop {
            // A guard must not live across an await.
            let next = self.grant_now();
            match next {
                Some(next) => sleep_until(next).await,
                None => std::future::pending().await,
            }
        }
    }

    /// Grants the turns that are due. Returns the time of the next one, if the queue is not empty.
    fn grant_now(&self) -> Option<Instant> {
        let mut turns = self.lock();
        // A waiter that was cancelled takes no turn.
        while let Some(waiter) = turns.next(self.time(), |waiter| !waiter.is_closed()) {
            let _ = waiter.send(());
        }
        turns.due().map(|due| self.start + due.since(Time::ZERO))
    }

    fn time(&self) -> Time {
        Time::ZERO + self.start.elapsed()
    }

    /// The state is consistent after every statement under the lock, so a poisoned lock may be used.
    fn lock(&self) -> MutexGuard<'_, Turns<oneshot::Sender<()>>> {
        self.now.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;
    use std::time::Duration;

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
    async fn a_cancelled_waiter_takes_no_turn_and_the_others_are_served() {
        let admission = Arc::new(Admission::new(10));
        for _ in 0..10 {
            admission.turn(crowd(1)).await.unwrap();
        }
        let mut gone = Vec::new();
        for _ in 0..50 {
            gone.push(begun(&admission, crowd(1)).await);
        }
        let stays = begun(&admission, crowd(1)).await;
        // The first of them grants the turns.
        gone.iter().for_each(JoinHandle::abort);
        let begin = Instant::now();
        stays.await.unwrap().unwrap();
        assert!(begin.elapsed() <= Duration::from_millis(210), "{:?}", begin.elapsed());
        assert!(admission.lock().is_empty());
    }
}
