//! Jobs of a session on files: transfers, each a task of its own, and questions to the store and changes of it.
//!
//! A job ends by one `Input::Done`, which its [`Post`] sends back to the loop of the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braidftp_ftp::command::Type;
use braidftp_ftp::mapping::DataPath;
use braidftp_ftp::server::{Failure, JobId, Outcome, Sink, Source};
use braidftp_ftp::{HashName, SafePath};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::activity::Direction;
use super::super::body::{Body, Gives};
use super::super::events::{Event, Post, Upload};
use super::super::sink::{Ending, Intake};
use super::super::store::Store;
use super::{ASK_AFTER, Data, Driver};

impl Driver {
    pub(super) fn ask_store(
        &mut self,
        job: JobId,
        ask: impl FnOnce(&Store) -> Result<Outcome, Failure> + Send + 'static,
    ) {
        let Some(store) = self.store.clone() else { return self.not_logged_in(job) };
        let post = self.post.clone();
        // Runs to its end whatever happens to the session: a rename is not stopped in the middle.
        tokio::task::spawn_blocking(move || post.done(job, ask(&store)));
    }

    /// Reads a file for its digest, when it is its turn: the machine reads so many at once for all sessions.
    pub(super) fn digest(&mut self, job: JobId, path: SafePath, hash: HashName) {
        let Some(store) = self.store.clone() else { return self.not_logged_in(job) };
        let (post, own, all) = (self.post.clone(), self.digests.clone(), self.shared.digests.clone());
        let stop = self.stop(job);
        // Dropped with the session, or when it is told to stop: the thread ends at the next block.
        let stopped = Stopped::default();
        self.jobs.spawn(stoppable(job, post, stop, async move {
            let turn = (own.acquire_owned().await, all.acquire_owned().await);
            let flag = stopped.0.clone();
            let read = tokio::task::spawn_blocking(move || {
                let _turn = turn;
                store.digest(&path, hash, &flag)
            });
            let outcome = read.await.unwrap_or(Err(Failure::Cancelled));
            drop(stopped);
            outcome
        }));
    }

    /// The session gives no such job before the login; if it did, nothing may be touched.
    fn not_logged_in(&self, job: JobId) {
        self.post.done(job, Err(Failure::Store(braidftp_ftp::store::StoreError::Denied)));
    }

    pub(super) fn send(&mut self, job: JobId, data: DataPath, source: Source) {
        let Some(mut store) = self.store.clone() else { return self.not_logged_in(job) };
        let (path, direction, representation) = match &source {
            Source::File { path, representation, .. } => (path, Direction::Download, *representation),
            Source::Listing { path, .. } => (path, Direction::Listing, Type::Ascii),
        };
        store.transfer = Some(self.seat.begin(job, path.clone(), direction, representation));
        self.under_way.insert(job, self.shared.transfers.begin());
        let post = self.post.clone();
        let stop = self.stop(job);
        let settings = self.settings.clone();
        match (&mut self.data, data) {
            (Data::Braid(lanes), DataPath::Framed { transfer }) => {
                let turn = lanes.turn();
                let lanes = lanes.clone();
                self.spawn(async move {
                    let outcome =
                        lanes.send(turn, transfer, Body::open(&store, source, Gives::Frames), stop).await;
                    post.done(job, outcome);
                });
            }
            (Data::Tcp(data), path) => {
                let way = data.way(path);
                self.spawn(async move {
                    let mut rest = None;
                    let work = async {
                        let mut body = Body::open(&store, source, Gives::Blocks).await?;
                        post.started(job, body.length, None);
                        let (sent, left) = way.send(&mut body, &settings).await?;
                        rest = left;
                        Ok(sent)
                    };
                    stoppable(job, post.clone(), stop, work).await;
                    if let Some(rest) = rest {
                        rest.end().await;
                    }
                });
            }
            (Data::Sctp(data), path) => {
                let way = data.way(path);
                self.spawn(stoppable(job, post.clone(), stop, async move {
                    let mut body = Body::open(&store, source, Gives::Messages).await?;
                    way.send(&mut body, &settings, async |size| post.started_and_told(job, size).await).await
                }));
            }
            (Data::Braid(_), _) => post.done(job, Err(Failure::CannotOpenData)),
        }
    }

