//! The frames of braid, version 2 (specs/ftp-over-sctp.md §6.2).
//!
//! A frame is one SCTP message whose payload protocol identifier is its type ([`ppid`](super::ppid)). The
//! header of a transfer precedes its first content bytes, and the digest follows the last, in the same
//! messages. A file that fits into one message is one frame.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::TransferNumber;
use crate::stamp::Timestamp;

/// The maximum length of a header in bytes.
pub const HEADER_LENGTH_MAX: usize = 1 + 8 + 8 + 8 + 12;
/// The length of a digest in bytes: the first ones of BLAKE3's output.
pub const DIGEST_LENGTH: usize = 16;
/// The length of a BREAK in bytes.
pub const BREAK_LENGTH: usize = 2;
/// The length of a CREDIT in bytes.
pub const CREDIT_LENGTH: usize = 12;
/// The maximum number of content bytes in a message.
pub const BYTES_MAX: usize = 65_536;
/// The number of content bytes that may be sent on a data stream before the first CREDIT.
pub const INITIAL_CREDIT: u64 = 256 << 10;
/// The largest number that a variable-length integer holds (RFC 9000 §16).
pub const NUMBER_MAX: u64 = (1 << 62) - 1;

/// The digest of a transfer's content.
pub type Digest = [u8; DIGEST_LENGTH];

/// Truncates a BLAKE3 digest to that of a frame.
pub fn truncated(blake3: &[u8; 32]) -> Digest {
    *blake3.first_chunk().expect("32 bytes have 16 first ones")
}

/// Begins a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of the transfer.
    pub transfer: TransferNumber,
    /// The offset of its first byte in the file, at most [`NUMBER_MAX`].
    pub offset: u64,
    /// The current size of the file, if it is one. The sender need not send that much.
    pub size: Option<u64>,
    /// The modification time of the file.
    pub modified: Option<Timestamp>,
}

/// The limit up to which the peer may send on a data stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// The stream, at least 1.
    pub stream: u16,
    /// The total number of content bytes since the start of the association. Never decreases.
    pub limit: u64,
}

/// An invalid frame. Each error ends the association (specs/ftp-over-sctp.md §6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// A frame that is shorter or longer than its fields.
    Length,
    /// An invalid field.
    Field,
    /// A payload protocol identifier that is invalid on this stream.
    Kind,
    /// A FIRST or WHOLE while a transfer is open, or a BYTES, LAST or BREAK while none is open.
    Order,
    /// More bytes than the credit allows.
    Credit,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "frame of wrong length",
            Self::Field => "frame with an invalid field",
            Self::Kind => "message type not permitted on this stream",
            Self::Order => "frame out of order",
            Self::Credit => "more bytes than the credit allows",
        })
    }
}

impl std::error::Error for FrameError {}

/// The flags of a header: which of its optional fields are present.
mod flag {
    pub(super) const OFFSET: u8 = 1;
    pub(super) const SIZE: u8 = 2;
    pub(super) const MODIFIED: u8 = 4;
    pub(super) const MODIFIED_FAR: u8 = 8;
    pub(super) const ALL: u8 = OFFSET | SIZE | MODIFIED | MODIFIED_FAR;
}

/// The number of nanoseconds in a second.
const SECOND: u32 = 1_000_000_000;
/// The number of bits for nanoseconds in the short form of a time.
const NANOS_BITS: u32 = 30;
/// Seconds from the earliest time of the short form, 1901-12-13 20:45:52 UTC, to 1970.
const SHORT_BIAS: i64 = 1 << 31;

