//! Writes an object, which appears under its name when it is complete: small ones by one request, large ones in parts.
//!
//! Of two uploads to one name, through any two servers, the first completion remains, and the other fails with
//! [`Why::Replaced`]: the request that completes an object is conditional on what had the name when the upload
//! began (`If-None-Match`, or `If-Match` with its version). Stores without such requests
//! ([`Bucket::has_conditions`]) keep the later completion.

use std::path::{Path, PathBuf};
use std::time::{Duration, SystemTime};

use bytes::Bytes;
use futures_util::future::BoxFuture;
use opendal::ErrorKind;
use tokio::sync::{OwnedSemaphorePermit, oneshot};

use super::super::fs::{Commit, Error, Kind, Pieces, Start, Why};
use super::{Bucket, MTIME, UPLOADS_BYTES, failed, is_missing, time_text};

/// The unit in which memory of uploads is counted, in bytes.
pub(super) const UNIT_BYTES: usize = 64 << 10;
/// The smallest size of a part, in bytes: that of S3.
const PART_BYTES: usize = 5 << 20;
/// The number of parts into which an object is divided at most: that of S3.
const PARTS_MAX: u64 = 10_000;
/// The number of parts that are sent at once, while at least half of the memory for uploads is free; then one.
const PARTS_AT_ONCE: usize = 2;
/// The number of parts of an upload in memory, besides those that are being sent, if there are several: one that fills up, and one
/// that OpenDAL keeps until it knows whether it is the last.
const PARTS_BESIDES: usize = 2;
/// The largest size of a part, in bytes: all memory for one upload.
const PART_BYTES_MAX: usize = UPLOADS_BYTES / (PARTS_AT_ONCE + PARTS_BESIDES);
/// The largest size of an object in a store that takes no parts, in bytes.
const WHOLE_BYTES_MAX: u64 = UPLOADS_BYTES as u64 / 2;
/// The largest size of an object, in bytes.
pub(crate) const OBJECT_BYTES_MAX: u64 = PART_BYTES_MAX as u64 * PARTS_MAX;
/// The user metadata that tells which upload wrote an object. Azure permits letters, digits and `_` in its name.
const UPLOAD: &str = "uploadid";
/// The time limit of the removal of the parts of an upload that was dropped.
const REMOVAL: Duration = Duration::from_secs(120);
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
    /// What had the name when the upload began, once it was looked at.
    seen: Option<Seen>,
    /// The number of this upload, as the object tells it.
    id: String,
    modified: Option<SystemTime>,
    pending: Vec<Bytes>,
    pending_bytes: usize,
    open: Option<Open>,
}

/// What had the name of an upload when it began.
#[derive(Debug, Clone, PartialEq, Eq)]
enum Seen {
    Nothing,
    /// An object of this ETag, or of this generation where these are compared.
    Version(String),
    /// The store has no conditional requests.
    Unknown,
}

/// Bytes are being sent.
struct Open {
    writer: opendal::Writer,
    room: OwnedSemaphorePermit,
}

impl Open {
    /// Removes the parts that were sent.
    async fn remove(mut self, path: &Path) {
        if let Err(error) = self.writer.abort().await {
            tracing::info!(path = %path.display(), %error, "parts of an upload remain in the object store");
        }
        drop(self.room);
    }
}

impl Drop for Writer {
    /// An upload that was cancelled leaves no parts either. Its memory is free when they are removed.
    fn drop(&mut self) {
        let (Some(open), Ok(runtime)) = (self.open.take(), tokio::runtime::Handle::try_current()) else {
            return;
        };
        let path = std::mem::take(&mut self.path);
        runtime.spawn(async move {
            let _ = tokio::time::timeout(REMOVAL, open.remove(&path)).await;
        });
    }
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
            seen: None,
            id: format!("{:016x}", super::random()),
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

    /// Checks that the object may be written, so that an error occurs before the first byte, and notes what it replaces.
    ///
    /// # Errors
    ///
    /// The name is not one of the store, or is that of a folder; the file is too large.
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn open(&mut self) -> Result<(), Error> {
        let key = self.bucket.key(WRITE, &self.path)?;
        if self.exact.max(self.size_hint).is_some_and(|size| size > self.bucket.file_bytes_max()) {
            return Err(Error::new(WRITE, &self.path, Why::NoSpace));
        }
        let (is_folder, seen) =
            tokio::join!(self.bucket.hides_files(&self.path), self.bucket.seen(&key, &self.path));
        if is_folder? {
            return Err(Error::new(WRITE, &self.path, Why::IsAFolder));
        }
        self.seen = Some(seen?);
        Ok(())
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
        if self.taken > self.bucket.file_bytes_max() {
            return Err(Error::new(WRITE, &self.path, Why::NoSpace));
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
        if pending.is_empty() { Ok(()) } else { self.send(pending).await }
    }

    async fn send(&mut self, bytes: Vec<Bytes>) -> Result<(), Error> {
        let sent = self.uncancelled(move |writer| Box::pin(writer.write(bytes))).await?;
        sent.map_err(|error| failed(WRITE, &self.path, &error))
    }

    /// Does something with OpenDAL's writer, in a task of its own. Cancelled, that writer would know nothing of an upload that it has
    /// begun, and could not remove its parts; so they are removed at the end of the task if this writer is dropped meanwhile.
    async fn uncancelled<F>(&mut self, work: F) -> Result<opendal::Result<()>, Error>
    where
        F: for<'a> FnOnce(&'a mut opendal::Writer) -> BoxFuture<'a, opendal::Result<()>> + Send + 'static,
    {
        let gone = || Error::new(WRITE, &self.path, Why::Busy);
        let mut open = self.open.take().ok_or_else(gone)?;
        let (give, given) = oneshot::channel();
        let path = self.path.clone();
        tokio::spawn(async move {
            let done = work(&mut open.writer).await;
            match give.send((open, done)) {
                // It is complete, or was given back.
                Ok(()) => {}
                Err((open, _)) => {
                    let _ = tokio::time::timeout(REMOVAL, open.remove(&path)).await;
                }
            }
        });
        let (open, done) = given.await.map_err(|_| gone())?;
        self.open = Some(open);
        Ok(done)
    }

