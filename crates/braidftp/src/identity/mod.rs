//! Authentication of peers: keys, certificates and trust, the same for TLS over TCP and for protected SCTP.
//!
//! A server has a [`ServerIdentity`]: a key and a certificate that it generated on its first start, or those
//! of given files. A client has a [`Trust`]: fingerprints on its command line, its `known_hosts`, the
//! system's authorities. Both create a configuration of rustls; the caller names its protocol (ALPN). A
//! server is identified by its key, not by its certificate: the [`Fingerprint`] is that of the public key,
//! and does not change when the certificate for the same key is renewed.
//!
//! ```text
//! let verifier = trust.verifier(peer, alpn)?;          // one for each server
//! …handshake with verifier.config(), as the name verifier.name()…
//! Err(error)  ->  verifier.explain(&error)              // why, in a sentence; with `OnUnknown::Ask` it names whom to ask about
//! Ok          ->  verifier.settle(connection)?          // writes known_hosts if it is to be written
//! ```
//!
//! A client may have a key ([`ClientIdentity`]), by which a server identifies a user. Revocation of
//! certificates is not checked.

mod certificate_error;
mod client;
mod files;
mod fingerprint;
mod known_hosts;
mod server;
pub(crate) mod stranger;
#[cfg(test)]
mod tests;
mod trust;

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;

pub use client::ClientIdentity;
pub use files::Files;
pub(crate) use files::folder_of;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use known_hosts::KnownHosts;
pub(crate) use server::OWN_NAMES;
pub use server::ServerIdentity;
pub use stranger::{Peer, Stranger, ask};
pub use trust::{Authorities, OnUnknown, PeerIdentity, Refusal, Trust, Verifier, Vouched};

/// The maximum size of all certificates that a side presents, in bytes. rustls permits at most 64 KiB in TLS.
pub const CHAIN_BYTES_MAX: usize = 32 << 10;

/// The maximum size of all certificates that a server accepts from a client, in bytes; only the client's key
/// matters.
pub(crate) const CLIENT_CHAIN_BYTES_MAX: usize = 8 << 10;

/// The cryptography provider of this program: AWS-LC, with the key exchange X25519MLKEM768 offered first.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(braidftp_net::keys::provider())).clone()
}
