//! The effect of valid and invalid SACKs on outstanding chunks.

use proptest::prelude::*;

use super::*;
use crate::wire::Sack;

const PATH: PathId = PathId(0);
/// Header and four bytes of payload.
const BYTES: usize = 20;

struct Bench {
    sent: Sent,
    report: Report,
    order: u64,
}

impl Bench {
    fn sending(first: u32, count: usize) -> Self {
        let mut bench = Self { sent: Sent::new(Tsn(first), 2), report: Report::default(), order: 0 };
        bench.send(count, PATH);
        bench
    }

    fn transmission(&mut self, path: PathId) -> Transmission {
        self.order += 1;
        Transmission { path, now: Time::from_millis(self.order), order: self.order }
    }

    fn send(&mut self, count: usize, path: PathId) {
        for _ in 0..count {
            let transmission = self.transmission(path);
            let tsn = self.sent.next_tsn();
            self.sent.insert(Data::whole(tsn, b"1234"), 20, Terms::default(), transmission);
        }
    }

    fn sack(&mut self, cum: u32, gaps: &[(u16, u16)]) -> Result<(), SackError> {
        self.sack_counting(cum, gaps, Counting::BelowNewest)
    }

    fn sack_counting(&mut self, cum: u32, gaps: &[(u16, u16)], counting: Counting) -> Result<(), SackError> {
        let sack = Sack { flags: 0, cum_tsn_ack: Tsn(cum), a_rwnd: 0, gaps: gaps.to_vec(), dups: vec![] };
        let result = self.sent.on_sack(&sack, counting, &mut self.report);
        self.sent.check(2);
        result
    }

    /// Acknowledged bytes, as chunks.
    fn acked(&self) -> usize {
        self.report.paths[0].acked_bytes / BYTES
    }

    fn resend(&mut self) -> Vec<u32> {
        let mut resent = Vec::new();
        while let Some(tsn) = self.sent.next_lost() {
            let transmission = self.transmission(PATH);
            self.sent.retransmit(tsn, transmission);
            resent.push(tsn.0);
        }
        resent
    }
}

#[test]
fn a_skipped_tsn_is_sent_once_a_later_one_is_acknowledged_and_an_earlier_ack_is_a_violation() {
    let skipped_tsn = || {
        let mut bench = Bench::sending(1, 2);
        bench.sent.skip_tsn();
        bench.sent.check(2);
        bench.send(3, PATH);
        bench
    };
    for (cum, gaps) in [(2, &[][..]), (5, &[]), (1, &[(1, 1)]), (0, &[(1, 3)]), (0, &[(1, 1), (2, 2)])] {
        assert_eq!(skipped_tsn().sack(cum, gaps), Err(SackError::NeverSent), "{cum} {gaps:?}");
    }
    let mut report = Report::default();
    assert_eq!(skipped_tsn().sent.on_cum_tsn(Tsn(3), &mut report), Err(SackError::NeverSent));
    let mut bench = skipped_tsn();
    assert_eq!(bench.sent.flight_bytes(), 4 * BYTES);
    bench.sack(1, &[]).unwrap();
    assert_eq!(bench.resend(), [] as [u32; 0], "nothing says yet that it is missed");
    bench.sack(1, &[(2, 2)]).unwrap();
    assert!(!bench.report.paths[0].lost);
    assert_eq!(bench.resend(), [2]);
    assert_eq!(bench.sent.get(Tsn(2)).unwrap().transmissions, 1, "its round trip can be measured");
    bench.sack(5, &[]).unwrap();
    assert!(bench.sent.is_empty());
}

#[test]
fn a_skipped_tsn_is_sent_after_a_time_out_and_until_then_its_ack_is_a_violation() {
    let mut bench = Bench::sending(1, 2);
    bench.sent.skip_tsn();
    bench.sent.mark_path_lost(PATH);
    assert_eq!(bench.sack(2, &[]), Err(SackError::NeverSent));
    assert_eq!(bench.resend(), [1, 2]);
    bench.sack(2, &[]).unwrap();
    assert!(!bench.sent.has_skipped_tsn());
}

