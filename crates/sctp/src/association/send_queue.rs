//! Messages waiting to be sent, by stream; `scheduler` selects the stream.
//!
//! A message is fragmented into DATA chunks when it is sent (RFC 9260 §6.9), at the size that fits then;
//! the caller assigns TSNs. The fragments of a message are sent without any other chunk in between.
//!
//! Streams to be reset hold back the messages queued after the request until its result is known (RFC 6525
//! §5.1.2 A1).

use crate::config::Scheduler;
use std::collections::VecDeque;

use braidftp_base::Time;
use bytes::Bytes;

use crate::association::partial::policy::{Abandoned, Policy, Terms};
use crate::association::scheduler::{Arrival, GivenUp, Left, Turns};
use crate::association::{Message, Order, Streams};
use crate::ids::{Ppid, Ssn, StreamId};
use crate::wire::{Data, Interleaved};

/// The overhead in bytes charged to the send buffer for each queued message, which limits the number of
/// small ones.
pub(super) const MESSAGE_OVERHEAD_BYTES: usize = 64;

/// The memory of a queued message with this many bytes.
pub(super) const fn memory_cost(bytes: usize) -> usize {
    bytes + size_of::<Queued>()
}

/// A fragment of a message.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Fragment {
    pub(super) stream: StreamId,
    pub(super) ssn: Ssn,
    pub(super) ppid: Ppid,
    pub(super) payload: Bytes,
    pub(super) begin: bool,
    pub(super) end: bool,
    pub(super) unordered: bool,
    /// The partial reliability of its message.
    pub(super) terms: Terms,
    /// Its message and fragment numbers, with interleaving.
    pub(super) interleaved: Option<Interleaved>,
}

/// A queued message whose lifetime has expired.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Stale {
    /// No part of it was sent.
    Whole(StreamId),
    /// A part of it was sent.
    Rest(StreamId),
}

/// A queued message with a priority.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Prioritized {
    pub(super) priority: u32,
    stream: StreamId,
    /// Its position among all messages.
    pub(super) arrival: Arrival,
    /// Its charge to the send buffer.
    pub(super) bytes: usize,
}

#[derive(Debug)]
struct Queued {
    arrival: Arrival,
    ppid: Ppid,
    /// The rest that has not been sent.
    rest: Bytes,
    unordered: bool,
    terms: Terms,
    begun: bool,
    /// The number of fragments sent; may wrap.
    fsn: u32,
}

#[derive(Debug, Default)]
struct Stream {
    messages: VecDeque<Queued>,
    //= specs/rfc9260.txt#section-6.5
    //# The Stream Sequence Number in all the outgoing streams MUST start from
    //# 0 when the association is established.
    next_ssn: Ssn,
    /// The next numbers of ordered and unordered messages.
    next_mid: [u32; 2],
    queued_bytes: usize,
    /// If messages are held back: the last one that is not. A message that has begun is never held back.
    held_behind: Option<Arrival>,
}

impl Stream {
    /// Whether its first message may be sent, if there is one.
    fn may_send(&self) -> bool {
        self.messages.front().is_some_and(|message| {
            message.begun || self.held_behind.is_none_or(|mark| message.arrival <= mark)
        })
    }

    /// Whether its numbers are those of an unused stream.
    fn is_fresh(&self) -> bool {
        self.next_ssn == Ssn(0) && self.next_mid == [0; 2]
    }
}

/// Which messages of a held stream are still sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hold {
    /// Those queued now.
    BehindTheQueued,
    /// Those of which a part was sent.
    BehindTheBegun,
}

/// The queued messages of all streams.
#[derive(Debug)]
pub(super) struct SendQueue {
    /// By stream number, up to the highest used.
    streams: Vec<Stream>,
    turns: Turns,
    interleaving: bool,
    queued_bytes: usize,
    messages: usize,
    /// How unused streams are held.
    all_held_behind: Option<Arrival>,
    /// Messages whose lifetime begins at the next known time.
    fresh: Vec<(StreamId, Arrival)>,
    /// The number of messages with a priority.
    prioritized: usize,
}

