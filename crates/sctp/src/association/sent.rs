//! The DATA chunks that were sent and are not cumulatively acknowledged: a ring buffer indexed by TSN.
//!
//! SACKs are processed in `sack`, miss indications in `missing`, abandoned chunks in `forward`. The effect
//! of losses on a path's window is handled elsewhere. The only times stored here are those at which chunks
//! were sent.

mod blocks;
mod forward;
mod missing;
mod sack;

use std::collections::VecDeque;
use std::num::NonZeroU8;

use braidftp_base::Time;

pub(super) use self::blocks::are_valid_blocks;
pub(super) use self::forward::Prioritized;
pub(super) use self::missing::Counting;
pub(super) use self::sack::{AckedBy, Arrival, PathReport, Report, SackError};
use crate::association::Streams;
use crate::association::partial::policy::{Policy, Terms};
use crate::association::send_queue::MESSAGE_OVERHEAD_BYTES;
use crate::ids::{PathId, Tsn};
use crate::wire::Data;

/// The maximum number of outstanding TSNs: as many as gap blocks can express. Also ensures the limits of
/// RFC 9260 §6.1 on TSNs and on ordered messages of a stream in the send window.
//= specs/rfc9260.txt#section-6.1
//# The data sender MUST NOT use a TSN that is more than 2^31 - 1 above
//# the beginning TSN of the current send window.
//= specs/rfc9260.txt#section-6.1
//# For each stream, the data sender MUST NOT have more than 2^16 - 1
//# ordered user messages in the current send window.
//= specs/rfc9260.txt#section-1.6
//# An endpoint SHOULD NOT transmit a DATA chunk with a TSN that is more
//# than 2^31 - 1 above the beginning TSN of its current send window.
//= specs/rfc8260.txt#section-2.1
//# Therefore, the sender MUST NOT have more than 2**31 - 1 ordered
//# messages for each outgoing stream in flight and MUST NOT have more
//# than 2**31 - 1 unordered messages for each outgoing stream in flight.
//= specs/rfc8260.txt#section-2.1
//# Therefore, a sender MUST NOT have more than 2**31 - 1 fragments of a
//# single user message in flight.
pub(super) const OUTSTANDING_MAX: usize = 65_000;

/// The memory of a chunk's entries in its path's logs: the sending order and the send times.
const LOGGED_BYTES: usize = 32;

/// The number of TSNs for which uses before a restart are remembered, at most half of the sequence space
/// ahead.
pub(super) const RESTART_MEMORY: u32 = (1 << 31) + (1 << 30);

/// A chunk that was sent.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) data: Data,
    /// What it counts as bytes in flight: the chunk with header and padding (RFC 9260 §7.2).
    //= specs/rfc9260.txt#section-7.2
    //# When calculating one of these variables, the length of the DATA chunk,
    //# including the padding, SHOULD be used.
    pub(super) bytes: usize,
    /// The path on which it was last sent.
    pub(super) path: PathId,
    /// The other path on which it was sent before.
    before: Before,
    /// Whether it was sent on another path while it may have been in flight, so that its acknowledgement
    /// proves nothing about either path.
    pub(super) doubled: bool,
    pub(super) state: SlotState,
    /// Whether a gap block has acknowledged it before: after reneging, a repeated acknowledgement does not
    /// grow a window.
    credited: bool,
    /// Whether the peer will not renege on it, so that its payload need not be kept.
    released: bool,
    /// The partial reliability of its message.
    terms: Terms,
    missing: u8,
    /// If it is lost: whether T3-rtx detected that.
    timed_out: bool,
    /// Whether it was retransmitted after miss indications, which happens only once (§7.2.4 item 5).
    fast_retransmitted: bool,
    /// The number of transmissions, as far as acknowledgements can distinguish them.
    pub(super) transmissions: u32,
    /// The number of retransmissions.
    pub(super) retransmissions: u32,
    /// When it was last sent.
    pub(super) sent_at: Time,
    /// The size of the packet in which it was last sent.
    pub(super) packet_bytes: u16,
    /// The number, on its path, of the packet in which it was last sent.
    pub(super) order: u64,
}

/// The other paths on which a chunk was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// None.
    Never,
    /// Another one, and then its own.
    OtherPath,
    /// Only others, which were removed: its own is the one on which it would be retransmitted.
    PathsRemoved,
}

