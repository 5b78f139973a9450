//! FAST TCP: a window controlled by queueing delay (Jin, Wei, Low: "FAST TCP: motivation, architecture,
//! algorithms, performance", INFOCOM 2004; Wei, Jin, Low, Hegde, same title, IEEE/ACM ToN 14(6), 2006), with
//! the rules of its ns-2 module (Cui, Andrew; versions 1.1 to 1.1.3) as parameters.
//!
//! Each source keeps α packets of its own in the queue: `w ← min{2w, (1 − γ)·w + γ·(baseRTT/RTT · w_old +
//! α)}`, where w_old is the window when the packet now acknowledged was sent, RTT a moving average, and
//! baseRTT the minimum so far.
//! - While RTT − baseRTT is below a threshold, the window grows by a packet for each acknowledged packet
//!   ("MI").
//! - The equation is applied at most once per period, and only in every other round trip (the module since
//!   1.1.3, Linux).
//! - Where baseRTT is 4 ms or more, an increase is spread over the acknowledgements of a period.
//! - Between α and β packets in the queue the window stays unchanged.
//! - A loss or an ECN echo halves the window, once per recovery; a time-out leaves two packets. The window is
//!   constant during a recovery.
//!
//! w_old is looked up by time: the window one round trip ago. So the transport need not store anything per
//! packet.
//!
//! A source that starts late mistakes the others' queue for propagation delay: its baseRTT is too long and
//! its share too large. [`Params::refresh`] corrects this: a base that no sample confirmed for that time is
//! measured anew with a window reduced for some round trips, as in BBR's ProbeRTT. One source alone would
//! find the others' packets in the queue. So a source that sees the queue fall, as it does when another
//! source begins a refresh, joins if half of its own time is over. After at most two periods all sources
//! reduce together and find an empty queue.
//!
//! Not implemented: the module's rule for a segment older than two average round trips (transports detect
//! losses), windows in whole packets (`high_accuracy_cwnd_` 0 and 1), and rate pacing of single packets,
//! which FAST for ns-2 does not have.

use std::collections::VecDeque;
use std::fmt;
use std::time::Duration;

use braidftp_base::Time;

use crate::notation::duration;
use crate::{Ack, Cause, Congestion, Controller, Counting, Growth, Idle, Options, ParameterError, Recovered};

/// The largest window that TCP's window scaling allows.
const WINDOW_MAX: u64 = 65_535 << 14;
/// The minimum window, in packets.
const FLOOR_MTUS: u64 = 2;
/// "Arbitrarily high": there is no slow start that ssthresh would end.
const SSTHRESH_INITIAL: u64 = u32::MAX as u64;
/// A longer RTT is no valid sample: every retransmission timer is shorter.
const RTT_MAX: Duration = Duration::from_secs(120);
/// The base RTT from which increases are spread over acknowledgements.
const PACED_FROM: Duration = Duration::from_millis(4);
/// The fraction bits of the averaged RTT in nanoseconds: without them small weights would be rounded to zero.
const AVERAGE_SHIFT: u32 = 16;
/// The number of slots per round trip in which windows are kept.
const SLOTS: u32 = 128;
/// The maximum number of windows kept.
const HISTORY_MAX: usize = 4 * SLOTS as usize;
/// A sample confirms the base if it exceeds it by at most 1/`CONFIRMED_WITHIN`.
const CONFIRMED_WITHIN: u64 = 256;
/// The window of a refresh, relative to the bandwidth-delay product.
const REFRESH_PARTS: (u128, u128) = (3, 4);
/// The duration of a refresh in round trips: other sources see it after one, feel their own after another,
/// and the queue that remains shows after a third.
const REFRESH_ROUND_TRIPS: u32 = 4;
/// After a refresh the window grows by 1/`RESTORE_PARTS` of what is acknowledged: sources that reduce
/// together return together, and doubling their windows in a round trip would fill the queue.
const RESTORE_PARTS: u64 = 4;
/// A sample whose queueing delay is below the average by 1/`DIP_PARTS` indicates another source's refresh.
const DIP_PARTS: u64 = 16;
/// The base is the minimum over this many refreshes: one that met others' queue does no harm.
const REFRESHES_KEPT: usize = 4;

