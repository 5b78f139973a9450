//! Protocol violations by the peer within an association, and the reaction to each.

use std::fmt;

use bytes::Bytes;

use crate::dtls::Disagreement;
use crate::ids::{StreamId, Tsn};
use crate::wire::Cause;

/// Protocol violations by the peer of an association.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Violation {
    /// An INIT ACK without a state cookie.
    InitAckWithoutCookie,
    /// An INIT ACK with a tag or stream count of 0.
    InitAckInvalid,
    /// An INIT ACK with a host name.
    HostName,
    /// A random number without 32 bytes, or a list that is too long, among the authentication
    /// parameters.
    AuthParameters,
    /// ASCONF without authentication among the extensions (RFC 5061 §6).
    AsconfWithoutAuth,
    /// An ASCONF-ACK with a serial number that was not used yet.
    AsconfAckOfNothing,
    /// A cookie that fits no packet.
    CookieTooLong,
    /// A DATA chunk without user data.
    NoUserData(Tsn),
    /// A DATA chunk for a stream that was not negotiated.
    InvalidStream(StreamId),
    /// A fragment that continues a message which has not begun.
    FragmentWithoutBegin,
    /// A message began, or another one continued, in the middle of a message.
    MessageInterrupted,
    /// A message's stream sequence number is not the next one, although all earlier messages arrived.
    SsnOutOfStep,
    /// A DATA chunk although I-DATA was negotiated, or vice versa.
    WrongDataChunk,
    /// An ordered message with the identifier of a delivered one (RFC 8260 §2.1).
    MidOutOfStep,
    /// A fragment number that is a duplicate, beyond the last one, or 0 in another fragment than the
    /// first (RFC 8260 §2.1).
    FragmentOutOfPlace,
    /// The receive buffer is full of messages that wait for others (RFC 8260 §2.2.2).
    NoProgress,
    /// FORWARD TSN although I-DATA was negotiated, or I-FORWARD-TSN although it was not (RFC 8260
    /// §2.3.1).
    WrongForwardTsn,
    /// A FORWARD TSN beyond any advertised window.
    ForwardTsnTooFar(Tsn),
    /// A SACK, gap block or SHUTDOWN for a TSN that was never sent, or was skipped and not sent yet.
    AckOfNothing,
    /// A RE-CONFIG chunk with an invalid combination of parameters (RFC 6525 §3.1).
    ReconfigCombination,
    /// A performed association reset without the new TSNs (RFC 6525 §4.4).
    ReconfigResponse,
    /// An INIT ACK without protection, or without a common key management method
    /// (draft-ietf-tsvwg-sctp-dtls-chunk §5.1).
    Dtls(Disagreement),
    /// A SACK that reneges on TSNs of an NR-SACK.
    AckTakenBack,
}

/// The reaction to a violation.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Answer {
    /// ABORT with this cause.
    Abort(Cause),
    /// ERROR with this cause; the association continues.
    Error(Cause),
    /// None.
    Silence,
}

