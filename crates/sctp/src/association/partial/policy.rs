//! How long a message is tried for (RFC 6458 §5.3.7), and what the user is told of one that was abandoned.

use std::time::Duration;

use braidftp_base::Time;

use crate::association::Order;
use crate::ids::{Ppid, StreamId};

/// How long a message is tried for: the policies of RFC 6458 §5.3.7. What has left of a message is given up only where
/// both sides agreed on partial reliability ([`messages.partial_reliability`](crate::Config::messages)); else it
/// is reliable once some of it has left, and without a lifetime from the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Until it arrives (SCTP_PR_SCTP_NONE).
    //= specs/rfc3758.txt#section-4.1
    //# TR1) If the lifetime parameter of a message is SCTP_LIFETIME_RELIABLE
    //# (or unspecified see Section 5), that message is treated as a
    //# normal reliable SCTP message, just as in the base SCTP protocol.
    #[default]
    Full,
    /// For this long after `send` (SCTP_PR_SCTP_TTL): it does not leave later, nor leave again.
    Lifetime(Duration),
    /// Until a chunk of it would have to be sent again more often than this (SCTP_PR_SCTP_RTX).
    Retransmissions(u32),
    /// Until its place in the send buffer is wanted for a message of a lower number (SCTP_PR_SCTP_PRIO). A message without
    /// a priority is more important than any with a number above 0.
    Priority(u32),
}

/// A message that was given up (SCTP_SEND_FAILED_EVENT, RFC 6458 §6.1.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned {
    /// On which stream.
    pub stream: StreamId,
    /// What the payload was.
    pub ppid: Ppid,
    /// How it was sent.
    pub order: Order,
    /// What [`Message::context`](crate::Message::context) said.
    pub context: u32,
    /// Whether some of it has left (SCTP_DATA_SENT); the peer may even have delivered it. Else it certainly has nothing of
    /// it (SCTP_DATA_UNSENT).
    pub was_sent: bool,
}

/// What [`Reliability`] becomes once a message is queued.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::association) enum Policy {
    #[default]
    Full,
    /// It begins when the time is next known.
    Lifetime(Duration),
    Until(Time),
    Retransmissions(u32),
    Priority(u32),
}

impl From<Reliability> for Policy {
    fn from(reliability: Reliability) -> Self {
        match reliability {
            Reliability::Full => Self::Full,
            Reliability::Lifetime(lifetime) => Self::Lifetime(lifetime),
            Reliability::Retransmissions(max) => Self::Retransmissions(max),
            Reliability::Priority(priority) => Self::Priority(priority),
        }
    }
}

/// What a message was sent on.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::association) struct Terms {
    pub(in crate::association) policy: Policy,
    pub(in crate::association) context: u32,
}

impl Terms {
    pub(in crate::association) fn is_prioritized(self) -> bool {
        matches!(self.policy, Policy::Priority(_))
    }
}
