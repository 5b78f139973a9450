//! Downloads: what exists locally, where to resume, and when a file is complete.
//!
//! A file is written under a temporary name, checked (its length; in braid also its digest), synced and
//! renamed. The data of an interrupted transfer is marked with the modification time of the source, and
//! resumed by a later transfer if the source still has the same time.

use std::collections::VecDeque;
use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use braidftp_ftp::client::Finished;
use braidftp_ftp::mapping::{FIRST_FILES, Mode, frame};
use braidftp_ftp::stamp::Timestamp;
use braidftp_ftp::store::FileKind;
use braidftp_ftp::{PathArg, SafePath};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::compare::Compare;
use super::digests::{Digests, Pair};
use super::facts::{Facts, Told, is_folder, of_file};
use super::tasks::Tasks;
use super::{Record, named_path};
use crate::client::{
    Body, Client, Completion, Done, FileSink, Lane, Name, Sink, UnderWay, same_time, system_time, timestamp,
};
use crate::exit::{Error, Exit, Result};
use crate::progress::Reporter;
use crate::report::Action;
use crate::store::fs::{self, Commit, Digest, Durability, Found, Holes, Keep, Kind, Root, Start, Why};

/// The number of files of a listing that are examined together.
pub(super) const LOOK_AHEAD: usize = 256;
/// The maximum number of files that are synced and renamed concurrently.
const FINISHING: usize = 16;
/// The maximum number of files in progress, from the command to the rename, by mode.
const fn most_under_way(mode: Mode) -> usize {
    match mode {
        // One on the wire, the next one requested, the others being written to the disk.
        Mode::Tcp | Mode::Naive | Mode::Ms => 64,
        Mode::MsCp => 2048,
        // A window of commands, and those that are written to the disk.
        Mode::Braid => 1536,
    }
}

/// A file to fetch.
#[derive(Debug, Clone)]
pub(crate) struct Fetch {
    /// The path on the server.
    pub(crate) remote: PathArg,
    /// The path below the local root.
    pub(crate) local: SafePath,
    /// The size in the listing; `None` without a listing.
    pub(crate) size: Option<u64>,
    /// The modification time in the listing.
    pub(crate) modified: Option<Timestamp>,
    /// The permission bits in the listing.
    pub(crate) unix_mode: Option<u32>,
    /// Which local file is treated as equal.
    pub(crate) compare: Compare,
}

/// Fetches files into a root, as many concurrently as the mode permits.
#[derive(Debug)]
pub(crate) struct Downloads {
    client: Client,
    shared: Arc<Shared>,
    under_way: Arc<Semaphore>,
    holes: Holes,
}

/// What all files of [`Downloads`] have in common.
#[derive(Debug)]
struct Shared {
    root: Root,
    reporter: Reporter,
    record: Record,
    finishing: Semaphore,
    tasks: Tasks,
    mode: Mode,
}

/// What is known of a file that is to be fetched, and what was requested.
#[derive(Debug, Default)]
struct Request {
    /// The facts that were requested together with the file.
    told: Option<Told>,
    /// What exists locally; `None`: not examined.
    have: Option<Have>,
    /// The transfer, if it was requested before the listing had named the file.
    ahead: Option<Ahead>,
}

/// A file of a tree that was requested before the listing has named it. If this is dropped, it is not wanted.
#[derive(Debug)]
pub(crate) struct Ahead {
    under_way: UnderWay,
    name: Name,
}

/// The sink of a file that was named, and that the server refused to send without its name.
fn refused_without_name(done: &mut Done) -> Option<Sink> {
    let is_refused = done.result.as_ref().is_err_and(|error| !error.is_transient());
    match done.body.take_if(|body| is_refused && matches!(body, Body::Sink(sink) if sink.is_unnamed())) {
        Some(Body::Sink(sink)) => Some(sink.named()).filter(|sink| !sink.is_unnamed()),
        _ => None,
    }
}

/// What exists locally of a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Have {
    /// The complete file.
    Whole,
    /// The complete file, with other permission bits.
    ButMode,
    /// The complete contents by digest, with another time or other permission bits.
    ButFacts,
    /// This many bytes, from an interrupted transfer of the same file.
    Part(u64),
    /// Nothing, or another file.
    Nothing,
}

impl Downloads {
    pub(crate) fn new(client: Client, root: Root, reporter: Reporter, record: Record) -> Self {
        let under_way = Arc::new(Semaphore::new(most_under_way(client.mode())));
        let (finishing, mode) = (Semaphore::new(FINISHING), client.mode());
        let tasks = Tasks::new(record.clone());
        let shared = Arc::new(Shared { root, reporter, record, finishing, tasks, mode });
        Self { client, shared, under_way, holes: Holes::default() }
    }

