//! The DATA chunk (RFC 9260 §3.3.1).

use bytes::{Bytes, BytesMut};

use super::{WireError, put_padding, u16_at, u32_at};
use crate::ids::{Ppid, Ssn, StreamId, Tsn};

/// A DATA chunk (RFC 9260 §3.3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Whether this fragment begins its message (B).
    pub begin: bool,
    /// Whether this fragment ends its message (E).
    pub end: bool,
    /// Whether the message is unordered (U).
    pub unordered: bool,
    /// Whether the sender wants a SACK at once (I).
    pub immediate: bool,
    /// The chunk's TSN.
    pub tsn: Tsn,
    /// The stream.
    pub stream: StreamId,
    /// The message's place in its stream; without meaning if unordered.
    pub ssn: Ssn,
    /// What the payload is, to the application.
    pub ppid: Ppid,
    /// At least one byte.
    pub payload: Bytes,
}

const END: u8 = 0x01;
const BEGIN: u8 = 0x02;
const UNORDERED: u8 = 0x04;
const IMMEDIATE: u8 = 0x08;

impl Data {
    /// Bytes of the chunk before its payload.
    pub const HEADER_LEN: usize = 16;

    /// The chunk type.
    pub const KIND: u8 = 0;

    /// Bytes of the chunk without padding.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.payload.len()
    }

    pub(super) fn flags(&self) -> u8 {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        flag(self.end, END)
            | flag(self.begin, BEGIN)
            | flag(self.unordered, UNORDERED)
            | flag(self.immediate, IMMEDIATE)
    }

    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Result<Self, WireError> {
        if raw.len() < Self::HEADER_LEN {
            return Err(WireError::ChunkLength { kind: Self::KIND, len: raw.len() });
        }
        let (flags, tsn) = (raw[1], Tsn(u32_at(raw, 4)));
        if raw.len() == Self::HEADER_LEN {
            return Err(WireError::NoUserData(tsn));
        }
        Ok(Self {
            begin: flags & BEGIN != 0,
            end: flags & END != 0,
            unordered: flags & UNORDERED != 0,
            immediate: flags & IMMEDIATE != 0,
            tsn,
            stream: StreamId(u16_at(raw, 8)),
            ssn: Ssn(u16_at(raw, 10)),
            ppid: Ppid(u32_at(raw, 12)),
            payload: datagram.slice_ref(&raw[Self::HEADER_LEN..]),
        })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        let len = u16::try_from(self.encoded_len()).expect("a DATA chunk fits in a packet");
        let mut header = [0; Self::HEADER_LEN];
        header[0] = Self::KIND;
        header[1] = self.flags();
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[4..8].copy_from_slice(&self.tsn.0.to_be_bytes());
        header[8..10].copy_from_slice(&self.stream.0.to_be_bytes());
        header[10..12].copy_from_slice(&self.ssn.0.to_be_bytes());
        header[12..16].copy_from_slice(&self.ppid.0.to_be_bytes());
        out.extend_from_slice(&header);
        out.extend_from_slice(&self.payload);
        put_padding(out, start);
    }
}
