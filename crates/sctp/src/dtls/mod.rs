//! Protected packets (draft-ietf-tsvwg-sctp-dtls-chunk): DTLS 1.3 records that each contain all chunks of a
//! packet, and their negotiation.
//!
//! - `record`: opening and sealing a record; `replay`: replay protection
//! - `context`: keys of one epoch and direction, with usage counters; `sending`: the keys for sending
//! - `agreement`: negotiation in INIT and INIT ACK
//!
//! This module contains no cryptography: the user provides a [`RecordKey`]. There is no key exchange
//! either: the user agrees on keys with its peer, and sets them. `association::dtls` applies all this to an
//! association.

mod agreement;
mod context;
mod record;
mod replay;
mod sending;
#[cfg(test)]
pub(crate) mod tests;

use std::fmt;

pub use self::agreement::{Agreement, Disagreement, DtlsConfig, Mode, Role, Roles};
pub(crate) use self::agreement::{agree, key_management, offer};
pub use self::context::{Keys, KeysId, Purpose};
pub(crate) use self::context::{ReceiveContext, SendContext};
pub(crate) use self::record::{
    CONTENT_MAX, HEAD_LEN, OpenError, PACKET_OVERHEAD, Sealed, TRAILER_LEN, UNPADDED_LEN,
};
pub(crate) use self::sending::Sending;

/// The payload protocol identifier of key management messages (draft-ietf-tsvwg-sctp-dtls-chunk §9.5).
pub const KEY_MANAGEMENT_PPID: u32 = 4_242;

/// The epoch of the first keys (draft-ietf-tsvwg-sctp-dtls-chunk §3.1).
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.1
//# The first DTLS key context established for any SCTP association MUST
//# use epoch 3.
pub const FIRST_EPOCH: u64 = 3;

/// Bytes of an AEAD's nonce.
pub const NONCE_LEN: usize = 12;
/// Bytes of an AEAD's tag.
pub const TAG_LEN: usize = 16;

/// The cipher suites of TLS 1.3 that DTLS supports.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum CipherSuite {
    /// TLS_AES_128_GCM_SHA256
    Aes128Gcm,
    /// TLS_AES_256_GCM_SHA384
    Aes256Gcm,
    /// TLS_CHACHA20_POLY1305_SHA256
    ChaCha20Poly1305,
}

impl CipherSuite {
    /// All suites, in order of preference on processors with AES instructions.
    pub const ALL: [Self; 3] = [Self::Aes128Gcm, Self::Aes256Gcm, Self::ChaCha20Poly1305];

    /// The TLS number of the suite.
    pub const fn code(self) -> u16 {
        match self {
            Self::Aes128Gcm => 0x1301,
            Self::Aes256Gcm => 0x1302,
            Self::ChaCha20Poly1305 => 0x1303,
        }
    }

    /// Returns the suite with this TLS number.
    pub fn from_code(code: u16) -> Option<Self> {
        Self::ALL.into_iter().find(|suite| suite.code() == code)
    }

    /// The maximum number of records per key: 2^24.5 with AES-GCM; with ChaCha20, less than the range of
    /// record numbers (RFC 8446 §5.5).
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
    //# Implementations SHOULD NOT protect more
    //# records than allowed by the limit specified for the negotiated AEAD.
    pub const fn records_max(self) -> u64 {
        match self {
            Self::Aes128Gcm | Self::Aes256Gcm => 23_726_566,
            Self::ChaCha20Poly1305 => 1 << 48,
        }
    }

    /// The maximum number of failed authentications per key.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
    //# For AEAD_AES_128_GCM, AEAD_AES_256_GCM, and AEAD_CHACHA20_POLY1305, the limit
    //# on the number of records that fail authentication is 2^36.
    pub const fn forgeries_max(self) -> u64 {
        1 << 36
    }
}

/// A record failed authentication: forged, damaged, or sealed with other keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Forged;

impl fmt::Display for Forged {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a record is not authentic")
    }
}

impl std::error::Error for Forged {}

/// The AEAD key and the record number key of one direction and epoch. Implementations keep both secret
/// and erase them on drop.
pub trait RecordKey: fmt::Debug + Send + Sync {
    /// Encrypts `bytes` in place; returns the tag that authenticates them and `associated`.
    fn seal(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_LEN];

    /// Decrypts `sealed`, which ends with its tag, into `plain`, which is shorter by the tag. If
    /// authentication fails, the contents of `plain` are unspecified.
    fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        associated: &[u8],
        sealed: &[u8],
        plain: &mut [u8],
    ) -> Result<(), Forged>;

    /// Returns the first bytes of the record number mask for the first bytes of the ciphertext (RFC 9147
    /// §4.2.3).
    fn mask(&self, sample: &[u8; 16]) -> [u8; 2];
}
