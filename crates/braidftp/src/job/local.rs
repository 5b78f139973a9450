//! Creates the folders and links of a downloaded tree, so that nothing is ever written through a link that the server sent.

use std::collections::HashSet;
use std::hash::BuildHasherDefault;
use std::path::PathBuf;

use braidftp_ftp::SafePath;
use braidftp_ftp::stamp::Timestamp;

use super::download::as_path;
use super::{Ready, path_hash};
use crate::client::system_time;
use crate::exit::{Error, Exit, Result};
use crate::store::fs::{self, Kind, Root, Why};

/// What to do with another entry of the same name.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum InTheWay {
    /// Keep it: the new entry fails.
    Keep,
    /// Delete it.
    Delete,
}

/// The existing folders of a tree, which are folders and not links.
#[derive(Debug)]
pub(crate) struct Folders {
    root: Root,
    in_the_way: InTheWay,
    there: HashSet<u128, BuildHasherDefault<Ready>>,
    /// Folders that were created by this run, initially empty.
    new: HashSet<u128, BuildHasherDefault<Ready>>,
    /// Facts to set when no more files are written into the folders.
    facts: Vec<Facts>,
}

/// The final facts of a folder.
#[derive(Debug)]
struct Facts {
    path: SafePath,
    modified: Option<Timestamp>,
    mode: Option<u32>,
}

/// The permission bits that the owner needs to write into a folder.
const OWNER: u32 = 0o700;

/// Whether a folder existed before.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Made {
    /// It was created.
    Now,
    /// It existed.
    Before,
}

impl Folders {
    pub(crate) fn new(root: Root, in_the_way: InTheWay) -> Self {
        Self { root, in_the_way, there: HashSet::default(), new: HashSet::default(), facts: Vec::new() }
    }

    /// Creates a folder and its parents.
    pub(crate) async fn make(&mut self, path: &SafePath) -> Result<Made> {
        if path.is_root() || self.is_there(path) {
            return Ok(Made::Before);
        }
        let mut missing = vec![path.clone()];
        while let Some(parent) =
            missing.last().and_then(SafePath::parent).filter(|p| !p.is_root() && !self.is_there(p))
        {
            missing.push(parent);
        }
        let mut made = Made::Before;
        for path in missing.into_iter().rev() {
            let (local, in_the_way) = (PathBuf::from(as_path(&path)), self.in_the_way);
            let result = self.root.blocking(move |root| make(root, &local, in_the_way)).await;
            let (now, opened) = result.map_err(|error| in_words(&error))?;
            made = now;
            if now == Made::Now {
                self.new.insert(path_hash(path.as_bytes()));
            }
            // Before the facts from the server, which take precedence.
            self.facts.extend(opened.map(|mode| Facts {
                path: path.clone(),
                modified: None,
                mode: Some(mode),
            }));
            self.there.insert(path_hash(path.as_bytes()));
        }
        Ok(made)
    }

    /// Whether the folder was created, or found to be a folder.
    pub(crate) fn is_there(&self, path: &SafePath) -> bool {
        path.is_root() || self.there.contains(&path_hash(path.as_bytes()))
    }

    /// Whether the folder was created by this run: it contains only what this run has written.
    pub(crate) fn is_new(&self, path: &SafePath) -> bool {
        self.new.contains(&path_hash(path.as_bytes()))
    }

    /// Records the facts of the folder for [`Self::set_facts`].
    pub(crate) fn remember(&mut self, path: &SafePath, modified: Option<Timestamp>, mode: Option<u32>) {
        if modified.is_some() || mode.is_some() {
            self.facts.push(Facts { path: path.clone(), modified, mode });
        }
    }

    /// Creates a link, if its target is in the tree.
    pub(crate) async fn link(
        &self,
        path: &SafePath,
        target: PathBuf,
        modified: Option<Timestamp>,
    ) -> Result<Linked> {
        let local = PathBuf::from(as_path(path));
        if !fs::link_stays_inside(&local, &target) {
            return Ok(Linked::Refused);
        }
        let (at, wanted) = (local.clone(), target.clone());
        match self.root.blocking(move |root| root.link_metadata(&at)).await {
            Ok(there) if there.kind == Kind::Link(wanted) => return Ok(Linked::Before),
            Ok(there) if !matches!(there.kind, Kind::Link(_)) && self.in_the_way == InTheWay::Delete => {
                super::delete::remove_tree(&self.root, &local).await.map_err(|error| in_words(&error))?;
            }
            _ => {}
        }
        let made = self.root.blocking(move |root| {
            root.symlink(&target, &local)?;
            match modified {
                Some(modified) => root.set_modified(&local, system_time(modified)),
                None => Ok(()),
            }
        });
        match made.await {
            Ok(()) => Ok(Linked::Now),
            Err(error) if error.why == Why::OutsideRoot => Ok(Linked::Refused),
            Err(error) => Err(in_words(&error)),
        }
    }

