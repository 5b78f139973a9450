//! Writes an object, which appears under its name when it is complete: small ones by one request, large ones in parts.

use std::path::{Path, PathBuf};
use std::time::SystemTime;

use bytes::Bytes;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::super::fs::{Commit, Error, Pieces, Start, Why};
use super::{Bucket, MTIME, UPLOADS_BYTES, failed, time_text};

/// The unit in which memory of uploads is counted, in bytes.
pub(super) const UNIT_BYTES: usize = 64 << 10;
/// The smallest size of a part, in bytes: that of S3.
const PART_BYTES: usize = 5 << 20;
/// The number of parts into which an object of known size is divided at most; S3 permits 10,000.
const PARTS_MAX: u64 = 9_000;
/// The number of parts that are sent at once.
const PARTS_AT_ONCE: usize = 2;
/// The bytes of an upload that are held before memory is taken for it.
const FREE_BYTES: usize = 16 << 10;

const WRITE: &str = "write to";

/// Writes one object. A writer that is dropped before its end leaves the old object, or none.
pub struct Writer {
    bucket: Bucket,
    path: PathBuf,
    start: Start,
    size_hint: Option<u64>,
    /// The number of bytes that will be written, if it is certain.
    exact: Option<u64>,
    /// The number of bytes that were accepted.
    taken: u64,
    /// Whether the name was checked.
    is_checked: bool,
    modified: Option<SystemTime>,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    open: Option<Open>,
}

/// Bytes are being sent.
struct Open {
    writer: opendal::Writer,
    _room: OwnedSemaphorePermit,
}

impl std::fmt::Debug for Writer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Writer").field("path", &self.path).finish_non_exhaustive()
    }
}

impl Bucket {
    /// Creates a writer of `path`; nothing is sent yet. `size_hint` is the expected size, if known.
    pub fn writer(&self, path: &Path, start: Start, size_hint: Option<u64>) -> Writer {
        Writer {
            bucket: self.clone(),
            path: path.to_owned(),
            start,
            size_hint,
            exact: None,
            taken: 0,
            is_checked: false,
            modified: None,
            pending: Vec::new(),
            pending_bytes: 0,
            open: None,
        }
    }
}

impl Writer {
    /// Sets what became known before the first byte: the number of bytes that follow, and the modification time.
    pub fn expect(&mut self, bytes: Option<u64>, modified: Option<SystemTime>) {
        (self.exact, self.modified) = (bytes, modified);
    }

