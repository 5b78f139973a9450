//! Loss detection by duplicates, fast recovery and time-outs (RFC 5681 §3.2, RFC 6582, RFC 6675, RFC 5827,
//! RFC 6937).

use braidftp_base::Time;
use braidftp_cc as cc;

use super::{Acknowledgement, Found, Recovery, Sender, Sent};
use crate::config::{Config, Halve, RecoverRule};
use crate::stats::Counters;

/// The variables of Proportional Rate Reduction (RFC 6937 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Prr {
    /// RecoverFS: the flight size when the recovery began.
    flight: u64,
    delivered: u64,
    pub(super) out: u64,
    /// The limit of pipe until the next acknowledgement.
    pub(super) window: u64,
}

impl Sender {
    /// Detects losses from an acknowledgement, after SND.UNA was advanced.
    pub(super) fn detect_losses(
        &mut self,
        config: &Config,
        ack: &Acknowledgement<'_>,
        found: Found,
        counters: &mut Counters,
    ) {
        let Found { bytes, newly_sacked, window_moved } = found;
        let sacked_before = self.sacked_bytes - newly_sacked;
        if bytes > 0 {
            self.dup_acks = 0;
            self.on_progress(ack.now, bytes);
        }
        let by_time = self.by_time(config);
        let more_lost = match self.sack {
            true if by_time => self.detect_loss_by_time(config, ack.now),
            true => self.mark_lost(),
            false => false,
        };
        let is_plain_duplicate =
            bytes == 0 && ack.bare && !window_moved && self.una < self.next && ack.sacked.is_empty();
        if self.process_probe_ack(ack.ack, is_plain_duplicate) && self.recovery == Recovery::No {
            // RFC 8985 §7.4.2: the probe repaired a loss, which still requires a congestion response.
            self.congestion(config, cc::Cause::Loss, ack.now);
        }
        let is_dup = match self.sack {
            // RFC 6675 §2: a duplicate is any segment that SACKs new data.
            true => newly_sacked > 0,
            // RFC 5681 §2.
            false => bytes == 0 && ack.bare && !window_moved && self.una < self.next,
        };
        if is_dup {
            counters.dup_acks_received += 1;
            self.dup_acks += 1;
        }
        match &mut self.recovery {
            Recovery::NewReno { window, .. } => *window += if is_dup { self.mss } else { 0 },
            Recovery::Sack { .. } => {
                self.reduce(bytes + newly_sacked, sacked_before, bytes > 0 && !more_lost)
            }
            Recovery::Timeout { .. } if !self.sack || by_time => {}
            Recovery::No | Recovery::Timeout { .. } if by_time => {
                if self.lost_unrepaired > 0 {
                    self.on_losses(config, ack.now, counters);
                }
            }
            Recovery::No | Recovery::Timeout { .. } => {
                let enough = self.dup_acks >= self.dup_threshold(config)
                    || self.sack && self.sent.front().is_some_and(|first| first.lost && !first.repaired);
                if is_dup && enough && !self.is_same_loss_event(config) {
                    self.lose(0);
                    self.on_losses(config, ack.now, counters);
                }
            }
        }
        self.report_lost(ack.now);
    }

    /// Reports newly lost bytes to the controller.
    pub(super) fn report_lost(&mut self, now: Time) {
        let bytes = std::mem::take(&mut self.newly_lost) as usize;
        let sent_at = std::mem::take(&mut self.newly_lost_sent_at);
        if bytes > 0 {
            self.cc.on_lost(cc::Lost { now, bytes, sent_at, flight_bytes: self.pipe(), mtu: self.mss });
        }
    }

    /// Whether duplicates belong to losses that a recovery or time-out has handled: one reduction per flight
    /// (RFC 6582 §3.2 step 2, RFC 6675 §5).
    fn is_same_loss_event(&self, config: &Config) -> bool {
        let more = !self.sack && config.recover_rule == RecoverRule::CoversMore && self.recover > 0;
        self.una < self.recover || more && self.una == self.recover
    }

    /// Starts a recovery for losses detected without a time-out, unless one is in progress.
    pub(super) fn on_losses(&mut self, config: &Config, now: Time, counters: &mut Counters) {
        if self.recovery == Recovery::No
            || matches!(self.recovery, Recovery::Timeout { .. }) && !self.by_time(config)
        {
            self.enter_recovery(config, now);
            counters.fast_retransmits += 1;
        }
    }

