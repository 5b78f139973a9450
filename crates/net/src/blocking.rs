//! Handles for threads, without an async runtime of the caller.
//!
//! [`Endpoint::bind`] starts one thread, which drives the sockets; the handles block the calling thread. They panic
//! within an async runtime, whose threads they would block.

use std::fmt;
use std::future::Future;
use std::io;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use braidftp_sctp::{Config, Connect, ListenError, Message, Piece, Reason, StreamId};
use tokio::runtime::{Builder, Handle};

use crate::SendError;
use crate::endpoint::{Bind, BindError, ConnectError};
use crate::events::Event;
use crate::up::Up;

/// Why [`Endpoint::bind`] failed.
#[derive(Debug)]
pub enum StartError {
    /// The thread that drives the endpoint could not be started.
    Thread(io::Error),
    /// The endpoint could not be bound.
    Bind(BindError),
}

impl fmt::Display for StartError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Thread(error) => write!(f, "cannot start the thread of the endpoint: {error}"),
            Self::Bind(error) => error.fmt(f),
        }
    }
}

impl std::error::Error for StartError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            Self::Thread(error) => Some(error),
            Self::Bind(error) => Some(error),
        }
    }
}

/// Local addresses with an SCTP endpoint: [`crate::Endpoint`] for threads. Clones share it.
#[derive(Clone)]
pub struct Endpoint {
    inner: crate::Endpoint,
    runtime: Handle,
}

/// A listening port: [`crate::Listener`] for threads.
pub struct Listener {
    inner: crate::Listener,
    runtime: Handle,
}

/// An association: [`crate::Association`] for threads. Clones share it, so every stream can have its own
/// thread.
#[derive(Clone)]
pub struct Association {
    inner: crate::Association,
    runtime: Handle,
}

impl Endpoint {
    /// Binds the addresses and starts the thread that drives them. It ends once no handle is left and every
    /// association has shut down, within [`Bind::linger`].
    ///
    /// # Errors
    ///
    /// The thread cannot be started, or the addresses not bound.
    pub fn bind(bind: Bind) -> Result<Self, StartError> {
        let opened = crate::Endpoint::open(bind).map_err(StartError::Bind)?;
        let runtime = Builder::new_current_thread().enable_all().build().map_err(StartError::Thread)?;
        let (inner, task) = {
            let _within = runtime.enter();
            opened.into_task().map_err(StartError::Bind)?
        };
        let handle = runtime.handle().clone();
        let thread = thread::Builder::new().name("sctp".to_owned());
        thread.spawn(move || runtime.block_on(task.run())).map_err(StartError::Thread)?;
        Ok(Self { inner, runtime: handle })
    }

    /// The endpoint for async callers; also for all that does not wait.
    pub fn get_ref(&self) -> &crate::Endpoint {
        &self.inner
    }

    /// See [`crate::Endpoint::listen`].
    pub fn listen(&self, port: u16, config: Arc<Config>) -> Result<Listener, ListenError> {
        Ok(Listener { inner: self.inner.listen(port, config)?, runtime: self.runtime.clone() })
    }

    /// See [`crate::Endpoint::connect`].
    pub fn connect(&self, connect: Connect) -> Result<Association, ConnectError> {
        Ok(Association { inner: self.inner.connect(connect)?, runtime: self.runtime.clone() })
    }
}

impl Listener {
    /// Waits for the next association; `None` once the endpoint was closed.
    pub fn accept(&self) -> Option<Association> {
        let inner = self.runtime.block_on(self.inner.accept())?;
        Some(Association { inner, runtime: self.runtime.clone() })
    }
}

impl Association {
    /// The association for async callers; also for all that does not wait, such as its settings.
    pub fn get_ref(&self) -> &crate::Association {
        &self.inner
    }

    /// Waits until the association is established: see [`crate::Association::up`].
    pub fn up(&self) -> Result<Up, Reason> {
        self.wait(self.inner.up())
    }

    /// Sends a complete message on `stream`, once there is room for it.
    pub fn send(&self, stream: StreamId, message: Message) -> Result<(), SendError> {
        self.wait(self.inner.send(stream, message))
    }

    /// Returns the next message of `stream`, or part of one: see [`crate::Association::recv`].
    pub fn recv(&self, stream: StreamId) -> Result<Option<Piece>, Reason> {
        self.wait(self.inner.recv(stream))
    }

    /// Like [`recv`](Self::recv), for at most `patience`; `None` if nothing arrived within it.
    pub fn recv_timeout(
        &self,
        stream: StreamId,
        patience: Duration,
    ) -> Option<Result<Option<Piece>, Reason>> {
        self.wait(async { tokio::time::timeout(patience, self.inner.recv(stream)).await.ok() })
    }

    /// Returns the next message of any stream, or part of one.
    pub fn recv_any(&self) -> Result<Option<(StreamId, Piece)>, Reason> {
        self.wait(self.inner.recv_any())
    }

    /// Returns the next event: see [`crate::Association::event`].
    pub fn event(&self) -> Result<Event, Reason> {
        self.wait(self.inner.event())
    }

    /// Sends queued messages and ends the association; waits until it has ended and returns why.
    pub fn shutdown(&self) -> Reason {
        self.wait(self.inner.shutdown())
    }

    /// Waits until the association has ended, and returns why.
    pub fn closed(&self) -> Reason {
        self.wait(self.inner.closed())
    }

    fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.runtime.block_on(future)
    }
}

impl fmt::Debug for Endpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Listener {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}

impl fmt::Debug for Association {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.inner.fmt(f)
    }
}
