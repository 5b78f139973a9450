//! Listings of braid as DEFLATE streams (RFC 1951; specs/ftp-over-sctp.md §7.4).
//!
//! The sender flushes after each block of lines, so that the receiver can use them while the listing
//! continues. The receiver unpacks only as much at a time as it uses, and in total only as much as a listing
//! may have, since a few packed bytes can contain very many lines.

use std::fmt;

use bytes::{Buf, Bytes};
use flate2::{Compress, Compression, Decompress, FlushCompress, FlushDecompress, Status};

/// Bytes unpacked at a time.
const UNPACKED_BYTES: usize = 32 << 10;
/// Bytes by which the buffer for packed bytes grows.
const ROOM_BYTES: usize = 4 << 10;

/// The memory of a packer's state in bytes: window, hash chains and output.
pub const PACKER_BYTES: usize = 320 << 10;
/// The level of compression. Listings of real trees get 2 % shorter with level 6, which takes 2.5 times as long.
const LEVEL: u32 = 4;
/// The maximum length of a stored block in bytes (RFC 1951 §3.2.4).
const STORED_BYTES: usize = 0xffff;

/// Packs a listing.
#[derive(Debug)]
pub struct Packer(Option<Compress>);

impl Default for Packer {
    fn default() -> Self {
        Self(Some(Compress::new(Compression::new(LEVEL), false)))
    }
}

/// Whether more lines follow.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Follows {
    /// More may follow.
    More,
    /// These are the last lines of the listing.
    Nothing,
}

impl Packer {
    /// A packer without state, for when no memory is available: its blocks are stored, not compressed.
    pub fn storing() -> Self {
        Self(None)
    }

    /// Packs lines; all of them can be unpacked from the output so far.
    pub fn pack(&mut self, mut lines: &[u8], follows: Follows) -> Bytes {
        let Some(compress) = &mut self.0 else { return store(lines, follows) };
        let flush = match follows {
            Follows::More => FlushCompress::Sync,
            Follows::Nothing => FlushCompress::Finish,
        };
        let mut packed = Vec::with_capacity(ROOM_BYTES + lines.len() / 4);
        loop {
            let before = compress.total_in();
            let status = compress.compress_vec(lines, &mut packed, flush);
            let status = status.expect("DEFLATE packs any bytes");
            lines = &lines[(compress.total_in() - before) as usize..];
            let is_done = match follows {
                Follows::More => lines.is_empty() && packed.len() < packed.capacity(),
                Follows::Nothing => status == Status::StreamEnd,
            };
            if is_done {
                // The buffer is not grown further: its owner counts its length.
                packed.shrink_to_fit();
                return packed.into();
            }
            packed.reserve(ROOM_BYTES);
        }
    }
}

/// Encodes lines as stored blocks.
fn store(mut lines: &[u8], follows: Follows) -> Bytes {
    let mut stored = Vec::with_capacity(lines.len() + 5 * (1 + lines.len() / STORED_BYTES));
    loop {
        let (block, rest) = lines.split_at(lines.len().min(STORED_BYTES));
        lines = rest;
        let is_final = follows == Follows::Nothing && lines.is_empty();
        let length = block.len() as u16;
        stored.push(u8::from(is_final));
        stored.extend(length.to_le_bytes());
        stored.extend((!length).to_le_bytes());
        stored.extend(block);
        if lines.is_empty() {
            return stored.into();
        }
    }
}

/// Unpacks a listing.
#[derive(Debug)]
pub struct Unpacker {
    inflate: Decompress,
    packed: Bytes,
    /// Whether more output may be available without more input.
    holds_some: bool,
    is_over: bool,
    /// The number of bytes that may still be unpacked.
    left: u64,
}

/// Why a listing cannot be unpacked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum UnpackError {
    /// It is not a DEFLATE stream.
    Corrupt,
    /// Bytes follow the end of the stream.
    BeyondEnd,
    /// The unpacked listing is longer than permitted.
    TooLong,
}

impl fmt::Display for UnpackError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Corrupt => "it is not a DEFLATE stream",
            Self::BeyondEnd => "bytes follow the end of the packed listing",
            Self::TooLong => "it is too long",
        })
    }
}

impl std::error::Error for UnpackError {}

impl Unpacker {
    /// An unpacker that returns at most `most` bytes.
    pub fn new(most: u64) -> Self {
        let inflate = Decompress::new(false);
        Self { inflate, packed: Bytes::new(), holds_some: false, is_over: false, left: most }
    }

    /// Adds packed bytes; call [`Self::unpack`] afterwards until it returns `None`.
    pub fn push(&mut self, packed: Bytes) {
        debug_assert!(self.packed.is_empty(), "what came before is unpacked first");
        self.packed = packed;
    }

