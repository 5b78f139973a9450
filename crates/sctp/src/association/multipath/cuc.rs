//! The cumulative acknowledgement of each path (CUC, version 2), for windows that grow when the next chunk
//! in order is acknowledged.

use crate::association::sent::{Sent, SlotState};
use crate::ids::Tsn;
use crate::wire::Sack;

/// The pseudo-cumack of a path (CUC version 2): the next TSN in order sent on it, separately for first
/// transmissions and retransmissions.
#[derive(Debug, Clone, Copy)]
pub(in crate::association) struct PseudoCumAck {
    expected: [Option<Tsn>; 2],
    /// Whether the next one must be searched for.
    searching: [bool; 2],
}

impl Default for PseudoCumAck {
    fn default() -> Self {
        Self { expected: [None; 2], searching: [true; 2] }
    }
}

impl PseudoCumAck {
    /// A chunk of this path was retransmitted on another one.
    pub(in crate::association) fn on_moved(&mut self) {
        self.searching = [true; 2];
    }
}

/// Reads a SACK before it is applied; returns for each path whether its pseudo-cumack advances.
pub(in crate::association) fn advance(points: &mut [PseudoCumAck], sent: &Sent, sack: &Sack) -> Vec<bool> {
    let mut advanced = vec![false; points.len()];
    let before = sent.cum_tsn_ack_point();
    let newly = sack.cum_tsn_ack.distance_from(before);
    let mut gaps = sack.gaps.clone();
    gaps.sort_unstable();
    let last = gaps.iter().map(|gap| u32::from(gap.1)).max().unwrap_or(0);
    // The first TSN after the last block is included: it may be the next in order of its path.
    let beyond = u32::from(last > 0);
    let mut at = 0;
    for offset in 1..=newly.saturating_add(last + beyond) {
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
        let kind = usize::from(slot.retransmissions > 0);
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
