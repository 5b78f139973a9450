//! Processing of the peer's ASCONF requests, and their results (RFC 5061 §5.2, §5.3, §5.4).

use std::collections::VecDeque;
use std::net::{IpAddr, SocketAddr};

use braidftp_base::Time;

use super::addresses::CACHED_MAX;
use super::{ACK_LEN_MAX, AddressChange};
use crate::association::pairing::{best_partner, reaches};
use crate::association::path::Path;
use crate::association::state::{Shutdown, State};
use crate::association::{Association, Event, Transmit};
use crate::ids::PathId;
use crate::route::{Route, is_unicast};
use crate::stats::PathState;
use crate::wire::{Asconf, AsconfAck, Cause, Change, Chunk, Outcome, Response, Unrecognized};

impl Association {
    /// Processes an authenticated ASCONF that arrived on `route`.
    pub(in crate::association) fn on_asconf(&mut self, now: Time, route: Route, asconf: &Asconf) {
        let acks_allowed = !matches!(self.shutdown, Shutdown::AckSent { .. });
        let State::Up(up) = &mut self.state else { return };
        let addresses = &mut up.addresses;
        let first = !std::mem::replace(&mut addresses.seen_in_packet, true);
        if !acks_allowed {
            return;
        }
        //= specs/rfc5061.txt#section-3
        //# Comparisons and arithmetic on ASCONF sequence numbers in this
        //# document SHOULD use Serial Number Arithmetic as defined in [RFC1982]
        //# where SERIAL_BITS = 32.
        if asconf.serial == addresses.peer_serial.next() {
            //= specs/rfc5061.txt#section-5.2
            //# V5)  Update the 'Peer-Sequence-Number' to the value found in the
            //# Sequence Number field.
            addresses.peer_serial = asconf.serial;
            if first {
                addresses.cached.clear();
            }
            let ack = AsconfAck { serial: asconf.serial, responses: self.process(now, route, asconf) };
            let State::Up(up) = &mut self.state else { return };
            let addresses = &mut up.addresses;
            if addresses.cached.len() >= CACHED_MAX {
                addresses.cached.pop_front();
            }
            addresses.cached.push_back(ack.clone());
            //= specs/rfc5061.txt#section-4.1.1
            //# This chunk is used to communicate to the remote endpoint one of the
            //# configuration change requests that MUST be acknowledged.
            //= specs/rfc5061.txt#section-5.2
            //# V4) After processing the entire Chunk, the receiver of the ASCONF
            //# MUST queue the response ASCONF-ACK Chunk for transmission after the
            //# rest of the SCTP packet has been processed.
            addresses.acks.push_back((route, ack));
        } else if !asconf.serial.after(addresses.peer_serial) {
            //= specs/rfc5061.txt#section-5.2
            //# E2)  If the value found in the Sequence Number is less than the
            //# ('Peer- Sequence-Number' + 1), simply skip to the next ASCONF,
            //# and include in the outbound response packet any previously
            //# cached ASCONF-ACK response that was sent and saved that matches
            //# the Sequence Number of the ASCONF.
            if let Some(ack) = addresses.cached.iter().find(|ack| ack.serial == asconf.serial)
                && addresses.acks.len() < CACHED_MAX
            {
                addresses.acks.push_back((route, ack.clone()));
            }
        }
        //= specs/rfc5061.txt#section-5.2
        //# E5)  Otherwise, the ASCONF Chunk is discarded since it must be either
        //# a stale packet or from an attacker.
        self.has_input = true;
    }