    /// Computes how much Proportional Rate Reduction allows to be sent now (RFC 6937 §3).
    fn reduce(&mut self, arrived: u64, sacked_before: u64, is_safe: bool) {
        let (pipe, ssthresh, mss) = (self.pipe, self.cc.ssthresh() as u64, self.mss as u64);
        let Recovery::Sack { prr: Some(prr), .. } = &mut self.recovery else { return };
        // Data acknowledged cumulatively may have been selectively acknowledged before.
        let delivered = (arrived + self.sacked_bytes).saturating_sub(sacked_before).min(arrived);
        prr.delivered += delivered;
        let room = if pipe > ssthresh {
            (prr.delivered * ssthresh).div_ceil(prr.flight.max(1)).saturating_sub(prr.out)
        } else {
            // RFC 9937: one extra segment only if no further segment was lost.
            let limit = prr.delivered.saturating_sub(prr.out).max(delivered) + if is_safe { mss } else { 0 };
            limit.min(ssthresh - pipe)
        };
        prr.window = pipe + room;
    }

    /// DupThresh, lowered by Early Retransmit (RFC 5827 §3.2).
    fn dup_threshold(&self, config: &Config) -> u32 {
        let threshold = u32::from(config.dup_threshold.get());
        let more = self.all() > self.next && self.last_to_send(config) > self.next;
        match self.sent.len() as u32 {
            segments @ 2..=3 if config.early_retransmit && !more => threshold.min(segments - 1),
            _ => threshold,
        }
    }

    /// Updates the recovery after new data was acknowledged.
    pub(super) fn on_progress(&mut self, now: Time, bytes: u64) {
        let una = self.una;
        let over = match &mut self.recovery {
            Recovery::No => false,
            Recovery::Sack { recover, .. } | Recovery::Timeout { recover } => una >= *recover,
            Recovery::NewReno { recover, .. } if una >= *recover => true,
            Recovery::NewReno { window, partial_acks, .. } => {
                // A partial acknowledgement (RFC 6582 §3.2 step 3): retransmit the next hole and deflate the
                // window.
                *partial_acks += 1;
                *window = window.saturating_sub(bytes as usize).max(self.mss);
                if bytes as usize >= self.mss {
                    *window += self.mss;
                }
                self.lose(0);
                self.forced = true;
                false
            }
        };
        if over {
            let was = std::mem::replace(&mut self.recovery, Recovery::No);
            if matches!(was, Recovery::NewReno { .. }) {
                let recovered = cc::Recovered { now, flight_bytes: self.outstanding(), mtu: self.mss };
                self.cc.on_recovered(recovered);
            }
        }
    }

    fn enter_recovery(&mut self, config: &Config, now: Time) {
        let recover = self.next;
        let flight = self.outstanding() as u64 - self.sacked_bytes;
        self.report_lost(now);
        self.congestion(config, cc::Cause::Loss, now);
        self.recover = recover;
        self.forced = true;
        self.forget_probe();
        self.recovery = match self.sack {
            true => {
                let prr = Prr { flight, delivered: 0, out: 0, window: 0 };
                // A controller that counts arrivals has its own window for recovery.
                let reduces = config.proportional_reduction && !self.cc.counts_arrivals();
                Recovery::Sack { recover, rescue: None, prr: reduces.then_some(prr) }
            }
            false => Recovery::NewReno {
                recover,
                window: self.cc.window() + usize::from(config.dup_threshold.get()) * self.mss,
                partial_acks: 0,
            },
        };
    }

    pub(super) fn congestion(&mut self, config: &Config, cause: cc::Cause, now: Time) {
        let flight_bytes = match config.halve {
            Halve::Flight => self.outstanding(),
            Halve::Window => {
                // BSD halves whole segments.
                let window = self.cc.window().min(self.peer_window());
                window / 2 / self.mss * self.mss * 2
            }
        };
        self.cc.on_congestion(cc::Congestion { cause, now, flight_bytes, mtu: self.mss });
    }

    /// Declares the segment at an index lost.
    pub(super) fn lose(&mut self, index: usize) {
        let Some(sent) = self.sent.get_mut(index) else { return };
        if sent.sacked {
            return;
        }
        if !sent.lost || sent.repaired {
            self.newly_lost += sent.len();
            self.newly_lost_sent_at = self.newly_lost_sent_at.max(sent.sent_at);
        }
        self.pipe -= sent.pipe();
        self.lost_unrepaired += usize::from(!sent.lost || sent.repaired);
        sent.lost = true;
        sent.repaired = false;
        self.lost_from = self.lost_from.min(index);
    }

