//! The AUTH chunk (RFC 4895 §5.1), whose HMAC authenticates all chunks that follow it in its packet (§6.2,
//! §6.3). `association` selects the key and the chunks to authenticate.

use std::fmt;

use bytes::{BufMut, Bytes, BytesMut};
use hmac::{Hmac, KeyInit, Mac};
use sha1::Sha1;
use sha2::Sha256;

use super::{WireError, u16_at};

/// The hash function of an HMAC (RFC 4895 §3.3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum HmacId {
    /// 1: mandatory for authentication.
    Sha1,
    /// 3
    Sha256,
}

impl HmacId {
    /// All hash functions, in order of preference.
    pub const ALL: &[Self] = &[Self::Sha256, Self::Sha1];

    /// The HMAC identifier.
    pub const fn code(self) -> u16 {
        match self {
            Self::Sha1 => 1,
            Self::Sha256 => 3,
        }
    }

    /// The hash function of an HMAC identifier, if it is supported.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.iter().copied().find(|id| id.code() == code)
    }

    /// The length of its HMAC in bytes: a multiple of 4.
    pub const fn code_len(self) -> usize {
        match self {
            Self::Sha1 => 20,
            Self::Sha256 => 32,
        }
    }
}

/// The key vectors of the two sides (RFC 4895 §6.1); empty for a side that does not authenticate.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct KeyVectors {
    /// RANDOM, CHUNKS and HMAC-ALGO of this side, without padding.
    pub local: Bytes,
    /// RANDOM, CHUNKS and HMAC-ALGO of the peer, without padding.
    pub peer: Bytes,
}

/// An AUTH chunk (RFC 4895 §5.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Auth {
    /// The identifier of the endpoint pair shared key.
    pub key_id: u16,
    /// The HMAC identifier (§3.3), as received.
    pub hmac_id: u16,
    /// The HMAC.
    pub hmac: Bytes,
}

impl Auth {
    /// The length of the chunk without the HMAC.
    pub const HEADER_LEN: usize = 8;

    /// The chunk type.
    pub const KIND: u8 = 15;

    /// The length of the longest AUTH chunk that this stack sends.
    pub(crate) const MAX_LEN: usize = Self::HEADER_LEN + HmacId::Sha256.code_len();

    /// The length of the chunk without padding.
    pub fn encoded_len(&self) -> usize {
        Self::HEADER_LEN + self.hmac.len()
    }

    pub(super) fn decode(datagram: &Bytes, raw: &[u8]) -> Result<Self, WireError> {
        if raw.len() < Self::HEADER_LEN {
            return Err(WireError::ChunkLength { kind: Self::KIND, len: raw.len() });
        }
        Ok(Self {
            key_id: u16_at(raw, 4),
            hmac_id: u16_at(raw, 6),
            hmac: datagram.slice_ref(&raw[Self::HEADER_LEN..]),
        })
    }

    pub(super) fn encode_body(&self, out: &mut BytesMut) {
        out.put_u16(self.key_id);
        out.put_u16(self.hmac_id);
        out.put_slice(&self.hmac);
    }
}

/// An association shared key, ready to compute and verify HMACs.
#[derive(Clone)]
pub(crate) struct Signer {
    key_id: u16,
    keyed: Keyed,
}

#[derive(Clone)]
enum Keyed {
    Sha1(Hmac<Sha1>),
    Sha256(Hmac<Sha256>),
}

impl fmt::Debug for Signer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Signer({}, {:?}, ..)", self.key_id, self.hmac_id())
    }
}

impl Signer {
    /// The association shared key derived from the endpoint pair shared key `key_id`.
    pub(crate) fn new(key_id: u16, hmac_id: HmacId, association_shared_key: &[u8]) -> Self {
        let any_length = "HMAC takes a key of any length";
        let keyed = match hmac_id {
            HmacId::Sha1 => Keyed::Sha1(Hmac::new_from_slice(association_shared_key).expect(any_length)),
            HmacId::Sha256 => Keyed::Sha256(Hmac::new_from_slice(association_shared_key).expect(any_length)),
        };
        Self { key_id, keyed }
    }

    fn hmac_id(&self) -> HmacId {
        match self.keyed {
            Keyed::Sha1(_) => HmacId::Sha1,
            Keyed::Sha256(_) => HmacId::Sha256,
        }
    }

    /// The length of the AUTH chunk, which needs no padding.
    pub(crate) fn chunk_len(&self) -> usize {
        Auth::HEADER_LEN + self.hmac_id().code_len()
    }

