//! RACK-TLP (RFC 8985) with SACK: loss detection by time, and tail loss probes.
//!
//! A segment is lost once a segment sent after it was delivered and more than a round trip plus the
//! reordering window passed since it was sent. RACK thus detects lost retransmissions too. Not implemented:
//! the adaptation of the reordering window by D-SACK (§6.2 step 4), because the receiver of this crate does
//! not send D-SACKs; reo_wnd keeps its initial value.

use std::time::Duration;

use braidftp_base::Time;

use super::{Outgoing, Recovery, Sender, Sent};
use crate::config::{Config, LossDetection};
use crate::stats::Counters;

/// The variables of RACK (RFC 8985 §5.2, §5.3).
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// RACK.xmit_ts and RACK.end_seq: send time and end of the most recently sent segment that was delivered.
    sent_at: Time,
    end: u64,
    /// The RTT of that segment, and the minimum RTT.
    rtt: Duration,
    min_rtt: Duration,
    /// RACK.fack: the highest delivered offset, and its value before this acknowledgement.
    fack: u64,
    fack_before: u64,
    /// The RTT of the most recently sent segment among those that this acknowledgement newly covers.
    latest: Option<Duration>,
    /// [`Config::rack_takes_any_rtt`].
    takes_any_rtt: bool,
    reordering_seen: bool,
    /// When the reordering timer expires.
    pub(super) reorder_deadline: Option<Time>,
    /// When the tail loss probe is sent.
    pub(super) probe_at: Option<Time>,
    /// The outstanding probe: SND.NXT when it was sent, and its kind.
    probe: Option<(u64, Probe)>,
    /// The probe is to be sent on the next `poll`.
    probe_due: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    New,
    Retransmission,
}

impl Rack {
    pub(super) fn new(config: &Config) -> Self {
        Self {
            takes_any_rtt: config.rack_takes_any_rtt,
            sent_at: Time::ZERO,
            end: 0,
            rtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            fack: 0,
            fack_before: 0,
            latest: None,
            reordering_seen: false,
            reorder_deadline: None,
            probe_at: None,
            probe: None,
            probe_due: false,
        }
    }

    pub(super) fn on_ack(&mut self) {
        self.fack_before = self.fack;
        self.latest = None;
    }

    pub(super) fn latest_round_trip(&self) -> Option<Duration> {
        self.latest
    }

    /// A segment was delivered (§6.2 steps 1 to 3).
    pub(super) fn on_arrival(&mut self, now: Time, sent: &Sent) {
        let rtt = now.since(sent.sent_at);
        if sent.times > 1 && rtt < self.min_rtt {
            // More likely the acknowledgement of the original transmission.
            return;
        }
        if sent.times == 1 {
            self.min_rtt = self.min_rtt.min(rtt);
            self.reordering_seen |= sent.end < self.fack_before;
        }
        self.latest = Some(self.latest.map_or(rtt, |latest| latest.min(rtt)));
        self.fack = self.fack.max(sent.end);
        if (sent.sent_at, sent.end) > (self.sent_at, self.end) {
            (self.sent_at, self.end, self.rtt) = (sent.sent_at, sent.end, rtt);
        } else if self.takes_any_rtt {
            self.rtt = rtt;
        }
    }
}

impl Sender {
    /// Whether RACK is in use; it requires SACK.
    pub(super) fn by_time(&self, config: &Config) -> bool {
        self.sack && config.loss_detection == LossDetection::Time
    }

    fn reorder_window(&self, config: &Config) -> Duration {
        let sure =
            self.recovery != Recovery::No || self.sacked_segments >= u32::from(config.dup_threshold.get());
        match sure && !self.rack.reordering_seen {
            true => Duration::ZERO,
            false => (self.rack.min_rtt / 4).min(self.rto.srtt().unwrap_or_default()),
        }
    }

