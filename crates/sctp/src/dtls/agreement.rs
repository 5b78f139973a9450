//! Negotiation in INIT and INIT ACK: whether packets are protected, the key management method, and its
//! client and server roles (draft-ietf-tsvwg-sctp-dtls-chunk §5.1).

use std::cmp::Ordering;
use std::fmt;

use bytes::{Bytes, BytesMut};

use crate::wire::{Cause, Init, KeyManagement, Parameter};

/// The protection that an endpoint offers to its peers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DtlsConfig {
    /// Whether unprotected associations are possible. Default strict.
    pub mode: Mode,
    /// The roles that this side can have in key management. Default both.
    pub roles: Roles,
    /// Whether this side can restart associations, and accepts restarts of peers. Default off: it
    /// requires stored keys.
    pub restart: bool,
    /// Identifiers of key management methods in order of preference. Default: pre-shared keys (0) only.
    pub methods: Vec<u8>,
    /// The key management method whose peers accept a record that ends without the padding of its last
    /// chunk; `None`, the default: none. RFC 9260 §3.2 pads every chunk, and a record of padded chunks
    /// always wastes 3 bytes behind its tag; where this method is agreed on, a full packet has 3 more bytes
    /// of user data instead (docs/dtls-chunk.md).
    pub unpadded_with: Option<u8>,
    /// The key management method whose peers accept records over UDP in packets without a checksum;
    /// `None`, the default: none. The AEAD detects every error that a checksum detects (RFC 9653 §3). Where
    /// this method is agreed on, such packets are sent once there are primary keys, and accepted. Over IP
    /// itself there is always a checksum: firewalls that follow associations drop packets without it.
    pub unchecked_with: Option<u8>,
    /// The replay window in records, at most 2^16: a record that was overtaken by more is rejected.
    /// Default 2^15, the range of the 16-bit record number: at 1 Gbit/s, paths whose delays differ by
    /// 400 ms.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-10
    //# DTLS replay protection MUST NOT be turned off.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
    //# The receiver SHOULD pick a window large enough to handle any plausible reordering,
    //# which depends on the data rate.
    pub replay_window: usize,
}

impl Default for DtlsConfig {
    fn default() -> Self {
        Self {
            mode: Mode::Strict,
            roles: Roles::Both,
            restart: false,
            methods: vec![Self::PRE_SHARED],
            unpadded_with: None,
            unchecked_with: None,
            replay_window: 1 << 15,
        }
    }
}

impl DtlsConfig {
    /// The method with pre-shared cryptographic parameters (draft-ietf-tsvwg-sctp-dtls-chunk §9.1).
    pub const PRE_SHARED: u8 = 0;
}

/// Whether unprotected associations are possible (draft-ietf-tsvwg-sctp-dtls-chunk §5.1).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Mode {
    /// They are not.
    #[default]
    Strict,
    /// With peers that do not support protection.
    Loose,
}

/// The roles that a side can have in key management.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Roles {
    /// Client only.
    Client,
    /// Server only.
    Server,
    /// Either; required on both sides if both may start at the same time.
    #[default]
    Both,
}

/// The role of a side in key management.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Role {
    /// The side that starts the key exchange.
    Client,
    /// The side that responds.
    Server,
}

/// The result of the negotiation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Agreement {
    /// The role of this side.
    pub role: Role,
    /// The identifier of the key management method.
    pub method: u8,
    /// Whether both sides can protect a restart.
    pub restart: bool,
    /// This side's DTLS Key Management parameter as sent, without padding: keys must be bound to both
    /// parameters.
    pub local: Bytes,
    /// The peer's parameter as received.
    pub peer: Bytes,
}

impl Agreement {
    /// Returns the parameters of client and server, in this order (draft-ietf-tsvwg-sctp-dtls-chunk
    /// §7.2).
    pub fn client_and_server(&self) -> (&Bytes, &Bytes) {
        match self.role {
            Role::Client => (&self.local, &self.peer),
            Role::Server => (&self.peer, &self.local),
        }
    }
}

/// Why the negotiation failed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Disagreement {
    /// The peer offers no key management.
    NotOffered,
    /// No common method.
    NoCommonMethod,
    /// Both sides can only be the client, or only the server.
    Roles,
    /// Both sides drew the same tie breaker.
    TieBreaker,
}

impl fmt::Display for Disagreement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotOffered => "no offer to protect packets, which this side asks for",
            Self::NoCommonMethod => "no method of key management that this side knows",
            Self::Roles => "roles in the key management that do not go together",
            Self::TieBreaker => "the tie breaker that this side drew; connect again",
        })
    }
}