impl SendQueue {
    /// Creates an empty queue.
    pub(super) fn new(scheduler: Scheduler) -> Self {
        Self::with(Turns::new(scheduler))
    }

    fn with(turns: Turns) -> Self {
        Self {
            streams: Vec::new(),
            turns,
            interleaving: false,
            queued_bytes: 0,
            messages: 0,
            all_held_behind: None,
            fresh: Vec::new(),
            prioritized: 0,
        }
    }

    /// Resets everything except the streams' scheduling values.
    pub(super) fn emptied(&self) -> Self {
        Self::with(self.turns.emptied())
    }

    /// Sets the scheduling value of a stream.
    pub(super) fn set_value(&mut self, stream: StreamId, value: u16) {
        self.turns.set_value(stream, value);
    }

    /// Uses I-DATA from now on; nothing was sent yet.
    pub(super) fn interleave(&mut self) {
        self.interleaving = true;
        self.turns.interleave();
    }

    /// The chunk type of the fragments.
    pub(super) fn data_kind(&self) -> u8 {
        if self.interleaving { Data::INTERLEAVED_KIND } else { Data::KIND }
    }

    /// The length of a chunk header.
    pub(super) fn header_len(&self) -> usize {
        if self.interleaving { Data::INTERLEAVED_HEADER_LEN } else { Data::HEADER_LEN }
    }

    /// A packet begins.
    pub(super) fn begin_packet(&mut self) {
        self.turns.begin_packet();
    }

    /// Appends a non-empty message.
    pub(super) fn push(&mut self, stream: StreamId, message: Message) {
        let index = usize::from(stream.0);
        if self.streams.len() <= index {
            let held_behind = self.all_held_behind;
            self.streams.resize_with(index + 1, || Stream { held_behind, ..Stream::default() });
        }
        let queue = &mut self.streams[index];
        let arrival = self.turns.arrival();
        if queue.messages.is_empty() && queue.held_behind.is_none() {
            self.turns.join(stream, arrival);
        }
        queue.queued_bytes += message.payload.len();
        self.queued_bytes += message.payload.len();
        self.messages += 1;
        let terms = Terms { policy: message.reliability.into(), context: message.context };
        self.prioritized += usize::from(terms.is_prioritized());
        if matches!(terms.policy, Policy::Lifetime(_)) {
            self.fresh.push((stream, arrival));
        }
        queue.messages.push_back(Queued {
            arrival,
            ppid: message.ppid,
            rest: message.payload,
            unordered: message.order == Order::Unordered,
            terms,
            begun: false,
            fsn: 0,
        });
    }

    /// The length of the rest of the message that `next` would fragment.
    pub(super) fn peek_len(&self) -> Option<usize> {
        let stream = self.turns.turn()?;
        Some(self.streams[usize::from(stream.0)].messages.front()?.rest.len())
    }

