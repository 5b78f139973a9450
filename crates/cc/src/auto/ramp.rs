//! The ramp: exponential growth at the start of a flow, up to the capacity of the path.

use std::time::Duration;

use braidftp_base::Time;

use super::model::bytes_in;
use super::{Auto, Constants, Mode, WINDOW_MAX};
use crate::Ack;
use crate::hystart::{Advice, HyStart, rtt_threshold};

/// Exponential growth up to the capacity of the path.
#[derive(Debug, Clone, Default)]
pub(super) struct Ramp {
    hystart: HyStart,
    pub(super) train: Train,
    pub(super) round: Round,
    /// The highest rate so far in bytes per second, and the number of round trips since it grew by an eighth.
    rate: u64,
    stalled: u32,
    /// The number of round trips with a longer RTT than before.
    waiting: u32,
    /// The lowest score so far: at the end of a ramp the queue grows with the window, and every loss looks
    /// like congestion.
    pub(super) score: i32,
    /// Whether the model started this ramp after finding more capacity.
    again: bool,
}

/// The acknowledgements of the current round trip.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Round {
    /// When the first one arrived, and the bytes in flight before it.
    began: Time,
    flight: usize,
    /// The bytes that the following ones cover.
    bytes: usize,
}

/// The acknowledgements of the first flight, which was sent in one burst: their spacing shows the rate of the
/// path.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Train {
    /// When the burst was sent.
    sent_at: Option<Time>,
    /// When its first acknowledgement arrived.
    pub(super) first_at: Option<Time>,
    /// The bytes that the first acknowledgement covers, and those of the following ones.
    first_bytes: usize,
    bytes: usize,
    over: bool,
    /// The rate in bytes per second.
    pub(super) rate: u64,
}

impl Ramp {
    /// A ramp that the model starts after finding more capacity.
    pub(super) fn again() -> Self {
        Self { again: true, ..Self::default() }
    }

    /// The growth per round trip in hundredths, and the window it applies to, up to the window `carried` that the train's rate implies.
    fn growth_to_train(
        &self,
        carried: usize,
        aim: usize,
        initial: usize,
        constants: &Constants,
    ) -> (usize, usize) {
        let before = self.round.flight.max(initial);
        let aim = if before < carried / constants.tried { carried / 4 } else { aim };
        ((100 * aim / before.max(1)).clamp(200, constants.ramp_max), before)
    }
}

impl Train {
    /// A packet was sent: `flight` bytes are in flight now.
    pub(super) fn on_sent(&mut self, now: Time, flight: usize, mtu: usize) {
        // Data sent with a handshake, and small messages, are no burst.
        self.sent_at = (flight > 4 * mtu).then_some(self.sent_at.unwrap_or(now));
    }

    /// Whether an acknowledgement is for data of the burst, and not for small messages before it that were still in flight.
    fn is_of_burst(&self, ack: &Ack<'_>) -> bool {
        self.sent_at
            .zip(ack.rtt.or(ack.cross_path_age))
            .is_some_and(|(sent_at, age)| ack.now >= sent_at + age)
    }

    /// Returns the bytes by which the window may grow: those of this acknowledgement, and at the first known
    /// rate those of the earlier acknowledgements too.
    fn on_ack(&mut self, ack: &Ack<'_>, round: bool) -> usize {
        let Some(first_at) = self.first_at else {
            if self.is_of_burst(ack) {
                (self.first_at, self.first_bytes) = (Some(ack.now), ack.bytes);
            }
            return ack.bytes;
        };
        // Acknowledgements that return on a clearly shorter path are spaced by that path.
        let is_shorter = |(took, srtt): (Duration, Duration)| took < srtt / 4 * 3;
        self.over |= round || ack.cross_path_age.zip(ack.srtt).is_some_and(is_shorter);
        if self.over {
            return ack.bytes;
        }
        self.bytes = self.bytes.saturating_add(ack.bytes);
        let nanos = ack.now.since(first_at).as_nanos();
        if self.bytes < 4 * ack.mtu || nanos == 0 {
            return ack.bytes;
        }
        let is_first = self.rate == 0;
        let rate = self.bytes as u128 * 1_000_000_000 / nanos;
        self.rate = self.rate.max(u64::try_from(rate).unwrap_or(u64::MAX));
        if is_first { self.bytes.saturating_add(self.first_bytes) } else { ack.bytes }
    }
}

impl Round {
    fn on_ack(&mut self, ack: &Ack<'_>, begins: bool) {
        if begins {
            *self = Self { began: ack.now, flight: ack.flight_before, bytes: 0 };
        } else {
            self.bytes = self.bytes.saturating_add(ack.bytes);
        }
    }

    /// What is delivered within `rtt` at the rate at which the acknowledgements of this round trip arrive, in bytes. Jitter pushes some
    /// of them together, so their time is taken to be longer, by a rise of the RTT that is no sign of a queue yet.
    fn delivers(&self, now: Time, rtt: Duration) -> usize {
        self.delivers_if(now.since(self.began) + rtt_threshold(rtt), rtt)
    }

