//! The states of an association (RFC 9260 §4), with the data that only one state has.

use std::collections::VecDeque;

use braidftp_base::Time;
use bytes::Bytes;

use crate::association::Reason;
use crate::association::asconf::Addresses;
use crate::association::ecn::EcnState;
use crate::association::multipath::{Coupled, PseudoCumAck};
use crate::association::partial::Forward;
use crate::association::received::Received;
use crate::association::reset::Reconfiguration;
use crate::association::sent::{Report, Sent};
use crate::extensions::Extensions;
use crate::ids::{PathId, Tsn, VerificationTag};
use crate::wire::{Cause, Chunk};

/// The states before and after the one in which data flows; what RFC 9260 §4 distinguishes further within `Up` is
/// [`Shutdown`].
#[derive(Debug)]
pub(super) enum State {
    /// INIT is out, or about to leave.
    CookieWait {
        /// How often it was repeated.
        retry: u32,
        /// Whether it is to leave.
        init_due: bool,
        /// When each INIT was sent.
        sent_at: Vec<Time>,
    },
    /// COOKIE ECHO is out, or about to leave.
    CookieEchoed {
        /// How often it was repeated.
        retry: u32,
        cookie: Bytes,
        /// Whether it is to leave.
        cookie_due: bool,
        up: Box<Up>,
    },
    /// Data flows.
    Up(Box<Up>),
    /// Over.
    Closed(Reason),
}

impl State {
    /// COOKIE-WAIT, with nothing sent yet.
    pub(super) fn cookie_wait(init_due: bool) -> Self {
        Self::CookieWait { retry: 0, init_due, sent_at: Vec::new() }
    }

    /// What there is once the peer is known and until the end.
    pub(super) fn up(&self) -> Option<&Up> {
        match self {
            Self::CookieEchoed { up, .. } | Self::Up(up) => Some(up),
            Self::CookieWait { .. } | Self::Closed(_) => None,
        }
    }
}

/// What RFC 9260 §9.2 makes of an association that is to end. It stands beside [`State`], because a user may ask for it
/// before the handshake is done.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// Nobody has asked.
    No,
    /// SHUTDOWN-PENDING: it begins once all data is acknowledged.
    Pending,
    /// SHUTDOWN-SENT.
    Sent {
        /// How often SHUTDOWN was repeated since the peer was heard.
        retry: u32,
        /// The same since it sent data: by which path SHUTDOWN is repeated.
        repeats: u32,
        /// Whether it is to leave.
        due: bool,
    },
    /// SHUTDOWN-RECEIVED: what is queued still leaves.
    Received,
    /// SHUTDOWN-ACK-SENT.
    AckSent {
        /// How often SHUTDOWN ACK was repeated.
        retry: u32,
        /// Whether it is to leave.
        due: bool,
    },
}

/// All that the two sides know of each other.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) peer_tag: VerificationTag,
    /// What both sides use.
    pub(super) extensions: Extensions,
    /// What the peer's user says of itself.
    pub(super) adaptation: Option<u32>,
    /// The window that the peer advertised last.
    pub(super) peer_a_rwnd: usize,
    pub(super) sent: Sent,
    pub(super) received: Received,
    /// Reused from SACK to SACK.
    pub(super) report: Report,
    pub(super) control: Control,
    /// So many packets of what is lost may leave before the next SACK; `None`: as many as windows allow.
    pub(super) retransmissions_left: Option<u32>,
    /// With concurrent multipath transfer: each path's own cumulative point.
    pub(super) pseudo_cums: Vec<PseudoCumAck>,
    /// The same: how their congestion control is coupled.
    pub(super) coupled: Coupled,
    /// The same: so many new chunks leave before one is passed over, if that is drawn already.
    pub(super) pass_over_in: Option<u64>,
    /// Whether ECF waits for the faster path.
    pub(super) ecf_waits: bool,
    /// The path whose turn it is to carry new data, and whether it has in this drain.
    pub(super) turn: usize,
    pub(super) turn_taken: bool,
    /// Decides where policies find paths alike; another at each SACK and time-out.
    pub(super) chance: u32,
    /// Where new data goes.
    pub(super) primary: PathId,
    /// Where the last DATA came from, and SACKs go.
    pub(super) sack_path: PathId,
    /// A path by which SACKs seem not to arrive.
    pub(super) sack_avoids: Option<PathId>,
    /// Whether a path died or came back since the last SACK, which may be lost.
    pub(super) sack_in_doubt: bool,
    /// Scratch: the chunks of the packet that is being filled.
    pub(super) packed: Vec<Tsn>,
    /// How much the peer may still send of what was advertised to it.
    pub(super) offered_bytes: usize,
    /// Time-outs and unanswered HEARTBEATs in a row (RFC 9260 §8.1).
    //= specs/rfc9260.txt#section-8.1
    //# An endpoint SHOULD keep a counter on the total number of consecutive
    //# retransmissions to its peer (this includes data retransmissions to all
    //# the destination transport addresses of the peer if it is multi-homed),
    pub(super) errors: u32,
    pub(super) window: Window,
    /// If both sides support it.
    pub(super) reconfiguration: Option<Reconfiguration>,
    pub(super) addresses: Addresses,
    pub(super) forward: Forward,
    /// For the side that was asked: when it became ESTABLISHED, or last retransmitted its first flight for a COOKIE ECHO that
    /// came again.
    pub(super) first_flight_sent_at: Option<Time>,
    /// How often it did so.
    pub(super) first_flight_repairs: u32,
    /// If both sides are ECN-capable.
    pub(super) ecn: Option<EcnState>,
}

/// Whether the peer's window lets data out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// As its size says.
    Open,
    /// It is closed and the next chunk may leave to probe it.
    ProbeDue,
    /// It is closed; this TSN left to probe it.
    Probing {
        tsn: Tsn,
        /// Whether the peer was heard since the probe left.
        answered: bool,
    },
}

/// Control chunks waiting to leave.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// A COOKIE ACK, by the path on which its COOKIE ECHO came.
    pub(super) cookie_ack: Option<PathId>,
    /// HEARTBEAT ACKs, each by the path on which its HEARTBEAT came.
    pub(super) heartbeat_acks: VecDeque<(PathId, Chunk)>,
    /// What to say in an ERROR chunk.
    pub(super) errors: Vec<Cause>,
}

/// The most HEARTBEATs that wait for their answer: a peer has one under way on each path.
pub(super) const HEARTBEAT_ACKS_MAX: usize = 16;
/// The most causes that wait to be reported.
pub(super) const ERRORS_MAX: usize = 8;
/// How much of a chunk or parameter is quoted in a report.
const QUOTE_MAX: usize = 256;

impl Control {
    pub(super) fn add_heartbeat_ack(&mut self, path: PathId, ack: Chunk) {
        if self.heartbeat_acks.len() < HEARTBEAT_ACKS_MAX {
            self.heartbeat_acks.push_back((path, ack));
        }
    }

    pub(super) fn add_error(&mut self, cause: Cause) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(cause);
        }
    }
}

/// What can be quoted of something the peer sent; nothing if it is too long to be said back.
pub(super) fn quotable(raw: &Bytes) -> Option<Bytes> {
    (raw.len() <= QUOTE_MAX).then(|| raw.clone())
}
