//! Processing of received chunks, except for SACKs (`sack`). Nothing is sent here: the next `poll` does
//! that.

mod answers;
mod sack;
mod sack_path;

use std::net::SocketAddr;
use std::time::Duration;

use braidftp_base::{Ecn, Time};
use bytes::Bytes;

use self::sack::{ReportedTsns, SackKind};
use self::sack_path::another;
pub(super) use self::sack_path::sack_by;
use crate::association::expiry::HEARTBEAT_WAIT_MAX;
use crate::association::path::Path;
use crate::association::reassembly::KEPT_DATAGRAMS_ROOM_BYTES;
use crate::association::received::Seen;
use crate::association::refused::Refused;
use crate::association::reset::state::Reconfiguration;
use crate::association::state::{Shutdown, State, Window, quotable};
use crate::association::timers::Timer;
use crate::association::{Association, Event, Violation};
use crate::config::{Config, MultipathWith};
use crate::ids::{PathId, Tsn};
use crate::route::Route;
use crate::stats::PathState;
use crate::wire::{Asconf, Cause, Chunk, CompactSack, Data, NrSack, Packet, Sack, Unrecognized, WireError};

/// The maximum number of bytes of a datagram, besides the payload, that a payload keeps allocated.
/// Beyond it the payload is copied.
const SHARED_DATAGRAM_WASTE_MAX: usize = 128;

/// Whether this side lists NR-SACK if the peer does, although its own INIT may not have.
fn may_have_offered_nr_sack(config: &Config) -> bool {
    config.paths.multipath_with == MultipathWith::WhereAgreed
}

/// Returns the path of a HEARTBEAT ACK: that of the HEARTBEAT, unless T3-rtx expired there and the
/// packet was sent to the local address of another path where it did not.
///
/// A peer that sends from one address whatever the destination is would otherwise consider all of its
/// destinations failed when that address loses its link, and would send no SACKs; its HEARTBEAT asks
/// whether it reaches this side on the path that it chose. A peer that sends from each address gets
/// responses on the same path only: another one would claim that the path works in both directions, and
/// data would return to where SACKs are lost.
//= specs/rfc9260.txt#section-6.4
//# An endpoint SHOULD transmit reply chunks (e.g., INIT ACK, COOKIE ACK,
//# and HEARTBEAT ACK) in response to control chunks to the same
//# destination transport address from which it received the control chunk
//# to which it is replying.
fn answer_by(paths: &[Path], asked_by: PathId, reached: SocketAddr) -> PathId {
    if paths[usize::from(asked_by.0)].state == PathState::Active {
        return asked_by;
    }
    let answers = |path: &Path| path.state == PathState::Active && path.local == reached;
    paths.iter().position(answers).map_or(asked_by, |index| PathId(index as u8))
}

/// Whether to process the rest of a packet.
pub(super) enum Then {
    Next,
    Stop,
}

/// A packet whose chunks are being processed.
struct Reading {
    route: Route,
    /// The path on which it arrived.
    path: PathId,
    /// Whether its source address does not belong to the peer.
    is_stranger: bool,
    is_protected: bool,
    /// The length in bytes.
    len: usize,
    /// Whether what follows is authenticated; `None` before an AUTH chunk.
    authentic: Option<bool>,
    /// Whether the endpoint has already verified its AUTH chunk.
    verified: bool,
    /// Whether small payloads may keep the datagram allocated; `None` before the first one.
    shares: Option<bool>,
    /// Whether it contained DATA or FORWARD TSN.
    brought_data: bool,
    /// The lowest TSN in the packet.
    lowest: Option<Tsn>,
}

