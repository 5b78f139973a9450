//! Local files below one root: confined to the root, safe against symbolic links, with names as bytes.
//!
//! A [`Root`] is an open folder. Every path is relative to the root and resolved by the system below it
//! (openat2 through cap-std): symbolic links are followed within the root and refused where they lead out,
//! even if they are replaced concurrently. Files are written under a temporary name and renamed when they are
//! complete ([`Writer`]), read in blocks with read-ahead ([`Reader`]), and listed as a stream ([`Lister`],
//! [`Walk`]): nothing here holds a whole file or a whole folder in memory.
//!
//! The synchronous methods of [`Root`] block; asynchronous callers use [`Root::blocking`]. This module does
//! not know FTP, users or sockets.

mod at_once;
mod batches;
mod blocks;
mod claims;
mod digest;
mod error;
mod kept;
mod levels;
mod list;
mod looks;
mod name;
mod near;
mod part_file;
mod parts;
mod printable;
mod reader;
mod writer;

#[cfg(test)]
mod tests;

use std::fs::File;
use std::io;
use std::os::fd::AsFd;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::{Duration, SystemTime};

use cap_std::fs::{Dir, OpenOptions, OpenOptionsExt};
use rustix::fs::{AtFlags, FileType, Mode, OFlags, Timespec, Timestamps};
use tokio::task::JoinHandle;

pub(in crate::store) use blocks::Permit;
pub use blocks::{
    Blocks, FOLDERS_ALWAYS, FOLDERS_MAX, Growing, POOL_BYTES, Pool, SESSION_BYTES, SMALLEST_BYTES,
};
pub use claims::Claimant;
pub use digest::{Digested, Hashing};
pub use error::{Error, Why};
pub use kept::{Allowance, Kept};
pub use levels::MAX_DEPTH;
pub use list::{Entry, Lister, Walk, WalkItem};
pub use looks::Found;
pub use name::{MAX_PATH_BYTES, component, fits_a_line, is_unfinished, link_stays_inside, relative};
pub use part_file::{Commit, Durability, Holes, Start, Written};
pub use parts::{Part, Removal};
pub use printable::escaped;
pub use reader::{BLOCK_BYTES, Change, Digest, Pieces, Reader, Summary};
pub use writer::{Keep, Writer};

/// The open folder that confines all operations. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Root {
    dir: Arc<Dir>,
    claims: Arc<claims::Claims>,
    batches: Arc<batches::Batches>,
    memory: Arc<at_once::Memory>,
}

/// The type of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Kind {
    /// A regular file.
    File,
    /// A folder.
    Folder,
    /// A symbolic link, with the text of its target.
    Link(PathBuf),
    /// A device, a pipe, a socket: listed, never opened.
    Other,
}

/// The metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The type.
    pub kind: Kind,
    /// The size of a regular file in bytes; for a link the size of its target within the root, or 0 if there
    /// is none; for others the system's value.
    pub size: u64,
    /// The modification time, in nanoseconds.
    pub modified: SystemTime,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// Device and inode: equal for two names of one file. [`Metadata::NO_IDENTITY`] for an object of a bucket.
    pub identity: (u64, u64),
    /// The number of names of the file (hard links).
    pub links: u64,
}

impl Metadata {
    /// The identity of an object in a bucket, which has none. It has no permission bits either, and a folder no
    /// time: those of its metadata have no meaning.
    pub const NO_IDENTITY: (u64, u64) = (0, 0);

    fn from_stat(stat: &rustix::fs::Stat, kind: Kind) -> Self {
        #[allow(clippy::unnecessary_cast, reason = "its type differs between architectures")]
        let links = stat.st_nlink as u64;
        Self {
            kind,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: system_time(stat.st_mtime, stat.st_mtime_nsec as u32),
            mode: stat.st_mode & 0o7777,
            identity: (stat.st_dev, stat.st_ino),
            links,
        }
    }
}

fn system_time(seconds: i64, nanos: u32) -> SystemTime {
    let whole = Duration::from_secs(seconds.unsigned_abs());
    let base = if seconds >= 0 { SystemTime::UNIX_EPOCH + whole } else { SystemTime::UNIX_EPOCH - whole };
    base + Duration::from_nanos(u64::from(nanos))
}