/// The parameters of FAST. Values out of range are clamped.
#[derive(Clone, Copy, PartialEq, Eq)]
pub struct Params {
    /// α: packets kept in the queue. 1 to 1,000,000. The module: 100.
    pub alpha_packets: u32,
    /// β: the window stays unchanged between α and β packets in the queue. α to 1,000,000; `None`: equal to
    /// α.
    pub beta_packets: Option<u32>,
    /// γ, in thousandths: the fraction of the change made in one step. 1 to 1000. The module: 500.
    pub gamma_thousandths: u16,
    /// Below this queueing delay the window grows by what is acknowledged (MI). Up to 1 s; 0: never. The
    /// module: 0.75 ms.
    pub mi_threshold: Duration,
    /// The minimum time between two updates by the equation. Up to 10 s. The module: 10 ms.
    pub update_period: Duration,
    /// The round trips with updates.
    pub updates: Updates,
    /// How an increase is applied.
    pub increases: Increases,
    /// How RTTs are averaged.
    pub averaging: Averaging,
    /// The time after which an unconfirmed base is measured anew. 1 s to 600 s; `None`: never, as in the
    /// paper and the module.
    pub refresh: Option<Duration>,
}

/// The round trips in which the equation is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Updates {
    /// Each: the module before 1.1.3.
    EachRoundTrip,
    /// Every other: the module since 1.1.3, and Linux.
    EveryOther,
}

/// How an increase of the window is applied.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Increases {
    /// At once.
    AtOnce,
    /// Spread over the acknowledgements of a period: the module.
    Spread,
}

/// The weight of a sample in the average RTT, at a window of w packets.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Averaging {
    /// 1/256 while w/3 is smaller than 256, then 3/w: the module.
    Module,
    /// min(3/w, 1/4): the paper.
    Paper,
}

impl Params {
    /// The names of the parameters, in the order of [`Params`].
    pub const NAMES: &[&str] =
        &["alpha", "beta", "gamma", "mi-threshold", "period", "every", "increases", "average", "refresh"];

    /// The rules of the module in version 1.1: one update per period in each round trip. α is 200 packets (P4
    /// §2.1).
    pub const fn p4() -> Self {
        Self { alpha_packets: 200, updates: Updates::EachRoundTrip, ..Self::MODULE }
    }

    /// The defaults of the module in version 1.1.3.
    const MODULE: Self = Self {
        alpha_packets: 100,
        beta_packets: None,
        gamma_thousandths: 500,
        mi_threshold: Duration::from_micros(750),
        update_period: Duration::from_millis(10),
        updates: Updates::EveryOther,
        increases: Increases::Spread,
        averaging: Averaging::Module,
        refresh: None,
    };

