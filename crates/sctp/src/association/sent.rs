//! The DATA chunks that were sent and are not cumulatively acknowledged, and what SACKs say of them (RFC 9260 §6.2.1,
//! §6.7, §7.2.4).
//!
//! A ring indexed by TSN. A SACK costs what it newly acknowledges and the blocks it lists, not the window: blocks are
//! compared with those known from before, and only the difference is visited. What a loss means to a path's window is
//! not known here; neither is time, but that each chunk remembers when it left.

mod blocks;
mod forward;
mod missing;

use std::collections::VecDeque;
use std::num::NonZeroU8;

use braidftp_base::Time;

pub(super) use self::blocks::make_sense;
use self::blocks::read_blocks;
pub(super) use self::forward::Prioritized;
pub(super) use self::missing::Counting;
use self::missing::Overtaken;
use crate::association::Streams;
use crate::association::partial::{Policy, Terms};
use crate::association::send_queue::MESSAGE_OVERHEAD_BYTES;
use crate::ids::{PathId, Tsn};
use crate::wire::{Data, Sack};

/// How many TSNs may be outstanding: as many as gap blocks can speak of. It also keeps the limits of RFC 9260 §6.1 on
/// TSNs and on the ordered messages of a stream in the send window.
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

/// From so many gap blocks on, a SACK may have had more to say: some peers list no more, whatever room there is.
const BLOCKS_COMPLETE: usize = 16;

/// For how many TSNs it is remembered which ones were used before a restart, half of all of them further on or less.
pub(super) const RESTART_MEMORY: u32 = (1 << 31) + (1 << 30);

/// A chunk that left.
#[derive(Debug)]
pub(super) struct Slot {
    pub(super) data: Data,
    /// What it counts in flight: the chunk with header and padding (RFC 9260 §7.2).
    //= specs/rfc9260.txt#section-7.2
    //# When calculating one of these variables, the length of the DATA chunk,
    //# including the padding, SHOULD be used.
    pub(super) bytes: usize,
    /// The path by which it left last.
    pub(super) path: PathId,
    /// By what other path it left before.
    before: Before,
    /// Whether it left by another path while it may have been under way, so that its arrival says nothing of either.
    doubled: bool,
    pub(super) state: SlotState,
    /// Whether a gap block has named it before: what is taken back and named again is no news to a window.
    credited: bool,
    /// Whether the peer keeps it for sure, so that its payload is not kept here.
    released: bool,
    /// What its message was sent on.
    terms: Terms,
    missing: u8,
    /// Whether it was retransmitted after missing reports, and so never will be again for them (§7.2.4 item 5).
    fast_retransmitted: bool,
    /// How often it left, as far as acknowledgements can tell.
    pub(super) transmissions: u32,
    /// How often it left again.
    retransmissions: u32,
    /// When it left last.
    pub(super) sent_at: Time,
    /// How large the packet was in which it left last.
    pub(super) packet_bytes: u16,
    /// The number, on its path, of the packet in which it left last.
    pub(super) order: u64,
}

/// By what other path than its own a chunk left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Before {
    /// By none.
    Never,
    /// By another, and then by its own.
    Elsewhere,
    /// By others alone, which are gone: its own is where it would leave again.
    Homeless,
}

/// What is known of a chunk that left.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SlotState {
    /// Under way.
    InFlight,
    /// Not under way any more, and no SACK has said whether it arrived: those that could were full.
    Unspoken,
    /// To be sent again.
    Lost,
    /// Named by a gap block.
    Acked,
    /// Given up (RFC 3758 §3.4): neither outstanding nor ever sent again.
    Abandoned,
}

/// A departure, as `Sent` records it.
#[derive(Debug, Clone, Copy)]
pub(super) struct Departure {
    pub(super) path: PathId,
    pub(super) now: Time,
    pub(super) order: u64,
}

/// Why a SACK was not applied. Nothing of it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SackError {
    /// It is older than one seen before.
    Outdated,
    /// It acknowledges what was never sent, cumulatively or in a gap block.
    NeverSent,
    /// The next in sequence is missing, and an NR-SACK promised to keep it.
    TakenBack,
}

/// What a SACK said that was not known before.
#[derive(Debug, Default)]
pub(super) struct Report {
    pub(super) cum_advanced: bool,
    /// The last TSN of which the SACK says whether it arrived; `None`: it says so of all.
    pub(super) silent_beyond: Option<Tsn>,
    /// By path.
    pub(super) paths: Vec<PathReport>,
    /// The same before the SACK: the earliest outstanding TSN of each path.
    pub(super) earliest: Vec<Option<Tsn>>,
}

