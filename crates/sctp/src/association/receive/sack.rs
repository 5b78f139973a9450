//! The effect of a SACK, or of the cumulative TSN of a SHUTDOWN (RFC 9260 §6.2.1), on the peer's window and
//! on each path's RTT, congestion window, recovery and T3-rtx. `sent` determines which chunks were
//! acknowledged.

use braidftp_base::Time;
use braidftp_cc as cc;
use braidftp_cc::coupled::Coupling;
use rand_core::Rng;

use crate::association::multipath::coupled::Coupled;
use crate::association::multipath::cuc::{PseudoCumAck, advance};
use crate::association::multipath::uses_cmt_rules;
use crate::association::partial::forward::Cum;
use crate::association::path::{Path, Recovery};
use crate::association::reduction::Progress;
use crate::association::reset::state::Reconfiguration;
use crate::association::sent::{Counting, PathReport, Report, SackError, are_valid_blocks};
use crate::association::state::{State, Window};
use crate::association::timers::Timer;
use crate::association::{Association, Event, Violation};
use crate::config::{LossDetection, LossRecovery, MultipathConstants};
use crate::ids::{PathId, Tsn};
use crate::stats::PathState;
use crate::wire::Sack;

use super::answers::AckPath;

/// The properties of a SACK that depend on its chunk type.
#[derive(Clone, Copy)]
pub(super) struct SackKind<'a> {
    pub(super) names: ReportedTsns,
    /// Gap blocks on which the peer will not renege.
    pub(super) kept: &'a [(u16, u16)],
}

/// Which of the received TSNs a SACK reports.
#[derive(Clone, Copy)]
pub(super) enum ReportedTsns {
    /// As many as it has room for, or as its sender chooses: unknown.
    Unknown,
    /// All.
    All,
    /// Those up to the last block, and none beyond.
    UpToLastBlock,
}

/// What the update of a path needs to know of a SACK.
#[derive(Clone, Copy)]
struct ReportContext {
    now: Time,
    /// The path on which the SACK or SHUTDOWN arrived.
    received_on: PathId,
    /// Whether the peer sends SACKs on several paths.
    several_ack_paths: bool,
    coupling: Coupling,
    constants: &'static MultipathConstants,
    cum_tsn_ack_point: Tsn,
}

