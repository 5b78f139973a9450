//! Error causes (RFC 9260 §3.3.10), in ERROR and ABORT.

use bytes::{Bytes, BytesMut};

use super::{Tlv, WireError, next_tlv, padded, put_padding, put_tlv_header, u16_at, u32_at};
use crate::ids::{StreamId, Tsn};

/// An error cause (RFC 9260 §3.3.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// 1
    InvalidStreamIdentifier(StreamId),
    /// 2: the missing parameter types
    MissingMandatoryParameter(Vec<u16>),
    /// 3: the staleness in microseconds
    StaleCookie(u32),
    /// 4
    OutOfResource,
    /// 5: the parameter as received
    UnresolvableAddress(Bytes),
    /// 6: the chunk as received
    UnrecognizedChunkType(Bytes),
    /// 7
    InvalidMandatoryParameter,
    /// 8: the parameters as received
    UnrecognizedParameters(Bytes),
    /// 9
    NoUserData(Tsn),
    /// 10
    CookieReceivedWhileShuttingDown,
    /// 11: the new addresses, as parameters
    RestartWithNewAddresses(Bytes),
    /// 12: the text of the upper layer
    UserInitiatedAbort(Bytes),
    /// 13: a description
    ProtocolViolation(Bytes),
    /// 100: INIT or INIT ACK offers no key management (draft-ietf-tsvwg-sctp-dtls-chunk §4.3.1)
    MissingDtlsSupport,
    /// 101: no common key management method (§4.3.2)
    NoCommonKeyManagement,
    /// 102: equal tie breakers (§4.3.3)
    TieBreakerCollision,
    /// 103: both sides can only be the client, or only the server (§4.3.4)
    IncompatibleKeyManagementRoles,
    /// 0xA0: the request to delete the last address, as received (RFC 5061 §4.3.1)
    DeleteLastAddress(Bytes),
    /// 0xA1: the request that exceeds the resources, as received (RFC 5061 §4.3.2)
    ResourceShortage(Bytes),
    /// 0xA2: the request to delete the source address, as received (RFC 5061 §4.3.3)
    DeleteSourceAddress(Bytes),
    /// 0xA3: an ASCONF-ACK without an ASCONF (RFC 5061 §4.3.4)
    IllegalAsconfAck,
    /// 0xA4: the request that is not permitted, as received (RFC 5061 §4.3.5)
    NoAuthorization(Bytes),
    /// 0x105: the HMAC identifier that was not offered (RFC 4895 §4.1)
    UnsupportedHmac(u16),
    /// Any other cause, and one of those above with an invalid length.
    Unknown {
        /// The cause code.
        code: u16,
        /// The bytes after the header.
        info: Bytes,
    },
}

impl Cause {
    /// The cause code.
    pub fn code(&self) -> u16 {
        match self {
            Self::InvalidStreamIdentifier(_) => 1,
            Self::MissingMandatoryParameter(_) => 2,
            Self::StaleCookie(_) => 3,
            Self::OutOfResource => 4,
            Self::UnresolvableAddress(_) => 5,
            Self::UnrecognizedChunkType(_) => 6,
            Self::InvalidMandatoryParameter => 7,
            Self::UnrecognizedParameters(_) => 8,
            Self::NoUserData(_) => 9,
            Self::CookieReceivedWhileShuttingDown => 10,
            Self::RestartWithNewAddresses(_) => 11,
            Self::UserInitiatedAbort(_) => 12,
            Self::ProtocolViolation(_) => 13,
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.1
            //# This value MUST be set to 100 (TBC).
            Self::MissingDtlsSupport => 100,
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.2
            //# This value MUST be set to 101 (TBC).
            Self::NoCommonKeyManagement => 101,
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.3
            //# This value MUST be set to 102 (TBC).
            Self::TieBreakerCollision => 102,
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.4
            //# This value MUST be set to 103 (TBC).
            Self::IncompatibleKeyManagementRoles => 103,
            Self::DeleteLastAddress(_) => 0xa0,
            Self::ResourceShortage(_) => 0xa1,
            Self::DeleteSourceAddress(_) => 0xa2,
            Self::IllegalAsconfAck => 0xa3,
            Self::NoAuthorization(_) => 0xa4,
            Self::UnsupportedHmac(_) => 0x105,
            Self::Unknown { code, .. } => *code,
        }
    }

