//! A log file that log rotation may move: opened again when it is no longer under its name, which is checked
//! once per second and on request.

use std::fs::{File, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The minimum interval of checks whether the file was moved.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// The mode of a new file: its group may read it.
const MODE: u32 = 0o640;

/// A file to which lines are appended.
#[derive(Debug)]
pub struct LogFile(Mutex<Target>);

#[derive(Debug)]
struct Target {
    path: PathBuf,
    /// `None` until it is opened, and after a failure.
    open: Option<File>,
    /// The time of the last check.
    looked: Option<Instant>,
}

impl LogFile {
    /// Appends to this file, which is opened by [`LogFile::reopen`] or by the first line.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self(Mutex::new(Target { path: path.into(), open: None, looked: None }))
    }

    /// Opens the file, or opens it again under its name.
    ///
    /// # Errors
    ///
    /// It cannot be opened or created.
    pub fn reopen(&self) -> io::Result<()> {
        let mut target = self.lock();
        target.open = None;
        target.open().map(|_| ())
    }

    /// The path of the file.
    pub fn path(&self) -> PathBuf {
        self.lock().path.clone()
    }

    /// Appends lines.
    ///
    /// # Errors
    ///
    /// The file cannot be written; the next call opens it again.
    pub(super) fn append(&self, lines: &str) -> io::Result<()> {
        let mut target = self.lock();
        let written = target.open().and_then(|mut open| open.write_all(lines.as_bytes()));
        if written.is_err() {
            target.open = None;
        }
        written
    }

    /// Checks as if a second had passed.
    #[cfg(test)]
    pub(super) fn look_now(&self) {
        self.lock().looked = None;
    }

    /// A panic while a line was being written affects only that line.
    fn lock(&self) -> MutexGuard<'_, Target> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Target {
    /// The file, opened under its current name.
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

/// Whether the open file is still under its name.
fn is_there(file: &File, path: &Path) -> bool {
    let identity = |found: io::Result<std::fs::Metadata>| found.ok().map(|found| (found.dev(), found.ino()));
    identity(file.metadata()) == identity(std::fs::metadata(path))
}
