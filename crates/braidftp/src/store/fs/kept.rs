//! Quota for the files of interrupted uploads in a folder, in bytes and in files; the oldest are removed
//! first.
//!
//! Only files without a writer count. The newest one is always kept, whatever its size, so that its upload
//! can be resumed.

use std::collections::{BTreeMap, HashMap};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use super::{Part, Removal, Root};

/// The temporary files of interrupted uploads in and below one folder.
#[derive(Debug)]
pub struct Kept {
    bytes_max: u64,
    count_max: usize,
    left: Mutex<Left>,
}

#[derive(Debug, Default)]
struct Left {
    /// By the final path of each file: its bytes and its age number.
    parts: HashMap<PathBuf, (u64, u64)>,
    /// The same by age number, the oldest first.
    turns: BTreeMap<u64, PathBuf>,
    bytes: u64,
    next: u64,
}

/// The limits on disk usage by a writer.
#[derive(Debug, Clone, Default)]
pub struct Allowance {
    /// The bytes of the file system that must remain free.
    pub reserve_bytes: u64,
    /// Counts the temporary files left by interrupted uploads.
    pub kept: Option<Arc<Kept>>,
}

impl Kept {
    /// Permits this many bytes in this many files.
    pub fn new(bytes_max: u64, count_max: usize) -> Arc<Self> {
        Arc::new(Self { bytes_max, count_max, left: Mutex::default() })
    }

    fn lock(&self) -> MutexGuard<'_, Left> {
        self.left.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The bytes and files that are kept.
    pub fn held(&self) -> (u64, usize) {
        let left = self.lock();
        (left.bytes, left.parts.len())
    }

    /// Records that a file has a writer or no longer exists: it does not count.
    pub(super) fn taken(&self, path: &Path) {
        self.lock().remove(path);
    }

    /// Records that a transfer left a temporary file; the oldest files of the folder `root` are removed if
    /// necessary.
    pub(super) fn left(&self, root: &Root, path: &Path, bytes: u64) {
        let too_many = {
            let mut left = self.lock();
            left.add(path.to_owned(), bytes);
            left.take_oldest(self.bytes_max, self.count_max)
        };
        Self::remove(root, &too_many);
    }

    /// Records all temporary files of the folder `root`.
    pub fn found(&self, root: &Root, mut parts: Vec<Part>) {
        parts.sort_by(|a, b| (a.changed, &a.path).cmp(&(b.changed, &b.path)));
        let too_many = {
            let mut left = self.lock();
            *left = Left::default();
            parts.into_iter().for_each(|part| left.add(part.path, part.size));
            left.take_oldest(self.bytes_max, self.count_max)
        };
        Self::remove(root, &too_many);
    }

    fn remove(root: &Root, paths: &[PathBuf]) {
        for path in paths {
            // A file that is being written is kept, and is counted when its transfer leaves it.
            let removal = Removal { most: 1, ..Removal::default() };
            if root.remove_parts(path, &removal).is_ok_and(|removed| !removed.is_empty()) {
                tracing::info!(path = %path.display(), "an unfinished upload made room for a newer one");
            }
        }
    }
}

impl Left {
    fn add(&mut self, path: PathBuf, bytes: u64) {
        self.remove(&path);
        self.turns.insert(self.next, path.clone());
        self.parts.insert(path, (bytes, self.next));
        self.bytes += bytes;
        self.next += 1;
    }

    fn remove(&mut self, path: &Path) {
        if let Some((bytes, turn)) = self.parts.remove(path) {
            self.turns.remove(&turn);
            self.bytes -= bytes;
        }
    }

