//! BALIA: the balanced linked-adaptation algorithm (Peng, Walid, Hwang, Low: "Multipath TCP: Analysis, Design, and
//! Implementation", IEEE/ACM ToN 24(1), 2016; draft-walid-mptcp-congestion-control-04), between LIA's friendliness and OLIA's
//! responsiveness.
//!
//! With x = w/rtt and a = max x / x: for each acknowledged segment `w += x/(rtt·(Σ x)²)·(1 + a)/2·(4 + a)/5`, and a loss takes
//! `w/2·min(a, 1.5)`.

use super::{Share, Siblings};
use crate::frame::{Rule, Step, Window};
use crate::{Ack, Congestion, Options};

/// The window rule of BALIA.
#[derive(Debug, Clone, Default)]
pub struct Balia {
    siblings: Siblings,
}

impl Balia {
    fn largest_rate(&self, own: Share) -> u128 {
        self.siblings.with(own).map(|share| share.rate()).max().unwrap_or(1)
    }
}

impl Rule for Balia {
    fn new(_options: &Options) -> Self {
        Self::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.siblings.on_ack(ack);
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        let Some(own) = self.siblings.own(window.bytes, 0) else {
            return Step::segments_a_window(1_000, window, bytes);
        };
        let (x, largest, rate) = (own.rate(), self.largest_rate(own), self.siblings.rate(own));
        // (1 + a)(4 + a)/10, in thousandths.
        let a = largest.saturating_mul(1_000) / x;
        let factor = (1_000 + a).saturating_mul(4_000 + a) / 10_000;
        let numerator =
            (bytes as u128 * window.mtu as u128).saturating_mul(own.rate_by_rtt()).saturating_mul(factor);
        Step { numerator, denominator: rate.saturating_mul(rate).saturating_mul(1_000) }
    }

    fn after_loss(&mut self, window: Window, congestion: &Congestion) -> usize {
        let flight = congestion.flight_bytes;
        let Some(own) = self.siblings.own(window.bytes, 0) else { return flight / 2 };
        let a = (self.largest_rate(own).saturating_mul(1_000) / own.rate()).min(1_500);
        flight - (flight as u128 * a / 2_000) as usize
    }
}
