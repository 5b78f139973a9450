//! Which TSNs have arrived, and when to send a SACK (RFC 9260 §6.2, §6.7).
//!
//! This module tracks TSNs only; `reassembly` holds the chunks.

use std::collections::VecDeque;

use crate::association::sent::RESTART_MEMORY;
use crate::ids::{PathId, Tsn};
use crate::wire::{CompactSack, Sack};

/// The maximum distance of a TSN from `cum_tsn_ack`: what a gap block can express (RFC 9260 §3.3.4).
pub(super) const SPAN_MAX: u32 = 65_535;
/// The maximum number of runs of TSNs beyond a gap; a chunk that would begin another one is dropped.
pub(super) const RUNS_MAX: usize = 8_192;
/// The maximum number of duplicates that a SACK reports (RFC 9260 §6.2; they are only a hint).
const DUPLICATES_MAX: usize = 64;

/// The classification of a TSN.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Seen {
    /// New, and may be accepted.
    New,
    /// A duplicate.
    Duplicate,
    /// Too far ahead, or the beginning of one run too many.
    OutOfBounds,
}

/// When to send a SACK.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Due {
    No,
    /// With the next packet sent, or when the delay expires.
    Soon,
    Now,
}

/// The TSNs that have arrived.
#[derive(Debug)]
pub(super) struct Received {
    /// The cumulative TSN.
    cum_tsn: Tsn,
    /// Runs beyond the first gap: first and last TSN, ascending, never adjacent.
    //= specs/rfc9260.txt#section-3.3.4
    //# The Gap Ack Blocks SHOULD be isolated.
    runs: VecDeque<(Tsn, Tsn)>,
    duplicates: Vec<Tsn>,
    due: Due,
    /// Packets with DATA since the last SACK.
    packets_unanswered: u32,
    /// The same by path, if packets of each path are acknowledged separately: delaying a SACK for a packet
    /// of another path would distort the RTT.
    by_path: Option<Vec<u32>>,
    /// Whether any DATA has arrived.
    data_came: bool,
    packet: PacketSeen,
    /// Whether TSNs were reset and none of the new ones has arrived or been skipped: the peer may not yet
    /// know what a SACK refers to.
    silent: bool,
    /// After a TSN reset: the last TSN before it.
    before_restart: Option<Tsn>,
    sack_policy: SackPolicy,
}

/// Which packets are acknowledged immediately.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct SackPolicy {
    /// Whether a packet that fills the last gap is acknowledged immediately.
    pub(super) sack_when_filled: bool,
    /// Whether SACKs are delayed in spite of gaps, and carry the number of packets they acknowledge
    /// (delayed ACK for CMT).
    pub(super) delay_with_gaps: bool,
}

impl Default for SackPolicy {
    /// RFC 9260 §6.7: immediately while there is a gap, and when it is filled.
    fn default() -> Self {
        Self { sack_when_filled: true, delay_with_gaps: false }
    }
}

/// What the packet being processed contained so far.
#[derive(Debug, Default, Clone, Copy)]
struct PacketSeen {
    data: bool,
    received_on: PathId,
    immediately: bool,
}

impl Received {
    /// Nothing has arrived; the peer's first TSN is `initial_tsn`.
    pub(super) fn new(initial_tsn: Tsn) -> Self {
        Self {
            cum_tsn: initial_tsn.minus(1),
            runs: VecDeque::new(),
            duplicates: Vec::new(),
            due: Due::No,
            packets_unanswered: 0,
            by_path: None,
            data_came: false,
            packet: PacketSeen::default(),
            silent: false,
            before_restart: None,
            sack_policy: SackPolicy::default(),
        }
    }

    /// Sets which packets are acknowledged immediately.
    pub(super) fn with_sack_policy(mut self, sack_policy: SackPolicy) -> Self {
        self.sack_policy = sack_policy;
        self
    }

    /// Sets the packet counts by path, if packets are counted by path.
    pub(super) fn with_paths_counted(mut self, counts: Option<Vec<u32>>) -> Self {
        self.by_path = counts;
        self
    }

    /// Whether packets are counted by path.
    pub(super) fn counts_by_path(&self) -> bool {
        self.by_path.is_some()
    }

