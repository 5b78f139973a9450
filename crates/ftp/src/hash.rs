//! The names of hash functions in HASH (draft-bryan-ftpext-hash) and in the older commands for one function
//! each (XCRC, XMD5, XSHA1, XSHA256, XSHA512).
//!
//! The caller computes the digests. BLAKE3 is not in the draft; braid uses it for every transfer.

use std::fmt;
use std::str::FromStr;

/// A hash function over the bytes of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum HashName {
    /// BLAKE3, 32 bytes.
    Blake3,
    /// SHA-256 (FIPS 180-4).
    Sha256,
    /// SHA-512 (FIPS 180-4).
    Sha512,
    /// SHA-1: detects accidental damage, not attacks.
    Sha1,
    /// MD5: detects accidental damage, not attacks.
    Md5,
    /// CRC-32 of IEEE 802.3: detects accidental damage, not attacks.
    Crc32,
}

impl HashName {
    /// All functions, in order of preference.
    pub const ALL: [Self; 6] = [Self::Blake3, Self::Sha256, Self::Sha512, Self::Sha1, Self::Md5, Self::Crc32];

    /// The number of bytes of a digest.
    pub const fn digest_bytes(self) -> usize {
        match self {
            Self::Blake3 | Self::Sha256 => 32,
            Self::Sha512 => 64,
            Self::Sha1 => 20,
            Self::Md5 => 16,
            Self::Crc32 => 4,
        }
    }

    /// The name in FEAT, OPTS HASH and the reply to HASH.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Blake3 => "BLAKE3",
            Self::Sha256 => "SHA-256",
            Self::Sha512 => "SHA-512",
            Self::Sha1 => "SHA-1",
            Self::Md5 => "MD5",
            Self::Crc32 => "CRC32",
        }
    }

    /// Parses a digest in hexadecimal. Servers drop leading zeros of a CRC.
    pub fn parse_digest(self, text: &[u8]) -> Option<Vec<u8>> {
        let digits = 2 * self.digest_bytes();
        let fits = text.len() == digits || (self == Self::Crc32 && (1..digits).contains(&text.len()));
        let text = std::str::from_utf8(text).ok().filter(|_| fits)?;
        let padded = format!("{text:0>digits$}");
        let byte = |at| u8::from_str_radix(padded.get(at..at + 2)?, 16).ok();
        (0..digits).step_by(2).map(byte).collect::<Option<Vec<u8>>>().filter(|_| !text.contains('+'))
    }

    /// The digest in a reply to HASH (`213 NAME RANGE DIGEST PATH`), or to one of the older commands, whose forms differ: the
    /// first word that is a digest of this function.
    pub fn find_digest(self, text: &[u8]) -> Option<Vec<u8>> {
        let mut words = text.split(|byte| *byte == b' ' || *byte == b'\r');
        match words.clone().next()?.eq_ignore_ascii_case(self.name().as_bytes()) {
            true => self.parse_digest(words.nth(2)?),
            false => words.find_map(|word| self.parse_digest(word)),
        }
    }
}

impl fmt::Display for HashName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl FromStr for HashName {
    type Err = ();

    fn from_str(text: &str) -> Result<Self, ()> {
        Self::ALL.into_iter().find(|hash| hash.name().eq_ignore_ascii_case(text.trim())).ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_found_in_the_replies_of_different_servers() {
        let md5 = "900150983cd24fb0d6963f7d28e17f72";
        let digest = HashName::Md5.parse_digest(md5.as_bytes()).unwrap();
        assert_eq!((digest.len(), digest[0]), (16, 0x90));
        for text in [
            format!("MD5 0-3 {md5} name with spaces"),
            md5.to_uppercase(),
            format!("\"/a b\" {md5}"),
            format!("Computing MD5 digest done {md5}"),
        ] {
            assert_eq!(HashName::Md5.find_digest(text.as_bytes()), Some(digest.clone()), "{text}");
        }
        assert_eq!(HashName::Crc32.find_digest(b"F00D"), Some(vec![0, 0, 0xf0, 0x0d]));
    }

    #[test]
    fn text_without_a_digest_is_rejected() {
        for text in
            ["", " ", "MD5", "MD5 0-3", "MD5 0-3 xyz", "no such file", "900150983cd24fb0d6963f7d28e17f7"]
        {
            assert_eq!(HashName::Md5.find_digest(text.as_bytes()), None, "{text}");
        }
        // A file name that has the form of a digest is not the reply's digest.
        let name = "0".repeat(32);
        assert_eq!(HashName::Md5.find_digest(format!("MD5 0-3 bad {name}").as_bytes()), None);
        assert_eq!(HashName::Crc32.parse_digest(b"+f00d"), None);
        assert_eq!(HashName::Sha256.parse_digest("é".repeat(32).as_bytes()), None);
    }
}
