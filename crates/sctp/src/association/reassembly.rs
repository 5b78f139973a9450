//! Reassembly of messages from DATA chunks (RFC 9260 §6.6, §6.9): delivered in order within a stream, or
//! unordered once complete.
//!
//! The fragments of a message have consecutive TSNs, so the sequence of received TSNs has at most one
//! incomplete message at its end, the *front*. Chunks beyond a gap wait in a map, in which each run of
//! fragments of one message knows its two ends. A message that is complete there need not wait for the gap.
//! Contradictory chunks are reported as violations.
//!
//! Messages abandoned by the peer (RFC 3758 §3.6) are removed without a trace.
//!
//! `interleaved` reassembles I-DATA chunks, which do not depend on TSNs.
//!
//! Each chunk held costs its bytes and `Config.legacy.chunk_overhead_bytes` until `recv` takes it.

mod reset;

use std::collections::{BTreeMap, VecDeque};

use bytes::Bytes;

use crate::association::inbox::{Aside, Inbox};
use crate::association::interleaved::Messages;
use crate::association::{Order, Piece, Streams, Violation};
use crate::config::CHUNK_OVERHEAD_BYTES;
use crate::ids::{Ppid, Ssn, StreamId, Tsn};
use crate::wire::{Data, SkippedMid};

/// The maximum memory of a chunk besides its bytes: its entry in a half-full tree or queue, the
/// message's list of chunks, and the allocation of a copied payload.
pub(super) const CHUNK_MEMORY_BYTES: usize = 256;

/// The maximum memory of an I-DATA chunk besides its bytes, which may have a tree of its own.
pub(super) const INTERLEAVED_CHUNK_MEMORY_BYTES: usize = 1_024;

/// The maximum number of bytes of datagrams kept allocated by small payloads, since nothing was held.
const KEPT_DATAGRAMS_BYTES: usize = 256 << 10;

/// If the endpoint grants the association less memory than this, no datagram is kept for small payloads.
pub(super) const KEPT_DATAGRAMS_ROOM_BYTES: usize = 1 << 20;

/// The maximum charge for a chunk: the contents of a packet.
pub(super) const CHUNK_MAX_BYTES: usize = 65_536 + CHUNK_OVERHEAD_BYTES;

/// Chunks and messages between arrival and `recv`.
//= specs/rfc9260.txt#section-6
//# The fragmentation and bundling mechanisms, as detailed in Sections 6.9
//# and 6.10, are OPTIONAL to implement by the data sender, but they MUST
//# be implemented by the data receiver, i.e., an endpoint MUST properly
//# receive and process bundled or fragmented data.
//= specs/rfc9260.txt#section-6.9
//# An endpoint MAY support fragmentation when sending DATA chunks, but it
//# MUST support reassembly when receiving DATA chunks.
#[derive(Debug)]
pub(super) struct Reassembly {
    /// The next TSN in sequence, counted from far below the initial one so that it never wraps.
    next: u64,
    /// The next TSN in sequence as on the wire.
    next_tsn: Tsn,
    front: Option<Front>,
    /// Whether the next chunk in sequence may be the rest of an abandoned message, which is dropped as
    /// well.
    may_continue_skipped: bool,
    /// Chunks beyond a gap.
    beyond: BTreeMap<u64, Beyond>,
    /// By stream number, up to the highest one used.
    streams: Vec<Stream>,
    inbox: Inbox,
    /// All messages, if the peer sends I-DATA.
    interleaved: Option<Messages>,
    /// The charged bytes from which the front message is delivered partially.
    partial_at_bytes: usize,
    /// Streams that are reset once all chunks before a TSN have arrived.
    deferred: Option<reset::Deferred>,
    /// Streams that were reset since the last query.
    reset_done: Option<Streams>,
}

/// The incomplete message at the end of the sequence of received TSNs.
#[derive(Debug)]
struct Front {
    stream: StreamId,
    ssn: Ssn,
    /// The TSN of the first fragment.
    tsn: Tsn,
    ppid: Ppid,
    unordered: bool,
    fragments: Vec<Bytes>,
    charged_bytes: usize,
    /// Whether its first piece has been delivered.
    in_pieces: bool,
}

