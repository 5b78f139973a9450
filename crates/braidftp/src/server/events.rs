//! What the tasks of a session report to its loop.

use braidftp_ftp::SafePath;
use braidftp_ftp::mapping::TransferNumber;
use braidftp_ftp::server::{Failure, Input, JobId, LoginError, Outcome};
use tokio::sync::{mpsc, oneshot};
use tokio::time::Instant;

use super::sink::Intake;
use super::store::Store;
use crate::users::Grant;

/// An upload of braid, ready for its frames.
pub(super) struct Upload {
    pub job: JobId,
    pub offset: u64,
    pub intake: Intake,
    /// When it was ready.
    pub since: Instant,
    pub post: Post,
    pub stop: oneshot::Receiver<()>,
}

/// What tasks tell the session.
pub(super) enum Event {
    Input(Input),
    /// The same, and word when the replies that follow from it are with the transport.
    Told(Input, oneshot::Sender<()>),
    LoggedIn(Result<(Grant, Store), LoginError>),
    Ask(Ask),
    Awaited(Upload),
    /// The other side broke the protocol, or the association is gone: the session is over.
    Broken(String),
}

/// Where tasks tell it.
#[derive(Clone)]
pub(super) struct Post(mpsc::UnboundedSender<Event>);

impl Post {
    /// Tells the session; one that is over does not hear it.
    pub(super) fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }

    pub(super) fn started(&self, job: JobId, size: Option<u64>, name: Option<SafePath>) {
        self.send(Event::Input(Input::Started { job, size, name }));
    }

    /// The same; returns when the 150 is with the transport. On stream 1 of ms a client reads nothing before it, so
    /// that data in front of it could fill both ends' buffers and keep it out for good.
    pub(super) async fn started_and_told(&self, job: JobId, size: Option<u64>) {
        let (told, tell) = oneshot::channel();
        self.send(Event::Told(Input::Started { job, size, name: None }, told));
        // An error is the end of the session, which ends this task too.
        let _ = tell.await;
    }

    pub(super) fn done(&self, job: JobId, outcome: Result<Outcome, Failure>) {
        self.send(Event::Input(Input::Done { job, outcome }));
    }
}

/// A stream on which a transfer begins, and that asks whose it is.
pub(super) struct Ask {
    pub transfer: TransferNumber,
    pub reply: oneshot::Sender<Option<Upload>>,
}

impl Ask {
    /// The upload that the frames belong to; `None`: throw them away.
    pub(super) fn decide(self, upload: Option<Upload>) {
        let _ = self.reply.send(upload);
    }
}

/// A post office for one session.
pub(super) fn post() -> (Post, mpsc::UnboundedReceiver<Event>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Post(sender), receiver)
}
