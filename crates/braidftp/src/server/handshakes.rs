//! Rate limit for TLS handshakes over TCP. Each costs the server a signature and a key exchange.
//!
//! The handshake of a control connection waits for its turn: its messages stay with the kernel meanwhile, and the session has
//! a place among those without a login, which make room for others. A data connection takes no turn, so that a client may
//! open many of them; one that was refused does, and its session waits.

use std::net::IpAddr;
use std::sync::{Mutex, PoisonError};
use std::time::Duration;

use braidftp_base::Time;
use braidftp_net::sctp::Admission;
use tokio::time::Instant;

/// How often a handshake that waits asks again.
const RETRY: Duration = Duration::from_millis(50);

/// The turns of all handshakes over TCP.
#[derive(Debug)]
pub(super) struct Handshakes {
    origin: Instant,
    admission: Mutex<Admission>,
}

impl Handshakes {
    /// So many turns in a second, half of them for any one network.
    pub(super) fn new(a_second: u32) -> Self {
        let admission = Admission::new(a_second, super::random().to_be_bytes());
        Self { origin: Instant::now(), admission: Mutex::new(admission) }
    }

    /// Takes a turn for a client at this address, if there is one now.
    pub(super) fn admits(&self, from: IpAddr) -> bool {
        let now = Time::ZERO + self.origin.elapsed();
        self.admission.lock().unwrap_or_else(PoisonError::into_inner).admits(now, from.to_canonical())
    }

    /// Waits for a turn of a client at this address, and takes it.
    ///
    /// # Cancel safety
    /// Safe: no turn was taken.
    pub(super) async fn turn(&self, from: IpAddr) {
        if self.admits(from) {
            return;
        }
        tracing::info!(%from, "too many TLS handshakes at once; this one waits");
        while !self.admits(from) {
            tokio::time::sleep(RETRY).await;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn handshakes_of_one_network_wait_for_their_turn_and_others_do_not_wait_for_them() {
        let handshakes = Handshakes::new(10);
        let crowd = |host: u8| IpAddr::from([192, 0, 2, host]);
        for host in 0..5 {
            assert!(handshakes.admits(crowd(host)), "half of the rate at once: {host}");
        }
        assert!(!handshakes.admits(crowd(5)));
        // By another name it is the same network.
        assert!(!handshakes.admits("::ffff:192.0.2.6".parse().unwrap()));
        // One of these two is in another group, whatever the secret.
        let others = [[198, 51, 100, 1], [203, 0, 113, 1], [233, 252, 0, 1]].map(IpAddr::from);
        assert!(others.into_iter().any(|other| handshakes.admits(other)));
        let begin = Instant::now();
        for _ in 0..10 {
            handshakes.turn(crowd(7)).await;
        }
        let waited = begin.elapsed();
        assert!(waited >= Duration::from_millis(1_900) && waited < Duration::from_secs(3), "{waited:?}");
    }
}
