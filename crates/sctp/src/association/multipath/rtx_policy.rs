//! Retransmission path policies.

use super::delivery_rate::bytes_in;
use crate::association::path::{Path, Purpose, choose};
use crate::association::state::Up;
use crate::config::{Multipath, MultipathConstants, RetransmitBy};
use crate::ids::{PathId, Tsn};
use crate::stats::PathState;

/// Whether a path may carry new data: it is active, or no path is and it is the `fallback`.
pub(in crate::association) fn carries(paths: &[Path], id: PathId, fallback: PathId) -> bool {
    let sound = |path: &Path| path.state == PathState::Active && !path.t3_unanswered && !path.awaits_ack;
    if paths.iter().any(sound) { sound(&paths[usize::from(id.0)]) } else { id == fallback }
}

/// Returns the path of the retransmission of a chunk sent on `sent_on`; `tie_break` decides between equals.
pub(in crate::association) fn rtx_path(
    paths: &[Path],
    sent_on: PathId,
    fallback: PathId,
    Multipath { retransmit_by: by, constants, .. }: Multipath,
    tie_break: u32,
) -> PathId {
    let ids = (0..paths.len()).map(|index| PathId(index as u8));
    let candidates = ids.filter(|id| carries(paths, *id, fallback));
    let path = |id: PathId| &paths[usize::from(id.0)];
    if by == RetransmitBy::Same && carries(paths, sent_on, fallback) {
        return sent_on;
    }
    let room = |id: &PathId| path(*id).flight_bytes < path(*id).controller.window();
    let better = |one: PathId, other: PathId| match by {
        RetransmitBy::Same | RetransmitBy::Cwnd => {
            path(one).controller.window().cmp(&path(other).controller.window())
        }
        RetransmitBy::Ssthresh => path(one).controller.ssthresh().cmp(&path(other).controller.ssthresh()),
        RetransmitBy::Asap => room(&one).cmp(&room(&other)),
        RetransmitBy::LossRate => path(other).compare_loss(path(one)),
        RetransmitBy::Soonest => {
            let takes = |id: PathId| path(id).mean_delivery_time(path(id).pmdcs(), constants);
            takes(other).cmp(&takes(one))
        }
    };
    let mut chosen: Option<PathId> = None;
    for (index, id) in candidates.enumerate() {
        let bit = tie_break >> (index % 32) & 1 == 1;
        let takes =
            chosen.is_none_or(|chosen| better(id, chosen).is_gt() || (better(id, chosen).is_eq() && bit));
        if takes {
            chosen = Some(id);
        }
    }
    chosen.unwrap_or(fallback)
}

/// Returns the first lost chunk to retransmit on a path.
pub(in crate::association) fn next_lost(
    up: &mut Up,
    paths: &[Path],
    multipath: Multipath,
    id: PathId,
) -> Option<Tsn> {
    let Multipath { retransmit_by, constants, .. } = multipath;
    let first = up.sent.next_lost()?;
    let fallback = choose(paths, up.primary, Purpose::New);
    let tie_break = up.tie_break;
    let leaves_here = |sent_on: PathId| rtx_path(paths, sent_on, fallback, multipath, tie_break) == id;
    if retransmit_by == RetransmitBy::Same {
        return up.sent.lost().find(|(_, sent_on)| leaves_here(*sent_on)).map(|(tsn, _)| tsn);
    }
    if retransmit_by == RetransmitBy::Soonest {
        let chunks = sooner_on_other_paths(paths, id, fallback, constants, |_| true)?
            / paths[usize::from(id.0)].pmdcs();
        return up.sent.nth_lost(chunks);
    }
    // All lost chunks take the same path.
    let sent_on = up.sent.get(first)?.path;
    leaves_here(sent_on).then_some(first)
}

/// The number of bytes that other paths would deliver one after another before this one delivers one chunk;
/// `None` if the path must not carry any. These bytes are the chunks lost first: a fast path with a low
/// rate is the soonest for one chunk, but not for a thousand.
pub(super) fn sooner_on_other_paths(
    paths: &[Path],
    id: PathId,
    fallback: PathId,
    constants: &MultipathConstants,
    admits: impl Fn(PathId) -> bool,
) -> Option<usize> {
    let takes = |id: PathId| {
        let path = &paths[usize::from(id.0)];
        path.mean_delivery_time(path.pmdcs(), constants)
    };
    if !carries(paths, id, fallback) {
        return None;
    }
    let own = takes(id);
    let ids = (0..paths.len()).map(|index| PathId(index as u8));
    let sooner = ids.filter(|other| {
        carries(paths, *other, fallback) && (takes(*other), *other) < (own, id) && admits(*other)
    });
    let brings = |other: PathId| {
        let path = &paths[usize::from(other.0)];
        let brings = bytes_in(path.rate(), own).saturating_sub(path.flight_bytes as u64);
        usize::try_from(brings).unwrap_or(usize::MAX).max(path.pmdcs())
    };
    Some(sooner.map(brings).fold(0, usize::saturating_add))
}