    /// Sets how long runs of zeros are written.
    #[must_use]
    pub(crate) fn holes(mut self, holes: Holes) -> Self {
        self.holes = holes;
        self
    }

    /// Begins to fetch a file, unless it is complete; returns when there is room for it.
    ///
    /// # Errors
    ///
    /// The session has ended, or an error that affects every file.
    pub(crate) async fn fetch(&mut self, file: Fetch) -> Result<()> {
        self.begin(file, Request::default()).await
    }

    /// Requests the first files of the tree whose listing was requested last, before it has named them: they come with the
    /// listing, a round trip earlier.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(crate) async fn request_first(&self) -> Result<VecDeque<Ahead>> {
        let mut first = VecDeque::with_capacity(FIRST_FILES);
        for _ in 0..FIRST_FILES {
            let (under_way, name) = self.client.retrieve_next().await?;
            first.push_back(Ahead { under_way, name });
        }
        Ok(first)
    }

    /// The same for a file that may have been requested, and of which it is known what exists; if so, it is not complete yet.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`].
    pub(crate) async fn fetch_rest(
        &mut self,
        file: Fetch,
        have: Option<Have>,
        ahead: Option<Ahead>,
    ) -> Result<()> {
        self.begin(file, Request { have, ahead, told: None }).await
    }

    /// What exists locally of many files; `None` for those that must be examined individually. With
    /// `digests`, contents are compared.
    ///
    /// # Errors
    ///
    /// The session has ended.
    pub(crate) async fn look_ahead(
        &self,
        files: Vec<(SafePath, Wanted)>,
        digests: Option<(&Digests, &[u8])>,
    ) -> Result<Vec<Option<Have>>> {
        if files.is_empty() {
            return Ok(Vec::new());
        }
        let paths = files.iter().map(|(path, wanted)| (PathBuf::from(as_path(path)), *wanted));
        let found = self.shared.root.look(paths.collect(), |file, wanted| wanted.is(file)).await;
        let Some((digests, base)) = digests else {
            let have = |(found, (_, wanted)): (Option<Found>, &(SafePath, Wanted))| {
                found.map(|found| wanted.of(&found))
            };
            return Ok(found.into_iter().zip(&files).map(have).collect());
        };
        let is_candidate = |found: &Option<Found>, wanted: &Wanted| {
            let file = found.as_ref().and_then(|found| found.file.as_ref());
            file.filter(|file| wanted.is(file)).is_some()
        };
        let mut pairs = Vec::new();
        for (found, (path, wanted)) in found.iter().zip(&files) {
            if is_candidate(found, wanted) {
                let size = wanted.facts.map_or(0, |(size, _)| size);
                let (remote, local) = (named_path(base, path.as_bytes())?, as_path(path).to_owned());
                pairs.push(Pair { remote, local, size });
            }
        }
        let mut same = digests.compare(pairs).await?.into_iter();
        let mut have = Vec::with_capacity(files.len());
        for (found, (path, wanted)) in found.into_iter().zip(&files) {
            let is_same = if is_candidate(&found, wanted) { same.next() } else { None };
            have.push(match (is_same, found) {
                (_, None) => None,
                (Some(Ok(true)), Some(found)) => Some(wanted.of_same(&found)),
                (Some(Ok(false)) | None, Some(found)) => {
                    Some(wanted.of(&Found { file: None, unfinished: found.unfinished }))
                }
                // It is fetched, which reports the error.
                (Some(Err(error)), Some(_)) => {
                    self.shared.reporter.warn(format_args!("{path} is fetched: {error}"));
                    Some(Have::Nothing)
                }
            });
        }
        Ok(have)
    }

    /// Begins to fetch files, whose local state is examined together.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`].
    pub(super) async fn fetch_all(&mut self, mut files: Vec<Fetch>) -> Result<()> {
        files.retain(|file| !self.shared.record.is_settled(file.local.as_bytes()));
        let wanted = files.iter().map(|file| (file.local.clone(), Wanted::of_file(file))).collect();
        let have = self.look_ahead(wanted, None).await?;
        for (file, have) in files.into_iter().zip(have) {
            self.fetch_rest(file, have, None).await?;
        }
        Ok(())
    }

    /// Begins to fetch a file of which nothing exists locally, and whose size and time are being requested.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`].
    pub(super) async fn fetch_and_ask(&mut self, file: Fetch, told: Told) -> Result<()> {
        if self.shared.record.is_settled(file.local.as_bytes()) {
            return Ok(());
        }
        self.begin(file, Request { told: Some(told), have: Some(Have::Nothing), ahead: None }).await
    }

    /// Of which of these files nothing exists locally.
    pub(super) async fn are_missing(&self, paths: impl Iterator<Item = &SafePath>) -> Vec<bool> {
        let paths = paths.map(|path| (PathBuf::from(as_path(path)), ())).collect();
        let found = self.shared.root.look(paths, |_, ()| false).await;
        let is_nothing = |found: Found| found.file.is_none() && found.unfinished.is_none();
        found.into_iter().map(|found| found.is_some_and(is_nothing)).collect()
    }

    async fn begin(&mut self, file: Fetch, request: Request) -> Result<()> {
        self.shared.tasks.reap()?;
        let have = match request.have {
            Some(have) => Ok(have),
            None if self.shared.record.is_settled(file.local.as_bytes()) => return Ok(()),
            None => self.look(&file).await,
        };
        let have = match have {
            Ok(have) => have,
            Err(error) => {
                self.shared.record.failed(&self.shared.reporter, file.local.as_bytes(), Error::store(&error));
                return Ok(());
            }
        };
        if let Some(size) = file.size
            && have != Have::Whole
            && let Err(error) = self.client.bounds().check_size(|| format!("fetch {}", file.local), size)
        {
            self.shared.record.failed(&self.shared.reporter, file.local.as_bytes(), error);
            return Ok(());
        }
        match have {
            Have::Whole => {
                self.shared.record.finished(file.local.as_bytes());
                self.shared.reporter.done(file.local.as_bytes(), Action::Skipped, file.size.unwrap_or(0), 0);
            }
            Have::ButMode => self.set_mode(&file).await,
            Have::ButFacts => self.set_facts(&file).await,
            Have::Part(bytes) => return self.retrieve(file, Request { ahead: None, ..request }, bytes).await,
            Have::Nothing => return self.retrieve(file, request, 0).await,
        }
        Ok(())
    }

    /// Sets the permissions of a file with the right contents and time.
    async fn set_mode(&self, file: &Fetch) {
        let (path, mode) = (PathBuf::from(as_path(&file.local)), file.unix_mode.unwrap_or_default());
        let set = self.shared.root.blocking(move |root| root.set_mode(&path, mode)).await;
        self.told_of_facts(file.local.as_bytes(), Action::SetMode, set);
    }

    /// Sets the permissions and the time of a file with the right contents.
    async fn set_facts(&self, file: &Fetch) {
        let (path, mode, modified) =
            (PathBuf::from(as_path(&file.local)), file.unix_mode, file.modified.map(system_time));
        let set = self.shared.root.blocking(move |root| {
            mode.map_or(Ok(()), |mode| root.set_mode(&path, mode))?;
            modified.map_or(Ok(()), |modified| root.set_modified(&path, modified))
        });
        let set = set.await;
        self.told_of_facts(file.local.as_bytes(), Action::SetTime, set);
    }

    /// Requests the bytes of a file from `offset` on, as soon as there is room for another file in progress.
    async fn retrieve(&mut self, file: Fetch, request: Request, offset: u64) -> Result<()> {
        let Request { told, ahead, .. } = request;
        self.shared.reporter.expect(file.size.unwrap_or(0).saturating_sub(offset));
        let permit = self.under_way.clone().acquire_owned().await;
        let Ok(permit) = permit else { return Ok(()) };
        let digest = if self.client.mode() == Mode::Braid { Digest::Passing } else { Digest::None };
        let start = if offset == 0 { Start::New } else { Start::At(offset) };
        let writer =
            self.shared.root.writer(as_path(&file.local), start, file.size, digest).holes(self.holes);
        let name = file.local.as_bytes().to_vec();
        let mut sink =
            Box::new(FileSink::new(writer, name, self.client.bounds(), self.shared.reporter.clone()));
        sink.offset = offset;
        sink.size = file.size;
        sink.modified = file.modified;
        if let Some(told) = &told {
            sink.announced_size = Some(told.size.clone());
        }
        let lane = self.client.lane().await;
        let (client, remote) = (lane.client.clone(), file.remote.clone());
        let finish =
            Box::new(Finish { shared: self.shared.clone(), lane, file, told, offset, _permit: permit });
        match ahead {
            Some(Ahead { under_way, name }) => {
                name.is(sink);
                self.shared.tasks.spawn(async move {
                    finish.complete(under_way.done().await);
                    Ok(())
                });
                Ok(())
            }
            None => client.retrieve_then(remote, offset, Sink::File(sink), finish).await,
        }
    }

    /// Reports the outcome for a file whose contents were already right.
    fn told_of_facts(&self, name: &[u8], action: Action, set: Result<(), fs::Error>) {
        match set {
            Ok(()) => {
                self.shared.record.done(name);
                self.shared.reporter.done(name, action, 0, 0);
            }
            Err(error) => self.shared.record.failed(&self.shared.reporter, name, Error::store(&error)),
        }
    }

    /// Waits for everything that was begun.
    ///
    /// # Errors
    ///
    /// As [`Self::fetch`].
    pub(crate) async fn finish(self) -> Result<()> {
        // A file is under way until it is renamed, or a task has put it away.
        let _all = self.under_way.acquire_many(most_under_way(self.client.mode()) as u32).await;
        self.shared.tasks.finish().await
    }

    async fn look(&self, file: &Fetch) -> Result<Have, fs::Error> {
        let (local, wanted) = (file.local.clone(), Wanted::of_file(file));
        self.shared.root.blocking(move |root| look(root, as_path(&local), wanted)).await
    }
}

