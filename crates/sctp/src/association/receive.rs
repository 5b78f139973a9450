//! What each chunk of a packet does to an association. Nothing is sent here: the next drain does that.

use std::net::SocketAddr;

use braidftp_base::{Ecn, Time};
use braidftp_cc as cc;
use braidftp_cc::coupled::Coupling;
use bytes::Bytes;
use rand_core::Rng;

use crate::association::multipath::{PseudoCum, advance, by_the_literature};
use crate::association::partial::Cum;
use crate::association::path::{Path, Recovery};
use crate::association::received::Seen;
use crate::association::reduction::Progress;
use crate::association::reset::Reconfiguration;
use crate::association::sent::{Arrival, Counting, Report, SackError, make_sense};
use crate::association::state::{Shutdown, State, Up, Window, quotable};
use crate::association::timers::Timer;
use crate::association::{Association, Event, Violation};
use crate::config::{Config, LossDetection, LossRecovery, MultipathWith};
use crate::endpoint::Route;
use crate::ids::{PathId, Tsn};
use crate::stats::PathState;
use crate::wire::{Asconf, Cause, Chunk, CompactSack, Data, NrSack, Packet, Sack, Unrecognized, WireError};

/// Whether this side lists NR-SACK where the peer does, though its own INIT may not have.
fn may_have_offered_nr_sack(config: &Config) -> bool {
    config.multipath_with == MultipathWith::WhereAgreed
}

/// SACKs go where data came from last, if it may be used.
pub(super) fn sack_by(up: &mut Up, paths: &[Path], path: PathId) {
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
        // Where nothing is answered, no SACK may arrive either.
        up.sack_path = another(up, paths, path).unwrap_or(path);
    }
}

/// Whether nothing speaks against SACKs by this path.
fn carries_sacks(up: &Up, paths: &[Path], id: PathId) -> bool {
    paths[usize::from(id.0)].state == PathState::Active && up.sack_avoids != Some(id)
}

/// The next path that carries SACKs, after this one.
fn another(up: &Up, paths: &[Path], than: PathId) -> Option<PathId> {
    let next = (1..paths.len()).map(|step| (usize::from(than.0) + step) % paths.len());
    next.map(|index| PathId(index as u8)).find(|id| carries_sacks(up, paths, *id))
}

/// Where a HEARTBEAT that came by a path is answered: there, unless that path is in doubt and the packet reached the
/// address on this side of another, which is not.
//= specs/rfc9260.txt#section-6.4
//# An endpoint SHOULD transmit reply chunks (e.g., INIT ACK, COOKIE ACK,
//# and HEARTBEAT ACK) in response to control chunks to the same
//# destination transport address from which it received the control chunk
//# to which it is replying.
// A peer that sends from one address whatever the destination would else take all of its destinations for dead with
// the wire of that address, and send its SACKs nowhere; what it asks after is whether it reaches us where it does.
// One that sends from each address is answered by no other: that would say that the path carries both ways, and its
// data would return to where SACKs are lost.
fn answer_by(paths: &[Path], asked_by: PathId, reached: SocketAddr) -> PathId {
    if paths[usize::from(asked_by.0)].state == PathState::Active {
        return asked_by;
    }
    let answers = |path: &Path| path.state == PathState::Active && path.local == reached;
    paths.iter().position(answers).map_or(asked_by, |index| PathId(index as u8))
}

/// What kind of chunk a SACK came as.
#[derive(Clone, Copy)]
struct Said<'a> {
    names: Names,
    /// Blocks of which the peer will never drop what they name.
    kept: &'a [(u16, u16)],
}

/// Which of the runs of TSNs that have arrived a SACK names.
#[derive(Clone, Copy)]
enum Names {
    /// As many as it has room for, or as its sender cares to: how many that is, is guessed.
    WhatItCan,
    /// All.
    All,
    /// Those up to the last one, and not those beyond it.
    TheFirst,
}

/// Whether the rest of a packet is read.
pub(super) enum Then {
    Next,
    Stop,
}

