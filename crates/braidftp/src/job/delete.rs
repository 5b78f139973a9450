//! Deletions of `--delete`: entries that only the destination has, never in a folder whose listing was incomplete.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

use super::filter::Filter;
use super::{Ready, path_hash};
use crate::store::fs::{self, Kind, Root, WalkItem, Why};

/// The entries of the source.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    there: HashSet<u128, BuildHasherDefault<Ready>>,
    /// Folders whose listing is complete.
    whole: HashSet<u128, BuildHasherDefault<Ready>>,
    /// Folders whose listing is incomplete.
    holes: HashSet<u128, BuildHasherDefault<Ready>>,
    /// Whether a listing is incomplete at an unknown place.
    hole_somewhere: bool,
}

impl Seen {
    /// Records an entry of the source.
    pub(crate) fn is_there(&mut self, path: &[u8]) {
        self.there.insert(path_hash(path));
    }

    /// Records that the listing of this folder is complete.
    pub(crate) fn is_whole(&mut self, path: &[u8]) {
        self.whole.insert(path_hash(path));
    }

    /// Records that the listing of this folder is incomplete.
    pub(crate) fn has_hole(&mut self, path: &[u8]) {
        self.holes.insert(path_hash(path));
    }

    /// Records that an entry of an unknown folder is missing: nothing may be deleted.
    pub(crate) fn has_hole_somewhere(&mut self) {
        self.hole_somewhere = true;
    }

    /// Whether an entry of the destination may be deleted: the source does not have it, and the listing of
    /// its folder is complete.
    pub(crate) fn may_go(&self, path: &[u8]) -> bool {
        let parent = match path.iter().rposition(|byte| *byte == b'/') {
            Some(at) => &path[..at],
            None => b"",
        };
        let parent = path_hash(parent);
        !self.hole_somewhere
            && self.whole.contains(&parent)
            && !self.holes.contains(&parent)
            && !self.there.contains(&path_hash(path))
    }
}

/// The entries of a local tree to delete, each folder after its contents.
pub(crate) async fn doomed(
    root: &Root,
    seen: &Seen,
    filter: &Filter,
) -> Result<Vec<(PathBuf, Kind)>, fs::Error> {
    let mut walk = root.walk(Path::new("")).await?;
    let mut out: Vec<(PathBuf, Kind)> = Vec::new();
    // The topmost folder to delete: everything below is deleted too.
    let mut going: Option<PathBuf> = None;
    while let Some(items) = walk.next_chunk().await {
        for item in items {
            // An unreadable folder is not deleted; rmdir reports the error.
            let WalkItem::Found { path, metadata } = item else { continue };
            let bytes = path.as_os_str().as_bytes();
            let below = going.as_ref().is_some_and(|folder| path.starts_with(folder));
            let belongs = match metadata.kind {
                Kind::Folder => filter.takes_folder(bytes),
                _ => filter.takes_file(bytes),
            };
            if !belongs || !(below || seen.may_go(bytes)) {
                continue;
            }
            if metadata.kind == Kind::Folder && !below {
                going = Some(path.clone());
            }
            out.push((path, metadata.kind));
        }
    }
    // The walk returns folders before their contents.
    out.reverse();
    Ok(out)
}

/// Removes an entry that [`doomed`] returned. A folder that is not empty, because of excluded or new entries,
/// is kept.
pub(crate) fn remove(root: &Root, path: &Path, kind: &Kind) -> Result<bool, fs::Error> {
    match kind {
        Kind::Folder => match root.remove_dir(path) {
            Err(error) if error.why == Why::NotEmpty => Ok(false),
            result => result.map(|()| true),
        },
        _ => root.remove_file(path).map(|()| true),
    }
}

