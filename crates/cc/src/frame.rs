//! The common frame of controllers that grow a window by acknowledgements and reduce it at a loss: slow start
//! and its end, idle time, the bounds of the window and fractions of a byte. A [`Rule`] gives the growth and
//! the reduction.
//!
//! [`crate::reno`] is the same with a fixed rule. It is separate because the figures of the papers depend on
//! each of its bytes.

use std::fmt;

use crate::hystart::{Advice, CSS_GROWTH_DIVISOR, HyStart};
use crate::{
    Ack, Cause, Congestion, Controller, Counting, Growth, Idle, Options, Recovered, SlowStart, SlowStartEnd,
};

/// "Arbitrarily high" (RFC 5681 §3.1).
const SSTHRESH_INITIAL: usize = u32::MAX as usize;
/// The minimum window after a reduction, in segments (RFC 5681 §3.1 equation 4).
const FLOOR_MTUS: usize = 2;
/// Above any bandwidth-delay product that 32-bit windows allow.
const WINDOW_MAX: usize = u32::MAX as usize;
/// The units per byte in which a window is counted.
const PARTS: u128 = 1 << 20;

/// The growth and reduction of a window.
pub(crate) trait Rule: fmt::Debug + Send {
    /// Creates the rule for a path on which nothing was sent yet.
    fn new(options: &Options) -> Self;

    /// Takes every acknowledgement first, for measurements.
    fn on_ack(&mut self, _ack: &Ack<'_>) {}

    /// The growth in slow start for `bytes` acknowledged.
    fn slow_start(&self, _window: Window, bytes: usize) -> Step {
        Step::of(bytes)
    }

    /// The growth in congestion avoidance for `bytes` acknowledged.
    fn avoidance(&mut self, window: Window, bytes: usize) -> Step;

    /// The decrease in congestion avoidance for `bytes` acknowledged.
    fn closing(&mut self, _window: Window, _bytes: usize) -> Step {
        Step::of(0)
    }

    /// The new ssthresh after a loss.
    fn after_loss(&mut self, window: Window, congestion: &Congestion) -> usize;

    /// The new ssthresh after a time-out.
    fn after_timeout(&mut self, congestion: &Congestion) -> usize {
        congestion.flight_bytes / 2
    }
}

/// A window as a rule sees it. Neither field is 0.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Window {
    /// cwnd, in bytes.
    pub(crate) bytes: usize,
    /// The path's MTU, in bytes.
    pub(crate) mtu: usize,
}

impl Window {
    /// The number of full segments in the window, at least 1.
    pub(crate) fn segments(self) -> usize {
        (self.bytes / self.mtu).max(1)
    }
}

/// A change of the window, as a fraction of bytes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Step {
    pub(crate) numerator: u128,
    pub(crate) denominator: u128,
}

impl Step {
    /// A whole number of bytes.
    pub(crate) fn of(bytes: usize) -> Self {
        Self { numerator: bytes as u128, denominator: 1 }
    }

    /// The step in units of 1/[`PARTS`] bytes.
    fn parts(self) -> u128 {
        self.numerator.saturating_mul(PARTS) / self.denominator.max(1)
    }

    /// The smaller of two.
    pub(crate) fn min(self, other: Self) -> Self {
        if self.parts() <= other.parts() { self } else { other }
    }

    /// The sum.
    pub(crate) fn plus(self, other: Self) -> Self {
        Self { numerator: self.parts().saturating_add(other.parts()), denominator: PARTS }
    }

    /// The step for `bytes` acknowledged at a growth of `thousandths`/1000 segments per window: `segments ·
    /// mtu · bytes / cwnd`.
    pub(crate) fn segments_a_window(thousandths: u128, window: Window, bytes: usize) -> Self {
        Self {
            numerator: thousandths * window.mtu as u128 * bytes as u128,
            denominator: 1_000 * window.bytes as u128,
        }
    }
}

/// A controller that follows a rule.
#[derive(Debug, Clone)]
pub(crate) struct Framed<R> {
    rule: R,
    options: Options,
    mtu: usize,
    cwnd: usize,
    /// The fraction of a byte, in units of 1/[`PARTS`].
    parts: u128,
    ssthresh: usize,
    /// Whether this slow start follows a time-out: L is then 1 (RFC 3465 §2.3).
    after_timeout: bool,
    hystart: Option<HyStart>,
}

impl<R: Rule> Framed<R> {
    /// Creates a controller for a path on which nothing was sent yet.
    pub(crate) fn new(options: Options, mtu: usize) -> Self {
        Self {
            rule: R::new(&options),
            options,
            mtu,
            cwnd: options.initial_window.bytes(mtu),
            parts: 0,
            ssthresh: options.initial_ssthresh.map_or(SSTHRESH_INITIAL, |bytes| bytes as usize),
            after_timeout: false,
            hystart: (options.slow_start == SlowStart::HyStart).then(HyStart::default),
        }
    }

    fn at(&self) -> Window {
        Window { bytes: self.cwnd.max(1), mtu: self.mtu }
    }