#[derive(Debug)]
struct Beyond {
    data: Data,
    /// For the first or last chunk of a run of fragments: the other end of the run.
    other_end: u64,
}

#[derive(Debug, Default)]
struct Stream {
    next_ssn: Ssn,
    /// Ordered messages that wait for earlier ones, by their distance from the first message of the
    /// stream.
    waiting: BTreeMap<u64, Piece>,
    /// The number of ordered messages delivered.
    delivered: u64,
    /// Whether the front message is on this stream and delivered partially.
    in_pieces: bool,
    /// Complete messages that wait for the end of the partial delivery.
    behind: VecDeque<Piece>,
}

impl Reassembly {
    /// Creates the state before anything has arrived; the peer's first TSN is `initial_tsn`.
    pub(super) fn new(initial_tsn: Tsn, receive_buffer_bytes: usize) -> Self {
        Self {
            next: 1 << 32,
            next_tsn: initial_tsn,
            front: None,
            may_continue_skipped: false,
            beyond: BTreeMap::new(),
            streams: Vec::new(),
            inbox: Inbox {
                chunk_overhead_bytes: CHUNK_OVERHEAD_BYTES,
                chunk_memory_bytes: CHUNK_MEMORY_BYTES,
                ..Inbox::default()
            },
            interleaved: None,
            partial_at_bytes: receive_buffer_bytes / 2,
            deferred: None,
            reset_done: None,
        }
    }

    /// Sets the charge for a chunk besides its bytes.
    pub(super) fn with_overhead(mut self, chunk_overhead_bytes: usize) -> Self {
        self.inbox.chunk_overhead_bytes = chunk_overhead_bytes;
        self
    }

    /// The peer sends I-DATA; nothing has arrived.
    pub(super) fn interleave(&mut self, receive_buffer_bytes: usize) {
        self.interleaved = Some(Messages::new(receive_buffer_bytes));
        self.inbox.chunk_memory_bytes = INTERLEAVED_CHUNK_MEMORY_BYTES;
    }

    /// Sets the size of the receive buffer before anything has arrived.
    pub(super) fn admit(&mut self, receive_buffer_bytes: usize) {
        self.partial_at_bytes = receive_buffer_bytes / 2;
        if let Some(messages) = &mut self.interleaved {
            messages.admit(receive_buffer_bytes);
        }
    }

    /// The receive buffer has grown.
    pub(super) fn set_receive_buffer(&mut self, bytes: usize) {
        if let Some(messages) = &mut self.interleaved {
            messages.set_receive_buffer(bytes);
        }
    }

    #[cfg(test)]
    pub(super) fn messages(&mut self) -> Option<&mut Messages> {
        self.interleaved.as_mut()
    }

    /// The receive buffer charged for everything held.
    pub(super) fn charged_bytes(&self) -> usize {
        self.inbox.charged_bytes
    }

    /// The charge that determines the receive window: that of the receive buffer, but at least half of
    /// the memory of the chunks, so that a window of tiny chunks takes at most twice the buffer in
    /// memory. I-DATA chunks count like DATA chunks: by their maximum memory, small windows would hold
    /// too few.
    #[inline]
    pub(super) fn window_cost(&self) -> usize {
        let memory = self.inbox.unread_bytes + self.inbox.chunks * CHUNK_MEMORY_BYTES;
        self.inbox.charged_bytes.max(memory / 2)
    }