/// What a SACK said of one path.
#[derive(Debug, Default, Clone)]
pub(super) struct PathReport {
    /// Bytes newly acknowledged.
    pub(super) acked_bytes: usize,
    /// Whether some of it left by this path alone, and so proves that the path works.
    pub(super) proven: bool,
    /// Bytes that are not in flight any more, acknowledged or lost.
    pub(super) landed_bytes: usize,
    /// Bytes in flight again: a gap block took them back.
    pub(super) reneged_bytes: usize,
    /// Whether TSNs were found lost.
    pub(super) lost: bool,
    /// The highest of them, the bytes of all, and when the last of them had left.
    pub(super) highest_lost: Option<Tsn>,
    pub(super) lost_bytes: usize,
    pub(super) lost_sent_at: Time,
    /// The lowest TSN that is newly acknowledged, cumulatively or by a gap block.
    pub(super) lowest_tsn: Option<Tsn>,
    /// With concurrent multipath transfer: whether the path's own cumulative point advanced.
    pub(super) point_advanced: bool,
    /// The highest TSN that gap blocks newly acknowledge.
    pub(super) newest_tsn: Option<Tsn>,
    /// Whether the earliest outstanding TSN was acknowledged.
    pub(super) earliest_acked: bool,
    /// The largest packet of which something is newly acknowledged.
    pub(super) largest_packet: u16,
    /// The chunk sent last among those newly acknowledged.
    pub(super) newest: Option<Arrival>,
    /// The same among those that were sent only once and can be measured (RFC 9260 §6.3.1 C5).
    pub(super) measurable: Option<Arrival>,
}

/// A chunk that arrived.
#[derive(Debug, Clone, Copy)]
pub(super) struct Arrival {
    pub(super) tsn: Tsn,
    pub(super) order: u64,
    pub(super) sent_at: Time,
    pub(super) transmissions: u32,
    /// How large its packet was.
    pub(super) packet_bytes: u16,
    /// Whether a gap block named it, so that it did not just become visible with a lower TSN's arrival.
    pub(super) by_gap: bool,
}

/// The chunks that were sent and are not cumulatively acknowledged.
#[derive(Debug)]
pub(super) struct Sent {
    /// The TSN of the first slot: one beyond the cumulative TSN ack point.
    base: Tsn,
    slots: VecDeque<Slot>,
    /// Runs of acknowledged TSNs, first and last, ascending, never adjacent.
    acked: Vec<(Tsn, Tsn)>,
    /// Those of them that the peer keeps for sure, by the last NR-SACK.
    released: Vec<(Tsn, Tsn)>,
    /// Scratch: the same of the SACK being read.
    blocks: Vec<(Tsn, Tsn)>,
    /// TSNs to send again, ascending; some may have been acknowledged since.
    lost: VecDeque<Tsn>,
    /// All TSNs before this one are beyond miss indications: acknowledged, lost, or retransmitted for them.
    first_countable: Tsn,
    /// By path: no TSN before this one is outstanding there.
    earliest_hint: Vec<Tsn>,
    /// By path: bytes that gap blocks name, and the cumulative point does not.
    named_bytes: Vec<usize>,
    flight_bytes: usize,
    outstanding_bytes: usize,
    retained_bytes: usize,
    /// If TSNs began anew: the last one before.
    before_restart: Option<Tsn>,
    /// How many chunks from the first on are abandoned: Advanced.Peer.Ack.Point (RFC 3758 §3.5 A1), as a distance.
    forward: usize,
    /// How many chunks have a priority.
    prioritized: usize,
    /// A TSN that was passed over and has not left yet: who acknowledges it lies.
    passed_over: Option<Tsn>,
    /// So many miss indications make a TSN lost.
    missing_reports: NonZeroU8,
    /// Whether gaps are the rule, as where TSNs take several paths; and the most blocks that a SACK had.
    many_gaps: Option<usize>,
}

impl Sent {
    /// Nothing was sent; the first TSN will be `initial_tsn`.
    pub(super) fn new(initial_tsn: Tsn, paths: usize) -> Self {
        Self {
            base: initial_tsn,
            slots: VecDeque::new(),
            acked: Vec::new(),
            released: Vec::new(),
            blocks: Vec::new(),
            lost: VecDeque::new(),
            first_countable: initial_tsn,
            earliest_hint: vec![initial_tsn; paths],
            named_bytes: vec![0; paths],
            flight_bytes: 0,
            outstanding_bytes: 0,
            retained_bytes: 0,
            before_restart: None,
            forward: 0,
            prioritized: 0,
            passed_over: None,
            missing_reports: missing::REPORTS,
            many_gaps: None,
        }
    }

    /// The same, where gaps are the rule: a SACK with many blocks has had more to say only if none had more blocks.
    pub(super) fn with_many_gaps(mut self, several_paths: Option<usize>) -> Self {
        self.many_gaps = several_paths;
        self
    }

    /// Whether a SACK with so many blocks may have had more to say.
    fn may_be_full(&self, blocks: usize) -> bool {
        blocks >= BLOCKS_COMPLETE && self.many_gaps.is_none_or(|most| blocks >= most)
    }

    /// TSNs go on with `next_tsn` (RFC 6525 §5.2.7 H5). Nothing is outstanding.
    pub(super) fn restart(&mut self, next_tsn: Tsn) {
        assert!(self.is_empty(), "what is outstanding has a number that nobody would know any more");
        let last = self.cum_tsn_ack_point();
        let fresh = Self::new(next_tsn, self.earliest_hint.len());
        let (missing_reports, many_gaps) = (self.missing_reports, self.many_gaps);
        *self = Self { before_restart: Some(last), missing_reports, many_gaps, ..fresh };
    }

