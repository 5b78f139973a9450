//! Opens and finishes small files in batches, on threads that may wait for the disk.
//!
//! Passing one small file to another thread and back costs more than the work on it. Here work is added to a
//! queue, and a few threads each take everything that waits. A thread is started when the tasks that are ready
//! to run have added their work, and the tasks of a batch are woken together, so that a batch is not one file.
//! Within a batch, a folder is opened once for consecutive files in it, and its free space is queried once. The
//! bytes of all files are passed to the file system before any file is synced, so that a journal writes them
//! together, and folders are synced once.

use std::collections::VecDeque;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;
use cap_std::fs::Dir;

use super::blocks::Permit;
use super::claims::Claim;
use super::error::{Error, Why};
use super::near::Near;
use super::part_file::{Commit, Durability, Held, PartFile, Written};

/// The number of threads: while one waits for a sync, the other opens files.
const THREADS: usize = 2;
/// The maximum number of items in a batch.
const BATCH: usize = 128;

/// An item of work for another thread.
pub(super) enum Work {
    /// A step that does not finish a file. It returns what wakes the task that waits for it.
    Step(Box<dyn FnOnce(&mut Near) -> Wake + Send>),
    /// A file that is complete, as far as its sender knows.
    Finish(Box<Finish>),
}

/// Wakes the task that waits for a step.
pub(super) type Wake = Box<dyn FnOnce() + Send>;

/// The number of files that are written under a temporary name after one that could not be linked: many may exist already.
const NAMED: u32 = 1000;

/// The queue of all writers below a root.
#[derive(Default)]
pub(super) struct Batches {
    queue: Mutex<Queue>,
    /// How many of the next files are written under a temporary name from the beginning.
    named: AtomicU32,
}

#[derive(Default)]
struct Queue {
    waiting: VecDeque<Work>,
    threads: usize,
}

impl std::fmt::Debug for Batches {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Batches").field("waiting", &self.lock().waiting.len()).finish_non_exhaustive()
    }
}

