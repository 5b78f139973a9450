//! One record (draft-ietf-tls-rfc9147bis §4): its header, the masked record number, and the content type
//! after the content. The DTLS chunk uses one header form: no connection ID, no length, 16 bits of the
//! number.

use bytes::{BufMut, BytesMut};

use super::{Forged, Keys, NONCE_LEN, TAG_LEN};
use crate::wire::Dtls;

/// Bytes of the unified header.
const UNIFIED_LEN: usize = 3;
/// The first byte without the epoch: 001, no connection ID, 16-bit record number, no length.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.1
//# The DTLS Connection ID in the DTLS Record layer MUST NOT be used in
//# the DTLS Chunk as the full DTLS connection state is not used in the
//# DTLS Chunk and the DTLS key context anyway can be identified.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.1
//# The
//# length field MUST NOT be used as the DTLS chunk provides record length
//# information.
const FIXED_BITS: u8 = 0b0010_1000;
/// The epoch bits of the first byte.
const EPOCH_BITS: u8 = 0b11;
/// The content type of chunks: application_data.
const APPLICATION_DATA: u8 = 23;
/// The maximum length of the chunks in a record (RFC 8446 §5.1).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.1
//# Endpoints implementing DTLS chunk MUST support DTLS records containing up to
//# 2<sup>14</sup> (16384) bytes of plain text.
pub(crate) const CONTENT_MAX: usize = 1 << 14;
/// The maximum length of an encrypted record (RFC 8446 §5.2).
const SEALED_MAX: usize = CONTENT_MAX + 256;

/// Bytes between the common header and the chunks.
pub(crate) const HEAD_LEN: usize = Dtls::HEADER_LEN + UNIFIED_LEN;
/// Bytes after the chunks: content type, tag, and padding, whose length is constant since all chunks are
/// padded.
pub(crate) const TRAILER_LEN: usize = 1 + TAG_LEN + 3;
/// The bytes of that padding which the last chunk can have if its own padding is left out.
pub(crate) const UNPADDED_LEN: usize = 3;
/// The overhead of protection per packet in bytes.
pub(crate) const PACKET_OVERHEAD: usize = HEAD_LEN + TRAILER_LEN;

/// Why a record is discarded.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.2
//# An endpoint MUST discard a record which cannot be processed at
//# the record layer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum OpenError {
    /// Not a record of the supported form.
    NotARecord,
    /// There are no keys of its epoch.
    NoKeys,
    /// Authentication failed.
    Forged,
    /// Replayed, or too old for the replay window.
    Replayed,
    /// Authentic, without chunks.
    NoContent,
}

/// The parts of a record that are readable without keys.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Sealed<'a> {
    /// The two low bits of the epoch.
    pub(crate) epoch_bits: u8,
    masked: [u8; 2],
    /// The ciphertext with its tag.
    body: &'a [u8],
}

impl<'a> Sealed<'a> {
    /// Parses a record.
    #[inline]
    pub(crate) fn parse(record: &'a [u8]) -> Result<Self, OpenError> {
        let (header, body) = record.split_first_chunk::<UNIFIED_LEN>().ok_or(OpenError::NotARecord)?;
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.1
        //# If the first byte is any other value, then receivers MUST check to see if the leading
        //# bits of the first byte are 001.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.1
        //# If so, the implementation MUST process the record as DTLSCiphertext; the true content
        //# type will be inside the protected portion.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.1
        //# Otherwise, the record MUST be rejected as if it had failed deprotection, as described
        //# in {{handling-invalid-records}}.
        if header[0] & !EPOCH_BITS != FIXED_BITS {
            return Err(OpenError::NotARecord);
        }
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.2.3
        //# Receivers
        //# MUST reject shorter records as if they had failed deprotection, as described in
        //# {{handling-invalid-records}}.
        if !(TAG_LEN..=SEALED_MAX).contains(&body.len()) {
            return Err(OpenError::NotARecord);
        }
        Ok(Self { epoch_bits: header[0] & EPOCH_BITS, masked: [header[1], header[2]], body })
    }

    /// Returns the low bits of the record number.
    pub(super) fn number_bits(&self, keys: &Keys) -> u16 {
        u16::from_be_bytes(masked(self.masked, keys, self.body))
    }

    /// Appends the chunks to `out`, if the record has this number.
    pub(super) fn open(&self, keys: &Keys, number: u64, out: &mut BytesMut) -> Result<(), OpenError> {
        let start = out.len();
        out.resize(start + self.body.len() - TAG_LEN, 0);
        let header = header(self.epoch_bits, number);
        let opened = keys.key.open(&nonce(keys, number), &header, self.body, &mut out[start..]);
        let content = match opened {
            Ok(()) => content(&out[start..]).ok_or(OpenError::NoContent),
            Err(Forged) => Err(OpenError::Forged),
        };
        out.truncate(start + content.unwrap_or(0));
        content.map(|_| ())
    }
}