    /// Sets a parameter by its name, as `alpha` to `200`; durations have a unit, as in `0.75ms`.
    ///
    /// # Errors
    ///
    /// The name is unknown, or the value is out of range: the error lists the names or the range.
    pub fn set(&mut self, name: &str, value: &str) -> Result<(), ParameterError> {
        let wrong = |range: &'static str| ParameterError::out_of_range("fast", name, value, range);
        let number = |range: &'static str, low: u32, high: u32| {
            let number = value.parse::<u32>().ok().filter(|number| (low..=high).contains(number));
            number.ok_or_else(|| wrong(range))
        };
        let lasts = |range: &'static str, low: Duration, high: Duration| {
            let lasts = duration(value).filter(|lasts| (low..=high).contains(lasts));
            lasts.ok_or_else(|| wrong(range))
        };
        match name {
            "alpha" => {
                let most = self.beta_packets.unwrap_or(PACKETS_MAX);
                self.alpha_packets = number("1 to 1000000 packets, and no more than beta", 1, most)?;
            }
            "beta" => {
                let least = self.alpha_packets;
                self.beta_packets = Some(number("alpha to 1000000 packets", least, PACKETS_MAX)?);
            }
            "gamma" => {
                let gamma = value.parse::<f64>().ok().map(|gamma| (gamma * 1e3).round());
                let gamma = gamma.filter(|gamma| (1.0..=1e3).contains(gamma));
                self.gamma_thousandths = gamma.ok_or_else(|| wrong("0.001 to 1"))? as u16;
            }
            "mi-threshold" => self.mi_threshold = lasts("0ms to 1s", Duration::ZERO, THRESHOLD_MAX)?,
            "period" => self.update_period = lasts("0ms to 10s", Duration::ZERO, PERIOD_MAX)?,
            "every" => {
                self.updates = match value {
                    "1" => Updates::EachRoundTrip,
                    "2" => Updates::EveryOther,
                    _ => return Err(wrong("1 or 2 round trips")),
                }
            }
            "increases" => {
                self.increases = match value {
                    "at-once" => Increases::AtOnce,
                    "spread" => Increases::Spread,
                    _ => return Err(wrong("at-once or spread")),
                }
            }
            "average" => {
                self.averaging = match value {
                    "module" => Averaging::Module,
                    "paper" => Averaging::Paper,
                    _ => return Err(wrong("module or paper")),
                }
            }
            "refresh" => {
                self.refresh = match value {
                    "off" => None,
                    _ => Some(lasts("1s to 600s, or off", REFRESH_MIN, REFRESH_MAX)?),
                }
            }
            _ => return Err(ParameterError::unknown("fast", name, Self::NAMES)),
        }
        Ok(())
    }

    /// Clamps all values to their ranges.
    fn within_ranges(self) -> Self {
        let alpha_packets = self.alpha_packets.clamp(1, PACKETS_MAX);
        Self {
            alpha_packets,
            beta_packets: self.beta_packets.map(|beta| beta.clamp(alpha_packets, PACKETS_MAX)),
            gamma_thousandths: self.gamma_thousandths.clamp(1, 1_000),
            mi_threshold: self.mi_threshold.min(THRESHOLD_MAX),
            update_period: self.update_period.min(PERIOD_MAX),
            refresh: self.refresh.map(|refresh| refresh.clamp(REFRESH_MIN, REFRESH_MAX)),
            ..self
        }
    }
}

const PACKETS_MAX: u32 = 1_000_000;
const THRESHOLD_MAX: Duration = Duration::from_secs(1);
const PERIOD_MAX: Duration = Duration::from_secs(10);
const REFRESH_MIN: Duration = Duration::from_secs(1);
const REFRESH_MAX: Duration = Duration::from_secs(600);

impl Default for Params {
    fn default() -> Self {
        Self::MODULE
    }
}

/// Formats what [`Params::set`] takes, for each parameter that differs from the module.
impl fmt::Display for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let module = Self::MODULE;
        let text = |duration: Duration| format!("{}ms", duration.as_secs_f64() * 1e3);
        let updates = if self.updates == Updates::EachRoundTrip { 1 } else { 2 };
        let increases = if self.increases == Increases::AtOnce { "at-once" } else { "spread" };
        let average = if self.averaging == Averaging::Paper { "paper" } else { "module" };
        let beta = self.beta_packets.map(|beta| beta.to_string());
        let gamma = f64::from(self.gamma_thousandths) / 1e3;
        let all = [
            (self.alpha_packets != module.alpha_packets, self.alpha_packets.to_string()),
            (beta.is_some(), beta.unwrap_or_default()),
            (self.gamma_thousandths != module.gamma_thousandths, gamma.to_string()),
            (self.mi_threshold != module.mi_threshold, text(self.mi_threshold)),
            (self.update_period != module.update_period, text(self.update_period)),
            (self.updates != module.updates, updates.to_string()),
            (self.increases != module.increases, increases.to_owned()),
            (self.averaging != module.averaging, average.to_owned()),
            (self.refresh.is_some(), text(self.refresh.unwrap_or_default())),
        ];
        let told = Self::NAMES.iter().zip(all).filter(|(_, (differs, _))| *differs);
        let told: Vec<String> = told.map(|(name, (_, value))| format!("{name}={value}")).collect();
        f.pad(&if told.is_empty() { "as in the module".to_owned() } else { told.join(",") })
    }
}

