//! Comparison of files by digest: requests the server's digest (HASH, or a command for one function) while
//! this side reads the local file. No contents are transferred.
//!
//! The function is the best one that the server supports, BLAKE3 first. A server is silent for minutes while
//! it reads a large file, so it is permitted additional silence beyond `--timeout`, in proportion to the size
//! of the requested files.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braidftp_ftp::client::Features;
use braidftp_ftp::command::Command;
use braidftp_ftp::{HashName, PathArg};
use tokio::sync::Semaphore;

use crate::client::{Client, of_reply};
use crate::exit::{Error, Exit, Result, escape};
use crate::store::fs::Root;

/// The maximum number of local files read concurrently.
const READ_AT_ONCE: usize = 4;

/// How the server reports digests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Teller {
    /// By HASH, with this function.
    Hash(HashName),
    /// By a command for one function.
    Own(HashName),
}

impl Teller {
    /// The best method of the server.
    fn of(features: &Features) -> Option<Self> {
        let own = || features.digests.first().copied().map(Self::Own);
        features.hash.first().copied().map(Self::Hash).or_else(own)
    }

    fn name(self) -> HashName {
        let (Self::Hash(name) | Self::Own(name)) = self;
        name
    }

    fn command(self, path: PathArg) -> Command {
        match self {
            Self::Hash(_) => Command::Hash(path),
            Self::Own(HashName::Sha256 | HashName::Blake3) => Command::Sha256(path),
            Self::Own(HashName::Sha512) => Command::Sha512(path),
            Self::Own(HashName::Sha1) => Command::Sha1(path),
            Self::Own(HashName::Md5) => Command::Md5(path),
            Self::Own(HashName::Crc32) => Command::Crc32(path),
        }
    }
}

/// A file on both sides.
#[derive(Debug, Clone)]
pub(crate) struct Pair {
    /// The path on the server.
    pub(crate) remote: PathArg,
    /// The path below the local root.
    pub(crate) local: PathBuf,
    /// The size.
    pub(crate) size: u64,
}

/// Compares files of one session.
#[derive(Debug)]
pub(crate) struct Digests {
    client: Client,
    root: Root,
    teller: Teller,
    turns: Arc<Semaphore>,
    /// Cancels reading when the result is no longer needed.
    stop: Arc<AtomicBool>,
}

impl Drop for Digests {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
    }
}

impl Digests {
    /// Chooses a function that the server supports.
    ///
    /// # Errors
    ///
    /// It supports none, or the session has ended.
    pub(crate) async fn begin(client: &Client, root: &Root) -> Result<Self> {
        let none = |why: &dyn std::fmt::Display| {
            Error::new(Exit::Refused, "compare contents by digest", why).hint(
                "without --checksum a mirror compares sizes and times; braidftp serve and ProFTPD with mod_digest support digests",
            )
        };
        let features = client.features().await?;
        let Some(teller) = Teller::of(&features) else {
            return Err(none(
                &"the server supports no digests: FEAT lists neither HASH nor XSHA256, XMD5 or XCRC",
            ));
        };
        if let Teller::Hash(name) = teller {
            let reply = client.command(Command::Options(format!("HASH {name}").into())).await?;
            if reply.code.is_error() {
                return Err(none(&format_args!("the server does not take OPTS HASH {name}: {reply}")));
            }
        }
        Ok(Self {
            client: client.clone(),
            root: root.clone(),
            teller,
            turns: Arc::new(Semaphore::new(READ_AT_ONCE)),
            stop: Arc::default(),
        })
    }

    /// The function.
    pub(crate) fn name(&self) -> HashName {
        self.teller.name()
    }

    /// Whether each of these files has the same contents on both sides; each file has its own error.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(crate) async fn compare(&self, pairs: Vec<Pair>) -> Result<Vec<Result<bool>>> {
        let mut asked = Vec::with_capacity(pairs.len());
        for Pair { remote, local, size } in pairs {
            let what = format!("compare {}", escape(remote.as_bytes()));
            let patience = self.client.have_patience(size);
            let here = tokio::spawn(read(
                self.root.clone(),
                local,
                self.teller.name(),
                self.turns.clone(),
                self.stop.clone(),
            ));
            let there = self.client.begin_command(self.teller.command(remote)).await?;
            asked.push((what, patience, here, there));
        }
        let mut compared = Vec::with_capacity(asked.len());
        for (what, patience, here, there) in asked {
            let reply = self.client.reply(there).await?;
            drop(patience);
            let here = match here.await {
                Ok(here) => here,
                Err(error) => std::panic::resume_unwind(error.into_panic()),
            };
            compared.push(here.and_then(|here| match self.digest_of(&what, &reply) {
                Ok(there) => Ok(there == here),
                Err(error) => Err(error),
            }));
        }
        Ok(compared)
    }

    fn digest_of(&self, what: &str, reply: &braidftp_ftp::Reply) -> Result<Vec<u8>> {
        if reply.code.is_error() {
            return Err(of_reply(what, reply));
        }
        self.teller.name().find_digest(reply.text()).ok_or_else(|| {
            let why = format_args!("the reply holds no {} digest: \"{reply}\"", self.teller.name());
            Error::new(Exit::Protocol, what, why)
        })
    }
}

/// The digest of a local file.
async fn read(
    root: Root,
    path: PathBuf,
    hash: HashName,
    turns: Arc<Semaphore>,
    stop: Arc<AtomicBool>,
) -> Result<Vec<u8>> {
    let _turn = turns.acquire().await;
    let digested = root.blocking(move |root| root.digest(&path, hash, &stop)).await;
    digested.map(|digested| digested.digest).map_err(|error| Error::store(&error))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_best_function_of_the_server_is_chosen() {
        let features = |hash: &[HashName], digests: &[HashName]| Features {
            hash: hash.to_vec(),
            digests: digests.to_vec(),
            ..Features::default()
        };
        let (md5, sha256, blake3) = (HashName::Md5, HashName::Sha256, HashName::Blake3);
        assert_eq!(Teller::of(&features(&[blake3, md5], &[sha256])), Some(Teller::Hash(blake3)));
        assert_eq!(Teller::of(&features(&[], &[sha256, md5])), Some(Teller::Own(sha256)));
        assert_eq!(Teller::of(&features(&[], &[])), None);
        let path = PathArg::new(&b"a"[..]).unwrap();
        assert_eq!(Teller::Own(md5).command(path.clone()).verb(), "XMD5");
        assert_eq!(Teller::Own(HashName::Crc32).command(path).verb(), "XCRC");
    }
}
