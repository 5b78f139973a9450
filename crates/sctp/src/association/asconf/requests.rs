//! This side's ASCONF requests: the user's changes, the chunk that carries them, and the processing of its
//! acknowledgement (RFC 5061 §5.1, §5.3).

use std::collections::VecDeque;
use std::net::SocketAddr;

use braidftp_base::Time;

use super::addresses::{Outstanding, PendingChange, WAITING_MAX};
use super::{AddressChange, AddressError, REQUESTS_MAX};
use crate::association::pairing::{PATHS_MAX, best_partner};
use crate::association::path::{Path, Purpose, choose};
use crate::association::state::{Shutdown, State};
use crate::association::timers::Timer;
use crate::association::{Association, Event, Transmit, Violation};
use crate::ids::PathId;
use crate::route::{Route, is_unicast};
use crate::stats::PathState;
use crate::wire::{Asconf, AsconfAck, Cause, Change, Chunk, Outcome, Request};

impl Association {
    /// Requests that the peer add `local` as an address of this side (RFC 5061 §4.2.1). The address is
    /// used once the peer has agreed and acknowledged a HEARTBEAT on it; [`Event::LocalAddress`] and
    /// [`Event::Path`] report both.
    pub fn add_address(&mut self, local: SocketAddr) -> Result<(), AddressError> {
        let pending = self.can_change()?;
        let going = pending.contains(&PendingChange::Remove(local));
        let coming = pending.contains(&PendingChange::Add(local));
        if coming || (self.local.contains(&local) && !going) || !is_unicast(local.ip()) {
            return Err(AddressError::InUse);
        }
        let adds =
            pending.iter().filter(|pending_change| matches!(pending_change, PendingChange::Add(_))).count();
        if self.local.len() + adds >= PATHS_MAX {
            return Err(AddressError::TooMany);
        }
        if best_partner(local, &self.peers(), |peer| self.config.allows(local.ip(), peer.ip())).is_none() {
            return Err(AddressError::NoPath);
        }
        self.pending_change(PendingChange::Add(local))
    }

    /// Requests that the peer delete `local`; nothing is sent from it from now on (RFC 5061 §4.2.2).
    pub fn remove_address(&mut self, local: SocketAddr) -> Result<(), AddressError> {
        let pending = self.can_change()?;
        //= specs/rfc5061.txt#section-4.2.2
        //# This parameter MUST NOT contain a broadcast or multicast address.
        let there = self.local.contains(&local) || pending.contains(&PendingChange::Add(local));
        if !there || pending.contains(&PendingChange::Remove(local)) {
            return Err(AddressError::NoSuchAddress);
        }
        //= specs/rfc5061.txt#section-5.3
        //# F5)  An endpoint MUST NOT delete its last remaining IP address from
        //# an association.
        let mut left = self.local.clone();
        for pending_change in &pending {
            match pending_change {
                PendingChange::Add(address) => left.push(*address),
                PendingChange::Remove(address) => left.retain(|it| it != address),
                PendingChange::Prefer(_) => {}
            }
        }
        let peers = self.peers();
        left.retain(|it| *it != local && self.reaches_one_of(*it, &peers));
        if left.is_empty() {
            return Err(AddressError::Last);
        }
        self.pending_change(PendingChange::Remove(local))
    }

    /// Requests that the peer send to `local` first (SCTP_SET_PEER_PRIMARY_ADDR, RFC 6458 §8.3.1).
    pub fn set_peer_primary(&mut self, local: SocketAddr) -> Result<(), AddressError> {
        let pending = self.can_change()?;
        //= specs/rfc5061.txt#section-5.4
        //# A sender MUST only send a set
        //# primary request to an address that is already considered part of the
        //# association.
        if !self.local.contains(&local) && !pending.contains(&PendingChange::Add(local)) {
            return Err(AddressError::NoSuchAddress);
        }
        self.pending_change(PendingChange::Prefer(local))
    }

