//! The policies of partial reliability (RFC 6458 §5.3.7), and the report of an abandoned message.

use std::time::Duration;

use braidftp_base::Time;

use crate::association::Order;
use crate::ids::{Ppid, StreamId};

/// Partial reliability of a message: the policies of RFC 6458 §5.3.7. A partly sent message is only
/// abandoned if both sides support partial reliability
/// ([`messages.partial_reliability`](crate::Config::messages)). Otherwise it is reliable once a part was
/// sent, and without a lifetime from the start.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum Reliability {
    /// Fully reliable (SCTP_PR_SCTP_NONE).
    //= specs/rfc3758.txt#section-4.1
    //# TR1) If the lifetime parameter of a message is SCTP_LIFETIME_RELIABLE
    //# (or unspecified see Section 5), that message is treated as a
    //# normal reliable SCTP message, just as in the base SCTP protocol.
    #[default]
    Full,
    /// Neither sent nor retransmitted after this time since `send` (SCTP_PR_SCTP_TTL).
    Lifetime(Duration),
    /// Abandoned when a chunk would be retransmitted more often than this (SCTP_PR_SCTP_RTX).
    Retransmissions(u32),
    /// Abandoned when its send buffer is needed for a message with a lower number (SCTP_PR_SCTP_PRIO).
    /// Messages without a priority are more important than those with a number above 0.
    Priority(u32),
}

/// A message that was abandoned (SCTP_SEND_FAILED_EVENT, RFC 6458 §6.1.11).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Abandoned {
    /// Its stream.
    pub stream: StreamId,
    /// Its payload protocol identifier.
    pub ppid: Ppid,
    /// Its order.
    pub order: Order,
    /// [`Message::context`](crate::Message::context).
    pub context: u32,
    /// Whether a part was sent (SCTP_DATA_SENT), so that the peer may even have delivered it; otherwise
    /// the peer has received nothing of it (SCTP_DATA_UNSENT).
    pub was_sent: bool,
}

/// The policy of a queued message.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(in crate::association) enum Policy {
    #[default]
    Full,
    /// The lifetime begins when the time is next known.
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

/// The partial reliability of a sent message.
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
