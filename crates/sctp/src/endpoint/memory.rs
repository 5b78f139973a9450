//! A limit on the memory of all associations of an endpoint
//! ([`Limits::memory_bytes`](super::Limits::memory_bytes)), shared fairly, and room for new associations.
//!
//! Each association counts its own memory; the total is updated after each input. An association may always
//! use an equal share, so that large ones do not exclude others, and more than its share while a quarter is
//! free. If shares exceed the limit, an association above its share is aborted: the one with the largest
//! product of bytes and time without progress.

use std::net::IpAddr;
use std::time::Duration;

use braidftp_base::Time;
use bytes::Bytes;

use super::Endpoint;
use super::table::{Slot, Table};
use crate::association::ASSOCIATION_BYTES_MIN;
use crate::config::Config;
use crate::ids::AssociationId;

/// What an association is counted as holding at least while its share is counted out: with many associations a share is
/// small, and each needs a packet or two to go on.
const SHARE_MIN_BYTES: usize = 16_384;

/// Where more than this part of the bound is taken, associations whose peers are silent do not keep what they hold.
const SWEPT_FROM: usize = 4;
/// How often they are looked for.
const SWEEP_EVERY: Duration = Duration::from_secs(3);
/// After so much silence a peer is asked for an answer by a HEARTBEAT.
const ASKED_AFTER: Duration = Duration::from_secs(5);
/// After so much silence its association is aborted.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// The bound, and how much of it is taken.
#[derive(Debug)]
pub(super) struct Memory {
    bound_bytes: usize,
    held_bytes: usize,
    /// An association that its user has in hand: what it holds is not counted anew yet.
    touched: Option<AssociationId>,
    /// When something was last told to the endpoint.
    pub(super) now: Time,
    /// When silent peers are looked for next, if much is taken.
    sweep_at: Option<Time>,
}

impl Memory {
    pub(super) fn new(bound_bytes: usize) -> Self {
        Self { bound_bytes, held_bytes: 0, touched: None, now: Time::ZERO, sweep_at: None }
    }

    fn is_bounded(&self) -> bool {
        self.bound_bytes != usize::MAX
    }

    /// What each of so many associations may always take.
    fn share(&self, associations: usize) -> usize {
        (self.bound_bytes / (associations + 1)).max(SHARE_MIN_BYTES)
    }

    /// How much one of so many associations may take that takes this much now.
    pub(super) fn limit_of(&self, its_bytes: usize, associations: usize) -> usize {
        if !self.is_bounded() {
            return usize::MAX;
        }
        let open = self.bound_bytes - self.bound_bytes / 4;
        let more = its_bytes + open.saturating_sub(self.held_bytes);
        // No share is more than half of the bound: for each packet and each call, a division is worth saving.
        if self.held_bytes <= self.bound_bytes / 4 { more } else { self.share(associations).max(more) }
    }

    /// The user takes an association in hand.
    #[inline]
    pub(super) fn touch(&mut self, id: AssociationId, table: &mut Table) {
        // Its limit stands until it is counted anew.
        if self.touched != Some(id) && self.is_bounded() {
            self.touch_anew(id, table);
        }
    }

    fn touch_anew(&mut self, id: AssociationId, table: &mut Table) {
        if let Some(before) = self.touched.replace(id) {
            self.count(before, table);
        }
        let associations = table.len();
        if let Some(slot) = table.get_mut(id) {
            let limit = self.limit_of(slot.memory_bytes, associations);
            slot.association.limit_memory(limit, slot.memory_bytes);
        }
    }

    /// Counts anew what an association takes.
    fn count(&mut self, id: AssociationId, table: &mut Table) {
        let Some(slot) = table.get_mut(id) else { return };
        let bytes = slot.association.counted_bytes();
        if bytes < slot.memory_bytes {
            slot.progress_at = self.now;
        }
        self.held_bytes = self.held_bytes - slot.memory_bytes + bytes;
        slot.memory_bytes = bytes;
    }

    /// When silent peers are looked for next.
    pub(super) fn next_sweep(&self) -> Option<Time> {
        self.sweep_at
    }

    /// An association that took so much is gone.
    pub(super) fn forget(&mut self, bytes: usize) {
        self.held_bytes -= bytes;
    }
}

