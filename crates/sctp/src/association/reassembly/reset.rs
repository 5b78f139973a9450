//! The effect of stream and TSN resets on messages in reassembly (RFC 6525 §5.2.2, §5.2.4): immediately, or
//! once all messages before a TSN have arrived.

use super::Reassembly;
use crate::association::{Piece, Streams, Violation};
use crate::ids::{Ssn, StreamId, Tsn};
use crate::wire::Data;

/// Streams that are reset once all TSNs up to a given one have arrived (RFC 6525 §5.2.2 E2).
#[derive(Debug)]
pub(super) struct Deferred {
    last_tsn: Tsn,
    /// The same TSN, counted without wrapping.
    last: u64,
    streams: Streams,
    /// I-DATA chunks of these streams with higher TSNs.
    pub(super) held: Vec<Data>,
}

impl Deferred {
    /// The payloads held.
    pub(super) fn held(&self) -> impl Iterator<Item = &bytes::Bytes> {
        self.held.iter().map(|data| &data.payload)
    }

    /// Whether a chunk was sent after the reset.
    //= specs/rfc6525.txt#section-5.2.2
    //# In this mode, any data arriving with a TSN
    //# larger than the Sender's Last Assigned TSN for the affected
    //# stream(s) MUST be queued locally and held until the cumulative
    //# acknowledgment point reaches the Sender's Last Assigned TSN.
    pub(super) fn holds(&self, data: &Data) -> bool {
        data.tsn.after(self.last_tsn) && self.streams.contains(data.stream)
    }
}

impl Reassembly {
    /// Resets these streams. All of their messages that began have arrived.
    pub(in crate::association) fn reset(&mut self, streams: &Streams) -> Result<(), Violation> {
        if let Some(messages) = &mut self.interleaved {
            return messages.reset(streams);
        }
        if self.front.as_ref().is_some_and(|front| streams.contains(front.stream)) {
            return Err(Violation::MessageInterrupted);
        }
        for id in streams.up_to(self.streams.len()) {
            let stream = &mut self.streams[usize::from(id.0)];
            // All chunks arrived, and yet an earlier message of the stream is missing.
            if !stream.waiting.is_empty() {
                return Err(Violation::SsnOutOfStep);
            }
            stream.next_ssn = Ssn(0);
        }
        Ok(())
    }

    /// Resets these streams once all TSNs up to `last_tsn` have arrived, some of which are missing.
    pub(in crate::association) fn reset_behind(&mut self, last_tsn: Tsn, streams: Streams) {
        let last = self.never_wrapping(last_tsn);
        self.deferred = Some(Deferred { last_tsn, last, streams, held: Vec::new() });
    }

    /// Performs the deferred reset if all TSNs up to `cum_tsn` have arrived. Returns the streams, if
    /// they were reset since the last call.
    pub(in crate::association) fn settle_reset(
        &mut self,
        cum_tsn: Tsn,
    ) -> Result<Option<Streams>, Violation> {
        if let Some(deferred) = self.deferred.take_if(|deferred| !deferred.last_tsn.after(cum_tsn)) {
            self.perform(deferred)?;
        }
        Ok(self.reset_done.take())
    }

    /// All TSNs before `at` have arrived.
    pub(super) fn reset_before(&mut self, at: u64) -> Result<(), Violation> {
        match self.deferred.take_if(|deferred| deferred.last < at) {
            Some(deferred) => self.perform(deferred),
            None => Ok(()),
        }
    }

    fn perform(&mut self, deferred: Deferred) -> Result<(), Violation> {
        self.reset(&deferred.streams)?;
        //= specs/rfc6525.txt#section-5.2.2
        //# Any queued TSNs (queued at step E2) MUST now be released and
        //# processed normally.
        // DATA chunks of these streams wait with all others beyond the gap.
        if let Some(messages) = &mut self.interleaved {
            for data in deferred.held {
                let place = data.interleaved.expect("only I-DATA is held here");
                messages.push(&data, place, &mut self.inbox)?;
            }
        }
        self.reset_done = Some(deferred.streams);
        Ok(())
    }

    /// Whether the next chunk in sequence can belong to the current numbering, rather than to a new one.
    pub(in crate::association) fn expects(&self, data: &Data) -> bool {
        let index = usize::from(data.stream.0);
        match (&self.interleaved, data.interleaved) {
            (Some(messages), Some(place)) => data.unordered || messages.expects(data.stream, place.mid),
            _ => {
                let next_ssn = self.streams.get(index).map_or(Ssn(0), |stream| stream.next_ssn);
                self.front.is_some() || !data.begin || data.unordered || data.ssn == next_ssn
            }
        }
    }

    /// Whether a message is being delivered partially.
    pub(in crate::association) fn is_mid_message(&self) -> bool {
        self.front.as_ref().is_some_and(|front| front.in_pieces)
            || self.interleaved.as_ref().is_some_and(super::Messages::is_mid_message)
    }

    /// Resets all streams and TSNs. Incomplete messages are discarded, and those that waited for them
    /// are delivered.
    //= specs/rfc6525.txt#section-5.2.4
    //# The same processing as though a FWD-TSN chunk (as defined in
    //# [RFC3758]) with all streams affected and a new cumulative TSN
    //# ACK of the Receiver's Next TSN minus 1 were received MUST be
    //# performed.
    pub(in crate::association) fn restart(&mut self, next_tsn: Tsn) {
        self.next = 1 << 32;
        self.next_tsn = next_tsn;
        for data in self.deferred.take().into_iter().flat_map(|deferred| deferred.held) {
            self.inbox.forget(&data.payload);
        }
        if let Some(messages) = &mut self.interleaved {
            return messages.restart(&mut self.inbox);
        }
        self.may_continue_skipped = false;
        if let Some(front) = self.front.take() {
            front.fragments.iter().for_each(|payload| self.inbox.forget(payload));
            if front.in_pieces {
                let end = Piece::aborted(front.ppid, front.ssn.0.into(), super::order_of(front.unordered));
                self.inbox.abort(front.stream, end);
            }
        }
        for chunk in std::mem::take(&mut self.beyond).into_values() {
            self.inbox.forget(&chunk.data.payload);
        }
        for (index, stream) in std::mem::take(&mut self.streams).into_iter().enumerate() {
            let id = StreamId(index as u16);
            stream
                .behind
                .into_iter()
                .chain(stream.waiting.into_values())
                .for_each(|piece| self.inbox.add(id, piece));
        }
    }
}
