//! Congestion control coupled across the paths of one association, by name. A controller knows the other
//! paths by [`Ack::siblings`](crate::Ack).
//!
//! LIA, OLIA and BALIA let all paths together take no more of a shared bottleneck than one flow would take on
//! the best path. Resource pooling divides one flow's growth among the paths; FAST divides its α. Each is a
//! rule of the frame that Reno-like controllers share, and is Reno without siblings. These rules halve the
//! window at every loss and so do not fill a path with random losses; and they couple paths that share no
//! bottleneck.
//!
//! The default is [`Coupling::Detected`]: each path has the configured controller, and only paths found to
//! share a bottleneck are siblings. Siblings under `cubic`, and under `auto` while it treats losses as
//! congestion, grow by their part of what one flow would: the share of RFC 6356 within that group. A loss
//! reduces a window more if the window is only a part of one flow's. The transport detects shared
//! bottlenecks.

mod balia;
mod lia;
mod olia;
mod rpv1;
mod rpv2;
#[cfg(test)]
mod tests;

use braidftp_base::named;

pub use self::balia::Balia;
pub use self::lia::Lia;
pub use self::olia::Olia;
pub use self::rpv1::RpV1;
pub use self::rpv2::RpV2;
use crate::frame::{Framed, Rule};
use crate::guard::Guard;
use crate::{Ack, Controller, Kind, Options, PathView};

/// How the congestion control of the paths of an association is coupled.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coupling {
    /// Not at all: each path has the configured controller.
    #[default]
    None,
    /// RFC 6356: [`Lia`].
    Lia,
    /// Khalili et al. 2013: [`Olia`].
    Olia,
    /// Peng et al. 2016: [`Balia`].
    Balia,
    /// Dreibholz et al. 2010: [`RpV1`].
    RpV1,
    /// Dreibholz et al. 2011: [`RpV2`].
    RpV2,
    /// [`fast`](crate::fast) on each path, with α divided by the paths' shares of the rate.
    Fast,
    /// As one flow where paths share a bottleneck, independent elsewhere. Supported by `auto` and `cubic`.
    Detected,
}

impl Coupling {
    /// All couplings.
    pub const ALL: &[Self] =
        &[Self::None, Self::Lia, Self::Olia, Self::Balia, Self::RpV1, Self::RpV2, Self::Fast, Self::Detected];

    /// The name by which [`FromStr`](std::str::FromStr) knows the coupling.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lia => "lia",
            Self::Olia => "olia",
            Self::Balia => "balia",
            Self::RpV1 => "rpv1",
            Self::RpV2 => "rpv2",
            Self::Fast => "fast",
            Self::Detected => "detected",
        }
    }

    /// Builds the controller of a path with this MTU in bytes, whose controller without coupling is of
    /// `kind`.
    pub fn build(self, kind: Kind, options: Options, mtu: usize) -> Box<dyn Controller> {
        match self {
            Self::None | Self::Detected => kind.build_with(options, mtu),
            Self::Lia => framed::<Lia>(options, mtu),
            Self::Olia => framed::<Olia>(options, mtu),
            Self::Balia => framed::<Balia>(options, mtu),
            Self::RpV1 => framed::<RpV1>(options, mtu),
            Self::RpV2 => framed::<RpV2>(options, mtu),
            Self::Fast => Kind::Fast.build_with(options, mtu),
        }
    }
}

named!(Coupling, UnknownCoupling, "coupling");

/// The whole growth of one flow, in thousandths.
pub(crate) const ALL_OF_IT: usize = 1_000;

/// The part of a single flow's growth that a window of this size gets beside its siblings, in thousandths:
/// `min(1, α·w/W) = min(1, w·max(w/rtt²)/(Σ w/rtt)²)` of RFC 6356 §3, at least 1.
pub(crate) fn part(ack: &Ack<'_>, window: usize) -> usize {
    let own = Share::of(PathView { window, srtt: ack.srtt, ssthresh: 0, between_losses: 0 });
    let Some(own) = own.filter(|_| !ack.siblings.is_empty()) else { return ALL_OF_IT };
    let all = || std::iter::once(own).chain(ack.siblings.iter().filter_map(|view| Share::of(*view)));
    let best = all().map(|share| share.rate_by_rtt()).max().unwrap_or(0);
    let rate: u128 = all().map(|share| share.rate()).sum();
    let part = own.window.saturating_mul(best).saturating_mul(ALL_OF_IT as u128) / rate.saturating_mul(rate);
    (part as usize).clamp(1, ALL_OF_IT)
}

fn framed<R: Rule + Clone + 'static>(options: Options, mtu: usize) -> Box<dyn Controller> {
    Box::new(Guard::new(mtu, |mtu| Framed::<R>::new(options, mtu)))
}

/// The latest view of the sibling paths.
#[derive(Debug, Clone, Default)]
pub(crate) struct Siblings {
    srtt: Option<std::time::Duration>,
    others: Vec<PathView>,
}

/// A path in the terms of the formulas.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Share {
    /// w, in bytes.
    pub(crate) window: u128,
    /// rtt, in microseconds; at least 1.
    pub(crate) rtt: u128,
    /// l, in bytes.
    pub(crate) between_losses: u128,
}

impl Share {
    fn of(view: PathView) -> Option<Self> {
        let rtt = view.srtt?.as_micros().max(1);
        let between_losses = u128::from(view.between_losses);
        Some(Self { window: view.window as u128, rtt, between_losses })
    }

    /// w/rtt, in bytes per second; at least 1.
    pub(crate) fn rate(&self) -> u128 {
        (self.window * 1_000_000 / self.rtt).max(1)
    }

    /// w/rtt², in bytes per second².
    pub(crate) fn rate_by_rtt(&self) -> u128 {
        self.rate().saturating_mul(1_000_000) / self.rtt
    }
}

impl Siblings {
    pub(crate) fn on_ack(&mut self, ack: &Ack<'_>) {
        self.srtt = ack.srtt;
        self.others.clear();
        self.others.extend_from_slice(ack.siblings);
    }

    pub(crate) fn others(&self) -> &[PathView] {
        &self.others
    }

    /// The path itself with this window and distance between losses; `None` before the first RTT sample.
    pub(crate) fn own(&self, window: usize, between_losses: u64) -> Option<Share> {
        Share::of(PathView { window, srtt: self.srtt, ssthresh: 0, between_losses })
    }

    /// This path and all others with an RTT.
    pub(crate) fn with<'a>(&'a self, own: Share) -> impl Iterator<Item = Share> + Clone + 'a {
        std::iter::once(own).chain(self.others.iter().filter_map(|view| Share::of(*view)))
    }

    /// Σ w/rtt, in bytes per second.
    pub(crate) fn rate(&self, own: Share) -> u128 {
        self.with(own).map(|share| share.rate()).sum()
    }
}
