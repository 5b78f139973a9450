//! Authentication of peers: keys, certificates and trust, the same for TLS over TCP and for protected SCTP.
//!
//! A server has a [`ServerIdentity`]: a key and a certificate that it made itself on its first start, or those of the files that
//! it was given. A client has a [`Trust`]: fingerprints on its command line, its `known_hosts`, the system's authorities. Both
//! give rustls a configuration; what the caller's protocol is called (ALPN) is the caller's to say. A server is known by its
//! key, not by its certificate: the [`Fingerprint`] is that of the public key, and stays when a certificate is made anew for the
//! same key.
//!
//! ```text
//! let verifier = trust.verifier(peer, alpn)?;          // one for each server
//! …handshake with verifier.config(), as the name verifier.name()…
//! Err(error)  ->  verifier.explain(&error)              // why, in a sentence; with `OnUnknown::Ask` it names whom to ask about
//! Ok          ->  verifier.settle(connection)?          // writes known_hosts if it is to be written
//! ```
//!
//! A client may have a key of its own ([`ClientIdentity`]), by which a server knows a user. Not here: revocation of certificates,
//! which nothing asks for.

mod certificate_error;
mod client;
mod files;
mod fingerprint;
mod known_hosts;
mod server;
#[cfg(test)]
mod tests;
mod trust;

use std::sync::{Arc, OnceLock};

use rustls::crypto::CryptoProvider;

pub use client::ClientIdentity;
pub use files::Files;
pub use fingerprint::{Fingerprint, FingerprintError};
pub use known_hosts::KnownHosts;
pub(crate) use server::OWN_NAMES;
pub use server::ServerIdentity;
pub use trust::{
    Authorities, OnUnknown, Peer, PeerIdentity, Refusal, Stranger, Trust, Verifier, Vouched, ask,
};

/// Bytes of all certificates that a side shows, at most. TLS itself has no more than 64 KiB for them in rustls.
pub const CHAIN_BYTES_MAX: usize = 32 << 10;

/// Bytes of all certificates that a server takes of a client, whose key alone counts.
pub(crate) const CLIENT_CHAIN_BYTES_MAX: usize = 8 << 10;

/// What does the cryptography of this program: AWS-LC, with the key exchange X25519MLKEM768 offered first.
pub fn provider() -> Arc<CryptoProvider> {
    static PROVIDER: OnceLock<Arc<CryptoProvider>> = OnceLock::new();
    PROVIDER.get_or_init(|| Arc::new(braidftp_net::keys::provider())).clone()
}
