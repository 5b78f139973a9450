//! Which extensions an association uses: those that both sides list in the Supported Extensions parameter of INIT and
//! INIT ACK (RFC 5061 §4.2.7). A side that wants none sends no parameter.

use crate::config::Config;
use crate::wire::{Data, Init, Parameter};

/// Extensions of SCTP that both sides must support to use them.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions {
    /// I-DATA (RFC 8260 §2).
    pub interleaving: bool,
}

impl Extensions {
    /// What this side supports.
    pub(crate) fn of(config: &Config) -> Self {
        Self { interleaving: config.interleaving }
    }

    /// What the peer supports, by its INIT or INIT ACK.
    pub(crate) fn listed(init: &Init) -> Self {
        //= specs/rfc8260.txt#section-2.2.1
        //# An SCTP endpoint indicates user message interleaving support by
        //# listing the I-DATA chunk within the Supported Extensions Parameter,
        //# as defined in [RFC5061].
        let lists = |kind| {
            init.parameters.iter().any(|parameter| match parameter {
                Parameter::SupportedExtensions(kinds) => kinds.contains(&kind),
                _ => false,
            })
        };
        Self { interleaving: lists(Data::INTERLEAVED_KIND) }
    }

    /// What both support.
    //= specs/rfc8260.txt#section-2.2.1
    //# User message interleaving has been
    //# negotiated for an association if both endpoints have indicated I-DATA
    //# support.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self { interleaving: self.interleaving && other.interleaving }
    }

    /// The parameter that lists them, if there are any.
    pub(crate) fn parameter(self) -> Option<Parameter> {
        self.interleaving.then(|| Parameter::SupportedExtensions(vec![Data::INTERLEAVED_KIND].into()))
    }

    /// One bit each, for the cookie.
    pub(crate) fn bits(self) -> u8 {
        u8::from(self.interleaving)
    }

    /// What `bits` gave.
    pub(crate) fn from_bits(bits: u8) -> Self {
        Self { interleaving: bits & 1 != 0 }
    }
}
