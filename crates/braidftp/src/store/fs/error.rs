//! Errors of local files, which can be converted to messages and reply codes.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use super::printable::escaped;

/// A failed operation: the operation, the file, and the reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Error {
    /// The operation, as a verb with its preposition: `open`, `write to`.
    pub what: &'static str,
    /// The file, relative to the root.
    pub path: PathBuf,
    /// The reason.
    pub why: Why,
}

/// The reason for a failure.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Why {
    /// No such file or folder.
    NotFound,
    /// The system denied access: permissions, immutable files, …
    Denied,
    /// The entry is not a folder.
    NotAFolder,
    /// The entry is a folder, not a regular file.
    IsAFolder,
    /// The entry is a device, a pipe or a socket, not a regular file.
    NotAFile,
    /// The name exists.
    Exists,
    /// The folder is not empty.
    NotEmpty,
    /// The path, or a symbolic link in it, leads out of the root.
    OutsideRoot,
    /// The name is not permitted here; the text is the reason.
    BadName(&'static str),
    /// No space: the disk is full, or a quota or the limit of file sizes was reached.
    NoSpace,
    /// The file system is mounted read-only.
    ReadOnly,
    /// Another transfer is writing this file.
    Busy,
    /// A newer writer of the same owner has taken the file over.
    TakenOver,
    /// Another upload to this name was completed first (in an object store).
    Replaced,
    /// The number of bytes differs from the expected one.
    WrongLength {
        /// The expected number of bytes.
        expected: u64,
        /// The actual number of bytes.
        found: u64,
    },
    /// The offset is beyond the end of the existing data.
    PastEnd {
        /// The number of existing bytes.
        size: u64,
    },
    /// The digest differs from that of the sent bytes.
    WrongDigest,
    /// Too many nested links or folders.
    TooDeep,
    /// The store cannot do this; the text is the reason.
    Unsupported(&'static str),
    /// Any other error, with the system's text.
    Io(String),
}

impl Why {
    /// Converts an error of the system.
    pub(super) fn of(error: &io::Error) -> Self {
        use rustix::io::Errno;
        let Some(code) = error.raw_os_error() else {
            // cap-std returns its own error for a path that leads out of the root.
            return match error.kind() {
                io::ErrorKind::PermissionDenied => Self::OutsideRoot,
                io::ErrorKind::NotFound => Self::NotFound,
                _ => Self::Io(error.to_string()),
            };
        };
        match Errno::from_raw_os_error(code) {
            Errno::NOENT => Self::NotFound,
            Errno::ACCESS | Errno::PERM => Self::Denied,
            Errno::NOTDIR => Self::NotAFolder,
            Errno::ISDIR => Self::IsAFolder,
            Errno::EXIST => Self::Exists,
            Errno::NOTEMPTY => Self::NotEmpty,
            // openat2 with RESOLVE_BENEATH.
            Errno::XDEV => Self::OutsideRoot,
            Errno::NAMETOOLONG => Self::BadName("it is longer than this file system allows"),
            Errno::NOSPC | Errno::DQUOT | Errno::FBIG => Self::NoSpace,
            Errno::ROFS => Self::ReadOnly,
            Errno::AGAIN | Errno::TXTBSY | Errno::BUSY => Self::Busy,
            Errno::LOOP => Self::TooDeep,
            _ => Self::Io(error.to_string()),
        }
    }
}

impl Error {
    /// The error of the operation `what` on `path` with the reason `why`.
    pub fn new(what: &'static str, path: &Path, why: Why) -> Self {
        Self { what, path: path.to_owned(), why }
    }

    pub(super) fn io(what: &'static str, path: &Path, error: &io::Error) -> Self {
        Self::new(what, path, Why::of(error))
    }

    /// The error of a file that was lost with the thread that processed it.
    pub(super) fn gone() -> Self {
        Self::io("write to", Path::new(""), &io::Error::other("the thread that wrote it has ended"))
    }
}

impl fmt::Display for Why {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NotFound => f.write_str("no such file or folder"),
            Self::Denied => f.write_str("permission denied"),
            Self::NotAFolder => f.write_str("not a folder"),
            Self::IsAFolder => f.write_str("is a folder"),
            Self::NotAFile => f.write_str("not a regular file"),
            Self::Exists => f.write_str("the name exists already"),
            Self::NotEmpty => f.write_str("the folder is not empty"),
            Self::OutsideRoot => f.write_str("it leads out of the tree"),
            Self::BadName(why) => write!(f, "not a name that can be used: {why}"),
            Self::NoSpace => f.write_str("no space left: free some, or raise the quota"),
            Self::ReadOnly => f.write_str("the file system is read-only"),
            Self::Busy => f.write_str("another transfer is using it now"),
            Self::TakenOver => f.write_str("a newer session of the same user writes it now"),
            Self::Replaced => f.write_str("another upload to this name was completed first"),
            Self::WrongLength { expected, found } => {
                write!(f, "{found} bytes where {expected} were promised")
            }
            Self::PastEnd { size } => write!(f, "it ends before that place, after {size} bytes"),
            Self::WrongDigest => f.write_str("the bytes are not those that were sent (digest differs)"),
            Self::TooDeep => f.write_str("too many links or folders one within another"),
            Self::Unsupported(why) => write!(f, "this store cannot do it: {why}"),
            Self::Io(text) => f.write_str(text),
        }
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let path = if self.path.as_os_str().is_empty() { Path::new(".") } else { &self.path };
        write!(f, "cannot {} `{}`: {}", self.what, escaped(path), self.why)
    }
}

impl std::error::Error for Error {}
