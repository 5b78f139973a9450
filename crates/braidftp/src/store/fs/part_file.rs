//! The temporary file of one transfer: opened and locked, written, checked, synced and renamed.
//!
//! Everything here blocks, and runs on threads that may block.

use std::fs::File;
use std::io::{IoSlice, Seek, Write};
use std::path::{Path, PathBuf};
use std::sync::{Arc, MutexGuard};
use std::time::{Duration, SystemTime};

use braidftp_ftp::mapping::frame;
use bytes::Bytes;
use cap_std::fs::{Dir, OpenOptions};
use rustix::fs::{AtFlags, FlockOperation, Mode, OFlags, Timestamps};

use super::claims::{Claim, Claimant, Open, TakeOver};
use super::error::{Error, Why};
use super::kept::Allowance;
use super::near::Near;
use super::reader::Digest;
use super::{Root, metadata_at, name, timespec};

/// The offset of the first byte to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Start {
    /// The beginning of the file; data of an interrupted transfer is discarded.
    New,
    /// After this many bytes of the data of an interrupted transfer, or else of the existing file.
    At(u64),
    /// After the end of the existing file, if any.
    Append,
}

/// What to check and set when the file is complete.
#[derive(Debug, Clone, Copy, Default)]
pub struct Commit {
    /// The expected total length in bytes.
    pub length: Option<u64>,
    /// The expected digest, the first bytes of BLAKE3; the writer must compute one.
    pub digest: Option<frame::Digest>,
    /// The modification time, if it is to be set.
    pub modified: Option<SystemTime>,
    /// The permission bits, if they are to be set.
    pub mode: Option<u32>,
    /// What must be on the disk before the file is renamed.
    pub durability: Durability,
}

/// What a power failure may lose.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Durability {
    /// Nothing: the bytes are synced before the rename, and the rename before the answer.
    #[default]
    Full,
    /// The rename, so that the file is temporary again, or a small one is missing; never bytes of a file under its final name.
    Bytes,
    /// Anything. For copies that can be made again.
    None,
}

/// How long runs of zeros are written.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Holes {
    /// As holes, which take no disk space.
    #[default]
    Make,
    /// Like other bytes.
    Fill,
}

/// The result of writing a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Written {
    /// The total length in bytes.
    pub length: u64,
    /// The BLAKE3 selected by [`Digest`].
    pub digest: Option<[u8; 32]>,
}

/// The minimum length of a run of zeros that becomes a hole, in bytes: for shorter runs the additional system
/// call costs more than the saved space is worth.
const HOLE_BYTES: usize = 32 << 10;
/// The granularity of the search for zeros in bytes.
const LOOK_BYTES: usize = 4 << 10;

/// How often, and after which delay, locking is retried if the current holder in this process is not
/// registered yet.
const LOCK_TRIES: u32 = 5;
const LOCK_PAUSE: Duration = Duration::from_millis(1);

/// The state that moves to the blocking thread and back.
#[derive(Debug)]
pub(super) struct PartFile {
    pub root: Root,
    pub path: PathBuf,
    pub start: Start,
    pub size_hint: Option<u64>,
    pub digest: Digest,
    /// Made with the first bytes, if a digest is computed.
    pub hasher: Option<Box<blake3::Hasher>>,
    pub claimant: Option<Claimant>,
    pub claim: Option<Arc<Claim>>,
    pub allowance: Allowance,
    pub holes: Holes,
    /// The mode of a new file, chosen so that it need not be changed later.
    pub new_mode: u32,
}

/// A writer's file, locked against a take-over.
pub(super) type Held<'a> = MutexGuard<'a, Option<Open>>;

