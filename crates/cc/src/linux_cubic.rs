//! CUBIC as Linux 6 has it, for comparisons with live runs over the kernel's TCP.
//!
//! It differs from RFC 9438, of which [`cubic`](crate::cubic) is the implementation, in the following:
//!
//! - The window is counted in whole segments, and time in ticks of 4 ms (250 Hz).
//! - The slope of the growth is computed anew only 8 ticks after the last time, unless the window has changed
//!   since. So after each reduction the window hardly grows for about 30 ms: on a path with a short RTT and
//!   random losses it remains small.
//! - α (§4.3) stays at 9/17 when the estimate of Reno's window exceeds the former window.
//! - Slow start has no limit L, and what an acknowledgement covers beyond ssthresh counts for congestion
//!   avoidance. It ends by the older HyStart: when a train of acknowledgements lasts for half of the smallest
//!   RTT, or the RTT rises.
//! - A reduction takes the window, not the data in flight, by the factor 717/1024; a time-out discards W_max.

use std::time::Duration;

use braidftp_base::Time;

use crate::cubic::cube_root;
use crate::{Ack, Cause, Congestion, Controller, Growth, Idle, Options, SlowStart};

/// The ticks in a second (CONFIG_HZ).
const HZ: u64 = 250;
/// The nanoseconds of a tick.
const TICK_NANOS: u64 = 1_000_000_000 / HZ;
/// The ticks for which the slope stays as it is while the window does.
const SLOPE_TICKS: u64 = HZ / 32;
/// The unit of time of the cubic function: 1/1024 s.
const UNITS: u64 = 1024;
/// The factor of a reduction in 1/1024.
const BETA: u64 = 717;
/// An estimate of Reno's window grows by a segment for 15/8 windows of acknowledged segments: α = 8/15.
const RENO_DELAY: (u64, u64) = (15, 8);
/// The slope is at most a segment for two that are acknowledged, and before the first reduction at least one
/// for 20.
const COUNT_MIN: u64 = 2;
const COUNT_MAX_AT_FIRST: u64 = 20;
/// C in 1/1024 segments per second³: 0.4.
const SCALE: u128 = 410;
/// From this window on HyStart judges acknowledgements.
const HYSTART_WINDOW: u64 = 16;
/// Acknowledgements with a longer pause between them are no train.
const TRAIN_PAUSE: Duration = Duration::from_millis(2);
/// What is allowed for the delay of acknowledgements by segmentation offload.
const OFFLOAD_DELAY: Duration = Duration::from_millis(1);
/// The samples of a round before its RTT is judged.
const SAMPLES: u32 = 8;
/// The bounds of the rise of the RTT, an eighth of the smallest, that ends slow start.
const RISE: [Duration; 2] = [Duration::from_millis(4), Duration::from_millis(16)];
/// The smallest window after a reduction.
const FLOOR: u64 = 2;
/// "Arbitrarily high", in segments.
const SSTHRESH_INITIAL: u64 = 0x7fff_ffff;
/// The largest window that TCP's window scaling allows, in bytes.
const WINDOW_MAX: usize = 65_535 << 14;
/// Two days, in units: beyond this time the function exceeds any window.
const DISTANCE_MAX: u64 = 172_800 * UNITS;

/// The controller. Sizes are in segments.
#[derive(Debug, Clone)]
pub struct LinuxCubic {
    options: Options,
    mtu: usize,
    cwnd: u64,
    ssthresh: u64,
    /// Acknowledged segments since the window last grew, and bytes that are no whole segment.
    counted: u64,
    partial_bytes: usize,
    /// Whether the window was full since `limited_left` bytes began to be acknowledged.
    is_limited: bool,
    limited_left: usize,
    w_max: u64,
    delay_min: Option<Duration>,
    /// The slope: acknowledged segments for one of growth; for which window and when it was computed.
    count: u64,
    computed: (u64, u64),
    epoch: Option<Epoch>,
    hystart: Option<Train>,
}

