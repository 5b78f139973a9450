//! The extensions of an association: those that both sides list in the Supported Extensions parameter of
//! INIT and INIT ACK (RFC 5061 §4.2.7) or in a parameter of their own. A side without extensions sends no
//! parameter.

use bytes::Bytes;

use crate::config::{Config, ErrorDetection, MultipathWith};
use crate::wire::{
    Asconf, AsconfAck, Auth, Chunk, CompactSack, Data, ForwardTsn, IForwardTsn, Init, NrSack, Parameter,
};

/// SCTP extensions that both sides must support.
//= specs/rfc8260.txt#section-2
//# If an SCTP implementation supports user message interleaving and the
//# Partial Reliability extension described in [RFC3758] or the Stream
//# Reconfiguration Extension described in [RFC6525], it is REQUIRED to
//# implement the corresponding changes specified in Section 2.3.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Extensions {
    /// ASCONF and ASCONF-ACK (RFC 5061), which require authentication.
    pub asconf: bool,
    /// Authenticated chunks (RFC 4895), negotiated by further parameters, which are in the key vectors.
    pub auth: bool,
    /// I-DATA (RFC 8260 §2).
    pub interleaving: bool,
    /// FORWARD TSN (RFC 3758), used with DATA.
    pub forward_tsn: bool,
    /// I-FORWARD-TSN (RFC 8260 §2.3.1), used with I-DATA.
    pub i_forward_tsn: bool,
    /// RE-CONFIG (RFC 6525).
    pub reconfiguration: bool,
    /// Explicit congestion notification (RFC 4960 Appendix A).
    pub ecn: bool,
    /// NR-SACK (draft-natarajan-tsvwg-sctp-nrsack).
    pub nr_sack: bool,
    /// COMPACT-SACK (`specs/compact-sack.md`).
    pub compact_sack: bool,
    /// Packets without a checksum (RFC 9653), if the lower layer detects errors.
    pub zero_checksum: bool,
}

impl Extensions {
    /// The extensions that this side supports.
    pub(crate) fn of(config: &Config) -> Self {
        Self {
            asconf: config.paths.asconf,
            auth: config.security.auth.is_some(),
            interleaving: config.messages.interleaving,
            forward_tsn: config.messages.partial_reliability,
            i_forward_tsn: config.messages.partial_reliability && config.messages.interleaving,
            reconfiguration: config.streams.reconfiguration,
            ecn: config.congestion.ecn,
            nr_sack: config.sack.nr_sack || agrees_on_multipath(config),
            compact_sack: config.sack.compact_sack,
            zero_checksum: config.security.zero_checksum.is_some(),
        }
    }

    /// The extensions to list for an association that can only have one path.
    #[must_use]
    pub(crate) fn for_one_path(self, config: &Config) -> Self {
        Self { nr_sack: config.sack.nr_sack, ..self }
    }

    /// The extensions to list in response to the peer's list: without those that are useless if the peer
    /// does not support them.
    #[must_use]
    pub(crate) fn in_response_to(self, peer: Self, config: &Config) -> Self {
        //= specs/compact-sack.md#section-2
        //# In an
        //# INIT ACK it SHOULD be listed only if the INIT has listed it.
        Self {
            nr_sack: self.nr_sack && (config.sack.nr_sack || peer.nr_sack),
            compact_sack: self.compact_sack && peer.compact_sack,
            ..self
        }
    }

