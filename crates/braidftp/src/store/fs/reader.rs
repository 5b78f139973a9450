//! Reads a file from an offset to the length it had when it was opened, in blocks, with one block of
//! read-ahead.
//!
//! The beginning of a file that is in the page cache is read without another thread. If it is not, a small file needs another thread
//! once: open, stat, read, and the check for changes.

use std::collections::VecDeque;
use std::fs::File;
use std::io::IoSliceMut;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cap_std::fs::OpenOptions;
use rustix::fs::OFlags;
use tokio::task::JoinHandle;

use super::at_once::AT_ONCE_BYTES;
use super::blocks::{Blocks, Permit};
use super::error::{Error, Why};
use super::{Kind, Metadata, Root, kind_of};

/// The maximum size of a block in bytes. A reader holds at most two blocks, and so does a writer.
pub const BLOCK_BYTES: usize = 256 * 1024;
/// The bytes of a file that the system reads together: at least a page of memory.
const PAGE_BYTES: usize = 4096;

/// The bytes of which a BLAKE3 digest is computed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// None: no digest is computed.
    None,
    /// The transferred bytes, from the offset on.
    Passing,
    /// The whole file: bytes before the offset are read too.
    Whole,
}

/// How a file is divided, and how its memory is counted.
#[derive(Debug, Clone)]
pub struct Pieces {
    /// The maximum number of bytes returned at once. Each piece has its own memory, so that a piece that
    /// waits to be sent keeps no other piece.
    pub bytes: usize,
    /// The source of memory for blocks.
    pub blocks: Blocks,
}

impl Default for Pieces {
    fn default() -> Self {
        Self { bytes: BLOCK_BYTES, blocks: Blocks::default() }
    }
}

/// Reads one file.
#[derive(Debug)]
pub struct Reader {
    metadata: Metadata,
    start: u64,
    blocks: Blocks,
    /// The rest of the current block.
    block: Block,
    /// The next block.
    ahead: Ahead,
}

/// A block that was read.
#[derive(Debug, Default)]
struct Block {
    pieces: VecDeque<Bytes>,
    _permit: Permit,
}

#[derive(Debug)]
enum Ahead {
    Ready(Box<Core>, Block),
    Busy(JoinHandle<(Box<Core>, Result<Block, Error>)>),
    /// There is more, but no memory to read it ahead.
    Waits(Box<Core>),
    Done(Box<Core>),
    Failed(Error),
}

/// The state that moves to the blocking thread and back.
#[derive(Debug)]
struct Core {
    file: File,
    path: PathBuf,
    next: u64,
    end: u64,
    piece_bytes: usize,
    hasher: Option<Box<blake3::Hasher>>,
    modified_before: std::time::SystemTime,
    change: Change,
}

/// A change of the file during reading.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    No,
    /// The file is longer than at the beginning; the returned bytes are those of the original length.
    Grew,
    /// The file was written to: the returned bytes may be a mix of old and new contents.
    Written,
}

/// The summary after the last byte.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// The number of bytes read, from the offset to the end.
    pub length: u64,
    /// The BLAKE3 selected by [`Digest`].
    pub digest: Option<[u8; 32]>,
    /// Whether the file changed meanwhile.
    pub change: Change,
}

impl Root {
    /// Opens a regular file to read it from `offset` on. Links are followed within the root.
    ///
    /// # Errors
    ///
    /// It does not exist, is not a regular file, is not readable, is outside the root, or ends before
    /// `offset` ([`Why::PastEnd`]).
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn reader(&self, path: &Path, offset: u64, digest: Digest) -> Result<Reader, Error> {
        self.reader_in(Pieces::default(), path, offset, digest).await
    }

    /// The same, with these pieces.
    ///
    /// # Errors
    ///
    /// As [`Root::reader`].
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn reader_in(
        &self,
        pieces: Pieces,
        path: &Path,
        offset: u64,
        digest: Digest,
    ) -> Result<Reader, Error> {
        if offset == 0
            && let Some(reader) = Reader::at_once(self, path, digest, &pieces)
        {
            return Ok(reader);
        }
        let path = path.to_owned();
        self.blocking(move |root| Reader::open(root, path, offset, digest, pieces)).await
    }
}

