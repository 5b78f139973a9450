//! The COMPACT-SACK chunk (`specs/compact-sack.md`): a SACK with a bitmap instead of gap blocks, at most a
//! quarter as long.

use bytes::{BufMut, BytesMut};

use super::{WireError, u16_at, u32_at};
use crate::ids::Tsn;

/// A COMPACT-SACK chunk. Its blocks are ascending, not adjacent, and within the range of gap blocks, as
/// its encoding requires.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct CompactSack {
    /// Whether there was no room for all blocks (C bit): nothing is reported beyond the last one.
    pub is_cut: bool,
    /// The cumulative TSN.
    pub cum_tsn_ack: Tsn,
    /// The receiver's advertised window, in bytes.
    pub a_rwnd: u32,
    /// Start and end offsets from `cum_tsn_ack`, both inclusive.
    pub gaps: Vec<(u16, u16)>,
    /// Duplicate TSNs.
    pub dups: Vec<Tsn>,
}

impl CompactSack {
    /// The length of the chunk without duplicates and blocks.
    pub const HEADER_LEN: usize = 16;

    /// The chunk type: receivers that do not support it skip it without a report (RFC 9260 §3.2).
    pub const KIND: u8 = 0x90;

    /// The C bit.
    const CUT: u8 = 1;

    /// The length of the chunk without padding.
    pub fn encoded_len(&self) -> usize {
        let bits: usize = lengths(&self.gaps).map(|length| bits_of(length) as usize).sum();
        Self::HEADER_LEN + 4 * self.dups.len() + bits.div_ceil(8)
    }

    /// The number of these blocks, from the first on, that fit in a chunk of `room` bytes.
    pub fn blocks_in(gaps: &[(u16, u16)], room: usize) -> usize {
        let mut bits = 8 * room.saturating_sub(Self::HEADER_LEN);
        let mut lengths = lengths(gaps);
        let mut fit = 0;
        while let (Some(missing), Some(arrived)) = (lengths.next(), lengths.next()) {
            let Some(left) = bits.checked_sub((bits_of(missing) + bits_of(arrived)) as usize) else { break };
            (bits, fit) = (left, fit + 1);
        }
        fit
    }

    pub(super) fn decode(raw: &[u8]) -> Result<Self, WireError> {
        let wrong = WireError::ChunkLength { kind: Self::KIND, len: raw.len() };
        if raw.len() < Self::HEADER_LEN {
            return Err(wrong);
        }
        let [blocks, dups] = [12, 14].map(|at| usize::from(u16_at(raw, at)));
        let (dups, bits) = raw[Self::HEADER_LEN..].split_at_checked(4 * dups).ok_or(wrong)?;
        //= specs/compact-sack.md#section-3
        //# A chunk that ends before its last number, that has bytes after it, or in which a block ends more than
        //# 65,535 TSNs beyond the Cumulative TSN Ack MUST be treated like a SACK whose counts do not match its
        //# length.
        // A block takes at least two bits, so the memory is proportional to the length of the chunk.
        if blocks > 4 * bits.len() {
            return Err(wrong);
        }
        //= specs/compact-sack.md#section-3
        //# Bits fill bytes from the most significant bit on; unused bits of the last byte are 0 and MUST be ignored.
        let mut bits = Bits { bytes: bits, at: 0 };
        let mut gaps = Vec::with_capacity(blocks);
        let mut last = 0_u32;
        for _ in 0..blocks {
            let missing = bits.length().ok_or(wrong)?;
            let arrived = bits.length().ok_or(wrong)?;
            let first = last + missing + 1;
            last = last + missing + arrived;
            let end = u16::try_from(last).map_err(|_| wrong)?;
            gaps.push((first as u16, end));
        }
        if bits.at.div_ceil(8) != bits.bytes.len() {
            return Err(wrong);
        }
        Ok(Self {
            is_cut: raw[1] & Self::CUT != 0,
            cum_tsn_ack: Tsn(u32_at(raw, 4)),
            a_rwnd: u32_at(raw, 8),
            gaps,
            dups: dups.chunks_exact(4).map(|tsn| Tsn(u32_at(tsn, 0))).collect(),
        })
    }

