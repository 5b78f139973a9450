//! The longest time that a side of a session sent nothing although it had something to send.
//!
//! A side is silent from the moment at which the links hold none of its packets until it sends again, while it has something to
//! send: an association of its own is being opened, or user data is unsent or unacknowledged. Time during which a link lost
//! eight packets in a row is not counted: a sender may consider such a path failed.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_sctp::{Endpoint, Phase};

use crate::link::Counters;

/// The number of consecutive lost packets that excuses a silence.
pub(super) const EXCUSED_BY: u64 = 8;

/// The state of one side.
#[derive(Debug, Default)]
struct Side {
    /// The start of the current silence.
    since: Option<Time>,
    /// Whether enough consecutive packets were lost during it that it does not count.
    excused: bool,
    longest: Duration,
}

/// The state of one link.
#[derive(Debug, Clone, Copy, Default)]
struct Wire {
    packets_in: u64,
    dropped: u64,
    lost_in_a_row: u64,
}

/// Measures both sides of a session, after each step of a run.
#[derive(Debug)]
pub(super) struct Silence {
    sides: [Side; 2],
    /// By link: even ones lead to the server.
    wires: Vec<Wire>,
}

impl Silence {
    pub(super) fn new(links: usize) -> Self {
        Self { sides: Default::default(), wires: vec![Wire::default(); links] }
    }

    /// Records which sides have data to send, and what their links did. Links alternate: to the server,
    /// to the client.
    pub(super) fn look(&mut self, now: Time, waits: [bool; 2], links: impl Iterator<Item = Counters>) {
        let mut under_way = [false; 2];
        let mut many_lost = false;
        let mut sent = [false; 2];
        for (index, (wire, counters)) in self.wires.iter_mut().zip(links).enumerate() {
            let (packets, dropped) =
                (counters.packets_in - wire.packets_in, counters.dropped() - wire.dropped);
            if packets > 0 {
                sent[index % 2] = true;
                // If only some of several packets in one step were lost, their order is unknown and
                // nothing is excused.
                let all_lost = dropped == packets;
                let lost_in_a_row = if all_lost { wire.lost_in_a_row + packets } else { 0 };
                *wire = Wire { packets_in: counters.packets_in, dropped: counters.dropped(), lost_in_a_row };
            }
            under_way[index % 2] |= counters.queued > 0;
            many_lost |= wire.lost_in_a_row >= EXCUSED_BY;
        }
        for (index, side) in self.sides.iter_mut().enumerate() {
            side.excused |= many_lost;
            if sent[index] || under_way[index] || !waits[index] {
                side.end(now);
            }
            if !under_way[index] && waits[index] && side.since.is_none() {
                side.since = Some(now);
                side.excused = many_lost;
            }
        }
    }

    /// Returns the longest silence of client and server.
    pub(super) fn longest(mut self, now: Time) -> [Duration; 2] {
        self.sides.iter_mut().for_each(|side| side.end(now));
        self.sides.map(|side| side.longest)
    }
}

impl Side {
    fn end(&mut self, now: Time) {
        if let Some(since) = self.since.take()
            && !self.excused
        {
            self.longest = self.longest.max(now.since(since));
        }
    }
}

/// Whether an association of this endpoint has something to send: an unfinished handshake, or user data
/// that the peer has not acknowledged.
pub(super) fn waits(endpoint: &Endpoint, ids: impl Iterator<Item = braidftp_sctp::AssociationId>) -> bool {
    ids.filter_map(|id| endpoint.association(id)).any(|association| {
        let stats = association.stats();
        matches!(stats.phase, Phase::CookieWait | Phase::CookieEchoed)
            || (stats.phase != Phase::Closed && stats.queued_bytes + stats.outstanding_bytes > 0)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn counters(packets_in: u64, dropped_loss: u64, queued: u64) -> Counters {
        let packets_out = packets_in - dropped_loss - queued;
        Counters { packets_in, dropped_loss, queued, packets_out, ..Counters::default() }
    }

    fn at(millis: u64) -> Time {
        Time::from_millis(millis)
    }

    #[test]
    fn a_silence_lasts_from_the_last_packets_end_to_the_next_one() {
        let mut silence = Silence::new(2);
        let back = counters(0, 0, 0);
        silence.look(at(0), [true, false], [counters(1, 0, 1), back].into_iter());
        silence.look(at(10), [true, false], [counters(1, 0, 0), back].into_iter());
        silence.look(at(500), [true, false], [counters(2, 0, 1), back].into_iter());
        silence.look(at(900), [false, false], [counters(2, 0, 0), back].into_iter());
        assert_eq!(silence.longest(at(5_000)), [Duration::from_millis(490), Duration::ZERO]);
    }

    #[test]
    fn a_packet_that_is_lost_ends_a_silence_and_begins_another() {
        let mut silence = Silence::new(2);
        let back = counters(0, 0, 0);
        silence.look(at(0), [true, false], [counters(1, 1, 0), back].into_iter());
        silence.look(at(300), [true, false], [counters(2, 2, 0), back].into_iter());
        silence.look(at(400), [true, false], [counters(3, 2, 1), back].into_iter());
        assert_eq!(silence.longest(at(5_000))[0], Duration::from_millis(300));
    }

    #[test]
    fn eight_losses_in_a_row_excuse_a_silence_and_seven_do_not() {
        for (lost, expected) in [(7, 2_000), (8, 0)] {
            let mut silence = Silence::new(2);
            let there = counters(0, 0, 0);
            silence.look(at(0), [false, true], [there, counters(lost, lost, 0)].into_iter());
            silence.look(at(2_000), [false, true], [there, counters(lost + 1, lost, 1)].into_iter());
            assert_eq!(silence.longest(at(9_000))[1], Duration::from_millis(expected), "{lost}");
        }
    }
}
