//! CMT/RPv1: resource pooling by slow-start thresholds (Dreibholz, Becke, Pulinthanath, Rathgeb: "Applying TCP-Friendly Congestion
//! Control to Concurrent Multipath Transfer", AINA 2010), with the formulas of INET's `SctpCcFunctions`.
//!
//! A path's window grows by its share `ssthresh/Σ ssthresh` of what one flow's would. A loss reduces the
//! window by half of all windows together. A path without a loss so far has an arbitrarily high ssthresh; its
//! window is used instead.

use super::Siblings;
use crate::frame::{Rule, Step, Window};
use crate::{Ack, Congestion, Options};

/// A larger ssthresh was never set by a loss.
const SSTHRESH_SET: usize = 1 << 30;

/// The window rule of CMT/RPv1.
#[derive(Debug, Clone, Default)]
pub struct RpV1 {
    siblings: Siblings,
    ssthresh: Option<usize>,
}

impl RpV1 {
    /// This path's share of one flow's step.
    fn share(&self, window: Window, step: Step) -> Step {
        let own = self.ssthresh.unwrap_or(window.bytes).max(1) as u128;
        let known = |view: &crate::PathView| {
            (if view.ssthresh < SSTHRESH_SET { view.ssthresh } else { view.window }) as u128
        };
        let all = own + self.siblings.others().iter().map(known).sum::<u128>();
        Step { numerator: step.numerator * own, denominator: step.denominator * all }
    }

    fn after_congestion(&mut self, window: usize, mtu: usize) -> usize {
        let all = window + self.siblings.others().iter().map(|view| view.window).sum::<usize>();
        let after = window.saturating_sub(all / 2).max(mtu);
        self.ssthresh = Some(after);
        after
    }
}

impl Rule for RpV1 {
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
        self.after_congestion(window.bytes, congestion.mtu)
    }

    fn after_timeout(&mut self, congestion: &Congestion) -> usize {
        self.after_congestion(congestion.flight_bytes, congestion.mtu)
    }
}
