//! BBR: sends at the measured delivery rate, by a model of the path. Implements version 3
//! (draft-ietf-ccwg-bbr-06) and version 1 (draft-cardwell-iccrg-bbr-congestion-control-00), which does not
//! respond to loss.
//!
//! The model consists of the maximum recent delivery rate (max_bw, §5.5.2) and the minimum round-trip time
//! (min_rtt, §5.5.7). Sending is paced at the first and limited to a multiple of their product. [`State`] is
//! the phase of probing:
//! - Startup (§5.3.1) doubles the rate each round trip until the delivery rate has not grown by a quarter in
//!   three of them, or losses exceed a threshold. Drain (§5.3.2) then empties the queue built meanwhile.
//! - ProbeBW (§5.3.3) sends slower than the rate, at the rate and faster in turn. In version 3, losses beyond
//!   the threshold limit the flight for the long term, and any loss outside of probing limits it for the
//!   short term (§5.5.10). In version 1, eight phases of a round trip follow each other, at gains of 5/4, 3/4
//!   and six times 1, regardless of loss.
//! - ProbeRTT (§5.3.4) drains the path from time to time to measure the minimum RTT.
//!
//! Delivery rates come from [`delivery`](crate::delivery); the transport paces with a
//! [`pacer`](crate::pacer). A CE mark is congestion in both versions (§3.7), a loss in the sense of
//! §5.5.10.3.
//!
//! Differences from the draft: "random" waits are derived from the history of the connection, so that a run
//! can be repeated. The number of lost ranges in a round of Startup is counted by loss reports, as in Linux.
//! The offload budget is one quantum (§5.5.8.2). Version 1 uses the aggregation estimate of version 3, as
//! Linux does, and has neither packet conservation in recovery nor policer detection, which Linux had.

mod filter;
mod params;
mod probe;

use std::time::Duration;

use braidftp_base::{Rate, Time};

pub use self::params::{Params, Version};

use self::filter::MaxFilter;
use crate::delivery::{Delivery, RateSample};
use crate::pacer::quantum;
use crate::{Ack, Cause, Congestion, Controller, Lost, Options, Sent, Spurious};

/// The largest window that TCP's window scaling allows.
const WINDOW_MAX: u64 = 65_535 << 14;
/// BBR.MinPipeCwnd (§2.8), in packets.
const MIN_PIPE_MTUS: u64 = 4;
/// "Arbitrarily high": BBR has no slow start.
const SSTHRESH: usize = u32::MAX as usize;
/// BBR.PacingMarginPercent (§2.5).
const PACING_MARGIN_PERCENT: u128 = 1;
/// The time in which the initial window is sent before the first RTT sample (§5.6.2).
const NOMINAL_RTT: Duration = Duration::from_millis(1);
/// BBR.MaxBwFilterLen (§2.11), in ProbeBW cycles; BtlBwFilterLen of version 1, in round trips.
const MAX_BW_CYCLES: u64 = 2;
const MAX_BW_ROUNDS: u64 = 10;
/// BBR.ExtraAckedFilterLen (§2.12), in round trips.
const EXTRA_ACKED_ROUNDS: u64 = 10;
/// The growth below which the rate counts as not growing (§5.3.1.2), in thousandths.
const FULL_BW_GROWTH: u128 = 1_250;
/// The number of round trips without growth after which the pipe is full.
const FULL_BW_ROUNDS: u32 = 3;
/// BBRStartupFullLossCnt (§5.3.1.3).
const STARTUP_LOSSES: u32 = 6;
/// The longest duration of Drain (§5.3.2), in round trips.
const DRAIN_ROUNDS: u64 = 3;

/// A factor in thousandths.
type Gain = u32;
const UNIT: Gain = 1_000;

/// The phase of probing (§5.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum State {
    /// Doubles the rate to find the bandwidth.
    Startup,
    /// Drains the queue that Startup built.
    Drain,
    /// Sends slower to drain the queue: ProbeBW_DOWN.
    Down,
    /// Sends at the delivery rate: ProbeBW_CRUISE.
    Cruise,
    /// Fills the pipe before the next probe: ProbeBW_REFILL.
    Refill,
    /// Sends faster to probe for bandwidth: ProbeBW_UP.
    Up,
    /// One of the phases of version 1's ProbeBW, by number.
    Phase(u8),
    /// Keeps the flight small to measure the minimum RTT.
    ProbeRtt,
}

