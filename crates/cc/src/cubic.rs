//! CUBIC (RFC 9438): the window grows as a cubic function of the time since the last reduction, quickly when
//! far from the former window and slowly when near, and never slower than Reno's.
//!
//! All arithmetic is in integers (bytes and milliseconds; a cube root by bisection), so that every machine
//! computes the same. The acknowledged bytes are counted. Slow start may end by HyStart++ (RFC 9406, §4.10).
//! Spurious reductions are not undone here (§4.9).
//!
//! The plateau may lie halfway to the former window (`Plateau`), as `auto` uses it.
//!
//! With siblings the window grows by its part p of what it would alone: α is scaled by p and C by p², because
//! the throughput of a CUBIC flow is proportional to the fourth root of C (§5) and that of a Reno flow to the
//! square root of α. A loss reduces the window by 40 % instead of 30 %, because only this path responds to
//! it. Slow start is not scaled.

use std::time::Duration;

use braidftp_base::Time;

use crate::coupled::{ALL_OF_IT, part};
use crate::hystart::{Advice, CSS_GROWTH_DIVISOR, HyStart};
use crate::{Ack, Cause, Congestion, Controller, Growth, Idle, Options, SlowStart};

/// "Arbitrarily high" (RFC 5681 §3.1).
const SSTHRESH_INITIAL: usize = u32::MAX as usize;
/// The smallest window after a reduction, in segments (§4.6).
const FLOOR_MTUS: usize = 2;
/// The largest window that TCP's window scaling allows.
const WINDOW_MAX: usize = 65_535 << 14;
/// Six days: beyond this time after the plateau the function exceeds any window.
const DISTANCE_MAX_MS: i64 = 500_000_000;
/// β_cubic, in hundredths (§4.6).
pub(crate) const BETA: usize = 70;
/// β with siblings: a path gives up only its part of one flow's window, and with drop-tail queues a slowly
/// growing flow has few losses.
const BETA_AMONG_SIBLINGS: usize = 60;

/// α_cubic = 3·(1 − β) / (1 + β) for a β in hundredths, as a fraction (§4.3): 9/17 for 70, in lowest terms, because W_est's remainder
/// keeps its numerator where α changes to 1.
const fn alpha(beta: usize) -> (usize, usize) {
    let common = if beta == BETA { 10 } else { 1 };
    (3 * (100 - beta) / common, (100 + beta) / common)
}

/// Whose CUBIC [`Kind::Cubic`](crate::Kind::Cubic) is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Version {
    /// RFC 9438's: [`Cubic`].
    Rfc9438,
    /// That of Linux 6 at 250 Hz: [`LinuxCubic`](crate::linux_cubic::LinuxCubic).
    Linux,
}

/// How a fully used window grows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum WindowGrowth {
    /// By the cubic function, and at least as fast as Reno.
    Cubic,
    /// At Reno's rate (§4.3), from the current window.
    Reno,
    /// Shrinks, twice as fast as Reno grows.
    Shrink,
    /// Not at all.
    Hold,
}

/// Where the cubic function is flat. Both variants reach W_max after the same time.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Plateau {
    /// At W_max (§4.2). Flows that lose at the same time then regain what they had, and shares equalize
    /// slowly.
    There,
    /// Halfway to W_max, with C four times its value. Of flows that all lose at the same time, a larger
    /// window is below its own W_max at the next loss and a smaller one above, and their difference shrinks
    /// to 0.7 of its value.
    Halfway,
}

/// The controller of RFC 9438.
#[derive(Debug, Clone)]
pub struct Cubic {
    options: Options,
    plateau: Plateau,
    mtu: usize,
    cwnd: usize,
    ssthresh: usize,
    /// W_max: the window at the last reduction, or slightly less.
    w_max: usize,
    /// cwnd_prior: the window at the last reduction.
    cwnd_prior: usize,
    /// β of the last reduction, in hundredths.
    beta: usize,
    epoch: Option<Epoch>,
    last_ack: Time,
    /// The fraction of a step that is less than a byte.
    remainder: usize,
    hystart: Option<HyStart>,
}

/// A congestion avoidance epoch (§4.1.2).
#[derive(Debug, Clone, Copy)]
struct Epoch {
    start: Time,
    /// K, in milliseconds.
    k_ms: i64,
    /// The plateau of the cubic function, in bytes.
    origin: usize,
    /// C as a multiple of 0.4 segments per second³.
    steepness: u32,
    /// W_est, in bytes and a remainder.
    w_est: usize,
    w_est_remainder: usize,
    /// This path's part of one flow's growth, in thousandths.
    part: usize,
}

