//! RTT samples from acknowledgements (RFC 9260 §6.3.1), and measurement of reordering.

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc::coupled::Coupling;

use crate::association::Association;
use crate::association::multipath::uses_cmt_rules;
use crate::association::path::Path;
use crate::association::send_order::was_reported;
use crate::association::sent::{AckedBy, Arrival, PathReport};
use crate::association::state::State;
use crate::ids::{PathId, Tsn};
use crate::wire::Sack;

/// The path on which the SACK being processed arrived, relative to a path whose chunks it acknowledges.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum AckPath {
    /// Any: one path is used at a time, or CMT's rules apply.
    Any,
    /// With several paths in use: the path itself.
    Own,
    /// With several paths in use: another path. Then the time until the SACK is no RTT sample while
    /// SACKs arrive on the path itself.
    Another,
}

/// The times that a path's controller receives with an acknowledgement.
#[derive(Clone, Copy)]
pub(super) struct RttReport {
    pub(super) round_trip: Option<Duration>,
    /// If the SACK arrived on another path: the time since the chunk was sent, which is not an RTT of
    /// this path.
    pub(super) cross_path_age: Option<Duration>,
}

impl Association {
    /// Whether SACKs arrive on several paths and must be distinguished by path.
    pub(in crate::association) fn has_several_ack_paths(&self) -> bool {
        self.paths.len() > 1 && self.config.paths.multipath.is_some() && !uses_cmt_rules(&self.config)
    }

    /// Returns the chunk that triggered this SACK, with its send time, by the order of first transmissions: the last chunk of the path
    /// on which the SACK arrived, even if another SACK reported the same before.
    pub(super) fn acked_on_own_path(
        &mut self,
        now: Time,
        received_on: PathId,
        sack: &Sack,
    ) -> Option<(Tsn, Time)> {
        let path = &mut self.paths[usize::from(received_on.0)];
        path.heard_at = now;
        let acked = path.send_times.on_answer(sack)?;
        path.answered_at = Some(now);
        if std::mem::take(&mut path.has_cross_path_rtt) {
            // A cross-path minimum below the path's own RTT would be kept for long.
            path.min_rtt = None;
            let window = path.controller.window();
            path.controller.restart_window(window);
        }
        Some(acked)
    }

    /// Measures the RTT of the path on which a SACK arrived that this chunk triggered.
    pub(in crate::association) fn measure_on_own_path(
        &mut self,
        now: Time,
        received_on: PathId,
        acked: Option<(Tsn, Time)>,
    ) {
        let Some((tsn, sent_at)) = acked else { return };
        let path = &mut self.paths[usize::from(received_on.0)];
        // When a chunk arrived is unknown if the last SACK had no room to report it, or if T3-rtx
        // expired before.
        if !was_reported(tsn, path.reported_up_to) || path.timed_out_at.is_some_and(|at| at >= sent_at) {
            return;
        }
        // A retransmission that was sent later and is acknowledged may have triggered the SACK instead: another path's SACK may
        // have acknowledged the chunk long before.
        //= specs/rfc9260.txt#section-6.3.1
        //# C5)  Karn's algorithm: RTT measurements MUST NOT be made using chunks
        //# that were retransmitted (and thus for which it is ambiguous
        //# whether the reply was for the first instance of the chunk or for
        //# a later instance).
        if path.retransmission_acked.is_some_and(|at| at > sent_at) {
            return;
        }
        let round_trip = now.since(sent_at);
        path.measure(now, round_trip);
        path.pending_sample = Some(round_trip);
        if let Some(multipath) = self.config.paths.multipath
            && multipath.coupling == Coupling::Detected
            && let State::Up(up) = &mut self.state
        {
            up.coupled.on_round_trip(now, received_on, round_trip, &mut self.paths, multipath.constants);
        }
    }
}

impl Path {
    /// Records the newest chunk that a SACK acknowledges.
    pub(in crate::association) fn on_newest_acked(&mut self, newest: Option<Arrival>) {
        let at = newest.filter(|newest| newest.transmissions > 1).map(|newest| newest.sent_at);
        self.retransmission_acked = self.retransmission_acked.max(at);
    }