impl State {
    const fn is_probe_bw(self) -> bool {
        matches!(self, Self::Down | Self::Cruise | Self::Refill | Self::Up | Self::Phase(_))
    }

    /// Whether the state probes for bandwidth, so that losses are a response to it (IsProbingBW).
    const fn is_accelerating(self) -> bool {
        matches!(self, Self::Startup | Self::Refill | Self::Up)
    }
}

/// The controller; see the module documentation.
#[derive(Debug, Clone)]
pub struct Bbr {
    params: Params,
    initial_window: u64,
    mtu: u64,
    now: Time,
    state: State,
    delivery: Delivery,
    cwnd: u64,
    /// The last window not reduced by a recovery or ProbeRTT (BBR.prior_cwnd).
    prior_cwnd: u64,
    pacing_gain: Gain,
    cwnd_gain: Gain,
    /// C.pacing_rate, in bits per second.
    pacing_rate: u64,
    /// Whether the pacing rate is based on an RTT sample.
    rate_is_measured: bool,
    /// BBR.max_bw and its filter, in bits per second; over cycles or, in version 1, round trips.
    max_bw: u64,
    max_bw_filter: MaxFilter,
    cycle_count: u64,
    shortest: Shortest,
    full: FullPipe,
    aggregation: Aggregation,
    congestion: Signals,
    probe: probe::Probe,
    drain_began_round: u64,
    idle_restart: bool,
    /// Whether the window was full in this round trip and in the last.
    cwnd_limited: [bool; 2],
    in_recovery: bool,
    /// Whether a time-out reduced the window in this round trip.
    timed_out: bool,
}

/// The minimum RTT and the schedule of ProbeRTT (§2.16).
#[derive(Debug, Clone, Copy, Default)]
struct Shortest {
    /// BBR.min_rtt and the time of its sample.
    rtt: Option<Duration>,
    at: Time,
    /// The minimum over the ProbeRTT interval (BBR.probe_rtt_min_delay).
    recent: Option<Duration>,
    recent_at: Time,
    /// BBR.probe_rtt_expired.
    expired: bool,
    /// When ProbeRTT may end, set once the flight is small enough, and whether a round trip has passed since.
    done_at: Option<Time>,
    round_done: bool,
}

/// Detection of a full pipe (§5.3.1.2).
#[derive(Debug, Clone, Copy, Default)]
struct FullPipe {
    /// Whether the pipe was ever full (BBR.full_bw_reached), and since the last reset.
    ever: bool,
    now: bool,
    bw: u64,
    count: u32,
}

/// The estimate of ACK aggregation (§5.5.9).
#[derive(Debug, Clone, Default)]
struct Aggregation {
    since: Time,
    delivered: u64,
    filter: MaxFilter,
    extra: u64,
}

/// Congestion signals and the limits they set (§2.10, §5.5.10).
#[derive(Debug, Clone, Copy, Default)]
struct Signals {
    bw_latest: u64,
    inflight_latest: u64,
    /// The delivered bytes at which the loss round ends.
    round_ends: u64,
    round_begins: bool,
    loss_in_round: bool,
    /// The number of loss reports in the round.
    reports: u32,
    /// `None`: no limit.
    bw_shortterm: Option<u64>,
    inflight_shortterm: Option<u64>,
    inflight_longterm: Option<u64>,
    /// The limits before the last loss, restored if the loss was spurious.
    undo: Undo,
}

/// The state that a spurious loss restores (§2.15).
#[derive(Debug, Clone, Copy, Default)]
struct Undo {
    /// The state that the loss ended.
    state: Option<State>,
    bw_shortterm: Option<u64>,
    inflight_shortterm: Option<u64>,
    inflight_longterm: Option<u64>,
}

