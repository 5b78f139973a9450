//! A file written under another name in its folder, and renamed when it is whole.
//!
//! Who looks at the final name sees the old file or all of the new one, never half. What an interrupted transfer
//! leaves is kept under the other name ([`is_unfinished`](super::is_unfinished)) and can be continued; what cannot
//! become whole (wrong digest, no space) is removed. Nothing touches the disk before a block is full or the file is
//! committed; small files are then finished in batches (`batches.rs`).
//!
//! One writer at a time has a file (flock). Within one process a writer with a [`Claimant`] takes the file over from an
//! older writer of the same owner: the older one fails with [`Why::TakenOver`] at its next step and changes nothing more.

use std::fs::File;
use std::io::{IoSlice, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Timestamps};
use tokio::sync::oneshot;
use tokio::task::JoinHandle;

use super::batches::{Near, Work};
use super::blocks::{Blocks, Permit};
use super::claims::{Claim, Claimant};
use super::error::{Error, Why};
use super::kept::Allowance;
use super::reader::{BLOCK_BYTES, Digest};
use super::{Root, blocking, metadata_at, name, timespec};

/// Where in the file the first byte written shall lie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// At its beginning; what an interrupted transfer left is forgotten.
    New,
    /// After so many bytes of what an interrupted transfer left, or else of the file that bears the name.
    At(u64),
    /// After all of the file that bears the name, if any.
    Append,
}

/// What to check and set when the file is whole.
#[derive(Debug, Clone, Copy, Default)]
pub struct Commit {
    /// Bytes there must be in all.
    pub length: Option<u64>,
    /// BLAKE3 that must come out; the writer must have been asked to make one.
    pub digest: Option<[u8; 32]>,
    /// When the contents last changed, if that shall be kept.
    pub modified: Option<SystemTime>,
    /// Permission bits, if they shall be kept.
    pub mode: Option<u32>,
    /// What must have reached the disk before the name appears.
    pub durability: Durability,
}

/// What a power cut may take.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: bytes before the rename, the rename before the answer.
    #[default]
    Full,
    /// The rename, so that the file is unfinished again; never the bytes under a final name.
    Bytes,
    /// Anything. For copies that can be made again.
    None,
}

/// What becomes of long runs of zeros.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Holes {
    /// They become holes, which take no room on the disk.
    #[default]
    Make,
    /// They are written like other bytes.
    Fill,
}

/// What becomes of the bytes of a transfer that ended early.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keep {
    /// They stay, to be continued.
    ForResume,
    /// They go.
    Nothing,
}

/// What was written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// Bytes in the file, all told.
    pub length: u64,
    /// BLAKE3 of what [`Digest`] said.
    pub digest: Option<[u8; 32]>,
}

/// Writes one file. Dropping it unfinished keeps what has reached the disk, for a later continuation.
#[derive(Debug)]
pub struct Writer {
    disk: Disk,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    blocks: Blocks,
    /// The right to hold what is pending.
    permits: Vec<Permit>,
    permitted_bytes: usize,
    /// Bytes taken in all.
    taken_bytes: u64,
}

/// A file of no more bytes is finished in a batch: what is longer would hold the others up.
const SMALL_BYTES: u64 = 1 << 20;
/// Permission bits of a new file of which nothing else is said, before the umask.
const USUAL_MODE: u32 = 0o666;

#[derive(Debug)]
enum Disk {
    Idle(Box<Core>),
    Busy(JoinHandle<(Box<Core>, Result<(), Error>)>),
    /// In a batch.
    Waits(oneshot::Receiver<(Box<Core>, Result<(), Error>)>),
    Failed(Error),
}

/// What travels to the thread that waits for the disk, and back.
#[derive(Debug)]
struct Core {
    root: Root,
    path: PathBuf,
    start: Start,
    size_hint: Option<u64>,
    digest: Digest,
    hasher: Option<Box<blake3::Hasher>>,
    claimant: Option<Claimant>,
    claim: Option<Arc<Claim>>,
    allowance: Allowance,
    holes: Holes,
    /// What the file is made with, so that it need not be changed later.
    new_mode: u32,
}

