//! The frames of braid, byte by byte (specs/ftp-over-sctp.md §6.2). All numbers are big-endian.
//!
//! A frame is one SCTP message, its kind the payload protocol identifier ([`ppid`](super::ppid)); BYTES has no form beyond
//! its bytes.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::TransferNumber;
use crate::stamp::Timestamp;

/// Bytes of a HEADER.
pub const HEADER_LENGTH: usize = 32;
/// Bytes of a TRAILER.
pub const TRAILER_LENGTH: usize = 48;
/// Bytes of a CREDIT.
pub const CREDIT_LENGTH: usize = 12;
/// Bytes of the longest BYTES message that may be sent.
pub const BYTES_MAX: usize = 65_536;
/// Bytes that may be sent on a data stream before any CREDIT for it came.
pub const INITIAL_CREDIT: u64 = 256 << 10;

/// A transfer begins.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// Which.
    pub transfer: TransferNumber,
    /// Where in the file its first byte belongs.
    pub offset: u64,
    /// Bytes of the whole file as it is now, if it is a file. The sender does not promise them.
    pub size: Option<u64>,
    /// When the file changed last.
    pub modified: Option<Timestamp>,
}

/// A transfer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// Which.
    pub transfer: TransferNumber,
    /// How it went for the sender, as a reply code: 226, or why it breaks off here.
    pub status: u16,
    /// Bytes of BYTES since the header.
    pub length: u64,
    /// Their BLAKE3 digest.
    pub digest: [u8; 32],
}

/// How far the other side may send on a data stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// The stream, 1 or more.
    pub stream: u16,
    /// Bytes of BYTES in all, since the association began. Never falls.
    pub limit: u64,
}

/// How frames can be wrong. Each ends the association (specs/ftp-over-sctp.md §6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// A HEADER, TRAILER or CREDIT of another length than it has.
    Length,
    /// A field with a value that it cannot have.
    Field,
    /// A payload protocol identifier that has no place on this stream.
    Kind,
    /// BYTES or TRAILER with no transfer open on the stream, or HEADER with one.
    Order,
    /// TRAILER of another transfer than the one that is open.
    WrongTransfer,
    /// More BYTES than the credit allows.
    Credit,
}

impl fmt::Display for FrameError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Length => "frame of a wrong length",
            Self::Field => "frame with an impossible field",
            Self::Kind => "message of a kind that has no place on its stream",
            Self::Order => "frame out of order",
            Self::WrongTransfer => "trailer of another transfer than the one that is open",
            Self::Credit => "more bytes than the credit allows",
        })
    }
}

impl std::error::Error for FrameError {}

/// The wire's word for a size that is not known.
const UNKNOWN: u64 = u64::MAX;
/// The wire's word for a modification time that is not known.
const NO_TIME: i64 = i64::MIN;

impl Header {
    /// As it goes on the wire.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::with_capacity(HEADER_LENGTH);
        wire.put_u32(self.transfer.0);
        wire.put_u32(self.modified.map_or(0, |stamp| stamp.nanos));
        wire.put_u64(self.offset);
        wire.put_u64(self.size.unwrap_or(UNKNOWN));
        wire.put_i64(self.modified.map_or(NO_TIME, |stamp| stamp.seconds));
        wire.freeze()
    }

    /// Reads the payload of a HEADER message.
    pub fn decode(wire: &[u8]) -> Result<Self, FrameError> {
        let wire: &[u8; HEADER_LENGTH] = wire.try_into().map_err(|_| FrameError::Length)?;
        let nanos = u32::from_be_bytes(field(wire, 4));
        let size = u64::from_be_bytes(field(wire, 16));
        let seconds = i64::from_be_bytes(field(wire, 24));
        let header = Self {
            transfer: TransferNumber(u32::from_be_bytes(field(wire, 0))),
            offset: u64::from_be_bytes(field(wire, 8)),
            size: (size != UNKNOWN).then_some(size),
            modified: (seconds != NO_TIME).then_some(Timestamp { seconds, nanos }),
        };
        if header.transfer.0 == 0 || nanos >= 1_000_000_000 { Err(FrameError::Field) } else { Ok(header) }
    }
}

impl Trailer {
    /// As it goes on the wire.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::with_capacity(TRAILER_LENGTH);
        wire.put_u32(self.transfer.0);
        wire.put_u16(self.status);
        wire.put_u16(0);
        wire.put_u64(self.length);
        wire.put_slice(&self.digest);
        wire.freeze()
    }

    /// Reads the payload of a TRAILER message.
    pub fn decode(wire: &[u8]) -> Result<Self, FrameError> {
        let wire: &[u8; TRAILER_LENGTH] = wire.try_into().map_err(|_| FrameError::Length)?;
        let trailer = Self {
            transfer: TransferNumber(u32::from_be_bytes(field(wire, 0))),
            status: u16::from_be_bytes(field(wire, 4)),
            length: u64::from_be_bytes(field(wire, 8)),
            digest: field(wire, 16),
        };
        if (200..600).contains(&trailer.status) { Ok(trailer) } else { Err(FrameError::Field) }
    }

    /// Whether the sender says that these are all the bytes.
    pub const fn is_complete(&self) -> bool {
        self.status < 300
    }
}

impl Credit {
    /// As it goes on the wire.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::with_capacity(CREDIT_LENGTH);
        wire.put_u16(self.stream);
        wire.put_u16(0);
        wire.put_u64(self.limit);
        wire.freeze()
    }

    /// Reads the payload of a CREDIT message.
    pub fn decode(wire: &[u8]) -> Result<Self, FrameError> {
        let wire: &[u8; CREDIT_LENGTH] = wire.try_into().map_err(|_| FrameError::Length)?;
        let credit =
            Self { stream: u16::from_be_bytes(field(wire, 0)), limit: u64::from_be_bytes(field(wire, 4)) };
        if credit.stream == 0 { Err(FrameError::Field) } else { Ok(credit) }
    }
}

fn field<const N: usize>(wire: &[u8], at: usize) -> [u8; N] {
    wire[at..at + N].try_into().expect("the caller's array is longer than its fields' ends")
}