impl Batches {
    fn lock(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds an item. Must be called within a tokio runtime.
    pub(super) fn add(self: &Arc<Self>, work: Work) {
        let mut queue = self.lock();
        queue.waiting.push_back(work);
        // A running thread will take this item too; another thread is started when there is much work.
        if queue.threads == 0 || (queue.threads < THREADS && queue.waiting.len() >= BATCH / 2) {
            queue.threads += 1;
            drop(queue);
            let batches = self.clone();
            tokio::spawn(async move {
                // Other tasks add their work first.
                tokio::task::yield_now().await;
                tokio::task::spawn_blocking(move || batches.run());
            });
        }
    }

    /// Whether the next file may be written without a name.
    fn may_link(&self) -> bool {
        self.named.fetch_update(Ordering::Relaxed, Ordering::Relaxed, |left| left.checked_sub(1)).is_err()
    }

    fn work_on(&self, batch: Vec<Work>) {
        let mut near = Near::default();
        let (mut finishing, mut waiting) = (Vec::new(), Vec::new());
        for work in batch {
            match work {
                Work::Step(step) => waiting.push(step(&mut near)),
                Work::Finish(finish) => finishing.push(*finish),
            }
        }
        waiting.into_iter().for_each(|wake| wake());
        self.finish(finishing, &mut near);
    }

    fn run(self: Arc<Self>) {
        let mut thread = Thread { batches: self, is_over: false };
        while let Some(batch) = thread.next() {
            thread.batches.work_on(batch);
        }
    }

    /// Finishes small files together: first all bytes, then all syncs, then all names.
    fn finish(&self, batch: Vec<Finish>, near: &mut Near) {
        let mut whole = Vec::with_capacity(batch.len());
        for mut work in batch {
            let Finish { core, blocks, commit, .. } = &mut work;
            // A short file is kept under its temporary name.
            let bytes: u64 = blocks.iter().map(|block| block.len() as u64).sum();
            let is_whole = commit.length.is_none_or(|length| length == bytes);
            let opened = match core.claim {
                None if is_whole && self.may_link() => core.claim_unnamed(near),
                _ => Ok(()),
            };
            match opened.and_then(|()| core.append(blocks, near)).and_then(|()| core.claim(near)) {
                Ok(claim) => whole.push((work, claim)),
                Err(error) => work.tell(Err(error)),
            }
        }
        let results = give_names(&whole);
        for ((mut work, claim), mut result) in whole.into_iter().zip(results) {
            drop(claim);
            if matches!(&result, Err(error) if error.why == Why::Exists) {
                self.named.store(NAMED, Ordering::Relaxed);
                result = work.core.write_named(&work.blocks, work.commit);
            }
            work.tell(result);
        }
    }
}

/// A thread, counted until it finds no more work or panics.
struct Thread {
    batches: Arc<Batches>,
    is_over: bool,
}

impl Thread {
    fn next(&mut self) -> Option<Vec<Work>> {
        let mut queue = self.batches.lock();
        let count = queue.waiting.len().min(BATCH);
        if count == 0 {
            // The lock is the one under which items are added, so none is left behind.
            queue.threads -= 1;
            self.is_over = true;
            return None;
        }
        Some(queue.waiting.drain(..count).collect())
    }
}

impl Drop for Thread {
    fn drop(&mut self) {
        if self.is_over {
            return;
        }
        // The batch is lost by the panic. Items added meanwhile are left to another thread.
        let mut queue = self.batches.lock();
        match queue.waiting.is_empty() {
            true => queue.threads -= 1,
            false => {
                drop(queue);
                let batches = self.batches.clone();
                tokio::task::spawn_blocking(move || batches.run());
            }
        }
    }
}

/// A file whose bytes have all arrived, and the receiver of the result.
pub(super) struct Finish {
    pub core: Box<PartFile>,
    pub blocks: Vec<Bytes>,
    pub _permits: Vec<Permit>,
    pub commit: Commit,
    pub then: Then,
}

/// The receiver of a result. If the thread of the batch panics, it receives an error.
pub(super) struct Then(Option<Told>);

type Told = Box<dyn FnOnce(Result<Written, Error>) + Send>;

impl Then {
    pub(super) fn new(then: impl FnOnce(Result<Written, Error>) + Send + 'static) -> Self {
        Self(Some(Box::new(then)))
    }

    fn tell(mut self, result: Result<Written, Error>) {
        if let Some(then) = self.0.take() {
            then(result);
        }
    }
}

impl Drop for Then {
    fn drop(&mut self) {
        if let Some(then) = self.0.take() {
            then(Err(Error::gone()));
        }
    }
}

/// Checks, syncs and renames files whose bytes are written.
fn give_names(whole: &[(Finish, Arc<Claim>)]) -> Vec<Result<Written, Error>> {
    // Locked until the end: a newer writer waits, and finds the file under its final name. No thread waits
    // for one of these locks while it holds another.
    let mut held: Vec<_> = whole.iter().map(|(_, claim)| claim.lock()).collect();
    let each = || 0..whole.len();
    let mut results: Vec<_> =
        each().map(|at| whole[at].0.core.prepare(&mut held[at], whole[at].0.commit)).collect();
    let mut step = |what: &dyn Fn(&PartFile, &mut Held<'_>, Commit) -> Result<(), Error>| {
        for at in each() {
            if let Ok(written) = results[at] {
                let Finish { core, commit, .. } = &whole[at].0;
                results[at] = what(core, &mut held[at], *commit).map(|()| written);
            }
        }
    };
    step(&|core, held, commit| core.sync(held, commit));
    step(&|core, held, _| core.rename(held));
    // The files of one folder may have been opened in different batches, each with its own descriptor of the folder.
    let synced = std::cell::Cell::new(None::<(u64, u64)>);
    let last = std::cell::RefCell::new(None::<Arc<Dir>>);
    step(&|core, held, commit| {
        let Some(open) = held.take() else { return Ok(()) };
        if commit.durability != Durability::Full
            || last.borrow().as_ref().is_some_and(|last| Arc::ptr_eq(last, &open.dir))
        {
            return Ok(());
        }
        let stat = rustix::fs::fstat(&open.dir).map_err(|e| core.fail(e))?;
        let folder = Some((stat.st_dev, stat.st_ino));
        if synced.get() != folder {
            core.sync_folder(&open.dir)?;
            synced.set(folder);
        }
        *last.borrow_mut() = Some(open.dir);
        Ok(())
    });
    drop(held);
    results
}

impl Finish {
    /// Sends the result, when no lock is held any more.
    fn tell(self, result: Result<Written, Error>) {
        let Self { core, then, .. } = self;
        drop(core);
        then.tell(result);
    }
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use braidftp_ftp::mapping::frame;
    use bytes::Bytes;

