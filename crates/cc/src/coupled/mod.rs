//! Congestion control across the paths of one association, by name: what each path's controller knows of its siblings, it
//! knows from [`Ack::siblings`](crate::Ack).

use braidftp_base::named;

use crate::{Controller, Kind, Options};

/// What the congestion control of an association's paths has to do with each other.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Coupling {
    /// Nothing: each path is on its own.
    #[default]
    None,
    /// LIA (RFC 6356).
    Lia,
    /// OLIA.
    Olia,
    /// BALIA.
    Balia,
    /// CMT/RPv1.
    RpV1,
    /// CMT/RPv2.
    RpV2,
    /// FAST on each path, with α by its share of the rate.
    Fast,
}

impl Coupling {
    /// All of them.
    pub const ALL: &[Self] =
        &[Self::None, Self::Lia, Self::Olia, Self::Balia, Self::RpV1, Self::RpV2, Self::Fast];

    /// The name by which [`FromStr`](std::str::FromStr) knows it.
    pub const fn name(self) -> &'static str {
        match self {
            Self::None => "none",
            Self::Lia => "lia",
            Self::Olia => "olia",
            Self::Balia => "balia",
            Self::RpV1 => "rpv1",
            Self::RpV2 => "rpv2",
            Self::Fast => "fast",
        }
    }

    /// The controller of a path of this MTU, in bytes, where it would be one of `kind` alone.
    pub fn build(self, kind: Kind, options: Options, mtu: usize) -> Box<dyn Controller> {
        kind.build_with(options, mtu)
    }
}

named!(Coupling, UnknownCoupling, "coupling");
