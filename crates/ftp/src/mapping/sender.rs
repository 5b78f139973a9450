//! The sending end of one data stream of braid.

use bytes::Bytes;

use super::TransferNumber;
use super::frame::{Credit, FrameError, Header, INITIAL_CREDIT, Trailer};

/// Counts what one side sends on one data stream: one transfer at a time, no further than its credit.
#[derive(Debug)]
pub struct Sender {
    stream: u16,
    /// Bytes of BYTES that may be sent in all.
    limit: u64,
    /// Bytes of BYTES that were sent in all.
    sent: u64,
    open: Option<Open>,
}

#[derive(Debug, Clone, Copy)]
struct Open {
    transfer: TransferNumber,
    length: u64,
}

impl Sender {
    /// The sending end of a stream on which nothing was sent.
    pub fn new(stream: u16) -> Self {
        Self { stream, limit: INITIAL_CREDIT, sent: 0, open: None }
    }

    /// The stream.
    pub fn stream(&self) -> u16 {
        self.stream
    }

    /// Begins a transfer: the payload of its HEADER.
    ///
    /// # Panics
    /// If one is open: on a stream they do not interleave.
    pub fn begin(&mut self, header: &Header) -> Bytes {
        assert!(self.open.is_none(), "one transfer at a time on a stream");
        self.open = Some(Open { transfer: header.transfer, length: 0 });
        header.encode()
    }

    /// Bytes of BYTES that may be sent now.
    pub fn room(&self) -> u64 {
        self.limit - self.sent
    }

    /// So many bytes of BYTES were given to the transport.
    ///
    /// # Panics
    /// If that is more than [`Self::room`], or no transfer is open.
    pub fn on_sent(&mut self, bytes: u64) {
        let open = self.open.as_mut().expect("bytes belong to a transfer");
        assert!(bytes <= self.limit - self.sent, "no more than the credit");
        self.sent += bytes;
        open.length += bytes;
    }

    /// Ends the transfer with a status and the digest of what was sent: the payload of its TRAILER.
    ///
    /// # Panics
    /// If none is open.
    pub fn finish(&mut self, status: u16, digest: [u8; 32]) -> Bytes {
        let Open { transfer, length } = self.open.take().expect("a transfer ends once");
        Trailer { transfer, status, length, digest }.encode()
    }

    /// The transfer that is open.
    pub fn transfer(&self) -> Option<TransferNumber> {
        self.open.map(|open| open.transfer)
    }

    /// The other side's CREDIT for this stream. One that is lower than before was overtaken and changes nothing.
    pub fn on_credit(&mut self, credit: Credit) -> Result<(), FrameError> {
        if credit.stream != self.stream {
            return Err(FrameError::Field);
        }
        self.limit = self.limit.max(credit.limit);
        Ok(())
    }
}
