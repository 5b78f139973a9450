//! TCP congestion control: RFC 5681 §3.1 and §4.1, counting acknowledgements as in RFC 2581 or bytes as in
//! RFC 3465.
//!
//! Loss detection, recovery and the inflation of the window meanwhile belong to the transport (RFC 6582, RFC
//! 6675). "MTU" is the RFC's SMSS. Slow start may end by HyStart++ (RFC 9406).

use crate::hystart::{Advice, CSS_GROWTH_DIVISOR, HyStart};
use crate::{
    Ack, Cause, Congestion, Controller, Counting, Growth, Idle, Options, Recovered, SlowStart, SlowStartEnd,
};

/// "Arbitrarily high" (RFC 5681 §3.1).
const SSTHRESH_INITIAL: usize = u32::MAX as usize;
/// The minimum window after a reduction, in segments (RFC 5681 §3.1 equation 4).
const FLOOR_MTUS: usize = 2;
/// The largest window that TCP's window scaling allows.
const WINDOW_MAX: usize = 65_535 << 14;

/// The controller of RFC 5681.
#[derive(Debug, Clone)]
pub struct Reno {
    options: Options,
    mtu: usize,
    cwnd: usize,
    ssthresh: usize,
    /// bytes_acked of RFC 3465 §2.1.
    bytes_acked: usize,
    /// Whether this slow start follows a time-out: L is then 1 (RFC 3465 §2.3).
    after_timeout: bool,
    hystart: Option<HyStart>,
}

impl Reno {
    /// Creates a controller for a path on which nothing was sent yet.
    pub fn new(options: Options, mtu: usize) -> Self {
        Self {
            options,
            mtu,
            cwnd: options.initial_window.bytes(mtu),
            ssthresh: options.initial_ssthresh.map_or(SSTHRESH_INITIAL, |bytes| bytes as usize),
            bytes_acked: 0,
            after_timeout: false,
            hystart: (options.slow_start == SlowStart::HyStart).then(HyStart::default),
        }
    }

    fn slow_start(&mut self, bytes: usize, advice: Advice) {
        let step = match self.options.counting {
            Counting::Acks => self.mtu,
            Counting::Bytes => {
                let limit = if self.after_timeout { 1 } else { self.options.byte_counting_limit.get() };
                bytes.min(usize::from(limit) * self.mtu)
            }
        };
        let step = if advice == Advice::Slowly { step / CSS_GROWTH_DIVISOR } else { step };
        self.cwnd = (self.cwnd + step).min(WINDOW_MAX);
        if self.options.slow_start_end == SlowStartEnd::Clamp {
            self.cwnd = self.cwnd.min(self.ssthresh);
        }
    }

    fn avoidance(&mut self, bytes: usize) {
        let step = match self.options.counting {
            // RFC 5681 §3.1 equation 3, with its note that 0 counts as 1.
            Counting::Acks => (self.mtu * self.mtu / self.cwnd).max(1),
            Counting::Bytes => {
                self.bytes_acked = self.bytes_acked.saturating_add(bytes);
                if self.bytes_acked < self.cwnd {
                    return;
                }
                self.bytes_acked -= self.cwnd;
                self.mtu
            }
        };
        self.cwnd = (self.cwnd + step).min(WINDOW_MAX);
    }
}

impl Controller for Reno {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.mtu = ack.mtu;
        if ack.in_recovery {
            return;
        }
        let slow_start = self.cwnd < self.ssthresh;
        let advice = match &mut self.hystart {
            Some(hystart) if slow_start => hystart.on_ack(ack.bytes, ack.flight_before, ack.rtt),
            _ => Advice::Grow,
        };
        // For a sender of whole segments a window with less than one segment of room is full.
        let full = ack.flight_before + self.mtu > self.cwnd;
        if full || self.options.growth == Growth::Always {
            if slow_start {
                self.slow_start(ack.bytes, advice);
            } else {
                self.after_timeout = false;
                self.avoidance(ack.bytes);
            }
        }
        if advice == Advice::Leave {
            self.ssthresh = self.cwnd;
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.mtu = congestion.mtu;
        self.ssthresh = (congestion.flight_bytes / 2).max(FLOOR_MTUS * self.mtu);
        self.bytes_acked = 0;
        self.hystart.iter_mut().for_each(HyStart::reset);
        self.after_timeout = congestion.cause == Cause::Timeout;
        self.cwnd = match congestion.cause {
            Cause::Loss | Cause::Ecn => self.ssthresh,
            Cause::Timeout => self.mtu,
        };
    }

    fn on_recovered(&mut self, recovered: Recovered) {
        // RFC 6582 §3.2 step 3 option 1: avoids a burst if little is in flight.
        let (flight, mtu) = (recovered.flight_bytes, recovered.mtu);
        self.cwnd = self.cwnd.min(self.ssthresh.min(flight.max(mtu) + mtu));
    }

    fn on_idle(&mut self, idle: Idle) {
        self.mtu = idle.mtu;
        if idle.idle_for >= idle.rto {
            // RFC 5681 §4.1: RW = min(IW, cwnd); ssthresh is unchanged.
            self.ssthresh = self.ssthresh.max(idle.ssthresh_min);
            self.cwnd = self.cwnd.min(self.options.initial_window.bytes(self.mtu));
            self.bytes_acked = 0;
            self.hystart.iter_mut().for_each(HyStart::reset);
        }
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU8;
    use std::time::Duration;

    use braidftp_base::Time;

    use super::*;
    use crate::InitialWindow;

    const MSS: usize = 1_000;

    fn reno(options: Options, cwnd: usize, ssthresh: usize) -> Reno {
        Reno { cwnd, ssthresh, ..Reno::new(options, MSS) }
    }

    fn options(counting: Counting, limit: u8) -> Options {
        let byte_counting_limit = NonZeroU8::new(limit).unwrap();
        Options { counting, byte_counting_limit, growth: Growth::Always, ..Options::default() }
    }

    fn ack(bytes: usize) -> Ack<'static> {
        Ack {
            now: Time::ZERO,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: bytes,
            mtu: MSS,
            rtt: None,
            cross_path_age: None,
            srtt: None,
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        }
    }