    /// IsLost (RFC 6675 §4) for all segments at once: a segment is lost if enough data above it was
    /// selectively acknowledged. Returns whether a segment was newly declared lost.
    fn mark_lost(&mut self) -> bool {
        if self.high_sacked <= self.una {
            return false;
        }
        // From the top: find the offset above which enough data was selectively acknowledged.
        let (mut bytes, mut segments, mut edge) = (0, 0, self.lost_edge);
        let top = self.sent.partition_point(|sent| sent.end <= self.high_sacked);
        for sent in self.sent.iter().take(top).rev() {
            if sent.start < self.lost_edge {
                break;
            }
            if sent.sacked {
                // The FIN is not a byte of data.
                bytes += sent.len() - u64::from(self.fin.is_some_and(|fin| sent.end > fin));
                segments += 1;
                if segments >= 3 || bytes > 2 * self.mss as u64 {
                    edge = sent.start;
                    break;
                }
            }
        }
        if edge <= self.lost_edge {
            return false;
        }
        let from = self.sent.partition_point(|sent| sent.start < self.lost_edge);
        self.lost_edge = edge;
        let mut found = false;
        for index in from..self.sent.len() {
            let sent = &self.sent[index];
            if sent.start >= edge {
                break;
            }
            if !sent.sacked && !sent.lost {
                self.lose(index);
                found = true;
            }
        }
        found
    }

    /// NextSeg 3 and 4 of RFC 6675 §4: used when no segment is known to be lost and no new data can be sent.
    pub(super) fn next_rescue(&mut self, config: &Config) -> Option<usize> {
        let Recovery::Sack { rescue, prr, .. } = self.recovery else { return None };
        if self.all() > self.next && self.last_to_send(config) > self.next || self.sent.is_empty() {
            return None;
        }
        let window = prr.map_or(self.window() as u64, |prr| prr.window);
        if self.pipe + self.mss as u64 > window {
            return None;
        }
        let below = self.sent.partition_point(|sent| sent.end < self.high_sacked);
        let hole = |sent: &Sent| !sent.sacked && !sent.lost && !sent.repaired;
        if let Some(index) = self.sent.iter().take(below).position(hole) {
            return Some(index);
        }
        if rescue.is_none_or(|rescue| self.una > rescue) {
            let last = self.sent.iter().rposition(|sent| !sent.sacked)?;
            let next = self.next;
            if let Recovery::Sack { rescue, .. } = &mut self.recovery {
                *rescue = Some(next);
            }
            return Some(last).filter(|last| !self.sent[*last].repaired);
        }
        None
    }

    /// Handles the expiry of the retransmission timer: all outstanding data is retransmitted (RFC 5681 §3.1,
    /// RFC 6298 §5.4 to §5.6).
    pub(crate) fn on_timeout(&mut self, config: &Config, now: Time) {
        self.timeouts += 1;
        for sent in self.sent.iter().filter(|sent| !sent.sacked && (!sent.lost || sent.repaired)) {
            self.newly_lost += sent.len();
            self.newly_lost_sent_at = self.newly_lost_sent_at.max(sent.sent_at);
        }
        self.pipe = 0;
        self.report_lost(now);
        if self.timeouts == 1 || config.halve == Halve::Window {
            self.congestion(config, cc::Cause::Timeout, now);
        }
        self.rto.back_off();
        self.timed = None;
        self.dup_acks = 0;
        self.forced = false;
        self.forget_probe();
        self.known_blocks = [0..0, 0..0, 0..0, 0..0];
        if config.timeout_clears_sack {
            self.sacked_bytes = 0;
            self.sacked_segments = 0;
            self.high_sacked = self.una;
            self.sent.iter_mut().for_each(|sent| sent.sacked = false);
        }
        self.lost_edge = self.una;
        self.lost_from = 0;
        self.lost_unrepaired = 0;
        for sent in &mut self.sent {
            sent.lost = !sent.sacked;
            sent.repaired = false;
            self.lost_unrepaired += usize::from(sent.lost);
        }
        self.recover = self.next;
        self.recovery = Recovery::Timeout { recover: self.next };
        self.rto_at = Some(self.rto.deadline(now, self.rto.current()));
    }

    /// Recomputes every counter and asserts that it matches.
    pub(crate) fn check(&self) {
        assert!(self.una <= self.next && self.next <= self.all());
        let (mut at, mut pipe, mut lost, mut sacked, mut segments) = (self.una, 0, 0, 0, 0);
        for sent in &self.sent {
            assert_eq!(sent.start, at, "outstanding segments are contiguous");
            at = sent.end;
            pipe += sent.pipe();
            lost += usize::from(sent.lost && !sent.repaired && !sent.sacked);
            sacked += if sent.sacked { sent.len() } else { 0 };
            segments += u32::from(sent.sacked);
        }
        assert_eq!(at, self.next, "outstanding segments end at SND.NXT");
        assert_eq!(pipe, self.pipe, "pipe is the sum over the segments");
        assert_eq!(lost, self.lost_unrepaired);
        assert_eq!((sacked, segments), (self.sacked_bytes, self.sacked_segments));
        let earlier = self.sent.iter().take(self.lost_from);
        assert_eq!(earlier.filter(|sent| sent.lost && !sent.repaired && !sent.sacked).count(), 0);
        if !self.sent.is_empty() {
            assert!(self.rto_at.is_some(), "the retransmission timer runs while data is outstanding");
        }
    }
}