/// The state of a chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    /// In flight.
    InFlight,
    /// No longer in flight, and not reported by any SACK, because those that could report it were full.
    Unreported,
    /// Lost: to be retransmitted.
    Lost,
    /// Acknowledged by a gap block.
    Acked,
    /// Abandoned (RFC 3758 §3.4): neither outstanding nor ever retransmitted.
    Abandoned,
}

/// How a chunk was detected as lost, with its path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Found {
    /// By T3-rtx.
    TimedOut(PathId),
    /// By a SACK, or otherwise than by T3-rtx.
    Missing(PathId),
}

impl Found {
    /// The path on which the chunk was sent.
    pub(super) fn sent_on(self) -> PathId {
        match self {
            Self::TimedOut(path) | Self::Missing(path) => path,
        }
    }
}

/// A transmission, as `Sent` records it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Transmission {
    pub(super) path: PathId,
    pub(super) now: Time,
    pub(super) order: u64,
}

/// The chunks that were sent and are not cumulatively acknowledged.
#[derive(Debug)]
pub(super) struct Sent {
    /// The TSN of the first slot: one after the Cumulative TSN Ack Point.
    base: Tsn,
    /// The first TSN of the association.
    initial: Tsn,
    slots: VecDeque<Slot>,
    /// Runs of acknowledged TSNs: first and last, ascending, never adjacent.
    acked: Vec<(Tsn, Tsn)>,
    /// Those that the peer will not renege on, from the last NR-SACK.
    released: Vec<(Tsn, Tsn)>,
    /// Scratch: the same for the SACK being processed.
    blocks: Vec<(Tsn, Tsn)>,
    /// TSNs to retransmit, ascending; some may have been acknowledged since.
    lost: VecDeque<Tsn>,
    /// Miss indications no longer matter before this TSN: all are acknowledged, lost, or were retransmitted
    /// because of them.
    first_countable: Tsn,
    /// By path: no earlier TSN is outstanding.
    earliest_hint: Vec<Tsn>,
    /// By path: bytes acknowledged by gap blocks only.
    gap_acked_bytes: Vec<usize>,
    flight_bytes: usize,
    outstanding_bytes: usize,
    retained_bytes: usize,
    /// After a TSN reset: the last TSN before it.
    before_restart: Option<Tsn>,
    /// The number of abandoned chunks at the beginning: Advanced.Peer.Ack.Point (RFC 3758 §3.5 A1) as a
    /// distance.
    forward: usize,
    /// The number of chunks with a priority.
    prioritized: usize,
    /// A skipped TSN that has not been sent yet: a peer that acknowledges it is lying.
    skipped_tsn: Option<Tsn>,
    /// The number of miss indications that marks a TSN lost.
    missing_reports: NonZeroU8,
    /// Whether gaps are normal, as with several paths; and the maximum number of blocks in a SACK so far.
    many_gaps: Option<usize>,
}

impl Sent {
    /// Nothing was sent; the first TSN will be `initial_tsn`.
    pub(super) fn new(initial_tsn: Tsn, paths: usize) -> Self {
        Self {
            base: initial_tsn,
            initial: initial_tsn,
            slots: VecDeque::new(),
            acked: Vec::new(),
            released: Vec::new(),
            blocks: Vec::new(),
            lost: VecDeque::new(),
            first_countable: initial_tsn,
            earliest_hint: vec![initial_tsn; paths],
            gap_acked_bytes: vec![0; paths],
            flight_bytes: 0,
            outstanding_bytes: 0,
            retained_bytes: 0,
            before_restart: None,
            forward: 0,
            prioritized: 0,
            skipped_tsn: None,
            missing_reports: missing::REPORTS,
            many_gaps: None,
        }
    }

    /// For associations in which gaps are normal: a SACK with many blocks is considered full only if no
    /// SACK had more.
    pub(super) fn with_many_gaps(mut self, several_paths: Option<usize>) -> Self {
        self.many_gaps = several_paths;
        self
    }

    /// TSNs continue with `next_tsn` (RFC 6525 §5.2.7 H5). Nothing is outstanding.
    pub(super) fn restart(&mut self, next_tsn: Tsn) {
        assert!(self.is_empty(), "nothing may be outstanding at a TSN reset");
        let last = self.cum_tsn_ack_point();
        let fresh = Self::new(next_tsn, self.earliest_hint.len());
        let (missing_reports, many_gaps) = (self.missing_reports, self.many_gaps);
        *self = Self { before_restart: Some(last), missing_reports, many_gaps, ..fresh };
    }

