//! The TLS configuration of this side, and when keys are replaced.

use std::sync::Arc;
use std::time::Duration;

use braidftp_sctp::DtlsConfig;
use braidftp_sctp::dtls::{Mode, Roles};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ServerConfig};

/// Returns the cryptography for TLS configurations: rustls' defaults with AWS-LC, X25519MLKEM768 first,
/// and AES-128-GCM before all other cipher suites, since it seals and opens packets faster
/// (docs/dtls-chunk.md).
pub fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// Key management methods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// TLS for DTLS in SCTP, exactly as in the draft: the client uses its keys once the server has
    /// confirmed that it has them.
    Draft,
    /// One RTT shorter: the client uses its keys from its Finished on, and the server, which has known
    /// them since its own Finished, accepts records protected with them. The server may also ask the
    /// client to start a handshake for new keys, and the padding of the last chunk in a record is left out.
    AtOnce,
}

impl Method {
    /// Both methods in order of preference.
    pub const ALL: [Self; 2] = [Self::AtOnce, Self::Draft];

    /// The identifier of the method.
    pub const fn identifier(self) -> u8 {
        match self {
            Self::Draft => 192,
            Self::AtOnce => 254,
        }
    }

    /// Returns the method with this identifier.
    pub fn from_identifier(identifier: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.identifier() == identifier)
    }
}

/// Resumption of TLS sessions (RFC 8446 §2.2).
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Resumption {
    /// Each handshake is a full one, whatever the TLS configurations say.
    #[default]
    Never,
    /// The first handshake of an association may resume the session of an earlier association, with an
    /// ephemeral key exchange. Handshakes for new keys are full ones.
    ///
    /// The client keeps tickets in `ClientConfig::resumption`; rustls uses each once, and only with the same
    /// verifier. The server sends one ticket, made by `ServerConfig::ticketer` or `session_storage`.
    FirstHandshake,
}

/// The key management settings of an endpoint.
#[derive(Debug, Clone)]
pub struct Settings {
    /// The client role: the trust anchors, and the expected name of the server. TLS 1.3 is used even if
    /// the configuration permits TLS 1.2.
    pub client: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// The server role. A side without it cannot be asked for new keys.
    pub server: Option<Arc<ServerConfig>>,
    /// Whether unprotected associations with peers that do not support protection are permitted. Default
    /// strict: they are not.
    pub mode: Mode,
    /// Whether the first handshake may resume an earlier TLS session. Default never: it saves no round
    /// trip (docs/security.md).
    pub resumption: Resumption,
    /// The maximum lifetime of keys. Default one hour.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
    //# Implementations SHOULD
    //# rekey at least every hour and every 100 GB of data, which is a common
    //# policy for IPsec {{ANSSI-DAT-NT-003}}.
    pub rekey_after: Duration,
    /// The maximum number of packet bytes per keys, in both directions. Default 90 GB, counted every 10
    /// seconds.
    pub rekey_bytes: u64,
    /// The time limit of the first handshake. Default 30 seconds.
    pub handshake_timeout: Duration,
    /// How long replaced keys still open packets, once the peer sends with the new ones. Default 120
    /// seconds.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
    //# A value of 120 seconds (one Maximum Segment Lifetime) is
    //# RECOMMENDED in this case.
    pub drain: Duration,
    /// How long replaced keys still open packets while the peer is not known to use the new ones, and
    /// the time limit of a handshake for new keys. Default 303 seconds, after which an association with
    /// RFC 9260's values has ended.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
    //# Implementations SHOULD set the drain timer to at least T_fail when
    //# delivery of the final rekeying message has not been confirmed.
    pub drain_unconfirmed: Duration,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            client: None,
            server: None,
            mode: Mode::Strict,
            resumption: Resumption::Never,
            rekey_after: Duration::from_secs(3_600),
            rekey_bytes: 90_000_000_000,
            handshake_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(120),
            drain_unconfirmed: Duration::from_secs(303),
        }
    }
}

impl Settings {
    /// Settings of the client role, for a server with this name.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Self {
        Self { client: Some((config, name)), ..Self::default() }
    }

    /// Settings of the server role.
    pub fn server(config: Arc<ServerConfig>) -> Self {
        Self { server: Some(config), ..Self::default() }
    }

    /// Returns the settings for [`security.dtls`](braidftp_sctp::Config::security).
    pub fn dtls(&self) -> DtlsConfig {
        let roles = match (&self.client, &self.server) {
            (Some(_), None) => Roles::Client,
            (None, Some(_)) => Roles::Server,
            _ => Roles::Both,
        };
        let methods = Method::ALL.map(Method::identifier).to_vec();
        let at_once = Some(Method::AtOnce.identifier());
        let (unpadded_with, unchecked_with) = (at_once, at_once);
        DtlsConfig { mode: self.mode, roles, methods, unpadded_with, unchecked_with, ..DtlsConfig::default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn aes_128_gcm_and_post_quantum_key_exchange_are_preferred() {
        let (ours, theirs) = (provider(), aws_lc_rs::default_provider());
        assert_eq!(ours.cipher_suites[0].suite(), CipherSuite::TLS13_AES_128_GCM_SHA256);
        assert_eq!(ours.kx_groups[0].name(), rustls::NamedGroup::X25519MLKEM768);
        assert_eq!(ours.cipher_suites.len(), theirs.cipher_suites.len());
    }
}