impl fmt::Debug for Params {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Params({self})")
    }
}

/// The controller; see the module documentation.
#[derive(Debug, Clone)]
pub struct Fast {
    params: Params,
    options: Options,
    /// Bytes per packet, at most [`WINDOW_MAX`].
    mtu: u64,
    cwnd: u64,
    /// This path's part of α, among the paths of one association.
    share_thousandths: u128,
    /// Half of the window at the last loss; reported, not used.
    ssthresh: u64,
    /// baseRTT, in nanoseconds.
    base: Option<u64>,
    /// avgRTT, in nanoseconds shifted by [`AVERAGE_SHIFT`].
    average: u128,
    history: History,
    /// When the equation or MI was last applied.
    updated_at: Time,
    /// The current round trip: its begin, its acknowledgements, those of the previous one, and whether
    /// updates are made.
    round_began: Time,
    acks: u64,
    acks_before: u64,
    updates_now: bool,
    /// The bytes still to be added to the window, the acknowledgements per packet added, and those since the
    /// last.
    to_add: u64,
    spacing: u64,
    acks_since: u64,
    refresh: Refresh,
}

/// The state of the refresh of the base RTT.
#[derive(Debug, Clone)]
struct Refresh {
    /// When a sample last confirmed the base.
    confirmed_at: Option<Time>,
    /// Whether the last sample indicated a falling queue.
    falls: bool,
    step: Step,
    /// The results of the last refreshes, in nanoseconds.
    found: VecDeque<u64>,
}

/// The phase of a refresh.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Step {
    /// None in progress.
    No,
    /// The window is reduced until `until` to drain the queue; the minimum sample so far, and the former
    /// window.
    Drain { until: Time, least: u64, window: u64 },
    /// The window returns to its former value and then stays until the average has settled.
    Restore { window: u64, since: Option<Time> },
}

/// The window by time.
#[derive(Debug, Clone, Default)]
struct History {
    windows: VecDeque<(Time, u64)>,
}

impl History {
    /// Records the window from now on. Changes within one `slot` are merged.
    fn push(&mut self, now: Time, window: u64, slot: Duration) {
        // The clock went back: drop later entries.
        while self.windows.back().is_some_and(|(at, _)| *at > now) {
            self.windows.pop_back();
        }
        match self.windows.back_mut() {
            Some((_, last)) if *last == window => return,
            Some((at, last)) if now.since(*at) < slot || *at == now => *last = window,
            _ => self.windows.push_back((now, window)),
        }
        if self.windows.len() > HISTORY_MAX {
            self.windows.pop_front();
        }
    }

    /// The window at that time. Earlier entries are dropped.
    fn at(&mut self, then: Time) -> Option<u64> {
        while self.windows.get(1).is_some_and(|(at, _)| *at <= then) {
            self.windows.pop_front();
        }
        self.windows.front().map(|(_, window)| *window)
    }
}

