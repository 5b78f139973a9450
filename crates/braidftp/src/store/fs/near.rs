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
}

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
        self.folder = Some(Folder { root: root.clone(), path: path.to_owned(), dir: dir.clone() });
        self.free_bytes = None;
        Ok(dir)
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
