//! Authenticated chunks (RFC 4895): the keys of an association, which chunks must be authenticated, and
//! verification.
//!
//! The authentication parameters of INIT and INIT ACK are stored as the two key vectors of §6.1, which is
//! also all that a cookie must contain. `wire` computes the HMAC, and `PacketBuilder` inserts it.

use std::cmp::Ordering;
use std::collections::BTreeMap;
use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::association::state::State;
use crate::association::{Association, Event};
use crate::config::{AuthConfig, Config, SharedKey};
use crate::wire::{
    Asconf, AsconfAck, Auth, Authentic, Cause, Chunk, ChunkTypes, Data, HmacId, Init, KeyVectors, Parameter,
    Signer,
};

/// The length in bytes of the random number in a RANDOM parameter.
pub(crate) const RANDOM_LEN: usize = 32;
/// The maximum length of a list of HMAC identifiers; two are assigned (RFC 4895 §8.4).
const HMACS_MAX: usize = 16;
/// The maximum length of a CHUNKS parameter with its header (RFC 4895 §3.2).
const CHUNK_LIST_MAX: usize = 260;
/// Bytes of a parameter's header in a key vector.
const HEADER_LEN: usize = 4;

/// The chunk types that cannot be in a list (RFC 4895 §3.2).
//= specs/rfc4895.txt#section-3.2
//# The chunk types for INIT, INIT-ACK, SHUTDOWN-COMPLETE, and AUTH
//# chunks MUST NOT be listed in the CHUNKS parameter.  However, if a
//# CHUNKS parameter is received then the types for INIT, INIT-ACK,
//# SHUTDOWN-COMPLETE, and AUTH chunks MUST be ignored.
const NEVER_LISTED: [u8; 4] = [Init::KIND, Init::ACK_KIND, Chunk::SHUTDOWN_COMPLETE, Auth::KIND];

/// The chunk types that must be authenticated whatever the peer lists (RFC 5061 §4.1).
const ASCONF: [u8; 2] = [Asconf::KIND, AsconfAck::KIND];

/// Authentication events (RFC 6458 §6.1.8).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AuthEvent {
    /// The peer started to use this key.
    NewKey(u16),
    /// This side no longer uses this key; it may be deleted once the peer does not use it either.
    FreeKey(u16),
    /// The peer does not support authentication: chunks of types that must be authenticated are
    /// discarded.
    NoAuth,
}

/// Why a key was not set, activated, deactivated or deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum KeyError {
    /// Authentication is not configured.
    NotEnabled,
    /// The key does not exist, or was deactivated.
    NoSuchKey,
    /// The key is the active one: activate another key first.
    Active,
    /// There are already [`AuthConfig::MAX_KEYS`] keys.
    TooMany,
    /// The key is longer than [`AuthConfig::MAX_KEY_BYTES`].
    TooLong,
}

impl fmt::Display for KeyError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotEnabled => {
                "the association was configured without authentication; set Config.security.auth"
            }
            Self::NoSuchKey => "there is no key of this number that can be used; set it first",
            Self::Active => "this key is the one that is sent with; activate another first",
            Self::TooMany => "the association holds as many keys as it can; delete one first",
            Self::TooLong => "the key is too long; use a hash of it",
        })
    }
}

impl std::error::Error for KeyError {}

/// The peer's RANDOM parameter does not have 32 bytes, or another parameter is too long.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct BadParameters;

