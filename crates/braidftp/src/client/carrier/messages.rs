//! Shared parts of the carriers over SCTP: the send queue of the control stream, reassembled messages, and ends of a session.

use braidftp_ftp::mapping::frame::Credit;
use braidftp_net::{Association, Piece};
use bytes::{Bytes, BytesMut};

use crate::client::errors::lost;
use crate::exit::{Error, Exit};

/// What goes out on the control stream.
#[derive(Debug)]
pub(super) enum Out {
    Lines(Bytes),
    Credit(Credit),
}

/// Ends the association because the server broke the protocol.
pub(super) fn violation(association: &Association, why: &dyn std::fmt::Display) -> Error {
    association.abort(why.to_string());
    Error::new(Exit::Protocol, "understand the server", why).hint(
        "is the server braidftp, and does it speak this mode? --mode ms is the simplest over one association",
    )
}

/// The payload of a piece in one.
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

/// The end of a session whose server goes on with a file that has failed here, `first` for that reason: the server's fault if
/// it went beyond a bound. Else another session goes on with the other files.
pub(super) fn endless(over: bool, first: Option<&Error>) -> Error {
    match (over, first) {
        (true, Some(first)) => Error { exit: Exit::Protocol, ..first.clone() },
        (true, None) => {
            let why = "a transfer that was given up goes on without end";
            Error::new(Exit::Protocol, "understand the server", why)
        }
        (false, _) => lost("the rest of a file that cannot be kept is not waited for"),
    }
}