    fn congestion(cause: Cause, flight_bytes: usize) -> Congestion {
        Congestion { cause, now: Time::ZERO, flight_bytes, mtu: MSS }
    }

    #[test]
    fn slow_start_counts_acknowledgements_or_bytes_up_to_l() {
        for (counting, limit, bytes, grown) in [
            (Counting::Acks, 1, 2 * MSS, MSS),
            (Counting::Acks, 1, 10, MSS),
            (Counting::Bytes, 1, 2 * MSS, MSS),
            (Counting::Bytes, 2, 2 * MSS, 2 * MSS),
            (Counting::Bytes, 2, 5 * MSS, 2 * MSS),
            (Counting::Bytes, 2, 10, 10),
        ] {
            let mut reno = reno(options(counting, limit), 4 * MSS, 100 * MSS);
            reno.on_ack(ack(bytes));
            assert_eq!(reno.window(), 4 * MSS + grown, "{counting:?} {limit} {bytes}");
        }
    }

    #[test]
    fn congestion_avoidance_adds_a_segment_per_window_of_bytes_or_a_fraction_per_acknowledgement() {
        let mut counting_acks = reno(options(Counting::Acks, 1), 10 * MSS, 2 * MSS);
        counting_acks.on_ack(ack(2 * MSS));
        assert_eq!(counting_acks.window(), 10 * MSS + MSS / 10);
        let mut counting_bytes = reno(options(Counting::Bytes, 2), 10 * MSS, 2 * MSS);
        (0..4).for_each(|_| counting_bytes.on_ack(ack(2 * MSS)));
        assert_eq!(counting_bytes.window(), 10 * MSS);
        counting_bytes.on_ack(ack(2 * MSS));
        assert_eq!(counting_bytes.window(), 11 * MSS);
    }

    #[test]
    fn after_a_timeout_l_is_one_until_avoidance() {
        let mut reno = reno(options(Counting::Bytes, 2), 20 * MSS, 100 * MSS);
        reno.on_congestion(congestion(Cause::Timeout, 20 * MSS));
        assert_eq!((reno.window(), reno.ssthresh()), (MSS, 10 * MSS));
        reno.on_ack(ack(2 * MSS));
        assert_eq!(reno.window(), 2 * MSS);
    }

    #[test]
    fn a_loss_sets_the_window_to_half_of_the_flight_but_at_least_two_segments() {
        let mut reno = reno(options(Counting::Acks, 1), 20 * MSS, 100 * MSS);
        reno.on_congestion(congestion(Cause::Loss, 12 * MSS));
        assert_eq!((reno.window(), reno.ssthresh()), (6 * MSS, 6 * MSS));
        reno.on_ack(Ack { in_recovery: true, ..ack(MSS) });
        assert_eq!(reno.window(), 6 * MSS, "the window does not grow in a recovery");
        reno.on_congestion(congestion(Cause::Loss, MSS));
        assert_eq!(reno.ssthresh(), 2 * MSS);
    }

    #[test]
    fn a_recovery_ends_without_a_burst() {
        for (flight_bytes, window) in [(0, 2 * MSS), (3 * MSS, 4 * MSS), (50 * MSS, 6 * MSS)] {
            let mut reno = reno(options(Counting::Acks, 1), 6 * MSS, 6 * MSS);
            reno.on_recovered(Recovered { now: Time::ZERO, flight_bytes, mtu: MSS });
            assert_eq!(reno.window(), window);
        }
    }

    #[test]
    fn slow_start_may_be_clamped_at_ssthresh() {
        for (slow_start_end, window) in [(SlowStartEnd::StepOver, 5_000), (SlowStartEnd::Clamp, 4_500)] {
            let mut reno = reno(Options { slow_start_end, ..options(Counting::Acks, 1) }, 4_000, 4_500);
            reno.on_ack(ack(MSS));
            assert_eq!(reno.window(), window);
        }
    }

    #[test]
    fn a_window_that_is_not_full_grows_only_with_growth_always() {
        for (growth, window) in [(Growth::Always, 5 * MSS), (Growth::WhenFull, 4 * MSS)] {
            let mut reno = reno(Options { growth, ..options(Counting::Acks, 1) }, 4 * MSS, 100 * MSS);
            reno.on_ack(ack(2 * MSS));
            assert_eq!(reno.window(), window);
        }
    }

    #[test]
    fn an_idle_rto_restores_the_initial_window_and_keeps_ssthresh() {
        let options =
            Options { initial_window: InitialWindow::Mtus(NonZeroU8::MIN), ..options(Counting::Acks, 1) };
        let mut reno = reno(options, 20 * MSS, 9 * MSS);
        let rto = Duration::from_secs(1);
        let idle = |idle_for| Idle { now: Time::ZERO, idle_for, rto, mtu: MSS, ssthresh_min: 0 };
        reno.on_idle(idle(rto / 2));
        assert_eq!(reno.window(), 20 * MSS);
        reno.on_idle(idle(rto));
        assert_eq!((reno.window(), reno.ssthresh()), (MSS, 9 * MSS));
    }
}