impl Header {
    /// Encodes the header that precedes the first content bytes.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::with_capacity(HEADER_LENGTH_MAX);
        let size = self.size.filter(|size| *size <= NUMBER_MAX);
        let short = self.modified.and_then(short_time);
        let flags = [
            (self.offset > 0, flag::OFFSET),
            (size.is_some(), flag::SIZE),
            (short.is_some(), flag::MODIFIED),
            (self.modified.is_some() && short.is_none(), flag::MODIFIED_FAR),
        ];
        wire.put_u8(flags.iter().filter(|(there, _)| *there).fold(0, |flags, (_, flag)| flags | flag));
        put_number(&mut wire, self.transfer.0.into());
        if self.offset > 0 {
            put_number(&mut wire, self.offset);
        }
        if let Some(size) = size {
            put_number(&mut wire, size);
        }
        match (short, self.modified) {
            (Some(short), _) => wire.put_u64(short),
            (None, Some(Timestamp { seconds, nanos })) => {
                wire.put_i64(seconds);
                wire.put_u32(nanos);
            }
            (None, None) => {}
        }
        wire.freeze()
    }

    /// Decodes the header at the beginning of `wire`, and returns its length; `None` if `wire` ends before the header does.
    pub fn decode(wire: &[u8]) -> Result<Option<(Self, usize)>, FrameError> {
        let mut rest = wire;
        let header = Self::read(&mut rest)?;
        Ok(header.map(|header| (header, wire.len() - rest.len())))
    }

    fn read(rest: &mut &[u8]) -> Result<Option<Self>, FrameError> {
        let Some([flags]) = take(rest) else { return Ok(None) };
        let both = flag::MODIFIED | flag::MODIFIED_FAR;
        if flags & !flag::ALL != 0 || flags & both == both {
            return Err(FrameError::Field);
        }
        let has = |flag| flags & flag != 0;
        let Some(transfer) = take_number(rest) else { return Ok(None) };
        let transfer = u32::try_from(transfer).ok().filter(|transfer| *transfer > 0);
        let transfer = TransferNumber(transfer.ok_or(FrameError::Field)?);
        let mut header = Self { transfer, offset: 0, size: None, modified: None };
        if has(flag::OFFSET) {
            let Some(offset) = take_number(rest) else { return Ok(None) };
            header.offset = offset;
        }
        if has(flag::SIZE) {
            let Some(size) = take_number(rest) else { return Ok(None) };
            header.size = Some(size);
        }
        if has(flag::MODIFIED) {
            let Some(short) = take(rest).map(u64::from_be_bytes) else { return Ok(None) };
            let seconds = (short >> NANOS_BITS) as i64 - SHORT_BIAS;
            let nanos = (short & ((1 << NANOS_BITS) - 1)) as u32;
            header.modified = Some(Timestamp { seconds, nanos });
        }
        if has(flag::MODIFIED_FAR) {
            let Some(seconds) = take(rest).map(i64::from_be_bytes) else { return Ok(None) };
            let Some(nanos) = take(rest).map(u32::from_be_bytes) else { return Ok(None) };
            header.modified = Some(Timestamp { seconds, nanos });
        }
        match header.modified.is_some_and(|modified| modified.nanos >= SECOND) {
            true => Err(FrameError::Field),
            false => Ok(Some(header)),
        }
    }
}

/// The short form of a time, if it has one.
fn short_time(time: Timestamp) -> Option<u64> {
    let seconds = u64::try_from(time.seconds.checked_add(SHORT_BIAS)?).ok()?;
    (seconds >> (u64::BITS - NANOS_BITS) == 0).then_some((seconds << NANOS_BITS) | u64::from(time.nanos))
}

impl Credit {
    /// Encodes the payload of the message.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::with_capacity(CREDIT_LENGTH);
        wire.put_u16(self.stream);
        wire.put_u16(0);
        wire.put_u64(self.limit);
        wire.freeze()
    }

    /// Decodes the payload of a CREDIT message.
    pub fn decode(wire: &[u8]) -> Result<Self, FrameError> {
        let wire: &[u8; CREDIT_LENGTH] = wire.try_into().map_err(|_| FrameError::Length)?;
        let mut rest = &wire[..];
        let stream = u16::from_be_bytes(take(&mut rest).unwrap_or_default());
        let limit = u64::from_be_bytes(*wire.last_chunk().expect("it is longer than its last field"));
        if stream == 0 { Err(FrameError::Field) } else { Ok(Self { stream, limit }) }
    }
}

/// Appends a variable-length integer in its shortest form (RFC 9000 §16). Larger numbers are encoded as
/// [`NUMBER_MAX`].
fn put_number(wire: &mut BytesMut, number: u64) {
    match number {
        0..0x40 => wire.put_u8(number as u8),
        0x40..0x4000 => wire.put_u16(0x4000 | number as u16),
        0x4000..0x4000_0000 => wire.put_u32(0x8000_0000 | number as u32),
        _ => wire.put_u64(0xc000_0000_0000_0000 | number.min(NUMBER_MAX)),
    }
}

/// Takes a variable-length integer from the front; `None`, without a change, if `wire` is too short.
fn take_number(wire: &mut &[u8]) -> Option<u64> {
    let length = 1 << (wire.first()? >> 6);
    let (number, rest) = wire.split_at_checked(length)?;
    *wire = rest;
    let mask = u64::MAX >> (u64::BITS + 2 - 8 * length as u32);
    Some(number.iter().fold(0, |sum, byte| (sum << 8) | u64::from(*byte)) & mask)
}

/// Takes `N` bytes from the front; `None`, without a change, if there are fewer.
fn take<const N: usize>(wire: &mut &[u8]) -> Option<[u8; N]> {
    let (field, rest) = wire.split_first_chunk()?;
    *wire = rest;
    Some(*field)
}