#[test]
fn a_cumulative_ack_removes_and_counts_each_chunk_once() {
    //= specs/rfc9260.txt#section-6.7
    //= type=test
    //# Upon the reception of a SACK chunk, the endpoint MUST remove all DATA
    //# chunks that have been acknowledged by the SACK chunk's Cumulative TSN
    //# Ack from its transmit queue.
    let mut bench = Bench::sending(1, 5);
    bench.sack(3, &[]).unwrap();
    assert_eq!((bench.acked(), bench.report.cum_advanced), (3, true));
    assert_eq!((bench.sent.flight_bytes(), bench.sent.outstanding_bytes()), (2 * BYTES, 2 * BYTES));
    bench.sack(3, &[]).unwrap();
    assert_eq!((bench.acked(), bench.report.cum_advanced), (0, false));
}

#[test]
fn miss_indications_come_only_from_chunks_of_the_same_path() {
    let mut bench = Bench::sending(1, 3);
    bench.send(6, PathId(1));
    // The other path is faster: its TSNs say nothing about 1 to 3.
    for last in 4..=9 {
        bench.sack(0, &[(4, last)]).unwrap();
    }
    assert!(bench.resend().is_empty());
    bench.send(4, PATH);
    for last in 10..=12 {
        bench.sack(0, &[(4, last)]).unwrap();
    }
    assert_eq!(bench.resend(), [1, 2, 3]);
}

#[test]
fn a_gap_block_counts_only_its_new_tsns() {
    let mut bench = Bench::sending(1, 9);
    bench.sack(0, &[(2, 3)]).unwrap();
    assert_eq!(bench.acked(), 2);
    bench.sack(0, &[(2, 4), (6, 7)]).unwrap();
    assert_eq!(bench.acked(), 3);
    bench
        .sack(5, &[(1, 2)])
        .unwrap_or_else(|_| panic!("a block next to the cumulative TSN is odd, not wrong"));
    bench.sack(9, &[]).unwrap();
    assert!(bench.sent.is_empty());
    assert_eq!((bench.sent.flight_bytes(), bench.sent.charged_bytes()), (0, 0));
}

#[test]
fn a_shutdown_revokes_nothing() {
    //= specs/rfc9260.txt#section-3.3.8
    //= type=test
    //# Since the SHUTDOWN chunk does not contain Gap Ack Blocks, the receiver
    //# of the SHUTDOWN chunk MUST NOT interpret the lack of a Gap Ack Block
    //# as a renege.
    let mut bench = Bench::sending(1, 5);
    bench.sack(1, &[(2, 3)]).unwrap();
    assert_eq!(bench.sent.flight_bytes(), 2 * BYTES);
    bench.sent.on_cum_tsn(Tsn(1), &mut bench.report).unwrap();
    assert_eq!((bench.sent.flight_bytes(), bench.report.paths[0].reneged_bytes), (2 * BYTES, 0));
    bench.sent.on_cum_tsn(Tsn(2), &mut bench.report).unwrap();
    assert_eq!(bench.sent.flight_bytes(), BYTES);
}

#[test]
fn an_outdated_sack_changes_nothing() {
    let mut bench = Bench::sending(1, 5);
    bench.sack(3, &[]).unwrap();
    assert_eq!(bench.sack(2, &[(1, 3)]), Err(SackError::Outdated));
    assert_eq!(bench.sent.flight_bytes(), 2 * BYTES);
}

#[test]
fn a_sack_that_is_wrong_in_part_is_not_applied_in_part() {
    let mut bench = Bench::sending(1, 5);
    assert_eq!(bench.sack(6, &[]), Err(SackError::NeverSent));
    for gaps in [&[(2, 5)][..], &[(2, 2), (4, 65_535)]] {
        assert_eq!(bench.sack(1, gaps), Err(SackError::NeverSent), "{gaps:?}");
    }
    assert_eq!(bench.sent.flight_bytes(), 5 * BYTES);
}

#[test]
fn an_invalid_block_does_not_invalidate_the_fields_before_the_blocks() {
    for gaps in [&[(0, 0)][..], &[(0, 1)], &[(3, 2)], &[(2, 2), (4, 3)]] {
        let mut bench = Bench::sending(1, 6);
        bench.sack(0, &[(3, 4)]).unwrap();
        bench.sack(1, gaps).unwrap();
        assert_eq!((bench.acked(), bench.sent.flight_bytes()), (1, 3 * BYTES), "{gaps:?}");
    }
}

