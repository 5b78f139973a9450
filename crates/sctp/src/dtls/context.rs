//! Keys of one epoch and direction, with usage counters (draft-ietf-tsvwg-sctp-dtls-chunk §2.1: DTLS Key
//! Context).

use std::fmt;

use bytes::BytesMut;

use super::record::{OpenError, Sealed, seal};
use super::replay::Replay;
use super::{CipherSuite, NONCE_LEN, RecordKey};
use crate::wire::Dtls;

/// The purpose of keys.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Purpose {
    /// Normal traffic of an association.
    Primary,
    /// Packets after the INIT ACK of a restart, until there are primary keys again.
    Restart,
}

/// Identifies keys of an association in one direction.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct KeysId {
    /// The purpose.
    pub purpose: Purpose,
    /// The epoch; the first one is 3.
    pub epoch: u64,
}

/// Keys for sending or receiving.
pub struct Keys {
    /// The cipher suite.
    pub suite: CipherSuite,
    /// The IV, which is combined with the record number to the nonce.
    pub iv: [u8; NONCE_LEN],
    /// The AEAD key and the record number key.
    pub key: Box<dyn RecordKey>,
}

impl fmt::Debug for Keys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Keys").field("suite", &self.suite).finish_non_exhaustive()
    }
}

/// Keys for sending.
#[derive(Debug)]
pub(crate) struct SendContext {
    pub(crate) id: KeysId,
    keys: Keys,
    /// The next record number.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-3.1
    //# Following the DTLS 1.3 specification {{RFC9147}} the
    //# first DTLS record for each epoch will use sequence number 0.
    next: u64,
}

impl SendContext {
    pub(crate) fn new(id: KeysId, keys: Keys) -> Self {
        Self { id, keys, next: 0 }
    }

    /// The number of records sealed.
    pub(crate) fn used(&self) -> u64 {
        self.next
    }

    /// Sets the number of records sealed.
    #[cfg(test)]
    pub(super) fn set_used_records(&mut self, records: u64) {
        self.next = records;
    }

    /// The maximum number of records to seal.
    pub(crate) fn limit(&self) -> u64 {
        self.keys.suite.records_max()
    }

    /// Turns the chunks after the blank header at `at` into a DTLS chunk.
    //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.2
    //# When an SCTP packet needs to be sent, the sequence of chunks is used
    //# as `DTLSInnerPlaintext.content` and `DTLSInnerPlaintext.type` is set
    //# to `application_data` {{RFC9147}}.
    pub(super) fn seal(&mut self, buffer: &mut BytesMut, at: usize) {
        let flags = if self.id.purpose == Purpose::Restart { Dtls::RESTART } else { 0 };
        seal(&self.keys, self.id.epoch, self.next, flags, buffer, at);
        self.next += 1;
    }
}

/// Keys for receiving.
#[derive(Debug)]
pub(crate) struct ReceiveContext {
    pub(crate) id: KeysId,
    keys: Keys,
    replay: Replay,
    /// The number of records opened.
    opened: u64,
    /// The number of records that failed authentication.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.3
    //# Implementations MUST count the number of received packets that fail
    //# authentication with each key.
    forged: u64,
}

impl ReceiveContext {
    /// Creates a context with a replay window of this many records.
    pub(crate) fn new(id: KeysId, keys: Keys, window: usize) -> Self {
        Self { id, keys, replay: Replay::new(window), opened: 0, forged: 0 }
    }

    /// The number of records opened.
    pub(crate) fn opened(&self) -> u64 {
        self.opened
    }

    /// The number of records that failed authentication.
    pub(crate) fn forged(&self) -> u64 {
        self.forged
    }

    /// Sets the numbers of records opened, all of them before the next one, and of failures.
    #[cfg(test)]
    pub(crate) fn set_used_records(&mut self, records: u64, forged: u64) {
        self.forged = forged;
        if let Some(last) = records.checked_sub(1) {
            self.replay.mark(last);
        }
    }

    /// The maximum number of failures.
    pub(crate) fn forged_limit(&self) -> u64 {
        self.keys.suite.forgeries_max()
    }

