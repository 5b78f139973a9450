//! Selects the path of new data whenever a packet is filled.
//!
//! Paths are tried in the scheduler's order. The first one is used that may carry new data, has room in its
//! window, is not delayed by pacing, is not one that the scheduler prefers to wait for, and is admitted by
//! the remedy.

use braidftp_base::Time;

use super::{carries, next_lost};
use crate::association::Association;
use crate::association::path::{Path, Purpose, choose};
use crate::association::permit::{may_send, window_takes};
use crate::association::state::{State, Up, Window};
use crate::association::timers::Timer;
use crate::config::{Config, LossDetection, Multipath, MultipathConstants, PathScheduler};
use crate::ids::PathId;

/// BLEST's λ, in tenths: the factor by which the fast path may exceed the estimate. The initial value of
/// its authors' code; not adapted here.
const LAMBDA_TENTHS: u64 = 12;
/// ECF's β, in quarters: the hysteresis of waiting.
const BETA_QUARTERS: u128 = 1;

/// The data to be sent, and the window.
#[derive(Debug, Clone, Copy)]
pub(super) struct PendingData {
    pub(super) now: Time,
    /// The maximum number of bytes of the chunk.
    pub(super) bytes: usize,
    /// The bytes queued, including the chunk.
    pub(super) queued: usize,
    /// Whether no more data is to be expected: the send buffer has room.
    pub(super) is_last: bool,
    /// The maximum distance in bytes between the cumulative TSN and the last TSN: what the peer holds plus
    /// its remaining window, limited by what is kept here.
    pub(super) window: usize,
    /// The send buffer in bytes.
    pub(super) send_buffer: usize,
    /// The path used if none is active.
    pub(super) fallback: PathId,
    pub(super) constants: &'static MultipathConstants,
}

impl Association {
    /// Returns the path on which the next new chunk is sent now.
    pub(super) fn next_by(&mut self, now: Time, multipath: Multipath) -> Option<PathId> {
        if !may_send(self.shutdown) {
            return None;
        }
        let State::Up(up) = &mut self.state else { return None };
        let len = self.queue.peek_len()?;
        if up.sent.is_full() {
            return None;
        }
        let header_len = self.queue.header_len();
        let fallback = choose(&self.paths, up.primary, Purpose::New);
        let keeps_all = !up.extensions.nr_sack;
        let send_buffer =
            self.config.memory.send_buffer_bytes.max(self.config.memory.send_buffer_max_bytes.unwrap_or(0));
        let window = up.peer_a_rwnd + up.sent.gap_acked_bytes();
        let mut pending = PendingData {
            now,
            bytes: 0,
            queued: self.queue.queued_bytes(),
            window: if keeps_all { window.min(send_buffer) } else { window },
            send_buffer,
            is_last: self.writable_at.is_none(),
            fallback,
            constants: multipath.constants,
        };
        let literature = uses_cmt_rules(&self.config);
        //= specs/rfc9260.txt#section-6.1
        //# C)  When the time comes for the sender to transmit, before sending
        //# new DATA chunks, the sender MUST first transmit any DATA chunks
        //# that are marked for retransmission (limited by the current cwnd).
        if literature
            && (0..self.paths.len())
                .any(|index| retransmits_on(up, &self.paths, multipath, PathId(index as u8)))
        {
            return None;
        }
        let mut after = None;
        while let Some((key, id)) = next_in_order(&self.paths, multipath.scheduler, up.turn, after) {
            after = Some((key, id));
            let path = &self.paths[usize::from(id.0)];
            let payload = len.min(path.payload_max(header_len));
            if !carries(&self.paths, id, fallback)
                || !path.is_usable()
                || !has_room(path)
                || path.burst == 0
                || !window_takes(up, payload)
            {
                continue;
            }
            if literature && !lost_leave_room(up, path, id, payload) {
                continue;
            }
            pending.bytes = header_len + payload;
            // Scheduler and remedy may differ on the best path: send data that would not be sent otherwise.
            let idle = up.sent.flight_bytes() == 0;
            let waits = match multipath.scheduler {
                _ if idle => false,
                PathScheduler::RoundRobin | PathScheduler::LowestRtt => false,
                PathScheduler::Blest => blest_waits(&self.paths, id, &pending),
                PathScheduler::Ecf => ecf_waits(&self.paths, id, &pending, &mut up.ecf_waits),
            };
            // A path has its turn when it has room for several packets.
            let path = &mut self.paths[usize::from(id.0)];
            if !literature {
                let window = path.window();
                path.burst_bytes = window / multipath.constants.bursts;
                if up.turn != usize::from(id.0) && path.flight_bytes > window - path.burst_bytes {
                    continue;
                }
            }
            if waits || !(idle || multipath.remedy.admits(&self.paths, id, &pending)) {
                continue;
            }
            if let Some(until) = self.paths[usize::from(id.0)].holds(now) {
                self.timers.arm(Timer::Pacing(id), until);
                continue;
            }
            return Some(id);
        }
        None
    }
}

