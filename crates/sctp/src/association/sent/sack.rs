//! Processing of SACKs against the outstanding chunks (RFC 9260 §6.2.1, §6.7).
//!
//! The cost of a SACK is proportional to the chunks that it newly acknowledges and the blocks it lists, not
//! to the window: blocks are compared with the known ones, and only the difference is visited. The effect
//! on paths is handled elsewhere.

use braidftp_base::Time;

use super::blocks::{are_valid_blocks, read_blocks};
use super::missing::{Counting, Overtaken};
use super::{Before, RESTART_MEMORY, Sent, Slot, SlotState};
use crate::ids::{PathId, Tsn};
use crate::wire::Sack;

/// A SACK with this many gap blocks may be incomplete: some peers never list more, whatever room there is.
const BLOCKS_COMPLETE: usize = 16;

/// Why a SACK was not applied, not even in part.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) enum SackError {
    /// It is older than a previous one.
    Outdated,
    /// It acknowledges a TSN that was never sent, cumulatively or in a gap block.
    NeverSent,
    /// The next TSN in sequence is missing although an NR-SACK guaranteed it.
    TakenBack,
}

/// The new information in a SACK.
#[derive(Debug, Default)]
pub(in crate::association) struct Report {
    pub(in crate::association) cum_advanced: bool,
    /// The last TSN that the SACK reports on; `None`: all.
    pub(in crate::association) reported_up_to: Option<Tsn>,
    /// By path.
    pub(in crate::association) paths: Vec<PathReport>,
    /// Before the SACK: the earliest outstanding TSN of each path.
    pub(in crate::association) earliest: Vec<Option<Tsn>>,
}

/// The new information about one path.
#[derive(Debug, Default, Clone)]
pub(in crate::association) struct PathReport {
    /// Bytes newly acknowledged.
    pub(in crate::association) acked_bytes: usize,
    /// Those acknowledged by gap blocks.
    pub(in crate::association) gap_bytes: usize,
    /// Those that a gap block acknowledges again after an overtaken SACK revoked them; only with CMT's
    /// rules, otherwise they are not counted as new.
    pub(in crate::association) regained_bytes: usize,
    /// Those that were in flight on this path only, and so arrived on it.
    pub(in crate::association) carried_bytes: usize,
    /// Whether a chunk sent only on this path was acknowledged, which proves that the path works.
    pub(in crate::association) proves_path: bool,
    /// Bytes no longer in flight, acknowledged or lost.
    pub(in crate::association) left_flight_bytes: usize,
    /// Bytes in flight again after reneging.
    pub(in crate::association) reneged_bytes: usize,
    /// Whether TSNs were marked lost.
    pub(in crate::association) lost: bool,
    /// The highest lost TSN, the bytes lost, and when the last of them was sent.
    pub(in crate::association) highest_lost: Option<Tsn>,
    pub(in crate::association) lost_bytes: usize,
    pub(in crate::association) lost_sent_at: Time,
    /// The lowest newly acknowledged TSN.
    pub(in crate::association) lowest_tsn: Option<Tsn>,
    /// With concurrent multipath transfer: whether the path's pseudo-cumack advanced.
    pub(in crate::association) point_advanced: bool,
    /// The highest TSN newly acknowledged by gap blocks.
    pub(in crate::association) newest_tsn: Option<Tsn>,
    /// Whether the earliest outstanding TSN was acknowledged.
    pub(in crate::association) earliest_acked: bool,
    /// The size of the largest packet with a newly acknowledged chunk.
    pub(in crate::association) largest_packet: u16,
    /// The most recently sent chunk among those newly acknowledged.
    pub(in crate::association) newest: Option<Arrival>,
    /// The same among those sent only once, which give an RTT sample (RFC 9260 §6.3.1 C5).
    pub(in crate::association) measurable: Option<Arrival>,
    /// The one of those that was sent first.
    pub(in crate::association) oldest: Option<Arrival>,
    /// Whether a chunk arrived that counted as lost, otherwise than by T3-rtx, and was not retransmitted yet.
    pub(in crate::association) lost_arrived: bool,
}

/// An acknowledged chunk.
#[derive(Debug, Clone, Copy)]
pub(in crate::association) struct Arrival {
    pub(in crate::association) tsn: Tsn,
    pub(in crate::association) order: u64,
    pub(in crate::association) sent_at: Time,
    pub(in crate::association) transmissions: u32,
    /// The size of its packet.
    pub(in crate::association) packet_bytes: u16,
    pub(in crate::association) acked_by: AckedBy,
}

