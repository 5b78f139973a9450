//! Reads an object: as one stream if there is memory for its blocks, else in small ranges.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};

use bytes::Bytes;
use futures_util::TryStreamExt;
use opendal::FuturesBytesStream;

use super::super::fs::{Error, Kind, Metadata, Permit, Pieces, Why};
use super::{Bucket, failed};

/// The memory of a stream, in bytes: what the HTTP client reads ahead.
const STREAM_BYTES: usize = 512 << 10;

/// Reads one object from an offset on. An object that is replaced meanwhile ends the reading with an error.
pub struct Reader {
    metadata: Metadata,
    path: PathBuf,
    reader: opendal::Reader,
    pieces: Pieces,
    /// The offset of the next bytes of the store.
    next: u64,
    stream: Option<(FuturesBytesStream, Permit)>,
    /// Bytes that were read.
    ready: VecDeque<Bytes>,
}

impl std::fmt::Debug for Reader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("path", &self.path).field("next", &self.next).finish_non_exhaustive()
    }
}

const READ: &str = "read";

impl Bucket {
    /// Opens a file to read it from `offset` on.
    ///
    /// # Errors
    ///
    /// It does not exist, is a folder, or ends before `offset` ([`Why::PastEnd`]).
    ///
    /// # Cancel safety
    ///
    /// Safe: nothing is changed.
    pub async fn reader(&self, pieces: Pieces, path: &Path, offset: u64) -> Result<Reader, Error> {
        let key = self.key(READ, path)?;
        let found = match self.operator.stat(&key).await {
            Ok(found) if found.is_file() => found,
            // Says whether it is a folder.
            _ => match self.metadata(path).await?.kind {
                Kind::File => return Err(Error::new(READ, path, Why::Busy)),
                _ => return Err(Error::new(READ, path, Why::IsAFolder)),
            },
        };
        let metadata = super::file(&found);
        if offset > metadata.size {
            return Err(Error::new(READ, path, Why::PastEnd { size: metadata.size }));
        }
        let mut opening = self.operator.reader_with(&key);
        if let Some(tag) = found.etag().filter(|_| self.operator.info().capability().read_with_if_match) {
            opening = opening.if_match(tag);
        }
        let reader = opening.await.map_err(|error| failed(READ, path, &error))?;
        let (path, ready) = (path.to_owned(), VecDeque::new());
        Ok(Reader { metadata, path, reader, pieces, next: offset, stream: None, ready })
    }
}

impl Reader {
    /// The metadata of the object when it was opened.
    pub fn metadata(&self) -> &Metadata {
        &self.metadata
    }

    /// Whether everything was returned.
    pub fn is_at_end(&self) -> bool {
        self.next == self.metadata.size && self.ready.is_empty()
    }

    /// Returns the next bytes, at least one, or `None` at the end.
    ///
    /// # Errors
    ///
    /// The object was removed or replaced ([`Why::Busy`]), or the store does not answer.
    ///
    /// # Cancel safety
    ///
    /// Not safe: bytes may be lost.
    pub async fn next_block(&mut self) -> Result<Option<Bytes>, Error> {
        if self.ready.is_empty() && self.next < self.metadata.size {
            let read = self.read_more().await?;
            if read.is_empty() || read.len() as u64 > self.metadata.size - self.next {
                let (expected, found) = (self.metadata.size, self.next + read.len() as u64);
                return Err(Error::new(READ, &self.path, Why::WrongLength { expected, found }));
            }
            self.next += read.len() as u64;
            // Copies: a piece that waits to be sent keeps no other piece in memory.
            self.ready.extend(read.chunks(self.pieces.bytes).map(Bytes::copy_from_slice));
            if self.next == self.metadata.size {
                self.stream = None;
            }
        }
        Ok(self.ready.pop_front())
    }

    /// Reads the next bytes of the store; none if the object is too short.
    async fn read_more(&mut self) -> Result<Bytes, Error> {
        let (next, end) = (self.next, self.metadata.size);
        let failed = |error: opendal::Error| failed(READ, &self.path, &error);
        if self.stream.is_none() {
            let permit = self.pieces.blocks.take_some(STREAM_BYTES);
            if permit.bytes() < STREAM_BYTES.min(usize::try_from(end - next).unwrap_or(usize::MAX)) {
                let until = end.min(next + permit.bytes() as u64);
                return Ok(self.reader.read(next..until).await.map_err(failed)?.to_bytes());
            }
            let stream = self.reader.clone().into_bytes_stream(next..end).await.map_err(failed)?;
            self.stream = Some((stream, permit));
        }
        let Some((stream, _)) = &mut self.stream else { return Ok(Bytes::new()) };
        loop {
            match stream.try_next().await {
                Ok(Some(bytes)) if bytes.is_empty() => {}
                Ok(bytes) => return Ok(bytes.unwrap_or_default()),
                Err(error) => {
                    return Err(Error::new(READ, &self.path, Why::Io(error.to_string().replace('\n', " "))));
                }
            }
        }
    }
}
