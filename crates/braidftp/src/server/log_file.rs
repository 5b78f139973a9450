//! A log file that log rotation may move: opened again when it is no longer under its name, which is checked once a second and
//! on request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// How often it is looked whether the file was moved away, at most.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Bits of the mode of a file that is made: its group may read it.
const MODE: u32 = 0o640;

/// A file that lines are appended to.
#[derive(Debug)]
pub struct LogFile(Mutex<Target>);

#[derive(Debug)]
struct Target {
    path: PathBuf,
    /// `None` until it is opened, and while it cannot be.
    open: Option<File>,
    /// When it was looked at where it is.
    looked: Option<Instant>,
}

impl LogFile {
    /// This file. It is opened by [`LogFile::reopen`], or by the first line.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(Mutex::new(Target { path: path.into(), open: None, looked: None }))
    }

    /// Opens the file, or opens it anew where it now is.
    ///
    /// # Errors
    /// It cannot be opened or made.
    pub fn reopen(&self) -> io::Result<()> {
        let mut target = self.lock();
        target.open = None;
        target.open().map(|_| ())
    }

    /// Where it is.
    pub fn path(&self) -> PathBuf {
        self.lock().path.clone()
    }

    /// Appends lines.
    ///
    /// # Errors
    /// The file cannot be written to; the next call opens it anew.
    pub(super) fn append(&self, lines: &str) -> io::Result<()> {
        let mut target = self.lock();
        let written = target.open().and_then(|mut open| open.write_all(lines.as_bytes()));
        if written.is_err() {
            target.open = None;
        }
        written
    }

    /// As if a second had passed.
    #[cfg(test)]
    pub(super) fn look_now(&self) {
        self.lock().looked = None;
    }

    /// A panic while a line was written spoils that line alone.
    fn lock(&self) -> MutexGuard<'_, Target> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target {
    /// The file, open, where it is now.
    fn open(&mut self) -> io::Result<&File> {
        let now = Instant::now();
        let look = self.looked.is_none_or(|looked| now.duration_since(looked) >= LOOK_EVERY);
        if look && self.open.as_ref().is_some_and(|file| !is_there(file, &self.path)) {
            self.open = None;
        }
        if look || self.open.is_none() {
            self.looked = Some(now);
        }
        match self.open.take() {
            Some(file) => Ok(self.open.insert(file)),
            None => {
                let file = OpenOptions::new().append(true).create(true).mode(MODE).open(&self.path)?;
                Ok(self.open.insert(file))
            }
        }
    }
}

/// Whether this is the file that has that name now.
fn is_there(file: &File, path: &Path) -> bool {
    let identity = |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    identity(file.metadata()) == identity(std::fs::metadata(path))
}
