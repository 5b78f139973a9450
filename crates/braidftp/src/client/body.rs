//! The local end of a transfer: a [`Sink`] for received bytes, a [`Source`] for bytes to send.
//!
//! Data tasks borrow a body, transfer bytes, and return it. The job decides what happens to a complete or
//! incomplete file.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use braidftp_ftp::mapping::frame::{Digest, Header, truncated};
use braidftp_ftp::stamp::Timestamp;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, oneshot, watch};
use tokio::time::Instant;

use super::bounds::Bounds;
use crate::exit::{Error, Exit, Result};
use crate::limiter::Limiter;
use crate::progress::{Meter, Reporter};
use crate::store::fs::{self, Root};

/// The maximum number of bytes of one listing that wait to be read by the job. It is large, so that a job
/// that waits for files on the same stream does not block them by an unread listing.
pub const LISTING_QUEUE_BYTES: usize = 16 << 20;
/// The same for a listing that was requested ahead of its use.
pub const LISTING_AHEAD_BYTES: usize = 1 << 20;

/// What a data task needs besides its body.
#[derive(Debug, Clone)]
pub(crate) struct Pump {
    /// Records activity of the other side.
    pub(crate) activity: Arc<Activity>,
    /// `--limit`.
    pub(crate) limiter: Option<Arc<Limiter>>,
    /// Becomes true when all data tasks must return their bodies.
    pub(crate) stop: watch::Receiver<bool>,
}

/// When the other side last showed activity, and whether this side is the one that is busy.
#[derive(Debug)]
pub(crate) struct Activity {
    origin: Instant,
    last_ms: AtomicU64,
    local: AtomicUsize,
    /// Bytes that the other side must read before it can answer.
    to_be_read: AtomicU64,
}

/// The assumed minimum rate at which a server reads a file to compute its digest, in bytes per second.
const READ_A_SECOND: u64 = 10 << 20;

impl Activity {
    pub(crate) fn new() -> Self {
        let (last_ms, local, to_be_read) = Default::default();
        Self { origin: Instant::now(), last_ms, local, to_be_read }
    }

    /// Records that something was received, or was accepted by the other side.
    pub(crate) fn heard(&self) {
        self.last_ms.store(self.origin.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// How long nothing was received; zero while this side is the one that is busy.
    pub(crate) fn silent_for(&self) -> Duration {
        if self.is_busy_here() {
            self.heard();
        }
        self.origin.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }

    /// The additional silence permitted to the other side while it reads files for digests.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.to_be_read.load(Ordering::Relaxed) / READ_A_SECOND)
    }

    /// Whether a data task waits for the local disk, or for `--limit`.
    pub(crate) fn is_busy_here(&self) -> bool {
        self.local.load(Ordering::Relaxed) > 0
    }

    fn busy(&self) -> Busy<'_> {
        self.local.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }
}

/// While this value exists, the other side may be silent for the time that reading this many bytes takes.
#[derive(Debug)]
pub(crate) struct Patience {
    activity: Arc<Activity>,
    bytes: u64,
}

impl Patience {
    pub(crate) fn new(activity: Arc<Activity>, bytes: u64) -> Self {
        activity.to_be_read.fetch_add(bytes, Ordering::Relaxed);
        Self { activity, bytes }
    }
}

impl Drop for Patience {
    fn drop(&mut self) {
        self.activity.to_be_read.fetch_sub(self.bytes, Ordering::Relaxed);
    }
}

struct Busy<'a>(&'a Activity);

impl Drop for Busy<'_> {
    fn drop(&mut self) {
        self.0.local.fetch_sub(1, Ordering::Relaxed);
        self.0.heard();
    }
}

/// How the data transfer of a transfer ended.
#[derive(Debug, Default)]
pub struct DataEnd {
    /// The number of bytes transferred.
    pub bytes: u64,
    /// braid: the received header.
    pub header: Option<Header>,
    /// braid: the digest of everything that the server sent.
    pub digest: Option<Digest>,
    /// The local error, if any.
    pub error: Option<Error>,
}

/// One end of a transfer.
#[allow(clippy::large_enum_variant, reason = "there is one for each transfer, and it moves a few times")]
#[derive(Debug)]
pub enum Body {
    /// Receives bytes.
    Sink(Sink),
    /// Provides bytes.
    Source(Box<Source>),
}

/// The destination of the bytes of a download.
#[derive(Debug)]
pub enum Sink {
    /// A file.
    File(Box<FileSink>),
    /// A reader within this program: a listing, standard output.
    Queue(QueueSink),
    /// A file that the listing of its tree will name.
    Unnamed(oneshot::Receiver<Box<FileSink>>),
}