    /// The memory in bytes.
    pub(crate) fn memory_bytes(&self) -> usize {
        size_of::<Self>() + self.replay.memory_bytes()
    }

    /// Whether a record with these epoch bits may belong to this epoch.
    pub(crate) fn has_bits(&self, epoch_bits: u8) -> bool {
        self.id.epoch as u8 & 0b11 == epoch_bits
    }

    /// Appends the chunks of a record of this epoch to `out`, unless it is forged or replayed.
    pub(crate) fn open(&mut self, sealed: &Sealed<'_>, out: &mut BytesMut) -> Result<(), OpenError> {
        let start = out.len();
        let bits = sealed.number_bits(&self.keys);
        let mut failed = 0;
        let found = self.candidates(bits).find_map(|number| {
            let opened = sealed.open(&self.keys, number, out);
            failed += u64::from(opened == Err(OpenError::Forged));
            (opened != Err(OpenError::Forged)).then_some((number, opened))
        });
        let Some((number, opened)) = found else {
            self.forged += failed;
            return Err(OpenError::Forged);
        };
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
        //# This check SHOULD happen after
        //# deprotecting the record; otherwise, the record discard might itself
        //# serve as a timing channel for the record number.
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
        //# For each received record, the
        //# receiver MUST verify that the record contains a sequence number that
        //# does not duplicate the sequence number of any other record received
        //# in that epoch during the lifetime of the association.
        if !self.replay.is_new(number) {
            out.truncate(start);
            return Err(OpenError::Replayed);
        }
        //= specs/draft-ietf-tls-rfc9147bis.md#section-4.5.1
        //# The window MUST NOT be updated due to a received record until that
        //# record has been deprotected  successfully.
        self.replay.mark(number);
        self.opened += 1;
        opened
    }

    /// Returns the record numbers with these low bits, the most likely first. The most likely one alone
    /// would end an association after 2^15 consecutive losses, which are possible on a fast long path:
    /// every later record would be mistaken for an old one. So the next candidate is tried too, and the
    /// previous one if the window covers it.
    //= specs/draft-ietf-tls-rfc9147bis.md#section-4.2.2
    //# If the epoch bits match those of the current epoch, then
    //# implementations SHOULD reconstruct the sequence number by computing
    //# the full sequence number which is numerically closest to one plus the
    //# sequence number of the highest successfully deprotected record in the
    //# current epoch.
    // That number alone would end an association when 2^15 records in a row are lost, as a fast long path can lose at once: every
    // later record would be taken for one of before. So the next one is tried too, and the one before if the window reaches it.
    fn candidates(&self, bits: u16) -> impl Iterator<Item = u64> + use<> {
        const TURN: u64 = 1 << 16;
        let next = self.replay.next();
        let at_or_after = next + u64::from(bits.wrapping_sub(next as u16));
        let nearest =
            if at_or_after - next > TURN / 2 { at_or_after.checked_sub(TURN) } else { Some(at_or_after) };
        let nearest = nearest.unwrap_or(at_or_after);
        let edge = self.replay.edge();
        let before = nearest.checked_sub(TURN).filter(|number| *number >= edge);
        [Some(nearest), nearest.checked_add(TURN), before].into_iter().flatten()
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::dtls::tests::keys;

    fn context(window: usize, highest: u64) -> ReceiveContext {
        let id = KeysId { purpose: Purpose::Primary, epoch: 3 };
        let mut context = ReceiveContext::new(id, keys(1), window);
        context.replay.mark(highest);
        context
    }

    proptest! {
        #[test]
        fn the_record_number_nearest_to_the_highest_is_tried_first(
            highest in 0..u64::from(u32::MAX), offset in -32_767..=32_768_i64
        ) {
            let number = (highest + 1).saturating_add_signed(offset);
            let context = context(64, highest);
            prop_assert_eq!(context.candidates(number as u16).next(), Some(number));
        }

        #[test]
        fn a_record_number_2_to_the_16_ahead_is_tried(highest: u32, lost in 32_769..98_304_u64) {
            let number = u64::from(highest) + 1 + lost;
            let context = context(64, highest.into());
            prop_assert!(context.candidates(number as u16).any(|candidate| candidate == number));
        }
    }
}