impl Bbr {
    /// Creates a controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        let mtu = (mtu as u64).clamp(1, WINDOW_MAX);
        let initial_window = (options.initial_window.bytes(mtu as usize) as u64).clamp(mtu, WINDOW_MAX);
        let mut bbr = Self {
            params: options.bbr.within_ranges(),
            initial_window,
            mtu,
            now: Time::ZERO,
            state: State::Startup,
            delivery: Delivery::default(),
            cwnd: initial_window,
            prior_cwnd: 0,
            pacing_gain: UNIT,
            cwnd_gain: UNIT,
            pacing_rate: 0,
            rate_is_measured: false,
            max_bw: 0,
            max_bw_filter: MaxFilter::default(),
            cycle_count: 0,
            shortest: Shortest::default(),
            full: FullPipe::default(),
            aggregation: Aggregation::default(),
            congestion: Signals::default(),
            probe: probe::Probe::default(),
            drain_began_round: 0,
            idle_restart: false,
            cwnd_limited: [false; 2],
            in_recovery: false,
            timed_out: false,
        };
        bbr.enter_startup();
        bbr.init_pacing_rate(NOMINAL_RTT);
        bbr
    }

    /// The phase of probing.
    pub fn state(&self) -> State {
        self.state
    }

    /// The maximum recent delivery rate, if known.
    pub fn max_bw(&self) -> Option<Rate> {
        (self.max_bw > 0).then(|| Rate::from_bits_per_second(self.max_bw))
    }

    /// The minimum recent RTT, if known.
    pub fn min_rtt(&self) -> Option<Duration> {
        self.shortest.rtt
    }

    /// The long-term limit of the flight in bytes, set by losses at a larger flight; `None` without such
    /// losses.
    pub fn inflight_longterm(&self) -> Option<u64> {
        self.congestion.inflight_longterm
    }

    fn is_v1(&self) -> bool {
        self.params.version == Version::V1
    }

    // ---- the model (§5.5) -------------------------------------------------------------------------------------------

    /// BBR.bw: the bandwidth estimate with all limits applied (BoundBWForModel).
    fn bw(&self) -> u64 {
        self.max_bw.min(self.congestion.bw_shortterm.unwrap_or(u64::MAX))
    }

    /// A multiple of the bandwidth-delay product (BDPMultiple), in bytes.
    fn bdp(&self, bw: u64, gain: Gain) -> u64 {
        let Some(rtt) = self.shortest.rtt else { return self.initial_window };
        let bytes = u128::from(bw) * rtt.as_nanos() / 8_000_000_000 * u128::from(gain) / u128::from(UNIT);
        bytes.min(u128::from(WINDOW_MAX)) as u64
    }

    fn min_pipe(&self) -> u64 {
        (MIN_PIPE_MTUS * self.mtu).min(WINDOW_MAX)
    }

    /// Adds the flight that a sender of quanta needs to stay busy (QuantizationBudget).
    fn with_quanta(&self, inflight: u64) -> u64 {
        let budget = quantum(Rate::from_bits_per_second(self.pacing_rate), self.mtu as usize) as u64;
        let least = inflight.max(budget).max(self.min_pipe());
        if self.state == State::Up { least + 2 * self.mtu } else { least }
    }

    /// The flight at a multiple of the bandwidth-delay product (Inflight).
    fn inflight(&self, bw: u64, gain: Gain) -> u64 {
        self.with_quanta(self.bdp(bw, gain))
    }

    /// UpdateMaxBw (§5.5.5).
    fn update_max_bw(&mut self, sample: &RateSample) {
        let rate = sample.rate.bits_per_second();
        if rate >= self.max_bw || !sample.app_limited() {
            let (time, window) = match self.params.version {
                Version::V1 => (self.delivery.rounds(), MAX_BW_ROUNDS),
                Version::V3 => (self.cycle_count, MAX_BW_CYCLES),
            };
            self.max_bw = self.max_bw_filter.update(time, rate, window);
        }
    }

    /// UpdateACKAggregation (§5.5.9).
    fn update_aggregation(&mut self, now: Time, acked: u64) {
        let bw = self.bw();
        let by_rate = |since: Time| {
            let bytes = u128::from(bw) * now.since(since).as_nanos() / 8_000_000_000;
            u64::try_from(bytes).unwrap_or(u64::MAX)
        };
        let mut expected = by_rate(self.aggregation.since);
        if self.aggregation.delivered <= expected {
            self.aggregation.delivered = 0;
            self.aggregation.since = now;
            expected = 0;
        }
        self.aggregation.delivered = self.aggregation.delivered.saturating_add(acked);
        let extra = self.aggregation.delivered.saturating_sub(expected).min(self.cwnd);
        let rounds = if self.full.ever { EXTRA_ACKED_ROUNDS } else { 1 };
        self.aggregation.extra = self.aggregation.filter.update(self.delivery.rounds(), extra, rounds);
    }

    /// UpdateLatestDeliverySignals and UpdateCongestionSignals (§5.5.10.3), with UpdateMaxBw between them.
    fn update_signals(&mut self, sample: &RateSample) {
        let rate = sample.rate.bits_per_second();
        let signals = &mut self.congestion;
        signals.bw_latest = signals.bw_latest.max(rate);
        signals.inflight_latest = signals.inflight_latest.max(sample.delivered_bytes);
        signals.round_begins = sample.stamp.delivered_bytes >= signals.round_ends;
        if signals.round_begins {
            signals.round_ends = self.delivery.delivered_bytes();
        }
        self.update_max_bw(sample);
        if self.congestion.round_begins {
            if self.congestion.loss_in_round && !self.state.is_accelerating() {
                self.lower_bounds();
            }
            self.congestion.loss_in_round = false;
        }
    }

    /// InitLowerBounds and LossLowerBounds: lowers the short-term limits to what was delivered, but by no
    /// more than the factor Beta.
    fn lower_bounds(&mut self) {
        let beta = |of: u64| (u128::from(of) * u128::from(self.params.beta_thousandths) / 1_000) as u64;
        let bw = beta(self.congestion.bw_shortterm.unwrap_or(self.max_bw));
        let inflight = beta(self.congestion.inflight_shortterm.unwrap_or(self.cwnd));
        self.congestion.bw_shortterm = Some(self.congestion.bw_latest.max(bw));
        self.congestion.inflight_shortterm = Some(self.congestion.inflight_latest.max(inflight));
    }

    fn reset_signals(&mut self) {
        self.congestion.loss_in_round = false;
        self.congestion.bw_latest = 0;
        self.congestion.inflight_latest = 0;
    }

    fn reset_short_term(&mut self) {
        self.congestion.bw_shortterm = None;
        self.congestion.inflight_shortterm = None;
    }

    /// NoteLoss (§5.5.10.2).
    fn note_loss(&mut self) {
        if !self.congestion.loss_in_round {
            self.congestion.round_ends = self.delivery.delivered_bytes();
            self.save_upon_loss();
        }
        self.congestion.loss_in_round = true;
    }

    /// SaveStateUponLoss (§5.5.11.1).
    fn save_upon_loss(&mut self) {
        self.save_cwnd();
        let Signals { bw_shortterm, inflight_shortterm, inflight_longterm, .. } = self.congestion;
        self.congestion.undo = Undo { state: None, bw_shortterm, inflight_shortterm, inflight_longterm };
    }

    /// HandleSpuriousLossDetection (§5.5.11.2).
    fn undo_loss(&mut self) {
        // `None` is no limit and thus the largest value.
        let larger = |one: Option<u64>, other: Option<u64>| one.zip(other).map(|(one, other)| one.max(other));
        self.restore_cwnd();
        self.reset_full_pipe(0);
        let signals = &mut self.congestion;
        let undo = std::mem::take(&mut signals.undo);
        signals.loss_in_round = false;
        signals.bw_shortterm = larger(signals.bw_shortterm, undo.bw_shortterm);
        signals.inflight_shortterm = larger(signals.inflight_shortterm, undo.inflight_shortterm);
        signals.inflight_longterm = larger(signals.inflight_longterm, undo.inflight_longterm);
        match undo.state {
            Some(State::Startup) if self.state != State::Startup => {
                self.full.ever = false;
                if self.state != State::ProbeRtt {
                    self.enter_startup();
                }
            }
            Some(State::Up) if !matches!(self.state, State::Up | State::ProbeRtt) => self.start_refill(),
            _ => {}
        }
    }

    // ---- Startup and Drain (§5.3.1, §5.3.2) -------------------------------------------------------------------------

    fn enter_startup(&mut self) {
        self.state = State::Startup;
        (self.pacing_gain, self.cwnd_gain) = match self.params.version {
            Version::V1 => (2_885, 2_885),
            Version::V3 => (2_773, 2_000),
        };
    }

    fn enter_drain(&mut self) {
        self.state = State::Drain;
        (self.pacing_gain, self.cwnd_gain) = match self.params.version {
            Version::V1 => (347, 2_885),
            Version::V3 => (500, 2_000),
        };
        self.drain_began_round = self.delivery.rounds();
    }

    fn reset_full_pipe(&mut self, bw: u64) {
        self.full = FullPipe { ever: self.full.ever, bw, ..FullPipe::default() };
    }

    /// CheckFullBWReached (§5.3.1.2).
    fn check_full_pipe(&mut self, sample: &RateSample) {
        if self.full.now || !sample.round_begins || sample.app_limited() {
            return;
        }
        let rate = sample.rate.bits_per_second();
        if u128::from(rate) * u128::from(UNIT) >= u128::from(self.full.bw) * FULL_BW_GROWTH {
            return self.reset_full_pipe(rate);
        }
        self.full.count += 1;
        self.full.now = self.full.count >= FULL_BW_ROUNDS;
        self.full.ever |= self.full.now;
    }

    /// CheckStartupDone and CheckDrainDone, with CheckStartupHighLoss (§5.3.1.3).
    fn check_startup(&mut self, sample: &RateSample, flight: u64) {
        if !self.full.ever && !self.is_v1() && self.congestion.round_begins {
            let many = self.congestion.reports >= STARTUP_LOSSES && self.in_recovery;
            if many && self.is_too_high(sample.lost_bytes, sample.stamp.flight_bytes) {
                self.full.ever = true;
                self.congestion.undo.state = Some(State::Startup);
                let longterm = self.bdp(self.bw(), UNIT).max(self.congestion.inflight_latest);
                self.congestion.inflight_longterm = Some(longterm);
            }
            self.congestion.reports = 0;
        }
        if self.state == State::Startup && self.full.ever {
            self.enter_drain();
        }
        let late = self.delivery.rounds() > self.drain_began_round + DRAIN_ROUNDS && !self.is_v1();
        if self.state == State::Drain && (flight <= self.inflight(self.bw(), UNIT) || late) {
            self.enter_probe_bw();
        }
    }

    // ---- ProbeRTT (§5.3.4) ------------------------------------------------------------------------------------------

    /// BBR.ProbeRTTInterval. Version 1 probes once the minimum RTT is out of date.
    fn probe_rtt_interval(&self) -> Duration {
        match self.params.version {
            Version::V1 => self.params.min_rtt_window,
            Version::V3 => self.params.min_rtt_window / 2,
        }
    }

    fn probe_rtt_window(&self) -> u64 {
        match self.params.version {
            Version::V1 => self.min_pipe(),
            Version::V3 => self.bdp(self.bw(), 500).max(self.min_pipe()),
        }
    }

    /// UpdateMinRTT (§5.3.4.3).
    fn update_min_rtt(&mut self, now: Time, rtt: Duration) {
        let interval = self.probe_rtt_interval();
        let shortest = &mut self.shortest;
        shortest.expired = shortest.recent.is_some() && now > shortest.recent_at + interval;
        if shortest.recent.is_none_or(|recent| rtt < recent) || shortest.expired {
            shortest.recent = Some(rtt);
            shortest.recent_at = now;
        }
        let out_of_date = now > shortest.at + self.params.min_rtt_window;
        if shortest.rtt.is_none_or(|least| shortest.recent < Some(least)) || out_of_date {
            shortest.rtt = shortest.recent;
            shortest.at = shortest.recent_at;
        }
    }

    /// CheckProbeRTT.
    fn check_probe_rtt(&mut self, now: Time, sample: &RateSample, flight: u64) {
        if self.state != State::ProbeRtt && self.shortest.expired && !self.idle_restart {
            self.save_cwnd();
            self.state = State::ProbeRtt;
            (self.pacing_gain, self.cwnd_gain) = (UNIT, if self.is_v1() { UNIT } else { 500 });
            self.shortest.done_at = None;
            self.probe.stop();
            self.delivery.begin_round(now);
        }
        if self.state == State::ProbeRtt {
            // The samples of ProbeRTT do not show the bandwidth.
            self.delivery.on_app_limited(now, flight as usize);
            match self.shortest.done_at {
                None if flight <= self.probe_rtt_window() => {
                    self.shortest.done_at = Some(now + self.params.probe_rtt);
                    self.shortest.round_done = false;
                    self.delivery.begin_round(now);
                }
                None => {}
                Some(_) => {
                    self.shortest.round_done |= sample.round_begins;
                    if self.shortest.round_done {
                        self.check_probe_rtt_done(now);
                    }
                }
            }
        }
        self.idle_restart = false;
    }

    fn check_probe_rtt_done(&mut self, now: Time) {
        if self.shortest.done_at.is_none_or(|at| now <= at) {
            return;
        }
        self.shortest.recent_at = now;
        self.restore_cwnd();
        self.reset_short_term();
        if self.full.ever { self.exit_probe_rtt() } else { self.enter_startup() }
    }

    // ---- control (§5.6) ---------------------------------------------------------------------------------------------

    /// InitPacingRate.
    fn init_pacing_rate(&mut self, rtt: Duration) {
        let bits = u128::from(self.initial_window) * 8_000_000_000 / rtt.as_nanos().max(1);
        let paced = bits * u128::from(self.pacing_gain) / u128::from(UNIT);
        self.pacing_rate = u64::try_from(paced).unwrap_or(u64::MAX);
    }

    /// SetPacingRateWithGain.
    fn set_pacing_rate(&mut self, gain: Gain) {
        let rate = u128::from(self.bw()) * u128::from(gain) * (100 - PACING_MARGIN_PERCENT);
        let rate = u64::try_from(rate / u128::from(UNIT) / 100).unwrap_or(u64::MAX);
        if self.full.ever || rate > self.pacing_rate {
            self.pacing_rate = rate;
        }
    }

    /// SetCwnd (§5.6.4.6).
    fn set_cwnd(&mut self, acked: u64) {
        let most =
            self.with_quanta(self.bdp(self.bw(), self.cwnd_gain).saturating_add(self.aggregation.extra));
        if self.full.ever {
            self.cwnd = self.cwnd.saturating_add(acked).min(most);
        } else if self.cwnd < most || self.delivery.delivered_bytes() < self.initial_window {
            self.cwnd = self.cwnd.saturating_add(acked);
        }
        if self.state == State::ProbeRtt {
            self.cwnd = self.cwnd.min(self.probe_rtt_window());
        }
        // BoundCwndForModel (§5.6.4.7).
        let longterm = match self.state {
            State::Down | State::Refill | State::Up => self.congestion.inflight_longterm,
            State::Cruise | State::ProbeRtt => self.inflight_with_headroom(),
            State::Startup | State::Drain | State::Phase(_) => None,
        };
        let shortterm = self.congestion.inflight_shortterm;
        let cap = longterm.unwrap_or(u64::MAX).min(shortterm.unwrap_or(u64::MAX)).max(self.min_pipe());
        self.cwnd = self.cwnd.min(cap).max(self.min_pipe()).min(WINDOW_MAX);
    }

    fn save_cwnd(&mut self) {
        let small = self.in_recovery || self.timed_out || self.state == State::ProbeRtt;
        self.prior_cwnd = if small { self.prior_cwnd.max(self.cwnd) } else { self.cwnd };
    }

    fn restore_cwnd(&mut self) {
        self.cwnd = self.cwnd.max(self.prior_cwnd);
    }

    fn take_mtu(&mut self, mtu: usize) {
        self.mtu = (mtu as u64).clamp(1, WINDOW_MAX);
    }

    /// HandleRestartFromIdle (§5.4.1).
    fn on_restart(&mut self, now: Time) {
        self.idle_restart = true;
        self.aggregation.since = now;
        self.aggregation.delivered = 0;
        if self.state.is_probe_bw() {
            self.set_pacing_rate(UNIT);
        } else if self.state == State::ProbeRtt {
            self.check_probe_rtt_done(now);
        }
    }
}

