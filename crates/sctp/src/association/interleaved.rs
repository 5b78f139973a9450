//! Reassembly of messages from I-DATA chunks (RFC 8260 §2.2.3): by stream, message and fragment number,
//! independent of TSNs.
//!
//! Each stream may have an incomplete message, so the receive buffer can fill with incomplete ones. When
//! half of it is in use and nothing can be read, every message that is next in its stream is delivered
//! partially.

use std::collections::BTreeMap;

use bytes::Bytes;

use crate::association::inbox::Inbox;
use crate::association::{Order, Piece, Streams, Violation};
use crate::ids::{Ppid, StreamId, Tsn};
use crate::wire::{Data, Interleaved, SkippedMid};

/// The undelivered messages of all streams.
//= specs/rfc8260.txt#section-2.2.3
//# The receiver MUST NOT make any assumption about the TSN assignments of
//# the sender.
#[derive(Debug)]
pub(super) struct Messages {
    /// By stream number, up to the highest one used.
    streams: Vec<Stream>,
    /// The charged bytes from which messages are delivered partially if nothing can be read.
    partial_at_bytes: usize,
    /// The maximum number of bytes held while nothing can be read.
    held_max_bytes: usize,
}

#[derive(Debug, Default)]
struct Stream {
    /// The MID of the next ordered message.
    next_mid: u32,
    ordered: BTreeMap<u32, Partial>,
    unordered: BTreeMap<u32, Partial>,
    /// The message that is being delivered partially.
    in_pieces: Option<(Order, u32)>,
    /// The last ordered and the last unordered message that the peer abandoned; further fragments of
    /// them are dropped.
    skipped: [Option<u32>; 2],
    /// Complete unordered messages that wait for the end of the partial delivery.
    behind: Vec<Piece>,
}

/// A message with at least one fragment received and not delivered.
#[derive(Debug, Default)]
struct Partial {
    ppid: Ppid,
    /// The fragments by number, counted without wrapping, each with its TSN.
    fragments: BTreeMap<u64, (Tsn, Bytes)>,
    /// The number of fragments delivered partially.
    delivered: u64,
    /// The number of the last fragment, once it has arrived.
    last: Option<u64>,
}

impl Partial {
    fn add(&mut self, data: &Data, fsn: u32) -> Result<(), Violation> {
        //= specs/rfc8260.txt#section-2.1
        //# For the FSN, the serial number arithmetic defined in [RFC1982]
        //# applies with SERIAL_BITS = 32.
        let ahead = fsn.wrapping_sub(self.delivered as u32);
        let at = self.delivered + u64::from(ahead);
        // Only the first fragment has number 0; no fragment arrives twice, or beyond the last one.
        let twice = ahead >= 1 << 31 || self.fragments.contains_key(&at);
        let beyond = self.last.is_some_and(|last| data.end || at > last)
            || (data.end && self.fragments.last_key_value().is_some_and(|(highest, _)| *highest > at));
        if data.begin != (at == 0) || twice || beyond {
            return Err(Violation::FragmentOutOfPlace);
        }
        if data.begin {
            self.ppid = data.ppid;
        }
        if data.end {
            self.last = Some(at);
        }
        self.fragments.insert(at, (data.tsn, data.payload.clone()));
        Ok(())
    }

    fn is_whole(&self) -> bool {
        self.last.is_some_and(|last| self.delivered + self.fragments.len() as u64 == last + 1)
    }

    /// Bytes of the fragments that follow on those delivered.
    fn run_bytes(&self) -> usize {
        let run = (self.delivered..).map_while(|at| self.fragments.get(&at));
        run.map(|(_, fragment)| fragment.len()).sum()
    }

    /// Takes the fragments that follow on those delivered.
    fn take_run(&mut self, order: Order, mid: u32) -> Option<Piece> {
        let begin = self.delivered == 0;
        let tsn = self.fragments.get(&self.delivered)?.0;
        let mut payload = Vec::new();
        while let Some((_, fragment)) = self.fragments.remove(&self.delivered) {
            payload.push(fragment);
            self.delivered += 1;
        }
        let end = self.last.is_some_and(|last| self.delivered > last);
        Some(Piece { ppid: self.ppid, tsn, number: mid, payload, begin, end, aborted: false, order })
    }
}

