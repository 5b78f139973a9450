//! The receiving side of a data stream of braid: parses its messages, and counts credit.
//!
//! ```text
//! piece of a message --> handle --> poll --> Incoming: a header, content bytes, the end
//! ```
//! Content is passed on as it arrives. Of a message that ends with a digest, the last [`DIGEST_LENGTH`]
//! received bytes are held back: they may be the digest, until more of the message arrives.

use bytes::{Buf, Bytes, BytesMut};

use super::frame::{
    BREAK_LENGTH, Credit, DIGEST_LENGTH, Digest, FrameError, HEADER_LENGTH_MAX, Header, INITIAL_CREDIT,
};
use super::{TransferNumber, ppid};

/// Parses the messages of one data stream, and counts received and consumed bytes.
#[derive(Debug)]
pub struct Receiver {
    stream: u16,
    /// The credit granted, in total bytes.
    limit: u64,
    /// Total content bytes received.
    received: u64,
    /// Total content bytes consumed.
    consumed: u64,
    open: Option<Open>,
    /// The message that is being received.
    message: Option<Message>,
    /// The received part of the message that was not polled yet.
    payload: Bytes,
    /// The incomplete header, or the bytes that may be the digest or the status.
    held: BytesMut,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    transfer: TransferNumber,
    length: u64,
}

#[derive(Debug, Clone, Copy)]
struct Message {
    ppid: u32,
    part: Part,
    end: End,
}

/// The part of a message that is expected next.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Part {
    Header,
    Content(Tail),
    /// The status of a BREAK.
    Status,
}

/// What follows the content.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tail {
    Nothing,
    Digest,
}

/// A piece of an SCTP message: all of it, or a part of a partial delivery (RFC 9260 §6.9).
#[derive(Debug, Clone)]
pub struct Piece {
    /// The payload protocol identifier.
    pub ppid: u32,
    /// The bytes.
    pub payload: Bytes,
    /// Whether it is the last piece of the message.
    pub end: End,
}

/// Whether a piece is the last one of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// Further pieces follow.
    More,
    /// The message is complete.
    Last,
}

/// What a data stream delivers.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Incoming {
    /// Begins a transfer.
    Header(Header),
    /// Content of the open transfer. Hash and write it, then call [`Receiver::consume`] and
    /// [`CreditPool::grant`](super::pool::CreditPool::grant).
    Bytes(Bytes),
    /// Ends the transfer: its content was complete, and has this digest, which the caller compares.
    Complete(Digest),
    /// Ends the transfer: the sender aborted it, with a reply code of 400 to 599.
    Broken(u16),
}

impl Receiver {
    /// The receiver of a new stream, which has [`INITIAL_CREDIT`].
    pub fn new(stream: u16) -> Self {
        Self {
            stream,
            limit: INITIAL_CREDIT,
            received: 0,
            consumed: 0,
            open: None,
            message: None,
            payload: Bytes::new(),
            held: BytesMut::new(),
        }
    }

    /// The stream.
    pub fn stream(&self) -> u16 {
        self.stream
    }

    /// The open transfer.
    pub fn transfer(&self) -> Option<TransferNumber> {
        self.open.map(|open| open.transfer)
    }

    /// Processes the next piece of the stream; call [`Self::poll`] afterwards until it returns `None`. An
    /// error ends the association.
    ///
    /// # Panics
    ///
    /// If the previous piece was not polled to its end.
    pub fn handle(&mut self, piece: Piece) -> Result<(), FrameError> {
        assert!(self.payload.is_empty(), "a piece is looked at before the next one");
        let part = match self.message {
            Some(message) if message.ppid != piece.ppid => return Err(FrameError::Kind),
            Some(message) => message.part,
            None => self.first_part(piece.ppid)?,
        };
        self.message = Some(Message { ppid: piece.ppid, part, end: piece.end });
        self.payload = piece.payload;
        Ok(())
    }

    fn first_part(&self, kind: u32) -> Result<Part, FrameError> {
        let (part, begins) = match kind {
            ppid::WHOLE | ppid::FIRST => (Part::Header, true),
            ppid::BYTES => (Part::Content(Tail::Nothing), false),
            ppid::LAST => (Part::Content(Tail::Digest), false),
            ppid::BREAK => (Part::Status, false),
            _ => return Err(FrameError::Kind),
        };
        if begins == self.open.is_some() { Err(FrameError::Order) } else { Ok(part) }
    }