    /// Returns the pending changes, if another one may be added.
    fn can_change(&self) -> Result<Vec<PendingChange>, AddressError> {
        let State::Up(up) = &self.state else { return Err(AddressError::NotUp) };
        if !matches!(self.shutdown, Shutdown::No | Shutdown::Pending | Shutdown::Received) {
            return Err(AddressError::NotUp);
        }
        if !self.has_asconf() || up.addresses.lacks_add_and_delete && up.addresses.lacks_set_primary {
            return Err(AddressError::NotSupported);
        }
        if up.addresses.waiting.len() >= WAITING_MAX {
            return Err(AddressError::TooMany);
        }
        Ok(up.addresses.pending_changes().collect())
    }

    fn pending_change(&mut self, pending_change: PendingChange) -> Result<(), AddressError> {
        let State::Up(up) = &mut self.state else { return Err(AddressError::NotUp) };
        let deaf = match pending_change {
            PendingChange::Prefer(_) => up.addresses.lacks_set_primary,
            PendingChange::Add(_) | PendingChange::Remove(_) => up.addresses.lacks_add_and_delete,
        };
        if deaf {
            return Err(AddressError::NotSupported);
        }
        up.addresses.waiting.push_back(pending_change);
        self.has_input = true;
        Ok(())
    }