    /// Whether a chunk of these streams is not acknowledged.
    pub(super) fn has_outstanding(&self, streams: &Streams) -> bool {
        // What is given up is not, until the peer has skipped it: its number must not come again before.
        let open = |slot: &Slot| slot.state != SlotState::Acked;
        self.slots.iter().any(|slot| open(slot) && streams.contains(slot.data.stream))
    }

    /// The TSN that the next new chunk gets.
    pub(super) fn next_tsn(&self) -> Tsn {
        self.base.plus(self.slots.len() as u32)
    }

    /// The last TSN that was cumulatively acknowledged.
    pub(super) fn cum_tsn_ack_point(&self) -> Tsn {
        self.base.minus(1)
    }

    /// Whether all that was sent is cumulatively acknowledged.
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

    /// Bytes not acknowledged: in flight or lost.
    pub(super) fn outstanding_bytes(&self) -> usize {
        self.outstanding_bytes
    }

    /// Bytes that gap blocks name, and that are not cumulatively acknowledged: what the peer holds for what is missing.
    pub(super) fn named_bytes(&self) -> usize {
        self.named_bytes.iter().sum()
    }

    /// The same of what left by one path.
    pub(super) fn named_bytes_of(&self, path: PathId) -> usize {
        self.named_bytes[usize::from(path.0)]
    }

    /// The first of the chunks in flight that left by one path alone and for which this holds, among the first so many.
    pub(super) fn first_to_rescue(&self, look: usize, holds: impl Fn(&Slot) -> bool) -> Option<Tsn> {
        let may_leave = |slot: &&Slot| {
            slot.state == SlotState::InFlight && slot.before == Before::Never && !slot.doubled && holds(slot)
        };
        self.slots.iter().take(look).find(may_leave).map(|slot| slot.data.tsn)
    }

    /// Bytes of user data that are kept here.
    pub(super) fn retained_bytes(&self) -> usize {
        self.retained_bytes
    }

    /// What the chunks kept here cost of the send buffer.
    pub(super) fn charged_bytes(&self) -> usize {
        self.retained_bytes + self.slots.len() * MESSAGE_OVERHEAD_BYTES
    }

    /// The chunk with this TSN, if it is not cumulatively acknowledged.
    pub(super) fn get(&self, tsn: Tsn) -> Option<&Slot> {
        self.slots.get(tsn.distance_from(self.base) as usize)
    }

    fn slot(&mut self, tsn: Tsn) -> &mut Slot {
        &mut self.slots[tsn.distance_from(self.base) as usize]
    }

    /// A new chunk leaves, which has `next_tsn`.
    pub(super) fn insert(&mut self, data: Data, terms: Terms, departure: Departure) -> &Data {
        debug_assert_eq!(data.tsn, self.next_tsn(), "TSNs are given in sequence");
        let bytes = data.encoded_len().next_multiple_of(4);
        self.retained_bytes += data.payload.len();
        self.flight_bytes += bytes;
        self.outstanding_bytes += bytes;
        self.prioritized += usize::from(terms.is_prioritized());
        self.slots.push_back(Slot {
            data,
            bytes,
            path: departure.path,
            before: Before::Never,
            doubled: false,
            credited: false,
            state: SlotState::InFlight,
            released: false,
            terms,
            missing: 0,
            fast_retransmitted: false,
            transmissions: 1,
            retransmissions: 0,
            sent_at: departure.now,
            packet_bytes: 0,
            order: departure.order,
        });
        &self.slots.back().expect("it was just pushed").data
    }

    /// The chunk that was inserted last does not leave yet: as if it were lost, once a SACK speaks of a later one.
    pub(super) fn pass_over(&mut self) {
        let tsn = self.next_tsn().minus(1);
        self.mark_unspoken(tsn);
        self.slot(tsn).transmissions = 0;
        self.passed_over = Some(tsn);
    }

    /// Whether a TSN has been passed over and has not left yet.
    pub(super) fn has_passed_over(&self) -> bool {
        self.passed_over.is_some()
    }

    /// Whether that one is acknowledged with these.
    fn is_a_lie(&self, cum_tsn_ack: Tsn, gaps: &[(u16, u16)]) -> bool {
        let Some(tsn) = self.passed_over else { return false };
        let offset = tsn.distance_from(cum_tsn_ack);
        let names = |gap: &(u16, u16)| (u32::from(gap.0)..=u32::from(gap.1)).contains(&offset);
        !tsn.after(cum_tsn_ack) || gaps.iter().any(names)
    }

    /// The lowest TSN to send again.
    pub(super) fn next_lost(&mut self) -> Option<Tsn> {
        while let Some(&tsn) = self.lost.front() {
            if !tsn.before(self.base) && self.slot(tsn).state == SlotState::Lost {
                return Some(tsn);
            }
            self.lost.pop_front();
        }
        None
    }

