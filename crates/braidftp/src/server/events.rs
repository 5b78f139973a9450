//! Reports of a session's tasks to its loop.

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
    pub transfer: TransferNumber,
    pub offset: u64,
    pub intake: Intake,
    /// When it was ready.
    pub since: Instant,
    pub post: Post,
    pub stop: oneshot::Receiver<()>,
}

/// A report of a task to the session.
pub(super) enum Event {
    Input(Input),
    /// The same, with a notification when the resulting replies were passed to the transport.
    Told(Input, oneshot::Sender<()>),
    LoggedIn(Result<(Grant, Store), LoginError>),
    Ask(Ask),
    Awaited(Box<Upload>),
    /// The peer violated the protocol, or the association was lost: the session ends.
    Broken(String),
}

/// The sending end for reports.
#[derive(Clone)]
pub(super) struct Post(mpsc::UnboundedSender<Event>);

impl Post {
    /// Sends a report; ignored if the session has ended.
    pub(super) fn send(&self, event: Event) {
        let _ = self.0.send(event);
    }

    pub(super) fn started(&self, job: JobId, size: Option<u64>, name: Option<SafePath>) {
        self.send(Event::Input(Input::Started { job, size, name }));
    }

    /// The same; returns when the 150 was passed to the transport. A client reads nothing on stream 1 of ms
    /// before it, so data in front of the 150 could fill the buffers of both ends and block it for ever.
    pub(super) async fn started_and_sent(&self, job: JobId, size: Option<u64>) {
        let (told, tell) = oneshot::channel();
        self.send(Event::Told(Input::Started { job, size, name: None }, told));
        // An error is the end of the session, which ends this task too.
        let _ = tell.await;
    }

    pub(super) fn done(&self, job: JobId, outcome: Result<Outcome, Failure>) {
        self.send(Event::Input(Input::Done { job, outcome }));
    }
}

/// A query of a stream on which a transfer begins: which upload it belongs to.
pub(super) struct Ask {
    pub transfer: TransferNumber,
    pub reply: oneshot::Sender<Option<Upload>>,
}

impl Ask {
    /// Answers with the upload that the frames belong to; `None`: discard them.
    pub(super) fn decide(self, upload: Option<Upload>) {
        let _ = self.reply.send(upload);
    }
}

/// Creates the channel of one session.
pub(super) fn post() -> (Post, mpsc::UnboundedReceiver<Event>) {
    let (sender, receiver) = mpsc::unbounded_channel();
    (Post(sender), receiver)
}