    //= specs/rfc4895.txt#section-5.1
    //# Type: 1 byte (unsigned integer)
    //# This value MUST be set to 0x0F for all AUTH-chunks.
    //= specs/rfc4895.txt#section-5.1
    //# Flags: 1 byte (unsigned integer)
    //# SHOULD be set to zero on transmit and MUST be ignored on receipt.
    /// Appends the AUTH chunk with zeros in place of the HMAC.
    pub(crate) fn put_blank(&self, out: &mut BytesMut) {
        out.put_u8(Auth::KIND);
        out.put_u8(0);
        out.put_u16(self.chunk_len() as u16);
        out.put_u16(self.key_id);
        out.put_u16(self.hmac_id().code());
        out.put_bytes(0, self.hmac_id().code_len());
    }

    /// Writes the HMAC into the AUTH chunk at the start of `from_auth`, after all following chunks are
    /// complete.
    pub(crate) fn sign(&self, from_auth: &mut [u8]) {
        //= specs/rfc4895.txt#section-6.2
        //# The
        //# 'data' used for the computation of the AUTH-chunk is given by the
        //# AUTH chunk with its HMAC field set to zero (as shown in Figure 6)
        //# followed by all the chunks that are placed after the AUTH chunk in
        //# the SCTP packet.
        //= specs/rfc4895.txt#section-6.2
        //# The sender MUST calculate the Message Authentication Code (MAC) (as
        //# described in RFC 2104 [2]) using the hash function H as described by
        //# the HMAC Identifier and the shared association key K based on the
        //# endpoint pair shared key described by the Shared Key Identifier.
        //= specs/rfc4895.txt#section-6.2
        //# The padding of all chunks being
        //# authenticated MUST be included in the HMAC computation.
        let code = &mut [0; HmacId::Sha256.code_len()][..self.hmac_id().code_len()];
        match &self.keyed {
            Keyed::Sha1(mac) => {
                code.copy_from_slice(&mac.clone().chain_update(&from_auth).finalize().into_bytes());
            }
            Keyed::Sha256(mac) => {
                code.copy_from_slice(&mac.clone().chain_update(&from_auth).finalize().into_bytes());
            }
        }
        from_auth[Auth::HEADER_LEN..self.chunk_len()].copy_from_slice(code);
    }

    /// Whether the HMAC of the AUTH chunk at the start of `from_auth` is valid for the chunk and all that
    /// follow. Takes constant time.
    pub(crate) fn verifies(&self, from_auth: &[u8]) -> bool {
        fn is_of<M: Mac + Clone>(mac: &M, header: &[u8], code: &[u8], behind: &[u8]) -> bool {
            let zeros = &[0; HmacId::Sha256.code_len()][..code.len()];
            mac.clone()
                .chain_update(header)
                .chain_update(zeros)
                .chain_update(behind)
                .verify_slice(code)
                .is_ok()
        }
        // The chunk's length was validated against the packet, but not against the hash function.
        let len = self.chunk_len();
        if from_auth.len() < len || usize::from(u16_at(from_auth, 2)) != len {
            return false;
        }
        let (header, rest) = from_auth.split_at(Auth::HEADER_LEN);
        let (code, behind) = rest.split_at(self.hmac_id().code_len());
        match &self.keyed {
            Keyed::Sha1(mac) => is_of(mac, header, code, behind),
            Keyed::Sha256(mac) => is_of(mac, header, code, behind),
        }
    }
}

/// A set of chunk types.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct ChunkTypes([u64; 4]);

impl ChunkTypes {
    pub(crate) fn insert(&mut self, kind: u8) {
        self.0[usize::from(kind / 64)] |= 1 << (kind % 64);
    }

    pub(crate) const fn contains(&self, kind: u8) -> bool {
        self.0[(kind / 64) as usize] & (1 << (kind % 64)) != 0
    }

    pub(crate) fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = u8> {
        (0..=u8::MAX).filter(|kind| self.contains(*kind))
    }
}

impl FromIterator<u8> for ChunkTypes {
    fn from_iter<I: IntoIterator<Item = u8>>(kinds: I) -> Self {
        let mut types = Self::default();
        kinds.into_iter().for_each(|kind| types.insert(kind));
        types
    }
}

impl fmt::Debug for ChunkTypes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.iter()).finish()
    }
}

/// Which chunks are sent after an AUTH chunk, and the key of its HMAC.
#[derive(Debug, Clone)]
pub(crate) struct Authentic {
    pub(crate) signer: Signer,
    pub(crate) chunks: ChunkTypes,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn signed(signer: &Signer, behind: &[u8]) -> BytesMut {
        let mut bytes = BytesMut::new();
        signer.put_blank(&mut bytes);
        bytes.extend_from_slice(behind);
        signer.sign(&mut bytes);
        bytes
    }

