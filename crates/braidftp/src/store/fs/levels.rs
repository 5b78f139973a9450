//! The stack of folders of a walk, outermost first.
//!
//! Each level costs one open file. A walk always holds the innermost [`FOLDERS_ALWAYS`] open, and more while
//! the pool of its [`Folders`] grants them. Otherwise the outermost open folder is closed, and opened again
//! when the walk returns to it: by its path below the root, at the position of its last entry (`d_off`), and
//! only if it is still the same folder. On file systems whose positions count entries (tmpfs before Linux
//! 6.6), an entry that is added or removed meanwhile may hide or repeat another one.

use std::ffi::{OsStr, OsString};
use std::os::fd::BorrowedFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use cap_std::fs::OpenOptions;
use rustix::fs::{Dir, FileType, Mode, OFlags, SeekFrom};

use super::blocks::{FOLDERS_ALWAYS, Folders};
use super::error::{Error, Why};
use super::{Metadata, Root};

/// The maximum depth of folders of a walk.
pub const MAX_DEPTH: usize = 100;

/// The operation on a folder, for errors.
const READ: &str = "read the folder";

/// The open folders of a walk.
#[derive(Debug)]
pub(super) struct Levels {
    root: Root,
    /// The start of the walk, below the root.
    base: PathBuf,
    stack: Vec<Level>,
    /// The number of open levels, counted from the innermost.
    open: usize,
    folders: Folders,
}

#[derive(Debug)]
struct Level {
    /// `None` while it is closed.
    dir: Option<Dir>,
    /// The path relative to the start of the walk.
    path: PathBuf,
    /// The position after the last entry that was read.
    position: i64,
    /// Device and inode.
    identity: (u64, u64),
}

impl Level {
    fn new(dir: Dir, path: PathBuf) -> Result<Self, Error> {
        let stat = dir.stat().map_err(|e| Error::io(READ, &path, &e.into()))?;
        Ok(Self { dir: Some(dir), path, position: 0, identity: (stat.st_dev, stat.st_ino) })
    }
}

impl Levels {
    /// Opens the folder `base` of `root`.
    ///
    /// # Errors
    ///
    /// It does not exist, is not a folder, is not readable, or is outside the root.
    pub(super) fn new(root: &Root, base: &Path, folders: Folders) -> Result<Self, Error> {
        let first = Level::new(open(root, base)?, PathBuf::new())?;
        Ok(Self { root: root.clone(), base: base.to_owned(), stack: vec![first], open: 1, folders })
    }

    /// Takes additional open files from `folders`.
    pub(super) fn counted_by(&mut self, folders: Folders) {
        self.folders = folders;
    }

    /// Returns the path of the innermost folder, relative to the start of the walk; `None` once the walk has
    /// left the first folder.
    pub(super) fn path(&self) -> Option<&Path> {
        Some(&self.stack.last()?.path)
    }

    /// Returns the innermost folder, which [`Levels::next_name`] has opened.
    pub(super) fn dir(&self) -> Option<BorrowedFd<'_>> {
        self.stack.last()?.dir.as_ref()?.fd().ok()
    }

    /// The metadata of the link at `path`, relative to the start of the walk, with the size of its target.
    pub(super) fn with_target_size(&self, found: Metadata, path: &Path) -> Metadata {
        self.root.with_target_size(found, &self.base.join(path))
    }

    /// Reads the next name in the innermost folder, with its type in the folder entry; `None` at the end.
    /// Never `.` and `..`.
    pub(super) fn next_name(&mut self) -> Option<Result<(OsString, FileType), Error>> {
        if let Err(error) = self.open_again() {
            return Some(Err(error));
        }
        let Level { dir, path, position, .. } = self.stack.last_mut()?;
        let dir = dir.as_mut()?;
        loop {
            match dir.read()? {
                Ok(entry) => {
                    *position = entry.offset();
                    let name = entry.file_name().to_bytes();
                    if name != b"." && name != b".." {
                        return Some(Ok((OsStr::from_bytes(name).to_owned(), entry.file_type())));
                    }
                }
                Err(error) => return Some(Err(Error::io(READ, path, &error.into()))),
            }
        }
    }

    /// Opens the folder `name` in the innermost one, unless it has become a link meanwhile.
    ///
    /// # Errors
    ///
    /// It no longer exists, is not a folder, is not readable, or is deeper than [`MAX_DEPTH`].
    pub(super) fn enter(&mut self, name: &OsStr) -> Result<(), Error> {
        let path = self.path().unwrap_or(Path::new("")).join(name);
        if self.stack.len() >= MAX_DEPTH {
            return Err(Error::new(READ, &path, Why::TooDeep));
        }
        let Some(dir) = self.dir() else { return Err(Error::new(READ, &path, Why::NotFound)) };
        let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let below = rustix::fs::openat(dir, name, flags, Mode::empty()).and_then(Dir::new);
        let below = Level::new(below.map_err(|e| Error::io(READ, &path, &e.into()))?, path)?;
        self.stack.push(below);
        self.open += 1;
        if self.open > FOLDERS_ALWAYS && !self.folders.take() {
            let outermost = self.stack.len() - self.open;
            self.stack[outermost].dir = None;
            self.open -= 1;
        }
        Ok(())
    }

    /// Leaves the innermost folder, and returns its path.
    pub(super) fn leave(&mut self) -> Option<PathBuf> {
        let level = self.stack.pop()?;
        if level.dir.is_some() {
            self.open -= 1;
            if self.open >= FOLDERS_ALWAYS {
                self.folders.give_back();
            }
        }
        Some(level.path)
    }

    /// Opens the innermost folder if it was closed.
    fn open_again(&mut self) -> Result<(), Error> {
        let Some(level) = self.stack.last_mut().filter(|level| level.dir.is_none()) else { return Ok(()) };
        let dir = open(&self.root, &self.base.join(&level.path))?;
        let io = |error: rustix::io::Errno| Error::io(READ, &level.path, &error.into());
        let stat = dir.stat().map_err(io)?;
        if (stat.st_dev, stat.st_ino) != level.identity {
            return Err(Error::new(READ, &level.path, Why::NotFound));
        }
        if level.position != 0 {
            let fd = dir.fd().map_err(io)?;
            rustix::fs::seek(fd, SeekFrom::Start(level.position as u64)).map_err(io)?;
        }
        level.dir = Some(dir);
        self.open += 1;
        Ok(())
    }

    /// Returns the number of open folders.
    #[cfg(test)]
    pub(super) fn open_folders(&self) -> usize {
        assert_eq!(self.open, self.stack.iter().filter(|level| level.dir.is_some()).count());
        self.open
    }
}

fn open(root: &Root, path: &Path) -> Result<Dir, Error> {
    let folder = root.open_with(READ, path, OFlags::DIRECTORY, OpenOptions::new().read(true))?;
    Dir::new(folder).map_err(|e| Error::io(READ, path, &e.into()))
}