    /// The length of the cause without padding.
    pub fn encoded_len(&self) -> usize {
        Tlv::HEADER_LEN
            + match self {
                Self::InvalidStreamIdentifier(_) | Self::StaleCookie(_) | Self::NoUserData(_) => 4,
                Self::UnsupportedHmac(_) => 2,
                Self::MissingMandatoryParameter(types) => 4 + 2 * types.len(),
                Self::OutOfResource
                | Self::InvalidMandatoryParameter
                | Self::CookieReceivedWhileShuttingDown
                | Self::MissingDtlsSupport
                | Self::NoCommonKeyManagement
                | Self::TieBreakerCollision
                | Self::IncompatibleKeyManagementRoles
                | Self::IllegalAsconfAck => 0,
                Self::UnresolvableAddress(info)
                | Self::UnrecognizedChunkType(info)
                | Self::UnrecognizedParameters(info)
                | Self::RestartWithNewAddresses(info)
                | Self::DeleteLastAddress(info)
                | Self::ResourceShortage(info)
                | Self::DeleteSourceAddress(info)
                | Self::NoAuthorization(info)
                | Self::UserInitiatedAbort(info)
                | Self::ProtocolViolation(info)
                | Self::Unknown { info, .. } => info.len(),
            }
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        put_tlv_header(out, self.code(), self.encoded_len());
        match self {
            Self::InvalidStreamIdentifier(stream) => {
                out.extend_from_slice(&stream.0.to_be_bytes());
                out.extend_from_slice(&[0, 0]);
            }
            Self::MissingMandatoryParameter(types) => {
                out.extend_from_slice(&(types.len() as u32).to_be_bytes());
                for kind in types {
                    out.extend_from_slice(&kind.to_be_bytes());
                }
            }
            Self::UnsupportedHmac(id) => out.extend_from_slice(&id.to_be_bytes()),
            Self::StaleCookie(number) | Self::NoUserData(Tsn(number)) => {
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::OutOfResource
            | Self::InvalidMandatoryParameter
            | Self::CookieReceivedWhileShuttingDown
            | Self::MissingDtlsSupport
            | Self::NoCommonKeyManagement
            | Self::TieBreakerCollision
            | Self::IncompatibleKeyManagementRoles
            | Self::IllegalAsconfAck => {}
            Self::UnresolvableAddress(info)
            | Self::UnrecognizedChunkType(info)
            | Self::UnrecognizedParameters(info)
            | Self::RestartWithNewAddresses(info)
            | Self::DeleteLastAddress(info)
            | Self::ResourceShortage(info)
            | Self::DeleteSourceAddress(info)
            | Self::NoAuthorization(info)
            | Self::UserInitiatedAbort(info)
            | Self::ProtocolViolation(info)
            | Self::Unknown { info, .. } => out.extend_from_slice(info),
        }
        put_padding(out, start);
    }
}

/// Decodes all causes of a chunk, in order.
pub(super) fn decode_all(datagram: &Bytes, mut rest: &[u8]) -> Result<Vec<Cause>, WireError> {
    let mut causes = Vec::new();
    while let Some(next) = next_tlv(rest) {
        let (tlv, behind) = next.map_err(|(code, len)| WireError::CauseLength { code, len })?;
        causes.push(decode(datagram, &tlv));
        rest = behind;
    }
    Ok(causes)
}

/// A cause with an invalid length counts as unknown: usrsctp adds text to causes that have none.
fn decode(datagram: &Bytes, tlv: &Tlv<'_>) -> Cause {
    let value = tlv.value();
    let shared = || datagram.slice_ref(value);
    match (tlv.kind, value.len()) {
        (1, 4) => Cause::InvalidStreamIdentifier(StreamId(u16_at(value, 0))),
        // Count and length must match.
        (2, 4..) if value.len() as u64 == 4 + 2 * u64::from(u32_at(value, 0)) => {
            Cause::MissingMandatoryParameter(value[4..].chunks_exact(2).map(|kind| u16_at(kind, 0)).collect())
        }
        (3, 4) => Cause::StaleCookie(u32_at(value, 0)),
        (4, 0) => Cause::OutOfResource,
        (5, _) => Cause::UnresolvableAddress(shared()),
        (6, _) => Cause::UnrecognizedChunkType(shared()),
        (7, 0) => Cause::InvalidMandatoryParameter,
        (8, _) => Cause::UnrecognizedParameters(shared()),
        (9, 4) => Cause::NoUserData(Tsn(u32_at(value, 0))),
        (10, 0) => Cause::CookieReceivedWhileShuttingDown,
        (11, _) => Cause::RestartWithNewAddresses(shared()),
        (12, _) => Cause::UserInitiatedAbort(shared()),
        (13, _) => Cause::ProtocolViolation(shared()),
        (100, 0) => Cause::MissingDtlsSupport,
        (101, 0) => Cause::NoCommonKeyManagement,
        (102, 0) => Cause::TieBreakerCollision,
        (103, 0) => Cause::IncompatibleKeyManagementRoles,
        (0xa0, _) => Cause::DeleteLastAddress(shared()),
        (0xa1, _) => Cause::ResourceShortage(shared()),
        (0xa2, _) => Cause::DeleteSourceAddress(shared()),
        (0xa3, 0) => Cause::IllegalAsconfAck,
        (0xa4, _) => Cause::NoAuthorization(shared()),
        (0x105, 2) => Cause::UnsupportedHmac(u16_at(value, 0)),
        (code, _) => Cause::Unknown { code, info: shared() },
    }
}

/// The length of `causes` in a chunk: all padded except the last (RFC 9260 §3.2).
pub(super) fn encoded_len(causes: &[Cause]) -> usize {
    match causes.split_last() {
        None => 0,
        Some((last, others)) => {
            others.iter().map(|c| padded(c.encoded_len())).sum::<usize>() + last.encoded_len()
        }
    }
}
