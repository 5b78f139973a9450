//! The memory of one association, and the limit that its endpoint sets (`endpoint/memory.rs`).
//!
//! A count costs a few dozen instructions. Between two counts the field `memory_room` is a lower bound of the memory left: the
//! cost of each message that is held is subtracted. Only if it is small, memory is counted for each chunk.

use crate::association::path::Path;
use crate::association::reassembly::Reassembly;
use crate::association::state::{State, Up};
use crate::association::{Association, Reason};
use crate::ids::Tsn;
use crate::wire::Cause;

/// The memory charged for a path, in bytes: its state, its congestion control and its logs.
const PATH_BYTES: usize = size_of::<Path>() + 2_048;

/// The memory that an association may have allocated since the last count, besides messages: for sent
/// chunks, runs of TSNs and streams. With less memory left than this, it is counted for each chunk.
const UNCOUNTED_BYTES_MAX: usize = 1 << 20;

/// The minimum memory charged for an association with one path, in bytes.
pub(crate) const ASSOCIATION_BYTES_MIN: usize = size_of::<Association>() + size_of::<Up>() + PATH_BYTES;

impl Association {
    /// Returns the memory of the association in bytes: its state, its paths and their congestion control,
    /// and the contents of its buffers with the bookkeeping of each chunk and message. Allocator overhead
    /// is not included.
    pub fn memory_bytes(&self) -> usize {
        let paths: usize = self.paths.iter().map(Path::memory_bytes).sum();
        let up = self
            .state
            .up()
            .map_or(0, |up| size_of_val(up) + up.sent.memory_bytes() + up.received.memory_bytes());
        size_of::<Self>()
            + up
            + paths
            + self.queue.memory_bytes()
            + self.inbound.memory_bytes()
            + self.keys_bytes()
    }

    /// The memory that the endpoint grants the association.
    #[inline]
    pub(super) fn memory_room(&self, wanted: usize) -> usize {
        if self.memory_room >= wanted.saturating_add(UNCOUNTED_BYTES_MAX) {
            return wanted;
        }
        self.counted_room().min(wanted)
    }

    /// The memory that the endpoint still grants the association.
    #[cold]
    fn counted_room(&self) -> usize {
        match self.memory_limit {
            usize::MAX => usize::MAX,
            limit => limit.saturating_sub(self.counted_bytes()),
        }
    }

    /// Accounts for additional memory.
    #[inline]
    pub(super) fn use_memory(&mut self, bytes: usize) {
        self.memory_room = self.memory_room.saturating_sub(bytes);
    }

    /// The memory charged by the endpoint: [`Association::memory_bytes`] with a typical maximum for each
    /// path, which is cheap to compute.
    pub(crate) fn counted_bytes(&self) -> usize {
        let up = self
            .state
            .up()
            .map_or(0, |up| size_of::<Up>() + up.sent.counted_bytes() + up.received.memory_bytes());
        let paths = self.paths.len() * PATH_BYTES;
        size_of::<Self>()
            + up
            + paths
            + self.queue.memory_bytes()
            + self.inbound.memory_bytes()
            + self.keys_bytes()
    }

    /// Sets the memory that the association may use from now on, in bytes, given that it was counted as
    /// `counted` bytes. Existing allocations remain.
    pub(crate) fn limit_memory(&mut self, bytes: usize, counted: usize) {
        self.memory_limit = bytes;
        self.memory_room = bytes.saturating_sub(counted);
    }

    /// Frees what only an association in use needs, if nothing is queued or outstanding. Called when a path has been idle for a
    /// heartbeat interval, so that associations that pause keep no buffers of their busiest time.
    pub(super) fn trim(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        if !up.sent.is_empty() || !self.queue.is_empty() || self.carried.is_some() {
            return;
        }
        up.sent.trim();
        up.received.trim();
        up.packed = Vec::new();
        self.queue.trim();
        self.inbound.trim();
        self.events.shrink_to_fit();
        self.builder.free();
        self.paths.iter_mut().for_each(Path::trim);
    }

    /// Aborts the association because its memory is needed elsewhere, and discards unread data.
    pub(crate) fn abort_to_free_memory(&mut self) {
        self.abort_with(Cause::OutOfResource, Reason::OutOfMemory);
        self.inbound = Reassembly::new(Tsn(0), 0);
    }
}