    /// Marks lost segments (§6.2 step 5); returns whether it marked any.
    pub(super) fn detect_loss_by_time(&mut self, config: &Config, now: Time) -> bool {
        self.rack.reorder_deadline = None;
        if self.rack.end <= self.una && self.sacked_segments == 0 && self.rack.fack <= self.una {
            // All delivered data is acknowledged without a gap. The outstanding segments were sent later,
            // except retransmissions, which are at the front.
            if self.sent.front().is_none_or(|first| first.times == 1) {
                return false;
            }
        }
        let allowed = self.rack.rtt + self.reorder_window(config);
        let (mut found, mut last) = (false, None);
        for index in 0..self.sent.len() {
            let sent = &self.sent[index];
            if (sent.sent_at, sent.end) >= (self.rack.sent_at, self.rack.end) {
                if sent.times == 1 {
                    // The segments after this one were sent even later.
                    break;
                }
                continue;
            }
            if sent.sacked || sent.lost && !sent.repaired {
                continue;
            }
            let reorder_deadline = sent.sent_at + allowed;
            if reorder_deadline <= now {
                self.lose(index);
                found = true;
            } else {
                self.rack.reorder_deadline = Some(
                    self.rack
                        .reorder_deadline
                        .map_or(reorder_deadline, |earlier| earlier.min(reorder_deadline)),
                );
                last = last.max(Some(reorder_deadline));
            }
        }
        if let Some(last) = last.filter(|_| !config.wheel_tick.is_zero()) {
            // Step 5 in words of the RFC: the timer waits for the last of them.
            let wait = last.since(now) + config.timer_margin;
            self.rack.reorder_deadline = Some(self.rto.deadline(now, wait));
        }
        found
    }

    /// Handles the expiry of the reordering timer.
    pub(crate) fn on_reorder_timeout(&mut self, config: &Config, now: Time, counters: &mut Counters) {
        if self.rack.reorder_deadline.is_some_and(|at| at <= now) && self.detect_loss_by_time(config, now) {
            self.report_lost(now);
            self.on_losses(config, now, counters);
        }
    }

    /// Schedules the tail loss probe (§7.2).
    pub(super) fn schedule_probe(&mut self, config: &Config, now: Time) {
        self.rack.probe_at = None;
        let quiet = self.recovery == Recovery::No && self.sacked_segments == 0 && self.rack.probe.is_none();
        if !config.tail_loss_probe || !self.sack || !quiet || self.sent.is_empty() {
            return;
        }
        let wait = match self.rto.srtt() {
            Some(srtt) if self.sent.len() == 1 => 2 * srtt + config.probe_ack_delay,
            Some(srtt) => 2 * srtt + config.timer_margin,
            None => Duration::from_secs(1),
        };
        let at = self.rto.deadline(now, wait);
        self.rack.probe_at = Some(self.rto_at.map_or(at, |rto_at| at.min(rto_at)));
    }

    /// Handles the expiry of the probe timer; the next `poll` sends the probe.
    pub(crate) fn expire_probe(&mut self, now: Time) {
        if self.rack.probe_at.is_some_and(|at| at <= now) {
            self.rack.probe_at = None;
            self.rack.probe_due = !self.sent.is_empty();
        }
    }

    /// Returns the tail loss probe (§7.3): new data if there is any and the peer's window allows it, else the
    /// last segment.
    pub(super) fn take_tail_probe(&mut self, now: Time, counters: &mut Counters) -> Option<Outgoing> {
        if !std::mem::take(&mut self.rack.probe_due) || self.sent.is_empty() || self.recovery != Recovery::No
        {
            return None;
        }
        counters.tail_probes += 1;
        let new = (self.all() - self.next).min(self.mss as u64).min(self.edge.saturating_sub(self.next));
        let (segment, probe) = if new > 0 && self.next < self.queue.end() {
            let end = (self.next + new).min(self.queue.end());
            let segment = Outgoing { start: self.next, end };
            counters.data_segments_sent += 1;
            self.send_new(now, segment);
            (segment, Probe::New)
        } else {
            let last = self.sent.iter().rposition(|sent| !sent.sacked)?;
            counters.retransmissions += 1;
            (self.retransmit(now, last), Probe::Retransmission)
        };
        self.rack.probe = Some((self.next, probe));
        self.rack.probe_at = None;
        self.rto_at = Some(self.rto.deadline(now, self.rto.current()));
        Some(segment)
    }

    /// Processes an acknowledgement of the probe (§7.4); returns whether the probe repaired a loss that is
    /// not detected otherwise.
    pub(super) fn process_probe_ack(&mut self, ack: u64, is_plain_duplicate: bool) -> bool {
        let Some((end, probe)) = self.rack.probe else { return false };
        if ack < end && !(probe == Probe::Retransmission && is_plain_duplicate && ack == end) {
            return false;
        }
        match probe {
            Probe::New => {
                self.rack.probe = None;
                false
            }
            // The original and the probe both arrived.
            Probe::Retransmission if is_plain_duplicate => {
                self.rack.probe = None;
                false
            }
            // Data beyond the probe was acknowledged without a duplicate for the probe: the original was
            // lost.
            Probe::Retransmission if ack > end => {
                self.rack.probe = None;
                true
            }
            Probe::Retransmission => false,
        }
    }

    pub(super) fn forget_probe(&mut self) {
        self.rack.probe = None;
        self.rack.probe_at = None;
        self.rack.probe_due = false;
        self.rack.reorder_deadline = None;
    }
}
