//! The NR-SACK chunk (draft-natarajan-tsvwg-sctp-nrsack): a SACK whose non-renegable gap blocks the
//! receiver will never revoke.

use bytes::BytesMut;

use super::{WireError, u16_at, u32_at};
use crate::ids::Tsn;

/// An NR-SACK chunk. Blocks are as received: `wire` validates lengths, `association` validates values.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NrSack {
    /// The chunk's flags, as in SACK.
    pub flags: u8,
    /// The cumulative TSN.
    pub cum_tsn_ack: Tsn,
    /// The receiver's advertised window, in bytes.
    pub a_rwnd: u32,
    /// Renegable gap blocks: offsets from `cum_tsn_ack`, both inclusive.
    pub gaps: Vec<(u16, u16)>,
    /// Non-renegable gap blocks.
    pub nr_gaps: Vec<(u16, u16)>,
    /// Duplicate TSNs.
    pub dups: Vec<Tsn>,
}

impl NrSack {
    /// The length of the chunk without gap blocks and duplicates.
    pub const HEADER_LEN: usize = 20;

    /// The length of a gap block, and of a duplicate TSN.
    pub const BLOCK_LEN: usize = 4;

    /// The chunk type.
    pub const KIND: u8 = 16;

    /// The length of the chunk, which needs no padding.
    pub fn encoded_len(&self) -> usize {
        let blocks = self.gaps.len() + self.nr_gaps.len() + self.dups.len();
        Self::HEADER_LEN + Self::BLOCK_LEN * blocks
    }

    pub(super) fn decode(raw: &[u8]) -> Result<Self, WireError> {
        let wrong = WireError::ChunkLength { kind: Self::KIND, len: raw.len() };
        if raw.len() < Self::HEADER_LEN {
            return Err(wrong);
        }
        let [gaps, nr_gaps, dups] = [12, 14, 16].map(|at| usize::from(u16_at(raw, at)));
        // The counts must match the length of the chunk.
        if raw.len() != Self::HEADER_LEN + Self::BLOCK_LEN * (gaps + nr_gaps + dups) {
            return Err(wrong);
        }
        let (gaps, rest) = raw[Self::HEADER_LEN..].split_at(Self::BLOCK_LEN * gaps);
        let (nr_gaps, dups) = rest.split_at(Self::BLOCK_LEN * nr_gaps);
        let blocks = |raw: &[u8]| {
            raw.chunks_exact(Self::BLOCK_LEN).map(|block| (u16_at(block, 0), u16_at(block, 2))).collect()
        };
        Ok(Self {
            flags: raw[1],
            cum_tsn_ack: Tsn(u32_at(raw, 4)),
            a_rwnd: u32_at(raw, 8),
            gaps: blocks(gaps),
            nr_gaps: blocks(nr_gaps),
            dups: dups.chunks_exact(Self::BLOCK_LEN).map(|tsn| Tsn(u32_at(tsn, 0))).collect(),
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        let fits = "as many blocks as fit in a packet";
        let mut header = [0; Self::HEADER_LEN];
        header[0] = Self::KIND;
        header[1] = self.flags;
        header[4..8].copy_from_slice(&self.cum_tsn_ack.0.to_be_bytes());
        header[8..12].copy_from_slice(&self.a_rwnd.to_be_bytes());
        let counts = [self.encoded_len(), self.gaps.len(), self.nr_gaps.len(), self.dups.len()];
        for (at, count) in [2, 12, 14, 16].into_iter().zip(counts) {
            header[at..at + 2].copy_from_slice(&u16::try_from(count).expect(fits).to_be_bytes());
        }
        out.extend_from_slice(&header);
        for &(start, end) in self.gaps.iter().chain(&self.nr_gaps) {
            out.extend_from_slice(&start.to_be_bytes());
            out.extend_from_slice(&end.to_be_bytes());
        }
        for dup in &self.dups {
            out.extend_from_slice(&dup.0.to_be_bytes());
        }
    }
}
