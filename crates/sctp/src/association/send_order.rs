//! Loss detection by the order of sending (RFC 9002 §6.1), for one path.
//!
//! The order in which chunks were sent is recorded per path, including retransmissions. Once a packet has
//! been acknowledged, an earlier chunk is lost if it was sent three packets or more than 9/8 RTT before, or
//! more on a path that reorders packets ([`ReorderingWindow`]). So lost retransmissions are detected as
//! well, and one SACK suffices for a burst of losses.
//!
//! A SACK with many gap blocks may lack room for all of them, and then says nothing about TSNs beyond its
//! last block. Chunks there that were sent long enough ago no longer count as in flight, but are not
//! retransmitted until a SACK reports them missing.

use std::collections::VecDeque;
use std::time::Duration;

use braidftp_base::Time;

use crate::association::reordering::ReorderingWindow;
use crate::association::sent::{Arrival, Sent, Slot, SlotState};
use crate::ids::{PathId, Tsn};

/// The order in which chunks were sent on one path, and the most recently sent one that was acknowledged.
#[derive(Debug, Default)]
pub(super) struct SendOrder {
    /// Packet number and TSN of unacknowledged chunks; some were retransmitted since.
    log: VecDeque<(u64, Tsn)>,
    /// Overdue chunks that no SACK has reported on, by TSN.
    unreported: VecDeque<(u64, Tsn)>,
    /// The number of the most recently sent packet among those acknowledged.
    newest_arrived: Option<u64>,
    /// How late a chunk may be.
    pub(super) window: ReorderingWindow,
}

/// The criteria for an overdue chunk.
#[derive(Debug, Clone, Copy)]
pub(super) struct Late {
    pub(super) now: Time,
    pub(super) round_trip: Duration,
    /// See `Report`.
    pub(super) reported_up_to: Option<Tsn>,
}

/// The result of `SendOrder::detect`.
#[derive(Debug, Default, Clone, Copy, PartialEq, Eq)]
pub(super) struct Detected {
    /// The bytes lost, and when the last of them was sent.
    pub(super) lost_bytes: usize,
    pub(super) lost_sent_at: Time,
    /// Bytes no longer in flight, lost or not.
    pub(super) left_flight_bytes: usize,
    /// When the next chunk becomes overdue.
    pub(super) overdue_at: Option<Time>,
}

impl SendOrder {
    /// Records a chunk sent in packet `order`.
    pub(super) fn on_sent(&mut self, order: u64, tsn: Tsn) {
        self.log.push_back((order, tsn));
    }

