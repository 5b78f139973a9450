//! Sanitizes the input of controllers, so that no controller has to check for RTTs of zero, a clock that goes
//! back or an MTU larger than any packet.
//!
//! Every controller that [`Kind`](crate::Kind) builds is wrapped in a guard. Sane input passes unchanged.

use std::fmt;
use std::time::Duration;

use braidftp_base::{Rate, Time};

use crate::{Ack, Cause, Congestion, Controller, Idle, Lost, Recovered, Sent, Spurious};

/// The largest packet without jumbograms.
const MTU_MAX: usize = 65_535;
/// More than any window.
const BYTES_MAX: usize = u32::MAX as usize;
/// The shortest valid RTT; a sample of zero comes from a clock that did not tick.
const RTT_MIN: Duration = Duration::from_micros(1);
/// The longest valid RTT; a round trip to the Moon takes 2.6 s, one to Mars 45 min.
const RTT_MAX: Duration = Duration::from_secs(3_600);

/// A wrapper that passes only valid input to a controller.
#[derive(Clone)]
pub(crate) struct Guard<C> {
    inner: C,
    /// The controller before the last loss or time-out, unless it undoes spurious ones itself.
    before: Option<Box<C>>,
    /// The latest time passed in.
    now: Time,
}

impl<C> Guard<C> {
    /// Wraps a controller for this MTU.
    pub(crate) fn new(mtu: usize, make: impl FnOnce(usize) -> C) -> Self {
        Self { inner: make(sane_mtu(mtu)), before: None, now: Time::ZERO }
    }

    /// Returns a monotonic time.
    fn clock(&mut self, now: Time) -> Time {
        self.now = self.now.max(now);
        self.now
    }
}

fn sane_mtu(mtu: usize) -> usize {
    mtu.clamp(1, MTU_MAX)
}

fn sane_rtt(rtt: Duration) -> Duration {
    rtt.clamp(RTT_MIN, RTT_MAX)
}

/// Formats the wrapped controller without the guard.
impl<C: fmt::Debug> fmt::Debug for Guard<C> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

// Every method of the trait must be forwarded: an omitted one would use the trait's default.
impl<C: Controller + Clone> Controller for Guard<C> {
    fn window(&self) -> usize {
        self.inner.window()
    }

    fn ssthresh(&self) -> usize {
        self.inner.ssthresh()
    }

    fn pacing_rate(&self) -> Option<Rate> {
        self.inner.pacing_rate()
    }

    fn counts_arrivals(&self) -> bool {
        self.inner.counts_arrivals()
    }

    fn on_sent(&mut self, sent: Sent) {
        let now = self.clock(sent.now);
        let (bytes, flight_before) = (sent.bytes.min(BYTES_MAX), sent.flight_before.min(BYTES_MAX));
        self.inner.on_sent(Sent { now, bytes, flight_before });
    }

    fn on_lost(&mut self, lost: Lost) {
        let now = self.clock(lost.now);
        self.inner.on_lost(Lost {
            now,
            bytes: lost.bytes.min(BYTES_MAX),
            sent_at: lost.sent_at.min(now),
            flight_bytes: lost.flight_bytes.min(BYTES_MAX),
            mtu: sane_mtu(lost.mtu),
        });
    }

    fn on_app_limited(&mut self, now: Time, flight_bytes: usize) {
        let now = self.clock(now);
        self.inner.on_app_limited(now, flight_bytes.min(BYTES_MAX));
    }

    fn on_ack(&mut self, ack: Ack<'_>) {
        let now = self.clock(ack.now);
        self.inner.on_ack(Ack {
            now,
            bytes: ack.bytes.min(BYTES_MAX),
            gap_bytes: ack.gap_bytes.min(ack.bytes),
            regained_bytes: ack.regained_bytes.min(ack.bytes),
            flight_before: ack.flight_before.min(BYTES_MAX),
            mtu: sane_mtu(ack.mtu),
            rtt: ack.rtt.map(sane_rtt),
            cross_path_age: ack.cross_path_age.map(sane_rtt),
            srtt: ack.srtt.map(sane_rtt),
            ..ack
        });
    }