    /// The extensions in the peer's INIT or INIT ACK.
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
        //= specs/rfc3758.txt#section-3.1
        //# At the initialization of the association, the sender of the INIT or
        //# INIT ACK chunk MAY include this OPTIONAL parameter to inform its peer
        //# that it is able to support the Forward TSN chunk (see Section 3.3 for
        //# further details).
        let forward_tsn =
            init.parameters.contains(&Parameter::ForwardTsnSupported) || lists(ForwardTsn::KIND);
        Self {
            asconf: lists(Asconf::KIND) && lists(AsconfAck::KIND),
            auth: lists(Auth::KIND),
            interleaving: lists(Data::INTERLEAVED_KIND),
            forward_tsn,
            //= specs/rfc8260.txt#section-2.3.1
            //# Support for the I-FORWARD-TSN chunk is negotiated during the SCTP
            //# association setup via the Supported Extensions Parameter, as defined
            //# in [RFC5061].
            i_forward_tsn: lists(IForwardTsn::KIND),
            //= specs/rfc6525.txt#section-5.1.1
            //# Before sending a RE-CONFIG chunk, the
            //# sender MUST ensure that the peer advertised support for the
            //# re-configuration extension.
            reconfiguration: lists(Chunk::RECONFIG),
            ecn: init.parameters.contains(&Parameter::EcnCapable),
            nr_sack: lists(NrSack::KIND),
            compact_sack: lists(CompactSack::KIND),
            zero_checksum: init.parameters.contains(&Parameter::ZeroChecksum(ErrorDetection::Dtls.edmid())),
        }
    }

    /// The extensions that both sides support.
    //= specs/rfc8260.txt#section-2.2.1
    //# User message interleaving has been
    //# negotiated for an association if both endpoints have indicated I-DATA
    //# support.
    #[must_use]
    pub(crate) fn and(self, other: Self) -> Self {
        Self {
            asconf: self.asconf && other.asconf,
            auth: self.auth && other.auth,
            interleaving: self.interleaving && other.interleaving,
            forward_tsn: self.forward_tsn && other.forward_tsn,
            i_forward_tsn: self.i_forward_tsn && other.i_forward_tsn,
            reconfiguration: self.reconfiguration && other.reconfiguration,
            ecn: self.ecn && other.ecn,
            nr_sack: self.nr_sack && other.nr_sack,
            compact_sack: self.compact_sack && other.compact_sack,
            zero_checksum: self.zero_checksum && other.zero_checksum,
        }
    }

    /// Whether partly sent messages can be abandoned (RFC 3758); for extensions that both sides support.
    pub fn partial_reliability(self) -> bool {
        //= specs/rfc8260.txt#section-2.3.1
        //# The partial reliability extension is negotiated and
        //# can be used in combination with user message interleaving only if
        //# both endpoints indicated their support of user message interleaving
        //# and the I-FORWARD-TSN chunk.
        if self.interleaving { self.i_forward_tsn } else { self.forward_tsn }
    }

    /// Whether a COMPACT-SACK is sent if a SACK has no room for all gap blocks; for extensions that both
    /// sides support. Not with NR-SACK, whose non-renegable blocks it cannot express.
    pub(crate) fn compacts(self) -> bool {
        self.compact_sack && !self.nr_sack
    }

    /// Returns the parameters that announce the extensions, in the order in which they follow those of
    /// RFC 9260; none if there are no extensions.
    pub(crate) fn parameters(self) -> Vec<Parameter> {
        //= specs/rfc5061.txt#section-4.2.7
        //# The sender MUST support both the sending and the receiving of any
        //# chunk types listed within the Supported Extensions Parameter.
        let listed = [
            (self.forward_tsn, ForwardTsn::KIND),
            (self.asconf, Asconf::KIND),
            (self.asconf, AsconfAck::KIND),
            (self.auth, Auth::KIND),
            //= specs/rfc6525.txt#section-5.1.1
            //# An SCTP endpoint supporting this extension MUST include the chunk
            //# type of the RE-CONFIG chunk in the Supported Extensions Parameter in
            //# either the INIT or INIT-ACK.
            (self.reconfiguration, Chunk::RECONFIG),
            (self.nr_sack, NrSack::KIND),
            (self.compact_sack, CompactSack::KIND),
            (self.interleaving, Data::INTERLEAVED_KIND),
            (self.i_forward_tsn, IForwardTsn::KIND),
        ];
        //= specs/rfc5061.txt#section-4.2.7
        //# The sender MUST NOT include multiple Supported Extensions Parameter
        //# within any chunk.
        //= specs/rfc5061.txt#section-4.2.7
        //# This parameter MUST NOT appear in any other chunk.
        let kinds: Bytes =
            listed.into_iter().filter_map(|(supported, kind)| supported.then_some(kind)).collect();
        let mut parameters = Vec::new();
        // RFC 4960 Appendix A: "an endpoint SHOULD add to the INIT and or INIT ACK chunk the TLV reserved for ECN".
        if self.ecn {
            parameters.push(Parameter::EcnCapable);
        }
        if self.forward_tsn {
            parameters.push(Parameter::ForwardTsnSupported);
        }
        if self.zero_checksum {
            parameters.push(Parameter::ZeroChecksum(ErrorDetection::Dtls.edmid()));
        }
        if !kinds.is_empty() {
            parameters.push(Parameter::SupportedExtensions(kinds));
        }
        parameters
    }

    /// Returns the unknown parameters of an INIT or INIT ACK that must be reported; parameters of
    /// unsupported extensions count as unknown.
    //= specs/rfc3758.txt#section-3.3.2
    //# When a receiver of an INIT detects a Forward-TSN-Supported parameter
    //# and does not support the Forward-TSN chunk type, the receiver MUST
    //# follow the rules defined in Section 3.3.3 of RFC 2960 [2].
    //= specs/rfc3758.txt#section-3.3.2
    //# When a receiver of an INIT-ACK detects a Forward-TSN-Supported
    //# parameter and it does not support the Forward-TSN chunk type, the
    //# receiver MUST follow the rules defined in Section 3.3.3 of RFC 2960
    //# [2].
    pub(crate) fn unrecognized(self, init: &Init) -> impl Iterator<Item = Bytes> {
        let knows = move |parameter: &&Parameter| match parameter {
            Parameter::ForwardTsnSupported => self.forward_tsn,
            // Always passed to the user.
            Parameter::Adaptation(_) => true,
            _ => false,
        };
        init.parameters.iter().filter(move |parameter| !knows(parameter)).filter_map(Parameter::to_report)
    }

    /// Encodes the extensions for the cookie, one bit each.
    pub(crate) fn bits(self) -> u16 {
        u16::from(self.interleaving)
            | u16::from(self.forward_tsn) << 1
            | u16::from(self.i_forward_tsn) << 2
            | u16::from(self.auth) << 3
            | u16::from(self.reconfiguration) << 4
            | u16::from(self.asconf) << 5
            | u16::from(self.ecn) << 6
            | u16::from(self.nr_sack) << 7
            | u16::from(self.zero_checksum) << 8
            | u16::from(self.compact_sack) << 9
    }

    /// Decodes the output of `bits`.
    pub(crate) fn from_bits(bits: u16) -> Self {
        Self {
            interleaving: bits & 1 != 0,
            forward_tsn: bits & 2 != 0,
            i_forward_tsn: bits & 4 != 0,
            auth: bits & 8 != 0,
            reconfiguration: bits & 16 != 0,
            asconf: bits & 32 != 0,
            ecn: bits & 64 != 0,
            nr_sack: bits & 128 != 0,
            zero_checksum: bits & 256 != 0,
            compact_sack: bits & 512 != 0,
        }
    }
}

