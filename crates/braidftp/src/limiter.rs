//! `--limit`: a bucket of bytes that fills at a rate.
//!
//! Downloads take from it before they hand bytes on, so that the transport's own flow control slows the server;
//! uploads before they send.

use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use braidftp_base::Rate;
use tokio::time::{Instant, sleep_until};

/// How far the bucket may run ahead: what may pass at once after a pause.
const BURST: Duration = Duration::from_millis(100);

/// Holds a job to a rate. Shared by all its transfers.
#[derive(Debug)]
pub struct Limiter {
    rate: Rate,
    /// When what was let pass so far is through, at the rate.
    through: Mutex<Instant>,
}

impl Limiter {
    /// A limiter to `rate`. Needs a tokio runtime.
    pub fn new(rate: Rate) -> Self {
        Self { rate, through: Mutex::new(Instant::now()) }
    }

    /// Waits until `bytes` may pass.
    ///
    /// # Cancel safety
    /// The bytes count as passed even if this is cancelled.
    pub async fn pass(&self, bytes: usize) {
        let until = {
            let mut through = self.through.lock().unwrap_or_else(PoisonError::into_inner);
            *through = (*through).max(Instant::now()) + self.rate.transmit_time(bytes);
            *through
        };
        if let Some(start) = until.checked_sub(BURST) {
            sleep_until(start).await;
        }
    }

    /// Whether somebody waits now, or would.
    pub fn is_holding(&self) -> bool {
        *self.through.lock().unwrap_or_else(PoisonError::into_inner) > Instant::now() + BURST
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_second_of_bytes_takes_a_second() {
        let limiter = Limiter::new("8kbit".parse().unwrap());
        let start = Instant::now();
        for _ in 0..10 {
            limiter.pass(100).await;
        }
        assert_eq!(start.elapsed(), Duration::from_millis(900));
        assert!(!limiter.is_holding());
        limiter.pass(0).await;
    }

    #[tokio::test(start_paused = true)]
    async fn a_pause_saves_up_nothing() {
        let limiter = Limiter::new("8kbit".parse().unwrap());
        tokio::time::sleep(Duration::from_secs(100)).await;
        let start = Instant::now();
        limiter.pass(1000).await;
        limiter.pass(1000).await;
        assert_eq!(start.elapsed(), Duration::from_millis(1900));
    }
}
