//! Counts the HEARTBEATs of one path that ICMP Port Unreachable messages refused (`port_unreachable`).

/// So many HEARTBEATs in a row, refused and not answered, make a path inactive.
const REFUSED_HEARTBEATS: u8 = 3;

/// What was said of a path since something came by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Whether the HEARTBEAT that is under way was refused.
    pub(super) this: bool,
    /// HEARTBEATs in a row that were refused and not answered.
    heartbeats: u8,
}

/// What follows from a HEARTBEAT that was not answered.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Refusal {
    /// It was not refused: nothing.
    No,
    /// It was refused: another is sent at once.
    Again,
    /// The last one, too: the path is inactive.
    Final,
}

impl Refused {
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
