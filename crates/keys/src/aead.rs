//! Seals and opens records with aws-lc: AES-GCM or ChaCha20-Poly1305, and the masks of record numbers
//! (draft-ietf-tls-rfc9147bis §4.2.3), as for QUIC headers.

use std::fmt;

use aws_lc_rs::aead::quic::{self, HeaderProtectionKey};
use aws_lc_rs::aead::{self, Aad, LessSafeKey, Nonce, UnboundKey};
use braidftp_sctp::dtls::{CipherSuite, Forged, Keys, NONCE_LEN, RecordKey, TAG_LEN};

/// Bytes of a suite's keys: that of the AEAD and that of record numbers.
pub(crate) const fn key_len(suite: CipherSuite) -> usize {
    match suite {
        CipherSuite::Aes128Gcm => 16,
        CipherSuite::Aes256Gcm | CipherSuite::ChaCha20Poly1305 => 32,
    }
}

/// Creates the keys of one direction. `key` and `number_key` have the length that the suite requires: 16
/// bytes with AES-128-GCM, otherwise 32. The keys are erased when dropped; the caller must erase the
/// arguments.
///
/// # Panics
///
/// If `key` or `number_key` has another length.
pub fn record_keys(suite: CipherSuite, key: &[u8], number_key: &[u8], iv: [u8; NONCE_LEN]) -> Keys {
    let (aead, mask) = match suite {
        CipherSuite::Aes128Gcm => (&aead::AES_128_GCM, &quic::AES_128),
        CipherSuite::Aes256Gcm => (&aead::AES_256_GCM, &quic::AES_256),
        CipherSuite::ChaCha20Poly1305 => (&aead::CHACHA20_POLY1305, &quic::CHACHA20),
    };
    let key = UnboundKey::new(aead, key).expect("a key is as long as its suite says");
    let mask = HeaderProtectionKey::new(mask, number_key).expect("a key is as long as its suite says");
    Keys { suite, iv, key: Box::new(AwsLc { aead: LessSafeKey::new(key), mask }) }
}

struct AwsLc {
    // The caller counts nonces, which are record numbers.
    aead: LessSafeKey,
    mask: HeaderProtectionKey,
}

impl fmt::Debug for AwsLc {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("AwsLc").field(self.aead.algorithm()).finish()
    }
}

impl RecordKey for AwsLc {
    fn seal(&self, nonce: &[u8; NONCE_LEN], associated: &[u8], bytes: &mut [u8]) -> [u8; TAG_LEN] {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let sealed = self.aead.seal_in_place_separate_tag(nonce, Aad::from(associated), bytes);
        let tag = sealed.expect("no record is too long for an AEAD");
        *tag.as_ref().first_chunk().expect("all three have tags of 16 bytes")
    }

    fn open(
        &self,
        nonce: &[u8; NONCE_LEN],
        associated: &[u8],
        sealed: &[u8],
        plain: &mut [u8],
    ) -> Result<(), Forged> {
        let nonce = Nonce::assume_unique_for_key(*nonce);
        let (hidden, tag) = sealed.split_last_chunk::<TAG_LEN>().ok_or(Forged)?;
        self.aead.open_separate_gather(nonce, Aad::from(associated), hidden, tag, plain).map_err(|_| Forged)
    }

    fn mask(&self, sample: &[u8; 16]) -> [u8; 2] {
        let mask = self.mask.new_mask(sample).expect("the sample is as long as it has to be");
        [mask[0], mask[1]]
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn keys(suite: CipherSuite) -> Keys {
        let len = key_len(suite);
        record_keys(suite, &[7; 32][..len], &[8; 32][..len], [9; NONCE_LEN])
    }

    #[test]
    fn only_sealed_records_open() {
        for suite in CipherSuite::ALL {
            let (key, nonce) = (keys(suite).key, [1; NONCE_LEN]);
            let mut bytes = *b"chunks of a packet";
            let tag = key.seal(&nonce, b"header", &mut bytes);
            assert_ne!(bytes, *b"chunks of a packet");
            let mut sealed = [&bytes[..], &tag].concat();
            let mut plain = [0; 18];
            assert_eq!(key.open(&nonce, b"header", &sealed, &mut plain), Ok(()));
            assert_eq!(plain, *b"chunks of a packet");
            assert_eq!(key.open(&nonce, b"another", &sealed, &mut plain), Err(Forged));
            assert_eq!(key.open(&[2; NONCE_LEN], b"header", &sealed, &mut plain), Err(Forged));
            for at in 0..sealed.len() {
                sealed[at] ^= 1;
                assert_eq!(key.open(&nonce, b"header", &sealed, &mut plain), Err(Forged), "{suite:?} {at}");
                sealed[at] ^= 1;
            }
            assert_eq!(key.open(&nonce, b"header", &sealed[..15], &mut []), Err(Forged));
        }
    }

    /// The samples of RFC 9001 §A.2 and §A.5, whose masks are computed in the same way.
    #[test]
    fn masks_are_those_of_the_rfc() {
        let hex = |text: &str| -> Vec<u8> {
            (0..text.len()).step_by(2).map(|at| u8::from_str_radix(&text[at..at + 2], 16).unwrap()).collect()
        };
        let sample = |text| *hex(text).first_chunk().unwrap();
        let aes = record_keys(
            CipherSuite::Aes128Gcm,
            &[0; 16],
            &hex("9f50449e04a0e810283a1e9933adedd2"),
            [0; NONCE_LEN],
        );
        assert_eq!(aes.key.mask(&sample("d1b1c98dd7689fb8ec11d242b123dc9b")), [0x43, 0x7b]);
        let chacha = record_keys(
            CipherSuite::ChaCha20Poly1305,
            &[0; 32],
            &hex("25a282b9e82f06f21f488917a4fc8f1b73573685608597d0efcb076b0ab7a7a4"),
            [0; NONCE_LEN],
        );
        assert_eq!(chacha.key.mask(&sample("5e5cd55c41f69080575d7999c25a5bfb")), [0xae, 0xfe]);
    }
}