/// The desired state of a file.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted {
    /// Its size and modification time, if both are known.
    pub(crate) facts: Option<(u64, Timestamp)>,
    /// Its permission bits.
    pub(crate) mode: Option<u32>,
    /// Which local file is treated as equal.
    pub(crate) compare: Compare,
}

impl Wanted {
    fn of_file(file: &Fetch) -> Self {
        Self { facts: file.size.zip(file.modified), mode: file.unix_mode, compare: file.compare }
    }

    fn has_time(&self, metadata: &fs::Metadata) -> bool {
        let wanted = self.facts.map(|(_, modified)| modified);
        same_time(Some(timestamp(metadata.modified)), wanted)
    }

    /// Whether a file has the right contents, as far as size and time tell.
    pub(crate) fn is(&self, file: &fs::Metadata) -> bool {
        let Some((size, modified)) = self.facts.filter(|_| file.kind == Kind::File) else { return false };
        if self.compare.contents {
            // The digest decides.
            return file.size == size;
        }
        let there = timestamp(file.modified);
        let is_newer = (there.seconds, there.nanos) > (modified.seconds, modified.nanos);
        (self.compare.newer && is_newer)
            || (file.size == size && (!self.compare.times || self.has_time(file)))
    }

    /// What exists of a file with the right contents.
    fn of_same(&self, found: &Found) -> Have {
        let has_facts = found.file.as_ref().is_some_and(|file| {
            self.has_time(file) && self.mode.is_none_or(|mode| mode & 0o777 == file.mode & 0o777)
        });
        if has_facts { Have::Whole } else { Have::ButFacts }
    }

