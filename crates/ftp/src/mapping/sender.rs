//! The sending side of a data stream of braid.

use std::cmp::Reverse;

use bytes::Bytes;

use super::TransferNumber;
use super::frame::{Credit, FrameError, Header, INITIAL_CREDIT, Trailer};

/// Returns the stream on which the next transfer should begin, among free streams and their [`Sender::room`]: the one with the
/// most credit left, the lowest of several.
//= specs/ftp-over-sctp.md#section-6.6
//# A sender SHOULD begin a transfer on the free stream with the most credit left.
pub fn freest(free: impl IntoIterator<Item = (u16, u64)>) -> Option<u16> {
    let best = free.into_iter().max_by_key(|(stream, room)| (*room, Reverse(*stream)));
    best.map(|(stream, _)| stream)
}

/// Counts the bytes sent on one data stream: one transfer at a time, within its credit.
#[derive(Debug)]
pub struct Sender {
    stream: u16,
    /// The credit, in total bytes.
    limit: u64,
    /// Total bytes sent.
    sent: u64,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    transfer: TransferNumber,
    length: u64,
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

    /// Begins a transfer; returns the payload of its HEADER.
    ///
    /// # Panics
    /// If a transfer is open: transfers of a stream do not interleave.
    pub fn begin(&mut self, header: &Header) -> Bytes {
        assert!(self.open.is_none(), "one transfer at a time on a stream");
        self.open = Some(Open { transfer: header.transfer, length: 0 });
        header.encode()
    }

    /// The number of bytes that may be sent now.
    pub fn room(&self) -> u64 {
        self.limit - self.sent
    }

    /// Records that bytes were passed to the transport.
    ///
    /// # Panics
    /// If they exceed [`Self::room`], or no transfer is open.
    pub fn on_sent(&mut self, bytes: u64) {
        let open = self.open.as_mut().expect("bytes belong to a transfer");
        assert!(bytes <= self.limit - self.sent, "no more than the credit");
        self.sent += bytes;
        open.length += bytes;
    }

    /// Ends the transfer; returns the payload of its TRAILER.
    ///
    /// # Panics
    /// If no transfer is open.
    pub fn finish(&mut self, status: u16, digest: [u8; 32]) -> Bytes {
        let Open { transfer, length } = self.open.take().expect("a transfer ends once");
        Trailer { transfer, status, length, digest }.encode()
    }

    /// The open transfer.
    pub fn transfer(&self) -> Option<TransferNumber> {
        self.open.map(|open| open.transfer)
    }

    /// Processes the peer's CREDIT for this stream. A lower one than before was reordered and is ignored.
    pub fn on_credit(&mut self, credit: Credit) -> Result<(), FrameError> {
        if credit.stream != self.stream {
            return Err(FrameError::Field);
        }
        self.limit = self.limit.max(credit.limit);
        Ok(())
    }
}
