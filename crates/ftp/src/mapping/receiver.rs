//! The receiving side of a data stream of braid. Credit is granted by the streams' [`pool`](super::pool).

use bytes::BytesMut;

use super::frame::{Credit, FrameError, Header, INITIAL_CREDIT, TRAILER_LENGTH, Trailer};
use super::{TransferNumber, ppid};

/// Validates the frames of one data stream, and counts received and consumed bytes.
#[derive(Debug)]
pub struct Receiver {
    stream: u16,
    /// The credit granted, in total bytes.
    limit: u64,
    /// Total bytes received.
    received: u64,
    /// Total bytes consumed.
    consumed: u64,
    open: Option<Open>,
    /// An incomplete HEADER or TRAILER.
    partial: BytesMut,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    transfer: TransferNumber,
    length: u64,
}

/// A piece of an SCTP message: all of it, or a part of a partial delivery (RFC 9260 §6.9).
#[derive(Debug, Clone, Copy)]
pub struct Piece<'a> {
    /// The payload protocol identifier.
    pub ppid: u32,
    /// The bytes.
    pub payload: &'a [u8],
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

/// The contents of a piece.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Incoming {
    /// Begins a transfer.
    Header(Header),
    /// Bytes of the open transfer. Hash and write them, then call [`Receiver::consume`] and
    /// [`CreditPool::grant`](super::pool::CreditPool::grant).
    Bytes,
    /// Ends the transfer. `length` has been compared with the received bytes; the caller compares the
    /// digest.
    Trailer(Trailer, Lengths),
    /// Part of an incomplete frame.
    Nothing,
}

/// Whether the trailer's length equals the number of received bytes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Lengths {
    /// Equal.
    Agree,
    /// Different: the transfer is damaged.
    Differ,
}

impl Receiver {
    /// The receiver of a new stream, which has [`INITIAL_CREDIT`].
    pub fn new(stream: u16) -> Self {
        Self { stream, limit: INITIAL_CREDIT, received: 0, consumed: 0, open: None, partial: BytesMut::new() }
    }

    /// The stream.
    pub fn stream(&self) -> u16 {
        self.stream
    }

    /// The open transfer.
    pub fn transfer(&self) -> Option<TransferNumber> {
        self.open.map(|open| open.transfer)
    }

    /// Processes the next piece of the stream. An error ends the association.
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

    /// Bytes of the open transfer that were received; 0 without one.
    pub fn transferred(&self) -> u64 {
        self.open.map_or(0, |open| open.length)
    }

    /// Bytes of credit that are not consumed: granted and not received, or received and not consumed.
    pub fn granted(&self) -> u64 {
        self.limit - self.consumed
    }

    /// Records that bytes were written or discarded.
    pub fn consume(&mut self, bytes: u64) {
        self.consumed += bytes;
        debug_assert!(self.consumed <= self.received, "consumed bytes have been received");
    }

    /// Lets `window` bytes be unconsumed, at least [`INITIAL_CREDIT`]. Returns the credit to send, if it is due: a CREDIT is sent
    /// per quarter of the window, not for every packet.
    pub(super) fn credit(&mut self, window: u64) -> Option<Credit> {
        let window = window.max(INITIAL_CREDIT);
        let limit = self.consumed.saturating_add(window);
        if limit < self.limit.saturating_add(window / 4) {
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
