//! Cache for the files of a batch: the most recent folder, open, its temporary files, and the free space of its file system.

use std::collections::BTreeSet;
use std::ffi::{OsStr, OsString};
use std::mem::MaybeUninit;
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;
use rustix::fs::{AtFlags, Mode, OFlags, RawDir};
use rustix::io::Errno;

use super::error::Error;
use super::{Root, is_unfinished};

/// The most recent folder, and the free space on its file system: queried once per batch.
#[derive(Debug, Default)]
pub(super) struct Near {
    folder: Option<Folder>,
    free_bytes: Option<u64>,
}

#[derive(Debug)]
struct Folder {
    root: Root,
    path: PathBuf,
    dir: Arc<Dir>,
    /// Whether a synced file without a name can be linked into it, once it was queried.
    links: Option<bool>,
    parts: Parts,
    /// The mode that was requested for the last new file, and the one that it has got.
    modes: Option<(u32, u32)>,
}

/// What is known of the temporary files in a folder.
#[derive(Debug)]
enum Parts {
    /// This many names were looked up.
    LookedUp(u32),
    /// All of them, when the folder was read.
    Known(BTreeSet<OsString>),
    /// Each name is looked up: the folder is large or cannot be read.
    Unknown,
}

/// The number of names that are looked up before the folder is read. A lookup of a name that does not exist costs as much as reading
/// the names of a dozen files, since the system records that there is none.
const LOOKED_UP: u32 = 3;
/// The maximum number of entries of a folder that is read.
const ENTRIES: usize = 256;
/// The size of the buffer for them.
const ENTRIES_BYTES: usize = 8 << 10;

/// `f_type` of the file systems that keep a file which was synced while it had no name and linked afterwards (linux/magic.h):
/// tmpfs, which keeps nothing, ext4 and XFS. Btrfs writes the metadata of such a file later.
const LINKING: [u32; 3] = [0x0102_1994, 0xef53, 0x5846_5342];

impl Near {
    /// The folder `path` of `root`, open.
    pub(super) fn folder(&mut self, root: &Root, what: &'static str, path: &Path) -> Result<Arc<Dir>, Error> {
        if let Some(folder) = &self.folder
            && folder.path == path
            && Arc::ptr_eq(&folder.root.dir, &root.dir)
        {
            return Ok(folder.dir.clone());
        }
        let dir = Arc::new(root.open_dir(what, path)?);
        let (root, path, parts) = (root.clone(), path.to_owned(), Parts::LookedUp(0));
        self.folder = Some(Folder { root, path, dir: dir.clone(), links: None, parts, modes: None });
        self.free_bytes = None;
        Ok(dir)
    }

    /// Whether a synced file without a name can be linked into the most recent folder.
    pub(super) fn links(&mut self) -> bool {
        let Some(folder) = &mut self.folder else { return false };
        let query =
            || rustix::fs::fstatfs(&*folder.dir).is_ok_and(|fs| LINKING.contains(&(fs.f_type as u32)));
        *folder.links.get_or_insert_with(query)
    }

    /// Whether the most recent folder has an entry with this name of a temporary file, or may have one.
    pub(super) fn has_part(&mut self, part: &Path) -> bool {
        let Some(folder) = &mut self.folder else { return true };
        if let Parts::LookedUp(count) = &mut folder.parts {
            *count += 1;
            if *count > LOOKED_UP {
                folder.parts = read_parts(&folder.dir).map_or(Parts::Unknown, Parts::Known);
            }
        }
        match &folder.parts {
            Parts::Known(parts) => parts.contains(part.as_os_str()),
            Parts::LookedUp(_) | Parts::Unknown => {
                let found = rustix::fs::statat(&*folder.dir, part, AtFlags::SYMLINK_NOFOLLOW);
                found.err() != Some(Errno::NOENT)
            }
        }
    }

    /// The mode of a new file in the most recent folder, which was created with the mode `wanted`: what the umask and the folder
    /// permit.
    pub(super) fn mode_of(&mut self, file: impl AsFd, wanted: u32) -> rustix::io::Result<u32> {
        let known = self.folder.as_ref().and_then(|folder| folder.modes).filter(|modes| modes.0 == wanted);
        if let Some((_, mode)) = known {
            return Ok(mode);
        }
        let mode = rustix::fs::fstat(file)?.st_mode & 0o7777;
        if let Some(folder) = &mut self.folder {
            folder.modes = Some((wanted, mode));
        }
        Ok(mode)
    }

    /// The free bytes on the file system of `root`, minus those taken since the query.
    pub(super) fn free_bytes(&mut self, root: &Root) -> Result<u64, Error> {
        match self.free_bytes {
            Some(free) => Ok(free),
            None => Ok(*self.free_bytes.insert(root.free_bytes()?)),
        }
    }

    /// Records that this many bytes were written.
    pub(super) fn took(&mut self, bytes: u64) {
        if let Some(free) = &mut self.free_bytes {
            *free = free.saturating_sub(bytes);
        }
    }
}

/// The names of the temporary files in a small folder.
fn read_parts(dir: &Dir) -> Option<BTreeSet<OsString>> {
    // An open folder of cap-std may be O_PATH, which cannot be read.
    let flags = OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC;
    let dir = rustix::fs::openat(dir, ".", flags, Mode::empty()).ok()?;
    let mut buffer = [MaybeUninit::uninit(); ENTRIES_BYTES];
    let (mut entries, mut parts) = (RawDir::new(dir, &mut buffer), BTreeSet::new());
    for _ in 0..ENTRIES {
        let Some(entry) = entries.next() else { return Some(parts) };
        let entry = entry.ok()?;
        let name = entry.file_name().to_bytes();
        if is_unfinished(OsStr::from_bytes(name)) {
            parts.insert(OsString::from_vec(name.to_vec()));
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::PermissionsExt;

    use super::super::name::unfinished;
    use super::*;

    #[test]
    fn a_temporary_file_is_found_among_few_and_many_entries_of_a_folder() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        for (folder, others) in [("few", 2), ("many", 2 * ENTRIES)] {
            let path = dir.path().join(folder);
            std::fs::create_dir(&path).unwrap();
            (0..others).for_each(|file| std::fs::write(path.join(file.to_string()), "").unwrap());
            std::fs::write(path.join(unfinished(OsStr::new("7"))), "x").unwrap();
            let near = &mut Near::default();
            near.folder(&root, "open", Path::new(folder)).unwrap();
            let found: Vec<_> =
                (0..10).filter(|name| near.has_part(&unfinished(OsStr::new(&name.to_string())))).collect();
            assert_eq!(found, [7], "{folder}");
            let is_read = matches!(near.folder.as_ref().unwrap().parts, Parts::Known(_));
            assert_eq!(is_read, folder == "few");
        }
    }

    #[test]
    fn the_mode_of_a_new_file_is_remembered_for_this_folder_and_this_request() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let file = std::fs::File::create(dir.path().join("f")).unwrap();
        let near = &mut Near::default();
        let mut set_and_ask = |mode, wanted| {
            file.set_permissions(std::fs::Permissions::from_mode(mode)).unwrap();
            near.folder(&root, "open", Path::new("")).unwrap();
            near.mode_of(&file, wanted).unwrap()
        };
        assert_eq!(set_and_ask(0o640, 0o666), 0o640);
        assert_eq!(set_and_ask(0o600, 0o666), 0o640, "remembered");
        assert_eq!(set_and_ask(0o600, 0o660), 0o600);
    }
}
