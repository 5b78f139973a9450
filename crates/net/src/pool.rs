//! Receive buffers that become the packets' own [`Bytes`] and are reused when the last slice is dropped.
//!
//! A buffer holds what one receive call coalesced: up to 64 KiB of datagrams (GRO). Large batches are
//! sliced without a copy. Small ones are copied, and so is everything once unread slices hold [`MAX_LENT`]
//! buffers, so that a few bytes kept for long never hold more than [`MAX_LENT`] times 64 KiB. A copy of
//! several datagrams is kept alive by a slice of any of them; once such copies take [`MAX_COPIED_BYTES`],
//! each datagram is copied separately.

use std::sync::{Arc, Mutex, PoisonError};

use bytes::Bytes;

/// The size of a buffer: the largest UDP payload, which is also the largest batch of GRO.
pub(crate) const BUFFER_BYTES: usize = 65_536;

/// Batches of fewer bytes are copied, and their buffer is reused at once.
const MIN_LENT_BYTES: usize = 16_384;

/// The maximum number of buffers held by unread slices: 8 MiB of memory.
const MAX_LENT: usize = 128;

/// The maximum number of bytes of copies of several datagrams held by unread slices.
const MAX_COPIED_BYTES: usize = 8 << 20;

/// The maximum number of unused buffers kept; more are freed.
const MAX_FREE: usize = 32;

/// A buffer of a [`Pool`].
pub(crate) type Buffer = Box<[u8]>;

/// The buffers of an endpoint's sockets.
#[derive(Debug, Clone, Default)]
pub(crate) struct Pool {
    shared: Arc<Mutex<Shelf>>,
}

#[derive(Debug, Default)]
struct Shelf {
    free: Vec<Buffer>,
    lent: usize,
    copied_bytes: usize,
}

/// A copy of several datagrams, in use as [`Bytes`].
struct Copied {
    bytes: Box<[u8]>,
    pool: Arc<Mutex<Shelf>>,
}

/// A buffer in use as [`Bytes`].
struct Lent {
    buffer: Buffer,
    len: usize,
    pool: Arc<Mutex<Shelf>>,
}

impl Pool {
    /// Returns a buffer to receive into.
    pub(crate) fn take(&self) -> Buffer {
        let free = lock(&self.shared).free.pop();
        free.unwrap_or_else(|| vec![0; BUFFER_BYTES].into_boxed_slice())
    }

    /// Returns the datagrams in the first `len` bytes of `buffer`, each of `stride` bytes except the
    /// last. `buffer` can be received into again.
    pub(crate) fn freeze(
        &self,
        buffer: &mut Buffer,
        len: usize,
        stride: usize,
    ) -> impl Iterator<Item = Bytes> + use<> {
        let mut datagrams = Vec::new();
        let mut batch = if len >= MIN_LENT_BYTES && self.lend() {
            let full = std::mem::replace(buffer, self.take());
            Bytes::from_owner(Lent { buffer: full, len, pool: self.shared.clone() })
        } else if len <= stride {
            Bytes::copy_from_slice(&buffer[..len])
        } else if self.count_copy(len) {
            Bytes::from_owner(Copied { bytes: buffer[..len].into(), pool: self.shared.clone() })
        } else {
            datagrams.extend(buffer[..len].chunks(stride).rev().map(Bytes::copy_from_slice));
            Bytes::new()
        };
        std::iter::from_fn(move || match batch.is_empty() {
            true => datagrams.pop(),
            false => Some(batch.split_to(stride.min(batch.len()))),
        })
    }

    /// Whether another copy of several datagrams may be made; counts it if so.
    fn count_copy(&self, len: usize) -> bool {
        let mut shelf = lock(&self.shared);
        let may = shelf.copied_bytes + len <= MAX_COPIED_BYTES;
        shelf.copied_bytes += if may { len } else { 0 };
        may
    }

    /// Whether another buffer may be lent; counts it if so.
    fn lend(&self) -> bool {
        let mut shelf = lock(&self.shared);
        let may = shelf.lent < MAX_LENT;
        shelf.lent += usize::from(may);
        may
    }
}