    /// What is lost, and by which path it left; by TSN.
    pub(super) fn lost(&self) -> impl Iterator<Item = (Tsn, PathId)> {
        let lost = self.lost.iter().filter(|tsn| !tsn.before(self.base));
        let slots = lost.filter_map(|tsn| self.get(*tsn));
        slots.filter(|slot| slot.state == SlotState::Lost).map(|slot| (slot.data.tsn, slot.path))
    }

    /// The lowest TSN to send again whose message is not to be sent any more.
    pub(super) fn next_over(&self, now: Time) -> Option<Tsn> {
        self.lost().map(|(tsn, _)| tsn).find(|tsn| self.get(*tsn).is_some_and(|slot| slot.is_over(now)))
    }

    /// The highest TSN that left by `path` and is not lost.
    pub(super) fn highest(&self, path: PathId) -> Option<Tsn> {
        let found = self.slots.iter().rev().find(|slot| slot.path == path && slot.state != SlotState::Lost);
        found.map(|slot| slot.data.tsn)
    }

    /// When the last of the chunks left that are in flight on `path`.
    pub(super) fn last_departure(&self, path: PathId) -> Time {
        let in_flight = |slot: &&Slot| slot.path == path && slot.state == SlotState::InFlight;
        self.slots.iter().filter(in_flight).map(|slot| slot.sent_at).max().unwrap_or_default()
    }

    /// The last chunk in flight on `path` that may be sent again.
    pub(super) fn last_in_flight(&self, path: PathId, now: Time) -> Option<Tsn> {
        let may_leave =
            |slot: &&Slot| slot.path == path && slot.state == SlotState::InFlight && !slot.is_over(now);
        Some(self.slots.iter().rev().find(may_leave)?.data.tsn)
    }

    /// A chunk leaves again. What it adds to the flight of its new path, and the path that it leaves, if it counted
    /// there until now.
    pub(super) fn retransmit(&mut self, tsn: Tsn, departure: Departure) -> (&mut Data, Option<PathId>) {
        let hint = &mut self.earliest_hint[usize::from(departure.path.0)];
        if tsn.before(*hint) {
            *hint = tsn;
        }
        let slot = &mut self.slots[tsn.distance_from(self.base) as usize];
        debug_assert!(slot.is_outstanding(), "what arrived or is given up is not sent again");
        let was_in_flight = slot.state == SlotState::InFlight;
        let moved_from = was_in_flight.then_some(slot.path);
        slot.doubled |= moved_from.is_some_and(|from| from != departure.path);
        if !was_in_flight {
            self.flight_bytes += slot.bytes;
        }
        slot.state = SlotState::InFlight;
        if slot.transmissions == 0 {
            self.passed_over = None;
        } else {
            slot.retransmissions += 1;
            if slot.path != departure.path || slot.before == Before::Homeless {
                slot.before = Before::Elsewhere;
            }
        }
        slot.path = departure.path;
        slot.transmissions += 1;
        slot.sent_at = departure.now;
        slot.order = departure.order;
        (&mut slot.data, moved_from)
    }

    /// The earliest outstanding TSN that left by `path`.
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

    /// The packet in which some chunks have left turned out to be this large.
    pub(super) fn set_packet(&mut self, tsns: &[Tsn], bytes: usize) {
        for tsn in tsns {
            self.slot(*tsn).packet_bytes = u16::try_from(bytes).unwrap_or(u16::MAX);
        }
    }

    /// Finds a chunk not in flight any more, whatever became of it; its bytes.
    pub(super) fn mark_unspoken(&mut self, tsn: Tsn) -> usize {
        let slot = self.slot(tsn);
        assert_eq!(slot.state, SlotState::InFlight, "of other chunks more is known");
        slot.state = SlotState::Unspoken;
        let bytes = slot.bytes;
        self.flight_bytes -= bytes;
        bytes
    }

