//! The parameters of an established association.

/// The parameters of an established association (RFC 9260 §5.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Up {
    /// The number of outbound streams.
    pub outbound_streams: u16,
    /// The number of inbound streams.
    pub inbound_streams: u16,
}
