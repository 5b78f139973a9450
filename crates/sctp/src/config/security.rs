//! Settings of authentication and protection.

use std::fmt;
use std::num::NonZeroU16;

use bytes::Bytes;

use crate::dtls::DtlsConfig;
use crate::wire::HmacId;

/// Authentication and protection against peers and attackers (RFC 4895, RFC 9653, draft-ietf-tsvwg-sctp-dtls-chunk).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `skip_tsn_every` | none | none | 4096 | none |
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Security {
    /// Which chunks of the peer must be authenticated by an AUTH chunk, and the keys (RFC 4895). Lengthens
    /// INIT; some stacks do not answer an INIT with parameters. `None`, the default: no authentication.
    pub auth: Option<AuthConfig>,
    /// Whether packets are protected with keys that the user agrees on with its peer
    /// (draft-ietf-tsvwg-sctp-dtls-chunk). Excludes [`Security::auth`], which is then not offered. Lengthens
    /// INIT. Default `None`.
    pub dtls: Option<DtlsConfig>,
    /// The error detection of the lower layer that makes the checksum unnecessary: packets without a
    /// checksum are accepted, and sent to a peer that accepts them (RFC 9653). Plain UDP and IP have none,
    /// so that corrupt packets would not be detected. Default `None`.
    pub zero_checksum: Option<ErrorDetection>,
    /// With `multipath` and several paths: how many chunks, but at least 128 windows, are sent per skipped
    /// TSN, which is sent only after a SACK has acknowledged a later one. A peer that acknowledges it
    /// earlier acknowledges data that it cannot have, in order to hide losses or to receive more, and the
    /// association is aborted (skipped segments: Sherwood, Bhattacharjee, Braud: "Misbehaving TCP Receivers
    /// Can Cause Internet-Wide Congestion Collapse", CCS 2005). To an honest peer it looks like one lost
    /// packet, without effect on the window. `None`, the default: never; `modern` has 4,096.
    pub skip_tsn_every: Option<NonZeroU16>,
}

/// A method by which the layer below SCTP detects errors (RFC 9653 §3).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ErrorDetection {
    /// SCTP over DTLS (RFC 8261): every packet is authenticated.
    Dtls,
}

impl ErrorDetection {
    /// The Error Detection Method Identifier.
    pub fn edmid(self) -> u32 {
        match self {
            Self::Dtls => 1,
        }
    }
}

/// Authentication of chunks (RFC 4895, RFC 6458 §8.3).
///
/// The default authenticates with the null key, which excludes attackers who did not see the handshake.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct AuthConfig {
    /// The chunk types that the peer must authenticate; unauthenticated ones are discarded, even if the
    /// peer does not support authentication. INIT, INIT ACK, SHUTDOWN COMPLETE and AUTH are ignored here,
    /// since they cannot be authenticated. DATA stands for I-DATA as well, if messages are interleaved. Default none.
    pub chunks: Vec<u8>,
    /// The hash functions that the peer may use, in order of preference. SHA-1 is appended if missing (RFC
    /// 4895 §6.1). Default SHA-256, SHA-1.
    pub hmacs: Vec<HmacId>,
    /// The endpoint pair shared keys. Empty: the null key, 0; otherwise the null key is not accepted (RFC
    /// 4895 §9). At most [`AuthConfig::MAX_KEYS`] are used.
    pub keys: Vec<SharedKey>,
    /// The key used for sending, once both sides are known to authenticate. Default 0.
    pub active_key: u16,
}

impl AuthConfig {
    /// The maximum number of keys of an association.
    pub const MAX_KEYS: usize = 16;

    /// The maximum length of a key in bytes.
    pub const MAX_KEY_BYTES: usize = 1_024;
}

impl Default for AuthConfig {
    fn default() -> Self {
        Self { chunks: Vec::new(), hmacs: HmacId::ALL.to_vec(), keys: Vec::new(), active_key: 0 }
    }
}

/// An endpoint pair shared key (RFC 4895 §6.1).
#[derive(Clone, PartialEq, Eq)]
pub struct SharedKey {
    /// Its shared key identifier.
    pub id: u16,
    /// The key; bytes beyond [`AuthConfig::MAX_KEY_BYTES`] are ignored.
    pub secret: Bytes,
}

impl fmt::Debug for SharedKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SharedKey({}, ..)", self.id)
    }
}
