//! `--limit`: a token bucket of bytes, whose rate may change at any time.
//!
//! Downloads take tokens before they pass bytes on, so that the transport's flow control slows the server;
//! uploads take tokens before they send.

use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use braidftp_base::Rate;
use tokio::sync::watch;
use tokio::time::{Instant, sleep_until};

/// The depth of the bucket, as time: what may pass at once after a pause.
const BURST: Duration = Duration::from_millis(100);

/// Limits the rate of a job. Shared by all its transfers.
#[derive(Debug)]
pub struct Limiter {
    /// `None` while there is no limit.
    rate: watch::Sender<Option<Rate>>,
    /// The time at which everything passed so far conforms to the rate.
    through: Mutex<Instant>,
}

impl Limiter {
    /// A limiter with this rate; `None` passes everything until [`Limiter::set`]. Needs a tokio runtime.
    pub fn new(rate: impl Into<Option<Rate>>) -> Self {
        Self { rate: watch::Sender::new(rate.into()), through: Mutex::new(Instant::now()) }
    }

    /// The current rate; `None` if there is no limit.
    pub fn rate(&self) -> Option<Rate> {
        *self.rate.borrow()
    }

    /// Changes the rate, also for waiting tasks.
    pub fn set(&self, rate: Option<Rate>) {
        // Waiting tasks start again with the new rate.
        *self.lock() = Instant::now();
        self.rate.send_replace(rate);
    }

    fn lock(&self) -> MutexGuard<'_, Instant> {
        self.through.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until `bytes` may pass.
    ///
    /// # Cancel safety
    /// The bytes count as passed even if this is cancelled.
    pub async fn pass(&self, bytes: usize) {
        if self.rate.borrow().is_none() {
            return;
        }
        let mut rates = self.rate.subscribe();
        loop {
            let Some(rate) = *rates.borrow_and_update() else { return };
            let until = {
                let mut through = self.lock();
                *through = (*through).max(Instant::now()) + rate.transmit_time(bytes);
                *through
            };
            let Some(start) = until.checked_sub(BURST) else { return };
            tokio::select! {
                biased;
                () = sleep_until(start) => return,
                // The sender lives as long as this value.
                _ = rates.changed() => {}
            }
        }
    }

    /// Whether a task waits or would have to wait now.
    pub fn is_holding(&self) -> bool {
        self.rate.borrow().is_some() && *self.lock() > Instant::now() + BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn limiter(rate: &str) -> Limiter {
        Limiter::new(rate.parse::<Rate>().unwrap())
    }

    #[tokio::test(start_paused = true)]
    async fn a_second_of_bytes_takes_a_second() {
        let limiter = limiter("8kbit");
        let start = Instant::now();
        for _ in 0..10 {
            limiter.pass(100).await;
        }
        assert_eq!(start.elapsed(), Duration::from_millis(900));
        assert!(!limiter.is_holding());
        limiter.pass(0).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_accumulates_no_more_than_a_burst() {
        let limiter = limiter("8kbit");
        tokio::time::sleep(Duration::from_secs(100)).await;
        let start = Instant::now();
        limiter.pass(1000).await;
        limiter.pass(1000).await;
        assert_eq!(start.elapsed(), Duration::from_millis(1900));
    }

    #[tokio::test(start_paused = true)]
    async fn a_new_rate_applies_to_waiting_tasks_too() {
        let limiter = std::sync::Arc::new(limiter("8kbit"));
        let start = Instant::now();
        let waiting = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.pass(100_000).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        assert!(limiter.is_holding() && !waiting.is_finished());
        limiter.set(Some("80kbit".parse().unwrap()));
        waiting.await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(1000 + 10_000 - 100));
        let waiting = tokio::spawn({
            let limiter = limiter.clone();
            async move { limiter.pass(1_000_000).await }
        });
        tokio::time::sleep(Duration::from_secs(1)).await;
        limiter.set(None);
        waiting.await.unwrap();
        assert_eq!(start.elapsed(), Duration::from_millis(10_900 + 1000));
        assert!(!limiter.is_holding() && limiter.rate().is_none());
    }
}
