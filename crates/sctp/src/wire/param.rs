//! Parameters of INIT and INIT ACK (RFC 9260 §3.2.1, §3.3.2.1, §3.3.3.1).

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

use bytes::{Bytes, BytesMut};

use super::unrecognized::Unrecognized;
use super::{KeyManagement, Tlv, WireError, next_tlv, padded, put_padding, put_tlv_header, u16_at, u32_at};

/// A parameter of INIT or INIT ACK (RFC 9260 §3.3.2.1, §3.3.3.1), or an unknown one as received.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameter {
    /// An address of the sender (types 5 and 6).
    Address(IpAddr),
    /// The state cookie (type 7).
    StateCookie(Bytes),
    /// An unrecognized parameter of the peer's INIT (type 8), as received.
    Unrecognized(Bytes),
    /// The requested extension of the cookie's life in milliseconds (type 9).
    CookiePreservative(u32),
    /// A host name (type 11), which is rejected.
    HostName(Bytes),
    /// The address types that the sender supports (type 12).
    SupportedAddressTypes(Vec<u16>),
    /// The sender's random number (type 0x8002, RFC 4895 §3.1).
    Random(Bytes),
    /// Chunk types that the sender only accepts authenticated (type 0x8003, RFC 4895 §3.2).
    ChunkList(Bytes),
    /// HMAC identifiers that the sender supports, in order of preference (type 0x8004, RFC 4895 §3.3).
    HmacAlgo(Vec<u16>),
    /// The adaptation code point of the sender's user (type 0xC006, RFC 5061 §4.2.6).
    Adaptation(u32),
    /// Chunk types of the extensions that the sender supports (type 0x8008, RFC 5061 §4.2.7).
    SupportedExtensions(Bytes),
    /// The sender supports FORWARD TSN (type 0xC000, RFC 3758 §3.1).
    ForwardTsnSupported,
    /// The sender is ECN-capable (type 0x8000, RFC 4960 Appendix A).
    EcnCapable,
    /// The sender accepts packets without a checksum with this error detection method (type 0x8001, RFC
    /// 9653 §3).
    ZeroChecksum(u32),
    /// The sender's key management for the DTLS chunk (type 0x8006, draft-ietf-tsvwg-sctp-dtls-chunk
    /// §4.1).
    KeyManagement(KeyManagement),
    /// Any other parameter, including its header; its high bits determine its treatment (§3.2.1).
    Unknown {
        /// The parameter type.
        kind: u16,
        /// The complete parameter as received.
        raw: Bytes,
    },
}

impl Parameter {
    /// IPv4 Address.
    pub const IPV4_ADDRESS: u16 = 5;
    /// IPv6 Address.
    pub const IPV6_ADDRESS: u16 = 6;
    /// State Cookie.
    pub const STATE_COOKIE: u16 = 7;
    /// Unrecognized Parameter.
    pub const UNRECOGNIZED: u16 = 8;
    /// Cookie Preservative.
    pub const COOKIE_PRESERVATIVE: u16 = 9;
    /// Host Name Address.
    pub const HOST_NAME: u16 = 11;
    /// Supported Address Types.
    pub const SUPPORTED_ADDRESS_TYPES: u16 = 12;
    /// Random.
    pub const RANDOM: u16 = 0x8002;
    /// Chunk List.
    pub const CHUNK_LIST: u16 = 0x8003;
    /// Requested HMAC Algorithm.
    pub const HMAC_ALGO: u16 = 0x8004;
    /// Adaptation Layer Indication.
    pub const ADAPTATION: u16 = 0xc006;
    /// ECN Capable.
    pub const ECN_CAPABLE: u16 = 0x8000;
    /// Zero Checksum Acceptable.
    pub const ZERO_CHECKSUM: u16 = 0x8001;
    /// DTLS Key Management.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
    //# This value MUST be set to 0x8006.
    pub const KEY_MANAGEMENT: u16 = 0x8006;
    /// Supported Extensions.
    pub const SUPPORTED_EXTENSIONS: u16 = 0x8008;
    /// Forward-TSN-Supported.
    pub const FORWARD_TSN_SUPPORTED: u16 = 0xC000;