impl Association {
    /// A packet came; its tag is right, or its T bit with the peer's tag (§8.5). COOKIE ECHO in it was dealt with.
    pub(crate) fn handle(&mut self, now: Time, route: Route, ecn: Ecn, packet: Packet) {
        let mut path = self.path_of(route);
        // As if its wire were cut, which any peer knows how to go on from.
        if self.paths[usize::from(path.0)].state == PathState::SetAside {
            return;
        }
        // From an address that is not the peer's, an ASCONF may come that says so (RFC 5061 §5.3.2): that, and whatever
        // is vouched for with it; before that, an INIT ACK that lists the address which was asked.
        let of_peer = |path: &Path| path.state != PathState::Removed && path.peer.ip() == route.peer.ip();
        let is_stranger = !matches!(self.state, State::CookieWait { .. }) && !self.paths.iter().any(of_peer);
        if let State::Up(up) = &mut self.state {
            up.addresses.begin_packet();
        }
        self.paths[usize::from(path.0)].counters.packets_received += 1;
        self.stirred = true;
        let mut brought_data = false;
        let mut lowest: Option<Tsn> = None;
        let held_before = self.inbound.charged_bytes();
        //= specs/rfc9260.txt#section-6.10
        //# An endpoint MUST process received chunks in their order in the packet.
        let mut authentic = None;
        let vouched = self.auth.take_vouched();
        let mut chunks = packet.chunks();
        loop {
            let rest = chunks.rest();
            let Some(chunk) = chunks.next() else { break };
            let then = match chunk {
                //= specs/rfc4895.txt#section-5.1
                //# The control chunk AUTH MUST NOT appear more than once in an SCTP
                //# packet.
                Ok(Chunk::Auth(auth)) if self.config.auth.is_some() => {
                    let good = authentic.is_none() && (vouched || self.on_auth(&auth, rest));
                    authentic = Some(good);
                    if good { Then::Next } else { Then::Stop }
                }
                //= specs/rfc4895.txt#section-6.3
                //# The receiver has a list of chunk types that it expects to be received
                //# only after an AUTH-chunk.  This list has been sent to the peer during
                //# the association setup.  It MUST silently discard these chunks if they
                //# are not placed after an AUTH chunk in the packet.
                Ok(chunk) if authentic != Some(true) && self.auth.requires(chunk.kind()) => match chunk {
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
                Ok(_) if authentic != Some(true) && is_stranger => Then::Next,
                Ok(Chunk::Asconf(asconf)) if self.config.asconf => {
                    if authentic == Some(true) && self.takes_asconf() {
                        self.on_asconf(now, route, &asconf);
                        path = self.path_of(route);
                    }
                    Then::Next
                }
                Ok(Chunk::AsconfAck(ack)) if self.config.asconf => {
                    if authentic == Some(true) && self.takes_asconf() {
                        self.on_asconf_ack(now, &ack);
                        path = self.path_of(route);
                    }
                    Then::Next
                }
                // Unknown, if it is not configured: its type's high bits say what to do.
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
                Ok(Chunk::Abort { .. }) if self.is_leaving(route.local) || self.has_left(route.local) => {
                    Then::Stop
                }
                Ok(Chunk::Data(data)) => {
                    brought_data = true;
                    lowest = Some(
                        lowest.map_or(data.tsn, |tsn| if data.tsn.before(tsn) { data.tsn } else { tsn }),
                    );
                    self.on_data(path, data);
                    Then::Next
                }
                Ok(chunk @ (Chunk::ForwardTsn(_) | Chunk::IForwardTsn(_))) => {
                    brought_data = true;
                    self.on_forward(path, chunk)
                }
                Ok(chunk) => self.on_control(now, path, route, chunk),
                Err(WireError::NoUserData(tsn))
                    if self.is_up() && (authentic == Some(true) || !self.auth.requires(rest[0])) =>
                {
                    self.on_violation(Violation::NoUserData(tsn));
                    Then::Stop
                }
                //= specs/rfc9260.txt#section-6.10
                //# If the receiver
                //# detects a partial chunk, it MUST drop the chunk.
                Err(_) => Then::Stop,
            };
            if matches!(then, Then::Stop) || matches!(self.state, State::Closed(_)) {
                break;
            }
        }
        if let (Ecn::Ce, Some(lowest)) = (ecn, lowest) {
            self.on_ce(path, lowest);
        }
        self.repeat_sack(path);
        let held_more = self.inbound.charged_bytes().saturating_sub(held_before);
        if held_more > 0 {
            self.tune_receive_buffer(now, path, held_more);
        }
        self.on_packet_end(now, brought_data);
    }

    /// The path that a packet with the right tag came by.
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
        // What was sent there before went to another port.
        path.heartbeat_due |= path.state == PathState::Unconfirmed && path.beat.is_some();
        PathId(index as u8)
    }