    /// Finds a chunk lost that is in flight or unspoken of; its path, and its bytes.
    pub(super) fn mark_lost(&mut self, tsn: Tsn) -> (PathId, usize) {
        let slot = self.slot(tsn);
        let was_in_flight = slot.state == SlotState::InFlight;
        assert!(was_in_flight || slot.state == SlotState::Unspoken, "only what is under way can get lost");
        slot.state = SlotState::Lost;
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

    /// Finds all chunks in flight on `path` lost; their bytes.
    pub(super) fn mark_path_lost(&mut self, path: PathId) -> usize {
        let mut bytes = 0;
        self.lost.clear();
        for slot in &mut self.slots {
            if slot.path == path && matches!(slot.state, SlotState::InFlight | SlotState::Unspoken) {
                if slot.state == SlotState::InFlight {
                    bytes += slot.bytes;
                }
                slot.state = SlotState::Lost;
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

    /// What rode with a cookie that was stale: it rides with the next, over as many paths as there are then.
    pub(super) fn begun_again(mut self, paths: usize) -> Self {
        self.flight_bytes = 0;
        self.lost.clear();
        for slot in &mut self.slots {
            slot.state = SlotState::Lost;
            slot.path = PathId(0);
            self.lost.push_back(slot.data.tsn);
        }
        self.first_countable = self.base;
        self.earliest_hint = vec![self.base; paths];
        // Nothing is acknowledged before the association is up.
        self.named_bytes = vec![0; paths];
        self
    }

    /// There are so many paths.
    pub(super) fn grow(&mut self, paths: usize) {
        self.earliest_hint.resize(paths, self.base);
        self.named_bytes.resize(paths, 0);
    }

    /// A path is gone: what left by it and is not acknowledged is lost, as if it had left by `home`. The bytes that were in
    /// flight.
    pub(super) fn rehome(&mut self, from: PathId, home: PathId) -> usize {
        let bytes = self.mark_path_lost(from);
        for slot in self.slots.iter_mut().filter(|slot| slot.path == from) {
            slot.path = home;
            slot.before = Before::Homeless;
            if slot.transmissions == 0 {
                continue;
            }
            // An acknowledgement tells nothing of the path that it is charged to now.
            slot.transmissions += 1;
            slot.order = 0;
        }
        self.earliest_hint[usize::from(home.0)] = self.base;
        let named = std::mem::take(&mut self.named_bytes[usize::from(from.0)]);
        self.named_bytes[usize::from(home.0)] += named;
        bytes
    }

    /// A cumulative TSN, as SHUTDOWN brings it.
    //= specs/rfc9260.txt#section-3.3.8
    //# Since the SHUTDOWN chunk does not contain Gap Ack Blocks, the
    //# receiver of the SHUTDOWN chunk MUST NOT interpret the lack of a
    //# Gap Ack Block as a renege.
    pub(super) fn on_cum_tsn(&mut self, cum_tsn_ack: Tsn, report: &mut Report) -> Result<(), SackError> {
        self.check_cum(cum_tsn_ack)?;
        self.begin(report);
        self.advance(cum_tsn_ack, report);
        self.finish(report);
        Ok(())
    }

    /// A SACK. Either all of it is applied or nothing.
    pub(super) fn on_sack(
        &mut self,
        sack: &Sack,
        counting: Counting,
        report: &mut Report,
    ) -> Result<(), SackError> {
        self.check_cum(sack.cum_tsn_ack)?;
        let sent_beyond = self.next_tsn().minus(1).distance_from(sack.cum_tsn_ack);
        // Stacks have had bugs here: with a block that makes no sense none is believed, but what is said before them is.
        let sound = make_sense(&sack.gaps);
        for &(_, last) in sack.gaps.iter().filter(|_| sound) {
            //= specs/rfc9260.txt#section-12.4
            //# An SCTP implementation MUST abort the association if it receives a
            //# SACK chunk acknowledging a TSN that has not been sent.
            if u32::from(last) > sent_beyond {
                return Err(SackError::NeverSent);
            }
        }
        if sound && self.is_a_lie(sack.cum_tsn_ack, &sack.gaps) {
            return Err(SackError::NeverSent);
        }
        self.begin(report);
        self.advance(sack.cum_tsn_ack, report);
        if sound && (!sack.gaps.is_empty() || !self.acked.is_empty()) {
            let newest = self.apply_blocks(sack, report);
            let all = counting == Counting::InRecovery && report.cum_advanced;
            let limit = match counting {
                Counting::Off => None,
                Counting::InRecovery if all => self.blocks.last().map(|block| block.1),
                //= specs/rfc9260.txt#section-7.2.4
                //# Miss indications SHOULD follow the Highest TSN Newly Acknowledged
                //# (HTNA) algorithm.
                Counting::BelowNewest | Counting::InRecovery | Counting::Multipath { .. } => newest,
            };
            if let Some(limit) = limit {
                let by = if all { Overtaken::ByAny } else { Overtaken::ByItsPath };
                self.count_missing(limit, by, counting, report);
            }
        }
        if let (Some(tsn), Some(last)) = (self.passed_over, self.acked.last())
            && last.1.after(tsn)
            && self.slot(tsn).state == SlotState::Unspoken
        {
            self.mark_lost(tsn);
        }
        let full = self.may_be_full(sack.gaps.len());
        self.many_gaps = self.many_gaps.map(|most| most.max(sack.gaps.len()));
        if sound && full {
            let last = sack.gaps.iter().map(|gap| gap.1).max().expect("there are some");
            report.silent_beyond = Some(sack.cum_tsn_ack.plus(u32::from(last)));
        }
        self.finish(report);
        if self.slots.front().is_some_and(|slot| slot.released) {
            return Err(SackError::TakenBack);
        }
        Ok(())
    }

    /// Whether a SACK does not move the cumulative point and leaves out what an earlier one has named. Where SACKs come by
    /// several paths, it was overtaken by that one: nobody takes back what waits for the next in sequence.
    pub(super) fn is_behind(&mut self, sack: &Sack) -> bool {
        let moves = sack.cum_tsn_ack != self.cum_tsn_ack_point();
        if moves || self.acked.is_empty() || !make_sense(&sack.gaps) {
            return false;
        }
        read_blocks(sack.cum_tsn_ack, &sack.gaps, &mut self.blocks);
        let full = self.may_be_full(sack.gaps.len());
        let (acked, blocks) = (&self.acked, &self.blocks);
        let silent_beyond = blocks.last().filter(|_| full).map(|block| block.1);
        let mut at = 0;
        acked.iter().any(|&(first, last)| {
            let last = match silent_beyond {
                Some(highest) if first.after(highest) => return false,
                Some(highest) if last.after(highest) => highest,
                _ => last,
            };
            while blocks.get(at).is_some_and(|block| block.1.before(first)) {
                at += 1;
            }
            !blocks.get(at).is_some_and(|block| !block.0.after(first) && !block.1.before(last))
        })
    }

    //= specs/rfc3758.txt#section-3.5
    //# F4) The detection criterion for out-of-order SACKs MUST remain the
    //# same as stated in RFC 2960, that is, a SACK is only considered
    //# out-of-order if the Cumulative TSN ACK carried in the SACK is
    //# earlier than that of the previous received SACK (i.e., the
    //# comparison MUST NOT be made against "Advanced.Peer.Ack.Point").
    fn check_cum(&self, cum_tsn_ack: Tsn) -> Result<(), SackError> {
        //= specs/rfc9260.txt#section-6.2.1
        //# i)    If Cumulative TSN Ack is less than the Cumulative TSN Ack
        //# Point, then drop the SACK chunk.
        if cum_tsn_ack.before(self.cum_tsn_ack_point()) {
            return Err(SackError::Outdated);
        }
        // One that is still under way from before TSNs began anew, as long as it can be told from a new one.
        if let Some(last) = self.before_restart
            && last.distance_from(cum_tsn_ack) < u32::from(u16::MAX)
            && self.base.distance_from(last) < RESTART_MEMORY
        {
            return Err(SackError::Outdated);
        }
        if !cum_tsn_ack.before(self.next_tsn()) || self.is_a_lie(cum_tsn_ack, &[]) {
            return Err(SackError::NeverSent);
        }
        Ok(())
    }

    fn begin(&mut self, report: &mut Report) {
        let paths = self.earliest_hint.len();
        report.cum_advanced = false;
        report.silent_beyond = None;
        report.paths.clear();
        report.paths.resize(paths, PathReport::default());
        report.earliest.clear();
        for path in 0..paths {
            let earliest = self.earliest(PathId(path as u8));
            report.earliest.push(earliest);
        }
    }

    fn finish(&mut self, report: &mut Report) {
        for (path, earliest) in report.paths.iter_mut().zip(&report.earliest) {
            path.earliest_acked =
                earliest.is_some_and(|tsn| tsn.before(self.base) || self.slot(tsn).state == SlotState::Acked);
        }
    }

    /// Removes all up to `cum_tsn_ack`.
    fn advance(&mut self, cum_tsn_ack: Tsn, report: &mut Report) {
        let count = cum_tsn_ack.next().distance_from(self.base);
        if count == 0 {
            return;
        }
        report.cum_advanced = true;
        //= specs/rfc9260.txt#section-6.7
        //# Upon the reception of a SACK chunk, the endpoint MUST remove all DATA
        //# chunks that have been acknowledged by the SACK chunk's Cumulative TSN
        //# Ack from its transmit queue.
        for slot in self.slots.drain(..count as usize) {
            self.retained_bytes -= slot.data.payload.len();
            self.prioritized -= usize::from(slot.terms.is_prioritized());
            match slot.state {
                SlotState::Acked => {
                    self.named_bytes[usize::from(slot.path.0)] -= slot.bytes;
                    continue;
                }
                SlotState::Abandoned => continue,
                SlotState::InFlight => self.flight_bytes -= slot.bytes,
                SlotState::Unspoken | SlotState::Lost => {}
            }
            self.outstanding_bytes -= slot.bytes;
            note_arrival(&slot, false, report);
        }
        self.base = cum_tsn_ack.next();
        //= specs/rfc3758.txt#section-3.5
        //# If (Advanced.Peer.Ack.Point < SackCumAck), then update
        //# Advanced.Peer.Ack.Point to be equal to SackCumAck.
        self.forward = self.forward.saturating_sub(count as usize);
        self.advance_forward();
        if self.first_countable.before(self.base) {
            self.first_countable = self.base;
        }
        let gone = self.acked.partition_point(|run| !run.1.after(cum_tsn_ack));
        self.acked.drain(..gone);
        if let Some(first) = self.acked.first_mut().filter(|first| first.0.before(self.base)) {
            first.0 = self.base;
        }
    }

    /// Compares the SACK's blocks with those known; the highest TSN newly acknowledged by them.
    fn apply_blocks(&mut self, sack: &Sack, report: &mut Report) -> Option<Tsn> {
        read_blocks(sack.cum_tsn_ack, &sack.gaps, &mut self.blocks);
        let mut newest = None;
        // What is in the new blocks and not in the old ones has arrived.
        let mut known = 0;
        for index in 0..self.blocks.len() {
            let (mut at, last) = self.blocks[index];
            while !at.after(last) {
                while self.acked.get(known).is_some_and(|run| run.1.before(at)) {
                    known += 1;
                }
                let (until, next) = match self.acked.get(known) {
                    Some(run) if !run.0.after(at) => {
                        at = run.1.next();
                        continue;
                    }
                    Some(run) if !run.0.after(last) => (run.0.minus(1), run.1.next()),
                    _ => (last, last.next()),
                };
                while !at.after(until) {
                    self.ack(at, report);
                    newest = Some(at);
                    at = at.next();
                }
                at = next;
            }
        }
        // What is in the old blocks and not in the new ones was taken back, if the SACK can know: it is below its last
        // block, or next in sequence. Above, a peer that lists only so many blocks merely says nothing.
        if let Some(&(_, highest)) = self.blocks.last() {
            let mut said = 0;
            for index in 0..self.acked.len() {
                let (mut at, last) = self.acked[index];
                let last = if last.after(highest) { highest } else { last };
                while !at.after(last) {
                    while self.blocks[said].1.before(at) {
                        said += 1;
                    }
                    if !self.blocks[said].0.after(at) {
                        at = self.blocks[said].1.next();
                    } else {
                        self.renege(at, report);
                        at = at.next();
                    }
                }
            }
            for index in 0..self.acked.len() {
                let (first, last) = self.acked[index];
                if last.after(highest) {
                    let first = if first.after(highest) { first } else { highest.next() };
                    match self.blocks.last_mut() {
                        Some(block) if block.1.next() == first => block.1 = last,
                        _ => self.blocks.push((first, last)),
                    }
                }
            }
            std::mem::swap(&mut self.acked, &mut self.blocks);
            // `blocks` still ends where the SACK's last block ended, for the counting of miss indications.
            self.blocks.clear();
            self.blocks.push((highest, highest));
        }
        if let Some(&(first, last)) = self.acked.first().filter(|run| run.0 == self.base) {
            let mut at = first;
            while !at.after(last) {
                self.renege(at, report);
                at = at.next();
            }
            self.acked.remove(0);
        }
        newest
    }

    /// The peer will not drop what these blocks name: it need not be kept here, as far as it is acknowledged. Blocks that
    /// make no sense name nothing.
    pub(super) fn release(&mut self, cum_tsn_ack: Tsn, blocks: &[(u16, u16)]) {
        let sound = blocks.iter().all(|&(first, last)| first != 0 && first <= last);
        if !sound || (blocks.is_empty() && self.released.is_empty()) {
            return;
        }
        let mut runs = Vec::with_capacity(blocks.len());
        read_blocks(cum_tsn_ack, blocks, &mut runs);
        let mut known = 0;
        for &(first, last) in &runs {
            let mut at = first;
            while !at.after(last) {
                while self.released.get(known).is_some_and(|run| run.1.before(at)) {
                    known += 1;
                }
                match self.released.get(known) {
                    Some(run) if !run.0.after(at) => at = run.1.next(),
                    _ => {
                        // Beyond what was sent there are none, if others of the SACK made no sense.
                        let Some(slot) = self.slots.get_mut(at.distance_from(self.base) as usize) else {
                            return self.released.clear();
                        };
                        if slot.state == SlotState::Acked {
                            slot.released = true;
                            self.retained_bytes -= slot.data.payload.len();
                            slot.data.payload = Default::default();
                        }
                        at = at.next();
                    }
                }
            }
        }
        self.released = runs;
    }

    fn ack(&mut self, tsn: Tsn, report: &mut Report) {
        let index = tsn.distance_from(self.base) as usize;
        let slot = &mut self.slots[index];
        if matches!(slot.state, SlotState::Acked | SlotState::Abandoned) {
            return;
        }
        self.outstanding_bytes -= slot.bytes;
        if slot.state == SlotState::InFlight {
            self.flight_bytes -= slot.bytes;
        }
        note_arrival(slot, true, report);
        slot.credited = true;
        slot.state = SlotState::Acked;
        self.named_bytes[usize::from(slot.path.0)] += slot.bytes;
        let newest = &mut report.paths[usize::from(slot.path.0)].newest_tsn;
        if newest.is_none_or(|newest| tsn.after(newest)) {
            *newest = Some(tsn);
        }
    }

    /// The peer dropped what it had acknowledged in a gap block (RFC 9260 §6.2.1 D iii).
    fn renege(&mut self, tsn: Tsn, report: &mut Report) {
        let slot = &mut self.slots[tsn.distance_from(self.base) as usize];
        if slot.state == SlotState::Abandoned || slot.released {
            return;
        }
        self.named_bytes[usize::from(slot.path.0)] -= slot.bytes;
        // It can no longer be told which transmission a later acknowledgement answers.
        slot.transmissions += 1;
        slot.missing = slot.missing.max(1);
        slot.fast_retransmitted = false;
        self.outstanding_bytes += slot.bytes;
        let hint = &mut self.earliest_hint[usize::from(slot.path.0)];
        if tsn.before(*hint) {
            *hint = tsn;
        }
        //= specs/rfc9260.txt#section-6.2.1
        //# If the SACK chunk is missing a TSN that was previously
        //# acknowledged via a Gap Ack Block (e.g., the data receiver
        //# reneged on the data), then consider the corresponding DATA
        //# that might be possibly missing: Count one miss indication
        //# towards Fast Retransmit as described in Section 7.2.4, and
        //# if no retransmit timer is running for the destination
        //# address to which the DATA chunk was originally transmitted,
        //# then T3-rtx is started for that destination address.
        // Where that address is gone nothing can be under way, nor a timer run for it: it is to be sent again.
        if slot.before == Before::Homeless {
            slot.state = SlotState::Unspoken;
            self.mark_lost(tsn);
            return;
        }
        slot.state = SlotState::InFlight;
        self.flight_bytes += slot.bytes;
        report.paths[usize::from(slot.path.0)].reneged_bytes += slot.bytes;
        if tsn.before(self.first_countable) {
            self.first_countable = tsn;
        }
    }

    /// What must hold at any time. Gives what is in flight, by path.
    pub(super) fn check(&self, paths: usize) -> Vec<usize> {
        let mut by_path = vec![0; paths];
        let (mut outstanding, mut retained, mut lost) = (0, 0, 0);
        for (index, slot) in self.slots.iter().enumerate() {
            debug_assert_eq!(slot.data.tsn, self.base.plus(index as u32));
            match slot.state {
                SlotState::InFlight => by_path[usize::from(slot.path.0)] += slot.bytes,
                SlotState::Lost => lost += 1,
                SlotState::Acked | SlotState::Unspoken | SlotState::Abandoned => {}
            }
            outstanding += if slot.is_outstanding() { slot.bytes } else { 0 };
            retained += slot.data.payload.len();
        }
        let mut named = vec![0; self.named_bytes.len()];
        for slot in self.slots.iter().filter(|slot| slot.state == SlotState::Acked) {
            named[usize::from(slot.path.0)] += slot.bytes;
        }
        assert_eq!(named, self.named_bytes);
        let abandoned = |slot: &&Slot| slot.state == SlotState::Abandoned;
        assert_eq!(
            self.slots.iter().take_while(abandoned).count(),
            self.forward,
            "the point is as far as it can be"
        );
        let prioritized = self.slots.iter().filter(|slot| slot.terms.is_prioritized()).count();
        assert_eq!(prioritized, self.prioritized);
        let counted = (by_path.iter().sum(), outstanding, retained);
        assert_eq!(counted, (self.flight_bytes, self.outstanding_bytes, self.retained_bytes));
        assert!(lost <= self.lost.len(), "{lost} chunks are lost, {} are to be sent again", self.lost.len());
        assert!(self.acked.iter().all(|run| !run.0.before(self.base) && run.1.before(self.next_tsn())));
        by_path
    }

    /// How many chunks are kept.
    pub(super) fn count(&self) -> usize {
        self.slots.len()
    }
}

impl Slot {
    /// Whether the peer is not known to have it, and it is not given up.
    fn is_outstanding(&self) -> bool {
        !matches!(self.state, SlotState::Acked | SlotState::Abandoned)
    }

    /// Whether it is not to be sent again, by what its message was sent on.
    pub(super) fn is_over(&self, now: Time) -> bool {
        match self.terms.policy {
            Policy::Until(end) => end <= now,
            Policy::Retransmissions(max) => self.retransmissions >= max,
            Policy::Full | Policy::Lifetime(_) | Policy::Priority(_) => false,
        }
    }
}

fn note_arrival(slot: &Slot, by_gap: bool, report: &mut Report) {
    let path = &mut report.paths[usize::from(slot.path.0)];
    if !slot.credited {
        path.acked_bytes += slot.bytes;
    }
    if path.lowest_tsn.is_none_or(|lowest| slot.data.tsn.before(lowest)) {
        path.lowest_tsn = Some(slot.data.tsn);
    }
    path.proven |= slot.before == Before::Never;
    path.largest_packet = path.largest_packet.max(slot.packet_bytes);
    if slot.state == SlotState::InFlight {
        path.landed_bytes += slot.bytes;
    }
    if slot.doubled {
        return;
    }
    let Slot { order, sent_at, transmissions, packet_bytes, .. } = *slot;
    let tsn = slot.data.tsn;
    let arrival = Arrival { tsn, order, sent_at, transmissions, packet_bytes, by_gap };
    if path.newest.is_none_or(|newest| newest.order <= slot.order) {
        path.newest = Some(arrival);
    }
    if slot.transmissions == 1 && path.measurable.is_none_or(|newest| newest.order <= slot.order) {
        path.measurable = Some(arrival);
    }
}

#[cfg(test)]
#[path = "tests/sent.rs"]
mod tests;
