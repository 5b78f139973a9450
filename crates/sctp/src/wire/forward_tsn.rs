//! FORWARD TSN (RFC 3758 §3.2) and I-FORWARD-TSN (RFC 8260 §2.3.1): the TSN up to which the receiver skips,
//! and the skipped messages by stream.

use bytes::BytesMut;

use super::{Chunk, WireError, u16_at, u32_at};
use crate::ids::{Ssn, StreamId, Tsn};

/// A FORWARD TSN chunk (RFC 3758 §3.2). Streams are as received: `association` checks whether they exist.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ForwardTsn {
    /// The new cumulative TSN.
    pub new_cum_tsn: Tsn,
    /// For each stream with skipped ordered messages, the last of them.
    pub streams: Vec<(StreamId, Ssn)>,
}

/// An I-FORWARD-TSN chunk (RFC 8260 §2.3.1), which replaces FORWARD TSN with interleaving.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IForwardTsn {
    /// The new cumulative TSN.
    pub new_cum_tsn: Tsn,
    /// For each stream, the last skipped ordered and unordered message.
    pub streams: Vec<SkippedMid>,
}

/// The last skipped message of a stream (RFC 8260 §2.3.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct SkippedMid {
    /// The stream.
    pub stream: StreamId,
    /// Whether the number is of an unordered message (U).
    pub unordered: bool,
    /// The message identifier.
    pub mid: u32,
}

const UNORDERED: u16 = 1;

impl ForwardTsn {
    /// The chunk type.
    pub const KIND: u8 = 192;

    /// The length of the chunk without streams.
    pub const HEADER_LEN: usize = 8;

    /// The length of a stream's entry.
    pub const ENTRY_LEN: usize = 4;

    /// The length of the chunk, which needs no padding.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + Self::ENTRY_LEN * self.streams.len()
    }

    pub(super) fn decode(raw: &[u8]) -> Result<Self, WireError> {
        let entries = entries(raw, Self::ENTRY_LEN)?;
        let entry = |entry: &[u8]| (StreamId(u16_at(entry, 0)), Ssn(u16_at(entry, 2)));
        Ok(Self { new_cum_tsn: Tsn(u32_at(raw, 4)), streams: entries.map(entry).collect() })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        put_header(out, Self::KIND, self.encoded_len(), self.new_cum_tsn);
        for (stream, ssn) in &self.streams {
            out.extend_from_slice(&stream.0.to_be_bytes());
            out.extend_from_slice(&ssn.0.to_be_bytes());
        }
    }
}

impl IForwardTsn {
    /// The chunk type.
    pub const KIND: u8 = 194;

    /// The length of the chunk without streams.
    pub const HEADER_LEN: usize = 8;

    /// The length of a stream's entry.
    pub const ENTRY_LEN: usize = 8;

    /// The length of the chunk, which needs no padding.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + Self::ENTRY_LEN * self.streams.len()
    }

    pub(super) fn decode(raw: &[u8]) -> Result<Self, WireError> {
        let entries = entries(raw, Self::ENTRY_LEN)?;
        let entry = |entry: &[u8]| SkippedMid {
            stream: StreamId(u16_at(entry, 0)),
            //= specs/rfc8260.txt#section-2.3.1
            //# This field is reserved.  It MUST be set to 0 by the sender and
            //# MUST be ignored by the receiver.
            unordered: u16_at(entry, 2) & UNORDERED != 0,
            mid: u32_at(entry, 4),
        };
        Ok(Self { new_cum_tsn: Tsn(u32_at(raw, 4)), streams: entries.map(entry).collect() })
    }

    pub(super) fn encode(&self, out: &mut BytesMut) {
        put_header(out, Self::KIND, self.encoded_len(), self.new_cum_tsn);
        for SkippedMid { stream, unordered, mid } in &self.streams {
            out.extend_from_slice(&stream.0.to_be_bytes());
            out.extend_from_slice(&if *unordered { UNORDERED } else { 0 }.to_be_bytes());
            out.extend_from_slice(&mid.to_be_bytes());
        }
    }
}

/// The bytes after the cumulative TSN, if they are complete entries of this length.
fn entries(raw: &[u8], entry_len: usize) -> Result<std::slice::ChunksExact<'_, u8>, WireError> {
    //= specs/rfc8260.txt#section-2.3.1
    //# These bits are reserved.  They MUST be set to 0 by the sender and
    //# MUST be ignored by the receiver.
    let entries = raw.get(ForwardTsn::HEADER_LEN..).map(|rest| rest.chunks_exact(entry_len));
    entries
        .filter(|entries| entries.remainder().is_empty())
        .ok_or(WireError::ChunkLength { kind: raw[0], len: raw.len() })
}

fn put_header(out: &mut BytesMut, kind: u8, len: usize, new_cum_tsn: Tsn) {
    let len = u16::try_from(len).expect("as many streams as fit in a packet").to_be_bytes();
    let header: [u8; Chunk::HEADER_LEN] = [kind, 0, len[0], len[1]];
    out.extend_from_slice(&header);
    out.extend_from_slice(&new_cum_tsn.0.to_be_bytes());
}