    /// Opens the next ASCONF if changes are pending and none is outstanding.
    //= specs/rfc5061.txt#section-5.1
    //# When an endpoint has an ASCONF signaled change to be sent to the
    //# remote endpoint, it MUST do the following:
    fn open_asconf(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc5061.txt#section-5.1.1
        //# C4)  Both ASCONF and ASCONF-ACK Chunks MUST NOT be sent in any SCTP
        //# state except ESTABLISHED, SHUTDOWN-PENDING, SHUTDOWN-RECEIVED,
        //# and SHUTDOWN-SENT.
        if !matches!(self.shutdown, Shutdown::No | Shutdown::Pending | Shutdown::Received) {
            return;
        }
        //= specs/rfc5061.txt#section-5.1.1
        //# If a sender, after
        //# sending an ASCONF chunk, decides it needs to transfer another
        //# ASCONF Chunk, it MUST wait until the ASCONF-ACK Chunk returns
        //# from the previous ASCONF Chunk before sending a subsequent
        //# ASCONF.
        let addresses = &up.addresses;
        //= specs/rfc5061.txt#section-5.1.1
        //# In defining the ASCONF Chunk transfer procedures, it is essential
        //# that these transfers MUST NOT cause congestion within the network.
        if addresses.outstanding.is_some() || addresses.waiting.is_empty() {
            return;
        }
        //= specs/rfc5061.txt#section-5.3
        //# In other words, if an endpoint is NOT multi- homed, it MUST NOT use
        //# the delete IP address without an Add IP Address preceding the delete
        //# parameter in the ASCONF Chunk.
        //= specs/rfc5061.txt#section-5.3
        //# Or, if an endpoint sends multiple requests to delete IP addresses,
        //# it MUST NOT delete all of the IP addresses that the peer has listed
        //# for the requester.
        self.drop_impossible_changes();
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        if addresses.waiting.is_empty() {
            return;
        }
        // One ASCONF contains no two changes that undo each other: an address is either added or
        // deleted, and the addresses that remain can be sent from.
        let mut named = Vec::new();
        let undoes_none = |pending_change: &&PendingChange| match pending_change {
            PendingChange::Prefer(_) => true,
            PendingChange::Add(address) | PendingChange::Remove(address) => {
                let is_first = !named.contains(address);
                named.push(*address);
                is_first
            }
        };
        let count = addresses.waiting.iter().take(REQUESTS_MAX).take_while(undoes_none).count();
        let pending_changes: Vec<_> = addresses.waiting.drain(..count).collect();
        //= specs/rfc5061.txt#section-5.1
        //# A1)  Create an ASCONF Chunk as defined in Section 4.1.1.  The chunk
        //# MUST contain all of the TLV(s) of information necessary to be
        //# sent to the remote endpoint, and unique correlation identities
        //# for each request.
        let mut requests = Vec::new();
        //= specs/rfc5061.txt#section-5.3
        //# When building TLV parameters for the ASCONF Chunk that will add or
        //# delete IP addresses, the following rules MUST be applied:
        for pending_change in &pending_changes {
            //= specs/rfc5061.txt#section-6
            //# Endpoints that believe they face a threat from on-path attackers
            //# SHOULD NOT use wildcard addresses in ASCONF Add IP, Delete IP, or
            //# Set Primary IP parameters.
            let change = match pending_change {
                PendingChange::Add(address) => Change::Add(address.ip().to_canonical()),
                PendingChange::Remove(address) => Change::Delete(address.ip().to_canonical()),
                PendingChange::Prefer(address) => Change::SetPrimary(address.ip().to_canonical()),
            };
            requests.push(Request { correlation: addresses.next_correlation, change });
            addresses.next_correlation = addresses.next_correlation.wrapping_add(1);
        }
        //= specs/rfc5061.txt#section-5.1
        //# A2)  A Sequence Number MUST be assigned to the Chunk.  The Sequence
        //# Number MUST be larger by one.
        let serial = addresses.next_serial;
        //= specs/rfc5061.txt#section-3
        //# Since the space is finite, all arithmetic dealing with ASCONF
        //# Sequence Numbers MUST be performed modulo 2**32.
        //= specs/rfc5061.txt#section-3
        //# That is, the next ASCONF Sequence Number an ASCONF chunk MUST use
        //# after transmitting an ASCONF Sequence Number = 2**32 - 1 is 0.
        addresses.next_serial = serial.next();
        let chunk = Asconf { serial, address: None, requests };
        let removal = |pending_change: &&PendingChange| matches!(pending_change, PendingChange::Remove(_));
        let going: Vec<_> =
            pending_changes.iter().filter(removal).map(|pending_change| pending_change.address()).collect();
        let (pending, path) = (pending_changes.clone(), up.primary);
        let outstanding = Outstanding { chunk, pending_changes: pending, due: true, path, retries: 0 };
        addresses.outstanding = Some(Box::new(outstanding));
        //= specs/rfc5061.txt#section-5.3
        //# This means that until such time as the ASCONF
        //# containing the add is acknowledged, the sender MUST NOT use the
        //# new IP address as a source for ANY SCTP packet except on
        //# carrying an ASCONF Chunk.
        for pending_change in &pending_changes {
            if let PendingChange::Add(local) = *pending_change
                && let Some(peer) =
                    best_partner(local, &self.peers(), |peer| self.config.allows(local.ip(), peer.ip()))
                && let Some(id) = self.add_path(Route { local, peer })
            {
                self.paths[usize::from(id.0)].awaits_ack = true;
            }
        }
        //= specs/rfc5061.txt#section-5.3
        //# F4)  When deleting an IP address from an association, the IP address
        //# MUST be considered a valid destination address for the reception
        //# of SCTP packets until the ASCONF-ACK arrives and MUST NOT be
        //# used as a source address for any subsequent packets.
        if !going.is_empty() {
            self.end_paths_of(now, &going);
        }
        let State::Up(up) = &self.state else { return };
        let known = self.staying().first().or(self.local.first()).map(SocketAddr::ip);
        let path = self.asconf_path(up.primary, 0);
        let source = self.paths[usize::from(path.0)].local;
        //= specs/rfc5061.txt#section-4.1.1
        //# The address is an address of the sender of the ASCONF
        //# Chunk; the address MUST be considered part of the association by the
        //# peer endpoint (the receiver of the ASCONF Chunk).
        let address = if self.local.contains(&source) { Some(source.ip()) } else { known };
        if let State::Up(up) = &mut self.state
            && let Some(outstanding) = &mut up.addresses.outstanding
        {
            outstanding.chunk.address = address.map(|ip| ip.to_canonical());
            outstanding.path = path;
        }
    }

