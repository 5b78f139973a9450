//! Reads a remote file piece by piece, over a separate session.
//!
//! Sequential reads use one transfer, of which at most a listing's queue is buffered. FTP cannot cancel a
//! transfer cheaply, so a jump opens another session, except for a jump ahead over fewer bytes than [`SKIP`].

use braidftp_ftp::store::{FileKind, Metadata};
use bytes::Bytes;

use super::{Job, named_path, stat};
use crate::client::{Client, LISTING_QUEUE_BYTES, Queue, Sink, UnderWay};
use crate::exit::{Error, Exit, Result, escape};

/// The maximum number of bytes that are skipped by reading and discarding.
const SKIP: u64 = 1 << 20;

/// A remote file.
#[derive(Debug)]
pub struct Reader {
    job: Job,
    metadata: Metadata,
    stream: Option<Stream>,
}

/// A transfer that is being read.
#[derive(Debug)]
struct Stream {
    client: Client,
    queue: Queue,
    under_way: UnderWay,
    /// The offset of the next byte.
    at: u64,
    /// Received bytes that were not requested yet.
    rest: Bytes,
}

impl Reader {
    /// Requests the metadata of the file of the job's URL.
    ///
    /// # Errors
    ///
    /// It does not exist, it is a folder, or the server cannot be reached.
    pub async fn open(job: Job) -> Result<Self> {
        let client = Client::connect(&job.url, job.login.clone(), job.options.clone()).await?;
        let metadata = stat(&client, &job.url.path).await;
        client.close().await;
        let metadata = metadata?;
        let what = format!("read {}", escape(&job.url.path));
        match metadata.kind {
            FileKind::Directory => Err(Error::new(Exit::NoSuchPath, what, "it is a folder")),
            _ => Ok(Self { job, metadata, stream: None }),
        }
    }

    /// The metadata reported by the server.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Reads `length` bytes from `offset` on; fewer at the end of the file. A lost connection is opened
    /// again.
    ///
    /// # Errors
    ///
    /// The server is no longer reachable, refuses, or the file has changed.
    pub async fn read(&mut self, offset: u64, length: usize) -> Result<Vec<u8>> {
        let length =
            length.min(usize::try_from(self.metadata.size.saturating_sub(offset)).unwrap_or(usize::MAX));
        let mut read = Vec::new();
        let mut attempts = 0;
        while read.len() < length {
            let before = read.len();
            match self.read_some(offset, length, &mut read).await {
                Ok(()) => break,
                Err(error) => {
                    self.close().await;
                    attempts = if read.len() > before { 1 } else { attempts + 1 };
                    if !error.is_transient() || attempts > self.job.retries {
                        return Err(error);
                    }
                }
            }
        }
        Ok(read)
    }

    async fn read_some(&mut self, offset: u64, length: usize, read: &mut Vec<u8>) -> Result<()> {
        let from = offset + read.len() as u64;
        let is_near = |stream: &Stream| (stream.at..=stream.at + SKIP).contains(&from);
        if !self.stream.as_ref().is_some_and(is_near) {
            self.close().await;
            self.stream = Some(self.begin(from).await?);
        }
        while read.len() < length {
            let Some(stream) = &mut self.stream else { return Ok(()) };
            if stream.rest.is_empty() {
                match stream.queue.next().await {
                    Some(bytes) => stream.rest = bytes,
                    None => return self.end(offset + length as u64).await,
                }
            }
            // Bytes before the requested ones are discarded.
            let ahead = (offset + read.len() as u64).saturating_sub(stream.at);
            let ahead = stream.rest.len().min(usize::try_from(ahead).unwrap_or(usize::MAX));
            drop(stream.rest.split_to(ahead));
            let take = stream.rest.len().min(length - read.len());
            read.extend_from_slice(&stream.rest.split_to(take));
            stream.at += (ahead + take) as u64;
        }
        Ok(())
    }

    /// Starts a transfer at an offset; the file must be unchanged.
    async fn begin(&self, offset: u64) -> Result<Stream> {
        let Job { url, login, options, .. } = &self.job;
        let client = Client::connect(url, login.clone(), options.clone()).await?;
        let now = stat(&client, &url.path).await?;
        let what = format!("read {}", escape(&url.path));
        if (now.size, now.modified) != (self.metadata.size, self.metadata.modified) {
            let why = "it has changed on the server since it was opened";
            return Err(Error::new(Exit::Verify, what, why).hint("open it again"));
        }
        let most = self.metadata.size.saturating_sub(offset);
        let beyond = Error::new(Exit::Protocol, what, format_args!("more than {most} bytes were received"));
        let (sink, queue) = Sink::queue(most, beyond, LISTING_QUEUE_BYTES);
        let under_way = client.retrieve(named_path(&url.path, b"")?, offset, sink).await?;
        Ok(Stream { client, queue, under_way, at: offset, rest: Bytes::new() })
    }

    /// Ends a transfer that should have reached this offset.
    async fn end(&mut self, wanted: u64) -> Result<()> {
        let Some(stream) = self.stream.take() else { return Ok(()) };
        let done = stream.under_way.done().await;
        stream.client.close().await;
        done.result?;
        if let Some(error) = done.data.error {
            return Err(error);
        }
        match stream.at >= wanted {
            true => Ok(()),
            false => Err(Error::new(
                Exit::Interrupted,
                format_args!("read {}", escape(&self.job.url.path)),
                format_args!("it ended at byte {} of {}", stream.at, self.metadata.size),
            )),
        }
    }

    /// Ends the open session, if any.
    pub async fn close(&mut self) {
        if let Some(stream) = self.stream.take() {
            let why = Error::new(Exit::Interrupted, "read on", "the reader was closed");
            stream.client.stop(why).await;
        }
    }
}
