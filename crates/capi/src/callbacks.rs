//! The thread on which callbacks of the program run, one at a time. A callback may wait, as in a blocking `usrsctp_sendv`: the
//! endpoints are driven by another thread.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex};
use std::thread::{self, JoinHandle, ThreadId};

use crate::errno::Errno;
use crate::sync::lock;

/// An object with callbacks.
pub(crate) trait CallBack: Send + Sync {
    /// Calls the program's functions for everything that has happened.
    fn call_back(&self);
}

/// The thread of the callbacks, and the sockets that have something for them.
pub(crate) struct Callbacks {
    shared: Arc<Shared>,
    thread: Mutex<Option<JoinHandle<()>>>,
    id: ThreadId,
}

#[derive(Default)]
struct Shared {
    due: Mutex<Due>,
    changed: Condvar,
}

#[derive(Default)]
struct Due {
    /// Each once.
    sockets: VecDeque<Arc<dyn CallBack>>,
    is_over: bool,
}

impl Callbacks {
    /// Starts the thread.
    pub(crate) fn start() -> Result<Arc<Self>, Errno> {
        let shared = Arc::<Shared>::default();
        let theirs = shared.clone();
        let thread = thread::Builder::new().name("sctp-callbacks".to_owned());
        let thread = thread.spawn(move || theirs.run());
        let thread = thread.map_err(|error| Errno(error.raw_os_error().unwrap_or(libc::EAGAIN)))?;
        let id = thread.thread().id();
        Ok(Arc::new(Self { shared, thread: Mutex::new(Some(thread)), id }))
    }

    /// The socket has something for its callbacks.
    pub(crate) fn add(&self, socket: Arc<dyn CallBack>) {
        let mut due = lock(&self.shared.due);
        if !due.sockets.iter().any(|other| Arc::ptr_eq(other, &socket)) {
            due.sockets.push_back(socket);
        }
        self.shared.changed.notify_one();
    }

    /// Whether the calling thread runs a callback.
    pub(crate) fn is_this_thread(&self) -> bool {
        thread::current().id() == self.id
    }

    /// Ends the thread, after the callback that is running.
    pub(crate) fn stop(&self) {
        lock(&self.shared.due).is_over = true;
        self.shared.changed.notify_one();
        if let Some(thread) = lock(&self.thread).take() {
            // It returns nothing; a callback does not unwind.
            let _ = thread.join();
        }
    }
}

impl Shared {
    fn run(&self) {
        loop {
            let mut due = lock(&self.due);
            let next = loop {
                if due.is_over {
                    return;
                }
                match due.sockets.pop_front() {
                    Some(next) => break next,
                    None => {
                        let woken = self.changed.wait(due);
                        due = woken.unwrap_or_else(std::sync::PoisonError::into_inner);
                    }
                }
            };
            drop(due);
            next.call_back();
        }
    }
}
