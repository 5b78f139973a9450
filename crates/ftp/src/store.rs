//! Types shared by sessions and stores: metadata and errors of files.
//!
//! A store (a folder on disk, a table in memory) carries out what a [`Do`](crate::server::Do) requests; its
//! results reach the session in these types. [`StoreError::code`] maps every store error to an FTP reply.

use std::fmt;

use bytes::Bytes;

use crate::reply::Code;
use crate::stamp::Timestamp;

/// The type of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link, not followed.
    Symlink,
    /// A device, socket or pipe: listed, but never transferred.
    Other,
}

/// The metadata of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// The type.
    pub kind: FileKind,
    /// The size in bytes; 0 if there is none.
    pub size: u64,
    /// The modification time, UTC.
    pub modified: Option<Timestamp>,
    /// The permission bits, as in `chmod`: 0o7777 at most.
    pub unix_mode: Option<u32>,
    /// The target of a symbolic link, unvalidated.
    pub target: Option<Bytes>,
    /// The identity of the file in its store, such as device and inode: equal for hard links (the fact
    /// `unique`, RFC 3659 §7.5.2).
    pub unique: Option<(u64, u64)>,
    /// Whether the store knows that the file has several names (hard links). No fact carries this.
    pub is_linked: bool,
}

impl Metadata {
    /// Metadata with a type and a size only.
    pub const fn new(kind: FileKind, size: u64) -> Self {
        Self { kind, size, modified: None, unix_mode: None, target: None, unique: None, is_linked: false }
    }
}

/// An error of a store.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreError {
    /// No such file.
    NotFound,
    /// The name exists already.
    Exists,
    /// The path is not a folder.
    NotADirectory,
    /// The path is not a regular file.
    NotAFile,
    /// The folder is not empty.
    NotEmpty,
    /// Forbidden by the user's rights, the file's permissions, or a link that leaves the root.
    Denied,
    /// The store is read-only, for everybody or for this user.
    ReadOnly,
    /// The store does not support this name.
    BadName,
    /// The restart position is beyond the end of the file.
    BadOffset,
    /// The device is full.
    NoSpace,
    /// The user's quota is exhausted.
    Quota,
    /// The file is in use.
    Busy,
    /// A newer session of the same user is writing the file.
    TakenOver,
    /// Another upload to this name was completed first.
    Replaced,
    /// Not enough memory is available for the operation at present.
    NoMemory,
    /// A device error, or another error of the system.
    Io,
    /// The store does not support the operation.
    Unsupported,
}

impl StoreError {
    /// The reply code (RFC 959 §5.4, RFC 3659 §2.3).
    pub const fn code(self) -> Code {
        match self {
            Self::NotFound
            | Self::Exists
            | Self::NotADirectory
            | Self::NotAFile
            | Self::NotEmpty
            | Self::Denied
            | Self::ReadOnly => Code::FILE_UNAVAILABLE,
            Self::BadName => Code::NAME_NOT_ALLOWED,
            Self::BadOffset => Code::BAD_RESTART,
            Self::NoSpace => Code::NO_SPACE,
            Self::Quota => Code::QUOTA,
            Self::Busy | Self::TakenOver | Self::Replaced => Code::FILE_BUSY,
            Self::NoMemory | Self::Io => Code::LOCAL_ERROR,
            Self::Unsupported => Code::NOT_FOR_THAT_PARAMETER,
        }
    }
}

impl fmt::Display for StoreError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotFound => "no such file or folder",
            Self::Exists => "exists already",
            Self::NotADirectory => "not a folder",
            Self::NotAFile => "not a regular file",
            Self::NotEmpty => "folder is not empty",
            Self::Denied => "permission denied",
            Self::ReadOnly => "this store is read-only",
            Self::BadName => "name not allowed",
            Self::BadOffset => "restart position is beyond the end of the file",
            Self::NoSpace => "no space left",
            Self::Quota => "quota exceeded",
            Self::Busy => "file is busy",
            Self::TakenOver => "a newer session of the same user writes this file",
            Self::Replaced => "another upload to this name was completed first, and remains",
            Self::NoMemory => "not enough free memory; try again later",
            Self::Io => "local error",
            Self::Unsupported => "not supported by this store",
        })
    }
}

impl std::error::Error for StoreError {}