    /// The same to respond to congestion. The rate of the model is up to a round trip old, and the window has grown since then; those of
    /// less than a quarter of a round trip show too little.
    pub(super) fn arriving(&self, now: Time, rtt: Duration) -> usize {
        self.delivers_if(now.since(self.began).max(rtt / 4), rtt)
    }

    /// What is delivered within `rtt` if the acknowledgements of this round trip took so long.
    fn delivers_if(&self, took: Duration, rtt: Duration) -> usize {
        let bytes = (self.bytes as u128 * rtt.as_nanos()).checked_div(took.as_nanos()).unwrap_or(0);
        usize::try_from(bytes).unwrap_or(usize::MAX)
    }
}

impl Auto {
    /// Grows the window in a ramp, or ends it.
    pub(super) fn ramp(&mut self, ack: &Ack<'_>, round: bool) {
        let (rate, spare) = (self.model.recent_rate(2), self.spare());
        let (app_limited, min_rtt) =
            (self.model.is_app_limited(), self.model.feedback_delay().unwrap_or(self.srtt));
        let product = bytes_in(rate, min_rtt.max(self.constants().shortest));
        let score = self.evidence.settled();
        let constants = self.constants();
        let Mode::Ramp(ramp) = &mut self.mode else { return };
        ramp.score = ramp.score.min(score);
        // The age of what another path reports is no RTT: a round with such reports beside one without would seem to show a queue.
        let advice = ramp.hystart.on_ack(ack.bytes, ack.flight_before, ack.rtt);
        let begun_at = ramp.train.first_at;
        let acked = ramp.train.on_ack(ack, round);
        if ramp.train.rate > 0 {
            self.carries = self.carries.max(Some(ramp.train.rate));
        }
        ramp.round.on_ack(ack, round || ramp.train.first_at != begun_at);
        if round && !app_limited {
            if rate >= ramp.rate.saturating_add(ramp.rate / 8) {
                (ramp.rate, ramp.stalled) = (rate, 0);
            } else if ack.flight_before > product + product / 8 + spare {
                ramp.stalled += 1;
            }
        }
        match advice {
            Advice::Grow => ramp.waiting = 0,
            _ => ramp.waiting += u32::from(round),
        }
        let waits = advice != Advice::Grow && (ramp.again || ramp.waiting > 1);
        if waits || ramp.stalled > 2 {
            if !self.drain(ack.now) {
                self.enter_shared((product + product / 8).max(self.model.window(112)));
                self.ramped_at = ack.now;
            }
            return;
        }
        let carried = bytes_in(ramp.train.rate, min_rtt);
        // There is no rate of a train, or more than 5/4 of it already arrives: the train underestimated the path.
        let is_unknown = carried == 0 || product > carried + carried / 4;
        let is_beyond = self.cwnd > carried && !is_unknown;
        // Where the application paused for a moment only, the window was in use; beyond the train's rate that is not enough.
        if app_limited && (is_beyond || ack.flight_before < self.cwnd / 2) {
            return;
        }
        if ack.rtt.is_none() {
            // Only retransmissions arrive, whose RTTs are ambiguous (RFC 9260 §6.3.1 C5): there is no rate to
            // use.
            self.cwnd = self.cwnd.saturating_add(ack.bytes).min(WINDOW_MAX);
            return;
        }
        let initial = self.cubic.options().initial_window.bytes(self.mtu);
        // A rate is measured one round trip late.
        let shown = product.max(initial);
        // The growth per round trip in hundredths, and the window it applies to.
        let (gain, before) = if advice != Advice::Grow {
            (106, shown)
        } else if ramp.stalled > 1 {
            (125, shown)
        } else if ramp.again {
            (150, shown)
        } else if is_unknown {
            (200, shown)
        } else if is_beyond {
            // Random losses make a train underestimate the rate, and so do the clocks of hosts: the more than the train's rate
            // arrives already, the faster the growth.
            let excess = 100 * product.saturating_sub(carried) / carried;
            ((100 + 4 * excess).max(if ramp.score < 0 { 125 } else { 112 }), shown)
        } else {
            let no_queue = min_rtt + (min_rtt / 32).max(constants.shortest);
            let aim = if ack.rtt.is_some_and(|rtt| rtt <= no_queue) { carried } else { carried / 2 };
            ramp.growth_to_train(carried, aim, initial, constants)
        };
        let mut most = before.saturating_mul(gain + 100) / 100;
        if gain > 200 {
            // Jitter that pushes the train together makes its rate seem much higher: what arrives next must confirm it.
            let confirmed = ramp.round.delivers(ack.now, min_rtt).saturating_mul(3);
            most = most.min(confirmed.max(before.saturating_mul(2)));
        }
        let grown = self.cwnd.saturating_add(acked.saturating_mul(gain - 100) / 100);
        self.cwnd = grown.min(most.max(self.cwnd)).min(WINDOW_MAX);
    }
}

#[cfg(test)]
#[path = "tests/ramp.rs"]
mod tests;