impl Cubic {
    /// Creates a controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        Self {
            options,
            plateau: Plateau::There,
            mtu,
            cwnd: options.initial_window.bytes(mtu),
            ssthresh: SSTHRESH_INITIAL,
            w_max: 0,
            cwnd_prior: 0,
            beta: BETA,
            epoch: None,
            last_ack: Time::ZERO,
            remainder: 0,
            hystart: (options.slow_start == SlowStart::HyStart).then(HyStart::default),
        }
    }

    /// What it was created with.
    pub(crate) const fn options(&self) -> &Options {
        &self.options
    }

    /// Creates a controller with the plateau halfway to W_max and this window in bytes, in congestion
    /// avoidance, as after a slow start that ended without a loss (§4.10).
    pub(crate) fn halfway(options: Options, mtu: usize, window: usize) -> Self {
        let window = window.max(FLOOR_MTUS * mtu);
        Self { plateau: Plateau::Halfway, cwnd: window, ssthresh: window, ..Self::new(options, mtu) }
    }

    /// Raises the window after the last reduction to at least this many bytes.
    pub(crate) fn raise(&mut self, window: usize) {
        self.cwnd = self.cwnd.max(window);
        self.ssthresh = self.ssthresh.max(window);
    }

    /// Raises the plateau to at least this many bytes.
    pub(crate) fn aim_at(&mut self, window: usize) {
        self.w_max = self.w_max.max(window);
    }

    /// Raises the window to this many bytes, and begins a new epoch.
    pub(crate) fn grow_to(&mut self, window: usize) {
        self.cwnd = self.cwnd.max(window).min(WINDOW_MAX);
        self.epoch = None;
    }

    /// W_cubic at time `t` of the epoch (§4.2 figure 1), in bytes.
    fn w_cubic(&self, epoch: &Epoch, t: Duration) -> usize {
        // C = 0.4 segments per second³.
        let t_ms = i64::try_from(t.as_millis()).unwrap_or(i64::MAX);
        let distance = i128::from(t_ms.saturating_sub(epoch.k_ms).min(DISTANCE_MAX_MS));
        let squared = (epoch.part * epoch.part) as i128 * i128::from(epoch.steepness);
        let rise = distance.pow(3) * 4 * self.mtu as i128 * squared / 10_000_000_000_000_000;
        (epoch.origin as i128 + rise).clamp(0, WINDOW_MAX as i128) as usize
    }

    /// Like `on_ack`, with this growth. `was_full`: the window was full a moment ago, before other packets of a burst were acknowledged.
    pub(crate) fn on_ack_with(&mut self, ack: Ack<'_>, growth: WindowGrowth, was_full: bool) {
        self.mtu = ack.mtu;
        let since_last = ack.now.since(std::mem::replace(&mut self.last_ack, ack.now));
        if ack.in_recovery {
            return;
        }
        let slow_start = self.cwnd < self.ssthresh;
        let advice = match &mut self.hystart {
            Some(hystart) if slow_start => hystart.on_ack(ack.bytes, ack.flight_before, ack.rtt),
            _ => Advice::Grow,
        };
        // For a sender of whole segments a window with less than one segment of room is full. In slow start
        // half is enough: the window is twice what the last round trip needed (cf. RFC 7661 §4.3).
        let used = if slow_start { 2 * ack.flight_before } else { ack.flight_before };
        let full = was_full || used + self.mtu > self.cwnd;
        if growth == WindowGrowth::Shrink && !slow_start {
            self.close(ack.bytes);
        }
        let may_open = !matches!(growth, WindowGrowth::Shrink | WindowGrowth::Hold);
        if (full || self.options.growth == Growth::Always) && may_open {
            if slow_start {
                let limit = usize::from(self.options.byte_counting_limit.get()) * self.mtu;
                let step = ack.bytes.min(limit);
                let step = if advice == Advice::Slowly { step / CSS_GROWTH_DIVISOR } else { step };
                self.cwnd = (self.cwnd + step).min(WINDOW_MAX);
            } else {
                self.avoidance(&ack, growth, since_last);
            }
        } else if let Some(epoch) = &mut self.epoch {
            // §5.8: time without a fully used window does not count.
            epoch.start += since_last;
        }
        if advice == Advice::Leave {
            self.ssthresh = self.cwnd;
        }
    }

    /// Shrinks by two segments per round trip; the former window is no longer a goal.
    fn close(&mut self, acked_bytes: usize) {
        let closed = (2 * acked_bytes).saturating_mul(self.mtu).saturating_add(self.remainder);
        self.remainder = closed % self.cwnd;
        self.cwnd = self.cwnd.saturating_sub(closed / self.cwnd).max(FLOOR_MTUS * self.mtu);
        self.ssthresh = self.ssthresh.min(self.cwnd);
        (self.w_max, self.epoch) = (self.w_max.min(self.cwnd), None);
    }

    /// Like `on_congestion`, with this β in hundredths.
    pub(crate) fn reduce(&mut self, congestion: Congestion, beta: usize) {
        self.mtu = congestion.mtu;
        self.beta = beta;
        // §4.7: fast convergence.
        self.w_max = match self.cwnd < self.w_max {
            true => self.cwnd * (100 + beta) / 200,
            false => self.cwnd,
        };
        self.cwnd_prior = self.cwnd;
        let has_siblings = self.epoch.as_ref().is_some_and(|epoch| epoch.part < ALL_OF_IT);
        let beta = if has_siblings { BETA_AMONG_SIBLINGS } else { beta };
        self.ssthresh = (congestion.flight_bytes * beta / 100).max(FLOOR_MTUS * self.mtu);
        self.epoch = None;
        self.remainder = 0;
        self.hystart.iter_mut().for_each(HyStart::reset);
        self.cwnd = match congestion.cause {
            Cause::Loss | Cause::Ecn => self.ssthresh,
            Cause::Timeout => self.mtu,
        };
    }

    fn begin_epoch(&self, now: Time, part: usize) -> Epoch {
        // §4.2: K = cbrt((W_max − cwnd_epoch) / C); 0 if the window is already beyond W_max.
        let below = self.w_max.saturating_sub(self.cwnd) as u128;
        let squared = (part * part) as u128;
        let k_ms = cube_root(below * 10_000_000_000_000_000 / (4 * self.mtu as u128 * squared)) as i64;
        let (k_ms, origin, steepness) = match self.plateau {
            Plateau::Halfway if below > 0 && part == ALL_OF_IT => {
                (k_ms / 2, self.cwnd + (self.w_max - self.cwnd) / 2, 4)
            }
            Plateau::Halfway | Plateau::There => (k_ms, self.w_max.max(self.cwnd), 1),
        };
        Epoch { start: now, k_ms, origin, steepness, w_est: self.cwnd, w_est_remainder: 0, part }
    }

    fn avoidance(&mut self, ack: &Ack<'_>, growth: WindowGrowth, since_last: Duration) {
        let part = part(ack, self.cwnd);
        // A new epoch begins when the last sibling is gone.
        let lasts = |epoch: &Epoch| part < ALL_OF_IT || epoch.part == ALL_OF_IT;
        let mut epoch = self.epoch.filter(lasts).unwrap_or_else(|| self.begin_epoch(ack.now, part));
        if growth == WindowGrowth::Reno {
            epoch.start += since_last;
            epoch.w_est = epoch.w_est.max(self.cwnd);
        }
        let t = ack.now.since(epoch.start);
        // §4.3: the estimate of Reno's window.
        let is_beyond = epoch.w_est >= self.cwnd_prior;
        let (numerator, denominator) = if is_beyond { (1, 1) } else { alpha(self.beta) };
        let grown = (numerator * ack.bytes).saturating_mul(self.mtu * epoch.part);
        let grown = grown.saturating_add(epoch.w_est_remainder);
        let divisor = denominator * self.cwnd * ALL_OF_IT;
        epoch.w_est = (epoch.w_est + grown / divisor).min(WINDOW_MAX);
        epoch.w_est_remainder = grown % divisor;
        if growth == WindowGrowth::Reno || self.w_cubic(&epoch, t) < epoch.w_est {
            self.cwnd = self.cwnd.max(epoch.w_est);
        } else {
            // §4.4, §4.5: towards the function's value a round trip later, by at most half the window.
            let ahead = self.w_cubic(&epoch, t + ack.srtt.unwrap_or_default());
            let target = ahead.clamp(self.cwnd, self.cwnd + self.cwnd / 2);
            let grown = (target - self.cwnd) * ack.bytes + self.remainder;
            self.remainder = grown % self.cwnd;
            self.cwnd = (self.cwnd + grown / self.cwnd).min(WINDOW_MAX);
        }
        self.epoch = Some(epoch);
    }
}

