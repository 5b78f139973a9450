//! A file read from an offset to the length it had when it was opened, in blocks, one block ahead of need.
//!
//! A small file costs one trip to another thread: open, stat, read, and the look whether it changed meanwhile.

use std::collections::VecDeque;
use std::fs::File;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use cap_std::fs::OpenOptions;
use rustix::fs::OFlags;
use tokio::task::JoinHandle;

use super::at_once::AT_ONCE_BYTES;
use super::blocks::{Blocks, Permit};
use super::error::{Error, Why};
use super::{Kind, Metadata, Root, kind_of};

/// Bytes read or written at one go, at most. A reader holds two blocks at most, a writer too.
pub const BLOCK_BYTES: usize = 256 * 1024;

/// Which bytes a BLAKE3 digest is made of while they pass.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Digest {
    /// None: no digest.
    None,
    /// Those that pass, from the offset on.
    Passing,
    /// All of the file: what lies before the offset is read too.
    Whole,
}

/// In what a file is read, and what its blocks are counted by.
#[derive(Debug, Clone)]
pub struct Pieces {
    /// Bytes given out at once, at most. Each piece has memory of its own: what still waits to be sent keeps no more than
    /// itself.
    pub bytes: usize,
    /// Where room for blocks comes from.
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
    /// What is left of the block that is given out.
    block: Block,
    /// The block after it.
    ahead: Ahead,
}

/// Bytes that were read at one go.
#[derive(Debug, Default)]
struct Block {
    pieces: VecDeque<Bytes>,
    _permit: Permit,
}

#[derive(Debug)]
enum Ahead {
    Ready(Box<Core>, Block),
    Busy(JoinHandle<(Box<Core>, Result<Block, Error>)>),
    /// There is more, and no room to read it before it is wanted.
    Waits(Box<Core>),
    Done(Box<Core>),
    Failed(Error),
}

/// What travels to the thread that waits for the disk, and back.
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

/// What happened to the file behind the reader's back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Change {
    /// Nothing.
    No,
    /// It was longer at the end than at the beginning; what was read is what it began with.
    Grew,
    /// It was written to: what was read may be of two minds.
    Written,
}

/// What was read, when all of it was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Summary {
    /// Bytes read, from the offset to the end.
    pub length: u64,
    /// BLAKE3 of what [`Digest`] said.
    pub digest: Option<[u8; 32]>,
    /// Whether the file changed meanwhile.
    pub change: Change,
}

impl Root {
    /// Opens a regular file to be read from `offset` on. Links are followed as far as they stay inside.
    ///
    /// # Errors
    /// It is not there, not a regular file, not readable, leads outside, or ends before `offset`
    /// ([`Why::PastEnd`]).
    ///
    /// # Cancel safety
    /// Safe: nothing is changed.
    pub async fn reader(&self, path: &Path, offset: u64, digest: Digest) -> Result<Reader, Error> {
        self.reader_in(Pieces::default(), path, offset, digest).await
    }

    /// The same, in such pieces.
    ///
    /// # Errors
    /// As [`Root::reader`].
    ///
    /// # Cancel safety
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
    /// A reader of a small file that is in memory. Every other case, and every error, is for [`Self::open`].
    fn at_once(root: &Root, path: &Path, digest: Digest, pieces: &Pieces) -> Option<Self> {
        let file = root.open_at_once(path)?;
        let stat = rustix::fs::fstat(&file).ok()?;
        let metadata = Metadata::from_stat(&stat, kind_of(&stat));
        if metadata.kind != Kind::File || metadata.size > AT_ONCE_BYTES {
            return None;
        }
        let length = metadata.size as usize;
        let permit = pieces.blocks.take(length).filter(|permit| permit.bytes() >= length)?;
        let bytes = Bytes::from(root.read_at_once(&file, stat.st_dev, length)?);
        let mut hasher: Option<Box<blake3::Hasher>> = (digest != Digest::None).then(Default::default);
        if let Some(hasher) = &mut hasher {
            hasher.update(&bytes);
        }
        let mut core = Box::new(Core {
            file,
            path: path.to_owned(),
            next: metadata.size,
            end: metadata.size,
            piece_bytes: pieces.bytes,
            hasher,
            modified_before: metadata.modified,
            change: Change::No,
        });
        core.look_again().ok()?;
        let mut block = Block { pieces: VecDeque::new(), _permit: permit };
        let mut rest = bytes;
        while !rest.is_empty() {
            // Memory of its own for each: what still waits to be sent keeps no more than itself.
            let piece = rest.split_to(rest.len().min(pieces.bytes));
            block.pieces.push_back(if rest.is_empty() && block.pieces.is_empty() {
                piece
            } else {
                Bytes::copy_from_slice(&piece)
            });
        }
        let ahead = if block.pieces.is_empty() { Ahead::Done(core) } else { Ahead::Ready(core, block) };
        Some(Self { metadata, start: 0, blocks: pieces.blocks.clone(), block: Block::default(), ahead })
    }

    fn open(root: &Root, path: PathBuf, offset: u64, digest: Digest, pieces: Pieces) -> Result<Self, Error> {
        let what = "open";
        // NONBLOCK: a pipe without a writer must not hold the thread.
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

    /// What the file was when it was opened.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// The next bytes, up to [`Pieces::bytes`]; `None` after the last. Those before are taken to be used up.
    ///
    /// # Errors
    /// The disk fails, or the file ends before the length it had ([`Why::WrongLength`]).
    ///
    /// # Cancel safety
    /// Safe: a piece is given out whole or not at all.
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

    /// Whether the last bytes have been given out: [`Self::next_block`] would say `None`.
    pub fn is_at_end(&self) -> bool {
        self.block.pieces.is_empty() && matches!(self.ahead, Ahead::Done(_))
    }

    /// Only for the moment: nothing may await before `ahead` is set again.
    fn take_ahead(&mut self) -> Ahead {
        std::mem::replace(&mut self.ahead, Ahead::Failed(Error::new("read", Path::new(""), Why::Busy)))
    }

    /// What was read, once [`Reader::next_block`] has said `None`; `None` before.
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

/// Reads a block on a thread that may wait for the disk.
fn read(mut core: Box<Core>, permit: Permit) -> JoinHandle<(Box<Core>, Result<Block, Error>)> {
    tokio::task::spawn_blocking(move || {
        let block = core.read(permit);
        (core, block)
    })
}

impl Core {
    /// Bytes of the next block, if there is room for it.
    fn wants(&self) -> usize {
        usize::try_from(self.end - self.next).map_or(BLOCK_BYTES, |left| left.min(BLOCK_BYTES))
    }

    /// One block at `next`, as large as was permitted; at the end also the look whether the file changed.
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
        // The allocator may have given more room than was asked for; the file may have filled it.
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
