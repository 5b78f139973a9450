//! Shared parts of the carriers over SCTP: the send queue of the control stream, reassembled messages, and ends of a session.

use braidftp_ftp::mapping::frame::Credit;
use braidftp_net::{Association, Piece};
use bytes::{Bytes, BytesMut};

use crate::client::errors::lost;
use crate::exit::{Error, Exit};

/// Output for the control stream.
#[derive(Debug)]
pub(super) enum Out {
    Lines(Bytes),
    Credit(Credit),
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
