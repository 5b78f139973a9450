//! The states of an association (RFC 9260 §4), with the data that only one state has.

use std::collections::VecDeque;

use braidftp_base::Time;
use bytes::Bytes;

use crate::association::Reason;
use crate::association::asconf::addresses::Addresses;
use crate::association::multipath::coupled::Coupled;
use crate::association::multipath::cuc::PseudoCumAck;
use crate::association::partial::forward::Forward;
use crate::association::received::Received;
use crate::association::reset::state::Reconfiguration;
use crate::association::sent::{Report, Sent};
use crate::extensions::Extensions;
use crate::ids::{PathId, Tsn, VerificationTag};
use crate::wire::{Cause, Chunk};

/// The states of an association. The states of RFC 9260 §4 within `Up` are distinguished by [`Shutdown`].
#[derive(Debug)]
pub(super) enum State {
    /// COOKIE-WAIT: INIT was sent or is about to be.
    CookieWait {
        /// The number of retransmissions.
        retry: u32,
        /// Whether INIT must be sent.
        init_due: bool,
        /// The time of each INIT.
        sent_at: Vec<Time>,
        /// The number of INITs for which ICMP reported that the UDP port is closed.
        refused: u32,
    },
    /// COOKIE-ECHOED: COOKIE ECHO was sent or is about to be.
    CookieEchoed {
        /// The number of retransmissions.
        retry: u32,
        cookie: Bytes,
        /// Whether COOKIE ECHO must be sent.
        cookie_due: bool,
        up: Box<Up>,
    },
    /// Data can be transferred.
    Up(Box<Up>),
    /// The association has ended.
    Closed(Reason),
}

impl State {
    /// COOKIE-WAIT before the first INIT.
    pub(super) fn cookie_wait(init_due: bool) -> Self {
        Self::CookieWait { retry: 0, init_due, sent_at: Vec::new(), refused: 0 }
    }

    /// The state from the moment the peer is known until the end.
    pub(super) fn up(&self) -> Option<&Up> {
        match self {
            Self::CookieEchoed { up, .. } | Self::Up(up) => Some(up),
            Self::CookieWait { .. } | Self::Closed(_) => None,
        }
    }
}

/// The progress of a shutdown (RFC 9260 §9.2). Separate from [`State`], because a user may request a
/// shutdown before the end of the handshake.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Shutdown {
    /// No shutdown was requested.
    No,
    /// SHUTDOWN-PENDING: SHUTDOWN is sent once all data is acknowledged.
    Pending,
    /// SHUTDOWN-SENT.
    Sent {
        /// Retransmissions of SHUTDOWN since the last packet of the peer.
        retry: u32,
        /// Retransmissions since the peer sent data, which determine the path of the next one.
        repeats: u32,
        /// Whether SHUTDOWN must be sent.
        due: bool,
    },
    /// SHUTDOWN-RECEIVED: queued data is still sent.
    Received,
    /// SHUTDOWN-ACK-SENT.
    AckSent {
        /// The number of retransmissions of SHUTDOWN ACK.
        retry: u32,
        /// Whether SHUTDOWN ACK must be sent.
        due: bool,
    },
}