    /// Whether a chunk of these streams is unacknowledged.
    pub(super) fn has_outstanding(&self, streams: &Streams) -> bool {
        // An abandoned chunk counts until the peer has skipped it: its number must not be reused before.
        let open = |slot: &Slot| slot.state != SlotState::Acked;
        self.slots.iter().any(|slot| open(slot) && streams.contains(slot.data.stream))
    }

    /// The TSN that the next new chunk gets.
    pub(super) fn next_tsn(&self) -> Tsn {
        self.base.plus(self.slots.len() as u32)
    }

    /// The Cumulative TSN Ack Point.
    pub(super) fn cum_tsn_ack_point(&self) -> Tsn {
        self.base.minus(1)
    }

    /// Whether the peer has acknowledged any chunk.
    pub(super) fn has_been_acknowledged(&self) -> bool {
        self.base != self.initial || self.slots.iter().any(|slot| slot.state == SlotState::Acked)
    }

    /// Whether everything sent is cumulatively acknowledged.
    pub(super) fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// Whether another TSN may be used.
    pub(super) fn is_full(&self) -> bool {
        self.slots.len() >= OUTSTANDING_MAX
    }

    /// Bytes in flight.
    pub(super) fn flight_bytes(&self) -> usize {
        self.flight_bytes
    }

    /// Bytes outstanding: in flight or lost.
    pub(super) fn outstanding_bytes(&self) -> usize {
        self.outstanding_bytes
    }

    /// Bytes acknowledged by gap blocks and not cumulatively: what the peer holds because of missing
    /// chunks.
    pub(super) fn gap_acked_bytes(&self) -> usize {
        self.gap_acked_bytes.iter().sum()
    }

    /// The same for one path.
    pub(super) fn gap_acked_bytes_of(&self, path: PathId) -> usize {
        self.gap_acked_bytes[usize::from(path.0)]
    }

    /// Among the first `count` chunks: the first one in flight that was never in flight on two paths at
    /// once and satisfies a condition.
    pub(super) fn first_blocking(&self, search: usize, holds: impl Fn(&Slot) -> bool) -> Option<&Slot> {
        let may_leave = |slot: &&Slot| slot.state == SlotState::InFlight && !slot.doubled && holds(slot);
        self.slots.iter().take(search).find(may_leave)
    }

    /// Bytes of user data held.
    pub(super) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    /// The send buffer charged for the chunks held.
    pub(super) fn charged_bytes(&self) -> usize {
        self.retained_bytes + self.slots.len() * MESSAGE_OVERHEAD_BYTES
    }

    /// The same, including the logs of paths.
    pub(super) fn counted_bytes(&self) -> usize {
        self.memory_bytes() + self.slots.len() * LOGGED_BYTES
    }

