//! Dynamic addresses (RFC 5061): the addresses of both sides and the paths between them. This side's
//! requests are in `requests`, the peer's in `answers`.
//!
//! Changes are requested in one ASCONF chunk at a time. Once the peer has acknowledged it, the next one
//! carries all changes requested meanwhile. Both sides pair addresses again as `pairing` does initially. An
//! unverified address only carries the packets that verify it. Not implemented: sending an unspecified
//! address, and Set Primary in INIT, whether sent or received.

pub(super) mod addresses;
mod answers;
mod requests;

use std::fmt;
use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::Time;

use self::addresses::PendingChange;
use crate::association::pairing::{PATHS_MAX, best_partner};
use crate::association::path::{Path, Purpose, choose};
use crate::association::state::State;
use crate::association::timers::Timer;
use crate::association::{Association, Event};
use crate::ids::PathId;
use crate::route::Route;
use crate::stats::PathState;
use crate::wire::Cause;

/// The maximum number of changes in one ASCONF chunk; a chunk with so many fits every packet.
const REQUESTS_MAX: usize = 16;
/// The maximum length of an ASCONF-ACK in bytes: with an AUTH chunk it fits the packets of every path.
const ACK_LEN_MAX: usize = 1_100;

/// What happened to an address of either side (SCTP_PEER_ADDR_CHANGE, RFC 6458 §6.1.2).
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum AddressChange {
    /// The address was added. The state of its path says whether it can be used.
    Added,
    /// The address was removed.
    Removed,
    /// The address became the primary destination of the other side.
    MadePrimary,
    /// The peer refused the requested change of this address, with its cause if it sent one.
    Refused(Option<Cause>),
}

/// Why a change of addresses cannot be requested.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AddressError {
    /// The association is not up, or is shutting down.
    NotUp,
    /// The two sides did not agree on ASCONF with authentication, or the peer turned out not to know it.
    NotSupported,
    /// The association has this address already.
    InUse,
    /// The association has no such local address.
    NoSuchAddress,
    /// The address is the last one from which the peer can be reached: add another one first.
    Last,
    /// The peer has no address that forms a path with this one.
    NoPath,
    /// The association has the maximum number of addresses or pending changes.
    TooMany,
}

impl fmt::Display for AddressError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::NotUp => "the association is not up; wait until it is",
            Self::NotSupported => {
                "the peer takes no change of addresses; set Config.paths.asconf on both sides"
            }
            Self::InUse => "the association has this address already",
            Self::NoSuchAddress => "the association has no such local address; ask for those it has",
            Self::Last => "this is the last address of the association; add another before",
            Self::NoPath => "the peer has no address that this one could reach",
            Self::TooMany => "the association has no room for more addresses; remove one before",
        })
    }
}

impl std::error::Error for AddressError {}

impl Association {
    /// Returns the local addresses of the association, including those being removed.
    pub fn local_addresses(&self) -> &[SocketAddr] {
        &self.local
    }

    /// Whether both sides support ASCONF, which requires that both authenticate.
    fn has_asconf(&self) -> bool {
        let is_vouched_for = self.auth.is_agreed() || self.is_protected_both_ways();
        self.state.up().is_some_and(|up| up.extensions.asconf) && is_vouched_for
    }

    /// Whether an ASCONF of the peer is processed at all.
    pub(crate) fn takes_asconf(&self) -> bool {
        matches!(self.state, State::Up(_)) && self.has_asconf()
    }

    /// The peer's addresses.
    pub(super) fn peers(&self) -> Vec<SocketAddr> {
        let mut peers: Vec<SocketAddr> = Vec::new();
        for path in self.paths.iter().filter(|path| path.state != PathState::Removed) {
            if peers.iter().all(|peer| peer.ip() != path.peer.ip()) {
                peers.push(path.peer);
            }
        }
        peers
    }

    /// The local addresses that are not being removed.
    fn staying(&self) -> Vec<SocketAddr> {
        self.local.iter().copied().filter(|local| !self.is_leaving(*local)).collect()
    }

