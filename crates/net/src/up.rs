//! What an association came up with.

/// What an association came up with (RFC 9260 §5.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Up {
    /// Streams that we may send on: 0 up to this, exclusive.
    pub outbound_streams: u16,
    /// Streams that the peer may send on.
    pub inbound_streams: u16,
}