    /// What exists of a file.
    fn of(&self, found: &Found) -> Have {
        let Some((size, _)) = self.facts else { return Have::Nothing };
        match (&found.file, &found.unfinished) {
            (Some(file), _) if self.is(file) => {
                let is_same = self.mode.is_none_or(|mode| mode & 0o777 == file.mode & 0o777);
                if is_same { Have::Whole } else { Have::ButMode }
            }
            (_, Some(part))
                if part.kind == Kind::File && part.size > 0 && part.size <= size && self.has_time(part) =>
            {
                Have::Part(part.size)
            }
            _ => Have::Nothing,
        }
    }
}

/// Looks what exists of a file.
fn look(root: &Root, path: &Path, wanted: Wanted) -> Result<Have, fs::Error> {
    if wanted.facts.is_none() {
        return Ok(Have::Nothing);
    }
    let there = |found: Result<fs::Metadata, fs::Error>| match found {
        Ok(metadata) => Ok(Some(metadata)),
        Err(error) if error.why == Why::NotFound => Ok(None),
        Err(error) => Err(error),
    };
    let file = there(root.link_metadata(path))?;
    let unfinished = match &file {
        Some(file) if wanted.is(file) => None,
        _ => there(root.unfinished_metadata(path))?,
    };
    Ok(wanted.of(&Found { file, unfinished }))
}

/// The data for completing one file.
#[derive(Debug)]
struct Finish {
    shared: Arc<Shared>,
    /// The session of the transfer.
    lane: Lane,
    file: Fetch,
    /// The facts that were requested together with the file.
    told: Option<Told>,
    offset: u64,
    _permit: OwnedSemaphorePermit,
}