/// Returns the authentication parameters of this side's INIT or INIT ACK; none if authentication is off.
pub(crate) fn parameters(config: &Config, random: &[u8; RANDOM_LEN]) -> Vec<Parameter> {
    let Some(auth) = &config.security.auth else { return Vec::new() };
    //= specs/rfc4895.txt#section-6.1
    //# An SCTP endpoint willing to receive or send authenticated chunks MUST
    //# send one RANDOM parameter in its INIT or INIT-ACK chunk.  The RANDOM
    //# parameter MUST contain a 32-byte Random Number.
    let random = Parameter::Random(Bytes::copy_from_slice(random));
    //= specs/rfc4895.txt#section-6.1
    //# Each SCTP endpoint MUST include in the INIT and INIT-ACK a HMAC-ALGO
    //# parameter containing a list of HMAC Identifiers it requests the peer
    //# to use.
    //= specs/rfc4895.txt#section-3.3
    //# The HMAC-ALGO parameter MUST be included once in the INIT or INIT-ACK
    //# chunk if the sender wants to send or receive authenticated chunks.
    let mut hmacs: Vec<u16> = Vec::new();
    //= specs/rfc4895.txt#section-6.1
    //# The HMAC algorithm based on SHA-1 MUST
    //# be supported and included in the HMAC-ALGO parameter.
    //= specs/rfc4895.txt#section-3.3
    //# Every endpoint supporting SCTP chunk authentication MUST support the
    //# HMAC based on the SHA-1 algorithm.
    for hmac in auth.hmacs.iter().chain(&[HmacId::Sha1]) {
        if !hmacs.contains(&hmac.code()) {
            hmacs.push(hmac.code());
        }
    }
    let mut parameters = vec![random, Parameter::HmacAlgo(hmacs)];
    //= specs/rfc4895.txt#section-3.2
    //# The CHUNKS parameter MUST be included once in the INIT or INIT-ACK
    //# chunk if the sender wants to receive authenticated chunks.
    let chunks = required(config);
    if !chunks.is_empty() {
        parameters.push(Parameter::ChunkList(chunks.iter().collect()));
    }
    parameters
}

/// The chunk types that this side only accepts authenticated.
pub(crate) fn required(config: &Config) -> ChunkTypes {
    let Some(auth) = &config.security.auth else { return ChunkTypes::default() };
    //= specs/rfc5061.txt#section-4.1.1
    //# This
    //# chunk MUST be sent in an authenticated way by using the mechanism
    //# defined in [RFC4895].  If this chunk is received unauthenticated it
    //# MUST be silently discarded as described in [RFC4895].
    //= specs/rfc5061.txt#section-4.1.2
    //# If this chunk is received unauthenticated it MUST be silently
    //# discarded as described in [RFC4895].
    let asconf = if config.paths.asconf { &ASCONF[..] } else { &[] };
    let listed: ChunkTypes =
        auth.chunks.iter().chain(asconf).copied().filter(|kind| !NEVER_LISTED.contains(kind)).collect();
    if config.messages.interleaving { with_both_kinds_of_data(listed) } else { listed }
}

/// Adds I-DATA to a list that has DATA: the list was made for user messages, which I-DATA carries after interleaving was
/// negotiated. usrsctp expects this of a peer without listing I-DATA itself.
fn with_both_kinds_of_data(mut chunks: ChunkTypes) -> ChunkTypes {
    if chunks.contains(Data::KIND) {
        chunks.insert(Data::INTERLEAVED_KIND);
    }
    chunks
}

