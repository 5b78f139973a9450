//! Outstanding work of a job: transfers and replies that later work need not wait for.

use tokio::task::{JoinError, JoinSet};

use super::Record;
use crate::exit::Result;

/// Tasks, each of which returns the result of one file or command, or an error that ends the session.
#[derive(Debug)]
pub(crate) struct Tasks {
    record: Record,
    running: JoinSet<Result<()>>,
}

impl Tasks {
    pub(crate) fn new(record: Record) -> Self {
        Self { record, running: JoinSet::new() }
    }

    pub(crate) fn spawn(&mut self, task: impl Future<Output = Result<()>> + Send + 'static) {
        self.running.spawn(task);
    }

    /// Collects the completed tasks.
    ///
    /// # Errors
    ///
    /// The session has ended, or an error that affects every file.
    pub(crate) fn reap(&mut self) -> Result<()> {
        self.record.check()?;
        while let Some(result) = self.running.try_join_next() {
            flatten(result)?;
        }
        Ok(())
    }

    /// Waits for all tasks.
    ///
    /// # Errors
    ///
    /// As [`Self::reap`].
    pub(crate) async fn finish(mut self) -> Result<()> {
        let mut first = Ok(());
        while let Some(result) = self.running.join_next().await {
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
