//! Local files under one root: rooted, symlink-safe, with names that are bytes.
//!
//! A [`Root`] is an open folder. Every path is relative to it and resolved by the system beneath it (openat2 by way
//! of cap-std): symbolic links are followed while they stay inside and refused where they lead out, whoever swaps
//! them meanwhile. Files are written under another name and renamed when they are whole ([`Writer`]), read in
//! blocks ahead of need ([`Reader`]), and listed as a stream ([`Lister`], [`Walk`]): nothing here holds a whole
//! file or a whole folder in memory.
//!
//! The plain methods of [`Root`] block; an async caller runs them by [`Root::blocking`]. This module does not know
//! FTP, users or sockets.

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

pub use blocks::{
    Blocks, FOLDERS_ALWAYS, FOLDERS_MAX, Growing, POOL_BYTES, Pool, SESSION_BYTES, SMALLEST_BYTES,
};
pub use claims::Claimant;
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

/// An open folder that everything happens beneath. Cheap to clone.
#[derive(Debug, Clone)]
pub struct Root {
    dir: Arc<Dir>,
    claims: Arc<claims::Claims>,
    batches: Arc<batches::Batches>,
    memory: Arc<at_once::Memory>,
}

/// What a file is.
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

/// What a file system knows about a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: Kind,
    /// Bytes in a regular file; of a link those in the file beneath the root that it leads to, and 0 if it leads to none;
    /// whatever the system says for the rest.
    pub size: u64,
    /// When its contents last changed, to the nanosecond.
    pub modified: SystemTime,
    /// Permission bits, `0o7777` at most.
    pub mode: u32,
    /// Device and inode: the same for two names of one file.
    pub identity: (u64, u64),
}

