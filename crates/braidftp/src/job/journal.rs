//! The journal of a mirror (`--journal`): the state from which the same command resumes a killed job.
//!
//! A journal is a folder below `$XDG_STATE_HOME/braidftp/journals`, named after the ends of the job, with
//! these files:
//! - `job`: the name of the job, locked while a job uses the journal;
//! - `done`: sixteen bytes for each finished file, made by [`path_hash`];
//! - `listing`: braid's listing of the remote tree, packed as received; `listing.part` until it is complete.
//!   The listing is written as fast as it arrives and read from the file, so that it is soon complete,
//!   however long the files take.
//!
//! The kernel has received a write before the job continues, so the write survives a `kill -9`; after a power
//! failure some files are checked again. If the destination was removed, the journal is not believed. If a journal cannot be written, this is reported once, and the job
//! continues without it. The journal is removed when the job is complete.

use std::fs::{self, File, OpenOptions};
use std::io::{Read, Write};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use braidftp_ftp::client::ListForm;
use bytes::Bytes;
use tokio::sync::watch;

use super::path_hash;
use crate::client::{Queue, UnderWay};
use crate::exit::{Error, Exit, Result, escape};
use crate::progress::Reporter;
use crate::url::Url;

/// Bytes of a path's hash in `done`.
const HASH_BYTES: usize = 16;
/// Bytes of a listing that are read at once.
const READ_BYTES: usize = 64 << 10;

/// The time within which the system releases the lock of a process that was killed, and the interval of attempts to take it.
const KILLED_WITHIN: Duration = Duration::from_secs(2);
const LOCK_LOOK: Duration = Duration::from_millis(10);

/// An open journal. Clones share it.
#[derive(Debug, Clone)]
pub struct Journal(Arc<Inner>);

#[derive(Debug)]
struct Inner {
    folder: PathBuf,
    /// Locked.
    _job: File,
    /// `None` after a failed write.
    done: Mutex<Option<File>>,
    replays: bool,
    reporter: Reporter,
}

impl Journal {
    /// Opens or creates the journal of the job with this name. Without `replays` the tree is listed again.
    /// `None` if it cannot be opened: this is reported, and the job continues without it.
    ///
    /// # Errors
    ///
    /// There is no location for it, or another job still uses it after two seconds.
    pub fn open(name: &str, replays: bool, reporter: &Reporter) -> Result<Option<Self>> {
        let folder = folder(name).ok_or_else(|| {
            Error::new(Exit::Local, "use --journal", "there is no folder for it")
                .hint("set HOME, or XDG_STATE_HOME to a folder")
        })?;
        let begun = Instant::now();
        let (job, done) = loop {
            let (job, done) = match files(&folder, name) {
                Ok(files) => files,
                Err(error) => {
                    reporter.caution(format_args!(
                        "the journal {} cannot be opened ({error}): the job continues without it",
                        folder.display()
                    ));
                    return Ok(None);
                }
            };
            if job.try_lock().is_ok() {
                break (job, done);
            }
            if begun.elapsed() > KILLED_WITHIN {
                let what = format!("use the journal {}", folder.display());
                return Err(Error::new(Exit::Local, what, "another job between the same places uses it")
                    .hint("wait for it, or leave out --journal"));
            }
            std::thread::sleep(LOCK_LOOK);
        };
        let (done, reporter) = (Mutex::new(Some(done)), reporter.clone());
        Ok(Some(Self(Arc::new(Inner { folder, _job: job, done, replays, reporter }))))
    }

    /// The hashes of the paths that earlier runs have finished, at most `most`. If the destination `is_gone`, missing or empty,
    /// somebody has removed it since: the journal is forgotten, and no path is finished.
    ///
    /// # Errors
    ///
    /// They cannot be read, or it is not known whether the destination is gone.
    pub(super) async fn finished(
        &self,
        most: u64,
        is_gone: impl Future<Output = Result<bool>>,
    ) -> Result<Vec<u128>> {
        let finished = self.read(most)?;
        let is_new = finished.is_empty() && !self.0.folder.join("listing").exists();
        if is_new || !is_gone.await? {
            return Ok(finished);
        }
        self.forget();
        Ok(Vec::new())
    }

