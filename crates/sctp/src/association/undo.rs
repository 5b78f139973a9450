//! Spurious losses: chunks marked lost that had arrived (RFC 3708: "Using TCP DSACK and SCTP Duplicate TSNs to
//! detect spurious retransmissions").
//!
//! After a loss or a time-out reduces the window, a path records what it retransmits because of it. A chunk
//! was not lost if it is acknowledged before its retransmission can have been, or before it was
//! retransmitted, or if the peer reports it as a duplicate. If that is true for all of them, the loss was
//! spurious, and the controller is notified. If the peer reports a duplicate of a chunk that was sent once,
//! the network duplicates packets (§3 step A), and reports prove nothing. Tail loss probes are excluded.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::Time;

use crate::association::sent::Found;
use crate::ids::Tsn;

/// The maximum number of recorded tail loss probes, of chunks sent on two paths and of chunks retransmitted
/// for other losses.
const EXCLUDED_MAX: usize = 64;
/// The maximum number of recorded retransmissions: with more, some were certainly lost.
const RESENT_MAX: usize = 256;

/// Evidence about a path's last congestion event: the chunks retransmitted because of it that may have been
/// lost.
#[derive(Debug, Default)]
pub(super) struct SpuriousLoss {
    /// In the order of their retransmission.
    resent: Vec<Resent>,
    /// The last chunks whose duplicates prove nothing about this event: tail loss probes, and what was
    /// retransmitted before or is known to have arrived.
    excluded: VecDeque<Tsn>,
    is_recording: bool,
    /// Whether a chunk marked lost because of this event had arrived.
    has_proof: bool,
}

/// A retransmitted chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Resent {
    pub(super) tsn: Tsn,
    /// When it was sent before.
    pub(super) sent_at: Time,
    /// When it was retransmitted on the same path; `None` on another one.
    pub(super) resent_at: Option<Time>,
    /// How its loss was detected.
    pub(super) found: Found,
}

impl Resent {
    /// Whether it was marked lost because later chunks had arrived, so that its arrival is reordering.
    fn was_overtaken(&self) -> bool {
        matches!(self.found, Found::Missing(_))
    }
}

impl SpuriousLoss {
    /// The window was reduced for a loss or a time-out.
    pub(super) fn begin(&mut self) {
        self.forget();
        self.is_recording = true;
    }

    /// There is no reduction to undo.
    pub(super) fn forget(&mut self) {
        for resent in std::mem::take(&mut self.resent) {
            self.exclude(resent.tsn);
        }
        (self.is_recording, self.has_proof) = (false, false);
    }

    /// Frees unused memory.
    pub(super) fn trim(&mut self) {
        self.resent.shrink_to_fit();
        self.excluded.shrink_to_fit();
    }

    /// A chunk is retransmitted as a tail loss probe.
    pub(super) fn on_probed(&mut self, tsn: Tsn) {
        self.exclude(tsn);
    }

    fn exclude(&mut self, tsn: Tsn) {
        self.excluded.push_back(tsn);
        if self.excluded.len() > EXCLUDED_MAX {
            self.excluded.pop_front();
        }
    }

    /// A chunk is retransmitted.
    pub(super) fn on_resent(&mut self, resent: Resent) {
        if self.is_recording && self.resent.len() < RESENT_MAX {
            self.resent.push(resent);
        } else {
            self.forget();
        }
    }

    /// Whether this chunk was retransmitted.
    pub(super) fn is_retransmitted(&self, tsn: Tsn) -> bool {
        self.resent.iter().any(|resent| resent.tsn == tsn) || self.excluded.contains(&tsn)
    }

    /// A chunk arrived that was marked lost and not retransmitted.
    pub(super) fn on_lost_arrived(&mut self) {
        self.has_proof |= self.is_recording;
    }

    /// A SACK arrived, and `has_arrived` tells what is acknowledged. Removes the chunks that were acknowledged
    /// sooner than `round_trip`, the shortest, after their retransmission. Returns when the first of them that
    /// were marked lost because later ones had arrived was originally sent.
    pub(super) fn on_sack(
        &mut self,
        now: Time,
        round_trip: Option<Duration>,
        has_arrived: impl Fn(Tsn) -> bool,
    ) -> Option<Time> {
        let round_trip = round_trip?;
        let mut first: Option<Time> = None;
        for index in (0..self.resent.len()).rev() {
            let resent = self.resent[index];
            let Resent { tsn, sent_at, .. } = resent;
            let Some(resent_at) = resent.resent_at else { continue };
            if now.since(resent_at) >= round_trip {
                break;
            }
            if has_arrived(tsn) {
                self.resent.remove(index);
                self.exclude(tsn);
                self.has_proof = true;
                if resent.was_overtaken() {
                    first = Some(first.map_or(sent_at, |first| first.min(sent_at)));
                }
            }
        }
        first
    }

    /// The peer reports these TSNs as duplicates. Returns whether they include a chunk that was marked lost
    /// because later ones had arrived.
    pub(super) fn on_duplicates(&mut self, tsns: &[Tsn]) -> bool {
        let mut is_reordered = false;
        for tsn in tsns {
            if let Some(at) = self.resent.iter().position(|resent| resent.tsn == *tsn) {
                is_reordered |= self.resent.remove(at).was_overtaken();
                self.exclude(*tsn);
                self.has_proof = true;
            } else if !self.excluded.contains(tsn) {
                self.forget();
            }
        }
        is_reordered
    }

