//! A pool of sessions with one server, for parallel transfers where a session transfers one file at a time
//! (FTP over TCP).
//!
//! Additional sessions are opened when the open ones are busy. If the server refuses one (421, 530, or no
//! connection), this is reported once, and the job continues with the existing sessions, also in later
//! attempts. Commands stay on the first session. A listing may use any session, one listing per session.
//! Files requested on the session of an unread listing would wait until it is read, so transfers use sessions
//! without a listing, and at least one such session is kept.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use tokio::sync::{OwnedSemaphorePermit, Semaphore};

use super::login::Login;
use super::{Client, Options};
use crate::exit::Error;
use crate::progress::Reporter;
use crate::url::Url;

/// The maximum number of transfers of a session: one on the wire, and the next ones for servers that read
/// ahead.
const TRANSFERS_EACH: usize = 4;
/// The maximum value of `--parallel`.
pub const PARALLEL_MAX: usize = 64;
/// The default of `--parallel`.
pub const PARALLEL: usize = 4;

/// The number of sessions of a job, over all attempts. Clones share it.
#[derive(Debug, Clone)]
pub struct Parallel(Arc<AtomicUsize>);

impl Parallel {
    /// Permits this number of sessions, at least one.
    pub fn new(sessions: usize) -> Self {
        Self(Arc::new(AtomicUsize::new(sessions.clamp(1, PARALLEL_MAX))))
    }

    /// The current number.
    pub fn get(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }

    /// Records that the server accepts no more than these.
    fn lower(&self, sessions: usize) {
        self.0.fetch_min(sessions.max(1), Ordering::Relaxed);
    }
}

/// The additional sessions of a client.
#[derive(Debug)]
pub(super) struct Pool {
    url: Url,
    login: Login,
    options: Options,
    reporter: Option<Reporter>,
    /// The places for transfers in all open sessions.
    places: Arc<Semaphore>,
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    first: Arc<Load>,
    others: Vec<(Client, Arc<Load>)>,
    opening: Opening,
}

/// The load of a session.
#[derive(Debug, Default)]
struct Load {
    files: AtomicUsize,
    listings: AtomicUsize,
}

impl Load {
    /// The order in which sessions are chosen.
    fn weight(&self) -> (usize, usize) {
        (self.listings.load(Ordering::Relaxed), self.files.load(Ordering::Relaxed))
    }
}

/// When a listing is used.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Immediately.
    Now,
    /// After the listings before it.
    Ahead,
}

impl State {
    fn loads(&self) -> impl Iterator<Item = &Arc<Load>> {
        self.others.iter().map(|(_, load)| load).chain([&self.first])
    }

    /// The session with the least load. The first session, which also carries the commands, comes last among
    /// equals.
    fn least(&self, first: &Client) -> (Client, Arc<Load>) {
        let others = self.others.iter().map(|(client, load)| (client, load));
        let all = others.chain([(first, &self.first)]);
        let least = all.min_by_key(|(_, load)| load.weight());
        let (client, load) = least.unwrap_or((first, &self.first));
        (client.clone(), load.clone())
    }
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Opening {
    /// No additional session was needed yet.
    No,
    /// Opening has begun.
    Begun,
    /// The client has ended.
    Closed,
}

/// A session for one transfer, and a place in it.
#[derive(Debug)]
pub struct Lane {
    /// The session.
    pub client: Client,
    /// `None`: it is not counted.
    place: Option<Place>,
}

/// A place in a session, which is free again when this is dropped.
#[derive(Debug)]
struct Place {
    load: Arc<Load>,
    kind: Kind,
}

/// The purpose of a lane.
#[derive(Debug)]
enum Kind {
    File(#[expect(dead_code, reason = "held while the file moves")] OwnedSemaphorePermit),
    Listing,
}

impl Drop for Place {
    fn drop(&mut self) {
        match self.kind {
            Kind::File(_) => self.load.files.fetch_sub(1, Ordering::Relaxed),
            Kind::Listing => self.load.listings.fetch_sub(1, Ordering::Relaxed),
        };
    }
}

impl Lane {
    /// A lane in the session itself, regardless of its load.
    pub(super) fn of(client: &Client) -> Self {
        Self { client: client.clone(), place: None }
    }

    /// Frees the place, when the transfer has ended and commands about it follow.
    pub(crate) fn release(&mut self) {
        self.place = None;
    }
}

impl Pool {
    /// Creates the pool of a client whose first session was opened with these arguments.
    pub(super) fn new(url: &Url, login: &Login, options: &Options) -> Arc<Self> {
        let reporter = options.reporter.clone();
        // Warnings about the server were reported by the first session.
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

    /// Waits for a place for a transfer.
    pub(super) async fn lane(self: &Arc<Self>, first: &Client, parallel: &Parallel) -> Lane {
        if self.places.available_permits() == 0 {
            self.open_others(parallel);
        }
        let Ok(place) = self.places.clone().acquire_owned().await else {
            return Lane::of(first);
        };
        let (client, load) = self.lock().least(first);
        load.files.fetch_add(1, Ordering::Relaxed);
        Lane { client, place: Some(Place { load, kind: Kind::File(place) }) }
    }

    /// A session for one listing. A listing ahead of its use gets none, unless at least two sessions have no
    /// listing.
    pub(super) fn listing_lane(
        self: &Arc<Self>,
        first: &Client,
        parallel: &Parallel,
        turn: Turn,
    ) -> Option<Lane> {
        if turn == Turn::Ahead {
            self.open_others(parallel);
        }
        let state = self.lock();
        let free = state.loads().filter(|load| load.weight().0 == 0).count();
        if turn == Turn::Ahead && free < 2 {
            return None;
        }
        let (client, load) = state.least(first);
        load.listings.fetch_add(1, Ordering::Relaxed);
        Some(Lane { client, place: Some(Place { load, kind: Kind::Listing }) })
    }

    pub(super) fn has_lane_without_listing(&self) -> bool {
        self.lock().loads().any(|load| load.weight().0 == 0)
    }

    /// Starts to open the additional sessions, once.
    fn open_others(self: &Arc<Self>, parallel: &Parallel) {
        let mut state = self.lock();
        if parallel.get() > 1 && state.opening == Opening::No {
            state.opening = Opening::Begun;
            drop(state);
            tokio::spawn(self.clone().open(parallel.clone()));
        }
    }

    /// Opens the additional sessions, one after another.
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
            "the server accepts no further session ({}): continuing with {sessions}",
            error.why
        ));
    }

    /// Returns the additional sessions, which are to be ended; no more are opened.
    fn close(&self) -> Vec<Client> {
        let mut state = self.lock();
        state.opening = Opening::Closed;
        std::mem::take(&mut state.others).into_iter().map(|(client, _)| client).collect()
    }

    /// Ends all of them gracefully.
    pub(super) async fn end(&self) {
        let closing: Vec<_> =
            self.close().into_iter().map(|client| tokio::spawn(client.close_session())).collect();
        for closed in closing {
            let _ = closed.await;
        }
    }

    /// Ends them immediately.
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
