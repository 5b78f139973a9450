//! A packet (RFC 9260 §3, §6.8): common header, checksum, and chunks.

use bytes::Bytes;

use super::{Asconf, Auth, Chunk, Dtls, Init, Record, WireError, crc32c, padded, u16_at, u32_at};
use crate::ids::VerificationTag;

/// The common header (RFC 9260 §3.1), without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The source port.
    pub source_port: u16,
    /// The destination port.
    pub destination_port: u16,
    /// The verification tag of the receiver.
    pub tag: VerificationTag,
}

impl Header {
    /// The length of the common header in bytes, with checksum.
    pub const LEN: usize = 12;
}

/// A packet with a valid checksum; its chunks are decoded on demand.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Packet {
    /// The common header.
    pub header: Header,
    datagram: Bytes,
    /// Whether its chunks were in a DTLS chunk.
    is_protected: bool,
}

impl Packet {
    /// Decodes the packet in `datagram`: checks the minimum length and the checksum.
    pub fn decode(datagram: Bytes) -> Result<Self, WireError> {
        let header = Self::peek(&datagram)?;
        //= specs/rfc9260.txt#section-6.8
        //# Verify that the calculated CRC32c checksum is the same as the
        //# received CRC32c checksum.  If it is not, the receiver MUST treat
        //# the packet as an invalid SCTP packet.
        //= specs/rfc9260.txt#section-6.8
        //# When an SCTP packet is received, the receiver MUST first check the
        //# CRC32c checksum as follows:
        let (found, computed) = (crc32c::found(&datagram), crc32c::expected(&datagram));
        if found != computed {
            return Err(WireError::Checksum { found, computed });
        }
        Ok(Self { header, datagram, is_protected: false })
    }

    /// Whether the checksum field is zero, as in a packet whose sender relies on error detection by the
    /// lower layer (RFC 9653).
    pub fn has_zero_checksum(datagram: &[u8]) -> bool {
        datagram.len() >= Header::LEN && crc32c::found(datagram) == 0
    }

    /// The packet in `datagram`, if it has the minimum length and its checksum field is zero. The caller
    /// decides whether that is permitted.
    pub fn decode_without_checksum(datagram: Bytes) -> Result<Self, WireError> {
        let header = Self::peek(&datagram)?;
        match crc32c::found(&datagram) {
            0 => Ok(Self { header, datagram, is_protected: false }),
            found => Err(WireError::Checksum { found, computed: 0 }),
        }
    }

    /// The same packet, if its checksum is correct.
    pub(crate) fn checked(self) -> Result<Self, WireError> {
        Self::decode(self.datagram)
    }

    /// Decodes a packet whose checksum is correct, or zero: one that was observed, for a log or a trace.
    pub fn decode_observed(datagram: Bytes) -> Result<Self, WireError> {
        if Self::has_zero_checksum(&datagram) {
            Self::decode_without_checksum(datagram)
        } else {
            Self::decode(datagram)
        }
    }

    /// The common header of `datagram`, whatever its checksum.
    fn peek(datagram: &[u8]) -> Result<Header, WireError> {
        if datagram.len() < Header::LEN + Chunk::HEADER_LEN {
            return Err(WireError::PacketTooShort { len: datagram.len() });
        }
        Ok(Header {
            source_port: u16_at(datagram, 0),
            destination_port: u16_at(datagram, 2),
            tag: VerificationTag(u32_at(datagram, 4)),
        })
    }

    /// The record of its DTLS chunk, if the packet begins with one.
    pub(crate) fn dtls(&self) -> Option<Record<'_>> {
        let raw = self.chunks().next_raw()?.ok()?;
        if raw[0] == Dtls::KIND { Dtls::record_in(raw) } else { None }
    }

    /// The packet that was in the DTLS chunk of this one: `datagram` is a common header, which is not read
    /// again, and the chunks. `None` if it contains no chunk.
    pub(crate) fn opened(&self, datagram: Bytes) -> Option<Self> {
        let whole = datagram.len() >= Header::LEN + Chunk::HEADER_LEN;
        whole.then_some(Self { header: self.header, datagram, is_protected: true })
    }

    /// Whether its chunks were in a DTLS chunk, which authenticates them.
    pub fn is_protected(&self) -> bool {
        self.is_protected
    }

    /// Whether the checksum field is not zero.
    pub fn has_checksum(&self) -> bool {
        !Self::has_zero_checksum(&self.datagram)
    }

    /// The length of the packet in bytes.
    #[expect(clippy::len_without_is_empty, reason = "a packet is never empty")]
    pub fn len(&self) -> usize {
        self.datagram.len()
    }

    /// Returns the packet in memory of its own, so that it keeps no larger datagram allocated.
    pub(crate) fn copied(&self) -> Self {
        Self { datagram: Bytes::copy_from_slice(&self.datagram), ..*self }
    }

    /// Iterates over the chunks in order. Ends after the first malformed one.
    pub fn chunks(&self) -> Chunks<'_> {
        Chunks { datagram: &self.datagram, at: Header::LEN }
    }

    /// The chunk types in the packet, without decoding the chunks. Nothing after a chunk that exceeds the
    /// packet is considered.
    pub fn kinds(&self) -> Kinds {
        let mut kinds = Kinds { first: self.datagram[Header::LEN], marks: 0, low: 0, count: 0 };
        let mut raw_chunks = self.chunks();
        while let Some(Ok(raw)) = raw_chunks.next_raw() {
            if raw[0] < 16 {
                kinds.low |= 1 << raw[0];
            }
            kinds.mark(Kinds::ASCONF, raw[0] == Asconf::KIND);
            kinds.mark(Kinds::DTLS, raw[0] == Dtls::KIND);
            //= specs/rfc4895.txt#section-6.3
            //# If the receiver does not find an STCB for a packet containing an AUTH
            //# chunk as the first chunk and does not find a COOKIE-ECHO chunk as the
            //# second chunk, it MUST use the chunks after the AUTH chunk to look up
            //# an existing association.  If no association is found, the packet MUST
            //# be considered as out of the blue.  The out of the blue handling MUST
            //# be based on the packet without taking the AUTH chunk into account.
            //# If an association is found, it MUST process the AUTH chunk using the
            //# STCB from the existing association as described earlier.
            if raw[0] == Auth::KIND && kinds.count == 0 && !kinds.is_authentic() {
                kinds.mark(Kinds::AUTHENTIC, true);
                continue;
            }
            if kinds.count == 0 {
                kinds.first = raw[0];
            }
            kinds.count += 1;
            let is_last = matches!(raw[0], Chunk::ABORT | Chunk::SHUTDOWN_COMPLETE);
            kinds.mark(Kinds::REFLECTED, is_last && raw[1] & Chunk::REFLECTED != 0);
        }
        kinds
    }
}

