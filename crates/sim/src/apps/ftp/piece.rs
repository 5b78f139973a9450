//! Parts of messages, and what became of an attempt to send one.

use bytes::{Bytes, BytesMut};

/// What came of an attempt to send.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Sent {
    /// All of it is taken.
    All,
    /// There is no room for the rest: there will be word.
    Full,
    /// The connection takes no more.
    Gone,
}

/// Some of a message.
#[derive(Debug)]
pub(super) struct Piece {
    pub(super) ppid: u32,
    pub(super) payload: Vec<Bytes>,
    /// Whether the message ends here.
    pub(super) end: bool,
}

impl Piece {
    /// The payload in one.
    pub(super) fn joined(mut self) -> Bytes {
        if self.payload.len() == 1 {
            return self.payload.remove(0);
        }
        let mut whole = BytesMut::new();
        self.payload.iter().for_each(|part| whole.extend_from_slice(part));
        whole.freeze()
    }
}
