//! The send buffer: data the user wrote, until it is acknowledged.

use std::collections::VecDeque;

use bytes::{BufMut, Bytes, BytesMut};

/// Written data, by offset in the stream.
#[derive(Debug, Default)]
pub(crate) struct SendQueue {
    /// Pieces, each with the offset of its first byte.
    pieces: VecDeque<(u64, Bytes)>,
    /// The first offset kept and the end.
    start: u64,
    end: u64,
    /// The index of the piece copied from last; the next copy mostly begins in it or in the one after it.
    last: usize,
}

impl SendQueue {
    /// The offset after the last byte written.
    pub(crate) fn end(&self) -> u64 {
        self.end
    }

    /// The number of bytes kept.
    pub(crate) fn len(&self) -> usize {
        (self.end - self.start) as usize
    }

    pub(crate) fn push(&mut self, piece: Bytes) {
        let start = self.end;
        self.end += piece.len() as u64;
        self.pieces.push_back((start, piece));
    }

    /// Releases the data before `upto`, which was acknowledged.
    pub(crate) fn release(&mut self, upto: u64) {
        self.start = self.start.max(upto.min(self.end));
        while let Some((at, piece)) = self.pieces.front()
            && at + piece.len() as u64 <= self.start
        {
            self.pieces.pop_front();
            self.last = self.last.saturating_sub(1);
        }
    }

    /// Drops all data.
    pub(crate) fn clear(&mut self) {
        self.pieces.clear();
        self.last = 0;
        self.start = self.end;
    }

    /// Appends the bytes from `start` up to `end` to `out`.
    pub(crate) fn copy(&mut self, start: u64, end: u64, out: &mut BytesMut) {
        assert!(self.start <= start && end <= self.end, "only written, unacknowledged data is sent");
        let mut at = start;
        let mut index = self.place_of(start);
        while at < end {
            let (first, piece) = &self.pieces[index];
            let from = (at - first) as usize;
            let upto = piece.len().min((end - first) as usize);
            out.put_slice(&piece[from..upto]);
            at = first + upto as u64;
            self.last = index;
            index += 1;
        }
    }

    /// The index of the piece that holds the byte at this offset.
    fn place_of(&self, offset: u64) -> usize {
        let holds = |place: &usize| {
            let (first, piece) = &self.pieces[*place];
            (*first..first + piece.len() as u64).contains(&offset)
        };
        let near = (self.last..self.pieces.len()).take(2).find(holds);
        near.unwrap_or_else(|| {
            self.pieces.partition_point(|(first, piece)| first + piece.len() as u64 <= offset)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_are_found_across_pieces_until_they_are_released() {
        let mut queue = SendQueue::default();
        for piece in [&b"abc"[..], b"defgh", b"ij"] {
            queue.push(Bytes::from_static(piece));
        }
        let copied = |queue: &mut SendQueue, start, end| {
            let mut out = BytesMut::new();
            queue.copy(start, end, &mut out);
            out
        };
        assert_eq!(copied(&mut queue, 0, 10), &b"abcdefghij"[..]);
        assert_eq!(copied(&mut queue, 2, 4), &b"cd"[..]);
        // From any previous position.
        for (start, end) in (0..10).flat_map(|start| (start..=10).map(move |end| (start, end))) {
            assert_eq!(copied(&mut queue, start, end), &b"abcdefghij"[start as usize..end as usize]);
        }
        queue.release(4);
        assert_eq!((queue.len(), queue.end(), queue.pieces.len()), (6, 10, 2));
        assert_eq!(copied(&mut queue, 4, 9), &b"efghi"[..]);
        assert_eq!(copied(&mut queue, 4, 5), &b"e"[..]);
        queue.release(99);
        assert_eq!((queue.len(), queue.pieces.len()), (0, 0));
    }
}