#[test]
fn sacks_are_read_across_the_wrap_of_tsns() {
    let mut bench = Bench::sending(u32::MAX - 3, 10);
    bench.sack(u32::MAX - 4, &[(3, 4), (7, 8)]).unwrap();
    assert_eq!(bench.acked(), 4);
    bench.sack(u32::MAX, &[(3, 4)]).unwrap();
    assert_eq!((bench.acked(), bench.sent.flight_bytes()), (2, 4 * BYTES));
    assert_eq!(bench.sack(u32::MAX - 1, &[]), Err(SackError::Outdated));
    bench.sack(5, &[]).unwrap();
    assert!(bench.sent.is_empty());
}

#[test]
fn a_full_window_is_acknowledged_chunk_by_chunk() {
    // rtc #106, #242: if each SACK walked over all outstanding chunks, this would take minutes.
    let mut bench = Bench::sending(1, OUTSTANDING_MAX);
    let mut sack = |cum: u32, gaps: Vec<(u16, u16)>| {
        let sack = Sack { flags: 0, cum_tsn_ack: Tsn(cum), a_rwnd: 0, gaps, dups: vec![] };
        bench.sent.on_sack(&sack, Counting::BelowNewest, &mut bench.report).unwrap();
        bench.sent.flight_bytes()
    };
    for last in 2..30_000 {
        sack(0, vec![(2, last)]);
    }
    for cum in 1..30_000 {
        sack(cum, vec![]);
    }
    assert_eq!(sack(OUTSTANDING_MAX as u32, vec![]), 0);
}

#[test]
fn a_block_that_ends_at_65535_ends() {
    let mut bench = Bench::sending(1, 10);
    assert_eq!(bench.sack(0, &[(2, 65_535)]), Err(SackError::NeverSent));
}

#[test]
fn blocks_out_of_order_and_overlapping_are_equivalent() {
    let mut bench = Bench::sending(1, 9);
    bench.sack(0, &[(6, 8), (2, 3), (3, 4), (6, 6)]).unwrap();
    assert_eq!(bench.acked(), 6);
    assert_eq!(bench.sent.flight_bytes(), 3 * BYTES);
}

#[test]
fn the_third_miss_indication_makes_a_chunk_lost_and_no_later_one_does_again() {
    //= specs/rfc9260.txt#section-6.7
    //= type=test
    //# The number of "missing" reports for each outstanding DATA chunk MUST
    //# be recorded by the data sender to make retransmission decisions.
    //= specs/rfc9260.txt#section-7.2.4
    //= type=test
    //# Whenever an endpoint receives a SACK chunk that indicates that some
    //# TSNs are missing, it SHOULD wait for two further miss indications (via
    //# subsequent SACK chunks for a total of three missing reports) on the
    //# same TSNs before taking action with regard to Fast Retransmit.
    //= specs/rfc9260.txt#section-7.2.4
    //= type=test
    //# 5)  Mark the DATA chunk(s) as being fast retransmitted and thus
    //# ineligible for a subsequent Fast Retransmit.
    let mut bench = Bench::sending(1, 9);
    for (last, lost) in [(2, false), (3, false), (4, true)] {
        bench.sack(0, &[(2, last)]).unwrap();
        assert_eq!(bench.report.paths[0].lost, lost);
    }
    assert_eq!(bench.resend(), [1]);
    for last in 5..=9 {
        bench.sack(0, &[(2, last)]).unwrap();
        assert!(!bench.report.paths[0].lost);
    }
}

#[test]
fn only_tsns_below_the_highest_newly_acknowledged_are_counted() {
    //= specs/rfc9260.txt#section-7.2.4
    //= type=test
    //# Miss indications SHOULD follow the Highest TSN Newly Acknowledged
    //# (HTNA) algorithm.
    //= specs/rfc9260.txt#section-6.7
    //= type=test
    //# All DATA chunks with TSNs not included in the Gap Ack Blocks that are
    //# smaller than the highest-acknowledged TSN reported in the SACK chunk
    //# MUST be treated as "missing" by the sending endpoint.
    let mut bench = Bench::sending(1, 9);
    bench.sack(0, &[(5, 9)]).unwrap();
    for last in [2, 3] {
        bench.sack(0, &[(2, last), (5, 9)]).unwrap();
    }
    // TSN 1 was below three newly acknowledged TSNs, TSN 4 below one.
    assert_eq!(bench.resend(), [1]);
}