//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
//# This MUST contain exactly one DTLSCiphertext as specified in DTLS 1.3 {{RFC9147}}.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4
//# Omitting the length field MUST only be used for the last record in a datagram.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.3
//# The first byte of the datagram payload MUST be the beginning of a record.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4.3
//# Records MUST NOT span datagrams.
/// Seals the chunks after the blank header at `at` in `buffer` into a DTLS chunk with padding.
pub(super) fn seal(keys: &Keys, epoch: u64, number: u64, flags: u8, buffer: &mut BytesMut, at: usize) {
    let epoch_bits = epoch as u8 & EPOCH_BITS;
    let header = header(epoch_bits, number);
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
    //# The sender MUST pad with one zero byte and the receiver MUST ignore the
    //# padding bytes.
    // The header is blank: this byte stays unchanged.
    buffer[at + Dtls::HEADER_LEN..at + HEAD_LEN].copy_from_slice(&header);
    buffer.put_u8(APPLICATION_DATA);
    let body = at + HEAD_LEN;
    let tag = keys.key.seal(&nonce(keys, number), &header, &mut buffer[body..]);
    buffer.put_slice(&tag);
    let number_at = body - 2;
    let in_clear = [buffer[number_at], buffer[number_at + 1]];
    let hidden = masked(in_clear, keys, &buffer[body..]);
    buffer[number_at..body].copy_from_slice(&hidden);
    let len = u16::try_from(buffer.len() - at).expect("a record fits a chunk").to_be_bytes();
    buffer[at..at + 4].copy_from_slice(&[Dtls::KIND, flags, len[0], len[1]]);
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
    //# If the length of the Payload is not a multiple of 4 bytes, the sender
    //# MUST pad the chunk with all zero bytes to make the chunk 32-bit
    //# aligned.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.2
    //# The Padding MUST NOT be longer than 3 bytes and it MUST
    //# be ignored by the receiver.
    buffer.put_bytes(0, (buffer.len() - at).wrapping_neg() & 3);
}

/// Masks or unmasks a record number with the first bytes of the ciphertext.
fn masked(number: [u8; 2], keys: &Keys, body: &[u8]) -> [u8; 2] {
    let sample = body.first_chunk().expect("no ciphertext is shorter than its tag");
    let mask = keys.key.mask(sample);
    [number[0] ^ mask[0], number[1] ^ mask[1]]
}

/// The unmasked header, which the AEAD authenticates.
//= specs/draft-ietf-tls-rfc9147bis.md#section-4
//# The entire header value shown in {{hdr_examples}} (but prior to record number
//# encryption; see {{rne}}) is used as the additional data value for the
//# AEAD
//# function.
fn header(epoch_bits: u8, number: u64) -> [u8; UNIFIED_LEN] {
    let [high, low] = (number as u16).to_be_bytes();
    [FIXED_BITS | epoch_bits, high, low]
}

/// The nonce of a record (RFC 8446 §5.3), which does not depend on the epoch.
fn nonce(keys: &Keys, number: u64) -> [u8; NONCE_LEN] {
    // In the two words by which it is copied: a load that spans several smaller stores waits until all are in the cache, some 30 ns
    // a record.
    let (high, low) = (keys.iv.first_chunk(), keys.iv.last_chunk());
    let (high, low) = high.zip(low).expect("an IV has twelve bytes");
    let mut nonce = [0; NONCE_LEN];
    nonce[..8].copy_from_slice(&(u64::from_be_bytes(*high) ^ number >> 32).to_be_bytes());
    nonce[8..].copy_from_slice(&(u32::from_be_bytes(*low) ^ number as u32).to_be_bytes());
    nonce
}

/// Returns the length of the chunks, without content type and padding; `None` if the content type is
/// another one.
fn content(inner: &[u8]) -> Option<usize> {
    let len = inner.iter().rposition(|byte| *byte != 0)?;
    (inner[len] == APPLICATION_DATA && len <= CONTENT_MAX).then_some(len)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_nonce_is_the_iv_xor_the_padded_record_number() {
        let iv = [0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 250, 251];
        let keys = Keys { iv, ..crate::dtls::tests::keys(1) };
        for number in [0, 1, 0x0102_0304_0506_0708, 0xffff_ffff, 0x1_0000_0000, u64::MAX] {
            let padded = u128::from(number).to_be_bytes();
            let expected: [u8; NONCE_LEN] = std::array::from_fn(|at| iv[at] ^ padded[at + 4]);
            assert_eq!(nonce(&keys, number), expected, "{number:#x}");
        }
    }
}
