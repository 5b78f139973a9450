//! Temporary files of interrupted transfers: finds, lists and removes them.
//!
//! No listing contains temporary files, and no path names them. Here a whole tree is searched for them,
//! without following links. Their age is that of the last change of the inode, since a download's temporary
//! file has the modification time of its source.

use std::fs::File;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use rustix::fs::{AtFlags, FileType, FlockOperation, Mode, OFlags};

use super::blocks::Folders;
use super::claims::{Claimant, TakeOver};
use super::error::{Error, Why};
use super::levels::Levels;
use super::{Kind, Root, metadata_at, name, system_time};

/// The temporary file of an interrupted transfer, or of one in progress.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Part {
    /// The final path of the file. If its name is too long, the last component is the temporary name.
    pub path: PathBuf,
    /// The length in bytes.
    pub size: u64,
    /// The time of the last change.
    pub changed: SystemTime,
}

/// Which temporary files are removed, and by whom.
#[derive(Debug, Clone, Default)]
pub struct Removal {
    /// Only files that were last changed before this time.
    pub unchanged_since: Option<SystemTime>,
    /// The owner whose older transfers lose their files. Without an owner, files with writers are kept.
    pub claimant: Option<Claimant>,
    /// The maximum number of files.
    pub most: usize,
}

impl Root {
    /// The temporary files of everything below `path`, or of the file `path`, at most `most`.
    ///
    /// # Errors
    ///
    /// `path` is outside the root. Unreadable folders are skipped.
    pub fn parts(&self, path: &Path, most: usize) -> Result<Vec<Part>, Error> {
        let mut found = Vec::new();
        self.each_part(path, &mut |_, _, part| {
            found.push(part);
            found.len() < most
        })?;
        Ok(found)
    }

    /// Removes the temporary files of everything below `path`, or of the file `path`, and returns them.
    ///
    /// # Errors
    ///
    /// As [`Root::parts`]. Files that cannot be removed are kept.
    pub fn remove_parts(&self, path: &Path, removal: &Removal) -> Result<Vec<Part>, Error> {
        let mut removed = Vec::new();
        self.each_part(path, &mut |dir, name, part| {
            let old = removal.unchanged_since.is_none_or(|since| part.changed < since);
            if old && removed.len() < removal.most && self.remove_part(dir, name, removal).is_ok() {
                removed.push(part);
            }
            removed.len() < removal.most
        })?;
        Ok(removed)
    }

    /// Removes one, unless it has a writer that cannot be taken over.
    fn remove_part(
        &self,
        dir: BorrowedFd<'_>,
        name: &Path,
        removal: &Removal,
    ) -> Result<(), rustix::io::Errno> {
        let flags = OFlags::RDWR | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
        let file: File = rustix::fs::openat(dir, name, flags, Mode::empty())?.into();
        let stat = rustix::fs::fstat(&file)?;
        let identity = (stat.st_dev, stat.st_ino);
        // Locked until the name is removed.
        let mut _taken = None;
        match rustix::fs::flock(&file, FlockOperation::NonBlockingLockExclusive) {
            Err(rustix::io::Errno::WOULDBLOCK) => {
                let claimant = removal.claimant.as_ref().ok_or(rustix::io::Errno::WOULDBLOCK)?;
                let TakeOver::Open(taken) = self.claims.take_over(identity, claimant) else {
                    return Err(rustix::io::Errno::WOULDBLOCK);
                };
                _taken = Some(taken);
            }
            other => other?,
        }
        match metadata_at(dir, name) {
            Ok(named) if named.identity == identity => rustix::fs::unlinkat(dir, name, AtFlags::empty()),
            // It was renamed to its final name.
            _ => Err(rustix::io::Errno::NOENT),
        }
    }