    /// Appends the chunk, without padding.
    pub(super) fn encode(&self, out: &mut BytesMut) {
        let fits = "as many blocks as fit in a packet";
        let count = |count: usize| u16::try_from(count).expect(fits);
        let start = out.len();
        out.put_slice(&[Self::KIND, if self.is_cut { Self::CUT } else { 0 }, 0, 0]);
        out.put_u32(self.cum_tsn_ack.0);
        out.put_u32(self.a_rwnd);
        out.put_u16(count(self.gaps.len()));
        out.put_u16(count(self.dups.len()));
        self.dups.iter().for_each(|dup| out.put_u32(dup.0));
        // Bits that do not fill a byte yet; a number has at most 31 bits.
        let (mut pending, mut held) = (0_u64, 0);
        for length in lengths(&self.gaps) {
            let len = bits_of(length);
            pending = pending << len | u64::from(length);
            held += len;
            while held >= 8 {
                held -= 8;
                out.put_u8((pending >> held) as u8);
            }
        }
        if held > 0 {
            out.put_u8((pending << (8 - held)) as u8);
        }
        let len = count(out.len() - start).to_be_bytes();
        out[start + 2..start + 4].copy_from_slice(&len);
    }
}

/// Alternately the number of TSNs missing before each block and the length of the block; none is 0.
fn lengths(gaps: &[(u16, u16)]) -> impl Iterator<Item = u32> {
    let mut last = 0;
    gaps.iter().flat_map(move |&(first, end)| {
        let missing = u32::from(first - last) - 1;
        last = end;
        [missing, u32::from(end - first) + 1]
    })
}

/// The length of a positive number in Elias' gamma code: a zero for each bit after its first 1, and the
/// number.
fn bits_of(number: u32) -> u32 {
    2 * number.ilog2() + 1
}

/// Reads bits, the most significant bit of each byte first.
struct Bits<'a> {
    bytes: &'a [u8],
    at: usize,
}

