//! ICMP Port Unreachable for UDP-encapsulated packets: ends an association whose peer process has ended
//! (RFC 6951 §5.5).
//!
//! A kernel reports a closed port as soon as the process that owned it has ended. Without this report, an
//! association ends after Association.Max.Retrans HEARTBEATs, which takes minutes. The report alone ends
//! nothing: it triggers a HEARTBEAT, and a path becomes inactive after three consecutive HEARTBEATs that
//! were each refused by such a message and not acknowledged. The association ends when no path is left. Any
//! packet from the peer on the path resets the count.
//!
//! Forged messages are harmless. One that does not quote the peer's Verification Tag is discarded (RFC 9260
//! §10 ICMP6), and off-path attackers do not know the tag. An on-path attacker who forges messages causes
//! one HEARTBEAT per RTO, which a living peer acknowledges; the same attacker could forge an ABORT. A
//! firewall that rejects packets temporarily, or an address whose socket the peer has closed, ends nothing
//! while the peer is reachable on any path.

use crate::association::Association;
use crate::association::path::Path;
use crate::endpoint::Route;
use crate::stats::PathState;

/// So many HEARTBEATs in a row, refused and not answered, make a path inactive.
const REFUSED_HEARTBEATS: u8 = 3;

/// What was said of a path since something came by it.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Refused {
    /// Whether the HEARTBEAT that is under way was refused.
    this: bool,
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

impl Association {
    /// The peer's host says that nobody has the UDP port to which a packet of this association went.
    pub(crate) fn on_port_unreachable(&mut self, route: Route) {
        let is_up = self.is_up();
        let Some(path) = self.paths.iter_mut().find(|path| path.route() == route) else { return };
        let asks = path.params.heartbeat_interval.is_some() && path.is_there();
        if !self.config.recovery.early_repair || !is_up || !asks || path.state == PathState::Inactive {
            return;
        }
        match path.beat {
            Some(_) => path.refused.this = true,
            None => path.heartbeat_due = true,
        }
        self.stirred = true;
    }

    /// Whether no path is left by which the peer may be reached.
    pub(super) fn has_no_path_left(&self) -> bool {
        let over = |path: &Path| matches!(path.state, PathState::Inactive | PathState::SetAside);
        self.paths.iter().filter(|path| path.is_there()).all(over)
    }
}