/// Returns the key vector of these parameters, if their sender supports authentication.
pub(crate) fn key_vector(parameters: &[Parameter]) -> Result<Option<Bytes>, BadParameters> {
    let of_kind = |kind: u16| parameters.iter().find(move |parameter| parameter.kind() == kind);
    let (random, chunks, hmacs) = (
        of_kind(Parameter::RANDOM),
        of_kind(Parameter::CHUNK_LIST),
        of_kind(Parameter::HMAC_ALGO).filter(|parameter| matches!(parameter, Parameter::HmacAlgo(_))),
    );
    //= specs/rfc4895.txt#section-6.1
    //# If the Random
    //# Number is not 32 bytes, the association MUST be aborted.
    if random.is_some_and(|random| random.encoded_len() != HEADER_LEN + RANDOM_LEN)
        || chunks.is_some_and(|chunks| chunks.encoded_len() > CHUNK_LIST_MAX)
        || hmacs.is_some_and(|hmacs| hmacs.encoded_len() > HEADER_LEN + 2 * HMACS_MAX)
    {
        return Err(BadParameters);
    }
    let (Some(random), Some(hmacs)) = (random, hmacs) else { return Ok(None) };
    //= specs/rfc4895.txt#section-6.1
    //# The RANDOM parameter, the CHUNKS parameter, and the HMAC-ALGO
    //# parameter sent by each endpoint are concatenated as byte vectors.
    //# These parameters include the parameter type, parameter length, and
    //# the parameter value, but padding is omitted; all padding MUST be
    //# removed from this concatenation before proceeding with further
    //# computation of keys.  Parameters that were not sent are simply
    //# omitted from the concatenation process.
    let mut vector = BytesMut::new();
    for parameter in [Some(random), chunks, Some(hmacs)].into_iter().flatten() {
        let end = vector.len() + parameter.encoded_len();
        parameter.encode(&mut vector);
        vector.truncate(end);
    }
    Ok(Some(vector.freeze()))
}

/// Iterates over the parameters of a key vector as type and value.
fn values(mut vector: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let (header, rest) = vector.split_first_chunk::<HEADER_LEN>()?;
        let kind = u16::from_be_bytes([header[0], header[1]]);
        let len = usize::from(u16::from_be_bytes([header[2], header[3]])).checked_sub(HEADER_LEN)?;
        let value = rest.get(..len)?;
        vector = &rest[len..];
        Some((kind, value))
    })
}

fn chunk_list(vector: &[u8]) -> ChunkTypes {
    let lists = values(vector).filter(|(kind, _)| *kind == Parameter::CHUNK_LIST);
    lists.flat_map(|(_, value)| value).copied().filter(|kind| !NEVER_LISTED.contains(kind)).collect()
}

fn hmac_list(vector: &[u8]) -> Vec<HmacId> {
    let lists = values(vector).filter(|(kind, _)| *kind == Parameter::HMAC_ALGO);
    let codes = lists.flat_map(|(_, value)| value.chunks_exact(2));
    codes.filter_map(|code| HmacId::from_code(u16::from_be_bytes([code[0], code[1]]))).collect()
}

/// Compares two key vectors as numbers; of equal numbers the shorter vector is less (RFC 4895 §6.1).
fn compare(one: &[u8], other: &[u8]) -> Ordering {
    let number = |vector: &[u8]| {
        let zeros = vector.iter().take_while(|byte| **byte == 0).count();
        vector[zeros..].to_vec()
    };
    let (a, b) = (number(one), number(other));
    a.len().cmp(&b.len()).then_with(|| a.cmp(&b)).then_with(|| one.len().cmp(&other.len()))
}

/// Computes the association shared key from an endpoint pair shared key.
fn association_shared_key(secret: &[u8], vectors: &KeyVectors) -> Vec<u8> {
    //= specs/rfc4895.txt#section-6.1
    //# This is performed by selecting
    //# the numerically smaller key vector and concatenating it to the
    //# endpoint pair shared key, and then concatenating the numerically
    //# larger key vector to that.  If the key vectors are equal as numbers
    //# but differ in length, then the concatenation order is the endpoint
    //# shared key, followed by the shorter key vector, followed by the
    //# longer key vector.
    let (first, second) = match compare(&vectors.local, &vectors.peer) {
        Ordering::Less | Ordering::Equal => (&vectors.local, &vectors.peer),
        Ordering::Greater => (&vectors.peer, &vectors.local),
    };
    [secret, first, second].concat()
}

