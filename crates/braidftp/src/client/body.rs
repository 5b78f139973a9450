//! The local end of a transfer: a [`Sink`] for received bytes, a [`Source`] for bytes to send.
//!
//! Data tasks borrow them, pump bytes, and hand them back; what becomes of a file that is whole, or is not, is the
//! job's to say.

use std::path::PathBuf;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime};

use braidftp_ftp::mapping::frame::{Digest, Header, truncated};
use braidftp_ftp::stamp::Timestamp;
use bytes::Bytes;
use tokio::sync::{Semaphore, mpsc, watch};
use tokio::time::Instant;

use super::bounds::Bounds;
use crate::exit::{Error, Exit, Result};
use crate::limiter::Limiter;
use crate::progress::{Meter, Reporter};
use crate::store::fs::{self, Root};

/// Bytes of one listing that may wait to be read by the job. So much that the files behind it on the same stream are
/// not held up by a job that waits for them.
pub const LISTING_QUEUE_BYTES: usize = 16 << 20;
/// The same of a listing that was asked for before its turn.
pub const LISTING_AHEAD_BYTES: usize = 1 << 20;

/// What a data task needs beside its bytes.
#[derive(Debug, Clone)]
pub(crate) struct Pump {
    /// When somebody was last heard.
    pub(crate) activity: Arc<Activity>,
    /// `--limit`.
    pub(crate) limiter: Option<Arc<Limiter>>,
    /// Becomes true when all data tasks shall hand back what they have.
    pub(crate) stop: watch::Receiver<bool>,
}

/// When the other side last gave a sign of life, and whether this side is busy by itself.
#[derive(Debug)]
pub(crate) struct Activity {
    origin: Instant,
    last_ms: AtomicU64,
    local: AtomicUsize,
    /// Bytes that the other side has to read before it can answer.
    to_be_read: AtomicU64,
}

/// Bytes a second that a server is trusted to read of a file whose digest it tells.
const READ_A_SECOND: u64 = 10 << 20;

impl Activity {
    pub(crate) fn new() -> Self {
        let (last_ms, local, to_be_read) = Default::default();
        Self { origin: Instant::now(), last_ms, local, to_be_read }
    }

    /// Something came, or was taken by the other side.
    pub(crate) fn heard(&self) {
        self.last_ms.store(self.origin.elapsed().as_millis() as u64, Ordering::Relaxed);
    }

    /// How long nothing was heard; zero while this side is what everybody waits for.
    pub(crate) fn silent_for(&self) -> Duration {
        if self.is_busy_here() {
            self.heard();
        }
        self.origin.elapsed().saturating_sub(Duration::from_millis(self.last_ms.load(Ordering::Relaxed)))
    }

    /// How long the other side may be silent besides, while it reads what it was asked to.
    pub(crate) fn patience(&self) -> Duration {
        Duration::from_secs(self.to_be_read.load(Ordering::Relaxed) / READ_A_SECOND)
    }

    /// Whether a data task waits for this side's disk, or for `--limit`.
    pub(crate) fn is_busy_here(&self) -> bool {
        self.local.load(Ordering::Relaxed) > 0
    }

    fn busy(&self) -> Busy<'_> {
        self.local.fetch_add(1, Ordering::Relaxed);
        Busy(self)
    }
}

/// While it is held, the other side may be silent as long as it takes to read so many bytes.
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

/// How the data of a transfer ended.
#[derive(Debug, Default)]
pub struct DataEnd {
    /// Bytes moved.
    pub bytes: u64,
    /// braid: the header that came.
    pub header: Option<Header>,
    /// braid: the digest of all that the server sent.
    pub digest: Option<Digest>,
    /// What went wrong here.
    pub error: Option<Error>,
}

/// One end of a transfer.
#[allow(clippy::large_enum_variant, reason = "there is one for each transfer, and it moves a few times")]
#[derive(Debug)]
pub enum Body {
    /// Takes bytes.
    Sink(Sink),
    /// Gives bytes.
    Source(Box<Source>),
}

/// Takes the bytes of a download.
#[derive(Debug)]
pub enum Sink {
    /// A file.
    File(Box<FileSink>),
    /// Whoever reads the other end: a listing, standard output.
    Queue(QueueSink),
}