    /// `route` is between the addresses in the packet: a path's own, where the peer keeps to paths.
    fn on_control(&mut self, now: Time, path: PathId, route: Route, chunk: Chunk) -> Then {
        let several = self.has_several_paths();
        match (chunk, &mut self.state) {
            //= specs/rfc9260.txt#section-6
            //# A SACK chunk received in any other state SHOULD be discarded.
            (Chunk::Sack(_) | Chunk::NrSack(_) | Chunk::CompactSack(_), State::Up(_))
                if matches!(self.shutdown, Shutdown::Sent { .. } | Shutdown::AckSent { .. }) => {}
            (Chunk::Sack(sack), State::Up(up)) => {
                let names = if up.extensions.compacts() { Names::All } else { Names::WhatItCan };
                self.on_sack(now, path, &sack, Said { names, kept: &[] });
            }
            //= specs/compact-sack.md#section-4
            //# what a sender makes of a SACK (RFC 9260 §6.2.1), it MUST make
            //# of this.
            (Chunk::CompactSack(sack), State::Up(up)) if up.extensions.compacts() => {
                let CompactSack { is_cut, cum_tsn_ack, a_rwnd, gaps, dups } = sack;
                let names = if is_cut { Names::TheFirst } else { Names::All };
                let sack = Sack { flags: 0, cum_tsn_ack, a_rwnd, gaps, dups };
                self.on_sack(now, path, &sack, Said { names, kept: &[] });
            }
            (Chunk::CompactSack(sack), _) => {
                return self.on_unknown(CompactSack::KIND, &Chunk::CompactSack(sack).to_bytes());
            }
            // Where both began at once, either may have heard of another offer than the other.
            (Chunk::NrSack(sack), State::Up(up))
                if up.extensions.nr_sack || may_have_offered_nr_sack(&self.config) =>
            {
                let gaps = [&sack.gaps[..], &sack.nr_gaps].concat();
                let NrSack { flags, cum_tsn_ack, a_rwnd, nr_gaps, dups, .. } = sack;
                let sack = Sack { flags, cum_tsn_ack, a_rwnd, gaps, dups };
                self.on_sack(now, path, &sack, Said { names: Names::WhatItCan, kept: &nr_gaps });
            }
            (Chunk::NrSack(sack), _) => {
                return self.on_unknown(NrSack::KIND, &Chunk::NrSack(sack).to_bytes());
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
            // Until COOKIE ACK the answer waits: nothing but COOKIE ECHO may leave (§5.1).
            (Chunk::Heartbeat(info), State::Up(up) | State::CookieEchoed { up, .. }) => {
                //= specs/rfc9260.txt#section-3.3.6
                //# An endpoint MUST send this chunk to its peer endpoint as a response to
                //# a HEARTBEAT chunk (see Section 8.3).
                up.control
                    .add_heartbeat_ack(answer_by(&self.paths, path, route.local), Chunk::HeartbeatAck(info));
                // The way here is mended. To know whether the way back is, HB.interval need not be waited for.
                let way = &mut self.paths[usize::from(path.0)];
                let may_ask = several && way.params.heartbeat_interval.is_some() && way.beat.is_none();
                way.heartbeat_due |= may_ask && way.state == PathState::Inactive;
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
            // What it brought is done; its answer goes back the way that it came.
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
            (Chunk::Abort { reflected, causes }, _) => self.on_abort(reflected, causes),
            (Chunk::Error(causes), State::CookieEchoed { .. })
                if causes.iter().any(|cause| matches!(cause, Cause::StaleCookie(_))) =>
            {
                self.on_stale_cookie(now);
            }
            //= specs/rfc9260.txt#section-5.2.6
            //# In all cases, if the association is not in the COOKIE-ECHOED state,
            //# the ERROR chunk SHOULD be silently discarded.
            // As far as it speaks of a cookie; the user hears of the rest (§11.2.6).
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
            (Chunk::Ecne { .. } | Chunk::Cwr { .. }, _) if !self.config.ecn => return Then::Stop,
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
            // Without authentication an AUTH chunk is an unknown one, and its type's high bits are 00.
            (Chunk::Auth(_), _) => return Then::Stop,
            // Chunks of the handshake that come late or early, and whatever comes when all is over (§5.2.3, §5.2.5,
            // §9.2): nothing to do.
            _ => {}
        }
        Then::Next
    }

    /// RFC 9260 §3.2: the two high bits of an unknown chunk type say what to do.
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
        up.received.came_by(path);
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
            up.received.hurry();
        }
        match up.received.look(data.tsn) {
            Seen::Duplicate => {
                self.duplicates += 1;
                // Several may come where one did not get its SACK.
                let first = !up.received.has_duplicates();
                up.received.duplicate(data.tsn);
                if up.sack_path != answered_by {
                    self.suspect_way_back(answered_by);
                } else if first && let Some(other) = another(up, &self.paths, answered_by) {
                    up.sack_path = other;
                    self.suspect_way_back(answered_by);
                }
                return;
            }
            Seen::OutOfBounds => {
                self.overruns += 1;
                return up.received.hurry();
            }
            Seen::New => {}
        }
        // The peer may have renumbered already, and its answer be under way: what could be of either numbering waits.
        if up.reconfiguration.as_ref().is_some_and(Reconfiguration::awaits_restart)
            && !(data.tsn == up.received.cum_tsn().next() && self.inbound.expects(&data))
        {
            self.overruns += 1;
            up.received.hurry();
            if let Some(reset) = &mut up.reconfiguration {
                reset.hold_early(data);
            }
            return;
        }
        self.take_data(data);
        self.take_all_early();
    }