/// A congestion avoidance epoch.
#[derive(Debug, Clone, Copy)]
struct Epoch {
    /// Its first tick.
    start: u64,
    /// K in units of 1/1024 s, and the plateau.
    k: u64,
    origin: u64,
    /// Acknowledged segments that the estimate of Reno's window has not used yet, and that estimate.
    acked: u64,
    reno: u64,
}

/// HyStart: the state of a round of slow start.
#[derive(Debug, Clone, Copy, Default)]
struct Train {
    is_over: bool,
    round_left: usize,
    began: Option<Time>,
    last: Time,
    rtt: Option<Duration>,
    samples: u32,
}

impl Train {
    /// Takes an acknowledgement in slow start; returns whether slow start ends.
    fn on_ack(&mut self, ack: &Ack<'_>, cwnd: u64, delay_min: Duration, rtt: Duration) -> bool {
        if self.is_over {
            return false;
        }
        self.round_left = self.round_left.saturating_sub(ack.bytes);
        if self.round_left == 0 || self.began.is_none() {
            let round_left = ack.flight_before.saturating_sub(ack.bytes).max(1);
            *self = Self { round_left, began: Some(ack.now), last: ack.now, ..Self::default() };
        }
        if cwnd < HYSTART_WINDOW {
            return false;
        }
        if ack.now.since(self.last) <= TRAIN_PAUSE {
            self.last = ack.now;
            let lasted = self.began.map_or(Duration::ZERO, |began| ack.now.since(began));
            self.is_over = lasted > (delay_min.saturating_add(OFFLOAD_DELAY)) / 2;
        }
        self.rtt = Some(self.rtt.map_or(rtt, |least| least.min(rtt)));
        if self.samples < SAMPLES {
            self.samples += 1;
        } else {
            let rise = (delay_min / 8).clamp(RISE[0], RISE[1]);
            self.is_over |= self.rtt > Some(delay_min.saturating_add(rise));
        }
        self.is_over
    }
}

fn ticks(at: Time) -> u64 {
    at.as_nanos() / TICK_NANOS
}

fn initial_window(options: &Options, mtu: usize) -> u64 {
    (options.initial_window.bytes(mtu) / mtu.max(1)).max(1) as u64
}