    /// Heap memory in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        (self.log.len() + self.unreported.len()) * size_of::<(u64, Tsn)>()
    }

    /// Frees unused memory.
    pub(super) fn trim(&mut self) {
        self.log.shrink_to_fit();
        self.unreported.shrink_to_fit();
    }

    /// The number of the most recently sent packet that was acknowledged.
    #[cfg(test)]
    pub(super) fn newest_arrived(&self) -> Option<u64> {
        self.newest_arrived
    }

    /// A chunk sent in packet `order` was acknowledged.
    pub(super) fn on_arrived(&mut self, order: u64) {
        self.newest_arrived = self.newest_arrived.max(Some(order));
    }

    /// This chunk, which was sent once, was acknowledged, before `on_arrived` for the same SACK.
    pub(super) fn on_reordering(&mut self, now: Time, arrival: Arrival, round_trip: Duration) {
        if let Some(later) = self.newest_arrived.and_then(|newest| newest.checked_sub(arrival.order)) {
            self.window.on_late(later, now.since(arrival.sent_at), round_trip);
        }
    }

    /// The chunk in flight on this path that was sent last, except those that were in flight on two paths at once.
    pub(super) fn last_in_flight<'a>(&self, sent: &'a Sent, path: PathId) -> Option<&'a Slot> {
        let in_flight = |(order, tsn): &(u64, Tsn)| is_still(SlotState::InFlight, sent, path, *order, *tsn);
        self.log.iter().rev().filter_map(in_flight).find(|slot| !slot.doubled)
    }

    /// Marks as lost in `sent` the chunks that were sent before an acknowledged packet and are overdue,
    /// except those that the last SACK did not report on.
    pub(super) fn detect(
        &mut self,
        sent: &mut Sent,
        path: PathId,
        Late { now, round_trip, reported_up_to }: Late,
    ) -> Detected {
        let mut found = Detected::default();
        let threshold = self.window.threshold(round_trip);
        let is_spoken_of = |tsn: Tsn| was_reported(tsn, reported_up_to);
        while let Some(&(order, tsn)) = self.unreported.front().filter(|(_, tsn)| is_spoken_of(*tsn)) {
            if let Some(slot) = is_still(SlotState::Unreported, sent, path, order, tsn) {
                found.lost_sent_at = found.lost_sent_at.max(slot.sent_at);
                found.lost_bytes += sent.mark_lost(tsn).1;
            }
            self.unreported.pop_front();
        }
        while let Some(&(order, tsn)) = self.log.front() {
            if let Some(slot) = is_still(SlotState::InFlight, sent, path, order, tsn) {
                let Some(newest) = self.newest_arrived.filter(|newest| *newest > order) else { break };
                let overdue_at = slot.sent_at + threshold.time;
                let is_overtaken = threshold.packets.is_some_and(|packets| newest - order >= packets);
                if !is_overtaken && overdue_at > now {
                    found.overdue_at = Some(overdue_at);
                    break;
                }
                if is_spoken_of(tsn) {
                    found.lost_sent_at = found.lost_sent_at.max(slot.sent_at);
                    let bytes = sent.mark_lost(tsn).1;
                    found.lost_bytes += bytes;
                    found.left_flight_bytes += bytes;
                } else {
                    found.left_flight_bytes += sent.mark_unreported(tsn);
                    let at = self.unreported.partition_point(|(_, other)| other.before(tsn));
                    self.unreported.insert(at, (order, tsn));
                }
            }
            self.log.pop_front();
        }
        found
    }
}

/// Whether a SACK that reports on TSNs up to this one, or on all, reports on `tsn`.
pub(super) fn was_reported(tsn: Tsn, reported_up_to: Option<Tsn>) -> bool {
    reported_up_to.is_none_or(|last| !tsn.after(last))
}