    /// Takes the next fragment, of at most `max` bytes.
    //= specs/rfc3758.txt#section-4.1
    //# IMPLEMENTATION NOTE: An implementation SHOULD
    //# delay TSN assignment as mentioned in RFC 2960 [2] Section 10.1.
    pub(super) fn next(&mut self, max: usize) -> Option<Fragment> {
        let stream = self.turns.turn()?;
        let queue = &mut self.streams[usize::from(stream.0)];
        //= specs/rfc8260.txt#section-2.2.2
        //# The sender MUST NOT process (move user data into I-DATA chunks and
        //# assign a TSN to it) more than one user message in any given stream at
        //# any time.
        let message = queue.messages.front_mut()?;
        //= specs/rfc9260.txt#section-6.9
        //# 3)  The transmitter MUST also set the B/E bits of the first DATA
        //# chunk in the series to 10, the B/E bits of the last DATA chunk in
        //# the series to 01, and the B/E bits of all other DATA chunks in
        //# the series to 00.
        //= specs/rfc9260.txt#section-3.3.1
        //# An unfragmented user message MUST have both the B and E bits set to 1.
        //= specs/rfc8260.txt#section-2.2.2
        //# The first fragment MUST have the B bit set.
        //= specs/rfc8260.txt#section-2.2.2
        //# All other fragments MUST NOT have the B or E bit set.
        let begin = !message.begun;
        //= specs/rfc8260.txt#section-2.1
        //# The last fragment of a message MUST have the E bit set.
        //= specs/rfc8260.txt#section-2.2.2
        //# The last fragment MUST have the E bit set.
        let end = message.rest.len() <= max;
        let payload = if end { std::mem::take(&mut message.rest) } else { message.rest.split_to(max) };
        message.begun = true;
        //= specs/rfc9260.txt#section-3.3.1
        //# If an unordered user message is fragmented, each fragment of the
        //# message MUST have its U bit set to 1.
        //= specs/rfc9260.txt#section-6.9
        //# If the user indicates that the user message is to be delivered using
        //# unordered delivery, then the U flag of each DATA chunk of the user
        //# message MUST be set to 1.
        let (ppid, unordered, terms) = (message.ppid, message.unordered, message.terms);
        //= specs/rfc9260.txt#section-6.5
        //# For unordered user
        //# messages, the Stream Sequence Number MUST NOT be changed.
        //= specs/rfc9260.txt#section-3.3.1
        //# When a user message is fragmented by SCTP for transport, the same
        //# Stream Sequence Number MUST be carried in each of the fragments of the
        //# message.
        let ssn = queue.next_ssn;
        //= specs/rfc8260.txt#section-2.1
        //# The sender uses two counters for
        //# each outgoing stream: one for ordered messages and one for
        //# unordered messages.
        let mid = &mut queue.next_mid[usize::from(unordered)];
        //= specs/rfc8260.txt#section-2.2.1
        //# If user message interleaving support has not been negotiated for an
        //# association, DATA chunks MUST be used for all user messages and I-DATA
        //# chunks MUST NOT be used.
        let interleaved = self.interleaving.then_some(Interleaved { mid: *mid, fsn: message.fsn });
        message.fsn = message.fsn.wrapping_add(1);
        if end {
            *mid = mid.wrapping_add(1);
        }
        queue.queued_bytes -= payload.len();
        self.queued_bytes -= payload.len();
        if end {
            queue.messages.pop_front();
            self.messages -= 1;
            self.prioritized -= usize::from(terms.is_prioritized());
            if !unordered {
                //= specs/rfc9260.txt#section-6.5
                //# The Stream Sequence
                //# Number of an outgoing stream MUST be incremented by 1 for each
                //# ordered user message sent on that outgoing stream.  In particular,
                //# when the Stream Sequence Number reaches the value 65535, the next
                //# Stream Sequence Number MUST be set to 0.
                queue.next_ssn = queue.next_ssn.next();
            }
        }
        let left = match queue.messages.front() {
            Some(_) if !end => Left::Rest,
            Some(next) if queue.may_send() => Left::Message(next.arrival),
            _ => Left::Nothing,
        };
        self.turns.cut(stream, payload.len(), left);
        Some(Fragment { stream, ssn, ppid, payload, begin, end, unordered, terms, interleaved })
    }

    /// Starts the lifetimes of messages queued since the last call.
    pub(super) fn begin_lifetimes(&mut self, now: Time) {
        for (stream, arrival) in self.fresh.drain(..) {
            let messages = &mut self.streams[usize::from(stream.0)].messages;
            if let Ok(index) = messages.binary_search_by_key(&arrival, |message| message.arrival)
                && let Policy::Lifetime(lifetime) = messages[index].terms.policy
            {
                messages[index].terms.policy = Policy::Until(now + lifetime);
            }
        }
    }