    /// The memory of chunks with their bookkeeping and of streams, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let streams = self.streams.len() * size_of::<Stream>();
        let ready = self.inbox.streams.len() * size_of::<VecDeque<Piece>>();
        let interleaved = self.interleaved.as_ref().map_or(0, Messages::streams_memory_bytes);
        self.inbox.memory_bytes() + streams + ready + interleaved
    }

    /// Frees unused memory.
    pub(super) fn trim(&mut self) {
        self.inbox.trim();
    }

    /// Whether payloads that are small compared with their datagram may keep it allocated; `has_room`:
    /// the association may use [`KEPT_DATAGRAMS_ROOM_BYTES`] more. If so, the datagram counts as held
    /// until nothing is.
    pub(super) fn may_keep_datagram(&mut self, bytes: usize, has_room: bool) -> bool {
        let inbox = &mut self.inbox;
        if inbox.chunks == 0 {
            inbox.datagrams_bytes = 0;
        }
        let may = has_room && inbox.datagrams_bytes + bytes <= KEPT_DATAGRAMS_BYTES;
        inbox.datagrams_bytes += if may { bytes } else { 0 };
        may
    }

    /// The memory of one more chunk.
    pub(super) fn memory_cost(&self, payload: &Bytes) -> usize {
        payload.len() + self.inbox.chunk_memory_bytes
    }

    /// Bytes that `recv` can return now or once their messages are complete.
    pub(super) fn unread_bytes(&self) -> usize {
        self.inbox.unread_bytes
    }

    /// Bytes of the messages that are next in their streams and whose end has not arrived, up to the first gap.
    pub(super) fn partial_bytes(&self) -> usize {
        let front = self.front.iter().flat_map(|front| &front.fragments).map(Bytes::len).sum();
        self.interleaved.as_ref().map_or(front, Messages::partial_bytes)
    }

    /// Checks the invariants; returns the charge for everything held, computed anew.
    pub(super) fn check(&self) -> usize {
        let charge = |payload: &Bytes| self.inbox.cost(payload);
        let cost = |piece: &Piece| (piece.payload.iter().map(charge).sum::<usize>(), piece.len());
        let aside = self.inbox.aside.iter().flat_map(|aside| &aside.pieces);
        let mut held: Vec<(usize, usize)> =
            self.inbox.streams.iter().flatten().chain(aside).map(cost).collect();
        for stream in &self.streams {
            held.extend(stream.waiting.values().chain(&stream.behind).map(cost));
        }
        let chunks = self.beyond.values().map(|chunk| &chunk.data.payload);
        let front = self.front.iter().flat_map(|front| &front.fragments);
        held.extend(chunks.chain(front).map(|payload| (charge(payload), payload.len())));
        if let Some(messages) = &self.interleaved {
            messages.check(&self.inbox, &mut held);
        }
        held.extend(
            self.deferred.iter().flat_map(reset::Deferred::held).map(|data| (charge(data), data.len())),
        );
        let (charged, unread) = held.iter().fold((0, 0), |sum, one| (sum.0 + one.0, sum.1 + one.1));
        let overhead = self.inbox.chunks * self.inbox.chunk_overhead_bytes;
        assert_eq!(charged, unread + overhead, "each chunk held is counted once");
        assert_eq!((charged, unread), (self.inbox.charged_bytes, self.inbox.unread_bytes));
        let ready = self.inbox.streams.iter().filter(|stream| !stream.is_empty()).count();
        assert_eq!(ready, self.inbox.turns.len(), "a stream with something to read has a turn");
        charged
    }

    /// Returns a stream that became readable.
    pub(super) fn take_fresh(&mut self) -> Option<StreamId> {
        self.inbox.fresh.pop_front()
    }

    /// Returns a readable stream.
    pub(super) fn readable(&self) -> Option<StreamId> {
        self.inbox.readable()
    }

    /// Returns the next message of `stream`, or piece of one.
    pub(super) fn recv(&mut self, stream: StreamId) -> Option<Piece> {
        self.inbox.recv(stream)
    }

    /// Keeps messages of a stream with this payload protocol identifier separate, in their order.
    pub(super) fn keep_aside(&mut self, stream: StreamId, ppid: Ppid) {
        self.inbox.aside = Some(Aside { stream, ppid, pieces: VecDeque::new(), is_fresh: false });
    }

    /// Whether separate messages arrived since the last call.
    pub(super) fn take_fresh_aside(&mut self) -> bool {
        self.inbox.aside.as_mut().is_some_and(|aside| std::mem::take(&mut aside.is_fresh))
    }

    /// Returns the next separate message, or piece of one.
    pub(super) fn recv_aside(&mut self) -> Option<Piece> {
        let piece = self.inbox.aside.as_mut()?.pieces.pop_front()?;
        self.inbox.discharge(&piece);
        Some(piece)
    }

    /// Adds a new chunk; `cum_tsn` includes it already.
    pub(super) fn push(&mut self, data: Data, cum_tsn: Tsn) -> Result<(), Violation> {
        if self.interleaved.is_some() != data.interleaved.is_some() {
            return Err(Violation::WrongDataChunk);
        }
        self.inbox.charge(&data.payload);
        if let (Some(messages), Some(place)) = (&mut self.interleaved, data.interleaved) {
            if let Some(deferred) = self.deferred.as_mut().filter(|deferred| deferred.holds(&data)) {
                deferred.held.push(data);
                return Ok(());
            }
            return messages.push(&data, place, &mut self.inbox);
        }
        let at = self.never_wrapping(data.tsn);
        if at != self.next {
            return self.push_beyond(at, data);
        }
        self.push_in_sequence(data)?;
        self.advance(cum_tsn)
    }

    /// Like `push`, for a chunk that is acknowledged and dropped.
    pub(super) fn skip(&mut self, tsn: Tsn, cum_tsn: Tsn) -> Result<(), Violation> {
        if self.interleaved.is_some() || self.never_wrapping(tsn) != self.next {
            return Ok(());
        }
        if self.front.is_some() {
            return Err(Violation::MessageInterrupted);
        }
        self.advance(cum_tsn)
    }

    fn never_wrapping(&self, tsn: Tsn) -> u64 {
        self.next + u64::from(tsn.distance_from(self.next_tsn))
    }

    /// The chunk at `next` is processed; processes those up to `cum_tsn`.
    fn advance(&mut self, cum_tsn: Tsn) -> Result<(), Violation> {
        let end = self.never_wrapping(cum_tsn) + 1;
        self.next += 1;
        self.next_tsn = cum_tsn.next();
        self.take_up_to(end)
    }

    /// The peer abandoned the missing chunks up to `new_cum_tsn`, and the messages of these streams up
    /// to these numbers; `cum_tsn` includes that already. All these streams exist.
    pub(super) fn forward(
        &mut self,
        new_cum_tsn: Tsn,
        cum_tsn: Tsn,
        streams: impl Iterator<Item = (StreamId, Ssn)>,
    ) -> Result<(), Violation> {
        let (skipped, end) = (self.never_wrapping(new_cum_tsn), self.never_wrapping(cum_tsn) + 1);
        //= specs/rfc3758.txt#section-3.6
        //# After receiving and processing a FORWARD TSN, the data receiver MUST
        //# take cautions in updating its re-assembly queue.  The receiver MUST
        //# remove any partially reassembled message, which is still missing one
        //# or more TSNs earlier than or equal to the new cumulative TSN point.
        if let Some(front) = self.front.take() {
            front.fragments.iter().for_each(|payload| self.inbox.forget(payload));
            if front.in_pieces {
                let order = order_of(front.unordered);
                let (ppid, number) = (front.ppid, front.ssn.0.into());
                self.inbox.abort(front.stream, Piece::aborted(ppid, number, order));
                self.end_pieces(front.stream, order);
            }
        }
        // A message is abandoned as a whole (A3): its fragments are removed even with TSNs beyond.
        while let Some((&first, chunk)) = self.beyond.first_key_value().filter(|(at, _)| **at <= skipped) {
            for at in first..=chunk.other_end {
                let chunk = self.beyond.remove(&at).expect("a run has no holes");
                self.inbox.forget(&chunk.data.payload);
            }
        }
        self.may_continue_skipped = true;
        for (stream, ssn) in streams {
            self.skip_to(stream, ssn);
        }
        self.next = skipped + 1;
        self.next_tsn = cum_tsn.next();
        self.take_up_to(end)
    }

    /// The peer abandoned the ordered messages of a stream up to this number.
    //= specs/rfc3758.txt#section-3.6
    //# In particular, during processing of a FORWARD TSN, the receiver MUST
    //# use the stream sequence information to examine all of the listed
    //# stream reordering queues, and immediately make available for delivery
    //# stream sequence numbers earlier than or equal to the stream sequence
    //# number listed inside the FORWARD TSN.  Any such stranded data SHOULD
    //# be made immediately available to the upper layer application.
    fn skip_to(&mut self, id: StreamId, ssn: Ssn) {
        let stream = self.stream(id);
        if ssn.before(stream.next_ssn) {
            return;
        }
        let last = stream.delivered + u64::from(ssn.distance_from(stream.next_ssn));
        stream.delivered = last + 1;
        stream.next_ssn = ssn.next();
        let stranded = std::mem::take(&mut stream.waiting);
        for (place, piece) in stranded {
            if place <= last {
                self.inbox.add(id, piece);
            } else {
                self.stream(id).waiting.insert(place, piece);
            }
        }
        self.release_waiting(id);
    }

    /// The same for interleaved messages.
    pub(super) fn forward_interleaved(&mut self, streams: impl Iterator<Item = SkippedMid>) {
        if let Some(messages) = &mut self.interleaved {
            streams.for_each(|skipped| messages.skip_to(skipped, &mut self.inbox));
        }
    }

    /// All TSNs before `end` have arrived or were abandoned: processes the chunks that waited for that.
    fn take_up_to(&mut self, end: u64) -> Result<(), Violation> {
        while let Some(entry) = self.beyond.first_entry().filter(|entry| *entry.key() < end) {
            let (at, chunk) = entry.remove_entry();
            // TSNs missing in the map were complete messages and were delivered earlier: none can be
            // within this one.
            if at != self.next {
                self.may_continue_skipped = false;
                if self.front.is_some() {
                    return Err(Violation::MessageInterrupted);
                }
            }
            self.reset_before(at)?;
            self.push_in_sequence(chunk.data)?;
            self.next = at + 1;
        }
        if self.front.is_some() && self.next != end {
            return Err(Violation::MessageInterrupted);
        }
        self.next = end;
        self.reset_before(end)
    }

    fn push_in_sequence(&mut self, mut data: Data) -> Result<(), Violation> {
        let Some(front) = &mut self.front else {
            if !data.begin && self.may_continue_skipped {
                self.may_continue_skipped = !data.end;
                self.inbox.forget(&data.payload);
                return Ok(());
            }
            if !data.begin {
                return Err(Violation::FragmentWithoutBegin);
            }
            self.may_continue_skipped = false;
            // Earlier messages of a stream precede it in the sequence of TSNs.
            //= specs/rfc9260.txt#section-3.3.1
            //# Therefore, the receiver MUST ignore the Stream Sequence Number field.
            //= specs/rfc9260.txt#section-6.6
            //# The sender can fill the 'Stream Sequence Number' with arbitrary value,
            //# but the receiver MUST ignore the field.
            if !data.unordered && data.ssn != self.stream(data.stream).next_ssn {
                return Err(Violation::SsnOutOfStep);
            }
            if data.end {
                let payload = std::mem::take(&mut data.payload);
                self.deliver_whole(&data, vec![payload]);
            } else {
                self.front = Some(Front {
                    stream: data.stream,
                    ssn: data.ssn,
                    tsn: data.tsn,
                    ppid: data.ppid,
                    unordered: data.unordered,
                    charged_bytes: self.inbox.cost(&data.payload),
                    fragments: vec![data.payload],
                    in_pieces: false,
                });
            }
            return Ok(());
        };
        let same = front.stream == data.stream && front.unordered == data.unordered;
        if data.begin || !same || (!data.unordered && front.ssn != data.ssn) {
            return Err(Violation::MessageInterrupted);
        }
        if front.in_pieces {
            let order = order_of(front.unordered);
            let end = data.end;
            let piece = Piece {
                ppid: front.ppid,
                tsn: data.tsn,
                number: data.ssn.0.into(),
                payload: vec![data.payload],
                begin: false,
                end,
                aborted: false,
                order,
            };
            self.inbox.add(data.stream, piece);
            if end {
                self.front = None;
                self.end_pieces(data.stream, order);
            }
            return Ok(());
        }
        front.charged_bytes += self.inbox.cost(&data.payload);
        front.fragments.push(std::mem::take(&mut data.payload));
        if data.end {
            let front = self.front.take().expect("it was just added to");
            // The PPID of the first fragment is that of the message (RFC 9260 §3.3.1 requires the same
            // in all).
            self.deliver_whole(&Data { ppid: front.ppid, tsn: front.tsn, ..data }, front.fragments);
        } else if front.charged_bytes >= self.partial_at_bytes {
            self.deliver_front_in_pieces();
        }
        Ok(())
    }

    /// The receive buffer is full: if nothing can be read, the front message is delivered partially.
    pub(super) fn deliver_partially(&mut self) {
        if let Some(messages) = &mut self.interleaved {
            return messages.deliver_partially(&mut self.inbox);
        }
        if self.inbox.turns.is_empty() && self.front.as_ref().is_some_and(|front| !front.in_pieces) {
            self.deliver_front_in_pieces();
        }
    }

    fn deliver_front_in_pieces(&mut self) {
        //= specs/rfc9260.txt#section-6.9
        //# If the data receiver runs out of buffer space while still waiting for
        //# more fragments to complete the reassembly of the message, it SHOULD
        //# dispatch part of its inbound message through a partial delivery API
        //# (see Section 11), freeing some of its receive buffer space so that
        //# the rest of the message can be received.
        let Some(front) = &mut self.front else { return };
        front.in_pieces = true;
        let stream = front.stream;
        let piece = Piece {
            ppid: front.ppid,
            tsn: front.tsn,
            number: front.ssn.0.into(),
            payload: std::mem::take(&mut front.fragments),
            begin: true,
            end: false,
            aborted: false,
            order: order_of(front.unordered),
        };
        self.inbox.add(stream, piece);
        self.stream(stream).in_pieces = true;
    }

    fn end_pieces(&mut self, id: StreamId, order: Order) {
        let stream = self.stream(id);
        stream.in_pieces = false;
        let behind = std::mem::take(&mut stream.behind);
        for piece in behind {
            self.inbox.add(id, piece);
        }
        match order {
            Order::Ordered => self.next_in_order(id),
            Order::Unordered => self.release_waiting(id),
        }
    }

    fn push_beyond(&mut self, at: u64, mut data: Data) -> Result<(), Violation> {
        let (mut first, mut last) = (at, at);
        if let Some(left) = self.beyond.get(&(at - 1))
            && continues(&left.data, &data)?
        {
            first = left.other_end;
        }
        if let Some(right) = self.beyond.get(&(at + 1))
            && continues(&data, &right.data)?
        {
            last = right.other_end;
        }
        let (whole_left, whole_right) = (
            if first == at { data.begin } else { self.beyond[&first].data.begin },
            if last == at { data.end } else { self.beyond[&last].data.end },
        );
        // A message beyond a pending stream reset waits for the reset, even if it is complete.
        let held = self.deferred.as_ref().is_some_and(|deferred| deferred.holds(&data));
        if whole_left && whole_right && !held {
            let tsn = if first == at { data.tsn } else { self.beyond[&first].data.tsn };
            let mut fragments = Vec::with_capacity((last - first + 1) as usize);
            for index in first..at {
                fragments.push(self.beyond.remove(&index).expect("a run has no holes").data.payload);
            }
            fragments.push(std::mem::take(&mut data.payload));
            for index in at + 1..=last {
                fragments.push(self.beyond.remove(&index).expect("a run has no holes").data.payload);
            }
            self.deliver_whole(&Data { tsn, ..data }, fragments);
            return Ok(());
        }
        if first != at {
            self.beyond.get_mut(&first).expect("the left run's first").other_end = last;
        }
        if last != at {
            self.beyond.get_mut(&last).expect("the right run's last").other_end = first;
        }
        let other_end = if first == at { last } else { first };
        self.beyond.insert(at, Beyond { data, other_end });
        Ok(())
    }

    /// Delivers a complete message; `data` is one of its chunks, with the TSN of its first.
    fn deliver_whole(&mut self, data: &Data, payload: Vec<Bytes>) {
        let order = order_of(data.unordered);
        let (ppid, tsn, number) = (data.ppid, data.tsn, data.ssn.0.into());
        let piece = Piece { ppid, tsn, number, payload, begin: true, end: true, aborted: false, order };
        let id = data.stream;
        //= specs/rfc9260.txt#section-3.3.1
        //# After reassembly (if necessary), unordered DATA chunks MUST be
        //# dispatched to the upper layer by the receiver without any attempt
        //# to reorder.
        if data.unordered {
            let stream = self.stream(id);
            if stream.in_pieces {
                stream.behind.push_back(piece);
            } else {
                self.inbox.add(id, piece);
            }
            return;
        }
        //= specs/rfc9260.txt#section-6.6
        //# Within a stream, an endpoint MUST deliver DATA chunks received with
        //# the U flag set to 0 to the upper layer according to the order of
        //# their Stream Sequence Number.  If DATA chunks arrive out of order of
        //# their Stream Sequence Number, the endpoint MUST hold the received
        //# DATA chunks from delivery to the ULP until they are reordered.
        let stream = self.stream(id);
        let ahead = data.ssn.distance_from(stream.next_ssn);
        if ahead == 0 && !stream.in_pieces {
            self.inbox.add(id, piece);
            self.next_in_order(id);
        } else {
            // If two messages have the same number, the second replaces the first, whose charge is
            // removed.
            let place = stream.delivered + u64::from(ahead);
            if let Some(displaced) = stream.waiting.insert(place, piece) {
                self.inbox.discharge(&displaced);
            }
        }
    }

    /// An ordered message was delivered: delivers those that waited for it.
    fn next_in_order(&mut self, id: StreamId) {
        let stream = self.stream(id);
        stream.delivered += 1;
        stream.next_ssn = stream.next_ssn.next();
        self.release_waiting(id);
    }

    fn release_waiting(&mut self, id: StreamId) {
        loop {
            let stream = self.stream(id);
            if stream.waiting.is_empty() {
                return;
            }
            let Some(piece) = stream.waiting.remove(&stream.delivered) else { return };
            stream.delivered += 1;
            stream.next_ssn = stream.next_ssn.next();
            self.inbox.add(id, piece);
        }
    }

    fn stream(&mut self, id: StreamId) -> &mut Stream {
        let index = usize::from(id.0);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, Stream::default);
        }
        &mut self.streams[index]
    }
}

fn order_of(unordered: bool) -> Order {
    if unordered { Order::Unordered } else { Order::Ordered }
}

/// Whether `right`, the next TSN after `left`, belongs to the same message.
//= specs/rfc9260.txt#section-6.9
//# An endpoint MUST recognize fragmented DATA chunks by examining the B/
//# E bits in each of the received DATA chunks and queue the fragmented
//# DATA chunks for reassembly.
fn continues(left: &Data, right: &Data) -> Result<bool, Violation> {
    match (left.end, right.begin) {
        (true, true) => Ok(false),
        (true, false) => Err(Violation::FragmentWithoutBegin),
        (false, true) => Err(Violation::MessageInterrupted),
        (false, false) => {
            let same = left.stream == right.stream && left.unordered == right.unordered;
            if same && (left.unordered || left.ssn == right.ssn) {
                Ok(true)
            } else {
                Err(Violation::MessageInterrupted)
            }
        }
    }
}

#[cfg(test)]
#[path = "tests/reassembly.rs"]
mod tests;
