//! Encoding and decoding of packets (RFC 9260 §3): a common header and chunks. Parsed means valid: a
//! [`Chunk`] never holds an invalid length.
//!
//! [`Packet::decode`] only verifies the checksum; [`Packet::chunks`] decodes one chunk after another, with
//! payloads as slices of the datagram. [`PacketBuilder`](crate::packet_builder::PacketBuilder) encodes packets into
//! one buffer. `association` decides whether a chunk is valid in a state, and whether its numbers are in range.

mod asconf;
mod auth;
mod cause;
mod chunk;
mod compact_sack;
mod control;
pub(crate) mod crc32c;
mod data;
mod dtls;
mod forward_tsn;
mod init;
mod nr_sack;
mod packet;
mod param;
mod reconfig;
mod sack;
#[cfg(test)]
mod tests;
mod text;
mod unrecognized;

use std::fmt;

pub use asconf::{Asconf, AsconfAck, Change, Outcome, Request, Response};
pub use auth::{Auth, HmacId, KeyVectors};
pub(crate) use auth::{Authentic, ChunkTypes, Signer};
pub use cause::Cause;
pub use chunk::Chunk;
pub use compact_sack::CompactSack;
pub use data::{Data, Interleaved};
pub(crate) use dtls::Record;
pub use dtls::{Dtls, KeyManagement};
pub use forward_tsn::{ForwardTsn, IForwardTsn, SkippedMid};
pub use init::Init;
pub use nr_sack::NrSack;
pub use packet::{Chunks, Header, Kinds, Packet};
pub use param::Parameter;
pub use reconfig::{NextTsns, Reconfig, ReconfigResult};
pub use sack::Sack;
pub use unrecognized::Unrecognized;

use crate::ids::Tsn;

/// Why bytes are not a valid packet or chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum WireError {
    /// The datagram is shorter than a common header and one chunk header.
    PacketTooShort {
        /// The length of the datagram in bytes.
        len: usize,
    },
    /// The checksum is wrong (RFC 9260 §6.8).
    Checksum {
        /// The checksum in the header.
        found: u32,
        /// The checksum of the bytes.
        computed: u32,
    },
    /// A chunk is longer than the rest of its packet, or the rest is shorter than a chunk header.
    Truncated {
        /// The remaining bytes of the packet.
        left: usize,
    },
    /// The length of a chunk is invalid for its type.
    ChunkLength {
        /// The chunk type.
        kind: u8,
        /// The value of its length field.
        len: usize,
    },
    /// A DATA chunk without user data (RFC 9260 §6.2).
    NoUserData(Tsn),
    /// A parameter exceeds its chunk, or its length is invalid for its type.
    ParameterLength {
        /// The parameter type.
        kind: u16,
        /// The value of its length field.
        len: usize,
    },
    /// An error cause exceeds its chunk.
    CauseLength {
        /// The cause code.
        code: u16,
        /// The value of its length field.
        len: usize,
    },
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match *self {
            Self::PacketTooShort { len } => write!(f, "{len} bytes are too few for an SCTP packet"),
            Self::Checksum { found, computed } => {
                write!(f, "the checksum is {found:#010x}, but the bytes give {computed:#010x}")
            }
            Self::Truncated { left } => {
                write!(f, "a chunk goes on beyond the {left} bytes left of its packet")
            }
            Self::ChunkLength { kind, len } => write!(f, "a chunk of type {kind} cannot be {len} bytes long"),
            Self::NoUserData(tsn) => write!(f, "the DATA chunk with TSN {tsn} carries no user data"),
            Self::ParameterLength { kind, len } => {
                write!(f, "a parameter of type {kind:#06x} cannot be {len} bytes long here")
            }
            Self::CauseLength { code, len } => {
                write!(f, "an error cause of code {code} cannot be {len} bytes long here")
            }
        }
    }
}

impl std::error::Error for WireError {}

/// The length of the zero padding after `len` bytes, up to a multiple of four.
const fn padding(len: usize) -> usize {
    len.wrapping_neg() & 3
}

/// `len` with its padding.
pub(crate) const fn padded(len: usize) -> usize {
    len + padding(len)
}

//= specs/rfc9260.txt#section-3
//# All integer fields in an SCTP packet MUST be transmitted in network
//# byte order, unless otherwise stated.
fn u16_at(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes([bytes[at], bytes[at + 1], bytes[at + 2], bytes[at + 3]])
}

/// A type-length-value field inside a chunk: a parameter (RFC 9260 §3.2.1) or an error cause (§3.3.10).
struct Tlv<'a> {
    kind: u16,
    /// Including the header, without padding.
    raw: &'a [u8],
}

impl Tlv<'_> {
    const HEADER_LEN: usize = 4;

    fn value(&self) -> &[u8] {
        &self.raw[Self::HEADER_LEN..]
    }
}

/// The type and length of an invalid field.
type WrongTlv = (u16, usize);

/// Returns the next field of `rest`, and what follows its padding; or the type and length of an invalid
/// field.
///
/// The padding of the last field may be missing: stacks differ in whether it counts in the chunk's length,
/// and receivers are expected to accept both (RFC 9260 §3.2).
fn next_tlv(rest: &[u8]) -> Option<Result<(Tlv<'_>, &[u8]), WrongTlv>> {
    if rest.is_empty() {
        return None;
    }
    if rest.len() < Tlv::HEADER_LEN {
        return Some(Err((0, rest.len())));
    }
    let (kind, len) = (u16_at(rest, 0), usize::from(u16_at(rest, 2)));
    if len < Tlv::HEADER_LEN || len > rest.len() {
        return Some(Err((kind, len)));
    }
    //= specs/rfc9260.txt#section-3.2.1
    //# The receiver MUST ignore the padding bytes.
    Some(Ok((Tlv { kind, raw: &rest[..len] }, rest.get(padded(len)..).unwrap_or_default())))
}

/// Appends the header of a type-length-value field; `len` includes the header.
fn put_tlv_header(out: &mut bytes::BytesMut, kind: u16, len: usize) {
    // The caller keeps chunks within a packet: a longer one would be a bug of ours.
    let len = u16::try_from(len).expect("a parameter or cause fits in 65,535 bytes");
    out.extend_from_slice(&kind.to_be_bytes());
    out.extend_from_slice(&len.to_be_bytes());
}

/// Pads what began at `start` to a multiple of four bytes with zeros.
//= specs/rfc9260.txt#section-3.2
//# The total length of a chunk (including Type, Length, and Value fields)
//# MUST be a multiple of 4 bytes.
//= specs/rfc9260.txt#section-3.2
//# If the length of the chunk is not a multiple of 4 bytes, the sender
//# MUST pad the chunk with all zero bytes, and this padding is not
//# included in the Chunk Length field.
//= specs/rfc9260.txt#section-3.2
//# The sender MUST NOT pad with more than 3 bytes.
//= specs/rfc9260.txt#section-3.3.1
//# The implementation MUST pad the end of the data to a 4-byte boundary
//# with all zero bytes.
//= specs/rfc9260.txt#section-3.3.1
//# Any padding MUST NOT be included in the Length field.
//= specs/rfc9260.txt#section-3.3.1
//# A sender MUST never add more than 3 bytes of padding.
fn put_padding(out: &mut bytes::BytesMut, start: usize) {
    const ZEROS: [u8; 3] = [0; 3];
    let count = padding(out.len() - start);
    out.extend_from_slice(&ZEROS[..count]);
}
