//! The files that a listing of a tree names first, which can be requested before they are named (specs/ftp-over-sctp.md §8.6).

use super::JobId;
use crate::mapping::FIRST_FILES;
use crate::path::{PathError, SafePath};

/// One of the first files of a tree that is being listed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FirstFile {
    /// The listing.
    pub(super) listing: JobId,
    /// The place among its files.
    pub(super) place: usize,
}

/// The first files of the last tree that was listed (specs/ftp-over-sctp.md §8.6).
#[derive(Debug)]
pub(super) struct FirstFiles {
    listing: JobId,
    tree: SafePath,
    /// The files that it has listed so far, at most [`FIRST_FILES`].
    files: Vec<Result<SafePath, PathError>>,
    /// The number of files that were requested.
    requested: usize,
}

impl FirstFiles {
    pub(super) fn new(listing: JobId, tree: SafePath) -> Self {
        Self { listing, tree, files: Vec::new(), requested: 0 }
    }

    /// Adds listed files, by their paths in the tree.
    pub(super) fn add(&mut self, files: &[SafePath]) {
        let room = FIRST_FILES - self.files.len();
        let found = files.iter().map(|file| self.tree.resolve(file.as_bytes()));
        self.files.extend(found.take(room));
    }

    /// The next requested file; `None` if no more can be requested.
    pub(super) fn request(&mut self) -> Option<FirstFile> {
        let place = Some(self.requested).filter(|place| *place < FIRST_FILES)?;
        self.requested += 1;
        Some(FirstFile { listing: self.listing, place })
    }

    /// The path of the file at a place, if it was listed; an error if no path can name it.
    pub(super) fn path(&self, place: usize) -> Option<&Result<SafePath, PathError>> {
        self.files.get(place)
    }

    /// The job that lists them.
    pub(super) fn listing(&self) -> JobId {
        self.listing
    }

    /// The path of the tree.
    pub(super) fn tree(&self) -> &SafePath {
        &self.tree
    }
}
