//! Several sessions with one server, for transfers at the same time where a session moves one file after another (FTP over TCP).
//!
//! Further sessions are opened when those that are open have enough to do. A server that takes no more of them (421, 530, or no
//! connection) is told of once, and the job goes on with what it has; that holds for later attempts of the job, too. Commands and
//! listings stay on the first session, and transfers prefer the others.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::login::Login;
use super::{Client, Options};
use crate::exit::Error;
use crate::progress::Reporter;
use crate::url::Url;

/// Transfers that a session is given at once: one on the wire, and what a server that reads ahead may have of the next ones.
const TRANSFERS_EACH: usize = 4;
/// Sessions that `--parallel` may ask for.
pub const PARALLEL_MAX: usize = 64;
/// Sessions where nothing is said.
pub const PARALLEL: usize = 4;

/// How many sessions a job may have, over all attempts. Clones share it.
#[derive(Debug, Clone)]
pub struct Parallel(Arc<AtomicUsize>);

impl Parallel {
    /// So many, at least one.
    pub fn new(sessions: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(sessions.clamp(1, PARALLEL_MAX))))
    }

    /// How many, now.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// The server takes no more than these.
    fn lower(&self, sessions: usize) {
        self.0.fetch_min(sessions.max(1), Ordering::Relaxed);
    }
}

/// The further sessions of a client.
#[derive(Debug)]
pub(super) struct Pool {
    url: Url,
    login: Login,
    options: Options,
    reporter: Option<Reporter>,
    /// Places for transfers, of all sessions that are open.
    places: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    /// Transfers of the first session.
    first: Arc<AtomicUsize>,
    others: Vec<(Client, Arc<AtomicUsize>)>,
    opening: Opening,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// It was not needed yet.
    No,
    /// It was begun.
    Begun,
    /// The client is over.
    Closed,
}

/// A session for one transfer, and a place in it.
#[derive(Debug)]
pub struct Lane {
    /// The session.
    pub client: Client,
    load: Option<(Arc<AtomicUsize>, OwnedSemaphorePermit)>,
}

impl Drop for Lane {
    fn drop(&mut self) {
        if let Some((load, _)) = &self.load {
            load.fetch_sub(1, Ordering::Relaxed);
        }
    }
}

impl Pool {
    /// For a client that has opened its first session so.
    pub(super) fn new(url: &Url, login: &Login, options: &Options) -> Arc<Self> {
        let reporter = options.reporter.clone();
        // What there is to say about the server was said by the first session.
        let options = Options { reporter: None, parallel: Parallel::new(1), ..options.clone() };
        let state = State { first: Arc::default(), others: Vec::new(), opening: Opening::No };
        Arc::new(Self {
            url: url.clone(),
            login: login.clone(),
            options,
            reporter,
            places: Arc::new(Semaphore::new(TRANSFERS_EACH)),
            state: Mutex::new(state),
        })
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// A place for a transfer, when there is one.
    pub(super) async fn lane(self: &Arc<Self>, first: &Client, parallel: &Parallel) -> Lane {
        if self.places.available_permits() == 0 && parallel.get() > 1 {
            let mut state = self.lock();
            if state.opening == Opening::No {
                state.opening = Opening::Begun;
                drop(state);
                tokio::spawn(self.clone().open(parallel.clone()));
            }
        }
        let Ok(place) = self.places.clone().acquire_owned().await else {
            return Lane { client: first.clone(), load: None };
        };
        let state = self.lock();
        let loads = state.others.iter().map(|(client, load)| (client, load));
        let least = loads.min_by_key(|(_, load)| load.load(Ordering::Relaxed));
        // The first one has the listings, too.
        let (client, load) = match least {
            Some((client, load))
                if load.load(Ordering::Relaxed) <= state.first.load(Ordering::Relaxed) + 1 =>
            {
                (client.clone(), load.clone())
            }
            _ => (first.clone(), state.first.clone()),
        };
        load.fetch_add(1, Ordering::Relaxed);
        Lane { client, load: Some((load, place)) }
    }

    /// Opens the further sessions, one after another.
    async fn open(self: Arc<Self>, parallel: Parallel) {
        for open in 1..parallel.get() {
            let connected = Client::connect(&self.url, self.login.clone(), self.options.clone()).await;
            let ready = match connected {
                Ok(client) => client.ready().await.map(|()| client),
                Err(error) => Err(error),
            };
            match ready {
                Ok(client) => {
                    let late = {
                        let mut state = self.lock();
                        let is_open = state.opening != Opening::Closed;
                        if is_open {
                            state.others.push((client.clone(), Arc::default()));
                        }
                        !is_open
                    };
                    if late {
                        return client.close_session().await;
                    }
                    self.places.add_permits(TRANSFERS_EACH);
                }
                Err(error) => {
                    if self.lock().opening != Opening::Closed {
                        parallel.lower(open);
                        self.tell(open, &error);
                    }
                    return;
                }
            }
        }
    }

    fn tell(&self, open: usize, error: &Error) {
        let Some(reporter) = &self.reporter else { return };
        let sessions = if open == 1 { "session".into() } else { format!("{open} sessions") };
        reporter.warn(format_args!(
            "the server takes no further session ({}): going on with {sessions}",
            error.why
        ));
    }

    /// The further sessions, to be ended; none is opened any more.
    fn close(&self) -> Vec<Client> {
        let mut state = self.lock();
        state.opening = Opening::Closed;
        std::mem::take(&mut state.others).into_iter().map(|(client, _)| client).collect()
    }

    /// Says goodbye in all of them.
    pub(super) async fn end(&self) {
        let closing: Vec<_> =
            self.close().into_iter().map(|client| tokio::spawn(client.close_session())).collect();
        for closed in closing {
            let _ = closed.await;
        }
    }

    /// Ends them at once.
    pub(super) async fn stop(&self, why: &Error) {
        let stopping = self.close().into_iter().map(|client| {
            let why = why.clone();
            tokio::spawn(async move { client.stop_session(why).await })
        });
        for stopped in stopping.collect::<Vec<_>>() {
            let _ = stopped.await;
        }
    }
}

impl Lane {
    /// The session itself, whatever it does besides.
    pub(super) fn of(client: &Client) -> Self {
        Self { client: client.clone(), load: None }
    }
}