/// Names the file of a [`Sink::Unnamed`]. If it is dropped, the file is not wanted.
#[derive(Debug)]
pub struct Name(oneshot::Sender<Box<FileSink>>);

impl Name {
    /// The bytes go to this file.
    pub(crate) fn is(self, file: Box<FileSink>) {
        // The transfer may have ended: its body is lost with the session.
        let _ = self.0.send(file);
    }
}

/// A file that is written.
#[derive(Debug)]
pub struct FileSink {
    /// Writes the bytes.
    pub writer: fs::Writer,
    /// The name of the file in reports.
    pub name: Vec<u8>,
    /// The offset of the first byte.
    pub offset: u64,
    /// The size in the listing.
    pub size: Option<u64>,
    /// The modification time in the listing.
    pub modified: Option<Timestamp>,
    /// The size that the server reports, if it was requested together with the file.
    pub announced_size: Option<Arc<OnceLock<u64>>>,
    bounds: Bounds,
    /// The number of bytes received.
    taken: u64,
    /// Whether the server exceeded a limit.
    over: bool,
    reporter: Reporter,
    meter: Option<Meter>,
}

/// Passes bytes to a reader, in order.
#[derive(Debug)]
pub struct QueueSink {
    to: mpsc::UnboundedSender<Bytes>,
    /// The number of bytes that may still arrive, and the error beyond them.
    left: u64,
    beyond: Box<Error>,
    over: bool,
    room: Arc<Semaphore>,
    hasher: Box<blake3::Hasher>,
}

/// The reading end of a [`QueueSink`].
#[derive(Debug)]
pub struct Queue {
    from: mpsc::UnboundedReceiver<Bytes>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// Returns the next bytes; `None` after the last, or when the transfer was cancelled.
    ///
    /// # Cancel safety
    ///
    /// No bytes are lost.
    pub async fn next(&mut self) -> Option<Bytes> {
        let bytes = self.from.recv().await?;
        self.room.add_permits(permits(&bytes));
        Some(bytes)
    }
}

/// The number of permits that bytes take from a queue: at most as many as the smallest queue has, since they
/// would otherwise wait for ever.
fn permits(bytes: &Bytes) -> usize {
    bytes.len().min(LISTING_AHEAD_BYTES)
}

impl FileSink {
    /// Creates a sink that writes with `writer` and is reported as `name`.
    pub fn new(writer: fs::Writer, name: Vec<u8>, bounds: Bounds, reporter: Reporter) -> Self {
        let (offset, size, modified) = (0, None, None);
        Self {
            writer,
            name,
            offset,
            size,
            modified,
            announced_size: None,
            bounds,
            taken: 0,
            over: false,
            reporter,
            meter: None,
        }
    }

    /// What is done with it, for errors.
    pub(crate) fn what(&self) -> String {
        format!("fetch {}", crate::exit::escape(&self.name))
    }

    /// Whether the server exceeded a limit.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }

    /// The size, as the listing, the header or the server's reply has told it.
    fn told_size(&self) -> Option<u64> {
        self.size.or_else(|| self.announced_size.as_ref()?.get().copied())
    }
}