impl Violation {
    /// Returns the reaction to the violation.
    pub(super) fn answer(self) -> Answer {
        let protocol_violation =
            || Answer::Abort(Cause::ProtocolViolation(Bytes::from(self.to_string().into_bytes())));
        match self {
            Self::InitAckWithoutCookie => Answer::Abort(Cause::MissingMandatoryParameter(vec![7])),
            Self::InitAckInvalid => Answer::Abort(Cause::InvalidMandatoryParameter),
            //= specs/rfc4895.txt#section-6.1
            //# If the Random
            //# Number is not 32 bytes, the association MUST be aborted.  The ABORT
            //# chunk SHOULD contain the error cause 'Protocol Violation'.
            Self::AuthParameters => protocol_violation(),
            Self::AsconfWithoutAuth => Answer::Silence,
            //= specs/draft-ietf-tsvwg-sctp-dtls-chunk.md#section-5.1
            //# If an SCTP endpoint operates in strict DTLS mode and receives an SCTP packet
            //# with an INIT or INIT ACK chunk does not contain any DTLS Key Management Parameter
            //# or only an incompatible one, the endpoint MUST send an SCTP packet with an
            //# ABORT chunk.
            Self::Dtls(why) => Answer::Abort(why.cause()),
            //= specs/rfc5061.txt#section-4.3.4
            //# This error is to be included in an ABORT that is generated due to the
            //# reception of an ASCONF-ACK that was not expected but is larger than
            //# the current Sequence Number (see Section 5.3, Rule F0 ).
            Self::AsconfAckOfNothing => Answer::Abort(Cause::IllegalAsconfAck),
            Self::HostName | Self::CookieTooLong => protocol_violation(),
            //= specs/rfc9260.txt#section-6.2
            //# If an endpoint receives a DATA chunk with no user data (i.e., the
            //# Length field is set to 16), it SHOULD send an ABORT chunk with a "No
            //# User Data" error cause.
            Self::NoUserData(tsn) => Answer::Abort(Cause::NoUserData(tsn)),
            //= specs/rfc9260.txt#section-6.5
            //# If an
            //# endpoint receives a DATA chunk with an invalid stream identifier, it
            //# SHOULD acknowledge the reception of the DATA chunk following the
            //# normal procedure, immediately send an ERROR chunk with cause set to
            //# "Invalid Stream Identifier" (see Section 3.3.10), and discard the
            //# DATA chunk.
            Self::InvalidStream(stream) => Answer::Error(Cause::InvalidStreamIdentifier(stream)),
            Self::FragmentWithoutBegin | Self::MessageInterrupted | Self::SsnOutOfStep => {
                protocol_violation()
            }
            //= specs/rfc8260.txt#section-2.2.3
            //# If I-DATA support has been negotiated for an association, the
            //# reception of a DATA chunk is a violation of the above rules and
            //# therefore the receiver of the DATA chunk MUST abort the association
            //# by sending an ABORT chunk.
            Self::WrongDataChunk | Self::MidOutOfStep | Self::FragmentOutOfPlace | Self::NoProgress => {
                protocol_violation()
            }
            //= specs/rfc8260.txt#section-2.3.1
            //# If I-FORWARD-TSN support has been negotiated for an association, the
            //# reception of a FORWARD-TSN chunk is a violation of the above rules
            //# and therefore the receiver of the FORWARD-TSN chunk MUST abort the
            //# association by sending an ABORT chunk.  The ABORT chunk MAY include
            //# the 'Protocol Violation' error cause.
            Self::WrongForwardTsn | Self::ForwardTsnTooFar(_) => protocol_violation(),
            Self::AckTakenBack => protocol_violation(),
            Self::AckOfNothing | Self::ReconfigResponse => protocol_violation(),
            Self::ReconfigCombination => {
                Answer::Error(Cause::ProtocolViolation(Bytes::from(self.to_string().into_bytes())))
            }
        }
    }
}

impl fmt::Display for Violation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::InitAckWithoutCookie => f.write_str("INIT ACK without a state cookie"),
            Self::InitAckInvalid => f.write_str("INIT ACK with an invalid mandatory value"),
            Self::HostName => f.write_str("INIT ACK with a host name"),
            Self::AsconfWithoutAuth => f.write_str("ASCONF without authentication"),
            Self::AsconfAckOfNothing => f.write_str("ASCONF-ACK without an outstanding ASCONF"),
            Self::AuthParameters => f.write_str("malformed authentication parameters"),
            Self::Dtls(why) => why.fmt(f),
            Self::CookieTooLong => f.write_str("state cookie longer than a packet"),
            Self::NoUserData(tsn) => write!(f, "DATA chunk {tsn} without user data"),
            Self::InvalidStream(stream) => {
                write!(f, "DATA chunk for stream {}, which does not exist", stream.0)
            }
            Self::FragmentWithoutBegin => f.write_str("fragment of a message that did not begin"),
            Self::MessageInterrupted => f.write_str("message interrupted by another"),
            Self::SsnOutOfStep => f.write_str("stream sequence number out of step"),
            Self::WrongDataChunk => {
                f.write_str("DATA and I-DATA chunks mixed, or the kind that was not negotiated")
            }
            Self::MidOutOfStep => f.write_str("message identifier out of step"),
            Self::FragmentOutOfPlace => f.write_str("fragment sequence number out of place"),
            Self::NoProgress => f.write_str("receive buffer full, and none of its messages can be delivered"),
            Self::WrongForwardTsn => f.write_str("FORWARD TSN with I-DATA, or I-FORWARD-TSN with DATA"),
            Self::ForwardTsnTooFar(tsn) => write!(f, "FORWARD TSN to {tsn}, beyond the receive window"),
            Self::AckTakenBack => f.write_str("SACK that reneges on TSNs of an NR-SACK"),
            Self::AckOfNothing => f.write_str("acknowledgement of a TSN that was never sent"),
            Self::ReconfigCombination => {
                f.write_str("RE-CONFIG chunk with parameters that cannot be combined")
            }
            Self::ReconfigResponse => f.write_str("association reset without the new TSNs"),
        }
    }
}