/// The authentication state of an association.
#[derive(Debug)]
pub(crate) struct Authentication {
    enabled: bool,
    keys: BTreeMap<u16, Key>,
    active: u16,
    /// The chunk types that are accepted from the peer only if authenticated.
    required: ChunkTypes,
    agreed: Option<Agreed>,
    /// The key that the peer last used.
    peer_key: Option<u16>,
    /// Whether the endpoint has already verified the AUTH chunk of the next packet.
    verified: bool,
}

#[derive(Clone)]
struct Key {
    secret: Bytes,
    /// Whether the key is no longer used for sending.
    deactivated: bool,
}

impl fmt::Debug for Key {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Key {{ deactivated: {} }}", self.deactivated)
    }
}

/// The results of the negotiation in INIT and INIT ACK.
#[derive(Debug)]
struct Agreed {
    vectors: KeyVectors,
    /// The HMAC of sent chunks: the first one of the peer's list that this side supports.
    hmac: HmacId,
    /// The HMACs that this side listed.
    hmacs: Vec<HmacId>,
    /// The chunk types that the peer only accepts authenticated.
    chunks: ChunkTypes,
    /// The signers used so far, by key and hash function.
    signers: BTreeMap<(u16, u16), Signer>,
}

/// The result of verifying an AUTH chunk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Verdict {
    /// The chunks after it are authentic.
    Authentic,
    /// The chunks after it must be discarded.
    Forged,
    /// The chunks after it must be discarded, and the peer must be told that this side did not list its
    /// hash function.
    UnsupportedHmac(u16),
}

impl Authentication {
    /// Creates the state from the configuration, before negotiation.
    pub(crate) fn new(config: &Config) -> Self {
        let auth = config.security.auth.as_ref();
        let null = [SharedKey { id: 0, secret: Bytes::new() }];
        let keys = match auth {
            Some(auth) if !auth.keys.is_empty() => &auth.keys[..auth.keys.len().min(AuthConfig::MAX_KEYS)],
            //= specs/rfc4895.txt#section-6.2
            //# If the endpoint has no endpoint pair shared key for the peer, it MUST
            //# use Shared Key Identifier zero with an empty endpoint pair shared
            //# key.
            Some(_) => &null[..],
            None => &[],
        };
        let key = |key: &SharedKey| {
            let secret = key.secret.slice(..key.secret.len().min(AuthConfig::MAX_KEY_BYTES));
            (key.id, Key { secret, deactivated: false })
        };
        let keys: BTreeMap<_, _> = keys.iter().map(key).collect();
        // If the key to send with does not exist, nothing may be sent without a key.
        let wanted = auth.map_or(0, |auth| auth.active_key);
        //= specs/rfc4895.txt#section-6.2
        //# If endpoint pair
        //# shared keys are used, one of them MUST be selected for
        //# authentication.
        let active =
            if keys.contains_key(&wanted) { wanted } else { keys.keys().next().copied().unwrap_or(0) };
        Self {
            enabled: auth.is_some(),
            keys,
            active,
            required: required(config),
            agreed: None,
            peer_key: None,
            verified: false,
        }
    }

    /// Applies the key vectors of INIT and INIT ACK.
    pub(crate) fn agree(&mut self, vectors: Option<&KeyVectors>) {
        self.agreed = None;
        self.peer_key = Some(self.active);
        let Some(vectors) = vectors.filter(|_| self.enabled) else { return };
        //= specs/rfc4895.txt#section-6.1
        //# The receiver of an HMAC-ALGO parameter SHOULD use the first
        //# listed algorithm it supports.
        let Some(&hmac) = hmac_list(&vectors.peer).first() else { return };
        let mut chunks = with_both_kinds_of_data(chunk_list(&vectors.peer));
        //= specs/rfc5061.txt#section-4.1.2
        //# This chunk MUST be sent in an authenticated way by using the
        //# mechanism defined in [RFC4895].
        ASCONF.into_iter().for_each(|kind| chunks.insert(kind));
        self.agreed = Some(Agreed {
            vectors: vectors.clone(),
            hmac,
            hmacs: hmac_list(&vectors.local),
            chunks,
            signers: BTreeMap::new(),
        });
    }

