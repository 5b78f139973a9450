//! The retransmission time-out of a connection (RFC 6298), including the coarse timers of old stacks.

use std::time::Duration;

use braidftp_base::Time;

use crate::config::{Config, RtoBounds};

/// The longest wait of the timer wheel, in ticks.
const MAX_TICKS: u128 = 1 << 30;

/// SRTT, RTTVAR, and the time-out computed from them.
#[derive(Debug, Clone)]
pub(crate) struct Rto {
    bounds: RtoBounds,
    tick: Duration,
    wheel_tick: Duration,
    srtt: Option<Duration>,
    rttvar: Duration,
    rto: Duration,
    backed_off: u32,
}

impl Rto {
    pub(crate) fn new(config: &Config) -> Self {
        Self {
            bounds: config.rto,
            tick: config.timer_tick,
            wheel_tick: config.wheel_tick,
            srtt: config.initial_srtt,
            rttvar: Duration::ZERO,
            rto: config.rto.initial,
            backed_off: 0,
        }
    }

    /// Takes a round-trip sample (RFC 6298 §2.2, §2.3); this ends the back-off.
    pub(crate) fn on_sample(&mut self, sample: Duration) {
        let (srtt, rttvar) = match self.srtt {
            None => (sample, sample / 2),
            Some(srtt) => {
                let error = srtt.abs_diff(sample);
                (srtt - srtt / 8 + sample / 8, self.rttvar - self.rttvar / 4 + error / 4)
            }
        };
        self.srtt = Some(srtt);
        self.rttvar = rttvar;
        self.backed_off = 0;
        let rto = srtt + (4 * rttvar).max(self.bounds.granularity);
        self.rto = rto.clamp(self.bounds.min, self.bounds.max);
    }

    /// Backs off after the timer expired (§5.5).
    pub(crate) fn back_off(&mut self) {
        self.backed_off += 1;
    }

    pub(crate) fn srtt(&self) -> Option<Duration> {
        self.srtt
    }

    /// The current time-out, back-off included.
    pub(crate) fn current(&self) -> Duration {
        self.rto.saturating_mul(1 << self.backed_off.min(16)).min(self.bounds.max)
    }

    /// The initial time-out multiplied by `steps`, for SYN.
    pub(crate) fn initial_times(&self, steps: u32) -> Duration {
        self.bounds.initial.saturating_mul(steps).min(self.bounds.max)
    }

    /// When a timer started now for `wait` expires: on the next tick of the clock.
    pub(crate) fn deadline(&self, now: Time, wait: Duration) -> Time {
        after(now, wait, self.wheel_tick, self.tick)
    }

    /// The elapsed time in whole ticks of the clock.
    pub(crate) fn elapsed(&self, since: Time, now: Time) -> Duration {
        match self.tick.as_nanos() as u64 {
            0 => now.since(since),
            tick => Duration::from_nanos((now.as_nanos() / tick - since.as_nanos() / tick) * tick),
        }
    }
}

/// When a timer started now for `wait` expires: on the timer wheel if it has a tick, else on the next multiple of `tick`.
pub(crate) fn after(now: Time, wait: Duration, wheel_tick: Duration, tick: Duration) -> Time {
    match wheel_tick.as_nanos() as u64 {
        0 => round_up(now + wait, tick),
        wheel_tick => {
            let ticks = wait.as_nanos().div_ceil(u128::from(wheel_tick)).min(MAX_TICKS) as u64;
            // Linux timer.c: 64 slots a level, and each level is eight times as coarse.
            let coarse =
                (0..8).find(|level| ticks < 63 << (3 * level)).map_or(1 << 24, |level| 1 << (3 * level));
            let expires = now.as_nanos() / wheel_tick + ticks;
            Time::from_nanos(((expires / coarse + 1) * coarse).saturating_mul(wheel_tick))
        }
    }
}

/// The first multiple of `tick` that is not before `at`.
pub(crate) fn round_up(at: Time, tick: Duration) -> Time {
    match tick.as_nanos() as u64 {
        0 => at,
        tick => Time::from_nanos(at.as_nanos().div_ceil(tick).saturating_mul(tick)),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ms(ms: u64) -> Duration {
        Duration::from_millis(ms)
    }

    fn rto(config: &Config) -> Rto {
        Rto::new(config)
    }

    #[test]
    fn samples_are_smoothed_as_rfc_6298_says() {
        let config = Config { rto: RtoBounds { min: ms(10), ..RtoBounds::default() }, ..Config::default() };
        let mut rto = rto(&config);
        assert_eq!(rto.current(), ms(1_000));
        rto.on_sample(ms(100));
        assert_eq!((rto.srtt(), rto.current()), (Some(ms(100)), ms(300)));
        rto.on_sample(ms(180));
        // SRTT 110, RTTVAR 0.75·50 + 0.25·80 = 57.5
        assert_eq!((rto.srtt(), rto.current()), (Some(ms(110)), ms(340)));
    }

    #[test]
    fn time_outs_double_up_to_the_maximum_until_a_sample() {
        let mut rto = rto(&Config::default());
        rto.on_sample(ms(100));
        for expected in [2, 4, 8, 16, 32, 60, 60] {
            rto.back_off();
            assert_eq!(rto.current(), Duration::from_secs(expected));
        }
        rto.on_sample(ms(100));
        assert_eq!(rto.current(), ms(1_000));
    }

    #[test]
    fn a_coarse_clock_fires_and_counts_by_its_ticks() {
        let rto = rto(&Config { timer_tick: ms(500), ..Config::default() });
        assert_eq!(rto.deadline(Time::from_millis(1), ms(1_000)), Time::from_millis(1_500));
        assert_eq!(rto.deadline(Time::from_millis(500), ms(1_000)), Time::from_millis(1_500));
        assert_eq!(rto.elapsed(Time::from_millis(499), Time::from_millis(501)), ms(500));
        assert_eq!(rto.elapsed(Time::from_millis(501), Time::from_millis(999)), ms(0));
    }

    #[test]
    fn on_the_wheel_waits_are_whole_ticks_and_end_at_the_tick_after_them() {
        let at = |now: u64, wait: u64| {
            let now = Time::from_nanos(now * 1_000);
            after(now, Duration::from_micros(wait), ms(4), Duration::ZERO).since(now).as_micros()
        };
        // 7.2 ms are two ticks, and the third ends them: 8 to 12 ms.
        assert_eq!((at(0, 7_200), at(1_500, 7_200), at(3_999, 7_200)), (12_000, 10_500, 8_001));
        // 50 ticks are exact, 250 are counted in eights: 1000 to 1032 ms.
        assert_eq!(
            (at(4_000, 200_000), at(4_000, 1_000_000), at(28_000, 1_000_000)),
            (204_000, 1_020_000, 1_028_000)
        );
        assert_eq!(
            after(Time::ZERO, Duration::MAX, ms(4), Duration::ZERO).since(Time::ZERO).as_secs(),
            4_362_076
        );
        let rto = rto(&Config { wheel_tick: ms(4), ..Config::default() });
        assert_eq!(rto.deadline(Time::from_millis(1), ms(200)), Time::from_millis(204));
        assert_eq!(rto.elapsed(Time::from_millis(1), Time::from_millis(3)), ms(2), "round trips are exact");
    }

    #[test]
    fn a_given_srtt_averages_the_first_sample_in() {
        let mut rto = rto(&Config { initial_srtt: Some(ms(1_500)), ..Config::default() });
        rto.on_sample(ms(700));
        assert_eq!((rto.srtt(), rto.current()), (Some(ms(1_400)), ms(2_200)));
    }
}
