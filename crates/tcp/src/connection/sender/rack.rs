//! Losses found by time, and the probe at the tail: RACK-TLP (RFC 8985), with SACK.
//!
//! A segment is lost when one that left after it has arrived and a round trip and a little more have passed since it left.
//! So a retransmission that is lost is found too. Not here: what D-SACK would tell of the reordering (§6.2 step 4), which
//! the receiver of this crate does not send; reo_wnd stays at its first width.

use std::time::Duration;

use braidftp_base::Time;

use super::{Outgoing, Recovery, Sender, Sent};
use crate::config::{Config, LossDetection};
use crate::stats::Counters;

/// What RACK keeps (RFC 8985 §5.2, §5.3).
#[derive(Debug, Clone)]
pub(crate) struct Rack {
    /// Of the segment that left last among those that arrived: when, and its end.
    sent_at: Time,
    end: u64,
    /// Its round trip, and the shortest of all.
    rtt: Duration,
    min_rtt: Duration,
    /// The highest that arrived, and what it was before this acknowledgement.
    fack: u64,
    fack_before: u64,
    /// The round trip of what left last among that of which this acknowledgement newly tells.
    latest: Option<Duration>,
    reordering_seen: bool,
    /// When a segment that is late is lost.
    pub(super) late_at: Option<Time>,
    /// When the tail is probed.
    pub(super) probe_at: Option<Time>,
    /// The probe in flight: SND.NXT when it left, and whether it was sent before.
    probe: Option<(u64, Probe)>,
    /// The tail is to be probed now.
    probe_due: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Probe {
    New,
    Again,
}

impl Rack {
    pub(super) fn new() -> Self {
        Self {
            sent_at: Time::ZERO,
            end: 0,
            rtt: Duration::ZERO,
            min_rtt: Duration::MAX,
            fack: 0,
            fack_before: 0,
            latest: None,
            reordering_seen: false,
            late_at: None,
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

    /// A segment arrived (§6.2 steps 1 to 3).
    pub(super) fn on_arrival(&mut self, now: Time, sent: &Sent) {
        let rtt = now.since(sent.sent_at);
        if sent.times > 1 && rtt < self.min_rtt {
            // The first of its copies, more likely.
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
        }
    }
}

impl Sender {
    /// Whether losses are found by time: that needs SACK.
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

    /// Marks what is lost by now (§6.2 step 5); gives whether anything was.
    pub(super) fn mark_late(&mut self, config: &Config, now: Time) -> bool {
        self.rack.late_at = None;
        if self.rack.end <= self.una && self.sacked_segments == 0 && self.rack.fack <= self.una {
            // All that arrived is acknowledged, and nothing behind a gap: what is in flight left later, but for what was
            // sent again, and that is ahead of it.
            if self.sent.front().is_none_or(|first| first.times == 1) {
                return false;
            }
        }
        let allowed = self.rack.rtt + self.reorder_window(config);
        let mut found = false;
        for index in 0..self.sent.len() {
            let sent = &self.sent[index];
            if (sent.sent_at, sent.end) >= (self.rack.sent_at, self.rack.end) {
                if sent.times == 1 {
                    // Those behind it left still later.
                    break;
                }
                continue;
            }
            if sent.sacked || sent.lost && !sent.repaired {
                continue;
            }
            let late_at = sent.sent_at + allowed;
            if late_at <= now {
                self.lose(index);
                found = true;
            } else {
                self.rack.late_at = Some(self.rack.late_at.map_or(late_at, |earlier| earlier.min(late_at)));
            }
        }
        found
    }

    /// A segment that was late may be lost by now.
    pub(crate) fn expire_late(&mut self, config: &Config, now: Time, counters: &mut Counters) {
        if self.rack.late_at.is_some_and(|at| at <= now) && self.mark_late(config, now) {
            self.tell_lost(now);
            self.on_losses(config, now, counters);
        }
    }

    /// When the tail is to be probed, if nothing is heard (§7.2).
    pub(super) fn schedule_probe(&mut self, config: &Config, now: Time) {
        self.rack.probe_at = None;
        let quiet = self.recovery == Recovery::No && self.sacked_segments == 0 && self.rack.probe.is_none();
        if !config.tail_loss_probe || !self.sack || !quiet || self.sent.is_empty() {
            return;
        }
        let wait = match self.rto.srtt() {
            Some(srtt) if self.sent.len() == 1 => 2 * srtt + config.probe_ack_delay,
            Some(srtt) => 2 * srtt,
            None => Duration::from_secs(1),
        };
        let at = now + wait;
        self.rack.probe_at = Some(self.rto_at.map_or(at, |rto_at| at.min(rto_at)));
    }

    /// Whether the tail is to be probed by now; if so the next drain does.
    pub(crate) fn expire_probe(&mut self, now: Time) {
        if self.rack.probe_at.is_some_and(|at| at <= now) {
            self.rack.probe_at = None;
            self.rack.probe_due = !self.sent.is_empty();
        }
    }

    /// The probe of the tail (§7.3): something new if there is any and the peer has room, else the last again.
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
            (self.send_again(now, last), Probe::Again)
        };
        self.rack.probe = Some((self.next, probe));
        self.rack.probe_at = None;
        self.rto_at = Some(self.rto.deadline(now, self.rto.current()));
        Some(segment)
    }

    /// What an acknowledgement says of the probe (§7.4); whether the probe repaired a loss that nobody else will tell of.
    pub(super) fn settle_probe(&mut self, ack: u64, is_plain_duplicate: bool) -> bool {
        let Some((end, probe)) = self.rack.probe else { return false };
        if ack < end && !(probe == Probe::Again && is_plain_duplicate && ack == end) {
            return false;
        }
        match probe {
            Probe::New => {
                self.rack.probe = None;
                false
            }
            // Both copies arrived.
            Probe::Again if is_plain_duplicate => {
                self.rack.probe = None;
                false
            }
            // More than was outstanding then, and no word of a second copy: the first was lost.
            Probe::Again if ack > end => {
                self.rack.probe = None;
                true
            }
            Probe::Again => false,
        }
    }

    pub(super) fn forget_probe(&mut self) {
        self.rack.probe = None;
        self.rack.probe_at = None;
        self.rack.probe_due = false;
        self.rack.late_at = None;
    }
}
