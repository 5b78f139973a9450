//! Spurious losses: chunks marked lost that had arrived, and arrived a second time (RFC 3708: "Using TCP
//! DSACK and SCTP Duplicate TSNs to detect spurious retransmissions").
//!
//! After a loss or a time-out reduces the window, a path records what it retransmits because of it. If the
//! peer reports all of that as duplicates, the loss was spurious, and the controller is notified. If the
//! peer reports a duplicate of a chunk that was sent once, the network duplicates packets (§3 step A), and
//! reports prove nothing. Tail loss probes are excluded.

use std::collections::VecDeque;

use crate::ids::Tsn;

/// The maximum number of recorded tail loss probes and of chunks sent on two paths.
const PROBED_MAX: usize = 32;
/// The maximum number of recorded retransmissions: with more, some were certainly lost.
const RESENT_MAX: usize = 256;

/// Evidence about a path's last congestion event: the chunks retransmitted because of it that were not
/// reported as duplicates.
#[derive(Debug, Default)]
pub(super) struct SpuriousLoss {
    resent: Vec<Tsn>,
    /// The last chunks retransmitted as tail loss probes.
    probed: VecDeque<Tsn>,
    is_recording: bool,
}

impl SpuriousLoss {
    /// The window was reduced for a loss or a time-out.
    pub(super) fn begin(&mut self) {
        self.resent.clear();
        self.is_recording = true;
    }

    /// There is no reduction to undo.
    pub(super) fn forget(&mut self) {
        self.resent.clear();
        self.is_recording = false;
    }

    /// A chunk is retransmitted as a tail loss probe.
    pub(super) fn on_probed(&mut self, tsn: Tsn) {
        self.probed.push_back(tsn);
        if self.probed.len() > PROBED_MAX {
            self.probed.pop_front();
        }
    }

    /// A chunk is retransmitted.
    pub(super) fn on_resent(&mut self, tsn: Tsn) {
        if self.is_recording && self.resent.len() < RESENT_MAX {
            self.resent.push(tsn);
        } else {
            self.forget();
        }
    }

    /// Whether this chunk was retransmitted.
    pub(super) fn is_retransmitted(&self, tsn: Tsn) -> bool {
        self.resent.contains(&tsn) || self.probed.contains(&tsn)
    }

    /// The peer reports these TSNs as duplicates. Returns whether all retransmissions have been
    /// reported.
    pub(super) fn on_duplicates(&mut self, tsns: &[Tsn]) -> bool {
        let before = self.resent.len();
        for tsn in tsns {
            if let Some(at) = self.resent.iter().position(|resent| resent == tsn) {
                self.resent.swap_remove(at);
            } else if !self.probed.contains(tsn) {
                self.forget();
            }
        }
        self.is_recording && self.resent.is_empty() && before > 0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tsns(numbers: &[u32]) -> Vec<Tsn> {
        numbers.iter().map(|number| Tsn(*number)).collect()
    }

    #[test]
    fn a_loss_is_spurious_only_if_all_retransmissions_are_reported_as_duplicates() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        tsns(&[3, 5, 5]).into_iter().for_each(|tsn| spurious_loss.on_resent(tsn));
        spurious_loss.on_probed(Tsn(9));
        assert!(!spurious_loss.on_duplicates(&tsns(&[3])));
        assert!(!spurious_loss.on_duplicates(&tsns(&[5, 9])));
        assert!(spurious_loss.on_duplicates(&tsns(&[5])));
        assert!(!spurious_loss.on_duplicates(&tsns(&[5])), "once");
    }

    #[test]
    fn duplicates_made_by_the_network_prove_no_spurious_loss() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        tsns(&[3, 5]).into_iter().for_each(|tsn| spurious_loss.on_resent(tsn));
        assert!(!spurious_loss.on_duplicates(&tsns(&[3, 4])), "4 left once");
        assert!(!spurious_loss.on_duplicates(&tsns(&[5])));
    }

    #[test]
    fn duplicates_of_chunks_sent_once_prove_nothing() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        assert!(!spurious_loss.on_duplicates(&tsns(&[1, 2, 3])));
        spurious_loss.forget();
        spurious_loss.on_resent(Tsn(1));
        assert!(!spurious_loss.on_duplicates(&tsns(&[1])), "the window was not made small");
    }

    #[test]
    fn too_many_retransmissions_are_not_recorded() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        (0..=RESENT_MAX as u32).for_each(|tsn| spurious_loss.on_resent(Tsn(tsn)));
        let all: Vec<Tsn> = (0..=RESENT_MAX as u32).map(Tsn).collect();
        assert!(!spurious_loss.on_duplicates(&all));
    }
}
