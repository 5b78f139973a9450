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

/// The minimum amount for which an association counts in the computation of shares: with many
/// associations shares are small, and each needs a packet or two to continue.
const SHARE_MIN_BYTES: usize = 16_384;

/// If more than this part of the bound is used, associations with silent peers are swept.
const SWEPT_FROM: usize = 4;
/// The interval of sweeps.
const SWEEP_EVERY: Duration = Duration::from_secs(3);
/// After this silence, a HEARTBEAT is sent to the peer.
const ASKED_AFTER: Duration = Duration::from_secs(5);
/// After this silence, the association is aborted.
const SILENT_MAX: Duration = Duration::from_secs(15);

/// The memory bound, and how much of it is used.
#[derive(Debug)]
pub(super) struct Memory {
    bound_bytes: usize,
    held_bytes: usize,
    /// The association that the user is accessing, whose memory was not counted since.
    touched: Option<AssociationId>,
    /// The time of the last input.
    pub(super) now: Time,
    /// The time of the next sweep, if much memory is used.
    sweep_at: Option<Time>,
}

impl Memory {
    pub(super) fn new(bound_bytes: usize) -> Self {
        Self { bound_bytes, held_bytes: 0, touched: None, now: Time::ZERO, sweep_at: None }
    }

    fn is_bounded(&self) -> bool {
        self.bound_bytes != usize::MAX
    }

    /// The share of each of this many associations.
    fn share(&self, associations: usize) -> usize {
        (self.bound_bytes / (associations + 1)).max(SHARE_MIN_BYTES)
    }

    /// The limit of one of this many associations that uses this much now.
    pub(super) fn limit_of(&self, its_bytes: usize, associations: usize) -> usize {
        if !self.is_bounded() {
            return usize::MAX;
        }
        let open = self.bound_bytes - self.bound_bytes / 4;
        let more = its_bytes + open.saturating_sub(self.held_bytes);
        // No share exceeds half of the bound: saves a division for each packet and call.
        if self.held_bytes <= self.bound_bytes / 4 { more } else { self.share(associations).max(more) }
    }

    /// The user accesses an association.
    #[inline]
    pub(super) fn touch(&mut self, id: AssociationId, table: &mut Table) {
        // Its limit applies until it is counted again.
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

    /// Counts the memory of an association.
    fn count(&mut self, id: AssociationId, table: &mut Table) {
        let Some(slot) = table.get_mut(id) else { return };
        let bytes = slot.association.counted_bytes();
        if bytes < slot.memory_bytes {
            slot.progress_at = self.now;
        }
        self.held_bytes = self.held_bytes - slot.memory_bytes + bytes;
        slot.memory_bytes = bytes;
    }

    /// The time of the next sweep.
    pub(super) fn next_sweep(&self) -> Option<Time> {
        self.sweep_at
    }

    /// An association that used this much was removed.
    pub(super) fn forget(&mut self, bytes: usize) {
        self.held_bytes -= bytes;
    }
}

impl Endpoint {
    /// Counts the memory of the association that the user accessed.
    pub(super) fn settle_memory(&mut self, now: Time) {
        self.memory.now = now;
        if let Some(id) = self.memory.touched.take() {
            self.count_memory(now, id);
        }
    }

    /// Counts the memory of an association, and frees memory if the bound is exceeded.
    pub(super) fn count_memory(&mut self, now: Time, id: AssociationId) {
        if !self.memory.is_bounded() {
            return;
        }
        self.memory.now = now;
        self.memory.count(id, &mut self.table);
        while self.memory.held_bytes > self.memory.bound_bytes {
            let Some(id) = self.over_share() else { return };
            self.free_memory_of(id);
        }
    }

    /// Among the associations above their share, the one with the largest product of bytes and time without
    /// progress.
    fn over_share(&self) -> Option<AssociationId> {
        let share = self.memory.share(self.table.len());
        let over = self.table.iter().filter(|slot| slot.memory_bytes > share && !slot.is_over());
        let since = |slot: &Slot| self.memory.now.since(slot.progress_at).as_nanos();
        over.max_by_key(|slot| slot.memory_bytes as u128 * (since(slot) + 1)).map(|slot| slot.id)
    }

    /// Aborts an association to free its memory.
    fn free_memory_of(&mut self, id: AssociationId) {
        self.counters.out_of_memory += 1;
        if let Some(slot) = self.table.get_mut(id) {
            slot.association.abort_to_free_memory();
        }
        self.memory.count(id, &mut self.table);
        self.table.ready(id);
    }

    /// Whether the memory of another association is free. Those above their share are aborted for it if
    /// `make_room` permits.
    fn has_memory(&mut self, make_room: MakeRoom) -> bool {
        let is_full = |memory: &Memory| {
            memory.is_bounded()
                && memory.held_bytes.saturating_add(ASSOCIATION_BYTES_MIN) > memory.bound_bytes
        };
        while is_full(&self.memory) {
            match (self.over_share(), make_room) {
                (Some(id), MakeRoom::Yes) => self.free_memory_of(id),
                (Some(_), MakeRoom::No) => return true,
                (None, _) => {
                    self.counters.out_of_memory += 1;
                    return false;
                }
            }
        }
        true
    }

    /// If much memory is used: sends HEARTBEATs to silent peers of associations above the minimum share,
    /// and aborts associations whose peers did not respond. Otherwise the memory of a vanished peer
    /// would be held until its association times out, minutes later.
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
                self.table.ready(id);
            } else {
                self.free_memory_of(id);
            }
        }
    }

    /// Whether there is room for another association, opened from this address. With `make_room`,
    /// half-open ones and those above their share of memory are aborted for it if necessary.
    pub(super) fn has_room(&mut self, from: IpAddr, config: &Config, make_room: MakeRoom) -> bool {
        if self.table.len() >= self.limits.associations {
            return false;
        }
        if !self.has_memory(make_room) {
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
            && make_room == MakeRoom::Yes
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
                .abort(Bytes::from_static(b"too many associations without a login; log in sooner"));
        }
        self.memory.count(id, &mut self.table);
        self.table.ready(id);
    }
}

/// Whether associations may be aborted for a new one.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum MakeRoom {
    /// No: an INIT arrived, which may have a forged source.
    No,
    /// Yes: a COOKIE ECHO arrived.
    Yes,
}
