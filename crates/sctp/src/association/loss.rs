//! The effect of a loss on its path, however it was detected, and loss detection by the order of sending and the
//! tail loss probe, which the profile `modern` adds to RFC 9260's miss indications (RFC 9002 §6.1, RFC 8985 §7).

use braidftp_base::Time;
use braidftp_cc as cc;

use crate::association::Association;
use crate::association::multipath::uses_cmt_rules;
use crate::association::path::{Path, Recovery};
use crate::association::reduction::Reduction;
use crate::association::send_order::Late;
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

    /// Processes duplicate TSNs. If they include everything retransmitted because of a path's last loss or
    /// time-out, it was spurious, and the window is restored.
    pub(super) fn on_duplicates(&mut self, now: Time, tsns: &[Tsn]) {
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
            if !path.spurious_loss.on_duplicates(tsns) || up.sent.lost().any(|(_, sent_on)| sent_on == id) {
                continue;
            }
            path.spurious_loss.forget();
            path.recovery = Recovery::No;
            path.reduction = None;
            path.fast_retransmit_due = false;
            path.counters.undone += 1;
            let (flight_bytes, mtu) = (path.flight_bytes, path.pmdcs());
            path.controller.on_spurious(cc::Spurious { now, flight_bytes, mtu });
        }
    }

    /// Detects losses by send order, if configured.
    pub(super) fn detect_losses(&mut self, now: Time, id: PathId, flight_before: usize) {
        let State::Up(up) = &mut self.state else { return };
        let path = &mut self.paths[usize::from(id.0)];
        let Some(send_order) = &mut path.send_order else { return };
        let round_trip = path.rtt.srtt().unwrap_or(path.rtt.rto()).max(path.latest_rtt);
        let late = Late { now, round_trip, reported_up_to: path.reported_up_to };
        let found = send_order.detect(&mut up.sent, id, late);
        path.flight_bytes -= found.left_flight_bytes;
        match found.overdue_at {
            Some(at) => self.timers.arm(Timer::Overdue(id), at),
            None => self.timers.stop(Timer::Overdue(id)),
        }
        if found.lost_bytes > 0 {
            path.on_lost(now, found.lost_bytes, found.lost_sent_at);
            self.on_loss(now, id, flight_before, None);
        }
    }
}
