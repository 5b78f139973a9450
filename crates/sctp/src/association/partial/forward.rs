//! FORWARD TSN on the sender's side: what to send, when and on which path (RFC 3758 §3.5).

use braidftp_base::Time;

use crate::ids::{PathId, Tsn};

/// The effect of a SACK on the cumulative TSN ack point.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(in crate::association) enum Cum {
    Same,
    /// Data was acknowledged.
    Advanced,
    /// Only abandoned chunks were acknowledged.
    Forwarded,
}

/// The state of FORWARD TSN.
#[derive(Debug, Default)]
pub(in crate::association) struct Forward {
    /// Whether FORWARD TSN must be sent.
    pub(super) due: bool,
    /// The FORWARD TSN that was sent last.
    pub(super) last_sent: Option<SentForward>,
    /// The path whose T3-rtx expired, so that FORWARD TSN is repeated there.
    pub(super) timed_out: Option<PathId>,
}

impl Forward {
    /// A path was removed: a FORWARD TSN sent on it is attributed to `new_path` and repeated there.
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
    /// Advanced.Peer.Ack.Point at that time.
    pub(super) point: Tsn,
    /// Whether not all streams fitted in the packet, so that a lower point was sent.
    pub(super) lowered: bool,
    pub(super) path: PathId,
    pub(super) at: Time,
}
