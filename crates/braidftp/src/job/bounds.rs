//! Limits on what a remote tree makes a job hold: entries, paths, levels; and detection of folders that contain themselves.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;

use braidftp_ftp::SafePath;
use braidftp_ftp::store::Metadata;

use super::{Ready, path_hash};
use crate::client::{Bounds, HELD_BYTES_MAX, HELD_PATH_BYTES};
use crate::exit::{Error, Exit, Result};

/// Counts the entries of one tree while it is listed.
#[derive(Debug)]
pub(crate) struct TreeBounds {
    bounds: Bounds,
    entries: u64,
    held_bytes: usize,
    /// The identities that the server reports for the folders above the listed one, and for itself, by depth.
    chain: Vec<Option<(u64, u64)>>,
}

/// The identity of a folder: the fact `unique`.
pub(crate) type Unique = Option<(u64, u64)>;

impl TreeBounds {
    pub(crate) fn new(bounds: Bounds) -> Self {
        Self { bounds, entries: 0, held_bytes: 0, chain: Vec::new() }
    }

    /// Counts an entry, valid or not.
    ///
    /// # Errors
    ///
    /// There are too many.
    pub(crate) fn entry(&mut self) -> Result<()> {
        self.entries += 1;
        let max = self.bounds.max_entries;
        if self.entries > max {
            let why = format_args!("it has more than {max} entries");
            return Err(Error::new(Exit::Protocol, "list the tree", why)
                .hint("--max-entries takes more, and the memory for them"));
        }
        Ok(())
    }

    /// Counts a path that is kept for later.
    ///
    /// # Errors
    ///
    /// They take too much memory.
    pub(crate) fn hold(&mut self, path: &SafePath) -> Result<()> {
        self.held_bytes += HELD_PATH_BYTES + path.as_bytes().len();
        if self.held_bytes > HELD_BYTES_MAX {
            let why = format_args!(
                "the paths of its folders and of waiting entries take more than {} MiB",
                HELD_BYTES_MAX >> 20
            );
            return Err(Error::new(Exit::Protocol, "list the tree", why)
                .hint("name parts of the tree; `ls --unsorted` keeps nothing"));
        }
        Ok(())
    }

    /// Counts an entry that is kept until all have arrived: its path and its link target.
    ///
    /// # Errors
    ///
    /// They take too much memory.
    pub(crate) fn hold_entry(&mut self, path: &SafePath, metadata: &Metadata) -> Result<()> {
        self.held_bytes += metadata.target.as_ref().map_or(0, |target| target.len());
        self.hold(path)
    }

    /// Stops counting a held path.
    pub(crate) fn release(&mut self, path: &SafePath) {
        self.held_bytes -= HELD_PATH_BYTES + path.as_bytes().len();
    }

    /// Stops counting an entry of [`Self::hold_entry`].
    pub(crate) fn release_entry(&mut self, path: &SafePath, metadata: &Metadata) {
        self.held_bytes -= metadata.target.as_ref().map_or(0, |target| target.len());
        self.release(path);
    }

    /// Checks the depth of a folder.
    ///
    /// # Errors
    ///
    /// It is too deep.
    pub(crate) fn check_depth(&self, folder: &SafePath) -> Result<()> {
        let max = self.bounds.max_depth;
        match depth(folder) > max {
            false => Ok(()),
            true => Err(Error::new(
                Exit::Refused,
                format_args!("enter the folder {folder}"),
                format_args!("it lies deeper than {max} levels"),
            )
            .hint("--max-depth takes more; a server that lists a folder within itself has no end")),
        }
    }

    /// Records the identity of the listed folder.
    pub(crate) fn identify(&mut self, unique: Unique) {
        if let Some(last) = self.chain.last_mut() {
            *last = last.or(unique);
        }
    }

    /// Whether a waiting folder is one of its own ancestors, as far as these were listed.
    pub(crate) fn is_own_ancestor(&self, folder: &SafePath, unique: Unique) -> bool {
        let above = &self.chain[..depth(folder).min(self.chain.len())];
        unique.is_some() && above.contains(&unique)
    }

    /// Enters a folder whose ancestors were listed before.
    ///
    /// # Errors
    ///
    /// It is one of its own ancestors, by the reported identities.
    pub(crate) fn enter(&mut self, folder: &SafePath, unique: Unique) -> Result<()> {
        self.chain.resize(depth(folder), None);
        if unique.is_some() && self.chain.contains(&unique) {
            let why = "it is one of the folders that it lies in, by its identity (the fact `unique`)";
            return Err(Error::new(Exit::Refused, format_args!("enter the folder {folder}"), why)
                .hint("the server follows a link or a mount that leads back"));
        }
        self.chain.push(unique);
        Ok(())
    }
}

/// The number of folders on a path, including itself.
pub(crate) fn depth(path: &SafePath) -> usize {
    path.components().count()
}

/// Folders, with a query whether a path is below one of them.
#[derive(Debug, Default)]
pub(crate) struct Under(HashSet<u128, BuildHasherDefault<Ready>>);

impl Under {
    pub(crate) fn insert(&mut self, folder: &SafePath) {
        self.0.insert(path_hash(folder.as_bytes()));
    }

    pub(crate) fn holds(&self, path: &SafePath) -> bool {
        let mut above = std::iter::successors(path.parent(), SafePath::parent);
        !self.0.is_empty() && above.any(|folder| self.0.contains(&path_hash(folder.as_bytes())))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SafePath {
        SafePath::strict(text.as_bytes()).unwrap()
    }

    fn bounds() -> TreeBounds {
        TreeBounds::new(Bounds { max_depth: 2, max_entries: 3, ..Bounds::default() })
    }

    #[test]
    fn entries_and_depth_are_limited() {
        let mut tree = bounds();
        assert!((0..3).all(|_| tree.entry().is_ok()));
        assert_eq!(tree.entry().unwrap_err().exit, Exit::Protocol);
        assert!(tree.check_depth(&path("a/b")).is_ok());
        assert_eq!(tree.check_depth(&path("a/b/c")).unwrap_err().exit, Exit::Refused);
    }

    #[test]
    fn memory_of_held_paths_is_limited_and_released() {
        let mut tree = bounds();
        let long = path(&["x".repeat(200).as_str(); 20].join("/"));
        let each = HELD_PATH_BYTES + long.as_bytes().len();
        (0..HELD_BYTES_MAX / each).for_each(|_| tree.hold(&long).unwrap());
        assert!(tree.hold(&long).is_err());
        tree.release(&long);
        tree.release(&long);
        assert!(tree.hold(&long).is_ok());
    }

    #[test]
    fn a_folder_that_contains_itself_is_skipped_and_its_siblings_are_not() {
        let mut tree = bounds();
        tree.enter(&SafePath::ROOT, Some((1, 1))).unwrap();
        tree.enter(&path("a"), Some((1, 2))).unwrap();
        assert!(tree.enter(&path("a/b"), Some((1, 1))).is_err());
        assert!(tree.enter(&path("a/c"), Some((1, 2))).is_err());
        tree.enter(&path("b"), Some((1, 2))).unwrap();
        tree.enter(&path("c"), None).unwrap();
        tree.enter(&path("c/d"), None).unwrap();
    }

    #[test]
    fn paths_below_a_folder_are_recognised() {
        let mut under = Under::default();
        assert!(!under.holds(&path("a/b")));
        under.insert(&path("a"));
        assert!(under.holds(&path("a/b/c")) && !under.holds(&path("ab/c")) && !under.holds(&path("a")));
    }
}