#[test]
fn in_recovery_an_advance_counts_all_that_is_reported_missing() {
    let mut bench = Bench::sending(1, 9);
    bench.sack(0, &[(4, 4), (9, 9)]).unwrap();
    for cum in [1, 2] {
        let gaps = [4, 9].map(|tsn| (tsn - cum as u16, tsn - cum as u16));
        bench.sack_counting(cum, &gaps, Counting::InRecovery).unwrap();
    }
    assert!(bench.report.paths[0].lost);
    assert_eq!(bench.resend(), [3, 5, 6, 7, 8]);
}

#[test]
fn reneged_chunks_are_in_flight_again() {
    let mut bench = Bench::sending(1, 9);
    bench.sack(0, &[(3, 5), (8, 8)]).unwrap();
    bench.sack(0, &[(5, 5), (8, 8)]).unwrap();
    assert_eq!(bench.report.paths[0].reneged_bytes, 2 * BYTES);
    assert_eq!(bench.sent.flight_bytes(), 7 * BYTES);
    // A SACK that does not report 8 may just have too few blocks.
    bench.sack(0, &[(5, 5)]).unwrap();
    assert_eq!(bench.report.paths[0].reneged_bytes, 0);
    // But if 8 had arrived, the cumulative TSN would include it.
    bench.sack(7, &[]).unwrap();
    assert_eq!(bench.report.paths[0].reneged_bytes, BYTES);
    bench.sack(9, &[]).unwrap();
    assert_eq!(bench.sent.flight_bytes(), 0);
}

//= specs/rfc9260.txt#section-6.2.1
//= type=test
//# If the SACK chunk is missing a TSN that was previously
//# acknowledged via a Gap Ack Block (e.g., the data receiver
//# reneged on the data), then consider the corresponding DATA
//# that might be possibly missing: Count one miss indication
//# towards Fast Retransmit as described in Section 7.2.4, and
//# if no retransmit timer is running for the destination
//# address to which the DATA chunk was originally transmitted,
//# then T3-rtx is started for that destination address.
#[test]
fn reneged_chunks_of_a_removed_path_are_retransmitted() {
    let other = PathId(1);
    let mut bench = Bench::sending(1, 4);
    bench.sack(0, &[(2, 3)]).unwrap();
    assert_eq!(bench.sent.move_to_path(PATH, other), 2 * BYTES);
    // One of them is retransmitted on the remaining path, and belongs to it from then on.
    let transmission = bench.transmission(other);
    bench.sent.retransmit(Tsn(4), transmission);
    bench.sack(0, &[(2, 4)]).unwrap();
    bench.sack(0, &[(5, 5)]).unwrap_err();
    bench.send(1, other);
    bench.sack(0, &[(5, 5)]).unwrap();
    assert_eq!(bench.report.paths[1].reneged_bytes, BYTES);
    assert_eq!((bench.sent.flight_bytes(), bench.sent.outstanding_bytes()), (BYTES, 4 * BYTES));
    assert_eq!(bench.resend(), [1, 2, 3]);
}

#[test]
fn a_timeout_marks_all_chunks_of_its_path_lost_in_tsn_order() {
    let mut bench = Bench::sending(1, 4);
    bench.send(2, PathId(1));
    bench.sack(0, &[(3, 3)]).unwrap();
    assert_eq!(bench.sent.mark_path_lost(PATH), 3 * BYTES);
    assert_eq!(bench.sent.flight_bytes(), 2 * BYTES);
    assert_eq!(bench.resend(), [1, 2, 4]);
    assert_eq!(bench.sent.flight_bytes(), 5 * BYTES);
}

#[test]
fn a_chunk_counts_as_timed_out_from_t3_rtx_expiry_until_its_retransmission() {
    let mut bench = Bench::sending(1, 3);
    bench.send(1, PathId(1));
    bench.sent.mark_lost(Tsn(2));
    assert_eq!(bench.sent.get(Tsn(2)).unwrap().found(), Found::Missing(PATH));
    assert_eq!(bench.sent.time_out(PATH), 2 * BYTES);
    for tsn in 1..=3 {
        assert_eq!(bench.sent.get(Tsn(tsn)).unwrap().found(), Found::TimedOut(PATH), "{tsn}");
    }
    assert_eq!(
        bench.sent.get(Tsn(4)).unwrap().found(),
        Found::Missing(PathId(1)),
        "T3-rtx is its path's own"
    );
    assert_eq!(bench.resend(), [1, 2, 3]);
    bench.sent.mark_lost(Tsn(1));
    assert_eq!(bench.sent.get(Tsn(1)).unwrap().found(), Found::Missing(PATH));
}

