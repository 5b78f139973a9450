//! Which path may have a new chunk, so that the receive buffer that all share is blocked by none.
//!
//! **Preventive admission.** In order nothing is read until the chunk that is next has come. So what a chunk costs that takes
//! a slow path is room: until it has come, and, if it is lost, come again, all that better paths bring waits behind it.
//! It is admitted if the window holds that beside what the slow path has in flight already; what was sent before it will
//! have been read by then. Better paths are those that would bring a whole window sooner if they were used alone, losses and all;
//! the best is always admitted, so that with too small a buffer it is used alone. By how soon each would bring the next chunk
//! they are not compared: over a near path that carries little that is soon, and over one that lost something it is late, as
//! long as it is the better one otherwise. BLEST asks the same of two paths, in windows; here it is asked of all, in bytes and
//! rates, and of what is lost.

use std::time::Duration;

use super::meter::{bytes_in, time_for};
use super::scheduler::Demand;
use super::{Remedy, carries};
use crate::association::path::Path;
use crate::ids::PathId;

/// A chunk that is lost once in so many flights is reckoned with.
const RARE: u64 = 32;
/// A chunk is lost no more often than this in a row, for all that is reckoned with.
const LOSSES_MAX: u32 = 5;

impl Remedy {
    /// Whether a new chunk may leave by this path.
    pub(super) fn admits(self, paths: &[Path], id: PathId, demand: &Demand) -> bool {
        let path = &paths[usize::from(id.0)];
        // What has nothing in flight blocks nobody, and a share may be less than a packet.
        if path.flight_bytes == 0 && self != Self::Preventive {
            return true;
        }
        let sender = || path.flight_bytes + demand.bytes <= demand.send_buffer / count(paths, demand);
        let receiver = || path.flight_bytes <= demand.window / count(paths, demand);
        match self {
            Self::None | Self::Opportunistic => true,
            Self::SplitSender => sender(),
            Self::SplitReceiver => receiver(),
            Self::SplitBoth | Self::Reschedule => sender() && receiver(),
            Self::Preventive => is_harmless(paths, id, demand),
        }
    }
}

/// How many paths carry new data.
pub(super) fn count(paths: &[Path], demand: &Demand) -> usize {
    let ids = (0..paths.len()).map(|index| PathId(index as u8));
    ids.filter(|id| carries(paths, *id, demand.fallback)).count().max(1)
}

fn is_harmless(paths: &[Path], id: PathId, demand: &Demand) -> bool {
    let others = || {
        let ids = (0..paths.len()).map(|index| PathId(index as u8));
        ids.filter(|other| *other != id && carries(paths, *other, demand.fallback))
    };
    if others().next().is_none() {
        return true;
    }
    let path = |id: PathId| &paths[usize::from(id.0)];
    let repair = others().chain([id]).map(|id| path(id).takes(demand.bytes)).min().unwrap_or_default();
    let own = blocks_for(path(id), demand, repair);
    let steadily = |id: PathId| (blocks_steadily(path(id), demand, repair), id);
    let own_steadily = steadily(id);
    let mut room = demand.window.saturating_sub(path(id).flight_bytes + demand.bytes) as u64;
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
fn blocks_for(path: &Path, demand: &Demand, repair: Duration) -> Duration {
    let (packets, takes) = (path.flight_bytes / path.pmdcs() + 1, path.takes(demand.bytes));
    let lost = path.meter.lost_thousandths();
    takes + Flight { packets, takes, lost, repair }.repairs(Reckoned::InFull)
}

/// The same if it carried all that the window holds, whatever it carries now. What it takes to carry so much is no shorter for
/// that nothing is lost, and time enough to mend what is.
fn blocks_steadily(path: &Path, demand: &Demand, repair: Duration) -> Duration {
    let (packets, takes) = (demand.window / path.pmdcs() + 1, path.round_trip());
    let lost = path.meter.lost_thousandths();
    let repairs = Flight { packets, takes, lost, repair }.repairs(Reckoned::InTheMean);
    let carries = path.meter.carries(demand.now).map(|rate| time_for(demand.window, rate));
    (takes + repairs).max(carries.unwrap_or_default())
}

/// How a loss is reckoned with that happens to some flights.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Reckoned {
    /// As if it happened to this one.
    InFull,
    InTheMean,
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
    fn repairs(&self, reckoned: Reckoned) -> Duration {
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
            wait += match reckoned {
                Reckoned::InFull => once,
                Reckoned::InTheMean => once * lost.min(1_000) as u32 / 1_000,
            };
        }
        wait
    }
}