    fn on_congestion(&mut self, congestion: Congestion) {
        let now = self.clock(congestion.now);
        let flight_bytes = congestion.flight_bytes.min(BYTES_MAX);
        self.before = match congestion.cause {
            Cause::Loss | Cause::Timeout if !self.inner.counts_arrivals() => {
                Some(Box::new(self.inner.clone()))
            }
            _ => None,
        };
        self.inner.on_congestion(Congestion {
            now,
            flight_bytes,
            mtu: sane_mtu(congestion.mtu),
            ..congestion
        });
    }

    fn on_spurious(&mut self, spurious: Spurious) {
        let now = self.clock(spurious.now);
        let (flight_bytes, mtu) = (spurious.flight_bytes.min(BYTES_MAX), sane_mtu(spurious.mtu));
        if let Some(before) = self.before.take().filter(|before| before.window() > self.inner.window()) {
            self.inner = *before;
            self.inner.on_mtu(mtu);
        }
        self.inner.on_spurious(Spurious { now, flight_bytes, mtu });
    }

    fn on_idle(&mut self, idle: Idle) {
        let now = self.clock(idle.now);
        let ssthresh_min = idle.ssthresh_min.min(BYTES_MAX);
        self.inner.on_idle(Idle { now, mtu: sane_mtu(idle.mtu), ssthresh_min, ..idle });
    }

    fn trim(&mut self) {
        self.inner.trim();
    }

    fn on_recovered(&mut self, recovered: Recovered) {
        let now = self.clock(recovered.now);
        let flight_bytes = recovered.flight_bytes.min(BYTES_MAX);
        self.inner.on_recovered(Recovered { now, flight_bytes, mtu: sane_mtu(recovered.mtu) });
    }

    fn on_mtu(&mut self, mtu: usize) {
        self.inner.on_mtu(sane_mtu(mtu));
    }

    fn limit_window(&mut self, at_most: usize) {
        self.inner.limit_window(at_most.clamp(1, BYTES_MAX));
    }

    fn restart_window(&mut self, window: usize) {
        self.inner.restart_window(window.clamp(1, BYTES_MAX));
    }
}

#[cfg(test)]
mod tests {
    use crate::{Ack, Cause, Congestion, Kind, Spurious};
    use braidftp_base::Time;
    use std::time::Duration;

    #[test]
    fn only_a_spurious_loss_restores_the_window() {
        let (mtu, rtt) = (1_000, Some(Duration::from_millis(50)));
        // Controllers that count arrivals undo spurious losses themselves.
        for kind in Kind::ALL.iter().filter(|kind| **kind == Kind::Bbr || !kind.build(mtu).counts_arrivals())
        {
            let mut controller = kind.build(mtu);
            let mut now = Time::from_millis(50);
            let mut round = |controller: &mut dyn crate::Controller| {
                now += Duration::from_millis(50);
                let mut left = controller.window();
                while left > 0 {
                    let bytes = left.min(2 * mtu);
                    left -= bytes;
                    let (flight_before, srtt) = (controller.window(), rtt);
                    let (cum_advanced, in_recovery, siblings) = (true, false, &[][..]);
                    let ack = Ack {
                        now,
                        bytes,
                        gap_bytes: 0,
                        regained_bytes: 0,
                        flight_before,
                        mtu,
                        rtt,
                        cross_path_age: None,
                        srtt,
                        cum_advanced,
                        in_recovery,
                        siblings,
                    };
                    controller.on_ack(ack);
                }
                now
            };
            for _ in 0..6 {
                round(&mut *controller);
            }
            for cause in [Cause::Loss, Cause::Timeout] {
                let now = round(&mut *controller);
                let (window, ssthresh) = (controller.window(), controller.ssthresh());
                controller.on_congestion(Congestion { cause, now, flight_bytes: window, mtu });
                controller.on_spurious(Spurious { now, flight_bytes: window, mtu });
                assert_eq!(
                    (controller.window(), controller.ssthresh()),
                    (window, ssthresh),
                    "{kind}, {cause:?}"
                );
            }
            // There is nothing left to undo.
            let now = round(&mut *controller);
            let window = controller.window();
            controller.on_spurious(Spurious { now, flight_bytes: window, mtu });
            assert_eq!(controller.window(), window, "{kind}");
        }
    }
}