    /// Whether the peer supports authentication as well.
    pub(crate) fn is_agreed(&self) -> bool {
        self.agreed.is_some()
    }

    /// Whether chunks of this type are discarded unless authenticated by an AUTH chunk.
    //= specs/rfc4895.txt#section-6.3
    //# It MUST silently discard these chunks if they
    //# are not placed after an AUTH chunk in the packet.
    pub(crate) fn requires(&self, kind: u8) -> bool {
        self.required.contains(kind)
    }

    /// Returns the keys and chunk types with which packets must be built.
    pub(super) fn authentic(&mut self) -> Option<Authentic> {
        let hmac = self.agreed.as_ref()?.hmac;
        let signer = self.signer(self.active, hmac)?.clone();
        //= specs/rfc4895.txt#section-6.2
        //# Endpoints MUST send all requested chunks that have been authenticated
        //# where this has been requested by the peer.
        Some(Authentic { signer, chunks: self.agreed.as_ref()?.chunks })
    }

    pub(super) fn signer(&mut self, key_id: u16, hmac: HmacId) -> Option<&Signer> {
        let key = self.keys.get(&key_id)?;
        let agreed = self.agreed.as_mut()?;
        let signer = agreed.signers.entry((key_id, hmac.code()));
        Some(signer.or_insert_with(|| {
            Signer::new(key_id, hmac, &association_shared_key(&key.secret, &agreed.vectors))
        }))
    }

    fn forget_signers(&mut self, key_id: u16) {
        if let Some(agreed) = &mut self.agreed {
            agreed.signers.retain(|(id, _), _| *id != key_id);
        }
    }

    /// Verifies an AUTH chunk and everything that follows it; `from_auth` begins with the AUTH chunk.
    pub(crate) fn verify(&mut self, auth: &Auth, from_auth: &[u8]) -> Verdict {
        let Some(agreed) = &self.agreed else { return Verdict::Forged };
        //= specs/rfc4895.txt#section-6.3
        //# If this algorithm was not specified by the
        //# receiver in the HMAC-ALGO parameter in the INIT or INIT-ACK chunk
        //# during association setup, the AUTH chunk and all the chunks after it
        //# MUST be discarded and an ERROR chunk SHOULD be sent with the error
        //# cause defined in Section 4.1.
        //= specs/rfc4895.txt#section-6.3
        //# The receiver MUST use the HMAC algorithm indicated in the HMAC
        //# Identifier field.
        let Some(hmac) = HmacId::from_code(auth.hmac_id).filter(|hmac| agreed.hmacs.contains(hmac)) else {
            return Verdict::UnsupportedHmac(auth.hmac_id);
        };
        //= specs/rfc4895.txt#section-6.3
        //# If no endpoint
        //# pair shared key has been configured for that Shared Key Identifier,
        //# all authenticated chunks MUST be silently discarded.
        //= specs/rfc4895.txt#section-6.3
        //# If an endpoint with no shared key receives a Shared Key Identifier
        //# other than 0, it MUST silently discard all authenticated chunks.
        //= specs/rfc4895.txt#section-6.3
        //# If
        //# the endpoint has at least one endpoint pair shared key for the peer,
        //# it MUST use the key specified by the Shared Key Identifier if a key
        //# has been configured for that Shared Key Identifier.
        let Some(signer) = self.signer(auth.key_id, hmac) else { return Verdict::Forged };
        //= specs/rfc4895.txt#section-6.3
        //# If the field does not match the result of the
        //# calculation, all the chunks following the AUTH chunk MUST be silently
        //# discarded.
        if signer.verifies(from_auth) { Verdict::Authentic } else { Verdict::Forged }
    }

    /// The endpoint has verified the AUTH chunk of the next packet.
    pub(crate) fn set_verified(&mut self) {
        self.verified = true;
    }

