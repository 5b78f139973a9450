//! Hard links of a mirror (`-H`): which paths are names of one file. The first name of a file carries its contents and
//! facts; the others are made from it when all files are complete.

use std::collections::{HashMap, HashSet};
use std::hash::BuildHasherDefault;
use std::path::PathBuf;
use std::sync::Arc;

use braidftp_ftp::SafePath;

use super::download::as_path;
use super::local::{Folders, Linked};
use super::{Job, Ready, path_hash};
use crate::exit::{Error, Exit, escape};
use crate::report::Action;

/// The identity of a file: equal for all of its names.
type Identity = (u64, u64);

/// The names of files that may have several. `T` is another name.
#[derive(Debug)]
pub(super) struct Names<T> {
    /// The first name of each file.
    first: HashMap<Identity, Arc<[u8]>>,
    /// The hashes of first names of files that this run replaces: other names are those of the old file.
    replaced: HashSet<u128, BuildHasherDefault<Ready>>,
    /// The other names that are missing, each with the first one.
    pub(super) others: Vec<(T, Arc<[u8]>)>,
}

impl<T> Default for Names<T> {
    fn default() -> Self {
        Self { first: HashMap::new(), replaced: HashSet::default(), others: Vec::new() }
    }
}

impl<T> Names<T> {
    /// The first name of a file; `None` if this is the first one.
    pub(super) fn first(&mut self, identity: Identity, name: &[u8]) -> Option<Arc<[u8]>> {
        match self.first.get(&identity) {
            Some(first) => (**first != *name).then(|| first.clone()),
            None => {
                self.first.insert(identity, name.into());
                None
            }
        }
    }

    /// Records that the file with this first name is replaced.
    pub(super) fn replace(&mut self, first: &[u8]) {
        self.replaced.insert(path_hash(first));
    }

    /// Whether the file with this first name is replaced.
    pub(super) fn is_replaced(&self, first: &[u8]) -> bool {
        self.replaced.contains(&path_hash(first))
    }
}

/// The error of a name whose file failed.
pub(super) fn without_file(name: &[u8], first: &[u8]) -> Error {
    let what = format_args!("link {}", escape(name));
    Error::new(Exit::SomeFailed, what, format_args!("it is another name of {}, which failed", escape(first)))
}

/// Makes the other names of received files.
pub(super) async fn make(job: &Job, folders: &mut Folders, others: Vec<(SafePath, Arc<[u8]>)>) {
    for (path, first) in others {
        let name = path.as_bytes();
        if job.record.is_settled(name) {
            continue;
        }
        if job.record.has_failed(&first) {
            job.record.failed(&job.reporter, name, without_file(name, &first));
            continue;
        }
        match make_one(folders, &path, &first).await {
            Ok(Linked::Now) => {
                job.record.finished(name);
                job.reporter.done(name, Action::HardLinked, 0, 0);
            }
            Ok(Linked::Before | Linked::Refused) => job.record.finished(name),
            Err(error) => job.record.failed(&job.reporter, name, error),
        }
    }
}

async fn make_one(folders: &mut Folders, path: &SafePath, first: &[u8]) -> Result<Linked, Error> {
    if let Some(parent) = path.parent() {
        folders.make(&parent).await?;
    }
    // Its bytes are those of a path of the listing.
    let first = SafePath::strict(first).map_or_else(|_| PathBuf::new(), |first| as_path(&first).to_owned());
    folders.hard_link(first, path).await
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_name_of_a_file_is_found_again_by_the_others() {
        let mut names = Names::<()>::default();
        assert_eq!(names.first((1, 7), b"a"), None);
        assert_eq!(names.first((1, 8), b"b"), None);
        assert_eq!(names.first((1, 7), b"c").as_deref(), Some(&b"a"[..]));
        assert_eq!(names.first((1, 7), b"a"), None, "it is no other name of itself");
        names.replace(b"a");
        assert!(names.is_replaced(b"a") && !names.is_replaced(b"b"));
    }
}