/// How a chunk was acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) enum AckedBy {
    /// By the cumulative TSN: it may have arrived long before, and became visible with the arrival of a
    /// lower one.
    CumTsn,
    /// By a gap block.
    GapBlock,
}

impl Sent {
    /// A cumulative TSN only, from SHUTDOWN.
    //= specs/rfc9260.txt#section-3.3.8
    //# Since the SHUTDOWN chunk does not contain Gap Ack Blocks, the
    //# receiver of the SHUTDOWN chunk MUST NOT interpret the lack of a
    //# Gap Ack Block as a renege.
    pub(in crate::association) fn on_cum_tsn(
        &mut self,
        cum_tsn_ack: Tsn,
        report: &mut Report,
    ) -> Result<(), SackError> {
        self.check_cum(cum_tsn_ack)?;
        self.begin(report);
        self.advance(cum_tsn_ack, Counting::Off, report);
        self.finish(report);
        Ok(())
    }

    /// Applies a SACK completely, or not at all.
    pub(in crate::association) fn on_sack(
        &mut self,
        sack: &Sack,
        counting: Counting,
        report: &mut Report,
    ) -> Result<(), SackError> {
        self.check_cum(sack.cum_tsn_ack)?;
        let sent_beyond = self.next_tsn().minus(1).distance_from(sack.cum_tsn_ack);
        // A source of bugs in other stacks: an invalid block invalidates all blocks, but not the fields
        // before them.
        let sound = are_valid_blocks(&sack.gaps);
        for &(_, last) in sack.gaps.iter().filter(|_| sound) {
            //= specs/rfc9260.txt#section-12.4
            //# An SCTP implementation MUST abort the association if it receives a
            //# SACK chunk acknowledging a TSN that has not been sent.
            if u32::from(last) > sent_beyond {
                return Err(SackError::NeverSent);
            }
        }
        if sound && self.acknowledges_skipped(sack.cum_tsn_ack, &sack.gaps) {
            return Err(SackError::NeverSent);
        }
        self.begin(report);
        self.advance(sack.cum_tsn_ack, counting, report);
        if sound && (!sack.gaps.is_empty() || !self.acked.is_empty()) {
            let newest = self.apply_blocks(sack, counting, report);
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
        if let (Some(tsn), Some(last)) = (self.skipped_tsn, self.acked.last())
            && last.1.after(tsn)
            && self.slot(tsn).state == SlotState::Unreported
        {
            self.mark_lost(tsn);
        }
        let full = self.may_be_full(sack.gaps.len());
        self.many_gaps = self.many_gaps.map(|most| most.max(sack.gaps.len()));
        if sound && full {
            let last = sack.gaps.iter().map(|gap| gap.1).max().expect("there are some");
            report.reported_up_to = Some(sack.cum_tsn_ack.plus(u32::from(last)));
        }
        self.finish(report);
        if self.slots.front().is_some_and(|slot| slot.released) {
            return Err(SackError::TakenBack);
        }
        Ok(())
    }

    /// Whether a SACK does not advance the cumulative TSN and omits chunks that an earlier one
    /// acknowledged. With SACKs on several paths it was overtaken by that one: a receiver does not renege
    /// on what waits for the next chunk in sequence.
    pub(in crate::association) fn is_behind(&mut self, sack: &Sack) -> bool {
        let moves = sack.cum_tsn_ack != self.cum_tsn_ack_point();
        if moves || self.acked.is_empty() || !are_valid_blocks(&sack.gaps) {
            return false;
        }
        read_blocks(sack.cum_tsn_ack, &sack.gaps, &mut self.blocks);
        let full = self.may_be_full(sack.gaps.len());
        let (acked, blocks) = (&self.acked, &self.blocks);
        let reported_up_to = blocks.last().filter(|_| full).map(|block| block.1);
        let mut at = 0;
        acked.iter().any(|&(first, last)| {
            let last = match reported_up_to {
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

    /// Whether a SACK with this many blocks may be incomplete.
    fn may_be_full(&self, blocks: usize) -> bool {
        blocks >= BLOCKS_COMPLETE && self.many_gaps.is_none_or(|most| blocks >= most)
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
        // An overtaken SACK from before a TSN reset, as long as that can be distinguished.
        if let Some(last) = self.before_restart
            && last.distance_from(cum_tsn_ack) < u32::from(u16::MAX)
            && self.base.distance_from(last) < RESTART_MEMORY
        {
            return Err(SackError::Outdated);
        }
        if !cum_tsn_ack.before(self.next_tsn()) || self.acknowledges_skipped(cum_tsn_ack, &[]) {
            return Err(SackError::NeverSent);
        }
        Ok(())
    }

    /// Whether this one is acknowledged as well.
    fn acknowledges_skipped(&self, cum_tsn_ack: Tsn, gaps: &[(u16, u16)]) -> bool {
        let Some(tsn) = self.skipped_tsn else { return false };
        let offset = tsn.distance_from(cum_tsn_ack);
        let names = |gap: &(u16, u16)| (u32::from(gap.0)..=u32::from(gap.1)).contains(&offset);
        !tsn.after(cum_tsn_ack) || gaps.iter().any(names)
    }

    fn begin(&mut self, report: &mut Report) {
        let paths = self.earliest_hint.len();
        report.cum_advanced = false;
        report.reported_up_to = None;
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

    /// Removes all chunks up to `cum_tsn_ack`.
    fn advance(&mut self, cum_tsn_ack: Tsn, counting: Counting, report: &mut Report) {
        let count = cum_tsn_ack.next().distance_from(self.base);
        if count == 0 {
            return;
        }
        report.cum_advanced = true;
        //= specs/rfc9260.txt#section-6.7
        //# Upon the reception of a SACK chunk, the endpoint MUST remove all DATA
        //# chunks that have been acknowledged by the SACK chunk's Cumulative TSN
        //# Ack from its transmit queue.
        for mut slot in self.slots.drain(..count as usize) {
            self.retained_bytes -= slot.data.payload.len();
            self.prioritized -= usize::from(slot.terms.is_prioritized());
            match slot.state {
                SlotState::Acked => {
                    self.gap_acked_bytes[usize::from(slot.path.0)] -= slot.bytes;
                    continue;
                }
                SlotState::Abandoned => continue,
                SlotState::InFlight => self.flight_bytes -= slot.bytes,
                SlotState::Unreported | SlotState::Lost => {}
            }
            self.outstanding_bytes -= slot.bytes;
            // With CMT's rules, chunks revoked by an overtaken SACK are newly acknowledged again.
            slot.credited &= !matches!(counting, Counting::Multipath { .. });
            note_arrival(&slot, AckedBy::CumTsn, report);
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

    /// Compares the SACK's blocks with the known ones; returns the highest TSN newly acknowledged by them.
    fn apply_blocks(&mut self, sack: &Sack, counting: Counting, report: &mut Report) -> Option<Tsn> {
        read_blocks(sack.cum_tsn_ack, &sack.gaps, &mut self.blocks);
        let mut newest = None;
        // TSNs in the new blocks and not in the old ones have arrived.
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
                    self.ack(at, counting, report);
                    newest = Some(at);
                    at = at.next();
                }
                at = next;
            }
        }
        // TSNs in the old blocks and not in the new ones were revoked if the SACK reports on them: below
        // its last block, or next in sequence. Above, a peer with a limited number of blocks merely omits
        // them. With CMT's rules, where SACKs overtake each other, a SACK with room for more reports on all
        // TSNs.
        let highest = self.blocks.last().map(|block| block.1);
        let beyond = |run: &(Tsn, Tsn)| highest.is_none_or(|highest| run.1.after(highest));
        let knows_up_to = match (counting, self.acked.last()) {
            (Counting::Multipath { .. }, Some(run)) if beyond(run) && !self.may_be_full(sack.gaps.len()) => {
                Some(run.1)
            }
            _ => highest,
        };
        if let Some(limit) = knows_up_to {
            let mut said = 0;
            for index in 0..self.acked.len() {
                let (mut at, last) = self.acked[index];
                let last = if last.after(limit) { limit } else { last };
                while !at.after(last) {
                    while self.blocks.get(said).is_some_and(|block| block.1.before(at)) {
                        said += 1;
                    }
                    match self.blocks.get(said) {
                        Some(block) if !block.0.after(at) => at = block.1.next(),
                        _ => {
                            self.renege(at, report);
                            at = at.next();
                        }
                    }
                }
            }
            for index in 0..self.acked.len() {
                let (first, last) = self.acked[index];
                if last.after(limit) {
                    let first = if first.after(limit) { first } else { limit.next() };
                    match self.blocks.last_mut() {
                        Some(block) if block.1.next() == first => block.1 = last,
                        _ => self.blocks.push((first, last)),
                    }
                }
            }
            std::mem::swap(&mut self.acked, &mut self.blocks);
            // `blocks` still ends with the SACK's last block, for counting miss indications.
            self.blocks.clear();
            self.blocks.extend(highest.map(|highest| (highest, highest)));
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

    fn ack(&mut self, tsn: Tsn, counting: Counting, report: &mut Report) {
        let index = tsn.distance_from(self.base) as usize;
        let slot = &mut self.slots[index];
        if matches!(slot.state, SlotState::Acked | SlotState::Abandoned) {
            return;
        }
        self.outstanding_bytes -= slot.bytes;
        if slot.state == SlotState::InFlight {
            self.flight_bytes -= slot.bytes;
        }
        note_arrival(slot, AckedBy::GapBlock, report);
        if slot.credited && matches!(counting, Counting::Multipath { .. }) {
            let path = &mut report.paths[usize::from(slot.path.0)];
            path.acked_bytes += slot.bytes;
            path.regained_bytes += slot.bytes;
        }
        slot.credited = true;
        slot.state = SlotState::Acked;
        self.gap_acked_bytes[usize::from(slot.path.0)] += slot.bytes;
        let newest = &mut report.paths[usize::from(slot.path.0)].newest_tsn;
        if newest.is_none_or(|newest| tsn.after(newest)) {
            *newest = Some(tsn);
        }
    }

    /// The peer reneged on a chunk that it had acknowledged in a gap block (RFC 9260 §6.2.1 D iii).
    fn renege(&mut self, tsn: Tsn, report: &mut Report) {
        let slot = &mut self.slots[tsn.distance_from(self.base) as usize];
        if slot.state == SlotState::Abandoned || slot.released {
            return;
        }
        self.gap_acked_bytes[usize::from(slot.path.0)] -= slot.bytes;
        // A later acknowledgement is ambiguous.
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
        // If its path was removed, nothing can be in flight and no timer runs there: it must be
        // retransmitted.
        if slot.before == Before::PathsRemoved {
            slot.state = SlotState::Unreported;
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

    /// The peer will not renege on these blocks: acknowledged chunks in them need not be kept. Invalid
    /// blocks are ignored.
    pub(in crate::association) fn release(&mut self, cum_tsn_ack: Tsn, blocks: &[(u16, u16)]) {
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
                        // If other parts of the SACK are invalid, the blocks may exceed what was sent.
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
}

fn note_arrival(slot: &Slot, acked_by: AckedBy, report: &mut Report) {
    let path = &mut report.paths[usize::from(slot.path.0)];
    if !slot.credited {
        path.acked_bytes += slot.bytes;
        path.gap_bytes += if acked_by == AckedBy::GapBlock { slot.bytes } else { 0 };
        path.carried_bytes += if slot.doubled { 0 } else { slot.bytes };
    }
    if path.lowest_tsn.is_none_or(|lowest| slot.data.tsn.before(lowest)) {
        path.lowest_tsn = Some(slot.data.tsn);
    }
    path.proves_path |= slot.before == Before::Never;
    path.largest_packet = path.largest_packet.max(slot.packet_bytes);
    if slot.state == SlotState::InFlight {
        path.left_flight_bytes += slot.bytes;
    }
    if slot.doubled {
        return;
    }
    let Slot { order, sent_at, transmissions, packet_bytes, .. } = *slot;
    let tsn = slot.data.tsn;
    let arrival = Arrival { tsn, order, sent_at, transmissions, packet_bytes, acked_by };
    if path.newest.is_none_or(|newest| newest.order <= slot.order) {
        path.newest = Some(arrival);
    }
    if slot.transmissions != 1 {
        return;
    }
    if path.measurable.is_none_or(|newest| newest.order <= slot.order) {
        path.measurable = Some(arrival);
    }
    // Unreported chunks may have arrived long ago.
    if slot.state != SlotState::Unreported && path.oldest.is_none_or(|oldest| oldest.order > slot.order) {
        path.oldest = Some(arrival);
    }
    path.lost_arrived |= slot.state == SlotState::Lost && !slot.timed_out;
}
