//! Settings of streams, messages and the memory they take.

/// Streams and their re-configuration (RFC 9260 §3.3.2, RFC 6525).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Streams {
    /// Outbound streams requested (OS, RFC 9260 §3.3.2), at least 1. Default 10.
    pub outbound: u16,
    /// Inbound streams permitted (MIS, RFC 9260 §3.3.2), at least 1. Default 2,048, as in implementations
    /// of RFC 9260.
    pub inbound: u16,
    /// The maximum number of outbound streams that the peer may request (RFC 6525 §5.2.6); for inbound
    /// streams, see [`Streams::inbound`]. Default 2,048.
    pub outbound_max: u16,
    /// Stream re-configuration, if the peer supports it (RE-CONFIG, RFC 6525). Lengthens INIT. Default off.
    pub reconfiguration: bool,
    /// The re-configurations that the peer may request (RFC 6525 §6.3.1). Default none.
    pub peer_may: PeerMay,
}

impl Default for Streams {
    fn default() -> Self {
        Self {
            outbound: 10,
            inbound: 2_048,
            outbound_max: 2_048,
            reconfiguration: false,
            peer_may: PeerMay::default(),
        }
    }
}

/// Where messages are cut into DATA chunks. RFC 9260 §6.9 permits all of these.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fragments {
    /// Only a message longer than a packet is fragmented, into full packets and a rest. Common in other stacks.
    Full,
    /// Only a message longer than a packet is fragmented, into as few fragments, of the same size but for less than a word: the
    /// packets of equal messages are equally long, so that many of them leave in one batch (segmentation offload).
    Even,
    /// Any message is fragmented to fill the room in a packet: the fewest packets. A fragment has at least 256 bytes, or 8
    /// where the packet would otherwise be shorter than those before it in its batch, and end the batch.
    Filling,
}

/// How messages are cut into chunks, scheduled and abandoned (RFC 9260 §6.9, RFC 8260, RFC 3758).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `fragments` | Full | Full | Filling | Full |
/// | `scheduler` | RoundRobin | RoundRobin | Priority | RoundRobin |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Messages {
    /// The longest message that can be sent, in bytes. One longer than the send buffer is only accepted by
    /// an empty buffer. Default 16 MiB.
    pub max_bytes: usize,
    /// Where messages are cut. Default [`Fragments::Full`].
    pub fragments: Fragments,
    /// The stream scheduler (RFC 8260 §3). Default round robin.
    pub scheduler: Scheduler,
    /// Whether messages of different streams are interleaved, if the peer supports it (I-DATA, RFC 8260
    /// §2), so that a long message does not delay others. Lengthens INIT; some stacks do not answer an INIT
    /// with parameters. Default off.
    pub interleaving: bool,
    /// Whether messages may be abandoned after they were sent, if the peer supports it (PR-SCTP, RFC 3758),
    /// as requested in [`Message::reliability`](crate::Message::reliability). Lengthens INIT. RFC 3758 §4.2
    /// recommends to offer it. Default off.
    pub partial_reliability: bool,
}

impl Default for Messages {
    fn default() -> Self {
        Self {
            max_bytes: 16 << 20,
            fragments: Fragments::Full,
            scheduler: Scheduler::RoundRobin,
            //= specs/rfc8260.txt#section-2.2.1
            //# An endpoint implementing the socket API specified in [RFC6458] MUST
            //# NOT indicate user message interleaving support unless the user has
            //# requested its use (e.g., via the socket API; see Section 4.3).
            //= specs/rfc8260.txt#section-2.2.1
            //# This is not the default choice within the socket API (see the
            //# SCTP_FRAGMENT_INTERLEAVE socket option in Section 8.1.20 of
            //# [RFC6458]); thus, the user MUST indicate to the SCTP implementation
            //# its support for receiving completely interleaved messages.
            //= specs/rfc8260.txt#section-2.2.1
            //# The crucial point is that the SCTP stack MUST know that the
            //# application can handle interleaved messages before indicating the
            //# I-DATA support.
            interleaving: false,
            partial_reliability: false,
        }
    }
}

/// Buffers (RFC 9260 §3.3.2, §6.2).
///
/// | | `rfc2960-kame` | `rfc9260` | `modern` | `ns2` |
/// |---|---|---|---|---|
/// | `receive_buffer_bytes` | 1048576 B | 1048576 B | 8388608 B | 65536 B |
/// | `receive_buffer_max_bytes` | none | none | 67108864 B | none |
/// | `send_buffer_bytes` | 1048576 B | 1048576 B | 4194304 B | 1048576 B |
/// | `send_buffer_max_bytes` | none | none | 67108864 B | none |
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Memory {
    /// The receive buffer in bytes, from which `a_rwnd` is computed. Includes chunk overhead. With
    /// interleaving, up to twice as much is held of messages that wait for others. At least 1,500. Default
    /// 1 MiB.
    pub receive_buffer_bytes: usize,
    /// The size in bytes up to which the receive buffer grows automatically, to twice what arrives and is
    /// read in one RTT of the slowest path. The additional memory is used only if both the sender and the
    /// reader are that fast. `None`, the default: the size is fixed.
    pub receive_buffer_max_bytes: Option<usize>,
    /// The receive buffer in bytes of an association opened by a peer, until its user calls
    /// [`Association::admit`](crate::Association::admit). Until then the association is half-open, its
    /// buffer does not grow, and it counts towards [`Limits::half_open`](crate::Limits::half_open). At
    /// least 1,500. `None`, the default: admitted from the start.
    pub unadmitted_receive_buffer_bytes: Option<usize>,
    /// The send buffer in bytes: messages queued or not yet acknowledged. Default 1 MiB.
    pub send_buffer_bytes: usize,
    /// The size in bytes up to which the send buffer grows automatically, by the bytes in flight, so that
    /// as much data as before can be queued behind them. `None`, the default: the size is fixed.
    pub send_buffer_max_bytes: Option<usize>,
}

impl Default for Memory {
    fn default() -> Self {
        Self {
            receive_buffer_bytes: 1 << 20,
            receive_buffer_max_bytes: None,
            unadmitted_receive_buffer_bytes: None,
            send_buffer_bytes: 1 << 20,
            send_buffer_max_bytes: None,
        }
    }
}

/// The re-configurations that a peer may request (RFC 6525 §6.3.1, SCTP_ENABLE_STREAM_RESET). Others are
/// denied.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub struct PeerMay {
    /// Whether streams of either direction may be reset.
    pub reset_streams: bool,
    /// Whether all SSNs and TSNs may be reset.
    pub reset_association: bool,
    /// Whether streams of either direction may be added.
    pub add_streams: bool,
}

/// Stream schedulers (RFC 8260 §3). The scheduler is the sender's own choice; the peer is not involved.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum Scheduler {
    /// Messages in the order of `send` (§3.1).
    FirstComeFirstServed,
    /// One message of each stream in turn (§3.2).
    #[default]
    RoundRobin,
    /// Like round robin, but a packet contains new chunks of one stream only, so its loss blocks no
    /// other stream (§3.3).
    RoundRobinByPacket,
    /// The stream with the lowest value first; in turn among equals (§3.4).
    Priority,
    /// The same number of bytes for each stream, however long its messages are (§3.5).
    FairCapacity,
    /// Bytes in proportion to the streams' values (§3.6).
    WeightedFairQueueing,
}