impl Association {
    /// Processes a packet with the right tag, or with the T bit and the peer's tag (§8.5). A COOKIE ECHO
    /// in it has been processed.
    pub(crate) fn handle(&mut self, now: Time, route: Route, ecn: Ecn, packet: Packet) {
        if self.refuses(&packet) {
            return;
        }
        let path = self.path_of(route);
        // As if the link were down, from which every peer recovers.
        if self.paths[usize::from(path.0)].state == PathState::SetAside {
            return;
        }
        // A packet from an address that does not belong to the peer may contain an authenticated ASCONF
        // (RFC 5061 §5.3.2) and other authenticated chunks; before the association is established, an
        // INIT ACK that lists the address to which INIT was sent.
        let of_peer = |path: &Path| path.state != PathState::Removed && path.peer.ip() == route.peer.ip();
        let is_stranger = !matches!(self.state, State::CookieWait { .. }) && !self.paths.iter().any(of_peer);
        if let State::Up(up) = &mut self.state {
            up.addresses.begin_packet();
        }
        self.paths[usize::from(path.0)].counters.packets_received += 1;
        self.paths[usize::from(path.0)].refused = Refused::default();
        self.has_input = true;
        let held_before = self.inbound.charged_bytes();
        //= specs/rfc9260.txt#section-6.10
        //# An endpoint MUST process received chunks in their order in the packet.
        let mut reading = Reading {
            route,
            path,
            is_stranger,
            is_protected: packet.is_protected(),
            len: packet.len(),
            authentic: packet.is_protected().then_some(true),
            verified: self.auth.take_verified(),
            shares: None,
            brought_data: false,
            lowest: None,
        };
        let mut chunks = packet.chunks();
        loop {
            let rest = chunks.rest();
            let Some(chunk) = chunks.next() else { break };
            if matches!(self.state, State::CookieEchoed { .. })
                && let Ok(chunk) = &chunk
                && !is_stranger
                && (reading.authentic == Some(true) || !self.auth.requires(chunk.kind()))
            {
                self.on_implicit_cookie_ack(now, chunk);
            }
            let then = self.on_chunk(now, &mut reading, chunk, rest);
            if matches!(then, Then::Stop) || matches!(self.state, State::Closed(_)) {
                break;
            }
        }
        let Reading { path, brought_data, lowest, .. } = reading;
        if let (Ecn::Ce, Some(lowest)) = (ecn, lowest) {
            self.on_ce(path, lowest);
        }
        self.repeat_sack(path);
        let held_more = self.inbound.charged_bytes().saturating_sub(held_before);
        if held_more > 0 {
            self.tune_receive_buffer(now, path, held_more);
        }
        self.on_packet_end(now);
        if brought_data && self.is_up() {
            self.on_data_while_shutting_down(now);
        }
    }