    /// The path of an ASCONF after `retries` retransmissions: never one whose address it deletes.
    fn asconf_path(&self, primary: PathId, retries: u32) -> PathId {
        let of = |wanted: &dyn Fn(&Path) -> bool| {
            let ids = (0..self.paths.len()).map(|index| PathId(index as u8));
            ids.filter(|id| wanted(&self.paths[usize::from(id.0)])).collect::<Vec<_>>()
        };
        let current = choose(&self.paths, primary, Purpose::New);
        let mut candidates: Vec<_> = of(&|path| path.is_usable());
        candidates.sort_by_key(|id| (*id != current, *id));
        // An address that is being added may be the only one from which packets still arrive (§5.3.2).
        candidates.extend(of(&|path| path.awaits_ack));
        if candidates.is_empty() {
            candidates = of(&|path| path.state != PathState::Removed);
        }
        candidates.get(retries as usize % candidates.len().max(1)).copied().unwrap_or(primary)
    }

    /// Sends due ASCONF-ACKs and ASCONFs, each in packets of their own.
    pub(in crate::association) fn transmit_asconf(&mut self, now: Time) -> Option<Transmit> {
        if let Some(transmit) = self.transmit_asconf_acks() {
            return Some(transmit);
        }
        self.open_asconf(now);
        let State::Up(up) = &mut self.state else { return None };
        let (tag, primary) = (up.peer_tag, up.primary);
        let outstanding = up.addresses.outstanding.as_mut().filter(|it| it.due)?;
        outstanding.due = false;
        let (chunk, retries) = (Chunk::Asconf(outstanding.chunk.clone()), outstanding.retries);
        let path = self.asconf_path(primary, retries);
        if let State::Up(up) = &mut self.state
            && let Some(outstanding) = &mut up.addresses.outstanding
        {
            outstanding.path = path;
        }
        self.begin(path, tag);
        self.builder.push(&chunk);
        //= specs/rfc5061.txt#section-5.1
        //# A4)  The sender MUST Start a T-4 Retransmission Timeout (RTO) timer,
        //# using the RTO value of the selected destination address
        self.timers.arm(Timer::T4Asconf, now + self.paths[usize::from(path.0)].rtt.rto());
        Some(self.finish(path))
    }

    /// T4 expired (RFC 5061 §5.1 B1 to B5).
    //= specs/rfc5061.txt#section-5.1
    //# If the T-4 RTO timer expires the endpoint MUST do the following:
    pub(in crate::association) fn on_t4(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let Some(outstanding) = &mut up.addresses.outstanding else { return };
        //= specs/rfc5061.txt#section-5.1
        //# B4)  Re-transmit the ASCONF Chunk last sent and if possible choose an
        //# alternate destination address (please refer to [RFC4960],
        //# Section 6.4.1).
        outstanding.due = true;
        outstanding.retries += 1;
        let path = outstanding.path;
        //= specs/rfc5061.txt#section-5.1
        //# B3)  Backoff the destination address RTO value to which the ASCONF
        //# chunk was sent by doubling the RTO timer value.
        self.paths[usize::from(path.0)].rtt.back_off();
        //= specs/rfc5061.txt#section-5.1
        //# B2)  Increment the association error counters and perform endpoint
        //# failure detection on the association as defined in [RFC4960],
        //# Sections 8.1 and 8.2.
        self.count_asconf_error(path);
    }