impl LinuxCubic {
    /// Creates a controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        Self {
            options,
            mtu,
            cwnd: initial_window(&options, mtu),
            ssthresh: SSTHRESH_INITIAL,
            counted: 0,
            partial_bytes: 0,
            is_limited: false,
            limited_left: 0,
            w_max: 0,
            delay_min: None,
            count: 0,
            computed: (0, 0),
            epoch: None,
            hystart: (options.slow_start == SlowStart::HyStart).then(Train::default),
        }
    }

    fn most(&self) -> u64 {
        (WINDOW_MAX / self.mtu.max(1)).max(1) as u64
    }

    /// Notes whether the window is full; returns whether it limits the sender: since a window of data was acknowledged, it was
    /// full once.
    fn note_limit(&mut self, ack: &Ack<'_>) -> bool {
        self.limited_left = self.limited_left.saturating_sub(ack.bytes);
        let is_full = ack.flight_before.saturating_add(self.mtu) > self.window();
        if self.limited_left == 0 || is_full {
            self.is_limited = is_full;
            self.limited_left = ack.flight_before;
        }
        match self.cwnd < self.ssthresh {
            true => self.is_limited || ack.flight_before.saturating_mul(2) > self.window(),
            false => self.is_limited,
        }
    }

    /// Computes after how many acknowledged segments the window grows.
    fn compute(&mut self, now: u64, acked: u64) {
        if let Some(epoch) = &mut self.epoch {
            epoch.acked += acked;
        }
        let (window, at) = self.computed;
        if window == self.cwnd && now.saturating_sub(at) <= SLOPE_TICKS {
            return;
        }
        if self.epoch.is_none() || now != at {
            self.computed = (self.cwnd, now);
            let epoch = *self.epoch.get_or_insert_with(|| Epoch {
                start: now,
                k: cube_root((u128::from(self.w_max.saturating_sub(self.cwnd)) << 40) / SCALE),
                origin: self.w_max.max(self.cwnd),
                acked,
                reno: self.cwnd,
            });
            self.count = self.slope(&epoch, now);
        }
        let Some(epoch) = &mut self.epoch else { return };
        let delay = (self.cwnd * RENO_DELAY.0 / RENO_DELAY.1).max(1);
        // Exactly a window's delay does not count yet.
        let steps = epoch.acked.saturating_sub(1) / delay;
        (epoch.acked, epoch.reno) = (epoch.acked - steps * delay, epoch.reno.saturating_add(steps));
        if epoch.reno > self.cwnd {
            self.count = self.count.min(self.cwnd / (epoch.reno - self.cwnd));
        }
        self.count = self.count.max(COUNT_MIN);
    }

    /// The slope of the cubic function a round trip from now.
    fn slope(&self, epoch: &Epoch, now: u64) -> u64 {
        let in_ticks = |delay: Duration| delay.as_nanos().div_ceil(TICK_NANOS.into()).min(1 << 20) as u64;
        let ahead = self.delay_min.map_or(0, in_ticks);
        let at = (now.saturating_sub(epoch.start) + ahead).saturating_mul(UNITS) / HZ;
        let distance = u128::from(at.abs_diff(epoch.k).min(DISTANCE_MAX));
        let delta = (SCALE * distance.pow(3)) >> 40;
        let delta = u64::try_from(delta).unwrap_or(u64::MAX);
        let target = match at < epoch.k {
            true => epoch.origin.saturating_sub(delta),
            false => epoch.origin.saturating_add(delta),
        };
        let count = match target.checked_sub(self.cwnd) {
            Some(above @ 1..) => self.cwnd / above,
            _ => self.cwnd.saturating_mul(100),
        };
        if self.w_max == 0 { count.min(COUNT_MAX_AT_FIRST) } else { count }
    }

    /// Grows by a segment for each `count` that are acknowledged.
    fn avoidance(&mut self, acked: u64) {
        let count = self.count.max(1);
        // Credit from a larger window counts for one segment.
        if self.counted >= count {
            self.counted = 0;
            self.cwnd += 1;
        }
        self.counted += acked;
        self.cwnd = (self.cwnd + self.counted / count).min(self.most());
        self.counted %= count;
    }

    fn restart_hystart(&mut self) {
        // A slow start that HyStart has ended once is not judged again.
        let restart = |train: &mut Train| *train = Train { is_over: train.is_over, ..Train::default() };
        self.hystart.iter_mut().for_each(restart);
    }
}

impl Controller for LinuxCubic {
    fn window(&self) -> usize {
        usize::try_from(self.cwnd).unwrap_or(usize::MAX).saturating_mul(self.mtu).clamp(1, WINDOW_MAX)
    }