impl PartFile {
    pub(super) fn claim(&mut self, near: &mut Near) -> Result<Arc<Claim>, Error> {
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
        // Reported now rather than by the rename at the end.
        if let Ok(metadata) = metadata_at(&*dir, Path::new(name))
            && metadata.kind == super::Kind::Folder
        {
            return Err(Error::new(what, &self.path, Why::IsAFolder));
        }
        let part = name::unfinished(name);
        let (file, stat) = self.locked(&dir, &part).map_err(fail)?;
        let left = stat.st_size as u64;
        let mode = stat.st_mode & 0o7777;
        let open = Open { dir, part: Some(part), file, mode, length: left, ends_with_hole: false };
        let claim = self.root.claims.enter((stat.st_dev, stat.st_ino), self.claimant.clone(), open);
        let mut held = claim.lock();
        // An even newer writer may have been faster.
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
            // Reported before the first byte rather than when the disk is full. No space is reserved: the
            // hint comes from a peer and must not take the space of others.
            self.check_room(self.size_hint.map_or(0, |size| size.saturating_sub(open.length)), near)
        })();
        if let Err(error) = begun {
            // An offset beyond the existing data says nothing about that data, which is kept.
            if left == 0 {
                let _ = open.unlink();
            }
            *held = None;
            return Err(error);
        }
        if self.digest == Digest::Whole && open.length > 0 {
            let hasher = self.hasher.get_or_insert_default();
            let before = reopen(&open.dir, &name::unfinished(name));
            let before = before.map_err(|e| Error::io(what, &self.path, &e.into()))?;
            let mut before = std::io::Read::take(before, open.length);
            hasher.update_reader(&mut before).map_err(|e| Error::io(what, &self.path, &e))?;
        }
        drop(held);
        if let Some(kept) = &self.allowance.kept {
            kept.taken(&self.path);
        }
        Ok(claim)
    }

    /// Opens a file without a name for a small new file, where the file system permits: nobody else can open it, so it needs
    /// neither a lock nor a check of its name, and an interrupted transfer leaves nothing. Does nothing if there is a temporary
    /// file, which may have a writer.
    pub(super) fn claim_unnamed(&mut self, near: &mut Near) -> Result<(), Error> {
        let what = "write to";
        let Some(name) = self.path.file_name() else { return Ok(()) };
        let parent = self.path.parent().unwrap_or(Path::new(""));
        let dir =
            near.folder(&self.root, what, parent).map_err(|e| Error { path: self.path.clone(), ..e })?;
        if !near.links() || near.has_part(&name::unfinished(name)) {
            return Ok(());
        }
        let flags = OFlags::RDWR | OFlags::TMPFILE | OFlags::CLOEXEC;
        let opened = rustix::fs::openat(&*dir, ".", flags, Mode::from_raw_mode(self.new_mode));
        let opened = opened.and_then(|file| Ok((near.mode_of(&file, self.new_mode)?, file)));
        // Where this is not possible, opening a named file reports the reason.
        let Ok((mode, file)) = opened else { return Ok(()) };
        self.check_room(self.size_hint.unwrap_or(0), near)?;
        let open = Open { dir, part: None, file: file.into(), mode, length: 0, ends_with_hole: false };
        self.claim = Some(self.root.claims.unnamed(open));
        Ok(())
    }

    /// Writes a file that could not be linked under a temporary name instead.
    pub(super) fn write_named(&mut self, blocks: &[Bytes], commit: Commit) -> Result<Written, Error> {
        (self.claim, self.hasher) = (None, None);
        self.append(blocks, &mut Near::default())?;
        self.commit(commit)
    }

    /// Checks that the reserve stays free after this many more bytes.
    fn check_room(&self, more: u64, near: &mut Near) -> Result<(), Error> {
        let free = near.free_bytes(&self.root)?;
        let reserve = self.allowance.reserve_bytes;
        if more > free.saturating_sub(reserve) || (reserve > 0 && free < reserve) {
            return Err(Error::new("write to", &self.path, Why::NoSpace));
        }
        Ok(())
    }

    /// Opens or creates the temporary file, locked against a second writer.
    fn locked(&self, dir: &Dir, part: &Path) -> Result<(File, rustix::fs::Stat), rustix::io::Errno> {
        // NOFOLLOW and NONBLOCK: another kind of file with this name must not be opened.
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
                        TakeOver::Open(open) => open.file,
                        TakeOver::Unknown if tries < LOCK_TRIES => {
                            tries += 1;
                            std::thread::sleep(LOCK_PAUSE);
                            continue;
                        }
                        // Not tried again: it would write its older content after the newer writer's.
                        TakeOver::Refused | TakeOver::Unknown => return Err(rustix::io::Errno::WOULDBLOCK),
                    }
                }
                Err(error) => return Err(error),
            };
            // Between open and lock its previous writer may have renamed it to its final name.
            let (mine, stat) = (rustix::fs::fstat(&file)?, metadata_at(dir, part));
            if stat.is_ok_and(|named| named.identity == (mine.st_dev, mine.st_ino)) {
                return Ok((file, mine));
            }
        }
    }

    /// Copies the first bytes (all, if `first` is `None`) of the existing file.
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

    pub(super) fn append(&mut self, blocks: &[Bytes], near: &mut Near) -> Result<(), Error> {
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
                // An incomplete file would only keep the disk full.
                self.remove()?;
            }
            return Err(error);
        }
        if self.digest != Digest::None {
            let hasher = self.hasher.get_or_insert_default();
            match blocks {
                [one] => hasher.update(one),
                // BLAKE3 is several times faster on many kilobytes at once than on single packets.
                many => hasher.update(&many.concat()),
            };
        }
        Ok(())
    }

    pub(super) fn commit(&mut self, commit: Commit) -> Result<Written, Error> {
        let claim = self.claim(&mut Near::default())?;
        // Locked until the end: a newer writer waits, and finds the file under its final name.
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

    pub(super) fn fail(&self, error: rustix::io::Errno) -> Error {
        Error::io("finish", &self.path, &error.into())
    }

    /// Checks the bytes, and sets the metadata of the file.
    pub(super) fn prepare(&self, held: &mut Held<'_>, commit: Commit) -> Result<Written, Error> {
        let Some(open) = held.as_mut() else { return Err(self.taken_over()) };
        let length = open.length;
        let remove = |open: &Open| open.unlink().map_err(|e| Error::io("remove", &self.path, &e.into()));
        if let Some(expected) = commit.length
            && expected != length
        {
            if length > expected {
                remove(open)?;
                **held = None;
            }
            return Err(Error::new("finish", &self.path, Why::WrongLength { expected, found: length }));
        }
        let hash = || self.hasher.as_ref().map_or_else(|| blake3::hash(&[]), |hasher| hasher.finalize());
        let digest = (self.digest != Digest::None).then(|| *hash().as_bytes());
        if commit.digest.is_some() && commit.digest != digest.as_ref().map(frame::truncated) {
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

    pub(super) fn sync(&self, held: &Held<'_>, commit: Commit) -> Result<(), Error> {
        match &**held {
            Some(open) if commit.durability != Durability::None => {
                rustix::fs::fsync(&open.file).map_err(|e| self.fail(e))
            }
            _ => Ok(()),
        }
    }

    /// Gives the file its final name. [`Why::Exists`]: a file without a name cannot be linked, for another file has the name, or
    /// for a reason of the system.
    pub(super) fn rename(&self, held: &mut Held<'_>) -> Result<(), Error> {
        let Some(open) = held.as_mut() else { return Err(self.taken_over()) };
        let name = self.path.file_name().unwrap_or_default();
        match &open.part {
            Some(part) => rustix::fs::renameat(&*open.dir, part, &*open.dir, name).map_err(|e| self.fail(e)),
            None => rustix::fs::linkat(&open.file, "", &*open.dir, name, AtFlags::EMPTY_PATH)
                .map_err(|_| Error::new("finish", &self.path, Why::Exists)),
        }
    }

    pub(super) fn sync_folder(&self, dir: &Dir) -> Result<(), Error> {
        // An open folder of cap-std may be O_PATH, which cannot be synced.
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let folder = rustix::fs::openat(dir, ".", flags, Mode::empty()).map_err(|e| self.fail(e))?;
        rustix::fs::fsync(folder).map_err(|e| self.fail(e))
    }

    /// Removes the unfinished file, unless a newer writer has it.
    pub(super) fn remove(&mut self) -> Result<(), Error> {
        let Some(claim) = &self.claim else { return Ok(()) };
        let Some(open) = claim.lock().take() else { return Ok(()) };
        open.unlink().map_err(|e| Error::io("remove", &self.path, &e.into()))
    }
}

impl Drop for PartFile {
    /// Removes an empty temporary file.
    fn drop(&mut self) {
        let Some(claim) = &self.claim else { return };
        let Some(open) = claim.lock().take() else { return };
        if open.length == 0 || open.part.is_none() {
            let _ = open.unlink();
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

/// Writes blocks and skips long runs of zeros; returns whether the file ends with a skipped run.
fn write_sparsely(file: &mut File, blocks: &[Bytes]) -> std::io::Result<bool> {
    let mut data: Vec<&[u8]> = Vec::new();
    // The zeros after the data: the number of pieces in `data`, and of bytes.
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
    // The compiler turns this into a comparison of 32 bytes.
    let (words, rest) = piece.as_chunks::<32>();
    words.iter().all(|word| word.iter().fold(0, |any, byte| any | byte) == 0)
        && rest.iter().all(|byte| *byte == 0)
}