impl Stream {
    fn partial(&mut self, order: Order, mid: u32) -> &mut Partial {
        match order {
            Order::Ordered => self.ordered.entry(mid).or_default(),
            Order::Unordered => self.unordered.entry(mid).or_default(),
        }
    }

    fn forget(&mut self, order: Order, mid: u32) {
        match order {
            Order::Ordered => self.ordered.remove(&mid),
            Order::Unordered => self.unordered.remove(&mid),
        };
    }

    /// Delivers the ordered messages that are next.
    fn release(&mut self, id: StreamId, inbox: &mut Inbox) {
        while self.in_pieces.is_none() && self.ordered.get(&self.next_mid).is_some_and(Partial::is_whole) {
            let mut partial = self.ordered.remove(&self.next_mid).expect("it was just looked at");
            let mid = self.next_mid;
            inbox.add(id, partial.take_run(Order::Ordered, mid).expect("a message has a fragment"));
            self.next_mid = self.next_mid.wrapping_add(1);
        }
    }

    /// Delivers the next fragments of the partially delivered message.
    fn deliver_next_pieces(&mut self, id: StreamId, inbox: &mut Inbox) {
        let Some((order, mid)) = self.in_pieces else { return };
        let Some(piece) = self.partial(order, mid).take_run(order, mid) else { return };
        let end = piece.end;
        inbox.add(id, piece);
        if end {
            self.forget(order, mid);
            if order == Order::Ordered {
                self.next_mid = self.next_mid.wrapping_add(1);
            }
            self.end_pieces(id, inbox);
        }
    }

    /// The partially delivered message has ended: delivers those that waited for it.
    fn end_pieces(&mut self, id: StreamId, inbox: &mut Inbox) {
        self.deliver_held(id, inbox);
        self.release(id, inbox);
    }

    /// The partial delivery has ended: delivers complete unordered messages that waited for it.
    fn deliver_held(&mut self, id: StreamId, inbox: &mut Inbox) {
        self.in_pieces = None;
        for piece in std::mem::take(&mut self.behind) {
            inbox.add(id, piece);
        }
    }

    /// Whether the peer abandoned this message.
    fn has_skipped(&self, order: Order, mid: u32) -> bool {
        let skipped = self.skipped[order as usize];
        match order {
            // Earlier ones were delivered or abandoned with it.
            Order::Ordered => skipped.is_some_and(|last| last.wrapping_sub(mid) < 1 << 31),
            Order::Unordered => skipped == Some(mid),
        }
    }

    /// The peer abandoned the messages up to this one, which is not before `next_mid` if it is ordered.
    fn skip_to(&mut self, id: StreamId, order: Order, mid: u32, inbox: &mut Inbox) {
        self.skipped[order as usize] = Some(mid);
        let next_mid = self.next_mid;
        let (messages, first) = match order {
            Order::Ordered => (&mut self.ordered, next_mid),
            // Serial arithmetic: the half of the number space before it.
            Order::Unordered => (&mut self.unordered, mid.wrapping_sub((1 << 31) - 1)),
        };
        let place = |mid: u32| mid.wrapping_sub(first);
        let mut gone: Vec<u32> = messages.keys().copied().filter(|key| place(*key) <= place(mid)).collect();
        gone.sort_unstable_by_key(|key| place(*key));
        if order == Order::Ordered {
            self.next_mid = mid.wrapping_add(1);
        }
        for mid in gone {
            let messages = if order == Order::Ordered { &mut self.ordered } else { &mut self.unordered };
            let mut partial = messages.remove(&mid).expect("it was just found");
            if self.in_pieces == Some((order, mid)) {
                partial.fragments.values().for_each(|(_, payload)| inbox.forget(payload));
                inbox.abort(id, Piece::aborted(partial.ppid, mid, order));
                // Messages that are next in order follow the partially delivered message.
                self.deliver_held(id, inbox);
            } else if partial.is_whole() {
                let piece = partial.take_run(order, mid).expect("a message has a fragment");
                if self.in_pieces.is_some() {
                    self.behind.push(piece);
                } else {
                    inbox.add(id, piece);
                }
            } else {
                partial.fragments.values().for_each(|(_, payload)| inbox.forget(payload));
            }
        }
        self.release(id, inbox);
    }
}