    fn open(&mut self, step: Step, at_most: usize) {
        let parts = step.parts().saturating_add(self.parts);
        let bytes = usize::try_from(parts / PARTS).unwrap_or(WINDOW_MAX);
        self.parts = parts % PARTS;
        self.cwnd = self.cwnd.saturating_add(bytes).min(at_most);
    }

    fn close(&mut self, step: Step) {
        let all = (self.cwnd as u128 * PARTS + self.parts).saturating_sub(step.parts());
        let all = all.max((FLOOR_MTUS * self.mtu) as u128 * PARTS);
        if all < self.cwnd as u128 * PARTS + self.parts {
            (self.cwnd, self.parts) = ((all / PARTS) as usize, all % PARTS);
        }
    }

    /// The acknowledged bytes that count in slow start.
    fn counted(&self, bytes: usize) -> usize {
        match self.options.counting {
            Counting::Acks => self.mtu,
            Counting::Bytes => {
                let limit = if self.after_timeout { 1 } else { self.options.byte_counting_limit.get() };
                bytes.min(usize::from(limit) * self.mtu)
            }
        }
    }
}

impl<R: Rule> Controller for Framed<R> {
    fn window(&self) -> usize {
        self.cwnd
    }

    fn ssthresh(&self) -> usize {
        self.ssthresh
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        self.mtu = ack.mtu;
        self.rule.on_ack(&ack);
        if ack.in_recovery || ack.bytes == 0 {
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
                let counted = self.counted(ack.bytes);
                let counted = if advice == Advice::Slowly { counted / CSS_GROWTH_DIVISOR } else { counted };
                let step = self.rule.slow_start(self.at(), counted);
                let at_most = match self.options.slow_start_end {
                    SlowStartEnd::StepOver => WINDOW_MAX,
                    SlowStartEnd::Clamp => self.ssthresh,
                };
                self.open(step, at_most);
            } else {
                self.after_timeout = false;
                let counted = match self.options.counting {
                    Counting::Acks => self.mtu,
                    Counting::Bytes => ack.bytes,
                };
                let step = self.rule.avoidance(self.at(), counted);
                self.open(step, WINDOW_MAX);
                let step = self.rule.closing(self.at(), counted);
                self.close(step);
            }
        }
        if advice == Advice::Leave {
            self.ssthresh = self.cwnd;
        }
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        self.mtu = congestion.mtu;
        let after = match congestion.cause {
            Cause::Loss | Cause::Ecn => self.rule.after_loss(self.at(), &congestion),
            Cause::Timeout => self.rule.after_timeout(&congestion),
        };
        self.ssthresh = after.max(FLOOR_MTUS * self.mtu);
        self.parts = 0;
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
            self.hystart.iter_mut().for_each(HyStart::reset);
        }
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.mtu = mtu;
    }

    fn limit_window(&mut self, at_most: usize) {
        self.cwnd = self.cwnd.min(at_most);
    }

    fn restart_window(&mut self, window: usize) {
        self.cwnd = window;
        self.parts = 0;
        self.hystart.iter_mut().for_each(HyStart::reset);
    }
}

#[cfg(test)]
pub(crate) mod testing {
    //! Helpers for the tests of rules.

    use std::time::Duration;

    use braidftp_base::Time;

    use super::{Framed, Rule, Window};
    use crate::{Ack, Cause, Congestion, Controller, Options};

    pub(crate) const MSS: usize = 1_000;

    /// A controller with this window and ssthresh, in segments.
    pub(crate) fn framed<R: Rule>(options: Options, cwnd: usize, ssthresh: usize) -> Framed<R> {
        Framed { cwnd: cwnd * MSS, ssthresh: ssthresh * MSS, ..Framed::new(options, MSS) }
    }

    /// An acknowledgement of `bytes` of a full window, with this RTT.
    pub(crate) fn ack(bytes: usize, rtt: Duration) -> Ack<'static> {
        Ack {
            now: Time::ZERO,
            bytes,
            gap_bytes: 0,
            regained_bytes: 0,
            flight_before: usize::MAX / 2,
            mtu: MSS,
            rtt: Some(rtt),
            cross_path_age: None,
            srtt: Some(rtt),
            cum_advanced: true,
            in_recovery: false,
            siblings: &[],
        }
    }

    /// Acknowledges a whole window, segment by segment; returns the growth in bytes.
    pub(crate) fn round<R: Rule>(framed: &mut Framed<R>, rtt: Duration) -> usize {
        let before = framed.window();
        (0..before / MSS).for_each(|_| framed.on_ack(ack(MSS, rtt)));
        framed.window() - before
    }

    /// A loss with the whole window in flight.
    pub(crate) fn lose<R: Rule>(framed: &mut Framed<R>, cause: Cause) {
        let flight_bytes = framed.window();
        framed.on_congestion(Congestion { cause, now: Time::ZERO, flight_bytes, mtu: MSS });
    }

    #[test]
    fn a_window_is_at_least_one_segment() {
        assert_eq!(Window { bytes: 10, mtu: MSS }.segments(), 1);
    }
}
