//! ProbeBW: the cycle of sending slower, at the rate and faster (§5.3.3), and the long-term limits set by
//! losses while probing (§5.5.10.2). For version 1, its cycle of gains.

use std::time::Duration;

use braidftp_base::Time;

use super::{Bbr, State, UNIT, Version};
use crate::delivery::{RateSample, Stamp};

/// The gains of version 1, for one round trip each.
const PHASES: [u32; 8] = [1_250, 750, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// BBR.Headroom (§2.8), in percent of inflight_longterm.
const HEADROOM_PERCENT: u64 = 15;
/// T_bbr (§5.3.3.8): the minimum time between two probes; up to a second is added.
const WAIT_MIN: Duration = Duration::from_secs(2);
/// The bound of T_reno, in round trips.
const RENO_ROUNDS: u64 = 63;

/// The relation of acknowledgements to a probe (§2.14).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AckPhase {
    /// They belong to no probe.
    #[default]
    Init,
    /// They acknowledge data that fills the pipe.
    Refilling,
    /// They acknowledge data sent before the probe.
    Starting,
    /// They acknowledge data of the probe.
    Feedback,
    /// They acknowledge data of a probe that has ended.
    Stopping,
}

/// The state of ProbeBW.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probe {
    ack_phase: AckPhase,
    /// Whether samples belong to a probe without a loss response so far (BBR.is_bw_probe_sample).
    is_sample: bool,
    /// When the cycle (version 1: the phase) began.
    began: Time,
    /// The maximum time until the next probe, and the round trips since the last.
    wait: Duration,
    pub(super) rounds_since_up: u64,
    /// The round trips in which this probe raised inflight_longterm, the bytes acknowledged since the last
    /// raise, and the bytes required for the next; `None`: no raising.
    up_rounds: u32,
    up_acked: u64,
    acked_per_raise: Option<u64>,
    /// Whether the last probe went too high, and whether this one ended before it could.
    too_high: bool,
    precautionary: bool,
    /// Whether data was lost in the current phase of version 1.
    pub(super) lost: bool,
}

impl Probe {
    /// Acknowledgements from now on belong to the last probe or to none.
    pub(super) fn stop(&mut self) {
        self.ack_phase = AckPhase::Stopping;
    }
}

impl Bbr {
    pub(super) fn enter_probe_bw(&mut self) {
        match self.params.version {
            Version::V1 => {
                self.cwnd_gain = 2 * UNIT;
                // Any phase except the one with gain 3/4: there is nothing to drain.
                let chosen = self.chance(PHASES.len() as u64 - 1);
                self.begin_phase(if chosen == 1 { 7 } else { chosen as u8 });
            }
            Version::V3 => self.start_down(),
        }
    }

    /// ExitProbeRTT (§5.3.4.4), where the pipe was full before.
    pub(super) fn exit_probe_rtt(&mut self) {
        self.enter_probe_bw();
        if !self.is_v1() {
            self.start_cruise();
        }
    }