    /// Calls `look` with the folder and the name of each, until `look` returns false.
    fn each_part(
        &self,
        path: &Path,
        look: &mut dyn FnMut(BorrowedFd<'_>, &Path, Part) -> bool,
    ) -> Result<(), Error> {
        match self.metadata(path) {
            Ok(found) if found.kind == Kind::Folder => {
                walk(Levels::new(self, path, Folders::fewest())?, path, look);
                Ok(())
            }
            // The final file may exist or not.
            Ok(_) | Err(Error { why: Why::NotFound, .. }) => {
                let place = self.place("look at", path)?;
                let own = name::unfinished(place.name.as_os_str());
                if let Some(part) = part(place.dir.as_fd(), &own, path.to_owned()) {
                    look(place.dir.as_fd(), &own, part);
                }
                Ok(())
            }
            Err(error) => Err(error),
        }
    }
}

fn part(dir: BorrowedFd<'_>, name: &Path, path: PathBuf) -> Option<Part> {
    let stat = rustix::fs::statat(dir, name, AtFlags::SYMLINK_NOFOLLOW).ok()?;
    let is_file = FileType::from_raw_mode(stat.st_mode) == FileType::RegularFile;
    is_file.then(|| Part {
        path,
        size: u64::try_from(stat.st_size).unwrap_or(0),
        changed: system_time(stat.st_ctime, stat.st_ctime_nsec as u32),
    })
}

/// Examines the temporary files of a whole tree, which begins at `base`, until `look` returns false.
fn walk(mut levels: Levels, base: &Path, look: &mut dyn FnMut(BorrowedFd<'_>, &Path, Part) -> bool) {
    loop {
        let Some(Ok((own, kind))) = levels.next_name() else {
            match levels.leave() {
                Some(_) => continue,
                None => return,
            }
        };
        let (Some(path), Some(dir)) = (levels.path(), levels.dir()) else { return };
        if name::is_unfinished(&own) {
            let wanted = base.join(path).join(name::finished(&own).unwrap_or(&own));
            let Some(part) = part(dir, Path::new(&own), wanted) else { continue };
            if !look(dir, Path::new(&own), part) {
                return;
            }
        } else if matches!(kind, FileType::Directory | FileType::Unknown) {
            // Unreadable entries and entries that are not folders are skipped.
            let _ = levels.enter(&own);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::ffi::OsStr;
    use std::time::Duration;

    use bytes::Bytes;

    use super::*;
    use crate::store::fs::{BLOCK_BYTES, Digest, Start};

    fn tree() -> (tempfile::TempDir, Root) {
        let folder = tempfile::tempdir().unwrap();
        let at = |name: &str| folder.path().join(name);
        std::fs::create_dir_all(at("a/b")).unwrap();
        std::fs::write(at("a/b/whole"), "whole").unwrap();
        std::fs::write(at("a/b/.f.braidftp-part"), "part").unwrap();
        std::fs::write(at(".g.braidftp-part"), "another").unwrap();
        // A file that only resembles a temporary one, and one outside the root.
        std::fs::create_dir(at("a/.d.braidftp-part")).unwrap();
        std::fs::write(at("g.braidftp-part"), "mine").unwrap();
        let outside = tempfile::tempdir().unwrap();
        std::fs::write(outside.path().join(".x.braidftp-part"), "outside").unwrap();
        std::os::unix::fs::symlink(outside.path(), at("link")).unwrap();
        let root = Root::open(folder.path()).unwrap();
        assert_eq!(root.parts(Path::new(""), 10).unwrap().len(), 2);
        assert!(outside.path().join(".x.braidftp-part").exists());
        (folder, root)
    }

    fn paths(parts: &[Part]) -> Vec<String> {
        let mut paths: Vec<String> =
            parts.iter().map(|part| format!("{} {}", part.path.display(), part.size)).collect();
        paths.sort();
        paths
    }

    #[test]
    fn temporary_files_are_found_by_their_final_names() {
        let (_folder, root) = tree();
        let parts = |path: &str, most| paths(&root.parts(Path::new(path), most).unwrap());
        assert_eq!(parts("", 10), ["a/b/f 4", "g 7"]);
        assert_eq!(parts("", 1).len(), 1);
        assert_eq!(parts("a", 10), ["a/b/f 4"]);
        assert_eq!(parts("a/b/f", 10), ["a/b/f 4"]);
        assert_eq!(parts("a/b/whole", 10), [""; 0]);
        assert!(root.parts(Path::new("link"), 10).is_err(), "it leads outside");
    }

    #[test]
    fn old_temporary_files_are_removed_and_recent_ones_kept() {
        let (folder, root) = tree();
        let removal =
            |unchanged_since| Removal { unchanged_since: Some(unchanged_since), most: 10, claimant: None };
        // The modification time, which anybody may set, is not used.
        let old = SystemTime::UNIX_EPOCH;
        let part = std::fs::File::options().write(true).open(folder.path().join(".g.braidftp-part")).unwrap();
        part.set_modified(old).unwrap();
        let now = SystemTime::now();
        let day = Duration::from_secs(86_400);
        assert_eq!(root.remove_parts(Path::new(""), &removal(now - day)).unwrap(), []);
        let removed = root.remove_parts(Path::new(""), &removal(now + day)).unwrap();
        assert_eq!(paths(&removed), ["a/b/f 4", "g 7"]);
        assert_eq!(root.parts(Path::new(""), 10).unwrap(), []);
        assert!(folder.path().join("a/b/whole").exists() && folder.path().join("g.braidftp-part").exists());
    }

    #[tokio::test]
    async fn a_temporary_file_with_a_writer_is_kept_unless_its_owner_removes_it() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let f = Path::new("f");
        let by = |owner: &str, turn| Claimant { owner: owner.into(), turn };
        let mut writer = root.writer(f, Start::New, None, Digest::None).claimed_by(by("a", 1));
        writer.write(Bytes::from(vec![7; BLOCK_BYTES])).await.unwrap();
        writer.open().await.unwrap();
        let removed = |claimant| {
            let removal = Removal { unchanged_since: None, most: 10, claimant };
            root.remove_parts(f, &removal).unwrap().len()
        };
        assert_eq!(removed(None), 0);
        assert_eq!(removed(Some(by("b", 2))), 0);
        assert_eq!(removed(Some(by("a", 2))), 1);
        let _ = writer.write(Bytes::from(vec![7; BLOCK_BYTES])).await;
        assert_eq!(writer.open().await.unwrap_err().why, Why::TakenOver);
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }

    #[test]
    fn the_final_name_is_derived_from_the_temporary_name() {
        for name in ["f", ".f", "f.braidftp-part", "a b"] {
            let own = name::unfinished(OsStr::new(name));
            assert_eq!(name::finished(own.as_os_str()), Some(OsStr::new(name)));
        }
        let long = "n".repeat(255);
        assert_eq!(name::finished(name::unfinished(OsStr::new(&long)).as_os_str()), None);
    }
}