impl Sink {
    /// Creates a sink and the queue from which its bytes are read. At most `most` bytes are accepted; beyond
    /// that the error is `beyond`. When more than `waiting` bytes wait in the queue, at least
    /// [`LISTING_AHEAD_BYTES`], the data path is not read.
    pub fn queue(most: u64, beyond: Error, waiting: usize) -> (Self, Queue) {
        let (to, from) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(waiting.max(LISTING_AHEAD_BYTES)));
        let beyond = Box::new(beyond);
        let sink =
            QueueSink { to, left: most, beyond, over: false, room: room.clone(), hasher: Box::default() };
        (Self::Queue(sink), Queue { from, room })
    }

    /// Creates a sink for a file that is named later.
    pub(crate) fn unnamed() -> (Self, Name) {
        let (name, named) = oneshot::channel();
        (Self::Unnamed(named), Name(name))
    }

    /// Whether it is for a file without a name.
    pub(crate) fn is_unnamed(&self) -> bool {
        matches!(self, Self::Unnamed(_))
    }

    /// The same sink, or the file if it was named meanwhile.
    pub(crate) fn named(self) -> Self {
        match self {
            Self::Unnamed(mut named) => match named.try_recv() {
                Ok(file) => Self::File(file),
                Err(_) => Self::Unnamed(named),
            },
            sink => sink,
        }
    }

    /// braid: processes the header, before any content. Waits for the name of the file.
    ///
    /// # Errors
    ///
    /// The file is not permitted, or not wanted: then the sink remains unnamed.
    ///
    /// # Cancel safety
    ///
    /// Safe: the sink remains as it is.
    pub(crate) async fn begin(&mut self, header: &Header) -> Result<()> {
        if let Self::Unnamed(named) = self {
            let Ok(file) = named.await else {
                return Err(Error::new(Exit::Interrupted, "fetch the file", "it is not needed"));
            };
            *self = Self::File(file);
        }
        let Self::File(file) = self else { return Ok(()) };
        if header.offset != file.offset {
            return Err(Error::new(
                Exit::Protocol,
                file.what(),
                format_args!("asked from byte {}, the server sends from byte {}", file.offset, header.offset),
            ));
        }
        if file.offset > 0 && header.modified.is_some() && !same_time(header.modified, file.modified) {
            return Err(changed(&file.what()));
        }
        if file.offset > 0 && header.size.is_some() && header.size != file.size {
            return Err(changed(&file.what()));
        }
        // The header is more recent than the listing.
        file.size = header.size.or(file.size);
        file.modified = header.modified.or(file.modified);
        if let Some(size) = header.size {
            if let Err(error) = file.bounds.check_size(|| file.what(), size) {
                file.over = true;
                return Err(error);
            }
            file.writer.expect(size);
        }
        Ok(())
    }

    /// Writes the next bytes, when `--limit` and the disk permit.
    pub(crate) async fn write(&mut self, pump: &Pump, bytes: Bytes) -> Result<()> {
        pump.activity.heard();
        match self {
            Self::File(file) => {
                if let Some(limiter) = &pump.limiter {
                    let _busy = pump.activity.busy();
                    limiter.pass(bytes.len()).await;
                }
                let length = bytes.len() as u64;
                file.taken += length;
                let told = file.told_size();
                if file.offset.saturating_add(file.taken) > file.bounds.most(told) {
                    file.over = true;
                    return Err(file.bounds.beyond(&file.what(), told));
                }
                {
                    let _busy = pump.activity.busy();
                    file.writer.write(bytes).await.map_err(|error| Error::store(&error))?;
                }
                let size = file.told_size();
                if file.meter.is_none() && size == Some(file.taken) && file.offset == 0 {
                    // It has arrived whole, and was never in progress.
                    file.reporter.passed(length);
                } else {
                    let meter = file.meter.get_or_insert_with(|| file.reporter.file(&file.name, size));
                    meter.add(length);
                }
            }
            Self::Queue(queue) => {
                let Some(left) = queue.left.checked_sub(bytes.len() as u64) else {
                    queue.over = true;
                    return Err(Error::clone(&queue.beyond));
                };
                queue.left = left;
                queue.hasher.update(&bytes);
                let _busy = pump.activity.busy();
                if let Ok(permit) = queue.room.acquire_many(permits(&bytes) as u32).await {
                    permit.forget();
                }
                // The reader is gone, so the bytes are not needed.
                let _ = queue.to.send(bytes);
            }
            // Content follows the header, which waits for the name.
            Self::Unnamed(_) => {}
        }
        Ok(())
    }

    /// Whether all bytes of a file of known size were received.
    pub(crate) fn has_all(&self) -> bool {
        match self {
            Self::File(file) => file.told_size() == Some(file.offset.saturating_add(file.taken)),
            Self::Queue(_) | Self::Unnamed(_) => false,
        }
    }

    /// Whether the server exceeded a limit.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::File(file) => file.is_over(),
            Self::Queue(queue) => queue.over,
            Self::Unnamed(_) => false,
        }
    }

    /// braid: compares the digest of the bytes of a queue. Files compare theirs when they are committed.
    pub(crate) fn check(&self, digest: &Digest) -> Result<()> {
        match self {
            Self::Queue(queue) if truncated(queue.hasher.finalize().as_bytes()) != *digest => {
                Err(Error::new(
                    Exit::Verify,
                    "read the listing",
                    "the digest of the received data differs from that of the sent data",
                ))
            }
            _ => Ok(()),
        }
    }
}

fn changed(what: &str) -> Error {
    Error::new(Exit::Verify, what, "the file has changed on the server since its beginning was fetched")
        .hint("run the same command again: the file is transferred from its beginning")
}

/// Whether two times are equal as far as both are known; to the second, if one of them has no fraction.
pub fn same_time(a: Option<Timestamp>, b: Option<Timestamp>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.seconds == b.seconds && (a.nanos == b.nanos || a.nanos == 0 || b.nanos == 0),
        _ => false,
    }
}

/// Converts a time from FTP's form to the system's.
pub fn system_time(stamp: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(stamp.seconds.unsigned_abs());
    let whole = match stamp.seconds >= 0 {
        true => SystemTime::UNIX_EPOCH.checked_add(seconds),
        false => SystemTime::UNIX_EPOCH.checked_sub(seconds),
    };
    whole.unwrap_or(SystemTime::UNIX_EPOCH) + Duration::from_nanos(u64::from(stamp.nanos))
}