    /// Begins the object, with the bytes of the existing one that it keeps.
    async fn begin(&mut self, extent: Extent) -> Result<(), Error> {
        let key = self.bucket.key(WRITE, &self.path)?;
        if self.seen.is_none() {
            self.open().await?;
        }
        let keeps = self.start != Start::New;
        let has_room = self.bucket.room.available_permits() >= UPLOADS_BYTES / UNIT_BYTES / 2;
        let size = self.exact.max(self.size_hint);
        let Plan { part, at_once, bytes } = plan(size, self.bucket.file_bytes_max(), has_room);
        let bytes = match (extent, self.exact) {
            (Extent::Pending, _) if !keeps => self.pending_bytes,
            (_, Some(exact)) if !keeps && exact < part as u64 => exact as usize,
            _ => bytes,
        };
        let units = u32::try_from(bytes.div_ceil(UNIT_BYTES).max(1)).unwrap_or(u32::MAX);
        let room = self.bucket.room.clone().acquire_many_owned(units).await;
        let room = room.map_err(|_| Error::new(WRITE, &self.path, Why::Busy))?;
        let mut opening = self.bucket.operator.writer_with(&key).chunk(part).concurrent(at_once);
        if self.bucket.keeps_times() {
            let time = self.modified.map(|modified| (MTIME.to_owned(), time_text(modified)));
            opening = opening.user_metadata(time.into_iter().chain([(UPLOAD.to_owned(), self.id.clone())]));
        }
        opening = match &self.seen {
            Some(Seen::Nothing) => opening.if_not_exists(true),
            Some(Seen::Version(version)) => match self.bucket.operator.info().capability() {
                can if can.write_with_if_match => opening.if_match(version),
                _ => opening.if_version_match(version),
            },
            Some(Seen::Unknown) | None => opening,
        };
        let writer = opening.await.map_err(|error| failed(WRITE, &self.path, &error))?;
        self.open = Some(Open { writer, room });
        if keeps { self.keep().await } else { Ok(()) }
    }

