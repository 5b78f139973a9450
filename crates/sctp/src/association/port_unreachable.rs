//! ICMP Port Unreachable for UDP-encapsulated packets: ends an association whose peer process has ended
//! (RFC 6951 §5.5).
//!
//! A kernel reports a closed port as soon as the process that owned it has ended. Without this report, an association ends
//! after Association.Max.Retrans HEARTBEATs, which takes minutes. The report alone ends nothing: it triggers a HEARTBEAT, and a
//! path becomes inactive after three consecutive HEARTBEATs that were each refused by such a message and not acknowledged
//! within an RTO, while data is outstanding too. The association ends when no path is left. Any packet from the peer on the
//! path resets the count. Before the association is established, it ends after as many refused INITs as
//! [`Handshake::refused_inits`](crate::config::Handshake::refused_inits) says.
//!
//! Forged messages are harmless. One that does not quote the peer's Verification Tag is discarded (RFC 9260
//! §10 ICMP6), and off-path attackers do not know the tag. An on-path attacker who forges messages causes
//! one HEARTBEAT per RTO, which a living peer acknowledges; the same attacker could forge an ABORT. A
//! firewall that rejects packets temporarily, or an address whose socket the peer has closed, ends nothing
//! while the peer is reachable on any path.

use crate::association::Association;
use crate::association::Reason;
use crate::association::path::Path;
use crate::association::state::State;
use crate::association::timers::Timer;
use crate::ids::PathId;
use crate::route::Route;
use crate::stats::PathState;

impl Association {
    /// ICMP reports that the UDP port of a packet of this association is closed.
    pub(crate) fn on_port_unreachable(&mut self, route: Route) {
        let (is_up, no_path_left) = (self.is_up(), self.has_no_path_left());
        let Some(at) = self.paths.iter().position(|path| path.route() == route) else { return };
        let path = &mut self.paths[at];
        let asks = path.params.heartbeat_interval.is_some() && path.is_present();
        // An inactive path is left alone while another may be usable.
        let is_left_alone = path.state == PathState::Inactive && !no_path_left;
        if !self.config.recovery.early_repair || !is_up || !asks || is_left_alone {
            return;
        }
        match &path.heartbeat {
            Some(heartbeat) => {
                path.refused.this = true;
                let patience = path.refused.patience(path.rtt.without_back_off());
                self.timers.advance(Timer::Heartbeat(PathId(at as u8)), heartbeat.sent_at + patience);
            }
            None => path.heartbeat_due = true,
        }
        self.has_input = true;
    }

    /// ICMP reports that the UDP port of an INIT of this association is closed.
    //= specs/rfc6951.txt#section-5.5
    //# ICMP messages with type 'Destination Unreachable' and code 'Port
    //# Unreachable' SHOULD be treated as ICMP messages with type
    //# 'Destination Unreachable' and code 'Protocol Unreachable'.
    pub(crate) fn on_init_refused(&mut self) {
        let Some(most) = self.config.handshake.refused_inits else { return };
        let addresses = self.paths.len().max(1) as u32;
        let State::CookieWait { refused, .. } = &mut self.state else { return };
        *refused += 1;
        if *refused >= most.saturating_mul(addresses) {
            self.close(Reason::Refused);
        }
    }

    /// Whether the peer may be reachable on no path.
    pub(super) fn has_no_path_left(&self) -> bool {
        let over = |path: &Path| matches!(path.state, PathState::Inactive | PathState::SetAside);
        self.paths.iter().filter(|path| path.is_present()).all(over)
    }
}