/// A file whose bytes are all here, and who is to be told.
pub(super) struct Finish {
    core: Box<Core>,
    blocks: Vec<Bytes>,
    _permits: Vec<Permit>,
    commit: Commit,
    then: Box<dyn FnOnce(Result<Written, Error>) + Send>,
}

/// An unfinished file, open and locked.
#[derive(Debug)]
pub(super) struct Open {
    dir: Arc<Dir>,
    part: PathBuf,
    file: File,
    /// Permission bits that it was found with.
    mode: u32,
    /// Bytes in it, with those of a hole at its end.
    length: u64,
    /// Whether it ends with a hole that the file system does not know of yet.
    ends_with_hole: bool,
}

/// Zeros in a row that become a hole at least, in bytes: for fewer, another system call costs more than the room is worth.
const HOLE_BYTES: usize = 32 << 10;
/// Bytes that are looked at together.
const LOOK_BYTES: usize = 4 << 10;

/// Room is taken in steps of so many bytes: a small file takes little, and a block few of them.
const ROOM_BYTES: usize = 64 << 10;
/// How often, and after which pause, a lock is tried again whose holder in this process has not been entered yet.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

impl Root {
    /// A writer of `path`; nothing happens on the disk yet (see [`Writer::open`]). `size_hint` is how long the file
    /// will be, if known: if there is no room for it, opening fails.
    pub fn writer(&self, path: &Path, start: Start, size_hint: Option<u64>, digest: Digest) -> Writer {
        let core = Core {
            root: self.clone(),
            path: path.to_owned(),
            start,
            size_hint,
            digest,
            hasher: (digest != Digest::None).then(Default::default),
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
    /// Says for whom the file is written: an older writer of the same owner gives it up. Only before anything was opened.
    #[must_use]
    pub fn claimed_by(mut self, claimant: Claimant) -> Self {
        if let Disk::Idle(core) = &mut self.disk {
            core.claimant = Some(claimant);
        }
        self
    }

    /// Says how much of the disk it may take.
    #[must_use]
    pub fn within(mut self, allowance: Allowance) -> Self {
        if let Disk::Idle(core) = &mut self.disk {
            core.allowance = allowance;
        }
        self
    }

    /// Says what becomes of long runs of zeros.
    #[must_use]
    pub fn holes(mut self, holes: Holes) -> Self {
        if let Disk::Idle(core) = &mut self.disk {
            core.holes = holes;
        }
        self
    }

    /// Says where room comes from for what is not on the disk yet.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        self.blocks = blocks;
        self
    }

    /// Opens now what would be opened later, so that a refusal comes before the first byte.
    ///
    /// # Errors
    /// The folder is not there or leads outside, no rights, another transfer is writing the same file and does not give
    /// way ([`Why::Busy`]), the place to begin at lies beyond what is there ([`Why::PastEnd`]), no space.
    ///
    /// # Cancel safety
    /// Safe.
    pub async fn open(&mut self) -> Result<(), Error> {
        self.idle().await?;
        let is_small =
            |core: &Core| core.start == Start::New && core.size_hint.is_some_and(|size| size <= SMALL_BYTES);
        if !matches!(&self.disk, Disk::Idle(core) if is_small(core)) {
            self.begin(|core| core.claim(&mut Near::default()).map(|_| ()));
            return self.idle().await;
        }
        let mut core = self.core()?;
        let (tell, told) = oneshot::channel();
        core.root.batches.clone().add(Work::Step(Box::new(move |near| {
            let result = core.claim(near).map(|_| ());
            // A writer that is gone gives the file up.
            let _ = tell.send((core, result));
        })));
        self.disk = Disk::Waits(told);
        self.idle().await
    }

    /// The file will be so long, as is known only now. If there is no room for it, opening fails.
    pub fn expect(&mut self, size: u64) {
        if let Disk::Idle(core) = &mut self.disk {
            core.size_hint = Some(size);
        }
    }

    /// Takes the next bytes. They are on the disk when a later call, or [`Writer::commit`], says so.
    ///
    /// # Errors
    /// What the disk said to these bytes or to those before; a full disk ([`Why::NoSpace`]) removes what was
    /// written.
    ///
    /// # Cancel safety
    /// Safe: the bytes are taken at the first poll; only the waiting is lost.
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
                // Nothing waits here for a whole block: the disk has it before more is taken.
                self.idle().await?;
            }
        }
        match &self.disk {
            Disk::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    /// Whether what is pending may be held.
    fn has_room(&mut self) -> bool {
        while self.permitted_bytes < self.pending_bytes {
            let Some(permit) = self.blocks.take(ROOM_BYTES) else { return false };
            self.permitted_bytes += permit.bytes();
            self.permits.push(permit);
        }
        true
    }

    /// Writes what is left, checks, syncs, renames.
    ///
    /// # Errors
    /// As [`Writer::write`]; [`Why::WrongLength`] (what is short is kept, to be continued) and [`Why::WrongDigest`]
    /// (removed); a folder bears the name.
    ///
    /// # Cancel safety
    /// Not safe: whether the file appears is not known.
    pub async fn commit(self, commit: Commit) -> Result<Written, Error> {
        let (tell, told) = oneshot::channel();
        self.commit_then(commit, move |result| {
            // Whoever asked may be gone.
            let _ = tell.send(result);
        })
        .await;
        told.await.unwrap_or_else(|_| Err(gone()))
    }

    /// The same; `then` is told how it went, on a thread that may wait for the disk. Of a small file this returns before.
    ///
    /// # Cancel safety
    /// Not safe: whether the file appears, and whether `then` is told, is not known.
    pub async fn commit_then(
        mut self,
        commit: Commit,
        then: impl FnOnce(Result<Written, Error>) + Send + 'static,
    ) {
        if let Err(error) = self.idle().await {
            return then(Err(error));
        }
        let (blocks, _permits) = (std::mem::take(&mut self.pending), std::mem::take(&mut self.permits));
        let mut core = match self.core() {
            Ok(core) => core,
            Err(error) => return then(Err(error)),
        };
        if core.claim.is_none() {
            core.new_mode = commit.mode.unwrap_or(USUAL_MODE) & 0o777;
        }
        if core.start == Start::New && self.taken_bytes <= SMALL_BYTES {
            let batches = core.root.batches.clone();
            batches.add(Work::Finish(Box::new(Finish {
                core,
                blocks,
                _permits,
                commit,
                then: Box::new(then),
            })));
            return;
        }
        let result = blocking(move || {
            let near = &mut Near::default();
            core.append(&blocks, near)?;
            core.commit(commit)
        });
        then(result.await);
    }

    /// Ends the transfer without a file.
    ///
    /// # Errors
    /// The disk could not take what was left, or the unfinished file could not be removed.
    ///
    /// # Cancel safety
    /// Not safe: what is kept is not known.
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

    fn core(&mut self) -> Result<Box<Core>, Error> {
        // Only for the moment: `self` is consumed by those who call this.
        match std::mem::replace(
            &mut self.disk,
            Disk::Failed(Error::new("write to", Path::new(""), Why::Busy)),
        ) {
            Disk::Idle(core) => Ok(core),
            Disk::Failed(error) => Err(error),
            Disk::Busy(_) | Disk::Waits(_) => unreachable!("awaited before"),
        }
    }

    /// Waits until nothing is under way.
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
                Err(_) => Disk::Failed(gone()),
            };
        }
        match &self.disk {
            Disk::Failed(error) => Err(error.clone()),
            _ => Ok(()),
        }
    }

    fn begin(&mut self, work: impl FnOnce(&mut Core) -> Result<(), Error> + Send + 'static) {
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

/// The error of a file that went down with the thread that had it.
fn gone() -> Error {
    Error::io("write to", Path::new(""), &std::io::Error::other("the thread that wrote it has ended"))
}

/// Finishes small files together: all bytes first, then all syncs, then all names.
pub(super) fn finish(batch: Vec<Finish>, near: &mut Near) {
    let mut whole = Vec::with_capacity(batch.len());
    for mut work in batch {
        let blocks = std::mem::take(&mut work.blocks);
        match work.core.append(&blocks, near).and_then(|()| work.core.claim(near)) {
            Ok(claim) => whole.push((work, claim)),
            Err(error) => work.tell(Err(error)),
        }
    }
    // Held to the end: a newer writer waits, and finds the file under its name. Nobody waits for one of them who holds another.
    let mut held: Vec<_> = whole.iter().map(|(_, claim)| claim.lock()).collect();
    let each = || 0..whole.len();
    let mut results: Vec<_> =
        each().map(|at| whole[at].0.core.prepare(&mut held[at], whole[at].0.commit)).collect();
    let mut step = |what: &dyn Fn(&Core, &mut Held<'_>, Commit) -> Result<(), Error>| {
        for at in each() {
            if let Ok(written) = results[at] {
                let Finish { core, commit, .. } = &whole[at].0;
                results[at] = what(core, &mut held[at], *commit).map(|()| written);
            }
        }
    };
    step(&|core, held, commit| core.sync(held, commit));
    step(&|core, held, _| core.rename(held));
    // Files of one folder were opened in different batches, each with the folder open anew.
    let synced = std::cell::Cell::new(None::<(u64, u64)>);
    step(&|core, held, commit| {
        let Some(open) = held.take() else { return Ok(()) };
        if commit.durability != Durability::Full {
            return Ok(());
        }
        let stat = rustix::fs::fstat(&open.dir).map_err(|e| core.fail(e))?;
        let folder = Some((stat.st_dev, stat.st_ino));
        if synced.get() != folder {
            core.sync_folder(&open.dir)?;
            synced.set(folder);
        }
        Ok(())
    });
    drop(held);
    for ((work, claim), result) in whole.into_iter().zip(results) {
        drop(claim);
        work.tell(result);
    }
}

impl Finish {
    /// Tells, when nothing holds the file any more.
    fn tell(self, result: Result<Written, Error>) {
        let Self { core, then, .. } = self;
        drop(core);
        then(result);
    }
}

/// A writer's file, while nobody may take it over.
type Held<'a> = MutexGuard<'a, Option<Open>>;

impl Core {
    fn claim(&mut self, near: &mut Near) -> Result<Arc<Claim>, Error> {
        match &self.claim {
            Some(claim) => Ok(claim.clone()),
            None => {
                let claim = self.open_part(near)?;
                self.claim = Some(claim.clone());
                Ok(claim)
            }
        }
    }

    fn taken_over(&self) -> Error {
        Error::new("write to", &self.path, Why::TakenOver)
    }

    fn open_part(&mut self, near: &mut Near) -> Result<Arc<Claim>, Error> {
        let what = "write to";
        let fail = |e: rustix::io::Errno| Error::io(what, &self.path, &e.into());
        let Some(name) = self.path.file_name() else {
            return Err(Error::new(what, &self.path, Why::BadName("it names no file")));
        };
        let parent = self.path.parent().unwrap_or(Path::new(""));
        let dir =
            near.folder(&self.root, what, parent).map_err(|e| Error { path: self.path.clone(), ..e })?;
        // Said now rather than by rename at the end.
        if let Ok(metadata) = metadata_at(&*dir, Path::new(name))
            && metadata.kind == super::Kind::Folder
        {
            return Err(Error::new(what, &self.path, Why::IsAFolder));
        }
        let part = name::unfinished(name);
        let (file, stat) = self.locked(&dir, &part).map_err(fail)?;
        let left = stat.st_size as u64;
        let mode = stat.st_mode & 0o7777;
        let open = Open { dir, part, file, mode, length: left, ends_with_hole: false };
        let claim = self.root.claims.enter((stat.st_dev, stat.st_ino), self.claimant.clone(), open);
        let mut held = claim.lock();
        // A still newer writer may have been as quick.
        let Some(open) = held.as_mut() else { return Err(self.taken_over()) };

        let begun = (|| {
            open.length = match self.start {
                Start::New => 0,
                Start::At(offset) if left >= offset => offset,
                Start::At(offset) => self.copy_old(&mut open.file, Some(offset))?,
                Start::Append => self.copy_old(&mut open.file, None)?,
            };
            if left > 0 || open.length > 0 {
                rustix::fs::ftruncate(&open.file, open.length).map_err(fail)?;
                rustix::fs::seek(&open.file, rustix::fs::SeekFrom::Start(open.length)).map_err(fail)?;
            }
            // Said before the first byte rather than after the last that fits. Nothing is claimed: the hint is a
            // peer's word, and must not take the room of others.
            self.check_room(self.size_hint.map_or(0, |size| size.saturating_sub(open.length)), near)
        })();
        if let Err(error) = begun {
            // A place to begin at that is not there says nothing about what is: that stays.
            if left == 0 {
                let _ = rustix::fs::unlinkat(&open.dir, &open.part, AtFlags::empty());
            }
            *held = None;
            return Err(error);
        }
        if self.digest == Digest::Whole && open.length > 0 {
            let hasher = self.hasher.get_or_insert_default();
            let mut before = std::io::Read::take(
                reopen(&open.dir, &open.part).map_err(|e| Error::io(what, &self.path, &e.into()))?,
                open.length,
            );
            hasher.update_reader(&mut before).map_err(|e| Error::io(what, &self.path, &e))?;
        }
        drop(held);
        if let Some(kept) = &self.allowance.kept {
            kept.taken(&self.path);
        }
        Ok(claim)
    }

    /// Whether so many bytes more leave the reserve free.
    fn check_room(&self, more: u64, near: &mut Near) -> Result<(), Error> {
        let free = near.free_bytes(&self.root)?;
        let reserve = self.allowance.reserve_bytes;
        if more > free.saturating_sub(reserve) || (reserve > 0 && free < reserve) {
            return Err(Error::new("write to", &self.path, Why::NoSpace));
        }
        Ok(())
    }

    /// Opens or makes the unfinished file, locked against a second writer.
    fn locked(&self, dir: &Dir, part: &Path) -> Result<(File, rustix::fs::Stat), rustix::io::Errno> {
        // NOFOLLOW and NONBLOCK: whatever else bears the name is not ours to open.
        let flags = OFlags::RDWR | OFlags::CREATE | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let mut tries = 0;
        loop {
            let file: File = rustix::fs::openat(dir, part, flags, Mode::from_raw_mode(self.new_mode))?.into();
            let file = match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
                Ok(()) => file,
                Err(rustix::io::Errno::WOULDBLOCK) => {
                    let stat = rustix::fs::fstat(&file)?;
                    let claimant = self.claimant.as_ref().ok_or(rustix::io::Errno::WOULDBLOCK)?;
                    match self.root.claims.take_over((stat.st_dev, stat.st_ino), claimant) {
                        Some(open) => open.file,
                        None if tries < LOCK_TRIES => {
                            tries += 1;
                            std::thread::sleep(LOCK_PAUSE);
                            continue;
                        }
                        None => return Err(rustix::io::Errno::WOULDBLOCK),
                    }
                }
                Err(error) => return Err(error),
            };
            // Between open and lock its former writer may have renamed it to its final name: then it is not ours.
            let (mine, stat) = (rustix::fs::fstat(&file)?, metadata_at(dir, part));
            if stat.is_ok_and(|named| named.identity == (mine.st_dev, mine.st_ino)) {
                return Ok((file, mine));
            }
        }
    }

    /// Copies the first bytes (all, if not told how many) of the file that bears the name now.
    fn copy_old(&self, to: &mut File, first: Option<u64>) -> Result<u64, Error> {
        use std::io::{Seek, SeekFrom};
        let what = "write to";
        let options = &mut OpenOptions::new();
        let old = match self.root.open_with(what, &self.path, OFlags::NONBLOCK, options.read(true)) {
            Ok(old) => old,
            Err(error) if error.why == Why::NotFound => {
                return match first {
                    None | Some(0) => Ok(0),
                    Some(_) => Err(Error::new(what, &self.path, Why::PastEnd { size: 0 })),
                };
            }
            Err(error) => return Err(error),
        };
        let metadata = old.metadata().map_err(|e| Error::io(what, &self.path, &e))?;
        if !metadata.is_file() {
            return Err(Error::new(what, &self.path, Why::NotAFile));
        }
        let wanted = first.unwrap_or(metadata.len());
        if wanted > metadata.len() {
            return Err(Error::new(what, &self.path, Why::PastEnd { size: metadata.len() }));
        }
        let copied = to
            .seek(SeekFrom::Start(0))
            .and_then(|_| std::io::copy(&mut std::io::Read::take(&old, wanted), to))
            .map_err(|e| Error::io(what, &self.path, &e))?;
        if copied != wanted {
            return Err(Error::new(what, &self.path, Why::PastEnd { size: copied }));
        }
        Ok(copied)
    }

    fn append(&mut self, blocks: &[Bytes], near: &mut Near) -> Result<(), Error> {
        let claim = self.claim(near)?;
        let more = blocks.iter().map(|block| block.len() as u64).sum::<u64>();
        if self.allowance.reserve_bytes > 0
            && more > 0
            && let Err(error) = self.check_room(more, near)
        {
            self.remove()?;
            return Err(error);
        }
        let mut held = claim.lock();
        let Some(open) = held.as_mut() else { return Err(self.taken_over()) };
        let result = match self.holes {
            Holes::Make if more >= HOLE_BYTES as u64 => write_sparsely(&mut open.file, blocks),
            _ => write_all(&mut open.file, blocks.iter().map(|block| &block[..])).map(|()| false),
        };
        if more > 0 {
            open.ends_with_hole = matches!(result, Ok(true));
        }
        open.length += more;
        near.took(more);
        drop(held);
        if let Err(e) = result {
            let error = Error::io("write to", &self.path, &e);
            if error.why == Why::NoSpace {
                // Half a file would only keep the disk full.
                self.remove()?;
            }
            return Err(error);
        }
        if let Some(hasher) = &mut self.hasher {
            match blocks {
                [one] => hasher.update(one),
                // BLAKE3 is several times faster on many kilobytes at once than on the packets they came in.
                many => hasher.update(&many.concat()),
            };
        }
        Ok(())
    }

    fn commit(&mut self, commit: Commit) -> Result<Written, Error> {
        let claim = self.claim(&mut Near::default())?;
        // Held to the end: a newer writer waits, and finds the file under its name.
        let mut held = claim.lock();
        let written = self.prepare(&mut held, commit)?;
        self.sync(&held, commit)?;
        self.rename(&mut held)?;
        if commit.durability == Durability::Full
            && let Some(open) = &*held
        {
            self.sync_folder(&open.dir)?;
        }
        *held = None;
        Ok(written)
    }

    fn fail(&self, error: rustix::io::Errno) -> Error {
        Error::io("finish", &self.path, &error.into())
    }

    /// Checks the bytes, and sets what is said of the file.
    fn prepare(&self, held: &mut Held<'_>, commit: Commit) -> Result<Written, Error> {
        let Some(open) = held.as_mut() else { return Err(self.taken_over()) };
        let length = open.length;
        let remove = |open: &Open| {
            rustix::fs::unlinkat(&open.dir, &open.part, AtFlags::empty())
                .map_err(|e| Error::io("remove", &self.path, &e.into()))
        };
        if let Some(expected) = commit.length
            && expected != length
        {
            if length > expected {
                remove(open)?;
                **held = None;
            }
            return Err(Error::new("finish", &self.path, Why::WrongLength { expected, found: length }));
        }
        let digest = self.hasher.as_ref().map(|hasher| *hasher.finalize().as_bytes());
        if commit.digest.is_some() && commit.digest != digest {
            remove(open)?;
            **held = None;
            return Err(Error::new("finish", &self.path, Why::WrongDigest));
        }
        if std::mem::take(&mut open.ends_with_hole) {
            rustix::fs::ftruncate(&open.file, length).map_err(|e| self.fail(e))?;
        }
        if let Some(mode) = commit.mode.map(|mode| mode & 0o777).filter(|mode| *mode != open.mode) {
            rustix::fs::fchmod(&open.file, Mode::from_raw_mode(mode)).map_err(|e| self.fail(e))?;
        }
        if let Some(modified) = commit.modified {
            let times = Timestamps {
                last_access: rustix::fs::Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
                last_modification: timespec(modified),
            };
            rustix::fs::futimens(&open.file, &times).map_err(|e| self.fail(e))?;
        }
        Ok(Written { length, digest })
    }

    fn sync(&self, held: &Held<'_>, commit: Commit) -> Result<(), Error> {
        match &**held {
            Some(open) if commit.durability != Durability::None => {
                rustix::fs::fsync(&open.file).map_err(|e| self.fail(e))
            }
            _ => Ok(()),
        }
    }

    fn rename(&self, held: &mut Held<'_>) -> Result<(), Error> {
        let Some(open) = held.as_mut() else { return Err(self.taken_over()) };
        let name = self.path.file_name().unwrap_or_default();
        rustix::fs::renameat(&open.dir, &open.part, &open.dir, name).map_err(|e| self.fail(e))
    }

    fn sync_folder(&self, dir: &Dir) -> Result<(), Error> {
        // An open folder of cap-std may be O_PATH, which cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(dir, ".", flags, Mode::empty()).map_err(|e| self.fail(e))?;
        rustix::fs::fsync(folder).map_err(|e| self.fail(e))
    }

    /// Removes the unfinished file, unless a newer writer has it.
    fn remove(&mut self) -> Result<(), Error> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let Some(open) = claim.lock().take() else { return Ok(()) };
        rustix::fs::unlinkat(&open.dir, &open.part, AtFlags::empty())
            .map_err(|e| Error::io("remove", &self.path, &e.into()))
    }
}