    /// Copies the bytes of the existing object before the new ones.
    async fn keep(&mut self) -> Result<(), Error> {
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
            self.send(vec![block]).await?;
        }
        Ok(())
    }

    /// Completes the object.
    ///
    /// # Errors
    ///
    /// The store refused or does not answer; there is the old object, or none. [`Why::WrongLength`]; [`Why::Replaced`].
    ///
    /// # Cancel safety
    ///
    /// Not safe: it is unknown whether the object is complete.
    pub async fn commit(mut self, commit: Commit) -> Result<(), Error> {
        self.modified = self.modified.or(commit.modified);
        let done = match self.flush(Extent::Pending).await {
            Ok(()) if self.open.is_none() => Ok(()),
            Ok(()) => {
                match self.uncancelled(|writer| Box::pin(async { writer.close().await.map(drop) })).await {
                    Ok(Ok(())) => Ok(()),
                    Ok(Err(error)) => self.judge(error).await,
                    Err(error) => Err(error),
                }
            }
            Err(error) => Err(error),
        };
        if let (Err(_), Some(open)) = (&done, self.open.take()) {
            open.remove(&self.path).await;
        }
        done
    }

    /// Decides what the failure of the last request means. A request whose answer was lost is repeated, and the repeated one fails
    /// although the object is there.
    async fn judge(&self, error: opendal::Error) -> Result<(), Error> {
        let key = self.bucket.key(WRITE, &self.path)?;
        if let Ok(found) = self.bucket.operator.stat(&key).await
            && found.user_metadata().and_then(|kept| kept.get(UPLOAD)) == Some(&self.id)
        {
            return Ok(());
        }
        match error.kind() {
            ErrorKind::ConditionNotMatch | ErrorKind::Conflict => {
                Err(Error::new(WRITE, &self.path, Why::Replaced))
            }
            _ => Err(failed(WRITE, &self.path, &error)),
        }
    }

    /// Ends the upload without an object; parts that were sent are removed.
    ///
    /// # Cancel safety
    ///
    /// Not safe: parts may remain in the store, invisible; a rule of the bucket can remove them.
    pub async fn abandon(mut self) {
        if let Some(open) = self.open.take() {
            open.remove(&self.path).await;
        }
    }

    /// Writes an existing object again, with another modification time.
    pub(super) async fn again(bucket: &Bucket, path: &Path, modified: SystemTime) -> Result<(), Error> {
        let mut writer = bucket.writer(path, Start::New, None);
        // Before the reader, so that what is read is what had the name, or the writer fails.
        writer.open().await?;
        let mut reader = bucket.reader(Pieces::default(), path, 0).await?;
        let size = reader.metadata().size;
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

/// How an object is sent.
#[derive(Debug, PartialEq, Eq)]
struct Plan {
    /// Bytes of a part.
    part: usize,
    /// The number of parts that are sent at once.
    at_once: usize,
    /// Bytes in memory.
    bytes: usize,
}

/// Decides how an object of this size is sent, to a store that takes files of up to `most` bytes. `has_room` is whether half of the
/// memory for uploads is free.
fn plan(size: Option<u64>, most: u64, has_room: bool) -> Plan {
    if most <= WHOLE_BYTES_MAX {
        // A part that is never full is sent at the end.
        let (part, bytes) = (most as usize + 1, size.unwrap_or(most).min(most) as usize);
        return Plan { part, at_once: 1, bytes };
    }
    let by_size = usize::try_from(size.unwrap_or(0).div_ceil(PARTS_MAX)).unwrap_or(usize::MAX);
    let part = by_size.clamp(PART_BYTES, PART_BYTES_MAX);
    // One at a time is sent while the next one fills up, so that the part that OpenDAL keeps is the one that is sent.
    let (at_once, held) = if has_room { (PARTS_AT_ONCE, PARTS_AT_ONCE + PARTS_BESIDES) } else { (1, 2) };
    Plan { part, at_once, bytes: part * held }
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

    /// The largest size of a file: where the store takes no parts, all of it must be in memory.
    pub fn file_bytes_max(&self) -> u64 {
        match self.operator.info().capability().write_can_multi {
            true => OBJECT_BYTES_MAX,
            false => WHOLE_BYTES_MAX,
        }
    }

    /// Whether the store compares versions, so that of two uploads to one name the first completion remains.
    pub fn has_conditions(&self) -> bool {
        let can = self.operator.info().capability();
        can.write_with_if_not_exists && (can.write_with_if_match || can.write_with_if_version_match)
    }

    /// Whether this is the name of a folder, so that it cannot be that of a file.
    async fn hides_files(&self, path: &Path) -> Result<bool, Error> {
        // Where folders are more than the beginnings of keys, stores rename them. There a file cannot be listed.
        if !self.renames() {
            return self.is_folder(WRITE, path).await;
        }
        match self.metadata(path).await {
            Ok(found) => Ok(found.kind == Kind::Folder),
            Err(error) if error.why == Why::NotFound => Ok(false),
            Err(error) => Err(error),
        }
    }

    /// What has this name now.
    async fn seen(&self, key: &str, path: &Path) -> Result<Seen, Error> {
        if !self.has_conditions() {
            return Ok(Seen::Unknown);
        }
        let found = match self.operator.stat(key).await {
            Ok(found) => found,
            Err(error) if is_missing(&error) => return Ok(Seen::Nothing),
            Err(error) => return Err(failed(WRITE, path, &error)),
        };
        let version = match self.operator.info().capability().write_with_if_match {
            true => found.etag(),
            false => found.version(),
        };
        Ok(version.map_or(Seen::Unknown, |version| Seen::Version(version.to_owned())))
    }
}

const _: () = assert!(PART_BYTES <= PART_BYTES_MAX);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_part_grows_with_the_file_and_memory_is_never_more_than_all() {
        let plan = |size, has_room| super::plan(size, OBJECT_BYTES_MAX, has_room);
        let (small, large) = (PART_BYTES, PART_BYTES_MAX);
        assert_eq!(plan(None, true), Plan { part: small, at_once: 2, bytes: 4 * small });
        assert_eq!(plan(None, false), Plan { part: small, at_once: 1, bytes: 2 * small });
        assert_eq!(
            plan(Some(OBJECT_BYTES_MAX), true),
            Plan { part: large, at_once: 2, bytes: UPLOADS_BYTES }
        );
        for size in [0, 1, 52_428_800_000, 52_428_800_001, OBJECT_BYTES_MAX - 1] {
            let Plan { part, bytes, .. } = plan(Some(size), true);
            assert!(part as u64 * PARTS_MAX >= size && bytes <= UPLOADS_BYTES, "{size}");
        }
        let whole = |size| super::plan(size, WHOLE_BYTES_MAX, true).bytes as u64;
        assert_eq!((whole(Some(7)), whole(None)), (7, WHOLE_BYTES_MAX));
    }
}
