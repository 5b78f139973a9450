//! Cache for the files of a batch: the folder used last, open, and the free space of its disk.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use cap_std::fs::Dir;

use super::Root;
use super::error::Error;

/// The folder that was used last, and what is free on its disk: what a batch asks for once.
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

    /// Bytes free on the file system of `root`, less those that were taken since.
    pub(super) fn free_bytes(&mut self, root: &Root) -> Result<u64, Error> {
        match self.free_bytes {
            Some(free) => Ok(free),
            None => Ok(*self.free_bytes.insert(root.free_bytes()?)),
        }
    }

    /// So many bytes were written.
    pub(super) fn took(&mut self, bytes: u64) {
        if let Some(free) = &mut self.free_bytes {
            *free = free.saturating_sub(bytes);
        }
    }
}
