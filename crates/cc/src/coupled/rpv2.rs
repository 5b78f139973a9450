//! CMT/RPv2: resource pooling by bandwidths (Dreibholz, Becke, Adhari, Rathgeb: "On the Impact of Congestion Control for
//! Concurrent Multipath Transfer on the Transport Layer", ConTEL 2011), with the formulas of INET's `SctpCcFunctions`.
//!
//! With b = w/rtt, a path's window grows by its share `b/Σ b` of what one flow's would, and a loss reduces
//! the window by `max(½, ½·Σ b/b)` of it: a path that carries less than half of the total falls to the
//! minimum.

use super::Siblings;
use crate::frame::{Rule, Step, Window};
use crate::{Ack, Congestion, Options};

/// The window rule of CMT/RPv2.
#[derive(Debug, Clone, Default)]
pub struct RpV2 {
    siblings: Siblings,
}

impl RpV2 {
    /// This path's share of one flow's step.
    fn share(&self, window: Window, step: Step) -> Step {
        let Some(own) = self.siblings.own(window.bytes, 0) else { return step };
        Step {
            numerator: step.numerator.saturating_mul(own.rate()),
            denominator: step.denominator.saturating_mul(self.siblings.rate(own)),
        }
    }
}

impl Rule for RpV2 {
    fn new(_options: &Options) -> Self {
        Self::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.siblings.on_ack(ack);
    }

    fn slow_start(&self, window: Window, bytes: usize) -> Step {
        self.share(window, Step::of(bytes))
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        self.share(window, Step::segments_a_window(1_000, window, bytes))
    }

    fn after_loss(&mut self, window: Window, congestion: &Congestion) -> usize {
        let half = congestion.flight_bytes / 2;
        let Some(own) = self.siblings.own(window.bytes, 0) else { return half };
        let taken = (half as u128).saturating_mul(self.siblings.rate(own)) / own.rate();
        congestion
            .flight_bytes
            .saturating_sub(usize::try_from(taken).unwrap_or(usize::MAX))
            .max(congestion.mtu)
    }
}
