//! ProbeBW: sending slower, at the rate and faster in turn (§5.3.3), and what losses while more is tried say of the long
//! term (§5.5.10.2). In version 1, its cycle of gains.

use std::time::Duration;

use braidftp_base::Time;

use super::{Bbr, State, UNIT, Version};
use crate::delivery::{RateSample, Stamp};

/// Version 1's gains, a round trip each.
const PHASES: [u32; 8] = [1_250, 750, UNIT, UNIT, UNIT, UNIT, UNIT, UNIT];
/// BBR.Headroom (§2.8), in parts of inflight_longterm.
const HEADROOM_PERCENT: u64 = 15;
/// T_bbr (§5.3.3.8): at least so long between two probes, and up to a second more.
const WAIT_MIN: Duration = Duration::from_secs(2);
/// T_reno's bound, in round trips.
const RENO_ROUNDS: u64 = 63;

/// What acknowledgements mean for a probe (§2.14).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
enum AckPhase {
    /// Nothing: they are of no probe.
    #[default]
    Init,
    /// They are of what fills the pipe.
    Refilling,
    /// They are still of what left before the probe.
    Starting,
    /// They are of the probe.
    Feedback,
    /// They are still of the probe, which is over.
    Stopping,
}

/// Where ProbeBW is.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Probe {
    ack_phase: AckPhase,
    /// Whether samples are of a probe, to which no loss was an answer yet (BBR.is_bw_probe_sample).
    is_sample: bool,
    /// When the cycle, or version 1's phase, began.
    began: Time,
    /// How long at most until the next probe, and round trips since the last.
    wait: Duration,
    pub(super) rounds_since_up: u64,
    /// Round trips in which inflight_longterm was raised in this probe, what was acknowledged since it was, and how much
    /// must be until it is again; `None`: it is not.
    up_rounds: u32,
    up_acked: u64,
    acked_per_raise: Option<u64>,
    /// Whether the last probe went too high, and whether this one ended before it could.
    too_high: bool,
    precautionary: bool,
    /// Whether something was lost in version 1's phase.
    pub(super) lost: bool,
}

impl Probe {
    /// What is acknowledged from now on is of the last probe, or of none.
    pub(super) fn stop(&mut self) {
        self.ack_phase = AckPhase::Stopping;
    }
}

impl Bbr {
    pub(super) fn enter_probe_bw(&mut self) {
        match self.params.version {
            Version::V1 => {
                self.cwnd_gain = 2 * UNIT;
                // Any phase but the one at 3/4: there is nothing to drain.
                let chosen = self.chance(PHASES.len() as u64 - 1);
                self.begin_phase(if chosen == 1 { 7 } else { chosen as u8 });
            }
            Version::V3 => self.start_down(),
        }
    }

    /// ExitProbeRTT (§5.3.4.4), with the pipe known to be full before.
    pub(super) fn exit_probe_rtt(&mut self) {
        self.enter_probe_bw();
        if !self.is_v1() {
            self.start_cruise();
        }
    }

    /// A number below `below` that looks random, and is the same each time that the same has happened.
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
            // What marks have said of the short term is forgotten.
            self.reset_short_term();
        }
    }

    /// Whether the phase is over: a round trip is, and what the phase was for is reached.
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

    /// IsTimeToProbeBW: by the clock, or where Reno would have lost something by now.
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

    /// InflightWithHeadroom: what leaves others some room.
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

    /// AdaptLongTermModel: whether it has decided on a state.
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

    // ---- losses while more is tried (§5.5.10.2) ---------------------------------------------------------------------

    /// IsInflightTooHigh: whether so much was lost of what was in flight.
    pub(super) fn is_too_high(&self, lost: u64, flight: u64) -> bool {
        u128::from(lost) * 1_000 > u128::from(flight) * u128::from(self.params.loss_threshold_thousandths)
    }

    /// HandleLostPacket: so many bytes were lost of which the last left with this stamp.
    pub(super) fn on_lost_probe(&mut self, now: Time, bytes: u64, stamp: Stamp) {
        self.now = now;
        let lost = self.delivery.lost_bytes() - stamp.lost_bytes;
        if !self.probe.is_sample || !self.is_too_high(lost, stamp.flight_bytes) {
            return;
        }
        // InflightAtLoss: at which of these bytes were losses too many?
        let threshold = i128::from(self.params.loss_threshold_thousandths);
        let flight_before = stamp.flight_bytes.saturating_sub(bytes);
        let lost_before = lost.saturating_sub(bytes);
        let prefix =
            (threshold * i128::from(flight_before) - 1_000 * i128::from(lost_before)) / (1_000 - threshold);
        let flight = (i128::from(flight_before) + prefix).clamp(0, i128::from(u32::MAX)) as u64;
        self.on_inflight_too_high(flight, stamp.app_limited);
    }

    /// A mark, with so much in flight.
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