impl Messages {
    /// Creates the state before any message has arrived.
    pub(super) fn new(receive_buffer_bytes: usize) -> Self {
        Self {
            streams: Vec::new(),
            partial_at_bytes: receive_buffer_bytes / 2,
            held_max_bytes: 2 * receive_buffer_bytes,
        }
    }

    /// Sets the size of the receive buffer before any message has arrived.
    pub(super) fn admit(&mut self, receive_buffer_bytes: usize) {
        self.partial_at_bytes = receive_buffer_bytes / 2;
        self.held_max_bytes = 2 * receive_buffer_bytes;
    }

    /// The receive buffer has grown, and with it the limit on undeliverable data. The threshold of
    /// partial delivery stays.
    pub(super) fn set_receive_buffer(&mut self, bytes: usize) {
        self.held_max_bytes = 2 * bytes;
    }

    /// Bytes of the incomplete messages that are next in their streams, up to the first gap.
    pub(super) fn partial_bytes(&self) -> usize {
        let next = |stream: &Stream| {
            let ordered = stream.ordered.get(&stream.next_mid);
            ordered.into_iter().chain(stream.unordered.values()).map(Partial::run_bytes).sum::<usize>()
        };
        self.streams.iter().map(next).sum()
    }

    /// The memory of the streams in bytes, without the data held.
    pub(super) fn streams_memory_bytes(&self) -> usize {
        self.streams.len() * size_of::<Stream>()
    }

