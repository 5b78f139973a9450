//! Why data may be sent on a path, and whether shutdown and the peer's window permit it.

use crate::association::state::{Shutdown, Up, Window};
use crate::ids::Tsn;

/// Why data may be sent on a path.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum SendPermit {
    /// The window has room.
    Window,
    /// The first packet of a fast retransmission, whatever the window is.
    FastRetransmit,
    /// A tail loss probe, whatever the window is.
    Probe,
    /// With concurrent multipath transfer: the window has room for lost chunks only.
    Retransmission,
    /// With concurrent multipath transfer: the window has room for new data.
    NewData,
    /// With concurrent multipath transfer: this chunk is in flight on another path and blocks delivery.
    HeadOfLine(Tsn),
}

/// Whether new data may be sent in this state of a shutdown (RFC 9260 §6).
pub(super) fn may_send(shutdown: Shutdown) -> bool {
    //= specs/rfc9260.txt#section-6
    //# Data transmission MUST only happen in the ESTABLISHED, SHUTDOWN-
    //# PENDING, and SHUTDOWN-RECEIVED states.
    //= specs/rfc9260.txt#section-4
    //# In the SHUTDOWN-RECEIVED state, the endpoint MUST transmit or
    //# retransmit data and leave this state when all data in queue is
    //# transmitted.
    matches!(shutdown, Shutdown::No | Shutdown::Pending | Shutdown::Received)
}

/// Whether the peer's window has room for a new chunk with this many bytes of user data.
pub(super) fn window_takes(up: &Up, len: usize) -> bool {
    //= specs/rfc9260.txt#section-6.1
    //# A)  At any given time, the data sender MUST NOT transmit new data to
    //# any destination transport address if its peer's rwnd indicates
    //# that the peer has no buffer space (i.e., rwnd is smaller than the
    //# size of the next DATA chunk; see Section 6.2.1), except for zero
    //# window probes.
    //= specs/rfc9260.txt#section-6.1
    //# The sender MUST also have an algorithm for sending new DATA chunks to
    //# avoid silly window syndrome (SWS) as described in [RFC1122].
    // Chunks are limited by packets and never by the window, so no further silly window avoidance is
    // needed.
    up.window == Window::ProbeDue || up.peer_a_rwnd.saturating_sub(up.sent.flight_bytes()) >= len
}
