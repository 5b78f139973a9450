//! Encoding of the DTLS chunk and the DTLS Key Management parameter (draft-ietf-tsvwg-sctp-dtls-chunk §4.1,
//! §4.2). `dtls::record` encodes records.

use bytes::{BufMut, Bytes, BytesMut};

use super::{Chunk, Tlv, u32_at};

/// The chunk that contains all other chunks of its packet, protected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Dtls {
    /// Whether the record is protected with the keys for a restart (R bit).
    pub is_restart: bool,
    /// The DTLSCiphertext.
    pub record: Bytes,
}

/// The contents of a DTLS chunk within a received packet.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Record<'a> {
    /// See [`Dtls::is_restart`].
    pub(crate) is_restart: bool,
    /// See [`Dtls::record`].
    pub(crate) bytes: &'a [u8],
}

impl Dtls {
    /// The chunk type.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
    //# This value MUST be set to 0x41.
    pub const KIND: u8 = 0x41;
    /// Bytes before the record: the chunk header and one byte of padding, so that the chunks in the
    /// record begin at a multiple of four.
    pub const HEADER_LEN: usize = Chunk::HEADER_LEN + 1;
    /// The R bit.
    pub(crate) const RESTART: u8 = 0x01;

    pub(super) fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.record.len()
    }

    pub(super) fn flags(&self) -> u8 {
        if self.is_restart { Self::RESTART } else { 0 }
    }

    /// Decodes the chunk in `raw`, if it contains a record.
    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Option<Self> {
        let Record { is_restart, bytes } = Self::record_in(raw)?;
        Some(Self { is_restart, record: datagram.slice_ref(bytes) })
    }

    /// The record of the chunk in `raw`, if it contains one.
    pub(super) fn record_in(raw: &[u8]) -> Option<Record<'_>> {
        let bytes = raw.get(Self::HEADER_LEN..).filter(|record| !record.is_empty())?;
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
        //# These bits MUST be set to 0 by
        //# the sender and MUST be ignored by the receiver.
        let is_restart = raw[1] & Self::RESTART != 0;
        Some(Record { is_restart, bytes })
    }

    pub(super) fn encode_body(&self, out: &mut BytesMut) {
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
        //# The sender MUST pad with one zero byte and the receiver MUST ignore the
        //# padding bytes.
        out.put_u8(0);
        out.put_slice(&self.record);
    }
}

/// The DTLS Key Management parameter: the key management that its sender supports.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyManagement {
    /// A random number that determines the server if both sides can have either role.
    pub tie_breaker: u32,
    /// The capabilities of its sender: [`KeyManagement::RESTART`] and others. Unassigned bits are kept
    /// as received, since keys are bound to the parameter as it was sent.
    pub flags: u8,
    /// Identifiers of key management methods in order of preference; 1 to 255.
    pub methods: Bytes,
}

impl KeyManagement {
    /// The length of the parameter without identifiers.
    const HEADER_LEN: usize = Tlv::HEADER_LEN + 5;
    /// The number of possible identifiers: more would be repetitions.
    pub const METHODS_MAX: usize = 255;
    /// A restart can be protected (R bit).
    pub const RESTART: u8 = 0x04;
    /// The sender can be the server (S bit).
    pub const SERVER: u8 = 0x02;
    /// The sender can be the client (C bit).
    pub const CLIENT: u8 = 0x01;

    /// Decodes an encoded parameter.
    pub(crate) fn of_raw(raw: &Bytes) -> Option<Self> {
        Self::decode(raw, raw.get(Tlv::HEADER_LEN..)?)
    }

    /// Whether a flag is set.
    pub fn has(&self, flag: u8) -> bool {
        self.flags & flag != 0
    }

    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
    //# This value holds the length of the parameter in bytes, which is the
    //# number of DTLS Key Management identifiers (N) plus 9.
    pub(super) fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.methods.len()
    }

    /// Decodes the parameter with this value; `None` if it has no methods, or too many.
    pub(super) fn decode(datagram: &Bytes, value: &[u8]) -> Option<Self> {
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
        //# The parameter MUST include at least one DTLS Key Management Identifier.
        let methods = value.get(Self::HEADER_LEN - Tlv::HEADER_LEN..)?;
        if methods.is_empty() || methods.len() > Self::METHODS_MAX {
            return None;
        }
        Some(Self { tie_breaker: u32_at(value, 0), flags: value[4], methods: datagram.slice_ref(methods) })
    }

    pub(super) fn encode_body(&self, out: &mut BytesMut) {
        out.put_u32(self.tie_breaker);
        out.put_u8(self.flags);
        out.put_slice(&self.methods);
    }
}
