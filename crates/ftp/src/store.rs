//! The words in which sessions and stores speak of files: no execution here, only vocabulary.
//!
//! A store (a folder on disk, a table in memory) is asked by the server's driver for what a
//! [`Do`](crate::server::Do) says; what it answers is told to the session in these types. [`StoreError`] is the one
//! place where a failure of the store becomes an FTP reply.

use std::fmt;

use bytes::Bytes;

use crate::reply::Code;
use crate::stamp::Timestamp;

/// What a name stands for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum FileKind {
    /// A regular file.
    File,
    /// A folder.
    Directory,
    /// A symbolic link, not followed.
    Symlink,
    /// A device, socket or pipe: listed, never transferred.
    Other,
}

/// What is known of a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Metadata {
    /// What it is.
    pub kind: FileKind,
    /// Bytes in it; 0 for what has none.
    pub size: u64,
    /// When its content changed last, UTC.
    pub modified: Option<Timestamp>,
    /// The permission bits, as in `chmod`: 0o7777 at most.
    pub unix_mode: Option<u32>,
    /// Where a symbolic link points, raw.
    pub target: Option<Bytes>,
    /// A name for the file's identity in its store, such as device and inode: equal for hard links (the `unique` fact,
    /// RFC 3659 §7.5.2).
    pub unique: Option<(u64, u64)>,
}

impl Metadata {
    /// Of this kind and size, nothing else known.
    pub const fn new(kind: FileKind, size: u64) -> Self {
        Self { kind, size, modified: None, unix_mode: None, target: None, unique: None }
    }
}

/// Why a store did not do what it was asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum StoreError {
    /// Nothing has that name.
    NotFound,
    /// Something has that name already.
    Exists,
    /// A folder was needed.
    NotADirectory,
    /// A regular file was needed.
    NotAFile,
    /// The folder is not empty.
    NotEmpty,
    /// The user, or the file's permissions, or a link that leaves the root, forbids it.
    Denied,
    /// The store, or this user's view of it, cannot be written.
    ReadOnly,
    /// The name is one that this store cannot hold.
    BadName,
    /// The restart position is beyond the end of the file.
    BadOffset,
    /// The device is full.
    NoSpace,
    /// The user has used up what was allowed.
    Quota,
    /// The file is in use in a way that forbids this now.
    Busy,
    /// A newer session of the same user writes the file now.
    TakenOver,
    /// It needs more memory than there is for such things now.
    NoMemory,
    /// The device failed, or anything else went wrong underneath.
    Io,
    /// The store cannot do such a thing at all.
    Unsupported,
}

impl StoreError {
    /// The reply for it (RFC 959 §5.4, RFC 3659 §2.3).
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
            Self::Busy | Self::TakenOver => Code::FILE_BUSY,
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
            Self::NoMemory => "too little memory is free for it; try again later",
            Self::Io => "local error",
            Self::Unsupported => "not supported by this store",
        })
    }
}

impl std::error::Error for StoreError {}
