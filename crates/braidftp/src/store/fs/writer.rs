//! Writes a file under a temporary name in its folder, and renames it when it is complete.
//!
//! Under the final name there is either the old file or the complete new one, never a part. The data of an
//! interrupted transfer is kept under the temporary name ([`is_unfinished`](super::is_unfinished)) and can be
//! resumed; data that can never become complete (wrong digest, no space) is removed. Nothing is written to
//! the disk before a block is full or the file is committed; small files are then finished in batches
//! (`batches.rs`).
//!
//! A file has one writer at a time (flock). Within one process a writer with a [`Claimant`] takes the file
//! over from an older writer of the same owner: the older one fails with [`Why::TakenOver`] at its next step
//! and changes nothing more.

use std::path::Path;

use bytes::Bytes;
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::batches::{Finish, Then, Work};
use super::blocks::{Blocks, Permit};
use super::claims::Claimant;
use super::error::{Error, Why};
use super::kept::Allowance;
use super::near::Near;
use super::part_file::{Commit, Holes, PartFile, Start, Written};
use super::reader::{BLOCK_BYTES, Digest};
use super::{Root, blocking};

/// What to do with the data of a transfer that ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// Keep it for resuming.
    ForResume,
    /// Remove it.
    Nothing,
}

/// Writes one file. If a writer is dropped before it is finished, the data on the disk is kept for resuming.
#[derive(Debug)]
pub struct Writer {
    disk: Disk,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    blocks: Blocks,
    /// Permits for the memory of pending data.
    permits: Vec<Permit>,
    permitted_bytes: usize,
    /// The total number of accepted bytes.
    taken_bytes: u64,
}

/// The maximum size of files that are finished in a batch, in bytes: longer ones would delay the others.
const SMALL_BYTES: u64 = 1 << 20;
/// The default permission bits of a new file, before the umask.
const USUAL_MODE: u32 = 0o666;

#[derive(Debug)]
enum Disk {
    Idle(Box<PartFile>),
    Busy(JoinHandle<(Box<PartFile>, Result<(), Error>)>),
    /// In a batch.
    Waits(oneshot::Receiver<(Box<PartFile>, Result<(), Error>)>),
    Failed(Error),
}

/// The step in which memory is taken, in bytes: small for small files, and few steps per block.
const ROOM_BYTES: usize = 64 << 10;
impl Root {
    /// Creates a writer of `path`; nothing happens on the disk yet (see [`Writer::open`]). `size_hint` is the
    /// expected size, if known: opening fails if there is no space for it.
    pub fn writer(&self, path: &Path, start: Start, size_hint: Option<u64>, digest: Digest) -> Writer {
        let core = PartFile {
            root: self.clone(),
            path: path.to_owned(),
            start,
            size_hint,
            digest,
            hasher: None,
            claimant: None,
            claim: None,
            allowance: Allowance::default(),
            holes: Holes::default(),
            new_mode: USUAL_MODE,
        };
        Writer {
            disk: Disk::Idle(Box::new(core)),
            pending: Vec::new(),
            pending_bytes: 0,
            blocks: Blocks::default(),
            permits: Vec::new(),
            permitted_bytes: 0,
            taken_bytes: 0,
        }
    }
}

impl Writer {
    /// Sets the owner of the writer: an older writer of the same owner loses the file. Only before anything
    /// was opened.
    #[must_use]
    pub fn claimed_by(mut self, claimant: Claimant) -> Self {
        if let Disk::Idle(core) = &mut self.disk {
            core.claimant = Some(claimant);
        }
        self
    }

    /// Sets the limits on disk usage.
    #[must_use]
    pub fn within(mut self, allowance: Allowance) -> Self {
        if let Disk::Idle(core) = &mut self.disk {
            core.allowance = allowance;
        }
        self
    }

    /// Sets how long runs of zeros are written.
    #[must_use]
    pub fn holes(mut self, holes: Holes) -> Self {
        if let Disk::Idle(core) = &mut self.disk {
            core.holes = holes;
        }
        self
    }