    /// Applies the peer's requests in order and returns the ASCONF-ACK.
    fn process(&mut self, now: Time, route: Route, asconf: &Asconf) -> Vec<Response> {
        let mut responses: Vec<Response> = Vec::new();
        let (mut len, mut failing) = (0, false);
        //= specs/rfc5061.txt#section-5.2
        //# V1)  Process the TLVs contained within the Chunk performing the
        //# appropriate actions as indicated by each TLV type.  The
        //# TLVs MUST be processed in order within the Chunk.
        //= specs/rfc5061.txt#section-5.2
        //# For example, if the sender puts 3 TLVs in one chunk, the first TLV
        //# (the one closest to the Chunk Header) in the Chunk MUST be processed
        //# first.
        //= specs/rfc5061.txt#section-5.2
        //# The next TLV in the chunk (the middle one) MUST be processed second
        //# and finally, the last TLV in the Chunk MUST be processed last.
        for (index, request) in asconf.requests.iter().enumerate() {
            let behind = asconf.requests.len() - index - 1;
            let quote = || request.quoted();
            let result = match request.change {
                //= specs/rfc5061.txt#section-5.3
                //# The
                //# receiver MUST NOT reject an ADD and then accept a subsequent
                //# DELETE of an IP address in the same ASCONF Chunk.
                //= specs/rfc5061.txt#section-5.3
                //# F11) When an endpoint receives an ASCONF to add an IP address sends
                //# an 'Out of Resource' in its response, it MUST also fail any
                //# subsequent add or delete requests bundled in the ASCONF.
                Change::Add(_) | Change::Delete(_) if failing => Err(Cause::ResourceShortage(quote())),
                Change::Add(ip) => self.on_add(now, route, ip, quote),
                Change::Delete(ip) => self.on_delete(now, route, ip, quote),
                //= specs/rfc5061.txt#section-5.4
                //# The request to set an address as the primary path is an option the
                //# receiver SHOULD perform.
                Change::SetPrimary(ip) => self.on_set_primary(route, ip, quote),
                Change::Other { kind: Change::ADD | Change::DELETE | Change::SET_PRIMARY, .. } => {
                    Err(Cause::InvalidMandatoryParameter)
                }
                //= specs/rfc5061.txt#section-4.2
                //# If the receiver chooses NOT to abort, the parameter MUST be ignored.
                //= specs/rfc5061.txt#section-4.2
                //# A robust implementation SHOULD ignore the parameter and leave the
                //# association intact.
                //= specs/rfc5061.txt#section-4.2.6
                //# This parameter MUST NOT be sent in any other chunks, and if it is
                //# received in another chunk, it MUST be ignored.
                Change::Other { kind, .. } => {
                    let unrecognized = Unrecognized::of_parameter(kind);
                    //= specs/rfc5061.txt#section-5.2
                    //# To indicate an
                    //# unrecognized parameter, Cause Type 8 should be used as
                    //# defined in the ERROR in Section 3.3.10.8, [RFC4960].
                    let report = unrecognized.reports().then(|| Cause::UnrecognizedParameters(quote()));
                    push(&mut responses, &mut len, behind, request.correlation, report);
                    if unrecognized.stops() {
                        break;
                    }
                    continue;
                }
            };
            failing |= result.is_err() && !matches!(request.change, Change::SetPrimary(_));
            push(&mut responses, &mut len, behind, request.correlation, result.err());
        }
        responses
    }

    fn on_add(
        &mut self,
        now: Time,
        route: Route,
        ip: IpAddr,
        quote: impl Fn() -> bytes::Bytes,
    ) -> Result<(), Cause> {
        //= specs/rfc5061.txt#section-4.2.1
        //# If the address 0.0.0.0 or
        //# ::0 is provided, the source address of the packet MUST be added.
        let peer = if ip.is_unspecified() { route.peer } else { SocketAddr::new(ip, route.peer.port()) };
        let peers = self.peers();
        if peers.iter().any(|known| known.ip() == peer.ip()) {
            return Ok(());
        }
        //= specs/rfc5061.txt#section-4.2.1
        //# This parameter MUST NOT
        //# contain a broadcast or multicast address.
        if !is_unicast(peer.ip()) || !reaches(peer.ip(), route.peer.ip()) {
            return Err(Cause::NoAuthorization(quote()));
        }
        let mut locals = self.staying();
        if !locals.contains(&route.local) && !self.is_leaving(route.local) {
            locals.push(route.local);
        }
        if best_partner(peer, &locals, |_| true).is_some()
            && best_partner(peer, &locals, |local| self.config.allows(local.ip(), peer.ip())).is_none()
        {
            return Err(Cause::NoAuthorization(quote()));
        }
        //= specs/rfc5061.txt#section-5.3
        //# F9)  If an endpoint receives an ADD IP Address request and does not
        //# have the local resources to add this new address to the
        //# association, it MUST return an Error Cause TLV set to the new
        //# error code 'Operation Refused Due to Resource Shortage'.
        let shortage = || Cause::ResourceShortage(quote());
        let best =
            |of: &[SocketAddr]| best_partner(peer, of, |local| self.config.allows(local.ip(), peer.ip()));
        if let Some(local) = best(&locals) {
            let id = self.add_path(Route { local, peer }).ok_or_else(shortage)?;
            self.begin_verification(now, id);
        } else {
            // Both sides move from their only address at the same time: each receives the other's
            // ASCONF-ACK only if it has accepted the address from which that is sent.
            let local = best(&self.coming()).ok_or_else(shortage)?;
            let id = self.add_path(Route { local, peer }).ok_or_else(shortage)?;
            self.paths[usize::from(id.0)].awaits_ack = true;
        }
        self.events.push_back(Event::PeerAddress(peer, AddressChange::Added));
        Ok(())
    }

