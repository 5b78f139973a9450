//! Outstanding work of a job: transfers and replies that later work need not wait for.

use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;
use tokio::task::{JoinError, JoinSet};

use super::Record;
use crate::exit::Result;

/// Tasks, each of which returns the result of one file or command, or an error that ends the session. Clones share them.
#[derive(Debug, Clone)]
pub(crate) struct Tasks {
    record: Record,
    running: Arc<Mutex<JoinSet<Result<()>>>>,
    runtime: Handle,
}

impl Tasks {
    /// # Panics
    ///
    /// Outside of a tokio runtime.
    pub(crate) fn new(record: Record) -> Self {
        Self { record, running: Arc::default(), runtime: Handle::current() }
    }

    fn lock(&self) -> MutexGuard<'_, JoinSet<Result<()>>> {
        self.running.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Begins a task. May be called from any thread.
    pub(crate) fn spawn(&self, task: impl Future<Output = Result<()>> + Send + 'static) {
        self.lock().spawn_on(task, &self.runtime);
    }

    /// Collects the completed tasks.
    ///
    /// # Errors
    ///
    /// The session has ended, or an error that affects every file.
    pub(crate) fn reap(&self) -> Result<()> {
        self.record.check()?;
        let mut running = self.lock();
        while let Some(result) = running.try_join_next() {
            flatten(result)?;
        }
        Ok(())
    }

    /// Waits for all tasks that were begun.
    ///
    /// # Errors
    ///
    /// As [`Self::reap`].
    pub(crate) async fn finish(&self) -> Result<()> {
        let mut running = std::mem::take(&mut *self.lock());
        let mut first = Ok(());
        while let Some(result) = running.join_next().await {
            // All tasks are awaited, so that each stores its bytes; the first error is the cause of the
            // others.
            first = first.and(flatten(result));
        }
        first?;
        self.record.check()
    }
}

fn flatten(result: Result<Result<()>, JoinError>) -> Result<()> {
    match result {
        Ok(result) => result,
        Err(error) => match error.try_into_panic() {
            Ok(panic) => std::panic::resume_unwind(panic),
            Err(_) => Ok(()),
        },
    }
}