impl Reader {
    /// A reader of a file whose beginning is in memory, or all of it if it is small. All other cases and all errors are left to
    /// [`Self::open`].
    fn at_once(root: &Root, path: &Path, digest: Digest, pieces: &Pieces) -> Option<Self> {
        let file = root.open_at_once(path)?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let metadata = Metadata::from_stat(&stat, kind_of(&stat));
        if metadata.kind != Kind::File {
            return None;
        }
        let length = metadata.size.min(AT_ONCE_BYTES) as usize;
        let is_whole = metadata.size == length as u64;
        let permit = pieces.blocks.take(length).filter(|permit| permit.bytes() >= length)?;
        let mut parts: Vec<Vec<u8>> =
            (0..length).step_by(pieces.bytes).map(|at| vec![0; pieces.bytes.min(length - at)]).collect();
        // A small file that has grown fills this byte too.
        let mut more = [0; 1];
        let mut into: Vec<_> = parts.iter_mut().map(|part| IoSliceMut::new(part)).collect();
        into.extend(is_whole.then(|| IoSliceMut::new(&mut more)));
        if root.read_at_once(&file, stat.st_dev, &mut into)? != length {
            return None;
        }
        let mut hasher: Option<Box<blake3::Hasher>> = (digest != Digest::None).then(Default::default);
        if let Some(hasher) = &mut hasher {
            for part in &parts {
                hasher.update(part);
            }
        }
        let mut core = Box::new(Core {
            file,
            path: path.to_owned(),
            next: length as u64,
            end: metadata.size,
            piece_bytes: pieces.bytes,
            hasher,
            modified_before: metadata.modified,
            change: Change::No,
        });
        // The system copies the bytes of a page together, and the file had its length then.
        if is_whole && length > PAGE_BYTES {
            core.look_again().ok()?;
        }
        let block = Block { pieces: parts.into_iter().map(Bytes::from).collect(), _permit: permit };
        let ahead = if block.pieces.is_empty() { Ahead::Done(core) } else { Ahead::Ready(core, block) };
        Some(Self { metadata, start: 0, blocks: pieces.blocks.clone(), block: Block::default(), ahead })
    }

    fn open(root: &Root, path: PathBuf, offset: u64, digest: Digest, pieces: Pieces) -> Result<Self, Error> {
        let what = "open";
        // NONBLOCK: a pipe without a writer must not block the thread.
        let file = root.open_with(what, &path, OFlags::NONBLOCK, OpenOptions::new().read(true))?;
        let stat = rustix::fs::fstat(&file).map_err(|e| Error::io(what, &path, &e.into()))?;
        let metadata = Metadata::from_stat(&stat, kind_of(&stat));
        match metadata.kind {
            Kind::File => {}
            Kind::Folder => return Err(Error::new(what, &path, Why::IsAFolder)),
            Kind::Link(_) | Kind::Other => return Err(Error::new(what, &path, Why::NotAFile)),
        }
        if offset > metadata.size {
            return Err(Error::new(what, &path, Why::PastEnd { size: metadata.size }));
        }
        let mut core = Box::new(Core {
            file,
            path,
            next: offset,
            end: metadata.size,
            piece_bytes: pieces.bytes,
            hasher: (digest != Digest::None).then(Default::default),
            modified_before: metadata.modified,
            change: Change::No,
        });
        if digest == Digest::Whole && offset > 0 {
            core.next = 0;
            core.end = offset;
            while core.next < core.end {
                core.read(pieces.blocks.take_some(core.wants()))?;
            }
            core.end = metadata.size;
        }
        let ahead = match core.read(pieces.blocks.take_some(core.wants()))? {
            block if block.pieces.is_empty() => Ahead::Done(core),
            block => Ahead::Ready(core, block),
        };
        let block = Block::default();
        Ok(Self { metadata, start: offset, blocks: pieces.blocks, block, ahead })
    }