    //= specs/rfc4895.txt#section-6.2
    //= type=test
    //# The
    //# 'data' used for the computation of the AUTH-chunk is given by the
    //# AUTH chunk with its HMAC field set to zero (as shown in Figure 6)
    //# followed by all the chunks that are placed after the AUTH chunk in
    //# the SCTP packet.
    //= specs/rfc4895.txt#section-5.1
    //= type=test
    //# Type: 1 byte (unsigned integer) This value MUST be set to 0x0F for
    //# all AUTH-chunks.
    //= specs/rfc4895.txt#section-6.2
    //= type=test
    //# The sender MUST calculate the Message Authentication Code (MAC) (as
    //# described in RFC 2104 [2]) using the hash function H as described by
    //# the HMAC Identifier and the shared association key K based on the
    //# endpoint pair shared key described by the Shared Key Identifier.
    #[test]
    fn the_hmac_of_rfc_2104_covers_the_chunk_with_zeros_in_its_place() {
        // Made with another implementation: `printf '\x0f\x00\x00\x1c\x00\x00\x00\x01<20 zeros>data' |
        // openssl dgst
        // -sha1 -hmac key`, and likewise for SHA-256.
        let expected = [
            (HmacId::Sha1, "2d1f551552a7f79bee54ba0b53435eb73be089d7"),
            (HmacId::Sha256, "4ef10d5dcedb136ba94e3977f1769f7126f80a0160c6292d877849a19c6ccfd5"),
        ];
        for (hmac_id, code) in expected {
            let bytes = signed(&Signer::new(0, hmac_id, b"key"), b"data");
            let found: String =
                bytes[8..8 + hmac_id.code_len()].iter().map(|byte| format!("{byte:02x}")).collect();
            assert_eq!(found, code);
        }
    }

    //= specs/rfc4895.txt#section-6.3
    //= type=test
    //# If the field does not match the result of the
    //# calculation, all the chunks following the AUTH chunk MUST be silently
    //# discarded.
    //= specs/rfc4895.txt#section-6.2
    //= type=test
    //# The padding of all chunks being authenticated MUST be included in
    //# the HMAC computation.
    #[test]
    fn an_hmac_with_any_bit_changed_is_invalid() {
        for &hmac_id in HmacId::ALL {
            let signer = Signer::new(7, hmac_id, b"key");
            let bytes = signed(&signer, &[3; 24]);
            assert!(signer.verifies(&bytes));
            assert!(!Signer::new(7, hmac_id, b"another").verifies(&bytes));
            for bit in 0..bytes.len() * 8 {
                let mut forged = bytes.to_vec();
                forged[bit / 8] ^= 1 << (bit % 8);
                assert!(!signer.verifies(&forged), "{hmac_id:?}, bit {bit}");
            }
            for len in 0..bytes.len() {
                assert!(!signer.verifies(&bytes[..len]), "{hmac_id:?}, {len} bytes");
            }
        }
    }

    //= specs/rfc4895.txt#section-5.1
    //= type=test
    //# Flags: 1 byte (unsigned integer) SHOULD be set to zero on transmit
    //# and MUST be ignored on receipt.
    #[test]
    fn the_flags_of_an_auth_chunk_are_ignored() {
        let signer = Signer::new(0, HmacId::Sha1, b"key");
        assert_eq!(signed(&signer, b"data")[..2], [0x0f, 0]);
        let mut bytes = BytesMut::new();
        signer.put_blank(&mut bytes);
        bytes[1] = 0xff;
        bytes.extend_from_slice(b"data");
        signer.sign(&mut bytes);
        assert!(signer.verifies(&bytes));
    }

    #[test]
    fn an_hmac_of_wrong_length_is_invalid() {
        let long = signed(&Signer::new(0, HmacId::Sha256, b"key"), b"data");
        assert!(!Signer::new(0, HmacId::Sha1, b"key").verifies(&long));
    }

    #[test]
    fn a_set_of_chunk_types_contains_its_members() {
        let types: ChunkTypes = [0, 63, 64, 0x80, 0xc1, 255].into_iter().collect();
        assert_eq!(types.iter().collect::<Vec<_>>(), [0, 63, 64, 0x80, 0xc1, 255]);
        assert!(ChunkTypes::default().is_empty() && !types.is_empty());
    }
}
