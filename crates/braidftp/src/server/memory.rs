//! Memory that SCTP's associations have freed goes back to the system: glibc keeps it, in pieces, for as long as something
//! newer is allocated behind them, and a server that was attacked once would keep its highest level for ever.

use std::time::Duration;

use braidftp_net::Endpoint;

/// How often the associations' memory is looked at.
const LOOK: Duration = Duration::from_secs(3);
/// When so many bytes less are taken than were since the last time, free memory goes back.
const FREED_BYTES: usize = 8 << 20;

/// Watches these endpoints, for ever.
pub(super) async fn give_back(endpoints: Vec<Endpoint>) {
    let mut most = 0;
    loop {
        tokio::time::sleep(LOOK).await;
        let held: usize = endpoints.iter().map(Endpoint::memory_bytes).sum();
        most = held.max(most);
        if most - held >= FREED_BYTES {
            // It takes too long for a thread on which sessions run. If it cannot be started, the next look is soon.
            if tokio::task::spawn_blocking(braidftp_emu::release_free_memory).await.is_ok() {
                most = held;
            }
        }
    }
}
