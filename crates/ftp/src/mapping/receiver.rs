//! The receiving end of one data stream of braid.

use bytes::BytesMut;

use super::frame::{Credit, FrameError, Header, INITIAL_CREDIT, TRAILER_LENGTH, Trailer};
use super::{TransferNumber, ppid};

/// Checks what one data stream brings and gives credit for what was consumed.
#[derive(Debug)]
pub struct Receiver {
    stream: u16,
    /// Bytes of BYTES that the other side was told it may send in all.
    limit: u64,
    /// Bytes of BYTES that came.
    received: u64,
    /// Bytes of BYTES that were taken out of memory.
    consumed: u64,
    /// Bytes that may lie here unconsumed.
    window: u64,
    open: Option<Open>,
    /// A HEADER or TRAILER that comes in pieces.
    partial: BytesMut,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    transfer: TransferNumber,
    length: u64,
}

/// A piece of an SCTP message: all of it, or what the transport could give so far (RFC 9260 §6.9).
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The message's payload protocol identifier.
    pub ppid: u32,
    /// The bytes.
    pub payload: &'a [u8],
    /// Whether the message ends with it.
    pub end: End,
}

/// Whether a piece is the last of its message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum End {
    /// More of the same message follows.
    More,
    /// The message is whole.
    Last,
}

/// What a piece was.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// A transfer begins.
    Header(Header),
    /// The piece is bytes of the open transfer. Hash and write them, then [`Receiver::consume`].
    Bytes,
    /// The transfer ends. `length` was compared with what came; the digest is the caller's to compare.
    Trailer(Trailer, Lengths),
    /// Part of a frame that is not whole yet.
    Nothing,
}

/// Whether the trailer's length is what came.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// It is.
    Agree,
    /// It is not: the transfer is damaged.
    Differ,
}

impl Receiver {
    /// The receiving end of a stream on which nothing came, that lets `window` bytes lie unconsumed (at least
    /// [`INITIAL_CREDIT`], which the other side may assume).
    pub fn new(stream: u16, window: u64) -> Self {
        Self {
            stream,
            limit: INITIAL_CREDIT,
            received: 0,
            consumed: 0,
            window: window.max(INITIAL_CREDIT),
            open: None,
            partial: BytesMut::new(),
        }
    }

    /// The transfer that is open.
    pub fn transfer(&self) -> Option<TransferNumber> {
        self.open.map(|open| open.transfer)
    }

    /// Takes the next piece that the stream brings. An error ends the association.
    pub fn on_piece(&mut self, piece: Piece<'_>) -> Result<Incoming, FrameError> {
        match piece.ppid {
            ppid::BYTES => {
                let open = self.open.as_mut().ok_or(FrameError::Order)?;
                let bytes = piece.payload.len() as u64;
                if bytes > self.limit - self.received {
                    return Err(FrameError::Credit);
                }
                self.received += bytes;
                open.length += bytes;
                Ok(Incoming::Bytes)
            }
            ppid::HEADER | ppid::TRAILER => {
                if self.partial.len() + piece.payload.len() > TRAILER_LENGTH {
                    return Err(FrameError::Length);
                }
                self.partial.extend_from_slice(piece.payload);
                if piece.end == End::More {
                    return Ok(Incoming::Nothing);
                }
                let frame = self.partial.split();
                if piece.ppid == ppid::HEADER { self.on_header(&frame) } else { self.on_trailer(&frame) }
            }
            _ => Err(FrameError::Kind),
        }
    }

    /// So many bytes were written away, or thrown away. The credit to send for it, if one is due.
    pub fn consume(&mut self, bytes: u64) -> Option<Credit> {
        self.consumed += bytes;
        debug_assert!(self.consumed <= self.received, "nothing is consumed before it came");
        self.credit()
    }

    /// Lets another number of bytes lie unconsumed from now on. The credit to send for it, if one is due.
    pub fn set_window(&mut self, window: u64) -> Option<Credit> {
        self.window = window.max(INITIAL_CREDIT);
        self.credit()
    }

    /// A quarter of the window is worth a message; less would be a CREDIT for every packet.
    fn credit(&mut self) -> Option<Credit> {
        let limit = self.consumed.saturating_add(self.window);
        if limit < self.limit.saturating_add(self.window / 4) {
            return None;
        }
        self.limit = limit;
        Some(Credit { stream: self.stream, limit })
    }

    fn on_header(&mut self, frame: &[u8]) -> Result<Incoming, FrameError> {
        let header = Header::decode(frame)?;
        if self.open.is_some() {
            return Err(FrameError::Order);
        }
        self.open = Some(Open { transfer: header.transfer, length: 0 });
        Ok(Incoming::Header(header))
    }

    fn on_trailer(&mut self, frame: &[u8]) -> Result<Incoming, FrameError> {
        let trailer = Trailer::decode(frame)?;
        let open = self.open.take().ok_or(FrameError::Order)?;
        if open.transfer != trailer.transfer {
            return Err(FrameError::WrongTransfer);
        }
        let lengths = if open.length == trailer.length { Lengths::Agree } else { Lengths::Differ };
        Ok(Incoming::Trailer(trailer, lengths))
    }
}
