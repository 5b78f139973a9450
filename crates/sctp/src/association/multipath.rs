//! Concurrent multipath transfer (CMT): new data is sent on all active paths at once (Iyengar, Amer,
//! Stewart: "Concurrent Multipath Transfer Using SCTP Multihoming Over Independent End-to-End Paths",
//! IEEE/ACM ToN 14(5), 2006), except on potentially failed ones (Natarajan et al., CMT-PF, 2008; states as
//! in RFC 7829).
//!
//! Sending one sequence of TSNs over several paths causes three problems, which three rules solve:
//!
//! - *split fast retransmit* (SFR): only later chunks of the same path give a miss indication
//!   (`Sent::count_missing`);
//! - *cumulative acknowledgement per path* (CUC, version 2): a window grows when the next chunk in the
//!   order of its path is acknowledged, with first transmissions and retransmissions tracked separately
//!   ([`cuc`]);
//! - *delayed acknowledgement* (DAC): SACKs are delayed in spite of gaps, which are normal here. Each SACK
//!   carries the number of packets it acknowledges, and counts as that many miss indications unless it
//!   acknowledges chunks of several paths.
//!
//! With loss detection by the order of sending, which each path tracks for itself, none of the three is
//! needed. Recovery, proportional rate reduction and undo then work on one path at a time, considering only
//! chunks sent on it.
//!
//! [`scheduler`] selects the path of new data. [`admission`] prevents a slow path from blocking the shared
//! receive buffer, and [`head_of_line`] resolves such blocking. [`delivery_rate`] compares paths. `cc::coupled` couples
//! congestion control across paths; by default it treats those paths as one flow that [`bottleneck`] finds
//! to share a bottleneck.
//!
//! Associations that use one path at a time never call this module: it depends on
//! [`paths.multipath`](crate::Config::paths), and so do all differences elsewhere.

mod admission;
mod bottleneck;
pub(super) mod coupled;
pub(super) mod cuc;
pub(super) mod delivery_rate;
mod estimates;
mod head_of_line;
mod rtx_policy;
mod scheduler;
pub(super) mod send_times;

use braidftp_base::Time;

pub(super) use self::rtx_policy::{carries, next_lost};
use self::scheduler::retransmits_on;
pub(super) use self::scheduler::uses_cmt_rules;
use crate::association::Association;
use crate::association::permit::SendPermit;
use crate::association::state::State;
use crate::config::Multipath;
use crate::ids::PathId;

impl Association {
    /// Whether data may be sent on this path, and why: lost chunks if the policy selects it, and new
    /// data if the scheduler does, whether or not chunks are lost.
    pub(super) fn permit_multipath(
        &mut self,
        now: Time,
        id: PathId,
        multipath: Multipath,
    ) -> Option<SendPermit> {
        let State::Up(up) = &mut self.state else { return None };
        let path = &self.paths[usize::from(id.0)];
        if !path.is_usable() {
            return None;
        }
        if retransmits_on(up, &self.paths, multipath, id) {
            return Some(if path.fast_retransmit_due {
                SendPermit::FastRetransmit
            } else {
                SendPermit::Retransmission
            });
        }
        if path.probe_due {
            return Some(SendPermit::Probe);
        }
        if self.next_by(now, multipath) == Some(id) {
            return Some(SendPermit::NewData);
        }
        self.next_head_of_line(now, id, multipath).map(SendPermit::HeadOfLine)
    }
}

#[cfg(test)]
#[path = "tests/multipath.rs"]
mod tests;