    fn on_delete(
        &mut self,
        now: Time,
        route: Route,
        ip: IpAddr,
        quote: impl Fn() -> bytes::Bytes,
    ) -> Result<(), Cause> {
        let peers = self.peers();
        let source = route.peer.ip();
        let going: Vec<_> = peers
            .iter()
            .copied()
            //= specs/rfc5061.txt#section-4.2.2
            //# If the address 0.0.0.0
            //# or ::0 is provided, all addresses of the peer except the source
            //# address of the packet MUST be deleted.
            .filter(|peer| if ip.is_unspecified() { peer.ip() != source } else { peer.ip() == ip })
            .collect();
        if going.is_empty() {
            return Ok(());
        }
        //= specs/rfc5061.txt#section-5.3
        //# F7)  If a request is received to delete the last remaining IP address
        //# of a peer endpoint, the receiver MUST send an Error Cause TLV
        //# with the Error Cause set to the new error code 'Request to
        //# Delete Last Remaining IP Address'.  The requested delete MUST
        //# NOT be performed or acted upon, other than to send the ASCONF-
        //# ACK.
        if going.len() == peers.len() {
            return Err(Cause::DeleteLastAddress(quote()));
        }
        //= specs/rfc5061.txt#section-5.3
        //# F8)  If a request is received to delete an IP address that is also
        //# the source address of the IP packet that contained the ASCONF
        //# chunk, the receiver MUST reject this request.
        if ip == source {
            //= specs/rfc5061.txt#section-5.3
            //# To reject the request, the receiver MUST send an Error Cause TLV set
            //# to the new error code 'Request to Delete Source IP Address' (unless
            //# Rule F5 has also been violated, in which case the error code
            //# 'Request to Delete Last Remaining IP Address' is sent).
            return Err(Cause::DeleteSourceAddress(quote()));
        }
        //= specs/rfc5061.txt#section-5.3
        //# F13) When an endpoint receives a valid request to DELETE an IP
        //# address, the endpoint MUST consider the address no longer part
        //# of the association.  It MUST NOT send SCTP packets for the
        //# association to that address and it MUST treat subsequent packets
        //# received from that address as Out Of The Blue.
        self.remove_paths(now, |path| going.iter().any(|peer| peer.ip() == path.peer.ip()));
        self.pair_leftovers(now);
        for peer in going {
            self.events.push_back(Event::PeerAddress(peer, AddressChange::Removed));
        }
        Ok(())
    }

    fn on_set_primary(
        &mut self,
        route: Route,
        ip: IpAddr,
        quote: impl Fn() -> bytes::Bytes,
    ) -> Result<(), Cause> {
        let ip = if ip.is_unspecified() { route.peer.ip() } else { ip };
        let to_it = |path: &Path| path.state != PathState::Removed && path.peer.ip() == ip;
        //= specs/rfc5061.txt#section-5.4
        //# If a request arrives that asks the receiver to
        //# set an address as primary that does not exist, the receiver SHOULD
        //# NOT honor the request, leaving its existing primary address
        //# unchanged.
        if !self.paths.iter().any(to_it) {
            return Err(Cause::UnresolvableAddress(quote()));
        }
        let State::Up(up) = &mut self.state else { return Ok(()) };
        match self.paths.iter().position(|path| to_it(path) && path.is_usable()) {
            Some(index) => {
                up.primary = PathId(index as u8);
                up.addresses.primary_wanted = None;
                let peer = self.paths[index].peer;
                self.events.push_back(Event::PeerAddress(peer, AddressChange::MadePrimary));
            }
            // The address becomes primary once it is confirmed.
            None => up.addresses.primary_wanted = Some(ip),
        }
        Ok(())
    }

    /// A path was confirmed; the peer may have requested it as the primary one.
    pub(in crate::association) fn on_confirmed(&mut self, id: PathId) {
        let State::Up(up) = &mut self.state else { return };
        let peer = self.paths[usize::from(id.0)].peer;
        if up.addresses.primary_wanted.take_if(|ip| *ip == peer.ip()).is_some() {
            up.primary = id;
            self.events.push_back(Event::PeerAddress(peer, AddressChange::MadePrimary));
        }
        // The primary path was removed, and another one or none replaced it.
        let usable = |id: PathId, paths: &[Path]| paths[usize::from(id.0)].is_usable();
        if self.paths[usize::from(up.primary.0)].state == PathState::Unconfirmed && usable(id, &self.paths) {
            up.primary = id;
        }
        if !usable(up.sack_path, &self.paths) {
            up.sack_path = id;
        }
    }

