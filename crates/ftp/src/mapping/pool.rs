//! Division of a receive buffer among the data streams of a braid association, as credit
//! (specs/ftp-over-sctp.md §6.6).
//!
//! Ordered delivery holds back everything on a stream behind a lost packet, so the credit of a stream bounds
//! its rate: one large file on a long lossy path needs several bandwidth-delay products. A stream with a
//! large transfer therefore gets the credit that other streams do not use. Rules:
//!
//! - Each stream keeps at least [`INITIAL_CREDIT`], and a stream with a transfer keeps an equal share.
//! - Only a transfer of which more than [`INITIAL_CREDIT`] bytes were received gets more than the equal
//!   share, since credit cannot be revoked.
//! - The credit granted and not consumed, over all streams, is at most the buffer.

use super::frame::{Credit, INITIAL_CREDIT};
use super::receiver::Receiver;

/// The credit that the data streams of an association share.
#[derive(Debug)]
pub struct CreditPool {
    /// The size of the shared buffer in bytes.
    bytes: u64,
    streams: Vec<Share>,
}

/// The share of one stream.
#[derive(Debug, Clone, Copy)]
struct Share {
    /// Bytes granted and not consumed.
    granted: u64,
    is_transferring: bool,
}

impl CreditPool {
    /// Creates a pool of `bytes` for the data streams 1 to `streams`, each of which has [`INITIAL_CREDIT`].
    pub fn new(streams: u16, bytes: u64) -> Self {
        let share = Share { granted: INITIAL_CREDIT, is_transferring: false };
        Self { bytes, streams: vec![share; usize::from(streams)] }
    }

    /// Sets the size of the buffer in bytes. Granted credit is not revoked.
    pub fn set_bytes(&mut self, bytes: u64) {
        self.bytes = bytes;
    }

    /// Takes in the state of a stream after bytes were consumed or a transfer ended. Returns the credit to send, if it is due.
    ///
    /// # Panics
    /// If the pool was not created for this stream.
    pub fn grant(&mut self, receiver: &mut Receiver) -> Option<Credit> {
        let own = usize::from(receiver.stream()) - 1;
        let equal = (self.bytes / self.streams.len() as u64).max(INITIAL_CREDIT);
        let kept =
            |share: &Share| share.granted.max(if share.is_transferring { equal } else { INITIAL_CREDIT });
        let others = self.streams.iter().enumerate().filter(|(at, _)| *at != own);
        let unused = self.bytes.saturating_sub(others.map(|(_, share)| kept(share)).sum());
        let is_large = receiver.transferred() > INITIAL_CREDIT;
        let window = if is_large { unused } else { unused.min(equal) };
        //= specs/ftp-over-sctp.md#section-6.6
        //# MUST NOT let granted and unused credit exceed its receive buffer.
        let credit = receiver.credit(window);
        let is_transferring = receiver.transfer().is_some();
        self.streams[own] = Share { granted: receiver.granted(), is_transferring };
        credit
    }

    /// Whether a stream has a transfer.
    #[cfg(test)]
    pub(super) fn is_transferring(&self, stream: u16) -> bool {
        self.streams[usize::from(stream) - 1].is_transferring
    }
}
