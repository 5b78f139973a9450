//! Destination of an upload: a file that appears under its name when it is complete.

use std::path::Path;
use std::time::Duration;

use braidftp_ftp::command::Type;
use braidftp_ftp::server::{Failure, Outcome, Sink, Write};
use braidftp_ftp::store::StoreError;
use braidftp_ftp::{SafeName, SafePath};
use bytes::Bytes;
use tokio::sync::oneshot;

use super::body::Lf;
use super::store::{Store, failure, native, system_time};
use crate::store::Writer;
use crate::store::bucket::Charge;
use crate::store::fs::{self, Commit, Durability, Keep, Start, Why};
use crate::user_limits::{OverQuota, Right, Unwritten};

/// The number of attempts to find a name for STOU.
const UNIQUE_TRIES: u32 = 100;

/// An upload in progress.
#[derive(Debug)]
pub(super) struct Intake {
    /// The destination, for the audit log.
    path: SafePath,
    writer: Writer,
    /// Whether the file was opened before all of it had arrived.
    is_open: bool,
    text: Option<Lf>,
    /// The name chosen for STOU.
    pub name: Option<SafePath>,
    /// The number of bytes received on the data path.
    pub bytes: u64,
    /// The number of bytes of the file that existed before.
    offset: u64,
    /// The size of the whole file, if the client announced it.
    pub announced_size: Option<u64>,
    /// Limits of the user, the location of the user's files, and the transfer that counts the bytes.
    store: Store,
    /// What of the quota it has, in a bucket.
    charge: Option<Box<Charge>>,
    /// What a count of the home may lack.
    unwritten: Unwritten,
}

/// What is known of an upload after its last byte.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ending {
    /// The modification time, if the sender sent one.
    pub modified: Option<braidftp_ftp::stamp::Timestamp>,
    /// What must be on the disk before the reply.
    pub durability: Durability,
}

impl Intake {
    /// Prepares the upload. Disk errors are reported by [`Intake::open`], or at the end.
    pub(super) async fn new(store: &Store, sink: &Sink) -> Result<Self, Failure> {
        let prepared = Self::prepare(store, sink).await;
        if let Err(failure) = &prepared {
            store.subject.uploaded(&sink.path, 0, Some(failure));
        }
        prepared
    }

    async fn prepare(store: &Store, sink: &Sink) -> Result<Self, Failure> {
        store.may(Right::Write)?;
        let (path, name) = match sink.write {
            Write::Unique => {
                let made_up = unique(store, &sink.path).await?;
                (native(&made_up)?, Some(made_up))
            }
            Write::Replace | Write::From(_) | Write::Append => (native(&sink.path)?, None),
        };
        let more = Self::hint(sink).unwrap_or(0).saturating_sub(sink.write.offset());
        over_quota(store.share.begin(&store.root, more).await)?;
        Ok(Self::of(store, sink, &path, name))
    }

    /// The same, for an upload that needs nothing from the disk before it is opened; `None` for others.
    pub(super) fn at_once(store: &Store, sink: &Sink) -> Option<Result<Self, Failure>> {
        if sink.write != Write::Replace || store.share.limits().quota.is_some() {
            return None;
        }
        let prepared = store.may(Right::Write).and_then(|()| native(&sink.path));
        let prepared = prepared.map(|path| Self::of(store, sink, &path, None));
        if let Err(failure) = &prepared {
            store.subject.uploaded(&sink.path, 0, Some(failure));
        }
        Some(prepared)
    }

    /// The size of the whole file, if the client announced it.
    fn hint(sink: &Sink) -> Option<u64> {
        sink.length.map(|length| length.saturating_add(sink.write.offset())).or(sink.announced_size)
    }

    fn of(store: &Store, sink: &Sink, path: &Path, name: Option<SafePath>) -> Self {
        let start = match sink.write {
            Write::Replace | Write::Unique => Start::New,
            Write::From(offset) => Start::At(offset),
            Write::Append => Start::Append,
        };
        let writer = store.root.writer(path, start, Self::hint(sink));
        let writer = writer.owned_by(store.login.claimant(), &store.blocks, &store.allowance);
        Self {
            path: name.clone().unwrap_or_else(|| sink.path.clone()),
            writer,
            is_open: false,
            text: (sink.representation == Type::Ascii).then(Lf::default),
            name,
            bytes: 0,
            offset: sink.write.offset(),
            announced_size: sink.announced_size,
            store: store.clone(),
            charge: store.share.charged(&store.root).map(Box::new),
            unwritten: store.share.upload(),
        }
    }

    /// The current size of the whole file, as counted in type I.
    pub(super) fn size(&self) -> u64 {
        self.offset.saturating_add(self.bytes)
    }

    /// Sets what is known before the first byte: the size of the whole file in the sender's header, and its modification time.
    pub(super) fn expect(&mut self, size: Option<u64>, modified: Option<braidftp_ftp::stamp::Timestamp>) {
        let bytes = size.filter(|_| self.text.is_none()).map(|size| size.saturating_sub(self.offset));
        self.writer.expect(bytes, modified.map(system_time));
    }