/// A file that is written.
#[derive(Debug)]
pub struct FileSink {
    /// Where the bytes go.
    pub writer: fs::Writer,
    /// What the file is called in reports.
    pub name: Vec<u8>,
    /// Where the first byte belongs.
    pub offset: u64,
    /// How long the listing said that it is.
    pub size: Option<u64>,
    /// When the listing said that it changed.
    pub modified: Option<Timestamp>,
    /// How long the server says that it is, where it was asked together with the file.
    pub announced_size: Arc<OnceLock<u64>>,
    bounds: Bounds,
    /// Bytes taken.
    taken: u64,
    /// Whether the server went beyond a bound.
    over: bool,
    reporter: Reporter,
    meter: Option<Meter>,
}

/// Bytes for whoever reads them, in order.
#[derive(Debug)]
pub struct QueueSink {
    to: mpsc::UnboundedSender<Bytes>,
    /// Bytes that may still come, and the error of one more.
    left: u64,
    beyond: Box<Error>,
    over: bool,
    room: Arc<Semaphore>,
    hasher: Box<blake3::Hasher>,
}

/// The end of a [`QueueSink`] where bytes come out.
#[derive(Debug)]
pub struct Queue {
    from: mpsc::UnboundedReceiver<Bytes>,
    room: Arc<Semaphore>,
}

impl Queue {
    /// The next bytes; `None` after the last, or when the transfer was given up.
    ///
    /// # Cancel safety
    /// No bytes are lost.
    pub async fn next(&mut self) -> Option<Bytes> {
        let bytes = self.from.recv().await?;
        self.room.add_permits(permits(&bytes));
        Some(bytes)
    }
}

/// What bytes take of a queue's room: no more than the smallest room has, or they would wait for ever.
fn permits(bytes: &Bytes) -> usize {
    bytes.len().min(LISTING_AHEAD_BYTES)
}

impl FileSink {
    /// A sink that writes by `writer` and reports as `name`.
    pub fn new(writer: fs::Writer, name: Vec<u8>, bounds: Bounds, reporter: Reporter) -> Self {
        let (offset, size, modified) = (0, None, None);
        let announced_size = Arc::default();
        Self {
            writer,
            name,
            offset,
            size,
            modified,
            announced_size,
            bounds,
            taken: 0,
            over: false,
            reporter,
            meter: None,
        }
    }

    fn what(&self) -> String {
        format!("fetch {}", crate::exit::escape(&self.name))
    }

    /// Whether the server went beyond a bound.
    pub(crate) fn is_over(&self) -> bool {
        self.over
    }
}

impl Sink {
    /// A sink and the queue that its bytes come out of, `most` of them; one more is the error `beyond`. So many as `waiting`, at
    /// least [`LISTING_AHEAD_BYTES`], wait in the queue before the data path is no longer read.
    pub fn queue(most: u64, beyond: Error, waiting: usize) -> (Self, Queue) {
        let (to, from) = mpsc::unbounded_channel();
        let room = Arc::new(Semaphore::new(waiting.max(LISTING_AHEAD_BYTES)));
        let beyond = Box::new(beyond);
        let sink =
            QueueSink { to, left: most, beyond, over: false, room: room.clone(), hasher: Box::default() };
        (Self::Queue(sink), Queue { from, room })
    }

    /// braid: what the header says, before any byte.
    pub(crate) fn begin(&mut self, header: &Header) -> Result<()> {
        let Self::File(file) = self else { return Ok(()) };
        let what = file.what();
        if header.offset != file.offset {
            return Err(Error::new(
                Exit::Protocol,
                what,
                format_args!("asked from byte {}, the server sends from byte {}", file.offset, header.offset),
            ));
        }
        if file.offset > 0 && header.modified.is_some() && !same_time(header.modified, file.modified) {
            return Err(changed(&what));
        }
        if file.offset > 0 && header.size.is_some() && header.size != file.size {
            return Err(changed(&what));
        }
        // The header knows better than a listing of a while ago.
        file.size = header.size.or(file.size);
        file.modified = header.modified.or(file.modified);
        if let Some(size) = header.size {
            if let Err(error) = file.bounds.check_size(&what, size) {
                file.over = true;
                return Err(error);
            }
            file.writer.expect(size);
        }
        Ok(())
    }