    /// A pseudo-random number below `below`, the same for the same history.
    fn chance(&self, below: u64) -> u64 {
        let mut mixed = self.now.as_nanos() ^ self.delivery.delivered_bytes().rotate_left(32);
        // The finalizer of SplitMix64.
        mixed = (mixed ^ mixed >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
        (mixed ^ mixed >> 31) % below
    }

    // ---- version 1 --------------------------------------------------------------------------------------------------

    fn begin_phase(&mut self, phase: u8) {
        self.state = State::Phase(phase);
        self.pacing_gain = PHASES[usize::from(phase)];
        self.probe.began = self.now;
        self.probe.lost = false;
        if phase == 0 {
            // The short-term limits set by marks expire.
            self.reset_short_term();
        }
    }

    /// Whether the phase is over: a round trip has passed and the goal of the phase is reached.
    fn is_phase_over(&self, flight: u64) -> bool {
        let long = self.now.since(self.probe.began) > self.min_rtt().unwrap_or_default();
        let full = || self.probe.lost || flight >= self.inflight(self.bw(), self.pacing_gain);
        match self.pacing_gain {
            UNIT => long,
            more if more > UNIT => long && full(),
            _ => long || flight <= self.inflight(self.bw(), UNIT),
        }
    }

    // ---- version 3 --------------------------------------------------------------------------------------------------

    fn set_state(&mut self, state: State, pacing_gain: u32) {
        self.state = state;
        self.pacing_gain = pacing_gain;
        self.cwnd_gain = if state == State::Up { 2_250 } else { 2_000 };
    }

    fn start_down(&mut self) {
        self.reset_signals();
        self.probe.acked_per_raise = None;
        self.probe.rounds_since_up = self.chance(2);
        self.probe.wait = WAIT_MIN + Duration::from_millis(self.chance(1_000));
        self.probe.began = self.now;
        self.probe.stop();
        self.delivery.begin_round(self.now);
        self.set_state(State::Down, 900);
    }

    fn start_cruise(&mut self) {
        self.set_state(State::Cruise, UNIT);
    }

    pub(super) fn start_refill(&mut self) {
        self.reset_short_term();
        self.probe.up_rounds = 0;
        self.probe.up_acked = 0;
        self.probe.precautionary = false;
        self.probe.ack_phase = AckPhase::Refilling;
        self.delivery.begin_round(self.now);
        self.set_state(State::Refill, UNIT);
    }

    fn start_up(&mut self, sample: &RateSample) {
        self.probe.ack_phase = AckPhase::Starting;
        self.delivery.begin_round(self.now);
        self.reset_full_pipe(sample.rate.bits_per_second());
        self.set_state(State::Up, 1_250);
        self.raise_slope();
    }

    /// UpdateProbeBWCyclePhase (§5.3.3.9).
    pub(super) fn update_probe_bw(&mut self, now: Time, sample: &RateSample, acked: u64, flight: u64) {
        self.now = now;
        if let State::Phase(phase) = self.state {
            if self.is_phase_over(flight) {
                self.begin_phase((phase + 1) % PHASES.len() as u8);
            }
            return;
        }
        if self.is_v1() || !self.full.ever || self.adapt_long_term(sample, acked) {
            return;
        }
        let goes_down = self.state == State::Up && self.is_time_to_go_down(sample, flight);
        match self.state {
            State::Down | State::Cruise if self.is_time_to_probe() => self.start_refill(),
            State::Down if self.is_time_to_cruise(flight) => self.start_cruise(),
            State::Refill if sample.round_begins => {
                self.probe.is_sample = true;
                self.start_up(sample);
            }
            State::Up if goes_down => {
                self.probe.too_high = false;
                self.start_down();
            }
            _ => {}
        }
    }

    /// IsTimeToProbeBW: by the clock, or when Reno would have seen a loss.
    fn is_time_to_probe(&self) -> bool {
        let reno_rounds = self.target_inflight() / self.mtu;
        self.now > self.probe.began + self.probe.wait
            || self.probe.rounds_since_up >= reno_rounds.min(RENO_ROUNDS)
    }

    fn target_inflight(&self) -> u64 {
        self.bdp(self.bw(), UNIT).min(self.cwnd)
    }

    fn is_time_to_cruise(&self, flight: u64) -> bool {
        self.inflight_with_headroom().is_none_or(|most| flight <= most)
            && flight <= self.inflight(self.max_bw, UNIT)
    }

    fn is_time_to_go_down(&mut self, sample: &RateSample, flight: u64) -> bool {
        let longterm = self.congestion.inflight_longterm;
        if self.probe.too_high && longterm.is_some_and(|longterm| flight >= longterm) {
            self.probe.precautionary = true;
            return true;
        }
        if self.is_cwnd_limited() && longterm.is_some_and(|longterm| self.cwnd >= longterm) {
            self.reset_full_pipe(sample.rate.bits_per_second());
            return false;
        }
        self.full.now
    }

    fn is_cwnd_limited(&self) -> bool {
        self.cwnd_limited.contains(&true)
    }

    /// InflightWithHeadroom: leaves room for other flows.
    pub(super) fn inflight_with_headroom(&self) -> Option<u64> {
        let longterm = self.congestion.inflight_longterm?;
        let headroom = (longterm * HEADROOM_PERCENT / 100).max(self.mtu);
        Some(longterm.saturating_sub(headroom).max(self.min_pipe()))
    }

    /// RaiseInflightLongtermSlope.
    fn raise_slope(&mut self) {
        let growth = 1_u64 << self.probe.up_rounds;
        self.probe.up_rounds = (self.probe.up_rounds + 1).min(30);
        self.probe.acked_per_raise = Some((self.cwnd / growth).max(self.mtu));
    }

    /// ProbeInflightLongtermUpward.
    fn raise_long_term(&mut self, sample: &RateSample, acked: u64) {
        let Some(longterm) = self.congestion.inflight_longterm else { return };
        if !self.is_cwnd_limited() || self.cwnd < longterm {
            return;
        }
        self.probe.up_acked = self.probe.up_acked.saturating_add(acked);
        if let Some(each) = self.probe.acked_per_raise {
            let raises = self.probe.up_acked / each;
            self.probe.up_acked -= raises * each;
            let raised = longterm.saturating_add(raises.saturating_mul(self.mtu));
            self.congestion.inflight_longterm = Some(raised);
        }
        if sample.round_begins {
            self.raise_slope();
        }
    }

    /// AdaptLongTermModel: returns whether it has changed the state.
    fn adapt_long_term(&mut self, sample: &RateSample, acked: u64) -> bool {
        if self.probe.ack_phase == AckPhase::Starting && sample.round_begins {
            self.probe.ack_phase = AckPhase::Feedback;
        }
        if self.probe.ack_phase == AckPhase::Stopping && sample.round_begins {
            self.probe.is_sample = false;
            self.probe.ack_phase = AckPhase::Init;
            if self.state.is_probe_bw() {
                if !sample.app_limited() {
                    self.cycle_count += 1;
                }
                if self.probe.precautionary && !self.probe.too_high {
                    self.start_refill();
                    return true;
                }
            }
        }
        if !self.is_too_high(sample.lost_bytes, sample.stamp.flight_bytes)
            && let Some(longterm) = self.congestion.inflight_longterm
        {
            self.congestion.inflight_longterm = Some(longterm.max(sample.stamp.flight_bytes));
            if self.state == State::Up {
                self.raise_long_term(sample, acked);
            }
        }
        false
    }

    // ---- losses while probing (§5.5.10.2) ---------------------------------------------------------------------------

    /// IsInflightTooHigh: whether the loss rate of the flight exceeds the threshold.
    pub(super) fn is_too_high(&self, lost: u64, flight: u64) -> bool {
        u128::from(lost) * 1_000 > u128::from(flight) * u128::from(self.params.loss_threshold_thousandths)
    }

    /// HandleLostPacket: `bytes` were lost, and the last of them was sent with this stamp.
    pub(super) fn on_lost_probe(&mut self, now: Time, bytes: u64, stamp: Stamp) {
        self.now = now;
        let lost = self.delivery.lost_bytes() - stamp.lost_bytes;
        if !self.probe.is_sample || !self.is_too_high(lost, stamp.flight_bytes) {
            return;
        }
        // InflightAtLoss: the flight at which the losses exceeded the threshold.
        let threshold = i128::from(self.params.loss_threshold_thousandths);
        let flight_before = stamp.flight_bytes.saturating_sub(bytes);
        let lost_before = lost.saturating_sub(bytes);
        let prefix =
            (threshold * i128::from(flight_before) - 1_000 * i128::from(lost_before)) / (1_000 - threshold);
        let flight = (i128::from(flight_before) + prefix).clamp(0, i128::from(u32::MAX)) as u64;
        self.on_inflight_too_high(flight, stamp.app_limited);
    }

    /// Handles an ECN mark at this flight.
    pub(super) fn on_marked_probe(&mut self, flight: u64) {
        if self.probe.is_sample {
            self.on_inflight_too_high(flight, self.delivery.is_app_limited());
        }
    }

    /// HandleInflightTooHigh.
    fn on_inflight_too_high(&mut self, flight: u64, app_limited: bool) {
        self.probe.too_high = true;
        self.probe.is_sample = false;
        if !app_limited {
            let beta = u64::from(self.params.beta_thousandths);
            let least = (u128::from(self.target_inflight()) * u128::from(beta) / 1_000) as u64;
            self.congestion.inflight_longterm = Some(flight.max(least));
        }
        if self.state == State::Up {
            self.congestion.undo.state = Some(State::Up);
            self.start_down();
        }
    }
}
