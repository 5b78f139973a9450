//! The fingerprint of a public key: `SHA256:` and 43 letters of base64, in OpenSSH's notation.

use std::fmt;
use std::str::FromStr;

use base64::Engine;
use base64::engine::general_purpose::{STANDARD_NO_PAD, URL_SAFE_NO_PAD};
use rustls::pki_types::CertificateDer;
use rustls::server::ParsedCertificate;
use sha2::{Digest, Sha256};

/// The prefix of a fingerprint.
const PREFIX: &str = "SHA256:";

/// The SHA-256 of a public key in the form of a certificate's SubjectPublicKeyInfo (RFC 5280 §4.1.2.7).
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Fingerprint([u8; 32]);

impl Fingerprint {
    /// The fingerprint of the key in a certificate.
    ///
    /// # Errors
    ///
    /// It is not an X.509 certificate of version 3.
    pub fn of(certificate: &CertificateDer<'_>) -> Result<Self, rustls::Error> {
        let spki = ParsedCertificate::try_from(certificate)?.subject_public_key_info();
        Ok(Self(Sha256::digest(&*spki).into()))
    }
}

impl fmt::Display for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{PREFIX}{}", STANDARD_NO_PAD.encode(self.0))
    }
}

impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Why a text is not a fingerprint.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FingerprintError {
    /// The text does not begin with the prefix.
    Prefix,
    /// The rest is not the base64 of 32 bytes.
    Digest,
}

impl fmt::Display for FingerprintError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let why = match self {
            Self::Prefix => "it does not begin with `SHA256:`",
            Self::Digest => "after `SHA256:` there are not the 43 letters of a SHA-256 in base64",
        };
        write!(f, "{why}; `braidftp serve` prints the server's when it starts")
    }
}

impl std::error::Error for FingerprintError {}

impl FromStr for Fingerprint {
    type Err = FingerprintError;

    /// Accepts both alphabets of base64, and padding.
    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let digest = text.trim().strip_prefix(PREFIX).ok_or(FingerprintError::Prefix)?.trim_end_matches('=');
        let bytes = STANDARD_NO_PAD.decode(digest).or_else(|_| URL_SAFE_NO_PAD.decode(digest));
        let bytes = bytes.map_err(|_| FingerprintError::Digest)?;
        bytes.try_into().map(Self).map_err(|_| FingerprintError::Digest)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    proptest! {
        #[test]
        fn a_printed_fingerprint_is_parsed_back(bytes: [u8; 32]) {
            let fingerprint = Fingerprint(bytes);
            prop_assert_eq!(fingerprint.to_string().parse(), Ok(fingerprint));
            prop_assert_eq!(format!(" {fingerprint}= ").parse(), Ok(fingerprint));
        }

        #[test]
        fn no_text_panics(text in "(SHA256:)?\\PC*") {
            let _ = text.parse::<Fingerprint>();
        }
    }

    #[test]
    fn invalid_fingerprints_are_rejected_with_a_reason() {
        for (text, error) in [
            ("", FingerprintError::Prefix),
            ("MD5:aa:bb", FingerprintError::Prefix),
            ("sha256:AAAA", FingerprintError::Prefix),
            ("SHA256:", FingerprintError::Digest),
            ("SHA256:AAAA", FingerprintError::Digest),
            ("SHA256:!!!!", FingerprintError::Digest),
        ] {
            assert_eq!(text.parse::<Fingerprint>(), Err(error), "{text}");
        }
    }
}