    use super::super::{Commit, Digest, Durability, Root, Start};
    use super::*;

    fn root() -> (tempfile::TempDir, Root) {
        let dir = tempfile::tempdir().unwrap();
        let root = Root::open(dir.path()).unwrap();
        (dir, root)
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn concurrent_files_are_renamed_and_each_receives_its_result() {
        let (dir, root) = root();
        for folder in ["a", "b", "a/taken"] {
            std::fs::create_dir(dir.path().join(folder)).unwrap();
        }
        let mut tasks = tokio::task::JoinSet::new();
        for at in 0..600 {
            let name = match at {
                7 => "a/taken".to_owned(),
                8 => "missing/x".to_owned(),
                _ => format!("{}/{at}", if at % 3 == 0 { "a" } else { "b" }),
            };
            let durability = [Durability::None, Durability::Bytes, Durability::Full][at % 3];
            let mut writer = root.writer(Path::new(&name), Start::New, None, Digest::Passing);
            tasks.spawn(async move {
                let bytes = Bytes::from(at.to_string());
                writer.write(bytes.clone()).await.unwrap();
                let digest = blake3::hash(if at == 9 { b"other" } else { &bytes });
                let digest = Some(frame::truncated(digest.as_bytes()));
                let commit = Commit { digest, durability, mode: Some(0o640), ..Commit::default() };
                (at, writer.commit(commit).await.map(|_| ()).map_err(|error| error.why))
            });
        }
        while let Some(done) = tasks.join_next().await {
            let (at, result) = done.unwrap();
            let expected = match at {
                7 => Err(Why::IsAFolder),
                8 => Err(Why::NotFound),
                9 => Err(Why::WrongDigest),
                _ => Ok(()),
            };
            assert_eq!(result, expected, "{at}");
        }
        let count = |folder: &str| std::fs::read_dir(dir.path().join(folder)).unwrap().count();
        // The files that received nothing do not exist, nor do their temporary files.
        assert_eq!((count("a"), count("b")), (200 - 1 + 1, 400 - 2));
        assert_eq!(std::fs::read(dir.path().join("b/10")).unwrap(), b"10");
        use std::os::unix::fs::PermissionsExt;
        assert_eq!(std::fs::metadata(dir.path().join("b/10")).unwrap().permissions().mode() & 0o777, 0o640);
        // No writer waits for work that never completes.
        while root.batches.lock().threads > 0 {
            tokio::task::yield_now().await;
        }
    }

    #[tokio::test]
    async fn a_small_file_replaces_a_file_and_a_temporary_one_without_a_writer() {
        let (dir, root) = root();
        let part = dir.path().join(".f.braidftp-part");
        let put = async |bytes: &'static str| {
            let mut writer = root.writer(Path::new("f"), Start::New, None, Digest::Passing);
            writer.write(bytes.into()).await.unwrap();
            let digest = Some(frame::truncated(blake3::hash(bytes.as_bytes()).as_bytes()));
            writer.commit(Commit { digest, mode: Some(0o600), ..Commit::default() }).await.map_err(|e| e.why)
        };
        put("first").await.unwrap();
        put("second").await.unwrap();
        assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"second");
        root.batches.named.store(0, Ordering::Relaxed);
        std::fs::remove_file(dir.path().join("f")).unwrap();
        std::fs::write(&part, "of an interrupted transfer").unwrap();
        put("third").await.unwrap();
        assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"third");
        assert!(!part.exists());
        // A temporary file with a writer.
        std::fs::remove_file(dir.path().join("f")).unwrap();
        let mut other = root.writer(Path::new("f"), Start::New, None, Digest::None);
        other.open().await.unwrap();
        assert_eq!(put("fourth").await, Err(Why::Busy));
        other.write("fifth".into()).await.unwrap();
        other.commit(Commit::default()).await.unwrap();
        assert_eq!(std::fs::read(dir.path().join("f")).unwrap(), b"fifth");
        assert_eq!(std::fs::read_dir(dir.path()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn work_of_ready_tasks_is_one_batch_whose_tasks_are_woken_together() {
        let (_dir, root) = root();
        let log = Arc::new(Mutex::new(String::new()));
        let mut tasks = tokio::task::JoinSet::new();
        for _ in 0..20 {
            let (root, log) = (root.clone(), log.clone());
            tasks.spawn(async move {
                let (tell, told) = tokio::sync::oneshot::channel();
                root.batches.add(Work::Step(Box::new(move |_| {
                    log.lock().unwrap().push('s');
                    Box::new(move || {
                        log.lock().unwrap().push('w');
                        tell.send(()).unwrap();
                    })
                })));
                told.await.unwrap();
            });
        }
        tasks.join_all().await;
        assert_eq!(*log.lock().unwrap(), "s".repeat(20) + &"w".repeat(20));
    }

    #[tokio::test]
    async fn a_new_file_of_unknown_size_is_opened_in_a_batch() {
        let (_dir, root) = root();
        let mut writer = root.writer(Path::new("f"), Start::New, None, Digest::None);
        let mut opening = std::pin::pin!(writer.open());
        let first = std::future::poll_fn(|cx| std::task::Poll::Ready(opening.as_mut().poll(cx))).await;
        assert!(first.is_pending());
        assert_eq!(root.batches.lock().waiting.len(), 1);
        opening.await.unwrap();
    }

    #[test]
    fn a_receiver_whose_thread_panics_gets_an_error() {
        let (tell, told) = std::sync::mpsc::channel();
        let then = Then::new(move |result| tell.send(result).unwrap());
        let panicked = std::thread::spawn(move || {
            let _then = then;
            panic!("as a test");
        });
        assert!(panicked.join().is_err());
        let error = told.recv().unwrap().unwrap_err();
        assert!(matches!(error.why, Why::Io(_)), "{error:?}");
    }

    #[tokio::test(flavor = "multi_thread")]
    async fn a_panic_loses_only_the_batch_it_occurs_in() {
        let (_dir, root) = root();
        root.batches.add(Work::Step(Box::new(|_| panic!("as a test"))));
        let mut writer = root.writer(Path::new("f"), Start::New, None, Digest::None);
        writer.write(Bytes::from_static(b"x")).await.unwrap();
        // In the batch that panicked, or in a later one, but not for ever.
        let first = writer.commit(Commit::default()).await;
        let mut again = root.writer(Path::new("g"), Start::New, None, Digest::None);
        again.write(Bytes::from_static(b"x")).await.unwrap();
        again.commit(Commit::default()).await.unwrap();
        assert!(first.is_ok() || first.is_err_and(|error| matches!(error.why, Why::Io(_))));
    }

    #[test]
    fn a_batch_opens_a_folder_and_queries_free_space_once() {
        let (dir, root) = root();
        std::fs::create_dir(dir.path().join("d")).unwrap();
        let near = &mut Near::default();
        let first = near.folder(&root, "open", Path::new("d")).unwrap();
        assert!(Arc::ptr_eq(&first, &near.folder(&root, "open", Path::new("d")).unwrap()));
        let free = near.free_bytes(&root).unwrap();
        near.took(10);
        assert_eq!(near.free_bytes(&root).unwrap(), free - 10);
        let other = root.beneath(Path::new("d")).unwrap();
        assert!(near.folder(&other, "open", Path::new("d")).is_err(), "a path is one of its root");
    }
}
