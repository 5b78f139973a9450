//! Folders read as streams: [`Lister`] for one, [`Walk`] for a whole tree. Neither holds more than a chunk.

use std::ffi::OsString;
use std::path::{Path, PathBuf};

use cap_std::fs::{Dir, ReadDir};

use super::blocks::{Blocks, Folders, Permit};
use super::error::Error;
use super::levels::Levels;
use super::{Kind, Metadata, Root, blocking, metadata_at, name};

/// Entries read at one go: enough to make a trip to another thread worth it, little enough to be nothing.
const CHUNK_ENTRIES: usize = 256;
/// The same where there is little room.
const FEW_ENTRIES: usize = 16;

/// Bytes of names or paths read at one go, which those of a deep tree come to soon; also what a chunk is counted as.
const CHUNK_BYTES: usize = 64 << 10;

/// One name in a folder.
#[derive(Debug, Clone)]
pub struct Entry {
    /// The name, as bytes; never `.`, `..`, nor that of an unfinished file. It may have a line end, which FTP cannot carry.
    pub name: OsString,
    /// What it is; links are not followed.
    pub metadata: Metadata,
}

/// Reads one folder, a chunk at a time, in the order the file system has.
#[derive(Debug)]
pub struct Lister {
    open: Option<Open>,
    path: PathBuf,
    room: Room,
}

/// Where room for chunks comes from, and that for the chunk given out last.
#[derive(Debug, Default)]
struct Room {
    blocks: Blocks,
    permit: Option<Permit>,
}

impl Room {
    /// Of how many entries the next chunk may be. The one before is used up.
    fn entries(&mut self) -> usize {
        self.permit = None;
        self.permit = self.blocks.take(CHUNK_BYTES).filter(|permit| permit.bytes() == CHUNK_BYTES);
        if self.permit.is_some() { CHUNK_ENTRIES } else { FEW_ENTRIES }
    }
}

#[derive(Debug)]
struct Open {
    root: Root,
    dir: Dir,
    entries: ReadDir,
}

impl Open {
    fn new(root: &Root, path: &Path) -> Result<Self, Error> {
        let what = "read the folder";
        let dir = root.open_dir(what, path)?;
        let entries = dir.entries().map_err(|e| Error::io(what, path, &e))?;
        Ok(Self { root: root.clone(), dir, entries })
    }

    /// The next entry that may be shown. One that vanishes between its name and its metadata was never there.
    fn next(&mut self, path: &Path) -> Option<Result<Entry, Error>> {
        loop {
            let name = match self.entries.next()? {
                Ok(entry) => entry.file_name(),
                Err(e) => return Some(Err(Error::io("read the folder", path, &e))),
            };
            if name::is_unfinished(&name) {
                continue;
            }
            match metadata_at(&self.dir, Path::new(&name)) {
                Ok(metadata) => {
                    let metadata = match metadata.kind {
                        Kind::Link(_) => self.root.with_target_size(metadata, &path.join(&name)),
                        _ => metadata,
                    };
                    return Some(Ok(Entry { name, metadata }));
                }
                Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
                Err(e) => return Some(Err(Error::io("look at", &path.join(&name), &e))),
            }
        }
    }
}

impl Root {
    /// Opens a folder to be read as a stream.
    ///
    /// # Errors
    /// It is not there, not a folder, not readable, or leads outside.
    ///
    /// # Cancel safety
    /// Safe: nothing is changed.
    pub async fn list(&self, path: &Path) -> Result<Lister, Error> {
        let path = path.to_owned();
        self.blocking(move |root| {
            Ok(Lister { open: Some(Open::new(root, &path)?), path, room: Room::default() })
        })
        .await
    }

    /// Reads a whole tree as a stream, folders before what is in them. Links are shown, never followed.
    ///
    /// # Errors
    /// `path` is not there, not a folder, not readable, or leads outside. Folders beneath that cannot be read are
    /// items of the walk, not its end.
    ///
    /// # Cancel safety
    /// Safe: nothing is changed.
    pub async fn walk(&self, path: &Path) -> Result<Walk, Error> {
        let path = path.to_owned();
        self.blocking(move |root| {
            let levels = Levels::new(root, &path, Folders::default())?;
            Ok(Walk { levels: Some(levels), room: Room::default() })
        })
        .await
    }
}