    /// The local addresses that are being added, of which the peer may not know yet.
    fn coming(&self) -> Vec<SocketAddr> {
        self.paths.iter().filter(|path| path.awaits_ack).map(|path| path.local).collect()
    }

    /// Whether an ASCONF that deletes this local address is outstanding.
    pub(super) fn is_leaving(&self, local: SocketAddr) -> bool {
        let outstanding = self.state.up().and_then(|up| up.addresses.outstanding.as_ref());
        outstanding.is_some_and(|it| it.pending_changes.contains(&PendingChange::Remove(local)))
    }

    /// Whether this address was deleted from the association. Packets sent from it that arrive after the
    /// deletion are out of the blue at the peer, and the ABORT in response may arrive after the
    /// ASCONF-ACK.
    pub(super) fn was_deleted(&self, local: SocketAddr) -> bool {
        let mut of_it = self.paths.iter().filter(|path| path.local == local).peekable();
        let had = of_it.peek().is_some();
        had && !self.local.contains(&local) && of_it.all(|path| path.state == PathState::Removed)
    }

    /// Adds a path between these addresses; `None` if the association has the maximum number of paths.
    pub(super) fn add_path(&mut self, route: Route) -> Option<PathId> {
        let Path { auth_len, unpadded, .. } = self.paths[0];
        let free = self.paths.iter().position(|path| path.state == PathState::Removed);
        let index = free.unwrap_or(self.paths.len());
        if index >= PATHS_MAX {
            return None;
        }
        let mut path = Path::new(route, PathState::Unconfirmed, &self.config);
        (path.auth_len, path.unpadded) = (auth_len, unpadded);
        if index < self.paths.len() {
            self.paths[index] = path;
        } else {
            self.paths.push(path);
            self.timers.grow(self.paths.len());
            if let State::Up(up) = &mut self.state {
                up.sent.grow(self.paths.len());
            }
        }
        self.moved = true;
        Some(PathId(index as u8))
    }

    /// Whether paths were added or removed since the last call.
    pub(crate) fn take_moved(&mut self) -> bool {
        std::mem::take(&mut self.moved)
    }

    /// Sends a HEARTBEAT at once on a path whose state is unknown.
    fn begin_verification(&mut self, now: Time, id: PathId) {
        //= specs/rfc5061.txt#section-5.3
        //# F14) All addresses added by the reception of an ASCONF Chunk MUST be
        //# put into the UNCONFIRMED state and MUST have path verification
        //# performed on them before the address can be used as described in
        //# [RFC4960], Section 5.4.
        self.timers.arm(Timer::Heartbeat(id), now);
    }

    /// Removes the paths for which `doomed` holds. Their outstanding chunks move to other paths, of
    /// which there is at least one.
    fn remove_paths(&mut self, now: Time, doomed: impl Fn(&Path) -> bool) {
        let ids: Vec<_> = (0..self.paths.len())
            .map(|index| PathId(index as u8))
            .filter(|id| {
                let path = &self.paths[usize::from(id.0)];
                path.state != PathState::Removed && doomed(path)
            })
            .collect();
        self.leave_paths(now, &ids, PathState::Removed);
        self.moved = true;
    }