    /// Sets the source of memory for data that is not on the disk yet.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        self.blocks = blocks;
        self
    }

    /// Opens the file now instead of later, so that an error occurs before the first byte.
    ///
    /// # Errors
    ///
    /// The folder does not exist or is outside the root, no permission, another transfer is writing the same
    /// file and cannot be taken over ([`Why::Busy`]), the offset is beyond the existing data
    /// ([`Why::PastEnd`]), no space.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub async fn open(&mut self) -> Result<(), Error> {
        self.idle().await?;
        if matches!(&self.disk, Disk::Idle(core) if core.claim.is_some()) {
            return Ok(());
        }
        // The size of an upload in braid is not known before its first bytes.
        let is_small = |core: &PartFile| {
            core.start == Start::New && core.size_hint.is_none_or(|size| size <= SMALL_BYTES)
        };
        if !matches!(&self.disk, Disk::Idle(core) if is_small(core)) {
            self.begin(|core| core.claim(&mut Near::default()).map(|_| ()));
            return self.idle().await;
        }
        let mut core = self.core()?;
        let (tell, told) = oneshot::channel();
        core.root.batches.clone().add(Work::Step(Box::new(move |near| {
            let result = core.claim(near).map(|_| ());
            Box::new(move || {
                // A dropped writer releases the file.
                let _ = tell.send((core, result));
            })
        })));
        self.disk = Disk::Waits(told);
        self.idle().await
    }

    /// Sets the expected size, if it became known only now: opening fails if there is no space for it.
    pub fn expect(&mut self, size: u64) {
        if let Disk::Idle(core) = &mut self.disk {
            core.size_hint = Some(size);
        }
    }

    /// Accepts the next bytes. They are on the disk when a later call, or [`Writer::commit`], returns without
    /// error.
    ///
    /// # Errors
    ///
    /// An error of the disk for these bytes or earlier ones; a full disk ([`Why::NoSpace`]) removes what was
    /// written.
    ///
    /// # Cancel safety
    ///
    /// Safe: the bytes are accepted at the first poll; only the waiting is lost.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        if !bytes.is_empty() {
            self.pending_bytes += bytes.len();
            self.taken_bytes += bytes.len() as u64;
            self.pending.push(bytes);
        }
        let room = self.has_room();
        if self.pending_bytes >= BLOCK_BYTES || !room {
            self.idle().await?;
            (self.pending_bytes, self.permitted_bytes) = (0, 0);
            let (blocks, permits) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.permits));
            self.begin(move |core| {
                let _permits = permits;
                core.append(&blocks, &mut Near::default())
            });
            if !room {
                // No more than a block is pending: the disk must accept it before more is accepted.
                self.idle().await?;
            }
        }
        match &self.disk {
            Disk::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Whether the pending bytes may be kept in memory.
    fn has_room(&mut self) -> bool {
        while self.permitted_bytes < self.pending_bytes {
            let Some(permit) = self.blocks.take(ROOM_BYTES) else { return false };
            self.permitted_bytes += permit.bytes();
            self.permits.push(permit);
        }
        true
    }

    /// Whether [`Writer::commit_small`] is possible: the file is small, and no work on it is in progress.
    pub fn is_small(&self) -> bool {
        matches!(&self.disk, Disk::Idle(core) if core.start == Start::New) && self.taken_bytes <= SMALL_BYTES
    }

    /// Writes the remaining bytes, checks, syncs and renames.
    ///
    /// # Errors
    ///
    /// As [`Writer::write`]; [`Why::WrongLength`] (a file that is too short is kept for resuming) and
    /// [`Why::WrongDigest`] (removed); the final name is a folder.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the file was renamed.
    pub async fn commit(self, commit: Commit) -> Result<Written, Error> {
        let (tell, told) = oneshot::channel();
        self.commit_then(commit, move |result| {
            // The receiver may be gone.
            let _ = tell.send(result);
        })
        .await;
        told.await.unwrap_or_else(|_| Err(Error::gone()))
    }

    /// The same; `then` is called with the result, on a thread that may block. For a small file this returns
    /// earlier.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the file was renamed and whether `then` is called.
    pub async fn commit_then(
        mut self,
        commit: Commit,
        then: impl FnOnce(Result<Written, Error>) + Send + 'static,
    ) {
        if let Err(error) = self.idle().await {
            return then(Err(error));
        }
        if self.is_small() {
            return self.commit_small(commit, then);
        }
        let mut core = match self.core_of(commit) {
            Ok(core) => core,
            Err(error) => return then(Err(error)),
        };
        let (blocks, _permits) = (self.pending, self.permits);
        let result = blocking(move || {
            let near = &mut Near::default();
            core.append(&blocks, near)?;
            core.commit(commit)
        });
        then(result.await);
    }

    /// The same without waiting, for a file that [is small](Self::is_small).
    pub fn commit_small(
        mut self,
        commit: Commit,
        then: impl FnOnce(Result<Written, Error>) + Send + 'static,
    ) {
        let core = match self.core_of(commit) {
            Ok(core) => core,
            Err(error) => return then(Err(error)),
        };
        let (blocks, then) = (self.pending, Then::new(then));
        let work = Finish { core, blocks, _permits: self.permits, commit, then };
        work.core.root.batches.clone().add(Work::Finish(Box::new(work)));
    }

    /// Ends the transfer without a complete file.
    ///
    /// # Errors
    ///
    /// The disk could not store the remaining bytes, or the temporary file could not be removed.
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown what was kept.
    pub async fn abandon(mut self, keep: Keep) -> Result<(), Error> {
        self.idle().await?;
        let blocks = std::mem::take(&mut self.pending);
        let mut core = self.core()?;
        blocking(move || match keep {
            Keep::ForResume if blocks.is_empty() => Ok(()),
            Keep::ForResume => core.append(&blocks, &mut Near::default()),
            Keep::Nothing => core.remove(),
        })
        .await
    }

    /// The state for the last step: a file that is not open yet is created with its mode.
    fn core_of(&mut self, commit: Commit) -> Result<Box<PartFile>, Error> {
        let mut core = self.core()?;
        if core.claim.is_none() {
            core.new_mode = commit.mode.unwrap_or(USUAL_MODE) & 0o777;
        }
        Ok(core)
    }

    fn core(&mut self) -> Result<Box<PartFile>, Error> {
        // Temporary: the callers consume `self`.
        match std::mem::replace(
            &mut self.disk,
            Disk::Failed(Error::new("write to", Path::new(""), Why::Busy)),
        ) {
            Disk::Idle(core) => Ok(core),
            Disk::Failed(error) => Err(error),
            Disk::Busy(_) | Disk::Waits(_) => unreachable!("awaited before"),
        }
    }

    /// Waits until no work is in progress.
    async fn idle(&mut self) -> Result<(), Error> {
        if let Disk::Busy(task) = &mut self.disk {
            self.disk = match task.await {
                Ok((core, Ok(()))) => Disk::Idle(core),
                Ok((_, Err(error))) => Disk::Failed(error),
                Err(join) => match join.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => std::future::pending().await,
                },
            };
        }
        if let Disk::Waits(told) = &mut self.disk {
            self.disk = match told.await {
                Ok((core, Ok(()))) => Disk::Idle(core),
                Ok((_, Err(error))) => Disk::Failed(error),
                Err(_) => Disk::Failed(Error::gone()),
            };
        }
        match &self.disk {
            Disk::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, work: impl FnOnce(&mut PartFile) -> Result<(), Error> + Send + 'static) {
        match self.core() {
            Ok(mut core) => {
                self.disk = Disk::Busy(tokio::task::spawn_blocking(move || {
                    let result = work(&mut core);
                    (core, result)
                }));
            }
            Err(error) => self.disk = Disk::Failed(error),
        }
    }
}