/// The chunks of a [`Packet`].
#[derive(Debug, Clone)]
pub struct Chunks<'a> {
    datagram: &'a Bytes,
    at: usize,
}

impl<'a> Chunks<'a> {
    /// The bytes from the next chunk to the end of the packet: those that a following AUTH chunk
    /// authenticates.
    pub fn rest(&self) -> &'a [u8] {
        self.datagram.get(self.at..).unwrap_or_default()
    }

    /// The bytes of the next chunk without padding.
    fn next_raw(&mut self) -> Option<Result<&'a [u8], WireError>> {
        let rest = self.datagram.get(self.at..).filter(|rest| !rest.is_empty())?;
        if rest.len() < Chunk::HEADER_LEN {
            self.stop();
            return Some(Err(WireError::Truncated { left: rest.len() }));
        }
        let (kind, len) = (rest[0], usize::from(u16_at(rest, 2)));
        // A length below four would not advance: the endless loop of bugs like CVE-2021-3655.
        if len < Chunk::HEADER_LEN {
            self.stop();
            return Some(Err(WireError::ChunkLength { kind, len }));
        }
        let Some(raw) = rest.get(..len) else {
            self.stop();
            return Some(Err(WireError::Truncated { left: rest.len() }));
        };
        // The padding of the last chunk may be missing; its contents are ignored anyway (§3.2).
        //= specs/rfc9260.txt#section-3.2
        //# The receiver MUST ignore the padding bytes.
        self.at += padded(len);
        Some(Ok(raw))
    }

    fn stop(&mut self) {
        self.at = self.datagram.len();
    }
}

impl Iterator for Chunks<'_> {
    type Item = Result<Chunk, WireError>;

    fn next(&mut self) -> Option<Self::Item> {
        let chunk = self.next_raw()?.and_then(|raw| Chunk::decode(self.datagram, raw));
        if chunk.is_err() {
            self.stop();
        }
        Some(chunk)
    }
}

/// The chunk types in a packet. An AUTH chunk at the front is recorded separately: questions are about the
/// chunks after it.
// Eight bytes, which are passed on in a register.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Kinds {
    first: u8,
    /// Bits of what was found: [`Kinds::REFLECTED`] and others.
    marks: u8,
    /// A bit for each type under 16.
    low: u16,
    count: u32,
}

impl Kinds {
    const REFLECTED: u8 = 1;
    const AUTHENTIC: u8 = 2;
    const ASCONF: u8 = 4;
    const DTLS: u8 = 8;

    fn mark(&mut self, mark: u8, is_found: bool) {
        self.marks |= if is_found { mark } else { 0 };
    }

    const fn has(self, mark: u8) -> bool {
        self.marks & mark != 0
    }

    /// Whether there is a chunk of this type, one of RFC 9260.
    pub const fn contains(self, kind: u8) -> bool {
        kind < 16 && self.low & (1 << kind) != 0
    }

    /// Whether there is an ASCONF chunk (RFC 5061).
    pub const fn has_asconf(self) -> bool {
        self.has(Self::ASCONF)
    }

    /// Whether there is a DTLS chunk.
    pub const fn has_dtls(self) -> bool {
        self.has(Self::DTLS)
    }

    /// Whether there is a DTLS chunk and no other.
    pub const fn is_dtls_alone(self) -> bool {
        self.is_only(Dtls::KIND) && !self.is_authentic()
    }

    /// Whether the packet begins with an AUTH chunk.
    pub const fn is_authentic(self) -> bool {
        self.has(Self::AUTHENTIC)
    }

    /// Whether the first chunk is of this type.
    pub const fn begins_with(self, kind: u8) -> bool {
        self.first == kind
    }

    /// Whether it contains no complete chunk.
    pub const fn is_empty(self) -> bool {
        self.count == 0
    }

    /// Whether the packet contains this chunk only.
    pub const fn is_only(self, kind: u8) -> bool {
        self.count == 1 && self.first == kind
    }

    /// Whether it contains an ABORT or SHUTDOWN COMPLETE with the T bit.
    pub const fn reflected(self) -> bool {
        self.has(Self::REFLECTED)
    }

    /// Whether an INIT or INIT ACK is bundled with other chunks, which §5.1 forbids.
    pub const fn bundles_init(self) -> bool {
        (self.contains(Init::KIND) || self.contains(Init::ACK_KIND))
            && (self.count > 1 || self.is_authentic())
    }
}