    /// Sends the due ASCONF-ACKs; those for one route in one packet.
    pub(super) fn transmit_asconf_acks(&mut self) -> Option<Transmit> {
        let State::Up(up) = &mut self.state else { return None };
        let (route, tag) = (up.addresses.acks.front()?.0, up.peer_tag);
        let acks = std::mem::take(&mut up.addresses.acks);
        let (acks, others): (VecDeque<_>, VecDeque<_>) = acks.into_iter().partition(|(by, _)| *by == route);
        up.addresses.acks = others;
        let mut acks = acks;
        let oldest = up.addresses.peer_serial.minus(CACHED_MAX as u32);
        //= specs/rfc5061.txt#section-5.1.1
        //# If bundled with other ASCONF-ACK Chunks, the chunks MUST appear in
        //# sequential order with respect to their Sequence Number.
        acks.make_contiguous().sort_by_key(|(_, ack)| ack.serial.distance_from(oldest));
        // The route need not be a path of the association: the peer waits for the response there.
        let is = |path: &Path| path.state != PathState::Removed && path.peer == route.peer;
        let path = self.paths.iter().position(is).map_or(up.primary, |index| PathId(index as u8));
        self.begin(path, tag);
        for (_, ack) in acks {
            let ack = Chunk::AsconfAck(ack);
            //= specs/rfc5061.txt#section-5.2
            //# E7)  While processing the ASCONF Chunks in the SCTP packet, if the
            //# response packet will exceed the PMTU of the return path, the
            //# receiver MUST stop adding additional ASCONF-ACKs into the
            //# response packet but MUST continue to process all of the ASCONF
            //# Chunks, saving ASCONF-ACK Chunk responses in its cached copy.
            if ack.padded_len() > self.builder.room_for(ack.kind()) {
                break;
            }
            self.builder.push(&ack);
        }
        if self.builder.is_empty() {
            self.builder.cancel();
            return None;
        }
        let transmit = self.finish(path);
        //= specs/rfc5061.txt#section-5.2
        //# The destination address of the SCTP packet
        //# containing the ASCONF-ACK Chunks MUST be the source address of
        //# the SCTP packet that held the ASCONF Chunks.
        let from = if self.is_leaving(route.local) { transmit.from } else { route.local };
        Some(Transmit { from, to: route.peer, ..transmit })
    }
}

/// Appends the result of a request to the ASCONF-ACK if it must be reported; `behind` more results may
/// follow.
//= specs/rfc5061.txt#section-5.2
//# V3)  All responses MUST copy the ASCONF-Request Correlation ID
//# field received in the ASCONF parameter from the TLV being
//# responded to, into the ASCONF-Request Correlation ID field
//# in the response parameter.
fn push(
    responses: &mut Vec<Response>,
    len: &mut usize,
    behind: usize,
    correlation: u32,
    refused: Option<Cause>,
) {
    let outcome = match refused {
        // After a refusal, successful requests must be listed too (§5.1 A7).
        None if responses.iter().all(|it| it.outcome == Outcome::Success) => return,
        None => Outcome::Success,
        Some(cause) => Outcome::Error(vec![cause]),
    };
    //= specs/rfc5061.txt#section-4.2.1
    //# Note that the receiver MUST NOT change this 32-bit value.
    //= specs/rfc5061.txt#section-4.2.2
    //# Note that the receiver MUST NOT change this 32-bit value.
    //= specs/rfc5061.txt#section-4.2.4
    //# Note that the receiver MUST NOT change this 32-bit value.
    let mut response = Response { correlation, outcome };
    let bare = Response { correlation, outcome: Outcome::Success }.encoded_len();
    //= specs/rfc5061.txt#section-5.1.1
    //# C5) An ASCONF Chunk and an ASCONF-ACK Chunk SHOULD not be larger
    //# than the PMTU.
    if *len + response.encoded_len().next_multiple_of(4) + behind * bare > ACK_LEN_MAX
        && response.outcome != Outcome::Success
    {
        // A result that does not fit is reported without a quotation. No request is shorter than such a
        // result, so an ASCONF-ACK without quotations is no longer than its ASCONF.
        response.outcome = Outcome::Error(Vec::new());
    }
    *len += response.encoded_len().next_multiple_of(4);
    responses.push(response);
}