    /// Returns the next part of the piece; `None` at its end. An error ends the association.
    pub fn poll(&mut self) -> Result<Option<Incoming>, FrameError> {
        let Some(message) = self.message else { return Ok(None) };
        let incoming = match message.part {
            Part::Header => self.poll_header(message)?,
            Part::Content(Tail::Nothing) => {
                let content = std::mem::take(&mut self.payload);
                self.pass_on(content)?
            }
            Part::Content(Tail::Digest) => self.poll_before_digest(message)?,
            Part::Status => self.poll_status(message)?,
        };
        if incoming.is_none() && message.end == End::Last {
            self.message = None;
        }
        Ok(incoming)
    }

    fn poll_header(&mut self, message: Message) -> Result<Option<Incoming>, FrameError> {
        let before = self.held.len();
        let more = self.payload.len().min(HEADER_LENGTH_MAX - before);
        self.held.extend_from_slice(&self.payload[..more]);
        let Some((header, length)) = Header::decode(&self.held)? else {
            self.payload.clear();
            return if message.end == End::Last { Err(FrameError::Length) } else { Ok(None) };
        };
        // The bytes held before are shorter than the header.
        self.payload.advance(length - before);
        self.held.clear();
        let tail = if message.ppid == ppid::WHOLE { Tail::Digest } else { Tail::Nothing };
        self.message = Some(Message { part: Part::Content(tail), ..message });
        self.open = Some(Open { transfer: header.transfer, length: 0 });
        Ok(Some(Incoming::Header(header)))
    }

    /// Passes on all received bytes except the last [`DIGEST_LENGTH`].
    fn poll_before_digest(&mut self, message: Message) -> Result<Option<Incoming>, FrameError> {
        let beyond = (self.held.len() + self.payload.len()).saturating_sub(DIGEST_LENGTH);
        if beyond > 0 && !self.held.is_empty() {
            let content = self.held.split_to(beyond.min(self.held.len())).freeze();
            return self.pass_on(content);
        }
        let content = self.payload.split_to(beyond);
        self.held.extend_from_slice(&std::mem::take(&mut self.payload));
        if !content.is_empty() {
            return self.pass_on(content);
        }
        if message.end == End::More {
            return Ok(None);
        }
        let digest = self.held.split();
        let digest = digest[..].try_into().map_err(|_| FrameError::Length)?;
        (self.open, self.message) = (None, None);
        Ok(Some(Incoming::Complete(digest)))
    }

    fn poll_status(&mut self, message: Message) -> Result<Option<Incoming>, FrameError> {
        if self.held.len() + self.payload.len() > BREAK_LENGTH {
            return Err(FrameError::Length);
        }
        self.held.extend_from_slice(&std::mem::take(&mut self.payload));
        if message.end == End::More {
            return Ok(None);
        }
        let status = self.held.split();
        let status = u16::from_be_bytes(status[..].try_into().map_err(|_| FrameError::Length)?);
        (self.open, self.message) = (None, None);
        if (400..600).contains(&status) { Ok(Some(Incoming::Broken(status))) } else { Err(FrameError::Field) }
    }

    /// Counts content of the open transfer.
    fn pass_on(&mut self, content: Bytes) -> Result<Option<Incoming>, FrameError> {
        let bytes = content.len() as u64;
        if bytes == 0 {
            return Ok(None);
        }
        if bytes > self.limit - self.received {
            return Err(FrameError::Credit);
        }
        self.received += bytes;
        self.open.as_mut().ok_or(FrameError::Order)?.length += bytes;
        Ok(Some(Incoming::Bytes(content)))
    }

    /// Content bytes of the open transfer that were received; 0 without one.
    pub fn transferred(&self) -> u64 {
        self.open.map_or(0, |open| open.length)
    }

    /// The credit in use, in bytes: granted and not received, or received and not consumed.
    pub fn granted(&self) -> u64 {
        self.limit - self.consumed
    }

    /// Records that bytes were written or discarded.
    pub fn consume(&mut self, bytes: u64) {
        self.consumed += bytes;
        debug_assert!(self.consumed <= self.received, "consumed bytes have been received");
    }

    /// Raises the limit so that `window` bytes, at least [`INITIAL_CREDIT`], are unconsumed. Returns the
    /// credit to send, if it is due: a CREDIT is sent per quarter of the window, not for every packet.
    pub(super) fn credit(&mut self, window: u64) -> Option<Credit> {
        let window = window.max(INITIAL_CREDIT);
        let limit = self.consumed.saturating_add(window);
        if limit < self.limit.saturating_add(window / 4) {
            return None;
        }
        self.limit = limit;
        Some(Credit { stream: self.stream, limit })
    }
}