impl Metadata {
    fn from_stat(stat: &rustix::fs::Stat, kind: Kind) -> Self {
        Self {
            kind,
            size: u64::try_from(stat.st_size).unwrap_or(0),
            modified: system_time(stat.st_mtime, stat.st_mtime_nsec as u32),
            mode: stat.st_mode & 0o7777,
            identity: (stat.st_dev, stat.st_ino),
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

/// A folder, and the name of something in it.
struct Place<'a> {
    dir: Dir,
    name: &'a Path,
}

impl Root {
    /// The folder `path` of this machine, wherever it lies.
    ///
    /// # Errors
    /// It is not there, not a folder, or may not be read.
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

    /// A folder beneath this one as a root of its own: links may then not leave *it*.
    ///
    /// # Errors
    /// As [`Root::open`], and if it leads out of this root.
    pub fn beneath(&self, path: &Path) -> Result<Self, Error> {
        let dir = Arc::new(self.open_dir("open the folder", path)?);
        Ok(Self { dir, ..self.clone() })
    }

    /// Runs `work`, which may wait for the disk, where waiting is allowed.
    ///
    /// # Cancel safety
    /// Work that has begun runs to its end; its result is lost.
    pub async fn blocking<T: Send + 'static>(&self, work: impl FnOnce(&Self) -> T + Send + 'static) -> T {
        let root = self.clone();
        blocking(move || work(&root)).await
    }

    /// What `path` is; links are followed as far as they stay inside.
    ///
    /// # Errors
    /// It is not there, or leads outside.
    pub fn metadata(&self, path: &Path) -> Result<Metadata, Error> {
        let what = "look at";
        // O_PATH needs no right to read the file itself, and opens devices without waking them.
        let file = self.open_with(what, path, OFlags::PATH, OpenOptions::new().read(true))?;
        let stat = rustix::fs::fstat(&file).map_err(|e| Error::io(what, path, &e.into()))?;
        Ok(Metadata::from_stat(&stat, kind_of(&stat)))
    }

    /// What `path` itself is: a link is a [`Kind::Link`].
    ///
    /// # Errors
    /// It is not there, or its folder leads outside.
    pub fn link_metadata(&self, path: &Path) -> Result<Metadata, Error> {
        if path.as_os_str().is_empty() {
            return self.metadata(path);
        }
        let place = self.place("look at", path)?;
        let found = place.metadata().map_err(|e| Error::io("look at", path, &e))?;
        Ok(self.with_target_size(found, path))
    }

    /// The same with the size of the file that a link leads to: what a reader of the link gets.
    fn with_target_size(&self, found: Metadata, path: &Path) -> Metadata {
        match found.kind {
            Kind::Link(_) => {
                let target = self.metadata(path).ok().filter(|target| target.kind == Kind::File);
                Metadata { size: target.map_or(0, |target| target.size), ..found }
            }
            _ => found,
        }
    }

    /// Makes a folder. Its parent must be there.
    ///
    /// # Errors
    /// The name is taken, the parent is not there, no rights, no space.
    pub fn mkdir(&self, path: &Path) -> Result<(), Error> {
        let what = "make the folder";
        let place = self.place(what, path)?;
        rustix::fs::mkdirat(&place.dir, place.name, Mode::from_raw_mode(0o777))
            .map_err(|e| Error::io(what, path, &e.into()))
    }

    /// Makes a folder and those above it, as far as they are missing.
    ///
    /// # Errors
    /// Something that is not a folder is in the way, no rights, no space.
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

    /// Removes a file or a link (not what it points to).
    ///
    /// # Errors
    /// It is not there, is a folder, or may not be removed.
    pub fn remove_file(&self, path: &Path) -> Result<(), Error> {
        let place = self.place("remove", path)?;
        rustix::fs::unlinkat(&place.dir, place.name, AtFlags::empty())
            .map_err(|e| Error::io("remove", path, &e.into()))
    }

    /// Removes an empty folder. What interrupted transfers left in it does not count.
    ///
    /// # Errors
    /// It is not there, not a folder, not empty.
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

    /// Removes the unfinished files of a folder, if there is nothing else in it.
    fn remove_unfinished(&self, path: &Path) -> Result<(), Error> {
        let dir = self.open_dir("read the folder", path)?;
        let mut names = Vec::new();
        for entry in dir.entries().map_err(|e| Error::io("read the folder", path, &e))? {
            let name = entry.map_err(|e| Error::io("read the folder", path, &e))?.file_name();
            // A folder with anything real in it stays as it is.
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

    /// Renames; what bears the new name already is replaced, as rename(2) does.
    ///
    /// # Errors
    /// Either place leads outside, the old is not there, a folder is in the way.
    pub fn rename(&self, from: &Path, to: &Path) -> Result<(), Error> {
        let (old, new) = (self.place("rename", from)?, self.place("rename to", to)?);
        rustix::fs::renameat(&old.dir, old.name, &new.dir, new.name)
            .map_err(|e| Error::io("rename", from, &e.into()))
    }

    /// Sets when `path` itself (a link is not followed) last changed.
    ///
    /// # Errors
    /// It is not there, or not ours to change.
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
    /// It is not there, or not ours to change.
    pub fn set_mode(&self, path: &Path, mode: u32) -> Result<(), Error> {
        let what = "set the mode of";
        let file = self.open_with(what, path, OFlags::NONBLOCK, OpenOptions::new().read(true))?;
        rustix::fs::fchmod(&file, Mode::from_raw_mode(mode & 0o777))
            .map_err(|e| Error::io(what, path, &e.into()))
    }

    /// Makes a symbolic link, if what it points to lies inside the root. A link of the same name is replaced.
    ///
    /// # Errors
    /// [`Why::OutsideRoot`] for an absolute target or one that climbs out; the name is taken by something else.
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

    /// Bytes free to us on the file system of the root.
    ///
    /// # Errors
    /// The system does not say.
    pub fn free_bytes(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstatvfs(&*self.dir)
            .map_err(|e| Error::io("ask for the free space of", Path::new(""), &e.into()))?;
        Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
    }

    /// Bytes of the file system that the root is on.
    ///
    /// # Errors
    /// The system does not tell.
    pub fn disk_bytes(&self) -> Result<u64, Error> {
        let stat = rustix::fs::fstatvfs(&*self.dir)
            .map_err(|e| Error::io("ask for the size of", Path::new(""), &e.into()))?;
        Ok(stat.f_blocks.saturating_mul(stat.f_frsize))
    }

    /// Bytes that an interrupted transfer of `path` has left behind, ready to be continued; `None` if there was none.
    ///
    /// # Errors
    /// Its folder is not there or leads outside.
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

    /// Marks what an interrupted transfer of `path` has left behind with the time of its source, so that a later one
    /// can tell whether it would continue the same file.
    ///
    /// # Errors
    /// There is nothing, or it is not ours to change.
    pub fn mark_unfinished(&self, path: &Path, modified: SystemTime) -> Result<(), Error> {
        self.set_modified(&self.unfinished_path(path), modified)
    }

    /// When what an interrupted transfer of `path` has left behind was marked with, or last written.
    ///
    /// # Errors
    /// There is nothing, or its folder leads outside.
    pub fn unfinished_metadata(&self, path: &Path) -> Result<Metadata, Error> {
        self.link_metadata(&self.unfinished_path(path))
    }

    fn unfinished_path(&self, path: &Path) -> PathBuf {
        path.with_file_name(name::unfinished(path.file_name().unwrap_or_default()))
    }

    /// Forgets what an interrupted transfer of `path` has left behind, if anything.
    ///
    /// # Errors
    /// It may not be removed.
    pub fn remove_partial(&self, path: &Path) -> Result<(), Error> {
        let place = self.place("remove", path)?;
        match rustix::fs::unlinkat(&place.dir, name::unfinished(place.name.as_os_str()), AtFlags::empty()) {
            Ok(()) | Err(rustix::io::Errno::NOENT) => Ok(()),
            Err(e) => Err(Error::io("remove", path, &e.into())),
        }
    }

    /// Opens a folder, following links inside the root.
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

    /// The folder that holds `path`, open, and the last name.
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

/// lstat of a name in an open folder, and readlink where it is a link.
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

/// Runs `work` on the pool of threads that may wait for the disk.
async fn blocking<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> T {
    match tokio::task::spawn_blocking(work).await {
        Ok(value) => value,
        // Only a panic of `work` or the end of the runtime lead here; both end this task too.
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => std::future::pending().await,
        },
    }
}
