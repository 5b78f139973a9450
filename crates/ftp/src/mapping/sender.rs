//! The sending side of a data stream of braid: frames transfers within the credit.

use std::cmp::Reverse;

use bytes::{Bytes, BytesMut};

use super::frame::{
    BYTES_MAX, Credit, DIGEST_LENGTH, Digest, FrameError, HEADER_LENGTH_MAX, Header, INITIAL_CREDIT,
};
use super::{TransferNumber, ppid};

/// A data stream without an open transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Free {
    /// The stream.
    pub stream: u16,
    /// The remaining credit, in bytes.
    pub room: u64,
    /// Total content bytes sent on it.
    pub sent: u64,
}

/// Returns the stream on which the next transfer should begin. Of the streams whose credit covers most of the
/// transfer (`bytes`, if known), it is the one that has carried the least, so that short files alternate
/// between streams and a lost packet delays few of them.
//= specs/ftp-over-sctp.md#section-6.6
//# A sender SHOULD begin a transfer on a free stream whose credit covers all of it, and alternate among such streams
pub fn freest(free: impl IntoIterator<Item = Free>, bytes: Option<u64>) -> Option<u16> {
    let bytes = bytes.unwrap_or(u64::MAX);
    let best =
        free.into_iter().max_by_key(|free| (free.room.min(bytes), Reverse(free.sent), Reverse(free.stream)));
    best.map(|free| free.stream)
}

/// Frames the transfers of one data stream: one transfer at a time, within its credit.
#[derive(Debug)]
pub struct Sender {
    stream: u16,
    /// The credit, in total bytes.
    limit: u64,
    /// Total content bytes sent.
    sent: u64,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    header: Header,
    begun: Begun,
}

/// Whether a message of the transfer was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Begun {
    No,
    Yes,
}

/// How a message continues or ends its transfer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Then {
    /// Further messages follow.
    More,
    /// The transfer is complete, with this digest.
    Complete(Digest),
}

/// A message to be sent, ordered, on its data stream.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Frame {
    /// The payload protocol identifier.
    pub ppid: u32,
    /// The payload.
    pub payload: Bytes,
    /// The content bytes in it.
    pub content_bytes: u64,
}

impl Frame {
    /// Whether this frame ends its transfer.
    pub fn is_last(&self) -> bool {
        matches!(self.ppid, ppid::WHOLE | ppid::LAST | ppid::BREAK)
    }
}

impl Sender {
    /// The sender of a new stream.
    pub fn new(stream: u16) -> Self {
        Self { stream, limit: INITIAL_CREDIT, sent: 0, open: None }
    }

    /// The stream.
    pub fn stream(&self) -> u16 {
        self.stream
    }

    /// Begins a transfer. The first frame contains the header.
    ///
    /// # Panics
    ///
    /// If a transfer is open: transfers of a stream do not interleave.
    pub fn begin(&mut self, header: Header) {
        assert!(self.open.is_none(), "one transfer at a time on a stream");
        self.open = Some(Open { header, begun: Begun::No });
    }

    /// The stream as a candidate for the next transfer; `None` while a transfer is open.
    pub fn free(&self) -> Option<Free> {
        let free = Free { stream: self.stream, room: self.room(), sent: self.sent };
        self.open.is_none().then_some(free)
    }

    /// The number of content bytes that may be sent now.
    pub fn room(&self) -> u64 {
        self.limit - self.sent
    }

    /// Makes the next frame of the open transfer, or `None` where it would be empty. Call [`Self::on_sent`] when the transport
    /// has taken it.
    ///
    /// # Panics
    /// If `content` exceeds [`Self::room`] or [`BYTES_MAX`], or no transfer is open.
    //= specs/ftp-over-sctp.md#section-6.3
    //# A sender SHOULD send the digest in the message of the last content bytes, and the header in that of the first
    pub fn frame(&self, content: Bytes, ending: Then) -> Option<Frame> {
        let open = self.open.expect("content belongs to a transfer");
        let content_bytes = content.len() as u64;
        assert!(content_bytes <= self.room(), "no more than the credit");
        assert!(content.len() <= BYTES_MAX, "no more than a message takes");
        let kind = match (open.begun, ending) {
            (Begun::No, Then::Complete(_)) => ppid::WHOLE,
            (Begun::No, Then::More) => ppid::FIRST,
            (Begun::Yes, Then::Complete(_)) => ppid::LAST,
            (Begun::Yes, Then::More) if content.is_empty() => return None,
            // No header and no digest: the content is sent without a copy.
            (Begun::Yes, Then::More) => {
                return Some(Frame { ppid: ppid::BYTES, payload: content, content_bytes });
            }
        };
        let room = HEADER_LENGTH_MAX + content.len() + DIGEST_LENGTH;
        let mut payload = BytesMut::with_capacity(room);
        if open.begun == Begun::No {
            payload.extend_from_slice(&open.header.encode());
        }
        payload.extend_from_slice(&content);
        if let Then::Complete(digest) = ending {
            payload.extend_from_slice(&digest);
        }
        Some(Frame { ppid: kind, payload: payload.freeze(), content_bytes })
    }

    /// Builds the frame that aborts the open transfer with a reply code of 400 to 599. If nothing of the transfer was sent,
    /// there is no frame, and the transfer is dropped.
    ///
    /// # Panics
    /// If no transfer is open.
    pub fn break_off(&mut self, status: u16) -> Option<Frame> {
        let open = self.open.take_if(|open| open.begun == Begun::No);
        if open.is_some() {
            return None;
        }
        assert!(self.open.is_some(), "a transfer ends once");
        let payload = Bytes::copy_from_slice(&status.to_be_bytes());
        Some(Frame { ppid: ppid::BREAK, payload, content_bytes: 0 })
    }

    /// Records that the transport has taken a frame.
    ///
    /// # Panics
    /// If no transfer is open.
    pub fn on_sent(&mut self, frame: &Frame) {
        let open = self.open.as_mut().expect("a frame belongs to a transfer");
        open.begun = Begun::Yes;
        self.sent += frame.content_bytes;
        if frame.is_last() {
            self.open = None;
        }
    }

    /// The open transfer.
    pub fn transfer(&self) -> Option<TransferNumber> {
        self.open.map(|open| open.header.transfer)
    }

    /// Processes the peer's CREDIT for this stream. A limit below an earlier one was reordered, and is
    /// ignored.
    pub fn on_credit(&mut self, credit: Credit) -> Result<(), FrameError> {
        if credit.stream != self.stream {
            return Err(FrameError::Field);
        }
        self.limit = self.limit.max(credit.limit);
        Ok(())
    }
}
