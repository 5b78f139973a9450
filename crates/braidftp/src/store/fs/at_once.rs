//! Reads the beginnings of files that are in the page cache without another thread, and so all of a small file.
//!
//! openat2 with RESOLVE_CACHED and preadv2 with RWF_NOWAIT fail where they would wait for the disk; the file
//! is then read on a thread that may block. tmpfs does not support RWF_NOWAIT, and its files are in memory.

use std::fs::File;
use std::io::IoSliceMut;
use std::path::Path;
use std::sync::OnceLock;

use rustix::fs::{Mode, OFlags, ResolveFlags};
use rustix::io::ReadWriteFlags;

use super::Root;

/// The maximum number of bytes of a file that are read at once.
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

    /// Reads a file on `device` from its beginning into `parts`, and returns the number of bytes; `None` if they are
    /// not in memory.
    pub(super) fn read_at_once(
        &self,
        file: &File,
        device: u64,
        parts: &mut [IoSliceMut<'_>],
    ) -> Option<usize> {
        let flags = match self.memory.holds(device, file) {
            true => ReadWriteFlags::empty(),
            false => ReadWriteFlags::NOWAIT,
        };
        rustix::io::preadv2(file, parts, 0, flags).ok()
    }
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::MetadataExt;

    use super::*;

    #[test]
    fn the_beginning_or_all_of_a_file_is_read_at_once() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        std::fs::write(dir.path().join("f"), "12345").unwrap();
        let file = root.open_at_once(Path::new("f")).unwrap();
        let device = file.metadata().unwrap().dev();
        for (lengths, expected) in [([1, 3], "1234"), ([2, 3], "12345"), ([4, 2], "12345")] {
            let mut parts = lengths.map(|length| vec![0; length]);
            let read =
                root.read_at_once(&file, device, &mut parts.each_mut().map(|part| IoSliceMut::new(part)));
            assert!(read.is_none_or(|read| parts.concat()[..read] == *expected.as_bytes()));
        }
    }
}