    /// The peer continues with `next_tsn`, whatever is missing (RFC 6525 §5.2.4 G4).
    pub(super) fn restart(&mut self, next_tsn: Tsn) {
        let renumbered = next_tsn != self.cum_tsn.next();
        let before_restart = Some(self.cum_tsn);
        let fresh =
            Self::new(next_tsn).with_sack_policy(self.sack_policy).with_paths_counted(self.by_path.take());
        *self = Self { data_came: self.data_came, silent: renumbered, before_restart, ..fresh };
    }

    /// Whether this TSN precedes a TSN reset, as long as that can be distinguished.
    pub(super) fn is_from_before_restart(&self, tsn: Tsn) -> bool {
        self.before_restart.is_some_and(|last| {
            last.distance_from(tsn) <= SPAN_MAX && self.cum_tsn.distance_from(last) < RESTART_MEMORY
        })
    }

    /// The cumulative TSN.
    pub(super) fn cum_tsn(&self) -> Tsn {
        self.cum_tsn
    }

    /// The memory of runs of TSNs in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.runs.capacity() * size_of::<(Tsn, Tsn)>()
    }

    /// Frees unused memory.
    pub(super) fn trim(&mut self) {
        self.runs.shrink_to_fit();
        self.duplicates.shrink_to_fit();
    }

    /// Checks the invariants.
    pub(super) fn check(&self) {
        let mut last = self.cum_tsn;
        for run in &self.runs {
            assert!(run.0.after(last.next()) && !run.1.before(run.0), "runs are ascending and not adjacent");
            last = run.1;
        }
        assert!(self.runs.len() <= RUNS_MAX && last.distance_from(self.cum_tsn) <= SPAN_MAX);
        assert!(self.duplicates.len() <= DUPLICATES_MAX);
    }

    /// Whether a TSN below one that arrived is missing.
    pub(super) fn has_gap(&self) -> bool {
        !self.runs.is_empty()
    }

    /// Classifies `tsn` without recording it; see `accept`.
    pub(super) fn classify(&self, tsn: Tsn) -> Seen {
        let ahead = tsn.distance_from(self.cum_tsn);
        if !tsn.after(self.cum_tsn) {
            return Seen::Duplicate;
        }
        if ahead == 1 {
            return Seen::New;
        }
        if ahead > SPAN_MAX {
            return Seen::OutOfBounds;
        }
        let at = self.run_after(ahead);
        if at > 0 && self.runs[at - 1].1.distance_from(self.cum_tsn) >= ahead {
            return Seen::Duplicate;
        }
        let joins_left = at > 0 && self.runs[at - 1].1.next() == tsn;
        let joins_right = self.runs.get(at).is_some_and(|run| run.0 == tsn.next());
        if self.runs.len() >= RUNS_MAX && !joins_left && !joins_right {
            return Seen::OutOfBounds;
        }
        Seen::New
    }

    /// The index of the first run that begins more than `ahead` TSNs beyond `cum_tsn`.
    fn run_after(&self, ahead: u32) -> usize {
        // Most arrivals extend the last run or begin one after it.
        if self.runs.back().is_none_or(|run| run.0.distance_from(self.cum_tsn) <= ahead) {
            return self.runs.len();
        }
        self.runs.partition_point(|run| run.0.distance_from(self.cum_tsn) <= ahead)
    }

    /// Records a TSN that `classify` classified as new.
    //= specs/rfc9260.txt#section-6.2
    //# The data receiver SHOULD take into account that the data sender will
    //# not retransmit DATA chunks that are acked via the Cumulative TSN Ack
    //# (i.e., will drop from its retransmit queue).
    //= specs/rfc9260.txt#section-6.2
    //# An endpoint SHOULD NOT revoke a SACK chunk and discard data.
    //= specs/rfc9260.txt#section-6.2
    //# The data receiver SHOULD take into account that dropping data that has
    //# been acked in Gap Ack Blocks can result in suboptimal retransmission
    //# strategies in the data sender and thus in suboptimal performance.
    pub(super) fn accept(&mut self, tsn: Tsn) {
        self.silent = false;
        let gap_before = self.has_gap();
        if tsn == self.cum_tsn.next() {
            self.cum_tsn = tsn;
            if self.runs.front().is_some_and(|run| run.0 == tsn.next()) {
                self.cum_tsn = self.runs.pop_front().expect("just checked").1;
            }
        } else {
            let at = self.run_after(tsn.distance_from(self.cum_tsn));
            let joins_left = at > 0 && self.runs[at - 1].1.next() == tsn;
            let joins_right = self.runs.get(at).is_some_and(|run| run.0 == tsn.next());
            match (joins_left, joins_right) {
                (true, true) => {
                    self.runs[at - 1].1 = self.runs[at].1;
                    self.runs.remove(at);
                }
                (true, false) => self.runs[at - 1].1 = tsn,
                (false, true) => self.runs[at].0 = tsn,
                (false, false) => self.runs.insert(at, (tsn, tsn)),
            }
        }
        self.packet.data = true;
        //= specs/rfc9260.txt#section-6.7
        //# If the endpoint detects a gap in
        //# the received DATA chunk sequence, it SHOULD send a SACK chunk with
        //# Gap Ack Blocks immediately.
        //= specs/rfc9260.txt#section-7.2.4
        //# However, whenever an endpoint notices a hole in the arriving TSN
        //# sequence, it SHOULD start sending a SACK chunk back every time a
        //# packet arrives carrying data until the hole is filled.
        let gap = (gap_before && self.sack_policy.sack_when_filled) || self.has_gap();
        self.packet.immediately |= gap && !self.sack_policy.delay_with_gaps;
    }

    /// Whether duplicates arrived since the last SACK.
    pub(super) fn has_duplicates(&self) -> bool {
        !self.duplicates.is_empty()
    }

    /// Records a TSN that `classify` classified as a duplicate.
    pub(super) fn duplicate(&mut self, tsn: Tsn) {
        if self.duplicates.len() < DUPLICATES_MAX {
            self.duplicates.push(tsn);
        }
        //= specs/rfc9260.txt#section-6.2
        //# When a packet arrives with duplicate DATA chunk(s) and with no new
        //# DATA chunk(s), the endpoint MUST immediately send a SACK chunk with
        //# no delay.
        self.packet.data = true;
        self.packet.immediately = true;
    }

    /// The peer abandoned the missing TSNs up to this one (RFC 3758 §3.6). Returns whether that was new.
    pub(super) fn forward(&mut self, new_cum_tsn: Tsn) -> bool {
        //= specs/rfc3758.txt#section-3.6
        //# Any time a FORWARD TSN chunk arrives, for the purposes of sending a
        //# SACK, the receiver MUST follow the same rules as if a DATA chunk had
        //# been received (i.e., follow the delayed sack rules specified in RFC
        //# 2960 [2] section 6.2).
        self.packet.data = true;
        //= specs/rfc3758.txt#section-3.6
        //# Note, if the "New Cumulative TSN" value carried in the arrived
        //# FORWARD TSN chunk is found to be behind or at the current cumulative
        //# TSN point, the data receiver MUST treat this FORWARD TSN as out-of-
        //# date and MUST NOT update its Cumulative TSN.  The receiver SHOULD
        //# send a SACK to its peer (the sender of the FORWARD TSN) since such a
        //# duplicate may indicate the previous SACK was lost in the network.
        if !new_cum_tsn.after(self.cum_tsn) {
            self.packet.immediately = true;
            return false;
        }
        let gap_before = self.has_gap();
        // It is beyond the first new TSN: the peer knows about the reset.
        self.silent = false;
        //= specs/rfc3758.txt#section-3.6
        //# When a FORWARD TSN chunk arrives, the data receiver MUST first update
        //# its cumulative TSN point to the value carried in the FORWARD TSN
        //# chunk, and then MUST further advance its cumulative TSN point locally
        //# if possible, as shown by the following example:
        //= specs/rfc3758.txt#section-3.2
        //# Upon
        //# the reception of this value, the data receiver MUST consider
        //# any missing TSNs earlier than or equal to this value as received,
        //# and stop reporting them as gaps in any subsequent SACKs.
        //= specs/rfc3758.txt#section-3.6
        //# After the above processing, the data receiver MUST stop reporting any
        //# missing TSNs earlier than or equal to the new cumulative TSN point.
        self.cum_tsn = new_cum_tsn;
        while let Some(&(first, last)) = self.runs.front() {
            if first.after(self.cum_tsn.next()) {
                break;
            }
            if last.after(self.cum_tsn) {
                self.cum_tsn = last;
            }
            self.runs.pop_front();
        }
        self.packet.immediately |= gap_before || self.has_gap();
        true
    }

    /// The packet being processed arrived on this path.
    pub(super) fn received_on(&mut self, path: PathId) {
        self.packet.received_on = path;
    }

    /// A SACK must be sent after the packet being processed: a chunk was dropped, or has the I bit.
    pub(super) fn sack_immediately(&mut self) {
        self.packet.immediately = true;
    }

    /// Whether any DATA has arrived.
    pub(super) fn has_received_data(&self) -> bool {
        self.data_came
    }

    /// Acknowledges the packet being processed as if it contained DATA.
    pub(super) fn acknowledge_again(&mut self) {
        self.packet.data = true;
    }

    /// The packet is processed. Returns whether the delay of a SACK begins now.
    //= specs/rfc9260.txt#section-6.2
    //# The guidelines on the delayed acknowledgement algorithm specified in
    //# Section 4.2 of [RFC5681] SHOULD be followed.
    //= specs/rfc9260.txt#section-6.2
    //# However, an SCTP transmitter MUST NOT be more aggressive in sending
    //# SACK chunks than the following algorithms allow.
    //= specs/rfc9260.txt#section-6.2
    //# An SCTP receiver MUST NOT generate more than one SACK chunk for every
    //# incoming packet, other than to update the offered window as the
    //# receiving application consumes new data.
    pub(super) fn on_packet_end(&mut self, sack_frequency: u32) -> bool {
        let packet = std::mem::take(&mut self.packet);
        if packet.data {
            self.packets_unanswered += 1;
        }
        //= specs/rfc9260.txt#section-5.1
        //# After the reception of the first DATA chunk in an association, the
        //# endpoint MUST immediately respond with a SACK chunk to acknowledge
        //# the DATA chunk.
        //= specs/rfc9260.txt#section-5.1
        //# Subsequent acknowledgements SHOULD be done as described in Section
        //# 6.2.
        let first = packet.data && !self.data_came && !self.sack_policy.delay_with_gaps;
        self.data_came |= packet.data;
        //= specs/rfc9260.txt#section-6.2
        //# Specifically, an
        //# acknowledgement SHOULD be generated for at least every second packet
        //# (not every second DATA chunk) received
        //= specs/rfc9260.txt#section-5.1.5
        //# Immediately acknowledge any DATA chunk bundled with the COOKIE ECHO
        //# chunk with a SACK chunk (subsequent DATA chunk acknowledgement SHOULD
        //# follow the rules defined in Section 6.2).
        let unanswered = match &mut self.by_path {
            Some(counts) if packet.data => {
                let at = usize::from(packet.received_on.0);
                if counts.len() <= at {
                    counts.resize(at + 1, 0);
                }
                counts[at] += 1;
                if counts[at] >= sack_frequency.max(1) { std::mem::take(&mut counts[at]) } else { 0 }
            }
            Some(_) => 0,
            None => self.packets_unanswered,
        };
        if first || packet.immediately || unanswered >= sack_frequency.max(1) {
            self.due = Due::Now;
            return false;
        }
        if packet.data && self.due == Due::No {
            self.due = Due::Soon;
            return true;
        }
        false
    }

    /// The delay expired, or the window must be advertised immediately.
    pub(super) fn sack_now(&mut self) {
        // The SACK acknowledges everything, on whatever path it arrived.
        self.by_path.iter_mut().flatten().for_each(|count| *count = 0);
        self.due = Due::Now;
    }

    /// Whether a SACK must be sent at once.
    pub(super) fn sack_is_due(&self) -> bool {
        self.due == Due::Now && !self.silent
    }

    /// Whether a SACK may be bundled with DATA.
    pub(super) fn may_bundle_sack(&self) -> bool {
        self.due != Due::No && !self.silent
    }

    /// Returns up to this many gap blocks, from the lowest on.
    fn gaps(&self, most: usize) -> Vec<(u16, u16)> {
        let offset = |tsn: Tsn| {
            u16::try_from(tsn.distance_from(self.cum_tsn)).expect("no run reaches beyond SPAN_MAX")
        };
        self.runs.iter().take(most).map(|run| (offset(run.0), offset(run.1))).collect()
    }

    /// Whether a SACK of `room` bytes has room for all gap blocks.
    pub(super) fn fits_a_sack(&self, room: usize) -> bool {
        self.runs.len() <= Sack::blocks_in(room)
    }

    /// Returns the COMPACT-SACK that fits in `room` bytes; pending reports count as sent.
    //= specs/compact-sack.md#section-4
    //# If this chunk has no room for all blocks either, it MUST contain the lowest ones and have the C bit (0x01)
    //# set, which means that it reports nothing beyond the last one.
    pub(super) fn take_compact_sack(&mut self, a_rwnd: u32, room: usize) -> CompactSack {
        let room = room - room % 4;
        let mut gaps = self.gaps(RUNS_MAX);
        let fit = CompactSack::blocks_in(&gaps, room);
        let is_cut = fit < gaps.len();
        gaps.truncate(fit);
        let mut sack = CompactSack { is_cut, cum_tsn_ack: self.cum_tsn, a_rwnd, gaps, dups: Vec::new() };
        self.duplicates.truncate(room.saturating_sub(sack.encoded_len()) / 4);
        sack.dups = std::mem::take(&mut self.duplicates);
        self.due = Due::No;
        self.packets_unanswered = 0;
        sack
    }

    /// Returns the SACK that fits in `room` bytes; pending reports count as sent.
    pub(super) fn take_sack(&mut self, a_rwnd: u32, room: usize) -> Sack {
        let fit = Sack::blocks_in(room);
        //= specs/rfc9260.txt#section-6.2
        //# The SCTP endpoint MUST report as many
        //# Gap Ack Blocks as can fit in a single SACK chunk such that the size
        //# of the SCTP packet does not exceed the current PMTU.
        //= specs/rfc9260.txt#section-6.7
        //# This single SACK chunk MUST report the Gap Ack Blocks from the lowest
        //# to highest TSNs, within the size limit set by the PMTU, and leave the
        //# remaining highest TSN numbers unacknowledged.
        let gaps = self.gaps(fit);
        //= specs/rfc9260.txt#section-6.7
        //# When a single SACK chunk cannot cover all the Gap Ack Blocks needed to
        //# be reported due to the PMTU limitation, the endpoint MUST send only
        //# one SACK chunk.
        self.duplicates.truncate(fit - gaps.len());
        //= specs/rfc9260.txt#section-6.2
        //# In particular, the SCTP endpoint MUST fill in the
        //# Cumulative TSN Ack field to indicate the latest sequential TSN (of a
        //# valid DATA chunk) it has received.
        //= specs/rfc9260.txt#section-6.2
        //# The duplicate TSN number(s) SHOULD be reported in the SACK chunk as
        //# duplicate.
        let dups = std::mem::take(&mut self.duplicates);
        self.due = Due::No;
        let packets = std::mem::take(&mut self.packets_unanswered);
        let flags =
            if self.sack_policy.delay_with_gaps { u8::try_from(packets).unwrap_or(u8::MAX) } else { 0 };
        Sack { flags, cum_tsn_ack: self.cum_tsn, a_rwnd, gaps, dups }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;

    const FREQUENCY: u32 = 2;

    fn received(tsns: &[u32]) -> Received {
        let mut received = Received::new(Tsn(1));
        for &tsn in tsns {
            assert_eq!(received.classify(Tsn(tsn)), Seen::New, "{tsn}");
            received.accept(Tsn(tsn));
        }
        received
    }

    fn gaps(received: &mut Received) -> Vec<(u16, u16)> {
        received.take_sack(0, 1_000).gaps
    }

    #[test]
    fn tsns_in_order_move_the_cumulative_one() {
        let mut received = received(&[1, 2, 3]);
        assert_eq!(received.cum_tsn(), Tsn(3));
        assert_eq!(gaps(&mut received), []);
    }

    #[test]
    fn tsns_beyond_a_gap_become_blocks_and_filling_it_joins_them() {
        //= specs/rfc9260.txt#section-3.3.4
        //= type=test
        //# The Gap Ack Blocks SHOULD be isolated.
        let mut received = received(&[1, 4, 3, 7]);
        assert_eq!(gaps(&mut received), [(2, 3), (6, 6)]);
        received.accept(Tsn(5));
        assert_eq!(gaps(&mut received), [(2, 4), (6, 6)]);
        received.accept(Tsn(6));
        assert_eq!(gaps(&mut received), [(2, 6)]);
        received.accept(Tsn(2));
        assert_eq!((received.cum_tsn(), received.has_gap()), (Tsn(7), false));
    }

    #[test]
    fn the_example_of_section_3_3_4() {
        //= specs/rfc9260.txt#section-3.3.4
        //= type=test
        //# Then, the parameter part of the SACK chunk MUST be constructed as
        //# follows (assuming the new a_rwnd is set to 4660 by the sender):
        let mut received = Received::new(Tsn(10));
        for tsn in [10, 11, 12, 14, 15, 17] {
            received.accept(Tsn(tsn));
        }
        let sack =
            Sack { flags: 0, cum_tsn_ack: Tsn(12), a_rwnd: 4_660, gaps: vec![(2, 3), (5, 5)], dups: vec![] };
        assert_eq!(received.take_sack(4_660, 1_000), sack);
    }

    #[test]
    fn every_received_tsn_is_a_duplicate_when_repeated() {
        let received = received(&[1, 2, 5, 6, 9]);
        for tsn in [0, 1, 2, 5, 6, 9] {
            assert_eq!(received.classify(Tsn(tsn)), Seen::Duplicate, "{tsn}");
        }
        for tsn in [3, 4, 7, 8, 10] {
            assert_eq!(received.classify(Tsn(tsn)), Seen::New, "{tsn}");
        }
    }

    #[test]
    fn a_tsn_beyond_the_range_of_gap_blocks_is_out_of_bounds() {
        let received = received(&[]);
        assert_eq!(received.classify(Tsn(SPAN_MAX)), Seen::New);
        assert_eq!(received.classify(Tsn(SPAN_MAX + 1)), Seen::OutOfBounds);
    }

    #[test]
    fn one_run_too_many_is_out_of_bounds_but_runs_may_still_grow() {
        let tsns: Vec<_> = (0..RUNS_MAX as u32).map(|n| 3 + 2 * n).collect();
        let received = received(&tsns);
        let beyond = 3 + 2 * RUNS_MAX as u32;
        assert_eq!(received.classify(Tsn(beyond)), Seen::OutOfBounds);
        assert_eq!(received.classify(Tsn(beyond - 1)), Seen::New);
    }

    #[test]
    fn the_largest_block_ends_at_65535() {
        //= specs/rfc9260.txt#section-6.2
        //= type=test
        //# The SCTP endpoint MUST report as many Gap Ack Blocks as can fit in a
        //# single SACK chunk such that the size of the SCTP packet does not
        //# exceed the current PMTU.
        //= specs/rfc9260.txt#section-6.7
        //= type=test
        //# When a single SACK chunk cannot cover all the Gap Ack Blocks needed to
        //# be reported due to the PMTU limitation, the endpoint MUST send only
        //# one SACK chunk.
        //= specs/rfc9260.txt#section-6.7
        //= type=test
        //# This single SACK chunk MUST report the Gap Ack Blocks from the lowest
        //# to highest TSNs, within the size limit set by the PMTU, and leave the
        //# remaining highest TSN numbers unacknowledged.
        let mut wide = received(&[SPAN_MAX]);
        assert_eq!(gaps(&mut wide), [(65_535, 65_535)]);
        let mut many = received(&[3, 5, 7, 9]);
        many.duplicate(Tsn(3));
        let sack = many.take_sack(9, Sack::HEADER_LEN + 3 * Sack::BLOCK_LEN);
        assert_eq!((sack.gaps, sack.dups), (vec![(3, 3), (5, 5), (7, 7)], vec![]));
    }

    #[test]
    fn every_second_packet_is_answered_at_once_and_a_single_one_after_the_delay() {
        let mut received = received(&[1]);
        assert!(!received.on_packet_end(FREQUENCY));
        assert!(received.sack_is_due(), "the first of all is answered at once (RFC 9260 §5.1)");
        received.take_sack(0, 100);
        received.accept(Tsn(2));
        assert!(received.on_packet_end(FREQUENCY), "the delay begins");
        assert!(!received.sack_is_due() && received.may_bundle_sack());
        received.accept(Tsn(3));
        assert!(!received.on_packet_end(FREQUENCY));
        assert!(received.sack_is_due());
        received.take_sack(0, 100);
        assert!(!received.may_bundle_sack());
    }

    #[test]
    fn with_several_paths_every_second_packet_of_each_is_acknowledged_and_the_delay_covers_all() {
        let sack_policy = SackPolicy { delay_with_gaps: true, ..SackPolicy::default() };
        let mut received =
            Received::new(Tsn(1)).with_sack_policy(sack_policy).with_paths_counted(Some(Vec::new()));
        let is_answered = |received: &mut Received, tsn, path| {
            received.received_on(PathId(path));
            received.accept(Tsn(tsn));
            received.on_packet_end(FREQUENCY);
            let due = received.sack_is_due();
            if due {
                received.take_sack(0, 100);
            }
            due
        };
        for (tsn, path, answered) in [(1, 0, false), (2, 1, false), (3, 0, true), (4, 1, true), (5, 0, false)]
        {
            assert_eq!(is_answered(&mut received, tsn, path), answered, "{tsn}");
        }
        received.sack_now();
        received.take_sack(0, 100);
        assert!(!is_answered(&mut received, 6, 0), "the one before has its answer");
        assert!(is_answered(&mut received, 7, 0));
    }

    #[test]
    fn a_gap_a_duplicate_and_the_i_bit_are_answered_at_once() {
        //= specs/rfc8260.txt#section-2.1
        //= type=test
        //# I bit: 1 bit The (I)mmediate Bit, if set, indicates that the receiver
        //# SHOULD NOT delay the sending of the corresponding SACK chunk.
        //= specs/rfc9260.txt#section-7.2.4
        //= type=test
        //# However, whenever an endpoint notices a hole in the arriving TSN
        //# sequence, it SHOULD start sending a SACK chunk back every time a
        //# packet arrives carrying data until the hole is filled.
        let mut received = received(&[1, 3]);
        received.on_packet_end(FREQUENCY);
        assert!(received.sack_is_due(), "a gap");
        received.take_sack(0, 100);
        received.accept(Tsn(2));
        received.on_packet_end(FREQUENCY);
        assert!(received.sack_is_due(), "the gap is filled");
        received.take_sack(0, 100);
        received.duplicate(Tsn(2));
        received.on_packet_end(FREQUENCY);
        assert!(received.sack_is_due(), "a duplicate");
        assert_eq!(received.take_sack(0, 100).dups, [Tsn(2)]);
        received.accept(Tsn(4));
        received.sack_immediately();
        received.on_packet_end(FREQUENCY);
        assert!(received.sack_is_due(), "the I bit");
    }

    //= specs/rfc3758.txt#section-3.6
    //= type=test
    //# When a FORWARD TSN chunk arrives, the data receiver MUST first update
    //# its cumulative TSN point to the value carried in the FORWARD TSN
    //# chunk, and then MUST further advance its cumulative TSN point locally
    //# if possible, as shown by the following example:
    //= specs/rfc3758.txt#section-3.6
    //= type=test
    //# After the above processing, the data receiver MUST stop reporting any
    //# missing TSNs earlier than or equal to the new cumulative TSN point.
    //= specs/rfc3758.txt#section-3.2
    //= type=test
    //# Upon
    //# the reception of this value, the data receiver MUST consider
    //# any missing TSNs earlier than or equal to this value as received,
    //# and stop reporting them as gaps in any subsequent SACKs.
    #[test]
    fn abandoned_chunks_count_as_received() {
        // The example of the specification, with TSNs 100 lower.
        let mut received = received(&[1, 2, 4, 5, 7]);
        assert!(received.forward(Tsn(3)));
        assert_eq!(received.cum_tsn(), Tsn(5));
        assert_eq!(gaps(&mut received), [(2, 2)]);
        // A skipped TSN that arrives nevertheless is a duplicate.
        assert_eq!(received.classify(Tsn(3)), Seen::Duplicate);
        // Into a run, and far beyond all.
        assert!(received.forward(Tsn(7)));
        assert_eq!((received.cum_tsn(), received.has_gap()), (Tsn(7), false));
        received.accept(Tsn(10));
        assert!(received.forward(Tsn(9_000)));
        assert_eq!((received.cum_tsn(), received.has_gap()), (Tsn(9_000), false));
    }

    //= specs/rfc3758.txt#section-3.6
    //= type=test
    //# Any time a FORWARD TSN chunk arrives, for the purposes of sending a
    //# SACK, the receiver MUST follow the same rules as if a DATA chunk had
    //# been received (i.e., follow the delayed sack rules specified in RFC
    //# 2960 [2] section 6.2).
    //= specs/rfc3758.txt#section-3.6
    //= type=test
    //# Note, if the "New Cumulative TSN" value carried in the arrived
    //# FORWARD TSN chunk is found to be behind or at the current cumulative
    //# TSN point, the data receiver MUST treat this FORWARD TSN as out-of-
    //# date and MUST NOT update its Cumulative TSN.  The receiver SHOULD
    //# send a SACK to its peer (the sender of the FORWARD TSN) since such a
    //# duplicate may indicate the previous SACK was lost in the network.
    #[test]
    fn forward_tsn_is_answered_like_data() {
        let mut received = received(&[1]);
        received.on_packet_end(FREQUENCY);
        received.take_sack(0, 100);
        assert!(received.forward(Tsn(2)));
        assert!(received.on_packet_end(FREQUENCY), "the delay begins");
        assert!(!received.sack_is_due() && received.may_bundle_sack());
        received.take_sack(0, 100);
        for old in [2, 1, 0, u32::MAX] {
            assert!(!received.forward(Tsn(old)));
            received.on_packet_end(FREQUENCY);
            assert!(received.sack_is_due());
            assert_eq!(received.take_sack(0, 100).cum_tsn_ack, Tsn(2), "{old}");
        }
    }

    //= specs/compact-sack.md#section-4
    //= type=test
    //# If this chunk has no room for all blocks either, it MUST contain the lowest ones and have the C bit (0x01)
    //# set, which means that it reports nothing beyond the last one.
    #[test]
    fn a_compact_sack_has_the_lowest_blocks_and_says_when_there_were_more() {
        let every_second: Vec<u32> = (1..=60).map(|nth| 2 * nth).collect();
        let mut received = received(&every_second);
        received.duplicate(Tsn(4));
        // 60 blocks of two bits each are 15 bytes.
        let whole = received.take_compact_sack(9, 36);
        assert_eq!((whole.is_cut, whole.gaps.len(), &whole.dups[..]), (false, 60, &[Tsn(4)][..]));
        assert!(!received.sack_is_due());
        received.duplicate(Tsn(4));
        let cut = received.take_compact_sack(9, 31);
        assert_eq!((cut.is_cut, cut.gaps.len(), cut.dups.len()), (true, 48, 0), "padding must fit as well");
        assert_eq!(cut.gaps[..], whole.gaps[..48]);
        assert!(!received.fits_a_sack(16 + 4 * 59) && received.fits_a_sack(16 + 4 * 60));
    }

    #[test]
    fn duplicates_are_remembered_up_to_a_limit() {
        let mut received = received(&[1]);
        for _ in 0..2 * DUPLICATES_MAX {
            received.duplicate(Tsn(1));
        }
        assert_eq!(received.take_sack(0, 10_000).dups.len(), DUPLICATES_MAX);
    }

    proptest! {
        #[test]
        fn gap_blocks_report_exactly_the_received_tsns(
            start in prop::sample::select(vec![1, 0, u32::MAX - 20]),
            order in prop::collection::vec(0u32..60, 0..200),
        ) {
            let mut received = Received::new(Tsn(start));
            let mut model = BTreeSet::new();
            for ahead in order {
                let tsn = Tsn(start).plus(ahead);
                let expected = if model.insert(ahead) { Seen::New } else { Seen::Duplicate };
                prop_assert_eq!(received.classify(tsn), expected);
                if expected == Seen::New {
                    received.accept(tsn);
                }
            }
            let cum = (0..).find(|ahead| !model.contains(ahead)).unwrap();
            prop_assert_eq!(received.cum_tsn(), Tsn(start).plus(cum).minus(1));
            let path_report: BTreeSet<u32> = received
                .take_sack(0, 1_000)
                .gaps
                .iter()
                .flat_map(|&(first, last)| u32::from(first)..=u32::from(last))
                .map(|offset| cum + offset - 1)
                .collect();
            let beyond: BTreeSet<u32> = model.into_iter().filter(|ahead| *ahead > cum).collect();
            prop_assert_eq!(path_report, beyond);
        }
    }
}