impl Drop for Core {
    /// An unfinished file without a byte helps nobody.
    fn drop(&mut self) {
        let Some(claim) = &self.claim else { return };
        let Some(open) = claim.lock().take() else { return };
        if open.length == 0 {
            let _ = rustix::fs::unlinkat(&open.dir, &open.part, AtFlags::empty());
        } else if let Some(kept) = &self.allowance.kept {
            let length = open.length;
            drop(open);
            kept.left(&self.root, &self.path, length);
        }
    }
}

fn reopen(dir: &Dir, part: &Path) -> Result<File, rustix::io::Errno> {
    Ok(rustix::fs::openat(dir, part, OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty())?
        .into())
}

fn write_all<'a>(file: &mut File, pieces: impl Iterator<Item = &'a [u8]>) -> std::io::Result<()> {
    let mut slices: Vec<IoSlice<'_>> = pieces.map(IoSlice::new).collect();
    // IOV_MAX is 1024 on Linux.
    for group in slices.chunks_mut(1024) {
        let mut slices = group;
        while !slices.is_empty() {
            match file.write_vectored(slices) {
                Ok(0) => return Err(std::io::ErrorKind::WriteZero.into()),
                Ok(count) => IoSlice::advance_slices(&mut slices, count),
                Err(e) if e.kind() == std::io::ErrorKind::Interrupted => {}
                Err(e) => return Err(e),
            }
        }
    }
    Ok(())
}