/// Whether lost chunks leave room for a new one of `payload` bytes. A lost chunk that was not retransmitted is outstanding on
/// its path (RFC 9260 §1.3), and occupies the path's window and the peer's.
fn lost_leave_room(up: &Up, path: &Path, id: PathId, payload: usize) -> bool {
    let open = up.peer_a_rwnd.saturating_sub(up.sent.outstanding_bytes());
    if up.window != Window::ProbeDue && open < payload {
        return false;
    }
    let of_path = up.sent.lost().filter(|(_, sent_on)| *sent_on == id);
    let waiting: usize = of_path.map(|(tsn, _)| up.sent.get(tsn).map_or(0, |slot| slot.bytes)).sum();
    waiting == 0 || path.flight_bytes + waiting < path.controller.window()
}

/// Whether windows and losses follow CMT's rules (SFR, CUC, DAC), which loss detection by send order does
/// not need.
pub(in crate::association) fn uses_cmt_rules(config: &Config) -> bool {
    config.paths.multipath.is_some() && config.recovery.loss_detection == LossDetection::MissingReports
}

/// Whether lost chunks are retransmitted on a path now.
pub(super) fn retransmits_on(up: &mut Up, paths: &[Path], multipath: Multipath, id: PathId) -> bool {
    let path = &paths[usize::from(id.0)];
    path.is_usable()
        && (path.fast_retransmit_due || has_room(path))
        && next_lost(up, paths, multipath, id).is_some()
}

/// Whether a path's window has room.
pub(super) fn has_room(path: &Path) -> bool {
    path.flight_bytes < if path.timeouts_unanswered > 0 { 1 } else { path.window() }
}

/// Returns the path that follows `after`, and its position.
pub(super) fn next_in_order(
    paths: &[Path],
    scheduler: PathScheduler,
    turn: usize,
    after: Option<(u128, PathId)>,
) -> Option<(u128, PathId)> {
    let place = |index: usize| match scheduler {
        PathScheduler::RoundRobin => ((index + paths.len() - turn % paths.len()) % paths.len()) as u128,
        PathScheduler::LowestRtt | PathScheduler::Blest | PathScheduler::Ecf => {
            paths[index].rtt.srtt().unwrap_or(paths[index].rtt.rto()).as_nanos()
        }
    };
    let all = (0..paths.len()).map(|index| (place(index), PathId(index as u8)));
    all.filter(|one| after.is_none_or(|after| *one > after)).min()
}

/// The path with the shortest RTT among those that carry new data.
fn fastest(paths: &[Path], fallback: PathId) -> PathId {
    let mut after = None;
    while let Some(next) = next_in_order(paths, PathScheduler::LowestRtt, 0, after) {
        if carries(paths, next.1, fallback) {
            return next.1;
        }
        after = Some(next);
    }
    fallback
}

/// Whether the slower path would block the faster one: `MSS·(cwnd + (r − 1)/2)·r·λ > window − MSS·(inflight
/// + 1)`, with windows in packets and r the ratio of the RTTs.
pub(super) fn blest_waits(paths: &[Path], id: PathId, pending: &PendingData) -> bool {
    let best = fastest(paths, pending.fallback);
    if best == id {
        return false;
    }
    let (fast, slow) = (&paths[usize::from(best.0)], &paths[usize::from(id.0)]);
    let (Some(fast_rtt), Some(slow_rtt)) = (fast.rtt.srtt(), slow.rtt.srtt()) else { return false };
    let (fast_rtt, slow_rtt) = (fast_rtt.as_nanos().max(1), slow_rtt.as_nanos());
    let half_growth = fast.pmdcs() as u128 * slow_rtt.saturating_sub(fast_rtt) / (2 * fast_rtt);
    let sends = (fast.controller.window() as u128 + half_growth).saturating_mul(slow_rtt) / fast_rtt;
    let sends = sends.saturating_mul(u128::from(LAMBDA_TENTHS)) / 10;
    sends > pending.window.saturating_sub(slow.flight_bytes + pending.bytes) as u128
}

/// Whether the faster path, though full, would deliver all queued data earlier.
pub(super) fn ecf_waits(paths: &[Path], id: PathId, pending: &PendingData, waited: &mut bool) -> bool {
    let best = fastest(paths, pending.fallback);
    if best == id {
        return false;
    }
    let (fast, slow) = (&paths[usize::from(best.0)], &paths[usize::from(id.0)]);
    let (Some(fast_rtt), Some(slow_rtt)) = (fast.rtt.srtt(), slow.rtt.srtt()) else { return false };
    let delta = fast.rtt.rttvar().max(slow.rtt.rttvar()).as_nanos();
    let (fast_rtt, slow_rtt) = (fast_rtt.as_nanos(), slow_rtt.as_nanos());
    let windows = |path: &Path| (pending.queued as u128, path.controller.window().max(1) as u128);
    let (queued, window) = windows(fast);
    // n·RTT_f, with n = 1 + k/cwnd_f.
    let by_fast = fast_rtt.saturating_add(fast_rtt.saturating_mul(queued) / window);
    let by_slow = slow_rtt.saturating_add(delta);
    let by_slow = if *waited { by_slow + by_slow * BETA_QUARTERS / 4 } else { by_slow };
    if by_fast >= by_slow {
        *waited = false;
        return false;
    }
    let (queued, window) = windows(slow);
    let waits = slow_rtt.saturating_mul(queued) / window >= 2 * fast_rtt + delta;
    *waited |= waits;
    waits
}
