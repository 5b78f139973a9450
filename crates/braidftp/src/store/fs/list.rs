//! Streams of folder entries: [`Lister`] for one folder, [`Walk`] for a whole tree. A lister holds one chunk. A
//! walk reads the next one while the caller uses the current one, if there is memory for both.

use std::ffi::{OsStr, OsString};
use std::fs::File;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cap_std::fs::OpenOptions;
use rustix::fs::{OFlags, RawDir};
use tokio::task::{JoinHandle, spawn_blocking};

use super::blocks::{Blocks, Folders, Permit};
use super::error::Error;
use super::levels::Levels;
use super::{Kind, Metadata, Root, blocking, joined, metadata_at, name};

/// The number of entries read at once: enough to justify the use of another thread, and small.
const CHUNK_ENTRIES: usize = 256;
/// The same with little memory.
const FEW_ENTRIES: usize = 16;

/// The maximum bytes of names or paths in a chunk, which a deep tree soon reaches.
const NAMES_BYTES: usize = 32 << 10;
/// The size of the system's directory buffer in bytes, and the chunk limit with little memory. The longest
/// name needs a few hundred.
const BATCH_BYTES: usize = 4 << 10;
const FEW_BATCH_BYTES: usize = 2 << 10;
/// The memory counted for a chunk, including the lines made of it.
const CHUNK_BYTES: usize = 64 << 10;

/// The operation on a folder, for errors.
const READ: &str = "read the folder";

/// An entry of a folder.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name as bytes; never `.`, `..`, or a temporary file. It may contain a line end, which FTP cannot
    /// carry.
    pub name: OsString,
    /// The metadata; links are not followed.
    pub metadata: Metadata,
}

/// Reads one folder, one chunk at a time, in the order of the file system.
#[derive(Debug)]
pub struct Lister {
    open: Option<Open>,
    path: PathBuf,
    room: Room,
}

/// The source of memory for chunks, and the memory of the current chunk.
#[derive(Debug, Default)]
struct Room {
    blocks: Blocks,
    permit: Option<Permit>,
}

impl Room {
    /// The maximum number of entries of the next chunk. The previous chunk is released.
    fn entries(&mut self) -> usize {
        self.permit = None;
        self.permit = self.whole_chunk();
        if self.permit.is_some() { CHUNK_ENTRIES } else { FEW_ENTRIES }
    }

    /// The memory of a whole chunk, if available.
    fn whole_chunk(&self) -> Option<Permit> {
        self.blocks.take(CHUNK_BYTES).filter(|permit| permit.bytes() == CHUNK_BYTES)
    }
}

#[derive(Debug)]
struct Open {
    root: Root,
    folder: File,
}

impl Open {
    fn new(root: &Root, path: &Path) -> Result<Self, Error> {
        let folder = root.open_with(READ, path, OFlags::DIRECTORY, OpenOptions::new().read(true))?;
        Ok(Self { root: root.clone(), folder })
    }

    /// Reads about `most` entries, fewer at the end of the folder.
    fn read(&self, path: &Path, most: usize) -> Result<(Vec<Entry>, Rest), Error> {
        let mut chunk = Vec::with_capacity(FEW_ENTRIES);
        let mut name_bytes = 0;
        // Exists only during this call: a client may cause thousands of open folders.
        let mut buffer = Vec::with_capacity(if most > FEW_ENTRIES { BATCH_BYTES } else { FEW_BATCH_BYTES });
        let mut names = RawDir::new(&self.folder, buffer.spare_capacity_mut());
        while let Some(found) = names.next() {
            let name = match found {
                Ok(found) => OsStr::from_bytes(found.file_name().to_bytes()).to_owned(),
                Err(e) => return Err(Error::io(READ, path, &e.into())),
            };
            if let Some(entry) = self.entry(name, path)? {
                name_bytes += entry.name.len();
                chunk.push(entry);
            }
            // The system continues after the returned entries.
            if names.is_buffer_empty() && (chunk.len() >= most || name_bytes >= NAMES_BYTES) {
                return Ok((chunk, Rest::Some));
            }
        }
        Ok((chunk, Rest::None))
    }

    /// The entry with this name, if it may be listed. An entry that vanishes between reading its name and its
    /// metadata is skipped.
    fn entry(&self, name: OsString, path: &Path) -> Result<Option<Entry>, Error> {
        if name == "." || name == ".." || name::is_unfinished(&name) {
            return Ok(None);
        }
        match metadata_at(&self.folder, Path::new(&name)) {
            Ok(metadata) => {
                let metadata = match metadata.kind {
                    Kind::Link(_) => self.root.with_target_size(metadata, &path.join(&name)),
                    _ => metadata,
                };
                Ok(Some(Entry { name, metadata }))
            }
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("look at", &path.join(&name), &e)),
        }
    }
}

/// Whether the folder may have more entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Rest {
    Some,
    None,
}

impl Root {
    /// Opens a folder to be read as a stream.
    ///
    /// # Errors
    ///
    /// It does not exist, is not a folder, is not readable, or is outside the root.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn list(&self, path: &Path) -> Result<Lister, Error> {
        let path = path.to_owned();
        self.blocking(move |root| {
            Ok(Lister { open: Some(Open::new(root, &path)?), path, room: Room::default() })
        })
        .await
    }

    /// Reads a whole tree as a stream, folders before their contents. Links are returned, never followed.
    ///
    /// # Errors
    ///
    /// `path` does not exist, is not a folder, is not readable, or is outside the root. Unreadable folders
    /// below are items of the walk and do not end it.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn walk(&self, path: &Path) -> Result<Walk, Error> {
        let path = path.to_owned();
        self.blocking(move |root| {
            let levels = Levels::new(root, &path, Folders::default())?;
            Ok(Walk { next: Next::Unread(Box::new(levels)), room: Room::default() })
        })
        .await
    }
}