    pub(super) fn receive(&mut self, job: JobId, data: DataPath, sink: Sink) {
        let Some(mut store) = self.store.clone() else { return self.not_logged_in(job) };
        let transfer = self.seat.begin(job, sink.path.clone(), Direction::Upload, sink.representation);
        store.transfer = Some(transfer);
        let post = self.post.clone();
        let stop = self.stop(job);
        self.uploads.insert(job);
        self.under_way.insert(job, self.shared.transfers.begin());
        let settings = self.settings.clone();
        let ending = Ending { modified: None, durability: settings.durability };
        match (&mut self.data, data) {
            (Data::Braid(_), DataPath::Framed { .. }) => {
                let offset = match sink.write {
                    braidftp_ftp::server::Write::From(offset) => offset,
                    _ => 0,
                };
                self.spawn(async move {
                    // Opened before its frames are looked at, so that a refusal comes at once.
                    let prepared = async {
                        let mut intake = Intake::new(&store, &sink).await?;
                        intake.open().await?;
                        Ok(intake)
                    };
                    match prepared.await {
                        Ok(intake) => {
                            post.started(job, None, intake.name.clone());
                            let since = Instant::now();
                            let upload = Upload { job, offset, intake, since, post: post.clone(), stop };
                            post.send(Event::Awaited(upload));
                        }
                        Err(failure) => post.done(job, Err(failure)),
                    }
                });
            }
            (Data::Tcp(data), path) => {
                let way = data.way(path);
                self.spawn(stoppable(job, post.clone(), stop, async move {
                    let mut intake = Intake::new(&store, &sink).await?;
                    intake.open().await?;
                    post.started(job, None, intake.name.clone());
                    match way.receive(&mut intake, &settings).await {
                        Ok(()) => intake.finish(ending).await,
                        Err(failure) => {
                            intake.give_up(failure).await;
                            Err(failure)
                        }
                    }
                }));
            }
            (Data::Sctp(data), path) => {
                let way = data.way(path);
                self.spawn(stoppable(job, post.clone(), stop, async move {
                    let mut intake = Intake::new(&store, &sink).await?;
                    intake.open().await?;
                    post.started(job, sink.length, intake.name.clone());
                    match way.receive(&mut intake, sink.length, &settings).await {
                        Ok(()) => intake.finish(ending).await,
                        Err(failure) => {
                            intake.give_up(failure).await;
                            Err(failure)
                        }
                    }
                }));
            }
            (Data::Braid(_), _) => post.done(job, Err(Failure::CannotOpenData)),
        }
    }

    /// Gives up uploads whose frames do not come, and asks a silent peer whether it is there; when to look again.
    ///
    /// A client that vanished in the middle of an upload sends nothing and is sent nothing. Its association ends when its
    /// HEARTBEATs are not answered, which with RFC 9260's parameters takes seven minutes.
    ///
    /// # Errors
    /// The peer has been silent for too long.
    pub(super) fn watch_uploads(&mut self, now: Instant) -> Result<Option<Instant>, &'static str> {
        if self.uploads.is_empty() && self.withheld.is_empty() {
            return Ok(None);
        }
        let settings = &self.settings;
        // TCP resets a connection whose peer is gone.
        let Some(association) = self.association() else { return Ok(None) };
        let silence = association.silence();
        if silence >= settings.silent_upload {
            return Err("silent for too long in the middle of an upload");
        }
        if silence >= ASK_AFTER {
            association.probe_peer();
        }
        let mut next = now + ASK_AFTER.min(settings.silent_upload - silence);
        next = self.withheld.next_look(now).unwrap_or(next).min(next);
        if let Data::Braid(lanes) = &self.data {
            let heard = lanes.heard_at();
            let until = |upload: &Upload| upload.since.max(heard) + settings.awaited;
            let late: Vec<JobId> = self
                .awaited
                .values()
                .filter(|upload| until(upload) <= now)
                .map(|upload| upload.job)
                .collect();
            next =
                self.awaited.values().map(until).filter(|until| *until > now).min().unwrap_or(next).min(next);
            for job in late {
                if let Some(upload) = self.awaited.remove(&job) {
                    upload.post.done(job, Err(Failure::DataLost));
                }
            }
        }
        Ok(Some(next))
    }

    fn stop(&mut self, job: JobId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.cancels.insert(job, sender);
        receiver
    }

    pub(super) fn cancel(&mut self, job: JobId) {
        if self.withheld.forget(job) {
            self.post.done(job, Err(Failure::Cancelled));
        } else if let Some(upload) = self.awaited.remove(&job) {
            // Not a byte of it has come.
            self.cancels.remove(&job);
            upload.post.done(job, Err(Failure::Cancelled));
        } else if let Some(cancel) = self.cancels.remove(&job) {
            let _ = cancel.send(());
        }
    }
}

/// Becomes true when it is dropped.
#[derive(Default)]
struct Stopped(Arc<AtomicBool>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Does `work` and tells what came of it, or that it was stopped.
async fn stoppable(
    job: JobId,
    post: Post,
    stop: oneshot::Receiver<()>,
    work: impl Future<Output = Result<Outcome, Failure>>,
) {
    let outcome = tokio::select! {
        outcome = work => outcome,
        Ok(()) = stop => Err(Failure::Cancelled),
    };
    post.done(job, outcome);
}