impl Lister {
    /// Says where room for chunks comes from.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        self.room.blocks = blocks;
        self
    }

    /// The next entries, or `None` at the end.
    ///
    /// # Errors
    /// The folder could not be read on; nothing follows.
    ///
    /// # Cancel safety
    /// Not safe: a cancelled call ends the listing, and the next one says `None`.
    pub async fn next_chunk(&mut self) -> Result<Option<Vec<Entry>>, Error> {
        let Some(mut open) = self.open.take() else { return Ok(None) };
        let (path, most) = (self.path.clone(), self.room.entries());
        let (open, chunk) = blocking(move || {
            let mut chunk = Vec::with_capacity(32);
            while chunk.len() < most {
                match open.next(&path) {
                    Some(Ok(entry)) => chunk.push(entry),
                    Some(Err(e)) => return (None, Err(e)),
                    None => return (None, Ok(chunk)),
                }
            }
            (Some(open), Ok(chunk))
        })
        .await;
        self.open = open;
        let chunk = chunk?;
        Ok(if chunk.is_empty() { None } else { Some(chunk) })
    }

    /// Whether it is known that nothing follows.
    pub fn is_done(&self) -> bool {
        self.open.is_none()
    }
}

/// Reads a whole tree, depth first, a chunk at a time. Holds a few folders open.
#[derive(Debug)]
pub struct Walk {
    levels: Option<Levels>,
    room: Room,
}

/// What a walk comes across.
#[derive(Debug, Clone)]
pub enum WalkItem {
    /// A file, folder or link. `path` is relative to where the walk began.
    Found {
        /// Where it is.
        path: PathBuf,
        /// What it is.
        metadata: Metadata,
    },
    /// A folder, shown before by [`WalkItem::Found`], whose entries are missing or incomplete.
    Unreadable {
        /// The folder.
        path: PathBuf,
        /// Why.
        error: Error,
    },
}

impl Walk {
    /// Says where room for chunks and open folders comes from.
    #[must_use]
    pub fn counted_by(mut self, blocks: Blocks) -> Self {
        if let Some(levels) = &mut self.levels {
            levels.counted_by(blocks.folders());
        }
        self.room.blocks = blocks;
        self
    }

    /// The next items, or `None` at the end.
    ///
    /// # Cancel safety
    /// Not safe: a cancelled call ends the walk, and the next one says `None`.
    pub async fn next_chunk(&mut self) -> Option<Vec<WalkItem>> {
        let mut levels = self.levels.take()?;
        let most = self.room.entries();
        let (levels, chunk) = blocking(move || {
            let mut chunk = Vec::with_capacity(32);
            let mut path_bytes = 0;
            while chunk.len() < most && path_bytes < CHUNK_BYTES {
                let Some(item) = next_item(&mut levels) else { return (None, chunk) };
                let (WalkItem::Found { path, .. } | WalkItem::Unreadable { path, .. }) = &item;
                path_bytes += path.as_os_str().len();
                let entered = match &item {
                    WalkItem::Found { path, metadata } if metadata.kind == Kind::Folder => levels
                        .enter(path.file_name().unwrap_or_default())
                        .err()
                        .map(|error| (path.clone(), error)),
                    _ => None,
                };
                chunk.push(item);
                chunk.extend(entered.map(|(path, error)| WalkItem::Unreadable { path, error }));
            }
            (Some(levels), chunk)
        })
        .await;
        self.levels = levels;
        if chunk.is_empty() { None } else { Some(chunk) }
    }

    /// Whether it is known that nothing follows.
    pub fn is_done(&self) -> bool {
        self.levels.is_none()
    }
}

/// The next thing in the innermost folder, or in one above it once that is at its end.
pub(super) fn next_item(levels: &mut Levels) -> Option<WalkItem> {
    loop {
        let name = match levels.next_name() {
            Some(Ok((name, _))) => name,
            // A folder that fails in the middle would fail again: leave it.
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
            // One that vanishes between its name and its metadata was never there.
            Err(e) if e.kind() == std::io::ErrorKind::NotFound => {}
            Err(e) => {
                let error = Error::io("look at", &path, &e);
                return Some(WalkItem::Unreadable { path: levels.leave()?, error });
            }
        }
    }
}