impl Lister {
    /// Sets the source of memory for chunks.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        self.room.blocks = blocks;
        self
    }

    /// Returns the next entries, or `None` at the end.
    ///
    /// # Errors
    ///
    /// The folder could not be read further; nothing follows.
    ///
    /// # Cancel safety
    ///
    /// Not safe: a cancelled call ends the listing, and the next one returns `None`.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let Some(open) = self.open.take() else { return Ok(None) };
        let (path, most) = (self.path.clone(), self.room.entries());
        let (open, chunk) = blocking(move || match open.read(&path, most) {
            Ok((chunk, Rest::Some)) => (Some(open), Ok(chunk)),
            Ok((chunk, Rest::None)) => (None, Ok(chunk)),
            Err(error) => (None, Err(error)),
        })
        .await;
        self.open = open;
        let chunk = chunk?;
        Ok(if chunk.is_empty() { None } else { Some(chunk) })
    }

    /// Whether it is known that no more entries follow.
    pub fn is_done(&self) -> bool {
        self.open.is_none()
    }
}

/// Reads a whole tree, depth first, one chunk at a time. Holds a few folders open.
#[derive(Debug)]
pub struct Walk {
    next: Next,
    room: Room,
}

/// The next chunk of a walk.
#[derive(Debug)]
enum Next {
    /// It is read when it is requested.
    Unread(Box<Levels>),
    /// It is being read ahead, or was. The memory counted for it returns with it.
    Ahead(JoinHandle<(Chunk, Permit)>),
    /// There is none.
    None,
}

/// Items, and the walk after them, unless they are the last ones.
type Chunk = (Vec<WalkItem>, Option<Box<Levels>>);

/// An item of a walk.
#[derive(Debug, Clone)]
pub enum WalkItem {
    /// A file, folder or link. `path` is relative to the start of the walk.
    Found {
        /// The path.
        path: PathBuf,
        /// The metadata.
        metadata: Metadata,
    },
    /// A folder, returned before as [`WalkItem::Found`], whose entries are missing or incomplete.
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// The reason.
        error: Error,
    },
}

impl Walk {
    /// Sets the source of memory for chunks and open folders.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        if let Next::Unread(levels) = &mut self.next {
            levels.counted_by(blocks.folders());
        }
        self.room.blocks = blocks;
        self
    }

    /// Returns the next items, or `None` at the end.
    ///
    /// # Cancel safety
    ///
    /// Not safe: a cancelled call ends the walk, and the next one returns `None`.
    pub async fn next_chunk(&mut self) -> Option<Vec<WalkItem>> {
        let (items, levels) = match std::mem::replace(&mut self.next, Next::None) {
            Next::Unread(levels) => {
                let most = self.room.entries();
                blocking(move || read_chunk(levels, most)).await
            }
            Next::Ahead(reading) => {
                let (chunk, permit) = joined(reading).await;
                self.room.permit = Some(permit);
                chunk
            }
            Next::None => return None,
        };
        self.next = match levels {
            Some(levels) => match self.room.whole_chunk() {
                Some(permit) => {
                    Next::Ahead(spawn_blocking(move || (read_chunk(levels, CHUNK_ENTRIES), permit)))
                }
                None => Next::Unread(levels),
            },
            None => Next::None,
        };
        if items.is_empty() { None } else { Some(items) }
    }

    /// Whether it is known that no more items follow.
    pub fn is_done(&self) -> bool {
        matches!(self.next, Next::None)
    }
}

/// Reads at least one item and at most about `most`, unless the walk ends.
fn read_chunk(mut levels: Box<Levels>, most: usize) -> Chunk {
    let mut items = Vec::with_capacity(FEW_ENTRIES);
    let mut path_bytes = 0;
    while items.len() < most && path_bytes < NAMES_BYTES {
        let Some(item) = next_item(&mut levels) else { return (items, None) };
        let (WalkItem::Found { path, .. } | WalkItem::Unreadable { path, .. }) = &item;
        path_bytes += path.as_os_str().len();
        let entered = match &item {
            WalkItem::Found { path, metadata } if metadata.kind == Kind::Folder => {
                levels.enter(path.file_name().unwrap_or_default()).err().map(|error| (path.clone(), error))
            }
            _ => None,
        };
        items.push(item);
        items.extend(entered.map(|(path, error)| WalkItem::Unreadable { path, error }));
    }
    (items, Some(levels))
}

/// Returns the next item of the innermost folder, or of its parent after its end.
pub(super) fn next_item(levels: &mut Levels) -> Option<WalkItem> {
    loop {
        let name = match levels.next_name() {
            Some(Ok((name, _))) => name,
            // A folder with a read error would fail again, so it is left.
            Some(Err(error)) => return Some(WalkItem::Unreadable { path: levels.leave()?, error }),
            None => {
                levels.leave()?;
                continue;
            }
        };
        if name::is_unfinished(&name) {
            continue;
        }
        let path = levels.path()?.join(&name);
        match metadata_at(levels.dir()?, Path::new(&name)) {
            Ok(metadata) => {
                let metadata = match metadata.kind {
                    Kind::Link(_) => levels.with_target_size(metadata, &path),
                    _ => metadata,
                };
                return Some(WalkItem::Found { path, metadata });
            }
            // An entry that vanishes between reading its name and its metadata is skipped.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => {
                let error = Error::io("look at", &path, &e);
                return Some(WalkItem::Unreadable { path: levels.leave()?, error });
            }
        }
    }
}