fn timespec(time: SystemTime) -> Timespec {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timespec { tv_sec: after.as_secs() as i64, tv_nsec: i64::from(after.subsec_nanos()) },
        Err(before) => {
            let before = before.duration();
            let borrow = i64::from(before.subsec_nanos() > 0);
            Timespec {
                tv_sec: 0_i64.saturating_sub_unsigned(before.as_secs()).saturating_sub(borrow),
                tv_nsec: borrow * 1_000_000_000 - i64::from(before.subsec_nanos()),
            }
        }
    }
}

/// Whether a name of a file existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Linked {
    /// It was made.
    Now,
    /// It existed.
    Before,
}

/// A folder, and the name of an entry.
struct Place<'a> {
    dir: Dir,
    name: &'a Path,
}

impl Root {
    /// Opens the folder `path` of this machine as a root.
    ///
    /// # Errors
    ///
    /// It does not exist, is not a folder, or is not readable.
    pub fn open(path: impl AsRef<Path>) -> Result<Self, Error> {
        let path = path.as_ref();
        let shown = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        let dir = Dir::open_ambient_dir(shown, cap_std::ambient_authority())
            .map_err(|e| Error::io("open the folder", shown, &e))?;
        Ok(Self {
            dir: Arc::new(dir),
            claims: Arc::default(),
            batches: Arc::default(),
            memory: Arc::default(),
        })
    }

    /// Opens a folder below this one as a separate root, which confines links.
    ///
    /// # Errors
    ///
    /// As [`Root::open`], and if the folder is outside this root.
    pub fn beneath(&self, path: &Path) -> Result<Self, Error> {
        let dir = Arc::new(self.open_dir("open the folder", path)?);
        Ok(Self { dir, ..self.clone() })
    }

