//! Concurrent multipath transfer: new data leaves by all active paths at once (Iyengar, Amer, Stewart: "Concurrent
//! Multipath Transfer Using SCTP Multihoming Over Independent End-to-End Paths", IEEE/ACM ToN 14(5), 2006), with
//! potentially failed paths left out (Natarajan et al., CMT-PF, 2008; RFC 7829 has their states).
//!
//! Three things go wrong when one sequence of TSNs takes several ways, and three rules mend them:
//!
//! - *split fast retransmit* (SFR): a TSN is overtaken only by what left by its own path (`Sent::count_missing`);
//! - *cumulative acknowledgement per path* (CUC, version 2): a window grows when the next in order of its own path is
//!   acknowledged, first transmissions and retransmissions apart ([`PseudoCum`]);
//! - *delayed acknowledgement* (DAC): SACKs are delayed although there are gaps, which are the rule here; each says how
//!   many packets it answers, and counts for so many miss indications unless it tells of several paths.
//!
//! It is off the road of associations that use one path at a time: without [`Config::multipath`](crate::Config) nothing
//! here is called. What sets it apart from plain SCTP elsewhere is asked for by that field alone. It knows no remedies
//! against a receive buffer that one path blocks, and no congestion control across paths.

use std::num::NonZeroU8;

use crate::association::Association;
use crate::association::path::{Path, Purpose, choose};
use crate::association::sent::{Sent, SlotState};
use crate::association::state::{State, Up};
use crate::association::transmit::{License, may_send, window_takes};
use crate::ids::{PathId, Tsn};
use crate::stats::PathState;
use crate::wire::Sack;

/// How data takes several paths at once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Multipath {
    /// By which path a lost chunk leaves again. The one with the largest window.
    pub retransmit_by: RetransmitBy,
    /// With [`Config::potentially_failed_max_retrans`](crate::Config): the window with which a path begins that was
    /// potentially failed and has answered a HEARTBEAT, in MTUs. 2 (CMT-PF).
    pub window_after_failure: NonZeroU8,
}

impl Default for Multipath {
    fn default() -> Self {
        Self {
            retransmit_by: RetransmitBy::Cwnd,
            window_after_failure: NonZeroU8::new(2).expect("2 is not 0"),
        }
    }
}

/// The retransmission policies of concurrent multipath transfer. Only active paths are chosen, while there is one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum RetransmitBy {
    /// RTX-SAME: the path by which it left.
    Same,
    /// RTX-ASAP: any whose window has room; one of them by chance.
    Asap,
    /// RTX-CWND: the one with the largest window.
    Cwnd,
    /// RTX-SSTHRESH: the one with the highest slow-start threshold.
    Ssthresh,
    /// RTX-LOSSRATE: the one that has lost the smallest share of what it carried.
    LossRate,
}

impl RetransmitBy {
    /// All of them, in the order of the literature.
    pub const ALL: &[Self] = &[Self::Same, Self::Asap, Self::Cwnd, Self::Ssthresh, Self::LossRate];
}

/// Where a path's own cumulative point is (CUC version 2): the next TSN in order that left by it, for chunks that left
/// once and for those that left again.
#[derive(Debug, Clone, Copy)]
pub(super) struct PseudoCum {
    expected: [Option<Tsn>; 2],
    /// Whether the next one is to be looked for.
    searching: [bool; 2],
}

impl Default for PseudoCum {
    fn default() -> Self {
        Self { expected: [None; 2], searching: [true; 2] }
    }
}

impl PseudoCum {
    /// A chunk that left by this path has left again by another.
    pub(super) fn on_moved(&mut self) {
        self.searching = [true; 2];
    }
}

