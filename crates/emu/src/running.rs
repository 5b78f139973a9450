//! A thread that runs a pair of links until it is stopped, and the counters it publishes.

use std::io::{self, PipeReader, PipeWriter};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread::{Builder, JoinHandle};

/// The counters as the thread last published them.
#[derive(Debug, Clone, Default)]
pub(crate) struct Shown<C>(Arc<Mutex<C>>);

impl<C: Clone> Shown<C> {
    pub(crate) fn show(&self, counters: &C) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone_from(counters);
    }

    fn last(&self) -> C {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// A running thread. Dropping it stops the thread and waits for its end.
#[derive(Debug)]
pub(crate) struct Running<C> {
    shown: Shown<C>,
    thread: Option<(PipeWriter, JoinHandle<()>)>,
}

impl<C: Clone + Default + Send + 'static> Running<C> {
    /// Starts the thread. The thread must stop when its pipe is closed.
    pub(crate) fn start(
        name: &str,
        run: impl FnOnce(PipeReader, Shown<C>) + Send + 'static,
    ) -> io::Result<Self> {
        let (stopped, stop) = io::pipe()?;
        let shown = Shown::default();
        let theirs = shown.clone();
        let thread = Builder::new().name(name.into()).spawn(move || run(stopped, theirs))?;
        Ok(Self { shown, thread: Some((stop, thread)) })
    }

    /// The counters so far.
    pub(crate) fn counters(&self) -> C {
        self.shown.last()
    }

    /// Stops the thread.
    pub(crate) fn stop(mut self) -> C {
        self.end();
        self.counters()
    }
}

impl<C> Running<C> {
    fn end(&mut self) {
        if let Some((stop, thread)) = self.thread.take() {
            drop(stop);
            // A panic in the thread was printed there.
            let _ = thread.join();
        }
    }
}

impl<C> Drop for Running<C> {
    fn drop(&mut self) {
        self.end();
    }
}