    /// The length of the parameter without padding.
    pub fn encoded_len(&self) -> usize {
        match self {
            Self::Address(IpAddr::V4(_)) => Tlv::HEADER_LEN + 4,
            Self::Address(IpAddr::V6(_)) => Tlv::HEADER_LEN + 16,
            Self::StateCookie(value)
            | Self::Unrecognized(value)
            | Self::HostName(value)
            | Self::Random(value)
            | Self::ChunkList(value)
            | Self::SupportedExtensions(value) => Tlv::HEADER_LEN + value.len(),
            Self::CookiePreservative(_) | Self::Adaptation(_) => Tlv::HEADER_LEN + 4,
            Self::SupportedAddressTypes(types) | Self::HmacAlgo(types) => Tlv::HEADER_LEN + 2 * types.len(),
            Self::ForwardTsnSupported | Self::EcnCapable => Tlv::HEADER_LEN,
            Self::ZeroChecksum(_) => Tlv::HEADER_LEN + 4,
            Self::KeyManagement(keys) => keys.encoded_len(),
            Self::Unknown { raw, .. } => raw.len(),
        }
    }

    /// The treatment of an unknown parameter by the high bits of its type (RFC 9260 §3.2.1); `None` if
    /// it is known.
    pub fn unrecognized(&self) -> Option<Unrecognized> {
        match self {
            Self::Unknown { kind, .. } => Some(Unrecognized::of_parameter(*kind)),
            _ => None,
        }
    }

    /// Returns the parameter without padding if it must be reported as unrecognized (RFC 9260 §3.2.2):
    /// an unknown one as received, or one of an extension that this side does not use.
    pub fn to_report(&self) -> Option<Bytes> {
        if !Unrecognized::of_parameter(self.kind()).reports() {
            return None;
        }
        if let Self::Unknown { raw, .. } = self {
            return Some(raw.clone());
        }
        let mut raw = BytesMut::new();
        self.encode(&mut raw);
        raw.truncate(self.encoded_len());
        Some(raw.freeze())
    }

    /// Appends the parameter and its padding.
    pub(crate) fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        if let Self::Unknown { raw, .. } = self {
            out.extend_from_slice(raw);
            //= specs/rfc5061.txt#section-4.2.7
            //# Note: The length MUST NOT include any padding.
            return put_padding(out, start);
        }
        //= specs/rfc9260.txt#section-3.2.1
        //# The total length of a parameter (including Parameter Type, Parameter
        //# Length, and Parameter Value fields) MUST be a multiple of 4 bytes.
        //= specs/rfc9260.txt#section-3.2.1
        //# A sender MUST NOT pad with more than 3 bytes.
        put_tlv_header(out, self.kind(), self.encoded_len());
        match self {
            Self::Address(IpAddr::V4(address)) => out.extend_from_slice(&address.octets()),
            Self::Address(IpAddr::V6(address)) => out.extend_from_slice(&address.octets()),
            Self::StateCookie(value)
            | Self::Unrecognized(value)
            | Self::HostName(value)
            | Self::Random(value)
            | Self::ChunkList(value)
            | Self::SupportedExtensions(value) => {
                out.extend_from_slice(value);
            }
            Self::CookiePreservative(number) | Self::Adaptation(number) => {
                out.extend_from_slice(&number.to_be_bytes());
            }
            Self::SupportedAddressTypes(types) | Self::HmacAlgo(types) => {
                for kind in types {
                    out.extend_from_slice(&kind.to_be_bytes());
                }
            }
            Self::KeyManagement(keys) => keys.encode_body(out),
            Self::ZeroChecksum(method) => out.extend_from_slice(&method.to_be_bytes()),
            Self::ForwardTsnSupported | Self::EcnCapable | Self::Unknown { .. } => {}
        }
        put_padding(out, start);
    }

    /// The parameter type.
    pub fn kind(&self) -> u16 {
        match self {
            Self::Address(IpAddr::V4(_)) => Self::IPV4_ADDRESS,
            Self::Address(IpAddr::V6(_)) => Self::IPV6_ADDRESS,
            Self::StateCookie(_) => Self::STATE_COOKIE,
            Self::Unrecognized(_) => Self::UNRECOGNIZED,
            Self::CookiePreservative(_) => Self::COOKIE_PRESERVATIVE,
            Self::HostName(_) => Self::HOST_NAME,
            Self::SupportedAddressTypes(_) => Self::SUPPORTED_ADDRESS_TYPES,
            Self::Random(_) => Self::RANDOM,
            Self::ChunkList(_) => Self::CHUNK_LIST,
            Self::HmacAlgo(_) => Self::HMAC_ALGO,
            Self::Adaptation(_) => Self::ADAPTATION,
            Self::SupportedExtensions(_) => Self::SUPPORTED_EXTENSIONS,
            Self::ForwardTsnSupported => Self::FORWARD_TSN_SUPPORTED,
            Self::EcnCapable => Self::ECN_CAPABLE,
            Self::ZeroChecksum(_) => Self::ZERO_CHECKSUM,
            Self::KeyManagement(_) => Self::KEY_MANAGEMENT,
            Self::Unknown { kind, .. } => *kind,
        }
    }
}