    /// The message whose turn it is, if its lifetime has expired.
    pub(super) fn stale(&self, now: Time) -> Option<Stale> {
        let stream = self.turns.turn()?;
        let message = self.streams[usize::from(stream.0)].messages.front()?;
        match message.terms.policy {
            Policy::Until(end) if end <= now => {
                Some(if message.begun { Stale::Rest(stream) } else { Stale::Whole(stream) })
            }
            _ => None,
        }
    }

    /// Abandons the first message of a stream; returns the fragment that would have been sent next. If a
    /// part was sent, its number remains used.
    pub(super) fn give_up(&mut self, stream: StreamId) -> Fragment {
        self.remove(stream, 0)
    }

    fn remove(&mut self, stream: StreamId, index: usize) -> Fragment {
        let queue = &mut self.streams[usize::from(stream.0)];
        let message = queue.messages.remove(index).expect("the caller checked that it exists");
        let Queued { ppid, unordered, terms, begun, fsn, .. } = message;
        let mid = &mut queue.next_mid[usize::from(unordered)];
        let interleaved = self.interleaving.then_some(Interleaved { mid: *mid, fsn });
        let ssn = queue.next_ssn;
        if begun {
            *mid = mid.wrapping_add(1);
            if !unordered {
                queue.next_ssn = ssn.next();
            }
        }
        queue.queued_bytes -= message.rest.len();
        self.queued_bytes -= message.rest.len();
        self.messages -= 1;
        self.prioritized -= usize::from(terms.is_prioritized());
        let next = queue.messages.front().filter(|_| queue.may_send()).map(|next| next.arrival);
        if index == 0 {
            self.turns.give_up(stream, if begun { GivenUp::Rest } else { GivenUp::Whole }, next);
        }
        let (begin, payload) = (!begun, message.rest);
        Fragment { stream, ssn, ppid, payload, begin, end: true, unordered, terms, interleaved }
    }

    /// The messages with a priority number above `least`, in order within each stream.
    pub(super) fn prioritized(&self, least: u32) -> Vec<Prioritized> {
        if self.prioritized == 0 {
            return Vec::new();
        }
        let mut found = Vec::new();
        for (index, queue) in self.streams.iter().enumerate() {
            for message in &queue.messages {
                if let Policy::Priority(priority) = message.terms.policy
                    && priority > least
                {
                    found.push(Prioritized {
                        priority,
                        stream: StreamId(index as u16),
                        arrival: message.arrival,
                        bytes: message.rest.len() + MESSAGE_OVERHEAD_BYTES,
                    });
                }
            }
        }
        found
    }

    /// Abandons such a message.
    pub(super) fn give_up_prioritized(&mut self, victim: Prioritized) -> Option<Fragment> {
        let messages = &self.streams[usize::from(victim.stream.0)].messages;
        let index = messages.binary_search_by_key(&victim.arrival, |message| message.arrival).ok()?;
        Some(self.remove(victim.stream, index))
    }

    /// The number of messages queued or partly sent.
    pub(super) fn waiting(&self) -> impl Iterator<Item = Abandoned> {
        self.streams.iter().zip(0..).flat_map(|(stream, id)| {
            stream.messages.iter().map(move |message| Abandoned {
                stream: StreamId(id),
                ppid: message.ppid,
                order: if message.unordered { Order::Unordered } else { Order::Ordered },
                context: message.terms.context,
                was_sent: message.begun,
            })
        })
    }

    /// Whether no message is queued.
    pub(super) fn is_empty(&self) -> bool {
        self.messages == 0
    }

    /// Whether no message may be sent: none is queued, or all are held back.
    pub(super) fn is_idle(&self) -> bool {
        self.turns.is_empty()
    }

    /// Holds back further messages on these streams.
    pub(super) fn hold(&mut self, streams: &Streams, hold: Hold) {
        let mark = match hold {
            Hold::BehindTheQueued => self.turns.arrival(),
            Hold::BehindTheBegun => Arrival::NONE,
        };
        if let Streams::These(list) = streams {
            let used = list.iter().map(|id| usize::from(id.0) + 1).max().unwrap_or(0);
            if self.streams.len() < used {
                self.streams.resize_with(used, Stream::default);
            }
        } else {
            self.all_held_behind = Some(mark);
        }
        for id in streams.up_to(self.streams.len()) {
            let stream = &mut self.streams[usize::from(id.0)];
            stream.held_behind = Some(mark);
            if !stream.may_send() {
                self.turns.withdraw(id);
            }
        }
    }

