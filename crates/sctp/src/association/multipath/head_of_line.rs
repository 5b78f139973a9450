//! Head-of-line rescue: retransmits the chunk that blocks delivery on another path with free window,
//! although it may still arrive (chunk rescheduling, opportunistic retransmission); also the last resort of
//! preventive admission.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;

use super::scheduler::has_room;
use super::{Multipath, Remedy, carries};
use crate::association::Association;
use crate::association::path::{Purpose, Recovery, choose};
use crate::association::sent::Slot;
use crate::association::state::State;
use crate::association::transmit::window_takes;
use crate::ids::{PathId, Tsn};

/// Only so many of the first chunks are looked at.
const LOOK: usize = 64;
/// What is still to come of a chunk's flight is longer than another flight by this much, or it is chance: of two paths alike,
/// one always seems the shorter.
const LONGER: (u32, u32) = (5, 4);

/// A chunk in flight by another path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// Since it left.
    pub(super) waited: Duration,
    /// Since then, or since anything came back by its path if that was later.
    pub(super) silent: Duration,
    /// How long its path takes.
    pub(super) patience: Duration,
}

/// Whether it would come later by its path than by one that `takes` so long; or ought to have come, and to have left again by its
/// path, before it comes by the other. While things come back by its path they have been slower than was thought, and what
/// left behind them is none the less on its way: it would leave twice, with the queue that it stands in full of such copies,
/// and how long that path takes would never be known, for of what left twice nobody knows.
pub(super) fn is_held_up(Waits { waited, silent, patience }: Waits, takes: Duration) -> bool {
    let to_come = patience.saturating_sub(waited);
    to_come > takes / LONGER.1 * LONGER.0 || silent > patience + patience.max(takes)
}

impl Association {
    /// The chunk in flight by another path that is to leave by this one now.
    pub(super) fn next_head_of_line(&mut self, now: Time, id: PathId, multipath: Multipath) -> Option<Tsn> {
        let State::Up(up) = &mut self.state else { return None };
        let fallback = choose(&self.paths, up.primary, Purpose::New);
        let path = &self.paths[usize::from(id.0)];
        if !carries(&self.paths, id, fallback) || !path.is_usable() || !has_room(path) {
            return None;
        }
        let len = self.queue.peek_len()?.min(path.payload_max(self.queue.header_len()));
        let blocked = !window_takes(up, len);
        let is_due = match multipath.remedy {
            Remedy::Opportunistic | Remedy::Preventive => blocked,
            Remedy::Reschedule => {
                let count = (0..self.paths.len())
                    .filter(|index| carries(&self.paths, PathId(*index as u8), fallback))
                    .count()
                    .max(1);
                let window = up.peer_a_rwnd + up.sent.named_bytes();
                let share = self.config.send_buffer_bytes.min(window) / count;
                let waits = up.sent.named_bytes_of(id);
                waits > 0 && waits >= share / 2 && !matches!(path.recovery, Recovery::Fast(_))
            }
            Remedy::None | Remedy::SplitSender | Remedy::SplitReceiver | Remedy::SplitBoth => false,
        };
        if !is_due {
            return None;
        }
        let by_another = |slot: &Slot| slot.path != id && slot.bytes <= path.pmdcs();
        let first = up.sent.first_to_rescue(LOOK, by_another)?;
        let is_held_up = || {
            let left_by = &self.paths[usize::from(first.path.0)];
            let waits = Waits {
                waited: now.since(first.sent_at),
                silent: now.since(first.sent_at.max(left_by.heard_at)),
                patience: left_by.takes(len),
            };
            is_held_up(waits, path.takes(len))
        };
        // What comes behind one that comes soon by itself holds up nobody yet.
        (multipath.remedy != Remedy::Preventive || is_held_up()).then_some(first.data.tsn)
    }

    /// A chunk has left again that `held_up` had in flight: what becomes of that path.
    pub(in crate::association) fn on_head_of_line_sent(
        &mut self,
        now: Time,
        held_up: PathId,
        multipath: Multipath,
    ) {
        let State::Up(up) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(held_up.0)];
        let penalised = match multipath.remedy {
            Remedy::Opportunistic => {
                let round_trip = path.rtt.srtt().unwrap_or(path.rtt.rto());
                path.penalised_at.is_none_or(|at| now.since(at) >= round_trip)
            }
            // It enters fast recovery, once.
            Remedy::Reschedule => path.recovery == Recovery::No,
            _ => false,
        };
        if penalised {
            path.penalised_at = Some(now);
            path.on_congestion(now, cc::Cause::Loss, path.flight_bytes);
            if multipath.remedy == Remedy::Reschedule {
                path.recovery = Recovery::Fast(up.sent.next_tsn().minus(1));
            }
        }
    }
}