    /// The memory of the chunks held with their bookkeeping, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.retained_bytes + self.slots.len() * size_of::<Slot>()
    }

    /// Frees unused memory; nothing is outstanding.
    pub(super) fn trim(&mut self) {
        self.slots.shrink_to_fit();
        self.lost.shrink_to_fit();
        for runs in [&mut self.acked, &mut self.released, &mut self.blocks] {
            runs.shrink_to_fit();
        }
    }

    /// The chunk with this TSN, if it is not cumulatively acknowledged.
    pub(super) fn get(&self, tsn: Tsn) -> Option<&Slot> {
        self.slots.get(tsn.distance_from(self.base) as usize)
    }

    /// Whether a chunk that was sent has been acknowledged, cumulatively or by a gap block.
    pub(super) fn has_arrived(&self, tsn: Tsn) -> bool {
        tsn.before(self.base) || self.get(tsn).is_some_and(|slot| slot.state == SlotState::Acked)
    }

    fn slot(&mut self, tsn: Tsn) -> &mut Slot {
        &mut self.slots[tsn.distance_from(self.base) as usize]
    }

    /// Records a new chunk, whose TSN is `next_tsn`, with its length in packets.
    pub(super) fn insert(
        &mut self,
        data: Data,
        bytes: usize,
        terms: Terms,
        transmission: Transmission,
    ) -> &Data {
        debug_assert_eq!(data.tsn, self.next_tsn(), "TSNs are assigned in sequence");
        self.retained_bytes += data.payload.len();
        self.flight_bytes += bytes;
        self.outstanding_bytes += bytes;
        self.prioritized += usize::from(terms.is_prioritized());
        self.slots.push_back(Slot {
            data,
            bytes,
            path: transmission.path,
            before: Before::Never,
            doubled: false,
            credited: false,
            state: SlotState::InFlight,
            released: false,
            terms,
            missing: 0,
            timed_out: false,
            fast_retransmitted: false,
            transmissions: 1,
            retransmissions: 0,
            sent_at: transmission.now,
            packet_bytes: 0,
            order: transmission.order,
        });
        &self.slots.back().expect("just pushed").data
    }

    /// The chunk inserted last is skipped: it is treated as lost once a SACK acknowledges a later one.
    pub(super) fn skip_tsn(&mut self) {
        let tsn = self.next_tsn().minus(1);
        self.mark_unreported(tsn);
        self.slot(tsn).transmissions = 0;
        self.skipped_tsn = Some(tsn);
    }

    /// Whether a TSN was skipped and has not been sent yet.
    pub(super) fn has_skipped_tsn(&self) -> bool {
        self.skipped_tsn.is_some()
    }

    /// The lowest TSN to retransmit.
    pub(super) fn next_lost(&mut self) -> Option<Tsn> {
        while let Some(&tsn) = self.lost.front() {
            if !tsn.before(self.base) && self.slot(tsn).state == SlotState::Lost {
                return Some(tsn);
            }
            self.lost.pop_front();
        }
        None
    }

    /// The lost TSNs, each with its path.
    pub(super) fn lost(&self) -> impl Iterator<Item = (Tsn, PathId)> {
        let lost = self.lost.iter().filter(|tsn| !tsn.before(self.base));
        let slots = lost.filter_map(|tsn| self.get(*tsn));
        slots.filter(|slot| slot.state == SlotState::Lost).map(|slot| (slot.data.tsn, slot.path))
    }

    /// The lost TSN at this position among all lost ones.
    pub(super) fn nth_lost(&self, before: usize) -> Option<Tsn> {
        // Usually there are few.
        if self.lost.len() <= before { None } else { self.lost().nth(before).map(|(tsn, _)| tsn) }
    }

    /// The lowest lost TSN whose message must not be retransmitted.
    pub(super) fn next_over(&self, now: Time) -> Option<Tsn> {
        self.lost().map(|(tsn, _)| tsn).find(|tsn| self.get(*tsn).is_some_and(|slot| slot.is_over(now)))
    }

    /// The highest TSN sent on `path` that is not lost.
    pub(super) fn highest(&self, path: PathId) -> Option<Tsn> {
        let found = self.slots.iter().rev().find(|slot| slot.path == path && slot.state != SlotState::Lost);
        found.map(|slot| slot.data.tsn)
    }

    /// When the last chunk in flight on `path` was sent.
    pub(super) fn last_sent_at(&self, path: PathId) -> Time {
        let in_flight = |slot: &&Slot| slot.path == path && slot.state == SlotState::InFlight;
        self.slots.iter().filter(in_flight).map(|slot| slot.sent_at).max().unwrap_or_default()
    }

    /// Appends to `tsns` the last chunks in flight on `path` that may be retransmitted, in order, as many
    /// as fit into `room` bytes.
    pub(super) fn last_in_flight(&self, path: PathId, now: Time, room: usize, tsns: &mut Vec<Tsn>) {
        let may_leave =
            |slot: &&Slot| slot.path == path && slot.state == SlotState::InFlight && !slot.is_over(now);
        let first = tsns.len();
        let mut left = room;
        for slot in self.slots.iter().rev().filter(may_leave) {
            let Some(less) = left.checked_sub(slot.bytes) else { break };
            left = less;
            tsns.push(slot.data.tsn);
        }
        tsns[first..].reverse();
    }

    /// Bytes of the last chunk in flight on `path` that may be retransmitted.
    pub(super) fn last_bytes_in_flight(&self, path: PathId, now: Time) -> Option<usize> {
        let may_leave =
            |slot: &&Slot| slot.path == path && slot.state == SlotState::InFlight && !slot.is_over(now);
        self.slots.iter().rev().find(may_leave).map(|slot| slot.bytes)
    }

    /// Records a retransmission. Returns what it adds to the flight of its new path, and the path on which
    /// it counted before.
    pub(super) fn retransmit(&mut self, tsn: Tsn, transmission: Transmission) -> (&mut Data, Option<PathId>) {
        let hint = &mut self.earliest_hint[usize::from(transmission.path.0)];
        if tsn.before(*hint) {
            *hint = tsn;
        }
        let slot = &mut self.slots[tsn.distance_from(self.base) as usize];
        debug_assert!(slot.is_outstanding(), "acknowledged and abandoned chunks are not retransmitted");
        let was_in_flight = slot.state == SlotState::InFlight;
        let moved_from = was_in_flight.then_some(slot.path);
        slot.doubled |= moved_from.is_some_and(|from| from != transmission.path);
        if !was_in_flight {
            self.flight_bytes += slot.bytes;
        }
        slot.state = SlotState::InFlight;
        slot.timed_out = false;
        if slot.transmissions == 0 {
            self.skipped_tsn = None;
        } else {
            slot.retransmissions += 1;
            if slot.path != transmission.path || slot.before == Before::PathsRemoved {
                slot.before = Before::OtherPath;
            }
        }
        slot.path = transmission.path;
        slot.transmissions += 1;
        slot.sent_at = transmission.now;
        slot.order = transmission.order;
        (&mut slot.data, moved_from)
    }

    /// The earliest outstanding TSN sent on `path`.
    pub(super) fn earliest(&mut self, path: PathId) -> Option<Tsn> {
        let hint = &mut self.earliest_hint[usize::from(path.0)];
        if hint.before(self.base) {
            *hint = self.base;
        }
        let skip = hint.distance_from(self.base) as usize;
        let outstanding = |slot: &Slot| slot.path == path && slot.is_outstanding();
        let found = self.slots.range(skip.min(self.slots.len())..).position(outstanding);
        *hint = self.base.plus(skip.saturating_add(found.unwrap_or(self.slots.len() - skip)) as u32);
        found.map(|_| *hint)
    }

    /// Sets the actual size of the packet in which chunks were sent.
    pub(super) fn set_packet(&mut self, tsns: &[Tsn], bytes: usize) {
        for tsn in tsns {
            self.slot(*tsn).packet_bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        }
    }

    /// Marks a chunk as no longer in flight with unknown fate; returns its bytes.
    pub(super) fn mark_unreported(&mut self, tsn: Tsn) -> usize {
        let slot = self.slot(tsn);
        assert_eq!(slot.state, SlotState::InFlight, "of other chunks more is known");
        slot.state = SlotState::Unreported;
        let bytes = slot.bytes;
        self.flight_bytes -= bytes;
        bytes
    }

    /// Marks a chunk lost that is in flight or unreported; returns its path and bytes.
    pub(super) fn mark_lost(&mut self, tsn: Tsn) -> (PathId, usize) {
        let slot = self.slot(tsn);
        let was_in_flight = slot.state == SlotState::InFlight;
        assert!(was_in_flight || slot.state == SlotState::Unreported, "only chunks in flight can be lost");
        slot.state = SlotState::Lost;
        slot.timed_out = false;
        let (path, bytes) = (slot.path, slot.bytes);
        if was_in_flight {
            self.flight_bytes -= bytes;
        }
        // Almost always the highest so far.
        let base = self.base;
        let ahead = tsn.distance_from(base);
        let at = match self.lost.back() {
            Some(last) if !last.before(base) && last.distance_from(base) > ahead => {
                self.lost.partition_point(|lost| lost.before(base) || lost.distance_from(base) < ahead)
            }
            _ => self.lost.len(),
        };
        self.lost.insert(at, tsn);
        (path, bytes)
    }

    /// Marks all chunks in flight on `path` lost; returns their bytes.
    pub(super) fn mark_path_lost(&mut self, path: PathId) -> usize {
        let mut bytes = 0;
        self.lost.clear();
        for slot in &mut self.slots {
            if slot.path == path && matches!(slot.state, SlotState::InFlight | SlotState::Unreported) {
                if slot.state == SlotState::InFlight {
                    bytes += slot.bytes;
                }
                slot.state = SlotState::Lost;
                slot.timed_out = false;
                slot.missing = 0;
            }
            if slot.state == SlotState::Lost {
                self.lost.push_back(slot.data.tsn);
            }
        }
        self.flight_bytes -= bytes;
        self.first_countable = self.base;
        bytes
    }

    /// T3-rtx of `path` expired: all chunks in flight there are lost, and earlier losses count as timed out
    /// as well. Returns the bytes that were in flight.
    pub(super) fn time_out(&mut self, path: PathId) -> usize {
        let bytes = self.mark_path_lost(path);
        let lost = |slot: &&mut Slot| slot.path == path && slot.state == SlotState::Lost;
        self.slots.iter_mut().filter(lost).for_each(|slot| slot.timed_out = true);
        bytes
    }

    /// Data sent with a stale cookie is sent again with the next one, over the number of paths available
    /// then.
    pub(super) fn restarted(mut self, paths: usize) -> Self {
        self.flight_bytes = 0;
        self.lost.clear();
        for slot in &mut self.slots {
            slot.state = SlotState::Lost;
            slot.path = PathId(0);
            self.lost.push_back(slot.data.tsn);
        }
        self.first_countable = self.base;
        self.earliest_hint = vec![self.base; paths];
        // Nothing is acknowledged before the association is established.
        self.gap_acked_bytes = vec![0; paths];
        self
    }

    /// Sets the number of paths.
    pub(super) fn grow(&mut self, paths: usize) {
        self.earliest_hint.resize(paths, self.base);
        self.gap_acked_bytes.resize(paths, 0);
    }

    /// A path was removed: its unacknowledged chunks are lost, as if sent on `new_path`. Returns the bytes that
    /// were in flight.
    pub(super) fn move_to_path(&mut self, from: PathId, new_path: PathId) -> usize {
        let bytes = self.mark_path_lost(from);
        for slot in self.slots.iter_mut().filter(|slot| slot.path == from) {
            slot.path = new_path;
            slot.before = Before::PathsRemoved;
            if slot.transmissions == 0 {
                continue;
            }
            // An acknowledgement proves nothing about the path that the chunk is now attributed to.
            slot.transmissions += 1;
            slot.order = 0;
        }
        self.earliest_hint[usize::from(new_path.0)] = self.base;
        let named = std::mem::take(&mut self.gap_acked_bytes[usize::from(from.0)]);
        self.gap_acked_bytes[usize::from(new_path.0)] += named;
        bytes
    }

    /// Checks the invariants; returns the bytes in flight by path.
    pub(super) fn check(&self, paths: usize) -> Vec<usize> {
        let mut by_path = vec![0; paths];
        let (mut outstanding, mut retained, mut lost) = (0, 0, 0);
        for (index, slot) in self.slots.iter().enumerate() {
            debug_assert_eq!(slot.data.tsn, self.base.plus(index as u32));
            match slot.state {
                SlotState::InFlight => by_path[usize::from(slot.path.0)] += slot.bytes,
                SlotState::Lost => lost += 1,
                SlotState::Acked | SlotState::Unreported | SlotState::Abandoned => {}
            }
            outstanding += if slot.is_outstanding() { slot.bytes } else { 0 };
            retained += slot.data.payload.len();
        }
        let mut named = vec![0; self.gap_acked_bytes.len()];
        for slot in self.slots.iter().filter(|slot| slot.state == SlotState::Acked) {
            named[usize::from(slot.path.0)] += slot.bytes;
        }
        assert_eq!(named, self.gap_acked_bytes);
        let abandoned = |slot: &&Slot| slot.state == SlotState::Abandoned;
        assert_eq!(
            self.slots.iter().take_while(abandoned).count(),
            self.forward,
            "the point is not as far as possible"
        );
        let prioritized = self.slots.iter().filter(|slot| slot.terms.is_prioritized()).count();
        assert_eq!(prioritized, self.prioritized);
        let counted = (by_path.iter().sum(), outstanding, retained);
        assert_eq!(counted, (self.flight_bytes, self.outstanding_bytes, self.retained_bytes));
        assert!(lost <= self.lost.len(), "{lost} chunks are lost, {} are to be sent again", self.lost.len());
        assert!(self.acked.iter().all(|run| !run.0.before(self.base) && run.1.before(self.next_tsn())));
        by_path
    }

    /// The number of chunks held.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }
}

impl Slot {
    /// Whether the chunk is neither acknowledged nor abandoned.
    fn is_outstanding(&self) -> bool {
        !matches!(self.state, SlotState::Acked | SlotState::Abandoned)
    }

    /// How the loss was detected, with the path.
    pub(super) fn found(&self) -> Found {
        if self.timed_out { Found::TimedOut(self.path) } else { Found::Missing(self.path) }
    }

    /// Whether its message's reliability forbids a retransmission.
    pub(super) fn is_over(&self, now: Time) -> bool {
        match self.terms.policy {
            Policy::Until(end) => end <= now,
            Policy::Retransmissions(max) => self.retransmissions >= max,
            Policy::Full | Policy::Lifetime(_) | Policy::Priority(_) => false,
        }
    }
}

#[cfg(test)]
#[path = "tests/sent.rs"]
mod tests;