/// Writes blocks and steps over long runs of zeros; says whether one of those is at the end.
fn write_sparsely(file: &mut File, blocks: &[Bytes]) -> std::io::Result<bool> {
    let mut data: Vec<&[u8]> = Vec::new();
    // Zeros behind the data, how many pieces of `data` they are, and in bytes.
    let (mut zero_pieces, mut zero_bytes) = (0, 0);
    for piece in blocks.iter().flat_map(|block| block.chunks(LOOK_BYTES)) {
        if !is_zero(piece) {
            if zero_bytes >= HOLE_BYTES {
                data.truncate(data.len() - zero_pieces);
                write_all(file, data.drain(..))?;
                file.seek_relative(zero_bytes as i64)?;
            }
            (zero_pieces, zero_bytes) = (0, 0);
        } else {
            (zero_pieces, zero_bytes) = (zero_pieces + 1, zero_bytes + piece.len());
        }
        data.push(piece);
    }
    let ends_with_hole = zero_bytes >= HOLE_BYTES;
    if ends_with_hole {
        data.truncate(data.len() - zero_pieces);
    }
    write_all(file, data.into_iter())?;
    if ends_with_hole {
        file.seek_relative(zero_bytes as i64)?;
    }
    Ok(ends_with_hole)
}

fn is_zero(piece: &[u8]) -> bool {
    // The compiler makes one comparison of 32 bytes.
    let (words, rest) = piece.as_chunks::<32>();
    words.iter().all(|word| word.iter().fold(0, |any, byte| any | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}