    /// Adds a new chunk; the inbox was already charged for it.
    pub(super) fn push(
        &mut self,
        data: &Data,
        Interleaved { mid, fsn }: Interleaved,
        inbox: &mut Inbox,
    ) -> Result<(), Violation> {
        //= specs/rfc8260.txt#section-2.2.3
        //# the receiver MUST first use the
        //# SID to identify the stream, consider the U bit to determine if it is
        //# part of an ordered or unordered message, find the user message
        //# identified by the MID, and use the FSN for reassembly of the message
        //# and not the TSN.
        let id = data.stream;
        let index = usize::from(id.0);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, Stream::default);
        }
        let stream = &mut self.streams[index];
        let order = if data.unordered { Order::Unordered } else { Order::Ordered };
        if stream.has_skipped(order, mid) {
            inbox.forget(&data.payload);
            return Ok(());
        }
        if order == Order::Ordered && mid.wrapping_sub(stream.next_mid) >= 1 << 31 {
            return Err(Violation::MidOutOfStep);
        }
        let in_pieces = stream.in_pieces;
        let partial = stream.partial(order, mid);
        partial.add(data, fsn)?;
        if in_pieces == Some((order, mid)) {
            stream.deliver_next_pieces(id, inbox);
        } else if order == Order::Ordered {
            stream.release(id, inbox);
        } else if partial.is_whole() {
            let piece = partial.take_run(order, mid).expect("a message has a fragment");
            stream.forget(order, mid);
            if in_pieces.is_some() {
                stream.behind.push(piece);
            } else {
                inbox.add(id, piece);
            }
        }
        if inbox.charged_bytes() >= self.partial_at_bytes {
            self.deliver_partially(inbox);
        }
        //= specs/rfc8260.txt#section-2.2.2
        //# The sender MUST assign TSNs to I-DATA chunks in a way that the
        //# receiver can make progress.
        // Beyond the limit, only the next TSN is accepted, and only if nothing can be read: something
        // must be readable now.
        let full_before = inbox.charged_bytes() - inbox.cost(&data.payload).min(inbox.charged_bytes());
        if full_before >= self.held_max_bytes && inbox.readable().is_none() {
            return Err(Violation::NoProgress);
        }
        Ok(())
    }

    /// Appends the charge and the bytes of everything held.
    pub(super) fn check(&self, inbox: &Inbox, held: &mut Vec<(usize, usize)>) {
        for stream in &self.streams {
            let partials = stream.ordered.values().chain(stream.unordered.values());
            let fragments =
                partials.flat_map(|partial| partial.fragments.values()).map(|(_, payload)| payload);
            let behind = stream.behind.iter().flat_map(|piece| &piece.payload);
            held.extend(fragments.chain(behind).map(|payload| (inbox.cost(payload), payload.len())));
        }
    }

    /// The peer abandoned the messages of a stream up to this one (RFC 8260 §2.3.1). Messages of a
    /// stream and order have their TSNs in the order of their MIDs, so no earlier one can be completed
    /// either.
    //= specs/rfc8260.txt#section-2.3.1
    //# Therefore, the principle applied to
    //# ordered messages when using FORWARD-TSN chunks is applied to ordered
    //# and unordered messages when using I-FORWARD-TSN chunks.
    pub(super) fn skip_to(
        &mut self,
        SkippedMid { stream: id, unordered, mid }: SkippedMid,
        inbox: &mut Inbox,
    ) {
        let index = usize::from(id.0);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, Stream::default);
        }
        let stream = &mut self.streams[index];
        let order = if unordered { Order::Unordered } else { Order::Ordered };
        if order == Order::Unordered || mid.wrapping_sub(stream.next_mid) < 1 << 31 {
            stream.skip_to(id, order, mid, inbox);
        }
    }

    /// Resets these streams (RFC 6525 §5.2.2 E3). All of their messages that began have arrived.
    pub(super) fn reset(&mut self, streams: &Streams) -> Result<(), Violation> {
        for id in streams.up_to(self.streams.len()) {
            let stream = &mut self.streams[usize::from(id.0)];
            if !stream.ordered.is_empty() || !stream.unordered.is_empty() {
                return Err(Violation::MessageInterrupted);
            }
            *stream = Stream::default();
        }
        Ok(())
    }

    /// Whether an ordered message with this MID may arrive.
    pub(super) fn expects(&self, stream: StreamId, mid: u32) -> bool {
        self.streams.get(usize::from(stream.0)).map_or(mid < 1 << 31, |stream| {
            mid.wrapping_sub(stream.next_mid) < 1 << 31 || stream.has_skipped(Order::Ordered, mid)
        })
    }

    /// Whether a message is being delivered partially.
    pub(super) fn is_mid_message(&self) -> bool {
        self.streams.iter().any(|stream| stream.in_pieces.is_some())
    }

    /// Resets all streams. Incomplete messages are discarded, and those that waited for them are
    /// delivered.
    pub(super) fn restart(&mut self, inbox: &mut Inbox) {
        for (index, stream) in std::mem::take(&mut self.streams).into_iter().enumerate() {
            let id = StreamId(index as u16);
            let in_pieces = stream.in_pieces;
            let ordered = stream.ordered.into_iter().map(|(mid, partial)| (Order::Ordered, mid, partial));
            let unordered =
                stream.unordered.into_iter().map(|(mid, partial)| (Order::Unordered, mid, partial));
            for (order, mid, mut partial) in ordered.chain(unordered) {
                if in_pieces != Some((order, mid)) && partial.is_whole() {
                    inbox.add(id, partial.take_run(order, mid).expect("it has a fragment"));
                    continue;
                }
                partial.fragments.values().for_each(|(_, payload)| inbox.forget(payload));
                if in_pieces == Some((order, mid)) {
                    inbox.abort(id, Piece::aborted(partial.ppid, mid, order));
                }
            }
            stream.behind.into_iter().for_each(|piece| inbox.add(id, piece));
        }
    }

    /// The buffer is filling: if nothing can be read, messages are delivered partially.
    pub(super) fn deliver_partially(&mut self, inbox: &mut Inbox) {
        if inbox.readable().is_some() {
            return;
        }
        for (index, stream) in self.streams.iter_mut().enumerate() {
            if stream.in_pieces.is_some() {
                continue;
            }
            let begun = |partial: &Partial| partial.fragments.contains_key(&0);
            let next = stream.ordered.get(&stream.next_mid).filter(|partial| begun(partial));
            let unordered = || stream.unordered.iter().find(|(_, partial)| begun(partial));
            stream.in_pieces = match next {
                Some(_) => Some((Order::Ordered, stream.next_mid)),
                None => unordered().map(|(mid, _)| (Order::Unordered, *mid)),
            };
            stream.deliver_next_pieces(StreamId(index as u16), inbox);
        }
    }
}

#[cfg(test)]
#[path = "tests/interleaved.rs"]
mod tests;