    fn read(&self, most: u64) -> Result<Vec<u128>> {
        let path = self.0.folder.join("done");
        let read = || {
            let file = File::open(&path)?;
            let mut bytes = Vec::new();
            file.take(most.saturating_mul(HASH_BYTES as u64)).read_to_end(&mut bytes)?;
            std::io::Result::Ok(bytes)
        };
        let bytes = read().map_err(|error| Error::local(format_args!("read {}", path.display()), &error))?;
        let (hashes, cut) = bytes.as_chunks::<HASH_BYTES>();
        if !cut.is_empty() {
            // The disk was full in the middle of a hash: the next one begins at a multiple of the length.
            let whole = (hashes.len() * HASH_BYTES) as u64;
            let cut = OpenOptions::new().write(true).open(&path).and_then(|file| file.set_len(whole));
            cut.map_err(|error| Error::local(format_args!("cut {}", path.display()), &error))?;
        }
        Ok(hashes.iter().map(|hash| u128::from_le_bytes(*hash)).collect())
    }

    /// Records a finished file.
    pub(super) fn done(&self, path: &[u8]) {
        let mut done = self.0.done.lock().unwrap_or_else(PoisonError::into_inner);
        let Some(file) = done.as_mut() else { return };
        if let Err(error) = file.write_all(&path_hash(path).to_le_bytes()) {
            *done = None;
            drop(done);
            self.cannot_write("done", &error);
        }
    }

    fn cannot_write(&self, file: &str, error: &std::io::Error) {
        self.0.reporter.caution(format_args!(
            "the journal {} cannot be written ({error}): the job continues, and a run after a kill checks more files again",
            self.0.folder.join(file).display()
        ));
    }

    /// The complete listing of an earlier run.
    pub(super) fn listing(&self, form: ListForm) -> Option<Feed> {
        if form != ListForm::Tree || !self.0.replays {
            return None;
        }
        let file = File::open(self.0.folder.join("listing")).ok()?;
        let written = file.metadata().ok()?.len();
        let (_, kept) = watch::channel(Kept { written, state: State::Whole });
        Some(Feed::Kept(Reading { file: Arc::new(file), read: 0, kept }))
    }

    /// Stores an arriving listing, which is then read from the file.
    pub(super) fn keep(&self, form: ListForm, queue: Queue, under_way: UnderWay) -> Feed {
        if form != ListForm::Tree {
            return Feed::Live(queue, Some(under_way));
        }
        let path = self.0.folder.join("listing.part");
        let mut options = OpenOptions::new();
        let opened = options.create(true).read(true).write(true).truncate(true).mode(0o600).open(&path);
        let file = match opened {
            Ok(file) => Arc::new(file),
            Err(error) => {
                self.cannot_write("listing.part", &error);
                return Feed::Live(queue, Some(under_way));
            }
        };
        let (tell, kept) = watch::channel(Kept { written: 0, state: State::Coming });
        tokio::spawn(self.clone().spool(file.clone(), queue, under_way, tell));
        Feed::Kept(Reading { file, read: 0, kept })
    }

    async fn spool(self, file: Arc<File>, mut queue: Queue, under_way: UnderWay, tell: watch::Sender<Kept>) {
        let mut written = 0;
        while let Some(bytes) = queue.next().await {
            let (to, chunk) = (file.clone(), bytes.clone());
            let wrote = tokio::task::spawn_blocking(move || to.write_all_at(&chunk, written)).await;
            match wrote.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into())) {
                Ok(()) => {
                    written += bytes.len() as u64;
                    tell.send_modify(|kept| kept.written = written);
                }
                Err(error) => {
                    self.cannot_write("listing.part", &error);
                    let rest = Arc::new(Mutex::new(Some((bytes, queue, under_way))));
                    tell.send_modify(|kept| kept.state = State::HandedOver(rest));
                    return;
                }
            }
        }
        let done = under_way.done().await;
        let state = match done.result.err().or(done.data.error) {
            Some(error) => State::Failed(error),
            None => {
                let folder = &self.0.folder;
                if let Err(error) = fs::rename(folder.join("listing.part"), folder.join("listing")) {
                    self.cannot_write("listing", &error);
                }
                State::Whole
            }
        };
        tell.send_modify(|kept| kept.state = state);
    }

    /// Forgets the finished files, and the listing, which for an upload is that of the destination.
    fn forget(&self) {
        // If it does not exist, there is nothing to forget.
        let _ = fs::remove_file(self.0.folder.join("listing"));
        let mut done = self.0.done.lock().unwrap_or_else(PoisonError::into_inner);
        let cut = done.as_ref().map(|file| file.set_len(0));
        if let Some(Err(error)) = cut {
            *done = None;
            drop(done);
            self.cannot_write("done", &error);
        }
    }

    /// Removes the journal of a complete job.
    pub fn remove(&self) {
        // Remaining files do no harm: the next run finds and removes them.
        let _ = fs::remove_dir_all(&self.0.folder);
    }
}

