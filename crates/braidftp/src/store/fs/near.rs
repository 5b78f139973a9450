//! Cache for the files of a batch: the most recent folder, open, and the free space of its file system.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::Root;
use super::error::Error;

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
}

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
        let (root, path) = (root.clone(), path.to_owned());
        self.folder = Some(Folder { root, path, dir: dir.clone(), links: None });
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