impl Controller for Bbr {
    fn window(&self) -> usize {
        self.cwnd as usize
    }

    fn ssthresh(&self) -> usize {
        SSTHRESH
    }

    fn pacing_rate(&self) -> Option<Rate> {
        Some(Rate::from_bits_per_second(self.pacing_rate))
    }

    fn counts_arrivals(&self) -> bool {
        true
    }

    fn on_sent(&mut self, sent: Sent) {
        self.now = sent.now;
        if sent.flight_before == 0 && self.delivery.is_app_limited() {
            self.on_restart(sent.now);
        }
        self.delivery.on_sent(sent.now, sent.bytes, sent.flight_before);
        let flight = (sent.flight_before as u64).saturating_add(sent.bytes as u64);
        self.cwnd_limited[0] |= flight.saturating_add(self.mtu) > self.cwnd;
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        let now = ack.now;
        self.now = now;
        self.take_mtu(ack.mtu);
        let acked = ack.bytes as u64;
        let flight = (ack.flight_before as u64).saturating_sub(acked);
        let recovered = self.in_recovery && !ack.in_recovery;
        self.in_recovery = ack.in_recovery;
        if let Some(rtt) = ack.rtt.filter(|_| !self.rate_is_measured) {
            self.rate_is_measured = true;
            self.init_pacing_rate(rtt);
        }
        let sample = self.delivery.on_ack(now, ack.bytes, ack.rtt);
        if let Some(sample) = &sample {
            if sample.round_begins {
                self.probe.rounds_since_up = self.probe.rounds_since_up.saturating_add(1);
                self.cwnd_limited = [false, self.cwnd_limited[0]];
            }
            self.update_signals(sample);
            self.update_aggregation(now, acked);
            self.check_full_pipe(sample);
            self.check_startup(sample, flight);
            self.update_probe_bw(now, sample, acked, flight);
            self.update_min_rtt(now, sample.rtt);
            self.check_probe_rtt(now, sample, flight);
            if self.congestion.round_begins {
                self.congestion.bw_latest = sample.rate.bits_per_second();
                self.congestion.inflight_latest = sample.delivered_bytes;
            }
            if self.max_bw > 0 {
                self.set_pacing_rate(self.pacing_gain);
            }
        }
        if recovered || self.timed_out && sample.is_some_and(|sample| sample.round_begins) {
            self.timed_out = false;
            self.restore_cwnd();
        }
        self.set_cwnd(acked);
    }

