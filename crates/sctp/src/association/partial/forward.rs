//! What the peer is told of abandoned messages, and when (RFC 3758 §3.5).

use braidftp_base::Time;

use crate::ids::{PathId, Tsn};

/// What a SACK did to the cumulative TSN ack point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) enum Cum {
    Same,
    /// Data was acknowledged.
    Advanced,
    /// Nothing but what was given up was acknowledged.
    Forwarded,
}

/// What the peer is told of what was given up.
#[derive(Debug, Default)]
pub(in crate::association) struct Forward {
    /// Whether FORWARD TSN is to leave.
    pub(super) due: bool,
    /// The point of which the peer was told last.
    pub(super) last_sent: Option<SentForward>,
    /// The path whose time-out asks for it to be said again.
    pub(super) timed_out: Option<PathId>,
}

impl Forward {
    /// A path is gone: what left by it counts as sent by `new_path`, and is said again there.
    pub(in crate::association) fn move_to_path(&mut self, from: PathId, new_path: PathId) {
        if let Some(last_sent) = &mut self.last_sent
            && last_sent.path == from
        {
            last_sent.path = new_path;
            self.due = true;
        }
        self.timed_out = self.timed_out.filter(|by| *by != from);
    }
}

#[derive(Debug, Clone, Copy)]
pub(super) struct SentForward {
    /// Advanced.Peer.Ack.Point then.
    pub(super) point: Tsn,
    /// Whether the streams did not all fit in the packet, so that the peer was told of a lower one.
    pub(super) lowered: bool,
    pub(super) path: PathId,
    pub(super) at: Time,
}
