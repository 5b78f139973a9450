//! The parameters of an established association.

/// The parameters of an established association (RFC 9260 §5.1.1).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Up {
    /// The number of outbound streams.
    pub outbound_streams: u16,
    /// The number of inbound streams.
    pub inbound_streams: u16,
    /// The adaptation code point of the peer's user (RFC 5061 §4.2.6).
    pub adaptation: Option<u32>,
}
