//! Per-path send times, for RTT samples when SACKs return on another path.
//!
//! With several paths a SACK reports chunks of all of them, and the path with the shortest return delivers
//! the report first. Most chunks of a long path are therefore first acknowledged by SACKs of a short path,
//! and the time until then is neither the RTT of the long path nor constant. But the peer acknowledges a
//! chunk on the path on which it arrived: the last chunk of a path that a SACK on that path reports is the
//! one that triggered the SACK, even if another SACK reported it before.
//!
//! Only first transmissions are recorded: an acknowledged retransmission is ambiguous (RFC 9260 §6.3.1 C5).

use std::collections::VecDeque;

use braidftp_base::Time;

use crate::ids::Tsn;
use crate::wire::Sack;

/// The maximum number of chunks recorded; beyond it, the oldest are not measured.
const SEND_TIMES_MAX: usize = 16_384;

/// The chunks sent on one path after the last one that its own SACKs acknowledged, by TSN.
#[derive(Debug, Default)]
pub(in crate::association) struct SendTimes(VecDeque<(Tsn, Time)>);

impl SendTimes {
    /// Records the first transmission of a chunk.
    pub(in crate::association) fn on_sent(&mut self, tsn: Tsn, now: Time) {
        if self.0.len() == SEND_TIMES_MAX {
            self.0.pop_front();
        }
        self.0.push_back((tsn, now));
    }

    /// Records a retransmission, on any path.
    pub(in crate::association) fn on_retransmitted(&mut self, tsn: Tsn) {
        if let Some(at) = self.up_to(tsn).checked_sub(1).filter(|at| self.0[*at].0 == tsn) {
            self.0.remove(at);
        }
    }

    /// Processes a SACK received on the path: returns the last chunk that it newly acknowledges, with its
    /// send time.
    pub(in crate::association) fn on_answer(&mut self, sack: &Sack) -> Option<(Tsn, Time)> {
        let blocks = sack.gaps.iter().rev().map(|(first, last)| {
            let of = |offset: &u16| sack.cum_tsn_ack.plus((*offset).into());
            (Some(of(first)), of(last))
        });
        let (at, named) = blocks.chain([(None, sack.cum_tsn_ack)]).find_map(|(first, last)| {
            let at = self.up_to(last).checked_sub(1)?;
            let named = self.0[at];
            first.is_none_or(|first| !named.0.before(first)).then_some((at, named))
        })?;
        self.0.drain(..=at);
        Some(named)
    }

    /// The send time of the first recorded chunk.
    pub(in crate::association) fn first(&self) -> Option<Time> {
        self.0.front().map(|(_, at)| *at)
    }

    /// Frees unused memory.
    pub(in crate::association) fn trim(&mut self) {
        self.0.shrink_to_fit();
    }

    /// Heap memory in bytes.
    pub(in crate::association) fn memory_bytes(&self) -> usize {
        self.0.len() * size_of::<(Tsn, Time)>()
    }

    /// The number of chunks up to this TSN.
    fn up_to(&self, tsn: Tsn) -> usize {
        self.0.partition_point(|(one, _)| !one.after(tsn))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn send_times(tsns: &[u32]) -> SendTimes {
        let mut send_times = SendTimes::default();
        tsns.iter().for_each(|tsn| send_times.on_sent(Tsn(*tsn), Time::from_millis((*tsn).into())));
        send_times
    }

    fn answer(send_times: &mut SendTimes, cum: u32, gaps: &[(u16, u16)]) -> Option<u32> {
        let sack = Sack { cum_tsn_ack: Tsn(cum), gaps: gaps.to_vec(), ..Sack::default() };
        send_times.on_answer(&sack).map(|(tsn, at)| {
            assert_eq!(at, Time::from_millis(tsn.0.into()));
            tsn.0
        })
    }

    #[test]
    fn a_sack_measures_the_last_chunk_of_its_path_once() {
        let mut it = send_times(&[1, 3, 5, 7, 9, 11]);
        assert_eq!(answer(&mut it, 0, &[]), None);
        assert_eq!(answer(&mut it, 0, &[(2, 3), (6, 6)]), Some(3), "6 is another path's");
        assert_eq!(answer(&mut it, 3, &[(3, 3)]), None, "that was 3 again");
        assert_eq!(answer(&mut it, 6, &[]), Some(5));
        assert_eq!(answer(&mut it, 6, &[(2, 5)]), Some(11), "7 is lost, as it seems");
        assert_eq!(answer(&mut it, 12, &[]), None);
    }

    #[test]
    fn retransmitted_chunks_are_not_measured() {
        let mut it = send_times(&[u32::MAX - 3, u32::MAX - 1, 1]);
        it.on_retransmitted(Tsn(1));
        it.on_retransmitted(Tsn(0));
        assert_eq!(answer(&mut it, 1, &[]), Some(u32::MAX - 1));
    }

    #[test]
    fn beyond_the_limit_the_oldest_chunks_are_forgotten() {
        let mut it = send_times(&(0..=SEND_TIMES_MAX as u32).collect::<Vec<_>>());
        assert_eq!(it.memory_bytes(), SEND_TIMES_MAX * size_of::<(Tsn, Time)>());
        assert_eq!(answer(&mut it, 0, &[]), None);
        assert_eq!(answer(&mut it, 1, &[]), Some(1));
    }
}
