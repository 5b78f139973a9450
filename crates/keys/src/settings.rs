//! The TLS configuration of this side, and when keys are replaced.

use std::sync::Arc;
use std::time::Duration;

use braidftp_sctp::DtlsConfig;
use braidftp_sctp::dtls::{Mode, Roles};
use rustls::crypto::{CryptoProvider, aws_lc_rs};
use rustls::pki_types::ServerName;
use rustls::{CipherSuite, ClientConfig, ServerConfig};

/// Returns the cryptography for the configurations of TLS: rustls' defaults by AWS-LC, X25519MLKEM768 first, but AES-128-GCM
/// before all other cipher suites: it seals and opens packets faster (docs/dtls-chunk.md).
pub fn provider() -> CryptoProvider {
    let mut provider = aws_lc_rs::default_provider();
    provider.cipher_suites.sort_by_key(|suite| suite.suite() != CipherSuite::TLS13_AES_128_GCM_SHA256);
    provider
}

/// How keys are agreed on.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Method {
    /// TLS for DTLS in SCTP, to the letter: the client sends with its keys once the server says that it has them.
    Draft,
    /// The same, a round trip shorter: the client sends with its keys from its Finished on, and the server, which knows them since
    /// its own, takes what is protected with them. It may also ask a client to begin a handshake for new keys.
    AtOnce,
}

impl Method {
    /// Both, the one to prefer first.
    pub const ALL: [Self; 2] = [Self::AtOnce, Self::Draft];

    /// Its number among key management methods.
    pub const fn identifier(self) -> u8 {
        match self {
            Self::Draft => 192,
            Self::AtOnce => 254,
        }
    }

    /// The method of this number.
    pub fn from_identifier(identifier: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|method| method.identifier() == identifier)
    }
}

/// How an endpoint agrees on keys.
#[derive(Debug, Clone)]
pub struct Settings {
    /// To be the client of a handshake: whom to trust, and as whom the server is known. Of a configuration that allows TLS 1.2 as
    /// well, TLS 1.3 is what is taken.
    pub client: Option<(Arc<ClientConfig>, ServerName<'static>)>,
    /// To be the server of one. A side that has none cannot be asked for new keys.
    pub server: Option<Arc<ServerConfig>>,
    /// Whether there may be an association without protection, with a peer that asks for none. Strict: there is not.
    pub mode: Mode,
    /// How long keys are used. An hour.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-3.4
    //# Implementations SHOULD
    //# rekey at least every hour and every 100 GB of data, which is a common
    //# policy for IPsec {{ANSSI-DAT-NT-003}}.
    pub rekey_after: Duration,
    /// For how many bytes of packets, both ways. 90 GB: they are looked at every 10 seconds.
    pub rekey_bytes: u64,
    /// How long the first handshake may take. 30 seconds.
    pub handshake_timeout: Duration,
    /// How long keys that were replaced still open what the peer sent before. 120 seconds, once it sends with the new ones.
    //= specs/draft-porfiri-tsvwg-sctp-dtls-handshake.md#section-6.2.3
    //# A value of 120 seconds (one Maximum Segment Lifetime) is
    //# RECOMMENDED in this case.
    pub drain: Duration,
    /// The same, while it is not known to, and how long a handshake for new keys may take. 303 seconds, after which an association gives up with the values of RFC 9260.
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
            rekey_after: Duration::from_secs(3_600),
            rekey_bytes: 90_000_000_000,
            handshake_timeout: Duration::from_secs(30),
            drain: Duration::from_secs(120),
            drain_unconfirmed: Duration::from_secs(303),
        }
    }
}

impl Settings {
    /// To be the client, towards a server of this name.
    pub fn client(config: Arc<ClientConfig>, name: ServerName<'static>) -> Self {
        Self { client: Some((config, name)), ..Self::default() }
    }

    /// To be the server.
    pub fn server(config: Arc<ServerConfig>) -> Self {
        Self { server: Some(config), ..Self::default() }
    }

    /// What an association is to be told, for [`security.dtls`](braidftp_sctp::Config::security).
    pub fn dtls(&self) -> DtlsConfig {
        let roles = match (&self.client, &self.server) {
            (Some(_), None) => Roles::Client,
            (None, Some(_)) => Roles::Server,
            _ => Roles::Both,
        };
        let methods = Method::ALL.map(Method::identifier).to_vec();
        DtlsConfig { mode: self.mode, roles, methods, ..DtlsConfig::default() }
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