    /// Processes the next chunk of a packet; `rest` begins with it.
    fn on_chunk(
        &mut self,
        now: Time,
        packet: &mut Reading,
        chunk: Result<Chunk, WireError>,
        rest: &[u8],
    ) -> Then {
        match chunk {
            Ok(chunk) if !packet.is_protected && self.refuses_in_clear(&chunk) => Then::Next,
            //= specs/rfc4895.txt#section-5.1
            //# The control chunk AUTH MUST NOT appear more than once in an SCTP
            //# packet.
            Ok(Chunk::Auth(auth)) if self.config.security.auth.is_some() => {
                let good = packet.authentic.is_none() && (packet.verified || self.on_auth(&auth, rest));
                packet.authentic = Some(good);
                if good { Then::Next } else { Then::Stop }
            }
            //= specs/rfc4895.txt#section-6.3
            //# The receiver has a list of chunk types that it expects to be received
            //# only after an AUTH-chunk.  This list has been sent to the peer during
            //# the association setup.  It MUST silently discard these chunks if they
            //# are not placed after an AUTH chunk in the packet.
            Ok(chunk) if packet.authentic != Some(true) && self.auth.requires(chunk.kind()) => match chunk {
                //= specs/rfc5061.txt#section-5.2
                //# If either authentication fails, or the AUTH chunk is missing,
                //# the receiver MUST silently discard this chunk and the rest of
                //# the packet.
                //= specs/rfc5061.txt#section-5.2
                //# Prior to finding the ASCONF chunk, the receiver MUST encounter an
                //# AUTH chunk as described in [RFC4895].
                Chunk::Asconf(_) => Then::Stop,
                _ => Then::Next,
            },
            Ok(_) if packet.authentic != Some(true) && packet.is_stranger => Then::Next,
            Ok(Chunk::Asconf(asconf)) if self.config.paths.asconf => {
                if packet.authentic == Some(true) && self.takes_asconf() {
                    self.on_asconf(now, packet.route, &asconf);
                    packet.path = self.path_of(packet.route);
                }
                Then::Next
            }
            Ok(Chunk::AsconfAck(ack)) if self.config.paths.asconf => {
                if packet.authentic == Some(true) && self.takes_asconf() {
                    self.on_asconf_ack(now, &ack);
                    packet.path = self.path_of(packet.route);
                }
                Then::Next
            }
            // If ASCONF is not configured it is unknown: the high bits of its type say what to do.
            //= specs/rfc5061.txt#section-4.1.1
            //# As defined in [RFC4960], Section 3.2, when setting these upper bits
            //# in this manner the receiver that does not understand this chunk MUST
            //# skip the chunk and continue processing, and report in an Operation
            //# Error Chunk using the 'Unrecognized Chunk Type' cause of error.
            Ok(chunk @ (Chunk::Asconf(_) | Chunk::AsconfAck(_))) => {
                self.on_unknown(chunk.kind(), &chunk.quoted())
            }
            //= specs/rfc5061.txt#section-5.3.1
            //# For this case, during the deletion of an IP address, an Abort MUST be
            //# ignored if the destination address of the Abort message is that of a
            //# destination being deleted.
            //= specs/rfc5061.txt#section-5.3
            //# One special consideration is that ABORT Chunks arriving destined to
            //# the IP address being deleted MUST be ignored (see Section 5.3.1 for
            //# further details).
            Ok(Chunk::Abort { .. })
                if self.is_leaving(packet.route.local) || self.was_deleted(packet.route.local) =>
            {
                Then::Stop
            }
            Ok(Chunk::Data(mut data)) => {
                self.admit_payload(packet, &mut data);
                packet.brought_data = true;
                let earlier = packet.lowest.filter(|lowest| lowest.before(data.tsn));
                packet.lowest = Some(earlier.unwrap_or(data.tsn));
                self.on_data(packet.path, data);
                Then::Next
            }
            Ok(chunk @ (Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_))) => {
                packet.brought_data = true;
                self.on_forward(packet.path, chunk)
            }
            Ok(chunk) => self.on_control(now, packet.path, packet.route, chunk),
            Err(WireError::NoUserData(tsn))
                if self.is_up() && (packet.authentic == Some(true) || !self.auth.requires(rest[0])) =>
            {
                self.on_violation(Violation::NoUserData(tsn));
                Then::Stop
            }
            //= specs/rfc9260.txt#section-6.10
            //# If the receiver
            //# detects a partial chunk, it MUST drop the chunk.
            Err(_) => Then::Stop,
        }
    }

    /// Copies a payload that is small compared with its datagram, unless the datagram may be kept. A
    /// payload keeps its whole datagram allocated and is charged for little more than itself; copies of
    /// small payloads are costly, so some datagrams may be kept.
    fn admit_payload(&mut self, packet: &mut Reading, data: &mut Data) {
        if data.payload.len() + SHARED_DATAGRAM_WASTE_MAX >= packet.len {
            return;
        }
        let shares = match packet.shares {
            Some(shares) => shares,
            None => {
                let wanted = KEPT_DATAGRAMS_ROOM_BYTES;
                let has_room = self.admitted && self.memory_room(wanted) == wanted;
                let keeps = self.inbound.may_keep_datagram(packet.len, has_room);
                self.use_memory(if keeps { packet.len } else { 0 });
                *packet.shares.insert(keeps)
            }
        };
        if !shares {
            data.payload = Bytes::copy_from_slice(&data.payload);
        }
    }

    /// Returns the path on which a packet with the right tag arrived.
    fn path_of(&mut self, Route { local, peer }: Route) -> PathId {
        let there = |path: &Path| path.state != PathState::Removed;
        let position =
            |is: &dyn Fn(&Path) -> bool| self.paths.iter().position(|path| there(path) && is(path));
        if let Some(index) = position(&|path| path.peer == peer && path.local == local) {
            return PathId(index as u8);
        }
        let ours = position(&|path| path.peer.ip() == peer.ip() && path.local == local);
        if ours.is_none()
            && let Some(index) = position(&|path| path.peer == peer)
        {
            return PathId(index as u8);
        }
        let Some(index) = ours.or_else(|| position(&|path| path.peer.ip() == peer.ip())) else {
            return self.state.up().map_or(PathId(0), |up| up.primary);
        };
        //= specs/rfc6951.txt#section-5.4
        //# After finding the SCTP association (which
        //# includes checking the verification tag), the UDP source port MUST be
        //# stored as the encapsulation port for the destination address the SCTP
        //# packet is received from (see Section 5.1).
        let path = &mut self.paths[index];
        path.peer = peer;
        // Packets sent on the path before went to another port.
        path.heartbeat_due |= path.state == PathState::Unconfirmed && path.heartbeat.is_some();
        PathId(index as u8)
    }

    /// Processes a control chunk. `route` is that of the packet, which is that of a path unless the peer
    /// sends from other addresses.
    fn on_control(&mut self, now: Time, path: PathId, route: Route, chunk: Chunk) -> Then {
        match (chunk, &mut self.state) {
            (chunk @ (Chunk::Sack(_) | Chunk::NrSack(_) | Chunk::CompactSack(_)), _) => {
                return self.on_any_sack(now, path, chunk);
            }
            //= specs/rfc9260.txt#section-8.3
            //# The receiver of the HEARTBEAT chunk SHOULD immediately respond with a
            //# HEARTBEAT ACK chunk that contains the Heartbeat Information TLV,
            //# together with any other received TLVs, copied unchanged from the
            //# received HEARTBEAT chunk.
            //= specs/rfc9260.txt#section-8.3
            //# A receiver of a HEARTBEAT
            //# chunk MUST respond to a HEARTBEAT chunk with a HEARTBEAT ACK chunk
            //# after entering the COOKIE-ECHOED state (sender of the INIT chunk) or
            //# the ESTABLISHED state (receiver of the INIT chunk)
            // Until COOKIE ACK the response waits: only COOKIE ECHO may be sent (§5.1).
            (Chunk::Heartbeat(info), State::Up(up) | State::CookieEchoed { up, .. }) => {
                //= specs/rfc9260.txt#section-3.3.6
                //# An endpoint MUST send this chunk to its peer endpoint as a response to
                //# a HEARTBEAT chunk (see Section 8.3).
                up.control
                    .add_heartbeat_ack(answer_by(&self.paths, path, route.local), Chunk::HeartbeatAck(info));
                self.probe_after_heartbeat(now, path);
            }
            (
                Chunk::Unknown { kind: Chunk::HEARTBEAT, raw },
                State::Up(up) | State::CookieEchoed { up, .. },
            ) => {
                let raw = [&[Chunk::HEARTBEAT_ACK], &raw[1..]].concat().into();
                let ack = Chunk::Unknown { kind: Chunk::HEARTBEAT_ACK, raw };
                up.control.add_heartbeat_ack(answer_by(&self.paths, path, route.local), ack);
            }
            (Chunk::Unknown { kind: Chunk::HEARTBEAT | Chunk::HEARTBEAT_ACK, .. }, _) => {}
            // The COOKIE ECHO was processed; its COOKIE ACK is sent on the path on which it arrived.
            (Chunk::CookieEcho(_), State::Up(up)) if up.control.cookie_ack.is_some() => {
                up.control.cookie_ack = Some(path);
                let path = &mut self.paths[usize::from(path.0)];
                //= specs/rfc9260.txt#section-5.4
                //# A COOKIE ACK chunk MAY be sent to an UNCONFIRMED address, but it
                //# MUST be bundled with a HEARTBEAT chunk including a nonce.
                path.heartbeat_due |= path.state == PathState::Unconfirmed;
            }
            (Chunk::HeartbeatAck(info), State::Up(_)) => self.on_heartbeat_ack(now, &info),
            (Chunk::InitAck(ack), State::CookieWait { .. }) => self.on_init_ack(now, path, route.peer, &ack),
            (Chunk::CookieAck, State::CookieEchoed { .. }) => self.on_cookie_ack(now),
            (Chunk::Abort { causes, .. }, _) => self.on_abort(causes),
            (Chunk::Error(causes), State::CookieEchoed { .. })
                if causes.iter().any(|cause| matches!(cause, Cause::StaleCookie(_))) =>
            {
                self.on_stale_cookie(now);
            }
            //= specs/rfc9260.txt#section-5.2.6
            //# In all cases, if the association is not in the COOKIE-ECHOED state,
            //# the ERROR chunk SHOULD be silently discarded.
            // Only causes that concern a cookie; the others are reported to the user (§11.2.6).
            (Chunk::Error(mut causes), State::Up(_) | State::CookieEchoed { .. }) => {
                causes.retain(|cause| !matches!(cause, Cause::StaleCookie(_)));
                let names_asconf = |cause: &Cause| match cause {
                    Cause::UnrecognizedChunkType(raw) => raw.first() == Some(&Asconf::KIND),
                    _ => false,
                };
                if causes.iter().any(names_asconf) {
                    self.on_asconf_unknown(now);
                }
                if causes.is_empty() {
                    return Then::Next;
                }
                self.events.push_back(Event::PeerError(causes));
            }
            // Without ECN these are unknown chunks.
            (Chunk::Ecne { .. } | Chunk::Cwr { .. }, _) if !self.config.congestion.ecn => return Then::Stop,
            (Chunk::Ecne { lowest_tsn }, State::Up(_)) => self.on_ecne(now, lowest_tsn),
            (Chunk::Cwr { lowest_tsn }, State::Up(_)) => self.on_cwr(lowest_tsn),
            (Chunk::Reconfig(parameters), State::Up(_)) => self.on_reconfig(path, parameters),
            //= specs/rfc9260.txt#section-9.2
            //# If a SHUTDOWN chunk is received in the COOKIE-WAIT or COOKIE ECHOED
            //# state, the SHUTDOWN chunk SHOULD be silently discarded.
            (Chunk::Shutdown { cum_tsn_ack }, State::Up(_)) => self.on_shutdown(now, path, cum_tsn_ack),
            (Chunk::ShutdownAck, State::Up(_)) => self.on_shutdown_ack(),
            (Chunk::ShutdownComplete { .. }, State::Up(_)) => self.on_shutdown_complete(),
            (Chunk::Unknown { kind, raw }, _) => return self.on_unknown(kind, &raw),
            // If no keys were agreed on, the chunk is unknown; an unprotected one cannot be nested.
            (chunk @ Chunk::Dtls(_), _) => return self.on_unknown(chunk.kind(), &chunk.quoted()),
            // Without authentication an AUTH chunk is unknown, and its type's high bits are 00.
            (Chunk::Auth(_), _) => return Then::Stop,
            // Late or early chunks of the handshake, and chunks after the end, are ignored (§5.2.3,
            // §5.2.5, §9.2).
            _ => {}
        }
        Then::Next
    }

    /// Processes a SACK in one of its three forms.
    fn on_any_sack(&mut self, now: Time, path: PathId, chunk: Chunk) -> Then {
        match (chunk, &mut self.state) {
            //= specs/rfc9260.txt#section-6
            //# A SACK chunk received in any other state SHOULD be discarded.
            (Chunk::Sack(_) | Chunk::NrSack(_) | Chunk::CompactSack(_), State::Up(_))
                if matches!(self.shutdown, Shutdown::Sent { .. } | Shutdown::AckSent { .. }) => {}
            (Chunk::Sack(sack), State::Up(up)) => {
                let names = if up.extensions.compacts() { ReportedTsns::All } else { ReportedTsns::Unknown };
                self.on_sack(now, path, &sack, SackKind { names, kept: &[] });
            }
            //= specs/compact-sack.md#section-4
            //# a sender MUST process it like a SACK (RFC 9260 §6.2.1).
            (Chunk::CompactSack(sack), State::Up(up)) if up.extensions.compacts() => {
                let CompactSack { is_cut, cum_tsn_ack, a_rwnd, gaps, dups } = sack;
                let names = if is_cut { ReportedTsns::UpToLastBlock } else { ReportedTsns::All };
                let sack = Sack { flags: 0, cum_tsn_ack, a_rwnd, gaps, dups };
                self.on_sack(now, path, &sack, SackKind { names, kept: &[] });
            }
            (Chunk::CompactSack(sack), _) => {
                return self.on_unknown(CompactSack::KIND, &Chunk::CompactSack(sack).to_bytes());
            }
            // If both sides sent an INIT, the two may have seen different offers.
            (Chunk::NrSack(sack), State::Up(up))
                if up.extensions.nr_sack || may_have_offered_nr_sack(&self.config) =>
            {
                let gaps = [&sack.gaps[..], &sack.nr_gaps].concat();
                let NrSack { flags, cum_tsn_ack, a_rwnd, nr_gaps, dups, .. } = sack;
                let sack = Sack { flags, cum_tsn_ack, a_rwnd, gaps, dups };
                self.on_sack(now, path, &sack, SackKind { names: ReportedTsns::Unknown, kept: &nr_gaps });
            }
            (Chunk::NrSack(sack), _) => {
                return self.on_unknown(NrSack::KIND, &Chunk::NrSack(sack).to_bytes());
            }
            _ => {}
        }
        Then::Next
    }

    /// A HEARTBEAT arrived on an inactive path: sends one at once, instead of after HB.interval.
    fn probe_after_heartbeat(&mut self, now: Time, path: PathId) {
        let several = self.has_several_paths();
        let ack_path = &mut self.paths[usize::from(path.0)];
        // A HEARTBEAT that was sent before the path recovered may be waited for up to RTO.Max.
        let patience = if self.config.recovery.early_repair { HEARTBEAT_WAIT_MAX } else { Duration::MAX };
        let asks =
            ack_path.heartbeat.as_ref().is_some_and(|heartbeat| now.since(heartbeat.sent_at) < patience);
        let may_ask = several && ack_path.params.heartbeat_interval.is_some() && !asks;
        ack_path.heartbeat_due |= may_ask && ack_path.state == PathState::Inactive;
    }

    /// RFC 9260 §3.2: the two high bits of an unknown chunk type determine the reaction.
    pub(super) fn on_unknown(&mut self, kind: u8, raw: &Bytes) -> Then {
        let unrecognized = Unrecognized::of_chunk(kind);
        if unrecognized.reports()
            && let (State::Up(up), Some(quote)) = (&mut self.state, quotable(raw))
        {
            up.control.add_error(Cause::UnrecognizedChunkType(quote));
        }
        if unrecognized.stops() { Then::Stop } else { Then::Next }
    }

    //= specs/rfc3758.txt#section-3.6
    //# DATA chunk arrival at a PR-SCTP receiver proceeds exactly as for DATA
    //# chunk arrival at a base protocol SCTP receiver---that is, the
    //# receiver MUST perform the same TSN handling, including duplicate
    //# detection, gap detection, SACK generation, cumulative TSN
    //# advancement, etc. as defined in RFC 2960 [2]---with the following
    //# exceptions and additions.
    fn on_data(&mut self, path: PathId, data: Data) {
        let State::Up(up) = &mut self.state else { return };
        //= specs/rfc9260.txt#section-6
        //# DATA chunks MUST only be received according to the rules below in
        //# ESTABLISHED, SHUTDOWN-PENDING, and SHUTDOWN-SENT states.
        //= specs/rfc9260.txt#section-6
        //# A DATA chunk received in any other state SHOULD be discarded.
        if matches!(self.shutdown, Shutdown::Received | Shutdown::AckSent { .. }) {
            return;
        }
        self.paths[usize::from(path.0)].counters.bytes_received += data.payload.len() as u64;
        let answered_by = up.sack_path;
        up.received.received_on(path);
        sack_by(up, &self.paths, path);
        //= specs/rfc8260.txt#section-2.1
        //# I bit: 1 bit The (I)mmediate Bit, if set, indicates that the receiver
        //# SHOULD NOT delay the sending of the corresponding SACK chunk.
        if data.immediate {
            //= specs/rfc9260.txt#section-6.2
            //# Upon receipt of an SCTP packet containing a DATA chunk with the I bit
            //# set, the receiver SHOULD NOT delay the sending of the corresponding
            //# SACK chunk, i.e., the receiver SHOULD immediately respond with the
            //# corresponding SACK chunk.
            up.received.sack_immediately();
        }
        match up.received.classify(data.tsn) {
            Seen::Duplicate => {
                self.duplicates += 1;
                // Several duplicates may arrive if one SACK was lost.
                let first = !up.received.has_duplicates();
                up.received.duplicate(data.tsn);
                if up.sack_path != answered_by || up.received.counts_by_path() {
                    self.suspect_sack_path(answered_by);
                } else if first && let Some(other) = another(up, &self.paths, answered_by) {
                    up.sack_path = other;
                    self.suspect_sack_path(answered_by);
                }
                return;
            }
            Seen::OutOfBounds => {
                self.overruns += 1;
                return up.received.sack_immediately();
            }
            Seen::New => {}
        }
        // The peer may have reset its TSNs while its response is in flight: chunks whose numbering is
        // ambiguous wait.
        if up.reconfiguration.as_ref().is_some_and(Reconfiguration::awaits_restart)
            && !(data.tsn == up.received.cum_tsn().next() && self.inbound.expects(&data))
        {
            self.overruns += 1;
            up.received.sack_immediately();
            if let Some(reset) = &mut up.reconfiguration {
                reset.hold_early(data);
            }
            return;
        }
        self.take_data(data);
        self.take_all_early();
    }

    /// Processes the chunks whose numbering was ambiguous, as soon as earlier TSNs have arrived or were
    /// skipped.
    pub(super) fn take_all_early(&mut self) {
        while let Some(data) = self.take_early() {
            self.take_data(data);
        }
    }

    fn take_early(&mut self) -> Option<Data> {
        let State::Up(up) = &mut self.state else { return None };
        let next = up.received.cum_tsn().next();
        let reset = up.reconfiguration.as_mut().filter(|reset| reset.awaits_restart())?;
        reset.take_early(next).filter(|data| self.inbound.expects(data))
    }

    /// Processes a new chunk if there is room for it.
    fn take_data(&mut self, data: Data) {
        let memory_cost = self.inbound.memory_cost(&data.payload);
        let has_memory = self.memory_room(memory_cost) == memory_cost;
        let State::Up(up) = &mut self.state else { return };
        // The sender counts user data, and the window was advertised in bytes of user data. So chunks
        // within the advertised window are accepted even if overhead has closed it since, up to twice
        // the buffer in total. Beyond, only the next chunk in sequence is accepted, and only if nothing
        // can be read: otherwise neither side could continue.
        let capacity = self.buffer.bytes();
        let fits = self.inbound.unread_bytes() + data.payload.len() <= capacity
            && self.inbound.window_cost() < 2 * capacity
            && has_memory;
        let in_sequence = data.tsn == up.received.cum_tsn().next();
        let in_need = in_sequence && self.inbound.readable().is_none();
        //= specs/rfc9260.txt#section-6.2
        //# The dropped DATA chunk(s) MUST NOT be included in the SACK chunk, as
        //# they were not accepted.
        //= specs/rfc9260.txt#section-6.2
        //# If a data receiver drops DATA chunks, it MUST NOT include them in Gap
        //# Ack Blocks in subsequent SACK chunks until they are received again via
        //# retransmission.
        if !fits && !in_need {
            //= specs/rfc9260.txt#section-6.2
            //# In either case, if such a DATA chunk is
            //# dropped, the receiver MUST immediately send back a SACK chunk with
            //# the current receive window showing only DATA chunks received and
            //# accepted so far.
            self.overruns += 1;
            return up.received.sack_immediately();
        }
        let tsn = data.tsn;
        up.offered_bytes = up.offered_bytes.saturating_sub(data.payload.len());
        //= specs/rfc9260.txt#section-6.2
        //# The SCTP endpoint MUST always acknowledge the reception of each valid
        //# DATA chunk when the DATA chunk received is inside its receive window.
        up.received.accept(tsn);
        let cum_tsn = up.received.cum_tsn();
        let stream = data.stream;
        self.use_memory(memory_cost);
        let pushed = if stream.0 < self.inbound_streams {
            self.inbound.push(data, cum_tsn)
        } else {
            self.inbound.skip(tsn, cum_tsn)
        };
        if let Err(violation) = pushed {
            return self.on_violation(violation);
        }
        // A chunk dropped here is acknowledged normally and takes nothing of the window.
        if stream.0 >= self.inbound_streams {
            self.on_violation(Violation::InvalidStream(stream));
        }
        if self.a_rwnd() == 0 {
            self.inbound.deliver_partially();
        }
        self.report_readable();
    }

    fn on_packet_end(&mut self, now: Time) {
        self.settle_deferred_reset();
        let State::Up(up) = &mut self.state else { return };
        if up.received.on_packet_end(self.config.sack.frequency) {
            self.timers.arm(Timer::DelayedSack, now + self.config.sack.delay);
        }
        if let Window::Probing { answered, .. } = &mut up.window {
            *answered = true;
            // No chunk is acknowledged while the window is closed: without this, probes whose answers were lost or late would
            // count over the whole life of the association, not in succession.
            up.errors = 0;
        }
        self.on_packet_during_shutdown();
    }
}
