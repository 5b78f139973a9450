//! The SACK chunk (RFC 9260 §3.3.4).

use bytes::BytesMut;

use super::{WireError, u16_at, u32_at};
use crate::ids::Tsn;

/// A SACK chunk (RFC 9260 §3.3.4). Blocks are as received: `wire` validates lengths, `association`
/// validates values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sack {
    /// The chunk's flags. RFC 9260 defines none; with concurrent multipath transfer, the number of
    /// acknowledged packets with DATA (delayed ACK for CMT).
    pub flags: u8,
    /// The cumulative TSN.
    pub cum_tsn_ack: Tsn,
    /// The receiver's advertised window, in bytes.
    pub a_rwnd: u32,
    /// Start and end offsets from `cum_tsn_ack`, both inclusive.
    pub gaps: Vec<(u16, u16)>,
    /// Duplicate TSNs.
    pub dups: Vec<Tsn>,
}

impl Sack {
    /// The length of the chunk without gap blocks and duplicates.
    pub const HEADER_LEN: usize = 16;

    /// The length of a gap block, and of a duplicate TSN.
    pub const BLOCK_LEN: usize = 4;

    /// The chunk type.
    pub const KIND: u8 = 3;

    /// The length of the chunk, which needs no padding.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + Self::BLOCK_LEN * (self.gaps.len() + self.dups.len())
    }

    /// The number of gap blocks and duplicate TSNs that fit in a chunk of `room` bytes.
    pub const fn blocks_in(room: usize) -> usize {
        room.saturating_sub(Self::HEADER_LEN) / Self::BLOCK_LEN
    }

    pub(super) fn decode(raw: &[u8]) -> Result<Self, WireError> {
        let wrong = WireError::ChunkLength { kind: Self::KIND, len: raw.len() };
        if raw.len() < Self::HEADER_LEN {
            return Err(wrong);
        }
        let (gaps, dups) = (usize::from(u16_at(raw, 12)), usize::from(u16_at(raw, 14)));
        // Both counts must match the length of the chunk.
        if raw.len() != Self::HEADER_LEN + Self::BLOCK_LEN * (gaps + dups) {
            return Err(wrong);
        }
        let (gaps, dups) = raw[Self::HEADER_LEN..].split_at(Self::BLOCK_LEN * gaps);
        Ok(Self {
            flags: raw[1],
            cum_tsn_ack: Tsn(u32_at(raw, 4)),
            a_rwnd: u32_at(raw, 8),
            gaps: gaps.chunks_exact(Self::BLOCK_LEN).map(|b| (u16_at(b, 0), u16_at(b, 2))).collect(),
            dups: dups.chunks_exact(Self::BLOCK_LEN).map(|b| Tsn(u32_at(b, 0))).collect(),
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        let fits = "as many blocks as fit in a packet";
        //= specs/rfc9260.txt#section-3.3.4
        //# The SACK chunk MUST contain the Cumulative TSN Ack, Advertised
        //# Receiver Window Credit (a_rwnd), Number of Gap Ack Blocks, and Number
        //# of Duplicate TSNs fields.
        //= specs/rfc9260.txt#section-3.3.4
        //# Then, the parameter part of the SACK chunk MUST be constructed as
        //# follows (assuming the new a_rwnd is set to 4660 by the sender):
        let mut header = [0; Self::HEADER_LEN];
        header[0] = Self::KIND;
        header[1] = self.flags;
        header[2..4].copy_from_slice(&u16::try_from(self.encoded_len()).expect(fits).to_be_bytes());
        header[4..8].copy_from_slice(&self.cum_tsn_ack.0.to_be_bytes());
        header[8..12].copy_from_slice(&self.a_rwnd.to_be_bytes());
        header[12..14].copy_from_slice(&u16::try_from(self.gaps.len()).expect(fits).to_be_bytes());
        header[14..16].copy_from_slice(&u16::try_from(self.dups.len()).expect(fits).to_be_bytes());
        out.extend_from_slice(&header);
        for &(start, end) in &self.gaps {
            out.extend_from_slice(&start.to_be_bytes());
            out.extend_from_slice(&end.to_be_bytes());
        }
        for dup in &self.dups {
            out.extend_from_slice(&dup.0.to_be_bytes());
        }
    }
}