    /// Processes an authenticated ASCONF-ACK.
    pub(in crate::association) fn on_asconf_ack(&mut self, now: Time, ack: &AsconfAck) {
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        let answers = addresses.outstanding.as_ref().is_some_and(|it| it.chunk.serial == ack.serial);
        if !answers {
            //= specs/rfc5061.txt#section-5.3
            //# F0)  If an endpoint receives an ASCONF-ACK that is greater than or
            //# equal to the next Sequence Number to be used but no ASCONF Chunk
            //# is outstanding, the endpoint MUST ABORT the association.
            //= specs/rfc5061.txt#section-4.3.4
            //# Sequence Numbers smaller than the last
            //# acked Sequence Number are silently ignored.
            let ahead = ack.serial.distance_from(addresses.next_serial);
            if ahead < 1 << 31 {
                self.on_violation(Violation::AsconfAckOfNothing);
            }
            return;
        }
        let Some(outstanding) = addresses.outstanding.take() else { return };
        let Outstanding { chunk, pending_changes, path, .. } = *outstanding;
        //= specs/rfc5061.txt#section-5.1
        //# A5)  When the ASCONF-ACK that acknowledges the Sequence Number last
        //# sent arrives, the sender MUST stop the T-4 RTO timer, and clear
        //# the appropriate association and destination error counters as
        //# defined in [RFC4960], Sections 8.1 and 8.2.
        self.timers.stop(Timer::T4Asconf);
        up.errors = 0;
        self.paths[usize::from(path.0)].errors = 0;
        //= specs/rfc5061.txt#section-5.1
        //# A7)  If an error response is received for a TLV parameter, all TLVs
        //# with no response before the failed TLV are considered successful
        //# if not reported.  All TLVs after the failed response are
        //# considered unsuccessful unless a specific success indication is
        //# present for the parameter.
        let mut failed = false;
        let mut outcomes = Vec::new();
        //= specs/rfc5061.txt#section-5.1
        //# A6) The endpoint MUST process all of the TLVs within the ASCONF-
        //# ACK(s) to find out particular status information returned to the
        //# various requests that were sent.
        for (request, pending_change) in chunk.requests.iter().zip(pending_changes) {
            //= specs/rfc5061.txt#section-4.2.3
            //# Note that the receiver MUST NOT change this 32-bit value.
            let said = ack.responses.iter().find(|response| response.correlation == request.correlation);
            let refused = match said.map(|response| &response.outcome) {
                Some(Outcome::Success) => None,
                Some(Outcome::Error(causes)) => {
                    failed = true;
                    Some(causes.first().cloned())
                }
                Some(Outcome::Other { .. }) | None => failed.then_some(None),
            };
            outcomes.push((pending_change, refused));
        }
        for (pending_change, refused) in outcomes {
            self.finish_change(now, pending_change, refused);
        }
        self.pair_leftovers(now);
        self.has_input = true;
    }

    /// Applies the result of a change that this side requested.
    fn finish_change(&mut self, now: Time, pending_change: PendingChange, refused: Option<Option<Cause>>) {
        let done = match (pending_change, &refused) {
            (PendingChange::Add(local), None) => {
                //= specs/rfc5061.txt#section-5.3
                //# F2)  After the ASCONF-ACK of an IP address Add arrives, the endpoint
                //# MAY begin using the added IP address as a source address for any
                //# type of SCTP chunk.
                if !self.local.contains(&local) {
                    self.local.push(local);
                }
                for index in 0..self.paths.len() {
                    let path = &mut self.paths[index];
                    if path.local == local && std::mem::take(&mut path.awaits_ack) {
                        self.begin_verification(now, PathId(index as u8));
                    }
                }
                Some(AddressChange::Added)
            }
            (PendingChange::Add(local), Some(_)) => {
                //= specs/rfc5061.txt#section-5.3
                //# In other words,
                //# if the endpoint does not ABORT
                //# the association, it must consider the add attempt failed and NOT
                //# use this address since its peer will treat SCTP packets destined
                //# to the address as Out Of The Blue packets.
                // The address that would have been replaced stays.
                self.pair_leftovers(now);
                self.end_paths_of(now, &[local]);
                None
            }
            (PendingChange::Remove(local), None) => {
                self.local.retain(|it| *it != local);
                self.end_paths_of(now, &[local]);
                Some(AddressChange::Removed)
            }
            (PendingChange::Prefer(_), None) => Some(AddressChange::MadePrimary),
            // An address that would have been deleted stays, and gets a path again.
            (PendingChange::Remove(_) | PendingChange::Prefer(_), Some(_)) => None,
        };
        let change = match (done, &refused) {
            (Some(done), _) => done,
            (None, cause) => AddressChange::Refused(cause.clone().flatten()),
        };
        self.events.push_back(Event::LocalAddress(pending_change.address(), change));
        if let (Some(Some(Cause::UnrecognizedParameters(_))), State::Up(up)) = (&refused, &mut self.state) {
            match pending_change {
                //= specs/rfc5061.txt#section-5.3
                //# F3a) If an endpoint receives an Error Cause TLV indicating that the
                //# IP address Add or IP address Deletion parameters was not
                //# understood, the endpoint MUST consider the operation failed and
                //# MUST NOT attempt to send any subsequent Add or Delete requests
                //# to the peer.
                PendingChange::Add(_) | PendingChange::Remove(_) => up.addresses.lacks_add_and_delete = true,
                //= specs/rfc5061.txt#section-5.3
                //# F3b) If an endpoint receives an Error Cause TLV indicating that the
                //# IP address Set Primary IP Address parameter was not understood,
                //# the endpoint MUST consider the operation failed and MUST NOT
                //# attempt to send any subsequent Set Primary IP Address requests
                //# to the peer.
                PendingChange::Prefer(_) => up.addresses.lacks_set_primary = true,
            }
        }
        self.drop_changes();
    }