    fn ssthresh(&self) -> usize {
        usize::try_from(self.ssthresh).unwrap_or(usize::MAX).saturating_mul(self.mtu)
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.mtu = ack.mtu;
        let now = ticks(ack.now);
        let bytes = self.partial_bytes.saturating_add(ack.bytes);
        let mut acked = (bytes / self.mtu.max(1)) as u64;
        self.partial_bytes = bytes % self.mtu.max(1);
        let is_young = self.epoch.is_some_and(|epoch| now.saturating_sub(epoch.start) < HZ);
        if let Some(rtt) = ack.rtt.filter(|_| !is_young) {
            let delay_min = self.delay_min.map_or(rtt, |least| least.min(rtt));
            self.delay_min = Some(delay_min);
            if let Some(train) = self.hystart.as_mut().filter(|_| self.cwnd < self.ssthresh)
                && train.on_ack(&ack, self.cwnd, delay_min, rtt)
            {
                self.ssthresh = self.cwnd;
            }
        }
        if ack.in_recovery || !self.note_limit(&ack) && self.options.growth != Growth::Always {
            return;
        }
        if self.cwnd < self.ssthresh {
            let step = acked.min(self.ssthresh - self.cwnd);
            self.cwnd = (self.cwnd + step).min(self.most());
            acked -= step;
        }
        if acked > 0 && self.cwnd >= self.ssthresh {
            self.compute(now, acked);
            self.avoidance(acked);
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.mtu = congestion.mtu;
        self.epoch = None;
        // Fast convergence (RFC 9438 §4.7).
        self.w_max = match self.cwnd < self.w_max {
            true => self.cwnd * (1024 + BETA) / 2048,
            false => self.cwnd,
        };
        self.ssthresh = (self.cwnd * BETA / 1024).max(FLOOR);
        self.counted = 0;
        match congestion.cause {
            Cause::Loss | Cause::Ecn => self.cwnd = self.ssthresh,
            Cause::Timeout => {
                self.cwnd = 1;
                (self.w_max, self.computed, self.count, self.delay_min) = (0, (0, 0), 0, None);
                self.hystart.iter_mut().for_each(|train| *train = Train::default());
            }
        }
    }

    fn on_idle(&mut self, idle: Idle) {
        self.mtu = idle.mtu;
        if let Some(epoch) = &mut self.epoch {
            // Idle time does not count.
            epoch.start += ticks(Time::ZERO + idle.idle_for.min(Duration::from_secs(1 << 20)));
        }
        let Some(rtos) = idle.idle_for.as_nanos().checked_div(idle.rto.as_nanos()) else { return };
        if rtos == 0 {
            return;
        }
        // RFC 2861 §3.1: half for each RTO, and ssthresh keeps three quarters of the window.
        let least = (idle.ssthresh_min / self.mtu.max(1)) as u64;
        self.ssthresh = self.ssthresh.max(self.cwnd * 3 / 4).max(least);
        let initial = initial_window(&self.options, self.mtu);
        self.cwnd = (self.cwnd >> rtos.min(63)).max(initial.min(self.cwnd));
        self.restart_hystart();
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    fn limit_window(&mut self, at_most: usize) {
        self.cwnd = self.cwnd.min((at_most / self.mtu.max(1)).max(1) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MSS: usize = 1_448;

    fn ack(at: Duration, segments: usize, flight: usize) -> Ack<'static> {
        Ack {
            now: Time::ZERO + at,
            bytes: segments * MSS,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: flight * MSS,
            mtu: MSS,
            rtt: Some(Duration::from_millis(10)),
            cross_path_age: None,
            srtt: Some(Duration::from_millis(10)),
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        }
    }

    fn options() -> Options {
        Options { slow_start: SlowStart::HyStart, ..Options::default() }
    }

    fn lose(cubic: &mut LinuxCubic, at: Duration, cause: Cause) {
        let now = Time::ZERO + at;
        cubic.on_congestion(Congestion { cause, now, flight_bytes: cubic.window(), mtu: MSS });
    }

    /// A controller in congestion avoidance with this window, reduced at time 0.
    fn reduced_to(segments: u64) -> LinuxCubic {
        let mut cubic = LinuxCubic::new(options(), MSS);
        cubic.cwnd = segments.div_ceil(2) * 3;
        lose(&mut cubic, Duration::ZERO, Cause::Loss);
        (cubic.cwnd, cubic.ssthresh) = (segments, segments);
        cubic
    }

    /// The window in segments at a time, if an acknowledgement of two segments arrives in each millisecond from the first on.
    fn window_at(cubic: &mut LinuxCubic, from_ms: u64, until_ms: u64) -> u64 {
        for ms in from_ms..=until_ms {
            let flight = cubic.cwnd as usize;
            cubic.on_ack(ack(Duration::from_millis(ms), 2, flight));
        }
        cubic.cwnd
    }

    #[test]
    fn after_a_reduction_the_window_stays_for_eight_ticks_and_then_catches_up_with_reno() {
        let mut cubic = reduced_to(6);
        // A segment that the cubic function is rounded up by is added at once.
        assert_eq!((window_at(&mut cubic, 1, 5), window_at(&mut cubic, 6, 35)), (7, 7));
        let after = window_at(&mut cubic, 36, 44);
        assert!((10..=14).contains(&after), "{after}");
        let mut rfc = crate::cubic::Cubic::new(options(), MSS);
        rfc.on_congestion(Congestion {
            cause: Cause::Loss,
            now: Time::ZERO,
            flight_bytes: 9 * MSS,
            mtu: MSS,
        });
        (1..=31).for_each(|ms| rfc.on_ack(ack(Duration::from_millis(ms), 2, rfc.window() / MSS + 1)));
        assert!(rfc.window() > 8 * MSS, "{}", rfc.window());
    }

    #[test]
    fn what_was_counted_before_a_reduction_does_not_grow_the_window_after_it() {
        let mut cubic = reduced_to(6);
        window_at(&mut cubic, 1, 30);
        assert!(cubic.counted > 50);
        lose(&mut cubic, Duration::from_millis(31), Cause::Loss);
        assert_eq!((cubic.cwnd, cubic.counted), (4, 0));
    }

    #[test]
    fn a_reduction_takes_the_window_in_whole_segments_and_never_below_two() {
        for (before, after) in [(10, 7), (6, 4), (4, 2), (3, 2), (2, 2)] {
            let mut cubic = LinuxCubic::new(options(), MSS);
            cubic.cwnd = before;
            lose(&mut cubic, Duration::ZERO, Cause::Loss);
            assert_eq!((cubic.cwnd, cubic.ssthresh), (after, after), "from {before}");
        }
    }

    #[test]
    fn after_a_time_out_slow_start_leads_to_the_threshold_and_the_former_window_is_no_goal() {
        let mut cubic = reduced_to(100);
        (cubic.w_max, cubic.hystart) = (200, None);
        lose(&mut cubic, Duration::from_secs(1), Cause::Timeout);
        assert_eq!((cubic.cwnd, cubic.ssthresh, cubic.w_max), (1, 70, 0));
        // Seventy segments, and then one for 20 that are acknowledged.
        let window = window_at(&mut cubic, 1_001, 1_036);
        assert!((70..=73).contains(&window), "{window}");
    }

    #[test]
    fn the_window_reaches_the_former_one_after_k() {
        // W_max 1000 segments: K = cbrt(1000 · 0.3 / 0.4) = 9.086 s.
        let mut cubic = LinuxCubic::new(options(), MSS);
        cubic.cwnd = 1_000;
        lose(&mut cubic, Duration::ZERO, Cause::Loss);
        let mut at = |ms: u64| {
            let from = ms - 500;
            for ms in from..ms {
                let (acked, flight) = (cubic.cwnd as usize / 100, cubic.cwnd as usize);
                cubic.on_ack(ack(Duration::from_millis(ms), acked, flight));
            }
            cubic.cwnd
        };
        let windows: Vec<u64> = (1..=26).map(|half| at(500 * half)).collect();
        assert!((985..=1_002).contains(&windows[17]), "{windows:?}");
        assert!(windows[25] > 1_015, "{windows:?}");
    }

    #[test]
    fn a_train_of_acknowledgements_or_a_longer_round_trip_ends_slow_start() {
        // The smallest RTT is 10 ms: a train of (10 + 1) / 2 ms ends slow start from 16 segments on.
        for (pause, ends) in [(500, true), (2_500, false)] {
            let mut cubic = LinuxCubic::new(options(), MSS);
            cubic.cwnd = 32;
            for nth in 0..14 {
                cubic.on_ack(ack(Duration::from_micros(nth * pause), 1, 60));
            }
            assert_eq!(cubic.ssthresh < SSTHRESH_INITIAL, ends, "pause {pause} µs");
        }
        for (rtt_ms, ends) in [(13, false), (15, true)] {
            let mut cubic = LinuxCubic::new(options(), MSS);
            cubic.cwnd = 32;
            cubic.on_ack(ack(Duration::ZERO, 1, 2));
            for nth in 1..20 {
                let rtt = Some(Duration::from_millis(rtt_ms));
                cubic.on_ack(Ack { rtt, ..ack(Duration::from_millis(3 * nth), 1, 60) });
            }
            assert_eq!(cubic.ssthresh < SSTHRESH_INITIAL, ends, "RTT {rtt_ms} ms");
        }
    }

    #[test]
    fn a_window_that_is_not_used_does_not_grow() {
        let mut cubic = reduced_to(20);
        for ms in 1..200 {
            cubic.on_ack(ack(Duration::from_millis(ms), 2, 5));
        }
        assert_eq!(cubic.cwnd, 20);
    }
}