impl Disagreement {
    /// Returns the error cause for an ABORT.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.1
    //# It MUST NOT be included in any other chunk.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.2
    //# It MUST NOT be included in any other chunk.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.3
    //# It MUST NOT be included in any other chunk.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.3.4
    //# It MUST NOT be included in any other chunk.
    pub(crate) fn cause(self) -> Cause {
        match self {
            Self::NotOffered => Cause::MissingDtlsSupport,
            Self::NoCommonMethod => Cause::NoCommonKeyManagement,
            Self::Roles => Cause::IncompatibleKeyManagementRoles,
            Self::TieBreaker => Cause::TieBreakerCollision,
        }
    }
}

/// Returns the parameter that this side offers.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
//# The reserved bits MUST be set to 0 by the sender and MUST be ignored by the
//# receiver.
pub(crate) fn offer(config: &DtlsConfig, tie_breaker: u32) -> KeyManagement {
    let roles = match config.roles {
        Roles::Client => KeyManagement::CLIENT,
        Roles::Server => KeyManagement::SERVER,
        Roles::Both => KeyManagement::CLIENT | KeyManagement::SERVER,
    };
    let restart = if config.restart { KeyManagement::RESTART } else { 0 };
    let methods = config.methods.iter().copied().take(KeyManagement::METHODS_MAX).collect();
    KeyManagement { tie_breaker, flags: roles | restart, methods }
}

/// Returns the parameter of an INIT or INIT ACK.
pub(crate) fn key_management(init: &Init) -> Option<&KeyManagement> {
    init.parameters.iter().find_map(|parameter| match parameter {
        Parameter::KeyManagement(keys) => Some(keys),
        _ => None,
    })
}

/// Encodes a parameter without padding.
pub(crate) fn raw(keys: &KeyManagement) -> Bytes {
    let parameter = Parameter::KeyManagement(keys.clone());
    let mut raw = BytesMut::new();
    parameter.encode(&mut raw);
    raw.truncate(parameter.encoded_len());
    raw.freeze()
}

/// Negotiates between this side's offer and the peer's; `None` if this side continues without protection
/// because the peer does not support it.
//= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
//# To ensure that each endpoint's Key Management Method knows which role it has and
//# both endpoints agree on which method that was chosen the below procedure MUST be
//# executed by both endpoints before entering the ESTABLISHED state.
pub(crate) fn agree(
    mode: Mode,
    local: &KeyManagement,
    peer: Option<&KeyManagement>,
) -> Result<Option<Agreement>, Disagreement> {
    let agreed = peer.ok_or(Disagreement::NotOffered).and_then(|peer| {
        let role = role(local, peer)?;
        let (client, server) = match role {
            Role::Client => (local, peer),
            Role::Server => (peer, local),
        };
        let common = server.methods.iter().find(|method| client.methods.contains(method));
        let method = *common.ok_or(Disagreement::NoCommonMethod)?;
        let restart = local.has(KeyManagement::RESTART) && peer.has(KeyManagement::RESTART);
        Ok(Agreement { role, method, restart, local: raw(local), peer: raw(peer) })
    });
    match (agreed, mode) {
        (Ok(agreement), _) => Ok(Some(agreement)),
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
        //# In case both
        //# endpoints have the same tie breaker value, the selection has failed and the
        //# association MUST be aborted.
        (Err(Disagreement::TieBreaker), _) => Err(Disagreement::TieBreaker),
        (Err(_), Mode::Loose) => Ok(None),
        (Err(why), Mode::Strict) => Err(why),
    }
}