impl Fast {
    /// Creates a controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        let mtu = bounded(mtu);
        let mut fast = Self {
            params: options.fast.within_ranges(),
            options,
            mtu,
            cwnd: 0,
            share_thousandths: 1_000,
            ssthresh: SSTHRESH_INITIAL,
            base: None,
            average: 0,
            history: History::default(),
            updated_at: Time::ZERO,
            round_began: Time::ZERO,
            acks: 0,
            acks_before: 0,
            updates_now: true,
            to_add: 0,
            spacing: 0,
            acks_since: 0,
            refresh: Refresh { confirmed_at: None, falls: false, step: Step::No, found: VecDeque::new() },
        };
        fast.set_window(options.initial_window.bytes(mtu as usize) as u64);
        fast
    }

    /// baseRTT, if measured.
    pub fn base_rtt(&self) -> Option<Duration> {
        self.base.map(Duration::from_nanos)
    }

    /// avgRTT, if measured.
    pub fn average_rtt(&self) -> Option<Duration> {
        self.base.map(|_| Duration::from_nanos(self.average_nanos()))
    }

    fn average_nanos(&self) -> u64 {
        (self.average >> AVERAGE_SHIFT) as u64
    }

    fn floor(&self) -> u64 {
        (FLOOR_MTUS * self.mtu).min(WINDOW_MAX)
    }

    fn set_window(&mut self, window: u64) {
        self.cwnd = window.clamp(self.floor(), WINDOW_MAX);
    }

    fn remember(&mut self, now: Time) {
        let slot = Duration::from_nanos(self.average_nanos() / u64::from(SLOTS));
        self.history.push(now, self.cwnd, slot);
    }

    /// Takes an RTT sample into the base and the average.
    fn estimate(&mut self, now: Time, rtt: u64) {
        let Some(base) = self.base else {
            self.base = Some(rtt);
            self.average = u128::from(rtt) << AVERAGE_SHIFT;
            self.refresh.confirmed_at = Some(now);
            return;
        };
        if rtt <= base.saturating_add(base / CONFIRMED_WITHIN) {
            self.refresh.confirmed_at = Some(now);
        }
        self.base = Some(base.min(rtt));
        let (queues, queued) = (self.average_nanos().saturating_sub(base), rtt.saturating_sub(base));
        self.refresh.falls =
            Duration::from_nanos(queues) >= self.params.mi_threshold && queued < queues - queues / DIP_PARTS;
        if let Step::Drain { least, .. } = &mut self.refresh.step {
            *least = rtt.min(*least);
        }
        let packets = self.cwnd / self.mtu;
        let parts = match self.params.averaging {
            Averaging::Module => (packets / 3).max(256),
            Averaging::Paper => (packets / 3).max(4),
        };
        let (sample, parts) = (u128::from(rtt) << AVERAGE_SHIFT, u128::from(parts));
        self.average = (self.average * (parts - 1) + sample) / parts;
    }

    /// Updates this path's part of α: its share of the rate, at least half of an equal share.
    fn take_share(&mut self, ack: &Ack<'_>) {
        let rate = |window: usize, srtt: Option<Duration>| {
            srtt.map_or(0, |srtt| window as u128 * 1_000_000 / srtt.as_micros().max(1))
        };
        let own = rate(self.window(), ack.srtt);
        let all = own + ack.siblings.iter().map(|view| rate(view.window, view.srtt)).sum::<u128>();
        let least = 500 / (ack.siblings.len() as u128 + 1);
        self.share_thousandths = match own.saturating_mul(1_000).checked_div(all) {
            Some(share) if !ack.siblings.is_empty() => share.max(least),
            _ => 1_000,
        };
    }

    /// The window by the equation.
    fn target(&self, old: u64) -> u64 {
        let (Some(base), average) = (self.base, u128::from(self.average_nanos().max(1))) else {
            return self.cwnd;
        };
        let base = u128::from(base).min(average);
        let (old, cwnd, mtu) = (u128::from(old), u128::from(self.cwnd), u128::from(self.mtu));
        let packets = |packets: u32| u128::from(packets) * mtu;
        // The paths of one association divide one α.
        let alpha = packets(self.params.alpha_packets) * self.share_thousandths / 1_000;
        let beta =
            self.params.beta_packets.map_or(alpha, |beta| packets(beta) * self.share_thousandths / 1_000);
        // w_old · q / RTT is the number of this source's packets in the queue.
        let queued = old * (average - base);
        if queued >= alpha * average && queued < beta * average {
            return self.cwnd;
        }
        let gamma = u128::from(self.params.gamma_thousandths);
        let target = ((1_000 - gamma) * cwnd + gamma * (old * base / average + alpha)) / 1_000;
        target.min(2 * cwnd).min(u128::from(WINDOW_MAX)) as u64
    }

    fn spreads(&self) -> bool {
        let base = self.base.map_or(Duration::ZERO, Duration::from_nanos);
        self.params.increases == Increases::Spread && base >= PACED_FROM
    }

    /// The largest growth by one acknowledgement.
    fn step(&self, bytes: u64) -> u64 {
        match self.options.counting {
            Counting::Acks => self.mtu,
            Counting::Bytes => bytes.min(u64::from(self.options.byte_counting_limit.get()) * self.mtu),
        }
    }

    /// Schedules an increase by `to_add`: computes the distance of the steps.
    fn spread(&mut self, to_add: u64) {
        self.to_add = to_add;
        self.acks_since = 0;
        let average = self.average_nanos().max(1);
        let period = u64::try_from(self.params.update_period.as_nanos()).unwrap_or(u64::MAX);
        let acks = u128::from(self.acks_before) * u128::from(period) / u128::from(average);
        self.spacing = (acks / u128::from(to_add.div_ceil(self.mtu).max(1))).min(u128::from(u64::MAX)) as u64;
    }

    /// Applies one acknowledgement's part of the increase.
    fn grow_spread(&mut self, bytes: u64) {
        self.acks_since = self.acks_since.saturating_add(1);
        if self.to_add == 0 {
            return;
        }
        let step = if self.cwnd <= 4 * self.mtu {
            // At once where a window is small, but at most doubling.
            self.cwnd
        } else if self.acks_since >= self.spacing {
            self.step(bytes)
        } else {
            return;
        };
        let step = step.min(self.to_add);
        self.to_add -= step;
        self.acks_since = 0;
        self.set_window(self.cwnd.saturating_add(step));
    }

    /// Counts round trips, and the acknowledgements of each.
    fn count(&mut self, now: Time, rtt: Duration) {
        // The clock may have gone back.
        self.round_began = self.round_began.min(now);
        self.updated_at = self.updated_at.min(now);
        if now.since(self.round_began) > rtt {
            self.round_began = now;
            self.acks_before = self.acks;
            self.acks = 0;
            self.updates_now = !self.updates_now;
        }
        self.acks = self.acks.saturating_add(1);
    }

    /// Runs the refresh; returns whether the refresh controls the window now.
    fn refreshes(&mut self, now: Time, bytes: u64) -> bool {
        let Some(after) = self.params.refresh else { return false };
        let average = Duration::from_nanos(self.average_nanos());
        match &mut self.refresh.step {
            Step::No => {
                let confirmed_at = self.refresh.confirmed_at.get_or_insert(now);
                *confirmed_at = now.min(*confirmed_at);
                let after = if self.refresh.falls { after / 2 } else { after };
                let Some(base) = self.base.filter(|_| now.since(*confirmed_at) >= after) else {
                    return false;
                };
                let (window, until) = (self.cwnd, now + REFRESH_ROUND_TRIPS * average);
                self.refresh.step = Step::Drain { until, least: u64::MAX, window };
                let (part, of) = REFRESH_PARTS;
                let held = u128::from(window) * u128::from(base) / u128::from(self.average_nanos().max(1));
                self.set_window((held * part / of).min(u128::from(window)) as u64);
                true
            }
            Step::Drain { until, least, window } => {
                *until = (*until).min(now + REFRESH_ROUND_TRIPS * average);
                if now >= *until {
                    let (least, window) = (*least, *window);
                    self.refresh.step = Step::Restore { window, since: None };
                    self.refresh.confirmed_at = Some(now);
                    if least < u64::MAX {
                        self.refresh.found.push_back(least);
                        if self.refresh.found.len() > REFRESHES_KEPT {
                            self.refresh.found.pop_front();
                        }
                        // Before the history is full, a larger minimum is no proof of a longer base.
                        if self.refresh.found.len() == REFRESHES_KEPT || self.base > Some(least) {
                            self.base = self.refresh.found.iter().min().copied();
                        }
                    }
                }
                true
            }
            Step::Restore { window, since } => {
                let left = window.saturating_sub(self.cwnd);
                let since_when = since.map(|since| since.min(now));
                *since = since_when.or((left == 0).then_some(now));
                if since_when.is_some_and(|since| now.since(since) >= 2 * average) {
                    self.refresh.step = Step::No;
                } else if left > 0 {
                    let step = self.step(bytes).div_ceil(RESTORE_PARTS);
                    self.set_window(self.cwnd.saturating_add(step.min(left)));
                }
                true
            }
        }
    }

    /// Discards all measurements.
    fn restart(&mut self, now: Time) {
        self.to_add = 0;
        self.refresh.step = Step::No;
        self.history.windows.clear();
        self.remember(now);
    }

    fn take_mtu(&mut self, mtu: usize) {
        if self.mtu != bounded(mtu) {
            self.mtu = bounded(mtu);
            self.set_window(self.cwnd);
        }
    }
}