    /// The metadata when the file was opened.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Returns the next bytes, up to [`Pieces::bytes`]; `None` after the last. The previous piece must no
    /// longer be in use.
    ///
    /// # Errors
    ///
    /// The disk fails, or the file ends before the length it had ([`Why::WrongLength`]).
    ///
    /// # Cancel safety
    ///
    /// Safe: a piece is returned completely or not at all.
    pub async fn next_block(&mut self) -> Result<Option<Bytes>, Error> {
        if let Some(piece) = self.block.pieces.pop_front() {
            return Ok(Some(piece));
        }
        self.block = Block::default();
        if let Ahead::Waits(_) = &self.ahead {
            let Ahead::Waits(core) = self.take_ahead() else { unreachable!("seen above") };
            let permit = self.blocks.take_some(core.wants());
            self.ahead = Ahead::Busy(read(core, permit));
        }
        if let Ahead::Busy(task) = &mut self.ahead {
            self.ahead = match task.await {
                Ok((core, Ok(block))) => Ahead::Ready(core, block),
                Ok((_, Err(error))) => Ahead::Failed(error),
                Err(join) => match join.try_into_panic() {
                    Ok(panic) => std::panic::resume_unwind(panic),
                    Err(_) => std::future::pending().await,
                },
            };
        }
        match self.take_ahead() {
            Ahead::Ready(core, block) => {
                self.ahead = if core.next == core.end {
                    Ahead::Done(core)
                } else {
                    match self.blocks.take(core.wants()) {
                        Some(permit) => Ahead::Busy(read(core, permit)),
                        None => Ahead::Waits(core),
                    }
                };
                self.block = block;
                Ok(self.block.pieces.pop_front())
            }
            Ahead::Done(core) => {
                self.ahead = Ahead::Done(core);
                Ok(None)
            }
            Ahead::Failed(error) => {
                self.ahead = Ahead::Failed(error.clone());
                Err(error)
            }
            Ahead::Busy(_) | Ahead::Waits(_) => unreachable!("awaited above"),
        }
    }

    /// Whether the last bytes were returned: [`Self::next_block`] would return `None`.
    pub fn is_at_end(&self) -> bool {
        self.block.pieces.is_empty() && matches!(self.ahead, Ahead::Done(_))
    }

    /// Temporarily takes the state: nothing may await before `ahead` is set again.
    fn take_ahead(&mut self) -> Ahead {
        std::mem::replace(&mut self.ahead, Ahead::Failed(Error::new("read", Path::new(""), Why::Busy)))
    }

    /// Returns the summary, once [`Reader::next_block`] has returned `None`; `None` before.
    pub fn summary(&self) -> Option<Summary> {
        match &self.ahead {
            Ahead::Done(core) => Some(Summary {
                length: core.end - self.start,
                digest: core.hasher.as_ref().map(|hasher| *hasher.finalize().as_bytes()),
                change: core.change,
            }),
            _ => None,
        }
    }
}

/// Reads a block on a thread that may block.
fn read(mut core: Box<Core>, permit: Permit) -> JoinHandle<(Box<Core>, Result<Block, Error>)> {
    tokio::task::spawn_blocking(move || {
        let block = core.read(permit);
        (core, block)
    })
}

impl Core {
    /// The number of bytes of the next block, if there is memory for it.
    fn wants(&self) -> usize {
        usize::try_from(self.end - self.next).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES))
    }

    /// Reads one block at `next`, as large as permitted; at the end also checks whether the file has changed.
    fn read(&mut self, permit: Permit) -> Result<Block, Error> {
        let mut pieces = VecDeque::new();
        let mut left = self.wants().min(permit.bytes());
        while left > 0 {
            let piece = self.read_piece(left.min(self.piece_bytes))?;
            left -= piece.len();
            pieces.push_back(piece);
        }
        if self.next == self.end {
            self.look_again()?;
        }
        Ok(Block { pieces, _permit: permit })
    }

    fn read_piece(&mut self, want: usize) -> Result<Bytes, Error> {
        let mut piece = Vec::with_capacity(want);
        while piece.len() < want {
            let at = self.next + piece.len() as u64;
            match rustix::io::pread(&self.file, rustix::buffer::spare_capacity(&mut piece), at) {
                Ok(0) => {
                    let why = Why::WrongLength { expected: self.end, found: at };
                    return Err(Error::new("read", &self.path, why));
                }
                Ok(_) => {}
                Err(rustix::io::Errno::INTR) => {}
                Err(e) => return Err(Error::io("read", &self.path, &e.into())),
            }
        }
        // The allocator may have returned more memory than requested, and the file may have filled it.
        piece.truncate(want);
        if let Some(hasher) = &mut self.hasher {
            hasher.update(&piece);
        }
        self.next += want as u64;
        Ok(piece.into())
    }

    fn look_again(&mut self) -> Result<(), Error> {
        let stat = rustix::fs::fstat(&self.file).map_err(|e| Error::io("read", &self.path, &e.into()))?;
        let after = Metadata::from_stat(&stat, Kind::File);
        self.change = if after.size > self.end {
            Change::Grew
        } else if after.modified != self.modified_before || after.size < self.end {
            Change::Written
        } else {
            Change::No
        };
        Ok(())
    }
}