    /// Processes what a SACK reports about chunks of this path; `reported_up_to` is the last TSN that
    /// the previous SACK reported on, if it had no room for all. Returns the times for the controller.
    pub(super) fn on_acked(
        &mut self,
        now: Time,
        path_report: &PathReport,
        ack_path: AckPath,
        reported_up_to: Option<Tsn>,
    ) -> RttReport {
        let tells = ack_path != AckPath::Another || !self.is_answered(now);
        // When a chunk arrived is unknown if the previous SACK had no room to report it.
        let in_time = |arrival: &Arrival| was_reported(arrival.tsn, reported_up_to);
        let measured = if ack_path == AckPath::Any || (ack_path == AckPath::Another && tells) {
            let measured = path_report
                .measurable
                .filter(|arrival| in_time(arrival) && !self.is_ambiguous(arrival))
                .map(|arrival| now.since(arrival.sent_at));
            if let Some(round_trip) = measured {
                self.has_cross_path_rtt = ack_path == AckPath::Another;
                self.measure(now, round_trip);
            }
            measured
        } else {
            self.pending_sample.take_if(|_| path_report.newest.is_some())
        };
        let measured = RttReport { round_trip: measured, cross_path_age: None };
        let Some(newest) = path_report.newest else { return measured };
        let since = now.since(newest.sent_at);
        if ack_path == AckPath::Another && newest.transmissions == 1 {
            self.min_cross_path_age =
                Some(self.min_cross_path_age.map_or(since, |soonest| soonest.min(since)));
        }
        // An acknowledgement that is faster than any before belongs to an earlier transmission.
        let soonest = self.soonest();
        // Without samples, the handshake may have given an upper bound. A faster acknowledgement may
        // belong to either transmission.
        let is_too_soon = soonest.or(self.rtt.srtt()).is_none_or(|soonest| since < soonest);
        if newest.transmissions > 1 && is_too_soon {
            return measured;
        }
        if let Some(send_order) = &mut self.send_order {
            send_order.on_arrived(newest.order);
        }
        // The controller gets this sample: if an earlier transmission was acknowledged, the RTT was even
        // longer, and a path that only carries chunks lost elsewhere gives no other samples. If no
        // shorter RTT is known, there is no sample, since the acknowledgement may belong to the earlier
        // transmission.
        let is_ambiguous = newest.transmissions > 1 && soonest.is_none();
        let since = (in_time(&newest) && !is_ambiguous).then_some(since);
        match measured.round_trip {
            round_trip if !tells => RttReport { round_trip, cross_path_age: since },
            Some(_) => measured,
            None => RttReport { round_trip: since, cross_path_age: None },
        }
    }

    /// Whether RTT samples come from SACKs on the path itself: unless chunks sent long ago were not
    /// acknowledged by one, and there was none since.
    fn is_answered(&self, now: Time) -> bool {
        let long = self.rtt.srtt().unwrap_or(self.rtt.rto()) * 2;
        let is_late = |at: Time| now.since(at) > long;
        !self.send_times.first().is_some_and(is_late) || !self.answered_at.is_none_or(is_late)
    }

    /// Whether it is unknown which transmission was acknowledged.
    fn is_ambiguous(&self, arrival: &Arrival) -> bool {
        //= specs/rfc9260.txt#section-6.3.1
        //# RTT measurements SHOULD only be made using a DATA chunk with TSN
        //# r if no DATA chunk with TSN less than or equal to r was
        //# retransmitted since the DATA chunk with TSN r was sent first.
        // But a gap block proves that r itself has arrived, whatever happened to lower TSNs. After a
        // time-out it proves nothing: the chunk may have arrived long before, and its report waited for
        // the time-out only. Each such sample would lengthen the next time-out.
        //= specs/rfc9260.txt#section-6.3.1
        //# C5)  Karn's algorithm: RTT measurements MUST NOT be made using chunks
        //# that were retransmitted (and thus for which it is ambiguous
        //# whether the reply was for the first instance of the chunk or for
        //# a later instance).
        let event = match arrival.acked_by {
            AckedBy::GapBlock => self.timed_out_at,
            AckedBy::CumTsn => self.retransmitted_at,
        };
        event.is_some_and(|at| at >= arrival.sent_at)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::profile::Profile;
    use crate::route::Route;
    use crate::stats::PathState;

    #[test]
    fn an_acknowledged_retransmission_counts_if_it_took_at_least_the_minimum_rtt_or_its_bound() {
        let ms = Duration::from_millis;
        let taken = |bound: Option<Duration>, measured: Option<Duration>, after: Duration| {
            let config = Profile::Modern.config();
            let route = Route { local: "10.0.0.1:9".parse().unwrap(), peer: "10.0.0.2:9".parse().unwrap() };
            let mut path = Path::new(route, PathState::Active, &config);
            let sent_at = Time::from_millis(5_000);
            bound.into_iter().for_each(|bound| path.rtt.on_upper_bound(bound));
            measured.into_iter().for_each(|sample| path.measure(Time::from_millis(1_000), sample));
            let newest = Arrival {
                tsn: Tsn(7),
                order: 9,
                sent_at,
                transmissions: 2,
                packet_bytes: 100,
                acked_by: AckedBy::CumTsn,
            };
            let path_report = PathReport { newest: Some(newest), ..PathReport::default() };
            path.on_acked(sent_at + after, &path_report, AckPath::Any, None);
            path.send_order.unwrap().newest_arrived() == Some(9)
        };
        assert!(!taken(None, None, ms(900)), "nothing is known of the round trip");
        assert!(!taken(Some(ms(400)), None, ms(399)), "it may be to the first transmission");
        assert!(taken(Some(ms(400)), None, ms(400)));
        assert!(!taken(Some(ms(400)), Some(ms(70)), ms(69)));
        assert!(taken(Some(ms(400)), Some(ms(70)), ms(70)), "what is measured replaces the bound");
    }
}
