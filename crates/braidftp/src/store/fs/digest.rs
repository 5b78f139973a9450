//! The digest of a complete file by any hash function of FTP, read in blocks.

use std::io::Read;
use std::path::Path;
use std::sync::atomic::{AtomicBool, Ordering};

use braidftp_ftp::HashName;
use cap_std::fs::OpenOptions;
use rustix::fs::OFlags;
use sha2::Digest as _;

use super::error::{Error, Why};
use super::reader::BLOCK_BYTES;
use super::{Kind, Metadata, Root, kind_of};

/// The digest of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Digested {
    /// The digest.
    pub digest: Vec<u8>,
    /// The number of bytes of the file.
    pub bytes: u64,
}

impl Root {
    /// Reads a regular file to its end and returns its digest; blocks. Links are followed within the root.
    /// Ends early, with [`Why::Busy`], when `stop` becomes true.
    ///
    /// # Errors
    ///
    /// The file does not exist, is not a regular file, is not readable, or is outside the root.
    pub fn digest(&self, path: &Path, hash: HashName, stop: &AtomicBool) -> Result<Digested, Error> {
        let what = "read";
        // NONBLOCK: a pipe without a writer must not block the thread.
        let file = self.open_with(what, path, OFlags::NONBLOCK, OpenOptions::new().read(true))?;
        let stat = rustix::fs::fstat(&file).map_err(|e| Error::io(what, path, &e.into()))?;
        let metadata = Metadata::from_stat(&stat, kind_of(&stat));
        match metadata.kind {
            Kind::File => {}
            Kind::Folder => return Err(Error::new(what, path, Why::IsAFolder)),
            Kind::Link(_) | Kind::Other => return Err(Error::new(what, path, Why::NotAFile)),
        }
        // A small file needs no full-sized block.
        let room = (metadata.size as usize).saturating_add(1).clamp(4 << 10, BLOCK_BYTES);
        let (mut file, mut block, mut hashing) = (file, vec![0; room], Hashing::new(hash));
        loop {
            if stop.load(Ordering::Relaxed) {
                return Err(Error::new(what, path, Why::Busy));
            }
            match file.read(&mut block) {
                Ok(0) => return Ok(hashing.finish()),
                Ok(read) => hashing.update(&block[..read]),
                Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
                Err(error) => return Err(Error::io(what, path, &error)),
            }
        }
    }
}

/// A digest in progress.
#[derive(Debug)]
pub struct Hashing {
    function: Function,
    bytes: u64,
}

#[derive(Debug)]
enum Function {
    Blake3(Box<blake3::Hasher>),
    Sha256(sha2::Sha256),
    Sha512(sha2::Sha512),
    Sha1(sha1::Sha1),
    Md5(md5::Md5),
    Crc32(crc_fast::Digest),
}

impl Hashing {
    /// Begins with no bytes.
    pub fn new(hash: HashName) -> Self {
        let function = match hash {
            HashName::Blake3 => Function::Blake3(Box::default()),
            HashName::Sha256 => Function::Sha256(sha2::Sha256::new()),
            HashName::Sha512 => Function::Sha512(sha2::Sha512::new()),
            HashName::Sha1 => Function::Sha1(sha1::Sha1::new()),
            HashName::Md5 => Function::Md5(md5::Md5::new()),
            HashName::Crc32 => Function::Crc32(crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32IsoHdlc)),
        };
        Self { function, bytes: 0 }
    }

    /// Adds bytes.
    pub fn update(&mut self, bytes: &[u8]) {
        self.bytes += bytes.len() as u64;
        match &mut self.function {
            Function::Blake3(hasher) => {
                hasher.update(bytes);
            }
            Function::Sha256(hasher) => hasher.update(bytes),
            Function::Sha512(hasher) => hasher.update(bytes),
            Function::Sha1(hasher) => hasher.update(bytes),
            Function::Md5(hasher) => hasher.update(bytes),
            Function::Crc32(crc) => crc.update(bytes),
        }
    }

    /// The digest of all bytes.
    pub fn finish(self) -> Digested {
        let digest = match self.function {
            Function::Blake3(hasher) => hasher.finalize().as_bytes().to_vec(),
            Function::Sha256(hasher) => hasher.finalize().to_vec(),
            Function::Sha512(hasher) => hasher.finalize().to_vec(),
            Function::Sha1(hasher) => hasher.finalize().to_vec(),
            Function::Md5(hasher) => hasher.finalize().to_vec(),
            Function::Crc32(crc) => (crc.finalize() as u32).to_be_bytes().to_vec(),
        };
        Digested { digest, bytes: self.bytes }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_digest_is_that_of_the_named_function() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("abc"), "abc").unwrap();
        let root = Root::open(dir.path()).unwrap();
        let stop = AtomicBool::new(false);
        for (hash, expected) in [
            (HashName::Blake3, "6437b3ac38465133ffb63b75273a8db548c558465d79db03fd359c6cd5bd9d85"),
            (HashName::Sha256, "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad"),
            (HashName::Sha1, "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (HashName::Md5, "900150983cd24fb0d6963f7d28e17f72"),
            (HashName::Crc32, "352441c2"),
        ] {
            let digested = root.digest(Path::new("abc"), hash, &stop).unwrap();
            assert_eq!(digested.bytes, 3);
            assert_eq!(hash.parse_digest(expected.as_bytes()), Some(digested.digest), "{hash}");
        }
        // The file has more bytes than a block.
        let long: Vec<u8> = (0..3 * BLOCK_BYTES + 7).map(|n| (n / 3) as u8).collect();
        std::fs::write(dir.path().join("long"), &long).unwrap();
        let digested = root.digest(Path::new("long"), HashName::Blake3, &stop).unwrap();
        assert_eq!(digested.digest, blake3::hash(&long).as_bytes());
        assert_eq!(root.digest(Path::new(""), HashName::Md5, &stop).unwrap_err().why, Why::IsAFolder);
        stop.store(true, Ordering::Relaxed);
        assert_eq!(root.digest(Path::new("abc"), HashName::Md5, &stop).unwrap_err().why, Why::Busy);
    }
}