impl Endpoint {
    /// Counts anew what the association takes that the user had in hand.
    pub(super) fn settle_memory(&mut self, now: Time) {
        self.memory.now = now;
        if let Some(id) = self.memory.touched.take() {
            self.count_memory(now, id);
        }
    }

    /// Counts anew what an association takes, and frees memory if it is more than there is.
    pub(super) fn count_memory(&mut self, now: Time, id: AssociationId) {
        if !self.memory.is_bounded() {
            return;
        }
        self.memory.now = now;
        self.memory.count(id, &mut self.table);
        while self.memory.held_bytes > self.memory.bound_bytes {
            let share = self.memory.share(self.table.len());
            let over = self.table.iter().filter(|slot| slot.memory_bytes > share && !slot.is_over());
            let weight = |bytes: usize, since: Time| bytes as u128 * (now.since(since).as_nanos() + 1);
            let Some(victim) = over.max_by_key(|slot| weight(slot.memory_bytes, slot.progress_at)) else {
                return;
            };
            let id = victim.id;
            self.counters.out_of_memory += 1;
            if let Some(slot) = self.table.get_mut(id) {
                slot.association.give_up_memory();
            }
            self.memory.count(id, &mut self.table);
            self.table.ready(id);
        }
    }

    /// Where much is taken: asks silent peers of associations that hold more than a share may be for an answer, and aborts those
    /// that gave none. A peer that vanished would else keep what it left here until its association times out, minutes later.
    pub(super) fn sweep_memory(&mut self, now: Time) {
        if !self.memory.is_bounded() || self.memory.held_bytes <= self.memory.bound_bytes / SWEPT_FROM {
            self.memory.sweep_at = None;
            return;
        }
        if *self.memory.sweep_at.get_or_insert(now + SWEEP_EVERY) > now {
            return;
        }
        self.memory.sweep_at = Some(now + SWEEP_EVERY);
        let holds = |slot: &&Slot| slot.memory_bytes > SHARE_MIN_BYTES && !slot.is_over();
        let silent = |slot: &Slot| now.since(slot.heard_at);
        let found = self.table.iter().filter(holds).filter(|slot| silent(slot) >= ASKED_AFTER);
        let found: Vec<_> = found.map(|slot| (slot.id, silent(slot))).collect();
        for (id, silence) in found {
            let Some(slot) = self.table.get_mut(id) else { continue };
            if silence < SILENT_MAX {
                slot.association.probe_peer();
            } else {
                self.counters.out_of_memory += 1;
                slot.association.give_up_memory();
                self.memory.count(id, &mut self.table);
            }
            self.table.ready(id);
        }
    }

    /// Whether one more association, opened from this address, has room. Half-open ones make room if `make_room` says so, and
    /// they could.
    pub(super) fn has_room(&mut self, from: IpAddr, config: &Config, make_room: MakeRoom) -> bool {
        if self.table.len() >= self.limits.associations {
            return false;
        }
        if self.memory.held_bytes.saturating_add(ASSOCIATION_BYTES_MIN) > self.memory.bound_bytes
            && self.memory.is_bounded()
        {
            self.counters.out_of_memory += 1;
            return false;
        }
        if self.table.opened_from(from) >= self.limits.associations_per_address {
            let Some(id) = self.table.eviction_candidate(self.memory.now, Some(from)) else {
                self.counters.refused_by_address += 1;
                return false;
            };
            self.make_room_of(id, make_room);
        }
        let is_half_open = config.memory.unadmitted_receive_buffer_bytes.is_some();
        if is_half_open
            && self.table.has_half_open(self.limits.half_open)
            && let Some(id) = self.table.eviction_candidate(self.memory.now, None)
        {
            self.make_room_of(id, make_room);
        }
        true
    }

    fn make_room_of(&mut self, id: AssociationId, make_room: MakeRoom) {
        if make_room == MakeRoom::No {
            return;
        }
        self.counters.half_open_aborted += 1;
        if let Some(slot) = self.table.get_mut(id) {
            slot.association
                .abort(Bytes::from_static(b"room is wanted for other associations; log in sooner"));
        }
        self.memory.count(id, &mut self.table);
        self.table.ready(id);
    }
}

/// Whether half-open associations are aborted to make room.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MakeRoom {
    /// They could be: an INIT came, which anybody may send in anybody's name.
    No,
    /// A COOKIE ECHO came.
    Yes,
}
