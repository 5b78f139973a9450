//! Decides when a client over SCTP whose transfers are under way is asked whether it is there, and when it is given up.

use std::time::Duration;

use tokio::time::Instant;

/// After so much silence the client is asked for an answer by a HEARTBEAT, and again each time that this has passed. A quarter
/// of the longest silence if that is less.
const ASK_AFTER: Duration = Duration::from_secs(5);
/// A look that is so late says nothing about the client: this process did not run, and what the client has sent meanwhile is
/// still to be read.
const LATE: Duration = Duration::from_secs(1);

/// When the client was last asked.
#[derive(Debug, Default)]
pub(super) struct Watch {
    /// When to look again; `None`: when the next transfer begins.
    pub(super) next_at: Option<Instant>,
    /// Whether the client was asked at the last look.
    has_asked: bool,
}

/// What to do about a client.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Look {
    /// Nothing: it was heard.
    Heard,
    /// Ask it.
    Ask,
    /// End its session: it was silent for too long, and has not answered since it was asked.
    End,
}

impl Watch {
    /// Looks at a client that has been silent for so long, and may be for `most`.
    pub(super) fn look(&mut self, now: Instant, silence: Duration, most: Duration) -> Look {
        let ask_after = ASK_AFTER.min(most / 4);
        let asks = silence >= ask_after;
        let is_late = self.next_at.is_some_and(|at| now.duration_since(at) >= LATE);
        if asks && self.has_asked && silence >= most && !is_late {
            return Look::End;
        }
        let wait = if asks { ask_after } else { ask_after - silence };
        *self = Self { next_at: Some(now + wait), has_asked: asks };
        if asks { Look::Ask } else { Look::Heard }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MOST: Duration = Duration::from_secs(30);

    /// Looks whenever it is due, each look so late, at a client that is heard at these times. Returns how many times it is
    /// asked until its session ends, if it does within ten minutes.
    fn asked(
        heard: impl Fn(Duration) -> Duration,
        late: impl Fn(u32) -> Duration,
    ) -> (u32, Option<Duration>) {
        let (start, mut watch, mut asked) = (Instant::now(), Watch::default(), 0);
        let mut now = start;
        for look in 0.. {
            let since = now.duration_since(start);
            if since > Duration::from_secs(600) {
                break;
            }
            match watch.look(now, since - heard(since), MOST) {
                Look::Heard => {}
                Look::Ask => asked += 1,
                Look::End => return (asked, Some(since)),
            }
            now = watch.next_at.expect("it is looked at again") + late(look);
        }
        (asked, None)
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_vanished_is_given_up_after_the_longest_silence() {
        let (asked, ended) = asked(|_| Duration::ZERO, |_| Duration::from_millis(1));
        assert!(asked >= 5);
        assert!(ended.is_some_and(|ended| ended >= MOST && ended <= MOST + ASK_AFTER), "{ended:?}");
    }

    #[tokio::test(start_paused = true)]
    async fn a_client_that_answers_is_never_given_up() {
        let every = Duration::from_secs(20);
        let heard = |now: Duration| every * (now.as_secs() / every.as_secs()) as u32;
        assert_eq!(asked(heard, |_| Duration::ZERO).1, None);
    }

    #[tokio::test(start_paused = true)]
    async fn a_process_that_was_stopped_asks_once_more() {
        // It is stopped for a minute after its third look. What the client answered is read behind the next one.
        let stopped = |look| if look == 3 { Duration::from_secs(60) } else { Duration::ZERO };
        let heard = |now: Duration| match now.as_secs() {
            0..=10 => now,
            11..=81 => Duration::from_secs(10),
            _ => now,
        };
        assert_eq!(asked(heard, stopped).1, None);
        // One that answers nothing is given up.
        let ended = asked(|now| now.min(Duration::from_secs(10)), stopped).1;
        assert!(ended.is_some_and(|ended| ended > Duration::from_secs(60)), "{ended:?}");
    }
}
