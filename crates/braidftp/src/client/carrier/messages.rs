//! Shared parts of the carriers over SCTP: the send queue of the control stream, reassembled messages, and ends of a session.

use std::sync::atomic::{AtomicU64, Ordering};

use braidftp_ftp::mapping::frame::Credit;
use braidftp_net::{Association, Piece};
use bytes::{Bytes, BytesMut};
use tokio::sync::watch;

use crate::client::errors::lost;
use crate::exit::{Error, Exit};

/// Output for the control stream.
#[derive(Debug)]
pub(super) enum Out {
    Lines(Bytes),
    Credit(Credit),
}

/// Counts the lines of the control stream, so that an upload does not overtake its command: a server before the login reads no data,
/// and has a small buffer, which data in front of the login would fill for ever.
#[derive(Debug, Default)]
pub(super) struct Lines {
    queued: AtomicU64,
    sent: watch::Sender<u64>,
}

impl Lines {
    /// The number of blocks of lines queued so far.
    pub(super) fn queued(&self) -> u64 {
        self.queued.load(Ordering::Relaxed)
    }

    /// Another block was queued.
    pub(super) fn queue(&self) {
        self.queued.fetch_add(1, Ordering::Relaxed);
    }

    /// The association has accepted this many more blocks.
    pub(super) fn accepted(&self, blocks: u64) {
        self.sent.send_modify(|sent| *sent += blocks);
    }

    /// Waits until the association has accepted the first `blocks` blocks.
    ///
    /// # Cancel safety
    ///
    /// Safe.
    pub(super) async fn wait_for(&self, blocks: u64) {
        if *self.sent.borrow() < blocks {
            // The sender lives as long as `self`.
            let _ = self.sent.subscribe().wait_for(|sent| *sent >= blocks).await;
        }
    }
}

/// Ends the association because the server violated the protocol.
pub(super) fn violation(association: &Association, why: &dyn std::fmt::Display) -> Error {
    association.abort(why.to_string());
    Error::new(Exit::Protocol, "understand the server", why).hint(
        "is the server braidftp, and does it speak this mode? --mode ms is the simplest over one association",
    )
}

/// The payload of a piece as one block.
pub(super) fn joined(piece: &Piece) -> Bytes {
    match piece.payload.as_slice() {
        [one] => one.clone(),
        parts => {
            let mut whole = BytesMut::with_capacity(piece.len());
            for part in parts {
                whole.extend_from_slice(part);
            }
            whole.freeze()
        }
    }
}

/// The end of a session in which a file has failed locally, with `first` as the reason, and the server
/// continues to send it. If the server exceeded a limit, this is a violation; otherwise another session
/// continues with the other files.
pub(super) fn endless(over: bool, first: Option<&Error>) -> Error {
    match (over, first) {
        (true, Some(first)) => Error { exit: Exit::Protocol, ..first.clone() },
        (true, None) => {
            let why = "an aborted transfer does not end";
            Error::new(Exit::Protocol, "understand the server", why)
        }
        (false, _) => lost("the rest of a file that cannot be stored is not awaited"),
    }
}

#[cfg(test)]
mod tests {
    use std::task::{Context, Waker};

    use super::*;

    #[test]
    fn an_upload_waits_for_the_lines_before_it_and_for_no_others() {
        let lines = Lines::default();
        (0..3).for_each(|_| lines.queue());
        let behind = lines.queued();
        lines.queue();
        let mut waits = std::pin::pin!(lines.wait_for(behind));
        let mut is_over = || waits.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready();
        assert!(!is_over());
        lines.accepted(2);
        assert!(!is_over());
        lines.accepted(1);
        assert!(is_over());
    }
}