    fn reaches_one_of(&self, local: SocketAddr, peers: &[SocketAddr]) -> bool {
        best_partner(local, peers, |peer| self.config.allows(local.ip(), peer.ip())).is_some()
    }

    /// Drops pending changes that are no longer possible because an earlier one was refused.
    fn drop_impossible_changes(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let waiting = std::mem::take(&mut up.addresses.waiting);
        let (peers, mut left) = (self.peers(), self.local.clone());
        let mut possible = VecDeque::new();
        for pending_change in waiting {
            let is_possible = match pending_change {
                PendingChange::Add(_) => true,
                PendingChange::Prefer(address) => left.contains(&address),
                PendingChange::Remove(address) => {
                    let stays = |it: &SocketAddr| *it != address && self.reaches_one_of(*it, &peers);
                    left.contains(&address) && left.iter().any(stays)
                }
            };
            if !is_possible {
                self.events
                    .push_back(Event::LocalAddress(pending_change.address(), AddressChange::Refused(None)));
                continue;
            }
            match pending_change {
                PendingChange::Add(address) => left.push(address),
                PendingChange::Remove(address) => left.retain(|it| *it != address),
                PendingChange::Prefer(_) => {}
            }
            possible.push_back(pending_change);
        }
        if let State::Up(up) = &mut self.state {
            up.addresses.waiting = possible;
        }
    }

    /// Drops pending changes of kinds that the peer does not support.
    fn drop_changes(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        let (lacks_add_and_delete, lacks_set_primary) =
            (addresses.lacks_add_and_delete, addresses.lacks_set_primary);
        let hopeless = |pending_change: &PendingChange| match pending_change {
            PendingChange::Prefer(_) => lacks_set_primary,
            PendingChange::Add(_) | PendingChange::Remove(_) => lacks_add_and_delete,
        };
        for pending_change in addresses.waiting.iter().filter(|pending_change| hopeless(pending_change)) {
            self.events
                .push_back(Event::LocalAddress(pending_change.address(), AddressChange::Refused(None)));
        }
        addresses.waiting.retain(|pending_change| !hopeless(pending_change));
    }

    /// The peer reported that it does not support ASCONF (RFC 5061 §5.1 A9).
    //= specs/rfc5061.txt#section-5.1
    //# A9)  If the peer responds to an ASCONF with an ERROR Chunk reporting
    //# that it did not recognize the ASCONF Chunk Type, the sender of
    //# the ASCONF MUST NOT send any further ASCONF Chunks and MUST stop
    //# its T-4 timer.
    pub(in crate::association) fn on_asconf_unknown(&mut self, now: Time) {
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        //= specs/rfc5061.txt#section-4.1.1
        //# This will NOT abort the association but indicates to the sender that
        //# it MUST not send any further ASCONF chunks.
        //= specs/rfc5061.txt#section-5.1.1
        //# If the sender of an ASCONF Chunk receives an Operational Error
        //# indicating that the ASCONF Chunk Type is not understood, then the
        //# sender MUST NOT send subsequent ASCONF Chunks to the peer.
        (addresses.lacks_add_and_delete, addresses.lacks_set_primary) = (true, true);
        self.timers.stop(Timer::T4Asconf);
        let outstanding = addresses.outstanding.take();
        for pending_change in outstanding.into_iter().flat_map(|it| it.pending_changes) {
            self.finish_change(now, pending_change, Some(None));
        }
        self.drop_changes();
        self.pair_leftovers(now);
    }
}