    /// Takes the next bytes, when `--limit` and the disk allow.
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
                let told = file.size.or_else(|| file.announced_size.get().copied());
                if file.offset.saturating_add(file.taken) > file.bounds.most(told) {
                    file.over = true;
                    return Err(file.bounds.beyond(&file.what(), told));
                }
                {
                    let _busy = pump.activity.busy();
                    file.writer.write(bytes).await.map_err(|error| Error::store(&error))?;
                }
                let size = file.size.or_else(|| file.announced_size.get().copied());
                let meter = file.meter.get_or_insert_with(|| file.reporter.file(&file.name, size));
                meter.add(length);
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
                // Nobody reads any more: the bytes are not wanted.
                let _ = queue.to.send(bytes);
            }
        }
        Ok(())
    }

    /// Whether it has all bytes of a file whose size is known.
    pub(crate) fn has_all(&self) -> bool {
        match self {
            Self::File(file) => {
                let told = file.size.or_else(|| file.announced_size.get().copied());
                told == Some(file.offset.saturating_add(file.taken))
            }
            Self::Queue(_) => false,
        }
    }

    /// Whether the server went beyond a bound.
    pub(crate) fn is_over(&self) -> bool {
        match self {
            Self::File(file) => file.is_over(),
            Self::Queue(queue) => queue.over,
        }
    }

    /// braid: compares the digest of what a queue was given; files compare theirs when they are finished.
    pub(crate) fn check(&self, digest: &Digest) -> Result<()> {
        match self {
            Self::Queue(queue) if truncated(queue.hasher.finalize().as_bytes()) != *digest => {
                Err(Error::new(
                    Exit::Verify,
                    "read the listing",
                    "what arrived has another digest than what was sent",
                ))
            }
            _ => Ok(()),
        }
    }
}

fn changed(what: &str) -> Error {
    Error::new(Exit::Verify, what, "the file has changed on the server since its beginning was fetched")
        .hint("the same command again: it starts the file anew")
}

/// Whether two times are the same, as far as both are known: to the second, if one has no fraction.
pub fn same_time(a: Option<Timestamp>, b: Option<Timestamp>) -> bool {
    match (a, b) {
        (Some(a), Some(b)) => a.seconds == b.seconds && (a.nanos == b.nanos || a.nanos == 0 || b.nanos == 0),
        _ => false,
    }
}

/// A moment, as the system has it.
pub fn system_time(stamp: Timestamp) -> SystemTime {
    let seconds = Duration::from_secs(stamp.seconds.unsigned_abs());
    let whole = match stamp.seconds >= 0 {
        true => SystemTime::UNIX_EPOCH.checked_add(seconds),
        false => SystemTime::UNIX_EPOCH.checked_sub(seconds),
    };
    whole.unwrap_or(SystemTime::UNIX_EPOCH) + Duration::from_nanos(u64::from(stamp.nanos))
}

/// A moment, as FTP has it.
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

/// Gives the bytes of an upload: one file, opened when its turn has come.
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
    /// The file `path` of `root`, from `offset` on; `name` is what it is called in reports.
    pub fn new(root: Root, path: PathBuf, name: Vec<u8>, offset: u64, reporter: Reporter) -> Self {
        Self { root, path, name, offset, reader: None, reporter, meter: None }
    }

    /// Where it begins.
    pub fn offset(&self) -> u64 {
        self.offset
    }

    /// Opens the file, and says what it is now.
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

    /// The next bytes; `None` after the last.
    pub(crate) async fn next(&mut self, pump: &Pump) -> Result<Option<Bytes>> {
        let Some(reader) = &mut self.reader else { return Ok(None) };
        let _busy = pump.activity.busy();
        let block = reader.next_block().await.map_err(|error| Error::store(&error))?;
        if let (Some(block), Some(limiter)) = (&block, &pump.limiter) {
            limiter.pass(block.len()).await;
        }
        Ok(block)
    }

    /// Whether the last bytes have been given out.
    pub(crate) fn is_at_end(&self) -> bool {
        self.reader.as_ref().is_none_or(fs::Reader::is_at_end)
    }

    /// `bytes` were handed to the transport.
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

    /// The upload is over: its bar goes.
    pub(crate) fn close(&mut self) {
        self.reader = None;
        self.meter = None;
    }
}

impl Error {
    /// A local file's error, in the store's words.
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
            Why::NoSpace => Some("free some space; the same command then goes on where it stopped"),
            Why::Denied | Why::ReadOnly => Some("check the permissions of the file and of its folder"),
            Why::Busy => Some("wait until the other program that fetches the same file is done"),
            Why::WrongDigest => Some("the same command again: the file is fetched anew"),
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
    fn times_survive_the_way_there_and_back() {
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