/// Whether NR-SACK is listed to find out whether the peer supports several paths.
fn agrees_on_multipath(config: &Config) -> bool {
    config.paths.multipath.is_some() && config.paths.multipath_with == MultipathWith::WhereAgreed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn extension_bits_round_trip() {
        for bits in 0..1024 {
            assert_eq!(Extensions::from_bits(bits).bits(), bits);
        }
    }

    #[test]
    fn only_configured_extensions_are_listed() {
        assert_eq!(Extensions::default().parameters(), []);
        let reliable = Config::default().with(|c| c.messages.interleaving = true);
        let kinds = |kinds: &'static [u8]| Parameter::SupportedExtensions(Bytes::from_static(kinds));
        assert_eq!(Extensions::of(&reliable).parameters(), [kinds(&[64])]);
        let both = reliable.with(|c| c.messages.partial_reliability = true);
        let expected = [Parameter::ForwardTsnSupported, kinds(&[192, 64, 194])];
        assert_eq!(Extensions::of(&both).parameters(), expected);
    }

    //= specs/rfc8260.txt#section-2.3.1
    //= type=test
    //# The partial reliability extension is negotiated and
    //# can be used in combination with user message interleaving only if
    //# both endpoints indicated their support of user message interleaving
    //# and the I-FORWARD-TSN chunk.
    #[test]
    fn partial_reliability_uses_the_negotiated_chunks() {
        let all = Extensions {
            interleaving: true,
            forward_tsn: true,
            i_forward_tsn: true,
            ..Extensions::default()
        };
        assert!(all.partial_reliability());
        let without = |without: Extensions| all.and(without).partial_reliability();
        assert!(!without(Extensions { i_forward_tsn: false, ..all }), "I-DATA needs I-FORWARD-TSN");
        assert!(without(Extensions { interleaving: false, i_forward_tsn: false, ..all }));
        assert!(!without(Extensions { interleaving: false, forward_tsn: false, ..all }));
    }
}
