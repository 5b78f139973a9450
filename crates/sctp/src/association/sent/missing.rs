//! Miss indications: which TSNs a SACK reports missing, and when a chunk has enough of them (RFC 9260 §6.7,
//! §7.2.4). Called after the newly acknowledged chunks have been determined.

use std::num::NonZeroU8;

use super::{Report, Sent, SlotState};
use crate::ids::Tsn;

/// The default number of miss indications that marks a TSN lost (RFC 9260 §7.2.4).
pub(super) const REPORTS: NonZeroU8 = NonZeroU8::new(3).expect("3 is not 0");

/// Which TSNs get a miss indication.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Counting {
    /// Those below the highest TSN newly acknowledged.
    BelowNewest,
    /// Also, in fast recovery: all that the SACK reports missing, if it advances the cumulative TSN.
    InRecovery,
    /// With concurrent multipath transfer: those below the highest TSN newly acknowledged of the same path,
    /// and sent only once.
    Multipath {
        /// The number of packets that the SACK acknowledges, which is the number of miss indications unless
        /// it acknowledges chunks of several paths.
        packets: u8,
    },
    /// None: losses are detected in another way.
    Off,
}

/// What makes a lower TSN missing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Overtaken {
    /// Any acknowledged chunk.
    ByAny,
    /// An acknowledged chunk of the same path.
    ByItsPath,
}

impl Sent {
    /// Sets the number of miss indications that marks a TSN lost.
    pub(in crate::association) fn with_missing_reports(mut self, missing_reports: NonZeroU8) -> Self {
        self.missing_reports = missing_reports;
        self
    }

    /// Counts a miss indication for each TSN in flight before `limit`. With several paths, one may be
    /// faster: only later chunks of the same path count.
    //= specs/rfc9260.txt#section-6.7
    //# All DATA
    //# chunks with TSNs not included in the Gap Ack Blocks that are smaller
    //# than the highest-acknowledged TSN reported in the SACK chunk MUST be
    //# treated as "missing" by the sending endpoint.  The number of
    //# "missing" reports for each outstanding DATA chunk MUST be recorded by
    //# the data sender to make retransmission decisions.
    pub(super) fn count_missing(
        &mut self,
        limit: Tsn,
        by: Overtaken,
        counting: Counting,
        report: &mut Report,
    ) {
        let named = report.paths.iter().filter(|said| said.newest_tsn.is_some()).count();
        let enough = self.missing_reports.get();
        let mut settled = true;
        let mut tsn = self.first_countable;
        while tsn.before(limit) {
            let slot = self.slot(tsn);
            let said = &report.paths[usize::from(slot.path.0)];
            let (newest, lowest) = (said.newest_tsn, said.lowest_tsn);
            let overtaken = by == Overtaken::ByAny || newest.is_some_and(|newest| newest.after(tsn));
            if slot.state == SlotState::InFlight && !overtaken {
                settled = false;
            } else if slot.state == SlotState::InFlight
                && !slot.fast_retransmitted
                && (slot.retransmissions == 0 || !matches!(counting, Counting::Multipath { .. }))
            {
                let step = match counting {
                    Counting::Multipath { packets }
                        if named == 1 && lowest.is_none_or(|lowest| !lowest.before(tsn)) =>
                    {
                        packets
                    }
                    _ => 1,
                };
                slot.missing = slot.missing.saturating_add(step);
                //= specs/rfc9260.txt#section-7.2.4
                //# Whenever an endpoint receives a SACK chunk that indicates that some
                //# TSNs are missing, it SHOULD wait for two further miss indications (via
                //# subsequent SACK chunks for a total of three missing reports) on the
                //# same TSNs before taking action with regard to Fast Retransmit.
                if slot.missing >= enough {
                    //= specs/rfc9260.txt#section-7.2.4
                    //# 5)  Mark the DATA chunk(s) as being fast retransmitted and thus
                    //# ineligible for a subsequent Fast Retransmit.
                    slot.fast_retransmitted = true;
                    let sent_at = slot.sent_at;
                    let (path, bytes) = self.mark_lost(tsn);
                    let path = &mut report.paths[usize::from(path.0)];
                    path.left_flight_bytes += bytes;
                    path.lost = true;
                    path.highest_lost = Some(tsn);
                    path.lost_bytes += bytes;
                    path.lost_sent_at = path.lost_sent_at.max(sent_at);
                } else {
                    settled = false;
                }
            }
            tsn = tsn.next();
            if settled {
                self.first_countable = tsn;
            }
        }
    }
}