/// Decodes all parameters of a chunk in order, up to and including an unknown one that ends the
/// processing of its chunk.
pub(super) fn decode_all(datagram: &Bytes, rest: &[u8]) -> Result<Vec<Parameter>, WireError> {
    decode_list(rest, |tlv| decode(datagram, tlv), Parameter::unrecognized)
}

/// Decodes parameters of any kind: `decode` decodes one, `unrecognized` returns the treatment of an
/// unknown one.
pub(super) fn decode_list<P>(
    mut rest: &[u8],
    decode: impl Fn(&Tlv<'_>) -> Result<P, WireError>,
    unrecognized: impl Fn(&P) -> Option<Unrecognized>,
) -> Result<Vec<P>, WireError> {
    let mut parameters = Vec::new();
    while let Some(next) = next_tlv(rest) {
        let (tlv, behind) = next.map_err(|(kind, len)| WireError::ParameterLength { kind, len })?;
        let parameter = decode(&tlv)?;
        //= specs/rfc9260.txt#section-3.2.1
        //# In the 00 or 01 case, the processing of the parameters
        //# after the unknown parameter is canceled, but no processing already
        //# done is rolled back.
        let stop = unrecognized(&parameter).is_some_and(Unrecognized::stops);
        parameters.push(parameter);
        if stop {
            break;
        }
        rest = behind;
    }
    Ok(parameters)
}

pub(super) fn decode(datagram: &Bytes, tlv: &Tlv<'_>) -> Result<Parameter, WireError> {
    let value = tlv.value();
    let shared = || datagram.slice_ref(value);
    let wrong = WireError::ParameterLength { kind: tlv.kind, len: tlv.raw.len() };
    Ok(match tlv.kind {
        Parameter::IPV4_ADDRESS => {
            Parameter::Address(Ipv4Addr::from(<[u8; 4]>::try_from(value).map_err(|_| wrong)?).into())
        }
        Parameter::IPV6_ADDRESS => {
            Parameter::Address(Ipv6Addr::from(<[u8; 16]>::try_from(value).map_err(|_| wrong)?).into())
        }
        Parameter::STATE_COOKIE => Parameter::StateCookie(shared()),
        Parameter::UNRECOGNIZED => Parameter::Unrecognized(shared()),
        Parameter::COOKIE_PRESERVATIVE if value.len() == 4 => Parameter::CookiePreservative(u32_at(value, 0)),
        Parameter::HOST_NAME => Parameter::HostName(shared()),
        Parameter::SUPPORTED_EXTENSIONS => Parameter::SupportedExtensions(shared()),
        Parameter::RANDOM => Parameter::Random(shared()),
        Parameter::CHUNK_LIST => Parameter::ChunkList(shared()),
        // Invalid parameters of an extension count as unknown, as without the extension.
        Parameter::HMAC_ALGO if value.len().is_multiple_of(2) => {
            Parameter::HmacAlgo(value.chunks_exact(2).map(|id| u16_at(id, 0)).collect())
        }
        Parameter::ADAPTATION if value.len() == 4 => Parameter::Adaptation(u32_at(value, 0)),
        Parameter::SUPPORTED_ADDRESS_TYPES if value.len().is_multiple_of(2) => {
            Parameter::SupportedAddressTypes(value.chunks_exact(2).map(|kind| u16_at(kind, 0)).collect())
        }
        Parameter::FORWARD_TSN_SUPPORTED if value.is_empty() => Parameter::ForwardTsnSupported,
        Parameter::ECN_CAPABLE if value.is_empty() => Parameter::EcnCapable,
        Parameter::ZERO_CHECKSUM if value.len() == 4 => Parameter::ZeroChecksum(u32_at(value, 0)),
        Parameter::KEY_MANAGEMENT => match KeyManagement::decode(datagram, value) {
            Some(keys) => Parameter::KeyManagement(keys),
            None => Parameter::Unknown { kind: tlv.kind, raw: datagram.slice_ref(tlv.raw) },
        },
        Parameter::COOKIE_PRESERVATIVE | Parameter::SUPPORTED_ADDRESS_TYPES => return Err(wrong),
        kind => Parameter::Unknown { kind, raw: datagram.slice_ref(tlv.raw) },
    })
}

/// The length of `parameters` in a chunk: all padded except the last (RFC 9260 §3.2).
pub(super) fn encoded_len(parameters: &[Parameter]) -> usize {
    match parameters.split_last() {
        None => 0,
        Some((last, others)) => {
            others.iter().map(|p| padded(p.encoded_len())).sum::<usize>() + last.encoded_len()
        }
    }
}