    /// Releases these streams.
    pub(super) fn release(&mut self, streams: &Streams) {
        if matches!(streams, Streams::All) {
            self.all_held_behind = None;
        }
        for id in streams.up_to(self.streams.len()) {
            let stream = &mut self.streams[usize::from(id.0)];
            let waited = !stream.may_send();
            stream.held_behind = None;
            if let Some(first) = stream.messages.front().filter(|_| waited) {
                self.turns.join(id, first.arrival);
            }
        }
    }

    /// Whether nothing on these streams may be sent because they are held.
    pub(super) fn has_only_held(&self, streams: &Streams) -> bool {
        streams.up_to(self.streams.len()).all(|id| !self.streams[usize::from(id.0)].may_send())
    }

    /// Whether nothing was sent on these streams since they began or were reset, and nothing is queued.
    pub(super) fn is_fresh(&self, streams: &Streams) -> bool {
        streams.up_to(self.streams.len()).all(|id| {
            let stream = &self.streams[usize::from(id.0)];
            stream.is_fresh() && stream.messages.is_empty()
        })
    }

    /// Restarts the numbers of these streams at 0. None of their messages has begun.
    pub(super) fn reset(&mut self, streams: &Streams) {
        for id in streams.up_to(self.streams.len()) {
            let stream = &mut self.streams[usize::from(id.0)];
            debug_assert!(!stream.messages.front().is_some_and(|message| message.begun));
            stream.next_ssn = Ssn(0);
            //= specs/rfc8260.txt#section-2.3.2
            //# When an association resets the SSN using the SCTP extension defined
            //# in [RFC6525], the two counters (one for the ordered messages, one for
            //# the unordered messages) used for the MIDs MUST be reset to 0.
            stream.next_mid = [0; 2];
        }
    }

    /// Bytes queued on all streams.
    pub(super) fn queued_bytes(&self) -> usize {
        self.queued_bytes
    }

    /// The send buffer charged for the queued messages.
    pub(super) fn charged_bytes(&self) -> usize {
        self.queued_bytes + self.messages * MESSAGE_OVERHEAD_BYTES
    }

