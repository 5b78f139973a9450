//! Pieces of messages, and the result of sending.

use bytes::{Bytes, BytesMut};

/// The result of sending.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// Everything was accepted.
    All,
    /// There is no room for the rest; an event will follow.
    Full,
    /// The connection accepts nothing more.
    Gone,
}

/// A piece of a message.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) ppid: u32,
    pub(super) payload: Vec<Bytes>,
    /// Whether the message ends here.
    pub(super) end: bool,
}

impl Piece {
    /// Joins the payload.
    pub(super) fn joined(mut self) -> Bytes {
        if self.payload.len() == 1 {
            return self.payload.remove(0);
        }
        let mut whole = BytesMut::new();
        self.payload.iter().for_each(|part| whole.extend_from_slice(part));
        whole.freeze()
    }
}
