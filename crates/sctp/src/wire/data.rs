//! The DATA chunk (RFC 9260 §3.3.1) and the I-DATA chunk (RFC 8260 §2.1), which has the same layout with
//! other numbers.

use bytes::{Bytes, BytesMut};

use super::{WireError, put_padding, u16_at, u32_at};
use crate::ids::{Ppid, Ssn, StreamId, Tsn};

/// A DATA chunk (RFC 9260 §3.3.1), or an I-DATA chunk (RFC 8260 §2.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Whether this is the first fragment of its message (B).
    pub begin: bool,
    /// Whether this is the last fragment of its message (E).
    pub end: bool,
    /// Whether the message is unordered (U).
    pub unordered: bool,
    /// Whether the sender requests an immediate SACK (I).
    pub immediate: bool,
    /// The chunk's TSN.
    pub tsn: Tsn,
    /// The stream.
    pub stream: StreamId,
    /// The stream sequence number; without meaning if unordered or interleaved.
    pub ssn: Ssn,
    /// The message and fragment numbers; present in an I-DATA chunk.
    pub interleaved: Option<Interleaved>,
    /// The payload protocol identifier.
    pub ppid: Ppid,
    /// At least one byte.
    pub payload: Bytes,
}

/// The fields of I-DATA that replace the stream sequence number (RFC 8260 §2.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Interleaved {
    /// The message identifier: ordered and unordered messages of a stream are numbered separately.
    pub mid: u32,
    /// The fragment sequence number; 0 in the first fragment.
    pub fsn: u32,
}

const END: u8 = 0x01;
const BEGIN: u8 = 0x02;
const UNORDERED: u8 = 0x04;
const IMMEDIATE: u8 = 0x08;

impl Data {
    /// A complete message, the first of stream 0.
    #[cfg(test)]
    pub(crate) fn whole(tsn: Tsn, payload: &'static [u8]) -> Self {
        Self {
            begin: true,
            end: true,
            unordered: false,
            immediate: false,
            tsn,
            stream: StreamId(0),
            ssn: Ssn(0),
            interleaved: None,
            ppid: Ppid(0),
            payload: Bytes::from_static(payload),
        }
    }

    /// The length of a DATA chunk header in bytes.
    pub const HEADER_LEN: usize = 16;

    /// The length of an I-DATA chunk header in bytes.
    pub const INTERLEAVED_HEADER_LEN: usize = 20;

    /// The chunk type of DATA.
    pub const KIND: u8 = 0;

    /// The chunk type of I-DATA.
    pub const INTERLEAVED_KIND: u8 = 64;

    /// The chunk type.
    pub fn kind(&self) -> u8 {
        if self.interleaved.is_some() { Self::INTERLEAVED_KIND } else { Self::KIND }
    }

    fn header_len(&self) -> usize {
        if self.interleaved.is_some() { Self::INTERLEAVED_HEADER_LEN } else { Self::HEADER_LEN }
    }

    /// The length of the chunk without padding.
    pub fn encoded_len(&self) -> usize {
        self.header_len() + self.payload.len()
    }

    //= specs/rfc8260.txt#section-2.1
    //# They MUST be set to 0 by the sender and MUST be ignored by the
    //# receiver.
    pub(super) fn flags(&self) -> u8 {
        let flag = |set: bool, bit: u8| if set { bit } else { 0 };
        flag(self.end, END)
            | flag(self.begin, BEGIN)
            | flag(self.unordered, UNORDERED)
            | flag(self.immediate, IMMEDIATE)
    }

    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Result<Self, WireError> {
        let kind = raw[0];
        let header_len =
            if kind == Self::INTERLEAVED_KIND { Self::INTERLEAVED_HEADER_LEN } else { Self::HEADER_LEN };
        if raw.len() < header_len {
            return Err(WireError::ChunkLength { kind, len: raw.len() });
        }
        let (flags, tsn) = (raw[1], Tsn(u32_at(raw, 4)));
        if raw.len() == header_len {
            return Err(WireError::NoUserData(tsn));
        }
        let (mut ssn, mut ppid, mut interleaved) = (Ssn(u16_at(raw, 10)), Ppid(u32_at(raw, 12)), None);
        if kind == Self::INTERLEAVED_KIND {
            let last = u32_at(raw, 16);
            //= specs/rfc8260.txt#section-2.1
            //# If the B bit is set, this field contains the PPID of the user
            //# message.
            let begin = flags & BEGIN != 0;
            interleaved = Some(Interleaved { mid: u32_at(raw, 12), fsn: if begin { 0 } else { last } });
            //= specs/rfc8260.txt#section-2.1
            //# This field is reserved.  It MUST be set to 0 by the sender and
            //# MUST be ignored by the receiver.
            (ssn, ppid) = (Ssn(0), Ppid(if begin { last } else { 0 }));
        }
        Ok(Self {
            begin: flags & BEGIN != 0,
            end: flags & END != 0,
            unordered: flags & UNORDERED != 0,
            immediate: flags & IMMEDIATE != 0,
            tsn,
            stream: StreamId(u16_at(raw, 8)),
            ssn,
            interleaved,
            ppid,
            payload: datagram.slice_ref(&raw[header_len..]),
        })
    }

    pub(crate) fn encode(&self, out: &mut BytesMut) {
        let start = out.len();
        let len = u16::try_from(self.encoded_len()).expect("a DATA chunk fits in a packet");
        //= specs/rfc9260.txt#section-3.3.1
        //# The following format MUST be used for the DATA chunk:
        let mut header = [0; Self::INTERLEAVED_HEADER_LEN];
        header[0] = self.kind();
        header[1] = self.flags();
        header[2..4].copy_from_slice(&len.to_be_bytes());
        header[4..8].copy_from_slice(&self.tsn.0.to_be_bytes());
        header[8..10].copy_from_slice(&self.stream.0.to_be_bytes());
        if let Some(Interleaved { mid, fsn }) = self.interleaved {
            header[12..16].copy_from_slice(&mid.to_be_bytes());
            header[16..20].copy_from_slice(&if self.begin { self.ppid.0 } else { fsn }.to_be_bytes());
        } else {
            header[10..12].copy_from_slice(&self.ssn.0.to_be_bytes());
            header[12..16].copy_from_slice(&self.ppid.0.to_be_bytes());
        }
        out.extend_from_slice(&header[..self.header_len()]);
        out.extend_from_slice(&self.payload);
        put_padding(out, start);
    }
}