    /// Returns whether the endpoint has verified the packet's AUTH chunk, once.
    pub(super) fn take_verified(&mut self) -> bool {
        std::mem::take(&mut self.verified)
    }

    /// Takes over the keys that the user gave to the association that this one replaces.
    pub(super) fn keep_keys(&mut self, before: &mut Self) {
        self.keys = std::mem::take(&mut before.keys);
        self.active = before.active;
    }
}

impl Association {
    /// Adds an endpoint pair shared key, or replaces the one of this number (RFC 6458 §8.3.3).
    pub fn set_key(&mut self, key: SharedKey) -> Result<(), KeyError> {
        let auth = &mut self.auth;
        if !auth.enabled {
            return Err(KeyError::NotEnabled);
        }
        if key.secret.len() > AuthConfig::MAX_KEY_BYTES {
            return Err(KeyError::TooLong);
        }
        if auth.keys.len() >= AuthConfig::MAX_KEYS && !auth.keys.contains_key(&key.id) {
            return Err(KeyError::TooMany);
        }
        auth.keys.insert(key.id, Key { secret: key.secret, deactivated: false });
        auth.forget_signers(key.id);
        self.use_keys();
        Ok(())
    }

    /// Uses this key for sending from now on (RFC 6458 §8.3.4).
    pub fn activate_key(&mut self, id: u16) -> Result<(), KeyError> {
        let auth = &mut self.auth;
        match auth.keys.get(&id) {
            _ if !auth.enabled => Err(KeyError::NotEnabled),
            Some(key) if !key.deactivated => {
                auth.active = id;
                self.use_keys();
                Ok(())
            }
            _ => Err(KeyError::NoSuchKey),
        }
    }

    /// Stops sending with this key; chunks that the peer sends with it are still accepted (RFC 6458
    /// §8.3.4).
    pub fn deactivate_key(&mut self, id: u16) -> Result<(), KeyError> {
        let auth = &mut self.auth;
        match auth.keys.get_mut(&id) {
            _ if !auth.enabled => Err(KeyError::NotEnabled),
            _ if auth.active == id => Err(KeyError::Active),
            Some(key) => {
                // Packets are signed when they are built: none waits that needs an older key.
                if !std::mem::replace(&mut key.deactivated, true) {
                    self.events.push_back(Event::Authentication(AuthEvent::FreeKey(id)));
                    self.has_input = true;
                }
                Ok(())
            }
            None => Err(KeyError::NoSuchKey),
        }
    }

    /// Deletes a key: chunks that the peer still sends with it are discarded (RFC 6458 §8.3.5).
    pub fn delete_key(&mut self, id: u16) -> Result<(), KeyError> {
        let auth = &mut self.auth;
        match auth.keys.remove_entry(&id) {
            _ if !auth.enabled => Err(KeyError::NotEnabled),
            Some(entry) if auth.active == id => {
                auth.keys.extend([entry]);
                Err(KeyError::Active)
            }
            Some(_) => {
                auth.forget_signers(id);
                Ok(())
            }
            None => Err(KeyError::NoSuchKey),
        }
    }

    /// Returns the chunk types that the peer only accepts authenticated (RFC 6458 §8.3.6); empty before
    /// the handshake or without authentication.
    pub fn peer_auth_chunks(&self) -> Vec<u8> {
        self.auth
            .agreed
            .as_ref()
            .map_or(Vec::new(), |agreed| chunk_list(&agreed.vectors.peer).iter().collect())
    }

    /// Returns the chunk types that this side only accepts authenticated (RFC 6458 §8.3.6).
    pub fn local_auth_chunks(&self) -> Vec<u8> {
        self.auth.required.iter().collect()
    }

