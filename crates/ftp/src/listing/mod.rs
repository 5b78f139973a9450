//! Listings: facts (MLSD, MLST, XTREE), names (NLST), and what `ls -l` prints (LIST), both ways.
//!
//! The lines of a listing are bytes on a data path, ended by CRLF, without TELNET. What is read from the other side becomes
//! [`Entry`] with a [`SafePath`], or is refused: nothing unsafe leaves this module. A line that cannot be read is an error of
//! its own, never skipped in silence, because a listing with a hole must not steer a deletion.

mod facts;
mod names;
#[cfg(test)]
mod tests;
mod unix;

use std::fmt;

use crate::path::{PathError, SafePath};
use crate::reply::Code;
use crate::store::Metadata;

pub use facts::{FactSet, encode_facts, encode_incomplete, encode_line, parse_facts, parse_line};
pub use names::{encode_name, parse_name};
pub use unix::{encode_unix, parse_list};

/// One line of a listing that was read.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Entry {
    /// Where it is, below the folder that was listed: one name, or more in a tree. The root is the folder itself (`cdir` of
    /// MLSD, the first line of a tree).
    pub path: SafePath,
    /// What it is.
    pub metadata: Metadata,
    /// Whether all below it is listed.
    pub listed: Listed,
}

/// Whether the listing tells all of a folder.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Listed {
    /// As far as this line knows.
    Whole,
    /// Not all of it could be read or written as a line: the code says why (fact `x.error`, specs/ftp-over-sctp.md §8.3).
    /// Nothing may be deleted for being absent from it.
    Incomplete(Code),
}

/// What a line of a listing comes to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parsed {
    /// An entry.
    Entry(Entry),
    /// Nothing of interest: an empty line, `total 12`, the parent folder.
    Nothing,
}

/// Why a line of a listing was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ListingError {
    /// The name is not safe.
    Name(PathError),
    /// The line has no form that is known.
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