/// The largest number whose cube is at most `value`.
pub(crate) fn cube_root(value: u128) -> u64 {
    let (mut low, mut high) = (0_u64, 1 << 40);
    while low < high {
        let middle = (low + high).div_ceil(2);
        if u128::from(middle).pow(3) <= value { low = middle } else { high = middle - 1 }
    }
    low
}

impl Controller for Cubic {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.on_ack_with(ack, WindowGrowth::Cubic, false);
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.reduce(congestion, BETA);
    }

    fn on_idle(&mut self, idle: Idle) {
        self.mtu = idle.mtu;
        let Some(rtos) = idle.idle_for.as_nanos().checked_div(idle.rto.as_nanos()) else { return };
        if rtos == 0 {
            return;
        }
        // RFC 2861 §3.1, as in Linux: half for each RTO, and ssthresh keeps three quarters of the window.
        self.ssthresh = self.ssthresh.max(self.cwnd / 4 * 3).max(idle.ssthresh_min);
        let least = self.options.initial_window.bytes(self.mtu).min(self.cwnd);
        self.cwnd = (self.cwnd >> rtos.min(63)).max(least);
        self.epoch = None;
        self.hystart.iter_mut().for_each(HyStart::reset);
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    fn limit_window(&mut self, at_most: usize) {
        self.cwnd = self.cwnd.min(at_most);
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::PathView;

    const MSS: usize = 1_448;

    fn ack(now: Time, bytes: usize, flight_before: usize) -> Ack<'static> {
        let rtt = Some(Duration::from_millis(100));
        Ack {
            now,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before,
            mtu: MSS,
            rtt,
            cross_path_age: None,
            srtt: rtt,
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        }
    }

    fn reduced_at(segments: usize) -> Cubic {
        let mut cubic = Cubic::new(Options::default(), MSS);
        cubic.cwnd = segments * MSS;
        let flight_bytes = cubic.cwnd;
        cubic.on_congestion(Congestion { cause: Cause::Loss, now: Time::ZERO, flight_bytes, mtu: MSS });
        cubic
    }

    #[test]
    fn the_window_reaches_w_max_after_k() {
        // W_max 1000 segments: K = cbrt(1000 · 0.3 / 0.4) = 9.086 s.
        let mut cubic = reduced_at(1_000);
        assert_eq!(cubic.window(), 700 * MSS);
        let mut now = Time::ZERO;
        let mut at_k = None;
        while now < Time::from_millis(14_000) {
            now += Duration::from_millis(1);
            cubic.on_ack(ack(now, cubic.cwnd / 100, cubic.cwnd));
            if now == Time::from_millis(9_086) {
                at_k = Some(cubic.window() / MSS);
            }
        }
        assert_eq!(cubic.epoch.unwrap().k_ms, 9_085);
        assert!((995..=1_001).contains(&at_k.unwrap()), "{at_k:?}");
        // Convex from there: 0.4 · 4.9³ = 47 segments more.
        assert!((1_035..=1_055).contains(&(cubic.window() / MSS)), "{}", cubic.window() / MSS);
    }

    #[test]
    fn a_window_limited_once_recovers_within_a_few_round_trips() {
        let mut cubic = reduced_at(1_000);
        let grow = |cubic: &mut Cubic, from: u64, to: u64| {
            for ms in from..to {
                for _ in 0..cubic.cwnd / 200 / MSS {
                    cubic.on_ack(ack(Time::from_millis(ms), 2 * MSS, cubic.cwnd));
                }
            }
            cubic.window() / MSS
        };
        let before = grow(&mut cubic, 0, 4_000);
        cubic.limit_window(cubic.window() / 2);
        assert_eq!(cubic.window() / MSS, before / 2);
        let after = grow(&mut cubic, 4_000, 4_500);
        assert!((before..before * 21 / 20).contains(&after), "{before}, {after}");
        cubic.limit_window(usize::MAX);
        assert_eq!(cubic.window() / MSS, after, "a larger limit has no effect");
    }

    #[test]
    fn a_halfway_plateau_is_as_fast_and_equalizes_windows_that_lose_together() {
        // The window after reductions of 1000 and 500 segments, by time in milliseconds.
        let after = |segments: usize, until| {
            let mut cubic = Cubic { plateau: Plateau::Halfway, ..Cubic::new(Options::default(), MSS) };
            cubic.cwnd = segments * MSS;
            let flight_bytes = cubic.cwnd;
            cubic.on_congestion(Congestion { cause: Cause::Loss, now: Time::ZERO, flight_bytes, mtu: MSS });
            let mut now = Time::ZERO;
            while now < Time::from_millis(until) {
                now += Duration::from_millis(1);
                cubic.on_ack(ack(now, cubic.cwnd / 100, cubic.cwnd));
            }
            cubic.window() / MSS
        };
        assert!((995..=1_010).contains(&after(1_000, 9_086)), "{}", after(1_000, 9_086));
        assert!((848..=853).contains(&after(1_000, 4_543)), "{}", after(1_000, 4_543));
        // Where the sum is the former one.
        let both = |until| (after(1_000, until), after(500, until));
        let (large, small) =
            (1..).map(|at| both(100 * at)).find(|(one, other)| one + other >= 1_500).unwrap();
        assert!(large - small <= 400, "{large} and {small}");
    }

    #[test]
    fn a_small_window_grows_like_reno() {
        // 10 segments at 100 ms: K = 1.96 s, and in 10 round trips Reno with β = 0.7 gains 10 · 9/17 = 5.3
        // segments.
        let mut cubic = reduced_at(10);
        let mut now = Time::ZERO;
        for _ in 0..10 {
            let mut left = cubic.window() / MSS;
            while left > 0 {
                now += Duration::from_millis(100) / 12;
                cubic.on_ack(ack(now, MSS, cubic.cwnd));
                left -= 1;
            }
        }
        assert!((11 * MSS..14 * MSS).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn beside_an_equal_sibling_the_window_grows_a_quarter_as_fast() {
        let sibling = |segments| PathView {
            window: segments * MSS,
            ssthresh: 0,
            srtt: Some(Duration::from_millis(100)),
            between_losses: 0,
        };
        // C/16: K is 2.52 times as long as alone.
        let mut cubic = reduced_at(1_000);
        let twin = [sibling(700)];
        cubic.on_ack(Ack { siblings: &twin, ..ack(Time::from_millis(1), MSS, cubic.cwnd) });
        assert!((22_880..22_900).contains(&cubic.epoch.unwrap().k_ms), "{cubic:?}");
        assert_eq!(cubic.epoch.unwrap().part, 250);
        let mut lost = cubic.clone();
        let loss = Congestion { cause: Cause::Loss, now: Time::ZERO, flight_bytes: 700 * MSS, mtu: MSS };
        lost.on_congestion(loss);
        assert_eq!(lost.window(), 420 * MSS, "only this path responds");
        cubic.on_ack(ack(Time::from_millis(2), MSS, cubic.cwnd));
        assert!((9_080..9_090).contains(&cubic.epoch.unwrap().k_ms), "without siblings again");
        // In 40 round trips Reno with β = 0.7 would gain 40 · 9/17 segments alone: here a quarter.
        let mut cubic = reduced_at(20);
        let twin = [sibling(14)];
        let mut now = Time::ZERO;
        for _ in 0..40 {
            for _ in 0..cubic.window() / MSS {
                now += Duration::from_millis(2);
                cubic.on_ack(Ack { siblings: &twin, ..ack(now, MSS, cubic.cwnd) });
            }
        }
        assert!((18 * MSS..20 * MSS).contains(&cubic.window()), "{}", cubic.window());
    }

    #[test]
    fn a_second_loss_below_the_first_triggers_fast_convergence() {
        let mut cubic = reduced_at(100);
        let congestion =
            Congestion { cause: Cause::Loss, now: Time::ZERO, flight_bytes: cubic.cwnd, mtu: MSS };
        cubic.on_congestion(congestion);
        assert_eq!(cubic.w_max, 70 * MSS * 17 / 20);
        assert_eq!(cubic.window(), 49 * MSS);
    }

    #[test]
    fn time_without_a_full_window_does_not_count() {
        let (mut busy, mut lazy) = (reduced_at(1_000), reduced_at(1_000));
        let mut now = Time::ZERO;
        for controller in [&mut busy, &mut lazy] {
            controller.on_ack(ack(Time::from_millis(1), MSS, 700 * MSS));
        }
        for _ in 0..100 {
            now += Duration::from_millis(100);
            lazy.on_ack(ack(now, MSS, 10 * MSS));
        }
        now += Duration::from_millis(100);
        busy.on_ack(ack(now, 100 * MSS, 700 * MSS));
        lazy.on_ack(ack(now, 100 * MSS, 700 * MSS));
        assert!(lazy.window() < 720 * MSS && busy.window() > 740 * MSS, "{lazy:?} {busy:?}");
    }

    proptest! {
        #[test]
        fn cube_root_is_exact(value in 0..u128::from(u64::MAX)) {
            let root = u128::from(cube_root(value));
            prop_assert!(root.pow(3) <= value && value < (root + 1).pow(3));
        }
    }
}