    /// The memory of the queued messages with their bookkeeping, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        self.queued_bytes + self.messages * size_of::<Queued>()
    }

    /// Frees unused memory.
    pub(super) fn trim(&mut self) {
        self.streams.iter_mut().for_each(|stream| stream.messages.shrink_to_fit());
        self.fresh.shrink_to_fit();
    }

    /// Bytes queued on one stream.
    pub(super) fn stream_queued_bytes(&self, stream: StreamId) -> usize {
        self.streams.get(usize::from(stream.0)).map_or(0, |stream| stream.queued_bytes)
    }

    /// The highest stream with a queued message.
    pub(super) fn highest_stream(&self) -> Option<StreamId> {
        self.turns.highest()
    }

    /// Checks the invariants.
    pub(super) fn check(&self) {
        let messages: usize = self.streams.iter().map(|stream| stream.messages.len()).sum();
        let mut bytes = 0;
        for stream in &self.streams {
            let queued: usize = stream.messages.iter().map(|message| message.rest.len()).sum();
            assert_eq!(queued, stream.queued_bytes);
            bytes += queued;
        }
        assert_eq!((messages, bytes), (self.messages, self.queued_bytes));
        let ready = self.streams.iter().filter(|stream| stream.may_send()).count();
        assert_eq!(self.turns.len(), ready, "a stream with a message has a turn unless it is held back");
        let all = self.streams.iter().flat_map(|stream| &stream.messages);
        assert_eq!(all.filter(|message| message.terms.is_prioritized()).count(), self.prioritized);
    }

    /// Discards all messages.
    pub(super) fn clear(&mut self) {
        *self = self.emptied();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(len: usize, order: Order) -> Message {
        Message { order, ..Message::new(Ppid(7), vec![0; len]) }
    }

    fn queue(messages: &[(u16, usize)]) -> SendQueue {
        let mut queue = SendQueue::new(Scheduler::RoundRobin);
        for &(stream, len) in messages {
            queue.push(StreamId(stream), message(len, Order::Ordered));
        }
        queue
    }

    fn drain(queue: &mut SendQueue, max: usize) -> Vec<(u16, u16, usize, bool, bool)> {
        std::iter::from_fn(|| queue.next(max))
            .map(|f| (f.stream.0, f.ssn.0, f.payload.len(), f.begin, f.end))
            .collect()
    }

    #[test]
    fn streams_alternate_message_by_message() {
        let mut queue = queue(&[(0, 10), (0, 11), (3, 12), (3, 13), (1, 14)]);
        let streams: Vec<_> = drain(&mut queue, 100).iter().map(|f| (f.0, f.2)).collect();
        assert_eq!(streams, [(0, 10), (3, 12), (1, 14), (0, 11), (3, 13)]);
        assert!(queue.is_empty());
    }

    #[test]
    fn the_fragments_of_a_message_are_consecutive() {
        let mut queue = queue(&[(0, 250), (1, 10)]);
        assert_eq!(
            drain(&mut queue, 100),
            [
                (0, 0, 100, true, false),
                (0, 0, 100, false, false),
                (0, 0, 50, false, true),
                (1, 0, 10, true, true)
            ]
        );
    }

    #[test]
    fn only_ordered_messages_advance_the_stream_sequence_number() {
        //= specs/rfc9260.txt#section-6.5
        //= type=test
        //# The Stream Sequence Number of an outgoing stream MUST be incremented
        //# by 1 for each ordered user message sent on that outgoing stream.
        //= specs/rfc9260.txt#section-6.5
        //= type=test
        //# For unordered user messages, the Stream Sequence Number MUST NOT be
        //# changed.
        let mut queue = SendQueue::new(Scheduler::RoundRobin);
        for order in [Order::Ordered, Order::Unordered, Order::Ordered] {
            queue.push(StreamId(0), message(1, order));
        }
        let numbers: Vec<_> = std::iter::from_fn(|| queue.next(9)).map(|f| (f.unordered, f.ssn.0)).collect();
        assert_eq!(numbers, [(false, 0), (true, 1), (false, 1)]);
    }

    #[test]
    fn the_stream_sequence_number_wraps() {
        //= specs/rfc9260.txt#section-6.5
        //= type=test
        //# In particular, when the Stream Sequence Number reaches the value
        //# 65535, the next Stream Sequence Number MUST be set to 0.
        let mut queue = queue(&[(0, 1)]);
        queue.streams[0].next_ssn = Ssn(65_535);
        queue.push(StreamId(0), message(1, Order::Ordered));
        let numbers: Vec<_> = drain(&mut queue, 9).iter().map(|f| f.1).collect();
        assert_eq!(numbers, [65_535, 0]);
    }

    #[test]
    fn bytes_are_counted_until_they_are_sent() {
        let mut queue = queue(&[(0, 250), (2, 10)]);
        assert_eq!((queue.queued_bytes(), queue.stream_queued_bytes(StreamId(0))), (260, 250));
        assert_eq!(queue.charged_bytes(), 260 + 2 * MESSAGE_OVERHEAD_BYTES);
        queue.next(100);
        assert_eq!((queue.queued_bytes(), queue.stream_queued_bytes(StreamId(0))), (160, 150));
        assert_eq!(queue.highest_stream(), Some(StreamId(2)));
        drain(&mut queue, 100);
        assert_eq!((queue.queued_bytes(), queue.charged_bytes()), (0, 0));
    }
}