impl Bits<'_> {
    /// Returns the next number, if there is one of at most 16 bits.
    fn length(&mut self) -> Option<u32> {
        let from = self.at / 8;
        let mut window = [0; 8];
        let near = self.bytes.get(from..)?;
        let near = &near[..near.len().min(8)];
        window[..near.len()].copy_from_slice(near);
        let window = u64::from_be_bytes(window) << (self.at % 8);
        let zeros = window.leading_zeros();
        let len = 2 * zeros + 1;
        if zeros > 15 || self.at + len as usize > 8 * self.bytes.len() {
            return None;
        }
        self.at += len as usize;
        Some((window >> (64 - len)) as u32)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn written(sack: &CompactSack) -> BytesMut {
        let mut out = BytesMut::new();
        sack.encode(&mut out);
        out
    }

    fn of(gaps: Vec<(u16, u16)>) -> CompactSack {
        CompactSack { gaps, ..CompactSack::default() }
    }

    #[test]
    fn a_loss_in_ten_takes_less_than_a_byte_a_block() {
        let gaps: Vec<(u16, u16)> = (0..800).map(|nth| (10 * nth + 2, 10 * nth + 10)).collect();
        let sack = of(gaps.clone());
        assert_eq!(sack.encoded_len(), 16 + 800);
        assert_eq!(CompactSack::decode(&written(&sack)), Ok(sack));
        assert_eq!(CompactSack::blocks_in(&gaps, 16 + 800), 800);
        assert_eq!(CompactSack::blocks_in(&gaps, 16 + 799), 799);
        assert_eq!(CompactSack::blocks_in(&gaps, 10), 0);
    }

    fn raw(blocks: u16, bits: &[u8]) -> Vec<u8> {
        let mut raw = vec![CompactSack::KIND, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
        raw.extend(blocks.to_be_bytes());
        raw.extend([0, 0]);
        raw.extend(bits);
        raw
    }

    fn decoded(blocks: u16, bits: &[u8]) -> Option<Vec<(u16, u16)>> {
        CompactSack::decode(&raw(blocks, bits)).ok().map(|sack| sack.gaps)
    }

    //= specs/compact-sack.md#section-3
    //= type=test
    //# A chunk that ends before its last number, that has bytes after it, or in which a block ends more than 65,535
    //# TSNs beyond the Cumulative TSN Ack MUST be treated like a SACK whose counts do not match its length.
    //= specs/compact-sack.md#section-3
    //= type=test
    //# Bits fill bytes from the most significant bit on; unused bits of the last byte are 0 and MUST be ignored.
    #[test]
    fn numbers_are_all_there_and_nothing_else_is() {
        // 1 missing, 1 arrived, 3 missing (011), 1 arrived; two bits are left.
        assert_eq!(decoded(2, &[0b1101_1100]), Some(vec![(2, 2), (6, 6)]));
        assert_eq!(decoded(2, &[0b1101_1111]), Some(vec![(2, 2), (6, 6)]), "whatever these are");
        assert_eq!(decoded(2, &[0b1101_1100, 0]), None, "a byte too many");
        assert_eq!(decoded(0, &[0]), None);
        assert_eq!(decoded(0, &[]), Some(vec![]));
        assert_eq!(decoded(3, &[0b1101_1100]), None, "one too few");
        assert_eq!(decoded(2, &[0b1100_0001]), None, "and half of one");
        assert_eq!(decoded(u16::MAX, &[0xff]), None);
        assert!(CompactSack::decode(&raw(0, &[])[..15]).is_err());
        let dups = CompactSack { dups: vec![Tsn(7)], ..CompactSack::default() };
        assert!(CompactSack::decode(&written(&dups)[..18]).is_err());
    }

    #[test]
    fn the_furthest_possible_block_is_encoded() {
        // 1 missing and 65,534 arrived; 2 missing (010) exceed the range.
        let fine = of(vec![(2, u16::MAX)]);
        let bits = written(&fine)[16..].to_vec();
        assert_eq!(bits, [0x80, 0x00, 0xff, 0xfe]);
        assert_eq!(decoded(1, &bits), Some(vec![(2, u16::MAX)]));
        assert_eq!(decoded(1, &[0x40, 0x00, 0x3f, 0xff, 0x80]), None);
        let far = of(vec![(u16::MAX, u16::MAX)]);
        assert_eq!(CompactSack::decode(&written(&far)), Ok(far));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

        #[test]
        fn blocks_round_trip_within_the_announced_room(
            lengths in prop::collection::vec((1_u16..400, 1_u16..400), 0..80),
            room in 0_usize..300,
        ) {
            let mut last = 0;
            let gaps: Vec<(u16, u16)> = lengths
                .into_iter()
                .map(|(missing, arrived)| {
                    let first = last + missing + 1;
                    last += missing + arrived;
                    (first, last)
                })
                .collect();
            let fit = CompactSack::blocks_in(&gaps, room);
            if let Some(more) = gaps.get(..fit + 1) {
                prop_assert!(of(more.to_vec()).encoded_len() > room);
            }
            let sack = of(gaps[..fit].to_vec());
            let raw = written(&sack);
            prop_assert!(fit == 0 || raw.len() <= room);
            prop_assert_eq!(raw.len(), sack.encoded_len());
            prop_assert_eq!(CompactSack::decode(&raw), Ok(sack));
        }

        /// Whatever the bits are, decoded blocks are valid, and no other encoding has the same meaning
        /// except for trailing bits.
        #[test]
        fn arbitrary_bits_are_rejected_or_decode_to_valid_blocks(
            blocks in 0_u16..200,
            bits in prop::collection::vec(any::<u8>(), 0..100),
        ) {
            let mut raw = raw(blocks, &bits);
            let len = (raw.len() as u16).to_be_bytes();
            raw[2..4].copy_from_slice(&len);
            if let Ok(sack) = CompactSack::decode(&raw) {
                let mut last = 0;
                for &(first, end) in &sack.gaps {
                    prop_assert!(first > last + 1 && first <= end);
                    last = end;
                }
                let again = written(&sack);
                prop_assert_eq!(again.len(), raw.len());
                let whole = raw.len() - usize::from(raw.len() > CompactSack::HEADER_LEN);
                prop_assert_eq!(&again[..whole], &raw[..whole]);
            }
        }
    }
}
