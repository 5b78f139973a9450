//! The path of SACKs (RFC 9260 §6.4, §6.7): the one on which data arrived last, unless SACKs seem to be
//! lost there.

use crate::association::Association;
use crate::association::path::Path;
use crate::association::state::{Shutdown, State, Up};
use crate::ids::PathId;
use crate::stats::PathState;

/// Returns the path of SACKs: that on which the last data arrived, if usable.
pub(in crate::association) fn sack_by(up: &mut Up, paths: &[Path], path: PathId) {
    //= specs/rfc9260.txt#section-5.4
    //# An endpoint MUST NOT send any chunks to an UNCONFIRMED address, with
    //# the following exceptions:
    if !paths[usize::from(path.0)].is_usable() {
        return;
    }
    //= specs/rfc9260.txt#section-6.4
    //# However, an endpoint SHOULD NOT vary the destination transport address
    //# of a SACK chunk when it receives DATA chunks coming from the same
    //# source address.
    //= specs/rfc9260.txt#section-6.7
    //# When its peer is multi-homed, the SCTP endpoint SHOULD always try to
    //# send the SACK chunk to the same destination address from which the
    //# last DATA chunk was received.
    if carries_sacks(up, paths, path) {
        up.sack_path = path;
    } else if !carries_sacks(up, paths, up.sack_path) {
        // If nothing is acknowledged, SACKs may be lost as well.
        up.sack_path = another(up, paths, path).unwrap_or(path);
    }
}

/// Whether SACKs can be sent on this path, as far as known.
fn carries_sacks(up: &Up, paths: &[Path], id: PathId) -> bool {
    paths[usize::from(id.0)].state == PathState::Active && up.sack_avoids != Some(id)
}

/// Returns the next path after this one on which SACKs can be sent.
pub(super) fn another(up: &Up, paths: &[Path], than: PathId) -> Option<PathId> {
    let next = (1..paths.len()).map(|step| (usize::from(than.0) + step) % paths.len());
    next.map(|index| PathId(index as u8)).find(|id| carries_sacks(up, paths, *id))
}

impl Association {
    /// Data that was acknowledged on a path was retransmitted on another one, or from the address to
    /// which the SACK was sent. So SACKs may be lost on that path: some peers send from one address
    /// whatever the destination is, although the address can no longer be reached. SACKs are sent on
    /// another path until a HEARTBEAT was acknowledged on this one.
    //= specs/rfc9260.txt#section-6.4
    //# When a receiver of a duplicate DATA chunk sends a SACK chunk to a
    //# multi-homed endpoint, it MAY be beneficial to vary the destination
    //# address and not use the source address of the DATA chunk.
    pub(super) fn suspect_sack_path(&mut self, answered_by: PathId) {
        let path = &mut self.paths[usize::from(answered_by.0)];
        if let State::Up(up) = &mut self.state
            && path.params.heartbeat_interval.is_some()
        {
            // With several paths in use, chunks that arrive late arrive twice, since head-of-line rescue
            // retransmits them on another path. Those are no indication before a HEARTBEAT remains
            // unacknowledged, and SACKs on a longer return path would distort RTT samples.
            if up.received.counts_by_path() {
                let asks = matches!(self.shutdown, Shutdown::No | Shutdown::Pending);
                path.heartbeat_due |= asks && path.heartbeat.is_none() && path.state == PathState::Active;
                return;
            }
            up.sack_avoids = Some(answered_by);
            self.send_heartbeat(answered_by);
        }
    }

    /// A packet arrived after a path failed or recovered, and the last SACK may be lost on whichever
    /// path it was sent: addresses do not identify links. The packet is acknowledged like one with DATA;
    /// otherwise the peer would wait for T3-rtx and retransmit data that has arrived. usrsctp 0.9.5 may
    /// have data in flight without T3-rtx if its path failed just after a SACK. Only a SACK ends that
    /// state.
    //= specs/rfc9260.txt#section-6.2
    //# An SCTP receiver MUST NOT generate more than one SACK chunk for every
    //# incoming packet, other than to update the offered window as the
    //# receiving application consumes new data.
    // usrsctp 0.9.5 may have data in flight and no T3, once its path died just after a SACK: its T3 ends, nothing is old
    // enough for it to be lost, and T3 does not begin again. Then nothing but a SACK wakes it.
    pub(super) fn repeat_sack(&mut self, path: PathId) {
        let several = self.has_several_paths();
        let State::Up(up) = &mut self.state else { return };
        if !up.sack_may_be_lost || !up.received.has_received_data() || !several {
            return;
        }
        if !matches!(self.shutdown, Shutdown::No | Shutdown::Pending) {
            return;
        }
        sack_by(up, &self.paths, path);
        if carries_sacks(up, &self.paths, up.sack_path) {
            up.sack_may_be_lost = false;
            up.received.acknowledge_again();
        }
    }
}