/// The chunk, if it was not retransmitted and is in this state.
fn is_still(state: SlotState, sent: &Sent, path: PathId, order: u64, tsn: Tsn) -> Option<&Slot> {
    sent.get(tsn).filter(|slot| slot.state == state && slot.order == order && slot.path == path)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::association::partial::policy::Terms;
    use crate::association::sent::{Counting, Report, Transmission};
    use crate::wire::{Data, Sack};

    const PATH: PathId = PathId(0);
    const ROUND_TRIP: Duration = Duration::from_millis(80);

    struct Bench {
        sent: Sent,
        order: SendOrder,
        packets: u64,
        now: Time,
    }

    impl Bench {
        fn new() -> Self {
            Self {
                sent: Sent::new(Tsn(1), 1),
                order: SendOrder::default(),
                packets: 0,
                now: Time::from_millis(1_000),
            }
        }

        fn transmission(&mut self, tsn: Tsn) -> Transmission {
            self.packets += 1;
            self.order.on_sent(self.packets, tsn);
            Transmission { path: PATH, now: self.now, order: self.packets }
        }

        fn send(&mut self, count: usize) {
            for _ in 0..count {
                let tsn = self.sent.next_tsn();
                let transmission = self.transmission(tsn);
                self.sent.insert(Data::whole(tsn, b"1234"), 20, Terms::default(), transmission);
            }
        }

        fn resend(&mut self) -> Vec<u32> {
            let mut resent = Vec::new();
            while let Some(tsn) = self.sent.next_lost() {
                let transmission = self.transmission(tsn);
                self.sent.retransmit(tsn, transmission);
                resent.push(tsn.0);
            }
            resent
        }

        fn sack(&mut self, cum: u32, gaps: &[(u16, u16)]) -> Detected {
            let sack = Sack { cum_tsn_ack: Tsn(cum), gaps: gaps.to_vec(), ..Sack::default() };
            let mut report = Report::default();
            self.sent.on_sack(&sack, Counting::Off, &mut report).unwrap();
            if let Some(newest) = report.paths[0].newest {
                self.order.on_arrived(newest.order);
            }
            self.sent.check(1);
            self.detect(report.reported_up_to)
        }

        fn detect(&mut self, reported_up_to: Option<Tsn>) -> Detected {
            let late = Late { now: self.now, round_trip: ROUND_TRIP, reported_up_to };
            self.order.detect(&mut self.sent, PATH, late)
        }
    }

    #[test]
    fn a_packet_sent_three_later_marks_a_chunk_lost_with_one_sack() {
        let mut bench = Bench::new();
        bench.send(5);
        assert_eq!(bench.sack(0, &[(3, 3)]).lost_bytes, 0, "two packets later is below the threshold");
        assert_eq!(bench.sack(0, &[(3, 5)]).lost_bytes, 2 * 20);
        assert_eq!(bench.resend(), [1, 2]);
    }

    #[test]
    fn a_reordered_chunk_is_lost_once_it_is_overdue() {
        let mut bench = Bench::new();
        bench.send(2);
        let sent_at = bench.now;
        bench.now += ROUND_TRIP;
        let found = bench.sack(0, &[(2, 2)]);
        assert_eq!((found.lost_bytes, found.overdue_at), (0, Some(sent_at + ROUND_TRIP * 9 / 8)));
        bench.now = sent_at + ROUND_TRIP * 9 / 8;
        let found = bench.detect(None);
        assert_eq!((found.lost_bytes, found.overdue_at), (20, None));
    }

    #[test]
    fn lost_retransmissions_are_detected_repeatedly() {
        let mut bench = Bench::new();
        bench.send(4);
        bench.sack(0, &[(2, 4)]);
        for round in 0..3u16 {
            assert_eq!(bench.resend(), [1], "round {round}");
            bench.send(3);
            let last = 7 + 3 * round;
            assert_eq!(bench.sack(0, &[(2, last)]).lost_bytes, 20);
        }
    }

    #[test]
    fn chunks_omitted_by_a_full_sack_are_not_lost() {
        let mut bench = Bench::new();
        bench.send(100);
        // Every second one was acknowledged. A SACK lists 16 of them, beyond the first `arrived`.
        let every_second =
            |from: u16| (0..16).map(|nth| (from + 2 * nth, from + 2 * nth)).collect::<Vec<_>>();
        assert_eq!(bench.sack(0, &every_second(2)).lost_bytes, 15 * 20, "up to 29: 32 left three later");
        assert_eq!(bench.resend().len(), 15);
        // 1 is acknowledged after its retransmission, which was sent after all others; nothing is reported
        // from 35 on.
        assert_eq!(bench.sack(2, &every_second(2)).lost_bytes, 2 * 20, "31 and 33");
        assert_eq!(bench.sack(4, &every_second(2)).lost_bytes, 20, "35, of which it is said now");
        assert_eq!(bench.resend(), [31, 33, 35]);
        // Beyond it, up to three before 100, nothing is in flight, and losses are detected once a SACK has
        // room to report them.
        assert_eq!(bench.sent.flight_bytes(), (13 + 3 + 1) * 20, "from 5 to 29, those three, and 100");
    }

    #[test]
    fn no_loss_without_a_later_acknowledged_chunk() {
        let mut bench = Bench::new();
        bench.send(9);
        bench.now += ROUND_TRIP * 10;
        assert_eq!(bench.sack(3, &[]), Detected::default());
    }
}