/// The size of a packet, bounded for use in products.
fn bounded(mtu: usize) -> u64 {
    (mtu as u64).clamp(1, WINDOW_MAX)
}

impl Controller for Fast {
    fn window(&self) -> usize {
        self.cwnd as usize
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh as usize
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.take_mtu(ack.mtu);
        self.take_share(&ack);
        let (now, bytes) = (ack.now, ack.bytes as u64);
        let sample = ack.rtt.filter(|rtt| !rtt.is_zero() && *rtt <= RTT_MAX);
        if let Some(rtt) = sample {
            self.estimate(now, rtt.as_nanos() as u64);
        }
        if ack.in_recovery || bytes == 0 {
            self.updated_at = now;
            return;
        }
        let rtt = sample.unwrap_or(Duration::from_nanos(self.average_nanos()));
        self.count(now, rtt);
        if self.history.windows.is_empty() {
            self.remember(now);
        }
        if self.refreshes(now, bytes) {
            self.remember(now);
            return;
        }
        // For a sender of whole packets a window with less than one packet of room is full.
        let full = ack.flight_before as u64 + self.mtu > self.cwnd;
        let may_grow = full || self.options.growth == Growth::Always;
        let queueing = self.base.map_or(0, |base| self.average_nanos().saturating_sub(base));
        if Duration::from_nanos(queueing) < self.params.mi_threshold {
            if may_grow {
                self.set_window(self.cwnd.saturating_add(self.step(bytes)));
            }
            self.updated_at = now;
        } else {
            let in_turn = self.params.updates == Updates::EachRoundTrip || self.updates_now;
            if in_turn && now.since(self.updated_at) >= self.params.update_period {
                let old = self.history.at(now - rtt).unwrap_or(self.cwnd);
                let target = self.target(old);
                self.to_add = 0;
                match target.checked_sub(self.cwnd) {
                    Some(_) if !may_grow => {}
                    Some(more) if self.spreads() => self.spread(more),
                    _ => self.set_window(target),
                }
                self.updated_at = now;
            }
            if may_grow {
                self.grow_spread(bytes);
            }
        }
        self.remember(now);
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.take_mtu(congestion.mtu);
        self.ssthresh = (self.cwnd / 2).max(self.floor());
        match congestion.cause {
            Cause::Loss | Cause::Ecn => self.set_window(self.ssthresh),
            Cause::Timeout => self.set_window(0),
        }
        self.restart(congestion.now);
    }

    fn on_recovered(&mut self, recovered: Recovered) {
        // The module deflates the window to the flight plus one packet.
        self.take_mtu(recovered.mtu);
        self.set_window(self.cwnd.min((recovered.flight_bytes as u64).saturating_add(self.mtu)));
        self.restart(recovered.now);
    }

    fn on_idle(&mut self, idle: Idle) {
        self.take_mtu(idle.mtu);
        if idle.idle_for >= idle.rto {
            // The queue is unknown after idle time: restart (RFC 5681 §4.1).
            let initial = self.options.initial_window.bytes(self.mtu as usize) as u64;
            self.set_window(self.cwnd.min(initial));
            self.restart(idle.now);
        }
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.take_mtu(mtu);
    }

    fn limit_window(&mut self, at_most: usize) {
        self.cwnd = self.cwnd.min(at_most as u64).max(1);
    }

    fn restart_window(&mut self, window: usize) {
        self.cwnd = (window as u64).clamp(1, WINDOW_MAX);
    }
}

#[cfg(test)]
#[path = "fast/tests.rs"]
mod tests;
