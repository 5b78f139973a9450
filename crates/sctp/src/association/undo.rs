//! Spurious losses: chunks marked lost that had arrived, and arrived a second time (RFC 3708: "Using TCP
//! DSACK and SCTP Duplicate TSNs to detect spurious retransmissions").
//!
//! After a loss or a time-out reduces the window, a path records what it retransmits because of it. If the
//! peer reports all of that as duplicates, the loss was spurious, and the controller is notified. If the
//! peer reports a duplicate of a chunk that was sent once, the network duplicates packets (§3 step A), and
//! reports prove nothing. Tail loss probes are excluded.

use std::collections::VecDeque;

use crate::ids::Tsn;

/// So many probes of the tail are remembered, and so many chunks that left by two paths.
const PROBED_MAX: usize = 32;
/// So many chunks left again, and it is not worth while: some of them were lost.
const RESENT_MAX: usize = 256;

/// What speaks for a path's last congestion: what has left again since, and of which it is not known that it had arrived.
#[derive(Debug, Default)]
pub(super) struct SpuriousLoss {
    resent: Vec<Tsn>,
    /// What left again to probe the tail, the last of it.
    probed: VecDeque<Tsn>,
    is_recording: bool,
}

impl SpuriousLoss {
    /// The window was made small for a loss or a time-out.
    pub(super) fn begin(&mut self) {
        self.resent.clear();
        self.is_recording = true;
    }

    /// There is no congestion to take back.
    pub(super) fn forget(&mut self) {
        self.resent.clear();
        self.is_recording = false;
    }

    /// A chunk leaves again to probe the tail.
    pub(super) fn on_probed(&mut self, tsn: Tsn) {
        self.probed.push_back(tsn);
        if self.probed.len() > PROBED_MAX {
            self.probed.pop_front();
        }
    }

    /// A chunk leaves again.
    pub(super) fn on_resent(&mut self, tsn: Tsn) {
        if self.is_recording && self.resent.len() < RESENT_MAX {
            self.resent.push(tsn);
        } else {
            self.forget();
        }
    }

    /// Whether this is one of those that left again.
    pub(super) fn is_retransmitted(&self, tsn: Tsn) -> bool {
        self.resent.contains(&tsn) || self.probed.contains(&tsn)
    }

    /// The peer has these twice. Whether all that had left again is among what was so reported.
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
    fn all_that_left_again_must_be_reported_as_often() {
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
    fn a_network_that_duplicates_proves_nothing() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        tsns(&[3, 5]).into_iter().for_each(|tsn| spurious_loss.on_resent(tsn));
        assert!(!spurious_loss.on_duplicates(&tsns(&[3, 4])), "4 left once");
        assert!(!spurious_loss.on_duplicates(&tsns(&[5])));
    }

    #[test]
    fn what_did_not_leave_again_proves_nothing() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        assert!(!spurious_loss.on_duplicates(&tsns(&[1, 2, 3])));
        spurious_loss.forget();
        spurious_loss.on_resent(Tsn(1));
        assert!(!spurious_loss.on_duplicates(&tsns(&[1])), "the window was not made small");
    }

    #[test]
    fn too_much_to_remember_is_no_evidence() {
        let mut spurious_loss = SpuriousLoss::default();
        spurious_loss.begin();
        (0..=RESENT_MAX as u32).for_each(|tsn| spurious_loss.on_resent(Tsn(tsn)));
        let all: Vec<Tsn> = (0..=RESENT_MAX as u32).map(Tsn).collect();
        assert!(!spurious_loss.on_duplicates(&all));
    }
}
