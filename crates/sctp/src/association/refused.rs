//! ICMP Port Unreachable for packets in UDP: what ends an association whose peer's program is gone (RFC 6951 §5.5).
//!
//! A kernel says that a port is closed as soon as the program that had it was killed. Without that word an association that
//! waits for its peer ends after Association.Max.Retrans HEARTBEATs, which takes minutes. The word alone ends nothing: a
//! HEARTBEAT is sent at once, and a path is inactive when three in a row were each refused by such a message and not answered;
//! the association ends when no path is left. Any packet of the peer on the path begins the count anew.
//!
//! Why forged messages are harmless: one that does not quote the peer's Verification Tag is discarded (RFC 9260 §10 ICMP6), and
//! nobody off the path knows the tag. Who is on the path, knows the tag and forges messages makes this side send HEARTBEATs, one
//! an RTO, and the living peer answers them. The same attacker could as well forge an ABORT. A firewall that rejects packets
//! for a moment, and an address whose socket the peer has closed, end nothing while the peer is heard by any path.

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
        if !self.config.early_repair || !is_up || !asks || path.state == PathState::Inactive {
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
