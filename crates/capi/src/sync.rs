//! Locks and waiting.

use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::runtime::Handle;

/// Locks a mutex whose data a panic leaves whole.
pub(crate) fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Whether the calling thread drives endpoints, as in a function of the program that sends packets. It must not wait.
pub(crate) fn in_runtime() -> bool {
    Handle::try_current().is_ok()
}
