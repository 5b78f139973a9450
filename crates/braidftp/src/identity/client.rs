//! The client's key, which it presents to servers that request one, and the server's request.
//!
//! A user is identified by the fingerprint of the key (`keys` in the users file), never by the contents of
//! the certificate, which is self-signed; its dates and names have no meaning.

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;

use rustls::client::ResolvesClientCert;
use rustls::client::danger::HandshakeSignatureValid;
use rustls::crypto::{verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::sign::CertifiedKey;
use rustls::{CertificateError, DigitallySignedStruct, DistinguishedName, SignatureScheme};

use super::files::For;
use super::{CLIENT_CHAIN_BYTES_MAX, Files, Fingerprint, provider};
use crate::exit::{Error, Result};

/// The identity of this client.
pub struct ClientIdentity {
    certified: Arc<CertifiedKey>,
    fingerprint: Fingerprint,
}

impl fmt::Debug for ClientIdentity {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("ClientIdentity").field(&self.fingerprint).finish()
    }
}

impl ClientIdentity {
    /// The location of the user's key: `$XDG_DATA_HOME/braidftp/client.pem`, or
    /// `~/.local/share/braidftp/client.pem`.
    ///
    /// # Errors
    ///
    /// There is no home directory.
    pub fn usual() -> Result<Files> {
        let folder = |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
        let place = folder("XDG_DATA_HOME").or_else(|| folder("HOME").map(|home| home.join(".local/share")));
        let place = place.ok_or_else(|| {
            Error::usage("find the key of this user", "$HOME is not set")
                .hint("set XDG_DATA_HOME to a folder")
        })?;
        Ok(Files::one(place.join("braidftp/client.pem")))
    }

    /// Loads the key of this file; `None` if the file does not exist.
    ///
    /// # Errors
    ///
    /// It cannot be read, is damaged, or other users may read it.
    pub fn load(files: &Files) -> Result<Option<Arc<Self>>> {
        if !files.key.try_exists().unwrap_or(true) {
            return Ok(None);
        }
        let loaded = files.load()?;
        Ok(Some(Arc::new(Self { certified: loaded.certified, fingerprint: loaded.fingerprint })))
    }

    /// Creates a key in this file (mode 600).
    ///
    /// # Errors
    ///
    /// The file exists already, or cannot be written.
    pub fn make(files: &Files) -> Result<Arc<Self>> {
        if !files.make(For::Clients, &[])? {
            return Err(Error::usage(
                format_args!("make the key {}", files.key.display()),
                "there is one already",
            )
            .hint("move the file away first; the new key must be added on servers that know the old one"));
        }
        Self::load(files)?.ok_or_else(|| {
            Error::usage(format_args!("read the key {}", files.key.display()), "it was removed again")
        })
    }

    /// The fingerprint of the key.
    pub fn fingerprint(&self) -> Fingerprint {
        self.fingerprint
    }
}

impl ResolvesClientCert for ClientIdentity {
    /// The authorities named by the server do not matter: the certificate is self-signed.
    fn resolve(&self, _: &[&[u8]], schemes: &[SignatureScheme]) -> Option<Arc<CertifiedKey>> {
        self.certified.key.choose_scheme(schemes).map(|_| self.certified.clone())
    }

    fn has_certs(&self) -> bool {
        true
    }
}

/// Requests a key from clients, and accepts any or none: a user is identified by the fingerprint.
#[derive(Debug)]
pub(super) struct AskForKey;

impl AskForKey {
    fn judge(end: &CertificateDer<'_>, others: &[CertificateDer<'_>]) -> Result<(), rustls::Error> {
        let bytes = end.len() + others.iter().map(|other| other.len()).sum::<usize>();
        match bytes > CLIENT_CHAIN_BYTES_MAX || Fingerprint::of(end).is_err() {
            true => Err(CertificateError::BadEncoding.into()),
            false => Ok(()),
        }
    }
}

impl ClientCertVerifier for AskForKey {
    fn client_auth_mandatory(&self) -> bool {
        false
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        end: &CertificateDer<'_>,
        others: &[CertificateDer<'_>],
        _: UnixTime,
    ) -> Result<ClientCertVerified, rustls::Error> {
        Self::judge(end, others).map(|()| ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signature, &provider().signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        provider().signature_verification_algorithms.supported_schemes()
    }
}