    /// Opens the file on the disk now; it may be open already.
    pub(super) async fn open(&mut self) -> Result<(), Failure> {
        let opened = self.writer.open().await.map_err(|e| failure(&e));
        if let Err(failure) = &opened {
            self.store.subject.uploaded(&self.path, 0, Some(failure));
        }
        self.is_open = opened.is_ok();
        opened
    }

    /// Processes bytes of the data path.
    ///
    /// # Cancel safety
    ///
    /// Safe in a folder if the user has no quota: the bytes are accepted at the first poll. Otherwise bytes may be
    /// lost.
    pub(super) async fn write(&mut self, bytes: Bytes) -> Result<(), Failure> {
        let length = bytes.len();
        let (charge, upload) = (self.charge.as_deref_mut(), &mut self.unwritten);
        over_quota(self.store.share.charge(&self.store.root, charge, upload, length as u64).await)?;
        self.bytes += length as u64;
        if let Some(transfer) = &self.store.transfer {
            transfer.passed(length);
        }
        let bytes = match &mut self.text {
            Some(lf) => lf.decode(&bytes),
            None => bytes,
        };
        self.writer.write(bytes).await.map_err(|e| failure(&e))?;
        self.store.share.pass(length).await;
        Ok(())
    }

    /// Renames the file to its final name.
    pub(super) async fn finish(self, ending: Ending) -> Result<Outcome, Failure> {
        let (tell, told) = oneshot::channel();
        self.finish_then(ending, move |outcome| {
            // The receiver may be gone.
            let _ = tell.send(outcome);
        })
        .await;
        told.await.unwrap_or(Err(Failure::Store(StoreError::Io)))
    }

    /// The same; `then` is called with the result, on a thread that may block. For a small file this returns
    /// earlier.
    pub(super) async fn finish_then(
        self,
        ending: Ending,
        then: impl FnOnce(Result<Outcome, Failure>) + Send + 'static,
    ) {
        let Self { store, path, mut writer, text, name, bytes, mut charge, mut unwritten, .. } = self;
        let mut fits = Ok(());
        if let Some(charge) = &mut charge {
            // It may have taken longer than its part of the quota was reserved.
            fits = over_quota(store.share.charge(&store.root, Some(charge), &mut unwritten, 0).await);
            if fits.is_ok() {
                charge.keep();
            }
        }
        let then = move |put: Result<(), Failure>| {
            drop((charge, unwritten));
            store.subject.uploaded(&path, bytes, put.as_ref().err());
            then(put.map(|()| Outcome::Received { bytes, name }));
        };
        if let Err(failure) = fits {
            return then(Err(failure));
        }
        if let Some(lf) = text
            && let Err(error) = writer.write(lf.finish()).await
        {
            return then(Err(failure(&error)));
        }
        let modified = ending.modified.map(system_time);
        let commit = Commit { modified, durability: ending.durability, ..Commit::default() };
        writer.commit_then(commit, move |put| then(put.map_err(|e| failure(&e)))).await;
    }

    /// Whether [`Intake::finish_then`] returns without waiting for the disk.
    pub(super) fn is_small(&self) -> bool {
        self.writer.is_small()
    }

    /// Aborts the upload. The data of an interrupted upload is kept for resuming, if its file was opened; wrong data is not. A file
    /// that was not opened could not be taken over by a newer session, which may have finished it.
    pub(super) async fn give_up(self, why: Failure) {
        self.store.subject.uploaded(&self.path, self.bytes, Some(&why));
        let keep = match why {
            Failure::Damaged | Failure::Store(_) => Keep::Nothing,
            _ if self.is_open => Keep::ForResume,
            _ => Keep::Nothing,
        };
        // With a time limit: a hanging disk must not keep the session from ending.
        let _ = tokio::time::timeout(Duration::from_secs(10), self.writer.abandon(keep)).await;
    }
}

/// The error for an exhausted quota.
fn over_quota(fits: Result<Result<(), OverQuota>, fs::Error>) -> Result<(), Failure> {
    fits.map_err(|e| failure(&e))?.map_err(|OverQuota| Failure::Store(StoreError::Quota))
}

/// A name that does not exist in the folder.
async fn unique(store: &Store, folder: &SafePath) -> Result<SafePath, Failure> {
    for _ in 0..UNIQUE_TRIES {
        let name = format!("upload-{:08x}", super::random() as u32);
        let Ok(name) = SafeName::new(name) else { break };
        let path = folder.join(&name).map_err(|_| Failure::Store(StoreError::BadName))?;
        let place = native(&path)?;
        match store.root.link_metadata(&place).await {
            Err(e) if e.why == Why::NotFound => return Ok(path),
            Err(e) => return Err(failure(&e)),
            Ok(_) => {}
        }
    }
    Err(Failure::Store(StoreError::Busy))
}
