//! The effect of a loss on its path, however it was detected, and loss detection by the order of sending and the
//! tail loss probe, which the profile `modern` adds to RFC 9260's miss indications (RFC 9002 §6.1, RFC 8985 §7).

use std::time::Duration;

use braidftp_base::Time;
use braidftp_cc as cc;

use crate::association::Association;
use crate::association::multipath::uses_cmt_rules;
use crate::association::path::{Path, Recovery};
use crate::association::reduction::Reduction;
use crate::association::send_order::{Late, was_reported};
use crate::association::sent::{Report, Sent};
use crate::association::state::State;
use crate::association::timers::Timer;
use crate::config::LossRecovery;
use crate::ids::{PathId, Tsn};

impl Association {
    /// Chunks of a path were detected as lost (RFC 9260 §7.2.4).
    pub(super) fn on_loss(&mut self, now: Time, id: PathId, flight_before: usize, highest_lost: Option<Tsn>) {
        let State::Up(up) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        //= specs/rfc9260.txt#section-7.2.4
        //# While in Fast Recovery, the ssthresh
        //# and cwnd SHOULD NOT change for any destinations due to a
        //# subsequent Fast Recovery event (i.e., one SHOULD NOT reduce the
        //# cwnd further due to a subsequent Fast Retransmit).
        let multipath = uses_cmt_rules(&self.config);
        let one_packet = self.config.legacy.loss_recovery == LossRecovery::Rfc4960
            && self.config.paths.multipath.is_none();
        if one_packet {
            path.fast_retransmit_due = true;
            up.retransmissions_left = Some(1);
        }
        // With several paths, the cumulative TSN of one says little about another: a loss of data sent
        // after the last reduction reduces the window again.
        let past = match path.recovery {
            Recovery::No => true,
            Recovery::Fast(exit) | Recovery::AfterTimeout(exit) => {
                multipath && highest_lost.is_some_and(|lost| lost.after(exit))
            }
        };
        if !past {
            return;
        }
        path.between_losses = [0, path.between_losses[0]];
        // RFC 3168 §6.1.2: the window is reduced once per window of data, for a mark or a loss.
        if path.marked_up_to.is_none() {
            path.on_congestion(now, cc::Cause::Loss, flight_before);
            if self.config.recovery.undo_spurious && !multipath {
                path.spurious_loss.begin();
            }
        }
        let reduces =
            self.config.congestion.proportional_reduction && !multipath && !path.controller.counts_arrivals();
        path.reduction = reduces.then(|| Reduction::new(flight_before, path.flight_bytes));
        let exit = if multipath { up.sent.highest(id) } else { None };
        path.recovery = Recovery::Fast(exit.unwrap_or(up.sent.next_tsn().minus(1)));
        path.fast_retransmit_due = true;
        path.counters.fast_retransmits += 1;
    }

    /// Processes duplicate TSNs. If everything retransmitted because of a path's last loss or time-out had
    /// arrived, it was spurious, and the window is restored.
    pub(super) fn on_duplicates(&mut self, now: Time, tsns: &[Tsn]) {
        let several_ack_paths = self.has_several_ack_paths();
        let State::Up(up) = &mut self.state else { return };
        let several = self.config.paths.multipath.is_some();
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            // Retransmissions because of another path's loss prove nothing here.
            let others = |tsn: &Tsn| {
                let is_retransmitted =
                    |(at, path): (usize, &Path)| at != index && path.spurious_loss.is_retransmitted(*tsn);
                self.paths.iter().enumerate().any(is_retransmitted)
            };
            let own: Vec<Tsn>;
            let tsns = if several {
                let is_retransmitted = &self.paths[index].spurious_loss;
                own = tsns
                    .iter()
                    .copied()
                    .filter(|tsn| is_retransmitted.is_retransmitted(*tsn) || !others(tsn))
                    .collect();
                &own
            } else {
                tsns
            };
            let path = &mut self.paths[index];
            let round_trip = path.expected_rtt();
            if path.spurious_loss.on_duplicates(tsns)
                && !several_ack_paths
                && let Some(send_order) = &mut path.send_order
            {
                send_order.window.on_duplicate(now, round_trip);
            }
            path.undo_if_spurious(now, id, &up.sent);
        }
    }

    /// Takes the evidence of reordering in a SACK: chunks that arrived after later ones, and chunks that were
    /// retransmitted although they had arrived. If several paths are used at once, there is none: a chunk may
    /// have arrived by another path, on which it was sent again.
    pub(super) fn detect_reordering(&mut self, now: Time, id: PathId, report: &Report) {
        if self.has_several_ack_paths() {
            return;
        }
        let path_report = &report.paths[usize::from(id.0)];
        let State::Up(up) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        let round_trip = path.expected_rtt();
        if path_report.lost_arrived {
            path.spurious_loss.on_lost_arrived();
        }
        let (soonest, reported_up_to) = (path.soonest(), path.reported_up_to);
        let arrived_at = path.spurious_loss.on_sack(now, soonest, |tsn| up.sent.has_arrived(tsn));
        let Some(send_order) = &mut path.send_order else { return };
        if let Some(oldest) = path_report.oldest.filter(|oldest| was_reported(oldest.tsn, reported_up_to)) {
            send_order.on_reordering(now, oldest, round_trip);
        }
        if path_report.lost_arrived {
            send_order.window.on_lost_arrived();
        }
        if let Some(sent_at) = arrived_at {
            send_order.window.on_spurious(now.since(sent_at), round_trip);
        }
    }

    /// Restores a path's window if its last loss was spurious.
    pub(super) fn undo_if_spurious(&mut self, now: Time, id: PathId) {
        if let State::Up(up) = &mut self.state {
            self.paths[usize::from(id.0)].undo_if_spurious(now, id, &up.sent);
        }
    }

    /// Detects losses by send order, if configured.
    pub(super) fn detect_losses(&mut self, now: Time, id: PathId, flight_before: usize) {
        let State::Up(up) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        let round_trip = path.expected_rtt();
        let Some(send_order) = &mut path.send_order else { return };
        let late = Late { now, round_trip, reported_up_to: path.reported_up_to };
        let found = send_order.detect(&mut up.sent, id, late);
        path.flight_bytes -= found.left_flight_bytes;
        match found.overdue_at {
            Some(at) => self.timers.arm(Timer::Overdue(id), at),
            None => self.timers.stop(Timer::Overdue(id)),
        }
        if found.lost_bytes > 0 {
            send_order.window.on_lost();
            path.on_lost(now, found.lost_bytes, found.lost_sent_at);
            self.on_loss(now, id, flight_before, None);
        }
    }
}

impl Path {
    /// The RTT after which an acknowledgement is expected.
    fn expected_rtt(&self) -> Duration {
        self.rtt.srtt().unwrap_or(self.rtt.rto()).max(self.latest_rtt)
    }

    /// Restores the window if all that was marked lost had arrived.
    fn undo_if_spurious(&mut self, now: Time, id: PathId, sent: &Sent) {
        if !self.spurious_loss.is_proven() || sent.lost().any(|(_, sent_on)| sent_on == id) {
            return;
        }
        self.spurious_loss.forget();
        self.recovery = Recovery::No;
        self.reduction = None;
        self.fast_retransmit_due = false;
        self.counters.undone += 1;
        let (flight_bytes, mtu) = (self.flight_bytes, self.pmdcs());
        self.controller.on_spurious(cc::Spurious { now, flight_bytes, mtu });
    }
}