    fn on_lost(&mut self, lost: Lost) {
        self.now = lost.now;
        self.take_mtu(lost.mtu);
        self.delivery.on_lost(lost.bytes);
        self.congestion.reports = self.congestion.reports.saturating_add(1);
        self.probe.lost = true;
        if self.is_v1() || lost.bytes == 0 {
            return;
        }
        self.note_loss();
        if let Some(stamp) = self.delivery.stamp(lost.sent_at) {
            self.on_lost_probe(lost.now, lost.bytes as u64, stamp);
        }
    }

    fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        self.delivery.on_app_limited(now, flight_bytes);
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.now = congestion.now;
        self.take_mtu(congestion.mtu);
        match congestion.cause {
            Cause::Loss => self.save_cwnd(),
            // OnEnterRTO (§5.6.4.4).
            Cause::Timeout => {
                self.save_upon_loss();
                self.timed_out = true;
                self.delivery.begin_round(congestion.now);
                self.cwnd = self.mtu;
            }
            Cause::Ecn => {
                self.note_loss();
                self.on_marked_probe(congestion.flight_bytes as u64);
            }
        }
    }

    fn on_spurious(&mut self, spurious: Spurious) {
        self.now = spurious.now;
        self.timed_out = false;
        self.undo_loss();
        self.prior_cwnd = self.cwnd;
    }

    fn trim(&mut self) {
        self.delivery.trim();
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.take_mtu(mtu);
    }

    fn restart_window(&mut self, window: usize) {
        self.cwnd = (window as u64).clamp(1, WINDOW_MAX);
        self.prior_cwnd = self.cwnd;
    }
}