impl Association {
    /// Processes the cumulative TSN of a SHUTDOWN; returns whether it was valid.
    pub(in crate::association) fn on_cum_tsn(
        &mut self,
        now: Time,
        received_on: PathId,
        cum_tsn_ack: Tsn,
    ) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        let mut report = std::mem::take(&mut up.report);
        match up.sent.on_cum_tsn(cum_tsn_ack, &mut report) {
            Ok(()) => self.on_report(now, received_on, report),
            // An outdated SHUTDOWN still counts.
            Err(SackError::Outdated) => {}
            // As for a SACK; it will be retransmitted.
            Err(SackError::NeverSent)
                if up.reconfiguration.as_ref().is_some_and(Reconfiguration::awaits_restart) =>
            {
                return false;
            }
            Err(_) => {
                self.on_violation(Violation::AckOfNothing);
                return false;
            }
        }
        true
    }

    /// Processes a SACK. `kept`: gap blocks on which the peer will not renege.
    pub(super) fn on_sack(
        &mut self,
        now: Time,
        received_on: PathId,
        sack: &Sack,
        SackKind { names, kept }: SackKind<'_>,
    ) {
        //= specs/rfc9260.txt#section-6
        //# A SACK chunk MUST be processed in ESTABLISHED, SHUTDOWN-PENDING, and
        //# SHUTDOWN-RECEIVED states.
        let on_own_path = self.has_several_ack_paths() && are_valid_blocks(&sack.gaps);
        let acked = if on_own_path { self.acked_on_own_path(now, received_on, sack) } else { None };
        let State::Up(up) = &mut self.state else { return };
        let mut report = std::mem::take(&mut up.report);
        let multipath = uses_cmt_rules(&self.config);
        if multipath {
            up.pseudo_cums.resize_with(self.paths.len(), PseudoCumAck::default);
        }
        // A receiver does not renege on TSNs in an NR-SACK.
        let takes_nothing_back = !multipath || up.extensions.nr_sack;
        if self.config.paths.multipath.is_some() && takes_nothing_back && up.sent.is_behind(sack) {
            up.report = report;
            return self.measure_on_own_path(now, received_on, acked);
        }
        let sound = are_valid_blocks(&sack.gaps) && !sack.cum_tsn_ack.before(up.sent.cum_tsn_ack_point());
        let points =
            if multipath && sound { advance(&mut up.pseudo_cums, &up.sent, sack) } else { Vec::new() };
        let counting = match self.config.recovery.loss_detection {
            LossDetection::MissingReports if multipath => Counting::Multipath { packets: sack.flags.max(1) },
            LossDetection::SendOrder => Counting::Off,
            LossDetection::MissingReports => {
                let in_recovery = |path: &Path| matches!(path.recovery, Recovery::Fast(_));
                if self.paths.iter().any(in_recovery) { Counting::InRecovery } else { Counting::BelowNewest }
            }
        };
        match up.sent.on_sack(sack, counting, &mut report) {
            Ok(()) if are_valid_blocks(&sack.gaps) => up.sent.release(sack.cum_tsn_ack, kept),
            // None of its blocks were valid.
            Ok(()) => {}
            Err(SackError::Outdated) => return self.measure_on_own_path(now, received_on, acked),
            Err(SackError::TakenBack) => return self.on_violation(Violation::AckTakenBack),
            // It may refer to TSNs after a reset by the peer.
            Err(SackError::NeverSent)
                if up.reconfiguration.as_ref().is_some_and(Reconfiguration::awaits_restart) =>
            {
                return;
            }
            Err(SackError::NeverSent) => return self.on_violation(Violation::AckOfNothing),
        }
        match names {
            ReportedTsns::Unknown => {}
            ReportedTsns::All => report.reported_up_to = None,
            ReportedTsns::UpToLastBlock => {
                let last = sack.gaps.last().map_or(0, |(_, last)| *last);
                report.reported_up_to = Some(sack.cum_tsn_ack.plus(u32::from(last)));
            }
        }
        for (path_report, advanced) in report.paths.iter_mut().zip(points) {
            path_report.point_advanced = advanced;
        }
        //= specs/rfc9260.txt#section-6.2.1
        //# ii)   Set rwnd equal to the newly received a_rwnd minus the
        //# number of bytes still outstanding after processing the
        //# Cumulative TSN Ack and the Gap Ack Blocks.
        // Bytes in flight are subtracted when the window is used, since they change.
        let full_chunk = self.paths[usize::from(up.primary.0)].payload_max(self.queue.header_len());
        let was_narrow = up.peer_a_rwnd < full_chunk;
        //= specs/rfc9260.txt#section-6.2.1
        //# An endpoint SHOULD use the following rules to calculate the rwnd,
        //# using the a_rwnd value, the Cumulative TSN Ack, and Gap Ack Blocks in
        //# a received SACK chunk.
        up.peer_a_rwnd = sack.a_rwnd as usize;
        let reopened = was_narrow && up.peer_a_rwnd >= full_chunk;
        if reopened && up.window == Window::ProbeDue {
            up.window = Window::Open;
        }
        let advanced = report.cum_advanced;
        for (path, path_report) in self.paths.iter_mut().zip(&report.paths) {
            path.on_newest_acked(path_report.newest);
        }
        self.measure_on_own_path(now, received_on, acked);
        self.on_report(now, received_on, report);
        if !sack.dups.is_empty() {
            self.on_duplicates(now, &sack.dups);
        }
        if reopened && !advanced {
            self.on_window_reopened();
        }
        self.advance_shutdown(now);
    }

    /// The peer's window opened and nothing was acknowledged: chunks sent into the closed window were
    /// dropped there, and need not wait for a timer that has backed off.
    fn on_window_reopened(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        self.timers.stop(Timer::ZeroWindow);
        let probing = matches!(up.window, Window::Probing { .. });
        up.window = Window::Open;
        for (index, path) in self.paths.iter_mut().enumerate() {
            if probing || path.timeouts_unanswered > 0 {
                path.flight_bytes -= up.sent.mark_path_lost(PathId(index as u8));
                self.timers.stop(Timer::T3Rtx(PathId(index as u8)));
            }
        }
    }

    /// Applies the report of a SACK or SHUTDOWN.
    fn on_report(&mut self, now: Time, received_on: PathId, report: Report) {
        let several_ack_paths = self.has_several_ack_paths();
        let State::Up(up) = &mut self.state else { return };
        let cum_tsn_ack_point = up.sent.cum_tsn_ack_point();
        //= specs/rfc9260.txt#section-8.1
        //# The counter used for endpoint failure detection MUST be reset each
        //# time a DATA chunk sent to that peer endpoint is acknowledged (by the
        //# reception of a SACK chunk).
        if report.paths.iter().any(|path_report| path_report.acked_bytes > 0) {
            up.errors = 0;
        }
        if matches!(up.window, Window::Probing { tsn, .. } if !tsn.after(cum_tsn_ack_point)) {
            up.window = Window::Open;
        }
        up.retransmissions_left = None;
        let several = self.config.paths.multipath.is_some();
        let by_literature = uses_cmt_rules(&self.config);
        if several {
            up.tie_break = self.rng.next_u32();
        }
        if by_literature && report.paths.iter().any(|path_report| path_report.lost) {
            for (path, path_report) in self.paths.iter_mut().zip(&report.paths) {
                path.fast_retransmit_due = path_report.lost;
            }
        }
        let multipath = self.config.paths.multipath;
        let coupling = multipath.map_or(Coupling::None, |multipath| multipath.coupling);
        let constants = multipath.map_or(&MultipathConstants::DEFAULT, |multipath| multipath.constants);
        let mut coupled = std::mem::take(&mut up.coupled);
        let context =
            ReportContext { now, received_on, several_ack_paths, coupling, constants, cum_tsn_ack_point };
        for index in 0..self.paths.len() {
            self.detect_reordering(now, PathId(index as u8), &report);
            self.on_path_report(context, PathId(index as u8), &report, &mut coupled);
        }
        let brought_data = report.paths.iter().any(|path_report| path_report.acked_bytes > 0);
        let cum = if !report.cum_advanced {
            Cum::Same
        } else if brought_data {
            Cum::Advanced
        } else {
            Cum::Forwarded
        };
        if let State::Up(up) = &mut self.state {
            up.report = report;
            up.coupled = coupled;
            // A SACK without room for all blocks lists the lowest missing TSNs. If it did not, nothing
            // would be retransmitted.
            if up.sent.flight_bytes() == 0 && up.sent.next_lost().is_none() {
                for index in 0..self.paths.len() {
                    up.sent.mark_path_lost(PathId(index as u8));
                }
            }
        }
        //= specs/rfc3758.txt#section-3.5
        //# A4) Whenever the data sender receives a SACK from the data receiver,
        //# it MUST first process the SACK using the normal procedures as
        //# defined in Section 6.2.1 of RFC 2960 [2].
        //= specs/rfc3758.txt#section-3.5
        //# The data sender MUST then perform the following additional steps:
        self.forward_on_sack(now, cum);
        self.report_writable();
    }

    /// Updates one path: bytes in flight, RTT, controller, losses and timers.
    fn on_path_report(&mut self, context: ReportContext, id: PathId, report: &Report, coupled: &mut Coupled) {
        let ReportContext { now, received_on, several_ack_paths, coupling, constants, cum_tsn_ack_point } =
            context;
        let rfc4960 = self.config.legacy.loss_recovery == LossRecovery::Rfc4960;
        let several = self.config.paths.multipath.is_some();
        let by_literature = uses_cmt_rules(&self.config);
        let index = usize::from(id.0);
        let path_report = &report.paths[index];
        coupled.find_siblings(&self.paths, id, coupling);
        let path = &mut self.paths[index];
        path.delivery_rate.age(now, constants);
        path.marked_up_to.take_if(|exit| !exit.after(cum_tsn_ack_point));
        let (flight_before, lost_before) = (path.flight_bytes, path.lost_bytes);
        path.flight_bytes = path.flight_bytes + path_report.reneged_bytes - path_report.left_flight_bytes;
        let ack_path = match several_ack_paths {
            true if received_on == id => AckPath::Own,
            true => AckPath::Another,
            false => AckPath::Any,
        };
        let was_reported_up_to = std::mem::replace(&mut path.reported_up_to, report.reported_up_to);
        let rtt_report = path.on_acked(now, path_report, ack_path, was_reported_up_to);
        let cum_advanced = match several {
            true if by_literature => path_report.point_advanced,
            // With several paths, each path has its own sequence.
            true => path_report.earliest_acked,
            false => report.cum_advanced,
        };
        if path_report.acked_bytes > 0 {
            self.on_path_acked(received_on, id, path_report);
            let path = &mut self.paths[index];
            //= specs/rfc9260.txt#section-7.2.4
            //# Note: Before the above adjustments, if the received SACK chunk also
            //# acknowledges new DATA chunks and advances the Cumulative TSN Ack
            //# Point, the cwnd adjustment rules defined in Sections 7.2.1 and 7.2.2
            //# MUST be applied first.
            //= specs/rfc9260.txt#section-7.2.1
            //# In instances where its peer endpoint is multi-homed, if an endpoint
            //# receives a SACK chunk that results in updating the cwnd, then it
            //# SHOULD update its cwnd (or cwnds) apportioned to the destination
            //# addresses to which it transmitted the acknowledged data.
            let round_trip = path.rtt.srtt().unwrap_or(path.latest_rtt);
            path.between_losses[0] = path.between_losses[0].saturating_add(path_report.acked_bytes as u64);
            let load = path.load(constants);
            path.delivery_rate.on_arrived(now, path_report.carried_bytes, round_trip, load, constants);
            path.controller.on_ack(cc::Ack {
                now,
                bytes: path_report.acked_bytes,
                gap_bytes: path_report.gap_bytes,
                regained_bytes: path_report.regained_bytes,
                flight_before,
                mtu: path.pmdcs(),
                rtt: rtt_report.round_trip,
                cross_path_age: rtt_report.cross_path_age,
                srtt: path.rtt.srtt(),
                cum_advanced,
                in_recovery: match path.recovery {
                    Recovery::Fast(_) if by_literature => false,
                    Recovery::Fast(exit) if rfc4960 => exit.after(cum_tsn_ack_point),
                    recovery => matches!(recovery, Recovery::Fast(_)),
                },
                siblings: &coupled.siblings,
            });
        }
        self.leave_recovery(now, id);
        let path = &mut self.paths[index];
        let pmdcs = path.pmdcs();
        if path_report.lost {
            path.on_lost(now, path_report.lost_bytes, path_report.lost_sent_at);
            self.on_loss(now, id, flight_before, path_report.highest_lost);
        }
        self.detect_losses(now, id, flight_before);
        if let (Coupling::Detected, AckPath::Any, Some(round_trip)) =
            (coupling, ack_path, rtt_report.round_trip)
        {
            coupled.on_round_trip(now, id, round_trip, &mut self.paths, constants);
        }
        let path = &mut self.paths[index];
        if let Some(reduction) = path.reduction.as_mut().filter(|_| path.recovery != Recovery::No) {
            reduction.on_progress(Progress {
                delivered: path_report.acked_bytes,
                flight_bytes: path.flight_bytes,
                target: path.controller.window(),
                mtu: pmdcs,
                is_safe: cum_advanced && path.lost_bytes == lost_before,
            });
        }
        self.settle_t3(now, id, path_report);
        if path_report.acked_bytes > 0 {
            self.arm_tail_probe(now, id);
        }
    }

    /// Chunks of this path were acknowledged: the path works, or the return path of the SACK does.
    fn on_path_acked(&mut self, received_on: PathId, id: PathId, path_report: &PathReport) {
        let path = &mut self.paths[usize::from(id.0)];
        //= specs/rfc7829.txt#section-3.2
        //# Acknowledgments for chunks that have been transmitted to
        //# multiple destinations (i.e., a chunk that has been retransmitted
        //# to a different destination address than the destination address
        //# to which the chunk was first transmitted) SHOULD NOT clear the
        //# error count for an inactive destination address and SHOULD NOT
        //# move a destination address in PF state back to active state,
        //# since a sender cannot disambiguate whether the ACK was for the
        //# original transmission or the retransmission(s).
        //= specs/rfc9260.txt#section-8.2
        //# When an outstanding TSN is acknowledged or a HEARTBEAT chunk sent to
        //# that address is acknowledged with a HEARTBEAT ACK chunk, the endpoint
        //# SHOULD clear the error counter of the destination transport address to
        //# which the DATA chunk was last sent (or HEARTBEAT chunk was sent) and
        if path_report.proves_path || path.state == PathState::Active {
            path.errors = 0;
            path.timeouts_unanswered = 0;
        }
        if path_report.proves_path && received_on == id {
            path.t3_unanswered = false;
        }
        if let Some(pmtu) = &mut path.pmtu {
            pmtu.on_large_arrived(path_report.largest_packet.into(), Time::ZERO);
            if let Some(newest) = path_report.newest {
                pmtu.on_large_arrived(newest.packet_bytes.into(), newest.sent_at);
            }
        }
        (path.probes_unanswered, path.packets_unanswered) = (0, 0);
        path.probe_due = false;
        if self.config.recovery.early_repair {
            path.rtt.end_back_off();
        }
        //= specs/rfc7829.txt#section-3.2
        //# Acknowledgments for data chunks that have been transmitted to
        //# one destination address only MUST clear the error counter for
        //# the destination address and MUST transition a destination
        //# address in PF state back to active state.
        if path_report.proves_path && matches!(path.state, PathState::Inactive | PathState::PotentiallyFailed)
        {
            path.state = PathState::Active;
            if let State::Up(up) = &mut self.state {
                up.sack_may_be_lost = true;
            }
            self.events.push_back(Event::Path(id, PathState::Active));
        }
    }

    /// Leaves recovery if everything outstanding at its start has arrived, or if its loss was spurious.
    fn leave_recovery(&mut self, now: Time, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        // With several paths, the earliest outstanding TSN of each path replaces the cumulative TSN.
        let done_up_to = if self.config.paths.multipath.is_some() && !uses_cmt_rules(&self.config) {
            up.sent.earliest(id).unwrap_or(up.sent.next_tsn()).minus(1)
        } else {
            up.sent.cum_tsn_ack_point()
        };
        let path = &mut self.paths[usize::from(id.0)];
        match path.recovery {
            //= specs/rfc9260.txt#section-6.2.1
            //# iv)   If the Cumulative TSN Ack matches or exceeds the Fast
            //# Recovery exit point (Section 7.2.4), Fast Recovery is
            //# exited.
            Recovery::Fast(exit) | Recovery::AfterTimeout(exit) if !exit.after(done_up_to) => {
                path.recovery = Recovery::No;
                path.reduction = None;
                if let Some(send_order) = &mut path.send_order {
                    send_order.window.on_recovered();
                }
            }
            _ => {}
        }
        self.undo_if_spurious(now, id);
    }

    /// Restarts or stops T3-rtx (RFC 9260 §6.3.2 R2 to R4).
    fn settle_t3(&mut self, now: Time, id: PathId, path_report: &PathReport) {
        let State::Up(up) = &mut self.state else { return };
        let restarts = match self.config.recovery.loss_detection {
            LossDetection::MissingReports => path_report.earliest_acked,
            // If lost retransmissions are detected by SACKs as well, T3-rtx only covers silence.
            LossDetection::SendOrder => path_report.acked_bytes > 0,
        };
        let t3 = Timer::T3Rtx(id);
        let path = &mut self.paths[usize::from(id.0)];
        if path.flight_bytes == 0 {
            path.probes_unanswered = 0;
            //= specs/rfc9260.txt#section-6.3.2
            //# R2)  Whenever all outstanding data sent to an address have been
            //# acknowledged, turn off the T3-rtx timer of that address.
            // Lost chunks that are not in flight are retransmitted in the next drain, which starts the
            // timer (R1).
            self.timers.stop(t3);
            self.timers.stop(Timer::TailProbe(id));
            self.timers.stop(Timer::Overdue(id));
        } else if restarts && up.sent.earliest(id).is_some() {
            //= specs/rfc9260.txt#section-6.3.2
            //# R3)  Whenever a SACK chunk is received that acknowledges the DATA
            //# chunk with the earliest outstanding TSN for that address,
            //# restart the T3-rtx timer for that address with its current RTO
            //# (if there is still outstanding data on that address).
            self.timers.arm(t3, now + path.t3_wait(&self.config));
        } else if path_report.reneged_bytes > 0 {
            //= specs/rfc9260.txt#section-6.3.2
            //# R4)  Whenever a SACK chunk is received missing a TSN that was
            //# previously acknowledged via a Gap Ack Block, start the T3-rtx
            //# for the destination address to which the DATA chunk was
            //# originally transmitted if it is not already running.
            self.timers.arm_if_idle(t3, now + path.t3_wait(&self.config));
        }
    }
}
