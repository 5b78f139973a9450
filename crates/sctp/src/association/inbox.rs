//! Readable messages by stream, the order in which streams are read, and the buffer and memory charged
//! for chunks.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::association::Piece;
use crate::ids::{Ppid, StreamId};

/// A queue with room for more messages than this frees its memory when it becomes empty.
const QUEUE_KEPT: usize = 64;
/// That memory is reused for another queue if it has room for at most this many messages.
const QUEUE_SPARE: usize = 1_024;

/// The readable messages, and the totals of everything held.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// By stream number, up to the highest one used.
    pub(super) streams: Vec<VecDeque<Piece>>,
    /// Streams with readable messages, each once; the first one is next.
    pub(super) turns: VecDeque<StreamId>,
    /// Streams that became readable.
    pub(super) fresh: VecDeque<StreamId>,
    /// The memory of an emptied queue, for reuse.
    pub(super) spare: VecDeque<Piece>,
    /// The number of messages for which that memory has room, wherever it is.
    pub(super) spare_room: usize,
    /// Messages of one stream and payload protocol identifier that are kept separate from others.
    pub(super) aside: Option<Aside>,
    /// The charge for a chunk besides its bytes.
    pub(super) chunk_overhead_bytes: usize,
    pub(super) charged_bytes: usize,
    pub(super) unread_bytes: usize,
    /// The number of chunks held.
    pub(super) chunks: usize,
    /// The memory of a chunk besides its bytes.
    pub(super) chunk_memory_bytes: usize,
    /// The bytes of datagrams kept allocated by small payloads, since nothing was held.
    pub(super) datagrams_bytes: usize,
}

/// Messages that are kept separate: `recv` does not return them.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) stream: StreamId,
    pub(super) ppid: Ppid,
    pub(super) pieces: VecDeque<Piece>,
    /// Whether some arrived since the last query.
    pub(super) is_fresh: bool,
}

impl Inbox {
    /// The receive buffer charged for this chunk.
    pub(super) fn cost(&self, payload: &Bytes) -> usize {
        payload.len() + self.chunk_overhead_bytes
    }

    /// The receive buffer charged for everything held.
    pub(super) fn charged_bytes(&self) -> usize {
        self.charged_bytes
    }

    /// The memory of the chunks with their bookkeeping, in bytes.
    pub(super) fn memory_bytes(&self) -> usize {
        let datagrams = if self.chunks == 0 { 0 } else { self.datagrams_bytes };
        let spare = self.spare_room * size_of::<Piece>();
        self.unread_bytes + self.chunks * self.chunk_memory_bytes + datagrams + spare
    }

    /// Frees unused memory.
    pub(super) fn trim(&mut self) {
        self.streams.iter_mut().for_each(VecDeque::shrink_to_fit);
        self.turns.shrink_to_fit();
        self.fresh.shrink_to_fit();
        (self.spare, self.spare_room) = (VecDeque::new(), 0);
    }

    /// Returns a stream with a readable message.
    pub(super) fn readable(&self) -> Option<StreamId> {
        self.turns.front().copied()
    }

    pub(super) fn recv(&mut self, stream: StreamId) -> Option<Piece> {
        let ready = self.streams.get_mut(usize::from(stream.0))?;
        let piece = ready.pop_front()?;
        let place = self.turns.iter().position(|turn| *turn == stream);
        self.turns.remove(place.expect("a stream with something to read has a turn"));
        if !ready.is_empty() {
            self.turns.push_back(stream);
        } else if ready.capacity() > QUEUE_KEPT {
            let emptied = std::mem::take(ready);
            if emptied.capacity() <= QUEUE_SPARE {
                (self.spare_room, self.spare) = (emptied.capacity(), emptied);
            }
        }
        self.discharge(&piece);
        Some(piece)
    }

    /// Adds a readable piece.
    pub(super) fn add(&mut self, id: StreamId, piece: Piece) {
        let is_theirs = |aside: &&mut Aside| aside.stream == id && aside.ppid == piece.ppid;
        if let Some(aside) = self.aside.as_mut().filter(is_theirs) {
            aside.is_fresh = true;
            aside.pieces.push_back(piece);
            return;
        }
        let index = usize::from(id.0);
        if self.streams.len() <= index {
            self.streams.resize_with(index + 1, VecDeque::new);
        }
        let ready = &mut self.streams[index];
        if let Some(last) = ready.back_mut().filter(|last| !last.end) {
            last.payload.extend(piece.payload);
            last.end = piece.end;
            last.aborted = piece.aborted;
            return;
        }
        let was_empty = ready.is_empty();
        if ready.capacity() == 0 {
            *ready = std::mem::take(&mut self.spare);
        }
        ready.push_back(piece);
        if was_empty {
            self.turns.push_back(id);
            self.fresh.push_back(id);
        }
    }

    /// The message whose piece was added last was abandoned; ends it.
    pub(super) fn abort(&mut self, id: StreamId, end: Piece) {
        let Some(ready) = self.streams.get_mut(usize::from(id.0)) else { return self.add(id, end) };
        if ready.back().is_some_and(|last| last.begin && !last.end && last.ppid == end.ppid) {
            // No part of it was read.
            let piece = ready.pop_back().expect("it was just looked at");
            if ready.is_empty() {
                self.turns.retain(|turn| *turn != id);
            }
            return self.discharge(&piece);
        }
        //= specs/rfc3758.txt#section-3.6
        //# In the event that the receiver has invoked the partial delivery API,
        //# a notification SHOULD also be generated to inform the upper layer API
        //# that the message being partially delivered will NOT be completed.
        self.add(id, end);
    }

    pub(super) fn charge(&mut self, payload: &Bytes) {
        self.charged_bytes += self.cost(payload);
        self.unread_bytes += payload.len();
        self.chunks += 1;
    }

    pub(super) fn discharge(&mut self, piece: &Piece) {
        piece.payload.iter().for_each(|payload| self.forget(payload));
    }

    /// A chunk's payload is no longer held.
    pub(super) fn forget(&mut self, payload: &Bytes) {
        self.charged_bytes -= self.cost(payload);
        self.unread_bytes -= payload.len();
        self.chunks -= 1;
    }
}