    /// Gives the file `first` the name `path`. A file or a link of this name is replaced.
    pub(crate) async fn hard_link(&self, first: PathBuf, path: &SafePath) -> Result<Linked> {
        let local = PathBuf::from(as_path(path));
        if self.in_the_way == InTheWay::Delete {
            let at = local.clone();
            let there = self.root.blocking(move |root| root.link_metadata(&at)).await;
            if there.is_ok_and(|there| there.kind == Kind::Folder) {
                super::delete::remove_tree(&self.root, &local).await.map_err(|error| in_words(&error))?;
            }
        }
        match self.root.blocking(move |root| root.hard_link(&first, &local)).await {
            Ok(fs::Linked::Now) => Ok(Linked::Now),
            Ok(fs::Linked::Before) => Ok(Linked::Before),
            Err(error) => Err(in_words(&error)),
        }
    }

    /// Sets times and modes of the folders, the deepest first.
    pub(crate) async fn set_facts(&mut self) {
        let mut facts = std::mem::take(&mut self.facts);
        facts.retain(|facts| self.is_there(&facts.path));
        self.root
            .blocking(move |root| {
                for Facts { path, modified, mode } in facts.into_iter().rev() {
                    // Best effort: an error here is not a failure of the job.
                    if let Some(modified) = modified {
                        let _ = root.set_modified(as_path(&path), system_time(modified));
                    }
                    if let Some(mode) = mode {
                        let _ = root.set_mode(as_path(&path), mode);
                    }
                }
            })
            .await;
    }
}

/// The outcome for a link.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Linked {
    /// It was created.
    Now,
    /// It existed.
    Before,
    /// Its target is outside the tree, so it was not created.
    Refused,
}

/// Creates a folder, or finds it. A folder that its owner may not write into is made writable, and its
/// previous mode is returned.
fn make(root: &Root, path: &std::path::Path, in_the_way: InTheWay) -> Result<(Made, Option<u32>), fs::Error> {
    match root.mkdir(path) {
        Ok(()) => return Ok((Made::Now, None)),
        Err(error) if error.why == Why::Exists => {}
        Err(error) => return Err(error),
    }
    //= specs/ftp-over-sctp.md#section-11
    //# a client MUST NOT follow, while it writes, links that it received.
    let there = root.link_metadata(path)?;
    match (there.kind, in_the_way) {
        (Kind::Folder, _) if there.mode & OWNER == OWNER => Ok((Made::Before, None)),
        // If it belongs to another user, the error occurs when something is written.
        (Kind::Folder, _) => {
            let opened = root.set_mode(path, there.mode | OWNER).is_ok();
            Ok((Made::Before, opened.then_some(there.mode)))
        }
        (_, InTheWay::Delete) => {
            root.remove_file(path)?;
            root.mkdir(path).map(|()| (Made::Now, None))
        }
        (_, InTheWay::Keep) => {
            Err(fs::Error { what: "make the folder", path: path.to_owned(), why: Why::NotAFolder })
        }
    }
}

fn in_words(error: &fs::Error) -> Error {
    let in_the_way = matches!(error.why, Why::NotAFolder | Why::IsAFolder | Why::Exists);
    let error = Error::store(error);
    match in_the_way {
        true => Error { exit: Exit::Local, ..error }
            .hint("something else has that name here: move it away, or let --delete remove it"),
        false => error,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn path(text: &str) -> SafePath {
        SafePath::strict(text.as_bytes()).unwrap()
    }

    #[tokio::test]
    async fn nothing_is_written_through_a_link() {
        let dir = tempfile::tempdir().unwrap();
        let mut folders = Folders::new(Root::open(dir.path()).unwrap(), InTheWay::Keep);
        folders.make(&path("real")).await.unwrap();
        assert_eq!(folders.link(&path("link"), "real".into(), None).await.unwrap(), Linked::Now);
        assert!(folders.make(&path("link")).await.is_err());
        assert!(folders.make(&path("link/below")).await.is_err());
        assert!(!dir.path().join("real/below").exists());

        let mut replacing = Folders::new(Root::open(dir.path()).unwrap(), InTheWay::Delete);
        assert_eq!(replacing.make(&path("link")).await.unwrap(), Made::Now);
        assert!(dir.path().join("link").symlink_metadata().unwrap().is_dir());
    }

    #[tokio::test]
    async fn a_link_that_leads_out_of_the_tree_is_refused() {
        let dir = tempfile::tempdir().unwrap();
        let folders = Folders::new(Root::open(dir.path()).unwrap(), InTheWay::Keep);
        for target in ["/etc/passwd", "..", "a/../../b"] {
            assert_eq!(
                folders.link(&path("l"), target.into(), None).await.unwrap(),
                Linked::Refused,
                "{target}"
            );
        }
        assert_eq!(folders.link(&path("l"), "not there".into(), None).await.unwrap(), Linked::Now);
        assert_eq!(folders.link(&path("l"), "not there".into(), None).await.unwrap(), Linked::Before);
    }
}