    /// Whether all chunks retransmitted because of the event, of which there were some or that arrived
    /// before, had arrived.
    pub(super) fn is_proven(&self) -> bool {
        self.is_recording && self.has_proof && self.resent.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ids::PathId;

    fn tsns(numbers: &[u32]) -> Vec<Tsn> {
        numbers.iter().map(|number| Tsn(*number)).collect()
    }

    /// Sent at 1 s and retransmitted 100 ms later.
    fn resent(tsn: u32) -> Resent {
        let sent_at = Time::from_millis(1_000);
        let found = Found::Missing(PathId(0));
        Resent { tsn: Tsn(tsn), sent_at, resent_at: Some(Time::from_millis(1_100)), found }
    }

    fn after_resending(numbers: &[u32]) -> SpuriousLoss {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        numbers.iter().for_each(|tsn| spurious_loss.on_resent(resent(*tsn)));
        spurious_loss
    }

    fn sack(spurious_loss: &mut SpuriousLoss, at_ms: u64, arrived: &[u32]) -> Option<Time> {
        let round_trip = Some(Duration::from_millis(80));
        spurious_loss.on_sack(Time::from_millis(at_ms), round_trip, |tsn| arrived.contains(&tsn.0))
    }

    #[test]
    fn a_loss_is_spurious_only_if_all_retransmissions_are_reported_as_duplicates() {
        let mut spurious_loss = after_resending(&[3, 5]);
        spurious_loss.on_probed(Tsn(9));
        assert!(spurious_loss.on_duplicates(&tsns(&[3])));
        assert!(!spurious_loss.on_duplicates(&tsns(&[3, 9])));
        assert!(!spurious_loss.is_proven());
        assert!(spurious_loss.on_duplicates(&tsns(&[5])));
        assert!(spurious_loss.is_proven());
        spurious_loss.forget();
        assert!(!spurious_loss.is_proven(), "once");
    }

    #[test]
    fn an_acknowledgement_sooner_than_a_round_trip_proves_that_a_chunk_was_not_lost() {
        let mut spurious_loss = after_resending(&[3, 4, 5]);
        assert_eq!(sack(&mut spurious_loss, 1_179, &[4, 5]), Some(Time::from_millis(1_000)));
        assert_eq!(sack(&mut spurious_loss, 1_180, &[3, 4, 5]), None, "3 may be the retransmission");
        assert!(!spurious_loss.is_proven());
        assert!(!spurious_loss.on_duplicates(&tsns(&[4, 5])), "known");
        spurious_loss.on_duplicates(&tsns(&[3]));
        assert!(spurious_loss.is_proven());
    }

    #[test]
    fn an_acknowledgement_after_a_retransmission_on_another_path_proves_nothing() {
        let mut spurious_loss = after_resending(&[3]);
        spurious_loss.on_resent(Resent { resent_at: None, ..resent(4) });
        assert_eq!(sack(&mut spurious_loss, 1_101, &[4]), None);
        assert!(sack(&mut spurious_loss, 1_101, &[3]).is_some());
        assert!(!spurious_loss.is_proven());
    }

    #[test]
    fn a_spurious_time_out_is_no_reordering() {
        let mut spurious_loss = after_resending(&[]);
        let found = Found::TimedOut(PathId(0));
        (3..=4).for_each(|tsn| spurious_loss.on_resent(Resent { found, ..resent(tsn) }));
        assert_eq!(sack(&mut spurious_loss, 1_101, &[3]), None);
        assert!(!spurious_loss.on_duplicates(&tsns(&[4])));
        assert!(spurious_loss.is_proven());
    }

    #[test]
    fn chunks_that_arrive_before_their_retransmission_were_not_lost() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.on_lost_arrived();
        assert!(!spurious_loss.is_proven(), "there was no reduction");
        spurious_loss.begin();
        assert!(!spurious_loss.is_proven());
        spurious_loss.on_lost_arrived();
        assert!(spurious_loss.is_proven());
        spurious_loss.on_resent(resent(3));
        assert!(!spurious_loss.is_proven(), "3 may have been lost");
    }

    #[test]
    fn duplicates_of_earlier_retransmissions_prove_nothing() {
        let mut spurious_loss = after_resending(&[3]);
        spurious_loss.begin();
        spurious_loss.on_resent(resent(5));
        assert!(!spurious_loss.on_duplicates(&tsns(&[3])));
        assert!(!spurious_loss.is_proven());
        spurious_loss.on_duplicates(&tsns(&[5]));
        assert!(spurious_loss.is_proven());
    }

    #[test]
    fn duplicates_made_by_the_network_prove_no_spurious_loss() {
        let mut spurious_loss = after_resending(&[3, 5]);
        spurious_loss.on_duplicates(&tsns(&[3, 4]));
        spurious_loss.on_duplicates(&tsns(&[5]));
        assert!(!spurious_loss.is_proven(), "4 left once");
    }

    #[test]
    fn duplicates_of_chunks_sent_once_prove_nothing() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        assert!(!spurious_loss.on_duplicates(&tsns(&[1, 2, 3])));
        spurious_loss.on_resent(resent(1));
        assert!(!spurious_loss.on_duplicates(&tsns(&[1])));
        assert!(!spurious_loss.is_proven(), "the window was not made small");
    }

    #[test]
    fn too_many_retransmissions_are_not_recorded() {
        let all: Vec<u32> = (0..=RESENT_MAX as u32).collect();
        let mut spurious_loss = after_resending(&all);
        spurious_loss.on_duplicates(&tsns(&all));
        assert!(!spurious_loss.is_proven());
    }
}
