//! Reads small files that are in the page cache without another thread.
//!
//! openat2 with RESOLVE_CACHED and preadv2 with RWF_NOWAIT fail where they would wait for the disk; the file
//! is then read on a thread that may block. tmpfs does not support RWF_NOWAIT, and its files are in memory.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::{Errno, ReadWriteFlags};

use super::Root;

/// The maximum size of files that are read at once, in bytes.
pub(super) const AT_ONCE_BYTES: u64 = 64 << 10;
/// `f_type` of tmpfs (linux/magic.h).
const TMPFS_MAGIC: i64 = 0x0102_1994;

/// Whether the files of a device are in memory, for the first device that was queried.
#[derive(Debug, Default)]
pub(super) struct Memory(OnceLock<(u64, bool)>);

impl Memory {
    fn holds(&self, device: u64, file: &File) -> bool {
        let known = self.0.get_or_init(|| {
            (device, rustix::fs::fstatfs(file).is_ok_and(|found| found.f_type == TMPFS_MAGIC))
        });
        *known == (device, true)
    }
}

impl Root {
    /// Opens a file for reading, if its whole path is in the kernel's cache. Links are followed within the
    /// root.
    pub(super) fn open_at_once(&self, path: &Path) -> Option<File> {
        let flags = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::CLOEXEC | OFlags::NOCTTY;
        let resolve = ResolveFlags::BENEATH | ResolveFlags::NO_MAGICLINKS | ResolveFlags::CACHED;
        let file = rustix::fs::openat2(&*self.dir, path, flags, Mode::empty(), resolve).ok()?;
        Some(file.into())
    }

    /// Reads the first `length` bytes of a file on `device`, if they are in memory.
    pub(super) fn read_at_once(&self, file: &File, device: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let mut read = 0;
        while read < length {
            let rest = &mut bytes[read..];
            let at = read as u64;
            let done =
                match rustix::io::preadv2(file, &mut [IoSliceMut::new(rest)], at, ReadWriteFlags::NOWAIT) {
                    Err(Errno::OPNOTSUPP) if self.memory.holds(device, file) => {
                        rustix::io::pread(file, rest, at)
                    }
                    done => done,
                };
            match done {
                Ok(0) | Err(_) => return None,
                Ok(count) => read += count,
            }
        }
        Some(bytes)
    }
}
