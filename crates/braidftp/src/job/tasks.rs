//! Outstanding work of a job: transfers and replies that later work need not wait for.

use tokio::task::{JoinError, JoinSet};

use super::Record;
use crate::exit::Result;

/// Tasks of which each tells what became of one file or command, or why the session cannot go on.
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

    /// Puts away those that are done.
    ///
    /// # Errors
    /// The session has ended, or an error met that every file would meet.
    pub(crate) fn reap(&mut self) -> Result<()> {
        self.record.check()?;
        while let Some(result) = self.running.try_join_next() {
            flatten(result)?;
        }
        Ok(())
    }

    /// Waits for all.
    ///
    /// # Errors
    /// As [`Self::reap`].
    pub(crate) async fn finish(mut self) -> Result<()> {
        let mut first = Ok(());
        while let Some(result) = self.running.join_next().await {
            // All are waited for, so that each puts its bytes away; the first error is the reason of the others.
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
