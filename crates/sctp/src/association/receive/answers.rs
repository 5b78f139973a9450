//! What the answers to a path's chunks tell of its round trip (RFC 9260 §6.3.1), and of the order in which things arrive.

use std::time::Duration;

use braidftp_base::Time;

use crate::association::path::Path;
use crate::association::sent::{Arrival, Named, PathReport};
use crate::ids::Tsn;

/// Which way back the answers to a path's chunks may take and still be its measure.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Answers {
    ByAnyPath,
    /// What came by one of several paths is answered at once by that path, and by others when they come to it: which is no
    /// measure, but for a path whose own answers mostly come too late to be news: the few that do not are too few to tell
    /// whether losses have to do with delay.
    ByTheirPath,
}

/// Which way back the SACK took that was first to tell of a path's chunks.
#[derive(Clone, Copy)]
pub(super) enum Teller {
    Own,
    Another,
}

/// Of so many bytes it is remembered who told of them.
const TOLD_MEMORY_BYTES: usize = 65_536;

/// What an answer tells a path's controller of time.
#[derive(Clone, Copy)]
pub(super) struct Told {
    pub(super) round_trip: Option<Duration>,
    /// The same if it came by another path, and is no round trip of this one.
    pub(super) by_another_way: Option<Duration>,
}

impl Path {
    /// Takes what a SACK says of this path's chunks; `silent_beyond` is the last TSN that the SACK before it spoke of, if it
    /// did not have room for all. Gives what a controller may go by.
    pub(super) fn on_told(
        &mut self,
        now: Time,
        said: &PathReport,
        answers: Answers,
        silent_beyond: Option<Tsn>,
    ) -> Told {
        let tells = self.is_measured_by(answers, now);
        // Of what the last SACK had no room for, nobody knows when it came.
        let in_time = |arrival: &Arrival| silent_beyond.is_none_or(|last| !arrival.tsn.after(last));
        let measured = said
            .measurable
            .filter(|arrival| tells && in_time(arrival) && !self.is_ambiguous(arrival))
            .map(|arrival| now.since(arrival.sent_at));
        if let Some(round_trip) = measured {
            self.measure(now, round_trip);
        }
        let measured = Told { round_trip: measured, by_another_way: None };
        let Some(newest) = said.newest else { return measured };
        let since = now.since(newest.sent_at);
        // An answer sooner than any round trip ever took is one to an earlier transmission.
        if newest.transmissions > 1 && self.min_rtt.is_none_or(|min| since < min) {
            return measured;
        }
        if let Some(send_order) = &mut self.send_order {
            send_order.on_arrived(newest.order);
        }
        // To a controller it is one: if it was an earlier transmission that was answered, the round trip was longer yet. It
        // would know nothing of a path that carries what another has lost.
        let since = in_time(&newest).then_some(since);
        match (measured.round_trip, tells) {
            (Some(_), _) => measured,
            (None, true) => Told { round_trip: since, by_another_way: None },
            (None, false) => Told { round_trip: None, by_another_way: since },
        }
    }

    /// So many bytes were told of first by a SACK that took this path or another.
    pub(super) fn on_told_by(&mut self, teller: Teller, bytes: usize) {
        self.told_bytes[teller as usize] += bytes;
        if self.told_bytes.iter().sum::<usize>() > TOLD_MEMORY_BYTES {
            self.told_bytes = self.told_bytes.map(|bytes| bytes / 2);
        }
    }

    /// Whether an answer that came now measures this path.
    fn is_measured_by(&self, answers: Answers, now: Time) -> bool {
        let lately = self.rtt.srtt().unwrap_or(self.rtt.rto()) * 2;
        let [own, others] = self.told_bytes;
        answers == Answers::ByAnyPath
            || others > 2 * own
            || self.answered_at.is_none_or(|at| at == now || now.since(at) > lately)
    }

    /// Whether nobody knows which transmission an answer is to.
    fn is_ambiguous(&self, arrival: &Arrival) -> bool {
        //= specs/rfc9260.txt#section-6.3.1
        //# RTT measurements SHOULD only be made using a DATA chunk with TSN
        //# r if no DATA chunk with TSN less than or equal to r was
        //# retransmitted since the DATA chunk with TSN r was sent first.
        // A gap block, though, says that r itself has arrived, whatever became of those below. Not so after a time-out:
        // what is told then may have arrived long before, and have waited for nothing but the time-out. Each would make
        // the next one longer.
        //= specs/rfc9260.txt#section-6.3.1
        //# C5)  Karn's algorithm: RTT measurements MUST NOT be made using chunks
        //# that were retransmitted (and thus for which it is ambiguous
        //# whether the reply was for the first instance of the chunk or for
        //# a later instance).
        let event = match arrival.named {
            Named::ByGap => self.timed_out_at,
            Named::ByCumTsn => self.retransmitted_at,
        };
        event.is_some_and(|at| at >= arrival.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::config::Config;
    use crate::endpoint::Route;
    use crate::stats::PathState;

    #[test]
    fn where_another_path_is_first_to_tell_of_most_its_answers_are_a_measure_too() {
        let address = std::net::SocketAddr::from(([10, 0, 0, 1], 9899));
        let route = Route { local: address, peer: address };
        let mut path = Path::new(route, PathState::Active, &Config::default());
        let (then, now) = (Time::from_millis(1_000), Time::from_millis(1_010));
        path.answered_at = Some(then);
        path.on_told_by(Teller::Own, 10_000);
        path.on_told_by(Teller::Another, 20_000);
        assert!(!path.is_measured_by(Answers::ByTheirPath, now), "its own are news often enough");
        for _ in 0..20 {
            path.on_told_by(Teller::Own, 1_000);
            path.on_told_by(Teller::Another, 19_000);
        }
        assert!(path.is_measured_by(Answers::ByTheirPath, now));
    }
}
