//! Messages that can be read, in the order of streams' turns, and what chunks that are held cost of buffer and memory.

use std::collections::VecDeque;

use bytes::Bytes;

use crate::association::Piece;
use crate::ids::{Ppid, StreamId};

/// A queue of messages that becomes empty gives its memory back if it had room for more than this.
const QUEUE_KEPT: usize = 64;
/// Such memory is kept for the next queue if it has room for no more messages than this.
const QUEUE_SPARE: usize = 1_024;

/// What can be read, and what is held in all.
#[derive(Debug, Default)]
pub(super) struct Inbox {
    /// By number, up to the highest that was used.
    pub(super) streams: Vec<VecDeque<Piece>>,
    /// Streams with something to read, each once; the front one has the turn.
    pub(super) turns: VecDeque<StreamId>,
    /// Streams that had nothing to read and now have.
    pub(super) fresh: VecDeque<StreamId>,
    /// The memory of a queue that became empty, for the next one.
    pub(super) spare: VecDeque<Piece>,
    /// For how many messages that has room, wherever it is now.
    pub(super) spare_room: usize,
    /// What came on a stream with a payload protocol identifier, if that is kept aside for somebody else than who reads streams.
    pub(super) aside: Option<Aside>,
    /// What holding a chunk costs besides its bytes.
    pub(super) chunk_overhead_bytes: usize,
    pub(super) charged_bytes: usize,
    pub(super) unread_bytes: usize,
    /// Chunks that are held.
    pub(super) chunks: usize,
    /// What a chunk takes of memory besides its bytes.
    pub(super) chunk_memory_bytes: usize,
    /// Bytes of datagrams that chunks may keep which are small beside them, counted since nothing was held.
    pub(super) datagrams_bytes: usize,
}

/// Messages that are not for who reads streams.
#[derive(Debug)]
pub(super) struct Aside {
    pub(super) stream: StreamId,
    pub(super) ppid: Ppid,
    pub(super) pieces: VecDeque<Piece>,
    /// Whether some came since somebody asked.
    pub(super) is_fresh: bool,
}

impl Inbox {
    /// What holding this chunk costs of the receive buffer.
    pub(super) fn cost(&self, payload: &Bytes) -> usize {
        payload.len() + self.chunk_overhead_bytes
    }

    /// What is held costs so much of the receive buffer.
    pub(super) fn charged_bytes(&self) -> usize {
        self.charged_bytes
    }

    /// Bytes of memory that the chunks take, with what is kept of each.
    pub(super) fn memory_bytes(&self) -> usize {
        let datagrams = if self.chunks == 0 { 0 } else { self.datagrams_bytes };
        let spare = self.spare_room * size_of::<Piece>();
        self.unread_bytes + self.chunks * self.chunk_memory_bytes + datagrams + spare
    }

    /// A stream that has something to read.
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

    /// A piece that can be read.
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

    /// The message of which a piece was added last ends here, without its rest.
    pub(super) fn abort(&mut self, id: StreamId, end: Piece) {
        let Some(ready) = self.streams.get_mut(usize::from(id.0)) else { return self.add(id, end) };
        if ready.back().is_some_and(|last| last.begin && !last.end && last.ppid == end.ppid) {
            // Nobody has seen anything of it.
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

    /// A chunk's payload is not held any more.
    pub(super) fn forget(&mut self, payload: &Bytes) {
        self.charged_bytes -= self.cost(payload);
        self.unread_bytes -= payload.len();
        self.chunks -= 1;
    }
}
