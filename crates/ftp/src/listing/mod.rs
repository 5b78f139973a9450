//! Listings: facts (MLSD, MLST, XTREE), names (NLST), and the output of `ls -l` (LIST), encoded and parsed.
//!
//! Lines of a listing are bytes on a data path, ended by CRLF, without TELNET. A parsed line becomes an
//! [`Entry`] with a [`SafePath`], or an error. Invalid lines are never skipped silently, because a client
//! must not delete files that are missing in an incomplete listing.

mod facts;
mod names;
#[cfg(test)]
mod tests;
mod unix;

use std::fmt;

use bytes::Bytes;

use crate::path::{PathError, SafePath};
use crate::reply::Code;
use crate::store::Metadata;

pub use facts::{
    FactSet, What, encode_facts, encode_incomplete, encode_line, encode_tree_line, parse_facts, parse_line,
    put_tree_line,
};
pub use names::{encode_name, parse_name};
pub use unix::{encode_unix, parse_list};

/// A parsed line of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// The path below the listed folder: one name, or more in a tree. The root is the folder itself (`cdir`
    /// of MLSD, the first line of a tree).
    pub path: SafePath,
    /// Its metadata.
    pub metadata: Metadata,
    /// Whether everything below it is listed.
    pub listed: Listed,
}

/// Whether a listing of a folder is complete.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Listed {
    /// The listing has no line that marks it as incomplete.
    Whole,
    /// Part of it could not be read or encoded. Nothing may be deleted because it is missing here.
    Incomplete(Gap),
}

/// What a listing of a folder lacks (specs/ftp-over-sctp.md §8.3).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gap {
    /// Why: the fact `x.error`.
    pub why: Code,
    /// The one missing name, as the file system has it, if exactly one name is missing: the fact `x.name`.
    pub name: Option<Bytes>,
}

/// The result of parsing a line of a listing.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// An entry.
    Entry(Entry),
    /// No entry: an empty line, `total 12`, the parent folder.
    Nothing,
}

/// Why a line of a listing was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingError {
    /// The name is unsafe.
    Name(PathError),
    /// The line has no known form.
    Form,
}

impl fmt::Display for ListingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Name(error) => write!(f, "unsafe name: {error}"),
            Self::Form => f.write_str("line of unknown form"),
        }
    }
}

impl std::error::Error for ListingError {}

impl From<PathError> for ListingError {
    fn from(error: PathError) -> Self {
        Self::Name(error)
    }
}
