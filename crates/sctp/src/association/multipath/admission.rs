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

use std::time::Duration;

use super::delivery_rate::{bytes_in, time_for};
use super::scheduler::PendingData;
use super::{Remedy, carries};
use crate::association::path::Path;
use crate::ids::PathId;

/// A chunk that is lost once in so many flights is model with.
const RARE: u64 = 32;
/// A chunk is lost no more often than this in a row, for all that is model with.
const LOSSES_MAX: u32 = 5;

impl Remedy {
    /// Whether a new chunk may leave by this path.
    pub(super) fn admits(self, paths: &[Path], id: PathId, pending: &PendingData) -> bool {
        let path = &paths[usize::from(id.0)];
        // What has nothing in flight blocks nobody, and a share may be less than a packet.
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
            Self::Preventive => is_harmless(paths, id, pending),
        }
    }
}

/// How many paths carry new data.
pub(super) fn count(paths: &[Path], pending: &PendingData) -> usize {
    let ids = (0..paths.len()).map(|index| PathId(index as u8));
    ids.filter(|id| carries(paths, *id, pending.fallback)).count().max(1)
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
        // A rate that has been seen may grow by a quarter until then.
        let brings = bytes_in(path(other).rate(), own);
        match room.checked_sub(brings + brings / 4) {
            Some(left) => room = left,
            None => return false,
        }
    }
    true
}

/// How long nothing behind a chunk is read that leaves by this path now: until it has come, or its loss has shown and others
/// have brought it, as often as that happens to one of those in flight.
fn blocks_for(path: &Path, pending: &PendingData, repair: Duration) -> Duration {
    let (packets, takes) = (path.flight_bytes / path.pmdcs() + 1, path.takes(pending.bytes));
    let lost = path.delivery_rate.lost_thousandths();
    takes + Flight { packets, takes, lost, repair }.repairs(LossModel::Certain)
}

/// The same if it carried all that the window holds, whatever it carries now. What it takes to carry so much is no shorter for
/// that nothing is lost, and time enough to mend what is.
fn blocks_steadily(path: &Path, pending: &PendingData, repair: Duration) -> Duration {
    let (packets, takes) = (pending.window / path.pmdcs() + 1, path.round_trip());
    let lost = path.delivery_rate.lost_thousandths();
    let repairs = Flight { packets, takes, lost, repair }.repairs(LossModel::Mean);
    let carries = path.delivery_rate.carries(pending.now).map(|rate| time_for(pending.window, rate));
    (takes + repairs).max(carries.unwrap_or_default())
}

/// How a loss is model with that happens to some flights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum LossModel {
    /// As if it happened to this one.
    Certain,
    Mean,
}

/// Packets that leave by one path, what part of them is lost, in thousandths, and how long it takes to bring one and to repair
/// one.
struct Flight {
    packets: usize,
    takes: Duration,
    lost: u64,
    repair: Duration,
}

impl Flight {
    /// How long it takes until its losses have shown and are repaired, and those of what repairs them.
    fn repairs(&self, model: LossModel) -> Duration {
        let mut lost = self.packets as u64 * 1_000;
        let mut wait = Duration::ZERO;
        for nth in 0..LOSSES_MAX {
            lost = lost * self.lost / 1_000;
            if lost * RARE < 1_000 {
                break;
            }
            // The last of those in flight is found lost when it is an eighth of a round trip late, or sooner.
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
