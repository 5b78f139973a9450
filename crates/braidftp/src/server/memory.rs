//! Returns freed memory to the system. jemalloc does so as it allocates, so that without this a server that was attacked once, and
//! is idle since, would stay at its peak.

use std::sync::Arc;
use std::time::Duration;

use braidftp_net::{Counters, Endpoint};

use crate::store::fs::Pool;

/// Interval of the checks.
const LOOK: Duration = Duration::from_secs(3);
/// Decrease of the bytes held, since the last maximum, after which free memory is returned.
const FREED_BYTES: usize = 8 << 20;
/// Further checks that return memory: tasks of sessions end later than their memory is counted out, and hold some until then.
const LOOKS_MORE: u32 = 4;

/// Watches `endpoints` and `blocks`, returns free memory, and logs what the limits of the endpoints refused. Never returns.
pub(super) async fn give_back(endpoints: Vec<Endpoint>, blocks: Arc<Pool>) {
    let mut falls = Falls::default();
    let mut logged = vec![Counters::default(); endpoints.len()];
    loop {
        tokio::time::sleep(LOOK).await;
        for (endpoint, before) in endpoints.iter().zip(&mut logged) {
            let now = endpoint.counters();
            for (count, what) in refusals(before, &now) {
                tracing::warn!(count, "{what}");
            }
            *before = now;
        }
        let held = endpoints.iter().map(Endpoint::memory_bytes).sum::<usize>() + blocks.held();
        if falls.look(held) {
            // Takes too long for a thread that runs sessions. If no thread can be started, the next check tries again.
            let _ = tokio::task::spawn_blocking(braidftp_emu::release_free_memory).await;
        }
    }
}

/// Decides when to return free memory.
#[derive(Debug, Default)]
struct Falls {
    /// The maximum of bytes held since the last decrease.
    most: usize,
    /// Remaining checks that return memory in any case.
    more: u32,
}

impl Falls {
    /// Whether to return free memory, given the bytes held now.
    fn look(&mut self, held: usize) -> bool {
        self.most = self.most.max(held);
        if self.most - held >= FREED_BYTES {
            (self.most, self.more) = (held, LOOKS_MORE);
            return true;
        }
        let goes_back = self.more > 0;
        self.more = self.more.saturating_sub(1);
        goes_back
    }
}

/// What an endpoint refused between two checks: a count and a sentence for the log.
fn refusals(before: &Counters, now: &Counters) -> impl Iterator<Item = (u64, &'static str)> {
    let refused = [
        (
            before.refused_by_address,
            now.refused_by_address,
            "associations refused: too many from one address",
        ),
        (
            before.half_open_aborted,
            now.half_open_aborted,
            "associations without a login aborted: to make room for others",
        ),
        (
            before.handshakes_dropped,
            now.handshakes_dropped,
            "cookies of protected associations dropped: more waited for their handshakes than the limit",
        ),
        (before.out_of_memory, now.out_of_memory, "associations refused or aborted: too little memory left"),
        (before.forged_cookies, now.forged_cookies, "forged or replayed cookies discarded"),
        (
            before.answers_dropped,
            now.answers_dropped,
            "answers to strangers dropped: more came than the limit",
        ),
        (
            before.unopened_records,
            now.unopened_records,
            "protected packets discarded: forged, damaged, or of keys that are unknown here; if there are many, somebody sends them to \
             break sessions: have a firewall drop that sender",
        ),
    ];
    refused
        .into_iter()
        .filter(|(before, now, _)| now > before)
        .map(|(before, now, what)| (now - before, what))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_refusals_since_the_last_check_are_reported() {
        let before = Counters { forged_cookies: 3, unopened_records: 2, ..Counters::default() };
        let now = Counters { unopened_records: 7, ..before };
        let told: Vec<_> = refusals(&before, &now).collect();
        assert!(
            matches!(&told[..], [(5, what)] if what.starts_with("protected packets discarded")),
            "{told:?}"
        );
        assert_eq!(refusals(&now, &now).count(), 0);
    }

    #[test]
    fn free_memory_is_returned_after_a_decrease_and_some_times_more() {
        let mut falls = Falls::default();
        let mut looks = |held: &[usize]| held.iter().filter(|held| falls.look(**held)).count();
        assert_eq!(looks(&[0, 100 << 20, 99 << 20, 93 << 20]), 0, "a little less is no fall");
        assert_eq!(looks(&[50 << 20]), 1);
        assert_eq!(looks(&[50 << 20; 20]), LOOKS_MORE as usize);
        assert_eq!(looks(&[46 << 20, 42 << 20, 42 << 20]), 2, "two small ones are one");
    }
}