/// Converts a time from the system's form to FTP's.
pub fn timestamp(time: SystemTime) -> Timestamp {
    match time.duration_since(SystemTime::UNIX_EPOCH) {
        Ok(after) => Timestamp { seconds: after.as_secs() as i64, nanos: after.subsec_nanos() },
        Err(before) => {
            let before = before.duration();
            match before.subsec_nanos() {
                0 => Timestamp { seconds: -(before.as_secs() as i64), nanos: 0 },
                nanos => Timestamp { seconds: -(before.as_secs() as i64) - 1, nanos: 1_000_000_000 - nanos },
            }
        }
    }
}

/// Provides the bytes of an upload: one file, opened when its transfer begins.
#[derive(Debug)]
pub struct Source {
    root: Root,
    path: PathBuf,
    name: Vec<u8>,
    offset: u64,
    reader: Option<fs::Reader>,
    reporter: Reporter,
    meter: Option<Meter>,
}

impl Source {
    /// The file `path` of `root`, from `offset` on, reported as `name`.
    pub fn new(root: Root, path: PathBuf, name: Vec<u8>, offset: u64, reporter: Reporter) -> Self {
        Self { root, path, name, offset, reader: None, reporter, meter: None }
    }

    /// The offset of the first byte.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Opens the file, and returns its current metadata.
    pub(crate) async fn open(&mut self) -> Result<fs::Metadata> {
        let reader = self
            .root
            .reader(&self.path, self.offset, fs::Digest::None)
            .await
            .map_err(|e| Error::store(&e))?;
        let metadata = reader.metadata().clone();
        self.meter = Some(self.reporter.file(&self.name, Some(metadata.size)));
        self.reader = Some(reader);
        Ok(metadata)
    }

    /// Returns the next bytes; `None` after the last.
    pub(crate) async fn next(&mut self, pump: &Pump) -> Result<Option<Bytes>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let _busy = pump.activity.busy();
        let block = reader.next_block().await.map_err(|error| Error::store(&error))?;
        if let (Some(block), Some(limiter)) = (&block, &pump.limiter) {
            limiter.pass(block.len()).await;
        }
        Ok(block)
    }

    /// Whether the last bytes were returned.
    pub(crate) fn is_at_end(&self) -> bool {
        self.reader.as_ref().is_none_or(fs::Reader::is_at_end)
    }

    /// Records that bytes were passed to the transport.
    pub(crate) fn sent(&self, pump: &Pump, bytes: u64) {
        pump.activity.heard();
        if let Some(meter) = &self.meter {
            meter.add(bytes);
        }
    }

    /// What was read, after the last byte.
    pub(crate) fn summary(&self) -> Option<fs::Summary> {
        self.reader.as_ref().and_then(fs::Reader::summary)
    }

    /// Ends the upload, and removes its progress bar.
    pub(crate) fn close(&mut self) {
        self.reader = None;
        self.meter = None;
    }
}

impl Error {
    /// Converts an error of a local file.
    pub fn store(error: &fs::Error) -> Self {
        use fs::Why;
        let exit = match &error.why {
            Why::WrongDigest | Why::WrongLength { .. } => Exit::Verify,
            Why::BadName(_) | Why::OutsideRoot => Exit::Protocol,
            _ => Exit::Local,
        };
        let what = match error.path.as_os_str().is_empty() {
            true => error.what.to_owned(),
            false => format!("{} {}", error.what, fs::escaped(&error.path)),
        };
        let hint = match &error.why {
            Why::NoSpace => Some("free some space, then run the same command again to resume"),
            Why::Denied | Why::ReadOnly => Some("check the permissions of the file and of its folder"),
            Why::Busy => Some("wait until the other program that fetches the same file is done"),
            Why::WrongDigest => Some("run the same command again: the file is fetched from its beginning"),
            _ => None,
        };
        let error = Self::new(exit, what, &error.why);
        match hint {
            Some(hint) => error.hint(hint),
            None => error,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_unchanged_by_conversion_to_ftp_and_back() {
        for (seconds, nanos) in [(0, 0), (1_795_172_940, 250_000_000), (-1, 500_000_000), (-5, 0)] {
            let stamp = Timestamp { seconds, nanos };
            assert_eq!(timestamp(system_time(stamp)), stamp);
        }
    }

    #[test]
    fn a_time_without_a_fraction_is_compared_to_the_second() {
        let time = |seconds, nanos| Some(Timestamp { seconds, nanos });
        assert!(same_time(time(5, 0), time(5, 700)));
        assert!(same_time(time(5, 700), time(5, 700)));
        assert!(!same_time(time(5, 600), time(5, 700)));
        assert!(!same_time(time(5, 0), time(6, 0)));
        assert!(!same_time(None, None));
    }
}