    /// Returns the next lines, divided anywhere, or `None` if more input is needed.
    ///
    /// # Errors
    ///
    /// It is not a packed listing, or one that is too long.
    pub fn unpack(&mut self) -> Result<Option<Bytes>, UnpackError> {
        while !self.packed.is_empty() || self.holds_some {
            if self.is_over {
                return Err(UnpackError::BeyondEnd);
            }
            let mut lines = vec![0; UNPACKED_BYTES];
            let before = (self.inflate.total_in(), self.inflate.total_out());
            let status = self.inflate.decompress(&self.packed, &mut lines, FlushDecompress::None);
            let status = status.map_err(|_| UnpackError::Corrupt)?;
            let taken = (self.inflate.total_in() - before.0) as usize;
            let given = (self.inflate.total_out() - before.1) as usize;
            self.packed.advance(taken);
            self.is_over = status == Status::StreamEnd;
            self.holds_some = !self.is_over && given == lines.len();
            if taken == 0 && given == 0 {
                if self.is_over || self.packed.is_empty() {
                    continue;
                }
                return Err(UnpackError::Corrupt);
            }
            if given > 0 {
                self.left = self.left.checked_sub(given as u64).ok_or(UnpackError::TooLong)?;
                lines.truncate(given);
                return Ok(Some(lines.into()));
            }
        }
        Ok(None)
    }

    /// Whether the end of the packed listing was reached.
    pub fn is_over(&self) -> bool {
        self.is_over
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn all(unpacker: &mut Unpacker, packed: Bytes) -> Result<Vec<u8>, UnpackError> {
        unpacker.push(packed);
        let mut out = Vec::new();
        while let Some(lines) = unpacker.unpack()? {
            assert!(lines.len() <= UNPACKED_BYTES);
            out.extend_from_slice(&lines);
        }
        Ok(out)
    }

    #[test]
    fn lines_are_unpacked_before_the_listing_ends() {
        let (mut packer, mut unpacker) = (Packer::default(), Unpacker::new(u64::MAX));
        let mut packed_bytes = 0;
        for chunk in 0..10 {
            let lines: String = (0..100)
                .map(|nth| format!("type=file;size=10000;modify=20261120110{nth:03}; dir/f{chunk}{nth}\r\n"))
                .collect();
            let packed = packer.pack(lines.as_bytes(), Follows::More);
            packed_bytes += packed.len();
            assert_eq!(all(&mut unpacker, packed).unwrap(), lines.as_bytes(), "{chunk}");
            assert!(!unpacker.is_over());
        }
        assert!(packed_bytes < 10 * 100 * 10, "{packed_bytes} bytes of 1,000 lines");
        assert_eq!(all(&mut unpacker, packer.pack(b"", Follows::Nothing)).unwrap(), b"");
        assert!(unpacker.is_over());
        assert_eq!(all(&mut unpacker, b"x"[..].into()), Err(UnpackError::BeyondEnd));
    }

    //= specs/ftp-over-sctp.md#section-7.4
    //= type=test
    //# A client MUST bound what it unpacks
    #[test]
    fn a_decompression_bomb_is_unpacked_up_to_the_limit_of_a_listing() {
        let bomb = Packer::default().pack(&vec![b'a'; 64 << 20], Follows::Nothing);
        assert!(bomb.len() < 1 << 20, "{}", bomb.len());
        let mut unpacker = Unpacker::new(1 << 20);
        unpacker.push(bomb);
        let mut got = 0;
        let error = loop {
            match unpacker.unpack() {
                Ok(lines) => got += lines.expect("it has more").len(),
                Err(error) => break error,
            }
        };
        assert_eq!((got, error), (1 << 20, UnpackError::TooLong));
    }

    #[test]
    fn input_that_is_not_packed_is_an_error() {
        assert_eq!(all(&mut Unpacker::new(9), b"type=file; a\r\n"[..].into()), Err(UnpackError::Corrupt));
    }

    proptest! {
        #[test]
        fn lines_are_unchanged_by_packing_in_any_pieces(
            chunks in proptest::collection::vec(proptest::collection::vec(b'a'..b'd', 0..70_000), 0..4),
            cut in 1_usize..5_000,
            has_room: bool,
        ) {
            let mut packer = if has_room { Packer::default() } else { Packer::storing() };
            let mut unpacker = Unpacker::new(u64::MAX);
            let mut packed = Vec::new();
            for chunk in &chunks {
                packed.extend_from_slice(&packer.pack(chunk, Follows::More));
            }
            packed.extend_from_slice(&packer.pack(b"", Follows::Nothing));
            let mut out = Vec::new();
            for part in packed.chunks(cut) {
                out.extend(all(&mut unpacker, Bytes::copy_from_slice(part)).unwrap());
            }
            prop_assert!(unpacker.is_over());
            prop_assert_eq!(out, chunks.concat());
        }

        #[test]
        fn no_input_causes_a_panic(parts in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..200), 0..10)) {
            let mut unpacker = Unpacker::new(1 << 20);
            for part in parts {
                if all(&mut unpacker, part.into()).is_err() {
                    break;
                }
            }
        }
    }
}
