//! Jobs of a session on files: transfers, each in a task of its own; queries and changes of the store.
//!
//! Each job ends with one `Input::Done`, which its [`Post`] sends to the loop of the session.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use braidftp_ftp::command::Type;
use braidftp_ftp::mapping::DataPath;
use braidftp_ftp::server::{Failure, Input, JobId, Outcome, Sink, Source};
use braidftp_ftp::{HashName, SafePath};
use tokio::sync::oneshot;
use tokio::time::Instant;

use super::super::activity::Direction;
use super::super::body::{Body, FirstFiles, Gives};
use super::super::events::{Event, Post, Upload};
use super::super::sink::{Ending, Intake};
use super::super::store::Store;
use super::client_watch::{Look, Watch};
use super::{Data, Driver};

impl Driver {
    pub(super) fn ask_store<F>(&mut self, job: JobId, ask: impl FnOnce(Store) -> F)
    where
        F: Future<Output = Result<Outcome, Failure>> + Send + 'static,
    {
        let Some(store) = self.store.clone() else { return self.not_logged_in(job) };
        let (post, asked) = (self.post.clone(), ask(store));
        // Runs to its end even if the session ends: a rename cannot be interrupted.
        tokio::spawn(async move { post.done(job, asked.await) });
    }

    /// Computes the digest of a file. The number of files that are read at once is limited, for a session and for the server.
    pub(super) fn digest(&mut self, job: JobId, path: SafePath, hash: HashName) {
        let Some(store) = self.store.clone() else { return self.not_logged_in(job) };
        let (post, own, all) = (self.post.clone(), self.digests.clone(), self.shared.digests.clone());
        let stop = self.stop(job);
        // Dropped when the session or the job ends; the reading thread then stops at the next block.
        let stopped = Stopped::default();
        self.jobs.spawn(stoppable(job, post, stop, async move {
            let turn = (own.acquire_owned().await, all.acquire_owned().await);
            let flag = stopped.0.clone();
            let read = tokio::spawn(async move {
                let _turn = turn;
                store.digest(&path, hash, flag).await
            });
            let outcome = read.await.unwrap_or(Err(Failure::Cancelled));
            drop(stopped);
            outcome
        }));
    }

    /// Fails a job before the login. The machine issues none; the check is a second line of defence.
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
                let first_files = FirstFiles::of(&source, {
                    let post = post.clone();
                    move |files| post.send(Event::Input(Input::Listed { job, files }))
                });
                self.begin(async move {
                    let open = async {
                        let body = Body::open(&store, source, Gives::Frames).await?;
                        Ok(body.reporting(first_files))
                    };
                    let outcome = lanes.send(turn, transfer, open, stop).await;
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
                    way.send(&mut body, &settings, async |size| post.started_and_sent(job, size).await).await
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
        let is_alone = self.under_way.is_empty();
        self.under_way.insert(job, self.shared.transfers.begin());
        let settings = self.settings.clone();
        let ending = Ending { modified: None, durability: settings.durability };
        match (&mut self.data, data) {
            (Data::Braid(_), DataPath::Framed { transfer }) => {
                let (offset, since) = (sink.write.offset(), Instant::now());
                // One of many is opened when its frames arrive.
                match if is_alone { None } else { Intake::at_once(&store, &sink) } {
                    Some(Ok(intake)) => {
                        return self.awaits(Upload { job, transfer, offset, intake, since, post, stop });
                    }
                    Some(Err(failure)) => return post.done(job, Err(failure)),
                    None => {}
                }
                self.spawn(async move {
                    // The sink is opened before frames are read, so that a refusal is sent at once.
                    let prepared = async {
                        let mut intake = Intake::new(&store, &sink).await?;
                        intake.open().await?;
                        Ok(intake)
                    };
                    match prepared.await {
                        Ok(intake) => {
                            post.started(job, None, intake.name.clone());
                            let since = Instant::now();
                            let upload =
                                Upload { job, transfer, offset, intake, since, post: post.clone(), stop };
                            post.send(Event::Awaited(Box::new(upload)));
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

    /// SCTP: probes a silent client while a transfer is under way or the transport holds unacknowledged data of one. Returns
    /// when to call again.
    ///
    /// A client that vanished in the middle of an upload, or with a closed receive window, is never sent data, so no
    /// retransmission detects its death. HEARTBEATs of the association do, after seven minutes with the parameters of RFC 9260;
    /// meanwhile its transfers hold blocks of files and the transport a full send buffer. A live client answers HEARTBEATs even
    /// if it reads nothing.
    ///
    /// # Errors
    /// The client was silent for [`Settings::silence`](crate::server::Settings::silence) and did not answer the HEARTBEAT.
    pub(super) fn watch_client(&mut self, now: Instant) -> Result<Option<Instant>, &'static str> {
        let is_busy = !self.under_way.is_empty() || !self.withheld.is_empty();
        match self.watch.next_at {
            None if !is_busy => return Ok(None),
            Some(at) if now < at => return Ok(Some(at)),
            _ => {}
        }
        // Over TCP the kernel detects a vanished peer.
        let Some(association) = self.association().cloned() else { return Ok(None) };
        if !is_busy && association.stats().buffered_bytes == 0 {
            self.watch = Watch::default();
            return Ok(None);
        }
        match self.watch.look(now, association.silence(), self.settings.silence) {
            Look::End => return Err("silent for too long in the middle of a transfer"),
            Look::Ask => association.probe_peer(),
            Look::Heard => {}
        }
        Ok(self.watch.next_at)
    }

    /// Cancels uploads of braid whose first frame is overdue. Returns when to call again.
    pub(super) fn give_up_awaited(&mut self, now: Instant) -> Option<Instant> {
        let Data::Braid(lanes) = &self.data else { return None };
        let mut awaited = lanes.awaited();
        if awaited.is_empty() {
            return None;
        }
        let (heard, patience) = (lanes.heard_at(), self.settings.awaited);
        if heard + patience > now {
            return Some(heard + patience);
        }
        let until = |upload: &Upload| upload.since.max(heard) + patience;
        for (_, upload) in awaited.extract_if(.., |_, upload| until(upload) <= now) {
            upload.post.done(upload.job, Err(Failure::DataLost));
        }
        awaited.values().map(until).min()
    }

    fn stop(&mut self, job: JobId) -> oneshot::Receiver<()> {
        let (sender, receiver) = oneshot::channel();
        self.cancels.insert(job, sender);
        receiver
    }

    /// Takes the upload of this job, if its frames are awaited.
    fn awaited_of(&self, job: JobId) -> Option<Upload> {
        let Data::Braid(lanes) = &self.data else { return None };
        let mut awaited = lanes.awaited();
        let transfer = awaited.values().find(|upload| upload.job == job)?.transfer;
        awaited.remove(&transfer)
    }

    pub(super) fn cancel(&mut self, job: JobId) {
        if self.withheld.forget(job) {
            self.post.done(job, Err(Failure::Cancelled));
        } else if let Some(upload) = self.awaited_of(job) {
            // No frame has arrived.
            self.cancels.remove(&job);
            upload.post.done(job, Err(Failure::Cancelled));
        } else if let Some(cancel) = self.cancels.remove(&job) {
            let _ = cancel.send(());
        }
    }
}

/// A flag that is set when this is dropped.
#[derive(Default)]
struct Stopped(Arc<AtomicBool>);

impl Drop for Stopped {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Runs `work` and reports its result, or that it was cancelled.
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
