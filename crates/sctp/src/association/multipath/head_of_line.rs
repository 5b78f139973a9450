//! Head-of-line rescue: retransmits the chunk that blocks delivery on another path with free window,
//! although it may still arrive (chunk rescheduling, opportunistic retransmission); also the last resort of
//! preventive admission, which retransmits the last chunks of a slow path at the end of the data as well.

use crate::config::{Multipath, MultipathConstants, Remedy};
use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;

use super::carries;
use super::delivery_rate::time_for;
use super::scheduler::has_room;
use crate::association::Association;
use crate::association::path::{Purpose, Recovery, choose};
use crate::association::permit::window_takes;
use crate::association::sent::Slot;
use crate::association::state::State;
use crate::ids::{PathId, Tsn};

/// A chunk in flight on another path.
#[derive(Debug, Clone, Copy)]
pub(super) struct Waits {
    /// The time since it was sent.
    pub(super) waited: Duration,
    /// The time since it was sent, or since the last acknowledgement on its path if that is later.
    pub(super) silent: Duration,
    /// How long its path takes.
    pub(super) patience: Duration,
}

/// Whether the chunk would arrive later on its own path than on one that `takes` this long; or is overdue,
/// including a retransmission on its own path, before the other path could deliver it. While
/// acknowledgements arrive on its path, the path is only slower than estimated, and chunks in its queue are
/// still on their way: sending copies would fill that queue, and its RTT could never be measured, since
/// retransmissions are ambiguous.
pub(super) fn is_held_up(
    Waits { waited, silent, patience }: Waits,
    takes: Duration,
    constants: &MultipathConstants,
) -> bool {
    is_clearly_later(patience.saturating_sub(waited), takes, constants)
        || silent > patience + patience.max(takes)
}

fn is_clearly_later(to_come: Duration, takes: Duration, constants: &MultipathConstants) -> bool {
    to_come > takes / 4 * constants.blocked_quarters
}

impl Association {
    /// Returns the chunk in flight on another path that must be sent on this one now.
    pub(super) fn next_head_of_line(&mut self, now: Time, id: PathId, multipath: Multipath) -> Option<Tsn> {
        let State::Up(up) = &mut self.state else { return None };
        let fallback = choose(&self.paths, up.primary, Purpose::New);
        let path = &self.paths[usize::from(id.0)];
        if !carries(&self.paths, id, fallback) || !path.is_usable() || !has_room(path) {
            return None;
        }
        let Some(len) = self.queue.peek_len() else { return self.next_at_end(now, id, multipath) };
        let len = len.min(path.payload_max(self.queue.header_len()));
        let blocked = !window_takes(up, len);
        let is_due = match multipath.remedy {
            Remedy::Opportunistic | Remedy::Preventive => blocked,
            Remedy::Reschedule => {
                let count = (0..self.paths.len())
                    .filter(|index| carries(&self.paths, PathId(*index as u8), fallback))
                    .count()
                    .max(1);
                let window = up.peer_a_rwnd + up.sent.gap_acked_bytes();
                let share = self.config.memory.send_buffer_bytes.min(window) / count;
                let waits = up.sent.gap_acked_bytes_of(id);
                waits > 0 && waits >= share / 2 && !matches!(path.recovery, Recovery::Fast(_))
            }
            Remedy::None | Remedy::SplitSender | Remedy::SplitReceiver | Remedy::SplitBoth => false,
        };
        if !is_due {
            return None;
        }
        let by_another = |slot: &Slot| slot.path != id && slot.bytes <= path.pmdcs();
        let first = up.sent.first_blocking(multipath.constants.search_chunks, by_another)?;
        let is_held_up = || {
            let sent_on = &self.paths[usize::from(first.path.0)];
            let waits = Waits {
                waited: now.since(first.sent_at),
                silent: now.since(first.sent_at.max(sent_on.heard_at)),
                patience: sent_on.takes(len),
            };
            is_held_up(waits, path.takes(len), multipath.constants)
        };
        // A chunk that will arrive soon by itself blocks nothing.
        (multipath.remedy != Remedy::Preventive || is_held_up()).then_some(first.data.tsn)
    }

    /// Returns the chunk in flight on another path that is sent on this one because nothing else is left to be sent: the last
    /// one there, if this path takes clearly less time. What was scheduled while there was more data would otherwise
    /// decide when all of it has arrived.
    fn next_at_end(&self, now: Time, id: PathId, multipath: Multipath) -> Option<Tsn> {
        let State::Up(up) = &self.state else { return None };
        let path = &self.paths[usize::from(id.0)];
        // An application that fills the buffer may be late by a moment.
        let is_end = self.writable_at.is_none() && now.since(up.new_data_at) >= path.round_trip() / 2;
        if multipath.remedy != Remedy::Preventive || !is_end {
            return None;
        }
        let last = |other: usize| {
            let sent_on = &self.paths[other];
            let slot = sent_on.send_order.as_ref()?.last_in_flight(&up.sent, PathId(other as u8))?;
            let to_come = time_for(sent_on.flight_bytes, sent_on.rate());
            let is_late = is_clearly_later(to_come, path.takes(slot.bytes), multipath.constants);
            (is_late && slot.bytes <= path.pmdcs()).then_some(slot.data.tsn)
        };
        (0..self.paths.len()).filter(|other| *other != usize::from(id.0)).find_map(last)
    }

    /// A chunk in flight on `held_up` was sent on another path: applies the remedy's penalty to `held_up`.
    pub(in crate::association) fn on_head_of_line_sent(
        &mut self,
        now: Time,
        held_up: PathId,
        multipath: Multipath,
    ) {
        let State::Up(up) = &mut self.state else { return };
        if self.queue.peek_len().is_none() {
            return;
        }
        let path = &mut self.paths[usize::from(held_up.0)];
        let penalised = match multipath.remedy {
            Remedy::Opportunistic | Remedy::Preventive => {
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
