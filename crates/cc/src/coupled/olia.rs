//! OLIA: the opportunistic linked-increases algorithm (Khalili, Gast, Popovic, Le Boudec: "MPTCP Is Not Pareto-Optimal:
//! Performance Issues and a Possible Solution", IEEE/ACM ToN 21(5), 2013; draft-khalili-mptcp-congestion-control-05).
//!
//! For each acknowledged segment: `w += (w/rtt²)/(Σ w/rtt)² + a/w`. Let B be the best paths (those with the
//! largest l²/rtt, where l is the bytes delivered between losses) and M those with the largest windows. Then
//! a is `1/(n·|B∖M|)` on the paths of B∖M, `−1/(n·|M|)` on those of M if B∖M is not empty, and else 0.

use super::{Share, Siblings};
use crate::frame::{Rule, Step, Window};
use crate::{Ack, Congestion, Options};

/// The window rule of OLIA.
#[derive(Debug, Clone, Default)]
pub struct Olia {
    siblings: Siblings,
    /// Bytes delivered since the last loss, and between the two last losses.
    since_loss: u64,
    before_loss: u64,
}

/// The value of a for a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Drift {
    /// 1/x.
    Opens(u128),
    /// −1/x.
    Closes(u128),
    Stays,
}

impl Olia {
    fn own(&self, window: Window) -> Option<Share> {
        self.siblings.own(window.bytes, self.since_loss.max(self.before_loss))
    }

    fn drift(&self, own: Share) -> Drift {
        let quality = |share: &Share| share.between_losses.saturating_mul(share.between_losses) / share.rtt;
        let all = self.siblings.with(own);
        let best = all.clone().map(|share| quality(&share)).max().unwrap_or(0);
        let largest = all.clone().map(|share| share.window).max().unwrap_or(0);
        let is_collected = |share: &Share| quality(share) == best && share.window < largest;
        let collected = all.clone().filter(is_collected).count() as u128;
        let paths = all.clone().count() as u128;
        if collected == 0 {
            Drift::Stays
        } else if is_collected(&own) {
            Drift::Opens(paths * collected)
        } else if own.window == largest {
            Drift::Closes(paths * all.filter(|share| share.window == largest).count() as u128)
        } else {
            Drift::Stays
        }
    }

    /// `1/w` segments for each of these bytes, divided by `divisor`.
    fn a_by_w(window: Window, bytes: usize, divisor: u128) -> Step {
        let step = Step::segments_a_window(1_000, window, bytes);
        Step { denominator: step.denominator * divisor, ..step }
    }
}

impl Rule for Olia {
    fn new(_options: &Options) -> Self {
        Self::default()
    }

    fn on_ack(&mut self, ack: &Ack<'_>) {
        self.siblings.on_ack(ack);
        self.since_loss = self.since_loss.saturating_add(ack.bytes as u64);
    }

    fn avoidance(&mut self, window: Window, bytes: usize) -> Step {
        let Some(own) = self.own(window) else { return Step::segments_a_window(1_000, window, bytes) };
        let rate = self.siblings.rate(own);
        let numerator = (bytes as u128 * window.mtu as u128).saturating_mul(own.rate_by_rtt());
        let coupled = Step { numerator, denominator: rate.saturating_mul(rate) };
        match self.drift(own) {
            Drift::Opens(divisor) => coupled.plus(Self::a_by_w(window, bytes, divisor)),
            Drift::Closes(_) | Drift::Stays => coupled,
        }
    }

    fn closing(&mut self, window: Window, bytes: usize) -> Step {
        match self.own(window).map(|own| self.drift(own)) {
            Some(Drift::Closes(divisor)) => Self::a_by_w(window, bytes, divisor),
            _ => Step::of(0),
        }
    }

    fn after_loss(&mut self, _window: Window, congestion: &Congestion) -> usize {
        self.before_loss = std::mem::take(&mut self.since_loss);
        congestion.flight_bytes / 2
    }
}
