//! Concurrent multipath transfer: new data leaves by all active paths at once (Iyengar, Amer, Stewart: "Concurrent
//! Multipath Transfer Using SCTP Multihoming Over Independent End-to-End Paths", IEEE/ACM ToN 14(5), 2006), with
//! potentially failed paths left out (Natarajan et al., CMT-PF, 2008; RFC 7829 has their states).
//!
//! Three things go wrong when one sequence of TSNs takes several ways, and three rules mend them:
//!
//! - *split fast retransmit* (SFR): a TSN is overtaken only by what left by its own path (`Sent::count_missing`);
//! - *cumulative acknowledgement per path* (CUC, version 2): a window grows when the next in order of its own path is
//!   acknowledged, first transmissions and retransmissions apart ([`points`]);
//! - *delayed acknowledgement* (DAC): SACKs are delayed although there are gaps, which are the rule here; each says how
//!   many packets it answers, and counts for so many miss indications unless it tells of several paths.
//!
//! It is off the road of associations that use one path at a time: without [`Config::multipath`](crate::Config) nothing
//! here is called. What sets it apart from plain SCTP elsewhere is asked for by that field alone. It knows no remedies
//! against a receive buffer that one path blocks, and no congestion control across paths.

mod again;
mod meter;
mod names;
mod points;

pub(super) use self::again::{carries, next_lost};
pub(super) use self::meter::Meter;
pub use self::names::{
    Multipath, MultipathError, PathScheduler, Remedy, RetransmitBy, UnknownPathScheduler, UnknownRemedy,
    UnknownRetransmitBy,
};
pub(super) use self::points::{PseudoCum, advance};
use crate::association::Association;
use crate::association::path::{Purpose, choose};
use crate::association::state::State;
use crate::association::transmit::{License, may_send, window_takes};
use crate::ids::PathId;

impl Association {
    /// Whether data may leave by this path, and why: what is lost where the policy sends it, and new data by every path that
    /// has room, whether or not something is lost.
    pub(super) fn license_multipath(&mut self, id: PathId, multipath: Multipath) -> Option<License> {
        let State::Up(up) = &mut self.state else { return None };
        let path = &self.paths[usize::from(id.0)];
        if !path.is_usable() {
            return None;
        }
        let alone = path.timeouts_unanswered > 0;
        let open = path.flight_bytes < if alone { 1 } else { path.controller.window() };
        if (path.fast_retransmit_due || open) && next_lost(up, &self.paths, multipath, id).is_some() {
            return Some(if path.fast_retransmit_due { License::FastRetransmit } else { License::Again });
        }
        if path.probe_due {
            return Some(License::Probe);
        }
        // What is lost and has not left again is outstanding where it left (RFC 9260 §1.6): it leaves no room for new data.
        let waiting: usize = up
            .sent
            .lost()
            .filter(|(_, left_by)| *left_by == id)
            .map(|(tsn, _)| up.sent.get(tsn).map_or(0, |slot| slot.bytes))
            .sum();
        let open = open && (waiting == 0 || path.flight_bytes + waiting < path.controller.window());
        let fallback = choose(&self.paths, up.primary, Purpose::New);
        if !open || !carries(&self.paths, id, fallback) || !may_send(self.shutdown) {
            return None;
        }
        let len = self.queue.peek_len()?;
        let fits = path.burst > 0
            && !up.sent.is_full()
            && window_takes(up, len.min(path.payload_max(self.queue.header_len())));
        fits.then_some(License::New)
    }
}

#[cfg(test)]
#[path = "tests/multipath.rs"]
mod tests;
