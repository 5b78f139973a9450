//! Small files are opened and finished in batches, on threads that may wait for the disk.
//!
//! Handing one file to another thread and hearing of it costs more than all that is done for a small one. Here whoever has
//! work adds it to a queue, and few threads each take all that waits. In a batch a folder is opened once for files that
//! follow each other in it, and asked for its free space once; the bytes of all files are handed to the file system before
//! any file is synced, so that a journal writes them together; and folders are synced once.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use cap_std::fs::Dir;

use super::Root;
use super::error::Error;
use super::writer::{self, Finish};

/// Threads that take work at the same time: while one waits for a sync, the other opens files.
const THREADS: usize = 2;
/// Pieces of work taken together, at most.
const BATCH: usize = 128;

/// What is done on another thread.
pub(super) enum Work {
    /// A step that ends no file.
    Step(Box<dyn FnOnce(&mut Near) + Send>),
    /// A file is whole, as far as its sender knows.
    Finish(Box<Finish>),
}

/// Work that waits, of all writers beneath a root.
#[derive(Default)]
pub(super) struct Batches(Mutex<Queue>);

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
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds work. Must be called within a tokio runtime.
    pub(super) fn add(self: &Arc<Self>, work: Work) {
        let mut queue = self.lock();
        queue.waiting.push_back(work);
        // A thread that is at it takes this too; another helps when there is much.
        if queue.threads == 0 || (queue.threads < THREADS && queue.waiting.len() >= BATCH / 2) {
            queue.threads += 1;
            drop(queue);
            let batches = self.clone();
            tokio::task::spawn_blocking(move || batches.run());
        }
    }

    fn run(self: Arc<Self>) {
        let mut thread = Thread { batches: &self, is_over: false };
        while let Some(batch) = thread.next() {
            run(batch);
        }
    }
}

/// One of the threads: counted until it finds nothing more, or panics.
struct Thread<'a> {
    batches: &'a Batches,
    is_over: bool,
}

impl Thread<'_> {
    fn next(&mut self) -> Option<Vec<Work>> {
        let mut queue = self.batches.lock();
        let count = queue.waiting.len().min(BATCH);
        if count == 0 {
            // Under the same lock under which work is added: none is left behind.
            queue.threads -= 1;
            self.is_over = true;
            return None;
        }
        Some(queue.waiting.drain(..count).collect())
    }
}

impl Drop for Thread<'_> {
    fn drop(&mut self) {
        if !self.is_over {
            self.batches.lock().threads -= 1;
        }
    }
}

fn run(batch: Vec<Work>) {
    let mut near = Near::default();
    let mut finishing = Vec::new();
    for work in batch {
        match work {
            Work::Step(step) => step(&mut near),
            Work::Finish(finish) => finishing.push(*finish),
        }
    }
    writer::finish(finishing, &mut near);
}

/// The folder that was used last, and what is free on its disk: what a batch asks for once.
#[derive(Debug, Default)]
pub(super) struct Near {
    folder: Option<Folder>,
    free_bytes: Option<u64>,
}

#[derive(Debug)]
struct Folder {
    root: Root,
    path: PathBuf,
    dir: Arc<Dir>,
}

impl Near {
    /// The folder `path` of `root`, open.
    pub(super) fn folder(&mut self, root: &Root, what: &'static str, path: &Path) -> Result<Arc<Dir>, Error> {
        if let Some(folder) = &self.folder
            && folder.path == path
            && Arc::ptr_eq(&folder.root.dir, &root.dir)
        {
            return Ok(folder.dir.clone());
        }
        let dir = Arc::new(root.open_dir(what, path)?);
        self.folder = Some(Folder { root: root.clone(), path: path.to_owned(), dir: dir.clone() });
        self.free_bytes = None;
        Ok(dir)
    }

    /// Bytes free on the file system of `root`, less those that were taken since.
    pub(super) fn free_bytes(&mut self, root: &Root) -> Result<u64, Error> {
        match self.free_bytes {
            Some(free) => Ok(free),
            None => Ok(*self.free_bytes.insert(root.free_bytes()?)),
        }
    }

    /// So many bytes were written.
    pub(super) fn took(&mut self, bytes: u64) {
        if let Some(free) = &mut self.free_bytes {
            *free = free.saturating_sub(bytes);
        }
    }
}