/// Whether the local destination is missing or empty.
pub(super) fn is_gone(folder: &Path) -> bool {
    fs::read_dir(folder).map_or(true, |mut entries| entries.next().is_none())
}

/// Opens or creates the files `job` and `done`.
fn files(folder: &Path, name: &str) -> std::io::Result<(File, File)> {
    fs::create_dir_all(folder)?;
    let mut options = OpenOptions::new();
    options.create(true).read(true).append(true).mode(0o600);
    let (mut job, done) = (options.open(folder.join("job"))?, options.open(folder.join("done"))?);
    if job.metadata()?.len() == 0 {
        writeln!(job, "{name}")?;
    }
    Ok((job, done))
}

/// The folder of the journal of a job.
fn folder(name: &str) -> Option<PathBuf> {
    let of = |name| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let state = of("XDG_STATE_HOME").or_else(|| of("HOME").map(|home| home.join(".local/state")))?;
    Some(state.join("braidftp/journals").join(hash_name(name)))
}

fn hash_name(name: &str) -> String {
    format!("{:032x}", path_hash(name.as_bytes()))
}

/// The name of a job's journal: its direction, its ends and its user.
pub fn name(is_up: bool, url: &Url, folder: &Path) -> String {
    let direction = if is_up { "up" } else { "down" };
    let user = escape(url.user.as_deref().unwrap_or_default());
    format!("{direction} {user}@{url} {}", folder.display())
}

/// The source of the bytes of a listing.
#[derive(Debug)]
pub(super) enum Feed {
    /// The server.
    Live(Queue, Option<UnderWay>),
    /// A file, into which the bytes were written before or are being written.
    Kept(Reading),
}

#[derive(Debug)]
pub(super) struct Reading {
    file: Arc<File>,
    read: u64,
    kept: watch::Receiver<Kept>,
}

#[derive(Debug)]
struct Kept {
    written: u64,
    state: State,
}

/// The source of the bytes after those in the file.
#[derive(Debug, Clone)]
enum State {
    Coming,
    Whole,
    Failed(Error),
    /// The file could not be written: these bytes, and all following ones, are handed over in memory.
    HandedOver(Arc<Mutex<Option<(Bytes, Queue, UnderWay)>>>),
}

impl Feed {
    /// Returns the next bytes; `None` after the last.
    ///
    /// # Errors
    ///
    /// The listing was refused or aborted, or the journal cannot be read.
    pub(super) async fn next(&mut self) -> Result<Option<Bytes>> {
        loop {
            match self {
                Self::Live(queue, under_way) => {
                    if let Some(bytes) = queue.next().await {
                        return Ok(Some(bytes));
                    }
                    let Some(under_way) = under_way.take() else { return Ok(None) };
                    let done = under_way.done().await;
                    return match done.result.err().or(done.data.error) {
                        Some(error) => Err(error),
                        None => Ok(None),
                    };
                }
                Self::Kept(reading) => {
                    let (written, state) = {
                        let kept = reading.kept.borrow_and_update();
                        (kept.written, kept.state.clone())
                    };
                    if reading.read < written {
                        return reading.read(written).await.map(Some);
                    }
                    match state {
                        State::Coming => {
                            if reading.kept.changed().await.is_err() {
                                let why = "the reader of the listing has ended";
                                return Err(Error::new(Exit::Interrupted, "list", why));
                            }
                        }
                        State::Whole => return Ok(None),
                        State::Failed(error) => return Err(error),
                        State::HandedOver(rest) => {
                            let rest = rest.lock().unwrap_or_else(PoisonError::into_inner).take();
                            let Some((bytes, queue, under_way)) = rest else { return Ok(None) };
                            *self = Self::Live(queue, Some(under_way));
                            return Ok(Some(bytes));
                        }
                    }
                }
            }
        }
    }
}

impl Reading {
    async fn read(&mut self, written: u64) -> Result<Bytes> {
        let (file, at) = (self.file.clone(), self.read);
        let length = (written - at).min(READ_BYTES as u64) as usize;
        let read = tokio::task::spawn_blocking(move || {
            let mut bytes = vec![0; length];
            file.read_exact_at(&mut bytes, at).map(|()| Bytes::from(bytes))
        });
        let read = read.await.unwrap_or_else(|_| Err(std::io::ErrorKind::Other.into()));
        let bytes = read.map_err(|error| Error::local("read the journal's listing", &error))?;
        self.read += bytes.len() as u64;
        Ok(bytes)
    }
}