/// Removes the entry at `path` with everything in it. Links are not followed.
pub(crate) async fn remove_tree(root: &Root, path: &Path) -> Result<(), fs::Error> {
    let owned = path.to_owned();
    if root.blocking(move |root| root.link_metadata(&owned)).await?.kind == Kind::Folder {
        let mut below = Vec::new();
        let mut walk = root.walk(path).await?;
        while let Some(items) = walk.next_chunk().await {
            below.extend(items.into_iter().filter_map(|item| match item {
                WalkItem::Found { path, metadata } => Some((path, metadata.kind)),
                WalkItem::Unreadable { .. } => None,
            }));
        }
        let owned = path.to_owned();
        root.blocking(move |root| {
            for (path, kind) in below.into_iter().rev() {
                remove(root, &owned.join(path), &kind)?;
            }
            root.remove_dir(&owned)
        })
        .await
    } else {
        let owned = path.to_owned();
        root.blocking(move |root| root.remove_file(&owned)).await
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn tree() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        for folder in ["a/b", "c", "old/deep"] {
            std::fs::create_dir_all(dir.path().join(folder)).unwrap();
        }
        for file in ["a/keep", "a/extra", "a/b/x", "c/y", "old/f", "old/deep/g.o"] {
            std::fs::write(dir.path().join(file), "x").unwrap();
        }
        let root = Root::open(dir.path()).unwrap();
        (dir, root)
    }

    async fn names(root: &Root, seen: &Seen, exclude: &[&str]) -> Vec<String> {
        let exclude: Vec<String> = exclude.iter().map(|&e| e.to_owned()).collect();
        let filter = Filter::new(&[], &exclude).unwrap();
        let mut out: Vec<String> = doomed(root, seen, &filter)
            .await
            .unwrap()
            .into_iter()
            .map(|(p, _)| p.display().to_string())
            .collect();
        out.sort();
        out
    }

    fn seen(there: &[&str], whole: &[&str], holes: &[&str]) -> Seen {
        let mut seen = Seen::default();
        there.iter().for_each(|p| seen.is_there(p.as_bytes()));
        whole.iter().for_each(|p| seen.is_whole(p.as_bytes()));
        holes.iter().for_each(|p| seen.has_hole(p.as_bytes()));
        seen
    }

    fn seen_all() -> Seen {
        seen(&["a", "a/keep"], &["", "a"], &[])
    }

    #[tokio::test]
    async fn entries_that_only_the_destination_has_are_deleted() {
        let (_dir, root) = tree();
        let seen = seen(&["a", "a/keep", "a/b", "a/b/x", "c", "c/y"], &["", "a", "a/b", "c"], &[]);
        assert_eq!(names(&root, &seen, &[]).await, ["a/extra", "old", "old/deep", "old/deep/g.o", "old/f"]);
        assert_eq!(names(&root, &seen, &["*.o"]).await, ["a/extra", "old", "old/deep", "old/f"]);
        let all = doomed(&root, &seen, &Filter::new(&[], &["*.o".into()]).unwrap()).await.unwrap();
        let gone: Vec<bool> = all.iter().map(|(path, kind)| remove(&root, path, kind).unwrap()).collect();
        assert_eq!(gone.iter().filter(|gone| !**gone).count(), 2, "folders with what was excluded stay");
    }

    #[tokio::test]
    async fn nothing_is_deleted_in_a_folder_with_an_incomplete_listing() {
        let (_dir, root) = tree();
        let partly = seen(&["a", "a/keep", "a/b", "c", "old"], &["", "a/b", "c"], &[]);
        assert_eq!(names(&root, &partly, &[]).await, ["a/b/x", "c/y"]);
        let hole = seen(&["a"], &["", "a"], &["", "a"]);
        assert_eq!(names(&root, &hole, &[]).await, Vec::<String>::new());
        let mut anywhere = seen_all();
        assert!(!names(&root, &anywhere, &[]).await.is_empty());
        anywhere.has_hole_somewhere();
        assert_eq!(names(&root, &anywhere, &[]).await, Vec::<String>::new());
    }

    #[tokio::test]
    async fn a_tree_is_deleted_without_following_links() {
        let (dir, root) = tree();
        std::os::unix::fs::symlink("../a", dir.path().join("old/link")).unwrap();
        remove_tree(&root, Path::new("old")).await.unwrap();
        assert!(!dir.path().join("old").exists());
        assert!(dir.path().join("a/keep").exists());
    }
}
