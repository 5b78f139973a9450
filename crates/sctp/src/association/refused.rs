//! Counts the HEARTBEATs of one path that ICMP Port Unreachable messages refused (`port_unreachable`).

use std::time::Duration;

/// This many consecutive HEARTBEATs that were refused and not acknowledged make a path inactive.
const REFUSED_HEARTBEATS: u8 = 3;

/// ICMP reports about a path since the last packet of the peer on it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Whether the outstanding HEARTBEAT was refused.
    pub(super) this: bool,
    /// The number of consecutive HEARTBEATs that were refused and not acknowledged.
    heartbeats: u8,
}

/// The consequence of an unacknowledged HEARTBEAT.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It was not refused: no consequence.
    No,
    /// It was refused: the next one is sent at once.
    Again,
    /// The last one was refused: the path is inactive.
    Final,
}

impl Refused {
    /// Returns the time limit for the acknowledgement of the outstanding HEARTBEAT, which was refused: the RTO, doubled for
    /// each refused HEARTBEAT before. The back-off of earlier packets does not count: it may be that of a closed window, and
    /// three backed-off RTOs are minutes.
    pub(super) fn patience(&self, rto_without_back_off: Duration) -> Duration {
        rto_without_back_off * (1 << self.heartbeats)
    }

    pub(super) fn on_unanswered_heartbeat(&mut self) -> Refusal {
        if !std::mem::take(&mut self.this) {
            *self = Self::default();
            return Refusal::No;
        }
        self.heartbeats += 1;
        if self.heartbeats < REFUSED_HEARTBEATS {
            return Refusal::Again;
        }
        *self = Self::default();
        Refusal::Final
    }
}
