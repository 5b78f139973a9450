//! The frames of braid (specs/ftp-over-sctp.md §6.2). All numbers are big-endian.
//!
//! A frame is one SCTP message whose payload protocol identifier is its type ([`ppid`](super::ppid)). BYTES
//! has no header.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};

use super::TransferNumber;
use crate::stamp::Timestamp;

/// The length of a HEADER in bytes.
pub const HEADER_LENGTH: usize = 32;
/// The length of a TRAILER in bytes.
pub const TRAILER_LENGTH: usize = 48;
/// The length of a CREDIT in bytes.
pub const CREDIT_LENGTH: usize = 12;
/// The maximum length of a BYTES message.
pub const BYTES_MAX: usize = 65_536;
/// The number of bytes that may be sent on a data stream before the first CREDIT.
pub const INITIAL_CREDIT: u64 = 256 << 10;

/// Begins a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The number of the transfer.
    pub transfer: TransferNumber,
    /// The offset of its first byte in the file.
    pub offset: u64,
    /// The current size of the file, if it is one. The sender need not send that much.
    pub size: Option<u64>,
    /// The modification time of the file.
    pub modified: Option<Timestamp>,
}

/// Ends a transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Trailer {
    /// The number of the transfer.
    pub transfer: TransferNumber,
    /// The sender's result as a reply code: 226, or the reason for ending early.
    pub status: u16,
    /// The number of bytes since the header.
    pub length: u64,
    /// Their BLAKE3 digest.
    pub digest: [u8; 32],
}

/// The limit up to which the peer may send on a data stream.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Credit {
    /// The stream, at least 1.
    pub stream: u16,
    /// The total number of bytes since the start of the association. Never decreases.
    pub limit: u64,
}

/// An invalid frame. Each error ends the association (specs/ftp-over-sctp.md §6.7).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FrameError {
    /// A HEADER, TRAILER or CREDIT of wrong length.
    Length,
    /// An invalid field.
    Field,
    /// A payload protocol identifier that is invalid on this stream.
    Kind,
    /// BYTES or TRAILER without an open transfer, or HEADER with one.
    Order,
    /// A TRAILER of a transfer that is not the open one.
    WrongTransfer,
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
            Self::WrongTransfer => "trailer of another transfer than the one that is open",
            Self::Credit => "more bytes than the credit allows",
        })
    }
}

impl std::error::Error for FrameError {}

/// The encoding of an unknown size.
const UNKNOWN: u64 = u64::MAX;
/// The encoding of an unknown modification time.
const NO_TIME: i64 = i64::MIN;

impl Header {
    /// Encodes the payload of the message.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::with_capacity(HEADER_LENGTH);
        wire.put_u32(self.transfer.0);
        wire.put_u32(self.modified.map_or(0, |stamp| stamp.nanos));
        wire.put_u64(self.offset);
        wire.put_u64(self.size.unwrap_or(UNKNOWN));
        wire.put_i64(self.modified.map_or(NO_TIME, |stamp| stamp.seconds));
        wire.freeze()
    }

    /// Decodes the payload of a HEADER message.
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
    /// Encodes the payload of the message.
    pub fn encode(&self) -> Bytes {
        let mut wire = BytesMut::with_capacity(TRAILER_LENGTH);
        wire.put_u32(self.transfer.0);
        wire.put_u16(self.status);
        wire.put_u16(0);
        wire.put_u64(self.length);
        wire.put_slice(&self.digest);
        wire.freeze()
    }

    /// Decodes the payload of a TRAILER message.
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

    /// Whether the sender sent all bytes.
    pub const fn is_complete(&self) -> bool {
        self.status < 300
    }
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
        let credit =
            Self { stream: u16::from_be_bytes(field(wire, 0)), limit: u64::from_be_bytes(field(wire, 4)) };
        if credit.stream == 0 { Err(FrameError::Field) } else { Ok(credit) }
    }
}

fn field<const N: usize>(wire: &[u8], at: usize) -> [u8; N] {
    wire[at..at + N].try_into().expect("the caller's array is longer than its fields' ends")
}
