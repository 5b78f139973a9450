//! The states of a connection (RFC 9293 §3.3.2).

/// The state of a connection (RFC 9293 §3.3.2).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum State {
    /// A SYN was sent; the answer is awaited.
    SynSent,
    /// A SYN was received and answered.
    SynReceived,
    /// Data may be transferred both ways.
    Established,
    /// This side closed; the FIN is not acknowledged.
    FinWait1,
    /// This side closed and its FIN is acknowledged; the peer has not closed.
    FinWait2,
    /// The peer has closed, this side has not.
    CloseWait,
    /// Both sides closed at once; the FIN is not acknowledged.
    Closing,
    /// The peer closed first, then this side; the FIN is not acknowledged.
    LastAck,
    /// Closed; waits for 2 MSL so that old segments expire.
    TimeWait,
    /// Closed.
    Closed,
}