    /// Applies the key vectors of INIT and INIT ACK to the association.
    pub(super) fn agree_on_auth(&mut self, vectors: Option<&KeyVectors>) {
        self.auth.agree(vectors);
        self.use_keys();
        if self.auth.enabled && !self.auth.is_agreed() {
            self.events.push_back(Event::Authentication(AuthEvent::NoAuth));
        }
    }

    /// Builds packets with the current keys from now on.
    fn use_keys(&mut self) {
        let Some(authentic) = self.auth.authentic() else { return };
        // DATA that must be authenticated has less room in a packet.
        let data_is = [crate::wire::Data::KIND, crate::wire::Data::INTERLEAVED_KIND];
        let signs_data = data_is.iter().any(|kind| authentic.chunks.contains(*kind));
        let auth_len = if signs_data { authentic.signer.chunk_len() } else { 0 };
        for path in &mut self.paths {
            path.auth_len = auth_len;
        }
        self.builder.authenticate(authentic);
    }

    /// Verifies an AUTH chunk; returns whether the chunks after it are authentic.
    pub(super) fn on_auth(&mut self, auth: &Auth, from_auth: &[u8]) -> bool {
        match self.auth.verify(auth, from_auth) {
            Verdict::Authentic => {
                if self.auth.peer_key.replace(auth.key_id) != Some(auth.key_id) {
                    self.events.push_back(Event::Authentication(AuthEvent::NewKey(auth.key_id)));
                }
                true
            }
            Verdict::Forged => false,
            Verdict::UnsupportedHmac(id) => {
                if let State::Up(up) = &mut self.state {
                    up.control.add_error(Cause::UnsupportedHmac(id));
                }
                false
            }
        }
    }

    /// Returns the random number of this side's INIT, for an INIT ACK to a peer that sent an INIT at the
    /// same time.
    pub(crate) fn auth_random(&self) -> [u8; RANDOM_LEN] {
        self.auth_random
    }