impl AsRef<[u8]> for Copied {
    fn as_ref(&self) -> &[u8] {
        &self.bytes
    }
}

impl Drop for Copied {
    fn drop(&mut self) {
        lock(&self.pool).copied_bytes -= self.bytes.len();
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        &self.buffer[..self.len]
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let buffer = std::mem::take(&mut self.buffer);
        let mut shelf = lock(&self.pool);
        shelf.lent -= 1;
        if shelf.free.len() < MAX_FREE {
            shelf.free.push(buffer);
        }
    }
}

/// The state is consistent after every statement under the lock, so a panic elsewhere cannot corrupt it.
fn lock(shelf: &Mutex<Shelf>) -> std::sync::MutexGuard<'_, Shelf> {
    shelf.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_batch_is_lent_and_its_buffer_comes_back() {
        let pool = Pool::default();
        let mut buffer = pool.take();
        buffer[..MIN_LENT_BYTES].fill(7);
        let place = buffer.as_ptr();
        let bytes = pool.freeze(&mut buffer, MIN_LENT_BYTES, MIN_LENT_BYTES).next().unwrap();
        assert_eq!(bytes.as_ptr(), place, "no copy");
        assert_ne!(buffer.as_ptr(), place);
        assert!(bytes.iter().all(|b| *b == 7));
        let slice = bytes.slice(5..6);
        drop(bytes);
        assert_eq!(lock(&pool.shared).free.len(), 0, "a slice still holds it");
        drop(slice);
        assert_eq!(lock(&pool.shared).free.len(), 1);
        assert_eq!(lock(&pool.shared).lent, 0);
    }

    #[test]
    fn a_small_batch_is_copied_out() {
        let pool = Pool::default();
        let mut buffer = pool.take();
        let place = buffer.as_ptr();
        let bytes = pool.freeze(&mut buffer, MIN_LENT_BYTES - 1, MIN_LENT_BYTES).next().unwrap();
        assert_ne!(bytes.as_ptr(), place);
        assert_eq!(buffer.as_ptr(), place);
        assert_eq!(lock(&pool.shared).lent, 0);
    }

    #[test]
    fn datagrams_of_a_batch_are_unchanged_and_pin_no_more_copies_than_the_limit() {
        let pool = Pool::default();
        let mut buffer = pool.take();
        let (len, stride) = (14_300, 1_400);
        buffer[..len].iter_mut().enumerate().for_each(|(at, byte)| *byte = (at / stride) as u8);
        // One datagram of each batch is kept.
        let mut kept = Vec::new();
        for _ in 0..2 * MAX_COPIED_BYTES / len {
            let datagrams: Vec<Bytes> = pool.freeze(&mut buffer, len, stride).collect();
            let lens: Vec<usize> = datagrams.iter().map(Bytes::len).collect();
            assert_eq!((lens.len(), lens[0], lens[10]), (11, stride, len - 10 * stride));
            assert!(datagrams.iter().enumerate().all(|(nth, one)| one.iter().all(|b| *b == nth as u8)));
            kept.push(datagrams[3].clone());
            assert!(lock(&pool.shared).copied_bytes <= MAX_COPIED_BYTES);
        }
        assert!(lock(&pool.shared).copied_bytes > MAX_COPIED_BYTES - len);
        drop(kept);
        assert_eq!(lock(&pool.shared).copied_bytes, 0);
    }

    #[test]
    fn no_more_than_the_limit_is_pinned() {
        let pool = Pool::default();
        let mut buffer = pool.take();
        let held: Vec<Bytes> = (0..2 * MAX_LENT)
            .flat_map(|_| pool.freeze(&mut buffer, MIN_LENT_BYTES, MIN_LENT_BYTES))
            .collect();
        assert_eq!(lock(&pool.shared).lent, MAX_LENT);
        drop(held);
        assert_eq!(lock(&pool.shared).lent, 0);
        assert_eq!(lock(&pool.shared).free.len(), MAX_FREE);
    }
}