/// Reads a SACK that is not applied yet. Whether the point of each path advances.
pub(super) fn advance(points: &mut [PseudoCum], sent: &Sent, sack: &Sack) -> Vec<bool> {
    let mut advanced = vec![false; points.len()];
    let before = sent.cum_tsn_ack_point();
    let newly = sack.cum_tsn_ack.distance_from(before);
    let mut gaps = sack.gaps.clone();
    gaps.sort_unstable();
    let last = gaps.iter().map(|gap| u32::from(gap.1)).max().unwrap_or(0);
    let mut at = 0;
    for offset in 1..=newly.saturating_add(last) {
        let tsn = before.plus(offset);
        let Some(slot) = sent.get(tsn) else { break };
        let path = usize::from(slot.path.0);
        if matches!(slot.state, SlotState::Acked | SlotState::Abandoned) {
            continue;
        }
        let point = &mut points[path];
        if offset <= newly {
            advanced[path] = true;
            point.searching = [true; 2];
            continue;
        }
        let kind = usize::from(slot.transmissions > 1);
        if std::mem::take(&mut point.searching[kind]) {
            point.expected[kind] = Some(tsn);
        }
        let ahead = offset - newly;
        while gaps.get(at).is_some_and(|gap| u32::from(gap.1) < ahead) {
            at += 1;
        }
        let named = gaps.get(at).is_some_and(|gap| u32::from(gap.0) <= ahead);
        if named && point.expected[kind] == Some(tsn) {
            advanced[path] = true;
            point.searching[kind] = true;
        }
    }
    advanced
}

/// Whether new data may leave by a path: it is active, or nothing is and `fallback` stands in.
pub(super) fn carries(paths: &[Path], id: PathId, fallback: PathId) -> bool {
    let sound = |path: &Path| path.state == PathState::Active && !path.in_doubt && !path.awaits_ack;
    if paths.iter().any(sound) { sound(&paths[usize::from(id.0)]) } else { id == fallback }
}

/// By which path a chunk that left by `left_by` leaves again; `chance` decides among equals.
pub(super) fn again(
    paths: &[Path],
    left_by: PathId,
    fallback: PathId,
    by: RetransmitBy,
    chance: u32,
) -> PathId {
    let ids = (0..paths.len()).map(|index| PathId(index as u8));
    let candidates: Vec<PathId> = ids.filter(|id| carries(paths, *id, fallback)).collect();
    let path = |id: PathId| &paths[usize::from(id.0)];
    if by == RetransmitBy::Same && candidates.contains(&left_by) {
        return left_by;
    }
    let room = |id: &PathId| path(*id).flight_bytes < path(*id).controller.window();
    let better = |one: PathId, other: PathId| match by {
        RetransmitBy::Same | RetransmitBy::Cwnd => {
            path(one).controller.window().cmp(&path(other).controller.window())
        }
        RetransmitBy::Ssthresh => path(one).controller.ssthresh().cmp(&path(other).controller.ssthresh()),
        RetransmitBy::Asap => room(&one).cmp(&room(&other)),
        RetransmitBy::LossRate => path(other).compare_loss(path(one)),
    };
    let mut chosen: Option<PathId> = None;
    for (index, id) in candidates.into_iter().enumerate() {
        let bit = chance >> (index % 32) & 1 == 1;
        let takes =
            chosen.is_none_or(|chosen| better(id, chosen).is_gt() || (better(id, chosen).is_eq() && bit));
        if takes {
            chosen = Some(id);
        }
    }
    chosen.unwrap_or(fallback)
}

/// The first lost chunk that is to leave again by a path.
pub(super) fn next_lost(
    up: &mut Up,
    paths: &[Path],
    Multipath { retransmit_by, .. }: Multipath,
    id: PathId,
) -> Option<Tsn> {
    let first = up.sent.next_lost()?;
    let fallback = choose(paths, up.primary, Purpose::New);
    let chance = up.chance;
    let leaves_here = |left_by: PathId| again(paths, left_by, fallback, retransmit_by, chance) == id;
    if retransmit_by == RetransmitBy::Same {
        return up.sent.lost().find(|(_, left_by)| leaves_here(*left_by)).map(|(tsn, _)| tsn);
    }
    // The others take all that is lost the same way.
    let left_by = up.sent.get(first)?.path;
    leaves_here(left_by).then_some(first)
}

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