    /// Runs `work`, which may wait for the disk, on a thread that may block.
    ///
    /// # Cancel safety
    ///
    /// Work that has begun runs to its end; its result is lost.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let root = self.clone();
        blocking(move || work(&root)).await
    }

    /// The metadata of `path`; links are followed within the root.
    ///
    /// # Errors
    ///
    /// It does not exist, or is outside the root.
    pub fn metadata(&self, path: &Path) -> Result<Metadata, Error> {
        let what = "look at";
        // O_PATH needs no permission to read the file, and does not activate devices.
        let file = self.open_with(what, path, OFlags::PATH, OpenOptions::new().read(true))?;
        let stat = rustix::fs::fstat(&file).map_err(|e| Error::io(what, path, &e.into()))?;
        Ok(Metadata::from_stat(&stat, kind_of(&stat)))
    }

    /// The metadata of `path` itself: a link is a [`Kind::Link`].
    ///
    /// # Errors
    ///
    /// It does not exist, or its folder is outside the root.
    pub fn link_metadata(&self, path: &Path) -> Result<Metadata, Error> {
        if path.as_os_str().is_empty() {
            return self.metadata(path);
        }
        let place = self.place("look at", path)?;
        let found = place.metadata().map_err(|e| Error::io("look at", path, &e))?;
        Ok(self.with_target_size(found, path))
    }

    /// The same with the size of a link's target, which is what a reader of the link gets.
    fn with_target_size(&self, found: Metadata, path: &Path) -> Metadata {
        match found.kind {
            Kind::Link(_) => {
                let target = self.metadata(path).ok().filter(|target| target.kind == Kind::File);
                Metadata { size: target.map_or(0, |target| target.size), ..found }
            }
            _ => found,
        }
    }

    /// Creates a folder. Its parent must exist.
    ///
    /// # Errors
    ///
    /// The name exists, the parent does not exist, no permission, no space.
    pub fn mkdir(&self, path: &Path) -> Result<(), Error> {
        let what = "make the folder";
        let place = self.place(what, path)?;
        rustix::fs::mkdirat(&place.dir, place.name, Mode::from_raw_mode(0o777))
            .map_err(|e| Error::io(what, path, &e.into()))
    }

    /// Creates a folder and its missing parents.
    ///
    /// # Errors
    ///
    /// A component is not a folder, no permission, no space.
    pub fn mkdir_all(&self, path: &Path) -> Result<(), Error> {
        let mut made = PathBuf::new();
        for part in path.components() {
            made.push(part);
            match self.mkdir(&made) {
                Ok(()) => {}
                Err(e) if e.why == Why::Exists => {}
                Err(e) => return Err(e),
            }
        }
        match self.metadata(path)?.kind {
            Kind::Folder => Ok(()),
            _ => Err(Error::new("make the folder", path, Why::NotAFolder)),
        }
    }

    /// Removes a file or a link (not its target).
    ///
    /// # Errors
    ///
    /// It does not exist, is a folder, or must not be removed.
    pub fn remove_file(&self, path: &Path) -> Result<(), Error> {
        let place = self.place("remove", path)?;
        rustix::fs::unlinkat(&place.dir, place.name, AtFlags::empty())
            .map_err(|e| Error::io("remove", path, &e.into()))
    }

    /// Removes an empty folder. Temporary files of interrupted transfers in it are ignored.
    ///
    /// # Errors
    ///
    /// It does not exist, is not a folder, is not empty.
    pub fn remove_dir(&self, path: &Path) -> Result<(), Error> {
        let what = "remove the folder";
        let place = self.place(what, path)?;
        let remove = || rustix::fs::unlinkat(&place.dir, place.name, AtFlags::REMOVEDIR);
        match remove() {
            Err(rustix::io::Errno::NOTEMPTY | rustix::io::Errno::EXIST) => {
                self.remove_unfinished(path)?;
                remove().map_err(|e| Error::io(what, path, &e.into()))
            }
            other => other.map_err(|e| Error::io(what, path, &e.into())),
        }
    }

    /// Removes the temporary files in a folder, if it contains nothing else.
    fn remove_unfinished(&self, path: &Path) -> Result<(), Error> {
        let dir = self.open_dir("read the folder", path)?;
        let mut names = Vec::new();
        for entry in dir.entries().map_err(|e| Error::io("read the folder", path, &e))? {
            let name = entry.map_err(|e| Error::io("read the folder", path, &e))?.file_name();
            // A folder with other files is not changed.
            if !is_unfinished(&name) || names.len() == 1024 {
                return Ok(());
            }
            names.push(name);
        }
        for name in names {
            rustix::fs::unlinkat(&dir, &name, AtFlags::empty())
                .map_err(|e| Error::io("remove", &path.join(&name), &e.into()))?;
        }
        Ok(())
    }

    /// Renames; an entry with the new name is replaced, as by rename(2).
    ///
    /// # Errors
    ///
    /// Either path is outside the root, the old one does not exist, the new one is a folder.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let (old, new) = (self.place("rename", from)?, self.place("rename to", to)?);
        rustix::fs::renameat(&old.dir, old.name, &new.dir, new.name)
            .map_err(|e| Error::io("rename", from, &e.into()))
    }

    /// Sets the modification time of `path` itself (a link is not followed).
    ///
    /// # Errors
    ///
    /// It does not exist, or belongs to another user.
    pub fn set_modified(&self, path: &Path, modified: SystemTime) -> Result<(), Error> {
        let what = "set the time of";
        let times = Timestamps {
            last_access: Timespec { tv_sec: 0, tv_nsec: rustix::fs::UTIME_OMIT },
            last_modification: timespec(modified),
        };
        let result = if path.as_os_str().is_empty() {
            rustix::fs::futimens(self.open_dir(what, path)?, &times)
        } else {
            let place = self.place(what, path)?;
            rustix::fs::utimensat(&place.dir, place.name, &times, AtFlags::SYMLINK_NOFOLLOW)
        };
        result.map_err(|e| Error::io(what, path, &e.into()))
    }

    /// Sets the permission bits of `path`; never set-user-id, set-group-id or sticky.
    ///
    /// # Errors
    ///
    /// It does not exist, or belongs to another user.
    pub fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Error> {
        let what = "set the mode of";
        let file = self.open_with(what, path, OFlags::NONBLOCK, OpenOptions::new().read(true))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))
            .map_err(|e| Error::io(what, path, &e.into()))
    }

    /// Creates a symbolic link, if its target is within the root. A link of the same name is replaced.
    ///
    /// # Errors
    ///
    /// [`Why::OutsideRoot`] for an absolute target or one that leads out of the root; the name exists and is
    /// not a link.
    pub fn symlink(&self, target: &Path, path: &Path) -> Result<(), Error> {
        let what = "make the link";
        if !link_stays_inside(path, target) || target.as_os_str().as_bytes().contains(&0) {
            return Err(Error::new(what, path, Why::OutsideRoot));
        }
        let place = self.place(what, path)?;
        let make = || rustix::fs::symlinkat(target, &place.dir, place.name);
        match make() {
            Err(rustix::io::Errno::EXIST) => {
                let old = place.metadata().map_err(|e| Error::io(what, path, &e))?;
                match old.kind {
                    Kind::Link(old) if old == target => Ok(()),
                    Kind::Link(_) => {
                        self.remove_file(path)?;
                        make().map_err(|e| Error::io(what, path, &e.into()))
                    }
                    _ => Err(Error::new(what, path, Why::Exists)),
                }
            }
            other => other.map_err(|e| Error::io(what, path, &e.into())),
        }
    }

    /// Gives the regular file `existing` another name. A file or link of this name is replaced at once, so that the
    /// name never lacks a file; it may be linked by others at the same time.
    ///
    /// # Errors
    ///
    /// `existing` does not exist or is no regular file; `path` is a folder; both are on different file systems, or
    /// the file system knows no such links.
    pub fn hard_link(&self, existing: &Path, path: &Path) -> Result<Linked, Error> {
        let what = "make the link";
        let (from, to) = (self.place("link", existing)?, self.place(what, path)?);
        let file = from.metadata().map_err(|e| Error::io("link", existing, &e))?;
        if file.kind != Kind::File {
            return Err(Error::new("link", existing, Why::NotAFile));
        }
        let link = |name: &Path| rustix::fs::linkat(&from.dir, from.name, &to.dir, name, AtFlags::empty());
        let failed = |e: rustix::io::Errno| match e {
            rustix::io::Errno::XDEV | rustix::io::Errno::MLINK | rustix::io::Errno::OPNOTSUPP => {
                Error::new(what, path, Why::Unsupported("the file cannot have this name besides its own"))
            }
            e => Error::io(what, path, &e.into()),
        };
        match link(to.name) {
            Err(rustix::io::Errno::EXIST) => {}
            other => return other.map(|()| Linked::Now).map_err(failed),
        }
        let is_there = || to.metadata().map(|there| there.identity == file.identity);
        match to.metadata().map_err(|e| Error::io(what, path, &e))? {
            there if there.identity == file.identity => return Ok(Linked::Before),
            there if there.kind == Kind::Folder => return Err(Error::new(what, path, Why::IsAFolder)),
            _ => {}
        }
        // A name of this file alone, which another call for the same names may make, rename or remove.
        let part = name::link(to.name.as_os_str(), file.identity);
        match link(&part) {
            Ok(()) | Err(rustix::io::Errno::EXIST) => {}
            Err(e) => return Err(failed(e)),
        }
        let renamed = rustix::fs::renameat(&to.dir, &part, &to.dir, to.name);
        // It is still there if renaming failed, or if the other name was of the same file already.
        let _ = rustix::fs::unlinkat(&to.dir, &part, AtFlags::empty());
        match renamed {
            Ok(()) => Ok(Linked::Now),
            Err(rustix::io::Errno::NOENT) if is_there().unwrap_or(false) => Ok(Linked::Now),
            Err(e) => Err(failed(e)),
        }
    }

    /// The free bytes on the file system of the root.
    ///
    /// # Errors
    ///
    /// The system does not report them.
    pub fn free_bytes(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstatvfs(&*self.dir)
            .map_err(|e| Error::io("ask for the free space of", Path::new(""), &e.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// The size of the file system of the root, in bytes.
    ///
    /// # Errors
    ///
    /// The system does not report it.
    pub fn disk_bytes(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstatvfs(&*self.dir)
            .map_err(|e| Error::io("ask for the size of", Path::new(""), &e.into()))?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    /// The number of bytes that an interrupted transfer of `path` has left, from which it can be resumed;
    /// `None` if there are none.
    ///
    /// # Errors
    ///
    /// The folder does not exist or is outside the root.
    pub fn unfinished_bytes(&self, path: &Path) -> Result<Option<u64>, Error> {
        let place = self.place("look at", path)?;
        let part = Place { dir: place.dir, name: &name::unfinished(place.name.as_os_str()) };
        match part.metadata() {
            Ok(metadata) if metadata.kind == Kind::File => Ok(Some(metadata.size)),
            Ok(_) => Ok(None),
            Err(e) if e.kind() == io::ErrorKind::NotFound => Ok(None),
            Err(e) => Err(Error::io("look at", path, &e)),
        }
    }

    /// Marks the temporary file of an interrupted transfer of `path` with the modification time of its
    /// source, so that a later transfer can check that the source is unchanged.
    ///
    /// # Errors
    ///
    /// There is no such file, or it belongs to another user.
    pub fn mark_unfinished(&self, path: &Path, modified: SystemTime) -> Result<(), Error> {
        self.set_modified(&self.unfinished_path(path), modified)
    }

    /// The metadata of the temporary file of an interrupted transfer of `path`; its time is the mark, or the
    /// time of the last write.
    ///
    /// # Errors
    ///
    /// There is no such file, or its folder is outside the root.
    pub fn unfinished_metadata(&self, path: &Path) -> Result<Metadata, Error> {
        self.link_metadata(&self.unfinished_path(path))
    }

    fn unfinished_path(&self, path: &Path) -> PathBuf {
        path.with_file_name(name::unfinished(path.file_name().unwrap_or_default()))
    }

    /// Removes the temporary file of an interrupted transfer of `path`, if there is one.
    ///
    /// # Errors
    ///
    /// It must not be removed.
    pub fn remove_partial(&self, path: &Path) -> Result<(), Error> {
        let place = self.place("remove", path)?;
        match rustix::fs::unlinkat(&place.dir, name::unfinished(place.name.as_os_str()), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(Error::io("remove", path, &e.into())),
        }
    }

    /// Opens a folder; links are followed within the root.
    fn open_dir(&self, what: &'static str, path: &Path) -> Result<Dir, Error> {
        let path_or_dot = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        self.dir.open_dir(path_or_dot).map_err(|e| Error::io(what, path, &e))
    }

    fn open_with(
        &self,
        what: &'static str,
        path: &Path,
        flags: OFlags,
        options: &mut OpenOptions,
    ) -> Result<File, Error> {
        let path_or_dot = if path.as_os_str().is_empty() { Path::new(".") } else { path };
        options.custom_flags(flags.bits() as i32);
        match self.dir.open_with(path_or_dot, options) {
            Ok(file) => Ok(file.into_std()),
            Err(e) => Err(Error::io(what, path, &e)),
        }
    }

    /// Opens the folder that contains `path`, and returns it with the last name.
    fn place<'a>(&self, what: &'static str, path: &'a Path) -> Result<Place<'a>, Error> {
        let Some(name) = path.file_name() else {
            return Err(Error::new(what, path, Why::BadName("it names no file")));
        };
        let parent = path.parent().unwrap_or(Path::new(""));
        let dir = self.open_dir(what, parent).map_err(|e| Error { path: path.to_owned(), ..e })?;
        Ok(Place { dir, name: Path::new(name) })
    }
}

#[cfg(test)]
impl Root {
    fn claims_are_empty(&self) -> bool {
        self.claims.is_empty()
    }
}

impl Place<'_> {
    /// lstat.
    fn metadata(&self) -> io::Result<Metadata> {
        metadata_at(&self.dir, self.name)
    }
}

fn kind_of(stat: &rustix::fs::Stat) -> Kind {
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile => Kind::File,
        FileType::Directory => Kind::Folder,
        _ => Kind::Other,
    }
}

/// lstat of a name in an open folder, and readlink for a link.
fn metadata_at(dir: impl AsFd + Copy, name: &Path) -> io::Result<Metadata> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW)?;
    let kind = match FileType::from_raw_mode(stat.st_mode) {
        FileType::Symlink => {
            let target = rustix::fs::readlinkat(dir, name, Vec::new())?;
            Kind::Link(PathBuf::from(std::ffi::OsStr::from_bytes(target.as_bytes())))
        }
        _ => kind_of(&stat),
    };
    Ok(Metadata::from_stat(&stat, kind))
}

/// Runs `work` on the pool of threads that may block.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    joined(tokio::task::spawn_blocking(work)).await
}

/// Waits for work on that pool.
async fn joined<T>(running: JoinHandle<T>) -> T {
    match running.await {
        Ok(value) => value,
        // Only a panic of `work` or the end of the runtime cause this error; both end this task too.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}