fn role(local: &KeyManagement, peer: &KeyManagement) -> Result<Role, Disagreement> {
    let can_be = |role: Role| match role {
        Role::Client => local.has(KeyManagement::CLIENT) && peer.has(KeyManagement::SERVER),
        Role::Server => local.has(KeyManagement::SERVER) && peer.has(KeyManagement::CLIENT),
    };
    match (can_be(Role::Client), can_be(Role::Server)) {
        (false, false) => Err(Disagreement::Roles),
        (true, false) => Ok(Role::Client),
        (false, true) => Ok(Role::Server),
        //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
        //# The endpoint with the larger value SHALL be
        //# the server, and the other endpoint takes the client role.
        (true, true) => match local.tie_breaker.cmp(&peer.tie_breaker) {
            Ordering::Greater => Ok(Role::Server),
            Ordering::Less => Ok(Role::Client),
            Ordering::Equal => Err(Disagreement::TieBreaker),
        },
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const BOTH: u8 = KeyManagement::CLIENT | KeyManagement::SERVER;

    fn keys(tie_breaker: u32, flags: u8, methods: &'static [u8]) -> KeyManagement {
        KeyManagement { tie_breaker, flags, methods: Bytes::from_static(methods) }
    }

    fn come_to(local: &KeyManagement, peer: &KeyManagement) -> Result<(Role, u8), Disagreement> {
        agree(Mode::Strict, local, Some(peer)).map(|agreed| agreed.unwrap()).map(|it| (it.role, it.method))
    }

    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
    //= type=test
    //# The endpoint with the larger value SHALL be
    //# the server, and the other endpoint takes the client role.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
    //= type=test
    //# In case both
    //# endpoints have the same tie breaker value, the selection has failed and the
    //# association MUST be aborted.
    #[test]
    fn the_tie_breaker_decides_the_role() {
        let (small, large) = (keys(1, BOTH, &[5]), keys(2, BOTH, &[5]));
        assert_eq!(come_to(&small, &large), Ok((Role::Client, 5)));
        assert_eq!(come_to(&large, &small), Ok((Role::Server, 5)));
        assert_eq!(come_to(&small, &small), Err(Disagreement::TieBreaker));
        assert_eq!(agree(Mode::Loose, &small, Some(&small)), Err(Disagreement::TieBreaker));
    }

    #[test]
    fn a_fixed_role_is_independent_of_the_tie_breaker() {
        let (client, either) = (keys(9, KeyManagement::CLIENT, &[5]), keys(1, BOTH, &[5]));
        assert_eq!(come_to(&client, &either), Ok((Role::Client, 5)));
        assert_eq!(come_to(&either, &client), Ok((Role::Server, 5)));
        assert_eq!(come_to(&client, &client), Err(Disagreement::Roles));
        assert_eq!(come_to(&client, &keys(1, 0, &[5])), Err(Disagreement::Roles));
    }

    #[test]
    fn the_server_prefers_the_method() {
        let client = keys(0, KeyManagement::CLIENT, &[1, 2, 3]);
        let server = keys(0, KeyManagement::SERVER, &[9, 3, 2]);
        assert_eq!(come_to(&client, &server), Ok((Role::Client, 3)));
        assert_eq!(come_to(&server, &client), Ok((Role::Server, 3)));
        assert_eq!(
            come_to(&client, &keys(0, KeyManagement::SERVER, &[9])),
            Err(Disagreement::NoCommonMethod)
        );
    }

    #[test]
    fn loose_mode_accepts_a_peer_without_protection() {
        let client = keys(0, KeyManagement::CLIENT, &[1]);
        for peer in [None, Some(&client), Some(&keys(0, KeyManagement::SERVER, &[2]))] {
            assert_eq!(agree(Mode::Loose, &client, peer), Ok(None));
            assert!(agree(Mode::Strict, &client, peer).is_err());
        }
    }

    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-4.1
    //= type=test
    //# The reserved bits MUST be set to 0 by the sender and MUST be ignored by the
    //# receiver.
    #[test]
    fn reserved_bits_are_ignored_and_kept_for_key_derivation() {
        let ours = offer(&DtlsConfig { restart: true, ..DtlsConfig::default() }, 7);
        assert_eq!(ours.flags, BOTH | KeyManagement::RESTART);
        let theirs = keys(3, 0xf8 | KeyManagement::CLIENT, &[0]);
        let agreed = agree(Mode::Strict, &ours, Some(&theirs)).unwrap().unwrap();
        assert_eq!((agreed.role, agreed.restart), (Role::Server, false));
        assert_eq!(agreed.peer, [0x80, 0x06, 0, 10, 0, 0, 0, 3, 0xf9, 0][..]);
        assert_eq!(agreed.client_and_server(), (&agreed.peer, &agreed.local));
    }

    proptest! {
        #[test]
        fn both_sides_pair_addresses_alike(
            one: (u32, u8, Vec<u8>), other: (u32, u8, Vec<u8>)
        ) {
            let keys = |(tie_breaker, flags, methods): (u32, u8, Vec<u8>)| {
                KeyManagement { tie_breaker, flags, methods: methods.into() }
            };
            let (one, other) = (keys(one), keys(other));
            match (agree(Mode::Strict, &one, Some(&other)), agree(Mode::Strict, &other, Some(&one))) {
                (Ok(Some(here)), Ok(Some(there))) => {
                    prop_assert_ne!(here.role, there.role);
                    prop_assert_eq!(here.method, there.method);
                    prop_assert_eq!(here.restart, there.restart);
                    prop_assert_eq!(here.client_and_server(), there.client_and_server());
                }
                (here, there) => prop_assert_eq!(here.unwrap_err(), there.unwrap_err()),
            }
        }
    }
}
