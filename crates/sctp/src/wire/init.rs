//! INIT and INIT ACK (RFC 9260 §3.3.2, §3.3.3), which have the same layout.

use std::net::IpAddr;

use bytes::{Bytes, BytesMut};

use super::{Parameter, WireError, param, u16_at, u32_at};
use crate::ids::{Tsn, VerificationTag};

/// The fixed part of INIT and INIT ACK (RFC 9260 §3.3.2, §3.3.3) with its parameters.
///
/// Values are as received; the receiving state decides whether they are acceptable.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Init {
    /// The Initiate Tag; never 0.
    pub initiate_tag: VerificationTag,
    /// The sender's receive window, in bytes.
    pub a_rwnd: u32,
    /// The number of outbound streams; never 0.
    pub outbound_streams: u16,
    /// The number of inbound streams; never 0.
    pub inbound_streams: u16,
    /// The Initial TSN.
    pub initial_tsn: Tsn,
    /// The parameters in order, up to and including an unknown one that ends the processing (§3.2.1).
    pub parameters: Vec<Parameter>,
}

impl Init {
    /// The length of the chunk without parameters.
    pub const HEADER_LEN: usize = 20;

    /// The chunk type of INIT.
    pub const KIND: u8 = 1;

    /// The chunk type of INIT ACK.
    pub const ACK_KIND: u8 = 2;

    /// The length of the chunk without padding.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + param::encoded_len(&self.parameters)
    }

    /// The listed addresses; empty if the sender only has the source address.
    pub fn addresses(&self) -> impl Iterator<Item = IpAddr> {
        self.parameters.iter().filter_map(|parameter| match parameter {
            Parameter::Address(address) => Some(*address),
            _ => None,
        })
    }

    /// The state cookie, if there is one.
    pub fn state_cookie(&self) -> Option<&Bytes> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::StateCookie(cookie) => Some(cookie),
            _ => None,
        })
    }

    /// The adaptation code point, if there is one (RFC 5061 §4.2.6).
    pub fn adaptation(&self) -> Option<u32> {
        self.parameters.iter().find_map(|parameter| match parameter {
            Parameter::Adaptation(point) => Some(*point),
            _ => None,
        })
    }

    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Result<Self, WireError> {
        if raw.len() < Self::HEADER_LEN {
            return Err(WireError::ChunkLength { kind: raw[0], len: raw.len() });
        }
        Ok(Self {
            initiate_tag: VerificationTag(u32_at(raw, 4)),
            a_rwnd: u32_at(raw, 8),
            outbound_streams: u16_at(raw, 12),
            inbound_streams: u16_at(raw, 14),
            initial_tsn: Tsn(u32_at(raw, 16)),
            parameters: param::decode_all(datagram, &raw[Self::HEADER_LEN..])?,
        })
    }

    pub(super) fn encode_body(&self, out: &mut BytesMut) {
        out.extend_from_slice(&self.initiate_tag.0.to_be_bytes());
        out.extend_from_slice(&self.a_rwnd.to_be_bytes());
        out.extend_from_slice(&self.outbound_streams.to_be_bytes());
        out.extend_from_slice(&self.inbound_streams.to_be_bytes());
        out.extend_from_slice(&self.initial_tsn.0.to_be_bytes());
        //= specs/rfc9260.txt#section-3.3.2.1
        //# Any Type-Length-Value fields MUST be placed after the fixed-length
        //# fields.
        //= specs/rfc9260.txt#section-3.3.3.1
        //# Any Type-Length-Value fields MUST be placed after the fixed-length
        //# fields.
        for parameter in &self.parameters {
            parameter.encode(out);
        }
    }
}