/// The state of an established association.
#[derive(Debug)]
pub(super) struct Up {
    pub(super) peer_tag: VerificationTag,
    /// The extensions in use.
    pub(super) extensions: Extensions,
    /// The peer's adaptation code point.
    pub(super) adaptation: Option<u32>,
    /// The window in the last SACK.
    pub(super) peer_a_rwnd: usize,
    pub(super) sent: Sent,
    pub(super) received: Received,
    /// Reused for each SACK.
    pub(super) report: Report,
    pub(super) control: Control,
    /// The number of packets with lost chunks that may be sent before the next SACK; `None`: as many as the
    /// windows permit.
    pub(super) retransmissions_left: Option<u32>,
    /// With concurrent multipath transfer: the pseudo-cumack of each path.
    pub(super) pseudo_cums: Vec<PseudoCumAck>,
    /// With concurrent multipath transfer: the coupling of congestion control.
    pub(super) coupled: Coupled,
    /// With concurrent multipath transfer: the number of new chunks until the next skipped TSN, if drawn
    /// already.
    pub(super) skip_tsn_in: Option<u64>,
    /// Whether ECF waits for the faster path.
    pub(super) ecf_waits: bool,
    /// The path whose turn it is to carry new data, and whether it carried some in this drain.
    pub(super) turn: usize,
    pub(super) turn_taken: bool,
    /// When new data was sent last.
    pub(super) new_data_at: Time,
    /// Decides between equal paths in policies; changes at each SACK and time-out.
    pub(super) tie_break: u32,
    /// The path of new data.
    pub(super) primary: PathId,
    /// The path on which the last DATA arrived, and on which SACKs are sent.
    pub(super) sack_path: PathId,
    /// A path on which SACKs seem to be lost.
    pub(super) sack_avoids: Option<PathId>,
    /// Whether a path failed or recovered since the last SACK, which may be lost.
    pub(super) sack_may_be_lost: bool,
    /// Scratch: the chunks of the packet being filled.
    pub(super) packed: Vec<Tsn>,
    /// How much of the advertised window the peer has not used.
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
    /// On the passive side: when the association became ESTABLISHED, or the first flight was last
    /// retransmitted in response to a repeated COOKIE ECHO.
    pub(super) first_flight_sent_at: Option<Time>,
    /// The number of these retransmissions.
    pub(super) first_flight_repairs: u32,
    /// If both sides are ECN-capable.
    pub(super) ecn: Option<EcnState>,
}

/// The ECN state, if both sides are ECN-capable.
#[derive(Debug, Default)]
pub(super) struct EcnState {
    /// The lowest TSN of the last marked packet that the peer has not confirmed yet; ECNE repeats it.
    pub(super) echo: Option<Tsn>,
    /// The TSN of an ECNE to be answered by CWR.
    pub(super) cwr: Option<Tsn>,
}

/// Whether the peer's window permits data.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Window {
    /// Determined by its size.
    Open,
    /// It is closed, and the next chunk may be sent as a probe.
    ProbeDue,
    /// It is closed, and this TSN was sent as a probe.
    Probing {
        tsn: Tsn,
        /// Whether a packet of the peer has arrived since the probe.
        answered: bool,
    },
}

/// Control chunks to send.
#[derive(Debug, Default)]
pub(super) struct Control {
    /// A COOKIE ACK, on the path of its COOKIE ECHO.
    pub(super) cookie_ack: Option<PathId>,
    /// HEARTBEAT ACKs, each on the path of its HEARTBEAT.
    pub(super) heartbeat_acks: VecDeque<(PathId, Chunk)>,
    /// The causes for an ERROR chunk.
    pub(super) errors: Vec<Cause>,
}

/// The maximum number of queued HEARTBEAT ACKs: a peer has one HEARTBEAT outstanding per path.
pub(super) const HEARTBEAT_ACKS_MAX: usize = 16;
/// The maximum number of queued causes.
pub(super) const ERRORS_MAX: usize = 8;
/// The maximum length quoted from a chunk or parameter.
const QUOTE_MAX: usize = 256;

impl Control {
    pub(super) fn add_heartbeat_ack(&mut self, path: PathId, ack: Chunk) {
        if self.heartbeat_acks.len() < HEARTBEAT_ACKS_MAX {
            // Usually there is one, and the next comes after a heartbeat interval.
            self.heartbeat_acks.reserve_exact(1);
            self.heartbeat_acks.push_back((path, ack));
        }
    }

    pub(super) fn add_error(&mut self, cause: Cause) {
        if self.errors.len() < ERRORS_MAX {
            self.errors.push(cause);
        }
    }
}

/// The part of a peer's chunk or parameter to quote; empty if it is too long.
pub(super) fn quotable(raw: &Bytes) -> Option<Bytes> {
    (raw.len() <= QUOTE_MAX).then(|| raw.clone())
}
