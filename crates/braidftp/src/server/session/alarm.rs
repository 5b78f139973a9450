//! A timer that is set again only if it would expire too late: most waits of a session end by an event, and setting a timer may wake
//! the thread that waits for the next one.

use std::pin::Pin;

use tokio::time::{Instant, Sleep, sleep_until};

/// The timer of one session.
#[derive(Debug, Default)]
pub(super) struct Alarm(Option<Pin<Box<Sleep>>>);

impl Alarm {
    /// Waits until `at`.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub(super) async fn at(&mut self, at: Instant) {
        let sleep = self.0.get_or_insert_with(|| Box::pin(sleep_until(at)));
        loop {
            if sleep.is_elapsed() || at < sleep.deadline() {
                sleep.as_mut().reset(at);
            }
            sleep.as_mut().await;
            if at <= sleep.deadline() {
                return;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::task::Poll;
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn an_alarm_expires_at_its_time_whatever_it_was_set_to_before() {
        let (mut alarm, begun) = (Alarm::default(), Instant::now());
        let after = |seconds| begun + Duration::from_secs(seconds);
        for (before, at) in [(1, 3), (9, 5), (5, 6), (8, 7)] {
            let mut cancelled = Box::pin(alarm.at(after(before)));
            let early = std::future::poll_fn(|cx| Poll::Ready(cancelled.as_mut().poll(cx).is_ready())).await;
            assert_eq!(early, after(before) <= Instant::now());
            drop(cancelled);
            alarm.at(after(at)).await;
            assert_eq!(Instant::now(), after(at));
        }
    }
}