    /// Checks that the object may be written, so that an error occurs before the first byte.
    ///
    /// # Errors
    ///
    /// The name is not one of the store, or is that of a folder.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn open(&mut self) -> Result<(), Error> {
        self.bucket.key(WRITE, &self.path)?;
        match self.bucket.is_folder(WRITE, &self.path).await? {
            true => Err(Error::new(WRITE, &self.path, Why::IsAFolder)),
            false => {
                self.is_checked = true;
                Ok(())
            }
        }
    }

    /// Accepts the next bytes.
    ///
    /// # Errors
    ///
    /// The store refused earlier bytes or does not answer; there are more bytes than expected.
    ///
    /// # Cancel safety
    ///
    /// Not safe: bytes may be lost.
    pub async fn write(&mut self, bytes: Bytes) -> Result<(), Error> {
        self.taken += bytes.len() as u64;
        if let Some(expected) = self.exact.filter(|expected| self.taken > *expected) {
            let why = Why::WrongLength { expected, found: self.taken };
            return Err(Error::new(WRITE, &self.path, why));
        }
        if !bytes.is_empty() {
            self.pending_bytes += bytes.len();
            self.pending.push(bytes);
        }
        match self.open.is_some() || self.pending_bytes > FREE_BYTES {
            true => self.flush(Extent::Unknown).await,
            false => Ok(()),
        }
    }

    /// Sends the pending bytes.
    async fn flush(&mut self, extent: Extent) -> Result<(), Error> {
        if self.open.is_none() {
            self.begin(extent).await?;
        }
        let pending = std::mem::take(&mut self.pending);
        self.pending_bytes = 0;
        let Some(open) = self.open.as_mut().filter(|_| !pending.is_empty()) else { return Ok(()) };
        open.writer.write(pending).await.map_err(|error| failed(WRITE, &self.path, &error))
    }

    /// Begins the object, with the bytes of the existing one that it keeps.
    async fn begin(&mut self, extent: Extent) -> Result<(), Error> {
        let key = self.bucket.key(WRITE, &self.path)?;
        if !self.is_checked {
            self.open().await?;
        }
        let keeps = self.start != Start::New;
        let by_size = self.exact.max(self.size_hint).unwrap_or(0).div_ceil(PARTS_MAX);
        let part = usize::try_from(by_size).unwrap_or(usize::MAX).clamp(PART_BYTES, UPLOADS_BYTES / 4);
        let bytes = match extent {
            Extent::Pending if !keeps => self.pending_bytes,
            _ => match self.exact {
                Some(exact) if !keeps && exact < part as u64 => exact as usize,
                _ => part * (1 + PARTS_AT_ONCE),
            },
        };
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX);
        let room = self.bucket.room.clone().acquire_many_owned(units).await;
        let room = room.map_err(|_| Error::new(WRITE, &self.path, Why::Busy))?;
        let mut opening = self.bucket.operator.writer_with(&key).chunk(part).concurrent(PARTS_AT_ONCE);
        if let Some(modified) = self.modified.filter(|_| self.bucket.keeps_times()) {
            opening = opening.user_metadata([(MTIME.to_owned(), time_text(modified))]);
        }
        let writer = opening.await.map_err(|error| failed(WRITE, &self.path, &error))?;
        let mut open = Open { writer, _room: room };
        if keeps {
            self.keep(&mut open.writer).await?;
        }
        self.open = Some(open);
        Ok(())
    }

    /// Copies the bytes of the existing object before the new ones.
    async fn keep(&self, writer: &mut opendal::Writer) -> Result<(), Error> {
        let reader = match self.bucket.reader(Pieces::default(), &self.path, 0).await {
            Ok(reader) => Some(reader),
            Err(error) if error.why == Why::NotFound => None,
            Err(error) => return Err(error),
        };
        let size = reader.as_ref().map_or(0, |reader| reader.metadata().size);
        let mut left = match self.start {
            Start::New => 0,
            Start::Append => size,
            Start::At(offset) if offset > size => {
                return Err(Error::new(WRITE, &self.path, Why::PastEnd { size }));
            }
            Start::At(offset) => offset,
        };
        let Some(mut reader) = reader else { return Ok(()) };
        while left > 0 {
            let Some(mut block) = reader.next_block().await? else { break };
            block.truncate(usize::try_from(left).unwrap_or(usize::MAX));
            left -= block.len() as u64;
            writer.write(block).await.map_err(|error| failed(WRITE, &self.path, &error))?;
        }
        Ok(())
    }

    /// Completes the object.
    ///
    /// # Errors
    ///
    /// The store refused or does not answer; there is the old object, or none. [`Why::WrongLength`].
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the object is complete.
    pub async fn commit(mut self, commit: Commit) -> Result<(), Error> {
        self.modified = self.modified.or(commit.modified);
        let done = match self.flush(Extent::Pending).await {
            Ok(()) => match &mut self.open {
                Some(open) => {
                    open.writer.close().await.map(drop).map_err(|error| failed(WRITE, &self.path, &error))
                }
                None => Ok(()),
            },
            Err(error) => Err(error),
        };
        if done.is_err() {
            self.abandon().await;
        }
        done
    }

    /// Ends the upload without an object; parts that were sent are removed.
    ///
    /// # Cancel safety
    ///
    /// Not safe: parts may remain in the store, invisible; a rule of the bucket can remove them.
    pub async fn abandon(mut self) {
        if let Some(open) = &mut self.open
            && let Err(error) = open.writer.abort().await
        {
            tracing::debug!(path = %self.path.display(), %error, "parts of an upload remain in the object store");
        }
    }

    /// Writes an existing object again, with another modification time.
    pub(super) async fn again(bucket: &Bucket, path: &Path, modified: SystemTime) -> Result<(), Error> {
        let mut reader = bucket.reader(Pieces::default(), path, 0).await?;
        let size = reader.metadata().size;
        let mut writer = bucket.writer(path, Start::New, Some(size));
        writer.expect(Some(size), Some(modified));
        let copied = async {
            while let Some(block) = reader.next_block().await? {
                writer.write(block).await?;
            }
            Ok(())
        };
        match copied.await {
            Ok(()) => writer.commit(Commit::default()).await,
            Err(error) => {
                writer.abandon().await;
                Err(error)
            }
        }
    }
}

/// How much memory the object needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Extent {
    /// All of it is pending.
    Pending,
    /// More may follow.
    Unknown,
}

impl Bucket {
    /// Whether objects keep the modification times of files.
    pub(super) fn keeps_times(&self) -> bool {
        self.operator.info().capability().write_with_user_metadata
    }
}

const _: () = assert!(UPLOADS_BYTES / 4 * (1 + PARTS_AT_ONCE) <= UPLOADS_BYTES);
const _: () = assert!(UPLOADS_BYTES / UNIT_BYTES <= Semaphore::MAX_PERMITS);