    /// Stops using these paths. Their outstanding chunks move to other paths, of which there is at least
    /// one.
    pub(super) fn leave_paths(&mut self, now: Time, ids: &[PathId], state: PathState) {
        for id in ids {
            self.paths[usize::from(id.0)].state = state;
        }
        if !self.has_usable_path() {
            // A path that was set aside while there was an alternative may be the last one now.
            for index in 0..self.paths.len() {
                self.put_back(PathId(index as u8));
            }
            self.verify_all(now);
        }
        let State::Up(up) = &mut self.state else { return };
        let chosen = choose(&self.paths, up.primary, Purpose::New);
        let new_path = if self.paths[usize::from(chosen.0)].is_usable() {
            chosen
        } else {
            let left = self.paths.iter().position(|path| path.state == PathState::Unconfirmed);
            PathId(left.expect("another address is left, and it has a path") as u8)
        };
        for &id in ids {
            let path = &mut self.paths[usize::from(id.0)];
            path.flight_bytes -= up.sent.move_to_path(id, new_path);
            debug_assert_eq!(path.flight_bytes, 0, "nothing is in flight by a path that is gone");
            path.retire();
            self.timers.stop_path(id);
            up.control.heartbeat_acks.retain(|(by, _)| *by != id);
            up.forward.move_to_path(id, new_path);
            if let Some(reconfiguration) = &mut up.reconfiguration {
                reconfiguration.move_to_path(id, new_path);
            }
            up.sack_avoids = up.sack_avoids.filter(|by| *by != id);
            for by in [&mut up.primary, &mut up.sack_path].into_iter().chain(&mut up.control.cookie_ack) {
                if *by == id {
                    *by = new_path;
                }
            }
            self.events.push_back(Event::Path(id, state));
        }
        self.has_input = true;
    }

    /// Nothing can be sent before a path is confirmed, so verification starts again even if a shutdown
    /// had stopped it.
    fn verify_all(&mut self, now: Time) {
        for (index, path) in self.paths.iter().enumerate() {
            if path.state == PathState::Unconfirmed && !path.awaits_ack {
                // A HEARTBEAT that is already outstanding gets its full RTO.
                let wait = if path.heartbeat.is_some() { path.rtt.rto() } else { Duration::ZERO };
                self.timers.arm_if_idle(Timer::Heartbeat(PathId(index as u8)), now + wait);
            }
        }
    }

    /// Pairs each address of either side that has no path with its best partner.
    fn pair_leftovers(&mut self, now: Time) {
        let (locals, peers) = (self.staying(), self.peers());
        let has = |association: &Self, is: &dyn Fn(&Path) -> bool| {
            association.paths.iter().any(|path| path.state != PathState::Removed && is(path))
        };
        for local in &locals {
            if !has(self, &|path| path.local == *local)
                && let Some(peer) =
                    best_partner(*local, &peers, |peer| self.config.allows(local.ip(), peer.ip()))
                && let Some(id) = self.add_path(Route { local: *local, peer })
            {
                self.begin_verification(now, id);
            }
        }
    }

    /// Removes the paths of local addresses that are being deleted, unless there are no others; each
    /// address of the peer keeps one path.
    fn end_paths_of(&mut self, now: Time, going: &[SocketAddr]) {
        let locals: Vec<_> = self.staying().into_iter().filter(|local| !going.contains(local)).collect();
        let peers = self.peers();
        // An address that replaces the last one belongs to the association only once the peer has
        // agreed, and has one path. Without this, an address of the peer that had its only path from the
        // old address would be forgotten.
        let mut coming = self.coming();
        coming.retain(|local| !going.contains(local));
        // If the new paths only fit after the old ones were removed, the second pass adds them.
        for _ in 0..2 {
            for &peer in &peers {
                let stays = |path: &Path| {
                    path.state != PathState::Removed && path.peer == peer && !going.contains(&path.local)
                };
                if self.paths.iter().any(stays) {
                    continue;
                }
                let best = |of: &[SocketAddr]| {
                    best_partner(peer, of, |local| self.config.allows(local.ip(), peer.ip()))
                };
                if let Some(local) = best(&locals).or_else(|| best(&coming))
                    && let Some(id) = self.add_path(Route { local, peer })
                {
                    if locals.contains(&local) {
                        self.begin_verification(now, id);
                    } else {
                        self.paths[usize::from(id.0)].awaits_ack = true;
                    }
                }
            }
            let leaves = |path: &Path| going.contains(&path.local);
            if self.paths.iter().any(|path| path.state != PathState::Removed && !leaves(path)) {
                self.remove_paths(now, leaves);
            }
        }
    }
}
