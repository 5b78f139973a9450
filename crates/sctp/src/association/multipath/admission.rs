//! Admission of new chunks to paths, so that no path blocks the shared receive buffer.
//!
//! **Preventive admission.** With in-order delivery nothing is read until the next chunk has arrived. So a
//! chunk on a slow path costs buffer space: until it arrives, possibly after a retransmission, everything
//! that better paths deliver waits behind it. The chunk is admitted if the receive window holds that amount
//! in addition to the slow path's own flight; data sent earlier will have been read by then. Better paths
//! are those that would deliver a whole window sooner if used alone, including losses. The best path is
//! always admitted, so that with a small buffer it is used alone. Comparing the paths by the arrival time
//! of the next chunk would be wrong: it is early on a short path with a low rate, and late on a path that
//! has just lost a packet, even if that path is the better one. BLEST compares two paths in the same way in
//! units of windows; here all paths are compared in bytes and rates, with losses.

use crate::config::{MultipathConstants, Remedy};
use std::time::Duration;

use super::carries;
use super::delivery_rate::{bytes_in, time_for};
use super::rtx_policy::sooner_on_other_paths;
use super::scheduler::PendingData;
use crate::association::path::Path;
use crate::ids::PathId;

impl Remedy {
    /// Whether a new chunk may be sent on this path.
    pub(super) fn admits(self, paths: &[Path], id: PathId, pending: &PendingData) -> bool {
        let path = &paths[usize::from(id.0)];
        // A path without data in flight blocks nothing, and a share may be smaller than a packet.
        if path.flight_bytes == 0 && self != Self::Preventive {
            return true;
        }
        let sender = || path.flight_bytes + pending.bytes <= pending.send_buffer / count(paths, pending);
        let receiver = || path.flight_bytes <= pending.window / count(paths, pending);
        match self {
            Self::None | Self::Opportunistic => true,
            Self::SplitSender => sender(),
            Self::SplitReceiver => receiver(),
            Self::SplitBoth | Self::Reschedule => sender() && receiver(),
            Self::Preventive => {
                is_harmless(paths, id, pending)
                    && !(pending.is_last && is_sooner_elsewhere(paths, id, pending))
            }
        }
    }
}

/// The number of paths that carry new data.
pub(super) fn count(paths: &[Path], pending: &PendingData) -> usize {
    let ids = (0..paths.len()).map(|index| PathId(index as u8));
    ids.filter(|id| carries(paths, *id, pending.fallback)).count().max(1)
}

/// Whether other paths deliver everything that is queued before this path delivers one chunk.
fn is_sooner_elsewhere(paths: &[Path], id: PathId, pending: &PendingData) -> bool {
    let admits = |other: PathId| is_harmless(paths, other, pending);
    sooner_on_other_paths(paths, id, pending.fallback, pending.constants, admits)
        .is_some_and(|sooner| pending.queued <= sooner)
}

fn is_harmless(paths: &[Path], id: PathId, pending: &PendingData) -> bool {
    let others = || {
        let ids = (0..paths.len()).map(|index| PathId(index as u8));
        ids.filter(|other| *other != id && carries(paths, *other, pending.fallback))
    };
    if others().next().is_none() {
        return true;
    }
    let path = |id: PathId| &paths[usize::from(id.0)];
    let repair = others().chain([id]).map(|id| path(id).takes(pending.bytes)).min().unwrap_or_default();
    let own = blocks_for(path(id), pending, repair);
    let steadily = |id: PathId| (blocks_steadily(path(id), pending, repair), id);
    let own_steadily = steadily(id);
    let mut room = pending.window.saturating_sub(path(id).flight_bytes + pending.bytes) as u64;
    for other in others() {
        if steadily(other) > own_steadily {
            continue;
        }
        match room.checked_sub(bytes_in(may_grow_to(path(other), pending, path(id)), own)) {
            Some(left) => room = left,
            None => return false,
        }
    }
    true
}

/// The rate of a path, in bytes per second, until a chunk on a slower path is reported: the rate may grow until then, to no
/// more than the capacity if that is known. If the slower path loses chunks, the time is a mean, and the growth is a margin
/// for longer times as well.
fn may_grow_to(path: &Path, pending: &PendingData, slower: &Path) -> u64 {
    let rate = path.rate();
    let grown = rate.saturating_add(rate.saturating_mul(pending.constants.rate_growth) / 100);
    let capacity = path.delivery_rate.carries(pending.now, pending.constants);
    match capacity.filter(|_| slower.delivery_rate.lost_thousandths(pending.constants) == 0) {
        Some(capacity) => grown.min(capacity.max(rate)),
        None => grown,
    }
}

/// How long a chunk sent on this path now blocks delivery: until a SACK on any path reports it, or until its loss has been
/// detected and repaired, by the loss ratio of the chunks in flight.
fn blocks_for(path: &Path, pending: &PendingData, repair: Duration) -> Duration {
    let (packets, takes) = (path.flight_bytes / path.pmdcs() + 1, path.takes(pending.bytes));
    let lost = path.delivery_rate.lost_thousandths(pending.constants);
    path.reported_in(pending.bytes)
        + Flight { packets, takes, lost, repair }.repairs(LossModel::Certain, pending.constants)
}

/// The same if the path carried the whole window. The time to carry that much does not decrease without
/// losses, and suffices to repair them.
fn blocks_steadily(path: &Path, pending: &PendingData, repair: Duration) -> Duration {
    let (packets, takes) = (pending.window / path.pmdcs() + 1, path.round_trip());
    let lost = path.delivery_rate.lost_thousandths(pending.constants);
    let repairs = Flight { packets, takes, lost, repair }.repairs(LossModel::Mean, pending.constants);
    let carries =
        path.delivery_rate.carries(pending.now, pending.constants).map(|rate| time_for(pending.window, rate));
    (takes + repairs).max(carries.unwrap_or_default())
}

/// How losses that only some flights have are considered.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LossModel {
    /// As if this flight had them.
    Certain,
    Mean,
}

/// Packets sent on one path, their loss ratio in thousandths, and the time to deliver and to repair one.
struct Flight {
    packets: usize,
    takes: Duration,
    lost: u64,
    repair: Duration,
}

impl Flight {
    /// The time until the flight's losses are detected and repaired, including losses of the repairs.
    fn repairs(&self, model: LossModel, constants: &MultipathConstants) -> Duration {
        let mut lost = self.packets as u64 * 1_000;
        let mut wait = Duration::ZERO;
        for nth in 0..constants.losses_max {
            lost = lost * self.lost / 1_000;
            if lost * constants.rare_loss_flights < 1_000 {
                break;
            }
            // The loss of the last packet in flight is detected an eighth of an RTT late, or earlier.
            let shows = if nth == 0 { self.takes / 8 } else { Duration::ZERO };
            let once = self.repair + self.repair / 8 + shows;
            wait += match model {
                LossModel::Certain => once,
                LossModel::Mean => once * lost.min(1_000) as u32 / 1_000,
            };
        }
        wait
    }
}