    /// What waited for the TSNs before it while it could be of either numbering, once they have come or are skipped.
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

    /// A chunk that has not come before, if there is room for it.
    fn take_data(&mut self, data: Data) {
        let State::Up(up) = &mut self.state else { return };
        // The sender counts user data, and was promised the window in bytes of user data: what was within the promise is
        // taken, though overhead may have closed the window since, up to twice the buffer in all. Beyond, the next in
        // sequence is taken if nothing can be read: else neither side could ever go on.
        let capacity = self.buffer.bytes();
        let fits = self.inbound.unread_bytes() + data.payload.len() <= capacity
            && self.inbound.charged_bytes() < 2 * capacity;
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
            return up.received.hurry();
        }
        let tsn = data.tsn;
        up.offered_bytes = up.offered_bytes.saturating_sub(data.payload.len());
        //= specs/rfc9260.txt#section-6.2
        //# The SCTP endpoint MUST always acknowledge the reception of each valid
        //# DATA chunk when the DATA chunk received is inside its receive window.
        up.received.accept(tsn);
        let cum_tsn = up.received.cum_tsn();
        let stream = data.stream;
        let pushed = if stream.0 < self.inbound_streams {
            self.inbound.push(data, cum_tsn)
        } else {
            self.inbound.skip(tsn, cum_tsn)
        };
        if let Err(violation) = pushed {
            return self.on_violation(violation);
        }
        // What is dropped here was acknowledged in good order, and cost nothing of the window.
        if stream.0 >= self.inbound_streams {
            self.on_violation(Violation::InvalidStream(stream));
        }
        if self.a_rwnd() == 0 {
            self.inbound.relieve();
        }
        self.report_readable();
    }

    /// What was answered by a path came again, by another, or from where the answer went: its SACKs may not get through,
    /// for some peers send from one address whatever the destination, though nothing leads to it any more. They go
    /// elsewhere until a HEARTBEAT has found that it works both ways.
    //= specs/rfc9260.txt#section-6.4
    //# When a receiver of a duplicate DATA chunk sends a SACK chunk to a
    //# multi-homed endpoint, it MAY be beneficial to vary the destination
    //# address and not use the source address of the DATA chunk.
    fn suspect_way_back(&mut self, answered_by: PathId) {
        if let State::Up(up) = &mut self.state
            && self.paths[usize::from(answered_by.0)].params.heartbeat_interval.is_some()
        {
            up.sack_avoids = Some(answered_by);
            self.beat_now(answered_by);
        }
    }

    /// A packet came after a path died or came back, and the last SACK may be lost, whichever way it left: addresses do
    /// not tell wires. The packet is answered as one with DATA is; the peer could otherwise only wait for its T3, and
    /// send again what is here.
    //= specs/rfc9260.txt#section-6.2
    //# An SCTP receiver MUST NOT generate more than one SACK chunk for every
    //# incoming packet, other than to update the offered window as the
    //# receiving application consumes new data.
    // usrsctp 0.9.5 may have data in flight and no T3, once its path died just after a SACK: its T3 ends, nothing is old
    // enough for it to be lost, and T3 does not begin again. Then nothing but a SACK wakes it.
    fn repeat_sack(&mut self, path: PathId) {
        let several = self.has_several_paths();
        let State::Up(up) = &mut self.state else { return };
        if !up.sack_in_doubt || !up.received.has_data_come() || !several {
            return;
        }
        if !matches!(self.shutdown, Shutdown::No | Shutdown::Pending) {
            return;
        }
        sack_by(up, &self.paths, path);
        if carries_sacks(up, &self.paths, up.sack_path) {
            up.sack_in_doubt = false;
            up.received.repeat();
        }
    }

    fn on_packet_end(&mut self, now: Time, brought_data: bool) {
        self.settle_deferred_reset();
        let State::Up(up) = &mut self.state else { return };
        if up.received.on_packet_end(self.config.sack_frequency) {
            self.timers.arm(Timer::DelayedSack, now + self.config.sack_delay);
        }
        if let Window::Probing { answered, .. } = &mut up.window {
            *answered = true;
        }
        self.on_heard_while_shutting_down(now, brought_data);
    }

    /// A SHUTDOWN's cumulative TSN. Whether it made sense.
    pub(super) fn on_cum_tsn(&mut self, now: Time, came_by: PathId, cum_tsn_ack: Tsn) -> bool {
        let State::Up(up) = &mut self.state else { return false };
        let mut report = std::mem::take(&mut up.report);
        match up.sent.on_cum_tsn(cum_tsn_ack, &mut report) {
            Ok(()) => self.on_report(now, came_by, report),
            // An old SHUTDOWN is still one.
            Err(SackError::Outdated) => {}
            // As with a SACK; it comes again.
            Err(SackError::NeverSent)
                if up.reconfiguration.as_ref().is_some_and(Reconfiguration::awaits_restart) =>
            {
                return false;
            }
            Err(_) => {
                self.on_violation(Violation::AckOfNothing);
                return false;
            }
        }
        true
    }

    /// `kept`: those of its gap blocks of which the peer promises to keep what they name.
    fn on_sack(&mut self, now: Time, came_by: PathId, sack: &Sack, Said { names, kept }: Said<'_>) {
        //= specs/rfc9260.txt#section-6
        //# A SACK chunk MUST be processed in ESTABLISHED, SHUTDOWN-PENDING, and
        //# SHUTDOWN-RECEIVED states.
        let State::Up(up) = &mut self.state else { return };
        let mut report = std::mem::take(&mut up.report);
        let multipath = by_the_literature(&self.config);
        if multipath {
            up.points.resize_with(self.paths.len(), PseudoCum::default);
        } else if self.config.multipath.is_some() && up.sent.is_behind(sack) {
            up.report = report;
            return;
        }
        let sound = make_sense(&sack.gaps) && !sack.cum_tsn_ack.before(up.sent.cum_tsn_ack_point());
        let points = if multipath && sound { advance(&mut up.points, &up.sent, sack) } else { Vec::new() };
        let counting = match self.config.loss_detection {
            LossDetection::MissingReports if multipath => Counting::Multipath { packets: sack.flags.max(1) },
            LossDetection::SendOrder => Counting::Off,
            LossDetection::MissingReports => {
                let in_recovery =
                    |path: &crate::association::path::Path| matches!(path.recovery, Recovery::Fast(_));
                if self.paths.iter().any(in_recovery) { Counting::InRecovery } else { Counting::BelowNewest }
            }
        };
        match up.sent.on_sack(sack, counting, &mut report) {
            Ok(()) if make_sense(&sack.gaps) => up.sent.release(sack.cum_tsn_ack, kept),
            // None of its blocks were believed.
            Ok(()) => {}
            Err(SackError::Outdated) => return,
            Err(SackError::TakenBack) => return self.on_violation(Violation::AckTakenBack),
            // Of what the peer renumbered, for all that is known here.
            Err(SackError::NeverSent)
                if up.reconfiguration.as_ref().is_some_and(Reconfiguration::awaits_restart) =>
            {
                return;
            }
            Err(SackError::NeverSent) => return self.on_violation(Violation::AckOfNothing),
        }
        match names {
            Names::WhatItCan => {}
            Names::All => report.silent_beyond = None,
            Names::TheFirst => {
                let last = sack.gaps.last().map_or(0, |(_, last)| *last);
                report.silent_beyond = Some(sack.cum_tsn_ack.plus(u32::from(last)));
            }
        }
        for (said, advanced) in report.paths.iter_mut().zip(points) {
            said.point_advanced = advanced;
        }
        //= specs/rfc9260.txt#section-6.2.1
        //# ii)   Set rwnd equal to the newly received a_rwnd minus the
        //# number of bytes still outstanding after processing the
        //# Cumulative TSN Ack and the Gap Ack Blocks.
        // The subtraction is made where the window is asked for: what is in flight changes.
        let full_chunk = self.paths[usize::from(up.primary.0)].payload_max(self.queue.header_len());
        let was_narrow = up.peer_a_rwnd < full_chunk;
        //= specs/rfc9260.txt#section-6.2.1
        //# An endpoint SHOULD use the following rules to calculate the rwnd,
        //# using the a_rwnd value, the Cumulative TSN Ack, and Gap Ack Blocks in
        //# a received SACK chunk.
        up.peer_a_rwnd = sack.a_rwnd as usize;
        let reopened = was_narrow && up.peer_a_rwnd >= full_chunk;
        if reopened && up.window == Window::ProbeDue {
            up.window = Window::Open;
        }
        let advanced = report.cum_advanced;
        self.on_report(now, came_by, report);
        if !sack.dups.is_empty() {
            self.on_duplicates(now, &sack.dups);
        }
        if reopened && !advanced {
            self.on_window_reopened();
        }
        self.advance_shutdown(now);
    }

    /// The peer's window opened and nothing was acknowledged: what was sent into the closed window was dropped there, and
    /// need not wait for a timer that has backed off.
    fn on_window_reopened(&mut self) {
        let State::Up(up) = &mut self.state else { return };
        self.timers.stop(Timer::ZeroWindow);
        let probing = matches!(up.window, Window::Probing { .. });
        up.window = Window::Open;
        for (index, path) in self.paths.iter_mut().enumerate() {
            if probing || path.timeouts_unanswered > 0 {
                path.flight_bytes -= up.sent.mark_path_lost(PathId(index as u8));
                self.timers.stop(Timer::T3Rtx(PathId(index as u8)));
            }
        }
    }

    /// Draws the consequences of what a SACK or SHUTDOWN said.
    fn on_report(&mut self, now: Time, came_by: PathId, report: Report) {
        let State::Up(up) = &mut self.state else { return };
        let cum_tsn_ack_point = up.sent.cum_tsn_ack_point();
        //= specs/rfc9260.txt#section-8.1
        //# The counter used for endpoint failure detection MUST be reset each
        //# time a DATA chunk sent to that peer endpoint is acknowledged (by the
        //# reception of a SACK chunk).
        if report.paths.iter().any(|said| said.acked_bytes > 0) {
            up.errors = 0;
        }
        if matches!(up.window, Window::Probing { tsn, .. } if !tsn.after(cum_tsn_ack_point)) {
            up.window = Window::Open;
        }
        up.retransmissions_left = None;
        let rfc4960 = self.config.loss_recovery == LossRecovery::Rfc4960;
        let several = self.config.multipath.is_some();
        let multipath = by_the_literature(&self.config);
        if several {
            up.chance = self.rng.next_u32();
        }
        if multipath && report.paths.iter().any(|said| said.lost) {
            for (path, said) in self.paths.iter_mut().zip(&report.paths) {
                path.fast_retransmit_due = said.lost;
            }
        }
        let coupling = self.config.multipath.map_or(Coupling::None, |multipath| multipath.coupling);
        let mut coupled = std::mem::take(&mut up.coupled);
        for index in 0..self.paths.len() {
            let id = PathId(index as u8);
            let said = &report.paths[index];
            coupled.find_siblings(&self.paths, id, coupling);
            let path = &mut self.paths[index];
            path.marked_up_to.take_if(|exit| !exit.after(cum_tsn_ack_point));
            let was_silent_beyond = std::mem::replace(&mut path.silent_beyond, report.silent_beyond);
            let (flight_before, lost_before) = (path.flight_bytes, path.lost_bytes);
            path.flight_bytes = path.flight_bytes + said.reneged_bytes - said.landed_bytes;
            let mut sample = None;
            // What came by one of several paths is answered at once by that path, and by others when they come to it: which
            // is no measure, but for a path whose own answers come too late to be news.
            if came_by == id && said.acked_bytes > 0 {
                path.answered_at = Some(now);
            }
            let tells = |path: &Path| {
                let lately = path.rtt.srtt().unwrap_or(path.rtt.rto()) * 2;
                !several || multipath || path.answered_at == Some(now) || {
                    path.answered_at.is_none_or(|at| now.since(at) > lately)
                }
            };
            // Of what the last SACK had no room for, nobody knows when it came.
            let in_time = |arrival: &Arrival| was_silent_beyond.is_none_or(|last| !arrival.tsn.after(last));
            if let Some(arrival) = said.measurable.filter(in_time) {
                //= specs/rfc9260.txt#section-6.3.1
                //# RTT measurements SHOULD only be made using a DATA chunk with TSN
                //# r if no DATA chunk with TSN less than or equal to r was
                //# retransmitted since the DATA chunk with TSN r was sent first.
                // A gap block, though, says that r itself has arrived, whatever became of those below. Not so after a
                // time-out: what is told then may have arrived long before, and have waited for nothing but the
                // time-out. Each would make the next one longer.
                let after = |event: Option<Time>| event.is_some_and(|at| at >= arrival.sent_at);
                if !after(if arrival.by_gap { path.timed_out_at } else { path.retransmitted_at }) {
                    //= specs/rfc9260.txt#section-6.3.1
                    //# C5)  Karn's algorithm: RTT measurements MUST NOT be made using chunks
                    //# that were retransmitted (and thus for which it is ambiguous
                    //# whether the reply was for the first instance of the chunk or for
                    //# a later instance).
                    let round_trip = now.since(arrival.sent_at);
                    if tells(path) {
                        path.measure(now, round_trip);
                        sample = Some(round_trip);
                    }
                }
            }
            if let Some(arrival) = said.newest {
                // An answer sooner than any round trip ever took is one to an earlier transmission.
                let first = arrival.transmissions == 1;
                let since = now.since(arrival.sent_at);
                if first || path.min_rtt.is_some_and(|min| since >= min) {
                    if let Some(send_order) = &mut path.send_order {
                        send_order.on_arrived(arrival.order);
                    }
                    // To a controller it is one: if it was an earlier transmission that was answered, the round trip
                    // was longer yet. It would know nothing of a path that carries what another has lost.
                    sample = sample.or((in_time(&arrival) && tells(path)).then_some(since));
                }
            }
            let cum_advanced = match several {
                true if multipath => said.point_advanced,
                // Of several paths, each has an order of its own.
                true => said.earliest_acked,
                false => report.cum_advanced,
            };
            if said.acked_bytes > 0 {
                //= specs/rfc7829.txt#section-3.2
                //# Acknowledgments for chunks that have been transmitted to
                //# multiple destinations (i.e., a chunk that has been retransmitted
                //# to a different destination address than the destination address
                //# to which the chunk was first transmitted) SHOULD NOT clear the
                //# error count for an inactive destination address and SHOULD NOT
                //# move a destination address in PF state back to active state,
                //# since a sender cannot disambiguate whether the ACK was for the
                //# original transmission or the retransmission(s).
                //= specs/rfc9260.txt#section-8.2
                //# When an outstanding TSN is acknowledged or a HEARTBEAT chunk sent to
                //# that address is acknowledged with a HEARTBEAT ACK chunk, the endpoint
                //# SHOULD clear the error counter of the destination transport address to
                //# which the DATA chunk was last sent (or HEARTBEAT chunk was sent) and
                if said.proven || path.state == PathState::Active {
                    path.errors = 0;
                    path.timeouts_unanswered = 0;
                }
                if said.proven && came_by == id {
                    path.in_doubt = false;
                }
                if let Some(pmtu) = &mut path.pmtu {
                    pmtu.vindicate(said.largest_packet.into(), Time::ZERO);
                    if let Some(newest) = said.newest {
                        pmtu.vindicate(newest.packet_bytes.into(), newest.sent_at);
                    }
                }
                path.probes_unanswered = 0;
                path.probe_due = false;
                //= specs/rfc7829.txt#section-3.2
                //# Acknowledgments for data chunks that have been transmitted to
                //# one destination address only MUST clear the error counter for
                //# the destination address and MUST transition a destination
                //# address in PF state back to active state.
                if said.proven && matches!(path.state, PathState::Inactive | PathState::PotentiallyFailed) {
                    path.state = PathState::Active;
                    if let State::Up(up) = &mut self.state {
                        up.sack_in_doubt = true;
                    }
                    self.events.push_back(Event::Path(id, PathState::Active));
                }
                //= specs/rfc9260.txt#section-7.2.4
                //# Note: Before the above adjustments, if the received SACK chunk also
                //# acknowledges new DATA chunks and advances the Cumulative TSN Ack
                //# Point, the cwnd adjustment rules defined in Sections 7.2.1 and 7.2.2
                //# MUST be applied first.
                //= specs/rfc9260.txt#section-7.2.1
                //# In instances where its peer endpoint is multi-homed, if an endpoint
                //# receives a SACK chunk that results in updating the cwnd, then it
                //# SHOULD update its cwnd (or cwnds) apportioned to the destination
                //# addresses to which it transmitted the acknowledged data.
                let round_trip = path.rtt.srtt().unwrap_or(path.latest_rtt);
                path.between_losses[0] = path.between_losses[0].saturating_add(said.acked_bytes as u64);
                path.meter.on_arrived(now, said.acked_bytes, round_trip);
                path.controller.on_ack(cc::Ack {
                    now,
                    bytes: said.acked_bytes,
                    flight_before,
                    mtu: path.pmdcs(),
                    rtt: sample,
                    srtt: path.rtt.srtt(),
                    cum_advanced,
                    in_recovery: match path.recovery {
                        Recovery::Fast(_) if multipath => false,
                        Recovery::Fast(exit) if rfc4960 => exit.after(cum_tsn_ack_point),
                        recovery => matches!(recovery, Recovery::Fast(_)),
                    },
                    siblings: &coupled.siblings,
                });
            }
            // What the cumulative point is to one path, the earliest that is outstanding is to each of several.
            let done_up_to = match &mut self.state {
                State::Up(up) if several && !multipath => {
                    up.sent.earliest(id).unwrap_or(up.sent.next_tsn()).minus(1)
                }
                _ => cum_tsn_ack_point,
            };
            match path.recovery {
                //= specs/rfc9260.txt#section-6.2.1
                //# iv)   If the Cumulative TSN Ack matches or exceeds the Fast
                //# Recovery exit point (Section 7.2.4), Fast Recovery is
                //# exited.
                Recovery::Fast(exit) | Recovery::AfterTimeout(exit) if !exit.after(done_up_to) => {
                    path.recovery = Recovery::No;
                    path.reduction = None;
                }
                _ => {}
            }
            let pmdcs = path.pmdcs();
            if said.lost {
                path.on_lost(now, said.lost_bytes, said.lost_sent_at);
                self.on_loss(now, id, flight_before, said.highest_lost);
            }
            self.detect_losses(now, id, flight_before);
            if let (Coupling::Detected, Some(round_trip)) = (coupling, sample) {
                coupled.bottlenecks.on_round_trip(now, id, round_trip, &self.paths);
            }
            let path = &mut self.paths[index];
            if let Some(reduction) = path.reduction.as_mut().filter(|_| path.recovery != Recovery::No) {
                reduction.on_progress(Progress {
                    delivered: said.acked_bytes,
                    flight_bytes: path.flight_bytes,
                    target: path.controller.window(),
                    mtu: pmdcs,
                    is_safe: cum_advanced && path.lost_bytes == lost_before,
                });
            }
            let restarts = match self.config.loss_detection {
                LossDetection::MissingReports => said.earliest_acked,
                // Where a lost retransmission is found like anything else, T3 waits for silence.
                LossDetection::SendOrder => said.acked_bytes > 0,
            };
            self.settle_t3(now, id, restarts, said.reneged_bytes > 0);
            if said.acked_bytes > 0 {
                self.arm_tail_probe(now, id);
            }
        }
        let brought_data = report.paths.iter().any(|said| said.acked_bytes > 0);
        let cum = if !report.cum_advanced {
            Cum::Same
        } else if brought_data {
            Cum::Advanced
        } else {
            Cum::Forwarded
        };
        if let State::Up(up) = &mut self.state {
            up.report = report;
            up.coupled = coupled;
            // A SACK that has no room for all names what is missing before. If it did not, nothing else would leave.
            if up.sent.flight_bytes() == 0 && up.sent.next_lost().is_none() {
                for index in 0..self.paths.len() {
                    up.sent.mark_path_lost(PathId(index as u8));
                }
            }
        }
        //= specs/rfc3758.txt#section-3.5
        //# A4) Whenever the data sender receives a SACK from the data receiver,
        //# it MUST first process the SACK using the normal procedures as
        //# defined in Section 6.2.1 of RFC 2960 [2].
        //= specs/rfc3758.txt#section-3.5
        //# The data sender MUST then perform the following additional steps:
        self.forward_on_sack(now, cum);
        self.report_writable();
    }

    /// RFC 9260 §6.3.2 R2 to R4.
    fn settle_t3(&mut self, now: Time, id: PathId, restarts: bool, reneged: bool) {
        let State::Up(up) = &mut self.state else { return };
        let t3 = Timer::T3Rtx(id);
        let path = &self.paths[usize::from(id.0)];
        if path.flight_bytes == 0 {
            //= specs/rfc9260.txt#section-6.3.2
            //# R2)  Whenever all outstanding data sent to an address have been
            //# acknowledged, turn off the T3-rtx timer of that address.
            // What is lost and not in flight leaves again in the next drain, which starts the timer (R1).
            self.timers.stop(t3);
            self.timers.stop(Timer::TailProbe(id));
            self.timers.stop(Timer::Overdue(id));
        } else if restarts && up.sent.earliest(id).is_some() {
            //= specs/rfc9260.txt#section-6.3.2
            //# R3)  Whenever a SACK chunk is received that acknowledges the DATA
            //# chunk with the earliest outstanding TSN for that address,
            //# restart the T3-rtx timer for that address with its current RTO
            //# (if there is still outstanding data on that address).
            self.timers.arm(t3, now + path.rtt.rto());
        } else if reneged {
            //= specs/rfc9260.txt#section-6.3.2
            //# R4)  Whenever a SACK chunk is received missing a TSN that was
            //# previously acknowledged via a Gap Ack Block, start the T3-rtx
            //# for the destination address to which the DATA chunk was
            //# originally transmitted if it is not already running.
            self.timers.arm_if_idle(t3, now + path.rtt.rto());
        }
    }
}