    /// Removes the oldest files from the list until the limits hold, but never the newest.
    fn take_oldest(&mut self, bytes_max: u64, count_max: usize) -> Vec<PathBuf> {
        let mut gone = Vec::new();
        while self.parts.len() > 1 && (self.bytes > bytes_max || self.parts.len() > count_max) {
            let Some((_, path)) = self.turns.pop_first() else { break };
            self.remove(&path);
            gone.push(path);
        }
        gone
    }
}

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::super::{Digest, Keep, Start};
    use super::*;

    async fn leave(root: &Root, kept: &Arc<Kept>, name: &str, bytes: usize) {
        let allowance = Allowance { reserve_bytes: 0, kept: Some(kept.clone()) };
        let mut writer = root.writer(Path::new(name), Start::New, None, Digest::None).within(allowance);
        writer.write(Bytes::from(vec![7; bytes])).await.unwrap();
        writer.abandon(Keep::ForResume).await.unwrap();
    }

    fn names(root: &Root) -> Vec<String> {
        let parts = root.parts(Path::new(""), 100).unwrap();
        let mut names: Vec<String> = parts.iter().map(|part| part.path.display().to_string()).collect();
        names.sort();
        names
    }

    #[tokio::test]
    async fn the_oldest_temporary_files_are_removed_and_the_newest_is_kept() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let kept = Kept::new(1_000, 3);
        for name in ["a", "b", "c"] {
            leave(&root, &kept, name, 300).await;
        }
        assert_eq!((names(&root), kept.held()), (vec!["a".into(), "b".into(), "c".into()], (900, 3)));
        leave(&root, &kept, "d", 100).await;
        assert_eq!(names(&root), ["b", "c", "d"], "no more than three");
        // A file that is left again becomes the newest.
        leave(&root, &kept, "b", 500).await;
        leave(&root, &kept, "e", 600).await;
        assert_eq!((names(&root), kept.held()), (vec!["e".to_owned()], (600, 1)), "no more than 1,000 bytes");
        leave(&root, &kept, "f", 5_000).await;
        assert_eq!((names(&root), kept.held()), (vec!["f".to_owned()], (5_000, 1)));
    }

    #[tokio::test]
    async fn resumed_finished_and_removed_files_do_not_count() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let kept = Kept::new(1_000, 10);
        let allowance = Allowance { reserve_bytes: 0, kept: Some(kept.clone()) };
        leave(&root, &kept, "a", 600).await;
        let mut writer =
            root.writer(Path::new("a"), Start::At(600), None, Digest::None).within(allowance.clone());
        writer.open().await.unwrap();
        assert_eq!(kept.held(), (0, 0), "it is being written");
        writer.commit(super::super::Commit::default()).await.unwrap();
        assert_eq!(kept.held(), (0, 0));
        leave(&root, &kept, "b", 600).await;
        let mut writer = root.writer(Path::new("b"), Start::New, None, Digest::None).within(allowance);
        writer.open().await.unwrap();
        writer.abandon(Keep::Nothing).await.unwrap();
        assert_eq!((kept.held(), names(&root).len()), ((0, 0), 0));
    }

    #[tokio::test]
    async fn a_search_replaces_the_known_files() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let unbounded = Kept::new(u64::MAX, usize::MAX);
        leave(&root, &unbounded, "a", 600).await;
        leave(&root, &unbounded, "b", 600).await;
        let kept = Kept::new(1_000, 10);
        kept.found(&root, root.parts(Path::new(""), 100).unwrap());
        assert_eq!((names(&root), kept.held()), (vec!["b".to_owned()], (600, 1)));
    }

    #[tokio::test]
    async fn a_write_that_would_use_the_reserve_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let root = Root::open(folder.path()).unwrap();
        let writer = |reserve_bytes: u64, size| {
            let allowance = Allowance { reserve_bytes, kept: None };
            root.writer(Path::new("a"), Start::New, size, Digest::None).within(allowance)
        };
        let free = root.free_bytes().unwrap();
        let no_space = |error: super::super::Error| error.why == super::super::Why::NoSpace;
        // The disk is shared: half of the free space is far from what other programs change meanwhile.
        assert!(writer(free / 2, Some(free / 4)).open().await.is_ok());
        assert!(no_space(writer(free / 2, Some(free / 4 * 3)).open().await.unwrap_err()), "before it begins");
        assert!(no_space(writer(u64::MAX, None).open().await.unwrap_err()), "there is too little already");
        // A file that is longer than announced, or was not announced.
        let mut writer = writer(0, None);
        writer.open().await.unwrap();
        let mut writer = writer.within(Allowance { reserve_bytes: u64::MAX, kept: None });
        writer.write(Bytes::from_static(b"x")).await.unwrap();
        assert!(no_space(writer.commit(super::super::Commit::default()).await.unwrap_err()), "when it hits");
        assert_eq!(std::fs::read_dir(folder.path()).unwrap().count(), 0);
    }
}