impl Completion for Finish {
    /// Completes a small file that was received without a fault, which needs no waiting. A task completes every other one.
    fn complete(self: Box<Self>, done: Done) {
        let Done { body, data, result } = done;
        let length = self.offset + data.bytes;
        let is_right = result.is_ok() && data.error.is_none() && self.told.is_none();
        match body {
            Some(Body::Sink(Sink::File(sink)))
                if is_right && sink.writer.is_small() && self.other_length(length).is_none() =>
            {
                let commit = self.commit(length, data.digest, sink.modified);
                sink.writer.commit_small(commit, self.then(length));
            }
            body => self.shared.tasks.clone().spawn(self.run(Done { body, data, result })),
        }
    }
}

impl Finish {
    async fn run(mut self: Box<Self>, mut done: Done) -> Result<()> {
        if let Some(sink) = refused_without_name(&mut done) {
            let remote = self.file.remote.clone();
            done = self.lane.client.retrieve(remote, self.offset, sink).await?.done().await;
        }
        self.lane.release();
        if let Some(told) = self.told.take() {
            done.result = self.take_facts(told, done.result).await;
        }
        let name = self.file.local.as_bytes();
        let what = || format!("fetch {}", crate::exit::escape(name));
        let sink = match done.body {
            Some(Body::Sink(Sink::File(sink))) => Some(*sink),
            _ => None,
        };
        let error = match (done.result, done.data.error) {
            (Ok(_), None) => None,
            // A local error is the cause of the end of the session.
            (Err(there), Some(here)) if there.is_transient() && !here.is_transient() => Some(here),
            (Err(error), _) | (Ok(_), Some(error)) => Some(error),
        };
        let Some(error) = error else {
            let Some(sink) = sink else {
                let error = Error::new(
                    Exit::Protocol,
                    what(),
                    "the server reports that it sent the file, but nothing was received",
                );
                self.shared.record.failed(&self.shared.reporter, name, error);
                return Ok(());
            };
            return self.keep(sink, done.data.bytes, done.data.digest).await;
        };
        let error = Error { what: what(), ..error };
        let lost = error.is_transient() || error.exit == Exit::Sigint;
        if let Some(sink) = sink {
            // Bytes of a file that the server aborted are as good as those of a lost connection. Bytes with a
            // wrong digest, or of a file that is not permitted here, are not.
            let keep = if sink.is_over() || matches!(error.exit, Exit::Verify | Exit::Protocol) {
                Keep::Nothing
            } else {
                Keep::ForResume
            };
            self.put_away(sink, keep).await;
        }
        if lost {
            return Err(error);
        }
        if error.exit == Exit::Local && error.why == Why::NoSpace.to_string() {
            self.shared.record.fatal(&self.shared.reporter, name, error);
        } else {
            self.shared.record.failed(&self.shared.reporter, name, error);
        }
        Ok(())
    }

    /// Processes the facts that were requested together with the file.
    async fn take_facts(&mut self, told: Told, result: Result<Finished>) -> Result<Finished> {
        let facts = told.facts.await.unwrap_or(Ok(Facts::Unknown));
        match (facts, result) {
            (Ok(Facts::Of(metadata)), Err(error)) if metadata.kind == FileKind::Directory => {
                Err(if error.is_transient() { error } else { is_folder(self.file.remote.as_bytes()) })
            }
            (Ok(Facts::Of(metadata)), result) => {
                (self.file.size, self.file.modified) = of_file(&metadata);
                result
            }
            // Over TCP nothing else provides size and time. In braid the header does.
            (Err(error), Ok(_)) if self.shared.mode == Mode::Tcp => Err(error),
            (_, result) => result,
        }
    }

    /// The expected length of a file of which this many bytes were received, if it is another one.
    fn other_length(&self, length: u64) -> Option<u64> {
        // In braid the frames mark the end; elsewhere only the size in the listing is known.
        self.file.size.filter(|size| self.shared.mode != Mode::Braid && *size != length)
    }

    fn commit(&self, length: u64, digest: Option<frame::Digest>, modified: Option<Timestamp>) -> Commit {
        Commit {
            length: Some(length),
            digest,
            modified: modified.or(self.file.modified).map(system_time),
            mode: self.file.unix_mode,
            durability: Durability::Bytes,
        }
    }