    /// Returns the authentication state, to verify a COOKIE ECHO.
    pub(crate) fn auth_mut(&mut self) -> &mut Authentication {
        &mut self.auth
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn parameters() -> Vec<Parameter> {
        vec![
            Parameter::HmacAlgo(vec![3, 1]),
            Parameter::ChunkList(Bytes::from_static(&[0, 0xc1, 0x80])),
            Parameter::Adaptation(1),
            Parameter::Random(vec![7; RANDOM_LEN].into()),
        ]
    }

    //= specs/rfc4895.txt#section-6.1
    //= type=test
    //# These parameters include the parameter type, parameter length, and
    //# the parameter value, but padding is omitted; all padding MUST be
    //# removed from this concatenation before proceeding with further
    //# computation of keys.
    #[test]
    fn a_key_vector_is_the_three_parameters_without_padding_in_the_order_of_the_rfc() {
        let vector = key_vector(&parameters()).unwrap().unwrap();
        let random = [&[0x80, 0x02, 0, 36][..], &[7; 32]].concat();
        let expected =
            [&random[..], &[0x80, 0x03, 0, 7, 0, 0xc1, 0x80], &[0x80, 0x04, 0, 8, 0, 3, 0, 1]].concat();
        assert_eq!(vector, expected);
        assert_eq!(chunk_list(&vector), [0, 0xc1, 0x80].into_iter().collect());
        assert_eq!(hmac_list(&vector), [HmacId::Sha256, HmacId::Sha1]);
        let without_list: Vec<_> =
            parameters().into_iter().filter(|p| p.kind() != Parameter::CHUNK_LIST).collect();
        assert_eq!(key_vector(&without_list).unwrap().unwrap(), [&random[..], &expected[43..]].concat());
    }

    #[test]
    fn a_peer_without_all_parameters_does_not_authenticate() {
        for missing in [Parameter::RANDOM, Parameter::HMAC_ALGO] {
            let rest: Vec<_> = parameters().into_iter().filter(|p| p.kind() != missing).collect();
            assert_eq!(key_vector(&rest), Ok(None));
        }
    }

    #[test]
    fn records_that_are_too_long_are_rejected() {
        let with = |parameter: Parameter| {
            let others = parameters().into_iter().filter(|p| p.kind() != parameter.kind());
            key_vector(&others.chain([parameter.clone()]).collect::<Vec<_>>())
        };
        assert!(with(Parameter::HmacAlgo(vec![1; HMACS_MAX])).is_ok());
        assert_eq!(with(Parameter::HmacAlgo(vec![1; HMACS_MAX + 1])), Err(BadParameters));
        assert!(with(Parameter::ChunkList(vec![1; 256].into())).is_ok());
        assert_eq!(with(Parameter::ChunkList(vec![1; 257].into())), Err(BadParameters));
        assert_eq!(with(Parameter::Random(vec![1; 31].into())), Err(BadParameters));
        assert_eq!(with(Parameter::Random(vec![1; 33].into())), Err(BadParameters));
    }

    //= specs/rfc4895.txt#section-3.2
    //= type=test
    //# The chunk types for INIT, INIT-ACK, SHUTDOWN-COMPLETE, and AUTH
    //# chunks MUST NOT be listed in the CHUNKS parameter.  However, if a
    //# CHUNKS parameter is received then the types for INIT, INIT-ACK,
    //# SHUTDOWN-COMPLETE, and AUTH chunks MUST be ignored.
    //= specs/rfc4895.txt#section-6.1
    //= type=test
    //# The HMAC algorithm based on SHA-1 MUST
    //# be supported and included in the HMAC-ALGO parameter.
    #[test]
    fn chunk_types_that_cannot_be_listed_are_omitted_and_sha_1_is_always_listed() {
        let auth = AuthConfig { chunks: (0..=u8::MAX).collect(), hmacs: Vec::new(), ..AuthConfig::default() };
        let config = Config::default().with(|c| c.security.auth = Some(auth));
        let vector = key_vector(&super::parameters(&config, &[1; RANDOM_LEN])).unwrap().unwrap();
        let listed = values(&vector).find(|(kind, _)| *kind == Parameter::CHUNK_LIST).unwrap().1;
        assert_eq!(listed.len(), 252);
        assert!(NEVER_LISTED.iter().all(|kind| !listed.contains(kind)));
        assert_eq!(hmac_list(&vector), [HmacId::Sha1]);
        let listing_all = [&[0x80, 0x03, 1, 4][..], &(0..=u8::MAX).collect::<Vec<_>>()].concat();
        assert_eq!(chunk_list(&listing_all).iter().count(), 252);
    }

    #[test]
    fn vectors_are_compared_as_numbers_and_then_by_their_length() {
        let key = |local: &'static [u8], peer: &'static [u8]| {
            let vectors = KeyVectors { local: Bytes::from_static(local), peer: Bytes::from_static(peer) };
            association_shared_key(b"k", &vectors)
        };
        for (smaller, larger) in
            [(&[1, 2][..], &[1, 3][..]), (&[9], &[1, 0]), (&[0, 0, 9], &[1, 0]), (&[5], &[0, 5]), (&[], &[0])]
        {
            let expected = [b"k", smaller, larger].concat();
            assert_eq!((key(smaller, larger), key(larger, smaller)), (expected.clone(), expected));
        }
    }

    proptest! {
        #[test]
        fn both_sides_derive_the_same_key(secret: Vec<u8>, one: Vec<u8>, other: Vec<u8>) {
            let key = |local: &[u8], peer: &[u8]| {
                let vectors = KeyVectors { local: local.to_vec().into(), peer: peer.to_vec().into() };
                association_shared_key(&secret, &vectors)
            };
            prop_assert_eq!(key(&one, &other), key(&other, &one));
        }

        #[test]
        fn no_bytes_of_a_vector_make_it_panic(vector: Vec<u8>) {
            let _ = (chunk_list(&vector), hmac_list(&vector));
        }
    }
}
