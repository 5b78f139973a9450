//! LIA: linked increases (RFC 6356 §3). All paths together grow as fast as one flow on the best path would,
//! and no path grows faster than Reno.
//!
//! For each acknowledged segment a window grows by `min(α/W, 1/w)` segments, where W is the sum of all
//! windows and `α = W·max(w/rtt²)/(Σ w/rtt)²`. A loss halves the path's own window.

use super::Siblings;
use crate::frame::{Rule, Step, Window};
use crate::{Ack, Congestion, Options};

/// The window rule of LIA.
#[derive(Debug, Clone, Default)]
pub struct Lia {
    siblings: Siblings,
}

impl Rule for Lia {
    fn new(_options: &Options) -> Self {
        Self::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.siblings.on_ack(ack);
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        let alone = Step::segments_a_window(1_000, window, bytes);
        let Some(own) = self.siblings.own(window.bytes, 0) else { return alone };
        let best = self.siblings.with(own).map(|share| share.rate_by_rtt()).max().unwrap_or(0);
        let rate = self.siblings.rate(own);
        let numerator = (bytes as u128 * window.mtu as u128).saturating_mul(best);
        Step { numerator, denominator: rate.saturating_mul(rate) }.min(alone)
    }

    fn after_loss(&mut self, _window: Window, congestion: &Congestion) -> usize {
        congestion.flight_bytes / 2
    }
}