#[test]
fn an_acknowledgement_of_a_lost_chunk_does_not_change_bytes_in_flight() {
    let mut bench = Bench::sending(1, 3);
    bench.sent.mark_path_lost(PATH);
    bench.sack(2, &[]).unwrap();
    assert_eq!((bench.acked(), bench.report.paths[0].left_flight_bytes), (2, 0));
    assert_eq!(bench.resend(), [3]);
}

#[test]
fn each_path_knows_its_own_earliest_tsn() {
    let mut bench = Bench::sending(1, 2);
    bench.send(2, PathId(1));
    assert_eq!((bench.sent.earliest(PATH), bench.sent.earliest(PathId(1))), (Some(Tsn(1)), Some(Tsn(3))));
    bench.sack(0, &[(3, 3)]).unwrap();
    assert!(!bench.report.paths[0].earliest_acked && bench.report.paths[1].earliest_acked);
    assert_eq!(bench.sent.earliest(PathId(1)), Some(Tsn(4)));
    bench.sack(2, &[]).unwrap_or_else(|error| panic!("{error:?}"));
    assert_eq!(bench.sent.earliest(PATH), None);
}

#[test]
fn only_chunks_sent_once_can_be_measured() {
    let mut bench = Bench::sending(1, 3);
    bench.sent.mark_path_lost(PATH);
    bench.resend();
    bench.send(1, PATH);
    bench.sack(3, &[]).unwrap();
    assert!(bench.report.paths[0].measurable.is_none() && bench.report.paths[0].newest.is_some());
    bench.sack(4, &[]).unwrap();
    assert!(bench.report.paths[0].measurable.is_some());
}

proptest! {
    #[test]
    fn each_chunk_is_acknowledged_once_and_sums_hold_for_arbitrary_sacks(
        first in prop::sample::select(vec![1, u32::MAX - 10]),
        steps in prop::collection::vec(
            (0usize..6, 0u32..8, prop::collection::vec((1u16..20, 0u16..4), 0..5), any::<bool>()), 1..60),
    ) {
        let mut bench = Bench::sending(first, 0);
        let mut acked = 0;
        let mut sent = 0;
        for (count, advance, gaps, timeout) in steps {
            bench.send(count, PATH);
            sent += count;
            if timeout {
                bench.sent.mark_path_lost(PATH);
                bench.sent.check(2);
            }
            let cum = bench.sent.cum_tsn_ack_point().plus(advance);
            let gaps: Vec<_> = gaps.into_iter().map(|(at, more)| (at, at + more)).collect();
            if bench.sack(cum.0, &gaps).is_ok() {
                // A TSN that is reneged and reported again is acknowledged once.
                acked += bench.acked();
            }
            bench.resend();
            bench.sent.check(2);
        }
        let last = bench.sent.next_tsn().minus(1);
        bench.sack(last.0, &[]).unwrap();
        prop_assert_eq!(acked + bench.acked(), sent);
        prop_assert_eq!(bench.sent.flight_bytes(), 0);
        prop_assert_eq!(bench.sent.outstanding_bytes(), 0);
    }
}

#[test]
fn outstanding_tsns_are_limited_to_the_range_of_gap_blocks() {
    //= specs/rfc9260.txt#section-1.6
    //= type=test
    //# An endpoint SHOULD NOT transmit a DATA chunk with a TSN that is more
    //# than 2^31 - 1 above the beginning TSN of its current send window.
    //= specs/rfc8260.txt#section-2.1
    //= type=test
    //# Therefore, the sender MUST NOT have more than 2**31 - 1 ordered
    //# messages for each outgoing stream in flight and MUST NOT have more
    //# than 2**31 - 1 unordered messages for each outgoing stream in flight.
    //= specs/rfc8260.txt#section-2.1
    //= type=test
    //# Therefore, a sender MUST NOT have more than 2**31 - 1 fragments of a
    //# single user message in flight.
    //= specs/rfc9260.txt#section-6.1
    //= type=test
    //# The data sender MUST NOT use a TSN that is more than 2^31 - 1 above
    //# the beginning TSN of the current send window.
    //= specs/rfc9260.txt#section-6.1
    //= type=test
    //# For each stream, the data sender MUST NOT have more than 2^16 - 1
    //# ordered user messages in the current send window.
    let mut bench = Bench::sending(1, OUTSTANDING_MAX - 1);
    assert!(!bench.sent.is_full());
    bench.send(1, PATH);
    assert!(bench.sent.is_full());
}