    /// Receives the result of the rename.
    fn then(
        mut self: Box<Self>,
        length: u64,
    ) -> impl FnOnce(Result<fs::Written, fs::Error>) + Send + 'static {
        // The file is no longer on the way.
        self.lane.release();
        // All of this is done before a caller sees that no file is in progress.
        move |result| {
            let name = self.file.local.as_bytes();
            match result {
                Ok(_) => {
                    self.shared.record.finished(name);
                    self.shared.reporter.done(name, Action::Received, length, self.offset);
                }
                Err(error) => {
                    let no_space = error.why == Why::NoSpace;
                    let what = format!("fetch {}", crate::exit::escape(name));
                    let error = Error { what, ..Error::store(&error) };
                    match no_space {
                        true => self.shared.record.fatal(&self.shared.reporter, name, error),
                        false => self.shared.record.failed(&self.shared.reporter, name, error),
                    }
                }
            }
        }
    }

    /// Checks a file that was received completely, and renames it.
    async fn keep(self: Box<Self>, sink: FileSink, bytes: u64, digest: Option<frame::Digest>) -> Result<()> {
        let length = self.offset + bytes;
        if let Some(expected) = self.other_length(length) {
            let error = Error::new(
                Exit::Verify,
                sink.what(),
                format_args!("{length} bytes of a file of {expected} bytes were received"),
            )
            .hint("the same command again, if the file was changing meanwhile; otherwise the server is at fault");
            self.put_away(sink, Keep::Nothing).await;
            self.shared.record.failed(&self.shared.reporter, self.file.local.as_bytes(), error);
            return Ok(());
        }
        let commit = self.commit(length, digest, sink.modified);
        let shared = self.shared.clone();
        let permit = shared.finishing.acquire().await;
        sink.writer.commit_then(commit, self.then(length)).await;
        drop(permit);
        Ok(())
    }

    /// Keeps the written bytes for a later attempt, marked, or removes them.
    async fn put_away(&self, sink: FileSink, keep: Keep) {
        let modified = sink.modified.or(self.file.modified);
        let keep = if modified.is_some() { keep } else { Keep::Nothing };
        // Bytes that cannot be kept are fetched again.
        if sink.writer.abandon(keep).await.is_err() {
            return;
        }
        if let (Keep::ForResume, Some(modified)) = (keep, modified) {
            let path = PathBuf::from(as_path(&self.file.local));
            let _ = self
                .shared
                .root
                .blocking(move |root| root.mark_unfinished(&path, system_time(modified)))
                .await;
        }
    }
}

/// A path of the server as a local one; it was validated when it was created.
pub(crate) fn as_path(path: &SafePath) -> &Path {
    Path::new(OsStr::from_bytes(path.as_bytes()))
}

#[cfg(test)]
mod tests {
    use std::time::{Duration, SystemTime};

    use super::*;

    fn found(root: &Root, path: &str, size: Option<u64>, modified: Option<Timestamp>) -> Have {
        look(
            root,
            Path::new(path),
            Wanted { facts: size.zip(modified), mode: None, compare: Compare::default() },
        )
        .unwrap()
    }

    #[test]
    fn a_file_is_complete_only_with_equal_size_and_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        std::fs::write(dir.path().join("a"), "12345").unwrap();
        root.set_modified(Path::new("a"), time).unwrap();
        let have = |size, seconds| found(&root, "a", Some(size), Some(Timestamp::from_seconds(seconds)));
        assert_eq!(have(5, 1_000_000), Have::Whole);
        assert_eq!(have(6, 1_000_000), Have::Nothing);
        assert_eq!(have(5, 1_000_001), Have::Nothing);
        assert_eq!(found(&root, "a", None, None), Have::Nothing);
        assert_eq!(found(&root, "b", Some(5), Some(timestamp(time))), Have::Nothing);
    }

    #[tokio::test]
    async fn a_partial_file_is_resumed_only_if_its_source_has_the_same_time() {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        let time = SystemTime::UNIX_EPOCH + Duration::from_secs(1_000_000);
        let mut writer = root.writer(Path::new("a"), Start::New, None, Digest::None);
        writer.write(vec![1; 1000].into()).await.unwrap();
        writer.abandon(Keep::ForResume).await.unwrap();
        let have = |size| found(&root, "a", Some(size), Some(timestamp(time)));
        assert_eq!(have(5000), Have::Nothing, "it is not marked");
        root.mark_unfinished(Path::new("a"), time).unwrap();
        assert_eq!(have(5000), Have::Part(1000));
        assert_eq!(have(999), Have::Nothing, "it is longer than its source");
    }
}
