//! The bytes of RFC 9260 §3: a packet is a common header and chunks. Parsed means valid: a [`Chunk`] cannot hold a
//! bad length.

use bytes::Bytes;

use crate::ids::{Ppid, Ssn, StreamId, Tsn, VerificationTag};

/// The common header (RFC 9260 §3.1), without its checksum.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Header {
    /// The sender's SCTP port.
    pub source_port: u16,
    /// The receiver's SCTP port.
    pub destination_port: u16,
    /// The receiver's verification tag.
    pub tag: VerificationTag,
}

/// A chunk of a known type (RFC 9260 §3.2), or an unknown one as it stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Chunk {
    /// §3.3.1
    Data(Data),
    /// §3.3.2
    Init(Init),
    /// §3.3.3, with its state cookie among the parameters
    InitAck(Init),
    /// §3.3.4
    Sack(Sack),
    /// §3.3.5; the opaque Heartbeat Info
    Heartbeat(Bytes),
    /// §3.3.6; the opaque Heartbeat Info
    HeartbeatAck(Bytes),
    /// §3.3.7
    Abort {
        /// Whether the tag is the sender's own, reflected (T bit).
        reflected: bool,
        /// Why.
        causes: Vec<Cause>,
    },
    /// §3.3.8
    Shutdown {
        /// All up to this TSN arrived.
        cum_tsn_ack: Tsn,
    },
    /// §3.3.9
    ShutdownAck,
    /// §3.3.10
    Error(Vec<Cause>),
    /// §3.3.11
    CookieEcho(Bytes),
    /// §3.3.12
    CookieAck,
    /// §3.3.13
    ShutdownComplete {
        /// Whether the tag is the receiver's own, reflected (T bit).
        reflected: bool,
    },
    /// A type this stack does not know; its high bits say what to do (§3.2).
    Unknown {
        /// The chunk type.
        kind: u8,
        /// The whole chunk, header included, as it stood.
        raw: Bytes,
    },
}

/// A DATA chunk (RFC 9260 §3.3.1).
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Data {
    /// Whether this fragment begins its message (B).
    pub begin: bool,
    /// Whether this fragment ends its message (E).
    pub end: bool,
    /// Whether the message is unordered (U).
    pub unordered: bool,
    /// Whether the sender wants a SACK at once (I).
    pub immediate: bool,
    /// The chunk's TSN.
    pub tsn: Tsn,
    /// The stream.
    pub stream: StreamId,
    /// The message's place in its stream; without meaning if unordered.
    pub ssn: Ssn,
    /// What the payload is, to the application.
    pub ppid: Ppid,
    /// At least one byte.
    pub payload: Bytes,
}

/// A SACK chunk (RFC 9260 §3.3.4). Blocks are as received: `wire` checks lengths, `association` checks sense.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Sack {
    /// All up to this TSN arrived.
    pub cum_tsn_ack: Tsn,
    /// The receiver's advertised window, in bytes.
    pub a_rwnd: u32,
    /// Start and end offsets from `cum_tsn_ack`, both inclusive.
    pub gaps: Vec<(u16, u16)>,
    /// TSNs that arrived more than once.
    pub dups: Vec<Tsn>,
}

/// The fixed part of INIT and INIT ACK (RFC 9260 §3.3.2, §3.3.3) and the parameters behind it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Init {
    /// The tag that the receiver must put in all its packets; never 0.
    pub initiate_tag: VerificationTag,
    /// The sender's receive window, in bytes.
    pub a_rwnd: u32,
    /// Outbound streams that the sender wants; never 0.
    pub outbound_streams: u16,
    /// Inbound streams that the sender can take; never 0.
    pub inbound_streams: u16,
    /// The first TSN the sender will use.
    pub initial_tsn: Tsn,
    /// What follows, in order.
    pub parameters: Vec<Parameter>,
}

/// A parameter of INIT or INIT ACK (RFC 9260 §3.3.2.1, §3.3.3.1), or an unknown one as it stood.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Parameter {
    /// An address of the sender (types 5 and 6).
    Address(std::net::IpAddr),
    /// The state cookie (type 7).
    StateCookie(Bytes),
    /// A parameter of the peer's INIT that was not understood (type 8), as it stood.
    Unrecognized(Bytes),
    /// Microseconds by which the cookie should live longer are wanted (type 9); in milliseconds.
    CookiePreservative(u32),
    /// A host name (type 11): refused.
    HostName(Bytes),
    /// Address types that the sender can take (type 12).
    SupportedAddressTypes(Vec<u16>),
    /// Any other, header included; its high bits say what to do (§3.2.1).
    Unknown {
        /// The parameter type.
        kind: u16,
        /// The whole parameter as it stood.
        raw: Bytes,
    },
}

/// An error cause (RFC 9260 §3.3.10).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Cause {
    /// 1
    InvalidStreamIdentifier(StreamId),
    /// 2: the parameter types that were missing
    MissingMandatoryParameter(Vec<u16>),
    /// 3: how stale, in microseconds
    StaleCookie(u32),
    /// 4
    OutOfResource,
    /// 5: the parameter as it stood
    UnresolvableAddress(Bytes),
    /// 6: the chunk as it stood
    UnrecognizedChunkType(Bytes),
    /// 7
    InvalidMandatoryParameter,
    /// 8: the parameters as they stood
    UnrecognizedParameters(Bytes),
    /// 9
    NoUserData(Tsn),
    /// 10
    CookieReceivedWhileShuttingDown,
    /// 11: the new addresses, as parameters
    RestartWithNewAddresses(Bytes),
    /// 12: the user's own words
    UserInitiatedAbort(Bytes),
    /// 13: what was violated
    ProtocolViolation(Bytes),
    /// Any other.
    Unknown {
        /// The cause code.
        code: u16,
        /// What followed the header.
        info: Bytes,
    },
}
